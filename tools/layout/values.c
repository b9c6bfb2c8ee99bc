#include "layout/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === Values === */

/* Reads values of one part. A part of zeros has no tensor, so zeros are written. */
static bool read_part(checkpoint *c, const layout_part *part, int64_t first, int64_t count,
                      float *to, report *r) {
    if (part->info) return checkpoint_read(c, &part->view, first, count, to, r);
    memset(to, 0, (size_t)count * sizeof *to);
    return true;
}

/* Reads values of stacked parts. The range may begin in one part and end in another part. */
static bool read_stack(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                       float *to, report *r) {
    int i;
    for (i = 0; i < item->part_count && count > 0; i++) {
        const int64_t total = item->parts[i].view.count;
        int64_t n = total - first < count ? total - first : count;
        if (n <= 0) {
            first -= total;
            continue;
        }
        if (!read_part(c, &item->parts[i], first, n, to, r)) return false;
        to += n;
        count -= n;
        first = 0;
    }
    return true;
}

/* Returns all values of a small source in malloc'ed memory. NULL after an error. */
static float *read_whole(checkpoint *c, const layout_part *part, report *r) {
    float *values = malloc((size_t)part->view.count * sizeof *values);
    if (!values) (void)report_no_memory(r);
    if (values && read_part(c, part, 0, part->view.count, values, r)) return values;
    free(values);
    return NULL;
}

/* Reads query, key and value row by row. Each head of keys or values is repeated for every head of
 * queries that uses it. */
static bool read_grouped(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                         float *to, report *r) {
    const int64_t third = item->tensor.dims[0] / 3, head = item->head_dim;
    const int64_t depth = item->parts[0].view.count / third;
    int64_t n;
    for (; count > 0; first += n, to += n, count -= n) {
        const int64_t at = first % depth, place = first / depth;
        const layout_part *part = &item->parts[place / third];
        const int64_t shared = third / (part->view.count / depth);
        const int64_t row = place % third / head / shared * head + place % head;
        n = depth - at < count ? depth - at : count;
        if (!read_part(c, part, row * depth + at, n, to, r)) return false;
    }
    return true;
}

/* Reads the sum or the product of all parts, element by element. */
static bool read_joined(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                        float *to, report *r) {
    const bool multiplies = item->method == LAYOUT_PRODUCT;
    float piece[1024];
    int64_t done, n, j;
    int i;
    if (!read_part(c, &item->parts[0], first, count, to, r)) return false;
    for (i = 1; i < item->part_count; i++) {
        for (done = 0; done < count; done += n) {
            n = count - done < 1024 ? count - done : 1024;
            if (!read_part(c, &item->parts[i], first + done, n, piece, r)) return false;
            for (j = 0; j < n; j++)
                to[done + j] = multiplies ? to[done + j] * piece[j] : to[done + j] + piece[j];
        }
    }
    return true;
}

/* Reads values of a grid of vectors. The vector at a row and a column is the sum of that row's
 * vector in parts[0] and that column's vector in parts[1]. */
static bool read_outer(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                       float *to, report *r) {
    const int64_t depth = item->tensor.dims[item->tensor.ndim - 1];
    const int64_t columns = item->parts[1].view.count / depth;
    float piece[1024];
    int64_t n, i;
    for (; count > 0; first += n, to += n, count -= n) {
        const int64_t at = first / depth, d = first % depth;
        n = depth - d < count ? depth - d : count;
        if (n > 1024) n = 1024;
        if (!read_part(c, &item->parts[0], at / columns * depth + d, n, to, r) ||
            !read_part(c, &item->parts[1], at % columns * depth + d, n, piece, r))
            return false;
        for (i = 0; i < n; i++) to[i] += piece[i];
    }
    return true;
}

/* Computes values of a linear layer applied to a constant vector, parts[0]. The product of two
 * floats is exact in a double (24 + 24 <= 53 bits), so only the sum is rounded to float. */
