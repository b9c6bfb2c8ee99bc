#define _POSIX_C_SOURCE 200809L

#include "layout/structure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "base/text.h"
#include "checkpoint/container.h"
#include "layout/rules.h"
#include "layout/views.h"
#include "model/settings.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char stacked[] = "one layer for each head, stacked";
static const char chained[] = "two layers one after the other, multiplied";
static const char left_out[] = "the model has none";

/* === The new tensors === */

enum { NEW_NAME_SIZE = 64 };

/* A tensor of the resulting checkpoint, and the reason for its role. */
typedef struct new_tensor {
    checkpoint_tensor_info view;
    char name[NEW_NAME_SIZE];
    char *stored; /* the malloc'ed stored_name; NULL for that of `view` */
    const char *reason;
} new_tensor;

/* All tensors of the resulting checkpoint. */
typedef struct new_tensors {
    structure_parts *parts;
    new_tensor *items;
    size_t count, capacity;
    report *report;
} new_tensors;

static new_tensor *add(new_tensors *n, int block, const char *role, const char *leaf,
                       const char *reason) {
    new_tensor *items = memory_grow(n->items, sizeof *items, n->count, &n->capacity);
    new_tensor *t;
    if (!items) {
        (void)report_no_memory(n->report);
        return NULL;
    }
    n->items = items;
    t = &items[n->count++];
    memset(t, 0, sizeof *t);
    if (block >= 0) snprintf(t->name, sizeof t->name, "blocks.%d.%s%s", block, role, leaf);
    else snprintf(t->name, sizeof t->name, "%s%s", role, leaf);
    t->reason = reason;
    return t;
}

static bool add_view(new_tensors *n, int block, const char *role, const char *leaf,
                     const checkpoint_tensor_info *view, const char *reason) {
    new_tensor *t = add(n, block, role, leaf, reason);
    if (t) t->view = *view;
    return t != NULL;
}

/* The values of a new tensor [rows, cols], or [rows] if cols is 0. `from` is the name that the
 * report gives as the source of the new tensor. */
typedef struct new_values {
    const float *values;
    int64_t rows, cols;
    const char *from;
} new_values;

static bool add_values(new_tensors *n, int block, const char *role, const char *leaf,
                       const new_values *from, const char *reason) {
    new_tensor *t = add(n, block, role, leaf, reason);
    checkpoint_tensor_info *view;
    if (!t) return false;
    view = &t->view;
    t->stored = strdup(from->from);
    if (!t->stored) return report_no_memory(n->report);
    view->dtype = CHECKPOINT_F32;
    view->ndim = from->cols > 0 ? 2 : 1;
    view->dims[0] = from->rows;
    view->dims[1] = from->cols;
    view->count = from->rows * (from->cols > 0 ? from->cols : 1);
    view->container_name = "";
    checkpoint_contiguous_strides(view);
    return checkpoint_add_values(n->parts->checkpoint, from->from, from->values,
                                 (size_t)view->count, &view->storage, n->report);
}

static bool add_layer(new_tensors *n, int block, const char *role, const fold_layer *layer,
                      const char *from, const char *reason) {
    const new_values weight = { layer->weight, layer->rows, layer->cols, from };
    const new_values bias = { layer->bias, layer->rows, 0, from };
    return add_values(n, block, role, ".weight", &weight, reason) &&
           (!layer->bias || add_values(n, block, role, ".bias", &bias, reason));
}

/* === Views === */

/* Returns the view of a matrix as [out, in]. Drops dimensions of 1 at the end, and transposes a
 * bare parameter [in, out]. */
static checkpoint_tensor_info matrix_view(const structure_part *part) {
    checkpoint_tensor_info view = *part->weight;
    if (part->kind != PART_MATRIX) return view;
    view.ndim = 2;
    if (!part->is_bare) return view;
    view.dims[0] = part->weight->dims[1];
    view.dims[1] = part->weight->dims[0];
    view.strides[0] = part->weight->strides[1];
    view.strides[1] = part->weight->strides[0];
    return view;
}

/* Makes the view of a table as [1, N, D]. The dimension of the D values may be the last, or may
 * precede those of a grid. False if no dimension has D values or the others cannot be merged. */
