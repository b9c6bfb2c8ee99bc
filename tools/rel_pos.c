#include "rel_pos.h"

#include <math.h>
#include <stdlib.h>

bool rel_pos_knows(vit_pos_resample how)
{
    return how == VIT_RESAMPLE_TIMM || how == VIT_RESAMPLE_TRANSFORMERS;
}

/* Between two numbers of an axis. */
typedef struct place {
    int left, right;
    double part;   /* of the right one */
} place;

/* The ratio q with which 1 + q + q q + ..., n terms, is `longest`, as far as the bounds let it. */
static double find_ratio(int n, int longest)
{
    double low = 1.01, high = 1.5, q = low;
    while (high - low > 1e-6) {
        q = (low + high) / 2;
        if ((1 - pow(q, n)) / (1 - q) > longest) high = q;
        else low = q;
    }
    return q;
}

/* at [2 n + 1]: where the old distances lie among the new ones, which end at `longest`. */
static void put_distances(int n, int longest, float *at)
{
    const double q = find_ratio(n, longest);
    double distance = 0;
    int i;
    at[n] = 0;
    for (i = 1; i <= n; i++) {
        distance += pow(q, i - 1);
        at[n + i] = (float)distance;
        at[n - i] = -at[n + i];
    }
}

/* What lies beyond the ends is as at the ends. */
static place find_place(const float *at, int count, float x)
{
    place p = { 0, 0, 0 };
    while (p.right < count - 1 && at[p.right] < x) p.right++;
    p.left = p.right;
    if (p.right == 0 || at[p.right] <= x) return p;
    p.left--;
    p.part = ((double)x - (double)at[p.left]) / ((double)at[p.right] - (double)at[p.left]);
    return p;
}

/* places [2 new_side - 1], in a row of 2 side - 1; at: room for these. */
static void put_places(int side, int new_side, float *at, place *places)
{
    int i;
    put_distances(side - 1, new_side - 1, at);
    for (i = 0; i < 2 * new_side - 1; i++)
        places[i] = find_place(at, 2 * side - 1, (float)(i - (new_side - 1)));
}

static double number_at(const float *row, const place *x)
{
    return (1 - x->part) * (double)row[x->left] + x->part * (double)row[x->right];
}

static void resample(const float *from, int width, const place *rows, int row_count,
                     const place *columns, int column_count, float *to)
{
    int y, x;
    for (y = 0; y < row_count; y++) {
        const float *top = from + rows[y].left * width, *bottom = from + rows[y].right * width;
        for (x = 0; x < column_count; x++)
            *to++ = (float)((1 - rows[y].part) * number_at(top, &columns[x]) +
                            rows[y].part * number_at(bottom, &columns[x]));
    }
}

static bool resample_distances(const float *from, int height, int width, float *to,
                               int new_height, int new_width)
{
    const int rows = 2 * new_height - 1, columns = 2 * new_width - 1;
    place *places = malloc((size_t)(rows + columns) * sizeof *places);
    float *at = malloc((size_t)(2 * (height > width ? height : width)) * sizeof *at);
    const bool good = places && at;
    if (good) {
        put_places(height, new_height, at, places);
        put_places(width, new_width, at, places + rows);
        resample(from, 2 * width - 1, places, rows, places + rows, columns, to);
    }
    free(places);
    free(at);
    return good;
}

bool rel_pos_resample(vit_pos_resample how, const float *from, int height, int width, float *to,
                      int new_height, int new_width)
{
    if (how == VIT_RESAMPLE_TIMM)
        return resample_distances(from, height, width, to, new_height, new_width);
    vit_resample_positions(VIT_RESAMPLE_FLEXIVIT, 1, from,
                           (vit_grid){ 2 * height - 1, 2 * width - 1 }, to,
                           (vit_grid){ 2 * new_height - 1, 2 * new_width - 1 });
    return true;
}
