#include "model/positions.h"

#include <math.h>
#include <string.h>

/* === Rotary positions === */

static const double two_pi = 6.283185307179586476925;

vit_rope rope_layout(rope_type type) {
    if (type == ROPE_NONE) return VIT_ROPE_NONE;
    return type == ROPE_DINOV3 || type == ROPE_QWEN ? VIT_ROPE_HALVES : VIT_ROPE_PAIRS;
}

/* Stores a frequency as the sum of three floats, which together hold all digits of the double. */
static void put_frequency(const rope_options *options, int axis, double value, vit_rotation *to) {
    const bool is_column = (axis == 0) == (options->indexing == ROPE_XY);
    float *parts = is_column ? to->column : to->row;
    int i;
    for (i = 0; i < 3; i++) {
        parts[i] = (float)value;
        value -= (double)parts[i];
    }
}

/* Returns a rotation with frequencies of 0. The options decide its other members, which describe
 * how the coordinates of a patch are computed. */
static vit_rotation no_rotation(const rope_options *options) {
    const vit_rotation dinov3 = { { 0 }, { 0 }, 0.5f, 2, -1 };
    const vit_rotation other = {
        { 0 }, { 0 }, (float)options->offset, (float)options->reference, 0
    };
    return options->type == ROPE_DINOV3 ? dinov3 : other;
}

/* Returns the rotation of a pair with this frequency. The first half of the pairs rotate with the
 * first coordinate, and the second half with the second coordinate. */
static vit_rotation turn_with_axis(const rope_grid *grid, int64_t pair, double value) {
    vit_rotation rotation = no_rotation(&grid->options);
    put_frequency(&grid->options, pair >= grid->pairs / 2, value, &rotation);
    return rotation;
}

vit_rotation rope_rotation(const rope_grid *grid, int64_t pair) {
    const int quarter = grid->pairs / 2;
    const double turns = grid->options.type == ROPE_DINOV3 ? two_pi : 1;
    const double exponent = (double)(pair % quarter) / quarter;
    return turn_with_axis(grid, pair, turns / pow(grid->options.temperature, exponent));
}

vit_rotation rope_rotation_of_period(const rope_grid *grid, int64_t pair, const float *periods) {
    return turn_with_axis(grid, pair, two_pi / (double)periods[pair % (grid->pairs / 2)]);
}

vit_rotation rope_rotation_mixed(const rope_grid *grid, float first, float second) {
    vit_rotation rotation = no_rotation(&grid->options);
    put_frequency(&grid->options, 0, (double)first, &rotation);
    put_frequency(&grid->options, 1, (double)second, &rotation);
    return rotation;
}

/* === Sines and cosines === */

/* Writes the sines and then the cosines of one coordinate at `count` frequencies. Frequency k is
 * 10000^(-k / last), so the first frequency is 1. */
static void put_waves(double place, int count, int last, float *to) {
    int k;
    for (k = 0; k < count; k++) {
        const double angle = place / pow(10000, (double)k / last);
        to[k] = (float)sin(angle);
        to[count + k] = (float)cos(angle);
    }
}

/* Writes [sin x, cos x, sin y, cos y] for each patch. The lowest frequency of SimpleViT is 1 /
 * 10000. The lowest frequency of MAE is higher. */
static void put_grid(int kind, const vit_config *c, float *to) {
    const int count = c->embed_dim / 4, last = kind == SINCOS_MAE ? count : count - 1;
    int i;
    for (i = 0; i < c->num_patches; i++, to += c->embed_dim) {
        put_waves(i % c->grid_width, count, last, to);
        put_waves(i / c->grid_width, count, last, to + 2 * count);
    }
}

/* Returns the exponent of a column for positions along the sequence: column k of n has the
 * frequency 10000^(-exponent / n). */
static int line_exponent(int kind, int k, int n) {
    switch (kind) {
    case SINCOS_1D_HALVES: return k % (n / 2) * 2;
    case SINCOS_1D_COLUMN: return k;
    case SINCOS_1D_DOUBLE: return 2 * k;
    case SINCOS_1D_PLAIN: return 0;
    default: return k - k % 2;
    }
}

static void put_line(int kind, const vit_config *c, int rows, float *to) {
    const int n = c->embed_dim;
    int row, k;
    for (row = 0; row < rows; row++, to += n)
        for (k = 0; k < n; k++) {
            const double angle = row / pow(10000, (double)line_exponent(kind, k, n) / n);
            const bool is_sine = kind == SINCOS_1D_HALVES ? k < n / 2 : k % 2 == 0;
            to[k] = (float)(is_sine ? sin(angle) : cos(angle));
        }
}

bool sincos_fits(int kind, int embed_dim) {
    if (kind < SINCOS_1D) return embed_dim % 4 == 0 && embed_dim >= 8;
    return kind != SINCOS_1D_HALVES || embed_dim % 2 == 0;
}

void sincos_positions(int kind, const vit_config *c, float *to) {
    const int prefix = c->positions == VIT_POS_ALL ? c->num_prefix_tokens : 0;
    const size_t head = (size_t)prefix * (size_t)c->embed_dim;
    if (kind >= SINCOS_1D) {
        put_line(kind, c, prefix + c->num_patches, to);
        return;
    }
    memset(to, 0, head * sizeof *to);
    put_grid(kind, c, to + head);
}
