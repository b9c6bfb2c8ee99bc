#include "model/resolve.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/positions.h"
#include "model/settings.h"
#include "model/timm_names.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The state of one call of settings_resolve. */
typedef struct resolver {
    /* a copy of the caller's settings, in which settings with the same meaning are merged */
    settings all[FROM_COUNT];
    const settings_seen *seen;
    const patch_request *wanted;
    settings_resolved *model;
    vit_config *config; /* `config`, `stored` and `notes` are members of *model */
    settings_stored *stored;
    settings_notes *notes;
    findings *found;
} resolver;

static double value_or(const resolver *m, setting_key key, double otherwise) {
    settings_get(m->all, key, &otherwise);
    return otherwise;
}

static bool is_told(const resolver *m, setting_key key) {
    return settings_origin(m->all, key) >= 0;
}

/* Returns the value of a setting from --set, FROM_MATCH or the tensors. If none of them gives the
 * setting, returns the value of a plain ViT. The name and the configuration are ignored: the
 * tensors show the place of the final norm more reliably. In timm this place depends on the
 * pooling, which a configuration may have changed. */
static double shown_of(const resolver *m, setting_key key) {
    if (m->all[FROM_OPTIONS].given[key]) return m->all[FROM_OPTIONS].value[key];
    if (m->all[FROM_MATCH].given[key]) return m->all[FROM_MATCH].value[key];
    if (m->all[FROM_TENSORS].given[key]) return m->all[FROM_TENSORS].value[key];
    return setting_rows[key].plain;
}

/* Returns the value from the source of highest precedence. If no source gives the setting, returns
 * the value of a plain ViT. */
static double value_of(const resolver *m, setting_key key) {
    return value_or(m, key, setting_rows[key].plain);
}

/* === Questions ===
 * The functions that ask the user return true, so that all questions are collected. They return
 * false if memory is exhausted. */

static bool ask(const resolver *m, const char *what, const char *why, const char *options,
                report *r) {
    return findings_ask(m->found, what, why, options) || report_no_memory(r);
}

/* Asks a question because a tensor is missing. Does not ask if there are problems: the tensor may
 * then exist under another name. */
static bool ask_for_lack(const resolver *m, const char *what, const char *why, const char *options,
                         report *r) {
    return m->found->wrong.count > 0 || ask(m, what, why, options, r);
}

#define NAME_OR_CONFIG ", --arch NAME or --config FILE"

static bool put_field(resolver *m, setting_key key, double value, report *r) {
    return setting_put_whole(key, value, m->config, r);
}

static bool copy_fields(resolver *m, report *r) {
    int i;
    for (i = 0; i < SETTING_COUNT; i++) {
        const setting_key key = (setting_key)i;
        if (setting_rows[key].field == SETTING_COPIED && !put_field(m, key, value_of(m, key), r))
            return false;
    }
    return true;
}

/* === Contradictions === */

/* Checks that the name or the configuration gives the same value as the tensors. If --set gives the
 * value, there is no check. */
static bool check_contradiction(const resolver *m, setting_key key, report *r) {
    const settings *tensors = &m->all[FROM_TENSORS];
    const settings *other = &m->all[m->all[FROM_CONFIG].given[key] ? FROM_CONFIG : FROM_NAME];
    char told[32], seen[32];
    if (m->all[FROM_OPTIONS].given[key] || !other->given[key] || !tensors->given[key]) return true;
    if (other->value[key] == tensors->value[key]) return true;
    return report_fail(r, "%s has %s %s, but the tensors have %s", other->origin,
                       setting_rows[key].name, setting_text(key, other->value[key], told),
                       setting_text(key, tensors->value[key], seen));
}

/* Checks the settings marked CHECKED for contradictions. One about the gate of the MLP is reported
 * first, because the meaning of mlp_dim depends on the gate. */
static bool check_contradictions(const resolver *m, report *r) {
    int key;
    if (!check_contradiction(m, SETTING_GATED_MLP, r)) return false;
    for (key = 0; key < SETTING_COUNT; key++)
        if ((setting_rows[key].sources & SETTING_IS_CHECKED) &&
            !check_contradiction(m, (setting_key)key, r))
            return false;
    return true;
}

/* === Settings with the same meaning === */

static int stem_stride(int stem, int stages) {
    if (stem == VIT_STEM_NONE) return 1;
    return stem == VIT_STEM_CONV ? 8 : stages < 2 ? 4 : 2 << stages;
}

int settings_stem_stride(const settings *s) {
    int stages = 0;
    while (stages < 4 && s->value[SETTING_STEM_STAGE1 + stages] > 0) stages++;
    return stem_stride((int)s->value[SETTING_STEM], stages);
}

/* Computes mlp_dim from each given mlp_ratio, truncated as by Python's int(). If a gated MLP is
 * packed (one matrix for the gate and the values), timm's mlp_ratio counts both halves. Only the
 * tensors show if it is packed. */
static void expand_ratio(resolver *m) {
    const double embed_dim = value_of(m, SETTING_EMBED_DIM);
    const double half = m->all[FROM_TENSORS].value[SETTING_MLP_DIM];
    const bool gated = value_of(m, SETTING_GATED_MLP) != 0;
    int from;
    for (from = 0; from < FROM_COUNT; from++) {
        settings *s = &m->all[from];
        double mlp_dim = floor(embed_dim * s->value[SETTING_MLP_RATIO]);
        if (!s->given[SETTING_MLP_RATIO] || s->given[SETTING_MLP_DIM]) continue;
        settings_put(s, SETTING_MLP_DIM, gated && mlp_dim == 2 * half ? half : mlp_dim);
    }
}

/* Drops the mlp_dim of a name if another source gives another embed_dim. timm's names imply an
 * mlp_ratio, so their mlp_dim belongs to their embed_dim. */
