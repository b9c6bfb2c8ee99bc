/* fold.h - tensors that are computed from several: layers one after the other, one for each head,
 * positions from a linear layer. Sums are in double and rounded once.
 */
#ifndef FOLD_H
#define FOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"

/* A weight [rows, cols] and a bias [rows], in memory. */
typedef struct fold_layer {
    float *weight, *bias;    /* bias NULL: none */
    int64_t rows, cols;
} fold_layer;

/* All that is not the first dimension counts as columns. is_transposed: stored [cols, rows]. */
bool fold_read(checkpoint *c, const checkpoint_tensor_info *weight,
               const checkpoint_tensor_info *bias, bool is_transposed, fold_layer *layer,
               report *r);
void fold_free(fold_layer *layer);

/* Rows first .. first + rows - 1 of a layer; frees nothing. */
fold_layer fold_rows(const fold_layer *layer, int64_t first, int64_t rows);

/* The two one after the other: second(first(x)). */
bool fold_chain(const fold_layer *first, const fold_layer *second, fold_layer *result, report *r);

/* One below the other. is_diagonal: each reads only its own columns. `groups` > 1: each has as many
 * kinds of rows, say queries, keys and values, and all of a kind come first. */
bool fold_heads(const fold_layer *heads, int count, bool is_diagonal, int groups,
                fold_layer *result, report *r);

/* [cols, rows] from a layer that maps the number of a row to a vector: its columns and its bias. */
bool fold_positions(const fold_layer *layer, float **table, report *r);

#endif
