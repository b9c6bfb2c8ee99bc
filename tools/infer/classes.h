/* classes.h - which class of a model a name stands for: of a folder of photos, or in a map. */
#ifndef CLASSES_H
#define CLASSES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

enum { CLASS_NONE = -1, CLASS_AMBIGUOUS = -2 };

/* By synset id, label, one of the names of a label such as "tabby, tabby cat", or number: the first
 * of these kinds that finds one decides. Letters of either case are the same, and '_' and ' '. */
int class_find(const vit_model *model, const char *name);

/* A class by its label, or by its number: "class 7", in text of `size` bytes. */
const char *class_name(const vit_model *model, int index, char *text, size_t size);

/* The classes of folders with other names: the lines of a file, "FOLDER<tab>CLASS", or with a space
 * if FOLDER has none; comments begin with '#'. */
typedef struct class_map {
    photo_list folders;
    int *classes;
} class_map;

/* On failure there is nothing to free. */
bool class_map_read(class_map *map, const vit_model *model, const char *path, report *r);
void class_map_free(class_map *map);

/* The map's class of a folder, or class_find's. */
int class_map_find(const class_map *map, const vit_model *model, const char *folder);

/* Folders that are no class are named on stderr, the first ten of them. False if there are any. */
bool class_map_all(const class_map *map, const vit_model *model, const photo_list *folders,
                   const char *program, int *classes);

#endif
