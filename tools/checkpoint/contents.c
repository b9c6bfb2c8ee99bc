/* contents.c - the lists of a checkpoint (tensors, metadata, attributes and others), and the
 * functions that read them. Every container fills these lists. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/container.h"

/* === Lists === */

bool checkpoint_add_storage(checkpoint *c, const checkpoint_storage *storage, size_t *index,
                            report *r) {
    checkpoint_storage *storages = memory_grow(c->storages, sizeof *storages, c->storage_count,
                                               &c->storage_capacity);
    if (!storages) return report_no_memory(r);
    c->storages = storages;
    *index = c->storage_count++;
    storages[*index] = *storage;
    return true;
}

void checkpoint_contiguous_strides(checkpoint_tensor_info *t) {
    uint64_t stride = 1;
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        /* checkpoint_check_dims refuses an overflow */
        t->strides[i] = (int64_t)(stride & INT64_MAX);
        stride *= (uint64_t)t->dims[i];
    }
}

/* Checks the dimensions. The number of elements must fit an int64. The product of the dimensions
 * other than 0 must also fit an int64, because the strides of a tensor without elements are
 * computed from this product. */
static bool checkpoint_check_dims(checkpoint_tensor_info *t, report *r) {
    const uint64_t most = INT64_MAX / 16;
    uint64_t product = 1;
    bool empty = false;
    int i;
    for (i = 0; i < t->ndim; i++) {
        if (t->dims[i] < 0)
            return report_fail(r, "%.200s: negative dimension %lld", t->name,
                               (long long)t->dims[i]);
        if (t->dims[i] == 0) empty = true;
        else if ((uint64_t)t->dims[i] > most / product)
            return report_fail(r, "%.200s: the product of the dimensions overflows", t->name);
        else product *= (uint64_t)t->dims[i];
    }
    t->count = empty ? 0 : (int64_t)product;
    return true;
}

/* Checks that all elements lie in their storage, which has `available` elements. The index of the
 * last element is offset + sum((dim - 1) * stride). */
static bool checkpoint_check_extent(const checkpoint_tensor_info *t, uint64_t available,
                                    report *r) {
    uint64_t last = (uint64_t)t->storage_offset, reach;
    bool fits = t->storage_offset >= 0;
    int i;
    for (i = 0; i < t->ndim; i++) {
        if (t->strides[i] < 0)
            return report_fail(r, "%.200s: negative stride %lld", t->name,
                               (long long)t->strides[i]);
        fits = fits && bytes_multiply((uint64_t)t->dims[i] - 1, (uint64_t)t->strides[i], &reach) &&
               bytes_add(last, reach, &last);
    }
    if (fits && last < available) return true;
    return report_fail(r,
                       "%.200s: the tensor reaches beyond its storage \"%.200s\" of %llu elements",
                       t->name, t->container_name, (unsigned long long)available);
}

static bool checkpoint_check_tensor(checkpoint_tensor_info *t, uint64_t available, report *r) {
    int i;
    if (!text_is_name(t->name, strlen(t->name)))
        return report_fail(r, "a tensor's name is empty, too long or not printable UTF-8");
    if (!checkpoint_check_dims(t, r)) return false;
    for (i = 0; i < t->ndim; i++) /* A dimension of 1 never uses its stride. */
        if (t->dims[i] == 1 && t->strides[i] >= 0) t->strides[i] = 0;
    return t->count == 0 || checkpoint_check_extent(t, available, r);
}

bool checkpoint_add_tensor(checkpoint *c, const checkpoint_tensor_info *tensor, uint64_t available,
                           report *r) {
    checkpoint_tensor_info t = *tensor, *tensors;
    if (!checkpoint_check_tensor(&t, available, r)) return false;
    if (c->tensor_count >= CHECKPOINT_MAX_TENSORS)
        return report_fail(r, "more than %d tensors", CHECKPOINT_MAX_TENSORS);
    tensors = memory_grow(c->tensors, sizeof t, c->tensor_count, &c->tensor_capacity);
    if (!tensors) return report_no_memory(r);
    c->tensors = tensors;
    t.name = memory_copy_text(&c->memory, t.name, strlen(t.name));
    t.container_name = memory_copy_text(&c->memory, t.container_name, strlen(t.container_name));
    if (!t.name || !t.container_name) return report_no_memory(r);
    t.stored_name = t.name;
    tensors[c->tensor_count++] = t;
    return true;
}

