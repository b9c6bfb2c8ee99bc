/* values.h - the values of a .vit tensor, computed from its sources. */
#ifndef VALUES_H
#define VALUES_H

#include "layout/plan.h"

/* Elements first .. first + count - 1 of item->dims, in the file's order, for an item that is
 * stored. Copies are exact. Methods that work on rows need whole ones. */
bool layout_read(checkpoint *c, const layout_item *item, int64_t first, int64_t count, float *to,
                 report *r);

/* What LAYOUT_STANDARD does to a row. One that is standard already, as those of a .vit file turned
 * back are, stays as it is. */
void layout_standardise(float *row, int64_t depth);

#endif
