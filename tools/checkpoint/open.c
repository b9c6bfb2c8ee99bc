/* open.c - recognises the container of a file, and keeps the lists that every container fills.
 *
 * Containers are recognised by their first bytes, by the table below. Formats that people meet but
 * that cannot be read have a row, too, so that the message can say what the file is and what to do.
 * container.h says how to add one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/paths.h"
#include "base/source.h"
#include "base/text.h"
#include "checkpoint/container.h"

/* === Lists === */

bool checkpoint_add_storage(checkpoint *c, const checkpoint_storage *storage, size_t *index,
                            report *r)
{
    checkpoint_storage *storages = memory_grow(c->storages, sizeof *storages, c->storage_count,
                                               &c->storage_capacity);
    if (!storages) return report_no_memory(r);
    c->storages = storages;
    *index = c->storage_count++;
    storages[*index] = *storage;
    return true;
}

void checkpoint_contiguous_strides(checkpoint_tensor_info *t)
{
    uint64_t stride = 1;
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        t->strides[i] = (int64_t)(stride & INT64_MAX);   /* overflows: refused by dims */
        stride *= (uint64_t)t->dims[i];
    }
}

/* Besides the count itself, the product without the zero dimensions must fit: strides of an
 * empty tensor are computed like any others. */
static bool checkpoint_check_dims(checkpoint_tensor_info *t, report *r)
{
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

/* The furthest element, offset + sum (dim - 1) * stride, must be below `available`. */
static bool checkpoint_check_extent(const checkpoint_tensor_info *t, uint64_t available, report *r)
{
    uint64_t last = (uint64_t)t->storage_offset, reach;
    bool fits = t->storage_offset >= 0;
    int i;
    for (i = 0; i < t->ndim; i++) {
        if (t->strides[i] < 0)
            return report_fail(r, "%.200s: negative stride %lld", t->name,
                               (long long)t->strides[i]);
        fits = fits && bytes_multiply((uint64_t)t->dims[i] - 1, (uint64_t)t->strides[i], &reach)
                    && bytes_add(last, reach, &last);
    }
    if (fits && last < available) return true;
    return report_fail(r, "%.200s: the tensor reaches beyond its storage \"%.200s\" of %llu "
                       "elements", t->name, t->container_name, (unsigned long long)available);
}

static bool checkpoint_check_tensor(checkpoint_tensor_info *t, uint64_t available, report *r)
{
    int i;
    if (!text_is_name(t->name, strlen(t->name)))
        return report_fail(r, "a tensor's name is empty, too long or not printable UTF-8");
    if (!checkpoint_check_dims(t, r)) return false;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] == 1 && t->strides[i] >= 0) t->strides[i] = 0;   /* never taken */
    return t->count == 0 || checkpoint_check_extent(t, available, r);
}

