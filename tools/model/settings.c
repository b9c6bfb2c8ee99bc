#include "model/settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "base/text.h"
#include "model/positions.h"

/* === The table === */

/* These macros check the rules of setting_list.h at compile time. If a rule is violated, an array
 * below has a negative size, and the compiler's error names this array. */

/* Checks that the words of a setting are in the order of their enum. */
#define PLACE(value, word, phrase) PLACE_OF_##value,
#define IN_ORDER(value, word, phrase)                                                              \
    typedef char value##_is_out_of_order[(int)PLACE_OF_##value == (int)value ? 1 : -1];
#define WORD_ROW(value, word, phrase) { word, phrase },

#define WORDS_INTEGER(key)
#define WORDS_NUMBER(key)
#define WORDS_FLAG(shown_by, phrase) WORDS_INTEGER
#define WORDS_WORD(key)                                                                            \
    enum { WORDS_OF_##key(PLACE) PLACES_OF_##key };                                                \
    WORDS_OF_##key(IN_ORDER) static const setting_word words_of_##key[] = { WORDS_OF_##key(        \
        WORD_ROW){ NULL, NULL } };

#define X(key, name, kind, field, plain, sources, help) WORDS_##kind(key)
SETTING_LIST(X)
#undef X

/* Checks that a field of vit_config has the type that belongs to the kind of its setting. Also
 * checks that there is a word for each value within the bounds of the field. */
#define IS_FLOAT_int   0
#define IS_FLOAT_float 1
enum {
#define X(type, name, required, smallest, largest)                                                 \
    LARGEST_##name = (int)(largest), FLOAT_##name = IS_FLOAT_##type,
    VIT_FIELD_LIST(X)
#undef X
        FIELDS_END
};

#define CHECK_INTEGER(key, name)     typedef char key##_is_another_type[FLOAT_##name ? -1 : 1];
#define CHECK_NUMBER(key, name)      typedef char key##_is_another_type[FLOAT_##name ? 1 : -1];
#define CHECK_FLAG(shown_by, phrase) CHECK_INTEGER
#define CHECK_WORD(key, name)                                                                      \
    CHECK_INTEGER(key, name)                                                                       \
    typedef char key##_lacks_words[(int)LARGEST_##name + 1 == (int)PLACES_OF_##key ? 1 : -1];
#define CHECK_NO_FIELD(kind, key, name)
#define CHECK_COPIED(kind, key, name)     CHECK_##kind(key, name)
#define CHECK_WORKED_OUT(kind, key, name) CHECK_##kind(key, name)

#define X(key, name, kind, field, plain, sources, help) CHECK_##field(kind, key, name)
SETTING_LIST(X)
#undef X

#define SPACE_WORD(value, word, phrase) " " word
#define KIND_INTEGER(key)               SETTING_INTEGER, NULL, NULL, NULL, NULL
#define KIND_NUMBER(key)                SETTING_NUMBER, NULL, NULL, NULL, NULL
#define KIND_WORD(key)                  SETTING_WORD, NULL, NULL, &(WORDS_OF_##key(SPACE_WORD))[1], words_of_##key
#define KIND_FLAG(shown_by, phrase)     SETTING_FLAG, shown_by, phrase, NULL, NULL KIND_END
#define KIND_END(key)
#define OFFSET_NO_FIELD(name)   0
#define OFFSET_COPIED(name)     offsetof(vit_config, name)
#define OFFSET_WORKED_OUT(name) offsetof(vit_config, name)

