/* names.h - names that do not match: keys of tensors that are missing, and tensors that no rule
 * knows.
 */
#ifndef NAMES_H
#define NAMES_H

#include "base/text.h"
#include "layout/groups.h"
#include "layout/rules.h"
#include "model/findings.h"

/* === Missing === */

/* The rule that was probably meant to make a missing tensor: parts of it are there, another block
 * has it, or its module has another tensor. NULL if the layout has no such tensor. */
const layout_rule *names_meant_rule(const layout_map *map, const char *tensor);

/* The key that it should come from; the tensor's own name if no rule says. */
const char *names_meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY]);

/* A key that is not there, or NULL if all of the rule's are. */
const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY]);

/* That of one of its parts, or NULL. */
const char *names_absent_part(const layout_map *map, const layout_rule *rule, int part, int block,
                              char text[LAYOUT_MAX_KEY]);

int names_parts_present(const layout_map *map, const layout_rule *rule, int block);
bool names_is_required(const layout_rule *rule);

/* === Unknown === */

/* Collects one for a message, beside those that differ in their numbers. False: out of memory. */
bool names_add_unknown(const layout_map *map, const checkpoint_tensor_info *info,
                       name_groups *unknown);

/* All that were collected, as findings. */
bool names_put_unknown(const name_groups *unknown, findings *f);

/* Tensors that no rule knows, that matter, and that `ignore` does not name. */
bool names_find_unknown(const layout_map *map, const text_list *ignore, name_groups *unknown);

bool names_has_unknown(const layout_map *map, const text_list *ignore);

/* Why this tensor plays no part; NULL if it may play one. */
const char *names_why_harmless(const layout_map *map, const char *name);

/* Is it one of these patterns? They are as of a shell, but * also stands for dots. */
bool names_match(const text_list *patterns, const char *name);

/* Does --ignore name it, with or without the prefix? */
bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name);

/* The entry for this tensor; NULL if there is none. */
const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name);

#endif