/* Adds an entry to the list. Leaves out an entry that exceeds a limit, because metadata must not
 * prevent the loading of a model. */
static bool checkpoint_list_add(checkpoint *c, checkpoint_list *list, const char *key,
                                const char *value, report *r) {
    checkpoint_metadata_entry *entries, entry;
    size_t key_size = strlen(key), value_size = strlen(value);
    if (list->count >= CHECKPOINT_MAX_METADATA || key_size > 1024 || value_size > 65536)
        return true;
    entries = memory_grow(list->entries, sizeof entry, list->count, &list->capacity);
    if (!entries) return report_no_memory(r);
    list->entries = entries;
    entry.key = memory_copy_text(&c->memory, key, key_size);
    entry.value = memory_copy_text(&c->memory, value, value_size);
    if (!entry.key || !entry.value) return report_no_memory(r);
    entries[list->count++] = entry;
    return true;
}

bool checkpoint_add_metadata(checkpoint *c, const char *key, const char *value, report *r) {
    return checkpoint_list_add(c, &c->metadata, key, value, r);
}

bool checkpoint_add_skipped(checkpoint *c, const char *name, const char *reason, report *r) {
    return checkpoint_list_add(c, &c->skipped, name, reason, r);
}

bool checkpoint_add_label(checkpoint *c, const char *text, report *r) {
    const char **labels = memory_grow(c->labels, sizeof *labels, c->label_count,
                                      &c->label_capacity);
    if (!labels) return report_no_memory(r);
    c->labels = labels;
    labels[c->label_count] = memory_copy_text(&c->memory, text, strlen(text));
    if (!labels[c->label_count++]) return report_no_memory(r);
    return true;
}

bool checkpoint_add_choice(checkpoint *c, const char *path, report *r) {
    const char **choices;
    if (c->choice_count >= CHECKPOINT_MAX_CHOICES) return true;
    choices = memory_grow(c->choices, sizeof *choices, c->choice_count, &c->choice_capacity);
    if (!choices) return report_no_memory(r);
    c->choices = choices;
    choices[c->choice_count] = memory_copy_text(&c->memory, path, strlen(path));
    if (!choices[c->choice_count++]) return report_no_memory(r);
    return true;
}

/* Returns a copy of the module's path. The attributes of one module are added one after the other,
 * so they share a single copy. */
static const char *checkpoint_keep_module(checkpoint *c, const char *module) {
    const size_t count = c->attribute_count;
    const char *last = count > 0 ? c->attributes[count - 1].module : NULL;
    if (last && strcmp(last, module) == 0) return last;
    c->attribute_bytes += strlen(module);
    return memory_copy_text(&c->memory, module, strlen(module));
}

bool checkpoint_add_attribute(checkpoint *c, const char *module, const char *name,
                              const char *value, report *r) {
    const size_t name_size = strlen(name), value_size = strlen(value);
    checkpoint_attribute *attributes, attribute;
    if (!text_is_name(name, name_size) || !text_is_name(value, value_size)) return true;
    if (c->attribute_count >= CHECKPOINT_MAX_ATTRIBUTES || name_size > 100 || value_size > 300 ||
        c->attribute_bytes + strlen(module) > CHECKPOINT_MAX_ATTRIBUTE_BYTES)
        return true;
    attributes = memory_grow(c->attributes, sizeof attribute, c->attribute_count,
                             &c->attribute_capacity);
    if (!attributes) return report_no_memory(r);
    c->attributes = attributes;
    attribute.module = checkpoint_keep_module(c, module);
    attribute.name = memory_copy_text(&c->memory, name, name_size);
    attribute.value = memory_copy_text(&c->memory, value, value_size);
    attribute.where = NULL;
    if (!attribute.module || !attribute.name || !attribute.value) return report_no_memory(r);
    attributes[c->attribute_count++] = attribute;
    c->attribute_bytes += name_size + value_size;
    return true;
}

