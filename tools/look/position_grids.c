#include "look/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "cli/model.h"
#include "picture/grids.h"

const char *look_wrong_positions(const look_choices *c, int operands)
{
    if (c->kind && positions_by_name(c->kind) == POSITIONS_KINDS)
        return "--kind is embedding, rotary or relative";
    if (c->compare && operands < 2) return "--compare needs two models: A.vit B.vit";
    if (!c->compare && operands > 0) return "models are given with -m, or after --compare";
    return c->compare && c->model ? "--compare names the models: without -m" : NULL;
}

static bool find_cosines(const vit_model *model, look_positions *m, report *r)
{
    const size_t n = (size_t)model->config.num_patches;
    positions p;
    if (!positions_read(model, m->kind, m->block < 0 ? 0 : m->block, &p, r)) return false;
    m->dim = p.dim;
    m->cosines = malloc(n * n * sizeof *m->cosines);
    if (m->cosines) positions_cosines(&p, m->cosines);
    positions_free(&p);
    return m->cosines || report_no_memory(r);
}

static bool add_placed(look_job *j, const look_positions *m, report *r)
{
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

static bool place(look_job *j, const vit_model *model, const char *path, report *r)
{
    const vit_config *c = &model->config;
    look_positions *m = &j->placed[j->num_placed++];
    m->path = path;
    m->grid = look_grid_of(model);
    m->block = -1;
    if (!positions_choose(c, j->chosen->kind, &m->kind, r)) return false;
    if (positions_of_block(c, m->kind)) m->block = j->chosen->block < 0 ? 0 : j->chosen->block;
    if (m->block >= c->depth)
        return report_fail(r, "--block %d: the model has blocks 0 to %d", m->block, c->depth - 1);
    return find_cosines(model, m, r) && add_placed(j, m, r);
}

static bool place_file(look_job *j, const char *path, report *r)
{
    vit_model model;
    bool good;
    if (!cli_model_open(path, 0, &model, r)) return false;
    good = place(j, &model, path, r) || report_file(r, path);
    vit_model_close(&model);
    return good;
}

/* For --npy, [models, n, n]. */
static bool stack_cosines(look_job *j, report *r)
{
    const int64_t n = (int64_t)j->placed->grid.height * j->placed->grid.width;
    if (!look_take_numbers(j, j->num_placed, n, n, 0, r)) return false;
    for (int i = 0; i < j->num_placed; i++) {
        const look_positions *m = &j->placed[i];
        if ((int64_t)m->grid.height * m->grid.width != n)
            return report_fail(r, "--npy needs models with equally many positions, found %lld and "
                                  "%lld", (long long)n, (long long)m->grid.height * m->grid.width);
        memcpy(j->numbers + (size_t)i * (size_t)(n * n), m->cosines,
               (size_t)(n * n) * sizeof *m->cosines);
    }
    return true;
}

bool look_draw_positions(look_job *j, report *r)
{
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

static void put_placed(const look_positions *m, json_writer *w)
{
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
    for (int i = 0; i < n; i++)
        json_put_floats(w, NULL, m->cosines + (size_t)i * (size_t)n, n);
    json_put_end(w, ']');
    json_put_end(w, '}');
}

void look_put_positions(const look_job *j, json_writer *w)
{
    json_put_begin(w, "models", '[');
    for (int i = 0; i < j->num_placed; i++) put_placed(&j->placed[i], w);
    json_put_end(w, ']');
}
