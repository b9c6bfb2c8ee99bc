#define _POSIX_C_SOURCE 200809L

#include "layout.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === The layout of timm ===
 * Also of DeiT, DINO and MAE, and the names that a .vit file uses: sources equal tensors. */

static const char *const timm_prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "encoder.", "base_encoder.", "vit.", "net.",
    "timm_model.", "visual.trunk.", "visual.", "vision_encoder.", "image_encoder.model.", NULL
};

#define SAME(name) { name, name, LAYOUT_COPY }

static const layout_rule timm_rules[] = {
    SAME("cls_token"),
    SAME("dist_token"),
    { "pos_embed", "pos_embed", LAYOUT_POSITIONS },
    { "patch_embed.proj.weight", "patch_embed.proj.weight", LAYOUT_PATCH },
    SAME("patch_embed.proj.bias"),
    SAME("patch_embed.norm.weight"),
    SAME("patch_embed.norm.bias"),
    SAME("blocks.{i}.norm1.weight"),
    SAME("blocks.{i}.norm1.bias"),
    SAME("blocks.{i}.attn.qkv.weight"),
    SAME("blocks.{i}.attn.qkv.bias"),
    SAME("blocks.{i}.attn.proj.weight"),
    SAME("blocks.{i}.attn.proj.bias"),
    SAME("blocks.{i}.norm2.weight"),
    SAME("blocks.{i}.norm2.bias"),
    SAME("blocks.{i}.mlp.fc1.weight"),
    SAME("blocks.{i}.mlp.fc1.bias"),
    SAME("blocks.{i}.mlp.fc2.weight"),
    SAME("blocks.{i}.mlp.fc2.bias"),
    SAME("norm.weight"),
    SAME("norm.bias"),
    SAME("reg_token"),
    SAME("norm_pre.weight"),
    SAME("norm_pre.bias"),
    SAME("blocks.{i}.attn.q_norm.weight"),
    SAME("blocks.{i}.attn.q_norm.bias"),
    SAME("blocks.{i}.attn.k_norm.weight"),
    SAME("blocks.{i}.attn.k_norm.bias"),
    SAME("blocks.{i}.attn.norm.weight"),
    SAME("blocks.{i}.attn.norm.bias"),
    SAME("blocks.{i}.ls1.gamma"),
    SAME("blocks.{i}.mlp.norm.weight"),
    SAME("blocks.{i}.mlp.norm.bias"),
    SAME("blocks.{i}.ls2.gamma"),
    SAME("fc_norm.weight"),
    SAME("fc_norm.bias"),
    SAME("pre_logits.fc.weight"),
    SAME("pre_logits.fc.bias"),
    SAME("head.weight"),
    SAME("head.bias"),
    SAME("head_dist.weight"),
    SAME("head_dist.bias"),
    { NULL, NULL, LAYOUT_COPY }
};

static const layout_extra timm_harmless[] = {
    { "mask_token", "of pre-training" },
    { "decoder_*", "of pre-training (MAE)" },
    { "*position_ids", "an index, not a weight" },
    { "head_dist.*", "of a distilled teacher; without a distillation token it is not run" },
    { "lm_head.*", "of pre-training" },
    { "text_*", "of a text tower" },
    { "logit_scale", "of contrastive training" },
    { NULL, NULL }
};

static const layout_extra timm_lacking[] = {
    { "register_tokens", "register tokens (reg_tokens)" },
    { "attn_pool.*", "attention pooling (global_pool=map)" },
    { "blocks.*.gamma_[12]", "layer scale (init_values)" },
    { "blocks.*.attn.[qv]_bias", "separate biases of queries and values" },
    { "blocks.*.attn.relative_position_*", "relative positions" },
    { "blocks.*.attn.lambda_*", "differential attention (attn_layer=diff)" },
    { "blocks.*.mlp.fc1_[gx].*", "SwiGLU (mlp_layer)" },
    { "blocks.*.mlp.w12.*", "SwiGLU (mlp_layer)" },
    { "blocks.*.mlp.w3.*", "SwiGLU (mlp_layer)" },
    { "blocks.*.in_proj.*", "parallel blocks (block_fn)" },
    { "blocks.*.attns.*", "parallel blocks (block_fn)" },
    { "patch_embed.backbone.*", "a convolutional stem (hybrid model)" },
    { NULL, NULL }
};

