#include "model/settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/rel_pos.h"
#include "model/sincos.h"
#include "model/timm_names.h"

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

static double value_or(const settings all[FROM_COUNT], setting_key key, double otherwise)
{
    settings_get(all, key, &otherwise);
    return otherwise;
}

static bool is_told(const settings all[FROM_COUNT], setting_key key)
{
    return settings_origin(all, key) >= 0;
}

/* What the tensors or --set say. Where the final norm stands depends in timm on how the head is
 * pooled, which a configuration may have changed: there a name knows less than the tensors. */
static double shown_or(const settings all[FROM_COUNT], setting_key key, double otherwise)
{
    if (all[FROM_OPTIONS].given[key]) return all[FROM_OPTIONS].value[key];
    return all[FROM_TENSORS].given[key] ? all[FROM_TENSORS].value[key] : otherwise;
}

/* Of those that are read as whole numbers and are nothing else. */
static int int_of(const settings all[FROM_COUNT], setting_key key)
{
    return (int)value_or(all, key, 0);
}

typedef struct wanted_int {
    setting_key key;
    int *value;
    double otherwise;
} wanted_int;

/* Those that come out of tensors, or are computed. */
static bool in_ints(const settings all[FROM_COUNT], const wanted_int *wanted, size_t count,
                    report *r)
{
    size_t i;
    for (i = 0; i < count; i++) {
        const double number = value_or(all, wanted[i].key, wanted[i].otherwise);
        if (!(number >= 0 && number <= INT_MAX))
            return report_fail(r, "%s %.9g is out of range", table[wanted[i].key].name, number);
        *wanted[i].value = (int)number;
    }
    return true;
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

/* The name or the configuration against what the tensors show; --set decides if it speaks. */
static bool check_contradiction(const settings all[FROM_COUNT], setting_key key, report *r)
{
    char told[32], seen[32];
    int from = all[FROM_CONFIG].given[key] ? FROM_CONFIG : FROM_NAME;
    if (all[FROM_OPTIONS].given[key] || !all[from].given[key]) return true;
    if (!all[FROM_TENSORS].given[key]) return true;
    if (all[from].value[key] == all[FROM_TENSORS].value[key]) return true;
    return report_fail(r, "%s says %s %s, the tensors say %s", all[from].origin, table[key].name,
                       setting_text(key, all[from].value[key], told),
                       setting_text(key, all[FROM_TENSORS].value[key], seen));
}

static bool check_contradictions(const settings all[FROM_COUNT], report *r)
{
    static const setting_key seen[] = {
        SETTING_STEM, SETTING_IN_CHANS, SETTING_PATCH_SIZE, SETTING_EMBED_DIM, SETTING_DEPTH,
        SETTING_GATED_MLP, SETTING_MLP_DIM, SETTING_NUM_CLASSES, SETTING_REPRESENTATION_DIM,
        SETTING_CLS_TOKEN, SETTING_DIST_TOKEN, SETTING_REG_TOKENS, SETTING_PATCH_BIAS,
        SETTING_PATCH_PRE_NORM, SETTING_PATCH_NORM, SETTING_PRE_NORM, SETTING_NORM_TYPE,
        SETTING_QKV_BIAS, SETTING_QK_NORM, SETTING_ATTN_NORM, SETTING_PROJ_BIAS,
        SETTING_LAYER_SCALE, SETTING_MLP_NORM, SETTING_ACTIVATION, SETTING_BLOCK_TYPE,
        SETTING_POOL, SETTING_REL_POS, SETTING_DIFF_ATTN
    };
    size_t i;
    for (i = 0; i < COUNT(seen); i++)
        if (!check_contradiction(all, seen[i], r)) return false;
    return true;
}

static int stem_stride(int stem, int stages)
{
    if (stem == VIT_STEM_NONE) return 1;
    return stem == VIT_STEM_CONV ? 8 : stages < 2 ? 4 : 2 << stages;
}

int settings_stem_stride(const settings *s)
{
    int stages = 0;
    while (stages < 4 && s->value[SETTING_STEM_STAGE1 + stages] > 0) stages++;
    return stem_stride((int)s->value[SETTING_STEM], stages);
}

/* mlp_ratio is only another way to say mlp_dim; truncated as Python's int() does. timm counts both
 * halves of a packed gated MLP, which only the tensors tell from a split one. */
static void expand_ratio(settings all[FROM_COUNT])
{
    const double embed_dim = value_or(all, SETTING_EMBED_DIM, 0);
    const double half = all[FROM_TENSORS].value[SETTING_MLP_DIM];
    const bool gated = value_or(all, SETTING_GATED_MLP, 0) != 0;
    int from;
    for (from = 0; from < FROM_COUNT; from++) {
        settings *s = &all[from];
        double mlp_dim = floor(embed_dim * s->value[SETTING_MLP_RATIO]);
        if (!s->given[SETTING_MLP_RATIO] || s->given[SETTING_MLP_DIM]) continue;
        settings_put(s, SETTING_MLP_DIM, gated && mlp_dim == 2 * half ? half : mlp_dim);
    }
}

/* timm's names stand for an mlp_ratio: where somebody changed the width, mlp_dim changed too. */
static void forget_other_width(settings all[FROM_COUNT])
{
    settings *name = &all[FROM_NAME];
    const double named = name->value[SETTING_EMBED_DIM];
    if (value_or(all, SETTING_EMBED_DIM, named) != named) name->given[SETTING_MLP_DIM] = false;
}

/* timm's patch_size of a hybrid counts pixels of the map that its backbone makes, and MobileCLIP's
 * patch embedding is part of the backbone. */
static void expand_patch(settings all[FROM_COUNT])
{
    const settings *seen = &all[FROM_TENSORS];
    const int stride = settings_stem_stride(seen);
    const int last = seen->value[SETTING_STEM] == VIT_STEM_CONV ? 2 : 1;
    if (all[FROM_CONFIG].given[SETTING_PATCH_SIZE])
        all[FROM_CONFIG].value[SETTING_PATCH_SIZE] *= stride * last;
}

/* A 2-D patch weight [D, C * P * P] leaves C and P open. Unless one of them is told, three channels
 * are what it has, if that leaves a square. */
static bool resolve_flat_patch(settings all[FROM_COUNT], int64_t depth, report *r)
{
    const double patch = value_or(all, SETTING_PATCH_SIZE, 0);
    double chans = patch > 0 ? floor((double)depth / (patch * patch)) : 3, side;
    if (depth == 0) return true;
    chans = value_or(all, SETTING_IN_CHANS, chans);
    side = floor(sqrt((double)depth / (chans > 0 ? chans : 1)) + 0.5);
    settings_put(&all[FROM_TENSORS], SETTING_IN_CHANS, chans);
    if (side * side * chans != (double)depth)
        return report_fail(r, "patch_embed.proj.weight: a patch of %lld numbers is not in_chans "
                           "%.0f x a square; give --set in_chans=N", (long long)depth, chans);
    settings_put(&all[FROM_TENSORS], SETTING_PATCH_SIZE, side);
    return true;
}

/* === Heads === */

/* attn.proj is linear, so a division of what it reads can be one of its weight. */
static void resolve_scale(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c)
{
    const int root = (int)value_or(all, SETTING_ATTN_ROOT, ATTN_ROOT_HEAD_DIM);
    const int width = c->has_diff_attn ? c->head_dim / 2 : c->head_dim;
    double scale = width > 0 ? pow(width, -0.5) : 1;
    if (root == ATTN_ROOT_EMBED_DIM) scale = pow(c->embed_dim, -0.5);
    if (root == ATTN_ROOT_EMBED_DIM_AFTER) scale = 1;
    facts->context_divisor = root == ATTN_ROOT_EMBED_DIM_AFTER ? sqrt(c->embed_dim) : 0;
    c->attn_scale = (float)value_or(all, SETTING_ATTN_SCALE, scale);
}

static bool resolve_heads(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                          settings_notes *notes, report *r)
{
    int64_t inner = facts->qkv_rows ? facts->qkv_rows / 3 : c->embed_dim;
    /* who says the number of heads decides over those who only know their width */
    if (settings_origin(all, SETTING_NUM_HEADS) > settings_origin(all, SETTING_HEAD_DIM))
        c->head_dim = 0;
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
    resolve_scale(all, facts, c);
    return true;
}

/* === Image size and positions === */

static bool is_square(int n, int *side)
{
    *side = n > 0 ? (int)(sqrt((double)n) + 0.5) : 0;
    return *side > 0 && *side * *side == n;
}

static bool gives_size(const settings *s)
{
    return s->given[SETTING_IMG_HEIGHT] && s->given[SETTING_IMG_WIDTH];
}

static int stride_of(const vit_config *c)
{
    return stem_stride(c->stem, (c->stem_stage1 > 0) + (c->stem_stage2 > 0) +
                       (c->stem_stage3 > 0) + (c->stem_stage4 > 0));
}

/* Patches along a side. The map of a ResNet stem is rounded up, all else is cut off. */
static int grid_side(const vit_config *c, double pixels)
{
    const int stride = stride_of(c);
    double side = pixels / stride;
    side = c->stem == VIT_STEM_RESNET ? ceil(side) : floor(side);
    side = floor(side / (c->patch_size / stride));
    return side < 32768 ? (int)side : 0;
}

/* The grid of a size that somebody tells. */
static void told_grid(const settings *s, const vit_config *c, settings_facts *facts)
{
    facts->grid_height = grid_side(c, s->value[SETTING_IMG_HEIGHT]);
    facts->grid_width = grid_side(c, s->value[SETTING_IMG_WIDTH]);
}

/* True if these rows are the patches of the grid, with or without those of the prefix. */
static bool explains(settings_facts *facts, int prefix, int *positions)
{
    facts->patches = facts->grid_height * facts->grid_width;
    *positions = VIT_POS_ALL;
    if (facts->patches == facts->position_rows - prefix) return true;
    *positions = VIT_POS_PATCHES;
    return facts->patches == facts->position_rows;
}

/* timm takes positions to be square unless their number says otherwise. 0, 1 or 2 ways to read
 * the rows; of two the one `wanted`, if that is not -1. */
static int square_grid(settings_facts *facts, int prefix, int wanted, int *positions)
{
    int side = 0, other = 0;
    const bool fits_all = is_square(facts->position_rows - prefix, &side);
    const bool fits_patches = prefix > 0 && is_square(facts->position_rows, &other);
    if (!fits_all && (!fits_patches || wanted == VIT_POS_ALL)) return 0;
    *positions = VIT_POS_ALL;
    if (!fits_all || (fits_patches && wanted == VIT_POS_PATCHES)) {
        *positions = VIT_POS_PATCHES;
        side = other;
    }
    facts->grid_height = facts->grid_width = side;
    facts->patches = side * side;
    return fits_all && fits_patches && wanted < 0 ? 2 : 1;
}

/* The size that the name or the configuration tells does not explain the positions. */
static bool refuse_size(const settings *told, const settings_facts *facts, int patch, bool square,
                        report *r)
{
    const double height = told->value[SETTING_IMG_HEIGHT], width = told->value[SETTING_IMG_WIDTH];
    if (square)
        return report_fail(r, "%s says img_size %.0fx%.0f, the tensors say %lldx%lld (pos_embed "
                           "has %d patches of %d); --img-size decides", told->origin, height,
                           width, (long long)facts->grid_height * patch,
                           (long long)facts->grid_width * patch, facts->patches, patch);
    return report_fail(r, "%s says img_size %.0fx%.0f, but pos_embed has %d rows and a patch is "
                       "%d wide", told->origin, height, width, facts->position_rows, patch);
}

/* Which grid the positions form, and whether the prefix tokens have some too. The sources in
 * falling order, but for the command line, which may ask for another size: then the positions
 * are resampled. */
static bool find_grid(const settings all[FROM_COUNT], settings_facts *facts, const vit_config *c,
                      int *positions, report *r)
{
    const int from = gives_size(&all[FROM_CONFIG]) ? FROM_CONFIG : FROM_NAME;
    const settings *told = &all[from];
    const int wanted = (int)value_or(all, SETTING_POSITIONS, -1);
    int ways;
    facts->grid_height = facts->grid_width = 0;
    if (gives_size(told)) {
        told_grid(told, c, facts);
        if (explains(facts, c->num_prefix_tokens, positions)) return true;
    }
    ways = square_grid(facts, c->num_prefix_tokens, wanted, positions);
    if (gives_size(told) && !gives_size(&all[FROM_OPTIONS]))
        return refuse_size(told, facts, c->patch_size, ways > 0, r);
    if (ways > 1)
        return report_fail(r, "the %d rows of pos_embed may be those of all tokens or of the "
                           "patches; give --set positions=all or patches", facts->position_rows);
    if (ways == 1) return true;
    told_grid(&all[FROM_OPTIONS], c, facts);
    if (explains(facts, c->num_prefix_tokens, positions)) return true;
    if (facts->patches > 0 && facts->patches + c->num_prefix_tokens < facts->position_rows)
        return report_fail(r, "pos_embed has %d rows, the input %d tokens; if they are the first "
                           "rows, give --set pos_first_rows=1", facts->position_rows,
                           facts->patches + c->num_prefix_tokens);
    return report_fail(r, "pos_embed has %d rows for %d prefix token%s and the patches, which are "
                       "no square; give --img-size HxW", facts->position_rows,
                       c->num_prefix_tokens, c->num_prefix_tokens == 1 ? "" : "s");
}

/* Positions that are a function of the place. */
static bool resolve_sincos(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                           report *r)
{
    const int kind = (int)value_or(all, SETTING_POS_SINCOS, SINCOS_NONE);
    const int step = kind == SINCOS_1D ? 2 : 4;
    facts->pos_sincos = kind;
    if (kind == SINCOS_NONE) return true;
    if (c->embed_dim % step != 0 || c->embed_dim < 8)
        return report_fail(r, "pos_sincos: expected an embed_dim that %d divides, 8 at least, "
                           "found %d", step, c->embed_dim);
    c->positions = (int)value_or(all, SETTING_POSITIONS, VIT_POS_ALL);
    return true;
}

/* A table of relative positions has a row for each distance within the grid, and three. */
static bool told_relative_grid(const settings *s, const vit_config *c, settings_facts *facts)
{
    if (!gives_size(s)) return false;
    told_grid(s, c, facts);
    return (2 * (int64_t)facts->grid_height - 1) * (2 * (int64_t)facts->grid_width - 1) ==
           (int64_t)facts->relative_positions - 3;
}

/* As find_grid: the grid of such a table is the one that the name or the configuration tells, else
 * a square one; the command line may ask for another, and tells the one of any other table. */
static bool find_relative_grid(const settings all[FROM_COUNT], settings_facts *facts,
                               const vit_config *c, report *r)
{
    const settings *told = &all[gives_size(&all[FROM_CONFIG]) ? FROM_CONFIG : FROM_NAME];
    int side;
    if (told_relative_grid(told, c, facts)) return true;
    if (!is_square(facts->relative_positions - 3, &side) || side % 2 == 0)
        return told_relative_grid(&all[FROM_OPTIONS], c, facts) ||
               report_fail(r, "the %d relative positions are not those of a square; give "
                           "--img-size HxW", facts->relative_positions);
    facts->grid_height = facts->grid_width = (side + 1) / 2;
    return !gives_size(told) || gives_size(&all[FROM_OPTIONS]) ||
           report_fail(r, "%s says img_size %.0fx%.0f, the %d relative positions say %dx%d; "
                       "--img-size decides", told->origin, told->value[SETTING_IMG_HEIGHT],
                       told->value[SETTING_IMG_WIDTH], facts->relative_positions,
                       facts->grid_height * c->patch_size, facts->grid_width * c->patch_size);
}

/* The input that was asked for, or that of the grid. */
static bool put_img_size(const settings all[FROM_COUNT], const settings_facts *facts,
                         vit_config *c, report *r)
{
    const wanted_int size[] = {
        { SETTING_IMG_HEIGHT, &c->img_height, facts->grid_height * (double)c->patch_size },
        { SETTING_IMG_WIDTH, &c->img_width, facts->grid_width * (double)c->patch_size }
    };
    return in_ints(all, size, COUNT(size), r);
}

/* Where no tensor but such a table shows the size. */
static bool resolve_relative_size(const settings all[FROM_COUNT], settings_facts *facts,
                                  vit_config *c, report *r)
{
    c->positions = VIT_POS_NONE;
    return find_relative_grid(all, facts, c, r) && put_img_size(all, facts, c, r);
}

/* Without positions nothing in the tensors shows the size. */
static bool resolve_free_size(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                              report *r)
{
    c->img_height = int_of(all, SETTING_IMG_HEIGHT);
    c->img_width = int_of(all, SETTING_IMG_WIDTH);
    if (c->img_height == 0 || c->img_width == 0)
        return report_fail(r, "there is no pos_embed to tell the input size; give --img-size HxW, "
                           "--arch or --config");
    facts->grid_height = grid_side(c, c->img_height);
    facts->grid_width = grid_side(c, c->img_width);
    c->positions = VIT_POS_NONE;
    return resolve_sincos(all, facts, c, r);
}

/* A table for the longest sequence there might be: nothing but the input's size tells how many of
 * its rows are used. */
static bool take_first_rows(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                            report *r)
{
    double height, width;
    int tokens;
    if (!settings_get(all, SETTING_IMG_HEIGHT, &height) ||
        !settings_get(all, SETTING_IMG_WIDTH, &width))
        return report_fail(r, "how many of the first rows of pos_embed are used depends on the "
                           "input size; give --img-size HxW");
    facts->grid_height = (int)fmin(height / c->patch_size, 32767);
    facts->grid_width = (int)fmin(width / c->patch_size, 32767);
    facts->patches = facts->grid_height * facts->grid_width;
    c->positions = (int)value_or(all, SETTING_POSITIONS, VIT_POS_ALL);
    tokens = facts->patches + (c->positions == VIT_POS_ALL ? c->num_prefix_tokens : 0);
    if (tokens > facts->position_rows)
        return report_fail(r, "pos_embed has %d rows, an input of %.0fx%.0f needs %d",
                           facts->position_rows, height, width, tokens);
    facts->position_rows = tokens;
    return true;
}

/* The word of the name, the configuration or --set against what the rows show. */
static bool check_positions(const settings all[FROM_COUNT], const settings_facts *facts,
                            const vit_config *c, report *r)
{
    char told[32], seen[32];
    double wanted = value_or(all, SETTING_POSITIONS, c->positions);
    if ((int)wanted == c->positions) return true;
    if (c->num_prefix_tokens == 0 && c->positions != VIT_POS_NONE && (int)wanted != VIT_POS_NONE)
        return true; /* all tokens are patches */
    return report_fail(r, "%s says positions %s, pos_embed with %d rows says %s",
                       all[settings_origin(all, SETTING_POSITIONS)].origin,
                       setting_text(SETTING_POSITIONS, wanted, told), facts->position_rows,
                       setting_text(SETTING_POSITIONS, c->positions, seen));
}

static bool resolve_size(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                         report *r)
{
    const int patch = c->patch_size;
    c->num_prefix_tokens = c->has_cls_token + c->has_dist_token + c->num_reg_tokens;
    facts->patches = 0;
    if (patch < 1) return report_fail(r, "patch_size is not known; give --set patch_size=N");
    if (patch % stride_of(c) != 0)
        return report_fail(r, "patch_size %d is no multiple of the stem's stride, %d", patch,
                           stride_of(c));
    if (facts->position_rows == 0)
        return (c->has_rel_pos ? resolve_relative_size(all, facts, c, r)
                               : resolve_free_size(all, facts, c, r)) &&
               check_positions(all, facts, c, r);
    if (value_or(all, SETTING_POS_SINCOS, SINCOS_NONE) > 0)
        return report_fail(r, "pos_sincos is for positions that are computed, but pos_embed with "
                           "%d rows is there", facts->position_rows);
    facts->position_table = facts->position_rows;
    if (value_or(all, SETTING_POS_FIRST_ROWS, 0) != 0) {
        if (!take_first_rows(all, facts, c, r)) return false;
    } else if (!find_grid(all, facts, c, &c->positions, r)) {
        return false;
    }
    return check_positions(all, facts, c, r) && put_img_size(all, facts, c, r);
}

/* === Rotary positions === */

/* timm's values where nothing else is told. */
static bool resolve_rope(const settings all[FROM_COUNT], settings_facts *facts, vit_config *c,
                         report *r)
{
    rope_options *o = &facts->rope;
    const bool no_positions = facts->position_rows == 0 && !c->has_rel_pos;
    if (no_positions && !is_told(all, SETTING_ROPE_TYPE) && !is_told(all, SETTING_POSITIONS) &&
        !is_told(all, SETTING_POS_SINCOS))
        return report_fail(r, "there is no pos_embed, and rotary positions cannot be seen in the "
                           "tensors, nor other computed ones; give --set rope_type=WORD (%s), "
                           "--set pos_sincos=WORD (%s), --arch or --config",
                           table[SETTING_ROPE_TYPE].words, table[SETTING_POS_SINCOS].words);
    o->type = (rope_type)value_or(all, SETTING_ROPE_TYPE, ROPE_NONE);
    o->temperature = value_or(all, SETTING_ROPE_TEMPERATURE, o->type == ROPE_CAT ? 10000 : 100);
    o->indexing = (rope_indexing)value_or(all, SETTING_ROPE_INDEXING, ROPE_IJ);
    o->offset = value_or(all, SETTING_ROPE_OFFSET, 0);
    o->reference = int_of(all, SETTING_ROPE_REFERENCE);
    if (!(o->temperature > 0))
        return report_fail(r, "rope_temperature %.9g is not above 0", o->temperature);
    c->rope = (int)rope_layout(o->type);
    c->rope_per_block = o->type == ROPE_MIXED;
    if (c->rope && c->head_dim % 4 != 0)
        return report_fail(r, "head_dim %d: rotary positions need a multiple of 4", c->head_dim);
    return true;
}

/* What the name or the configuration leaves to the program is fixed by tables for one grid. */
static bool resolve_dynamic(const settings all[FROM_COUNT], vit_config *c, report *r)
{
    const bool is_wanted = settings_origin(all, SETTING_DYNAMIC_IMG_SIZE) == FROM_OPTIONS;
    if (!c->dynamic_img_size || !(c->rope || c->has_rel_pos)) return true;
    c->dynamic_img_size = 0;
    return !is_wanted ||
           report_fail(r, "dynamic_img_size: the tables of %s positions are for one input size; "
                       "give --img-size", c->rope ? "rotary" : "relative");
}

/* === Preprocessing === */

/* Value of a channel that was made from those of the checkpoint, as its weights were. */
static double adapted_value(const double *values, int count, int chans, int channel)
{
    double sum = 0;
    int i;
    if (chans > 1) return values[channel % count];
    for (i = 0; i < count; i++) sum += values[i];
    return sum / count;
}

static bool resolve_vector(const settings all[FROM_COUNT], const settings_facts *facts, bool is_std,
                           int chans, float *out, report *r)
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
    if (count != chans && count != facts->chans &&
        (count != 1 && !(equal && from == FROM_NAME)))
        return report_fail(r, "%s gives %d values of %s for in_chans %d; give --set %s=...",
                           all[from].origin, count, name, chans, name);
    for (i = 0; i < chans; i++) {
        double value = values[0];
        if (count == chans) value = values[i];
        else if (count == facts->chans) value = adapted_value(values, count, chans, i);
        if (is_std && !(value > 0))
            return report_fail(r, "%s std %.9g is not above 0", all[from].origin, value);
        out[i] = (float)value;
    }
    return true;
}

