/* infer.h - runs many photos through a model, on all cores, and returns the results in the order of
 * the photos.
 *
 *     photo_source source = photo_paths_source(&paths);
 *     infer_settings settings = { 0 };
 *     settings.model = &model;
 *     settings.program = "embed";
 *     settings.outputs = INFER_EMBEDDING;
 *     settings.take = write_row;
 *     if (!infer_run(&settings, &source, &counts, &r)) ...
 *
 * Each thread decodes, preprocesses and runs its own photos, in batches, with its own session. No
 * thread ever waits for a layer of another thread. The results do not depend on the number of
 * threads or on the batch.
 *
 * tools/infer owns running many photos through a model: threads, batches, order, classes by name or
 * by text; it may include os base cli numbers image.
 */
#ifndef INFER_H
#define INFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "image/photo_source.h"
#define VIT_TOOLS
#include "vit.h"

/* Outputs to compute, or-ed together. */
enum { INFER_LOGITS = 1, INFER_EMBEDDING = 2, INFER_TOKENS = 4 };

/* The result of one photo. Pointers are valid only during the call of infer_take, which may change
 * the values. */
typedef struct infer_result {
    uint64_t index; /* number of the photo in its source */
    const char *name;
    const char *error; /* "FILE: reason" if the photo could not be read; otherwise NULL */
    const char *note;  /* text about damage that the decoder ignored; or NULL */
    uint64_t content;  /* with `recall`: vit_hash of the photo's file */
    int64_t recalled;  /* the result of `recall`; only if it is -1, there are values */
    float *logits;     /* [num_classes]; this and the next are NULL if not requested */
    float *embedding;  /* [vit_embedding_dim] */
    float *tokens;     /* [infer_num_tokens, embed_dim], 0 after the photo's last token;
                          with crop_mode=aspect, the grid's height and width follow */
    vit_grid grid;     /* grid of the photo's patches */
    double load_ms;    /* time to decode and preprocess the photo */
    double forward_ms; /* the photo's share of its batch's time */
} infer_result;

/* Returns the number of tokens of a photo; with crop_mode=aspect, the most that a photo has. */
int infer_num_tokens(const vit_config *config);

/* Receives each result once, in the order of the photos, from one thread at a time. If it returns
 * false, the run stops; the reason is in *r, or was printed. */
typedef bool infer_take(void *user, infer_result *result, report *r);

/* Receives the hash and the number of bytes of each photo that is a file, on any thread. If it
 * returns -1, the photo is computed. Otherwise the photo is not computed, and its result has the
 * returned number as `recalled`. */
typedef int64_t infer_recall(void *user, uint64_t content, uint64_t size);

/* Zero the struct, then set the members that you need. */
typedef struct infer_settings {
    const vit_model *model;
    const char *program;    /* begins the messages about unreadable photos */
    int num_threads;        /* 0: one thread per core */
    int batch;              /* photos that a thread computes together; 0: INFER_BATCH */
    vit_isa isa;            /* VIT_ISA_AUTO, or another tier for comparison */
    bool together;          /* all threads work on one photo at a time, for the least delay */
    photo_decoder *decoder; /* made for num_threads threads, or for one if `together` */
    bool progress;          /* show progress: a bar on a terminal, otherwise a line per minute */
    unsigned outputs;
    int block; /* the number of blocks before INFER_TOKENS, without the final */
               /* norm; 0: all blocks and the final norm                      */
    infer_take *take;
    infer_recall *recall; /* NULL: all photos are computed */
    void *user;
} infer_settings;

/* Larger batches are no faster. Weights that do not fit into a cache are read once per batch. */
enum { INFER_BATCH = 4 };

typedef struct infer_counts {
    uint64_t read, unreadable;
    uint64_t recalled; /* number of photos read that `recall` knew */
    double seconds;    /* time from the first photo to the last result; never 0 */
} infer_counts;

/* Processes all photos of the source. Unreadable photos are reported on stderr and counted; they
 * are not a failure. Lack of memory is a failure, because the photo is not at fault. Returns false
 * after a failure, with the reason in *r, or if `take` stopped the run. Then results may be
 * missing. */
bool infer_run(const infer_settings *settings, photo_source *source, infer_counts *counts,
               report *r);

/* === The accuracy of a simple classifier on embeddings === */

/* The classifier by neighbours, as in DINO (ariv 2104.14294, eval_knn.py): for each photo of
 * `test`, the photos of `train` with the highest cosines vote for a class. Each vote has the weight
 * exp(cosine / PROBE_TEMPERATURE).
 *
 * The linear classifier: logistic regression on the embeddings of the training photos, scaled to
 * length 1 (learn.h, with c = PROBE_C). */
#define PROBE_TEMPERATURE 0.07
#define PROBE_C           10.0
enum { PROBE_NEIGHBORS = 20 };

/* train and test are folders DIR/CLASS/IMAGE; every class of test must be one of train. */
typedef struct probe_choice {
    const char *train, *test;
    int limit;     /* largest number of photos from each set; 0 for all */
    int neighbors; /* 0: linear classifier */
} probe_choice;

typedef struct probe_counts {
    int train, test, unreadable; /* numbers of photos; train and test exclude unreadable ones */
    int right, top5; /* number of test photos whose class has the most votes, or is in the top 5 */
    int steps;       /* steps of the logistic regression */
} probe_counts;

/* Uses these settings: model, program, num_threads, decoder and progress. Keeps all embeddings in
 * memory. */
bool probe_evaluate(const infer_settings *settings, const probe_choice *choice,
                    probe_counts *counts, report *r);

#endif
