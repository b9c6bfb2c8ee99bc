/* tokens.h - the patch tokens of photos by their principal components, as DINOv2's authors show
 * them.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include "numbers/pca.h"
#define VIT_TOOLS
#include "vit.h"

enum { TOKENS_COMPONENTS = 3 };

/* Tokens of the patches of one or more photos, photo by photo. */
typedef struct tokens_patches {
    const float *values;      /* [count, dim] */
    int count, dim;
    vit_grid grid;            /* of one photo */
} tokens_patches;

/* Fits components common to all and writes each patch's coordinates, [count, 3], 0 for components
 * that there are not. With foreground, as section 7.5 of the DINOv2 paper (arXiv 2304.07193) does:
 * a first fit over all tells the foreground, where its first component is above 0; a second is of
 * the foreground alone; the others' coordinates are NaN. The sign of a component is anybody's
 * choice: here, the patches on the photos' border have less of it than 0, in the mean. p is the
 * fit whose coordinates these are; empty if it fails. */
bool tokens_components(const tokens_patches *t, bool foreground, pca *p, float *coordinates,
                       report *r);

#endif
