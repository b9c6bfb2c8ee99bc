#define _POSIX_C_SOURCE 200809L

#include "arch.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* === Tables === */

/* embed_dim, depth, num_heads, mlp_dim */
#define TINY 192, 12, 3, 768
#define SMALL 384, 12, 6, 1536
#define BASE 768, 12, 12, 3072
#define LARGE 1024, 24, 16, 4096
#define HUGE_SIZE 1280, 32, 16, 5120
#define GIANT 1408, 40, 16, 6144
#define GIGANTIC 1664, 48, 16, 8192

/* distilled, qkv_bias, bilinear */
#define PLAIN false, true, false
#define DISTILLED true, true, false
#define MIIL false, false, true

/* clang-format off */
static const arch archs[] = {
    /* name                                 size       patch image options    norm           crop */
    { "vit_tiny_patch16_224",               TINY,      16, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_tiny_patch16_384",               TINY,      16, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_small_patch8_224",               SMALL,      8, 224, PLAIN,     ARCH_IMAGENET, 0.9 },
    { "vit_small_patch16_224",              SMALL,     16, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_small_patch16_384",              SMALL,     16, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_small_patch32_224",              SMALL,     32, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_small_patch32_384",              SMALL,     32, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_base_patch8_224",                BASE,       8, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_base_patch16_224",               BASE,      16, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_base_patch16_224_miil",          BASE,      16, 224, MIIL,      ARCH_UNIT,     0.875 },
    { "vit_base_patch16_384",               BASE,      16, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_base_patch32_224",               BASE,      32, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_base_patch32_384",               BASE,      32, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_large_patch14_224",              LARGE,     14, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_large_patch16_224",              LARGE,     16, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_large_patch16_384",              LARGE,     16, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_large_patch32_224",              LARGE,     32, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_large_patch32_384",              LARGE,     32, 384, PLAIN,     ARCH_HALF,     1.0 },
    { "vit_huge_patch14_224",               HUGE_SIZE, 14, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_giant_patch14_224",              GIANT,     14, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "vit_gigantic_patch14_224",           GIGANTIC,  14, 224, PLAIN,     ARCH_HALF,     0.9 },
    { "deit_tiny_patch16_224",              TINY,      16, 224, PLAIN,     ARCH_IMAGENET, 0.9 },
    { "deit_small_patch16_224",             SMALL,     16, 224, PLAIN,     ARCH_IMAGENET, 0.9 },
    { "deit_base_patch16_224",              BASE,      16, 224, PLAIN,     ARCH_IMAGENET, 0.9 },
    { "deit_base_patch16_384",              BASE,      16, 384, PLAIN,     ARCH_IMAGENET, 1.0 },
    { "deit_tiny_distilled_patch16_224",    TINY,      16, 224, DISTILLED, ARCH_IMAGENET, 0.9 },
    { "deit_small_distilled_patch16_224",   SMALL,     16, 224, DISTILLED, ARCH_IMAGENET, 0.9 },
    { "deit_base_distilled_patch16_224",    BASE,      16, 224, DISTILLED, ARCH_IMAGENET, 0.9 },
    { "deit_base_distilled_patch16_384",    BASE,      16, 384, DISTILLED, ARCH_IMAGENET, 1.0 },
    { "test_vit",                   64, 6, 2, 192,     16, 160, PLAIN,     ARCH_HALF,     0.95 }
};
/* clang-format on */

/* The training recipe, which a tag begins with, decides mean and std. */
static const struct {
    const char *pattern;
    arch_norm norm;
} tags[] = {
    { "augreg*", ARCH_HALF },      { "orig_in21k*", ARCH_HALF }, { "sam*", ARCH_HALF },
    { "untrained", ARCH_HALF },    { "r160_in1k", ARCH_HALF },   { "dino", ARCH_IMAGENET },
    { "mae", ARCH_IMAGENET },      { "fb_in1k", ARCH_IMAGENET }, { "in21k", ARCH_UNIT },
    { "in21k_ft_in1k", ARCH_UNIT }
};

/* Names that timm retired, and what became of them; the part before '*' is kept. */
static const struct {
    const char *pattern, *prefix, *suffix, *tag;
} retired[] = {
    { "vit_large_patch32_224_in21k", "", "_in21k", "orig_in21k" },
    { "vit_huge_patch14_224_in21k", "", "_in21k", "orig_in21k" },
    { "vit_base_patch16_224_miil_in21k", "", "_in21k", "in21k" },
    { "vit_*_224_in21k", "", "_in21k", "augreg_in21k" },
    { "vit_*_224_sam", "", "_sam", "sam_in1k" },
    { "vit_*_224_dino", "", "_dino", "dino" },
    { "vit_deit_*", "vit_", "", "" }
};

/* Other names of timm, with the option that this version of vit.h lacks. The first that fits. */
static const struct {
    const char *pattern, *option;
} lacking[] = {
    { "deit3_*", "layer scale (init_values)" },
    { "*_dinov2*", "layer scale (init_values)" },
    { "*_tipsv2*", "layer scale (init_values)" },
    { "*_plus_2[45]?", "layer scale (init_values)" },
    { "*_36x1_*", "layer scale (init_values)" },
    { "*_18x2_*", "parallel blocks (block_fn)" },
    { "*_clip_*", "a norm before the blocks (pre_norm)" },
    { "*_siglip_gap_*", "average pooling (global_pool=avg)" },
    { "*_siglip_*", "attention pooling (global_pool=map)" },
    { "*_gap_*", "average pooling (global_pool=avg)" },
    { "*_reg[0-9]_*", "register tokens (reg_tokens)" },
    { "*_rpn_*", "post-norm blocks (block_fn)" },
    { "*_xp_*", "parallel blocks (block_fn)" },
    { "*_intern300m_*", "layer scale (init_values)" },
    { "eva_*", "average pooling (global_pool=avg)" },
    { "flexivit_*", "positions of the patches alone (no_embed_class)" },
    { "aimv2_*", "RMS norm (norm_layer)" },
    { "beit3_*", "average pooling (global_pool=avg)" },
    { "test_vit[234]", "register tokens (reg_tokens)" },
    { "vit_*_r[0-9_]*", "a convolutional stem (backbone)" },
    { "vit_*_resnet*", "a convolutional stem (backbone)" },
    { "vit_*_mci_*", "a convolutional stem (backbone)" }
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Names === */

const arch *arch_at(size_t i)
{
    return i < COUNT(archs) ? &archs[i] : NULL;
}

static const arch *arch_by_name(const char *name)
{
    size_t i;
    for (i = 0; i < COUNT(archs); i++)
        if (!strcmp(archs[i].name, name)) return &archs[i];
    return NULL;
}

static size_t arch_min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

enum { ARCH_MAX_NAME = 128 };

/* Levenshtein's edit distance, one row at a time. */
static size_t arch_distance(const char *a, const char *b)
{
    size_t row[ARCH_MAX_NAME + 1], length = strlen(b), i, j;
    for (j = 0; j <= length; j++) row[j] = j;
    for (i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (j = 1; j <= length; j++) {
            size_t above = row[j];
            row[j] = arch_min3(above + 1, row[j - 1] + 1, diagonal + (a[i] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[length];
}

static const arch *arch_nearest(const char *name, const arch *except1, const arch *except2)
{
    const arch *best = NULL;
    size_t best_distance = 0, i;
    for (i = 0; i < COUNT(archs); i++) {
        size_t distance = arch_distance(name, archs[i].name);
        if (&archs[i] == except1 || &archs[i] == except2) continue;
        if (!best || distance < best_distance) {
            best = &archs[i];
            best_distance = distance;
        }
    }
    return best;
}

static arch_result arch_unknown(const char *name, report *r)
{
    const arch *first, *second, *third;
    size_t i;
    for (i = 0; i < COUNT(lacking); i++)
        if (!fnmatch(lacking[i].pattern, name, 0)) {
            report_fail(r, "architecture %s: this version of vit.h lacks %s", name,
                        lacking[i].option);
            return ARCH_LACKING;
        }
    first = arch_nearest(name, NULL, NULL);
    second = arch_nearest(name, first, NULL);
    third = arch_nearest(name, first, second);
    report_fail(r, "unknown architecture %s; nearest: %s, %s, %s (--list-archs lists all)", name,
                first->name, second->name, third->name);
    return ARCH_UNKNOWN;
}

/* Rewrites a retired name in place and gives it the tag it had. */
static void arch_modernise(char *name, char *tag, size_t tag_size)
{
    size_t i;
    for (i = 0; i < COUNT(retired); i++) {
        size_t prefix = strlen(retired[i].prefix);
        if (fnmatch(retired[i].pattern, name, 0) != 0) continue;
        name[strlen(name) - strlen(retired[i].suffix)] = '\0';
        memmove(name, name + prefix, strlen(name) - prefix + 1);
        if (!tag[0]) snprintf(tag, tag_size, "%s", retired[i].tag);
        return;
    }
}

static void arch_apply_tag(arch_choice *choice)
{
    size_t i;
    choice->norm = choice->arch->norm;
    choice->tag_known = !choice->tag[0];
    for (i = 0; i < COUNT(tags) && !choice->tag_known; i++) {
        if (fnmatch(tags[i].pattern, choice->tag, 0) != 0) continue;
        choice->norm = tags[i].norm;
        choice->tag_known = true;
    }
}

arch_result arch_find(const char *name, arch_choice *choice, report *r)
{
    char base[ARCH_MAX_NAME];
    const char *slash = strrchr(name, '/'), *dot;
    memset(choice, 0, sizeof *choice);
    if (slash) name = slash + 1;
    dot = strchr(name, '.');
    if (!dot) dot = name + strlen(name);
    if (dot == name || (size_t)(dot - name) >= sizeof base || strlen(dot) >= sizeof choice->tag) {
        report_fail(r, "unknown architecture \"%.200s\" (--list-archs lists all)", name);
        return ARCH_UNKNOWN;
    }
    memcpy(base, name, (size_t)(dot - name));
    base[dot - name] = '\0';
    if (*dot) snprintf(choice->tag, sizeof choice->tag, "%s", dot + 1);
    arch_modernise(base, choice->tag, sizeof choice->tag);
    choice->arch = arch_by_name(base);
    if (!choice->arch) return arch_unknown(base, r);
    arch_apply_tag(choice);
    return ARCH_FOUND;
}

void arch_full_name(const arch_choice *choice, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", choice->arch->name, choice->tag[0] ? "." : "", choice->tag);
}

void arch_mean_std(arch_norm norm, double mean[3], double std[3])
{
    static const double values[3][2][3] = {
        { { 0.5, 0.5, 0.5 }, { 0.5, 0.5, 0.5 } },
        { { 0.485, 0.456, 0.406 }, { 0.229, 0.224, 0.225 } },
        { { 0, 0, 0 }, { 1, 1, 1 } }
    };
    memcpy(mean, values[norm][0], sizeof values[norm][0]);
    memcpy(std, values[norm][1], sizeof values[norm][1]);
}

int arch_heads_of_width(int embed_dim)
{
    switch (embed_dim) {
    case 192: return 3;
    case 384: return 6;
    case 768: return 12;
    case 1024: return 16;
    case 1280: return 16;
    default: return 0;
    }
}