static void forget_other_width(resolver *m) {
    settings *name = &m->all[FROM_NAME];
    const double named = name->value[SETTING_EMBED_DIM];
    if (value_or(m, SETTING_EMBED_DIM, named) != named) name->given[SETTING_MLP_DIM] = false;
}

/* Sets a usual mlp_dim for a model without blocks, whose tensors do not show it. */
static void fill_mlp_dim(resolver *m) {
    if (!is_told(m, SETTING_MLP_DIM))
        settings_put(&m->all[FROM_TENSORS], SETTING_MLP_DIM,
                     value_of(m, SETTING_EMBED_DIM) * setting_rows[SETTING_MLP_RATIO].plain);
}

/* Turns a patch_size of the configuration into pixels of the input. In a hybrid, timm's patch_size
 * counts pixels of the stem's map. In MobileCLIP, it counts pixels after the patch embedding, whose
 * stride is 2. */
static void expand_patch(resolver *m) {
    const settings *tensors = &m->all[FROM_TENSORS];
    const int stride = settings_stem_stride(tensors);
    const int last = tensors->value[SETTING_STEM] == VIT_STEM_CONV ? 2 : 1;
    if (m->all[FROM_CONFIG].given[SETTING_PATCH_SIZE])
        m->all[FROM_CONFIG].value[SETTING_PATCH_SIZE] *= stride * last;
}

static bool ask_chans(const resolver *m, int64_t depth, report *r) {
    char why[160], options[CHOICES_SIZE];
    snprintf(why, sizeof why,
             "a patch of %lld values is not a square of pixels with 1 or 3 channels",
             (long long)depth);
    return ask(m, "in_chans", why, choices_of_chans(depth, options), r);
}

/* Sets C channels and the patch size P for a 2-D patch weight [D, C * P * P], whose shape shows
 * only the product C * P * P. If neither C nor P is given, assumes 3 channels if the patches are
 * then squares, and otherwise 1 channel. Asks if they are squares in neither case. */
static bool resolve_flat_patch(resolver *m, report *r) {
    settings *tensors = &m->all[FROM_TENSORS];
    const int64_t depth = m->seen->patch_depth;
    const double patch = value_of(m, SETTING_PATCH_SIZE);
    double chans = patch > 0 ? floor((double)depth / (patch * patch)) : 3;
    int side;
    if (depth == 0) return true;
    m->notes->chans_by_depth = !is_told(m, SETTING_IN_CHANS) && patch == 0;
    if (m->notes->chans_by_depth && (depth % 3 || !choices_is_square(depth / 3, &side))) {
        chans = 1;
        if (!choices_is_square(depth, &side)) return ask_chans(m, depth, r);
    }
    chans = value_or(m, SETTING_IN_CHANS, chans);
    settings_put(tensors, SETTING_IN_CHANS, chans);
    if (settings_origin(m->all, SETTING_IN_CHANS) == FROM_MATCH &&
        (depth % (int64_t)chans || !choices_is_square(depth / (int64_t)chans, &side)))
        return report_fail(r,
                           "--match-input has %.0f channels, [C, H, W], but a patch has %lld "
                           "values, which is not %.0f times a square number",
                           chans, (long long)depth, chans);
    if (!(chans > 0) || fmod((double)depth, chans) != 0 ||
        !choices_is_square((int64_t)((double)depth / chans), &side))
        return report_fail(r,
                           "patch_embed.proj.weight: a patch of %lld values is not a square of "
                           "pixels with %.0f channels; give --set in_chans=N",
                           (long long)depth, chans);
    settings_put(tensors, SETTING_PATCH_SIZE, side);
    return true;
}

/* === Heads === */

/* Sets the scale of the attention scores. If the scale is applied after the softmax, the weight of
 * attn.proj is divided instead of its input. The results are equal, because attn.proj is linear. */
static void resolve_scale(resolver *m) {
    vit_config *c = m->config;
    const int root = (int)value_of(m, SETTING_ATTN_ROOT);
    const int width = c->has_diff_attn ? c->head_dim / 2 : c->head_dim;
    double scale = width > 0 ? pow(width, -0.5) : 1;
    if (root == ATTN_ROOT_EMBED_DIM) scale = pow(c->embed_dim, -0.5);
    if (root == ATTN_ROOT_EMBED_DIM_AFTER) scale = 1;
    m->model->context_divisor = root == ATTN_ROOT_EMBED_DIM_AFTER ? sqrt(c->embed_dim) : 0;
    c->attn_scale = (float)value_or(m, SETTING_ATTN_SCALE, scale);
}

/* Resolves the heads of a model whose tokens attend only to themselves. Such a model has no heads,
 * so the number may be any divisor of the width that gives heads of a supported width. There is no
 * qkv bias: layout/plan.c adds the bias of the values to that of attn.proj. */
static bool resolve_self(resolver *m, report *r) {
    vit_config *c = m->config;
    const int64_t inner = m->seen->qkv_rows ? m->seen->qkv_rows / 3 : c->embed_dim;
    if (c->num_heads == 0) c->num_heads = 1;
    while (c->num_heads < 1024 && (inner % c->num_heads || inner / c->num_heads > 4096))
        c->num_heads++;
    c->has_qkv_bias = 0;
    if (!put_field(m, SETTING_HEAD_DIM, (double)(inner / c->num_heads), r)) return false;
    resolve_scale(m);
    return true;
}

/* If no source gives num_heads, takes `by_width`, the number in timm's models of this width or 0.
 * Notes whether the weights or the width gave the number. */
