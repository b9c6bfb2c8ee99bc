/* The roles before and after the blocks: tokens, positions, patch embedding, norms, head. */
#include "layout/structure_parts.h"

#include <stdio.h>
#include <string.h>

#define CLASS_WORDS "cls class clstoken classtoken"
#define POSITION_WORDS "pos position positional positions pe posembed posemb posembedding wpe"
#define PATCH_WORDS                                                                              \
    "patch patches patchify embed embedding embeddings emb input stem conv tokenizer projection "\
    "linear+projection proj linear+map img image tubelet"
#define HEAD_WORDS "head classifier cls class mlp+head fc out output logits classification heads"
#define AFTER_WORDS "final last post after norm+f ln+f ln+post encoder+norm out output"
#define BEFORE_WORDS "pre before input patch patches emb embed embedding embeddings first"

enum { MAX_NORMS = 16 };

static const char left_over[] = "the only one left";

static bool is_open(const structure_part *part)
{
    return part->block < 0 && !part->role && !part->is_dropped;
}

static structure_part *with_role(const structure_parts *p, const char *role)
{
    return structure_with_role(p, -1, role);
}

static void name_once(const structure_parts *p, structure_part *part, const char *role,
                      const char *reason)
{
    if (!with_role(p, role)) structure_name(part, role, reason);
}

static void drop(structure_part *part, const char *reason)
{
    part->is_dropped = true;
    part->reason = reason;
}

/* === Tokens and positions === */

static bool is_token(const structure_parts *p, const structure_part *part)
{
    return part->weight->count == p->width && !part->bias &&
           (part->kind == PART_VECTOR || part->kind == PART_TABLE || part->kind == PART_MATRIX);
}

static void name_token(structure_parts *p, structure_part *part)
{
    if (!is_open(part) || !is_token(p, part)) return;
    if (structure_says(part, "mask masked")) drop(part, "of training alone");
    else if (structure_says(part, "dist distill distillation"))
        name_once(p, part, "dist_token", structure_by_name);
    else if (structure_says(part, "reg register registers"))
        name_once(p, part, "reg_token", structure_by_name);
    else if (structure_says(part, CLASS_WORDS)) name_once(p, part, "cls_token", structure_by_name);
}

/* A bare parameter as long as a token that no word explains. */
static void name_last_token(structure_parts *p)
{
    structure_part *found = NULL;
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || !is_token(p, part) || !part->is_bare) continue;
        if (strlen(part->path) < strlen(part->weight->name)) continue;   /* a bias by itself */
        if (found || structure_says(part, POSITION_WORDS)) return;
        found = part;
    }
    if (found && !with_role(p, "cls_token")) structure_name(found, "cls_token", left_over);
}

/* Rows of a table of vectors as long as a token; 0: it is none. Grids are [D, h, w]. */
static int64_t table_rows(const structure_parts *p, const structure_part *part)
{
    const checkpoint_tensor_info *t = part->weight;
    if (part->kind == PART_MATRIX && !part->bias && part->cols == p->width) return part->rows;
    if (part->kind != PART_TABLE || t->count % p->width != 0) return 0;
    return t->dims[t->ndim - 1] == p->width || (t->ndim > 2 && t->dims[t->ndim - 2] == p->width) ||
           (t->ndim > 2 && t->dims[t->ndim - 3] == p->width) ? t->count / p->width : 0;
}

/* A layer whose columns are positions; or, as large as the layer over a patch's values, a second
 * one of them. */
static void name_linear_positions(structure_parts *p, structure_part *part)
{
    const structure_part *other = NULL;
    int i;
    for (i = 0; i < p->count && !other; i++)
        if (&p->parts[i] != part && is_open(&p->parts[i]) && p->parts[i].kind == PART_MATRIX &&
            p->parts[i].rows == part->rows && p->parts[i].cols == part->cols)
            other = &p->parts[i];
    if (other && !structure_says(part, "table"))
        snprintf(p->unsure, sizeof p->unsure, "%.300s [%lld, %lld] is either a table of %lld "
                 "positions, or a second layer over the values of a patch beside %.300s; give "
                 "--rename '%.300s.*=pos_table.*' or --rename '%.300s.*=patch_added.*'",
                 part->path, (long long)part->rows, (long long)part->cols, (long long)part->cols,
                 other->path, part->path, part->path);
    structure_name(part, "pos_embed.linear", structure_by_name);
    structure_note_add(p->result, "a linear layer as the table of positions",
                       "its name and shape say so", "--rename THEIRS=OURS");
}

static void name_positions(structure_parts *p)
{
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

static const char *patch_reason(const structure_part *part)
{
    return structure_says(part, PATCH_WORDS) ? structure_by_name : structure_by_shape;
}

/* The first open part of a kind whose rows are so many; 0: any. */
static structure_part *first_of(const structure_parts *p, part_kind kind, int64_t rows,
                                int64_t cols)
{
    int i;
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (is_open(part) && part->kind == kind && (!rows || part->rows == rows) &&
            (!cols || part->cols == cols))
            return part;
    }
    return NULL;
}

