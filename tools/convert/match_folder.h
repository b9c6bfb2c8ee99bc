/* match_folder.h - labelled pictures, a folder for each class, and which values of a table let a
 * model tell their classes best.
 */
#ifndef MATCH_FOLDER_H
#define MATCH_FOLDER_H

#include "cli/progress.h"
#include "convert/match_model.h"
#include "convert/match_options.h"
#include "image/photos.h"

typedef struct match_picture {
    vit_image image;
    int class_index;
} match_picture;

typedef struct match_pictures {
    match_picture *items;
    int count;
    int classes;           /* folders */
} match_pictures;

/* At most `max` of them, evenly spaced, decoded. The folders are the classes that labels or numbers
 * say; else they are as many as the classes, in the order of their names. */
bool match_pictures_read(match_pictures *pictures, const char *folder, int max,
                         const label_list *labels, int num_classes, report *r);
void match_pictures_free(match_pictures *pictures);

/* How a row ended. */
typedef struct match_verdict {
    int next;              /* the value that is second; -1: there is none */
    double next_loss;      /* its mean cross-entropy */
    bool is_open;          /* it is not clearly worse: see match_folder.c */
} match_verdict;

typedef struct match_sorting {
    const match_table *table;
    match_model *model;
    const match_pictures *pictures;
    const settings *base;
    double seconds;
    bool quiet;

    match_choice chosen;
    match_verdict verdicts[MATCH_MAX_ROWS];
    double loss;           /* mean cross-entropy of the chosen */
    int used, right;       /* pictures, and how many of them the chosen tells */
    int runs;              /* assignments that were measured */
    double took;           /* seconds */

    /* Private. */
    double started;
    cli_progress progress;
    double *losses, *best;   /* of each picture */
    float *input, *output;
    photo_reader reader;
} match_sorting;

/* Fills in the first group and calls this. Free it either way. */
bool match_sorting_run(match_sorting *s, report *r);
void match_sorting_free(match_sorting *s);

#endif
