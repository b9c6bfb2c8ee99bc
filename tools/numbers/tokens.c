#include "numbers/tokens.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"

/* === Values of a tensor === */

static bool find(const vit_model *model, const char *name, vit_tensor *tensor) {
    for (int i = 0; vit_model_tensor(model, i, tensor); i++)
        if (strcmp(tensor->name, name) == 0) return true;
    return false;
}

float *tensor_values(const vit_model *model, const char *name, vit_tensor *tensor, report *r) {
    size_t width = 1;
    float *values;
    if (!find(model, name, tensor)) {
        (void)report_fail(r, "the model has no tensor %s", name);
        return NULL;
    }
    for (int i = 1; i < tensor->ndim; i++) width *= (size_t)tensor->dims[i];
    values = malloc((size_t)tensor->dims[0] * width * sizeof *values);
    if (!values) (void)report_no_memory(r);
    for (int i = 0; values && i < tensor->dims[0]; i++)
        vit_unpack_row(tensor, i, values + (size_t)i * width);
    if (!values || tensor_values_are_finite(values, (size_t)tensor->dims[0] * width)) return values;
    free(values);
    (void)report_fail(r, "some values of %s are NaN or infinite", name);
    return NULL;
}

/* === Positions === */

static const char *const names[POSITIONS_KINDS] = { "embedding", "rotary", "relative" };

const char *positions_name(position_kind kind) { return names[kind]; }

position_kind positions_by_name(const char *name) {
    int kind = 0;
    while (kind < POSITIONS_KINDS && strcmp(names[kind], name) != 0) kind++;
    return (position_kind)kind;
}

bool positions_has(const vit_config *config, position_kind kind) {
    switch (kind) {
    case POSITIONS_EMBEDDING: return config->positions != VIT_POS_NONE;
    case POSITIONS_ROTARY: return config->rope != VIT_ROPE_NONE;
    case POSITIONS_RELATIVE: return config->has_rel_pos;
    default: return false;
    }
}

bool positions_of_block(const vit_config *config, position_kind kind) {
    return kind == POSITIONS_RELATIVE || (kind == POSITIONS_ROTARY && config->rope_per_block);
}

bool positions_choose(const vit_config *config, const char *name, position_kind *kind, report *r) {
    *kind = POSITIONS_EMBEDDING;
    while (!name && *kind < POSITIONS_KINDS && !positions_has(config, *kind))
        *kind = (position_kind)(*kind + 1);
    if (name) *kind = positions_by_name(name);
    if (*kind == POSITIONS_KINDS) return report_fail(r, "the model has no positions");
    return positions_has(config, *kind) ||
           report_fail(r, "the model has no positions of the kind %s", name);
}

static bool take(positions *p, int dim, report *r) {
    p->dim = dim;
    p->vectors = calloc((size_t)p->rows * (size_t)p->columns, (size_t)dim * sizeof *p->vectors);
    return p->vectors || report_no_memory(r);
}

static bool read_embedding(const vit_model *model, positions *p, report *r) {
    const vit_config *c = &model->config;
    vit_tensor tensor;
    float *values = tensor_values(model, "pos_embed", &tensor, r);
    const bool good = values && take(p, c->embed_dim, r);
    if (good) {
        /* In the tensor, the prefix tokens come before the patches. */
        const int first = tensor.dims[1] - p->rows * p->columns;
        memcpy(p->vectors, values + (size_t)first * (size_t)p->dim,
               (size_t)(p->rows * p->columns) * (size_t)p->dim * sizeof *values);
    }
    free(values);
    return good;
}

/* Copies cosines or sines, [heads, patches, pairs], into the vectors of the patches. In each vector
 * they begin at element `first`. */
static void put_angles(positions *p, const float *values, int heads, int pairs, int first) {
    const int patches = p->rows * p->columns;
    for (int h = 0; h < heads; h++) {
        for (int i = 0; i < patches; i++) {
            memcpy(p->vectors + (size_t)i * (size_t)p->dim + (size_t)(first + h * pairs),
                   values + ((size_t)h * (size_t)patches + (size_t)i) * (size_t)pairs,
                   (size_t)pairs * sizeof *values);
        }
    }
}

