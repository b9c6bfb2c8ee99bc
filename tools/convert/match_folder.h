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
    int classes; /* folders */
} match_pictures;

/* At most `max` of them, evenly spaced, decoded: as many as that takes `seconds` for. The folders
 * are the classes that labels or numbers say; else they are as many as the classes, in the order of
 * their names. */
bool match_pictures_read(match_pictures *pictures, photo_decoder *decoder, const char *folder,
                         int max, double seconds, const label_list *labels, int num_classes,
                         report *r);
void match_pictures_free(match_pictures *pictures);

/* A value beside the chosen one: how much more cross-entropy it has on the same pictures, on
 * average, and the standard error of that. */
typedef struct match_difference {
    int pictures; /* 0: it was not tried, or is no model; few: it was clearly worse */
    double more, error;
} match_difference;

/* How a row ended. */
typedef struct match_verdict {
    match_difference values[MATCH_MAX_VALUES]; /* none for the chosen one */
    int next;     /* the best of the others; -1: no other makes a difference */
    bool is_open; /* one of them is not clearly worse */
} match_verdict;

typedef struct match_sorting {
    const match_table *table; /* preprocessing first */
    const findings *asked;    /* rows that have no value yet */
    match_model *model;
    const match_pictures *pictures;
    const settings *base;
    double seconds;
    bool quiet;

    match_choice chosen;
    match_verdict verdicts[MATCH_MAX_ROWS];
    double loss;     /* mean cross-entropy of the chosen */
    int used, right; /* pictures, and how many of them the chosen tells */
    int runs;        /* assignments that were measured */
    double took;     /* seconds */

    /* Private. */
    double started;
    cli_progress progress;
    char note[160];
    double *losses, *best; /* of each picture */
    float *logits, *best_logits;
    uint64_t *hashes, *best_hashes; /* of the network and what it was given */
    float *input;
} match_sorting;

/* Fills in the first group and calls this. Free it either way. */
bool match_sorting_run(match_sorting *s, report *r);
void match_sorting_free(match_sorting *s);

#endif
