/* embedding.h - chooses the vector of a photo, or a vector for each token. Reads and writes an
 * index: the files with the vectors of many photos, which vit-embed writes and vit-search reads. A
 * row of an index is the vector, or the vectors, of one photo.
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

/* === Choosing the vector of a photo === */

typedef enum embedding_pool {
    EMBEDDING_HEAD,   /* the input of the head: vit_outputs.embedding */
    EMBEDDING_LOGITS, /* the output of the head, such as CLIP's projection */
    EMBEDDING_CLS,    /* the class token */
    EMBEDDING_AVG,    /* the mean of the patch tokens */
    EMBEDDING_TOKENS, /* all tokens, prefix tokens first */
    EMBEDDING_POOLS,
} embedding_pool;

typedef struct embedding_choice {
    embedding_pool pool;
    /* 0: use the tokens after all blocks and the final norm; N: use the tokens after the first N
     * blocks, without the final norm */
    int block;
    bool normalize; /* scale each vector to length 1 */
} embedding_choice;

/* Returns the pool's name, as in --pool, such as "cls". Never returns NULL. */
const char *embedding_pool_name(embedding_pool pool);

/* Sets choice->pool and choice->block. `text` is the value of --pool, or NULL if --pool is absent;
 * `block` is the value of --block, or -1 if --block is absent. If only --block is given, chooses
 * the class token or, for a model without a class token, the mean of the patch tokens. */
bool embedding_choose(embedding_choice *choice, const char *text, int block, const vit_model *model,
                      report *r);

/* Sets settings->outputs and settings->block so that infer_run computes the chosen vectors. */
void embedding_ask(const embedding_choice *choice, infer_settings *settings);

/* Writes the shape of one photo's row to dims: [dim], or [num_tokens, dim] for all tokens. Returns
 * the number of dimensions, 1 or 2. */
int embedding_shape(const embedding_choice *choice, const vit_model *model, int64_t dims[2]);

/* Computes one photo's row in place, from the values in `result`, which owns the row. */
const float *embedding_of(const embedding_choice *choice, const vit_model *model,
                          infer_result *result);

/* === NAME.npy, NAME.txt with a name for each row, NAME.json with the model and the options === */

typedef struct embedding_writer {
    cli_output npy, names, json;
    int64_t dims[3];
    int ndim;
    size_t each;   /* number of floats in a row */
    npy_type type; /* set it before embedding_begin; 0 means NPY_F32 */
    int opened;    /* number of open outputs; npy is opened first, then names, then json */
    const char *path;
    char *names_path, *json_path, *journal_path;
} embedding_writer;

/* Sets the paths of the outputs, and declares those that it derives from `path`, the path of
 * NAME.npy. Call it before any input is read (cli/output.h). If `names` is NULL, the names are
 * written to NAME.txt. `path` must live as long as the writer. Call embedding_writer_free even
 * after a failure. */
bool embedding_name(embedding_writer *w, const char *path, const char *names, report *r);
/* Opens the outputs. On failure no output is open. */
bool embedding_create(embedding_writer *w, report *r);
/* Writes the header of NAME.npy. Call it before the first embedding_add. */
bool embedding_begin(embedding_writer *w, const embedding_choice *choice, const vit_model *model,
                     report *r);
/* Adds a row. If a name has a newline, a carriage return or a backslash, its line in NAME.txt
 * begins with a backslash. In this line the three characters become \n, \r and \\, as in
 * sha256sum. */
bool embedding_add(embedding_writer *w, const char *name, const float *row, report *r);
/* Completes NAME.npy and renames the three files. Before this call, the caller must write a JSON
 * object to w->json.file. Closes the outputs in any case. */
bool embedding_commit(embedding_writer *w, report *r);
/* After an error, call this in place of embedding_commit: closes the outputs, discards their
 * content. */
void embedding_abandon(embedding_writer *w);
void embedding_writer_free(embedding_writer *w);

/* === NAME.rows, the journal, receives each row as soon as it is computed ===
 *
 * With the journal, a run continues an interrupted one, and a later run computes only new and
 * changed photos. The journal has a header and then a record for each photo. A record has the row
 * and a checksum. The header has the recipe: a text with all settings that determine the values of
 * the rows. Numbers are in the byte order of this machine. A run appends records, and only
 * journal_close may remove some. The next run cuts off a record that is incomplete. */

enum { JOURNAL_RECIPE_SIZE = 544 };

/* Identifies the content of a photo's file. If `size` is UINT64_MAX, the content is unknown. */
typedef struct journal_stamp {
    uint64_t size, content; /* number of bytes in the file, and the vit_hash of these bytes */
    int64_t time;           /* time of the file's last modification */
} journal_stamp;

/* Returns the stamp of a file. The file is not read, so the member `content` is 0. If the file is
 * not a regular file or cannot be opened, the member `size` is UINT64_MAX. */
