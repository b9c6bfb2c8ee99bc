/* test_parity.c - compares every traced tensor of every fixture with PyTorch, on every kernel tier.
 *
 *     test_parity FIXTURES MODEL.vit...
 *
 * A model is named CASE.FORM.DTYPE.vit ("dist.legacy.f32.vit"); FIXTURES/CASE/expected.safetensors
 * has PyTorch's tensors. If FIXTURES/CASE/size exists, it has the images' size.
 * tests/test_parity.sh converts the fixtures and calls this program.
 *
 * Checks for each model:
 *   f32     each tensor within 1e-5 of PyTorch's, relative to its own maximum; f16 likewise if the
 *           checkpoint itself is f16, because conversion then loses nothing
 *   others  logits (or embedding) within the bound of dtype_bounds. These models are small and
 *           random, so their errors are larger than those of a trained model.
 *           tests/test_random.c checks the same types with a strict bound, step by step
 *   all     the same bits for every tier, 1, 2 and 3 threads, every value of `batch` and `together`,
 *           any requested outputs, traced or not, and any executor
 */
#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "../vit.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 5, MAX_TENSORS = 128, MAX_NAME = 64, MAX_THREADS = 3, MAX_DEPTH = 4 };

/* --- results of a run ----------------------------------------------------- */

typedef struct traced_tensor {
    char name[MAX_NAME];
    /* The number of floats of one image. */
    size_t size;
    /* The number of images that have been traced. */
    int images;
    /* The values of all images: [IMAGES, size]. */
    float *data;
} traced_tensor;

typedef struct run_result {
    traced_tensor tensors[MAX_TENSORS];
    int num_tensors;
    bool overflow;
    float *logits, *embedding, *tokens, *attention;
} run_result;

typedef struct run_options {
    vit_isa isa;
    vit_executor executor;
    int batch, together;
    bool trace;
    bool logits, embedding, tokens, attention;
    int attention_block;
    /* For each block in turn, the tokens and then the attention of `batch` images. NULL if not
     * requested. */
    float *blocks;
} run_options;

typedef struct fixture {
    const char *name, *case_name;
    vit_dtype dtype;
    vit_model model;
    checkpoint *expected;
    float *images;
    size_t image_size, logits_size, embedding_size, tokens_size, attention_size;
    /* The result in plain C, on one thread, image by image, with all outputs but attention. */
    run_result base;
    double worst;
    char worst_name[MAX_NAME];
} fixture;

static void *allocate(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        printf("out of memory\n");
        exit(2);
    }
    return p;
}

static void free_result(run_result *r) {
    for (int i = 0; i < r->num_tensors; i++) {
        free(r->tensors[i].data);
    }
    free(r->logits);
    free(r->embedding);
    free(r->tokens);
    free(r->attention);
    memset(r, 0, sizeof *r);
}

static traced_tensor *find_traced(run_result *r, const char *name) {
    for (int i = 0; i < r->num_tensors; i++) {
        if (strcmp(r->tensors[i].name, name) == 0) {
            return &r->tensors[i];
        }
    }
    return NULL;
}

static traced_tensor *add_traced(run_result *r, const char *name, size_t size) {
    if (r->num_tensors == MAX_TENSORS || strlen(name) >= MAX_NAME) {
        r->overflow = true;
        return NULL;
    }
    traced_tensor *t = &r->tensors[r->num_tensors++];
    strcpy(t->name, name);
    t->size = size;
    t->images = 0;
    t->data = allocate(IMAGES * size, sizeof(float));
    return t;
}

/* Records a traced tensor. If a batch is larger than `together`, it is computed in several pieces,
 * and each piece appends its images. */
static void record(void *user, const char *name, const float *data, const int shape[4]) {
    run_result *r = user;
    size_t size = 1;
    for (int i = 1; i < 4 && shape[i] != 0; i++) {
        size *= (size_t)shape[i];
    }
    traced_tensor *t = find_traced(r, name);
    if (!t) {
        t = add_traced(r, name, size);
    }
    if (!t || t->size != size || shape[0] < 1 || t->images + shape[0] > IMAGES) {
        r->overflow = true;
        return;
    }
    memcpy(t->data + (size_t)t->images * size, data, (size_t)shape[0] * size * sizeof(float));
    t->images += shape[0];
}

/* --- running -------------------------------------------------------------- */

/* Fills an image with numbers from a 32-bit LCG. Each image has its own sequence, as in
 * make_fixtures.py. */