static bool read_linear(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                        float *to, report *r) {
    const int64_t depth = item->parts[0].view.count;
    float *x = malloc(2 * (size_t)depth * sizeof *x), *row = x ? x + depth : NULL, bias = 0;
    int64_t i, k;
    bool good = x != NULL;
    if (!good) (void)report_no_memory(r);
    good = good && read_part(c, &item->parts[0], 0, depth, x, r);
    for (i = 0; good && i < count; i++) {
        double sum = 0;
        good = read_part(c, &item->parts[1], (first + i) * depth, depth, row, r);
        if (item->part_count > 2)
            good = good && read_part(c, &item->parts[2], first + i, 1, &bias, r);
        for (k = 0; good && k < depth; k++) sum += (double)x[k] * (double)row[k];
        to[i] = (float)(sum + (double)bias);
    }
    free(x);
    return good;
}

/* === Pooling that is narrower than the tokens === */

/* vit.h pools at the full width of a token, so the heads and the output of the narrower pooling are
 * filled up with zeros. The norm after the pooling then computes mean and deviation over more
 * values. So the layer in front of the norm subtracts the mean and multiplies by the root of the
 * ratio of the widths, and the weight of the norm is divided by this root. The queries are
 * multiplied by the root too, because vit.h divides by the root of a wider head. */

/* `place` is the index of a value in vit.h's wider heads. Returns the index of this value in the
 * heads of the narrower pooling; -1 if the value is one of the added zeros. */
static int64_t narrow_place(const layout_item *item, int64_t wide, int64_t place) {
    const int64_t ours = wide / item->pool_heads, theirs = item->narrow / item->pool_heads;
    return place % ours < theirs ? place / ours * theirs + place % ours : -1;
}

/* Returns one value of the query, computed by the norm and the linear layer of the queries. */
static double narrow_query(const layout_item *item, float *const *parts, int64_t row) {
    const int64_t width = item->narrow;
    double mean = 0, variance = 0, sum = (double)parts[4][row];
    int64_t k;
    for (k = 0; k < width; k++) mean += (double)parts[0][k] / (double)width;
    for (k = 0; k < width; k++)
        variance += ((double)parts[0][k] - mean) * ((double)parts[0][k] - mean) / (double)width;
    for (k = 0; k < width; k++)
        sum += (double)parts[3][row * width + k] *
               (((double)parts[0][k] - mean) / sqrt(variance + item->norm_eps) *
                    (double)parts[1][k] +
                (double)parts[2][k]);
    return sum;
}

/* Subtracts the mean of each column of a matrix from the values of that column. */
static void narrow_centre(float *proj, int64_t rows, int64_t columns) {
    int64_t column, k;
    for (column = 0; column < columns; column++) {
        double mean = 0;
        for (k = 0; k < rows; k++) mean += (double)proj[k * columns + column] / (double)rows;
        for (k = 0; k < rows; k++)
            proj[k * columns + column] = (float)((double)proj[k * columns + column] - mean);
    }
}

static double narrow_value(const layout_item *item, float *const *parts, int64_t at) {
    const char *name = item->tensor.name;
    const int64_t columns = item->tensor.ndim > 1 ? item->dims[1] : 1, width = item->narrow;
    const int64_t row = at / columns, column = at % columns;
    int64_t wide, place;
    if (!strcmp(name, "head.weight"))
        return column < width ? (double)parts[0][row * width + column] : 0;
    wide = strstr(name, ".kv.") ? item->dims[0] / 2 : item->dims[0];
    place = narrow_place(item, wide, row % wide);
    if (strstr(name, ".kv."))
        return place < 0 ? 0 : (double)parts[row / wide][place * columns + column];
    if (!strcmp(name, "attn_pool.q"))
        return place < 0 ? 0
                         : narrow_query(item, parts, place) * sqrt((double)wide / (double)width);
    if (row >= width) return 0;
    if (!strncmp(name, "fc_norm.", 8))
        return (double)parts[0][row] *
               (strstr(name, "weight") ? sqrt((double)width / (double)wide) : 1);
    place = columns > 1 ? narrow_place(item, wide, column) : 0;
    if (place < 0) return 0;
    return (double)parts[0][columns > 1 ? row * width + place : row] *
           sqrt((double)wide / (double)width);
}

