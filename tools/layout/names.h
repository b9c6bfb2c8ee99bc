/* names.h - names that do not match: keys of tensors that are missing, and tensors that no rule
 * knows.
 */
#ifndef NAMES_H
#define NAMES_H

#include "base/text.h"
#include "layout/rules.h"

/* === Missing === */

/* The rule that was probably meant to make a missing tensor: parts of it are there, another block
 * has it, or its module has another tensor. NULL if the layout has no such tensor. */
const layout_rule *names_meant_rule(const layout_map *map, const char *tensor);

/* The key that it should come from; the tensor's own name if no rule says. */
const char *names_meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY]);

/* A key that is not there, or NULL if all of the rule's are. */
const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY]);

int names_parts_present(const layout_map *map, const layout_rule *rule, int block);
bool names_is_required(const layout_rule *rule);

/* === Unknown === */

/* The first of them, for a message, and how many there are. */
typedef struct name_list {
    char text[REPORT_SIZE];
    size_t used;
    int count;
} name_list;

void names_add(name_list *list, const checkpoint_tensor_info *info);
bool names_refuse(const name_list *unknown, report *r);

/* Tensors that no rule knows, that matter, and that `ignore` does not name. */
void names_find_unknown(const layout_map *map, const text_list *ignore, name_list *unknown);

/* Does --ignore name it, with or without the prefix? */
bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name);

/* The entry for this tensor; NULL if there is none. */
const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name);

#endif
