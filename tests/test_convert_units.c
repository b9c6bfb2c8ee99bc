/* test_convert_units.c - tests the parts of vit-convert: names of architectures, resampled
 * positions, labels, config.json, settings. tests/test_convert.sh tests the whole program.
 *
 *     test_convert_units tests/data
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/text.h"
#include "bench/bench.h"
#include "checkpoint/checkpoint.h"
#include "convert/calibrate.h"
#include "convert/conversion.h"
#include "convert/quantise.h"
#include "convert/vit_writer.h"
#include "layout/plan.h"
#include "model/card.h"
#include "model/config.h"
#include "model/labels.h"
#include "model/positions.h"
#include "model/resolve.h"
#include "model/settings.h"
#include "model/timm_names.h"
#include "conversion.h"
#include "test.h"
#include "tiny_model.h"
#define VIT_TOOLS
#include "vit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static report latest;
static photo_decoder *decoder;

static report *new_report(void) {
    latest = report_make();
    return &latest;
}

/* === Architectures === */

/* Every tag of timm's plain models, from timm 1.0.29.dev0. The columns are embed_dim, depth,
 * num_heads, mlp_dim, patch_size, input size, crop_pct and letters. The letters mean: H mean 0.5, N
 * ImageNet's mean, U mean 0, d distilled, q no qkv bias, l bilinear, y dynamic. */
