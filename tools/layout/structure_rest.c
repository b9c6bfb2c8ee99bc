#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "base/text.h"
#include "layout/rules.h"
#include "layout/structure.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === All but the blocks === */

/* Finds the roles of the parts before and after the blocks: tokens, positions, patch embedding,
 * norms and head. */

#define CLASS_WORDS    "cls class clstoken classtoken"
#define POSITION_WORDS "pos position positional positions pe posembed posemb posembedding wpe"
#define PATCH_WORDS                                                                                \
    "patch patches patchify embed embedding embeddings emb input stem conv tokenizer projection "  \
    "linear+projection proj linear+map img image tubelet"
#define HEAD_WORDS   "head classifier cls class mlp+head fc out output logits classification heads"
#define AFTER_WORDS  "final last post after norm+f ln+f ln+post encoder+norm out output"
#define BEFORE_WORDS "pre before input patch patches emb embed embedding embeddings first"

enum { MAX_NORMS = 16 };

static const char left_over[] = "the only one left";

static bool is_open(const structure_part *part) {
    return part->block < 0 && !part->role && !part->is_dropped;
}

static structure_part *with_role(const structure_parts *p, const char *role) {
    return structure_with_role(p, -1, role);
}

static void name_once(const structure_parts *p, structure_part *part, const char *role,
                      const char *reason) {
    if (!with_role(p, role)) structure_name(part, role, reason);
}

static void drop(structure_part *part, const char *reason) {
    part->is_dropped = true;
    part->reason = reason;
}

/* === Names that --rename gives === */

/* The names that --rename can give to a part outside the blocks, with the role that each name
 * stands for and the shape that the part must have. */
static const struct {
    const char *name, *role;
    enum { SHAPE_TOKENS, SHAPE_PATCH, SHAPE_NORM, SHAPE_RAW_NORM, SHAPE_READER } shape;
} ours[] = {
    { "cls_token", "cls_token", SHAPE_TOKENS },
    { "dist_token", "dist_token", SHAPE_TOKENS },
    { "reg_token", "reg_token", SHAPE_TOKENS },
    { "pos_embed", "pos_embed", SHAPE_TOKENS },
    { "patch_embed.proj", "patch_embed.proj", SHAPE_PATCH },
    { "patch_embed.pre_norm", "patch_embed.pre_norm", SHAPE_RAW_NORM },
    { "patch_embed.norm", "patch_embed.norm", SHAPE_NORM },
    { "norm_pre", "norm_pre", SHAPE_NORM },
    { "norm", "norm", SHAPE_NORM },
    { "fc_norm", "fc_norm", SHAPE_NORM },
    { "pre_logits", "pre_logits.fc", SHAPE_READER },
    { "pre_logits.fc", "pre_logits.fc", SHAPE_READER },
    { "head", "head", SHAPE_READER },
    { "head_dist", "head_dist", SHAPE_READER },
};

static bool is_norm(const structure_part *part) {
    return part->kind == PART_NORM || (part->kind == PART_VECTOR && !part->is_bare);
}

static bool is_renamed(const structure_parts *p, const structure_part *part) {
    return !p->ordered && strcmp(part->weight->name, part->weight->stored_name) != 0;
}

/* Returns a description of the shape that the i-th name in `ours` needs; NULL if the part has that
 * shape. */
static const char *misfit(const structure_parts *p, const structure_part *part, size_t i) {
    switch (ours[i].shape) {
    case SHAPE_TOKENS: return part->weight->count % p->width ? "rows as wide as a token" : NULL;
    case SHAPE_PATCH:
        return part->rows != p->width || (part->kind != PART_CONV && part->kind != PART_MATRIX)
                   ? "a layer that computes tokens from patches"
                   : NULL;
    case SHAPE_NORM:
        return !is_norm(part) || part->rows != p->width ? "a norm as wide as a token" : NULL;
    case SHAPE_RAW_NORM: return is_norm(part) ? NULL : "a norm of a patch's values";
    case SHAPE_READER: break;
    }
    return part->kind != PART_MATRIX ? "a linear layer of the head" : NULL;
}

void structure_list_names(const structure_parts *p, const structure_part *part,
                          char names[STRUCTURE_NAMES_SIZE]) {
    size_t i;
    for (i = 0; i < COUNT(ours) && part->block < 0; i++) {
        if (misfit(p, part, i) || with_role(p, ours[i].role) || strstr(names, ours[i].name) ||
            (i > 0 && !strcmp(ours[i].role, ours[i - 1].role)))
            continue;
        if (ours[i].shape == SHAPE_TOKENS && part->kind != PART_VECTOR && part->kind != PART_TABLE)
            continue;
        text_append(names, STRUCTURE_NAMES_SIZE, "%s%s", *names ? ", " : "", ours[i].name);
    }
}

/* True if the part has this name, with or without the path that all tensors share. */
static bool has_name(const structure_part *part, const char *name) {
    return !strcmp(part->path, name) || !strcmp(part->inner, name);
}

/* Gives a role to each part to which --rename gave a name in `ours`. Fails if the shape of such a
 * part does not fit the name. */
static bool take_names(const structure_parts *p, report *r) {
    char shape[SHAPE_TEXT_SIZE];
    int i;
    size_t k;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || !is_renamed(p, part)) continue;
        for (k = 0; k < COUNT(ours) && !has_name(part, ours[k].name);) k++;
        if (k == COUNT(ours)) continue;
        if (misfit(p, part, k))
            return report_fail(
                r, "--rename gives %.300s the name %s: expected %s, found %s",
                part->weight->stored_name, ours[k].name, misfit(p, part, k),
                shape_text(part->weight->dims, part->weight->ndim, shape, sizeof shape));
        structure_name(part, ours[k].role, structure_by_name);
    }
    return true;
}

/* Adds a note for each part whose name from --rename led to a role with another name. Fails if
 * --rename gave a part of a block the name of a role, but the part got another role. */
