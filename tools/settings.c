#include "settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "cli.h"

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
    { "distilled", SETTING_DIST_TOKEN },
    { "representation_size", SETTING_REPRESENTATION_DIM },
    { "heads", SETTING_NUM_HEADS }
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
        if (!cli_read_int(text, 0, INT_MAX, &integer))
            return report_fail(r, "%s %s: expected a whole number, found \"%s\"", s->origin, name,
                               text);
        settings_put(s, key, (double)integer);
        return true;
    case SETTING_NUMBER:
        if (!cli_read_number(text, -1e30, 1e30, &number))
            return report_fail(r, "%s %s: expected a number, found \"%s\"", s->origin, name, text);
        settings_put(s, key, number);
        return true;
    case SETTING_FLAG:
        if (strcmp(text, "0") && strcmp(text, "1") && strcmp(text, "true") && strcmp(text, "false"))
            return report_fail(r, "%s %s: expected 0 or 1, found \"%s\"", s->origin, name, text);
        settings_put(s, key, text[0] == '1' || text[0] == 't');
        return true;
    case SETTING_WORD:
        word = setting_find_word(key, text);
        if (word < 0)
            return report_fail(r, "%s %s: expected one of %s, found \"%s\"", s->origin, name,
                               table[key].words, text);
        settings_put(s, key, word);
        return true;
    }
    return false;
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
        snprintf(number, sizeof number, "%.*s", (int)(length < 63 ? length : 63), text);
        if (length > 62 || !cli_read_number(number, -1e30, 1e30, &values[*count]))
            return report_fail(r, "%s %s: expected numbers between commas, found \"%s\"",
                               s->origin, name, text);
        ++*count;
        if (!text[length]) return true;
        text += length + 1;
    }
}

