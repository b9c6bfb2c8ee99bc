/* test_checkpoint.c - tests the checkpoint readers: every fixture must be read exactly, and every
 * broken file must be refused.
 *
 *     test_checkpoint [tests/data]
 *
 * The fixtures come from tests/make_checkpoints.py. Tables list the broken inputs, each with a word
 * that the message must contain. Damage at any position must not cause a crash or an access to
 * other memory, which sanitizers would report.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "test.h"

/* === Growing byte strings, to build files by hand === */

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

static void put(bytes *b, const void *data, size_t size) {
    if (b->size + size > b->capacity) {
        b->capacity = (b->size + size) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data) abort();
    }
    if (size > 0) memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put_number(bytes *b, uint64_t number, size_t width) {
    uint8_t raw[8];
    size_t i;
    for (i = 0; i < width; i++) raw[i] = (uint8_t)(number >> 8 * i);
    put(b, raw, width);
}

static void put_text(bytes *b, const char *text) { put(b, text, strlen(text)); }

static void discard(bytes *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

static bool load(bytes *b, const char *folder, const char *name) {
    char path[1024];
    uint8_t block[4096];
    size_t got;
    FILE *file;
    memset(b, 0, sizeof *b);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file) return false;
    while ((got = fread(block, 1, sizeof block, file)) > 0) put(b, block, got);
    fclose(file);
    return true;
}

/* === Opening files that may be broken === */

/* Opens a checkpoint, reads all tensors and verifies them. Returns false if a step fails. The data
 * are copied to a block of exactly their size, so that ASan detects reads beyond the end. */
static bool open_and_read(const uint8_t *data, size_t size, report *r) {
    checkpoint *c;
    float values[64];
    size_t i;
    bool ok;
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, data, size);
    *r = report_make();
    ok = checkpoint_open_memory("test", exact, size, &c, r);
    for (i = 0; ok && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        int64_t count = t->count < 64 ? t->count : 64;
        ok = checkpoint_read(c, t, 0, count, values, r) &&
             checkpoint_read(c, t, t->count - count, count, values, r);
    }
    ok = ok && checkpoint_verify(c, r);
    checkpoint_close(c);
    free(exact);
    return ok;
}

/* Checks that the input is refused quickly, with a message that contains the word. */
static void check_refused(const char *what, const uint8_t *data, size_t size, const char *word) {
    report r = report_make();
    clock_t start = clock();
    bool ok = open_and_read(data, size, &r);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK_MSG(!ok && strstr(r.text, word) != NULL && seconds < 5,
              "%s: \"%s\" expected, got %s "
              "\"%s\" in %.1f s",
              what, word, ok ? "success" : "error", r.text, seconds);
}

static void check_accepted(const char *what, const uint8_t *data, size_t size) {
    report r = report_make();
    CHECK_MSG(open_and_read(data, size, &r), "%s: %s", what, r.text);
}

/* === Fixtures that must be read exactly === */

typedef struct expectation {
    bytes json_text, values;
    json_document json;
} expectation;

static bool load_expectation(expectation *e, const char *folder) {
    report r = report_make();
    if (!load(&e->json_text, folder, "expected.json") || !load(&e->values, folder, "expected.bin"))
        return false;
    put(&e->json_text, "", 1);
    return json_parse(&e->json, (char *)e->json_text.data, e->json_text.size - 1, true, 0, &r);
}

static bool same_float(float a, const uint8_t *expected) {
    uint32_t bits = bytes_load32(expected), got;
    float b;
    memcpy(&b, &bits, sizeof b);
    memcpy(&got, &a, sizeof got);
    return got == bits || (a != a && b != b);
}

static bool same_shape(const checkpoint_tensor_info *t, const json_value *row) {
    const json_value *dim = json_first(json_get(row, "shape"));
    int i;
    for (i = 0; i < t->ndim; i++, dim = dim->next)
        if (!dim || json_integer(dim, -1) != t->dims[i]) return false;
    return !dim && strcmp(t->name, json_string(json_get(row, "name"), "")) == 0 &&
           strcmp(checkpoint_dtype_name(t->dtype), json_string(json_get(row, "dtype"), "")) == 0;
}

/* Reads a tensor in pieces of `step` elements, and compares them with the values at `at`. */
static bool same_values(checkpoint *c, const checkpoint_tensor_info *t, int64_t step,
                        const uint8_t *at, report *r) {
    float values[1000];
    int64_t first, i;
    for (first = 0; first < t->count; first += step) {
        int64_t count = t->count - first < step ? t->count - first : step;
        if (!checkpoint_read(c, t, first, count, values, r)) return false;
        for (i = 0; i < count; i++)
            if (!same_float(values[i], at + 4 * (first + i))) return false;
    }
    return true;
}

/* Compares all tensors with the expected ones by their names, because shards may contain them in
 * another order. */
static void check_contents(checkpoint *c, const char *name, const expectation *e) {
    static const int64_t steps[] = { 64, 1, 5 };
    report r = report_make();
    const json_value *row;
    size_t at = 0, s;
    CHECK_MSG(checkpoint_count(c) == e->json.root->count, "%s: %lu tensors", name,
              (unsigned long)checkpoint_count(c));
    for (row = json_first(e->json.root); row; row = row->next) {
        const char *tensor = json_string(json_get(row, "name"), "");
        const checkpoint_tensor_info *t = checkpoint_find(c, tensor);
        bool ok = t && same_shape(t, row);
        for (s = 0; ok && s < 3; s++) ok = same_values(c, t, steps[s], e->values.data + at, &r);
        CHECK_MSG(ok, "%s: %s %s", name, tensor, r.text);
        at += t ? 4 * (size_t)t->count : 0;
    }
    CHECK_MSG(at == e->values.size, "%s: %lu bytes of values", name, (unsigned long)at);
    CHECK_MSG(checkpoint_verify(c, &r), "%s", r.text);
}

static const struct {
    const char *name, *kind, *wrapper;
} good[] = {
    { "zip.pt", "PyTorch zip", "" },
    { "legacy.pt", "PyTorch legacy", "" },
    { "zip_protocol4.pt", "PyTorch zip", "" },
    { "legacy_protocol4.pt", "PyTorch legacy", "" },
    { "wrapped.pt", "PyTorch zip", "model" },
    { "ema.pt", "PyTorch zip", "state_dict_ema" },
    { "nested.pt", "PyTorch zip", "teacher.module" },
    { "deflate.pt", "PyTorch zip", "" },
    { "zip64.pt", "PyTorch zip", "" },
    { "big_endian.pt", "PyTorch zip", "" },
    { "model.safetensors", "safetensors", "" },
    { "shards/model.safetensors.index.json", "safetensors", "" },
    { "shards", "safetensors", "" },
};

static void test_good_fixtures(const char *folder) {
    expectation e;
    char path[1024];
    report r = report_make();
    checkpoint *c;
    size_t i;
    CHECK(load_expectation(&e, folder));
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, good[i].name);
        if (!checkpoint_open(path, &c, &r)) {
            CHECK_MSG(0, "%s", r.text);
            continue;
        }
        CHECK_MSG(strcmp(checkpoint_kind(c), good[i].kind) == 0, "%s", checkpoint_kind(c));
        CHECK_MSG(strcmp(checkpoint_wrapper(c), good[i].wrapper) == 0, "%s", checkpoint_wrapper(c));
        check_contents(c, good[i].name, &e);
        checkpoint_close(c);
    }
    json_free(&e.json);
    discard(&e.json_text);
    discard(&e.values);
}

static const char *metadata(const checkpoint *c, const char *key) {
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(c); i++)
        if (strcmp(checkpoint_metadata(c, i)->key, key) == 0)
            return checkpoint_metadata(c, i)->value;
    return "";
}

static checkpoint *open_fixture(const char *folder, const char *name) {
    char path[1024];
    report r = report_make();
    checkpoint *c;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_MSG(checkpoint_open(path, &c, &r), "%s", r.text);
    return c;
}

static bool read_transposed(checkpoint *c, const checkpoint_tensor_info *t, report *r) {
    checkpoint_tensor_info view = *t;
    float value;
    view.dims[0] = t->dims[1];
    view.dims[1] = t->dims[0];
    view.strides[0] = t->strides[1];
    view.strides[1] = t->strides[0];
    return checkpoint_read(c, &view, 0, 1, &value, r);
}

static void test_details(const char *folder) {
    static const int64_t ranges[][2] = { { 1000, 0 }, { 0, 1000 }, { -1, 1 }, { 0, -1 } };
    size_t i;
    report r = report_make();
    float values[4] = { 0 };
    checkpoint *c = open_fixture(folder, "wrapped.pt");
    if (c) {
        CHECK(strcmp(metadata(c, "epoch"), "3") == 0);
        CHECK(strcmp(metadata(c, "args.arch"), "vit_tiny") == 0);
        CHECK(strcmp(metadata(c, "args.lr"), "0.5") == 0);
        CHECK(checkpoint_find(c, "no such tensor") == NULL);
        CHECK(checkpoint_tensor(c, checkpoint_count(c)) == NULL);
        CHECK(checkpoint_file_count(c) == 1 && checkpoint_file(c, 0)->size > 1000);
        CHECK(checkpoint_file(c, 1) == NULL && checkpoint_skipped(c, 0) == NULL);
        for (i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            r = report_make();
            CHECK_MSG(!checkpoint_read(c, checkpoint_tensor(c, 0), ranges[i][0], ranges[i][1],
                                       values, &r) &&
                          strstr(r.text, "requested"),
                      "range %lu", (unsigned long)i);
        }
        checkpoint_close(c);
    }
    c = open_fixture(folder, "model.safetensors");
    CHECK(c && strcmp(metadata(c, "note"), "caf\xC3\xA9 \xF0\x9F\x98\x80") == 0);
    checkpoint_close(c);
    c = open_fixture(folder, "shards");
    CHECK(c && checkpoint_file_count(c) == 3);
    checkpoint_close(c);
    c = open_fixture(folder, "subclass.pt");
    r = report_make();
    CHECK(c && checkpoint_read(c, checkpoint_find(c, "t"), 0, 3, values, &r) && values[2] == 9.0f);
    checkpoint_close(c);
    c = open_fixture(folder, "complex.pt");
    CHECK(c && checkpoint_skipped_count(c) == 1 &&
          strcmp(checkpoint_skipped(c, 0)->key, "freqs") == 0);
    checkpoint_close(c);
    c = open_fixture(folder, "../layouts/vit_cpp/model.gguf");
    for (i = 0; c && checkpoint_block(checkpoint_tensor(c, i)->dtype) == 1;) i++;
    CHECK(c && !read_transposed(c, checkpoint_tensor(c, i), &r) &&
          strstr(r.text, "quantised weights cannot be transposed"));
    checkpoint_close(c);
    c = open_fixture(folder, "torchscript.pt");
    r = report_make();
    CHECK(c && strcmp(checkpoint_kind(c), "TorchScript") == 0 && checkpoint_count(c) == 4 &&
          checkpoint_read(c, checkpoint_find(c, "0.weight"), 0, 2, values, &r) &&
          values[0] == 3.0f && values[1] == 4.0f);
    checkpoint_close(c);
}

static void test_refused_fixtures(const char *folder) {
    char path[1024];
    report r = report_make();
    checkpoint *c;
    snprintf(path, sizeof path, "%s/..", folder);
    CHECK(!checkpoint_open(path, &c, &r) && strstr(r.text, "folder without"));
    r = report_make();
    CHECK(!checkpoint_open("/dev/null", &c, &r) && strstr(r.text, "regular file"));
    r = report_make();
    CHECK(!checkpoint_open("/no/such/file", &c, &r) && strstr(r.text, "open"));
}

/* === Sweeps === */

/* Every prefix of these fixtures must be refused. */
static void test_truncated(const char *folder) {
    static const char *const names[] = {
        "zip.pt",
        "legacy.pt",
        "legacy_protocol4.pt",
        "wrapped.pt",
        "deflate.pt",
        "zip64.pt",
        "big_endian.pt",
        "model.safetensors",
        "small_zip.pt",
        "small_legacy.pt",
        "small_deflate.pt",
        "small.safetensors",
        "torchscript.pt",
        "../layouts/jax/model.npz",
    };
    report r = report_make();
    size_t i, size;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        bytes b;
        long accepted = 0;
        CHECK(load(&b, folder, names[i]));
        for (size = 0; size < b.size; size++) accepted += open_and_read(b.data, size, &r);
        CHECK_MSG(accepted == 0, "%s: %ld prefixes accepted", names[i], accepted);
        check_accepted(names[i], b.data, b.size);
        discard(&b);
    }
}