static bool table_view(const checkpoint_tensor_info *t, int64_t width,
                       checkpoint_tensor_info *view) {
    int64_t rows = 1, stride = 0;
    int d = t->ndim - 1, i;
    while (d > 0 && t->dims[d] != width) d--;
    if (t->dims[d] != width) return false;
    for (i = t->ndim - 1; i >= 0; i--) {
        if (i == d || t->dims[i] == 1) continue;
        if (rows > 1 && t->strides[i] != stride * rows) return false;
        if (rows == 1) stride = t->strides[i];
        rows *= t->dims[i];
    }
    *view = *t;
    view->ndim = 3;
    view->dims[0] = 1;
    view->strides[0] = 0;
    view->dims[1] = rows;
    view->strides[1] = stride;
    view->dims[2] = width;
    view->strides[2] = t->strides[d];
    return true;
}

/* === Folds === */

static bool read_layer(new_tensors *n, const structure_part *part, fold_layer *layer) {
    return fold_read(n->parts->checkpoint, part->weight, part->bias,
                     part->is_bare && part->kind == PART_MATRIX, layer, n->report);
}

/* Writes the name of a list of layers, with '*' for the number. For example, the list that begins
 * with "attn.heads.0.query" has the name "attn.heads.*.query". */
static void name_list(const structure_parts *p, const structure_part *first, char *text,
                      size_t size) {
    const char *path = first->path, *other = structure_at(p, first->block, first->next)->path;
    size_t same = 0, end;
    while (path[same] && path[same] == other[same]) same++;
    for (end = same; path[end] >= '0' && path[end] <= '9';) end++;
    snprintf(text, size, "%.*s*%s", (int)same, path, path + end);
}

/* Stacks a list of layers: one for each head, or three for each head if no names distinguish query,
 * key and value. */
static bool add_heads(new_tensors *n, const structure_part *first, const char *role) {
    const int count = first->heads, each = !strcmp(role, "attn.stacked") ? 3 : 1;
    const int groups = !strcmp(role, "attn.qkv") ? 3 : !strcmp(role, "attn.kv") ? 2 : 1;
    fold_layer *heads = calloc((size_t)count, sizeof *heads), all = { NULL, NULL, 0, 0 };
    const structure_part *part = first;
    char from[1100];
    bool good = heads ? true : report_no_memory(n->report);
    int i;
    n->parts->result->heads = count / each;
    name_list(n->parts, first, from, sizeof from);
    for (i = 0; good && i < count; i++) {
        good = read_layer(n, part, &heads[i]);
        part = structure_at(n->parts, first->block, part->next);
    }
    good = good &&
           fold_heads(heads, count, first->cols != n->parts->width, groups, &all, n->report) &&
           add_layer(n, first->block, role, &all, from, stacked);
    for (i = 0; heads && i < count; i++) fold_free(&heads[i]);
    free(heads);
    fold_free(&all);
    return good;
}

/* Adds one layer that replaces two: `second` reads the output of `first`. */
static bool add_chain(new_tensors *n, const structure_part *first, const structure_part *second,
                      const char *role) {
    fold_layer a = { NULL, NULL, 0, 0 }, b = a, both = a;
    bool good = read_layer(n, first, &a) && read_layer(n, second, &b) &&
                fold_chain(&a, &b, &both, n->report);
    if (good && first->kind == PART_CONV) { /* keeps the shape of the convolution */
        new_tensor *weight;
        good = add_layer(n, second->block, role, &both, second->path, chained);
        weight = &n->items[n->count - (both.bias ? 2 : 1)];
        weight->view.ndim = 4;
        memcpy(weight->view.dims + 1, first->weight->dims + 1, 3 * sizeof(int64_t));
        checkpoint_contiguous_strides(&weight->view);
    } else if (good) {
        good = add_layer(n, second->block, role, &both, second->path, chained);
    }
    fold_free(&a);
    fold_free(&b);
    fold_free(&both);
    return good;
}

/* Adds a layer for the query, one for the key and one for the value. Each replaces two steps of the
 * model: a separate layer, and after it the rows of `fused` for query, key or value. */
