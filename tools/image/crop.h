/* crop.h - finds where the patches of a model lie on a photo. vit_preprocess resizes a photo and
 * cuts out a part, the model's input; the grid of patches divides the input.
 */
#ifndef CROP_H
#define CROP_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Relates the pixels of the input to those of the photo. Pixel (x, y) of the input shows the point
 * ((x + left) / across, (y + top) / down) of the photo. */
typedef struct crop {
    int photo_width, photo_height;
    double across, down; /* pixels of the input per pixel of the photo */
    /* top left of the input in the resized photo, in pixels; negative if the photo is padded */
    double left, top;
    int width, height; /* size of the input in pixels */
    /* width and height of the part of the input that patches cover; this part begins at the top
     * left */
    int covered_x, covered_y;
    int rows, columns; /* numbers of patches from top to bottom and from left to right */
    int step;          /* distance from one patch to the next, in pixels of the input */
    /* half of the overlap of two neighbouring patches, in pixels of the input */
    double margin;
} crop;

/* Finds the crop for a photo of width x height pixels. Returns false if patch_cut is not
 * VIT_CUT_SQUARES, because a patch then does not correspond to one area of the photo. */
bool crop_find(crop *c, const vit_config *config, int width, int height, report *r);

/* Returns the number of the patch at a point of the photo, or -1 if no patch is there. x and y are
 * in pixels from the top left corner. If patches overlap, returns the patch with the nearest
 * centre. Patches are numbered row by row. */
int crop_patch(const crop *c, double x, double y);

/* Finds the part of the photo, excluding padding, that the model's input shows. seen receives its
 * left, top, right and bottom edge in pixels of the photo. */
void crop_seen(const crop *c, double seen[4]);

#endif
