/* tokenizer.h - makes the tokenizer of a .vit file from the tokenizer files beside a checkpoint.
 *
 * tools/text owns tokenizers: the files of other libraries, cleaning, Unicode's tables, the section
 * of a .vit file that vit_tokenize reads; it may include base checkpoint.
 *
 * Limits: letters that are newer than Unicode 15.0 count as symbols. ftfy's repair of wrongly
 * decoded text is missing. A normalizer, pre-tokenizer or model of another kind is refused by name.
 */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"

/* How the model's library cleans a text before its tokenizer runs. */
typedef enum text_cleaning {
    TEXT_HUGGING_FACE, /* transformers: by the tokenizer's own files                          */
    TEXT_OPENAI,       /* CLIP, open_clip: entities, lower case, one space between words      */
    TEXT_CANONICALIZE, /* open_clip for SigLIP: punctuation removed too                       */
    TEXT_NONE,         /* nothing beyond the normalisation of tokenizer.json or a .model file */
} text_cleaning;

typedef struct tokenizer_source {
    const char *path; /* a file of the list below, or a folder with such a file */
    text_cleaning cleaning;
    int context;     /* ids of a text with begin and end; 0: as in the files, else 77 or 64 */
    bool lower_case; /* convert to lower case, even if the files do not set it */
} tokenizer_source;

/* The files, in the order in which a folder is searched. */
#define TOKENIZER_FILES                                                                            \
    "tokenizer.json, spiece.model, tokenizer.model, vocab.json with merges.txt, "                  \
    "bpe_simple_vocab_16e6.txt or bpe_simple_vocab_16e6.txt.gz"

typedef struct tokenizer_blob {
    unsigned char *data; /* input of vit_tokenizer_open; malloc'ed */
    size_t size;
} tokenizer_blob;

/* True if the folder or file has a tokenizer. */
bool tokenizer_exists(const char *path);

/* Returns the reason why there is no tokenizer, for a message. */
const char *tokenizer_absence(void);

/* Reads the files and writes the tokenizer with examples of its ids. On failure the message names
 * the file, and blob->data is NULL. */
bool tokenizer_build(const tokenizer_source *from, tokenizer_blob *blob, report *r);

#endif
