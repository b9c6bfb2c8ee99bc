#include "checkpoint/torch_state_dict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* === State dicts === */

/* This file reads the tensors that a pickle of torch.save describes.
 *
 * For each tensor, the pickle contains a call of _rebuild_tensor_v2(storage, offset, size, stride,
 * ...). The storage is a persistent id of the form ('storage', class, key, device, elements). The
 * reader first chooses the state dict inside the pickle. Then it turns the calls in this state dict
 * into tensors of the checkpoint. TorchScript's modules are read in the same way as dicts.
 */

#ifndef TORCH_MAX_STEPS
#define TORCH_MAX_STEPS 1000000 /* largest number of visits; a shared node counts at each visit */
#endif

bool torch_step(torch_reader *t) {
    if (t->steps++ < TORCH_MAX_STEPS) return true;
    return report_fail(t->report, "more than %d values to visit", TORCH_MAX_STEPS);
}

/* === Names that PyTorch writes === */

static const torch_class torch_classes[] = {
    { "FloatStorage", "float32", 4, true, CHECKPOINT_F32 },
    { "HalfStorage", "float16", 2, true, CHECKPOINT_F16 },
    { "BFloat16Storage", "bfloat16", 2, true, CHECKPOINT_BF16 },
    { "DoubleStorage", "float64", 8, true, CHECKPOINT_F64 },
    { "LongStorage", "int64", 8, true, CHECKPOINT_I64 },
    { "IntStorage", "int32", 4, true, CHECKPOINT_I32 },
    { "ShortStorage", "int16", 2, true, CHECKPOINT_I16 },
    { "CharStorage", "int8", 1, true, CHECKPOINT_I8 },
    { "ByteStorage", "uint8", 1, true, CHECKPOINT_U8 },
    { "BoolStorage", "bool", 1, true, CHECKPOINT_BOOL },
    { "UntypedStorage", "", 1, true, CHECKPOINT_U8 },
    { "ComplexFloatStorage", "complex64", 8, false, CHECKPOINT_U8 },
    { "ComplexDoubleStorage", "complex128", 16, false, CHECKPOINT_U8 },
    { "QInt8Storage", "qint8", 1, false, CHECKPOINT_U8 },
    { "QUInt8Storage", "quint8", 1, false, CHECKPOINT_U8 },
    { "QInt32Storage", "qint32", 4, false, CHECKPOINT_U8 },
    { "", "float8_e4m3fn", 1, false, CHECKPOINT_U8 },
    { "", "float8_e5m2", 1, false, CHECKPOINT_U8 },
    { "", "uint16", 2, false, CHECKPOINT_U8 },
    { "", "uint32", 4, false, CHECKPOINT_U8 },
    { "", "uint64", 8, false, CHECKPOINT_U8 },
};

/* Removes the module from the name of a class in PyTorch: "torch.FloatStorage" becomes
 * "FloatStorage". Returns NULL if another module defines the class. */
static const char *torch_strip_module(const pickle_value *global) {
    static const char *const modules[] = { "torch.storage.", "torch.cuda.", "torch." };
    size_t i;
    if (!global || global->kind != PICKLE_GLOBAL) return NULL;
    for (i = 0; i < sizeof modules / sizeof *modules; i++) {
        size_t size = strlen(modules[i]);
        if (strncmp(global->u.text, modules[i], size) == 0) return global->u.text + size;
    }
    return NULL;
}

static const torch_class *torch_find_class(const pickle_value *global, bool is_dtype) {
    const char *name = torch_strip_module(global);
    size_t i;
    for (i = 0; name && name[0] && i < sizeof torch_classes / sizeof *torch_classes; i++)
        if (strcmp(is_dtype ? torch_classes[i].dtype_name : torch_classes[i].name, name) == 0)
            return &torch_classes[i];
    return NULL;
}

/* The forms of the calls by which PyTorch creates tensors. The comments show the arguments. */
typedef enum torch_call {
    TORCH_NOT_A_TENSOR,
    TORCH_TENSOR,       /* (storage, offset, size, stride, ...) */
    TORCH_TENSOR_TYPED, /* (storage, offset, size, stride, requires_grad, hooks, dtype, ...) */
    TORCH_WRAPPED,      /* (tensor, ...) */
    TORCH_SUBCLASS,     /* (rebuild function, class, its arguments, state) */
} torch_call;

