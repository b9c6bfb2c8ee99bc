#include "model/resolve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/settings.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The arguments of assume_settings. */
typedef struct assumer {
    const settings *all;
    const settings_seen *seen;
    const settings_resolved *model;
    findings *found;
} assumer;

/* True if the tensors or any other source give the setting. A default of the layout's library does
 * not count. */
static bool is_told(const assumer *a, setting_key key) {
    return settings_origin(a->all, key) >= 0 && !a->seen->by_default[key];
}

/* True if the blocks are described by a timm name, or by a configuration in the form of timm's
 * config.json. */
static bool is_described(const assumer *a) { return a->all[FROM_NAME].given[SETTING_BLOCK_TYPE]; }

static const char *options_of(const assumer *a, setting_key key, char text[CHOICES_SIZE]) {
    const setting_row *row = &setting_rows[key];
    const char *pools =
        a->model->config.has_cls_token /* poolings that need no additional tensors */
            ? "token|avg|max|avgmax (avg, max and avgmax include the class token only with --set "
              "pool_prefix=1)"
            : "avg|max|avgmax";
    const char *final_norms = a->model->config.pool == VIT_POOL_TOKEN
                                  ? "0|1"
                                  : "0|1 (for a norm after pooling: --set has_final_norm=0 --set "
                                    "has_fc_norm=1)";
    if (key == SETTING_ATTN_ROOT)
        return choices_of_words(key, " or --set attn_scale=1 (scores without a scale)", text);
    if (row->words && key != SETTING_POOL) return choices_of_words(key, "", text);
    snprintf(text, CHOICES_SIZE, "--set %s=%s", row->name,
             key == SETTING_POOL         ? pools
             : key == SETTING_FINAL_NORM ? final_norms
             : row->kind == SETTING_FLAG ? "0|1"
                                         : "N");
    return text;
}

static bool assume(const assumer *a, setting_key key, double value, const char *why) {
    char word[32], what[96], options[CHOICES_SIZE];
    if (findings_has_asked(a->found, setting_rows[key].name)) return true;
    snprintf(what, sizeof what, "%s=%s", setting_rows[key].name, setting_text(key, value, word));
    return findings_assume(a->found, what, why, options_of(a, key, options));
}

/* === The network === */

/* True if the model has prefix tokens, and a pooling that may include them. Then the setting
 * pool_prefix changes the head's input. */
static bool may_pool_prefix(const vit_config *c) {
    return c->num_prefix_tokens > 0 && c->pool != VIT_POOL_TOKEN && c->pool != VIT_POOL_TOKEN_AVG;
}

/* Writes and returns the reason for the assumed order of norms. */
static const char *order_why(const assumer *a, char text[HEADS_TEXT]) {
    const norm_order_evidence *order = &a->seen->norm_order;
    const bool pre = order->pre > order->post;
    snprintf(text, HEADS_TEXT,
             "read from the weights: norms and the layers that read them correlate by %.2f in "
             "this order, but by %.2f in the other order",
             pre ? order->pre : order->post, pre ? order->post : order->pre);
    return text;
}

/* Adds an assumption for each default of the layout's library that may be wrong. A default may be
 * wrong if the library's configurations can change it. A default that the library's code fixes is
 * no assumption. In hand-written models every default is an assumption. */
static bool assume_defaults(const assumer *a) {
    static const struct {
        setting_key key;
        bool everywhere;
    } keys[] = {
        { SETTING_NUM_HEADS, true },
        { SETTING_HEAD_DIM, true },
        { SETTING_NORM_EPS, true },
        { SETTING_ACTIVATION, true },
        { SETTING_POOL, true },
        { SETTING_POOL_PREFIX, false },
        { SETTING_ATTN_ROOT, true },
        { SETTING_BLOCK_TYPE, false },
        { SETTING_REPRESENTATION_ACTIVATION, true },
    };
    char why[160], order[HEADS_TEXT];
    size_t i;
    if (a->seen->library) snprintf(why, sizeof why, "as %s has it", a->seen->library);
    else snprintf(why, sizeof why, "the usual value; nothing shows it");
    for (i = 0; i < COUNT(keys); i++) {
        if (keys[i].key == SETTING_POOL_PREFIX && !may_pool_prefix(&a->model->config)) continue;
        if (keys[i].key == SETTING_ACTIVATION && a->model->config.mlp_dim == 0) continue;
        if (a->seen->by_default[keys[i].key] && (keys[i].everywhere || a->seen->is_open) &&
            !assume(a, keys[i].key, a->all[FROM_TENSORS].value[keys[i].key],
                    keys[i].key == SETTING_BLOCK_TYPE && a->seen->norm_order.is_clear
                        ? order_why(a, order)
                    : keys[i].key == SETTING_REPRESENTATION_ACTIVATION && a->seen->head_why
                        ? a->seen->head_why
                        : why))
            return false;
    }
    return true;
}

