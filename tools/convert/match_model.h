/* match_model.h - models to try, and what tells whether one is right. */
#ifndef MATCH_MODEL_H
#define MATCH_MODEL_H

#include "base/npy.h"
#include "base/report.h"
#include "convert/conversion.h"
#include "convert/vit_writer.h"
#define VIT_TOOLS
#include "vit.h"

/* === An input and its logits === */

/* An input and what the original made of it: two .npy files. */

typedef struct match_pair {
    const char *input_path, *logits_path;
    npy_array input, logits;
    int images;               /* in both */
    int chans, height, width; /* of an image */
    size_t outputs;           /* for an image */
    double largest;           /* absolute value of the logits */
} match_pair;

/* [C, H, W] or [B, C, H, W], and [classes] or [B, classes]. Free it either way. */
bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r);
void match_pair_free(match_pair *pair);

const float *match_pair_input(const match_pair *pair, int image);

/* The same of what is known of every model; 0: it is not. */
bool match_pair_check(const match_pair *pair, int classes, int chans, report *r);

/* Does this model read such inputs and give so many outputs? */
bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r);

/* How far an output is from that of the original, relative to all of its logits. */
typedef struct match_error {
    double largest;    /* of the differences */
    double square;     /* sum of their squares */
    double ab, aa, bb; /* sums of products of the output and the logits */
} match_error;

/* Counts the output of an image in. */
void match_pair_compare(const match_pair *pair, int image, const float *output, match_error *error);

/* What the search makes smaller: above all the angle between the two. The squares alone would draw
 * it to models that give next to nothing. */
double match_error_slope(const match_error *error);

/* === Models to try === */

/* The model that a conversion would give with other settings, in memory, ready to run. What two of
 * them have in common is read from the checkpoint once. */

enum { MATCH_MAX_IMAGES = 4, MATCH_MAX_PLANS = 256 };

/* A plan and a hash of what each tensor's values come from. Making one takes longer than running a
 * small model, and settings such as the activation leave it as it is. */
typedef struct match_plan {
    uint64_t key; /* of the settings that it depends on */
    layout_plan plan;
    uint64_t *sources;
} match_plan;

/* A .vit file in memory, without checksums that hold. */
typedef struct match_image {
    vit_writer writer;
    uint64_t *sources; /* of each tensor: a hash of what its values come from */
    vit_model model;   /* .config is that of the model that was set last */
} match_image;

typedef struct match_model {
    vit_config config;  /* of the model that was set last */
    uint64_t signature; /* equal for settings that make no difference */
    uint64_t network;   /* the same, whatever the preprocessing */
    size_t output_size; /* of one input */

    /* Private. */
    const convert_options *options;
    facts facts;
    settings_resolved model;
    match_plan plans[MATCH_MAX_PLANS];
    int num_plans, next_plan;
    const match_plan *plan; /* of the model that was set last */
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

/* f is copied as it is now; its checkpoint and layout are used. Close it either way. */
bool match_model_open(match_model *m, const convert_options *o, const facts *f, report *r);
void match_model_close(match_model *m);

/* Works out the model that these settings, as all[FROM_MATCH], give; false where there is none. */
bool match_model_set(match_model *m, const settings *matched, report *r);

/* The weights and the session of the model that was set; whoever only changes its preprocessing
 * need not call it again. */
bool match_model_load(match_model *m, report *r);
const vit_model *match_model_get(const match_model *m);

/* One input; logits, or the embedding of a headless model. */
bool match_model_run(match_model *m, const float *input, float *output, report *r);

#endif