static bool add_before(new_tensors *n, const structure_part *fused) {
    static const char *const before[] = { "attn.before.q", "attn.before.k", "attn.before.v" };
    static const char *const roles[] = { "attn.q", "attn.k", "attn.v" };
    const int64_t width = n->parts->width;
    fold_layer all = { NULL, NULL, 0, 0 };
    bool good = read_layer(n, fused, &all);
    int i;
    for (i = 0; good && i < 3; i++) {
        const structure_part *part = structure_with_role(n->parts, fused->block, before[i]);
        const fold_layer rows = fold_rows(&all, i * width, width);
        fold_layer first = { NULL, NULL, 0, 0 }, both = first;
        good = read_layer(n, part, &first) && fold_chain(&first, &rows, &both, n->report) &&
               add_layer(n, fused->block, roles[i], &both, part->path, chained);
        fold_free(&first);
        fold_free(&both);
    }
    fold_free(&all);
    return good;
}

static bool add_linear_positions(new_tensors *n, const structure_part *part) {
    fold_layer layer = { NULL, NULL, 0, 0 };
    float *table = NULL;
    bool good = read_layer(n, part, &layer) && fold_positions(&layer, &table, n->report);
    const new_values values = { table, layer.cols, layer.rows, part->path };
    good = good &&
           add_values(n, -1, "pos_embed", "", &values, "columns of a linear layer, plus its bias");
    free(table);
    fold_free(&layer);
    return good;
}

/* === Adding missing tensors that change nothing === */

static bool add_zeros(new_tensors *n, int block, const char *role, int64_t count) {
    float *zeros = calloc((size_t)count, sizeof *zeros);
    const new_values values = { zeros, count, 0, "(zeros)" };
    const bool good = zeros && add_values(n, block, role, ".bias", &values, left_out);
    free(zeros);
    return good || report_no_memory(n->report);
}

static bool add_identity(new_tensors *n, int block) {
    const int64_t width = n->parts->width;
    float *ones = calloc((size_t)width * (size_t)width, sizeof *ones);
    const new_values values = { ones, width, width, "(identity)" };
    bool good = ones ? true : report_no_memory(n->report);
    int64_t i;
    for (i = 0; good && i < width; i++) ones[i * width + i] = 1;
    good = good && add_values(n, block, "attn.proj", ".weight", &values, left_out);
    free(ones);
    return good;
}

/* If any layer in `roles` has a bias, adds a bias of zeros to each of the others that has none. */
static bool fill_biases(new_tensors *n, int block, const char *const *roles, size_t count) {
    const structure_parts *p = n->parts;
    bool any = false;
    size_t i;
    for (i = 0; i < count; i++) {
        const structure_part *part = structure_with_role(p, block, roles[i]);
        any = any || (part && part->bias);
    }
    for (i = 0; any && i < count; i++) {
        const structure_part *part = structure_with_role(p, block, roles[i]);
        const bool is_identity = !part && !strcmp(roles[i], "attn.proj");
        const int64_t rows = part ? part->rows * (part->heads ? part->heads : 1) : p->width;
        if ((is_identity || (part && !part->bias)) && !add_zeros(n, block, roles[i], rows))
            return false;
    }
    return true;
}

static bool fill_block(new_tensors *n, int block) {
    static const char *const linear[] = { "attn.proj", "mlp.fc1", "mlp.gate", "mlp.up", "mlp.fc2" };
    static const char *const inputs[] = { "attn.q", "attn.k", "attn.v", "attn.kv" };
    return (structure_with_role(n->parts, block, "attn.proj") || add_identity(n, block)) &&
           fill_biases(n, block, linear, sizeof linear / sizeof *linear) &&
           fill_biases(n, block, inputs, sizeof inputs / sizeof *inputs);
}

/* === Parts === */

static bool is_whole(const char *role) {
    return !strcmp(role, "cls_token") || !strcmp(role, "dist_token") || !strcmp(role, "reg_token");
}

static bool add_simple(new_tensors *n, const structure_part *part, const char *role) {
    const checkpoint_tensor_info view = matrix_view(part);
    return add_view(n, part->block, role, ".weight", &view, part->reason) &&
           (!part->bias || add_view(n, part->block, role, ".bias", part->bias, part->reason));
}

/* True if a table of `rows` positions has positions for the class token and the patches, but none
 * for the registers. */
static bool skips_registers(const new_tensors *n, int64_t rows) {
    const structure_part *registers = structure_with_role(n->parts, -1, "reg_token");
    int side;
    return registers && choices_is_square(rows - 1, &side) &&
           !choices_is_square(rows - 1 - registers->weight->count / n->parts->width, &side);
}

