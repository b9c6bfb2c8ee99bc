#include "convert/match.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/report.h"
#include "model/settings.h"
#include "model/timm_names.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The largest number of patches that is tried if there are no positions to show the number. */
enum { MOST_PATCHES = 1024 };

/* === The tables === */

static double value_of(const facts *f, setting_key key) {
    double value = setting_rows[key].plain;
    settings_get(f->all, key, &value);
    return value;
}

static bool has_linear_patch(const facts *f) { return f->seen.patch_depth > 0; }
static bool has_blocks(const facts *f) { return f->seen.qkv_rows > 0; }
static bool has_positions(const facts *f) { return f->seen.position_rows > 0; }
static bool has_mlp(const facts *f) { return value_of(f, SETTING_MLP_DIM) > 0; }

static bool lacks_positions(const facts *f) {
    return f->seen.position_rows == 0 && f->seen.relative_positions == 0;
}

/* True if patches may overlap. This is possible in a hand-written model, and in a model whose
 * positions show the number of patches. */
static bool may_overlap(const facts *f) {
    return (f->seen.is_open || has_positions(f)) && f->wanted.patch == 0 &&
           value_of(f, SETTING_STEM) == VIT_STEM_NONE;
}

/* True if query, key and value are one matrix. */
static bool has_joint_qkv(const facts *f) {
    static const char name[] = "blocks.0.attn.qkv.weight";
    layout_part part;
    const char *axes;
    return !layout_peek(&f->map, name, 1, &part, &axes) &&
           layout_peek(&f->map, name, 0, &part, &axes) && part.view.ndim == 2;
}

/* True if the checkpoint stores a final norm whose position in the model is unknown. */
static bool has_last_norm(const facts *f) {
    return f->all[FROM_TENSORS].value[SETTING_FINAL_NORM] != 0 ||
           f->all[FROM_TENSORS].value[SETTING_FC_NORM] != 0;
}

/* True if the layout includes models that have rotary positions in addition to the stored
 * positions. */
static bool may_have_rope(const facts *f) {
    const layout_question *q = f->map.layout->questions;
    for (; q && q->options; q++)
        if (q->setting == SETTING_ROPE_TYPE && layout_holds(&f->map, q->when, 0))
            return f->seen.position_rows > 0;
    return false;
}

static bool has_pre_logits(const facts *f) { return value_of(f, SETTING_REPRESENTATION_DIM) > 0; }

typedef struct row_source {
    const char *name;
    /* The names of the row's settings, with spaces between them. The row is used only if all of
     * these settings are open. */
    const char *keys;
    /* The values, with bars between them. "key=*" adds all words of the setting that are not
     * listed. */
    const char *values;
    bool (*applies)(const facts *f);
    /* True if tensors cannot settle the row: they show that there is a norm, but not where it is
     * used. The row is then open even if the tensors gave values for its settings. */
    bool shown;
    bool is_fine;
} row_source;

/* The rows in the order in which the search decides them. A new row belongs before the fine rows
 * (match_row.is_fine). Unknown settings and unknown values are skipped. */
