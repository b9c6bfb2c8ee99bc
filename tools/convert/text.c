#include "convert/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/detect.h"
#include "layout/layout.h"
#include "layout/views.h"

/* === Sizes, from the tensors === */

/* Returns the number of rows of a matrix in the checkpoint or, if `columns` is true, the number of
 * its columns. Leading dimensions are ignored. Returns 0 if there is no such matrix. */
static int64_t size_of(const layout_map *map, const char *tensor, bool columns) {
    layout_part part;
    const char *axes;
    if (!layout_peek(map, tensor, 0, &part, &axes) || !part.info || part.view.ndim < 2) return 0;
    return part.view.dims[part.view.ndim - (columns ? 1 : 2)];
}

/* Returns the number of rows of the projection matrix, or 0 if there is none. CLIP stores this
 * matrix transposed. */
static int64_t projected(const layout_map *map) {
    layout_part part;
    const char *axes;
    if (!layout_peek(map, "pre_logits.fc.weight", 0, &part, &axes) || part.view.ndim != 2) return 0;
    return part.view.dims[axes ? 1 : 0];
}

static bool put_size(const char *name, int64_t size, int *field, report *r) {
    *field = (int)size;
    return (size > 0 && size <= 1 << 20) ||
           report_fail(r, "the text encoder's %s: expected 1 to 1048576, found %lld", name,
                       (long long)size);
}

static bool put_sizes(const layout_map *map, vit_config *c, report *r) {
    const int64_t width = projected(map);
    c->representation_dim = width <= 16384 ? (int)width : 0;
    c->representation_act = width ? VIT_REPRESENTATION_NONE : 0;
    return put_size("vocabulary", size_of(map, "token_embed.weight", false), &c->vocab_size, r) &&
           put_size("width", size_of(map, "token_embed.weight", true), &c->embed_dim, r) &&
           put_size("context length", size_of(map, "pos_embed", false), &c->img_width, r) &&
           put_size("mlp_dim", size_of(map, "blocks.0.mlp.fc1.weight", false), &c->mlp_dim, r);
}

/* === Settings that no tensor shows === */

/* The parts of config.json that describe the text encoder. */
typedef struct described {
    /* The settings of the text encoder; NULL if the file has none. */
    const json_value *text;
    bool is_open_clip, is_siglip, is_mobileclip;
    /* The settings of the whole model in a file of open_clip; otherwise NULL. */
    const json_value *model;
} described;

static described describe(const json_value *root) {
    const json_value *model = json_get(root, "model_cfg");
    described d = { NULL, false, false, false, model };
    d.text = json_get(model ? model : root, model ? "text_cfg" : "text_config");
    d.is_open_clip = model != NULL;
    d.is_mobileclip = !model && json_get(root, "image_cfg");
    if (d.is_mobileclip) d.text = json_get(root, "text_cfg");
    d.is_siglip = strstr(json_string(json_get(root, "model_type"), ""), "siglip") != NULL;
    return d;
}

static bool assume(findings *f, const char *what, const char *why, report *r) {
    return findings_assume(f, what, why, "--config FILE") || report_no_memory(r);
}

/* Finds the number of heads. The published text encoders have heads with a width of 64. Only the
 * largest model of SigLIP differs, but its files give the number of heads. */
static bool put_heads(const described *d, vit_config *c, findings *f, report *r) {
    const json_value *told = json_get(d->text, d->is_open_clip    ? "heads"
                                               : d->is_mobileclip ? "n_heads_per_layer"
                                                                  : "num_attention_heads");
    char what[64];
    c->num_heads = (int)json_integer(told, 0);
    if (!told && d->text && d->is_open_clip) c->num_heads = 8; /* the default of open_clip */
    /* the defaults of transformers */
    if (!told && d->text && !d->is_open_clip) c->num_heads = d->is_siglip ? 12 : 8;
    if (!c->num_heads && c->embed_dim % 64 == 0) {
        c->num_heads = c->embed_dim / 64;
        snprintf(what, sizeof what, "text num_heads=%d", c->num_heads);
        if (!assume(f, what, "the heads of CLIP's text encoders are 64 wide", r)) return false;
    }
    if (c->num_heads < 1 || c->num_heads > 1024 || c->embed_dim % c->num_heads)
        return report_fail(r,
                           "the text encoder's heads: expected a divisor of its width, %d, found "
                           "%d; give --config FILE with the number of heads",
                           c->embed_dim, c->num_heads);
    c->head_dim = c->embed_dim / c->num_heads;
    c->attn_scale = (float)pow(c->head_dim, -0.5);
    return true;
}

