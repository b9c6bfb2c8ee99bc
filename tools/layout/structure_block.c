#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/structure.h"

/* === Blocks === */

/* A part is a weight and its bias. Its role is its name in layout_own, such as "attn.q".
 *
 * This file finds the role of each part of the first block; the other blocks have the same parts.
 * Words in the names are tried first. Shapes decide the remaining roles: the matrices of attention
 * read and write tokens, and the MLP has matrices [F, D] and [D, F]. The order of the parts in the
 * file is the last resort, and is reported. */

#define ATTENTION_WORDS "attn att attention self mha msa mhsa sa multihead multi+head heads"
#define QUERY_WORDS     "q query queries wq toq toqueries"
#define KEY_WORDS       "k key keys wk tok tokeys"
#define VALUE_WORDS     "v value values wv tov tovalues"
#define FUSED_WORDS     "qkv in+proj toqkv wqkv kqv c+attn"
#define KEY_VALUE_WORDS "kv tokv"
#define PROJ_WORDS                                                                                 \
    "out o wo proj projection output unify unifyheads merge concat dense c+proj to+out"
#define MLP_WORDS                                                                                  \
    "mlp ff ffn feedforward feed+forward ffwd fc fcn linear intermediate expand hidden dense"
#define GATE_WORDS  "gate w+gate"
#define SCALE_WORDS "ls gamma scale layerscale lambda"

enum { MAX_MATRICES = 16 };

static const char by_number[] = "by the number in its name";
static const char by_order[] = "by its place in the file";

/* The matrices of the first block that have no role yet. */
typedef struct matrix_list {
    structure_part *items[MAX_MATRICES];
    int count;
} matrix_list;

/* === One linear layer for each head === */

/* Returns the part of block 0 that has this part's shape, and `number` in place of the number in
 * this part's path; NULL if there is none. */
static structure_part *with_number(const structure_parts *p, const structure_part *part,
                                   size_t before, size_t after, int number) {
    int i;
    for (i = 0; i < p->places; i++) {
        structure_part *other = structure_at(p, 0, i);
        const char *path = other->path;
        char *end;
        if (strncmp(path, part->path, before) != 0 || !isdigit((unsigned char)path[before]))
            continue;
        if (strtol(path + before, &end, 10) == number && !strcmp(end, part->path + after) &&
            other->rows == part->rows && other->cols == part->cols && other->kind == part->kind)
            return other;
    }
    return NULL;
}

/* If a list of heads begins with this part, marks all parts of the list. The number of the first
 * part of a list is 0 or 1. */
static void mark_heads(structure_parts *p, structure_part *part, size_t before, size_t after) {
    const int first = atoi(part->path + before);
    structure_part *last, *next;
    int count = 1;
    if (first > 1 || (first == 1 && with_number(p, part, before, after, 0))) return;
    while (with_number(p, part, before, after, first + count)) count++;
    if (count < 2 || (part->rows >= p->width && !structure_says(part, "heads head attn attention")))
        return;
    if (part->cols != p->width && part->cols * count != p->width) return;
    part->heads = count;
    for (last = part; --count > 0; last = next) {
        next = with_number(p, part, before, after, first + part->heads - count);
        last->next = next->place;
        next->is_next = true;
    }
}

static void find_heads(structure_parts *p) {
    int i;
    for (i = 0; i < p->places; i++) {
        structure_part *part = structure_at(p, 0, i);
        size_t at = (size_t)(part->inner - part->path);
        if (part->kind != PART_MATRIX) continue;
        while (part->path[at] && !part->heads && !part->is_next) {
            const size_t start = at;
            while (isdigit((unsigned char)part->path[at])) at++;
            if (at > start) mark_heads(p, part, start, at);
            else at++;
        }
    }
}

/* Returns the number of rows of a part. If each head has a layer, returns the rows of all these
 * layers together. */
static int64_t rows_of(const structure_part *part) {
    return part->rows * (part->heads ? part->heads : 1);
}

