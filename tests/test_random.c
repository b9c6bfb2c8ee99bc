/* test_random.c - compares random architectures with a forward pass in double precision.
 *
 * The reference below follows the definition of the architecture. For layers that round their
 * input, it follows the comments under >>kernels in vit.h. It was written without reading vit.h's
 * layers, and reads weights by name through the public functions. Shapes vary freely: one channel
 * or six, patches of one pixel, widths of any remainder modulo 16, head_dim times num_heads
 * different from embed_dim, no blocks, no head, one type of weights or a different one for each
 * layer.
 *
 * With f32 and f16, the reference computes the whole model. With bf16, int8 and int4, layers round
 * their inputs, so two inputs that differ by 1e-7 may become 4e-3 apart. With these types, the
 * reference computes each step from the tensors that vit.h traced before it, so every step has the
 * same strict bound. Only the rounded weights of the softmax and the steps inside map pooling need
 * a larger bound, because vit.h does not trace them.
 *
 * Each model runs on every tier with one and with three threads, and with all tokens of the last
 * block or only those that the head reads. All runs must give the same bits, except that SSE2,
 * which has no fused multiply-add, gives different bits. The test prints a checksum of the models'
 * files and these bits, and another of the files and SSE2's bits, for the use of tests/cross.sh.
 */
#define VIT_TOOLS
#include "../vit.h"

#include "serial_pool.h"
#include "test.h"
#include "tiny_model.h"

#include <float.h>
#include <stdbool.h>

enum { MODELS = 640, STEMS = 90, OWN = 240, BATCH = 2, MAX_TRACED = 240, MAX_DEPTH = 2 };

/* The largest accepted relative errors. Over seven seeds, the largest measured errors are 7.1e-6,
 * and 1.9e-5 if differential attention subtracts nearly equal maps. If weights of the softmax are
 * rounded, the largest error is 3.4e-5. The error is 7e-4 if a mask leaves only a few weights,
 * because each weight that vit.h and the reference round differently then counts more. A reference
 * that did not round these weights would be off by 1e-2. */
static const double strict = 5e-5, rounded_softmax = 2e-3, rounded_pool = 0.05;
static double worst_softmax;
static vit_hash bits, sse2_bits;
/* The instruction set whose results are compared with the reference. */
static vit_isa base_isa;

static uint32_t seed = 2026;

static int pick(int low, int high) {
    seed = seed * 1664525u + 1013904223u;
    return low + (int)((seed >> 8) % (uint32_t)(high - low + 1));
}

/* --- the trace of vit.h ---------------------------------------------------- */

typedef struct traced_tensor {
    char name[64];
    int image;
    size_t count;
    float *data;
} traced_tensor;

typedef struct traced_run {
    traced_tensor tensors[MAX_TRACED];
    int num_tensors;
} traced_run;

/* Records a traced tensor. If images are computed one at a time, the trace repeats the names for
 * each image. */
static void record(void *user, const char *name, const float *data, const int shape[4]) {
    traced_run *run = user;
    traced_tensor *t = &run->tensors[run->num_tensors];
    if (run->num_tensors == MAX_TRACED || shape[0] != 1 || strlen(name) >= sizeof t->name) {
        CHECK_MSG(0, "unexpected trace of %s", name);
        return;
    }
    strcpy(t->name, name);
    t->image = 0;
    for (int i = 0; i < run->num_tensors; i++) {
        t->image += strcmp(run->tensors[i].name, name) == 0;
    }
    t->count = (size_t)shape[1] * (size_t)(shape[2] ? shape[2] : 1);
    t->count *= (size_t)(shape[3] ? shape[3] : 1);
    t->data = tiny_allocate(t->count * sizeof(float));
    memcpy(t->data, data, t->count * sizeof(float));
    run->num_tensors++;
}

static const traced_tensor *find_traced(const traced_run *run, const char *name, int image) {
    for (int i = 0; i < run->num_tensors; i++) {
        if (run->tensors[i].image == image && strcmp(run->tensors[i].name, name) == 0) {
            return &run->tensors[i];
        }
    }
    return NULL;
}

static void traced_free(traced_run *run) {
    for (int i = 0; i < run->num_tensors; i++) {
        free(run->tensors[i].data);
    }
}

/* --- the reference -------------------------------------------------------- */

typedef struct reference {
    const vit_model *model;
    const traced_run *traced;
    const char *what;
    int image;
    /* True if any layer rounds its input. */
    bool rounds;
    size_t tokens, dim;
    /* The input: one image or one text. */
    const float *input;
    /* The mask, [N], or NULL. */
    const uint8_t *mask;
    /* The tokens: [N, D]. */
    double *x;
    /* The output of norm1, which parallel branches share: [N, D]. */
    double *shared;
    double *tokens_out, *merged, *pooled, *attention, *embedding, *logits;
    double worst;
} reference;

static double *doubles(size_t count) { return tiny_allocate(count * sizeof(double)); }

static double relative_error(const float *got, const double *wanted, size_t n) {
    double worst = 0, top = 1e-30;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - wanted[i]);
        if (!(difference < 1e30)) {
            return 1e30; /* NaN counts as the largest possible error. */
        }
        worst = fmax(worst, difference);
        top = fmax(top, fabs(wanted[i]));
    }
    return worst / top;
}

/* Compares the result of a step with the traced tensor `name`. If layers round their inputs, the
 * traced values then replace the result. */
static void step(reference *f, const char *name, double *values, size_t count, double tolerance) {
    const traced_tensor *t = find_traced(f->traced, name, f->image);
    CHECK_MSG(t && t->count == count, "%s: no %s traced, or of another size", f->what, name);
    if (!t || t->count != count) {
        return;
    }
    double error = relative_error(t->data, values, count);
    CHECK_MSG(error < tolerance, "%s: %s: %.1e", f->what, name, error);
    if (tolerance <= strict) {
        f->worst = fmax(f->worst, error);
    } else if (tolerance <= rounded_softmax) {
        worst_softmax = fmax(worst_softmax, error);
    }
    for (size_t i = 0; f->rounds && i < count; i++) {
        values[i] = (double)t->data[i];
    }
}

static void block_step(reference *f, int block, const char *name, double *values, size_t count) {
    char full[64];
    snprintf(full, sizeof full, "blocks.%d%s", block, name);
    step(f, full, values, count, strict);
}