static void fixture_image(int index, float *image, size_t count) {
    uint32_t r = (uint32_t)(index + 1) * 2654435761u;
    for (size_t i = 0; i < count; i++) {
        r = r * 1664525u + 1013904223u;
        image[i] = (float)(r >> 8) / 8388608.0f - 1.0f;
    }
}

/* Lists the requested outputs of blocks: the tokens and attention of all blocks, or the attention
 * of one block. */
static int list_blocks(const fixture *f, const run_options *o, float *attention,
                       vit_block_output list[MAX_DEPTH]) {
    size_t tokens = (size_t)o->batch * f->tokens_size;
    size_t each = tokens + (size_t)o->batch * f->attention_size;
    if (!o->blocks) {
        list[0] = (vit_block_output){ NULL, attention, o->attention_block, 0 };
        return o->attention;
    }
    for (int i = 0; i < f->model.config.depth; i++) {
        float *at = o->blocks + (size_t)i * each;
        list[i] = (vit_block_output){ at, at + tokens, i, 0 };
    }
    return f->model.config.depth;
}

/* Runs `batch` images of the fixture, beginning with image `first`. */
static void run(const fixture *f, const run_options *o, int first, run_result *out) {
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    vit_block_output blocks[MAX_DEPTH];
    size_t batch = (size_t)o->batch;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    memset(out, 0, sizeof *out);
    params.batch = o->together;
    params.isa = o->isa;
    params.executor = o->executor;
    params.trace = o->trace ? record : NULL;
    params.trace_user = out;
    if (o->logits && f->logits_size) {
        outputs.logits = out->logits = allocate(batch * f->logits_size, sizeof(float));
    }
    if (o->embedding) {
        outputs.embedding = out->embedding = allocate(batch * f->embedding_size, sizeof(float));
    }
    if (o->tokens) {
        outputs.tokens = out->tokens = allocate(batch * f->tokens_size, sizeof(float));
    }
    if (o->attention) {
        out->attention = allocate(batch * f->attention_size, sizeof(float));
    }
    outputs.blocks = blocks;
    outputs.num_blocks = list_blocks(f, o, out->attention, blocks);
    size_t size = vit_workspace_size(&f->model, &params);
    void *workspace = allocate(size, 1);
    vit_result result = vit_session_init(&session, &f->model, &params, workspace, size);
    CHECK_MSG(result == VIT_OK, "%s: vit_session_init: %s", f->name, vit_result_string(result));
    if (result == VIT_OK) {
        result = vit_forward(
            &session,
            &(vit_input){ .pixels = f->images + (size_t)first * f->image_size, .batch = o->batch },
            &outputs);
        CHECK_MSG(result == VIT_OK, "%s: vit_forward: %s", f->name, vit_result_string(result));
    }
    CHECK_MSG(!out->overflow, "%s: trace of unexpected shape or length", f->name);
    free(workspace);
}

static run_options everything(const fixture *f) {
    run_options o;
    memset(&o, 0, sizeof o);
    o.isa = VIT_ISA_SCALAR;
    o.batch = 1;
    o.together = 1;
    o.trace = true;
    o.logits = f->logits_size != 0;
    o.embedding = o.tokens = true;
    return o;
}

/* --- comparing bits ------------------------------------------------------- */

static size_t first_difference(const float *a, const float *b, size_t count) {
    size_t i = memcmp(a, b, count * sizeof *a) == 0 ? count : 0;
    while (i < count && memcmp(a + i, b + i, sizeof(float)) == 0) {
        i++;
    }
    return i;
}

/* Compares an output with the base run's, for the images from `first` on. Each image has `size`
 * numbers. `got` is NULL for an output that was not requested. */
static int same_output(const fixture *f, const char *what, const char *name, const float *got,
                       const float *base, size_t first, size_t size, size_t batch) {
    size_t count = size * batch, differ;
    if (!got || !size) {
        return 0;
    }
    differ = first_difference(got, base + first * size, count);
    CHECK_MSG(differ == count, "%s: %s: %s differs from the base run at %lu of %lu", f->name, what,
              name, (unsigned long)differ, (unsigned long)count);
    return 1;
}

/* Checks that a run of images `first` to `first + batch - 1` gives the same bits as the base run
 * gives for these images. The base run has no attention. */
