#include "layout/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/detect.h"
#include "layout/rules.h"
#include "layout/views.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* In this file, an item is a tensor of the .vit file. Its parts are its sources: tensors of the
 * checkpoint, or slices of them. The match of a tensor is the rule of the layout that makes the
 * tensor. */

/* === Sources === */

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length > tail && !strcmp(name + length - tail, end);
}

static bool is_pos_embed(const char *name) { return !strcmp(name, "pos_embed"); }

static source_kind kind_of(const char *name, const settings_resolved *model) {
    const bool resampled = model->notes.positions_resampled;
    if (!strcmp(name, "preprocess.mean")) return SOURCE_MEAN;
    if (!strcmp(name, "preprocess.std")) return SOURCE_STD;
    if (!strcmp(name, "selftest.logits")) return SOURCE_SELFTEST;
    if (is_pos_embed(name) && model->pos_sincos) return SOURCE_SINCOS;
    if (is_pos_embed(name) && resampled) return SOURCE_RESAMPLED;
    if (ends_with(name, ".attn.rel_pos") && resampled) return SOURCE_RESAMPLED_RELATIVE;
    if (!strcmp(name, layout_input_weight((vit_stem)model->config.stem)) &&
        model->notes.patches_adapted)
        return SOURCE_ADAPTED;
    if (model->config.attention == VIT_ATTENTION_SELF &&
        (ends_with(name, ".attn.proj.weight") || ends_with(name, ".attn.proj.bias")))
        return SOURCE_FOLDED;
    return SOURCE_CHECKPOINT;
}

bool layout_is_stored(const layout_item *item) {
    switch (item->kind) {
    case SOURCE_CHECKPOINT:
    case SOURCE_RESAMPLED:
    case SOURCE_RESAMPLED_RELATIVE:
    case SOURCE_ADAPTED:
    case SOURCE_FOLDED: return true;
    case SOURCE_SINCOS:
    case SOURCE_MEAN:
    case SOURCE_STD:
    case SOURCE_SELFTEST: break;
    }
    return false;
}

const layout_item *layout_selftest(const layout_plan *plan) {
    size_t i;
    for (i = 0; i < plan->count; i++)
        if (plan->items[i].kind == SOURCE_SELFTEST) return &plan->items[i];
    return NULL;
}

const char *layout_item_name(const layout_item *item) {
    int i;
    if (item->folded) return layout_item_name(&item->folded[FOLDED_PROJ]);
    for (i = 0; i < item->part_count; i++)
        if (item->parts[i].info) return item->parts[i].info->name;
    return item->tensor.name;
}

/* Sets the dimensions that the sources of this item must have. */
static void put_source_dims(layout_item *item, const settings_resolved *model) {
    const settings_stored *stored = &model->stored;
    int64_t *dims = item->dims;
    int i;
    for (i = 0; i < item->tensor.ndim; i++) dims[i] = item->tensor.dims[i];
    switch (item->kind) {
    case SOURCE_RESAMPLED:
        dims[1] = stored->patch_rows;
        if (model->config.positions == VIT_POS_ALL) dims[1] += model->config.num_prefix_tokens;
        break;
    /* one column for each pair of a vertical and a horizontal distance, and 3 for a class token */
    case SOURCE_RESAMPLED_RELATIVE:
        dims[1] = (2 * (int64_t)stored->grid_height - 1) * (2 * (int64_t)stored->grid_width - 1) +
                  3;
        break;
    case SOURCE_ADAPTED:
        dims[1] = stored->chans;
        if (!model->config.stem) dims[2] = dims[3] = stored->patch;
        break;
    case SOURCE_CHECKPOINT:
    case SOURCE_FOLDED:
    case SOURCE_SINCOS:
    case SOURCE_MEAN:
    case SOURCE_STD:
    case SOURCE_SELFTEST: break;
    }
}

static const char *describe_dims(const layout_item *item, char text[SHAPE_TEXT_SIZE]) {
    return shape_text(item->dims, item->tensor.ndim, text, SHAPE_TEXT_SIZE);
}

