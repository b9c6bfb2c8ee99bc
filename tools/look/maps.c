#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/attention.h"
#include "look/look.h"
#include "numbers/tokens.h"
#include "picture/picture.h"

/* === Attention === */

const char *look_wrong_attention(const look_choices *c, int operands) {
    (void)operands;
    if (c->heads && strcmp(c->heads, "all") != 0 && strcmp(c->heads, "mean") != 0)
        return "--heads: expected all or mean";
    if (c->heads && c->head >= 0) return "--head and --heads exclude each other";
    if (c->rollout && (c->heads || c->head >= 0 || c->block >= 0))
        return "--rollout covers all heads and blocks: it excludes --block, --head and --heads";
    return NULL;
}

/* Returns the number of the block whose attention is shown. The first block has number 0. */
static int shown_block(const look_job *j) {
    return j->chosen->block < 0 ? j->model.config.depth - 1 : j->chosen->block;
}

bool look_prepare_attention(look_job *j, report *r) {
    const vit_config *c = &j->model.config;
    if (!attention_check(c, r) || !look_check_block(j, r)) return false;
    if (j->chosen->head >= c->num_heads)
        return report_fail(r, "--head %d: the model has heads 0 to %d", j->chosen->head,
                           c->num_heads - 1);
    j->each = (size_t)(j->chosen->rollout ? 1 : c->num_heads);
    return true;
}

bool look_read_attention(look_job *j, look_photo *s, report *r) {
    const vit_config *c = &j->model.config;
    attention_choice choice = { shown_block(j), c->has_cls_token ? 0 : -1, j->chosen->rollout };
    if (j->chosen->at) {
        if (!look_patch_at(j, &s->shown, &s->marked, r)) return false;
        choice.from = c->num_prefix_tokens + s->marked;
    }
    return attention_read(&j->session, j->input, &choice, s->values, r);
}

/* Returns a name for the tokens whose attention is shown. */
static const char *query_name(const look_job *j) {
    return j->chosen->at ? "patch" : j->model.config.has_cls_token ? "class token" : "mean of all";
}

static bool all_heads(const look_choices *c) { return c->heads && strcmp(c->heads, "all") == 0; }

/* Writes the caption of a map, such as "class token, block 11, head 2". */
static void name_map(const look_job *j, int map, char *text, size_t size) {
    const look_choices *c = j->chosen;
    const int heads = j->model.config.num_heads, head = all_heads(c) ? map : c->head;
    snprintf(text, size, "%s, ", query_name(j));
    if (c->rollout) text_append(text, size, "rollout");
    else if (head >= 0) text_append(text, size, "block %d, head %d", shown_block(j), head);
    else text_append(text, size, "block %d, mean of %d heads", shown_block(j), heads);
}

/* Writes one attention map to `values`: the map of one head, the mean map of all heads, or the
 * rollout. */
static void take_map(const look_job *j, const look_photo *s, int map, float *values) {
    const vit_config *c = &s->config;
    const int only = all_heads(j->chosen) ? map : j->chosen->head;
    attention_map(c, s->values, j->chosen->rollout ? 1 : c->num_heads, only, values);
}

bool look_draw_attention(look_job *j, report *r) {
    const int maps = all_heads(j->chosen) ? j->model.config.num_heads : 1;
    if (!look_take_maps(j, maps, r)) return false;
    for (int i = 0; i < j->num_seen; i++) {
        for (int m = 0; m < maps; m++) {
            char caption[128];
            double range[2];
            take_map(j, &j->seen[i], m, look_map_of(j, i, m));
            (void)grids_range(look_map_of(j, i, m), (size_t)j->seen[i].config.num_patches, range);
            name_map(j, m, caption, sizeof caption);
            text_append(caption, sizeof caption, "\n%.2g to %.2g", range[0], range[1]);
            if (!look_add_heat(j, &j->seen[i], look_map_of(j, i, m), range, caption, r))
                return false;
        }
    }
    return true;
}

void look_put_attention(const look_job *j, json_writer *w) {
    json_put_text(w, "query", query_name(j));
    json_put_begin(w, "maps", '[');
    for (int m = 0; m < (int)j->dims[1]; m++) {
        char text[128];
        name_map(j, m, text, sizeof text);
        json_put_text(w, NULL, text);
    }
    json_put_end(w, ']');
}

/* === Similarity === */

const char *look_wrong_similarity(const look_choices *c, int operands) {
    (void)operands;
    return c->at ? NULL : "missing --at X,Y";
}

bool look_draw_similarity(look_job *j, report *r) {
    const int dim = j->model.config.embed_dim;
    look_photo *first = &j->seen[0];
    double range[2];
    if (!look_patch_at(j, &first->shown, &first->marked, r)) return report_file(r, first->name);
    if (!look_take_maps(j, 1, r)) return false;
    for (int i = 0; i < j->num_seen; i++) {
        const look_photo *s = &j->seen[i];
        for (int p = 0; p < s->config.num_patches; p++)
            look_map_of(j, i, 0)[p] = vit_cosine(look_patch_token(first, first->marked),
                                                 look_patch_token(s, p), dim);
    }
    (void)grids_range(j->numbers, (size_t)look_all_patches(j), range);
    for (int i = 0; i < j->num_seen; i++) {
        char caption[128];
        double own[2];
        (void)grids_range(look_map_of(j, i, 0), (size_t)j->seen[i].config.num_patches, own);
        snprintf(caption, sizeof caption, "cosines %.2f to %.2f", own[0], own[1]);
        if (!look_add_heat(j, &j->seen[i], look_map_of(j, i, 0), range, caption, r)) return false;
    }
    return true;
}

