/* labels.h - reads the names of the classes from a text file or from timm's config.json, or takes
 * those of ImageNet-1k. */
#ifndef LABELS_H
#define LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/report.h"

typedef struct label_list {
    size_t count;        /* number of classes; 0 if no names are known */
    const char **labels; /* names such as "tench, Tinca tinca" */
    /* WordNet ids such as "n01440764", or other names for the folders of the classes. NULL if there
     * are none. */
    const char **synsets;
    memory_arena memory;
} label_list;

void labels_free(label_list *list);

/* Reads a text file in one of these forms:
 *
 *     the name of one class on each line
 *     on each line a WordNet id, a space and the name of the class
 *     the CSV file of a tagger (selected_tags.csv), whose first line is "tag_id,name,..."
 */
bool labels_read_file(label_list *list, const char *path, report *r);

/* Takes the names from a config.json. `names` is its list label_names. `descriptions` is NULL, a
 * list, or an object whose keys are label_names. If both are given, `names` are ids, and
 * `descriptions` are the names for people. */
bool labels_from_json(label_list *list, const json_value *names, const json_value *descriptions,
                      report *r);

enum { IMAGENET_CLASSES = 1000 };

/* Returns the names of ImageNet-1k's classes as 1000 texts such as "n01440764 tench". Returns NULL
 * in a build without these names (examples/web/vit/left_out.c). */
const char *const *imagenet_classes(void);

/* Fills the list with the names of ImageNet-1k's classes. Fails in a build without these names. */
bool labels_from_imagenet(label_list *list, report *r);

/* Fills the list with copies of these names. */
bool labels_from_list(label_list *list, const char *const *names, size_t count, report *r);

#endif
