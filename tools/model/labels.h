/* labels.h - the names of the classes, from a text file, from timm's config.json, or
 * those of ImageNet-1k. */
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
    const char **synsets; /* "n01440764", or another name of a class's folder; or NULL */
    memory_arena memory;
} label_list;

void labels_free(label_list *list);

/* One class a line, or on every line a WordNet id, a space and the words; or the CSV file of a
 * tagger, whose first line is "tag_id,name,...": selected_tags.csv. */
bool labels_read_file(label_list *list, const char *path, report *r);

/* label_names: a list; label_descriptions: NULL, a list, or an object keyed by label_names. If both
 * are given, the names are ids and the descriptions are for people. */
bool labels_from_json(label_list *list, const json_value *names, const json_value *descriptions,
                      report *r);

enum { IMAGENET_CLASSES = 1000 };

/* "n01440764 tench" and so on; NULL in a build without them (examples/web/vit/left_out.c). */
const char *const *imagenet_classes(void);

/* Takes the names of ImageNet-1k; fails in a build without them. */
bool labels_from_imagenet(label_list *list, report *r);

/* Copies the names unchanged. */
bool labels_from_list(label_list *list, const char *const *names, size_t count, report *r);

#endif
