/* compare_builds.c - prints hashes of all that a model computes: outputs and traced tensors,
 * on each instruction set, with one and two threads, several batches, low memory, masks and other
 * input sizes, and preprocessed images. tests/compare_builds.sh compiles this program with the
 * vit.h of each of two builds, and compares the printed lines.
 *
 *     compare_builds MODEL.vit
 */
#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "vit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 3 };

/* One way to run the network. Each line that this run prints begins with `name`. */
typedef struct setup {
    char name[96];
    vit_params params;
    /* The number of images, and the number of images that are computed together. */
    int batch, together;
    int masked;
} setup;

/* --- printing ------------------------------------------------------------- */

/* Returns the FNV hash of the numbers. vit_hash is not used here, because it is one of the compared
 * functions. */
static uint64_t hash(const float *data, size_t count) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
        h ^= h >> 32;
    }
    return h;
}

static void print_hash(const setup *s, const char *name, const float *data, size_t count) {
    printf("%s %s %lu %016llx\n", s->name, name, (unsigned long)count,
           (unsigned long long)hash(data, count));
}

static void print_trace(void *user, const char *name, const float *data, const int shape[4]) {
    char text[160];
    size_t count = 1;
    int length = snprintf(text, sizeof text, "trace %s [", name);
    for (int i = 0; i < 4 && shape[i] > 0; i++) {
        count *= (size_t)shape[i];
        length += snprintf(text + length, sizeof text - (size_t)length, i ? " %d" : "%d", shape[i]);
    }
    snprintf(text + length, sizeof text - (size_t)length, "]");
    print_hash(user, text, data, count);
}