/* Takes the number of channels and the patch size from the shape of the patch embedding's
 * weight. */
static void put_map_sizes(const vit_config *config, layout_sizes *sizes) {
    vit_tensor weight;
    int i = 0;
    while (vit_architecture_tensor(config, VIT_F32, i, &weight) &&
           strcmp(weight.name, "patch_embed.proj.weight"))
        i++;
    sizes->chans = weight.dims[1];
    sizes->patch = weight.dims[2];
}

static layout_sizes sizes_of(const settings_resolved *model) {
    layout_sizes sizes;
    sizes.patch = model->stored.patch;
    sizes.chans = model->stored.chans;
    sizes.heads = model->config.num_heads;
    sizes.head_dim = model->config.head_dim;
    if (model->config.stem) put_map_sizes(&model->config, &sizes);
    return sizes;
}

static bool missing_part(const layout_map *map, const layout_item *item, report *r) {
    const char *name = item->tensor.name;
    const layout_rule *rule = names_meant_rule(map, name);
    char key[LAYOUT_MAX_KEY], expected[SHAPE_TEXT_SIZE];
    (void)describe_dims(item, expected);
    if (rule && layout_part_count(rule) == 1 && !rule->axes)
        return report_fail(r, "%s is missing: expected %s", names_meant_key(map, name, key),
                           expected);
    return report_fail(r, "%s is missing: it is a part of %s %s", names_meant_key(map, name, key),
                       name, expected);
}

/* Fails with a message about a part of the wrong shape. If the part is the whole tensor, the
 * message also shows the expected shape. */
static bool misshapen_part(const layout_rule *rule, const layout_item *item,
                           const layout_part *part, report *r) {
    char found[SHAPE_TEXT_SIZE], expected[SHAPE_TEXT_SIZE];
    (void)describe_dims(item, expected);
    shape_text(part->info->dims, part->info->ndim, found, sizeof found);
    if (layout_part_count(rule) == 1 && !rule->axes && !strpbrk(rule->parts[0], "#@"))
        return report_fail(r, "%s: expected %s, found %s", part->info->name, expected, found);
    return report_fail(r, "%s %s does not fit %s %s", part->info->name, found, item->tensor.name,
                       expected);
}

/* === Shapes === */

static bool has_rows(const layout_part *part, const layout_item *item, int64_t wanted) {
    int64_t rows;
    return layout_rows(&part->view, item->dims, item->tensor.ndim, &rows) && rows == wanted;
}

/* Checks that the rows of the stacked parts add up to the rows of the tensor. If one part consists
 * of zeros, the other parts must have equal numbers of rows, and the zeros get the same number of
 * rows. */
static bool stack_fits(layout_item *item, const char *axes, int *culprit) {
    const int64_t *dims = item->dims;
    int64_t left = dims[0], depth = 1, rows;
    bool has_zeros = false;
    int zeros = -1, i;
    for (i = 1; i < item->tensor.ndim; i++) depth *= dims[i];
    for (i = 0; i < item->part_count; i++) has_zeros = has_zeros || !item->parts[i].info;
    for (i = 0; i < item->part_count; i++) {
        layout_part *part = &item->parts[i];
        *culprit = i;
        if (!part->info) {
            zeros = i;
            continue;
        }
        if (!axes && part->view.ndim > item->tensor.ndim) return false;
        if (!layout_rows(&part->view, dims, item->tensor.ndim, &rows)) return false;
        if (has_zeros && rows * item->part_count != dims[0]) return false;
        left -= rows;
    }
    if (zeros >= 0) item->parts[zeros].view.count = left * depth;
    return zeros >= 0 ? left > 0 : left == 0;
}

/* Checks the shapes of a constant vector, of the matrix that multiplies the vector, and of a bias
 * if there is one. */
static bool linear_fits(const layout_item *item, int64_t width, int *culprit) {
    const int64_t matrix[2] = { item->dims[0], width };
    int64_t rows;
    *culprit = 0;
    if (item->parts[0].view.count != width) return false;
    *culprit = 1;
    if (!layout_rows(&item->parts[1].view, matrix, 2, &rows) || rows != matrix[0]) return false;
    *culprit = 2;
    return item->part_count < 3 || item->parts[2].view.count == matrix[0];
}

