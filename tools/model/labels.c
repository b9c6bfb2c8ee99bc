#include "model/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"

enum { LABELS_MAX_FILE = 64 * 1024 * 1024 };

void labels_free(label_list *list) {
    memory_free(&list->memory);
    memset(list, 0, sizeof *list);
}

static bool labels_start(label_list *list, size_t count, report *r) {
    memset(list, 0, sizeof *list);
    list->memory = memory_make((size_t)4 * LABELS_MAX_FILE);
    list->count = count;
    list->labels = memory_take(&list->memory, count * sizeof *list->labels + 1);
    list->synsets = memory_take(&list->memory, count * sizeof *list->synsets + 1);
    if (list->labels && list->synsets) return true;
    labels_free(list);
    return report_no_memory(r);
}

/* === Text files === */

/* True if the line begins with a WordNet id: "n" and eight digits, followed by a space, a tab or
 * the end. */
static bool starts_with_synset(const char *line) {
    return line[0] == 'n' && strspn(line + 1, "0123456789") == 8 &&
           (line[9] == '\0' || line[9] == ' ' || line[9] == '\t');
}

static bool is_utf8(const char *text) {
    size_t size = strlen(text), at = 0;
    while (at < size) {
        size_t length = text_utf8_length(text + at, size - at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

static void trim_end(char *text, size_t size) {
    while (size > 0 && strchr(" \t\r\n", text[size - 1])) size--;
    text[size] = '\0';
}

/* Cuts `text` into list->count lines. Fails if one of them is empty or is not UTF-8. */
static bool split_lines(label_list *list, char *text, report *r) {
    size_t i;
    for (i = 0; i < list->count; i++) {
        char *end = strchr(text, '\n'), *next;
        next = end ? end + 1 : text + strlen(text);
        trim_end(text, (size_t)(next - text));
        text += strspn(text, " \t");
        if (!*text) return report_fail(r, "line %zu: expected a label, found an empty line", i + 1);
        if (!is_utf8(text)) return report_fail(r, "line %zu is not UTF-8", i + 1);
        list->labels[i] = text;
        text = next;
    }
    return true;
}

/* Splits each line into a WordNet id and a label if every line begins with an id. */
static void split_synsets(label_list *list) {
    size_t i;
    for (i = 0; i < list->count; i++) {
        if (starts_with_synset(list->labels[i])) continue;
        list->synsets = NULL;
        return;
    }
    for (i = 0; i < list->count; i++) {
        const char *line = list->labels[i], *words = line + 9 + strspn(line + 9, " \t");
        list->synsets[i] = memory_copy_text(&list->memory, line, 9);
        list->labels[i] = *words ? words : list->synsets[i];
        if (!list->synsets[i]) list->labels[i] = NULL;
    }
}

/* === CSV: selected_tags.csv of the wd taggers === */

/* Returns the field in this column; NULL if the line has fewer fields. */
static char *field_at(char *line, int column) {
    char *field = NULL;
    for (; line && column >= 0; column--) field = text_take_field(&line, ',');
    return column < 0 ? field : NULL;
}

static int find_column(char *header, const char *name) {
    int column;
    for (column = 0; header; column++) {
        const char *field = text_take_field(&header, ',');
        if (field && !strcmp(field, name)) return column;
    }
    return -1;
}

/* Replaces each line of `text` by the field in its column "name", and removes the header line. */
static bool take_names(label_list *list, char *text, report *r) {
    const int column = find_column(text, "name");
    size_t i;
    if (column < 0) return report_fail(r, "line 1: expected a column \"name\"");
    for (i = 1; i < list->count; i++) {
        const char *name = field_at(text + (list->labels[i] - text), column);
        if (!name || !*name)
            return report_fail(r, "line %zu: expected a name in column %d", i + 1, column + 1);
        list->labels[i - 1] = name;
    }
    if (--list->count == 0) return report_fail(r, "expected a tag on each line after the first");
    list->synsets = NULL;
    return true;
}

static size_t count_lines(char *text, size_t size) {
    size_t lines = 0, i;
    trim_end(text, size);
    if (!*text) return 0;
    for (i = 0; text[i]; i++) lines += text[i] == '\n';
    return lines + 1;
}

static bool parse_text(label_list *list, char *text, size_t size, report *r) {
    size_t count, i;
    char *copy;
    if (memchr(text, '\0', size)) return report_fail(r, "expected text, found a NUL byte");
    if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) memmove(text, text + 3, (size -= 3) + 1);
    count = count_lines(text, size);
    if (count == 0) return report_fail(r, "expected a label on each line, found nothing");
    if (!labels_start(list, count, r)) return false;
    copy = memory_copy_text(&list->memory, text, strlen(text));
    if (!copy) return report_no_memory(r);
    if (!split_lines(list, copy, r)) return false;
    if (!strncmp(list->labels[0], "tag_id,", 7))
        return take_names(list, copy + (list->labels[0] - copy), r);
    split_synsets(list);
    for (i = 0; i < count; i++)
        if (!list->labels[i]) return report_no_memory(r);
    return true;
}

bool labels_read_file(label_list *list, const char *path, report *r) {
    source file;
    char *text;
    bool good;
    memset(list, 0, sizeof *list);
    if (!source_open_file(&file, path, r)) return false;
    if (file.size > LABELS_MAX_FILE) {
        source_close(&file);
        (void)report_fail(r, "too large for a list of labels");
        return report_file(r, path);
    }
    text = malloc((size_t)file.size + 1);
    good = text ? source_read(&file, 0, text, (size_t)file.size, r) : report_no_memory(r);
    if (good) {
        text[file.size] = '\0';
        good = parse_text(list, text, (size_t)file.size, r);
    }
    free(text);
    source_close(&file);
    if (!good) labels_free(list);
    return good || report_file(r, path);
}

/* === config.json === */

static bool check_descriptions(const json_value *names, const json_value *descriptions, report *r) {
    if (!descriptions || descriptions->kind == JSON_OBJECT) return true;
    if (descriptions->kind != JSON_ARRAY)
        return report_fail(r, "label_descriptions: expected an object or a list");
    if (descriptions->count != names->count)
        return report_fail(r, "label_descriptions has %u entries, label_names %u",
                           (unsigned)descriptions->count, (unsigned)names->count);
    return true;
}

/* Copies a label with spaces in place of control characters. A newline in a label would break every
 * list of labels. */
static const char *copy_label(label_list *list, const char *text) {
    char *copy = memory_copy_text(&list->memory, text, strlen(text)), *c;
    for (c = copy; c && *c; c++)
        if ((unsigned char)*c < 0x20) *c = ' ';
    return copy;
}

static bool fill_from_json(label_list *list, const json_value *names,
                           const json_value *descriptions, report *r) {
    const json_value *name = json_first(names);
    const json_value *described = descriptions && descriptions->kind == JSON_ARRAY
                                      ? json_first(descriptions)
                                      : NULL;
    size_t i;
    for (i = 0; i < list->count; i++, name = name->next) {
        const char *id = json_string(name, NULL), *text = NULL;
        if (!id || !*id) return report_fail(r, "label_names[%zu]: expected a name", i);
        if (descriptions && descriptions->kind == JSON_OBJECT)
            text = json_string(json_get(descriptions, id), id);
        if (described) {
            text = json_string(described, id);
            described = described->next;
        }
        if (text && !*text) text = id;
        list->labels[i] = copy_label(list, text ? text : id);
        list->synsets[i] = copy_label(list, id);
        if (!list->labels[i] || !list->synsets[i]) return report_no_memory(r);
    }
    return true;
}

bool labels_from_json(label_list *list, const json_value *names, const json_value *descriptions,
                      report *r) {
    size_t i, ids = 0;
    memset(list, 0, sizeof *list);
    if (descriptions && descriptions->kind == JSON_NULL) descriptions = NULL;
    if (!names || names->kind == JSON_NULL) return true;
    if (names->kind != JSON_ARRAY) return report_fail(r, "label_names: expected a list");
    if (!check_descriptions(names, descriptions, r)) return false;
    if (names->count == 0) return true;
    if (!labels_start(list, names->count, r)) return false;
    if (!fill_from_json(list, names, descriptions, r)) {
        labels_free(list);
        return false;
    }
    for (i = 0; i < list->count; i++) ids += starts_with_synset(list->synsets[i]);
    if (!descriptions && ids < list->count) list->synsets = NULL;
    return true;
}

bool labels_from_imagenet(label_list *list, report *r) {
    const char *const *classes = imagenet_classes();
    memset(list, 0, sizeof *list);
    if (!classes) return report_fail(r, "this build has no names of ImageNet's classes");
    if (!labels_start(list, IMAGENET_CLASSES, r)) return false;
    memcpy(list->labels, classes, IMAGENET_CLASSES * sizeof *classes);
    split_synsets(list);
    for (size_t i = 0; i < list->count; i++) {
        if (list->labels[i]) continue;
        labels_free(list);
        return report_no_memory(r);
    }
    return true;
}

bool labels_from_list(label_list *list, const char *const *names, size_t count, report *r) {
    size_t i;
    memset(list, 0, sizeof *list);
    if (count == 0) return true;
    if (!labels_start(list, count, r)) return false;
    list->synsets = NULL;
    for (i = 0; i < count; i++) {
        list->labels[i] = memory_copy_text(&list->memory, names[i], strlen(names[i]));
        if (!list->labels[i]) {
            labels_free(list);
            return report_no_memory(r);
        }
    }
    return true;
}
