/* match_model.h - builds candidate models, and tests which of them is right. */
#ifndef MATCH_MODEL_H
#define MATCH_MODEL_H

#include "base/npy.h"
#include "base/report.h"
#include "convert/conversion.h"
#include "convert/vit_writer.h"
#define VIT_TOOLS
#include "vit.h"

/* === An input and its output === */

/* An input and the original's output for it: two .npy files. */
typedef struct match_pair {
    const char *input_path, *logits_path;
    npy_array input, logits;
    int images;               /* in both */
    int chans, height, width; /* of an image */
    size_t outputs;           /* of an image */
    model_end readings[2];    /* those that the numbers allow */
    int num_readings;
    double *expected[2]; /* the numbers in each reading, as match_pair_compare needs them */
    double largest[2];   /* absolute value of these */
    double *scratch;     /* for the outputs of one image */
} match_pair;

/* [C, H, W] or [B, C, H, W], and [classes] or [B, classes]. Free it in any case. */
bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r);
void match_pair_free(match_pair *pair);

const float *match_pair_input(const match_pair *pair, int image);

/* Checks the pair against the known properties of all candidates; 0 stands for an unknown one. With
 * classes, the output may also be the embedding, of this width. */
bool match_pair_check(const match_pair *pair, int classes, int embedding, int chans, report *r);

/* True if this model reads such inputs and gives that many outputs. */
bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r);

/* Adds up the distance between an output and the original's, relative to the largest number. */
typedef struct match_error {
    double largest;    /* of the differences */
    double square;     /* sum of their squares */
    double ab, aa, bb; /* sums of products of outputs and expected numbers */
} match_error;

/* Adds the output of an image, in one of the pair's readings: 0 or 1. */
void match_pair_compare(const match_pair *pair, int reading, int image, const float *output,
                        match_error *error);

/* The quantity that the search minimises, mainly the angle between output and original. Squared
 * differences alone would favour models with outputs near zero. */
double match_error_slope(const match_error *error);

/* === Models to try === */

/* The model that a conversion would give with other settings, in memory, ready to run. A tensor
 * that several such models share is read from the checkpoint once. */

enum { MATCH_MAX_IMAGES = 4, MATCH_MAX_PLANS = 256 };

/* A plan and a hash of the sources of each tensor's values. Making a plan takes longer than running
 * a small model, and settings such as the activation do not change it. */
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
    uint64_t signature;   /* equal for settings that make no difference */
    uint64_t network;     /* equal for any preprocessing */
    size_t output_size;   /* of one input */
    bool gives_embedding; /* of a model with classes: the head's input; set it after opening */

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

/* Copies f, and uses its checkpoint and layout. Close it in any case. */
bool match_model_open(match_model *m, const convert_options *o, const facts *f, report *r);
void match_model_close(match_model *m);

/* Builds the model that these settings, as all[FROM_MATCH], give; false if they give none. */
bool match_model_set(match_model *m, const settings *matched, report *r);

/* Loads the weights and the session of the current model. Not needed if only the preprocessing
 * changes. */
bool match_model_load(match_model *m, report *r);
const vit_model *match_model_get(const match_model *m);

/* Runs one input, and returns the logits, or the embedding. */
bool match_model_run(match_model *m, const float *input, float *output, report *r);

#endif