static bool find_tensor(const vit_model *model, const char *name, vit_tensor *t) {
    for (int i = 0; vit_model_tensor(model, i, t); i++) {
        if (strcmp(t->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns a tensor as doubles, in the shape [rows, all other dimensions], or NULL if there is no
 * tensor of this name. */
static double *weights(const vit_model *model, const char *name) {
    vit_tensor t;
    if (!find_tensor(model, name, &t)) {
        return NULL;
    }
    size_t count = tiny_count(&t), width = count / (size_t)t.dims[0];
    float *row = tiny_allocate(width * sizeof(float));
    double *all = doubles(count);
    for (int r = 0; r < t.dims[0]; r++) {
        vit_unpack_row(&t, r, row);
        for (size_t k = 0; k < width; k++) {
            all[(size_t)r * width + k] = (double)row[k];
        }
    }
    free(row);
    return all;
}

static double *block_weights(const vit_model *model, int block, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    return weights(model, full);
}

static vit_dtype block_dtype(const vit_model *model, int block, const char *name) {
    char full[64];
    vit_tensor t;
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    CHECK(find_tensor(model, full, &t));
    return t.dtype;
}

/* Returns the nearest number with 8 significant bits. Ties go to the even number. */
static double round_bf16(double x) {
    int exponent;
    double fraction = frexp((double)(float)x, &exponent);
    return ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

/* Rounds a row as an int8 layer does. 254.99 steps make up the range of the row, which is extended
 * to include zero. Zero stays exact. */
static void round_u8(const double *x, size_t n, double *out) {
    float low = 0, high = 0, scale = 0, inverse = 0;
    int outside = 0;
    for (size_t i = 0; i < n; i++) {
        low = fminf(low, (float)x[i]);
        high = fmaxf(high, (float)x[i]);
    }
    if (high - low > 1e-30f) {
        scale = (high - low) / 254.99f;
        inverse = 254.99f / (high - low);
    }
    double zero = nearbyint(test_scaled(-low, inverse, TEST_ROUNDS_TWICE(base_isa)));
    for (size_t i = 0; i < n; i++) {
        double q = nearbyint(test_scaled((float)x[i], inverse, TEST_ROUNDS_TWICE(base_isa)) + zero);
        outside += q < 0 || q > 255;
        out[i] = (double)scale * (q - zero);
    }
    CHECK(outside == 0);
}

/* Rounds a row of inputs as a layer of this type does. */
static void round_row(vit_dtype dtype, const double *x, size_t n, double *out) {
    if (dtype == VIT_I8 || dtype == VIT_I4) {
        round_u8(x, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = dtype == VIT_BF16 ? round_bf16(x[i]) : x[i];
    }
}

/* Returns a * b + c, rounded once. The fmaf of Windows is wrong in the last bit. Here the sum in
 * double is rounded to odd (Boldo and Melquiond, 2008), so that its float is the one nearest to the
 * exact sum. */
static float fused(float a, float b, float c) {
    const double product = (double)a * (double)b;
    double sum = product + (double)c;
    const double added = sum - product;
    const double error = (product - (sum - added)) + ((double)c - added);
    uint64_t word;
    memcpy(&word, &sum, sizeof word);
    if ((error > 0 || error < 0) && word % 2 == 0) {
        word = (error > 0) == (sum > 0) ? word + 1 : word - 1;
    }
    memcpy(&sum, &word, sizeof word);
    return (float)sum;
}

/* Returns a * b + c as the tested instruction set computes it. */
static float muladd(float a, float b, float c) {
    const volatile float product = a * b;
    return TEST_ROUNDS_TWICE(base_isa) ? product + c : fused(a, b, c);
}

/* Rounds each number of a row to a multiple of the step 1 / factor. Returns the step. */
static double round_steps(double *x, size_t n, float factor) {
    double step = factor > 0 ? (double)(1 / factor) : 0;
    for (size_t i = 0; i < n; i++) {
        double q = test_scaled((float)x[i], factor, TEST_ROUNDS_TWICE(base_isa));
        x[i] = step * nearbyint(q);
    }
    return step;
}

/* Rounds a query or a key to steps of 1/4060 of its length. The rounding depends on every bit of
 * the factor, so the factor is computed as section ">>kernels" describes, with squares in 16 lanes
 * and two steps of Newton's method. */
static void round_length(double *x, size_t n) {
    float lane[16] = { 0 }, y;
    uint32_t word;
    for (size_t i = 0; i < n; i++) {
        lane[i % 16] = muladd((float)x[i], (float)x[i], lane[i % 16]);
    }
    for (int width = 8; width; width /= 2) {
        for (int i = 0; i < width; i++) {
            lane[i] += lane[i + width];
        }
    }
    memcpy(&word, lane, sizeof word);
    word = 0x5f3759df - word / 2;
    memcpy(&y, &word, sizeof y);
    for (int i = 0; i < 2; i++) {
        y *= muladd(-0.5f * lane[0] * y, y, 1.5f);
    }
    round_steps(x, n, lane[0] > 1e-30f ? 4060 * y : 0);
}

/* Rounds a value vector to multiples of a step, and returns the step. The step is so large
 * that sums over all tokens stay below 2^24 steps. */
static double round_value(double *x, size_t n, size_t tokens) {
    const float limit = (float)((1 << 24) / (32800 + (int)tokens / 2));
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf((float)x[i]));
    }
    return round_steps(x, n, largest > 1e-30f ? limit / largest : 0);
}

/* Returns y = x w^T + b, where x is [rows, k] and y is [rows, n]. w is the tensor NAME.weight. b is
 * the tensor NAME.bias, if the model has one. */
static double *linear(const vit_model *model, const char *name, const double *x, size_t rows,
                      size_t k, size_t n) {
    char full[64];
    vit_tensor t;
    snprintf(full, sizeof full, "%s.bias", name);
    double *y = doubles(rows * n), *row = doubles(k), *b = weights(model, full);
    snprintf(full, sizeof full, "%s.weight", name);
    double *w = weights(model, full);
    CHECK(find_tensor(model, full, &t) && tiny_count(&t) == n * k);
    for (size_t r = 0; r < rows; r++) {
        round_row(t.dtype, x + r * k, k, row);
        for (size_t i = 0; i < n; i++) {
            double sum = b ? b[i] : 0;
            for (size_t j = 0; j < k; j++) {
                sum += row[j] * w[i * k + j];
            }
            y[r * n + i] = sum;
        }
    }
    free(w);
    free(b);
    free(row);
    return y;
}

static double *block_linear(const vit_model *model, int block, const char *name, const double *x,
                            size_t rows, size_t k, size_t n) {
    char full[64];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    return linear(model, full, x, rows, k, n);
}

/* Applies the norm with the tensors NAME.weight and NAME.bias. If the model has no such norm,
 * returns a copy of x. */
static double *norm(const vit_model *model, const char *name, const double *x, size_t rows,
                    size_t dim) {
    char full[64];
    const vit_config *c = &model->config;
    bool rms = c->norm_type == VIT_RMS_NORM;
    double *y = doubles(rows * dim);
    snprintf(full, sizeof full, "%s.weight", name);
    double *w = weights(model, full);
    snprintf(full, sizeof full, "%s.bias", name);
    double *b = weights(model, full);
    for (size_t r = 0; r < rows; r++) {
        double mean = 0, var = 0;
        for (size_t i = 0; i < dim; i++) {
            mean += rms ? 0 : x[r * dim + i] / (double)dim;
        }
        for (size_t i = 0; i < dim; i++) {
            var += (x[r * dim + i] - mean) * (x[r * dim + i] - mean) / (double)dim;
        }
        for (size_t i = 0; i < dim; i++) {
            double normed = (x[r * dim + i] - mean) / sqrt(var + (double)c->norm_eps);
            y[r * dim + i] = w ? normed * w[i] + (b ? b[i] : 0) : x[r * dim + i];
        }
    }
    free(w);
    free(b);
    return y;
}

static double *block_norm(const vit_model *model, int block, const char *name, const double *x,
                          size_t rows, size_t dim) {
    char full[64];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    return norm(model, full, x, rows, dim);
}

static double activate(int activation, double x) {
    switch (activation) {
    case VIT_GELU: return 0.5 * x * (1 + erf(x / 1.4142135623730951));
    case VIT_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case VIT_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case VIT_SILU: return x / (1 + exp(-x));
    default: return x > 0 ? x : 0;
    }
}

static double represent(int activation, double x) {
    switch (activation) {
    case VIT_REPRESENTATION_TANH: return tanh(x);
    case VIT_REPRESENTATION_NONE: return x;
    default: return activate(activation - VIT_REPRESENTATION_GELU, x);
    }
}

/* Replaces each x by exp(x - max). Returns the sum of the results. */
static double exponentials(double *x, size_t n) {
    double top = x[0], sum = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmax(top, x[i]);
    }
    for (size_t i = 0; i < n; i++) {
        sum += x[i] = exp(x[i] - top);
    }
    return sum;
}

/* A feature map. The channels are the last dimension. */
typedef struct feature_map {
    size_t height, width, chans;
    double *data;
} feature_map;

/* Returns how many pixels SAME padding adds before the first pixel of a side: the smaller half of
 * all that it adds. */
static size_t padding(size_t size, size_t kernel, size_t stride) {
    size_t needed = ((size + stride - 1) / stride - 1) * stride + kernel;
    return needed > size ? (needed - size) / 2 : 0;
}

/* Returns the values in each window of the map: [height, width] windows of [chans, kernel, kernel].
 * Pixels outside the map have the value `outside`. */
static feature_map windows(const feature_map *x, size_t kernel, size_t stride, bool same,
                           double outside) {
    feature_map y;
    size_t top = same ? padding(x->height, kernel, stride) : 0;
    size_t left = same ? padding(x->width, kernel, stride) : 0;
    y.height = same ? (x->height + stride - 1) / stride : (x->height - kernel) / stride + 1;
    y.width = same ? (x->width + stride - 1) / stride : (x->width - kernel) / stride + 1;
    y.chans = x->chans * kernel * kernel;
    y.data = doubles(y.height * y.width * y.chans);
    for (size_t i = 0; i < y.height * y.width * y.chans; i++) {
        size_t pixel = i / y.chans, chan = i % y.chans / (kernel * kernel);
        size_t row = pixel / y.width * stride + i % (kernel * kernel) / kernel;
        size_t column = pixel % y.width * stride + i % kernel;
        bool inside = row >= top && row < x->height + top && column >= left &&
                      column < x->width + left;
        y.data[i] = inside ? x->data[((row - top) * x->width + column - left) * x->chans + chan]
                           : outside;
    }
    return y;
}

/* Convolves x with the tensor NAME.weight. If `keep` is false, frees x. */
static feature_map convolve(reference *f, const char *name, feature_map x, bool keep,
                            size_t stride) {
    char full[80];
    vit_tensor t;
    snprintf(full, sizeof full, "%s.weight", name);
    CHECK(find_tensor(f->model, full, &t) && (size_t)t.dims[1] == x.chans);
    feature_map y = windows(&x, (size_t)t.dims[2], stride, f->model->config.stem == VIT_STEM_RESNET,
                            0);
    double *rows = y.data;
    y.data = linear(f->model, name, rows, y.height * y.width, y.chans, (size_t)t.dims[0]);
    y.chans = (size_t)t.dims[0];
    free(rows);
    if (!keep) {
        free(x.data);
    }
    return y;
}

/* Normalises x over 32 groups of channels. Then adds the shortcut and frees it, unless it is NULL.
 * Finally applies relu, if `relu` is set. */
static void group_norm(const reference *f, const char *name, feature_map *x, double *shortcut,
                       bool relu) {
    char full[80];
    size_t width = x->chans / 32, pixels = x->height * x->width, n = pixels * x->chans;
    snprintf(full, sizeof full, "%s.weight", name);
    double *w = weights(f->model, full), mean[32] = { 0 }, var[32] = { 0 };
    snprintf(full, sizeof full, "%s.bias", name);
    double *b = weights(f->model, full);
    for (size_t i = 0; i < n; i++) {
        mean[i % x->chans / width] += x->data[i] / (double)(pixels * width);
    }
    for (size_t i = 0; i < n; i++) {
        double d = x->data[i] - mean[i % x->chans / width];
        var[i % x->chans / width] += d * d / (double)(pixels * width);
    }
    for (size_t i = 0; i < n; i++) {
        size_t chan = i % x->chans, group = chan / width;
        double y = (x->data[i] - mean[group]) / sqrt(var[group] + 1e-5) * w[chan] + b[chan];
        y += shortcut ? shortcut[i] : 0;
        x->data[i] = relu ? fmax(y, 0) : y;
    }
    free(w);
    free(b);
    free(shortcut);
}

static void map_step(reference *f, const char *name, feature_map *x) {
    step(f, name, x->data, x->height * x->width * x->chans, strict);
}

/* Computes a bottleneck block of version 1.5, in which the 3 x 3 convolution has the stride. */
static feature_map bottleneck(reference *f, int stage, int block, feature_map x) {
    char path[64], name[80];
    size_t stride = stage && !block ? 2 : 1;
    snprintf(path, sizeof path, "patch_embed.backbone.stages.%d.blocks.%d", stage, block);
#define AT(part) (snprintf(name, sizeof name, "%s." part, path), name)
    feature_map y = convolve(f, AT("conv1"), x, true, 1);
    group_norm(f, AT("norm1"), &y, NULL, true);
    map_step(f, AT("norm1"), &y);
    y = convolve(f, AT("conv2"), y, false, stride);
    group_norm(f, AT("norm2"), &y, NULL, true);
    map_step(f, AT("norm2"), &y);
    if (block == 0) {
        x = convolve(f, AT("downsample.conv"), x, false, stride);
        group_norm(f, AT("downsample.norm"), &x, NULL, false);
        map_step(f, AT("downsample"), &x);
    }
    y = convolve(f, AT("conv3"), y, false, 1);
    group_norm(f, AT("norm3"), &y, x.data, true);
#undef AT
    map_step(f, path, &y);
    return y;
}

static feature_map max_pool(feature_map x) {
    feature_map seen = windows(&x, 3, 2, true, -HUGE_VAL), y = seen;
    y.chans = x.chans;
    y.data = doubles(y.height * y.width * y.chans);
    for (size_t i = 0; i < y.height * y.width * y.chans; i++) {
        y.data[i] = seen.data[i * 9];
        for (size_t tap = 1; tap < 9; tap++) {
            y.data[i] = fmax(y.data[i], seen.data[i * 9 + tap]);
        }
    }
    free(seen.data);
    free(x.data);
    return y;
}

static feature_map resnet(reference *f, feature_map x) {
    const vit_config *c = &f->model->config;
    const int depths[] = { c->stem_stage1, c->stem_stage2, c->stem_stage3, c->stem_stage4 };
    x = convolve(f, "patch_embed.backbone.stem.conv", x, false, 2);
    group_norm(f, "patch_embed.backbone.stem.norm", &x, NULL, true);
    map_step(f, "patch_embed.backbone.stem.norm", &x);
    x = max_pool(x);
    map_step(f, "patch_embed.backbone.stem", &x);
    for (int stage = 0; stage < 4; stage++) {
        for (int block = 0; block < depths[stage]; block++) {
            x = bottleneck(f, stage, block, x);
        }
    }
    return x;
}

static feature_map mobileclip(reference *f, feature_map x) {
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "patch_embed.backbone.%d.conv", i);
        x = convolve(f, name, x, false, i ? 2 : 4);
        for (size_t j = 0; j < x.height * x.width * x.chans; j++) {
            x.data[j] = activate(VIT_GELU, x.data[j]);
        }
        snprintf(name, sizeof name, "patch_embed.backbone.%d", i);
        map_step(f, name, &x);
    }
    return x;
}

/* Returns the planes from which patches are cut: the feature map after the stem, or the input. */
static feature_map embed_map(reference *f, const float *input) {
    const vit_config *c = &f->model->config;
    feature_map x = { (size_t)c->img_height, (size_t)c->img_width, (size_t)c->in_chans, NULL };
    size_t pixels = x.height * x.width;
    x.data = doubles(pixels * x.chans);
    for (size_t i = 0; i < pixels * x.chans; i++) {
        x.data[i] = (double)input[i % x.chans * pixels + i / x.chans];
    }
    if (c->stem == VIT_STEM_NONE) {
        return x;
    }
    return c->stem == VIT_STEM_CONV ? mobileclip(f, x) : resnet(f, x);
}

/* Cuts the planes into [num_patches, C, P, P] as patch_cut says. A patch need not be a square. */
static feature_map cut_patches(const vit_config *c, const feature_map *x, size_t p) {
    size_t height = x->height / p, width = x->width / p, area = p * p;
    feature_map y = { height, width, x->chans * area, doubles(height * width * x->chans * area) };
    for (size_t i = 0; i < height * width * y.chans; i++) {
        size_t patch = i / y.chans, k = i % y.chans, square = i / area % (height * width);
        size_t chan = k / area, row = k % area / p * height + patch / width;
        size_t column = k % p * width + patch % width;
        if (c->patch_cut == VIT_CUT_RESHAPE) {
            chan = i / (x->width * x->height);
            row = i / x->width % x->height;
            column = i % x->width;
        } else if (c->patch_cut == VIT_CUT_UNFOLD) {
            chan = i / area / (height * width);
            row = square / width * p + i % area / p;
            column = square % width * p + i % p;
        }
        y.data[i] = x->data[(row * x->width + column) * x->chans + chan];
    }
    return y;
}

/* Computes the patch embedding as conv2d defines it. */
static double *patch_embed(reference *f, const float *input) {
    const vit_config *c = &f->model->config;
    feature_map x = embed_map(f, input);
    vit_tensor t;
    CHECK(find_tensor(f->model, "patch_embed.proj.weight", &t) && (size_t)t.dims[1] == x.chans);
    size_t p = (size_t)t.dims[2], chans = x.chans, patches = (size_t)c->num_patches;
    size_t stride = c->patch_stride ? (size_t)c->patch_stride : p;
    feature_map seen = c->patch_cut ? cut_patches(c, &x, p) : windows(&x, p, stride, false, 0);
    CHECK(seen.height * seen.width == patches);
    double *rows = seen.data, *to;
    free(x.data);
    to = norm(f->model, "patch_embed.pre_norm", rows, patches, chans * p * p);
    if (c->has_patch_pre_norm) {
        step(f, "patch_embed.pre_norm", to, patches * chans * p * p, strict);
    }
    double *out = linear(f->model, "patch_embed.proj", to, patches, chans * p * p, f->dim);
    free(rows);
    free(to);
    double *normed = norm(f->model, "patch_embed.norm", out, patches, f->dim);
    free(out);
    return normed;
}

/* Returns, for each id, its row of the table. */
static double *token_embed(const reference *f, const float *input) {
    size_t n = (size_t)f->model->config.num_patches;
    double *table = weights(f->model, "token_embed.weight"), *rows = doubles(n * f->dim);
    for (size_t i = 0; i < n * f->dim; i++) {
        rows[i] = table[(size_t)input[i / f->dim] * f->dim + i % f->dim];
    }
    free(table);
    return rows;
}

static void embed(reference *f, const float *input) {
    const vit_config *c = &f->model->config;
    double *patches = c->vocab_size ? token_embed(f, input) : patch_embed(f, input);
    double *pos = weights(f->model, "pos_embed");
    double *cls = weights(f->model, "cls_token"), *dist = weights(f->model, "dist_token");
    double *reg = weights(f->model, "reg_token");
    size_t prefix = (size_t)c->num_prefix_tokens * f->dim, count = f->tokens * f->dim;
    size_t skipped = c->positions == VIT_POS_ALL ? 0 : prefix, own = prefix;
    own -= (size_t)c->num_reg_tokens * f->dim;
    step(f, "patch_embed", patches, count - prefix, strict);
    for (size_t i = 0; i < count; i++) {
        const double *row = cls && i < f->dim ? cls : dist;
        f->x[i] = i >= prefix ? patches[i - prefix] : i >= own ? reg[i - own] : row[i % f->dim];
        f->x[i] += pos && i >= skipped ? pos[i - skipped] : 0;
    }
    step(f, "pos_embed", f->x, count, strict);
    if (c->has_pre_norm) {
        double *normed = norm(f->model, "norm_pre", f->x, f->tokens, f->dim);
        step(f, "norm_pre", normed, count, strict);
        free(f->x);
        f->x = normed;
    }
    free(patches);
    free(pos);
    free(cls);
    free(dist);
    free(reg);
}

/* Returns BEiT's bias for query i and key j of head h, as section ">>arch" describes it. */
static double rel_pos(const vit_config *c, const double *table, size_t h, size_t i, size_t j) {
    int across = 2 * c->grid_width - 1, all = (2 * c->grid_height - 1) * across + 3;
    int prefix = c->num_prefix_tokens, q = (int)i - prefix, k = (int)j - prefix;
    int y = k / c->grid_width - q / c->grid_width, x = k % c->grid_width - q % c->grid_width;
    int at = q >= 0 && k >= 0 ? (y + c->grid_height - 1) * across + x + c->grid_width - 1
             : q >= 0         ? all - 2
             : k >= 0         ? all - 3
                              : all - 1;
    return table[h * (size_t)all + (size_t)at];
}

/* Computes the input of the softmax for query i: scale q k^T + bias with both masks. The product is
 * over the dimensions from `first` to `end` - 1 of a head. */
static void scores(const reference *f, const double *qkv, size_t ld, size_t width, size_t h,
                   size_t i, size_t first, size_t end, const double *bias, double *map) {
    const vit_config *c = &f->model->config;
    for (size_t j = 0; j < f->tokens; j++) {
        map[j] = 0;
        for (size_t d = first; d < end; d++) {
            map[j] += qkv[i * ld + d] * qkv[j * ld + width + d];
        }
        map[j] *= (double)c->attn_scale;
        map[j] += bias ? rel_pos(c, bias, h, i, j) : 0;
        map[j] = f->mask && !f->mask[j] ? -(double)FLT_MAX : map[j];
        map[j] = c->attention == VIT_ATTENTION_CAUSAL && j > i ? -(double)INFINITY : map[j];
    }
}

/* Returns weight j of the softmax, rounded for its product with value j. If the qkv layer is int8
 * or int4, the weight times steps[j] becomes a multiple of 1 / whole, and a row has about 32767 of
 * these units in total. For other layers, `steps` is NULL. */
static double round_weight(double x, vit_dtype dtype, const double *steps, size_t j, double whole) {
    if (!steps) {
        return dtype == VIT_BF16 ? round_bf16(x) : x;
    }
    return whole * steps[j] > 0 ? nearbyint(x * steps[j] * whole) / steps[j] / whole : 0;
}

static double largest(const double *x, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, x[i]);
    }
    return most;
}

