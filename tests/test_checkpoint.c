/* test_checkpoint.c - the checkpoint readers: every fixture exactly, then everything broken.
 *
 *     test_checkpoint [tests/data]
 *
 * The fixtures come from tests/make_checkpoints.py. Links with tools/{base,json,inflate,zip,
 * pickle,safetensors,torch_file,checkpoint,checkpoint_read}.c. Each broken input must be refused
 * with a message that contains the word given beside it; sweeps over all positions must neither
 * crash nor (under sanitizers) touch memory that is not theirs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint.h"
#include "inflate.h"
#include "json.h"
#include "test.h"

/* === Growing byte strings, to build files by hand === */

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = (b->size + size) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data) abort();
    }
    if (size > 0) memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put_number(bytes *b, uint64_t number, size_t width)
{
    uint8_t raw[8];
    size_t i;
    for (i = 0; i < width; i++) raw[i] = (uint8_t)(number >> 8 * i);
    put(b, raw, width);
}

static void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

static void discard(bytes *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

static bool load(bytes *b, const char *folder, const char *name)
{
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

/* === Opening what may be broken === */

/* Opens, reads and verifies everything; false if any of it was refused. The copy has exactly the
 * size of the file, so that ASan sees a read beyond its end. */
static bool open_and_read(const uint8_t *data, size_t size, char error[CHECKPOINT_ERROR_SIZE])
{
    checkpoint *c;
    float values[64];
    size_t i;
    bool ok;
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, data, size);
    ok = checkpoint_open_memory("test", exact, size, &c, error, CHECKPOINT_ERROR_SIZE);
    for (i = 0; ok && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        int64_t count = t->count < 64 ? t->count : 64;
        ok = checkpoint_read(c, t, 0, count, values, error, CHECKPOINT_ERROR_SIZE)
          && checkpoint_read(c, t, t->count - count, count, values, error, CHECKPOINT_ERROR_SIZE);
    }
    ok = ok && checkpoint_verify(c, error, CHECKPOINT_ERROR_SIZE);
    checkpoint_close(c);
    free(exact);
    return ok;
}

/* The input must be refused, quickly, with a message that contains the word. */
static void check_refused(const char *what, const uint8_t *data, size_t size, const char *word)
{
    char error[CHECKPOINT_ERROR_SIZE] = "";
    clock_t start = clock();
    bool ok = open_and_read(data, size, error);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK_MSG(!ok && strstr(error, word) != NULL && seconds < 5, "%s: \"%s\" expected, got %s "
              "\"%s\" in %.1f s", what, word, ok ? "success" : "error", error, seconds);
}

static void check_accepted(const char *what, const uint8_t *data, size_t size)
{
    char error[CHECKPOINT_ERROR_SIZE] = "";
    CHECK_MSG(open_and_read(data, size, error), "%s: %s", what, error);
}

/* === Fixtures that must read exactly === */

typedef struct expectation {
    bytes json_text, values;
    json_document json;
} expectation;

static bool load_expectation(expectation *e, const char *folder)
{
    char error[CHECKPOINT_ERROR_SIZE];
    report r = report_make(error, sizeof error, "expected.json");
    if (!load(&e->json_text, folder, "expected.json") || !load(&e->values, folder, "expected.bin"))
        return false;
    put(&e->json_text, "", 1);
    return json_parse(&e->json, (char *)e->json_text.data, e->json_text.size - 1, true, 0, &r);
}

static bool same_float(float a, const uint8_t *expected)
{
    uint32_t bits = base_load32(expected), got;
    float b;
    memcpy(&b, &bits, sizeof b);
    memcpy(&got, &a, sizeof got);
    return got == bits || (a != a && b != b);
}

static bool same_shape(const checkpoint_tensor_info *t, const json_value *row)
{
    const json_value *dim = json_first(json_get(row, "shape"));
    int i;
    for (i = 0; i < t->ndim; i++, dim = dim->next)
        if (!dim || json_integer(dim, -1) != t->dims[i]) return false;
    return !dim && strcmp(t->name, json_string(json_get(row, "name"), "")) == 0
        && strcmp(checkpoint_dtype_name(t->dtype), json_string(json_get(row, "dtype"), "")) == 0;
}

/* Reads in pieces of `step` elements and compares with the values at `at`. */
static bool same_values(checkpoint *c, const checkpoint_tensor_info *t, int64_t step,
                        const uint8_t *at, char *error)
{
    float values[64];
    int64_t first, i;
    for (first = 0; first < t->count; first += step) {
        int64_t count = t->count - first < step ? t->count - first : step;
        if (!checkpoint_read(c, t, first, count, values, error, CHECKPOINT_ERROR_SIZE))
            return false;
        for (i = 0; i < count; i++)
            if (!same_float(values[i], at + 4 * (first + i))) return false;
    }
    return true;
}

/* By name: shards may hold the tensors in another order. */
static void check_contents(checkpoint *c, const char *name, const expectation *e)
{
    static const int64_t steps[] = { 64, 1, 5 };
    char error[CHECKPOINT_ERROR_SIZE] = "";
    const json_value *row;
    size_t at = 0, s;
    CHECK_MSG(checkpoint_count(c) == e->json.root->count, "%s: %lu tensors", name,
              (unsigned long)checkpoint_count(c));
    for (row = json_first(e->json.root); row; row = row->next) {
        const char *tensor = json_string(json_get(row, "name"), "");
        const checkpoint_tensor_info *t = checkpoint_find(c, tensor);
        bool ok = t && same_shape(t, row);
        for (s = 0; ok && s < 3; s++) ok = same_values(c, t, steps[s], e->values.data + at, error);
        CHECK_MSG(ok, "%s: %s %s", name, tensor, error);
        at += t ? 4 * (size_t)t->count : 0;
    }
    CHECK_MSG(at == e->values.size, "%s: %lu bytes of values", name, (unsigned long)at);
    CHECK_MSG(checkpoint_verify(c, error, sizeof error), "%s", error);
}

static const struct { const char *name, *kind, *wrapper; } good[] = {
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
    { "shards", "safetensors", "" }
};

static void test_good_fixtures(const char *folder)
{
    expectation e;
    char path[1024], error[CHECKPOINT_ERROR_SIZE];
    checkpoint *c;
    size_t i;
    CHECK(load_expectation(&e, folder));
    for (i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, good[i].name);
        if (!checkpoint_open(path, &c, error, sizeof error)) {
            CHECK_MSG(0, "%s", error);
            continue;
        }
        CHECK_MSG(strcmp(checkpoint_kind(c), good[i].kind) == 0, "%s", checkpoint_kind(c));
        CHECK_MSG(strcmp(checkpoint_wrapper(c), good[i].wrapper) == 0, "%s",
                  checkpoint_wrapper(c));
        check_contents(c, good[i].name, &e);
        checkpoint_close(c);
    }
    json_free(&e.json);
    discard(&e.json_text);
    discard(&e.values);
}

