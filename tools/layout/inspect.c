#include "layout/detect.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/rules.h"
#include "layout/layout.h"
#include "layout/views.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Single tensors === */

/* Returns the number of elements in all sources of a tensor together; 0 if the tensor has no
 * source. */
static int64_t count_of(const layout_map *map, const char *tensor) {
    layout_part part;
    const char *axes;
    int64_t count = 0;
    int i;
    for (i = 0; i < LAYOUT_MAX_PARTS; i++)
        if (layout_peek(map, tensor, i, &part, &axes)) count += part.view.count;
    return count;
}

/* Returns the number of rows of a tensor. Rows are counted along the axis that the tensor's rule
 * puts first. If the rule has no axes, rows are counted along the first dimension. */
static int64_t rows_of(const layout_map *map, const char *tensor) {
    layout_part part;
    const char *axes;
    if (!layout_peek(map, tensor, 0, &part, &axes) || part.view.ndim < 1) return 0;
    return axes ? layout_axis_size(axes, &part.view, *layout_file_order(axes)) : part.view.dims[0];
}

static void put_size(settings *s, setting_key key, int64_t value) {
    if (value > 0) settings_put(s, key, (double)value);
}

/* Sets each flag that the presence of a tensor shows. If there are no blocks, no tensor shows the
 * flags of a block. */
static void inspect_flags(const layout_map *map, settings *s) {
    int key;
    for (key = 0; key < SETTING_COUNT; key++) {
        const char *tensor = setting_rows[key].shown_by;
        if (tensor && (map->depth > 0 || strncmp(tensor, "blocks.", 7) != 0))
            settings_put(s, (setting_key)key, layout_has(map, tensor));
    }
}

/* Refuses a patch embedding that is missing or has a wrong shape. `part` is the tensor that was
 * found; NULL if the tensor is missing. */
static bool refuse_patch(const layout_map *map, const char *tensor, const layout_part *part,
                         const char *axes, report *r) {
    char key[LAYOUT_MAX_KEY], shape[SHAPE_TEXT_SIZE];
    if (!part) return report_fail(r, "%s is missing", names_meant_key(map, tensor, key));
    if (part->info->ndim == 5)
        return report_fail(
            r,
            "%s: this version of vit.h lacks patches of several frames "
            "(V-JEPA 2, whose rotary positions have two angles for each pair of values)",
            part->info->name);
    return report_fail(r, "%s: expected [%s], found %s", part->info->name,
                       strchr(axes, 'p') < strchr(axes, 'd') ? "P, P, C, D" : "D, C, P, P",
                       shape_text(part->info->dims, part->info->ndim, shape, sizeof shape));
}

/* Finds the order in which the values of a patch are flattened. The shape of a linear layer does
 * not show this order, but trained weights do. With one channel there is only one order. */
static bool read_patch_order(layout_map *map, settings all[FROM_COUNT], settings_seen *seen,
                             report *r) {
    const layout_match match = layout_find(map, "patch_embed.proj.weight");
    patch_order_evidence evidence;
    double chans = 0;
    if (map->patch_order || !match.found || !match.rule->axes ||
        !strstr(match.rule->axes, "(patch)"))
        return true;
    settings_get(all, SETTING_IN_CHANS, &chans);
    if (!patch_order_read(map, (int64_t)chans, &evidence, r)) return false;
    if (!evidence.found) return true;
    map->patch_order = 1 + evidence.order;
    settings_put(&all[FROM_TENSORS], SETTING_PATCH_ORDER, evidence.order);
    seen->patch_order_read = evidence.best > 0;
    seen->patch_order_best = evidence.best;
    seen->patch_order_next = evidence.next;
    return true;
}

/* Sets the side and the channels of a patch. A convolution shows both. A linear layer over the
 * pixels shows neither, so another source must give both. Such a layer does not show the order of
 * the pixels either. By default, the pixels of each channel are consecutive. */
