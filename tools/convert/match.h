/* match.h - decides open settings of a checkpoint: runs the model with many values. The right
 * values give the original's logits for one input (--match-input), or classify labelled pictures
 * best (--match-folder). The original may give logits, their softmax, log_softmax or sigmoid, or an
 * embedding.
 */
#ifndef MATCH_H
#define MATCH_H

#include <stdbool.h>
#include <stdio.h>

#include "base/json.h"
#include "base/npy.h"
#include "base/report.h"
#include "cli/output.h"
#include "convert/conversion.h"
#include "convert/vit_writer.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct match match;

/* Reads the pair. It also gives the size and the channels of the input, which the tensors may not
 * show. Call it before layout_inspect. *m stays NULL if there is nothing to match. */
bool match_prepare(const convert_options *o, facts *f, match **m, report *r);

/* Fills all[FROM_MATCH]. Call it after layout_inspect. Settled settings raise no more questions.
 * `labels` and `decoder` are for labelled pictures. */
bool match_run(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
               findings *found, report *r);

void match_free(match *m);

/* Runs a small model on noise with other values of the assumed settings. Sorts the assumptions by
 * their effect on the output. `model` has the resolved settings. False if memory is exhausted. */
bool match_measure(const convert_options *o, const facts *f, const settings_resolved *model,
                   findings *found, bool *is_too_large, report *r);

/* Returns the last step of the original, as the pair shows it. Returns `told` without a pair, or if
 * the pair holds the input of the head. */
model_end match_end(const match *m, model_end told);
bool match_is_by_embedding(const match *m);

/* Records an assumption for each value that labelled pictures do not separate from the next best
 * value. Returns false if memory is exhausted. */
bool match_assume(const match *m, findings *f);

/* Writes the results; nothing for NULL. An assumption remains if labelled pictures cannot
 * distinguish two values. */
void match_put_provenance(const match *m, FILE *file);
void match_report_text(const match *m);
void match_report_json(const match *m, json_writer *w);

/* === A table of open settings, and the values to try === */

enum { MATCH_TEXT = 128, MATCH_MAX_ROWS = 24, MATCH_MAX_VALUES = 40 };

/* One open setting or combination. A value is one or more arguments of --set, with spaces between
 * the arguments. The likeliest value comes first. */
typedef struct match_row {
    const char *name;
    const char *keys; /* the settings of the row, with spaces between them */
    bool is_fine;     /* has little effect, so it is tried when all else fits */
    bool is_stored;   /* only its first value uses a tensor in its stored form */
    int count;
    char values[MATCH_MAX_VALUES][MATCH_TEXT];
} match_row;

typedef struct match_table {
    int count;
    match_row rows[MATCH_MAX_ROWS];
} match_table;

/* The index of the chosen value of each row. */
typedef struct match_choice {
    unsigned char of[MATCH_MAX_ROWS];
} match_choice;

/* Lists open settings: settings that no source gave, defaults of the layout, and values read from
 * weights. */
void match_list_architecture(match_table *table, const facts *f);
void match_list_preprocessing(match_table *table, const facts *f);

/* The number of patches that lie side by side, and the number of positions. */
typedef struct match_patches {
    int height, width, size;
    int positions, prefix; /* number of rows; number of rows that may be prefix tokens */
} match_patches;

/* False if a size is unknown, or if there are no positions. */
bool match_count_patches(const facts *f, match_patches *patches);

/* True if any setting of the row would become a question. */
bool match_row_is_asked(const match_row *row, const findings *f);

/* Puts the chosen values of one row, or of all rows, into s. */
void match_apply_row(const match_row *row, int value, settings *s);
void match_apply(const match_table *table, const match_choice *choice, settings *s);

/* === Candidate models === */

/* === An input and its output === */

/* An input and the original's output for this input: two .npy files. */
typedef struct match_pair {
    const char *input_path, *logits_path;
    npy_array input, logits;
    int images;               /* in both */
    int chans, height, width; /* of an image */
    size_t outputs;           /* of an image */
    model_end readings[2];    /* the last steps that the numbers allow */
    int num_readings;
    double *expected[2]; /* the numbers for each last step, prepared for comparing */
    double largest[2];   /* absolute value of these */
    double *scratch;     /* for the outputs of one image */
} match_pair;