static void flip_sweep(const char *folder, const char *name, size_t stride) {
    static const uint8_t masks[] = { 0x01, 0x80, 0xFF, 0x10 };
    report r = report_make();
    bytes b;
    size_t at, m, refused = 0, total = 0;
    clock_t start = clock();
    CHECK(load(&b, folder, name));
    for (at = 0; at < b.size; at += stride) {
        for (m = 0; m < sizeof masks; m++) {
            b.data[at] ^= masks[m];
            refused += !open_and_read(b.data, b.size, &r);
            b.data[at] ^= masks[m];
            total++;
        }
    }
    CHECK_MSG(refused > total / 10 && (double)(clock() - start) / CLOCKS_PER_SEC < 60,
              "%s: %lu of %lu refused", name, (unsigned long)refused, (unsigned long)total);
    discard(&b);
}

static void test_flipped(const char *folder) {
    flip_sweep(folder, "small_zip.pt", 1);
    flip_sweep(folder, "small_legacy.pt", 1);
    flip_sweep(folder, "small_deflate.pt", 1);
    flip_sweep(folder, "small.safetensors", 1);
    flip_sweep(folder, "subclass.pt", 3);
    flip_sweep(folder, "legacy_protocol4.pt", 5);
    flip_sweep(folder, "wrapped.pt", 13);
    flip_sweep(folder, "zip64.pt", 11);
    flip_sweep(folder, "torchscript.pt", 13);
    flip_sweep(folder, "model.safetensors", 5);
}

static void test_tiny_files(void) {
    report r = report_make();
    uint8_t data[3] = { 0 };
    long accepted = 0;
    int i;
    accepted += open_and_read(data, 0, &r);
    for (i = 0; i < 65536; i++) {
        data[0] = (uint8_t)i;
        data[1] = (uint8_t)(i >> 8);
        data[2] = (uint8_t)(i * 31);
        accepted += open_and_read(data, (size_t)(i % 3) + 1, &r);
    }
    CHECK(accepted == 0);
}

/* === Other containers: the refusal names the container === */

static void test_unknown_containers(void) {
    static const struct {
        const char *start;
        size_t size;
        const char *word;
    } files[] = {
        { "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16, "truncated" },
        { "lmgg\0\0\0\0\0\0\0\0", 12, "truncated" },
        { "\x89HDF\r\n\x1a\n\0\0\0\0", 12, "HDF5" },
        { "\x93NUMPY\1\0v\0{", 11, "npy" },
        { "\x1f\x8b\x08\0\0\0\0\0\0\0\0", 11, "compressed file" },
        { "\xff\xd8\xff\xe0\0\x10JFIF\0", 11, "image" },
        { "RIFF\x10\0\0\0WEBPVP8 ", 16, "image" },
        { "\x08\x07\x12\x07pytorch\x1a", 12, "ONNX" },
        { "\x1c\0\0\0TFL3\0\0\0\0", 12, "TensorFlow Lite" },
        { "\x08\x01\x12\xff\0\0\0\0\0\0", 10, "TensorFlow: a graph" },
        { "\x0a\x21\x0a\x01x\x12\x0bPlaceholder", 18, "TensorFlow: a graph" },
        { "import torch\nfrom torch import nn\n", 34, "text: not a checkpoint" },
        { "\na\ntext\n\xc3\xa4", 10, "text: not a checkpoint" },
        { "", 0, "the file is empty" },
        { "<!DOCTYPE html><html>", 21, "web page" },
        { "version https://git-lfs.github.com/spec/v1\n", 43, "LFS" },
        { "\x80\x02}q\x00.\0\0\0\0\0\0\0\0", 14, "no state dict" },
        { "\x89VIT\r\n\x1a\n\0\0\0\0", 12, "a model, not a checkpoint" },
        { "{\"model_type\": \"vit\"}", 21, "memory" },
        { "\0\0\0\0\0\0\0\0\0\0", 10, "known container" },
        { "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6", 10, "known container" },
        { "PK\3\4\x14\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0a.npyxxxx", 39, "zip" },
    };
    bytes tar = { 0 };
    size_t i;
    for (i = 0; i < sizeof files / sizeof *files; i++)
        check_refused(files[i].word, (const uint8_t *)files[i].start, files[i].size, files[i].word);
    put(&tar, "storages", sizeof "storages");
    while (tar.size < 257) put(&tar, "s", 1);
    put_text(&tar, "ustar  and some more of a header");
    check_refused("tar", tar.data, tar.size, "0.1.10");
    discard(&tar);
}

/* === Malformed safetensors === */

static void make_safetensors(bytes *b, const char *header, size_t data_size) {
    put_number(b, strlen(header), 8);
    put_text(b, header);
    while (data_size-- > 0) put(b, "\x3f", 1);
}

static void test_malformed_safetensors(void) {
    static const struct {
        const char *name, *header;
        size_t data;
        const char *word;
    } files[] = {
        { "two tensors that share half of their bytes",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
          12, "overlap" },
        { "two tensors of the same bytes",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          8, "overlap" },
        { "a hole between two tensors",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
          12, "hole" },
        { "a hole before the first tensor",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole" },
        { "a tensor listed twice",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          8, "duplicate" },
        { "a key twice in a tensor's entry",
          "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "duplicate" },
        { "a shape whose product overflows in the third step",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,0]}}",
          0, "overflow" },
        { "a shape whose bytes overflow",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
          "overflow" },
        { "an empty tensor whose other dimensions overflow",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904,4611686018427387904],"
          "\"data_offsets\":[0,0]}}",
          0, "overflow" },
        { "offsets that begin below zero",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets" },
        { "offsets that end before they begin",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets" },
        { "three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4,
          "data_offsets" },
        { "offsets that are an object",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":{\"a\":0,\"b\":4}}}", 4,
          "data_offsets" },
        { "no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets" },
        { "offsets that are no integers",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.0,4.0]}}", 4,
          "data_offsets" },
        { "a shape that needs more bytes than the offsets hold",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "require 8" },
        { "offsets beyond the end of the file",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,400]}}", 4, "truncated" },
        { "a byte behind the last tensor",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "trailing" },
        { "a negative dimension",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape" },
        { "a dimension that is no integer",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "shape" },
        { "a shape that is no list",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "shape" },
        { "nine dimensions",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
          "dimensions" },
        { "a type that does not exist",
          "{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F33" },
        { "no type", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype" },
        { "an entry that is a list", "{\"a\":[1]}", 4, "dtype" },
        { "a tensor without a name",
          "{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name" },
        { "a line break in a name",
          "{\"a\\nb\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name" },
        { "metadata that is no text", "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__" },
        { "metadata that is no object", "{\"__metadata__\":[]}", 0, "__metadata__" },
        { "no tensors", "{}", 0, "no tensors" },
        { "text behind the header", "{} x", 0, "after the end" },
        { "a header that is a list", "[\"a\",\"b\",\"c\"]", 4, "start with '{'" },
        { "a space before the header",
          " {\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "start with '{'" },
        { "a header without its last brace",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", 4, "JSON" },
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        make_safetensors(&b, files[i].header, files[i].data);
        check_refused(files[i].name, b.data, b.size, files[i].word);
        discard(&b);
    }
}

static void test_safetensors_lengths(void) {
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    static const struct {
        uint64_t length;
        const char *word;
    } lengths[] = {
        { 100000001, "at most" }, { UINT64_MAX, "at most" },
        { 5000, "truncated" },    { 0, "truncated" },
        { 20, "JSON" },           { sizeof header, "JSON" },
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_number(&b, lengths[i].length, 8);
        put_text(&b, header);
        put(&b, "\0\0\0\0", 4);
        check_refused("length", b.data, b.size, lengths[i].word);
        discard(&b);
    }
    make_safetensors(&b,
                     "{\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                     "\"e\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[3,3]},"
                     "\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[3,5]},"
                     "\"f\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[5,9]}}   ",
                     9);
    check_accepted("unaligned and empty tensors", b.data, b.size);
    discard(&b);
    make_safetensors(&b,
                     "{\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},"
                     "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
                     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                     3);
    check_accepted("tensors listed from the last to the first", b.data, b.size);
    discard(&b);
}

/* Opens each checkpoints/bad_*.index.json, which must be refused. If an index lists shards that
 * exist, they are the safetensors fixtures in the folder. */
static void test_bad_shards(const char *folder) {
    static const struct {
        const char *name, *word;
    } rows[] = {
        { "parent", "plain file name" }, { "absolute", "plain file name" },
        { "dots", "plain file name" },   { "number", "plain file name" },
        { "missing", "open" },           { "empty", "weight_map" },
        { "absent_tensor", "no shard" }, { "unlisted_tensor", "listed" },
        { "itself", "names itself" },    { "nested", "index of shards inside" },
        { "swapped", "is not in" },      { "config", "weight_map" },
        { "truncated", "JSON" },
    };
    char path[1024];
    report r = report_make();
    checkpoint *c;
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(path, sizeof path, "%s/bad_%s.index.json", folder, rows[i].name);
        r = report_make();
        CHECK_MSG(!checkpoint_open(path, &c, &r) && strstr(r.text, rows[i].word), "%s: %s",
                  rows[i].name, r.text);
    }
}

/* === Malformed pickles === */

#define FOUR_FLOATS "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40" /* the floats 1, 2, 3 and 4 */

typedef struct zip_spec {
    const char *name;
    const void *data;
    size_t size;
    unsigned method, flags;
    uint32_t crc_xor;
    /* The size after inflating, as the directory states it. 0 means the true size. */
    uint64_t claimed;
    /* This number is added to the offset of the local header in the directory. */
    int32_t move;
} zip_spec;

static void put_zip_fields(bytes *b, const zip_spec *s, uint32_t crc) {
    put_number(b, 20, 2);
    put_number(b, s->flags, 2);
    put_number(b, s->method, 2);
    put_number(b, 0, 4);
    put_number(b, crc ^ s->crc_xor, 4);
    put_number(b, s->size, 4);
    put_number(b, s->claimed ? s->claimed : s->size, 4);
    put_number(b, strlen(s->name), 2);
    put_number(b, 0, 2);
}

static void make_zip(bytes *b, const zip_spec *specs, size_t count) {
    bytes directory = { 0 };
    size_t i;
    for (i = 0; i < count; i++) {
        uint32_t crc = crc32_add(0, specs[i].data, specs[i].size);
        size_t offset = b->size;
        put(b, "PK\3\4", 4);
        put_zip_fields(b, &specs[i], crc);
        put_text(b, specs[i].name);
        put(b, specs[i].data, specs[i].size);
        put(&directory, "PK\1\2\x14\0", 6);
        put_zip_fields(&directory, &specs[i], crc);
        put_number(&directory, 0, 6);
        put_number(&directory, 0, 4);
        put_number(&directory, offset + (size_t)specs[i].move, 4);
        put_text(&directory, specs[i].name);
    }
    i = b->size;
    put(b, directory.data, directory.size);
    put(b, "PK\5\6\0\0\0\0", 8);
    put_number(b, count, 2);
    put_number(b, count, 2);
    put_number(b, directory.size, 4);
    put_number(b, i, 4);
    put_number(b, 0, 2);
    discard(&directory);
}

/* The pickle of a storage "0" with four floats, and the pickle of a tensor that uses this
 * storage. */
#define STORAGE(CLASS, COUNT)                                                                      \
    "(U\x07storage" CLASS "U\x01"                                                                  \
    "0"                                                                                            \
    "U\x03"                                                                                        \
    "cpu" COUNT "NtQ"
#define FLOATS                                  STORAGE("ctorch\nFloatStorage\n", "K\x04")
#define REBUILD                                 "ctorch._utils\n_rebuild_tensor_v2\n"
#define TENSOR(STORAGE, OFFSET, SIZES, STRIDES) REBUILD "(" STORAGE OFFSET SIZES STRIDES "\x89NtR"
#define DICT(VALUE)                             "\x80\x02}U\x01t" VALUE "s."
#define GOOD                                    DICT(TENSOR(FLOATS, "K\x01", "K\x03\x85", "K\x01\x85"))

#define BYTES    STORAGE("ctorch.storage\nUntypedStorage\n", "K\x10")
#define LAST_TWO VIEW("K\x02", "K\x02")
#define TYPED(DTYPE)                                                                               \
    "ctorch._utils\n_rebuild_tensor_v3\n(" BYTES "K\x01K\x01\x85K\x01\x85\x89}ctorch\n" DTYPE "\ntR"
#define SUBCLASS    "ctorch._tensor\n_rebuild_from_type_v2\n"
#define LETTERS_50  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LETTERS_14  "aaaaaaaaaaaaaa"
#define LETTERS_200 LETTERS_50 LETTERS_50 LETTERS_50 LETTERS_50

#define LEGACY_MAGIC "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

/* Makes a file in the legacy form of PyTorch. `count` is the number of elements that the file
 * states. The data always have 16 bytes. */
static void make_legacy(bytes *b, const void *pickle, size_t size, uint64_t count) {
    static const char rest[] = "\x80\x02M\xe9\x03.\x80\x02}.";
    static const char keys[] = "\x80\x02]U\x01"
                               "0a.";
    put(b, LEGACY_MAGIC, sizeof LEGACY_MAGIC - 1);
    put(b, rest, sizeof rest - 1);
    put(b, pickle, size);
    put(b, keys, sizeof keys - 1);
    put_number(b, count, 8);
    put(b, FOUR_FLOATS, 16);
}

#define ONE TENSOR(FLOATS, "K\x00", ")", ")")

/* Makes a file in the zip form of PyTorch, with this pickle and a storage of four floats. */
static void make_torch_zip(bytes *b, const void *pickle, size_t size) {
    zip_spec specs[2] = { { "a/data.pkl", NULL, 0, 0, 0, 0, 0, 0 },
                          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 } };
    specs[0].data = pickle;
    specs[0].size = size;
    make_zip(b, specs, 2);
}

