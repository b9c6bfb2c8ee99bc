/* quantise.h - rounds the weights of a linear layer, but keeps its outputs close to the original's.
 * The inputs of the layer are correlated, so the errors of two weights can compensate each other.
 * Rounding each weight to the nearest value would not use this.
 *
 *     quantise_layer layer;
 *     quantise_start(&layer, dtype, &samples, executor) ...
 *     quantise_rows(&layer, weights, num_rows, executor)           in place
 *     quantise_end(&layer);
 *
 * The results are values of the type, so packing does not change them.
 */
#ifndef QUANTISE_H
#define QUANTISE_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

/* Rows of values: samples of a layer's inputs, or its weights. */
typedef struct quantise_matrix {
    const float *values; /* [count][depth] */
    int count, depth;
} quantise_matrix;

/* True if this module supports the type: bf16, int8, int4. */
bool quantise_knows(vit_dtype dtype);

/* Rounds n inputs of a layer as its kernels do, in place. */
void quantise_input(vit_dtype dtype, float *row, int n);

/* Rounds each weight of rows [num_rows][depth] to the nearest value of the type. In int8, uses only
 * values that quantise_rows may choose. Returns false if memory is exhausted. */
bool quantise_nearest(vit_dtype dtype, float *rows, int num_rows, int depth);

/* --- smoothing (SmoothQuant, Xiao and others, 2022) --- Input channels that are much larger than
 * the others take most of the 8 bits. To avoid this, divide the inputs by factors[depth], and
 * multiply the columns of the weights by the same factors. The factors are max|x|^a / max|w|^(1 -
 * a) of samples x and weights w. The function tries a few values of a, and no factors, and chooses
 * the smallest error of the layer's output. *alpha is the best a; 0: no factors. Returns false if
 * memory is exhausted. */
bool quantise_smooth(vit_dtype dtype, const quantise_matrix *x, const quantise_matrix *w,
                     float *factors, float *alpha);

/* --- rounding --- */

typedef struct quantise_layer {
    vit_dtype dtype;
    int depth, stride;   /* depth rounded up to 16 */
    float *gram, *cross; /* [depth][stride]: x^ x^T, x x^T; the kernel reads x as x^ */
} quantise_layer;

/* Computes the statistics of a layer's inputs from samples x. Call quantise_end in any case. */
bool quantise_start(quantise_layer *layer, vit_dtype dtype, const quantise_matrix *x,
                    const vit_executor *executor);

/* Rounds the weights in place. Returns false if memory is exhausted. */
bool quantise_rows(const quantise_layer *layer, float *weights, int num_rows,
                   const vit_executor *executor);

void quantise_end(quantise_layer *layer);

#endif