static bool check_names(const structure_parts *p, report *r) {
    static const char *const in_blocks[] = {
        "norm1",   "attn.qkv", "attn.q", "attn.k",   "attn.v", "attn.proj", "norm2",
        "mlp.fc1", "mlp.fc2",  "mlp.up", "mlp.gate", "ls1",    "ls2",
    };
    char what[STRUCTURE_NOTE_SIZE];
    size_t k;
    int i;
    for (i = 0; i < p->count; i++) {
        const structure_part *part = &p->parts[i];
        const char *name = part->inner + strspn(part->inner, ".");
        if (part->block > 0 || !part->role || !is_renamed(p, part) ||
            !strncmp(name, part->role, strlen(name)))
            continue;
        for (k = 0; k < COUNT(in_blocks) && strcmp(name, in_blocks[k]) != 0;) k++;
        if (part->block == 0 && k < COUNT(in_blocks))
            return report_fail(r,
                               "--rename gives %.300s the name %s, but the tensor's shape and the "
                               "names of the other tensors give it the role %s",
                               part->weight->stored_name, name, part->role);
        snprintf(what, sizeof what, "%.200s, renamed to %.100s, as %s", part->weight->stored_name,
                 part->weight->name, part->role);
        structure_note_add(p->result, what, "by the words of the new name and the tensor's shape",
                           "--rename THEIRS=OURS");
    }
    return true;
}

/* === Tokens and positions === */

static bool is_token(const structure_parts *p, const structure_part *part) {
    return part->weight->count == p->width && !part->bias &&
           (part->kind == PART_VECTOR || part->kind == PART_TABLE || part->kind == PART_MATRIX);
}

static void name_token(structure_parts *p, structure_part *part) {
    if (!is_open(part) || !is_token(p, part)) return;
    if (structure_says(part, "mask masked")) drop(part, "used only in training");
    else if (structure_says(part, "dist distill distillation"))
        name_once(p, part, "dist_token", structure_by_name);
    else if (structure_says(part, "reg register registers"))
        name_once(p, part, "reg_token", structure_by_name);
    else if (structure_says(part, CLASS_WORDS)) name_once(p, part, "cls_token", structure_by_name);
}

/* If exactly one bare parameter as long as a token is left, and its name has no word for positions,
 * makes it the class token. Does nothing if there is a class token already. */
static void name_last_token(structure_parts *p) {
    structure_part *found = NULL;
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || !is_token(p, part) || !part->is_bare) continue;
        /* a bias without a weight */
        if (strlen(part->path) < strlen(part->weight->name)) continue;
        if (found || structure_says(part, POSITION_WORDS)) return;
        found = part;
    }
    if (found && !with_role(p, "cls_token")) structure_name(found, "cls_token", left_over);
}

/* Returns the number of rows if the part is a table of vectors as long as a token; otherwise 0. The
 * table may be a grid [D, h, w]. */
static int64_t table_rows(const structure_parts *p, const structure_part *part) {
    const checkpoint_tensor_info *t = part->weight;
    if (part->kind == PART_MATRIX && !part->bias && part->cols == p->width) return part->rows;
    if (part->kind != PART_TABLE || t->count % p->width != 0) return 0;
    return t->dims[t->ndim - 1] == p->width || (t->ndim > 2 && t->dims[t->ndim - 2] == p->width) ||
                   (t->ndim > 2 && t->dims[t->ndim - 3] == p->width)
               ? t->count / p->width
               : 0;
}

/* Gives a role to a linear layer whose columns are positions. If another layer has the same size,
 * this one may be a second layer that reads the values of a patch; p->unsure then says so. */
static void name_linear_positions(structure_parts *p, structure_part *part) {
    const structure_part *other = NULL;
    int i;
    for (i = 0; i < p->count && !other; i++)
        if (&p->parts[i] != part && is_open(&p->parts[i]) && p->parts[i].kind == PART_MATRIX &&
            p->parts[i].rows == part->rows && p->parts[i].cols == part->cols)
            other = &p->parts[i];
    if (other && !structure_says(part, "table"))
        snprintf(p->unsure, sizeof p->unsure,
                 "%.300s [%lld, %lld] is either a table of %lld positions or, beside %.300s, a "
                 "second layer that reads the values of a patch. Give --rename "
                 "'%.300s.*=pos_table.*' for a table, or --rename '%.300s.*=patch_added.*' for a "
                 "layer",
                 part->path, (long long)part->rows, (long long)part->cols, (long long)part->cols,
                 other->path, part->path, part->path);
    structure_name(part, "pos_embed.linear", structure_by_name);
    structure_note_add(p->result, "a linear layer as the table of positions",
                       "its name and shape are those of such a table", "--rename THEIRS=OURS");
}

static void name_positions(structure_parts *p) {
    structure_part *by_words = NULL, *any = NULL;
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        const bool says = structure_says(part, POSITION_WORDS);
        if (!is_open(part)) continue;
        if (says && part->kind == PART_MATRIX && part->rows == p->width && part->bias &&
            !structure_says(part, "patch patches added")) {
            name_linear_positions(p, part);
            return;
        }
        if (structure_says(part, "reg register registers") && table_rows(p, part) > 0)
            name_once(p, part, "reg_token", structure_by_name);
        else if (table_rows(p, part) > 0 && says && !by_words) by_words = part;
        else if (!any && table_rows(p, part) > 1 && part->is_bare && part->kind == PART_TABLE &&
                 part->weight->dims[part->weight->ndim - 1] == p->width &&
                 !structure_says(part, "patch weight proj projection linear w mask"))
            any = part;
    }
    if (by_words) structure_name(by_words, "pos_embed", structure_by_name);
    else if (any) structure_name(any, "pos_embed", structure_by_shape);
    any = with_role(p, "pos_embed");
    if (any) p->rows = table_rows(p, any);
}

/* === Patch embedding === */

static const char *patch_reason(const structure_part *part) {
    return structure_says(part, PATCH_WORDS) ? structure_by_name : structure_by_shape;
}

