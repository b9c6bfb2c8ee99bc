/* words.h - computes vectors of texts with the text encoder of a model. */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "base/text.h"
#include "vit.h"

typedef struct words {
    vit_model text; /* the text encoder; read-only */
    int dim;        /* number of values in a vector */

    /* Private. */
    vit_tokenizer tokenizer;
    vit_session session;
    vit_text_ids ids;
    void *scratch;
    size_t scratch_size;
    const char *program;
} words;

/* Opens the text encoder of a model. The model must stay open until words_close. Call words_close
 * in any case. `program` begins messages on stderr. */
bool words_open(words *w, const vit_model *model, vit_isa isa, const char *program, report *r);

/* Computes the vector of a text, vector [dim], and scales it to length 1. If the text has too many
 * tokens, its end is cut off, and a line is printed on stderr. */
bool words_embed(words *w, const char *text, float *vector, report *r);

/* Puts the text into all templates, such as "a photo of a {}", and computes the mean of their
 * vectors, scaled to length 1. If there are no templates, computes the vector of the text alone. */
bool words_embed_in(words *w, const char *text, const text_list *templates, float *vector,
                    report *r);
void words_close(words *w);

/* Reads a list of texts: 'a cat, a dog', a file with one text per line, or '-' for standard input.
 * (*names)[*count] points to the texts, which lie in the memory *list. Set *names to NULL before
 * the call. Free *names and *list even after a failure. */
bool words_read(const char *from, char **list, const char ***names, int *count, report *r);

#endif
