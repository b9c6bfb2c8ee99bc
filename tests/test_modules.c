/* test_modules.c - tests models that were saved whole: pickled modules, TorchScript, plain pickles.
 *
 *     test_modules [tests/data]
 *
 * tests/make_modules.py made the fixtures; its expected.txt has the contents of PyTorch's
 * state_dict(). The test also opens broken and malicious files.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/report.h"
#include "base/source.h"
#include "checkpoint/checkpoint.h"
#include "layout/detect.h"
#include "test.h"

enum { LINE = 512 };

/* === Expected contents === */

static const char *attribute(const checkpoint *c, const char *module, const char *name) {
    size_t i;
    for (i = 0; i < checkpoint_attribute_count(c); i++) {
        const checkpoint_attribute *a = checkpoint_attribute_at(c, i);
        if (!strcmp(a->module, module) && !strcmp(a->name, name)) return a->value;
    }
    return "(none)";
}

static bool same(float a, float b) { return !memcmp(&a, &b, sizeof a); }

static void check_tensor(checkpoint *c, const char *line) {
    char name[LINE];
    long count = 0;
    float first = 0, last = 0, values[2] = { -1, -1 };
    report r = report_make();
    const checkpoint_tensor_info *t;
    CHECK(sscanf(line, "T %s %ld %f %f", name, &count, &first, &last) == 4);
    t = checkpoint_find(c, name);
    CHECK_MSG(t && t->count == count && checkpoint_read(c, t, 0, 1, &values[0], &r) &&
                  checkpoint_read(c, t, count - 1, 1, &values[1], &r) && same(values[0], first) &&
                  same(values[1], last),
              "%s: %g %g expected, got %g %g %s", name, (double)first, (double)last,
              (double)values[0], (double)values[1], r.text);
}

static void check_attribute(const checkpoint *c, const char *line) {
    char module[LINE], name[LINE];
    int value = 0;
    CHECK(sscanf(line, "A %s %s %n", module, name, &value) == 2);
    if (!strcmp(module, "-")) module[0] = '\0';
    CHECK_MSG(!strcmp(attribute(c, module, name), line + value), "%s.%s: %s expected, got %s",
              module, name, line + value, attribute(c, module, name));
}

static checkpoint *open_weights(const char *folder, const char *name, const char *weights) {
    char path[LINE * 2];
    report r = report_make();
    checkpoint *c;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_MSG(checkpoint_open_weights(path, weights, &c, &r), "%s", r.text);
    return c;
}

/* Opens the checkpoint of a line "F name|kind|wrapper" in expected.txt. */
static checkpoint *open_expected(const char *folder, char *line) {
    char *name = line + 2, *kind = strchr(name, '|'), *wrapper = strchr(kind + 1, '|');
    checkpoint *c;
    *kind++ = '\0';
    *wrapper++ = '\0';
    c = open_weights(folder, name, NULL);
    CHECK_MSG(c && !strcmp(checkpoint_kind(c), kind) && !strcmp(checkpoint_wrapper(c), wrapper),
              "%s: %s in \"%s\"", name, c ? checkpoint_kind(c) : "",
              c ? checkpoint_wrapper(c) : "");
    return c;
}

/* Closes a checkpoint after all its tensors have been compared. expected.txt does not list all
 * tensors of a frozen archive, because the names of some depend on PyTorch's version. */
static void close_expected(checkpoint *c, size_t tensors) {
    report r = report_make();
    if (!c) return;
    CHECK_MSG(checkpoint_count(c) == tensors || !strcmp(attribute(c, "", "class"), "ViT"),
              "%zu tensors, %zu expected", checkpoint_count(c), tensors);
    CHECK_MSG(checkpoint_verify(c, &r), "%s", r.text);
    checkpoint_close(c);
}

static void test_fixtures(const char *folder) {
    char path[LINE * 2], line[LINE];
    checkpoint *c = NULL;
    size_t tensors = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    file = fopen(path, "r");
    CHECK(file != NULL);
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == 'F') {
            close_expected(c, tensors);
            c = open_expected(folder, line);
            tensors = 0;
        }
        if (c && line[0] == 'T') check_tensor(c, line);
        if (c && line[0] == 'A') check_attribute(c, line);
        tensors += line[0] == 'T';
    }
    close_expected(c, tensors);
    if (file) fclose(file);
}

