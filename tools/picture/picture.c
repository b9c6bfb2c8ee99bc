#define _POSIX_C_SOURCE 200809L /* makes the headers declare strdup */
#include "picture/picture.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* === The canvas === */

static void set(picture *p, int x, int y, picture_colour colour) {
    uint8_t *pixel = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
    pixel[0] = colour.red;
    pixel[1] = colour.green;
    pixel[2] = colour.blue;
}

bool picture_make(picture *p, int64_t width, int64_t height, picture_colour colour, report *r) {
    memset(p, 0, sizeof *p);
    if (width < 1 || height < 1 || width > PICTURE_MAX_PIXELS / height)
        return report_fail(r, "the picture would be %lld x %lld pixels; the limit is %d pixels",
                           (long long)width, (long long)height, PICTURE_MAX_PIXELS);
    p->pixels = malloc((size_t)(3 * width * height));
    if (!p->pixels) return report_no_memory(r);
    p->width = (int)width;
    p->height = (int)height;
    picture_fill(p, (picture_box){ 0, 0, p->width, p->height }, colour);
    return true;
}

void picture_free(picture *p) {
    free(p->pixels);
    memset(p, 0, sizeof *p);
}

static int clamp(int value, int high) { return value < 0 ? 0 : value > high ? high : value; }

void picture_fill(picture *p, picture_box box, picture_colour colour) {
    const int left = clamp(box.x, p->width), right = clamp(box.x + box.width, p->width);
    const int bottom = clamp(box.y + box.height, p->height);
    for (int y = clamp(box.y, p->height); y < bottom; y++) {
        for (int x = left; x < right; x++) set(p, x, y, colour);
    }
}

void picture_outline(picture *p, picture_box box, int thickness, picture_colour colour) {
    const int right = box.x + box.width - thickness, bottom = box.y + box.height - thickness;
    picture_fill(p, (picture_box){ box.x, box.y, box.width, thickness }, colour);
    picture_fill(p, (picture_box){ box.x, bottom, box.width, thickness }, colour);
    picture_fill(p, (picture_box){ box.x, box.y, thickness, box.height }, colour);
    picture_fill(p, (picture_box){ right, box.y, thickness, box.height }, colour);
}

void picture_paste(picture *onto, int x, int y, const picture *p) {
    const int left = clamp(-x, p->width), right = clamp(onto->width - x, p->width);
    const int bottom = clamp(onto->height - y, p->height);
    for (int row = clamp(-y, p->height); row < bottom && left < right; row++) {
        memcpy(onto->pixels + 3 * ((size_t)(y + row) * (size_t)onto->width + (size_t)(x + left)),
               p->pixels + 3 * ((size_t)row * (size_t)p->width + (size_t)left),
               3 * (size_t)(right - left));
    }
}

static uint8_t mix(uint8_t a, uint8_t b, double share) {
    return (uint8_t)((double)a + ((double)b - (double)a) * share + 0.5);
}

picture_colour picture_mix(picture_colour a, picture_colour b, double share_of_b) {
    return (picture_colour){ mix(a.red, b.red, share_of_b), mix(a.green, b.green, share_of_b),
                             mix(a.blue, b.blue, share_of_b) };
}

/* === Photos === */

/* The range of a photo's columns or rows that one pixel of the picture covers: `begin` to `end` -
 * 1. The range is never empty. */
typedef struct span {
    int begin, end;
} span;

static span find_span(int at, int count, int length) {
    span s;
    s.begin = (int)((int64_t)at * length / count);
    s.end = (int)((int64_t)(at + 1) * length / count);
    if (s.end == s.begin) s.end++;
    return s;
}

static const uint8_t *row_of(const vit_image *photo, int y) {
    return photo->pixels +
           (size_t)y * (photo->stride ? (size_t)photo->stride : 3 * (size_t)photo->width);
}

static picture_colour mean_of(const vit_image *photo, span across, span down) {
    const uint64_t n = (uint64_t)(across.end - across.begin) * (uint64_t)(down.end - down.begin);
    uint64_t sum[3] = { n / 2, n / 2, n / 2 };
    for (int y = down.begin; y < down.end; y++) {
        const uint8_t *pixel = row_of(photo, y) + 3 * (size_t)across.begin;
        for (int x = across.begin; x < across.end; x++, pixel += 3) {
            for (int c = 0; c < 3; c++) sum[c] += pixel[c];
        }
    }
    return (picture_colour){ (uint8_t)(sum[0] / n), (uint8_t)(sum[1] / n), (uint8_t)(sum[2] / n) };
}

