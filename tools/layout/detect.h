/* detect.h - which layout a checkpoint has. */
#ifndef DETECT_H
#define DETECT_H

#include "base/text.h"
#include "layout/rules.h"
#include "model/findings.h"
#include "model/resolve.h"

/* Finds the layout, the prefix, the path of the blocks and their number, and matches every tensor
 * that the rules name. On success the map is freed with layout_free_map. */
bool layout_detect(checkpoint *c, layout_map *map, report *r);

/* The same for a layout that is known, without a prefix. */
bool layout_use(const layout *l, checkpoint *c, layout_map *map, report *r);

/* Does the layout leave tensors over, and either anyone may use its names (is_open) or the usual
 * tensors are not all there? Then names were changed, or it is another one. */
bool layout_falls_short(const layout_map *map, const text_list *ignore);

/* Does it know half of the tensors, at least? */
bool layout_knows_most(const layout_map *map);

/* === Checks === */

/* Refuses checkpoints that would convert to something other than the model they hold. */

/* Refuses tensors that mean something which vit.h cannot run, unless --ignore names them. */
bool layout_check_features(const layout_map *map, const text_list *ignore, report *r);

/* Notes in *f what a checkpoint lacks that other tensors imply, and what it has that no rule knows
 * and `ignore` does not name: before anything is taken for an option that is off. False: out of
 * memory. */
bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, findings *f, report *r);

/* Asks for what neither the tensors nor the layout's library tell. */
bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT],
                       const settings_seen *seen, findings *f, report *r);

#endif