/* Computes row i of one head's attention map, and adds the values, weighted by this row, to
 * `context`. `qkv` points to this head: q is at [token * ld], k is `width` after q, and v is twice
 * `width` after q. `steps` contains the steps of the values, or is NULL. */
static void attend(const reference *f, const double *qkv, size_t ld, size_t width, vit_dtype dtype,
                   size_t h, size_t i, const double *bias, const double *lambda,
                   const double *steps, double *map, double *context) {
    const vit_config *c = &f->model->config;
    size_t n = f->tokens, hd = (size_t)c->head_dim;
    scores(f, qkv, ld, width, h, i, 0, lambda ? hd / 2 : hd, bias, map);
    double sum = exponentials(map, n);
    if (lambda) {
        double *other = doubles(n);
        scores(f, qkv, ld, width, h, i, hd / 2, hd, bias, other);
        double other_sum = exponentials(other, n);
        for (size_t j = 0; j < n; j++) {
            map[j] = map[j] / sum - *lambda * other[j] / other_sum;
        }
        sum = 1;
        free(other);
    }
    const double bound = lambda ? 1 + fabs(*lambda) : sum;
    const double most = steps ? largest(steps, c->attention == VIT_ATTENTION_CAUSAL ? i + 1 : n)
                              : 0;
    for (size_t j = 0; j < n; j++) {
        double weight = round_weight(map[j], dtype, steps, j, most > 0 ? 32767 / most / bound : 0);
        for (size_t d = 0; d < hd; d++) {
            context[d] += weight * qkv[j * ld + 2 * width + d] / sum;
        }
        map[j] /= sum;
    }
}

