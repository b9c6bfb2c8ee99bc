/* detect.h - finds the layout of a checkpoint. */
#ifndef DETECT_H
#define DETECT_H

#include "base/text.h"
#include "layout/rules.h"
#include "model/findings.h"
#include "model/resolve.h"

/* Finds the layout, the prefix, the path of the blocks and their number, and matches every tensor
 * that the rules name. On success free the map with layout_free_map. */
bool layout_detect(checkpoint *c, layout_map *map, report *r);

/* Uses a known layout, without a prefix. */
bool layout_use(const layout *l, checkpoint *c, layout_map *map, report *r);

/* True if the layout leaves tensors over, and either its names are common (is_open) or some usual
 * tensors are missing. Then names were changed, or it is another layout. */
bool layout_falls_short(const layout_map *map, const text_list *ignore);

/* True if it knows at least half of the tensors. */
bool layout_knows_most(const layout_map *map);

/* === Checks === */

/* Refuses checkpoints that would convert to another model than they hold. */

/* Refuses tensors of features that vit.h cannot run, unless --ignore names them. */
bool layout_check_features(const layout_map *map, const text_list *ignore, report *r);

/* Notes in *f the tensors that others imply but the checkpoint lacks, and those that no rule knows
 * and `ignore` does not name. Must run before a missing tensor is taken for an option that is off.
 * False if memory is exhausted. */
bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, findings *f, report *r);

/* Asks for settings that neither the tensors nor the layout's library give. */
bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT],
                       const settings_seen *seen, findings *f, report *r);

#endif