static bool read_narrow(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                        float *to, report *r) {
    float *parts[LAYOUT_MAX_PARTS] = { NULL };
    bool good = true;
    int64_t i;
    int part;
    for (part = 0; good && part < item->part_count; part++) {
        parts[part] = read_whole(c, &item->parts[part], r);
        good = parts[part] != NULL;
    }
    if (good && !strncmp(item->tensor.name, "attn_pool.proj.", 15))
        narrow_centre(parts[0], item->narrow, item->parts[0].view.count / item->narrow);
    for (i = 0; good && i < count; i++) to[i] = (float)narrow_value(item, parts, first + i);
    for (part = 0; part < LAYOUT_MAX_PARTS; part++) free(parts[part]);
    return good;
}

/* Reads the biases of relative positions, a row for each head. The library indexes a row by query
 * minus key, but vit.h indexes it by key minus query. This difference reverses both axes of the
 * distances, and therefore the whole row. Only the class token's three values at its end keep their
 * places. */
static bool read_rel_pos(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                         float *to, report *r) {
    const int64_t columns = item->parts[0].view.count / item->tensor.dims[0];
    float *row = malloc((size_t)columns * sizeof *row);
    int64_t read = -1, i;
    bool good = row != NULL;
    if (!good) (void)report_no_memory(r);
    for (i = first; good && i < first + count; i++) {
        const int64_t column = i % columns;
        if (i / columns != read) good = read_part(c, &item->parts[0], i - column, columns, row, r);
        read = i / columns;
        if (good) *to++ = row[column < columns - 3 ? columns - 4 - column : column];
    }
    free(row);
    return good;
}

/* Returns the signed distance between query and key along one axis, on a logarithmic scale. `place`
 * is the index of the distance. */
static double log_distance(int64_t place, int64_t side) {
    const double distance = (double)(side - 1 - place);
    return copysign(log1p(fabs(distance)), distance);
}

/* Computes the biases of relative positions with an MLP, in the same order as read_rel_pos. The
 * class token's values are 0. */
static bool read_rel_pos_mlp(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                             float *to, report *r) {
    const int64_t hidden = item->parts[1].view.count, columns = item->tensor.dims[1];
    const int64_t height = item->rope.height, width = item->rope.width, across = 2 * width - 1;
    float *weights[4] = { NULL };
    int64_t i, k;
    int part;
    bool good = true;
    for (part = 0; part < 4; part++) {
        weights[part] = good ? read_whole(c, &item->parts[part], r) : NULL;
        good = weights[part] != NULL;
    }
    for (i = first; good && i < first + count; i++) {
        const int64_t head = i / columns, column = i % columns;
        const double y = log_distance(column / across, height);
        const double x = log_distance(column % across, width);
        double sum = (double)weights[3][head];
        for (k = 0; k < hidden; k++) {
            const float *w = weights[0] + 2 * k;
            const double unit = (double)w[0] * y + (double)w[1] * x + (double)weights[1][k];
            if (unit > 0) sum += unit * (double)weights[2][head * hidden + k];
        }
        *to++ = column < columns - 3 ? (float)sum : 0;
    }
    for (part = 0; part < 4; part++) free(weights[part]);
    return good;
}

/* Returns the rotation of one pair of values in a head. `given` is NULL, or holds periods, or the
 * frequencies of all blocks and heads as [2 axes, depth, heads, pairs]. */
