/* tokenizer.h - makes the tokenizer of a .vit file from the tokenizer files beside a checkpoint.
 *
 * tools/text owns tokenizers: the files of other libraries, cleaning, Unicode's tables, the section
 * of a .vit file that vit_tokenize reads; it may include base checkpoint.
 *
 * Limits: letters that are newer than Unicode 15.0 count as symbols. ftfy's repair of wrongly
 * decoded text is missing. An unsupported kind of normalizer, pre-tokenizer or model is refused,
 * and the message names the kind.
 */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"

/* How the model's library cleans a text before its tokenizer runs. */
typedef enum text_cleaning {
    TEXT_HUGGING_FACE, /* transformers: the tokenizer's files determine the cleaning */
    /* CLIP, open_clip: decodes entities, makes lower case, keeps one space between words */
    TEXT_OPENAI,
    TEXT_CANONICALIZE, /* open_clip for SigLIP: as TEXT_OPENAI, but removes punctuation too */
    TEXT_NONE,         /* only the normalisation of tokenizer.json or of a .model file */
} text_cleaning;

typedef struct tokenizer_source {
    const char *path; /* one of the files in TOKENIZER_FILES, or a folder that contains one */
    text_cleaning cleaning;
    /* Number of ids in a text, with begin and end. 0 means the number in the files or, if they have
     * none, 77 for a BPE of bytes and 64 for any other tokenizer. */
    int context;
    bool lower_case; /* true to make lower case, even if the files do not set it */
} tokenizer_source;

/* The files, in the order in which a folder is searched, except that .gz comes before .txt. */
#define TOKENIZER_FILES                                                                            \
    "tokenizer.json, spiece.model, tokenizer.model, vocab.json with merges.txt, "                  \
    "bpe_simple_vocab_16e6.txt or bpe_simple_vocab_16e6.txt.gz"

typedef struct tokenizer_blob {
    unsigned char *data; /* malloc'ed data that vit_tokenizer_open reads */
    size_t size;
} tokenizer_blob;

/* True if the path is a tokenizer's file, or a folder that contains one. */
bool tokenizer_exists(const char *path);

/* Returns a text for messages: the reason why a .vit file has no tokenizer. */
const char *tokenizer_absence(void);

/* Reads the files and writes the tokenizer, with examples of texts and their ids. On failure the
 * message names the file, and blob->data is NULL. */
bool tokenizer_build(const tokenizer_source *from, tokenizer_blob *blob, report *r);

#endif
