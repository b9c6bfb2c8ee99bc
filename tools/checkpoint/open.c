/* open.c - opens the files of a checkpoint and recognises their container.
 *
 * A container is a file format that holds tensors. The table below recognises containers by the
 * first bytes of the file. Common formats that cannot be read have a row too. For these formats,
 * the message contains the kind of the file and the remedy. container.h explains how to add a
 * container.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "checkpoint/container.h"

/* === Files === */

static bool checkpoint_add_source(checkpoint *c, const source *s, size_t *index, report *r) {
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

static bool checkpoint_add_file(checkpoint *c, const char *path, size_t *index, report *r) {
    source s;
    char *name = memory_copy_text(&c->memory, path, strlen(path));
    if (!name) return report_no_memory(r);
    if (!source_open_file(&s, name, r)) return false;
    if (checkpoint_add_source(c, &s, index, r)) return true;
    source_close(&s);
    return false;
}

/* === Containers === */

enum { CHECKPOINT_HEAD_SIZE = 512 };

typedef struct checkpoint_head {
    /* The first bytes of the file, followed by a NUL. */
    uint8_t bytes[CHECKPOINT_HEAD_SIZE + 1];
    size_t size;
    uint64_t file_size;
} checkpoint_head;

typedef struct checkpoint_container {
    const char *name;
    bool (*probe)(const checkpoint_head *head);
    /* Opens the file. NULL if such files are refused with the advice below. */
    bool (*open)(checkpoint *c, size_t file, report *r);
    const char *advice;
} checkpoint_container;

static bool checkpoint_open_shards(checkpoint *c, size_t file, report *r);

static bool head_has(const checkpoint_head *head, size_t at, const char *magic) {
    size_t size = strlen(magic);
    return at + size <= head->size && memcmp(head->bytes + at, magic, size) == 0;
}

static bool probe_json(const checkpoint_head *head) {
    const char *text = (const char *)head->bytes;
    return text[strspn(text, " \t\r\n")] == '{';
}

static bool probe_zip(const checkpoint_head *head) {
    return head_has(head, 0, "PK\x03\x04") || head_has(head, 0, "PK\x05\x06");
}

static bool probe_npz(const checkpoint_head *head) {
    size_t name_size = bytes_load16(head->bytes + 26);
    return probe_zip(head) && name_size >= 4 && head_has(head, 30 + name_size - 4, ".npy");
}

/* True for the legacy format of PyTorch. Such a file begins with the opcode PROTO, perhaps FRAME,
 * then LONG1 with the 10 bytes of 0x1950a86a20f9469cfc6c, and STOP. Before protocol 2, the file
 * begins with this number as text. */
static bool probe_torch_legacy(const checkpoint_head *head) {
    static const uint8_t magic[13] = {
        0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.',
    };
    size_t at;
    if (head->bytes[0] != 0x80) return head_has(head, 0, "L119547037146038801333356L\n.");
    for (at = 2; at + sizeof magic <= head->size && at <= 11; at += 9)
        if (memcmp(head->bytes + at, magic, sizeof magic) == 0) return true;
    return false;
}

/* True for a pickle. From protocol 2 on, it begins with the opcode PROTO. In older protocols, it
 * begins with a dict that is stored in the memo, or with the name of the dict's class. */
static bool probe_pickle(const checkpoint_head *head) {
    static const char *const starts[] = {
        "(dp", "}q", "ccollections\n", "ccopy_reg\n", "ccopyreg\n",
    };
    size_t i;
    for (i = 0; i < sizeof starts / sizeof *starts; i++)
        if (head_has(head, 0, starts[i])) return true;
    return head->bytes[0] == 0x80 && head->bytes[1] <= 5;
}

/* True for the tar archive of the oldest torch.save. Its first entry is one of these four files. */
static bool probe_torch_tar(const checkpoint_head *head) {
    static const char *const names[] = { "sys_info", "pickle", "tensors", "storages" };
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp((const char *)head->bytes, names[i]) == 0 && head_has(head, 257, "ustar"))
            return true;
    return false;
}

