#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "cli/options.h"
#include "look/look.h"
#include "numbers/tokens.h"
#include "picture/picture.h"

/* === Filters === */

static bool check_filters(const vit_config *c, report *r) {
    if (c->stem != VIT_STEM_NONE)
        return report_fail(r, "the patch embedding of this model reads the output of a stem, not "
                              "pixels");
    if (c->in_chans != 1 && c->in_chans != 3)
        return report_fail(r, "filters of 1 or 3 channels can be shown, found %d", c->in_chans);
    return c->patch_cut == VIT_CUT_SQUARES ||
           report_fail(r, "the patches of this model are not squares of the photo");
}

static bool fit_filters(look_job *j, report *r) {
    const vit_config *c = &j->model.config;
    vit_tensor tensor;
    float *values = tensor_values(&j->model, "patch_embed.proj.weight", &tensor, r);
    const bool good = values &&
                      pca_fit(&j->components, values, c->embed_dim,
                              c->in_chans * c->patch_size * c->patch_size, j->chosen->count, r);
    free(values);
    return good;
}

bool look_draw_filters(look_job *j, report *r) {
    const vit_config *c = &j->model.config;
    const pca *p = &j->components;
    if ((!check_filters(c, r) || !fit_filters(j, r))) return report_file(r, j->path);
    if (!look_take_numbers(j, p->count, c->in_chans, c->patch_size, c->patch_size, r)) return false;
    for (int k = 0; k < p->count; k++) {
        float *filter = j->numbers + (size_t)k * (size_t)p->dim;
        char caption[64];
        picture drawn;
        for (int d = 0; d < p->dim; d++)
            filter[d] = (float)p->components[(size_t)k * (size_t)p->dim + (size_t)d];
        snprintf(caption, sizeof caption, "%.1f %%",
                 p->total > 0 ? 100 * p->variance[k] / p->total : 0.0);
        if (!grids_draw_filter(&drawn, filter, c->in_chans, c->patch_size, j->chosen->side / 5, r))
            return false;
        if (!sheet_add(&j->sheet, &drawn, caption, r)) return false;
    }
    return true;
}

void look_put_filters(const look_job *j, json_writer *w) {
    look_put_components(j, w);
    json_put_begin(w, "filters", '[');
    for (int k = 0; k < j->components.count; k++) {
        json_put_floats(w, NULL, j->numbers + (size_t)k * (size_t)j->components.dim,
                        j->components.dim);
    }
    json_put_end(w, ']');
}

/* === Positions === */

const char *look_wrong_positions(const look_choices *c, int operands) {
    if (c->kind && positions_by_name(c->kind) == POSITIONS_KINDS)
        return "--kind: expected embedding, rotary or relative";
    if (c->compare && operands < 2) return "--compare needs two models: A.vit B.vit";
    if (!c->compare && operands > 0)
        return "give one model with -m, or several models after --compare";
    return c->compare && c->model ? "give all models after --compare, without -m" : NULL;
}

static bool find_cosines(const vit_model *model, look_positions *m, report *r) {
    const size_t n = (size_t)model->config.num_patches;
    positions p;
    if (!positions_read(model, m->kind, m->block < 0 ? 0 : m->block, &p, r)) return false;
    m->dim = p.dim;
    m->cosines = malloc(n * n * sizeof *m->cosines);
    if (m->cosines) positions_cosines(&p, m->cosines);
    positions_free(&p);
    return m->cosines || report_no_memory(r);
}

static bool add_placed(look_job *j, const look_positions *m, report *r) {
    static const double range[2] = { -1, 1 };
    char caption[512];
    picture drawn;
    snprintf(caption, sizeof caption, "%s\n%s positions", paths_file_name(m->path),
             positions_name(m->kind));
    if (m->block >= 0) text_append(caption, sizeof caption, " of block %d", m->block);
    text_append(caption, sizeof caption, "\ncosines -1 (dark) to 1");
    return grids_draw(&drawn, m->cosines, m->grid, range, 2 * j->chosen->side, r) &&
           sheet_add(&j->sheet, &drawn, caption, r);
}

static bool place(look_job *j, const vit_model *model, const char *path, report *r) {
    const vit_config *c = &model->config;
    look_positions *m = &j->placed[j->num_placed++];
    m->path = path;
    m->grid = look_grid_of(c);
    m->block = -1;
    if (!positions_choose(c, j->chosen->kind, &m->kind, r)) return false;
    if (positions_of_block(c, m->kind)) m->block = j->chosen->block < 0 ? 0 : j->chosen->block;
    if (m->block >= c->depth)
        return report_fail(r, "--block %d: the model has blocks 0 to %d", m->block, c->depth - 1);
    return find_cosines(model, m, r) && add_placed(j, m, r);
}

static bool place_file(look_job *j, const char *path, report *r) {
    vit_model model;
    bool good;
    if (!cli_model_open(path, 0, &model, r)) return false;
    good = place(j, &model, path, r) || report_file(r, path);
    vit_model_close(&model);
    return good;
}

/* Copies the cosines of all models into one array for the option --npy, [models, n, n]. n is the
 * number of positions in each model. */
static bool stack_cosines(look_job *j, report *r) {
    const int64_t n = (int64_t)j->placed->grid.height * j->placed->grid.width;
    if (!look_take_numbers(j, j->num_placed, n, n, 0, r)) return false;
    for (int i = 0; i < j->num_placed; i++) {
        const look_positions *m = &j->placed[i];
        if ((int64_t)m->grid.height * m->grid.width != n)
            return report_fail(r,
                               "--npy needs models with the same number of positions, found %lld "
                               "and %lld",
                               (long long)n, (long long)m->grid.height * m->grid.width);
        memcpy(j->numbers + (size_t)i * (size_t)(n * n), m->cosines,
               (size_t)(n * n) * sizeof *m->cosines);
    }
    return true;
}

bool look_draw_positions(look_job *j, report *r) {
    const int count = j->chosen->compare ? j->operands->count : 1;
    bool good;
    j->placed = calloc((size_t)count, sizeof *j->placed);
    good = j->placed || report_no_memory(r);
    for (int i = 0; good && i < count; i++) {
        good = j->chosen->compare ? place_file(j, j->operands->items[i], r)
                                  : place(j, &j->model, j->path, r) || report_file(r, j->path);
    }
    return good && (!j->chosen->npy || stack_cosines(j, r));
}

static void put_placed(const look_positions *m, json_writer *w) {
    const int n = m->grid.height * m->grid.width;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "model", m->path);
    json_put_text(w, "kind", positions_name(m->kind));
    if (m->block >= 0) json_put_integer(w, "block", m->block);
    json_put_integer(w, "dim", m->dim);
    json_put_begin(w, "grid", '[');
    json_put_integer(w, NULL, m->grid.height);
    json_put_integer(w, NULL, m->grid.width);
    json_put_end(w, ']');
    json_put_begin(w, "cosines", '[');
    for (int i = 0; i < n; i++) json_put_floats(w, NULL, m->cosines + (size_t)i * (size_t)n, n);
    json_put_end(w, ']');
    json_put_end(w, '}');
}

void look_put_positions(const look_job *j, json_writer *w) {
    json_put_begin(w, "models", '[');
    for (int i = 0; i < j->num_placed; i++) put_placed(&j->placed[i], w);
    json_put_end(w, ']');
}
