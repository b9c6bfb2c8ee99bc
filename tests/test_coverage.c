/* test_coverage.c - tests every set of options of timm's pretrained ViTs against timm's numbers.
 *
 *     test_coverage tests/data
 *
 * tests/data/coverage has a small model for each set. timm built and ran the model
 * (tests/make_coverage.py). models/COVERAGE.md lists the tags that each model stands for. For each
 * model the test checks that
 *
 *   - the converted folder prepares images like timm, and gives timm's logits, embedding and tokens
 *     in every tier of kernels
 *   - if timm's numbers for other inputs are stored too, the model converted for these inputs by
 *     --img-size or --in-chans gives these numbers
 *   - the architecture's name and the sizes alone, without config.json, give the same settings,
 *     except for models called option_...: their config.json changes the architecture
 */
#define _XOPEN_SOURCE 700
#define VIT_TOOLS
#include "../vit.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "convert/conversion.h"
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGES = 2, MAX_PATH = 1024 };

/* The largest accepted difference between f32 results and PyTorch's f32 results, relative to the
 * largest of PyTorch's. */
static const double tolerance = 2e-5;

typedef struct fixture {
    const char *name;
    char folder[MAX_PATH], work[MAX_PATH], model_path[MAX_PATH];
    /* The number of channels for the conversion. 0 leaves the number unchanged. */
    int in_chans;
    /* The configuration after the conversion with config.json. */
    vit_config config;
    /* The name of the architecture, with its tag. */
    char full_name[192];
    vit_model model;
    /* The input images: [IMAGES, chans, height, width]. */
    float *images;
    float *logits, *embedding, *tokens;
} fixture;

static void *allocate(size_t count) {
    float *p = calloc(count ? count : 1, sizeof *p);
    if (p) return p;
    printf("out of memory\n");
    exit(2);
}

/* Joins the two parts of a path. All paths of this test fit. If a path were too long, opening it
 * would fail. */
static const char *join(char path[MAX_PATH], const char *folder, const char *name) {
    const size_t length = strlen(folder);
    snprintf(path, MAX_PATH, "%.*s/%.250s", (int)(length < 700 ? length : 700), folder, name);
    return path;
}

/* === Converting === */

static bool convert(const fixture *f, const char *weights, const char *name, const settings *told,
                    vit_config *config, char full_name[192]) {
    report r = report_make();
    convert_options options;
    conversion c;
    bool good;
    memset(&options, 0, sizeof options);
    memset(&c, 0, sizeof c);
    options.checkpoint = weights;
    options.output = f->model_path;
    options.arch = name;
    options.dtype = VIT_F32;
    options.in_chans = f->in_chans;
    options.quiet = true;
    options.given = *told;
    good = convert_run(&options, &c, &r);
    CHECK_MSG(good, "%s: %s", f->name, r.text);
    CHECK_MSG(!good || c.blueprint.description.has_arch, "%s: its name is not known", f->name);
    *config = c.blueprint.model.config;
    if (good && c.blueprint.description.has_arch && full_name)
        arch_full_name(&c.blueprint.description.arch, full_name, 192);
    convert_free(&c);
    return good;
}

static bool convert_folder(fixture *f) {
    settings none;
    settings_start(&none, "--set");
    return convert(f, f->folder, NULL, &none, &f->config, f->full_name);
}

static void same_config(const fixture *f, const vit_config *named) {
    const vit_config *told = &f->config;
    int i;
#define SAME(type, field, kind, low, high)                                                         \
    CHECK_MSG(!(named->field < told->field || named->field > told->field),                         \
              "%s by name: " #field " %.9g, by config.json %.9g", f->name, (double)named->field,   \
              (double)told->field);
    VIT_FIELD_LIST(SAME)
#undef SAME
    for (i = 0; i < told->in_chans; i++)
        CHECK_MSG(!memcmp(&named->mean[i], &told->mean[i], sizeof(float)) &&
                      !memcmp(&named->std[i], &told->std[i], sizeof(float)),
                  "%s by name: mean or std of channel %d", f->name, i);
}

/* Gives the sizes of the model as options, because the model is smaller than its name implies. */
static void tell_sizes(const fixture *f, settings *told) {
    const vit_config *c = &f->config;
    settings_start(told, "--set");
    settings_put(told, SETTING_IMG_HEIGHT, c->img_height);
    settings_put(told, SETTING_IMG_WIDTH, c->img_width);
    settings_put(told, SETTING_PATCH_SIZE, c->patch_size);
    settings_put(told, SETTING_EMBED_DIM, c->embed_dim);
    settings_put(told, SETTING_DEPTH, c->depth);
    settings_put(told, SETTING_NUM_HEADS, c->num_heads);
}