/* Checks the shapes of the two layers that turn the two distances between patches into a value for
 * each head. */
static bool mlp_fits(const layout_item *item, int *culprit) {
    const int64_t hidden = item->parts[1].view.count, heads = item->dims[0];
    const int64_t counts[] = { 2 * hidden, hidden, heads * hidden, heads };
    for (*culprit = 0; *culprit < 4; ++*culprit)
        if (item->parts[*culprit].view.count != counts[*culprit]) return false;
    return true;
}

/* Checks the shapes of query, key and value. There may be fewer heads of keys and values than of
 * queries. The number of heads of the queries must be a multiple of the number of heads of the
 * keys. */
static bool grouped_fits(const layout_item *item, const vit_config *config, int *culprit) {
    const int64_t third = item->dims[0] / 3;
    int64_t rows, values;
    if (!has_rows(&item->parts[0], item, third)) return false;
    *culprit = 1;
    if (!layout_rows(&item->parts[1].view, item->dims, item->tensor.ndim, &rows) || rows < 1 ||
        third % rows != 0 || rows % config->head_dim != 0)
        return false;
    *culprit = 2;
    return layout_rows(&item->parts[2].view, item->dims, item->tensor.ndim, &values) &&
           values == rows;
}

/* Checks the shape of a source of rotary positions. The source has either periods for the pairs of
 * one axis, or frequencies for both axes, every block and every head. */
static bool rope_fits(const layout_item *item, const vit_config *config) {
    const checkpoint_tensor_info *view = &item->parts[0].view;
    const int64_t pairs = config->head_dim / 2;
    if (item->part_count == 0) return true;
    if (item->tensor.ndim == 2) return view->count == pairs / 2;
    return view->ndim > 1 && view->dims[0] == 2 && view->dims[1] == config->depth &&
           view->count == 2 * config->depth * config->num_heads * pairs;
}

/* Checks that all parts from *culprit on are vectors of `count` values. *culprit receives the index
 * of the first part that is not. */
static bool vectors_fit(const layout_item *item, int64_t count, int *culprit) {
    while (*culprit < item->part_count && item->parts[*culprit].view.count == count) ++*culprit;
    return *culprit == item->part_count;
}

/* Checks that each part has as many values as attention pooling of width item->narrow needs. */
static bool narrow_fits(const layout_item *item, const vit_config *config, int *culprit) {
    const char *name = item->tensor.name;
    const int64_t width = item->narrow, heads = item->pool_heads;
    int64_t rows = 1;
    if (width < 1 || heads < 1 || width > config->embed_dim || width % heads != 0 ||
        config->embed_dim % heads != 0 || config->num_heads * config->head_dim != config->embed_dim)
        return false;
    if (!strcmp(name, "attn_pool.kv.weight")) rows = config->embed_dim;
    else if (!strcmp(name, "attn_pool.proj.weight")) rows = width;
    else if (!strcmp(name, "head.weight")) rows = item->dims[0];
    for (; *culprit < item->part_count; ++*culprit)
        if (item->parts[*culprit].view.count != width * (*culprit == 3 ? width : rows))
            return false;
    return true;
}

/* Checks the shapes of the parts. *culprit receives the index of the first part that does not
 * fit. */
