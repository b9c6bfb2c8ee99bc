/* learn.h - learns classes from embeddings. The result is the weights and biases of a linear layer,
 * which is the head of a Vision Transformer. This single file works with or without vit.h. It needs
 * no other file, no allocation, no global state, and only memcpy and memset of the C library.
 *
 * In exactly one .c or .cpp file: #define VIT_LEARN_IMPLEMENTATION, then #include "learn.h".
 *
 *     static double memory[...];                    // vit_learn_sums_size(dim, classes, 0) bytes
 *     vit_learn_sums sums = vit_learn_sums_at(memory, dim, classes, 0);
 *     vit_learn_clear(&sums);
 *     vit_learn_add(&sums, embedding, class);       // for each photo, as vit_embed gives it
 *     vit_learn_means(&sums, weights);              // [classes, dim + 1]; the bias is last
 *     best = vit_learn_classify(weights, classes, embedding, dim, probabilities);
 *
 * Three ways to learn, from the cheapest to the best:
 *     vit_learn_means    the nearest mean; keeps a sum for each class
 *     vit_learn_ridge    Gaussian classes of one covariance; also keeps dim^2 / 2 numbers, and like
 *                        vit_learn_means reads each photo once
 *     vit_learn_fit      logistic regression, with one or several classes a photo; keeps the photos
 *
 * All arithmetic is done in double, in a fixed order, and with the exp and log of this file.
 * Therefore any number of threads gives the same bits. All CPUs give the same bits too, if the
 * compiler fuses no multiplication with an addition (-std=c99, or -ffp-contract=off). The license
 * is MIT, as for vit.h.
 */
#ifndef VIT_LEARN_H
#define VIT_LEARN_H

#include <stddef.h>

#ifndef VIT_LEARN_API
#define VIT_LEARN_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- the head ------------------------------------------------------------- */

/* The weights of a head are [num_classes, dim + 1]. Each row has the weights of one class and then
 * its bias. */

/* Computes the scores of all classes for one vector, before a softmax. */
VIT_LEARN_API void vit_learn_scores(const double *weights, int num_classes, const float *x, int dim,
                                    double *scores);

/* Turns scores into their softmax, in place. Returns the log of the sum of the exponentials of the
 * given scores. */
VIT_LEARN_API double vit_learn_softmax(double *scores, int num_classes);

/* Returns the class with the highest score, or the first of several such classes. `probabilities`
 * [num_classes] receives the probabilities of all classes. */
VIT_LEARN_API int vit_learn_classify(const double *weights, int num_classes, const float *x,
                                     int dim, double *probabilities);

/* Compute e^x and the natural logarithm of x, with errors of at most 2 ulp. vit_learn_exp returns 0
 * for x < -708 and e^709 for x > 709. vit_learn_log requires 2^-1022 <= x < 2^1023. */
VIT_LEARN_API double vit_learn_exp(double x);
VIT_LEARN_API double vit_learn_log(double x);

/* --- logistic regression -------------------------------------------------- */

/* The embeddings and the classes of photos. Set either `classes` or `tags`, and set the other to
 * NULL. */
typedef struct vit_learn_rows {
    const float *values;
    const int *classes; /* one class for each photo, counted from 0; or NULL */
    /* rows of num_classes bytes: 1 for each class of the photo, and 0 for the others; or NULL */
    const unsigned char *tags;
    /* [count]: the indices of the rows to use; NULL to use the first `count` rows */
    const int *which;
    int count, dim, num_classes;
} vit_learn_rows;

/* A function that calls task(arg, i) for every i from 0 to count - 1, on any threads, and returns
 * after the last call has ended. A vit_executor of vit.h has such a function. */
typedef void vit_learn_for(void *user, int count, void (*task)(void *arg, int index), void *arg);

typedef struct vit_learn_options {
    double c;                    /* inverse strength of the regularisation, above 0 */
    int warm;                    /* 1 to start from the given weights; 0 to start from zeros */
    vit_learn_for *parallel_for; /* NULL to compute only on the calling thread */
    void *user;
} vit_learn_options;

/* Returns the size in bytes of the memory for vit_learn_fit. */
VIT_LEARN_API size_t vit_learn_size(int dim, int num_classes);