static bool assume_seen_heads(const assumer *a) {
    const vit_config *c = &a->model->config;
    char why[HEADS_TEXT], agrees[HEADS_TEXT + 80];
    if (!a->model->notes.heads_by_weights) return true;
    snprintf(agrees, sizeof agrees, "%s", heads_why(&a->seen->heads, why));
    if (a->model->notes.heads_by_width)
        snprintf(agrees, sizeof agrees, "%s, and the value in timm's models of width %d", why,
                 c->embed_dim);
    return assume(a, SETTING_NUM_HEADS, c->num_heads, agrees);
}

static bool assume_seen_patch_order(const assumer *a) {
    const settings_seen *seen = a->seen;
    char why[HEADS_TEXT];
    double order = PATCH_ORDER_CHW;
    if (!seen->patch_order_read || settings_origin(a->all, SETTING_PATCH_ORDER) != FROM_TENSORS)
        return true;
    settings_get(a->all, SETTING_PATCH_ORDER, &order);
    snprintf(why, sizeof why,
             "read from the weights: neighbouring pixels correlate by %.3f in this order, but by "
             "%.3f in the other order",
             seen->patch_order_best, seen->patch_order_next);
    return assume(a, SETTING_PATCH_ORDER, order, why);
}

static bool assume_seen_keys(const assumer *a) {
    const key_bias_evidence *keys = &a->seen->key_bias;
    char why[HEADS_TEXT];
    if (!keys->is_clear || settings_origin(a->all, SETTING_QKV_INTERLEAVE) != FROM_TENSORS)
        return true;
    snprintf(why, sizeof why,
             "read from the weights: training leaves the biases of keys small; they are %.2g times "
             "the other biases in this order, but %.2g times in the other order",
             keys->best, keys->next);
    return assume(a, SETTING_QKV_INTERLEAVE,
                  keys->is_by_head ? QKV_INTERLEAVE_PER_HEAD : QKV_INTERLEAVE_NONE, why);
}

/* Adds an assumption for each setting that was read from trained weights. Figures in each reason
 * show how clear the evidence is. */
static bool assume_evidence(const assumer *a) {
    return assume_seen_heads(a) && assume_seen_patch_order(a) && assume_seen_keys(a);
}

static bool assume_eps(const assumer *a) {
    const vit_config *c = &a->model->config;
    char why[96];
    if (!a->model->notes.eps_by_size)
        return assume(a, SETTING_NORM_EPS, setting_rows[SETTING_NORM_EPS].plain,
                      "timm's usual value");
    snprintf(why, sizeof why, "torch.nn.LayerNorm's default; timm has no model %d wide and %d deep",
             c->embed_dim, c->depth);
    return assume(a, SETTING_NORM_EPS, 1e-5, why);
}

/* Adds the usual value as an assumption for each of four settings, if nothing gives the setting. */
static bool assume_usual(const assumer *a) {
    const vit_config *c = &a->model->config;
    const bool by_width = a->model->notes.heads_by_width && !a->model->notes.heads_by_weights;
    char why[96];
    snprintf(why, sizeof why, "the value in timm's models of width %d", c->embed_dim);
    if (by_width && !assume(a, SETTING_NUM_HEADS, c->num_heads, why)) return false;
    if (settings_origin(a->all, SETTING_NORM_EPS) < 0 && !assume_eps(a)) return false;
    if (a->model->notes.chans_by_depth &&
        !assume(a, SETTING_IN_CHANS, a->model->stored.chans, "this makes patches square"))
        return false;
    return settings_origin(a->all, SETTING_ACTIVATION) >= 0 ||
           assume(a, SETTING_ACTIVATION, c->activation, "timm's usual value");
}

