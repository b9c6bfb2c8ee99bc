#include "model/rope.h"

#include <math.h>
#include <stdbool.h>

static const double two_pi = 6.283185307179586476925;

vit_rope rope_layout(rope_type type)
{
    if (type == ROPE_NONE) return VIT_ROPE_NONE;
    return type == ROPE_DINOV3 ? VIT_ROPE_HALVES : VIT_ROPE_PAIRS;
}

/* In three floats, which have all digits of a double. */
static void put_frequency(const rope_options *options, int axis, double value, vit_rotation *to)
{
    const bool is_column = (axis == 0) == (options->indexing == ROPE_XY);
    float *parts = is_column ? to->column : to->row;
    int i;
    for (i = 0; i < 3; i++) {
        parts[i] = (float)value;
        value -= (double)parts[i];
    }
}

/* Coordinates as the options say, without a frequency. */
static vit_rotation no_rotation(const rope_options *options)
{
    const vit_rotation dinov3 = { { 0 }, { 0 }, 0.5f, 2, -1 };
    const vit_rotation other = { { 0 }, { 0 }, (float)options->offset, (float)options->reference,
                                 0 };
    return options->type == ROPE_DINOV3 ? dinov3 : other;
}

/* Half of the pairs turn with the first coordinate, half with the second. */
static vit_rotation turn_with_axis(const rope_grid *grid, int64_t pair, double value)
{
    vit_rotation rotation = no_rotation(&grid->options);
    put_frequency(&grid->options, pair >= grid->pairs / 2, value, &rotation);
    return rotation;
}

vit_rotation rope_rotation(const rope_grid *grid, int64_t pair)
{
    const int quarter = grid->pairs / 2;
    const double turns = grid->options.type == ROPE_DINOV3 ? two_pi : 1;
    const double exponent = (double)(pair % quarter) / quarter;
    return turn_with_axis(grid, pair, turns / pow(grid->options.temperature, exponent));
}

vit_rotation rope_rotation_of_period(const rope_grid *grid, int64_t pair, const float *periods)
{
    return turn_with_axis(grid, pair, two_pi / (double)periods[pair % (grid->pairs / 2)]);
}

vit_rotation rope_rotation_mixed(const rope_grid *grid, float first, float second)
{
    vit_rotation rotation = no_rotation(&grid->options);
    put_frequency(&grid->options, 0, (double)first, &rotation);
    put_frequency(&grid->options, 1, (double)second, &rotation);
    return rotation;
}