static bool inspect_patch(layout_map *map, settings *s, settings_seen *seen, report *r) {
    static const char name[] = "patch_embed.proj.weight";
    layout_part part;
    const char *axes;
    if (!layout_peek(map, name, 0, &part, &axes)) return refuse_patch(map, name, NULL, NULL, r);
    if (layout_axes_ndim(axes) != part.view.ndim ||
        layout_axis_size(axes, &part.view, 'p') != layout_axis_size(axes, &part.view, 'q'))
        return refuse_patch(map, name, &part, axes, r);
    if (strstr(axes, "(patch)")) map->patch_order = 1 + PATCH_ORDER_CHW;
    if (strstr(axes, "(pqc)")) s->value[SETTING_PATCH_ORDER] = PATCH_ORDER_HWC;
    put_size(s, SETTING_EMBED_DIM, layout_axis_size(axes, &part.view, 'd'));
    if (s->value[SETTING_STEM] == VIT_STEM_NONE)
        put_size(s, SETTING_IN_CHANS, layout_axis_size(axes, &part.view, 'c'));
    put_size(s, SETTING_PATCH_SIZE,
             layout_axis_size(axes, &part.view, 'p') * settings_stem_stride(s));
    if (strchr(axes, '('))
        seen->patch_depth = part.view.count / layout_axis_size(axes, &part.view, 'd');
    return true;
}

/* Returns the number of blocks in this stage of the stem. Blocks after the first missing block do
 * not count. */
static int count_units(const layout_map *map, int stage) {
    char name[80]; /* large enough for any two numbers */
    int count = 0;
    do
        snprintf(name, sizeof name, "patch_embed.backbone.stages.%d.blocks.%d.conv1.weight", stage,
                 count);
    while (count < LAYOUT_STAGE_BLOCKS && layout_has(map, name) && ++count);
    return count;
}

const char *layout_input_weight(vit_stem stem) {
    switch (stem) {
    case VIT_STEM_NONE: break;
    case VIT_STEM_RESNET: return "patch_embed.backbone.stem.conv.weight";
    case VIT_STEM_CONV: return "patch_embed.backbone.0.conv.weight";
    case VIT_NUM_STEMS: break;
    }
    return "patch_embed.proj.weight";
}

const char *layout_patch_weight(const layout_map *map) {
    layout_part part;
    const char *axes;
    if (layout_has(map, layout_input_weight(VIT_STEM_RESNET)) ||
        layout_has(map, layout_input_weight(VIT_STEM_CONV)) ||
        !layout_peek(map, layout_input_weight(VIT_STEM_NONE), 0, &part, &axes) || !part.info)
        return NULL;
    return part.info->stored_name;
}

/* Sets the type and the sizes of the stem, and the number of channels of the stem's input. */
static void inspect_stem(const layout_map *map, settings *s) {
    static const struct {
        vit_stem stem;
        int pixels;
    } kernels[] = {
        /* the number of pixels in the kernel of the stem's first convolution */
        { VIT_STEM_RESNET, 7 * 7 },
        { VIT_STEM_CONV, 4 * 4 },
    };
    size_t i;
    int stage;
    settings_put(s, SETTING_STEM, VIT_STEM_NONE);
    for (i = 0; i < COUNT(kernels); i++) {
        const char *first = layout_input_weight(kernels[i].stem);
        const int64_t width = rows_of(map, first);
        if (width == 0) continue;
        settings_put(s, SETTING_STEM, kernels[i].stem);
        put_size(s, SETTING_STEM_WIDTH, width);
        put_size(s, SETTING_IN_CHANS, count_of(map, first) / (width * kernels[i].pixels));
    }
    for (stage = 0; stage < LAYOUT_STAGES; stage++)
        settings_put(s, (setting_key)(SETTING_STEM_STAGE1 + stage), count_units(map, stage));
}

/* Returns the number of positions. If the checkpoint stores one table for the rows and one for the
 * columns of a grid, this is the product of their numbers of rows. */