/* A model whose size may change needs what the size before the crop follows from. timm gives it
 * in a few decimals; of other numbers the proportion of both sizes is kept. */
static void keep_crop_pct(const settings all[FROM_COUNT], double crop_pct, vit_config *c)
{
    const bool told = settings_origin(all, SETTING_RESIZE_HEIGHT) >= 0 ||
                      settings_origin(all, SETTING_RESIZE_WIDTH) >= 0;
    const bool is_short = fabs(floor(crop_pct * 1e6 + 0.5) / 1e6 - crop_pct) < 1e-9;
    c->crop_pct = c->dynamic_img_size && !told && is_short ? (float)crop_pct : 0;
}

static bool resolve_preprocessing(const settings all[FROM_COUNT], const settings_facts *facts,
                                  vit_config *c, settings_notes *notes, report *r)
{
    const double crop_pct = value_or(all, SETTING_CROP_PCT, 0.9);
    const wanted_int size[] = {
        { SETTING_RESIZE_HEIGHT, &c->resize_height, floor(c->img_height / crop_pct) },
        { SETTING_RESIZE_WIDTH, &c->resize_width, floor(c->img_width / crop_pct) }
    };
    int mean_from = FROM_COUNT - 1;
    if (!(crop_pct > 0 && crop_pct <= 4))
        return report_fail(r, "crop_pct %.9g is not in (0, 4]", crop_pct);
    c->crop_mode = (int)value_or(all, SETTING_CROP_MODE, VIT_CROP_CENTER);
    c->crop_rounding = (int)value_or(all, SETTING_CROP_ROUNDING, VIT_ROUND_EVEN);
    c->interpolation = (int)value_or(all, SETTING_INTERPOLATION, VIT_BICUBIC);
    if (!in_ints(all, size, COUNT(size), r)) return false;
    keep_crop_pct(all, crop_pct, c);
    while (mean_from >= 0 && all[mean_from].mean_count == 0) mean_from--;
    notes->preprocess_assumed = mean_from < 0;
    return resolve_vector(all, facts, false, c->in_chans, c->mean, r) &&
           resolve_vector(all, facts, true, c->in_chans, c->std, r);
}

