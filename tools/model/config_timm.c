#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* === Tables === */

/* How the value of a key is read. For every key, null leaves the settings unchanged. */
typedef enum key_action {
    TO_SETTING,    /* the value of `setting`, a number or a flag */
    TO_SIZE,       /* the image size, n or [height, width] */
    TO_TRUE,       /* true sets the flag `setting`; false leaves the flag unchanged */
    TO_SQUARE,     /* the value of `setting`, as n or [n, n] */
    TO_INPUT_SIZE, /* [channels, height, width] */
    TO_WORD,       /* the value of `setting`, as one of its words */
    TO_MEAN,
    TO_STD,
    TO_PRE_NORM,  /* false means that the patch embedding has a bias */
    TO_ABSENCE,   /* false clears the flag `setting`; any other value sets the flag */
    TO_POSITIONS, /* one of pos_embed, use_abs_pos_emb and no_embed_class */
    /* use_rot_pos_emb: false means that there are no rotary positions; true does not name their
     * type */
    TO_ROPE,
    TO_NORM, /* this and the next four: a kind of layer, by the name of its class */
    TO_ACTIVATION,
    TO_BLOCK,
    TO_ATTENTION,
    TO_MLP,
    TO_SWIGLU, /* true means a gated MLP with SiLU */
    /* false means that there is no final norm; otherwise the tensors show the place of the norm */
    TO_FINAL_NORM,
    TO_NOTHING, /* vit.h lacks this option, so any value but null is refused */
} key_action;

/* A key of timm's config.json, and how its value is read. */
typedef struct key_rule {
    const char *key;
    key_action action;
    setting_key setting;
} key_rule;

static const key_rule model_args[] = {
    { "img_size", TO_SIZE, SETTING_COUNT },
    { "patch_size", TO_SQUARE, SETTING_PATCH_SIZE },
    { "in_chans", TO_SETTING, SETTING_IN_CHANS },
    { "num_classes", TO_SETTING, SETTING_NUM_CLASSES },
    { "embed_dim", TO_SETTING, SETTING_EMBED_DIM },
    { "depth", TO_SETTING, SETTING_DEPTH },
    { "num_heads", TO_SETTING, SETTING_NUM_HEADS },
    { "mlp_ratio", TO_SETTING, SETTING_MLP_RATIO },
    { "qkv_bias", TO_SETTING, SETTING_QKV_BIAS },
    { "qk_scale", TO_SETTING, SETTING_ATTN_SCALE },
    { "norm_eps", TO_SETTING, SETTING_NORM_EPS },
    { "representation_size", TO_SETTING, SETTING_REPRESENTATION_DIM },
    { "distilled", TO_SETTING, SETTING_DIST_TOKEN },
    { "global_pool", TO_WORD, SETTING_POOL },
    { "class_token", TO_SETTING, SETTING_CLS_TOKEN },
    { "reg_tokens", TO_SETTING, SETTING_REG_TOKENS },
    { "pos_embed", TO_POSITIONS, SETTING_POSITIONS },
    { "use_abs_pos_emb", TO_POSITIONS, SETTING_POSITIONS },
    { "no_embed_class", TO_POSITIONS, SETTING_POSITIONS },
    { "num_reg_tokens", TO_SETTING, SETTING_REG_TOKENS },
    { "use_rel_pos_bias", TO_SETTING, SETTING_REL_POS },
    { "use_shared_rel_pos_bias", TO_TRUE, SETTING_REL_POS },
    { "rope_type", TO_WORD, SETTING_ROPE_TYPE },
    { "use_rot_pos_emb", TO_ROPE, SETTING_ROPE_TYPE },
    { "rope_temperature", TO_SETTING, SETTING_ROPE_TEMPERATURE },
    { "rope_grid_indexing", TO_WORD, SETTING_ROPE_INDEXING },
    { "rope_grid_offset", TO_SETTING, SETTING_ROPE_OFFSET },
    { "ref_feat_shape", TO_SQUARE, SETTING_ROPE_REFERENCE },
    { "pre_norm", TO_PRE_NORM, SETTING_PRE_NORM },
    { "use_pre_transformer_norm", TO_PRE_NORM, SETTING_PRE_NORM },
    { "final_norm", TO_FINAL_NORM, SETTING_FINAL_NORM },
    { "fc_norm", TO_SETTING, SETTING_FC_NORM },
    { "use_fc_norm", TO_SETTING, SETTING_FC_NORM },
    { "init_values", TO_ABSENCE, SETTING_LAYER_SCALE },
    { "qk_norm", TO_SETTING, SETTING_QK_NORM },
    { "proj_bias", TO_SETTING, SETTING_PROJ_BIAS },
    { "scale_attn_norm", TO_SETTING, SETTING_ATTN_NORM },
    { "scale_mlp_norm", TO_SETTING, SETTING_MLP_NORM },
    { "scale_attn_inner", TO_SETTING, SETTING_ATTN_NORM },
    { "scale_mlp", TO_SETTING, SETTING_MLP_NORM },
    { "attn_pool_num_heads", TO_SETTING, SETTING_POOL_NUM_HEADS },
    { "pool_include_prefix", TO_SETTING, SETTING_POOL_PREFIX },
    { "act_layer", TO_ACTIVATION, SETTING_ACTIVATION },
    { "norm_layer", TO_NORM, SETTING_NORM_TYPE },
    { "embed_norm_layer", TO_ABSENCE, SETTING_PATCH_NORM },
    { "block_fn", TO_BLOCK, SETTING_BLOCK_TYPE },
    { "use_post_norm", TO_BLOCK, SETTING_BLOCK_TYPE },
    { "attn_layer", TO_ATTENTION, SETTING_DIFF_ATTN },
    { "mlp_layer", TO_MLP, SETTING_GATED_MLP },
    { "swiglu_mlp", TO_SWIGLU, SETTING_GATED_MLP },
    { "dynamic_img_size", TO_SETTING, SETTING_DYNAMIC_IMG_SIZE },
    { "dynamic_img_pad", TO_SETTING, SETTING_DYNAMIC_IMG_PAD },
    { "backbone", TO_NOTHING, SETTING_COUNT },
};

