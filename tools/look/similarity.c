#include "look/look.h"

#include <stdio.h>

#include "picture/grids.h"

const char *look_wrong_similarity(const look_choices *c, int operands)
{
    (void)operands;
    return c->at ? NULL : "missing --at X,Y";
}

bool look_draw_similarity(look_job *j, report *r)
{
    const vit_config *c = &j->model.config;
    const vit_grid grid = look_grid_of(&j->model);
    const int patches = j->model.config.num_patches;
    look_photo *first = &j->seen[0];
    double range[2];
    if (!look_patch_at(j, &first->shown, &first->marked, r)) return report_file(r, first->name);
    if (!look_take_numbers(j, j->num_seen, 1, grid.height, grid.width, r)) return false;
    for (int i = 0; i < j->num_seen * patches; i++) {
        j->numbers[i] = vit_cosine(look_patch_token(j, first, first->marked),
                                       look_patch_token(j, &j->seen[i / patches], i % patches),
                                       c->embed_dim);
    }
    (void)grids_range(j->numbers, (size_t)(j->num_seen * patches), range);
    for (int i = 0; i < j->num_seen; i++) {
        char caption[128];
        double own[2];
        (void)grids_range(look_map_of(j, i, 0), (size_t)patches, own);
        snprintf(caption, sizeof caption, "cosines %.2f to %.2f", own[0], own[1]);
        if (!look_add_heat(j, &j->seen[i], look_map_of(j, i, 0), range, caption, r)) return false;
    }
    return true;
}

void look_put_similarity(const look_job *j, json_writer *w)
{
    const vit_grid grid = look_grid_of(&j->model);
    const int patch = j->seen[0].marked;
    json_put_begin(w, "at", '{');
    json_put_number(w, "x", j->chosen->point[0], 9);
    json_put_number(w, "y", j->chosen->point[1], 9);
    json_put_integer(w, "row", patch / grid.width);
    json_put_integer(w, "column", patch % grid.width);
    json_put_end(w, '}');
}
