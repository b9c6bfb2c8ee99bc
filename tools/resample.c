#include "resample.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* The weights of every output along one axis. */
typedef struct filter {
    int taps;        /* room for each output */
    int *first;      /* [outputs] */
    int *count;      /* [outputs] */
    float *weight;   /* [outputs, taps] */
} filter;

/* Keys' cubic with a = -0.5; support 2. */
static float cubic(float x)
{
    const float a = -0.5f;
    x = fabsf(x);
    if (x < 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    if (x < 2.0f) return (((x - 5.0f) * x + 8.0f) * x - 4.0f) * a;
    return 0.0f;
}

static void filter_free(filter *f)
{
    free(f->first);
    free(f->count);
    free(f->weight);
}

static void filter_output(filter *f, int i, int inputs, float scale)
{
    const float stretch = scale >= 1.0f ? scale : 1.0f;   /* antialias when shrinking */
    const float support = 2.0f * stretch, center = scale * ((float)i + 0.5f);
    float *weight = f->weight + (size_t)i * (size_t)f->taps, total = 0.0f;
    int low = (int)(center - support + 0.5f), high = (int)(center + support + 0.5f), j;
    if (low < 0) low = 0;
    if (high > inputs) high = inputs;
    f->first[i] = low;
    f->count[i] = high - low;
    for (j = 0; j < high - low; j++) {
        weight[j] = cubic(((float)(j + low) - center + 0.5f) * (1.0f / stretch));
        total += weight[j];
    }
    for (j = 0; j < high - low; j++) weight[j] /= total;
}

static bool filter_make(filter *f, int inputs, int outputs)
{
    const float scale = (float)inputs / (float)outputs;
    int i;
    f->taps = (int)ceilf(scale >= 1.0f ? 2.0f * scale : 2.0f) * 2 + 1;
    f->first = malloc((size_t)outputs * sizeof *f->first);
    f->count = malloc((size_t)outputs * sizeof *f->count);
    f->weight = malloc((size_t)outputs * (size_t)f->taps * sizeof *f->weight);
    if (!f->first || !f->count || !f->weight) {
        filter_free(f);
        return false;
    }
    for (i = 0; i < outputs; i++) filter_output(f, i, inputs, scale);
    return true;
}

/* One output: a weighted sum of vectors [dim], which lie `stride` floats apart. */
static void weighted_sum(const filter *f, int i, const float *from, size_t stride, float *to,
                         size_t dim)
{
    const float *weight = f->weight + (size_t)i * (size_t)f->taps;
    size_t d;
    int j;
    from += (size_t)f->first[i] * stride;
    for (d = 0; d < dim; d++) to[d] = from[d] * weight[0];
    for (j = 1; j < f->count[i]; j++)
        for (d = 0; d < dim; d++) to[d] += from[(size_t)j * stride + d] * weight[j];
}

bool resample_positions(const float *from, int height, int width, float *to, int new_height,
                        int new_width, int dim)
{
    const size_t depth = (size_t)dim, from_row = (size_t)width * depth;
    const size_t to_row = (size_t)new_width * depth;
    float *middle = malloc((size_t)height * to_row * sizeof *middle); /* [height, new_width, dim] */
    filter across, down;
    bool good = middle && filter_make(&across, width, new_width);
    int y, x;
    if (good && !filter_make(&down, height, new_height)) {
        filter_free(&across);
        good = false;
    }
    if (good) {
        for (y = 0; y < height; y++)
            for (x = 0; x < new_width; x++)
                weighted_sum(&across, x, from + (size_t)y * from_row, depth,
                             middle + (size_t)y * to_row + (size_t)x * depth, depth);
        for (y = 0; y < new_height; y++)
            weighted_sum(&down, y, middle, to_row, to + (size_t)y * to_row, to_row);
        filter_free(&across);
        filter_free(&down);
    }
    free(middle);
    return good;
}