/* Returns the length of a side after a photo is scaled. `longer` is the length of the photo's
 * longer side, which becomes `side`. */
static int64_t scaled(int length, int longer, int side) {
    const int64_t result = ((int64_t)length * side + longer / 2) / longer;
    return result < 1 ? 1 : result;
}

bool picture_of_photo(picture *p, const vit_image *photo, int side, report *r) {
    const int longer = photo->width > photo->height ? photo->width : photo->height;
    if (!picture_make(p, scaled(photo->width, longer, side), scaled(photo->height, longer, side),
                      PICTURE_BLACK, r))
        return false;
    for (int y = 0; y < p->height; y++) {
        const span down = find_span(y, p->height, photo->height);
        for (int x = 0; x < p->width; x++)
            set(p, x, y, mean_of(photo, find_span(x, p->width, photo->width), down));
    }
    return true;
}

/* === Colours === */

picture_colour colour_of(colour_map map, double value) {
    enum { COLOURS = 10 };
    static const picture_colour maps[][COLOURS] = {
        { { 68, 1, 84 },
          { 72, 40, 120 },
          { 62, 73, 137 },
          { 49, 104, 142 },
          { 38, 130, 142 },
          { 31, 158, 137 },
          { 53, 183, 121 },
          { 110, 206, 88 },
          { 181, 222, 43 },
          { 253, 231, 37 } },
        { { 0, 0, 4 },
          { 27, 12, 65 },
          { 74, 12, 107 },
          { 120, 28, 109 },
          { 165, 44, 96 },
          { 207, 68, 70 },
          { 237, 105, 37 },
          { 251, 155, 6 },
          { 247, 209, 61 },
          { 252, 255, 164 } },
    };
    const double at = (value < 0 ? 0 : value > 1 ? 1 : value) * (COLOURS - 1);
    int below;
    if (isnan(value)) return (picture_colour){ 128, 128, 128 };
    below = at < COLOURS - 2 ? (int)at : COLOURS - 2;
    return picture_mix(maps[map][below], maps[map][below + 1], at - below);
}

/* === Grids === */

bool grids_range(const float *values, size_t count, double range[2]) {
    bool any = false;
    range[0] = range[1] = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = (double)values[i];
        if (isnan(value)) continue;
        if (!any || value < range[0]) range[0] = value;
        if (!any || value > range[1]) range[1] = value;
        any = true;
    }
    return any;
}

double grids_share(double value, const double range[2]) {
    return range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 0.5;
}

/* Draws a grid of values. Each value becomes a square of `scale` x `scale` pixels. */
static void draw_grid(picture *p, int x, int y, const float *values, vit_grid grid,
                      const double range[2], int scale) {
    for (int i = 0; i < grid.height * grid.width; i++) {
        const picture_box box = { x + i % grid.width * scale, y + i / grid.width * scale, scale,
                                  scale };
        picture_fill(p, box, colour_of(COLOUR_VIRIDIS, grids_share((double)values[i], range)));
    }
}

bool grids_draw(picture *p, const float *values, vit_grid grid, const double range[2], int side,
                report *r) {
    const int64_t n = (int64_t)grid.height * grid.width;
    const int gap = 2, fit = (side / grid.width - gap) / grid.width, scale = fit < 1 ? 1 : fit;
    const int64_t across = (int64_t)grid.width * scale + gap;
    const int64_t down = (int64_t)grid.height * scale + gap;
    if (!picture_make(p, grid.width * across - gap, grid.height * down - gap, PICTURE_WHITE, r))
        return false;
    for (int64_t i = 0; i < n; i++) {
        draw_grid(p, (int)(i % grid.width * across), (int)(i / grid.width * down), values + i * n,
                  grid, range, scale);
    }
    return true;
}

bool grids_draw_filter(picture *p, const float *filter, int chans, int size, int side, report *r) {
    const int scale = side < size ? 1 : side / size, area = size * size;
    double range[2];
    (void)grids_range(filter, (size_t)chans * (size_t)area, range);
    if (!picture_make(p, (int64_t)size * scale, (int64_t)size * scale, PICTURE_BLACK, r))
        return false;
    for (int i = 0; i < area; i++) {
        uint8_t rgb[3];
        for (int c = 0; c < 3; c++) {
            const double value = (double)filter[(chans == 3 ? c : 0) * area + i];
            rgb[c] = (uint8_t)(255 * grids_share(value, range) + 0.5);
        }
        picture_fill(p, (picture_box){ i % size * scale, i / size * scale, scale, scale },
                     (picture_colour){ rgb[0], rgb[1], rgb[2] });
    }
    return true;
}