const setting_row setting_rows[SETTING_COUNT] = {
#define X(key, name, kind, field, plain, sources, help)                                            \
    { #name,           help, SETTING_##field, OFFSET_##field(name), plain, SETTING_IS_##sources,   \
      KIND_##kind(key) },
    SETTING_LIST(X)
#undef X
};

/* Other names of the settings, in timm and other libraries. */
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
    { "rope_theta", SETTING_ROPE_TEMPERATURE },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void settings_start(settings *s, const char *origin) {
    memset(s, 0, sizeof *s);
    s->origin = origin;
}

void settings_put(settings *s, setting_key key, double value) {
    s->given[key] = true;
    s->value[key] = value;
}

/* === KEY=VALUE === */

/* Other libraries' names for words of vit.h, in lower case. */
static const struct {
    setting_key key;
    const char *theirs, *word;
} word_aliases[] = {
    { SETTING_POOL, "cls", "token" },
    { SETTING_POOL, "cls_token", "token" },
    { SETTING_POOL, "class_token", "token" },
    { SETTING_POOL, "mean", "avg" },
    { SETTING_POOL, "average", "avg" },
    { SETTING_POOL, "gap", "avg" },
    { SETTING_BLOCK_TYPE, "pre", "pre_norm" },
    { SETTING_BLOCK_TYPE, "prenorm", "pre_norm" },
    { SETTING_BLOCK_TYPE, "post", "post_norm" },
    { SETTING_BLOCK_TYPE, "postnorm", "post_norm" },
    { SETTING_ACTIVATION, "swish", "silu" },
    { SETTING_ACTIVATION, "quickgelu", "quick_gelu" },
    { SETTING_ACTIVATION, "gelu_python", "gelu" },
    { SETTING_ACTIVATION, "gelutanh", "gelu_tanh" },
    { SETTING_ACTIVATION, "gelu_new", "gelu_tanh" },
    { SETTING_ACTIVATION, "tanh_gelu", "gelu_tanh" },
    { SETTING_ACTIVATION, "gelu_fast", "gelu_tanh" },
    { SETTING_ACTIVATION, "gelu_accurate", "gelu_tanh" },
    { SETTING_ACTIVATION, "gelu_pytorch_tanh", "gelu_tanh" },
    { SETTING_NORM_TYPE, "layernorm", "layer" },
    { SETTING_NORM_TYPE, "rmsnorm", "rms" },
    { SETTING_REPRESENTATION_ACTIVATION, "identity", "none" },
};

/* Copies a word in lower case, with '_' in place of '-' and without "nn." at its beginning. */
static void plain_word(const char *word, char plain[64]) {
    size_t i;
    if (!strncmp(word, "nn.", 3)) word += 3;
    for (i = 0; word[i] && i + 1 < 64; i++) {
        plain[i] = word[i];
        if (word[i] >= 'A' && word[i] <= 'Z') plain[i] = (char)(word[i] - 'A' + 'a');
        if (word[i] == '-') plain[i] = '_';
    }
    plain[i] = '\0';
}

int setting_find_word(setting_key key, const char *word) {
    const setting_word *words = setting_rows[key].words;
    int place = 0;
    for (; words[place].word; place++)
        if (!strcmp(words[place].word, word)) return place;
    return -1;
}

int setting_find_any_word(setting_key key, const char *text) {
    char plain[64];
    size_t i;
    plain_word(text, plain);
    for (i = 0; i < COUNT(word_aliases); i++)
        if (word_aliases[i].key == key && !strcmp(word_aliases[i].theirs, plain))
            return setting_find_word(key, word_aliases[i].word);
    return setting_find_word(key, plain);
}

static bool setting_find(const char *text, setting_key *key) {
    char name[64];
    size_t i;
    plain_word(text, name);
    for (i = 0; i < SETTING_COUNT; i++) {
        *key = (setting_key)i;
        if (!strcmp(name, setting_rows[i].name)) return true;
    }
    for (i = 0; i < COUNT(aliases); i++) {
        *key = aliases[i].key;
        if (!strcmp(name, aliases[i].name)) return true;
    }
    return false;
}

/* Returns the name of the setting that has the longest beginning in common with this text. NULL if
 * this beginning has fewer than four letters. */
static const char *nearest_setting(const char *text) {
    const char *nearest = NULL;
    size_t most = 3, i, length;
    char name[64];
    plain_word(text, name);
    for (i = 0; i < SETTING_COUNT; i++) {
        for (length = 0; name[length] && name[length] == setting_rows[i].name[length];) length++;
        if (length > most) nearest = setting_rows[i].name;
        if (length > most) most = length;
    }
    return nearest;
}

static bool parse_value(settings *s, setting_key key, const char *text, report *r) {
    const char *name = setting_rows[key].name;
    double number = 0;
    long integer = 0;
    int word;
    switch (setting_rows[key].kind) {
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
    default: /* the kind is SETTING_WORD */
        word = setting_find_any_word(key, text);
        if (word < 0)
            return report_fail(r, "%s %s: expected one of %s, found \"%s\"", s->origin, name,
                               setting_rows[key].choices, text);
        settings_put(s, key, word);
        return true;
    }
}

/* Reads numbers with commas between them. A single number stands for every channel. */
static bool parse_vector(const settings *s, const char *name, const char *text,
                         double values[VIT_MAX_CHANS], int *count, report *r) {
    *count = 0;
    for (;;) {
        char number[64];
        size_t length = strcspn(text, ",");
        if (*count == VIT_MAX_CHANS)
            return report_fail(r, "%s %s: more than %d values", s->origin, name, VIT_MAX_CHANS);
        snprintf(number, sizeof number, "%.*s", (int)length, text);
        if (length >= sizeof number || !text_read_number(number, -1e30, 1e30, &values[*count]))
            return report_fail(r, "%s %s: expected numbers between commas, found \"%s\"", s->origin,
                               name, text);
        ++*count;
        if (!text[length]) return true;
        text += length + 1;
    }
}

bool settings_parse_size(settings *s, const char *text, report *r) {
    int size[2];
    if (!text_read_size(text, 1, INT_MAX, size))
        return report_fail(r, "%s img_size: expected N or HxW pixels, found \"%s\"", s->origin,
                           text);
    settings_put(s, SETTING_IMG_HEIGHT, size[0]);
    settings_put(s, SETTING_IMG_WIDTH, size[1]);
    return true;
}

bool settings_parse(settings *s, const char *assignment, report *r) {
    const char *equals = strchr(assignment, '=');
    char name[64];
    setting_key key;
    if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof name)
        return report_fail(r, "%s: expected KEY=VALUE, found \"%s\"", s->origin, assignment);
    memcpy(name, assignment, (size_t)(equals - assignment));
    name[equals - assignment] = '\0';
    if (!strcmp(name, "img_size")) return settings_parse_size(s, equals + 1, r);
    if (!strcmp(name, "mean")) return parse_vector(s, name, equals + 1, s->mean, &s->mean_count, r);
    if (!strcmp(name, "std")) return parse_vector(s, name, equals + 1, s->std, &s->std_count, r);
    if (!setting_find(name, &key)) {
        const char *nearest = nearest_setting(name);
        return report_fail(r, "%s: there is no setting \"%s\"%s%s (--help lists them)", s->origin,
                           name, nearest ? "; nearest: " : "", nearest ? nearest : "");
    }
    return parse_value(s, key, equals + 1, r);
}

