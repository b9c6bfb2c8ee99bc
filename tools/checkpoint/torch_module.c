/* torch_module.c - modules that were pickled whole. Such a pickle names their classes and lists
 * their attributes. PyTorch would import the classes; here both are data: tensors get the names
 * that state_dict() would give them, everything simple becomes an attribute of the checkpoint.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/torch_state_dict.h"

enum { TORCH_MOST_NUMBERS = 8 };

/* === Values as text === */

/* The shortest text that reads back as the same number: 1e-05. */
void torch_show_number(double number, char *text, size_t size)
{
    int digits = 1;
    do
        snprintf(text, size, "%.*g", digits, number);
    while (digits++ < 17 && strtod(text, NULL) != number);
}

static bool torch_show_scalar(const pickle_value *value, char text[TORCH_SHOWN])
{
    switch (value->kind) {
    case PICKLE_NONE: snprintf(text, TORCH_SHOWN, "none"); return true;
    case PICKLE_BOOL: snprintf(text, TORCH_SHOWN, "%s", value->u.integer ? "true" : "false");
        return true;
    case PICKLE_INT: snprintf(text, TORCH_SHOWN, "%lld", (long long)value->u.integer); return true;
    case PICKLE_FLOAT: torch_show_number(value->u.number, text, TORCH_SHOWN); return true;
    case PICKLE_STRING: case PICKLE_GLOBAL:
        if (value->count >= TORCH_SHOWN) return false;
        memcpy(text, value->u.text, value->count + (size_t)1);
        return true;
    default: return false;
    }
}

/* "(16, 16)" */
bool torch_show_numbers(const pickle_value *value, char text[TORCH_SHOWN])
{
    char number[TORCH_SHOWN];
    size_t i, used = 1;
    if ((value->kind != PICKLE_TUPLE && value->kind != PICKLE_LIST) || value->count == 0
        || value->count > TORCH_MOST_NUMBERS) return false;
    text[0] = '(';
    for (i = 0; i < value->count; i++) {
        const pickle_kind kind = (pickle_kind)value->u.items[i]->kind;
        if ((kind != PICKLE_INT && kind != PICKLE_FLOAT)
            || !torch_show_scalar(value->u.items[i], number)) return false;
        used += (size_t)snprintf(text + used, TORCH_SHOWN - used, "%s%s", i ? ", " : "", number);
    }
    snprintf(text + used, TORCH_SHOWN - used, ")");
    return true;
}

/* === Attributes === */

/* "__torch__.torch.nn.modules.activation.___torch_mangle_5.GELU" without what TorchScript adds. */
static void torch_show_class(const char *class, char text[TORCH_SHOWN])
{
    static const char added[] = "__torch__.", mangle[] = "___torch_mangle_";
    char *at;
    if (strncmp(class, added, strlen(added)) == 0) class += strlen(added);
    snprintf(text, TORCH_SHOWN, "%.300s", class);
    at = strstr(text, mangle);
    if (at && strchr(at, '.')) memmove(at, strchr(at, '.') + 1, strlen(strchr(at, '.')));
}

static const char *torch_class_of(const pickle_value *value)
{
    const pickle_value *class = torch_part(value, PICKLE_CALLABLE);
    if (pickle_is_text(class, PICKLE_GLOBAL, "copyreg._reconstructor")
        || pickle_is_text(class, PICKLE_GLOBAL, "copy_reg._reconstructor"))
        class = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    if (class && class->kind == PICKLE_PERSISTENT)   /* ("module", class, file, source code) */
        class = torch_item(class->u.items[0], 1);
    return class && class->kind == PICKLE_GLOBAL ? class->u.text : NULL;
}

static bool torch_add_entries(torch_reader *t, const char *module, const char *prefix,
                              const pickle_value *dict);

/* functools.partial: the function under the attribute's name, its settings one level down. */
static bool torch_add_partial(torch_reader *t, const char *module, const char *name,
                              const pickle_value *value)
{
    const pickle_value *state = torch_part(value, PICKLE_STATE);
    const pickle_value *function = torch_item(state, 0), *settings = torch_item(state, 2);
    char text[TORCH_SHOWN];
    if (!function || function->kind != PICKLE_GLOBAL || !torch_show_scalar(function, text))
        return true;
    return checkpoint_add_attribute(t->c, module, name, text, t->report)
        && torch_add_entries(t, module, name, settings);
}

