/* tags.h - several tags for each photo: their lists, and how well a model finds them. */
#ifndef TAGS_H
#define TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "image/photos.h"
#include "infer/infer.h"
#include "numbers/precision.h"
#define VIT_TOOLS
#include "vit.h"

/* === Lists of tags === */

/* Which classes are right for each of many photos, in a file. */

/* What is to be read. */
typedef struct tag_lists_choice {
    const char *path;    /* of the file; "-": standard input                              */
    const char *folder;  /* where photos are whose paths do not begin with '/'            */
    int limit;           /* of more photos, so many are kept, evenly spaced; 0: all       */
    const char *program; /* begins what is printed of names that are dropped              */
} tag_lists_choice;

typedef struct tag_lists {
    photo_list photos;    /* in the order of the file                                      */
    int *first;           /* [photos.count + 1]: where each photo's begin in classes       */
    int *classes;         /* the classes of each photo, rising, none twice                 */
    int unknown, dropped; /* names that are no single class of the model, and how often    */
    photo_list names;     /* without a model: those of the classes, sorted                 */
} tag_lists;

/* CSV or TSV: lines "PATH,TAGS" or "PATH<tab>TAGS", where a photo is named once. A first line whose
 * second field is "tags" or "labels" is a header; comments begin with '#'. The tags are fields of
 * the line, or all in one field, separated there by ';', '|', ',' or spaces: the first of these
 * that occurs in it. There may be none. Each is a class as class_find finds them, so '_' may stand
 * for a space. Names that are no class are dropped, and the first ten are named on stderr; if all
 * are, that is a failure. Without a model, the classes are all names, and spaces separate none. On
 * failure there is nothing to free. */
bool tag_lists_read(tag_lists *lists, const tag_lists_choice *choice, const vit_model *model,
                    report *r);
void tag_lists_free(tag_lists *lists);

/* === Photos and their tags === */

/* How well a model finds all classes of a photo that has any number of them. */

/* Of one class, over all photos that were read. */
typedef struct tagged_class {
    int photos;               /* that have it                                             */
    double average_precision; /* NaN if none has, in this and f1                          */
    double f1;
    precision_counts counts; /* at the threshold                                         */
} tagged_class;

/* Means are over the classes that some photo has, as scikit-learn's with average="macro" and these
 * as labels; `all` adds up all classes, as with average="micro". */
typedef struct tagged_results {
    infer_counts photos;
    int num_classes, occurring; /* of the model; of them, those that some photo has         */
    tagged_class *classes;      /* [num_classes]                                            */
    bool *read;                 /* [photos of the lists]                                    */
    float *scores;              /* [photos of the lists, num_classes], of those             */
    double mean_average_precision, mean_f1;
    precision_counts all;
} tagged_results;

/* Scores by vit_scores; a class is found where its score is at least `above`. settings: model,
 * program, num_threads, photos and progress. Free the results either way. */
bool tagged_evaluate(const infer_settings *settings, const tag_lists *lists, double above,
                     tagged_results *results, report *r);
float *tagged_scores(const tagged_results *results, int index); /* [num_classes] */
void tagged_free(tagged_results *results);

#endif