/* === Precedence === */

int settings_origin(const settings all[FROM_COUNT], setting_key key) {
    int from = FROM_COUNT - 1;
    while (from >= 0 && !all[from].given[key]) from--;
    return from;
}

bool settings_get(const settings all[FROM_COUNT], setting_key key, double *value) {
    int from = settings_origin(all, key);
    if (from >= 0) *value = all[from].value[key];
    return from >= 0;
}

const char *setting_text(setting_key key, double value, char text[32]) {
    const setting_word *words = setting_rows[key].words;
    if (words) return words[(int)value].word;
    snprintf(text, 32, "%.9g", value);
    return text;
}

/* === Fields of vit_config === */

/* The field of a NUMBER in vit_config is a float, and the field of any other kind is an int. The
 * macros above check this. */
double setting_get_field(setting_key key, const vit_config *config) {
    const char *at = (const char *)config + setting_rows[key].offset;
    float number;
    int integer;
    memcpy(&number, at, sizeof number);
    memcpy(&integer, at, sizeof integer);
    return setting_rows[key].kind == SETTING_NUMBER ? (double)number : integer;
}

void setting_put_field(setting_key key, double value, vit_config *config) {
    char *at = (char *)config + setting_rows[key].offset;
    const float number = (float)value;
    if (setting_rows[key].kind == SETTING_NUMBER) {
        memcpy(at, &number, sizeof number);
    } else {
        const int integer = setting_rows[key].kind == SETTING_FLAG ? value != 0 : (int)value;
        memcpy(at, &integer, sizeof integer);
    }
}

