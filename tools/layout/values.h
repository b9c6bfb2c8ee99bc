/* values.h - computes the values of a .vit tensor from its sources. */
#ifndef VALUES_H
#define VALUES_H

#include <stdbool.h>

#include "base/report.h"
#include "layout/plan.h"
#define VIT_TOOLS
#include "vit.h"

/* Reads elements first .. first + count - 1 of a stored item, whose shape is item->dims, in the
 * file's order. Copies are exact. Methods that work on rows need whole rows. */
bool layout_read(checkpoint *c, const layout_item *item, int64_t first, int64_t count, float *to,
                 report *r);

/* Does to a row what LAYOUT_STANDARD does. A row that is standard already, as in a .vit file turned
 * back, stays unchanged. */
void layout_standardise(float *row, int64_t depth);

/* === Other sizes === */

/* Adapts the weights of the patch embedding to another number of channels or another patch size, as
 * timm does, or those of a stem's first convolution to other channels.
 *
 *     channels  1: their sum; n: the first three again and again, times 3 / n
 *     patches   FlexiViT's: the weights whose output for a resized patch is nearest to that of the
 *               old weights for the patch (the pseudo-inverse of the resize)
 */

typedef struct patch_shape {
    int chans, side;
} patch_shape;

typedef struct adaptation {
    patch_shape from, to;
    double *inverse;        /* [from.side, to.side], of resizing one side; NULL: same side */
    double *plane, *middle; /* [from.side, from.side], [from.side, to.side] */
} adaptation;

/* `how` chooses the resize of patches: bilinear for VIT_RESAMPLE_FLEXIVIT, otherwise timm's
 * bicubic. */
bool adapt_start(adaptation *a, const patch_shape *from, const patch_shape *to,
                 vit_pos_resample how, report *r);

/* The weights of one output channel: [chans, side, side] before and after. */
void adapt_row(const adaptation *a, const float *from, float *to);
void adapt_free(adaptation *a);

#endif
