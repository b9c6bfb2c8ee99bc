#include "look/look.h"

#include <string.h>

#include "cli/output.h"

static bool write_npy(const look_job *j, report *r)
{
    cli_output output;
    if (!cli_output_open(&output, j->chosen->npy, r)) return false;
    (void)npy_write(output.file, j->numbers, j->dims, j->ndim);   /* commit finds what failed */
    return cli_output_commit(&output, r);
}

static bool write_png(const look_job *j, report *r)
{
    picture drawn;
    const bool good = sheet_draw(&j->sheet, j->chosen->columns, &drawn, r) &&
                      picture_save(&drawn, j->chosen->output, r);
    picture_free(&drawn);
    return good;
}

void look_put_pair(json_writer *w, const char *key, int a, int b)
{
    json_put_begin(w, key, '[');
    json_put_integer(w, NULL, a);
    json_put_integer(w, NULL, b);
    json_put_end(w, ']');
}

/* Rows of one map. */
static void put_map(const look_job *j, const float *values, json_writer *w)
{
    const int width = j->model.config.grid_width;
    json_put_begin(w, NULL, '[');
    for (int y = 0; y < j->model.config.grid_height; y++)
        json_put_floats(w, NULL, values + y * width, width);
    json_put_end(w, ']');
}

static void put_seen(const look_job *j, int photo, json_writer *w)
{
    const look_photo *s = &j->seen[photo];
    double box[4];
    crop_seen(&s->shown.place, box);
    json_put_begin(w, NULL, '{');
    json_put_text(w, "image", s->name);
    look_put_pair(w, "size", s->shown.place.photo_width, s->shown.place.photo_height);
    json_put_begin(w, "seen", '[');
    for (int i = 0; i < 4; i++) json_put_number(w, NULL, box[i], 9);
    json_put_end(w, ']');
    json_put_begin(w, "values", '[');
    for (int m = 0; m < (int)j->dims[1]; m++) put_map(j, look_map_of(j, photo, m), w);
    json_put_end(w, ']');
    json_put_end(w, '}');
}

static void print_json(const look_job *j)
{
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "look", j->command->name);
    if (j->path) json_put_text(&w, "model", j->path);
    j->command->put(j, &w);
    if (j->command->photos) {
        look_put_pair(&w, "grid", j->model.config.grid_height, j->model.config.grid_width);
        json_put_begin(&w, "images", '[');
        for (int i = 0; i < j->num_seen; i++) put_seen(j, i, &w);
        json_put_end(&w, ']');
        json_put_integer(&w, "unreadable", j->unreadable);
    }
    json_put_end(&w, '}');
    putchar('\n');
}

bool look_write(const look_job *j, report *r)
{
    const bool good = (!j->chosen->output || write_png(j, r)) &&
                      (!j->chosen->npy || write_npy(j, r));
    if (good && j->chosen->json) print_json(j);
    return good;
}
