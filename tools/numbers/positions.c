#include "numbers/positions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers/tensor_values.h"

static const char *const names[POSITIONS_KINDS] = { "embedding", "rotary", "relative" };

const char *positions_name(position_kind kind)
{
    return names[kind];
}

position_kind positions_by_name(const char *name)
{
    int kind = 0;
    while (kind < POSITIONS_KINDS && strcmp(names[kind], name) != 0) kind++;
    return (position_kind)kind;
}

bool positions_has(const vit_config *config, position_kind kind)
{
    switch (kind) {
    case POSITIONS_EMBEDDING: return config->positions != VIT_POS_NONE;
    case POSITIONS_ROTARY: return config->rope != VIT_ROPE_NONE;
    case POSITIONS_RELATIVE: return config->has_rel_pos;
    default: return false;
    }
}

bool positions_of_block(const vit_config *config, position_kind kind)
{
    return kind == POSITIONS_RELATIVE || (kind == POSITIONS_ROTARY && config->rope_per_block);
}

bool positions_choose(const vit_config *config, const char *name, position_kind *kind, report *r)
{
    *kind = POSITIONS_EMBEDDING;
    while (!name && *kind < POSITIONS_KINDS && !positions_has(config, *kind))
        *kind = (position_kind)(*kind + 1);
    if (name) *kind = positions_by_name(name);
    if (*kind == POSITIONS_KINDS) return report_fail(r, "the model has no positions");
    return positions_has(config, *kind) ||
           report_fail(r, "the model has no positions of the kind %s", name);
}

static bool take(positions *p, int dim, report *r)
{
    p->dim = dim;
    p->vectors = calloc((size_t)p->rows * (size_t)p->columns, (size_t)dim * sizeof *p->vectors);
    return p->vectors || report_no_memory(r);
}

static bool read_embedding(const vit_model *model, positions *p, report *r)
{
    const vit_config *c = &model->config;
    vit_tensor tensor;
    float *values = tensor_values(model, "pos_embed", &tensor, r);
    const bool good = values && take(p, c->embed_dim, r);
    if (good) {
        const int first = tensor.dims[1] - p->rows * p->columns; /* behind the prefix tokens */
        memcpy(p->vectors, values + (size_t)first * (size_t)p->dim,
               (size_t)(p->rows * p->columns) * (size_t)p->dim * sizeof *values);
    }
    free(values);
    return good;
}

/* Cosines or sines, [heads, patches, pairs], to elements first .. of each vector. */
static void put_angles(positions *p, const float *values, int heads, int pairs, int first)
{
    const int patches = p->rows * p->columns;
    for (int h = 0; h < heads; h++) {
        for (int i = 0; i < patches; i++) {
            memcpy(p->vectors + (size_t)i * (size_t)p->dim + (size_t)(first + h * pairs),
                   values + ((size_t)h * (size_t)patches + (size_t)i) * (size_t)pairs,
                   (size_t)pairs * sizeof *values);
        }
    }
}

static bool read_rotary(const vit_model *model, int block, positions *p, report *r)
{
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

/* What one head adds to the scores of a patch, by the way from it to each patch. */
static void put_biases(const positions *p, const float *table, int patch, float *biases)
{
    const int across = 2 * p->columns - 1;
    const int y = patch / p->columns, x = patch % p->columns;
    for (int row = 0; row < p->rows; row++) {
        memcpy(biases + row * p->columns,
               table + (row - y + p->rows - 1) * across + p->columns - 1 - x,
               (size_t)p->columns * sizeof *biases);
    }
}

static bool read_relative(const vit_model *model, int block, positions *p, report *r)
{
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
                      report *r)
{
    switch (kind) {
    case POSITIONS_EMBEDDING: return read_embedding(model, p, r);
    case POSITIONS_ROTARY: return read_rotary(model, block, p, r);
    default: return read_relative(model, block, p, r);
    }
}

bool positions_read(const vit_model *model, position_kind kind, int block, positions *p,
                    report *r)
{
    memset(p, 0, sizeof *p);
    p->rows = model->config.grid_height;
    p->columns = model->config.grid_width;
    if (read_kind(model, kind, block, p, r)) return true;
    positions_free(p);
    return false;
}

void positions_free(positions *p)
{
    free(p->vectors);
    memset(p, 0, sizeof *p);
}

void positions_cosines(const positions *p, float *cosines)
{
    const size_t n = (size_t)(p->rows * p->columns), dim = (size_t)p->dim;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            cosines[i * n + j] = cosines[j * n + i] =
                vit_cosine(p->vectors + i * dim, p->vectors + j * dim, p->dim);
        }
    }
}