bool checkpoint_add_tensor(checkpoint *c, const checkpoint_tensor_info *tensor, uint64_t available,
                           report *r)
{
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

/* Entries that do not fit are left out: metadata must not keep a model from loading. */
static bool checkpoint_list_add(checkpoint *c, checkpoint_list *list, const char *key,
                                const char *value, report *r)
{
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

bool checkpoint_add_metadata(checkpoint *c, const char *key, const char *value, report *r)
{
    return checkpoint_list_add(c, &c->metadata, key, value, r);
}

bool checkpoint_add_skipped(checkpoint *c, const char *name, const char *reason, report *r)
{
    return checkpoint_list_add(c, &c->skipped, name, reason, r);
}

bool checkpoint_add_label(checkpoint *c, const char *text, report *r)
{
    const char **labels = memory_grow(c->labels, sizeof *labels, c->label_count,
                                      &c->label_capacity);
    if (!labels) return report_no_memory(r);
    c->labels = labels;
    labels[c->label_count] = memory_copy_text(&c->memory, text, strlen(text));
    if (!labels[c->label_count++]) return report_no_memory(r);
    return true;
}

bool checkpoint_add_choice(checkpoint *c, const char *path, report *r)
{
    const char **choices;
    if (c->choice_count >= CHECKPOINT_MAX_CHOICES) return true;
    choices = memory_grow(c->choices, sizeof *choices, c->choice_count, &c->choice_capacity);
    if (!choices) return report_no_memory(r);
    c->choices = choices;
    choices[c->choice_count] = memory_copy_text(&c->memory, path, strlen(path));
    if (!choices[c->choice_count++]) return report_no_memory(r);
    return true;
}

/* The attributes of a module follow each other and share its path. */
static const char *checkpoint_keep_module(checkpoint *c, const char *module)
{
    const size_t count = c->attribute_count;
    const char *last = count > 0 ? c->attributes[count - 1].module : NULL;
    if (last && strcmp(last, module) == 0) return last;
    c->attribute_bytes += strlen(module);
    return memory_copy_text(&c->memory, module, strlen(module));
}

bool checkpoint_add_attribute(checkpoint *c, const char *module, const char *name,
                              const char *value, report *r)
{
    const size_t name_size = strlen(name), value_size = strlen(value);
    checkpoint_attribute *attributes, attribute;
    if (!text_is_name(name, name_size) || !text_is_name(value, value_size)) return true;
    if (c->attribute_count >= CHECKPOINT_MAX_ATTRIBUTES || name_size > 100 || value_size > 300
        || c->attribute_bytes + strlen(module) > CHECKPOINT_MAX_ATTRIBUTE_BYTES)
        return true;
    attributes = memory_grow(c->attributes, sizeof attribute, c->attribute_count,
                             &c->attribute_capacity);
    if (!attributes) return report_no_memory(r);
    c->attributes = attributes;
    attribute.module = checkpoint_keep_module(c, module);
    attribute.name = memory_copy_text(&c->memory, name, name_size);
    attribute.value = memory_copy_text(&c->memory, value, value_size);
    if (!attribute.module || !attribute.name || !attribute.value) return report_no_memory(r);
    attributes[c->attribute_count++] = attribute;
    c->attribute_bytes += name_size + value_size;
    return true;
}

uint8_t *checkpoint_add_block(checkpoint *c, uint64_t size, report *r)
{
    const uint64_t most = 32 * c->files[0].size + ((uint64_t)1 << 24);
    uint8_t **blocks = memory_grow(c->blocks, sizeof *blocks, c->block_count, &c->block_capacity);
    if (blocks) c->blocks = blocks;
    if (size > most || c->block_bytes > most - size) {
        (void)report_fail(r, "more than %llu bytes to decode", (unsigned long long)most);
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

static bool checkpoint_add_source(checkpoint *c, const source *s, size_t *index, report *r)
{
    source *sources = memory_grow(c->sources, sizeof *sources, c->file_count, &c->source_capacity);
    checkpoint_file_info *files;
    if (!sources) return report_no_memory(r);
    c->sources = sources;
    files = memory_grow(c->files, sizeof *files, c->file_count, &c->file_capacity);
    if (!files) return report_no_memory(r);
    c->files = files;
    sources[c->file_count] = *s;
    files[c->file_count].path = s->name;
    files[c->file_count].size = s->size;
    *index = c->file_count++;
    return true;
}

static bool checkpoint_add_file(checkpoint *c, const char *path, size_t *index, report *r)
{
    source s;
    char *name = memory_copy_text(&c->memory, path, strlen(path));
    if (!name) return report_no_memory(r);
    if (!source_open_file(&s, name, r)) return false;
    if (checkpoint_add_source(c, &s, index, r)) return true;
    source_close(&s);
    return false;
}

/* Sorts the tensors by name, when all are there. */
static int checkpoint_compare_names(const void *a, const void *b)
{
    const checkpoint_tensor_info *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool checkpoint_sort_names(checkpoint *c, report *r)
{
    size_t i;
    for (i = 0; i < c->tensor_count; i++) c->by_name[i] = &c->tensors[i];
    qsort(c->by_name, c->tensor_count, sizeof *c->by_name, checkpoint_compare_names);
    for (i = 1; i < c->tensor_count; i++)
        if (strcmp(c->by_name[i - 1]->name, c->by_name[i]->name) == 0)
            return report_fail(r, "duplicate tensor \"%.200s\"", c->by_name[i]->name);
    return true;
}

static bool checkpoint_index_names(checkpoint *c, report *r)
{
    if (c->tensor_count == 0) return report_fail(r, "no tensors inside");
    c->by_name = malloc(c->tensor_count * sizeof *c->by_name);
    c->buffer = malloc(CHECKPOINT_BUFFER_SIZE);
    if (!c->by_name || !c->buffer) return report_no_memory(r);
    return checkpoint_sort_names(c, r);
}

/* === Containers === */

enum { CHECKPOINT_HEAD_SIZE = 512 };

typedef struct checkpoint_head {
    uint8_t bytes[CHECKPOINT_HEAD_SIZE + 1];   /* the start of the file and a NUL */
    size_t size;
    uint64_t file_size;
} checkpoint_head;

typedef struct checkpoint_container {
    const char *name;
    bool (*probe)(const checkpoint_head *head);
    bool (*open)(checkpoint *c, size_t file, report *r);   /* NULL: refused with the advice */
    const char *advice;
} checkpoint_container;

static bool checkpoint_open_shards(checkpoint *c, size_t file, report *r);

static bool head_has(const checkpoint_head *head, size_t at, const char *magic)
{
    size_t size = strlen(magic);
    return at + size <= head->size && memcmp(head->bytes + at, magic, size) == 0;
}

static bool probe_json(const checkpoint_head *head)
{
    const char *text = (const char *)head->bytes;
    return text[strspn(text, " \t\r\n")] == '{';
}

static bool probe_zip(const checkpoint_head *head)
{
    return head_has(head, 0, "PK\x03\x04") || head_has(head, 0, "PK\x05\x06");
}

static bool probe_npz(const checkpoint_head *head)
{
    size_t name_size = bytes_load16(head->bytes + 26);
    return probe_zip(head) && name_size >= 4 && head_has(head, 30 + name_size - 4, ".npy");
}

/* PROTO, perhaps FRAME, then LONG1 with the 10 bytes of 0x1950a86a20f9469cfc6c, STOP. */
static bool probe_torch_legacy(const checkpoint_head *head)
{
    static const uint8_t magic[13] = {
        0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'
    };
    size_t at;
    if (head->bytes[0] != 0x80) return false;
    for (at = 2; at + sizeof magic <= head->size && at <= 11; at += 9)
        if (memcmp(head->bytes + at, magic, sizeof magic) == 0) return true;
    return false;
}

static bool probe_pickle(const checkpoint_head *head)
{
    return head->bytes[0] == 0x80 && head->bytes[1] <= 5;
}

/* The four files of the oldest torch.save. */
static bool probe_torch_tar(const checkpoint_head *head)
{
    static const char *const names[] = { "sys_info", "pickle", "tensors", "storages" };
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp((const char *)head->bytes, names[i]) == 0 && head_has(head, 257, "ustar"))
            return true;
    return false;
}

static bool probe_tar(const checkpoint_head *head)     { return head_has(head, 257, "ustar"); }
static bool probe_npy(const checkpoint_head *head)     { return head_has(head, 0, "\x93NUMPY"); }
static bool probe_gguf(const checkpoint_head *head)    { return head_has(head, 0, "GGUF"); }
static bool probe_ggml(const checkpoint_head *head)    { return head_has(head, 0, "lmgg"); }
static bool probe_hdf5(const checkpoint_head *head)    { return head_has(head, 0, "\x89HDF\r\n"); }
static bool probe_vit(const checkpoint_head *head)     { return head_has(head, 0, "\x89VIT\r\n"); }
static bool probe_gzip(const checkpoint_head *head)    { return head_has(head, 0, "\x1f\x8b"); }
static bool probe_html(const checkpoint_head *head)    { return head_has(head, 0, "<"); }
static bool probe_lfs(const checkpoint_head *head)
{
    return head_has(head, 0, "version https://git-lfs");
}

/* Any two bytes can begin the length of a header, so safetensors comes first ... */
static bool probe_safetensors(const checkpoint_head *head)
{
    return head->bytes[8] == '{' && bytes_load64(head->bytes) <= head->file_size - 8;
}

/* ... and again last, for damaged files in which only the length or only the '{' is right. */
static bool probe_damaged_safetensors(const checkpoint_head *head)
{
    uint64_t length = bytes_load64(head->bytes);
    return head->bytes[8] == '{' || (length > 0 && length <= head->file_size - 8);
}

static const checkpoint_container checkpoint_containers[] = {
    { "safetensors", probe_safetensors, safetensors_open, NULL },
    { "npz", probe_npz, npz_open, NULL },
    { "PyTorch zip", probe_zip, torch_zip_open, NULL },
    { "PyTorch legacy", probe_torch_legacy, torch_legacy_open, NULL },
    { "PyTorch tar (before 0.1.10)", probe_torch_tar, NULL,
      "not supported; load and save it again with a newer PyTorch" },
    { "tar", probe_tar, tar_open, NULL },
    { "pickle", probe_pickle, torch_pickle_open, NULL },
    { "npy", probe_npy, NULL, "not supported; a whole model is expected" },
    { "GGUF", probe_gguf, NULL, "not supported, only vit.cpp's files of that name; give the "
      "checkpoint that it was made from (safetensors, .pth, .npz)" },
    { "vit.cpp", probe_ggml, ggml_open, NULL },
    { "HDF5", probe_hdf5, NULL, "not supported; save as safetensors" },
    { ".vit file", probe_vit, NULL, "a checkpoint is expected; --to safetensors turns a .vit file "
      "back into one" },
    { "gzip", probe_gzip, NULL, "not supported; unpack it first" },
    { "web page", probe_html, NULL, "not a checkpoint; the download went wrong" },
    { "Git LFS pointer", probe_lfs, NULL, "not the file itself; run git lfs pull" },
    { "safetensors index", probe_json, checkpoint_open_shards, NULL },
    { "safetensors", probe_damaged_safetensors, safetensors_open, NULL }
};

static bool checkpoint_read_head(const source *s, checkpoint_head *head, report *r)
{
    memset(head, 0, sizeof *head);
    head->file_size = s->size;
    head->size = s->size < CHECKPOINT_HEAD_SIZE ? (size_t)s->size : CHECKPOINT_HEAD_SIZE;
    if (head->size < 9)
        return report_fail(r, "%llu bytes are too few for a checkpoint",
                           (unsigned long long)s->size);
    return source_read(s, 0, head->bytes, head->size, r);
}

static bool checkpoint_detect(checkpoint *c, size_t file, bool inside_shards, report *r)
{
    checkpoint_head head;
    size_t i, count = sizeof checkpoint_containers / sizeof *checkpoint_containers;
    if (!checkpoint_read_head(&c->sources[file], &head, r)) return false;
    for (i = 0; i < count; i++) {
        const checkpoint_container *container = &checkpoint_containers[i];
        if (!container->probe(&head)) continue;
        if (!container->open)
            return report_fail(r, "%s: %s", container->name, container->advice);
        if (inside_shards && container->open == checkpoint_open_shards)
            return report_fail(r, "an index of shards inside an index of shards");
        if (!inside_shards || !c->kind) c->kind = container->name;
        return container->open(c, file, r);
    }
    return report_fail(r, "not a known container (first bytes %02x %02x %02x %02x); safetensors or "
                       "a PyTorch checkpoint expected", head.bytes[0], head.bytes[1], head.bytes[2],
                       head.bytes[3]);
}

bool checkpoint_open_inside(checkpoint *c, size_t file, report *r)
{
    return checkpoint_detect(c, file, c->file_count > 1, r);
}

static bool checkpoint_open_container(checkpoint *c, size_t file, bool inside_shards, report *r)
{
    return checkpoint_detect(c, file, inside_shards, r) || report_file(r, c->files[file].path);
}

/* === Shards === */

enum {
    CHECKPOINT_MAX_SHARDS = 1000,
    CHECKPOINT_MAX_INDEX = 32 << 20      /* bytes */
};

/* Folder of `beside` + name, in the checkpoint's memory. */
static char *checkpoint_path_beside(checkpoint *c, const char *beside, const char *name)
{
    const size_t folder = paths_folder_length(beside), size = strlen(name);
    char *path = memory_take(&c->memory, folder + size + 1);
    if (!path) return NULL;
    memcpy(path, beside, folder);
    memcpy(path + folder, name, size);
    return path;
}

static bool checkpoint_shard_name_ok(const char *name)
{
    return text_is_name(name, strlen(name)) && strlen(name) <= 255 && name[0] != '.'
        && !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..");
}

/* Index of the file of this path; file_count if it was not opened yet. */
static size_t checkpoint_find_file(const checkpoint *c, const char *path)
{
    size_t i;
    for (i = 0; i < c->file_count; i++)
        if (strcmp(c->files[i].path, path) == 0) break;
    return i;
}

static bool checkpoint_open_shard(checkpoint *c, const char *index_path, const json_value *entry,
                                  report *r)
{
    const char *name = json_string(entry, NULL);
    size_t file = 0;
    char *path;
    if (!name || !checkpoint_shard_name_ok(name))
        return report_fail(r, "weight_map: the shard of \"%.200s\" must be a plain file name in "
                           "the same folder", entry->key);
    path = checkpoint_path_beside(c, index_path, name);
    if (!path) return report_no_memory(r);
    if (strcmp(path, index_path) == 0)
        return report_fail(r, "weight_map: the index names itself as a shard");
    if (checkpoint_find_file(c, path) < c->file_count) return true;
    if (c->file_count > CHECKPOINT_MAX_SHARDS)
        return report_fail(r, "weight_map: more than %d shards", CHECKPOINT_MAX_SHARDS);
    return checkpoint_add_file(c, path, &file, r) && checkpoint_open_container(c, file, true, r);
}

static bool checkpoint_is_skipped(const checkpoint *c, const char *name)
{
    size_t i;
    for (i = 0; i < c->skipped.count; i++)
        if (strcmp(c->skipped.entries[i].key, name) == 0) return true;
    return false;
}

/* The index and the shards must agree on which tensor is where. */
static bool checkpoint_check_shard(checkpoint *c, const json_value *entry, report *r)
{
    const checkpoint_tensor_info *t = checkpoint_find(c, entry->key);
    const char *path;
    if (!t && checkpoint_is_skipped(c, entry->key)) return true;
    if (!t)
        return report_fail(r, "weight_map: \"%.200s\" is in no shard", entry->key);
    path = c->files[c->storages[t->storage].file].path;
    if (strcmp(paths_file_name(path), json_string(entry, "")) == 0) return true;
    return report_fail(r, "weight_map: \"%.200s\" is not in %.200s but in %.200s", entry->key,
                       json_string(entry, ""), path);
}

static bool checkpoint_open_weight_map(checkpoint *c, const char *index_path,
                                       const json_value *map, report *r)
{
    const json_value *entry;
    for (entry = json_first(map); entry; entry = entry->next)
        if (!checkpoint_open_shard(c, index_path, entry, r)) return false;
    if (!checkpoint_index_names(c, r)) return false;
    for (entry = json_first(map); entry; entry = entry->next)
        if (!checkpoint_check_shard(c, entry, r)) return false;
    if (c->tensor_count <= map->count) return true;
    return report_fail(r, "weight_map: %llu tensors listed, the shards hold %llu",
                       (unsigned long long)map->count, (unsigned long long)c->tensor_count);
}

static bool checkpoint_open_shards(checkpoint *c, size_t file, report *r)
{
    const source *s = &c->sources[file];
    json_document json;
    const json_value *map;
    char *text;
    bool ok;
    if (s->memory) return report_fail(r, "an index of shards cannot be opened from memory");
    if (s->size > CHECKPOINT_MAX_INDEX)
        return report_fail(r, "JSON of more than %d bytes", CHECKPOINT_MAX_INDEX);
    text = malloc((size_t)s->size + 1);
    if (!text) return report_no_memory(r);
    c->kind = NULL;                         /* that of the shards */
    ok = source_read(s, 0, text, (size_t)s->size, r)
        && json_parse(&json, text, (size_t)s->size, true, 0, r);
    if (ok) {
        map = json_get(json.root, "weight_map");
        ok = map && map->kind == JSON_OBJECT && map->count > 0
           ? checkpoint_open_weight_map(c, s->name, map, r)
           : report_fail(r, "JSON without a \"weight_map\": not an index of shards");
        json_free(&json);
    }
    free(text);
    return ok;
}

/* === Open and close === */

static checkpoint *checkpoint_new(void)
{
    checkpoint *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->memory = memory_make((size_t)8 << 20);
    c->wrapper = "";
    return c;
}

/* The one way out of both open functions. */
static bool checkpoint_finish(checkpoint *c, bool ok, checkpoint **out, report *r)
{
    ok = ok && (c->by_name || checkpoint_index_names(c, r));
    if (ok && c->wanted && c->wrapper[0] == '\0')
        ok = report_fail(r, "no state dict \"%.200s\": the file holds a single one", c->wanted);
    *out = ok ? c : NULL;
    if (!ok) checkpoint_close(c);
    return ok;
}

/* What a folder from the Hugging Face hub holds, best first; NULL if nothing. */
static char *checkpoint_path_in_folder(checkpoint *c, const char *folder, report *r)
{
    static const char *const names[] = {
        "model.safetensors.index.json", "model.safetensors", "pytorch_model.bin"
    };
    size_t i, size = strlen(folder);
    char *beside = memory_take(&c->memory, size + 2);
    if (beside) {
        memcpy(beside, folder, size);
        beside[size] = '/';
    }
    for (i = 0; beside && i < sizeof names / sizeof *names; i++) {
        char *path = checkpoint_path_beside(c, beside, names[i]);
        if (path && source_exists(path)) return path;
    }
    (void)report_fail(r, "a folder without model.safetensors.index.json, model.safetensors or "
                      "pytorch_model.bin");
    return NULL;
}

bool checkpoint_open(const char *path, checkpoint **out, report *r)
{
    return checkpoint_open_weights(path, NULL, out, r);
}

bool checkpoint_open_weights(const char *path, const char *weights, checkpoint **out, report *r)
{
    checkpoint *c = checkpoint_new();
    const char *file_path = path;
    size_t file = 0;
    bool ok;
    *out = NULL;
    if (!c) return report_no_memory(r);
    c->wanted = weights;
    if (source_is_folder(path)) file_path = checkpoint_path_in_folder(c, path, r);
    ok = file_path && checkpoint_add_file(c, file_path, &file, r)
        && checkpoint_open_container(c, file, false, r);
    return checkpoint_finish(c, ok, out, r) || report_file(r, path);
}

bool checkpoint_open_memory(const char *name, const void *data, size_t size, checkpoint **out,
                            report *r)
{
    source s = source_from_memory(name, data, size);
    checkpoint *c = checkpoint_new();
    size_t file = 0;
    *out = NULL;
    if (!c) return report_no_memory(r);
    return checkpoint_finish(c, checkpoint_add_source(c, &s, &file, r)
                             && checkpoint_open_container(c, file, false, r), out, r)
        || report_file(r, name);
}

void checkpoint_close(checkpoint *c)
{
    size_t i;
    if (!c) return;
    for (i = 0; i < c->file_count; i++) source_close(&c->sources[i]);
    free(c->sources);
    free(c->files);
    free(c->storages);
    free(c->tensors);
    free(c->by_name);
    free(c->metadata.entries);
    free(c->skipped.entries);
    free(c->labels);
    free(c->choices);
    free(c->attributes);
    for (i = 0; i < c->block_count; i++) free(c->blocks[i]);
    free(c->blocks);
    free(c->cache.data);
    free(c->buffer);
    memory_free(&c->memory);
    free(c);
}

/* === Access === */

const char *checkpoint_kind(const checkpoint *c)
{
    return c->kind;
}

const char *checkpoint_wrapper(const checkpoint *c)
{
    return c->wrapper;
}

size_t checkpoint_choice_count(const checkpoint *c)
{
    return c->choice_count;
}

const char *checkpoint_choice(const checkpoint *c, size_t i)
{
    return i < c->choice_count ? c->choices[i] : NULL;
}

size_t checkpoint_attribute_count(const checkpoint *c)
{
    return c->attribute_count;
}

const checkpoint_attribute *checkpoint_attribute_at(const checkpoint *c, size_t i)
{
    return i < c->attribute_count ? &c->attributes[i] : NULL;
}

size_t checkpoint_count(const checkpoint *c)
{
    return c->tensor_count;
}

const checkpoint_tensor_info *checkpoint_tensor(const checkpoint *c, size_t i)
{
    return i < c->tensor_count ? &c->tensors[i] : NULL;
}

const checkpoint_tensor_info *checkpoint_find(const checkpoint *c, const char *name)
{
    checkpoint_tensor_info key = { 0 };
    const checkpoint_tensor_info *wanted = &key, **found;
    key.name = name;
    found = bsearch(&wanted, c->by_name, c->tensor_count, sizeof *c->by_name,
                    checkpoint_compare_names);
    return found ? *found : NULL;
}

bool checkpoint_rename(checkpoint *c, size_t i, const char *name, report *r)
{
    char *copy = memory_copy_text(&c->memory, name, strlen(name));
    if (!copy) return report_no_memory(r);
    c->tensors[i].name = copy;
    return true;
}

bool checkpoint_renamed(checkpoint *c, report *r)
{
    return checkpoint_sort_names(c, r);
}

bool checkpoint_add_values(checkpoint *c, const char *name, const float *values, size_t count,
                           size_t *storage, report *r)
{
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
                        report *r)
{
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
    if (!good) return free(copies), free(by_name), false;
    free(c->tensors);
    free(c->by_name);
    c->tensors = copies;
    c->by_name = by_name;
    c->tensor_count = c->tensor_capacity = count;
    return checkpoint_sort_names(c, r);
}

size_t checkpoint_file_count(const checkpoint *c)
{
    return c->file_count;
}

const checkpoint_file_info *checkpoint_file(const checkpoint *c, size_t i)
{
    return i < c->file_count ? &c->files[i] : NULL;
}

size_t checkpoint_metadata_count(const checkpoint *c)
{
    return c->metadata.count;
}

const checkpoint_metadata_entry *checkpoint_metadata(const checkpoint *c, size_t i)
{
    return i < c->metadata.count ? &c->metadata.entries[i] : NULL;
}

size_t checkpoint_skipped_count(const checkpoint *c)
{
    return c->skipped.count;
}

const checkpoint_metadata_entry *checkpoint_skipped(const checkpoint *c, size_t i)
{
    return i < c->skipped.count ? &c->skipped.entries[i] : NULL;
}

static const struct { char name[5]; uint8_t size; } checkpoint_dtypes[CHECKPOINT_DTYPE_COUNT] = {
    { "F32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "F64", 8 }, { "I64", 8 },
    { "I32", 4 }, { "I16", 2 }, { "I8", 1 },   { "U8", 1 },  { "BOOL", 1 },
    { "Q4_0", 18 }, { "Q4_1", 20 }, { "Q5_0", 22 }, { "Q5_1", 24 }, { "Q8_0", 34 }
};

const char *checkpoint_dtype_name(checkpoint_dtype dtype)
{
    return checkpoint_dtypes[dtype].name;
}

size_t checkpoint_dtype_size(checkpoint_dtype dtype)
{
    return checkpoint_dtypes[dtype].size;
}

size_t checkpoint_block(checkpoint_dtype dtype)
{
    return dtype >= CHECKPOINT_Q4_0 ? 32 : 1;
}

bool checkpoint_is_float(checkpoint_dtype dtype)
{
    return dtype <= CHECKPOINT_F64 || dtype >= CHECKPOINT_Q4_0;
}

size_t checkpoint_label_count(const checkpoint *c)
{
    return c->label_count;
}

const char *const *checkpoint_labels(const checkpoint *c)
{
    return c->labels;
}