/* Minimises the sum of the rows' cross-entropies plus |weights|^2 / (2 c), like scikit-learn's
 * LogisticRegression(C=c). |weights| excludes the biases. L-BFGS (Liu and Nocedal 1989) ends after
 * 1000 steps, or when a step lowers the loss by at most 1e-9 of it or not at all. With tags, each
 * class has its own two-class regression, like in OneVsRestClassifier. `memory` must be aligned
 * like a double. Returns the number of steps. */
VIT_LEARN_API int vit_learn_fit(const vit_learn_rows *rows, const vit_learn_options *options,
                                void *memory, double *weights);

/* --- sums: photos are added one by one, and are not kept ---------------------- */

/* The sums over all photos so far. The pointers point into memory of the caller. This memory has
 * the whole state, and can be stored in flash or in a file. */
typedef struct vit_learn_sums {
    int dim, max_classes, ridge;
    double *counts; /* [max_classes]: number of photos of each class so far */
    double *sums;   /* [max_classes, dim]: sum of the embeddings of each class */
    /* sum of x . x over all photos; if ridge is 1, the lower triangle of the sum of x x^T */
    double *squares;
} vit_learn_sums;

/* vit_learn_sums_size returns the size in bytes of the memory for the sums. `ridge` is 1 if
 * vit_learn_ridge will be called, and otherwise 0. The memory must be aligned like a double.
 * vit_learn_sums_at returns the sums that the memory holds. vit_learn_clear sets all sums to 0.
 * vit_learn_add adds one photo: its embedding x [dim] and the index of its class. */
VIT_LEARN_API size_t vit_learn_sums_size(int dim, int max_classes, int ridge);
VIT_LEARN_API vit_learn_sums vit_learn_sums_at(void *memory, int dim, int max_classes, int ridge);
VIT_LEARN_API void vit_learn_clear(vit_learn_sums *s);
VIT_LEARN_API void vit_learn_add(vit_learn_sums *s, const float *x, int index);

/* Computes weights [max_classes, dim + 1]. The score of a class is the logarithm of a Gaussian
 * density about the mean of the class. One variance serves for all classes and directions. Terms
 * that are the same for all classes are left out. A class without photos gets the score -1e30. If
 * no class has two different photos, the variance within classes is unknown; the function then uses
 * 1 and returns 0. */
VIT_LEARN_API int vit_learn_means(const vit_learn_sums *s, double *weights);

/* Computes weights like vit_learn_means, but with a common covariance, shrunk towards equal
 * variances by `share`, 0 to 1. This is ridge regression, or scikit-learn's
 * LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share) with equal priors. `scratch` has dim
 * (dim + 1) / 2 numbers. If the covariance cannot be inverted, the function returns 0 and leaves
 * the weights unchanged; a larger `share` avoids this. */
VIT_LEARN_API int vit_learn_ridge(const vit_learn_sums *s, double share, double *scratch,
                                  double *weights);

#ifdef __cplusplus
}
#endif
#endif /* VIT_LEARN_H */

#ifdef VIT_LEARN_IMPLEMENTATION

#include <stdint.h>
#ifndef VIT_IMPLEMENTATION /* without <string.h>, vit.h declares memcpy and memset */
#include <string.h>
#endif

/* === exp, log and products === */