static void put_assumed_heads(resolver *m, int by_width) {
    vit_config *c = m->config;
    const bool is_shown = m->seen->heads.is_clear &&
                          settings_origin(m->all, SETTING_NUM_HEADS) == FROM_TENSORS &&
                          c->num_heads == m->seen->heads.ranked[0].heads;
    const bool told = c->num_heads > 0 && !is_shown;
    if (c->num_heads == 0) c->num_heads = by_width;
    m->notes->heads_by_weights = is_shown;
    m->notes->heads_by_width = !told && by_width > 0 && c->num_heads == by_width;
}

static bool ask_heads(const resolver *m, int64_t width, report *r) {
    char why[160], options[CHOICES_SIZE], seen[HEADS_TEXT];
    if (m->seen->heads.count > 0)
        return ask(m, "num_heads", heads_doubt(&m->seen->heads),
                   heads_option(&m->seen->heads, seen), r);
    snprintf(why, sizeof why,
             "cannot be seen in the tensors, and no timm model of embed_dim %d shows it",
             m->config->embed_dim);
    return ask(m, "num_heads", why, choices_of_heads(width, NAME_OR_CONFIG, options), r);
}

/* Resolves num_heads and head_dim. Each of them follows from the other and the width of attention.
 * If neither is given, takes num_heads of timm's models of this embed_dim, or asks. */
static bool resolve_heads(resolver *m, report *r) {
    vit_config *c = m->config;
    const int64_t inner = m->seen->qkv_rows ? m->seen->qkv_rows / 3 : c->embed_dim;
    if (c->attention == VIT_ATTENTION_SELF) return resolve_self(m, r);
    /* a given num_heads replaces a head_dim of lower precedence */
    if (settings_origin(m->all, SETTING_NUM_HEADS) > settings_origin(m->all, SETTING_HEAD_DIM))
        c->head_dim = 0;
    if (c->num_heads == 0 && c->head_dim > 0 && inner % c->head_dim == 0)
        c->num_heads = (int)(inner / c->head_dim);
    put_assumed_heads(m, inner == c->embed_dim ? arch_heads_of_width(c->embed_dim) : 0);
    if (c->num_heads == 0 && !ask_heads(m, inner, r)) return false;
    /* this value only keeps the next steps valid until the question is answered */
    if (c->num_heads == 0) c->num_heads = 1;
    if (inner % c->num_heads != 0 || inner / c->num_heads > INT_MAX)
        return report_fail(r, "num_heads %d does not divide the width of attention, %lld",
                           c->num_heads, (long long)inner);
    if (c->head_dim > 0 && (int64_t)c->head_dim * c->num_heads != inner)
        return report_fail(r, "num_heads %d x head_dim %d is not the width of attention, %lld",
                           c->num_heads, c->head_dim, (long long)inner);
    c->head_dim = (int)(inner / c->num_heads);
    resolve_scale(m);
    return true;
}

/* === Image size and positions === */

static bool gives_size(const settings *s) {
    return s->given[SETTING_IMG_HEIGHT] && s->given[SETTING_IMG_WIDTH];
}

/* Returns the source that decides the size. It is the configuration if it gives a size, otherwise
 * the name. */
static const settings *teller_of_size(const resolver *m) {
    return &m->all[gives_size(&m->all[FROM_CONFIG]) ? FROM_CONFIG : FROM_NAME];
}

static int stride_of(const vit_config *c) {
    return stem_stride(c->stem, (c->stem_stage1 > 0) + (c->stem_stage2 > 0) + (c->stem_stage3 > 0) +
                                    (c->stem_stage4 > 0));
}

/* Returns the number of pixels from the start of one patch to the start of the next patch. */
static int patch_step(const vit_config *c) {
    return c->patch_stride ? c->patch_stride : c->patch_size;
}

/* Returns the number of patches along a side of this many pixels. The size of a ResNet stem's map
 * is rounded up. All other sizes are rounded down. */
static int grid_side(const vit_config *c, double pixels) {
    const int stride = stride_of(c);
    double side = pixels / stride;
    side = c->stem == VIT_STEM_RESNET ? ceil(side) : floor(side);
    side = floor(side / (c->patch_size / stride));
    if (c->patch_stride)
        side = pixels < c->patch_size ? 0 : floor((pixels - c->patch_size) / c->patch_stride) + 1;
    return side < 32768 ? (int)side : 0; /* the product of two sides must fit into an int */
}

/* Returns the smallest number of pixels along a side that gives this number of patches. */
static double pixels_of(const vit_config *c, int patches) {
    return (patches - 1.0) * patch_step(c) + c->patch_size;
}

/* Sets the stored grid to that of an input of the size that `told` gives. */
static void take_grid(resolver *m, const settings *told) {
    m->stored->grid_height = grid_side(m->config, told->value[SETTING_IMG_HEIGHT]);
    m->stored->grid_width = grid_side(m->config, told->value[SETTING_IMG_WIDTH]);
}

/* True if pos_embed has one row for each patch of the grid, with or without rows for the prefix
 * tokens. */
static bool grid_explains_rows(resolver *m) {
    settings_stored *stored = m->stored;
    stored->patch_rows = stored->grid_height * stored->grid_width;
    m->config->positions = VIT_POS_ALL;
    if (stored->patch_rows == stored->position_rows - m->config->num_prefix_tokens) return true;
    m->config->positions = VIT_POS_PATCHES;
    return stored->patch_rows == stored->position_rows;
}

/* Takes a square grid of patches if pos_embed has as many rows as such a grid needs. Returns the
 * number of ways in which the rows may be used, 0 to 2: for all tokens, or for the patches only. A
 * given SETTING_POSITIONS leaves at most one way. */
