/* words.h - turns texts into vectors by the text encoder of a model. */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "base/text.h"
#include "vit.h"

typedef struct words {
    vit_model text; /* read-only */
    int dim;        /* number of values in a vector */

    /* Private. */
    vit_tokenizer tokenizer;
    vit_session session;
    vit_text_ids ids;
    void *scratch;
    size_t scratch_size;
    const char *program;
} words;

/* Opens the text encoder of a model, which must stay open. Call words_close in any case. `program`
 * begins messages on stderr. */
bool words_open(words *w, const vit_model *model, vit_isa isa, const char *program, report *r);

/* Writes the vector of a text, [dim], of length 1. A text that is too long is cut, with a line on
 * stderr. */
bool words_embed(words *w, const char *text, float *vector, report *r);

/* Writes the mean vector over templates such as "a photo of a {}". Without templates, writes the
 * vector of the text. */
bool words_embed_in(words *w, const char *text, const text_list *templates, float *vector,
                    report *r);
void words_close(words *w);

/* Reads a list of texts: 'a cat, a dog', a file with one text per line, or '-' for standard input.
 * (*names)[*count] are texts within *list; free both in any case. */
bool words_read(const char *from, char **list, const char ***names, int *count, report *r);

#endif
