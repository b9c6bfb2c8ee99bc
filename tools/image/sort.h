/* sort.h - sorts photos into a folder for each class. It makes links or copies, or moves the
 * photos. */
#ifndef SORT_H
#define SORT_H

#include <stdbool.h>

#include "base/report.h"

typedef enum sort_way { SORT_LINK, SORT_COPY, SORT_MOVE } sort_way;

typedef enum sort_result { SORT_FAILED, SORT_PLACED, SORT_THERE, SORT_GONE } sort_result;

typedef struct photo_sorter {
    /* the folder that contains the folders of the classes; the caller owns this text */
    const char *folder;
    sort_way way;
    bool dry;     /* if true, nothing is written */
    char **names; /* private: [num_names], the name of the folder of each class */
    int num_names;
} photo_sorter;

/* True if this system allows every user to make symbolic links. */
bool sort_can_link(void);

/* Opens a sorter. The folder of class i is named labels[i], with '_' for characters that some
 * systems forbid. Without a label, the name is "class 7", for example. If labels differ at most in
 * case, the names also have the classes' numbers. On failure there is nothing to close. */
bool sort_open(photo_sorter *s, const char *const *labels, int count, report *r);
void sort_close(photo_sorter *s); /* also accepts a zeroed sorter */

/* Puts a photo into the folder of a class. The photo keeps its file name NAME; if another file has
 * this name, the photo gets the name NAME-2, NAME-3 and so on. Existing files are never replaced.
 * Returns SORT_THERE if an earlier call, in this run or another, has put the photo there, and
 * SORT_GONE if the photo's file no longer exists. *target becomes the new path of the photo,
 * malloc'ed; in a dry run, it is the path of the folder. *target is NULL after SORT_FAILED and
 * SORT_GONE. A copy is written under a temporary name and renamed when it is complete. */
sort_result sort_place(photo_sorter *s, const char *photo, int class, char **target, report *r);

#endif
