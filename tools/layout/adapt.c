#include "layout/adapt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* === The pseudo-inverse of resizing one side ===
 * A resize of both sides is the Kronecker product of two of one side, and so is its inverse. */

/* b [to, from]: the share of each old pixel in each new one, which a resize of unit vectors gives.
 * False: out of memory. */
static bool make_resize(double *b, int from, int to, vit_pos_resample how)
{
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

/* gram [n, n]: the products of the rows, or columns, of b [rows, columns] with each other. */
static void make_gram(const double *b, int rows, int columns, bool of_columns, double *gram)
{
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

/* x [n, columns] = the solution of gram x = x, by Gauss and Jordan. No rows are swapped: gram is
 * positive definite. False: it has no solution. */
static bool solve(double *gram, double *x, int n, int columns)
{
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

/* to [columns, rows] */
static void transpose(const double *from, int rows, int columns, double *to)
{
    int i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

/* (B' B)^-1 B' where the patch grows, else B' (B B')^-1, which is the transpose of what
 * (B B') x = B has for x. work: [new, old] and then [n, n]. */
static bool invert(const adaptation *a, double *work)
{
    const int old = a->from.side, new = a->to.side;
    const bool grows = new > old;
    double *gram = work + (size_t)old * (size_t)new;
    make_gram(work, new, old, grows, gram);
    if (grows) {
        transpose(work, new, old, a->inverse);
        return solve(gram, a->inverse, old, new);
    }
    if (!solve(gram, work, new, old)) return false;
    transpose(work, new, old, a->inverse);
    return true;
}

/* Whatever was allocated, adapt_free frees, after a failure too. */
static bool start_patch(adaptation *a, vit_pos_resample how, report *r)
{
    const size_t old = (size_t)a->from.side, new = (size_t)a->to.side;
    const size_t small = old < new ? old : new;
    double *work = malloc((old * new + small * small) * sizeof *work);
    bool good;
    a->inverse = malloc(old * new * sizeof *a->inverse);
    a->plane = malloc(old * old * sizeof *a->plane);
    a->middle = malloc(old * new * sizeof *a->middle);
    how = how == VIT_RESAMPLE_FLEXIVIT ? how : VIT_RESAMPLE_TIMM;
    good = work && a->inverse && a->plane && a->middle &&
           make_resize(work, a->from.side, a->to.side, how);
    if (!good) (void)report_no_memory(r);
    else if (!invert(a, work))
        good = report_fail(r, "--patch-size %d: a resize of patches of %d has no inverse",
                           a->to.side, a->from.side);
    free(work);
    return good;
}

/* === The weights === */

/* Channel c of the new ones, at the old size. */
static void mix_channels(const adaptation *a, const float *from, int c, double *plane)
{
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

/* out [new, new] = inverse' plane inverse */
static void resize_plane(const adaptation *a, float *out)
{
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
                 vit_pos_resample how, report *r)
{
    memset(a, 0, sizeof *a);
    a->from = *from;
    a->to = *to;
    if (from->side != to->side) return start_patch(a, how, r);
    a->plane = malloc((size_t)from->side * (size_t)from->side * sizeof *a->plane);
    return a->plane ? true : report_no_memory(r);
}

void adapt_row(const adaptation *a, const float *from, float *to)
{
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

void adapt_free(adaptation *a)
{
    free(a->inverse);
    free(a->plane);
    free(a->middle);
}