static bool probe_tar(const checkpoint_head *head) { return head_has(head, 257, "ustar"); }
static bool probe_npy(const checkpoint_head *head) { return head_has(head, 0, "\x93NUMPY"); }
static bool probe_gguf(const checkpoint_head *head) { return head_has(head, 0, "GGUF"); }
static bool probe_ggml(const checkpoint_head *head) { return head_has(head, 0, "lmgg"); }
static bool probe_hdf5(const checkpoint_head *head) { return head_has(head, 0, "\x89HDF\r\n"); }
static bool probe_vit(const checkpoint_head *head) { return head_has(head, 0, "\x89VIT\r\n"); }
static bool probe_tflite(const checkpoint_head *head) { return head_has(head, 4, "TFL3"); }
static bool probe_html(const checkpoint_head *head) { return head_has(head, 0, "<"); }

static bool head_begins(const checkpoint_head *head, const char *const *magics) {
    for (; *magics; magics++)
        if (head_has(head, 0, *magics)) return true;
    return false;
}

static bool probe_compressed(const checkpoint_head *head) {
    static const char *const magics[] = {
        "\x1f\x8b", "BZh", "\3757zXZ", "7z\xbc\xaf", "Rar!", "(\xb5/\xfd", NULL,
    };
    return head_begins(head, magics);
}

static bool probe_image(const checkpoint_head *head) {
    static const char *const magics[] = {
        "\xff\xd8\xff", "\x89PNG", "GIF8", "P5\n", "P6\n", NULL,
    };
    return head_begins(head, magics) || head_has(head, 8, "WEBP");
}

/* True for ONNX. Such a file begins with the version of the format. The producer's name, the graph
 * or the version of an operator set follows. */
static bool probe_onnx(const checkpoint_head *head) {
    const uint8_t *bytes = head->bytes;
    return bytes[0] == 0x08 && bytes[1] >= 3 && bytes[1] < 32 &&
           (bytes[2] == 0x12 || bytes[2] == 0x3a || bytes[2] == 0x42);
}

/* True for files of TensorFlow. They begin with the version 1 of a SavedModel, or with the first
 * node of a graph. A node begins with its name. */
static bool probe_tensorflow(const checkpoint_head *head) {
    return head_has(head, 0, "\x08\x01\x12") ||
           (head->bytes[0] == 0x0a && (head->bytes[2] == 0x0a || head->bytes[3] == 0x0a));
}

/* True for UTF-8 text without control characters other than white space. The last character may be
 * incomplete. */
static bool probe_text(const checkpoint_head *head) {
    const char *text = (const char *)head->bytes;
    size_t i = 0, length = 1;
    for (; i + 4 <= head->size && length > 0; i += length) {
        length = text_utf8_length(text + i, head->size - i);
        if (head->bytes[i] < ' ' && (text[i] == '\0' || !strchr("\t\n\r", text[i]))) length = 0;
    }
    return length > 0;
}

static bool probe_lfs(const checkpoint_head *head) {
    return head_has(head, 0, "version https://git-lfs");
}

/* True for safetensors. This probe comes first, because the length of a header can begin with the
 * same bytes as another format. */
static bool probe_safetensors(const checkpoint_head *head) {
    return head->bytes[8] == '{' && bytes_load64(head->bytes) <= head->file_size - 8;
}

/* True for a damaged file of safetensors in which only the length or only the '{' is right. This
 * probe comes last. */
static bool probe_damaged_safetensors(const checkpoint_head *head) {
    uint64_t length = bytes_load64(head->bytes);
    return head->bytes[8] == '{' || (length > 0 && length <= head->file_size - 8);
}

#define EXPECTED "expected safetensors, PyTorch's .pth, .pt or .bin, or .npz"
#define A_GRAPH  "a graph; convert its original weights instead: " EXPECTED