static void check_pickle_refused(const char *what, bytes *pickle, const char *word) {
    bytes b = { 0 };
    make_torch_zip(&b, pickle->data, pickle->size);
    check_refused(what, b.data, b.size, word);
    discard(&b);
    discard(pickle);
}

/* A defect, its pickle, and a word that the message must contain. */
typedef struct malformed {
    const char *name, *pickle;
    size_t size;
    const char *word;
} malformed;

#define ROW(NAME, PICKLE, WORD)                                                                    \
    { NAME, PICKLE, sizeof(PICKLE) - 1, WORD }

static void test_malformed_pickles(void) {
    static const malformed rows[] = {
        ROW("a dict that ends before its item does", "\x80\x02}U\x01t", "truncated"),
        ROW("a protocol of the future", "\x80\x09N.", "protocol 9"),
        ROW("an empty stack at the end", "\x80\x02.", "underflow"),
        ROW("an item set without a dict", "\x80\x02s.", "underflow"),
        ROW("an item set without a value", "\x80\x02}U\x01ts.", "underflow"),
        ROW("a tuple without a mark", "\x80\x02t.", "MARK"),
        ROW("an odd number of items for a dict", "\x80\x02}(U\x01tu.", "without a value"),
        ROW("a tuple without a dict", "\x80\x02(N\x85.", "no state dict"),
        ROW("an empty tuple", "\x80\x02(t.", "no state dict"),
        ROW("a tuple of one without the one", "\x80\x02\x85.", "underflow"),
        ROW("a class from an empty stack", "\x80\x02\x93.", "underflow"),
        ROW("a class without a module", "\x80\x02N\x93.", "underflow"),
        ROW("a call with keywords of nothing", "\x80\x02\x92.", "underflow"),
        ROW("a persistent id from an empty stack", "\x80\x02Q.", "underflow"),
        ROW("a long integer without a length", "\x80\x02\x8a", "truncated"),
        ROW("a long integer without its bytes", "\x80\x02\x8a\x04\x01", "truncated"),
        ROW("half of a float", "\x80\x02G\x3f\xf0", "truncated"),
        ROW("half of a frame's length", "\x80\x02\x95\x01\0", "truncated"),
        ROW("a number of one byte and none there", "\x80\x02K", "truncated"),
        ROW("a text without a length", "\x80\x02X\x01", "truncated"),
        ROW("a memo index of one byte and none there", "\x80\x02Nq", "truncated"),
        ROW("a memo read without an index", "\x80\x02Nh", "truncated"),
        ROW("a long integer alone", "\x80\x02(0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff.",
            "no state dict"),
        ROW("a class name without an end",
            "\x80\x02"
            "cwithout an end",
            "truncated"),
        ROW("a tensor twice in a dict", DICT(ONE "sU\x01t" ONE), "duplicate tensor"),
        ROW("a tensor twice by nested names",
            DICT("}U\x01"
                 "a" ONE "ssU\x03t.a" ONE),
            "duplicate tensor"),
        ROW("a NUL in a key", DICT("}X\x01\x00\x00\x00\x00" ONE "s"), "NUL"),
        ROW("a parameter that contains itself",
            DICT("ctorch._utils\n_rebuild_parameter\n]q\x01"
                 "0(h\x01tR"),
            "not supported"),
        ROW("a pair of one", "\x80\x02N(\x85.", "underflow"),
        ROW("a memo that was never written", "\x80\x02h\x05.", "memo 5"),
        ROW("a memo index beyond all memory", "\x80\x02Nr\xff\xff\xff\xff.", "memo index"),
        ROW("a number as text that is none", "\x80\x02I5x\n.", "not a number"),
        ROW("a number as text without digits", "\x80\x02L\n.", "not a number"),
        ROW("a number as text without an end", "\x80\x02I5", "truncated"),
        ROW("a number with a fraction that is none",
            "\x80\x02"
            "F1.5.\n.",
            "not a number"),
        ROW("a memo index as text below 0", "\x80\x02Np-1\n.", "memo index"),
        ROW("a memo index as text never set", "\x80\x02Np1\ng2\n.", "never set"),
        ROW("a text of Python 2 without quotes", "\x80\x02Sab\n.", "without quotes"),
        ROW("a text of Python 2 with one quote", "\x80\x02S'\n.", "without quotes"),
        ROW("a text of Python 2 with two kinds of quotes", "\x80\x02S'a\"\n.", "without quotes"),
        ROW("a text of protocol 0 without an end", "\x80\x02Vab", "truncated"),
        ROW("a storage of protocol 0",
            "\x80\x02P('storage', <class 'torch.FloatStorage'>, '0', 'cpu', 4)\n.",
            "pickle_protocol=0"),
        ROW("a class by the INST opcode", "\x80\x02ios\nsystem\n.", "MARK"),
        ROW("a class that INST would call", "\x80\x02(S'ls'\nios\nsystem\n.", "no state dict"),
        ROW("a class that OBJ would call", "\x80\x02(cos\nsystem\nS'ls'\no.", "no state dict"),
        ROW("OBJ without a class", "\x80\x02(o.", "no class"),
        ROW("OBJ without a mark", "\x80\x02o.", "MARK"),
        ROW("an extension registry's code", "\x80\x02\x82\x01.", "opcode 0x82"),
        ROW("a text of 2 GB", "\x80\x02X\xff\xff\xff\x7f.", "truncated"),
        ROW("a text of negative length", "\x80\x02T\xff\xff\xff\xff.", "truncated"),
        ROW("a text of 2^64 bytes", "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "truncated"),
        ROW("an integer of 2 GB", "\x80\x02\x8b\xff\xff\xff\x7f.", "truncated"),
        ROW("a class without a name", "\x80\x02NN\x93.", "STACK_GLOBAL"),
        ROW("a call without a tuple", "\x80\x02NNR.", "tuple"),
        ROW("an item appended to nothing", "\x80\x02NNa.", "not a list"),
        ROW("an item set in nothing", "\x80\x02NNNs.", "not a dict"),
        ROW("a dict from items that are no pairs",
            "\x80\x02"
            "ccollections\nOrderedDict\n(]Nat\x52.",
            "pairs"),
        ROW("a dict from a list of three",
            "\x80\x02"
            "ccollections\nOrderedDict\n(]](NNNeat\x52.",
            "pairs"),
        ROW("a dict from a tuple of three",
            "\x80\x02"
            "ccollections\nOrderedDict\nNNN\x87\x85\x85R.",
            "pairs"),
        ROW("a dict from a number",
            "\x80\x02"
            "ccollections\nOrderedDict\nK\x05\x85R.",
            "no state dict"),
        ROW("a call of os.system",
            "\x80\x02"
            "cos\nsystem\nU\x09rm -rf xx\x85R.",
            "no state dict"),
        ROW("a storage of a class of one's own",
            DICT(TENSOR(STORAGE("cevil\nThing\n", "K\x04"), "K\x00", "K\x04\x85", "K\x01\x85")),
            "evil.Thing"),
        ROW("a storage of a type that PyTorch lacks",
            DICT(TENSOR(STORAGE("ctorch\nWeirdStorage\n", "K\x04"), "K\x00", "K\x04\x85",
                        "K\x01\x85")),
            "WeirdStorage"),
        ROW("a storage without a class",
            DICT(TENSOR(STORAGE("N", "K\x04"), "K\x00", "K\x04\x85", "K\x01\x85")),
            "storage class"),
        ROW("a storage whose class has no name",
            DICT(TENSOR(STORAGE("ctorch\n\n", "K\x04"), "K\x00", "K\x04\x85", "K\x01\x85")),
            "unknown storage class \"torch.\""),
        ROW("a storage's id that is one word",
            DICT(TENSOR("(U\x07storagetQ", "K\x00", "K\x04\x85", "K\x01\x85")),
            "unknown storage class \"(none)\""),
        ROW("a storage's id without a key",
            DICT(
                TENSOR("(U\x07storagectorch\nFloatStorage\ntQ", "K\x00", "K\x04\x85", "K\x01\x85")),
            "no usable key"),
        ROW("a storage whose key is a number",
            DICT(TENSOR("(U\x07storagectorch\nFloatStorage\nK\x00U\x03"
                        "cpuK\x04NtQ",
                        "K\x00", "K\x04\x85", "K\x01\x85")),
            "no usable key"),
        ROW("a storage whose key has 201 letters",
            DICT(TENSOR("(U\x07storagectorch\nFloatStorage\nU\xc9" LETTERS_200 "0U\x03"
                        "cpuK\x04NtQ",
                        "K\x00", "K\x04\x85", "K\x01\x85")),
            "no usable key"),
        ROW("a storage of 2^62 elements",
            DICT(TENSOR(
                STORAGE("ctorch\nFloatStorage\n", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x3f"),
                "K\x00", "K\x04\x85", "K\x01\x85")),
            "no usable size"),
        ROW("a storage of a negative size",
            DICT(TENSOR(STORAGE("ctorch\nFloatStorage\n", "J\xff\xff\xff\xff"), "K\x00",
                        "K\x04\x85", "K\x01\x85")),
            "size"),
        ROW("a storage larger than its entry",
            DICT(TENSOR(STORAGE("ctorch\nFloatStorage\n", "K\x05"), "K\x00", "K\x04\x85",
                        "K\x01\x85")),
            "5 elements"),
        ROW("a storage that is not in the archive",
            DICT(TENSOR("(U\x07storage"
                        "ctorch\nFloatStorage\nU\x01"
                        "9U\x03"
                        "cpuK\x04NtQ",
                        "K\x00", "K\x04\x85", "K\x01\x85")),
            "missing"),
        ROW("a persistent id that is no storage",
            DICT(TENSOR("(U\x06module"
                        "ctorch\nFloatStorage\nU\x01"
                        "0NtQ",
                        "K\x00", "K\x04\x85", "K\x01\x85")),
            "storage"),
        ROW("a tensor without a storage", DICT(TENSOR("N", "K\x00", "K\x04\x85", "K\x01\x85")),
            "storage"),
        ROW("a tensor that begins too late",
            DICT(TENSOR(FLOATS, "K\x01", "K\x04\x85", "K\x01\x85")), "reaches beyond"),
        ROW("a tensor with more rows than its storage",
            DICT(TENSOR(FLOATS, "K\x00", "K\x02K\x03\x86", "K\x02K\x01\x86")), "reaches beyond"),
        ROW("a tensor of 2^59 elements",
            DICT(TENSOR(FLOATS, "K\x00", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x07\x85",
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x07\x85")),
            "reaches beyond"),
        ROW("a stride of 2^63",
            DICT(TENSOR(FLOATS, "K\x00", "K\x02\x85",
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85")),
            "reaches beyond"),
        ROW("an expanded tensor of 2^63 elements",
            DICT(TENSOR(FLOATS, "K\x00", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85",
                        "K\x00\x85")),
            "overflow"),
        ROW("two strides whose sum is beyond 2^64",
            DICT(TENSOR(FLOATS, "K\x00", "K\x03K\x03\x86",
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86")),
            "reaches beyond"),
        ROW("a stride that goes beyond 2^64 by itself, and then another",
            DICT(TENSOR(FLOATS, "K\x00", "K\x05K\x02\x86",
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x01\x86")),
            "reaches beyond"),
        ROW("a stride below zero along a dimension of one",
            DICT(TENSOR(FLOATS, "K\x00", "K\x01\x85", "J\xff\xff\xff\xff\x85")), "negative stride"),
        ROW("a stride below zero",
            DICT(TENSOR(FLOATS, "K\x00", "K\x04\x85", "J\xff\xff\xff\xff\x85")), "negative stride"),
        ROW("a dimension below zero",
            DICT(TENSOR(FLOATS, "K\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85")),
            "negative dimension"),
        ROW("an offset below zero",
            DICT(TENSOR(FLOATS, "J\xff\xff\xff\xff", "K\x02\x85", "K\x01\x85")), "offset"),
        ROW("an offset that is None", DICT(TENSOR(FLOATS, "N", "K\x02\x85", "K\x01\x85")),
            "offset"),
        ROW("an offset of 2^62",
            DICT(TENSOR(FLOATS, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x3f", "K\x02\x85",
                        "K\x01\x85")),
            "bad storage offset"),
        ROW("a tensor that is its storage alone", DICT(REBUILD "(" FLOATS "tR"),
            "no storage offset"),
        ROW("a tensor without sizes", DICT(REBUILD "(" FLOATS "K\x00tR"), "do not match"),
        ROW("a tensor without strides", DICT(REBUILD "(" FLOATS "K\x00)tR"), "do not match"),
        ROW("sizes that are a dict", DICT(TENSOR(FLOATS, "K\x00", "}", ")")), "do not match"),
        ROW("strides that are a dict", DICT(TENSOR(FLOATS, "K\x00", ")", "}")), "do not match"),
        ROW("sizes by torch.Size of nothing",
            DICT(TENSOR(FLOATS, "K\x00", "ctorch\nSize\n)R", ")")), "do not match"),
        ROW("strides that are None", DICT(TENSOR(FLOATS, "K\x00", "K\x04\x85", "N\x85")),
            "integers"),
        ROW("a type of numbers that PyTorch lacks", DICT(TYPED("float33")), "unknown dtype"),
        ROW("a parameter without arguments", DICT("ctorch._utils\n_rebuild_parameter\n)R"),
            "built by \"(unknown)\""),
        ROW("a parameter of what a tuple was called for",
            DICT("ctorch._utils\n_rebuild_parameter\n)"
                 ")R\x85R"),
            "built by \"(unknown)\""),
        ROW("a subclass that is built by itself",
            DICT(SUBCLASS "(" SUBCLASS "N]q\x01(" SUBCLASS "Nh\x01"
                          "etR"),
            "nested deeper than 64"),
        ROW("what a tuple was called for, with a storage", DICT(")(" FLOATS "tR"),
            "built by \"(unknown)\""),
        ROW("a storage in a list for a function of one's own",
            DICT("cevil\nrebuild\n]" FLOATS "a\x85R"), "evil.rebuild"),
        ROW("a storage in a call for a function of one's own",
            DICT("cevil\nrebuild\n"
                 "cevil\nf\n" FLOATS "\x85R\x85R"),
            "evil.rebuild"),
        ROW("a call in a call, and no storage",
            DICT("cevil\nrebuild\n"
                 "cevil\nf\n)R\x85R"),
            "no state dict"),
        ROW("a list in itself for a function of one's own",
            DICT("cevil\nrebuild\n]q\x01h\x01"
                 "a\x85R"),
            "no state dict"),
        ROW("a module of TorchScript without a state", DICT("c__torch__\nM\n)\x81"),
            "no state dict"),
        ROW("a module of TorchScript whose state is a number",
            DICT("c__torch__\nM\n)\x81K\x01"
                 "b"),
            "no state dict"),
        ROW("half of a module", DICT("cmy\nM\n)\x81}U\x08_modules}sb"), "no state dict"),
        ROW("a module whose state is None", DICT("cmy\nM\n)\x81Nb"), "no state dict"),
        ROW("no strides", DICT(TENSOR(FLOATS, "K\x00", "K\x04\x85", ")")), "do not match"),
        ROW("neither sizes nor strides", DICT(TENSOR(FLOATS, "K\x00", "N", "N")), "do not match"),
        ROW("sizes that are None", DICT(TENSOR(FLOATS, "K\x00", "N\x85", "N\x85")), "integers"),
        ROW("nine dimensions",
            DICT(TENSOR(FLOATS, "K\x00", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t",
                        "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")),
            "dimensions"),
        ROW("a tensor by a function of one's own", DICT("cevil\nrebuild\n(" FLOATS "tR"),
            "evil.rebuild"),
        ROW("a parameter of nothing", DICT("ctorch._utils\n_rebuild_parameter\n(Nt\x52"),
            "not supported"),
        ROW("a subclass by a function of one's own",
            DICT("ctorch._tensor\n_rebuild_from_type_v2\n(cevil\nf\nNN}tR"), "evil.f"),
        ROW("a tensor without arguments", DICT("ctorch._utils\n_rebuild_tensor_v2\n)R"), "storage"),
        ROW("a dict without tensors",
            "\x80\x02}(U\x01"
            "aN"
            "U\x01"
            "bK\x01u.",
            "no state dict"),
    };
    bytes p = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(&p, rows[i].pickle, rows[i].size);
        check_pickle_refused(rows[i].name, &p, rows[i].word);
    }
}

#define VIEW(OFFSET, COUNT)                                                                        \
    "(U\x07storagectorch\nFloatStorage\nU\x01"                                                     \
    "0U\x03"                                                                                       \
    "cpuK\x04(U\x01v" OFFSET COUNT "ttQ"
#define WHOLE(STORAGE) TENSOR(STORAGE, "K\x00", "K\x02\x85", "K\x01\x85")

/* Tests defects that only the legacy form can have. */
static void test_malformed_legacy(void) {
    static const malformed rows[] = {
        ROW("a dict without tensors", "\x80\x02}.", "used by no tensor"),
        ROW("a storage of fewer elements than it says",
            DICT(WHOLE(STORAGE("ctorch\nFloatStorage\n", "K\x05"))), "expected 5"),
        ROW("a storage that ends behind the file",
            DICT(WHOLE(STORAGE("ctorch\nDoubleStorage\n", "K\x04"))), "truncated"),
        ROW("one storage of two types",
            DICT(WHOLE(FLOATS) "sU\x01u" WHOLE(STORAGE("ctorch\nIntStorage\n", "K\x03"))),
            "different types"),
        ROW("a view that reaches beyond its storage", DICT(WHOLE(VIEW("K\x03", "K\x02"))),
            "view that reaches beyond"),
        ROW("a tensor that reaches beyond its view", DICT(WHOLE(VIEW("K\x03", "K\x01"))),
            "reaches beyond"),
        ROW("a view without an offset", DICT(WHOLE(VIEW("N", "K\x01"))),
            "view that reaches beyond"),
        ROW("a view without a size", DICT(WHOLE(VIEW("K\x01", "N"))), "view that reaches beyond"),
        ROW("a view that begins inside a number",
            DICT("ctorch._utils\n_rebuild_tensor_v3\n("
                 "(U\x07storagectorch.storage\nUntypedStorage\nU\x01"
                 "0U\x03"
                 "cpuK\x04"
                 "(U\x01vK\x01K\x02ttQK\x00)"
                 ")"
                 "\x89}ctorch\nfloat32\ntR"),
            "bad storage offset"),
        ROW("a storage that the list of keys lacks",
            DICT(WHOLE(FLOATS) "sU\x01u" WHOLE("(U\x07storagectorch\nFloatStorage\nU\x01"
                                               "9U\x03"
                                               "cpuK\x04NtQ")),
            "missing from the list"),
        ROW("no list of keys", GOOD "\x80\x02N.", "not a list of storage keys"),
        ROW("a key that is None", GOOD "\x80\x02]Na.", "not a string"),
        ROW("a pickle that does not end", "\x80\x02N", "pickle"),
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_legacy(&b, rows[i].pickle, rows[i].size, 4);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&b);
    }
}

/* A file in the legacy form begins with pickles of the numbers by which the form is recognised.
 * This test damages the pickles after the first number. */
static void test_malformed_preamble(void) {
    static const malformed rows[] = {
        ROW("a protocol of 1002", "\x80\x02M\xea\x03.\x80\x02}.\x80\x02}.",
            "expected protocol 1001"),
        ROW("a protocol that is None", "\x80\x02N.\x80\x02}.\x80\x02}.", "expected protocol 1001"),
        ROW("nothing behind the protocol", "\x80\x02M\xe9\x03.", "truncated"),
        ROW("no object", "\x80\x02M\xe9\x03.\x80\x02}.", "truncated"),
        ROW("an object that is cut", "\x80\x02M\xe9\x03.\x80\x02}.\x80\x02}", "truncated"),
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(&b, LEGACY_MAGIC, sizeof LEGACY_MAGIC - 1);
        put(&b, rows[i].pickle, rows[i].size);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&b);
    }
}

/* Tests values that PyTorch rarely writes. The pickles are made by hand, and each contains one
 * tensor "t". */
static void test_rare_pickles(void) {
    static const struct {
        const char *pickle;
        size_t size;
        int count;
        double first;
    } rows[] = {
#define RARE(PICKLE, COUNT, FIRST) { PICKLE, sizeof(PICKLE) - 1, COUNT, FIRST }
        RARE(GOOD, 4, 2.0),
        RARE(DICT("ctorch._utils\n_rebuild_tensor\n(" FLOATS "K\x02K\x02\x85K\x01\x85tR"), 4, 3.0),
        RARE(DICT(TYPED("float32")), 16, 2.0),
        RARE(DICT(TYPED("uint8")), 16, 0.0),
        RARE(DICT(TYPED("bfloat16")), 16, 1.0),
        RARE(DICT(TENSOR(LAST_TWO, "K\x01", "K\x01\x85", "K\x01\x85")), 4, 4.0),
        RARE("\x80\x02"
             "ccollections\nOrderedDict\n(]]U\x01ta" TENSOR(FLOATS, "K\x00", ")", ")") "aatR.",
             4, 1.0),
        RARE("\x80\x02"
             "ccollections\nOrderedDict\nU\x01t" ONE "\x86\x85\x85R.",
             4, 1.0),
        RARE("\x80\x02"
             "cmy\nDict\n)\x81U\x01t" TENSOR(FLOATS, "K\x03", ")", ")") "s}b.",
             4, 4.0),
        RARE(DICT(TENSOR("(U\x07storagectorch\nFloatStorage\nU\x01"
                         "0U\x03"
                         "cpuK\x04NlQ",
                         "K\x02", ")", ")")),
             4, 3.0), /* the id is a list */
        RARE(DICT(TENSOR(FLOATS, "K\x01",
                         "]K\x02"
                         "a",
                         "]K\x01"
                         "a")),
             4, 2.0),
        RARE(DICT(TENSOR(FLOATS, "\x8a\x00", ")", ")")), 4, 1.0),       /* no bytes mean 0 */
        RARE("(dVt\n" TENSOR(FLOATS, "I2\n", "(t", "(t") "s.", 4, 3.0), /* protocol 0 */
        RARE("(dS\"\\x74\"\n" TENSOR(FLOATS, "L3L\n", "(t", "(t") "s.", 4, 4.0),
        RARE("}V\\u0074\n" TENSOR(FLOATS, "I1\np7\n0g7\n", "(t", "(t") "s.", 4, 2.0),
        RARE(DICT(ONE "sF-1e-5\nI5\nsL99999999999999999999L\nI00\nsS'\\n\\q\\'\\x1'\nVx\xe9\n"), 4,
             1.0),
        RARE(DICT(ONE "sU\x01o(imy\nOld\n}bsU\x01p(cmy\nOld\nK\x01o}b"), 4, 1.0),
        RARE(DICT(ONE "sU\x01s\x8f(K\x01\x90"), 4, 1.0), /* a set beside the tensor */
        RARE(DICT(ONE "sU\x01k"
                      "cmy\nf\n)}\x92"),
             4, 1.0),                                       /* a call with keywords */
        RARE(DICT(ONE "sU\x01m(U\x06moduleNNNtQ"), 4, 1.0), /* the source of a class */
        RARE(DICT(ONE "sU\x01q"
                      "ctorch._utils\n_rebuild_qtensor\n(" FLOATS "tR"),
             4, 1.0),
        RARE(DICT(ONE "sU\x01q"
                      "ctorch._utils\n_rebuild_sparse_tensor\n(" FLOATS "tR"),
             4, 1.0)
#undef RARE
    };
    report r = report_make();
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = { 0 };
        checkpoint *c;
        float value = -1.0f;
        bool ok;
        make_legacy(&b, rows[i].pickle, rows[i].size, (uint64_t)rows[i].count);
        ok = checkpoint_open_memory("rare", b.data, b.size, &c, &r);
        ok = ok && checkpoint_find(c, "t") &&
             checkpoint_read(c, checkpoint_find(c, "t"), 0, 1, &value, &r);
        CHECK_MSG(ok && (double)value == rows[i].first, "row %lu: %g %s", (unsigned long)i,
                  (double)value, r.text);
        checkpoint_close(c);
        discard(&b);
    }
}

/* Tests which dict of a file is read as the model, and the names of its tensors. */
static void test_choices(void) {
    static const struct {
        const char *pickle;
        size_t size;
        const char *wrapper, *name;
    } rows[] = {
#define CHOICE(PICKLE, WRAPPER, NAME) { PICKLE, sizeof(PICKLE) - 1, WRAPPER, NAME }
        CHOICE(DICT(ONE), "", "t"),
        CHOICE(DICT("}U\x01"
                    "a" ONE "s"),
               "t", "a"),
        CHOICE(DICT("}U\x01"
                    "a" ONE "ssU\x09optimizer}U\x01"
                    "b" ONE "s"),
               "t", "a"),
        CHOICE(DICT("}U\x01"
                    "a" ONE "ssU\x01u}U\x01"
                    "b" ONE "s"),
               "", "u.b"),
        CHOICE(DICT("}K\x05}U\x01w" ONE "ssU\x01"
                    "b" ONE "s"),
               "t", "5.w"),
        CHOICE(DICT("NsU\x09model_emaNsU\x05model}U\x01"
                    "a" ONE "s"),
               "model", "a"),
        CHOICE(DICT(ONE "sU\x05model}"), "", "t"),
        CHOICE(DICT("ccollections\ndefaultdict\n(cbuiltins\nlist\ntRU\x01"
                    "a" ONE "s"),
               "t", "a"),
        CHOICE(DICT(TENSOR(FLOATS, "K\x00", "ctorch\nSize\n(K\x02\x85tR", "K\x01\x85")), "", "t"),
        CHOICE("\x80\x02" ONE ".", "", "tensor")
#undef CHOICE
    };
    report r = report_make();
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = { 0 };
        checkpoint *c;
        bool ok;
        make_torch_zip(&b, rows[i].pickle, rows[i].size);
        ok = checkpoint_open_memory("choice", b.data, b.size, &c, &r);
        CHECK_MSG(ok && strcmp(checkpoint_wrapper(c), rows[i].wrapper) == 0 &&
                      checkpoint_find(c, rows[i].name),
                  "row %lu: %s, %s %s", (unsigned long)i, r.text, ok ? checkpoint_wrapper(c) : "",
                  ok ? checkpoint_tensor(c, 0)->name : "");
        checkpoint_close(c);
        discard(&b);
    }
}

/* Tests class names that the file stores beside the state dict. The expected text is empty if there
 * are no usable names. */
static void test_labels(void) {
#define BESIDE(ENTRY)                                                                              \
    DICT("}U\x01"                                                                                  \
         "a" ONE "s"                                                                               \
         "s" ENTRY)
#define CAT                                                                                        \
    "U\x03"                                                                                        \
    "cat"
#define DOG                                                                                        \
    "U\x03"                                                                                        \
    "dog"
    static const struct {
        const char *pickle;
        size_t size;
        const char *labels;
    } rows[] = {
#define LABELS(ENTRY, EXPECTED) { BESIDE(ENTRY), sizeof BESIDE(ENTRY) - 1, EXPECTED }
        LABELS("U\x0b"
               "class_names](" DOG CAT "e",
               "dog,cat,"),
        LABELS("U\x07"
               "classes" CAT DOG "\x86",
               "cat,dog,"),
        LABELS("U\x0c"
               "class_to_idx}(" DOG "K\x01" CAT "K\0u",
               "cat,dog,"),
        LABELS("U\x0c"
               "idx_to_class}(K\x01" CAT "K\0" DOG "u",
               "dog,cat,"),
        LABELS("U\x09label_map}(U\x01"
               "1" DOG "U\x01"
               "0" CAT "u",
               "cat,dog,"),
        LABELS("U\x04"
               "args}U\x07"
               "classes](" DOG "es",
               "dog,"),
        LABELS("U\x07"
               "classes](" CAT "esU\x06labels](" DOG "e",
               "cat,"),
        LABELS("U\x07"
               "classesK\x02",
               ""),
        LABELS("U\x07"
               "classes]",
               ""),
        LABELS("U\x07"
               "classes](" CAT "K\x01"
               "e",
               ""),
        LABELS("U\x07"
               "classes](U\x03"
               "a\nbe",
               ""),
        LABELS("U\x0c"
               "class_to_idx}(" DOG "K\x01" CAT "K\x01u",
               ""),
        LABELS("U\x0c"
               "class_to_idx}(" DOG "K\x01" CAT "K\x02u",
               ""),
        LABELS("U\x0c"
               "class_to_idx}(" DOG "J\xff\xff\xff\xff" CAT "K\0u",
               ""),
        LABELS("U\x0c"
               "class_to_idx}(" DOG CAT "u",
               ""),
        LABELS("U\x05words](" DOG CAT "e", "")
#undef LABELS
    };
    report r = report_make();
    size_t i, k;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        char labels[64] = "";
        bytes b = { 0 };
        checkpoint *c;
        bool ok;
        make_torch_zip(&b, rows[i].pickle, rows[i].size);
        ok = checkpoint_open_memory("labels", b.data, b.size, &c, &r);
        for (k = 0; ok && k < checkpoint_label_count(c); k++) {
            strcat(labels, checkpoint_labels(c)[k]);
            strcat(labels, ",");
        }
        CHECK_MSG(ok && strcmp(labels, rows[i].labels) == 0, "row %lu: %s %s", (unsigned long)i,
                  r.text, labels);
        checkpoint_close(c);
        discard(&b);
    }
}

#define OBJECT(STATE) "cmy\nObject\n)\x81" STATE "b"
#define HALF          "G\x3f\xe0\0\0\0\0\0\0"

/* Tests settings that the file stores beside the state dict, or in a namespace beside it. */
static void test_metadata(void) {
    static const char pickle[] =
        "\x80\x02}(U\x05model}U\x01"
        "a" ONE "s"
        "U\x04"
        "flag\x88"
        "U\x03off\x89"
        "U\x01nK\x05"
        "U\x01x" HALF "U\x01sU\x04text"
        "U\x04noneN"
        "K\x07K\x01"
        "U\x03net" OBJECT("}(U\x08_modules}U\x0b_parameters}U\x01zK\x01u") "U\x32" LETTERS_50
            OBJECT("}U\x01zK\x01s") "U\x40" LETTERS_50 LETTERS_14 OBJECT(
                "}U\x01zK\x01s") "U\x04"
                                 "args" OBJECT("}(U\x02lr" HALF "U\x05inner" OBJECT(
                                     "}U\x01zK\x01s") "u") "U\x03odd" OBJECT("N") "u.";
    static const struct {
        const char *key, *value;
    } rows[] = {
        { "flag", "true" }, { "off", "false" },       { "n", "5" },         { "x", "0.5" },
        { "s", "text" },    { LETTERS_50 ".z", "1" }, { "args.lr", "0.5" },
    };
    report r = report_make();
    bytes b = { 0 };
    checkpoint *c;
    size_t i;
    make_torch_zip(&b, pickle, sizeof pickle - 1);
    CHECK_MSG(checkpoint_open_memory("metadata", b.data, b.size, &c, &r), "%s", r.text);
    for (i = 0; c && i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(strcmp(metadata(c, rows[i].key), rows[i].value) == 0, "%s: %s", rows[i].key,
                  metadata(c, rows[i].key));
    CHECK(c && checkpoint_metadata_count(c) == sizeof rows / sizeof *rows);
    CHECK(c && checkpoint_metadata(c, sizeof rows / sizeof *rows) == NULL);
    checkpoint_close(c);
    discard(&b);
}

/* A tensor with strides is read from a span of its storage. This span may overlap the span of the
 * next tensor. */
static void test_spans(void) {
    static const char pickle[] = DICT(
        TENSOR(FLOATS, "K\x00", "K\x02\x85",
               "K\x02\x85") "s"
                            "U\x01u" TENSOR(FLOATS, "K\x01", "K\x02\x85",
                                            "K\x02\x85") "s"
                                                         "U\x01v" TENSOR(FLOATS, "K\x00",
                                                                         "K\x02\x85", "K\x03\x85"));
    static const struct {
        const char *name;
        float first, second;
    } rows[] = {
        { "t", 1, 3 }, { "u", 2, 4 }, { "t", 1, 3 }, { "v", 1, 4 }, { "u", 2, 4 },
    };
    report r = report_make();
    float values[2] = { 0, 0 };
    bytes b = { 0 };
    checkpoint *c;
    size_t i;
    make_torch_zip(&b, pickle, sizeof pickle - 1);
    CHECK_MSG(checkpoint_open_memory("spans", b.data, b.size, &c, &r), "%s", r.text);
    for (i = 0; c && i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(checkpoint_read(c, checkpoint_find(c, rows[i].name), 0, 2, values, &r) &&
                      values[0] >= rows[i].first && values[0] <= rows[i].first &&
                      values[1] >= rows[i].second && values[1] <= rows[i].second,
                  "row %lu: %s", (unsigned long)i, r.text);
    checkpoint_close(c);
    discard(&b);
}

#define WRAPS_ITSELF                                                                               \
    "\x80\x02}q\x01U\x05"                                                                          \
    "modelh\x01sU\x01t" TENSOR(FLOATS, "K\x00", ")", ")") "s."

/* Tests small inputs that would take much memory or time if the reader copied values or had
 * unlimited recursion. */
static void test_pickle_bombs(void) {
    bytes p = { 0 };
    int i;
    put_text(&p, "\x80\x02}"); /* Each level contains the level below twice. */
    for (i = 0; i < 60; i++)
        put_text(&p, "2\x86"
                     "0}U\x01"
                     "a}sU\x01"
                     "b}s");
    put_text(&p, ".");
    check_pickle_refused("pairs", &p, "");
    put_text(&p, "\x80\x02}q");
    put(&p, "\0", 1);
    for (i = 0; i < 50; i++) { /* Each level is {a: x, b: x}, where x is a memoised value. */
        uint8_t name = (uint8_t)i, next = (uint8_t)(i + 1);
        put_text(&p, "}q");
        put(&p, &next, 1);
        put_text(&p, "U\x01"
                     "ah");
        put(&p, &name, 1);
        put_text(&p, "sU\x01"
                     "bh");
        put(&p, &name, 1);
        put_text(&p, "s");
    }
    put_text(&p, ".");
    check_pickle_refused("memo bomb", &p, "values to visit");
    put_text(&p, "\x80\x02N");
    for (i = 0; i < 1000; i++) put_text(&p, "\x85");
    put_text(&p, ".");
    check_pickle_refused("deep tuples", &p, "nested deeper");
    put_text(&p, "\x80\x02");
    for (i = 0; i < 1000; i++) put_text(&p, "(");
    put_text(&p, ".");
    check_pickle_refused("deep marks", &p, "nested deeper");
    put_text(&p, "\x80\x02}q\x01U\x01"
                 "ah\x01s."); /* This dict contains itself. */
    check_pickle_refused("cycle", &p, "nested deeper");
    put_text(&p, "\x80\x02]q\x01");
    for (i = 0; i < 100; i++)
        put_text(&p, "h\x01"
                     "a");
    put_text(&p, ".");
    check_pickle_refused("cyclic list", &p, "nested deeper");
    put(&p, WRAPS_ITSELF, sizeof WRAPS_ITSELF - 1);
    check_pickle_refused("dict that wraps itself", &p, "nested deeper");
    put_text(&p, "\x80\x02");
    for (i = 0; i < 1100000; i++) put_text(&p, ")");
    put_text(&p, ".");
    check_pickle_refused("a million values", &p, "values");
    put_text(&p, "\x80\x02");
    for (i = 0; i < 300; i++) { /* Texts of more than 64 KiB are skipped. */
        static const char zeros[70000];
        put_text(&p, "X");
        put_number(&p, sizeof zeros, 4);
        put(&p, zeros, sizeof zeros);
        put_text(&p, "0");
    }
    put_text(&p, "N.");
    check_pickle_refused("long texts", &p, "no state dict");
}

static void repeat(bytes *b, const char *text, size_t count) {
    while (count-- > 0) put_text(b, text);
}

/* Tests each way in which a value can contain another value, just beyond the accepted depth. */
static void test_deep_pickles(void) {
    static const struct {
        const char *name, *before;
        int levels;
        const char *after;
    } rows[] = {
        { "a tuple of it", "", 64, "\x85" },
        { "a tuple from a mark on", "(", 64, "t" },
        { "a list to which it is appended", "]", 64, "a" },
        { "a list that it extends", "](", 64, "e" },
        { "a dict's item",
          "}U\x01"
          "a",
          64, "s" },
        { "the arguments of a call", "cmy\nf\n", 64, "R" },
        { "what is called", "", 64, ")R" },
        { "an object's state", "cmy\nf\n)R", 64, "b" },
        { "a persistent id", "", 64, "Q" },
        { "an item of a dict of another class",
          "cmy\nf\n)RU\x01"
          "a",
          64, "s" },
        { "a dict of another class with a deep item",
          "cmy\nf\n)RU\x01"
          "a",
          63, "s" },
    };
    bytes p = { 0 };
    size_t i;
    int level;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_text(&p, "\x80\x02");
        put_text(&p, rows[i].before);
        put_text(&p, "N");
        for (level = 0; level < rows[i].levels; level++) put_text(&p, "\x85");
        put_text(&p, rows[i].after);
        put_text(&p, ".");
        check_pickle_refused(rows[i].name, &p, "nested deeper");
    }
    put_text(&p, "\x80\x02");
    repeat(&p,
           "}U\x01"
           "a",
           60);
    put_text(&p, "N");
    repeat(&p, "s", 60);
    put_text(&p, ".");
    check_pickle_refused("60 dicts, all of which are searched", &p, "no state dict");
}

static void put_long_text(bytes *b, size_t size) {
    put_text(b, "X");
    put_number(b, size, 4);
    repeat(b, "x", size);
}

/* Tests names that are longer than any name in PyTorch. */
static void test_long_names(void) {
    bytes p = { 0 };
    put_text(&p, "\x80\x02"
                 "c");
    repeat(&p, "x", 600);
    check_pickle_refused("a class's name without an end", &p, "without an end");
    put_text(&p, "\x80\x02");
    put_long_text(&p, 600);
    put_text(&p, "U\x01"
                 "f\x93.");
    check_pickle_refused("a module of 600 letters", &p, "two short strings");
    put_text(&p, "\x80\x02U\x01m");
    put_long_text(&p, 600);
    put_text(&p, "\x93.");
    check_pickle_refused("a class of 600 letters", &p, "two short strings");
    put_text(&p, "\x80\x02U\x01mN\x93.");
    p.data[p.size - 3] = 'N';
    check_pickle_refused("a class whose name is None", &p, "two short strings");
    put_text(&p, "\x80\x02}");
    put_long_text(&p, 1100);
    put(&p, ONE "s.", sizeof ONE "s." - 1);
    check_pickle_refused("a tensor's name of 1100 letters", &p, "too long");
}

/* Writes a namespace of 400,000 settings, and stores it as memo 2. Then writes a dict that contains
 * the model once and the namespace twice. */
static void put_settings(bytes *p) {
    static const char model[] = "}(U\x05model}U\x01"
                                "a" ONE "sU\x01xh\x02U\x01yh\x02u";
    put_text(p, "\x80\x02Nq\x01"
                "0"
                "cmy\nObject\n)\x81}(");
    repeat(p, "h\x01h\x01", 400000);
    put_text(p, "ubq\x02"
                "0");
    put(p, model, sizeof model - 1);
}

/* The reader visits only a limited number of values. The test makes the reader reach the limit at
 * each kind of value. */
static void test_steps(void) {
    bytes p = { 0 };
    int i;
    put_settings(&p);
    put_text(&p, "(");
    repeat(&p, "h\x01h\x01", 400000);
    put_text(&p, "u.");
    check_pickle_refused("a million settings", &p, "values to visit");
    put_settings(&p);
    put_text(&p, "U\x01zh\x02s.");
    check_pickle_refused("a million settings in namespaces", &p, "values to visit");
    put(&p, "\x80\x02}q\0", 5);
    for (i = 0; i < 30; i++) {
        const uint8_t name = (uint8_t)i, next = (uint8_t)(i + 1);
        put_text(&p, "}q");
        put(&p, &next, 1);
        put_text(&p, "(U\x01"
                     "ah");
        put(&p, &name, 1);
        put_text(&p, "U\x01"
                     "bh");
        put(&p, &name, 1);
        put_text(&p, "u");
    }
    put_text(&p, "}U\x01t");
    put(&p, ONE, sizeof ONE - 1);
    put_text(&p, "sU\x01zh\x1es.");
    check_pickle_refused("dicts in dicts beside a tensor", &p, "values to visit");
    put_text(&p, "\x80\x02}U\x01t"
                 "cevil\nf\n]q\x01");
    repeat(&p,
           "h\x01"
           "a",
           60);
    put_text(&p, "\x85Rs.");
    check_pickle_refused("a list in itself for a function", &p, "values to visit");
    put_text(&p, "\x80\x02N");
    repeat(&p, "2", 1000000);
    put_text(&p, ".");
    check_pickle_refused("a value a million times on the stack", &p, "stack overflow");
    put_text(&p, "\x80\x02");
    repeat(&p, "N0", 8000001);
    put_text(&p, ".");
    check_pickle_refused("sixteen million opcodes", &p, "opcodes");
}

/* === Malformed zip files === */

#define PICKLE_ENTRY                                                                               \
    { "a/data.pkl", GOOD, sizeof GOOD - 1, 0, 0, 0, 0, 0 }
#define DATA_ENTRY                                                                                 \
    { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }

static void check_zip_refused(const char *what, const zip_spec *specs, size_t count,
                              const char *word) {
    bytes b = { 0 };
    make_zip(&b, specs, count);
    check_refused(what, b.data, b.size, word);
    discard(&b);
}

static void test_malformed_zips(void) {
    static const zip_spec good_zip[] = { PICKLE_ENTRY, DATA_ENTRY };
    static const struct {
        const char *name;
        zip_spec second;
        const char *word;
    } rows[] = {
        { "an entry whose checksum differs",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 1, 0, 0 },
          "CRC" },
        { "an encrypted entry", { "a/data/0", FOUR_FLOATS, 16, 0, 1, 0, 0, 0 }, "encrypted" },
        { "an entry with strong encryption",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0x40, 0, 0, 0 },
          "encrypted" },
        { "an entry compressed by bzip2",
          { "a/data/0", FOUR_FLOATS, 16, 12, 0, 0, 0, 0 },
          "method 12" },
        { "a stored entry of two sizes",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 99, 0 },
          "two sizes" },
        { "an entry that inflates further than deflate can",
          { "a/data/0", FOUR_FLOATS, 16, 8, 0, 0, 99999999, 0 },
          "inflate" },
        { "an entry that does not inflate",
          { "a/data/0", FOUR_FLOATS, 16, 8, 0, 0, 16, 0 },
          "inflate" },
        { "a storage of 15 bytes for 16",
          { "a/data/0", FOUR_FLOATS, 15, 0, 0, 0, 0, 0 },
          "15 bytes" },
        { "no storage", { "a/data/1", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "missing" },
        { "two entries of one name",
          { "a/data.pkl", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 },
          "duplicate" },
        { "two pickles", { "b/data.pkl", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "two entries" },
        { "a local header one byte off",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 1 },
          "local header" },
        { "a local header behind the directory",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 1000000 },
          "after the directory" },
        { "a line break in an entry's name",
          { "a\n", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 },
          "bad name" },
        { "an entry without a name", { "", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "bad name" },
        { "a byte order whose checksum differs",
          { "a/byteorder", "little", 6, 0, 0, 1, 0, 0 },
          "CRC" },
        { "a byte order of 13 letters",
          { "a/byteorder", "little endian", 13, 0, 0, 0, 0, 0 },
          "byteorder" },
        { "a byte order of its own", { "a/byteorder", "middle", 6, 0, 0, 0, 0, 0 }, "byteorder" },
    };
    bytes b = { 0 };
    size_t i;
    make_zip(&b, good_zip, 2);
    check_accepted("hand-made zip", b.data, b.size);
    put(&b, "x", 1);
    check_refused("a byte behind the end", b.data, b.size, "zip");
    discard(&b);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        zip_spec specs[2] = { PICKLE_ENTRY, DATA_ENTRY };
        specs[1] = rows[i].second;
        check_zip_refused(rows[i].name, specs, 2, rows[i].word);
    }
    {
        static const uint8_t zeros[110000];
        zip_spec specs[2] = { { "a/data.pkl", zeros, 9000, 8, 0, 0, 9000000, 0 }, DATA_ENTRY };
        const zip_spec large = { "a/data/0", zeros, sizeof zeros, 8, 0, 0, 100 << 20, 0 };
        check_zip_refused("a pickle that inflates to 9 MB", specs, 2, "at most");
        specs[0] = good_zip[0];
        specs[1] = large;
        check_zip_refused("a storage that inflates to 100 MB", specs, 2, "bytes more than stored");
    }
    check_zip_refused("no pickle", good_zip + 1, 1, "data.pkl");
    check_zip_refused("an empty archive", good_zip, 0, "data.pkl");
}

static void put_patch(bytes *b, size_t at, uint64_t number, size_t width) {
    size_t i;
    for (i = 0; i < width; i++) b->data[at + i] = (uint8_t)(number >> 8 * i);
}

/* Changes one or two fields of a record in a valid archive. The record is the last one of its kind
 * (1: directory entry, 5: end of the directory). */
static void test_zip_fields(void) {
    static const zip_spec good_zip[] = { PICKLE_ENTRY, DATA_ENTRY };
    static const struct {
        const char *name;
        uint8_t kind;
        struct {
            size_t at, width;
            uint64_t value;
        } fields[3];
        const char *word;
    } rows[] = {
        { "an archive's second disk", 5, { { 4, 2, 1 } }, "several disks" },
        { "a directory on the second disk", 5, { { 6, 2, 1 } }, "several disks" },
        { "a directory in two parts", 5, { { 8, 2, 1 } }, "several disks" },
        { "an entry on the second disk", 1, { { 34, 2, 1 } }, "several disks" },
        { "a directory that ends before its end", 5, { { 16, 4, 1 } }, "must end at byte" },
        { "a directory larger than the file", 5, { { 12, 4, 99999 } }, "must end at byte" },
        { "more entries than the directory can hold", 5, { { 8, 2, 900 }, { 10, 2, 900 } }, "fit" },
        { "fewer entries than the directory holds",
          5,
          { { 8, 2, 1 }, { 10, 2, 1 } },
          "after its last entry" },
        { "a size in a zip64 field that is not there", 1, { { 24, 4, UINT32_MAX } }, "missing" },
        { "a deflated entry that takes 2 GiB",
          1,
          { { 10, 2, 8 }, { 20, 4, 0x7FFFFFFA }, { 24, 4, 0x7FFFFFFA } },
          "2 GiB" },
        { "a deflated entry that holds 2 GiB",
          1,
          { { 10, 2, 8 }, { 20, 4, 0x7FFFFF00 }, { 24, 4, 0x80000000 } },
          "2 GiB" },
        { "a deflated entry of sizes that its local header lacks",
          1,
          { { 10, 2, 8 }, { 20, 4, 0x4000000 }, { 24, 4, 0x7000000 } },
          "local header" },
    };
    bytes b = { 0 };
    size_t i, f, at;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t mark[4] = { 'P', 'K', rows[i].kind, (uint8_t)(rows[i].kind + 1) };
        make_zip(&b, good_zip, 2);
        for (at = b.size - 4; memcmp(b.data + at, mark, 4) != 0; at--) {}
        for (f = 0; f < 3; f++)
            put_patch(&b, at + rows[i].fields[f].at, rows[i].fields[f].value,
                      rows[i].fields[f].width);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&b);
    }
    put(&b, "PK\3\4", 4);
    repeat(&b, "0123456789abcdef", 17 << 16);
    put(&b, "PK\5\6\0\0\0\0\1\0\1\0", 12);
    put_number(&b, (17 << 20) + 4, 4);
    put(&b, "\0\0\0\0\0\0", 6);
    check_refused("a directory of 17 MB", b.data, b.size, "bytes of directory");
    discard(&b);
}

