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
 * Each thread decodes, preprocesses and runs its own photos, in batches, with its own session.
 * Unless `together` is true, no thread waits for a layer of another thread. The results do not
 * depend on the number of threads or on the batch.
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

/* Bits of infer_settings.outputs: the outputs to compute. */
enum { INFER_LOGITS = 1, INFER_EMBEDDING = 2, INFER_TOKENS = 4 };

/* The result of one photo. Pointers are valid only during the call of infer_take, which may change
 * the values. */
typedef struct infer_result {
    uint64_t index; /* number of the photo in its source */
    const char *name;
    const char *error; /* "FILE: reason" if the photo could not be read; otherwise NULL */
    const char *note;  /* text about damage that the decoder ignored; NULL if there is none */
    uint64_t content;  /* vit_hash of the photo's file if `recall` received it; otherwise 0 */
    /* the number that `recall` returned; -1 if the photo was computed or could not be read; the
     * arrays below have values only if the photo was computed */
    int64_t recalled;
    float *logits;    /* [num_classes]; NULL if not requested */
    float *embedding; /* [vit_embedding_dim]; NULL if not requested */
    /* [infer_num_tokens, embed_dim]; NULL if not requested. Rows after the photo's last token are
     * zero. With crop_mode=aspect, two more floats follow: the grid's height and width. */
    float *tokens;
    vit_grid grid;     /* grid of the photo's patches */
    double load_ms;    /* time to decode and preprocess the photo, in ms */
    double forward_ms; /* time to compute the batch, divided by the number of its photos, in ms */
} infer_result;

/* Returns the number of tokens of a photo. With crop_mode=aspect, in which photos have different
 * numbers of tokens, returns the largest possible number. */
int infer_num_tokens(const vit_config *config);

/* Receives each result once, in the order of the photos, from one thread at a time. To stop the
 * run, the function puts the reason into *r or prints it, and returns false. */
typedef bool infer_take(void *user, infer_result *result, report *r);

/* Receives the vit_hash and the number of bytes of each photo that is a file. Any thread may call
 * the function. If the function returns -1, the model computes the photo. Otherwise the photo is
 * not computed, and its result has the returned number as `recalled`. */
typedef int64_t infer_recall(void *user, uint64_t content, uint64_t size);

/* Zero the struct, then set the members that you need. */
typedef struct infer_settings {
    const vit_model *model;
    const char *program; /* begins the messages about unreadable photos */
    int num_threads;     /* number of threads; 0 means one per core */
    /* photos in a batch; 0: INFER_BATCH, or 1 if `together`; always 1 with crop_mode=aspect */
    int batch;
    vit_isa isa; /* instruction set; VIT_ISA_AUTO chooses the fastest */
    /* true: all threads compute the same batch together, which gives the shortest delay */
    bool together;
    /* a decoder opened for num_threads threads, or for one thread if `together` is true */
    photo_decoder *decoder;
    /* true: show a progress bar on a terminal, and otherwise print a line per minute */
    bool progress;
    unsigned outputs;
    /* 0: INFER_TOKENS are the tokens after all blocks and the final norm; N: they are the tokens
     * after the first N blocks, without the final norm */
    int block;
    infer_take *take;
    infer_recall *recall; /* NULL if all photos must be computed */
    void *user;
} infer_settings;

/* The default batch. Larger batches are not faster. Smaller batches are slower if the weights do
 * not fit into a cache, because the weights are read from memory once per batch. */
enum { INFER_BATCH = 4 };

typedef struct infer_counts {
    uint64_t read, unreadable;
    /* number of photos, among those read, that were not computed because of `recall` */
    uint64_t recalled;
    double seconds; /* time from the first photo to the last result, in seconds; never 0 */
} infer_counts;

/* Processes all photos of the source. Unreadable photos are reported on stderr and counted; they
 * are not a failure. Lack of memory is a failure of the run, because it is no fault of the photo.
 * Returns false after a failure, whose reason is in *r, and also if `take` stopped the run. In both
 * cases some photos have no result. */
bool infer_run(const infer_settings *settings, photo_source *source, infer_counts *counts,
               report *r);

/* === Measuring the accuracy of a simple classifier on embeddings === */

/* The classifier by neighbours works as in DINO (arXiv 2104.14294, eval_knn.py). For each photo of
 * `test`, the photos of `train` with the highest cosines are its neighbours, which vote for their
 * classes. Each vote has the weight exp(cosine / PROBE_TEMPERATURE).
 *
 * The linear classifier is a logistic regression (learn.h, with c = PROBE_C) on the embeddings of
 * the training photos. The embeddings are scaled to length 1. */
#define PROBE_TEMPERATURE 0.07
#define PROBE_C           10.0
enum { PROBE_NEIGHBORS = 20 };

/* `train` and `test` are folders with a subfolder for each class, DIR/CLASS/IMAGE. Every class of
 * `test` must also be a class of `train`. */
typedef struct probe_choice {
    const char *train, *test;
    int limit;     /* largest number of photos from `train`, and from `test`; 0: all photos */
    int neighbors; /* number of neighbours that vote; 0 selects the linear classifier */
} probe_choice;

typedef struct probe_counts {
    /* numbers of photos; `train` and `test` exclude unreadable photos */
    int train, test, unreadable;
    /* numbers of test photos whose own class comes first, or is among the first five */
    int right, top5;
    int steps; /* number of steps of the logistic regression */
} probe_counts;

/* Measures the accuracy. Set only these settings: model, program, num_threads, decoder and
 * progress. Keeps all embeddings in memory. */
bool probe_evaluate(const infer_settings *settings, const probe_choice *choice,
                    probe_counts *counts, report *r);

#endif
