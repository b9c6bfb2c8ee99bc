/* crop.h - the places of patches on a photo: the part that vit_preprocess cuts out, and the grid on
 * that part.
 */
#ifndef CROP_H
#define CROP_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* The input's pixel (x, y) shows the photo around (x + left) / across, (y + top) / down. */
typedef struct crop {
    int photo_width, photo_height;
    double across, down;      /* the input's pixels per pixel of the photo */
    double left, top;         /* place of the input in the resized photo; below 0 if it is padded */
    int width, height;        /* of the input */
    int covered_x, covered_y; /* pixels of the input, from the top left, that patches cover */
    int rows, columns;        /* of patches */
    int step;                 /* from one patch to the next, in the input's pixels */
    double margin;            /* half of a patch's overlap with the next */
} crop;

/* For a photo of width x height pixels. False if the model's patches are not places on a photo:
 * patch_cut is not VIT_CUT_SQUARES. */
bool crop_find(crop *c, const vit_config *config, int width, int height, report *r);

/* The number, row by row, of the patch at a point of the photo, in pixels from its top left corner.
 * If patches overlap, the one with the nearest centre; -1 if no patch is there. */
int crop_patch(const crop *c, double x, double y);

/* The visible part of the photo, in its pixels, without padding: left, top, right, bottom. */
void crop_seen(const crop *c, double seen[4]);

#endif
