/* plan.h - decides the source of each tensor of the .vit file, and finds tensors of the checkpoint
 * that are left over.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "layout/rules.h"
#include "model/resolve.h"
#define VIT_TOOLS
#include "vit.h"

/* The origin of a tensor's values. To add an origin: decide it in kind_of (plan.c); in
 * put_source_dims, set the dimensions of its sources if they differ from the tensor's; in
 * layout_is_stored, state if it has sources; and write its values in stream_source
 * (convert/weights.c). The compiler reports the last three, which are switches. */
typedef enum source_kind {
    SOURCE_CHECKPOINT,         /* tensors of the checkpoint, by the method of the rule */
    SOURCE_RESAMPLED,          /* the same, resampled for another grid: pos_embed */
    SOURCE_RESAMPLED_RELATIVE, /* the same, for a table of relative positions */
    SOURCE_ADAPTED,            /* the weight that reads the input, for other channels or patches */
    SOURCE_FOLDED, /* attn.proj of attention=self, multiplied by the layer of the values */
    SOURCE_SINCOS, /* computed positions */
    SOURCE_MEAN,
    SOURCE_STD,      /* mean and deviation of the preprocessing */
    SOURCE_SELFTEST, /* the self-test: outputs of the finished file */
} source_kind;

/* The items of a folded tensor. */
enum { FOLDED_PROJ, FOLDED_QKV, FOLDED_BIAS, FOLDED_COUNT };

typedef struct layout_item {
    vit_tensor tensor; /* as in the .vit file */
    source_kind kind;
    int64_t dims[4]; /* dimensions of layout_read's result, before resampling or adapting */
    layout_method method;
    int head_dim;
    int narrow, pool_heads; /* for LAYOUT_NARROW: the width of the pooling, and its heads */
    double norm_eps;
    int block;      /* -1: none */
    rope_grid rope; /* for LAYOUT_COS, SIN, ROTATIONS */
    int part_count; /* 0 unless layout_is_stored */
    layout_part parts[LAYOUT_MAX_PARTS];
    double divisor;             /* the last step divides every value by this; 0: no such step */
    struct layout_item *folded; /* SOURCE_FOLDED: attn.proj.weight, attn.qkv.weight; of a bias */
                                /* attn.proj.weight, attn.qkv.bias, attn.proj.bias */
} layout_item;

/* A tensor of the checkpoint that nothing reads. */
typedef struct layout_dropped {
    const char *name, *why; /* "of a text tower" */
} layout_dropped;

/* All items of the .vit file, in the order of the file. */
typedef struct layout_plan {
    layout_item *items;
    size_t count;
    layout_dropped *dropped; /* unused tensors of the checkpoint */
    size_t dropped_count;
} layout_plan;

/* Assigns a source to every tensor of the architecture, and checks shapes. Every tensor of the
 * checkpoint must be used, be without effect, or match a pattern of `ignore`. Problems are
 * collected in *f, and refused at the end. */
bool layout_make_plan(const layout_map *map, const settings_resolved *model,
                      const text_list *ignore, layout_plan *plan, findings *f, report *r);
/* Adds tensors dropped before the layout was known. False if memory is exhausted. */
bool layout_add_dropped(layout_plan *plan, const char *name, const char *why);

void layout_free_plan(layout_plan *plan);

/* Returns the item of the self-test; NULL for a file without one. */
const layout_item *layout_selftest(const layout_plan *plan);

/* True if the item's values come from the checkpoint. layout_read can read such items. */
bool layout_is_stored(const layout_item *item);

/* Returns the key of the first source, for messages. */
const char *layout_item_name(const layout_item *item);

/* === Values of a .vit tensor from its sources === */

/* Reads elements first .. first + count - 1 of a stored item, whose shape is item->dims, in the
 * file's order. Copies are exact. Methods that work on rows require whole rows. */
bool layout_read(checkpoint *c, const layout_item *item, int64_t first, int64_t count, float *to,
                 report *r);

/* Standardises a row, like LAYOUT_STANDARD. A row that is already standard stays unchanged; a
 * checkpoint that was made from a .vit file has such rows. */
void layout_standardise(float *row, int64_t depth);

/* === Other sizes === */

/* Adapts the weights of the patch embedding to another number of channels or another patch size, as
 * timm does. Adapts a stem's first convolution only to other channels.
 *
 *     channels  1: the sum of all channels; n: the first three in turn, times 3 / n
 *     patches   FlexiViT's weights, by the pseudo-inverse of the resize: for a resized patch, their
 *               output is nearest to the old weights' output for the patch
 */

typedef struct patch_shape {
    int chans, side;
} patch_shape;

typedef struct adaptation {
    patch_shape from, to;
    double *inverse;        /* [from.side, to.side], for resizing one side; NULL: same side */
    double *plane, *middle; /* [from.side, from.side], [from.side, to.side] */
} adaptation;

/* `how` chooses how patches are resized: bilinearly for VIT_RESAMPLE_FLEXIVIT, otherwise by timm's
 * bicubic filter. */
bool adapt_start(adaptation *a, const patch_shape *from, const patch_shape *to,
                 vit_pos_resample how, report *r);

/* Adapts the weights of one output channel: [chans, side, side] before and after. */
void adapt_row(const adaptation *a, const float *from, float *to);
void adapt_free(adaptation *a);

#endif