static bool add_positions(new_tensors *n, const structure_part *part) {
    checkpoint_tensor_info view, first;
    if (!table_view(part->weight, n->parts->width, &view))
        return report_fail(n->report, "%.200s: expected positions [N, %lld]", part->path,
                           (long long)n->parts->width);
    if (skips_registers(n, view.dims[1])) {
        first = view;
        first.dims[1] = 1;
        first.count = view.dims[2];
        view.dims[1]--;
        view.count -= first.count;
        view.storage_offset += view.strides[1];
        if (!add_view(n, -1, "pos_embed", ".class", &first, part->reason)) return false;
    }
    return add_view(n, -1, "pos_embed", "", &view, part->reason);
}

static bool add_part(new_tensors *n, const structure_part *part) {
    const char *role = part->role;
    if (!role || part->is_next || !strncmp(role, "attn.before.", 12)) return true;
    if (!strcmp(role, "patch_embed.first")) return true;
    if (part->heads) return add_heads(n, part, role);
    if (!strcmp(role, "attn.qkv") && structure_with_role(n->parts, part->block, "attn.before.q"))
        return add_before(n, part);
    if (!strcmp(role, "patch_embed.bias"))
        return add_view(n, -1, "patch_embed.matrix", ".bias", part->weight, part->reason);
    if (!strcmp(role, "norm1+norm2"))
        return add_simple(n, part, "norm1") && add_simple(n, part, "norm2");
    if (!strcmp(role, "ls1") || !strcmp(role, "ls2"))
        return add_view(n, part->block, role, ".gamma", part->weight, part->reason);
    if (!strcmp(role, "pos_embed")) return add_positions(n, part);
    if (!strcmp(role, "pos_embed.linear")) return add_linear_positions(n, part);
    if (is_whole(role)) return add_view(n, -1, role, "", part->weight, part->reason);
    return add_simple(n, part, role);
}

static bool add_patch_chain(new_tensors *n) {
    const structure_part *first = structure_with_role(n->parts, -1, "patch_embed.first");
    const structure_part *second = structure_with_role(n->parts, -1, "patch_embed.second");
    return !first || add_chain(n, first, second, "patch_embed.proj");
}

/* If the model has only one norm, adds it to the block as norm1, and beside an MLP as norm2. */
static bool add_shared_norm(new_tensors *n, int block) {
    static const char *const roles[] = { "norm1", "norm2" };
    const structure_part *norm = n->parts->shared_norm;
    size_t i;
    for (i = 0; norm && i < COUNT(roles); i++)
        if ((i == 0 || structure_with_role(n->parts, block, "mlp.fc2")) &&
            (!add_view(n, block, roles[i], ".weight", norm->weight, norm->reason) ||
             !add_view(n, block, roles[i], ".bias", norm->bias, norm->reason)))
            return false;
    return true;
}

static bool add_all(new_tensors *n) {
    int i;
    for (i = 0; i < n->parts->count; i++) {
        const structure_part *part = &n->parts->parts[i];
        if (part->role && !strcmp(part->role, "patch_embed.second")) continue;
        if (!add_part(n, part)) return false;
    }
    for (i = 0; i < n->parts->depth; i++)
        if (!add_shared_norm(n, i) || !fill_block(n, i)) return false;
    return add_patch_chain(n);
}

/* === Remaining parts === */

static bool is_explained(const structure_part *part) {
    return part->role || part->is_dropped || part->is_next;
}

/* Writes a pattern that names the decoder to which the part belongs, such as "decoder.*". */
static void put_decoder(const structure_part *part, char *pattern, size_t size) {
    const char *name = strstr(part->path, "decoder");
    const size_t before = name ? (size_t)(name - part->path) : 0;
    snprintf(pattern, size, "%.*s*", (int)(before + strcspn(part->path + before, ".") + 1),
             part->path);
}

