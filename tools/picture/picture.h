/* picture.h - pictures to look at: RGB pixels, colours, text, PNG.
 *
 *     picture p;
 *     if (!picture_make(&p, 640, 480, PICTURE_WHITE, &r)) return false;
 *     picture_text(&p, 8, 8, PICTURE_BLACK, "hello");
 *     good = picture_save(&p, "out.png", &r);
 *     picture_free(&p);
 *
 * Whatever lies outside a picture is cut off.
 *
 * tools/picture owns pictures to look at: canvas, colour maps, text, contact sheets, PNG; it may
 * include base cli image.
 */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct picture {
    uint8_t *pixels;          /* [height, width, 3]: red, green, blue; malloc'ed */
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

/* Refuses more than PICTURE_MAX_PIXELS. Empty if it fails. */
bool picture_make(picture *p, int64_t width, int64_t height, picture_colour colour, report *r);
void picture_free(picture *p);

void picture_fill(picture *p, picture_box box, picture_colour colour);
void picture_outline(picture *p, picture_box box, int thickness, picture_colour colour);
void picture_paste(picture *onto, int x, int y, const picture *p);
picture_colour picture_mix(picture_colour a, picture_colour b, double share_of_b);

/* A photo (VIT_PIXEL_RGB8), its longer side scaled to `side`: each pixel is the mean of those that
 * it covers, or the nearest. */
bool picture_of_photo(picture *p, const vit_image *photo, int side, report *r);

/* One line, by stb_easy_font (Sean Barrett, public domain), which has ASCII alone: each other
 * character becomes one '?'. x, y: the top left corner. */
void picture_text(picture *p, int x, int y, picture_colour colour, const char *text);
int picture_text_width(const char *text);

/* Writes a PNG, by stb_image_write (Sean Barrett, public domain), whole or not at all; "-" is
 * standard output. */
bool picture_save(const picture *p, const char *path, report *r);

/* The maps of matplotlib (Smith, van der Walt, Firing; CC0), by linear interpolation between ten of
 * their colours. */
typedef enum colour_map { COLOUR_VIRIDIS, COLOUR_INFERNO } colour_map;

/* value: 0 .. 1, or it is moved there; NaN is grey. */
picture_colour colour_of(colour_map map, double value);

#endif