/* === Options === */

static bool resolve_shape(const settings all[FROM_COUNT], vit_config *c, report *r)
{
    const wanted_int shape[] = {
        { SETTING_STEM, &c->stem, VIT_STEM_NONE },
        { SETTING_STEM_WIDTH, &c->stem_width, 0 },
        { SETTING_STEM_STAGE1, &c->stem_stage1, 0 },
        { SETTING_STEM_STAGE2, &c->stem_stage2, 0 },
        { SETTING_STEM_STAGE3, &c->stem_stage3, 0 },
        { SETTING_STEM_STAGE4, &c->stem_stage4, 0 },
        { SETTING_IN_CHANS, &c->in_chans, 0 },
        { SETTING_PATCH_SIZE, &c->patch_size, 0 },
        { SETTING_EMBED_DIM, &c->embed_dim, 0 },
        { SETTING_DEPTH, &c->depth, 0 },
        { SETTING_NUM_HEADS, &c->num_heads, 0 },
        { SETTING_HEAD_DIM, &c->head_dim, 0 },
        { SETTING_MLP_DIM, &c->mlp_dim, 4 * value_or(all, SETTING_EMBED_DIM, 0) },
        { SETTING_NUM_CLASSES, &c->num_classes, 0 },
        { SETTING_REPRESENTATION_DIM, &c->representation_dim, 0 },
        { SETTING_REG_TOKENS, &c->num_reg_tokens, 0 },
        { SETTING_POOL_NUM_HEADS, &c->pool_num_heads, 0 },
        { SETTING_POOL_MLP_DIM, &c->pool_mlp_dim, 0 },
        { SETTING_SELFTEST_SEED, &c->selftest_seed, 1 }
    };
    return in_ints(all, shape, COUNT(shape), r);
}

