/* precision.h - how well scores find what is there, and means of streams. */
#ifndef PRECISION_H
#define PRECISION_H

#include <stdbool.h>
#include <stdint.h>

/* === Average precision === */

/* How well scores find what is there: average precision, F1. */

/* The score that a thing was given, and whether it is one of those to be found. */
typedef struct precision_score {
    float score;
    bool right;
} precision_score;

/* Average precision: the sum over all thresholds, from the highest score down, of the precision
 * there times what the recall grew by, without interpolation, as scikit-learn's
 * average_precision_score. Things of equal scores are found together; NaN is found last. Sorts the
 * scores. NaN if none is right. */
double precision_average(precision_score *scores, int count);

typedef struct precision_counts {
    int64_t found, wrong, missed; /* true positives, false positives, false negatives */
} precision_counts;

/* 0 where scikit-learn's zero_division=0 says so: nothing is there, or nothing was found. */
double precision_of(const precision_counts *counts); /* found / (found + wrong)                 */
double precision_recall(const precision_counts *counts); /* found / (found + missed)              */
double precision_f1(const precision_counts *counts); /* 2 found / (2 found + wrong + missed)    */

/* === Running means === */

/* The mean of the last few vectors: what a stream shows, without its noise. */

typedef struct running_mean {
    int length, size; /* of how many vectors, of how many numbers            */
    uint64_t added;   /* vectors so far                                      */
    float *last;      /* [length, size]: vector i at i % length; private     */
} running_mean;

/* False: out of memory, and there is nothing to close. */
bool running_mean_open(running_mean *m, int length, int size);
/* Adds a vector [size], which becomes the mean of the last `length`, or of all while there are not
 * so many; of one it stays as it is. */
void running_mean_add(running_mean *m, float *values);
void running_mean_close(running_mean *m);

#endif