static const layout layouts[] = {
    { "timm", "patch_embed.proj.weight", timm_prefixes, timm_rules, timm_harmless, timm_lacking }
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { LAYOUT_MAX_KEY = 1200, LAYOUT_MAX_LISTED = 10 };

/* === Text === */

const char *layout_shape(const int64_t *dims, int ndim, char *text, size_t size)
{
    size_t used = 0;
    int i;
    text[0] = '\0';
    for (i = 0; i < ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "[",
                                 (long long)dims[i]);
    if (used < size) snprintf(text + used, size - used, ndim ? "]" : "[]");
    return text;
}

static const char *info_shape(const checkpoint_tensor_info *info, char *text, size_t size)
{
    return layout_shape(info->dims, info->ndim, text, size);
}

static const char *tensor_shape(const vit_tensor *tensor, char *text, size_t size)
{
    int64_t dims[4];
    int i;
    for (i = 0; i < tensor->ndim; i++) dims[i] = tensor->dims[i];
    return layout_shape(dims, tensor->ndim, text, size);
}

static const layout_extra *find_extra(const layout_extra *extras, const char *key)
{
    for (; extras->pattern; extras++)
        if (!fnmatch(extras->pattern, key, 0)) return extras;
    return NULL;
}

/* === Detection === */

/* True if text is made of prefixes alone. */
static bool is_prefix(const layout *l, const char *text, size_t size)
{
    const char *const *prefix;
    if (size == 0) return true;
    for (prefix = l->prefixes; *prefix; prefix++) {
        size_t length = strlen(*prefix);
        if (length <= size && !memcmp(text, *prefix, length) &&
            is_prefix(l, text + length, size - length))
            return true;
    }
    return false;
}

/* Number of tensors that are the probe behind a prefix; the first prefix is kept. */
static int probe(const layout *l, checkpoint *c, char *prefix, size_t prefix_size, char *second)
{
    size_t probe_length = strlen(l->probe), i;
    int found = 0;
    for (i = 0; i < checkpoint_count(c); i++) {
        const char *name = checkpoint_tensor(c, i)->name;
        size_t length = strlen(name), head;
        if (length < probe_length || strcmp(name + length - probe_length, l->probe) != 0) continue;
        head = length - probe_length;
        if (head >= prefix_size || !is_prefix(l, name, head)) continue;
        snprintf(found ? second : prefix, prefix_size, "%.*s", (int)head, name);
        if (head == 0 && found) { /* the plain name beats every wrapped one */
            prefix[0] = '\0';
            return 1;
        }
        found++;
    }
    return found && prefix[0] == '\0' ? 1 : found;
}

static bool no_layout(checkpoint *c, report *r)
{
    const checkpoint_tensor_info *first = checkpoint_count(c) ? checkpoint_tensor(c, 0) : NULL;
    char shape[128];
    if (!first) return report_fail(r, "expected the tensors of a ViT, found no tensors");
    return report_fail(r, "expected timm's layout (patch_embed.proj.weight), found %zu tensors "
                       "such as %.200s %s", checkpoint_count(c), first->name,
                       info_shape(first, shape, sizeof shape));
}

bool layout_detect(checkpoint *c, layout_map *map, report *r)
{
    size_t i;
    memset(map, 0, sizeof *map);
    map->checkpoint = c;
    for (i = 0; i < COUNT(layouts); i++) {
        char second[sizeof map->prefix];
        int found = probe(&layouts[i], c, map->prefix, sizeof map->prefix, second);
        if (found == 0) continue;
        if (found > 1)
            return report_fail(r, "expected one model, found several: %s... and %s...",
                               map->prefix, second);
        map->layout = &layouts[i];
        return true;
    }
    return no_layout(c, r);
}

/* === Keys === */

/* The rule for a tensor of the file; *block receives the number that stands for {i}, or -1. */
static const layout_rule *find_rule(const layout *l, const char *tensor, int *block)
{
    const layout_rule *rule;
    for (rule = l->rules; rule->tensor; rule++) {
        const char *mark = strstr(rule->tensor, "{i}");
        size_t head = mark ? (size_t)(mark - rule->tensor) : 0, digits;
        *block = -1;
        if (!mark) {
            if (!strcmp(rule->tensor, tensor)) return rule;
            continue;
        }
        if (strncmp(rule->tensor, tensor, head) != 0) continue;
        digits = strspn(tensor + head, "0123456789");
        if (digits == 0 || digits > 6 || strcmp(tensor + head + digits, mark + 3) != 0) continue;
        *block = atoi(tensor + head);
        return rule;
    }
    return NULL;
}

static void make_key(const layout_map *map, const char *pattern, int block, char *key,
                     size_t size)
{
    const char *mark = strstr(pattern, "{i}");
    if (mark)
        snprintf(key, size, "%s%.*s%d%s", map->prefix, (int)(mark - pattern), pattern, block,
                 mark + 3);
    else
        snprintf(key, size, "%s%s", map->prefix, pattern);
}

/* The checkpoint's tensor for a name of the file, or NULL. */
static const checkpoint_tensor_info *find_tensor(const layout_map *map, const char *name)
{
    char key[LAYOUT_MAX_KEY];
    int block;
    const layout_rule *rule = find_rule(map->layout, name, &block);
    if (!rule) return NULL;
    make_key(map, rule->source, block, key, sizeof key);
    return checkpoint_find(map->checkpoint, key);
}

/* === Features === */

static bool matches_any(const cli_list *patterns, const char *name)
{
    int i;
    for (i = 0; i < patterns->count; i++)
        if (!fnmatch(patterns->items[i], name, 0)) return true;
    return false;
}

/* The key without the prefix; the whole name where the prefix is not there. */
static const char *strip(const layout_map *map, const char *name)
{
    size_t length = strlen(map->prefix);
    return strncmp(name, map->prefix, length) ? name : name + length;
}

static bool is_ignored(const layout_map *map, const cli_list *ignore, const char *name)
{
    return matches_any(ignore, name) || matches_any(ignore, strip(map, name));
}

bool layout_check_features(const layout_map *map, const cli_list *ignore, report *r)
{
    char shape[128];
    size_t i;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const layout_extra *lacking = find_extra(map->layout->lacking, strip(map, info->name));
        if (!lacking || is_ignored(map, ignore, info->name)) continue;
        return report_fail(r, "%.200s %s: this version of vit.h lacks %s", info->name,
                           info_shape(info, shape, sizeof shape), lacking->meaning);
    }
    return true;
}

