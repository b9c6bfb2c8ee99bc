/* sort.h - puts photos into folders by class, as links or copies, or moves the photos. */
#ifndef SORT_H
#define SORT_H

#include <stdbool.h>

#include "base/report.h"

typedef enum sort_way { SORT_LINK, SORT_COPY, SORT_MOVE } sort_way;

typedef enum sort_result { SORT_FAILED, SORT_PLACED, SORT_THERE, SORT_GONE } sort_result;

typedef struct photo_sorter {
    const char *folder; /* memory of the caller */
    sort_way way;
    bool dry;     /* nothing is written */
    char **names; /* private: folder names, one for each class */
    int num_names;
} photo_sorter;

/* True if this system lets any user make links. */
bool sort_can_link(void);

/* Opens a sorter. The folder of class i has the name labels[i], without characters that are special
 * to a file system or Windows. If the class has no label (NULL), or if several labels differ only
 * in case, the number of the class is appended. On failure there is nothing to close. */
bool sort_open(photo_sorter *s, const char *const *labels, int count, report *r);
void sort_close(photo_sorter *s); /* also accepts zeros */

/* Puts a photo into the folder of a class, under its own name or, if this name is taken, as NAME-2,
 * NAME-3 ... Existing files are never replaced. Returns SORT_THERE if an earlier call, in this run
 * or another, has put the photo there, and SORT_GONE if the photo's file no longer exists. *target,
 * malloc'ed, becomes the path of the photo, or of the folder in a dry run; NULL on failure. New
 * files are complete: a copy gets its name at the end. */
sort_result sort_place(photo_sorter *s, const char *photo, int class, char **target, report *r);

#endif
