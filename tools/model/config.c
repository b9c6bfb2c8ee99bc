#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "model/timm_names.h"

/* === Values === */

enum { CONFIG_MAX_FILE = 64 * 1024 * 1024 };

bool config_read_text(const char *path, char **text, size_t *size, report *r) {
    source file;
    bool good;
    *text = NULL;
    if (!source_open_file(&file, path, r)) return false;
    *size = (size_t)file.size;
    good = file.size <= CONFIG_MAX_FILE || report_fail(r, "too large for a configuration");
    if (good) *text = malloc(*size + 1);
    if (good) good = *text ? source_read(&file, 0, *text, *size, r) : report_no_memory(r);
    source_close(&file);
    return good;
}

bool config_is_null(const json_value *value) { return !value || value->kind == JSON_NULL; }

bool config_is_size(const json_value *value) {
    const int64_t size = json_integer(value, 0);
    return size >= 1 && size <= 1 << 20;
}

bool config_put_size(settings *s, setting_key setting, const json_value *object, const char *key,
                     report *r) {
    const json_value *value = json_get(object, key);
    if (config_is_null(value)) return true;
    if (!config_is_size(value)) return report_fail(r, "%s: expected a whole number", key);
    settings_put(s, setting, json_number(value, 0));
    return true;
}

/* === open_clip's configuration === */

bool config_open_clip_is(const json_value *root) {
    const json_value *model = json_get(root, "model_cfg");
    return model && json_get(model, "vision_cfg");
}

/* Reads the input size: one number, or height and width. */
static bool put_size(settings *s, const json_value *value, report *r) {
    const json_value *first = value && value->kind == JSON_ARRAY ? json_first(value) : value;
    const json_value *second = value && value->kind == JSON_ARRAY ? json_at(value, 1) : value;
    if (!value || value->kind == JSON_NULL) return true;
    if (!config_is_size(first) || !config_is_size(second))
        return report_fail(r, "image_size: expected n or [height, width]");
    settings_put(s, SETTING_IMG_HEIGHT, json_number(first, 0));
    settings_put(s, SETTING_IMG_WIDTH, json_number(second, 0));
    return true;
}

/* Sets the activation. If the file names no other activation, the activation is GELU in its erf
 * form. */
static void put_activation(settings *s, const json_value *model, const json_value *vision) {
    const char *approximate = json_string(json_get(json_get(vision, "act_kwargs"), "approximate"),
                                          "none");
    vit_activation activation = strcmp(approximate, "tanh") ? VIT_GELU : VIT_GELU_TANH;
    if (json_bool(json_get(model, "quick_gelu"), false)) activation = VIT_QUICK_GELU;
    settings_put(s, SETTING_ACTIVATION, activation);
}

static bool put_vision(settings *s, const json_value *model, const json_value *vision, report *r) {
    const char *pool = json_string(json_get(vision, "pool_type"), "tok");
    const json_value *eps = json_get(json_get(vision, "norm_kwargs"), "eps");
    settings_put(s, SETTING_HEAD_DIM, 64);
    if (!config_put_size(s, SETTING_HEAD_DIM, vision, "head_width", r) ||
        !config_put_size(s, SETTING_EMBED_DIM, vision, "width", r) ||
        !config_put_size(s, SETTING_DEPTH, vision, "layers", r) ||
        !config_put_size(s, SETTING_PATCH_SIZE, vision, "patch_size", r))
        return false;
    if (json_number(json_get(vision, "mlp_ratio"), 0) > 0)
        settings_put(s, SETTING_MLP_RATIO, json_number(json_get(vision, "mlp_ratio"), 0));
    if (eps) settings_put(s, SETTING_NORM_EPS, json_number(eps, 1e-5));
    put_activation(s, model, vision);
    if (json_bool(json_get(vision, "attentional_pool"), false) &&
        !config_put_size(s, SETTING_POOL_NUM_HEADS, vision, "attn_pooler_heads", r))
        return false;
    if (!strcmp(pool, "tok")) return true;
    return report_fail(r, "pool_type %.40s: this version of vit.h supports only tok", pool);
}

static bool put_vector(const json_value *value, const char *key, double *out, int *count,
                       report *r) {
    const json_value *item;
    if (!value || value->kind == JSON_NULL) return true;
    if (value->kind != JSON_ARRAY || value->count < 1 || value->count > VIT_MAX_CHANS)
        return report_fail(r, "%s: expected a list of numbers", key);
    *count = 0;
    for (item = json_first(value); item; item = item->next) {
        if (item->kind != JSON_NUMBER) return report_fail(r, "%s: expected a list of numbers", key);
        out[(*count)++] = json_number(item, 0);
    }
    return true;
}

/* Sets the preprocessing. open_clip resizes photos directly to the size of the input, so crop_pct
 * is 1: the crop removes only pixels outside this size. */
static bool put_preprocessing(settings *s, const json_value *preprocess, report *r) {
    static const struct {
        const char *name;
        vit_crop_mode mode;
    } modes[] = {
        { "shortest", VIT_CROP_CENTER },
        { "squash", VIT_CROP_SQUASH },
        { "longest", VIT_CROP_BORDER },
    };
    const char *mode = json_string(json_get(preprocess, "resize_mode"), "shortest");
    const char *filter = json_string(json_get(preprocess, "interpolation"), "bicubic");
    size_t i;
    settings_put(s, SETTING_CROP_PCT, 1);
    arch_mean_std(ARCH_OPENAI, s->mean, s->std);
    s->mean_count = s->std_count = 3;
    for (i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, mode)) settings_put(s, SETTING_CROP_MODE, modes[i].mode);
    if (!s->given[SETTING_CROP_MODE])
        return report_fail(r, "resize_mode %.40s: expected shortest, squash or longest", mode);
    if (strcmp(filter, "bicubic") && strcmp(filter, "bilinear"))
        return report_fail(r,
                           "interpolation %.40s: this version of vit.h resizes by bilinear or "
                           "bicubic filters",
                           filter);
    settings_put(s, SETTING_INTERPOLATION, strcmp(filter, "bicubic") ? VIT_BILINEAR : VIT_BICUBIC);
    return put_vector(json_get(preprocess, "mean"), "mean", s->mean, &s->mean_count, r) &&
           put_vector(json_get(preprocess, "std"), "std", s->std, &s->std_count, r);
}