static const row_source architecture[] = {
    { "patch_order", "patch_order", "patch_order=chw|patch_order=hwc|patch_order=*",
      has_linear_patch, false, false },
    { "patch_cut", "patch_cut", "patch_cut=squares|patch_cut=*", has_linear_patch, false, false },
    { "patch_stride", "patch_stride", "", may_overlap, false, false },
    { "block_type", "block_type", "block_type=pre_norm|block_type=post_norm|block_type=*",
      has_blocks, false, false },
    { "activation", "activation", "activation=gelu|activation=relu|activation=*", has_mlp, false,
      false },
    { "pool", "pool pool_prefix",
      "pool=token|pool=avg pool_prefix=0|pool=avg pool_prefix=1|"
      "pool=max pool_prefix=0|pool=max pool_prefix=1|pool=avgmax pool_prefix=0|"
      "pool=avgmax pool_prefix=1",
      NULL, false, false },
    { "norm", "has_final_norm has_fc_norm",
      "has_final_norm=1 has_fc_norm=0|has_final_norm=0 has_fc_norm=1|"
      "has_final_norm=0 has_fc_norm=0",
      has_last_norm, true, false },
    { "positions", "positions pos_first_rows",
      "positions=all pos_first_rows=0|positions=patches pos_first_rows=0|"
      "positions=all pos_first_rows=1|positions=patches pos_first_rows=1",
      has_positions, false, false },
    { "pos_sincos", "positions pos_sincos rope_type",
      "pos_sincos=mae positions=patches|pos_sincos=mae positions=all|"
      "pos_sincos=simple_vit positions=patches|pos_sincos=1d positions=all|"
      "pos_sincos=1d positions=patches|rope_type=none|pos_sincos=1d_halves positions=all|"
      "pos_sincos=1d_halves positions=patches|pos_sincos=1d_column positions=all|"
      "pos_sincos=1d_column positions=patches|pos_sincos=1d_double positions=all|"
      "pos_sincos=1d_double positions=patches|pos_sincos=1d_plain positions=all|"
      "pos_sincos=1d_plain positions=patches|rope_type=*",
      lacks_positions, false, false },
    { "attn_root", "attn_root attn_scale",
      "attn_root=head_dim|attn_root=embed_dim|attn_scale=1|attn_root=embed_dim_after|"
      "attn_root=*",
      has_blocks, false, false },
    /* this row matters only if norms have no biases, because a bias shows LayerNorm */
    { "norm_type", "norm_type", "norm_type=rms", NULL, false, false },
    { "rope_type", "rope_type", "rope_type=none|rope_type=*", may_have_rope, false, false },
    { "attention", "attention", "attention=all|attention=*", has_blocks, false, false },
    { "qkv_order", "qkv_order", "qkv_order=qkv|qkv_order=*", has_blocks, false, false },
    { "qkv_interleave", "qkv_interleave", "qkv_interleave=none|qkv_interleave=*", has_joint_qkv,
      false, false },
    { "num_heads", "num_heads head_dim", "", has_blocks, false, false },
    { "representation_act", "representation_act", "representation_act=*", has_pre_logits, false,
      false },
    { "norm_eps", "norm_eps",
      "norm_eps=1e-06|norm_eps=1e-05|norm_eps=1e-12|norm_eps=1e-08|norm_eps=1e-07|norm_eps=0.001",
      NULL, false, true },
};

#define MEAN_3(a, b, c, d, e, f) "mean=" a "," b "," c " std=" d "," e "," f
#define MEAN_1(a, b)             "mean=" a " std=" b

/* Means and deviations, in order: values from -1 to 1; from 0 to 1; ImageNet; CIFAR-10 over all
 * pixels; CIFAR-10 within a picture; CIFAR-100; MNIST; Fashion-MNIST; values from 0 to 255. */
static const row_source preprocessing[] = {
    { "mean", "",
      MEAN_1("0.5", "0.5") "|" MEAN_1("0", "1") "|" MEAN_3("0.485", "0.456", "0.406", "0.229", "0.224", "0.225") "|" MEAN_3(
          "0.4914", "0.4822", "0.4465", "0.247", "0.2435",
          "0.2616") "|" MEAN_3("0.4914", "0.4822", "0.4465", "0.2023", "0.1994",
                               "0.201") "|" MEAN_3("0.5071", "0.4865", "0.4409", "0.2673", "0.2564",
                                                   "0.2762") "|" MEAN_1("0.1307",
                                                                        "0.3081") "|" MEAN_1("0.286",
                                                                                             "0.353") "|" MEAN_1("0",
                                                                                                                 "0.00392156863"),
      NULL, false, false },
    { "crop_pct", "crop_pct resize_height resize_width", "crop_pct=1|crop_pct=0.875|crop_pct=0.9",
      NULL, false, false },
    { "crop_mode", "crop_mode", "crop_mode=center|crop_mode=squash", NULL, false, false },
    { "interpolation", "interpolation", "interpolation=bilinear|interpolation=bicubic", NULL, false,
      false },
};

/* === Open settings === */

static bool find_key(const char *name, size_t length, setting_key *key) {
    int i;
    for (i = 0; i < SETTING_COUNT; i++) {
        *key = (setting_key)i;
        if (strlen(setting_rows[i].name) == length && !strncmp(setting_rows[i].name, name, length))
            return true;
    }
    return false;
}