/* Rounds q, k and v of one head. `steps` receives the steps of the values. */
static void round_head(const reference *f, double *qkv, size_t width, bool halves, double *steps) {
    const size_t hd = (size_t)f->model->config.head_dim, ld = 3 * width;
    for (size_t i = 0; i < f->tokens; i++) {
        double *row = qkv + i * ld;
        round_length(row, halves ? hd / 2 : hd);
        if (halves) {
            round_length(row + hd / 2, hd / 2);
        }
        round_length(row + width, hd);
        steps[i] = round_value(row + 2 * width, hd, f->tokens);
    }
}

/* Computes the attention of all heads, and leaves their maps in f->attention. The type of the qkv
 * layer decides how the operands of both products are rounded: to bf16, to whole steps for int8 and
 * int4, or not at all. */
static double *attend_all(reference *f, int block, double *qkv) {
    const vit_config *c = &f->model->config;
    size_t heads = (size_t)c->num_heads, hd = (size_t)c->head_dim, width = heads * hd;
    size_t n = f->tokens;
    vit_dtype dtype = block_dtype(f->model, block, "attn.qkv.weight");
    double *context = doubles(n * width);
    double *bias = block_weights(f->model, block, "attn.rel_pos");
    double *lambda = block_weights(f->model, block, "attn.lambda");
    const bool quantised = dtype == VIT_I8 || dtype == VIT_I4;
    double *steps = doubles(n);
    if (!quantised) {
        round_row(dtype, qkv, n * 3 * width, qkv);
    }
    for (size_t h = 0; h < heads; h++) {
        if (quantised) {
            round_head(f, qkv + h * hd, width, lambda != NULL, steps);
        }
        for (size_t i = 0; i < n; i++) {
            attend(f, qkv + h * hd, 3 * width, width, dtype, h, i, bias, lambda,
                   quantised ? steps : NULL, f->attention + (h * n + i) * n,
                   context + i * width + h * hd);
        }
    }
    free(steps);
    free(bias);
    free(lambda);
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.attn.context", block);
    step(f, name, context, n * width, dtype == VIT_BF16 || quantised ? rounded_softmax : strict);
    return context;
}

/* Returns the input of a branch: x after the norm, or a copy of x if no norm comes first. */
static double *branch_input(reference *f, int block, const char *name) {
    char dotted[32];
    int type = f->model->config.block_type;
    if (type == VIT_BLOCK_PARALLEL && strcmp(name, "norm2") == 0) {
        return norm(f->model, "none", f->shared, f->tokens, f->dim);
    }
    if (type != VIT_BLOCK_PRE_NORM && type != VIT_BLOCK_PARALLEL) {
        return norm(f->model, "none", f->x, f->tokens, f->dim);
    }
    double *y = block_norm(f->model, block, name, f->x, f->tokens, f->dim);
    snprintf(dotted, sizeof dotted, ".%s", name);
    block_step(f, block, dotted, y, f->tokens * f->dim);
    memcpy(f->shared, y, f->tokens * f->dim * sizeof(double));
    return y;
}

/* Adds gamma * branch to x, and frees the branch. VIT_BLOCK_RES_POST_NORM has a norm before the
 * addition, and VIT_BLOCK_POST_NORM has one after it. */
static void add_to_x(reference *f, int block, const char *norm_name, const char *gamma_name,
                     const char *name, double *branch) {
    int type = f->model->config.block_type;
    double *gamma = block_weights(f->model, block, gamma_name);
    if (type == VIT_BLOCK_RES_POST_NORM) {
        double *normed = block_norm(f->model, block, norm_name, branch, f->tokens, f->dim);
        free(branch);
        branch = normed;
    }
    for (size_t i = 0; i < f->tokens * f->dim; i++) {
        f->x[i] += branch[i] * (gamma ? gamma[i % f->dim] : 1);
    }
    if (type == VIT_BLOCK_POST_NORM) {
        double *normed = block_norm(f->model, block, norm_name, f->x, f->tokens, f->dim);
        free(f->x);
        f->x = normed;
    }
    block_step(f, block, name, f->x, f->tokens * f->dim);
    free(gamma);
    free(branch);
}

/* Applies the norms of q and k in every head. */
static void qk_norm(reference *f, int block, double *qkv) {
    const vit_config *c = &f->model->config;
    size_t heads = (size_t)c->num_heads, hd = (size_t)c->head_dim, width = heads * hd;
    if (!c->has_qk_norm) {
        return;
    }
    for (size_t i = 0; i < f->tokens * 2 * heads; i++) {
        size_t which = i / heads % 2;
        double *part = qkv + i / (2 * heads) * 3 * width + which * width + i % heads * hd;
        double *y = block_norm(f->model, block, which ? "attn.k_norm" : "attn.q_norm", part, 1, hd);
        memcpy(part, y, hd * sizeof(double));
        free(y);
    }
    block_step(f, block, ".attn.qk_norm", qkv, f->tokens * 3 * width);
}

/* Rotates the pairs of numbers in each patch's q and k, by the angles in the tables. */
static void rope(reference *f, int block, double *qkv) {
    const vit_config *c = &f->model->config;
    size_t heads = (size_t)c->num_heads, half = (size_t)c->head_dim / 2;
    size_t patches = (size_t)c->num_patches, prefix = (size_t)c->num_prefix_tokens;
    if (!c->rope) {
        return;
    }
    double *cosine = c->rope_per_block ? block_weights(f->model, block, "attn.rope.cos")
                                       : weights(f->model, "rope.cos");
    double *sine = c->rope_per_block ? block_weights(f->model, block, "attn.rope.sin")
                                     : weights(f->model, "rope.sin");
    for (size_t i = 0; i < patches * 2 * heads * half; i++) {
        size_t j = i % half, h = i / half % (2 * heads), patch = i / half / (2 * heads);
        size_t table = c->rope_per_block ? h % heads * patches : 0;
        double *x = qkv + ((prefix + patch) * 3 * heads + h) * 2 * half;
        double *a = x + (c->rope == VIT_ROPE_HALVES ? j : 2 * j);
        double *b = c->rope == VIT_ROPE_HALVES ? a + half : a + 1, was = *a;
        double cos_angle = cosine[(table + patch) * half + j];
        double sin_angle = sine[(table + patch) * half + j];
        *a = was * cos_angle - *b * sin_angle;
        *b = *b * cos_angle + was * sin_angle;
    }
    block_step(f, block, ".attn.rope", qkv, f->tokens * 6 * heads * half);
    free(cosine);
    free(sine);
}

/* Returns the output of attention after its norm, or a copy if there is no such norm. The norm is
 * over all heads, or over each head. */
static double *context_norm(reference *f, int block, const double *context) {
    const vit_config *c = &f->model->config;
    size_t heads = (size_t)c->num_heads, hd = (size_t)c->head_dim, n = f->tokens;
    double *y = block_norm(f->model, block, "attn.norm", context, n, heads * hd);
    double *w = block_weights(f->model, block, "attn.sub_norm.weight");
    for (size_t i = 0; w && i < n * heads; i++) {
        double squares = 0;
        for (size_t d = 0; d < hd; d++) {
            squares += context[i * hd + d] * context[i * hd + d] / (double)hd;
        }
        for (size_t d = 0; d < hd; d++) {
            y[i * hd + d] = context[i * hd + d] / sqrt(squares + 1e-5) * w[d];
        }
    }
    free(w);
    if (c->has_attn_norm || c->has_diff_attn) {
        block_step(f, block, c->has_diff_attn ? ".attn.sub_norm" : ".attn.norm", y, n * heads * hd);
    }
    return y;
}

/* Adds the attention of one block to x. */
static void attention(reference *f, int block) {
    const vit_config *c = &f->model->config;
    size_t width = (size_t)(c->num_heads * c->head_dim), n = f->tokens;
    double *y = branch_input(f, block, "norm1");
    if (c->attention == VIT_ATTENTION_SELF) {
        double *proj = block_linear(f->model, block, "attn.proj", y, n, f->dim, f->dim);
        block_step(f, block, ".attn.proj", proj, n * f->dim);
        add_to_x(f, block, "norm1", "ls1.gamma", ".attn", proj);
        for (size_t i = 0; i < (size_t)c->num_heads * n * n; i++) {
            f->attention[i] = i / n % n == i % n;
        }
        free(y);
        return;
    }
    double *qkv = block_linear(f->model, block, "attn.qkv", y, n, f->dim, 3 * width);
    block_step(f, block, ".attn.qkv", qkv, n * 3 * width);
    qk_norm(f, block, qkv);
    rope(f, block, qkv);
    double *context = attend_all(f, block, qkv);
    double *normed = context_norm(f, block, context);
    double *out = block_linear(f->model, block, "attn.proj", normed, n, width, f->dim);
    block_step(f, block, ".attn.proj", out, n * f->dim);
    add_to_x(f, block, "norm1", "ls1.gamma", ".attn", out);
    free(y);
    free(qkv);
    free(context);
    free(normed);
}