static void same_bits(const fixture *f, const char *what, const run_result *r, int first,
                      int batch) {
    const run_result *base = &f->base;
    size_t at = (size_t)first, n = (size_t)batch;
    bool listed = r->num_tensors == base->num_tensors;
    int compared = 0;
    compared += same_output(f, what, "logits", r->logits, base->logits, at, f->logits_size, n);
    compared += same_output(f, what, "embedding", r->embedding, base->embedding, at,
                            f->embedding_size, n);
    compared += same_output(f, what, "tokens", r->tokens, base->tokens, at, f->tokens_size, n);
    for (int i = 0; listed && i < r->num_tensors; i++) {
        const traced_tensor *a = &r->tensors[i], *b = &base->tensors[i];
        listed = strcmp(a->name, b->name) == 0 && a->images == batch && a->size == b->size;
    }
    CHECK_MSG(listed || r->num_tensors == 0,
              "%s: %s: other tensors are traced than in the base run", f->name, what);
    for (int i = 0; listed && i < r->num_tensors; i++) {
        compared += same_output(f, what, r->tensors[i].name, r->tensors[i].data,
                                base->tensors[i].data, at, base->tensors[i].size, n);
    }
    CHECK_MSG(compared > 0 || r->attention, "%s: %s: nothing to compare", f->name, what);
}

/* --- comparing with PyTorch ----------------------------------------------- */

/* Returns max|a - b| / max|b|. If a difference is NaN or above 1e30, the result is 1e30. */
static double relative_error(const float *a, const float *b, size_t count) {
    double top = 0, error = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        if (!(difference <= 1e30)) {
            return 1e30;
        }
        error = fmax(error, difference);
        top = fmax(top, fabs((double)b[i]));
    }
    return top > 0 ? error / top : error;
}

static float *read_expected(const fixture *f, const char *name, size_t *count) {
    report r = report_make();
    const checkpoint_tensor_info *info = checkpoint_find(f->expected, name);
    if (!info) {
        return NULL;
    }
    float *data = allocate((size_t)info->count, sizeof(float));
    bool ok = checkpoint_read(f->expected, info, 0, info->count, data, &r);
    CHECK_MSG(ok, "%s: %s", f->name, r.text);
    *count = (size_t)info->count;
    return data;
}

static double compare(fixture *f, const char *name, const float *got, size_t available,
                      double tolerance) {
    size_t count = 0;
    float *expected = read_expected(f, name, &count);
    double error = 0;
    if (!expected) {
        return -1;
    }
    CHECK_MSG(count <= available && count > 0, "%s: %s has %lu numbers, %lu expected", f->name,
              name, (unsigned long)available, (unsigned long)count);
    if (count <= available) {
        error = relative_error(got, expected, count);
        CHECK_MSG(error <= tolerance, "%s: %s: relative error %.2e", f->name, name, error);
        if (error >= f->worst) {
            f->worst = error;
            snprintf(f->worst_name, sizeof f->worst_name, "%s", name);
        }
    }
    free(expected);
    return error;
}

/* Compares the pooled tensor with the first row of "norm", because the fixtures of the plain ViT
 * have no tensor "pool". */
static void compare_class_token(const fixture *f, const traced_tensor *pool, double tolerance) {
    size_t count = 0, image = f->tokens_size;
    float *expected = read_expected(f, "norm", &count);
    CHECK_MSG(expected && f->model.config.pool == VIT_POOL_TOKEN, "%s: pool traced, not expected",
              f->name);
    for (size_t i = 0; expected && i < count / image; i++) {
        double error = relative_error(pool->data + i * pool->size, expected + i * image,
                                      pool->size);
        CHECK_MSG(error <= tolerance, "%s: pool: relative error %.2e", f->name, error);
    }
    free(expected);
}

/* Compares all traced tensors with the expected ones. A model without a head has no expected
 * logits, and a model without a representation layer has no expected pre_logits. tokens197 has only
 * some tensors, to stay small. All other tensors must exist. For modules of other libraries, only
 * the outputs are known. */
static void compare_traced(fixture *f, double tolerance) {
    if (strncmp(f->case_name, "lib_", 4) == 0) {
        CHECK(checkpoint_find(f->expected, "logits") || checkpoint_find(f->expected, "embedding"));
        return;
    }
    bool partial = strcmp(f->case_name, "tokens197") == 0;
    int compared = 0;
    for (int i = 0; i < f->base.num_tensors; i++) {
        traced_tensor *t = &f->base.tensors[i];
        double error = compare(f, t->name, t->data, IMAGES * t->size, tolerance);
        if (error < 0 && strcmp(t->name, "pool") == 0) {
            compare_class_token(f, t, tolerance);
            continue;
        }
        CHECK_MSG(partial || error >= 0, "%s: %s traced, not expected", f->name, t->name);
        compared += error >= 0;
    }
    for (size_t i = 0; i < checkpoint_count(f->expected); i++) {
        const char *name = checkpoint_tensor(f->expected, i)->name;
        bool is_output = strcmp(name, "logits") == 0 || strcmp(name, "embedding") == 0 ||
                         strncmp(name, "attention.", 10) == 0;
        CHECK_MSG(is_output || find_traced(&f->base, name), "%s: %s never traced", f->name, name);
    }
    CHECK(compared >= 5);
}

