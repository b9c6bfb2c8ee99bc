/* calibrate.h - the weights of a model, changed so that it loses little by being quantised, as
 * photos show: outlier channels smoothed, rows clipped, weights rounded together (quantise.h).
 * Tensor by tensor in the order of the file; never more in memory than one tensor and samples of a
 * few blocks.
 */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include <stdbool.h>

#include "base/report.h"
#include "image/photos.h"

typedef struct calibration calibration;

/* reference is the model in f32. All of them must outlive the calibration, which takes photos that
 * cannot be read out of their list. NULL: see the report. */
calibration *calibrate_start(const vit_model *reference, vit_dtype dtype, photo_decoder *decoder,
                             photo_list *photos, bool quiet, report *r);

/* Tensor `index` of the reference as it is to be written in type `written`; valid until the next
 * call. Call it for all tensors, in order. NULL: see the report. */
const float *calibrate_tensor(calibration *c, int index, vit_dtype written, report *r);

void calibrate_free(calibration *c);

/* === Comparison === */

/* How far a model's outputs are from those of its original in f32. */

typedef struct comparison {
    int images;                     /* 0: nothing was compared */
    double mean_cosine, min_cosine; /* of the angle between both embeddings */
    const char *worst;              /* path of the image of min_cosine */
    bool has_classes;               /* if not, what follows is 0 */
    int agree;                      /* images with the same best class */
    int sure, sure_agree;           /* those whose best class in f32 leads the second by 10 points
                                        of probability or more, and how many of them agree */
} comparison;

/* Photos that cannot be read are taken out of the list. */
bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r);

#endif