static const checkpoint_container checkpoint_containers[] = {
    { "safetensors", probe_safetensors, safetensors_open, NULL },
    { "npz", probe_npz, npz_open, NULL },
    { "PyTorch zip", probe_zip, torch_zip_open, NULL },
    { "PyTorch legacy", probe_torch_legacy, torch_legacy_open, NULL },
    { "PyTorch tar (before 0.1.10)", probe_torch_tar, NULL,
      "not supported; load and save it again with a newer PyTorch" },
    { "tar", probe_tar, tar_open, NULL },
    { "pickle", probe_pickle, torch_pickle_open, NULL },
    { "npy", probe_npy, NULL,
      "one array; expected a whole model, as numpy.savez(\"model.npz\", **arrays) writes it" },
    { "GGUF", probe_gguf, gguf_open, NULL },
    { "vit.cpp", probe_ggml, ggml_open, NULL },
    { "HDF5", probe_hdf5, NULL, "Keras' .h5 and other HDF5 files are not supported; " EXPECTED },
    { "image", probe_image, NULL, "not a checkpoint; " EXPECTED },
    { ".vit file", probe_vit, NULL,
      "a model, not a checkpoint; --to safetensors turns a .vit file back into a checkpoint" },
    { "compressed file", probe_compressed, NULL, "not supported; unpack it first" },
    { "web page", probe_html, NULL, "not a checkpoint; the download failed" },
    { "Git LFS pointer", probe_lfs, NULL, "only a pointer to the file; run git lfs pull" },
    { "safetensors index", probe_json, checkpoint_open_shards, NULL },
    { "text", probe_text, NULL, "not a checkpoint; " EXPECTED },
    { "ONNX", probe_onnx, onnx_open, NULL },
    { "TensorFlow Lite", probe_tflite, NULL, A_GRAPH },
    { "TensorFlow", probe_tensorflow, NULL, A_GRAPH },
    { "safetensors", probe_damaged_safetensors, safetensors_open, NULL },
};

static bool checkpoint_read_head(const source *s, checkpoint_head *head, report *r) {
    memset(head, 0, sizeof *head);
    head->file_size = s->size;
    head->size = s->size < CHECKPOINT_HEAD_SIZE ? (size_t)s->size : CHECKPOINT_HEAD_SIZE;
    if (head->size == 0) return report_fail(r, "the file is empty; " EXPECTED);
    if (head->size < 9)
        return report_fail(r, "%llu bytes are too few for a checkpoint",
                           (unsigned long long)s->size);
    return source_read(s, 0, head->bytes, head->size, r);
}

static bool checkpoint_detect(checkpoint *c, size_t file, bool inside_shards, report *r) {
    checkpoint_head head;
    size_t i, count = sizeof checkpoint_containers / sizeof *checkpoint_containers;
    if (!checkpoint_read_head(&c->sources[file], &head, r)) return false;
    for (i = 0; i < count; i++) {
        const checkpoint_container *container = &checkpoint_containers[i];
        if (!container->probe(&head)) continue;
        if (!container->open) return report_fail(r, "%s: %s", container->name, container->advice);
        if (inside_shards && container->open == checkpoint_open_shards)
            return report_fail(r, "an index of shards inside an index of shards");
        if (!inside_shards || !c->kind) c->kind = container->name;
        return container->open(c, file, r);
    }
    return report_fail(r, "not a known container (first bytes %02x %02x %02x %02x); " EXPECTED,
                       head.bytes[0], head.bytes[1], head.bytes[2], head.bytes[3]);
}

bool checkpoint_open_inside(checkpoint *c, size_t file, report *r) {
    return checkpoint_detect(c, file, c->file_count > 1, r);
}

static bool checkpoint_open_container(checkpoint *c, size_t file, bool inside_shards, report *r) {
    return checkpoint_detect(c, file, inside_shards, r) || report_file(r, c->files[file].path);
}