/* Converts the model again without config.json. The settings must be the same. */
static void check_name(const fixture *f) {
    char from[MAX_PATH], target[MAX_PATH], alone[MAX_PATH];
    settings told;
    vit_config named;
    bool linked = realpath(join(from, f->folder, "model.safetensors"), target) != NULL &&
                  symlink(target, join(alone, f->work, "model.safetensors")) == 0;
    CHECK_MSG(linked, "%s: no link to %s", f->name, from);
    if (!linked) return;
    tell_sizes(f, &told);
    if (convert(f, alone, f->full_name, &told, &named, NULL)) same_config(f, &named);
    unlink(alone);
}

/* === Preprocessing === */

static bool same_number(double expected, float found) {
    return fabs(expected - (double)found) <= 1e-6 * fabs(expected);
}

/* Compares the configuration with the fixture's file "preprocess": the height and width before the
 * crop, the crop mode, the interpolation, the mean and the std. */
static void check_preprocessing(const fixture *f) {
    const vit_config *c = &f->config;
    char path[MAX_PATH], crop_mode[16], interpolation[16];
    double mean[3], std[3];
    int height, width, i;
    FILE *file = fopen(join(path, f->folder, "preprocess"), "r");
    bool read = file && fscanf(file, "%d %d %15s %15s %lf %lf %lf %lf %lf %lf", &height, &width,
                               crop_mode, interpolation, &mean[0], &mean[1], &mean[2], &std[0],
                               &std[1], &std[2]) == 10;
    if (file) fclose(file);
    CHECK_MSG(read, "%s cannot be read", path);
    if (!read) return;
    CHECK_MSG(c->resize_height == height && c->resize_width == width,
              "%s: resize to %d x %d, "
              "timm to %d x %d",
              f->name, c->resize_height, c->resize_width, height, width);
    CHECK_MSG(setting_find_word(SETTING_CROP_MODE, crop_mode) == c->crop_mode, "%s: %s", f->name,
              crop_mode);
    CHECK_MSG(setting_find_word(SETTING_INTERPOLATION, interpolation) == c->interpolation, "%s: %s",
              f->name, interpolation);
    for (i = 0; i < 3; i++)
        CHECK_MSG(same_number(mean[i], c->mean[i]) && same_number(std[i], c->std[i]),
                  "%s: mean %g, std %g of channel %d", f->name, (double)c->mean[i],
                  (double)c->std[i], i);
}

/* === Numbers === */

/* Fills the images with numbers from a 32-bit LCG. Each image has its own sequence, like image() of
 * tests/make_fixtures.py. */
static void make_images(float *images, size_t size) {
    uint32_t image;
    size_t i;
    for (image = 1; image <= IMAGES; image++) {
        uint32_t r = image * 2654435761u;
        for (i = 0; i < size; i++) {
            r = r * 1664525u + 1013904223u;
            *images++ = (float)(r >> 8) / 8388608.0f - 1.0f;
        }
    }
}

/* Returns max|got - expected| / max|expected|, or 1e30 for NaN or if all expected numbers are 0. */
static double relative_error(const float *got, const float *expected, size_t count) {
    double error = 0, top = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        const double difference = fabs((double)got[i] - (double)expected[i]);
        if (!(difference <= 1e30)) return 1e30;
        error = fmax(error, difference);
        top = fmax(top, fabs((double)expected[i]));
    }
    return top > 0 ? error / top : 1e30;
}

static void compare(const fixture *f, checkpoint *file, const char *what, const float *got,
                    size_t count) {
    report r = report_make();
    const checkpoint_tensor_info *info = checkpoint_find(file, what);
    float *expected = allocate(count);
    bool good = info && info->count == (int64_t)count &&
                checkpoint_read(file, info, 0, info->count, expected, &r);
    double found = good ? relative_error(got, expected, count) : 0;
    CHECK_MSG(good, "%s: %s: %lu numbers expected", f->name, what, (unsigned long)count);
    CHECK_MSG(found <= tolerance, "%s: %s: relative error %.2e", f->name, what, found);
    free(expected);
}

