#include "model/rope.h"

#include <math.h>
#include <stdbool.h>

static const double two_pi = 6.283185307179586476925;

vit_rope rope_layout(rope_type type)
{
    if (type == ROPE_NONE) return VIT_ROPE_NONE;
    return type == ROPE_DINOV3 ? VIT_ROPE_HALVES : VIT_ROPE_PAIRS;
}

static void put_frequency(const rope_options *options, int axis, double value, vit_frequency *to)
{
    const bool is_column = (axis == 0) == (options->indexing == ROPE_XY);
    float *parts = is_column ? to->column : to->row;
    int i;
    for (i = 0; i < 3; i++) {
        parts[i] = (float)value;
        value -= (double)parts[i];
    }
}

/* Half of the pairs turn with the first coordinate, half with the second. */
static vit_frequency frequency_of_axis(const rope_grid *grid, int64_t pair, double value)
{
    vit_frequency frequency = { { 0 }, { 0 } };
    put_frequency(&grid->options, pair >= grid->pairs / 2, value, &frequency);
    return frequency;
}

vit_frequency rope_frequency(const rope_grid *grid, int64_t pair)
{
    const int quarter = grid->pairs / 2;
    const double turns = grid->options.type == ROPE_DINOV3 ? two_pi : 1;
    const double exponent = (double)(pair % quarter) / quarter;
    return frequency_of_axis(grid, pair, turns / pow(grid->options.temperature, exponent));
}

vit_frequency rope_frequency_of_period(const rope_grid *grid, int64_t pair, const float *periods)
{
    return frequency_of_axis(grid, pair, two_pi / (double)periods[pair % (grid->pairs / 2)]);
}

vit_frequency rope_frequency_mixed(const rope_grid *grid, float first, float second)
{
    vit_frequency frequency;
    put_frequency(&grid->options, 0, (double)first, &frequency);
    put_frequency(&grid->options, 1, (double)second, &frequency);
    return frequency;
}

vit_rope_scale rope_scale(const rope_options *options)
{
    const vit_rope_scale dinov3 = { 0.5f, 2, -1 };
    vit_rope_scale scale = { (float)options->offset, (float)options->reference, 0 };
    return options->type == ROPE_DINOV3 ? dinov3 : scale;
}