static const key_rule pretrained_cfg[] = {
    { "input_size", TO_INPUT_SIZE, SETTING_COUNT },
    { "crop_pct", TO_SETTING, SETTING_CROP_PCT },
    { "crop_mode", TO_WORD, SETTING_CROP_MODE },
    { "interpolation", TO_WORD, SETTING_INTERPOLATION },
    { "mean", TO_MEAN, SETTING_COUNT },
    { "std", TO_STD, SETTING_COUNT },
    { "num_classes", TO_SETTING, SETTING_NUM_CLASSES },
};

static const key_rule top[] = {
    { "num_classes", TO_SETTING, SETTING_NUM_CLASSES },
    { "global_pool", TO_WORD, SETTING_POOL },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Values === */

static void describe(const json_value *value, char *text, size_t size) {
    switch (value->kind) {
    case JSON_NULL: snprintf(text, size, "null"); break;
    case JSON_FALSE: snprintf(text, size, "false"); break;
    case JSON_TRUE: snprintf(text, size, "true"); break;
    case JSON_NUMBER: snprintf(text, size, "%.9g", json_number(value, 0)); break;
    case JSON_STRING: snprintf(text, size, "%.60s", json_string(value, "")); break;
    case JSON_ARRAY: snprintf(text, size, "a list of %u", (unsigned)value->count); break;
    default: snprintf(text, size, "an object"); break;
    }
}

static bool wrong(const char *where, const char *key, const char *expected, const json_value *value,
                  report *r) {
    char found[80];
    describe(value, found, sizeof found);
    return report_fail(r, "%s%s: expected %s, found %s", where, key, expected, found);
}

static bool is_count(const json_value *value) {
    const int64_t count = json_integer(value, -1);
    return count >= 0 && count <= 0x7fffffff;
}

/* True if the value is a number that fits into a float. */
static bool is_number(const json_value *value) {
    return fabs(json_number(value, HUGE_VAL)) <= 1e30;
}

static bool put_setting(settings *s, const key_rule *rule, const char *where,
                        const json_value *value, report *r) {
    setting_kind kind = setting_rows[rule->setting].kind;
    bool truth = value->kind == JSON_TRUE || value->kind == JSON_FALSE;
    /* if there is no representation_size, timm writes false */
    if (kind == SETTING_FLAG || (rule->setting == SETTING_REPRESENTATION_DIM && truth)) {
        if (!truth || (value->kind == JSON_TRUE && kind != SETTING_FLAG))
            return wrong(where, rule->key, "true or false", value, r);
        settings_put(s, rule->setting, value->kind == JSON_TRUE);
        return true;
    }
    if (kind == SETTING_INTEGER && !is_count(value))
        return wrong(where, rule->key, "a whole number", value, r);
    if (!is_number(value)) return wrong(where, rule->key, "a number", value, r);
    settings_put(s, rule->setting, json_number(value, 0));
    return true;
}

/* Reads a number n, which stands for both values, or a list of two numbers. */
static bool pair(const json_value *value, int64_t *first, int64_t *second) {
    const json_value *a = value, *b = value;
    if (value->kind == JSON_ARRAY) {
        if (value->count != 2) return false;
        a = json_first(value);
        b = a->next;
    }
    if (!is_count(a) || !is_count(b)) return false;
    *first = json_integer(a, 0);
    *second = json_integer(b, 0);
    return true;
}

static bool put_size(settings *s, const key_rule *rule, const char *where, const json_value *value,
                     report *r) {
    int64_t height, width;
    if (!pair(value, &height, &width) || height < 1 || width < 1)
        return wrong(where, rule->key, "n or [height, width]", value, r);
    settings_put(s, SETTING_IMG_HEIGHT, (double)height);
    settings_put(s, SETTING_IMG_WIDTH, (double)width);
    return true;
}

static bool put_square(settings *s, const key_rule *rule, const char *where,
                       const json_value *value, report *r) {
    int64_t height, width;
    if (!pair(value, &height, &width) || height < 1 || height != width)
        return wrong(where, rule->key,
                     rule->setting == SETTING_PATCH_SIZE ? "one number (patches are square)"
                                                         : "one number, the side of a square",
                     value, r);
    settings_put(s, rule->setting, (double)height);
    return true;
}

static bool put_input_size(settings *s, const key_rule *rule, const char *where,
                           const json_value *value, report *r) {
    const json_value *chans = value->kind == JSON_ARRAY ? json_first(value) : NULL;
    if (!chans || value->count != 3 || !is_count(chans) || !is_count(chans->next) ||
        !is_count(chans->next->next))
        return wrong(where, rule->key, "[channels, height, width]", value, r);
    settings_put(s, SETTING_IMG_HEIGHT, json_number(chans->next, 0));
    settings_put(s, SETTING_IMG_WIDTH, json_number(chans->next->next, 0));
    if (s->value[SETTING_IMG_HEIGHT] >= 1 && s->value[SETTING_IMG_WIDTH] >= 1) return true;
    return wrong(where, rule->key, "sizes above 0", value, r);
}

static bool put_word(settings *s, const key_rule *rule, const char *where, const json_value *value,
                     report *r) {
    const char *word = json_string(value, NULL);
    int place = word ? setting_find_word(rule->setting, word) : -1;
    if (place < 0) return wrong(where, rule->key, setting_rows[rule->setting].choices, value, r);
    settings_put(s, rule->setting, place);
    return true;
}

static bool put_vector(double *out, int *count, const key_rule *rule, const char *where,
                       const json_value *value, report *r) {
    const json_value *item;
    *count = 0;
    if (value->kind != JSON_ARRAY || value->count < 1 || value->count > VIT_MAX_CHANS)
        return wrong(where, rule->key, "a list of numbers, one for each channel", value, r);
    for (item = json_first(value); item; item = item->next) {
        if (!is_number(item)) return wrong(where, rule->key, "a list of numbers", item, r);
        out[(*count)++] = json_number(item, 0);
    }
    return true;
}

/* Writes the name of a layer in lower case, without "nn." at its beginning and without '_'. For
 * "GELU" or "nn.GELU", `text` receives "gelu"; for "GELUTanh", it receives "gelutanh". */
static void fold(const char *name, char text[80]) {
    size_t used = 0;
    if (!strncmp(name, "nn.", 3)) name += 3;
    for (; *name && used + 1 < 80; name++)
        if (*name != '_') text[used++] = (char)(*name >= 'A' && *name <= 'Z' ? *name + 32 : *name);
    text[used] = '\0';
}

/* A row of a table of names: the name of a class of layers, and the value of the setting for this
 * class. A row with the name NULL ends the table. */
typedef struct layer_name {
    const char *name; /* the name as `fold` writes it */
    int value;
} layer_name;

static bool put_layer(settings *s, const key_rule *rule, const layer_name *names, const char *where,
                      const json_value *value, report *r) {
    const char *text = json_string(value, "");
    char folded[80], expected[200];
    size_t used = 0;
    int i;
    fold(text, folded);
    expected[0] = '\0';
    for (i = 0; names[i].name; i++) {
        if (!strcmp(names[i].name, folded)) {
            settings_put(s, rule->setting, names[i].value);
            return true;
        }
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", i ? ", " : "",
                                 names[i].name);
    }
    return wrong(where, rule->key, expected, value, r);
}

