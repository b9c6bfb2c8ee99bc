#include "model/config_open_clip.h"

#include <string.h>

#include "model/timm_names.h"

bool config_open_clip_is(const json_value *root)
{
    const json_value *model = json_get(root, "model_cfg");
    return model && json_get(model, "vision_cfg");
}

/* One number, or height and width. */
static bool put_size(settings *s, const json_value *value, report *r)
{
    const json_value *first = value && value->kind == JSON_ARRAY ? json_first(value) : value;
    const json_value *second = value && value->kind == JSON_ARRAY ? json_at(value, 1) : value;
    if (!value || value->kind == JSON_NULL) return true;
    if (!config_is_size(first) || !config_is_size(second))
        return report_fail(r, "image_size: expected n or [height, width]");
    settings_put(s, SETTING_IMG_HEIGHT, json_number(first, 0));
    settings_put(s, SETTING_IMG_WIDTH, json_number(second, 0));
    return true;
}

/* GELU by erf unless it says otherwise. */
static void put_activation(settings *s, const json_value *model, const json_value *vision)
{
    const char *approximate = json_string(json_get(json_get(vision, "act_kwargs"), "approximate"),
                                          "none");
    vit_activation activation = strcmp(approximate, "tanh") ? VIT_GELU : VIT_GELU_TANH;
    if (json_bool(json_get(model, "quick_gelu"), false)) activation = VIT_QUICK_GELU;
    settings_put(s, SETTING_ACTIVATION, activation);
}

static bool put_vision(settings *s, const json_value *model, const json_value *vision, report *r)
{
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
    if (!strcmp(pool, "tok")) return true;
    return report_fail(r, "pool_type %.40s: this version of vit.h runs tok only", pool);
}

static bool put_vector(const json_value *value, const char *key, double *out, int *count,
                       report *r)
{
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

/* The image is resized to the size of the input itself; nothing but the overhang is cropped. */
static bool put_preprocessing(settings *s, const json_value *preprocess, report *r)
{
    static const struct { const char *name; vit_crop_mode mode; } modes[] = {
        { "shortest", VIT_CROP_CENTER }, { "squash", VIT_CROP_SQUASH },
        { "longest", VIT_CROP_BORDER }
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
        return report_fail(r, "interpolation %.40s: this version of vit.h resizes by bilinear or "
                           "bicubic filters", filter);
    settings_put(s, SETTING_INTERPOLATION, strcmp(filter, "bicubic") ? VIT_BILINEAR : VIT_BICUBIC);
    return put_vector(json_get(preprocess, "mean"), "mean", s->mean, &s->mean_count, r) &&
           put_vector(json_get(preprocess, "std"), "std", s->std, &s->std_count, r);
}

bool config_open_clip_apply(config_file *config, settings *s, report *r)
{
    const json_value *model = json_get(config->document.root, "model_cfg");
    const json_value *vision = json_get(model, "vision_cfg");
    const char *timm = json_string(json_get(vision, "timm_model_name"), NULL);
    if (!put_size(s, json_get(vision, "image_size"), r)) return false;
    if (timm) config->architecture = timm;
    else if (!put_vision(s, model, vision, r)) return false;
    return put_preprocessing(s, json_get(config->document.root, "preprocess_cfg"), r);
}
