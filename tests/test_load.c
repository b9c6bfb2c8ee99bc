/* test_load.c - opens valid models, and models with every kind of defect.
 *
 *     test_load tests/data [all]
 *
 * tiny_model.h builds the files in memory, in blocks that end where the file ends. A few small
 * files are written to build/.
 */
#define VIT_TOOLS
#include "../vit.h"

#include "test.h"
#include "tiny_model.h"

#include <stdbool.h>

static const char *const folder = "build";
/* True if the test tries every value of every byte of the metadata. */
static bool every_value;

/* --- helpers -------------------------------------------------------------- */

static vit_result open_only(const tiny_file *f, unsigned flags, char detail[VIT_MAX_DETAIL]) {
    vit_model model;
    vit_result result;
    /* vit_model_open must not rely on the previous contents of the struct. */
    memset(&model, 0x5a, sizeof model);
    result = vit_model_open_memory(f->data, f->size, flags, &model);
    memcpy(detail, model.detail, VIT_MAX_DETAIL);
    if (result == VIT_OK) {
        vit_model_close(&model);
    }
    return result;
}

/* Checks that the file is refused with this result, and that `detail` contains a, b and c. Any of
 * these may be NULL. */
static void refused(const char *what, const tiny_file *f, vit_result expected, const char *a,
                    const char *b, const char *c) {
    char detail[VIT_MAX_DETAIL];
    vit_result result = open_only(f, 0, detail);
    CHECK_MSG(result == expected, "%s: %s, not %s; detail: %s", what, vit_result_string(result),
              vit_result_string(expected), detail);
    CHECK_MSG(memchr(detail, 0, sizeof detail) != NULL, "%s: detail is not a string", what);
    CHECK_MSG(!a || strstr(detail, a), "%s: detail lacks '%s': %s", what, a, detail);
    CHECK_MSG(!b || strstr(detail, b), "%s: detail lacks '%s': %s", what, b, detail);
    CHECK_MSG(!c || strstr(detail, c), "%s: detail lacks '%s': %s", what, c, detail);
    CHECK_MSG(detail[0] != 0, "%s: no detail", what);
}

/* Checks that the file is refused, with any result, and that the message contains the word. */
static void refused_somehow(const char *what, const tiny_file *f, const char *word) {
    char detail[VIT_MAX_DETAIL];
    vit_result result = open_only(f, 0, detail);
    CHECK_MSG(result != VIT_OK, "%s: accepted", what);
    CHECK_MSG(result == VIT_OK || detail[0] != 0, "%s: no detail", what);
    CHECK_MSG(result == VIT_OK || !word || strstr(detail, word), "%s: detail lacks '%s': %s", what,
              word, detail);
}

static void accepted(const char *what, const tiny_file *f) {
    char detail[VIT_MAX_DETAIL];
    vit_result result = open_only(f, VIT_OPEN_VERIFY, detail);
    CHECK_MSG(result == VIT_OK, "%s: %s: %s", what, vit_result_string(result), detail);
}

static tiny_file build_small(void) {
    tiny_options o = tiny_defaults();
    o.config.depth = 1;
    o.labels = o.synsets = 1;
    return tiny_build(&o);
}

/* Builds a model of one block whose weights have this type. VIT_NUM_DTYPES stands for a model with
 * all types. */
static tiny_file build_kind(int kind) {
    tiny_options o = tiny_defaults();
    o.config.depth = 1;
    o.config.embed_dim = 18;
    o.config.head_dim = 9;
    o.mixed = kind == VIT_NUM_DTYPES;
    o.dtype = o.mixed ? VIT_F16 : (vit_dtype)kind;
    return tiny_build(&o);
}

static size_t meta_size(const tiny_file *f) {
    return (size_t)tiny_get(f->data + VIT_HEADER_META_SIZE, 8);
}