/* What the tensors show by being there. */
static void resolve_flags(const settings all[FROM_COUNT], vit_config *c)
{
    c->has_cls_token = value_or(all, SETTING_CLS_TOKEN, 1) != 0;
    c->has_dist_token = value_or(all, SETTING_DIST_TOKEN, 0) != 0;
    c->has_patch_bias = value_or(all, SETTING_PATCH_BIAS, 1) != 0;
    c->has_patch_pre_norm = value_or(all, SETTING_PATCH_PRE_NORM, 0) != 0;
    c->has_patch_norm = value_or(all, SETTING_PATCH_NORM, 0) != 0;
    c->has_pre_norm = value_or(all, SETTING_PRE_NORM, 0) != 0;
    c->has_qkv_bias = value_or(all, SETTING_QKV_BIAS, 1) != 0;
    c->has_qk_norm = value_or(all, SETTING_QK_NORM, 0) != 0;
    c->has_rel_pos = value_or(all, SETTING_REL_POS, 0) != 0;
    c->has_diff_attn = value_or(all, SETTING_DIFF_ATTN, 0) != 0;
    c->has_attn_norm = value_or(all, SETTING_ATTN_NORM, 0) != 0;
    c->has_proj_bias = value_or(all, SETTING_PROJ_BIAS, 1) != 0;
    c->has_layer_scale = value_or(all, SETTING_LAYER_SCALE, 0) != 0;
    c->has_gated_mlp = value_or(all, SETTING_GATED_MLP, 0) != 0;
    c->has_mlp_norm = value_or(all, SETTING_MLP_NORM, 0) != 0;
    c->has_final_norm = shown_or(all, SETTING_FINAL_NORM, 1) != 0;
    c->has_fc_norm = shown_or(all, SETTING_FC_NORM, 0) != 0;
    c->pool_prefix = value_or(all, SETTING_POOL_PREFIX, 0) != 0;
    c->block_type = (int)value_or(all, SETTING_BLOCK_TYPE, VIT_PRE_NORM);
    c->dynamic_img_size = value_or(all, SETTING_DYNAMIC_IMG_SIZE, 0) != 0;
    c->dynamic_img_pad = value_or(all, SETTING_DYNAMIC_IMG_PAD, 0) != 0;
}

