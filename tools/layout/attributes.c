#include "layout/attributes.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { PATH_SIZE = 1200 };

/* What all who speak of a setting say. */
typedef struct vote {
    bool given, disputed;
    double value;
    const char *module, *name;   /* of the first one */
} vote;

typedef struct walk {
    const checkpoint *checkpoint;
    const char *patch_weight;    /* that reads patches, or NULL */
    char blocks[PATH_SIZE];      /* before the number of a block: "encoder.layers." */
    bool has_blocks;
    vote heads, model_heads, eps, activation, code_activation, norm_first, batch_first;
    vote patch, height, width, chans, order, pool;
    vote kernel, stride, padding;   /* of what cuts the patches */
    const checkpoint_attribute *unknown_activation;
} walk;

static void cast_vote(vote *v, double value, const checkpoint_attribute *a)
{
    if (v->given && (value < v->value || value > v->value)) v->disputed = true;
    if (v->given) return;
    v->given = true;
    v->value = value;
    v->module = a->module;
    v->name = a->name;
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static const char *last_component(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* === The blocks === */

/* The module of this length of a path has a number next: modules that repeat. */
static bool continues(const char *path, const char *prefix, size_t length)
{
    return !strncmp(path, prefix, length) && path[length] >= '0' && path[length] <= '9';
}

/* How many attributes, from this one on, are of modules in that list: as modules come depth first,
 * they all are in a row. */
static size_t count_run(const checkpoint *c, size_t first, size_t length)
{
    const char *prefix = checkpoint_attribute_at(c, first)->module;
    size_t i = first;
    while (i < checkpoint_attribute_count(c) &&
           continues(checkpoint_attribute_at(c, i)->module, prefix, length)) i++;
    return i - first;
}

/* The lists that begin here: *most becomes the largest number of attributes in one; with `least`,
 * w->blocks becomes the longest prefix of a list with so many. */
static void look_at_lists(walk *w, size_t at, size_t least, size_t *most)
{
    const checkpoint *c = w->checkpoint;
    const char *path = checkpoint_attribute_at(c, at)->module;
    const char *before = at > 0 ? checkpoint_attribute_at(c, at - 1)->module : "";
    size_t length;
    for (length = 0; path[length]; length++) {
        size_t count;
        if (length > 0 && path[length - 1] != '.') continue;
        if (!continues(path, path, length) || continues(before, path, length)) continue;
        count = count_run(c, at, length);
        if (count > *most) *most = count;
        if (least == 0 || count < least || length >= sizeof w->blocks) continue;
        if (w->has_blocks && length <= strlen(w->blocks)) continue;
        memcpy(w->blocks, path, length);
        w->blocks[length] = '\0';
        w->has_blocks = true;
    }
}

/* The list of modules with most in it; of lists inside each other, the innermost that still has
 * almost as much. */
static void find_blocks(walk *w)
{
    size_t i, most = 0, none = 0;
    for (i = 0; i < checkpoint_attribute_count(w->checkpoint); i++) look_at_lists(w, i, 0, &most);
    for (i = 0; i < checkpoint_attribute_count(w->checkpoint); i++)
        look_at_lists(w, i, most - most / 3, &none);
}

static bool is_in_blocks(const walk *w, const char *module)
{
    return !w->has_blocks || continues(module, w->blocks, strlen(w->blocks));
}

/* The model itself, or what holds the blocks. */
static bool is_above_blocks(const walk *w, const char *module)
{
    const size_t length = strlen(module);
    return length == 0 || (w->has_blocks && !strncmp(w->blocks, module, length) &&
                           w->blocks[length] == '.');
}

/* === What single attributes mean === */

/* "config.num_heads" -> "num_heads" */
static const char *without_group(const char *name)
{
    static const char *const groups[] = {
        "config.", "cfg.", "args.", "hparams.", "_hparams.", "hyper_parameters.", "model_args.",
        "model_config.", "model_kwargs.", "kwargs."
    };
    size_t i;
    for (i = 0; i < COUNT(groups); i++)
        if (!strncmp(name, groups[i], strlen(groups[i]))) return name + strlen(groups[i]);
    return name;
}

static bool read_whole(const char *text, double *value)
{
    long number;
    if (!text_read_int(text, 1, 65536, &number)) return false;
    *value = (double)number;
    return true;
}

/* "16", "(16, 16)" or "(16)" */
static bool read_pair(const char *text, double *height, double *width)
{
    char first[32], second[32];
    const int found = sscanf(text, "(%31[0-9], %31[0-9])", first, second);
    if (found < 1) return read_whole(text, height) && read_whole(text, width);
    return read_whole(first, height) && read_whole(found == 2 ? second : first, width);
}

static void see_heads(walk *w, const checkpoint_attribute *a, const char *class)
{
    static const char *const names[] = {
        "num_heads", "n_heads", "nhead", "heads", "num_attention_heads", "n_head", "nheads",
        "code.num_heads"
    };
    static const char *const in_attention[] = { "h", "H" };
    const char *name = without_group(a->name);
    double value;
    const bool fits = is_one_of(name, names, COUNT(names)) ||
                      (strstr(class, "ttention") &&
                       is_one_of(name, in_attention, COUNT(in_attention)));
    if (!fits || !read_whole(a->value, &value)) return;
    if (w->has_blocks ? is_in_blocks(w, a->module) : a->module[0] != '\0')
        cast_vote(&w->heads, value, a);
    else if (is_above_blocks(w, a->module)) cast_vote(&w->model_heads, value, a);
}

static void see_eps(walk *w, const checkpoint_attribute *a, const char *class)
{
    static const char *const names[] = { "layer_norm_eps", "layernorm_eps", "norm_eps" };
    const char *kind = last_component(class);
    double value;
    const bool fits = !strcmp(a->name, "code.layer_norm_eps") ||
                      (!strcmp(a->name, "eps") && (strstr(kind, "LayerNorm") ||
                                                   strstr(kind, "RMSNorm"))) ||
                      (strchr(a->name, '.') &&
                       is_one_of(without_group(a->name), names, COUNT(names)));
    if (fits && text_read_number(a->value, 1e-30, 1, &value)) cast_vote(&w->eps, value, a);
}

/* By the last part of a function's, class's or string's name. */
static const struct { const char *name; int activation; } activations[] = {
    { "gelu", VIT_GELU }, { "GELU", VIT_GELU }, { "GELUActivation", VIT_GELU },
    { "gelu_tanh", VIT_GELU_TANH }, { "GELUTanh", VIT_GELU_TANH },
    { "PytorchGELUTanh", VIT_GELU_TANH }, { "NewGELUActivation", VIT_GELU_TANH },
    { "FastGELUActivation", VIT_GELU_TANH }, { "GELU_", VIT_GELU }, { "GeluActivation", VIT_GELU },
    { "QuickGELU", VIT_QUICK_GELU }, { "QuickGELUActivation", VIT_QUICK_GELU },
    { "quick_gelu", VIT_QUICK_GELU },
    { "silu", VIT_SILU }, { "SiLU", VIT_SILU }, { "SiLUActivation", VIT_SILU },
    { "Swish", VIT_SILU }, { "swish", VIT_SILU },
    { "relu", VIT_RELU }, { "ReLU", VIT_RELU }
};

static const char *const unknown_activations[] = {
    "CELU", "ELU", "Hardswish", "LeakyReLU", "Mish", "PReLU", "ReLU6", "RReLU", "SELU", "Softplus",
    "Softsign", "Tanh", "celu", "elu", "hardswish", "leaky_relu", "mish", "relu6", "selu"
};

static bool read_activation(const char *text, double *value)
{
    size_t i;
    for (i = 0; i < COUNT(activations); i++) {
        if (strcmp(last_component(text), activations[i].name) != 0) continue;
        *value = activations[i].activation;
        return true;
    }
    return false;
}

/* Is the GELU of this module, or of this attribute of it, the one by tanh? That comes after it. */
static bool is_by_tanh(const checkpoint *c, size_t at)
{
    const checkpoint_attribute *a = checkpoint_attribute_at(c, at), *b;
    char name[128];
    snprintf(name, sizeof name, "%.100s%sapproximate", strcmp(a->name, "class") ? a->name : "",
             strcmp(a->name, "class") ? "." : "");
    for (; (b = checkpoint_attribute_at(c, at)) != NULL && !strcmp(a->module, b->module); at++)
        if (!strcmp(b->name, name)) return !strcmp(b->value, "tanh");
    return false;
}

static void see_activation(walk *w, size_t at)
{
    static const char *const names[] = {
        "class", "activation", "act", "act_fn", "activation_fn", "act_layer", "hidden_act"
    };
    const checkpoint_attribute *a = checkpoint_attribute_at(w->checkpoint, at);
    const bool by_code = !strcmp(a->name, "code.activation");
    double value;
    if (!is_in_blocks(w, a->module)) return;
    if (by_code && read_activation(a->value, &value)) cast_vote(&w->code_activation, value, a);
    if (!is_one_of(a->name, names, COUNT(names))) return;
    if (read_activation(a->value, &value)) {
        if (value < VIT_GELU_TANH && is_by_tanh(w->checkpoint, at)) value = VIT_GELU_TANH;
        cast_vote(&w->activation, value, a);
    } else if (w->has_blocks && is_one_of(last_component(a->value), unknown_activations,
                                          COUNT(unknown_activations))) {
        w->unknown_activation = a;
    }
}

static void see_order(walk *w, const checkpoint_attribute *a)
{
    const bool is_first = !strcmp(a->name, "norm_first") || !strcmp(a->name, "code.norm_first");
    if (is_first && is_in_blocks(w, a->module))
        cast_vote(&w->norm_first, !strcmp(a->value, "true"), a);
    if (!strcmp(a->name, "batch_first") && is_in_blocks(w, a->module))
        cast_vote(&w->batch_first, !strcmp(a->value, "true"), a);
}

/* A layer of einops that cuts the patches: 'b c (h p1) (w p2) -> b (h w) (p1 p2 c)'. */
static void see_pattern(walk *w, const checkpoint_attribute *a)
{
    if (strcmp(a->name, "pattern") != 0 || !strstr(a->value, "(h p1) (w p2)")) return;
    if (strstr(a->value, "(p1 p2 c)")) cast_vote(&w->order, PATCH_ORDER_HWC, a);
    if (strstr(a->value, "(c p1 p2)")) cast_vote(&w->order, PATCH_ORDER_CHW, a);
}

static void see_input(walk *w, const checkpoint_attribute *a, const char *class)
{
    static const char *const chans[] = { "in_chans", "num_channels" };
    const char *name = a->name;
    double height, width;
    const bool patches = strstr(a->module, "patch") || strstr(class, "Patch");
    if (w->has_blocks && is_in_blocks(w, a->module)) return;
    if ((!patches && !is_above_blocks(w, a->module)) || !read_pair(a->value, &height, &width))
        return;
    if (!strcmp(name, "patch_size") && height <= width && width <= height)
        cast_vote(&w->patch, height, a);
    if (!strcmp(name, "img_size") || !strcmp(name, "image_size")) {
        cast_vote(&w->height, height, a);
        cast_vote(&w->width, width, a);
    }
    if (is_one_of(name, chans, COUNT(chans)) && a->value[0] != '(')
        cast_vote(&w->chans, height, a);
}

static bool is_weight_of(const char *weight, const char *module)
{
    const size_t length = strlen(module);
    return weight && !strncmp(weight, module, length) && !strcmp(weight + length, ".weight");
}

/* The convolution that reads the patches, or nn.Unfold in front of a linear layer. */
static void see_cut(walk *w, const checkpoint_attribute *a, const char *class)
{
    const struct { const char *name; vote *vote; } votes[] = {
        { "kernel_size", &w->kernel }, { "stride", &w->stride }, { "padding", &w->padding }
    };
    const char *kind = last_component(class);
    double height, width;
    size_t i;
    if (!(!strcmp(kind, "Conv2d") && is_weight_of(w->patch_weight, a->module)) &&
        !(!strcmp(kind, "Unfold") && w->has_blocks && !is_in_blocks(w, a->module)))
        return;
    for (i = 0; i < COUNT(votes); i++) {
        if (strcmp(a->name, votes[i].name) != 0 || !read_pair(a->value, &height, &width)) continue;
        cast_vote(votes[i].vote, height, a);
        cast_vote(votes[i].vote, width, a);
    }
}

static void see_pool(walk *w, const checkpoint_attribute *a)
{
    static const struct { const char *name, *word; int pool; } pools[] = {
        { "pool", "cls", VIT_POOL_TOKEN }, { "pool", "mean", VIT_POOL_AVG },
        { "global_pool", "token", VIT_POOL_TOKEN }, { "global_pool", "avg", VIT_POOL_AVG }
    };
    size_t i;
    for (i = 0; i < COUNT(pools) && is_above_blocks(w, a->module); i++)
        if (!strcmp(a->name, pools[i].name) && !strcmp(a->value, pools[i].word))
            cast_vote(&w->pool, pools[i].pool, a);
}

static void see_attributes(walk *w)
{
    const char *module = NULL, *class = "";
    size_t i;
    for (i = 0; i < checkpoint_attribute_count(w->checkpoint); i++) {
        const checkpoint_attribute *a = checkpoint_attribute_at(w->checkpoint, i);
        if (!module || strcmp(a->module, module) != 0)
            class = strcmp(a->name, "class") ? "" : a->value;
        module = a->module;
        see_heads(w, a, class);
        see_eps(w, a, class);
        see_activation(w, i);
        see_order(w, a);
        see_pattern(w, a);
        see_input(w, a, class);
        see_cut(w, a, class);
        see_pool(w, a);
    }
}

/* Options of a training program. Its own "eps" would be that of the optimizer. */
static void see_metadata(walk *w)
{
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(w->checkpoint); i++) {
        const checkpoint_metadata_entry *entry = checkpoint_metadata(w->checkpoint, i);
        checkpoint_attribute a = { "", NULL, NULL };
        a.name = entry->key;
        a.value = entry->value;
        if (!strncmp(a.name, "code.", 5)) continue;
        see_heads(w, &a, "");
        see_eps(w, &a, "");
    }
}

/* === Putting it into the settings === */

/* Some weight of the module that says so has rows for whole heads; or none of its weights are to be
 * found under its name. */
static bool heads_divide(const walk *w, const vote *v)
{
    const size_t length = strlen(v->module);
    bool found = false;
    size_t i;
    for (i = 0; i < checkpoint_count(w->checkpoint); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(w->checkpoint, i);
        if (t->ndim != 2 || strncmp(t->name, v->module, length) != 0) continue;
        if (t->dims[0] % (int64_t)v->value == 0 || t->dims[1] % (int64_t)v->value == 0)
            return true;
        found = true;
    }
    return !found;
}

static void put(const vote *v, setting_key key, settings *tensors, attributes_told *told)
{
    char value[32];
    if (!v->given || v->disputed) return;
    settings_put(tensors, key, v->value);
    text_append(told->text, sizeof told->text, "%s%s=%s (%.60s%s%.60s)",
                *told->text ? ", " : "", setting_rows[key].name,
                setting_text(key, v->value, value), v->module, v->module[0] ? "." : "", v->name);
}

static bool refuse_activation(const walk *w, const settings all[FROM_COUNT], report *r)
{
    const checkpoint_attribute *a = w->unknown_activation;
    if (!a || w->activation.given || w->code_activation.given ||
        settings_origin(all, SETTING_ACTIVATION) >= 0) return true;
    return report_fail(r, "%.100s is %.100s, which vit.h does not have; --set activation=NAME "
                       "takes another of %s", a->module, a->value,
                       setting_rows[SETTING_ACTIVATION].choices);
}

/* Patches side by side are not worth a word. */
static void put_stride(const walk *w, settings *tensors, attributes_told *told)
{
    const bool side_by_side = w->kernel.given && w->kernel.value == w->stride.value;
    if (w->kernel.disputed || w->stride.disputed || !w->stride.given) return;
    if (side_by_side) settings_put(tensors, SETTING_PATCH_STRIDE, 0);
    else put(&w->stride, SETTING_PATCH_STRIDE, tensors, told);
}

static bool refuse_cut(const walk *w, const settings all[FROM_COUNT], report *r)
{
    if (settings_origin(all, SETTING_PATCH_STRIDE) > FROM_TENSORS) return true;
    if (w->padding.given)
        return report_fail(r, "%.100s cuts patches out of a padded input, which vit.h does not; "
                           "--set patch_stride=N takes them without padding", w->padding.module);
    return !w->stride.disputed ||
           report_fail(r, "%.100s has strides that differ, and vit.h has one; --set "
                       "patch_stride=N gives it", w->stride.module);
}

bool attributes_put(const checkpoint *c, const char *patch, settings all[FROM_COUNT],
                    attributes_told *told, report *r)
{
    settings *tensors = &all[FROM_TENSORS];
    walk w;
    const vote *heads;
    memset(&w, 0, sizeof w);
    memset(told, 0, sizeof *told);
    w.checkpoint = c;
    w.patch_weight = patch;
    find_blocks(&w);
    see_attributes(&w);
    see_metadata(&w);
    heads = w.heads.given ? &w.heads : &w.model_heads;
    if (heads->given && heads_divide(&w, heads)) put(heads, SETTING_NUM_HEADS, tensors, told);
    put(&w.eps, SETTING_NORM_EPS, tensors, told);
    w.norm_first.value = w.norm_first.value > 0 ? VIT_BLOCK_PRE_NORM : VIT_BLOCK_POST_NORM;
    put(&w.norm_first, SETTING_BLOCK_TYPE, tensors, told);
    put(w.code_activation.given ? &w.code_activation : &w.activation, SETTING_ACTIVATION, tensors,
        told);   /* what is called counts, not what is there to be called */
    put(&w.patch, SETTING_PATCH_SIZE, tensors, told);
    put_stride(&w, tensors, told);
    put(&w.order, SETTING_PATCH_ORDER, tensors, told);
    put(&w.chans, SETTING_IN_CHANS, tensors, told);
    if (!w.height.disputed && !w.width.disputed) {
        put(&w.height, SETTING_IMG_HEIGHT, tensors, told);
        put(&w.width, SETTING_IMG_WIDTH, tensors, told);
    }
    put(&w.pool, SETTING_POOL, tensors, told);
    told->batch_second = w.batch_first.given && (w.batch_first.disputed || w.batch_first.value < 1);
    if (!told->batch_second) {
        w.batch_first.value = VIT_ATTENTION_ALL;
        put(&w.batch_first, SETTING_ATTENTION, tensors, told);
    }
    return refuse_activation(&w, all, r) && refuse_cut(&w, all, r);
}