bool config_open_clip_apply(config_file *config, settings *s, report *r) {
    const json_value *model = json_get(config->document.root, "model_cfg");
    const json_value *vision = json_get(model, "vision_cfg");
    const char *timm = json_string(json_get(vision, "timm_model_name"), NULL);
    if (!put_size(s, json_get(vision, "image_size"), r)) return false;
    if (timm) config->architecture = timm;
    else if (!put_vision(s, model, vision, r)) return false;
    return put_preprocessing(s, json_get(config->document.root, "preprocess_cfg"), r);
}

/* === transformers' configurations === */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Models and image processors ===
 * The tables hold default values of transformers, which its files may omit. */

/* An image processor of transformers, with its default values. */
typedef struct hf_processor {
    const char *name; /* the name of the class, without "ImageProcessor" at its end */
    /* size 0 means that each photo has its own size; crop 0 means that there is no crop */
    int size, crop;
    bool shortest_edge; /* true if `size` is the shorter side; otherwise `size` is both sides */
    bool bicubic;
    arch_norm norm;
    /* true if a photo keeps its size; if it is false, size 0 means NaFlex */
    bool own_sizes;
} hf_processor;

/* The indices of `processors`. BY_DINOV2 has the values in the files of DINOv2, which name the
 * class BitImageProcessor. */
enum {
    BY_VIT,
    BY_DEIT,
    BY_CLIP,
    BY_BIT,
    BY_SIGLIP,
    BY_DINOV2,
    BY_BEIT,
    BY_DINOV3,
    BY_SIGLIP2,
    BY_QWEN,
    BY_DPT
};

static const hf_processor processors[] = {
    { "ViT", 224, 0, false, false, ARCH_HALF, false },
    { "DeiT", 256, 224, false, true, ARCH_HALF, false },
    { "CLIP", 224, 224, true, true, ARCH_OPENAI, false },
    { "Bit", 224, 224, true, true, ARCH_OPENAI, false },
    { "Siglip", 224, 0, false, true, ARCH_HALF, false },
    { "DINOv2", 256, 224, true, true, ARCH_IMAGENET, false },
    { "Beit", 256, 224, false, true, ARCH_HALF, false },
    { "DINOv3ViT", 224, 0, false, false, ARCH_IMAGENET, false },
    { "Siglip2", 0, 0, false, false, ARCH_HALF, false },
    { "Qwen2VL", 0, 0, false, true, ARCH_HALF, true },
    { "DPT", 384, 0, false, true, ARCH_HALF, false },
};

/* A type of model in transformers, with the values that its config.json may omit. */
typedef struct hf_model {
    const char *type, *activation;
    double eps;
    int heads;
    int processor;
} hf_model;

static const hf_model models[] = {
    { "vit", "gelu", 1e-12, 12, BY_VIT },
    { "deit", "gelu", 1e-12, 12, BY_DEIT },
    { "vit_mae", "gelu", 1e-12, 12, BY_VIT },
    { "vit_msn", "gelu", 1e-6, 12, BY_VIT },
    { "ijepa", "gelu", 1e-12, 12, BY_VIT },
    { "dinov2", "gelu", 1e-6, 12, BY_DINOV2 },
    /* the values are those of DINOv2, its backbone */
    { "depth_anything", "gelu", 1e-6, 12, BY_DINOV2 },
    { "dinov2_with_registers", "gelu", 1e-6, 12, BY_DINOV2 },
    { "dinov3_vit", "gelu", 1e-5, 6, BY_DINOV3 },
    { "beit", "gelu", 1e-12, 12, BY_BEIT },
    { "data2vec-vision", "gelu", 1e-12, 12, BY_BEIT },
    { "clip", "quick_gelu", 1e-5, 12, BY_CLIP },
    { "clip_vision_model", "quick_gelu", 1e-5, 12, BY_CLIP },
    { "metaclip_2", "quick_gelu", 1e-5, 12, BY_CLIP },
    { "metaclip_2_vision_model", "quick_gelu", 1e-5, 12, BY_CLIP },
    { "siglip", "gelu_pytorch_tanh", 1e-6, 12, BY_SIGLIP },
    { "siglip_vision_model", "gelu_pytorch_tanh", 1e-6, 12, BY_SIGLIP },
    { "siglip2", "gelu_pytorch_tanh", 1e-6, 12, BY_SIGLIP2 },
    { "siglip2_vision_model", "gelu_pytorch_tanh", 1e-6, 12, BY_SIGLIP2 },
    { "aimv2", "silu", 1e-5, 8, BY_CLIP },
    { "aimv2_vision_model", "silu", 1e-5, 8, BY_CLIP },
    { "qwen3_vl", "gelu_pytorch_tanh", 1e-6, 16, BY_QWEN },
    { "qwen3_vl_moe", "gelu_pytorch_tanh", 1e-6, 16, BY_QWEN },
    { "qwen3_5", "gelu_pytorch_tanh", 1e-6, 16, BY_QWEN },
    { "qwen3_5_moe", "gelu_pytorch_tanh", 1e-6, 16, BY_QWEN },
};

static const char *type_of(const json_value *root) {
    return json_string(json_get(root, "model_type"), NULL);
}

static const hf_model *find_model(const json_value *root) {
    const char *type = type_of(root);
    size_t i;
    for (i = 0; type && i < COUNT(models); i++)
        if (!strcmp(models[i].type, type)) return &models[i];
    return NULL;
}