/* Compares the tokens and the attention of all blocks, which come from one run. */
static void compare_blocks(fixture *f, double tolerance) {
    size_t tokens = IMAGES * f->tokens_size, maps = IMAGES * f->attention_size;
    size_t depth = (size_t)f->model.config.depth;
    run_result r;
    run_options o = everything(f);
    o.batch = IMAGES;
    o.together = 2;
    o.isa = VIT_ISA_AUTO;
    o.blocks = allocate(depth * (tokens + maps), sizeof(float));
    run(f, &o, 0, &r);
    same_bits(f, "all blocks", &r, 0, IMAGES);
    for (size_t i = 0; i < depth; i++) {
        const float *at = o.blocks + i * (tokens + maps);
        char name[MAX_NAME];
        snprintf(name, sizeof name, "blocks.%d", (int)i);
        compare(f, name, at, tokens, tolerance);
        snprintf(name, sizeof name, "attention.%d", (int)i + 1);
        compare(f, name, at + tokens, maps, tolerance);
    }
    free(o.blocks);
    free_result(&r);
}

/* --- the order of the trace ----------------------------------------------- */

static int expect_name(const fixture *f, int at, const char *format, int block) {
    char name[MAX_NAME];
    const char *got = at < f->base.num_tensors ? f->base.tensors[at].name : "(nothing)";
    /* `format` is one of the literals below. */
    snprintf(name, sizeof name, "%s", format);
    if (format[0] == '.' || format[0] == 0) {
        snprintf(name, sizeof name, "blocks.%d%s", block, format);
    }
    CHECK_MSG(strcmp(name, got) == 0, "%s: tensor %d of the trace is %s, not %s", f->name, at, got,
              name);
    return at + 1;
}

static int check_block_order(const fixture *f, int block, int at) {
    const vit_config *c = &f->model.config;
    const bool first = c->block_type == VIT_BLOCK_PRE_NORM;
    const bool all = c->attention == VIT_ATTENTION_ALL;
    at = first ? expect_name(f, at, ".norm1", block) : at;
    at = all ? expect_name(f, at, ".attn.qkv", block) : at;
    at = c->has_qk_norm ? expect_name(f, at, ".attn.qk_norm", block) : at;
    at = all ? expect_name(f, at, ".attn.context", block) : at;
    at = c->has_attn_norm ? expect_name(f, at, ".attn.norm", block) : at;
    at = expect_name(f, at, ".attn.proj", block);
    at = expect_name(f, at, ".attn", block);
    if (c->mlp_dim == 0) {
        return expect_name(f, at, "", block);
    }
    at = first ? expect_name(f, at, ".norm2", block) : at;
    at = expect_name(f, at, ".mlp.fc1", block);
    at = expect_name(f, at, ".mlp.act", block);
    at = c->has_mlp_norm ? expect_name(f, at, ".mlp.norm", block) : at;
    at = expect_name(f, at, ".mlp.fc2", block);
    return expect_name(f, at, "", block);
}

static void check_trace_order(const fixture *f) {
    const vit_config *c = &f->model.config;
    int at = c->has_patch_pre_norm ? expect_name(f, 0, "patch_embed.pre_norm", 0) : 0;
    at = expect_name(f, at, "patch_embed", 0);
    at = expect_name(f, at, "pos_embed", 0);
    at = c->has_pre_norm ? expect_name(f, at, "norm_pre", 0) : at;
    for (int block = 0; block < c->depth; block++) {
        at = check_block_order(f, block, at);
    }
    at = expect_name(f, at, "norm", 0);
    at = expect_name(f, at, "pool", 0);
    at = c->has_fc_norm ? expect_name(f, at, "fc_norm", 0) : at;
    at = c->representation_dim ? expect_name(f, at, "pre_logits", 0) : at;
    at = c->num_classes ? expect_name(f, at, "head", 0) : at;
    at = c->num_classes && c->has_dist_token ? expect_name(f, at, "head_dist", 0) : at;
    CHECK_MSG(at == f->base.num_tensors, "%s: %d tensors traced, %d expected", f->name,
              f->base.num_tensors, at);
}