static int square_grid(resolver *m) {
    settings_stored *stored = m->stored;
    const int rows = stored->position_rows, prefix = m->config->num_prefix_tokens;
    const int wanted = (int)value_or(m, SETTING_POSITIONS, -1);
    int side = 0, other = 0;
    const bool fits_all = choices_is_square(rows - prefix, &side);
    const bool fits_patches = prefix > 0 && choices_is_square(rows, &other);
    if (!fits_all && (!fits_patches || wanted == VIT_POS_ALL)) return 0;
    m->config->positions = VIT_POS_ALL;
    if (!fits_all || (fits_patches && wanted == VIT_POS_PATCHES)) {
        m->config->positions = VIT_POS_PATCHES;
        side = other;
    }
    stored->grid_height = stored->grid_width = side;
    stored->patch_rows = side * side;
    return fits_all && fits_patches && wanted < 0 ? 2 : 1;
}

/* Fails because the size from the name or the configuration does not match the positions. */
static bool refuse_size(const resolver *m, const settings *told, bool is_square_grid, report *r) {
    const double height = told->value[SETTING_IMG_HEIGHT], width = told->value[SETTING_IMG_WIDTH];
    const int patch = m->config->patch_size;
    if (is_square_grid)
        return report_fail(
            r,
            "%s has img_size %.0fx%.0f, but the tensors have %.0fx%.0f (pos_embed has positions "
            "for %d patches of %d); --img-size HxW sets the size",
            told->origin, height, width, pixels_of(m->config, m->stored->grid_height),
            pixels_of(m->config, m->stored->grid_width), m->stored->patch_rows, patch);
    return report_fail(r,
                       "%s has img_size %.0fx%.0f, but pos_embed has %d rows and a patch is %d "
                       "wide",
                       told->origin, height, width, m->stored->position_rows, patch);
}

/* Asks for a setting because the rows of pos_embed are not those of a square grid. Perhaps the grid
 * is not a square, or the table has more rows than there are tokens. */
static bool ask_for_rows(const resolver *m, report *r) {
    const settings_stored *stored = m->stored;
    const int prefix = m->config->num_prefix_tokens, patch = m->config->patch_size;
    char why[160], options[CHOICES_SIZE];
    if (stored->patch_rows > 0 && stored->patch_rows + prefix < stored->position_rows) {
        snprintf(why, sizeof why,
                 "pos_embed has %d rows; the %d tokens of the input may use the first rows",
                 stored->position_rows, stored->patch_rows + prefix);
        return ask_for_lack(m, "pos_first_rows", why, "--set pos_first_rows=1", r);
    }
    snprintf(why, sizeof why,
             "pos_embed has %d rows for %d prefix token%s and the patches, which "
             "do not form a square",
             stored->position_rows, prefix, prefix == 1 ? "" : "s");
    if (stored->position_rows <= prefix) return report_fail(r, "%s", why);
    return ask_for_lack(
        m, "img_size", why,
        choices_of_size(stored->position_rows - prefix, patch, patch_step(m->config), options), r);
}

/* Finds the grid of the positions, and whether the prefix tokens have positions too. The first
 * choice is an input size from the configuration or the name, the second a square grid. The size on
 * the command line comes last, because it may be a size to resample to. */
static bool find_grid(resolver *m, report *r) {
    const settings *told = teller_of_size(m);
    int ways;
    if (gives_size(told)) {
        take_grid(m, told);
        if (grid_explains_rows(m)) return true;
    }
    ways = square_grid(m);
    if (gives_size(told) && !gives_size(&m->all[FROM_OPTIONS]))
        return refuse_size(m, told, ways > 0, r);
    if (ways > 1)
        return ask(m, "positions",
                   "the rows of pos_embed may be those of all tokens or of the "
                   "patches",
                   "--set positions=all|patches", r);
    if (ways == 1) return true;
    take_grid(m, &m->all[FROM_OPTIONS]);
    return grid_explains_rows(m) || ask_for_rows(m, r);
}

/* Resolves positions that are computed from the coordinates of the patches. False if embed_dim does
 * not fit them. */
static bool resolve_sincos(resolver *m, report *r) {
    vit_config *c = m->config;
    const int kind = (int)value_of(m, SETTING_POS_SINCOS);
    m->model->pos_sincos = kind;
    if (kind == SINCOS_NONE) return true;
    if (!sincos_fits(kind, c->embed_dim))
        return report_fail(r, "pos_sincos: expected an embed_dim that %s, found %d",
                           kind < SINCOS_1D ? "is a multiple of 4 and at least 8" : "is even",
                           c->embed_dim);
    c->positions = (int)value_of(m, SETTING_POSITIONS);
    return true;
}

/* Takes the grid of the size that `told` gives. True if the table of relative positions fits this
 * grid: it has a value for each distance within the grid, and three for the class token. */
static bool take_relative_grid(resolver *m, const settings *told) {
    if (!gives_size(told)) return false;
    take_grid(m, told);
    return (2 * (int64_t)m->stored->grid_height - 1) * (2 * (int64_t)m->stored->grid_width - 1) ==
           (int64_t)m->seen->relative_positions - 3;
}

static bool ask_relative_size(const resolver *m, report *r) {
    char why[96];
    snprintf(why, sizeof why, "the %d relative positions are not those of a square",
             m->seen->relative_positions);
    return ask(m, "img_size", why, "--img-size HxW", r);
}

/* Finds the grid of relative positions: that of the configuration or the name if it fits, otherwise
 * a square grid, otherwise that of the command line. Fails if a square grid replaces a given size,
 * unless the command line gives the input size. */
static bool find_relative_grid(resolver *m, report *r) {
    const settings *told = teller_of_size(m);
    const int count = m->seen->relative_positions;
    int side;
    if (take_relative_grid(m, told)) return true;
    if (!choices_is_square(count - 3, &side) || side % 2 == 0)
        return take_relative_grid(m, &m->all[FROM_OPTIONS]) || ask_relative_size(m, r);
    m->stored->grid_height = m->stored->grid_width = (side + 1) / 2;
    return !gives_size(told) || gives_size(&m->all[FROM_OPTIONS]) ||
           report_fail(
               r,
               "%s has img_size %.0fx%.0f, but the %d relative positions are for %.0fx%.0f; "
               "--img-size HxW sets the size",
               told->origin, told->value[SETTING_IMG_HEIGHT], told->value[SETTING_IMG_WIDTH], count,
               pixels_of(m->config, m->stored->grid_height),
               pixels_of(m->config, m->stored->grid_width));
}