/* === Inspection === */

static int64_t dim_of(const layout_map *map, const char *name, int dim)
{
    const checkpoint_tensor_info *info = find_tensor(map, name);
    return info && dim < info->ndim ? info->dims[dim] : 0;
}

static void put_dim(settings *s, setting_key key, int64_t value)
{
    if (value > 0) settings_put(s, key, (double)value);
}

static void put_presence(const layout_map *map, settings *s, setting_key key, const char *name)
{
    settings_put(s, key, find_tensor(map, name) != NULL);
}

/* One more than the highest block; a gap below shows up as a missing tensor. */
static bool count_blocks(const layout_map *map, int *depth, report *r)
{
    static const char pattern[] = "blocks.{i}.norm1.weight";
    char first[LAYOUT_MAX_KEY];
    size_t head, i;
    make_key(map, pattern, 0, first, sizeof first);
    head = strlen(first) - strlen("0.norm1.weight");
    *depth = 0;
    for (i = 0; i < checkpoint_count(map->checkpoint); i++) {
        const char *name = checkpoint_tensor(map->checkpoint, i)->name;
        size_t digits;
        int block;
        if (strncmp(name, first, head) != 0) continue;
        digits = strspn(name + head, "0123456789");
        if (digits == 0 || name[head + digits] != '.') continue;
        block = digits < 5 ? atoi(name + head) : INT_MAX - 1;
        if (block >= 1024) return report_fail(r, "%.200s: more than 1024 blocks", name);
        if (block >= *depth) *depth = block + 1;
    }
    return true;
}

