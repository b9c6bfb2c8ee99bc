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
    const char *path; /* path of the file; "-" is standard input */
    /* folder to which the paths of photos in the file are relative, unless they begin with '/' */
    const char *folder;
    int limit;           /* largest number of photos to keep, evenly spaced; 0 means all photos */
    const char *program; /* begins the messages about names of tags that match no class */
} tag_lists_choice;

typedef struct tag_lists {
    photo_list photos; /* photos in the order of the file */
    /* [photos.count + 1]: the classes of photo i are classes[first[i]] to classes[first[i + 1] -
     * 1] */
    int *first;
    /* the classes of all photos; those of one photo are in rising order, without repetition */
    int *classes;
    /* number of different names that match no class or several classes; number of tags with these
     * names */
    int unknown, dropped;
    /* the names of the classes, sorted; only for a list that was read without a model */
    photo_list names;
} tag_lists;

/* Reads a CSV or TSV file with a line "PATH,TAGS" or "PATH<tab>TAGS" for each photo. A first line
 * whose second field is "tags" or "labels" is a header; comments begin with '#'. Each tag is a
 * field of the line, or all tags are in one field. Such a field is split at ';'. If it has none, it
 * is split at '|', else at ',', else at spaces. A photo may have no tags. class_find finds the
 * class of a tag; '_' may therefore stand for a space. Names that match no class or several are
 * dropped; stderr shows ten of them. If no name has a class, the call fails. If `model` is NULL,
 * every name is a class, and spaces do not separate names. On failure there is nothing to free. */
bool tag_lists_read(tag_lists *lists, const tag_lists_choice *choice, const vit_model *model,
                    report *r);
void tag_lists_free(tag_lists *lists);

/* === Photos and their tags === */

/* These functions measure how well a model finds all classes of a photo. A photo may have any
 * number of classes. */

/* Results for one class, over all photos that were read. */
typedef struct tagged_class {
    int photos;               /* number of photos that have the class */
    double average_precision; /* NaN if no photo has the class, here and in f1 */
    double f1;
    /* true positives, false positives and false negatives at the threshold */
    precision_counts counts;
} tagged_class;

/* The results for all classes. The two means are over the classes that at least one photo has;
 * scikit-learn calls such means average="macro". `all` has the sums of all classes' counts
 * (average="micro"). */
typedef struct tagged_results {
    infer_counts photos;
    /* number of all classes; number of classes that at least one photo has */
    int num_classes, occurring;
    tagged_class *classes; /* [num_classes] */
    bool *read;            /* [lists->photos.count]: true if the photo was read */
    /* [lists->photos.count, num_classes]: scores, valid only for photos that were read */
    float *scores;
    double mean_average_precision, mean_f1;
    precision_counts all;
} tagged_results;

/* Computes the scores of all photos by vit_scores. The model finds a class in a photo if the score
 * is at least `above`, the threshold. Set only these settings: model, program, num_threads,
 * decoder and progress. Call tagged_free even after a failure. */
bool tagged_evaluate(const infer_settings *settings, const tag_lists *lists, double above,
                     tagged_results *results, report *r);
float *tagged_scores(const tagged_results *results, int index); /* [num_classes] */
void tagged_free(tagged_results *results);

#endif