/* --- executors ------------------------------------------------------------ */

static void run_backwards(void *user, int count, vit_task *task, void *arg) {
    (void)user;
    for (int i = count - 1; i >= 0; i--) {
        task(arg, i);
    }
}

static int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

/* Runs the tasks in a shuffled order. The i-th task has the index 7 i + count / 2, modulo count. If
 * the factor 7 would repeat an index, the factor is 8, 9 and so on. */
static void run_shuffled(void *user, int count, vit_task *task, void *arg) {
    int stride = 7;
    (void)user;
    while (common_divisor(stride, count) > 1) {
        stride++;
    }
    for (int i = 0; i < count; i++) {
        task(arg, (int)(((long)i * stride + count / 2) % count));
    }
}

typedef struct foreign_thread {
    pthread_t thread;
    vit_task *task;
    void *arg;
    int index, count, stride;
} foreign_thread;

static void *foreign_main(void *user) {
    foreign_thread *t = user;
    for (int i = t->count - 1 - t->index; i >= 0; i -= t->stride) {
        t->task(t->arg, i);
    }
    return NULL;
}

/* An executor that makes new threads in each call, and runs nothing on the calling thread. */
static void run_foreign(void *user, int count, vit_task *task, void *arg) {
    foreign_thread threads[MAX_THREADS];
    int n = *(const int *)user;
    for (int i = 0; i < n; i++) {
        threads[i].task = task;
        threads[i].arg = arg;
        threads[i].index = i;
        threads[i].count = count;
        threads[i].stride = n;
        if (pthread_create(&threads[i].thread, NULL, foreign_main, &threads[i]) != 0) {
            printf("pthread_create failed\n");
            exit(2);
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i].thread, NULL);
    }
}

/* --- the variations ------------------------------------------------------- */

static vit_threads *pools[MAX_THREADS + 1];
/* The executors with 1, 2 and more threads. executors[1] is the calling thread alone. */
static vit_executor executors[MAX_THREADS + 1];

static void vary_batches(const fixture *f, vit_isa isa, int threads) {
    static const int shapes[][3] = { { 1, 1, 0 }, { 1, 1, 3 }, { 1, 4, 1 }, { 2, 2, 0 },
                                     { 2, 2, 3 }, { 5, 5, 0 }, { 5, 2, 0 }, { 5, 3, 0 } };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char what[96];
        run_result r;
        run_options o = everything(f);
        o.isa = isa;
        o.batch = shapes[i][0];
        o.together = shapes[i][1];
        o.executor = executors[threads];
        snprintf(what, sizeof what, "%s, %d threads, batch %d, together %d", vit_isa_name(isa),
                 threads, o.batch, o.together);
        run(f, &o, shapes[i][2], &r);
        same_bits(f, what, &r, shapes[i][2], o.batch);
        free_result(&r);
    }
}

/* Requests the outputs alone and together, without a trace. A run without one of the outputs must
 * not change a bit of the other outputs. */
static void vary_outputs(const fixture *f, vit_isa isa) {
    run_result base;
    run_options attention = everything(f);
    attention.attention = true;
    attention.batch = 3;
    run(f, &attention, 2, &base);
    for (unsigned mask = f->logits_size ? 1 : 2; mask < 16; mask++) {
        char what[96];
        run_result r;
        run_options o = everything(f);
        o.isa = isa;
        o.trace = false;
        o.batch = 3;
        o.together = 2;
        o.executor = executors[mask % 2 ? 1 : 2];
        o.logits = (mask & 1) != 0 && f->logits_size != 0;
        o.embedding = (mask & 2) != 0;
        o.tokens = (mask & 4) != 0;
        o.attention = (mask & 8) != 0;
        snprintf(what, sizeof what, "%s, untraced, outputs %u", vit_isa_name(isa), mask);
        run(f, &o, 2, &r);
        same_bits(f, what, &r, 2, 3);
        CHECK(same_output(f, what, "attention", r.attention, base.attention, 0, f->attention_size,
                          3) == o.attention);
        free_result(&r);
    }
    free_result(&base);
}

/* Checks the attention of each block. It must have the same bits whether the run is traced or not.
 * Negative block numbers count from the end. */