/* Linear layers that make tokens: by their words, else the first whose input is not a token. */
static structure_part *find_linear_patch(const structure_parts *p)
{
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

/* A matrix [C P P, D], by which patches are multiplied: a parameter, or called "patch_weight". */
static structure_part *find_bare_patch(const structure_parts *p)
{
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

/* Two layers with nothing but a matrix product between them are one. */
static void name_folded_patch(structure_parts *p, structure_part *first, structure_part *second)
{
    structure_name(first, "patch_embed.first", patch_reason(first));
    structure_name(second, "patch_embed.second", patch_reason(second));
    structure_note_add(p->result, "no activation between the two layers of the patch embedding",
                       "nothing shows one", "--ignore PATTERN");
}

/* A convolution that makes tokens, or else the first in front of a layer that does. */
static structure_part *find_conv(const structure_parts *p)
{
    structure_part *conv = first_of(p, PART_CONV, p->width, 0);
    if (conv) return conv;
    conv = first_of(p, PART_CONV, 0, 0);
    return conv && first_of(p, PART_MATRIX, p->width, conv->rows) ? conv : NULL;
}

static void name_patch(structure_parts *p)
{
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
        if (before && before != linear && before < linear)
            name_folded_patch(p, before, linear);
        else
            structure_name(linear, "patch_embed.proj", patch_reason(linear));
    } else if ((linear = find_bare_patch(p)) != NULL) {
        structure_name(linear, "patch_embed.matrix", patch_reason(linear));
    }
}

/* A second layer over the same values, added to the first. */
static void name_patch_added(structure_parts *p)
{
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

/* A bare bias of the same module: patch_bias beside patch_weight has another name at times. */
static void name_patch_bias(structure_parts *p)
{
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

static bool is_norm(const structure_part *part)
{
    return part->kind == PART_NORM || (part->kind == PART_VECTOR && !part->is_bare);
}

static int64_t patch_depth(const structure_parts *p)
{
    const structure_part *linear = with_role(p, "patch_embed.proj");
    return linear && linear->kind == PART_MATRIX ? linear->cols : 0;
}

static bool in_head(const structure_part *part)
{
    return structure_says(part, "head classifier mlp+head classification heads fc out");
}

/* What it would be; NULL: nothing. */
static const char *norm_role(const structure_parts *p, const structure_part *part, bool has_class)
{
    const bool before = structure_says(part, BEFORE_WORDS) && !structure_says(part, AFTER_WORDS);
    if (part->rows != p->width) return part->rows == patch_depth(p) ? "patch_embed.pre_norm" : NULL;
    if (in_head(part) && (!has_class || with_role(p, "norm"))) return "fc_norm";
    if (!before || in_head(part)) return "norm";
    return structure_says(part, "patch patches") ? "patch_embed.norm" : "norm_pre";
}

static void name_norm(const structure_parts *p, structure_part *part, bool has_class)
{
    const char *role = norm_role(p, part, has_class);
    const bool says = in_head(part) || structure_says(part, AFTER_WORDS) ||
                      structure_says(part, BEFORE_WORDS);
    if (role) name_once(p, part, role, says ? structure_by_name : left_over);
}

static void name_norms(const structure_parts *p)
{
    const bool has_class = with_role(p, "cls_token") != NULL;
    int named = 0, i;
    for (i = 0; i < p->count && named < MAX_NORMS; i++) {
        structure_part *part = &p->parts[i];
        if (!is_open(part) || !is_norm(part)) continue;
        name_norm(p, part, has_class);
        named++;
    }
}

/* What is left of the matrices: classes, perhaps with a layer in front. */
static void name_head(structure_parts *p)
{
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
        structure_name(left[0], "head", structure_says(left[0], HEAD_WORDS) ? structure_by_name
                                                                           : structure_by_shape);
    } else if (count == 2 && left[0]->cols == p->width && left[1]->cols == left[0]->rows) {
        structure_name(left[0], "pre_logits.fc", structure_by_shape);
        structure_name(left[1], "head", structure_by_shape);
    }
}

/* What an autoencoder has behind its encoder. Whether the output is in front of it, only logits can
 * tell. */
static void drop_decoder(structure_parts *p)
{
    int i;
    for (i = 0; p->is_matched && i < p->count; i++)
        if (is_open(&p->parts[i]) && structure_says(&p->parts[i], "decoder"))
            drop(&p->parts[i], "of a decoder, without which the logits match");
}

/* === All of it === */

bool structure_name_rest(structure_parts *p, report *r)
{
    int i;
    for (i = 0; i < p->count; i++) name_token(p, &p->parts[i]);
    name_positions(p);
    name_patch(p);
    name_patch_bias(p);
    name_patch_added(p);
    name_last_token(p);
    name_norms(p);
    name_head(p);
    drop_decoder(p);
    if (p->unsure[0]) return report_fail(r, "%s", p->unsure);
    return with_role(p, "patch_embed.proj") || with_role(p, "patch_embed.second") ||
           with_role(p, "patch_embed.matrix") ||
           report_fail(r, "no patch embedding was found: a convolution [%lld, C, P, P] or a matrix "
                       "[%lld, C x P x P]", (long long)p->width, (long long)p->width);
}
