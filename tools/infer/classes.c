#include "infer/classes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

/* === Finding one name === */

/* Returns true if the first `length` bytes of `piece` equal the name. The case of letters is
 * ignored, and '_' counts as a space. */
static bool same_name(const char *piece, size_t length, const char *name) {
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; i++) {
        int a = tolower((unsigned char)piece[i]), b = tolower((unsigned char)name[i]);
        if ((a == '_' ? ' ' : a) != (b == '_' ? ' ' : b)) return false;
    }
    return true;
}

/* Returns true if the name is one of the names in a label, which are separated by commas. An
 * example is ImageNet's label "tabby, tabby cat". */
static bool is_alias(const char *label, const char *name) {
    while (*label) {
        size_t length = strcspn(label, ",");
        if (same_name(label, length, name)) return true;
        label += length;
        label += strspn(label, ", ");
    }
    return false;
}

typedef bool matcher(const vit_model *model, int index, const char *name);

static bool match_synset(const vit_model *model, int index, const char *name) {
    const char *synset = vit_synset(model, index);
    return synset && strcmp(synset, name) == 0;
}

static bool match_label(const vit_model *model, int index, const char *name) {
    const char *label = vit_label(model, index);
    return label && same_name(label, strlen(label), name);
}

static bool match_alias(const vit_model *model, int index, const char *name) {
    const char *label = vit_label(model, index);
    return label && is_alias(label, name);
}

static bool match_index(const vit_model *model, int index, const char *name) {
    (void)model;
    return strspn(name, "0123456789") == strlen(name) && strtol(name, NULL, 10) == index;
}

int class_find(const vit_model *model, const char *name) {
    static matcher *const matchers[] = { match_synset, match_label, match_alias, match_index };
    int found = CLASS_NONE;
    for (int m = 0; m < 4 && found == CLASS_NONE; m++) {
        for (int i = 0; i < model->config.num_classes; i++) {
            if (matchers[m](model, i, name)) found = found == CLASS_NONE ? i : CLASS_AMBIGUOUS;
        }
    }
    return found;
}

const char *class_name(const vit_model *model, int index, char *text, size_t size) {
    const char *label = vit_label(model, index);
    if (label) return label;
    snprintf(text, size, "class %d", index);
    return text;
}

/* === Maps from folders to classes === */

void class_map_free(class_map *map) {
    photos_free(&map->folders);
    free(map->classes);
    map->classes = NULL;
}

/* Splits a line "folder<TAB>class" at the first tab. A line without a tab is split at the first
 * space. Returns false if the line does not have two parts. */
static bool split_line(char *line, char **folder, char **name) {
    size_t length = strlen(line);
    char *gap;
    while (length && isspace((unsigned char)line[length - 1])) line[--length] = '\0';
    gap = strchr(line, '\t');
    if (!gap) gap = line + strcspn(line, " ");
    if (!*gap || gap == line) return false;
    *gap++ = '\0';
    gap += strspn(gap, " \t");
    *folder = line;
    *name = gap;
    return *gap != '\0';
}

static bool map_line(class_map *map, const vit_model *model, int number, char *line, report *r) {
    char *folder, *name;
    int *classes, index;
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0') return true;
    if (!split_line(line, &folder, &name))
        return report_fail(r, "line %d: expected 'FOLDER CLASS'", number);
    index = class_find(model, name);
    if (index < 0)
        return report_fail(r, "line %d: the model has %s class '%.80s'", number,
                           index == CLASS_AMBIGUOUS ? "more than one" : "no", name);
    classes = realloc(map->classes, ((size_t)map->folders.count + 1) * sizeof *classes);
    if (!classes) return report_no_memory(r);
    map->classes = classes;
    classes[map->folders.count] = index;
    return photos_append(&map->folders, folder, r);
}

/* A line of more than 4095 bytes is read as several lines, which are hardly ever valid. */
bool class_map_read(class_map *map, const vit_model *model, const char *path, report *r) {
    char line[4096];
    int number = 0;
    FILE *file = os_fopen(path, "rb");
    bool good = file || report_fail(r, "cannot be opened: %s", os_error(errno));
    memset(map, 0, sizeof *map);
    while (good && fgets(line, sizeof line, file)) good = map_line(map, model, ++number, line, r);
    if (good && ferror(file)) good = report_fail(r, "cannot be read: %s", strerror(errno));
    if (good && map->folders.count == 0)
        good = report_fail(r, "expected lines 'FOLDER<tab>CLASS', found none");
    if (file) fclose(file);
    if (good) return true;
    class_map_free(map);
    return report_file(r, path);
}

int class_map_find(const class_map *map, const vit_model *model, const char *folder) {
    for (int i = 0; i < map->folders.count; i++) {
        if (strcmp(map->folders.paths[i], folder) == 0) return map->classes[i];
    }
    return class_find(model, folder);
}

bool class_map_all(const class_map *map, const vit_model *model, const photo_list *folders,
                   const char *program, int *classes) {
    enum { SHOWN = 10 };
    int wrong = 0;
    for (int i = 0; i < folders->count; i++) {
        classes[i] = class_map_find(map, model, folders->paths[i]);
        if (classes[i] >= 0 || ++wrong > SHOWN) continue;
        report_error(
            program, folders->paths[i],
            "%s; map the folder in a file for --map, with a line 'FOLDER<tab>CLASS' (an index or "
            "a label)",
            classes[i] == CLASS_AMBIGUOUS ? "the name matches several of the model's classes"
                                          : "the name is not a class of the model");
    }
    if (wrong > SHOWN) report_error(program, NULL, "and %d more folders like these", wrong - SHOWN);
    return wrong == 0;
}