static void mlp(reference *f, int block) {
    const vit_config *c = &f->model->config;
    size_t n = f->tokens, hidden = (size_t)c->mlp_dim;
    size_t wide = c->has_gated_mlp ? 2 * hidden : hidden;
    if (hidden == 0) {
        block_step(f, block, "", f->x, n * f->dim);
        return;
    }
    double *y = branch_input(f, block, "norm2"), *h = doubles(n * hidden);
    double *fc1 = block_linear(f->model, block, "mlp.fc1", y, n, f->dim, wide);
    block_step(f, block, ".mlp.fc1", fc1, n * wide);
    for (size_t i = 0; i < n * hidden; i++) {
        const double *row = fc1 + i / hidden * wide + i % hidden;
        h[i] = activate(c->activation, row[0]) * (c->has_gated_mlp ? row[hidden] : 1);
    }
    block_step(f, block, ".mlp.act", h, n * hidden);
    double *normed = block_norm(f->model, block, "mlp.norm", h, n, hidden);
    if (c->has_mlp_norm) {
        block_step(f, block, ".mlp.norm", normed, n * hidden);
    }
    double *out = block_linear(f->model, block, "mlp.fc2", normed, n, hidden, f->dim);
    block_step(f, block, ".mlp.fc2", out, n * f->dim);
    add_to_x(f, block, "norm2", c->block_type == VIT_BLOCK_PARALLEL ? "ls1.gamma" : "ls2.gamma", "",
             out);
    free(y);
    free(fc1);
    free(h);
    free(normed);
}

/* Computes timm's AttentionPoolLatent of the tokens after the final norm. */
static double *map_pool(reference *f) {
    const vit_config *c = &f->model->config;
    const vit_model *m = f->model;
    size_t width = (size_t)(c->num_heads * c->head_dim);
    size_t heads = (size_t)(c->pool_num_heads ? c->pool_num_heads : c->num_heads);
    size_t hd = width / heads;
    double scale = c->pool_num_heads ? 1 / sqrt((double)hd) : (double)c->attn_scale;
    size_t hidden = (size_t)(c->pool_mlp_dim ? c->pool_mlp_dim : c->mlp_dim);
    size_t first = c->pool_prefix ? 0 : (size_t)c->num_prefix_tokens;
    size_t n = f->tokens - first;
    double *q = weights(m, "attn_pool.q"), *context = doubles(width), *map = doubles(n);
    double *kv = linear(m, "attn_pool.kv", f->tokens_out + first * f->dim, n, f->dim, 2 * width);
    memset(context, 0, width * sizeof(double));
    for (size_t h = 0; h < heads; h++) {
        for (size_t j = 0; j < n; j++) {
            map[j] = 0;
            for (size_t d = h * hd; d < (h + 1) * hd; d++) {
                map[j] += scale * q[d] * kv[j * 2 * width + d];
            }
            map[j] = f->mask && !f->mask[first + j] ? -(double)FLT_MAX : map[j];
        }
        double sum = exponentials(map, n);
        for (size_t i = 0; i < n * hd; i++) {
            size_t d = h * hd + i % hd;
            context[d] += map[i / hd] / sum * kv[i / hd * 2 * width + width + d];
        }
    }
    double *x = linear(m, "attn_pool.proj", context, 1, width, f->dim);
    double *y = norm(m, "attn_pool.norm", x, 1, f->dim);
    double *h = linear(m, "attn_pool.mlp.fc1", y, 1, f->dim, hidden);
    for (size_t i = 0; i < hidden; i++) {
        h[i] = activate(c->activation, h[i]);
    }
    double *out = linear(m, "attn_pool.mlp.fc2", h, 1, hidden, f->dim);
    for (size_t i = 0; i < f->dim; i++) {
        x[i] += out[i];
    }
    free(q), free(context), free(map), free(kv), free(y), free(h), free(out);
    return x;
}

/* Computes the mean and the maximum of each channel over the tokens from `first` on. */
static void reduce(const reference *f, size_t first, double *mean, double *top) {
    for (size_t i = 0; i < f->dim; i++) {
        mean[i] = 0;
        top[i] = f->tokens_out[first * f->dim + i];
        for (size_t t = first; t < f->tokens; t++) {
            mean[i] += f->tokens_out[t * f->dim + i] / (double)(f->tokens - first);
            top[i] = fmax(top[i], f->tokens_out[t * f->dim + i]);
        }
    }
}

/* Computes the pooled vector, to which the representation layer is applied next. */
static void pool(reference *f) {
    const vit_config *c = &f->model->config;
    size_t dim = f->dim, wide = c->pool == VIT_POOL_TOKEN_AVG ? 2 * dim : dim;
    double *mean = doubles(dim), *top = doubles(dim);
    reduce(f, c->pool_prefix ? 0 : (size_t)c->num_prefix_tokens, mean, top);
    f->pooled = c->pool == VIT_POOL_MAP ? map_pool(f) : doubles(2 * dim);
    size_t first = 0;
    for (size_t i = 1; i < (size_t)c->num_patches && c->pool == VIT_POOL_ARGMAX; i++) {
        first = f->input[i] > f->input[first] ? i : first;
    }
    first += c->pool == VIT_POOL_ARGMAX ? (size_t)c->num_prefix_tokens : 0;
    first = c->pool == VIT_POOL_LAST ? f->tokens - 1 : first;
    for (size_t i = 0; i < wide && c->pool != VIT_POOL_MAP; i++) {
        double token = f->tokens_out[first * dim + i % dim];
        f->pooled[i] = c->pool == VIT_POOL_AVG      ? mean[i]
                       : c->pool == VIT_POOL_MAX    ? top[i]
                       : c->pool == VIT_POOL_AVGMAX ? (mean[i] + top[i]) / 2
                       : i < dim                    ? token
                                                    : mean[i - dim];
    }
    step(f, "pool", f->pooled, wide, c->pool == VIT_POOL_MAP && f->rounds ? rounded_pool : strict);
    if (c->has_fc_norm) {
        double *y = norm(f->model, "fc_norm", f->pooled, 1, dim);
        step(f, "fc_norm", y, dim, strict);
        free(f->pooled);
        f->pooled = y;
    }
    free(mean);
    free(top);
}

static size_t merged_tokens(const vit_config *c) {
    return (size_t)(c->grid_height / c->merge_size * (c->grid_width / c->merge_size));
}

/* Computes the tokens of the merger: m x m patches become one row, to which an MLP is applied. A
 * norm, if there is one, is over each patch or over each row. */
static double *merge(reference *f) {
    const vit_config *c = &f->model->config;
    size_t m = (size_t)c->merge_size, across = (size_t)c->grid_width, wide = m * m * f->dim;
    size_t n = merged_tokens(c), hidden = (size_t)c->merge_mlp_dim;
    double *joined = doubles(n * wide);
    for (size_t row = 0; row < (size_t)c->grid_height; row++) {
        for (size_t column = 0; column < across; column++) {
            size_t to = (row / m * (across / m) + column / m) * m * m + row % m * m + column % m;
            size_t from = (size_t)c->num_prefix_tokens + row * across + column;
            memcpy(joined + to * f->dim, f->tokens_out + from * f->dim, f->dim * sizeof(double));
        }
    }
    double *y = c->merge_norm == 1 ? norm(f->model, "merger.norm", joined, n * m * m, f->dim)
                                   : norm(f->model, "merger.norm", joined, n, wide);
    if (c->merge_norm) {
        step(f, "merger.norm", y, n * wide, strict);
    }
    double *h = linear(f->model, "merger.fc1", y, n, wide, hidden);
    step(f, "merger.fc1", h, n * hidden, strict);
    for (size_t i = 0; i < n * hidden; i++) {
        h[i] = activate(c->merge_act, h[i]);
    }
    step(f, "merger.act", h, n * hidden, strict);
    double *out = linear(f->model, "merger.fc2", h, n, hidden, (size_t)c->merge_dim);
    step(f, "merger", out, n * (size_t)c->merge_dim, strict);
    free(joined), free(y), free(h);
    return out;
}

/* Computes the embedding: the pooled vector, after the representation layer if there is one. For a
 * distilled model, it is the mean of two tokens. */
static void embedding(reference *f) {
    const vit_config *c = &f->model->config;
    const double *cls = f->pooled, *dist = f->tokens_out + f->dim;
    size_t width = (size_t)vit_embedding_dim(f->model);
    for (size_t i = 0; i < width && !c->representation_dim; i++) {
        f->embedding[i] = c->has_dist_token ? (cls[i] + dist[i]) / 2 : cls[i];
    }
    if (c->representation_dim) {
        double *y = linear(f->model, "pre_logits.fc", cls, 1, f->dim, width);
        for (size_t i = 0; i < width; i++) {
            f->embedding[i] = represent(c->representation_act, y[i]);
        }
        free(y);
        step(f, "pre_logits", f->embedding, width, strict);
    }
}

static void head(reference *f) {
    const vit_config *c = &f->model->config;
    size_t classes = (size_t)c->num_classes, width = (size_t)vit_embedding_dim(f->model);
    const double *cls = c->representation_dim ? f->embedding : f->pooled;
    if (classes == 0) {
        return;
    }
    double *a = linear(f->model, "head", cls, 1, width, classes);
    step(f, "head", a, classes, strict);
    double *b = NULL;
    if (c->has_dist_token) {
        b = linear(f->model, "head_dist", f->tokens_out + f->dim, 1, width, classes);
        step(f, "head_dist", b, classes, strict);
    }
    for (size_t i = 0; i < classes; i++) {
        f->logits[i] = b ? (a[i] + b[i]) / 2 : a[i];
    }
    free(a);
    free(b);
}

static bool rounds_inputs(const vit_model *model) {
    vit_tensor t;
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        if (t.dtype >= VIT_BF16) {
            return true;
        }
    }
    return false;
}

static reference reference_run(const vit_model *model, const char *what, const traced_run *traced,
                               int image, const float *input, const uint8_t *mask) {
    const vit_config *c = &model->config;
    reference f;
    memset(&f, 0, sizeof f);
    f.model = model;
    f.traced = traced;
    f.what = what;
    f.image = image;
    f.input = input;
    f.mask = mask ? mask + (size_t)image * (size_t)c->num_tokens : NULL;
    f.rounds = rounds_inputs(model);
    f.tokens = (size_t)c->num_tokens;
    f.dim = (size_t)c->embed_dim;
    f.x = doubles(f.tokens * f.dim);
    f.shared = doubles(f.tokens * f.dim);
    f.attention = doubles((size_t)c->num_heads * f.tokens * f.tokens);
    f.embedding = doubles((size_t)vit_embedding_dim(model));
    f.logits = doubles((size_t)c->num_classes);
    embed(&f, input);
    for (int block = 0; block < c->depth; block++) {
        attention(&f, block);
        mlp(&f, block);
    }
    f.tokens_out = norm(model, "norm", f.x, f.tokens, f.dim);
    step(&f, "norm", f.tokens_out, f.tokens * f.dim, strict);
    f.merged = c->merge_size ? merge(&f) : NULL;
    pool(&f);
    embedding(&f);
    head(&f);
    return f;
}

