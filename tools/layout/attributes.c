#include "layout/detect.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { PATH_SIZE = 1200 };

/* All statements that modules make about one setting. Such a statement is an attribute of a module,
 * or a value in the author's code. The statements are disputed if their values differ. */
typedef struct vote {
    bool given, disputed;
    double value;
    /* the module, the attribute and the line of code of the first statement */
    const char *module, *name, *where;
} vote;

/* The state of reading the attributes of a model, module by module. Each member of type vote holds
 * the statements about the setting of the same name. */
typedef struct walk {
    const checkpoint *checkpoint;
    /* where the attributes come from; NULL if they come from the checkpoint */
    const code_found *code;
    const char *patch_weight; /* name of the weight that reads patches; NULL if there is none */
    char blocks[PATH_SIZE];   /* the path in front of a block's number, such as "encoder.layers." */
    bool has_blocks;
    /* true if height and width come from an option of the training program, not from a module */
    bool size_by_option;
    vote heads, model_heads, eps, activation, code_activation, norm_first, batch_first;
    vote patch, height, width, chans, order, pool;
    vote head_activation, scale; /* head_activation: the activation between the layers of a head */
    /* the kernel, stride and padding of the operation that cuts the patches */
    vote kernel, stride, padding;
    vote root; /* the root by which the attention scores are divided */
    vote pool_prefix, final_norm, fc_norm;
    vote end; /* the last step of the model, as a model_end */
    const checkpoint_attribute *unknown_activation, *unknown_code;
} walk;

static void cast_vote(vote *v, double value, const checkpoint_attribute *a) {
    if (v->given && (value < v->value || value > v->value)) v->disputed = true;
    if (v->given) return;
    v->given = true;
    v->value = value;
    v->module = a->module;
    v->name = a->name;
    v->where = a->where;
}

static size_t attribute_count(const walk *w) {
    return w->code ? w->code->count : checkpoint_attribute_count(w->checkpoint);
}