static bool parts_fit(layout_item *item, const char *axes, const vit_config *config, int *culprit) {
    const int64_t rows = item->dims[0];
    *culprit = 0;
    switch (item->method) {
    case LAYOUT_STACK:
    case LAYOUT_REL_POS:
    case LAYOUT_STANDARD: return stack_fits(item, axes, culprit);
    case LAYOUT_SUM:
    case LAYOUT_PRODUCT:
        for (; *culprit < item->part_count; ++*culprit)
            if (!has_rows(&item->parts[*culprit], item, rows)) return false;
        return true;
    case LAYOUT_OUTER:
        return item->parts[0].view.count * item->parts[1].view.count ==
               item->dims[1] * config->embed_dim * config->embed_dim;
    case LAYOUT_LINEAR: return linear_fits(item, config->embed_dim, culprit);
    case LAYOUT_REL_POS_MLP: return mlp_fits(item, culprit);
    case LAYOUT_NARROW: return narrow_fits(item, config, culprit);
    case LAYOUT_GROUPED: return grouped_fits(item, config, culprit);
    case LAYOUT_COS:
    case LAYOUT_SIN:
    case LAYOUT_ROTATIONS: return rope_fits(item, config);
    case LAYOUT_LAMBDA: return vectors_fit(item, config->head_dim / 2, culprit);
    case LAYOUT_BATCH_NORM:
        if (!has_rows(&item->parts[0], item, rows)) return false;
        *culprit = 1;
        return vectors_fit(item, rows, culprit);
    case LAYOUT_LESS_LAMBDA:
    case LAYOUT_BATCH_SHIFT: return vectors_fit(item, rows, culprit);
    case LAYOUT_ZERO:
    case LAYOUT_IDENTITY: break;
    }
    return true;
}

/* === Items === */

/* Arranges the i-th source in the order of the .vit file. False if the shape of the source does not
 * fit the axes. Of the parts of LAYOUT_LINEAR, only the matrix has axes. */
static bool arrange_part(const layout_map *map, const layout_match *match, int i,
                         const layout_sizes *sizes, layout_part *part) {
    const char *axes = layout_rule_axes(map, match->rule);
    const bool is_vector = match->rule->method == LAYOUT_LINEAR && i != 1;
    return layout_slice_part(map, match, i, part) &&
           (!axes || is_vector || layout_apply_axes(&part->view, axes, sizes));
}

static void swap_parts(layout_item *item, int i, int j) {
    const layout_part part = item->parts[i];
    item->parts[i] = item->parts[j];
    item->parts[j] = part;
}

/* Splits one tensor [3, ...] into three parts, for query, key and value. */
static bool split_qkv(layout_item *item) {
    const layout_part whole = item->parts[0];
    const int64_t rows = item->part_count == 1 && whole.view.ndim > 1 ? whole.view.dims[0] : 0;
    int i;
    if (rows != 3) return false;
    for (i = 0; i < 3; i++) {
        item->parts[i] = whole;
        layout_take_block(&item->parts[i].view, i);
    }
    item->part_count = 3;
    return true;
}

/* Orders query, key and value as in the .vit file. Fails unless they are 3 parts or [3, ...]. */
static bool order_qkv(const layout_map *map, layout_item *item) {
    char word[4];
    int i;
    memcpy(word, setting_rows[SETTING_QKV_ORDER].words[map->qkv_order].word, sizeof word);
    if (item->method != LAYOUT_STACK || (item->part_count != 3 && !split_qkv(item))) return false;
    for (i = 0; i < 2; i++) { /* a selection sort */
        const int place = (int)(strchr(word, "qkv"[i]) - word);
        swap_parts(item, i, place);
        word[place] = word[i];
        word[i] = "qkv"[i];
    }
    return true;
}

/* Applies --set qkv_order. Checks that --set qkv_interleave, which layout_rule_axes applies, is
 * possible. Does nothing for tensors other than attn.qkv. */
static bool arrange_qkv(const layout_map *map, layout_item *item, report *r) {
    const bool is_qkv = strstr(item->tensor.name, ".attn.qkv.") != NULL;
    if (is_qkv && map->qkv_interleave > 1 + QKV_INTERLEAVE_NONE &&
        (item->part_count != 1 || item->method != LAYOUT_STACK))
        return report_fail(r,
                           "qkv_interleave requires query, key and value in one tensor, but "
                           "%s is made of several tensors",
                           item->tensor.name);
    return !is_qkv || map->qkv_order == QKV_ORDER_QKV || order_qkv(map, item) ||
           report_fail(
               r,
               "qkv_order requires query, key and value in one tensor or in three; %s has neither "
               "form",
               item->tensor.name);
}

/* Finds and arranges the parts of the rule. Checks that all parts together have the shape of the
 * item. */