static vit_rotation rotation_of(const layout_item *item, const float *given, int64_t head,
                                int64_t pair) {
    const rope_grid *grid = &item->rope;
    const float *first;
    if (!given) return rope_rotation(grid, pair);
    if (item->tensor.ndim == 2) return rope_rotation_of_period(grid, pair, given);
    first = given + (item->block * item->tensor.dims[0] + head) * grid->pairs + pair;
    return rope_rotation_mixed(grid, first[0], first[item->parts[0].view.count / 2]);
}

/* Returns element i of a table of cosines or sines. The table is [patches, pairs], or [heads,
 * patches, pairs] if heads have their own frequencies. */
static float table_value(const layout_item *item, const float *given, int64_t i) {
    const rope_grid *rope = &item->rope;
    const vit_grid grid = { rope->height, rope->width };
    const int64_t patches = (int64_t)rope->height * rope->width, rows = i / rope->pairs;
    const vit_rotation rotation = rotation_of(item, given, rows / patches, i % rope->pairs);
    float cosine, sine;
    vit_rope_angle(&rotation, grid, (int)(rows % patches), &cosine, &sine);
    return item->method == LAYOUT_COS ? cosine : sine;
}

/* Returns element i of the data of the rotations. The data is [9, pairs], or [heads, 9, pairs]. */
static float rotation_value(const layout_item *item, const float *given, int64_t i) {
    const int64_t rows = i / item->rope.pairs;
    const vit_rotation r = rotation_of(item, given, rows / 9, i % item->rope.pairs);
    const float rest[3] = { r.offset, r.scale, r.origin };
    const int64_t row = rows % 9;
    return row < 3 ? r.row[row] : row < 6 ? r.column[row - 3] : rest[row - 6];
}

static bool read_rope(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                      float *to, report *r) {
    const bool is_given = item->part_count > 0;
    float *given = is_given ? read_whole(c, &item->parts[0], r) : NULL;
    int64_t i;
    if (is_given && !given) return false;
    for (i = 0; i < count; i++)
        to[i] = item->method == LAYOUT_ROTATIONS ? rotation_value(item, given, first + i)
                                                 : table_value(item, given, first + i);
    free(given);
    return true;
}

/* Returns the constant lambda_init of differential attention (arXiv 2410.05258) for a block. */
static double lambda_init(int block) { return 0.8 - 0.6 * exp(-0.3 * block); }

/* Computes the only value of LAYOUT_LAMBDA. The parts are the vectors q1, k1, q2, k2. */
static bool read_lambda(checkpoint *c, const layout_item *item, float *to, report *r) {
    float *x[LAYOUT_MAX_PARTS] = { NULL };
    double sums[2] = { 0, 0 };
    bool good = item->part_count == 4;
    int64_t j;
    int i;
    for (i = 0; good && i < 4; i++) {
        x[i] = read_whole(c, &item->parts[i], r);
        good = x[i] != NULL;
    }
    for (i = 0; good && i < 2; i++)
        for (j = 0; j < item->parts[0].view.count; j++)
            sums[i] += (double)x[2 * i][j] * (double)x[2 * i + 1][j];
    *to = (float)(exp(sums[0]) - exp(sums[1]) + lambda_init(item->block));
    for (i = 0; i < 4; i++) free(x[i]);
    return good;
}

static bool read_less_lambda(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                             float *to, report *r) {
    int64_t i;
    if (!read_part(c, &item->parts[0], first, count, to, r)) return false;
    for (i = 0; i < count; i++) to[i] = (float)((double)to[i] * (1 - lambda_init(item->block)));
    return true;
}

/* Reads values of a square matrix with ones on the diagonal, or of a vector of ones. */
static void read_identity(const layout_item *item, int64_t first, int64_t count, float *to) {
    const int64_t width = item->tensor.ndim > 1 ? item->tensor.dims[1] : 1;
    int64_t i;
    for (i = 0; i < count; i++) to[i] = width == 1 || (first + i) / width == (first + i) % width;
}