static void reference_free(reference *f) {
    free(f->x);
    free(f->shared);
    free(f->tokens_out);
    free(f->merged);
    free(f->pooled);
    free(f->attention);
    free(f->embedding);
    free(f->logits);
}

/* --- vit.h on the same model ---------------------------------------------- */

/* The outputs of BATCH images. `data` holds logits, embedding, tokens, merged tokens, attention.
 * `blocks` is the memory for vit_outputs.blocks: for the tokens and the attention of each block,
 * followed by the tokens of the last block after the final norm. */
typedef struct produced {
    size_t sizes[5], total, each;
    float *data, *blocks;
} produced;

static produced produced_make(const vit_model *model) {
    const vit_config *c = &model->config;
    produced p;
    size_t n = (size_t)c->num_tokens;
    p.sizes[0] = BATCH * (size_t)c->num_classes;
    p.sizes[1] = BATCH * (size_t)vit_embedding_dim(model);
    p.sizes[2] = BATCH * n * (size_t)c->embed_dim;
    p.sizes[3] = c->merge_size ? BATCH * merged_tokens(c) * (size_t)c->merge_dim : 0;
    p.sizes[4] = c->depth ? BATCH * n * n * (size_t)c->num_heads : 0;
    p.total = p.sizes[0] + p.sizes[1] + p.sizes[2] + p.sizes[3] + p.sizes[4];
    p.data = tiny_allocate(p.total * sizeof(float));
    p.each = p.sizes[2] + p.sizes[4];
    p.blocks = tiny_allocate(((size_t)c->depth * p.each + p.sizes[2]) * sizeof(float));
    return p;
}

static void produced_free(produced *p) {
    free(p->data);
    free(p->blocks);
}

/* Returns the number of floats in p->blocks that a run writes. */
static size_t blocks_floats(const produced *p, int depth, bool lean) {
    if (depth == 0) {
        return 0;
    }
    return lean ? (size_t)(depth - 1) * p->each : (size_t)depth * p->each + p->sizes[2];
}

/* Fills the list of requested blocks. If `lean` is true, leaves out the last block. Returns the
 * number of entries. */
static int list_blocks(const produced *p, int depth, bool lean, vit_block_output *list) {
    int count = 0;
    for (int i = 0; i < depth - lean; i++) {
        float *at = p->blocks + (size_t)i * p->each;
        list[count++] = (vit_block_output){ at, at + p->sizes[2], i, 0 };
    }
    if (depth && !lean) {
        float *attention = p->data + p->total - p->sizes[4];
        float *normed = p->blocks + (size_t)depth * p->each;
        list[count++] = (vit_block_output){ normed, attention, -1, 1 };
    }
    return count;
}

/* The options of a run. Unless `lean` is true, the tokens and the attention of the last block are
 * requested. */
typedef struct run_options {
    vit_isa isa;
    const vit_executor *executor;
    int together;
    bool lean;
    traced_run *traced;
    const uint8_t *mask;
    bool low_memory;
} run_options;

static void run(const vit_model *model, const run_options *o, const float *input, produced *p) {
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    vit_block_output blocks[MAX_DEPTH + 1];
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.isa = o->isa;
    params.batch = o->together;
    params.low_memory = o->low_memory;
    params.trace = o->traced ? record : NULL;
    params.trace_user = o->traced;
    if (o->executor) {
        params.executor = *o->executor;
    }
    outputs.logits = p->sizes[0] ? p->data : NULL;
    outputs.embedding = p->data + p->sizes[0];
    if (!o->lean) {
        outputs.tokens = outputs.embedding + p->sizes[1];
        outputs.merged = p->sizes[3] ? outputs.tokens + p->sizes[2] : NULL;
    }
    outputs.blocks = blocks;
    outputs.num_blocks = list_blocks(p, model->config.depth, o->lean, blocks);
    size_t size = vit_workspace_size(model, &params);
    void *workspace = tiny_allocate(size);
    CHECK(vit_session_init(&session, model, &params, workspace, size) == VIT_OK);
    CHECK(vit_forward(&session, &(vit_input){ .pixels = input, .batch = BATCH, .mask = o->mask },
                      &outputs) == VIT_OK);
    free(workspace);
}

static void hash_floats(vit_hash *hash, const float *x, size_t n) {
    unsigned char bytes[4];
    for (size_t i = 0; i < n; i++) {
        tiny_put(bytes, tiny_bits_float((double)x[i]), 4);
        vit_hash_update(hash, bytes, sizeof bytes);
    }
}

/* Runs the reference on each image, and compares it with the trace and the outputs of vit.h.
 * Returns the largest error, except that of steps whose bound is larger than `strict`. */
static double compare(const char *what, const vit_model *model, const float *input,
                      const uint8_t *mask, const traced_run *traced, const produced *p) {
    static const char *const names[] = { "logits", "embedding", "tokens", "merged", "attention" };
    const vit_config *c = &model->config;
    size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    double worst = 0;
    for (size_t image = 0; image < BATCH; image++) {
        reference f = reference_run(model, what, traced, (int)image, input + image * pixels, mask);
        const double *wanted[5] = { f.logits, f.embedding, f.tokens_out, f.merged, f.attention };
        const float *got = p->data;
        worst = fmax(worst, f.worst);
        for (int i = 0; i < 5; i++) {
            size_t n = p->sizes[i] / BATCH;
            double error = n ? relative_error(got + image * n, wanted[i], n) : 0;
            CHECK_MSG(error < strict, "%s: %s: %.1e", what, names[i], error);
            worst = fmax(worst, error);
            got += p->sizes[i];
        }
        reference_free(&f);
    }
    return worst;
}

/* Checks that the outputs of blocks equal the trace, and that those of the last block equal the
 * other outputs: the tokens after the final norm, and the attention. */
static void compare_blocks(const char *what, const vit_config *c, const traced_run *traced,
                           const produced *p) {
    const size_t tokens = p->sizes[2] / BATCH, end = (size_t)c->depth * p->each;
    for (int i = 0; i < c->depth * BATCH; i++) {
        const int block = i / BATCH, image = i % BATCH;
        const float *got = p->blocks + (size_t)block * p->each + (size_t)image * tokens;
        char name[32];
        snprintf(name, sizeof name, "blocks.%d", block);
        const traced_tensor *t = find_traced(traced, name, image);
        CHECK_MSG(t && t->count == tokens && !memcmp(t->data, got, tokens * sizeof(float)),
                  "%s: tokens of %s, image %d", what, name, image);
    }
    if (c->depth > 0) {
        CHECK_MSG(memcmp(p->blocks + end, p->data + p->sizes[0] + p->sizes[1],
                         p->sizes[2] * sizeof(float)) == 0,
                  "%s: normed tokens", what);
        CHECK_MSG(memcmp(p->blocks + end - p->sizes[4], p->data + p->total - p->sizes[4],
                         p->sizes[4] * sizeof(float)) == 0,
                  "%s: attention, twice", what);
    }
}

/* --- random architectures ------------------------------------------------- */

/* Chooses options that the original ViT does not have. */
static void more_options(vit_config *c) {
    bool pre = pick(0, 2) != 0;
    c->has_cls_token = c->has_dist_token || pick(0, 1);
    c->num_reg_tokens = pick(0, 3) ? 0 : pick(1, 4);
    c->positions = pick(0, VIT_NUM_POSITIONS - 1);
    c->has_patch_bias = pick(0, 1);
    c->has_pre_norm = pick(0, 1);
    c->has_patch_pre_norm = pick(0, 2) == 0;
    c->norm_type = pick(0, 2) == 0 ? VIT_RMS_NORM : VIT_LAYER_NORM;
    c->block_type = pre ? VIT_BLOCK_PRE_NORM : pick(1, 2);
    c->has_qk_norm = pick(0, 2) == 0;
    c->has_attn_norm = pre && pick(0, 2) == 0;
    c->has_mlp_norm = pre && pick(0, 2) == 0;
    c->has_proj_bias = pick(0, 1);
    c->has_layer_scale = pick(0, 1);
    c->activation = pick(0, VIT_NUM_ACTIVATIONS - 1);
    c->has_gated_mlp = pick(0, 2) == 0;
    c->has_final_norm = pick(0, 3) != 0;
    c->pool = c->has_dist_token ? VIT_POOL_TOKEN : pick(0, VIT_POOL_LAST - 1);
    c->pool = c->pool == VIT_POOL_TOKEN_AVG && c->representation_dim ? VIT_POOL_AVG : c->pool;
    c->pool_prefix = pick(0, 3) == 0;
    c->has_fc_norm = !c->has_dist_token && c->pool != VIT_POOL_TOKEN_AVG && pick(0, 2) == 0;
}

/* Chooses options for the positions in attention, and other kinds of attention. */
static void attention_options(vit_config *c) {
    c->head_dim += c->head_dim % 2;
    c->rope = pick(0, VIT_NUM_ROPES - 1);
    c->rope_per_block = c->rope && pick(0, 1);
    if (!c->has_dist_token && pick(0, 2) == 0) {
        c->num_reg_tokens = 0;
        c->has_rel_pos = 1;
    } else if (pick(0, 2) == 0) {
        c->has_diff_attn = 1;
        c->rope = c->rope_per_block = c->has_qk_norm = c->has_attn_norm = 0;
    }
    if (pick(0, 3) == 0 && !c->has_attn_norm && !c->has_mlp_norm) {
        c->block_type = VIT_BLOCK_PARALLEL;
    }
    if (c->pool == VIT_POOL_MAP && pick(0, 4)) {
        c->pool_num_heads = c->num_heads * pick(1, 2);
        c->pool_mlp_dim = c->depth % 2 ? c->mlp_dim / 2 + 3 : 0;
    }
}