/* Tests two directory entries that point to the same bytes, as in a zip bomb. */
static void test_overlapping_zip(void) {
    static const zip_spec inner[] = { DATA_ENTRY };
    zip_spec specs[2] = { PICKLE_ENTRY, DATA_ENTRY };
    bytes b = { 0 }, nested = { 0 };
    make_zip(&nested, inner, 1); /* This archive becomes the data of the first entry. */
    specs[0].data = nested.data;
    specs[0].size = nested.size;
    /* The second directory entry points to the local header inside these data. */
    specs[1].move = -(int32_t)nested.size - 0;
    specs[1].name = "a/data/0";
    make_zip(&b, specs, 2);
    check_refused("overlap", b.data, b.size, "overlap");
    discard(&b);
    discard(&nested);
}

/* Sets each field of the zip64 records to a wrong value in turn. */
static void test_zip64_fields(const char *folder) {
    static const struct {
        size_t from_end, width;
        uint64_t value;
    } rows[] = {
        { 22 + 20 - 4, 4, 1 },
        { 22 + 20 - 8, 8, 0 },
        { 22 + 20 - 8, 8, UINT64_MAX },
        { 98, 4, 0 },
        { 98 - 4, 8, UINT64_MAX },
        { 98 - 16, 4, 7 },
        { 98 - 24, 8, UINT64_MAX },
        { 98 - 32, 8, UINT64_MAX },
        { 98 - 32, 8, 3 },
        { 98 - 40, 8, UINT64_MAX },
        { 98 - 40, 8, 100 },
        { 98 - 48, 8, UINT64_MAX },
        { 98 - 48, 8, 64 },
    };
    static const struct {
        uint64_t count;
        const char *word;
    } counts[] = {
        { 1000, "fit" },
        { 100001, "more than" },
    };
    bytes b, copy = { 0 };
    size_t i;
    CHECK(load(&b, folder, "zip64.pt"));
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        put(&copy, b.data, b.size);
        put_patch(&copy, b.size - 98 + 24, counts[i].count, 8);
        put_patch(&copy, b.size - 98 + 32, counts[i].count, 8);
        check_refused("zip64 counts", copy.data, copy.size, counts[i].word);
        put_patch(&copy, b.size - 22 + 8, 5, 2);
        put_patch(&copy, b.size - 22 + 10, 5, 2);
        check_refused("another count in the old record", copy.data, copy.size, "disagree");
        discard(&copy);
    }
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(&copy, b.data, b.size);
        put_patch(&copy, b.size - rows[i].from_end, rows[i].value, rows[i].width);
        check_refused("zip64 field", copy.data, copy.size, "zip");
        discard(&copy);
    }
    discard(&b);
}

