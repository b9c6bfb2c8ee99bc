/* arch.h - the names timm gives to plain vision transformers: what "vit_base_patch16_224" or
 * "deit_tiny_patch16_224.fb_in1k" says about the architecture and the preprocessing.
 */
#ifndef ARCH_H
#define ARCH_H

#include "base.h"

/* The (mean, std) pairs in use; the same three values for every plain ViT of a family. */
typedef enum arch_norm {
    ARCH_HALF,       /* 0.5 and 0.5: Google's own models, AugReg, SAM  */
    ARCH_IMAGENET,   /* 0.485 0.456 0.406: DeiT, DINO, MAE             */
    ARCH_UNIT        /* 0 and 1: MIIL                                  */
} arch_norm;

typedef struct arch {
    const char *name;
    int embed_dim, depth, num_heads, mlp_dim;
    int patch_size, img_size;
    bool distilled, qkv_bias, bilinear;
    arch_norm norm;  /* of its default tag */
    double crop_pct;
} arch;

/* What a full name, tag included, stands for. */
typedef struct arch_choice {
    const arch *arch;
    char tag[64];    /* "" if the name carries none */
    bool tag_known;  /* false: preprocessing is that of the default tag */
    arch_norm norm;
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

void arch_mean_std(arch_norm norm, double mean[3], double std[3]);

/* Table rows in order, NULL behind the last. */
const arch *arch_at(size_t i);

/* timm's name for a width and a number of heads that go together; 0 if there is none. */
int arch_heads_of_width(int embed_dim);

#endif
