/* pickle.h - reads a Python pickle as plain data. It imports, calls and executes nothing.
 *
 * A value is a node in a graph. Memoised values are shared by reference, so the graph can have
 * shared parts and cycles. Bound depth and steps when you walk the graph. OrderedDict() and
 * defaultdict() of collections become dicts. torch.Size(x) becomes x. Every other call becomes a
 * PICKLE_CALL node with its callable and its arguments. The caller decides about such calls.
 *
 * The reader supports all opcodes of protocols 0 to 5, except those for extension registries,
 * out-of-band buffers and persistent ids as text. torch.save with protocol 0 writes such ids, which
 * PyTorch cannot load either. A pickle may have max_values (at most 10^6) values of 36 bytes on
 * average. The stack and the memo may have as many entries each. Values may be nested 64 levels
 * deep, and there may be 16 million opcodes. Texts of more than 64 KiB are not read and become
 * PICKLE_LONG_TEXT.
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
    PICKLE_BOOL,   /* u.integer is 0 or 1 */
    PICKLE_INT,    /* u.integer is the value */
    PICKLE_FLOAT,  /* u.number is the value */
    PICKLE_STRING, /* str, bytes or a string of Python 2: u.text has `count` bytes and a NUL */
    PICKLE_TUPLE,  /* u.items has `count` values */
    PICKLE_LIST,
    PICKLE_SET,
    PICKLE_DICT,   /* u.items has `count` values: key, value, key, value... */
    PICKLE_GLOBAL, /* u.text is "module.name" */
    /* u.items has PICKLE_CALL_ITEMS values: the callable, its arguments, the state that BUILD sets,
     * and the dict of added items. The last two may be NULL. */
    PICKLE_CALL,
    PICKLE_PERSISTENT, /* u.items[0] is the persistent id */
    /* u.integer is the offset of the text in the source. See `encoding` and pickle_long_size. */
    PICKLE_LONG_TEXT,
    PICKLE_OPAQUE, /* an integer of more than 64 bits, whose value is not kept */
} pickle_kind;

enum { PICKLE_CALLABLE, PICKLE_ARGUMENTS, PICKLE_STATE, PICKLE_CONTENTS, PICKLE_CALL_ITEMS };

/* The encoding of a long text (PICKLE_LONG_TEXT) in the source. */
typedef enum pickle_encoding {
    PICKLE_PLAIN,
    PICKLE_ESCAPED_BYTES, /* a string of Python 2 without its quotes, with escapes such as \x00 */
    PICKLE_ESCAPED_TEXT,  /* Latin-1, with escapes such as \u20ac for all other characters */
} pickle_encoding;

typedef struct pickle_value pickle_value;

struct pickle_value {
    uint8_t kind;
    uint8_t depth;    /* number of levels of values inside this value, when it was built */
    uint8_t encoding; /* the pickle_encoding of a PICKLE_LONG_TEXT */
    uint32_t count;
    uint32_t capacity; /* number of items for which a growing container has memory */
    union {
        int64_t integer;
        double number;
        const char *text;
        pickle_value **items;
    } u;
};

typedef struct pickle_document {
    pickle_value *root;
    pickle_value **persistent; /* all PICKLE_PERSISTENT values, in the order of the file */
    size_t persistent_count;
    uint64_t end; /* offset of the byte after the STOP opcode */
    memory_arena memory;
} pickle_document;

enum { PICKLE_FEW_VALUES = 50000, PICKLE_MAX_VALUES = 1000000 };

/* Reads a pickle that starts at byte `start` and must stop before `end`. On failure there is
 * nothing to free. */
bool pickle_load(pickle_document *document, const source *s, uint64_t start, uint64_t end,
                 size_t max_values, report *r);
void pickle_free(pickle_document *document);

/* Returns the value of a string key. If the dict has several equal keys, returns the value of the
 * last one, as in Python. Returns NULL if the value is no dict or lacks the key. */
const pickle_value *pickle_get(const pickle_value *dict, const char *key);
/* True if the value is of this kind and has this text. */
bool pickle_is_text(const pickle_value *value, pickle_kind kind, const char *text);

/* Returns the number of bytes that a PICKLE_LONG_TEXT has in the source. */
uint64_t pickle_long_size(const pickle_value *long_text);

/* Decodes `size` bytes of an encoded text to plain bytes or UTF-8. Returns the length of the
 * result, which is at most 2 * size. The buffer at `to` has 2 * size bytes; `from` may be the
 * second half of this buffer. */
size_t pickle_decode(pickle_encoding encoding, const uint8_t *from, size_t size, uint8_t *to);

#endif