static int64_t count_positions(const layout_map *map, int64_t width) {
    const layout_match match = layout_find(map, "pos_embed");
    layout_part rows, columns;
    if (!match.found || match.rule->method != LAYOUT_OUTER ||
        !layout_find_part(map, &match, 0, &rows) || !layout_find_part(map, &match, 1, &columns))
        return count_of(map, "pos_embed") / width;
    if (rows.view.count / width > 1048576 || columns.view.count / width > 1048576) return INT64_MAX;
    return (rows.view.count / width) * (columns.view.count / width);
}

/* Sets the type of norm to LayerNorm if some norm has a bias, because RMS norms have none. If no
 * norm has a bias, another source must give the type. */
static void inspect_norm_type(const layout_map *map, settings *s) {
    static const char *const biases[] = {
        "blocks.0.norm1.bias",
        "norm.bias",
        "fc_norm.bias",
        "norm_pre.bias",
        "patch_embed.pre_norm.bias",
        "patch_embed.norm.bias",
        "attn_pool.norm.bias",
    };
    size_t i;
    for (i = 0; i < COUNT(biases); i++)
        if (layout_has(map, biases[i])) settings_put(s, SETTING_NORM_TYPE, VIT_LAYER_NORM);
}

/* Sets the width of a head if the checkpoint has rotary periods. Each period serves four values: a
 * sine and a cosine for the rows of the grid, and a sine and a cosine for the columns. */
static void inspect_periods(const layout_map *map, settings *s) {
    layout_part part;
    const char *axes;
    if (layout_peek(map, "rope.cos", 0, &part, &axes) && part.info &&
        strstr(part.info->stored_name, "periods"))
        put_size(s, SETTING_HEAD_DIM, 4 * part.view.count);
}

static bool computes_rel_pos(const layout_map *map) {
    const layout_match match = layout_find(map, "blocks.0.attn.rel_pos");
    return match.found && match.rule->method == LAYOUT_REL_POS_MLP;
}

/* Returns the number of heads. The last layer that computes relative positions has a bias for each
 * head. */
static int64_t rel_pos_heads(const layout_map *map) {
    const layout_match match = layout_find(map, "blocks.0.attn.rel_pos");
    layout_part part;
    return layout_find_part(map, &match, 3, &part) ? part.view.count : 0;
}

/* Sets the number of heads if a tensor shows it. Some libraries store the heads separately. A table
 * of relative positions has a column for each head. */
static void inspect_heads(const layout_map *map, settings *s, settings_seen *seen) {
    const int64_t heads = computes_rel_pos(map) ? rel_pos_heads(map)
                                                : rows_of(map, "blocks.0.attn.rel_pos");
    layout_part part;
    const char *axes;
    put_size(s, SETTING_NUM_HEADS, heads);
    if (heads > 0 && !computes_rel_pos(map))
        seen->relative_positions = (int)(count_of(map, "blocks.0.attn.rel_pos") / heads);
    if (!layout_peek(map, "blocks.0.attn.qkv.weight", 0, &part, &axes)) return;
    seen->is_graph = !strcmp(checkpoint_kind(map->checkpoint), "ONNX");
    seen->is_torch_attention = strstr(part.info->stored_name, "in_proj_weight") != NULL;
    inspect_periods(map, s);
    if (!axes) return;
    put_size(s, SETTING_NUM_HEADS, layout_axis_size(axes, &part.view, 'h'));
    put_size(s, SETTING_HEAD_DIM, layout_axis_size(axes, &part.view, 'k'));
}

/* Stores the settings of the blocks. Block 0 stands for all blocks; layout_check_names compares the
 * other blocks with it. In a gated MLP, fc1 holds the gate and the values, so fc1 has twice as many
 * rows as fc2 reads. Blocks without an MLP have no norm2 either. */
