#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "checkpoint/container.h"

/* === Elements === */

/* This part reads the elements of a tensor as float, from any kind of storage.
 *
 * Raw elements are copied into one small buffer, swapped to little-endian order if necessary, and
 * converted to float. The elements of a contiguous tensor are read directly from the file. The
 * elements of a strided tensor come from a cached part of the tensor's storage. The elements of a
 * deflated tensor come from the inflated entry of the archive.
 */

/* === Conversion of `count` little-endian elements at `raw` to float === */

static float checkpoint_convert_one(checkpoint_dtype dtype, const uint8_t *raw) {
    switch (dtype) {
    case CHECKPOINT_F32: return bytes_float(bytes_load32(raw));
    case CHECKPOINT_F16: return bytes_half(bytes_load16(raw));
    case CHECKPOINT_BF16: return bytes_bfloat(bytes_load16(raw));
    case CHECKPOINT_F64: return bytes_double(bytes_load64(raw));
    case CHECKPOINT_I64: return (float)bytes_signed(bytes_load64(raw), 8);
    case CHECKPOINT_I32: return (float)bytes_signed(bytes_load32(raw), 4);
    case CHECKPOINT_I16: return (float)bytes_signed(bytes_load16(raw), 2);
    case CHECKPOINT_I8: return (float)bytes_signed(raw[0], 1);
    case CHECKPOINT_U8: return (float)raw[0];
    case CHECKPOINT_BOOL: return raw[0] ? 1.0f : 0.0f;
    case CHECKPOINT_Q4_0:
    case CHECKPOINT_Q4_1:
    case CHECKPOINT_Q5_0:
    case CHECKPOINT_Q5_1:
    case CHECKPOINT_Q8_0:
    case CHECKPOINT_Q4_K:
    case CHECKPOINT_Q5_K:
    case CHECKPOINT_Q6_K:
    case CHECKPOINT_DTYPE_COUNT: break; /* see checkpoint_unpack_block */
    }
    return 0.0f;
}

static void checkpoint_convert(checkpoint_dtype dtype, const uint8_t *raw, size_t count,
                               float *destination) {
    size_t i, size = checkpoint_dtype_size(dtype);
    if (dtype == CHECKPOINT_F32) { /* The most common type has its own loop for speed. */
        for (i = 0; i < count; i++) destination[i] = bytes_float(bytes_load32(raw + 4 * i));
        return;
    }
    for (i = 0; i < count; i++) destination[i] = checkpoint_convert_one(dtype, raw + i * size);
}

static void checkpoint_swap_bytes(uint8_t *raw, size_t count, size_t size) {
    size_t i, j;
    for (i = 0; i < count; i++, raw += size) {
        for (j = 0; j < size / 2; j++) {
            uint8_t low = raw[j];
            raw[j] = raw[size - 1 - j];
            raw[size - 1 - j] = low;
        }
    }
}

/* === Bytes of a storage === */

/* Reads `size` bytes at `offset` of a storage. The storage must not be deflated. */
static bool checkpoint_read_bytes(const checkpoint *c, const checkpoint_storage *storage,
                                  uint64_t offset, void *destination, size_t size, report *r) {
    offset += storage->bytes.offset;
    if (!storage->memory)
        return source_read(&c->sources[storage->file], offset, destination, size, r);
    if (size > 0) /* The range was checked when the tensor was added. */
        memcpy(destination, storage->memory + offset, size);
    return true;
}

static bool checkpoint_load_span(checkpoint *c, const checkpoint_storage *storage, uint64_t start,
                                 uint64_t size, report *r) {
    const source *s = &c->sources[storage->file];
    if (size > SIZE_MAX)
        return report_fail(r, "\"%.200s\" does not fit into memory", storage->bytes.name);
    c->cache.data = malloc((size_t)size);
    if (!c->cache.data)
        return report_fail(r, "out of memory: %llu bytes for \"%.200s\"", (unsigned long long)size,
                           storage->bytes.name);
    if (storage->bytes.deflated) return zip_read(s, &storage->bytes, c->cache.data, r);
    return checkpoint_read_bytes(c, storage, start, c->cache.data, (size_t)size, r);
}

/* Reads the bytes from `start` to `start` + `size` of a storage into the cache, unless they are
 * there already. A deflated storage is cached as a whole. */