bool config_hf_is(const json_value *root) {
    return json_get(root, "model_type") && !json_get(root, "architecture");
}

bool config_hf_knows(const json_value *root) { return find_model(root) != NULL; }

/* === Values === */

static bool wrong_value(const char *key, const char *expected, report *r) {
    return report_fail(r, "%s: expected %s", key, expected);
}

static bool get_flag(const json_value *object, const char *key, bool otherwise, bool *flag,
                     report *r) {
    const json_value *value = json_get(object, key);
    *flag = json_bool(value, otherwise);
    if (config_is_null(value) || value->kind == JSON_TRUE || value->kind == JSON_FALSE) return true;
    return wrong_value(key, "true or false", r);
}

static bool get_positive(const json_value *object, const char *key, double otherwise,
                         double *number, report *r) {
    const json_value *value = json_get(object, key);
    *number = json_number(value, otherwise);
    if (config_is_null(value) || (value->kind == JSON_NUMBER && *number > 0)) return true;
    return wrong_value(key, "a number above 0", r);
}

/* Reads a number n, which stands for both values, or a list [n, m]. */
static bool get_pair(const json_value *value, int64_t *first, int64_t *second) {
    const json_value *a = value, *b = value;
    if (value->kind == JSON_ARRAY) {
        if (value->count != 2) return false;
        a = json_first(value);
        b = a->next;
    }
    *first = json_integer(a, 0);
    *second = json_integer(b, 0);
    return config_is_size(a) && config_is_size(b);
}

static bool put_sizes(settings *s, const json_value *object, report *r) {
    const json_value *image = json_get(object, "image_size");
    const json_value *patch = json_get(object, "patch_size");
    int64_t height, width;
    if (!config_is_null(image)) {
        if (!get_pair(image, &height, &width))
            return wrong_value("image_size", "n or [height, width]", r);
        settings_put(s, SETTING_IMG_HEIGHT, (double)height);
        settings_put(s, SETTING_IMG_WIDTH, (double)width);
    }
    if (config_is_null(patch)) return true;
    if (!get_pair(patch, &height, &width) || height != width)
        return wrong_value("patch_size", "one number (patches are square)", r);
    settings_put(s, SETTING_PATCH_SIZE, (double)height);
    return true;
}

static bool put_hidden_act(settings *s, const json_value *object, const hf_model *model,
                           report *r) {
    const json_value *value = json_get(object, "hidden_act");
    const char *name = config_is_null(value) ? model->activation : json_string(value, NULL);
    int activation;
    bool swiglu;
    if (!name) return wrong_value("hidden_act", "a name", r);
    if (!get_flag(object, "use_swiglu_ffn", false, &swiglu, r)) return false;
    if (swiglu) name = "silu";
    activation = setting_find_any_word(SETTING_ACTIVATION, name);
    if (activation >= 0) return settings_put(s, SETTING_ACTIVATION, activation), true;
    return report_fail(r, "hidden_act %.60s: this version of vit.h lacks this activation", name);
}

/* Sets the activation of the pooler, if the file gives one. */
static bool put_pooler_act(settings *s, const json_value *object, report *r) {
    const json_value *value = json_get(object, "pooler_act");
    int activation;
    if (config_is_null(value)) return true;
    activation = setting_find_any_word(SETTING_REPRESENTATION_ACTIVATION, json_string(value, ""));
    if (activation >= 0) settings_put(s, SETTING_REPRESENTATION_ACTIVATION, activation);
    return activation >= 0 || report_fail(r,
                                          "pooler_act %.60s: this version of vit.h lacks this "
                                          "activation",
                                          json_string(value, "?"));
}

/* Sets the base of the frequencies of rotary positions. Newer files store the base in the object
 * rope_parameters. */
static bool put_rope(settings *s, const json_value *object, report *r) {
    double base;
    if (config_is_null(json_get(object, "rope_theta")))
        object = json_get(object, "rope_parameters");
    if (!get_positive(object, "rope_theta", 0, &base, r)) return false;
    if (base > 0) settings_put(s, SETTING_ROPE_TEMPERATURE, base);
    return true;
}

static bool put_numbers(settings *s, const json_value *object, const hf_model *model, report *r) {
    const char *eps = config_is_null(json_get(object, "layer_norm_eps")) ? "rms_norm_eps"
                                                                         : "layer_norm_eps";
    bool bias;
    settings_put(s, SETTING_NUM_HEADS, model->heads);
    if (!get_positive(object, eps, model->eps, &s->value[SETTING_NORM_EPS], r) ||
        !get_flag(object, "qkv_bias", true, &bias, r) || !put_rope(s, object, r))
        return false;
    s->given[SETTING_NORM_EPS] = true;
    if (!config_is_null(json_get(object, "qkv_bias"))) settings_put(s, SETTING_QKV_BIAS, bias);
    return config_put_size(s, SETTING_EMBED_DIM, object, "hidden_size", r) &&
           config_put_size(s, SETTING_DEPTH, object, "num_hidden_layers", r) &&
           config_put_size(s, SETTING_DEPTH, object, "depth", r) &&
           config_put_size(s, SETTING_NUM_HEADS, object, "num_attention_heads", r) &&
           config_put_size(s, SETTING_NUM_HEADS, object, "num_heads", r) &&
           config_put_size(s, SETTING_MLP_DIM, object, "intermediate_size", r) &&
           config_put_size(s, SETTING_REG_TOKENS, object, "num_register_tokens", r) &&
           config_put_size(s, SETTING_IN_CHANS, object, "num_channels", r) &&
           config_put_size(s, SETTING_IN_CHANS, object, "in_channels", r);
}

/* === Labels === */

/* Sets the function that computes probabilities in the pipeline of transformers: the sigmoid if a
 * photo may have several classes, or if there is only one class. */
