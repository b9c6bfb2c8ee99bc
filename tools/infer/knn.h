/* knn.h - how good an embedding is: the accuracy of its nearest neighbours' votes. */
#ifndef KNN_H
#define KNN_H

#include <stdbool.h>

#include "base/report.h"
#include "infer/infer.h"

/* As DINO reports it (arXiv 2104.14294, eval_knn.py): each photo of `test` gets the class for which
 * its nearest photos of `train` by cosine vote, each with exp(cosine / KNN_TEMPERATURE). */
#define KNN_TEMPERATURE 0.07
enum { KNN_NEIGHBORS = 20 };

typedef struct knn_counts {
    int train, test, unreadable;   /* photos; unreadable ones of both are in neither    */
    int right, top5;               /* of test: its class has the most votes, or the 5 most */
} knn_counts;

/* settings: model, program, num_threads, no_exif and progress. train and test are folders
 * DIR/CLASS/IMAGE, of each at most `limit` photos (0: all); every class of test must be one of
 * train. Their embeddings are held in memory. */
bool knn_evaluate(const infer_settings *settings, const char *train, const char *test, int limit,
                  int neighbors, knn_counts *counts, report *r);

#endif