void layout_standardise(float *row, int64_t depth) {
    double mean = 0, variance = 0;
    int64_t k;
    for (k = 0; k < depth; k++) mean += (double)row[k] / (double)depth;
    for (k = 0; k < depth; k++) {
        const double x = (double)row[k] - mean;
        variance += x * x / (double)depth;
    }
    /* the row is standardised already; another division would only round it */
    if (fabs(mean) < 1e-6 && fabs(variance - 1) < 1e-3) return;
    for (k = 0; k < depth; k++) row[k] = (float)(((double)row[k] - mean) / sqrt(variance + 1e-8));
}

/* Reads and standardises whole rows. `first` and `count` are multiples of the length of a row. */
static bool read_standard(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                          float *to, report *r) {
    const int64_t depth = item->parts[0].view.count / item->tensor.dims[0];
    int64_t i;
    if (!read_part(c, &item->parts[0], first, count, to, r)) return false;
    for (i = 0; i < count; i += depth) layout_standardise(to + i, depth);
    return true;
}

/* Reads the value of one channel from the part with the index `part` and from each later part. */
static bool read_channel(checkpoint *c, const layout_item *item, int part, int64_t channel,
                         double values[LAYOUT_MAX_PARTS], report *r) {
    float value;
    for (; part < item->part_count; part++) {
        if (!read_part(c, &item->parts[part], channel, 1, &value, r)) return false;
        values[part] = (double)value;
    }
    return true;
}

/* Returns the factor by which a batch norm multiplies a channel. 1e-5 is the epsilon of
 * torch.nn.BatchNorm2d. */
static double batch_factor(double weight, double variance) {
    return weight / sqrt(variance + 1e-5);
}

/* Reads whole rows, multiplied by the factors of the batch norm. A factor is a double, and each
 * product is rounded to float once. */
static bool read_batch_norm(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                            float *to, report *r) {
    const int64_t depth = item->parts[0].view.count / item->tensor.dims[0];
    double v[LAYOUT_MAX_PARTS] = { 0 };
    int64_t i, k;
    if (!read_part(c, &item->parts[0], first, count, to, r)) return false;
    for (i = 0; i < count; i += depth) {
        if (!read_channel(c, item, 1, (first + i) / depth, v, r)) return false;
        for (k = i; k < i + depth; k++) to[k] = (float)((double)to[k] * batch_factor(v[1], v[2]));
    }
    return true;
}

/* Merges a batch norm, y = (x - mean) factor + bias, into the convolution in front of it, which has
 * no bias: computes the new biases of the convolution. */
static bool read_batch_shift(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                             float *to, report *r) {
    double v[LAYOUT_MAX_PARTS] = { 0 };
    int64_t i;
    for (i = 0; i < count; i++) {
        if (!read_channel(c, item, 0, first + i, v, r)) return false;
        to[i] = (float)(v[3] - v[0] * batch_factor(v[1], v[2]));
    }
    return true;
}

/* Reads values by the method of the rule. If the switch lacks a new method, the compiler reports
 * this. */
static bool read_item(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                      float *to, report *r) {
    switch (item->method) {
    case LAYOUT_STACK: return read_stack(c, item, first, count, to, r);
    case LAYOUT_SUM:
    case LAYOUT_PRODUCT: return read_joined(c, item, first, count, to, r);
    case LAYOUT_OUTER: return read_outer(c, item, first, count, to, r);
    case LAYOUT_GROUPED: return read_grouped(c, item, first, count, to, r);
    case LAYOUT_NARROW: return read_narrow(c, item, first, count, to, r);
    case LAYOUT_LINEAR: return read_linear(c, item, first, count, to, r);
    case LAYOUT_IDENTITY: return read_identity(item, first, count, to), true;
    case LAYOUT_REL_POS: return read_rel_pos(c, item, first, count, to, r);
    case LAYOUT_REL_POS_MLP: return read_rel_pos_mlp(c, item, first, count, to, r);
    case LAYOUT_COS:
    case LAYOUT_SIN:
    case LAYOUT_ROTATIONS: return read_rope(c, item, first, count, to, r);
    case LAYOUT_LAMBDA: return read_lambda(c, item, to, r);
    case LAYOUT_LESS_LAMBDA: return read_less_lambda(c, item, first, count, to, r);
    case LAYOUT_STANDARD: return read_standard(c, item, first, count, to, r);
    case LAYOUT_BATCH_NORM: return read_batch_norm(c, item, first, count, to, r);
    case LAYOUT_BATCH_SHIFT: return read_batch_shift(c, item, first, count, to, r);
    case LAYOUT_ZERO: break;
    }
    memset(to, 0, (size_t)count * sizeof *to);
    return true;
}

