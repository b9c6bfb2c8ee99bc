/* shard_writer.h - writes the three output files of a shard, which is a tar archive of photos. One
 * of them is the record, which proves that the files are complete. */
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

/* The recipe: all settings that determine the output of a shard. All shards in a folder must have
 * the same recipe. */
typedef struct shard_recipe {
    const vit_model *model;
    const char *model_path;
    embedding_choice choice;
    npy_type type;
    int classes; /* number of best classes in the metadata of each photo; 0 for none */
    photo_options photos;
} shard_recipe;

enum { SHARD_RECIPE_SIZE = 512 };
/* Writes the recipe as a text, such as "model 0123456789abcdef, 224x224, pool head, ...". If the
 * texts of two recipes are equal, the same photo has the same vectors. */
void shard_recipe_text(const shard_recipe *recipe, char text[SHARD_RECIPE_SIZE]);

typedef struct shard_record {
    json_document document; /* all members of the record, a JSON object */
    /* name of the archive and text of the recipe, in the memory of `document` */
    const char *shard, *recipe;
    int64_t images, unreadable, bytes; /* numbers of images; size of the archive in bytes */
    double seconds;
    char *text; /* private */
} shard_record;

typedef enum shard_state {
    SHARD_MISSING, /* the shard has no record */
    SHARD_COMPLETE,
    SHARD_DAMAGED, /* a file is missing or does not match its record */
} shard_state;

/* Reads the record of a shard, and verifies the sizes of the shard's other two files. If `bytes` is
 * true, their checksums are verified too. If the result is SHARD_DAMAGED, *r has the reason, and
 * the values of the record must not be used. Close the record after any result. */
shard_state shard_record_open(shard_record *record, const shard_paths *paths, bool bytes,
                              report *r);

/* Returns how many numbers are missing between two numbers with equally many digits. Between "0007"
 * and "0010", two are missing. `first` and `last` receive the first and the last missing number,
 * "0008" and "0009". Returns 0 if `before` is NULL, or if the texts are not such numbers. */
long shard_gap(const char *before, const char *number, char first[24], char last[24]);
void shard_record_close(shard_record *record);

/* Writes a member `key`, an object with the members "bytes" and "sha256": the size and the checksum
 * of the file at the path `place`. */
bool shard_record_put_file(json_writer *w, const char *key, const char *place, report *r);

/* === Writing === */

/* Until all three files of a shard are complete, they have temporary names. */

typedef struct shard_writer {
    const shard_recipe *recipe;
    shard_paths paths;
    cli_output metadata, vectors, stats;
    int opened; /* number of open outputs; they are opened in the order of the members above */
    int64_t dims[3];
    int ndim;
    size_t each; /* number of floats in a row */
    /* samples that could not be read; their lines are the last lines of the metadata */
    sample *unreadable;
    size_t num_unreadable, capacity;
} shard_writer;

/* Opens the three files. `shard` is the path of the archive, which must not be one of the outputs.
 * On failure nothing is open. */
bool shard_writer_open(shard_writer *w, const shard_recipe *recipe, const char *folder,
                       const char *number, const char *shard, report *r);

/* Writes the next row of the vectors, and its line in the metadata. top [num_top] has the best
 * classes, at most recipe->classes. `path` is the name of the image in the metadata. */
bool shard_writer_add(shard_writer *w, const sample *s, const char *path, const float *row,
                      const vit_prediction *top, int num_top, report *r);
/* Adds a sample whose image could not be read; it gets no row. On success the writer owns the
 * sample, and *s is empty. `path` is the name of the image in the metadata. */
bool shard_writer_add_unreadable(shard_writer *w, sample *s, const char *path, report *r);

/* Completes the vectors and the metadata, adds their shape, sizes and checksums to `record`, ends
 * the record, and renames all files. shard_writer_record must have begun `record` before, and the
 * caller may have added members to it. Closes the writer in any case. */
