/* shard_writer.h - writes the three files of a shard. One of them is the record, which proves that
 * the files are complete. */
#ifndef SHARD_WRITER_H
#define SHARD_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/npy.h"
#include "base/report.h"
#include "cli/output.h"
#include "infer/embedding.h"
#include "numbers/nearest.h"
#include "shards/tar.h"
#define VIT_TOOLS
#include "vit.h"

/* === Records === */

/* The files that vit-embed writes for a shard:
 *
 *     OUT/img_emb/img_emb_N.npy          the vectors, in clip-retrieval's layout
 *     OUT/metadata/metadata_N.jsonl      a line for each vector, then one for each unreadable image
 *     OUT/stats/stats_N.json             written last: counts, times, checksums of the other two
 */

typedef struct shard_paths {
    char *vectors, *metadata, *stats; /* malloc'ed */
} shard_paths;

bool shard_paths_make(shard_paths *paths, const char *folder, const char *number, report *r);
void shard_paths_free(shard_paths *paths);

/* The properties that all shards of an output must share. */
typedef struct shard_recipe {
    const vit_model *model;
    const char *model_path;
    embedding_choice choice;
    npy_type type;
    int classes; /* number of best classes in the metadata; 0 for none */
    photo_options photos;
} shard_recipe;

enum { SHARD_RECIPE_SIZE = 512 };
/* Writes "model 0123456789abcdef, 224x224, pool head, ..."; equal texts mean equal vectors. */
void shard_recipe_text(const shard_recipe *recipe, char text[SHARD_RECIPE_SIZE]);

typedef struct shard_record {
    json_document document;            /* all members of the record */
    const char *shard, *recipe;        /* texts of the document */
    int64_t images, unreadable, bytes; /* bytes: size of the archive */
    double seconds;
    char *text; /* private */
} shard_record;

typedef enum shard_state {
    SHARD_MISSING, /* no record */
    SHARD_COMPLETE,
    SHARD_DAMAGED, /* a file is missing or does not match its record */
} shard_state;

/* Reads the record and verifies both files. If `bytes` is false, compares only the sizes of the
 * files. If a file is damaged, sets only *r, to the reason. Close the record in any state. */
shard_state shard_record_open(shard_record *record, const shard_paths *paths, bool bytes,
                              report *r);

/* Counts the missing numbers between two numbers of equal length, such as "0007" and "0010", and
 * gives the first and the last of them. Returns 0 for other texts and NULL. */
long shard_gap(const char *before, const char *number, char first[24], char last[24]);
void shard_record_close(shard_record *record);

/* Writes the members "bytes" and "sha256" of an object, for the file that is now at `place`. */
bool shard_record_put_file(json_writer *w, const char *key, const char *place, report *r);

/* === Writing === */

/* The three files of a shard appear when all of them are complete. */

typedef struct shard_writer {
    const shard_recipe *recipe;
    shard_paths paths;
    cli_output metadata, vectors, stats;
    int opened; /* number of open outputs, in this order */
    int64_t dims[3];
    int ndim;
    size_t each;        /* number of floats in a row */
    sample *unreadable; /* samples with errors, whose lines come at the end */
    size_t num_unreadable, capacity;
} shard_writer;

/* Opens the files. `shard` is the archive, which must not be an output. On failure nothing is
 * open. */
bool shard_writer_open(shard_writer *w, const shard_recipe *recipe, const char *folder,
                       const char *number, const char *shard, report *r);

/* Writes the next row and the line of the row. `top` has the best classes, at most recipe->classes;
 * `path` is the name of the image in the metadata. */
bool shard_writer_add(shard_writer *w, const sample *s, const char *path, const float *row,
                      const vit_prediction *top, int num_top, report *r);
/* Adds a sample that has an error, and therefore no row. Takes over the sample, and keeps `path` as
 * its name. */
bool shard_writer_add_unreadable(shard_writer *w, sample *s, const char *path, report *r);

/* Writes and checks all files. Then puts "shape", "vectors" and "metadata" into the record, an
 * object that shard_writer_record has begun and to which the caller may have added members. Then
 * renames all files. Closes the writer in any case. */
bool shard_writer_commit(shard_writer *w, json_writer *record, report *r);
json_writer shard_writer_record(shard_writer *w);
void shard_writer_abandon(shard_writer *w);

/* === Opening folders of vectors for searching === */

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

/* `time` is the time of NAME.npy when it was opened; if the file has changed since, the call fails.
 * Maps NAME.i8 and sets part->bytes and part->scales within it; returns the argument of os_unmap.
 * Makes the file if it is missing or does not match NAME.npy's shape, size and time; a line on
 * stderr reports this. Returns NULL if the file cannot be made. */
void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r);

/* === Folders === */

/* A folder of vectors for searching is the output of vit-embed --tar or clip-retrieval, or has .npy
 * files with their names in NAME.txt. */

/* Times of the files' last changes; -1 if missing. */
typedef struct shard_times {
    int64_t vectors, names, json;
} shard_times;

typedef struct indexed_shard {
    char *vectors; /* path of the vectors */
    char *names;   /* path of .jsonl or .txt; NULL if there is neither */
    npy_array array;
    shard_times times;  /* times of the files when they were opened */
    int64_t unreadable; /* number of lines after the rows' lines; -1 if unknown */
    void *copy;         /* mapped int8 rows, and their size */
    size_t copy_size;
} indexed_shard;

typedef struct shard_index {
    embedding_index about; /* an index that gives only dims, and no names */
    indexed_shard *shards;
    nearest_part *parts; /* part i has the rows of shard i */
    nearest_set set;
    int left_out;    /* number of shards left out, each named on stderr */
    size_t capacity; /* private */
} shard_index;

/* Opens all shards of a folder. Reports and leaves out a shard that is missing, damaged or being
 * written, or that lacks a record if other shards have records. Shards of different widths or
 * models are a failure. Does not verify checksums, unlike vit-embed --collect. Close the index in
 * any case. `folder` must live as long as the index. */
bool shard_index_open(shard_index *index, const char *program, const char *folder, report *r);
void shard_index_close(shard_index *index);

/* Maps int8 copies of all rows, img_emb_N.i8 next to img_emb_N.npy; makes copies that are missing
 * or do not match the file's size and time. */
bool shard_index_copies(shard_index *index, const char *program, const vit_executor *executor,
                        report *r);

/* The metadata of a row. Texts other than name may be NULL. */
typedef struct indexed_row {
    const char *shard; /* path of the file of vectors */
    int64_t row;       /* number of the row in this file */
    char *name;        /* its path, or a line of NAME.txt; else "FILE.npy#ROW" */
    char *key, *caption, *label, *url;
} indexed_row;

/* Fills in the rows, whose member .row must be set. Row numbers count through all shards, and must
 * all differ. Fails if a file lacks the line of a row. Free the rows even after a failure. */
bool shard_index_rows(const shard_index *index, indexed_row *rows, int count, report *r);
void indexed_row_free(indexed_row *row);

#endif