/* Returns the reason why the part can have no role; "" if no reason is known. */
static const char *remark(const structure_parts *p, const structure_part *part) {
    const checkpoint_tensor_info *t = part->weight;
    if (part->kind == PART_BATCH) return ": a batch norm, which vit.h lacks";
    if (part->kind == PART_OTHER && part->bias && part->bias->ndim > 1)
        return ": a norm over tokens and width at once, which vit.h lacks";
    if (part->kind == PART_MATRIX && p->rows > 1 && part->cols == p->rows * p->width)
        return ": a layer that reads all tokens at once, which vit.h lacks";
    if (t->ndim > 1 && t->dims[t->ndim - 1] == t->dims[t->ndim - 2] && !part->bias && part->is_bare)
        return ": perhaps a mask";
    return "";
}

static bool add_left(const structure_parts *p, const structure_part *part, name_groups *left) {
    char shape[SHAPE_TEXT_SIZE], pattern[200], note[SHAPE_TEXT_SIZE + 280];
    int used = snprintf(note, sizeof note, " %s%s",
                        shape_text(part->weight->dims, part->weight->ndim, shape, sizeof shape),
                        remark(p, part));
    if (structure_says(part, "decoder") && part->path_size + 2 < sizeof pattern) {
        put_decoder(part, pattern, sizeof pattern);
        snprintf(note + used, sizeof note - (size_t)used,
                 ": of a decoder, which --ignore '%s' drops", pattern);
    }
    return groups_add(left, structure_shown(p, part), note);
}

static bool add_read(const structure_parts *p, const structure_part *part, name_groups *read) {
    char note[80];
    snprintf(note, sizeof note, " = %s%s", part->block < 0 ? "" : "blocks.*.", part->role);
    return groups_add(read, structure_shown(p, part), note);
}

static bool put_groups(const name_groups *groups, report *r) {
    char name[GROUP_TEXT_SIZE], text[GROUP_TEXT_SIZE + 200];
    size_t i;
    bool fits = groups->more == 0;
    for (i = 0; i < groups->count && fits; i++) {
        snprintf(text, sizeof text, "  %s%s", group_text(&groups->items[i], name),
                 groups->items[i].note);
        fits = report_line(r, 300, text);
    }
    return fits || report_line(r, 200, "  and others");
}

/* True if the name shows that only training uses the part. A forward pass may read a part with any
 * other name. */
static bool is_of_training(const structure_part *part) {
    return structure_says(part, "aux auxiliary projector predictor teacher momentum queue loss "
                                "criterion");
}

/* Appends a line with the options that name or drop a part without a role. */
static void put_remedies(const structure_parts *p, report *r) {
    char names[STRUCTURE_NAMES_SIZE] = "", line[STRUCTURE_NAMES_SIZE + 200];
    bool droppable = false;
    int i;
    for (i = 0; i < p->count; i++) {
        if (is_explained(&p->parts[i])) continue;
        structure_list_names(p, &p->parts[i], names);
        droppable = droppable || is_of_training(&p->parts[i]);
    }
    snprintf(line, sizeof line,
             "--rename THEIRS=OURS gives a tensor its role%s%s%s%s. The other tensors were read "
             "as:",
             *names ? " (OURS: " : "", names, *names ? ")" : "",
             droppable ? "; --ignore PATTERN drops a tensor that the model does not use" : "");
    report_line(r, 0, line);
}

/* Fails with two lists: the parts without a role, and the other parts with their roles. */
static bool refuse_left(const structure_parts *p, int count, name_groups *left, name_groups *read,
                        report *r) {
    int i;
    for (i = 0; i < p->count; i++) {
        const structure_part *part = &p->parts[i];
        if (!(is_explained(part) ? part->is_next || part->is_dropped || add_read(p, part, read)
                                 : add_left(p, part, left)))
            return report_no_memory(r);
    }
    (void)report_fail(r,
                      "%d layers and parameters have no known role in a vision transformer of %d "
                      "blocks, %lld wide:",
                      count, p->depth, (long long)p->width);
    put_groups(left, r);
    put_remedies(p, r);
    put_groups(read, r);
    return false;
}

static bool check_all_explained(const structure_parts *p, report *r) {
    name_groups *groups;
    int left = 0, i;
    for (i = 0; i < p->count; i++) left += !is_explained(&p->parts[i]);
    if (left == 0) return true;
    groups = calloc(2, sizeof *groups);
    if (!groups) return report_no_memory(r);
    (void)refuse_left(p, left, &groups[0], &groups[1], r);
    groups_free(&groups[0]);
    groups_free(&groups[1]);
    free(groups);
    return false;
}

