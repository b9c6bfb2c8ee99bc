/* grids.h - numbers on grids, as small pictures. */
#ifndef GRIDS_H
#define GRIDS_H

#include "picture/picture.h"

/* Figure 7 of the ViT paper (arXiv 2010.11929), centre: at each place of a grid stands a small copy
 * of the grid, coloured by the values of that place with all: values is [n, n] for n = rows *
 * columns, the range from the first to the last colour. About `side` pixels wide, or as
 * many as one pixel a value needs. */
bool grids_draw(picture *p, const float *values, vit_grid grid, const double range[2], int side,
                report *r);

/* A filter [chans, size, size] of 1 or 3 channels, grey or in colours, `side` pixels wide or a
 * little less; its least value becomes black, its largest white. */
bool grids_draw_filter(picture *p, const float *filter, int chans, int size, int side, report *r);

/* The least and the largest of the values that are numbers; 0 and 0, and false, if none is. */
bool grids_range(const float *values, size_t count, double range[2]);

/* value within range as 0 .. 1; 0.5 if the range is empty. */
double grids_share(double value, const double range[2]);

#endif
