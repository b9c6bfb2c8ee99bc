#include "convert/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/output.h"
#include "convert/quantise.h"

/* Reads image i into the input of `run` and, unless `other` is NULL, into the input of `other`.
 * Returns false after the last image, or on failure. */
static bool read_input(runner *run, runner *other, photo_decoder *decoder, photo_list *photos,
                       int i, report *r) {
    const bool aspect = run->model->config.crop_mode == VIT_CROP_ASPECT;
    vit_image image;
    bool good;
    if (!photos_read(run->model, decoder, photos, i, run->input, aspect ? &image : NULL, r))
        return false;
    if (aspect) {
        good = runner_fit(run, &image, r) && (!other || runner_fit(other, &image, r));
        photos_free_image(&image);
        return good || report_file(r, photos->paths[i]);
    }
    if (other) {
        const vit_config *c = &run->model->config;
        memcpy(other->input, run->input,
               (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width *
                   sizeof *run->input);
    }
    return true;
}

/* === Calibration === */

/* The linear layers of a block. A trace (vit.h) reports the tensor that is the input of each
 * layer. */
enum { QKV, PROJ, FC1, FC2, NUM_LAYERS };

static const char *const layer_names[NUM_LAYERS] = { "attn.qkv", "attn.proj", "mlp.fc1",
                                                     "mlp.fc2" };

/* Returns the name of the traced tensor that is the input of this layer. It is the last tensor that
 * the trace reports before the layer runs. */
static const char *input_name(const vit_config *config, int layer) {
    static const char *const names[NUM_LAYERS] = { "norm1", "attn.context", "norm2", "mlp.act" };
    if (layer == PROJ && config->has_attn_norm) return "attn.norm";
    if (layer == PROJ && config->has_diff_attn) return "attn.sub_norm";
    return layer == FC2 && config->has_mlp_norm ? "mlp.norm" : names[layer];
}

/* The samples are tokens from as many images as possible. Memory holds the samples of only a few
 * blocks at a time. The blocks are therefore sampled in groups, and each group requires a run over
 * all images. */
enum { MAX_SAMPLES = 4096 };
#define MAX_SAMPLE_BYTES ((uint64_t)1 << 30)

struct calibration {
    const vit_model *model;
    photo_decoder *decoder;
    photo_list *photos;
    vit_dtype dtype;
    runner run;
    cli_progress progress;
    bool quiet;

    int tokens_per_image, max_samples;
    /* The blocks that are sampled in the current run. */
    int first_block, num_blocks;
    /* The largest number of blocks whose samples fit into memory together. */
    int group_blocks;
    /* The index of the image that the model processes, and the number of samples taken so far. */
    int image, num_samples;
    /* Samples of the input of each layer, [group_blocks][max_samples][depth]. */
    float *samples[NUM_LAYERS];

    /* The index of the block to which the factors below belong. */
    int block;
    /* Factors of the input channels of each layer, [depth]. A factor of 1 changes nothing. */
    float *factors[NUM_LAYERS];
    /* The values of the tensor that is being written. */
    float *values;
    /* A weight that is multiplied by its factors while a block is smoothed. */
    float *folded;
};

static int depth_of_layer(const vit_config *config, int layer) {
    if (layer == FC2) return config->mlp_dim ? config->mlp_dim : 1;
    return layer == PROJ ? config->num_heads * config->head_dim : config->embed_dim;
}

/* === Sampling === */

/* Finds the block and the layer whose input has this name. The name "blocks.3.norm2", for example,
 * gives block 3 and layer FC1. Returns false if the name is not the input of a layer. */
static bool find_input(const vit_config *config, const char *name, int *block, int *layer) {
    int used = 0;
    if (sscanf(name, "blocks.%d.%n", block, &used) != 1 || !used) return false;
    for (*layer = 0; *layer < NUM_LAYERS; ++*layer)
        if (!strcmp(name + used, input_name(config, *layer))) return true;
    return false;
}

/* Returns the index of the i-th token that is sampled in an image. The prefix tokens are sampled
 * first, because the head reads them. Evenly spread patches follow. The indices of two successive
 * patches differ by a prime number, modulo the number of patches, and each image starts at a
 * different patch. Different images therefore give different patches. */
static size_t sampled_token(const vit_config *config, int image, int i) {
    const int patches = config->num_patches;
    if (i < config->num_prefix_tokens) return (size_t)i;
    return (size_t)(config->num_prefix_tokens +
                    (int)((int64_t)i * 7919 + (int64_t)image * 104729) % patches);
}

/* Takes samples of the traced tensors. This function is the callback of a vit_trace. */
static void take_samples(void *user, const char *name, const float *data, const int shape[4]) {
    calibration *c = user;
    int block, layer, i;
    if (!find_input(&c->model->config, name, &block, &layer)) return;
    block -= c->first_block;
    if (block < 0 || block >= c->num_blocks) return;
    for (i = 0; i < c->tokens_per_image; i++) {
        const size_t depth = (size_t)shape[2];
        const size_t row = (size_t)block * (size_t)c->max_samples + (size_t)(c->num_samples + i);
        memcpy(c->samples[layer] + row * depth,
               data + sampled_token(&c->run.session.model->config, c->image, i) * depth,
               depth * sizeof *data);
    }
}

/* Runs all images and keeps the layer inputs of a group of blocks, which begins with block `first`.
 * The first run also removes unreadable images from the list of photos. */
static bool sample_blocks(calibration *c, int first, report *r) {
    const int rest = c->model->config.depth - first;
    c->first_block = first;
    c->num_blocks = rest < c->group_blocks ? rest : c->group_blocks;
    c->num_samples = 0;
    cli_progress_start(&c->progress, "sampling", (uint64_t)c->photos->count);
    if (c->quiet) c->progress.active = false;
    for (c->image = 0; read_input(&c->run, NULL, c->decoder, c->photos, c->image, r) &&
                       runner_forward(&c->run, r);
         c->image++) {
        c->num_samples += c->tokens_per_image;
        cli_progress_update(&c->progress, (uint64_t)c->image + 1);
    }
    cli_progress_clear(&c->progress);
    return !r->failed;
}

/* === Memory === */

/* Sets the number of tokens per image and the number of blocks per run. */
static void plan_samples(calibration *c) {
    const vit_config *config = &c->model->config;
    uint64_t block = 0;
    int layer;
    c->tokens_per_image = (MAX_SAMPLES + c->photos->count - 1) / c->photos->count;
    if (c->tokens_per_image > config->num_tokens) c->tokens_per_image = config->num_tokens;
    c->max_samples = c->tokens_per_image * c->photos->count;
    for (layer = 0; layer < NUM_LAYERS; layer++)
        block += (uint64_t)depth_of_layer(config, layer) * (uint64_t)c->max_samples * sizeof(float);
    c->group_blocks = config->depth;
    if ((uint64_t)c->group_blocks * block > MAX_SAMPLE_BYTES)
        c->group_blocks = block > MAX_SAMPLE_BYTES ? 1 : (int)(MAX_SAMPLE_BYTES / block);
}

/* Returns the number of elements of the model's largest tensor. */
static size_t largest_tensor(const vit_model *model) {
    size_t largest = 1;
    vit_tensor t;
    int i;
    for (i = 0; vit_model_tensor(model, i, &t); i++)
        if (tensor_count(&t) > largest) largest = (size_t)tensor_count(&t);
    return largest;
}

static bool allocate(calibration *c) {
    const vit_config *config = &c->model->config;
    const size_t largest = largest_tensor(c->model);
    size_t rows, depth;
    int layer;
    plan_samples(c);
    rows = (size_t)c->group_blocks * (size_t)c->max_samples;
    for (layer = 0; layer < NUM_LAYERS; layer++) {
        depth = (size_t)depth_of_layer(config, layer);
        c->factors[layer] = malloc(depth * sizeof(float));
        c->samples[layer] = malloc((rows ? rows : 1) * depth * sizeof(float));
        if (!c->factors[layer] || !c->samples[layer]) return false;
    }
    c->values = malloc(largest * sizeof(float));
    c->folded = malloc(largest * sizeof(float));
    return c->values && c->folded;
}

calibration *calibrate_start(const vit_model *reference, vit_dtype dtype, photo_decoder *decoder,
                             photo_list *photos, bool quiet, report *r) {
    calibration *c;
    if (reference->config.block_type != VIT_BLOCK_PRE_NORM ||
        reference->config.attention != VIT_ATTENTION_ALL) {
        (void)report_fail(r, "--calibrate needs pre-norm blocks "
                             "(block_type=pre_norm) and attention=all");
        return NULL;
    }
    c = calloc(1, sizeof *c);
    if (!c) return (void)report_no_memory(r), NULL;
    c->model = reference;
    c->decoder = decoder;
    c->photos = photos;
    c->dtype = dtype;
    c->quiet = quiet;
    c->block = -1;
    if (runner_open(&c->run, reference, take_samples, c, r) &&
        (allocate(c) || report_no_memory(r)) && sample_blocks(c, 0, r))
        return c;
    calibrate_free(c);
    return NULL;
}

void calibrate_free(calibration *c) {
    int layer;
    if (!c) return;
    for (layer = 0; layer < NUM_LAYERS; layer++) {
        free(c->factors[layer]);
        free(c->samples[layer]);
    }
    free(c->values);
    free(c->folded);
    runner_close(&c->run);
    free(c);
}

/* === Tensors === */

static bool find_tensor(const calibration *c, const char *name, vit_tensor *t) {
    int i;
    for (i = 0; vit_model_tensor(c->model, i, t); i++)
        if (!strcmp(t->name, name)) return true;
    return false;
}

/* Finds the tensor "blocks.<block>.<layer>.<kind>" of the reference model. */
static bool find_part(const calibration *c, int block, const char *layer, const char *kind,
                      vit_tensor *t) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.%s.%s", block, layer, kind);
    return find_tensor(c, name, t);
}