/* Returns x 2^exponent. 2^exponent must be a normal number. */
static double vit_learn__scale(double x, int exponent) {
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

/* Computes e^x = 2^n e^r, |r| <= log(2) / 2, by the series of e^r up to r^13. */
VIT_LEARN_API double vit_learn_exp(double x) {
    double n, r, sum = 1;
    int i;
    if (!(x >= -708)) return x < 0 ? 0 : x; /* NaN */
    if (x > 709) x = 709;
    n = (double)(int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    r = x - n * 6.93147180369123816490e-01; /* exact: 33 bits */
    r -= n * 1.90821492927058770002e-10;
    for (i = 13; i > 0; i--) sum = 1 + sum * r / i;
    return vit_learn__scale(sum, (int)n);
}

/* With x = 2^n m and sqrt(1/2) <= m < sqrt(2), log(m) = 2 atanh(t) for t = (m - 1) / (m + 1). The
 * series of atanh is used up to t^21. */
VIT_LEARN_API double vit_learn_log(double x) {
    uint64_t bits;
    double f, square, sum = 0;
    int n, i;
    memcpy(&bits, &x, sizeof bits);
    n = (int)(bits >> 52 & 2047) - 1023;
    x = vit_learn__scale(x, -n);
    if (x >= 1.4142135623730951) x *= 0.5, n++;
    f = (x - 1) / (x + 1);
    square = f * f;
    for (i = 21; i > 1; i -= 2) sum = (sum + 1.0 / i) * square;
    return n * 6.93147180369123816490e-01 + (n * 1.90821492927058770002e-10 + 2 * (f + f * sum));
}

enum { VIT_LEARN__LANES = 8, VIT_LEARN__ROWS = 4 };

/* Returns the padded length of a vector of dim numbers and a bias. */
static size_t vit_learn__stride(int dim) {
    return ((size_t)dim + VIT_LEARN__LANES) / VIT_LEARN__LANES * VIT_LEARN__LANES;
}

/* Returns the dot product a . b. `count` is a multiple of 8. Eight sums are computed first, and
 * then added up in a tree. */
static double vit_learn__dot(const double *a, const double *b, size_t count) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    size_t i;
    for (i = 0; i < count; i += VIT_LEARN__LANES) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
        s4 += a[i + 4] * b[i + 4];
        s5 += a[i + 5] * b[i + 5];
        s6 += a[i + 6] * b[i + 6];
        s7 += a[i + 7] * b[i + 7];
    }
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7));
}

static void vit_learn__add_scaled(double *to, double factor, const double *x, size_t count) {
    size_t i, k;
    for (i = 0; i < count; i += VIT_LEARN__LANES)
        for (k = i; k < i + VIT_LEARN__LANES; k++) to[k] += factor * x[k];
}

VIT_LEARN_API void vit_learn_scores(const double *weights, int num_classes, const float *x, int dim,
                                    double *scores) {
    int c, d;
    for (c = 0; c < num_classes; c++, weights += dim + 1) {
        double sum = weights[dim];
        for (d = 0; d < dim; d++) sum += weights[d] * (double)x[d];
        scores[c] = sum;
    }
}

VIT_LEARN_API double vit_learn_softmax(double *scores, int num_classes) {
    double most = scores[0], sum = 0;
    int c;
    for (c = 1; c < num_classes; c++)
        if (scores[c] > most) most = scores[c];
    for (c = 0; c < num_classes; c++) sum += scores[c] = vit_learn_exp(scores[c] - most);
    for (c = 0; c < num_classes; c++) scores[c] /= sum;
    return vit_learn_log(sum) + most;
}

VIT_LEARN_API int vit_learn_classify(const double *weights, int num_classes, const float *x,
                                     int dim, double *probabilities) {
    int c, best = 0;
    vit_learn_scores(weights, num_classes, x, dim, probabilities);
    for (c = 1; c < num_classes; c++)
        if (probabilities[c] > probabilities[best]) best = c;
    (void)vit_learn_softmax(probabilities, num_classes);
    return best;
}

/* === Logistic regression === */

enum {
    VIT_LEARN__PARTS = 16,
    VIT_LEARN__PAIRS = 10,
    VIT_LEARN__STEPS = 1000,
    VIT_LEARN__HALVINGS = 40
};

/* Weights that the search tries, and the loss and its slopes (derivatives) at these
 * weights. */
typedef struct vit_learn__point {
    double *weights, *slopes; /* [size] */
    double loss;
} vit_learn__point;

typedef struct vit_learn__state {
    const vit_learn_rows *rows;
    const vit_learn_options *options;
    /* numbers of doubles: of a class, of all weights, and of a part's slopes and scratch memory */
    size_t stride, size, part;
    /* [PARTS, part]: slopes and scratch memory of each part of the rows */
    double *parts;
    double losses[VIT_LEARN__PARTS];
    vit_learn__point here, next;
    /* For each of the latest steps: the change of the weights, the change of the slopes, and the
     * dot product of both changes. */
    double *moves, *turns; /* [PAIRS, size] */
    double products[VIT_LEARN__PAIRS];
    double *way; /* [size] */
    int pairs;   /* number of steps so far; the changes of step i are at index i % PAIRS */
} vit_learn__state;

