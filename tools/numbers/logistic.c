#include "numbers/logistic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* === Logistic regression === */

enum { PARTS = 16, PAIRS = 10, MAX_STEPS = 1000, MAX_HALVINGS = 40 };
static const double LEAST = 1e-9; /* that a step lowers the loss by, relative to it */

/* A point, and what is known of it. */
typedef struct point {
    double *weights, *slopes; /* [size] */
    double loss;
} point;

typedef struct fit {
    const logistic_rows *rows;
    const vit_executor *executor;
    double c;
    size_t size;   /* of the weights: num_classes * (dim + 1)           */
    double *parts; /* [PARTS, size + num_classes]: slopes, scratch      */
    double losses[PARTS];
    point here, next;
    double *moves, *turns;  /* [PAIRS, size]: of the latest steps, the change of */
    double products[PAIRS]; /* the weights, that of the slopes, their product    */
    double *way;            /* [size] */
    int pairs;              /* steps so far: pair i is in place i % PAIRS        */
    double *memory;
} fit;

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *to, double factor, const double *x, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += factor * x[i];
}

void logistic_scores(const double *weights, int num_classes, const float *x, int dim,
                     double *scores) {
    for (int c = 0; c < num_classes; c++, weights += dim + 1) {
        scores[c] = weights[dim];
        for (int d = 0; d < dim; d++) scores[c] += weights[d] * (double)x[d];
    }
}

/* Scores to their softmax; returns the log of what they were divided by. */
static double softmax(double *scores, int count) {
    double most = scores[0], sum = 0;
    for (int c = 1; c < count; c++) most = fmax(most, scores[c]);
    for (int c = 0; c < count; c++) sum += scores[c] = exp(scores[c] - most);
    for (int c = 0; c < count; c++) scores[c] /= sum;
    return log(sum) + most;
}

/* vit_task: loss and slopes of a part of the rows. */
static void rate_part(void *arg, int index) {
    fit *f = arg;
    const logistic_rows *rows = f->rows;
    const size_t classes = (size_t)rows->num_classes, dim = (size_t)rows->dim;
    const int end = (int)((int64_t)rows->count * (index + 1) / PARTS);
    double *slopes = f->parts + (size_t)index * (f->size + classes), *scores = slopes + f->size;
    memset(slopes, 0, f->size * sizeof *slopes);
    f->losses[index] = 0;
    for (int i = (int)((int64_t)rows->count * index / PARTS); i < end; i++) {
        const float *x = rows->values + (size_t)i * dim;
        double right;
        logistic_scores(f->next.weights, rows->num_classes, x, rows->dim, scores);
        right = scores[rows->classes[i]];
        f->losses[index] += softmax(scores, rows->num_classes) - right;
        scores[rows->classes[i]] -= 1;
        for (size_t c = 0; c < classes; c++) {
            double *to = slopes + c * (dim + 1);
            for (size_t d = 0; d < dim; d++) to[d] += scores[c] * (double)x[d];
            to[dim] += scores[c];
        }
    }
}

/* Fills in loss and slopes of the next point. */
static void rate(fit *f) {
    point *p = &f->next;
    const size_t classes = (size_t)f->rows->num_classes, row = (size_t)f->rows->dim + 1;
    if (f->executor && f->executor->parallel_for)
        f->executor->parallel_for(f->executor->user, PARTS, rate_part, f);
    else
        for (int i = 0; i < PARTS; i++) rate_part(f, i);
    p->loss = 0;
    memset(p->slopes, 0, f->size * sizeof *p->slopes);
    for (size_t i = 0; i < PARTS; i++) {
        p->loss += f->losses[i];
        add_scaled(p->slopes, 1, f->parts + i * (f->size + classes), f->size);
    }
    for (size_t c = 0; c < classes; c++) {
        const double *w = p->weights + c * row;
        p->loss += dot(w, w, row - 1) / (2 * f->c);
        add_scaled(p->slopes + c * row, 1 / f->c, w, row - 1);
    }
}

static double *pair_at(const fit *f, double *list, int pair) {
    return list + (size_t)(pair % PAIRS) * f->size;
}