static bool checkpoint_need_span(checkpoint *c, size_t index, uint64_t start, uint64_t size,
                                 report *r) {
    const checkpoint_storage *storage = &c->storages[index];
    checkpoint_cache *cache = &c->cache;
    if (storage->bytes.deflated) {
        start = 0;
        size = storage->bytes.size;
    }
    if (cache->data && cache->storage == index && cache->start <= start &&
        start + size <= cache->start + cache->size)
        return true;
    free(cache->data);
    cache->data = NULL;
    if (checkpoint_load_span(c, storage, start, size, r)) {
        cache->storage = index;
        cache->start = start;
        cache->size = size;
        return true;
    }
    free(cache->data);
    cache->data = NULL;
    return false;
}

/* === Gathering `count` raw elements, from logical index `first` on, into the buffer === */

static bool checkpoint_is_contiguous(const checkpoint_tensor_info *t) {
    int64_t expected = 1;
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        if (t->dims[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->dims[i];
    }
    return true;
}

static bool checkpoint_gather_run(checkpoint *c, const checkpoint_tensor_info *t, int64_t first,
                                  size_t count, report *r) {
    const checkpoint_storage *storage = &c->storages[t->storage];
    size_t size = checkpoint_dtype_size(t->dtype), bytes = count * size;
    uint64_t start = (uint64_t)(t->storage_offset + first) * size;
    if (!storage->bytes.deflated)
        return checkpoint_read_bytes(c, storage, start, c->buffer, bytes, r);
    if (!checkpoint_need_span(c, t->storage, start, bytes, r)) return false;
    memcpy(c->buffer, c->cache.data + (start - c->cache.start), bytes);
    return true;
}

/* Computes the position along each dimension of the element with this index in row-major order. */
static void checkpoint_unravel(const checkpoint_tensor_info *t, int64_t first, int64_t *position) {
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        position[i] = first % t->dims[i];
        first /= t->dims[i];
    }
}

static void checkpoint_step(const checkpoint_tensor_info *t, int64_t *position, int64_t *element) {
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        *element += t->strides[i];
        if (++position[i] < t->dims[i]) return;
        *element -= t->strides[i] * t->dims[i];
        position[i] = 0;
    }
}

static bool checkpoint_gather_strided(checkpoint *c, const checkpoint_tensor_info *t, int64_t first,
                                      size_t count, report *r) {
    int64_t position[CHECKPOINT_MAX_DIMS] = { 0 }, element = 0, last = 0;
    size_t i, size = checkpoint_dtype_size(t->dtype);
    uint64_t start = (uint64_t)t->storage_offset * size;
    const uint8_t *from;
    int d;
    for (d = 0; d < t->ndim; d++) last += (t->dims[d] - 1) * t->strides[d];
    if (!checkpoint_need_span(c, t->storage, start, ((uint64_t)last + 1) * size, r)) return false;
    from = c->cache.data + (start - c->cache.start);
    checkpoint_unravel(t, first, position);
    for (d = 0; d < t->ndim; d++) element += position[d] * t->strides[d];
    for (i = 0; i < count; i++) {
        memcpy(c->buffer + i * size, from + (uint64_t)element * size, size);
        checkpoint_step(t, position, &element);
    }
    return true;
}

static bool checkpoint_read_pieces(checkpoint *c, const checkpoint_tensor_info *t, int64_t first,
                                   int64_t count, float *destination, report *r) {
    size_t size = checkpoint_dtype_size(t->dtype), most = CHECKPOINT_BUFFER_SIZE / size;
    bool contiguous = checkpoint_is_contiguous(t);
    while (count > 0) {
        size_t piece = count < (int64_t)most ? (size_t)count : most;
        if (!(contiguous ? checkpoint_gather_run(c, t, first, piece, r)
                         : checkpoint_gather_strided(c, t, first, piece, r)))
            return false;
        if (c->storages[t->storage].big_endian) checkpoint_swap_bytes(c->buffer, piece, size);
        checkpoint_convert(t->dtype, c->buffer, piece, destination);
        destination += piece;
        first += (int64_t)piece;
        count -= (int64_t)piece;
    }
    return true;
}

/* === The quantised blocks of ggml have a scale, perhaps a minimum, and 32 values of 4, 5 or 8
 * bits; gguf_file.c reads blocks of 256 values === */