static int64_t cols_of(const structure_parts *p, const structure_part *part) {
    return part->heads ? p->width : part->cols;
}

/* === Attention === */

static bool is_open(const structure_part *part) {
    return !part->role && !part->is_next && !part->is_dropped;
}

static void list_matrices(const structure_parts *p, matrix_list *list) {
    int i;
    list->count = 0;
    for (i = 0; i < p->places && list->count < MAX_MATRICES; i++) {
        structure_part *part = structure_at(p, 0, i);
        if (part->kind == PART_MATRIX && is_open(part)) list->items[list->count++] = part;
    }
}

/* Returns the only matrix without a role that reads tokens and has one of these words in its name.
 * Matrices with a word of `but` do not count. NULL if there is no such matrix, or more than one. */
static structure_part *only_one(const structure_parts *p, const char *words, const char *but) {
    structure_part *found = NULL;
    int i;
    for (i = 0; i < p->places; i++) {
        structure_part *part = structure_at(p, 0, i);
        if (part->kind != PART_MATRIX || !is_open(part) || cols_of(p, part) != p->width) continue;
        if (!structure_says(part, words) || structure_says(part, but)) continue;
        if (found) return NULL;
        found = part;
    }
    return found;
}

/* Finds the layers of queries, keys and values by the words in their names. */
static void name_by_words(structure_parts *p) {
    structure_part *q = only_one(p, QUERY_WORDS, KEY_WORDS " " VALUE_WORDS);
    structure_part *k = only_one(p, KEY_WORDS, QUERY_WORDS " " VALUE_WORDS);
    structure_part *v = only_one(p, VALUE_WORDS, QUERY_WORDS " " KEY_WORDS);
    structure_part *kv = only_one(p, KEY_VALUE_WORDS, "qkv");
    structure_part *fused = only_one(p, FUSED_WORDS, "out");
    const bool three = q && k && v && rows_of(q) == rows_of(k) && rows_of(k) == rows_of(v);
    if (three && fused && fused->rows == 3 * p->width && q->rows == p->width) {
        /* three layers in front of nn.MultiheadAttention, which has its own layers */
        structure_name(q, "attn.before.q", structure_by_name);
        structure_name(k, "attn.before.k", structure_by_name);
        structure_name(v, "attn.before.v", structure_by_name);
        structure_name(fused, "attn.qkv", structure_by_name);
    } else if (three) {
        structure_name(q, "attn.q", structure_by_name);
        structure_name(k, "attn.k", structure_by_name);
        structure_name(v, "attn.v", structure_by_name);
    } else if (q && kv && rows_of(kv) == 2 * rows_of(q)) {
        structure_name(q, "attn.q", structure_by_name);
        structure_name(kv, "attn.kv", structure_by_name);
    } else if (fused && rows_of(fused) % 3 == 0 && p->ordered && fused->heads) {
        structure_name(fused, "attn.stacked", by_order);
        structure_note_add(p->result, "qkv_order=qkv", "no name distinguishes query, key and value",
                           "--set qkv_order=WORD");
    } else if (fused && rows_of(fused) % 3 == 0) {
        structure_name(fused, "attn.qkv", structure_by_name);
        if (structure_says(fused, "kqv")) p->result->assignment = "qkv_order=kqv";
    }
}

static structure_part *with_role(const structure_parts *p, const char *role) {
    return structure_with_role(p, 0, role);
}

static bool has_shape(const structure_parts *p, const structure_part *part, int64_t rows,
                      int64_t cols) {
    return rows_of(part) == rows && cols_of(p, part) == cols;
}

/* True if the matrices other than `but` form an MLP: two matrices, or three if it is gated. Also
 * true if there are no others, because a block may have no MLP. */