/* === One of several === */

static void check_weights(const char *folder, const char *weights, const char *wrapper) {
    checkpoint *c = open_weights(folder, "several.pt", weights);
    CHECK(c && !strcmp(checkpoint_wrapper(c), wrapper) && checkpoint_count(c) == 32);
    CHECK(c && checkpoint_choice_count(c) == 2 && !strcmp(checkpoint_choice(c, 0), "model") &&
          !strcmp(checkpoint_choice(c, 1), "model_ema.module") && !checkpoint_choice(c, 2));
    checkpoint_close(c);
}

static void check_no_weights(const char *folder, const char *name, const char *weights,
                             const char *word) {
    char path[LINE * 2];
    report r = report_make();
    checkpoint *c;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_MSG(!checkpoint_open_weights(path, weights, &c, &r) && strstr(r.text, word), "%s: %s",
              name, r.text);
}

static void test_choices(const char *folder) {
    checkpoint *c;
    check_weights(folder, NULL, "model_ema.module");
    check_weights(folder, "model", "model");
    check_weights(folder, "model_ema", "model_ema.module");
    check_weights(folder, "model_ema.module", "model_ema.module");
    check_no_weights(folder, "several.pt", "teacher", "expected one of model, model_ema.module");
    check_no_weights(folder, "several.pt", "model.", "expected one of");
    check_no_weights(folder, "whole.pt", "model", "a single state dict");
    check_no_weights(folder, "traced.pt", "model", "a single state dict");
    check_no_weights(folder, "beside_optimizer.pt", "net", "expected one of model");
    c = open_weights(folder, "beside_optimizer.pt", "model");
    CHECK(c && checkpoint_choice_count(c) == 0 && checkpoint_metadata_count(c) == 2);
    checkpoint_close(c);
}

/* === Settings === */

static void check_settings(const char *folder, const char *name, const char *expected,
                           bool batch_second) {
    static settings all[FROM_COUNT];
    checkpoint *c = open_weights(folder, name, NULL);
    attributes_told told;
    report r = report_make();
    memset(all, 0, sizeof all);
    CHECK_MSG(c && attributes_put(c, "patch_embed.proj.weight", all, &told, &r) &&
                  !strcmp(told.text, expected) && told.batch_second == batch_second,
              "%s: %s%s", name, r.text, told.text);
    checkpoint_close(c);
}

static void test_settings(const char *folder) {
    check_settings(folder, "whole.pt",
                   "num_heads=2 (blocks.0.attn.num_heads), norm_eps=1e-05 "
                   "(blocks.0.norm1.eps), activation=gelu_tanh (blocks.0.mlp.act.class), "
                   "patch_size=4 (patch_embed.patch_size)",
                   false);
    check_settings(folder, "traced.pt",
                   "num_heads=2 (blocks.0.attn.code.num_heads), "
                   "norm_eps=1e-05 (blocks.0.norm1.code.layer_norm_eps), activation=gelu_tanh "
                   "(blocks.0.mlp.act.code.activation)",
                   false);
    check_settings(folder, "encoder.pt",
                   "num_heads=4 (layers.0.self_attn.num_heads), "
                   "norm_eps=1e-05 (layers.0.norm1.eps), block_type=pre_norm "
                   "(layers.0.norm_first), activation=relu (layers.0.activation)",
                   true);
    check_settings(folder, "frozen.pt",
                   "num_heads=2 (code.num_heads), norm_eps=1e-05 "
                   "(code.layer_norm_eps), activation=gelu_tanh (code.activation)",
                   false);
    check_settings(folder, "arrays4.pkl", "", false);
}

/* === Broken === */

static bool open_and_read(const unsigned char *data, size_t size) {
    unsigned char *exact = malloc(size ? size : 1);
    report r = report_make();
    checkpoint *c;
    size_t i;
    bool ok;
    if (!exact) abort();
    memcpy(exact, data, size);
    ok = checkpoint_open_memory("test", exact, size, &c, &r);
    for (i = 0; ok && i < checkpoint_count(c); i++) {
        const checkpoint_tensor_info *t = checkpoint_tensor(c, i);
        float values[16];
        ok = checkpoint_read(c, t, 0, t->count < 16 ? t->count : 16, values, &r);
    }
    ok = ok && checkpoint_verify(c, &r);
    CHECK_MSG(ok || !strncmp(r.text, "test: ", 6), "%s", r.text);
    checkpoint_close(c);
    free(exact);
    return ok;
}