/* Tests archives whose pickle lies in different folders, and archives with other entries in the
 * pickle's folder. */
static void test_torch_names(void) {
    static const struct {
        const char *pickle, *data, *third;
        const char *word;
    } rows[] = {
        { "data.pkl", "data/0", "v", NULL },
        { "a/data.pkl", "a/data/0", "xdata.pkl", NULL },
        { "a/b/data.pkl", "a/b/data/0", "a/b/version", NULL },
        { "a/xdata.pkl", "a/data/0", "a/version", "no data.pkl" },
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        zip_spec specs[3] = { PICKLE_ENTRY, DATA_ENTRY, { "", "little", 6, 0, 0, 0, 0, 0 } };
        specs[0].name = rows[i].pickle;
        specs[1].name = rows[i].data;
        specs[2].name = rows[i].third;
        make_zip(&b, specs, 3);
        if (rows[i].word) check_refused(rows[i].pickle, b.data, b.size, rows[i].word);
        else check_accepted(rows[i].pickle, b.data, b.size);
        discard(&b);
    }
    {
        const zip_spec specs[3] = { PICKLE_ENTRY,
                                    DATA_ENTRY,
                                    { "a/byteorder", "little", 6, 0, 0, 0, 0, 0 } };
        make_zip(&b, specs, 3);
        check_accepted("a byte order", b.data, b.size);
        discard(&b);
    }
}

