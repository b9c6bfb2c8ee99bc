#include "numbers/tokens.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float *token(const tokens_patches *t, int i)
{
    return t->values + (size_t)i * (size_t)t->dim;
}

static bool is_border(vit_grid grid, int i)
{
    const int patch = i % (grid.height * grid.width);
    const int y = patch / grid.width, x = patch % grid.width;
    return y == 0 || x == 0 || y == grid.height - 1 || x == grid.width - 1;
}

/* Copies the foreground, so far in place of all. Returns how many there are. */
static int take_foreground(const tokens_patches *t, const pca *first, float *taken, bool *is_taken)
{
    double border = 0;
    float along;
    int count = 0;
    for (int i = 0; i < t->count; i++) {
        if (!is_border(t->grid, i)) continue;
        pca_project(first, token(t, i), &along);
        border += (double)along;
    }
    for (int i = 0; i < t->count; i++) {
        pca_project(first, token(t, i), &along);
        is_taken[i] = border > 0 ? along < 0 : along > 0;
        if (!is_taken[i]) continue;
        memcpy(taken + (size_t)count++ * (size_t)t->dim, token(t, i),
               (size_t)t->dim * sizeof *taken);
    }
    return count;
}

static void project(const tokens_patches *t, const bool *is_taken, const pca *p, float *to)
{
    for (int i = 0; i < t->count; i++, to += TOKENS_COMPONENTS) {
        for (int k = 0; k < TOKENS_COMPONENTS; k++) to[k] = is_taken && !is_taken[i] ? NAN : 0;
        if (!is_taken || is_taken[i]) pca_project(p, token(t, i), to);
    }
}

static bool fit_foreground(const tokens_patches *t, float *taken, bool *is_taken, pca *p,
                           report *r)
{
    pca first;
    int count;
    if (!pca_fit(&first, t->values, t->count, t->dim, 1, r)) return false;
    count = take_foreground(t, &first, taken, is_taken);
    pca_free(&first);
    return pca_fit(p, taken, count, t->dim, TOKENS_COMPONENTS, r);
}

bool tokens_components(const tokens_patches *t, bool foreground, pca *p, float *coordinates,
                       report *r)
{
    float *taken = NULL;
    bool *is_taken = NULL, good = true;
    memset(p, 0, sizeof *p);
    if (foreground) {
        taken = malloc((size_t)t->count * (size_t)t->dim * sizeof *taken);
        is_taken = calloc((size_t)t->count, sizeof *is_taken);
        good = taken && is_taken ? fit_foreground(t, taken, is_taken, p, r) : report_no_memory(r);
    } else {
        good = pca_fit(p, t->values, t->count, t->dim, TOKENS_COMPONENTS, r);
    }
    if (good) project(t, is_taken, p, coordinates);
    free(taken);
    free(is_taken);
    return good;
}