/* No tensor shows what follows. Of a plain ViT, as all of Google's, DeiT, DINO and MAE are, timm's
 * defaults are taken and the report says so; of all others somebody must say it. */

static bool resolve_norm(const settings all[FROM_COUNT], vit_config *c, settings_notes *notes,
                         report *r)
{
    const bool told = is_told(all, SETTING_NORM_EPS);
    if (!is_told(all, SETTING_NORM_TYPE))
        return report_fail(r, "the norms have no bias, so they are RMS norms or none that vit.h "
                           "knows; give --set norm_type=rms, --arch or --config");
    c->norm_type = (int)value_or(all, SETTING_NORM_TYPE, VIT_LAYER_NORM);
    if (!told && (c->has_pre_norm || c->norm_type == VIT_RMS_NORM || c->has_attn_norm ||
                  c->has_mlp_norm))
        return report_fail(r, "norm_eps cannot be seen in the tensors; give --set norm_eps=N "
                           "(CLIP, AIMv2, BEiT-3: 1e-5; most others: 1e-6), --arch or --config");
    c->norm_eps = (float)value_or(all, SETTING_NORM_EPS, 1e-6);
    notes->eps_assumed = !told;
    return true;
}

static bool resolve_activation(const settings all[FROM_COUNT], vit_config *c,
                               settings_notes *notes, report *r)
{
    const bool told = is_told(all, SETTING_ACTIVATION);
    if (!told && c->has_gated_mlp)
        return report_fail(r, "mlp.fc1 is twice as wide as mlp.fc2: a gated MLP, whose activation "
                           "cannot be seen in the tensors; give --set activation=silu (SwiGLU, "
                           "gate first), --arch or --config");
    if (!told && (c->has_pre_norm || !c->has_cls_token || c->pool == VIT_POOL_MAP))
        return report_fail(r, "activation cannot be seen in the tensors; give --set "
                           "activation=WORD (%s), --arch or --config",
                           table[SETTING_ACTIVATION].words);
    c->activation = (int)value_or(all, SETTING_ACTIVATION, VIT_GELU);
    notes->activation_assumed = !told;
    return true;
}

