/* probe.h - how good an embedding is: how often a simple rule upon it names the right class. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>

#include "base/report.h"
#include "infer/infer.h"

/* Neighbours, as DINO reports it (arXiv 2104.14294, eval_knn.py): each photo of `test` gets the
 * class for which its nearest photos of `train` by cosine vote, each with exp(cosine /
 * PROBE_TEMPERATURE).
 *
 * Linear: logistic regression of the training photos' embeddings, each of length 1 (learn.h,
 * with c = PROBE_C). */
#define PROBE_TEMPERATURE 0.07
#define PROBE_C           10.0
enum { PROBE_NEIGHBORS = 20 };

/* train and test are folders DIR/CLASS/IMAGE; every class of test must be one of train. */
typedef struct probe_choice {
    const char *train, *test;
    int limit;     /* photos of each; 0: all */
    int neighbors; /* 0: linear              */
} probe_choice;

typedef struct probe_counts {
    int train, test, unreadable; /* photos; unreadable ones of both are in neither          */
    int right, top5;             /* of test: its class has the most votes, or the 5 most    */
    int steps;                   /* of the linear one's fit                                 */
} probe_counts;

/* settings: model, program, num_threads, photos and progress. The embeddings are held in
 * memory. */
bool probe_evaluate(const infer_settings *settings, const probe_choice *choice,
                    probe_counts *counts, report *r);

#endif
