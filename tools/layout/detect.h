/* detect.h - which layout a checkpoint has. */
#ifndef DETECT_H
#define DETECT_H

#include "layout/rules.h"

/* Finds the layout, the prefix, the path of the blocks and their number, and matches every tensor
 * that the rules name. On success the map is freed with layout_free_map. */
bool layout_detect(checkpoint *c, layout_map *map, report *r);

#endif