static void inspect_block(const layout_map *map, settings *s, settings_seen *seen, int64_t width) {
    const int64_t fc1 = count_of(map, "blocks.0.mlp.fc1.weight") / width;
    const int64_t fc2 = count_of(map, "blocks.0.mlp.fc2.weight") / width;
    seen->qkv_rows = count_of(map, "blocks.0.attn.qkv.weight") / width;
    if (fc1 > 0 || fc2 > 0 || !layout_has(map, "blocks.0.norm2.weight"))
        settings_put(s, SETTING_MLP_DIM, (double)(fc2 ? fc2 : fc1));
    settings_put(s, SETTING_GATED_MLP, fc2 > 0 && fc1 == 2 * fc2);
    inspect_heads(map, s, seen);
}

/* Stores the settings of the head. With token_avg the head reads two vectors, so the rows of its
 * weight are twice as long. */
static void inspect_head(const layout_map *map, settings *s, int64_t width) {
    const int64_t classes = rows_of(map, "head.weight");
    settings_put(s, SETTING_NUM_CLASSES, (double)classes);
    settings_put(s, SETTING_REPRESENTATION_DIM, (double)rows_of(map, "pre_logits.fc.weight"));
    put_size(s, SETTING_POOL_MLP_DIM, rows_of(map, "attn_pool.mlp.fc1.weight"));
    if (layout_has(map, "attn_pool.q")) settings_put(s, SETTING_POOL, VIT_POOL_MAP);
    else if (classes > 0 && count_of(map, "head.weight") == 2 * width * classes &&
             !layout_has(map, "pre_logits.fc.weight"))
        settings_put(s, SETTING_POOL, VIT_POOL_TOKEN_AVG);
}

/* Stores the settings of the merger. The columns of the merger's first layer show how many patches
 * are merged. If no source gives merge_size, it becomes the square root of this number. The .vit
 * file then contains the merger. */
static void inspect_merger(const layout_map *map, settings all[FROM_COUNT], int64_t width) {
    settings *s = &all[FROM_TENSORS];
    const int64_t hidden = rows_of(map, "merger.fc1.weight");
    const int64_t norm = count_of(map, "merger.norm.weight");
    int side;
    if (hidden < 1) return;
    if (settings_origin(all, SETTING_MERGE_SIZE) < 0 &&
        choices_is_square(count_of(map, "merger.fc1.weight") / hidden / width, &side))
        settings_put(s, SETTING_MERGE_SIZE, side);
    settings_put(s, SETTING_MERGE_DIM, (double)rows_of(map, "merger.fc2.weight"));
    settings_put(s, SETTING_MERGE_MLP_DIM, (double)hidden);
    settings_put(s, SETTING_MERGE_NORM, norm == 0 ? 0 : norm == width ? 1 : 2);
}

/* Takes the settings in *told that no other source gives, and records them in *seen as defaults. */
static void fill_gaps(settings all[FROM_COUNT], const settings *told, settings_seen *seen) {
    settings *tensors = &all[FROM_TENSORS];
    bool mean = told->mean_count > 0, std = told->std_count > 0;
    size_t key;
    int from;
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!told->given[key] || settings_origin(all, (setting_key)key) >= 0) continue;
        /* if num_heads is given, it decides head_dim; a default must not contradict it */
        if (key == SETTING_HEAD_DIM && settings_origin(all, SETTING_NUM_HEADS) >= 0) continue;
        settings_put(tensors, (setting_key)key, told->value[key]);
        seen->by_default[key] = true;
    }
    for (from = 0; from < FROM_COUNT; from++) {
        mean = mean && all[from].mean_count == 0;
        std = std && all[from].std_count == 0;
    }
    if (mean) memcpy(tensors->mean, told->mean, sizeof told->mean);
    if (mean) tensors->mean_count = told->mean_count;
    seen->mean_by_default = mean;
    seen->std_by_default = std;
    if (std) memcpy(tensors->std, told->std, sizeof told->std);
    if (std) tensors->std_count = told->std_count;
}

