/* tensor.h - the size of a tensor, its shape as text, and the names of the types. */
#ifndef TENSOR_H
#define TENSOR_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

/* tensor_dtype_name returns the name of a type, such as "f16" for VIT_F16. tensor_find_dtype is the
 * reverse; it also accepts PyTorch's "float16" and similar names, and returns -1 for an unknown
 * name. To add a type, add its name as a row in tensor.c. After vit_dtype has the new type, the
 * compiler reports each switch that does not handle it. */
const char *tensor_dtype_name(vit_dtype dtype);
int tensor_find_dtype(const char *name);

/* True if a weight of this type is stored as a small integer that is multiplied by a scale. */
bool tensor_is_quantised(vit_dtype dtype);

/* Return the number of elements of the whole tensor, and of one of its rows. A row has all
 * dimensions but the first. */
uint64_t tensor_count(const vit_tensor *tensor);
size_t tensor_depth(const vit_tensor *tensor);

/* Splits n >= 1 into two factors that are as near to each other as possible. factors[0] is the
 * smaller factor. */
void tensor_split(int n, int factors[2]);

/* True if none of the n values is NaN or infinite. */
bool tensor_values_are_finite(const float *values, size_t n);

enum { SHAPE_TEXT_SIZE = 192 }; /* enough for eight dimensions */

/* Write a shape as text, such as "[192, 3, 16, 16]", and return `text`. */
const char *shape_text(const int64_t *dims, int ndim, char *text, size_t size);
const char *tensor_shape(const vit_tensor *tensor, char text[SHAPE_TEXT_SIZE]);

#endif