static bool read_rotary(const vit_model *model, int block, positions *p, report *r) {
    const vit_config *c = &model->config;
    const int heads = c->rope_per_block ? c->num_heads : 1, pairs = c->head_dim / 2;
    bool good = take(p, 2 * heads * pairs, r);
    for (int sine = 0; good && sine < 2; sine++) {
        char name[64] = "";
        vit_tensor tensor;
        float *values;
        if (c->rope_per_block) snprintf(name, sizeof name, "blocks.%d.attn.", block);
        strcat(name, sine ? "rope.sin" : "rope.cos");
        values = tensor_values(model, name, &tensor, r);
        good = values != NULL;
        if (good) put_angles(p, values, heads, pairs, sine * heads * pairs);
        free(values);
    }
    return good;
}

/* Writes the biases of one patch: the values that a head adds to the attention scores of this patch
 * with every patch. A bias depends only on the offset between the two patches. */
static void put_biases(const positions *p, const float *table, int patch, float *biases) {
    const int across = 2 * p->columns - 1;
    const int y = patch / p->columns, x = patch % p->columns;
    for (int row = 0; row < p->rows; row++) {
        memcpy(biases + row * p->columns,
               table + (row - y + p->rows - 1) * across + p->columns - 1 - x,
               (size_t)p->columns * sizeof *biases);
    }
}

static bool read_relative(const vit_model *model, int block, positions *p, report *r) {
    const int heads = model->config.num_heads, patches = p->rows * p->columns;
    char name[64];
    vit_tensor tensor;
    float *values;
    bool good;
    snprintf(name, sizeof name, "blocks.%d.attn.rel_pos", block);
    values = tensor_values(model, name, &tensor, r);
    good = values && take(p, heads * patches, r);
    for (int i = 0; good && i < heads * patches; i++) {
        const int h = i / patches, patch = i % patches;
        put_biases(p, values + (size_t)h * (size_t)tensor.dims[1], patch,
                   p->vectors + (size_t)patch * (size_t)p->dim + (size_t)(h * patches));
    }
    free(values);
    return good;
}

static bool read_kind(const vit_model *model, position_kind kind, int block, positions *p,
                      report *r) {
    switch (kind) {
    case POSITIONS_EMBEDDING: return read_embedding(model, p, r);
    case POSITIONS_ROTARY: return read_rotary(model, block, p, r);
    default: return read_relative(model, block, p, r);
    }
}

bool positions_read(const vit_model *model, position_kind kind, int block, positions *p,
                    report *r) {
    memset(p, 0, sizeof *p);
    p->rows = model->config.grid_height;
    p->columns = model->config.grid_width;
    if (read_kind(model, kind, block, p, r)) return true;
    positions_free(p);
    return false;
}

void positions_free(positions *p) {
    free(p->vectors);
    memset(p, 0, sizeof *p);
}

void positions_cosines(const positions *p, float *cosines) {
    const size_t n = (size_t)(p->rows * p->columns), dim = (size_t)p->dim;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            cosines[i * n + j] = cosines[j * n + i] = vit_cosine(p->vectors + i * dim,
                                                                 p->vectors + j * dim, p->dim);
        }
    }
}

/* === Attention rollout === */

void rollout_begin(double *shares, int num_tokens, int from) {
    for (int i = 0; i < num_tokens; i++)
        shares[i] = from < 0 ? 1.0 / num_tokens : i == from ? 1.0 : 0.0;
}

/* Computes row `query` of the mean attention map of all heads, and adds 1 to element `query`.
 * Returns the sum of the row. */
static double mean_row(const float *maps, int num_heads, int num_tokens, int query, double *row) {
    const size_t n = (size_t)num_tokens;
    double sum = 0;
    memset(row, 0, n * sizeof *row);
    for (int h = 0; h < num_heads; h++) {
        const float *map = maps + ((size_t)h * n + (size_t)query) * n;
        for (size_t i = 0; i < n; i++) row[i] += (double)map[i] / num_heads;
    }
    row[query] += 1;
    for (size_t i = 0; i < n; i++) sum += row[i];
    return sum;
}

