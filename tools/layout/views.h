/* views.h - parts of a tensor in another order: slices and permutations that copy nothing. */
#ifndef VIEWS_H
#define VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

/* The sizes of axes that come from the configuration. */
typedef struct layout_sizes {
    int64_t patch, chans, heads, head_dim;
} layout_sizes;

/* Reduces a view to a slice: "#1/3", "@0", "@1:"; "" keeps all. False if the view does not have
 * these rows. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim);

/* Reduces a view of stacked blocks, its first dimension, to block i. */
bool layout_take_block(checkpoint_tensor_info *view, int i);

/* Reduces a view to its first rows; false if it has fewer. */
bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows);

/* Returns the number of dimensions of the source. */
int layout_axes_ndim(const char *axes);

/* Returns the letters of the dimensions in the .vit file: those after the '>'. */
const char *layout_file_order(const char *axes);

/* Returns the size of the dimension of the source that has only this letter; 0 for none. */
int64_t layout_axis_size(const char *axes, const checkpoint_tensor_info *view, char letter);

/* Puts the dimensions into the file's order; false if the view has another shape. */
bool layout_apply_axes(checkpoint_tensor_info *view, const char *axes, const layout_sizes *sizes);

/* True if the dimensions of the view can be merged into [rows, dims[1], ...]; sets *rows. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows);

/* === Folds === */

/* Tensors that are computed from several others: consecutive layers, a layer for each head,
 * positions from a linear layer. Sums are computed in double and rounded once. */

/* A weight [rows, cols] and a bias [rows], in memory. */
typedef struct fold_layer {
    float *weight, *bias; /* bias NULL: none */
    int64_t rows, cols;
} fold_layer;

/* Reads a weight and its bias. All dimensions but the first count as columns. `is_transposed` means
 * that the weight is stored as [cols, rows]. */
bool fold_read(checkpoint *c, const checkpoint_tensor_info *weight,
               const checkpoint_tensor_info *bias, bool is_transposed, fold_layer *layer,
               report *r);
void fold_free(fold_layer *layer);

/* Computes rows first .. first + rows - 1 of a layer; frees nothing. */
fold_layer fold_rows(const fold_layer *layer, int64_t first, int64_t rows);

/* Makes one layer that computes second(first(x)). */
bool fold_chain(const fold_layer *first, const fold_layer *second, fold_layer *result, report *r);

/* Stacks the layers. If `is_diagonal` is set, each layer reads only its own columns. If `groups` >
 * 1, each layer has this many kinds of rows, such as queries, keys and values; the result has all
 * rows of the first kind, then all rows of the next kind. */
bool fold_heads(const fold_layer *heads, int count, bool is_diagonal, int groups,
                fold_layer *result, report *r);

/* Makes a table [cols, rows] from a layer that maps the number of a position to a vector. The rows
 * of the table are the layer's columns plus its bias. */
bool fold_positions(const fold_layer *layer, float **table, report *r);

#endif
