/* sort.h - photos into folders by class: links, copies, or the photos themselves. */
#ifndef SORT_H
#define SORT_H

#include <stdbool.h>

#include "base/report.h"

typedef enum sort_way { SORT_LINK, SORT_COPY, SORT_MOVE } sort_way;

typedef enum sort_result { SORT_FAILED, SORT_PLACED, SORT_THERE, SORT_GONE } sort_result;

typedef struct photo_sorter {
    const char *folder; /* the caller's                                            */
    sort_way way;
    bool dry;     /* nothing is written                                      */
    char **names; /* private: of the folders in it, one for each class       */
    int num_names;
} photo_sorter;

/* Whether this system has links that anyone may make. */
bool sort_can_link(void);

/* The folder of a class is called by its label, labels[i], without what a file system or Windows
 * takes for something else; where it has none (NULL), or several have one that is the same up to
 * case, by its number as well. On failure there is nothing to close. */
bool sort_open(photo_sorter *s, const char *const *labels, int count, report *r);
void sort_close(photo_sorter *s); /* also of zeros */

/* Puts a photo into the folder of a class, under its own name or, where that is taken, as NAME-2,
 * NAME-3 ...; what is there is never replaced. SORT_THERE: an earlier call, of this run or another,
 * has put it there. SORT_GONE: it has no file any more. *target, malloc'ed, is the place, or of a
 * dry run the folder; NULL if it failed. What appears is complete: a copy gets its name at the end. */
sort_result sort_place(photo_sorter *s, const char *photo, int class, char **target, report *r);

#endif
