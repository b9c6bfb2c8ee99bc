/* ggml_file.c - reads the files of vit.cpp. Their names end in .gguf, but their magic number is
 * that of ggml. A file consists of three parts:
 *
 *     header: i32 magic, hidden size, layers, heads, classes, patch size, image size, file type
 *     labels: i32 number of labels, then for each label: i32 id, i32 length, text
 *     tensors until the end, each: i32 number of dims, i32 length of the name, i32 type,
 *         i32 dims (the fastest first), name, data
 *
 * Nothing in the file is aligned. Rows of quantised tensors consist of blocks of 32 or 256 values.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"
#include "checkpoint/container.h"

typedef struct ggml_reader {
    checkpoint *c;
    size_t file;
    uint64_t at;
    report *report;
} ggml_reader;

static const struct {
    uint32_t type;
    checkpoint_dtype dtype;
} types[] = {
    { 0, CHECKPOINT_F32 },   { 1, CHECKPOINT_F16 },   { 2, CHECKPOINT_Q4_0 },
    { 3, CHECKPOINT_Q4_1 },  { 6, CHECKPOINT_Q5_0 },  { 7, CHECKPOINT_Q5_1 },
    { 8, CHECKPOINT_Q8_0 },  { 12, CHECKPOINT_Q4_K }, { 13, CHECKPOINT_Q5_K },
    { 14, CHECKPOINT_Q6_K }, { 30, CHECKPOINT_BF16 },
};

enum { GGML_MAX_LABELS = 100000, GGML_HEADER = 9 };

static bool read_bytes(ggml_reader *g, void *to, size_t size) {
    if (!source_read(&g->c->sources[g->file], g->at, to, size, g->report)) return false;
    g->at += size;
    return true;
}

static bool read_numbers(ggml_reader *g, uint32_t *numbers, int count) {
    uint8_t bytes[4 * GGML_HEADER];
    int i;
    if (!read_bytes(g, bytes, 4 * (size_t)count)) return false;
    for (i = 0; i < count; i++) numbers[i] = bytes_load32(bytes + 4 * i);
    return true;
}

static bool read_label(ggml_reader *g, size_t expected) {
    uint32_t numbers[2];
    char text[1024];
    if (!read_numbers(g, numbers, 2)) return false;
    if (numbers[0] != expected || numbers[1] >= sizeof text)
        return report_fail(g->report,
                           "found label %u of %u bytes, expected label %u of at most 1023 bytes",
                           (unsigned)numbers[0], (unsigned)numbers[1], (unsigned)expected);
    if (!read_bytes(g, text, numbers[1])) return false;
    text[numbers[1]] = '\0';
    return checkpoint_add_label(g->c, text, g->report);
}

/* Reads the labels, and stores five values of the header as settings. No mark shows where the
 * tensors end, so layout_inspect compares these settings with the tensors to find missing ones. */
static bool read_header(ggml_reader *g) {
    static const char *const names[] = {
        "embed_dim", "depth", "num_heads", "num_classes", "patch_size",
    };
    uint32_t numbers[GGML_HEADER];
    size_t i;
    if (!read_numbers(g, numbers, GGML_HEADER)) return false;
    if (numbers[8] > GGML_MAX_LABELS)
        return report_fail(g->report, "found %u labels, expected at most %d", (unsigned)numbers[8],
                           GGML_MAX_LABELS);
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", (unsigned)numbers[1 + i]);
        if (!checkpoint_add_metadata(g->c, names[i], text, g->report)) return false;
    }
    for (i = 0; i < numbers[8]; i++)
        if (!read_label(g, i)) return false;
    return true;
}

/* Removes all dimensions of 1. A bias may be stored as [1, channels, 1, 1]. */
static void drop_ones(checkpoint_tensor_info *t) {
    int from, to = 0;
    for (from = 0; from < t->ndim; from++)
        if (t->dims[from] != 1) t->dims[to++] = t->dims[from];
    t->ndim = to;
}