static bool put_norm(settings *s, const key_rule *rule, const char *where, const json_value *value,
                     report *r) {
    static const layer_name names[] = {
        { "layernorm", VIT_LAYER_NORM },
        { "rmsnorm", VIT_RMS_NORM },
        { NULL, 0 },
    };
    return put_layer(s, rule, names, where, value, r);
}

static bool put_activation(settings *s, const key_rule *rule, const char *where,
                           const json_value *value, report *r) {
    const int activation = setting_find_any_word(rule->setting, json_string(value, ""));
    if (activation < 0)
        return wrong(where, rule->key, setting_rows[rule->setting].choices, value, r);
    settings_put(s, rule->setting, activation);
    return true;
}

static bool put_block(settings *s, const key_rule *rule, const char *where, const json_value *value,
                      report *r) {
    static const layer_name names[] = {
        { "block", VIT_BLOCK_PRE_NORM },
        { "respostblock", VIT_BLOCK_RES_POST_NORM },
        { "parallelscalingblock", VIT_BLOCK_PARALLEL },
        { "diffparallelscalingblock", VIT_BLOCK_PARALLEL },
        { NULL, 0 },
    };
    if (!strcmp(rule->key, "use_post_norm")) {
        if (value->kind == JSON_TRUE) settings_put(s, rule->setting, VIT_BLOCK_RES_POST_NORM);
        return true;
    }
    return put_layer(s, rule, names, where, value, r);
}

