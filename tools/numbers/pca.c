#include "numbers/tokens.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The subspace iteration works on 2 * count + EXTRA vectors, although only `count` components are
 * requested. The additional vectors make it converge faster. */
enum { EXTRA = 12, MAX_STEPS = 1000, MAX_SWEEPS = 60 };
/* The iteration ends when, for each requested component v, the length of C v - variance v is at
 * most this share of the largest variance. */
static const double CONVERGED = 1e-9;

/* The state of one fit by subspace iteration. The iteration multiplies a block of vectors by the
 * covariance matrix C. C is never computed, because the rows of the data are enough to multiply by
 * C. */
typedef struct fit {
    const float *rows;
    const double *mean;
    /* `n` is the number of rows of data, and `width` is the number of rows of the block. */
    int n, dim, width;
    /* [width, dim]: an orthonormal block of vectors, and the product of the block and C. */
    double *block, *next;
    /* [width, width]: the product block * C * transpose(block), and its eigenvectors. */
    double *small, *turn;
    /* [dim]: one row of data minus the mean. */
    double *centred;
} fit;

static double dot(const double *a, const double *b, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *to, double factor, const double *x, int count) {
    for (int i = 0; i < count; i++) to[i] += factor * x[i];
}

static double *row_of(double *matrix, int i, int width) {
    return matrix + (size_t)i * (size_t)width;
}

static void centre(const float *row, const double *mean, double *centred, int dim) {
    for (int d = 0; d < dim; d++) centred[d] = (double)row[d] - mean[d];
}

/* Computes next = block * C. */
static void apply(const fit *f) {
    memset(f->next, 0, (size_t)f->width * (size_t)f->dim * sizeof *f->next);
    for (int i = 0; i < f->n; i++) {
        centre(f->rows + (size_t)i * (size_t)f->dim, f->mean, f->centred, f->dim);
        for (int k = 0; k < f->width; k++) {
            const double along = dot(row_of(f->block, k, f->dim), f->centred, f->dim);
            add_scaled(row_of(f->next, k, f->dim), along / (f->n - 1), f->centred, f->dim);
        }
    }
}

/* Makes the rows of the block orthonormal. Applies Gram-Schmidt twice, which is enough (Giraud,
 * Langou, Rozloznik 2005). A row that is a combination of earlier rows is replaced by a coordinate
 * axis, so that the block keeps its width. */
static void orthonormalise(double *block, int width, int dim) {
    int axis = 0;
    for (int k = 0; k < width; k++) {
        double *row = row_of(block, k, dim), before = sqrt(dot(row, row, dim)), after = 0;
        for (;;) {
            for (int pass = 0; pass < 2; pass++) {
                for (int j = 0; j < k; j++) {
                    const double *other = row_of(block, j, dim);
                    add_scaled(row, -dot(row, other, dim), other, dim);
                }
            }
            after = sqrt(dot(row, row, dim));
            if (after > 1e-10 * before && after > DBL_MIN) break;
            memset(row, 0, (size_t)dim * sizeof *row);
            row[axis++] = before = 1;
        }
        for (int d = 0; d < dim; d++) row[d] /= after;
    }
}

/* === The eigenvectors of a small symmetric matrix, by Jacobi's rotations === */

static void rotate(double *a, double *b, double c, double s, int count, int stride) {
    for (int i = 0; i < count; i++, a += stride, b += stride) {
        const double x = *a, y = *b;
        *a = c * x - s * y;
        *b = s * x + c * y;
    }
}

/* Makes the element (p, q) of the matrix zero by a rotation. */
static void rotate_pair(double *matrix, double *vectors, int p, int q, int width) {
    const double off = row_of(matrix, p, width)[q];
    const double apart = row_of(matrix, q, width)[q] - row_of(matrix, p, width)[p];
    const double theta = apart / (2 * off);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    rotate(matrix + p, matrix + q, c, s, width, width);
    rotate(row_of(matrix, p, width), row_of(matrix, q, width), c, s, width, 1);
    rotate(row_of(vectors, p, width), row_of(vectors, q, width), c, s, width, 1);
}