static bool is_mlp(const structure_parts *p, const matrix_list *list, const structure_part *but) {
    const structure_part *rest[MAX_MATRICES];
    int64_t hidden;
    int count = 0, i;
    for (i = 0; i < list->count; i++)
        if (list->items[i] != but) rest[count++] = list->items[i];
    if (count == 0) return true;
    hidden = rest[0]->rows;
    if (count == 2)
        return (rest[0]->cols == p->width && rest[1]->rows == p->width &&
                (rest[1]->cols == hidden || 2 * rest[1]->cols == hidden)) ||
               (rest[1]->cols == p->width && rest[0]->rows == p->width &&
                rest[0]->cols == rest[1]->rows);
    if (count == 3) {
        int reads = 0, writes = 0;
        for (i = 0; i < 3; i++) {
            reads += rest[i]->cols == p->width && rest[i]->rows != p->width;
            writes += rest[i]->rows == p->width && rest[i]->cols != p->width;
        }
        return reads == 2 && writes == 1;
    }
    return false;
}

/* Takes a matrix [3 I, D] as the layer of query, key and value if the next matrix is [D, I]. */
static bool name_fused(const structure_parts *p, const matrix_list *list) {
    int i;
    for (i = 0; i + 1 < list->count; i++) {
        const int64_t rows = rows_of(list->items[i]);
        if (cols_of(p, list->items[i]) != p->width || rows % 3 != 0 ||
            !has_shape(p, list->items[i + 1], p->width, rows / 3))
            continue;
        structure_name(list->items[i], "attn.qkv", structure_by_shape);
        return true;
    }
    return false;
}

/* Takes a matrix [3 D, D] as the layer of query, key and value if the other matrices form an MLP.
 * Attention then has no projection. */
static bool name_fused_alone(const structure_parts *p, const matrix_list *list) {
    int i;
    for (i = 0; i < list->count; i++) {
        if (!has_shape(p, list->items[i], 3 * p->width, p->width) ||
            structure_says(list->items[i], MLP_WORDS) || !is_mlp(p, list, list->items[i]))
            continue;
        structure_name(list->items[i], "attn.qkv", structure_by_shape);
        return true;
    }
    return false;
}

/* Takes three consecutive matrices of equal shape as the layers of query, key and value. */
static void name_three(structure_parts *p, const matrix_list *list) {
    static const char *const roles[] = { "attn.q", "attn.k", "attn.v" };
    int i, k;
    for (i = 0; i + 2 < list->count; i++) {
        structure_part *const *three = list->items + i;
        const int64_t rows = rows_of(three[0]);
        if (!has_shape(p, three[0], rows, p->width) || !has_shape(p, three[1], rows, p->width) ||
            !has_shape(p, three[2], rows, p->width))
            continue;
        if (!structure_order_tells(p, three, 3, "query, key and value")) return;
        for (k = 0; k < 3; k++) structure_name(three[k], roles[k], by_order);
        structure_note_add(p->result, "query, key and value in the order of the file",
                           "their names do not distinguish them", "--rename THEIRS=OURS");
        return;
    }
}

static void name_by_shape(structure_parts *p) {
    matrix_list list;
    list_matrices(p, &list);
    if (!name_fused(p, &list) && !name_fused_alone(p, &list)) name_three(p, &list);
}

/* Returns the width of the values that attention passes to its projection; 0 if the layers of
 * attention are not known. */
static int64_t inner_width(const structure_parts *p) {
    const structure_part *fused = with_role(p, "attn.qkv"), *q = with_role(p, "attn.q");
    if (!fused) fused = with_role(p, "attn.stacked");
    return fused ? rows_of(fused) / 3 : q ? rows_of(q) : 0;
}

/* === The projection and the MLP === */

/* Returns the length of the text that both paths begin with, up to the last dot of this text. A
 * large number means that both parts are in the same module. */
static size_t shared_path(const structure_part *a, const structure_part *b) {
    size_t i, shared = 0;
    for (i = 0; a->inner[i] && a->inner[i] == b->inner[i]; i++)
        if (a->inner[i] == '.') shared = i + 1;
    return shared;
}