/* A simple value; or, at the top, a dict or an object of simple values. */
static bool torch_add_entry(torch_reader *t, const char *module, const char *prefix,
                            const pickle_value *key, const pickle_value *value)
{
    const pickle_value *inner = torch_as_object(value);
    char name[TORCH_SHOWN], text[TORCH_SHOWN];
    snprintf(name, sizeof name, "%.100s%s%.100s", prefix, prefix[0] ? "." : "", key->u.text);
    if (torch_show_scalar(value, text) || torch_show_numbers(value, text))
        return checkpoint_add_attribute(t->c, module, name, text, t->report);
    if (prefix[0] || torch_is_tensor(t, value) || torch_as_module(value)) return true;
    if (pickle_is_text(torch_part(value, PICKLE_CALLABLE), PICKLE_GLOBAL, "functools.partial"))
        return torch_add_partial(t, module, name, value);
    if (!inner) inner = torch_as_dict(value);
    return torch_add_entries(t, module, name, inner);
}

/* What begins with '_' is PyTorch's own business, except for Lightning's hyperparameters; and
 * TorchScript's modules have each other as entries. */
static bool torch_add_entries(torch_reader *t, const char *module, const char *prefix,
                              const pickle_value *dict)
{
    size_t i;
    for (i = 0; dict && dict->kind == PICKLE_DICT && i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING || pickle_is_text(key, PICKLE_STRING, "training")) continue;
        if (key->u.text[0] == '_' && !pickle_is_text(key, PICKLE_STRING, "_hparams")) continue;
        if (t->torchscript && value->kind == PICKLE_CALL) continue;
        if (!torch_add_entry(t, module, prefix, key, value)) return false;
    }
    return true;
}

bool torch_add_attributes(torch_reader *t, const char *module, const pickle_value *value)
{
    const char *class = torch_class_of(value);
    char text[TORCH_SHOWN];
    if (class) {
        torch_show_class(class, text);
        if (!checkpoint_add_attribute(t->c, module, "class", text, t->report)) return false;
    }
    return torch_add_entries(t, module, "", torch_as_object(value))
        && (!class || !t->describe || t->describe(t, module, class));
}

/* === Tensors === */

/* A set of strings; protocols before 4 call set() for it. */
static bool torch_set_has(torch_reader *t, const pickle_value *set, const pickle_value *key)
{
    size_t i;
    if (set && set->kind == PICKLE_CALL) set = torch_item(torch_part(set, PICKLE_ARGUMENTS), 0);
    if (!set || (set->kind != PICKLE_SET && set->kind != PICKLE_LIST)) return false;
    for (i = 0; i < set->count && torch_step(t); i++)
        if (pickle_is_text(set->u.items[i], PICKLE_STRING, key->u.text)) return true;
    return false;
}

/* One of the three dicts of a module, without the names in a set. */
static bool torch_flatten_part(torch_reader *t, char *name, size_t name_size,
                               const pickle_value *part, const pickle_value *without, int depth)
{
    const pickle_value *dict = torch_as_dict(part);
    size_t i, size;
    for (i = 0; dict && i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING || value->kind != PICKLE_CALL) continue;
        if (torch_set_has(t, without, key)) continue;
        if (!torch_append_name(t, name, name_size, key, &size)) return false;
        if (torch_as_object(value) && !torch_as_module(value) && !torch_is_tensor(t, value)
            && !torch_add_attributes(t, name, value)) return false;
        if (!torch_flatten(t, name, size, value, depth + 1)) return false;
        name[name_size] = '\0';
    }
    return true;
}

/* Positions that are computed once may be neither parameter nor buffer, but a mere attribute. */
static bool torch_add_positions(torch_reader *t, char *name, size_t name_size,
                                const pickle_value *state)
{
    size_t i, size;
    for (i = 0; i + 1 < state->count; i += 2) {
        const pickle_value *key = state->u.items[i], *value = state->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING || !torch_is_tensor(t, value)
            || !strstr(key->u.text, "pos")) continue;
        if (!torch_append_name(t, name, name_size, key, &size)
            || !torch_add_call(t, name, value)) return false;
        name[name_size] = '\0';
    }
    return true;
}

/* In the order of state_dict(). A module that is used twice is there twice. */
bool torch_flatten_module(torch_reader *t, char *name, size_t name_size,
                          const pickle_value *module, int depth)
{
    const pickle_value *state = torch_as_module(module);
    return torch_add_attributes(t, name, module)
        && torch_flatten_part(t, name, name_size, pickle_get(state, "_parameters"), NULL, depth)
        && torch_flatten_part(t, name, name_size, pickle_get(state, "_buffers"),
                              pickle_get(state, "_non_persistent_buffers_set"), depth)
        && torch_add_positions(t, name, name_size, state)
        && torch_flatten_part(t, name, name_size, pickle_get(state, "_modules"), NULL, depth);
}