/* The state of multiplying two layers, a few rows of the result at a time. The first factor is
 * attn.proj; the second factor is the part of attn.qkv that makes v. */
typedef struct folding {
    checkpoint *checkpoint;
    const layout_item *proj, *qkv, *bias; /* bias is NULL if a weight is computed */
    double divisor;
    /* the first factor is [rows, inner], the second is [inner, columns] */
    int64_t inner, columns;
    int64_t step;         /* rows of the second factor that are read at a time */
    float *rows, *values; /* values of the first factor, and of the second factor */
    double *sums;
} folding;

enum { FOLDED_ROWS = 16, FOLDED_VALUES = 65536 };

/* Computes rows of the product in `sums`. The terms of a sum are added in the order of the inner
 * dimension. Products of floats are exact in a double. */
static bool sum_rows(const folding *f, int64_t first, int64_t rows, report *r) {
    checkpoint *c = f->checkpoint;
    const int64_t v = 2 * f->inner; /* rows of q and k come before those of v */
    int64_t i, n, k, row, column;
    memset(f->sums, 0, (size_t)(rows * f->columns) * sizeof *f->sums);
    if (!layout_read(c, f->proj, first * f->inner, rows * f->inner, f->rows, r)) return false;
    for (i = 0; i < f->inner; i += n) {
        n = f->inner - i < f->step ? f->inner - i : f->step;
        if (!layout_read(c, f->qkv, (v + i) * f->columns, n * f->columns, f->values, r))
            return false;
        for (row = 0; row < rows; row++)
            for (k = 0; k < n; k++)
                for (column = 0; column < f->columns; column++)
                    f->sums[row * f->columns + column] += (double)f->rows[row * f->inner + i + k] *
                                                          (double)
                                                              f->values[k * f->columns + column];
    }
    return true;
}

/* Computes whole rows of the folded layer. Each value is rounded to float once. */
static bool put_rows(const folding *f, int64_t first, int64_t rows, float *to, report *r) {
    float bias[FOLDED_ROWS] = { 0 };
    int64_t i;
    if (!sum_rows(f, first, rows, r)) return false;
    if (f->bias && !layout_read(f->checkpoint, f->bias, first, rows, bias, r)) return false;
    for (i = 0; i < rows * f->columns; i++)
        to[i] = (float)(f->sums[i] / f->divisor + (double)bias[i / f->columns]);
    return true;
}

static bool read_folded(checkpoint *c, const layout_item *item, int64_t first, int64_t count,
                        float *to, report *r) {
    folding f;
    int64_t done, rows;
    bool good;
    f.checkpoint = c;
    f.divisor = item->divisor > 0 ? item->divisor : 1;
    f.bias = item->tensor.ndim == 1 ? &item->folded[FOLDED_BIAS] : NULL;
    f.proj = &item->folded[FOLDED_PROJ];
    f.qkv = &item->folded[FOLDED_QKV];
    f.inner = f.proj->dims[1];
    f.columns = item->tensor.ndim > 1 ? f.qkv->dims[1] : 1;
    f.step = f.columns < FOLDED_VALUES ? FOLDED_VALUES / f.columns : 1;
    f.rows = malloc(FOLDED_ROWS * (size_t)f.inner * sizeof *f.rows);
    f.values = malloc((size_t)(f.step * f.columns) * sizeof *f.values);
    f.sums = malloc(FOLDED_ROWS * (size_t)f.columns * sizeof *f.sums);
    good = (f.rows && f.values && f.sums) || report_no_memory(r);
    first /= f.columns;
    count /= f.columns;
    for (done = 0; good && done < count; done += rows) {
        rows = count - done < FOLDED_ROWS ? count - done : FOLDED_ROWS;
        good = put_rows(&f, first + done, rows, to + done * f.columns, r);
    }
    free(f.rows);
    free(f.values);
    free(f.sums);
    return good;
}