/* Adds the image size as an assumption. Positions show the number of patches, but the image size
 * also depends on whether patches overlap. */
static bool assume_size(const assumer *a) {
    const vit_config *c = &a->model->config;
    char what[64], why[128];
    if (settings_origin(a->all, SETTING_IMG_HEIGHT) >= 0 || a->seen->position_rows == 0 ||
        findings_has_asked(a->found, "img_size") || findings_has_asked(a->found, "patch_stride"))
        return true;
    snprintf(what, sizeof what, "img_size=%dx%d", c->img_height, c->img_width);
    snprintf(why, sizeof why, "%d x %d patches of %d pixels, %s", a->model->stored.grid_height,
             a->model->stored.grid_width, c->patch_size,
             c->patch_stride ? "with this patch_stride" : "side by side");
    return findings_assume(a->found, what, why,
                           c->patch_stride            ? "--img-size HxW"
                           : a->seen->patch_depth > 0 ? "--img-size HxW, --set patch_stride=N or "
                                                        "--set patch_cut=interleaved|reshape|unfold"
                                                      : "--img-size HxW or --set patch_stride=N");
}

static bool assume_overlap(const assumer *a) {
    const settings_stored *stored = &a->model->stored;
    const vit_config *c = &a->model->config;
    char why[160];
    if (!a->model->notes.stride_by_size) return true;
    snprintf(why, sizeof why,
             "an input of %dx%d then has a patch for each of the %d x %d positions; patches side "
             "by side (patch_stride=%d) would need resampled positions",
             c->img_height, c->img_width, stored->grid_height, stored->grid_width, c->patch_size);
    return assume(a, SETTING_PATCH_STRIDE, c->patch_stride, why);
}

/* Adds an assumption about the use of the positions. The table may be made for a longer sequence;
 * the model then uses only the first rows of the table. The assumption is that the positions are
 * resampled instead. */
static bool assume_rows(const assumer *a) {
    const settings_stored *stored = &a->model->stored;
    const vit_config *c = &a->model->config;
    char why[160];
    if (!a->model->notes.positions_resampled || a->seen->is_timm ||
        settings_origin(a->all, SETTING_POS_FIRST_ROWS) >= 0)
        return true;
    snprintf(why, sizeof why,
             "the positions of %d x %d patches are resampled to %d x %d; pos_first_rows=1 would "
             "take the first rows",
             stored->grid_height, stored->grid_width, c->grid_height, c->grid_width);
    return assume(a, SETTING_POS_FIRST_ROWS, 0, why);
}

/* Adds assumptions about the structure of the network. A stored norm may be unused, and tensors do
 * not show the order of the steps in a block. */
static bool assume_structure(const assumer *a) {
    const vit_config *c = &a->model->config;
    const struct {
        setting_key key;
        bool asked;
        int value;
        const char *why;
    } rows[] = {
        { SETTING_BLOCK_TYPE, c->depth > 0, c->block_type, "the usual order" },
        { SETTING_POOL, c->has_cls_token, c->pool, "there is a class token" },
        { SETTING_ATTENTION, c->depth > 0 && a->seen->is_torch_attention, c->attention,
          a->seen->is_batch_second
              ? "the attention layer has batch_first=False, so the tokens are presumably on axis 0"
              : "the attention layer presumably has batch_first=True or gets tokens on axis 0" },
        { SETTING_POOL_PREFIX, may_pool_prefix(c), c->pool_prefix,
          "the usual mean covers only the patches" },
        { SETTING_POSITIONS, a->model->stored.first_rows, c->positions, "the usual value" },
        { SETTING_PATCH_ORDER, a->seen->patch_depth > 0 && !is_described(a),
          (int)a->all[FROM_TENSORS].value[SETTING_PATCH_ORDER],
          a->seen->library ? "as in this layout" : "the usual order" },
        { SETTING_ATTN_ROOT,
          c->depth > 0 && !a->seen->is_torch_attention && !is_described(a) &&
              !is_told(a, SETTING_ATTN_SCALE),
          ATTN_ROOT_HEAD_DIM, "the usual root" },
    };
    const struct {
        setting_key key;
        bool used;
    } norms[] = {
        { SETTING_FINAL_NORM, c->has_final_norm && !a->seen->is_graph },
        { SETTING_FC_NORM, c->has_final_norm && c->has_fc_norm && a->seen->library },
    };
    size_t i;
    for (i = 0; i < COUNT(rows); i++)
        if (rows[i].asked && settings_origin(a->all, rows[i].key) < 0 &&
            !assume(a, rows[i].key, rows[i].value, rows[i].why))
            return false;
    if (!assume_size(a) || !assume_overlap(a) || !assume_rows(a)) return false;
    for (i = 0; i < COUNT(norms); i++)
        if (norms[i].used && settings_origin(a->all, norms[i].key) == FROM_TENSORS &&
            !assume(a, norms[i].key, 1,
                    "the file stores this norm, so the model presumably uses it"))
            return false;
    return true;
}