static bool put_problem(settings *s, const json_value *root, report *r) {
    static const char *const types[] = { "single_label_classification", "regression",
                                         "multi_label_classification" };
    const json_value *value = json_get(root, "problem_type"), *labels = json_get(root, "id2label");
    size_t i = 0;
    if (!config_is_null(value))
        while (i < COUNT(types) && strcmp(types[i], json_string(value, "")) != 0) i++;
    if (i == COUNT(types))
        return report_fail(r, "problem_type %.60s: expected %s, %s or %s", json_string(value, "?"),
                           types[0], types[1], types[2]);
    if (i == 2 || json_integer(json_get(root, "num_labels"), 0) == 1 ||
        (labels && labels->kind == JSON_OBJECT && labels->count == 1))
        settings_put(s, SETTING_HEAD_ACTIVATION, VIT_HEAD_SIGMOID);
    return true;
}

/* True if the label is only a placeholder, such as "LABEL_0". */
static bool is_placeholder(const json_value *value) {
    const char *text = json_string(value, "LABEL_");
    return !strncmp(text, "LABEL_", 6);
}

/* Turns id2label into a list of labels. id2label is an object whose keys are numbers in any
 * order. */
static bool put_labels(config_file *config, const json_value *id2label, report *r) {
    const uint32_t count = id2label->count;
    json_value *list = memory_take(&config->document.memory, (count + 1) * sizeof *list);
    const json_value *item;
    uint32_t seen = 0;
    if (!list) return report_no_memory(r);
    for (item = json_first(id2label); item; item = item->next) {
        char *end;
        unsigned long id = strtoul(item->key, &end, 10);
        if (*end || id >= count || list[1 + id].key) break;
        if (is_placeholder(item)) return true;
        list[1 + id] = *item;
        list[1 + id].next = id + 1 < count ? &list[2 + id] : NULL;
        seen++;
    }
    if (seen != count)
        return report_fail(r, "id2label: expected the classes 0 to %u", (unsigned)count - 1);
    list[0].kind = JSON_ARRAY;
    list[0].count = count;
    list[0].u.first = &list[1];
    config->label_names = list;
    return true;
}

/* === preprocessor_config.json === */

/* A size of images in pixels. */
typedef struct hf_frame {
    int64_t height, width; /* 0 if they are not given */
    /* the sides of photos are multiples of this number; 0 if any length is possible */
    int64_t multiple;
    bool shortest; /* true if `height` is the length of the shorter side */
} hf_frame;

static bool get_frame(const json_value *value, bool single_is_shortest, hf_frame *frame) {
    const json_value *shortest = json_get(value, "shortest_edge");
    memset(frame, 0, sizeof *frame);
    if (config_is_null(value)) return true;
    if (value->kind == JSON_OBJECT) {
        const json_value *height = json_get(value, "height"), *width = json_get(value, "width");
        const json_value *item;
        bool known = config_is_null(shortest) || (config_is_null(height) && config_is_null(width));
        for (item = json_first(value); item; item = item->next)
            if (item != height && item != width && item != shortest && !config_is_null(item))
                known = false;
        if (!known) return false;
        frame->shortest = !config_is_null(shortest);
        if (frame->shortest) height = width = shortest;
        frame->height = json_integer(height, 0);
        frame->width = json_integer(width, 0);
        return config_is_size(height) && config_is_size(width);
    }
    frame->shortest = single_is_shortest && value->kind == JSON_NUMBER;
    return get_pair(value, &frame->height, &frame->width);
}

static bool put_resample(settings *s, const json_value *root, const hf_processor *processor,
                         report *r) {
    static const char *const names[] = { "nearest", "lanczos", "bilinear",
                                         "bicubic", "box",     "hamming" };
    const json_value *value = json_get(root, "resample");
    int64_t filter = processor->bicubic ? 3 : 2;
    if (!config_is_null(value)) filter = json_integer(value, -1);
    if (filter == 2 || filter == 3) {
        settings_put(s, SETTING_INTERPOLATION, filter == 2 ? VIT_BILINEAR : VIT_BICUBIC);
        return true;
    }
    return report_fail(r,
                       "resample %lld (%s): this version of vit.h resizes by bilinear (2) or "
                       "bicubic (3) filters",
                       (long long)filter, filter >= 0 && filter < 6 ? names[filter] : "unknown");
}

/* Returns the fraction of the resized image that the crop keeps. The fraction is slightly reduced.
 * Without this reduction, the size of the input divided by the fraction could be rounded to less
 * than the resized size. */
static double share(int64_t crop, int64_t size) {
    return crop == size ? 1 : (double)crop / ((double)size + 1e-6);
}

/* Sets how the margins of a crop are rounded. The usual processors of transformers round them down.
 * The "Fast" processors round them as torchvision does. */
static void put_rounding(settings *s, const json_value *root) {
    static const char fast[] = "Fast";
    const char *type = json_string(json_get(root, "image_processor_type"), "");
    const size_t length = strlen(type);
    const bool is_fast = length >= 4 && !strcmp(type + length - 4, fast);
    settings_put(s, SETTING_CROP_ROUNDING, is_fast ? VIT_ROUND_EVEN : VIT_ROUND_DOWN);
}

/* Sets the preprocessing of NaFlex: the photo keeps its aspect ratio, and its sides become
 * multiples of the patch size. */
static bool put_aspect(settings *s, const json_value *root, report *r) {
    double most;
    if (!get_positive(root, "max_num_patches", 256, &most, r)) return false;
    settings_put(s, SETTING_MAX_PATCHES, most);
    settings_put(s, SETTING_CROP_MODE, VIT_CROP_ASPECT);
    settings_put(s, SETTING_CROP_PCT, 1);
    settings_put(s, SETTING_DYNAMIC_IMG_SIZE, 1);
    settings_put(s, SETTING_POS_RESAMPLE, VIT_RESAMPLE_NAFLEX);
    return true;
}

/* Sets the preprocessing for a processor that keeps the size of each photo. vit.h has no such crop
 * mode, so photos are squashed to one size, and assume.c reports this. */
