/* match.h - finds the values of uncertain settings by running the model with many values. The right
 * values reproduce the logits that the original model gives for one input (--match-input), or
 * classify labelled pictures best (--match-folder). The original model may give logits, their
 * softmax, log_softmax or sigmoid, or an embedding.
 *
 * A row is a setting, or a combination of settings, with the values to try. A choice is one value
 * for each row. A try is a choice and its result. The pair is an input and the original's output
 * for this input. A reading is an assumption about the last step of the original model, such as a
 * softmax (model_end). */
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

/* The state of the search for one conversion. */
typedef struct match match;

/* Reads the pair. The pair also gives the size and the channels of the input, which the tensors may
 * not show. Call this function before layout_inspect. *m stays NULL without --match options. */
bool match_prepare(const convert_options *o, facts *f, match **m, report *r);

/* Searches, and puts the values found into f->all[FROM_MATCH]. Call this function after
 * layout_inspect. Questions about settings that are found are removed from *found. `labels` and
 * `decoder` are used for labelled pictures. */
bool match_run(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
               findings *found, report *r);

void match_free(match *m);

/* Runs a small model on noise with other values of the assumed settings, and sorts the assumptions
 * by their effect on the output. `model` has the resolved settings. *is_too_large becomes true if
 * the model is too large to run. Returns false if memory is exhausted or reading fails. */
bool match_measure(const convert_options *o, const facts *f, const settings_resolved *model,
                   findings *found, bool *is_too_large, report *r);

/* Returns the last step of the original, as the pair shows it. Returns `told` if there is no pair,
 * or if the output of the pair is the input of the head. */
model_end match_end(const match *m, model_end told);
/* True if the output of the pair is an embedding. */
bool match_is_by_embedding(const match *m);

/* Records an assumption for each setting for which labelled pictures cannot decide between the best
 * value and the next best value. Returns false if memory is exhausted. */
bool match_assume(const match *m, findings *f);

/* Write the results to the provenance (`file`), to the text report on standard output, and to the
 * JSON report (`w`). Each function writes nothing if m is NULL. */
void match_put_provenance(const match *m, FILE *file);
void match_report_text(const match *m);
void match_report_json(const match *m, json_writer *w);

/* === A table of uncertain settings, and the values to try === */

enum { MATCH_TEXT = 128, MATCH_MAX_ROWS = 24, MATCH_MAX_VALUES = 40 };

/* A setting or a combination of settings. A value is one or more arguments of --set, with spaces
 * between them. The likeliest value comes first. */
typedef struct match_row {
    /* Name of the row in messages. */
    const char *name;
    const char *keys; /* the names of all settings in the row, with spaces between them */
    /* True if the row has little effect. Such a row is tried last, after the values of all other
     * rows are found. */
    bool is_fine;
    /* True if only the first value uses a tensor in its stored form. */
    bool is_stored;
    int count;
    char values[MATCH_MAX_VALUES][MATCH_TEXT];
} match_row;

typedef struct match_table {
    int count;
    match_row rows[MATCH_MAX_ROWS];
} match_table;

/* of[i] is the index of the chosen value in row i of the table. */
typedef struct match_choice {
    unsigned char of[MATCH_MAX_ROWS];
} match_choice;

/* Add the uncertain settings to the table: settings that no source gives, defaults of the layout,
 * and values read from weights. */
void match_list_architecture(match_table *table, const facts *f);
void match_list_preprocessing(match_table *table, const facts *f);

/* The numbers of patches along height and width, the patch size, and the number of positions. */
typedef struct match_patches {
    int height, width, size;
    /* `positions` is the number of rows of pos_embed. `prefix` is the number of those rows that may
     * belong to prefix tokens. */
    int positions, prefix;
} match_patches;

/* Fills in *patches. Returns false if a size is unknown, or if there are no positions. */
bool match_count_patches(const facts *f, match_patches *patches);

/* True if *f has a question about any setting of the row. */
bool match_row_is_asked(const match_row *row, const findings *f);

/* Put the chosen value of one row, or the chosen values of all rows, into *s. */
void match_apply_row(const match_row *row, int value, settings *s);
void match_apply(const match_table *table, const match_choice *choice, settings *s);

/* === Candidate models === */

/* === An input and its output === */

/* A pair: an input, and the original's output for this input. Both are .npy files. */
typedef struct match_pair {
    const char *input_path, *logits_path;
    npy_array input, logits;
    int images;               /* number of images in `input` and in `logits` */
    int chans, height, width; /* channels and size of one image */
    size_t outputs;           /* number of outputs for one image */
    model_end readings[2];    /* the last steps that can give these outputs */
    int num_readings;
    /* expected[i] has the original's outputs, prepared for comparison under readings[i]. */
    double *expected[2];
    double largest[2]; /* largest[i] is the largest absolute value in expected[i] */
    double *scratch;   /* memory for the outputs of one image */
} match_pair;