/* True if patches may overlap, as in some hand-written code. The stored grid then covers fewer
 * pixels than the same patches side by side. False for damaged sizes whose products would overflow;
 * later checks report such sizes. */
static bool may_overlap(const resolver *m) {
    const vit_config *c = m->config;
    const double most = 65536; /* in pixels */
    return c->patch_size * (double)m->stored->grid_height <= most &&
           c->patch_size * (double)m->stored->grid_width <= most && m->seen->is_open &&
           !is_told(m, SETTING_PATCH_STRIDE) && c->stem == VIT_STEM_NONE &&
           c->patch_cut == VIT_CUT_SQUARES && m->stored->grid_height > 1 &&
           m->stored->grid_width > 1 &&
           !(m->seen->is_timm && arch_has_size(c->embed_dim, c->depth));
}

/* Returns the stride at which overlapping patches turn an input of this size into the stored grid;
 * 0 if there is no such stride. */
static int stride_for(const resolver *m, double height, double width) {
    const settings_stored *stored = m->stored;
    const double patch = m->config->patch_size;
    const double stride = (height - patch) / (stored->grid_height - 1);
    return stride >= 1 && stride < patch && stride <= floor(stride) &&
                   stride * (stored->grid_width - 1) + patch == width
               ? (int)stride
               : 0;
}

/* Lists options such as "--set patch_stride=2 (overlapping, 28x28)" for the strides that belong to
 * square inputs of usual sizes. Returns the number of these strides. */
static int list_strides(const resolver *m, char options[CHOICES_SIZE]) {
    static const int sides[] = { 28, 32, 64, 96, 128, 224, 256, 384 };
    const int patch = m->config->patch_size;
    int count = 0, stride;
    size_t i;
    options[0] = '\0';
    for (i = 0; i < COUNT(sides); i++) {
        stride = stride_for(m, sides[i], sides[i]);
        if (stride == 0) continue;
        text_append(options, CHOICES_SIZE, "%s--set patch_stride=%d (overlapping, %dx%d)",
                    count++ ? " or " : "", stride, sides[i], sides[i]);
    }
    text_append(options, CHOICES_SIZE,
                " or --set patch_stride=%d (side by side, %dx%d) or --img-size HxW", patch,
                patch * m->stored->grid_height, patch * m->stored->grid_width);
    return count;
}

/* Drops an image size that only the options of a training program give, if it does not fit the
 * grid. It may be the size before a crop. */
static void forget_other_size(resolver *m, double height, double width) {
    settings *tensors = &m->all[FROM_TENSORS];
    if (settings_origin(m->all, SETTING_IMG_HEIGHT) != FROM_TENSORS || !m->seen->size_is_hint ||
        (height == pixels_of(m->config, m->stored->grid_height) &&
         width == pixels_of(m->config, m->stored->grid_width)))
        return;
    tensors->given[SETTING_IMG_HEIGHT] = tensors->given[SETTING_IMG_WIDTH] = false;
}

/* Sets the stride that the input size shows. Without this size, asks for the stride if the patches
 * make an unusual size when side by side, but a usual size when they overlap. */
static bool resolve_overlap(resolver *m, report *r) {
    int side;
    double height = 0, width = 0;
    char why[160], options[CHOICES_SIZE];
    const bool has_size = settings_get(m->all, SETTING_IMG_HEIGHT, &height) &&
                          settings_get(m->all, SETTING_IMG_WIDTH, &width);
    if (may_overlap(m) && has_size) {
        m->config->patch_stride = stride_for(m, height, width);
        m->notes->stride_by_size = m->config->patch_stride > 0;
    }
    if (has_size) forget_other_size(m, height, width);
    if (is_told(m, SETTING_IMG_HEIGHT) || !may_overlap(m)) return true;
    side = m->stored->grid_height * m->config->patch_size;
    if (side % 32 == 0 || side == 28 || side == 48 || list_strides(m, options) == 0) return true;
    snprintf(why, sizeof why,
             "%d x %d patches of %d pixels side by side make an input of the unusual size %dx%d",
             m->stored->grid_height, m->stored->grid_width, m->config->patch_size, side,
             m->stored->grid_width * m->config->patch_size);
    return ask(m, "patch_stride", why, options, r);
}

/* Sets the requested input size. If no source gives a size, sets the size of the grid. */
static bool put_img_size(resolver *m, report *r) {
    const double height = pixels_of(m->config, m->stored->grid_height);
    const double width = pixels_of(m->config, m->stored->grid_width);
    return put_field(m, SETTING_IMG_HEIGHT, value_or(m, SETTING_IMG_HEIGHT, height), r) &&
           put_field(m, SETTING_IMG_WIDTH, value_or(m, SETTING_IMG_WIDTH, width), r);
}

/* Resolves the size of a model whose size is shown only by a table of relative positions. */
static bool resolve_relative_size(resolver *m, report *r) {
    m->config->positions = VIT_POS_NONE;
    return find_relative_grid(m, r) && put_img_size(m, r);
}

