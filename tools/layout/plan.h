/* plan.h - where each tensor of the .vit file comes from, decided once, and whether anything of the
 * checkpoint is left over.
 */
#ifndef PLAN_H
#define PLAN_H

#include "base/text.h"
#include "layout/rules.h"
#include "model/resolve.h"

/* Where the values of a tensor come from. To add one: decide it in kind_of (plan.c), set the
 * dimensions of its sources in put_source_dims if they differ from the tensor's, say in
 * layout_is_stored whether it has any, and write its values in stream_source (convert/weights.c).
 * The compiler names the last three, which are switches. */
typedef enum source_kind {
    SOURCE_CHECKPOINT,         /* the checkpoint's tensors, by the rule's method */
    SOURCE_RESAMPLED,          /* the same, of another grid: pos_embed */
    SOURCE_RESAMPLED_RELATIVE, /* the same: a table of relative positions */
    SOURCE_ADAPTED,            /* the same, for other channels or patches: what reads the input */
    SOURCE_FOLDED,             /* attn.proj of attention=self: the product with the values' layer */
    SOURCE_SINCOS,             /* positions that are computed */
    SOURCE_MEAN,
    SOURCE_STD,      /* of the preprocessing */
    SOURCE_SELFTEST, /* the outputs of the finished file */
} source_kind;

/* The items that a folded one is made of. */
enum { FOLDED_PROJ, FOLDED_QKV, FOLDED_BIAS, FOLDED_COUNT };

typedef struct layout_item {
    vit_tensor tensor; /* as the .vit file has it */
    source_kind kind;
    int64_t dims[4]; /* of what layout_read gives: not yet resampled or adapted */
    layout_method method;
    int block;      /* -1: none */
    rope_grid rope; /* for LAYOUT_COS, SIN, ROTATIONS */
    int part_count; /* 0 unless layout_is_stored */
    layout_part parts[LAYOUT_MAX_PARTS];
    double divisor;             /* of every value, after all else; 0: none */
    struct layout_item *folded; /* SOURCE_FOLDED: attn.proj.weight, attn.qkv.weight; of a bias */
                                /* attn.proj.weight, attn.qkv.bias, attn.proj.bias */
} layout_item;

/* A key that nothing reads. */
typedef struct layout_dropped {
    const char *name, *why; /* "of a text tower" */
} layout_dropped;

/* Everything the file consists of, in its order. */
typedef struct layout_plan {
    layout_item *items;
    size_t count;
    layout_dropped *dropped; /* keys of the checkpoint */
    size_t dropped_count;
} layout_plan;

/* Assigns every tensor of the architecture its source and checks shapes; then every tensor of
 * the checkpoint must have been used, be harmless, or match a pattern of `ignore`. What does not
 * fit is noted in *f, and refused at the end. */
bool layout_make_plan(const layout_map *map, const settings_resolved *model,
                      const text_list *ignore, layout_plan *plan, findings *f, report *r);
/* What was dropped before the layout was known. False: out of memory. */
bool layout_add_dropped(layout_plan *plan, const char *name, const char *why);

void layout_free_plan(layout_plan *plan);

/* The item of the self-test; NULL for a file without one. */
const layout_item *layout_selftest(const layout_plan *plan);

/* Does it come from the checkpoint, so that layout_read gives it? */
bool layout_is_stored(const layout_item *item);

/* The key of the first source, for messages. */
const char *layout_item_name(const layout_item *item);

#endif
