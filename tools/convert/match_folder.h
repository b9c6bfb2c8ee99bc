/* match_folder.h - finds the values of a table with which a model classifies labelled pictures
 * best; the pictures of each class have a folder.
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

/* Reads at most `max` pictures, evenly spaced, and stops after `seconds` of decoding. The names of
 * the folders are labels or numbers of classes. Otherwise there must be one folder for each class,
 * and their sorted names are the classes in order. */
bool match_pictures_read(match_pictures *pictures, photo_decoder *decoder, const char *folder,
                         int max, double seconds, const label_list *labels, int num_classes,
                         report *r);
void match_pictures_free(match_pictures *pictures);

/* A value compared with the chosen one: its additional mean cross-entropy on the same pictures, and
 * the standard error of that. */
typedef struct match_difference {
    int pictures; /* pictures compared; 0: not tried, or no model; few: clearly worse */
    double more, error;
} match_difference;

/* The result of a row. */
typedef struct match_verdict {
    match_difference values[MATCH_MAX_VALUES]; /* empty for the chosen one */
    int next;     /* the best other value; -1 if no other makes a difference */
    bool is_open; /* another value is not clearly worse */
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
    double loss;     /* mean cross-entropy of the chosen assignment */
    int used, right; /* pictures used, and those classified correctly */
    int runs;        /* measured assignments */
    double took;     /* seconds */

    /* Private. */
    double started;
    cli_progress progress;
    char note[160];
    double *losses, *best; /* of each picture */
    float *logits, *best_logits;
    uint64_t *hashes, *best_hashes; /* hash of the network and its input */
    float *input;
} match_sorting;

/* Fill in the first group before this call. Free it in any case. */
bool match_sorting_run(match_sorting *s, report *r);
void match_sorting_free(match_sorting *s);

#endif
