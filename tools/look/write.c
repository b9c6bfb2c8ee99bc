#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "image/photo_source.h"
#include "look/look.h"
#include "picture/picture.h"

/* === The part of each photo that the model gets === */

static size_t count_numbers(const look_job *j) {
    size_t count = 1;
    for (int i = 0; i < j->ndim; i++) count *= (size_t)j->dims[i];
    return count;
}

bool look_take_numbers(look_job *j, int64_t a, int64_t b, int64_t c, int64_t d, report *r) {
    const int64_t dims[4] = { a, b, c, d };
    memcpy(j->dims, dims, sizeof dims);
    j->ndim = d ? 4 : 3;
    j->numbers = calloc(count_numbers(j), sizeof *j->numbers);
    return j->numbers || report_no_memory(r);
}

vit_grid look_grid_of(const vit_config *config) {
    return (vit_grid){ config->grid_height, config->grid_width };
}

int look_all_patches(const look_job *j) {
    const look_photo *last = j->num_seen ? &j->seen[j->num_seen - 1] : NULL;
    return last ? last->before + last->config.num_patches : 0;
}

bool look_take_maps(look_job *j, int maps, report *r) {
    const vit_config *c = &j->seen[0].config;
    const size_t patches = (size_t)look_all_patches(j);
    const int64_t dims[4] = { j->num_seen, maps, c->grid_height, c->grid_width };
    memcpy(j->dims, dims, sizeof dims);
    j->ndim = 4;
    j->numbers = calloc((size_t)maps * patches, sizeof *j->numbers);
    return j->numbers || report_no_memory(r);
}

float *look_map_of(const look_job *j, int which, int map) {
    return j->numbers + (size_t)j->dims[1] * (size_t)j->seen[which].before +
           (size_t)map * (size_t)j->seen[which].config.num_patches;
}

bool look_check_block(const look_job *j, report *r) {
    const int depth = j->model.config.depth;
    return j->chosen->block < depth ||
           report_fail(r, "--block %d: the model has blocks 0 to %d", j->chosen->block, depth - 1);
}

