/* safetensors.c - reads a u64 header length, a JSON header and the tensor data, in this order.
 *
 * The reader enforces every rule of the format. The header has at most 100 MB, starts with '{' and
 * has exactly the given length. No key occurs twice. The size of each tensor follows from its dtype
 * and shape. The tensors cover the data without gap or overlap up to the last byte of the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"
#include "base/text.h"
#include "checkpoint/container.h"

#define SAFETENSORS_MAX_HEADER 100000000u

typedef struct safetensors_dtype {
    const char *name;
    uint8_t size;
    bool supported;
    checkpoint_dtype dtype;
} safetensors_dtype;

/* The types of the format. Unsupported types have a size too, so that the other tensors of the file
 * can still be used. */
static const safetensors_dtype safetensors_dtypes[] = {
    { "F32", 4, true, CHECKPOINT_F32 },     { "F16", 2, true, CHECKPOINT_F16 },
    { "BF16", 2, true, CHECKPOINT_BF16 },   { "F64", 8, true, CHECKPOINT_F64 },
    { "I64", 8, true, CHECKPOINT_I64 },     { "I32", 4, true, CHECKPOINT_I32 },
    { "I16", 2, true, CHECKPOINT_I16 },     { "I8", 1, true, CHECKPOINT_I8 },
    { "U8", 1, true, CHECKPOINT_U8 },       { "BOOL", 1, true, CHECKPOINT_BOOL },
    { "U16", 2, false, CHECKPOINT_U8 },     { "U32", 4, false, CHECKPOINT_U8 },
    { "U64", 8, false, CHECKPOINT_U8 },     { "C64", 8, false, CHECKPOINT_U8 },
    { "F8_E5M2", 1, false, CHECKPOINT_U8 }, { "F8_E4M3", 1, false, CHECKPOINT_U8 },
    { "F8_E8M0", 1, false, CHECKPOINT_U8 },
};

/* The range of bytes that one tensor's data take in the file. All ranges are collected to find gaps
 * and overlaps. */
typedef struct safetensors_range {
    uint64_t begin, end;
    const char *name;
} safetensors_range;

typedef struct safetensors_reader {
    checkpoint *c;
    size_t file;
    uint64_t data_start, data_size;
    safetensors_range *ranges;
    size_t count;
    report *report;
} safetensors_reader;

static const safetensors_dtype *safetensors_find_dtype(const char *name) {
    size_t i;
    for (i = 0; name && i < sizeof safetensors_dtypes / sizeof *safetensors_dtypes; i++)
        if (strcmp(safetensors_dtypes[i].name, name) == 0) return &safetensors_dtypes[i];
    return NULL;
}

static bool safetensors_read_shape(safetensors_reader *s, const json_value *shape,
                                   checkpoint_tensor_info *t) {
    const json_value *child;
    if (!shape || shape->kind != JSON_ARRAY)
        return report_fail(s->report, "%.200s: no shape", t->name);
    if (shape->count > CHECKPOINT_MAX_DIMS)
        return report_fail(s->report, "%.200s: found %lu dimensions, expected at most %d", t->name,
                           (unsigned long)shape->count, CHECKPOINT_MAX_DIMS);
    for (child = json_first(shape); child; child = child->next) {
        t->dims[t->ndim] = json_integer(child, -1);
        if (t->dims[t->ndim++] < 0)
            return report_fail(s->report, "%.200s: shape: a dimension is not an integer >= 0",
                               t->name);
    }
    return true;
}

static bool safetensors_read_range(safetensors_reader *s, const json_value *offsets,
                                   const char *name, safetensors_range *range) {
    int64_t begin = json_integer(json_at(offsets, 0), -1);
    int64_t end = json_integer(json_at(offsets, 1), -1);
    if (!offsets || offsets->kind != JSON_ARRAY || offsets->count != 2 || begin < 0 || end < begin)
        return report_fail(s->report,
                           "%.200s: data_offsets must be two integers, 0 <= begin <= "
                           "end",
                           name);
    range->begin = (uint64_t)begin;
    range->end = (uint64_t)end;
    range->name = name;
    if (range->end <= s->data_size) return true;
    return report_fail(
        s->report,
        "%.200s: data_offsets end at %lld, but the file's data end at %llu: the file is truncated",
        name, (long long)end, (unsigned long long)s->data_size);
}

static bool safetensors_check_size(safetensors_reader *s, const checkpoint_tensor_info *t,
                                   const safetensors_range *range, uint64_t element_size) {
    uint64_t bytes = element_size;
    int i;
    for (i = 0; i < t->ndim; i++)
        if (!bytes_multiply(bytes, (uint64_t)t->dims[i], &bytes))
            return report_fail(s->report, "%.200s: shape: the product overflows", t->name);
    if (range->end - range->begin == bytes) return true;
    return report_fail(
        s->report, "%.200s: data_offsets hold %llu bytes, but shape and dtype require %llu",
        t->name, (unsigned long long)(range->end - range->begin), (unsigned long long)bytes);
}