/* Runs a model that was accepted, so that sanitizers detect harmful models. */
static void exercise_on(const vit_model *model, vit_isa isa) {
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    const vit_config *c = &model->config;
    size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.isa = isa;
    size_t size = vit_workspace_size(model, &params);
    if (size == 0 || size > 1u << 24 || pixels > 1u << 20 || c->num_classes > 4096) {
        return;
    }
    float *input = tiny_allocate(pixels * sizeof(float));
    float *output = tiny_allocate((size_t)(c->num_classes + 1) * sizeof(float));
    void *workspace = tiny_allocate(size);
    outputs.logits = c->num_classes ? output : NULL;
    if (vit_session_init(&session, model, &params, workspace, size) == VIT_OK) {
        CHECK(vit_forward(&session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    }
    for (int i = -1; i <= c->num_classes; i++) {
        const char *label = vit_label(model, i), *synset = vit_synset(model, i);
        output[0] += (float)(label ? strlen(label) : 0) + (float)(synset ? strlen(synset) : 0);
    }
    output[0] += (float)strlen(vit_source(model));
    free(workspace);
    free(output);
    free(input);
}

static void exercise(const vit_model *model) { exercise_on(model, VIT_ISA_AUTO); }

/* --- good files ----------------------------------------------------------- */

static void test_good(void) {
    tiny_options o = tiny_defaults();
    vit_model model;
    o.labels = o.synsets = 1;
    tiny_file f = tiny_build(&o);
    CHECK(vit_model_open_memory(f.data, f.size, VIT_OPEN_VERIFY, &model) == VIT_OK);
    vit_config expected = o.config;
    CHECK(vit_config_check(&expected, NULL) == VIT_OK);
#define SAME(type, name, required, smallest, largest)                                              \
    CHECK(memcmp(&expected.name, &model.config.name, sizeof expected.name) == 0);
    VIT_FIELD_LIST(SAME)
#undef SAME
    CHECK(memcmp(expected.mean, model.config.mean, 3 * sizeof(float)) == 0);
    CHECK(memcmp(expected.std, model.config.std, 3 * sizeof(float)) == 0);
    CHECK(model.config.grid_height == 2 && model.config.grid_width == 2);
    CHECK(model.config.num_patches == 4 && model.config.num_prefix_tokens == 1);
    CHECK(model.config.num_tokens == 5);
    CHECK(vit_embedding_dim(&model) == 16);
    CHECK(vit_model_verify(&model) == VIT_OK);
    CHECK(strcmp(vit_label(&model, 0), "class 0") == 0);
    CHECK(strcmp(vit_label(&model, 4), "class 4") == 0);
    CHECK(vit_label(&model, -1) == NULL && vit_label(&model, 5) == NULL);
    CHECK(strcmp(vit_synset(&model, 3), "n00000003") == 0);
    CHECK(vit_synset(&model, -1) == NULL && vit_synset(&model, 5) == NULL);
    CHECK(strcmp(vit_source(&model), o.source) == 0);
    vit_model_close(&model);
    tiny_free(&f);
}

static void test_without_optional_sections(void) {
    tiny_options o = tiny_defaults();
    vit_model model;
    o.source = NULL;
    tiny_file f = tiny_build(&o);
    CHECK(vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK);
    CHECK(vit_label(&model, 0) == NULL && vit_synset(&model, 0) == NULL);
    CHECK(vit_source(&model) != NULL && vit_source(&model)[0] == 0);
    vit_model_close(&model);
    tiny_free(&f);
}

/* Checks that a model points into the bytes of its file, and that the struct may be copied. */
static void test_zero_copy(void) {
    tiny_file f = build_small();
    vit_model model, copy;
    vit_tensor t;
    CHECK(vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK);
    copy = model;
    memset(&model, 0, sizeof model);
    for (int i = 0; vit_model_tensor(&copy, i, &t); i++) {
        CHECK((const unsigned char *)t.data == f.data + t.offset);
        CHECK(t.offset % VIT_ALIGN == 0 && t.offset + t.size <= f.size);
        CHECK(t.checksum == tiny_hash(t.data, (size_t)t.size));
    }
    exercise(&copy);
    vit_model_close(&copy);
    tiny_free(&f);
}

static void test_options(void) {
    for (int i = 0; i < 64; i++) {
        char what[64];
        tiny_options o = tiny_defaults();
        vit_config *c = &o.config;
        vit_model model;
        c->has_cls_token = 1;
        c->has_dist_token = i & 1;
        c->representation_dim = i & 2 ? 11 : 0;
        c->num_classes = i & 4 ? 3 : 0;
        c->has_patch_norm = i >> 3 & 1;
        c->has_qkv_bias = i >> 4 & 1;
        c->depth = i >> 5 & 1;
        snprintf(what, sizeof what, "option set %d", i);
        if (vit_config_check(c, NULL) != VIT_OK) {
            CHECK_MSG(c->has_dist_token, "%s refused", what);
            continue;
        }
        tiny_file f = tiny_build(&o);
        vit_result result = vit_model_open_memory(f.data, f.size, VIT_OPEN_VERIFY, &model);
        CHECK_MSG(result == VIT_OK, "%s: %s", what, model.detail);
        if (result == VIT_OK) {
            exercise(&model);
            vit_model_close(&model);
        }
        tiny_free(&f);
    }
}

/* --- files on disk -------------------------------------------------------- */

static void write_file(char *path, size_t path_size, const char *name, const void *data,
                       size_t size) {
    snprintf(path, path_size, "%s/test_load_%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        printf("cannot write %s\n", path);
        exit(2);
    }
}

static void test_disk(void) {
    static const unsigned flags[] = { 0, VIT_OPEN_VERIFY, VIT_OPEN_COPY,
                                      VIT_OPEN_COPY | VIT_OPEN_VERIFY };
    char path[512];
    tiny_file f = build_small();
    write_file(path, sizeof path, "good.vit", f.data, f.size);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        vit_model model;
        vit_result result = vit_model_open(path, flags[i], &model);
        CHECK_MSG(result == VIT_OK, "flags %u: %s", flags[i], model.detail);
        if (result == VIT_OK) {
            exercise(&model);
            CHECK(vit_model_verify(&model) == VIT_OK);
            vit_model_close(&model);
        }
    }
    remove(path);
    tiny_free(&f);
}

static const char *why_not_there(const char *path) {
#ifdef __wasi__ /* For the path "", the C library of WASI opens the current folder. */
    if (!path[0]) return ": is not a regular file";
#endif
    (void)path;
    return ": cannot be opened: No such file or directory";
}

static void disk_refused(const char *path, vit_result expected) {
    for (unsigned flags = 0; flags <= 3; flags++) {
        vit_model model;
        vit_result result = vit_model_open(path, flags, &model);
        CHECK_MSG(result == expected, "%s: flags %u: %s: %s", path, flags,
                  vit_result_string(result), model.detail);
        CHECK_MSG(strncmp(model.detail, path, strlen(path)) == 0 &&
                      strncmp(model.detail + strlen(path), ": ", 2) == 0,
                  "%s: detail: %s", path, model.detail);
        CHECK_MSG(expected != VIT_ERROR_IO || path[0] == '/' ||
                      strstr(model.detail, why_not_there(path)),
                  "%s: detail: %s", path, model.detail);
    }
}

/* Tests a long path. If the path and the reason do not both fit into the message, the beginning of
 * the path is dropped. Control characters are escaped. */
static void test_long_path(void) {
    char path[400];
    vit_model model;
    memset(path, 'x', sizeof path - 1);
    memcpy(path + sizeof path - 8, "/\033y.vit", 8);
    CHECK(vit_model_open(path, 0, &model) == VIT_ERROR_IO);
    CHECK_MSG(strncmp(model.detail, "...xxx", 6) == 0 &&
                  strstr(model.detail, "x/?y.vit: cannot be opened: "),
              "%s", model.detail);
}

static void test_bad_disk(void) {
    char path[512];
    tiny_file f = build_small();
    disk_refused("build/no such file.vit", VIT_ERROR_IO);
    disk_refused("", VIT_ERROR_IO);
    disk_refused("/", VIT_ERROR_IO);
    write_file(path, sizeof path, "empty.vit", "", 0);
    disk_refused(path, VIT_ERROR_TRUNCATED);
    write_file(path, sizeof path, "short.vit", f.data, 7);
    disk_refused(path, VIT_ERROR_TRUNCATED);
    write_file(path, sizeof path, "text.vit",
               "{\"hello\": 1, \"world\": \"a file of JSON, say\"}  "
               "                                            ",
               90);
    disk_refused(path, VIT_ERROR_MAGIC);
    write_file(path, sizeof path, "cut.vit", f.data, f.size - 1);
    disk_refused(path, VIT_ERROR_TRUNCATED);
    remove(path);
    tiny_free(&f);
    static const char *const names[] = { "empty.vit", "short.vit", "text.vit" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/test_load_%s", folder, names[i]);
        remove(path);
    }
}

/* --- damage --------------------------------------------------------------- */

static void test_truncation(void) {
    tiny_file f = build_small();
    char detail[VIT_MAX_DETAIL];
    int accepted_count = 0, silent = 0, other = 0;
    for (size_t size = 0; size < f.size; size++) {
        tiny_file cut;
        cut.size = size;
        cut.data = tiny_aligned(size);
        memcpy(cut.data, f.data, size);
        vit_result result = open_only(&cut, 0, detail);
        accepted_count += result == VIT_OK;
        silent += detail[0] == 0;
        other += result != VIT_ERROR_TRUNCATED;
        tiny_free(&cut);
    }
    CHECK_MSG(accepted_count == 0, "%d truncated files accepted", accepted_count);
    CHECK_MSG(silent == 0, "%d truncated files refused without detail", silent);
    CHECK_MSG(other == 0, "%d truncated files not called truncated", other);
    tiny_free(&f);
}

static void test_trailing_byte(void) {
    tiny_file f = build_small(), longer;
    longer.size = f.size + 1;
    longer.data = tiny_aligned(longer.size);
    memcpy(longer.data, f.data, f.size);
    refused_somehow("a byte too many", &longer, NULL);
    tiny_free(&longer);
    tiny_free(&f);
}

static void header_flips(tiny_file f) {
    char detail[VIT_MAX_DETAIL];
    int accepted_count = 0;
    for (size_t bit = 0; bit < 8 * meta_size(&f); bit++) {
        f.data[bit / 8] = (unsigned char)(f.data[bit / 8] ^ 1u << bit % 8);
        vit_result result = open_only(&f, 0, detail);
        f.data[bit / 8] = (unsigned char)(f.data[bit / 8] ^ 1u << bit % 8);
        CHECK_MSG(result == VIT_OK || detail[0], "bit %lu: no detail", (unsigned long)bit);
        accepted_count += result == VIT_OK;
    }
    CHECK_MSG(accepted_count == 0, "%d flipped bits accepted", accepted_count);
    accepted("flipped back", &f);
    tiny_free(&f);
}

static void test_header_flips(void) {
    header_flips(build_small());
    header_flips(build_kind(VIT_NUM_DTYPES));
}

/* Flips one bit in each byte of the data and of the gaps in the data. */
static void data_flips(tiny_file f) {
    char detail[VIT_MAX_DETAIL];
    int missed = 0, refused_unverified = 0;
    for (size_t i = meta_size(&f); i < f.size; i++) {
        f.data[i] = (unsigned char)(f.data[i] ^ 1u << i % 8);
        missed += open_only(&f, VIT_OPEN_VERIFY, detail) == VIT_OK;
        refused_unverified += open_only(&f, 0, detail) != VIT_OK;
        f.data[i] = (unsigned char)(f.data[i] ^ 1u << i % 8);
    }
    CHECK_MSG(missed == 0, "%d flipped data bits missed", missed);
    /* vit_model_open reads mean and std, so it may refuse a few of their flipped bits even without
     * verifying the file. */
    CHECK_MSG(refused_unverified <= 64, "%d flips refused by a plain open", refused_unverified);
    tiny_free(&f);
}

static void test_data_flips(void) {
    data_flips(build_small());
    data_flips(build_kind(VIT_I8));
    data_flips(build_kind(VIT_I4));
}

/* Tests the bytes after the last tensor, which must be zeros. */
static void test_tail(void) {
    char detail[VIT_MAX_DETAIL];
    tiny_file small = build_small(), f = { tiny_aligned(small.size + VIT_ALIGN), small.size };
    memcpy(f.data, small.data, small.size);
    f.size += VIT_ALIGN;
    tiny_put(f.data + VIT_HEADER_FILE_SIZE, f.size, 8);
    tiny_rehash(&f);
    accepted("zeros behind the last tensor", &f);
    f.data[f.size - 1] = 1;
    CHECK(open_only(&f, 0, detail) == VIT_OK);
    CHECK(open_only(&f, VIT_OPEN_VERIFY, detail) == VIT_ERROR_CORRUPT);
    CHECK_MSG(strcmp(detail, "a gap between tensors is not zero") == 0, "%s", detail);
    tiny_free(&f);
    tiny_free(&small);
}

static void test_verify_names_tensor(void) {
    tiny_file f = build_small();
    vit_model model;
    unsigned char *record = tiny_find(&f, "tensors", VIT_TENSOR_SIZE, "blocks.0.mlp.fc1.weight");
    CHECK(record != NULL);
    if (record) {
        f.data[tiny_get(record + VIT_TENSOR_OFFSET, 8) + 5] ^= 4;
        CHECK(vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK);
        CHECK(vit_model_verify(&model) == VIT_ERROR_CORRUPT);
        CHECK_MSG(strstr(model.detail, "blocks.0.mlp.fc1.weight"), "%s", model.detail);
        vit_model_close(&model);
        CHECK(vit_model_open_memory(f.data, f.size, VIT_OPEN_VERIFY, &model) == VIT_ERROR_CORRUPT);
        CHECK_MSG(strstr(model.detail, "blocks.0.mlp.fc1.weight"), "%s", model.detail);
    }
    tiny_free(&f);
}

/* Sets each byte of the metadata to ten other values, or to all 255 other values, and corrects the
 * checksum. If the file is accepted, it must be harmless. */
static void byte_values(tiny_file f) {
    static const unsigned char some[] = { 1, 2, 15, 64, 127, 128, 129, 192, 254, 255 };
    for (size_t i = 0; i < meta_size(&f); i++) {
        unsigned char before = f.data[i];
        for (int k = 0; k < (every_value ? 255 : 10); k++) {
            vit_model model;
            tiny_file changed = f;
            if (i >= VIT_HEADER_META_SIZE && i < VIT_HEADER_META_SIZE + 16) {
                continue; /* The checksum depends on these bytes; see test_header_flips. */
            }
            f.data[i] = (unsigned char)(before + (every_value ? k + 1 : some[k]));
            tiny_rehash(&changed);
            if (vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK) {
                exercise(&model);
                vit_model_close(&model);
            }
        }
        f.data[i] = before;
    }
    tiny_rehash(&f);
    accepted("bytes restored", &f);
    tiny_free(&f);
}

static void test_byte_values(void) {
    byte_values(build_small());
    byte_values(build_kind(VIT_NUM_DTYPES));
}

/* --- header --------------------------------------------------------------- */

static void test_magic_and_version(void) {
    tiny_file f = build_small();
    for (int i = 0; i < 8; i++) {
        f.data[i] ^= 0x20;
        tiny_rehash(&f);
        refused("magic", &f, VIT_ERROR_MAGIC, NULL, NULL, NULL);
        f.data[i] ^= 0x20;
    }
    tiny_file text;
    text.size = 8;
    text.data = tiny_aligned(8);
    memcpy(text.data, "some tex", 8);
    refused("a short text", &text, VIT_ERROR_MAGIC, NULL, NULL, NULL);
    tiny_free(&text);
    tiny_put(f.data + VIT_HEADER_VERSION, 2, 4);
    tiny_rehash(&f);
    refused("version 2", &f, VIT_ERROR_VERSION, "2", NULL, NULL);
    tiny_put(f.data + VIT_HEADER_VERSION, 0, 4);
    tiny_rehash(&f);
    refused("version 0", &f, VIT_ERROR_VERSION, NULL, NULL, NULL);
    tiny_free(&f);
}

static void header_refused(const char *what, int offset, uint64_t value, int bytes) {
    tiny_file f = build_small();
    tiny_put(f.data + offset, value, bytes);
    if (offset != VIT_HEADER_META_SIZE) {
        tiny_rehash(&f);
    }
    refused_somehow(what, &f, NULL);
    tiny_free(&f);
}

static void test_header_fields(void) {
    static const uint64_t sizes[] = { 0,
                                      1,
                                      63,
                                      64,
                                      1000,
                                      1u << 31,
                                      (uint64_t)1 << 32,
                                      (uint64_t)1 << 63,
                                      UINT64_MAX,
                                      UINT64_MAX - 63 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        header_refused("file_size", VIT_HEADER_FILE_SIZE, sizes[i], 8);
        header_refused("meta_size", VIT_HEADER_META_SIZE, sizes[i], 8);
        if (sizes[i] <= UINT32_MAX && sizes[i] != 6) {
            header_refused("num_sections", VIT_HEADER_NUM_SECTIONS, sizes[i], 4);
        }
    }
    header_refused("num_sections", VIT_HEADER_NUM_SECTIONS, UINT32_MAX, 4);
}

static void test_alignment(void) {
    tiny_file f = build_small();
    unsigned char *block = tiny_aligned(f.size + 64);
    for (size_t shift = 0; shift < 64; shift++) {
        vit_model model;
        memcpy(block + shift, f.data, f.size);
        vit_result result = vit_model_open_memory(block + shift, f.size, 0, &model);
        vit_result expected = shift % 16 ? VIT_ERROR_ALIGNMENT : VIT_OK;
        CHECK_MSG(result == expected, "shift %lu: %s", (unsigned long)shift,
                  vit_result_string(result));
        CHECK(result == VIT_OK || model.detail[0]);
        if (result == VIT_OK) {
            exercise(&model);
            vit_model_close(&model);
        }
    }
    free(block);
    tiny_free(&f);
}

/* --- sections ------------------------------------------------------------- */

static void section_refused(const char *tag, int offset, uint64_t value, int bytes) {
    char what[96];
    tiny_file f = build_small();
    unsigned char *entry = tiny_find_section(&f, tag);
    CHECK(entry != NULL);
    if (entry) {
        snprintf(what, sizeof what, "section %s, byte %d = %llx", tag, offset,
                 (unsigned long long)value);
        tiny_put(entry + offset, value, bytes);
        tiny_rehash(&f);
        refused_somehow(what, &f, NULL);
    }
    tiny_free(&f);
}

static void test_section_table(void) {
    static const char *const tags[] = {
        "fields", "tensors", "labels", "synsets", "source", "data"
    };
    static const uint64_t places[] = { 4, 1u << 20, (uint64_t)1 << 62, UINT64_MAX - 7, UINT64_MAX };
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
            section_refused(tags[i], VIT_SECTION_OFFSET, places[k], 8);
            if (places[k] > 8) {
                section_refused(tags[i], VIT_SECTION_BYTES, places[k], 8);
            }
        }
        if (i < 4) {
            section_refused(tags[i], VIT_SECTION_COUNT, 0x7fffffff, 4);
            section_refused(tags[i], VIT_SECTION_COUNT, 0xffffffff, 4);
            section_refused(tags[i], VIT_SECTION_COUNT, 0x40000001, 4);
            section_refused(tags[i], VIT_SECTION_BYTES, 0, 8);
        }
        if (i < 2) {
            section_refused(tags[i], VIT_SECTION_COUNT, 1, 4);
            section_refused(tags[i], VIT_SECTION_COUNT, 0, 4);
        }
    }
    section_refused("data", VIT_SECTION_BYTES, 64, 8);
    section_refused("data", VIT_SECTION_OFFSET, 0, 8);
}

