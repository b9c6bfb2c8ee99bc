/* test_checkpoint_memory.c - makes each allocation and each system call fail, in the readers of
 * checkpoints and labels.
 *
 *     test_checkpoint_memory [tests/data]
 *
 * The reader must report each failure, must free all memory, and must not crash. The readers are
 * compiled into this file, so that the test can replace the functions that the readers call: the C
 * library's allocator, the pieces of base/memory.h's arenas, os_read_at and os_file_size.
 */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "test.h"

/* The kinds of calls that can fail. Call number fail_at of the chosen kind fails. If fail_at is 0,
 * no call fails. */
typedef enum failure {
    ALLOCATION,
    /* os_read_at fails, as on a broken disk. */
    READ_ERROR,
    /* os_read_at reads nothing, as if the file had become shorter. */
    READ_NOTHING,
    /* os_read_at is interrupted by a signal. The reader must repeat the call and succeed. */
    READ_INTERRUPTED,
    /* os_file_size fails. */
    STATUS,
    FAILURES,
} failure;

static long calls_made, fail_at, live;
static failure failing;

static int fails(failure kind) { return kind == failing && ++calls_made == fail_at; }

static void *failing_malloc(size_t size) {
    void *p = fails(ALLOCATION) ? NULL : malloc(size);
    live += p != NULL;
    return p;
}

static void *failing_calloc(size_t count, size_t size) {
    void *p = fails(ALLOCATION) ? NULL : calloc(count, size);
    live += p != NULL;
    return p;
}

static void *failing_realloc(void *old, size_t size) {
    void *p = fails(ALLOCATION) ? NULL : realloc(old, size);
    live += p != NULL && old == NULL;
    return p;
}

static void counting_free(void *p) {
    live -= p != NULL;
    free(p);
}

static ptrdiff_t failing_read_at(int descriptor, void *to, size_t size, uint64_t offset) {
    if (fails(READ_NOTHING)) return 0;
    if (!fails(READ_ERROR) && !fails(READ_INTERRUPTED))
        return os_read_at(descriptor, to, size, offset);
    errno = failing == READ_ERROR ? EIO : EINTR;
    return -1;
}

static bool failing_size(int descriptor, uint64_t *size) {
    return !fails(STATUS) && os_file_size(descriptor, size);
}

#define malloc       failing_malloc
#define calloc       failing_calloc
#define realloc      failing_realloc
#define free         counting_free
#define os_read_at   failing_read_at
#define os_file_size failing_size

#define memory_take      whole_take
#define memory_copy_text whole_copy_text
#include "base/memory.c"
#undef memory_take
#undef memory_copy_text

void *memory_take(memory_arena *arena, size_t size);
char *memory_copy_text(memory_arena *arena, const char *text, size_t size);

void *memory_take(memory_arena *arena, size_t size) {
    return fails(ALLOCATION) ? NULL : whole_take(arena, size);
}

char *memory_copy_text(memory_arena *arena, const char *text, size_t size) {
    return fails(ALLOCATION) ? NULL : whole_copy_text(arena, text, size);
}

#include "base/checksum.c"
#include "base/report.c"
#include "base/source.c"
#include "base/text.c"
#include "base/json.c"
#include "checkpoint/inflate.c"
#include "checkpoint/zip.c"
#include "checkpoint/pickle.c"
#include "checkpoint/safetensors.c"
#include "checkpoint/torch_state_dict.c"
#include "checkpoint/torch_files.c"
#include "checkpoint/npz.c"
#include "checkpoint/ggml_file.c"
#include "checkpoint/gguf_file.c"
#include "checkpoint/onnx_graph.c"
#include "checkpoint/onnx.c"
#include "checkpoint/contents.c"
#include "checkpoint/open.c"
#include "checkpoint/read.c"
#include "model/labels.c"

/* === Steps: each takes a path and returns true if it succeeded === */

static bool read_all(checkpoint *c, report *r) {
    static float values[1000];
    size_t i;
    bool ok = true;
    for (i = 0; ok && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        ok = checkpoint_read(c, t, 0, t->count < 1000 ? t->count : 1000, values, r);
    }
    return ok && checkpoint_verify(c, r);
}

static bool read_file(const char *path, report *r) {
    checkpoint *c;
    bool ok = checkpoint_open(path, &c, r) && read_all(c, r);
    checkpoint_close(c);
    return ok;
}

static bool read_memory(const char *path, report *r) {
    static uint8_t data[10000];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    checkpoint *c;
    bool ok;
    if (file) fclose(file);
    ok = checkpoint_open_memory(path, data, size, &c, r) && read_all(c, r);
    checkpoint_close(c);
    return ok;
}

static bool rename_tensor(const char *path, report *r) {
    checkpoint *c;
    bool ok = checkpoint_open(path, &c, r) && checkpoint_rename(c, 0, "another", r) &&
              checkpoint_renamed(c, r);
    checkpoint_close(c);
    return ok;
}

static bool read_labels(const char *path, report *r) {
    label_list list;
    bool ok = labels_read_file(&list, path, r);
    if (ok) labels_free(&list);
    return ok;
}

static bool read_json_labels(const char *path, report *r) {
    char text[] = "{\"names\": [\"a\", \"b\"], \"descriptions\": {\"a\": \"ape\"}}";
    json_document json;
    label_list list;
    bool ok = json_parse(&json, text, sizeof text - 1, true, 0, r);
    (void)path;
    if (!ok) return false;
    ok = labels_from_json(&list, json_get(json.root, "names"), json_get(json.root, "descriptions"),
                          r);
    if (ok) labels_free(&list);
    json_free(&json);
    return ok;
}

