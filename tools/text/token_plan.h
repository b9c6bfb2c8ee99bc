/* token_plan.h - an unfinished tokenizer: its tables, and the bytes that are already final.
 *
 * A piece is a text that the tokenizer turns into one token. A merge is a pair of pieces that BPE
 * joins. A step is a change to the text, such as lower case, before the text is split into pieces.
 * A raw token is a text that becomes one token and is not split into pieces. */
#ifndef TOKEN_PLAN_H
#define TOKEN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/report.h"
#include "text/tokenizer.h"
#include "vit.h"

/* Values in the header of a tokenizer's data. The section >>text of vit.h lists them. */
enum {
    TPLAN_NONE = -1,

    TPLAN_BPE_BYTES = 0,
    TPLAN_BPE_CHARS = 1,
    TPLAN_UNIGRAM = 2,

    TPLAN_SPLIT_NONE = 0,
    TPLAN_SPLIT_CLASSES = 1,
    TPLAN_SPLIT_SPACE = 2,

    TPLAN_FUSES = 1,
    TPLAN_DOUBLE = 2,

    TPLAN_STEP_MAP = 1,
    TPLAN_STEP_COLLAPSE = 2,
    TPLAN_STEP_PREPEND = 3,
    TPLAN_STEP_COMPOSE = 4,
    TPLAN_STEP_SIGMA = 5,
    TPLAN_STEP_ENTITIES = 6,

    TPLAN_END_OF_WORD = 0xff,
    TPLAN_MAX_PIECE = 1024,
    TPLAN_MAX_STEPS = 64,
};

/* An entry of a table: a key with a number, or, in a map, a key with the bytes that replace it. */
typedef struct tplan_entry {
    const char *key;
    uint32_t key_size;
    uint32_t number; /* the score of a piece, the rank of a merge, or the id of a token */
    /* For a piece, its id. For a merge, the number of bytes in its left half; 0 if any split is
     * allowed. */
    uint32_t id;
    const char *value; /* only in maps: the value, `value_size` bytes */
    uint32_t value_size;
} tplan_entry;

typedef struct tplan_table {
    tplan_entry *items;
    size_t count, capacity;
} tplan_table;

typedef struct tplan_bytes {
    unsigned char *data;
    size_t size, capacity;
} tplan_bytes;

typedef struct tplan_steps {
    /* The four numbers of each step, as the tokenizer's data stores them. */
    uint32_t rows[TPLAN_MAX_STEPS][4];
    size_t count;
} tplan_steps;

typedef struct tplan {
    int algorithm, split, flags, context, num_ids;
    int begin, end, pad, unknown;
    float lowest_score, first_score;
    tplan_table pieces, merges, words, raw, cleaned;
    uint32_t byte_ids[256]; /* the ids of the 256 bytes, for characters that have no piece */
    bool has_bytes;
    /* `first` runs before raw tokens are found, and `steps` runs after that. */
    tplan_steps first, steps;
    double growth;          /* the largest factor by which a step can lengthen a text */
    tplan_bytes blob;       /* the tables that the steps use */
    memory_arena memory;    /* the memory of all keys and values */
    unsigned char *unicode; /* Unicode's tables, decoded; NULL until a step needs them */
    bool no_memory;
} tplan;

/* Makes an empty tokenizer. */
void tplan_start(tplan *p);
void tplan_free(tplan *p);

/* These functions copy a key and its value into a table. tplan_add_pair is for maps. */
void tplan_add(tplan *p, tplan_table *table, const char *key, size_t key_size, uint32_t number,
               uint32_t id);
void tplan_add_pair(tplan *p, tplan_table *table, const char *key, size_t key_size,
                    const char *value, size_t value_size);
/* Returns the entry with this key; NULL if there is none. The table must be sorted. */
tplan_entry *tplan_find(const tplan_table *table, const char *key, size_t size);
/* Sorts the table by key. */
void tplan_sort(tplan_table *table);
void tplan_free_table(tplan_table *table);

/* These functions append a step to `steps`. A map replaces each key by its value. A map may contain
 * a key twice if both values are equal. */
void tplan_step_map(tplan *p, tplan_steps *steps, tplan_table *map);
void tplan_step_replace(tplan *p, tplan_steps *steps, const char *from, const char *to);
void tplan_step_prepend(tplan *p, tplan_steps *steps, const char *text, bool unless_there);