bool setting_put_whole(setting_key key, double value, vit_config *config, report *r) {
    const setting_row *row = &setting_rows[key];
    if (row->kind == SETTING_INTEGER && !(value >= 0 && value <= INT_MAX))
        return report_fail(r, "%s %.9g is out of range", row->name, value);
    setting_put_field(key, value, config);
    return true;
}

void settings_from_config(settings *s, const vit_config *config) {
    int key;
    for (key = 0; key < SETTING_COUNT; key++)
        if (setting_rows[key].sources & SETTING_IS_NAMED)
            settings_put(s, (setting_key)key, setting_get_field((setting_key)key, config));
    /* 0 is timm's method. It is not put into *s, so that a layout can set its own method. */
    if (config->pos_resample) settings_put(s, SETTING_POS_RESAMPLE, config->pos_resample);
}

void settings_from_rope(settings *s, const rope_options *rope) {
    settings_put(s, SETTING_ROPE_TYPE, rope->type);
    if (rope->type == ROPE_NONE) return;
    settings_put(s, SETTING_ROPE_TEMPERATURE, rope->temperature);
    settings_put(s, SETTING_ROPE_INDEXING, rope->indexing);
    settings_put(s, SETTING_ROPE_OFFSET, rope->offset);
    settings_put(s, SETTING_ROPE_REFERENCE, rope->reference);
}

/* === Choices === */

/* WIDEST is the largest ratio of the two sides of an input */
enum { MAX_CHOICES = 12, WIDEST = 8 };

/* Appends a list of numbers, such as " (1, 2 or 4)". */
static void append_numbers(char text[CHOICES_SIZE], const int *numbers, int count) {
    int i;
    for (i = 0; i < count; i++)
        text_append(text, CHOICES_SIZE, "%s%d%s",
                    i == 0          ? " ("
                    : i + 1 < count ? ", "
                                    : " or ",
                    numbers[i], i + 1 < count ? "" : ")");
}

const char *choices_of_words(setting_key key, const char *others, char text[CHOICES_SIZE]) {
    const setting_word *word = setting_rows[key].words;
    snprintf(text, CHOICES_SIZE, "--set %s=", setting_rows[key].name);
    for (; word->word; word++)
        text_append(text, CHOICES_SIZE, "%s%s", word->word, word[1].word ? "|" : "");
    text_append(text, CHOICES_SIZE, "%s", others);
    return text;
}

const char *choices_of_heads(int64_t width, const char *others, char text[CHOICES_SIZE]) {
    /* the smallest usual head_dim at this width */
    const int64_t narrowest = width < 8 ? 1 : width < 64 ? 2 : 8;
    int numbers[MAX_CHOICES], count = 0, heads;
    for (heads = 1; heads <= 64 && count < MAX_CHOICES; heads++)
        if (width % heads == 0 && width / heads >= narrowest) numbers[count++] = heads;
    snprintf(text, CHOICES_SIZE, "--set num_heads=N");
    append_numbers(text, numbers, count);
    text_append(text, CHOICES_SIZE, "%s", others);
    return text;
}