/* Returns the first part without a role that is of this kind and has this many rows and columns.
 * NULL if there is none. The value 0 stands for any number of rows or columns. */
static structure_part *first_of(const structure_parts *p, part_kind kind, int64_t rows,
                                int64_t cols) {
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (is_open(part) && part->kind == kind && (!rows || part->rows == rows) &&
            (!cols || part->cols == cols))
            return part;
    }
    return NULL;
}

/* Returns the linear layer that makes tokens, found by the words in its name. If no name has such
 * words, returns the first layer whose input is not as wide as a token. */
static structure_part *find_linear_patch(const structure_parts *p) {
    structure_part *found = NULL;
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || part->kind != PART_MATRIX || part->rows != p->width) continue;
        if (structure_says(part, "added")) continue;
        if (structure_says(part, PATCH_WORDS) && !structure_says(part, "head classifier"))
            return part;
        if (part->cols != p->width && !found) found = part;
    }
    return found;
}

/* Returns a matrix [C P P, D] by which patches are multiplied. It is a bare parameter, or a weight
 * with a name such as "patch_weight". NULL if there is none. */
static structure_part *find_bare_patch(const structure_parts *p) {
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        const bool is_table = part->kind == PART_TABLE && part->weight->ndim == 2;
        if (!is_open(part) || part->cols != p->width) continue;
        if (structure_says(part, "tok token tokens word words vocab wte")) continue;
        if (!is_table && (part->kind != PART_MATRIX || !structure_says(part, PATCH_WORDS) ||
                          structure_says(part, HEAD_WORDS)))
            continue;
        part->kind = PART_TABLE;
        return part;
    }
    return NULL;
}

/* Gives roles to the two layers of a patch embedding that has no activation between them. The
 * conversion joins the two layers into one. */
static void name_folded_patch(structure_parts *p, structure_part *first, structure_part *second) {
    structure_name(first, "patch_embed.first", patch_reason(first));
    structure_name(second, "patch_embed.second", patch_reason(second));
    structure_note_add(p->result, "no activation between the two layers of the patch embedding",
                       "no tensor shows one",
                       "to prove it: --match-input x.npy --match-logits y.npy");
}

/* Returns the convolution that makes tokens. If there is none, returns the first convolution,
 * provided that a linear layer makes tokens from its output; otherwise returns NULL. */
static structure_part *find_conv(const structure_parts *p) {
    structure_part *conv = first_of(p, PART_CONV, p->width, 0);
    if (conv) return conv;
    conv = first_of(p, PART_CONV, 0, 0);
    return conv && first_of(p, PART_MATRIX, p->width, conv->rows) ? conv : NULL;
}

static void name_patch(structure_parts *p) {
    structure_part *conv = find_conv(p), *linear, *before;
    if (conv && conv->rows == p->width) {
        structure_name(conv, "patch_embed.proj", patch_reason(conv));
        linear = first_of(p, PART_MATRIX, p->width, p->width);
        if (linear && structure_says(linear, "patch patches embed embedding") &&
            !structure_says(linear, "head classifier")) {
            conv->role = NULL;
            name_folded_patch(p, conv, linear);
        }
        return;
    }
    linear = conv ? first_of(p, PART_MATRIX, p->width, conv->rows) : find_linear_patch(p);
    if (conv && linear) {
        name_folded_patch(p, conv, linear);
    } else if (linear) {
        before = first_of(p, PART_MATRIX, linear->cols, 0);
        if (before && before != linear && before < linear) name_folded_patch(p, before, linear);
        else structure_name(linear, "patch_embed.proj", patch_reason(linear));
    } else if ((linear = find_bare_patch(p)) != NULL) {
        structure_name(linear, "patch_embed.matrix", patch_reason(linear));
    }
}

/* Gives a role to a second layer that reads a patch. Its output is added to the output of the first
 * layer, patch_embed.proj. */
static void name_patch_added(structure_parts *p) {
    const structure_part *first = with_role(p, "patch_embed.proj");
    int i;
    for (i = 0; first && i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (is_open(part) && part->kind == PART_MATRIX && part->rows == first->rows &&
            part->cols == first->cols && !part->bias == !first->bias &&
            structure_says(part, "added"))
            name_once(p, part, "patch_embed.added", structure_by_name);
    }
}

/* Gives a role to the bias of the patch matrix. The bias is a vector as long as a token, and the
 * vector's name has the word "bias" or "b". The rest of this name may differ from the name of the
 * matrix. */
static void name_patch_bias(structure_parts *p) {
    structure_part *matrix = with_role(p, "patch_embed.matrix");
    int i;
    for (i = 0; matrix && !matrix->bias && i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (is_open(part) && part->kind == PART_VECTOR && part->rows == p->width &&
            structure_says(part, "bias b"))
            name_once(p, part, "patch_embed.bias", structure_by_name);
    }
}

/* === Norms and head === */

static int64_t patch_depth(const structure_parts *p) {
    const structure_part *linear = with_role(p, "patch_embed.proj");
    return linear && linear->kind == PART_MATRIX ? linear->cols : 0;
}

static bool in_head(const structure_part *part) {
    return structure_says(part, "head classifier mlp+head classification heads fc out");
}

/* Returns the role that a norm or vector outside the blocks may have; NULL if it may have none. */
static const char *norm_role(const structure_parts *p, const structure_part *part, bool has_class) {
    const bool before = structure_says(part, BEFORE_WORDS) && !structure_says(part, AFTER_WORDS);
    if (part->rows != p->width) return part->rows == patch_depth(p) ? "patch_embed.pre_norm" : NULL;
    if (in_head(part) && (!has_class || with_role(p, "norm"))) return "fc_norm";
    if (!before || in_head(part)) return "norm";
    return structure_says(part, "patch patches") ? "patch_embed.norm" : "norm_pre";
}

