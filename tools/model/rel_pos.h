/* rel_pos.h - tables of relative positions for another grid of patches.
 *
 *     timm           BEiT's own way: old distances are spaced more widely the longer they are,
 *                    so that short ones keep their meaning and the longest reaches the edge;
 *                    linear between them
 *     transformers   bilinear
 */
#ifndef REL_POS_H
#define REL_POS_H

#include <stdbool.h>

#include "vit.h"

/* Is it one of these ways? */
bool rel_pos_knows(vit_pos_resample how);

/* One head's values [2 height - 1, 2 width - 1], for another grid. False: out of memory. */
bool rel_pos_resample(vit_pos_resample how, const float *from, vit_grid grid, float *to,
                      vit_grid new_grid);

#endif