static void vary_attention(const fixture *f, vit_isa isa) {
    const int depth = f->model.config.depth;
    for (int block = -depth; block < depth; block++) {
        run_result base, r;
        run_options o = everything(f);
        o.batch = o.together = 2;
        o.isa = VIT_ISA_SCALAR;
        o.attention = true;
        o.attention_block = block < 0 ? depth + block : block;
        run(f, &o, 1, &base);
        o.isa = isa;
        o.trace = false;
        o.logits = o.embedding = o.tokens = false;
        o.together = 1;
        o.attention_block = block;
        o.executor = executors[3];
        run(f, &o, 1, &r);
        CHECK(same_output(f, vit_isa_name(isa), "attention", r.attention, base.attention, 0,
                          f->attention_size, 2));
        free_result(&base);
        free_result(&r);
    }
}

static void vary_executors(const fixture *f, vit_isa isa) {
    static int counts[MAX_THREADS + 1] = { 0, 1, 2, 3 };
    for (int n = 1; n <= MAX_THREADS; n++) {
        for (int kind = 0; kind < 3; kind++) {
            static const char *const names[] = { "backwards", "shuffled", "foreign threads" };
            char what[96];
            run_result r;
            run_options o = everything(f);
            o.isa = isa;
            o.batch = o.together = 2;
            o.trace = kind != 1;
            o.executor.parallel_for = kind == 0   ? run_backwards
                                      : kind == 1 ? run_shuffled
                                                  : run_foreign;
            o.executor.user = &counts[n];
            o.executor.num_threads = n;
            snprintf(what, sizeof what, "%s, %s, %d", vit_isa_name(isa), names[kind], n);
            run(f, &o, 0, &r);
            same_bits(f, what, &r, 0, 2);
            free_result(&r);
        }
    }
}

/* Makes a single run, which is enough for an instruction set that shares the kernels of this type
 * with a lower instruction set. */
static void vary_nothing(const fixture *f, vit_isa isa) {
    run_result r;
    run_options o = everything(f);
    o.isa = isa;
    o.batch = IMAGES;
    o.together = 3;
    o.executor = executors[2];
    run(f, &o, 0, &r);
    same_bits(f, vit_isa_name(isa), &r, 0, IMAGES);
    free_result(&r);
}

static bool same_kernels(const vit__kernels *a, const vit__kernels *b, vit_dtype dtype) {
#if VIT__SHAPES
    if (a->gemm[dtype].shape != b->gemm[dtype].shape) {
        return false;
    }
#endif
    return a->gemm[dtype].run == b->gemm[dtype].run && a->gemm[dtype].form == b->gemm[dtype].form;
}

/* Returns true if a lower instruction set has the same kernels, so that its tests would only be
 * repeated. The kernels for the products of attention count too. They use f32, and also bf16 for
 * weights in bf16, or 16-bit integers for int8 and int4. */
static bool is_repeated(const fixture *f, vit_isa isa) {
    const vit__kernels *kernels = vit__choose_kernels(isa);
    FOR_EACH_ISA(lower) {
        const vit__kernels *other = vit__choose_kernels((vit_isa)lower);
        if (lower < (int)isa && same_kernels(kernels, other, f->dtype) &&
            same_kernels(kernels, other, VIT_F32) &&
            (same_kernels(kernels, other, VIT_BF16) || f->dtype != VIT_BF16) &&
            (same_kernels(kernels, other, VIT__I16) || f->dtype <= VIT_BF16)) {
            return true;
        }
    }
    return false;
}

static void vary_everything(const fixture *f) {
    bool large = f->model.config.num_tokens > 100;
    FOR_EACH_ISA_LIKE(isa, VIT_ISA_SCALAR) {
        bool slow = large && isa == VIT_ISA_SCALAR;
        if (is_repeated(f, (vit_isa)isa)) {
            vary_nothing(f, (vit_isa)isa);
            continue;
        }
        for (int threads = slow ? MAX_THREADS : 1; threads <= MAX_THREADS; threads++) {
            vary_batches(f, (vit_isa)isa, threads);
        }
        if (!slow) {
            vary_outputs(f, (vit_isa)isa);
            vary_attention(f, (vit_isa)isa);
            vary_executors(f, (vit_isa)isa);
        }
    }
}

/* --- one model ------------------------------------------------------------ */

static void place(float *to, const float *from, size_t count, int image) {
    if (to && from) {
        memcpy(to + (size_t)image * count, from, count * sizeof(float));
    }
}