/* === Preprocessing === */

typedef struct text {
    char what[512], options[256];
} text;

static void append_setting(const assumer *a, setting_key key, double value, text *t) {
    char word[32], options[CHOICES_SIZE];
    if (is_told(a, key)) return;
    text_append(t->what, sizeof t->what, "%s%s=%s", *t->what ? " " : "", setting_rows[key].name,
                setting_text(key, value, word));
    text_append(t->options, sizeof t->options, "%s%s", *t->options ? " " : "",
                options_of(a, key, options));
}

/* Appends a float with as many digits as are needed to read the same value back. Most values need
 * six digits at most. */
static void append_float(float value, text *t) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", (double)value);
    if (strtof(digits, NULL) < value || strtof(digits, NULL) > value)
        snprintf(digits, sizeof digits, "%.9g", (double)value);
    text_append(t->what, sizeof t->what, "%s", digits);
}

/* Appends the values of all channels, or a single value if they are equal. */
static void append_vector(const char *name, const float *values, int count, text *t) {
    int i, different = 0;
    for (i = 1; i < count; i++) different += values[i] != values[0];
    text_append(t->what, sizeof t->what, "%s%s=", *t->what ? " " : "", name);
    append_float(values[0], t);
    for (i = 1; different && i < count; i++) {
        text_append(t->what, sizeof t->what, ",");
        append_float(values[i], t);
    }
    text_append(t->options, sizeof t->options, "%s--set %s=%c", *t->options ? " " : "", name,
                *name == 'm' ? 'M' : 'S');
}

static bool is_vector_told(const assumer *a, bool is_std) {
    const bool by_default = is_std ? a->seen->std_by_default : a->seen->mean_by_default;
    int from;
    for (from = by_default ? FROM_TENSORS + 1 : FROM_TENSORS; from < FROM_COUNT; from++)
        if (is_std ? a->all[from].std_count : a->all[from].mean_count) return true;
    return false;
}

/* Adds the image size as an assumption if the published processor keeps the size of each photo. */
static bool assume_one_size(const assumer *a) {
    const vit_config *c = &a->model->config;
    double own_sizes = 0;
    char what[40];
    settings_get(a->all, SETTING_OWN_SIZES, &own_sizes);
    if (own_sizes < 1 || c->crop_mode == VIT_CROP_ASPECT ||
        a->all[FROM_OPTIONS].given[SETTING_IMG_HEIGHT])
        return true;
    snprintf(what, sizeof what, "img_size=%dx%d", c->img_height, c->img_width);
    return findings_assume(a->found, what,
                           "every photo is squashed to this size; the published code keeps each "
                           "photo's aspect ratio, and cuts the photo into blocks of 2 x 2 patches",
                           "--img-size HxW");
}

/* Adds the preprocessing as one assumption. A configuration that gives a mean is complete: if it
 * omits a setting, the library's default applies, so nothing is assumed. */
static bool assume_preprocessing(const assumer *a) {
    const vit_config *c = &a->model->config;
    const bool by_library = a->seen->mean_by_default || a->seen->by_default[SETTING_CROP_PCT];
    double crop_pct = setting_rows[SETTING_CROP_PCT].plain;
    text t;
    char why[160];
    if (!assume_one_size(a)) return false;
    if (a->all[FROM_CONFIG].mean_count > 0) return true;
    memset(&t, 0, sizeof t);
    settings_get(a->all, SETTING_CROP_PCT, &crop_pct);
    if (!is_vector_told(a, false)) append_vector("mean", c->mean, c->in_chans, &t);
    if (!is_vector_told(a, true)) append_vector("std", c->std, c->in_chans, &t);
    if (!is_told(a, SETTING_RESIZE_HEIGHT)) append_setting(a, SETTING_CROP_PCT, crop_pct, &t);
    append_setting(a, SETTING_CROP_MODE, c->crop_mode, &t);
    append_setting(a, SETTING_INTERPOLATION, c->interpolation, &t);
    snprintf(why, sizeof why, "%s%s%s; nothing shows how images were prepared",
             by_library && !a->seen->library ? "the usual" : "as ",
             !by_library        ? "timm"
             : a->seen->library ? a->seen->library
                                : "",
             by_library && !a->seen->library ? "" : " has it");
    return !*t.what || findings_assume(a->found, t.what, why, t.options);
}