static bool inspect_patch(const layout_map *map, settings *s, settings_facts *facts, report *r)
{
    const checkpoint_tensor_info *patch = find_tensor(map, "patch_embed.proj.weight");
    char shape[128];
    if (!patch) return report_fail(r, "patch_embed.proj.weight is missing");
    if (patch->ndim == 2) {
        facts->patch_depth = patch->dims[1];
        put_dim(s, SETTING_EMBED_DIM, patch->dims[0]);
        return true;
    }
    if (patch->ndim != 4 || patch->dims[2] != patch->dims[3])
        return report_fail(r, "patch_embed.proj.weight: expected [D, C, P, P], found %s",
                           info_shape(patch, shape, sizeof shape));
    put_dim(s, SETTING_EMBED_DIM, patch->dims[0]);
    put_dim(s, SETTING_IN_CHANS, patch->dims[1]);
    put_dim(s, SETTING_PATCH_SIZE, patch->dims[2]);
    return true;
}

static bool inspect_positions(const layout_map *map, settings_facts *facts, report *r)
{
    const checkpoint_tensor_info *positions = find_tensor(map, "pos_embed");
    char shape[128];
    if (!positions) return true;
    if (positions->ndim != 3 || positions->dims[0] != 1 || positions->dims[1] < 1 ||
        positions->dims[1] > 1048576)
        return report_fail(r, "pos_embed: expected [1, tokens, D], found %s",
                           info_shape(positions, shape, sizeof shape));
    facts->position_rows = (int)positions->dims[1];
    return true;
}

static void inspect_stem(const layout_map *map, settings *s)
{
    put_presence(map, s, SETTING_CLS_TOKEN, "cls_token");
    put_presence(map, s, SETTING_DIST_TOKEN, "dist_token");
    settings_put(s, SETTING_REG_TOKENS, (double)dim_of(map, "reg_token", 1));
    put_presence(map, s, SETTING_PATCH_BIAS, "patch_embed.proj.bias");
    put_presence(map, s, SETTING_PATCH_NORM, "patch_embed.norm.weight");
    put_presence(map, s, SETTING_PRE_NORM, "norm_pre.weight");
}

static void inspect_block(const layout_map *map, settings *s, settings_facts *facts)
{
    int64_t fc1 = dim_of(map, "blocks.0.mlp.fc1.weight", 0);
    int64_t fc2 = dim_of(map, "blocks.0.mlp.fc2.weight", 1);
    facts->qkv_rows = dim_of(map, "blocks.0.attn.qkv.weight", 0);
    put_presence(map, s, SETTING_QKV_BIAS, "blocks.0.attn.qkv.bias");
    put_presence(map, s, SETTING_QK_NORM, "blocks.0.attn.q_norm.weight");
    put_presence(map, s, SETTING_ATTN_NORM, "blocks.0.attn.norm.weight");
    put_presence(map, s, SETTING_PROJ_BIAS, "blocks.0.attn.proj.bias");
    put_presence(map, s, SETTING_LAYER_SCALE, "blocks.0.ls1.gamma");
    put_presence(map, s, SETTING_MLP_NORM, "blocks.0.mlp.norm.weight");
    put_dim(s, SETTING_MLP_DIM, fc2);
    if (fc2 > 0) settings_put(s, SETTING_GATED_MLP, fc1 == 2 * fc2);
}

/* Norms without a bias may be RMS norms: the tensors do not say. */
static void inspect_norm_type(const layout_map *map, settings *s, int depth)
{
    if (find_tensor(map, "norm.bias") || find_tensor(map, "fc_norm.bias") ||
        find_tensor(map, "blocks.0.norm1.bias") ||
        (depth == 0 && !find_tensor(map, "norm.weight") && !find_tensor(map, "fc_norm.weight")))
        settings_put(s, SETTING_NORM_TYPE, VIT_LAYER_NORM);
}

