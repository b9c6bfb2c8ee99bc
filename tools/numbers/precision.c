#include "numbers/precision.h"
#define VIT_LEARN_IMPLEMENTATION
#include "numbers/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* === Average precision === */

/* A comparison function for qsort. The highest score comes first, and NaN comes last. */
static int compare_scores(const void *a, const void *b) {
    const float x = ((const precision_score *)a)->score, y = ((const precision_score *)b)->score;
    if (x > y || (!isnan(x) && isnan(y))) return -1;
    return x < y || (isnan(x) && !isnan(y));
}

double precision_average(precision_score *scores, int count) {
    int right = 0, found = 0;
    double sum = 0;
    for (int i = 0; i < count; i++) right += scores[i].right;
    qsort(scores, (size_t)count, sizeof *scores, compare_scores);
    for (int i = 0; i < count;) {
        const int first = i, before = found;
        for (; i < count && compare_scores(&scores[first], &scores[i]) == 0; i++)
            found += scores[i].right;
        sum += (double)(found - before) * found / i;
    }
    return right ? sum / right : (double)NAN;
}

static double share(int64_t part, int64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

double precision_of(const precision_counts *c) { return share(c->found, c->found + c->wrong); }

double precision_recall(const precision_counts *c) { return share(c->found, c->found + c->missed); }

double precision_f1(const precision_counts *c) {
    return share(2 * c->found, 2 * c->found + c->wrong + c->missed);
}

/* === Running means === */

bool running_mean_open(running_mean *m, int length, int size) {
    m->length = length;
    m->size = size;
    m->added = 0;
    m->last = malloc((size_t)length * (size_t)size * sizeof *m->last);
    return m->last != NULL;
}

/* The sum is computed anew for each call, because a running sum would accumulate rounding
 * errors. */
void running_mean_add(running_mean *m, float *values) {
    const size_t size = (size_t)m->size;
    size_t count, i, k;
    memcpy(m->last + m->added++ % (uint64_t)m->length * size, values, size * sizeof *values);
    count = m->added < (uint64_t)m->length ? (size_t)m->added : (size_t)m->length;
    for (k = 0; k < size; k++) {
        double sum = 0;
        for (i = 0; i < count; i++) sum += (double)m->last[i * size + k];
        values[k] = (float)(sum / (double)count);
    }
}

void running_mean_close(running_mean *m) {
    free(m->last);
    memset(m, 0, sizeof *m);
}