/* The pool of a name, if the head was not made another one. */
static bool check_pool(const settings all[FROM_COUNT], const vit_config *c, report *r)
{
    const settings *name = &all[FROM_NAME];
    if (settings_origin(all, SETTING_POOL) != FROM_NAME) return true;
    if ((name->value[SETTING_FC_NORM] != 0) == (c->has_fc_norm != 0)) return true;
    return report_fail(r, "%s has %s norm behind the pool, the tensors have %s: the head was "
                       "changed; give --set pool=WORD (%s) or --config", name->origin,
                       c->has_fc_norm ? "no" : "a", c->has_fc_norm ? "one" : "none",
                       table[SETTING_POOL].words);
}

static bool resolve_pool(const settings all[FROM_COUNT], vit_config *c, report *r)
{
    c->pool = (int)value_or(all, SETTING_POOL, VIT_POOL_TOKEN);
    if (c->pool_mlp_dim == c->mlp_dim || c->pool != VIT_POOL_MAP) c->pool_mlp_dim = 0;
    if (c->pool != VIT_POOL_MAP) c->pool_num_heads = 0;
    if (is_told(all, SETTING_POOL) && c->pool == VIT_POOL_TOKEN && !c->has_cls_token)
        return report_fail(r, "pool token reads the class token, and there is none; give --set "
                           "pool=WORD (%s)", table[SETTING_POOL].words);
    if (is_told(all, SETTING_POOL)) return check_pool(all, c, r);
    if (!c->has_cls_token)
        return report_fail(r, "there is no class token, and how the patches are pooled cannot be "
                           "seen in the tensors; give --set pool=avg (or max, avgmax), --arch or "
                           "--config");
    if (c->has_fc_norm)
        return report_fail(r, "fc_norm is there, so the head may read an average, and how it is "
                           "pooled cannot be seen in the tensors; give --set pool=avg (or token, "
                           "max, avgmax), --arch or --config");
    return true;
}

