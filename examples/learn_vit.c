/* learn_vit.c - the forward pass of a Vision Transformer in plain C, slow and meant to be read. It
 * follows the equations of "An Image is Worth 16x16 Words" (Dosovitskiy et al., arXiv 2010.11929,
 * section 3.1 and appendix A), and DeiT's distillation token (arXiv 2012.12877). vit.h opens the
 * file and prepares the photo. The program compares the logits of vit() below with vit.h's.
 *
 *     cc -O2 learn_vit.c -o learn_vit -lm -lpthread
 *     $ ./learn_vit models/cifar10-vit.vit examples/cat.jpg
 *     cat, 82.4 %
 *     largest difference from vit.h: 0.000 %
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_TOOLS /* for vit_model_tensor, vit_unpack_row */
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(status);
}

/* Stored by rows. Most matrices have a row for each token and a column for each of its features. */
typedef struct matrix {
    size_t rows, cols;
    float *at;
} matrix;

static matrix new_matrix(size_t rows, size_t cols) {
    matrix m = { rows, cols, (float *)calloc(rows * cols, sizeof(float)) };
    if (!m.at) fail(1, "learn_vit", "out of memory");
    return m;
}

static float *row(matrix m, size_t i) { return m.at + i * m.cols; }

/* Loads a tensor by timm's name: "blocks.3.norm1.weight", or "norm.weight" if block is -1. */
static matrix load(const vit_model *model, int block, const char *layer, const char *part) {
    char name[64];
    vit_tensor tensor;
    int index = 0;
    if (block < 0) snprintf(name, sizeof name, "%s%s", layer, part);
    else snprintf(name, sizeof name, "blocks.%d.%s%s", block, layer, part);
    while (vit_model_tensor(model, index, &tensor) && strcmp(tensor.name, name)) index++;
    if (!vit_model_tensor(model, index, &tensor)) fail(1, name, "the model has no such tensor");
    if (tensor.dtype != VIT_F32 && tensor.dtype != VIT_F16) fail(1, name, "expected f32 or f16");
    size_t cols = 1;
    for (int i = 1; i < tensor.ndim; i++) cols *= (size_t)tensor.dims[i];
    matrix m = new_matrix((size_t)tensor.dims[0], cols);
    for (int i = 0; i < tensor.dims[0]; i++) vit_unpack_row(&tensor, i, row(m, (size_t)i));
    return m;
}

/* Adds each value of y to the value at the same place in x. Frees y. */
static void add(float *x, matrix y) {
    for (size_t i = 0; i < y.rows * y.cols; i++) x[i] += y.at[i];
    free(y.at);
}