static int projection_score(const structure_part *part, const structure_part *attention) {
    int score = 0;
    if (structure_says(part, ATTENTION_WORDS)) score += 3;
    if (structure_says(part, PROJ_WORDS)) score += 1;
    if (structure_says(part, MLP_WORDS) && !structure_says(part, ATTENTION_WORDS)) score -= 2;
    if (attention && shared_path(part, attention) > 1) score += 2;
    return score;
}

/* Takes one matrix as the projection of attention if the others form an MLP. If all matrices form
 * an MLP, attention may have no projection. Returns false if neither is possible. */
static bool name_projection(structure_parts *p) {
    const int64_t inner = inner_width(p);
    const structure_part *attention = with_role(p, "attn.qkv");
    structure_part *best = NULL, *alike[2];
    matrix_list list;
    int score, most = -100, i;
    bool tied = false;
    if (!attention) attention = with_role(p, "attn.v");
    if (!attention) attention = with_role(p, "attn.kv");
    list_matrices(p, &list);
    /* attention may also have no projection */
    if (inner == p->width && is_mlp(p, &list, NULL)) most = 0;
    for (i = 0; i < list.count; i++) {
        if (!has_shape(p, list.items[i], p->width, inner) || !is_mlp(p, &list, list.items[i]))
            continue;
        score = projection_score(list.items[i], attention);
        alike[1] = list.items[i];
        tied = score == most ? best != NULL : tied && score < most;
        if (score <= most) continue;
        most = score;
        alike[0] = best = list.items[i];
    }
    if (most == -100) return false;
    if (tied &&
        !structure_order_tells(p, alike, 2, "attention's projection from a layer of the MLP"))
        return true;
    if (best)
        structure_name(best, "attn.proj",
                       tied       ? by_order
                       : most > 0 ? structure_by_name
                                  : structure_by_shape);
    return true;
}

static void name_gated(matrix_list *list, structure_parts *p) {
    structure_part *gate = NULL, *up = NULL, *two[2];
    bool is_named;
    int i;
    for (i = 0; i < 3; i++) {
        structure_part *part = list->items[i];
        if (part->rows == p->width) structure_name(part, "mlp.fc2", structure_by_shape);
        else if (!gate && !structure_says(part, "up")) gate = part;
        else if (!up) up = part;
        else gate = part;
    }
    two[0] = structure_says(up, GATE_WORDS) ? up : gate;
    two[1] = two[0] == up ? gate : up;
    is_named = structure_says(two[0], GATE_WORDS) || structure_says(two[1], "up");
    if (!is_named &&
        !structure_order_tells(p, two, 2, "the gate and the layer that the gate multiplies"))
        return;
    structure_name(two[0], "mlp.gate", is_named ? structure_by_name : by_order);
    structure_name(two[1], "mlp.up", is_named ? structure_by_name : by_order);
    if (!is_named)
        structure_note_add(p->result, "the first of a gated MLP's layers as the gate",
                           "the names of the layers do not show the gate", "--rename THEIRS=OURS");
}

/* Returns the index, 0 or 1, of the part that comes first according to the words of both parts; -1
 * if the words do not show it. */
static int first_by_words(structure_part *const *two, const char *before, const char *after) {
    const int a = structure_says(two[0], before) - structure_says(two[0], after);
    const int b = structure_says(two[1], before) - structure_says(two[1], after);
    return a == b ? -1 : a < b;
}

static void name_two(structure_parts *p, structure_part *const *two) {
    const char *why = structure_by_shape;
    int first = two[0]->cols != p->width || two[1]->rows != p->width;
    if (two[0]->rows == two[0]->cols) {
        first = first_by_words(two, "in input expand up first hidden intermediate",
                               "out output contract down second");
        why = first < 0 ? by_order : structure_by_name;
        if (first < 0 && !structure_order_tells(p, two, 2, "the two layers of the MLP")) return;
        if (first < 0) first = structure_last_number(two[0]) > structure_last_number(two[1]);
    }
    structure_name(two[first], "mlp.fc1", why);
    structure_name(two[1 - first], "mlp.fc2", why);
}

