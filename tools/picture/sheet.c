#define _POSIX_C_SOURCE 200809L   /* strdup */

#include "picture/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { MARGIN = 8, LINE = PICTURE_TEXT_HEIGHT, LEAST_WIDTH = 64 };

static int larger(int a, int b)
{
    return a > b ? a : b;
}

bool sheet_add(sheet *s, picture *shown, const char *caption, report *r)
{
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
                     const char *caption, report *r)
{
    report unreadable = report_make();
    vit_image photo;
    picture shown;
    bool good;
    if (photos_decode(path, decoder, &photo, &unreadable)) {
        good = picture_of_photo(&shown, &photo, side, r);
        photos_free_image(&photo);
    } else if (unreadable.no_memory) {   /* not the photo's fault */
        *r = unreadable;
        return false;
    } else {
        good = picture_make(&shown, side, side, (picture_colour){ 128, 128, 128 }, r);
    }
    return good && sheet_add(s, &shown, caption, r);
}

static int count_lines(const char *caption)
{
    int lines = *caption != '\0';
    for (; *caption; caption++) lines += *caption == '\n';
    return lines;
}

/* The sizes of columns and rows, captions included, and where they begin. */
typedef struct layout {
    int columns, rows;
    int *widths, *heights;    /* [columns], [rows] */
    int64_t width, height;
} layout;

static void measure(const sheet *s, layout *l)
{
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

/* One line of a caption, its middle left out if it is too wide. */
static void draw_line(picture *p, int x, int y, int width, const char *line, size_t length)
{
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

static void draw_cell(picture *p, int x, int y, int width, const sheet_cell *cell)
{
    const char *line = cell->caption;
    picture_paste(p, x, y, &cell->shown);
    y += cell->shown.height + 2;
    for (; *line; y += LINE) {
        const size_t length = strcspn(line, "\n");
        draw_line(p, x, y, width, line, length);
        line += length + (line[length] != '\0');
    }
}

static void draw_cells(const sheet *s, const layout *l, picture *p)
{
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

bool sheet_draw(const sheet *s, int columns, picture *drawn, report *r)
{
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

void sheet_free(sheet *s)
{
    for (int i = 0; i < s->count; i++) {
        picture_free(&s->cells[i].shown);
        free(s->cells[i].caption);
    }
    free(s->cells);
    memset(s, 0, sizeof *s);
}