static bool put_attention(settings *s, const key_rule *rule, const char *where,
                          const json_value *value, report *r) {
    static const layer_name names[] = { { "attn", 0 }, { "diff", 1 }, { NULL, 0 } };
    return put_layer(s, rule, names, where, value, r);
}

static bool put_mlp(settings *s, const key_rule *rule, const char *where, const json_value *value,
                    report *r) {
    static const layer_name names[] = {
        { "mlp", 0 },
        { "swiglu", 1 },
        { "swiglupacked", 1 },
        { NULL, 0 },
    };
    return put_layer(s, rule, names, where, value, r);
}

static bool put_pre_norm(settings *s, const key_rule *rule, const char *where,
                         const json_value *value, report *r) {
    if (!put_setting(s, rule, where, value, r)) return false;
    settings_put(s, SETTING_PATCH_BIAS, s->value[rule->setting] == 0);
    return true;
}

static bool put_swiglu(settings *s, const key_rule *rule, const json_value *value) {
    settings_put(s, rule->setting, value->kind == JSON_TRUE);
    if (value->kind == JSON_TRUE) settings_put(s, SETTING_ACTIVATION, VIT_SILU);
    return true;
}

static bool put_rope(settings *s, const key_rule *rule, const json_value *value) {
    if (value->kind == JSON_FALSE) settings_put(s, rule->setting, ROPE_NONE);
    return true;
}

