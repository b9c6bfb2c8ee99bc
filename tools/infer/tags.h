/* tags.h - reads lists with several tags per photo, and measures how well a model finds them. */
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

/* A file lists the right classes of many photos. */

/* The options for reading a list. */
typedef struct tag_lists_choice {
    const char *path;    /* path of the file; "-": standard input */
    const char *folder;  /* folder for paths that do not begin with '/' */
    int limit;           /* keeps this many photos, evenly spaced; 0 for all */
    const char *program; /* begins the messages about dropped names */
} tag_lists_choice;

typedef struct tag_lists {
    photo_list photos;    /* photos in the order of the file */
    int *first;           /* [photos.count + 1]: where the tags of each photo begin in classes */
    int *classes;         /* the classes of each photo, rising and unique */
    int unknown, dropped; /* number of names without a unique class; number of their uses */
    photo_list names;     /* without a model: the names of the classes, sorted */
} tag_lists;

/* Reads CSV or TSV: lines "PATH,TAGS" or "PATH<tab>TAGS", one for each photo. A first line whose
 * second field is "tags" or "labels" is a header; comments begin with '#'. Each tag is a field of
 * the line, or all tags are in one field. Within a field, the separator is the first of ';', '|',
 * ',' and space that occurs in it. A photo may have no tags. class_find looks up tags; '_' may
 * therefore stand for a space. Names without a class are dropped; the first ten are printed on
 * stderr. If no name has a class, the call fails. Without a model, every name is a class, and
 * spaces do not separate names. On failure there is nothing to free. */
bool tag_lists_read(tag_lists *lists, const tag_lists_choice *choice, const vit_model *model,
                    report *r);
void tag_lists_free(tag_lists *lists);

/* === Photos and their tags === */

/* Measures how well a model finds all classes of photos, each of which may have any number of
 * classes. */

/* Results for one class, over all photos that were read. */
typedef struct tagged_class {
    int photos;               /* number of photos that have the class */
    double average_precision; /* NaN if no photo has the class, here and in f1 */
    double f1;
    precision_counts counts; /* counts at the threshold */
} tagged_class;

/* The means are over all classes that at least one photo has, like scikit-learn's average="macro"
 * with these labels. `all` adds up all classes, like average="micro". */
typedef struct tagged_results {
    infer_counts photos;
    int num_classes, occurring; /* number of all classes; number of classes that a photo has */
    tagged_class *classes;      /* [num_classes] */
    bool *read;                 /* [photos of the lists]: true if the photo was read */
    float *scores;              /* [photos of the lists, num_classes]: scores of the photos read */
    double mean_average_precision, mean_f1;
    precision_counts all;
} tagged_results;

/* Computes scores by vit_scores; finds a class if its score is at least `above`. Uses these
 * settings: model, program, num_threads, decoder and progress. Free the results in any case. */
bool tagged_evaluate(const infer_settings *settings, const tag_lists *lists, double above,
                     tagged_results *results, report *r);
float *tagged_scores(const tagged_results *results, int index); /* [num_classes] */
void tagged_free(tagged_results *results);

#endif