static void name_norm(const structure_parts *p, structure_part *part, bool has_class) {
    const char *role = norm_role(p, part, has_class);
    const bool says = in_head(part) || structure_says(part, AFTER_WORDS) ||
                      structure_says(part, BEFORE_WORDS);
    if (role) name_once(p, part, role, says ? structure_by_name : left_over);
}

/* Sets *alike to true if two norms have the same values and are trained. Before training, a norm's
 * weights are all equal, and so are its biases. Returns false if the values cannot be read. */
static bool read_alike(const structure_parts *p, const structure_part *a, const structure_part *b,
                       bool *alike, report *r) {
    const size_t size = (size_t)p->width;
    const checkpoint_tensor_info *pairs[2][2] = { { a->weight, b->weight }, { a->bias, b->bias } };
    float *values = malloc(2 * size * sizeof *values);
    bool good = values ? true : report_no_memory(r), differs = false, is_trained = false;
    size_t i, k;
    for (k = 0; good && k < 2 && pairs[k][0] && pairs[k][1]; k++) {
        good = checkpoint_read(p->checkpoint, pairs[k][0], 0, p->width, values, r) &&
               checkpoint_read(p->checkpoint, pairs[k][1], 0, p->width, values + size, r);
        for (i = 0; good && i < size; i++) {
            differs = differs || values[i] < values[size + i] || values[i] > values[size + i];
            is_trained = is_trained || values[i] < values[0] || values[i] > values[0];
        }
    }
    *alike = !a->bias == !b->bias && !differs && is_trained;
    free(values);
    return good;
}

/* Lists the norms outside the blocks that are as wide as a token and have no role. */
static int list_norms(structure_parts *p, structure_part *norms[MAX_NORMS]) {
    int count = 0, i;
    for (i = 0; i < p->count && count < MAX_NORMS; i++) {
        structure_part *part = &p->parts[i];
        if (is_open(part) && is_norm(part) && part->rows == p->width) norms[count++] = part;
    }
    return count;
}

/* Drops each norm that has the same values as an earlier norm. A norm is stored twice if it is an
 * attribute of the model and also part of a head that is an nn.Sequential. */
static bool drop_norm_copies(structure_parts *p, report *r) {
    structure_part *norms[MAX_NORMS];
    char what[STRUCTURE_NOTE_SIZE], option[STRUCTURE_NOTE_SIZE];
    const int count = list_norms(p, norms);
    bool alike;
    int i, k;
    for (i = 1; i < count; i++)
        for (k = 0; k < i && is_open(norms[i]); k++) {
            if (!is_open(norms[k])) continue;
            if (!read_alike(p, norms[k], norms[i], &alike, r)) return false;
            if (!alike) continue;
            drop(norms[i], "stored under another name too");
            snprintf(what, sizeof what, "%.120s and %.120s as one norm", norms[k]->path,
                     norms[i]->path);
            snprintf(option, sizeof option, "--rename '%.200s.*=fc_norm.*'", norms[i]->path);
            structure_note_add(p->result, what, "they have the same values", option);
        }
    return true;
}

/* Returns how many characters the paths of the part and of the first block have in common at their
 * beginnings, up to and including the last common dot. */
static size_t shared_with_blocks(const structure_parts *p, const structure_part *part) {
    const char *path = structure_at(p, 0, 0)->path;
    size_t i, shared = 0;
    for (i = 0; part->path[i] && part->path[i] == path[i]; i++)
        if (path[i] == '.') shared = i + 1;
    return shared;
}

/* True if the part is in the same list as the blocks: for example, "blocks.12.norm" beside the
 * blocks 0 to 11. */
static bool is_in_list(const structure_parts *p, const structure_part *part) {
    const structure_part *block = structure_at(p, 0, 0);
    size_t length = (size_t)(block->inner - block->path);
    while (length > 0 && isdigit((unsigned char)block->path[length - 1])) length--;
    return length > 0 && !strncmp(part->path, block->path, length) &&
           isdigit((unsigned char)part->path[length]);
}

static bool is_behind_blocks(const structure_parts *p, const structure_part *part) {
    int i;
    for (i = 0; i < p->places; i++)
        if (part < structure_at(p, 0, i)) return false;
    return true;
}

/* True if norm a comes directly after the blocks, before norm b. *why receives the reason. It is
 * NULL if nothing shows the order; the result is then only the order in the file. */
static bool comes_first(const structure_parts *p, const structure_part *a, const structure_part *b,
                        const char **why) {
    static const char encoder[] = "encoder transformer blocks layers backbone trunk";
    const size_t of_a = shared_with_blocks(p, a), of_b = shared_with_blocks(p, b);
    const int by_words = structure_says(a, encoder) - structure_says(b, encoder);
    *why = structure_by_name;
    if (in_head(a) != in_head(b)) return in_head(b);
    if (of_a != of_b) return of_a > of_b;
    if (by_words != 0) return by_words > 0;
    *why = "by the order of the two norms in the file";
    if (p->is_sorted || !is_behind_blocks(p, a) || !is_behind_blocks(p, b)) *why = NULL;
    return a < b;
}

/* Gives roles to two norms after the blocks. The first becomes the norm of the encoder, the second
 * becomes the norm of the head. */