/* Reads an input [C, H, W] or [B, C, H, W] and its output [classes] or [B, classes]. Free the pair
 * in any case. */
bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r);
void match_pair_free(match_pair *pair);

const float *match_pair_input(const match_pair *pair, int image);

/* Checks the pair against the known properties of all candidates; 0 stands for an unknown property.
 * For a model with classes, the output may also be an embedding of the width `embedding`. */
bool match_pair_check(const match_pair *pair, int classes, int embedding, int chans, report *r);

/* True if this model reads such inputs and gives that many outputs. */
bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r);

/* The sums of the distances between the model's outputs and the original's, relative to the largest
 * number. */
typedef struct match_error {
    double largest;    /* of the differences */
    double square;     /* sum of their squares */
    double ab, aa, bb; /* sums of the products of outputs and expected numbers */
} match_error;

/* Adds the output for an image, under one of the pair's two possible last steps, 0 or 1. */
void match_pair_compare(const match_pair *pair, int reading, int image, const float *output,
                        match_error *error);

/* Returns the quantity that the search minimises. It is mainly the angle between the model's output
 * and the original's. Squared differences alone would favour models with outputs near zero. */
double match_error_slope(const match_error *error);

/* === Models to try === */

/* This part makes the model that a conversion would give with other settings, in memory and ready
 * to run. A tensor that several such models share is read from the checkpoint only once. */

enum { MATCH_MAX_IMAGES = 4, MATCH_MAX_PLANS = 256 };

/* A plan and a hash of the sources of each tensor's values. A plan is cached, because making a plan
 * takes longer than running a small model. Settings such as the activation do not change the
 * plan. */
typedef struct match_plan {
    uint64_t key; /* hash of the settings on which it depends */
    layout_plan plan;
    uint64_t *sources;
} match_plan;

/* A .vit file in memory, without valid checksums. */
typedef struct match_image {
    vit_writer writer;
    uint64_t *sources; /* hash of the sources of each tensor's values */
    vit_model model;   /* .config belongs to the current model */
} match_image;

typedef struct match_model {
    vit_config config;    /* of the current model */
    uint64_t signature;   /* hash of the model; equal if settings make no difference */
    uint64_t network;     /* equal for any preprocessing */
    size_t output_size;   /* of one input */
    bool gives_embedding; /* gives the head's input in place of logits; set after opening */

    /* Private. */
    const convert_options *options;
    facts facts;
    settings_resolved model;
    match_plan plans[MATCH_MAX_PLANS];
    int num_plans, next_plan;
    const match_plan *plan; /* of the current model */
    match_image images[MATCH_MAX_IMAGES];
    int num_images, next;
    match_image *image;
    vit_isa isa;
    vit_threads *threads;
    vit_executor executor;
    void *workspace;
    size_t workspace_size;
    vit_session session;
} match_model;

/* Copies *f, and uses the checkpoint and the layout of *f. Call match_model_close in any case. */
bool match_model_open(match_model *m, const convert_options *o, const facts *f, report *r);
void match_model_close(match_model *m);

/* Builds the model that results from these settings, as all[FROM_MATCH]. Returns false if the
 * settings give no model. */
bool match_model_set(match_model *m, const settings *matched, report *r);

/* Loads the weights and the session of the current model. This is unnecessary if only the
 * preprocessing changes. */
bool match_model_load(match_model *m, report *r);
const vit_model *match_model_get(const match_model *m);

/* Runs one input, and writes the logits or the embedding. */
bool match_model_run(match_model *m, const float *input, float *output, report *r);

/* === Searching for the values that give a pair's output === */

/* One tried assignment. */
typedef struct match_try {
    match_choice choice;
    uint64_t signature; /* signature of the model; 0 if the settings give no model */
    double error;       /* largest difference / max|logit|; infinite without a model */
    double slope;       /* the quantity that a descent minimises */
    int reading;        /* index of the pair's last step that is nearer */
    int unlikely;       /* how far the values are from the likeliest ones */
    bool is_expanded, is_expanded_finely;
} match_try;