static bool is_open(const facts *f, setting_key key, bool shown) {
    const int from = settings_origin(f->all, key);
    if (from == FROM_TENSORS && key == SETTING_NUM_HEADS && f->seen.heads.count > 0) return true;
    if (from == FROM_TENSORS && key == SETTING_PATCH_ORDER && f->seen.patch_order_read) return true;
    return from < 0 || from == FROM_MATCH ||
           (from == FROM_TENSORS && (shown || f->seen.by_default[key]));
}

static bool are_open(const facts *f, const row_source *source) {
    const char *keys = source->keys;
    setting_key key;
    while (*keys) {
        const size_t length = strcspn(keys, " ");
        if (find_key(keys, length, &key) && !is_open(f, key, source->shown)) return false;
        keys += length;
        keys += strspn(keys, " ");
    }
    return true;
}

/* True if mean and std are both open. They have a separate function because they are lists, not
 * single numbers. */
static bool is_mean_open(const facts *f) {
    int from;
    for (from = 0; from < FROM_COUNT; from++)
        if (f->all[from].mean_count > 0 || f->all[from].std_count > 0)
            return from == FROM_TENSORS && f->seen.mean_by_default;
    return true;
}

/* === Values === */

/* Puts settings such as "a=1 b=2" into *s. Returns false for an unknown setting or word. */
static bool put_text(settings *s, const char *text) {
    char one[MATCH_TEXT];
    report r = report_make();
    while (*text) {
        const size_t length = strcspn(text, " ");
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (!settings_parse(s, one, &r)) return false;
        text += length;
        text += strspn(text, " ");
    }
    return true;
}

void match_apply_row(const match_row *row, int value, settings *s) {
    (void)put_text(s, row->values[value]);
}

void match_apply(const match_table *table, const match_choice *choice, settings *s) {
    int i;
    for (i = 0; i < table->count; i++) match_apply_row(&table->rows[i], choice->of[i], s);
}

bool match_row_is_asked(const match_row *row, const findings *f) {
    const char *keys = row->keys;
    setting_key key;
    for (; *keys; keys += strspn(keys, " ")) {
        const size_t length = strcspn(keys, " ");
        if (find_key(keys, length, &key) && findings_has_asked(f, setting_rows[key].name))
            return true;
        keys += length;
    }
    return false;
}

/* Inserts a value into the row at index `place`. Leaves the value out if the row is full or already
 * has it, or if --set would refuse it. */
static void insert_value(match_row *row, int place, const char *text, size_t length) {
    char copy[MATCH_TEXT];
    settings s;
    int i;
    if (length >= sizeof copy || row->count == MATCH_MAX_VALUES) return;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    settings_start(&s, "");
    if (!put_text(&s, copy)) return;
    for (i = 0; i < row->count; i++)
        if (!strcmp(row->values[i], copy)) return;
    memmove(row->values[place + 1], row->values[place],
            (size_t)(row->count - place) * sizeof row->values[0]);
    memcpy(row->values[place], copy, sizeof copy);
    row->count++;
}

static void add_words(match_row *row, const char *name, size_t length) {
    char text[MATCH_TEXT];
    setting_key key;
    int i;
    if (!find_key(name, length, &key) || !setting_rows[key].words) return;
    for (i = 0; setting_rows[key].words[i].word; i++) {
        snprintf(text, sizeof text, "%s=%s", setting_rows[key].name,
                 setting_rows[key].words[i].word);
        insert_value(row, row->count, text, strlen(text));
    }
}

static void add_values(match_row *row, const char *values) {
    while (*values) {
        const size_t length = strcspn(values, "|");
        if (length > 2 && !strncmp(values + length - 2, "=*", 2))
            add_words(row, values, length - 2);
        else insert_value(row, row->count, values, length);
        values += length;
        values += *values == '|';
    }
}

typedef struct patch_fit {
    /* The sides of the input and of a patch, in pixels. */
    int height, width, patch;
    /* The number of rows of pos_embed, and how many of these rows may belong to prefix tokens. */
    int rows, prefix;
} patch_fit;