uint8_t *checkpoint_add_block(checkpoint *c, uint64_t size, report *r) {
    uint64_t most = (uint64_t)1 << 24;
    size_t i;
    uint8_t **blocks = memory_grow(c->blocks, sizeof *blocks, c->block_count, &c->block_capacity);
    if (blocks) c->blocks = blocks;
    for (i = 0; i < c->file_count; i++) most += 32 * c->files[i].size;
    if (size > most || c->block_bytes > most - size) {
        (void)report_fail(r, "decoding takes more than %llu bytes of memory",
                          (unsigned long long)most);
        return NULL;
    }
    blocks = blocks ? blocks + c->block_count : NULL;
    if (!blocks || !(*blocks = malloc((size_t)size + 1))) {
        (void)report_no_memory(r);
        return NULL;
    }
    c->block_count++;
    c->block_bytes += size;
    return *blocks;
}

/* === Names === */

static int checkpoint_compare_names(const void *a, const void *b) {
    const checkpoint_tensor_info *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool checkpoint_sort_names(const checkpoint_tensor_info *tensors, size_t count,
                                  const checkpoint_tensor_info **by_name, report *r) {
    size_t i;
    for (i = 0; i < count; i++) by_name[i] = &tensors[i];
    qsort(by_name, count, sizeof *by_name, checkpoint_compare_names);
    for (i = 1; i < count; i++)
        if (strcmp(by_name[i - 1]->name, by_name[i]->name) == 0)
            return report_fail(r, "duplicate tensor \"%.200s\"", by_name[i]->name);
    return true;
}

/* === The limit of repeated tensors === */

/* All tensors together may have this many times the stored bytes, and 64 MiB more. Tensors that
 * share bytes, as in blocks with shared weights or expanded tables, have more than are stored. */
#define CHECKPOINT_MOST_REPEATS 64
#define CHECKPOINT_FREE_REPEATS ((uint64_t)64 << 20)

static int checkpoint_compare_storages(const void *a, const void *b) {
    const checkpoint_storage *x = *(const checkpoint_storage *const *)a;
    const checkpoint_storage *y = *(const checkpoint_storage *const *)b;
    const uintptr_t at[2] = { (uintptr_t)x->memory, (uintptr_t)y->memory };
    if (at[0] != at[1]) return at[0] < at[1] ? -1 : 1;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    if (x->bytes.offset != y->bytes.offset) return x->bytes.offset < y->bytes.offset ? -1 : 1;
    return x->bytes.size < y->bytes.size ? 1 : x->bytes.size > y->bytes.size ? -1 : 0;
}

/* Sets *stored to the number of bytes of all storages. Storages that begin at the same byte of a
 * file count once, with the largest size. */
static bool checkpoint_count_stored(const checkpoint *c, uint64_t *stored, report *r) {
    const checkpoint_storage **sorted = malloc((c->storage_count + 1) * sizeof *sorted);
    size_t i;
    *stored = 0;
    if (!sorted) return report_no_memory(r);
    for (i = 0; i < c->storage_count; i++) sorted[i] = &c->storages[i];
    qsort(sorted, c->storage_count, sizeof *sorted, checkpoint_compare_storages);
    for (i = 0; i < c->storage_count; i++)
        if (i == 0 || sorted[i]->memory != sorted[i - 1]->memory ||
            sorted[i]->file != sorted[i - 1]->file ||
            sorted[i]->bytes.offset != sorted[i - 1]->bytes.offset)
            *stored += sorted[i]->bytes.size;
    free(sorted);
    return true;
}

/* Checks that the tensors are not much larger than the file. A tensor with stride 0 can have any
 * size although the file stores a single element. Without this check, the conversion of a file of a
 * few kilobytes could fill a disk. */
static bool checkpoint_check_repeats(const checkpoint *c, report *r) {
    const checkpoint_tensor_info *largest = c->tensors;
    uint64_t stored, most, all = 0;
    size_t i;
    if (!checkpoint_count_stored(c, &stored, r)) return false;
    most = stored > UINT64_MAX / 4 / CHECKPOINT_MOST_REPEATS
               ? UINT64_MAX / 4
               : CHECKPOINT_MOST_REPEATS * stored + CHECKPOINT_FREE_REPEATS;
    for (i = 0; i < c->tensor_count; i++) {
        const checkpoint_tensor_info *t = &c->tensors[i];
        const uint64_t size = checkpoint_dtype_size(t->dtype), block = checkpoint_block(t->dtype);
        uint64_t bytes;
        if (!bytes_multiply((uint64_t)t->count / block, size, &bytes) ||
            !bytes_add(all, bytes, &all))
            all = UINT64_MAX;
        if (t->count > largest->count) largest = t;
    }
    return all <= most ||
           report_fail(
               r,
               "the tensors expand from %llu stored bytes to %llu bytes; expected at most %d times "
               "the stored size plus %d MiB; the largest tensor, \"%.200s\", has %lld elements",
               (unsigned long long)stored, (unsigned long long)all, CHECKPOINT_MOST_REPEATS,
               (int)(CHECKPOINT_FREE_REPEATS >> 20), largest->name, (long long)largest->count);
}

bool checkpoint_index_names(checkpoint *c, report *r) {
    if (c->tensor_count == 0) return report_fail(r, "no tensors inside");
    if (!checkpoint_check_repeats(c, r)) return false;
    c->by_name = malloc(c->tensor_count * sizeof *c->by_name);
    if (!c->buffer) c->buffer = malloc(CHECKPOINT_BUFFER_SIZE);
    if (!c->by_name || !c->buffer) return report_no_memory(r);
    return checkpoint_sort_names(c->tensors, c->tensor_count, c->by_name, r);
}

/* === Access === */

const char *checkpoint_kind(const checkpoint *c) { return c->kind; }

const char *checkpoint_wrapper(const checkpoint *c) { return c->wrapper; }

size_t checkpoint_choice_count(const checkpoint *c) { return c->choice_count; }

const char *checkpoint_choice(const checkpoint *c, size_t i) {
    return i < c->choice_count ? c->choices[i] : NULL;
}

size_t checkpoint_attribute_count(const checkpoint *c) { return c->attribute_count; }

const checkpoint_attribute *checkpoint_attribute_at(const checkpoint *c, size_t i) {
    return i < c->attribute_count ? &c->attributes[i] : NULL;
}

size_t checkpoint_count(const checkpoint *c) { return c->tensor_count; }

const checkpoint_tensor_info *checkpoint_tensor(const checkpoint *c, size_t i) {
    return i < c->tensor_count ? &c->tensors[i] : NULL;
}

const checkpoint_tensor_info *checkpoint_find(const checkpoint *c, const char *name) {
    checkpoint_tensor_info key = { 0 };
    const checkpoint_tensor_info *wanted = &key, **found;
    key.name = name;
    found = bsearch(&wanted, c->by_name, c->tensor_count, sizeof *c->by_name,
                    checkpoint_compare_names);
    return found ? *found : NULL;
}

bool checkpoint_rename(checkpoint *c, size_t i, const char *name, report *r) {
    char *copy = memory_copy_text(&c->memory, name, strlen(name));
    if (!copy) return report_no_memory(r);
    c->tensors[i].name = copy;
    return true;
}

bool checkpoint_renamed(checkpoint *c, report *r) {
    return checkpoint_sort_names(c->tensors, c->tensor_count, c->by_name, r);
}

bool checkpoint_add_values(checkpoint *c, const char *name, const float *values, size_t count,
                           size_t *storage, report *r) {
    checkpoint_storage computed = { 0 };
    uint8_t *bytes = checkpoint_add_block(c, (uint64_t)count * sizeof(float), r);
    if (!bytes) return false;
    bytes_store_floats(bytes, values, count);
    computed.memory = bytes;
    computed.bytes.size = (uint64_t)count * sizeof(float);
    computed.bytes.name = memory_copy_text(&c->memory, name, strlen(name));
    if (!computed.bytes.name) return report_no_memory(r);
    return checkpoint_add_storage(c, &computed, storage, r);
}

bool checkpoint_replace(checkpoint *c, const checkpoint_tensor_info *tensors, size_t count,
                        report *r) {
    checkpoint_tensor_info *copies = malloc((count + 1) * sizeof *copies);
    const checkpoint_tensor_info **by_name = malloc((count + 1) * sizeof *by_name);
    bool good = copies && by_name ? true : report_no_memory(r);
    size_t i;
    for (i = 0; good && i < count; i++) {
        copies[i] = tensors[i];
        copies[i].name = memory_copy_text(&c->memory, tensors[i].name, strlen(tensors[i].name));
        copies[i].stored_name = memory_copy_text(&c->memory, tensors[i].stored_name,
                                                 strlen(tensors[i].stored_name));
        if (!copies[i].name || !copies[i].stored_name) good = report_no_memory(r);
    }
    if (!good || !checkpoint_sort_names(copies, count, by_name, r))
        return free(copies), free(by_name), false;
    free(c->tensors);
    free(c->by_name);
    c->tensors = copies;
    c->by_name = by_name;
    c->tensor_count = c->tensor_capacity = count;
    return true;
}

size_t checkpoint_file_count(const checkpoint *c) { return c->file_count; }

const checkpoint_file_info *checkpoint_file(const checkpoint *c, size_t i) {
    return i < c->file_count ? &c->files[i] : NULL;
}

size_t checkpoint_metadata_count(const checkpoint *c) { return c->metadata.count; }

const checkpoint_metadata_entry *checkpoint_metadata(const checkpoint *c, size_t i) {
    return i < c->metadata.count ? &c->metadata.entries[i] : NULL;
}

size_t checkpoint_skipped_count(const checkpoint *c) { return c->skipped.count; }

const checkpoint_metadata_entry *checkpoint_skipped(const checkpoint *c, size_t i) {
    return i < c->skipped.count ? &c->skipped.entries[i] : NULL;
}

static const struct {
    char name[5];
    uint8_t size;
} checkpoint_dtypes[CHECKPOINT_DTYPE_COUNT] = {
    { "F32", 4 },    { "F16", 2 },    { "BF16", 2 },   { "F64", 8 },   { "I64", 8 },
    { "I32", 4 },    { "I16", 2 },    { "I8", 1 },     { "U8", 1 },    { "BOOL", 1 },
    { "Q4_0", 18 },  { "Q4_1", 20 },  { "Q5_0", 22 },  { "Q5_1", 24 }, { "Q8_0", 34 },
    { "Q4_K", 144 }, { "Q5_K", 176 }, { "Q6_K", 210 },
};

const char *checkpoint_dtype_name(checkpoint_dtype dtype) { return checkpoint_dtypes[dtype].name; }

size_t checkpoint_dtype_size(checkpoint_dtype dtype) { return checkpoint_dtypes[dtype].size; }

size_t checkpoint_block(checkpoint_dtype dtype) {
    return dtype >= CHECKPOINT_Q4_K ? 256 : dtype >= CHECKPOINT_Q4_0 ? 32 : 1;
}

bool checkpoint_is_float(checkpoint_dtype dtype) {
    return dtype <= CHECKPOINT_F64 || dtype >= CHECKPOINT_Q4_0;
}

size_t checkpoint_label_count(const checkpoint *c) { return c->label_count; }

const char *const *checkpoint_labels(const checkpoint *c) { return c->labels; }