const char *choices_of_chans(int64_t values, char text[CHOICES_SIZE]) {
    int numbers[MAX_CHOICES], count = 0, chans, side;
    for (chans = 1; chans <= VIT_MAX_CHANS && count < MAX_CHOICES; chans++)
        if (values % chans == 0 && choices_is_square(values / chans, &side))
            numbers[count++] = chans;
    snprintf(text, CHOICES_SIZE, "--set in_chans=N");
    append_numbers(text, numbers, count);
    return text;
}

const char *choices_of_size(int patches, int patch_size, int stride, char text[CHOICES_SIZE]) {
    int height, count = 0;
    snprintf(text, CHOICES_SIZE, "--img-size HxW");
    for (height = 1; height <= patches && count < MAX_CHOICES; height++) {
        const int width = patches / height;
        if (patches % height || height / WIDEST > width || width / WIDEST > height) continue;
        text_append(text, CHOICES_SIZE, "%s%lldx%lld", count++ ? ", " : " (",
                    (long long)(height - 1) * stride + patch_size,
                    (long long)(width - 1) * stride + patch_size);
    }
    text_append(text, CHOICES_SIZE, "%s", count ? ")" : "");
    return text;
}

bool choices_is_square(int64_t n, int *side) {
    *side = n > 0 && n < INT_MAX ? (int)(sqrt((double)n) + 0.5) : 0;
    return *side > 0 && (int64_t)*side * *side == n;
}

/* === Preprocessing === */

/* Returns the mean or std of a new channel: the average over the checkpoint's channels if the model
 * gets a single channel, otherwise that of the channel whose weights the new channel copies. */
static double adapted_value(const double *values, int count, int chans, int channel) {
    double sum = 0;
    int i;
    if (chans > 1) return values[channel % count];
    for (i = 0; i < count; i++) sum += values[i];
    return sum / count;
}

/* Sets mean or std for each channel of the .vit file. The values may be given for the channels of
 * the file, for those of the checkpoint, or as one value for all channels. A name has values for
 * three channels; if these are equal, they are used for any number of channels. */
static bool resolve_vector(const settings all[FROM_COUNT], bool is_std, int stored_chans, int chans,
                           float *out, report *r) {
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
    if (count != chans && count != stored_chans && count != 1 && !(equal && from == FROM_NAME))
        return report_fail(r, "%s gives %d values of %s for in_chans %d; give --set %s=...",
                           all[from].origin, count, name, chans, name);
    for (i = 0; i < chans; i++) {
        double value = values[0];
        if (count == chans) value = values[i];
        else if (count == stored_chans) value = adapted_value(values, count, chans, i);
        if (is_std && !(value > 0))
            return report_fail(r, "%s std %.9g is not above 0", all[from].origin, value);
        out[i] = (float)value;
    }
    return true;
}

/* Returns the crop_pct to store in the file, or 0; with 0, vit_model_resize changes the size before
 * the crop in proportion to the input size. A crop_pct is stored if the input size is variable, no
 * source gives the size before the crop, and the crop_pct has at most 6 decimals, as timm's do. */
static float kept_crop_pct(const settings all[FROM_COUNT], const vit_config *c, double crop_pct) {
    const bool told = settings_origin(all, SETTING_RESIZE_HEIGHT) >= 0 ||
                      settings_origin(all, SETTING_RESIZE_WIDTH) >= 0;
    const bool is_short = fabs(floor(crop_pct * 1e6 + 0.5) / 1e6 - crop_pct) < 1e-9;
    return c->dynamic_img_size && !told && is_short ? (float)crop_pct : 0;
}

/* Computes the height and width before the crop for crop_mode=aspect. Their product is the largest
 * area that the patches of a photo may have. */