static const char *metadata(const checkpoint *c, const char *key)
{
    size_t i;
    for (i = 0; i < checkpoint_metadata_count(c); i++)
        if (strcmp(checkpoint_metadata(c, i)->key, key) == 0)
            return checkpoint_metadata(c, i)->value;
    return "";
}

static checkpoint *open_fixture(const char *folder, const char *name)
{
    char path[1024], error[CHECKPOINT_ERROR_SIZE];
    checkpoint *c;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_MSG(checkpoint_open(path, &c, error, sizeof error), "%s", error);
    return c;
}

static void test_details(const char *folder)
{
    char error[CHECKPOINT_ERROR_SIZE];
    float values[4] = { 0 };
    checkpoint *c = open_fixture(folder, "wrapped.pt");
    if (c) {
        CHECK(strcmp(metadata(c, "epoch"), "3") == 0);
        CHECK(strcmp(metadata(c, "args.arch"), "vit_tiny") == 0);
        CHECK(strcmp(metadata(c, "args.lr"), "0.5") == 0);
        CHECK(checkpoint_find(c, "no such tensor") == NULL);
        CHECK(checkpoint_tensor(c, checkpoint_count(c)) == NULL);
        CHECK(checkpoint_file_count(c) == 1 && checkpoint_file(c, 0)->size > 1000);
        CHECK(!checkpoint_read(c, checkpoint_tensor(c, 0), 5, 2, values, error, sizeof error)
              && strstr(error, "asked"));
        checkpoint_close(c);
    }
    c = open_fixture(folder, "model.safetensors");
    CHECK(c && strcmp(metadata(c, "note"), "caf\xC3\xA9 \xF0\x9F\x98\x80") == 0);
    checkpoint_close(c);
    c = open_fixture(folder, "shards");
    CHECK(c && checkpoint_file_count(c) == 3);
    checkpoint_close(c);
    c = open_fixture(folder, "subclass.pt");
    CHECK(c && checkpoint_read(c, checkpoint_find(c, "t"), 0, 3, values, error, sizeof error)
          && values[2] == 9.0f);
    checkpoint_close(c);
    c = open_fixture(folder, "complex.pt");
    CHECK(c && checkpoint_skipped_count(c) == 1
          && strcmp(checkpoint_skipped(c, 0)->key, "freqs") == 0);
    checkpoint_close(c);
    c = open_fixture(folder, "torchscript.pt");
    CHECK(c && strcmp(checkpoint_kind(c), "TorchScript") == 0 && checkpoint_count(c) == 4
          && checkpoint_read(c, checkpoint_find(c, "0.weight"), 0, 2, values, error, sizeof error)
          && values[0] == 3.0f && values[1] == 4.0f);
    checkpoint_close(c);
}

static void test_refused_fixtures(const char *folder)
{
    bytes b;
    char path[1024], error[CHECKPOINT_ERROR_SIZE];
    checkpoint *c;
    CHECK(load(&b, folder, "module.pt"));
    check_refused("module.pt", b.data, b.size, "state_dict()");
    discard(&b);
    CHECK(load(&b, folder, "module_wrapped.pt"));
    check_refused("module_wrapped.pt", b.data, b.size, "state_dict()");
    discard(&b);
    snprintf(path, sizeof path, "%s/..", folder);
    CHECK(!checkpoint_open(path, &c, error, sizeof error) && strstr(error, "folder without"));
    CHECK(!checkpoint_open("/no/such/file", &c, error, sizeof error) && strstr(error, "open"));
}

/* === Sweeps === */

/* No prefix of any fixture may be accepted. */
static void test_truncated(const char *folder)
{
    static const char *const names[] = {
        "zip.pt", "legacy.pt", "legacy_protocol4.pt", "wrapped.pt", "deflate.pt", "zip64.pt",
        "big_endian.pt", "model.safetensors", "small_zip.pt", "small_legacy.pt",
        "small_deflate.pt", "small.safetensors", "torchscript.pt", "../layouts/jax/model.npz"
    };
    char error[CHECKPOINT_ERROR_SIZE];
    size_t i, size;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        bytes b;
        long accepted = 0;
        CHECK(load(&b, folder, names[i]));
        for (size = 0; size < b.size; size++) accepted += open_and_read(b.data, size, error);
        CHECK_MSG(accepted == 0, "%s: %ld prefixes accepted", names[i], accepted);
        check_accepted(names[i], b.data, b.size);
        discard(&b);
    }
}

