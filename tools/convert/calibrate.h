/* calibrate.h - uses photos to change the weights of a model before they are quantised, so that the
 * model loses less accuracy. It divides large input channels by factors, clips rows, and rounds the
 * weights of a layer together (quantise.h). It works tensor by tensor in the order of the file.
 * Memory holds two tensors and samples of a few blocks. */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include <stdbool.h>

#include "base/report.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct calibration calibration;

/* Starts a calibration for weights of type `dtype`. `reference` is the model in f32. The model,
 * the decoder and the list of photos must outlive the calibration. Unreadable photos are removed
 * from *photos. Returns NULL on failure. */
calibration *calibrate_start(const vit_model *reference, vit_dtype dtype, photo_decoder *decoder,
                             photo_list *photos, bool quiet, report *r);

/* Returns tensor `index` of the reference with changed values, ready to be written as type
 * `written`. Returns NULL on failure. The values are valid until the next call. Call this function
 * for all tensors in their order. */
const float *calibrate_tensor(calibration *c, int index, vit_dtype written, report *r);

void calibrate_free(calibration *c);

/* === Comparison === */

/* These functions measure the distance between the outputs of a model and of the same model in
 * f32. */

typedef struct comparison {
    int images; /* number of compared images; 0 if nothing was compared */
    /* Mean and smallest cosine of the angle between the embeddings of both models. */
    double mean_cosine, min_cosine;
    const char *worst; /* path of the image with the smallest cosine */
    /* True if the models have classes; if false, the members below are 0. */
    bool has_classes;
    /* Number of images for which both models have the same best class. */
    int agree;
    /* `sure` is the number of images whose best class in f32 leads the second class by at least 10
     * percentage points. `sure_agree` is the number of these images for which both models have the
     * same best class. */
    int sure, sure_agree;
} comparison;

/* Compares both models on the photos. `reference` is the model in f32. Unreadable photos are
 * removed from *photos. */
bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r);

/* === A model that is ready to run on one image at a time with all cores === */

typedef struct runner {
    /* The input [in_chans, img_height, img_width], which the caller writes before each run. */
    float *input;
    float *output; /* the output of the last run: logits, or the embedding if there is no head */
    /* Number of values in `output`. */
    size_t output_size;
    float *embedding; /* the embedding of the last run */
    /* Number of values in `embedding`. */
    size_t embedding_size;
    vit_executor executor; /* callers may use its threads between runs */

    /* Private. */
    const vit_model *model;
    vit_threads *threads;
    vit_model fitted;  /* for crop_mode=aspect: `model` with the input size of the photo */
    vit_params params; /* the parameters of `session` */
    vit_session session;
    void *workspace;
} runner;

/* Prepares a model to run. The model must stay at its address. `trace` may be NULL; otherwise it is
 * called with `user`. Call runner_close in any case. */
bool runner_open(runner *run, const vit_model *model, vit_trace *trace, void *user, report *r);
/* For crop_mode=aspect: sets the input size that suits the photo `image`, and writes the prepared
 * photo to run->input. */
bool runner_fit(runner *run, const vit_image *image, report *r);
bool runner_forward(runner *run, report *r);
void runner_close(runner *run);

/* === Pages === */

/* Gives the memory pages of all tensors back to the system, so that a mapped model does not fill
 * the memory. The system reads the pages again when needed. The model must be mapped from a file,
 * because other memory would become zero. */
void pages_drop(const vit_model *model);

#endif
