/* views.h - slices and permutations of a tensor that copy nothing, and tensors computed from
 * several others.
 *
 * A view is a checkpoint_tensor_info that shares the storage of a tensor, but has another offset,
 * shape or order of dimensions. */
#ifndef VIEWS_H
#define VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

/* The sizes, given by settings, of dimensions that a tensor may store merged into one. */
typedef struct layout_sizes {
    int64_t patch, chans, heads, head_dim;
} layout_sizes;

/* Reduces a view to the slice "#1/3", "@0" or "@1:" (see layout.h). The slice "" keeps all rows.
 * Returns false if the view does not have these rows. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim);

/* Reduces a view to block i. The first dimension of the view must be the blocks, stacked in one
 * tensor. */
bool layout_take_block(checkpoint_tensor_info *view, int i);

/* Reduces a view to its first `rows` rows. Returns false if the view has fewer rows. */
bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows);

/* Returns the number of dimensions before the '>' of `axes`: those of the checkpoint's tensor. */
int layout_axes_ndim(const char *axes);

/* Returns the letters after the '>' of `axes`: the dimensions in the order of the .vit file. */
const char *layout_file_order(const char *axes);

/* Returns the size of the view's dimension that is `letter` alone in `axes`; 0 if there is none. */
int64_t layout_axis_size(const char *axes, const checkpoint_tensor_info *view, char letter);

/* Puts the dimensions of the view into the order of the .vit file. Returns false if the view does
 * not have the shape that `axes` and `sizes` imply. */
bool layout_apply_axes(checkpoint_tensor_info *view, const char *axes, const layout_sizes *sizes);

/* True if the dimensions of the view can be merged into the shape [rows, dims[1], ...]. *rows
 * receives the number of rows. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows);

/* === Folds === */

/* These functions compute a tensor from several others: from consecutive layers, from a layer for
 * each head, or from a linear layer that gives the positions. Sums are computed in double and
 * rounded once. */

/* A linear layer in memory: its weight [rows, cols] and its bias [rows]. */
typedef struct fold_layer {
    float *weight, *bias; /* `bias` is NULL if the layer has none */
    int64_t rows, cols;
} fold_layer;

/* Reads a weight and its bias. All dimensions of the weight but the first count as one.
 * `is_transposed` means that the weight is stored as [cols, rows]. */
bool fold_read(checkpoint *c, const checkpoint_tensor_info *weight,
               const checkpoint_tensor_info *bias, bool is_transposed, fold_layer *layer,
               report *r);
void fold_free(fold_layer *layer);

/* Returns a layer that consists of rows `first` .. `first` + `rows` - 1 of a layer. The result
 * points into the layer's memory, so do not free the result. */
fold_layer fold_rows(const fold_layer *layer, int64_t first, int64_t rows);

/* Makes one layer *result that computes second(first(x)). */
bool fold_chain(const fold_layer *first, const fold_layer *second, fold_layer *result, report *r);

/* Stacks the layers of all heads. If `is_diagonal` is set, each layer reads other columns of the
 * input; otherwise all layers read the same columns. If `groups` > 1, each layer has this many
 * kinds of rows, such as queries, keys and values. The result then has all rows of the first kind
 * first. */
bool fold_heads(const fold_layer *heads, int count, bool is_diagonal, int groups,
                fold_layer *result, report *r);

/* Makes a table [cols, rows] from a layer that maps the number of a position to a vector. The rows
 * of the table are the columns of the layer's weight, each plus the bias. */
bool fold_positions(const fold_layer *layer, float **table, report *r);

#endif