/* Resolves the size of a model without stored positions. No tensor shows this size. */
static bool resolve_free_size(resolver *m, report *r) {
    vit_config *c = m->config;
    c->img_height = (int)value_of(m, SETTING_IMG_HEIGHT);
    c->img_width = (int)value_of(m, SETTING_IMG_WIDTH);
    if ((c->img_height == 0 || c->img_width == 0) &&
        !ask_for_lack(m, "img_size", "there is no pos_embed to show the input size",
                      "--img-size HxW (where patches overlap, --set patch_stride=N)" NAME_OR_CONFIG,
                      r))
        return false;
    m->stored->grid_height = grid_side(c, c->img_height);
    m->stored->grid_width = grid_side(c, c->img_width);
    c->positions = VIT_POS_NONE;
    return resolve_sincos(m, r);
}

/* Resolves the size of a model that uses only the first rows of pos_embed, which has rows for the
 * longest possible sequence. Only the size of the input shows how many rows are used. */
static bool take_first_rows(resolver *m, report *r) {
    vit_config *c = m->config;
    settings_stored *stored = m->stored;
    double height, width;
    int tokens;
    if (!settings_get(m->all, SETTING_IMG_HEIGHT, &height) ||
        !settings_get(m->all, SETTING_IMG_WIDTH, &width))
        return ask(m, "img_size",
                   "the input size decides how many rows of pos_embed the model uses",
                   "--img-size HxW", r);
    stored->grid_height = grid_side(c, height);
    stored->grid_width = grid_side(c, width);
    stored->patch_rows = stored->grid_height * stored->grid_width;
    c->positions = (int)value_of(m, SETTING_POSITIONS);
    tokens = stored->patch_rows + (c->positions == VIT_POS_ALL ? c->num_prefix_tokens : 0);
    if (tokens > m->seen->position_rows)
        return report_fail(r, "pos_embed has %d rows, but an input of %.0fx%.0f needs %d",
                           m->seen->position_rows, height, width, tokens);
    stored->position_rows = tokens;
    stored->first_rows = tokens < m->seen->position_rows;
    return true;
}

/* Checks that `positions` from the name, the configuration or --set agrees with the rows of
 * pos_embed. */
static bool check_positions(const resolver *m, report *r) {
    const vit_config *c = m->config;
    const double wanted = value_or(m, SETTING_POSITIONS, c->positions);
    char told[32], seen[32];
    if ((int)wanted == c->positions || findings_are_open(m->found)) return true;
    if (c->num_prefix_tokens == 0 && c->positions != VIT_POS_NONE && (int)wanted != VIT_POS_NONE)
        return true; /* all tokens are patches, so both values mean the same */
    return report_fail(r, "%s gives positions=%s, but the %d rows of pos_embed show positions=%s",
                       m->all[settings_origin(m->all, SETTING_POSITIONS)].origin,
                       setting_text(SETTING_POSITIONS, wanted, told), m->stored->position_rows,
                       setting_text(SETTING_POSITIONS, c->positions, seen));
}

/* Resolves the size of the input and the grid of the stored positions. pos_embed shows the number
 * of patches, and a table of relative positions shows the grid. Without either table, a source must
 * give the size. */
static bool resolve_size(resolver *m, report *r) {
    vit_config *c = m->config;
    const int patch = c->patch_size;
    c->num_prefix_tokens = c->has_cls_token + c->has_dist_token + c->num_reg_tokens;
    m->stored->position_rows = m->seen->position_rows;
    if (patch < 1 && findings_has_asked(m->found, "in_chans")) return true;
    if (patch < 1) return ask(m, "patch_size", "nothing shows it", "--set patch_size=N", r);
    if (patch % stride_of(c) != 0)
        return report_fail(r, "patch_size %d is not a multiple of the stem's stride, %d", patch,
                           stride_of(c));
    if (c->patch_stride == patch) c->patch_stride = 0;
    if (c->patch_stride < 0 || c->patch_stride > 1024)
        return report_fail(r, "patch_stride %d is out of range", c->patch_stride);
    if (m->seen->position_rows == 0)
        return (m->seen->relative_positions > 0 ? resolve_relative_size(m, r)
                                                : resolve_free_size(m, r)) &&
               check_positions(m, r);
    if (value_of(m, SETTING_POS_SINCOS) > 0)
        return report_fail(r,
                           "pos_sincos computes positions, but the file has pos_embed with %d "
                           "rows",
                           m->seen->position_rows);
    if (value_of(m, SETTING_POS_FIRST_ROWS) != 0 ? !take_first_rows(m, r)
                                                 : !find_grid(m, r) || !resolve_overlap(m, r))
        return false;
    return check_positions(m, r) && put_img_size(m, r);
}

/* === Rotary positions === */

static bool ask_positions(const resolver *m, report *r) {
    char options[CHOICES_SIZE], sincos[192];
    snprintf(sincos, sizeof sincos, " or --set pos_sincos=WORD (%s)" NAME_OR_CONFIG,
             setting_rows[SETTING_POS_SINCOS].choices);
    return ask_for_lack(m, "positions",
                        "there is no pos_embed, and the tensors show neither rotary nor other "
                        "computed positions",
                        choices_of_words(SETTING_ROPE_TYPE, sincos, options), r);
}

/* Resolves the rotary positions. timm's values are the defaults. */
static bool resolve_rope(resolver *m, report *r) {
    vit_config *c = m->config;
    rope_options *o = &m->model->rope;
    const bool no_positions = m->seen->position_rows == 0 && !c->has_rel_pos;
    if (no_positions && !is_told(m, SETTING_ROPE_TYPE) && !is_told(m, SETTING_POSITIONS) &&
        !is_told(m, SETTING_POS_SINCOS))
        return ask_positions(m, r);
    o->type = (rope_type)value_of(m, SETTING_ROPE_TYPE);
    o->temperature = value_or(m, SETTING_ROPE_TEMPERATURE,
                              o->type == ROPE_CAT || o->type == ROPE_QWEN ? 10000 : 100);
    o->indexing = (rope_indexing)value_of(m, SETTING_ROPE_INDEXING);
    o->offset = value_of(m, SETTING_ROPE_OFFSET);
    o->reference = (int)value_of(m, SETTING_ROPE_REFERENCE);
    if (!(o->temperature > 0))
        return report_fail(r, "rope_temperature %.9g is not above 0", o->temperature);
    c->rope = (int)rope_layout(o->type);
    c->rope_per_block = o->type == ROPE_MIXED;
    if (c->rope && c->head_dim % 4 != 0 && !findings_has_asked(m->found, "num_heads"))
        return report_fail(r, "head_dim %d: rotary positions need a multiple of 4", c->head_dim);
    return true;
}