static bool put_own_sizes(settings *s) {
    settings_put(s, SETTING_CROP_MODE, VIT_CROP_SQUASH);
    settings_put(s, SETTING_CROP_PCT, 1);
    settings_put(s, SETTING_OWN_SIZES, 1);
    return true;
}

/* Refuses padding that vit.h cannot do. DPT's processor pads images after it has resized them. */
static bool check_padding(const json_value *root, int64_t multiple, report *r) {
    const json_value *divisor = json_get(root, "size_divisor");
    bool pads;
    if (!get_flag(root, "do_pad", false, &pads, r)) return false;
    if (!pads || (config_is_size(divisor) && multiple % json_integer(divisor, 1) == 0)) return true;
    return report_fail(r, "do_pad true: this version of vit.h does not pad to whole patches; "
                          "expected false, or a size_divisor that divides ensure_multiple_of");
}

/* Returns the multiple that is nearest to a side. Returns 0 if two multiples are equally near,
 * because a rounding error would decide between them. */
static int64_t nearest_multiple(int64_t side, int64_t multiple) {
    const int64_t rest = side % multiple;
    return 2 * rest == multiple ? 0 : side - rest + (2 * rest > multiple ? multiple : 0);
}

/* Sets the sizes for DPT's processor, which makes the sides of photos multiples of a number. If
 * photos keep their aspect ratio, vit_find_crop computes these sizes for each photo. */
static bool put_multiples(settings *s, const json_value *root, hf_frame *input, report *r) {
    const json_value *given = json_get(root, "ensure_multiple_of");
    const int64_t multiple = config_is_null(given) ? 1 : json_integer(given, 0);
    hf_frame size;
    bool keeps;
    if (!get_flag(root, "keep_aspect_ratio", false, &keeps, r)) return false;
    if (!config_is_null(given) && !config_is_size(given))
        return wrong_value("ensure_multiple_of", "a number of pixels", r);
    if (!get_frame(json_get(root, "size"), false, &size) || size.shortest)
        return wrong_value("size", "n or {height, width}", r);
    if (!check_padding(root, multiple, r)) return false;
    if (size.height == 0) size.height = size.width = processors[BY_DPT].size;
    settings_put(s, SETTING_CROP_PCT, 1);
    settings_put(s, SETTING_CROP_MODE, keeps ? VIT_CROP_ASPECT : VIT_CROP_SQUASH);
    if (keeps) {
        settings_put(s, SETTING_CROP_ROUNDING, VIT_ROUND_NEAREST);
        settings_put(s, SETTING_RESIZE_HEIGHT, (double)size.height);
        settings_put(s, SETTING_RESIZE_WIDTH, (double)size.width);
        settings_put(s, SETTING_DYNAMIC_IMG_SIZE, 1);
        input->multiple = multiple;
        return true;
    }
    input->height = nearest_multiple(size.height, multiple);
    input->width = nearest_multiple(size.width, multiple);
    return (input->height && input->width) ||
           report_fail(r,
                       "size %lldx%lld: expected sides whose nearest multiple of %lld pixels "
                       "(ensure_multiple_of) is unique and above 0",
                       (long long)size.height, (long long)size.width, (long long)multiple);
}

/* Sets the resize and the crop. *input receives the size of the images that the processor
 * produces. */
static bool put_frames(settings *s, const json_value *root, const hf_processor *processor,
                       hf_frame *input, report *r) {
    static const char choose[] = "give a different file with --config, and choose the crop "
                                 "with --set crop_mode=...";
    hf_frame size, crop;
    bool crops, resizes, square;
    if (!get_flag(root, "do_center_crop", processor->crop > 0, &crops, r) ||
        !get_flag(root, "do_resize", true, &resizes, r) ||
        !get_flag(root, "default_to_square", !processor->shortest_edge, &square, r))
        return false;
    if (!processor->size && resizes)
        return processor->own_sizes ? put_own_sizes(s) : put_aspect(s, root, r);
    if (processor == &processors[BY_DPT] && resizes && !crops)
        return put_multiples(s, root, input, r);
    if (!get_frame(json_get(root, "size"), !square, &size))
        return wrong_value("size", "n, {height, width} or {shortest_edge}", r);
    if (!get_frame(json_get(root, "crop_size"), false, &crop) || crop.shortest)
        return wrong_value("crop_size", "n or {height, width}", r);
    if (size.height == 0) {
        size.height = size.width = processor->size;
        size.shortest = processor->shortest_edge;
    }
    if (crop.height == 0) crop.height = crop.width = processor->crop;
    if (crop.height == 0) crop = size;
    if (!resizes)
        return report_fail(r, "do_resize false: this version of vit.h always resizes; %s", choose);
    if (size.shortest && !crops)
        return report_fail(r,
                           "do_center_crop false: a size for the shorter side alone would "
                           "give inputs of different shapes; %s",
                           choose);
    if (crops && crop.height * size.width != crop.width * size.height)
        return report_fail(r,
                           "crop_size %lldx%lld, size %lldx%lld: this version of vit.h crops the "
                           "same share of height and of width; %s",
                           (long long)crop.height, (long long)crop.width, (long long)size.height,
                           (long long)size.width, choose);
    settings_put(s, SETTING_CROP_MODE, size.shortest ? VIT_CROP_CENTER : VIT_CROP_SQUASH);
    settings_put(s, SETTING_CROP_PCT, crops ? share(crop.height, size.height) : 1);
    if (crops) put_rounding(s, root);
    *input = crops ? crop : size;
    return true;
}

static bool get_vector(const json_value *value, const char *key, double *out, int *count,
                       report *r) {
    const json_value *item = value->kind == JSON_ARRAY ? json_first(value) : value;
    *count = 0;
    for (; item && *count < VIT_MAX_CHANS; item = value->kind == JSON_ARRAY ? item->next : NULL) {
        if (item->kind != JSON_NUMBER) return wrong_value(key, "a list of numbers", r);
        out[(*count)++] = json_number(item, 0);
    }
    if (*count == 0 || item) return wrong_value(key, "a number for each channel", r);
    return true;
}