/* clang-format off */
static const struct {
    const char *name;
    int embed_dim, depth, num_heads, mlp_dim, patch_size, img_size;
    double crop_pct;
    char norm;
    const char *flags;
} known[] = {
    { "vit_base_patch16_224.augreg2_in21k_ft_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch8_224.augreg2_in21k_ft_in1k", 768, 12, 12, 3072, 8, 224, 0.9, 'H', "" },
    { "vit_tiny_patch16_224.augreg_in21k_ft_in1k", 192, 12, 3, 768, 16, 224, 0.9, 'H', "" },
    { "vit_tiny_patch16_384.augreg_in21k_ft_in1k", 192, 12, 3, 768, 16, 384, 1, 'H', "" },
    { "vit_small_patch32_224.augreg_in21k_ft_in1k", 384, 12, 6, 1536, 32, 224, 0.9, 'H', "" },
    { "vit_small_patch32_384.augreg_in21k_ft_in1k", 384, 12, 6, 1536, 32, 384, 1, 'H', "" },
    { "vit_small_patch16_224.augreg_in21k_ft_in1k", 384, 12, 6, 1536, 16, 224, 0.9, 'H', "" },
    { "vit_small_patch16_384.augreg_in21k_ft_in1k", 384, 12, 6, 1536, 16, 384, 1, 'H', "" },
    { "vit_base_patch32_224.augreg_in21k_ft_in1k", 768, 12, 12, 3072, 32, 224, 0.9, 'H', "" },
    { "vit_base_patch32_384.augreg_in21k_ft_in1k", 768, 12, 12, 3072, 32, 384, 1, 'H', "" },
    { "vit_base_patch16_224.augreg_in21k_ft_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch16_384.augreg_in21k_ft_in1k", 768, 12, 12, 3072, 16, 384, 1, 'H', "" },
    { "vit_base_patch8_224.augreg_in21k_ft_in1k", 768, 12, 12, 3072, 8, 224, 0.9, 'H', "" },
    { "vit_large_patch16_224.augreg_in21k_ft_in1k", 1024, 24, 16, 4096, 16, 224, 0.9, 'H', "" },
    { "vit_large_patch16_384.augreg_in21k_ft_in1k", 1024, 24, 16, 4096, 16, 384, 1, 'H', "" },
    { "vit_base_patch16_224.orig_in21k_ft_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch16_384.orig_in21k_ft_in1k", 768, 12, 12, 3072, 16, 384, 1, 'H', "" },
    { "vit_large_patch32_384.orig_in21k_ft_in1k", 1024, 24, 16, 4096, 32, 384, 1, 'H', "" },
    { "vit_small_patch16_224.augreg_in1k", 384, 12, 6, 1536, 16, 224, 0.9, 'H', "" },
    { "vit_small_patch16_384.augreg_in1k", 384, 12, 6, 1536, 16, 384, 1, 'H', "" },
    { "vit_base_patch32_224.augreg_in1k", 768, 12, 12, 3072, 32, 224, 0.9, 'H', "" },
    { "vit_base_patch32_384.augreg_in1k", 768, 12, 12, 3072, 32, 384, 1, 'H', "" },
    { "vit_base_patch16_224.augreg_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch16_384.augreg_in1k", 768, 12, 12, 3072, 16, 384, 1, 'H', "" },
    { "vit_large_patch14_224.untrained", 1024, 24, 16, 4096, 14, 224, 0.9, 'H', "" },
    { "vit_huge_patch14_224.untrained", 1280, 32, 16, 5120, 14, 224, 0.9, 'H', "" },
    { "vit_giant_patch14_224.untrained", 1408, 40, 16, 6144, 14, 224, 0.9, 'H', "" },
    { "vit_gigantic_patch14_224.untrained", 1664, 48, 16, 8192, 14, 224, 0.9, 'H', "" },
    { "vit_base_patch32_224.orig_in21k", 768, 12, 12, 3072, 32, 224, 0.9, 'H', "" },
    { "vit_base_patch16_224.orig_in21k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_large_patch32_224.orig_in21k", 1024, 24, 16, 4096, 32, 224, 0.9, 'H', "" },
    { "vit_large_patch16_224.orig_in21k", 1024, 24, 16, 4096, 16, 224, 0.9, 'H', "" },
    { "vit_huge_patch14_224.orig_in21k", 1280, 32, 16, 5120, 14, 224, 0.9, 'H', "" },
    { "vit_tiny_patch16_224.augreg_in21k", 192, 12, 3, 768, 16, 224, 0.9, 'H', "" },
    { "vit_small_patch32_224.augreg_in21k", 384, 12, 6, 1536, 32, 224, 0.9, 'H', "" },
    { "vit_small_patch16_224.augreg_in21k", 384, 12, 6, 1536, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch32_224.augreg_in21k", 768, 12, 12, 3072, 32, 224, 0.9, 'H', "" },
    { "vit_base_patch16_224.augreg_in21k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch8_224.augreg_in21k", 768, 12, 12, 3072, 8, 224, 0.9, 'H', "" },
    { "vit_large_patch16_224.augreg_in21k", 1024, 24, 16, 4096, 16, 224, 0.9, 'H', "" },
    { "vit_base_patch32_224.sam_in1k", 768, 12, 12, 3072, 32, 224, 0.9, 'H', "" },
    { "vit_base_patch16_224.sam_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'H', "" },
    { "vit_small_patch16_224.dino", 384, 12, 6, 1536, 16, 224, 0.9, 'N', "" },
    { "vit_small_patch8_224.dino", 384, 12, 6, 1536, 8, 224, 0.9, 'N', "" },
    { "vit_base_patch16_224.dino", 768, 12, 12, 3072, 16, 224, 0.9, 'N', "" },
    { "vit_base_patch8_224.dino", 768, 12, 12, 3072, 8, 224, 0.9, 'N', "" },
    { "vit_base_patch16_224_miil.in21k", 768, 12, 12, 3072, 16, 224, 0.875, 'U', "ql" },
    { "vit_base_patch16_224_miil.in21k_ft_in1k", 768, 12, 12, 3072, 16, 224, 0.875, 'U', "ql" },
    { "vit_base_patch16_224.mae", 768, 12, 12, 3072, 16, 224, 0.9, 'N', "" },
    { "vit_large_patch16_224.mae", 1024, 24, 16, 4096, 16, 224, 0.9, 'N', "" },
    { "vit_huge_patch14_224.mae", 1280, 32, 16, 5120, 14, 224, 0.9, 'N', "" },
    { "test_vit.r160_in1k", 64, 6, 2, 192, 16, 160, 0.95, 'H', "y" },
    { "deit_tiny_patch16_224.fb_in1k", 192, 12, 3, 768, 16, 224, 0.9, 'N', "" },
    { "deit_small_patch16_224.fb_in1k", 384, 12, 6, 1536, 16, 224, 0.9, 'N', "" },
    { "deit_base_patch16_224.fb_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'N', "" },
    { "deit_base_patch16_384.fb_in1k", 768, 12, 12, 3072, 16, 384, 1, 'N', "" },
    { "deit_tiny_distilled_patch16_224.fb_in1k", 192, 12, 3, 768, 16, 224, 0.9, 'N', "d" },
    { "deit_small_distilled_patch16_224.fb_in1k", 384, 12, 6, 1536, 16, 224, 0.9, 'N', "d" },
    { "deit_base_distilled_patch16_224.fb_in1k", 768, 12, 12, 3072, 16, 224, 0.9, 'N', "d" },
    { "deit_base_distilled_patch16_384.fb_in1k", 768, 12, 12, 3072, 16, 384, 1, 'N', "d" },
};

/* Names of timm's models with an option that vit.h does not support. */
static const char *const lacking[] = {
    "vit_small_patch16_18x2_224", "vit_base_patch16_18x2_224", "vit_small_resnet26d_224",
    "vit_small_resnet50d_s16_224", "vit_base_resnet26d_224", "vit_base_resnet50d_224",
};
/* clang-format on */

static void test_known_names(void) {
    size_t i;
    for (i = 0; i < COUNT(known); i++) {
        report *r = new_report();
        arch_choice choice;
        double mean[3], std[3];
        bool found = arch_find(known[i].name, &choice, r) == ARCH_FOUND;
        CHECK_MSG(found, "%s: %s", known[i].name, latest.text);
        if (!found) continue;
        CHECK(choice.arch->embed_dim == known[i].embed_dim);
        CHECK(choice.arch->depth == known[i].depth);
        CHECK(choice.arch->num_heads == known[i].num_heads);
        CHECK(choice.arch->mlp_dim == known[i].mlp_dim);
        CHECK(choice.arch->patch_size == known[i].patch_size);
        CHECK(choice.arch->img_size == known[i].img_size);
        CHECK(choice.arch->crop_pct == known[i].crop_pct);
        CHECK(choice.arch->options == (strchr(known[i].flags, 'd') ? ARCH_DIST
                                       : strchr(known[i].flags, 'q')
                                           ? ARCH_NO_QKV_BIAS | ARCH_BILINEAR
                                       : strchr(known[i].flags, 'y') ? ARCH_DYNAMIC
                                                                     : 0));
        CHECK(choice.tag_known);
        arch_mean_std(choice.norm, mean, std);
        CHECK_MSG(mean[0] == (known[i].norm == 'H'   ? 0.5
                              : known[i].norm == 'N' ? 0.485
                                                     : 0.0),
                  "%s", known[i].name);
        CHECK(std[2] == (known[i].norm == 'H' ? 0.5 : known[i].norm == 'N' ? 0.225 : 1.0));
    }
}

/* Tests names without a tag. The first tag of each name above is timm's default, so the name
 * without a tag must have the mean and std of this tag. */
static void test_default_tags(void) {
    size_t i, k;
    for (i = 0; arch_at(i); i++) {
        const arch *a = arch_at(i);
        for (k = 0; k < COUNT(known); k++) {
            size_t length = strlen(a->name);
            if (strncmp(known[k].name, a->name, length) || known[k].name[length] != '.') continue;
            CHECK_MSG(a->norm == (known[k].norm == 'H'   ? ARCH_HALF
                                  : known[k].norm == 'N' ? ARCH_IMAGENET
                                                         : ARCH_UNIT),
                      "%s", a->name);
            break;
        }
    }
}

static void test_lacking_names(void) {
    size_t i;
    for (i = 0; i < COUNT(lacking); i++) {
        report *r = new_report();
        arch_choice choice;
        CHECK_MSG(arch_find(lacking[i], &choice, r) == ARCH_LACKING, "%s", lacking[i]);
        CHECK(strstr(latest.text, "lacks") && strstr(latest.text, lacking[i]));
    }
}

static void check_name(const char *given, const char *full, double mean0) {
    report *r = new_report();
    arch_choice choice;
    char name[256];
    double mean[3], std[3];
    bool found = arch_find(given, &choice, r) == ARCH_FOUND;
    CHECK_MSG(found, "%s: %s", given, latest.text);
    if (!found) return;
    arch_full_name(&choice, name, sizeof name);
    arch_mean_std(choice.norm, mean, std);
    CHECK_MSG(!strcmp(name, full), "%s: %s", given, name);
    CHECK_MSG(mean[0] == mean0, "%s: %g", given, mean[0]);
}

static void test_other_names(void) {
    check_name("vit_deit_tiny_patch16_224.fb_in1k", "deit_tiny_patch16_224.fb_in1k", 0.485);
    check_name("vit_base_patch16_224_dino.mae", "vit_base_patch16_224.mae", 0.485);
    check_name("vit_base_patch16_224_in21k", "vit_base_patch16_224.augreg_in21k", 0.5);
    check_name("vit_huge_patch14_224_in21k", "vit_huge_patch14_224.orig_in21k", 0.5);
    check_name("vit_large_patch32_224_in21k", "vit_large_patch32_224.orig_in21k", 0.5);
    check_name("vit_base_patch16_224_miil_in21k", "vit_base_patch16_224_miil.in21k", 0);
    check_name("vit_small_patch16_224_dino", "vit_small_patch16_224.dino", 0.485);
    check_name("vit_base_patch32_224_sam", "vit_base_patch32_224.sam_in1k", 0.5);
    check_name("deit3_small_patch16_384_in21ft1k", "deit3_small_patch16_384.fb_in22k_ft_in1k",
               0.485);
    check_name("vit_deit_tiny_patch16_224", "deit_tiny_patch16_224", 0.485);
    check_name("vit_deit_base_distilled_patch16_384", "deit_base_distilled_patch16_384", 0.485);
    check_name("timm/vit_base_patch16_224.mae", "vit_base_patch16_224.mae", 0.485);
    check_name("hf-hub:timm/vit_tiny_patch16_384", "vit_tiny_patch16_384", 0.5);
    check_name("vit_tiny_patch16_224.my_own", "vit_tiny_patch16_224.my_own", 0.5);
}

static void check_unknown(const char *name, const char *nearest) {
    report *r = new_report();
    arch_choice choice;
    char long_name[300];
    CHECK_MSG(arch_find(name, &choice, r) == ARCH_UNKNOWN, "%s", name);
    CHECK_MSG(strstr(latest.text, nearest) != NULL, "%s: %s", name, latest.text);
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    r = new_report();
    CHECK(arch_find(long_name, &choice, r) == ARCH_UNKNOWN);
    long_name[20] = '.'; /* This makes a tag that is too long. */
    r = new_report();
    CHECK(arch_find(long_name, &choice, r) == ARCH_UNKNOWN);
}

static void test_unknown_names(void) {
    check_unknown("vit_tiny_patch16", "nearest: vit_tiny_patch16_224, vit_tiny_patch16_384");
    check_unknown("vit_tiny", "nearest: vit_tiny_patch16_224, vit_tiny_patch16_384");
    check_unknown("deit_tiny", "nearest: deit_tiny_patch16_224, deit_tiny_distilled_patch16_224");
    check_unknown("ViT-Tiny", "nearest: vit_tiny_patch16_224,");
    check_unknown("vit_b_16", "vit_base_patch16_224");
    check_unknown("deit_tiny_patch_16_224", "nearest: deit_tiny_patch16_224,");
    check_unknown("vit-base-patch16-224", "vit_base_patch16_224");
    check_unknown("", "unknown architecture");
    check_unknown(".tag", "unknown architecture");
    CHECK(arch_heads_of_width(192) == 3 && arch_heads_of_width(384) == 6);
    CHECK(arch_heads_of_width(768) == 12 && arch_heads_of_width(1024) == 16);
    CHECK(arch_heads_of_width(1280) == 16 && arch_heads_of_width(100) == 0);
}

/* === Positions === */

typedef struct grid_case {
    int height, width, new_height, new_width, dim;
} grid_case;

static void random_inputs(float *out, int count) {
    uint32_t state = 12345;
    int i;
    for (i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

static bool read_floats(FILE *file, float *out, int count) {
    unsigned char bytes[4];
    uint32_t bits;
    int i;
    for (i = 0; i < count && fread(bytes, sizeof bytes, 1, file) == 1; i++) {
        bits = bytes_load32(bytes);
        memcpy(out + i, &bits, sizeof bits);
    }
    return i == count;
}

static void check_resampled(vit_pos_resample how, const grid_case *g, FILE *file) {
    const int old = g->height * g->width * g->dim, new = g->new_height * g->new_width * g->dim;
    float *from = malloc((size_t)old * sizeof *from), *to = malloc((size_t) new * sizeof *to);
    float *expected = malloc((size_t) new * sizeof *expected);
    double worst = 0, largest = 0;
    int i;
    random_inputs(from, old);
    CHECK(read_floats(file, expected, new));
    vit_resample_positions(how, g->dim, from, (vit_grid){ g->height, g->width }, to,
                           (vit_grid){ g->new_height, g->new_width });
    for (i = 0; i < new; i++) {
        double difference = fabs((double)to[i] - (double)expected[i]);
        if (!(difference <= worst)) worst = difference;
        if (fabs((double)expected[i]) > largest) largest = fabs((double)expected[i]);
    }
    CHECK_MSG(worst <= 2e-6 * largest, "way %d, %dx%d to %dx%d: %g of %g", how, g->height, g->width,
              g->new_height, g->new_width, worst, largest);
    if (g->height == g->new_height && g->width == g->new_width && how != VIT_RESAMPLE_DINO)
        CHECK(!memcmp(from, to, (size_t)old * sizeof *from));
    free(from);
    free(to);
    free(expected);
}

/* Compares resampled positions with those that PyTorch computed for the cases of
 * make_resample.py. */
static void test_resample(const char *data) {
    static const grid_case cases[] = {
        { 14, 14, 24, 24, 1 }, { 24, 24, 14, 14, 2 }, { 14, 14, 7, 28, 1 },
        { 7, 7, 12, 9, 3 },    { 16, 16, 5, 5, 2 },   { 2, 2, 3, 3, 4 },
        { 1, 1, 4, 4, 2 },     { 8, 8, 1, 1, 3 },     { 6, 6, 6, 6, 2 },
    };
    char path[512];
    FILE *file;
    size_t i;
    int how;
    snprintf(path, sizeof path, "%s/convert/resample.f32", data);
    file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "%s", path);
    if (!file) return;
    for (how = VIT_RESAMPLE_TIMM; how < VIT_NUM_POS_RESAMPLES; how++)
        for (i = 0; i < COUNT(cases); i++) check_resampled((vit_pos_resample)how, &cases[i], file);
    CHECK(fgetc(file) == EOF);
    fclose(file);
}

static void check_relative(const int sides[4], FILE *file) {
    const vit_grid old_grid = { sides[0], sides[1] }, new_grid = { sides[2], sides[3] };
    const int old = (2 * sides[0] - 1) * (2 * sides[1] - 1);
    const int new = (2 * sides[2] - 1) * (2 * sides[3] - 1);
    float *from = malloc((size_t)old * sizeof *from), *to = malloc((size_t) new * sizeof *to);
    float *expected = malloc((size_t) new * sizeof *expected);
    int i;
    random_inputs(from, old);
    CHECK(read_floats(file, expected, new));
    vit_resample_relative(VIT_RESAMPLE_TRANSFORMERS, from, old_grid, to, new_grid);
    for (i = 0; i < new; i++)
        CHECK_MSG(fabs((double)to[i] - (double)expected[i]) <= 2e-6,
                  "%dx%d to %dx%d, %d: %g, not "
                  "%g",
                  sides[0], sides[1], sides[2], sides[3], i, (double)to[i], (double)expected[i]);
    free(from);
    free(to);
    free(expected);
}

/* Compares resampled relative positions with those of transformers. test_coverage.c compares with
 * those of timm. */
static void test_relative(const char *data) {
    static const int cases[][4] = {
        { 14, 14, 24, 24 }, { 14, 14, 7, 28 }, { 3, 5, 2, 9 }, { 1, 1, 3, 2 }, { 4, 4, 1, 1 },
    };
    char path[512];
    FILE *file;
    size_t i;
    snprintf(path, sizeof path, "%s/convert/rel_pos.f32", data);
    file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "%s", path);
    if (!file) return;
    for (i = 0; i < COUNT(cases); i++) check_relative(cases[i], file);
    CHECK(fgetc(file) == EOF);
    fclose(file);
}

typedef struct patch_case {
    int chans, patch, new_chans, new_patch;
    vit_pos_resample how;
} patch_case;

static void check_adapted(const patch_case *p, FILE *file) {
    const patch_shape stored = { p->chans, p->patch }, wanted = { p->new_chans, p->new_patch };
    const int old = p->chans * p->patch * p->patch;
    const int new = p->new_chans * p->new_patch * p->new_patch;
    float *from = malloc((size_t)old * sizeof *from), *to = malloc((size_t) new * sizeof *to);
    float *expected = malloc((size_t) new * sizeof *expected);
    report *r = new_report();
    adaptation a;
    double worst = 0, largest = 0;
    int i;
    random_inputs(from, old);
    CHECK(read_floats(file, expected, new));
    CHECK(adapt_start(&a, &stored, &wanted, p->how, r));
    adapt_row(&a, from, to);
    adapt_free(&a);
    for (i = 0; i < new; i++) {
        double difference = fabs((double)to[i] - (double)expected[i]);
        if (!(difference <= worst)) worst = difference;
        if (fabs((double)expected[i]) > largest) largest = fabs((double)expected[i]);
    }
    CHECK_MSG(worst <= 5e-6 * largest, "%d x %d to %d x %d: %g of %g", p->chans, p->patch,
              p->new_chans, p->new_patch, worst, largest);
    free(from);
    free(to);
    free(expected);
}

/* Compares resampled patch embeddings with those that PyTorch's pseudo-inverse gave for the cases
 * of make_resample.py. */
static void test_adapt(const char *data) {
    static const patch_case cases[] = {
        { 3, 16, 1, 16, VIT_RESAMPLE_TIMM },        { 3, 8, 4, 8, VIT_RESAMPLE_TIMM },
        { 3, 4, 5, 4, VIT_RESAMPLE_TORCHVISION },   { 3, 2, 32, 2, VIT_RESAMPLE_FLEXIVIT },
        { 3, 2, 2, 2, VIT_RESAMPLE_TIMM },          { 1, 16, 1, 32, VIT_RESAMPLE_TIMM },
        { 2, 16, 2, 8, VIT_RESAMPLE_TRANSFORMERS }, { 1, 14, 1, 16, VIT_RESAMPLE_DINO },
        { 1, 16, 1, 10, VIT_RESAMPLE_TIMM },        { 1, 4, 1, 9, VIT_RESAMPLE_FLEXIVIT },
        { 1, 16, 1, 8, VIT_RESAMPLE_FLEXIVIT },     { 1, 8, 1, 12, VIT_RESAMPLE_FLEXIVIT },
        { 1, 32, 1, 16, VIT_RESAMPLE_FLEXIVIT },    { 3, 8, 1, 5, VIT_RESAMPLE_TIMM },
        { 3, 5, 4, 7, VIT_RESAMPLE_FLEXIVIT },      { 1, 1, 1, 3, VIT_RESAMPLE_TIMM },
        { 1, 3, 1, 1, VIT_RESAMPLE_TIMM },
    };
    char path[512];
    FILE *file;
    size_t i;
    snprintf(path, sizeof path, "%s/convert/adapt.f32", data);
    file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "%s", path);
    if (!file) return;
    for (i = 0; i < COUNT(cases); i++) check_adapted(&cases[i], file);
    CHECK(fgetc(file) == EOF);
    fclose(file);
}

/* === Files for the tests below === */

static char temporary[] = "/tmp/vit_convert_units_XXXXXX";

static void write_temporary(const char *text, size_t size) {
    FILE *file = fopen(temporary, "wb");
    CHECK(file != NULL);
    if (!file) return;
    CHECK(fwrite(text, 1, size, file) == size);
    fclose(file);
}

/* === Labels === */

static bool read_labels(label_list *list, const char *text) {
    report *r = new_report();
    write_temporary(text, strlen(text));
    return labels_read_file(list, temporary, r);
}

static void check_labels(const char *text, size_t count, size_t at, const char *label,
                         const char *synset) {
    label_list list;
    bool good = read_labels(&list, text);
    CHECK_MSG(good, "%s: %s", text, latest.text);
    if (!good) return;
    CHECK_MSG(list.count == count, "%s: %zu", text, list.count);
    CHECK_MSG(!strcmp(list.labels[at], label), "%s: %s", text, list.labels[at]);
    if (!synset) CHECK(!list.synsets);
    else CHECK(list.synsets && !strcmp(list.synsets[at], synset));
    labels_free(&list);
}

static void check_bad_labels(const char *text, size_t size, const char *message) {
    report *r = new_report();
    label_list list;
    write_temporary(text, size);
    CHECK_MSG(!labels_read_file(&list, temporary, r), "%s", message);
    CHECK_MSG(strstr(latest.text, message) != NULL, "%s: %s", message, latest.text);
}

static void test_label_files(void) {
    static const char nul[] = "cat\0\ndog\n";
    report *r = new_report();
    label_list list;
    check_labels("cat\ndog\n", 2, 1, "dog", NULL);
    check_labels("cat\ndog", 2, 1, "dog", NULL);
    check_labels("cat\r\ndog\r\n\r\n\n", 2, 0, "cat", NULL);
    check_labels("\xEF\xBB\xBF"
                 "cat\n",
                 1, 0, "cat", NULL);
    check_labels("Gr\xC3\xBC\xC3\x9F\x65, hallo\n  spaced  \n", 2, 0,
                 "Gr\xC3\xBC\xC3\x9F\x65, hallo", NULL);
    check_labels("n01440764 tench, Tinca tinca\nn01443537 goldfish\n", 2, 0, "tench, Tinca tinca",
                 "n01440764");
    check_labels("n01440764\ttench\r\nn01443537\tgoldfish\r\n", 2, 1, "goldfish", "n01443537");
    check_labels("n01440764\nn01443537\n", 2, 1, "n01443537", "n01443537");
    check_labels("n01440764 tench\ngoldfish\n", 2, 0, "n01440764 tench", NULL);
    check_labels("n123\nn01443537\n", 2, 0, "n123", NULL);
    check_labels("n01443537x\nnone\n", 2, 0, "n01443537x", NULL);
    check_labels("tag_id,name,category,count\r\n9999999,general,9,807858\r\n"
                 "470575,1girl,0,4225150\r\n",
                 2, 1, "1girl", NULL);
    check_labels("tag_id,count,name\n1,2,\"a \"\"b\"\", c\"\n", 1, 0, "a \"b\", c", NULL);
    check_labels("tag_id,name\n1,a\"b\"\n2,;)\n", 2, 0, "a\"b\"", NULL);
    check_labels("tag_id\nname\n", 2, 0, "tag_id", NULL);
    check_bad_labels("tag_id,category\n1,2\n", 20, "line 1: expected a column \"name\"");
    check_bad_labels("tag_id,\"name\n1,2\n", 17, "line 1: expected a column \"name\"");
    check_bad_labels("tag_id,name\n1,a\n2\n", 18, "line 3: expected a name in column 2");
    check_bad_labels("tag_id,name\n1,\n", 15, "line 2: expected a name in column 2");
    check_bad_labels("tag_id,name\n1,\"a\n", 17, "line 2: expected a name in column 2");
    check_bad_labels("tag_id,name\n", 12, "expected a tag on each line after the first");
    check_bad_labels("cat\n\ndog\n", 9, "line 2: expected a label, found an empty line");
    check_bad_labels("cat\n\xff\xfe\n", 7, "line 2 is not UTF-8");
    check_bad_labels("", 0, "found nothing");
    check_bad_labels("\n \n", 3, "found nothing");
    check_bad_labels(nul, sizeof nul - 1, "NUL");
    CHECK(truncate(temporary, (64 << 20) + 1) == 0);
    r = new_report();
    CHECK(!labels_read_file(&list, temporary, r) && strstr(latest.text, "too large"));
    r = new_report();
    CHECK(!labels_read_file(&list, "/no/such/labels", r) &&
          strstr(latest.text, "cannot be opened"));
    r = new_report();
    CHECK(labels_from_list(&list, NULL, 0, r) && list.count == 0 && !list.labels);
}

/* === --rename === */

/* Renames the tensors "a.x" and "b.y" by the rules, and opens them. Returns NULL if the rules or
 * the new names are refused. */
static checkpoint *open_renamed(const char *const rules[2]) {
    static const char header[] = "{\"a.x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                 "\"b.y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    char bytes[8 + sizeof header] = { (char)(sizeof header - 1) };
    const char *items[2];
    report *r = new_report();
    text_list list;
    checkpoint *c;
    items[0] = rules[0];
    items[1] = rules[1];
    list.items = items;
    list.count = rules[1] ? 2 : 1;
    memcpy(bytes + 8, header, sizeof header);
    if (!checkpoint_open_memory("x", bytes, sizeof bytes - 1, &c, r)) return NULL;
    if (rename_tensors(c, &list, r)) return c;
    checkpoint_close(c);
    return NULL;
}

static void test_renames(void) {
    static const struct {
        const char *rules[2], *first, *second;
    } good[] = {
        { { "a.x=c.z", NULL }, "c.z", "b.y" }, { { "*.y=y.*", NULL }, "a.x", "y.b" },
        { { "*.*=*_*", NULL }, "a_x", "b_y" }, { { "a.x=b.y", "b.y=a.x" }, "b.y", "a.x" },
        { { "a=c.z", NULL }, "c.z.x", "b.y" }, { { "b=d", "a=b" }, "b.x", "d.y" },
    };
    static const struct {
        const char *rules[2], *message;
    } bad[] = {
        { { "a.x", NULL }, "expected THEIRS=OURS, found \"a.x\"" },
        { { "=c", NULL }, "expected THEIRS=OURS" },
        { { "a.x=", NULL }, "expected THEIRS=OURS" },
        { { "*.x=c", NULL }, "as many * on the right" },
        { { "*********=*********", NULL }, "at most 8" },
        { { "z=c", NULL }, "no tensor is called z (the first tensor is a.x)" },
        { { "a.x=c", "a.*=d.*" }, "no tensor, after the earlier rules, is called a.*" },
        { { "a.x=b.y", NULL }, "duplicate tensor \"b.y\"" },
    };
    static char rule[1100] = "a.*=";
    const char *const long_rule[2] = { rule, NULL };
    checkpoint *c;
    size_t i;
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        c = open_renamed(good[i].rules);
        CHECK_MSG(c && !strcmp(checkpoint_tensor(c, 0)->name, good[i].first) &&
                      !strcmp(checkpoint_tensor(c, 1)->name, good[i].second),
                  "%s: %s", good[i].rules[0], latest.text);
        checkpoint_close(c);
    }
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_MSG(!open_renamed(bad[i].rules) && strstr(latest.text, bad[i].message), "%s: %s",
                  bad[i].message, latest.text);
    memset(rule + 4, 'n', 1023);
    rule[4 + 1023] = '*'; /* With the letter for '*', the name is too long. */
    CHECK(!open_renamed(long_rule) && strstr(latest.text, "is longer than 1023 bytes"));
    memset(rule + 4, 'n', 1040);
    rule[4] = '*';
    CHECK(!open_renamed(long_rule) && strstr(latest.text, "is longer than 1023 bytes"));
    memset(rule, 'n', 1030);
    CHECK(!open_renamed(long_rule) && strstr(latest.text, "expected THEIRS=OURS"));
    memcpy(rule + 1030, "=c", 3);
    CHECK(!open_renamed(long_rule) && strstr(latest.text, "expected THEIRS=OURS"));
}

/* === config.json === */

#define ARGS(text)   "{\"model_args\": {" text "}}"
#define OF_VIT(text) "{\"model_type\": \"vit\", " text "}"
#define OPEN_CLIP(vision, images)                                                                  \
    "{\"model_cfg\": {\"vision_cfg\": {" vision "}}, \"preprocess_cfg\": {" images "}}"
#define LONG "abcdefghijklmnopqrstuvwxyz0123" /* a name of 30 letters */
#define TEN  "0,0,0,0,0,0,0,0,0,0,"

typedef struct config_case {
    const char *text;
    /* The text of the expected message, or NULL if the configuration must be accepted. */
    const char *message;
} config_case;

static bool read_config(config_file *config, settings *s, const char *text, bool *foreign) {
    report *r = new_report();
    write_temporary(text, strlen(text));
    settings_start(s, "config.json");
    return config_read(config, s, temporary, foreign, r);
}

static void test_bad_configs(void) {
    static const config_case cases[] = {
        { "{}", NULL },
        { "{\"unknown\": [1, {\"x\": null}], \"pretrained_cfg\": {\"pool_size\": null}}", NULL },
        { "{\"global_pool\": \"token\", \"model_args\": {\"act_layer\": \"nn.GELU\", "
          "\"reg_tokens\": 0, \"init_values\": null, \"drop_rate\": 0.1}}",
          NULL },
        { "[]", "expected a JSON object" },
        { "{\"a\": ", "the text ends where a value is expected" },
        { "", "the text ends where a value is expected" },
        { "{\"architecture\": 3}", "architecture: expected a name, found 3" },
        { "{\"num_classes\": \"ten\"}", "num_classes: expected a whole number, found ten" },
        { "{\"num_classes\": 1.5}", "num_classes: expected a whole number, found 1.5" },
        { "{\"num_classes\": -1}", "num_classes: expected a whole number, found -1" },
        { "{\"num_classes\": 3000000000}", "num_classes: expected a whole number, found 3e+09" },
        { "{\"model_args\": []}", "model_args: expected an object, found a list of 0" },
        { "{\"pretrained_cfg\": 1}", "pretrained_cfg: expected an object, found 1" },
        { "{\"model_args\": {\"depth\": true}}", "model_args.depth: expected a whole number" },
        { "{\"model_args\": {\"qkv_bias\": 1}}", "model_args.qkv_bias: expected true or false" },
        { "{\"model_args\": {\"img_size\": [1, 2, 3]}}", "expected n or [height, width]" },
        { "{\"model_args\": {\"patch_size\": [16, 14]}}", "patches are square" },
        { ARGS("\"img_size\": [224, 1.5]"), "expected n or [height, width]" },
        { ARGS("\"img_size\": [null, 224]"), "expected n or [height, width]" },
        { ARGS("\"img_size\": 0"), "expected n or [height, width], found 0" },
        { ARGS("\"img_size\": [224, 0]"), "expected n or [height, width], found a list of 2" },
        { ARGS("\"patch_size\": 0"), "patch_size: expected one number (patches are square)" },
        { ARGS("\"patch_size\": [1, 2, 3]"), "patches are square), found a list of 3" },
        { ARGS("\"ref_feat_shape\": [16, 14]"), "expected one number, the side of a square" },
        { ARGS("\"representation_size\": true"), "expected true or false, found true" },
        { ARGS("\"pre_norm\": 1"), "model_args.pre_norm: expected true or false, found 1" },
        { ARGS("\"backbone\": {}"), "model_args.backbone: expected null, found an object" },
        { ARGS("\"pos_embed\": 3"), "pos_embed: expected learn or none, found 3" },
        { ARGS("\"act_layer\": false"), "relu, found false" },
        { ARGS("\"act_layer\": \"" LONG LONG LONG "\""), "relu, found " LONG },
        { ARGS("\"mlp_ratio\": -1e300"), "mlp_ratio: expected a number, found -1e+300" },
        { "{\"model_args\": {\"mlp_ratio\": \"4\"}}", "mlp_ratio: expected a number, found 4" },
        { "{\"pretrained_cfg\": {\"mean\": 0.5}}", "pretrained_cfg.mean: expected a list" },
        { "{\"pretrained_cfg\": {\"std\": [\"a\"]}}", "pretrained_cfg.std: expected a list" },
        { "{\"pretrained_cfg\": {\"mean\": [1e300, 0, 0]}}", "mean: expected a list" },
        { "{\"mean\": []}", "mean: expected a list of numbers" },
        { "{\"mean\": [null]}", "mean: expected a list of numbers, found null" },
        { "{\"mean\": [" TEN TEN TEN TEN "0]}", "one for each channel, found a list of 41" },
        { "{\"pretrained_cfg\": {\"input_size\": 3}}", "[channels, height, width], found 3" },
        { "{\"pretrained_cfg\": {\"input_size\": [0.5, 2, 2]}}", "[channels, height, width]" },
        { "{\"pretrained_cfg\": {\"input_size\": [3, 0.5, 2]}}", "[channels, height, width]" },
        { "{\"pretrained_cfg\": {\"input_size\": [3, 2, 0.5]}}", "[channels, height, width]" },
        { "{\"pretrained_cfg\": {\"input_size\": [3, 224, 0]}}", "sizes above 0" },
        { "{\"crop_mode\": 1}", "crop_mode: expected center squash border aspect, found 1" },
        { "{\"pretrained_cfg\": {\"input_size\": [3, 224]}}", "[channels, height, width]" },
        { "{\"pretrained_cfg\": {\"input_size\": [3, 0, 224]}}", "sizes above 0" },
        { "{\"pretrained_cfg\": {\"interpolation\": \"lanczos\"}}",
          "interpolation: expected bilinear bicubic, found lanczos" },
        { "{\"crop_mode\": \"random\"}", "crop_mode: expected center squash border" },
        { "{\"global_pool\": \"prr\"}", "global_pool: expected token avg max avgmax map" },
        { "{\"model_args\": {\"reg_tokens\": 4.5}}", "reg_tokens: expected a whole number" },
        { "{\"model_args\": {\"class_token\": 1}}", "class_token: expected true or false" },
        { "{\"model_args\": {\"pos_embed\": \"rope\"}}", "pos_embed: expected learn or none" },
        { "{\"model_args\": {\"no_embed_class\": 1}}", "no_embed_class: expected true or" },
        { "{\"model_args\": {\"final_norm\": 1}}", "final_norm: expected true or false" },
        { "{\"model_args\": {\"act_layer\": \"nonsense\"}}", "expected gelu gelu_tanh quick_gelu" },
        { "{\"model_args\": {\"norm_layer\": \"batchnorm\"}}", "expected layernorm, rmsnorm" },
        { "{\"model_args\": {\"mlp_layer\": \"glumlp\"}}", "expected mlp, swiglu, swiglupacked" },
        { "{\"model_args\": {\"block_fn\": \"ParallelThingsBlock\"}}", "expected block, respost" },
        { "{\"model_args\": {\"attn_layer\": \"window\"}}", "attn_layer: expected attn, diff" },
        { "{\"model_args\": {\"dynamic_img_size\": 1}}", "dynamic_img_size: expected true or" },
        { "{\"model_args\": {\"dynamic_img_pad\": \"yes\"}}", "dynamic_img_pad: expected true" },
        { "{\"model_type\": \"resnet\"}", "model_type resnet: expected timm's form" },
        { "{\"model_type\": 3}", "model_type ?: expected timm's form" },
        { "{\"model_type\": \"vit\", \"hidden_size\": 192}", NULL },
        { "{\"model_type\": \"vit\", \"hidden_size\": -1}",
          "hidden_size: expected a whole number" },
        { OF_VIT("\"hidden_size\": 1.5"), "hidden_size: expected a whole number" },
        { OF_VIT("\"hidden_size\": 2000000"), "hidden_size: expected a whole number" },
        { OF_VIT("\"num_hidden_layers\": \"a\""), "num_hidden_layers: expected a whole number" },
        { OF_VIT("\"num_attention_heads\": 0"), "num_attention_heads: expected a whole number" },
        { OF_VIT("\"intermediate_size\": true"), "intermediate_size: expected a whole number" },
        { OF_VIT("\"num_register_tokens\": []"), "num_register_tokens: expected a whole number" },
        { OF_VIT("\"num_channels\": {}"), "num_channels: expected a whole number" },
        { OF_VIT("\"image_size\": [1, 2, 3]"), "image_size: expected n or [height, width]" },
        { OF_VIT("\"image_size\": [1, \"a\"]"), "image_size: expected n or [height, width]" },
        { OF_VIT("\"patch_size\": \"a\""), "patch_size: expected one number" },
        { "{\"model_type\": \"vit\", \"hidden_act\": \"nonsense\"}",
          "hidden_act nonsense: this version" },
        { "{\"model_type\": \"vit\", \"hidden_act\": 1}", "hidden_act: expected a name" },
        { "{\"model_type\": \"vit\", \"patch_size\": [16, 8]}", "patches are square" },
        { "{\"model_type\": \"vit\", \"image_size\": \"big\"}", "image_size: expected n or" },
        { "{\"model_type\": \"vit\", \"id2label\": {\"0\": \"a\", \"2\": \"c\"}}",
          "id2label: expected the classes 0 to 1" },
        { "{\"model_type\": \"vit\", \"id2label\": {\"0\": \"a\", \"0\": \"c\"}}",
          "id2label: expected the classes 0 to 1" },
        { OF_VIT("\"id2label\": {\"0\": \"a\", \"one\": \"c\"}"), "expected the classes 0 to 1" },
        { OPEN_CLIP("\"width\": \"a\"", ""), "width: expected a whole number" },
        { OPEN_CLIP("\"width\": 0", ""), "width: expected a whole number" },
        { OPEN_CLIP("\"width\": 2000000", ""), "width: expected a whole number" },
        { OPEN_CLIP("\"head_width\": 1.5", ""), "head_width: expected a whole number" },
        { OPEN_CLIP("\"layers\": [2]", ""), "layers: expected a whole number" },
        { OPEN_CLIP("\"patch_size\": -1", ""), "patch_size: expected a whole number" },
        { OPEN_CLIP("\"image_size\": \"a\"", ""), "image_size: expected n or [height, width]" },
        { OPEN_CLIP("\"image_size\": [224]", ""), "image_size: expected n or [height, width]" },
        { OPEN_CLIP("\"image_size\": [0, 1]", ""), "image_size: expected n or [height, width]" },
        { OPEN_CLIP("\"pool_type\": \"avg\"", ""),
          "pool_type avg: this version of vit.h supports only tok" },
        { OPEN_CLIP("", "\"mean\": 3"), "mean: expected a list of numbers" },
        { OPEN_CLIP("", "\"mean\": []"), "mean: expected a list of numbers" },
        { OPEN_CLIP("", "\"std\": [" TEN TEN TEN TEN "0]"), "std: expected a list of numbers" },
        { OPEN_CLIP("", "\"std\": [1, \"a\"]"), "std: expected a list of numbers" },
        { OPEN_CLIP("", "\"resize_mode\": \"x\""), "resize_mode x: expected shortest, squash or" },
        { OPEN_CLIP("", "\"interpolation\": \"box\""), "interpolation box: this version of vit.h" },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        config_file config;
        settings s;
        bool good = read_config(&config, &s, cases[i].text, NULL);
        CHECK_MSG(good == !cases[i].message, "%s: %s", cases[i].text, latest.text);
        if (cases[i].message)
            CHECK_MSG(strstr(latest.text, cases[i].message) != NULL, "%s: %s", cases[i].text,
                      latest.text);
        if (good) config_free(&config);
    }
}

static void test_large_config(void) {
    config_file config;
    settings s;
    report *r = new_report();
    settings_start(&s, "config.json");
    CHECK(truncate(temporary, 64 * 1024 * 1024 + 1) == 0);
    CHECK(!config_read(&config, &s, temporary, NULL, r));
    CHECK_MSG(strstr(latest.text, "too large for a configuration") != NULL, "%s", latest.text);
    r = new_report();
    CHECK(!config_read(&config, &s, "/nowhere", NULL, r) && r->failed);
}

/* Tests the value of a setting that comes from a single entry of a configuration. */
static void test_config_entries(void) {
    static const struct {
        const char *text;
        setting_key key;
        /* The expected value, or -1 if the entry must give no value. */
        double value;
    } cases[] = {
        { ARGS("\"use_post_norm\": true"), SETTING_BLOCK_TYPE, VIT_BLOCK_RES_POST_NORM },
        { ARGS("\"use_post_norm\": false"), SETTING_BLOCK_TYPE, -1 },
        { ARGS("\"swiglu_mlp\": true"), SETTING_GATED_MLP, 1 },
        { ARGS("\"swiglu_mlp\": true"), SETTING_ACTIVATION, VIT_SILU },
        { ARGS("\"swiglu_mlp\": false"), SETTING_GATED_MLP, 0 },
        { ARGS("\"swiglu_mlp\": false"), SETTING_ACTIVATION, -1 },
        { ARGS("\"act_layer\": \"nn.GELU_Tanh\""), SETTING_ACTIVATION, VIT_GELU_TANH },
        { ARGS("\"use_rot_pos_emb\": false"), SETTING_ROPE_TYPE, ROPE_NONE },
        { ARGS("\"use_rot_pos_emb\": true"), SETTING_ROPE_TYPE, -1 },
        { ARGS("\"use_shared_rel_pos_bias\": true"), SETTING_REL_POS, 1 },
        { ARGS("\"use_shared_rel_pos_bias\": false"), SETTING_REL_POS, -1 },
        { ARGS("\"init_values\": false"), SETTING_LAYER_SCALE, 0 },
        { ARGS("\"init_values\": 1e-5"), SETTING_LAYER_SCALE, 1 },
        { ARGS("\"use_abs_pos_emb\": false"), SETTING_POSITIONS, VIT_POS_NONE },
        { ARGS("\"use_abs_pos_emb\": true"), SETTING_POSITIONS, -1 },
        { ARGS("\"pos_embed\": \"\""), SETTING_POSITIONS, VIT_POS_NONE },
        { ARGS("\"pos_embed\": \"learn\""), SETTING_POSITIONS, -1 },
        { ARGS("\"pos_embed\": \"none\", \"no_embed_class\": true"), SETTING_POSITIONS,
          VIT_POS_NONE },
        { ARGS("\"no_embed_class\": true"), SETTING_POSITIONS, VIT_POS_PATCHES },
        { ARGS("\"no_embed_class\": false"), SETTING_POSITIONS, VIT_POS_ALL },
        { ARGS("\"final_norm\": true"), SETTING_FINAL_NORM, -1 },
        { ARGS("\"final_norm\": false"), SETTING_FC_NORM, 0 },
        { ARGS("\"pre_norm\": false"), SETTING_PATCH_BIAS, 1 },
        { ARGS("\"representation_size\": 768"), SETTING_REPRESENTATION_DIM, 768 },
        { ARGS("\"img_size\": [32, 64]"), SETTING_IMG_WIDTH, 64 },
        { ARGS("\"backbone\": null"), SETTING_PATCH_SIZE, -1 },
        { "{\"model_args\": null, \"architecture\": null}", SETTING_DEPTH, -1 },
        { "{\"model_type\": \"vit\", \"architecture\": \"x\"}", SETTING_NUM_HEADS, -1 },
        { OF_VIT("\"hidden_size\": null"), SETTING_EMBED_DIM, -1 },
        { OF_VIT("\"hidden_act\": null"), SETTING_ACTIVATION, VIT_GELU },
        { OF_VIT("\"layer_norm_eps\": 0.5"), SETTING_NORM_EPS, 0.5 },
        { OF_VIT("\"rms_norm_eps\": 0.25"), SETTING_NORM_EPS, 0.25 },
        { OF_VIT("\"rope_theta\": 7"), SETTING_ROPE_TEMPERATURE, 7 },
        { OF_VIT("\"qkv_bias\": true"), SETTING_QKV_BIAS, 1 },
        { OF_VIT("\"qkv_bias\": false"), SETTING_QKV_BIAS, 0 },
        { OF_VIT("\"qkv_bias\": null"), SETTING_QKV_BIAS, -1 },
        { OF_VIT("\"image_size\": [32, 64]"), SETTING_IMG_WIDTH, 64 },
        { OF_VIT("\"vision_config\": 1, \"hidden_size\": 8"), SETTING_EMBED_DIM, 8 },
        { OF_VIT("\"vision_config\": {\"hidden_size\": 8}"), SETTING_EMBED_DIM, 8 },
        { OF_VIT("\"id2label\": {}"), SETTING_NUM_CLASSES, -1 },
        { "{\"model_cfg\": {}}", SETTING_HEAD_DIM, -1 },
        { OPEN_CLIP("", ""), SETTING_HEAD_DIM, 64 },
        { OPEN_CLIP("\"head_width\": 80", ""), SETTING_HEAD_DIM, 80 },
        { OPEN_CLIP("\"width\": null", ""), SETTING_EMBED_DIM, -1 },
        { OPEN_CLIP("\"image_size\": null", ""), SETTING_IMG_WIDTH, -1 },
        { OPEN_CLIP("\"image_size\": [32, 64]", ""), SETTING_IMG_WIDTH, 64 },
        { OPEN_CLIP("\"image_size\": 32", ""), SETTING_IMG_WIDTH, 32 },
        { OPEN_CLIP("\"mlp_ratio\": 3.5", ""), SETTING_MLP_RATIO, 3.5 },
        { OPEN_CLIP("\"norm_kwargs\": {\"eps\": 0.5}", ""), SETTING_NORM_EPS, 0.5 },
        { OPEN_CLIP("", "\"resize_mode\": \"longest\""), SETTING_CROP_MODE, VIT_CROP_BORDER },
        { OPEN_CLIP("", "\"interpolation\": \"bilinear\""), SETTING_INTERPOLATION, VIT_BILINEAR },
        { OPEN_CLIP("", "\"mean\": null"), SETTING_INTERPOLATION, VIT_BICUBIC },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        config_file config;
        settings s;
        const bool good = read_config(&config, &s, cases[i].text, NULL);
        CHECK_MSG(good, "%s: %s", cases[i].text, latest.text);
        if (!good) continue;
        CHECK_MSG((s.given[cases[i].key] ? s.value[cases[i].key] : -1) == cases[i].value, "%s: %g",
                  cases[i].text, s.value[cases[i].key]);
        config_free(&config);
    }
}

/* Tests each activation in files of timm and of transformers. The files contain the word for the
 * activation, or one of its names in other libraries. */
static void test_config_activations(void) {
    static const struct {
        const char *theirs;
        vit_activation activation;
    } names[] = {
        { "nn.GELU", VIT_GELU },        { "GELUTanh", VIT_GELU_TANH },
        { "gelu_fast", VIT_GELU_TANH }, { "QuickGELU", VIT_QUICK_GELU },
        { "Swish", VIT_SILU },          { "ReLU", VIT_RELU },
    };
    int i, count = (int)COUNT(names) + VIT_NUM_ACTIVATIONS;
    for (i = 0; i < 2 * count; i++) {
        const int at = i / 2 - VIT_NUM_ACTIVATIONS;
        const char *name = at < 0 ? setting_rows[SETTING_ACTIVATION].words[i / 2].word
                                  : names[at].theirs;
        const double wanted = at < 0 ? i / 2 : (int)names[at].activation;
        config_file config;
        settings s;
        char text[120];
        bool good;
        snprintf(text, sizeof text,
                 i % 2 ? "{\"model_args\": {\"act_layer\": \"%s\"}}"
                       : "{\"model_type\": \"vit\", \"hidden_act\": \"%s\"}",
                 name);
        good = read_config(&config, &s, text, NULL);
        CHECK_MSG(good && s.value[SETTING_ACTIVATION] == wanted, "%s: %s", text,
                  good ? "another" : latest.text);
        if (good) config_free(&config);
    }
}

static void test_config_names(void) {
    static const struct {
        const char *text, *name;
    } cases[] = {
        { "{\"architecture\": \"a\", \"tag\": \"t\"}", "a.t" },
        { "{\"architecture\": \"a.b\", \"tag\": \"t\"}", "a.b" },
        { "{\"architecture\": \"a\", \"tag\": \"\"}", "a" },
        { "{\"pretrained_cfg\": {\"architecture\": \"a\"}}", "a" },
        { OPEN_CLIP("\"timm_model_name\": \"a\"", ""), "a" },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        config_file config;
        settings s;
        const bool good = read_config(&config, &s, cases[i].text, NULL);
        CHECK_MSG(good && !strcmp(config.architecture, cases[i].name), "%s: %s", cases[i].text,
                  good ? config.architecture : latest.text);
        if (good) config_free(&config);
    }
}

static void test_config_values(void) {
    config_file config;
    settings s;
    label_list labels;
    bool foreign = false, good;
    report *r = new_report();
    good = read_config(&config, &s,
                       "{\"architecture\": \"vit_base_patch16_224\", \"num_classes\": 2, "
                       "\"crop_pct\": 0.8, \"label_names\": [\"n01440764\", \"n01443537\"], "
                       "\"label_descriptions\": {\"n01440764\": \"tench\"}, \"pretrained_cfg\": "
                       "{\"tag\": \"dino\", \"num_classes\": 1000, \"crop_pct\": 0.875, "
                       "\"crop_mode\": \"squash\", \"mean\": [0.1, 0.2, 0.3]}, \"model_args\": "
                       "{\"img_size\": [64, 32], \"representation_size\": false, "
                       "\"mlp_ratio\": 3, \"qk_scale\": null}}",
                       &foreign);
    CHECK_MSG(good, "%s", latest.text);
    if (!good) return;
    CHECK(!foreign && !strcmp(config.architecture, "vit_base_patch16_224.dino"));
    CHECK(s.value[SETTING_NUM_CLASSES] == 2);
    CHECK(s.value[SETTING_CROP_PCT] == 0.875);
    CHECK(s.value[SETTING_CROP_MODE] == VIT_CROP_SQUASH);
    CHECK(s.value[SETTING_IMG_HEIGHT] == 64 && s.value[SETTING_IMG_WIDTH] == 32);
    CHECK(s.given[SETTING_REPRESENTATION_DIM] && s.value[SETTING_REPRESENTATION_DIM] == 0);
    CHECK(!s.given[SETTING_ATTN_SCALE] && !s.given[SETTING_INTERPOLATION]);
    CHECK(s.mean_count == 3 && s.mean[2] == 0.3 && s.std_count == 0);
    CHECK(labels_from_json(&labels, config.label_names, config.label_descriptions, r));
    CHECK(labels.count == 2 && !strcmp(labels.labels[0], "tench"));
    CHECK(!strcmp(labels.labels[1], "n01443537") && !strcmp(labels.synsets[1], "n01443537"));
    labels_free(&labels);
    config_free(&config);
    CHECK(read_config(&config, &s, "{\"model_type\": \"resnet\"}", &foreign) && foreign);
    config_free(&config);
}

/* Tests the form that configurations had before timm 0.9. The members of pretrained_cfg were at the
 * top level, and the labels had another name. */
static void test_config_old(void) {
    config_file config;
    settings s;
    label_list labels;
    report *r = new_report();
    bool good = read_config(&config, &s,
                            "{\"architecture\": \"vit_base_patch16_224\", \"tag\": \"mae\", "
                            "\"num_classes\": 2, \"num_features\": 768, \"crop_pct\": 0.95, "
                            "\"std\": [0.1, 0.2, 0.3], \"labels\": [\"cat\", \"dog\"]}",
                            NULL);
    CHECK_MSG(good, "%s", latest.text);
    if (!good) return;
    CHECK(!strcmp(config.architecture, "vit_base_patch16_224.mae"));
    CHECK(s.value[SETTING_NUM_CLASSES] == 2 && s.value[SETTING_CROP_PCT] == 0.95);
    CHECK(s.std_count == 3 && s.std[0] == 0.1);
    CHECK(labels_from_json(&labels, config.label_names, config.label_descriptions, r));
    CHECK(labels.count == 2 && !strcmp(labels.labels[1], "dog"));
    labels_free(&labels);
    config_free(&config);
}

static void test_config_pre_norm(void) {
    config_file config;
    settings s;
    bool good = read_config(&config, &s, "{\"model_args\": {\"pre_norm\": true}}", NULL);
    CHECK_MSG(good && s.value[SETTING_PRE_NORM] == 1 && s.given[SETTING_PATCH_BIAS] &&
                  s.value[SETTING_PATCH_BIAS] == 0,
              "%s", latest.text);
    if (good) config_free(&config);
}

static void check_json_labels(const char *text, bool good, const char *label, const char *synset) {
    config_file config;
    settings s;
    label_list labels;
    report *r;
    CHECK_MSG(read_config(&config, &s, text, NULL), "%s: %s", text, latest.text);
    r = new_report();
    CHECK_MSG(labels_from_json(&labels, config.label_names, config.label_descriptions, r) == good,
              "%s: %s", text, latest.text);
    if (!good) CHECK_MSG(strstr(latest.text, label) != NULL, "%s: %s", text, latest.text);
    if (good && label) CHECK(!strcmp(labels.labels[0], label));
    if (good && label && synset) CHECK(labels.synsets && !strcmp(labels.synsets[0], synset));
    if (good && !synset) CHECK(!labels.synsets);
    if (good) labels_free(&labels);
    config_free(&config);
}

static void test_json_labels(void) {
    check_json_labels(OF_VIT("\"id2label\": {\"1\": \"b\", \"0\": \"a\"}"), true, "a", NULL);
    check_json_labels(OF_VIT("\"id2label\": {\"0\": \"LABEL_0\"}"), true, NULL, NULL);
    check_json_labels("{}", true, NULL, NULL);
    check_json_labels("{\"label_names\": [\"cat\", \"dog\"]}", true, "cat", NULL);
    check_json_labels("{\"label_names\": [\"n01440764\"]}", true, "n01440764", "n01440764");
    check_json_labels("{\"label_names\": [\"a\"], \"label_descriptions\": [\"ape\\n!\"]}", true,
                      "ape !", "a");
    check_json_labels("{\"label_names\": null}", true, NULL, NULL);
    check_json_labels("{\"label_names\": []}", true, NULL, NULL);
    check_json_labels("{\"label_names\": [\"a\"], \"label_descriptions\": null}", true, "a", NULL);
    check_json_labels("{\"label_names\": [\"a\"], \"label_descriptions\": {\"a\": \"\"}}", true,
                      "a", "a");
    check_json_labels("{\"label_names\": [\"\"]}", false, "label_names[0]: expected a name", NULL);
    check_json_labels("{\"label_names\": \"cat\"}", false, "label_names: expected a list", NULL);
    check_json_labels("{\"label_names\": [1]}", false, "label_names[0]: expected a name", NULL);
    check_json_labels("{\"label_names\": [\"a\"], \"label_descriptions\": [\"b\", \"c\"]}", false,
                      "label_descriptions has 2 entries, label_names 1", NULL);
    check_json_labels("{\"label_names\": [\"a\"], \"label_descriptions\": 1}", false,
                      "label_descriptions: expected", NULL);
}

/* === Settings === */

static void check_setting(const char *text, setting_key key, double value) {
    settings s;
    report *r = new_report();
    settings_start(&s, "--set");
    CHECK_MSG(settings_parse(&s, text, r), "%s: %s", text, latest.text);
    CHECK_MSG(s.given[key] && s.value[key] == value, "%s: %g", text, s.value[key]);
}

static void check_bad_setting(const char *text, const char *message) {
    settings s;
    report *r = new_report();
    settings_start(&s, "--set");
    CHECK_MSG(!settings_parse(&s, text, r), "%s", text);
    CHECK_MSG(strstr(latest.text, message) != NULL, "%s: %s", text, latest.text);
}

static void test_settings(void) {
    settings s;
    report *r = new_report();
    check_setting("num_heads=3", SETTING_NUM_HEADS, 3);
    check_setting("eps=1e-5", SETTING_NORM_EPS, 1e-5);
    check_setting("qkv_bias=false", SETTING_QKV_BIAS, 0);
    check_setting("crop_mode=border", SETTING_CROP_MODE, VIT_CROP_BORDER);
    check_setting("interpolation=bilinear", SETTING_INTERPOLATION, VIT_BILINEAR);
    check_setting("interpolation=bicubic", SETTING_INTERPOLATION, VIT_BICUBIC);
    check_setting("img_size=24x36", SETTING_IMG_WIDTH, 36);
    check_setting("qkv_bias=1", SETTING_QKV_BIAS, 1);
    check_setting("qkv_bias=0", SETTING_QKV_BIAS, 0);
    check_setting("qkv_bias=true", SETTING_QKV_BIAS, 1);
    check_setting("pool=cls", SETTING_POOL, VIT_POOL_TOKEN);
    check_setting("pool=Mean", SETTING_POOL, VIT_POOL_AVG);
    check_setting("pool=AVGMAX", SETTING_POOL, VIT_POOL_AVGMAX);
    check_setting("activation=GELU", SETTING_ACTIVATION, VIT_GELU);
    check_setting("Num-Heads=3", SETTING_NUM_HEADS, 3);
    check_bad_setting("num_head=3", "there is no setting \"num_head\"; nearest: num_heads");
    check_setting("activation=nn.ReLU", SETTING_ACTIVATION, VIT_RELU);
    check_setting("activation=swish", SETTING_ACTIVATION, VIT_SILU);
    check_setting("block_type=pre-norm", SETTING_BLOCK_TYPE, VIT_BLOCK_PRE_NORM);
    check_setting("block_type=Post", SETTING_BLOCK_TYPE, VIT_BLOCK_POST_NORM);
    check_bad_setting("activation=cls", "expected one of gelu");
    check_bad_setting("activation=", "expected one of gelu");
    check_bad_setting("activation=" LONG LONG, "expected one of gelu");
    check_bad_setting("mean=" LONG LONG LONG, "expected numbers between commas");
    check_bad_setting("std=" TEN TEN TEN "0,0,0", "more than 32 values");
    check_bad_setting("mean=1,1" LONG ",1", "expected numbers between commas");
    check_bad_setting(LONG LONG LONG "=3", "expected KEY=VALUE");
    check_bad_setting("num_heads", "expected KEY=VALUE");
    check_bad_setting("=3", "expected KEY=VALUE");
    check_bad_setting("num_heads=", "expected a whole number");
    check_bad_setting("num_heads=3.5", "expected a whole number");
    check_bad_setting("num_heads=-3", "expected a whole number");
    check_bad_setting("num_heads=3x", "expected a whole number");
    check_bad_setting("norm_eps=nan", "expected a number");
    check_bad_setting("norm_eps=1e999", "expected a number");
    check_bad_setting("qkv_bias=yes", "expected 0 or 1");
    check_bad_setting("crop_mode=centre", "expected one of center squash border");
    check_bad_setting("interpolation=bi", "expected one of bilinear bicubic");
    check_bad_setting("img_size=24x", "expected N or HxW");
    check_bad_setting("img_size=0", "expected N or HxW");
    check_bad_setting("mean=0.5,,0.5", "expected numbers between commas");
    check_bad_setting("std=", "expected numbers between commas");
    check_bad_setting("heads_of_state=1", "there is no setting \"heads_of_state\"");
    settings_start(&s, "--set");
    CHECK(settings_parse(&s, "mean=0.1,0.2,0.25", r) && s.mean_count == 3 && s.mean[2] == 0.25);
    CHECK(settings_parse(&s, "std=2", r) && s.std_count == 1 && s.std[0] == 2);
}

/* Sets the facts that the tensors of a model show: a width of 192, two blocks, and a grid of 14 x
 * 14. */
static void plain_settings(settings all[FROM_COUNT], settings_seen *seen) {
    int from;
    for (from = 0; from < FROM_COUNT; from++) settings_start(&all[from], "here");
    memset(seen, 0, sizeof *seen);
    seen->position_rows = 197;
    settings_put(&all[FROM_TENSORS], SETTING_NORM_TYPE, VIT_LAYER_NORM);
    seen->qkv_rows = 576;
    settings_put(&all[FROM_TENSORS], SETTING_IN_CHANS, 3);
    settings_put(&all[FROM_TENSORS], SETTING_PATCH_SIZE, 16);
    settings_put(&all[FROM_TENSORS], SETTING_EMBED_DIM, 192);
    settings_put(&all[FROM_TENSORS], SETTING_DEPTH, 2);
    settings_put(&all[FROM_TENSORS], SETTING_MLP_DIM, 768);
    settings_put(&all[FROM_TENSORS], SETTING_NUM_CLASSES, 10);
}

static int field_of(const vit_config *c, const char *name) {
#define X(type, field, kind, smallest, largest)                                                    \
    if (!strncmp(name, #field "=", sizeof #field)) return (int)c->field;
    VIT_FIELD_LIST(X)
#undef X
    return -1;
}

static bool put_words(settings *s, const char *words, report *r) {
    char word[96];
    for (; *words; words += strcspn(words, " "), words += *words == ' ') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
        if (!settings_parse(s, word, r)) return false;
    }
    return true;
}

static const patch_request as_stored = { 0, 0 };

typedef struct resolve_case {
    /* Each of the four texts contains settings, with spaces between them. */
    const char *tensors, *name, *config, *options;
    /* The numbers of rows of pos_embed and of attn.rel_pos. */
    int rows, relative;
    int64_t qkv_rows, patch_depth;
    /* The expected result: a setting such as "field=7", or the message of the refusal. */
    const char *expected;
} resolve_case;

static void check_resolved(const resolve_case *t) {
    settings all[FROM_COUNT];
    settings_seen seen;
    settings_resolved model;
    report *r = new_report();
    bool good;
    plain_settings(all, &seen);
    seen.position_rows = t->rows;
    seen.relative_positions = t->relative;
    seen.qkv_rows = t->qkv_rows;
    seen.patch_depth = t->patch_depth;
    CHECK_MSG(put_words(&all[FROM_TENSORS], t->tensors, r) &&
                  put_words(&all[FROM_NAME], t->name, r) &&
                  put_words(&all[FROM_CONFIG], t->config, r) &&
                  put_words(&all[FROM_OPTIONS], t->options, r),
              "%s", latest.text);
    good = settings_resolve_all(all, &seen, &as_stored, &model, r);
    if (good)
        CHECK_MSG(field_of(&model.config, t->expected) == atoi(strchr(t->expected, '=') + 1),
                  "expected %s, found %d", t->expected, field_of(&model.config, t->expected));
    else
        CHECK_MSG(strstr(latest.text, t->expected) != NULL, "expected %s, found %s", t->expected,
                  latest.text);
}

static void test_resolve(void) {
    static const resolve_case cases[] = {
        { "", "", "", "", 197, 0, 576, 0, "img_width=224" },
        { "", "", "", "mlp_ratio=1e30", 197, 0, 576, 0, "mlp_dim 1.92e+32 is out of range" },
        { "", "", "", "mlp_ratio=-1", 197, 0, 576, 0, "mlp_dim -192 is out of range" },
        { "", "", "", "mlp_ratio=2 mlp_dim=9", 197, 0, 576, 0, "mlp_dim=9" },
        { "", "", "", "head_dim=32", 197, 0, 576, 0, "num_heads=6" },
        { "", "", "", "head_dim=100", 197, 0, 576, 0, "num_heads 3 x head_dim 100 is" },
        { "", "", "", "", 197, 0, 300, 0, "num_heads: cannot be seen in the tensors" },
        { "", "", "", "num_heads=3 head_dim=7", 197, 0, 576, 0, "num_heads 3 x head_dim 7 is not" },
        { "", "", "", "num_heads=5", 197, 0, 576, 0, "num_heads 5 does not divide" },
        { "has_diff_attn=1", "", "", "num_heads=192", 197, 0, 576, 0, "head_dim" },
        { "", "", "", "in_chans=0", 197, 0, 576, 768, "is not a square of pixels with 0 channels" },
        { "", "", "", "patch_size=16", 197, 0, 576, 768, "in_chans=3" },
        { "", "", "", "patch_size=0", 197, 0, 576, 0,
          "patch_size: nothing shows it; give --set patch_size=N" },
        { "", "", "", "patch_size=2000000000", 197, 0, 576, 0, "img_height 2.8e+10 is out of" },
        { "", "", "", "patch_stride=8", 197, 0, 576, 0, "img_width=120" },
        { "", "", "", "patch_stride=16", 197, 0, 576, 0, "patch_stride=0" },
        { "", "", "", "patch_stride=8 img_size=224", 197, 0, 576, 0, "img_width=224" },
        { "", "", "img_size=120", "patch_stride=8", 197, 0, 576, 0, "patch_stride=8" },
        { "", "", "img_size=96", "patch_stride=8", 197, 0, 576, 0,
          "has img_size 96x96, but the tensors have 120x120" },
        { "", "", "", "patch_stride=8", 19, 0, 576, 0, "(24x80, 32x56, 56x32, 80x24)" },
        { "", "", "", "patch_stride=8 img_size=33x56", 19, 0, 576, 0, "img_height=33" },
        { "", "", "", "patch_stride=8 pos_first_rows=1 img_size=32", 197, 0, 576, 0,
          "img_width=32" },
        { "has_rel_pos=1", "", "", "patch_stride=8", 0, 12, 576, 0, "img_width=24" },
        { "", "", "", "patch_stride=8 img_size=8 positions=none", 0, 0, 576, 0,
          "patch_size is larger than the image" },
        { "", "", "", "patch_stride=1025", 197, 0, 576, 0, "patch_stride 1025 is out of range" },
        { "stem=conv stem_width=8", "", "", "patch_stride=8", 197, 0, 576, 0,
          "patch_stride excludes patch_cut, stem and dynamic_img_pad" },
        { "stem=resnet stem_stage1=1", "", "", "", 197, 0, 576, 0, "stem and stem_width need" },
        { "stem=resnet stem_stage1=1 stem_stage2=1", "", "", "patch_size=12", 197, 0, 576, 0,
          "patch_size 12 is not a multiple of the stem's stride, 8" },
        { "", "", "", "img_height=160", 197, 0, 576, 0, "img_height=160" },
        { "", "", "", "img_height=160", 197, 0, 576, 0, "img_width=224" },
        { "", "", "img_size=224", "", 197, 0, 576, 0, "img_width=224" },
        { "", "", "img_size=96", "", 197, 0, 576, 0,
          "has img_size 96x96, but the tensors have 224" },
        { "", "", "img_size=96", "img_size=48", 197, 0, 576, 0, "img_width=48" },
        { "", "", "img_size=96", "", 24, 0, 576, 0, "but pos_embed has 24 rows and a patch is 16" },
        { "", "", "", "img_size=16", 24, 0, 576, 0,
          "the 2 tokens of the input may use the first rows" },
        { "", "", "", "img_size=999999", 24, 0, 576, 0,
          "pos_embed has 24 rows for 1 prefix token " },
        { "num_reg_tokens=2", "", "", "img_size=96x64", 27, 0, 576, 0, "img_width=64" },
        { "num_reg_tokens=2", "", "", "img_size=128", 24, 0, 576, 0,
          "for 3 prefix tokens and the" },
        { "num_reg_tokens=2", "", "", "", 4, 0, 576, 0, "may be those of all tokens or of the" },
        { "num_reg_tokens=2", "", "", "positions=all", 4, 0, 576, 0, "img_width=16" },
        { "num_reg_tokens=2", "", "", "positions=patches", 4, 0, 576, 0, "img_width=32" },
        { "", "", "", "positions=all", 196, 0, 576, 0,
          "pos_embed has 196 rows for 1 prefix token" },
        { "", "", "", "positions=none", 197, 0, 576, 0,
          "the 197 rows of pos_embed show positions=all" },
        { "has_cls_token=0", "", "", "positions=patches pool=avg activation=gelu", 196, 0, 576, 0,
          "positions=0" },
        { "has_cls_token=0", "", "", "positions=none pool=avg activation=gelu", 196, 0, 576, 0,
          "gives positions=none, but the 196 rows of pos_embed show positions=all" },
        { "", "", "", "pos_first_rows=1", 197, 0, 576, 0,
          "img_size: the input size decides how many rows" },
        { "", "", "", "pos_first_rows=1 img_height=32", 197, 0, 576, 0,
          "img_size: the input size decides how many" },
        { "", "", "", "pos_first_rows=1 img_size=32", 197, 0, 576, 0, "img_width=32" },
        { "", "", "", "pos_first_rows=1 positions=patches img_size=224", 196, 0, 576, 0,
          "positions=1" },
        { "", "", "", "pos_first_rows=1 img_size=240", 197, 0, 576, 0, "of 240x240 needs 226" },
        { "", "", "", "", 0, 0, 576, 0, "there is no pos_embed to show the input size" },
        { "", "", "", "img_height=32", 0, 0, 576, 0, "there is no pos_embed to show the input" },
        { "", "", "", "img_size=32", 0, 0, 576, 0,
          "nor other computed positions; give --set rope_type" },
        { "", "", "", "img_size=32 positions=none", 0, 0, 576, 0, "img_width=32" },
        { "", "", "", "img_size=32 positions=all", 0, 0, 576, 0,
          "gives positions=all, but the 0 rows of pos_embed" },
        { "", "", "", "img_size=32 pos_sincos=mae", 0, 0, 576, 0, "positions=0" },
        { "", "", "", "img_size=32 pos_sincos=1d positions=patches", 0, 0, 576, 0, "positions=1" },
        { "", "", "", "img_size=32 pos_sincos=mae embed_dim=18 num_heads=2", 0, 0, 54, 0,
          "expected an embed_dim that is a multiple of 4 and at least 8, found 18" },
        { "", "", "", "img_size=32 pos_sincos=1d embed_dim=4 num_heads=2", 0, 0, 12, 0,
          "positions=0" },
        { "", "", "", "img_size=32 pos_sincos=1d_halves embed_dim=9 num_heads=3", 0, 0, 27, 0,
          "expected an embed_dim that is even, found 9" },
        { "", "", "", "pos_sincos=mae", 197, 0, 576, 0,
          "but the file has pos_embed with 197 rows" },
        { "", "", "", "img_size=32 rope_type=cat", 0, 0, 576, 0, "rope=2" },
        { "", "", "", "rope_type=cat head_dim=6 num_heads=32", 197, 0, 576, 0,
          "head_dim 6: rotary positions need a multiple of 4" },
        { "", "", "", "rope_type=cat rope_temperature=0", 197, 0, 576, 0, "is not above 0" },
        { "", "", "", "rope_type=cat dynamic_img_size=1", 197, 0, 576, 0, "dynamic_img_size=1" },
        { "has_rel_pos=1", "", "", "dynamic_img_size=1", 197, 732, 576, 0, "dynamic_img_size=1" },
        { "has_rel_pos=1", "", "", "dynamic_img_size=1 pos_resample=dino", 197, 732, 576, 0,
          "relative positions can be resampled only as in timm or transformers" },
        { "", "", "dynamic_img_size=1", "rope_type=cat", 197, 0, 576, 0, "dynamic_img_size=1" },
        { "has_rel_pos=1", "", "", "", 0, 12, 576, 0, "img_width=32" },
        { "has_rel_pos=1", "", "", "", 0, 7, 576, 0, "the 7 relative positions are not those of" },
        { "has_rel_pos=1", "", "", "", 0, 18, 576, 0,
          "the 18 relative positions are not those of" },
        { "has_rel_pos=1", "", "", "img_size=48x32", 0, 18, 576, 0, "img_height=48" },
        { "has_rel_pos=1", "", "", "img_size=64x32", 0, 18, 576, 0, "are not those of a square" },
        { "has_rel_pos=1", "", "img_size=48", "", 0, 12, 576, 0, "--img-size HxW sets the size" },
        { "has_rel_pos=1", "", "img_size=48", "img_size=32", 0, 12, 576, 0, "img_width=32" },
        { "has_rel_pos=1", "", "img_size=48x32", "", 0, 18, 576, 0, "img_height=48" },
        { "has_rel_pos=1", "", "", "patch_size=2000000000", 0, 12, 576, 0, "is out of range" },
        { "", "", "", "patch_size=2000000000 img_height=32", 197, 0, 576, 0,
          "img_width 2.8e+10 is out of range" },
        { "has_rel_pos=1", "", "", "img_size=64 pos_resample=jax", 0, 12, 576, 0,
          "pos_resample=jax: relative positions can be resampled only as in timm or transformers" },
        { "", "", "", "mean=1,2", 197, 0, 576, 0, "gives 2 values of mean for in_chans 3" },
        { "in_chans=1", "mean=1,2,3", "", "", 197, 0, 576, 0, "gives 3 values of mean for" },
        { "in_chans=1", "mean=1,1,1", "", "", 197, 0, 576, 0, "in_chans=1" },
        { "in_chans=1", "", "mean=1,1,1", "", 197, 0, 576, 0, "here gives 3 values of mean for" },
        { "", "", "", "std=1,0,1", 197, 0, 576, 0, "std 0 is not above 0" },
        { "", "", "", "crop_pct=5", 197, 0, 576, 0, "crop_pct 5 is not in (0, 4]" },
        { "", "", "", "crop_pct=1e-9", 197, 0, 576, 0, "resize_height 2.24e+11 is out of range" },
        { "", "", "", "crop_pct=1e-9 resize_height=8", 197, 0, 576, 0,
          "resize_width 2.24e+11 is out of range" },
        { "", "", "", "dynamic_img_size=1 resize_width=300", 197, 0, 576, 0, "crop_pct=0" },
        { "", "", "", "dynamic_img_size=1 crop_pct=1", 197, 0, 576, 0, "crop_pct=1" },
        { "", "", "", "dynamic_img_size=1 crop_pct=1.00000049", 197, 0, 576, 0, "crop_pct=0" },
        { "has_mlp_norm=1", "", "", "", 197, 0, 576, 0, "norm_eps: cannot be seen" },
        { "has_attn_norm=1", "", "", "", 197, 0, 576, 0, "norm_eps: cannot be seen" },
        { "has_pre_norm=1", "", "", "", 197, 0, 576, 0, "norm_eps: cannot be seen" },
        { "", "", "", "pool=map", 197, 0, 576, 0, "activation: cannot be seen" },
        { "has_gated_mlp=1", "", "", "", 197, 0, 576, 0, "a gated MLP, whose activation" },
        { "has_fc_norm=1", "pool=token", "", "", 197, 0, 576, 0,
          "here has no norm after the pool, but "
          "the tensors have one: the head was changed" },
        { "has_fc_norm=0", "pool=avg has_fc_norm=1", "", "", 197, 0, 576, 0,
          "here has a norm after "
          "the pool, but the tensors have none: the head was changed" },
        { "has_fc_norm=1", "", "", "", 197, 0, 576, 0, "fc_norm exists, so the head may read" },
        { "has_cls_token=0", "", "", "", 196, 0, 576, 0,
          "there is no class token, and the tensors" },
        { "has_cls_token=0", "", "", "pool=token", 196, 0, 576, 0,
          "pool=token reads the class token" },
        { "in_chans=33", "", "", "", 197, 0, 576, 0, "in_chans or patch_size is out of range" },
        { "", "", "", "patch_size=1025", 197, 0, 576, 0, "in_chans or patch_size is out of range" },
        { "", "embed_dim=384", "", "", 197, 0, 576, 0,
          "here has embed_dim 384, but the tensors have" },
        { "has_gated_mlp=1", "", "has_gated_mlp=0 mlp_dim=1536", "", 197, 0, 576, 0,
          "here has has_gated_mlp 0, but the tensors have 1" },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) check_resolved(&cases[i]);
}

static void test_archs_by_shape(void) {
    static const struct {
        /* Settings, with spaces between them. */
        const char *tensors;
        int rows;
        int64_t qkv_rows;
        bool some_fit;
        const char *expected;
    } cases[] = {
        { "depth=12 has_layer_scale=0", 197, 576, true,
          "vit_tiny_patch16_224 (mean=0.5 std=0.5); "
          "deit_tiny_patch16_224 (mean=0.485,0.456,0.406 std=0.229,0.224,0.225)" },
        { "depth=12 has_dist_token=1", 198, 576, true,
          "deit_tiny_distilled_patch16_224 (mean=0.485,0.456,0.406 std=0.229,0.224,0.225)" },
        { "depth=12 num_heads=3", 577, 576, true, "vit_tiny_patch16_384 (mean=0.5 std=0.5)" },
        { "depth=12 num_heads=6", 577, 576, false,
          "no name of timm fits the tensors; nearest: vit_tiny_patch16_384, " },
        { "depth=12 embed_dim=384 mlp_dim=1536 has_layer_scale=1", 196, 1152, true,
          "deit3_small_patch16_224, vit_small_patch16_rope_ape_224, "
          "vit_small_patch16_rope_mixed_ape_224 (mean=0.485,0.456,0.406 std=0.229,0.224,0.225)" },
        { "depth=11 has_layer_scale=0 has_dist_token=0", 197, 576, false,
          "no name of timm fits the tensors; nearest: vit_tiny_patch16_224, deit_tiny_patch16_224, "
          "vit_tiny_patch16_384; vit_tiny_patch16_224 differs first in the last block (depth 12, "
          "but the tensors have 11)" },
        { "depth=12 has_qkv_bias=0", 577, 576, false,
          "nearest: vit_tiny_patch16_384, vit_tiny_patch16_224, deit_tiny_patch16_224; "
          "vit_tiny_patch16_384 differs first in blocks.0.attn.qkv.bias (has_qkv_bias 1, but "
          "the tensors have 0)" },
        { "depth=12", 257, 576, false, "; vit_tiny_patch16_224 differs first in pos_embed" },
        { "depth=12 embed_dim=380 mlp_dim=1520", 197, 1140, false,
          "vit_small_patch16_224 differs first in patch_embed.proj.weight (embed_dim 384, but "
          "the tensors have 380)" },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        settings all[FROM_COUNT];
        settings_seen seen;
        char text[ARCHS_TEXT];
        report *r = new_report();
        bool some_fit;
        plain_settings(all, &seen);
        seen.position_rows = cases[i].rows;
        seen.qkv_rows = cases[i].qkv_rows;
        CHECK_MSG(put_words(&all[FROM_TENSORS], "num_reg_tokens=0 has_pre_norm=0", r) &&
                      put_words(&all[FROM_TENSORS], cases[i].tensors, r),
                  "%s", latest.text);
        some_fit = archs_by_shape(all, &seen, &as_stored, text);
        CHECK_MSG(some_fit == cases[i].some_fit &&
                      (some_fit ? !strcmp(text, cases[i].expected)
                                : strstr(text, cases[i].expected) != NULL),
                  "expected %s, found %s", cases[i].expected, text);
    }
}

static void test_stem_stride(void) {
    static const struct {
        const char *words;
        int stride;
    } cases[] = {
        { "", 1 },
        { "stem=conv", 8 },
        { "stem=resnet", 4 },
        { "stem=resnet stem_stage1=1 stem_stage2=2 stem_stage3=3 stem_stage4=4", 32 },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        settings s;
        report *r = new_report();
        settings_start(&s, "here");
        CHECK(put_words(&s, cases[i].words, r));
        CHECK_MSG(settings_stem_stride(&s) == cases[i].stride, "%s", cases[i].words);
    }
}

/* Tests a text that does not fit, which must be cut off. */
static void test_describe(void) {
    char whole[256], cut[10];
    vit_config c;
    memset(&c, 0, sizeof c);
    settings_describe(&c, whole, sizeof whole);
    settings_describe(&c, cut, sizeof cut);
    CHECK_MSG(!strncmp(whole, cut, 9) && strlen(cut) == 9 && strlen(whole) > 20, "%s, %s", whole,
              cut);
}

/* Tests the size to which photos are resized, floor(size / crop_pct) in double, for every pair of
 * values that timm uses. */
static void test_resize(void) {
    static const struct {
        int size;
        double crop_pct;
        int resize;
    } cases[] = {
        { 160, 0.95, 168 }, { 196, 1, 196 },    { 224, 0.875, 256 }, { 224, 0.9, 248 },
        { 224, 0.95, 235 }, { 240, 0.95, 252 }, { 256, 0.9, 284 },   { 256, 0.95, 269 },
        { 378, 0.9, 420 },  { 384, 0.9, 426 },  { 384, 0.95, 404 },  { 512, 0.9, 568 },
        { 448, 1, 448 },
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        settings all[FROM_COUNT];
        settings_seen seen;
        settings_resolved model;
        report *r = new_report();
        plain_settings(all, &seen);
        settings_put(&all[FROM_OPTIONS], SETTING_IMG_HEIGHT, cases[i].size);
        settings_put(&all[FROM_OPTIONS], SETTING_IMG_WIDTH, cases[i].size);
        settings_put(&all[FROM_CONFIG], SETTING_CROP_PCT, cases[i].crop_pct);
        CHECK_MSG(settings_resolve_all(all, &seen, &as_stored, &model, r), "%s", latest.text);
        CHECK_MSG(model.config.resize_height == cases[i].resize &&
                      model.config.resize_width == cases[i].resize,
                  "%d / %g: %d", cases[i].size, cases[i].crop_pct, model.config.resize_height);
    }
}

/* Tests the scale of attention. It must equal Python's head_dim ** -0.5, rounded to float32 only
 * once. */
static void test_scale(void) {
    static const struct {
        int heads, bits;
    } cases[] = {
        { 3, 0x3e000000 }, /* 64 */
        { 2, 0x3dd105ec }, /* 96 */
        { 6, 0x3e3504f3 }, /* 32 */
        { 8, 0x3e5105ec }, /* 24 */
        { 4, 0x3e13cd3a }, /* 48 */
    };
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        settings all[FROM_COUNT];
        settings_seen seen;
        settings_resolved model;
        report *r = new_report();
        float expected;
        uint32_t bits = (uint32_t)cases[i].bits;
        memcpy(&expected, &bits, sizeof expected);
        plain_settings(all, &seen);
        settings_put(&all[FROM_OPTIONS], SETTING_NUM_HEADS, cases[i].heads);
        CHECK_MSG(settings_resolve_all(all, &seen, &as_stored, &model, r), "%s", latest.text);
        CHECK_MSG(model.config.attn_scale == expected, "%d heads: %.9g", cases[i].heads,
                  (double)model.config.attn_scale);
    }
}

/* === Computed positions === */

enum { WAVES = 16 };

/* Checks the wave with number k at one position. */
static void check_wave(int kind, const float *row, int place, int k, int last, int sine,
                       int cosine) {
    const double angle = place * exp(-log(10000.0) * k / last);
    CHECK_MSG(fabs((double)row[sine] - sin(angle)) < 1e-6 &&
                  fabs((double)row[cosine] - cos(angle)) < 1e-6,
              "kind %d: wave %d at %d", kind, k, place);
}

static void check_line(int kind, const float *row, int place) {
    int k;
    for (k = 0; k < WAVES / 2; k++) {
        const int sine = kind == SINCOS_1D_HALVES ? k : 2 * k;
        const int cosine = kind == SINCOS_1D_HALVES ? WAVES / 2 + k : 2 * k + 1;
        const int falls = kind == SINCOS_1D_PLAIN ? 0 : kind == SINCOS_1D_DOUBLE ? 2 : 1;
        const bool apart = kind == SINCOS_1D_COLUMN || kind == SINCOS_1D_DOUBLE;
        const double first = falls * 2 * k, second = first + (apart ? falls : 0);
        CHECK(fabs((double)row[sine] - sin(place * pow(10000, -first / WAVES))) < 1e-6);
        CHECK(fabs((double)row[cosine] - cos(place * pow(10000, -second / WAVES))) < 1e-6);
    }
}

/* Checks positions whose last frequency is 1 / 10000, and positions whose frequencies end one step
 * before 1 / 10000. */
static void check_sincos(int kind, int positions) {
    float table[7 * WAVES];
    vit_config c;
    int prefix, i, k;
    memset(&c, 0, sizeof c);
    c.embed_dim = WAVES;
    c.grid_width = 3;
    c.num_patches = 6;
    c.num_prefix_tokens = 1;
    c.positions = positions;
    prefix = positions == VIT_POS_ALL;
    sincos_positions(kind, &c, table);
    for (i = 0; kind >= SINCOS_1D && i < 6 + prefix; i++) check_line(kind, table + i * WAVES, i);
    for (i = 0; kind < SINCOS_1D && i < 6; i++) {
        const float *row = table + (i + prefix) * WAVES;
        for (k = 0; k < 4; k++) {
            check_wave(kind, row, i % 3, k, kind == SINCOS_MAE ? 4 : 3, k, k + 4);
            check_wave(kind, row, i / 3, k, kind == SINCOS_MAE ? 4 : 3, k + 8, k + 12);
        }
    }
    for (k = 0; kind < SINCOS_1D && prefix && k < WAVES; k++) CHECK(table[k] == 0);
}

static void test_sincos(void) {
    static const int kinds[] = {
        SINCOS_SIMPLE_VIT, SINCOS_MAE,       SINCOS_1D,       SINCOS_1D_HALVES,
        SINCOS_1D_COLUMN,  SINCOS_1D_DOUBLE, SINCOS_1D_PLAIN,
    };
    size_t i;
    for (i = 0; i < COUNT(kinds); i++) {
        check_sincos(kinds[i], VIT_POS_ALL);
        check_sincos(kinds[i], VIT_POS_PATCHES);
    }
}

/* === Quantising === */

enum { DEPTH = 70, OUTPUTS = 37, SAMPLES = 300, LOUD = 11 };

/* Makes input samples that are correlated and whose mean is not 0. One channel has much larger
 * values than the others. */
static void make_samples(float *x) {
    uint32_t state = 5;
    int i, k;
    for (i = 0; i < SAMPLES; i++) {
        float common = tiny_random(&state);
        for (k = 0; k < DEPTH; k++) {
            x[i * DEPTH + k] = common + 0.3f * tiny_random(&state) + 0.2f;
            if (k == LOUD) x[i * DEPTH + k] *= 40;
        }
    }
}

static void make_weights(float *w) {
    uint32_t state = 6;
    int i;
    for (i = 0; i < (OUTPUTS - 1) * DEPTH; i++) w[i] = tiny_random(&state);
    for (; i < OUTPUTS * DEPTH; i++) w[i] = 0; /* The step of the last row is 0. */
}

/* Returns the mean squared error that a layer's outputs have if its inputs are rounded and its
 * weights are q instead of w. */
static double output_error(vit_dtype dtype, const float *x, const float *w, const float *q) {
    double square = 0, e;
    int i, n, k;
    for (i = 0; i < SAMPLES; i++) {
        float seen[DEPTH];
        memcpy(seen, x + i * DEPTH, sizeof seen);
        quantise_input(dtype, seen, DEPTH);
        for (n = 0; n < OUTPUTS; n++) {
            for (e = 0, k = 0; k < DEPTH; k++)
                e += (double)w[n * DEPTH + k] * (double)x[i * DEPTH + k] -
                     (double)q[n * DEPTH + k] * (double)seen[k];
            square += e * e;
        }
    }
    return square / (SAMPLES * OUTPUTS);
}

/* Checks that packing does not change rows that have been rounded already. Rounded rows must obey
 * the rule of section "fits16". */
static void check_packed(vit_dtype dtype, const float *rows) {
    static unsigned char panel[16 * 128 * 4];
    float row[DEPTH];
    vit_tensor t = { "", VIT_F32, VIT_LAYOUT_PANELS, 2, { 16, DEPTH, 0, 0 }, NULL, 0, 0, 0 };
    int first, r, k;
    t.dtype = dtype;
    t.data = panel;
    for (first = 0; first < OUTPUTS; first += 16) {
        const int n = OUTPUTS - first < 16 ? OUTPUTS - first : 16;
        vit_pack_panel(dtype, rows + first * DEPTH, n, DEPTH, panel);
        CHECK(dtype != VIT_I8 || vit_fits16(panel, DEPTH));
        for (r = 0; r < n; r++) {
            vit_unpack_row(&t, r, row);
            for (k = 0; k < DEPTH; k++) {
                const float x = rows[(first + r) * DEPTH + k];
                CHECK_MSG(fabsf(row[k] - x) <= 2e-7f * fabsf(x), "dtype %d: %g packed as %g",
                          (int)dtype, (double)x, (double)row[k]);
            }
        }
    }
}

/* Tests rounding that takes samples into account. `most` is its largest accepted error, relative to
 * the error of rounding each weight to the nearest step. */
static void test_rounding(vit_dtype dtype, double most, const float *x, const float *w) {
    static float nearest[OUTPUTS * DEPTH], best[OUTPUTS * DEPTH];
    const quantise_matrix samples = { x, SAMPLES, DEPTH };
    quantise_layer layer;
    double a, b;
    memcpy(nearest, w, sizeof nearest);
    memcpy(best, w, sizeof best);
    CHECK(quantise_nearest(dtype, nearest, OUTPUTS, DEPTH));
    CHECK(quantise_start(&layer, dtype, &samples, NULL));
    CHECK(quantise_rows(&layer, best, OUTPUTS, NULL));
    a = output_error(dtype, x, w, nearest);
    b = output_error(dtype, x, w, best);
    CHECK_MSG(b < most * a, "dtype %d: %g to %g", (int)dtype, a, b);
    check_packed(dtype, best);
    quantise_end(&layer);
}

/* Tests rounded inputs. Values at both ends of the range may be half a step off, because a value
 * beyond the last step becomes the last step. In bf16, infinity and NaN must stay as they are. */
static void test_inputs(void) {
    float ends[] = { -153.5f, 101.5f }, none[] = { HUGE_VALF, -HUGE_VALF, (float)NAN };
    quantise_input(VIT_I8, ends, 2);
    CHECK_MSG(ends[0] == -154 && ends[1] == 101, "%g, %g", (double)ends[0], (double)ends[1]);
    quantise_input(VIT_BF16, none, 3);
    CHECK(none[0] == HUGE_VALF && none[1] == -HUGE_VALF && isnan(none[2]));
}

static void test_quantise(void) {
    static float x[SAMPLES * DEPTH], w[OUTPUTS * DEPTH];
    const quantise_matrix samples = { x, SAMPLES, DEPTH }, weights = { w, OUTPUTS, DEPTH };
    float factors[DEPTH], alpha;
    int k;
    make_samples(x);
    make_weights(w);
    CHECK(!quantise_knows(VIT_F32) && !quantise_knows(VIT_F16));
    test_inputs();
    test_rounding(VIT_I8, 0.545, x, w);
    test_rounding(VIT_I4, 0.0312, x, w);
    test_rounding(VIT_BF16, 0.574, x, w);
    CHECK(quantise_smooth(VIT_I8, &samples, &weights, factors, &alpha));
    CHECK_MSG(alpha > 0, "an outlier is not smoothed");
    for (k = 0; k < DEPTH; k++)
        if (k != LOUD) CHECK(factors[k] > 0 && factors[k] < factors[LOUD] / 3);
    memset(x, 0, sizeof x); /* Samples of zeros cause no error. */
    memset(w, 0, sizeof w);
    CHECK(quantise_smooth(VIT_I8, &samples, &weights, factors, &alpha));
    for (k = 0; k < DEPTH; k++) CHECK(factors[k] > 0 && isfinite(factors[k]));
    /* Only one channel of the samples has values other than zero. */
    for (k = 0; k < SAMPLES; k++) x[k * DEPTH] = w[k % OUTPUTS * DEPTH] = 1;
    CHECK(quantise_smooth(VIT_I8, &samples, &weights, factors, &alpha));
    for (k = 0; k < DEPTH; k++) CHECK(factors[k] > 0 && isfinite(factors[k]));
}

/* Writes a model whose weights were changed by the calibration. The weights are written as f32, so
 * that they are not rounded. */
static bool write_folded(const vit_model *model, photo_list *photos, FILE *file, report *r) {
    const vit_writer_contents contents = { .config = &model->config, .dtype = VIT_F32 };
    calibration *c = calibrate_start(model, VIT_I8, decoder, photos, true, r);
    vit_writer w;
    bool good = c && vit_writer_start(&w, file, &contents, r);
    size_t i;
    if (!good) return calibrate_free(c), false;
    for (i = 0; good && i < w.count; i++) {
        const float *values = calibrate_tensor(c, (int)i, VIT_F32, r);
        good = values && vit_writer_rows(&w, values, w.tensors[i].dims[0], r);
    }
    good = good && vit_writer_finish(&w, r);
    vit_writer_free(&w);
    calibrate_free(c);
    return good;
}

static void run_selftest_input(const vit_model *model, float *output) {
    report *r = new_report();
    runner run;
    CHECK_MSG(runner_open(&run, model, NULL, NULL, r), "%s", latest.text);
    vit_selftest_input(&model->config, run.input);
    CHECK(runner_forward(&run, r));
    memcpy(output, run.output, run.output_size * sizeof *output);
    runner_close(&run);
}

/* Checks that smoothing has changed the weights of the model, but not its results. */
static void check_folding(const vit_model *model, const vit_model *folded) {
    float a[5], b[5], largest = 0;
    vit_tensor s, t;
    int i, changed = 0;
    run_selftest_input(model, a);
    run_selftest_input(folded, b);
    for (i = 0; i < 5; i++) largest = fabsf(a[i]) > largest ? fabsf(a[i]) : largest;
    for (i = 0; i < 5; i++)
        CHECK_MSG(fabsf(a[i] - b[i]) <= 1e-5f * largest, "%g became %g", (double)a[i],
                  (double)b[i]);
    for (i = 0; vit_model_tensor(model, i, &s) && vit_model_tensor(folded, i, &t); i++)
        changed += s.checksum != t.checksum;
    CHECK_MSG(changed >= 6, "%d tensors changed", changed);
}

static void fold(const tiny_options *o, char *path) {
    char *paths[1] = { path };
    photo_list photos = { paths, 1, 0, 1 };
    tiny_file f;
    vit_model model, folded;
    report *r = new_report();
    FILE *file = fopen(temporary, "wb+");
    f = tiny_build(o);
    CHECK(!vit_model_open_memory(f.data, f.size, 0, &model));
    CHECK_MSG(file && write_folded(&model, &photos, file, r), "%s", latest.text);
    if (file) fclose(file);
    CHECK_MSG(!vit_model_open(temporary, VIT_OPEN_VERIFY, &folded), "%s", folded.detail);
    check_folding(&model, &folded);
    vit_model_close(&folded);
    vit_model_close(&model);
    tiny_free(&f);
}

/* Tests smoothing in models with norms between layers, and for tensors that belong to no layer. */
static void test_folding(const char *data) {
    char path[256];
    tiny_options o[4];
    size_t i;
    snprintf(path, sizeof path, "%s/images/rgb.png", data);
    for (i = 0; i < COUNT(o); i++) o[i] = tiny_defaults();
    o[1].config.has_attn_norm = o[1].config.has_mlp_norm = 1;
    o[2].config.has_diff_attn = 1;
    o[3].config.has_layer_scale = 1;
    for (i = 0; i < COUNT(o); i++) fold(&o[i], path);
}

/* Sets all weights of the final norm. */
static void fill_norm(tiny_file *f, float value) {
    vit_model model;
    vit_tensor t;
    uint32_t bits;
    int i;
    memcpy(&bits, &value, sizeof bits);
    CHECK(!vit_model_open_memory(f->data, f->size, 0, &model));
    for (i = 0; vit_model_tensor(&model, i, &t); i++) {
        unsigned char *at = f->data + ((const unsigned char *)t.data - f->data);
        size_t k;
        if (strncmp(t.name, "norm.", 5)) continue;
        for (k = 0; k < t.size; k += 4) tiny_put(at + k, bits, 4);
    }
    vit_model_close(&model);
}

static double compare_norms(float a, float b, photo_list *photos) {
    const tiny_options o = tiny_defaults();
    tiny_file f = tiny_build(&o), g = tiny_copy(&f);
    vit_model first, second;
    comparison result;
    report *r = new_report();
    fill_norm(&f, a);
    fill_norm(&g, b);
    CHECK(!vit_model_open_memory(f.data, f.size, 0, &first));
    CHECK(!vit_model_open_memory(g.data, g.size, 0, &second));
    CHECK_MSG(compare_models(&first, &second, decoder, photos, true, &result, r), "%s",
              latest.text);
    vit_model_close(&first);
    vit_model_close(&second);
    tiny_free(&f);
    tiny_free(&g);
    return result.mean_cosine;
}

/* Tests the comparison of embeddings. Two embeddings of zeros count as equal. An embedding of zeros
 * or of NaN differs from all others. */
static void test_compare(const char *data) {
    static const struct {
        float a, b;
        double cosine;
    } cases[] = {
        { 0, 0, 1 }, { 0, 1, 0 }, { 1, 0, 0 }, { 1, (float)NAN, 0 }, { 1, 1, 1 }, { 1, 2, 1 },
    };
    char path[256];
    char *paths[1] = { path };
    photo_list photos = { paths, 1, 0, 1 };
    size_t i;
    snprintf(path, sizeof path, "%s/images/rgb.png", data);
    for (i = 0; i < COUNT(cases); i++) {
        const double found = compare_norms(cases[i].a, cases[i].b, &photos);
        CHECK_MSG(fabs(found - cases[i].cosine) < 1e-6, "norms of %g and %g: %g",
                  (double)cases[i].a, (double)cases[i].b, found);
    }
}

/* === Photos === */

/* Checks the random model that is used for measuring speed. Its tensors must have the same types as
 * those of a converted model. */
static void check_random(vit_dtype dtype) {
    convert_options options;
    vit_writer_contents contents;
    vit_writer w;
    arch_choice choice;
    vit_model model;
    vit_tensor t;
    char detail[VIT_MAX_DETAIL];
    report *r = new_report();
    vit_config config;
    FILE *file = fopen(temporary, "wb+");
    int i;
    memset(&options, 0, sizeof options);
    memset(&contents, 0, sizeof contents);
    options.dtype = contents.dtype = dtype;
    CHECK(file && arch_find("test_vit", &choice, r) == ARCH_FOUND);
    arch_config(&choice, &config);
    config.num_classes = 10;
    CHECK(!vit_config_check(&config, detail));
    contents.config = &config;
    contents.keep = convert_kept(&options, &config);
    CHECK_MSG(bench_write_random(file, contents.config, dtype, r), "%s", latest.text);
    fclose(file);
    CHECK(vit_writer_start(&w, NULL, &contents, r));
    CHECK_MSG(!vit_model_open(temporary, 0, &model), "%s", model.detail);
    for (i = 0; vit_model_tensor(&model, i, &t); i++)
        CHECK_MSG(t.dtype == w.tensors[i].dtype, "%s", t.name);
    CHECK((size_t)i == w.count);
    vit_model_close(&model);
    vit_writer_free(&w);
}

static void test_random(void) {
    int dtype;
    for (dtype = 0; dtype < VIT_NUM_DTYPES; dtype++) check_random((vit_dtype)dtype);
}

static void test_photos(const char *data) {
    const char *items[2];
    const text_list operands = { items, 2 };
    photo_list all, some;
    report *r = new_report();
    char path[256];
    int i;
    snprintf(path, sizeof path, "%s/images", data);
    items[0] = path;
    items[1] = path; /* The second operand is the same folder. */
    CHECK_MSG(photos_find(&all, &operands, 1000, r), "%s", latest.text);
    CHECK(all.count > 40 && all.count % 2 == 0);
    for (i = 1; i < all.count / 2; i++) CHECK(strcmp(all.paths[i - 1], all.paths[i]) < 0);
    CHECK(photos_find(&some, &operands, 10, r));
    CHECK(some.count == 10);
    for (i = 0; i < some.count; i++) CHECK(!strcmp(some.paths[i], all.paths[i * all.count / 10]));
    photos_free(&some);
    photos_free(&all);
}

int main(int argc, char **argv) {
    /* The sandbox is off, because user-mode QEMU does not support seccomp. */
    const photo_options trusted = { .no_sandbox = true };
    int file = mkstemp(temporary);
    decoder = photo_decoder_open(&trusted, "test", 1, &latest);
    if (file < 0) return puts("cannot make a temporary file"), puts("0 passed, 1 failed"), 1;
    close(file);
    test_known_names();
    test_default_tags();
    test_lacking_names();
    test_other_names();
    test_unknown_names();
    test_resample(argc > 1 ? argv[1] : "tests/data");
    test_relative(argc > 1 ? argv[1] : "tests/data");
    test_adapt(argc > 1 ? argv[1] : "tests/data");
    test_label_files();
    test_renames();
    test_bad_configs();
    test_large_config();
    test_config_entries();
    test_config_activations();
    test_config_names();
    test_config_values();
    test_config_old();
    test_config_pre_norm();
    test_json_labels();
    test_settings();
    test_resolve();
    test_archs_by_shape();
    test_stem_stride();
    test_describe();
    test_sincos();
    test_resize();
    test_scale();
    test_quantise();
    test_folding(argc > 1 ? argv[1] : "tests/data");
    test_compare(argc > 1 ? argv[1] : "tests/data");
    test_random();
    test_photos(argc > 1 ? argv[1] : "tests/data");
    unlink(temporary);
    photo_decoder_close(decoder);
    return test_summary();
}
