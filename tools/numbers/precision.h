/* precision.h - average precision and F1 of scores, and running means of streams. */
#ifndef PRECISION_H
#define PRECISION_H

#include <stdbool.h>
#include <stdint.h>

/* === Average precision === */

/* Measures how well scores find items, by average precision and F1. */

/* The score of an item, and whether the item should be found. */
typedef struct precision_score {
    float score;
    bool right;
} precision_score;

/* Computes average precision, without interpolation, like scikit-learn's average_precision_score:
 * the sum of precision times increase of recall, over all thresholds from the highest score down.
 * Items with equal scores are found together; items with NaN are found last. Sorts the scores. The
 * result is NaN if no item should be found. */
double precision_average(precision_score *scores, int count);

typedef struct precision_counts {
    int64_t found, wrong, missed; /* true positives, false positives, false negatives */
} precision_counts;

/* These functions return 0 if there are no items to find, or if no item was found, like
 * scikit-learn's zero_division=0. */
double precision_of(const precision_counts *counts);     /* found / (found + wrong) */
double precision_recall(const precision_counts *counts); /* found / (found + missed) */
double precision_f1(const precision_counts *counts);     /* 2 found / (2 found + wrong + missed) */

/* === Running means === */

/* The mean of the last few vectors, which smooths a stream. */

typedef struct running_mean {
    int length, size; /* number of vectors; number of values in each vector */
    uint64_t added;   /* number of vectors so far */
    float *last;      /* [length, size]: vector i at i % length; private */
} running_mean;

/* Returns false if memory is exhausted; then there is nothing to close. */
bool running_mean_open(running_mean *m, int length, int size);
/* Adds a vector [size], and replaces it by the mean of the last `length` vectors, or of all vectors
 * if there are fewer. */
void running_mean_add(running_mean *m, float *values);
void running_mean_close(running_mean *m);

#endif
