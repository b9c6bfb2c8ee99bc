/* torch_choose.c - which dict or module of a pickle is the model. Training programs save others
 * beside it: an average of the weights, a teacher, the state of the optimizer.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/torch_state_dict.h"

/* Searches nested dicts and modules, but not lists, which belong to an optimizer. */
static bool torch_holds_tensors(torch_reader *t, const pickle_value *value, int depth)
{
    static const char *const parts[] = { "_parameters", "_buffers", "_modules" };
    const pickle_value *dict = torch_as_dict(value), *module = torch_as_module(value);
    size_t i;
    if (depth > PICKLE_MAX_DEPTH || !torch_step(t)) return false;
    if (torch_is_tensor(t, value)) return depth > 0;
    for (i = 0; !module && dict && i + 1 < dict->count; i += 2)
        if (torch_holds_tensors(t, dict->u.items[i + 1], depth + 1)) return true;
    for (i = 0; module && i < sizeof parts / sizeof *parts; i++)
        if (torch_holds_tensors(t, pickle_get(module, parts[i]), depth + 1)) return true;
    return false;
}

/* The entries to choose from. An object of any class is looked into only if it is all there is. */
static const pickle_value *torch_entries(const torch_reader *t, const pickle_value *value)
{
    if (torch_as_module(value)) return NULL;
    return value == t->pickle.root && !torch_as_dict(value) ? torch_as_object(value)
                                                            : torch_as_dict(value);
}

/* In timm's order, then by custom. */
static const char *const torch_wrappers[] = {
    "state_dict_ema", "model_ema", "state_dict", "model", "module", "teacher", "student",
    "encoder", "target_encoder", "model_state_dict", "model_state", "net", "network", "params",
    "weights"
};

/* State dicts come before whole modules. */
static const pickle_value *torch_known_wrapper(torch_reader *t, const pickle_value *dict,
                                               const char **key)
{
    const size_t count = sizeof torch_wrappers / sizeof *torch_wrappers;
    size_t i;
    for (i = 0; i < 2 * count; i++) {
        const pickle_value *value = pickle_get(dict, torch_wrappers[i % count]);
        const bool fits = i < count ? torch_as_dict(value) && !torch_as_module(value)
                                    : torch_as_module(value) != NULL;
        *key = torch_wrappers[i % count];
        if (fits && torch_holds_tensors(t, value, 0)) return value;
    }
    return NULL;
}

/* Tensors that belong to the training rather than to the model. */
static bool torch_is_training_key(const pickle_value *key)
{
    static const char *const starts[] = { "optim", "lr_", "sched", "scaler", "amp", "rng" };
    size_t i;
    for (i = 0; key->kind == PICKLE_STRING && i < sizeof starts / sizeof *starts; i++)
        if (strncmp(key->u.text, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* A dict or a module; not the state of an optimizer, whatever its key. */
static bool torch_is_candidate(const pickle_value *key, const pickle_value *value)
{
    return key->kind == PICKLE_STRING && !torch_is_training_key(key)
        && !pickle_get(torch_as_dict(value), "param_groups")
        && (torch_as_dict(value) || torch_as_module(value));
}

/* The only entry that holds tensors, if it is a dict or a module. */
static const pickle_value *torch_only_wrapper(torch_reader *t, const pickle_value *dict,
                                              const char **key)
{
    const pickle_value *found = NULL;
    size_t i;
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *name = dict->u.items[i], *value = dict->u.items[i + 1];
        if (torch_is_training_key(name) || !torch_holds_tensors(t, value, 1)) continue;
        if (found || !torch_is_candidate(name, value)) return NULL;
        found = value;
        *key = name->u.text;
    }
    return found;
}

static const pickle_value *torch_wrapper(torch_reader *t, const pickle_value *dict,
                                         const char **key)
{
    const pickle_value *known = torch_known_wrapper(t, dict, key);
    return known ? known : torch_only_wrapper(t, dict, key);
}

/* === Metadata === */

static bool torch_add_scalar(torch_reader *t, const char *prefix, const pickle_value *key,
                             const pickle_value *value)
{
    char name[300], text[TORCH_SHOWN];
    const char *shown = text;
    if (key->kind != PICKLE_STRING) return true;
    switch (value->kind) {
    case PICKLE_STRING: shown = value->u.text; break;
    case PICKLE_BOOL: shown = value->u.integer ? "true" : "false"; break;
    case PICKLE_INT: snprintf(text, sizeof text, "%lld", (long long)value->u.integer); break;
    case PICKLE_FLOAT: snprintf(text, sizeof text, "%.17g", value->u.number); break;
    default: if (!torch_show_numbers(value, text)) return true;
    }
    snprintf(name, sizeof name, "%s%s%.200s", prefix, prefix[0] ? "." : "", key->u.text);
    return checkpoint_add_metadata(t->c, name, shown, t->report);
}

/* What says how the model was made, by its custom names. */
static bool torch_is_configuration(const pickle_value *key)
{
    static const char *const names[] = {
        "args", "config", "cfg", "hparams", "hyper_parameters", "model_args", "model_config",
        "model_kwargs", "kwargs"
    };
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (pickle_is_text(key, PICKLE_STRING, names[i])) return true;
    return false;
}

/* Scalars and lists of numbers next to the state dict, and in an argparse.Namespace or a dict of
 * settings one level down ("args.lr"), or two if that holds settings again ("args.model_kwargs"). */
static bool torch_add_metadata(torch_reader *t, const pickle_value *dict, const char *prefix)
{
    const bool is_deep = strchr(prefix, '.') != NULL;
    char name[160];
    size_t i;
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        const pickle_value *inner = torch_as_module(value) ? NULL : torch_as_object(value);
        if (!torch_step(t) || !torch_add_scalar(t, prefix, key, value)
            || !torch_add_labels(t, key, value)) return false;
        if (!inner && torch_is_configuration(key)) inner = torch_as_dict(value);
        if (is_deep || !inner || key->kind != PICKLE_STRING || key->count >= 64
            || (prefix[0] && !torch_is_configuration(key))) continue;
        snprintf(name, sizeof name, "%.64s%s%.64s", prefix, prefix[0] ? "." : "", key->u.text);
        if (!torch_add_metadata(t, inner, name)) return false;
    }
    return true;
}

/* === Paths === */

static bool torch_add_wrapper(torch_reader *t, const char *key)
{
    size_t old = strlen(t->c->wrapper), size = strlen(key);
    char *path = memory_take(&t->c->memory, old + size + 2);
    if (!path) return report_no_memory(t->report);
    snprintf(path, old + size + 2, "%s%s%s", t->c->wrapper, old ? "." : "", key);
    t->c->wrapper = path;
    return true;
}

/* Where several dicts or modules could be the model, the path of each. */
static bool torch_list_choices(torch_reader *t, const pickle_value *value, char *path,
                               size_t path_size, int depth)
{
    const pickle_value *dict = torch_entries(t, value);
    const char *key;
    size_t i, size;
    if (!dict || depth > PICKLE_MAX_DEPTH || !torch_wrapper(t, dict, &key))
        return !t->report->failed && checkpoint_add_choice(t->c, path, t->report);
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *name = dict->u.items[i], *inner = dict->u.items[i + 1];
        if (!torch_is_candidate(name, inner) || strstr(name->u.text, "loss")
            || !torch_holds_tensors(t, inner, 0)) continue;
        if (!torch_append_name(t, path, path_size, name, &size)
            || !torch_list_choices(t, inner, path, size, depth + 1)) return false;
        path[path_size] = '\0';
    }
    return !t->report->failed;
}

