/* probe.h - measures an embedding by the accuracy of a simple classifier on it. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>

#include "base/report.h"
#include "infer/infer.h"

/* Neighbours, as in DINO (arXiv 2104.14294, eval_knn.py): the nearest photos of `train` by cosine
 * vote for the class of each photo of `test`, each with exp(cosine / PROBE_TEMPERATURE).
 *
 * Linear: logistic regression of the training photos' embeddings, each of length 1 (learn.h,
 * with c = PROBE_C). */
#define PROBE_TEMPERATURE 0.07
#define PROBE_C           10.0
enum { PROBE_NEIGHBORS = 20 };

/* train and test are folders DIR/CLASS/IMAGE; every class of test must be one of train. */
typedef struct probe_choice {
    const char *train, *test;
    int limit;     /* limit of photos of each; 0 for all */
    int neighbors; /* 0: linear */
} probe_choice;

typedef struct probe_counts {
    int train, test, unreadable; /* numbers of photos, without unreadable ones */
    int right, top5; /* test photos whose class has the most votes, or is among the top 5 */
    int steps;       /* steps of the logistic regression */
} probe_counts;

/* settings: model, program, num_threads, photos and progress. Memory holds all embeddings. */
bool probe_evaluate(const infer_settings *settings, const probe_choice *choice,
                    probe_counts *counts, report *r);

#endif
