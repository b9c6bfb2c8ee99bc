/* arch.h - the names timm gives to plain vision transformers: what "vit_base_patch16_224" or
 * "deit_tiny_patch16_224.fb_in1k" says about the architecture and the preprocessing.
 */
#ifndef ARCH_H
#define ARCH_H

#include "../vit.h"
#include "base.h"

/* The (mean, std) pairs in use; the same three values for every plain ViT of a family. */
typedef enum arch_norm {
    ARCH_HALF,       /* 0.5 and 0.5: Google's own models, AugReg, SAM, SigLIP */
    ARCH_IMAGENET,   /* 0.485 0.456 0.406: DeiT, DINO, MAE, BEiT-3            */
    ARCH_OPENAI,     /* 0.48145466 0.4578275 0.40821073: CLIP, EVA, AIMv2     */
    ARCH_UNIT        /* 0 and 1: MIIL, TIPSv2                                 */
} arch_norm;

/* What differs from a plain ViT: class token, positions of all tokens, pre-norm blocks of LayerNorm
 * with epsilon 1e-6, every bias, erf GELU, final norm, the class token read by the head. */
enum {
    ARCH_NO_CLS = 1 << 0,         /* class_token=False                     */
    ARCH_DIST = 1 << 1,           /* distilled=True                        */
    ARCH_REG1 = 1 << 2,           /* reg_tokens=1                          */
    ARCH_REG4 = 1 << 3,
    ARCH_PATCH_POS = 1 << 4,      /* no_embed_class=True                   */
    ARCH_PATCH_NORM = 1 << 5,     /* embed_norm_layer                      */
    ARCH_PRE_NORM = 1 << 6,       /* pre_norm=True: no patch bias either   */
    ARCH_RMS = 1 << 7,            /* norm_layer=RmsNorm                    */
    ARCH_EPS5 = 1 << 8,           /* its eps=1e-5                          */
    ARCH_RES_POST = 1 << 9,       /* block_fn=ResPostBlock                 */
    ARCH_NO_QKV_BIAS = 1 << 10,   /* qkv_bias=False                        */
    ARCH_NO_PROJ_BIAS = 1 << 11,  /* proj_bias=False                       */
    ARCH_SCALE_NORMS = 1 << 12,   /* scale_attn_norm and scale_mlp_norm    */
    ARCH_LAYER_SCALE = 1 << 13,   /* init_values                           */
    ARCH_GELU_TANH = 1 << 14,     /* act_layer ...                         */
    ARCH_QUICK_GELU = 1 << 15,
    ARCH_SILU = 1 << 16,
    ARCH_GATED = 1 << 17,         /* mlp_layer=SwiGLU or SwiGLUPacked      */
    ARCH_AVG = 1 << 18,           /* global_pool=avg                       */
    ARCH_MAP = 1 << 19,           /* global_pool=map                       */
    ARCH_POOL_PREFIX = 1 << 20,   /* pool_include_prefix=True              */
    ARCH_FC_NORM = 1 << 21,       /* the final norm stands behind the pool */
    ARCH_NO_FINAL_NORM = 1 << 22, /* final_norm=False                      */
    ARCH_BILINEAR = 1 << 23,      /* preprocessing: not bicubic            */
    ARCH_SQUASH = 1 << 24,        /* preprocessing: no crop                */
    ARCH_DYNAMIC = 1 << 25,       /* dynamic_img_size=True                 */
    ARCH_FLEXIVIT = 1 << 26       /* its positions: bilinear, no antialias */
};

typedef struct arch {
    const char *name;
    int embed_dim, depth, num_heads, mlp_dim;
    int patch_size, img_size;
    int options;     /* ARCH_NO_CLS and so on */
    arch_norm norm;  /* of its default tag */
    double crop_pct;
} arch;

/* What a full name, tag included, stands for. */
typedef struct arch_choice {
    const arch *arch;
    char tag[64];    /* "" if the name carries none */
    bool tag_known;  /* false: preprocessing is that of the default tag */
    arch_norm norm;
    double crop_pct;
    bool squash;
} arch_choice;

typedef enum arch_result {
    ARCH_FOUND,
    ARCH_LACKING,    /* timm has it, with an option that vit.h cannot run */
    ARCH_UNKNOWN
} arch_result;

/* Accepts a table name, timm's retired names ("vit_base_patch16_224_in21k"), a ".tag" behind it
 * and a "timm/" or "hf-hub:timm/" before it. The message of a failure names the nearest, or the
 * option that vit.h lacks. */
arch_result arch_find(const char *name, arch_choice *choice, report *r);

/* The name spelled out: "vit_base_patch16_224.augreg_in21k". */
void arch_full_name(const arch_choice *choice, char *text, size_t size);

/* Everything it says, for three channels and no head. */
void arch_config(const arch_choice *choice, vit_config *config);

void arch_mean_std(arch_norm norm, double mean[3], double std[3]);

/* Table rows in order, NULL behind the last. */
const arch *arch_at(size_t i);

/* timm's name for a width and a number of heads that go together; 0 if there is none. */
int arch_heads_of_width(int embed_dim);

#endif