/* === Everything === */

/* The patch embedding that was asked for instead of the checkpoint's own. */
static bool adapt_patches(settings_facts *facts, vit_config *c, settings_notes *notes, report *r)
{
    const int chans = facts->wanted_chans ? facts->wanted_chans : c->in_chans;
    const int patch = facts->wanted_patch ? facts->wanted_patch : c->patch_size;
    facts->chans = c->in_chans;
    facts->patch = c->patch_size;
    notes->patches_adapted = chans != c->in_chans || patch != c->patch_size;
    if (notes->patches_adapted &&
        (c->has_patch_pre_norm || (c->stem && patch != c->patch_size)))
        return report_fail(r, "%s: expected patches that are cut out of the input as it is, found "
                           "%s before them", patch != c->patch_size ? "--patch-size" : "--in-chans",
                           c->stem ? "a convolutional stem" : "a norm");
    if (chans != c->in_chans && c->in_chans != 3)
        return report_fail(r, "--in-chans %d: expected a checkpoint of 3 channels, found %d", chans,
                           c->in_chans);
    if (chans > VIT_MAX_CHANS || patch > 1024 || c->patch_size > 1024)
        return report_fail(r, "in_chans or patch_size is outside of its limits");
    c->in_chans = chans;
    c->patch_size = patch;
    return true;
}

/* Only a model whose size may change has to know how. */
static bool resolve_resampling(const settings all[FROM_COUNT], const settings_facts *facts,
                               vit_config *c, settings_notes *notes, report *r)
{
    char word[32];
    notes->pos_resample = (vit_pos_resample)value_or(all, SETTING_POS_RESAMPLE, VIT_RESAMPLE_TIMM);
    notes->positions_resampled = (facts->position_rows > 0 || c->has_rel_pos) &&
                                 (c->grid_height != facts->grid_height ||
                                  c->grid_width != facts->grid_width);
    if (c->dynamic_img_size) c->pos_resample = (int)notes->pos_resample;
    return !c->has_rel_pos || !notes->positions_resampled ||
           rel_pos_knows(notes->pos_resample) ||
           report_fail(r, "pos_resample=%s: relative positions are resampled as timm or "
                       "transformers does",
                       setting_text(SETTING_POS_RESAMPLE, (int)notes->pos_resample, word));
}

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

