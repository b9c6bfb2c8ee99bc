#include "model/rel_pos.h"

#include <math.h>
#include <stdlib.h>

bool rel_pos_knows(vit_pos_resample how)
{
    return how == VIT_RESAMPLE_TIMM || how == VIT_RESAMPLE_TRANSFORMERS;
}

/* Between two values of an axis. */
typedef struct place {
    int left, right;
    double part;   /* of the right one */
} place;

/* The ratio q for which 1 + q + q^2 + ..., n terms, is `longest`: by bisection, within bounds. */
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

/* at [2 n + 1]: where the old distances are among the new ones, which end at `longest`. */
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

/* Beyond either end, the value at that end. */
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

/* For each new distance along a side, where it is among the old ones. */
typedef struct axis {
    int old_count, count;   /* distances: 2 side - 1 */
    place *places;          /* [count] */
} axis;

/* False: out of memory. */
static bool make_axis(int side, int new_side, axis *a)
{
    float *at = malloc((size_t)(2 * side) * sizeof *at);
    bool good;
    int i;
    a->old_count = 2 * side - 1;
    a->count = 2 * new_side - 1;
    a->places = malloc((size_t)a->count * sizeof *a->places);
    good = at && a->places;
    if (good) {
        put_distances(side - 1, new_side - 1, at);
        for (i = 0; i < a->count; i++)
            a->places[i] = find_place(at, a->old_count, (float)(i - (new_side - 1)));
    }
    free(at);
    return good;
}

static double value_at(const float *row, const place *x)
{
    return (1 - x->part) * (double)row[x->left] + x->part * (double)row[x->right];
}

static void resample(const float *from, const axis *rows, const axis *columns, float *to)
{
    int y, x;
    for (y = 0; y < rows->count; y++) {
        const place *p = &rows->places[y];
        const float *top = from + p->left * columns->old_count;
        const float *bottom = from + p->right * columns->old_count;
        for (x = 0; x < columns->count; x++)
            *to++ = (float)((1 - p->part) * value_at(top, &columns->places[x]) +
                            p->part * value_at(bottom, &columns->places[x]));
    }
}

static bool resample_distances(const float *from, vit_grid grid, float *to,
                               vit_grid new_grid)
{
    axis rows = { 0, 0, NULL }, columns = { 0, 0, NULL };
    const bool good = make_axis(grid.height, new_grid.height, &rows) &&
                      make_axis(grid.width, new_grid.width, &columns);
    if (good) resample(from, &rows, &columns, to);
    free(rows.places);
    free(columns.places);
    return good;
}

bool rel_pos_resample(vit_pos_resample how, const float *from, vit_grid grid, float *to,
                      vit_grid new_grid)
{
    if (how == VIT_RESAMPLE_TIMM) return resample_distances(from, grid, to, new_grid);
    vit_resample_positions(VIT_RESAMPLE_FLEXIVIT, 1, from,
                           (vit_grid){ 2 * grid.height - 1, 2 * grid.width - 1 }, to,
                           (vit_grid){ 2 * new_grid.height - 1, 2 * new_grid.width - 1 });
    return true;
}