static bool put_activation(const described *d, const vit_config *image, vit_config *c, findings *f,
                           report *r) {
    const char *word = json_string(json_get(d->text, "hidden_act"), NULL);
    const char *approximate = json_string(json_get(json_get(d->text, "act_kwargs"), "approximate"),
                                          "none");
    char what[64], text[32];
    if (d->text && d->is_open_clip) {
        c->activation = strcmp(approximate, "tanh") ? VIT_GELU : VIT_GELU_TANH;
        if (json_bool(json_get(d->model, "quick_gelu"), false)) c->activation = VIT_QUICK_GELU;
        return true;
    }
    if (d->text && !word)
        word = d->is_siglip ? "gelu_pytorch_tanh" : d->is_mobileclip ? "gelu" : "quick_gelu";
    if (word) {
        c->activation = setting_find_any_word(SETTING_ACTIVATION, word);
        return c->activation >= 0 ||
               report_fail(r,
                           "the text encoder's hidden_act %.40s: this version of vit.h lacks this "
                           "activation",
                           word);
    }
    c->activation = image->activation;
    snprintf(what, sizeof what, "text activation=%s",
             setting_text(SETTING_ACTIVATION, c->activation, text));
    return assume(f, what, "as in the image encoder", r);
}

/* Finds which tokens attend to each other and which token is read. In SigLIP, all 64 tokens attend
 * to each other, including the padding, and the last token is read. */
static bool put_attention(const described *d, bool is_siglip, vit_config *c, report *r) {
    const json_value *mask = json_get(d->text, "no_causal_mask");
    const char *pool = json_string(json_get(d->text, "pool_type"), is_siglip ? "last" : "argmax");
    const bool all = json_bool(mask, is_siglip) ||
                     !json_bool(json_get(d->text, "causal_masking"), true);
    c->attention = all ? VIT_ATTENTION_ALL : VIT_ATTENTION_CAUSAL;
    c->pool = strcmp(pool, "last") ? VIT_POOL_ARGMAX : VIT_POOL_LAST;
    return !strcmp(pool, "last") || !strcmp(pool, "argmax") || !strcmp(pool, "eos") ||
           report_fail(r, "the text encoder's pool_type %.40s: expected argmax, eos or last", pool);
}

/* Reads a single number that is stored as a tensor beside the model's weights. If there is no such
 * tensor, *value stays unchanged. */
static bool read_number(const layout_map *map, const char *name, bool *found, float *value,
                        report *r) {
    const checkpoint_tensor_info *info = layout_find_key(map, name, 0);
    char above[64];
    snprintf(above, sizeof above, "../%s", name);
    if (!info) info = layout_find_key(map, above, 0);
    *found = info && info->count == 1;
    return !*found || checkpoint_read(map->checkpoint, info, 0, 1, value, r);
}

static bool put_logits(const layout_map *map, bool *is_siglip, vit_config *c, report *r) {
    float scale = 0, bias = 0;
    bool has_scale, has_bias;
    if (!read_number(map, "logit_scale", &has_scale, &scale, r) ||
        !read_number(map, "logit_bias", &has_bias, &bias, r))
        return false;
    *is_siglip = has_bias;
    c->logit_scale = has_scale ? expf(scale) : 1;
    c->logit_bias = bias;
    c->head_activation = has_bias ? VIT_HEAD_SIGMOID : VIT_HEAD_SOFTMAX;
    return true;
}

