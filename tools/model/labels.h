/* labels.h - the names of the classes: from a text file, from timm's config.json, or
 * ImageNet-1k's. */
#ifndef LABELS_H
#define LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/report.h"

typedef struct label_list {
    size_t count;         /* 0: none */
    const char **labels;  /* "tench, Tinca tinca" */
    const char **synsets; /* "n01440764", or another name for the folder of a class; or NULL */
    memory_arena memory;
} label_list;

void labels_free(label_list *list);

/* Reads a file of one of these forms: a class on each line; a WordNet id, a space and the words on
 * each line; the CSV file of a tagger (selected_tags.csv), whose first line is
 * "tag_id,name,...". */
bool labels_read_file(label_list *list, const char *path, report *r);

/* label_names is a list; label_descriptions is NULL, a list, or an object with label_names as keys.
 * If both are given, the names are ids and the descriptions are for people. */
bool labels_from_json(label_list *list, const json_value *names, const json_value *descriptions,
                      report *r);

enum { IMAGENET_CLASSES = 1000 };

/* Returns the lines "n01440764 tench" and so on; NULL in a build without these names
 * (examples/web/vit/left_out.c). */
const char *const *imagenet_classes(void);

/* Takes the names of ImageNet-1k; fails in a build without them. */
bool labels_from_imagenet(label_list *list, report *r);

/* Copies the names unchanged. */
bool labels_from_list(label_list *list, const char *const *names, size_t count, report *r);

#endif