/* === Shards === */

enum {
    CHECKPOINT_MAX_SHARDS = 1000,
    CHECKPOINT_MAX_INDEX = 32 << 20, /* in bytes */
};

/* Returns the path of the file `name` in the folder of the file `beside`. The path belongs to the
 * checkpoint's memory. */
static char *checkpoint_path_beside(checkpoint *c, const char *beside, const char *name) {
    const size_t folder = paths_folder_length(beside), size = strlen(name);
    char *path = memory_take(&c->memory, folder + size + 1);
    if (!path) return NULL;
    memcpy(path, beside, folder);
    memcpy(path + folder, name, size);
    return path;
}

static bool checkpoint_shard_name_ok(const char *name) {
    return text_is_name(name, strlen(name)) && strlen(name) <= 255 && name[0] != '.' &&
           !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..");
}

/* Returns the index of the open file with this path. Returns c->file_count if the file is not
 * open. */
static size_t checkpoint_find_file(const checkpoint *c, const char *path) {
    size_t i;
    for (i = 0; i < c->file_count; i++)
        if (strcmp(c->files[i].path, path) == 0) break;
    return i;
}

bool checkpoint_open_beside(checkpoint *c, size_t file, const char *name, size_t *index,
                            report *r) {
    const char *beside = c->files[file].path;
    char *path;
    if (!name || !checkpoint_shard_name_ok(name))
        return report_fail(
            r, "external data: \"%.200s\" must be the name of a file in the model's folder",
            name ? name : "");
    if (c->sources[file].memory)
        return report_fail(
            r, "the external data in \"%.200s\" cannot be read: the model was opened from memory",
            name);
    path = checkpoint_path_beside(c, beside, name);
    if (!path) return report_no_memory(r);
    *index = checkpoint_find_file(c, path);
    if (*index < c->file_count) return true;
    if (c->file_count > CHECKPOINT_MAX_SHARDS)
        return report_fail(r, "external data in more than %d files", CHECKPOINT_MAX_SHARDS);
    return checkpoint_add_file(c, path, index, r);
}

static bool checkpoint_open_shard(checkpoint *c, const char *index_path, const json_value *entry,
                                  report *r) {
    const char *name = json_string(entry, NULL);
    size_t file = 0;
    char *path;
    if (!name || !checkpoint_shard_name_ok(name))
        return report_fail(
            r,
            "weight_map: the shard of tensor \"%.200s\" must be a plain file name in "
            "the folder of the index",
            entry->key);
    path = checkpoint_path_beside(c, index_path, name);
    if (!path) return report_no_memory(r);
    if (strcmp(path, index_path) == 0)
        return report_fail(r, "weight_map: the index names itself as a shard");
    if (checkpoint_find_file(c, path) < c->file_count) return true;
    if (c->file_count > CHECKPOINT_MAX_SHARDS)
        return report_fail(r, "weight_map: more than %d shards", CHECKPOINT_MAX_SHARDS);
    return checkpoint_add_file(c, path, &file, r) && checkpoint_open_container(c, file, true, r);
}

static bool checkpoint_is_skipped(const checkpoint *c, const char *name) {
    size_t i;
    for (i = 0; i < c->skipped.count; i++)
        if (strcmp(c->skipped.entries[i].key, name) == 0) return true;
    return false;
}

/* Checks that a tensor is in the shard that the index names for this tensor. */
static bool checkpoint_check_shard(checkpoint *c, const json_value *entry, report *r) {
    const checkpoint_tensor_info *t = checkpoint_find(c, entry->key);
    const char *path;
    if (!t && checkpoint_is_skipped(c, entry->key)) return true;
    if (!t) return report_fail(r, "weight_map: \"%.200s\" is in no shard", entry->key);
    path = c->files[c->storages[t->storage].file].path;
    if (strcmp(paths_file_name(path), json_string(entry, "")) == 0) return true;
    return report_fail(r, "weight_map: \"%.200s\" is not in %.200s but in %.200s", entry->key,
                       json_string(entry, ""), path);
}