static bool is_ggml(const checkpoint *c) {
    return !strcmp(checkpoint_kind(c), "vit.cpp") || !strcmp(checkpoint_kind(c), "GGUF");
}

/* Stores the settings that the header of a vit.cpp or GGUF file gives. They must agree with the
 * tensors. */
static bool put_metadata(const layout_map *map, settings *s, report *r) {
    settings told;
    size_t i;
    int key;
    if (!is_ggml(map->checkpoint)) return true;
    settings_start(&told, "the header");
    for (i = 0; i < checkpoint_metadata_count(map->checkpoint); i++) {
        const checkpoint_metadata_entry *entry = checkpoint_metadata(map->checkpoint, i);
        char text[64];
        /* a GGUF key with a dot is no setting; args.mean and args.std are read elsewhere */
        if (strchr(entry->key, '.')) continue;
        snprintf(text, sizeof text, "%.20s=%.40s", entry->key, entry->value);
        if (!settings_parse(&told, text, r)) return false;
    }
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!told.given[key]) continue;
        if (s->given[key] && (int64_t)s->value[key] != (int64_t)told.value[key])
            return report_fail(r, "the header has %s %.0f, but the tensors have %.0f",
                               setting_rows[key].name, told.value[key], s->value[key]);
        settings_put(s, (setting_key)key, told.value[key]);
    }
    return true;
}

/* Finds the number of heads from the values of the weights, if no source gives it. Skips
 * differential attention: each of its heads has two vectors of query and of key, so the weights
 * would show twice as many heads. */
static bool read_heads(const layout_map *map, settings all[FROM_COUNT], settings_seen *seen,
                       report *r) {
    heads_evidence *heads = &seen->heads;
    if (map->depth == 0 || layout_has(map, "blocks.0.attn.lambda")) return true;
    if (settings_origin(all, SETTING_NUM_HEADS) >= 0 || settings_origin(all, SETTING_HEAD_DIM) >= 0)
        return true;
    if (!heads_read(map, seen->qkv_rows / 3, heads, r)) return false;
    if (heads->is_clear)
        settings_put(&all[FROM_TENSORS], SETTING_NUM_HEADS, heads->ranked[0].heads);
    return true;
}

/* Sets qkv_interleave if the values of trained biases show it and no source gives it. */
static bool read_key_bias(layout_map *map, settings all[FROM_COUNT], settings_seen *seen,
                          report *r) {
    const key_bias_evidence *e = &seen->key_bias;
    double heads = 0;
    settings_get(all, SETTING_NUM_HEADS, &heads);
    if (settings_origin(all, SETTING_QKV_INTERLEAVE) >= 0) return true;
    if (!key_bias_read(map, (int)heads, &seen->key_bias, r)) return false;
    if (!e->is_clear) return true;
    settings_put(&all[FROM_TENSORS], SETTING_QKV_INTERLEAVE,
                 e->is_by_head ? QKV_INTERLEAVE_PER_HEAD : QKV_INTERLEAVE_NONE);
    layout_take_orders(map, all);
    return true;
}

/* Finds from trained weights whether norms come before attention and the MLP. Does so only if the
 * order comes from a default of the layout; in other layouts the order is fixed. */
static bool read_norm_order(const layout_map *map, const settings all[FROM_COUNT],
                            settings_seen *seen, settings *told, report *r) {
    const norm_order_evidence *order = &seen->norm_order;
    if (!told->given[SETTING_BLOCK_TYPE] || settings_origin(all, SETTING_BLOCK_TYPE) >= 0)
        return true;
    if (!norm_order_read(map, seen->qkv_rows / 3, &seen->norm_order, r)) return false;
    if (order->is_clear)
        settings_put(told, SETTING_BLOCK_TYPE,
                     order->pre > order->post ? VIT_BLOCK_PRE_NORM : VIT_BLOCK_POST_NORM);
    return true;
}

