/* readers.h - the files of tokenizers, each into a plan. */
#ifndef READERS_H
#define READERS_H

#include "text/token_plan.h"

#define CLIP_BEGIN "<|startoftext|>"
#define CLIP_END   "<|endoftext|>"

/* What the files beside a tokenizer say of its use. */
typedef struct text_facts {
    char class_name[64];
    char begin[64], end[64], pad[64]; /* tokens, or "" */
    int add_begin, add_end;           /* -1: not said */
    bool lower_case;
    int context; /* 0: not said */
} text_facts;

/* A whole text file, malloc'ed, with a NUL behind it. */
bool read_text(const char *path, char **text, size_t *size, report *r);

/* Pieces and merges, begin and end. */
bool clip_read_bpe(tplan *p, const char *path, report *r); /* .txt or .txt.gz */
bool clip_read_vocab(tplan *p, const char *vocab, const char *merges, report *r);

/* Pieces written in GPT-2's characters; false if one is not. */
bool clip_add_piece(tplan *p, const char *piece, size_t size, const char *suffix, uint32_t id);
bool clip_add_merge(tplan *p, const char *left, size_t left_size, const char *right,
                    size_t right_size, const char *suffix, uint32_t rank);

/* The words of CLIP's pattern before letters, numbers and the rest. With ignore_case, U+017F is an s, as
 * to Python's regex, and the tokens are words too. */
void clip_add_words(tplan *p, bool ignore_case);

/* A tokenizer.json. *precompiled: a normalizer is in the .model file alone. */
bool json_tokenizer_read(tplan *p, const char *path, const text_facts *facts, bool *precompiled,
                         report *r);

/* A .model file: pieces, normalisation, begin, end, pad; raw tokens for the control symbols. siglip: the
 * text follows a prefix that SiglipTokenizer takes off again. */
bool spiece_read(tplan *p, const char *path, bool siglip, report *r);
/* Adds the pairs of a precompiled_charsmap, except keys that begin with one of `fixed`. */
bool spiece_charsmap(tplan *p, const uint8_t *data, size_t size, const tplan_table *fixed,
                     tplan_table *map, report *r);

#endif