/* Adds a tensor. Each tensor gets its own storage, because its range may start at any byte. */
static bool safetensors_add_tensor(safetensors_reader *s, checkpoint_tensor_info *t,
                                   const safetensors_range *range, uint64_t element_size) {
    checkpoint_storage storage = { 0 };
    storage.file = s->file;
    storage.bytes.name = paths_file_name(s->c->files[s->file].path);
    storage.bytes.offset = s->data_start + range->begin;
    storage.bytes.size = range->end - range->begin;
    storage.bytes.stored_size = storage.bytes.size;
    t->container_name = storage.bytes.name;
    checkpoint_contiguous_strides(t);
    return checkpoint_add_storage(s->c, &storage, &t->storage, s->report) &&
           checkpoint_add_tensor(s->c, t, storage.bytes.size / element_size, s->report);
}

static bool safetensors_read_tensor(safetensors_reader *s, const json_value *entry) {
    checkpoint_tensor_info t = { 0 };
    safetensors_range *range = &s->ranges[s->count++];
    const char *dtype_name = json_string(json_get(entry, "dtype"), NULL);
    const safetensors_dtype *dtype = safetensors_find_dtype(dtype_name);
    t.name = entry->key;
    if (entry->kind != JSON_OBJECT || !dtype)
        return report_fail(s->report, "%.200s: dtype \"%.50s\" is unknown", t.name,
                           dtype_name ? dtype_name : "(none)");
    if (!safetensors_read_shape(s, json_get(entry, "shape"), &t) ||
        !safetensors_read_range(s, json_get(entry, "data_offsets"), t.name, range) ||
        !safetensors_check_size(s, &t, range, dtype->size))
        return false;
    if (!dtype->supported) return checkpoint_add_skipped(s->c, t.name, dtype->name, s->report);
    t.dtype = dtype->dtype;
    return safetensors_add_tensor(s, &t, range, dtype->size);
}

static bool safetensors_read_metadata(safetensors_reader *s, const json_value *metadata) {
    const json_value *child;
    if (metadata->kind != JSON_OBJECT)
        return report_fail(s->report, "__metadata__ is not an object");
    for (child = json_first(metadata); child; child = child->next) {
        if (child->kind != JSON_STRING)
            return report_fail(s->report, "__metadata__: \"%.200s\" is not a string", child->key);
        if (!checkpoint_add_metadata(s->c, child->key, child->u.string, s->report)) return false;
    }
    return true;
}

static int safetensors_compare_ranges(const void *a, const void *b) {
    const safetensors_range *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static bool safetensors_check_layout(safetensors_reader *s) {
    uint64_t at = 0;
    size_t i;
    qsort(s->ranges, s->count, sizeof *s->ranges, safetensors_compare_ranges);
    for (i = 0; i < s->count; i++) {
        const safetensors_range *range = &s->ranges[i];
        if (range->begin != at)
            return report_fail(s->report, "%.200s: data_offsets begin at %llu, expected %llu: %s",
                               range->name, (unsigned long long)range->begin,
                               (unsigned long long)at, range->begin > at ? "a hole" : "an overlap");
        at = range->end;
    }
    if (at == s->data_size) return true;
    return report_fail(s->report,
                       "trailing bytes: the tensors end at byte %llu, but the file ends at %llu",
                       (unsigned long long)(s->data_start + at),
                       (unsigned long long)(s->data_start + s->data_size));
}

static bool safetensors_read_entries(safetensors_reader *s, const json_value *root) {
    const json_value *entry;
    if (root->count > 2 * CHECKPOINT_MAX_TENSORS)
        return report_fail(s->report, "more than %d tensors", CHECKPOINT_MAX_TENSORS);
    s->ranges = calloc(root->count + (size_t)1, sizeof *s->ranges);
    if (!s->ranges) return report_no_memory(s->report);
    for (entry = json_first(root); entry; entry = entry->next) {
        if (!(strcmp(entry->key, "__metadata__") == 0 ? safetensors_read_metadata(s, entry)
                                                      : safetensors_read_tensor(s, entry)))
            return false;
    }
    return safetensors_check_layout(s);
}

static bool safetensors_parse(safetensors_reader *s, char *header, size_t size) {
    json_document json;
    bool ok;
    if (!source_read(&s->c->sources[s->file], 8, header, size, s->report)) return false;
    if (header[0] != '{')
        return report_fail(s->report, "safetensors: the header must start with '{', found 0x%02x",
                           (unsigned)(uint8_t)header[0]);
    if (!json_parse(&json, header, size, true, 8, s->report)) return false;
    ok = safetensors_read_entries(s, json.root);
    free(s->ranges);
    json_free(&json);
    return ok;
}

bool safetensors_open(checkpoint *c, size_t file, report *r) {
    safetensors_reader s = { 0 };
    uint64_t file_size = c->sources[file].size, size;
    uint8_t length[8];
    char *header;
    bool ok;
    if (!source_read(&c->sources[file], 0, length, sizeof length, r)) return false;
    size = bytes_load64(length);
    if (size > SAFETENSORS_MAX_HEADER)
        return report_fail(r, "safetensors: found a header of %llu bytes, expected at most %u",
                           (unsigned long long)size, SAFETENSORS_MAX_HEADER);
    if (size == 0 || size > file_size - 8)
        return report_fail(
            r, "safetensors: truncated: the header has %llu bytes, but the file has %llu",
            (unsigned long long)size, (unsigned long long)file_size);
    s.c = c;
    s.file = file;
    s.data_start = 8 + size;
    s.data_size = file_size - s.data_start;
    s.report = r;
    header = malloc((size_t)size + 1);
    if (!header) return report_no_memory(r);
    ok = safetensors_parse(&s, header, (size_t)size);
    free(header);
    return ok;
}