static void checkpoint_unpack_block(checkpoint_dtype dtype, const uint8_t *raw, float *values) {
    const bool has_minimum = dtype == CHECKPOINT_Q4_1 || dtype == CHECKPOINT_Q5_1;
    const bool has_fifth = dtype == CHECKPOINT_Q5_0 || dtype == CHECKPOINT_Q5_1;
    const float scale = bytes_half(bytes_load16(raw));
    const float minimum = has_minimum ? bytes_half(bytes_load16(raw + 2)) : 0;
    const uint8_t *quants = raw + (has_minimum ? 4 : 2);
    const uint32_t fifth = has_fifth ? bytes_load32(quants) : 0;
    const int zero = has_minimum || dtype == CHECKPOINT_Q8_0 ? 0 : has_fifth ? 16 : 8;
    int i;
    if (has_fifth) quants += 4;
    for (i = 0; i < 32; i++) {
        int q = dtype == CHECKPOINT_Q8_0 ? quants[i] - (quants[i] > 127 ? 256 : 0)
                : i < 16                 ? quants[i] & 15
                                         : quants[i - 16] >> 4;
        q += (int)(fifth >> i & 1) * 16;
        values[i] = has_minimum ? (float)q * scale + minimum : (float)(q - zero) * scale;
    }
}

static bool checkpoint_read_blocks(checkpoint *c, const checkpoint_tensor_info *t, int64_t first,
                                   int64_t count, float *destination, report *r) {
    const checkpoint_storage *storage = &c->storages[t->storage];
    const size_t size = checkpoint_dtype_size(t->dtype);
    const int64_t block = (int64_t)checkpoint_block(t->dtype);
    uint8_t raw[256];
    float values[256];
    if (!checkpoint_is_contiguous(t))
        return report_fail(r, "%.200s: quantised weights cannot be transposed", t->name);
    first += t->storage_offset;
    while (count > 0) {
        const int64_t from = first % block, n = count < block - from ? count : block - from;
        if (!source_read(&c->sources[storage->file],
                         storage->bytes.offset + (uint64_t)(first / block) * size, raw, size, r))
            return false;
        if (block > 32) gguf_unpack_block(t->dtype, raw, values);
        else checkpoint_unpack_block(t->dtype, raw, values);
        memcpy(destination, values + from, (size_t)n * sizeof *values);
        destination += n;
        first += n;
        count -= n;
    }
    return true;
}

static bool checkpoint_read_any(checkpoint *c, const checkpoint_tensor_info *t, int64_t first,
                                int64_t count, float *destination, report *r) {
    if (first < 0 || count < 0 || first > t->count || count > t->count - first)
        return report_fail(r, "%.200s: elements %lld to %lld requested, but the tensor has %lld",
                           t->name, (long long)first, (long long)(first + count),
                           (long long)t->count);
    if (checkpoint_block(t->dtype) > 1)
        return checkpoint_read_blocks(c, t, first, count, destination, r);
    return checkpoint_read_pieces(c, t, first, count, destination, r);
}

bool checkpoint_read(checkpoint *c, const checkpoint_tensor_info *t, int64_t first, int64_t count,
                     float *destination, report *r) {
    return checkpoint_read_any(c, t, first, count, destination, r) ||
           report_file(r, c->files[c->storages[t->storage].file].path);
}

bool checkpoint_verify(checkpoint *c, report *r) {
    size_t i;
    for (i = 0; i < c->storage_count; i++) {
        const checkpoint_storage *storage = &c->storages[i];
        if (storage->has_crc && !zip_verify(&c->sources[storage->file], &storage->bytes, r))
            return report_file(r, c->files[storage->file].path);
    }
    return true;
}

/* === Other names === */

enum { RENAME_MAX_STARS = 8, RENAME_MAX_NAME = 1024 };

/* The part of a name that a '*' of the pattern matched. */
typedef struct rename_piece {
    const char *text;
    size_t size;
} rename_piece;

typedef struct rename_rule {
    char theirs[RENAME_MAX_NAME];
    const char *ours;
    /* True if ".*" was added to the rule, because the name of a layer stands for all tensors of the
     * layer. */
    bool is_layer;
    bool used;
} rename_rule;

static int count_stars(const char *text) {
    int count = 0;
    for (; *text; text++) count += *text == '*';
    return count;
}