/* === npz === */

/* Makes an .npy file with a header of 128 bytes and `size` bytes of numbers. */
static void make_npy(bytes *b, const char *descr, const char *shape, const void *data,
                     size_t size) {
    char dictionary[64];
    const int length = snprintf(dictionary, sizeof dictionary,
                                "{'descr': '%s', 'fortran_order': "
                                "False, 'shape': %s}",
                                descr, shape);
    put(b, "\x93NUMPY\1\0", 8);
    put_number(b, 118, 2);
    put(b, dictionary, (size_t)length);
    repeat(b, " ", 118 - (size_t)length);
    put(b, data, size);
}

static void make_npz(bytes *b, const bytes *npy, const char *name) {
    zip_spec spec = { NULL, NULL, 0, 0, 0, 0, 0, 0 };
    spec.name = name;
    spec.data = npy->data;
    spec.size = npy->size;
    make_zip(b, &spec, 1);
}

/* Tests entries that are not arrays. Such entries must be left out and reported. */
static void test_npz_skips(void) {
    zip_spec specs[2] = { { "a.npy", NULL, 0, 0, 0, 0, 0, 0 },
                          { "readme", "text", 4, 0, 0, 0, 0, 0 } };
    report r = report_make();
    bytes npy = { 0 }, b = { 0 };
    checkpoint *c;
    make_npy(&npy, "<f4", "(1,)", "\0\0\x80\x3f", 4);
    specs[0].data = npy.data;
    specs[0].size = npy.size;
    make_zip(&b, specs, 2);
    CHECK_MSG(checkpoint_open_memory("npz", b.data, b.size, &c, &r), "%s", r.text);
    CHECK(c && checkpoint_count(c) == 1 && checkpoint_skipped_count(c) == 1 &&
          strcmp(checkpoint_skipped(c, 0)->key, "readme") == 0);
    checkpoint_close(c);
    discard(&npy);
    discard(&b);
}

