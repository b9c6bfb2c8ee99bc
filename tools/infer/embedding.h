/* embedding.h - chooses the vector of a photo, or a vector for each token. Reads and writes the
 * files with the vectors of many photos, which vit-embed writes and vit-search reads.
 */
#ifndef EMBEDDING_H
#define EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/npy.h"
#include "base/report.h"
#include "cli/options.h"
#include "cli/output.h"
#include "infer/infer.h"
#define VIT_TOOLS
#include "vit.h"

/* === Which vector === */

typedef enum embedding_pool {
    EMBEDDING_HEAD,   /* the input of the head: vit_outputs.embedding */
    EMBEDDING_LOGITS, /* the output of the head, such as CLIP's projection */
    EMBEDDING_CLS,    /* the class token */
    EMBEDDING_AVG,    /* the mean of the patches */
    EMBEDDING_TOKENS, /* all tokens, prefix tokens first */
    EMBEDDING_POOLS,
} embedding_pool;

typedef struct embedding_choice {
    embedding_pool pool;
    int block;      /* number of blocks before the tokens, without the final norm; */
                    /* 0: all blocks, and the final norm */
    bool normalize; /* scale each vector to length 1 */
} embedding_choice;

/* Returns a name such as "cls", never NULL. */
const char *embedding_pool_name(embedding_pool pool);

/* Applies --pool and --block; `text` is NULL and `block` is -1 if they are not given. With only
 * --block, the vector is the class token or, if the model has none, the mean. */
bool embedding_choose(embedding_choice *choice, const char *text, int block, const vit_model *model,
                      report *r);

/* Sets the outputs that infer_run must compute. */
void embedding_ask(const embedding_choice *choice, infer_settings *settings);

/* Writes the shape for one photo: [dim], or [num_tokens, dim]. Returns the number of dimensions. */
int embedding_shape(const embedding_choice *choice, const vit_model *model, int64_t dims[2]);

/* Returns the vector or vectors of one photo, which lie in the memory of the result. */
const float *embedding_of(const embedding_choice *choice, const vit_model *model,
                          infer_result *result);

/* === NAME.npy, NAME.txt with a name for each row, NAME.json with the model and the options === */

typedef struct embedding_writer {
    cli_output npy, names, json;
    int64_t dims[3];
    int ndim;
    size_t each;   /* floats of a row */
    npy_type type; /* set it before embedding_begin; 0 means NPY_F32 */
    int opened;    /* number of outputs that are open, in this order */
    const char *path;
    char *names_path, *json_path, *journal_path;
} embedding_writer;

/* Call it before any input is read (cli/output.h). If `names` is NULL, the names are written to
 * NAME.txt. The strings `names` and `path` must stay valid. Free the writer in any case. */
bool embedding_name(embedding_writer *w, const char *path, const char *names, report *r);
/* On failure nothing is open. */
bool embedding_create(embedding_writer *w, report *r);
/* Call it before the first row. */
bool embedding_begin(embedding_writer *w, const embedding_choice *choice, const vit_model *model,
                     report *r);
/* Adds a row. If a name has a newline, a carriage return or a backslash, its line in NAME.txt
 * begins with a backslash. These characters are then written as \n, \r and \\, like in
 * sha256sum. */
bool embedding_add(embedding_writer *w, const char *name, const float *row, report *r);
/* Completes NAME.npy and renames the three files. Before this call, the caller must write an object
 * into json. Closes the outputs in any case. */
bool embedding_commit(embedding_writer *w, report *r);
void embedding_abandon(
    embedding_writer *w); /* call it instead of embedding_commit, if any output is open */
void embedding_writer_free(embedding_writer *w);

/* === NAME.rows, the journal, receives each row as soon as it is computed ===
 *
 * With the journal, an interrupted run continues, and a later run computes only new and changed
 * photos. The journal has a header with the recipe, then a record with a checksum for each photo,
 * in the byte order of this machine. Records are only appended; an incomplete record at the end is
 * cut off. */

enum { JOURNAL_RECIPE_SIZE = 544 };

/* Identifies the content of a photo. The content is unknown if `size` is UINT64_MAX. */
typedef struct journal_stamp {
    uint64_t size, content; /* number of bytes in its file, and their vit_hash */
    int64_t time;           /* time of the last modification */
} journal_stamp;

/* Returns the stamp of a file, without the hash: `content` is 0. Only a regular file that can be
 * opened has a stamp. */
journal_stamp journal_stamp_of(const char *name);

