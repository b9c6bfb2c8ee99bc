/* check.h - refuses checkpoints that would convert to something other than the model they hold. */
#ifndef CHECK_H
#define CHECK_H

#include "base/text.h"
#include "layout/rules.h"
#include "model/findings.h"
#include "model/resolve.h"

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