static void inspect_tail(const layout_map *map, settings *s)
{
    int64_t width = dim_of(map, "head.weight", 1);
    put_presence(map, s, SETTING_FINAL_NORM, "norm.weight");
    put_presence(map, s, SETTING_FC_NORM, "fc_norm.weight");
    if (find_tensor(map, "attn_pool.kv.weight"))
        settings_put(s, SETTING_POOL, VIT_POOL_MAP);
    else if (width > 0 && width == 2 * dim_of(map, "patch_embed.proj.weight", 0))
        settings_put(s, SETTING_POOL, VIT_POOL_TOKEN_AVG);
    settings_put(s, SETTING_NUM_CLASSES, (double)dim_of(map, "head.weight", 0));
    settings_put(s, SETTING_REPRESENTATION_DIM, (double)dim_of(map, "pre_logits.fc.weight", 0));
}

bool layout_inspect(const layout_map *map, settings *s, settings_facts *facts, report *r)
{
    int depth;
    memset(facts, 0, sizeof *facts);
    if (!inspect_patch(map, s, facts, r) || !count_blocks(map, &depth, r)) return false;
    settings_put(s, SETTING_DEPTH, depth);
    inspect_stem(map, s);
    if (depth > 0) inspect_block(map, s, facts);
    inspect_norm_type(map, s, depth);
    inspect_tail(map, s);
    return inspect_positions(map, facts, r);
}

/* === The plan === */

static bool is_made_here(const char *name)
{
    return !strncmp(name, "preprocess.", 11) || !strncmp(name, "selftest.", 9);
}

static bool same_shape(const layout_item *item)
{
    int i;
    if (item->info->ndim != item->tensor.ndim) return false;
    for (i = 0; i < item->tensor.ndim; i++)
        if (item->info->dims[i] != item->tensor.dims[i]) return false;
    return true;
}

static bool shape_fits(const layout_item *item, const vit_config *config,
                       const settings_facts *facts)
{
    const checkpoint_tensor_info *info = item->info;
    if (same_shape(item)) return true;
    switch (item->transform) {
    case LAYOUT_PATCH:
        return info->ndim == 2 && info->dims[0] == config->embed_dim &&
               info->dims[1] == facts->patch_depth &&
               info->dims[1] == (int64_t)config->in_chans * config->patch_size * config->patch_size;
    case LAYOUT_POSITIONS:
        return info->ndim == 3 && info->dims[0] == 1 && info->dims[2] == config->embed_dim &&
               info->dims[1] == facts->position_rows;
    case LAYOUT_COPY:
        break;
    }
    return false;
}

/* The tensor's source, found and of the right shape. */
static bool plan_item(const layout_map *map, const vit_config *config,
                        const settings_facts *facts, layout_item *item, report *r)
{
    char expected[128], found[128], key[LAYOUT_MAX_KEY];
    int block;
    const layout_rule *rule;
    if (is_made_here(item->tensor.name)) return true;
    rule = find_rule(map->layout, item->tensor.name, &block);
    tensor_shape(&item->tensor, expected, sizeof expected);
    if (!rule)
        return report_fail(r, "%s %s: the %s layout has no such tensor", item->tensor.name,
                           expected, map->layout->name);
    make_key(map, rule->source, block, key, sizeof key);
    item->transform = rule->transform;
    item->info = checkpoint_find(map->checkpoint, key);
    if (!item->info)
        return report_fail(r, "%.200s is missing: expected %s", key, expected);
    if (item->info->dtype > CHECKPOINT_F64)
        return report_fail(r, "%.200s: expected floating-point weights, found %s", key,
                           checkpoint_dtype_name(item->info->dtype));
    if (shape_fits(item, config, facts)) return true;
    return report_fail(r, "%.200s: expected %s, found %s", key, expected,
                       info_shape(item->info, found, sizeof found));
}

