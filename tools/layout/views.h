/* views.h - the part of a tensor that is meant, in the order that is wanted. */
#ifndef VIEWS_H
#define VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

/* The letters of a form that the configuration fixes; 0: not known. */
typedef struct layout_sizes {
    int64_t patch, chans, heads, head_dim;
} layout_sizes;

/* Keeps a slice of a view: "#1/3", "@0", "@1:"; "" keeps everything. False: it has none such. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim);

/* Drops the first dimension, of stacked blocks, and keeps block i of it. */
bool layout_take_block(checkpoint_tensor_info *view, int i);

/* Keeps the first rows; false: it has fewer. */
bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows);

/* Number of dimensions that a form expects. */
int layout_axes_ndim(const char *form);

/* The size of a letter that stands alone in the form; 0 if it does not. */
int64_t layout_axis_size(const char *form, const checkpoint_tensor_info *view, char letter);

/* Reorders a view; false where its shape is not that of the form. */
bool layout_apply_axes(checkpoint_tensor_info *view, const char *form, const layout_sizes *sizes);

/* True if the view's dimensions can be merged into [rows, dims[1], ...]; counts the rows. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows);

#endif
