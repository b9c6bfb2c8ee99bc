/* rules.h - matches a checkpoint with its layout: decides which rule makes each tensor of the .vit
 * file, and finds the keys that a rule names.
 */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "layout/layout.h"
#include "model/findings.h"

enum {
    LAYOUT_MAX_KEY = 1200,
    LAYOUT_STAGES = 4,
    LAYOUT_STAGE_BLOCKS = 100, /* most blocks in a stage of a stem */
};

/* The rule that makes a tensor of the .vit file. If `found` is false, the rule is only the first
 * candidate: it lacks a part, or a condition does not hold. */
typedef struct layout_match {
    const layout_rule *rule; /* NULL if no rule makes the tensor */
    int block;               /* -1: none; in a stem: stage * LAYOUT_STAGE_BLOCKS + place */
    bool found;
} layout_match;

/* All tensors that a name with {b}, or with {s} and {u}, stands for, and their matches. */
typedef struct layout_target {
    const char *tensor;    /* "{b}norm1.weight" */
    layout_match *matches; /* one for each block */
    int count;
} layout_target;

typedef struct layout_map {
    const layout *layout;
    checkpoint *checkpoint;
    char prefix[128];       /* text to strip from every key, such as "module." */
    const char *blocks;     /* the path in use */
    int depth;              /* number of blocks */
    layout_target *targets; /* all targets, in the order of the rules */
    size_t target_count;
    layout_match *matches; /* the matches of all targets */
    int patch_order;       /* 1 + PATCH_ORDER_...; 0: not given */
    int qkv_order;         /* QKV_ORDER_... */
    int qkv_interleave;    /* 1 + QKV_INTERLEAVE_...; 0: not given */
    int64_t embed_dim;     /* 0 until it is read from the tensors */
} layout_map;

/* One source of a tensor. */
typedef struct layout_part {
    const checkpoint_tensor_info *info; /* NULL: zeros */
    checkpoint_tensor_info view;        /* the used part of the tensor, in the file's order */
} layout_part;

/* === Keys === */

/* Turns the key of a table into the key of the checkpoint, without the slice; false if "../" leads
 * above the top. `chunk` is for paths with {c}. */
bool layout_key(const layout_map *map, const char *key, int block, int chunk,
                char text[LAYOUT_MAX_KEY]);

/* Returns the tensor with such a key; NULL if it does not exist or is empty. */
const checkpoint_tensor_info *layout_find_key(const layout_map *map, const char *key, int block);

/* Returns the length of the path that all tensors share, such as "my_vit.", or 0. */
size_t layout_common_path(const checkpoint *c);

/* Returns the length of a path without its last component: the length of "module." for
 * "module.vit.". */
size_t layout_parent_length(const char *prefix, size_t length);

/* Returns the name without the map's prefix, or the whole name if it does not begin with this
 * prefix. */
const char *layout_strip(const layout_map *map, const char *name);

/* Returns the number of the block that the name gives under this path; -1 for none. */
int layout_block_of(const layout_map *map, const char *path, const char *name);
bool layout_is_stacked(const layout_map *map); /* true if one tensor holds all blocks */

bool layout_holds(const layout_map *map, const char *condition, int block);
bool layout_all_hold(const layout_map *map, const char *const *when, int block);

/* === Rules === */

/* True if the name in a rule stands for this tensor. *block receives the block, or -1. */
bool layout_names(const char *rule_tensor, const char *tensor, int *block);

int layout_part_count(const layout_rule *rule);
bool layout_is_zeros(const char *part);

/* True if all parts exist and all conditions hold. *fits becomes true if the axes and the parts
 * have the same number of dimensions. */
bool layout_applies(const layout_map *map, const layout_rule *rule, int block, bool *fits);

/* Returns the axes of a rule, adapted to the given order of a patch's pixels or of qkv's rows. */
const char *layout_rule_axes(const layout_map *map, const layout_rule *rule);