/* What lies at a path; keys may have dots in them. */
static const pickle_value *torch_find_path(torch_reader *t, const pickle_value *value,
                                           const char *path)
{
    const pickle_value *dict = torch_entries(t, value), *found = NULL;
    size_t i;
    for (i = 0; dict && !found && i + 1 < dict->count && torch_step(t); i += 2) {
        const pickle_value *key = dict->u.items[i], *inner = dict->u.items[i + 1];
        const size_t size = key->kind == PICKLE_STRING ? key->count : 0;
        if (size == 0 || strncmp(path, key->u.text, size) != 0) continue;
        if (path[size] == '.') found = torch_find_path(t, inner, path + size + 1);
        else if (path[size] == '\0' && torch_holds_tensors(t, inner, 0)) found = inner;
    }
    return found;
}

static const pickle_value *torch_refuse_path(torch_reader *t)
{
    const checkpoint *c = t->c;
    char list[300] = "";
    size_t i, used = 0;
    if (c->choice_count < 2 && (c->choice_count == 0 || c->choices[0][0] == '\0')) {
        (void)report_fail(t->report, "no state dict \"%.60s\": the file holds a single one",
                          c->wanted);
        return NULL;
    }
    for (i = 0; i < c->choice_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 c->choices[i]);
    (void)report_fail(t->report, "no state dict \"%.60s\"; expected one of %s%s", c->wanted, list,
                      used < sizeof list ? "" : " ...");
    return NULL;
}

/* === The choice === */

static const pickle_value *torch_descend(torch_reader *t, const pickle_value *value)
{
    const char *key = "";
    int depth;
    for (depth = 0; depth < PICKLE_MAX_DEPTH; depth++) {
        const pickle_value *dict = torch_entries(t, value), *inner;
        if (!dict) break;
        inner = torch_wrapper(t, dict, &key);
        if (t->report->failed || !torch_add_metadata(t, dict, "")) return NULL;
        if (!inner) break;
        if (!torch_add_wrapper(t, key)) return NULL;
        value = inner;
    }
    return value;
}

static const pickle_value *torch_take_wanted(torch_reader *t, const pickle_value *root)
{
    const pickle_value *found = torch_find_path(t, root, t->c->wanted);
    if (t->report->failed) return NULL;
    if (!found) return torch_refuse_path(t);
    if (!torch_add_metadata(t, torch_entries(t, root), "")) return NULL;   /* it has some */
    return torch_add_wrapper(t, t->c->wanted) ? torch_descend(t, found) : NULL;
}

/* Arrays of NumPy are tensors where there are no others: beside some, they are statistics. */
const pickle_value *torch_choose(torch_reader *t)
{
    const pickle_value *root = t->pickle.root, *entries = torch_entries(t, root), *chosen;
    char path[TORCH_MAX_NAME] = "";
    if (t->torchscript) return root;
    t->arrays = !torch_holds_tensors(t, entries ? entries : root, 1);
    if (!torch_list_choices(t, root, path, 0, 0)) return NULL;
    chosen = t->c->wanted ? torch_take_wanted(t, root) : torch_descend(t, root);
    if (t->c->choice_count == 1) t->c->choice_count = 0;
    return chosen;
}