/* Makes the base result from five runs of one image each. */
static void make_base(fixture *f) {
    run_result *base = &f->base;
    run_options o = everything(f);
    base->logits = allocate(IMAGES * f->logits_size, sizeof(float));
    base->embedding = allocate(IMAGES * f->embedding_size, sizeof(float));
    base->tokens = allocate(IMAGES * f->tokens_size, sizeof(float));
    for (int image = 0; image < IMAGES; image++) {
        run_result r;
        run(f, &o, image, &r);
        place(base->logits, r.logits, f->logits_size, image);
        place(base->embedding, r.embedding, f->embedding_size, image);
        place(base->tokens, r.tokens, f->tokens_size, image);
        for (int i = 0; i < r.num_tensors; i++) {
            traced_tensor *t = find_traced(base, r.tensors[i].name);
            t = t ? t : add_traced(base, r.tensors[i].name, r.tensors[i].size);
            if (t && t->size == r.tensors[i].size) {
                place(t->data, r.tensors[i].data, t->size, image);
            }
        }
        free_result(&r);
    }
}

static void check_tokens_are_norm(fixture *f) {
    traced_tensor *norm = find_traced(&f->base, "norm");
    CHECK(norm != NULL);
    if (norm) {
        same_output(f, "base", "tokens (against norm)", f->base.tokens, norm->data, 0,
                    f->tokens_size, IMAGES);
    }
}

static void set_sizes(fixture *f) {
    const vit_config *c = &f->model.config;
    size_t tokens = (size_t)c->num_tokens;
    f->image_size = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    f->logits_size = (size_t)c->num_classes;
    f->embedding_size = (size_t)vit_embedding_dim(&f->model);
    f->tokens_size = tokens * (size_t)c->embed_dim;
    f->attention_size = (size_t)c->num_heads * tokens * tokens;
    f->images = allocate(IMAGES * f->image_size, sizeof(float));
    for (int image = 0; image < IMAGES; image++) {
        fixture_image(image, f->images + (size_t)image * f->image_size, f->image_size);
    }
}

/* Bounds for logits or embedding: max|difference| / max|expected|, the cosine, and the share of a
 * hundred images whose best class is that of f32. Measured over all cases: f16 1.9e-3, 1.0000, 99;
 * bf16 2.2e-2, 0.9999, 99; int8 6.9e-2, 0.9969, 98; int4 0.63, 0.8926, 89. */
static const struct {
    const char *name;
    double tolerance, cosine;
    int top1;
} dtype_bounds[VIT_NUM_DTYPES] = {
    { "f32", 1e-5, 1, 100 },    { "f16", 0.005, 0.9999, 95 }, { "bf16", 0.03, 0.9998, 95 },
    { "int8", 0.1, 0.995, 90 }, { "int4", 0.7, 0.85, 75 },
};

/* The number of images with the same best class as f32, and the number of all images, over all
 * cases. */
static int top1_same[VIT_NUM_DTYPES], top1_all[VIT_NUM_DTYPES];

static void count_top1(const fixture *f) {
    size_t count = 0;
    float *expected = read_expected(f, "logits", &count);
    for (int image = 0; expected && image < IMAGES; image++) {
        vit_prediction a, b;
        size_t at = (size_t)image * f->logits_size;
        vit_top_k(expected + at, (int)f->logits_size, 1, &a);
        vit_top_k(f->base.logits + at, (int)f->logits_size, 1, &b);
        top1_all[f->dtype]++;
        top1_same[f->dtype] += a.index == b.index;
    }
    free(expected);
}

static double cosine(const float *a, const float *b, size_t count) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static void compare_cosine(fixture *f, const char *name, const float *got, double bound) {
    size_t count = 0;
    float *expected = read_expected(f, name, &count);
    double found = expected ? cosine(got, expected, count) : -1;
    CHECK_MSG(found >= bound, "%s: %s: cosine %.5f", f->name, name, found);
    free(expected);
}

static void compare_with_pytorch(fixture *f) {
    double tolerance = dtype_bounds[f->dtype].tolerance;
    bool exact = f->dtype == VIT_F32 ||
                 (f->dtype == VIT_F16 && strcmp(f->case_name, "headdim72") == 0);
    const char *name = f->logits_size ? "logits" : "embedding";
    const float *output = f->logits_size ? f->base.logits : f->base.embedding;
    size_t width = f->logits_size ? f->logits_size : f->embedding_size;
    tolerance = exact ? dtype_bounds[VIT_F32].tolerance : tolerance;
    compare(f, name, output, IMAGES * width, tolerance);
    if (exact) {
        compare(f, "embedding", f->base.embedding, IMAGES * f->embedding_size, tolerance);
        compare_traced(f, tolerance);
        compare_blocks(f, tolerance);
    } else {
        compare_cosine(f, name, output, dtype_bounds[f->dtype].cosine);
    }
    if (f->logits_size && !exact) {
        count_top1(f);
    }
}

