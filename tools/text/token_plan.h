/* token_plan.h - an unfinished tokenizer: its tables, and the bytes that are already final.
 */
#ifndef TOKEN_PLAN_H
#define TOKEN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/report.h"
#include "text/tokenizer.h"
#include "vit.h"

/* Values of the header, which >>text of vit.h lists. */
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

/* A key with a number or, in maps, with a value of other bytes. */
typedef struct tplan_entry {
    const char *key;
    uint32_t key_size;
    uint32_t number;   /* the score of a piece, the rank of a merge, or the id of a token */
    uint32_t id;       /* the id of a piece; for a merge, the bytes in the left half (0: any) */
    const char *value; /* for maps */
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
    uint32_t rows[TPLAN_MAX_STEPS][4];
    size_t count;
} tplan_steps;

typedef struct tplan {
    int algorithm, split, flags, context, num_ids;
    int begin, end, pad, unknown;
    float lowest_score, first_score;
    tplan_table pieces, merges, words, raw, cleaned;
    uint32_t byte_ids[256]; /* ids of the bytes of unknown characters */
    bool has_bytes;
    tplan_steps first, steps; /* the steps before and after raw tokens are found */
    double growth;            /* largest factor by which the steps lengthen a text */
    tplan_bytes blob;         /* tables of steps */
    memory_arena memory;      /* keys and values */
    unsigned char *unicode;   /* tables, in memory */
    bool no_memory;
} tplan;

void tplan_start(tplan *p);
void tplan_free(tplan *p);

/* Keys and values are copied. */
void tplan_add(tplan *p, tplan_table *table, const char *key, size_t key_size, uint32_t number,
               uint32_t id);
void tplan_add_pair(tplan *p, tplan_table *table, const char *key, size_t key_size,
                    const char *value, size_t value_size);
tplan_entry *tplan_find(const tplan_table *table, const char *key, size_t size); /* once sorted */
void tplan_sort(tplan_table *table);                                             /* by key */
void tplan_free_table(tplan_table *table);

/* Adds steps. A map has pairs; keys may be repeated if their values are equal. */
void tplan_step_map(tplan *p, tplan_steps *steps, tplan_table *map);
void tplan_step_replace(tplan *p, tplan_steps *steps, const char *from, const char *to);
void tplan_step_prepend(tplan *p, tplan_steps *steps, const char *text, bool unless_there);

/* Steps with Unicode's tables. */
enum { TPLAN_TRIM_BEGIN = 1, TPLAN_TRIM_END = 2 };
enum { TPLAN_LETTER = 1, TPLAN_NUMBER = 2, TPLAN_WHITE_SPACE = 4, TPLAN_PYTHON_SPACE = 8 };
void tplan_step_collapse(tplan *p, tplan_steps *steps, unsigned kinds, unsigned trim);
void tplan_step_collapse_spaces(tplan *p, tplan_steps *steps, unsigned trim); /* U+0020 only */
void tplan_step_trim_end(tplan *p, tplan_steps *steps, uint32_t code); /* removes this character */
void tplan_step_lower(tplan *p, tplan_steps *steps);
void tplan_step_lower_python(tplan *p, tplan_steps *steps); /* str.lower: with the final sigma */
void tplan_step_compose(tplan *p, tplan_steps *steps, bool compose); /* NFC, or NFD */
void tplan_step_ftfy(tplan *p, tplan_steps *steps);        /* all but the repair of mojibake */
void tplan_step_entities(tplan *p, tplan_steps *steps);    /* html.unescape, twice */
void tplan_step_punctuation(tplan *p, tplan_steps *steps); /* string.punctuation is removed */

/* Checks the tables and writes the tokenizer. The tokenizer itself computes the ids of the
 * examples. */
bool tplan_write(tplan *p, tokenizer_blob *blob, report *r);

/* === Readers: the file of a tokenizer into a plan === */

#define CLIP_BEGIN "<|startoftext|>"
#define CLIP_END   "<|endoftext|>"

/* Settings in the files beside a tokenizer. */
typedef struct text_facts {
    char class_name[64];
    char begin[64], end[64], pad[64]; /* tokens, or "" */
    int add_begin, add_end;           /* -1: unset */
    bool lower_case;
    int context; /* 0: unset */
} text_facts;

/* Reads a whole text file, malloc'ed, with a NUL at the end. */
bool read_text(const char *path, char **text, size_t *size, report *r);

/* Reads pieces and merges, begin and end. */
bool clip_read_bpe(tplan *p, const char *path, report *r); /* .txt or .txt.gz */
bool clip_read_vocab(tplan *p, const char *vocab, const char *merges, report *r);

/* Adds pieces written in GPT-2's characters; false if the piece has other characters. */
bool clip_add_piece(tplan *p, const char *piece, size_t size, const char *suffix, uint32_t id);
bool clip_add_merge(tplan *p, const char *left, size_t left_size, const char *right,
                    size_t right_size, const char *suffix, uint32_t rank);

/* Adds the words that CLIP's pattern tries before letters, numbers and other characters. With
 * `ignore_case`, U+017F counts as an s, as in Python's regex, and the tokens count as words. */
void clip_add_words(tplan *p, bool ignore_case);

/* Reads a tokenizer.json. *precompiled becomes true if only the .model file has a normalizer. */
bool json_tokenizer_read(tplan *p, const char *path, const text_facts *facts, bool *precompiled,
                         report *r);

/* Reads a .model file: pieces, normalisation, begin, end, pad; control symbols become raw tokens.
 * With `siglip`, a prefix precedes the text, and SiglipTokenizer removes this prefix again. */
bool spiece_read(tplan *p, const char *path, bool siglip, report *r);
/* Adds the pairs of a precompiled_charsmap, except keys that begin with one of `fixed`. */
bool spiece_charsmap(tplan *p, const uint8_t *data, size_t size, const tplan_table *fixed,
                     tplan_table *map, report *r);

#endif
