/* inspect.h - the settings that the tensors of a checkpoint show. */
#ifndef INSPECT_H
#define INSPECT_H

#include "layout/rules.h"
#include "model/resolve.h"

/* Fills all[FROM_TENSORS] with the settings that the tensors show, and the rest with the defaults
 * of the layout's library. The other origins must be filled in already. Fills *seen too, and the
 * patch_order and embed_dim of the map, which slices and axes need from now on. */
bool layout_inspect(layout_map *map, settings all[FROM_COUNT], settings_seen *seen, report *r);

/* Takes the settings for the order of a tensor's elements, for layout_rule_axes. Calling it again
 * changes later plans. */
void layout_take_orders(layout_map *map, const settings all[FROM_COUNT]);

/* The weight that reads the channels of the input. */
const char *layout_input_weight(vit_stem stem);

/* The checkpoint's name of the weight that reads patches of the input itself; NULL if there is a
 * stem. */
const char *layout_patch_weight(const layout_map *map);

#endif
