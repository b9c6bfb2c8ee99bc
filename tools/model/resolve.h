/* resolve.h - from what the sources say of a model to its vit_config: what the tensors show goes
 * in, what follows comes out.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "model/findings.h"
#include "model/positions.h"
#include "model/settings.h"
#define VIT_TOOLS
#include "vit.h"

/* How well the norms' weights fit the columns of what reads them before and after the sums: mean
 * correlations. */
typedef struct norm_order_evidence {
    double pre, post;
    bool is_clear;
} norm_order_evidence;

/* How large the biases of keys would be beside those of queries and values, in either order. */
typedef struct key_bias_evidence {
    double best, next;
    bool is_by_head;
    bool is_clear;
} key_bias_evidence;

/* What the tensors show beyond single settings. Inspecting a checkpoint fills it in; only what
 * --match-input and --match-folder settle is taken out of it again. */
typedef struct settings_seen {
    int position_rows;      /* of pos_embed; 0 without it */
    int relative_positions; /* columns of blocks.0.attn.rel_pos; 0 without it */
    int64_t qkv_rows;       /* of attn.qkv.weight; 0 without blocks */
    int64_t patch_depth;    /* columns of a 2-D patch_embed.proj.weight, the old form; else 0 */
    bool patch_order_read;  /* from the weights: the mean correlation of neighbouring pixels in */
    double patch_order_best, patch_order_next; /* the order that was found, and in the other */
    heads_evidence heads;                      /* in the weights; read if no source says it */
    norm_order_evidence norm_order;            /* likewise */
    key_bias_evidence key_bias;                /* likewise */
    bool by_default[SETTING_COUNT]; /* no source said it: it is what the layout's library does */
    bool mean_by_default, std_by_default;
    const char *library;          /* that library */
    bool is_open;                 /* see layout->is_open */
    bool is_torch_attention;      /* torch.nn.MultiheadAttention, whose scale is known */
    bool is_batch_second;         /* it says that it is given [tokens, batch, width] */
    const char *activation_doubt; /* the checkpoint's own code speaks against the usual one: why;
                                       or NULL */
} settings_seen;

/* The checkpoint's own shapes, where those of the .vit file may differ. */
typedef struct settings_stored {
    int chans, patch;            /* of the patch embedding */
    int position_rows;           /* rows of pos_embed in use; 0 without it */
    bool first_rows;             /* those are the first of more rows: see pos_first_rows */
    int patch_rows;              /* rows of pos_embed that belong to patches */
    int grid_height, grid_width; /* the grid that these rows, or relative positions, form */
} settings_stored;

/* Things the report should mention. */
typedef struct settings_notes {
    bool heads_by_width;   /* num_heads follows timm's naming of embed_dim */
    bool heads_by_weights; /* the weights show it */
    bool chans_by_depth;   /* in_chans follows from a linear layer's width */
    bool patches_adapted;  /* to other channels or another size */
    bool positions_resampled;
    vit_pos_resample pos_resample; /* how */
} settings_notes;

/* What follows from all of it. Only settings_resolve writes it. */
typedef struct settings_resolved {
    vit_config config; /* of the .vit file */
    settings_stored stored;
    settings_notes notes;
    int pos_sincos;         /* how positions are computed; 0: they are not */
    double context_divisor; /* attn.proj.weight is divided by it; 0: it is not */
    rope_options rope;      /* how the tables of rotary positions are made */
} settings_resolved;

/* Puts all of it together; refuses what contradicts the tensors. What nothing says is asked in *f,
 * or the usual is taken (assume_settings). With open questions there *model is no model. Where something
 * is wrong already, what is missing may have another name, and is not asked for. */
bool settings_resolve(const settings all[FROM_COUNT], const settings_seen *seen,
                      const patch_request *wanted, settings_resolved *model, findings *f,
                      report *r);

/* What is assumed where neither the tensors nor a name, a configuration or an option says it: one
 * assumption for each setting that might be another, and one for all of the preprocessing. False:
 * out of memory. */
bool assume_settings(const settings all[FROM_COUNT], const settings_seen *seen,
                     const settings_resolved *model, findings *f);

/* The same as settings_resolve where nothing may be left open: what would be asked is a failure. */
bool settings_resolve_all(const settings all[FROM_COUNT], const settings_seen *seen,
                          const patch_request *wanted, settings_resolved *model, report *r);

/* Input pixels, along a side, for one pixel of the feature map that a stem makes; 1 without one. */
int settings_stem_stride(const settings *s);

#endif
