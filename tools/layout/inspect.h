/* inspect.h - the settings that the tensors of a checkpoint show. */
#ifndef INSPECT_H
#define INSPECT_H

#include "layout/rules.h"
#include "model/resolve.h"

/* Fills all[FROM_TENSORS]: what the tensors show, and where nobody says anything, what the layout's
 * library does. The other origins must be there already. Fills *seen too, and the patch_order
 * and embed_dim of the map, which slices and axes need from now on. */
bool layout_inspect(layout_map *map, settings all[FROM_COUNT], settings_seen *seen, report *r);

/* The settings that say in which order a tensor has its elements, for layout_rule_axes. Calling it
 * again with others changes what is planned from then on. */
void layout_take_orders(layout_map *map, const settings all[FROM_COUNT]);

/* The weight that reads the channels of the input. */
const char *layout_input_weight(vit_stem stem);

/* What the checkpoint calls the weight that reads patches of the input itself; NULL: there is a
 * stem. */
const char *layout_patch_weight(const layout_map *map);

#endif