/* The position in the list of changes of two rows of a try. */
typedef struct match_pairs {
    size_t from;
    int number;
} match_pairs;

typedef struct match_search {
    const match_table *table;
    match_model *model;
    const match_pair *pair;
    const settings *base; /* settings that the values of the table override */
    double tolerance, seconds;
    double patience; /* seconds after which it ends if it has run enough models; 0: none */
    bool quiet;

    match_try *tries;
    size_t count, capacity;
    size_t *places; /* hash table of tries by their choice: 1 + index; 0 for none */
    size_t *models; /* of models, by signature */
    size_t num_places;
    int runs;             /* of different models */
    size_t chosen;        /* index of the resulting try */
    double started, took; /* ms, seconds */
    report first;         /* reason if the first assignment gives no model */

    /* Private. */
    cli_progress progress;
    char note[160];
    uint64_t random;
    match_pairs pairs[2];
    int images; /* number of the pair's images that the search uses */
    float *output;
    bool is_astray; /* the descent began with a random choice */
    bool is_out_of_memory;
} match_search;

/* Runs the search. Fill in the first group of members before the call. Returns true if
 * tries[chosen] fits within the tolerance; all other single values have then been tried too.
 * Returns false without an error in r if no try fits. Free the search in any case. */
bool match_search_run(match_search *s, report *r);
void match_search_free(match_search *s);

/* Returns the try that differs from the chosen try only in this value; NULL if there was no time
 * for it. */
const match_try *match_search_other(const match_search *s, int row, int value);

/* True if the try is another model and fits as well as the chosen try. */
bool match_search_is_equal(const match_search *s, const match_try *other);

/* === Searching for the values that classify labelled pictures best === */

typedef struct match_picture {
    vit_image image;
    int class_index;
} match_picture;

typedef struct match_pictures {
    match_picture *items;
    int count;
    int classes; /* folders */
} match_pictures;

/* Reads at most `max` pictures, evenly spaced, and stops after `seconds` of decoding. The names of
 * the folders are labels or numbers of classes. Otherwise there must be one folder for each class,
 * and the sorted folders are the classes in order. */
bool match_pictures_read(match_pictures *pictures, photo_decoder *decoder, const char *folder,
                         int max, double seconds, const label_list *labels, int num_classes,
                         report *r);
void match_pictures_free(match_pictures *pictures);

/* A comparison of a value with the chosen value: the increase of the mean cross-entropy on the same
 * pictures, and the standard error of this increase. */
typedef struct match_difference {
    int pictures; /* number of compared pictures; 0: not tried, or no model; few: clearly worse */
    double more, error;
} match_difference;

/* The result of a row. */
typedef struct match_verdict {
    match_difference values[MATCH_MAX_VALUES]; /* zero for the chosen value */
    int next;     /* the best other value; -1 if no other value makes a difference */
    bool is_open; /* another value is not clearly worse */
} match_verdict;

typedef struct match_sorting {
    const match_table *table; /* preprocessing first */
    const findings *asked;    /* rows that have no value yet */
    match_model *model;
    const match_pictures *pictures;
    const settings *base;
    double seconds;
    bool quiet;

    match_choice chosen;
    match_verdict verdicts[MATCH_MAX_ROWS];
    double loss;     /* mean cross-entropy of the chosen assignment */
    int used, right; /* number of pictures used, and of those classified correctly */
    int runs;        /* measured assignments */
    double took;     /* seconds */

    /* Private. */
    double started;
    cli_progress progress;
    char note[160];
    double *losses, *best; /* of each picture */
    float *logits, *best_logits;
    uint64_t *hashes, *best_hashes; /* hash of the network and its input */
    float *input;
} match_sorting;

/* Runs the comparison. Fill in the first group of members before the call. Free it in any case. */
bool match_sorting_run(match_sorting *s, report *r);
void match_sorting_free(match_sorting *s);

#endif