bool ggml_find_type(uint32_t type, checkpoint_dtype *dtype) {
    size_t i;
    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) {
            *dtype = types[i].dtype;
            return true;
        }
    return false;
}

/* Computes the size of a tensor's data in bytes. The last dimension of a quantised tensor must be a
 * multiple of the block size. */
bool ggml_data_size(const checkpoint_tensor_info *t, uint64_t *size, report *r) {
    const uint64_t block = checkpoint_block(t->dtype);
    uint64_t count = 1;
    int i;
    for (i = 0; i < t->ndim; i++)
        if (!bytes_multiply(count, (uint64_t)t->dims[i], &count) || count > (uint64_t)1 << 48)
            return report_fail(r, "%.200s: the shape is too large", t->name);
    if (t->ndim < 1 || t->dims[t->ndim - 1] % (int64_t)block != 0)
        return report_fail(r, "%.200s: the rows are not whole blocks of %u elements", t->name,
                           (unsigned)block);
    *size = count / block * checkpoint_dtype_size(t->dtype);
    return true;
}

bool ggml_add_tensor(checkpoint *c, size_t file, uint64_t at, uint64_t size,
                     checkpoint_tensor_info *t, report *r) {
    const uint64_t file_size = c->sources[file].size;
    const size_t length = strlen(t->name);
    checkpoint_storage storage;
    memset(&storage, 0, sizeof storage);
    if (at > file_size || size > file_size - at)
        return report_fail(r, "%.200s: the file ends inside this tensor", t->name);
    storage.file = file;
    storage.bytes.name = memory_copy_text(&c->memory, t->name, length);
    storage.bytes.offset = at;
    storage.bytes.size = storage.bytes.stored_size = size;
    if (!storage.bytes.name) return report_no_memory(r);
    if (length > 5 && !strcmp(t->name + length - 5, ".bias")) drop_ones(t);
    checkpoint_contiguous_strides(t);
    t->container_name = t->name;
    return checkpoint_add_storage(c, &storage, &t->storage, r) &&
           checkpoint_add_tensor(
               c, t, size / checkpoint_dtype_size(t->dtype) * checkpoint_block(t->dtype), r);
}

static bool read_tensor(ggml_reader *g) {
    checkpoint_tensor_info t;
    uint32_t numbers[3] = { 0 }, dims[4];
    uint64_t size = 0;
    char name[1025];
    int i;
    memset(&t, 0, sizeof t);
    if (!read_numbers(g, numbers, 3)) return false;
    if (numbers[0] > 4 || numbers[1] >= sizeof name)
        return report_fail(g->report, "damaged: a tensor has %u dimensions and a name of %u bytes",
                           (unsigned)numbers[0], (unsigned)numbers[1]);
    t.ndim = (int)numbers[0];
    if (!read_numbers(g, dims, t.ndim) || !read_bytes(g, name, numbers[1])) return false;
    name[numbers[1]] = '\0';
    if (strlen(name) != numbers[1]) return report_fail(g->report, "a tensor's name contains a NUL");
    t.name = name;
    for (i = 0; i < t.ndim; i++) t.dims[i] = dims[t.ndim - 1 - i];
    if (!ggml_find_type(numbers[2], &t.dtype))
        return report_fail(g->report, "%.200s: tensors of ggml type %u cannot be read", t.name,
                           (unsigned)numbers[2]);
    if (!ggml_data_size(&t, &size, g->report) ||
        !ggml_add_tensor(g->c, g->file, g->at, size, &t, g->report))
        return false;
    g->at += size;
    return true;
}

bool ggml_open(checkpoint *c, size_t file, report *r) {
    ggml_reader g;
    memset(&g, 0, sizeof g);
    g.c = c;
    g.file = file;
    g.report = r;
    if (!read_header(&g)) return false;
    while (g.at < c->sources[file].size)
        if (!read_tensor(&g)) return false;
    return true;
}