typedef struct journal_row {
    char *name;
    journal_stamp stamp;
    uint64_t at; /* place of the row's record in the file */
} journal_row;

typedef struct embedding_journal {
    FILE *file; /* the open file, which is locked */
    const char *path;
    char recipe[JOURNAL_RECIPE_SIZE];
    size_t each;             /* floats of a row */
    journal_row *rows;       /* rows of earlier runs, sorted by name */
    journal_row *by_content; /* the same rows, sorted by hash and size */
    size_t count, capacity;
    uint64_t end, records; /* end: place of the next record; records: their number */
    double synced_ms;
    char *record; /* private: room for one record */
    size_t record_size;
} embedding_journal;

/* Opens or creates the journal. Fails if another process has the file open. If `anew` is true,
 * discards all records; otherwise fails if the file has another recipe. The rest of a damaged file
 * is dropped, with a line on stderr. `path` must live as long as the journal. If `path` is NULL,
 * the journal is a temporary file. On failure there is nothing to close. */
bool journal_open(embedding_journal *j, const char *program, const char *path, const char *recipe,
                  size_t each, bool anew, report *r);
/* journal_find finds a photo's row by name, size and time; journal_find_content by size and
 * content. Both return -1 if there is no row. They find only rows that the journal had when it was
 * opened. Any thread may call them. */
int64_t journal_find(const embedding_journal *j, const char *name, const journal_stamp *stamp);
int64_t journal_find_content(const embedding_journal *j, uint64_t content, uint64_t size);
/* Adds a row, and sets *at to its place. If row is NULL, adds a copy of the row at `known`. */
bool journal_add(embedding_journal *j, const char *name, const journal_stamp *stamp,
                 const float *row, int64_t known, int64_t *at, report *r);
/* Returns the row, which is valid until the next call; NULL after a failure. */
const float *journal_read(embedding_journal *j, int64_t at, report *r);
/* Closes the journal. `at` [count] has the place in the journal of each row of the index, or -1.
 * `at` is NULL if the index is incomplete. If most records do not belong to the index, removes
 * these records. Deletes an empty journal. */
bool journal_close(embedding_journal *j, const int64_t *at, size_t count, report *r);

/* Writes members of an object: the facts about the model and the choice that a reader of the index
 * needs. */
void embedding_put(json_writer *w, const embedding_choice *choice, const vit_model *model,
                   const char *path);

/* Returns a hash of the architecture and of all tensors' checksums. Files with the same weights
 * have the same hash. */
uint64_t embedding_model_hash(const vit_model *model);

typedef struct embedding_index {
    const char *path;   /* path, as given */
    npy_array vectors;  /* [n, dim], mapped */
    const char **names; /* [n] */
    bool described;     /* NAME.json exists and has the members below */
    embedding_choice choice;
    cli_size img_size;
    char *model_path; /* NULL if unknown */
    uint64_t model_hash;
    char *text; /* private: memory of the names */
} embedding_index;

/* Opens an index. If `names` is NULL, the names are in NAME.txt. Lines of this file may end as on
 * Windows. `path` must live as long as the index. On failure there is nothing to close. */
bool embedding_open(embedding_index *index, const char *path, const char *names, report *r);
void embedding_close(embedding_index *index);

/* Reads only NAME.json, as embedding_open does. The file may be missing if vit-embed did not make
 * the index. */
bool embedding_describe(embedding_index *index, const char *path, report *r);
/* Converts a line of NAME.txt to its name, in place. */
void embedding_read_name(char *line);

/* === Choosing the model whose vectors are compared with those of an index === */

typedef struct embedding_request {
    const char *program;      /* begins messages on stderr */
    const char *model, *pool; /* -m and --pool; NULL if not given */
    int block;                /* --block; -1 if not given */
    cli_size img_size;
} embedding_request;

/* Opens a model for the index. The index gives the settings that are not requested. If NAME.json is
 * missing, the model is the bundled one. If the model's logits are as wide as the index, the logits
 * are compared, otherwise the embedding. A vector of another width is a failure; an index from
 * another model is reported. Zero *model and *path before the call. Close the model and free the
 * path in any case. */
bool embedding_open_model(const embedding_request *asked, const embedding_index *index,
                          vit_model *model, char **path, embedding_choice *choice, report *r);

/* Makes the choice for vectors that are compared with vectors of texts, which have `dim` values. */
bool embedding_choose_joint(embedding_choice *choice, const embedding_request *asked, int dim,
                            const vit_model *model, report *r);

#endif