/* Renames each required section in turn, so that it is missing. */
static void test_missing_sections(void) {
    static const char *const tags[] = { "fields", "tensors", "data" };
    for (int i = 0; i < 3; i++) {
        tiny_file f = build_small();
        unsigned char *entry = tiny_find_section(&f, tags[i]);
        entry[0] = 'X';
        tiny_put(entry + VIT_SECTION_REQUIRED, 0, 4);
        tiny_rehash(&f);
        refused_somehow("missing section", &f, tags[i]);
        tiny_free(&f);
    }
}

static void test_duplicate_section(void) {
    tiny_file f = build_small();
    unsigned char *labels = tiny_find_section(&f, "labels");
    unsigned char *synsets = tiny_find_section(&f, "synsets");
    memcpy(synsets, labels, VIT_SECTION_SIZE);
    tiny_rehash(&f);
    refused_somehow("two sections of labels", &f, "labels");
    tiny_free(&f);
}

static void test_unknown_sections(void) {
    tiny_options o = tiny_defaults();
    o.extra_section = "rope";
    tiny_file f = tiny_build(&o);
    accepted("optional unknown section", &f);
    tiny_free(&f);
    o.extra_section_required = 1;
    f = tiny_build(&o);
    refused("required unknown section", &f, VIT_ERROR_UNSUPPORTED, "rope", NULL, NULL);
    tiny_free(&f);
    /* This name fills the whole tag, so that the file has no terminator for it. */
    o.extra_section = "eightchr";
    f = tiny_build(&o);
    refused("required unknown section", &f, VIT_ERROR_UNSUPPORTED, "eightchr", NULL, NULL);
    tiny_free(&f);
}