static void read_tensor(const vit_tensor *t, float *values) {
    const size_t depth = tensor_depth(t);
    int row;
    for (row = 0; row < t->dims[0]; row++) vit_unpack_row(t, row, values + (size_t)row * depth);
}

static void divide(float *values, const float *factors, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) values[i] /= factors[i];
}

/* Smooths the layer's weights: multiplies each column by the factor of the input channel that the
 * column reads. In attn.qkv, it also divides each row of v by a factor of attn.proj's input. The
 * rows of v are the last third. Dividing them is possible because attention mixes tokens but never
 * channels. */
static void fold_weight(const calibration *c, int layer, int num_rows, float *weights) {
    const size_t depth = (size_t)depth_of_layer(&c->model->config, layer);
    const int width = num_rows / 3;
    int row;
    size_t k;
    for (row = 0; row < num_rows; row++, weights += depth) {
        const float divisor = layer == QKV && row >= 2 * width ? c->factors[PROJ][row - 2 * width]
                                                               : 1.0f;
        for (k = 0; k < depth; k++) weights[k] = weights[k] * c->factors[layer][k] / divisor;
    }
}

/* === Smoothing a block === */

static float *samples_of(const calibration *c, int block, int layer) {
    return c->samples[layer] + (size_t)(block - c->first_block) * (size_t)c->max_samples *
                                   (size_t)depth_of_layer(&c->model->config, layer);
}