static float dot(const float *a, const float *b, size_t n) {
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Returns x W^T + b for each row of x. Frees x. */
static matrix linear(const vit_model *model, int block, const char *layer, matrix x) {
    matrix weight = load(model, block, layer, ".weight"), bias = load(model, block, layer, ".bias");
    matrix y = new_matrix(x.rows, weight.rows);
    for (size_t i = 0; i < y.rows; i++)
        for (size_t j = 0; j < y.cols; j++)
            row(y, i)[j] = dot(row(x, i), row(weight, j), x.cols) + bias.at[j];
    free(weight.at);
    free(bias.at);
    free(x.at);
    return y;
}

/* LN: brings each row to mean 0 and variance 1, then scales and shifts it by learned values. */
static matrix layer_norm(const vit_model *model, int block, const char *layer, matrix x) {
    matrix weight = load(model, block, layer, ".weight"), bias = load(model, block, layer, ".bias");
    matrix y = new_matrix(x.rows, x.cols);
    for (size_t i = 0; i < x.rows; i++) {
        const float *from = row(x, i), n = (float)x.cols, eps = model->config.norm_eps;
        float mean = 0.0f, variance = 0.0f;
        for (size_t j = 0; j < x.cols; j++) mean += from[j] / n;
        for (size_t j = 0; j < x.cols; j++) variance += (from[j] - mean) * (from[j] - mean) / n;
        for (size_t j = 0; j < x.cols; j++)
            row(y, i)[j] = (from[j] - mean) / sqrtf(variance + eps) * weight.at[j] + bias.at[j];
    }
    free(weight.at);
    free(bias.at);
    return y;
}

/* Turns n scores into positive numbers with the sum 1. Subtracting the largest avoids overflow. */
static void softmax(float *x, size_t n) {
    float largest = x[0], sum = 0.0f;
    for (size_t i = 1; i < n; i++) largest = fmaxf(largest, x[i]);
    for (size_t i = 0; i < n; i++) x[i] = expf(x[i] - largest);
    for (size_t i = 0; i < n; i++) sum += x[i];
    for (size_t i = 0; i < n; i++) x[i] /= sum;
}

/* Equation (1): z_0 = [class; x_1 E; x_2 E; ...] + E_pos. A patch has P x P pixels in C channels. A
   linear layer, E, turns a patch's C P P values into a token. Learned tokens come first: the
   class token and, in DeiT, the distillation token. These gather information from the patches. */
static matrix embed(const vit_model *model, const float *image) {
    const vit_config *c = &model->config;
    const size_t side = (size_t)c->patch_size, across = (size_t)c->grid_width;
    const size_t height = (size_t)c->img_height, width = (size_t)c->img_width;
    matrix patches = new_matrix((size_t)c->num_patches, (size_t)c->in_chans * side * side);
    for (size_t p = 0; p < patches.rows; p++)
        for (size_t i = 0; i < patches.cols; i++) {
            const size_t channel = i / (side * side);
            const size_t y = p / across * side + i / side % side, x = p % across * side + i % side;
            row(patches, p)[i] = image[(channel * height + y) * width + x];
        }
    matrix z = new_matrix((size_t)c->num_tokens, (size_t)c->embed_dim);
    add(row(z, 0), load(model, -1, "cls_token", ""));
    if (c->has_dist_token) add(row(z, 1), load(model, -1, "dist_token", ""));
    add(row(z, (size_t)c->num_prefix_tokens), linear(model, -1, "patch_embed.proj", patches));
    add(row(z, 0), load(model, -1, "pos_embed", ""));
    return z;
}

/* MSA, equations (5) to (8): each token takes values from all tokens, weighted by how well their
   keys match its query. Each head has its own queries, keys and values. Frees x. */
static matrix attention(const vit_model *model, int block, matrix x) {
    const size_t heads = (size_t)model->config.num_heads, width = (size_t)model->config.head_dim;
    matrix qkv = linear(model, block, "attn.qkv", x); /* (5): q of all heads, then k, then v */
    matrix y = new_matrix(qkv.rows, heads * width), share = new_matrix(1, qkv.rows);
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < y.rows; i++) {
            const float *query = row(qkv, i) + h * width;
            float *out = row(y, i) + h * width;
            for (size_t j = 0; j < y.rows; j++) { /* (6): q k^T / sqrt(width) */
                const float *key = row(qkv, j) + (heads + h) * width;
                share.at[j] = dot(query, key, width) * model->config.attn_scale;
            }
            softmax(share.at, y.rows);
            for (size_t j = 0; j < y.rows; j++) { /* (7) */
                const float *value = row(qkv, j) + (2 * heads + h) * width;
                for (size_t k = 0; k < width; k++) out[k] += share.at[j] * value[k];
            }
        }
    free(share.at);
    free(qkv.at);
    return linear(model, block, "attn.proj", y); /* (8) */
}

/* MLP: two layers with GELU, x Phi(x), between them. Frees x. */
static matrix mlp(const vit_model *model, int block, matrix x) {
    matrix hidden = linear(model, block, "mlp.fc1", x);
    for (size_t i = 0; i < hidden.rows * hidden.cols; i++)
        hidden.at[i] *= 0.5f * (1.0f + erff(hidden.at[i] * sqrtf(0.5f)));
    return linear(model, block, "mlp.fc2", hidden);
}

