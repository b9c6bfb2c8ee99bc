/* tagged.h - how well a model finds all classes of a photo that has any number of them. */
#ifndef TAGGED_H
#define TAGGED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "infer/infer.h"
#include "infer/tag_lists.h"
#include "numbers/precision.h"

/* Of one class, over all photos that were read. */
typedef struct tagged_class {
    int photos;                   /* that have it                                             */
    double average_precision;     /* NaN if none has, in this and f1                          */
    double f1;
    precision_counts counts;      /* at the threshold                                         */
} tagged_class;

/* Means are over the classes that some photo has, as scikit-learn's with average="macro" and these
 * as labels; `all` adds up all classes, as with average="micro". */
typedef struct tagged_results {
    infer_counts photos;
    int num_classes, occurring;   /* of the model; of them, those that some photo has         */
    tagged_class *classes;        /* [num_classes]                                            */
    bool *read;                   /* [photos of the lists]                                    */
    float *scores;                /* [photos of the lists, num_classes], of those             */
    double mean_average_precision, mean_f1;
    precision_counts all;
} tagged_results;

/* Scores by vit_scores; a class is found where its score is at least `above`. settings: model,
 * program, num_threads, photos and progress. Free the results either way. */
bool tagged_evaluate(const infer_settings *settings, const tag_lists *lists, double above,
                     tagged_results *results, report *r);
float *tagged_scores(const tagged_results *results, int index);   /* [num_classes] */
void tagged_free(tagged_results *results);

#endif