static void name_mlp(structure_parts *p) {
    matrix_list list;
    list_matrices(p, &list);
    if (list.count == 3) name_gated(&list, p);
    else if (list.count == 2) name_two(p, list.items);
}

/* === Norms and LayerScale === */

/* Lists the norms without a role that have this number of values. Vectors that only scale are not
 * norms. */
static int list_norms(const structure_parts *p, int64_t rows, structure_part **norms, int most) {
    int count = 0, i;
    for (i = 0; i < p->places; i++) {
        structure_part *part = structure_at(p, 0, i);
        const bool is_norm = part->kind == PART_NORM ||
                             (part->kind == PART_VECTOR && !structure_says(part, SCALE_WORDS));
        if (is_norm && is_open(part) && part->rows == rows && count < most) norms[count++] = part;
    }
    return count;
}

static int place_of(const structure_part *part, const structure_part *attention,
                    const structure_part *mlp) {
    int score = 0;
    if (attention) score += (int)shared_path(part, attention);
    if (mlp) score -= (int)shared_path(part, mlp);
    if (structure_says(part, ATTENTION_WORDS)) score += 2;
    if (structure_says(part, MLP_WORDS)) score -= 2;
    return score;
}

/* True if the first of two parts belongs to attention and the second to the MLP. *why receives the
 * reason. */
static bool is_in_order(structure_parts *p, structure_part *const *two, const char **why) {
    const structure_part *attention = with_role(p, "attn.qkv"), *mlp = with_role(p, "mlp.fc1");
    int a, b;
    if (!attention) attention = with_role(p, "attn.q");
    a = place_of(two[0], attention, mlp);
    b = place_of(two[1], attention, mlp);
    *why = structure_by_name;
    if (a != b) return a > b;
    a = structure_last_number(two[0]);
    b = structure_last_number(two[1]);
    *why = by_number;
    if (a != b) return a < b;
    a = first_by_words(two, "before pre input first", "after post output second");
    *why = a < 0 ? by_order : structure_by_name;
    if (a < 0)
        (void)structure_order_tells(p, two, 2, "the tensors of attention from those of the MLP");
    return a <= 0;
}

static void name_pair(structure_parts *p, structure_part *const *two, const char *first,
                      const char *second) {
    const char *why;
    const int a = is_in_order(p, two, &why) ? 0 : 1;
    structure_name(two[a], first, why);
    structure_name(two[1 - a], second, why);
}

/* Finds the norms of queries and keys. Such a norm is over one head or over all heads. */
static void name_head_norms(structure_parts *p) {
    int i;
    for (i = 0; i < p->places; i++) {
        structure_part *part = structure_at(p, 0, i);
        const char *role = structure_says(part, QUERY_WORDS " qnorm") ? "attn.q_norm"
                           : structure_says(part, KEY_WORDS " knorm") ? "attn.k_norm"
                                                                      : NULL;
        if (role && is_open(part) && (part->kind == PART_NORM || part->kind == PART_VECTOR) &&
            !with_role(p, role))
            structure_name(part, role, structure_by_name);
    }
}

static void name_norms(structure_parts *p) {
    structure_part *norms[4];
    const int count = list_norms(p, p->width, norms, 4);
    const structure_part *fc1 = with_role(p, "mlp.fc1");
    if (count == 2) name_pair(p, norms, "norm1", "norm2");
    if (count == 1 && fc1) {
        structure_name(norms[0], "norm1+norm2", structure_by_shape);
        structure_note_add(p->result, "one norm used twice in each block",
                           "attention and the MLP share it, because a block has no second norm",
                           "--rename THEIRS=OURS");
    } else if (count == 1) {
        structure_name(norms[0], "norm1", structure_by_shape);
    }
    if (fc1 && fc1->rows != p->width && list_norms(p, fc1->rows, norms, 1) == 1)
        structure_name(norms[0], "mlp.norm", structure_by_shape);
}