static bool plan_sources(const layout_map *map, const layout_match *match,
                         const settings_resolved *model, layout_item *item, report *r) {
    const vit_config *config = &model->config;
    const layout_sizes sizes = sizes_of(model);
    const layout_rule *rule = match->rule;
    const int count = layout_part_count(rule);
    char expected[SHAPE_TEXT_SIZE];
    layout_part last;
    const char *axes;
    int i, culprit;
    item->method = rule->method;
    item->head_dim = config->head_dim;
    item->norm_eps = (double)config->norm_eps;
    item->pool_heads = config->pool_num_heads ? config->pool_num_heads : config->num_heads;
    if (item->method == LAYOUT_NARROW && layout_peek(map, "fc_norm.weight", 0, &last, &axes))
        item->narrow = last.view.count < config->embed_dim ? (int)last.view.count
                                                           : config->embed_dim;
    if (item->method == LAYOUT_IDENTITY && item->tensor.ndim > 1 &&
        (config->num_heads != 1 || item->dims[0] != item->dims[1]))
        return report_fail(
            r,
            "%s %s is missing: attention works without it only if a single head is as wide as a "
            "token",
            item->tensor.name, describe_dims(item, expected));
    for (i = 0; i < count; i++) {
        layout_part *part = &item->parts[item->part_count++];
        if (!layout_find_part(map, match, i, part)) continue; /* a part of zeros has no source */
        if (!checkpoint_is_float(part->info->dtype))
            return report_fail(r, "%s: expected floating-point weights, found %s", part->info->name,
                               checkpoint_dtype_name(part->info->dtype));
        if (!arrange_part(map, match, i, &sizes, part)) return misshapen_part(rule, item, part, r);
        if (is_pos_embed(item->tensor.name) && model->stored.first_rows)
            layout_first_rows(&part->view, model->stored.position_rows);
    }
    if (!arrange_qkv(map, item, r)) return false;
    if (parts_fit(item, layout_rule_axes(map, rule), config, &culprit)) return true;
    return misshapen_part(rule, item, &item->parts[culprit], r);
}

static rope_grid rope_of(const settings_resolved *model) {
    rope_grid grid;
    grid.options = model->rope;
    grid.height = model->config.grid_height;
    grid.width = model->config.grid_width;
    grid.pairs = model->config.head_dim / 2;
    return grid;
}

/* Finds the match of a tensor. A model has one norm at its end, before or after the pooling. The
 * tensors do not show the place of this norm; --set has_final_norm and has_fc_norm decide. */
static layout_match find_match(const layout_map *map, const vit_config *config, const char *name) {
    static const char *const norms[][2] = {
        { "norm.weight", "fc_norm.weight" },
        { "norm.bias", "fc_norm.bias" },
    };
    layout_match match = layout_find(map, name), other;
    size_t i;
    if (match.found || config->has_final_norm == config->has_fc_norm) return match;
    for (i = 0; i < COUNT(norms); i++) {
        const int place = !strcmp(name, norms[i][1]);
        if (!place && strcmp(name, norms[i][0]) != 0) continue;
        other = layout_find(map, norms[i][!place]);
        if (other.found) match = other;
    }
    return match;
}

/* Plans a tensor whose values come from the checkpoint: finds its match and its sources. */
static bool plan_stored(const layout_map *map, const settings_resolved *model, layout_item *item,
                        report *r) {
    const char *name = item->tensor.name;
    layout_match match;
    char expected[SHAPE_TEXT_SIZE];
    put_source_dims(item, model);
    item->divisor = ends_with(name, ".attn.proj.weight") ? model->context_divisor : 0;
    item->rope = rope_of(model);
    match = find_match(map, &model->config, name);
    item->block = match.block;
    if (!match.rule)
        return report_fail(r, "%s %s: %s has no such tensor", name, describe_dims(item, expected),
                           map->layout->name);
    if (!match.found) return missing_part(map, item, r);
    return plan_sources(map, &match, model, item, r);
}

/* Describes in *item the weight of a layer of this block, or the bias if `columns` is 0, as it is
 * in a model with attention over all tokens. */