void look_put_similarity(const look_job *j, json_writer *w) {
    const int width = j->seen[0].config.grid_width;
    const int patch = j->seen[0].marked;
    json_put_begin(w, "at", '{');
    json_put_number(w, "x", j->chosen->point[0], 9);
    json_put_number(w, "y", j->chosen->point[1], 9);
    json_put_integer(w, "row", patch / width);
    json_put_integer(w, "column", patch % width);
    json_put_end(w, '}');
}

/* === Colours of tokens === */

bool look_prepare_tokens(look_job *j, report *r) {
    j->each = (size_t)j->model.config.embed_dim;
    return look_check_block(j, r);
}

/* Computes the tokens of a photo: the output of the model, or the output of one block without the
 * final norm. */
bool look_read_tokens(look_job *j, look_photo *s, report *r) {
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

const float *look_patch_token(const look_photo *s, int patch) {
    const vit_config *c = &s->config;
    return s->values + (size_t)(c->num_prefix_tokens + patch) * (size_t)c->embed_dim;
}

/* Fits principal components to the patch tokens of all photos. `coordinates` receives the
 * components of each patch, [patches of all photos, TOKENS_COMPONENTS]. */
static bool fit(look_job *j, float *coordinates, report *r) {
    const int count = look_all_patches(j), dim = j->model.config.embed_dim;
    float *values = malloc((size_t)count * (size_t)dim * sizeof *values), *to = values;
    vit_grid *grids = malloc((size_t)j->num_seen * sizeof *grids);
    const tokens_patches t = { values, count, dim, grids };
    bool good = (values && grids) || report_no_memory(r);
    for (int i = 0; good && i < j->num_seen; i++) {
        const size_t each = (size_t)j->seen[i].config.num_patches * (size_t)dim;
        memcpy(to, look_patch_token(&j->seen[i], 0), each * sizeof *values);
        grids[i] = look_grid_of(&j->seen[i].config);
        to += each;
    }
    good = good && tokens_components(&t, j->chosen->foreground, &j->components, coordinates, r);
    free(values);
    free(grids);
    return good;
}

/* Copies the coordinates of all patches into maps. Each photo has one map for each component. */
static void take_maps(look_job *j, const float *coordinates) {
    for (int i = 0; i < j->num_seen; i++)
        for (int p = 0; p < j->seen[i].config.num_patches; p++)
            for (int k = 0; k < TOKENS_COMPONENTS; k++) look_map_of(j, i, k)[p] = *coordinates++;
}

/* Finds the range of the values of each component over all photos. */
static void find_ranges(const look_job *j, double ranges[TOKENS_COMPONENTS][2]) {
    for (int k = 0; k < TOKENS_COMPONENTS; k++) {
        bool any = false;
        for (int i = 0; i < j->num_seen; i++) {
            double range[2];
            if (!grids_range(look_map_of(j, i, k), (size_t)j->seen[i].config.num_patches, range))
                continue;
            if (!any || range[0] < ranges[k][0]) ranges[k][0] = range[0];
            if (!any || range[1] > ranges[k][1]) ranges[k][1] = range[1];
            any = true;
        }
    }
}

/* Returns the colour of a patch. Patches that are not in the foreground are black. */
static picture_colour colour(const look_job *j, int photo, int patch,
                             double ranges[TOKENS_COMPONENTS][2]) {
    uint8_t rgb[TOKENS_COMPONENTS] = { 0, 0, 0 };
    for (int k = 0; k < TOKENS_COMPONENTS; k++) {
        const float value = look_map_of(j, photo, k)[patch];
        if (!isnan(value)) rgb[k] = (uint8_t)(255 * grids_share((double)value, ranges[k]) + 0.5);
    }
    return (picture_colour){ rgb[0], rgb[1], rgb[2] };
}

static bool add_photos(look_job *j, report *r) {
    const int all = look_all_patches(j);
    picture_colour *colours = malloc((size_t)all * sizeof *colours);
    double ranges[TOKENS_COMPONENTS][2] = { { 0, 0 }, { 0, 0 }, { 0, 0 } };
    bool good = colours || report_no_memory(r);
    find_ranges(j, ranges);
    for (int i = 0; good && i < j->num_seen; i++) {
        for (int p = 0; p < j->seen[i].config.num_patches; p++)
            colours[p] = colour(j, i, p, ranges);
        good = look_add_view(j, &j->seen[i], NULL, "", r) &&
               look_add_view(j, &j->seen[i], colours, "components", r);
    }
    free(colours);
    return good;
}

bool look_draw_tokens(look_job *j, report *r) {
    bool good = look_take_maps(j, TOKENS_COMPONENTS, r);
    const size_t count = (size_t)look_all_patches(j) * TOKENS_COMPONENTS;
    float *coordinates = malloc(count * sizeof *coordinates);
    if (!coordinates) good = report_no_memory(r);
    good = good && fit(j, coordinates, r);
    if (good) take_maps(j, coordinates);
    free(coordinates);
    return good && add_photos(j, r);
}

/* Writes the variance along each component, and the share of this variance in the total
 * variance. */
void look_put_components(const look_job *j, json_writer *w) {
    const pca *p = &j->components;
    json_put_begin(w, "variance", '[');
    for (int k = 0; k < p->count; k++) json_put_number(w, NULL, p->variance[k], 9);
    json_put_end(w, ']');
    json_put_begin(w, "explained", '[');
    for (int k = 0; k < p->count; k++)
        json_put_number(w, NULL, p->total > 0 ? p->variance[k] / p->total : 0, 9);
    json_put_end(w, ']');
}
