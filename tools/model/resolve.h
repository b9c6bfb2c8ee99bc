/* resolve.h - turns the settings of all sources into a vit_config.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "model/findings.h"
#include "model/positions.h"
#include "model/settings.h"
#include "model/timm_names.h"
#define VIT_TOOLS
#include "vit.h"

/* Mean correlations that show how well the weights of norms fit the columns of the matrices that
 * read the norms: `pre` if norms come before attention and the MLP, `post` if norms come after the
 * sums. */
typedef struct norm_order_evidence {
    double pre, post;
    bool is_clear;
} norm_order_evidence;

/* The size of the supposed keys' biases, relative to the biases of queries and values, in each of
 * two orders. */
typedef struct key_bias_evidence {
    double best, next;
    bool is_by_head;
    bool is_clear;
} key_bias_evidence;

/* Evidence from the tensors beyond single settings. The inspection of a checkpoint fills in this
 * struct. Evidence for settings that --match-input or --match-folder decides is removed again. */
typedef struct settings_seen {
    int position_rows;      /* rows of pos_embed; 0 without pos_embed */
    int relative_positions; /* columns of blocks.0.attn.rel_pos; 0 without that table */
    int64_t qkv_rows;       /* rows of attn.qkv.weight; 0 without blocks */
    int64_t patch_depth;    /* columns of a 2-D patch_embed.proj.weight (old form); else 0 */
    bool patch_order_read;  /* from the weights: the mean correlation of neighbouring pixels in */
    double patch_order_best, patch_order_next; /* the chosen order, and in the other */
    heads_evidence heads;           /* read from the weights if no source gives num_heads */
    norm_order_evidence norm_order; /* read from the weights */
    key_bias_evidence key_bias;     /* read from the weights */
    bool by_default[SETTING_COUNT]; /* a default of the layout's library; no source gives it */
    bool mean_by_default, std_by_default;
    const char *library;          /* name of the layout's library */
    bool is_open;                 /* see layout->is_open */
    bool is_torch_attention;      /* torch.nn.MultiheadAttention, whose scale is known */
    bool is_graph;                /* hand-written, and all tensors are used */
    bool is_batch_second;         /* by the code, attention gets [tokens, batch, width] */
    bool is_timm;                 /* the names of the tensors are timm's */
    bool size_is_hint;            /* the input size is an option of a training program */
    const char *activation_doubt; /* reason to doubt the usual value, or NULL */
    const char *head_why;         /* why nothing is between the layers of the head, or NULL */
} settings_seen;

/* The shapes in the checkpoint, which may differ from those in the .vit file. */
typedef struct settings_stored {
    int chans, patch;            /* of the patch embedding */
    int position_rows;           /* rows of pos_embed in use; 0 without pos_embed */
    bool first_rows;             /* these are the first of more rows: see pos_first_rows */
    int patch_rows;              /* rows of pos_embed that belong to patches */
    int grid_height, grid_width; /* the grid that these rows, or relative positions, form */
} settings_stored;

/* Facts for the report. */
typedef struct settings_notes {
    bool heads_by_width;   /* num_heads is that of timm's models of this width */
    bool heads_by_weights; /* num_heads was read from the weights */
    bool chans_by_depth;   /* in_chans follows from the width of a linear layer */
    bool patches_adapted;  /* to other channels or another size */
    bool positions_resampled;
    bool stride_by_size; /* patch_stride was chosen so that the stored positions fit the input */
    bool eps_by_size;    /* nn.LayerNorm's epsilon, because timm has no such model */
    vit_pos_resample pos_resample; /* how positions are resampled */
} settings_notes;

/* The result of all settings. Only settings_resolve writes it. */
typedef struct settings_resolved {
    vit_config config; /* of the .vit file */
    settings_stored stored;
    settings_notes notes;
    int pos_sincos;         /* kind of computed positions; 0 for none */
    double context_divisor; /* divisor of attn.proj.weight; 0 for none */
    rope_options rope;      /* parameters of the tables of rotary positions */
} settings_resolved;

/* Combines all settings; refuses settings that contradict the tensors. Missing settings become
 * questions in *f, or usual values (assume_settings). If questions are open, *model is incomplete.
 * If there already are problems, missing tensors raise no questions, because they may have other
 * names. */
bool settings_resolve(const settings all[FROM_COUNT], const settings_seen *seen,
                      const patch_request *wanted, settings_resolved *model, findings *f,
                      report *r);

/* Makes assumptions for settings that neither the tensors nor a name, a configuration or an option
 * decides: one for each setting that might differ, and one for the whole preprocessing. False if
 * memory is exhausted. */
bool assume_settings(const settings all[FROM_COUNT], const settings_seen *seen,
                     const settings_resolved *model, findings *f);

/* Like settings_resolve, but open questions are a failure. */
bool settings_resolve_all(const settings all[FROM_COUNT], const settings_seen *seen,
                          const patch_request *wanted, settings_resolved *model, report *r);

/* === Architectures by shape === */

/* Gives the settings of an architecture of timm. */
void settings_from_arch(settings *s, const arch_choice *choice);

/* Counts the settings in which the name or the configuration contradicts the tensors; also gives
 * the first such setting. */
int settings_contradictions(const settings all[FROM_COUNT], const settings_seen *seen,
                            const patch_request *wanted, setting_key *first);

/* Lists the names whose models have these tensors, with their mean and std. If there are none,
 * lists the nearest names, and the first tensor that differs in the nearest model. all[FROM_NAME]
 * has no effect. */
enum { ARCHS_TEXT = 1536 };
bool archs_by_shape(const settings all[FROM_COUNT], const settings_seen *seen,
                    const patch_request *wanted, char text[ARCHS_TEXT]); /* true if some fit */

/* Returns the number of input pixels along a side per pixel of the stem's feature map, 1 without a
 * stem. */
int settings_stem_stride(const settings *s);

#endif
