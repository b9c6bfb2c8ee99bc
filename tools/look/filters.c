#include "look/look.h"

#include <stdio.h>
#include <stdlib.h>

#include "numbers/tensor_values.h"
#include "picture/grids.h"

static bool check_filters(const vit_config *c, report *r)
{
    if (c->stem != VIT_STEM_NONE)
        return report_fail(r, "the patch embedding of this model reads the output of a stem, not "
                              "pixels");
    if (c->in_chans != 1 && c->in_chans != 3)
        return report_fail(r, "filters of 1 or 3 channels can be shown, found %d", c->in_chans);
    return c->patch_cut == VIT_CUT_SQUARES ||
           report_fail(r, "the patches of this model are not squares of the photo");
}

static bool fit_filters(look_job *j, report *r)
{
    const vit_config *c = &j->model.config;
    vit_tensor tensor;
    float *values = tensor_values(&j->model, "patch_embed.proj.weight", &tensor, r);
    const bool good = values && pca_fit(&j->components, values, c->embed_dim,
                                        c->in_chans * c->patch_size * c->patch_size,
                                        j->chosen->count, r);
    free(values);
    return good;
}

bool look_draw_filters(look_job *j, report *r)
{
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

void look_put_filters(const look_job *j, json_writer *w)
{
    look_put_components(j, w);
    json_put_begin(w, "filters", '[');
    for (int k = 0; k < j->components.count; k++) {
        json_put_floats(w, NULL, j->numbers + (size_t)k * (size_t)j->components.dim,
                        j->components.dim);
    }
    json_put_end(w, ']');
}