/* Tests texts of labels and synsets that continue beyond the end of their section. */
static void test_strings(void) {
    static const char *const tags[] = { "labels", "synsets" };
    static const uint32_t offsets[] = { 0xffffffff, 0x7fffffff, 100000, 60000 };
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 5; i++) {
            for (size_t k = 0; k < sizeof offsets / sizeof offsets[0]; k++) {
                tiny_file f = build_small();
                tiny_put(tiny_section_data(&f, tags[t]) + 4 * i, offsets[k], 4);
                tiny_rehash(&f);
                refused_somehow("string outside its section", &f, NULL);
                tiny_free(&f);
            }
        }
        tiny_file f = build_small();
        unsigned char *entry = tiny_find_section(&f, tags[t]);
        size_t bytes = (size_t)tiny_get(entry + VIT_SECTION_BYTES, 8);
        /* This is the first byte after the section. */
        tiny_put(tiny_section_data(&f, tags[t]), bytes, 4);
        tiny_rehash(&f);
        refused_somehow("string at the end of its section", &f, NULL);
        unsigned char *end = tiny_section_data(&f, tags[t]) + bytes;
        end[-1] = 'x';
        tiny_rehash(&f);
        refused_somehow("strings without an end", &f, NULL);
        tiny_free(&f);
    }
    tiny_file f = build_small();
    unsigned char *entry = tiny_find_section(&f, "source");
    tiny_section_data(&f, "source")[tiny_get(entry + VIT_SECTION_BYTES, 8) - 1] = 'x';
    tiny_rehash(&f);
    refused_somehow("source without an end", &f, "source");
    tiny_put(entry + VIT_SECTION_BYTES, 0, 8);
    tiny_rehash(&f);
    refused("source of no bytes", &f, VIT_ERROR_CORRUPT, "section \"source\" is cut off", NULL,
            NULL);
    tiny_free(&f);
}