/* Finds the sizes. Returns false if a side is unknown or outside its bounds. */
static bool find_patch_fit(const facts *f, patch_fit *fit) {
    const double chans = value_of(f, SETTING_IN_CHANS);
    fit->rows = f->seen.position_rows;
    fit->prefix = (int)(value_of(f, SETTING_CLS_TOKEN) + value_of(f, SETTING_DIST_TOKEN) +
                        value_of(f, SETTING_REG_TOKENS));
    fit->height = (int)value_of(f, SETTING_IMG_HEIGHT);
    fit->width = (int)value_of(f, SETTING_IMG_WIDTH);
    fit->patch = (int)value_of(f, SETTING_PATCH_SIZE);
    if (has_linear_patch(f) &&
        !choices_is_square(chans > 0 ? (int64_t)((double)f->seen.patch_depth / chans) : 0,
                           &fit->patch))
        return false;
    return fit->patch > 0 && fit->patch <= 1024 && fit->height >= fit->patch &&
           fit->width >= fit->patch && fit->height <= 16384 && fit->width <= 16384;
}

bool match_count_patches(const facts *f, match_patches *patches) {
    patch_fit fit;
    if (!find_patch_fit(f, &fit) || fit.rows == 0) return false;
    patches->height = fit.height / fit.patch;
    patches->width = fit.width / fit.patch;
    patches->size = fit.patch;
    patches->positions = fit.rows;
    patches->prefix = fit.prefix;
    return true;
}

/* Returns how far the width of a head is from the usual width of 64, in powers of two. */
static double oddity(int64_t width, int heads) { return fabs(log2((double)width / heads / 64)); }

static void add_number(match_row *row, int64_t width, int heads) {
    char text[MATCH_TEXT];
    if (heads < 1 || width % heads != 0) return;
    snprintf(text, sizeof text, "num_heads=%d", heads);
    insert_value(row, row->count, text, strlen(text));
}

enum { CHANCE = 7 }; /* A hint with a lower score could be chance. */

/* Lists the possible numbers of heads: divisors of the attention's width. The order: the number
 * that the weights show clearly, timm's number for the embedding's width, the numbers that the
 * weights suggest, and other divisors (those with the most usual width of a head first). */
static void add_heads(match_row *row, const facts *f) {
    const heads_evidence *hints = &f->seen.heads;
    const int64_t width = f->seen.qkv_rows / 3;
    double last = -1;
    int i, n;
    if (hints->is_clear) add_number(row, width, hints->ranked[0].heads);
    add_number(row, width, arch_heads_of_width((int)value_of(f, SETTING_EMBED_DIM)));
    for (i = 0; i < hints->count; i++)
        if (hints->ranked[i].score > CHANCE) add_number(row, width, hints->ranked[i].heads);
    while (row->count < MATCH_MAX_VALUES - 1) {
        int best = 0;
        for (n = 1; n <= width && n <= 1024; n++)
            if (width % n == 0 && oddity(width, n) > last &&
                (!best || oddity(width, n) < oddity(width, best)))
                best = n;
        if (!best) return;
        for (n = best; n <= width && n <= 1024; n++) /* Two widths may be equally unusual. */
            if (oddity(width, n) <= oddity(width, best)) add_number(row, width, n);
        last = oddity(width, best);
    }
}

/* True if this stride gives as many patches as pos_embed has rows, with or without prefix rows.
 * Without pos_embed, true if at most MOST_PATCHES patches reach the last pixels of the image. */
static bool stride_fits(const patch_fit *fit, int stride) {
    const int height = fit->height - fit->patch, width = fit->width - fit->patch;
    const int64_t patches = (int64_t)(height / stride + 1) * (width / stride + 1);
    if (fit->rows > 0) return patches == fit->rows || patches + fit->prefix == fit->rows;
    return height % stride == 0 && width % stride == 0 && patches <= MOST_PATCHES;
}

/* Adds the possible strides of patches. If patches side by side match the positions, the stride is
 * not open and nothing is added. If they do not match, patches side by side are the last value,
 * with resampled positions. If there are no positions, patches side by side are the first value. */
