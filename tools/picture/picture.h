/* picture.h - draws pictures: RGB pixels, colours, text, PNG.
 *
 *     picture p;
 *     if (!picture_make(&p, 640, 480, PICTURE_WHITE, &r)) return false;
 *     picture_text(&p, 8, 8, PICTURE_BLACK, "hello");
 *     good = picture_save(&p, "out.png", &r);
 *     picture_free(&p);
 *
 * Drawing outside a picture is cut off.
 *
 * tools/picture owns pictures: canvas, colour maps, text, contact sheets, PNG; it may include base
 * cli image.
 */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "image/crop.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct picture {
    uint8_t *pixels; /* [height, width, 3]: red, green, blue; malloc'ed */
    int width, height;
} picture;

typedef struct picture_colour {
    uint8_t red, green, blue;
} picture_colour;

static const picture_colour PICTURE_WHITE = { 255, 255, 255 }, PICTURE_BLACK = { 0, 0, 0 };

typedef struct picture_box {
    int x, y, width, height;
} picture_box;

enum { PICTURE_MAX_PIXELS = 1 << 27, PICTURE_TEXT_HEIGHT = 12 };

/* Makes a picture. Refuses more than PICTURE_MAX_PIXELS. On failure the picture is empty. */
bool picture_make(picture *p, int64_t width, int64_t height, picture_colour colour, report *r);
void picture_free(picture *p);

void picture_fill(picture *p, picture_box box, picture_colour colour);
void picture_outline(picture *p, picture_box box, int thickness, picture_colour colour);
void picture_paste(picture *onto, int x, int y, const picture *p);
picture_colour picture_mix(picture_colour a, picture_colour b, double share_of_b);

/* Scales a photo (VIT_PIXEL_RGB8) until its longer side is `side`. Each new pixel is the mean of
 * the old pixels that it covers, or the nearest old pixel. */
bool picture_of_photo(picture *p, const vit_image *photo, int side, report *r);

/* Draws one line by stb_easy_font (Sean Barrett, public domain), which has only ASCII; any other
 * character becomes one '?'. x, y is the top left corner. */
void picture_text(picture *p, int x, int y, picture_colour colour, const char *text);
int picture_text_width(const char *text);

/* Writes a PNG by stb_image_write (Sean Barrett, public domain). The file appears whole or not at
 * all. "-" is standard output. */
bool picture_save(const picture *p, const char *path, report *r);

/* The colour maps of matplotlib (Smith, van der Walt, Firing; CC0). Colours are interpolated
 * linearly between ten colours of a map. */
typedef enum colour_map { COLOUR_VIRIDIS, COLOUR_INFERNO } colour_map;

/* Returns the colour of `value`, clamped to 0 .. 1; NaN is grey. */
picture_colour colour_of(colour_map map, double value);

/* === Grids === */

/* Values on grids are drawn as small pictures. */

/* Draws the centre of figure 7 of the ViT paper (arXiv 2010.11929): each cell of a grid holds a
 * small copy of the grid, coloured by the values of that cell with all cells. values is [n, n], n =
 * rows * columns; range[0] has the first colour, and range[1] has the last. The picture is about
 * `side` pixels wide, or wider if each value would otherwise have less than a pixel. */
bool grids_draw(picture *p, const float *values, vit_grid grid, const double range[2], int side,
                report *r);

/* Draws a filter [chans, size, size] of 1 or 3 channels, grey or in colours, at most `side` pixels
 * wide. The least value becomes black, and the largest value becomes white. */
bool grids_draw_filter(picture *p, const float *filter, int chans, int size, int side, report *r);

/* Finds the least and the largest of the finite values. If there are none, both are 0, and the
 * result is false. */
bool grids_range(const float *values, size_t count, double range[2]);

/* Maps `value` from `range` to 0 .. 1; returns 0.5 if the range is empty. */
double grids_share(double value, const double range[2]);

/* === Patches over a photo === */

/* A photo with a colour painted over each patch. */

typedef struct view {
    picture photo; /* the photo, scaled: its longer side has the requested length */
    crop place;
} view;

/* Makes a view of a photo. The photo may be freed afterwards. On failure the view is empty. */
bool view_make(view *v, const vit_image *photo, const vit_config *config, int side, report *r);
void view_free(view *v);

/* Draws the photo under one colour for each patch, [rows * columns], with this opacity (0 .. 1).
 * The area outside the model's input is dim, and a line surrounds the input. If patches is NULL,
 * only the photo is drawn. The caller owns the picture. */
bool view_paint(const view *v, const picture_colour *patches, double opacity, picture *painted,
                report *r);

/* Draws a frame around a patch. */
void view_mark(const view *v, picture *painted, int patch);

/* === Contact sheets === */

/* A contact sheet has pictures in rows and columns, with captions below.
 *
 *     sheet s = { 0 };
 *     good = sheet_add_photo(&s, "cat.jpg", decoder, 160, "0.93\ncat.jpg", &r) && ... &&
 *            sheet_draw(&s, 6, &p, &r) && picture_save(&p, "out.png", &r);
 */

typedef struct sheet_cell {
    picture shown;
    char *caption; /* malloc'ed; lines end with '\n', and are cut to the width */
} sheet_cell;

/* Zero the sheet before the first picture is added. */
typedef struct sheet {
    sheet_cell *cells;
    int count;
    size_t capacity; /* private */
} sheet;

/* Takes over the picture, even on failure, and copies the caption. */
bool sheet_add(sheet *s, picture *shown, const char *caption, report *r);

/* Decodes a photo, with `side` as its longer side. An unreadable photo becomes an empty grey square
 * whose caption gives the reason. Returns false if memory is exhausted. */
bool sheet_add_photo(sheet *s, const char *path, photo_decoder *decoder, int side,
                     const char *caption, report *r);

/* Arranges the pictures in rows of `columns`; if `columns` is 0, in about as many rows as columns.
 * Each column is as wide as its contents, and each row is as high as its contents. The caller owns
 * the result. */
bool sheet_draw(const sheet *s, int columns, picture *drawn, report *r);
void sheet_free(sheet *s);

#endif