/* Reads an input [C, H, W] or [B, C, H, W] and its output [classes] or [B, classes]. Free the pair
 * in any case. */
bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r);
void match_pair_free(match_pair *pair);

/* Returns the input values of one image. */
const float *match_pair_input(const match_pair *pair, int image);

/* Checks the pair against the properties that all models to try have in common. 0 stands for an
 * unknown property. For a model with classes, the output may also be an embedding of the width
 * `embedding`. */
bool match_pair_check(const match_pair *pair, int classes, int embedding, int chans, report *r);

/* True if a model with this configuration reads inputs of the pair's shape and gives `outputs`
 * outputs. */
bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r);

/* How far the model's outputs are from the original's, over all compared images: one maximum and
 * four sums. All outputs are divided by the largest absolute value of the original's. */
typedef struct match_error {
    double largest;    /* the largest difference */
    double square;     /* the sum of the squares of the differences */
    double ab, aa, bb; /* sums of products; a are the model's outputs, b the original's */
} match_error;

/* Adds the differences for one image to *error. The outputs are compared under
 * readings[reading]. */
void match_pair_compare(const match_pair *pair, int reading, int image, const float *output,
                        match_error *error);

/* Returns the quantity that the search minimises. It is mainly the angle between the model's
 * outputs and the original's. Squared differences alone would favour models with outputs near
 * zero. */
double match_error_slope(const match_error *error);

/* === Models to try === */

/* These functions make the model that a conversion would give with other settings. The model is in
 * memory and ready to run. A tensor is not read from the checkpoint if another such model that is
 * still in memory has it. */

enum { MATCH_MAX_IMAGES = 4, MATCH_MAX_PLANS = 256 };

/* A plan of the tensors (layout/plan.h) that is kept for later models, because making a plan takes
 * longer than running a small model. Settings such as the activation do not change the plan. */
typedef struct match_plan {
    uint64_t key; /* hash of the settings on which the plan depends */
    layout_plan plan;
    /* For each tensor, a hash of the sources of its values. */
    uint64_t *sources;
} match_plan;

/* A .vit file in memory. Its checksums are not valid. */
typedef struct match_image {
    vit_writer writer;
    uint64_t *sources; /* for each tensor, a hash of the sources of its values */
    vit_model model;   /* its member `config` is that of the current model */
} match_image;