static bool resolve_area(const settings all[FROM_COUNT], vit_config *c, double *height,
                         double *width, report *r) {
    enum { MOST = 32768 }; /* the largest resize_height and resize_width */
    double most = 0;
    int sides[2];
    settings_get(all, SETTING_MAX_PATCHES, &most);
    if (c->crop_mode != VIT_CROP_ASPECT)
        return !all[FROM_OPTIONS].given[SETTING_MAX_PATCHES] ||
               report_fail(r, "max_patches %g needs crop_mode=aspect", most);
    if (c->crop_rounding == VIT_ROUND_NEAREST)
        return most == 0 || report_fail(r,
                                        "max_patches %g: crop_rounding=nearest does not limit the "
                                        "number of patches; give --set crop_rounding=even",
                                        most);
    c->crop_pct = 1;
    *height = c->img_height;
    *width = c->img_width;
    if (most == 0) return true;
    if (!(most >= 1 && most <= 1 << 20 && most == floor(most)))
        return report_fail(r, "max_patches %g: expected 1 to %d", most, 1 << 20);
    tensor_split((int)most, sides);
    if (sides[1] > MOST / c->patch_size)
        return report_fail(r,
                           "max_patches %d: expected a product of two numbers, at most %d "
                           "patches along each side",
                           (int)most, MOST / c->patch_size);
    *height = sides[0] * c->patch_size;
    *width = sides[1] * c->patch_size;
    return true;
}

bool preprocessing_resolve(const settings all[FROM_COUNT], int stored_chans, vit_config *c,
                           report *r) {
    double crop_pct = setting_rows[SETTING_CROP_PCT].plain, height, width;
    settings_get(all, SETTING_CROP_PCT, &crop_pct);
    if (!(crop_pct > 0 && crop_pct <= 4))
        return report_fail(r, "crop_pct %.9g is not in (0, 4]", crop_pct);
    height = floor(c->img_height / crop_pct);
    width = floor(c->img_width / crop_pct);
    settings_get(all, SETTING_RESIZE_HEIGHT, &height);
    settings_get(all, SETTING_RESIZE_WIDTH, &width);
    c->crop_pct = kept_crop_pct(all, c, crop_pct);
    if (!resolve_area(all, c, &height, &width, r)) return false;
    return setting_put_whole(SETTING_RESIZE_HEIGHT, height, c, r) &&
           setting_put_whole(SETTING_RESIZE_WIDTH, width, c, r) &&
           resolve_vector(all, false, stored_chans, c->in_chans, c->mean, r) &&
           resolve_vector(all, true, stored_chans, c->in_chans, c->std, r);
}

/* === Another patch embedding === */

/* Checks that the patch embedding can be changed as requested. The patches of the checkpoint must
 * be squares; if their size changes, they must also lie side by side. */
static bool check_cut(const vit_config *c, int chans, int patch, report *r) {
    const char *option = patch != c->patch_size ? "--patch-size" : "--in-chans";
    char word[32];
    if (chans == c->in_chans && patch == c->patch_size) return true;
    if (c->patch_cut != VIT_CUT_SQUARES)
        return report_fail(r,
                           "%s: expected patches that are squares of the input, found "
                           "patch_cut=%s",
                           option, setting_text(SETTING_PATCH_CUT, c->patch_cut, word));
    if (patch != c->patch_size && c->patch_stride)
        return report_fail(r, "--patch-size: expected patches side by side, found patch_stride=%d",
                           c->patch_stride);
    if (c->has_patch_pre_norm || (c->stem && patch != c->patch_size))
        return report_fail(r,
                           "%s: expected patches cut from the input itself, found %s before them",
                           option, c->stem ? "a convolutional stem" : "a norm");
    return true;
}

bool patch_request_apply(const patch_request *wanted, vit_config *c, report *r) {
    const int chans = wanted->chans ? wanted->chans : c->in_chans;
    const int patch = wanted->patch ? wanted->patch : c->patch_size;
    if (!check_cut(c, chans, patch, r)) return false;
    if (chans != c->in_chans && c->in_chans != 3)
        return report_fail(r, "--in-chans %d: expected a checkpoint of 3 channels, found %d", chans,
                           c->in_chans);
    if (chans > VIT_MAX_CHANS || patch > 1024 || c->patch_size > 1024)
        return report_fail(r, "in_chans or patch_size is out of range");
    c->in_chans = chans;
    c->patch_size = patch;
    return true;
}