static bool fill_config(const layout_map *map, const described *d, const vit_config *image,
                        vit_config *c, findings *f, report *r) {
    char detail[VIT_MAX_DETAIL];
    bool is_siglip;
    memset(c, 0, sizeof *c);
    if (!put_sizes(map, c, r) || !put_logits(map, &is_siglip, c, r) || !put_heads(d, c, f, r) ||
        !put_activation(d, image, c, f, r) || !put_attention(d, is_siglip, c, r))
        return false;
    c->in_chans = c->img_height = c->patch_size = 1;
    c->depth = map->depth;
    c->positions = VIT_POS_ALL;
    c->has_qkv_bias = layout_has(map, "blocks.0.attn.qkv.bias");
    c->has_proj_bias = layout_has(map, "blocks.0.attn.proj.bias");
    c->has_layer_scale = layout_has(map, "blocks.0.ls1.gamma");
    c->has_final_norm = 1;
    c->norm_eps = is_siglip ? 1e-6f : 1e-5f;
    c->norm_eps = (float)json_number(
        json_get(d->is_open_clip ? json_get(d->text, "norm_kwargs") : d->text,
                 d->is_open_clip ? "eps" : "layer_norm_eps"),
        (double)c->norm_eps);
    c->resize_height = 1;
    c->resize_width = c->img_width;
    c->std[0] = 1;
    c->selftest_seed = 1;
    c->selftest_tolerance = 2e-5f;
    return vit_config_check(c, detail) == VIT_OK || report_fail(r, "the text encoder: %s", detail);
}

/* === The whole text encoder === */

bool text_find(checkpoint *c, const json_value *root, const vit_config *image, text_encoder *text,
               findings *f, report *r) {
    static const char *all[] = { "*" };
    const text_list others = { .items = all, .count = 1 };
    settings none[FROM_COUNT];
    const described d = describe(root);
    settings_stored *stored = &text->model.stored;
    int i;
    if (!layout_detect_text(c, &text->map, r)) return false;
    if (!text->map.layout) return true;
    for (i = 0; i < FROM_COUNT; i++) settings_start(&none[i], "");
    layout_take_orders(&text->map, none);
    text->map.embed_dim = size_of(&text->map, "token_embed.weight", true);
    if (!fill_config(&text->map, &d, image, &text->model.config, f, r)) return false;
    stored->chans = stored->patch = stored->grid_height = 1;
    stored->position_rows = stored->patch_rows = stored->grid_width = text->model.config.img_width;
    return layout_make_plan(&text->map, &text->model, &others, &text->plan, f, r);
}

bool text_read_tokenizer(text_encoder *text, const char *path, const json_value *root, report *r) {
    const described d = describe(root);
    const vit_config *c = &text->model.config;
    const char *clean = json_string(json_get(json_get(d.text, "tokenizer_kwargs"), "clean"), "");
    const bool is_hf = text->map.layout == &layout_hf_text;
    const tokenizer_source from = { .path = path,
                                    .cleaning = !strcmp(clean, "canonicalize") ? TEXT_CANONICALIZE
                                                : is_hf                        ? TEXT_HUGGING_FACE
                                                                               : TEXT_OPENAI,
                                    .context = c->img_width };
    vit_tokenizer t;
    if (!tokenizer_build(&from, &text->tokenizer, r)) return false;
    if (vit_tokenizer_open(text->tokenizer.data, text->tokenizer.size, &t) != VIT_OK)
        return report_fail(r, "%s: the tokenizer cannot be read back", path);
    if (c->pool == VIT_POOL_ARGMAX && t.end != t.num_ids - 1)
        return report_fail(
            r,
            "%s: the text encoder reads the token with the largest id, so a text must end in "
            "token %d, but this tokenizer ends texts in token %d. The same is true of MetaCLIP 2, "
            "which this version of vit.h does not support",
            path, t.num_ids - 1, t.end);
    return t.num_ids <= c->vocab_size ||
           report_fail(r,
                       "%s: expected ids below %d, the number of rows of the text encoder's "
                       "table, found id %d",
                       path, c->vocab_size, t.num_ids - 1);
}

bool text_holds(const text_encoder *text, const char *name) {
    size_t i;
    int part;
    for (i = 0; i < text->plan.count; i++)
        for (part = 0; part < text->plan.items[i].part_count; part++) {
            const checkpoint_tensor_info *info = text->plan.items[i].parts[part].info;
            if (info && !strcmp(info->name, name)) return true;
        }
    return false;
}

void text_free(text_encoder *text) {
    layout_free_plan(&text->plan);
    free(text->tokenizer.data);
    if (text->map.layout) layout_free_map(&text->map);
}