static void name_scales(structure_parts *p) {
    structure_part *scales[2];
    int count = 0, i;
    for (i = 0; i < p->places; i++) {
        structure_part *part = structure_at(p, 0, i);
        if (part->kind == PART_VECTOR && is_open(part) && part->rows == p->width &&
            structure_says(part, SCALE_WORDS)) {
            if (count == 2) return;
            scales[count++] = part;
        }
    }
    if (count == 2) name_pair(p, scales, "ls1", "ls2");
}

/* === The roles of all parts in the blocks === */

/* Gives the parts of every block the roles of the first block's parts. */
static void copy_roles(structure_parts *p) {
    int block, place;
    for (block = 1; block < p->depth; block++)
        for (place = 0; place < p->places; place++) {
            const structure_part *from = structure_at(p, 0, place);
            structure_part *to = structure_at(p, block, place);
            to->role = from->role;
            to->reason = from->reason;
            to->heads = from->heads;
            to->next = from->next;
            to->is_next = from->is_next;
            to->is_dropped = from->is_dropped;
        }
}

/* Takes each bare parameter with two dimensions as a matrix [in, out], because code multiplies
 * tokens by it. */
static void turn_bare_matrices(structure_parts *p) {
    int i;
    bool is_square = false;
    for (i = 0; i < p->places * p->depth; i++) {
        structure_part *part = p->in_blocks[i];
        const int64_t rows = part->rows;
        if (part->kind != PART_TABLE || part->weight->ndim != 2) continue;
        part->kind = PART_MATRIX;
        part->rows = part->cols;
        part->cols = rows;
        is_square = is_square || part->rows == part->cols;
    }
    if (is_square)
        structure_note_add(p->result, "matrices outside layers as [inputs, outputs]",
                           "programs usually compute tokens @ W with such a matrix",
                           "--rename THEIRS=OURS");
}

/* Fails with a list of the matrices of a block and their shapes, because no interpretation fits
 * them. */
static bool refuse_matrices(const structure_parts *p, report *r) {
    char line[400], shape[SHAPE_TEXT_SIZE];
    int i;
    (void)report_fail(r, "the matrices of a block cannot be read as attention and an MLP:");
    for (i = 0; i < p->places && i < MAX_MATRICES; i++) {
        const structure_part *part = structure_at(p, 0, i);
        if (part->kind != PART_MATRIX) continue;
        snprintf(line, sizeof line, "  %.300s %s", structure_shown(p, part),
                 shape_text(part->weight->dims, part->weight->ndim, shape, sizeof shape));
        report_line(r, 0, line);
    }
    report_line(r, 0,
                "--rename THEIRS=OURS gives them recognisable names, such as query, key, value, "
                "out, fc1, fc2");
    return false;
}

bool structure_name_block(structure_parts *p, report *r) {
    turn_bare_matrices(p);
    find_heads(p);
    name_head_norms(p);
    name_by_words(p);
    if (inner_width(p) == 0) name_by_shape(p);
    if (p->unsure[0]) return report_fail(r, "%s", p->unsure);
    if (inner_width(p) == 0 || !name_projection(p)) return refuse_matrices(p, r);
    /* the names do not distinguish attention's projection from a layer of the MLP */
    if (p->unsure[0]) return report_fail(r, "%s", p->unsure);
    name_mlp(p);
    name_norms(p);
    name_scales(p);
    copy_roles(p);
    return !p->unsure[0] || report_fail(r, "%s", p->unsure);
}

/* === Copies === */

/* If a module is an attribute of two other modules, the module is stored under two names: for
 * example, "embedding.3.weight" and "encoder.1.3.weight" are one tensor. The part with the later
 * name is dropped. Layers that share weights look similar, but must not be dropped. If they are in
 * different blocks, their names differ only in numbers. If they are in one block, they share only
 * some parts of a module. */

/* The earlier part of which this part is a copy, and the lengths of the names of both parts'
 * modules. */
typedef struct part_copy {
    const structure_part *original; /* NULL if this part is no copy */
    size_t from, to;
    size_t storage; /* the storage that holds the weight */
} part_copy;

