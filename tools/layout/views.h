/* views.h - a part of a tensor, in another order: slices and permutations that copy nothing. */
#ifndef VIEWS_H
#define VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

/* The letters of axes whose size the configuration tells. */
typedef struct layout_sizes {
    int64_t patch, chans, heads, head_dim;
} layout_sizes;

/* Keeps a slice of a view: "#1/3", "@0", "@1:"; "" keeps all. False: there are no such rows. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim);

/* Drops the first dimension, that of stacked blocks, and keeps block i. */
bool layout_take_block(checkpoint_tensor_info *view, int i);

/* Keeps the first rows; false: it has fewer. */
bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows);

/* Number of dimensions of the source. */
int layout_axes_ndim(const char *axes);

/* The letters of the .vit file's dimensions: those after the '>'. */
const char *layout_file_order(const char *axes);

/* The size of the source's dimension with this letter alone; 0: there is none. */
int64_t layout_axis_size(const char *axes, const checkpoint_tensor_info *view, char letter);

/* Puts the dimensions into the file's order; false where the view has another shape. */
bool layout_apply_axes(checkpoint_tensor_info *view, const char *axes, const layout_sizes *sizes);

/* True if the view's dimensions can be merged into [rows, dims[1], ...]; counts the rows. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows);

#endif