bool settings_parse_size(settings *s, const char *text, report *r)
{
    char first[32];
    const char *x = strchr(text, 'x');
    size_t length = x ? (size_t)(x - text) : strlen(text);
    long height = 0, width = 0;
    bool good = length < sizeof first;
    if (good) {
        memcpy(first, text, length);
        first[length] = '\0';
        good = cli_read_int(first, 1, INT_MAX, &height);
        width = height;
        if (x) good = good && cli_read_int(x + 1, 1, INT_MAX, &width);
    }
    if (!good)
        return report_fail(r, "%s img_size: expected N or HxW pixels, found \"%s\"", s->origin,
                           text);
    settings_put(s, SETTING_IMG_HEIGHT, (double)height);
    settings_put(s, SETTING_IMG_WIDTH, (double)width);
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

static double value_or(const settings all[FROM_COUNT], setting_key key, double otherwise)
{
    settings_get(all, key, &otherwise);
    return otherwise;
}

static bool in_int(const settings all[FROM_COUNT], setting_key key, int *value, double otherwise,
                   report *r)
{
    double number = value_or(all, key, otherwise);
    if (!(number >= 0 && number <= INT_MAX))
        return report_fail(r, "%s %.9g is out of range", table[key].name, number);
    *value = (int)number;
    return true;
}

/* The name or the configuration against what the tensors show; --set decides if it speaks. */
static bool check_contradiction(const settings all[FROM_COUNT], setting_key key, report *r)
{
    int from = all[FROM_CONFIG].given[key] ? FROM_CONFIG : FROM_NAME;
    if (all[FROM_OPTIONS].given[key] || !all[from].given[key]) return true;
    if (!all[FROM_TENSORS].given[key]) return true;
    if (all[from].value[key] == all[FROM_TENSORS].value[key]) return true;
    return report_fail(r, "%s says %s %.9g, the tensors say %.9g", all[from].origin,
                       table[key].name, all[from].value[key], all[FROM_TENSORS].value[key]);
}

static bool check_contradictions(const settings all[FROM_COUNT], report *r)
{
    static const setting_key seen[] = {
        SETTING_IN_CHANS, SETTING_PATCH_SIZE, SETTING_EMBED_DIM, SETTING_DEPTH, SETTING_MLP_DIM,
        SETTING_NUM_CLASSES, SETTING_REPRESENTATION_DIM, SETTING_DIST_TOKEN, SETTING_PATCH_NORM,
        SETTING_QKV_BIAS
    };
    size_t i;
    for (i = 0; i < COUNT(seen); i++)
        if (!check_contradiction(all, seen[i], r)) return false;
    return true;
}

/* mlp_ratio is only another way to say mlp_dim; truncated as Python's int() does. */
static void expand_ratio(settings all[FROM_COUNT])
{
    double embed_dim = value_or(all, SETTING_EMBED_DIM, 0);
    int from;
    for (from = 0; from < FROM_COUNT; from++) {
        settings *s = &all[from];
        if (s->given[SETTING_MLP_RATIO] && !s->given[SETTING_MLP_DIM])
            settings_put(s, SETTING_MLP_DIM, floor(embed_dim * s->value[SETTING_MLP_RATIO]));
    }
}

/* A 2-D patch weight [D, C * P * P] leaves one of C and P to be told; three channels unless
 * somebody says otherwise. */
static bool resolve_flat_patch(settings all[FROM_COUNT], int64_t depth, report *r)
{
    double chans = value_or(all, SETTING_IN_CHANS, 3), side;
    if (depth == 0) return true;
    side = floor(sqrt((double)depth / (chans > 0 ? chans : 1)) + 0.5);
    settings_put(&all[FROM_TENSORS], SETTING_IN_CHANS, chans);
    if (side * side * chans != (double)depth)
        return report_fail(r, "patch_embed.proj.weight: %lld columns are not in_chans %.0f x a "
                           "square; give --set in_chans=N", (long long)depth, chans);
    settings_put(&all[FROM_TENSORS], SETTING_PATCH_SIZE, side);
    return true;
}

/* === Heads === */

static bool resolve_heads(const settings all[FROM_COUNT], const settings_facts *facts,
                          vit_config *c, settings_notes *notes, report *r)
{
    int64_t inner = facts->qkv_rows ? facts->qkv_rows / 3 : c->embed_dim;
    double scale;
    if (!in_int(all, SETTING_NUM_HEADS, &c->num_heads, 0, r)) return false;
    if (!in_int(all, SETTING_HEAD_DIM, &c->head_dim, 0, r)) return false;
    if (c->num_heads == 0 && c->head_dim > 0 && inner % c->head_dim == 0)
        c->num_heads = (int)(inner / c->head_dim);
    if (c->num_heads == 0 && inner == c->embed_dim) {
        c->num_heads = arch_heads_of_width(c->embed_dim);
        notes->heads_by_width = c->num_heads > 0;
    }
    if (c->num_heads == 0)
        return report_fail(r, "num_heads cannot be seen in the tensors, and no model of timm fixes "
                           "it for embed_dim %d; give --set num_heads=N, --arch or --config",
                           c->embed_dim);
    if (inner % c->num_heads != 0 || inner / c->num_heads > INT_MAX)
        return report_fail(r, "num_heads %d does not divide the width of attention, %lld",
                           c->num_heads, (long long)inner);
    if (c->head_dim > 0 && (int64_t)c->head_dim * c->num_heads != inner)
        return report_fail(r, "num_heads %d x head_dim %d is not the width of attention, %lld",
                           c->num_heads, c->head_dim, (long long)inner);
    c->head_dim = (int)(inner / c->num_heads);
    scale = value_or(all, SETTING_ATTN_SCALE, c->head_dim > 0 ? pow(c->head_dim, -0.5) : 1);
    c->attn_scale = (float)scale;
    return true;
}

/* === Image size === */

static bool is_square(int n, int *side)
{
    *side = (int)(sqrt((double)n) + 0.5);
    return *side * *side == n;
}

/* The size that the configuration or the name asks for, if it explains the positions. */
static bool check_told_size(const settings all[FROM_COUNT], settings_facts *facts, int patch,
                            report *r)
{
    int from = all[FROM_CONFIG].given[SETTING_IMG_HEIGHT] ? FROM_CONFIG : FROM_NAME, side;
    const settings *told = &all[from];
    double rows, columns;
    if (!told->given[SETTING_IMG_HEIGHT]) return true;
    rows = floor(told->value[SETTING_IMG_HEIGHT] / patch);
    columns = floor(told->value[SETTING_IMG_WIDTH] / patch);
    if (rows * columns == facts->patches) {
        facts->grid_height = (int)rows;
        facts->grid_width = (int)columns;
        return true;
    }
    if (all[FROM_OPTIONS].given[SETTING_IMG_HEIGHT]) return true;
    if (is_square(facts->patches, &side))
        return report_fail(r, "%s says img_size %.0fx%.0f, the tensors say %lldx%lld (pos_embed "
                           "has %d patches of %d); --img-size decides", told->origin,
                           told->value[SETTING_IMG_HEIGHT], told->value[SETTING_IMG_WIDTH],
                           (long long)side * patch, (long long)side * patch, facts->patches,
                           patch);
    return report_fail(r, "%s says img_size %.0fx%.0f, but pos_embed has %d patches of %d",
                       told->origin, told->value[SETTING_IMG_HEIGHT],
                       told->value[SETTING_IMG_WIDTH], facts->patches, patch);
}

/* timm takes positions to be square unless their number says otherwise. */
static bool find_grid(const settings all[FROM_COUNT], settings_facts *facts, int patch, report *r)
{
    double height = value_or(all, SETTING_IMG_HEIGHT, 0);
    double width = value_or(all, SETTING_IMG_WIDTH, 0);
    int side;
    if (facts->grid_height > 0) return true;
    if (is_square(facts->patches, &side)) {
        facts->grid_height = facts->grid_width = side;
        return true;
    }
    facts->grid_height = (int)(height / patch < 65536 ? height / patch : 0);
    facts->grid_width = (int)(width / patch < 65536 ? width / patch : 0);
    if ((int64_t)facts->grid_height * facts->grid_width == facts->patches) return true;
    return report_fail(r, "pos_embed has %d patches, which is no square; give --img-size HxW",
                       facts->patches);
}

static bool resolve_size(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                         settings_notes *notes, report *r)
{
    int patch = c->patch_size;
    if (patch < 1) return report_fail(r, "patch_size is not known; give --set patch_size=N");
    facts->grid_height = facts->grid_width = 0;
    if (!check_told_size(all, facts, patch, r) || !find_grid(all, facts, patch, r)) return false;
    if (!in_int(all, SETTING_IMG_HEIGHT, &c->img_height, facts->grid_height * (double)patch, r) ||
        !in_int(all, SETTING_IMG_WIDTH, &c->img_width, facts->grid_width * (double)patch, r))
        return false;
    notes->positions_resampled = c->img_height / patch != facts->grid_height ||
                                 c->img_width / patch != facts->grid_width;
    return true;
}

/* === Preprocessing === */

static bool resolve_vector(const settings all[FROM_COUNT], bool is_std, int chans, float *out,
                           report *r)
{
    const char *name = is_std ? "std" : "mean";
    int from = FROM_COUNT - 1, i, count;
    const double *values;
    bool equal = true;
    while (from >= 0 && (is_std ? all[from].std_count : all[from].mean_count) == 0) from--;
    for (i = 0; i < VIT_MAX_CHANS; i++) out[i] = 0.5f; /* timm's default for a ViT */
    if (from < 0) return true;
    count = is_std ? all[from].std_count : all[from].mean_count;
    values = is_std ? all[from].std : all[from].mean;
    for (i = 1; i < count; i++) equal = equal && values[i] == values[0];
    if (count != chans && (count != 1 && !(equal && from == FROM_NAME)))
        return report_fail(r, "%s gives %d values of %s for in_chans %d; give --set %s=...",
                           all[from].origin, count, name, chans, name);
    for (i = 0; i < chans && i < VIT_MAX_CHANS; i++) {
        double value = values[count == chans ? i : 0];
        if (is_std && !(value > 0))
            return report_fail(r, "%s std %.9g is not above 0", all[from].origin, value);
        out[i] = (float)value;
    }
    return true;
}

static bool resolve_preprocessing(const settings all[FROM_COUNT], vit_config *c,
                                  settings_notes *notes, report *r)
{
    double crop_pct = value_or(all, SETTING_CROP_PCT, 0.9);
    int mean_from = FROM_COUNT - 1;
    if (!(crop_pct > 0 && crop_pct <= 4))
        return report_fail(r, "crop_pct %.9g is not in (0, 4]", crop_pct);
    c->crop_mode = (int)value_or(all, SETTING_CROP_MODE, VIT_CROP_CENTER);
    c->interpolation = (int)value_or(all, SETTING_INTERPOLATION, VIT_BICUBIC);
    if (!in_int(all, SETTING_RESIZE_HEIGHT, &c->resize_height,
                floor(c->img_height / crop_pct), r) ||
        !in_int(all, SETTING_RESIZE_WIDTH, &c->resize_width,
                floor(c->img_width / crop_pct), r))
        return false;
    while (mean_from >= 0 && all[mean_from].mean_count == 0) mean_from--;
    notes->preprocess_assumed = mean_from < 0;
    return resolve_vector(all, false, c->in_chans, c->mean, r) &&
           resolve_vector(all, true, c->in_chans, c->std, r);
}

/* === Everything === */

static bool resolve_shape(const settings all[FROM_COUNT], vit_config *c, report *r)
{
    c->has_cls_token = 1;
    return in_int(all, SETTING_IN_CHANS, &c->in_chans, 0, r) &&
           in_int(all, SETTING_PATCH_SIZE, &c->patch_size, 0, r) &&
           in_int(all, SETTING_EMBED_DIM, &c->embed_dim, 0, r) &&
           in_int(all, SETTING_DEPTH, &c->depth, 0, r) &&
           in_int(all, SETTING_MLP_DIM, &c->mlp_dim, 4.0 * c->embed_dim, r) &&
           in_int(all, SETTING_NUM_CLASSES, &c->num_classes, 0, r) &&
           in_int(all, SETTING_REPRESENTATION_DIM, &c->representation_dim, 0, r) &&
           in_int(all, SETTING_DIST_TOKEN, &c->has_dist_token, 0, r) &&
           in_int(all, SETTING_PATCH_NORM, &c->has_patch_norm, 0, r) &&
           in_int(all, SETTING_QKV_BIAS, &c->has_qkv_bias, 1, r) &&
           in_int(all, SETTING_SELFTEST_SEED, &c->selftest_seed, 1, r);
}

bool settings_resolve(settings all[FROM_COUNT], settings_facts *facts, vit_config *config,
                      settings_notes *notes, report *r)
{
    char detail[VIT_MAX_DETAIL];
    memset(config, 0, sizeof *config);
    memset(notes, 0, sizeof *notes);
    if (!resolve_flat_patch(all, facts->patch_depth, r)) return false;
    expand_ratio(all);
    if (!check_contradictions(all, r) || !resolve_shape(all, config, r)) return false;
    config->norm_eps = (float)value_or(all, SETTING_NORM_EPS, 1e-6);
    config->selftest_tolerance = (float)value_or(all, SETTING_SELFTEST_TOLERANCE, 2e-5);
    if (!resolve_heads(all, facts, config, notes, r)) return false;
    if (!resolve_size(all, facts, config, notes, r)) return false;
    if (!resolve_preprocessing(all, config, notes, r)) return false;
    if (vit_config_check(config, detail) != VIT_OK) return report_fail(r, "%s", detail);
    return true;
}