bool layout_read(checkpoint *c, const layout_item *item, int64_t first, int64_t count, float *to,
                 report *r) {
    int64_t i;
    if (item->kind == SOURCE_FOLDED) return read_folded(c, item, first, count, to, r);
    if (!read_item(c, item, first, count, to, r)) return false;
    for (i = 0; item->divisor > 0 && i < count; i++) to[i] = (float)((double)to[i] / item->divisor);
    return true;
}

/* === The pseudo-inverse of resizing one side ===
 * A resize of both sides is the Kronecker product of two resizes of one side. Its pseudo-inverse is
 * the Kronecker product of their pseudo-inverses. */

/* Fills b [to, from] with the share of each old pixel in each new pixel, by resizing unit vectors.
 * False if memory is exhausted. */
static bool make_resize(double *b, int from, int to, vit_pos_resample how) {
    const size_t n = (size_t)from;
    float *unit = calloc(n * n + n * (size_t)to, sizeof *unit), *out;
    size_t i;
    if (!unit) return false;
    out = unit + n * n;
    for (i = 0; i < n; i++) unit[i * n + i] = 1;
    vit_resample_positions(how, from, unit, (vit_grid){ from, 1 }, out, (vit_grid){ to, 1 });
    for (i = 0; i < n * (size_t)to; i++) b[i] = (double)out[i];
    free(unit);
    return true;
}

/* Fills gram [n, n] with the scalar products of all pairs of rows of b [rows, columns]. If
 * `of_columns` is true, the products are those of all pairs of columns. */
static void make_gram(const double *b, int rows, int columns, bool of_columns, double *gram) {
    const int n = of_columns ? columns : rows, depth = of_columns ? rows : columns;
    const int step = of_columns ? 1 : columns, stride = of_columns ? columns : 1;
    int i, j, k;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            double sum = 0;
            for (k = 0; k < depth; k++) sum += b[i * step + k * stride] * b[j * step + k * stride];
            gram[i * n + j] = sum;
        }
    }
}

/* Replaces x [n, columns] by gram^-1 x, with Gauss-Jordan elimination. No rows are swapped, because
 * gram is positive definite. False if gram is nearly singular. */
static bool solve(double *gram, double *x, int n, int columns) {
    int i, j, k;
    for (i = 0; i < n; i++) {
        if (!(gram[i * n + i] > 1e-9)) return false;
        for (j = 0; j < n; j++) {
            const double factor = gram[j * n + i] / gram[i * n + i];
            if (j == i) continue;
            for (k = i; k < n; k++) gram[j * n + k] -= factor * gram[i * n + k];
            for (k = 0; k < columns; k++) x[j * columns + k] -= factor * x[i * columns + k];
        }
    }
    for (i = 0; i < n; i++)
        for (k = 0; k < columns; k++) x[i * columns + k] /= gram[i * n + i];
    return true;
}