/* === Patches over a photo === */

bool view_make(view *v, const vit_image *photo, const vit_config *config, int side, report *r) {
    memset(v, 0, sizeof *v);
    return crop_find(&v->place, config, photo->width, photo->height, r) &&
           picture_of_photo(&v->photo, photo, side, r);
}

void view_free(view *v) { picture_free(&v->photo); }

/* Returns the number of the patch to which the pixel at (x, y) of the view belongs. Returns -1 if
 * the model does not receive this pixel. */
static int patch_at(const view *v, int x, int y) {
    return crop_patch(&v->place, (x + 0.5) * v->place.photo_width / v->photo.width,
                      (y + 0.5) * v->place.photo_height / v->photo.height);
}

static picture_colour grey_of(const uint8_t *pixel) {
    const int luma = (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000;
    return (picture_colour){ (uint8_t)luma, (uint8_t)luma, (uint8_t)luma };
}

/* Mixes the colour of a pixel with the colour of its patch. `patch` is -1 if the pixel belongs to
 * no patch; the pixel then becomes paler. */
static picture_colour paint(const uint8_t *pixel, const picture_colour *patches, int patch,
                            double opacity) {
    const picture_colour shown = { pixel[0], pixel[1], pixel[2] };
    if (patch < 0) return picture_mix(shown, PICTURE_WHITE, 0.6);
    return patches ? picture_mix(grey_of(pixel), patches[patch], opacity) : shown;
}

/* Returns the part of the photo that the model receives, in pixels of the view. */
static picture_box seen_box(const view *v) {
    const double across = (double)v->photo.width / v->place.photo_width;
    const double down = (double)v->photo.height / v->place.photo_height;
    double seen[4];
    picture_box box;
    crop_seen(&v->place, seen);
    box.x = (int)floor(seen[0] * across + 0.5);
    box.y = (int)floor(seen[1] * down + 0.5);
    box.width = (int)floor(seen[2] * across + 0.5) - box.x;
    box.height = (int)floor(seen[3] * down + 0.5) - box.y;
    return box;
}

bool view_paint(const view *v, const picture_colour *patches, double opacity, picture *painted,
                report *r) {
    if (!picture_make(painted, v->photo.width, v->photo.height, PICTURE_BLACK, r)) return false;
    for (int y = 0; y < painted->height; y++) {
        for (int x = 0; x < painted->width; x++) {
            const int patch = patch_at(v, x, y);
            const uint8_t *pixel = v->photo.pixels +
                                   3 * ((size_t)y * (size_t)painted->width + (size_t)x);
            const picture_box dot = { x, y, 1, 1 };
            picture_fill(painted, dot, paint(pixel, patches, patch, opacity));
        }
    }
    picture_outline(painted, seen_box(v), 1, PICTURE_WHITE);
    return true;
}

void view_mark(const view *v, picture *painted, int patch) {
    int left = painted->width, top = painted->height, right = -1, bottom = -1;
    for (int y = 0; y < painted->height; y++) {
        for (int x = 0; x < painted->width; x++) {
            if (patch_at(v, x, y) != patch) continue;
            if (x < left) left = x;
            if (x > right) right = x;
            if (y < top) top = y;
            if (y > bottom) bottom = y;
        }
    }
    /* No pixel belongs to the patch, because the patch is smaller than a pixel. */
    if (right < 0) return;
    left--, top--, right++, bottom++;
    picture_outline(painted, (picture_box){ left, top, right - left + 1, bottom - top + 1 }, 2,
                    (picture_colour){ 255, 0, 0 });
}

/* === Contact sheets === */

enum { MARGIN = 8, LINE = PICTURE_TEXT_HEIGHT, LEAST_WIDTH = 64 };

static int larger(int a, int b) { return a > b ? a : b; }

bool sheet_add(sheet *s, picture *shown, const char *caption, report *r) {
    sheet_cell *cells = memory_grow(s->cells, sizeof *cells, (size_t)s->count, &s->capacity);
    char *copy = strdup(caption);
    if (cells) s->cells = cells;
    if (!cells || !copy) {
        free(copy);
        picture_free(shown);
        return report_no_memory(r);
    }
    cells[s->count].shown = *shown;
    cells[s->count++].caption = copy;
    memset(shown, 0, sizeof *shown);
    return true;
}

bool sheet_add_photo(sheet *s, const char *path, photo_decoder *decoder, int side,
                     const char *caption, report *r) {
    report unreadable = report_make();
    vit_image photo;
    picture shown;
    bool good;
    if (photos_decode(path, decoder, &photo, &unreadable)) {
        good = picture_of_photo(&shown, &photo, side, r);
        photos_free_image(&photo);
    } else if (unreadable.no_memory) { /* Lack of memory is not the photo's fault. */
        *r = unreadable;
        return false;
    } else {
        good = picture_make(&shown, side, side, (picture_colour){ 128, 128, 128 }, r);
    }
    return good && sheet_add(s, &shown, caption, r);
}

static int count_lines(const char *caption) {
    int lines = *caption != '\0';
    for (; *caption; caption++) lines += *caption == '\n';
    return lines;
}

/* The sizes of all columns and rows, in pixels. The heights include the captions. */
typedef struct layout {
    int columns, rows;
    int *widths, *heights; /* The widths [columns] and the heights [rows]. */
    int64_t width, height;
} layout;

static void measure(const sheet *s, layout *l) {
    for (int i = 0; i < s->count; i++) {
        const sheet_cell *cell = &s->cells[i];
        int *width = &l->widths[i % l->columns], *height = &l->heights[i / l->columns];
        *width = larger(*width, larger(LEAST_WIDTH, cell->shown.width));
        *height = larger(*height, cell->shown.height + LINE * count_lines(cell->caption));
    }
    l->width = l->height = MARGIN;
    for (int i = 0; i < l->columns; i++) l->width += l->widths[i] + MARGIN;
    for (int i = 0; i < l->rows; i++) l->height += l->heights[i] + MARGIN;
}

/* Draws one line of a caption. If the line is wider than `width`, characters in its middle are
 * replaced by "..". */
static void draw_line(picture *p, int x, int y, int width, const char *line, size_t length) {
    char text[256];
    size_t kept = length < sizeof text ? length : sizeof text - 1;
    memcpy(text, line, kept);
    text[kept] = '\0';
    while (kept > 4 && picture_text_width(text) > width) {
        const size_t middle = kept / 2;
        memmove(text + middle, text + middle + 1, kept - middle);
        kept--;
        memcpy(text + middle - 1, "..", 2);
    }
    picture_text(p, x, y, PICTURE_BLACK, text);
}

static void draw_cell(picture *p, int x, int y, int width, const sheet_cell *cell) {
    const char *line = cell->caption;
    picture_paste(p, x, y, &cell->shown);
    y += cell->shown.height + 2;
    for (; *line; y += LINE) {
        const size_t length = strcspn(line, "\n");
        draw_line(p, x, y, width, line, length);
        line += length + (line[length] != '\0');
    }
}

static void draw_cells(const sheet *s, const layout *l, picture *p) {
    int y = MARGIN;
    for (int row = 0; row < l->rows; row++) {
        int x = MARGIN;
        for (int column = 0; column < l->columns; column++) {
            const int i = row * l->columns + column;
            if (i < s->count) draw_cell(p, x, y, l->widths[column], &s->cells[i]);
            x += l->widths[column] + MARGIN;
        }
        y += l->heights[row] + MARGIN;
    }
}

bool sheet_draw(const sheet *s, int columns, picture *drawn, report *r) {
    layout l = { columns, 0, NULL, NULL, 0, 0 };
    bool good;
    while (!columns && l.columns * l.columns < s->count) l.columns++;
    if (l.columns > s->count) l.columns = s->count;
    l.columns = larger(1, l.columns);
    l.rows = (s->count + l.columns - 1) / l.columns;
    l.widths = calloc((size_t)l.columns, sizeof *l.widths);
    l.heights = calloc((size_t)larger(1, l.rows), sizeof *l.heights);
    good = l.widths && l.heights;
    if (!good) {
        memset(drawn, 0, sizeof *drawn);
        (void)report_no_memory(r);
    } else {
        measure(s, &l);
        good = picture_make(drawn, l.width, l.height, PICTURE_WHITE, r);
    }
    if (good) draw_cells(s, &l, drawn);
    free(l.widths);
    free(l.heights);
    return good;
}

void sheet_free(sheet *s) {
    for (int i = 0; i < s->count; i++) {
        picture_free(&s->cells[i].shown);
        free(s->cells[i].caption);
    }
    free(s->cells);
    memset(s, 0, sizeof *s);
}