static quantise_matrix sample_matrix(const calibration *c, int block, int layer) {
    quantise_matrix x;
    x.values = samples_of(c, block, layer);
    x.count = c->num_samples;
    x.depth = depth_of_layer(&c->model->config, layer);
    return x;
}

/* True if the layer's input can be smoothed and the weights will be in int8 or int4. The input of
 * fc2 cannot be smoothed, because a nonlinear function computes it. The result of attention can be
 * smoothed if there is no norm between attention and attn.proj. */
static bool can_smooth(const calibration *c, int layer) {
    if (layer == PROJ && (c->model->config.has_attn_norm || c->model->config.has_diff_attn))
        return false;
    return layer != FC2 && (c->dtype == VIT_I8 || c->dtype == VIT_I4);
}

/* Chooses the factors for the input channels of a layer, and divides the layer's samples by
 * them. */
static bool smooth_layer(calibration *c, int block, int layer) {
    const quantise_matrix x = sample_matrix(c, block, layer);
    quantise_matrix w = { NULL, 0, 0 };
    float *samples = samples_of(c, block, layer), alpha;
    vit_tensor t;
    int k;
    for (k = 0; k < x.depth; k++) c->factors[layer][k] = 1;
    if (!can_smooth(c, layer)) return true;
    if (!find_part(c, block, layer_names[layer], "weight", &t)) return true;
    read_tensor(&t, c->folded);
    fold_weight(c, layer, t.dims[0], c->folded);
    w.values = c->folded;
    w.count = t.dims[0];
    w.depth = x.depth;
    if (!quantise_smooth(c->dtype, &x, &w, c->factors[layer], &alpha)) return false;
    for (k = 0; k < x.count; k++)
        divide(samples + (size_t)k * (size_t)x.depth, c->factors[layer], (size_t)x.depth);
    return true;
}

/* Smooths the layers of a block. attn.proj comes first, because its factors change qkv. */
static bool begin_block(calibration *c, int block, report *r) {
    static const int order[NUM_LAYERS] = { PROJ, QKV, FC1, FC2 };
    int i;
    c->block = block;
    if (block >= c->first_block + c->num_blocks && !sample_blocks(c, block, r)) return false;
    for (i = 0; i < NUM_LAYERS; i++)
        if (!smooth_layer(c, block, order[i])) return report_no_memory(r);
    return true;
}

/* === Writing a block === */

static bool round_layer(calibration *c, int layer, int num_rows, vit_dtype written) {
    const quantise_matrix x = sample_matrix(c, c->block, layer);
    quantise_layer q;
    const bool good = quantise_start(&q, written, &x, &c->run.executor) &&
                      quantise_rows(&q, c->values, num_rows, &c->run.executor);
    quantise_end(&q);
    return good;
}

