/* tokens.h - analyses the tokens of a model: their positions, their attention and their principal
 * components.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* === Principal components are the directions in which rows differ most === */

/* The result of pca_fit. The components have length 1, and the first has the most variance. The
 * sign of a component is arbitrary; here, the element of largest magnitude is positive. */
typedef struct pca {
    int dim, count;     /* number of elements in a row; number of components */
    double *mean;       /* [dim] */
    double *components; /* [count, dim] */
    double *variance;   /* [count]: variance of each component, with divisor rows - 1 */
    double total;       /* the total variance of the rows */
} pca;

/* Finds the first `count` components of rows [n, dim], like sklearn's PCA. Finds fewer components
 * if n - 1 or dim is less than `count`. The method is subspace iteration with a Rayleigh-Ritz step
 * (Saad, Numerical Methods for Large Eigenvalue Problems, 5.1 and 5.2). n must be at least 2, and
 * all values must be finite. *p is empty on failure. */
bool pca_fit(pca *p, const float *rows, int n, int dim, int count, report *r);
void pca_free(pca *p);

/* Computes the coordinates of a row along the components: coordinates [p->count]. */
void pca_project(const pca *p, const float *row, float *coordinates);

/* === Values of a tensor === */

/* tensor_values reads a tensor of an open model as floats. */

/* Returns the values of the tensor as floats, malloc'ed. *tensor receives the description of the
 * tensor, with its shape. Returns NULL on failure, and if a value is NaN or infinite. */
float *tensor_values(const vit_model *model, const char *name, vit_tensor *tensor, report *r);

/* === Positions === */

/* These functions represent each position on a model's grid of patches by a vector, whatever kind
 * of position encoding the model uses. */

/* The kinds of position encodings, and the vector of a position. A model may use several kinds.
 *
 *     embedding   the vector that is added to a patch: learned, or sines and cosines in one
 *                 dimension or two. [embed_dim]
 *     rotary      the cosines and sines of the angles by which a block rotates a vector at the
 *                 position. The cosine of two positions is the mean of cos(angle - angle').
 *                 [head_dim], or [num_heads * head_dim] if each head has its own angles
 *     relative    the values that the heads of a block add to the attention scores of the patch
 *                 with every patch. [num_heads * num_patches]
 *
 * A new kind needs a constant here, a name in `names`, and cases in positions_has and read_kind. */
typedef enum position_kind {
    POSITIONS_EMBEDDING,
    POSITIONS_ROTARY,
    POSITIONS_RELATIVE,
    POSITIONS_KINDS,
} position_kind;

/* Returns a name such as "embedding". */
const char *positions_name(position_kind kind);
/* Returns the kind with this name; POSITIONS_KINDS if there is no such kind. */
position_kind positions_by_name(const char *name);
bool positions_has(const vit_config *config, position_kind kind);
/* True if each block has its own positions of this kind. */
bool positions_of_block(const vit_config *config, position_kind kind);
/* Finds the kind with this name. If the name is NULL, finds the first kind that the model has.
 * Returns false if there is no such kind, or if the model does not have it. */
bool positions_choose(const vit_config *config, const char *name, position_kind *kind, report *r);

/* The vectors of all positions on a grid, [rows * columns, dim], row by row of the grid. */
typedef struct positions {
    float *vectors;
    int rows, columns;
    int dim;
} positions;

/* Computes the vectors for a kind of positions that the model has. `block`, counted from 0, is used
 * only for relative positions, and for rotary positions if each block has its own angles. *p is
 * empty on failure. */
bool positions_read(const vit_model *model, position_kind kind, int block, positions *p, report *r);
void positions_free(positions *p);

/* Computes the cosines of all pairs of positions: cosines [n, n], where n = rows * columns. */
void positions_cosines(const positions *p, float *cosines);

/* === Attention rollout === */

/* Rollout follows attention from one token, or from all tokens, through one or more blocks. */

/* Sets the initial shares of the tokens, shares [num_tokens]. The share of token `from` is 1, and
 * the other shares are 0. If `from` is -1, all shares are equal, and rollout_block then gives the
 * mean over all tokens. */
void rollout_begin(double *shares, int num_tokens, int from);

/* Continues attention rollout (Abnar and Zuidema, arXiv 2005.00928) through one block, and computes
 * shares = shares A. The first call is for the last block, and the last call for the first block. A
 * is the mean of the block's maps [num_heads, num_tokens, num_tokens], plus the identity for the
 * residual; its rows are scaled to the sum 1. After the last call, `shares` is row `from` of the
 * product of all A. For N tokens, this takes N^2 operations per block; computing the product of the
 * matrices would take N^3. scratch is [2, num_tokens]. */
void rollout_block(double *shares, const float *maps, int num_heads, int num_tokens,
                   double *scratch);

/* Computes shares = shares map, where `map` [num_tokens, num_tokens] is the map of one head,
 * without the residual. scratch is [num_tokens]. */
void rollout_head(double *shares, const float *map, int num_tokens, double *scratch);

/* === Patch tokens === */

/* tokens_components computes the principal components of patch tokens, as the authors of DINOv2
 * do. */

enum { TOKENS_COMPONENTS = 3 };

/* The tokens of the patches of one or more photos. The patches of a photo follow each other. */
typedef struct tokens_patches {
    const float *values; /* [count, dim] */
    int count, dim;
    const vit_grid *grids; /* the grid of patches of each photo */
} tokens_patches;

/* Fits components to the tokens of all patches together. coordinates [count, 3] receives the
 * coordinates of each patch along the components; if the fit has fewer than 3 components, the last
 * coordinates are 0. If `foreground` is true, the method is that of section 7.5 of the DINOv2 paper
 * (arXiv 2304.07193). A first fit over all patches finds the foreground: the patches whose first
 * coordinate is above 0. A second fit covers only the foreground, and the other patches'
 * coordinates are NaN. The first fit has the sign that makes the mean coordinate of the patches at
 * the borders of photos negative. *p receives the fit to which the coordinates belong; it is empty
 * on failure. */
bool tokens_components(const tokens_patches *t, bool foreground, pca *p, float *coordinates,
                       report *r);

#endif
