/* timm_names.h - timm's names of plain vision transformers: the architecture and the preprocessing
 * that "vit_base_patch16_224" or "deit_tiny_patch16_224.fb_in1k" implies.
 */
#ifndef TIMM_NAMES_H
#define TIMM_NAMES_H

#include <stdbool.h>

#include "base/report.h"
#include "model/positions.h"
#define VIT_TOOLS
#include "vit.h"

/* The pairs of mean and std that models use. Each comment gives the three values of the mean. All
 * plain ViTs of a family have the same pair. */
typedef enum arch_norm {
    ARCH_HALF,      /* mean and std 0.5: Google's own models, AugReg, SAM, SigLIP */
    ARCH_IMAGENET,  /* 0.485 0.456 0.406: DeiT, DINO, MAE, BEiT-3 */
    ARCH_OPENAI,    /* 0.48145466 0.4578275 0.40821073: CLIP, EVA, AIMv2 */
    ARCH_UNIT,      /* mean 0 and std 1: MIIL, TIPSv2 */
    ARCH_SATELLITE, /* 0.43 0.411 0.296: DINOv3 for satellite images */
} arch_norm;

/* The bits of arch.options: the differences of an architecture from a plain ViT. A plain ViT has a
 * class token, positions of all tokens, and pre-norm blocks of LayerNorm with epsilon 1e-6. It has
 * every bias, erf GELU, a final norm, and a head that reads the class token. The comments name the
 * arguments of timm. */
#define ARCH_OPTION(n)     (UINT64_C(1) << (n))
#define ARCH_NO_CLS        ARCH_OPTION(0) /* class_token=False */
#define ARCH_DIST          ARCH_OPTION(1) /* distilled=True */
#define ARCH_REG1          ARCH_OPTION(2) /* reg_tokens=1 */
#define ARCH_REG4          ARCH_OPTION(3)
#define ARCH_PATCH_POS     ARCH_OPTION(4)  /* no_embed_class=True */
#define ARCH_PATCH_NORM    ARCH_OPTION(5)  /* embed_norm_layer */
#define ARCH_PRE_NORM      ARCH_OPTION(6)  /* pre_norm=True, without a patch bias */
#define ARCH_RMS           ARCH_OPTION(7)  /* norm_layer=RmsNorm */
#define ARCH_EPS5          ARCH_OPTION(8)  /* eps=1e-5 in the norms */
#define ARCH_RES_POST      ARCH_OPTION(9)  /* block_fn=ResPostBlock */
#define ARCH_NO_QKV_BIAS   ARCH_OPTION(10) /* qkv_bias=False */
#define ARCH_NO_PROJ_BIAS  ARCH_OPTION(11) /* proj_bias=False */
#define ARCH_SCALE_NORMS   ARCH_OPTION(12) /* scale_attn_norm and scale_mlp_norm */
#define ARCH_LAYER_SCALE   ARCH_OPTION(13) /* init_values */
#define ARCH_GELU_TANH     ARCH_OPTION(14) /* act_layer=gelu_tanh */
#define ARCH_QUICK_GELU    ARCH_OPTION(15)
#define ARCH_SILU          ARCH_OPTION(16)
#define ARCH_GATED         ARCH_OPTION(17) /* mlp_layer=SwiGLU or SwiGLUPacked */
#define ARCH_AVG           ARCH_OPTION(18) /* global_pool=avg */
#define ARCH_MAP           ARCH_OPTION(19) /* global_pool=map */
#define ARCH_POOL_PREFIX   ARCH_OPTION(20) /* pool_include_prefix=True */
#define ARCH_FC_NORM       ARCH_OPTION(21) /* the final norm follows the pool */
#define ARCH_NO_FINAL_NORM ARCH_OPTION(22) /* final_norm=False */
#define ARCH_BILINEAR      ARCH_OPTION(23) /* interpolation=bilinear */
#define ARCH_SQUASH        ARCH_OPTION(24) /* crop_mode=squash; otherwise center */
#define ARCH_NO_POS        ARCH_OPTION(25) /* use_abs_pos_emb=False: no learned positions */
#define ARCH_REL_POS       ARCH_OPTION(26) /* use_rel_pos_bias=True */
#define ARCH_SCALE_MLP     ARCH_OPTION(27) /* scale_mlp=True without scale_attn_inner */
#define ARCH_POOL_8        ARCH_OPTION(28) /* attn_pool_num_heads=8 */
#define ARCH_DIFF          ARCH_OPTION(29) /* attn_layer=diff */
#define ARCH_PARALLEL      ARCH_OPTION(30) /* block_fn=ParallelScalingBlock */
#define ARCH_DYNAMIC       ARCH_OPTION(31) /* dynamic_img_size=True */
#define ARCH_FLEXIVIT      ARCH_OPTION(32) /* resamples positions bilinearly, without antialias */
#define ARCH_QK_NORM       ARCH_OPTION(33) /* qk_norm=True */
#define ARCH_NAFLEX        ARCH_OPTION(34) /* the input has the aspect ratio of each photo */
#define ARCH_PAR           ARCH_OPTION(35) /* pos_embed_ar_preserving=True */
#define ARCH_FACTORS       ARCH_OPTION(36) /* pos_embed=factorized */
/* The number of the first bit of those that encode the kind of rotary positions. */
#define ARCH_ROPE_SHIFT 60
#define ARCH_ROPE(kind) ((uint64_t)(kind) << ARCH_ROPE_SHIFT)