/* These functions append steps that use Unicode's tables. */
enum { TPLAN_TRIM_BEGIN = 1, TPLAN_TRIM_END = 2 };
enum { TPLAN_LETTER = 1, TPLAN_NUMBER = 2, TPLAN_WHITE_SPACE = 4, TPLAN_PYTHON_SPACE = 8 };
/* Replaces each run of characters of `kinds` by one space, and trims the ends that `trim` names. */
void tplan_step_collapse(tplan *p, tplan_steps *steps, unsigned kinds, unsigned trim);
/* Does the same as tplan_step_collapse, but only for U+0020. */
void tplan_step_collapse_spaces(tplan *p, tplan_steps *steps, unsigned trim);
/* Removes every character `code` at the end of the text. */
void tplan_step_trim_end(tplan *p, tplan_steps *steps, uint32_t code);
void tplan_step_lower(tplan *p, tplan_steps *steps);
/* Makes lower case as Python's str.lower does, with the final sigma. */
void tplan_step_lower_python(tplan *p, tplan_steps *steps);
/* Normalises to NFC if `compose` is true, otherwise to NFD. */
void tplan_step_compose(tplan *p, tplan_steps *steps, bool compose);
/* Cleans the text as ftfy does, but does not repair wrongly decoded text (mojibake). */
void tplan_step_ftfy(tplan *p, tplan_steps *steps);
/* Replaces HTML entities twice, each time as Python's html.unescape does. */
void tplan_step_entities(tplan *p, tplan_steps *steps);
/* Removes the characters of string.punctuation. */
void tplan_step_punctuation(tplan *p, tplan_steps *steps);

/* Checks the tables and writes the tokenizer's data to *blob. The finished tokenizer then computes
 * the ids of the examples, which are added to the data. */
bool tplan_write(tplan *p, tokenizer_blob *blob, report *r);

/* === Readers, which turn the files of a tokenizer into a plan === */

#define CLIP_BEGIN "<|startoftext|>"
#define CLIP_END   "<|endoftext|>"

/* Settings from the files beside a tokenizer. */
typedef struct text_facts {
    char class_name[64];
    char begin[64], end[64], pad[64]; /* texts of these tokens; "" if a file does not give them */
    /* 1 if the token must be added, 0 if not, -1 if no file states this. */
    int add_begin, add_end;
    bool lower_case;
    int context; /* largest number of ids; 0 if no file gives it */
} text_facts;

/* Reads a whole text file into malloc'ed memory, with a NUL at the end. */
bool read_text(const char *path, char **text, size_t *size, report *r);

/* These functions read pieces, merges, and the begin and end tokens. */
bool clip_read_bpe(tplan *p, const char *path, report *r); /* `path` is a .txt or .txt.gz file */
bool clip_read_vocab(tplan *p, const char *vocab, const char *merges, report *r);

/* These functions add a piece or a merge in GPT-2's characters. `suffix`, or "", marks the end of a
 * word. They return false if a text is empty or too long, or has other characters. */
bool clip_add_piece(tplan *p, const char *piece, size_t size, const char *suffix, uint32_t id);
bool clip_add_merge(tplan *p, const char *left, size_t left_size, const char *right,
                    size_t right_size, const char *suffix, uint32_t rank);

/* Adds the words, such as "'s", that CLIP's pattern tries before letters, numbers and other
 * characters. With `ignore_case`, U+017F counts as s, as in Python's regex, and the begin and end
 * tokens are words too. */
void clip_add_words(tplan *p, bool ignore_case);

/* Reads a tokenizer.json. *precompiled becomes true if the normalizer is or contains "Precompiled",
 * which is read only from a .model file. */
bool json_tokenizer_read(tplan *p, const char *path, const text_facts *facts, bool *precompiled,
                         report *r);

/* Reads the pieces, the normalisation, and the begin, end and pad tokens of a .model file. Control
 * symbols and the unknown piece become raw tokens. If `siglip` is set, texts get the scores of
 * SiglipTokenizer, which puts a prefix before a text and removes it again. */
bool spiece_read(tplan *p, const char *path, bool siglip, report *r);
/* Adds the pairs of a precompiled_charsmap to *map, except pairs whose key begins with a key of
 * `fixed`. */
bool spiece_charsmap(tplan *p, const uint8_t *data, size_t size, const tplan_table *fixed,
                     tplan_table *map, report *r);

#endif