enum { MOST_NAMES = 8 }; /* the most names of one tensor that are compared */

static bool same_view(const checkpoint_tensor_info *a, const checkpoint_tensor_info *b) {
    const size_t size = a ? (size_t)a->ndim * sizeof a->dims[0] : 0;
    if (!a || !b) return a == b;
    return a->storage == b->storage && a->storage_offset == b->storage_offset &&
           a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->dims, b->dims, size) &&
           !memcmp(a->strides, b->strides, size);
}

/* Finds the paths of the two modules. A module's path is the path of its part without the last
 * components that the paths of both parts share. */
static void split_paths(const structure_part *copy, part_copy *c) {
    const structure_part *original = c->original;
    size_t i = original->path_size, j = copy->path_size;
    c->from = i;
    c->to = j;
    while (i > 0 && j > 0 && original->path[i - 1] == copy->path[j - 1]) {
        i--;
        j--;
        if (copy->path[j] != '.') continue;
        c->from = i;
        c->to = j;
    }
}

static bool differ_in_numbers(const char *a, size_t a_size, const char *b, size_t b_size) {
    size_t i = 0, j = 0;
    for (;;) {
        while (i < a_size && isdigit((unsigned char)a[i])) i++;
        while (j < b_size && isdigit((unsigned char)b[j])) j++;
        if (i == a_size || j == b_size) return i == a_size && j == b_size;
        if (a[i++] != b[j++]) return false;
    }
}

static void find_original(const structure_parts *p, part_copy *copies, int copy) {
    const structure_part *part = &p->parts[copy];
    part_copy *c = &copies[copy];
    int names = 0, i;
    for (i = 0; i < copy && names < MOST_NAMES && !c->original; i++) {
        const structure_part *other = &p->parts[i];
        if (copies[i].storage != c->storage || !same_view(other->weight, part->weight) ||
            !same_view(other->bias, part->bias))
            continue;
        names++;
        c->original = other;
        split_paths(part, c);
        if (c->from == other->path_size || c->to == part->path_size ||
            differ_in_numbers(other->path, c->from, part->path, c->to))
            c->original = NULL;
    }
}

static bool is_under(const structure_part *part, const char *module, size_t size) {
    return part->path_size > size && part->path[size] == '.' && !memcmp(part->path, module, size);
}

static int count_under(const structure_parts *p, const char *module, size_t size) {
    int count = 0, i;
    for (i = 0; i < p->count; i++) count += is_under(&p->parts[i], module, size);
    return count;
}

/* Returns how many consecutive parts, from this one on, are copies of parts of the same other
 * module. */
static int count_copies(const structure_parts *p, const part_copy *copies, int first) {
    const part_copy *a = &copies[first];
    int i;
    for (i = first; i < p->count; i++) {
        const part_copy *b = &copies[i];
        if (!b->original || b->from != a->from || b->to != a->to ||
            !is_under(b->original, a->original->path, a->from) ||
            !is_under(&p->parts[i], p->parts[first].path, a->to))
            break;
    }
    return i - first;
}

static void drop_copies(structure_parts *p, const part_copy *copies) {
    int i, k, count;
    for (i = 0; i < p->count; i += count) {
        const part_copy *c = &copies[i];
        count = 1;
        if (!c->original) continue;
        count = count_copies(p, copies, i);
        if (count < 2 || count_under(p, p->parts[i].path, c->to) != count ||
            count_under(p, c->original->path, c->from) != count)
            continue;
        for (k = i; k < i + count; k++) {
            p->parts[k].is_dropped = true;
            p->parts[k].reason = "stored under another name too";
        }
    }
}

bool structure_drop_copies(structure_parts *p, report *r) {
    part_copy *copies = calloc((size_t)p->count, sizeof *copies);
    int i;
    if (!copies) return report_no_memory(r);
    for (i = 0; i < p->count; i++) {
        copies[i].storage = p->parts[i].weight->storage;
        find_original(p, copies, i);
    }
    drop_copies(p, copies);
    free(copies);
    return true;
}
