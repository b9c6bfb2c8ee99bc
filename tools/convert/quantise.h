/* quantise.h - rounds the weights of a linear layer, but keeps the layer's outputs close to the
 * original's. The inputs of the layer are correlated, so the errors of two weights can partly
 * cancel. Rounding each weight to the nearest value would ignore this.
 *
 *     quantise_layer layer;
 *     quantise_start(&layer, dtype, &samples, executor) ...
 *     quantise_rows(&layer, weights, num_rows, executor)           in place
 *     quantise_end(&layer);
 *
 * The results are values that the type can represent, so packing the weights does not change them.
 */
#ifndef QUANTISE_H
#define QUANTISE_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

/* A matrix of floats: samples of a layer's inputs, or its weights. A row has `depth` values. */
typedef struct quantise_matrix {
    const float *values; /* [count][depth] */
    int count, depth;
} quantise_matrix;

/* True if quantise_rows supports the type: bf16, int8 and int4. */
bool quantise_knows(vit_dtype dtype);

/* Rounds n input values of a layer in place, as the kernels for weights of this type do. */
void quantise_input(vit_dtype dtype, float *row, int n);

/* Rounds each weight of the matrix rows [num_rows][depth] to the nearest value of the type, in
 * place. For int8, obeys the rule of vit_fits16, as quantise_rows does. Returns false if memory is
 * exhausted. */
bool quantise_nearest(vit_dtype dtype, float *rows, int num_rows, int depth);

/* === Smoothing (SmoothQuant, Xiao and others, 2022) ===
 *
 * Input channels that are much larger than the others take most of the 8 bits. To avoid this,
 * divide the inputs by factors[depth], and multiply the columns of the weights by the same factors.
 * The factors are max|x|^a / max|w|^(1 - a) of samples x and weights w. The function tries a few
 * values of a, and also no factors. It chooses the factors that give the smallest error of the
 * layer's output. *alpha receives the best a, or 0 for no factors. Returns false if memory is
 * exhausted. */
bool quantise_smooth(vit_dtype dtype, const quantise_matrix *x, const quantise_matrix *w,
                     float *factors, float *alpha);

/* === Rounding === */

typedef struct quantise_layer {
    vit_dtype dtype;
    int depth, stride; /* `stride` is `depth` rounded up to a multiple of 64 */
    /* Matrices [stride][stride] of sums over the samples x, plus damping: `gram` sums x^ (x^)^T,
     * and `cross` sums x (x^)^T. Here x^ is x as the kernel rounds it. */
    float *gram, *cross;
} quantise_layer;

/* Computes the sums over the samples x of a layer's inputs. Call quantise_end in any case. */
bool quantise_start(quantise_layer *layer, vit_dtype dtype, const quantise_matrix *x,
                    const vit_executor *executor);

/* Rounds the weights in place. Returns false if memory is exhausted. */
bool quantise_rows(const quantise_layer *layer, float *weights, int num_rows,
                   const vit_executor *executor);

void quantise_end(quantise_layer *layer);

#endif