/* Smooths and rounds the weight of a layer, such as "blocks.3.mlp.fc1.weight", in c->values. The
 * weight is then ready to be written. */
static bool layer_weight(calibration *c, int layer, int num_rows, vit_dtype written) {
    fold_weight(c, layer, num_rows, c->values);
    return !quantise_knows(written) || round_layer(c, layer, num_rows, written);
}

/* In attn.qkv, divides the bias of v by the factors of attn.proj's input. fold_weight divides the
 * rows of v in the same way. */
static void layer_bias(const calibration *c, int layer, int num_rows) {
    const int width = num_rows / 3;
    if (layer == QKV) divide(c->values + 2 * width, c->factors[PROJ], (size_t)width);
}

/* Changes a block's tensor in c->values. `name` is the part of the tensor's name after the block,
 * such as "attn.qkv.weight". */
static bool block_tensor(calibration *c, const char *name, const vit_tensor *t, vit_dtype written) {
    int layer;
    if (!strncmp(name, "norm1.", 6))
        return divide(c->values, c->factors[QKV], (size_t)t->dims[0]), true;
    if (!strncmp(name, "norm2.", 6))
        return divide(c->values, c->factors[FC1], (size_t)t->dims[0]), true;
    for (layer = 0; layer < NUM_LAYERS; layer++) {
        const size_t length = strlen(layer_names[layer]);
        if (strncmp(name, layer_names[layer], length) != 0) continue;
        if (!strcmp(name + length, ".weight")) return layer_weight(c, layer, t->dims[0], written);
        return layer_bias(c, layer, t->dims[0]), true;
    }
    return true;
}

const float *calibrate_tensor(calibration *c, int index, vit_dtype written, report *r) {
    vit_tensor t;
    int block, used = 0;
    if (!vit_model_tensor(c->model, index, &t)) return NULL;
    read_tensor(&t, c->values);
    if (sscanf(t.name, "blocks.%d.%n", &block, &used) != 1) return c->values;
    if (block != c->block && !begin_block(c, block, r)) return NULL;
    read_tensor(&t, c->values);
    if (!block_tensor(c, t.name + used, &t, written)) return (void)report_no_memory(r), NULL;
    return c->values;
}

/* === Comparison === */

static double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (aa == 0 && bb == 0) return 1; /* two zero vectors count as equal */
    ab /= sqrt(aa) * sqrt(bb);
    return ab >= -1 ? ab : 0; /* NaN counts as 0 */
}

/* Turns the logits of `a` into probabilities. Counts the image in result->agree if the best class
 * is the same in `a` and `b`. Counts the image in result->sure if the two best probabilities of `a`
 * differ by at least 0.1, and in result->sure_agree if both conditions are true. */
static void count_classes(comparison *result, const runner *a, const runner *b) {
    vit_prediction first[2] = { { 0, 0 }, { 0, 0 } }, second = { 0, 0 };
    const int n = (int)a->output_size;
    bool agree, sure;
    vit_softmax(a->output, n);
    vit_top_k(a->output, n, 2, first);
    vit_top_k(b->output, n, 1, &second);
    agree = first[0].index == second.index;
    sure = first[0].score - first[1].score >= 0.1f;
    result->agree += agree;
    result->sure += sure;
    result->sure_agree += sure && agree;
}

static void count_image(comparison *result, const char *path, const runner *a, const runner *b) {
    const double similar = cosine(a->embedding, b->embedding, a->embedding_size);
    if (result->images == 0 || similar < result->min_cosine) {
        result->min_cosine = similar;
        result->worst = path;
    }
    result->mean_cosine += similar;
    if (result->has_classes) count_classes(result, a, b);
    result->images++;
}

static bool compare_all(runner *a, runner *b, photo_decoder *decoder, photo_list *photos,
                        bool quiet, comparison *result, report *r) {
    cli_progress progress;
    int i;
    cli_progress_start(&progress, "comparing", (uint64_t)photos->count);
    if (quiet) progress.active = false;
    for (i = 0;
         read_input(a, b, decoder, photos, i, r) && runner_forward(a, r) && runner_forward(b, r);
         i++) {
        count_image(result, photos->paths[i], a, b);
        cli_progress_update(&progress, (uint64_t)i + 1);
    }
    cli_progress_clear(&progress);
    return !r->failed;
}

bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r) {
    runner a, b;
    bool good;
    memset(result, 0, sizeof *result);
    memset(&b, 0, sizeof b);
    result->has_classes = model->config.num_classes > 0;
    good = runner_open(&a, reference, NULL, NULL, r) && runner_open(&b, model, NULL, NULL, r) &&
           compare_all(&a, &b, decoder, photos, quiet, result, r);
    runner_close(&a);
    runner_close(&b);
    if (result->images) result->mean_cosine /= result->images;
    return good;
}
