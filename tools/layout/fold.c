#include "layout/fold.h"

#include <stdlib.h>
#include <string.h>

/* The product of two sizes that come from tensors, as floats; NULL where memory has no room. */
static float *make_floats(int64_t rows, int64_t cols, report *r)
{
    float *values = NULL;
    if (rows > 0 && cols > 0 && rows <= INT64_MAX / 4 / cols && (uint64_t)rows * (uint64_t)cols <=
        SIZE_MAX / sizeof *values)
        values = calloc((size_t)rows * (size_t)cols, sizeof *values);
    if (!values) (void)report_no_memory(r);
    return values;
}

static void transpose(const float *from, int64_t rows, int64_t cols, float *to)
{
    int64_t i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) to[j * rows + i] = from[i * cols + j];
}

/* Stored [cols, rows]. */
static bool read_transposed(checkpoint *c, const checkpoint_tensor_info *weight, fold_layer *layer,
                            report *r)
{
    float *stored = make_floats(layer->rows, layer->cols, r);
    const bool good = stored && checkpoint_read(c, weight, 0, weight->count, stored, r);
    if (good) transpose(stored, layer->cols, layer->rows, layer->weight);
    free(stored);
    return good;
}

bool fold_read(checkpoint *c, const checkpoint_tensor_info *weight,
               const checkpoint_tensor_info *bias, bool is_transposed, fold_layer *layer,
               report *r)
{
    const int64_t first = weight->ndim ? weight->dims[0] : 1;
    memset(layer, 0, sizeof *layer);
    if (first < 1) return report_fail(r, "%.200s is empty", weight->name);
    layer->rows = is_transposed ? weight->count / first : first;
    layer->cols = is_transposed ? first : weight->count / first;
    if (bias && bias->count != layer->rows)
        return report_fail(r, "%.200s: expected %lld values, found %lld", bias->name,
                           (long long)layer->rows, (long long)bias->count);
    layer->weight = make_floats(layer->rows, layer->cols, r);
    if (bias) layer->bias = make_floats(layer->rows, 1, r);
    if (layer->weight && (layer->bias || !bias) &&
        (is_transposed ? read_transposed(c, weight, layer, r)
                       : checkpoint_read(c, weight, 0, weight->count, layer->weight, r)) &&
        (!bias || checkpoint_read(c, bias, 0, bias->count, layer->bias, r)))
        return true;
    fold_free(layer);
    return false;
}

void fold_free(fold_layer *layer)
{
    free(layer->weight);
    free(layer->bias);
    memset(layer, 0, sizeof *layer);
}

fold_layer fold_rows(const fold_layer *layer, int64_t first, int64_t rows)
{
    fold_layer part = *layer;
    part.weight += first * layer->cols;
    if (part.bias) part.bias += first;
    part.rows = rows;
    return part;
}

static bool make_layer(int64_t rows, int64_t cols, bool has_bias, fold_layer *layer, report *r)
{
    layer->rows = rows;
    layer->cols = cols;
    layer->weight = make_floats(rows, cols, r);
    layer->bias = has_bias ? make_floats(rows, 1, r) : NULL;
    if (layer->weight && (layer->bias || !has_bias)) return true;
    fold_free(layer);
    return false;
}

/* sum of a[i] b[i * stride] */
static double dot(const float *a, const float *b, int64_t count, int64_t stride)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < count; i++) sum += (double)a[i] * (double)b[i * stride];
    return sum;
}

bool fold_chain(const fold_layer *first, const fold_layer *second, fold_layer *result, report *r)
{
    const bool has_bias = first->bias || second->bias;
    int64_t i, j;
    memset(result, 0, sizeof *result);
    if (second->cols != first->rows)
        return report_fail(r, "a layer that reads %lld values does not follow one that gives %lld",
                           (long long)second->cols, (long long)first->rows);
    if (!make_layer(second->rows, first->cols, has_bias, result, r)) return false;
    for (i = 0; i < second->rows; i++) {
        const float *row = second->weight + i * second->cols;
        for (j = 0; j < first->cols; j++)
            result->weight[i * first->cols + j] =
                (float)dot(row, first->weight + j, first->rows, first->cols);
        if (has_bias)
            result->bias[i] = (float)((first->bias ? dot(row, first->bias, first->rows, 1) : 0) +
                                      (second->bias ? (double)second->bias[i] : 0));
    }
    return true;
}

bool fold_heads(const fold_layer *heads, int count, bool is_diagonal, int groups,
                fold_layer *result, report *r)
{
    const int64_t rows = heads[0].rows, cols = heads[0].cols, each = rows / groups;
    const int64_t width = is_diagonal ? cols * count : cols;
    int64_t i;
    int head;
    memset(result, 0, sizeof *result);
    if (!make_layer(rows * count, width, heads[0].bias != NULL, result, r)) return false;
    for (head = 0; head < count; head++)
        for (i = 0; i < rows; i++) {
            const int64_t to = i / each * each * count + head * each + i % each;
            memcpy(result->weight + to * width + (is_diagonal ? head * cols : 0),
                   heads[head].weight + i * cols, (size_t)cols * sizeof(float));
            if (result->bias) result->bias[to] = heads[head].bias[i];
        }
    return true;
}

bool fold_positions(const fold_layer *layer, float **table, report *r)
{
    int64_t i, j;
    *table = make_floats(layer->cols, layer->rows, r);
    if (!*table) return false;
    transpose(layer->weight, layer->rows, layer->cols, *table);
    for (i = 0; layer->bias && i < layer->cols; i++)
        for (j = 0; j < layer->rows; j++) (*table)[i * layer->rows + j] += layer->bias[j];
    return true;
}
