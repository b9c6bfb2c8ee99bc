#include "picture/view.h"

#include <math.h>
#include <string.h>

bool view_make(view *v, const vit_image *photo, const vit_config *config, int side, report *r)
{
    memset(v, 0, sizeof *v);
    return crop_find(&v->place, config, photo->width, photo->height, r) &&
           picture_of_photo(&v->photo, photo, side, r);
}

void view_free(view *v)
{
    picture_free(&v->photo);
}

/* The patch that a pixel of the view shows, or -1. */
static int patch_at(const view *v, int x, int y)
{
    return crop_patch(&v->place, (x + 0.5) * v->place.photo_width / v->photo.width,
                      (y + 0.5) * v->place.photo_height / v->photo.height);
}

static picture_colour grey_of(const uint8_t *pixel)
{
    const int luma = (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000;
    return (picture_colour){ (uint8_t)luma, (uint8_t)luma, (uint8_t)luma };
}

/* patch: -1 where there is none. */
static picture_colour paint(const uint8_t *pixel, const picture_colour *patches, int patch,
                            double opacity)
{
    const picture_colour shown = { pixel[0], pixel[1], pixel[2] };
    if (patch < 0) return picture_mix(shown, PICTURE_WHITE, 0.6);
    return patches ? picture_mix(grey_of(pixel), patches[patch], opacity) : shown;
}

/* What the model sees, in pixels of the view. */
static picture_box seen_box(const view *v)
{
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
                report *r)
{
    if (!picture_make(painted, v->photo.width, v->photo.height, PICTURE_BLACK, r)) return false;
    for (int y = 0; y < painted->height; y++) {
        for (int x = 0; x < painted->width; x++) {
            const int patch = patch_at(v, x, y);
            const uint8_t *pixel = v->photo.pixels + 3 * ((size_t)y * (size_t)painted->width +
                                                          (size_t)x);
            const picture_box dot = { x, y, 1, 1 };
            picture_fill(painted, dot, paint(pixel, patches, patch, opacity));
        }
    }
    picture_outline(painted, seen_box(v), 1, PICTURE_WHITE);
    return true;
}

void view_mark(const view *v, picture *painted, int patch)
{
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
    if (right < 0) return; /* smaller than a pixel */
    left--, top--, right++, bottom++;
    picture_outline(painted, (picture_box){ left, top, right - left + 1, bottom - top + 1 }, 2,
                    (picture_colour){ 255, 0, 0 });
}