/* Returns the logits of an image, [in_chans, img_height, img_width], normalised as in training. */
static matrix vit(const vit_model *model, const float *image) {
    matrix z = embed(model, image); /* (1) */
    for (int i = 0; i < model->config.depth; i++) {
        add(z.at, attention(model, i, layer_norm(model, i, "norm1", z))); /* (2) */
        add(z.at, mlp(model, i, layer_norm(model, i, "norm2", z)));       /* (3) */
    }
    matrix token = { 1, z.cols, row(z, 0) }; /* (4): the head scores only the class token */
    matrix logits = linear(model, -1, "head", layer_norm(model, -1, "norm", token));
    if (model->config.has_dist_token) { /* the mean of two heads */
        token.at = row(z, 1);
        add(logits.at, linear(model, -1, "head_dist", layer_norm(model, -1, "norm", token)));
        for (size_t i = 0; i < logits.rows * logits.cols; i++) logits.at[i] /= 2.0f;
    }
    free(z.at);
    return logits;
}

/* Returns 1 if the model has exactly the parts that the equations describe. */
static int is_plain(const vit_config *c) {
    return c->has_cls_token && c->has_patch_bias && c->has_qkv_bias && c->has_proj_bias &&
           c->mlp_dim && c->has_final_norm && c->pool == VIT_POOL_TOKEN && !c->patch_stride &&
           !c->patch_cut && !c->stem && !c->has_patch_pre_norm && !c->has_patch_norm &&
           !c->dynamic_img_pad && !c->positions && !c->num_reg_tokens && !c->has_pre_norm &&
           !c->norm_type && !c->block_type && !c->attention && !c->has_qk_norm && !c->rope &&
           !c->has_rel_pos && !c->has_diff_attn && !c->has_attn_norm && !c->has_layer_scale &&
           !c->activation && !c->has_gated_mlp && !c->has_mlp_norm && !c->has_fc_norm &&
           !c->representation_dim && !c->head_activation;
}

int main(int argc, char **argv) {
    if (argc != 3) fail(2, "usage", "learn_vit MODEL.vit PHOTO");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) fail(1, "learn_vit", model.detail);
    if (!vit_label(&model, 0)) fail(1, argv[1], "the model names no classes");
    if (!is_plain(&model.config)) fail(1, argv[1], "expected a plain ViT or DeiT");
    vit_image photo = vit_image_load(argv[2]);
    if (!photo.pixels) fail(1, argv[2], stbi_failure_reason());
    const int classes = model.config.num_classes;
    matrix image = new_matrix(1, vit_input_size(&model)), expected = new_matrix(1, (size_t)classes);
    vit_session session;
    vit_input input = { 0 };
    vit_outputs outputs = { 0 };
    input.pixels = image.at;
    outputs.logits = expected.at;
    vit_result result = vit_preprocess(&model, &photo, image.at, NULL, 0);
    if (!result) result = vit_session_init(&session, &model, NULL, NULL, 0);
    if (!result) result = vit_forward(&session, &input, &outputs);
    if (result) fail(1, argv[2], vit_result_string(result));
    matrix logits = vit(&model, image.at);
    float difference = 0.0f, largest = 0.0f;
    for (int i = 0; i < classes; i++) {
        difference = fmaxf(difference, fabsf(logits.at[i] - expected.at[i]));
        largest = fmaxf(largest, fabsf(expected.at[i]));
    }
    softmax(logits.at, logits.cols);
    vit_prediction best;
    vit_top_k(logits.at, classes, 1, &best);
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);
    printf("largest difference from vit.h: %.3f %%\n", 100.0 * (double)(difference / largest));
    free(logits.at);
    free(expected.at);
    free(image.at);
    vit_session_close(&session);
    vit_image_free(&photo);
    vit_model_close(&model);
    return 0;
}