/* Reads the number 1 in each type that both NumPy and tensors have. */
static void test_npz(void) {
    static const struct {
        const char *descr;
        size_t size;
        const char *one, *dtype;
    } rows[] = {
        { "<f2", 2, "\x00\x3c", "F16" },
        { "<f4", 4, "\0\0\x80\x3f", "F32" },
        { ">f4", 4, "\x3f\x80\0\0", "F32" },
        { "<f8", 8, "\0\0\0\0\0\0\xf0\x3f", "F64" },
        { "|i1", 1, "\1", "I8" },
        { "<i2", 2, "\1\0", "I16" },
        { "<i4", 4, "\1\0\0\0", "I32" },
        { "<i8", 8, "\1\0\0\0\0\0\0\0", "I64" },
        { "|b1", 1, "\1", "BOOL" },
        { "|u1", 1, "\1", "U8" },
        { "|V2", 2, "\x80\x3f", "BF16" },
    };
    report r = report_make();
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes npy = { 0 }, b = { 0 };
        float value = 0;
        checkpoint *c;
        bool ok;
        make_npy(&npy, rows[i].descr, "()", rows[i].one, rows[i].size);
        make_npz(&b, &npy, "a.npy");
        ok = checkpoint_open_memory("npz", b.data, b.size, &c, &r) &&
             checkpoint_read(c, checkpoint_tensor(c, 0), 0, 1, &value, &r);
        CHECK_MSG(ok && (double)value == 1.0 &&
                      !strcmp(checkpoint_dtype_name(checkpoint_tensor(c, 0)->dtype), rows[i].dtype),
                  "%s: %g %s", rows[i].descr, (double)value, r.text);
        checkpoint_close(c);
        discard(&b);
        discard(&npy);
    }
}

static void test_malformed_npz(void) {
    static const struct {
        const char *name, *entry, *descr, *shape, *word;
    } rows[] = {
        { "numbers without a sign", "a.npy", "<u4", "(1,)", "no tensors" },
        { "text", "a.npy", "<U1", "(1,)", "no tensors" },
        { "a shape of more than there is", "a.npy", "<f4", "(2,)", "8 bytes of elements expected" },
        { "a shape without a comma", "a.npy", "<f4", "(1)", "a.npy: damaged" },
        { "a file without a name", ".npy", "<f4", "(1,)", "no tensors" },
    };
    bytes npy = { 0 }, b = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_npy(&npy, rows[i].descr, rows[i].shape, "\0\0\x80\x3f", 4);
        make_npz(&b, &npy, rows[i].entry);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&npy);
        discard(&b);
    }
    put_text(&npy, "no array");
    make_npz(&b, &npy, "a.npy");
    check_refused("another file by the name of an array", b.data, b.size, "not a .npy file");
    discard(&npy);
    discard(&b);
    put(&npy, "\x93NUMPY\1\0\x35\0{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 63);
    put(&npy, "\0\0\x80\x3f", 4);
    make_npz(&b, &npy, "a.npy");
    check_refused("numbers that begin at an odd byte", b.data, b.size,
                  "not a multiple of their size");
    discard(&npy);
    discard(&b);
}

/* === vit.cpp's files === */

/* A file with one label and one tensor. */
typedef struct ggml_spec {
    uint32_t labels, label, label_size, ndim, name_size, type, dims[4];
} ggml_spec;

static void make_ggml(bytes *b, const ggml_spec *s) {
    uint32_t i;
    put_text(b, "lmgg");
    for (i = 0; i < 7; i++) put_number(b, 1, 4);
    put_number(b, s->labels, 4);
    put_number(b, s->label, 4);
    put_number(b, s->label_size, 4);
    repeat(b, "l", s->label_size);
    put_number(b, s->ndim, 4);
    put_number(b, s->name_size, 4);
    put_number(b, s->type, 4);
    for (i = 0; i < s->ndim && i < 4; i++) put_number(b, s->dims[i], 4);
    repeat(b, "n", s->name_size);
    repeat(b, "0123", 9);
}

static void test_malformed_ggml(void) {
    static const struct {
        const char *name;
        ggml_spec spec;
        const char *word;
    } rows[] = {
        { "a million labels", { 1000000, 0, 1, 1, 1, 0, { 9, 0, 0, 0 } }, "at most 100000" },
        { "a label of another class", { 1, 7, 1, 1, 1, 0, { 9, 0, 0, 0 } }, "label 7" },
        { "a label of 1024 bytes", { 1, 0, 1024, 1, 1, 0, { 9, 0, 0, 0 } }, "of 1024 bytes" },
        { "five dimensions", { 1, 0, 1, 5, 1, 0, { 1, 1, 1, 1 } }, "5 dimensions" },
        { "no dimension", { 1, 0, 1, 0, 1, 0, { 0, 0, 0, 0 } }, "not whole blocks" },
        { "a tensor's name of 1025 bytes", { 1, 0, 1, 1, 1025, 0, { 9, 0, 0, 0 } }, "1025 bytes" },
        { "a tensor without a name", { 1, 0, 1, 1, 0, 0, { 9, 0, 0, 0 } }, "name is empty" },
        { "a type of numbers that ggml no longer has",
          { 1, 0, 1, 1, 1, 4, { 9, 0, 0, 0 } },
          "ggml type 4" },
        { "rows of half a block", { 1, 0, 1, 1, 1, 8, { 16, 0, 0, 0 } }, "blocks of 32" },
        { "2^64 numbers", { 1, 0, 1, 2, 1, 0, { UINT32_MAX, UINT32_MAX, 0, 0 } }, "too large" },
        { "2^72 numbers", { 1, 0, 1, 3, 1, 0, { UINT32_MAX, 256, UINT32_MAX, 0 } }, "too large" },
        { "more numbers than there are", { 1, 0, 1, 1, 1, 0, { 10, 0, 0, 0 } }, "ends inside" },
        { "a number behind the last tensor", { 1, 0, 1, 1, 1, 0, { 8, 0, 0, 0 } }, "truncated" },
    };
    const ggml_spec good_spec = { 1, 0, 1, 1, 1, 0, { 9, 0, 0, 0 } };
    bytes b = { 0 };
    size_t i;
    make_ggml(&b, &good_spec);
    check_accepted("hand-made file of vit.cpp", b.data, b.size);
    b.data[b.size - 37] = '\0'; /* This byte is the name, before nine f32. */
    check_refused("a tensor's name that is a NUL", b.data, b.size, "contains a NUL");
    discard(&b);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_ggml(&b, &rows[i].spec);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&b);
    }
}

/* === GGUF === */

/* Compares the values of blocks of each type with the expected values from make_checkpoints.py. */
static void test_gguf_types(const char *folder) {
    static const int64_t steps[] = { 1, 7, 300, 1000 };
    static const struct {
        const char *key, *value;
    } pairs[] = {
        { "a.u8", "255" },
        { "a.i8", "-1" },
        { "a.u16", "65535" },
        { "a.i16", "-2" },
        { "a.i32", "-3" },
        { "a.f32", "0.1" },
        { "a.tiny", "1e-05" },
        { "a.bool", "true" },
        { "a.text", "abc" },
        { "a.u64", "18446744073709551615" },
        { "a.i64", "-9223372036854775808" },
        { "a.f64", "-0.25" },
        { "a.floats", "(0.5, 0.48145467, -1)" },
        { "a.long", "" },
    };
    checkpoint *c = open_fixture(folder, "types.gguf");
    checkpoint *twin = open_fixture(folder, "types.safetensors");
    float expected[1024] = { 0 };
    uint8_t stored[sizeof expected];
    report r = report_make();
    size_t i, s;
    CHECK(c && twin && checkpoint_count(c) == 11 && checkpoint_count(twin) == 11);
    for (i = 0; c && twin && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        const checkpoint_tensor_info *other = checkpoint_find(twin, t->name);
        CHECK(other && other->count == t->count && t->count <= 1024);
        CHECK(other && checkpoint_read(twin, other, 0, t->count, expected, &r));
        bytes_store_floats(stored, expected, 1024);
        for (s = 0; other && s < sizeof steps / sizeof *steps; s++)
            CHECK_MSG(same_values(c, t, steps[s], stored, &r), "%s", t->name);
    }
    for (i = 0; c && i < sizeof pairs / sizeof *pairs; i++)
        CHECK_MSG(strcmp(metadata(c, pairs[i].key), pairs[i].value) == 0, "%s: %s", pairs[i].key,
                  metadata(c, pairs[i].key));
    checkpoint_close(c);
    checkpoint_close(twin);
}

/* A file with one key and value, two tensors and 64 f32; `offset` is where the second begins. */
typedef struct gguf_spec {
    uint64_t version, tensors, pairs, key_size, value_type, items, text_size;
    uint64_t ndim, dims[4], type, offset;
    const char *key;
} gguf_spec;

static void make_gguf(bytes *b, const gguf_spec *s) {
    uint64_t i;
    put_text(b, "GGUF");
    put_number(b, s->version, 4);
    put_number(b, s->tensors, 8);
    put_number(b, s->pairs, 8);
    put_number(b, s->key_size ? s->key_size : strlen(s->key), 8);
    put_text(b, s->key);
    put_number(b, s->value_type, 4);
    /* An array has the element type text_size, or consists of texts if text_size is 0. */
    if (s->value_type == 9) {
        put_number(b, s->text_size ? s->text_size : 8, 4);
        put_number(b, s->items, 8);
    } else if (s->value_type == 8) {
        put_number(b, s->text_size, 8);
    } else {
        put_number(b, s->items, 4);
    }
    for (i = 0; i < 2; i++) {
        put_number(b, 1, 8);
        put_number(b, 'a' + i, 1);
        put_number(b, s->ndim, 4);
        put_number(b, s->dims[0], 8);
        if (s->ndim > 1) put_number(b, s->dims[1], 8);
        put_number(b, s->type, 4);
        put_number(b, i == 0 ? 0 : s->offset, 8);
    }
    while (b->size % 32) put_number(b, 0, 1);
    repeat(b, "0123", 64);
}