/* === Options that no tensor shows ===
 * For plain ViTs, such as those of Google, DeiT, DINO and MAE, timm's defaults are assumed. For all
 * other models a source must give these options. */

/* True if the tensors have timm's names, but timm has no model of this size. Anybody may have
 * written the code of such a model. False if the model has a feature of the published BEiT, DINOv2
 * or DeiT-3. */
static bool is_near_copy(const resolver *m) {
    const vit_config *c = m->config;
    if (c->has_rel_pos || c->has_layer_scale || c->num_reg_tokens) return false;
    return m->seen->is_timm && !m->all[FROM_NAME].given[SETTING_BLOCK_TYPE] &&
           m->all[FROM_CONFIG].mean_count == 0 && !arch_has_size(c->embed_dim, c->depth);
}

static bool resolve_norm(resolver *m, report *r) {
    vit_config *c = m->config;
    const bool is_plain = !c->has_pre_norm && c->norm_type != VIT_RMS_NORM && !c->has_attn_norm &&
                          !c->has_mlp_norm;
    if (!is_told(m, SETTING_NORM_TYPE) &&
        !ask_for_lack(m, "norm_type",
                      "the norms have no bias, so they are RMS norms or norms that vit.h lacks",
                      "--set norm_type=rms" NAME_OR_CONFIG, r))
        return false;
    m->notes->eps_by_size = !is_told(m, SETTING_NORM_EPS) && is_plain && is_near_copy(m);
    if (m->notes->eps_by_size) c->norm_eps = 1e-5f;
    return is_told(m, SETTING_NORM_EPS) || is_plain ||
           ask(m, "norm_eps", "cannot be seen in the tensors",
               "--set norm_eps=N (CLIP, AIMv2, "
               "BEiT-3: 1e-5; most others: 1e-6)" NAME_OR_CONFIG,
               r);
}

static bool resolve_activation(resolver *m, report *r) {
    const vit_config *c = m->config;
    char options[CHOICES_SIZE];
    if (is_told(m, SETTING_ACTIVATION) &&
        !(m->seen->activation_doubt && m->seen->by_default[SETTING_ACTIVATION]))
        return true;
    if (c->mlp_dim == 0 && c->pool != VIT_POOL_MAP) return true; /* the model has no activation */
    if (m->seen->activation_doubt)
        return ask(m, "activation", m->seen->activation_doubt,
                   choices_of_words(SETTING_ACTIVATION, "", options), r);
    if (c->has_gated_mlp)
        return ask(m, "activation",
                   "mlp.fc1 is twice as wide as mlp.fc2: a gated MLP, whose "
                   "activation cannot be seen in the tensors",
                   "--set activation=silu (SwiGLU, "
                   "gate first)" NAME_OR_CONFIG,
                   r);
    choices_of_words(SETTING_ACTIVATION, NAME_OR_CONFIG, options);
    if (c->has_pre_norm || c->pool == VIT_POOL_MAP)
        return ask(m, "activation", "cannot be seen in the tensors", options, r);
    return c->has_cls_token ||
           ask_for_lack(m, "activation", "cannot be seen in the tensors", options, r);
}

/* Asks for the pooling if the name and the tensors disagree about a norm after the pooling. This
 * shows that the model's head was changed, so its pooling may differ from that of the name. */
static bool check_pool(const resolver *m, report *r) {
    const vit_config *c = m->config;
    const settings *name = &m->all[FROM_NAME];
    char why[256], options[CHOICES_SIZE];
    if (settings_origin(m->all, SETTING_POOL) != FROM_NAME) return true;
    if ((name->value[SETTING_FC_NORM] != 0) == (c->has_fc_norm != 0)) return true;
    snprintf(why, sizeof why,
             "%.100s has %s norm after the pool, but the tensors have %s: the head "
             "was changed",
             name->origin, c->has_fc_norm ? "no" : "a", c->has_fc_norm ? "one" : "none");
    return ask(m, "pool", why, choices_of_words(SETTING_POOL, " or --config FILE", options), r);
}

static bool resolve_pool(resolver *m, report *r) {
    vit_config *c = m->config;
    if (c->pool_mlp_dim == c->mlp_dim || c->pool != VIT_POOL_MAP) c->pool_mlp_dim = 0;
    if (c->pool != VIT_POOL_MAP) c->pool_num_heads = 0;
    if (is_told(m, SETTING_POOL) && c->pool == VIT_POOL_TOKEN && !c->has_cls_token)
        return report_fail(r, "pool=token reads the class token, but there is none; give --set "
                              "pool=avg, --set pool=max or --set pool=avgmax");
    if (is_told(m, SETTING_POOL)) return check_pool(m, r);
    if (!c->has_cls_token)
        return ask_for_lack(m, "pool",
                            "there is no class token, and the tensors do not show how the "
                            "patches are pooled",
                            "--set pool=avg|max|avgmax" NAME_OR_CONFIG, r);
    return !c->has_fc_norm ||
           ask(m, "pool",
               "fc_norm exists, so the head may read an average, but the tensors do not show the "
               "pooling",
               "--set pool=avg|token|max|avgmax" NAME_OR_CONFIG, r);
}