/* Chooses a stem. Stems 0 to 3 are those of ResNets with this number of stages, and stem 4 is that
 * of MobileCLIP. The input size is rarely a multiple of the stride. A patch is one to three pixels
 * wide in the stem's output. */
static void random_stem(vit_config *c, int number) {
    int *stages[] = { &c->stem_stage1, &c->stem_stage2, &c->stem_stage3, &c->stem_stage4 };
    int depth = number % 4, stride = 8;
    c->stem = number < 4 ? VIT_STEM_RESNET : VIT_STEM_CONV;
    c->stem_width = c->stem == VIT_STEM_CONV ? pick(1, 40) : 32 * pick(1, 2);
    if (c->stem == VIT_STEM_RESNET) {
        for (int i = 0; i < depth; i++) {
            *stages[i] = pick(1, 2);
        }
        stride = depth < 2 ? 4 : 2 << depth;
    }
    c->patch_size = stride * pick(1, depth > 1 ? 1 : 3);
    c->img_height = c->patch_size * pick(1, 3) + pick(0, c->patch_size - 1);
    c->img_width = c->patch_size * pick(1, 3) + pick(0, c->patch_size - 1);
    c->has_patch_pre_norm = 0;
}

/* Makes the options of a text encoder for a few ids, with prefix tokens or without. */
static void text_options(vit_config *c) {
    c->vocab_size = pick(1, 60);
    c->in_chans = c->img_height = c->patch_size = 1;
    c->img_width = pick(1, 30);
    c->patch_cut = c->patch_stride = 0;
    c->has_patch_bias = c->has_patch_norm = c->has_patch_pre_norm = 0;
    c->rope = c->rope_per_block = c->has_rel_pos = c->has_dist_token = 0;
    c->attention = pick(0, 3) ? VIT_ATTENTION_CAUSAL : VIT_ATTENTION_ALL;
    c->pool = pick(0, 5) ? pick(VIT_POOL_LAST, VIT_POOL_ARGMAX) : VIT_POOL_AVG;
    c->pool_num_heads = c->pool_mlp_dim = 0;
}

/* Chooses options of the merger. Its squares of m x m patches must divide the grid. */
static void merger_options(vit_config *c) {
    int m = 2 + (c->embed_dim + c->img_width) % 2;
    while (c->img_height / c->patch_size % m || c->img_width / c->patch_size % m) {
        m--;
    }
    c->merge_size = m;
    c->merge_dim = c->embed_dim / 2 + 5;
    c->merge_mlp_dim = c->embed_dim + 7;
    c->merge_norm = (c->embed_dim + c->depth + c->img_height) % 3;
    c->merge_act = c->img_width % VIT_NUM_ACTIVATIONS;
}

/* Chooses options that occur in ViTs that people write themselves. */
static void own_options(vit_config *c) {
    c->patch_cut = pick(0, VIT_NUM_CUTS - 1);
    if (c->patch_cut) {
        c->img_height -= c->img_height % c->patch_size;
        c->img_width -= c->img_width % c->patch_size;
    } else {
        c->patch_stride = (c->patch_size + 1) / 2 + c->img_width % 3;
    }
    c->attention = pick(0, VIT_NUM_ATTENTIONS - 1);
    if (c->attention == VIT_ATTENTION_SELF) {
        c->has_qkv_bias = c->has_qk_norm = c->rope = c->rope_per_block = 0;
        c->has_rel_pos = c->has_diff_attn = c->has_attn_norm = 0;
    }
    if (c->attention == VIT_ATTENTION_CAUSAL) {
        c->has_rel_pos = 0;
    }
    if (pick(0, 2) == 0) {
        text_options(c);
    }
    if (pick(0, 1) && c->block_type != VIT_BLOCK_PARALLEL && c->pool != VIT_POOL_MAP) {
        c->mlp_dim = c->has_gated_mlp = c->has_mlp_norm = 0;
    }
    if (!c->has_dist_token && c->pool != VIT_POOL_TOKEN_AVG) {
        c->representation_dim = pick(3, 50);
        c->representation_act = pick(0, VIT_NUM_REPRESENTATIONS - 1);
    }
}

/* The kind of a model: a plain model, a model with a stem, or a model with the options of
 * own_options. */
typedef enum model_group { GROUP_PLAIN, GROUP_STEM, GROUP_OWN } model_group;

/* Returns random options. `kind` is the type of the weights. VIT_NUM_DTYPES means that one model
 * has all types. `stem` is the number for random_stem. */
static tiny_options random_options(int kind, model_group group, int stem) {
    tiny_options o = tiny_defaults();
    vit_config *c = &o.config;
    c->in_chans = pick(1, 6);
    c->patch_size = pick(1, 7);
    c->img_height = c->patch_size * pick(1, 5) + pick(0, c->patch_size - 1);
    c->img_width = c->patch_size * pick(1, 5) + pick(0, c->patch_size - 1);
    c->embed_dim = pick(6, 70);
    c->depth = pick(0, MAX_DEPTH);
    c->num_heads = pick(1, 4);
    c->head_dim = pick(1, 24);
    if (pick(0, 7) == 0) { /* The output of attention is then too narrow for int8. */
        c->num_heads = 1;
        c->head_dim = pick(1, 3);
    }
    c->mlp_dim = pick(3, 100); /* With fewer hidden numbers, all of them may be nearly zero. */
    c->num_classes = pick(0, 4) ? pick(1, 70) : 0;
    c->has_dist_token = pick(0, 2) == 0;
    c->representation_dim = !c->has_dist_token && pick(0, 2) == 0 ? pick(1, 50) : 0;
    c->has_patch_norm = pick(0, 2) == 0;
    c->has_qkv_bias = pick(0, 2) != 0;
    if (pick(0, 2)) {
        more_options(c);
    }
    if (pick(0, 1)) {
        attention_options(c);
    }
    if (group == GROUP_STEM) {
        random_stem(c, stem);
    }
    if (group == GROUP_OWN) {
        own_options(c);
    } else if (group == GROUP_PLAIN && (c->embed_dim + c->depth) % 3) {
        merger_options(c);
    }
    c->norm_eps = (float)pick(1, 100) * 1e-5f;
    c->attn_scale = (float)pick(-20, 40) / 40.0f;
    c->selftest_tolerance = 0;
    o.mixed = kind == VIT_NUM_DTYPES;
    o.dtype = o.mixed ? (vit_dtype)pick(0, VIT_NUM_DTYPES - 1) : (vit_dtype)kind;
    o.seed = (uint32_t)pick(0, 1 << 20);
    return o;
}

static void describe(char *what, size_t size, int index, const tiny_options *o) {
    const vit_config *c = &o->config;
    snprintf(what, size,
             "model %d: %dx%dx%d by %d, D %d, L %d, H %d x %d, mlp %d, classes %d, rep %d, "
             "dist %d, norm %d, bias %d, pos %d, type %d/%d, act %d/%d, pool %d/%d, rope %d/%d, "
             "relative %d, diff %d, stem %d of %d: %d %d %d %d, cut %d by %d, self %d, "
             "then %d, words %d, %s %d",
             index, c->in_chans, c->img_height, c->img_width, c->patch_size, c->embed_dim, c->depth,
             c->num_heads, c->head_dim, c->mlp_dim, c->num_classes, c->representation_dim,
             c->has_dist_token, c->has_patch_norm, c->has_qkv_bias, c->positions, c->norm_type,
             c->block_type, c->activation, c->has_gated_mlp, c->pool, c->pool_num_heads, c->rope,
             c->rope_per_block, c->has_rel_pos, c->has_diff_attn, c->stem, c->stem_width,
             c->stem_stage1, c->stem_stage2, c->stem_stage3, c->stem_stage4, c->patch_cut,
             c->patch_stride, c->attention, c->representation_act, c->vocab_size,
             o->mixed ? "dtypes from" : "dtype", (int)o->dtype);
}