typedef struct match_model {
    vit_config config; /* the configuration of the current model */
    /* Hash of the current model. It is equal for settings that give the same model. */
    uint64_t signature;
    uint64_t network;   /* hash of the network without its preprocessing */
    size_t output_size; /* number of outputs for one input */
    /* True if the model gives the input of the head in place of logits. Set it after
     * match_model_open. */
    bool gives_embedding;

    /* Private. */
    const convert_options *options;
    facts facts;
    settings_resolved model;
    match_plan plans[MATCH_MAX_PLANS];
    int num_plans, next_plan;
    const match_plan *plan; /* the plan of the current model */
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

/* Prepares models to try. Copies *f, and uses the checkpoint and the layout of *f. Call
 * match_model_close in any case. */
bool match_model_open(match_model *m, const convert_options *o, const facts *f, report *r);
void match_model_close(match_model *m);

/* Makes the current model from these settings, which are used as all[FROM_MATCH]. Returns false if
 * the settings give no model. */
bool match_model_set(match_model *m, const settings *matched, report *r);

/* Loads the weights of the current model and opens its session. Until the next call,
 * match_model_get returns this model. */
bool match_model_load(match_model *m, report *r);
const vit_model *match_model_get(const match_model *m);

/* Runs the current model on one input, and writes its logits or its embedding to `output`. */
bool match_model_run(match_model *m, const float *input, float *output, report *r);

/* === Searching for the values that give a pair's output === */

/* A try: a choice and its result. */
typedef struct match_try {
    match_choice choice;
    uint64_t signature; /* hash of the model; 0 if the settings give no model */
    /* Largest difference from the original's outputs, divided by their largest absolute value.
     * Infinite if there is no model. */
    double error;
    double slope; /* the quantity that the search minimises (match_error_slope) */
    int reading;  /* index in pair->readings of the last step that fits best */
    int unlikely; /* 0 for the likeliest choice; grows with each less likely value */
    bool is_expanded, is_expanded_finely;
} match_try;

/* A position in the list of all pairs of changes that can be made to the try `from`. */
typedef struct match_pairs {
    size_t from;
    int number;
} match_pairs;

typedef struct match_search {
    const match_table *table;
    match_model *model;
    const match_pair *pair;
    const settings *base; /* settings of the conversion, which the values of the table replace */
    double tolerance, seconds;
    /* The search ends after this number of seconds if it has run enough models. 0 for no such
     * limit. */
    double patience;
    bool quiet;

    match_try *tries;
    size_t count, capacity;
    /* Hash table of the tries by their choice. An entry is 1 + the index of the try, or 0. */
    size_t *places;
    size_t *models; /* hash table of the tries by the signature of their model */
    size_t num_places;
    int runs;             /* number of different models that were run */
    size_t chosen;        /* index of the resulting try */
    double started, took; /* `started` is a time in milliseconds; `took` is a duration in seconds */
    /* the reason why the first choice gives no model; empty if it gives one */
    report first;

    /* Private. */
    cli_progress progress;
    char note[160];
    uint64_t random;
    match_pairs pairs[2];
    int images; /* number of images of the pair that the search uses */
    float *output;
    bool is_astray; /* true if the descent began at a random choice */
    bool is_out_of_memory;
} match_search;

/* Runs the search. Fill in the first group of members before the call. Returns true if
 * tries[chosen] fits within the tolerance. Unless time was short, all choices that differ from
 * tries[chosen] in a single value have then been tried too. Returns false without an error in *r if
 * no try fits. Free the search in any case. */
bool match_search_run(match_search *s, report *r);
void match_search_free(match_search *s);

/* Returns the try that differs from tries[chosen] only in the value of row `row`, which is `value`.
 * Returns NULL if there was no time for this try. */
const match_try *match_search_other(const match_search *s, int row, int value);

/* True if the try `other` gives a different model than tries[chosen], but fits about equally
 * well. */
bool match_search_is_equal(const match_search *s, const match_try *other);

/* === Searching for the values that classify labelled pictures best === */

/* A labelled picture: a decoded image and the index of its class. */
typedef struct match_picture {
    vit_image image;
    int class_index;
} match_picture;

typedef struct match_pictures {
    match_picture *items;
    int count;
    int classes; /* number of folders with pictures */
} match_pictures;

/* Reads at most `max` pictures, evenly spaced in the folders. Stops after `seconds` of
 * decoding, but not before 24 pictures. If every folder is named after a class or a class number,
 * the names give the classes. Otherwise there must be one folder for each class, and the i-th
 * folder in sorted order holds class i. */
bool match_pictures_read(match_pictures *pictures, photo_decoder *decoder, const char *folder,
                         int max, double seconds, const label_list *labels, int num_classes,
                         report *r);
void match_pictures_free(match_pictures *pictures);

/* A comparison of a value with the chosen value of the row. `more` is the increase of the mean
 * cross-entropy on the same pictures, and `error` is the standard error of this increase. */
typedef struct match_difference {
    /* Number of compared pictures. 0 if the value was not tried or gives no model. If the value is
     * clearly worse, the comparison ends after a few pictures. */
    int pictures;
    double more, error;
} match_difference;

/* The result for one row. */
typedef struct match_verdict {
    /* the difference of each value from the chosen value; zero for the chosen value itself */
    match_difference values[MATCH_MAX_VALUES];
    int next;     /* index of the best other value; -1 if no other value makes a difference */
    bool is_open; /* true if another value is not clearly worse, or if the time ran out */
} match_verdict;

/* The search with labelled pictures. */
typedef struct match_sorting {
    const match_table *table; /* the rows of preprocessing come first */
    const findings *asked;    /* the open questions; a row with a question has no value yet */
    match_model *model;
    const match_pictures *pictures;
    const settings *base;
    double seconds;
    bool quiet;

    match_choice chosen;
    match_verdict verdicts[MATCH_MAX_ROWS];
    double loss;     /* mean cross-entropy of the choice `chosen` over the pictures */
    int used, right; /* number of pictures used, and number of pictures classified correctly */
    int runs;        /* number of choices that were measured */
    double took;     /* duration in seconds */

    /* Private. */
    double started;
    cli_progress progress;
    char note[160];
    double *losses, *best; /* a loss for each picture */
    float *logits, *best_logits;
    uint64_t *hashes, *best_hashes; /* a hash of the network and its input for each picture */
    float *input;
} match_sorting;

/* Runs the search. Fill in the first group of members before the call. Free *s in any case. */
bool match_sorting_run(match_sorting *s, report *r);
void match_sorting_free(match_sorting *s);

#endif
