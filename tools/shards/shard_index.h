/* shard_index.h - folders of vectors to search in. */
#ifndef SHARD_INDEX_H
#define SHARD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/npy.h"
#include "base/report.h"
#include "infer/embedding.h"
#include "numbers/nearest.h"

/* === Rows in a byte a number === */

/* Rows of one .npy file in a byte a number, in a file beside it: NAME.i8.
 *
 * In the byte order of this machine: a header, a scale for each row, the rows (nearest.h).
 */

typedef struct int8_copies {
    const char *program;
    int dim;
    const vit_executor *executor;
} int8_copies;

/* time: of NAME.npy when it was opened; if it has changed since, that is a failure.
 * Maps NAME.i8 and sets part->bytes and part->scales, which are in it; returns what os_unmap takes.
 * Makes it if it is not there, or not of NAME.npy as it is now by its shape, size and time; a line
 * on stderr says so. NULL: it cannot be made. */
void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r);

/* === Folders === */

/* A folder of vectors, to search in: what embed --tar writes (shard_writer.h), what clip-retrieval
 * writes, or .npy files with their names, NAME.txt, beside them. */

/* When files were last written; -1: they are not there. */
typedef struct shard_times {
    int64_t vectors, names, json;
} shard_times;

typedef struct indexed_shard {
    char *vectors; /* path                                              */
    char *names;   /* of .jsonl or .txt; NULL: there is neither         */
    npy_array array;
    shard_times times;  /* of the files as they were opened                  */
    int64_t unreadable; /* lines after those of the rows; -1: nobody says    */
    void *copy;         /* int8 rows, mapped, with its size                  */
    size_t copy_size;
} indexed_shard;

typedef struct shard_index {
    embedding_index about; /* without names; its vectors have dims alone        */
    indexed_shard *shards;
    nearest_part *parts; /* parallel                                          */
    nearest_set set;
    int left_out;    /* shards, each named on stderr                      */
    size_t capacity; /* private                                           */
} shard_index;

/* A shard that is missing, damaged, being written or without a record among others that have one is
 * named and left out; shards of different widths or models are a failure. What checksums say is not looked at:
 * that is embed --collect. To be closed either way. folder must live as long. */
bool shard_index_open(shard_index *index, const char *program, const char *folder, report *r);
void shard_index_close(shard_index *index);

/* Maps int8 copies of all rows, img_emb_N.i8 beside img_emb_N.npy; makes those that are not there,
 * or not of the file as it is now by its size and time. */
bool shard_index_copies(shard_index *index, const char *program, const vit_executor *executor,
                        report *r);

/* What the metadata say of a row. Texts may be NULL but for name. */
typedef struct indexed_row {
    const char *shard; /* file of vectors                          */
    int64_t row;       /* there                                    */
    char *name;        /* its path, or a line of NAME.txt; else "FILE.npy#ROW" */
    char *key, *caption, *label, *url;
} indexed_row;

/* Of rows that are zero but for .row, counted through all shards, and differ: the rest is filled in.
 * Fails as well if a file has not a line for each row. To be freed, also after a failure. */
bool shard_index_rows(const shard_index *index, indexed_row *rows, int count, report *r);
void indexed_row_free(indexed_row *row);

#endif