journal_stamp journal_stamp_of(const char *name);

typedef struct journal_row {
    char *name;
    journal_stamp stamp;
    uint64_t at; /* offset of the row's record in the journal, in bytes */
} journal_row;

typedef struct embedding_journal {
    FILE *file; /* the open and locked journal; NULL if the journal is closed */
    const char *path;
    char recipe[JOURNAL_RECIPE_SIZE];
    size_t each;       /* number of floats in a row */
    journal_row *rows; /* [count]: rows of earlier runs, sorted by name */
    /* [count]: the same rows, sorted by the hash and the size of the photo's file */
    journal_row *by_content;
    size_t count, capacity;
    uint64_t end, records; /* offset of the next record in bytes; number of records */
    double synced_ms;
    char *record; /* private: memory for one record */
    size_t record_size;
} embedding_journal;

/* Opens or creates the journal. Fails if another process has the file open. `each` is the number of
 * floats in a row. If `anew` is true, discards all records. Otherwise fails if `recipe` differs
 * from the journal's recipe by more than an added decoder. If a record is damaged, this record and
 * all later records are dropped, and a line is printed on stderr. `path` must live as long as the
 * journal. If `path` is NULL, the journal is a temporary file. On failure there is nothing to
 * close. */
bool journal_open(embedding_journal *j, const char *program, const char *path, const char *recipe,
                  size_t each, bool anew, report *r);
/* journal_find finds a photo's row by the name, size and time of the photo's file.
 * journal_find_content finds it by the content and size of the file. Both functions return the
 * offset of the row's record, or -1 if there is no row. They find only rows that the journal had
 * when it was opened. Any thread may call them. */
int64_t journal_find(const embedding_journal *j, const char *name, const journal_stamp *stamp);
int64_t journal_find_content(const embedding_journal *j, uint64_t content, uint64_t size);
/* Adds a record to the journal, and sets *at to the offset of the record. If `row` is NULL, the
 * record has a copy of the row at the offset `known`. */
bool journal_add(embedding_journal *j, const char *name, const journal_stamp *stamp,
                 const float *row, int64_t known, int64_t *at, report *r);
/* Returns the row of the record at the offset `at`; NULL on failure. The row is valid until the
 * next call for this journal. */
const float *journal_read(embedding_journal *j, int64_t at, report *r);
/* Closes the journal. at [count] has, for each row of the finished index, the offset of the row's
 * record in the journal, or -1 if the row has no record. `at` is NULL if the index is unfinished.
 * If the journal has more than twice as many records as the index has rows, the call removes the
 * records that belong to no row. A journal without records is deleted. */
bool journal_close(embedding_journal *j, const int64_t *at, size_t count, report *r);

/* Writes members of the JSON object in NAME.json. These members describe the model and the choice,
 * for programs that read the index. */
void embedding_put(json_writer *w, const embedding_choice *choice, const vit_model *model,
                   const char *path);

/* Returns a hash of the architecture and of all tensors' checksums. Two files of one architecture
 * with the same weights, stored in the same types, have the same hash. */
uint64_t embedding_model_hash(const vit_model *model);

typedef struct embedding_index {
    const char *path;   /* path of NAME.npy, memory of the caller */
    npy_array vectors;  /* the vectors, [n, dim], in the mapped file */
    const char **names; /* [n]: the name of each row */
    bool described;     /* true if NAME.json exists; it sets the next four members */
    embedding_choice choice;
    cli_size img_size;
    char *model_path; /* NULL if unknown */
    uint64_t model_hash;
    char *text; /* private: the memory that contains the names */
} embedding_index;

/* Opens an index. If `names` is NULL, the file of the names is NAME.txt. Its lines may end with a
 * carriage return and a newline, as on Windows. `path` must live as long as the index. On failure
 * there is nothing to close. */
bool embedding_open(embedding_index *index, const char *path, const char *names, report *r);
void embedding_close(embedding_index *index);

/* Reads NAME.json, whose path is `path`. Only vit-embed writes this file; if it is missing, nothing
 * changes. embedding_open calls this function. */
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

/* Opens a model whose vectors can be compared with those of the index. Settings that `asked` does
 * not give are taken from NAME.json. Without NAME.json, the default model is the bundled one. The
 * default vector is then the logits if they have as many values as a row; otherwise it is the
 * embedding. Fails if a vector of the model and a row of the index have different numbers of
 * values. If another model has made the index, prints a line on stderr. Zero *model and *path
 * before the call. Close the model and free the path even after a failure. */
bool embedding_open_model(const embedding_request *asked, const embedding_index *index,
                          vit_model *model, char **path, embedding_choice *choice, report *r);

/* Chooses which vector of a photo is compared with the vectors of texts, which have `dim`
 * values. */
bool embedding_choose_joint(embedding_choice *choice, const embedding_request *asked, int dim,
                            const vit_model *model, report *r);

#endif