static bool copy_labels(const char *path, report *r) {
    static const char *const names[] = { "cat", "dog" };
    label_list list;
    bool ok = labels_from_list(&list, names, 2, r);
    (void)path;
    if (ok) labels_free(&list);
    return ok;
}

/* === Checks === */

typedef bool operation(const char *path, report *r);

static void fail_kind(failure kind, operation *perform, const char *path) {
    report r = report_make();
    long total, silent = 0, leaked = 0, i;
    failing = kind;
    fail_at = 0;
    calls_made = 0;
    CHECK_MSG(perform(path, &r), "%s", r.text);
    total = calls_made;
    for (i = 1; i <= total; i++) {
        bool ok;
        fail_at = i;
        calls_made = 0;
        r = report_make();
        ok = perform(path, &r);
        silent += ok != (kind == READ_INTERRUPTED) || (!ok && r.text[0] == '\0');
        leaked += live != 0;
        live = 0;
    }
    CHECK_MSG(silent == 0 && leaked == 0, "%s: of %ld failures of kind %d %ld silent, %ld leaked",
              path, total, (int)kind, silent, leaked);
}

static void fail_each(operation *perform, const char *path) {
    int kind;
    for (kind = 0; kind < FAILURES; kind++) fail_kind((failure)kind, perform, path);
}

static void test_checkpoints(const char *data) {
    static const char *const names[] = {
        "zip.pt",
        "legacy.pt",
        "legacy_protocol4.pt",
        "wrapped.pt",
        "nested.pt",
        "deflate.pt",
        "zip64.pt",
        "big_endian.pt",
        "model.safetensors",
        "shards",
        "torchscript.pt",
        "complex.pt",
        "subclass.pt",
        "../layouts/jax/model.npz",
        "../onnx/seeds/timm.onnx",
        "../onnx/seeds/vit.onnx",
        "../onnx/seeds/blocks.onnx",
        "../layouts/jax_gap/model.npz",
        "../layouts/vit_cpp/model.gguf",
        "../layouts/gguf_dinov2/model.gguf",
        "../layouts/gguf_llava/model.gguf",
        "../modules/whole.pt",
        "../modules/odd.pt",
        "../modules/scripted.pt",
        "../modules/frozen.pt",
        "../modules/arrays2.pkl",
        "../modules/arrays_python2.pkl",
        "../modules/labels.pt",
        "../modules/tensors4.pkl",
        "../modules/big2.pkl",
        "../modules/several.pt",
        "../modules/one.tar",
    };
    char path[1024];
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/%s", data, names[i]);
        fail_each(read_file, path);
    }
    snprintf(path, sizeof path, "%s/checkpoints/zip.pt", data);
    fail_each(read_memory, path);
    fail_each(rename_tensor, path);
}

/* Tests values that torch.save rarely writes: long texts, a dict of another class, a dict that is
 * made from pairs, and a tuple after exactly 16 values on the stack. */
static void test_rare_pickle(void) {
    static const char start[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                "\x80\x02M\xe9\x03.\x80\x02}.\x80\x02";
    static const char rest[] =
        "NNNNNNNNNNNNNNNN(t"
        "cmy\nDict\n)\x81U\x01"
        "aNsU\x01"
        "bNs"
        "ccollections\nOrderedDict\n]U\x01t"
        "ctorch._utils\n_rebuild_tensor\n((U\x07storagectorch\nFloatStorage\nU\x01"
        "0U\x03"
        "cpu"
        "K\x01NtQK\x00))tR\x86"
        "a\x85R."
        "\x80\x02]U\x01"
        "0a."
        "\1\0\0\0\0\0\0\0"
        "\0\0\x80\x3f";
    static const uint32_t lengths[] = { 5000, 70000 };
    char path[] = "/tmp/pickleXXXXXX";
    FILE *file = fdopen(mkstemp(path), "wb");
    size_t i;
    uint32_t n;
    CHECK(file != NULL);
    if (!file) return;
    fwrite(start, 1, sizeof start - 1, file);
    for (i = 0; i < 2; i++) {
        fprintf(file, "X%c%c%c", (int)(lengths[i] & 255), (int)(lengths[i] >> 8 & 255),
                (int)(lengths[i] >> 16));
        putc(0, file);
        for (n = 0; n < lengths[i]; n++) putc('x', file);
        putc('0', file);
    }
    fwrite(rest, 1, sizeof rest - 1, file);
    fclose(file);
    fail_each(read_file, path);
    unlink(path);
}

static void test_labels(void) {
    char path[] = "/tmp/labelsXXXXXX";
    const int descriptor = mkstemp(path);
    static const char text[] = "n01440764 tench\nn01443537 goldfish\n";
    CHECK(descriptor >= 0 && write(descriptor, text, sizeof text - 1) == sizeof text - 1);
    close(descriptor);
    fail_each(read_labels, path);
    fail_each(read_json_labels, "json");
    fail_each(copy_labels, "list");
    unlink(path);
}

int main(int count, char **arguments) {
    test_checkpoints(count > 1 ? arguments[1] : "tests/data");
    test_rare_pickle();
    test_labels();
    return test_summary();
}