/* Cuts the file at many places, and flips a bit at as many places. No read may go beyond the
 * file. */
static void damage(const char *folder, const char *name) {
    char path[LINE * 2];
    unsigned char *data;
    report r = report_make();
    size_t size, at, accepted = 0, step;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(source_read_all(path, 1 << 20, &data, &size, &r));
    if (!data) return;
    CHECK(open_and_read(data, size));
    step = size / 1500 + 1;
    for (at = 0; at < size; at += step) accepted += open_and_read(data, at);
    CHECK_MSG(accepted == 0, "%s: %zu prefixes accepted", name, accepted);
    for (at = 0; at < size; at += step) {
        data[at] ^= (unsigned char)(1 << at % 8);
        (void)open_and_read(data, size);
        data[at] ^= (unsigned char)(1 << at % 8);
    }
    free(data);
}

static void test_damage(const char *folder) {
    static const char *const names[] = {
        "whole.pt",     "whole_legacy.pt", "whole.pkl",   "odd.pt",      "traced.pt",
        "scripted.pt",  "frozen.pt",       "arrays2.pkl", "arrays4.pkl", "arrays5.pkl",
        "tensors2.pkl", "tensors4.pkl",    "big2.pkl",    "arrays0.pkl", "arrays_python2.pkl",
        "tensors0.pkl", "several.pt",
    };
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) damage(folder, names[i]);
}

/* === Malicious files === */

typedef struct text {
    char *data;
    size_t size, capacity;
} text;