static void *allocate(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (memory) return memory;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

/* --- inputs --------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Returns `count` numbers from [-1, 1), uniformly distributed. */
static float *make_input(size_t count) {
    float *input = allocate(count * sizeof *input);
    uint32_t state = 2026;
    for (size_t i = 0; i < count; i++) input[i] = (float)next_random(&state) / 8388608.0f - 1.0f;
    return input;
}

/* Returns a mask that hides a third of the tokens. */
static uint8_t *make_mask(size_t count) {
    uint8_t *mask = allocate(count);
    for (size_t i = 0; i < count; i++) mask[i] = i % 3 != 1;
    return mask;
}

/* --- forward passes ------------------------------------------------------- */

enum { LOGITS = 1, EMBEDDING = 2, TOKENS = 4, ATTENTION = 8 };

/* Returns the outputs that `wanted` requests and the model has. `sizes` receives how many numbers
 * each of them has for one image. *block receives the attention. */
static vit_outputs make_outputs(const vit_model *model, int wanted, vit_block_output *block,
                                size_t sizes[4]) {
    const vit_config *c = &model->config;
    const size_t tokens = (size_t)c->num_tokens;
    vit_outputs o = { 0 };
    if (c->num_classes == 0) wanted &= ~LOGITS;
    if (c->depth == 0) wanted &= ~ATTENTION;
    sizes[0] = wanted & LOGITS ? (size_t)c->num_classes : 0;
    sizes[1] = wanted & EMBEDDING ? (size_t)vit_embedding_dim(model) : 0;
    sizes[2] = wanted & TOKENS ? tokens * (size_t)c->embed_dim : 0;
    sizes[3] = wanted & ATTENTION ? (size_t)c->num_heads * tokens * tokens : 0;
    if (sizes[0]) o.logits = allocate(MAX_BATCH * sizes[0] * sizeof(float));
    if (sizes[1]) o.embedding = allocate(MAX_BATCH * sizes[1] * sizeof(float));
    if (sizes[2]) o.tokens = allocate(MAX_BATCH * sizes[2] * sizeof(float));
    if (sizes[3]) block->attention = allocate(MAX_BATCH * sizes[3] * sizeof(float));
    o.blocks = block;
    o.num_blocks = sizes[3] != 0;
    return o;
}

static void free_outputs(vit_outputs *o) {
    free(o->logits);
    free(o->embedding);
    free(o->tokens);
    free(o->blocks->attention);
}

static vit_result forward(const vit_model *model, const setup *s, void *workspace, size_t size,
                          const vit_outputs *outputs) {
    const vit_config *c = &model->config;
    const size_t batch = (size_t)s->batch;
    float *input = make_input(batch * (size_t)c->in_chans * (size_t)c->img_height *
                              (size_t)c->img_width);
    uint8_t *mask = s->masked ? make_mask(batch * (size_t)c->num_tokens) : NULL;
    vit_session session;
    vit_result result = vit_session_init(&session, model, &s->params, workspace, size);
#if VIT_ABI < 4
    if (result == VIT_OK) result = vit_forward_masked(&session, input, mask, s->batch, outputs);
#else
    const vit_input in = { .pixels = input, .batch = s->batch, .mask = mask };
    if (result == VIT_OK) result = vit_forward(&session, &in, outputs);
#endif
    free(mask);
    free(input);
    return result;
}

/* Builds before VIT_ABI 4 lowered max_batch to the number of images that fit the caches, except in
 * runs with a trace. Later builds do this if .batch is 0. */
static void run(const vit_model *model, setup *s, int wanted, int block) {
    static const char *const names[] = { "logits", "embedding", "tokens", "attention" };
    size_t sizes[4];
#if VIT_ABI == 1 /* Version 1 counted blocks from 1, and 0 was the last block. */
    vit_block_output maps = { block, 0, NULL, NULL };
#else
    vit_block_output maps = { NULL, NULL, block - 1, 0 };
#endif
    vit_outputs outputs = make_outputs(model, wanted, &maps, sizes);
    const float *const data[] = { outputs.logits, outputs.embedding, outputs.tokens,
                                  maps.attention };
#if VIT_ABI < 4
    s->params.max_batch = s->together;
#else
    s->params.batch = s->params.trace ? s->together : 0;
#endif
    const size_t size = vit_workspace_size(model, &s->params);
    void *workspace = allocate(size);
    vit_result result = forward(model, s, workspace, size, &outputs);
    printf("%s workspace %lu: %d\n", s->name, (unsigned long)size, result);
    for (int i = 0; i < 4; i++)
        if (data[i]) print_hash(s, names[i], data[i], (size_t)s->batch * sizes[i]);
    free(workspace);
    free_outputs(&outputs);
}

/* Requests several sets of outputs one after the other, because a run computes only the outputs
 * that are requested. */
static void run_outputs(const vit_model *model, setup *s, const char *how) {
    const int head = model->config.num_classes > 0 ? LOGITS : EMBEDDING;
    const size_t length = strlen(s->name);
    for (int low = 0; low <= 1; low++) {
        s->params.low_memory = low;
        snprintf(s->name + length, sizeof s->name - length, "%s%s", how, low ? " low" : "");
        run(model, s, head, 0);
        run(model, s, EMBEDDING | TOKENS | ATTENTION, 1);
    }
    s->params.low_memory = 0;
    s->params.trace = print_trace;
    s->params.trace_user = s;
    snprintf(s->name + length, sizeof s->name - length, "%s traced", how);
    run(model, s, LOGITS | EMBEDDING | TOKENS | ATTENTION, 0);
    s->params.trace = NULL;
    s->name[length] = '\0';
}

static void run_batches(const vit_model *model, setup *s) {
    static const int batches[][2] = { { 1, 1 }, { 3, 3 }, { 3, 2 } };
    const size_t length = strlen(s->name);
    for (int i = 0; i < 3; i++) {
        s->batch = batches[i][0];
        s->together = batches[i][1];
        snprintf(s->name + length, sizeof s->name - length, " batch %d of %d", batches[i][1],
                 s->batch);
        run_outputs(model, s, "");
    }
    s->name[length] = '\0';
    s->batch = s->together = 1;
    s->masked = 1;
    run_outputs(model, s, " masked");
    s->masked = 0;
}

static void run_all(const vit_model *model, const char *size) {
    for (int isa = VIT_ISA_SCALAR; isa < VIT_NUM_ISAS; isa++) {
        if (!vit_has_isa((vit_isa)isa)) continue;
        for (int threads = 1; threads <= 2; threads++) {
            vit_threads *pool = NULL;
            setup s;
            memset(&s, 0, sizeof s);
            s.params.isa = (vit_isa)isa;
            if (threads > 1 && vit_threads_create(threads, &pool, &s.params.executor)) exit(1);
            snprintf(s.name, sizeof s.name, "%s%s, %d threads", size, vit_isa_name((vit_isa)isa),
                     threads);
            run_batches(model, &s);
            vit_threads_destroy(pool);
        }
    }
}

/* Runs a dynamic model at three other input sizes. One is larger, one is oblong, and one is not a
 * multiple of the patch size. */
static void run_resized(vit_model *model) {
    const int patch = model->config.patch_size;
    const int height = model->config.img_height, width = model->config.img_width;
    const int sizes[][2] = { { height + patch, width + 2 * patch },
                             { height, 2 * patch },
                             { height + 1, width + patch / 2 } };
    for (int i = 0; i < 3; i++) {
        char name[48];
        vit_result result = vit_model_resize(model, sizes[i][0], sizes[i][1]);
        snprintf(name, sizeof name, "resized to %dx%d: ", sizes[i][0], sizes[i][1]);
        printf("%s%d\n", name, result);
        if (result == VIT_OK) run_all(model, name);
    }
}

/* --- preprocessing -------------------------------------------------------- */

static void preprocess(const vit_model *model, int width, int height, vit_pixel format) {
    static const int bytes[] = { 3, 4, 1 };
    const vit_config *c = &model->config;
    const size_t count = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    const int stride = width * bytes[format] + width % 5;
    const size_t size = (size_t)stride * (size_t)height;
    uint8_t *pixels = allocate(size);
    float *input = allocate(count * sizeof *input);
    uint32_t state = (uint32_t)width;
    vit_image image = { 0 };
    setup s;
    vit_result result;
    for (size_t i = 0; i < size; i++) pixels[i] = (uint8_t)(next_random(&state) >> 12);
    image.pixels = pixels;
    image.width = width;
    image.height = height;
    image.stride = stride;
    image.format = format;
    result = vit_preprocess(model, &image, input, NULL, 0);
    snprintf(s.name, sizeof s.name, "preprocess %dx%d, format %d, scratch %lu: %d", width, height,
             format, (unsigned long)vit_preprocess_size(model, &image), result);
    print_hash(&s, "input", input, count);
    free(input);
    free(pixels);
}

static void preprocess_all(const vit_model *model) {
    static const int sizes[][2] = { { 1, 1 }, { 7, 3 }, { 31, 50 }, { 640, 1 }, { 225, 223 } };
    for (int i = 0; i < 5; i++)
        for (int format = VIT_PIXEL_RGB8; format <= VIT_PIXEL_GRAY8; format++)
            preprocess(model, sizes[i][0], sizes[i][1], (vit_pixel)format);
}

/* --- all of it ------------------------------------------------------------ */

int main(int argc, char **argv) {
    vit_model model;
    if (argc != 2) {
        fprintf(stderr, "usage: compare_builds MODEL.vit\n");
        return 2;
    }
    if (vit_model_open(argv[1], VIT_OPEN_VERIFY, &model)) {
        fprintf(stderr, "%s: %s\n", argv[1], model.detail);
        return 1;
    }
    preprocess_all(&model);
    run_all(&model, "");
    if (model.config.dynamic_img_size) run_resized(&model);
    vit_model_close(&model);
    return 0;
}