void rollout_block(double *shares, const float *maps, int num_heads, int num_tokens,
                   double *scratch) {
    double *next = scratch, *row = scratch + num_tokens;
    memset(next, 0, (size_t)num_tokens * sizeof *next);
    for (int query = 0; query < num_tokens; query++) {
        double factor;
        if (shares[query] == 0) continue;
        factor = shares[query] / mean_row(maps, num_heads, num_tokens, query, row);
        for (int i = 0; i < num_tokens; i++) next[i] += factor * row[i];
    }
    memcpy(shares, next, (size_t)num_tokens * sizeof *next);
}

void rollout_head(double *shares, const float *map, int num_tokens, double *scratch) {
    memset(scratch, 0, (size_t)num_tokens * sizeof *scratch);
    for (int query = 0; query < num_tokens; query++, map += num_tokens)
        for (int i = 0; i < num_tokens; i++) scratch[i] += shares[query] * (double)map[i];
    memcpy(shares, scratch, (size_t)num_tokens * sizeof *scratch);
}

/* === Patch tokens === */

static const float *token(const tokens_patches *t, int i) {
    return t->values + (size_t)i * (size_t)t->dim;
}

static bool is_border(vit_grid grid, int patch) {
    const int y = patch / grid.width, x = patch % grid.width;
    return y == 0 || x == 0 || y == grid.height - 1 || x == grid.width - 1;
}

/* Copies the tokens of the foreground to `taken`, one after the other. Returns the number of these
 * tokens. */
static int take_foreground(const tokens_patches *t, const pca *first, float *taken,
                           bool *is_taken) {
    const vit_grid *grid = t->grids;
    double border = 0;
    float along;
    int count = 0;
    for (int i = 0, patch = 0; i < t->count; i++, patch++) {
        if (patch == grid->height * grid->width) {
            patch = 0;
            grid++;
        }
        if (!is_border(*grid, patch)) continue;
        pca_project(first, token(t, i), &along);
        border += (double)along;
    }
    for (int i = 0; i < t->count; i++) {
        pca_project(first, token(t, i), &along);
        is_taken[i] = border > 0 ? along < 0 : along > 0;
        if (!is_taken[i]) continue;
        memcpy(taken + (size_t)count++ * (size_t)t->dim, token(t, i),
               (size_t)t->dim * sizeof *taken);
    }
    return count;
}

static void project(const tokens_patches *t, const bool *is_taken, const pca *p, float *to) {
    for (int i = 0; i < t->count; i++, to += TOKENS_COMPONENTS) {
        for (int k = 0; k < TOKENS_COMPONENTS; k++) to[k] = is_taken && !is_taken[i] ? NAN : 0;
        if (!is_taken || is_taken[i]) pca_project(p, token(t, i), to);
    }
}

static bool fit_foreground(const tokens_patches *t, float *taken, bool *is_taken, pca *p,
                           report *r) {
    pca first;
    int count;
    if (!pca_fit(&first, t->values, t->count, t->dim, 1, r)) return false;
    count = take_foreground(t, &first, taken, is_taken);
    pca_free(&first);
    return pca_fit(p, taken, count, t->dim, TOKENS_COMPONENTS, r);
}

bool tokens_components(const tokens_patches *t, bool foreground, pca *p, float *coordinates,
                       report *r) {
    float *taken = NULL;
    bool *is_taken = NULL, good = true;
    memset(p, 0, sizeof *p);
    if (foreground) {
        taken = malloc((size_t)t->count * (size_t)t->dim * sizeof *taken);
        is_taken = calloc((size_t)t->count, sizeof *is_taken);
        good = taken && is_taken ? fit_foreground(t, taken, is_taken, p, r) : report_no_memory(r);
    } else {
        good = pca_fit(p, t->values, t->count, t->dim, TOKENS_COMPONENTS, r);
    }
    if (good) project(t, is_taken, p, coordinates);
    free(taken);
    free(is_taken);
    return good;
}