static void run(fixture *f, vit_isa isa) {
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    void *workspace;
    size_t size;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.isa = isa;
    params.batch = IMAGES;
    outputs.logits = f->model.config.num_classes ? f->logits : NULL;
    outputs.embedding = f->embedding;
    outputs.tokens = f->tokens;
    size = vit_workspace_size(&f->model, &params);
    workspace = malloc(size);
    CHECK(workspace && vit_session_init(&session, &f->model, &params, workspace, size) == VIT_OK &&
          vit_forward(&session, &(vit_input){ .pixels = f->images, .batch = IMAGES }, &outputs) ==
              VIT_OK);
    free(workspace);
}

static void compare_all(fixture *f, checkpoint *expected) {
    const vit_config *c = &f->model.config;
    const size_t logits = IMAGES * (size_t)c->num_classes;
    const size_t embedding = IMAGES * (size_t)vit_embedding_dim(&f->model);
    const size_t tokens = IMAGES * (size_t)c->num_tokens * (size_t)c->embed_dim;
    const size_t image = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    f->images = allocate(IMAGES * image);
    f->logits = allocate(logits);
    f->embedding = allocate(embedding);
    f->tokens = allocate(tokens);
    make_images(f->images, image);
    FOR_EACH_ISA(isa) {
        run(f, (vit_isa)isa);
        if (logits) compare(f, expected, "logits", f->logits, logits);
        compare(f, expected, "embedding", f->embedding, embedding);
        compare(f, expected, "tokens", f->tokens, tokens);
    }
    free(f->images);
    free(f->logits);
    free(f->embedding);
    free(f->tokens);
}

static void check_numbers(fixture *f, const char *file) {
    char path[MAX_PATH];
    report r = report_make();
    checkpoint *expected = NULL;
    vit_result result = vit_model_open(f->model_path, VIT_OPEN_VERIFY, &f->model);
    CHECK_MSG(result == VIT_OK, "%s: %s", f->model_path, f->model.detail);
    if (result) return;
    CHECK_MSG(checkpoint_open(join(path, f->folder, file), &expected, &r), "%s", r.text);
    if (expected) compare_all(f, expected);
    checkpoint_close(expected);
    vit_model_close(&f->model);
}

static int is_resized(const struct dirent *entry) {
    return !strncmp(entry->d_name, "img_size_", 9) || !strncmp(entry->d_name, "in_chans_", 9);
}

/* Converts the model for the input size or channels in the file's name, and compares the
 * results. */
static void check_input(fixture *f, const char *file) {
    settings told;
    vit_config config;
    int height, width;
    settings_start(&told, "--img-size");
    if (sscanf(file, "img_size_%dx%d", &height, &width) == 2) {
        settings_put(&told, SETTING_IMG_HEIGHT, height);
        settings_put(&told, SETTING_IMG_WIDTH, width);
    } else {
        CHECK_MSG(sscanf(file, "in_chans_%d", &f->in_chans) == 1, "%s: %s", f->name, file);
    }
    if (convert(f, f->folder, NULL, &told, &config, NULL)) check_numbers(f, file);
    f->in_chans = 0;
}

static void check_inputs(fixture *f) {
    struct dirent **entries = NULL;
    const int count = scandir(f->folder, &entries, is_resized, alphasort);
    int i;
    for (i = 0; i < count; i++) {
        check_input(f, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

/* === All of them === */

static void test_fixture(const char *folder, const char *work, const char *name) {
    static fixture f;
    memset(&f, 0, sizeof f);
    f.name = name;
    join(f.folder, folder, name);
    snprintf(f.work, sizeof f.work, "%s", work);
    join(f.model_path, work, "model.vit");
    if (convert_folder(&f)) {
        check_preprocessing(&f);
        check_numbers(&f, "expected.safetensors");
        check_inputs(&f);
        if (strncmp(name, "option_", 7) != 0) check_name(&f);
    }
    unlink(f.model_path);
}

static int is_fixture(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int main(int argc, char **argv) {
    char folder[MAX_PATH], work[] = "/tmp/test_coverage.XXXXXX";
    struct dirent **entries = NULL;
    int count, i;
    if (argc != 2 || !mkdtemp(work)) {
        printf("usage: test_coverage tests/data\n");
        return 2;
    }
    count = scandir(join(folder, argv[1], "coverage"), &entries, is_fixture, alphasort);
    CHECK_MSG(count > 0, "%s holds no fixtures", folder);
    for (i = 0; i < count; i++) {
        test_fixture(folder, work, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    rmdir(work);
    return test_summary();
}
