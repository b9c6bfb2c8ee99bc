/* logistic.h - multinomial logistic regression: a linear classifier upon vectors. */
#ifndef LOGISTIC_H
#define LOGISTIC_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

/* Vectors [count, dim], and the class of each, from 0 on. */
typedef struct logistic_rows {
    const float *values;
    const int *classes;
    int count, dim, num_classes;
} logistic_rows;

/* Weights [num_classes, dim + 1], a bias last, that minimise the sum of the rows' cross-entropies
 * plus |weights|^2 / (2 c), without the biases: what scikit-learn's LogisticRegression(C=c) does,
 * and like it by L-BFGS (Liu and Nocedal 1989), until a step no longer lowers that by 1e-9 of it.
 * In double and in a fixed order: the same bits for any number of threads. Returns the number of
 * steps; -1: out of memory. */
int logistic_fit(const logistic_rows *rows, double c, const vit_executor *executor,
                 double *weights);

/* Scores of each class for one vector, before a softmax. */
void logistic_scores(const double *weights, int num_classes, const float *x, int dim,
                     double *scores);

#endif