/* Starts a session for the model. The previous session is closed. */
static bool start_session(look_job *j, const vit_model *model, report *r) {
    const vit_config *c = &model->config;
    const vit_params params = { .isa = j->chosen->isa, .executor = j->executor };
    vit_session_close(&j->session);
    free(j->input);
    j->input = malloc((size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width *
                      sizeof *j->input);
    if (!j->input) return report_no_memory(r);
    if (vit_workspace_size(model, &params) == 0)
        return report_fail(
            r, "this machine cannot run the model with --isa %s; the machine's best is %s",
            vit_isa_name(params.isa), vit_isa_name(vit_detect_isa()));
    return vit_session_init(&j->session, model, &params, NULL, 0) == VIT_OK || report_no_memory(r);
}

static bool start(look_job *j, report *r) {
    if (vit_threads_create(j->chosen->num_threads, &j->threads, &j->executor) != VIT_OK)
        return report_no_memory(r);
    return start_session(j, &j->model, r);
}

/* If crop_mode is aspect, starts a new session for the photo, because each photo then has its own
 * input size. */
static bool fit_session(look_job *j, const vit_image *image, report *r) {
    vit_result result;
    if (j->model.config.crop_mode != VIT_CROP_ASPECT) return true;
    result = vit_model_fit(&j->model, image, &j->fitted);
    if (result != VIT_OK) return report_fail(r, "%s", vit_result_string(result));
    return start_session(j, &j->fitted, r);
}

bool look_patch_at(const look_job *j, const view *v, int *patch, report *r) {
    const double *at = j->chosen->point;
    double box[4];
    crop_seen(&v->place, box);
    *patch = crop_patch(&v->place, at[0], at[1]);
    return *patch >= 0 || report_fail(r,
                                      "no patch is at %g,%g: of the photo's %d x %d pixels, the "
                                      "model gets x from %.0f to %.0f and y from %.0f to %.0f",
                                      at[0], at[1], v->place.photo_width, v->place.photo_height,
                                      box[0], box[2], box[1], box[3]);
}

static bool read_photo(look_job *j, const vit_image *image, look_photo *s, report *r) {
    size_t count;
    if (!fit_session(j, image, r)) return false;
    s->config = j->session.model->config;
    count = (size_t)s->config.num_tokens * j->each;
    s->values = malloc(count * sizeof *s->values);
    if (!s->values) return report_no_memory(r);
    return photos_prepare(j->session.model, image, j->input, r) &&
           view_make(&s->shown, image, &s->config, j->chosen->side, r) &&
           j->command->read(j, s, r) &&
           (tensor_values_are_finite(s->values, count) ||
            report_fail(r, "the model's outputs are NaN or infinite; vit-info --check names "
                           "the weights with NaN or infinity"));
}

/* Decodes one photo and computes its values. A photo that cannot be decoded is reported and
 * counted, and is not a failure. */
static bool see(look_job *j, char *name, report *r) {
    report unreadable = report_make();
    look_photo *s = &j->seen[j->num_seen];
    vit_image image;
    bool good;
    if (!photos_decode(name, j->decoder, &image, &unreadable)) {
        report_print(&unreadable, cli_name());
        j->unreadable++;
        return true;
    }
    s->name = name;
    s->marked = -1;
    s->before = look_all_patches(j);
    j->num_seen++;
    good = read_photo(j, &image, s, r);
    photos_free_image(&image);
    return good || report_file(r, name);
}

static bool see_all(look_job *j, report *r) {
    bool good = photo_paths_all(&j->photos, j->operands, &j->chosen->lists,
                                j->chosen->null ? '\0' : '\n', r);
    if (good) j->decoder = photo_decoder_open(&j->chosen->photos, cli_name(), 1, r);
    good = j->decoder && start(j, r);
    if (good) {
        j->seen = calloc((size_t)j->photos.count, sizeof *j->seen);
        good = j->seen || report_no_memory(r);
    }
    for (int i = 0; good && i < j->photos.count; i++) {
        good = see(j, j->photos.paths[i], r);
        if (good && j->chosen->at && j->num_seen == 0)
            return report_fail(r, "--at %s needs the first photo, which cannot be read",
                               j->chosen->at);
    }
    return good && (j->num_seen > 0 || report_fail(r, "no image could be read"));
}

bool look_add_view(look_job *j, const look_photo *s, const picture_colour *patches,
                   const char *caption, report *r) {
    char text[512];
    picture painted;
    snprintf(text, sizeof text, "%s\n%s", paths_file_name(s->name), caption);
    if (!view_paint(&s->shown, patches, j->command->opacity, &painted, r)) return false;
    if (s->marked >= 0) view_mark(&s->shown, &painted, s->marked);
    return sheet_add(&j->sheet, &painted, text, r);
}

bool look_add_heat(look_job *j, const look_photo *s, const float *values, const double range[2],
                   const char *caption, report *r) {
    const int patches = s->config.num_patches;
    picture_colour *colours = malloc((size_t)patches * sizeof *colours);
    bool good = colours || report_no_memory(r);
    for (int i = 0; good && i < patches; i++)
        colours[i] = colour_of(COLOUR_INFERNO, grids_share((double)values[i], range));
    good = good && look_add_view(j, s, colours, caption, r);
    free(colours);
    return good;
}

bool look_run(look_job *j, report *r) {
    const look_choices *c = j->chosen;
    if (!c->compare && !cli_model_choose(c->model, c->img_size, &j->model, &j->path, r))
        return false;
    if (j->command->prepare && !j->command->prepare(j, r)) return report_file(r, j->path);
    return (!j->command->photos || see_all(j, r)) && j->command->draw(j, r) && look_write(j, r);
}

void look_free(look_job *j) {
    for (int i = 0; i < j->num_seen; i++) {
        view_free(&j->seen[i].shown);
        free(j->seen[i].values);
    }
    for (int i = 0; i < j->num_placed; i++) free(j->placed[i].cosines);
    free(j->seen);
    free(j->placed);
    free(j->numbers);
    vit_session_close(&j->session);
    free(j->input);
    pca_free(&j->components);
    sheet_free(&j->sheet);
    photo_decoder_close(j->decoder);
    photos_free(&j->photos);
    vit_threads_destroy(j->threads);
    vit_model_close(&j->model);
    free(j->path);
}

/* === Writing === */

static bool write_npy(const look_job *j, report *r) {
    cli_output output;
    if (!cli_output_open(&output, j->chosen->npy, r)) return false;
    /* If this call fails, cli_output_commit reports the failure. */
    (void)npy_write(output.file, j->numbers, j->dims, j->ndim);
    return cli_output_commit(&output, r);
}

static bool write_png(const look_job *j, report *r) {
    picture drawn;
    const bool good = sheet_draw(&j->sheet, j->chosen->columns, &drawn, r) &&
                      picture_save(&drawn, j->chosen->output, r);
    picture_free(&drawn);
    return good;
}

void look_put_pair(json_writer *w, const char *key, int a, int b) {
    json_put_begin(w, key, '[');
    json_put_integer(w, NULL, a);
    json_put_integer(w, NULL, b);
    json_put_end(w, ']');
}

/* Writes one map as an array of rows. */
static void put_map(vit_grid grid, const float *values, json_writer *w) {
    json_put_begin(w, NULL, '[');
    for (int y = 0; y < grid.height; y++)
        json_put_floats(w, NULL, values + y * grid.width, grid.width);
    json_put_end(w, ']');
}

static void put_seen(const look_job *j, int which, json_writer *w) {
    const look_photo *s = &j->seen[which];
    double box[4];
    crop_seen(&s->shown.place, box);
    json_put_begin(w, NULL, '{');
    json_put_text(w, "image", s->name);
    look_put_pair(w, "size", s->shown.place.photo_width, s->shown.place.photo_height);
    if (j->model.config.crop_mode == VIT_CROP_ASPECT)
        look_put_pair(w, "grid", s->config.grid_height, s->config.grid_width);
    json_put_begin(w, "seen", '[');
    for (int i = 0; i < 4; i++) json_put_number(w, NULL, box[i], 9);
    json_put_end(w, ']');
    json_put_begin(w, "values", '[');
    for (int m = 0; m < (int)j->dims[1]; m++)
        put_map(look_grid_of(&s->config), look_map_of(j, which, m), w);
    json_put_end(w, ']');
    json_put_end(w, '}');
}

static void print_json(const look_job *j) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "look", j->command->name);
    if (j->path) json_put_text(&w, "model", j->path);
    j->command->put(j, &w);
    if (j->command->photos) {
        if (j->model.config.crop_mode != VIT_CROP_ASPECT)
            look_put_pair(&w, "grid", j->model.config.grid_height, j->model.config.grid_width);
        json_put_begin(&w, "images", '[');
        for (int i = 0; i < j->num_seen; i++) put_seen(j, i, &w);
        json_put_end(&w, ']');
        json_put_integer(&w, "unreadable", j->unreadable);
    }
    json_put_end(&w, '}');
    putchar('\n');
}

/* With the option --npy, checks that all photos have the same grid, because one array holds the
 * maps of all photos. */
static bool check_grids(const look_job *j, report *r) {
    const vit_config *first = j->num_seen ? &j->seen[0].config : NULL;
    for (int i = 1; j->chosen->npy && i < j->num_seen; i++) {
        const vit_config *c = &j->seen[i].config;
        if (c->grid_height == first->grid_height && c->grid_width == first->grid_width) continue;
        (void)report_fail(r,
                          "--npy: expected %d x %d patches as in the first photo, found %d x %d; "
                          "give photos of one shape, or --json",
                          first->grid_height, first->grid_width, c->grid_height, c->grid_width);
        return report_file(r, j->seen[i].name);
    }
    return true;
}

bool look_write(const look_job *j, report *r) {
    bool good;
    if (!check_grids(j, r)) return false;
    good = (!j->chosen->output || write_png(j, r)) && (!j->chosen->npy || write_npy(j, r));
    if (good && j->chosen->json) print_json(j);
    return good;
}
