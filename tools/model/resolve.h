/* resolve.h - combines the settings of all sources into a vit_config. */
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

/* Evidence for the order of norms: mean correlations of the weights of norms with the columns of
 * the matrices that read the outputs of these norms. `pre` supposes that norms come before
 * attention and the MLP; `post` supposes that norms come after the sums. */
typedef struct norm_order_evidence {
    double pre, post;
    bool is_clear; /* true if the evidence decides */
} norm_order_evidence;

/* Evidence for the order of queries, keys and values. Each possible order treats different rows as
 * the keys. `best` and `next` are the sizes of the keys' biases, relative to the biases of queries
 * and values, in the best order and in the other order. */
typedef struct key_bias_evidence {
    double best, next;
    bool is_by_head; /* true if the best order is head by head */
    bool is_clear;   /* true if the evidence decides */
} key_bias_evidence;

/* Evidence from the tensors that is not itself the value of a setting. The inspection of a
 * checkpoint fills in this struct. If --match-input or --match-folder decides a setting, the
 * evidence for this setting no longer counts. */
typedef struct settings_seen {
    int position_rows;      /* number of rows of pos_embed; 0 without pos_embed */
    int relative_positions; /* number of columns of blocks.0.attn.rel_pos; 0 without that table */
    int64_t qkv_rows;       /* number of rows of attn.qkv.weight; 0 without blocks */
    /* Number of columns of a two-dimensional patch_embed.proj.weight (an old form). Otherwise 0. */
    int64_t patch_depth;
    /* True if the order of a patch was read from the weights. The next two members are the mean
     * correlations of neighbouring pixels in the chosen order and in the other order. */
    bool patch_order_read;
    double patch_order_best, patch_order_next;
    heads_evidence heads;           /* read from the weights if no source gives num_heads */
    norm_order_evidence norm_order; /* read from the weights */
    key_bias_evidence key_bias;     /* read from the weights */
    /* True if no source gives the setting, and the layout's library has a default for it. */
    bool by_default[SETTING_COUNT];
    /* True if no source gives the mean, or the std, and the layout's library has a default for
     * it. */
    bool mean_by_default, std_by_default;
    const char *library;     /* name of the layout's library */
    bool is_open;            /* see layout->is_open */
    bool is_torch_attention; /* true for torch.nn.MultiheadAttention, whose scale is known */
    bool is_graph;           /* true for ONNX, whose graph uses all its tensors */
    /* True if, according to the code, attention reads tokens as [tokens, batch, width]. */
    bool is_batch_second;
    bool is_timm; /* true if the tensors have timm's names */
    /* True if the input size comes only from an option of a training program. */
    bool size_is_hint;
    /* The reason to doubt that the activation has the usual value; NULL if there is none. */
    const char *activation_doubt;
    /* The reason why no activation lies between the head's two layers; NULL if none is known. */
    const char *head_why;
} settings_seen;

/* The shapes in the checkpoint, which may differ from those in the .vit file. */
typedef struct settings_stored {
    int chans, patch; /* channels and patch size of the patch embedding */
    /* Number of rows of pos_embed that are used; 0 without pos_embed. */
    int position_rows;
    /* True if the used rows are the first of more rows (setting pos_first_rows). */
    bool first_rows;
    int patch_rows; /* number of rows of pos_embed that belong to patches */
    /* The grid of patches that these rows, or the relative positions, form. */
    int grid_height, grid_width;
} settings_stored;

/* Facts about the settings that the report of a conversion prints. */
typedef struct settings_notes {
    bool heads_by_width;   /* true if num_heads is that of timm's models of this width */
    bool heads_by_weights; /* true if num_heads was read from the weights */
    /* True if in_chans follows from the number of columns of a 2-D patch embedding. */
    bool chans_by_depth;
    /* True if the patch embedding is changed to other channels or another patch size. */
    bool patches_adapted;
    bool positions_resampled;
    /* True if patch_stride was chosen so that the stored positions fit the input. */
    bool stride_by_size;
    /* True if norm_eps is that of nn.LayerNorm, because timm has no model of this size. */
    bool eps_by_size;
    vit_pos_resample pos_resample; /* the method to resample positions */
} settings_notes;

/* The result of all settings. Only settings_resolve writes it. */
typedef struct settings_resolved {
    vit_config config; /* the configuration of the .vit file */
    settings_stored stored;
    settings_notes notes;
    int pos_sincos;         /* kind of computed positions (SINCOS_...); 0 if there are none */
    double context_divisor; /* attn.proj.weight must be divided by this number; 0 if not */
    rope_options rope;      /* parameters of the rotary positions */
} settings_resolved;

/* Combines all settings in *model. Refuses settings that contradict the tensors. Missing settings
 * become questions in *f, or get usual values (assume_settings). If there are questions, *model is
 * incomplete. If *f already has problems, missing tensors raise no questions, because these tensors
 * may exist under other names. */
bool settings_resolve(const settings all[FROM_COUNT], const settings_seen *seen,
                      const patch_request *wanted, settings_resolved *model, findings *f,
                      report *r);

/* Adds assumptions to *f: one for each setting that may have another value, because it is a default
 * or was read from trained weights, and one for the whole preprocessing. Returns false if memory is
 * exhausted. */
bool assume_settings(const settings all[FROM_COUNT], const settings_seen *seen,
                     const settings_resolved *model, findings *f);

/* Does the same as settings_resolve, but fails if there are questions. */
bool settings_resolve_all(const settings all[FROM_COUNT], const settings_seen *seen,
                          const patch_request *wanted, settings_resolved *model, report *r);

/* === Architectures by shape === */

/* Fills *s with the settings of an architecture of timm. */
void settings_from_arch(settings *s, const arch_choice *choice);

/* Returns the number of settings in which the name or the configuration contradicts the tensors.
 * *first receives the first such setting, or SETTING_PATCH_SIZE if there is none. */
int settings_contradictions(const settings all[FROM_COUNT], const settings_seen *seen,
                            const patch_request *wanted, setting_key *first);

/* Writes the list of timm's names whose models have these tensors, with their mean and std, and
 * returns true. If there are none, returns false, and writes the nearest names and the first tensor
 * that differs in the nearest of these models. all[FROM_NAME] has no effect. */
enum { ARCHS_TEXT = 1536 };
bool archs_by_shape(const settings all[FROM_COUNT], const settings_seen *seen,
                    const patch_request *wanted, char text[ARCHS_TEXT]);

/* Returns the number of input pixels along a side for each pixel of the stem's feature map. Returns
 * 1 for a model without a stem. */
int settings_stem_stride(const settings *s);

#endif
