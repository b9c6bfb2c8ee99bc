/* picture.h - draws pictures: RGB pixels, colours, text, PNG.
 *
 *     picture p;
 *     if (!picture_make(&p, 640, 480, PICTURE_WHITE, &r)) return false;
 *     picture_text(&p, 8, 8, PICTURE_BLACK, "hello");
 *     good = picture_save(&p, "out.png", &r);
 *     picture_free(&p);
 *
 * Parts of a drawing that lie outside the picture are cut off.
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
    uint8_t *pixels; /* [height, width, 3]: red, green and blue of each pixel; malloc'ed */
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

/* Makes a picture that is filled with one colour. Fails if it would have more than
 * PICTURE_MAX_PIXELS pixels. On failure the picture is empty. */
bool picture_make(picture *p, int64_t width, int64_t height, picture_colour colour, report *r);
void picture_free(picture *p);

void picture_fill(picture *p, picture_box box, picture_colour colour);
void picture_outline(picture *p, picture_box box, int thickness, picture_colour colour);
void picture_paste(picture *onto, int x, int y, const picture *p);
picture_colour picture_mix(picture_colour a, picture_colour b, double share_of_b);

/* Scales a photo (VIT_PIXEL_RGB8) until its longer side is `side`. If the photo shrinks, each new
 * pixel is the mean of the old pixels that it covers; if the photo grows, each new pixel is the
 * nearest old pixel. */
bool picture_of_photo(picture *p, const vit_image *photo, int side, report *r);

/* Draws one line of text with stb_easy_font (Sean Barrett, public domain). The font has only ASCII
 * characters; any other character becomes one '?'. (x, y) is the top left corner of the text. */
void picture_text(picture *p, int x, int y, picture_colour colour, const char *text);
int picture_text_width(const char *text);

/* Writes a PNG file with stb_image_write (Sean Barrett, public domain). The file appears whole or
 * not at all. The path "-" is standard output. */
bool picture_save(const picture *p, const char *path, report *r);

/* The colour maps of matplotlib (Smith, van der Walt, Firing; CC0). Each map has ten colours, and
 * the colours between them are interpolated linearly. */
typedef enum colour_map { COLOUR_VIRIDIS, COLOUR_INFERNO } colour_map;

/* Returns the colour of `value` in a map. The value is clamped to 0 .. 1; the colour of NaN is
 * grey. */
picture_colour colour_of(colour_map map, double value);

/* === Grids === */

/* These functions draw small pictures of values that lie on a grid. */

/* Draws the centre of figure 7 of the ViT paper (arXiv 2010.11929): each cell of a grid contains a
 * small copy of the grid. The copy in cell i shows row i of values [n, n], where n = rows * columns
 * is the number of cells. The value range[0] has the first colour of COLOUR_VIRIDIS, and range[1]
 * has the last. The picture is about `side` pixels wide, or wider if each value would otherwise
 * have less than a pixel. */
bool grids_draw(picture *p, const float *values, vit_grid grid, const double range[2], int side,
                report *r);

/* Draws a filter [chans, size, size] of 1 or 3 channels, grey or in colours, at most max(side,
 * size) pixels wide. The smallest value becomes black, and the largest value becomes white. */
bool grids_draw_filter(picture *p, const float *filter, int chans, int size, int side, report *r);

/* Sets range[0] to the smallest value and range[1] to the largest, without NaNs. If all values are
 * NaN, both become 0, and the function returns false. */
bool grids_range(const float *values, size_t count, double range[2]);

/* Maps `value` linearly from range[0] .. range[1] to 0 .. 1. Returns 0.5 if the range is empty. */
double grids_share(double value, const double range[2]);

/* === Patches over a photo === */

/* A view is a photo and the positions of the model's patches on it. A colour can be painted over
 * each patch. */

typedef struct view {
    picture photo; /* the photo, scaled until its longer side has the requested length */
    crop place;
} view;

/* Makes a view of a photo whose longer side is `side` pixels. The photo may be freed afterwards. On
 * failure the view is empty. */
bool view_make(view *v, const vit_image *photo, const vit_config *config, int side, report *r);
void view_free(view *v);

/* Draws the photo, in grey, and paints the colours of patches [rows * columns] over it with an
 * opacity of 0 to 1. If `patches` is NULL, the photo keeps its own colours. The area outside all
 * patches becomes paler, and a line surrounds the model's input. The caller frees *painted. */
bool view_paint(const view *v, const picture_colour *patches, double opacity, picture *painted,
                report *r);

/* Draws a frame around a patch. */
void view_mark(const view *v, picture *painted, int patch);

/* === Contact sheets === */

/* A contact sheet shows pictures in rows and columns, each with a caption below it.
 *
 *     sheet s = { 0 };
 *     good = sheet_add_photo(&s, "cat.jpg", decoder, 160, "0.93\ncat.jpg", &r) && ... &&
 *            sheet_draw(&s, 6, &p, &r) && picture_save(&p, "out.png", &r);
 */

typedef struct sheet_cell {
    picture shown;
    /* text below the picture, malloc'ed; '\n' separates lines; in lines that are too wide, ".."
     * replaces the middle */
    char *caption;
} sheet_cell;

/* Zero the sheet before the first picture is added. */
typedef struct sheet {
    sheet_cell *cells;
    int count;
    size_t capacity; /* private */
} sheet;

/* Adds a picture to the sheet. The sheet then owns the picture, even if the call fails. The caption
 * is copied. */
bool sheet_add(sheet *s, picture *shown, const char *caption, report *r);

/* Decodes a photo, scales it until its longer side is `side` pixels, and adds it to the sheet. An
 * unreadable photo becomes a grey square with the same caption. Returns false if memory is
 * exhausted or `side` is too large. */
bool sheet_add_photo(sheet *s, const char *path, photo_decoder *decoder, int side,
                     const char *caption, report *r);

/* Draws all pictures of the sheet in `columns` columns. If `columns` is 0, chooses about as many
 * columns as rows. Each column is as wide as its widest picture, but at least 64 pixels; each row
 * is as high as its highest picture with the caption. The caller frees *drawn. */
bool sheet_draw(const sheet *s, int columns, picture *drawn, report *r);
void sheet_free(sheet *s);

#endif