static void name_second_norm(structure_parts *p) {
    structure_part *first = with_role(p, "norm"), *last, *second, *norms[MAX_NORMS];
    char what[STRUCTURE_NOTE_SIZE], option[STRUCTURE_NOTE_SIZE];
    const char *why;
    if (list_norms(p, norms) != 1 || !first || with_role(p, "fc_norm")) return;
    second = norms[0];
    if (first->kind != second->kind || is_in_list(p, second)) return;
    last = comes_first(p, first, second, &why) ? second : first;
    if (!why) {
        snprintf(
            p->unsure, sizeof p->unsure,
            "nothing shows where the norms %.200s and %.200s run. If both norms follow the blocks, "
            "rename the norm that runs last: --rename '%.200s.*=fc_norm.*' or --rename "
            "'%.200s.*=fc_norm.*'. If one norm precedes the blocks, rename this norm: --rename "
            "'%.200s.*=norm_pre.*' or --rename '%.200s.*=norm_pre.*'",
            first->path, second->path, first->path, second->path, first->path, second->path);
        return;
    }
    first = last == first ? second : first;
    first->role = last->role = NULL;
    structure_name(first, "norm", why);
    structure_name(last, "fc_norm", why);
    if (in_head(last) && !in_head(first)) return;
    snprintf(what, sizeof what, "two norms in a row: %.120s, then %.120s as the norm of the head",
             first->path, last->path);
    snprintf(option, sizeof option, "--rename '%.180s.*=fc_norm.*'", first->path);
    structure_note_add(p->result, what, why, option);
}

/* Adds a note if the place of the norm after the blocks is doubtful: --rename gives this norm to
 * all blocks too, or the file stores it in front of the blocks, where the model may run it. */
static void note_early_norm(structure_parts *p) {
    const structure_part *norm = with_role(p, "norm");
    char what[STRUCTURE_NOTE_SIZE], option[STRUCTURE_NOTE_SIZE];
    if (p->shared_norm) {
        structure_note_add(p->result, "one norm in all blocks and after them",
                           "because --rename gives the blocks the model's only norm",
                           "--set has_final_norm=0 if none follows the blocks");
        return;
    }
    if (!norm || p->ordered || p->is_sorted || is_behind_blocks(p, norm) || is_renamed(p, norm) ||
        structure_says(norm, AFTER_WORDS) || in_head(norm) || with_role(p, "fc_norm"))
        return;
    snprintf(what, sizeof what, "%.120s as the norm after the blocks", norm->path);
    snprintf(option, sizeof option,
             "--rename '%.200s.*=norm_pre.*' for a norm in front of the blocks", norm->path);
    structure_note_add(p->result, what,
                       "this place is usual, but the file stores the norm before the blocks",
                       option);
}

static bool name_norms(structure_parts *p, report *r) {
    const bool has_class = with_role(p, "cls_token") != NULL;
    int named = 0, i;
    if (!drop_norm_copies(p, r)) return false;
    for (i = 0; i < p->count && named < MAX_NORMS; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || !is_norm(part)) continue;
        name_norm(p, part, has_class);
        named++;
    }
    name_second_norm(p);
    note_early_norm(p);
    return true;
}

/* Returns the number of `part` in its list of layers; -1 if `part` is not in the same list as
 * `list`. */
static int number_in_list(const structure_part *part, const structure_part *list) {
    size_t same = 0;
    while (part->path[same] && part->path[same] == list->path[same]) same++;
    while (same > 0 && part->path[same - 1] != '.') same--;
    if (!part->path[same] || strchr(list->path + same, '.') ||
        part->path[same + strspn(part->path + same, "0123456789")])
        return -1;
    return atoi(part->path + same);
}

/* Checks the norms whose roles put them in front of the head's two layers. If one of them may lie
 * between the layers, p->unsure describes this. */
static void check_between(structure_parts *p, structure_part *const *two) {
    static const char *const roles[] = { "norm", "fc_norm" };
    const int first = number_in_list(two[0], two[1]), last = number_in_list(two[1], two[0]);
    size_t i;
    for (i = 0; i < COUNT(roles); i++) {
        const structure_part *norm = with_role(p, roles[i]);
        const int number = norm ? number_in_list(norm, two[0]) : -1;
        if (!norm || is_renamed(p, norm)) continue;
        if (number >= 0 && first >= 0 ? number < first || number > last
                                      : p->is_sorted || norm < two[0] || norm > two[1])
            continue;
        snprintf(
            p->unsure, sizeof p->unsure,
            "%.300s lies between %.300s and %.300s: vit.h does not run a norm between the layers "
            "of the head; if the norm is in front of both layers, give --rename '%.300s.*=%s.*'",
            norm->path, two[0]->path, two[1]->path, norm->path, roles[i]);
    }
}

/* Gives roles to the two layers of the head. If the two layers have consecutive numbers in a list,
 * there is no activation between them. */
static void name_head_layers(structure_parts *p, structure_part *const *two) {
    const int number = number_in_list(two[0], two[1]);
    structure_name(two[0], "pre_logits.fc", structure_by_shape);
    structure_name(two[1], "head", structure_by_shape);
    if (p->ordered) return;
    check_between(p, two);
    if (number < 0 || number_in_list(two[1], two[0]) != number + 1) return;
    snprintf(p->result->head_why, sizeof p->result->head_why,
             "%.120s and %.120s are adjacent in a list, so no activation lies between them",
             two[0]->path, two[1]->path);
}

/* Gives roles to the remaining matrices, which belong to the head. The last matrix makes the
 * logits; there may be one layer in front of it. */
static void name_head(structure_parts *p) {
    structure_part *left[3];
    int count = 0, i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || part->kind != PART_MATRIX) continue;
        if (structure_says(part, "decoder") && first_of(p, PART_CONV, 0, 0)) continue;
        if (structure_says(part, "dist distill distillation") && part->cols == p->width) {
            name_once(p, part, "head_dist", structure_by_name);
            continue;
        }
        if (count == 3) return;
        left[count++] = part;
    }
    if (count == 1 && (left[0]->cols == p->width || left[0]->cols == 2 * p->width)) {
        structure_name(left[0], "head",
                       structure_says(left[0], HEAD_WORDS) ? structure_by_name
                                                           : structure_by_shape);
    } else if (count == 2 && left[0]->cols == p->width && left[1]->cols == left[0]->rows) {
        name_head_layers(p, left);
    } else if (count == 3 && left[0]->cols == p->width && left[1]->cols == left[0]->rows &&
               left[2]->cols == left[1]->rows) {
        snprintf(p->unsure, sizeof p->unsure,
                 "%.300s, %.300s and %.300s are a head of three layers; vit.h runs heads of one "
                 "or two layers",
                 left[0]->path, left[1]->path, left[2]->path);
    }
}