static size_t vit_learn__part(int dim, int num_classes) {
    const size_t stride = vit_learn__stride(dim), classes = (size_t)num_classes;
    return (classes + VIT_LEARN__ROWS) * stride + VIT_LEARN__ROWS * classes;
}

VIT_LEARN_API size_t vit_learn_size(int dim, int num_classes) {
    const size_t size = (size_t)num_classes * vit_learn__stride(dim);
    return ((5 + 2 * VIT_LEARN__PAIRS) * size +
            VIT_LEARN__PARTS * vit_learn__part(dim, num_classes)) *
           sizeof(double);
}

/* Replaces the scores of a row by the derivatives of the row's loss, and returns this loss. */
static double vit_learn__rate_row(const vit_learn_rows *rows, size_t row, double *scores) {
    double loss = 0;
    int c;
    if (rows->classes) {
        const double right = scores[rows->classes[row]];
        loss = vit_learn_softmax(scores, rows->num_classes) - right;
        scores[rows->classes[row]] -= 1;
        return loss;
    }
    for (c = 0; c < rows->num_classes; c++) { /* log(1 + e^z) - y z */
        const double z = scores[c], y = rows->tags[row * (size_t)rows->num_classes + (size_t)c];
        const double e = vit_learn_exp(z < 0 ? z : -z);
        loss += vit_learn_log(1 + e) + (z > 0 ? z : 0) - y * z;
        scores[c] = (z < 0 ? e : 1) / (1 + e) - y;
    }
    return loss;
}

/* Computes the loss of `count` rows from row `first`, and adds their slopes to `slopes`. */
static double vit_learn__rate_rows(const vit_learn__state *f, int first, int count,
                                   double *slopes) {
    const vit_learn_rows *rows = f->rows;
    const size_t stride = f->stride, classes = (size_t)rows->num_classes, dim = (size_t)rows->dim;
    double *x = slopes + f->size, *scores = x + VIT_LEARN__ROWS * stride, loss = 0;
    size_t which[VIT_LEARN__ROWS], c, d;
    int i;
    for (i = 0; i < count; i++) {
        double *to = x + (size_t)i * stride;
        const float *from;
        which[i] = (size_t)(rows->which ? rows->which[first + i] : first + i);
        from = rows->values + which[i] * dim;
        for (d = 0; d < dim; d++) to[d] = (double)from[d];
        to[dim] = 1;
        for (d = dim + 1; d < stride; d++) to[d] = 0;
    }
    for (c = 0; c < classes; c++)
        for (i = 0; i < count; i++)
            scores[(size_t)i * classes + c] = vit_learn__dot(f->next.weights + c * stride,
                                                             x + (size_t)i * stride, stride);
    for (i = 0; i < count; i++)
        loss += vit_learn__rate_row(rows, which[i], scores + (size_t)i * classes);
    for (c = 0; c < classes; c++)
        for (i = 0; i < count; i++)
            vit_learn__add_scaled(slopes + c * stride, scores[(size_t)i * classes + c],
                                  x + (size_t)i * stride, stride);
    return loss;
}

static void vit_learn__rate_part(void *arg, int index) {
    vit_learn__state *f = (vit_learn__state *)arg;
    const int64_t count = f->rows->count;
    const int end = (int)(count * (index + 1) / VIT_LEARN__PARTS);
    double *slopes = f->parts + (size_t)index * f->part, loss = 0;
    int i;
    memset(slopes, 0, f->size * sizeof *slopes);
    for (i = (int)(count * index / VIT_LEARN__PARTS); i < end; i += VIT_LEARN__ROWS)
        loss += vit_learn__rate_rows(f, i, end - i < VIT_LEARN__ROWS ? end - i : VIT_LEARN__ROWS,
                                     slopes);
    f->losses[index] = loss;
}