/* Writes the eigenvectors to the rows of `vectors`. Writes their eigenvalues to the diagonal of
 * `matrix`, in the same order, which is arbitrary. */
static void jacobi(double *matrix, double *vectors, int width) {
    const double tiny = sqrt(dot(matrix, matrix, width * width)) * 1e-17;
    memset(vectors, 0, (size_t)width * (size_t)width * sizeof *vectors);
    for (int i = 0; i < width; i++) row_of(vectors, i, width)[i] = 1;
    for (int sweep = 0, rotations = 1; rotations && sweep < MAX_SWEEPS; sweep++) {
        rotations = 0;
        for (int p = 0; p < width; p++) {
            for (int q = p + 1; q < width; q++) {
                if (fabs(row_of(matrix, p, width)[q]) <= tiny) continue;
                rotate_pair(matrix, vectors, p, q, width);
                rotations++;
            }
        }
    }
}

/* Sorts the eigenvalues on the diagonal so that the largest comes first. The rows of `vectors` are
 * sorted with them. */
static void sort_pairs(double *matrix, double *vectors, int width) {
    for (int k = 0; k < width; k++) {
        int best = k;
        for (int i = k + 1; i < width; i++)
            if (row_of(matrix, i, width)[i] > row_of(matrix, best, width)[best]) best = i;
        const double value = row_of(matrix, best, width)[best];
        row_of(matrix, best, width)[best] = row_of(matrix, k, width)[k];
        row_of(matrix, k, width)[k] = value;
        for (int i = 0; i < width; i++) {
            double *a = row_of(vectors, k, width) + i, *b = row_of(vectors, best, width) + i;
            const double x = *a;
            *a = *b;
            *b = x;
        }
    }
}

/* === The iteration === */

/* Multiplies *rows by f->turn. The result is written to *scratch, which is as large as *rows, and
 * then the two pointers are swapped. */
static void turn_rows(const fit *f, double **rows, double **scratch) {
    double *turned = *scratch;
    memset(turned, 0, (size_t)f->width * (size_t)f->dim * sizeof *turned);
    for (int k = 0; k < f->width; k++) {
        for (int j = 0; j < f->width; j++) {
            add_scaled(row_of(turned, k, f->dim), row_of(f->turn, k, f->width)[j],
                       row_of(*rows, j, f->dim), f->dim);
        }
    }
    *scratch = *rows;
    *rows = turned;
}

/* Rotates the vectors of the block so that they approximate eigenvectors of C as well as any
 * vectors in their span can. `next`, which is block * C, is rotated in the same way. */
static void ritz(fit *f, double **scratch) {
    for (int i = 0; i < f->width; i++) {
        for (int j = 0; j < f->width; j++) {
            row_of(f->small, i, f->width)[j] = dot(row_of(f->block, i, f->dim),
                                                   row_of(f->next, j, f->dim), f->dim);
        }
    }
    for (int i = 0; i < f->width; i++)
        for (int j = 0; j < i; j++)
            row_of(f->small, j, f->width)[i] = row_of(f->small, i, f->width)[j];
    jacobi(f->small, f->turn, f->width);
    sort_pairs(f->small, f->turn, f->width);
    turn_rows(f, &f->block, scratch);
    turn_rows(f, &f->next, scratch);
}

/* Returns the largest length of C v - variance v among the first `count` vectors v. */
static double residual(const fit *f, int count) {
    double worst = 0;
    for (int k = 0; k < count; k++) {
        const double value = row_of(f->small, k, f->width)[k];
        double sum = 0;
        for (int d = 0; d < f->dim; d++) {
            const double off = row_of(f->next, k, f->dim)[d] -
                               value * row_of(f->block, k, f->dim)[d];
            sum += off * off;
        }
        if (sum > worst) worst = sum;
    }
    return sqrt(worst);
}

/* Fills the block with random numbers from splitmix64 (Steele, Lea, Flood). The iteration converges
 * from any start that is not orthogonal to the components. */
static void fill(double *block, size_t count) {
    uint64_t seed = 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        block[i] = (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
    }
}