/* Sets mean and std. vit.h computes (x / 255 - mean) / std. If the processor multiplies x by
 * another factor, mean and std are changed to give the same result. */
static bool put_normalisation(settings *s, const json_value *root, const hf_processor *processor,
                              report *r) {
    const json_value *mean = json_get(root, "image_mean"), *std = json_get(root, "image_std");
    double factor;
    bool rescales, normalises;
    int i;
    if (!get_positive(root, "rescale_factor", 1.0 / 255, &factor, r) ||
        !get_flag(root, "do_rescale", true, &rescales, r) ||
        !get_flag(root, "do_normalize", true, &normalises, r))
        return false;
    factor = rescales ? 255 * factor : 255;
    if (fabs(factor - 1) < 1e-6) factor = 1;
    s->mean[0] = 0;
    s->std[0] = 1;
    s->mean_count = s->std_count = 1;
    if (normalises) {
        arch_mean_std(processor->norm, s->mean, s->std);
        s->mean_count = s->std_count = 3;
        if (!config_is_null(mean) && !get_vector(mean, "image_mean", s->mean, &s->mean_count, r))
            return false;
        if (!config_is_null(std) && !get_vector(std, "image_std", s->std, &s->std_count, r))
            return false;
    }
    for (i = 0; i < s->mean_count; i++) s->mean[i] /= factor;
    for (i = 0; i < s->std_count; i++) s->std[i] /= factor;
    return true;
}

/* The file names the class of its processor under image_processor_type or, in old files,
 * feature_extractor_type. Returns the processor of this class; NULL if the steps of the class are
 * unknown. If the file names no class, returns the default processor of the model. */
static const hf_processor *find_processor(const json_value *root, const hf_model *model) {
    const json_value *type = json_get(root, "image_processor_type");
    size_t i;
    if (config_is_null(type)) type = json_get(root, "feature_extractor_type");
    if (config_is_null(type)) return &processors[model->processor];
    for (i = 0; i < COUNT(processors); i++) {
        const char *name = json_string(type, "");
        const size_t length = strlen(processors[i].name);
        if (strncmp(name, processors[i].name, length) != 0) continue;
        if (!strncmp(name + length, "Im", 2) || !strncmp(name + length, "Fe", 2))
            return &processors[i];
    }
    return NULL;
}

/* Refuses fields that might add a step to the preprocessing. Accepts the fields that are read, and
 * those that cannot change the input. Any other field that is neither null nor false, such as
 * do_flip_channel_order, crop_pct or offset, might add a step. */
static bool check_fields(const json_value *root, const hf_processor *processor, report *r) {
    static const char *const of_dpt[] = { "do_pad", "ensure_multiple_of", "keep_aspect_ratio",
                                          "size_divisor" };
    static const char *const known[] = { "_name_or_path",
                                         "_processor_class",
                                         "_valid_processor_keys",
                                         "auto_map",
                                         "crop_size",
                                         "data_format",
                                         "default_to_square",
                                         "device",
                                         "disable_grouping",
                                         "do_center_crop",
                                         "do_convert_rgb",
                                         "do_normalize",
                                         "do_reduce_labels",
                                         "do_rescale",
                                         "do_resize",
                                         "feature_extractor_type",
                                         "image_mean",
                                         "image_processor_type",
                                         "image_seq_length",
                                         "image_std",
                                         "input_data_format",
                                         "max_num_patches",
                                         "max_pixels",
                                         "merge_size",
                                         "min_pixels",
                                         "model_input_names",
                                         "name_or_path",
                                         "patch_size",
                                         "processor_class",
                                         "reduce_labels",
                                         "resample",
                                         "rescale_factor",
                                         "return_tensors",
                                         "size",
                                         "temporal_patch_size",
                                         "transformers_version" };
    const json_value *item;
    size_t i;
    for (item = json_first(root); item; item = item->next) {
        for (i = 0; i < COUNT(known) && strcmp(known[i], item->key) != 0;) i++;
        if (i < COUNT(known) || item->kind == JSON_NULL || item->kind == JSON_FALSE) continue;
        for (i = 0; i < COUNT(of_dpt) && strcmp(of_dpt[i], item->key) != 0;) i++;
        if (i < COUNT(of_dpt) && processor == &processors[BY_DPT]) continue;
        return report_fail(r,
                           "%.60s: this field is unknown, and may change the input; remove the "
                           "field if it does not change the input",
                           item->key);
    }
    return true;
}

/* Stores all settings of the preprocessing. `root` is NULL if the file is missing; the defaults of
 * the class then apply. */
static bool apply_preprocessor(settings *s, const json_value *root, const hf_processor *processor,
                               hf_frame *input, report *r) {
    if (root && root->kind != JSON_OBJECT) return report_fail(r, "expected a JSON object");
    if (!processor)
        return report_fail(
            r,
            "%.60s: the steps of this image processor are unknown; expected an image processor of "
            "ViT, DeiT, CLIP, Bit, Siglip, Siglip2, Beit, DINOv3ViT, Qwen2VL or DPT",
            json_string(json_get(root, "image_processor_type"),
                        json_string(json_get(root, "feature_extractor_type"), "?")));
    return check_fields(root, processor, r) && put_resample(s, root, processor, r) &&
           put_frames(s, root, processor, input, r) && put_normalisation(s, root, processor, r);
}

static bool read_preprocessor(settings *s, const char *path, const hf_model *model, hf_frame *input,
                              report *r) {
    json_document document;
    char *text;
    size_t size = 0;
    bool good;
    good = config_read_text(path, &text, &size, r) &&
           json_parse(&document, text, size, false, 0, r);
    if (good) {
        good = apply_preprocessor(s, document.root, find_processor(document.root, model), input, r);
        json_free(&document);
    }
    free(text);
    return good || report_file(r, path);
}

