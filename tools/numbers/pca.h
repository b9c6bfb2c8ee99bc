/* pca.h - principal components: the directions in which rows differ most. */
#ifndef PCA_H
#define PCA_H

#include <stdbool.h>

#include "base/report.h"

/* The result of pca_fit. The components have length 1, and the first has the most variance. The
 * sign is arbitrary, so each one's largest element in magnitude is positive. */
typedef struct pca {
    int dim, count;     /* elements of a row; number of components */
    double *mean;       /* [dim] */
    double *components; /* [count, dim] */
    double *variance;   /* [count]: variance that each explains, divided by rows - 1 */
    double total;       /* variance of the rows in all */
} pca;

/* Finds the first `count` components of rows [n, dim], like sklearn's PCA; fewer if n - 1 or dim is
 * less. The method is subspace iteration with a Rayleigh-Ritz step (Saad, Numerical Methods for
 * Large Eigenvalue Problems, 5.1 and 5.2). n must be at least 2, and all values finite. Empty on
 * failure. */
bool pca_fit(pca *p, const float *rows, int n, int dim, int count, report *r);
void pca_free(pca *p);

/* A row's coordinates along the components, [count]. */
void pca_project(const pca *p, const float *row, float *coordinates);

#endif