typedef enum arch_rope {
    ARCH_ROPE_NONE,
    ARCH_ROPE_EVA02, /* rows come first; coordinates are scaled to a grid of 16 x 16 */
    ARCH_ROPE_PE14,  /* Perception Encoder: columns come first; coordinates count from 1 */
    ARCH_ROPE_PE24,
    ARCH_ROPE_PE32,
    ARCH_ROPE_PE32_0, /* Perception Encoder without a class token: coordinates count from 0 */
    ARCH_ROPE_AXIAL,  /* RoPE-ViT: columns come first */
    ARCH_ROPE_MIXED,  /* columns come first; each block and head has its own frequencies */
    ARCH_ROPE_DINOV3,
} arch_rope;

/* An architecture of timm: a row of the table in timm_names.c. */
typedef struct arch {
    const char *name;
    int embed_dim, depth, num_heads, mlp_dim;
    int patch_size, img_size;
    uint64_t options; /* the bits ARCH_NO_CLS and so on */
    arch_norm norm;   /* mean and std of the weights with the default tag */
    double crop_pct;
} arch;

/* An architecture, and the tag of its weights: the two parts of a full name. */
typedef struct arch_choice {
    const arch *arch;
    char tag[64]; /* the tag; "" if the name has none */
    /* False if the tag is unknown. The preprocessing is then that of the default tag. */
    bool tag_known;
    arch_norm norm;
    double crop_pct;
    bool squash;
} arch_choice;

typedef enum arch_result {
    ARCH_FOUND,
    ARCH_LACKING, /* timm has the name, but vit.h cannot run one of the model's options */
    ARCH_UNKNOWN,
} arch_result;

/* Finds an architecture by name. Accepts the names of the table and timm's retired names
 * ("vit_base_patch16_224_in21k"). A ".tag" may follow the name; "timm/" or "hf-hub:timm/" may
 * precede it. The message about a failure contains the nearest names, or the option that vit.h
 * lacks. */
arch_result arch_find(const char *name, arch_choice *choice, report *r);

/* Writes the full name with the tag, such as "vit_base_patch16_224.augreg_in21k". */
void arch_full_name(const arch_choice *choice, char *text, size_t size);

/* Fills *config with all settings of an architecture, for three channels and without a head. */
void arch_config(const arch_choice *choice, vit_config *config);

/* Fills *rope with the rotary positions of an architecture. */
void arch_rope_options(const arch_choice *choice, rope_options *rope);

/* Fills in the mean and std of three channels. */
void arch_mean_std(arch_norm norm, double mean[3], double std[3]);

/* Returns row i of the table; NULL after the last row. */
const arch *arch_at(size_t i);

/* Returns the first architecture whose blocks and patches have these sizes; NULL for none. */
const arch *arch_of_size(const vit_config *config, int patch_size);

/* Returns the usual number of heads in timm's models of this width; 0 for an unusual width. */
int arch_heads_of_width(int embed_dim);

/* True if timm has a model of this width and depth. */
bool arch_has_size(int embed_dim, int depth);

#endif