bool assume_settings(const settings all[FROM_COUNT], const settings_seen *seen,
                     const settings_resolved *model, findings *f) {
    assumer a;
    a.all = all;
    a.seen = seen;
    a.model = model;
    a.found = f;
    return assume_defaults(&a) && assume_evidence(&a) && assume_usual(&a) &&
           (!seen->is_open || assume_structure(&a)) && assume_preprocessing(&a);
}

/* === Architectures by shape === */

void settings_from_arch(settings *s, const arch_choice *choice) {
    vit_config config;
    rope_options rope;
    arch_config(choice, &config);
    settings_from_config(s, &config);
    arch_rope_options(choice, &rope);
    settings_from_rope(s, &rope);
    settings_put(s, SETTING_CROP_PCT, choice->crop_pct);
    if (choice->arch->options & ARCH_NAFLEX) {
        settings_put(s, SETTING_MAX_PATCHES, 576);
        settings_put(s, SETTING_POS_RESAMPLE, config.pos_resample);
        /* the size follows from the positions */
        s->given[SETTING_IMG_HEIGHT] = s->given[SETTING_IMG_WIDTH] = false;
    }
    arch_mean_std(choice->norm, s->mean, s->std);
    s->mean_count = s->std_count = 3;
}

/* The settings of a conversion, for trying architectures of timm. The settings of each architecture
 * in turn are stored as all[FROM_NAME]. */
typedef struct trial {
    settings all[FROM_COUNT];
    const settings_seen *seen;
    const patch_request *wanted;
} trial;

static void try_arch(trial *t, const arch *a) {
    report ignored = report_make();
    arch_choice choice;
    (void)arch_find(a->name, &choice, &ignored); /* arch_find always finds a name of the table */
    settings_start(&t->all[FROM_NAME], a->name);
    settings_from_arch(&t->all[FROM_NAME], &choice);
}

/* True if the number of heads is known and differs from the architecture's. No shape shows this
 * number, but a file may give it, or trained weights may show it. */
static bool has_other_heads(const trial *t, const arch *a) {
    const settings *tensors = &t->all[FROM_TENSORS];
    return tensors->given[SETTING_NUM_HEADS] &&
           (int)tensors->value[SETTING_NUM_HEADS] != a->num_heads;
}

static bool fits(trial *t, const arch *a) {
    const bool any_shape = t->all[FROM_TENSORS].given[SETTING_CROP_MODE] &&
                           (int)t->all[FROM_TENSORS].value[SETTING_CROP_MODE] == VIT_CROP_ASPECT;
    settings_resolved model;
    findings open = { 0 };
    report ignored = report_make();
    bool good;
    try_arch(t, a);
    good = any_shape == ((a->options & ARCH_NAFLEX) != 0) && !has_other_heads(t, a) &&
           settings_resolve(t->all, t->seen, t->wanted, &model, &open, &ignored) &&
           !findings_are_open(&open);
    findings_free(&open);
    return good;
}

/* Appends the values of all channels, or a single value if they are equal. */
static void append_colours(const char *name, const double values[3], char out[ARCHS_TEXT]) {
    const bool same = values[0] >= values[1] && values[0] <= values[1];
    int i;
    for (i = 0; i < (same ? 1 : 3); i++)
        text_append(out, ARCHS_TEXT, "%s%.8g", i ? "," : name, values[i]);
}

/* Appends the names of the architectures that fit and have this mean and std, such as
 * "vit_tiny_patch16_224, deit3_x and 2 more (mean=0.5 std=0.5)". */