/* Takes the settings that the library's code fixes and that no tensor shows. Evidence in trained
 * weights has priority over these settings. */
static bool put_defaults(const layout_map *map, settings all[FROM_COUNT], settings_seen *seen,
                         report *r) {
    const layout_default *d = map->layout->defaults;
    settings told;
    settings_start(&told, map->layout->name);
    for (; d && d->assignment; d++)
        if (layout_holds(map, d->when, 0) && !settings_parse(&told, d->assignment, r)) return false;
    if (!read_norm_order(map, all, seen, &told, r)) return false;
    fill_gaps(all, &told, seen);
    return true;
}

/* True if a patch consists of consecutive values of the input. The values of such a patch have only
 * one order. */
static bool takes_runs(const settings all[FROM_COUNT]) {
    double cut = VIT_CUT_SQUARES;
    settings_get(all, SETTING_PATCH_CUT, &cut);
    return cut == VIT_CUT_RESHAPE || cut == VIT_CUT_UNFOLD;
}

static bool check_patch_order(const settings all[FROM_COUNT], report *r) {
    double order = PATCH_ORDER_CHW;
    settings_get(all, SETTING_PATCH_ORDER, &order);
    return !takes_runs(all) || order == PATCH_ORDER_CHW ||
           report_fail(r, "patch_cut=reshape and patch_cut=unfold keep the order of the values, "
                          "so patch_order must be chw or not given");
}

/* Returns the number of the setting's word plus 1; 0 if no source gives the setting. */
static int order_of(const settings all[FROM_COUNT], setting_key key) {
    double word = -1;
    settings_get(all, key, &word);
    return 1 + (int)word;
}

void layout_take_orders(layout_map *map, const settings all[FROM_COUNT]) {
    const int qkv = order_of(all, SETTING_QKV_ORDER);
    map->patch_order = takes_runs(all) ? 1 + PATCH_ORDER_CHW : order_of(all, SETTING_PATCH_ORDER);
    map->qkv_order = qkv ? qkv - 1 : QKV_ORDER_QKV;
    map->qkv_interleave = order_of(all, SETTING_QKV_INTERLEAVE);
}

/* The stem is inspected first, because the size of a patch in input pixels depends on the stem. The
 * patch comes next, then the sizes that are counted in rows of embed_dim. The defaults of all other
 * settings come last. */
bool layout_inspect(layout_map *map, settings all[FROM_COUNT], settings_seen *seen, report *r) {
    settings *s = &all[FROM_TENSORS];
    int64_t width, positions;
    memset(seen, 0, sizeof *seen);
    seen->library = map->layout == &layout_own ? NULL : map->layout->name;
    seen->is_open = map->layout->is_open;
    seen->is_timm = !strcmp(map->layout->name, layout_timm.name) && !is_ggml(map->checkpoint);
    if (!check_patch_order(all, r)) return false;
    layout_take_orders(map, all);
    inspect_stem(map, s);
    if (!read_patch_order(map, all, seen, r)) return false;
    if (!inspect_patch(map, s, seen, r)) return false;
    width = (int64_t)s->value[SETTING_EMBED_DIM];
    map->embed_dim = width;
    settings_put(s, SETTING_DEPTH, map->depth);
    settings_put(s, SETTING_REG_TOKENS, (double)(count_of(map, "reg_token") / width));
    inspect_norm_type(map, s);
    inspect_flags(map, s);
    if (map->depth > 0) inspect_block(map, s, seen, width);
    inspect_head(map, s, width);
    positions = count_positions(map, width);
    if (positions > 1048576) return report_fail(r, "pos_embed has more than 1048576 rows");
    seen->position_rows = (int)positions;
    if (!put_metadata(map, s, r) || !read_heads(map, all, seen, r) ||
        !read_key_bias(map, all, seen, r) || !put_defaults(map, all, seen, r))
        return false;
    inspect_merger(map, all, width);
    return true;
}