static void test_malformed_gguf(void) {
    static const char alignment[] = "general.alignment";
    const gguf_spec right = { 3, 2, 1, 0, 4, 32, 0, 1, { 32 }, 0, 128, alignment };
    static const struct {
        const char *name;
        /* The offset of the changed field in gguf_spec. */
        size_t field;
        uint64_t value;
        const char *word;
    } rows[] = {
#define FIELD(name) offsetof(gguf_spec, name)
        { "version 1", FIELD(version), 1, "expected version 2 or 3, little-endian, found 1" },
        { "version 4", FIELD(version), 4, "found 4" },
        { "big-endian", FIELD(version), 3 << 24, "found 50331648" },
        { "a tensor too many", FIELD(tensors), 3, "ends inside its header" },
        { "32769 tensors", FIELD(tensors), 32769, "more than 32768 tensors" },
        { "no tensors", FIELD(tensors), 0, "no tensors" },
        { "65537 pairs", FIELD(pairs), 65537, "65537 key-value pairs" },
        { "2^64 - 1 pairs", FIELD(pairs), UINT64_MAX, "pairs" },
        { "a pair too many", FIELD(pairs), 2, "a tensor's name is empty" },
        { "a key of no bytes in front of others", FIELD(key_size), 1, "type" },
        { "a key of 2^63 bytes", FIELD(key_size), (uint64_t)1 << 63, "ends inside its header" },
        { "a key of 1100 bytes", FIELD(key_size), 1100, "ends inside its header" },
        { "a key of 300 bytes", FIELD(key_size), 300, "a key is empty, too long" },
        { "a value of type 13", FIELD(value_type), 13, "a value of type 13" },
        { "a value of type 2^32 - 1", FIELD(value_type), UINT32_MAX, "a value of type" },
        { "no alignment", FIELD(items), 0, "expected a power of two up to 65536, found 0" },
        { "three as alignment", FIELD(items), 3, "expected a power of two up to 65536, found 3" },
        { "2^17 as alignment", FIELD(items), 1 << 17, "expected a power of two up to 65536" },
        { "five dimensions", FIELD(ndim), 5, "5 dimensions" },
        { "no dimension", FIELD(ndim), 0, "type 32" },
        { "2^63 rows", FIELD(dims), (uint64_t)1 << 63, "too large" },
        { "2^50 rows", FIELD(dims), (uint64_t)1 << 50, "too large" },
        { "2^40 rows", FIELD(dims), (uint64_t)1 << 40, "ends inside this tensor" },
        { "more numbers than there are", FIELD(dims), 33, "begin at byte 128, expected 160" },
        { "a type that ggml no longer has", FIELD(type), 4, "a: type 4 (Q4_2) cannot be read" },
        { "a type of two bits", FIELD(type), 10, "a: type 10 (Q2_K) cannot be read" },
        { "a type of tables", FIELD(type), 16, "a: type 16 (IQ2_XXS) cannot be read" },
        { "integers", FIELD(type), 26, "a: type 26 (I32) cannot be read" },
        { "a type of the future", FIELD(type), 99, "a: type 99 (a newer one) cannot be read" },
        { "rows of an eighth of a block", FIELD(type), 12, "blocks of 256" },
        { "two tensors in one place", FIELD(offset), 0,
          "b: the data begin at byte 0, expected 128" },
        { "a hole between tensors", FIELD(offset), 160, "b: the data begin at byte 160" },
        { "an offset of 2^64 - 32", FIELD(offset), UINT64_MAX - 31, "b: the data begin at" },
    };
    gguf_spec spec = right;
    bytes b = { 0 };
    size_t i;
    make_gguf(&b, &right);
    check_accepted("hand-made GGUF", b.data, b.size);
    check_refused("a last tensor without its end", b.data, b.size - 1, "inside its last tensor");
    discard(&b);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec = right;
        memcpy((char *)&spec + rows[i].field, &rows[i].value, sizeof rows[i].value);
        make_gguf(&b, &spec);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&b);
    }
    spec = right;
    spec.value_type = 8;
    spec.text_size = UINT64_MAX;
    make_gguf(&b, &spec);
    check_refused("a text of 2^64 - 1 bytes", b.data, b.size, "ends inside its header");
    discard(&b);
    spec.value_type = 9;
    spec.text_size = 0;
    spec.items = 3 << 20;
    make_gguf(&b, &spec);
    check_refused("an array of 3 million texts", b.data, b.size, "more than 2097152 strings");
    discard(&b);
    spec.text_size = 9;
    make_gguf(&b, &spec);
    check_refused("an array of arrays", b.data, b.size, "an array of type 9");
    discard(&b);
    spec.text_size = 10;
    spec.items = (uint64_t)1 << 61;
    make_gguf(&b, &spec);
    check_refused("an array of 2^64 bytes", b.data, b.size, "ends inside its header");
    discard(&b);
}

/* === Shards in a folder of their own === */

static char made[] = "/tmp/vit_checkpoint_XXXXXX";

static const char *made_path(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", made, name);
    return path;
}

static void write_made(const char *name, const bytes *b) {
    FILE *file = fopen(made_path(name), "wb");
    CHECK(file && fwrite(b->data, 1, b->size, file) == b->size && fclose(file) == 0);
}

/* Writes an index and opens it. The index must be accepted if `word` is NULL. If `word` is not
 * NULL, the index must be refused with a message that contains the word. */
static void check_index(const char *what, const bytes *text, const char *word) {
    report r = report_make();
    checkpoint *c;
    bool ok;
    write_made("index.json", text);
    ok = checkpoint_open(made_path("index.json"), &c, &r);
    CHECK_MSG(word ? !ok && strstr(r.text, word) : ok, "%s: %s", what, r.text);
    checkpoint_close(c);
    unlink(made_path("index.json"));
}

/* Tests an index with more than 1,000 shards, which must be refused. All shards are links to one
 * file. */
static void test_many_shards(void) {
    bytes text = { 0 };
    char name[40];
    int i;
    put_text(&text, "{\"weight_map\":{");
    for (i = 0; i < 1001; i++) {
        snprintf(name, sizeof name, "%s\"%d\":\"link%d\"", i ? "," : "", i, i);
        put_text(&text, name);
        snprintf(name, sizeof name, "link%d", i);
        CHECK(symlink("shard", made_path(name)) == 0);
    }
    put_text(&text, "}}");
    check_index("1001 shards", &text, "more than 1000 shards");
    discard(&text);
    for (i = 0; i < 1001; i++) {
        snprintf(name, sizeof name, "link%d", i);
        unlink(made_path(name));
    }
}

static void test_made_shards(void) {
    static const char shard[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                "\"x\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[4,6]},"
                                "\"y\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[6,8]}}";
    static const struct {
        const char *name, *map, *word;
    } rows[] = {
        { "what cannot be read is listed too", "{\"a\":\"shard\",\"x\":\"shard\",\"y\":\"shard\"}",
          NULL },
        { "what is nowhere", "{\"a\":\"shard\",\"b\":\"shard\"}", "is in no shard" },
        { "a hidden file", "{\"a\":\".shard\"}", "plain file name" },
        { "another system's folder", "{\"a\":\"..\\\\shard\"}", "plain file name" },
        { "a folder by a backslash", "{\"a\":\"a\\\\shard\"}", "plain file name" },
        { "two dots in a name", "{\"a\":\"a..shard\"}", "plain file name" },
        { "a name of nothing", "{\"a\":\"\"}", "plain file name" },
        { "a name of 300 bytes", "{\"a\":\"" LETTERS_200 LETTERS_50 LETTERS_50 "\"}",
          "plain file name" },
        { "a list of shards", "[\"shard\"]", "without a \"weight_map\"" },
    };
    bytes b = { 0 };
    size_t i;
    CHECK(mkdtemp(made) != NULL);
    make_safetensors(&b, shard, 8);
    write_made("shard", &b);
    discard(&b);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_text(&b, "{\"weight_map\":");
        put_text(&b, rows[i].map);
        put_text(&b, "}");
        check_index(rows[i].name, &b, rows[i].word);
        discard(&b);
    }
    put_text(&b, "{");
    repeat(&b, "                ", 33 << 16);
    check_index("an index of 33 MB", &b, "JSON of more than");
    discard(&b);
    test_many_shards();
    unlink(made_path("shard"));
    CHECK(rmdir(made) == 0);
}

/* === Limits === */

static void make_many_tensors(bytes *b, int count) {
    bytes header = { 0 };
    char entry[100];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(entry, sizeof entry,
                 "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[0],"
                 "\"data_offsets\":[0,0]}",
                 i ? ',' : '{', i);
        put_text(&header, entry);
    }
    put(&header, "}", 2);
    make_safetensors(b, (const char *)header.data, 0);
    discard(&header);
}

/* Tests a file with too much metadata. Entries that are too long must be left out, and so must
 * entries beyond the first 1,000. */
static void test_much_metadata(void) {
    char entry[40];
    report r = report_make();
    bytes header = { 0 }, b = { 0 };
    checkpoint *c;
    int i;
    put_text(&header, "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                      "\"__metadata__\":{\"");
    repeat(&header, "k", 1025);
    put_text(&header, "\":\"a long key\",\"long\":\"");
    repeat(&header, "v", 65537);
    put_text(&header, "\"");
    for (i = 0; i < 1001; i++) {
        snprintf(entry, sizeof entry, ",\"%d\":\"%d\"", i, i);
        put_text(&header, entry);
    }
    put(&header, "}}", 3);
    make_safetensors(&b, (const char *)header.data, 0);
    CHECK_MSG(checkpoint_open_memory("metadata", b.data, b.size, &c, &r), "%s", r.text);
    CHECK(c && checkpoint_metadata_count(c) == 1000 && !strcmp(metadata(c, "999"), "999"));
    checkpoint_close(c);
    discard(&header);
    discard(&b);
}

static void test_limits(void) {
    static const int counts[] = { 32769, 65537 };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        make_many_tensors(&b, counts[i]);
        check_refused("too many tensors", b.data, b.size, "more than 32768 tensors");
        discard(&b);
    }
    make_many_tensors(&b, 32768);
    check_accepted("as many tensors as there may be", b.data, b.size);
    discard(&b);
    test_much_metadata();
}

/* Tests a file with a damaged weight in a stored entry. Opening and reading must succeed, but
 * verifying must fail. */
static void test_verify(const char *folder) {
    report r = report_make();
    checkpoint *c;
    bytes b;
    size_t i;
    CHECK(load(&b, folder, "small_zip.pt"));
    for (i = 0; i + 16 < b.size && memcmp(b.data + i, "\0\0\x80\x3f\0\0\0\x40", 8) != 0; i++) {}
    b.data[i] ^= 1;
    CHECK_MSG(checkpoint_open_memory("damaged", b.data, b.size, &c, &r), "%s", r.text);
    CHECK_MSG(c && !checkpoint_verify(c, &r) && strstr(r.text, "CRC"), "%s", r.text);
    checkpoint_close(c);
    discard(&b);
}

/* Tests the CRC of short inputs and of long inputs, which have separate code. */
static void test_crc(void) {
    uint8_t data[10007];
    uint32_t pieces = 0;
    size_t i;
    for (i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i >> 3);
    for (i = 0; i < sizeof data; i++) pieces = crc32_add(pieces, data + i, 1);
    CHECK(crc32_add(0, data, sizeof data) == pieces);
    CHECK(crc32_add(0, "123456789", 9) == 0xCBF43926);
}

int main(int count, char **arguments) {
    char folder[512];
    snprintf(folder, sizeof folder, "%s/checkpoints", count > 1 ? arguments[1] : "tests/data");
    test_crc();
    test_good_fixtures(folder);
    test_details(folder);
    test_refused_fixtures(folder);
    test_unknown_containers();
    test_malformed_safetensors();
    test_safetensors_lengths();
    test_bad_shards(folder);
    test_malformed_pickles();
    test_malformed_legacy();
    test_malformed_preamble();
    test_rare_pickles();
    test_choices();
    test_labels();
    test_metadata();
    test_spans();
    test_pickle_bombs();
    test_deep_pickles();
    test_long_names();
    test_steps();
    test_malformed_zips();
    test_zip_fields();
    test_overlapping_zip();
    test_torch_names();
    test_npz();
    test_npz_skips();
    test_malformed_npz();
    test_malformed_ggml();
    test_gguf_types(folder);
    test_malformed_gguf();
    test_made_shards();
    test_limits();
    test_zip64_fields(folder);
    test_verify(folder);
    test_tiny_files();
    test_truncated(folder);
    test_flipped(folder);
    return test_summary();
}