static bool parse_rule(const char *text, rename_rule *rule, report *r) {
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : 0;
    if (length == 0 || !equals[1] || length >= sizeof rule->theirs)
        return report_fail(r, "--rename: expected THEIRS=OURS, found \"%.200s\"", text);
    snprintf(rule->theirs, sizeof rule->theirs, "%.*s", (int)length, text);
    rule->ours = equals + 1;
    if (count_stars(rule->theirs) != count_stars(rule->ours) ||
        count_stars(rule->ours) > RENAME_MAX_STARS)
        return report_fail(r,
                           "--rename %.200s: expected as many * on the right as on the left, "
                           "and at most %d",
                           text, RENAME_MAX_STARS);
    return true;
}

/* True if the text matches the pattern. Each '*' matches as few characters as possible, and
 * piece[i] becomes the text that the i-th '*' matched. */
static bool matches(const char *pattern, const char *text, rename_piece *piece) {
    for (; *pattern != '*'; pattern++, text++) {
        if (*pattern != *text) return false;
        if (!*pattern) return true;
    }
    piece->text = text;
    for (piece->size = 0;; piece->size++) {
        if (matches(pattern + 1, text + piece->size, piece + 1)) return true;
        if (!text[piece->size]) return false;
    }
}

static bool put_pieces(const char *ours, const rename_piece *piece, char *name, size_t size) {
    size_t used = 0;
    for (; *ours && used < size; ours++) {
        const rename_piece letter = { ours, 1 }, *next = *ours == '*' ? piece++ : &letter;
        if (next->size < size - used) memcpy(name + used, next->text, next->size);
        used += next->size;
    }
    if (used >= size) return false;
    name[used] = '\0';
    return true;
}

static bool put_end(const rename_piece *piece, char *name, size_t size) {
    const size_t used = strlen(name);
    if (used + 1 + piece->size >= size) return false;
    name[used] = '.';
    memcpy(name + used + 1, piece->text, piece->size + 1);
    return true;
}

/* Extends a rule to all tensors of a layer: "fc1=mlp.fc1" becomes "fc1.*=mlp.fc1.*". Does nothing
 * if a tensor is called fc1. */
static void spread_layer(const checkpoint *c, rename_rule *rule) {
    const size_t length = strlen(rule->theirs);
    bool is_layer = false;
    size_t i;
    if (strchr(rule->theirs, '*') || length + 3 > sizeof rule->theirs) return;
    for (i = 0; i < checkpoint_count(c); i++) {
        const char *name = checkpoint_tensor(c, i)->name;
        if (!strcmp(name, rule->theirs)) return;
        is_layer = is_layer || (!strncmp(name, rule->theirs, length) && name[length] == '.');
    }
    rule->is_layer = is_layer;
    if (is_layer) memcpy(rule->theirs + length, ".*", 3);
}

/* Renames tensor i by the first rule that matches its name. Does nothing if no rule matches. */
static bool rename_one(checkpoint *c, size_t i, rename_rule *rules, int count, report *r) {
    const char *old = checkpoint_tensor(c, i)->name;
    rename_piece pieces[RENAME_MAX_STARS];
    char name[RENAME_MAX_NAME];
    int rule = 0;
    while (rule < count && !matches(rules[rule].theirs, old, pieces)) rule++;
    if (rule == count) return true;
    rules[rule].used = true;
    if (!put_pieces(rules[rule].ours, pieces, name, sizeof name) ||
        (rules[rule].is_layer && !put_end(pieces, name, sizeof name)))
        return report_fail(r, "%.200s: the new name is longer than %d bytes", old,
                           RENAME_MAX_NAME - 1);
    return checkpoint_rename(c, i, name, r);
}

static bool check_used(const checkpoint *c, const rename_rule *rules, int count, report *r) {
    int rule;
    for (rule = 0; rule < count; rule++)
        if (!rules[rule].used)
            return report_fail(
                r, "--rename: no tensor%s is called %.200s (the first tensor is %.200s)",
                rule ? ", after the earlier rules," : "", rules[rule].theirs,
                checkpoint_tensor(c, 0)->name);
    return true;
}

bool rename_tensors(checkpoint *c, const text_list *list, report *r) {
    rename_rule *rules = calloc((size_t)list->count + 1, sizeof *rules);
    bool good = rules ? true : report_no_memory(r);
    size_t i;
    int rule;
    for (rule = 0; good && rule < list->count; rule++)
        if ((good = parse_rule(list->items[rule], &rules[rule], r))) spread_layer(c, &rules[rule]);
    for (i = 0; good && i < checkpoint_count(c); i++)
        good = rename_one(c, i, rules, list->count, r);
    good = good && check_used(c, rules, list->count, r) && checkpoint_renamed(c, r);
    free(rules);
    return good;
}
