/* words.h - texts as vectors, by the text encoder of a model. */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "base/text.h"
#include "vit.h"

typedef struct words {
    vit_model text; /* read-only */
    int dim;        /* of a vector */

    /* Private. */
    vit_tokenizer tokenizer;
    vit_session session;
    vit_text_ids ids;
    void *scratch;
    size_t scratch_size;
    const char *program;
} words;

/* The model must stay open. Close it in any case. `program` begins messages on stderr. */
bool words_open(words *w, const vit_model *model, vit_isa isa, const char *program, report *r);

/* Writes the vector of a text, [dim], of length 1. A text that is too long is cut, with a line on
 * stderr. */
bool words_embed(words *w, const char *text, float *vector, report *r);

/* Writes the mean over templates such as "a photo of a {}"; without templates, the vector of the
 * text. */
bool words_embed_in(words *w, const char *text, const text_list *templates, float *vector,
                    report *r);
void words_close(words *w);

/* Reads a list of texts: 'a cat, a dog', or a file with one text per line, '-' for standard input.
 * (*names)[*count] are texts within *list; free both in any case. */
bool words_read(const char *from, char **list, const char ***names, int *count, report *r);

#endif
