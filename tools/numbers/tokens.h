/* tokens.h - analyses of a model's tokens: positions, attention, principal components.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* === Principal components are the directions in which rows differ most === */

/* The result of pca_fit. The components have length 1, and the first has the most variance. The
 * sign is arbitrary; here the element with the largest magnitude is positive. */
typedef struct pca {
    int dim, count;     /* number of elements in a row; number of components */
    double *mean;       /* [dim] */
    double *components; /* [count, dim] */
    double *variance;   /* [count]: variance of each component, with divisor rows - 1 */
    double total;       /* the total variance of the rows */
} pca;

/* Finds the first `count` components of rows [n, dim], like sklearn's PCA. Finds fewer if n - 1 or
 * dim is less. The method is subspace iteration with a Rayleigh-Ritz step (Saad, Numerical Methods
 * for Large Eigenvalue Problems, 5.1 and 5.2). n must be at least 2, and all values must be finite.
 * *p is empty on failure. */
bool pca_fit(pca *p, const float *rows, int n, int dim, int count, report *r);
void pca_free(pca *p);

/* Writes the coordinates of a row along the components, [count]. */
void pca_project(const pca *p, const float *row, float *coordinates);

/* === Values of a tensor === */

/* A tensor of an open model is read as floats. */

/* Returns the values of the tensor, [dims of the tensor], malloc'ed. *tensor receives the tensor's
 * description. Returns NULL on failure, or if a value is NaN or infinite. */
float *tensor_values(const vit_model *model, const char *name, vit_tensor *tensor, report *r);

/* === Positions === */

/* Vectors represent the positions of a model's grid, for any kind of positions. */

/* How a model encodes its patches' positions. A model may use several kinds.
 *
 *     embedding   the vector that is added to a patch: learned, or sines and cosines in one
 *                 dimension or two. [embed_dim]
 *     rotary      the cosines and sines of a block's angles: the cosine of two positions is the
 *                 mean of cos(angle - angle'). Rotation gives this cosine to two equal vectors
 *                 whose pairs are equally long. [head_dim], of all heads if each has its own angles
 *     relative    values that a block adds to the scores of a patch with every patch, in all heads.
 *                 [num_heads * num_patches]
 *
 * To add a kind, add a row here, its name, and its case in has_kind and read_kind. */
typedef enum position_kind {
    POSITIONS_EMBEDDING,
    POSITIONS_ROTARY,
    POSITIONS_RELATIVE,
    POSITIONS_KINDS,
} position_kind;

/* Returns a name such as "embedding". */
const char *positions_name(position_kind kind);
/* Returns the kind with this name; POSITIONS_KINDS if there is none. */
position_kind positions_by_name(const char *name);
bool positions_has(const vit_config *config, position_kind kind);
/* True if each block has its own positions of this kind. */
bool positions_of_block(const vit_config *config, position_kind kind);
/* Finds the kind with this name or, if the name is NULL, the first kind that the model has. Returns
 * false if the model lacks the kind. */
bool positions_choose(const vit_config *config, const char *name, position_kind *kind, report *r);

/* Vectors [rows * columns, dim], in the order of the grid's rows. */
typedef struct positions {
    float *vectors;
    int rows, columns;
    int dim;
} positions;

/* Reads positions of a kind that the model has. `block`, counted from 0, matters for relative
 * positions, and for rotary positions if each block has its own angles. *p is empty on failure. */
bool positions_read(const vit_model *model, position_kind kind, int block, positions *p, report *r);
void positions_free(positions *p);

/* Computes the cosines of all positions with all positions: [n, n] for n = rows * columns. */
void positions_cosines(const positions *p, float *cosines);

/* === Attention rollout === */

/* Rollout follows attention from one token, or from all tokens, through one or more blocks. */

/* Sets the initial shares of the tokens, [num_tokens]: 1 for token `from`. If `from` is -1, shares
 * are equal, and the result is the mean over all queries. */
void rollout_begin(double *shares, int num_tokens, int from);

/* Continues attention rollout (Abnar and Zuidema, arXiv 2005.00928) through one block, from the
 * last block to the first: shares = shares A. A is the mean of the block's maps [num_heads,
 * num_tokens, num_tokens], plus the identity for the residual, with rows scaled to the sum 1. At
 * the end, `shares` is the token's row of the product of all A. This takes N^2 operations per block
 * instead of N^3. scratch is [2, num_tokens]. */
void rollout_block(double *shares, const float *maps, int num_heads, int num_tokens,
                   double *scratch);

/* Computes shares = shares map, where `map` [num_tokens, num_tokens] is the map of one head,
 * without the residual. scratch is [num_tokens]. */
void rollout_head(double *shares, const float *map, int num_tokens, double *scratch);

/* === Patch tokens === */

/* Principal components of photos' patch tokens are computed as by DINOv2's authors. */

enum { TOKENS_COMPONENTS = 3 };

/* The tokens of the patches of one or more photos, photo by photo. */
typedef struct tokens_patches {
    const float *values; /* [count, dim] */
    int count, dim;
    const vit_grid *grids; /* grid of each photo */
} tokens_patches;

/* Fits components to all patches together, and writes each patch's coordinates, [count, 3], with 0
 * for missing components. With `foreground`, the method is from section 7.5 of the DINOv2 paper
 * (arXiv 2304.07193). A first fit over all patches finds the foreground, where its first component
 * is above 0. A second fit covers only the foreground, and the other patches' coordinates are NaN.
 * The sign of a component is arbitrary; here the mean over the patches at the borders of photos is
 * below 0. *p is the fit of these coordinates, and empty on failure. */
bool tokens_components(const tokens_patches *t, bool foreground, pca *p, float *coordinates,
                       report *r);

#endif