/* Drops the decoder of an autoencoder if known logits are given. Only known logits can prove that
 * the output of the model does not depend on the decoder. */
static void drop_decoder(structure_parts *p) {
    int i;
    for (i = 0; p->is_matched && i < p->count; i++)
        if (is_open(&p->parts[i]) && structure_says(&p->parts[i], "decoder"))
            drop(&p->parts[i], "of a decoder; the logits match without a decoder");
}

/* === The roles of all parts outside the blocks === */

bool structure_name_rest(structure_parts *p, report *r) {
    int i;
    if (!take_names(p, r)) return false;
    for (i = 0; i < p->count; i++) name_token(p, &p->parts[i]);
    name_positions(p);
    name_patch(p);
    name_patch_bias(p);
    name_patch_added(p);
    name_last_token(p);
    if (!name_norms(p, r)) return false;
    name_head(p);
    drop_decoder(p);
    if (p->unsure[0]) return report_fail(r, "%s", p->unsure);
    if (!check_names(p, r)) return false;
    return with_role(p, "patch_embed.proj") || with_role(p, "patch_embed.second") ||
           with_role(p, "patch_embed.matrix") ||
           report_fail(r,
                       "no patch embedding was found; expected a convolution [%lld, C, P, P] or a "
                       "matrix [%lld, C x P x P]",
                       (long long)p->width, (long long)p->width);
}

/* === Arrays without names === */

/* If no name is informative, as in "arr_0", "arr_1" of numpy.savez(*arrays), only the order of the
 * numbers and the shapes remain. The arrays become layers. A layer is a matrix and the bias after
 * it, or the two vectors of a norm. The blocks are the repetition of layers that has the most
 * values. The layers before the blocks make tokens; the last norm and the head follow the blocks.
 * Each array gets a name that shows its role; the checkpoint is then read as usual. */

enum { NAME_SIZE = 64 };

typedef enum layer_kind {
    LAYER_MATRIX,
    LAYER_CONV,
    LAYER_NORM,
    LAYER_VECTOR,
    LAYER_TABLE,
} layer_kind;

/* A layer of one or two arrays. `weight` and `bias` are indices into order.arrays. */
typedef struct layer {
    layer_kind kind;
    int weight, bias; /* -1 if the layer has no bias */
    bool is_turned;   /* true if the weight is stored as [inputs, outputs] */
    /* a hash of the kind and the shape; equal layers have equal hashes */
    uint64_t likeness;
} layer;

/* The state of reading arrays without names: the arrays, and the layers that they form. */
typedef struct order {
    structure_parts *parts;
    /* the indices, in parts->ordered, of the arrays that are used */
    int *arrays;
    int array_count;
    layer *layers;
    int count;
    /* the blocks: `blocks` groups of `period` layers, from layer `first` on */
    int first, period, blocks;
    int64_t width; /* the number of values of a token */
} order;

static checkpoint_tensor_info *array_at(const order *o, int i) {
    return &o->parts->ordered[o->arrays[i]];
}

/* === Recognising uninformative names === */

/* Returns the number of characters in front of the number in a name: 4 for "arr_12". *digits
 * receives the number of digits; 0 if the name has no number. */
static size_t split_name(const char *name, size_t *digits) {
    const size_t before = strcspn(name, "0123456789");
    *digits = strspn(name + before, "0123456789");
    return before;
}

/* True if all names differ only in one number, and there are more than 8 names. */
static bool are_unnamed(const checkpoint *c) {
    const size_t count = checkpoint_count(c);
    const char *first = checkpoint_tensor(c, 0)->name;
    size_t digits, i;
    const size_t before = split_name(first, &digits);
    const char *after = first + before + digits;
    for (i = 0; i < count; i++) {
        const char *name = checkpoint_tensor(c, i)->name;
        if (split_name(name, &digits) != before || digits == 0 || digits > 5 ||
            memcmp(name, first, before) != 0 || strcmp(name + before + digits, after) != 0)
            return false;
    }
    return count > 8;
}

static int number_of(const checkpoint_tensor_info *t) {
    return atoi(t->name + strcspn(t->name, "0123456789"));
}

static int compare_numbers(const void *a, const void *b) {
    const int x = number_of(a), y = number_of(b);
    return (x > y) - (x < y);
}

/* === Layers === */

/* Returns the kind of layer to which an array of this shape may belong. A vector may be stored as
 * [1, n]. An array of tokens or positions has three dimensions. */
static layer_kind kind_of(const checkpoint_tensor_info *t) {
    int last = t->ndim;
    while (last > 2 && t->dims[last - 1] == 1 && t->ndim != 3) last--;
    if (t->ndim <= 1 || (t->ndim == 2 && (t->dims[0] == 1 || t->dims[1] == 1))) return LAYER_VECTOR;
    if (last == 2) return LAYER_MATRIX;
    return t->ndim == 4 && t->dims[0] > 1 ? LAYER_CONV : LAYER_TABLE;
}

static bool same_shape(const checkpoint_tensor_info *a, const checkpoint_tensor_info *b) {
    return a->ndim == b->ndim && !memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims);
}

/* Returns how many consecutive vectors, from this array on, have the same shape. */
static int count_vectors(const order *o, int at) {
    int end = at;
    while (end < o->array_count && kind_of(array_at(o, end)) == LAYER_VECTOR &&
           same_shape(array_at(o, end), array_at(o, at)))
        end++;
    return end - at;
}

/* True if the array after this matrix is the bias of the matrix. The vectors of norms come in
 * pairs. If an odd number of vectors follows the matrix, the first of these vectors is the bias. */
static bool has_bias(const order *o, int at) {
    const checkpoint_tensor_info *t = array_at(o, at);
    int64_t length;
    if (count_vectors(o, at + 1) % 2 == 0) return false;
    length = array_at(o, at + 1)->count;
    return length == t->dims[0] || (kind_of(t) == LAYER_MATRIX && length == t->dims[1]);
}

