/* views.h - parts of a tensor in another order: slices and permutations that copy nothing. */
#ifndef VIEWS_H
#define VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

/* The letters of axes whose size comes from the configuration. */
typedef struct layout_sizes {
    int64_t patch, chans, heads, head_dim;
} layout_sizes;

/* Keeps a slice of a view: "#1/3", "@0", "@1:"; "" keeps all. False if there are no such rows. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim);

/* Drops the first dimension, that of stacked blocks, and keeps block i. */
bool layout_take_block(checkpoint_tensor_info *view, int i);

/* Keeps the first rows; false if it has fewer. */
bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows);

/* Number of dimensions of the source. */
int layout_axes_ndim(const char *axes);

/* The letters of the .vit file's dimensions: those after the '>'. */
const char *layout_file_order(const char *axes);

/* The size of the source's dimension with only this letter; 0 for none. */
int64_t layout_axis_size(const char *axes, const checkpoint_tensor_info *view, char letter);

/* Puts the dimensions into the file's order; false if the view has another shape. */
bool layout_apply_axes(checkpoint_tensor_info *view, const char *axes, const layout_sizes *sizes);

/* True if the view's dimensions can be merged into [rows, dims[1], ...]; counts the rows. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows);

/* === Folds === */

/* Tensors computed from several others: consecutive layers, a layer for each head, positions from a
 * linear layer. Sums are in double and rounded once. */

/* A weight [rows, cols] and a bias [rows], in memory. */
typedef struct fold_layer {
    float *weight, *bias; /* bias NULL: none */
    int64_t rows, cols;
} fold_layer;

/* All dimensions but the first count as columns. is_transposed: stored [cols, rows]. */
bool fold_read(checkpoint *c, const checkpoint_tensor_info *weight,
               const checkpoint_tensor_info *bias, bool is_transposed, fold_layer *layer,
               report *r);
void fold_free(fold_layer *layer);

/* Computes rows first .. first + rows - 1 of a layer; frees nothing. */
fold_layer fold_rows(const fold_layer *layer, int64_t first, int64_t rows);

/* One layer for both in turn: second(first(x)). */
bool fold_chain(const fold_layer *first, const fold_layer *second, fold_layer *result, report *r);

/* Stacks the layers. is_diagonal: each reads only its own columns. `groups` > 1: each has this many
 * kinds of rows, such as queries, keys and values, and all rows of a kind come first. */
bool fold_heads(const fold_layer *heads, int count, bool is_diagonal, int groups,
                fold_layer *result, report *r);

/* [cols, rows] from a layer that maps the number of a row to a vector: its columns and its bias. */
bool fold_positions(const fold_layer *layer, float **table, report *r);

#endif
