/* quantise.h - rounds the weights of a linear layer so that its outputs stay what they were, which
 * is not the same as rounding each weight to the nearest: what a layer reads is correlated, so the
 * error of one weight can make up for that of another.
 *
 *     quantise_layer layer;
 *     quantise_start(&layer, dtype, &samples, executor) ...
 *     quantise_rows(&layer, weights, num_rows, executor)           in place
 *     quantise_end(&layer);
 *
 * Weights come out as values of the type: packing them afterwards changes nothing more.
 */
#ifndef QUANTISE_H
#define QUANTISE_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

/* Rows of values: samples of what a layer reads, or its weights. */
typedef struct quantise_matrix {
    const float *values; /* [count][depth] */
    int count, depth;
} quantise_matrix;

/* Whether this module knows the type: bf16, int8, int4. */
bool quantise_knows(vit_dtype dtype);

/* n inputs of a layer, as its kernels see them. In place. */
void quantise_input(vit_dtype dtype, float *row, int n);

/* rows [num_rows][depth], each weight to the nearest of the type; of int8 to the nearest that
 * quantise_rows may choose. False: no memory. */
bool quantise_nearest(vit_dtype dtype, float *rows, int num_rows, int depth);

/* --- smoothing (SmoothQuant, Xiao and others, 2022) ---
 * Channels of a layer's input that are much larger than the others take the 8 bits from them. They
 * can be divided by factors[depth] if the weights' columns are multiplied by them. Finds factors
 * that make the error of the layer's output small, on samples x and weights w:
 * max|x|^a / max|w|^(1 - a), the best of a few a and of no factors at all. *alpha is that a, or 0
 * for none. False: no memory. */
bool quantise_smooth(vit_dtype dtype, const quantise_matrix *x, const quantise_matrix *w,
                     float *factors, float *alpha);

/* --- rounding --- */

typedef struct quantise_layer {
    vit_dtype dtype;
    int depth, stride;   /* depth rounded up to 16 */
    float *gram, *cross; /* [depth][stride]: x^ x^T and x x^T, of inputs x, which the kernel
                                   sees as x^ */
} quantise_layer;

/* Learns from samples x what the layer reads. End it either way. */
bool quantise_start(quantise_layer *layer, vit_dtype dtype, const quantise_matrix *x,
                    const vit_executor *executor);

/* In place; false: no memory. */
bool quantise_rows(const quantise_layer *layer, float *weights, int num_rows,
                   const vit_executor *executor);

void quantise_end(quantise_layer *layer);

#endif