/* Makes a layer from the array with the index `at`, and from the next array if it is the bias. A
 * single vector is the scale of a norm, or a token. */
static void read_layer(const order *o, int at, layer *l) {
    memset(l, 0, sizeof *l);
    l->kind = kind_of(array_at(o, at));
    l->weight = at;
    l->bias = -1;
    if (l->kind == LAYER_VECTOR && count_vectors(o, at) > 1) {
        l->kind = LAYER_NORM;
        l->bias = at + 1;
    } else if ((l->kind == LAYER_MATRIX || l->kind == LAYER_CONV) && has_bias(o, at)) {
        l->bias = at + 1;
    }
}

static void read_layers(order *o) {
    int at = 0;
    while (at < o->array_count) {
        layer *l = &o->layers[o->count++];
        read_layer(o, at, l);
        at += l->bias < 0 ? 1 : 2;
    }
}

/* Marks all matrices as [inputs, outputs] if most biases have as many values as their matrices have
 * columns. */
static void turn_matrices(order *o) {
    int votes = 0, i;
    for (i = 0; i < o->count; i++) {
        const checkpoint_tensor_info *t = array_at(o, o->layers[i].weight);
        if (o->layers[i].kind != LAYER_MATRIX || o->layers[i].bias < 0) continue;
        if (t->dims[0] == t->dims[1]) continue;
        votes += array_at(o, o->layers[i].bias)->count == t->dims[1] ? 1 : -1;
    }
    for (i = 0; i < o->count; i++)
        o->layers[i].is_turned = votes > 0 && o->layers[i].kind == LAYER_MATRIX;
}

static void hash_layers(order *o) {
    int i;
    for (i = 0; i < o->count; i++) {
        layer *l = &o->layers[i];
        const checkpoint_tensor_info *t = array_at(o, l->weight);
        const int numbers[] = { (int)l->kind, l->bias >= 0, t->ndim };
        vit_hash hash;
        vit_hash_init(&hash);
        vit_hash_update(&hash, numbers, sizeof numbers);
        vit_hash_update(&hash, t->dims, (size_t)t->ndim * sizeof *t->dims);
        l->likeness = vit_hash_final(&hash);
    }
}

/* === Blocks === */

static bool layer_is_norm(const layer *l) {
    return l->kind == LAYER_NORM || l->kind == LAYER_VECTOR;
}

/* True if these layers are only norms and matrices: at least one norm and two matrices. */
static bool may_be_block(const order *o, int first, int period) {
    int norms = 0, matrices = 0, i;
    for (i = first; i < first + period; i++) {
        norms += layer_is_norm(&o->layers[i]);
        matrices += o->layers[i].kind == LAYER_MATRIX;
    }
    return norms > 0 && matrices > 1 && norms + matrices == period;
}

static int64_t elements(const order *o, int first, int count) {
    int64_t sum = 0;
    int i;
    for (i = first; i < first + count; i++) sum += array_at(o, o->layers[i].weight)->count;
    return sum;
}

/* Returns how many consecutive layers, from this one on, are equal to the layer one period
 * later. */
static int count_repeated(const order *o, int first, int period) {
    int end = first;
    while (end + period < o->count && o->layers[end].likeness == o->layers[end + period].likeness)
        end++;
    return end - first;
}

/* Returns the index of the first layer of the blocks. The blocks may begin up to `slack` layers
 * after `first`; the first norm among these layers is taken. */
static int first_of_blocks(const order *o, int first, int slack) {
    int i;
    for (i = first; i <= first + slack; i++)
        if (layer_is_norm(&o->layers[i])) return i;
    return first;
}

/* Chooses the blocks that contain the most values. If several choices contain equally many values,
 * the shortest period is taken. */
static void find_blocks(order *o) {
    int64_t most = 0, here;
    int period, first, repeated, blocks;
    for (period = 3; period <= o->count / 2; period++)
        for (first = 0; first + 2 * period <= o->count; first += repeated + 1) {
            repeated = count_repeated(o, first, period);
            blocks = repeated / period + 1;
            if (blocks < 2 || !may_be_block(o, first, period)) continue;
            here = elements(o, first, blocks * period);
            if (here <= most) continue;
            most = here;
            o->first = first_of_blocks(o, first, repeated % period);
            o->period = period;
            o->blocks = blocks;
        }
}

/* Returns the width of a token: the length of the first norm in a block. */
static int64_t find_width(const order *o) {
    int i;
    for (i = o->first; i < o->first + o->period; i++)
        if (layer_is_norm(&o->layers[i])) return array_at(o, o->layers[i].weight)->count;
    return 0;
}

/* === Names === */

static void set_name(order *o, int array, const char *name, const char *leaf) {
    checkpoint_tensor_info *t = array_at(o, array);
    char *text = o->parts->ordered_names + (size_t)o->arrays[array] * NAME_SIZE;
    snprintf(text, NAME_SIZE, "%s%s", name, leaf);
    t->name = text;
}

/* Changes the shape [1, n] to [n]. */
static void flatten(checkpoint_tensor_info *t) {
    const int d = t->ndim > 1 && t->dims[0] == 1 ? t->ndim - 1 : 0;
    t->dims[0] = t->count;
    t->strides[0] = t->ndim > 0 ? t->strides[d] : 1;
    t->ndim = 1;
}

static void turn(checkpoint_tensor_info *t) {
    const int64_t rows = t->dims[0], stride = t->strides[0];
    t->dims[0] = t->dims[1];
    t->strides[0] = t->strides[1];
    t->dims[1] = rows;
    t->strides[1] = stride;
}

static void name_layer(order *o, const layer *l, const char *name) {
    checkpoint_tensor_info *t = array_at(o, l->weight);
    set_name(o, l->weight, name, ".weight");
    if (l->is_turned) turn(t);
    if (layer_is_norm(l)) flatten(t);
    if (l->bias < 0) return;
    set_name(o, l->bias, name, ".bias");
    flatten(array_at(o, l->bias));
}