/* Stores the size that the processor produces if it differs from the image_size, which is 224 if
 * config.json omits it. The processor's size is the size of the input: for example, a DINOv2 made
 * for 518 pixels gets an input of 224 pixels. */
static void choose_input(config_file *config, const settings *s, const hf_frame *input) {
    const bool given = s->given[SETTING_IMG_HEIGHT] && s->given[SETTING_IMG_WIDTH];
    const double height = given ? s->value[SETTING_IMG_HEIGHT] : 224;
    const double width = given ? s->value[SETTING_IMG_WIDTH] : 224;
    config->multiple = (int)input->multiple;
    if (!input->height || (height == (double)input->height && width == (double)input->width))
        return;
    config->input_height = (int)input->height;
    config->input_width = (int)input->width;
}

static bool find_preprocessor(config_file *config, settings *s, const char *path,
                              const hf_model *model, report *r) {
    static const char name[] = "preprocessor_config.json";
    const size_t folder = paths_folder_length(path);
    char *beside = malloc(folder + sizeof name);
    hf_frame input = { 0 };
    bool good = true;
    if (!beside) return report_no_memory(r);
    memcpy(beside, path, folder);
    memcpy(beside + folder, name, sizeof name);
    if (source_exists(beside)) {
        good = read_preprocessor(s, beside, model, &input, r);
        if (good) choose_input(config, s, &input);
    } else {
        config->processor = processors[model->processor].name;
        good = apply_preprocessor(s, NULL, &processors[model->processor], &input, r);
    }
    free(beside);
    return good;
}

/* === A whole configuration === */

/* Refuses fields that always change the meaning of the tensors. */
static bool check_weights(const json_value *root, const json_value *vision, report *r) {
    static const char *const keys[] = { "quantization_config", "pruned_heads" };
    size_t i;
    for (i = 0; i < 2 * COUNT(keys); i++) {
        const json_value *value = json_get(i % 2 ? root : vision, keys[i / 2]);
        if (config_is_null(value) || (value->kind == JSON_OBJECT && value->count == 0)) continue;
        return report_fail(r, "%s: this version of vit.h cannot use weights of this form",
                           keys[i / 2]);
    }
    return true;
}

bool config_hf_apply(config_file *config, settings *s, const char *path, report *r) {
    const json_value *root = config->document.root, *vision = json_get(root, "vision_config");
    const json_value *labels = json_get(root, "id2label");
    const hf_model *model = find_model(root);
    if (!model)
        return report_fail(
            r,
            "model_type %.60s: expected timm's form (with \"architecture\") or a type "
            "of transformers such as vit, deit, beit, dinov2, clip or siglip",
            type_of(root) ? type_of(root) : "?");
    if (!vision) vision = json_get(root, "backbone_config");
    if (!vision || vision->kind != JSON_OBJECT) vision = root;
    if (!check_weights(root, vision, r) || !put_numbers(s, vision, model, r) ||
        !put_sizes(s, vision, r) || !put_hidden_act(s, vision, model, r) ||
        !put_pooler_act(s, vision, r) || !put_problem(s, root, r))
        return false;
    if (!config_is_null(labels) && labels->kind != JSON_OBJECT)
        return wrong_value("id2label", "an object", r);
    if (labels && labels->count > 0 && !put_labels(config, labels, r)) return false;
    return find_preprocessor(config, s, path, model, r);
}

/* === Configurations in an author's own form === */

enum { OWN_DEPTH = 16, OWN_NAME = 64, OWN_VALUE = 160 };

/* The state of reading an author's own configuration file. Each value is passed to `take`. */
typedef struct own_reader {
    config_take *take;
    void *user;
    bool good;
    /* the sections that contain the current line of YAML, from the outermost section on */
    struct {
        int indent;
        char name[OWN_NAME];
    } levels[OWN_DEPTH];
    int depth;
    /* the numbers that the innermost section has on separate lines, joined with commas */
    char list[OWN_VALUE];
} own_reader;

/* True if the name shows that the section describes something other than the encoder. The numbers
 * of such a section are ignored. */
static bool is_foreign_section(const char *name) {
    static const char *const words[] = { "decoder", "optim", "sched", "teacher", "discriminator" };
    size_t i;
    for (i = 0; i < COUNT(words); i++)
        if (strstr(name, words[i])) return true;
    return false;
}

static void pass(own_reader *o, const char *key, const char *value) {
    if (o->good && *key && *value) o->good = o->take(o->user, key, value);
}

static void append_number(char list[OWN_VALUE], const char *text) {
    double value;
    if (text_read_number(text, -1e30, 1e30, &value))
        text_append(list, OWN_VALUE, "%s%s", *list ? ", " : "", text);
}

static void pass_list(own_reader *o, const char *key, const char *list) {
    char value[OWN_VALUE + 2];
    snprintf(value, sizeof value, "(%s)", list);
    if (*list && strlen(list) + 1 < OWN_VALUE) pass(o, key, value);
}

/* === JSON === */

static const char *show_json(const json_value *value, char text[32]) {
    if (value->kind == JSON_TRUE) return "true";
    if (value->kind == JSON_FALSE) return "false";
    if (value->kind == JSON_STRING) return value->u.string;
    if (value->kind != JSON_NUMBER) return "";
    snprintf(text, 32, "%.17g", json_number(value, 0));
    return text;
}

static void pass_json(own_reader *o, const json_value *object) {
    const json_value *item, *number;
    char list[OWN_VALUE], text[32];
    for (item = json_first(object); item && o->good; item = item->next) {
        list[0] = '\0';
        if (item->kind == JSON_OBJECT) {
            if (!is_foreign_section(item->key)) pass_json(o, item);
        } else if (item->kind == JSON_ARRAY) {
            for (number = json_first(item); number && strlen(list) + 1 < OWN_VALUE;
                 number = number->next)
                append_number(list, show_json(number, text));
            pass_list(o, item->key, list);
        } else {
            pass(o, item->key, show_json(item, text));
        }
    }
}

