#include "layout/key_bias.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADS = 64, WIDEST = 8192, MOST_BLOCKS = 64 };

static const double least_errors = 4, smallest = 1e-6;   /* beside the largest bias of its block */

/* Logarithms of how large the biases are: of what would be keys, and of the rest. */
typedef struct sizes {
    double sum[2], squares[2];
    int count[2];
} sizes;

static void add_size(sizes *s, bool is_key, double log_size)
{
    s->sum[is_key] += log_size;
    s->squares[is_key] += log_size * log_size;
    s->count[is_key]++;
}

static double mean(const sizes *s, bool is_key)
{
    return s->sum[is_key] / s->count[is_key];
}

/* The square of the standard error of the mean. */
static double error2(const sizes *s, bool is_key)
{
    const double m = mean(s, is_key), variance = s->squares[is_key] / s->count[is_key] - m * m;
    return fmax(variance, 0) / (s->count[is_key] - 1);
}

/* By how many standard errors the keys' are smaller. */
static double errors_below(const sizes *s)
{
    const double error = sqrt(error2(s, false) + error2(s, true));
    return error > 0 ? (mean(s, false) - mean(s, true)) / error : 0;
}

static double root_mean_square(const float *values, int64_t count)
{
    double sum = 0;
    int64_t i;
    for (i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
    return sqrt(sum / (double)count);
}

/* `values` holds 3 x heads biases of a head each. Sizes that are no numbers count for nothing. */
static void add_block(const float *values, int64_t count, int heads, sizes *by_head,
                      sizes *by_kind)
{
    const int64_t width = count / (3 * heads);
    double size[3 * MOST_HEADS], largest = 0;
    int i;
    for (i = 0; i < 3 * heads; i++) {
        size[i] = root_mean_square(values + i * width, width);
        largest = fmax(largest, size[i]);
    }
    if (!(largest > 0) || !isfinite(largest)) return;
    for (i = 0; i < 3 * heads; i++) {
        const double log_size = log(fmax(size[i] / largest, smallest));
        add_size(by_head, i % 3 == 1, log_size);
        add_size(by_kind, i / heads == 1, log_size);
    }
}

static void decide(const sizes *by_head, const sizes *by_kind, key_bias_evidence *out)
{
    const double head = errors_below(by_head), kind = errors_below(by_kind);
    const sizes *best = head > kind ? by_head : by_kind, *next = head > kind ? by_kind : by_head;
    out->is_by_head = head > kind;
    out->is_clear = fmax(head, kind) > least_errors && fmin(head, kind) < least_errors / 2;
    out->best = exp(mean(best, true) - mean(best, false));
    out->next = exp(mean(next, true) - mean(next, false));
}

bool key_bias_read(const layout_map *map, int heads, key_bias_evidence *out, report *r)
{
    sizes by_head = { { 0 }, { 0 }, { 0 } }, by_kind = by_head;
    float *values;
    bool good = true;
    int block;
    memset(out, 0, sizeof *out);
    if (heads < 2 || heads > MOST_HEADS || map->embed_dim > WIDEST) return true;
    values = malloc((size_t)(3 * WIDEST) * sizeof *values);
    if (!values) return report_no_memory(r);
    for (block = 0; good && block < map->depth && block < MOST_BLOCKS; block++) {
        const checkpoint_tensor_info *t;
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.stacked.bias", block);
        t = checkpoint_find(map->checkpoint, name);
        if (!t || t->count > 3 * WIDEST || t->count % (3 * heads) != 0) continue;
        good = checkpoint_read(map->checkpoint, t, 0, t->count, values, r);
        if (good) add_block(values, t->count, heads, &by_head, &by_kind);
    }
    free(values);
    if (good && by_head.count[0] > 1) decide(&by_head, &by_kind, out);
    return good;
}
