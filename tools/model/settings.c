#include "model/settings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* === The table === */

static const struct {
    const char *name;
    setting_kind kind;
    const char *words, *help;
} table[] = {
#define X(key, name, kind, words, what) { name, SETTING_##kind, words, what },
    SETTING_LIST(X)
#undef X
};

/* What timm and others call the same thing. */
static const struct {
    const char *name;
    setting_key key;
} aliases[] = {
    { "eps", SETTING_NORM_EPS },
    { "layer_norm_eps", SETTING_NORM_EPS },
    { "qk_scale", SETTING_ATTN_SCALE },
    { "qkv_bias", SETTING_QKV_BIAS },
    { "class_token", SETTING_CLS_TOKEN },
    { "distilled", SETTING_DIST_TOKEN },
    { "reg_tokens", SETTING_REG_TOKENS },
    { "num_register_tokens", SETTING_REG_TOKENS },
    { "pre_norm", SETTING_PRE_NORM },
    { "qk_norm", SETTING_QK_NORM },
    { "scale_attn_norm", SETTING_ATTN_NORM },
    { "scale_mlp_norm", SETTING_MLP_NORM },
    { "proj_bias", SETTING_PROJ_BIAS },
    { "act_layer", SETTING_ACTIVATION },
    { "hidden_act", SETTING_ACTIVATION },
    { "final_norm", SETTING_FINAL_NORM },
    { "fc_norm", SETTING_FC_NORM },
    { "global_pool", SETTING_POOL },
    { "pool_include_prefix", SETTING_POOL_PREFIX },
    { "representation_size", SETTING_REPRESENTATION_DIM },
    { "heads", SETTING_NUM_HEADS },
    { "use_fc_norm", SETTING_FC_NORM },
    { "use_pre_transformer_norm", SETTING_PRE_NORM },
    { "use_rel_pos_bias", SETTING_REL_POS },
    { "scale_attn_inner", SETTING_ATTN_NORM },
    { "scale_mlp", SETTING_MLP_NORM },
    { "attn_pool_num_heads", SETTING_POOL_NUM_HEADS },
    { "rope_theta", SETTING_ROPE_TEMPERATURE }
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *setting_name(setting_key key)
{
    return table[key].name;
}

setting_kind setting_kind_of(setting_key key)
{
    return table[key].kind;
}

const char *setting_words(setting_key key)
{
    return table[key].words;
}

const char *setting_help(setting_key key)
{
    return table[key].help;
}

void settings_start(settings *s, const char *origin)
{
    memset(s, 0, sizeof *s);
    s->origin = origin;
}

void settings_put(settings *s, setting_key key, double value)
{
    s->given[key] = true;
    s->value[key] = value;
}

/* === KEY=VALUE === */

int setting_find_word(setting_key key, const char *word)
{
    const char *at = table[key].words;
    size_t length = strlen(word);
    int place = 0;
    while (at) {
        const char *space = strchr(at, ' ');
        size_t size = space ? (size_t)(space - at) : strlen(at);
        if (size == length && !memcmp(at, word, size)) return place;
        at = space ? space + 1 : NULL;
        place++;
    }
    return -1;
}

static bool setting_find(const char *name, setting_key *key)
{
    size_t i;
    for (i = 0; i < SETTING_COUNT; i++) {
        *key = (setting_key)i;
        if (!strcmp(name, table[i].name)) return true;
    }
    for (i = 0; i < COUNT(aliases); i++) {
        *key = aliases[i].key;
        if (!strcmp(name, aliases[i].name)) return true;
    }
    return false;
}

static bool parse_value(settings *s, setting_key key, const char *text, report *r)
{
    const char *name = table[key].name;
    double number = 0;
    long integer = 0;
    int word;
    switch (table[key].kind) {
    case SETTING_INTEGER:
        if (!text_read_int(text, 0, INT_MAX, &integer))
            return report_fail(r, "%s %s: expected a whole number, found \"%s\"", s->origin, name,
                               text);
        settings_put(s, key, (double)integer);
        return true;
    case SETTING_NUMBER:
        if (!text_read_number(text, -1e30, 1e30, &number))
            return report_fail(r, "%s %s: expected a number, found \"%s\"", s->origin, name, text);
        settings_put(s, key, number);
        return true;
    case SETTING_FLAG:
        if (strcmp(text, "0") && strcmp(text, "1") && strcmp(text, "true") && strcmp(text, "false"))
            return report_fail(r, "%s %s: expected 0 or 1, found \"%s\"", s->origin, name, text);
        settings_put(s, key, text[0] == '1' || text[0] == 't');
        return true;
    default: /* SETTING_WORD */
        word = setting_find_word(key, text);
        if (word < 0)
            return report_fail(r, "%s %s: expected one of %s, found \"%s\"", s->origin, name,
                               table[key].words, text);
        settings_put(s, key, word);
        return true;
    }
}

/* Numbers between commas; one stands for every channel. */
static bool parse_vector(const settings *s, const char *name, const char *text,
                         double values[VIT_MAX_CHANS], int *count, report *r)
{
    *count = 0;
    for (;;) {
        char number[64];
        size_t length = strcspn(text, ",");
        if (*count == VIT_MAX_CHANS)
            return report_fail(r, "%s %s: more than %d values", s->origin, name, VIT_MAX_CHANS);
        snprintf(number, sizeof number, "%.*s", (int)length, text);
        if (length >= sizeof number || !text_read_number(number, -1e30, 1e30, &values[*count]))
            return report_fail(r, "%s %s: expected numbers between commas, found \"%s\"",
                               s->origin, name, text);
        ++*count;
        if (!text[length]) return true;
        text += length + 1;
    }
}

bool settings_parse_size(settings *s, const char *text, report *r)
{
    int size[2];
    if (!text_read_size(text, 1, INT_MAX, size))
        return report_fail(r, "%s img_size: expected N or HxW pixels, found \"%s\"", s->origin,
                           text);
    settings_put(s, SETTING_IMG_HEIGHT, size[0]);
    settings_put(s, SETTING_IMG_WIDTH, size[1]);
    return true;
}

bool settings_parse(settings *s, const char *assignment, report *r)
{
    const char *equals = strchr(assignment, '=');
    char name[64];
    setting_key key;
    if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof name)
        return report_fail(r, "%s: expected KEY=VALUE, found \"%s\"", s->origin, assignment);
    memcpy(name, assignment, (size_t)(equals - assignment));
    name[equals - assignment] = '\0';
    if (!strcmp(name, "img_size")) return settings_parse_size(s, equals + 1, r);
    if (!strcmp(name, "mean"))
        return parse_vector(s, name, equals + 1, s->mean, &s->mean_count, r);
    if (!strcmp(name, "std")) return parse_vector(s, name, equals + 1, s->std, &s->std_count, r);
    if (!setting_find(name, &key))
        return report_fail(r, "%s: there is no setting \"%s\" (--help lists them)", s->origin,
                           name);
    return parse_value(s, key, equals + 1, r);
}