static bool plan_items(const layout_map *map, const vit_config *config, vit_dtype dtype,
                         const settings_facts *facts, layout_plan *plan, report *r)
{
    vit_tensor tensor;
    size_t i;
    int count = 0;
    while (vit_architecture_tensor(config, dtype, count, &tensor)) count++;
    plan->count = (size_t)count;
    plan->items = calloc(plan->count + 1, sizeof *plan->items);
    if (!plan->items) return report_no_memory(r);
    for (i = 0; i < plan->count; i++) {
        vit_architecture_tensor(config, dtype, (int)i, &plan->items[i].tensor);
        if (!plan_item(map, config, facts, &plan->items[i], r)) return false;
    }
    return true;
}

/* --- tensors that nobody asked for --- */

static int compare_pointers(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* What --set num_classes=0 or representation_dim=0 asked to drop. */
static bool dropped_on_request(const vit_config *config, const char *key)
{
    if (config->num_classes == 0 && !strncmp(key, "head.", 5)) return true;
    if (config->num_classes == 0 && !strncmp(key, "head_dist.", 10)) return true;
    return config->representation_dim == 0 && !strncmp(key, "pre_logits.", 11);
}

typedef struct extras {
    char text[CHECKPOINT_ERROR_SIZE];
    size_t used;
    int count;
} extras;

static void add_extra(extras *list, const checkpoint_tensor_info *info)
{
    char shape[128];
    int written;
    if (list->count++ >= LAYOUT_MAX_LISTED || list->used >= sizeof list->text) return;
    written = snprintf(list->text + list->used, sizeof list->text - list->used, "%s%.100s %s",
                       list->used ? ", " : "", info->name, info_shape(info, shape, sizeof shape));
    if (written > 0) list->used += (size_t)written;
}

static bool plan_extras(const layout_map *map, const vit_config *config, const cli_list *ignore,
                        const char *const *used, layout_plan *plan, report *r)
{
    size_t total = checkpoint_count(map->checkpoint), i;
    extras list;
    memset(&list, 0, sizeof list);
    for (i = 0; i < total; i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const char *name = info->name, *key = strip(map, name);
        if (bsearch(&name, used, plan->count, sizeof *used, compare_pointers)) continue;
        if (find_extra(map->layout->harmless, key) || dropped_on_request(config, key) ||
            is_ignored(map, ignore, name))
            plan->ignored[plan->ignored_count++] = name;
        else
            add_extra(&list, info);
    }
    if (list.count == 0) return true;
    return report_fail(r, "%d unknown tensor%s: %.340s%s; --ignore PATTERN drops %s", list.count,
                       list.count == 1 ? "" : "s", list.text,
                       list.count > LAYOUT_MAX_LISTED ? ", ..." : "",
                       list.count == 1 ? "it" : "them");
}

static bool check_extras(const layout_map *map, const vit_config *config, const cli_list *ignore,
                         layout_plan *plan, report *r)
{
    const char **used = calloc(plan->count + 1, sizeof *used);
    bool good = false;
    size_t i;
    plan->ignored = calloc(checkpoint_count(map->checkpoint) + 1, sizeof *plan->ignored);
    if (!used || !plan->ignored) {
        free(used);
        return report_no_memory(r);
    }
    for (i = 0; i < plan->count; i++)
        used[i] = plan->items[i].info ? plan->items[i].info->name : "";
    qsort(used, plan->count, sizeof *used, compare_pointers);
    good = plan_extras(map, config, ignore, used, plan, r);
    free(used);
    return good;
}

bool layout_make_plan(const layout_map *map, const vit_config *config, vit_dtype dtype,
                      const settings_facts *facts, const cli_list *ignore, layout_plan *plan,
                      report *r)
{
    memset(plan, 0, sizeof *plan);
    if (plan_items(map, config, dtype, facts, plan, r) &&
        check_extras(map, config, ignore, plan, r))
        return true;
    layout_free_plan(plan);
    return false;
}

void layout_free_plan(layout_plan *plan)
{
    free(plan->items);
    free(plan->ignored);
    memset(plan, 0, sizeof *plan);
}