static bool note_dropped(const structure_parts *p, structure *s, report *r) {
    int i;
    s->dropped = calloc((size_t)p->count + 1, sizeof *s->dropped);
    if (!s->dropped) return report_no_memory(r);
    for (i = 0; i < p->count; i++) {
        if (!p->parts[i].is_dropped) continue;
        s->dropped[s->dropped_count].why = p->parts[i].reason;
        s->dropped[s->dropped_count].name = strdup(p->parts[i].weight->name);
        if (!s->dropped[s->dropped_count++].name) return report_no_memory(r);
    }
    return true;
}

/* === The whole new checkpoint === */

static bool ends_in(const structure_part *part, const char *name) {
    const size_t length = part ? strlen(part->path) : 0, size = strlen(name);
    return length >= size && !strcmp(part->path + length - size, name);
}

/* True for an .npz file with the names that numpy.savez gives to arrays without names. */
static bool is_numpy_list(const checkpoint *c) {
    return !strcmp(checkpoint_kind(c), "npz") && checkpoint_find(c, "arr_0");
}

/* Returns the layout of the code that made the checkpoint. Names from numpy.savez, or the names of
 * two layers, show which code it was. Returns layout_own for any other code. */
static const layout *layout_of(const structure_parts *p) {
    static const struct {
        const layout *layout;
        const char *role, *attention, *mlp;
    } known[] = {
        { &layout_own_torch, "attn.qkv", "self_attn.in_proj", "linear1" },
        { &layout_own_dense, "attn.qkv", "attention.qkv_projection", "mlp.dense_1" },
        { &layout_own_lecture, "attn.q", "sa.heads.0.query", "ffwd.net.0" },
    };
    size_t i;
    if (is_numpy_list(p->checkpoint)) return &layout_own_numpy;
    for (i = 0; i < COUNT(known); i++)
        if (ends_in(structure_with_role(p, 0, known[i].role), known[i].attention) &&
            ends_in(structure_with_role(p, 0, "mlp.fc1"), known[i].mlp))
            return known[i].layout;
    return &layout_own;
}

static bool replace_tensors(new_tensors *n, structure *s) {
    checkpoint_tensor_info *views = calloc(n->count + 1, sizeof *views);
    bool good;
    size_t i;
    s->reasons = calloc(n->count + 1, sizeof *s->reasons);
    good = views && s->reasons ? true : report_no_memory(n->report);
    for (i = 0; good && i < n->count; i++) {
        const new_tensor *t = &n->items[i];
        views[i] = t->view;
        views[i].name = t->name;
        views[i].stored_name = t->stored ? t->stored : t->view.stored_name;
        s->reasons[i] = t->reason;
    }
    s->reason_count = n->count;
    good = good && checkpoint_replace(n->parts->checkpoint, views, n->count, n->report);
    free(views);
    return good;
}

static bool name_all(structure_parts *p, report *r) {
    return structure_find_blocks(p, r) && structure_name_block(p, r) && structure_name_rest(p, r) &&
           check_all_explained(p, r);
}

bool structure_find(checkpoint *c, const text_list *ignore, bool is_matched, structure *s,
                    report *r) {
    structure_parts p = { 0 };
    new_tensors n = { 0 };
    size_t i;
    memset(s, 0, sizeof *s);
    p.result = s;
    p.is_matched = is_matched;
    n.parts = &p;
    n.report = r;
    s->found = structure_make_parts(c, ignore, &p, r) && name_all(&p, r) &&
               note_dropped(&p, s, r) && add_all(&n);
    if (s->found) {
        s->layout = layout_of(&p);
        structure_note_add(s, "blocks as usual",
                           "attention with a softmax over the keys, then an MLP, each added to "
                           "its input. The file has the weights, but not the program",
                           "to prove it: --match-input x.npy --match-logits y.npy");
    }
    s->found = s->found && replace_tensors(&n, s);
    for (i = 0; i < n.count; i++) free(n.items[i].stored);
    free(n.items);
    structure_free_parts(&p);
    return s->found;
}

void structure_free(structure *s) {
    size_t i;
    for (i = 0; i < s->dropped_count; i++) free(s->dropped[i].name);
    free(s->dropped);
    free(s->reasons);
    memset(s, 0, sizeof *s);
}