static torch_call torch_call_of(const pickle_value *callable) {
    static const struct {
        const char *name;
        torch_call call;
    } calls[] = {
        { "torch._utils._rebuild_tensor_v2", TORCH_TENSOR },
        { "torch._utils._rebuild_tensor", TORCH_TENSOR },
        { "torch._utils._rebuild_tensor_v3", TORCH_TENSOR_TYPED },
        { "torch._utils._rebuild_parameter", TORCH_WRAPPED },
        { "torch._utils._rebuild_parameter_with_state", TORCH_WRAPPED },
        { "torch._tensor._rebuild_from_type_v2", TORCH_SUBCLASS },
    };
    size_t i;
    for (i = 0; i < sizeof calls / sizeof *calls; i++)
        if (pickle_is_text(callable, PICKLE_GLOBAL, calls[i].name)) return calls[i].call;
    return TORCH_NOT_A_TENSOR;
}

/* === Reading the pickle's values === */

const pickle_value *torch_item(const pickle_value *sequence, size_t i) {
    bool is_sequence = sequence &&
                       (sequence->kind == PICKLE_TUPLE || sequence->kind == PICKLE_LIST);
    return is_sequence && i < sequence->count ? sequence->u.items[i] : NULL;
}

const pickle_value *torch_part(const pickle_value *call, size_t part) {
    return call && call->kind == PICKLE_CALL ? call->u.items[part] : NULL;
}

bool torch_is_tensor(const torch_reader *t, const pickle_value *value) {
    return torch_call_of(torch_part(value, PICKLE_CALLABLE)) != TORCH_NOT_A_TENSOR ||
           (t->arrays && torch_is_array(value));
}

static bool torch_has_prefix(const pickle_value *global, const char *prefix) {
    return global->kind == PICKLE_GLOBAL && strncmp(global->u.text, prefix, strlen(prefix)) == 0;
}

const pickle_value *torch_as_dict(const pickle_value *value) {
    const pickle_value *state;
    if (!value || value->kind == PICKLE_DICT) return value;
    if (value->kind != PICKLE_CALL) return NULL;
    if (torch_part(value, PICKLE_CONTENTS)) return torch_part(value, PICKLE_CONTENTS);
    state = torch_part(value, PICKLE_STATE);
    if (torch_has_prefix(torch_part(value, PICKLE_CALLABLE), "__torch__.") && state &&
        state->kind == PICKLE_DICT)
        return state;
    return NULL;
}

/* Returns the attributes of an object as a dict, or NULL. A module of torch.fx has its attributes
 * as an argument of a call. An object with slots has a pair of dicts, and the attributes are the
 * first of the two. */
const pickle_value *torch_as_object(const pickle_value *value) {
    const pickle_value *state = torch_part(value, PICKLE_STATE);
    if (state && state->kind == PICKLE_TUPLE) state = torch_item(state, 0);
    if (!state && pickle_is_text(torch_part(value, PICKLE_CALLABLE), PICKLE_GLOBAL,
                                 "torch.fx.graph_module.reduce_graph_module"))
        state = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    return state && state->kind == PICKLE_DICT ? state : NULL;
}

const pickle_value *torch_as_module(const pickle_value *value) {
    const pickle_value *state = torch_as_object(value);
    return pickle_get(state, "_modules") && pickle_get(state, "_parameters") ? state : NULL;
}

/* === Storages === */

static bool torch_fail_storage(torch_reader *t, const char *name, const char *what) {
    return report_fail(t->report, "%.200s: its storage %s", name, what);
}

static bool torch_is_count(const pickle_value *value) {
    return value && value->kind == PICKLE_INT && value->u.integer >= 0 &&
           value->u.integer <= INT64_MAX / 64;
}

/* Reads the last field of a storage's id in the legacy format. The field is None, or it is (key,
 * offset, count) if the storage is a view of the root storage. */
static bool torch_read_view(torch_reader *t, const char *name, const pickle_value *view,
                            torch_storage *storage) {
    const pickle_value *offset = torch_item(view, 1), *count = torch_item(view, 2);
    if (!view || view->kind == PICKLE_NONE) return true;
    if (!torch_is_count(offset) || !torch_is_count(count) ||
        (uint64_t)(offset->u.integer + count->u.integer) > storage->root_count)
        return torch_fail_storage(t, name,
                                  "is a view that reaches beyond the end of the viewed storage");
    storage->base = (uint64_t)offset->u.integer;
    storage->count = (uint64_t)count->u.integer;
    return true;
}