bool settings_resolve(settings all[FROM_COUNT], settings_facts *facts, vit_config *config,
                      settings_notes *notes, report *r)
{
    char detail[VIT_MAX_DETAIL];
    memset(config, 0, sizeof *config);
    memset(notes, 0, sizeof *notes);
    if (!resolve_flat_patch(all, facts->patch_depth, r)) return false;
    expand_ratio(all);
    forget_other_width(all);
    expand_patch(all);
    if (!check_contradictions(all, r) || !resolve_shape(all, config, r)) return false;
    resolve_flags(all, config);
    config->selftest_tolerance = (float)value_or(all, SETTING_SELFTEST_TOLERANCE, 2e-5);
    if (!resolve_pool(all, config, r) || !resolve_norm(all, config, notes, r) ||
        !resolve_activation(all, config, notes, r))
        return false;
    if (!resolve_heads(all, facts, config, notes, r)) return false;
    if (!resolve_size(all, facts, config, r) || !resolve_rope(all, facts, config, r) ||
        !resolve_dynamic(all, config, r))
        return false;
    if (!adapt_patches(facts, config, notes, r)) return false;
    if (!resolve_preprocessing(all, facts, config, notes, r)) return false;
    if (vit_config_check(config, detail) != VIT_OK) return report_fail(r, "%s", detail);
    return resolve_resampling(all, facts, config, notes, r);
}

/* === In words === */

typedef struct phrase_list {
    char *text;
    size_t size, used;
} phrase_list;

static void add_phrase(phrase_list *list, bool holds, const char *phrase)
{
    if (!holds || list->used >= list->size) return;
    list->used += (size_t)snprintf(list->text + list->used, list->size - list->used, "%s%s",
                                   list->used ? ", " : "", phrase);
}

static void describe_stem(const vit_config *c, phrase_list *list)
{
    char registers[48], stages[64];
    const int blocks = c->stem_stage1 + c->stem_stage2 + c->stem_stage3 + c->stem_stage4;
    snprintf(registers, sizeof registers, "%d register token%s", c->num_reg_tokens,
             c->num_reg_tokens == 1 ? "" : "s");
    snprintf(stages, sizeof stages, "ResNet stem of %d block%s", blocks, blocks == 1 ? "" : "s");
    add_phrase(list, c->stem == VIT_STEM_RESNET, stages);
    add_phrase(list, c->stem == VIT_STEM_CONV, "convolutional stem");
    add_phrase(list, !c->has_cls_token, "no class token");
    add_phrase(list, c->has_dist_token, "distillation token");
    add_phrase(list, c->num_reg_tokens > 0, registers);
    add_phrase(list, c->positions == VIT_POS_PATCHES, "positions of the patches alone");
    add_phrase(list, c->positions == VIT_POS_NONE, "no positions");
    add_phrase(list, c->dynamic_img_size, "any input size");
    add_phrase(list, c->dynamic_img_pad, "input padded to whole patches");
    add_phrase(list, !c->has_patch_bias, "no patch bias");
    add_phrase(list, c->has_patch_pre_norm, "norm of the raw patches");
    add_phrase(list, c->has_patch_norm, "patch norm");
    add_phrase(list, c->has_pre_norm, "norm before the blocks");
}

static void describe_blocks(const vit_config *c, phrase_list *list)
{
    static const char *const activations[] = { "GELU", "tanh GELU", "quick GELU", "SiLU", "ReLU" };
    add_phrase(list, c->norm_type == VIT_RMS_NORM, "RMS norms");
    add_phrase(list, c->block_type == VIT_POST_NORM, "post-norm blocks");
    add_phrase(list, c->block_type == VIT_RES_POST_NORM, "res-post-norm blocks");
    add_phrase(list, c->block_type == VIT_PARALLEL, "parallel blocks");
    add_phrase(list, !c->has_qkv_bias, "no qkv bias");
    add_phrase(list, c->has_qk_norm, "norm of q and k");
    add_phrase(list, c->rope != VIT_ROPE_NONE, "rotary positions");
    add_phrase(list, c->has_rel_pos, "relative positions");
    add_phrase(list, c->has_diff_attn, "differential attention");
    add_phrase(list, c->has_attn_norm, "norm before attn.proj");
    add_phrase(list, !c->has_proj_bias, "no bias of attn.proj and mlp");
    add_phrase(list, c->has_layer_scale, "LayerScale");
    add_phrase(list, c->activation != VIT_GELU, activations[c->activation]);
    add_phrase(list, c->has_gated_mlp, "gated MLP");
    add_phrase(list, c->has_mlp_norm, "norm before mlp.fc2");
}

static void describe_tail(const vit_config *c, phrase_list *list)
{
    static const char *const pools[] = {
        "", "mean of the patches", "maximum of the patches", "mean and maximum of the patches",
        "attention pooling", "class token beside the mean of the patches"
    };
    char width[48];
    snprintf(width, sizeof width, "pre_logits %d", c->representation_dim);
    add_phrase(list, !c->has_final_norm && !c->has_fc_norm, "no final norm");
    add_phrase(list, c->pool != VIT_POOL_TOKEN, pools[c->pool]);
    add_phrase(list, c->pool_prefix, "prefix tokens pooled too");
    add_phrase(list, c->has_fc_norm, "norm after pooling");
    add_phrase(list, c->representation_dim > 0, width);
}

const char *settings_describe(const vit_config *config, char *text, size_t size)
{
    phrase_list list;
    list.text = text;
    list.size = size;
    list.used = 0;
    text[0] = '\0';
    describe_stem(config, &list);
    describe_blocks(config, &list);
    describe_tail(config, &list);
    return text;
}
