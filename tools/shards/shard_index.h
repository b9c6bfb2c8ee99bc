/* shard_index.h - opens folders of vectors for searching. */
#ifndef SHARD_INDEX_H
#define SHARD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/npy.h"
#include "base/report.h"
#include "infer/embedding.h"
#include "numbers/nearest.h"

/* === Rows with one byte per value === */

/* NAME.i8 has the rows of a .npy file, with one byte per value.
 *
 * It has a header, a scale for each row, and the rows (nearest.h), in the byte order of this
 * machine.
 */

typedef struct int8_copies {
    const char *program;
    int dim;
    const vit_executor *executor;
} int8_copies;

/* `time` is that of NAME.npy when it was opened; a later change is a failure. Maps NAME.i8 and sets
 * part->bytes and part->scales within it; returns the argument of os_unmap. Makes the file if it is
 * missing or does not match NAME.npy's shape, size and time; a line on stderr reports it. NULL if
 * it cannot be made. */
void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r);

/* === Folders === */

/* A folder of vectors, for searching: the output of embed --tar (shard_writer.h) or clip-retrieval,
 * or .npy files with their names in NAME.txt. */

/* Times of the files' last changes; -1 if missing. */
typedef struct shard_times {
    int64_t vectors, names, json;
} shard_times;

typedef struct indexed_shard {
    char *vectors; /* path */
    char *names;   /* of .jsonl or .txt; NULL without either */
    npy_array array;
    shard_times times;  /* times of the files when they were opened */
    int64_t unreadable; /* lines after those of the rows; -1 if unknown */
    void *copy;         /* mapped int8 rows, and their size */
    size_t copy_size;
} indexed_shard;

typedef struct shard_index {
    embedding_index about; /* an index without names; its vectors have only dims */
    indexed_shard *shards;
    nearest_part *parts; /* parallel */
    nearest_set set;
    int left_out;    /* number of shards left out, each named on stderr */
    size_t capacity; /* private */
} shard_index;

/* Names and leaves out a shard that is missing, damaged or being written, or that lacks a record
 * while others have one. Shards of different widths or models are a failure. It does not verify
 * checksums; embed --collect does. Close it in any case. folder must live as long. */
bool shard_index_open(shard_index *index, const char *program, const char *folder, report *r);
void shard_index_close(shard_index *index);

/* Maps int8 copies of all rows, img_emb_N.i8 next to img_emb_N.npy; makes copies that are missing
 * or do not match the file's size and time. */
bool shard_index_copies(shard_index *index, const char *program, const vit_executor *executor,
                        report *r);

/* The metadata of a row. Texts other than name may be NULL. */
typedef struct indexed_row {
    const char *shard; /* file of vectors */
    int64_t row;       /* there */
    char *name;        /* its path, or a line of NAME.txt; else "FILE.npy#ROW" */
    char *key, *caption, *label, *url;
} indexed_row;

/* Fills in the rows, which are zero except for .row; it counts through all shards, and no two are
 * equal. Also fails if a file lacks a line for some row. Free them even after a failure. */
bool shard_index_rows(const shard_index *index, indexed_row *rows, int count, report *r);
void indexed_row_free(indexed_row *row);

#endif
