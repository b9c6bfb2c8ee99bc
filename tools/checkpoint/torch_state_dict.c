/* torch_state_dict.c - the tensors that a pickle of torch.save describes.
 *
 * The pickle holds calls: _rebuild_tensor_v2(storage, offset, size, stride, ...) where storage is a
 * persistent id ('storage', class, key, device, elements). Two steps: choose the state dict inside
 * the pickle, turn its tensor calls into checkpoint tensors. TorchScript's module objects are
 * walked as if they were dicts.
 */
#include "checkpoint/torch_state_dict.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#ifndef TORCH_MAX_STEPS
#define TORCH_MAX_STEPS 1000000      /* nodes visited: shared nodes count each time */
#endif

bool torch_step(torch_reader *t)
{
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
    { "", "uint64", 8, false, CHECKPOINT_U8 }
};

/* "torch.FloatStorage" -> "FloatStorage"; NULL if another module defines it. */
static const char *torch_strip_module(const pickle_value *global)
{
    static const char *const modules[] = { "torch.storage.", "torch.cuda.", "torch." };
    size_t i;
    if (!global || global->kind != PICKLE_GLOBAL) return NULL;
    for (i = 0; i < sizeof modules / sizeof *modules; i++) {
        size_t size = strlen(modules[i]);
        if (strncmp(global->u.text, modules[i], size) == 0) return global->u.text + size;
    }
    return NULL;
}

static const torch_class *torch_find_class(const pickle_value *global, bool is_dtype)
{
    const char *name = torch_strip_module(global);
    size_t i;
    for (i = 0; name && name[0] && i < sizeof torch_classes / sizeof *torch_classes; i++)
        if (strcmp(is_dtype ? torch_classes[i].dtype_name : torch_classes[i].name, name) == 0)
            return &torch_classes[i];
    return NULL;
}

/* How to read a call that PyTorch uses for tensors. */
typedef enum torch_call {
    TORCH_NOT_A_TENSOR,
    TORCH_TENSOR,          /* (storage, offset, size, stride, ...) */
    TORCH_TENSOR_TYPED,    /* (storage, offset, size, stride, requires_grad, hooks, dtype, ...) */
    TORCH_WRAPPED,         /* (tensor, ...) */
    TORCH_SUBCLASS         /* (rebuild function, class, its arguments, state) */
} torch_call;

static torch_call torch_call_of(const pickle_value *callable)
{
    static const struct { const char *name; torch_call call; } calls[] = {
        { "torch._utils._rebuild_tensor_v2", TORCH_TENSOR },
        { "torch._utils._rebuild_tensor", TORCH_TENSOR },
        { "torch._utils._rebuild_tensor_v3", TORCH_TENSOR_TYPED },
        { "torch._utils._rebuild_parameter", TORCH_WRAPPED },
        { "torch._utils._rebuild_parameter_with_state", TORCH_WRAPPED },
        { "torch._tensor._rebuild_from_type_v2", TORCH_SUBCLASS }
    };
    size_t i;
    for (i = 0; i < sizeof calls / sizeof *calls; i++)
        if (pickle_is_text(callable, PICKLE_GLOBAL, calls[i].name)) return calls[i].call;
    return TORCH_NOT_A_TENSOR;
}

/* === Reading the pickle's values === */

const pickle_value *torch_item(const pickle_value *sequence, size_t i)
{
    bool is_sequence = sequence
                    && (sequence->kind == PICKLE_TUPLE || sequence->kind == PICKLE_LIST);
    return is_sequence && i < sequence->count ? sequence->u.items[i] : NULL;
}

const pickle_value *torch_part(const pickle_value *call, size_t part)
{
    return call && call->kind == PICKLE_CALL ? call->u.items[part] : NULL;
}

bool torch_is_tensor(const torch_reader *t, const pickle_value *value)
{
    return torch_call_of(torch_part(value, PICKLE_CALLABLE)) != TORCH_NOT_A_TENSOR
        || (t->arrays && torch_is_array(value));
}

static bool torch_has_prefix(const pickle_value *global, const char *prefix)
{
    return global->kind == PICKLE_GLOBAL
        && strncmp(global->u.text, prefix, strlen(prefix)) == 0;
}

const pickle_value *torch_as_dict(const pickle_value *value)
{
    const pickle_value *state;
    if (!value || value->kind == PICKLE_DICT) return value;
    if (value->kind != PICKLE_CALL) return NULL;
    if (torch_part(value, PICKLE_CONTENTS)) return torch_part(value, PICKLE_CONTENTS);
    state = torch_part(value, PICKLE_STATE);
    if (torch_has_prefix(torch_part(value, PICKLE_CALLABLE), "__torch__.") && state
        && state->kind == PICKLE_DICT) return state;
    return NULL;
}