/* Writes the transpose of `from` [rows, columns] to `to` [columns, rows]. */
static void transpose(const double *from, int rows, int columns, double *to) {
    int i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

/* Computes the pseudo-inverse of the resize B, which `work` [new, old] holds. If the patch grows,
 * it is (B' B)^-1 B'. Otherwise it is B' (B B')^-1, the transpose of the solution x of (B B') x =
 * B. Behind B, `work` has space for B' B or B B'. */
static bool invert(const adaptation *a, double *work) {
    const int old = a->from.side, new = a->to.side;
    const bool grows = new > old;
    double *gram = work + (size_t)old * (size_t) new;
    make_gram(work, new, old, grows, gram);
    if (grows) {
        transpose(work, new, old, a->inverse);
        return solve(gram, a->inverse, old, new);
    }
    if (!solve(gram, work, new, old)) return false;
    transpose(work, new, old, a->inverse);
    return true;
}

/* Allocates the memory for resizing patches, and computes the pseudo-inverse. adapt_free must be
 * called even after a failure. */
static bool start_patch(adaptation *a, vit_pos_resample how, report *r) {
    const size_t old = (size_t)a->from.side, new = (size_t)a->to.side;
    const size_t small = old < new ? old : new;
    double *work = malloc((old * new + small *small) * sizeof *work);
    bool good;
    a->inverse = malloc(old * new * sizeof *a->inverse);
    a->plane = malloc(old * old * sizeof *a->plane);
    a->middle = malloc(old * new * sizeof *a->middle);
    how = how == VIT_RESAMPLE_FLEXIVIT ? how : VIT_RESAMPLE_TIMM;
    good = work && a->inverse && a->plane && a->middle &&
           make_resize(work, a->from.side, a->to.side, how);
    if (!good) (void)report_no_memory(r);
    else if (!invert(a, work))
        good = report_fail(
            r,
            "--patch-size %d: the resize from patch size %d is not invertible; choose another size",
            a->to.side, a->from.side);
    free(work);
    return good;
}

/* === The weights === */

/* Computes the weights of the new channel c, at the old patch size. */
static void mix_channels(const adaptation *a, const float *from, int c, double *plane) {
    const int chans = a->from.chans, new_chans = a->to.chans;
    const size_t count = (size_t)a->from.side * (size_t)a->from.side;
    const bool sums = new_chans == 1 && chans > 1;
    const float factor = new_chans == chans || sums ? 1 : 3 / (float)new_chans;
    size_t i;
    int k;
    from += (size_t)(c % chans) * count;
    for (i = 0; i < count; i++) {
        plane[i] = (double)(from[i] * factor);
        for (k = 1; sums && k < chans; k++) plane[i] += (double)from[(size_t)k * count + i];
    }
}

/* Resizes one channel: out [new, new] = inverse' plane inverse. */
static void resize_plane(const adaptation *a, float *out) {
    const int old = a->from.side, new = a->to.side;
    int y, x, k;
    for (y = 0; y < old; y++) {
        for (x = 0; x < new; x++) {
            double sum = 0;
            for (k = 0; k < old; k++) sum += a->plane[y * old + k] * a->inverse[k * new + x];
            a->middle[y * new + x] = sum;
        }
    }
    for (y = 0; y < new; y++) {
        for (x = 0; x < new; x++) {
            double sum = 0;
            for (k = 0; k < old; k++) sum += a->inverse[k * new + y] * a->middle[k * new + x];
            out[y * new + x] = (float)sum;
        }
    }
}

bool adapt_start(adaptation *a, const patch_shape *from, const patch_shape *to,
                 vit_pos_resample how, report *r) {
    memset(a, 0, sizeof *a);
    a->from = *from;
    a->to = *to;
    if (from->side != to->side) return start_patch(a, how, r);
    a->plane = malloc((size_t)from->side * (size_t)from->side * sizeof *a->plane);
    return a->plane ? true : report_no_memory(r);
}

void adapt_row(const adaptation *a, const float *from, float *to) {
    const size_t count = (size_t)a->to.side * (size_t)a->to.side;
    size_t i;
    int c;
    for (c = 0; c < a->to.chans; c++, to += count) {
        mix_channels(a, from, c, a->plane);
        if (a->inverse) resize_plane(a, to);
        else
            for (i = 0; i < count; i++) to[i] = (float)a->plane[i];
    }
}

void adapt_free(adaptation *a) {
    free(a->inverse);
    free(a->plane);
    free(a->middle);
}
