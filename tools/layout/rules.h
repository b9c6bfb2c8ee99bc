/* rules.h - matches a checkpoint with its layout: decides which rule makes each tensor of the .vit
 * file, and finds the keys that a rule names.
 *
 * A key is the name of a tensor in the checkpoint. The tables of a layout contain keys with
 * placeholders such as {b}; layout.h explains their syntax. If a wrapper contains the model, a
 * prefix such as `module.` begins the names of the model's tensors. */
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
    LAYOUT_STAGE_BLOCKS = 100, /* largest number of blocks in a stage of a stem */
};

/* The rule that makes a tensor of the .vit file. If `found` is false, the rule is only the first
 * candidate: it lacks a part, or a condition does not hold. */
typedef struct layout_match {
    const layout_rule *rule; /* NULL if no rule makes the tensor */
    /* Index of the block; -1 for a tensor outside the blocks. For a block of a stem: stage *
     * LAYOUT_STAGE_BLOCKS + index within the stage. */
    int block;
    bool found;
} layout_match;

/* A name in the .vit file, and the matches of all tensors that the name stands for. The name may
 * contain {b}, or {s} and {u}. */
typedef struct layout_target {
    const char *tensor;    /* the name, such as "{b}norm1.weight" */
    layout_match *matches; /* one for each block */
    int count;
} layout_target;

typedef struct layout_map {
    const layout *layout;
    checkpoint *checkpoint;
    char prefix[128];       /* text at the start of every key, such as "module." */
    const char *blocks;     /* the path of a block, as the layout names it */
    int depth;              /* number of blocks */
    layout_target *targets; /* all targets, in the order of the rules */
    size_t target_count;
    layout_match *matches; /* the matches of all targets, one target after the other */
    int patch_order;       /* 1 + PATCH_ORDER_...; 0 if this setting is not given */
    int qkv_order;         /* QKV_ORDER_... */
    int qkv_interleave;    /* 1 + QKV_INTERLEAVE_...; 0 if this setting is not given */
    int64_t embed_dim;     /* 0 until it is read from the tensors */
} layout_map;

/* One source of a tensor. */
typedef struct layout_part {
    const checkpoint_tensor_info *info; /* the tensor of the checkpoint; NULL for a part of zeros */
    /* The slice of the tensor that is used, with dimensions in the order of the .vit file. */
    checkpoint_tensor_info view;
} layout_part;

/* === Keys === */

/* Writes the checkpoint's key for a key of a table, without its slice. Returns false if "../"
 * leads above the top level of names. `chunk` is the number that replaces {c} in the path of the
 * block. */
bool layout_key(const layout_map *map, const char *key, int block, int chunk,
                char text[LAYOUT_MAX_KEY]);

/* Returns the tensor of the checkpoint for a key of a table. Returns NULL if the tensor does not
 * exist or is empty. */
const checkpoint_tensor_info *layout_find_key(const layout_map *map, const char *key, int block);

/* Returns the length of the path that all names begin with, such as "my_vit."; 0 if there is no
 * such path. */
size_t layout_common_path(const checkpoint *c);

/* Returns the length of a path without its last component: the length of "module." for
 * "module.vit.". */
size_t layout_parent_length(const char *prefix, size_t length);

/* Returns the name without the map's prefix, or the whole name if it does not begin with this
 * prefix. */
const char *layout_strip(const layout_map *map, const char *name);

/* Returns the number of the block to which the name belongs, if the blocks have this path; -1 for a
 * name outside the blocks. */
int layout_block_of(const layout_map *map, const char *path, const char *name);
/* True if one tensor holds all blocks. */
bool layout_is_stacked(const layout_map *map);

/* True if the condition, or every condition of a list, holds for this block. layout.h lists the
 * conditions. */
bool layout_holds(const layout_map *map, const char *condition, int block);
bool layout_all_hold(const layout_map *map, const char *const *when, int block);

/* === Rules === */

/* True if `rule_tensor`, the name in a rule, stands for this tensor. *block receives the index of
 * the block, or -1 for a tensor outside the blocks. */
bool layout_names(const char *rule_tensor, const char *tensor, int *block);

int layout_part_count(const layout_rule *rule);
bool layout_is_zeros(const char *part);

/* True if all parts exist and all conditions hold. *fits becomes false if the rule has axes whose
 * number of dimensions differs from that of the part. */
bool layout_applies(const layout_map *map, const layout_rule *rule, int block, bool *fits);

/* Returns the axes of a rule. If the settings give the order of a patch's pixels or of qkv's rows,
 * the axes have this order. */
const char *layout_rule_axes(const layout_map *map, const layout_rule *rule);

/* True if any rule may read this tensor of the checkpoint. */
bool layout_is_known(const layout_map *map, const char *name);

/* === Matches === */

/* Finds the rule that makes each tensor of the .vit file. The result does not depend on the
 * settings in the map. */
bool layout_match_all(layout_map *map, report *r);
void layout_free_map(layout_map *map);

