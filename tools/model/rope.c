#include "model/rope.h"

#include <math.h>
#include <stdbool.h>

static const double two_pi = 6.283185307179586476925;

vit_rope rope_layout(rope_type type)
{
    if (type == ROPE_NONE) return VIT_ROPE_NONE;
    return type == ROPE_DINOV3 ? VIT_ROPE_HALVES : VIT_ROPE_PAIRS;
}

/* A patch's first or second coordinate. */
static double coordinate(const rope_grid *grid, int64_t patch, int axis)
{
    const rope_options *o = &grid->options;
    const bool is_column = (axis == 0) == (o->indexing == ROPE_XY);
    const int size = is_column ? grid->width : grid->height;
    const double place = (double)(is_column ? patch % grid->width : patch / grid->width);
    if (o->type == ROPE_DINOV3) return 2 * ((place + 0.5) / size) - 1;
    return o->reference > 0 ? (place + o->offset) / size * o->reference : place + o->offset;
}

double rope_angle(const rope_grid *grid, int64_t patch, int64_t pair)
{
    const int quarter = grid->pairs / 2;
    const double turns = grid->options.type == ROPE_DINOV3 ? two_pi : 1;
    const double exponent = (double)(pair % quarter) / quarter;
    return turns * coordinate(grid, patch, pair >= quarter) /
           pow(grid->options.temperature, exponent);
}

double rope_angle_of_period(const rope_grid *grid, int64_t patch, int64_t pair,
                            const float *periods)
{
    const int quarter = grid->pairs / 2;
    return two_pi * coordinate(grid, patch, pair >= quarter) / (double)periods[pair % quarter];
}

double rope_angle_mixed(const rope_grid *grid, int64_t patch, float first, float second)
{
    return coordinate(grid, patch, 0) * (double)first + coordinate(grid, patch, 1) * (double)second;
}
