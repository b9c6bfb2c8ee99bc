#include "picture/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set(picture *p, int x, int y, picture_colour colour)
{
    uint8_t *pixel = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
    pixel[0] = colour.red;
    pixel[1] = colour.green;
    pixel[2] = colour.blue;
}

bool picture_make(picture *p, int64_t width, int64_t height, picture_colour colour, report *r)
{
    memset(p, 0, sizeof *p);
    if (width < 1 || height < 1 || width > PICTURE_MAX_PIXELS / height)
        return report_fail(r, "the picture would be %lld x %lld pixels; the limit is %d in all",
                           (long long)width, (long long)height, PICTURE_MAX_PIXELS);
    p->pixels = malloc((size_t)(3 * width * height));
    if (!p->pixels) return report_no_memory(r);
    p->width = (int)width;
    p->height = (int)height;
    picture_fill(p, (picture_box){ 0, 0, p->width, p->height }, colour);
    return true;
}

void picture_free(picture *p)
{
    free(p->pixels);
    memset(p, 0, sizeof *p);
}

static int clamp(int value, int high)
{
    return value < 0 ? 0 : value > high ? high : value;
}

void picture_fill(picture *p, picture_box box, picture_colour colour)
{
    const int left = clamp(box.x, p->width), right = clamp(box.x + box.width, p->width);
    const int bottom = clamp(box.y + box.height, p->height);
    for (int y = clamp(box.y, p->height); y < bottom; y++) {
        for (int x = left; x < right; x++) set(p, x, y, colour);
    }
}

void picture_outline(picture *p, picture_box box, int thickness, picture_colour colour)
{
    const int right = box.x + box.width - thickness, bottom = box.y + box.height - thickness;
    picture_fill(p, (picture_box){ box.x, box.y, box.width, thickness }, colour);
    picture_fill(p, (picture_box){ box.x, bottom, box.width, thickness }, colour);
    picture_fill(p, (picture_box){ box.x, box.y, thickness, box.height }, colour);
    picture_fill(p, (picture_box){ right, box.y, thickness, box.height }, colour);
}

void picture_paste(picture *onto, int x, int y, const picture *p)
{
    const int left = clamp(-x, p->width), right = clamp(onto->width - x, p->width);
    const int bottom = clamp(onto->height - y, p->height);
    for (int row = clamp(-y, p->height); row < bottom && left < right; row++) {
        memcpy(onto->pixels + 3 * ((size_t)(y + row) * (size_t)onto->width + (size_t)(x + left)),
               p->pixels + 3 * ((size_t)row * (size_t)p->width + (size_t)left),
               3 * (size_t)(right - left));
    }
}

static uint8_t mix(uint8_t a, uint8_t b, double share)
{
    return (uint8_t)((double)a + ((double)b - (double)a) * share + 0.5);
}

picture_colour picture_mix(picture_colour a, picture_colour b, double share_of_b)
{
    return (picture_colour){ mix(a.red, b.red, share_of_b), mix(a.green, b.green, share_of_b),
                             mix(a.blue, b.blue, share_of_b) };
}

/* === Photos === */

/* The pixels of a photo that pixel `at` of `count` covers along one side: at least one. */
typedef struct span {
    int begin, end;
} span;

static span find_span(int at, int count, int length)
{
    span s;
    s.begin = (int)((int64_t)at * length / count);
    s.end = (int)((int64_t)(at + 1) * length / count);
    if (s.end == s.begin) s.end++;
    return s;
}

static const uint8_t *row_of(const vit_image *photo, int y)
{
    return photo->pixels + (size_t)y * (photo->stride ? (size_t)photo->stride
                                                      : 3 * (size_t)photo->width);
}

static picture_colour mean_of(const vit_image *photo, span across, span down)
{
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

/* A side of a photo whose longer side becomes `side`. */
static int64_t scaled(int length, int longer, int side)
{
    const int64_t result = ((int64_t)length * side + longer / 2) / longer;
    return result < 1 ? 1 : result;
}

bool picture_of_photo(picture *p, const vit_image *photo, int side, report *r)
{
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

picture_colour colour_of(colour_map map, double value)
{
    enum { COLOURS = 10 };
    static const picture_colour maps[][COLOURS] = {
        { { 68, 1, 84 }, { 72, 40, 120 }, { 62, 73, 137 }, { 49, 104, 142 }, { 38, 130, 142 },
          { 31, 158, 137 }, { 53, 183, 121 }, { 110, 206, 88 }, { 181, 222, 43 },
          { 253, 231, 37 } },
        { { 0, 0, 4 }, { 27, 12, 65 }, { 74, 12, 107 }, { 120, 28, 109 }, { 165, 44, 96 },
          { 207, 68, 70 }, { 237, 105, 37 }, { 251, 155, 6 }, { 247, 209, 61 }, { 252, 255, 164 } },
    };
    const double at = (value < 0 ? 0 : value > 1 ? 1 : value) * (COLOURS - 1);
    int below;
    if (isnan(value)) return (picture_colour){ 128, 128, 128 };
    below = at < COLOURS - 2 ? (int)at : COLOURS - 2;
    return picture_mix(maps[map][below], maps[map][below + 1], at - below);
}