static bool checkpoint_open_weight_map(checkpoint *c, const char *index_path, const json_value *map,
                                       report *r) {
    const json_value *entry;
    for (entry = json_first(map); entry; entry = entry->next)
        if (!checkpoint_open_shard(c, index_path, entry, r)) return false;
    if (!checkpoint_index_names(c, r)) return false;
    for (entry = json_first(map); entry; entry = entry->next)
        if (!checkpoint_check_shard(c, entry, r)) return false;
    if (c->tensor_count <= map->count) return true;
    return report_fail(r, "weight_map: it lists %llu tensors, but the shards hold %llu",
                       (unsigned long long)map->count, (unsigned long long)c->tensor_count);
}

static bool checkpoint_open_shards(checkpoint *c, size_t file, report *r) {
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
    c->kind = NULL; /* The shards give the kind. */
    ok = source_read(s, 0, text, (size_t)s->size, r) &&
         json_parse(&json, text, (size_t)s->size, true, 0, r);
    if (ok) {
        map = json_get(json.root, "weight_map");
        ok = map && map->kind == JSON_OBJECT && map->count > 0
                 ? checkpoint_open_weight_map(c, s->name, map, r)
                 : report_fail(
                       r, "JSON without a \"weight_map\", so not an index of shards; convert the "
                          "checkpoint itself");
        json_free(&json);
    }
    free(text);
    return ok;
}

/* === Open and close === */

static checkpoint *checkpoint_new(void) {
    checkpoint *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->memory = memory_make((size_t)8 << 20);
    c->wrapper = "";
    return c;
}

/* Completes the opening of a checkpoint. Closes the checkpoint on failure. */
static bool checkpoint_finish(checkpoint *c, bool ok, checkpoint **out, report *r) {
    ok = ok && (c->by_name || checkpoint_index_names(c, r));
    if (ok && c->wanted && c->wrapper[0] == '\0')
        ok = report_fail(
            r, "no state dict \"%.200s\": the file holds a single state dict; leave out --weights",
            c->wanted);
    *out = ok ? c : NULL;
    if (!ok) checkpoint_close(c);
    return ok;
}

/* Returns the path of the file to open in a folder of the Hugging Face hub: the first file of the
 * list that exists. Fails and returns NULL if there is none. */
static char *checkpoint_path_in_folder(checkpoint *c, const char *folder, report *r) {
    static const char *const names[] = {
        "model.safetensors.index.json",
        "model.safetensors",
        "pytorch_model.bin",
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

bool checkpoint_open(const char *path, checkpoint **out, report *r) {
    return checkpoint_open_weights(path, NULL, out, r);
}

bool checkpoint_open_weights(const char *path, const char *weights, checkpoint **out, report *r) {
    checkpoint *c = checkpoint_new();
    const char *file_path = path;
    size_t file = 0;
    bool ok;
    *out = NULL;
    if (!c) return report_no_memory(r);
    c->wanted = weights;
    if (source_is_folder(path)) file_path = checkpoint_path_in_folder(c, path, r);
    ok = file_path && checkpoint_add_file(c, file_path, &file, r) &&
         checkpoint_open_container(c, file, false, r);
    return checkpoint_finish(c, ok, out, r) || report_file(r, path);
}

bool checkpoint_open_memory(const char *name, const void *data, size_t size, checkpoint **out,
                            report *r) {
    source s = source_from_memory(name, data, size);
    checkpoint *c = checkpoint_new();
    size_t file = 0;
    *out = NULL;
    if (!c) return report_no_memory(r);
    return checkpoint_finish(c,
                             checkpoint_add_source(c, &s, &file, r) &&
                                 checkpoint_open_container(c, file, false, r),
                             out, r) ||
           report_file(r, name);
}

void checkpoint_close(checkpoint *c) {
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