/* Computes the loss and the slopes at the next point. */
static void vit_learn__rate(vit_learn__state *f) {
    vit_learn__point *p = &f->next;
    const size_t dim = (size_t)f->rows->dim;
    size_t c, d;
    int i;
    if (f->options->parallel_for)
        f->options->parallel_for(f->options->user, VIT_LEARN__PARTS, vit_learn__rate_part, f);
    else
        for (i = 0; i < VIT_LEARN__PARTS; i++) vit_learn__rate_part(f, i);
    p->loss = 0;
    memset(p->slopes, 0, f->size * sizeof *p->slopes);
    for (i = 0; i < VIT_LEARN__PARTS; i++) {
        p->loss += f->losses[i];
        vit_learn__add_scaled(p->slopes, 1, f->parts + (size_t)i * f->part, f->size);
    }
    for (c = 0; c < (size_t)f->rows->num_classes; c++) {
        const double *w = p->weights + c * f->stride;
        double *slopes = p->slopes + c * f->stride, sum = 0;
        for (d = 0; d < dim; d++) {
            sum += w[d] * w[d];
            slopes[d] += w[d] / f->options->c;
        }
        p->loss += sum / (2 * f->options->c);
    }
}

/* Sets `way` to the slopes times the inverse Hessian, estimated from the latest steps (L-BFGS's two
 * loops). The first step has a length of about 1. */
static void vit_learn__find_way(vit_learn__state *f) {
    const int first = f->pairs > VIT_LEARN__PAIRS ? f->pairs - VIT_LEARN__PAIRS : 0;
    const int last = f->pairs - 1;
    double shares[VIT_LEARN__PAIRS], scale;
    size_t k;
    int i;
    memcpy(f->way, f->here.slopes, f->size * sizeof *f->way);
    for (i = last; i >= first; i--) {
        const size_t at = (size_t)(i % VIT_LEARN__PAIRS);
        shares[at] = vit_learn__dot(f->moves + at * f->size, f->way, f->size) / f->products[at];
        vit_learn__add_scaled(f->way, -shares[at], f->turns + at * f->size, f->size);
    }
    if (f->pairs) {
        const size_t at = (size_t)(last % VIT_LEARN__PAIRS);
        const double *turn = f->turns + at * f->size;
        scale = f->products[at] / vit_learn__dot(turn, turn, f->size);
    } else {
        const double square = vit_learn__dot(f->way, f->way, f->size);
        scale = square > 0 ? vit_learn_exp(-0.5 * vit_learn_log(square)) : 1;
    }
    for (k = 0; k < f->size; k++) f->way[k] *= scale;
    for (i = first; i <= last; i++) {
        const size_t at = (size_t)(i % VIT_LEARN__PAIRS);
        const double back = vit_learn__dot(f->turns + at * f->size, f->way, f->size) /
                            f->products[at];
        vit_learn__add_scaled(f->way, shares[at] - back, f->moves + at * f->size, f->size);
    }
}

/* Tries the whole step, then half of it and so on, until the loss falls enough (Armijo). Returns 0
 * if no tried step does this. */
static int vit_learn__step(vit_learn__state *f) {
    const double slope = vit_learn__dot(f->way, f->here.slopes, f->size);
    double length = 1;
    int i;
    if (!(slope > 0)) return 0;
    for (i = 0; i < VIT_LEARN__HALVINGS; i++, length *= 0.5) {
        memcpy(f->next.weights, f->here.weights, f->size * sizeof *f->next.weights);
        vit_learn__add_scaled(f->next.weights, -length, f->way, f->size);
        vit_learn__rate(f);
        if (f->next.loss <= f->here.loss - 1e-4 * length * slope) return 1;
    }
    return 0;
}

/* Stores the changes of a step, and continues from its end. */
static void vit_learn__arrive(vit_learn__state *f) {
    const vit_learn__point start = f->here;
    const size_t at = (size_t)(f->pairs++ % VIT_LEARN__PAIRS);
    double *move = f->moves + at * f->size, *turn = f->turns + at * f->size;
    size_t i;
    for (i = 0; i < f->size; i++) {
        move[i] = f->next.weights[i] - start.weights[i];
        turn[i] = f->next.slopes[i] - start.slopes[i];
    }
    f->products[at] = vit_learn__dot(move, turn, f->size);
    f->here = f->next;
    f->next = start;
}