static bool iterate(fit *f, int count, double **scratch) {
    fill(f->block, (size_t)f->width * (size_t)f->dim);
    for (int step = 0; step < MAX_STEPS; step++) {
        orthonormalise(f->block, f->width, f->dim);
        apply(f);
        ritz(f, scratch);
        if (residual(f, count) <= CONVERGED * fabs(f->small[0])) return true;
        memcpy(f->block, f->next, (size_t)f->width * (size_t)f->dim * sizeof *f->block);
    }
    return false;
}

/* === The result === */

static void find_mean(pca *p, const float *rows, int n) {
    for (int i = 0; i < n; i++)
        for (int d = 0; d < p->dim; d++)
            p->mean[d] += (double)rows[(size_t)i * (size_t)p->dim + (size_t)d];
    for (int d = 0; d < p->dim; d++) p->mean[d] /= n;
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < p->dim; d++) {
            const double off = (double)rows[(size_t)i * (size_t)p->dim + (size_t)d] - p->mean[d];
            p->total += off * off / (n - 1);
        }
    }
}

static void take(pca *p, const fit *f) {
    for (int k = 0; k < p->count; k++) {
        const double *from = row_of(f->block, k, f->dim);
        double *to = row_of(p->components, k, f->dim), largest = 0;
        for (int d = 0; d < f->dim; d++)
            if (fabs(from[d]) > fabs(largest)) largest = from[d];
        for (int d = 0; d < f->dim; d++) to[d] = largest < 0 ? -from[d] : from[d];
        p->variance[k] = row_of(f->small, k, f->width)[k];
        if (p->variance[k] < 0) p->variance[k] = 0;
    }
}

/* Allocates the memory of all arrays as one block. Returns the block, which the caller frees, or
 * NULL if memory is exhausted. */
static double *take_memory(fit *f) {
    const size_t width = (size_t)f->width, block = width * (size_t)f->dim;
    double *memory = calloc(3 * block + 2 * width * width + (size_t)f->dim, sizeof *memory);
    f->block = memory;
    f->next = memory + block;
    f->small = memory + 3 * block;
    f->turn = f->small + width * width;
    f->centred = f->turn + width * width;
    return memory;
}

static bool fit_rows(pca *p, const float *rows, int n, report *r) {
    fit f = { rows, p->mean, n, p->dim, 2 * p->count + EXTRA, NULL, NULL, NULL, NULL, NULL };
    double *memory, *scratch;
    bool good;
    if (f.width > p->dim) f.width = p->dim;
    memory = take_memory(&f);
    if (!memory) return report_no_memory(r);
    scratch = memory + 2 * (size_t)f.width * (size_t)f.dim;
    find_mean(p, rows, n);
    good = isfinite(p->total)
               ? iterate(&f, p->count, &scratch) ||
                     report_fail(
                         r,
                         "principal components: not found in %d steps, because many variances are "
                         "nearly equal",
                         MAX_STEPS)
               : report_fail(r, "principal components: a value is not finite");
    if (good) take(p, &f);
    free(memory);
    return good;
}

bool pca_fit(pca *p, const float *rows, int n, int dim, int count, report *r) {
    bool good;
    memset(p, 0, sizeof *p);
    if (n < 2) return report_fail(r, "principal components need two rows at least, found %d", n);
    p->dim = dim;
    p->count = count > dim ? dim : count;
    if (p->count > n - 1) p->count = n - 1;
    p->mean = calloc((size_t)dim, sizeof *p->mean);
    p->components = calloc((size_t)p->count * (size_t)dim, sizeof *p->components);
    p->variance = calloc((size_t)p->count, sizeof *p->variance);
    good = p->mean && p->components && p->variance ? fit_rows(p, rows, n, r) : report_no_memory(r);
    if (!good) pca_free(p);
    return good;
}

void pca_free(pca *p) {
    free(p->mean);
    free(p->components);
    free(p->variance);
    memset(p, 0, sizeof *p);
}

void pca_project(const pca *p, const float *row, float *coordinates) {
    for (int k = 0; k < p->count; k++) {
        const double *component = p->components + (size_t)k * (size_t)p->dim;
        double sum = 0;
        for (int d = 0; d < p->dim; d++) sum += ((double)row[d] - p->mean[d]) * component[d];
        coordinates[k] = (float)sum;
    }
}