static bool put_true(settings *s, const key_rule *rule, const json_value *value) {
    if (value->kind == JSON_TRUE) settings_put(s, rule->setting, 1);
    return true;
}

static bool put_absence(settings *s, const key_rule *rule, const json_value *value) {
    settings_put(s, rule->setting, value->kind != JSON_FALSE);
    return true;
}

/* Sets which tokens have positions. A value that means "no positions" has priority over all others.
 * Such values are a "pos_embed" of "" or "none", and a use_abs_pos_emb of false. */
static bool put_positions(settings *s, const key_rule *rule, const char *where,
                          const json_value *value, report *r) {
    const char *text = json_string(value, NULL);
    if (!strcmp(rule->key, "use_abs_pos_emb")) {
        if (value->kind == JSON_FALSE) settings_put(s, rule->setting, VIT_POS_NONE);
        return true;
    }
    if (!strcmp(rule->key, "no_embed_class")) {
        if (value->kind != JSON_TRUE && value->kind != JSON_FALSE)
            return wrong(where, rule->key, "true or false", value, r);
        if (s->given[rule->setting]) return true;
        settings_put(s, rule->setting, value->kind == JSON_TRUE ? VIT_POS_PATCHES : VIT_POS_ALL);
        return true;
    }
    if (text && (!*text || !strcmp(text, "none"))) settings_put(s, rule->setting, VIT_POS_NONE);
    else if (!text || strcmp(text, "learn") != 0)
        return wrong(where, rule->key, "learn or none", value, r);
    return true;
}

static bool put_final_norm(settings *s, const key_rule *rule, const char *where,
                           const json_value *value, report *r) {
    if (value->kind == JSON_TRUE) return true;
    if (value->kind != JSON_FALSE) return wrong(where, rule->key, "true or false", value, r);
    settings_put(s, SETTING_FINAL_NORM, 0);
    settings_put(s, SETTING_FC_NORM, 0);
    return true;
}

static bool apply_rule(settings *s, const key_rule *rule, const char *where,
                       const json_value *value, report *r) {
    if (value->kind == JSON_NULL) return true;
    switch (rule->action) {
    case TO_PRE_NORM: return put_pre_norm(s, rule, where, value, r);
    case TO_TRUE: return put_true(s, rule, value);
    case TO_ABSENCE: return put_absence(s, rule, value);
    case TO_POSITIONS: return put_positions(s, rule, where, value, r);
    case TO_NORM: return put_norm(s, rule, where, value, r);
    case TO_ACTIVATION: return put_activation(s, rule, where, value, r);
    case TO_BLOCK: return put_block(s, rule, where, value, r);
    case TO_ROPE: return put_rope(s, rule, value);
    case TO_ATTENTION: return put_attention(s, rule, where, value, r);
    case TO_SWIGLU: return put_swiglu(s, rule, value);
    case TO_MLP: return put_mlp(s, rule, where, value, r);
    case TO_FINAL_NORM: return put_final_norm(s, rule, where, value, r);
    case TO_SETTING: return put_setting(s, rule, where, value, r);
    case TO_SIZE: return put_size(s, rule, where, value, r);
    case TO_SQUARE: return put_square(s, rule, where, value, r);
    case TO_INPUT_SIZE: return put_input_size(s, rule, where, value, r);
    case TO_WORD: return put_word(s, rule, where, value, r);
    case TO_MEAN: return put_vector(s->mean, &s->mean_count, rule, where, value, r);
    case TO_STD: return put_vector(s->std, &s->std_count, rule, where, value, r);
    default: return wrong(where, rule->key, "null", value, r); /* the action is TO_NOTHING */
    }
}

