/* vit_writer.h - writes the .vit format of vit.h as a stream. Memory holds 16 rows of a tensor and
 * the directory.
 *
 *     vit_writer w;
 *     if (!vit_writer_start(&w, file, &contents, r)) ...
 *     for (i = 0; i < w.count; i++)
 *         ... vit_writer_rows(&w, rows, n, r) until all rows of w.tensors[i] are written ...
 *     vit_writer_finish(&w, r);
 *     vit_writer_replace(&w, i, values, r);       optionally, then finish again
 *     vit_writer_free(&w);
 */
#ifndef VIT_WRITER_H
#define VIT_WRITER_H

#include <stdbool.h>
#include <stdio.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Shell patterns for the names of tensors that stay in bf16 in an int8 file, or in int8 in an int4
 * file. */
typedef struct vit_writer_keep {
    const char *const *patterns;
    int count;
} vit_writer_keep;

/* Returns the default choice. */
vit_writer_keep vit_writer_kept(const vit_config *config, vit_dtype dtype);

/* The contents of a file, except its tensors. Pointers may be NULL, except config. */
typedef struct vit_writer_contents {
    const vit_config *config;
    vit_dtype dtype; /* type of the matrices */
    vit_writer_keep keep;
    size_t num_labels;
    const char *const *labels;
    const char *const *synsets;
    const char *provenance;    /* "key: value\n" lines */
    const vit_model *backbone; /* all tensors but the head get its types; or NULL */
    const void *learned;       /* section "learned", its size in bytes, number of photos; or NULL */
    size_t learned_size, num_learned;
    const void *tokenizer; /* the section of that name; or NULL */
    size_t tokenizer_size;
    const void *text; /* a whole .vit file, the text encoder; or NULL */
    size_t text_size;
} vit_writer_contents;

typedef struct vit_writer {
    vit_tensor *tensors; /* in file order; name, dims, offset and size are set */
    size_t count;
    uint64_t file_size;
    unsigned char *memory; /* the whole file if it is written to memory, otherwise NULL */

    /* Private. */
    FILE *file;
    unsigned char *meta;         /* everything below the data */
    size_t meta_size, directory; /* offset of the tensor records */
    size_t fits16;               /* offset of section "fits16", in files with int8 */
    size_t current;              /* tensor that the next rows belong to */
    uint64_t position;
    vit_hash hash;
    unsigned char *panel; /* the largest panel */
    const void *text;     /* the text encoder, until it is copied to the end */
    size_t text_size;
} vit_writer;

/* Decides the layout of the file and skips to its data. `file` must be seekable and empty. If
 * `file` is NULL, the output goes to w->memory, which vit_writer_free frees. */
bool vit_writer_start(vit_writer *w, FILE *file, const vit_writer_contents *contents, report *r);

/* Appends num_rows rows to the current tensor: 16, or fewer at its end. For a plain tensor, the
 * number of rows is free, and vit_writer_values takes parts of rows. */
bool vit_writer_rows(vit_writer *w, const float *rows, int num_rows, report *r);

/* Appends n values to a plain tensor. */
bool vit_writer_values(vit_writer *w, const float *values, size_t n, report *r);

/* Copies the current tensor from an open model, bit for bit. */
bool vit_writer_copy(vit_writer *w, const vit_tensor *from, report *r);

/* Goes back to this tensor: the caller can then write its values again. */
bool vit_writer_go_to(vit_writer *w, size_t tensor, report *r);

/* Writes the header, the directory and the checksums. These make the file valid. */
bool vit_writer_finish(vit_writer *w, report *r);

/* Replaces the values of a plain tensor; call vit_writer_finish afterwards. */
bool vit_writer_replace(vit_writer *w, size_t tensor, const float *values, report *r);

void vit_writer_free(vit_writer *w);

#endif