bool torch_read_storage(torch_reader *t, const char *name, const pickle_value *value,
                        torch_storage *storage) {
    const pickle_value *id = value && value->kind == PICKLE_PERSISTENT ? value->u.items[0] : NULL;
    const pickle_value *class = torch_item(id, 1), *key = torch_item(id, 2);
    const pickle_value *count = torch_item(id, 4);
    if (!pickle_is_text(torch_item(id, 0), PICKLE_STRING, "storage"))
        return torch_fail_storage(t, name, "is not a ('storage', class, key, device, size) id");
    storage->class = torch_find_class(class, false);
    if (!storage->class)
        return report_fail(t->report, "%.200s: unknown storage class \"%.200s\"", name,
                           class && class->kind == PICKLE_GLOBAL ? class->u.text : "(none)");
    if (!key || key->kind != PICKLE_STRING || !text_is_name(key->u.text, key->count) ||
        key->count > 200)
        return torch_fail_storage(t, name, "has no usable key");
    if (!torch_is_count(count)) return torch_fail_storage(t, name, "has no usable size");
    storage->key = key->u.text;
    storage->base = 0;
    storage->root_count = (uint64_t)count->u.integer;
    storage->count = storage->root_count;
    return torch_read_view(t, name, torch_item(id, 5), storage);
}

/* === Tensors === */

bool torch_read_sizes(torch_reader *t, checkpoint_tensor_info *info, const pickle_value *sizes,
                      const pickle_value *strides) {
    size_t i;
    if (!sizes || !strides || sizes->count != strides->count ||
        (sizes->kind != PICKLE_TUPLE && sizes->kind != PICKLE_LIST) ||
        (strides->kind != PICKLE_TUPLE && strides->kind != PICKLE_LIST))
        return report_fail(t->report, "%.200s: sizes and strides do not match", info->name);
    if (sizes->count > CHECKPOINT_MAX_DIMS)
        return report_fail(t->report, "%.200s: found %lu dimensions, expected at most %d",
                           info->name, (unsigned long)sizes->count, CHECKPOINT_MAX_DIMS);
    info->ndim = (int)sizes->count;
    for (i = 0; i < sizes->count; i++) {
        if (sizes->u.items[i]->kind != PICKLE_INT || strides->u.items[i]->kind != PICKLE_INT)
            return report_fail(t->report, "%.200s: sizes and strides must be integers", info->name);
        info->dims[i] = sizes->u.items[i]->u.integer;
        info->strides[i] = strides->u.items[i]->u.integer;
    }
    return true;
}

static bool torch_skip(torch_reader *t, const char *name, const char *reason) {
    return checkpoint_add_skipped(t->c, name, reason, t->report);
}

/* Adds a tensor that is a view of a storage. If `dtype` is NULL, the storage determines the
 * type. */
static bool torch_add_view(torch_reader *t, checkpoint_tensor_info *info,
                           const torch_storage *storage, const torch_class *dtype, int64_t offset) {
    uint64_t bytes = storage->count * storage->class->size;
    uint64_t base = storage->base * storage->class->size;
    if (!dtype) dtype = storage->class;
    if (!dtype->supported) return torch_skip(t, info->name, dtype->dtype_name);
    if (base % dtype->size || offset < 0 || offset > INT64_MAX / 64)
        return report_fail(t->report, "%.200s: bad storage offset %lld", info->name,
                           (long long)offset);
    if (!(storage->found ? checkpoint_add_storage(t->c, storage->found, &info->storage, t->report)
                         : t->place(t, info->name, storage, &info->storage)))
        return false;
    info->dtype = dtype->dtype;
    info->container_name = t->c->storages[info->storage].bytes.name;
    info->storage_offset = (int64_t)(base / dtype->size) + offset;
    return checkpoint_add_tensor(t->c, info, (base + bytes) / dtype->size, t->report);
}

