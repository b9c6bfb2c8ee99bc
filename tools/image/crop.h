/* crop.h - finds the places of patches on a photo: the part that vit_preprocess cuts out, and the
 * grid on that part.
 */
#ifndef CROP_H
#define CROP_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Pixel (x, y) of the input shows the place (x + left) / across, (y + top) / down of the photo. */
typedef struct crop {
    int photo_width, photo_height;
    double across, down;      /* pixels of the input per pixel of the photo */
    double left, top;         /* place of the input in the resized photo; negative if padded */
    int width, height;        /* size of the input */
    int covered_x, covered_y; /* numbers of input pixels that patches cover, from the top left */
    int rows, columns;        /* numbers of patches */
    int step;                 /* distance from one patch to the next, in pixels of the input */
    double margin;            /* half of the overlap of two neighbouring patches */
} crop;

/* Finds the crop for a photo of width x height pixels. Returns false if the model's patches are not
 * places on a photo, because patch_cut is not VIT_CUT_SQUARES. */
bool crop_find(crop *c, const vit_config *config, int width, int height, report *r);

/* Returns the patch at a point of the photo, given in pixels from the top left corner, or -1 if no
 * patch is there. If patches overlap, returns the patch with the nearest centre. Patches are
 * numbered row by row. */
int crop_patch(const crop *c, double x, double y);

/* Finds the visible part of the photo, without padding: left, top, right, bottom in pixels of the
 * photo. */
void crop_seen(const crop *c, double seen[4]);

#endif