bool shard_writer_commit(shard_writer *w, json_writer *record, report *r);
json_writer shard_writer_record(shard_writer *w);
void shard_writer_abandon(shard_writer *w);

/* === Opening folders of vectors for searching === */

/* === Rows with one byte per value === */

/* The file NAME.i8 is a copy of the rows in NAME.npy, with one byte per value.
 *
 * The file has a header, a scale for each row (nearest_scale in nearest.h), and the rows. The
 * numbers are in the byte order of the machine that wrote the file.
 */

typedef struct int8_copies {
    const char *program;
    int dim;
    const vit_executor *executor;
} int8_copies;

/* Maps NAME.i8 into memory, and sets part->bytes and part->scales to its content. `vectors` is the
 * path of NAME.npy. `time` is the modification time that NAME.npy had when it was opened; if the
 * file has changed since, the call fails. If NAME.i8 is missing, the function makes it. If NAME.i8
 * does not match the shape, size and time of NAME.npy, the function reports this and makes it
 * again. Returns the mapped memory, which os_unmap frees, and its size in *size. Returns NULL on
 * failure. */
void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r);

/* === Folders === */

/* A folder of vectors for searching is the output of vit-embed --tar or of clip-retrieval.
 * Alternatively, it contains files NAME.npy, and files NAME.txt with the names of their rows. Each
 * .npy file is called a shard here. */

/* The modification times of a shard's files; -1 for a missing file. */
typedef struct shard_times {
    int64_t vectors, names, json;
} shard_times;

typedef struct indexed_shard {
    char *vectors; /* path of the vectors */
    /* path of the file with the metadata (.jsonl) or the names (.txt); NULL if there is neither */
    char *names;
    npy_array array;
    shard_times times; /* the modification times that the files had when they were opened */
    /* number of lines about unreadable images, which follow the lines of the rows in the metadata;
     * -1 if it is unknown */
    int64_t unreadable;
    void *copy; /* the mapped file NAME.i8, and its size in bytes */
    size_t copy_size;
} indexed_shard;

typedef struct shard_index {
    /* common to all shards: the shape of the vectors and the model, but no names */
    embedding_index about;
    indexed_shard *shards;
    nearest_part *parts; /* [set.count]: part i has the rows of shard i */
    nearest_set set;
    int left_out;    /* number of shards that were left out; messages on stderr name them */
    size_t capacity; /* private */
} shard_index;

/* Opens all shards of a folder. Leaves out a shard, and reports it on stderr, if it is missing,
 * damaged or still being written. A shard without a record is also left out if other shards have
 * records. The call fails if the vectors of two shards have different numbers of values or come
 * from different models. Checksums are not verified, unlike in vit-embed --collect. Close the index
 * in any case. `folder` must live as long as the index. */
bool shard_index_open(shard_index *index, const char *program, const char *folder, report *r);
void shard_index_close(shard_index *index);

/* Maps the int8 copies of all rows. The copies are in files NAME.i8 next to NAME.npy. Makes each
 * copy that is missing, or that does not match the size and time of the .npy file. */
bool shard_index_copies(shard_index *index, const char *program, const vit_executor *executor,
                        report *r);

/* The metadata of a row. The texts other than `name` are NULL if they are missing. indexed_row_free
 * frees the texts. */
typedef struct indexed_row {
    const char *shard; /* path of the .npy file that contains the row, memory of the index */
    int64_t row;       /* number of the row in this file, from 0 */
    /* path (or key) of the photo in the metadata, or its line in NAME.txt; otherwise
     * "FILE.npy#ROW" */
    char *name;
    char *key, *caption, *label, *url;
} indexed_row;

/* Fills in the metadata of `count` rows. Before the call, the member `row` of each must be the
 * number of the row counted through all shards; these numbers must all differ. After the call,
 * `row` is the number of the row within its shard. The call fails if a file has no line for a row.
 * Free the rows even after a failure. */
bool shard_index_rows(const shard_index *index, indexed_row *rows, int count, report *r);
void indexed_row_free(indexed_row *row);

#endif