/* Tests a section without any labels, which must count as missing. */
static void test_no_strings(void) {
    vit_model model;
    tiny_file f = build_small();
    tiny_put(tiny_find_section(&f, "labels") + VIT_SECTION_COUNT, 0, 4);
    tiny_rehash(&f);
    CHECK(vit_model_open_memory(f.data, f.size, VIT_OPEN_VERIFY, &model) == VIT_OK);
    CHECK(vit_label(&model, 0) == NULL && strcmp(vit_synset(&model, 0), "n00000000") == 0);
    vit_model_close(&model);
    tiny_free(&f);
}

/* --- fields --------------------------------------------------------------- */

static void test_unknown_fields(void) {
    for (int type = 0; type <= 1; type++) {
        tiny_options o = tiny_defaults();
        o.extra_field = "rope_theta";
        o.extra_type = type;
        tiny_file f = tiny_build(&o);
        accepted("optional unknown field", &f);
        tiny_free(&f);
        o.extra_required = 1;
        f = tiny_build(&o);
        refused("required unknown field", &f, VIT_ERROR_UNSUPPORTED, "rope_theta", NULL, NULL);
        tiny_free(&f);
        /* This name fills the whole record, so that it has no terminator. */
        o.extra_field = "a_name_of_24_characters_";
        f = tiny_build(&o);
        refused("required unknown field", &f, VIT_ERROR_UNSUPPORTED, "a_name_of_24_characters_",
                NULL, NULL);
        tiny_free(&f);
    }
}

static void one_missing_field(const char *name, int required) {
    tiny_options o = tiny_defaults();
    o.skip_field = name;
    o.selftest = NULL;
    tiny_file f = tiny_build(&o);
    if (required == 1) {
        refused_somehow(name, &f, name);
    } else if (strcmp(name, "selftest_tolerance") == 0) {
        /* The field is missing, but the expected outputs of the self-test are still there. */
        refused_somehow(name, &f, "selftest");
    } else {
        char detail[VIT_MAX_DETAIL];
        vit_result result = open_only(&f, 0, detail);
        CHECK_MSG(result == VIT_OK, "without %s: %s", name, detail);
    }
    tiny_free(&f);
}

static void test_missing_fields(void) {
#define MISSING(type, name, required, smallest, largest) one_missing_field(#name, required);
    VIT_FIELD_LIST(MISSING)
#undef MISSING
}

static void field_refused(const char *name, uint32_t bits) {
    char what[96];
    tiny_file f = build_small();
    snprintf(what, sizeof what, "%s = 0x%x", name, (unsigned)bits);
    tiny_set_field(&f, name, bits);
    refused_somehow(what, &f, name);
    tiny_free(&f);
}

static void one_field_range(const char *name, bool is_float, double smallest, double largest) {
    if (is_float) {
        field_refused(name, tiny_bits_float(largest * 2 + 1));
        field_refused(name, tiny_bits_float(smallest * 2 - 1));
        field_refused(name, 0x7fc00000);
        field_refused(name, 0x7f800000);
        field_refused(name, 0xff800000);
        field_refused(name, 0xffffffff);
    } else {
        if (largest < 2147483647.0) {
            field_refused(name, tiny_bits_int(largest + 1));
            field_refused(name, 0x7fffffff);
        }
        field_refused(name, tiny_bits_int(smallest - 1));
        field_refused(name, 0x80000000);
        field_refused(name, 0xffffffff);
    }
}

