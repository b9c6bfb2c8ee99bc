/* pickle.h - reads a Python pickle as plain data. It imports, calls and executes nothing.
 *
 * A value is a node in a graph. Memoised values are shared by reference, so the graph can have
 * shared parts and cycles. Bound depth and steps when you walk the graph. collections.OrderedDict()
 * becomes a dict and torch.Size(x) becomes x; every other call stays a PICKLE_CALL node with its
 * callable and its arguments, for the caller to judge.
 *
 * It reads all opcodes of protocols 0 to 5, except extension registries, out-of-band buffers and
 * persistent ids as text (torch.save with protocol 0, which PyTorch cannot load either). The limits
 * are max_values (at most 10^6) values of 36 bytes on average, as many entries in the stack and in
 * the memo, 64 levels of nesting, and 16 million opcodes. Texts of more than 64 KiB are not read
 * and become PICKLE_LONG_TEXT.
 */
#ifndef PICKLE_H
#define PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"

#define PICKLE_MAX_DEPTH 64

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,   /* integer */
    PICKLE_INT,    /* integer */
    PICKLE_FLOAT,  /* number */
    PICKLE_STRING, /* text, count bytes and a NUL, for str, bytes and Python 2 strings */
    PICKLE_TUPLE,  /* count items */
    PICKLE_LIST,
    PICKLE_SET,
    PICKLE_DICT,       /* count items: key, value, key, value... */
    PICKLE_GLOBAL,     /* text: "module.name" */
    PICKLE_CALL,       /* items: callable, arguments, state (BUILD) or NULL, dict or NULL */
    PICKLE_PERSISTENT, /* items: the persistent id */
    PICKLE_LONG_TEXT,  /* integer: its offset in the source; encoding; pickle_long_size */
    PICKLE_OPAQUE,     /* integer of more than 64 bits */
} pickle_kind;

enum { PICKLE_CALLABLE, PICKLE_ARGUMENTS, PICKLE_STATE, PICKLE_CONTENTS, PICKLE_CALL_ITEMS };

/* The encoding of a long text in the source. */
typedef enum pickle_encoding {
    PICKLE_PLAIN,
    PICKLE_ESCAPED_BYTES, /* a string of Python 2 as source code, without its quotes: \x00 */
    PICKLE_ESCAPED_TEXT,  /* Latin-1, with escapes such as \u20ac for all other characters */
} pickle_encoding;

typedef struct pickle_value pickle_value;

struct pickle_value {
    uint8_t kind;
    uint8_t depth;    /* depth of the values in it, at the time when it was built */
    uint8_t encoding; /* encoding of a long text */
    uint32_t count;
    uint32_t capacity; /* capacity of items, while a container grows */
    union {
        int64_t integer;
        double number;
        const char *text;
        pickle_value **items;
    } u;
};

typedef struct pickle_document {
    pickle_value *root;
    pickle_value **persistent; /* every PICKLE_PERSISTENT, in order */
    size_t persistent_count;
    uint64_t end; /* offset after the STOP opcode */
    memory_arena memory;
} pickle_document;

enum { PICKLE_FEW_VALUES = 50000, PICKLE_MAX_VALUES = 1000000 };

/* Reads a pickle that starts at byte `start` and must stop before `end`. On failure there is
 * nothing to free. */
bool pickle_load(pickle_document *document, const source *s, uint64_t start, uint64_t end,
                 size_t max_values, report *r);
void pickle_free(pickle_document *document);

/* Returns the value of a string key. The last of equal keys counts, as in Python. NULL if the dict
 * lacks the key. */
const pickle_value *pickle_get(const pickle_value *dict, const char *key);
bool pickle_is_text(const pickle_value *value, pickle_kind kind, const char *text);

uint64_t pickle_long_size(const pickle_value *long_text);

/* Decodes an encoded text to bytes or UTF-8. Returns the length, at most twice `size`. The buffer
 * at `to` has 2 * size bytes; `from` may be the second half of this buffer. */
size_t pickle_decode(pickle_encoding encoding, const uint8_t *from, size_t size, uint8_t *to);

#endif