static const checkpoint_attribute *attribute_at(const walk *w, size_t i) {
    if (!w->code) return checkpoint_attribute_at(w->checkpoint, i);
    return i < w->code->count ? &w->code->items[i] : NULL;
}

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    size_t i;
    for (i = 0; i < count; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static const char *last_component(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* === The blocks === */

/* True if the path begins with this prefix and a number, like the path of a module in a list. */
static bool continues(const char *path, const char *prefix, size_t length) {
    return !strncmp(path, prefix, length) && path[length] >= '0' && path[length] <= '9';
}

/* Returns the number of attributes, from `first` on, whose modules are in one list: their paths
 * begin with the same `length` characters and a number. They are consecutive, because modules are
 * visited depth first. */
static size_t count_run(const walk *w, size_t first, size_t length) {
    const char *prefix = attribute_at(w, first)->module;
    size_t i = first;
    while (i < attribute_count(w) && continues(attribute_at(w, i)->module, prefix, length)) i++;
    return i - first;
}

/* Considers every list of modules that begins at this attribute. *most becomes the largest number
 * of attributes in one list. If `least` is not 0, w->blocks becomes the longest prefix of a list
 * with at least that many attributes. */
static void look_at_lists(walk *w, size_t at, size_t least, size_t *most) {
    const char *path = attribute_at(w, at)->module;
    const char *before = at > 0 ? attribute_at(w, at - 1)->module : "";
    size_t length;
    for (length = 0; path[length]; length++) {
        size_t count;
        if (length > 0 && path[length - 1] != '.') continue;
        if (!continues(path, path, length) || continues(before, path, length)) continue;
        count = count_run(w, at, length);
        if (count > *most) *most = count;
        if (least == 0 || count < least || length >= sizeof w->blocks) continue;
        if (w->has_blocks && length <= strlen(w->blocks)) continue;
        memcpy(w->blocks, path, length);
        w->blocks[length] = '\0';
        w->has_blocks = true;
    }
}

/* Finds the list of modules with the most attributes. If lists are nested, takes the innermost list
 * that has at least two thirds of these attributes. */
static void find_blocks(walk *w) {
    size_t i, most = 0, none = 0;
    for (i = 0; i < attribute_count(w); i++) look_at_lists(w, i, 0, &most);
    for (i = 0; i < attribute_count(w); i++) look_at_lists(w, i, most - most / 3, &none);
}

static bool is_in_blocks(const walk *w, const char *module) {
    return !w->has_blocks || continues(module, w->blocks, strlen(w->blocks));
}

/* True if the module is the model itself, or the module that holds the blocks. */
static bool is_above_blocks(const walk *w, const char *module) {
    const size_t length = strlen(module);
    return length == 0 ||
           (w->has_blocks && !strncmp(w->blocks, module, length) && w->blocks[length] == '.');
}

/* === Meanings of single attributes === */

/* Returns the name without the name of a group in front of it: "num_heads" for
 * "config.num_heads". */
static const char *without_group(const char *name) {
    static const char *const groups[] = {
        "config.json.", "config.yaml.",  "config.yml.",   "hparams.yaml.", "config.",
        "cfg.",         "args.",         "hparams.",      "_hparams.",     "hyper_parameters.",
        "model_args.",  "model_config.", "model_kwargs.", "kwargs.",
    };
    size_t i;
    for (i = 0; i < COUNT(groups); i++)
        if (!strncmp(name, groups[i], strlen(groups[i])))
            return without_group(name + strlen(groups[i]));
    return name;
}

static bool read_whole(const char *text, double *value) {
    long number;
    if (!text_read_int(text, 1, 65536, &number)) return false;
    *value = (double)number;
    return true;
}

/* Reads one or two numbers, written as "16", "(16, 16)" or "(16)". */
static bool read_pair(const char *text, double *height, double *width) {
    char first[32], second[32];
    const int found = sscanf(text, "(%31[0-9], %31[0-9])", first, second);
    if (found < 1) return read_whole(text, height) && read_whole(text, width);
    return read_whole(first, height) && read_whole(found == 2 ? second : first, width);
}

/* True for a word that can stand beside "head" or "heads" in the name of a number of heads. Any
 * other word gives the number another meaning, as in head_dim. */
static bool is_of_count(const char *word, size_t length) {
    static const char *const words[] = {
        "",      "n",     "nb",  "num",       "nr",      "no",  "number",      "of",
        "count", "attn",  "att", "attention", "self",    "sa",  "mha",         "msa",
        "mhsa",  "multi", "vit", "enc",       "encoder", "trf", "transformer",
    };
    size_t i;
    for (i = 0; i < COUNT(words); i++)
        if (strlen(words[i]) == length && !strncmp(word, words[i], length)) return true;
    return false;
}

/* True if the words of a name say that the value is a number of heads: "num_heads", "nb_heads",
 * "nHead", "attention_heads". */
static bool counts_heads(const char *name) {
    char plain[64];
    size_t i, used = 0, length;
    int heads = 0;
    if (strlen(name) > sizeof plain / 2) return false;
    for (i = 0; name[i]; i++) {
        const bool is_upper = name[i] >= 'A' && name[i] <= 'Z';
        if (is_upper && i > 0 && name[i - 1] >= 'a' && name[i - 1] <= 'z') plain[used++] = '_';
        plain[used++] = (char)(is_upper ? name[i] - 'A' + 'a' : name[i]);
    }
    plain[used] = '\0';
    for (i = 0; plain[i]; i += length + (plain[i + length] != '\0')) {
        const char *word = plain + i;
        size_t rest;
        length = strcspn(word, "_");
        rest = length - (length > 0 && word[length - 1] == 's');
        if (rest >= 4 && !strncmp(word + rest - 4, "head", 4)) heads++, rest -= 4;
        else rest = length;
        if (!is_of_count(word, rest)) return false;
    }
    return heads == 1;
}

/* True if the class or the name of the module is that of attention, as in "blocks.0.attn". */
static bool is_attention(const char *module, const char *class) {
    static const char *const parts[] = {
        "ttention", "ATTENTION", "Attn",     "attn", "MSA", "MHA",
        "MHSA",     "ultiHead",  "ultihead", "mhsa", "msa", "mha",
    };
    size_t i;
    for (i = 0; i < COUNT(parts); i++)
        if (strstr(last_component(class), parts[i]) || strstr(last_component(module), parts[i]))
            return true;
    return false;
}

static void see_heads(walk *w, const checkpoint_attribute *a, const char *class) {
    static const char *const in_attention[] = { "h", "H", "nh" };
    const char *name = without_group(a->name);
    double value;
    const bool fits = counts_heads(name) || !strcmp(name, "code.num_heads") ||
                      (is_one_of(name, in_attention, COUNT(in_attention)) &&
                       is_attention(a->module, class));
    if (!fits || !read_whole(a->value, &value)) return;
    /* in the author's code, a value of 1 may be something else than a number of heads */
    if (!strcmp(name, "code.num_heads") && value < 2) return;
    if (w->has_blocks ? is_in_blocks(w, a->module) : a->module[0] != '\0')
        cast_vote(&w->heads, value, a);
    else if (is_above_blocks(w, a->module)) cast_vote(&w->model_heads, value, a);
}

static void see_eps(walk *w, const checkpoint_attribute *a, const char *class) {
    static const char *const names[] = { "layer_norm_eps", "layernorm_eps", "norm_eps" };
    const char *kind = last_component(class);
    double value;
    const bool fits = !strcmp(a->name, "code.layer_norm_eps") ||
                      (!strcmp(a->name, "eps") &&
                       (strstr(kind, "LayerNorm") || strstr(kind, "RMSNorm"))) ||
                      (strchr(a->name, '.') &&
                       is_one_of(without_group(a->name), names, COUNT(names)));
    if (fits && text_read_number(a->value, 1e-30, 1, &value)) cast_vote(&w->eps, value, a);
}

/* The activations by name. A name is a string, or the last part of the name of a function or class.
 * It is compared in lower case, without '_' and without "activation" at its end. */
static const struct {
    const char *name;
    int activation;
} activations[] = {
    { "gelu", VIT_GELU },
    { "gelupython", VIT_GELU },
    { "gelutanh", VIT_GELU_TANH },
    { "pytorchgelutanh", VIT_GELU_TANH },
    { "gelupytorchtanh", VIT_GELU_TANH },
    { "newgelu", VIT_GELU_TANH },
    { "gelunew", VIT_GELU_TANH },
    { "fastgelu", VIT_GELU_TANH },
    { "gelufast", VIT_GELU_TANH },
    { "accurategelu", VIT_GELU_TANH },
    { "geluaccurate", VIT_GELU_TANH },
    { "quickgelu", VIT_QUICK_GELU },
    { "silu", VIT_SILU },
    { "swish", VIT_SILU },
    { "relu", VIT_RELU },
};

static const char *const unknown_activations[] = {
    "celu",        "elu",        "hardshrink", "hardsigmoid", "hardswish",  "hardtanh",
    "leakyrelu",   "logsigmoid", "mish",       "prelu",       "relu6",      "relusquared",
    "rrelu",       "selu",       "sigmoid",    "softplus",    "softshrink", "softsign",
    "squaredrelu", "tanh",       "tanhshrink", "threshold",
};

static void plain_activation(const char *text, char plain[64]) {
    static const char end[] = "activation";
    size_t used = 0;
    for (text = last_component(text); *text && used + 1 < 64; text++)
        if (*text != '_') plain[used++] = (char)(*text | (*text >= 'A' && *text <= 'Z' ? 0x20 : 0));
    plain[used] = '\0';
    if (used > strlen(end) && !strcmp(plain + used - strlen(end), end))
        plain[used - strlen(end)] = '\0';
}

static bool read_activation(const char *text, double *value) {
    char plain[64];
    size_t i;
    plain_activation(text, plain);
    for (i = 0; i < COUNT(activations); i++) {
        if (strcmp(plain, activations[i].name) != 0) continue;
        *value = activations[i].activation;
        return true;
    }
    return false;
}

static bool is_unknown_activation(const char *text) {
    char plain[64];
    plain_activation(text, plain);
    return is_one_of(plain, unknown_activations, COUNT(unknown_activations));
}

/* True if the GELU of the attribute at `at` has the tanh form. An attribute "approximate" of the
 * same module, at `at` or later, shows the form. */
static bool is_by_tanh(const walk *w, size_t at) {
    const checkpoint_attribute *a = attribute_at(w, at), *b;
    char name[128];
    snprintf(name, sizeof name, "%.100s%sapproximate", strcmp(a->name, "class") ? a->name : "",
             strcmp(a->name, "class") ? "." : "");
    for (; (b = attribute_at(w, at)) != NULL && !strcmp(a->module, b->module); at++)
        if (!strcmp(b->name, name)) return !strcmp(b->value, "tanh");
    return false;
}

/* Reads an activation between the layers of a head. Every activation outside the blocks, a stem and
 * the embedding counts as one, except sigmoid. */
static void see_head_activation(walk *w, const checkpoint_attribute *a, size_t at) {
    char plain[64], word[32];
    double value;
    int found = -1;
    if (strstr(a->module, "patch") || strstr(a->module, "embed") || strstr(a->module, "stem"))
        return;
    plain_activation(a->value, plain);
    /* a sigmoid outside the blocks is the last step of the model */
    if (!strcmp(plain, "sigmoid")) return;
    if (read_activation(a->value, &value)) {
        if (value < VIT_GELU_TANH && is_by_tanh(w, at)) value = VIT_GELU_TANH;
        found = setting_find_word(SETTING_REPRESENTATION_ACTIVATION,
                                  setting_text(SETTING_ACTIVATION, value, word));
    } else if (!strcmp(plain, "tanh")) {
        found = setting_find_word(SETTING_REPRESENTATION_ACTIVATION, plain);
    }
    if (found >= 0) cast_vote(&w->head_activation, found, a);
    else if (is_unknown_activation(a->value)) w->head_activation.disputed = true;
}

static void see_activation(walk *w, size_t at) {
    static const char *const names[] = {
        "class", "activation", "act", "act_fn", "activation_fn", "act_layer", "hidden_act",
    };
    const checkpoint_attribute *a = attribute_at(w, at);
    const bool by_code = !strcmp(a->name, "code.activation");
    double value;
    if (!is_in_blocks(w, a->module)) {
        if (by_code || !strcmp(a->name, "class")) see_head_activation(w, a, at);
        return;
    }
    if (by_code && read_activation(a->value, &value)) cast_vote(&w->code_activation, value, a);
    else if (by_code && !w->unknown_code) w->unknown_code = a;
    if (!is_one_of(a->name, names, COUNT(names))) return;
    if (read_activation(a->value, &value)) {
        if (value < VIT_GELU_TANH && is_by_tanh(w, at)) value = VIT_GELU_TANH;
        cast_vote(&w->activation, value, a);
    } else if (w->has_blocks && is_unknown_activation(a->value)) {
        w->unknown_activation = a;
    }
}

static void see_order(walk *w, const checkpoint_attribute *a) {
    const char *name = without_group(a->name);
    const bool is_first = !strcmp(name, "norm_first") || !strcmp(name, "code.norm_first");
    if (is_first && is_in_blocks(w, a->module))
        cast_vote(&w->norm_first, !strcmp(a->value, "true"), a);
    if (!strcmp(name, "batch_first") && is_in_blocks(w, a->module))
        cast_vote(&w->batch_first, !strcmp(a->value, "true"), a);
}

/* Reads the pattern of an einops layer that cuts the patches, such as 'b c (h p1) (w p2) -> b (h w)
 * (p1 p2 c)'. */
static void see_pattern(walk *w, const checkpoint_attribute *a) {
    if (strcmp(a->name, "pattern") != 0 || !strstr(a->value, "(h p1) (w p2)")) return;
    if (strstr(a->value, "(p1 p2 c)")) cast_vote(&w->order, PATCH_ORDER_HWC, a);
    if (strstr(a->value, "(c p1 p2)")) cast_vote(&w->order, PATCH_ORDER_CHW, a);
}

static void see_input(walk *w, const checkpoint_attribute *a, const char *class) {
    /* in_channels, the last name, counts only in the model itself: all convolutions have it */
    static const char *const chans[] = { "in_chans", "num_channels", "in_channels" };
    const char *name = without_group(a->name);
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
    if (is_one_of(name, chans, COUNT(chans) - (*a->module != '\0')) && a->value[0] != '(')
        cast_vote(&w->chans, height, a);
}

static bool is_weight_of(const char *weight, const char *module) {
    const size_t length = strlen(module);
    return weight && !strncmp(weight, module, length) && !strcmp(weight + length, ".weight");
}

/* Reads the attributes of the operation that cuts the patches: a convolution, or nn.Unfold in front
 * of a linear layer. */
static void see_cut(walk *w, const checkpoint_attribute *a, const char *class) {
    const struct {
        const char *name;
        vote *vote;
    } votes[] = {
        { "kernel_size", &w->kernel },
        { "stride", &w->stride },
        { "padding", &w->padding },
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

static void see_pool(walk *w, const checkpoint_attribute *a) {
    static const struct {
        const char *name, *word;
        int pool;
    } pools[] = {
        { "pool", "cls", VIT_POOL_TOKEN },          { "pool", "mean", VIT_POOL_AVG },
        { "global_pool", "token", VIT_POOL_TOKEN }, { "global_pool", "avg", VIT_POOL_AVG },
        { "code.pool", "token", VIT_POOL_TOKEN },   { "code.pool", "avg", VIT_POOL_AVG },
    };
    size_t i;
    if (!strcmp(a->name, "code.pool_prefix") && is_above_blocks(w, a->module))
        cast_vote(&w->pool_prefix, !strcmp(a->value, "true"), a);
    if (!strcmp(a->name, "code.norm_after_pool") && is_above_blocks(w, a->module)) {
        cast_vote(&w->final_norm, strcmp(a->value, "true") != 0, a);
        cast_vote(&w->fc_norm, !strcmp(a->value, "true"), a);
    }
    for (i = 0; i < COUNT(pools) && is_above_blocks(w, a->module); i++)
        if (!strcmp(without_group(a->name), pools[i].name) && !strcmp(a->value, pools[i].word))
            cast_vote(&w->pool, pools[i].pool, a);
}

static void see_scale(walk *w, const checkpoint_attribute *a) {
    const int root = !strcmp(a->name, "code.attn_root")
                         ? setting_find_word(SETTING_ATTN_ROOT, a->value)
                         : -1;
    if (!is_in_blocks(w, a->module)) return;
    if (!strcmp(a->name, "code.attn_scale")) cast_vote(&w->scale, 1, a);
    if (root >= 0) cast_vote(&w->root, root, a);
}

/* Takes a softmax or sigmoid as the last step of the model if it is outside the blocks and outside
 * any attention. A pooling, for example, may contain attention outside the blocks. */
static void see_end(walk *w, const checkpoint_attribute *a) {
    static const struct {
        const char *name, *value;
        model_end end;
    } ends[] = {
        { "class", "Softmax", MODEL_END_SOFTMAX },
        { "class", "LogSoftmax", MODEL_END_LOG_SOFTMAX },
        { "class", "Sigmoid", MODEL_END_SIGMOID },
        { "code.softmax", "softmax", MODEL_END_SOFTMAX },
        { "code.softmax", "log_softmax", MODEL_END_LOG_SOFTMAX },
        { "code.activation", "sigmoid", MODEL_END_SIGMOID },
    };
    size_t i;
    if (!w->has_blocks || is_in_blocks(w, a->module) || strstr(a->module, "att")) return;
    for (i = 0; i < COUNT(ends); i++)
        if (!strcmp(a->name, ends[i].name) && !strcmp(last_component(a->value), ends[i].value))
            cast_vote(&w->end, ends[i].end, a);
}

static void see_attributes(walk *w) {
    const char *module = NULL, *class = "";
    size_t i;
    for (i = 0; i < attribute_count(w); i++) {
        const checkpoint_attribute *a = attribute_at(w, i);
        if (!module || strcmp(a->module, module) != 0)
            class = strcmp(a->name, "class") ? "" : a->value;
        module = a->module;
        see_heads(w, a, class);
        see_eps(w, a, class);
        see_activation(w, i);
        see_order(w, a);
        see_scale(w, a);
        see_pattern(w, a);
        see_input(w, a, class);
        see_cut(w, a, class);
        see_pool(w, a);
        see_end(w, a);
    }
}

/* Reads the options of a training program, and the settings in the author's own files. Ignores
 * "eps", because this option of a training program belongs to the optimizer. An image size among
 * these options is only a hint: it may be the size before a crop. */
static void see_metadata(walk *w) {
    static const char *const activations_of[] = {
        "activation", "act", "act_layer", "act_fn", "hidden_act", "activation_fn",
    };
    double value;
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(w->checkpoint); i++) {
        const checkpoint_metadata_entry *entry = checkpoint_metadata(w->checkpoint, i);
        checkpoint_attribute a = { "", NULL, NULL, NULL };
        a.name = entry->key;
        a.value = entry->value;
        const bool had_size = w->height.given;
        if (!strncmp(a.name, "code.", 5)) continue;
        see_heads(w, &a, "");
        see_eps(w, &a, "");
        if (is_one_of(without_group(a.name), activations_of, COUNT(activations_of)) &&
            !w->activation.given && read_activation(a.value, &value))
            cast_vote(&w->activation, value, &a);
        if (strncmp(a.name, "args.", 5) != 0) see_input(w, &a, "");
        w->size_by_option = w->size_by_option || (w->height.given && !had_size);
        see_order(w, &a);
        see_pool(w, &a);
    }
}

/* === From attributes to settings === */

/* True if the number of heads divides the number of rows or columns of some matrix of the module.
 * Also true if the module has no matrix. */
static bool heads_divide(const walk *w, const vote *v) {
    const size_t length = strlen(v->module);
    bool found = false;
    size_t i;
    for (i = 0; i < checkpoint_count(w->checkpoint); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(w->checkpoint, i);
        if (t->ndim != 2 || strncmp(t->name, v->module, length) != 0) continue;
        if (t->dims[0] % (int64_t)v->value == 0 || t->dims[1] % (int64_t)v->value == 0) return true;
        found = true;
    }
    return !found;
}

/* Stores in *tensors the value on which the statements agree, and mentions the value in *told.
 * Statements in the code count only for settings that the file itself does not give. */
static void put(const vote *v, setting_key key, settings *tensors, attributes_told *told) {
    char text[32];
    const char *value;
    if (!v->given || v->disputed || (v->where && tensors->given[key])) return;
    settings_put(tensors, key, v->value);
    if (v->where) settings_put(&told->by_code, key, v->value);
    value = setting_text(key, v->value, text);
    if (v->where)
        text_append(told->code, sizeof told->code, "%s%s=%s (%s)", *told->code ? ", " : "",
                    setting_rows[key].name, value, v->where);
    else
        text_append(told->text, sizeof told->text, "%s%s=%s (%.60s%s%.60s)",
                    *told->text ? ", " : "", setting_rows[key].name, value, v->module,
                    v->module[0] ? "." : "", v->name);
}

/* Refuses an activation that vit.h lacks if the author's code calls it. If the code calls none,
 * refuses that of a module, unless a module has a known one. Accepts both if the code also calls a
 * known one, or if a source of higher precedence gives the activation. */
static bool refuse_activation(const walk *w, const settings all[FROM_COUNT], report *r) {
    const checkpoint_attribute *a = w->unknown_code       ? w->unknown_code
                                    : w->activation.given ? NULL
                                                          : w->unknown_activation;
    if (!a || w->code_activation.given || settings_origin(all, SETTING_ACTIVATION) > FROM_TENSORS)
        return true;
    return report_fail(r,
                       "%.100s %s %.100s, which vit.h lacks; --set activation=NAME selects one "
                       "of %s",
                       a->module[0] ? a->module : "the model", w->unknown_code ? "calls" : "is",
                       a->value, setting_rows[SETTING_ACTIVATION].choices);
}

/* Returns the reason to doubt the activation; NULL if there is none. The usual activation is only a
 * guess if the code calls no known activation, several of them, or also an unknown one. Calls of
 * sigmoid and tanh raise no doubt, because a gate in a block calls them too. */
static const char *doubt_activation(const walk *w) {
    const bool is_code = !strcmp(checkpoint_kind(w->checkpoint), "TorchScript");
    const char *other = w->unknown_code ? w->unknown_code->value : "tanh";
    if (w->code_activation.disputed || (!w->code_activation.given && w->activation.disputed))
        return "the blocks have several activations";
    if (w->code_activation.given && w->has_blocks && strcmp(other, "tanh") != 0 &&
        strcmp(other, "sigmoid") != 0)
        return "the code of the blocks also calls an activation that vit.h lacks";
    return is_code && !w->code_activation.given && !w->activation.given
               ? "the code of the blocks calls no known activation"
               : NULL;
}

/* Sets the stride of the patches. The default, 0, means that the patches lie side by side. */
static void put_stride(const walk *w, settings *tensors, attributes_told *told) {
    const bool side_by_side = w->kernel.given && w->kernel.value == w->stride.value;
    if (w->kernel.disputed || w->stride.disputed || !w->stride.given) return;
    if (side_by_side) settings_put(tensors, SETTING_PATCH_STRIDE, 0);
    else put(&w->stride, SETTING_PATCH_STRIDE, tensors, told);
}

static bool refuse_cut(const walk *w, const settings all[FROM_COUNT], report *r) {
    if (settings_origin(all, SETTING_PATCH_STRIDE) > FROM_TENSORS) return true;
    if (w->padding.given)
        return report_fail(r,
                           "%.100s cuts patches out of a padded input, which vit.h does not "
                           "support; --set patch_stride=N cuts them without padding",
                           w->padding.module);
    return !w->stride.disputed ||
           report_fail(r,
                       "%.100s has several strides, but vit.h supports only one; "
                       "--set patch_stride=N selects it",
                       w->stride.module);
}

/* Stores all settings on which the statements agree. */
static void put_all(walk *w, settings *tensors, attributes_told *told) {
    const vote *heads = w->heads.given ? &w->heads : &w->model_heads;
    if (!heads->given || heads_divide(w, heads)) put(heads, SETTING_NUM_HEADS, tensors, told);
    else if (!heads->where)
        text_append(
            told->text, sizeof told->text,
            "num_heads=%.0f (%.60s%s%.60s) is ignored, because it divides no dimension of the "
            "module's matrices",
            heads->value, heads->module, heads->module[0] ? "." : "", heads->name);
    put(&w->eps, SETTING_NORM_EPS, tensors, told);
    put(&w->scale, SETTING_ATTN_SCALE, tensors, told);
    put(&w->root, SETTING_ATTN_ROOT, tensors, told);
    w->norm_first.value = w->norm_first.value > 0 ? VIT_BLOCK_PRE_NORM : VIT_BLOCK_POST_NORM;
    put(&w->norm_first, SETTING_BLOCK_TYPE, tensors, told);
    if (!told->activation_doubt)
        put(w->code_activation.given ? &w->code_activation : &w->activation, SETTING_ACTIVATION,
            tensors, told);
    put(&w->patch, SETTING_PATCH_SIZE, tensors, told);
    put_stride(w, tensors, told);
    put(&w->order, SETTING_PATCH_ORDER, tensors, told);
    put(&w->chans, SETTING_IN_CHANS, tensors, told);
    if (!w->height.disputed && !w->width.disputed) {
        told->size_is_hint = w->size_by_option ||
                             (w->height.where && !tensors->given[SETTING_IMG_HEIGHT]);
        put(&w->height, SETTING_IMG_HEIGHT, tensors, told);
        put(&w->width, SETTING_IMG_WIDTH, tensors, told);
    }
    put(&w->head_activation, SETTING_REPRESENTATION_ACTIVATION, tensors, told);
    put(&w->pool, SETTING_POOL, tensors, told);
    put(&w->pool_prefix, SETTING_POOL_PREFIX, tensors, told);
    put(&w->final_norm, SETTING_FINAL_NORM, tensors, told);
    put(&w->fc_norm, SETTING_FC_NORM, tensors, told);
    if (w->end.given && !w->end.disputed && told->end == MODEL_END_NONE)
        told->end = (model_end)w->end.value;
    w->end.value = VIT_HEAD_SIGMOID;
    if (told->end == MODEL_END_SIGMOID) put(&w->end, SETTING_HEAD_ACTIVATION, tensors, told);
    if (w->batch_first.given)
        told->batch_second = w->batch_first.disputed || w->batch_first.value < 1;
    if (!told->batch_second) {
        w->batch_first.value = VIT_ATTENTION_ALL;
        put(&w->batch_first, SETTING_ATTENTION, tensors, told);
    }
}

static void start(walk *w, const checkpoint *c, const char *patch, const code_found *code) {
    memset(w, 0, sizeof *w);
    w->checkpoint = c;
    w->code = code;
    w->patch_weight = patch;
    find_blocks(w);
    see_attributes(w);
}

bool attributes_put(const checkpoint *c, const char *patch, settings all[FROM_COUNT],
                    attributes_told *told, report *r) {
    walk w;
    memset(told, 0, sizeof *told);
    start(&w, c, patch, NULL);
    see_metadata(&w);
    told->activation_doubt = doubt_activation(&w);
    put_all(&w, &all[FROM_TENSORS], told);
    told->head_is_plain = w.has_blocks && !strcmp(checkpoint_kind(c), "TorchScript") &&
                          !w.head_activation.given && !w.head_activation.disputed;
    return refuse_activation(&w, all, r) && refuse_cut(&w, all, r);
}

void code_put(const checkpoint *c, const char *patch, const code_found *found,
              settings all[FROM_COUNT], attributes_told *told) {
    settings *tensors = &all[FROM_TENSORS];
    walk w;
    int i;
    start(&w, c, patch, found);
    put_all(&w, tensors, told);
    if (!tensors->mean_count && !tensors->std_count && found->mean_count) {
        tensors->mean_count = found->mean_count;
        tensors->std_count = found->std_count;
        for (i = 0; i < VIT_MAX_CHANS; i++) {
            tensors->mean[i] = found->mean[i];
            tensors->std[i] = found->std[i];
        }
        text_append(told->code, sizeof told->code, "%smean and std (%s)", *told->code ? ", " : "",
                    found->normalize);
    }
}