static void test_field_ranges(void) {
    enum { is_int = 0, is_float = 1 };
#define RANGE(type, name, required, smallest, largest)                                             \
    one_field_range(#name, is_##type, (double)(smallest), (double)(largest));
    VIT_FIELD_LIST(RANGE)
#undef RANGE
}

static void test_field_records(void) {
    tiny_file f = build_small();
    unsigned char *record = tiny_find(&f, "fields", VIT_FIELD_SIZE, "embed_dim");
    record[VIT_FIELD_TYPE] = 1;
    tiny_rehash(&f);
    refused_somehow("embed_dim as float", &f, "embed_dim");
    record[VIT_FIELD_TYPE] = 9;
    tiny_rehash(&f);
    refused_somehow("embed_dim of type 9", &f, "embed_dim");
    record[VIT_FIELD_TYPE] = 0;
    memcpy(record, "depth\0\0\0\0\0", 10);
    tiny_rehash(&f);
    refused_somehow("depth twice, embed_dim never", &f, NULL);
    tiny_free(&f);
    tiny_options o = tiny_defaults();
    o.config.depth = 1;
    o.extra_field = "depth"; /* The field already has this value. */
    f = tiny_build(&o);
    refused_somehow("depth twice", &f, "depth");
    tiny_free(&f);
}

/* --- tensors -------------------------------------------------------------- */

/* Tests fields that contradict the tensors. The message must contain the tensor and both shapes, if
 * the table states them. */
static void test_contradictions(void) {
    static const struct {
        const char *field;
        uint32_t value;
        const char *tensor, *found, *expected;
    } cases[] = {
        { "num_classes", 6, "head.weight", "[5, 16]", "[6, 16]" },
        { "mlp_dim", 25, "blocks.0.mlp.fc1.weight", "[24, 16]", "[25, 16]" },
        { "embed_dim", 17, NULL, "16", "17" },
        { "patch_size", 2, NULL, NULL, NULL },
        { "patch_stride", 2, "pos_embed", "5", "10" },
        { "in_chans", 4, NULL, NULL, NULL },
        { "img_height", 16, "pos_embed", "5", "9" },
        { "num_heads", 3, "blocks.0.attn.qkv.weight", "[48, 16]", "[72, 16]" },
        { "head_dim", 7, "blocks.0.attn.qkv.weight", "[48, 16]", "[42, 16]" },
        { "depth", 2, NULL, NULL, NULL },
        { "depth", 0, NULL, NULL, NULL },
        { "has_qkv_bias", 0, NULL, NULL, NULL },
        { "has_patch_pre_norm", 1, NULL, NULL, NULL },
        { "has_patch_norm", 1, NULL, NULL, NULL },
        { "has_dist_token", 1, NULL, NULL, NULL },
        { "representation_dim", 4, NULL, NULL, NULL },
        { "num_classes", 0, NULL, NULL, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_options o = tiny_defaults();
        o.config.depth = 1;
        tiny_file f = tiny_build(&o);
        tiny_set_field(&f, cases[i].field, cases[i].value);
        refused(cases[i].field, &f, VIT_ERROR_CORRUPT, cases[i].tensor, cases[i].found,
                cases[i].expected);
        tiny_free(&f);
    }
}

static void tensor_refused(const char *what, int offset, uint64_t value, int bytes) {
    tiny_file f = build_small();
    unsigned char *record = tiny_find(&f, "tensors", VIT_TENSOR_SIZE, "blocks.0.attn.proj.weight");
    CHECK(record != NULL);
    if (record) {
        tiny_put(record + offset, value, bytes);
        tiny_rehash(&f);
        refused_somehow(what, &f, offset == 0 ? "proj" : "blocks.0.attn.proj.weight");
    }
    tiny_free(&f);
}

static void test_tensor_records(void) {
    static const uint64_t offsets[] = { 0,         32, 63, 64, (uint64_t)1 << 40, UINT64_MAX - 63,
                                        UINT64_MAX };
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        tensor_refused("offset", VIT_TENSOR_OFFSET, offsets[i], 8);
        tensor_refused("size", VIT_TENSOR_BYTES, offsets[i], 8);
    }
    tensor_refused("dtype", VIT_TENSOR_DTYPE, VIT_NUM_DTYPES, 4);
    tensor_refused("dtype", VIT_TENSOR_DTYPE, 0xffffffff, 4);
    for (int dtype = VIT_F16; dtype < VIT_NUM_DTYPES; dtype++) {
        tensor_refused("another dtype of f32 size", VIT_TENSOR_DTYPE, (uint64_t)dtype, 4);
    }
    tensor_refused("layout", VIT_TENSOR_LAYOUT, VIT_LAYOUT_PLAIN, 4);
    tensor_refused("layout", VIT_TENSOR_LAYOUT, VIT_LAYOUT_GROUPS, 4);
    tensor_refused("layout", VIT_TENSOR_LAYOUT, VIT_NUM_LAYOUTS, 4);
    tensor_refused("ndim", VIT_TENSOR_NDIM, 0, 4);
    tensor_refused("ndim", VIT_TENSOR_NDIM, 1, 4);
    tensor_refused("ndim", VIT_TENSOR_NDIM, 5, 4);
    tensor_refused("ndim", VIT_TENSOR_NDIM, 0xffffffff, 4);
    tensor_refused("dims", VIT_TENSOR_DIMS, 17, 4);
    tensor_refused("dims", VIT_TENSOR_DIMS + 4, 0, 4);
    tensor_refused("dims", VIT_TENSOR_DIMS + 4, 0xffffffff, 4);
    tensor_refused("name", 0, 'c', 1);
    tensor_refused("name without an end", 24, UINT64_MAX / 255 * 'a', 8);
}

static unsigned char *tensor_record(const tiny_file *f, const char *name) {
    unsigned char *record = tiny_find(f, "tensors", VIT_TENSOR_SIZE, name);
    if (!record) {
        printf("no tensor %s\n", name);
        exit(2);
    }
    return record;
}

/* Tests tensors of each type whose size is wrong by 1 to 128 bytes. */
static void test_panel_sizes(void) {
    static const int off[] = { -128, -64, -32, -4, -1, 1, 2, 4, 64, 128 };
    for (int kind = 0; kind < VIT_NUM_DTYPES; kind++) {
        for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
            char what[64];
            tiny_file f = build_kind(kind);
            unsigned char *record = tensor_record(&f, "blocks.0.attn.proj.weight");
            uint64_t size = tiny_get(record + VIT_TENSOR_BYTES, 8) + (uint64_t)(int64_t)off[i];
            tiny_put(record + VIT_TENSOR_BYTES, size, 8);
            tiny_rehash(&f);
            snprintf(what, sizeof what, "dtype %d with %d bytes more", kind, off[i]);
            refused_somehow(what, &f, "blocks.0.attn.proj.weight");
            tiny_free(&f);
        }
    }
}

/* Tests a layer of depth 3 in an int8 model. The layer must be f32. An int8 layer with padding
 * would have the same size as f32, but no other type would. */
static void test_int8_depth(void) {
    tiny_options o = tiny_defaults();
    o.dtype = VIT_I8;
    o.config.num_heads = 1;
    o.config.head_dim = 3;
    tiny_file f = tiny_build(&o);
    unsigned char *record = tensor_record(&f, "blocks.1.attn.proj.weight");
    CHECK(tiny_get(record + VIT_TENSOR_DTYPE, 4) == VIT_F32);
    CHECK(tiny_get(record + VIT_TENSOR_BYTES, 8) == vit_pack_panel(VIT_I8, NULL, 16, 3, NULL));
    accepted("int8 model with an f32 layer", &f);
    tiny_put(record + VIT_TENSOR_DTYPE, VIT_I8, 4);
    tiny_rehash(&f);
    refused("int8 of depth 3", &f, VIT_ERROR_CORRUPT, "blocks.1.attn.proj.weight", "f32", "int8");
    tiny_free(&f);
}

/* Tests int4 in the form of version 0.1.0. */
static void test_old_int4(void) {
    tiny_file f = build_kind(VIT_I4);
    tiny_put(tensor_record(&f, "blocks.0.mlp.fc2.weight") + VIT_TENSOR_LAYOUT, VIT_LAYOUT_PANELS,
             4);
    tiny_rehash(&f);
    refused("int4 in panels", &f, VIT_ERROR_UNSUPPORTED, "blocks.0.mlp.fc2.weight", "int4",
            "convert the checkpoint again");
    tiny_free(&f);
}