static void put_layer(layout_item *item, int block, const char *layer, int rows, int columns) {
    vit_tensor *t = &item->tensor;
    snprintf(t->name, sizeof t->name, "blocks.%d.attn.%s.%s", block, layer,
             columns ? "weight" : "bias");
    t->ndim = columns ? 2 : 1;
    t->dims[0] = rows;
    t->dims[1] = columns;
    item->kind = SOURCE_CHECKPOINT;
}

/* Plans attn.proj for tokens that attend only to themselves: it is multiplied by the layer of v,
 * the last third of qkv. The bias of attn.proj changes only if v has a bias. */
static bool plan_folded(const layout_map *map, const settings_resolved *model, layout_item *item,
                        report *r) {
    const int dim = model->config.embed_dim;
    const int width = model->config.num_heads * model->config.head_dim;
    const bool is_bias = item->tensor.ndim == 1;
    char qkv_bias[80];
    int block, i;
    layout_item *folded;
    (void)layout_names("{b}attn.proj.weight", item->tensor.name, &block);
    snprintf(qkv_bias, sizeof qkv_bias, "blocks.%d.attn.qkv.bias", block);
    if (layout_has(map, qkv_bias) && !model->config.has_proj_bias)
        return report_fail(r,
                           "%s: attention=self moves the bias of v into the bias of attn.proj, "
                           "but attn.proj has no bias",
                           item->tensor.name);
    if (is_bias && !layout_has(map, qkv_bias)) {
        item->kind = SOURCE_CHECKPOINT;
        return plan_stored(map, model, item, r);
    }
    folded = item->folded = calloc(FOLDED_COUNT, sizeof *folded);
    if (!folded) return report_no_memory(r);
    item->block = block;
    item->divisor = model->context_divisor;
    put_layer(&folded[FOLDED_PROJ], block, "proj", dim, width);
    put_layer(&folded[FOLDED_QKV], block, "qkv", 3 * width, is_bias ? 0 : dim);
    put_layer(&folded[FOLDED_BIAS], block, "proj", dim, 0);
    for (i = 0; i < (is_bias ? FOLDED_COUNT : FOLDED_BIAS); i++)
        if (!plan_stored(map, model, &folded[i], r)) return false;
    folded[FOLDED_PROJ].divisor = 0;
    return true;
}

/* Decides where the values of a tensor come from, and finds its parts in the checkpoint. */
static bool plan_item(const layout_map *map, const settings_resolved *model, layout_item *item,
                      report *r) {
    item->kind = kind_of(item->tensor.name, model);
    if (item->kind == SOURCE_FOLDED) return plan_folded(map, model, item, r);
    if (layout_is_stored(item)) return plan_stored(map, model, item, r);
    put_source_dims(item, model);
    return true;
}

/* Makes an item for every tensor, with its name and shape. The writer of the file decides the
 * stored types. */
static bool plan_items(const layout_map *map, const settings_resolved *model, layout_plan *plan,
                       name_groups *failures, report *r) {
    const vit_config *config = &model->config;
    vit_tensor tensor;
    size_t i;
    int count = 0;
    while (vit_architecture_tensor(config, VIT_F32, count, &tensor)) count++;
    plan->count = (size_t)count;
    plan->items = calloc(plan->count + 1, sizeof *plan->items); /* unused fields are 0 */
    if (!plan->items) return report_no_memory(r);
    for (i = 0; i < plan->count; i++) {
        vit_architecture_tensor(config, VIT_F32, (int)i, &plan->items[i].tensor);
        if (plan_item(map, model, &plan->items[i], r)) continue;
        if (!groups_add(failures, r->text, "")) return false;
        *r = report_make();
    }
    return true;
}