static void put(text *t, const char *data, size_t size) {
    if (t->size + size > t->capacity) {
        t->capacity = (t->size + size) * 2;
        t->data = realloc(t->data, t->capacity);
        if (!t->data) abort();
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
}

#define PUT(t, literal) put(t, literal, sizeof(literal) - 1)

/* Checks that the file is refused with this word within five seconds. If word is NULL, the file
 * must be accepted. */
static void check_pickle(const char *what, text *t, const char *word) {
    report r = report_make();
    const clock_t start = clock();
    checkpoint *c;
    const bool ok = checkpoint_open_memory("test", t->data, t->size, &c, &r);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK_MSG((word ? !ok && strstr(r.text, word) : ok) && seconds < 5, "%s: %s, %.1f s", what,
              r.text, seconds);
    checkpoint_close(c);
    free(t->data);
    memset(t, 0, sizeof *t);
}

/* The pickle of a module. The entries of its _modules lie between BEGIN and END. */
#define BEGIN "cmy\nM\n)\x81}(U\x0b_parameters}U\x08_buffers}U\x08_modules}("
#define END   "uub"
#define ARRAY                                                                                      \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85"                              \
    "C\1btR(K\1K\2\x85"                                                                            \
    "cnumpy\ndtype\nX\2\0\0\0f4\x89\x88\x87R(K\3X\1\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"   \
    "K\0tb\x89"                                                                                    \
    "C\x8\0\0\x80\x3f\0\0\0\x40tb"
#define LEAF "cmy\nL\n)\x81}(U\x0b_parameters}U\1w" ARRAY "sU\x08_modules}U\4namee"

static void test_nuisances(void) {
    text t = { 0 };
    int i;
    PUT(&t, "\x80\2"
            "cmy\nM\n)\x81}(U\x0b_parameters}U\1w" ARRAY "sU\x08_modules}ub.");
    check_pickle("a module with an array", &t, NULL);
    PUT(&t, "\x80\2"
            "cmy\nM\n)\x81q\1}(U\x0b_parameters}U\x08_modules}U\1mh\1sub.");
    check_pickle("a module in itself", &t, "nested deeper");
    PUT(&t, "\x80\2"
            "cmy\nM\n)\x81q\1}(U\x0b_parameters}U\1w" ARRAY "sU\x08_modules}(U\1ah\1U\1bh\1uub.");
    check_pickle("a module twice in itself, with an array", &t, "values to visit");
    PUT(&t, "\x80\2"
            "cmy\nM\n)\x81q\1}(U\x0b_parameters}U\x08_modules}(U\1ah\1U\1bh\1uub.");
    check_pickle("a module twice in itself", &t, "values to visit");
    PUT(&t, "\x80\2");
    for (i = 0; i < 40; i++) PUT(&t, BEGIN "U\1m");
    PUT(&t, "N");
    for (i = 0; i < 40; i++) PUT(&t, END);
    PUT(&t, ".");
    check_pickle("modules 40 deep", &t, "nested deeper");
    PUT(&t, "\x80\2" BEGIN);
    for (i = 0; i < 30000; i++) {
        char key[16];
        const int size = snprintf(key, sizeof key, "U%cm%05d", 6, i);
        put(&t, key, (size_t)size);
        PUT(&t, "cmy\nM\n)\x81}(U\x0b_parameters}U\1w");
        if (i == 0) PUT(&t, ARRAY "q\1");
        else PUT(&t, "h\1");
        PUT(&t, "sU\x08_modules}U\4nameU\5valueub");
    }
    PUT(&t, END ".");
    check_pickle("30,000 modules", &t, NULL);
    PUT(&t, "\x80\2}(");
    for (i = 0; i < 30000; i++) {
        char key[16];
        const int size = snprintf(key, sizeof key, "U%cm%05d", 6, i);
        put(&t, key, (size_t)size);
        if (i == 0) PUT(&t, ARRAY "q\1");
        else PUT(&t, "h\1");
    }
    PUT(&t, "u.");
    check_pickle("an array under 30,000 names", &t, NULL);
    PUT(&t, "\x80\2}U\1t"
            "ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\n"
            "C\3abc\x85RK\0K\1\x85K\1\x85tRs.");
    check_pickle("a storage of three bytes", &t, "pickle, byte");
    PUT(&t, "\x80\2}U\1t"
            "ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\n"
            "N\x85RK\0K\1\x85K\1\x85tRs.");
    check_pickle("a storage of None", &t, "expected bytes");
    PUT(&t, "\x80\2}U\1t"
            "cos\nsystem\n(U\4truetRs.");
    check_pickle("a call of os.system", &t, "no state dict");
}

/* === Tar === */

/* Writes the header of a tar member. `type` is '0' for a file, or another kind. */
static void put_entry(text *t, const char *name, const char *size, char type) {
    char header[512] = "";
    unsigned long sum = 8 * ' ';
    int k;
    strcpy(header, name);
    strcpy(header + 124, size);
    strcpy(header + 257, "ustar");
    header[156] = type;
    for (k = 0; k < 512; k++) sum += (unsigned char)header[k];
    snprintf(header + 148, 8, "%6lo", sum);
    put(t, header, sizeof header);
}

static void test_tar(void) {
    static const struct {
        const char *name, *size;
        const char *word;
    } rows[] = {
        { "a", "00000007777", "damaged" },
        { "a", "9", "damaged" },
        { "a", "0", "empty" },
        { "a", "          0", "empty" },
        { "a", "           ", "empty" },
        { ".a", "0", "0 files" },
        { "folder/.a", "0", "0 files" },
    };
    static const char end[512] = "";
    text t = { 0 };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_entry(&t, rows[i].name, rows[i].size, '0');
        put(&t, end, sizeof end);
        check_pickle(rows[i].size, &t, rows[i].word);
    }
    put_entry(&t, "a", "0", '0');
    t.data[148] = '7';
    check_pickle("a checksum", &t, "damaged");
    put_entry(&t, "folder", "0", '5');
    put_entry(&t, "a", "1", 0);
    put(&t, "a", 1); /* The zeros that should fill the last block are missing. */
    check_pickle("a folder, a file of one byte", &t, "too few");
    put_entry(&t, "a", "0", '0');
    put_entry(&t, "b", "0", '0');
    check_pickle("two files", &t, "2 files");
    put_entry(&t, "a", "1000", '0');
    put_entry(&t, "b", "0", '0');
    check_pickle("a tar inside a tar", &t, "a tar inside a tar");
    for (i = 0; i <= 1000; i++) put_entry(&t, "folder", "0", '5');
    check_pickle("a thousand folders", &t, "more than 1000 entries");
}

int main(int argc, char **argv) {
    char folder[LINE];
    snprintf(folder, sizeof folder, "%s/modules", argc > 1 ? argv[1] : "tests/data");
    test_fixtures(folder);
    test_choices(folder);
    test_settings(folder);
    test_damage(folder);
    test_nuisances();
    test_tar();
    return test_summary();
}
