/* rules.h - a checkpoint seen through its layout: which rule makes which tensor of the .vit file,
 * decided once, and the keys that a rule names.
 */
#ifndef RULES_H
#define RULES_H

#include "layout/layout.h"

enum {
    LAYOUT_MAX_KEY = 1200,
    LAYOUT_STAGES = 4, LAYOUT_STAGE_BLOCKS = 100   /* of a convolutional stem */
};

/* The rule that makes a tensor of the .vit file. Without `found` it is the first that might have
 * been meant: some of its parts are missing, or a condition does not hold. */
typedef struct layout_match {
    const layout_rule *rule;       /* NULL: the layout has no such tensor */
    int block;                     /* -1: none; in a stem: stage * LAYOUT_STAGE_BLOCKS + place */
    bool found;
} layout_match;

/* All tensors that a name with {b}, or with {s} and {u}, stands for. */
typedef struct layout_target {
    const char *tensor;            /* "{b}norm1.weight" */
    layout_match *matches;         /* of each block */
    int count;
} layout_target;

typedef struct layout_map {
    const layout *layout;
    checkpoint *checkpoint;
    char prefix[128];              /* stripped from every key, e.g. "module." */
    const char *blocks;            /* the path that is in use */
    int depth;                     /* blocks */
    layout_target *targets;        /* in the order of the rules */
    size_t target_count;
    layout_match *matches;         /* those of all targets */
    int patch_order;               /* 1 + PATCH_ORDER_...; 0: not told */
    int qkv_order;                 /* QKV_ORDER_... */
    int qkv_interleave;            /* 1 + QKV_INTERLEAVE_...; 0: not told */
    int64_t embed_dim;             /* 0 until the tensors have shown it */
} layout_map;

/* One source of a tensor. */
typedef struct layout_part {
    const checkpoint_tensor_info *info;   /* NULL: zeros */
    checkpoint_tensor_info view;          /* the part of it that is used, in the file's order */
} layout_part;

/* === Keys === */

/* A key of a table as the checkpoint has it, without its slice; false above the top. `chunk` is
 * for paths with {c}. */
bool layout_key(const layout_map *map, const char *key, int block, int chunk,
                char text[LAYOUT_MAX_KEY]);

/* Its tensor; NULL if there is none, or an empty one. */
const checkpoint_tensor_info *layout_find_key(const layout_map *map, const char *key, int block);

/* Length of the path that all tensors are in: that of "my_vit.", or 0. */
size_t layout_common_path(const checkpoint *c);

/* Length without the last component: for "module.vit." that of "module.". */
size_t layout_parent_length(const char *prefix, size_t length);

/* The name without the map's prefix, or the whole name where it has another. */
const char *layout_strip(const layout_map *map, const char *name);

/* The number of the block that a name belongs to under this path, -1 if to none. */
int layout_block_of(const layout_map *map, const char *path, const char *name);
bool layout_is_stacked(const layout_map *map);   /* all blocks in one tensor */

bool layout_holds(const layout_map *map, const char *condition, int block);
bool layout_all_hold(const layout_map *map, const char *const *when, int block);

/* === Rules === */

/* Is this one of the tensors that a rule's name stands for? *block receives its block, or -1. */
bool layout_names(const char *rule_tensor, const char *tensor, int *block);

int layout_part_count(const layout_rule *rule);
bool layout_is_zeros(const char *part);

/* Are all parts there, and do all conditions hold? *fits: the axes have as many dimensions. */
bool layout_applies(const layout_map *map, const layout_rule *rule, int block, bool *fits);

/* The axes of a rule, in the order of a patch's pixels or of qkv's rows that was told. */
const char *layout_rule_axes(const layout_map *map, const layout_rule *rule);

/* May any rule read this tensor of the checkpoint? */
bool layout_is_known(const layout_map *map, const char *name);

/* === Matches === */

/* Decides which rule makes which tensor. Depends on the prefix, blocks and depth alone. */
bool layout_match_all(layout_map *map, report *r);
void layout_free_map(layout_map *map);

layout_match layout_find(const layout_map *map, const char *tensor);
bool layout_has(const layout_map *map, const char *tensor);

/* The i-th source of what was found, before its slice is taken; false for zeros and after the last
 * source. */
bool layout_find_part(const layout_map *map, const layout_match *match, int i, layout_part *part);

/* Takes the slice that the rule names; false if the tensor has no such rows. */
bool layout_slice_part(const layout_map *map, const layout_match *match, int i, layout_part *part);

/* Both; *axes: those of the rule, or NULL. */
bool layout_peek(const layout_map *map, const char *tensor, int i, layout_part *part,
                 const char **axes);

#endif
