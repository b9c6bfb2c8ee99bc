/* tensor_values.h - a tensor of an open model, as float. */
#ifndef TENSOR_VALUES_H
#define TENSOR_VALUES_H

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Its values, [dims of the tensor], malloc'ed; what it is, in *tensor. NULL: it fails, or a value is
 * NaN or infinite. */
float *tensor_values(const vit_model *model, const char *name, vit_tensor *tensor, report *r);

#endif
