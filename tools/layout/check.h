/* check.h - refuses checkpoints that would convert to something other than the model they hold. */
#ifndef CHECK_H
#define CHECK_H

#include "base/text.h"
#include "layout/rules.h"
#include "model/settings.h"

/* Refuses tensors that mean something which vit.h cannot run, unless --ignore names them. */
bool layout_check_features(const layout_map *map, const text_list *ignore, report *r);

/* Refuses a checkpoint that lacks tensors which others imply, or has some that no rule knows and
 * `ignore` does not name: before anything is asked for or taken for an option that is off. */
bool layout_check_names(const layout_map *map, const settings all[FROM_COUNT],
                        const text_list *ignore, report *r);

/* Refuses what is still unknown, and names the options that would tell. */
bool layout_check_told(const layout_map *map, const settings all[FROM_COUNT], report *r);

#endif
