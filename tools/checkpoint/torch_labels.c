/* torch_labels.c - names of the classes that a training program saved beside the weights. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/torch_state_dict.h"

enum { TORCH_MAX_LABELS = 100000 };

static bool torch_is_label(const pickle_value *value)
{
    return value->kind == PICKLE_STRING && text_is_name(value->u.text, value->count);
}

/* The index of a class, also as text, which it is after a way through JSON. */
static bool torch_read_index(const pickle_value *value, size_t count, size_t *index)
{
    long number = -1;
    if (value->kind == PICKLE_INT && value->u.integer < TORCH_MAX_LABELS)
        number = (long)value->u.integer;
    else if (value->kind != PICKLE_STRING
             || !text_read_int(value->u.text, 0, TORCH_MAX_LABELS, &number)) return false;
    *index = (size_t)number;
    return number >= 0 && *index < count;
}

/* ["cat", "dog"] */
static bool torch_order_list(const pickle_value *list, const char **labels)
{
    size_t i;
    for (i = 0; i < list->count; i++) {
        if (!torch_is_label(list->u.items[i])) return false;
        labels[i] = list->u.items[i]->u.text;
    }
    return true;
}

/* {"cat": 0, "dog": 1} or {0: "cat", 1: "dog"} */
static bool torch_order_dict(const pickle_value *dict, const char **labels)
{
    const size_t count = dict->count / 2;
    size_t i, index;
    for (i = 0; i < count; i++) {
        const pickle_value *name = dict->u.items[2 * i], *place = dict->u.items[2 * i + 1];
        if (!torch_read_index(place, count, &index)) {
            const pickle_value *key = name;
            name = place;
            place = key;
            if (!torch_read_index(place, count, &index)) return false;
        }
        if (!torch_is_label(name) || labels[index]) return false;
        labels[index] = name->u.text;
    }
    return true;
}

static bool torch_add_ordered(torch_reader *t, const pickle_value *value, size_t count)
{
    const char **labels = calloc(count, sizeof *labels);
    bool good = labels != NULL, named;
    size_t i;
    if (!good) return report_no_memory(t->report);
    named = value->kind == PICKLE_DICT ? torch_order_dict(value, labels)
                                       : torch_order_list(value, labels);
    for (i = 0; good && named && i < count; i++)
        good = checkpoint_add_label(t->c, labels[i], t->report);
    free(labels);
    return good;
}

bool torch_add_labels(torch_reader *t, const pickle_value *key, const pickle_value *value)
{
    static const char *const names[] = {
        "class_names", "classes", "class_to_idx", "idx_to_class", "label_map", "label_names",
        "labels", "id2label", "label2id"
    };
    const bool is_dict = value->kind == PICKLE_DICT;
    const size_t count = is_dict ? value->count / 2 : value->count;
    size_t i = 0;
    if (t->c->label_count > 0 || count == 0 || count > TORCH_MAX_LABELS
        || (!is_dict && value->kind != PICKLE_LIST && value->kind != PICKLE_TUPLE)) return true;
    while (i < sizeof names / sizeof *names && !pickle_is_text(key, PICKLE_STRING, names[i])) i++;
    return i == sizeof names / sizeof *names || torch_add_ordered(t, value, count);
}
