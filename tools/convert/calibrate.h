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

#endif