/* === Precedence === */

int settings_origin(const settings all[FROM_COUNT], setting_key key)
{
    int from = FROM_COUNT - 1;
    while (from >= 0 && !all[from].given[key]) from--;
    return from;
}

bool settings_get(const settings all[FROM_COUNT], setting_key key, double *value)
{
    int from = settings_origin(all, key);
    if (from >= 0) *value = all[from].value[key];
    return from >= 0;
}

const char *setting_text(setting_key key, double value, char text[32])
{
    const char *word = table[key].words;
    int place = (int)value;
    if (table[key].kind != SETTING_WORD) {
        snprintf(text, 32, "%.9g", value);
        return text;
    }
    while (place-- > 0) word = strchr(word, ' ') + 1;
    snprintf(text, 32, "%.*s", (int)strcspn(word, " "), word);
    return text;
}

/* === From a config === */

void settings_from_config(settings *s, const vit_config *c)
{
    settings_put(s, SETTING_EMBED_DIM, c->embed_dim);
    settings_put(s, SETTING_DEPTH, c->depth);
    settings_put(s, SETTING_NUM_HEADS, c->num_heads);
    settings_put(s, SETTING_MLP_DIM, c->mlp_dim);
    settings_put(s, SETTING_PATCH_SIZE, c->patch_size);
    settings_put(s, SETTING_IMG_HEIGHT, c->img_height);
    settings_put(s, SETTING_IMG_WIDTH, c->img_width);
    settings_put(s, SETTING_CLS_TOKEN, c->has_cls_token);
    settings_put(s, SETTING_DIST_TOKEN, c->has_dist_token);
    settings_put(s, SETTING_REG_TOKENS, c->num_reg_tokens);
    settings_put(s, SETTING_POSITIONS, c->positions);
    settings_put(s, SETTING_PATCH_BIAS, c->has_patch_bias);
    settings_put(s, SETTING_STEM, c->stem);
    settings_put(s, SETTING_PATCH_PRE_NORM, c->has_patch_pre_norm);
    settings_put(s, SETTING_PATCH_NORM, c->has_patch_norm);
    settings_put(s, SETTING_PRE_NORM, c->has_pre_norm);
    settings_put(s, SETTING_NORM_TYPE, c->norm_type);
    settings_put(s, SETTING_NORM_EPS, (double)c->norm_eps);
    settings_put(s, SETTING_BLOCK_TYPE, c->block_type);
    settings_put(s, SETTING_QKV_BIAS, c->has_qkv_bias);
    settings_put(s, SETTING_QK_NORM, c->has_qk_norm);
    settings_put(s, SETTING_REL_POS, c->has_rel_pos);
    settings_put(s, SETTING_DIFF_ATTN, c->has_diff_attn);
    settings_put(s, SETTING_ATTN_NORM, c->has_attn_norm);
    settings_put(s, SETTING_PROJ_BIAS, c->has_proj_bias);
    settings_put(s, SETTING_LAYER_SCALE, c->has_layer_scale);
    settings_put(s, SETTING_ACTIVATION, c->activation);
    settings_put(s, SETTING_GATED_MLP, c->has_gated_mlp);
    settings_put(s, SETTING_MLP_NORM, c->has_mlp_norm);
    settings_put(s, SETTING_FINAL_NORM, c->has_final_norm);
    settings_put(s, SETTING_POOL, c->pool);
    settings_put(s, SETTING_POOL_PREFIX, c->pool_prefix);
    settings_put(s, SETTING_POOL_NUM_HEADS, c->pool_num_heads);
    settings_put(s, SETTING_FC_NORM, c->has_fc_norm);
    settings_put(s, SETTING_CROP_MODE, c->crop_mode);
    settings_put(s, SETTING_INTERPOLATION, c->interpolation);
    settings_put(s, SETTING_DYNAMIC_IMG_SIZE, c->dynamic_img_size);
    if (c->pos_resample) settings_put(s, SETTING_POS_RESAMPLE, c->pos_resample);
}

void settings_from_rope(settings *s, const rope_options *rope)
{
    settings_put(s, SETTING_ROPE_TYPE, rope->type);
    if (rope->type == ROPE_NONE) return;
    settings_put(s, SETTING_ROPE_TEMPERATURE, rope->temperature);
    settings_put(s, SETTING_ROPE_INDEXING, rope->indexing);
    settings_put(s, SETTING_ROPE_OFFSET, rope->offset);
    settings_put(s, SETTING_ROPE_REFERENCE, rope->reference);
}
