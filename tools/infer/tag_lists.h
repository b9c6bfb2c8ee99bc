/* tag_lists.h - which classes are right for each of many photos, in a file. */
#ifndef TAG_LISTS_H
#define TAG_LISTS_H

#include <stdbool.h>

#include "base/report.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

/* What is to be read. */
typedef struct tag_lists_choice {
    const char *path;         /* of the file; "-": standard input                              */
    const char *folder;       /* where photos are whose paths do not begin with '/'            */
    int limit;                /* of more photos, so many are kept, evenly spaced; 0: all       */
    const char *program;      /* begins what is printed of names that are dropped              */
} tag_lists_choice;

typedef struct tag_lists {
    photo_list photos;        /* in the order of the file                                      */
    int *first;               /* [photos.count + 1]: where each photo's begin in classes       */
    int *classes;             /* the classes of each photo, rising, none twice                 */
    int unknown, dropped;     /* names that are no single class of the model, and how often    */
} tag_lists;

/* CSV or TSV: lines "PATH,TAGS" or "PATH<tab>TAGS", where a photo is named once. A first line whose
 * second field is "tags" or "labels" is a header; comments begin with '#'. The tags are fields of
 * the line, or all in one field, separated there by ';', '|', ',' or spaces: the first of these
 * that occurs in it. There may be none. Each is a class as class_find finds them, so '_' may stand
 * for a space. Names that are no class are dropped, and the first ten are named on stderr; if all
 * are, that is a failure. On failure there is nothing to free. */
bool tag_lists_read(tag_lists *lists, const tag_lists_choice *choice, const vit_model *model,
                    report *r);
void tag_lists_free(tag_lists *lists);

#endif