static bool torch_add_tensor(torch_reader *t, const char *name, const pickle_value *arguments,
                             bool typed) {
    checkpoint_tensor_info info = { 0 };
    torch_storage storage = { 0 };
    checkpoint_storage found = { 0 };
    const pickle_value *offset = torch_item(arguments, 1), *id = torch_item(arguments, 0);
    const torch_class *dtype = typed ? torch_find_class(torch_item(arguments, 6), true) : NULL;
    info.name = name;
    if (!(torch_is_nested(id) ? torch_read_nested(t, name, id, &storage, &found)
                              : torch_read_storage(t, name, id, &storage)))
        return false;
    if (typed && !dtype) return report_fail(t->report, "%.200s: unknown dtype", name);
    if (!offset || offset->kind != PICKLE_INT)
        return report_fail(t->report, "%.200s: no storage offset", name);
    return torch_read_sizes(t, &info, torch_item(arguments, 2), torch_item(arguments, 3)) &&
           torch_add_view(t, &info, &storage, dtype, offset->u.integer);
}

/* Adds the tensor that a call creates. Unwraps parameters and subclasses first. The number of steps
 * is limited, because an object may wrap itself. */
bool torch_add_call(torch_reader *t, const char *name, const pickle_value *value) {
    const pickle_value *callable = torch_part(value, PICKLE_CALLABLE);
    const pickle_value *arguments = torch_part(value, PICKLE_ARGUMENTS);
    int depth;
    if (torch_is_array(value)) return torch_add_array(t, name, value);
    for (depth = 0; depth < PICKLE_MAX_DEPTH; depth++) {
        torch_call call = torch_call_of(callable);
        switch (call) {
        case TORCH_TENSOR:
        case TORCH_TENSOR_TYPED:
            return torch_add_tensor(t, name, arguments, call == TORCH_TENSOR_TYPED);
        case TORCH_SUBCLASS:
            callable = torch_item(arguments, 0);
            arguments = torch_item(arguments, 2);
            break;
        case TORCH_WRAPPED:
            value = torch_item(arguments, 0);
            callable = torch_part(value, PICKLE_CALLABLE);
            arguments = torch_part(value, PICKLE_ARGUMENTS);
            break;
        default:
            return report_fail(
                t->report,
                "%.200s: the tensor is built by \"%.200s\", which is not "
                "supported",
                name, callable && callable->kind == PICKLE_GLOBAL ? callable->u.text : "(unknown)");
        }
    }
    return report_fail(t->report, "%.200s: parameters nested deeper than %d", name, depth);
}

/* === Flattening === */

/* True if the value is a tensor or a tensor's data, or contains one in its items or in the
 * arguments of a call. */
static bool torch_uses_storage(torch_reader *t, const pickle_value *value, int depth) {
    size_t i;
    bool children = value && (value->kind == PICKLE_TUPLE || value->kind == PICKLE_LIST);
    if (!value || depth >= PICKLE_MAX_DEPTH || !torch_step(t)) return false;
    if (value->kind == PICKLE_PERSISTENT || torch_is_tensor(t, value)) return true;
    for (i = 0; children && i < value->count; i++)
        if (torch_uses_storage(t, value->u.items[i], depth + 1)) return true;
    return value->kind == PICKLE_CALL &&
           torch_uses_storage(t, torch_part(value, PICKLE_ARGUMENTS), depth + 1);
}

static bool torch_add_opaque(torch_reader *t, const char *name, const pickle_value *value) {
    const pickle_value *callable = torch_part(value, PICKLE_CALLABLE);
    const char *class = callable && callable->kind == PICKLE_GLOBAL ? callable->u.text
                                                                    : "(unknown)";
    if (!torch_uses_storage(t, torch_part(value, PICKLE_ARGUMENTS), 0)) return !t->report->failed;
    if (strstr(class, "qtensor") || strstr(class, "sparse")) return torch_skip(t, name, class);
    return report_fail(t->report,
                       "%.200s: the tensor is built by \"%.200s\", which is not "
                       "supported",
                       name, class);
}

bool torch_append_name(torch_reader *t, char *name, size_t name_size, const pickle_value *key,
                       size_t *size) {
    char number[32];
    const char *text = number;
    if (key->kind == PICKLE_STRING) text = key->u.text;
    else snprintf(number, sizeof number, "%lld", (long long)key->u.integer);
    *size = name_size + (name_size > 0) + strlen(text);
    if (*size >= TORCH_MAX_NAME || (key->kind == PICKLE_STRING && strlen(text) != key->count))
        return report_fail(t->report, "a tensor's name is too long or contains a NUL");
    if (name_size > 0) name[name_size++] = '.';
    memcpy(name + name_size, text, strlen(text) + 1);
    return true;
}