static void flip_sweep(const char *folder, const char *name, size_t stride)
{
    static const uint8_t masks[] = { 0x01, 0x80, 0xFF, 0x10 };
    char error[CHECKPOINT_ERROR_SIZE];
    bytes b;
    size_t at, m, refused = 0, total = 0;
    clock_t start = clock();
    CHECK(load(&b, folder, name));
    for (at = 0; at < b.size; at += stride) {
        for (m = 0; m < sizeof masks; m++) {
            b.data[at] ^= masks[m];
            refused += !open_and_read(b.data, b.size, error);
            b.data[at] ^= masks[m];
            total++;
        }
    }
    CHECK_MSG(refused > total / 10 && (double)(clock() - start) / CLOCKS_PER_SEC < 60,
              "%s: %lu of %lu refused", name, (unsigned long)refused, (unsigned long)total);
    discard(&b);
}

static void test_flipped(const char *folder)
{
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

static void test_tiny_files(void)
{
    char error[CHECKPOINT_ERROR_SIZE];
    uint8_t data[3] = { 0 };
    long accepted = 0;
    int i;
    accepted += open_and_read(data, 0, error);
    for (i = 0; i < 65536; i++) {
        data[0] = (uint8_t)i;
        data[1] = (uint8_t)(i >> 8);
        data[2] = (uint8_t)(i * 31);
        accepted += open_and_read(data, (size_t)(i % 3) + 1, error);
    }
    CHECK(accepted == 0);
}

/* === Other containers, refused by name === */

static void test_unknown_containers(void)
{
    static const struct { const char *start; size_t size; const char *word; } files[] = {
        { "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16, "GGUF: not supported, only vit.cpp's files of that name; give the checkpoint that" },
        { "lmgg\0\0\0\0\0\0\0\0", 12, "truncated" },
        { "\x89HDF\r\n\x1a\n\0\0\0\0", 12, "HDF5" },
        { "\x93NUMPY\1\0v\0{", 11, "npy" },
        { "\x1f\x8b\x08\0\0\0\0\0\0\0\0", 11, "gzip" },
        { "<!DOCTYPE html><html>", 21, "web page" },
        { "version https://git-lfs.github.com/spec/v1\n", 43, "LFS" },
        { "\x80\x02}q\x00.\0\0\0\0\0\0\0\0", 14, "pickle" },
        { "\x89VIT\r\n\x1a\n\0\0\0\0", 12, "converted" },
        { "{\"model_type\": \"vit\"}", 21, "memory" },
        { "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6", 10, "known container" },
        { "PK\3\4\x14\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0a.npyxxxx", 39, "zip" }
    };
    bytes tar = { 0 };
    size_t i;
    for (i = 0; i < sizeof files / sizeof *files; i++)
        check_refused(files[i].word, (const uint8_t *)files[i].start, files[i].size,
                      files[i].word);
    for (i = 0; i < 257; i++) put(&tar, "s", 1);
    put_text(&tar, "ustar  and some more of a header");
    check_refused("tar", tar.data, tar.size, "0.1.10");
    discard(&tar);
}

/* === Malformed safetensors === */

static void make_safetensors(bytes *b, const char *header, size_t data_size)
{
    put_number(b, strlen(header), 8);
    put_text(b, header);
    while (data_size-- > 0) put(b, "\x3f", 1);
}

static void test_malformed_safetensors(void)
{
    static const struct { const char *name, *header; size_t data; const char *word; } files[] = {
        { "two tensors that share half of their bytes",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "overlap" },
        { "two tensors of the same bytes",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "overlap" },
        { "a hole between two tensors",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "hole" },
        { "a hole before the first tensor",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole" },
        { "a tensor listed twice",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "duplicate" },
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
          "\"data_offsets\":[0,0]}}", 0, "overflow" },
        { "offsets that begin below zero",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets" },
        { "offsets that end before they begin",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets" },
        { "three offsets",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "data_offsets" },
        { "no offsets",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets" },
        { "offsets that are no integers",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.0,4.0]}}", 4,
          "data_offsets" },
        { "a shape that needs more bytes than the offsets hold",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "need 8" },
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
        { "no type",
          "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype" },
        { "an entry that is a list",
          "{\"a\":[1]}", 4, "dtype" },
        { "a tensor without a name",
          "{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name" },
        { "a line break in a name",
          "{\"a\\nb\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name" },
        { "metadata that is no text",
          "{\"__metadata__\":{\"a\":1}}", 0, "__metadata__" },
        { "metadata that is no object",
          "{\"__metadata__\":[]}", 0, "__metadata__" },
        { "no tensors",
          "{}", 0, "no tensors" },
        { "text behind the header",
          "{} x", 0, "after the end" },
        { "a header that is a list",
          "[\"a\",\"b\",\"c\"]", 4, "start with '{'" },
        { "a space before the header",
          " {\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "start with '{'" },
        { "a header without its last brace",
          "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", 4, "JSON" }
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        make_safetensors(&b, files[i].header, files[i].data);
        check_refused(files[i].name, b.data, b.size, files[i].word);
        discard(&b);
    }
}

static void test_safetensors_lengths(void)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    static const struct { uint64_t length; const char *word; } lengths[] = {
        { 100000001, "at most" }, { UINT64_MAX, "at most" }, { 5000, "truncated" },
        { 0, "truncated" }, { 20, "JSON" }, { sizeof header, "JSON" }
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
    make_safetensors(&b, "{\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                     "\"e\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[3,3]},"
                     "\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[3,5]},"
                     "\"f\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[5,9]}}   ", 9);
    check_accepted("unaligned and empty tensors", b.data, b.size);
    discard(&b);
}

/* checkpoints/bad_*.index.json: their shards, if any, are the safetensors fixtures beside them. */
static void test_bad_shards(const char *folder)
{
    static const struct { const char *name, *word; } rows[] = {
        { "parent", "plain file name" },     { "absolute", "plain file name" },
        { "dots", "plain file name" },       { "number", "plain file name" },
        { "missing", "open" },               { "empty", "weight_map" },
        { "absent_tensor", "no shard" },     { "unlisted_tensor", "listed" },
        { "itself", "names itself" },        { "nested", "index of shards inside" },
        { "swapped", "is not in" },          { "config", "weight_map" },
        { "truncated", "JSON" }
    };
    char path[1024], error[CHECKPOINT_ERROR_SIZE] = "";
    checkpoint *c;
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(path, sizeof path, "%s/bad_%s.index.json", folder, rows[i].name);
        CHECK_MSG(!checkpoint_open(path, &c, error, sizeof error) && strstr(error, rows[i].word),
                  "%s: %s", rows[i].name, error);
    }
}

/* === Malformed pickles === */

#define FOUR_FLOATS "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40"     /* 1 2 3 4 */

typedef struct zip_spec {
    const char *name;
    const void *data;
    size_t size;
    unsigned method, flags;
    uint32_t crc_xor;
    uint64_t claimed;            /* inflated size in the directory, 0 for the true one */
    int32_t move;                /* added to the local header's offset in the directory */
} zip_spec;

static void put_zip_fields(bytes *b, const zip_spec *s, uint32_t crc)
{
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

static void make_zip(bytes *b, const zip_spec *specs, size_t count)
{
    bytes directory = { 0 };
    size_t i;
    for (i = 0; i < count; i++) {
        uint32_t crc = inflate_crc32(0, specs[i].data, specs[i].size);
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

/* Storage "0" of four floats, and a tensor of it. */
#define STORAGE(CLASS, COUNT) \
    "(U\x07storage" CLASS "U\x01" "0" "U\x03" "cpu" COUNT "NtQ"
#define FLOATS STORAGE("ctorch\nFloatStorage\n", "K\x04")
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define TENSOR(STORAGE, OFFSET, SIZES, STRIDES) \
    REBUILD "(" STORAGE OFFSET SIZES STRIDES "\x89NtR"
#define DICT(VALUE) "\x80\x02}U\x01t" VALUE "s."
#define GOOD DICT(TENSOR(FLOATS, "K\x01", "K\x03\x85", "K\x01\x85"))

/* count: of elements, as the file says; the data are always 16 bytes. */
static void make_legacy(bytes *b, const void *pickle, size_t size, uint64_t count)
{
    static const char magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    static const char rest[] = "\x80\x02M\xe9\x03.\x80\x02}.";
    static const char keys[] = "\x80\x02]U\x01" "0a.";
    put(b, magic, sizeof magic - 1);
    put(b, rest, sizeof rest - 1);
    put(b, pickle, size);
    put(b, keys, sizeof keys - 1);
    put_number(b, count, 8);
    put(b, FOUR_FLOATS, 16);
}

#define ONE TENSOR(FLOATS, "K\x00", ")", ")")

/* The same pickle and storage as a zip. */
static void make_torch_zip(bytes *b, const void *pickle, size_t size)
{
    zip_spec specs[2] = { { "a/data.pkl", NULL, 0, 0, 0, 0, 0, 0 },
                          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 } };
    specs[0].data = pickle;
    specs[0].size = size;
    make_zip(b, specs, 2);
}

static void check_pickle_refused(const char *what, bytes *pickle, const char *word)
{
    bytes b = { 0 };
    make_torch_zip(&b, pickle->data, pickle->size);
    check_refused(what, b.data, b.size, word);
    discard(&b);
    discard(pickle);
}

/* What is wrong, the pickle, and what the message must contain. */
typedef struct malformed {
    const char *name, *pickle;
    size_t size;
    const char *word;
} malformed;

#define ROW(NAME, PICKLE, WORD) { NAME, PICKLE, sizeof(PICKLE) - 1, WORD }

static void test_malformed_pickles(void)
{
    static const malformed rows[] = {
        ROW("a dict that ends before its item does",
            "\x80\x02}U\x01t", "truncated"),
        ROW("a protocol of the future",
            "\x80\x09N.", "protocol 9"),
        ROW("an empty stack at the end",
            "\x80\x02.", "underflow"),
        ROW("an item set without a dict",
            "\x80\x02s.", "underflow"),
        ROW("an item set without a value",
            "\x80\x02}U\x01ts.", "underflow"),
        ROW("a tuple without a mark",
            "\x80\x02t.", "MARK"),
        ROW("an odd number of items for a dict",
            "\x80\x02}(U\x01tu.", "without a value"),
        ROW("a tuple without a dict",
            "\x80\x02(N\x85.", "no state dict"),
        ROW("an empty tuple",
            "\x80\x02(t.", "no state dict"),
        ROW("a long integer alone",
            "\x80\x02(0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff.", "no state dict"),
        ROW("a class name without an end",
            "\x80\x02" "cwithout an end", "truncated"),
        ROW("a tensor twice in a dict",
            DICT(ONE "sU\x01t" ONE), "duplicate tensor"),
        ROW("a tensor twice by nested names",
            DICT("}U\x01" "a" ONE "ssU\x03t.a" ONE), "duplicate tensor"),
        ROW("a NUL in a key",
            DICT("}X\x01\x00\x00\x00\x00" ONE "s"), "NUL"),
        ROW("a parameter that contains itself",
            DICT("ctorch._utils\n_rebuild_parameter\n]q\x01" "0(h\x01tR"), "not supported"),
        ROW("a pair of one",
            "\x80\x02N(\x85.", "underflow"),
        ROW("a memo that was never written",
            "\x80\x02h\x05.", "memo 5"),
        ROW("a memo index beyond all memory",
            "\x80\x02Nr\xff\xff\xff\xff.", "memo index"),
        ROW("a number as text, of protocol 0",
            "\x80\x02I5\n.", "opcode 0x49"),
        ROW("a class by the INST opcode",
            "\x80\x02ios\nsystem\n.", "opcode 0x69"),
        ROW("an extension registry's code",
            "\x80\x02\x82\x01.", "opcode 0x82"),
        ROW("a text of 2 GB",
            "\x80\x02X\xff\xff\xff\x7f.", "truncated"),
        ROW("a text of negative length",
            "\x80\x02T\xff\xff\xff\xff.", "truncated"),
        ROW("a text of 2^64 bytes",
            "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "truncated"),
        ROW("an integer of 2 GB",
            "\x80\x02\x8b\xff\xff\xff\x7f.", "truncated"),
        ROW("a class without a name",
            "\x80\x02NN\x93.", "STACK_GLOBAL"),
        ROW("a call without a tuple",
            "\x80\x02NNR.", "tuple"),
        ROW("an item appended to nothing",
            "\x80\x02NNa.", "not a list"),
        ROW("an item set in nothing",
            "\x80\x02NNNs.", "not a dict"),
        ROW("a dict from items that are no pairs",
            "\x80\x02" "ccollections\nOrderedDict\n(]Nat\x52.", "pairs"),
        ROW("a call of os.system",
            "\x80\x02" "cos\nsystem\nU\x09rm -rf xx\x85R.", "no state dict"),
        ROW("a storage of a class of one's own",
            DICT(TENSOR(STORAGE("cevil\nThing\n", "K\x04"), "K\x00", "K\x04\x85", "K\x01\x85")),
            "evil.Thing"),
        ROW("a storage of a type that PyTorch lacks",
            DICT(TENSOR(STORAGE("ctorch\nWeirdStorage\n", "K\x04"), "K\x00", "K\x04\x85",
                        "K\x01\x85")), "WeirdStorage"),
        ROW("a storage without a class",
            DICT(TENSOR(STORAGE("N", "K\x04"), "K\x00", "K\x04\x85", "K\x01\x85")),
            "storage class"),
        ROW("a storage of a negative size",
            DICT(TENSOR(STORAGE("ctorch\nFloatStorage\n", "J\xff\xff\xff\xff"), "K\x00",
                        "K\x04\x85", "K\x01\x85")), "size"),
        ROW("a storage larger than its entry",
            DICT(TENSOR(STORAGE("ctorch\nFloatStorage\n", "K\x05"), "K\x00", "K\x04\x85",
                        "K\x01\x85")), "5 elements"),
        ROW("a storage that is not in the archive",
            DICT(TENSOR("(U\x07storage" "ctorch\nFloatStorage\nU\x01" "9U\x03" "cpuK\x04NtQ",
                        "K\x00", "K\x04\x85", "K\x01\x85")), "missing"),
        ROW("a persistent id that is no storage",
            DICT(TENSOR("(U\x06module" "ctorch\nFloatStorage\nU\x01" "0NtQ",
                        "K\x00", "K\x04\x85", "K\x01\x85")), "storage"),
        ROW("a tensor without a storage",
            DICT(TENSOR("N", "K\x00", "K\x04\x85", "K\x01\x85")), "storage"),
        ROW("a tensor that begins too late",
            DICT(TENSOR(FLOATS, "K\x01", "K\x04\x85", "K\x01\x85")), "reaches beyond"),
        ROW("a tensor with more rows than its storage",
            DICT(TENSOR(FLOATS, "K\x00", "K\x02K\x03\x86", "K\x02K\x01\x86")), "reaches beyond"),
        ROW("a tensor of 2^59 elements",
            DICT(TENSOR(FLOATS, "K\x00", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x07\x85",
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x07\x85")), "reaches beyond"),
        ROW("a stride of 2^63",
            DICT(TENSOR(FLOATS, "K\x00", "K\x02\x85",
                        "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85")), "reaches beyond"),
        ROW("an expanded tensor of 2^63 elements",
            DICT(TENSOR(FLOATS, "K\x00", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85",
                        "K\x00\x85")), "overflow"),
        ROW("a stride below zero",
            DICT(TENSOR(FLOATS, "K\x00", "K\x04\x85", "J\xff\xff\xff\xff\x85")), "negative stride"),
        ROW("a dimension below zero",
            DICT(TENSOR(FLOATS, "K\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85")),
            "negative dimension"),
        ROW("an offset below zero",
            DICT(TENSOR(FLOATS, "J\xff\xff\xff\xff", "K\x02\x85", "K\x01\x85")), "offset"),
        ROW("an offset that is None",
            DICT(TENSOR(FLOATS, "N", "K\x02\x85", "K\x01\x85")), "offset"),
        ROW("no strides",
            DICT(TENSOR(FLOATS, "K\x00", "K\x04\x85", ")")), "do not match"),
        ROW("neither sizes nor strides",
            DICT(TENSOR(FLOATS, "K\x00", "N", "N")), "do not match"),
        ROW("sizes that are None",
            DICT(TENSOR(FLOATS, "K\x00", "N\x85", "N\x85")), "integers"),
        ROW("nine dimensions",
            DICT(TENSOR(FLOATS, "K\x00", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t",
                        "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")), "dimensions"),
        ROW("a tensor by a function of one's own",
            DICT("cevil\nrebuild\n(" FLOATS "tR"), "evil.rebuild"),
        ROW("a parameter of nothing",
            DICT("ctorch._utils\n_rebuild_parameter\n(Nt\x52"), "not supported"),
        ROW("a subclass by a function of one's own",
            DICT("ctorch._tensor\n_rebuild_from_type_v2\n(cevil\nf\nNN}tR"), "evil.f"),
        ROW("a tensor without arguments",
            DICT("ctorch._utils\n_rebuild_tensor_v2\n)R"), "storage"),
        ROW("a dict without tensors",
            "\x80\x02}(U\x01" "aN" "U\x01" "bK\x01u.", "no state dict")
    };
    bytes p = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(&p, rows[i].pickle, rows[i].size);
        check_pickle_refused(rows[i].name, &p, rows[i].word);
    }
}

#define VIEW(OFFSET, COUNT) \
    "(U\x07storagectorch\nFloatStorage\nU\x01" "0U\x03" "cpuK\x04(U\x01v" OFFSET COUNT "ttQ"
#define WHOLE(STORAGE) TENSOR(STORAGE, "K\x00", "K\x02\x85", "K\x01\x85")

/* What only the legacy form can get wrong. */
static void test_malformed_legacy(void)
{
    static const malformed rows[] = {
        ROW("a dict without tensors",
            "\x80\x02}.", "used by no tensor"),
        ROW("a storage of fewer elements than it says",
            DICT(WHOLE(STORAGE("ctorch\nFloatStorage\n", "K\x05"))), "5 expected"),
        ROW("a storage that ends behind the file",
            DICT(WHOLE(STORAGE("ctorch\nDoubleStorage\n", "K\x04"))), "truncated"),
        ROW("one storage of two types",
            DICT(WHOLE(FLOATS) "sU\x01u" WHOLE(STORAGE("ctorch\nIntStorage\n", "K\x03"))),
            "two types"),
        ROW("a view that reaches beyond its storage",
            DICT(WHOLE(VIEW("K\x03", "K\x02"))), "view beyond"),
        ROW("a tensor that reaches beyond its view",
            DICT(WHOLE(VIEW("K\x03", "K\x01"))), "reaches beyond"),
        ROW("a view without an offset",
            DICT(WHOLE(VIEW("N", "K\x01"))), "view beyond"),
        ROW("a storage that the list of keys lacks",
            DICT(WHOLE(FLOATS) "sU\x01u" WHOLE("(U\x07storagectorch\nFloatStorage\nU\x01" "9U\x03"
                                              "cpuK\x04NtQ")), "missing from the list"),
        ROW("no list of keys",
            GOOD "\x80\x02N.", "no list of storage keys"),
        ROW("a key that is None",
            GOOD "\x80\x02]Na.", "no string"),
        ROW("a pickle that does not end",
            "\x80\x02N", "pickle")
    };
    bytes b = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_legacy(&b, rows[i].pickle, rows[i].size, 4);
        check_refused(rows[i].name, b.data, b.size, rows[i].word);
        discard(&b);
    }
}

#define BYTES STORAGE("ctorch.storage\nUntypedStorage\n", "K\x10")
#define LAST_TWO VIEW("K\x02", "K\x02")
#define TYPED(DTYPE) "ctorch._utils\n_rebuild_tensor_v3\n(" BYTES \
    "K\x01K\x01\x85K\x01\x85\x89}ctorch\n" DTYPE "\ntR"

/* Values that PyTorch writes rarely, built by hand; each holds one tensor "t". */
static void test_rare_pickles(void)
{
    static const struct { const char *pickle; size_t size; int count; double first; } rows[] = {
        { GOOD, sizeof GOOD - 1, 4, 2.0 },
        { DICT("ctorch._utils\n_rebuild_tensor\n(" FLOATS "K\x02K\x02\x85K\x01\x85tR"),
          sizeof DICT("ctorch._utils\n_rebuild_tensor\n(" FLOATS "K\x02K\x02\x85K\x01\x85tR") - 1,
          4, 3.0 },
        { DICT(TYPED("float32")), sizeof DICT(TYPED("float32")) - 1, 16, 2.0 },
        { DICT(TYPED("uint8")), sizeof DICT(TYPED("uint8")) - 1, 16, 0.0 },
        { DICT(TYPED("bfloat16")), sizeof DICT(TYPED("bfloat16")) - 1, 16, 1.0 },
        { DICT(TENSOR(LAST_TWO, "K\x01", "K\x01\x85", "K\x01\x85")),
          sizeof DICT(TENSOR(LAST_TWO, "K\x01", "K\x01\x85", "K\x01\x85")) - 1, 4, 4.0 },
        { "\x80\x02" "ccollections\nOrderedDict\n(]]U\x01ta" TENSOR(FLOATS, "K\x00", ")", ")")
          "aatR.", sizeof("\x80\x02" "ccollections\nOrderedDict\n(]]U\x01ta"
          TENSOR(FLOATS, "K\x00", ")", ")") "aatR.") - 1, 4, 1.0 },
        { "\x80\x02" "cmy\nDict\n)\x81U\x01t" TENSOR(FLOATS, "K\x03", ")", ")") "s}b.",
          sizeof("\x80\x02" "cmy\nDict\n)\x81U\x01t" TENSOR(FLOATS, "K\x03", ")", ")") "s}b.") - 1,
          4, 4.0 }
    };
    char error[CHECKPOINT_ERROR_SIZE] = "";
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = { 0 };
        checkpoint *c;
        float value = -1.0f;
        bool ok;
        make_legacy(&b, rows[i].pickle, rows[i].size, (uint64_t)rows[i].count);
        ok = checkpoint_open_memory("rare", b.data, b.size, &c, error, sizeof error);
        ok = ok && checkpoint_find(c, "t")
          && checkpoint_read(c, checkpoint_find(c, "t"), 0, 1, &value, error, sizeof error);
        CHECK_MSG(ok && (double)value == rows[i].first, "row %lu: %g %s", (unsigned long)i,
                  (double)value, error);
        checkpoint_close(c);
        discard(&b);
    }
}

/* Which dict is taken, and what its tensors are called. */
static void test_choices(void)
{
    static const struct { const char *pickle; size_t size; const char *wrapper, *name; } rows[] = {
        { DICT(ONE), sizeof DICT(ONE) - 1, "", "t" },
        { DICT("}U\x01" "a" ONE "s"), sizeof DICT("}U\x01" "a" ONE "s") - 1, "t", "a" },
        { DICT("}U\x01" "a" ONE "ssU\x09optimizer}U\x01" "b" ONE "s"),
          sizeof DICT("}U\x01" "a" ONE "ssU\x09optimizer}U\x01" "b" ONE "s") - 1, "t", "a" },
        { DICT("}U\x01" "a" ONE "ssU\x01u}U\x01" "b" ONE "s"),
          sizeof DICT("}U\x01" "a" ONE "ssU\x01u}U\x01" "b" ONE "s") - 1, "", "u.b" },
        { DICT("}K\x05}U\x01w" ONE "ssU\x01" "b" ONE "s"),
          sizeof DICT("}K\x05}U\x01w" ONE "ssU\x01" "b" ONE "s") - 1, "t", "5.w" },
        { DICT("NsU\x09model_emaNsU\x05model}U\x01" "a" ONE "s"),
          sizeof DICT("NsU\x09model_emaNsU\x05model}U\x01" "a" ONE "s") - 1, "model", "a" },
        { DICT("ccollections\ndefaultdict\n(cbuiltins\nlist\ntRU\x01" "a" ONE "s"),
          sizeof DICT("ccollections\ndefaultdict\n(cbuiltins\nlist\ntRU\x01" "a" ONE "s") - 1,
          "t", "a" },
        { DICT(TENSOR(FLOATS, "K\x00", "ctorch\nSize\n(K\x02\x85tR", "K\x01\x85")),
          sizeof DICT(TENSOR(FLOATS, "K\x00", "ctorch\nSize\n(K\x02\x85tR", "K\x01\x85")) - 1,
          "", "t" },
        { "\x80\x02" ONE ".", sizeof("\x80\x02" ONE ".") - 1, "", "tensor" }
    };
    char error[CHECKPOINT_ERROR_SIZE] = "";
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes b = { 0 };
        checkpoint *c;
        bool ok;
        make_torch_zip(&b, rows[i].pickle, rows[i].size);
        ok = checkpoint_open_memory("choice", b.data, b.size, &c, error, sizeof error);
        CHECK_MSG(ok && strcmp(checkpoint_wrapper(c), rows[i].wrapper) == 0
                  && checkpoint_find(c, rows[i].name), "row %lu: %s, %s %s", (unsigned long)i,
                  error, ok ? checkpoint_wrapper(c) : "", ok ? checkpoint_tensor(c, 0)->name : "");
        checkpoint_close(c);
        discard(&b);
    }
}

#define WRAPS_ITSELF "\x80\x02}q\x01U\x05" "modelh\x01sU\x01t" \
    TENSOR(FLOATS, "K\x00", ")", ")") "s."

/* Small inputs that would become large or slow if values were copied or recursion were free. */
static void test_pickle_bombs(void)
{
    bytes p = { 0 };
    int i;
    put_text(&p, "\x80\x02}");                       /* each level holds the one below twice */
    for (i = 0; i < 60; i++) put_text(&p, "2\x86" "0}U\x01" "a}sU\x01" "b}s");
    put_text(&p, ".");
    check_pickle_refused("pairs", &p, "");
    put_text(&p, "\x80\x02}q");
    put(&p, "\0", 1);
    for (i = 0; i < 50; i++) {                       /* {a: x, b: x} with x memoised */
        uint8_t name = (uint8_t)i, next = (uint8_t)(i + 1);
        put_text(&p, "}q");
        put(&p, &next, 1);
        put_text(&p, "U\x01" "ah");
        put(&p, &name, 1);
        put_text(&p, "sU\x01" "bh");
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
    put_text(&p, "\x80\x02}q\x01U\x01" "ah\x01s.");   /* a dict that contains itself */
    check_pickle_refused("cycle", &p, "nested deeper");
    put_text(&p, "\x80\x02]q\x01");
    for (i = 0; i < 100; i++) put_text(&p, "h\x01" "a");
    put_text(&p, ".");
    check_pickle_refused("cyclic list", &p, "nested deeper");
    put(&p, WRAPS_ITSELF, sizeof WRAPS_ITSELF - 1);
    check_pickle_refused("dict that wraps itself", &p, "nested deeper");
    put_text(&p, "\x80\x02");
    for (i = 0; i < 1100000; i++) put_text(&p, ")");
    put_text(&p, ".");
    check_pickle_refused("a million values", &p, "values");
    put_text(&p, "\x80\x02");
    for (i = 0; i < 300; i++) {                      /* values above 64 KiB are read over */
        static const char zeros[70000];
        put_text(&p, "X");
        put_number(&p, sizeof zeros, 4);
        put(&p, zeros, sizeof zeros);
        put_text(&p, "0");
    }
    put_text(&p, "N.");
    check_pickle_refused("long texts", &p, "no state dict");
}

/* === Malformed zip files === */

#define PICKLE_ENTRY { "a/data.pkl", GOOD, sizeof GOOD - 1, 0, 0, 0, 0, 0 }
#define DATA_ENTRY { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }

static void check_zip_refused(const char *what, const zip_spec *specs, size_t count,
                              const char *word)
{
    bytes b = { 0 };
    make_zip(&b, specs, count);
    check_refused(what, b.data, b.size, word);
    discard(&b);
}

static void test_malformed_zips(void)
{
    static const zip_spec good_zip[] = { PICKLE_ENTRY, DATA_ENTRY };
    static const struct { const char *name; zip_spec second; const char *word; } rows[] = {
        { "an entry whose checksum differs",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 1, 0, 0 }, "CRC" },
        { "an encrypted entry",
          { "a/data/0", FOUR_FLOATS, 16, 0, 1, 0, 0, 0 }, "encrypted" },
        { "an entry with strong encryption",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0x40, 0, 0, 0 }, "encrypted" },
        { "an entry compressed by bzip2",
          { "a/data/0", FOUR_FLOATS, 16, 12, 0, 0, 0, 0 }, "method 12" },
        { "a stored entry of two sizes",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 99, 0 }, "two sizes" },
        { "an entry that inflates further than deflate can",
          { "a/data/0", FOUR_FLOATS, 16, 8, 0, 0, 99999999, 0 }, "inflate" },
        { "an entry that does not inflate",
          { "a/data/0", FOUR_FLOATS, 16, 8, 0, 0, 16, 0 }, "inflate" },
        { "a storage of 15 bytes for 16",
          { "a/data/0", FOUR_FLOATS, 15, 0, 0, 0, 0, 0 }, "15 bytes" },
        { "no storage",
          { "a/data/1", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "missing" },
        { "two entries of one name",
          { "a/data.pkl", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "duplicate" },
        { "two pickles",
          { "b/data.pkl", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "two entries" },
        { "a local header one byte off",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 1 }, "local header" },
        { "a local header behind the directory",
          { "a/data/0", FOUR_FLOATS, 16, 0, 0, 0, 0, 1000000 }, "behind" },
        { "a line break in an entry's name",
          { "a\n", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "bad name" },
        { "an entry without a name",
          { "", FOUR_FLOATS, 16, 0, 0, 0, 0, 0 }, "bad name" },
        { "a byte order of 13 letters",
          { "a/byteorder", "little endian", 13, 0, 0, 0, 0, 0 }, "byteorder" },
        { "a byte order of its own",
          { "a/byteorder", "middle", 6, 0, 0, 0, 0, 0 }, "byteorder" }
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
        check_zip_refused("a storage that inflates to 100 MB", specs, 2, "more expected");
    }
    check_zip_refused("no pickle", good_zip + 1, 1, "data.pkl");
    check_zip_refused("an empty archive", good_zip, 0, "data.pkl");
}

/* Two directory entries for the same bytes, as a zip bomb has them. */
static void test_overlapping_zip(void)
{
    static const zip_spec inner[] = { DATA_ENTRY };
    zip_spec specs[2] = { PICKLE_ENTRY, DATA_ENTRY };
    bytes b = { 0 }, nested = { 0 };
    make_zip(&nested, inner, 1);                     /* a local header inside the first entry */
    specs[0].data = nested.data;
    specs[0].size = nested.size;
    specs[1].move = -(int32_t)nested.size - 0;       /* points to the header inside */
    specs[1].name = "a/data/0";
    make_zip(&b, specs, 2);
    check_refused("overlap", b.data, b.size, "overlap");
    discard(&b);
    discard(&nested);
}

static void put_be_patch(bytes *b, size_t at, uint64_t number, size_t width)
{
    size_t i;
    for (i = 0; i < width; i++) b->data[at + i] = (uint8_t)(number >> 8 * i);
}

/* Every field of the zip64 records set to nonsense in turn. */
static void test_zip64_fields(const char *folder)
{
    static const struct { size_t from_end, width; uint64_t value; } rows[] = {
        { 22 + 20 - 4, 4, 1 },             { 22 + 20 - 8, 8, 0 },
        { 22 + 20 - 8, 8, UINT64_MAX },    { 98, 4, 0 },
        { 98 - 4, 8, UINT64_MAX },         { 98 - 16, 4, 7 },
        { 98 - 24, 8, UINT64_MAX },        { 98 - 32, 8, UINT64_MAX },
        { 98 - 32, 8, 3 },                 { 98 - 40, 8, UINT64_MAX },
        { 98 - 40, 8, 100 },               { 98 - 48, 8, UINT64_MAX },
        { 98 - 48, 8, 64 }
    };
    bytes b, copy = { 0 };
    size_t i;
    CHECK(load(&b, folder, "zip64.pt"));
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(&copy, b.data, b.size);
        put_be_patch(&copy, b.size - rows[i].from_end, rows[i].value, rows[i].width);
        check_refused("zip64 field", copy.data, copy.size, "zip");
        discard(&copy);
    }
    discard(&b);
}

/* A damaged weight of a stored entry opens and reads, but does not verify. */
static void test_verify(const char *folder)
{
    char error[CHECKPOINT_ERROR_SIZE] = "";
    checkpoint *c;
    bytes b;
    size_t i;
    CHECK(load(&b, folder, "small_zip.pt"));
    for (i = 0; i + 16 < b.size && memcmp(b.data + i, "\0\0\x80\x3f\0\0\0\x40", 8) != 0; i++) { }
    b.data[i] ^= 1;
    CHECK_MSG(checkpoint_open_memory("damaged", b.data, b.size, &c, error, sizeof error), "%s",
              error);
    CHECK_MSG(c && !checkpoint_verify(c, error, sizeof error) && strstr(error, "CRC"), "%s",
              error);
    checkpoint_close(c);
    discard(&b);
}

/* Long and short inputs take different ways through the CRC. */
static void test_crc(void)
{
    uint8_t data[10007];
    uint32_t pieces = 0;
    size_t i;
    for (i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i >> 3);
    for (i = 0; i < sizeof data; i++) pieces = inflate_crc32(pieces, data + i, 1);
    CHECK(inflate_crc32(0, data, sizeof data) == pieces);
    CHECK(inflate_crc32(0, "123456789", 9) == 0xCBF43926);
}

int main(int count, char **arguments)
{
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
    test_rare_pickles();
    test_choices();
    test_pickle_bombs();
    test_malformed_zips();
    test_overlapping_zip();
    test_zip64_fields(folder);
    test_verify(folder);
    test_tiny_files();
    test_truncated(folder);
    test_flipped(folder);
    return test_summary();
}
