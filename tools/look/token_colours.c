#include "look/look.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers/tokens.h"
#include "picture/grids.h"

bool look_prepare_tokens(look_job *j, report *r)
{
    j->each = (size_t)j->model.config.num_tokens * (size_t)j->model.config.embed_dim;
    return look_check_block(j, r);
}

/* After the final norm, or as a block leaves them. */
bool look_read_tokens(look_job *j, look_photo *s, report *r)
{
    const vit_block_output block = { s->values, NULL, j->chosen->block, 0 };
    vit_outputs outputs;
    vit_result result;
    memset(&outputs, 0, sizeof outputs);
    if (j->chosen->block < 0) {
        outputs.tokens = s->values;
    } else {
        outputs.blocks = &block;
        outputs.num_blocks = 1;
    }
    result = vit_forward(&j->session, &(vit_input){ .pixels = j->input }, &outputs);
    return result == VIT_OK || report_fail(r, "%s", vit_result_string(result));
}

const float *look_patch_token(const look_job *j, const look_photo *s, int patch)
{
    const vit_config *c = &j->model.config;
    return s->values + (size_t)(c->num_prefix_tokens + patch) * (size_t)c->embed_dim;
}

/* Fits components to the patches of all photos: coordinates is [num_seen * patches, 3]. */
static bool fit(look_job *j, float *coordinates, report *r)
{
    const vit_config *c = &j->model.config;
    const size_t each = (size_t)c->num_patches * (size_t)c->embed_dim;
    float *values = malloc((size_t)j->num_seen * each * sizeof *values);
    const tokens_patches t = { values, j->num_seen * c->num_patches, c->embed_dim,
                               look_grid_of(&j->model) };
    bool good = values || report_no_memory(r);
    for (int i = 0; good && i < j->num_seen; i++) {
        memcpy(values + (size_t)i * each, look_patch_token(j, &j->seen[i], 0),
               each * sizeof *values);
    }
    good = good && tokens_components(&t, j->chosen->foreground, &j->components, coordinates, r);
    free(values);
    return good;
}

/* From [photos, patches, 3] to a map for each component. */
static void take_maps(look_job *j, const float *coordinates)
{
    const int patches = j->model.config.num_patches;
    for (int i = 0; i < j->num_seen * patches; i++) {
        for (int k = 0; k < TOKENS_COMPONENTS; k++) {
            look_map_of(j, i / patches, k)[i % patches] =
                coordinates[(size_t)i * TOKENS_COMPONENTS + (size_t)k];
        }
    }
}

/* From the least to the largest value of all photos, for each component. */
static void find_ranges(const look_job *j, double ranges[TOKENS_COMPONENTS][2])
{
    for (int k = 0; k < TOKENS_COMPONENTS; k++) {
        bool any = false;
        for (int i = 0; i < j->num_seen; i++) {
            double range[2];
            if (!grids_range(look_map_of(j, i, k), (size_t)j->model.config.num_patches, range))
                continue;
            if (!any || range[0] < ranges[k][0]) ranges[k][0] = range[0];
            if (!any || range[1] > ranges[k][1]) ranges[k][1] = range[1];
            any = true;
        }
    }
}

/* Black for what is not foreground. */
static picture_colour colour(const look_job *j, int photo, int patch,
                             double ranges[TOKENS_COMPONENTS][2])
{
    uint8_t rgb[TOKENS_COMPONENTS] = { 0, 0, 0 };
    for (int k = 0; k < TOKENS_COMPONENTS; k++) {
        const float value = look_map_of(j, photo, k)[patch];
        if (!isnan(value))
            rgb[k] = (uint8_t)(255 * grids_share((double)value, ranges[k]) + 0.5);
    }
    return (picture_colour){ rgb[0], rgb[1], rgb[2] };
}

static bool add_photos(look_job *j, report *r)
{
    const int patches = j->model.config.num_patches;
    picture_colour *colours = malloc((size_t)patches * sizeof *colours);
    double ranges[TOKENS_COMPONENTS][2] = { { 0, 0 }, { 0, 0 }, { 0, 0 } };
    bool good = colours || report_no_memory(r);
    find_ranges(j, ranges);
    for (int i = 0; good && i < j->num_seen; i++) {
        for (int p = 0; p < patches; p++) colours[p] = colour(j, i, p, ranges);
        good = look_add_view(j, &j->seen[i], NULL, "", r) &&
               look_add_view(j, &j->seen[i], colours, "components", r);
    }
    free(colours);
    return good;
}

bool look_draw_tokens(look_job *j, report *r)
{
    const vit_grid grid = look_grid_of(&j->model);
    bool good = look_take_numbers(j, j->num_seen, TOKENS_COMPONENTS, grid.height, grid.width, r);
    const size_t count = (size_t)j->num_seen * TOKENS_COMPONENTS;
    float *coordinates = malloc(count * (size_t)j->model.config.num_patches * sizeof *coordinates);
    if (!coordinates) good = report_no_memory(r);
    good = good && fit(j, coordinates, r);
    if (good) take_maps(j, coordinates);
    free(coordinates);
    return good && add_photos(j, r);
}

/* Variance explained by each component, and its share of all. */
void look_put_components(const look_job *j, json_writer *w)
{
    const pca *p = &j->components;
    json_put_begin(w, "variance", '[');
    for (int k = 0; k < p->count; k++) json_put_number(w, NULL, p->variance[k], 9);
    json_put_end(w, ']');
    json_put_begin(w, "explained", '[');
    for (int k = 0; k < p->count; k++)
        json_put_number(w, NULL, p->total > 0 ? p->variance[k] / p->total : 0, 9);
    json_put_end(w, ']');
}