/* True if any rule may read this tensor of the checkpoint. */
bool layout_is_known(const layout_map *map, const char *name);

/* === Matches === */

/* Finds the rule that makes each tensor. The result depends only on the prefix, the path of the
 * blocks and the depth. */
bool layout_match_all(layout_map *map, report *r);
void layout_free_map(layout_map *map);

layout_match layout_find(const layout_map *map, const char *tensor);
bool layout_has(const layout_map *map, const char *tensor);

/* Finds the i-th source of a match, before its slice is taken; false for zeros and after the last
 * source. */
bool layout_find_part(const layout_map *map, const layout_match *match, int i, layout_part *part);

/* Takes the slice that the rule names; false if the tensor does not have these rows. */
bool layout_slice_part(const layout_map *map, const layout_match *match, int i, layout_part *part);

/* Finds a source and takes its slice; *axes become those of the rule, or NULL. */
bool layout_peek(const layout_map *map, const char *tensor, int i, layout_part *part,
                 const char **axes);

/* === Groups === */

/* Groups of names that differ only in numbers. They are printed as "blocks.{0..11}.attn.foo [64,
 * 64]". */

enum { GROUPS_MAX = 64, GROUP_NUMBERS = 4, GROUP_TEXT_SIZE = 4096 };

typedef struct name_group {
    char *name; /* name of the first tensor */
    char *note; /* text that the names share: a shape, a reason */
    long first[GROUP_NUMBERS], last[GROUP_NUMBERS];
    size_t count;
} name_group;

/* Zero it first. */
typedef struct name_groups {
    name_group items[GROUPS_MAX]; /* in the order of their first name */
    size_t count, more;           /* more: the number of names beyond the last group */
} name_groups;

/* False if memory is exhausted. */
bool groups_add(name_groups *groups, const char *name, const char *note);
void groups_free(name_groups *groups);

/* Writes "blocks.{0..11}.attn.foo". */
const char *group_text(const name_group *group, char text[GROUP_TEXT_SIZE]);

/* === Names === */

/* Names that do not match: keys of missing tensors, and tensors that no rule reads. */

/* === Missing === */

/* Returns the rule that should probably have made a missing tensor. Either the file has some parts
 * of this rule, or the rule makes the same tensor in another block or another tensor in the module.
 * NULL if the layout has no such tensor. */
const layout_rule *names_meant_rule(const layout_map *map, const char *tensor);

/* Returns the key from which a missing tensor should come; if no rule has a key, the name of the
 * tensor itself. */
const char *names_meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY]);

/* Returns a missing key of the rule, or NULL if all exist. */
const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY]);

/* Returns a missing key of one part of the rule, or NULL. */
const char *names_absent_part(const layout_map *map, const layout_rule *rule, int part, int block,
                              char text[LAYOUT_MAX_KEY]);

int names_parts_present(const layout_map *map, const layout_rule *rule, int block);
bool names_is_required(const layout_rule *rule);

/* === Unknown === */

/* Collects a tensor for a message, in a group with the tensors whose names differ only in numbers.
 * False if memory is exhausted. */
bool names_add_unknown(const layout_map *map, const checkpoint_tensor_info *info,
                       name_groups *unknown);

/* Adds all collected tensors as findings. */
bool names_put_unknown(const name_groups *unknown, findings *f);

/* Finds tensors that may have an effect. No rule reads these tensors, and `ignore` does not name
 * them. */
bool names_find_unknown(const layout_map *map, const text_list *ignore, name_groups *unknown);

bool names_has_unknown(const layout_map *map, const text_list *ignore);

/* Returns the reason why this tensor has no effect; NULL if it may have one. */
const char *names_why_harmless(const layout_map *map, const char *name);

/* True if the name matches one of these patterns. They are shell patterns, but * also matches
   dots. */
bool names_match(const text_list *patterns, const char *name);

/* True if `ignore` names this tensor, with or without the prefix. */
bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name);

/* Returns the entry of the layout for this tensor; NULL if there is none. */
const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name);

#endif