static bool torch_flatten_dict(torch_reader *t, char *name, size_t name_size,
                               const pickle_value *dict, int depth) {
    size_t i, size;
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING && key->kind != PICKLE_INT) continue;
        if (value->kind != PICKLE_DICT && value->kind != PICKLE_CALL) continue;
        if (!torch_append_name(t, name, name_size, key, &size) ||
            !torch_flatten(t, name, size, value, depth + 1))
            return false;
        name[name_size] = '\0';
    }
    return true;
}

/* Adds the tensors of a file that is only a list. The indices of the tensors become their names. */
static bool torch_flatten_list(torch_reader *t, const pickle_value *list) {
    char name[32];
    size_t i;
    for (i = 0; i < list->count; i++) {
        if (!torch_step(t)) return false;
        if (!torch_is_tensor(t, list->u.items[i])) continue;
        snprintf(name, sizeof name, "%zu", i);
        if (!torch_add_call(t, name, list->u.items[i])) return false;
    }
    return true;
}

bool torch_flatten(torch_reader *t, char *name, size_t name_size, const pickle_value *value,
                   int depth) {
    const pickle_value *dict = torch_as_dict(value);
    if (depth == 0 && (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE))
        return torch_flatten_list(t, value);
    if (depth > PICKLE_MAX_DEPTH)
        return report_fail(t->report, "dicts nested deeper than %d", PICKLE_MAX_DEPTH);
    if (torch_is_tensor(t, value)) return torch_add_call(t, name_size ? name : "tensor", value);
    if (torch_as_module(value)) return torch_flatten_module(t, name, name_size, value, depth);
    if (!dict) return torch_add_opaque(t, name, value);
    if (t->describe && value->kind == PICKLE_CALL && !torch_add_attributes(t, name, value))
        return false;
    return torch_flatten_dict(t, name, name_size, dict, depth);
}

/* === Everything === */

bool torch_read_state_dict(torch_reader *t) {
    char name[TORCH_MAX_NAME] = "";
    const pickle_value *value = torch_choose(t);
    if (!value || !torch_flatten(t, name, 0, value, 0)) return false;
    if (t->c->tensor_count > 0 || t->torchscript) return true;
    return report_fail(t->report, "no state dict: no dict or module with tensors was found");
}

/* === Which of several === */

/* This part chooses the dict or module that is the model. Training programs save other dicts next
 * to the model, such as an average of the weights, a teacher model or the state of the optimizer.
 */

/* True if a dict or module contains tensors at any depth. Lists are skipped, because they belong to
 * an optimizer. */
