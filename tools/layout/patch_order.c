#include "layout/patch_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/choices.h"

enum { MIN_STANDARD_ERRORS = 6, MAX_ROWS = 4096, MAX_DEPTH = 1 << 20 };

/* A patch as it is flattened: how far apart neighbours are. */
typedef struct flat_patch {
    int64_t chans, side;
    int64_t across, down, plane;   /* steps to the next column, row and channel */
} flat_patch;

static flat_patch flatten(int order, int64_t chans, int64_t side)
{
    flat_patch patch = { chans, side, 1, side, side * side };
    if (order == PATCH_ORDER_HWC) {
        patch.across = chans;
        patch.down = side * chans;
        patch.plane = 1;
    }
    return patch;
}

/* Sum of the products of neighbours along one step; *count grows by their number. */
static double sum_neighbours(const float *row, const flat_patch *patch, int64_t step,
                             int64_t other, int64_t *count)
{
    double sum = 0;
    int64_t c, i, j;
    for (c = 0; c < patch->chans; c++)
        for (i = 0; i < patch->side; i++)
            for (j = 0; j + 1 < patch->side; j++) {
                const float *at = row + c * patch->plane + i * other + j * step;
                sum += (double)at[0] * (double)at[step];
            }
    *count += patch->chans * patch->side * (patch->side - 1);
    return sum;
}

/* Products of neighbours, and of values with themselves, over all rows. */
typedef struct smoothness {
    int64_t chans, side;           /* of the patches */
    double products[2], squares;   /* in each order */
    int64_t count;
} smoothness;

static void add_row(smoothness *s, const float *row)
{
    const int64_t count = s->chans * s->side * s->side;
    int64_t i, pairs = 0;
    int order;
    for (order = 0; order < 2; order++) {
        const flat_patch patch = flatten(order, s->chans, s->side);
        s->products[order] += sum_neighbours(row, &patch, patch.across, patch.down, &pairs) +
                              sum_neighbours(row, &patch, patch.down, patch.across, &pairs);
    }
    s->count += pairs / 2;
    for (i = 0; i < count; i++) s->squares += (double)row[i] * (double)row[i];
}

/* Rows of the weight, one filter after the other, whichever way it is stored. */
static bool add_rows(const layout_map *map, const checkpoint_tensor_info *view,
                     bool rows_last, smoothness *s, report *r)
{
    checkpoint_tensor_info row = *view;
    const int64_t rows = view->dims[rows_last], depth = view->dims[!rows_last];
    float *values = malloc((size_t)depth * sizeof *values);
    bool good = values ? true : report_no_memory(r);
    int64_t i;
    row.ndim = 1;
    row.dims[0] = row.count = depth;
    row.strides[0] = view->strides[!rows_last];
    for (i = 0; good && i < rows && i < MAX_ROWS; i++) {
        row.storage_offset = view->storage_offset + i * view->strides[rows_last];
        good = checkpoint_read(map->checkpoint, &row, 0, depth, values, r);
        if (good) add_row(s, values);
    }
    free(values);
    return good;
}

/* The difference of the two means against what chance gives: 1 / sqrt(pairs). */
static void decide(const smoothness *s, int64_t values, patch_order_evidence *evidence)
{
    const double variance = s->squares / (double)values;
    double mean[2], difference;
    if (!(variance > 0) || s->count == 0) return;
    mean[0] = s->products[0] / (double)s->count / variance;
    mean[1] = s->products[1] / (double)s->count / variance;
    evidence->order = mean[1] > mean[0] ? PATCH_ORDER_HWC : PATCH_ORDER_CHW;
    evidence->best = mean[evidence->order];
    evidence->next = mean[1 - evidence->order];
    difference = (evidence->best - evidence->next) * sqrt((double)s->count / 2);
    evidence->found = evidence->best > 0 && difference > MIN_STANDARD_ERRORS;
}

bool patch_order_read(const layout_map *map, int64_t chans, patch_order_evidence *evidence,
                      report *r)
{
    smoothness s = { 0, 0, { 0, 0 }, 0, 0 };
    layout_part part;
    const char *axes;
    int64_t depth, rows;
    bool rows_last;
    int side;
    memset(evidence, 0, sizeof *evidence);
    if (!layout_peek(map, "patch_embed.proj.weight", 0, &part, &axes)) return true;
    if (part.view.ndim != 2 || !checkpoint_is_float(part.view.dtype)) return true;
    rows_last = axes[0] == '(';
    depth = part.view.dims[!rows_last];
    rows = part.view.dims[rows_last];
    if (chans == 0) chans = depth % 3 == 0 && choices_is_square(depth / 3, &side) ? 3 : 1;
    if (chans < 1 || depth % chans || !choices_is_square(depth / chans, &side)) return true;
    if (depth > MAX_DEPTH) return true;
    if (chans == 1 || side == 1) {
        evidence->found = true;
        return true;
    }
    s.chans = chans;
    s.side = side;
    if (!add_rows(map, &part.view, rows_last, &s, r)) return false;
    decide(&s, (rows < MAX_ROWS ? rows : MAX_ROWS) * depth, evidence);
    return true;
}