static void vit_learn__lay_out(vit_learn__state *f, double *at) {
    f->stride = vit_learn__stride(f->rows->dim);
    f->size = (size_t)f->rows->num_classes * f->stride;
    f->part = vit_learn__part(f->rows->dim, f->rows->num_classes);
    memset(at, 0, 5 * f->size * sizeof *at);
    f->here.weights = at;
    f->here.slopes = at + f->size;
    f->next.weights = at + 2 * f->size;
    f->next.slopes = at + 3 * f->size;
    f->way = at + 4 * f->size;
    f->moves = at + 5 * f->size;
    f->turns = f->moves + VIT_LEARN__PAIRS * f->size;
    f->parts = f->turns + VIT_LEARN__PAIRS * f->size;
}

VIT_LEARN_API int vit_learn_fit(const vit_learn_rows *rows, const vit_learn_options *options,
                                void *memory, double *weights) {
    const size_t row = (size_t)rows->dim + 1, classes = (size_t)rows->num_classes;
    vit_learn__state f;
    vit_learn__point start;
    size_t c;
    memset(&f, 0, sizeof f);
    f.rows = rows;
    f.options = options;
    vit_learn__lay_out(&f, (double *)memory);
    for (c = 0; options->warm && c < classes; c++)
        memcpy(f.next.weights + c * f.stride, weights + c * row, row * sizeof *weights);
    vit_learn__rate(&f);
    start = f.next;
    f.next = f.here;
    f.here = start;
    do {
        vit_learn__find_way(&f);
        if (!vit_learn__step(&f)) break;
        vit_learn__arrive(&f);
    } while (f.next.loss - f.here.loss > 1e-9 * f.here.loss && f.pairs < VIT_LEARN__STEPS);
    for (c = 0; c < classes; c++)
        memcpy(weights + c * row, f.here.weights + c * f.stride, row * sizeof *weights);
    return f.pairs;
}

/* === Sums === */

static size_t vit_learn__triangle(int dim) { return (size_t)dim * ((size_t)dim + 1) / 2; }

VIT_LEARN_API size_t vit_learn_sums_size(int dim, int max_classes, int ridge) {
    return ((size_t)max_classes * ((size_t)dim + 1) + (ridge ? vit_learn__triangle(dim) : 1)) *
           sizeof(double);
}

VIT_LEARN_API vit_learn_sums vit_learn_sums_at(void *memory, int dim, int max_classes, int ridge) {
    vit_learn_sums s;
    s.dim = dim;
    s.max_classes = max_classes;
    s.ridge = ridge;
    s.counts = (double *)memory;
    s.sums = s.counts + max_classes;
    s.squares = s.sums + (size_t)max_classes * (size_t)dim;
    return s;
}

VIT_LEARN_API void vit_learn_clear(vit_learn_sums *s) {
    memset(s->counts, 0, vit_learn_sums_size(s->dim, s->max_classes, s->ridge));
}

VIT_LEARN_API void vit_learn_add(vit_learn_sums *s, const float *x, int index) {
    double *sums = s->sums + (size_t)index * (size_t)s->dim, *to = s->squares;
    int i, k;
    s->counts[index] += 1;
    for (i = 0; i < s->dim; i++) {
        sums[i] += (double)x[i];
        if (!s->ridge) *to += (double)x[i] * (double)x[i];
        for (k = 0; s->ridge && k <= i; k++) *to++ += (double)x[i] * (double)x[k];
    }
}

/* Returns the number of photos, less one for each class with photos: the degrees of freedom of the
 * variances. */
static double vit_learn__freedom(const vit_learn_sums *s) {
    double freedom = 0;
    int c;
    for (c = 0; c < s->max_classes; c++)
        if (s->counts[c] > 1) freedom += s->counts[c] - 1;
    return freedom;
}

static double vit_learn__mean(const vit_learn_sums *s, int c, int i) {
    return s->sums[(size_t)c * (size_t)s->dim + (size_t)i] / s->counts[c];
}

/* Sets the bias of a class with these weights: -mean . weights / 2. */
static void vit_learn__set_bias(const vit_learn_sums *s, int c, double *weights) {
    double sum = 0;
    int i;
    for (i = 0; i < s->dim; i++) sum += weights[i] * vit_learn__mean(s, c, i);
    weights[s->dim] = -0.5 * sum;
}

static void vit_learn__set_none(const vit_learn_sums *s, double *weights) {
    memset(weights, 0, (size_t)s->dim * sizeof *weights);
    weights[s->dim] = -1e30;
}