/* Drops the library's default mean and std if they are for another number of channels. */
static void forget_colours(resolver *m) {
    settings *s = &m->all[FROM_TENSORS];
    const int chans = m->stored->chans;
    if (m->seen->mean_by_default && s->mean_count > 1 && s->mean_count != chans) s->mean_count = 0;
    if (m->seen->std_by_default && s->std_count > 1 && s->std_count != chans) s->std_count = 0;
}

/* === Resolving all settings === */

static bool adapt_patches(resolver *m, report *r) {
    vit_config *c = m->config;
    m->stored->chans = c->in_chans;
    m->stored->patch = c->patch_size;
    if (!patch_request_apply(m->wanted, c, r)) return false;
    m->notes->patches_adapted = c->in_chans != m->stored->chans ||
                                c->patch_size != m->stored->patch;
    return true;
}

/* Resolves how positions are resampled. Only a file with a variable input size stores the
 * method. */
static bool resolve_resampling(resolver *m, report *r) {
    vit_config *c = m->config;
    const vit_pos_resample how = (vit_pos_resample)value_of(m, SETTING_POS_RESAMPLE);
    char word[32];
    m->notes->pos_resample = how;
    m->notes->positions_resampled = (m->stored->position_rows > 0 || c->has_rel_pos) &&
                                    (c->grid_height != m->stored->grid_height ||
                                     c->grid_width != m->stored->grid_width);
    if (c->dynamic_img_size) c->pos_resample = (int)how;
    if (m->notes->positions_resampled && c->patch_cut != VIT_CUT_SQUARES)
        return report_fail(r,
                           "the positions are for %dx%d patches, but the input has %dx%d; "
                           "patch_cut=%s requires the same numbers",
                           m->stored->grid_height, m->stored->grid_width, c->grid_height,
                           c->grid_width, setting_text(SETTING_PATCH_CUT, c->patch_cut, word));
    return !c->has_rel_pos || !(m->notes->positions_resampled || c->dynamic_img_size) ||
           how == VIT_RESAMPLE_TIMM || how == VIT_RESAMPLE_TRANSFORMERS ||
           report_fail(r,
                       "pos_resample=%s: relative positions can be resampled only as in timm "
                       "or transformers",
                       setting_text(SETTING_POS_RESAMPLE, (int)how, word));
}

static void start(resolver *m, const settings all[FROM_COUNT], const settings_seen *seen,
                  const patch_request *wanted, settings_resolved *model, findings *f) {
    memset(model, 0, sizeof *model);
    memcpy(m->all, all, sizeof m->all);
    m->seen = seen;
    m->wanted = wanted;
    m->model = model;
    m->config = &model->config;
    m->stored = &model->stored;
    m->notes = &model->notes;
    m->found = f;
}

static void merge_equivalents(resolver *m) {
    expand_ratio(m);
    forget_other_width(m);
    fill_mlp_dim(m);
    expand_patch(m);
}

/* Each step uses members of `config` that the previous steps have set, so the order of the steps
 * matters. */
bool settings_resolve(const settings all[FROM_COUNT], const settings_seen *seen,
                      const patch_request *wanted, settings_resolved *model, findings *f,
                      report *r) {
    char detail[VIT_MAX_DETAIL];
    resolver resolving, *m = &resolving;
    start(m, all, seen, wanted, model, f);
    if (!resolve_flat_patch(m, r)) return false;
    merge_equivalents(m);
    if (!check_contradictions(m, r) || !copy_fields(m, r)) return false;
    if (m->config->representation_dim == 0) m->config->representation_act = 0;
    if (m->config->merge_size == 0)
        m->config->merge_dim = m->config->merge_mlp_dim = m->config->merge_norm =
            m->config->merge_act = 0;
    if (m->config->num_classes == 0 && settings_origin(all, SETTING_HEAD_ACTIVATION) == FROM_CONFIG)
        /* config.json may give an activation for a head that is missing */
        m->config->head_activation = 0;
    m->config->has_final_norm = shown_of(m, SETTING_FINAL_NORM) != 0;
    m->config->has_fc_norm = shown_of(m, SETTING_FC_NORM) != 0;
    if (!resolve_pool(m, r) || !resolve_norm(m, r) || !resolve_activation(m, r) ||
        !resolve_heads(m, r) || !resolve_size(m, r) || !resolve_rope(m, r) || !adapt_patches(m, r))
        return false;
    forget_colours(m);
    if (!preprocessing_resolve(m->all, m->stored->chans, m->config, r)) return false;
    if (findings_are_open(f)) return true;
    if (vit_config_check(m->config, detail) != VIT_OK) return report_fail(r, "%s", detail);
    return resolve_resampling(m, r);
}

bool settings_resolve_all(const settings all[FROM_COUNT], const settings_seen *seen,
                          const patch_request *wanted, settings_resolved *model, report *r) {
    findings open = { 0 };
    const bool good = settings_resolve(all, seen, wanted, model, &open, r) &&
                      (!findings_are_open(&open) || findings_refuse(&open, false, r));
    findings_free(&open);
    return good;
}

int settings_contradictions(const settings all[FROM_COUNT], const settings_seen *seen,
                            const patch_request *wanted, setting_key *first) {
    settings_resolved model;
    findings open = { 0 };
    report ignored = report_make();
    resolver m;
    int count, key;
    start(&m, all, seen, wanted, &model, &open);
    *first = SETTING_PATCH_SIZE;
    count = !resolve_flat_patch(&m, &ignored);
    merge_equivalents(&m);
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!(setting_rows[key].sources & SETTING_IS_CHECKED) ||
            check_contradiction(&m, (setting_key)key, &ignored))
            continue;
        if (count++ == 0) *first = (setting_key)key;
    }
    findings_free(&open);
    return count;
}