static bool torch_holds_tensors(torch_reader *t, const pickle_value *value, int depth) {
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

/* Returns the dict whose entries may be the model. An object that is neither a dict nor a module is
 * searched only if it is the whole pickle. */
static const pickle_value *torch_entries(const torch_reader *t, const pickle_value *value) {
    if (torch_as_module(value)) return NULL;
    return value == t->pickle.root && !torch_as_dict(value) ? torch_as_object(value)
                                                            : torch_as_dict(value);
}

/* The keys under which training programs save the model. They follow timm's order of preference,
 * and other common names come last. */
static const char *const torch_wrappers[] = {
    "state_dict_ema", "model_ema", "state_dict", "model",          "module",
    "teacher",        "student",   "encoder",    "target_encoder", "model_state_dict",
    "model_state",    "net",       "network",    "params",         "weights",
};

/* Returns the first value that contains tensors, in the order of the keys above. State dicts come
 * before whole modules. */
static const pickle_value *torch_known_wrapper(torch_reader *t, const pickle_value *dict,
                                               const char **key) {
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

/* True for the key of an entry that belongs to the training rather than to the model. */
static bool torch_is_training_key(const pickle_value *key) {
    static const char *const starts[] = { "optim", "lr_", "sched", "scaler", "amp", "rng" };
    size_t i;
    for (i = 0; key->kind == PICKLE_STRING && i < sizeof starts / sizeof *starts; i++)
        if (strncmp(key->u.text, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* True if the entry is a dict or a module that is not the state of an optimizer. */
static bool torch_is_candidate(const pickle_value *key, const pickle_value *value) {
    return key->kind == PICKLE_STRING && !torch_is_training_key(key) &&
           !pickle_get(torch_as_dict(value), "param_groups") &&
           (torch_as_dict(value) || torch_as_module(value));
}

/* Returns the only entry that contains tensors, apart from the entries of the training. Returns
 * NULL if there are several, or if the entry is neither a dict nor a module. */
static const pickle_value *torch_only_wrapper(torch_reader *t, const pickle_value *dict,
                                              const char **key) {
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
                                         const char **key) {
    const pickle_value *known = torch_known_wrapper(t, dict, key);
    return known ? known : torch_only_wrapper(t, dict, key);
}

/* === Metadata === */

static bool torch_add_scalar(torch_reader *t, const char *prefix, const pickle_value *key,
                             const pickle_value *value) {
    char name[300], text[TORCH_SHOWN];
    const char *shown = text;
    if (key->kind != PICKLE_STRING) return true;
    switch (value->kind) {
    case PICKLE_STRING: shown = value->u.text; break;
    case PICKLE_BOOL: shown = value->u.integer ? "true" : "false"; break;
    case PICKLE_INT: snprintf(text, sizeof text, "%lld", (long long)value->u.integer); break;
    case PICKLE_FLOAT: snprintf(text, sizeof text, "%.17g", value->u.number); break;
    default:
        if (!torch_show_numbers(value, text)) return true;
    }
    snprintf(name, sizeof name, "%s%s%.200s", prefix, prefix[0] ? "." : "", key->u.text);
    return checkpoint_add_metadata(t->c, name, shown, t->report);
}

/* True for the usual keys of the model's configuration. */
static bool torch_is_configuration(const pickle_value *key) {
    static const char *const names[] = {
        "args",       "config",       "cfg",          "hparams", "hyper_parameters",
        "model_args", "model_config", "model_kwargs", "kwargs",
    };
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (pickle_is_text(key, PICKLE_STRING, names[i])) return true;
    return false;
}

/* Adds the scalars and the lists of numbers beside the state dict as metadata. The values of an
 * argparse.Namespace, or of a dict of settings, get names with two parts, such as "args.lr". The
 * values of a dict of settings inside one of these get names with three parts, such as
 * "args.model_kwargs.depth". */
static bool torch_add_metadata(torch_reader *t, const pickle_value *dict, const char *prefix) {
    const bool is_deep = strchr(prefix, '.') != NULL;
    char name[160];
    size_t i;
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        const pickle_value *inner = torch_as_module(value) ? NULL : torch_as_object(value);
        if (!torch_step(t) || !torch_add_scalar(t, prefix, key, value) ||
            !torch_add_labels(t, key, value))
            return false;
        if (!inner && torch_is_configuration(key)) inner = torch_as_dict(value);
        if (is_deep || !inner || key->kind != PICKLE_STRING || key->count >= 64 ||
            (prefix[0] && !torch_is_configuration(key)))
            continue;
        snprintf(name, sizeof name, "%.64s%s%.64s", prefix, prefix[0] ? "." : "", key->u.text);
        if (!torch_add_metadata(t, inner, name)) return false;
    }
    return true;
}

/* === Paths === */

static bool torch_add_wrapper(torch_reader *t, const char *key) {
    size_t old = strlen(t->c->wrapper), size = strlen(key);
    char *path = memory_take(&t->c->memory, old + size + 2);
    if (!path) return report_no_memory(t->report);
    snprintf(path, old + size + 2, "%s%s%s", t->c->wrapper, old ? "." : "", key);
    t->c->wrapper = path;
    return true;
}

/* Lists the path of each dict or module that could be the model. There may be several. */
static bool torch_list_choices(torch_reader *t, const pickle_value *value, char *path,
                               size_t path_size, int depth) {
    const pickle_value *dict = torch_entries(t, value);
    const char *key;
    size_t i, size;
    if (!dict || depth > PICKLE_MAX_DEPTH || !torch_wrapper(t, dict, &key))
        return !t->report->failed && checkpoint_add_choice(t->c, path, t->report);
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *name = dict->u.items[i], *inner = dict->u.items[i + 1];
        if (!torch_is_candidate(name, inner) || strstr(name->u.text, "loss") ||
            !torch_holds_tensors(t, inner, 0))
            continue;
        if (!torch_append_name(t, path, path_size, name, &size) ||
            !torch_list_choices(t, inner, path, size, depth + 1))
            return false;
        path[path_size] = '\0';
    }
    return !t->report->failed;
}

/* Returns the value at a path, or NULL. The keys in the path may contain dots. */
static const pickle_value *torch_find_path(torch_reader *t, const pickle_value *value,
                                           const char *path) {
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

static const pickle_value *torch_refuse_path(torch_reader *t) {
    const checkpoint *c = t->c;
    char list[300] = "";
    size_t i, used = 0;
    if (c->choice_count < 2 && (c->choice_count == 0 || c->choices[0][0] == '\0')) {
        (void)report_fail(
            t->report,
            "no state dict \"%.60s\": the file holds a single state dict; leave out --weights",
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

static const pickle_value *torch_descend(torch_reader *t, const pickle_value *value) {
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

static const pickle_value *torch_take_wanted(torch_reader *t, const pickle_value *root) {
    const pickle_value *found = torch_find_path(t, root, t->c->wanted);
    if (t->report->failed) return NULL;
    if (!found) return torch_refuse_path(t);
    /* The root may hold metadata too. */
    if (!torch_add_metadata(t, torch_entries(t, root), "")) return NULL;
    return torch_add_wrapper(t, t->c->wanted) ? torch_descend(t, found) : NULL;
}

/* Chooses the value that is the model. NumPy arrays count as tensors only if there are no other
 * tensors. Otherwise the arrays are statistics. */
const pickle_value *torch_choose(torch_reader *t) {
    const pickle_value *root = t->pickle.root, *entries = torch_entries(t, root), *chosen;
    char path[TORCH_MAX_NAME] = "";
    if (t->torchscript) return root;
    t->arrays = !torch_holds_tensors(t, entries ? entries : root, 1);
    if (!torch_list_choices(t, root, path, 0, 0)) return NULL;
    chosen = t->c->wanted ? torch_take_wanted(t, root) : torch_descend(t, root);
    if (t->c->choice_count == 1) t->c->choice_count = 0;
    return chosen;
}

/* === Names of classes === */

/* This part reads the names of the classes that a training program saved beside the weights. */

enum { TORCH_MAX_LABELS = 100000 };

static bool torch_is_label(const pickle_value *value) {
    return value->kind == PICKLE_STRING && text_is_name(value->u.text, value->count);
}

/* Reads the index of a class. The index is a text if the dict has passed through JSON. */
static bool torch_read_index(const pickle_value *value, size_t count, size_t *index) {
    long number = -1;
    if (value->kind == PICKLE_INT && value->u.integer < TORCH_MAX_LABELS)
        number = (long)value->u.integer;
    else if (value->kind != PICKLE_STRING ||
             !text_read_int(value->u.text, 0, TORCH_MAX_LABELS, &number))
        return false;
    *index = (size_t)number;
    return number >= 0 && *index < count;
}

/* Reads the names of classes from a list such as ["cat", "dog"]. */
static bool torch_order_list(const pickle_value *list, const char **labels) {
    size_t i;
    for (i = 0; i < list->count; i++) {
        if (!torch_is_label(list->u.items[i])) return false;
        labels[i] = list->u.items[i]->u.text;
    }
    return true;
}

/* Reads the names of classes from a dict such as {"cat": 0, "dog": 1} or {0: "cat", 1: "dog"}. */
static bool torch_order_dict(const pickle_value *dict, const char **labels) {
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

static bool torch_add_ordered(torch_reader *t, const pickle_value *value, size_t count) {
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

bool torch_add_labels(torch_reader *t, const pickle_value *key, const pickle_value *value) {
    static const char *const names[] = {
        "class_names", "classes", "class_to_idx", "idx_to_class", "label_map",
        "label_names", "labels",  "id2label",     "label2id",
    };
    const bool is_dict = value->kind == PICKLE_DICT;
    const size_t count = is_dict ? value->count / 2 : value->count;
    size_t i = 0;
    if (t->c->label_count > 0 || count == 0 || count > TORCH_MAX_LABELS ||
        (!is_dict && value->kind != PICKLE_LIST && value->kind != PICKLE_TUPLE))
        return true;
    while (i < sizeof names / sizeof *names && !pickle_is_text(key, PICKLE_STRING, names[i])) i++;
    return i == sizeof names / sizeof *names || torch_add_ordered(t, value, count);
}
