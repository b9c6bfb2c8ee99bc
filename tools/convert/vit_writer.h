/* vit_writer.h - writes the .vit format of vit.h as a stream. Memory holds 16 rows of a tensor and
 * all bytes that precede the tensors' data.
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

/* Returns the patterns of the tensors that stay at the higher precision by default. */
vit_writer_keep vit_writer_kept(const vit_config *config, vit_dtype dtype);

/* The contents of a file, except the values of its tensors. All pointers but `config` may be
 * NULL. */
typedef struct vit_writer_contents {
    const vit_config *config;
    vit_dtype dtype; /* type of the weight matrices */
    vit_writer_keep keep;
    size_t num_labels;
    const char *const *labels;
    const char *const *synsets;
    const char *provenance; /* text that consists of lines "key: value\n" */
    /* If not NULL, the head gets f32, and all other tensors get the types that they have here. */
    const vit_model *backbone;
    /* The section "learned" or NULL, its size in bytes, and the number of its photos. */
    const void *learned;
    size_t learned_size, num_learned;
    const void *tokenizer; /* the section "tokenize", or NULL */
    size_t tokenizer_size;
    /* The section "text", which is a whole .vit file with the text encoder; or NULL. */
    const void *text;
    size_t text_size;
} vit_writer_contents;

typedef struct vit_writer {
    /* The tensors in the order of the file; their names, dims, offsets and sizes are set. */
    vit_tensor *tensors;
    size_t count;
    uint64_t file_size;
    unsigned char *memory; /* the whole file, if it is written to memory; otherwise NULL */

    /* Private. */
    FILE *file;
    unsigned char *meta;         /* all bytes that precede the tensors' data */
    size_t meta_size, directory; /* `directory` is the offset of the tensor records in `meta` */
    size_t fits16;               /* offset of the section "fits16", which files with int8 have */
    size_t current;              /* index of the tensor to which the next rows belong */
    uint64_t position;
    vit_hash hash;
    unsigned char *panel; /* memory for the largest panel (group of packed rows) */
    const void *text;     /* the text encoder, until it is copied to the end of the file */
    size_t text_size;
} vit_writer;

/* Decides the place of every part in the file, and moves to the start of the tensors' data. `file`
 * must be seekable and empty. If `file` is NULL, the file is written to w->memory, which
 * vit_writer_free frees. */
bool vit_writer_start(vit_writer *w, FILE *file, const vit_writer_contents *contents, report *r);

/* Appends rows to the current tensor. num_rows must be a multiple of 16, except for the last rows
 * of the tensor. For a plain tensor, num_rows may have any value, and vit_writer_values also
 * accepts parts of rows. */
bool vit_writer_rows(vit_writer *w, const float *rows, int num_rows, report *r);

/* Appends n values to the current tensor, which must be plain. */
bool vit_writer_values(vit_writer *w, const float *values, size_t n, report *r);

/* Copies the current tensor bit for bit from `from`, a tensor of an open model. */
bool vit_writer_copy(vit_writer *w, const vit_tensor *from, report *r);

/* Makes this tensor the current one again, so that the caller can write its values again. */
bool vit_writer_go_to(vit_writer *w, size_t tensor, report *r);

/* Writes the header, the directory and the checksums. Only a file with these is valid. */
bool vit_writer_finish(vit_writer *w, report *r);

/* Replaces the values of a plain tensor. Call vit_writer_finish afterwards. */
bool vit_writer_replace(vit_writer *w, size_t tensor, const float *values, report *r);

void vit_writer_free(vit_writer *w);

#endif