static void append_fitting(trial *t, arch_norm norm, char out[ARCHS_TEXT]) {
    enum { NAMED = 3 };
    const arch *a;
    double mean[3], std[3];
    int count = 0;
    size_t i;
    for (i = 0; (a = arch_at(i)) != NULL; i++) {
        if (a->norm != norm || !fits(t, a)) continue;
        if (count++ < NAMED)
            text_append(out, ARCHS_TEXT, "%s%s", count > 1 ? ", " : *out ? "; " : "", a->name);
    }
    if (count == 0) return;
    if (count > NAMED) text_append(out, ARCHS_TEXT, " and %d more", count - NAMED);
    arch_mean_std(norm, mean, std);
    append_colours(" (mean=", mean, out);
    append_colours(" std=", std, out);
    text_append(out, ARCHS_TEXT, ")");
}

/* Returns the name of a tensor whose shape or presence shows the setting. */
static const char *tensor_of(setting_key key) {
    if (setting_rows[key].shown_by) return setting_rows[key].shown_by;
    switch (key) {
    case SETTING_DEPTH: return "the last block";
    case SETTING_MLP_DIM:
    case SETTING_GATED_MLP: return "blocks.0.mlp.fc1.weight";
    case SETTING_REG_TOKENS: return "reg_token";
    case SETTING_NORM_TYPE: return "blocks.0.norm1.bias";
    case SETTING_POOL: return "attn_pool.latent";
    case SETTING_STEM: return "the stem";
    case SETTING_IN_CHANS:
    case SETTING_PATCH_SIZE:
    case SETTING_EMBED_DIM: return "patch_embed.proj.weight";
    default: return "the blocks";
    }
}

/* True if the architecture's image has as many patches as there are positions, or up to five fewer:
 * the prefix tokens may have positions too. Also true without positions. */
static bool has_size(const trial *t, const arch *a) {
    const int side = a->img_size / a->patch_size, other = t->seen->position_rows - side * side;
    return t->seen->position_rows == 0 || (other >= 0 && other <= 5);
}

static void append_nearest(trial *t, char out[ARCHS_TEXT]) {
    enum { NAMED = 3 };
    const arch *a, *near[NAMED] = { arch_at(0), arch_at(0), arch_at(0) };
    double distance[NAMED] = { HUGE_VAL, HUGE_VAL, HUGE_VAL };
    const double width = t->all[FROM_TENSORS].value[SETTING_EMBED_DIM];
    setting_key first;
    char there[32], here[32];
    size_t i;
    int k;
    for (i = 0; (a = arch_at(i)) != NULL; i++) {
        double far;
        try_arch(t, a);
        far = 2 * settings_contradictions(t->all, t->seen, t->wanted, &first) +
              (has_size(t, a) ? 0 : 1) + fabs(log(a->embed_dim / width));
        for (k = NAMED; k > 0 && distance[k - 1] > far; k--) {
            if (k == NAMED) continue;
            near[k] = near[k - 1];
            distance[k] = distance[k - 1];
        }
        if (k == NAMED) continue;
        near[k] = a;
        distance[k] = far;
    }
    text_append(out, ARCHS_TEXT, "no name of timm fits the tensors; nearest: %s, %s, %s",
                near[0]->name, near[1]->name, near[2]->name);
    try_arch(t, near[0]);
    if (settings_contradictions(t->all, t->seen, t->wanted, &first) == 0) {
        if (!has_size(t, near[0]))
            text_append(out, ARCHS_TEXT, "; %s differs first in pos_embed", near[0]->name);
        return;
    }
    text_append(out, ARCHS_TEXT, "; %s differs first in %s (%s %s, but the tensors have %s)",
                near[0]->name, tensor_of(first), setting_rows[first].name,
                setting_text(first, t->all[FROM_NAME].value[first], there),
                setting_text(first, t->all[FROM_TENSORS].value[first], here));
}

bool archs_by_shape(const settings all[FROM_COUNT], const settings_seen *seen,
                    const patch_request *wanted, char out[ARCHS_TEXT]) {
    trial t;
    int norm;
    memcpy(t.all, all, sizeof t.all);
    t.seen = seen;
    t.wanted = wanted;
    *out = '\0';
    for (norm = ARCH_HALF; norm <= ARCH_SATELLITE; norm++) append_fitting(&t, (arch_norm)norm, out);
    if (*out) return true;
    append_nearest(&t, out);
    return false;
}