/* A module of torch.fx has its attributes as an argument; an object with slots has them first of
 * two. */
const pickle_value *torch_as_object(const pickle_value *value)
{
    const pickle_value *state = torch_part(value, PICKLE_STATE);
    if (state && state->kind == PICKLE_TUPLE) state = torch_item(state, 0);
    if (!state && pickle_is_text(torch_part(value, PICKLE_CALLABLE), PICKLE_GLOBAL,
                                 "torch.fx.graph_module.reduce_graph_module"))
        state = torch_item(torch_part(value, PICKLE_ARGUMENTS), 0);
    return state && state->kind == PICKLE_DICT ? state : NULL;
}

const pickle_value *torch_as_module(const pickle_value *value)
{
    const pickle_value *state = torch_as_object(value);
    return pickle_get(state, "_modules") && pickle_get(state, "_parameters") ? state : NULL;
}

/* === Storages === */

static bool torch_fail_storage(torch_reader *t, const char *name, const char *what)
{
    return report_fail(t->report, "%.200s: its storage %s", name, what);
}

static bool torch_is_count(const pickle_value *value)
{
    return value && value->kind == PICKLE_INT && value->u.integer >= 0
        && value->u.integer <= INT64_MAX / 64;
}

/* The last field of a legacy id: None or (key, offset, count) of a view of the root storage. */
static bool torch_read_view(torch_reader *t, const char *name, const pickle_value *view,
                            torch_storage *storage)
{
    const pickle_value *offset = torch_item(view, 1), *count = torch_item(view, 2);
    if (!view || view->kind == PICKLE_NONE) return true;
    if (!torch_is_count(offset) || !torch_is_count(count)
        || (uint64_t)(offset->u.integer + count->u.integer) > storage->root_count)
        return torch_fail_storage(t, name, "is a view beyond the end of another");
    storage->base = (uint64_t)offset->u.integer;
    storage->count = (uint64_t)count->u.integer;
    return true;
}

bool torch_read_storage(torch_reader *t, const char *name, const pickle_value *value,
                        torch_storage *storage)
{
    const pickle_value *id = value && value->kind == PICKLE_PERSISTENT ? value->u.items[0] : NULL;
    const pickle_value *class = torch_item(id, 1), *key = torch_item(id, 2);
    const pickle_value *count = torch_item(id, 4);
    if (!pickle_is_text(torch_item(id, 0), PICKLE_STRING, "storage"))
        return torch_fail_storage(t, name, "is not a ('storage', class, key, device, size) id");
    storage->class = torch_find_class(class, false);
    if (!storage->class)
        return report_fail(t->report, "%.200s: unknown storage class \"%.200s\"", name,
                           class && class->kind == PICKLE_GLOBAL ? class->u.text : "(none)");
    if (!key || key->kind != PICKLE_STRING || !text_is_name(key->u.text, key->count)
        || key->count > 200)
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
                      const pickle_value *strides)
{
    size_t i;
    if (!sizes || !strides || sizes->count != strides->count
        || (sizes->kind != PICKLE_TUPLE && sizes->kind != PICKLE_LIST)
        || (strides->kind != PICKLE_TUPLE && strides->kind != PICKLE_LIST))
        return report_fail(t->report, "%.200s: sizes and strides do not match", info->name);
    if (sizes->count > CHECKPOINT_MAX_DIMS)
        return report_fail(t->report, "%.200s: %lu dimensions, at most %d expected", info->name,
                           (unsigned long)sizes->count, CHECKPOINT_MAX_DIMS);
    info->ndim = (int)sizes->count;
    for (i = 0; i < sizes->count; i++) {
        if (sizes->u.items[i]->kind != PICKLE_INT || strides->u.items[i]->kind != PICKLE_INT)
            return report_fail(t->report, "%.200s: sizes and strides must be integers",
                               info->name);
        info->dims[i] = sizes->u.items[i]->u.integer;
        info->strides[i] = strides->u.items[i]->u.integer;
    }
    return true;
}

static bool torch_skip(torch_reader *t, const char *name, const char *reason)
{
    return checkpoint_add_skipped(t->c, name, reason, t->report);
}

/* dtype NULL: that of the storage. */
static bool torch_add_view(torch_reader *t, checkpoint_tensor_info *info,
                           const torch_storage *storage, const torch_class *dtype, int64_t offset)
{
    uint64_t bytes = storage->count * storage->class->size;
    uint64_t base = storage->base * storage->class->size;
    if (!dtype) dtype = storage->class;
    if (!dtype->supported) return torch_skip(t, info->name, dtype->dtype_name);
    if (base % dtype->size || offset < 0 || offset > INT64_MAX / 64)
        return report_fail(t->report, "%.200s: bad storage offset %lld", info->name,
                           (long long)offset);
    if (!(storage->found
          ? checkpoint_add_storage(t->c, storage->found, &info->storage, t->report)
          : t->place(t, info->name, storage, &info->storage))) return false;
    info->dtype = dtype->dtype;
    info->container_name = t->c->storages[info->storage].bytes.name;
    info->storage_offset = (int64_t)(base / dtype->size) + offset;
    return checkpoint_add_tensor(t->c, info, (base + bytes) / dtype->size, t->report);
}