/* Records one finding for all blocks that have the same failure. */
static bool put_failures(const name_groups *failures, findings *f) {
    char text[GROUP_TEXT_SIZE], line[GROUP_TEXT_SIZE + 40];
    size_t i;
    for (i = 0; i < failures->count; i++) {
        const name_group *group = &failures->items[i];
        (void)group_text(group, text);
        if (group->count == 1) snprintf(line, sizeof line, "%s", text);
        else snprintf(line, sizeof line, "%s (%zu tensors)", text, group->count);
        if (!findings_wrong(f, line, "")) return false;
    }
    snprintf(line, sizeof line, "%zu more tensors do not fit the model", failures->more);
    return failures->more == 0 || findings_wrong(f, line, "");
}

static bool plan_all(const layout_map *map, const settings_resolved *model, layout_plan *plan,
                     findings *f, report *r) {
    name_groups *failures = calloc(1, sizeof *failures);
    const bool good = failures && plan_items(map, model, plan, failures, r) &&
                      put_failures(failures, f);
    if (failures) groups_free(failures);
    free(failures);
    return good || report_no_memory(r);
}

/* === Tensors that are left over === */

static int compare_pointers(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static bool is_source_of(const layout_map *map, const char *tensor, const char *name) {
    layout_part part;
    const char *axes;
    int i;
    for (i = 0; i < LAYOUT_MAX_PARTS; i++)
        if (layout_peek(map, tensor, i, &part, &axes) && !strcmp(part.info->name, name))
            return true;
    return false;
}

/* Returns the reason to drop this tensor of the checkpoint if it is a source of an unnecessary
 * tensor; otherwise NULL. A setting such as --set num_classes=0 or pool=avg makes a tensor
 * unnecessary. */
static const char *dropped_on_request(const layout_map *map, const vit_config *config,
                                      const char *name) {
    static const char unused[] = "not used with these settings";
    static const char *const heads[] = {
        "head.weight",
        "head.bias",
        "head_dist.weight",
        "head_dist.bias",
    };
    static const char *const layers[] = { "pre_logits.fc.weight", "pre_logits.fc.bias" };
    static const char *const pools[] = {
        "attn_pool.q",
        "attn_pool.kv.weight",
        "attn_pool.kv.bias",
        "attn_pool.proj.weight",
        "attn_pool.proj.bias",
        "attn_pool.norm.weight",
        "attn_pool.norm.bias",
        "attn_pool.mlp.fc1.weight",
        "attn_pool.mlp.fc1.bias",
        "attn_pool.mlp.fc2.weight",
        "attn_pool.mlp.fc2.bias",
    };
    static const char *const mergers[] = {
        "merger.norm.weight", "merger.norm.bias",  "merger.fc1.weight",
        "merger.fc1.bias",    "merger.fc2.weight", "merger.fc2.bias",
    };
    static const char *const norms[] = { "norm.weight", "norm.bias" };
    static const char *const fc_norms[] = { "fc_norm.weight", "fc_norm.bias" };
    const struct {
        bool dropped;
        const char *const *tensors;
        size_t count;
        const char *why;
    } groups[] = {
        { config->num_classes == 0, heads, COUNT(heads), unused },
        { config->representation_dim == 0, layers, COUNT(layers), unused },
        { config->pool != VIT_POOL_MAP, pools, COUNT(pools), unused },
        { config->merge_size == 0, mergers, COUNT(mergers),
          "of the merger, which joins 2 x 2 tokens for a language model; --set merge_size=2 keeps "
          "it" },
        { !config->has_final_norm, norms, COUNT(norms), unused },
        { !config->has_fc_norm, fc_norms, COUNT(fc_norms), unused },
    };
    size_t i, j;
    for (i = 0; i < COUNT(groups); i++)
        for (j = 0; groups[i].dropped && j < groups[i].count; j++)
            if (is_source_of(map, groups[i].tensors[j], name)) return groups[i].why;
    return NULL;
}

/* The names of all tensors of the checkpoint that the plan reads, in sorted order. */
typedef struct used_names {
    const char **names;
    size_t count;
} used_names;

static void add_used(const layout_item *item, used_names *used) {
    int i;
    for (i = 0; i < item->part_count; i++)
        if (item->parts[i].info) used->names[used->count++] = item->parts[i].info->name;
    for (i = 0; item->folded && i < FOLDED_COUNT; i++) add_used(&item->folded[i], used);
}

static void list_used(const layout_plan *plan, used_names *used) {
    size_t i;
    for (i = 0; i < plan->count; i++) add_used(&plan->items[i], used);
    qsort(used->names, used->count, sizeof *used->names, compare_pointers);
}

/* True if the plan reads the tensor with this name, which is unique within the checkpoint. */
static bool is_used(const used_names *used, const char *name) {
    return bsearch(&name, used->names, used->count, sizeof *used->names, compare_pointers) != NULL;
}

/* Returns the reason why the tensor may be dropped; NULL if there is no reason. */
static const char *why_dropped(const layout_map *map, const vit_config *config,
                               const text_list *ignore, const checkpoint_tensor_info *info) {
    const char *why;
    if (names_is_ignored(map, ignore, info->name)) return "by --ignore";
    if (info->count == 0) return "without a value";
    why = dropped_on_request(map, config, info->name);
    return why ? why : names_why_harmless(map, info->name);
}

/* Drops the unused tensors that have no effect. Collects all other unused tensors in `unknown`.
 * Fails if `ignore` names a tensor that the plan reads, unless by the pattern "*". */
static bool drop_unused(const layout_map *map, const vit_config *config, const text_list *ignore,
                        const used_names *used, layout_plan *plan, name_groups *unknown,
                        report *r) {
    const size_t total = checkpoint_count(map->checkpoint);
    size_t i;
    for (i = 0; i < total; i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(map->checkpoint, i);
        const char *why;
        if (is_used(used, info->name)) {
            if (!names_is_ignored(map, ignore, info->name) || names_match(ignore, "*")) continue;
            return report_fail(r,
                               "--ignore: the model reads %.200s; to run the model without a "
                               "layer, give a setting such as --set has_final_norm=0",
                               info->name);
        }
        why = why_dropped(map, config, ignore, info);
        if (!why && !names_add_unknown(map, info, unknown)) return false;
        if (!why) continue;
        plan->dropped[plan->dropped_count].name = info->name;
        plan->dropped[plan->dropped_count++].why = why;
    }
    return true;
}

static bool check_unused(const layout_map *map, const vit_config *config, const text_list *ignore,
                         layout_plan *plan, findings *f, report *r) {
    used_names used = { NULL, 0 };
    name_groups *unknown = calloc(1, sizeof *unknown);
    bool good;
    used.names = calloc(FOLDED_COUNT * LAYOUT_MAX_PARTS * plan->count + 1, sizeof *used.names);
    plan->dropped = calloc(checkpoint_count(map->checkpoint) + 1, sizeof *plan->dropped);
    good = unknown && used.names && plan->dropped;
    if (good) list_used(plan, &used);
    good = good && drop_unused(map, config, ignore, &used, plan, unknown, r) &&
           names_put_unknown(unknown, f);
    if (unknown) groups_free(unknown);
    free(unknown);
    free(used.names);
    return good || (!r->failed && report_no_memory(r));
}

bool layout_make_plan(const layout_map *map, const settings_resolved *model,
                      const text_list *ignore, layout_plan *plan, findings *f, report *r) {
    memset(plan, 0, sizeof *plan);
    if (plan_all(map, model, plan, f, r) &&
        (f->wrong.count > 0 || check_unused(map, &model->config, ignore, plan, f, r)) &&
        (!findings_are_open(f) || findings_refuse(f, false, r)))
        return true;
    layout_free_plan(plan);
    return false;
}

bool layout_add_dropped(layout_plan *plan, const char *name, const char *why) {
    layout_dropped *dropped = realloc(plan->dropped, (plan->dropped_count + 1) * sizeof *dropped);
    if (!dropped) return false;
    plan->dropped = dropped;
    dropped[plan->dropped_count].name = name;
    dropped[plan->dropped_count++].why = why;
    return true;
}

void layout_free_plan(layout_plan *plan) {
    size_t i;
    for (i = 0; plan->items && i < plan->count; i++) free(plan->items[i].folded);
    free(plan->items);
    free(plan->dropped);
    memset(plan, 0, sizeof *plan);
}
