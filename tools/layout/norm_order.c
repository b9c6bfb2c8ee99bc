#include "layout/norm_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layout/stacked.h"

enum { LEAST_WIDTH = 4, WIDEST = 8192, MOST_BLOCKS = 8 };

/* Norms that say nothing come out with less than one standard error. */
static const double least_errors = 2.5;

/* Of a block: both norms' weights, and the lengths of the columns of what may read them. */
typedef struct norm_order_reader {
    const layout_map *map;
    int64_t width, columns;
    double *norm1, *norm2, *before, *qkv, *fc1;   /* before: norm2 of the block before */
    float *row;
} norm_order_reader;

typedef struct correlations {
    double sum;
    int count;
} correlations;

static bool read_norm(const norm_order_reader *n, int block, const char *name, double *to,
                      bool *found, report *r)
{
    stacked norm;
    int64_t i;
    *found = *found && stacked_find(n->map, block, name, n->width, n->columns, &norm) &&
             norm.count == n->columns;
    if (!*found) return true;
    if (!stacked_read(n->map, &norm, 0, n->columns, n->row, r)) return false;
    for (i = 0; i < n->columns; i++) to[i] = fabs((double)n->row[i]);
    return true;
}

static bool read_columns(const norm_order_reader *n, int block, const char *name, double *to,
                         bool *found, report *r)
{
    stacked matrix;
    int64_t first, i;
    *found = *found && stacked_find(n->map, block, name, n->width, n->columns, &matrix);
    if (!*found) return true;
    for (i = 0; i < n->columns; i++) to[i] = 0;
    for (first = 0; first < matrix.count; first += n->columns) {
        if (!stacked_read(n->map, &matrix, first, n->columns, n->row, r)) return false;
        for (i = 0; i < n->columns; i++) to[i] += (double)n->row[i] * (double)n->row[i];
    }
    for (i = 0; i < n->columns; i++) to[i] = sqrt(to[i]);
    return true;
}

static void correlate(const double *x, const double *y, int64_t count, correlations *c)
{
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    int64_t i;
    for (i = 0; i < count; i++) {
        mean_x += x[i] / (double)count;
        mean_y += y[i] / (double)count;
    }
    for (i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    if (!(xx > 0) || !(yy > 0) || !isfinite(xx) || !isfinite(yy)) return;
    c->sum += xy / sqrt(xx * yy);
    c->count++;
}

static bool read_block(norm_order_reader *n, int block, bool *found, report *r)
{
    return read_norm(n, block, "norm1.weight", n->norm1, found, r) &&
           read_norm(n, block, "norm2.weight", n->norm2, found, r) &&
           (block == 0 || read_norm(n, block - 1, "norm2.weight", n->before, found, r)) &&
           read_columns(n, block, "attn.qkv.weight", n->qkv, found, r) &&
           read_columns(n, block, "mlp.fc1.weight", n->fc1, found, r);
}

static void decide(const correlations *pre, const correlations *post, int64_t columns,
                   norm_order_evidence *out)
{
    double error;
    if (pre->count == 0 || post->count == 0) return;
    error = sqrt((1.0 / pre->count + 1.0 / post->count) / (double)columns);
    out->pre = pre->sum / pre->count;
    out->post = post->sum / post->count;
    out->is_clear = fabs(out->pre - out->post) > least_errors * error;
}

static bool read_all(norm_order_reader *n, norm_order_evidence *out, report *r)
{
    const int depth = n->map->depth, blocks = depth < MOST_BLOCKS ? depth : MOST_BLOCKS;
    correlations pre = { 0, 0 }, post = { 0, 0 };
    int i;
    for (i = 0; i < blocks; i++) {
        const int block = (int)((int64_t)i * depth / blocks);
        bool found = true;
        if (!read_block(n, block, &found, r)) return false;
        if (!found) return true;
        correlate(n->norm1, n->qkv, n->columns, &pre);
        correlate(n->norm2, n->fc1, n->columns, &pre);
        correlate(n->norm1, n->fc1, n->columns, &post);
        if (block > 0) correlate(n->before, n->qkv, n->columns, &post);
    }
    decide(&pre, &post, n->columns, out);
    return true;
}

bool norm_order_read(const layout_map *map, int64_t width, norm_order_evidence *out, report *r)
{
    norm_order_reader n = { 0 };
    const size_t size = (size_t)map->embed_dim;
    bool good;
    memset(out, 0, sizeof *out);
    if (map->depth < 1 || map->embed_dim < LEAST_WIDTH || map->embed_dim > WIDEST) return true;
    n.map = map;
    n.width = width;
    n.columns = map->embed_dim;
    n.norm1 = malloc(5 * size * sizeof *n.norm1);
    n.row = malloc(size * sizeof *n.row);
    if (n.norm1) {
        n.norm2 = n.norm1 + size;
        n.before = n.norm2 + size;
        n.qkv = n.before + size;
        n.fc1 = n.qkv + size;
    }
    good = n.norm1 && n.row ? read_all(&n, out, r) : report_no_memory(r);
    free(n.norm1);
    free(n.row);
    return good;
}