/* The slopes through what the latest steps tell of the inverse Hessian: the two loops. */
static void find_way(fit *f) {
    const int first = f->pairs > PAIRS ? f->pairs - PAIRS : 0, last = f->pairs - 1;
    double shares[PAIRS], scale = 1 / sqrt(dot(f->here.slopes, f->here.slopes, f->size));
    memcpy(f->way, f->here.slopes, f->size * sizeof *f->way);
    for (int i = last; i >= first; i--) {
        const double share = dot(pair_at(f, f->moves, i), f->way, f->size) / f->products[i % PAIRS];
        shares[i % PAIRS] = share;
        add_scaled(f->way, -share, pair_at(f, f->turns, i), f->size);
    }
    if (f->pairs) {
        const double *turn = pair_at(f, f->turns, last);
        scale = f->products[last % PAIRS] / dot(turn, turn, f->size);
    }
    for (size_t i = 0; i < f->size; i++) f->way[i] *= scale;
    for (int i = first; i <= last; i++) {
        const double back = dot(pair_at(f, f->turns, i), f->way, f->size) / f->products[i % PAIRS];
        add_scaled(f->way, shares[i % PAIRS] - back, pair_at(f, f->moves, i), f->size);
    }
}

/* Goes the way down, or a half of it and so on, until the loss falls as it should (Armijo). False:
 * it does not, since the loss is as low as it can be told. */
static bool step(fit *f) {
    const double slope = dot(f->way, f->here.slopes, f->size);
    for (int i = 0; i < MAX_HALVINGS; i++) {
        const double length = ldexp(1, -i);
        memcpy(f->next.weights, f->here.weights, f->size * sizeof *f->next.weights);
        add_scaled(f->next.weights, -length, f->way, f->size);
        rate(f);
        if (f->next.loss <= f->here.loss - 1e-4 * length * slope) return true;
    }
    return false;
}

/* Learns from a step, and makes its end the place to go on from. */
static void arrive(fit *f) {
    const point start = f->here;
    double *move = pair_at(f, f->moves, f->pairs), *turn = pair_at(f, f->turns, f->pairs);
    for (size_t i = 0; i < f->size; i++) {
        move[i] = f->next.weights[i] - start.weights[i];
        turn[i] = f->next.slopes[i] - start.slopes[i];
    }
    f->products[f->pairs++ % PAIRS] = dot(move, turn, f->size);
    f->here = f->next;
    f->next = start;
}

static bool fit_take(fit *f) {
    const size_t classes = (size_t)f->rows->num_classes;
    double *at;
    f->size = classes * ((size_t)f->rows->dim + 1);
    at = f->memory = calloc((5 + 2 * PAIRS + PARTS) * f->size + PARTS * classes, sizeof *at);
    if (!at) return false;
    f->here = (point){ at, at + f->size, 0 };
    f->next = (point){ at + 2 * f->size, at + 3 * f->size, 0 };
    f->way = at + 4 * f->size;
    f->moves = at + 5 * f->size;
    f->turns = f->moves + PAIRS * f->size;
    f->parts = f->turns + PAIRS * f->size;
    return true;
}

int logistic_fit(const logistic_rows *rows, double c, const vit_executor *executor,
                 double *weights) {
    fit f;
    memset(&f, 0, sizeof f);
    f.rows = rows;
    f.executor = executor;
    f.c = c;
    if (!fit_take(&f)) return -1;
    rate(&f); /* zeros */
    f.here.loss = f.next.loss;
    memcpy(f.here.slopes, f.next.slopes, f.size * sizeof *f.here.slopes);
    do {
        find_way(&f);
        if (!step(&f)) break;
        arrive(&f);
    } while (f.next.loss - f.here.loss > LEAST * f.here.loss && f.pairs < MAX_STEPS);
    memcpy(weights, f.here.weights, f.size * sizeof *weights);
    free(f.memory);
    return f.pairs;
}

/* === Average precision === */

/* For qsort: the highest first, NaN last. */
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

/* Summed up anew each time: a sum that is kept would gather rounding errors. */
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
