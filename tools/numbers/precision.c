#include "numbers/precision.h"

#include <math.h>
#include <stdlib.h>

/* For qsort: the highest first, NaN last. */
static int compare_scores(const void *a, const void *b)
{
    const float x = ((const precision_score *)a)->score, y = ((const precision_score *)b)->score;
    if (x > y || (!isnan(x) && isnan(y))) return -1;
    return x < y || (isnan(x) && !isnan(y));
}

double precision_average(precision_score *scores, int count)
{
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

static double share(int64_t part, int64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

double precision_of(const precision_counts *c) { return share(c->found, c->found + c->wrong); }

double precision_recall(const precision_counts *c)
{
    return share(c->found, c->found + c->missed);
}

double precision_f1(const precision_counts *c)
{
    return share(2 * c->found, 2 * c->found + c->wrong + c->missed);
}