/* Checks that a file is refused if its positions, a norm or a bias have a smaller type than f32. */
static void test_plain_dtype(void) {
    static const char *const names[] = { "pos_embed", "blocks.0.norm1.weight", "head.bias" };
    for (int i = 0; i < 3; i++) {
        for (int dtype = VIT_F16; dtype < VIT_NUM_DTYPES; dtype++) {
            tiny_file f = build_kind(dtype);
            tiny_put(tensor_record(&f, names[i]) + VIT_TENSOR_DTYPE, (uint64_t)dtype, 4);
            tiny_rehash(&f);
            refused_somehow("plain tensor of a small type", &f, names[i]);
            tiny_free(&f);
        }
    }
}

/* --- hostile numbers ------------------------------------------------------ */

/* Sets every byte of each layer's weights to `byte`. 256 stands for random bytes. */
static void overwrite_layers(tiny_file *f, const vit_model *model, int byte, uint32_t *state) {
    vit_tensor t;
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        unsigned char *data = f->data + t.offset;
        for (size_t k = 0; t.layout != VIT_LAYOUT_PLAIN && k < (size_t)t.size; k++) {
            *state = *state * 1664525u + 1013904223u;
            data[k] = (unsigned char)(byte < 256 ? (uint32_t)byte : *state >> 24);
        }
    }
}

/* Tests hostile weights. Whatever a file contains, a forward pass and unpacking must not access
 * other memory, on any instruction set. */
static void test_hostile_weights(void) {
    static const int bytes[] = { 0, 0x7f, 0x80, 0xff, 256, 256, 256 };
    uint32_t state = 77;
    for (int kind = 0; kind <= VIT_NUM_DTYPES; kind++) {
        tiny_file f = build_kind(kind);
        vit_model model;
        vit_tensor t;
        float row[256];
        CHECK(vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK);
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            overwrite_layers(&f, &model, bytes[i], &state);
            FOR_EACH_ISA(isa) { exercise_on(&model, (vit_isa)isa); }
            for (int n = 0; vit_model_tensor(&model, n, &t); n++) {
                vit_unpack_row(&t, t.dims[0] - 1, row);
            }
        }
        vit_model_close(&model);
        tiny_free(&f);
    }
}

/* Sets all scales of each int8 panel to `scale`, and all sums to *sum. If `sum` is NULL, the sums
 * stay unchanged. */
static void set_int8_tails(tiny_file *f, const vit_model *model, uint32_t scale,
                           const uint32_t *sum) {
    vit_tensor t;
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        int depth = (int)(tiny_count(&t) / (size_t)t.dims[0]);
        size_t panel = vit_pack_panel(t.dtype, NULL, 16, depth, NULL);
        size_t columns = t.dtype == VIT_I8 ? (size_t)t.size / panel * 16 : 0;
        for (size_t k = 0; k < columns; k++) {
            unsigned char *tail = f->data + t.offset + (k / 16 + 1) * panel - 128 + k % 16 * 4;
            tiny_put(tail, scale, 4);
            if (sum) {
                tiny_put(tail + 64, *sum, 4);
            }
        }
    }
}