/* Returns the sum of the squared distances of photos to the mean of their class. */
static double vit_learn__scatter(const vit_learn_sums *s) {
    double sum = 0;
    int c, i;
    if (!s->ridge) sum = s->squares[0];
    for (i = 0; s->ridge && i < s->dim; i++) sum += s->squares[vit_learn__triangle(i + 1) - 1];
    for (c = 0; c < s->max_classes; c++) {
        if (s->counts[c] == 0) continue;
        for (i = 0; i < s->dim; i++) {
            const double mean = vit_learn__mean(s, c, i);
            sum -= s->counts[c] * mean * mean;
        }
    }
    return sum;
}

VIT_LEARN_API int vit_learn_means(const vit_learn_sums *s, double *weights) {
    const double freedom = vit_learn__freedom(s), scatter = vit_learn__scatter(s);
    const int known = freedom > 0 && scatter > 0;
    const double variance = known ? scatter / (freedom * s->dim) : 1;
    int c, i;
    for (c = 0; c < s->max_classes; c++, weights += s->dim + 1) {
        if (s->counts[c] == 0) {
            vit_learn__set_none(s, weights);
            continue;
        }
        for (i = 0; i < s->dim; i++) weights[i] = vit_learn__mean(s, c, i) / variance;
        vit_learn__set_bias(s, c, weights);
    }
    return known;
}

/* Factors the shrunk covariance into L D L^T, with L below the diagonal and D on it. Returns 0 if
 * the covariance has no inverse. */
static int vit_learn__factor(const vit_learn_sums *s, double share, double *l) {
    double all = 0, trace = 0, largest = 0;
    int c, i, k, j;
    for (c = 0; c < s->max_classes; c++) all += s->counts[c];
    for (i = 0; i < s->dim; i++) {
        double *row = l + vit_learn__triangle(i);
        memcpy(row, s->squares + vit_learn__triangle(i), ((size_t)i + 1) * sizeof *row);
        for (c = 0; c < s->max_classes; c++)
            for (k = 0; s->counts[c] > 0 && k <= i; k++)
                row[k] -= s->sums[(size_t)c * (size_t)s->dim + (size_t)i] *
                          vit_learn__mean(s, c, k);
        for (k = 0; k <= i; k++) row[k] /= all;
        trace += row[i];
    }
    for (i = 0; i < s->dim; i++) {
        double *row = l + vit_learn__triangle(i);
        for (k = 0; k <= i; k++) row[k] *= 1 - share;
        row[i] += share * trace / s->dim;
        if (row[i] > largest) largest = row[i];
        for (k = 0; k < i; k++) { /* row[k] becomes an element of L D */
            const double *other = l + vit_learn__triangle(k);
            for (j = 0; j < k; j++) row[k] -= row[j] * other[j];
        }
        for (k = 0; k < i; k++) {
            const double scaled = row[k] / l[vit_learn__triangle(k + 1) - 1];
            row[i] -= row[k] * scaled;
            row[k] = scaled;
        }
        if (!(row[i] > 1e-12 * largest)) return 0;
    }
    return 1;
}

VIT_LEARN_API int vit_learn_ridge(const vit_learn_sums *s, double share, double *scratch,
                                  double *weights) {
    int c, i, k;
    if (!s->ridge || !vit_learn__factor(s, share, scratch)) return 0;
    for (c = 0; c < s->max_classes; c++, weights += s->dim + 1) {
        if (s->counts[c] == 0) {
            vit_learn__set_none(s, weights);
            continue;
        }
        for (i = 0; i < s->dim; i++) {
            const double *row = scratch + vit_learn__triangle(i);
            weights[i] = vit_learn__mean(s, c, i);
            for (k = 0; k < i; k++) weights[i] -= row[k] * weights[k];
        }
        for (i = 0; i < s->dim; i++) weights[i] /= scratch[vit_learn__triangle(i + 1) - 1];
        for (i = s->dim - 1; i >= 0; i--)
            for (k = i + 1; k < s->dim; k++)
                weights[i] -= scratch[vit_learn__triangle(k) + (size_t)i] * weights[k];
        vit_learn__set_bias(s, c, weights);
    }
    return 1;
}

#endif /* VIT_LEARN_IMPLEMENTATION */