static bool apply_rules(settings *s, const key_rule *rules, size_t count, const char *where,
                        const json_value *object, report *r) {
    size_t i;
    for (i = 0; i < count; i++) {
        const json_value *value = json_get(object, rules[i].key);
        if (value && !apply_rule(s, &rules[i], where, value, r)) return false;
    }
    return true;
}

/* === timm's whole config.json === */

static const json_value *get_object(const json_value *root, const char *key, report *r) {
    const json_value *value = json_get(root, key);
    if (!value || value->kind == JSON_NULL) return NULL;
    if (value->kind != JSON_OBJECT) {
        wrong("", key, "an object", value, r);
        return NULL;
    }
    return value;
}

/* Reads timm's name of the model: the member "architecture", and the tag. The tag is a separate
 * member of pretrained_cfg. Old files have no pretrained_cfg; in such files the tag is at the top
 * level. */
static bool get_architecture(config_file *config, const json_value *root,
                             const json_value *pretrained, report *r) {
    const json_value *value = json_get(root, "architecture");
    const char *tag = json_string(json_get(pretrained ? pretrained : root, "tag"), NULL);
    if (!value && pretrained) value = json_get(pretrained, "architecture");
    if (!value || value->kind == JSON_NULL) return true;
    if (!json_string(value, NULL)) return wrong("", "architecture", "a name", value, r);
    config->architecture = json_string(value, NULL);
    if (!tag || !*tag || strchr(config->architecture, '.')) return true;
    snprintf(config->full_name, sizeof config->full_name, "%.120s.%.120s", config->architecture,
             tag);
    config->architecture = config->full_name;
    return true;
}

/* Sets the largest number of patches of a naflexvit_*. The image size in such a model's file gives
 * only this number, not the grid of the positions. */
static void put_area(settings *s, const config_file *config) {
    const double patch = s->given[SETTING_PATCH_SIZE] ? s->value[SETTING_PATCH_SIZE] : 16;
    if (!config->architecture || strncmp(config->architecture, "naflexvit_", 10) != 0 ||
        !s->given[SETTING_IMG_HEIGHT] || patch < 1)
        return;
    settings_put(s, SETTING_MAX_PATCHES,
                 floor(s->value[SETTING_IMG_HEIGHT] / patch) *
                     floor(s->value[SETTING_IMG_WIDTH] / patch));
    s->given[SETTING_IMG_HEIGHT] = s->given[SETTING_IMG_WIDTH] = false;
}

/* Later values replace earlier values. pretrained_cfg describes the weights. The top level and
 * model_args describe the model that was made from the weights, so both are read later. */
bool config_timm_apply(config_file *config, settings *s, report *r) {
    const json_value *root = config->document.root;
    const json_value *pretrained = get_object(root, "pretrained_cfg", r);
    const json_value *arguments = get_object(root, "model_args", r);
    if (r->failed) return false;
    if (!apply_rules(s, pretrained_cfg, COUNT(pretrained_cfg), "", root, r)) return false;
    if (pretrained &&
        !apply_rules(s, pretrained_cfg, COUNT(pretrained_cfg), "pretrained_cfg.", pretrained, r))
        return false;
    if (!apply_rules(s, top, COUNT(top), "", root, r)) return false;
    if (arguments && !apply_rules(s, model_args, COUNT(model_args), "model_args.", arguments, r))
        return false;
    config->label_names = json_get(root, "label_names");
    if (!config->label_names) config->label_names = json_get(root, "labels");
    config->label_descriptions = json_get(root, "label_descriptions");
    if (!config->label_names && pretrained) {
        config->label_names = json_get(pretrained, "label_names");
        config->label_descriptions = json_get(pretrained, "label_descriptions");
    }
    if (!get_architecture(config, root, pretrained, r)) return false;
    put_area(s, config);
    return true;
}
