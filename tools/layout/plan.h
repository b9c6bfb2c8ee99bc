/* plan.h - decides the source of each tensor of the .vit file, and finds tensors of the checkpoint
 * that are left over.
 *
 * The plan is the list of all tensors of the .vit file. Each item of the plan is a tensor and its
 * source. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "layout/rules.h"
#include "model/resolve.h"
#define VIT_TOOLS
#include "vit.h"

/* The origin of a tensor's values. To add an origin: choose it in kind_of (plan.c); in
 * put_source_dims, set the dimensions of its sources if they differ from the tensor's; in
 * layout_is_stored, return true if it has sources; and write its values in stream_source
 * (convert/weights.c). The last three functions have a switch, so the compiler reports a missing
 * origin. */
typedef enum source_kind {
    SOURCE_CHECKPOINT, /* made from tensors of the checkpoint, by the method of the rule */
    /* Like SOURCE_CHECKPOINT, then resampled for another grid: pos_embed. */
    SOURCE_RESAMPLED,
    SOURCE_RESAMPLED_RELATIVE, /* like SOURCE_RESAMPLED, but for a table of relative positions */
    /* The weight that reads the input, changed to other channels or another patch size. */
    SOURCE_ADAPTED,
    /* For attention=self: attn.proj, multiplied by the layer that computes the values. */
    SOURCE_FOLDED,
    SOURCE_SINCOS, /* positions computed from sines and cosines */
    SOURCE_MEAN,
    SOURCE_STD,      /* SOURCE_MEAN and SOURCE_STD: mean and deviation of the preprocessing */
    SOURCE_SELFTEST, /* the self-test: outputs of the finished model */
} source_kind;

/* The indices of the items from which a SOURCE_FOLDED tensor is computed. */
enum { FOLDED_PROJ, FOLDED_QKV, FOLDED_BIAS, FOLDED_COUNT };

typedef struct layout_item {
    vit_tensor tensor; /* the tensor of the .vit file */
    source_kind kind;
    /* Dimensions of layout_read's result, before the tensor is resampled or adapted. */
    int64_t dims[4];
    layout_method method;
    int head_dim;
    /* For LAYOUT_NARROW: the width of the attention pooling, and its number of heads. */
    int narrow, pool_heads;
    double norm_eps;
    int block;      /* index of the block; -1 for a tensor outside the blocks */
    rope_grid rope; /* for LAYOUT_COS, LAYOUT_SIN and LAYOUT_ROTATIONS */
    int part_count; /* 0 if layout_is_stored is false for the item */
    layout_part parts[LAYOUT_MAX_PARTS];
    /* If not 0, every computed value is divided by it; in a folded bias, only the product is. */
    double divisor;
    /* For SOURCE_FOLDED: the items from which the tensor is computed. For a weight they start with
     * attn.proj.weight and attn.qkv.weight. For a bias they are attn.proj.weight, attn.qkv.bias and
     * attn.proj.bias. */
    struct layout_item *folded;
} layout_item;

/* A tensor of the checkpoint that nothing reads. */
typedef struct layout_dropped {
    /* `why` is the reason why nothing reads the tensor, such as "of a text tower". */
    const char *name, *why;
} layout_dropped;

/* All items of the .vit file, in the order of the file. */
typedef struct layout_plan {
    layout_item *items;
    size_t count;
    layout_dropped *dropped; /* tensors of the checkpoint that nothing reads */
    size_t dropped_count;
} layout_plan;

/* Assigns a source to every tensor of the architecture, and checks shapes. Every tensor of the
 * checkpoint must be used, be without effect, or match a pattern of `ignore`. The function records
 * problems in *f and continues. At the end it fails if there were any problems. */
bool layout_make_plan(const layout_map *map, const settings_resolved *model,
                      const text_list *ignore, layout_plan *plan, findings *f, report *r);
/* Adds to plan->dropped a tensor that was dropped before the layout was known. Returns false if
 * memory is exhausted. */
bool layout_add_dropped(layout_plan *plan, const char *name, const char *why);

void layout_free_plan(layout_plan *plan);

/* Returns the item of the self-test; NULL for a file without one. */
const layout_item *layout_selftest(const layout_plan *plan);

/* True if the item's values come from the checkpoint. layout_read can read such items. */
bool layout_is_stored(const layout_item *item);

/* Returns the key of the item's first source in the checkpoint, for messages. */
const char *layout_item_name(const layout_item *item);

/* === Values of a .vit tensor from its sources === */

/* Reads elements `first` .. `first` + `count` - 1 of a stored item, in the order of the .vit file.
 * The shape of the item is item->dims. Copied values are exact. A method that works on rows can
 * read only whole rows. */
bool layout_read(checkpoint *c, const layout_item *item, int64_t first, int64_t count, float *to,
                 report *r);

/* Standardises a row, like LAYOUT_STANDARD. A row that is already standard stays unchanged; a
 * checkpoint that was made from a .vit file has such rows. */
void layout_standardise(float *row, int64_t depth);

/* === Other sizes === */

/* These functions adapt the weights of the patch embedding to another number of channels or another
 * patch size, as timm does. They adapt the first convolution of a stem only to other channels.
 *
 *     channels  1: the sum of the three old channels; n: these three in turn, times 3 / n
 *     patches   by the pseudo-inverse of the resize, as in FlexiViT: the output of the new weights
 *               for a resized patch is as near as possible to the output of the old weights for
 *               the patch before the resize
 */

typedef struct patch_shape {
    int chans, side;
} patch_shape;

typedef struct adaptation {
    patch_shape from, to;
    /* The matrix [from.side, to.side] that resizes one side of a patch. NULL if the side stays the
     * same. */
    double *inverse;
    /* Buffers for computed values: `plane` [from.side, from.side], `middle` [from.side,
     * to.side]. */
    double *plane, *middle;
} adaptation;

/* `how` chooses how patches are resized: bilinearly for VIT_RESAMPLE_FLEXIVIT, otherwise by timm's
 * bicubic filter. Call adapt_free even after a failure. */
bool adapt_start(adaptation *a, const patch_shape *from, const patch_shape *to,
                 vit_pos_resample how, report *r);

/* Adapts the weights of one output channel. `from` and `to` have the shape [chans, side, side],
 * with the channels and the side of a->from and of a->to. */
void adapt_row(const adaptation *a, const float *from, float *to);
void adapt_free(adaptation *a);

#endif