/* Returns the match of a tensor of the .vit file. */
layout_match layout_find(const layout_map *map, const char *tensor);
/* True if a rule makes this tensor from sources that exist. */
bool layout_has(const layout_map *map, const char *tensor);

/* Finds the i-th source of a match, before its slice is taken. Returns false if this source is a
 * part of zeros, or if the match has no i-th source. */
bool layout_find_part(const layout_map *map, const layout_match *match, int i, layout_part *part);

/* Reduces the part to the slice that the rule names. Returns false if the tensor does not have
 * these rows. */
bool layout_slice_part(const layout_map *map, const layout_match *match, int i, layout_part *part);

/* Finds the i-th source of a tensor and takes its slice. *axes receives the axes of the rule, or
 * NULL if the rule has none. */
bool layout_peek(const layout_map *map, const char *tensor, int i, layout_part *part,
                 const char **axes);

/* === Groups === */

/* A group is a set of names that differ only in numbers. A message prints the group as one name
 * with ranges: "blocks.{0..11}.attn.foo [64, 64]". */

enum { GROUPS_MAX = 64, GROUP_NUMBERS = 4, GROUP_TEXT_SIZE = 4096 };

typedef struct name_group {
    char *name; /* the name that was added first */
    char *note; /* text that all names of the group share, such as a shape or a reason */
    /* The lowest and the highest value of each number in the names. */
    long first[GROUP_NUMBERS], last[GROUP_NUMBERS];
    size_t count;
} name_group;

/* Zero this struct before the first use. */
typedef struct name_groups {
    name_group items[GROUPS_MAX]; /* in the order in which their first names were added */
    /* `more` is the number of names that were left out because there were too many groups. */
    size_t count, more;
} name_groups;

/* Adds a name to the group that has this note and whose names differ from `name` only in numbers.
 * Returns false if memory is exhausted. */
bool groups_add(name_groups *groups, const char *name, const char *note);
void groups_free(name_groups *groups);

/* Writes the name of a group with its ranges, such as "blocks.{0..11}.attn.foo". Returns `text`. */
const char *group_text(const name_group *group, char text[GROUP_TEXT_SIZE]);

/* === Names === */

/* These functions are for messages about names that do not match. A missing tensor is a tensor of
 * the .vit file whose sources the checkpoint lacks. An unknown tensor is a tensor of the checkpoint
 * that no rule reads. */

/* === Missing === */

/* Returns the rule that should probably have made a missing tensor. Parts in the checkpoint count
 * most, then the same rule in a neighbouring block. LAYOUT_REQUIRED and another tensor of the
 * module count least. Returns NULL if no rule for the tensor has conditions that hold. */
const layout_rule *names_meant_rule(const layout_map *map, const char *tensor);

/* Returns a missing key from which a missing tensor should come; the name of the tensor itself if
 * no key is known. */
const char *names_meant_key(const layout_map *map, const char *tensor, char text[LAYOUT_MAX_KEY]);

/* Returns a key that the checkpoint lacks, from any part of the rule; NULL if the checkpoint has
 * all keys of the rule. */
const char *names_absent_key(const layout_map *map, const layout_rule *rule, int block,
                             char text[LAYOUT_MAX_KEY]);

/* Returns a key that the checkpoint lacks, from one part of the rule; NULL if the checkpoint has
 * all keys of the part. */
const char *names_absent_part(const layout_map *map, const layout_rule *rule, int part, int block,
                              char text[LAYOUT_MAX_KEY]);

/* Returns the number of parts of the rule that the checkpoint has. */
int names_parts_present(const layout_map *map, const layout_rule *rule, int block);
/* True if the first condition of the rule is LAYOUT_REQUIRED. */
bool names_is_required(const layout_rule *rule);

/* === Unknown === */

/* Collects a tensor for a message, in a group with the tensors whose names differ only in numbers.
 * Returns false if memory is exhausted. */
bool names_add_unknown(const layout_map *map, const checkpoint_tensor_info *info,
                       name_groups *unknown);

/* Adds one finding to *f for each group of collected tensors. */
bool names_put_unknown(const name_groups *unknown, findings *f);

/* Collects the tensors that no rule reads, that `ignore` does not name, and that may have an
 * effect. */
bool names_find_unknown(const layout_map *map, const text_list *ignore, name_groups *unknown);

/* True if there is a tensor that names_find_unknown would collect. */
bool names_has_unknown(const layout_map *map, const text_list *ignore);

/* Returns the reason why this tensor has no effect; NULL if it may have an effect. */
const char *names_why_harmless(const layout_map *map, const char *name);

/* True if the name matches one of these shell patterns. Unlike in a shell, * also matches dots. */
bool names_match(const text_list *patterns, const char *name);

/* True if `ignore` names this tensor, with or without the prefix. */
bool names_is_ignored(const layout_map *map, const text_list *ignore, const char *name);

/* Returns the entry of the layout for this tensor; NULL if there is none. */
const layout_extra *names_find_extra(const layout_map *map, const layout_extra *extras,
                                     const char *name);

#endif