static void add_strides(match_row *row, const facts *f) {
    static const char side_by_side[] = "patch_stride=0";
    char text[MATCH_TEXT];
    patch_fit fit;
    int stride;
    if (!find_patch_fit(f, &fit) || (fit.rows > 0 && stride_fits(&fit, fit.patch))) return;
    if (fit.rows == 0) insert_value(row, 0, side_by_side, strlen(side_by_side));
    for (stride = fit.patch - 1; stride > 0; stride--) {
        snprintf(text, sizeof text, "patch_stride=%d", stride);
        if (stride_fits(&fit, stride)) insert_value(row, row->count, text, strlen(text));
    }
    insert_value(row, row->count, side_by_side, strlen(side_by_side));
    if (row->count == 1) row->count = 0;
}

/* === The order of the values === */

/* True if `text` is the value that the setting has without a search. */
static bool is_current(const facts *f, const char *text) {
    settings s;
    int key;
    settings_start(&s, "");
    (void)put_text(&s, text);
    for (key = 0; key < SETTING_COUNT; key++)
        if (s.given[key] && s.value[key] != value_of(f, (setting_key)key)) return false;
    return s.mean_count == 0;
}

static bool is_told(const facts *f, const row_source *source) {
    setting_key key;
    return find_key(source->keys, strcspn(source->keys, " "), &key) &&
           settings_origin(f->all, key) >= 0;
}

/* Moves the value that applies without a search to the front of the row. If no value of the row
 * applies, adds the current value of the row's first setting there. */
static void add_current(match_row *row, const facts *f, const row_source *source) {
    char text[MATCH_TEXT], word[32];
    setting_key key;
    int i;
    if (!is_told(f, source)) return;
    (void)find_key(source->keys, strcspn(source->keys, " "), &key);
    for (i = 0; i < row->count; i++) {
        if (!is_current(f, row->values[i])) continue;
        memcpy(text, row->values[i], sizeof text);
        memmove(row->values[1], row->values[0], (size_t)i * sizeof row->values[0]);
        memcpy(row->values[0], text, sizeof text);
        return;
    }
    snprintf(text, sizeof text, "%s=%s", setting_rows[key].name,
             setting_text(key, value_of(f, key), word));
    insert_value(row, 0, text, strlen(text));
}

/* Adds the layout's default mean and deviation. */
static void add_current_mean(match_row *row, const facts *f) {
    const settings *s = &f->all[FROM_TENSORS];
    char text[MATCH_TEXT];
    int used, i;
    if (!s->mean_count || !s->std_count || s->mean_count > 3 || s->std_count > 3) return;
    used = snprintf(text, sizeof text, "mean=");
    for (i = 0; i < s->mean_count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%.7g", i ? "," : "",
                         s->mean[i]);
    used += snprintf(text + used, sizeof text - (size_t)used, " std=");
    for (i = 0; i < s->std_count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%.7g", i ? "," : "",
                         s->std[i]);
    insert_value(row, 0, text, (size_t)used);
}

/* === The rows of the table === */

static match_row *add_row(match_table *table, const row_source *source) {
    match_row *row = &table->rows[table->count++];
    memset(row, 0, sizeof *row);
    row->name = source->name;
    row->keys = source->keys;
    row->is_fine = source->is_fine;
    row->is_stored = source->shown;
    add_values(row, source->values);
    return row;
}

static bool is_wanted(const facts *f, const row_source *source) {
    return (!source->applies || source->applies(f)) && are_open(f, source);
}

void match_list_architecture(match_table *table, const facts *f) {
    size_t i;
    for (i = 0; i < COUNT(architecture); i++) {
        const row_source *source = &architecture[i];
        match_row *row;
        if (!is_wanted(f, source)) continue;
        row = add_row(table, source);
        if (!strcmp(row->name, "num_heads")) add_heads(row, f);
        if (!strcmp(row->name, "patch_stride")) add_strides(row, f);
        if (row->count > 0) add_current(row, f, source);
        if (row->count == 0) table->count--;
    }
}

void match_list_preprocessing(match_table *table, const facts *f) {
    size_t i;
    for (i = 0; i < COUNT(preprocessing); i++) {
        const row_source *source = &preprocessing[i];
        const bool is_mean = !strcmp(source->name, "mean");
        match_row *row;
        if (is_mean ? !is_mean_open(f) : !is_wanted(f, source)) continue;
        row = add_row(table, source);
        if (is_mean) add_current_mean(row, f);
        else add_current(row, f, source);
    }
}