/* Returns how many consecutive matrices, from this layer on, have the same shape. */
static int count_alike(const order *o, int at, int end) {
    int i = at;
    while (i < end && o->layers[i].kind == LAYER_MATRIX &&
           o->layers[i].likeness == o->layers[at].likeness)
        i++;
    return i - at;
}

/* Returns how many matrices, from this one on, hold the query, key and value of several heads; 0 if
 * this matrix is not one of these. */
static int count_heads(const order *o, int at, int end) {
    const int count = count_alike(o, at, end);
    return count >= 6 && count % 3 == 0 ? count : 0;
}

static void name_block(order *o, int block) {
    const int first = o->first + block * o->period, end = first + o->period;
    char name[NAME_SIZE];
    int i, k, heads;
    for (i = first; i < end; i++) {
        heads = count_heads(o, i, end);
        for (k = 0; k < heads; k++, i++) {
            snprintf(name, sizeof name, "blocks.%d.attn.heads.%d.qkv", block, k);
            name_layer(o, &o->layers[i], name);
        }
        if (i == end) break;
        snprintf(name, sizeof name, "blocks.%d.%d", block, i - first);
        name_layer(o, &o->layers[i], name);
    }
}

/* The layers outside the blocks: which one has the positions, and how many tokens, norms and
 * matrices have got names so far. */
typedef struct front {
    int table; /* index of the layer with the positions; -1 if there is none */
    int tokens, norms, matrices;
} front;

static bool is_in_front(const order *o, int i) { return i < o->first; }

/* True if the layer is a table whose rows are as long as a token. */
static bool is_rows(const order *o, const layer *l) {
    const checkpoint_tensor_info *t = array_at(o, l->weight);
    return l->bias < 0 && t->dims[t->ndim - 1] == o->width && t->count > o->width;
}

/* Returns the index of the layer with the positions: a table of at least three dimensions. Without
 * such a table, returns the last matrix without a bias, provided that another layer makes tokens.
 * Otherwise returns -1. */
static int find_table(const order *o) {
    int last = -1, makers = 0, i;
    for (i = 0; i < o->first; i++) {
        const layer *l = &o->layers[i];
        if (l->kind == LAYER_TABLE && is_rows(o, l)) return i;
        makers += l->kind == LAYER_CONV || l->kind == LAYER_MATRIX;
        if (l->kind == LAYER_MATRIX && is_rows(o, l)) last = i;
    }
    return makers > 1 ? last : -1;
}

static void name_outside(order *o, front *f, int i) {
    const layer *l = &o->layers[i];
    const char *const place = is_in_front(o, i) ? "before" : "after";
    char name[NAME_SIZE];
    if (i == f->table) {
        set_name(o, l->weight, "pos_embed", "");
    } else if (array_at(o, l->weight)->count == o->width && l->bias < 0 && is_in_front(o, i)) {
        snprintf(name, sizeof name, f->tokens ? "token%d" : "cls_token", f->tokens);
        f->tokens++;
        set_name(o, l->weight, name, "");
    } else if (layer_is_norm(l)) {
        snprintf(name, sizeof name, "%s.norm%d", place, f->norms++);
        name_layer(o, l, name);
    } else {
        snprintf(name, sizeof name, is_in_front(o, i) ? "patch_embed.%d" : "head.%d",
                 f->matrices++);
        name_layer(o, l, name);
    }
}

static void name_all(order *o) {
    front f = { 0, 0, 0, 0 };
    int i;
    f.table = find_table(o);
    for (i = 0; i < o->count; i++)
        if (is_in_front(o, i) || i >= o->first + o->blocks * o->period) name_outside(o, &f, i);
    for (i = 0; i < o->blocks; i++) name_block(o, i);
}

/* === All arrays of the file === */

static bool start(order *o, const checkpoint *c, const text_list *ignore, report *r) {
    structure_parts *p = o->parts;
    const size_t count = checkpoint_count(c);
    size_t i;
    p->ordered = calloc(count, sizeof *p->ordered);
    p->ordered_names = calloc(count, NAME_SIZE);
    o->arrays = calloc(count, sizeof *o->arrays);
    o->layers = calloc(count, sizeof *o->layers);
    if (!p->ordered || !p->ordered_names || !o->arrays || !o->layers) return report_no_memory(r);
    for (i = 0; i < count; i++) p->ordered[i] = *checkpoint_tensor(c, i);
    qsort(p->ordered, count, sizeof *p->ordered, compare_numbers);
    for (i = 0; i < count; i++)
        if (!names_match(ignore, p->ordered[i].name) && checkpoint_is_float(p->ordered[i].dtype) &&
            p->ordered[i].count > 0)
            o->arrays[o->array_count++] = (int)i;
    return true;
}

static bool read_order(order *o, const checkpoint *c, const text_list *ignore, report *r) {
    if (!start(o, c, ignore, r)) return false;
    read_layers(o);
    turn_matrices(o);
    hash_layers(o);
    find_blocks(o);
    if (o->blocks == 0)
        return report_fail(r,
                           "no name is informative (%.60s, ...), and no sequence of shapes "
                           "repeats as in the blocks of a transformer; give names with --rename "
                           "THEIRS=OURS",
                           checkpoint_tensor(c, 0)->name);
    o->width = find_width(o);
    name_all(o);
    structure_note_add(o->parts->result, "the order of the file as that of a forward pass",
                       "the names do not show the arrays' purposes", "--rename THEIRS=OURS");
    return true;
}

bool structure_read_order(checkpoint *c, const text_list *ignore, structure_parts *p, report *r) {
    order o = { 0 };
    bool good;
    if (!are_unnamed(c)) return true;
    o.parts = p;
    good = read_order(&o, c, ignore, r);
    free(o.arrays);
    free(o.layers);
    return good;
}