static void run_logits(const vit_model *model, vit_isa isa, float logits[5]) {
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    float input[3 * 8 * 8];
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.isa = isa;
    outputs.logits = logits;
    vit_selftest_input(&model->config, input);
    size_t size = vit_workspace_size(model, &params);
    void *workspace = tiny_allocate(size);
    CHECK(vit_session_init(&session, model, &params, workspace, size) == VIT_OK);
    CHECK(vit_forward(&session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    free(workspace);
}

/* Tests invalid scales and sums. They must not cause a trap, and must give the same bits on each
 * instruction set. If the sums are wrong, plain C may differ from instruction sets whose kernels
 * have signed inputs (ARM). */
static void test_hostile_int8(void) {
    static const uint32_t scales[] = { 0x3c000000, 0,          0x00000001, 0x7f7fffff,
                                       0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000 };
    static const uint32_t sums[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x55555555 };
    tiny_file f = build_kind(VIT_I8);
    vit_model model;
    CHECK(vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK);
    for (int i = 0; i < 8 * 7; i++) {
        const uint32_t *sum = i >= 8 ? &sums[(i - 8) % 6] : NULL;
        const uint32_t scale = scales[i >= 8 ? (i - 8) / 6 : i];
        float base[5], logits[5];
        set_int8_tails(&f, &model, scale, sum);
        run_logits(&model, sum ? VIT_ISA_AUTO : VIT_ISA_SCALAR, base);
        FOR_EACH_ISA_LIKE(isa, sum ? vit_detect_isa() : VIT_ISA_SCALAR) {
            run_logits(&model, (vit_isa)isa, logits);
            for (int k = 0; k < 5 && !(sum && isa == VIT_ISA_SCALAR); k++) {
                bool both_nan = base[k] != base[k] && logits[k] != logits[k];
                CHECK_MSG(both_nan || memcmp(&base[k], &logits[k], 4) == 0,
                          "scale 0x%x, sum 0x%x, %s: %g, not %g", (unsigned)scale,
                          sum ? (unsigned)*sum : 0, vit_isa_name((vit_isa)isa), (double)logits[k],
                          (double)base[k]);
            }
        }
    }
    vit_model_close(&model);
    tiny_free(&f);
}

/* Corrects the sums of a panel whose weights have changed. The sums are its last 64 bytes. */
static void keep_sums(const unsigned char *record, unsigned char *panel) {
    const int depth = (int)tiny_get(record + 80, 4);
    unsigned char *sums = panel + vit_pack_panel(VIT_I8, NULL, 16, depth, NULL) - 64;
    for (int n = 0; n < 16; n++) {
        int32_t sum = 0;
        for (int k = 0; k < depth; k++) {
            sum += (signed char)panel[k / 4 * 64 + n % 16 * 4 + k % 4];
        }
        tiny_put(sums + n * 4, (uint32_t)sum, 4);
    }
}

/* Tests weights that break the rule of section "fits16". VIT_OPEN_VERIFY must detect such weights.
 * Builds whose kernels rely on the rule must detect such weights even without VIT_OPEN_VERIFY. All
 * other builds must give the logits of plain C. */
static void test_fits16(void) {
    tiny_options o = tiny_defaults();
    char detail[VIT_MAX_DETAIL];
    vit_model model;
    float base[5], logits[5];
    o.dtype = VIT_I8;
    o.fits16 = 1;
    tiny_file f = tiny_build(&o);
    unsigned char *record = tiny_find(&f, "tensors", VIT_TENSOR_SIZE, "blocks.0.mlp.fc1.weight");
    unsigned char *data = f.data + tiny_get(record + VIT_TENSOR_OFFSET, 8);
    CHECK_MSG(open_only(&f, VIT_OPEN_VERIFY, detail) == VIT_OK, "%s", detail);
    /* These are two weights of the same lane. */
    data[0] = 100, data[1] = 28;
    data[4] = 0x80, data[5] = data[6] = data[7] = 0x81; /* These are -128, and -127 three times. */
    keep_sums(record, data);
    tiny_put(record + VIT_TENSOR_CHECKSUM,
             tiny_hash(data, (size_t)tiny_get(record + VIT_TENSOR_BYTES, 8)), 8);
    tiny_rehash(&f);
    CHECK(open_only(&f, VIT_OPEN_VERIFY, detail) == VIT_ERROR_CORRUPT);
    CHECK_MSG(strcmp(detail, "blocks.0.mlp.fc1.weight: damaged: its sums do not fit 16 "
                             "bits, against \"fits16\"") == 0,
              "%s", detail);
    if (open_only(&f, 0, detail) == VIT_OK) {
        CHECK(vit_model_open_memory(f.data, f.size, 0, &model) == VIT_OK);
        run_logits(&model, VIT_ISA_SCALAR, base);
        FOR_EACH_ISA_LIKE(isa, VIT_ISA_SCALAR) {
            run_logits(&model, (vit_isa)isa, logits);
            CHECK_MSG(memcmp(base, logits, sizeof base) == 0, "%s: other bits",
                      vit_isa_name((vit_isa)isa));
        }
        vit_model_close(&model);
    } else {
        CHECK_MSG(strstr(detail, "do not fit 16 bits"), "%s", detail);
    }
    tiny_put(tiny_find_section(&f, "fits16") + VIT_SECTION_BYTES, 8, 8);
    tiny_rehash(&f);
    refused("short section", &f, VIT_ERROR_CORRUPT, "section \"fits16\" is cut off", NULL, NULL);
    /* Without the section "fits16", the file is valid. */
    memcpy(tiny_find_section(&f, "fits16"), "unknown", 8);
    tiny_rehash(&f);
    CHECK_MSG(open_only(&f, VIT_OPEN_VERIFY, detail) == VIT_OK, "%s", detail);
    tiny_free(&f);
}

/* Tests names that fill all 64 bytes. Reading such a name must stop at its end. */
static void test_unterminated_name(void) {
    tiny_file f = build_small();
    unsigned char *record = tiny_section_data(&f, "tensors");
    memset(record, 'z', 64);
    tiny_rehash(&f);
    refused_somehow("name of 64 characters", &f, "zzz");
    tiny_free(&f);
}

/* Tests two tensors that share bytes. The file must be refused, because the data must be in the
 * order of the records. */
static void test_overlap(void) {
    tiny_file f = build_small();
    unsigned char *a = tiny_find(&f, "tensors", VIT_TENSOR_SIZE, "blocks.0.norm1.weight");
    unsigned char *b = tiny_find(&f, "tensors", VIT_TENSOR_SIZE, "blocks.0.norm1.bias");
    CHECK(a && b);
    if (a && b) {
        tiny_put(b + VIT_TENSOR_OFFSET, tiny_get(a + VIT_TENSOR_OFFSET, 8), 8);
        tiny_rehash(&f);
        refused_somehow("overlapping tensors", &f, "blocks.0.norm1.bias");
    }
    tiny_free(&f);
}

/* Tests a std of zero, NaN or infinity, and means beyond 65536. */
static void test_mean_std(void) {
    static const float bad[] = { 0.0f, -0.0f, (float)NAN, (float)INFINITY };
    for (int i = 0; i < 4; i++) {
        char detail[VIT_MAX_DETAIL];
        tiny_options o = tiny_defaults();
        o.config.std[1] = bad[i];
        o.unchecked = 1;
        tiny_file f = tiny_build(&o);
        CHECK_MSG(open_only(&f, 0, detail) != VIT_OK, "std %g accepted", (double)bad[i]);
        tiny_free(&f);
    }
    for (int i = 0; i < 4; i++) { /* The border's colour is rounded to an integer. */
        static const float means[] = { 65536, -65536, 65544, -3e38f };
        char detail[VIT_MAX_DETAIL];
        tiny_options o = tiny_defaults();
        o.config.mean[1] = means[i];
        o.config.crop_mode = VIT_CROP_BORDER;
        o.unchecked = 1;
        tiny_file f = tiny_build(&o);
        CHECK_MSG((open_only(&f, 0, detail) == VIT_OK) == (i < 2), "mean %g", (double)means[i]);
        tiny_free(&f);
    }
}

/* --- arguments ------------------------------------------------------------ */

static void test_arguments(void) {
    tiny_file f = build_small();
    vit_model model;
    memset(&model, 0, sizeof model);
    CHECK(vit_model_open_memory(NULL, f.size, 0, &model) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_open_memory(f.data, f.size, 0, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_open(NULL, 0, &model) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_open("build/x.vit", 0, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_open_memory(f.data, 0, 0, &model) == VIT_ERROR_TRUNCATED);
    vit_model_close(&model); /* Closing is also harmless after opening has failed. */
    tiny_free(&f);
}

int main(int argc, char **argv) {
    every_value = argc > 2 && strcmp(argv[2], "all") == 0;
    test_good();
    test_without_optional_sections();
    test_zero_copy();
    test_options();
    test_disk();
    test_bad_disk();
    test_long_path();
    test_truncation();
    test_trailing_byte();
    test_header_flips();
    test_data_flips();
    test_tail();
    test_verify_names_tensor();
    test_fits16();
    test_byte_values();
    test_magic_and_version();
    test_header_fields();
    test_alignment();
    test_section_table();
    test_missing_sections();
    test_duplicate_section();
    test_unknown_sections();
    test_strings();
    test_no_strings();
    test_unknown_fields();
    test_missing_fields();
    test_field_ranges();
    test_field_records();
    test_contradictions();
    test_tensor_records();
    test_panel_sizes();
    test_int8_depth();
    test_old_int4();
    test_plain_dtype();
    test_hostile_weights();
    test_hostile_int8();
    test_unterminated_name();
    test_overlap();
    test_mean_std();
    test_arguments();
    return test_summary();
}
