/* adapt.h - the weights of the patch embedding for another number of channels or another size of
 * the patches, as timm adapts them; those of a stem's first convolution for other channels.
 *
 *     channels  1: their sum; n: the first three again and again, times 3 / n
 *     patches   FlexiViT's: the weights which give a resized patch the output that the old ones
 *               give the patch, as nearly as can be (the pseudo-inverse of the resize)
 */
#ifndef ADAPT_H
#define ADAPT_H

#include <stdbool.h>

#include "base/report.h"
#include "vit.h"

typedef struct adaptation {
    int chans, patch;           /* as they are ... */
    int new_chans, new_patch;   /* ... and as they shall be */
    double *inverse;            /* [patch, new_patch], of resizing one side; NULL: same patch */
    double *plane, *middle;     /* [patch, patch], [patch, new_patch] */
} adaptation;

/* `how` the resize is thought to be: bilinear for VIT_RESAMPLE_FLEXIVIT, else timm's bicubic. */
bool adapt_start(adaptation *a, int chans, int patch, int new_chans, int new_patch,
                 vit_pos_resample how, report *r);

/* One output's weights: from [chans, patch, patch] to [new_chans, new_patch, new_patch]. */
void adapt_row(const adaptation *a, const float *from, float *to);
void adapt_free(adaptation *a);

#endif