/* Shapes that are difficult for the kernels. Each shape must occur with each kind of weights. */
#define SHAPE_LIST(X)                                                                              \
    X(odd_head_dim, c->head_dim % 2 == 1)                                                          \
    X(even_head_dim, c->head_dim % 2 == 0)                                                         \
    X(odd_tokens, c->num_tokens % 2 == 1)                                                          \
    X(even_tokens, c->num_tokens % 2 == 0)                                                         \
    X(some_tokens, c->num_tokens % 16 != 0 && c->num_tokens > 16)                                  \
    X(rest_of_rows, c->mlp_dim % 16 != 0 && c->mlp_dim > 48)                                       \
    X(rest_of_pairs, c->mlp_dim % 2 == 1)                                                          \
    X(rest_of_quads, c->mlp_dim % 4 != 0 && c->embed_dim % 4 != 0)                                 \
    X(rest_of_groups, c->mlp_dim % 32 != 0 && c->mlp_dim > 32)                                     \
    X(narrow_heads, c->num_heads * c->head_dim < 4 && c->depth)                                    \
    X(wide_rows, c->in_chans * c->patch_size * c->patch_size > 64)                                 \
    X(resnet_stem, c->stem == VIT_STEM_RESNET && c->stem_stage1 == 0)                              \
    X(resnet_stages, c->stem_stage2 > 0 && c->img_height % 8 != 0 && c->img_width % 8 != 0)        \
    X(conv_stem, c->stem == VIT_STEM_CONV && c->img_width % 8 != 0)                                \
    X(raw_norm, c->has_patch_pre_norm)                                                             \
    X(distilled, c->has_dist_token && c->num_classes && c->depth)                                  \
    X(represented, c->representation_dim && c->num_classes && c->depth)                            \
    X(registers, c->num_reg_tokens && c->depth)                                                    \
    X(no_positions, c->positions == VIT_POS_NONE && c->depth)                                      \
    X(post_norm, c->block_type == VIT_BLOCK_POST_NORM && c->depth)                                 \
    X(res_post_norm, c->block_type == VIT_BLOCK_RES_POST_NORM && c->depth)                         \
    X(rms_norm, c->norm_type == VIT_RMS_NORM && c->depth)                                          \
    X(gated, c->has_gated_mlp && c->depth)                                                         \
    X(gated_norm, c->has_gated_mlp && c->has_mlp_norm && c->depth)                                 \
    X(layer_scale, c->has_layer_scale && c->depth)                                                 \
    X(qk_norms, c->has_qk_norm && c->depth)                                                        \
    X(rope_halves, c->rope == VIT_ROPE_HALVES && c->depth)                                         \
    X(rope_pairs, c->rope == VIT_ROPE_PAIRS && c->depth)                                           \
    X(rope_of_blocks, c->rope_per_block && c->depth)                                               \
    X(relative, c->has_rel_pos && c->depth)                                                        \
    X(relative_with_cls, c->has_rel_pos && c->has_cls_token && c->depth)                           \
    X(differential, c->has_diff_attn && c->depth)                                                  \
    X(parallel, c->block_type == VIT_BLOCK_PARALLEL && c->depth)                                   \
    X(map_of_heads, c->pool == VIT_POOL_MAP && c->pool_num_heads)                                  \
    X(map, c->pool == VIT_POOL_MAP)                                                                \
    X(token_avg, c->pool == VIT_POOL_TOKEN_AVG)                                                    \
    X(relu, c->activation == VIT_RELU && c->depth)                                                 \
    X(no_mlp, c->mlp_dim == 0 && c->depth)                                                         \
    X(self_attention, c->attention == VIT_ATTENTION_SELF && c->depth)                              \
    X(self_alone, c->attention == VIT_ATTENTION_SELF && c->mlp_dim == 0 && c->depth)               \
    X(causal, c->attention == VIT_ATTENTION_CAUSAL && c->depth && c->num_tokens > 1)               \
    X(causal_text, c->vocab_size && c->attention == VIT_ATTENTION_CAUSAL && c->depth)              \
    X(end_of_text, c->pool == VIT_POOL_ARGMAX && c->vocab_size > 1 && c->num_patches > 1)          \
    X(last, c->pool == VIT_POOL_LAST && c->num_patches > 1 && c->depth)                            \
    X(interleaved, c->patch_cut == VIT_CUT_INTERLEAVED && c->grid_height > 1 && c->grid_width > 1) \
    X(reshaped, c->patch_cut == VIT_CUT_RESHAPE && c->in_chans > 1)                                \
    X(unfolded, c->patch_cut == VIT_CUT_UNFOLD && c->in_chans > 1 && c->num_patches > 1)           \
    X(overlapping, c->patch_stride && c->patch_stride < c->patch_size && c->num_patches > 1)       \
    X(untouched, c->representation_act == VIT_REPRESENTATION_NONE)                                 \
    X(merged, c->merge_size > 1 && c->merge_norm == 0)                                             \
    X(merged_after_norms, c->merge_size > 1 && c->merge_norm == 1)                                 \
    X(merged_before_norm, c->merge_size > 1 && c->merge_norm == 2)                                 \
    X(activated, c->representation_act >= VIT_REPRESENTATION_GELU)

#define SHAPE(name, condition) name,
enum { SHAPE_LIST(SHAPE) NUM_SHAPES };
#undef SHAPE

static int shapes_seen[VIT_NUM_DTYPES + 1][NUM_SHAPES];

static void count_shapes(int kind, const vit_config *c) {
#define SHAPE(name, condition) shapes_seen[kind][name] += (condition) != 0;
    SHAPE_LIST(SHAPE)
#undef SHAPE
}

static void check_shapes(void) {
    for (int kind = 0; kind <= VIT_NUM_DTYPES; kind++) {
#define SHAPE(name, condition)                                                                     \
    CHECK_MSG(shapes_seen[kind][name] > 0, "no model of kind %d with %s", kind, #name);
        SHAPE_LIST(SHAPE)
#undef SHAPE
    }
}

/* Runs the model on every instruction set whose outputs must have the same bits as `base`: with one
 * thread, with three threads, and with low memory. Some runs compute only the tokens that the head
 * reads. */
static void test_bits(const char *what, int index, const vit_model *model, const float *input,
                      const uint8_t *mask, const vit_executor *executor, const produced *base) {
    static const char *const names[] = { "one thread", "three threads", "little memory" };
    produced other = produced_make(model);
    FOR_EACH_ISA_LIKE(isa, base_isa) {
        for (int way = 0; way <= 2; way++) {
            bool threads = way == 1 || (way == 2 && index % 4 < 2);
            run_options o = {
                (vit_isa)isa, threads ? executor : NULL, 2, (index + way) % 2 == 0, NULL, mask,
                way == 2
            };
            size_t compared = o.lean ? base->sizes[0] + base->sizes[1] : base->total;
            size_t blocks = blocks_floats(base, model->config.depth, o.lean);
            memset(other.data, 0xff, other.total * sizeof(float));
            run(model, &o, input, &other);
            CHECK_MSG(memcmp(base->data, other.data, compared * sizeof(float)) == 0, "%s: %s, %s%s",
                      what, vit_isa_name((vit_isa)isa), names[way],
                      o.lean ? ", head's tokens" : "");
            CHECK_MSG(memcmp(base->blocks, other.blocks, blocks * sizeof(float)) == 0,
                      "%s: %s, %s%s: blocks", what, vit_isa_name((vit_isa)isa), names[way],
                      o.lean ? ", head's tokens" : "");
        }
    }
    produced_free(&other);
}

/* Compares the base instruction set with the reference, and the instruction sets that must give the
 * same bits with the base. */
static double test_base(const char *what, int index, const vit_model *model, const float *input,
                        const uint8_t *mask, const vit_executor *executor) {
    traced_run traced;
    run_options o = { base_isa, NULL, 1, false, &traced, mask, false };
    produced base = produced_make(model);
    traced.num_tensors = 0;
    run(model, &o, input, &base);
    hash_floats(base_isa == VIT_ISA_SCALAR ? &bits : &sse2_bits, base.data, base.total);
    double worst = compare(what, model, input, mask, &traced, &base);
    compare_blocks(what, &model->config, &traced, &base);
    test_bits(what, index, model, input, mask, executor, &base);
    traced_free(&traced);
    produced_free(&base);
    return worst;
}

static double test_opened(const char *what, int index, const vit_model *model,
                          const vit_executor *executor) {
    const vit_config *c = &model->config;
    size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    float *input = tiny_allocate(BATCH * pixels * sizeof(float));
    size_t tokens = BATCH * (size_t)c->num_tokens;
    uint8_t *mask = pick(0, 3) ? NULL : tiny_allocate(tokens);
    for (size_t i = 0; i < BATCH * pixels; i++) {
        input[i] = 2 * tiny_random(&seed);
        input[i] = c->vocab_size ? (float)pick(0, c->vocab_size - 1) : input[i];
    }
    /* On average, the mask keeps `shown` of four tokens. If `shown` is 0, it hides all tokens. */
    int shown = pick(0, 3);
    for (size_t i = 0; mask && i < tokens; i++) {
        mask[i] = (uint8_t)(pick(1, 4) <= shown ? pick(1, 255) : 0);
    }
    base_isa = VIT_ISA_SCALAR;
    double worst = test_base(what, index, model, input, mask, executor);
    if (vit_has_isa(VIT_ISA_SSE2)) {
        base_isa = VIT_ISA_SSE2;
        worst = fmax(worst, test_base(what, index, model, input, mask, executor));
    }
    free(mask);
    free(input);
    return worst;
}

static double test_one(int index, model_group group, const vit_executor *executor) {
    char what[320];
    int kind = index % (VIT_NUM_DTYPES + 1), stem = index / (VIT_NUM_DTYPES + 1) % 5;
    tiny_options o = random_options(kind, group, stem);
    o.fits16 = index % 2;
    tiny_file file = tiny_build(&o);
    vit_model model;
    double worst = 0;
    vit_hash_update(&bits, file.data, file.size);
    vit_hash_update(&sse2_bits, file.data, file.size);
    describe(what, sizeof what, index, &o);
    vit_result result = vit_model_open_memory(file.data, file.size, VIT_OPEN_VERIFY, &model);
    CHECK_MSG(result == VIT_OK, "%s: %s", what, model.detail);
    if (result == VIT_OK) {
        count_shapes(kind, &model.config);
        worst = test_opened(what, index, &model, executor);
        vit_model_close(&model);
    }
    tiny_free(&file);
    return worst;
}

/* The first argument is the folder of test data. Further arguments are the number of models, the
 * number of additional models with stems, and the number of additional models with own_options. */
int main(int argc, char **argv) {
    int plain = argc > 2 ? atoi(argv[2]) : MODELS;
    int stems = plain + (argc > 3 ? atoi(argv[3]) : argc > 2 ? 0 : STEMS);
    int models = stems + (argc > 4 ? atoi(argv[4]) : argc > 2 ? 0 : OWN);
    vit_threads *pool;
    vit_executor executor;
    double worst = 0;
    vit_hash_init(&bits);
    vit_hash_init(&sse2_bits);
    CHECK(vit_threads_create(3, &pool, &executor) == VIT_OK);
    for (int i = 0; i < models; i++) {
        model_group group = i < plain ? GROUP_PLAIN : i < stems ? GROUP_STEM : GROUP_OWN;
        worst = fmax(worst, test_one(i, group, &executor));
    }
    if (models >= MODELS + STEMS + OWN) {
        check_shapes();
    }
    vit_threads_destroy(pool);
    printf("%d random models, largest relative error %.1e, of rounded softmax %.1e\n", models,
           worst, worst_softmax);
    printf("bits %016llx, best tier %s\n", (unsigned long long)vit_hash_final(&bits),
           vit_isa_name(vit_detect_isa()));
    if (vit_has_isa(VIT_ISA_SSE2)) {
        printf("bits %016llx of sse2\n", (unsigned long long)vit_hash_final(&sse2_bits));
    }
    return test_summary();
}
