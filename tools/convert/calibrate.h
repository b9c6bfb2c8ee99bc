/* calibrate.h - uses photos to change the weights of a model before quantising, to keep accuracy:
 * smooths outlier channels, clips rows, and rounds weights together (quantise.h). It works tensor
 * by tensor in the order of the file; memory holds one tensor and samples of a few blocks.
 */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include <stdbool.h>

#include "base/report.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct calibration calibration;

/* Starts a calibration. `reference` is the model in f32. All arguments must outlive the
 * calibration. Removes unreadable photos from their list. Returns NULL on failure. */
calibration *calibrate_start(const vit_model *reference, vit_dtype dtype, photo_decoder *decoder,
                             photo_list *photos, bool quiet, report *r);

/* Returns tensor `index` of the reference, ready to be written as type `written`; NULL on failure.
 * The values are valid until the next call. Call it for all tensors in their order. */
const float *calibrate_tensor(calibration *c, int index, vit_dtype written, report *r);

void calibrate_free(calibration *c);

/* === Comparison === */

/* The distance between the outputs of a model and of its original in f32. */

typedef struct comparison {
    int images;                     /* 0 if nothing was compared */
    double mean_cosine, min_cosine; /* cosine of the angle between both embeddings */
    const char *worst;              /* path of the image with min_cosine */
    bool has_classes;               /* if it is false, the members below are 0 */
    int agree;                      /* images with the same best class */
    int sure, sure_agree; /* images whose best class in f32 leads the second by at least 10
                           * percentage points, and the number of these that agree */
} comparison;

/* Removes unreadable photos from the list. */
bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r);

/* === A model, ready to run on one image at a time with all cores === */

typedef struct runner {
    float *input;  /* [in_chans, img_height, img_width]: write this */
    float *output; /* the output: logits, or the embedding if there is no head */
    size_t output_size;
    float *embedding; /* read this */
    size_t embedding_size;
    vit_executor executor; /* its threads, usable for other work between runs */

    /* Private. */
    const vit_model *model;
    vit_threads *threads;
    vit_model fitted;  /* with crop_mode=aspect: `model` in the size of a photo */
    vit_params params; /* of `session` */
    vit_session session;
    void *workspace;
} runner;

/* Prepares a model to run. The model must stay at its address. `trace` may be NULL. Call
 * runner_close in any case. */
bool runner_open(runner *run, const vit_model *model, vit_trace *trace, void *user, report *r);
/* With crop_mode=aspect, takes the input size from a photo and prepares the photo as input. */
bool runner_fit(runner *run, const vit_image *image, report *r);
bool runner_forward(runner *run, report *r);
void runner_close(runner *run);

/* === Pages === */

/* This function keeps a mapped model from filling the memory. */

/* Gives the pages of all tensors back to the system, which reads them again when needed. The model
 * must be mapped from a file: other memory would be zeroed. */
void pages_drop(const vit_model *model);

#endif