static bool torch_add_tensor(torch_reader *t, const char *name, const pickle_value *arguments,
                             bool typed)
{
    checkpoint_tensor_info info = { 0 };
    torch_storage storage = { 0 };
    checkpoint_storage found = { 0 };
    const pickle_value *offset = torch_item(arguments, 1), *id = torch_item(arguments, 0);
    const torch_class *dtype = typed ? torch_find_class(torch_item(arguments, 6), true) : NULL;
    info.name = name;
    if (!(torch_is_nested(id) ? torch_read_nested(t, name, id, &storage, &found)
                              : torch_read_storage(t, name, id, &storage))) return false;
    if (typed && !dtype)
        return report_fail(t->report, "%.200s: unknown dtype", name);
    if (!offset || offset->kind != PICKLE_INT)
        return report_fail(t->report, "%.200s: no storage offset", name);
    return torch_read_sizes(t, &info, torch_item(arguments, 2), torch_item(arguments, 3))
        && torch_add_view(t, &info, &storage, dtype, offset->u.integer);
}

/* Unwraps parameters and subclasses. Bounded, because a cycle may wrap itself. */
bool torch_add_call(torch_reader *t, const char *name, const pickle_value *value)
{
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
            return report_fail(t->report, "%.200s: the tensor is built by \"%.200s\", which is not "
                               "supported", name, callable && callable->kind == PICKLE_GLOBAL
                               ? callable->u.text : "(unknown)");
        }
    }
    return report_fail(t->report, "%.200s: parameters nested deeper than %d", name, depth);
}

/* === Flattening === */

/* Does an opaque call use tensor data, directly or through its arguments? */
static bool torch_uses_storage(torch_reader *t, const pickle_value *value, int depth)
{
    size_t i;
    bool children = value && (value->kind == PICKLE_TUPLE || value->kind == PICKLE_LIST);
    if (!value || depth >= PICKLE_MAX_DEPTH || !torch_step(t)) return false;
    if (value->kind == PICKLE_PERSISTENT || torch_is_tensor(t, value)) return true;
    for (i = 0; children && i < value->count; i++)
        if (torch_uses_storage(t, value->u.items[i], depth + 1)) return true;
    return value->kind == PICKLE_CALL
        && torch_uses_storage(t, torch_part(value, PICKLE_ARGUMENTS), depth + 1);
}

static bool torch_add_opaque(torch_reader *t, const char *name, const pickle_value *value)
{
    const pickle_value *callable = torch_part(value, PICKLE_CALLABLE);
    const char *class = callable && callable->kind == PICKLE_GLOBAL ? callable->u.text
                                                                    : "(unknown)";
    if (!torch_uses_storage(t, torch_part(value, PICKLE_ARGUMENTS), 0)) return !t->report->failed;
    if (strstr(class, "qtensor") || strstr(class, "sparse")) return torch_skip(t, name, class);
    return report_fail(t->report, "%.200s: the tensor is built by \"%.200s\", which is not "
                       "supported", name, class);
}

bool torch_append_name(torch_reader *t, char *name, size_t name_size, const pickle_value *key,
                       size_t *size)
{
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
                               const pickle_value *dict, int depth)
{
    size_t i, size;
    for (i = 0; i + 1 < dict->count; i += 2) {
        const pickle_value *key = dict->u.items[i], *value = dict->u.items[i + 1];
        if (!torch_step(t)) return false;
        if (key->kind != PICKLE_STRING && key->kind != PICKLE_INT) continue;
        if (value->kind != PICKLE_DICT && value->kind != PICKLE_CALL) continue;
        if (!torch_append_name(t, name, name_size, key, &size)
            || !torch_flatten(t, name, size, value, depth + 1)) return false;
        name[name_size] = '\0';
    }
    return true;
}

/* A file that is nothing but tensors one after the other: they are called by their places. */
static bool torch_flatten_list(torch_reader *t, const pickle_value *list)
{
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
                   int depth)
{
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

bool torch_read_state_dict(torch_reader *t)
{
    char name[TORCH_MAX_NAME] = "";
    const pickle_value *value = torch_choose(t);
    if (!value || !torch_flatten(t, name, 0, value, 0)) return false;
    if (t->c->tensor_count > 0 || t->torchscript) return true;
    return report_fail(t->report, "no state dict: no dict or module with tensors was found");
}