/* === YAML === */

/* Cuts off a comment at the end of a line and the spaces in front of the comment. Returns a pointer
 * to the first character that is no space. */
static char *trim(char *text) {
    char quote = '\0', *at, *end = text;
    text += strspn(text, " \t");
    for (at = end = text; *at && (quote || *at != '#' || (at > text && at[-1] != ' ')); at++) {
        if (quote) quote = *at == quote ? '\0' : quote;
        else if (*at == '"' || *at == '\'') quote = *at;
        if (!strchr(" \t\r", *at)) end = at + 1;
    }
    *end = '\0';
    return text;
}

static char *unquote(char *text) {
    const size_t length = strlen(text);
    if (length < 2 || (*text != '"' && *text != '\'') || text[length - 1] != *text) return text;
    text[length - 1] = '\0';
    return text + 1;
}

/* Passes on a list of numbers on one line, such as "[0.5, 0.5]" or "(0.5, 0.5)". */
static void pass_row(own_reader *o, const char *key, char *text) {
    char list[OWN_VALUE] = "", *next;
    for (text++; text; text = next) {
        next = strchr(text, ',');
        if (next) *next++ = '\0';
        text = trim(text);
        text[strcspn(text, "])")] = '\0';
        append_number(list, trim(text));
    }
    pass_list(o, key, list);
}

static void end_sections(own_reader *o, int indent) {
    while (o->depth > 0 && o->levels[o->depth - 1].indent >= indent) {
        o->depth--;
        pass_list(o, o->levels[o->depth].name, o->list);
        o->list[0] = '\0';
    }
}

static bool is_in_foreign_section(const own_reader *o) {
    int i;
    for (i = 0; i < o->depth; i++)
        if (is_foreign_section(o->levels[i].name)) return true;
    return false;
}

static void read_setting(own_reader *o, int indent, char *key, char *value) {
    end_sections(o, indent);
    key = unquote(trim(key));
    if (is_in_foreign_section(o)) return;
    if (*value == '\0') {
        if (o->depth == OWN_DEPTH) return;
        o->levels[o->depth].indent = indent;
        snprintf(o->levels[o->depth++].name, OWN_NAME, "%s", key);
        return;
    }
    /* some programs write "num_heads:" on one line and "value: 4" on the next line */
    if (!strcmp(key, "value") && o->depth > 0) key = o->levels[o->depth - 1].name;
    if (*value == '[' || *value == '(') pass_row(o, key, value);
    else pass(o, key, unquote(value));
}

static void read_line(own_reader *o, char *line) {
    const int indent = (int)strspn(line, " ");
    char *text = trim(line), *colon = text;
    if (*text == '-' && text[1] == ' ') {
        append_number(o->list, trim(text + 1));
        return;
    }
    if (*text == ':') return;
    do colon = strchr(colon + (colon > text), ':');
    while (colon && colon[1] && colon[1] != ' ');
    if (!colon) return;
    *colon = '\0';
    read_setting(o, indent, text, trim(colon + 1));
}

bool config_read_own(char *text, size_t size, config_take *take, void *user) {
    own_reader o = { 0 };
    json_document document;
    report ignored = report_make();
    char *copy = malloc(size + 1), *line, *next;
    o.take = take;
    o.user = user;
    o.good = copy != NULL;
    if (copy) memcpy(copy, text, size);
    if (copy && json_parse(&document, text, size, false, 0, &ignored)) {
        if (document.root->kind == JSON_OBJECT) pass_json(&o, document.root);
        json_free(&document);
    } else if (copy) {
        copy[size] = '\0';
        for (line = copy; line && o.good; line = next) {
            next = strchr(line, '\n');
            if (next) *next++ = '\0';
            read_line(&o, line);
        }
        end_sections(&o, 0);
    }
    free(copy);
    return o.good;
}

/* === Any configuration === */

/* True if the object has a member that is typical of timm's files. */
static bool is_timm(const json_value *root) {
    static const char *const keys[] = {
        "architecture", "pretrained_cfg", "model_args",    "input_size",  "mean",
        "std",          "crop_pct",       "interpolation", "global_pool",
    };
    size_t i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_get(root, keys[i])) return true;
    return false;
}

static bool config_parse(config_file *config, settings *s, const char *path, bool *foreign,
                         report *r) {
    const json_value *root;
    size_t size = 0;
    if (!config_read_text(path, &config->text, &size, r)) return false;
    if (!json_parse(&config->document, config->text, size, false, 0, r)) return false;
    root = config->document.root;
    if (root->kind != JSON_OBJECT) return report_fail(r, "expected a JSON object");
    if (config_open_clip_is(root)) return config_open_clip_apply(config, s, r);
    if (config_hf_is(root)) {
        if (foreign && !config_hf_knows(root)) return *foreign = true;
        return config_hf_apply(config, s, path, r);
    }
    if (foreign && !is_timm(root)) return *foreign = true;
    return config_timm_apply(config, s, r);
}

bool config_read(config_file *config, settings *s, const char *path, bool *foreign, report *r) {
    memset(config, 0, sizeof *config);
    if (foreign) *foreign = false;
    if (config_parse(config, s, path, foreign, r)) return true;
    config_free(config);
    return report_file(r, path);
}

bool config_read_json(config_file *config, settings *s, char *text, report *r) {
    config_free(config);
    config->text = text;
    if (json_parse(&config->document, text, strlen(text), false, 0, r) &&
        config_timm_apply(config, s, r))
        return true;
    config_free(config);
    return false;
}

void config_free(config_file *config) {
    json_free(&config->document);
    free(config->text);
    memset(config, 0, sizeof *config);
}
