/* weights.h - the tensors of a plan, from the checkpoint or a calibration into a .vit file: never
 * more in memory than 16 rows, or one tensor that is resampled.
 */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "convert/calibrate.h"
#include "convert/conversion.h"
#include "convert/vit_writer.h"

/* Writes and finishes a file that the writer has started. calibrated: NULL takes the weights as
 * they are. Refuses values that the file's type cannot hold. */
bool weights_write(const conversion *c, calibration *calibrated, vit_writer *writer, report *r);

/* Writes the tensors of the plan for which `wanted` is true, in any order, without finishing. */
bool weights_rewrite(const conversion *c, const bool *wanted, vit_writer *writer, report *r);

#endif
