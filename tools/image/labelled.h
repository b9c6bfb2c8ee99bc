/* labelled.h - labelled photos: a folder with a folder for each class, DIR/CLASS/IMAGE. */
#ifndef LABELLED_H
#define LABELLED_H

#include <stdbool.h>

#include "base/report.h"
#include "image/photos.h"

typedef struct labelled_photos {
    photo_list folders;   /* the names of the folders, sorted; some may have no photos       */
    photo_list photos;    /* what is in and below them, folder by folder, sorted             */
    int *folder;          /* [photos.count]: which of the folders                            */
} labelled_photos;

/* Of more than `limit` photos (0: no limit), so many, evenly spaced. Photos beside the folders have
 * no class and are left out. No photo at all is an error. */
bool labelled_find(labelled_photos *set, const char *root, int limit, report *r);
void labelled_free(labelled_photos *set);

#endif
