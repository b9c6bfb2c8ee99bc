/* precision.h - average precision and F1 of scores, and running means of streams. */
#ifndef PRECISION_H
#define PRECISION_H

#include <stdbool.h>
#include <stdint.h>

/* === Average precision === */

/* These functions measure how well scores find the right items among all items, by average
 * precision and F1. */

/* The score of an item. `right` is true if the item should be found. */
typedef struct precision_score {
    float score;
    bool right;
} precision_score;

/* Computes average precision, without interpolation, like scikit-learn's average_precision_score:
 * the sum of the precision times the increase of the recall, over all thresholds from the highest
 * score to the lowest. Items with equal scores are found at the same threshold; items whose score
 * is NaN are found last. The function sorts `scores`. It returns NaN if no item should be
 * found. */
double precision_average(precision_score *scores, int count);

typedef struct precision_counts {
    int64_t found, wrong, missed; /* true positives, false positives, false negatives */
} precision_counts;

/* These functions return the precision, the recall and the F1 score. They return 0 if the divisor
 * is 0, like scikit-learn's zero_division=0. */
double precision_of(const precision_counts *counts);     /* found / (found + wrong) */
double precision_recall(const precision_counts *counts); /* found / (found + missed) */
double precision_f1(const precision_counts *counts);     /* 2 found / (2 found + wrong + missed) */

/* === Running means === */

/* A running mean is the mean of the last few vectors of a stream. It smooths the stream. */

typedef struct running_mean {
    int length, size; /* number of vectors in the mean; number of values in each vector */
    uint64_t added;   /* number of vectors that were added so far */
    float *last;      /* private: [length, size]; vector i is in row i % length */
} running_mean;

/* Opens a running mean of the last `length` vectors of `size` values. Returns false if memory is
 * exhausted; there is then nothing to close. */
bool running_mean_open(running_mean *m, int length, int size);
/* Adds the vector `values` [size], and overwrites it with the mean of the last `length` vectors. If
 * fewer vectors were added, the mean is over all of them. */
void running_mean_add(running_mean *m, float *values);
void running_mean_close(running_mean *m);

#endif