/* Resizes the model to the size of the fixture's images, if this size differs from that of the
 * file. */
static void resize_fixture(fixture *f, const char *folder) {
    char path[1024];
    int height = 0, width = 0;
    snprintf(path, sizeof path, "%s/%s/size", folder, f->case_name);
    FILE *file = fopen(path, "r");
    if (!file) {
        return;
    }
    CHECK_MSG(fscanf(file, "%dx%d", &height, &width) == 2, "%s", path);
    fclose(file);
    vit_result result = vit_model_resize(&f->model, height, width);
    CHECK_MSG(result == VIT_OK, "%s: %s: %s", path, vit_result_string(result), f->model.detail);
}

static bool open_fixture(fixture *f, const char *folder, const char *path) {
    char expected[1024];
    report r = report_make();
    vit_result result = vit_model_open(path, VIT_OPEN_VERIFY, &f->model);
    CHECK_MSG(result == VIT_OK, "%s: %s: %s", path, vit_result_string(result), f->model.detail);
    if (result != VIT_OK) {
        return false;
    }
    snprintf(expected, sizeof expected, "%s/%s/expected.safetensors", folder, f->case_name);
    bool ok = checkpoint_open(expected, &f->expected, &r);
    CHECK_MSG(ok, "%s", r.text);
    CHECK_MSG(f->model.config.depth <= MAX_DEPTH, "%s: more blocks than room", path);
    if (!ok || f->model.config.depth > MAX_DEPTH) {
        vit_model_close(&f->model);
        return false;
    }
    return true;
}

/* Finds CASE and DTYPE in a path "folder/CASE.FORM.DTYPE.vit". */
static bool parse_name(fixture *f, const char *path, char *case_name, size_t size) {
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *end = strstr(name, ".vit"), *dtype = end;
    snprintf(case_name, size, "%.*s", (int)strcspn(name, "."), name);
    f->name = name;
    f->case_name = case_name;
    while (dtype && dtype > name && dtype[-1] != '.') {
        dtype--;
    }
    for (int i = 0; dtype && i < VIT_NUM_DTYPES; i++) {
        const char *known = dtype_bounds[i].name;
        if (strlen(known) == (size_t)(end - dtype) && strncmp(known, dtype, strlen(known)) == 0) {
            f->dtype = (vit_dtype)i;
            return true;
        }
    }
    return false;
}

static void test_model(const char *folder, const char *path) {
    fixture f;
    char case_name[64];
    memset(&f, 0, sizeof f);
    bool named = parse_name(&f, path, case_name, sizeof case_name);
    CHECK_MSG(named, "%s: not named CASE.FORM.DTYPE.vit", path);
    if (!named || !open_fixture(&f, folder, path)) {
        return;
    }
    resize_fixture(&f, folder);
    set_sizes(&f);
    make_base(&f);
    check_trace_order(&f);
    check_tokens_are_norm(&f);
    compare_with_pytorch(&f);
    vary_everything(&f);
    printf("%-32s largest relative error %.1e  %s\n", f.name, f.worst, f.worst_name);
    free_result(&f.base);
    free(f.images);
    checkpoint_close(f.expected);
    vit_model_close(&f.model);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        printf("usage: test_parity FIXTURES MODEL.vit...\n");
        return 2;
    }
    for (int n = 2; n <= MAX_THREADS; n++) {
        CHECK(vit_threads_create(n, &pools[n], &executors[n]) == VIT_OK);
    }
    for (int i = 2; i < argc; i++) {
        test_model(argv[1], argv[i]);
    }
    for (int n = 2; n <= MAX_THREADS; n++) {
        vit_threads_destroy(pools[n]);
    }
    for (int i = VIT_F16; i < VIT_NUM_DTYPES; i++) {
        printf("best class with %s: %d of %d as in f32\n", dtype_bounds[i].name, top1_same[i],
               top1_all[i]);
        CHECK(100 * top1_same[i] >= dtype_bounds[i].top1 * top1_all[i]);
    }
    return test_summary();
}
