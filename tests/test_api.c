/* test_api.c - tests every public function: its results, its refusals, and the memory that it must
 * not touch.
 *
 * Models are built in memory by tiny_model.h; test_load.c opens damaged models. The counters below
 * count allocations, new threads and reads of files, so that each call can fail in turn. The
 * functions below also replace the system's reports of cores and of CPU features.
 */
#include <stddef.h>
#if !defined(VIT_NO_THREADS)
#include <pthread.h>
#endif
#if !defined(VIT_NO_THREADS) && !defined(_WIN32)
#define SYSTEM_FAILS
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#if defined(__GNUC__) && defined(__x86_64__) && !defined(_WIN32)
#define OTHER_CPUS
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#define OTHER_ARM_CPUS
#include <sys/auxv.h>
#endif

static void *counting_malloc(size_t size);
static void counting_free(void *block);
#define VIT_MALLOC(size) counting_malloc(size)
#define VIT_FREE(ptr)    counting_free(ptr)

#if defined(SYSTEM_FAILS)
static int failing_create(pthread_t *thread, void *(*start)(void *), void *arg);
static int failing_mutex(pthread_mutex_t *mutex);
static int failing_cond(pthread_cond_t *cond);
static int failing_stat(int file, struct stat *status);
static void *failing_map(size_t size, int file);
static int failing_seek(FILE *file, int from);
static long failing_tell(FILE *file);
static size_t failing_read(void *to, size_t size, FILE *file);
static long other_cores(void);
#define pthread_create(thread, attributes, start, arg) failing_create(thread, start, arg)
#define pthread_mutex_init(mutex, attributes)          failing_mutex(mutex)
#define pthread_cond_init(cond, attributes)            failing_cond(cond)
#define fstat(file, status)                            failing_stat(file, status)
#define mmap(at, size, access, flags, file, offset)    failing_map(size, file)
#define fseek(file, offset, from)                      failing_seek(file, from)
#define ftell(file)                                    failing_tell(file)
#define fread(to, item, count, file)                   failing_read(to, count, file)
#define sysconf(name)                                  other_cores()
#endif

#if defined(OTHER_CPUS)
static void true_cpuid(unsigned leaf, unsigned part, unsigned r[4]) {
    __cpuid_count(leaf, part, r[0], r[1], r[2], r[3]);
}
static void other_cpuid(unsigned leaf, unsigned part, unsigned *a, unsigned *b, unsigned *c,
                        unsigned *d);
#undef __cpuid_count
#define __cpuid_count(leaf, part, a, b, c, d) other_cpuid(leaf, part, &a, &b, &c, &d)
#elif defined(OTHER_ARM_CPUS)
static unsigned long other_auxval(unsigned long type);
#define getauxval(type) other_auxval(type)
#endif

#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "../vit.h"

#undef pthread_create
#undef pthread_mutex_init
#undef pthread_cond_init
#undef fstat
#undef mmap
#undef fseek
#undef ftell
#undef fread
#undef sysconf
#undef getauxval

#include "serial_pool.h"
#include "test.h"
#include "tiny_model.h"

#include <limits.h>
#include <stdbool.h>

static long blocks_live, blocks_made, blocks_until_failure = -1;

static void *counting_malloc(size_t size) {
    void *block;
    if (blocks_until_failure >= 0 && blocks_until_failure-- == 0) {
        return NULL;
    }
    block = malloc(size); /* On 32-bit systems, malloc returns NULL for gigabytes. */
    blocks_live += block != NULL;
    blocks_made += block != NULL;
    return block;
}

static void counting_free(void *block) {
    if (block) {
        blocks_live--;
    }
    free(block);
}

#if defined(SYSTEM_FAILS)
static long system_calls_until_failure = -1;

static bool system_call_fails(void) {
    return system_calls_until_failure >= 0 && system_calls_until_failure-- == 0;
}

static int failing_create(pthread_t *thread, void *(*start)(void *), void *arg) {
    return system_call_fails() ? 11 : pthread_create(thread, NULL, start, arg);
}

static int failing_mutex(pthread_mutex_t *mutex) {
    return system_call_fails() ? 12 : pthread_mutex_init(mutex, NULL);
}

static int failing_cond(pthread_cond_t *cond) {
    return system_call_fails() ? 12 : pthread_cond_init(cond, NULL);
}

/* If true, the size of a file is reported as negative. */
static bool negative_size;

static int failing_stat(int file, struct stat *status) {
    int result = system_call_fails() ? -1 : fstat(file, status);
    if (negative_size) {
        status->st_size = -1;
    }
    return result;
}

static void *failing_map(size_t size, int file) {
    return system_call_fails() ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
}

static int failing_seek(FILE *file, int from) {
    return system_call_fails() ? -1 : fseek(file, 0, from);
}

static long failing_tell(FILE *file) { return system_call_fails() ? -1 : ftell(file); }

static size_t failing_read(void *to, size_t size, FILE *file) {
    return fread(to, 1, system_call_fails() ? size - 1 : size, file);
}

/* The number of cores that the system reports. -2 means the true number. */
static long cores_said = -2;

static long other_cores(void) {
    return cores_said < -1 ? sysconf(_SC_NPROCESSORS_ONLN) : cores_said;
}
#endif

#if defined(OTHER_CPUS)
typedef struct cpu {
    const char *name;
    /* Results of cpuid: the last leaf, ecx of leaf 1, and the last subleaf of leaf 7. */
    unsigned leaves, features, parts;
    /* ebx and ecx of leaf 7, and eax of leaf 7.1. */
    unsigned b7, c7, a7;
    unsigned tiers;
} cpu;

/* The CPU that is simulated, or NULL for the true CPU. */
static const cpu *cpu_here;

static void other_cpuid(unsigned leaf, unsigned part, unsigned *a, unsigned *b, unsigned *c,
                        unsigned *d) {
    unsigned r[4];
    true_cpuid(leaf, part, r);
    *a = !cpu_here ? r[0] : leaf == 0 ? cpu_here->leaves : part ? cpu_here->a7 : cpu_here->parts;
    *b = !cpu_here ? r[1] : cpu_here->b7;
    *c = !cpu_here ? r[2] : leaf == 1 ? cpu_here->features : cpu_here->c7;
    *d = r[3];
}
#elif defined(OTHER_ARM_CPUS)
static bool has_everything;

static unsigned long other_auxval(unsigned long type) {
    return has_everything ? ~0ul : getauxval(type);
}
#endif

#if !defined(VIT_NO_THREADS)
typedef pthread_t thread_id;

static thread_id this_thread(void) { return pthread_self(); }
#else
typedef int thread_id;

static thread_id this_thread(void) { return 0; }
#endif

/* --- helpers -------------------------------------------------------------- */

/* An open tiny model, and the numbers of floats in one image's input and outputs. */
typedef struct bench {
    tiny_file file;
    vit_model model;
    size_t pixels, logits, tokens, embedding, attention;
    /* The inputs of 4 images. */
    float *input;
} bench;

static bench bench_open(const tiny_options *o) {
    bench b;
    uint32_t state = 99;
    memset(&b, 0, sizeof b);
    b.file = tiny_build(o);
    vit_result result = vit_model_open_memory(b.file.data, b.file.size, 0, &b.model);
    if (result != VIT_OK) {
        printf("bench_open: %s\n", b.model.detail);
        exit(2);
    }
    const vit_config *c = &b.model.config;
    b.pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    b.logits = (size_t)c->num_classes;
    b.tokens = (size_t)c->num_tokens * (size_t)c->embed_dim;
    b.embedding = (size_t)vit_embedding_dim(&b.model);
    b.attention = (size_t)c->num_heads * (size_t)c->num_tokens * (size_t)c->num_tokens;
    b.input = tiny_allocate(4 * b.pixels * sizeof(float));
    for (size_t i = 0; i < 4 * b.pixels; i++) {
        b.input[i] = tiny_random(&state);
    }
    return b;
}

static bench bench_default(void) {
    tiny_options o = tiny_defaults();
    return bench_open(&o);
}

/* Opens a model whose weights have this type. If `kind` is VIT_NUM_DTYPES, the model has weights of
 * every type. The widths of its layers are odd numbers. */
static bench bench_of_kind(int kind) {
    tiny_options o = tiny_defaults();
    o.mixed = kind == VIT_NUM_DTYPES;
    o.dtype = o.mixed ? VIT_F16 : (vit_dtype)kind;
    o.config.img_width = 12; /* The image has 7 tokens. */
    o.config.embed_dim = 17;
    o.config.head_dim = 5;
    o.config.mlp_dim = 37;
    return bench_open(&o);
}

static void bench_close(bench *b) {
    vit_model_close(&b->model);
    tiny_free(&b->file);
    free(b->input);
}

static vit_params no_params(void) {
    vit_params params;
    memset(&params, 0, sizeof params);
    return params;
}

static vit_outputs no_outputs(void) {
    vit_outputs outputs;
    memset(&outputs, 0, sizeof outputs);
    return outputs;
}

/* --- results, names, hash ------------------------------------------------- */

static void test_strings(void) {
#define STRING(name, value, text)                                                                  \
    CHECK(name == (value));                                                                        \
    CHECK(strcmp(vit_result_string(name), text) == 0);
    VIT_RESULT_LIST(STRING)
#undef STRING
    CHECK(vit_result_string((vit_result)-100) != NULL);
    CHECK(vit_result_string((vit_result)100) != NULL);
    CHECK(vit_has_isa(vit_detect_isa()));
    CHECK(vit_has_isa(VIT_ISA_SCALAR) && vit_has_isa(VIT_ISA_AUTO));
    for (int isa = 0; isa < VIT_NUM_ISAS; isa++) {
        CHECK(strcmp(vit_isa_name((vit_isa)isa), "unknown") != 0);
        CHECK(!vit_has_isa((vit_isa)isa) || isa <= (int)vit_detect_isa());
    }
    CHECK(strcmp(vit_isa_name((vit_isa)99), "unknown") == 0 && !vit_has_isa((vit_isa)99));
    CHECK(strcmp(vit_isa_name(VIT_NUM_ISAS), "unknown") == 0);
    for (int phase = 0; phase < VIT_NUM_PHASES; phase++) {
        CHECK(strcmp(vit_phase_name((vit_phase)phase), "unknown phase") != 0);
    }
    CHECK(strcmp(vit_phase_name((vit_phase)99), "unknown phase") == 0);
    CHECK(strcmp(vit_phase_name(VIT_NUM_PHASES), "unknown phase") == 0);
    CHECK(VIT_VERSION == VIT_VERSION_MAJOR * 10000 + VIT_VERSION_MINOR * 100 + VIT_VERSION_PATCH);
}

static uint64_t hash_pieces(const unsigned char *data, size_t size, size_t piece) {
    vit_hash hash;
    vit_hash_init(&hash);
    for (size_t at = 0; at < size; at += piece) {
        vit_hash_update(&hash, data + at, size - at < piece ? size - at : piece);
    }
    return vit_hash_final(&hash);
}

/* The expected hashes are from libxxhash 0.8.1. The input consists of the high bytes of an LCG that
 * starts at 12345. */
static void test_hash(void) {
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {
        { "", 0xef46db3751d8e999u },
        { "a", 0xd24ec4f1a98c6e5bu },
        { "abc", 0x44bc2cf5ad770999u },
        { "message digest", 0x066ed728fceeb3beu },
        { "abcdefghijklmnopqrstuvwxyz", 0xcfe1f278fa89835cu },
        { "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
          0xe04a477f19ee145du },
    };
    unsigned char bytes[1000];
    uint32_t r = 12345;
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        r = r * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(r >> 24);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        CHECK(tiny_hash(known[i].text, strlen(known[i].text)) == known[i].hash);
    }
    CHECK(tiny_hash(bytes, 1000) == 0xb84fc3f707f27751u);
    for (size_t n = 0; n <= 256; n++) {
        sum = sum * 31 + tiny_hash(bytes, n);
    }
    CHECK(sum == 0xc3a4a20c9d6ca38bu);
    for (size_t piece = 1; piece <= 70; piece++) {
        CHECK(hash_pieces(bytes, 1000, piece) == 0xb84fc3f707f27751u);
    }
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, bytes, 0);
    vit_hash_update(&hash, "abc", 3);
    CHECK(vit_hash_final(&hash) == 0x44bc2cf5ad770999u);
    /* A second call gives the same hash, because vit_hash_final does not change the state. */
    CHECK(vit_hash_final(&hash) == 0x44bc2cf5ad770999u);
}

/* --- configuration -------------------------------------------------------- */

static void config_refused(const vit_config *config, const char *name) {
    char detail[VIT_MAX_DETAIL] = "";
    vit_config c = *config, d = *config;
    vit_result result = vit_config_check(&c, detail);
    CHECK_MSG(result != VIT_OK, "%s accepted", name);
    CHECK_MSG(strstr(detail, name), "detail lacks %s: %s", name, detail);
    CHECK(vit_config_check(&d, NULL) == result);
}

static void set_int(void *field, double value) {
    int x = (int)value;
    memcpy(field, &x, sizeof x);
}

static void set_float(void *field, double value) {
    float x = (float)value;
    memcpy(field, &x, sizeof x);
}

static void test_config_null(void) {
    char detail[VIT_MAX_DETAIL];
    CHECK(vit_config_check(NULL, detail) == VIT_ERROR_ARGUMENT);
    CHECK(strcmp(detail, "config is NULL") == 0);
}

static void test_config_ranges(void) {
    tiny_options o = tiny_defaults();
#define RANGE(type, name, required, smallest, largest)                                             \
    if ((double)(largest) < 2147483647.0) {                                                        \
        vit_config c = o.config;                                                                   \
        set_##type(&c.name, (double)(largest)*1.5 + 1.0);                                          \
        config_refused(&c, #name);                                                                 \
    }                                                                                              \
    {                                                                                              \
        vit_config c = o.config;                                                                   \
        set_##type(&c.name, (double)(smallest)*1.5 - 1.0);                                         \
        config_refused(&c, #name);                                                                 \
    }
    VIT_FIELD_LIST(RANGE)
#undef RANGE
    o.config.norm_eps = (float)NAN;
    config_refused(&o.config, "norm_eps");
    o = tiny_defaults();
    o.config.attn_scale = (float)INFINITY;
    config_refused(&o.config, "attn_scale");
}

static void test_config_derived(void) {
    tiny_options o = tiny_defaults();
    vit_config *c = &o.config;
    c->img_height = 30;
    c->img_width = 17;
    c->patch_size = 7;
    c->has_dist_token = 1;
    CHECK(vit_config_check(c, NULL) == VIT_OK);
    CHECK(c->grid_height == 4 && c->grid_width == 2 && c->num_patches == 8);
    CHECK(c->num_prefix_tokens == 2 && c->num_tokens == 10);
    c->patch_stride = 5;
    CHECK(vit_config_check(c, NULL) == VIT_OK);
    CHECK(c->grid_height == 5 && c->grid_width == 3 && c->num_patches == 15);
    c->patch_stride = 24; /* The grid has a single patch. */
    CHECK(vit_config_check(c, NULL) == VIT_OK);
    CHECK(c->grid_height == 1 && c->grid_width == 1);
    c->patch_stride = 0;
    c->patch_size = 18; /* The patch is wider than the image. */
    CHECK(vit_config_check(c, NULL) != VIT_OK);
    c->patch_stride = 1;
    CHECK(vit_config_check(c, NULL) != VIT_OK);
    c->patch_size = 1;
    c->img_height = c->img_width = 16384; /* The image has 2^28 tokens. */
    CHECK(vit_config_check(c, NULL) != VIT_OK);
}

/* Tests fields that are valid alone, but not together. Also tests invalid means and deviations. */
static void test_config_products(void) {
    tiny_options o = tiny_defaults();
    vit_config c = o.config;
    c.num_heads = 1024;
    c.head_dim = 65;
    config_refused(&c, "head_dim");
    c = o.config;
    c.patch_size = c.img_height = c.img_width = 1024;
    c.in_chans = 17;
    config_refused(&c, "patch");
    c = o.config;
    c.img_height = c.img_width = 1020; /* The image has 65026 tokens. */
    c.mlp_dim = 262144;
    config_refused(&c, "2^31");
    c = o.config;
    c.has_cls_token = 0;
    c.has_dist_token = 1;
    config_refused(&c, "has_dist_token");
    c.has_cls_token = 1;
    c.pool = VIT_POOL_AVG;
    config_refused(&c, "has_dist_token");
    c.has_dist_token = 0;
    c.pool = VIT_POOL_TOKEN_AVG;
    c.has_fc_norm = 1;
    config_refused(&c, "has_fc_norm");
    c.pool = VIT_POOL_AVG;
    c.block_type = VIT_BLOCK_POST_NORM;
    c.has_attn_norm = 1;
    config_refused(&c, "block_type");
    c = o.config;
    c.has_dist_token = 1;
    c.representation_dim = 8;
    config_refused(&c, "representation_dim");
    c = o.config;
    c.rope_per_block = 1;
    config_refused(&c, "rope");
    c.rope = VIT_ROPE_PAIRS;
    CHECK(vit_config_check(&c, NULL) == VIT_OK);
    c.has_diff_attn = 1;
    config_refused(&c, "has_diff_attn");
    c = o.config;
    c.has_diff_attn = 1;
    c.head_dim = 7;
    config_refused(&c, "head_dim");
    c = o.config;
    c.has_rel_pos = c.num_reg_tokens = 1;
    config_refused(&c, "has_rel_pos");
    c = o.config;
    c.pool_num_heads = 4;
    config_refused(&c, "pool_num_heads");
    c.pool = VIT_POOL_MAP;
    CHECK(vit_config_check(&c, NULL) == VIT_OK);
    c.pool_num_heads = 3; /* 16 is not divisible by 3. */
    config_refused(&c, "pool_num_heads");
    c = o.config;
    c.pool_mlp_dim = 4;
    config_refused(&c, "pool_mlp_dim");
    for (int i = 0; i < 3; i++) {
        c = o.config;
        c.std[i] = i ? (float)NAN : 0;
        config_refused(&c, "std");
        c = o.config;
        c.mean[i] = (float)INFINITY;
        config_refused(&c, "mean");
    }
}

/* Tests options that exclude or require each other. */
static void test_config_pairs(void) {
#define SET(name, value)                                                                           \
    { offsetof(vit_config, name), value }
    static const struct {
        const char *message;
        struct {
            size_t field;
            int value;
        } set[5]; /* The list of settings ends before the first setting that is 0. */
    } cases[] = {
        { "has_diff_attn excludes", { SET(has_diff_attn, 1), SET(has_rel_pos, 1) } },
        { "has_diff_attn excludes", { SET(has_diff_attn, 1), SET(has_qk_norm, 1) } },
        { "has_diff_attn excludes", { SET(has_diff_attn, 1), SET(has_attn_norm, 1) } },
        { "token and average together exclude",
          { SET(pool, VIT_POOL_TOKEN_AVG), SET(representation_dim, 8) } },
        { "need block_type 0, pre-norm",
          { SET(block_type, VIT_BLOCK_POST_NORM), SET(has_mlp_norm, 1) } },
        { "stem and stem_width need each other", { SET(stem, VIT_STEM_CONV) } },
        { "stem_width is not a multiple of 32",
          { SET(stem, VIT_STEM_RESNET), SET(stem_width, 48) } },
        { "patch_size must be a multiple of the stem's stride: expected 8, found 12",
          { SET(stem, VIT_STEM_CONV), SET(stem_width, 8), SET(patch_size, 12) } },
        { "stem excludes has_patch_pre_norm and dynamic_img_pad",
          { SET(stem, VIT_STEM_CONV), SET(stem_width, 8), SET(patch_size, 8),
            SET(has_patch_pre_norm, 1) } },
        { "stem excludes has_patch_pre_norm and dynamic_img_pad",
          { SET(stem, VIT_STEM_CONV), SET(stem_width, 8), SET(patch_size, 8),
            SET(dynamic_img_pad, 1) } },
        { "attention 1, to itself alone, excludes", { SET(attention, VIT_ATTENTION_SELF) } },
        { "representation_act needs representation_dim",
          { SET(representation_act, VIT_REPRESENTATION_GELU) } },
        { "patch_stride excludes patch_cut, stem",
          { SET(patch_stride, 2), SET(patch_cut, VIT_CUT_INTERLEAVED) } },
        { "patch_stride excludes patch_cut, stem",
          { SET(patch_stride, 2), SET(stem, VIT_STEM_CONV), SET(stem_width, 8),
            SET(patch_size, 8) } },
        { "patch_stride excludes patch_cut, stem",
          { SET(patch_stride, 2), SET(dynamic_img_pad, 1) } },
        { "patch_stride is out of range", { SET(patch_stride, 1025) } },
        { "patch_stride is out of range", { SET(patch_stride, -1) } },
        { "patch_cut excludes stem, dynamic_img_size",
          { SET(patch_cut, VIT_CUT_RESHAPE), SET(dynamic_img_size, 1) } },
        { "patch_cut excludes stem, dynamic_img_size",
          { SET(patch_cut, VIT_CUT_UNFOLD), SET(dynamic_img_pad, 1) } },
        { "patch_cut excludes stem, dynamic_img_size",
          { SET(patch_cut, VIT_CUT_INTERLEAVED), SET(stem, VIT_STEM_CONV), SET(stem_width, 8),
            SET(patch_size, 8) } },
        { "patch_cut needs img_height and img_width of whole patches",
          { SET(patch_cut, VIT_CUT_INTERLEAVED), SET(img_height, 10) } },
        { "patch_cut needs img_height and img_width of whole patches",
          { SET(patch_cut, VIT_CUT_RESHAPE), SET(img_width, 11) } },
        { "a feature map has 2^31 numbers",
          { SET(stem, VIT_STEM_CONV), SET(stem_width, 512), SET(patch_size, 8),
            SET(img_height, 16384), SET(img_width, 16384) } },
    };
#undef SET
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vit_config c = tiny_defaults().config;
        for (int k = 0; k < 5 && cases[i].set[k].value; k++) {
            set_int((char *)&c + cases[i].set[k].field, cases[i].set[k].value);
        }
        config_refused(&c, cases[i].message);
    }
}

static void test_config_head(void) {
    vit_config c = tiny_defaults().config;
    c.head_activation = VIT_HEAD_SIGMOID;
    CHECK(vit_config_check(&c, NULL) == VIT_OK);
    c.num_classes = 0;
    config_refused(&c, "head_activation needs num_classes");
}

/* Tests models whose blocks have no MLP, and models whose tokens attend only to themselves. */
static void test_config_blocks(void) {
    static const size_t without_mlp[] = { offsetof(vit_config, has_gated_mlp),
                                          offsetof(vit_config, has_mlp_norm) };
    static const size_t alone[] = {
        offsetof(vit_config, has_qkv_bias),  offsetof(vit_config, has_qk_norm),
        offsetof(vit_config, rope),          offsetof(vit_config, has_rel_pos),
        offsetof(vit_config, has_diff_attn), offsetof(vit_config, has_attn_norm)
    };
    vit_config plain = tiny_defaults().config, c;
    plain.mlp_dim = 0;
    CHECK(vit_config_check(&plain, NULL) == VIT_OK);
    for (size_t i = 0; i < sizeof without_mlp / sizeof *without_mlp; i++) {
        c = plain;
        set_int((char *)&c + without_mlp[i], 1);
        config_refused(&c, "mlp_dim 0 excludes");
    }
    c = plain;
    c.block_type = VIT_BLOCK_PARALLEL;
    config_refused(&c, "mlp_dim 0 excludes");
    c = plain;
    c.pool = VIT_POOL_MAP;
    config_refused(&c, "map pooling needs pool_mlp_dim");
    c.pool_mlp_dim = 8;
    CHECK(vit_config_check(&c, NULL) == VIT_OK);
    plain = tiny_defaults().config;
    plain.attention = VIT_ATTENTION_SELF;
    plain.has_qkv_bias = 0;
    CHECK(vit_config_check(&plain, NULL) == VIT_OK);
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        c = plain;
        set_int((char *)&c + alone[i], 1);
        config_refused(&c, "attention 1, to itself alone, excludes");
    }
}

static void test_architecture(void) {
    tiny_options o = tiny_defaults();
    vit_tensor t;
    int n = 0;
    vit_config_check(&o.config, NULL);
    while (vit_architecture_tensor(&o.config, VIT_BF16, n, &t)) {
        CHECK(t.data == NULL && t.ndim >= 1 && t.ndim <= 4 && strlen(t.name) < sizeof t.name);
        CHECK(t.layout == VIT_LAYOUT_PANELS || t.dtype == VIT_F32);
        n++;
    }
    CHECK(n >= 2 + 3 + 2 * 12 + 4);
    CHECK(vit_architecture_tensor(&o.config, VIT_F32, n, &t) == 0);
    CHECK(vit_architecture_tensor(&o.config, VIT_F32, n + 1000, &t) == 0);
    CHECK(vit_architecture_tensor(&o.config, VIT_F32, 0x7fffffff, &t) == 0);
    CHECK(vit_architecture_tensor(&o.config, VIT_F32, -1, &t) == 0);
    bench b = bench_default();
    CHECK(vit_model_tensor(&b.model, n, &t) == 0);
    CHECK(vit_model_tensor(&b.model, -1, &t) == 0);
    CHECK(vit_model_tensor(&b.model, n - 1, &t) != 0);
    bench_close(&b);
}

static vit_tensor tensor_named(const vit_config *c, vit_dtype dtype, const char *name) {
    vit_tensor t;
    for (int i = 0; vit_architecture_tensor(c, dtype, i, &t); i++) {
        if (strcmp(t.name, name) == 0) {
            return t;
        }
    }
    CHECK_MSG(0, "no tensor %s", name);
    memset(&t, 0, sizeof t);
    return t;
}

static void check_dtype(const vit_config *c, vit_dtype asked, const char *name, vit_dtype wanted) {
    vit_tensor t = tensor_named(c, asked, name);
    CHECK_MSG(t.dtype == wanted, "%s: dtype %d, not %d", name, (int)t.dtype, (int)wanted);
    CHECK(t.layout == (wanted == VIT_I4 ? VIT_LAYOUT_GROUPS : VIT_LAYOUT_PANELS));
    int depth = (int)(tiny_count(&t) / (size_t)t.dims[0]), panels = (t.dims[0] + 15) / 16;
    CHECK(t.size == (uint64_t)panels * vit_pack_panel(wanted, NULL, 16, depth, NULL));
}

/* The depth is the number of a layer's inputs. An int8 layer needs a depth of 4 to 65536, and an
 * int4 layer needs a depth of at least 16. Layers with another depth stay f32. All other types
 * allow any depth. */
static void test_depth_limits(void) {
    tiny_options o = tiny_defaults();
    vit_config c = o.config;
    for (int dim = 3; dim <= 4; dim++) {
        c.embed_dim = dim;
        c.num_heads = 1;
        c.head_dim = 7 - dim;
        CHECK(vit_config_check(&c, NULL) == VIT_OK);
        check_dtype(&c, VIT_I8, "blocks.1.attn.qkv.weight", dim < 4 ? VIT_F32 : VIT_I8);
        check_dtype(&c, VIT_I8, "blocks.1.attn.proj.weight", dim < 4 ? VIT_I8 : VIT_F32);
        check_dtype(&c, VIT_I8, "blocks.0.mlp.fc2.weight", VIT_I8);
        check_dtype(&c, VIT_I8, "head.weight", dim < 4 ? VIT_F32 : VIT_I8);
    }
    c = o.config;
    c.mlp_dim = 65536;
    check_dtype(&c, VIT_I8, "blocks.0.mlp.fc2.weight", VIT_I8);
    c.mlp_dim = 65537;
    check_dtype(&c, VIT_I8, "blocks.0.mlp.fc2.weight", VIT_F32);
    check_dtype(&c, VIT_I8, "blocks.0.mlp.fc1.weight", VIT_I8);
    c.patch_size = 256;
    c.in_chans = 1;
    check_dtype(&c, VIT_I8, "patch_embed.proj.weight", VIT_I8);
    c.in_chans = 2;
    check_dtype(&c, VIT_I8, "patch_embed.proj.weight", VIT_F32);
    for (int dim = 15; dim <= 16; dim++) {
        c.embed_dim = dim;
        check_dtype(&c, VIT_I4, "blocks.1.attn.qkv.weight", dim < 16 ? VIT_F32 : VIT_I4);
    }
    for (int dtype = VIT_F32; dtype < VIT_NUM_DTYPES; dtype++) {
        if (dtype != VIT_I8) {
            check_dtype(&c, (vit_dtype)dtype, "patch_embed.proj.weight", (vit_dtype)dtype);
            check_dtype(&c, (vit_dtype)dtype, "blocks.0.mlp.fc2.weight", (vit_dtype)dtype);
        }
    }
}

/* --- packing -------------------------------------------------------------- */

enum { MAX_DEPTH = 70 };

static double half_number(const unsigned char *at) {
    uint32_t h = (uint32_t)tiny_get(at, 2);
    double value = h >> 10 & 31 ? ldexp(1024 + (h & 1023), (int)(h >> 10 & 31) - 25)
                                : ldexp(h & 1023, -24);
    return h >> 15 ? -value : value;
}

static double float_number(const unsigned char *at) {
    uint32_t bits = (uint32_t)tiny_get(at, 4);
    float x;
    memcpy(&x, &bits, 4);
    return (double)x;
}

static size_t int8_tail(int depth) { return (size_t)((depth + 3) / 4 * 64); }

/* Returns the integer stored for an int8 or int4 weight. */
static int panel_integer(vit_dtype dtype, const unsigned char *panel, int row, int k) {
    if (dtype == VIT_I8) {
        int byte = panel[k / 4 * 64 + row * 4 + k % 4];
        return byte < 128 ? byte : byte - 256;
    }
    int byte = panel[k / 32 * 288 + 32 + k % 16 / 4 * 64 + row * 4 + k % 4];
    return (k % 32 < 16 ? byte % 16 : byte / 16) - 8;
}

/* Returns the scale of a weight. In int8, all weights of a row have the same scale. In int4, each
 * group of 32 weights of a row has its own scale. */
static double panel_scale(vit_dtype dtype, const unsigned char *panel, int row, int k, int depth) {
    return dtype == VIT_I8 ? float_number(panel + int8_tail(depth) + 4 * row)
                           : half_number(panel + k / 32 * 288 + 2 * row);
}

/* Returns the number that a panel contains for (row, k). The panel is read as section ">>format" of
 * vit.h describes it. */
static float panel_number(vit_dtype dtype, const unsigned char *panel, int row, int k, int depth) {
    int at = 16 * k + row;
    float x;
    if (dtype == VIT_BF16) {
        at = (k / 2 * 16 + row) * 2 + k % 2;
        uint32_t bits = (uint32_t)tiny_get(panel + 2 * at, 2) << 16;
        memcpy(&x, &bits, 4);
        return x;
    }
    if (dtype == VIT_F16) {
        return (float)half_number(panel + 2 * at);
    }
    if (dtype == VIT_F32) {
        return (float)float_number(panel + 4 * at);
    }
    return (float)panel_integer(dtype, panel, row, k) *
           (float)panel_scale(dtype, panel, row, k, depth);
}

/* padded_depth returns the depth of a layer after padding. panel_size returns the size of a panel
 * in bytes. */
static int padded_depth(vit_dtype dtype, int depth) {
    static const int steps[VIT_NUM_DTYPES] = { 1, 1, 2, 4, 32 };
    return (depth + steps[dtype] - 1) / steps[dtype] * steps[dtype];
}

static size_t panel_size(vit_dtype dtype, int depth) {
    size_t n = (size_t)(16 * padded_depth(dtype, depth));
    switch (dtype) {
    case VIT_F32: return 4 * n;
    case VIT_I8: return n + 16 * 4 + 16 * 4;
    case VIT_I4: return n / 2 + n / 32 * 2 + 16 * 4;
    default: return 2 * n;
    }
}

/* Returns the value with the largest magnitude among the first `count` values of a row. */
static double extreme(const float *row, int count) {
    double found = 0;
    for (int k = 0; k < count; k++) {
        found = fabs((double)row[k]) > fabs(found) ? (double)row[k] : found;
    }
    return found;
}

/* Returns the largest accepted difference between a weight and its value in the panel. int4 has
 * values from -8 to 7, and the extreme weight becomes -8. A weight of the opposite sign may
 * therefore lose up to one whole step. */
static double slack(vit_dtype dtype, double wanted, double scale) {
    switch (dtype) {
    case VIT_F32: return 0;
    case VIT_F16: return fabs(wanted) / 2048;
    case VIT_BF16: return fabs(wanted) / 256;
    case VIT_I8: return fabs(scale) * 0.50001;
    default: return fabs(scale) * (wanted / scale > 7.5 ? 1.01 : 0.50001);
    }
}

static void check_int8_tail(const float *values, const unsigned char *panel, int rows, int depth) {
    for (int r = 0; r < 16; r++) {
        double top = r < rows ? fabs(extreme(values + r * depth, depth)) : 0;
        float scale = (float)top / 127.0f;
        int sum = 0, largest = 0;
        for (int k = 0; k < depth; k++) {
            int q = panel_integer(VIT_I8, panel, r, k);
            sum += q;
            largest = abs(q) > largest ? abs(q) : largest;
        }
        CHECK((float)panel_scale(VIT_I8, panel, r, 0, depth) == scale);
        CHECK(largest == (top > 0 ? 127 : 0));
        CHECK((int32_t)(uint32_t)tiny_get(panel + int8_tail(depth) + 64 + 4 * r, 4) == sum);
    }
}

static void check_int4_scales(const float *values, const unsigned char *panel, int rows,
                              int depth) {
    for (int r = 0; r < 16; r++) {
        double sum = 0, size = 0;
        for (int k = 0; k < depth; k += 32) {
            int count = depth - k < 32 ? depth - k : 32, lowest = 8;
            double top = r < rows ? extreme(values + r * depth + k, count) : 0;
            double scale = panel_scale(VIT_I4, panel, r, k, depth);
            for (int i = k; i < k + count; i++) {
                int q = panel_integer(VIT_I4, panel, r, i);
                lowest = q < lowest ? q : lowest;
                sum += q * scale;
                size += fabs(q * scale);
            }
            CHECK(fabs(scale + top / 8) <= fabs(top) / 8 / 2048);
            CHECK(lowest == (fabs(top) > 0 ? -8 : 0));
        }
        CHECK(fabs(float_number(panel + (depth + 31) / 32 * 288 + 4 * r) - sum) <= size * 1e-6);
    }
}

/* Checks the padding of a panel, which must be zero. int4 stores zero as 8. Rows that do not exist
 * must also have scale 0. */
static void check_padding(vit_dtype dtype, const unsigned char *panel, int rows, int depth) {
    int wrong = 0;
    for (int r = 0; r < 16; r++) {
        for (int k = 0; k < padded_depth(dtype, depth); k++) {
            bool padding = r >= rows || k >= depth;
            if (padding && dtype >= VIT_I8) {
                wrong += panel_integer(dtype, panel, r, k) != 0;
            } else if (padding) {
                wrong += panel_number(dtype, panel, r, k, depth) != 0;
            }
            if (r >= rows && dtype >= VIT_I8) {
                wrong += panel_scale(dtype, panel, r, k, depth) != 0;
            }
        }
    }
    CHECK_MSG(wrong == 0, "dtype %d: %d numbers of padding are not 0", (int)dtype, wrong);
}

static void check_numbers(vit_dtype dtype, const float *values, const unsigned char *panel,
                          int rows, int depth) {
    float row[MAX_DEPTH];
    vit_tensor t;
    memset(&t, 0, sizeof t);
    t.dtype = dtype;
    t.layout = VIT_LAYOUT_PANELS;
    t.ndim = 2;
    t.dims[0] = rows;
    t.dims[1] = depth;
    t.data = panel;
    for (int r = 0; r < rows; r++) {
        vit_unpack_row(&t, r, row);
        for (int k = 0; k < depth; k++) {
            double wanted = (double)values[r * depth + k];
            double scale = dtype >= VIT_I8 ? panel_scale(dtype, panel, r, k, depth) : 1;
            float got = panel_number(dtype, panel, r, k, depth);
            CHECK_MSG(fabs((double)got - wanted) <= slack(dtype, wanted, scale),
                      "dtype %d: %g became %g", (int)dtype, wanted, (double)got);
            CHECK(row[k] == got);
        }
    }
}

static void test_one_panel(vit_dtype dtype, int rows, int depth) {
    float values[16 * MAX_DEPTH];
    unsigned char *panel;
    uint32_t state = 5;
    size_t size = vit_pack_panel(dtype, NULL, rows, depth, NULL);
    CHECK(size == panel_size(dtype, depth));
    for (int i = 0; i < rows * depth; i++) {
        values[i] = tiny_random(&state);
    }
    panel = tiny_aligned(size); /* ASan detects accesses beyond the end of this block. */
    memset(panel, 0xaa, size);
    CHECK(vit_pack_panel(dtype, values, rows, depth, panel) == size);
    check_numbers(dtype, values, panel, rows, depth);
    check_padding(dtype, panel, rows, depth);
    if (dtype == VIT_I8) {
        check_int8_tail(values, panel, rows, depth);
    } else if (dtype == VIT_I4) {
        check_int4_scales(values, panel, rows, depth);
    }
    free(panel);
}

static void test_packing(void) {
    static const int depths[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 63, 64, 65, MAX_DEPTH };
    for (int dtype = VIT_F32; dtype < VIT_NUM_DTYPES; dtype++) {
        for (int rows = 1; rows <= 16; rows += 5) {
            for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
                test_one_panel((vit_dtype)dtype, rows, depths[i]);
            }
        }
    }
}

/* Packs rows of zeros, rows of numbers that are too small for a scale, and rows with numbers in the
 * middle of two steps. */
static void test_packing_extremes(void) {
    static const float rows[4][4] = { { 0, -0.0f, 0, 0 },
                                      { 1e-44f, 0, -1e-44f, 0 },
                                      { 127, 0.5f, 1.5f, -2.5f },
                                      { -8, 0.5f, 1.5f, 6.5f } };
    static const int int8[4][4] = { { 0 }, { 0 }, { 127, 0, 2, -2 }, { -127, 8, 24, 103 } };
    static const int int4[4][4] = { { 0 }, { 0 }, { -8, 0, 0, 0 }, { -8, 0, 2, 6 } };
    unsigned char *a = tiny_aligned(panel_size(VIT_I8, 4));
    unsigned char *b = tiny_aligned(panel_size(VIT_I4, 4));
    vit_pack_panel(VIT_I8, rows[0], 4, 4, a);
    vit_pack_panel(VIT_I4, rows[0], 4, 4, b);
    for (int r = 0; r < 4; r++) {
        for (int k = 0; k < 4; k++) {
            int x = panel_integer(VIT_I8, a, r, k), y = panel_integer(VIT_I4, b, r, k);
            CHECK_MSG(x == int8[r][k], "int8 of row %d, %d: %d", r, k, x);
            CHECK_MSG(y == int4[r][k], "int4 of row %d, %d: %d", r, k, y);
        }
    }
    free(a);
    free(b);
}

/* Packing NaN and infinity must cause no sanitizer error. Every type must keep NaN. */
static void test_packing_nonfinite(void) {
    const float nan = (float)NAN, inf = (float)INFINITY;
    const float bad[] = {
        nan, 1, -1, 0.5f, inf, 1, -inf, 1, 3e38f, -3e38f, 1, nan, inf, -inf, 0, 1
    };
    for (int dtype = VIT_F32; dtype < VIT_NUM_DTYPES; dtype++) {
        for (int depth = 1; depth <= 16; depth *= 2) {
            unsigned char *panel = tiny_aligned(panel_size((vit_dtype)dtype, depth));
            CHECK(vit_pack_panel((vit_dtype)dtype, bad, 16 / depth, depth, panel) ==
                  panel_size((vit_dtype)dtype, depth));
            free(panel);
        }
        unsigned char *panel = tiny_aligned(panel_size((vit_dtype)dtype, 16));
        float row[16];
        vit_tensor t;
        memset(&t, 0, sizeof t);
        t.dtype = (vit_dtype)dtype;
        t.layout = dtype == VIT_I4 ? VIT_LAYOUT_GROUPS : VIT_LAYOUT_PANELS;
        t.ndim = 2;
        t.dims[0] = 1;
        t.dims[1] = 16;
        t.data = panel;
        vit_pack_panel((vit_dtype)dtype, bad, 1, 16, panel);
        vit_unpack_row(&t, 0, row);
        CHECK_MSG(row[0] != row[0] && row[11] != row[11], "%d: NaN became %g", dtype,
                  (double)row[0]);
        free(panel);
    }
}

/* A row of a plain tensor covers all dimensions after the first. */
static void test_unpack_plain(void) {
    float values[2 * 3 * 4], row[12];
    unsigned char data[sizeof values];
    vit_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 24; i++) {
        values[i] = (float)i;
    }
    t.dtype = VIT_F32;
    t.layout = VIT_LAYOUT_PLAIN;
    t.ndim = 3;
    t.dims[0] = 2;
    t.dims[1] = 3;
    t.dims[2] = 4;
    t.data = data;
    tiny_store(&t, values, data);
    vit_unpack_row(&t, 1, row);
    CHECK(memcmp(row, values + 12, sizeof row) == 0);
}

/* --- workspace ------------------------------------------------------------ */

enum { CANARY = 128 };

/* Uses a workspace of exactly the requested size, `shift` bytes after an aligned address, between
 * guard bytes. */
static void run_in_workspace(bench *b, const vit_params *params, size_t shift, int batch,
                             float *logits) {
    size_t size = vit_workspace_size(&b->model, params);
    unsigned char *block = tiny_aligned(size + 2 * CANARY + 64);
    unsigned char *workspace = block + CANARY + shift;
    vit_session session;
    vit_outputs outputs = no_outputs();
    memset(block, 0xc5, size + 2 * CANARY + 64);
    outputs.logits = logits;
    CHECK(size > 0);
    CHECK(vit_session_init(&session, &b->model, params, workspace, size - 1) == VIT_ERROR_MEMORY);
    CHECK(vit_session_init(&session, &b->model, params, workspace, 0) == VIT_ERROR_MEMORY);
    CHECK(vit_session_init(&session, &b->model, params, workspace, size) == VIT_OK);
    CHECK(vit_forward(&session, &(vit_input){ .pixels = b->input, .batch = batch }, &outputs) ==
          VIT_OK);
    int touched = 0;
    for (size_t i = 0; i < CANARY + shift; i++) {
        touched += block[i] != 0xc5;
    }
    for (size_t i = CANARY + shift + size; i < size + 2 * CANARY + 64; i++) {
        touched += block[i] != 0xc5;
    }
    CHECK_MSG(touched == 0, "%d canaries", touched);
    free(block);
}

static void test_workspace_kind(int kind) {
    bench b = bench_of_kind(kind);
    float base[4 * 5], logits[4 * 5];
    vit_params params = no_params();
    run_in_workspace(&b, NULL, 0, 4, base);
    FOR_EACH_ISA_LIKE(isa, vit_detect_isa()) {
        for (size_t shift = 0; shift < 64; shift += shift < 8 ? 1 : 7) {
            params.isa = (vit_isa)isa;
            params.batch = 1 + (int)shift % 4;
            params.low_memory = shift % 3 == 0;
            memset(logits, 0xff, sizeof logits);
            run_in_workspace(&b, &params, shift, 4, logits);
            CHECK(memcmp(base, logits, sizeof base) == 0);
        }
    }
    bench_close(&b);
}

/* With low_memory, a block of ViT-Ti/16 in plain C must need at most `most` bytes of workspace. */
static void test_low_memory_kind(vit_dtype dtype, size_t most) {
    tiny_options o = tiny_defaults();
    o.config.img_height = o.config.img_width = 224;
    o.config.patch_size = 16;
    o.config.embed_dim = 192;
    o.config.num_heads = 3;
    o.config.head_dim = 64;
    o.config.mlp_dim = 768;
    o.config.num_classes = 1000;
    o.config.depth = 1;
    o.dtype = dtype;
    o.selftest = NULL;
    bench b = bench_open(&o);
    vit_params params = no_params();
    params.isa = VIT_ISA_SCALAR;
    size_t whole = vit_workspace_size(&b.model, &params);
    params.low_memory = 1;
    size_t small = vit_workspace_size(&b.model, &params);
    CHECK_MSG(small <= most, "dtype %d: %lu bytes", (int)dtype, (unsigned long)small);
    CHECK(small < whole);
    params.batch = 8; /* low_memory computes one image at a time, for any batch. */
    CHECK(vit_workspace_size(&b.model, &params) == small);
    bench_close(&b);
}

static void test_low_memory(void) {
    test_low_memory_kind(VIT_F32, 410 * 1024);
    test_low_memory_kind(VIT_I8, 257 * 1024);
}

static void test_workspace(void) {
    for (int kind = 0; kind <= VIT_NUM_DTYPES; kind++) {
        test_workspace_kind(kind);
    }
}

/* Runs the model with a pool and with all outputs. The workspace is a separate block, so that ASan
 * checks both of its ends. */
static void test_workspace_threads_kind(int kind) {
    bench b = bench_of_kind(kind);
    for (int n = 1; n <= 4; n++) {
        vit_threads *pool;
        vit_params params = no_params();
        vit_session session;
        vit_outputs outputs = no_outputs();
        vit_block_output block = { NULL, NULL, -1, 0 };
        float logits[4 * 5];
        CHECK(vit_threads_create(n, &pool, &params.executor) == VIT_OK);
        params.batch = 3;
        size_t size = vit_workspace_size(&b.model, &params);
        void *workspace = tiny_allocate(size);
        outputs.logits = logits;
        outputs.tokens = tiny_allocate(4 * b.tokens * sizeof(float));
        block.attention = tiny_allocate(4 * b.attention * sizeof(float));
        block.tokens = tiny_allocate(4 * b.tokens * sizeof(float));
        outputs.blocks = &block;
        outputs.num_blocks = 1;
        outputs.embedding = tiny_allocate(4 * b.embedding * sizeof(float));
        CHECK(vit_session_init(&session, &b.model, &params, workspace, size) == VIT_OK);
        for (int batch = 1; batch <= 4; batch++) {
            CHECK(vit_forward(&session, &(vit_input){ .pixels = b.input, .batch = batch },
                              &outputs) == VIT_OK);
        }
        free(outputs.tokens);
        free(block.attention);
        free(block.tokens);
        free(outputs.embedding);
        free(workspace);
        vit_threads_destroy(pool);
    }
    bench_close(&b);
}

static void test_workspace_threads(void) {
    for (int kind = 0; kind <= VIT_NUM_DTYPES; kind++) {
        test_workspace_threads_kind(kind);
    }
}

static void serial_for(void *user, int count, vit_task *task, void *arg) {
    (void)user;
    for (int i = 0; i < count; i++) {
        task(arg, i);
    }
}

static void test_params(void) {
    bench b = bench_default();
    vit_session session;
    char workspace[16];
    vit_params params = no_params();
    CHECK(vit_workspace_size(&b.model, NULL) == vit_workspace_size(&b.model, &params));
    params.batch = 1;
    CHECK(vit_workspace_size(&b.model, NULL) == vit_workspace_size(&b.model, &params));
    params.batch = -1;
    CHECK(vit_workspace_size(&b.model, &params) == 0);
    CHECK(vit_session_init(&session, &b.model, &params, workspace, 16) == VIT_ERROR_ARGUMENT);
    params.batch = 0x7fffffff; /* One activation would have at least 2^31 floats. */
    CHECK(vit_workspace_size(&b.model, &params) == 0);
    CHECK(vit_session_init(&session, &b.model, &params, workspace, 16) == VIT_ERROR_ARGUMENT);
    CHECK(vit_session_init(&session, &b.model, NULL, workspace, 16) == VIT_ERROR_MEMORY);
    CHECK(vit_session_init(&session, &b.model, NULL, NULL, 16) == VIT_ERROR_MEMORY);
    vit_session_close(&session);
    CHECK(blocks_live == 0);
    params = no_params();
    params.isa = (vit_isa)99;
    CHECK(vit_workspace_size(&b.model, &params) == 0);
    CHECK(vit_session_init(&session, &b.model, &params, workspace, 16) != VIT_OK);
    params.isa = (vit_isa)-1;
    CHECK(vit_workspace_size(&b.model, &params) == 0);
    for (int isa = VIT_ISA_SCALAR; isa < VIT_NUM_ISAS; isa++) {
        params.isa = (vit_isa)isa;
        CHECK((vit_workspace_size(&b.model, &params) != 0) == vit_has_isa((vit_isa)isa));
    }
    CHECK(vit_workspace_size(NULL, NULL) == 0);
    params = no_params();
    /* The number of threads has no effect without a parallel_for function. */
    params.executor.num_threads = 1000000;
    CHECK(vit_workspace_size(&b.model, NULL) == vit_workspace_size(&b.model, &params));
    params.executor.parallel_for = serial_for;
    CHECK(vit_workspace_size(&b.model, &params) == 0);
    params.executor.num_threads = -1;
    CHECK(vit_workspace_size(&b.model, &params) == 0);
    params.executor.num_threads = 0; /* 0 means the default, which is one thread. */
    CHECK(vit_workspace_size(&b.model, NULL) == vit_workspace_size(&b.model, &params));
    size_t size = vit_workspace_size(&b.model, NULL);
    void *room = tiny_allocate(size);
    CHECK(vit_session_init(NULL, &b.model, NULL, room, size) == VIT_ERROR_ARGUMENT);
    CHECK(vit_session_init(&session, NULL, NULL, room, size) == VIT_ERROR_ARGUMENT);
    CHECK(vit_session_init(&session, &b.model, NULL, NULL, size) != VIT_OK);
    CHECK(vit_session_init(&session, &b.model, NULL, room, size) == VIT_OK);
    CHECK(session.isa == vit_detect_isa() && session.model == &b.model);
    free(room);
    bench_close(&b);
}

/* --- forward -------------------------------------------------------------- */

typedef struct runner {
    vit_session session;
    void *workspace;
} runner;

static runner runner_make(const vit_model *model, const vit_params *params) {
    runner r;
    size_t size = vit_workspace_size(model, params);
    r.workspace = tiny_allocate(size);
    CHECK(vit_session_init(&r.session, model, params, r.workspace, size) == VIT_OK);
    return r;
}

static void test_forward_arguments(void) {
    bench b = bench_default();
    runner r = runner_make(&b.model, NULL);
    float *attention = tiny_allocate(b.attention * sizeof(float));
    float logits[5];
    vit_block_output block = { NULL, attention, -1, 0 };
    vit_outputs outputs = no_outputs();
    outputs.logits = logits;
    outputs.blocks = &block;
    outputs.num_blocks = 1;
    CHECK(vit_forward(NULL, &(vit_input){ .pixels = b.input }, &outputs) == VIT_ERROR_ARGUMENT);
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = NULL }, &outputs) == VIT_ERROR_ARGUMENT);
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 0 }, &outputs) ==
          VIT_OK);
    CHECK(vit_forward(&r.session, NULL, &outputs) == VIT_ERROR_ARGUMENT);
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = -1 }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, NULL) == VIT_ERROR_ARGUMENT);
    for (int i = 0; i < 4; i++) {
        static const int wrong[] = { 2, -3, INT_MAX, INT_MIN };
        block.index = wrong[i];
        CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) ==
              VIT_ERROR_ARGUMENT);
    }
    block.index = -2;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
    block.index = 1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
    outputs.num_blocks = -1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    outputs.num_blocks = 1;
    outputs.blocks = NULL;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    outputs.blocks = &block;
    block.attention = NULL; /* This entry requests no outputs. */
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
    outputs = no_outputs(); /* Nothing is requested, so nothing is computed. */
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
    free(attention);
    free(r.workspace);
    bench_close(&b);
}

static void test_headless(void) {
    tiny_options o = tiny_defaults();
    o.config.num_classes = 0;
    bench b = bench_open(&o);
    runner r = runner_make(&b.model, NULL);
    float embedding[16];
    vit_outputs outputs = no_outputs();
    vit_prediction top[2];
    uint8_t pixel[3] = { 1, 2, 3 };
    vit_image image = { pixel, 1, 1, 0, VIT_PIXEL_RGB8 };
    outputs.logits = embedding;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    outputs.logits = NULL;
    outputs.embedding = embedding;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
    CHECK(vit_classify(&b.model, &image, 2, top) == VIT_ERROR_ARGUMENT);
    CHECK(vit_label(&b.model, 0) == NULL);
    free(r.workspace);
    bench_close(&b);
}

/* Calls every function that takes a model. The model is NULL, closed, corrupt or missing. */
static void check_not_open(const char *what, vit_model *model) {
    vit_session session;
    vit_prediction top;
    vit_tensor tensor;
    uint8_t pixel[3] = { 1, 2, 3 };
    float input[3 * 8 * 8], scores[5] = { 5, 4, 3, 2, 1 };
    vit_image image = { pixel, 1, 1, 0, VIT_PIXEL_RGB8 };
    const struct {
        const char *name;
        bool refused;
    } calls[] = {
        { "verify", vit_model_verify(model) == VIT_ERROR_ARGUMENT },
        { "resize", vit_model_resize(model, 8, 8) == VIT_ERROR_ARGUMENT },
        { "label", vit_label(model, 0) == NULL },
        { "synset", vit_synset(model, 0) == NULL },
        { "source", vit_source(model)[0] == 0 },
        { "preprocess_size", vit_preprocess_size(model, &image) == 0 },
        { "preprocess", vit_preprocess(model, &image, input, NULL, 0) == VIT_ERROR_ARGUMENT },
        { "workspace_size", vit_workspace_size(model, NULL) == 0 },
        { "session_init",
          vit_session_init(&session, model, NULL, input, sizeof input) == VIT_ERROR_ARGUMENT },
        { "session_init of its own memory",
          vit_session_init(&session, model, NULL, NULL, 0) == VIT_ERROR_ARGUMENT },
        { "input_size", vit_input_size(model) == 0 },
        { "embed", vit_embed(model, &image, scores) == VIT_ERROR_ARGUMENT },
        { "embedding_dim", vit_embedding_dim(model) == 0 },
        { "scores", (vit_scores(model, scores), scores[0] == 5.0f && scores[4] == 1.0f) },
        { "classify", vit_classify(model, &image, 1, &top) == VIT_ERROR_ARGUMENT },
        { "tensor", vit_model_tensor(model, 0, &tensor) == 0 },
        { "signature", vit_model_signature(model) == 0 },
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECK_MSG(calls[i].refused, "%s: %s", what, calls[i].name);
    }
    vit_model_close(model);
}

static void test_closed_model(void) {
    bench b = bench_default();
    vit_model model = b.model;
    vit_session session;
    vit_outputs outputs = no_outputs();
    vit_answer answer;
    uint8_t pixel[3] = { 1, 2, 3 };
    vit_image image = { pixel, 1, 1, 0, VIT_PIXEL_RGB8 };
    float input[3 * 8 * 8], output[5];
    check_not_open("NULL", NULL);
    vit_model_close(&model);
    vit_model_close(&model);
    check_not_open("closed", &model);
    b.file.data[VIT_HEADER_SIZE + 1] ^= 1;
    CHECK(vit_model_open_memory(b.file.data, b.file.size, 0, &model) == VIT_ERROR_CORRUPT);
    check_not_open("corrupt", &model);
    CHECK(vit_model_open_memory(NULL, 0, 0, &model) == VIT_ERROR_ARGUMENT);
    check_not_open("not there", &model);
    memset(&session, 0, sizeof session);
    CHECK(vit_forward(&session, &(vit_input){ .pixels = input }, &outputs) == VIT_ERROR_ARGUMENT);
    CHECK(vit_forward(NULL, &(vit_input){ .pixels = input }, &outputs) == VIT_ERROR_ARGUMENT);
    CHECK(vit_selftest(&session, input, output, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_selftest(NULL, input, output, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_run(&session, &image, 1, &answer) == VIT_ERROR_ARGUMENT);
    CHECK(vit_run(NULL, &image, 1, &answer) == VIT_ERROR_ARGUMENT);
    vit_session_close(&session);
    vit_session_close(NULL);
    bench_close(&b);
}

/* Tests inputs that are too large for 32 bits. A 32-bit size_t can hold the size of one such input,
 * but not the sum of this size and the size of the workspace. */
static void test_address_space(void) {
    tiny_options o = tiny_defaults();
    vit_config *c = &o.config;
    char detail[VIT_MAX_DETAIL];
    uint8_t pixel[3] = { 1, 2, 3 };
    vit_image image = { pixel, 1, 1, 0, VIT_PIXEL_RGB8 };
    vit_prediction top;
    vit_model model;
    c->img_height = c->img_width = 16384;
    c->patch_size = 1024;
    CHECK(vit_config_check(c, detail) == VIT_OK);
    c->in_chans = 4;
    CHECK(vit_config_check(c, detail) == VIT_ERROR_UNSUPPORTED);
    CHECK_MSG(strcmp(detail, "the input has 2^30 numbers or more") == 0, "%s", detail);
    c->in_chans = 3;
    c->img_width = 10922;
    c->patch_size = c->embed_dim = 64;
    c->depth = 0;
    c->selftest_tolerance = 0; /* A tolerance of 0 turns the self-test off. */
    if (sizeof(size_t) > 4) {
        return;
    }
    tiny_file f = tiny_build(&o);
    CHECK(vit_model_open_memory(f.data, f.size, VIT_OPEN_VERIFY, &model) == VIT_OK);
    const size_t input = (size_t)3 * 16384 * 10922 * sizeof(float);
    CHECK(input + vit_workspace_size(&model, NULL) < input);
    CHECK(vit_classify(&model, &image, 1, &top) == VIT_ERROR_MEMORY);
    vit_model_close(&model);
    tiny_free(&f);
    o = tiny_defaults();
    c->img_height = c->img_width = 64;
    c->patch_size = c->head_dim = 1;
    c->embed_dim = c->num_heads = 64;
    c->selftest_tolerance = 0;
    bench b = bench_open(&o);
    runner r = runner_make(&b.model, NULL);
    float logits[5];
    /* The attention maps of this block would have 64 x 4097 x 4097 floats. */
    vit_block_output block = { NULL, logits, 0, 0 };
    vit_outputs outputs = no_outputs();
    outputs.logits = logits;
    outputs.blocks = &block;
    outputs.num_blocks = 1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    block.attention = NULL;
    block.tokens = logits;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 0x7fffffff },
                      &outputs) == VIT_ERROR_ARGUMENT);
    outputs.num_blocks = 0;
    outputs.tokens = logits;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 0x7fffffff },
                      &outputs) == VIT_ERROR_ARGUMENT);
    free(r.workspace);
    bench_close(&b);
}

/* A model without blocks has no outputs of blocks. */
static void test_depth_0(void) {
    tiny_options o = tiny_defaults();
    o.config.depth = 0;
    bench b = bench_open(&o);
    runner r = runner_make(&b.model, NULL);
    float logits[5];
    vit_block_output block = { NULL, NULL, -1, 0 };
    vit_outputs outputs = no_outputs();
    outputs.logits = logits;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
    outputs.blocks = &block;
    outputs.num_blocks = 1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    free(r.workspace);
    bench_close(&b);
}

/* A mask of ones must not change any bit of the outputs. A hidden patch must not affect any other
 * token. If all tokens are hidden, every attention score is the lowest float, and attention is
 * uniform. */
static void test_mask(void) {
    enum { N = 5, HIDDEN = 2 };
    bench b = bench_default();
    runner r = runner_make(&b.model, NULL);
    uint8_t mask[3 * N];
    float plain[3 * 5], masked[3 * 5], other[3 * 5], maps[3 * 2 * N * N];
    vit_block_output block = { NULL, maps, -1, 0 };
    vit_outputs outputs = no_outputs();
    outputs.logits = plain;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3 }, &outputs) ==
          VIT_OK);
    memset(mask, 1, sizeof mask);
    outputs.logits = masked;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3, .mask = mask },
                      &outputs) == VIT_OK);
    CHECK(memcmp(plain, masked, sizeof plain) == 0);
    for (int i = 0; i < 3; i++) {
        mask[i * N + HIDDEN] = 0;
    }
    outputs.blocks = &block;
    outputs.num_blocks = 1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3, .mask = mask },
                      &outputs) == VIT_OK);
    CHECK(memcmp(plain, masked, sizeof plain) != 0);
    for (int i = 0; i < 3 * 2 * N; i++) {
        CHECK(maps[i * N + HIDDEN] < 1e-30f && maps[i * N] > 1e-3f);
    }
    outputs.num_blocks = 0;
    outputs.logits = other;
    b.input[6] = 3.0f; /* This is the first row of the second patch, which is token 2. */
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3, .mask = mask },
                      &outputs) == VIT_OK);
    CHECK(memcmp(masked, other, sizeof masked) == 0);
    memset(mask, 0, sizeof mask);
    outputs.num_blocks = 1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3, .mask = mask },
                      &outputs) == VIT_OK);
    for (int i = 0; i < 3 * 2 * N * N; i++) {
        CHECK(fabsf(maps[i] - 0.2f) < 1e-6f);
    }
    free(r.workspace);
    bench_close(&b);
}

/* Each token's attention must sum to one. No output may be written beyond its size. */
static void test_output_sizes(void) {
    bench b = bench_default();
    vit_params params = no_params();
    params.batch = 2;
    runner r = runner_make(&b.model, &params);
    vit_outputs outputs = no_outputs();
    vit_block_output block = { NULL, NULL, -1, 0 };
    size_t sizes[4] = { 3 * b.logits, 3 * b.embedding, 3 * b.tokens, 3 * b.attention };
    float *data[4];
    for (int i = 0; i < 4; i++) {
        /* Each buffer has exactly the needed size, so that ASan detects accesses beyond its end. */
        data[i] = tiny_allocate(sizes[i] * sizeof(float));
        for (size_t k = 0; k < sizes[i]; k++) {
            data[i][k] = (float)NAN;
        }
    }
    outputs.logits = data[0];
    outputs.embedding = data[1];
    outputs.tokens = data[2];
    block.attention = data[3];
    outputs.blocks = &block;
    outputs.num_blocks = 1;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3 }, &outputs) ==
          VIT_OK);
    for (int i = 0; i < 4; i++) {
        int unwritten = 0;
        for (size_t k = 0; k < sizes[i]; k++) {
            unwritten += data[i][k] != data[i][k];
        }
        CHECK_MSG(unwritten == 0, "output %d: %d numbers not written", i, unwritten);
    }
    size_t n = (size_t)b.model.config.num_tokens;
    for (size_t row = 0; row < sizes[3] / n; row++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) {
            sum += (double)data[3][row * n + k];
        }
        CHECK(fabs(sum - 1) < 1e-6);
    }
    for (int i = 0; i < 4; i++) {
        free(data[i]);
    }
    free(r.workspace);
    bench_close(&b);
}

/* Requests the outputs of several blocks in one run. Blocks are repeated and unsorted. The run has
 * more images than fit into one pass. The requested blocks include the last block, which computes
 * only some tokens. */
static void test_blocks(void) {
    bench b = bench_default();
    vit_params params = no_params();
    params.batch = 2;
    runner r = runner_make(&b.model, &params);
    const size_t tokens = 3 * b.tokens * sizeof(float), maps = 3 * b.attention * sizeof(float);
    float *t[4], *a[3];
    float logits[3 * 5], alone[3 * 5];
    vit_outputs outputs = no_outputs();
    for (int i = 0; i < 4; i++) {
        t[i] = tiny_allocate(tokens);
    }
    for (int i = 0; i < 3; i++) {
        a[i] = tiny_allocate(maps);
    }
    vit_block_output blocks[5] = {
        { t[0], NULL, -1, 1 }, { t[1], a[0], 0, 0 }, { NULL, a[1], 1, 0 },
        { NULL, a[2], -2, 0 }, { t[2], NULL, 0, 1 },
    };
    outputs.logits = alone;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3 }, &outputs) ==
          VIT_OK);
    outputs.logits = logits;
    outputs.blocks = blocks;
    outputs.num_blocks = 5;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3 }, &outputs) ==
          VIT_OK);
    CHECK(memcmp(logits, alone, sizeof logits) == 0);
    CHECK(memcmp(a[0], a[2], maps) == 0 && memcmp(a[0], a[1], maps) != 0);
    CHECK(memcmp(t[1], t[2], tokens) != 0); /* Only one of the two outputs has passed the final
                                             * norm. */
    outputs = no_outputs();
    outputs.tokens = t[3];
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 3 }, &outputs) ==
          VIT_OK);
    CHECK(memcmp(t[0], t[3], tokens) == 0);
    for (int i = 0; i < 4; i++) {
        free(t[i]);
    }
    for (int i = 0; i < 3; i++) {
        free(a[i]);
    }
    free(r.workspace);
    bench_close(&b);
}

/* Runs three images. In the middle image, one number is `bad`. The other images must keep their
 * logits. The middle image's first logit must be NaN or infinite; with `lossy`, it may be any. */
static void nonfinite_run(bench *b, vit_isa isa, bool lossy, float bad) {
    float good[3 * 5], logits[3 * 5];
    vit_params params = no_params();
    vit_outputs outputs = no_outputs();
    params.batch = 3;
    params.isa = isa;
    runner r = runner_make(&b->model, &params);
    outputs.logits = good;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b->input, .batch = 3 }, &outputs) ==
          VIT_OK);
    float before = b->input[b->pixels + 17];
    b->input[b->pixels + 17] = bad;
    outputs.logits = logits;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b->input, .batch = 3 }, &outputs) ==
          VIT_OK);
    b->input[b->pixels + 17] = before;
    CHECK(memcmp(good, logits, 5 * sizeof(float)) == 0);
    CHECK(memcmp(good + 10, logits + 10, 5 * sizeof(float)) == 0);
    CHECK_MSG(lossy || !isfinite(logits[5]), "%s: %g became %g", vit_isa_name(isa), (double)bad,
              (double)logits[5]);
    free(r.workspace);
}

/* A NaN or infinity in one image must stay in that image, and must reach its logits. If the number
 * is 3e38, sums may become infinite, so any logits are accepted. */
static void test_nonfinite_input(void) {
    static const float bad[] = { (float)NAN, (float)INFINITY, -(float)INFINITY, 3e38f, -3e38f };
    for (int kind = 0; kind <= VIT_NUM_DTYPES; kind++) {
        bench b = bench_of_kind(kind);
        FOR_EACH_ISA(isa) {
            for (int i = 0; i < 5; i++) {
                nonfinite_run(&b, (vit_isa)isa, i >= 3, bad[i]);
            }
        }
        bench_close(&b);
    }
}

/* Puts `bits` at the start of tensor `index`, in a model of each type. All tiers must agree which
 * logits are finite. If no logit of the f32 model is finite, none may be finite in the other
 * models. */
static void nonfinite_weight(const tiny_options *given, int index, uint32_t bits) {
    static const vit_dtype dtypes[] = { VIT_F32, VIT_I8, VIT_I4, VIT_BF16 };
    tiny_options o = *given;
    bool harmless = false;
    for (int i = 0; i < 4; i++) {
        float base[5] = { 0 }, logits[5];
        vit_tensor t;
        o.dtype = dtypes[i];
        bench b = bench_open(&o);
        CHECK(vit_model_tensor(&b.model, index, &t));
        tiny_put(b.file.data + t.offset, bits, 4);
        FOR_EACH_ISA(isa) {
            vit_params params = no_params();
            vit_outputs outputs = no_outputs();
            params.isa = (vit_isa)isa;
            runner r = runner_make(&b.model, &params);
            outputs.logits = isa == VIT_ISA_SCALAR ? base : logits;
            CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
            for (int k = 0; k < 5 && isa == VIT_ISA_SCALAR; k++) {
                harmless |= i == 0 && isfinite(base[k]);
                CHECK_MSG(harmless || !isfinite(base[k]), "0x%x in %s, %d: %g", (unsigned)bits,
                          t.name, i, (double)base[k]);
            }
            for (int k = 0; k < 5 && isa != VIT_ISA_SCALAR; k++) {
                CHECK_MSG(!isfinite(base[k]) == !isfinite(logits[k]),
                          "0x%x in %s, %d, %s: %g, not %g", (unsigned)bits, t.name, i,
                          vit_isa_name((vit_isa)isa), (double)logits[k], (double)base[k]);
            }
            free(r.workspace);
        }
        bench_close(&b);
    }
}

/* Puts NaN and infinity into the f32 tensors of models with various blocks and poolings, on every
 * tier. Integer types must give NaN where f32 does. If they give a number, a kernel has used the
 * payload of a NaN as a weight. */
static void test_nonfinite_weights(void) {
    static const uint32_t bad[] = { 0x7fc07fff, 0x7f800000, 0xff800000 };
    for (int kind = 0; kind < 7; kind++) {
        tiny_options o = tiny_defaults();
        vit_config *c = &o.config;
        vit_tensor t;
        c->depth = 1;
        c->embed_dim = 32;
        c->head_dim = 16;
        c->has_layer_scale = kind == 0;
        c->has_diff_attn = kind == 1;
        c->has_rel_pos = kind == 2;
        c->has_qk_norm = c->has_mlp_norm = kind == 3;
        c->rope = kind == 3 ? VIT_ROPE_HALVES : VIT_ROPE_NONE;
        c->pool = kind == 4 ? VIT_POOL_MAX : kind == 5 ? VIT_POOL_MAP : VIT_POOL_TOKEN;
        c->block_type = kind == 6 ? VIT_BLOCK_POST_NORM : VIT_BLOCK_PRE_NORM;
        vit_config_check(c, NULL);
        for (int i = 2; vit_architecture_tensor(c, VIT_F32, i, &t); i++) {
            for (int k = 0; k < 3 && t.layout == VIT_LAYOUT_PLAIN; k++) {
                if (strncmp(t.name, "selftest", 8) != 0) {
                    nonfinite_weight(&o, i, bad[k]);
                }
            }
        }
    }
}

/* --- phases --------------------------------------------------------------- */

enum { MAX_PHASES = 200 };

typedef struct phase_log {
    vit_phase phases[MAX_PHASES];
    int count, traced, misplaced;
    bool foreign_thread;
    thread_id caller;
} phase_log;

static void log_phase(void *user, vit_phase phase) {
    phase_log *log = user;
    log->foreign_thread |= log->caller != this_thread();
    if (log->count < MAX_PHASES) {
        log->phases[log->count] = phase;
    }
    log->count++;
}

/* Checks that a tensor is traced during the phase that computed it. */
static void trace_in_phase(void *user, const char *name, const float *data, const int shape[4]) {
    static const struct {
        const char *end;
        vit_phase phase;
    } places[] = {
        { "patch_embed", VIT_PHASE_PATCH_EMBED },
        { ".norm1", VIT_PHASE_NORM },
        { ".attn.qkv", VIT_PHASE_QKV },
        { ".attn.context", VIT_PHASE_ATTENTION },
        { ".attn.proj", VIT_PHASE_PROJ },
        { ".norm2", VIT_PHASE_NORM },
        { ".mlp.fc1", VIT_PHASE_FC1 },
        { ".mlp.act", VIT_PHASE_FC1 },
        { ".mlp.fc2", VIT_PHASE_FC2 },
        { "head", VIT_PHASE_HEAD },
    };
    phase_log *log = user;
    (void)data;
    (void)shape;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t length = strlen(name), wanted = strlen(places[i].end);
        if (length >= wanted && strcmp(name + length - wanted, places[i].end) == 0) {
            log->traced++;
            log->misplaced += log->count < 1 || log->count > MAX_PHASES ||
                              log->phases[log->count - 1] != places[i].phase;
        }
    }
}

/* Returns the next phase of the log that is not NORM; `norms` receives the number of NORMs before
 * it. */
static vit_phase next_phase(const phase_log *log, int *at, int *norms) {
    for (*norms = 0; *at < log->count && log->phases[*at] == VIT_PHASE_NORM; ++*at) {
        ++*norms;
    }
    return *at < log->count ? log->phases[(*at)++] : VIT_NUM_PHASES;
}

/* Checks one pass, from log entry *at on. Each step occurs once, and a norm comes before the layer
 * that reads it. Converting a layer's input also counts as NORM. NORM may therefore come before any
 * layer, and in the middle of HEAD. */
static void check_pass(const phase_log *log, int *at, int depth) {
    static const vit_phase block[] = { VIT_PHASE_QKV, VIT_PHASE_ATTENTION, VIT_PHASE_PROJ,
                                       VIT_PHASE_FC1, VIT_PHASE_FC2 };
    int norms;
    CHECK(*at < log->count && log->phases[*at] == VIT_PHASE_PATCH_EMBED);
    ++*at;
    for (int i = 0; i < 5 * depth; i++) {
        vit_phase wanted = block[i % 5], got = next_phase(log, at, &norms);
        CHECK_MSG(got == wanted, "%s, not %s", vit_phase_name(got), vit_phase_name(wanted));
        CHECK(norms > 0 || (wanted != VIT_PHASE_QKV && wanted != VIT_PHASE_FC1));
    }
    CHECK(next_phase(log, at, &norms) == VIT_PHASE_HEAD);
    while (*at < log->count && log->phases[*at] != VIT_PHASE_END) {
        CHECK(next_phase(log, at, &norms) == VIT_PHASE_HEAD);
    }
    CHECK(*at < log->count && log->phases[*at] == VIT_PHASE_END);
    ++*at;
}

/* Three images are computed in passes of two and one. All runs must give the same bits, with and
 * without callbacks for phases and traced tensors. */
static void phases_of(bench *b, vit_isa isa, const vit_executor *executor, bool trace) {
    phase_log log;
    float plain[3 * 5], logits[3 * 5];
    vit_params params = no_params();
    vit_outputs outputs = no_outputs();
    memset(&log, 0, sizeof log);
    log.caller = this_thread();
    params.isa = isa;
    params.batch = 2;
    params.executor = *executor;
    runner r = runner_make(&b->model, &params);
    outputs.logits = plain;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b->input, .batch = 3 }, &outputs) ==
          VIT_OK);
    free(r.workspace);
    params.on_phase = log_phase;
    params.phase_user = &log;
    params.trace = trace ? trace_in_phase : NULL;
    params.trace_user = &log;
    r = runner_make(&b->model, &params);
    outputs.logits = logits;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b->input, .batch = 3 }, &outputs) ==
          VIT_OK);
    free(r.workspace);
    CHECK(memcmp(plain, logits, sizeof plain) == 0);
    int at = 0;
    CHECK(log.count <= MAX_PHASES && !log.foreign_thread);
    check_pass(&log, &at, b->model.config.depth);
    check_pass(&log, &at, b->model.config.depth);
    CHECK(at == log.count);
    CHECK(log.misplaced == 0 && log.traced == (trace ? 2 * (2 + 8 * b->model.config.depth) : 0));
}

/* If only outputs of blocks are requested, the blocks after the last requested one do not run. */
static void test_needed_blocks(void) {
    bench b = bench_default();
    const vit_config *c = &b.model.config;
    const size_t tokens = (size_t)c->num_tokens * (size_t)c->embed_dim;
    float *first = malloc(2 * tokens * sizeof *first), *again = first + tokens;
    vit_block_output blocks[2] = { { NULL, NULL, 0, 0 }, { NULL, NULL, -1, 0 } };
    vit_outputs outputs = no_outputs();
    vit_params params = no_params();
    float logits[5];
    phase_log log;
    CHECK(c->depth == 2 && c->num_classes == 5);
    params.on_phase = log_phase;
    params.phase_user = &log;
    runner r = runner_make(&b.model, &params);
    outputs.blocks = blocks;
    for (int i = 0; i < 4; i++) {
        const int runs[] = { 1, 2, 2, 0 };
        memset(&log, 0, sizeof log);
        log.caller = this_thread();
        blocks[0].tokens = i ? again : first;
        outputs.num_blocks = i == 3 ? 0 : 1 + (i == 1);
        outputs.logits = i == 2 ? logits : NULL;
        CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input }, &outputs) == VIT_OK);
        int attentions = 0, heads = 0;
        for (int k = 0; k < log.count; k++) {
            attentions += log.phases[k] == VIT_PHASE_ATTENTION;
            heads += log.phases[k] == VIT_PHASE_HEAD;
        }
        CHECK_MSG(attentions == runs[i], "%d of %d blocks", attentions, runs[i]);
        CHECK((heads > 0) == (runs[i] == 2) && log.phases[log.count - 1] == VIT_PHASE_END);
        CHECK(i == 0 || i == 3 || memcmp(first, again, tokens * sizeof *first) == 0);
    }
    free(r.workspace);
    free(first);
    bench_close(&b);
}

static void test_phases(void) {
    vit_threads *pool;
    vit_executor executors[2];
    memset(executors, 0, sizeof executors);
    CHECK(vit_threads_create(3, &pool, &executors[1]) == VIT_OK);
    for (int kind = 0; kind <= VIT_NUM_DTYPES; kind++) {
        bench b = bench_of_kind(kind);
        FOR_EACH_ISA(isa) {
            for (int i = 0; i < 4; i++) {
                phases_of(&b, (vit_isa)isa, &executors[i / 2], i % 2 != 0);
            }
        }
        bench_close(&b);
    }
    vit_threads_destroy(pool);
}

static void test_no_allocation(void) {
    bench b = bench_default();
    vit_threads *pool;
    vit_params params = no_params();
    vit_outputs outputs = no_outputs();
    float logits[4 * 5];
    CHECK(vit_threads_create(2, &pool, &params.executor) == VIT_OK);
    long before = blocks_made;
    runner r = runner_make(&b.model, &params);
    outputs.logits = logits;
    for (int i = 0; i < 10; i++) {
        CHECK(vit_forward(&r.session, &(vit_input){ .pixels = b.input, .batch = 4 }, &outputs) ==
              VIT_OK);
    }
    CHECK(blocks_made == before);
    free(r.workspace);
    vit_threads_destroy(pool);
    bench_close(&b);
    CHECK(blocks_live == 0);
}

/* --- selftest ------------------------------------------------------------- */

static void test_selftest(void) {
    for (int headless = 0; headless <= 1; headless++) {
        tiny_options o = tiny_defaults();
        if (headless) {
            o.config.num_classes = 0;
        }
        bench b = bench_open(&o);
        FOR_EACH_ISA_LIKE(isa, vit_detect_isa()) {
            vit_params params = no_params();
            float *input = tiny_allocate(b.pixels * sizeof(float)), output[16], error = -1;
            params.isa = (vit_isa)isa;
            runner r = runner_make(&b.model, &params);
            CHECK(vit_selftest(&r.session, input, output, &error) == VIT_OK);
            CHECK_MSG(error == 0, "error %g", (double)error);
            CHECK(vit_selftest(&r.session, input, output, NULL) == VIT_OK);
            vit_session never_begun;
            memset(&never_begun, 0, sizeof never_begun);
            CHECK(vit_selftest(NULL, input, output, NULL) == VIT_ERROR_ARGUMENT);
            CHECK(vit_selftest(&never_begun, input, output, NULL) == VIT_ERROR_ARGUMENT);
            CHECK(vit_selftest(&r.session, NULL, output, NULL) == VIT_ERROR_ARGUMENT);
            CHECK(vit_selftest(&r.session, input, NULL, NULL) == VIT_ERROR_ARGUMENT);
            free(r.workspace);
            free(input);
        }
        bench_close(&b);
    }
}

static void test_selftest_fails(void) {
    static const float wrong[][5] = { { 1, 2, 3, 4, 5 }, { 0 } };
    for (int i = 0; i < 2; i++) {
        tiny_options o = tiny_defaults();
        o.selftest = wrong[i];
        bench b = bench_open(&o);
        runner r = runner_make(&b.model, NULL);
        float *input = tiny_allocate(b.pixels * sizeof(float)), output[5], error = -1;
        CHECK(vit_selftest(&r.session, input, output, &error) == VIT_ERROR_SELFTEST);
        CHECK(error > 1e-3f);
        free(input);
        free(r.workspace);
        bench_close(&b);
    }
}

/* Makes one logit NaN or infinite. The self-test must fail, although all other logits are exact. */
static void test_selftest_nonfinite(void) {
    static const uint32_t bad[] = { 0x7fc00000, 0x7f800000 };
    for (int i = 0; i < 5 * 2; i++) {
        bench b = bench_default();
        runner r = runner_make(&b.model, NULL);
        float *input = tiny_allocate(b.pixels * sizeof(float)), output[5], error = -1;
        vit_outputs outputs = no_outputs();
        vit_tensor t;
        int bias = 0, expected = 0, k;
        for (k = 0; vit_model_tensor(&b.model, k, &t); k++) {
            bias = strcmp(t.name, "head.bias") == 0 ? (int)t.offset : bias;
            expected = strcmp(t.name, "selftest.logits") == 0 ? (int)t.offset : expected;
        }
        vit_selftest_input(&b.model.config, input);
        outputs.logits = output;
        CHECK(vit_forward(&r.session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
        for (k = 0; k < 5; k++) {
            uint32_t bits;
            memcpy(&bits, &output[k], 4);
            tiny_put(b.file.data + expected + 4 * k, bits, 4);
        }
        CHECK(vit_selftest(&r.session, input, output, &error) == VIT_OK && error == 0.0f);
        tiny_put(b.file.data + bias + 4 * (i / 2), bad[i % 2], 4);
        CHECK(vit_selftest(&r.session, input, output, &error) == VIT_ERROR_SELFTEST);
        CHECK_MSG(!isfinite(error), "%d: %g", i, (double)error);
        free(input);
        free(r.workspace);
        bench_close(&b);
    }
}

static void test_selftest_absent(void) {
    tiny_options o = tiny_defaults();
    o.config.selftest_tolerance = 0;
    bench b = bench_open(&o);
    runner r = runner_make(&b.model, NULL);
    float input[3 * 8 * 8], output[5];
    CHECK(vit_selftest(&r.session, input, output, NULL) == VIT_ERROR_UNSUPPORTED);
    free(r.workspace);
    bench_close(&b);
}

/* --- another input size ---------------------------------------------------- */

/* Resamples positions [1, prefix + patches, dim] of one grid for another grid. */
static void store_resampled(const vit_model *model, const vit_tensor *from, const vit_config *c,
                            const vit_tensor *to, unsigned char *data) {
    const int prefix = c->positions == VIT_POS_ALL ? c->num_prefix_tokens * c->embed_dim : 0;
    float *old = tiny_allocate((size_t)from->size), *new = tiny_allocate((size_t)to->size);
    vit_unpack_row(from, 0, old);
    memcpy(new, old, (size_t)prefix * sizeof(float));
    vit_resample_positions((vit_pos_resample)c->pos_resample, c->embed_dim, old + prefix,
                           (vit_grid){ model->config.grid_height, model->config.grid_width },
                           new + prefix, (vit_grid){ c->grid_height, c->grid_width });
    tiny_store(to, new, data);
    free(old);
    free(new);
}

/* Builds the same model for an input of this size. Its positions are resampled. */
static tiny_file built_at(tiny_options o, const vit_model *model, int height, int width) {
    vit_tensor from, to;
    vit_model built;
    o.config.img_height = height;
    o.config.img_width = width;
    vit_config_check(&o.config, NULL);
    tiny_file f = tiny_build(&o);
    CHECK(vit_model_open_memory(f.data, f.size, 0, &built) == VIT_OK);
    for (int i = 0; vit_model_tensor(&built, i, &to); i++) {
        /* Both models have the same tensors in the same order. The sizes of the tensors differ, and
         * therefore the random numbers differ too. */
        CHECK(vit_model_tensor(model, i, &from) && strcmp(from.name, to.name) == 0);
        const bool same_grid = memcmp(from.dims, to.dims, sizeof to.dims) == 0;
        if (strcmp(to.name, "pos_embed") != 0 || same_grid) {
            memcpy(f.data + to.offset, from.data, (size_t)to.size);
        } else {
            store_resampled(model, &from, &built.config, &to, f.data + to.offset);
        }
    }
    vit_model_close(&built);
    return f;
}

/* Computes the logits of one image of random numbers. */
static void logits_of(const vit_model *model, const vit_params *params, float logits[5]) {
    const size_t count = (size_t)(3 * model->config.img_height * model->config.img_width);
    float *input = tiny_allocate(count * sizeof(float));
    vit_outputs outputs = no_outputs();
    uint32_t state = 3;
    for (size_t i = 0; i < count; i++) {
        input[i] = tiny_random(&state);
    }
    runner r = runner_make(model, params);
    outputs.logits = logits;
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    free(r.workspace);
    free(input);
}

static void check_resized(const tiny_options *o, const vit_model *original, int height, int width) {
    vit_model resized = *original, built;
    float expected[5], logits[5];
    CHECK_MSG(vit_model_resize(&resized, height, width) == VIT_OK, "%s", resized.detail);
    tiny_file f = built_at(*o, original, height, width);
    CHECK(vit_model_open_memory(f.data, f.size, 0, &built) == VIT_OK);
    CHECK(resized.config.num_tokens == built.config.num_tokens);
    logits_of(&built, NULL, expected);
    FOR_EACH_ISA_LIKE(isa, vit_detect_isa()) {
        for (int threads = 1; threads <= 3; threads++) {
            vit_params params = no_params();
            vit_threads *pool;
            params.isa = (vit_isa)isa;
            CHECK(vit_threads_create(threads, &pool, &params.executor) == VIT_OK);
            logits_of(&resized, &params, logits);
            CHECK_MSG(memcmp(logits, expected, sizeof logits) == 0, "way %d, %dx%d, %s",
                      o->config.pos_resample, height, width, vit_isa_name((vit_isa)isa));
            vit_threads_destroy(pool);
        }
    }
    tiny_free(&f);
}

/* Tries six kinds of resampling. The model has positions for all tokens, for the patches only, or
 * none. Some of the sizes need padding. */
static void test_resize(void) {
    static const int sizes[][2] = {
        { 8, 8 }, { 12, 20 }, { 4, 4 }, { 9, 14 }, { 33, 5 }, { 40, 40 }
    };
    for (int kind = 0; kind < 6 * 2 * 2 + 1; kind++) {
        tiny_options o = tiny_defaults();
        o.config.dynamic_img_size = 1;
        o.config.pos_resample = kind / 4 % 6;
        o.config.positions = kind & 1 ? VIT_POS_ALL : VIT_POS_PATCHES;
        o.config.dynamic_img_pad = kind >> 1 & 1;
        o.config.positions = kind < 6 * 2 * 2 ? o.config.positions : VIT_POS_NONE;
        o.config.img_width = 12;
        bench b = bench_open(&o);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check_resized(&o, &b.model, sizes[i][0], sizes[i][1]);
        }
        bench_close(&b);
    }
}

/* A refused call must not change the model's configuration. */
static void check_refused(const vit_model *original, int height, int width, vit_result result,
                          const char *detail) {
    vit_model model = *original;
    CHECK(vit_model_resize(&model, height, width) == result);
    CHECK_MSG(strstr(model.detail, detail) != NULL, "%dx%d: %s", height, width, model.detail);
    CHECK(memcmp(&model.config, &original->config, sizeof model.config) == 0);
}

static void test_resize_refused(void) {
    tiny_options o = tiny_defaults();
    bench b = bench_open(&o);
    check_refused(&b.model, 8, 8, VIT_ERROR_UNSUPPORTED, "not marked dynamic_img_size");
    CHECK(vit_model_resize(NULL, 8, 8) == VIT_ERROR_ARGUMENT);
    bench_close(&b);
    CHECK(vit_model_resize(&b.model, 8, 8) == VIT_ERROR_ARGUMENT);
    o.config.dynamic_img_size = 1;
    b = bench_open(&o);
    check_refused(&b.model, 0, 8, VIT_ERROR_ARGUMENT, "img_height is out of range");
    check_refused(&b.model, 8, -1, VIT_ERROR_ARGUMENT, "img_width is out of range");
    check_refused(&b.model, 16385, 8, VIT_ERROR_ARGUMENT, "img_height is out of range");
    check_refused(&b.model, 8, 0x7fffffff, VIT_ERROR_ARGUMENT, "img_width is out of range");
    check_refused(&b.model, 3, 8, VIT_ERROR_ARGUMENT, "patch_size is larger than the image");
    check_refused(&b.model, 2048, 2048, VIT_ERROR_ARGUMENT,
                  "num_tokens, at most: expected 65536, found ");
    bench_close(&b);
    o.config.patch_stride = 2;
    b = bench_open(&o);
    check_refused(&b.model, 3, 8, VIT_ERROR_ARGUMENT, "patch_size is larger than the image");
    CHECK(vit_model_resize(&b.model, 4, 9) == VIT_OK);
    CHECK(b.model.config.grid_height == 1 && b.model.config.grid_width == 3);
    bench_close(&b);
    o.config.patch_stride = 0;
    o.config.resize_height = 30;
    b = bench_open(&o);
    check_refused(&b.model, 16384, 4, VIT_ERROR_ARGUMENT, "resize_height is out of range");
    bench_close(&b);
}

/* Compares the size to which a photo is resized with the expected size. A model that merges 2 x 2
 * patches of half the side must give the same size, because the grid must consist of whole merged
 * tokens. */
static void check_fit(vit_config *c, int width, int height, int fitted_width, int fitted_height) {
    for (c->merge_size = 0; c->merge_size <= 2; c->merge_size += 2) {
        vit_crop crop;
        vit_find_crop(c, width, height, &crop);
        CHECK_MSG(crop.width == fitted_width && crop.height == fitted_height && crop.left == 0 &&
                      crop.top == 0,
                  "%d x %d, merge_size %d: %d x %d", width, height, c->merge_size, (int)crop.width,
                  (int)crop.height);
        if (c->patch_size % 2) return;
        c->patch_size /= 2;
    }
}

/* These sizes are from Siglip2ImageProcessor's get_image_size_for_max_num_patches. timm's
 * get_image_size_for_seq gives the same sizes. */
static void test_fit_sizes(void) {
    static const struct {
        int width, height, patch, side, fitted_width, fitted_height;
    } rows[] = {
        { 640, 480, 16, 16, 288, 224 },   { 480, 640, 16, 16, 224, 288 },
        { 4032, 3024, 16, 16, 288, 224 }, { 3024, 4032, 14, 27, 322, 434 },
        { 1, 1, 16, 16, 112, 112 },       { 1, 100000, 16, 16, 16, 4096 },
        { 100000, 1, 16, 16, 4096, 16 },  { 500, 375, 16, 24, 432, 336 },
        { 37, 23, 16, 8, 160, 96 },       { 256, 256, 16, 16, 256, 256 },
        { 1000, 10, 16, 32, 4800, 48 },   { 1048576, 1048576, 16, 16, 256, 256 },
        { 224, 224, 32, 7, 224, 224 },    { 1920, 1080, 16, 32, 672, 384 },
        { 13, 977, 8, 10, 8, 608 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_options o = tiny_defaults();
        o.config.crop_mode = VIT_CROP_ASPECT;
        o.config.patch_size = rows[i].patch;
        o.config.img_height = o.config.img_width = 7;
        o.config.resize_height = o.config.resize_width = rows[i].patch * rows[i].side;
        check_fit(&o.config, rows[i].width, rows[i].height, rows[i].fitted_width,
                  rows[i].fitted_height);
    }
}

/* The expected sizes are from get_resize_output_image_size of DPTImageProcessor with
 * keep_aspect_ratio. A side of no pixels becomes one patch. */
static void test_fit_nearest(void) {
    static const struct {
        int width, height, patch, resize_height, resize_width, fitted_width, fitted_height;
    } rows[] = {
        { 640, 480, 14, 518, 518, 686, 518 },   { 480, 640, 14, 518, 518, 518, 686 },
        { 1920, 1080, 14, 518, 518, 924, 518 }, { 4032, 3024, 14, 518, 518, 686, 518 },
        { 100, 50, 14, 518, 518, 518, 252 },    { 50, 100, 14, 518, 518, 252, 518 },
        { 37, 23, 14, 518, 518, 518, 322 },     { 518, 518, 14, 518, 518, 518, 518 },
        { 4000, 300, 14, 518, 518, 6902, 518 }, { 2000, 518, 14, 518, 518, 2002, 518 },
        { 1000, 700, 16, 384, 512, 544, 384 },  { 333, 500, 14, 266, 266, 266, 406 },
        { 28, 21, 14, 21, 21, 28, 28 },         { 35, 35, 14, 35, 35, 28, 28 },
        { 13, 977, 8, 80, 80, 8, 80 },          { 1000, 10, 14, 518, 518, 518, 14 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_options o = tiny_defaults();
        o.config.crop_mode = VIT_CROP_ASPECT;
        o.config.crop_rounding = VIT_ROUND_NEAREST;
        o.config.patch_size = rows[i].patch;
        o.config.resize_height = rows[i].resize_height;
        o.config.resize_width = rows[i].resize_width;
        check_fit(&o.config, rows[i].width, rows[i].height, rows[i].fitted_width,
                  rows[i].fitted_height);
    }
}

/* For photos of several sizes, vit_run must give the results of a model that is resized for each
 * photo. */
static void test_fit(void) {
    static uint8_t pixels[3 * 90 * 90];
    tiny_options o = tiny_defaults();
    float input[3 * 16 * 16 * 2], output[5], scores[5];
    vit_outputs outputs = no_outputs();
    vit_image photos[3] = { { pixels, 90, 40, 0, VIT_PIXEL_RGB8 },
                            { pixels, 10, 90, 0, VIT_PIXEL_RGB8 },
                            { pixels, 30, 30, 0, VIT_PIXEL_RGB8 } };
    vit_prediction top;
    vit_model fitted;
    vit_answer answer;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * i >> 5);
    o.config.img_height = o.config.img_width = 16;
    o.config.resize_height = o.config.resize_width = 16;
    o.config.crop_mode = VIT_CROP_ASPECT;
    config_refused(&o.config, "crop_mode 3 needs dynamic_img_size");
    o.config.dynamic_img_size = 1;
    bench b = bench_open(&o);
    runner all = runner_make(&b.model, NULL);
    CHECK(vit_preprocess(&b.model, photos, input, NULL, 0) == VIT_ERROR_UNSUPPORTED);
    CHECK(vit_preprocess_size(&b.model, photos) == 0);
    CHECK(vit_model_fit(&b.model, NULL, &fitted) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_fit(NULL, photos, &fitted) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_fit(&b.model, photos, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_run(&all.session, photos, 3, &answer) == VIT_OK);
    outputs.logits = output;
    for (int i = 0; i < 3; i++) {
        CHECK(vit_model_fit(&b.model, &photos[i], &fitted) == VIT_OK);
        const vit_config *c = &fitted.config;
        CHECK(c->num_patches <= 16 && c->grid_height * c->grid_width == c->num_patches);
        CHECK((c->img_width > c->img_height) == (i == 0) &&
              (c->img_width < c->img_height) == (i == 1));
        vit_model resized = b.model; /* This model is resized by the test itself. */
        CHECK(vit_model_resize(&resized, c->img_height, c->img_width) == VIT_OK);
        resized.config.crop_mode = VIT_CROP_SQUASH;
        resized.config.resize_height = c->img_height;
        resized.config.resize_width = c->img_width;
        CHECK(vit_preprocess(&resized, &photos[i], input, NULL, 0) == VIT_OK);
        runner one = runner_make(&resized, NULL);
        CHECK(vit_forward(&one.session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
        memcpy(scores, output, sizeof scores);
        vit_scores(&resized, scores);
        CHECK(memcmp(scores, answer.scores + (size_t)i * 5, sizeof scores) == 0);
        CHECK(vit_classify(&b.model, &photos[i], 1, &top) == VIT_OK);
        CHECK(top.score >= scores[top.index] && top.score <= scores[top.index]);
        vit_session_close(&one.session);
        free(one.workspace);
    }
    vit_session_close(&all.session);
    free(all.workspace);
    CHECK(vit_model_fit(&b.model, &photos[0], &fitted) == VIT_OK);
    /* A fitted model keeps its size, so this call changes nothing. */
    CHECK(vit_model_fit(&fitted, &photos[1], &fitted) == VIT_OK);
    CHECK(fitted.config.img_width > fitted.config.img_height);
    fitted = b.model;
    /* The model is changed in place. */
    CHECK(vit_model_fit(&fitted, &photos[0], &fitted) == VIT_OK);
    CHECK(fitted.config.img_width > fitted.config.img_height);
    bench_close(&b);
}

/* Computes tables of rotary and relative positions in the workspace of the session. The workspace
 * has exactly the needed size, so that ASan detects accesses beyond its end. test_convert.sh
 * compares the results with those of tables that the converter has computed. */
static void test_resize_tables(void) {
    for (int kind = 0; kind < 4; kind++) {
        tiny_options o = tiny_defaults();
        float logits[5];
        o.config.dynamic_img_size = 1;
        o.config.has_rel_pos = kind == 0;
        o.config.rope = kind ? VIT_ROPE_HALVES : VIT_ROPE_NONE;
        o.config.rope_per_block = kind > 1;
        o.config.positions = kind == 3 ? VIT_POS_NONE : VIT_POS_ALL;
        bench b = bench_open(&o);
        size_t before = vit_workspace_size(&b.model, NULL);
        CHECK(vit_model_resize(&b.model, 12, 20) == VIT_OK);
        CHECK(vit_workspace_size(&b.model, NULL) > before);
        logits_of(&b.model, NULL, logits);
        CHECK(logits[0] - logits[0] == 0);
        bench_close(&b);
    }
    tiny_options o = tiny_defaults();
    o.config.dynamic_img_size = o.config.has_rel_pos = 1;
    o.config.pos_resample = VIT_RESAMPLE_DINO;
    config_refused(&o.config, "has_rel_pos with dynamic_img_size needs pos_resample 0 or 1");
}

/* Compares the cosine and sine of an angle with libm's. If an angle is infinite, NaN or too large,
 * the cosine must be 1 and the sine 0. */
static void test_rope_angle(void) {
    const vit_grid grid = { 30, 50 };
    uint32_t state = 8;
    double worst = 0;
    float cosine, sine;
    for (int i = 0; i < 3000; i++) {
        double size = pow(10, (double)(i % 12) - 5), row, column, angle;
        vit_rotation f = { { (float)size * tiny_random(&state), 1e-9f, 0 },
                           { tiny_random(&state), 0, 0 },
                           0.5f,
                           i % 2 ? 2.0f : 0.0f,
                           i % 2 ? -1.0f : 7.0f };
        int patch = i % 1500;
        row = patch / 50 + 0.5, column = patch % 50 + 0.5;
        if (i % 2) {
            row = row / 30 * 2 - 1, column = column / 50 * 2 - 1;
        }
        angle = ((double)f.row[0] + (double)f.row[1]) * row + (double)f.column[0] * column;
        vit_rope_angle(&f, grid, patch, &cosine, &sine);
        worst = fmax(worst, fabs((double)cosine - cos(angle)));
        worst = fmax(worst, fabs((double)sine - sin(angle)));
    }
    /* The bound is half an ulp of numbers near 1. */
    CHECK_MSG(worst < 3.1e-8, "cosine and sine: %g", worst);
    for (int i = 0; i < 4; i++) {
        vit_rotation f = { { i == 0   ? (float)NAN
                             : i == 1 ? (float)INFINITY
                                      : 3e38f,
                             0, 0 },
                           { i == 2 ? -1e38f : 0, 0, 0 },
                           0.5f,
                           0,
                           0 };
        vit_rope_angle(&f, grid, 0, &cosine, &sine);
        CHECK(cosine == 1 && sine == 0);
    }
}

/* A session works for one input size only. The self-test runs only at the input size of the
 * file. */
static void test_resize_sessions(void) {
    tiny_options o = tiny_defaults();
    o.config.dynamic_img_size = 1;
    bench b = bench_open(&o);
    float input[3 * 16 * 16] = { 0 }, output[5];
    vit_outputs outputs = no_outputs();
    runner old = runner_make(&b.model, NULL);
    outputs.logits = output;
    CHECK(vit_selftest(&old.session, input, output, NULL) == VIT_OK);
    CHECK(vit_model_resize(&b.model, 16, 12) == VIT_OK);
    CHECK(b.model.config.grid_height == 4 && b.model.config.grid_width == 3);
    CHECK(vit_forward(&old.session, &(vit_input){ .pixels = input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    runner new = runner_make(&b.model, NULL);
    CHECK(vit_forward(&new.session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    CHECK(vit_selftest(&new.session, input, output, NULL) == VIT_ERROR_UNSUPPORTED);
    CHECK(vit_model_resize(&b.model, 8, 8) == VIT_OK);
    CHECK(vit_forward(&new.session, &(vit_input){ .pixels = input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    CHECK(vit_selftest(&new.session, input, output, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_selftest(&old.session, input, output, NULL) == VIT_OK);
    CHECK(vit_model_resize(&b.model, 8, 12) == VIT_OK);
    CHECK(vit_forward(&old.session, &(vit_input){ .pixels = input }, &outputs) ==
          VIT_ERROR_ARGUMENT);
    CHECK(vit_selftest(&old.session, input, output, NULL) == VIT_ERROR_UNSUPPORTED);
    free(old.workspace);
    free(new.workspace);
    bench_close(&b);
}

/* Tests the size to which a photo is resized before the crop. It is computed from crop_pct, as
 * in timm. If crop_pct is 0, it keeps its ratio to the input size. */
static void test_resize_crop(void) {
    static const struct {
        float crop_pct;
        int before, size, after;
    } cases[] = { { 0.9f, 248, 384, 426 }, { 0.95f, 235, 448, 471 }, { 0.875f, 256, 336, 384 },
                  { 0.8f, 280, 240, 300 }, { 1, 224, 518, 518 },     { 0, 248, 384, 425 },
                  { 0, 256, 448, 512 },    { 0.7f, 320, 350, 500 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_options o = tiny_defaults();
        o.config.img_height = o.config.img_width = 224;
        o.config.patch_size = 32;
        o.config.dynamic_img_size = 1;
        o.config.crop_pct = cases[i].crop_pct;
        o.config.resize_height = o.config.resize_width = cases[i].before;
        bench b = bench_open(&o);
        CHECK(vit_model_resize(&b.model, cases[i].size, 224) == VIT_OK);
        CHECK_MSG(b.model.config.resize_height == cases[i].after, "%g: %d",
                  (double)cases[i].crop_pct, b.model.config.resize_height);
        CHECK(b.model.config.resize_width == cases[i].before);
        bench_close(&b);
    }
}

/* Tests a crop_pct that is so small that the side of a resized photo would not fit an int.
 * vit_model_resize must refuse it. */
static void test_resize_tiny_crop(void) {
    tiny_options o = tiny_defaults();
    o.config.dynamic_img_size = 1;
    o.config.crop_pct = 1e-6f;
    bench b = bench_open(&o);
    CHECK(vit_model_resize(&b.model, 4096, 4) == VIT_ERROR_ARGUMENT);
    CHECK_MSG(strcmp(b.model.detail, "resize_height is out of range") == 0, "%s", b.model.detail);
    bench_close(&b);
}

/* Tests the self-test's input: its first numbers, computed by hand from splitmix64 with seed 7, and
 * its range. */
static void test_selftest_input(void) {
    tiny_options o = tiny_defaults();
    float input[3 * 8 * 8], again[3 * 8 * 8];
    double sum = 0;
    vit_config_check(&o.config, NULL);
    vit_selftest_input(&o.config, input);
    vit_selftest_input(&o.config, again);
    CHECK(memcmp(input, again, sizeof input) == 0);
    CHECK(input[0] == -0x1.c341fp-3f && input[1] == -0x1.eecf1p-1f);
    CHECK(input[2] == 0x1.9a61p-1f && input[3] == 0x1.53aebp-3f);
    for (size_t i = 0; i < sizeof input / sizeof input[0]; i++) {
        CHECK(input[i] >= -1.0f && input[i] < 1.0f);
        sum += (double)input[i];
    }
    CHECK(fabs(sum) < 40);
    o.config.selftest_seed = 8;
    vit_selftest_input(&o.config, again);
    CHECK(memcmp(input, again, sizeof input) != 0);
}

/* --- top-k and softmax ---------------------------------------------------- */

static void test_top_k(void) {
    static const float ties[] = { 1, 3, 2, 3, 1, 3 };
    const float nan = (float)NAN, inf = (float)INFINITY;
    const float odd[] = { nan, 1, nan, -inf, inf, -nan };
    vit_prediction top[8];
    CHECK(vit_top_k(ties, 6, 6, top) == 6);
    static const int order[] = { 1, 3, 5, 2, 0, 4 };
    for (int i = 0; i < 6; i++) {
        CHECK(top[i].index == order[i] && top[i].score == ties[order[i]]);
    }
    memset(top, 0, sizeof top);
    top[2].index = 77;
    CHECK(vit_top_k(ties, 6, 2, top) == 2);
    CHECK(top[0].index == 1 && top[1].index == 3 && top[2].index == 77);
    CHECK(vit_top_k(ties, 6, 8, top) == 6);
    CHECK(vit_top_k(ties, 6, 0, top) == 0);
    CHECK(vit_top_k(ties, 6, -3, top) == 0);
    CHECK(vit_top_k(ties, 0, 3, top) == 0);
    CHECK(vit_top_k(ties, -1, 3, top) == 0);
    CHECK(vit_top_k(odd, 6, 6, top) == 6);
    CHECK(top[0].index == 4 && top[1].index == 1 && top[2].index == 3);
    CHECK(top[3].index == 0 && top[4].index == 2 && top[5].index == 5);
    CHECK(top[3].score != top[3].score);
    CHECK(vit_top_k(odd, 1, 1, top) == 1 && top[0].index == 0);
}

/* Compares vit_top_k with a stable selection, on many random lists with ties and NaN. */
static void test_top_k_random(void) {
    uint32_t state = 3;
    for (int round = 0; round < 300; round++) {
        float scores[40];
        bool taken[40] = { false };
        vit_prediction top[40];
        int n = 1 + (int)(((double)tiny_random(&state) + 1) * 19.9);
        int k = 1 + (int)(((double)tiny_random(&state) + 1) * 19.9);
        for (int i = 0; i < n; i++) {
            float x = tiny_random(&state);
            scores[i] = x > 0.9f ? (float)NAN : (float)(int)(x * 5);
        }
        int written = vit_top_k(scores, n, k, top);
        CHECK(written == (k < n ? k : n));
        for (int i = 0; i < written; i++) {
            int best = -1;
            for (int j = 0; j < n; j++) {
                bool better = best < 0 || scores[j] > scores[best] ||
                              (scores[best] != scores[best] && scores[j] == scores[j]);
                best = !taken[j] && better ? j : best;
            }
            taken[best] = true;
            CHECK(top[i].index == best && memcmp(&top[i].score, &scores[best], 4) == 0);
        }
    }
}

static void test_softmax(void) {
    uint32_t state = 11;
    for (int n = 1; n <= 70; n++) {
        float x[70];
        double sum = 0, total = 0, top = -1e9, wanted[70], slack[70];
        for (int i = 0; i < n; i++) {
            x[i] = 20 * tiny_random(&state);
            top = fmax(top, (double)x[i]);
        }
        for (int i = 0; i < n; i++) {
            sum += wanted[i] = exp((double)x[i] - top);
            /* vit_softmax rounds the difference x - max to float. */
            slack[i] = 4e-7 + 6e-8 * (top - (double)x[i]);
        }
        vit_softmax(x, n);
        for (int i = 0; i < n; i++) {
            double error = fabs((double)x[i] - wanted[i] / sum) / (wanted[i] / sum);
            CHECK_MSG(error <= slack[i], "n = %d: %g", n, error);
            total += (double)x[i];
        }
        CHECK(fabs(total - 1) < 1e-6);
    }
}

static void test_softmax_extremes(void) {
    const float inf = (float)INFINITY, nan = (float)NAN;
    float equal[3] = { 3e38f, 3e38f, 3e38f }, apart[3] = { -3e38f, 3e38f, 0 }, one[1] = { -5 };
    float low[2] = { -inf, 0 }, bad[3] = { 1, nan, 2 }, guard[2] = { 7, 7 };
    vit_softmax(equal, 3);
    CHECK(fabs((double)equal[0] - 1.0 / 3) < 1e-7 && equal[0] == equal[2]);
    vit_softmax(apart, 3);
    CHECK(apart[0] < 2e-38f && apart[1] == 1 && apart[2] < 2e-38f);
    vit_softmax(one, 1);
    CHECK(one[0] == 1);
    vit_softmax(low, 2);
    CHECK(low[0] < 2e-38f && low[1] == 1);
    vit_softmax(bad, 3);
    CHECK(bad[0] != bad[0] && bad[1] != bad[1] && bad[2] != bad[2]);
    vit_softmax(guard, 0);
    vit_softmax(guard, -1);
    CHECK(guard[0] == 7 && guard[1] == 7);
}

static void test_sigmoid(void) {
    const float inf = (float)INFINITY;
    double worst = 0;
    for (int i = -6000; i <= 6000; i++) {
        float x = (float)i * 0.0145f, y = x;
        vit_sigmoid(&y, 1);
        double wanted = 1 / (1 + exp(-(double)x));
        worst = fmax(worst, fabs((double)y - wanted) / wanted);
    }
    CHECK_MSG(worst < 2.4e-7, "sigmoid: %g", worst); /* The bound is 2 ulp. */
    float x[6] = { -inf, -1000, 1000, inf, 0, (float)NAN }, guard = 7;
    vit_sigmoid(x, 6);
    CHECK(x[0] > 0 && x[0] < 1e-38f && x[1] == x[0] && x[2] == 1 && x[3] == 1 && x[4] == 0.5f &&
          x[5] != x[5]);
    vit_sigmoid(&guard, 0);
    vit_sigmoid(&guard, -1);
    CHECK(guard == 7);
}

static void test_normalize(void) {
    enum { N = 1000 };
    static const float scales[] = { 1e-40f, 1e-20f, 1, 1e19f, 1e35f };
    static float a[N], b[N], unit[N];
    uint32_t state = 5;
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        double aa = 0, bb = 0, ab = 0, worst = 0;
        for (int i = 0; i < N; i++) {
            unit[i] = a[i] = tiny_random(&state) * scales[k];
            b[i] = tiny_random(&state) + unit[i] / scales[k];
            aa += (double)a[i] * (double)a[i];
            bb += (double)b[i] * (double)b[i];
            ab += (double)a[i] * (double)b[i];
        }
        vit_normalize(unit, N);
        for (int i = 0; i < N; i++) {
            double wanted = (double)a[i] / sqrt(aa);
            worst = fmax(worst, fabs((double)unit[i] - wanted) / fmax(fabs(wanted), 1e-30));
        }
        /* The bound is half an ulp, for vectors of length 1. */
        CHECK_MSG(worst < 6e-8, "length of 1: %g", worst);
        CHECK(fabs((double)vit_cosine(a, b, N) - ab / sqrt(aa * bb)) < 4e-8);
        CHECK(vit_cosine(a, a, N) == 1);
        for (int i = 0; i < N; i++) {
            unit[i] = -a[i];
        }
        CHECK(vit_cosine(a, unit, N) == -1);
    }
    float zeros[2] = { 0, -0.0f }, one[2] = { 3, -4 }, bad[2] = { 1, (float)NAN };
    float infinite[2] = { (float)INFINITY, 1 };
    CHECK(vit_cosine(zeros, one, 2) == 0 && vit_cosine(zeros, zeros, 2) == 0);
    CHECK(vit_cosine(one, one, 0) == 0 && vit_cosine(one, one, -1) == 0);
    CHECK(isnan(vit_cosine(one, bad, 2)) && isnan(vit_cosine(bad, zeros, 2)));
    CHECK(isnan(vit_cosine(one, infinite, 2)));
    vit_normalize(zeros, 2);
    CHECK(zeros[0] == 0 && zeros[1] == 0);
    vit_normalize(one, 0);
    vit_normalize(one, -1);
    CHECK(one[0] == 3);
    vit_normalize(one, 2);
    CHECK(one[0] == 0.6f && one[1] == -0.8f);
    vit_normalize(bad, 2);
    vit_normalize(infinite, 2);
    CHECK(isnan(bad[0]) && isnan(bad[1]) && isnan(infinite[0]) && isnan(infinite[1]));
}

/* --- classify ------------------------------------------------------------- */

static uint8_t photo[20 * 30 * 3];

static vit_image make_photo(void) {
    vit_image image = { photo, 30, 20, 0, VIT_PIXEL_RGB8 };
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof photo; i++) {
        photo[i] = (uint8_t)((tiny_random(&state) + 1.0f) * 127.0f);
    }
    return image;
}

static void test_classify(void) {
    bench b = bench_default();
    vit_image image = make_photo();
    vit_prediction top[7], wanted[5];
    runner r = runner_make(&b.model, NULL);
    float *input = tiny_allocate(b.pixels * sizeof(float)), logits[5];
    vit_outputs outputs = no_outputs();
    outputs.logits = logits;
    CHECK(vit_preprocess(&b.model, &image, input, NULL, 0) == VIT_OK);
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    vit_softmax(logits, 5);
    CHECK(vit_top_k(logits, 5, 5, wanted) == 5);
    CHECK(vit_classify(&b.model, &image, 7, top) == VIT_OK);
    for (int i = 0; i < 5; i++) {
        CHECK(top[i].index == wanted[i].index && top[i].score == wanted[i].score);
    }
    CHECK(top[5].index == -1 && top[6].index == -1);
    CHECK(vit_classify(&b.model, &image, 1, top) == VIT_OK && top[0].index == wanted[0].index);
    CHECK(vit_classify(NULL, &image, 1, top) == VIT_ERROR_ARGUMENT);
    CHECK(vit_classify(&b.model, NULL, 1, top) == VIT_ERROR_ARGUMENT);
    CHECK(vit_classify(&b.model, &image, 1, NULL) == VIT_ERROR_ARGUMENT);
    CHECK(vit_classify(&b.model, &image, -1, top) == VIT_ERROR_ARGUMENT);
    image.width = 0;
    CHECK(vit_classify(&b.model, &image, 1, top) == VIT_ERROR_ARGUMENT);
    free(input);
    free(r.workspace);
    bench_close(&b);
    CHECK(blocks_live == 0);
}

static void test_embed(void) {
    bench b = bench_default();
    vit_image image = make_photo();
    runner r = runner_make(&b.model, NULL);
    const int dim = vit_embedding_dim(&b.model);
    float *input = tiny_allocate(b.pixels * sizeof(float)), got[64], wanted[64];
    vit_outputs outputs = no_outputs();
    vit_model closed;
    memset(&closed, 0, sizeof closed);
    CHECK(dim > 0 && dim <= 64);
    CHECK(vit_input_size(&b.model) == b.pixels);
    CHECK(vit_input_size(NULL) == 0 && vit_input_size(&closed) == 0);
    outputs.embedding = wanted;
    CHECK(vit_preprocess(&b.model, &image, input, NULL, 0) == VIT_OK);
    CHECK(vit_forward(&r.session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    CHECK(vit_embed(&b.model, &image, got) == VIT_OK);
    CHECK(memcmp(got, wanted, (size_t)dim * sizeof(float)) == 0);
    CHECK(vit_embed(NULL, &image, got) == VIT_ERROR_ARGUMENT);
    CHECK(vit_embed(&closed, &image, got) == VIT_ERROR_ARGUMENT);
    CHECK(vit_embed(&b.model, NULL, got) == VIT_ERROR_ARGUMENT);
    CHECK(vit_embed(&b.model, &image, NULL) == VIT_ERROR_ARGUMENT);
    image.width = 0;
    CHECK(vit_embed(&b.model, &image, got) == VIT_ERROR_ARGUMENT);
    free(input);
    free(r.workspace);
    bench_close(&b);
    CHECK(blocks_live == 0);
}

/* Runs photos of several sizes in one call. Each photo must get the same result as alone, on any
 * number of threads. */
static void run_photos(bench *b, int threads, bool own_workspace) {
    enum { COUNT = 7 };
    const int dim = vit_embedding_dim(&b->model), classes = b->model.config.num_classes;
    vit_image whole = make_photo(), photos[COUNT];
    vit_threads *pool;
    vit_params params = no_params();
    vit_session session;
    vit_answer answer;
    void *workspace = NULL;
    size_t size = 0;
    CHECK(vit_threads_create(threads, &pool, &params.executor) == VIT_OK);
    if (own_workspace) {
        size = vit_workspace_size(&b->model, &params);
        workspace = tiny_allocate(size);
    }
    CHECK(vit_session_init(&session, &b->model, &params, workspace, size) == VIT_OK);
    for (int i = 0; i < COUNT; i++) {
        photos[i] = whole;
        photos[i].stride = whole.stride ? whole.stride : 3 * whole.width;
        photos[i].width = whole.width - i;
        photos[i].height = whole.height - i / 2;
    }
    for (int count = 1; count <= COUNT; count += 3) {
        CHECK(vit_run(&session, photos, count, &answer) == VIT_OK);
        for (int i = 0; i < count; i++) {
            float embedding[64];
            vit_prediction top;
            CHECK(vit_embed(&b->model, &photos[i], embedding) == VIT_OK);
            CHECK(memcmp(embedding, answer.embedding + (size_t)(i * dim),
                         (size_t)dim * sizeof(float)) == 0);
            if (classes == 0) continue;
            CHECK(vit_classify(&b->model, &photos[i], 1, &top) == VIT_OK);
            CHECK(top.score == answer.scores[i * classes + top.index]);
        }
        CHECK((answer.scores == NULL) == (classes == 0));
    }
    photos[COUNT - 1].width = 0;
    CHECK(vit_run(&session, photos, COUNT, &answer) == VIT_ERROR_ARGUMENT);
    CHECK(vit_run(&session, photos, COUNT - 1, &answer) == VIT_OK);
    CHECK(vit_run(&session, photos, 0, &answer) == VIT_ERROR_ARGUMENT);
    CHECK(vit_run(&session, NULL, 1, &answer) == VIT_ERROR_ARGUMENT);
    CHECK(vit_run(&session, photos, 1, NULL) == VIT_ERROR_ARGUMENT);
    vit_session_close(&session);
    CHECK(session.model == NULL && session.memory == NULL && session.room == NULL);
    CHECK(vit_run(&session, photos, 1, &answer) == VIT_ERROR_ARGUMENT);
    free(workspace);
    vit_threads_destroy(pool);
    CHECK(blocks_live == 0);
}

static void test_run(void) {
    for (int headless = 0; headless < 2; headless++) {
        tiny_options o = tiny_defaults();
        if (headless) o.config.num_classes = 0;
        bench b = bench_open(&o);
        for (int threads = 1; threads <= 3; threads++) {
            run_photos(&b, threads, false);
            run_photos(&b, threads, true);
        }
        bench_close(&b);
    }
}

/* --- allocation failures -------------------------------------------------- */

typedef vit_result failing_call(bench *b);

/* Makes two calls. The second call needs more memory than the first. */
static vit_result call_run(bench *b) {
    vit_image photos[2];
    vit_session session;
    vit_answer answer;
    vit_result result = vit_session_init(&session, &b->model, NULL, NULL, 0);
    photos[0] = photos[1] = make_photo();
    if (result == VIT_OK) result = vit_run(&session, photos, 1, &answer);
    if (result == VIT_OK) result = vit_run(&session, photos, 2, &answer);
    vit_session_close(&session);
    return result;
}

static vit_result call_classify(bench *b) {
    vit_image image = make_photo();
    vit_prediction top[3];
    return vit_classify(&b->model, &image, 3, top);
}

static vit_result call_preprocess(bench *b) {
    vit_image image = make_photo();
    float input[3 * 8 * 8];
    return vit_preprocess(&b->model, &image, input, NULL, 0);
}

#if !defined(VIT_NO_THREADS)
static vit_result call_threads(bench *b) {
    vit_threads *pool = NULL;
    vit_executor executor;
    vit_result result = vit_threads_create(3, &pool, &executor);
    (void)b;
    if (result == VIT_OK) {
        vit_threads_destroy(pool);
    }
    return result;
}
#endif

/* The path of the model's file. The file lies beside this program, because several builds of the
 * test may run at once. */
static char model_path[4096];

static vit_result call_open_copy(bench *b) {
    vit_model model;
    vit_result result = vit_model_open(model_path, VIT_OPEN_COPY, &model);
    (void)b;
    CHECK(result == VIT_OK || model.detail[0] != 0);
    vit_model_close(&model);
    return result;
}

static void write_model(const bench *b) {
    FILE *file = fopen(model_path, "wb");
    if (!file || fwrite(b->file.data, 1, b->file.size, file) != b->file.size || fclose(file) != 0) {
        printf("cannot write %s\n", model_path);
        exit(2);
    }
}

/* Makes each allocation fail in turn. The call must return an error and leak nothing. */
static void test_allocation_failures(void) {
    static failing_call *const calls[] = {
        call_classify,
        call_run,
        call_preprocess,
        call_open_copy,
#if !defined(VIT_NO_THREADS)
        call_threads,
#endif
    };
    bench b = bench_default();
    write_model(&b);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int failures = 0;
        for (long n = 0; n < 100; n++) {
            blocks_until_failure = n;
            vit_result result = calls[i](&b);
            bool reached = blocks_until_failure < 0;
            blocks_until_failure = -1;
            CHECK_MSG(blocks_live == 0, "call %d leaks %ld blocks", (int)i, blocks_live);
            CHECK_MSG(result == (reached ? VIT_ERROR_MEMORY : VIT_OK), "call %d, block %ld: %s",
                      (int)i, n, vit_result_string(result));
            failures += reached;
            if (!reached) {
                break;
            }
        }
        CHECK(failures > 0);
    }
    remove(model_path);
    bench_close(&b);
}

/* --- other systems -------------------------------------------------------- */

#if defined(SYSTEM_FAILS)
static int next_descriptor(void) {
    int file = open("/dev/null", O_RDONLY);
    close(file);
    return file;
}

/* Makes one of the system calls that find and read the file fail: number n, from 0. For -1, none
 * fails. vit_model_open must give a message, and must leave no file open. */
static void open_fails(unsigned flags, long n, vit_result expected, const char *detail) {
    vit_model model;
    int before = next_descriptor();
    system_calls_until_failure = n;
    vit_result result = vit_model_open(model_path, flags, &model);
    system_calls_until_failure = -1;
    CHECK_MSG(result == expected, "flags %u, call %ld: %s", flags, n, vit_result_string(result));
    CHECK_MSG(strstr(model.detail, detail), "flags %u, call %ld: %s", flags, n, model.detail);
    CHECK(model.data == NULL && blocks_live == 0 && next_descriptor() == before);
}

static void test_open_failures(void) {
    bench b = bench_default();
    write_model(&b);
    open_fails(0, 0, VIT_ERROR_IO, "is not a regular file");
    open_fails(0, 1, VIT_ERROR_IO, "cannot be mapped");
    for (long seek_tell_seek = 0; seek_tell_seek < 3; seek_tell_seek++) {
        open_fails(VIT_OPEN_COPY, seek_tell_seek, VIT_ERROR_IO, "is not a regular file");
    }
    open_fails(VIT_OPEN_COPY, 3, VIT_ERROR_IO, "bytes read: expected ");
    negative_size = true;
    open_fails(0, -1, VIT_ERROR_MEMORY, "is larger than the address space");
    negative_size = false;
    remove(model_path);
    bench_close(&b);
}

static void test_cores(void) {
    static const struct {
        long said;
        int threads;
    } cases[] = { { -1, 1 },
                  { 0, 1 },
                  { 1, 1 },
                  { 2, 2 },
                  { VIT_MAX_THREADS - 1, VIT_MAX_THREADS - 1 },
                  { VIT_MAX_THREADS, VIT_MAX_THREADS },
                  { 100000, VIT_MAX_THREADS } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cores_said = cases[i].said;
        CHECK_MSG(vit__online_cores() == cases[i].threads, "%ld cores: %d", cores_said,
                  vit__online_cores());
    }
    cores_said = -2;
}
#endif

#if defined(OTHER_CPUS)
/* Tests sets of features that a CPU may report. Each must give the expected instruction sets, but
 * without those of AVX-512 if the true system does not save their registers. */
static void test_cpus(void) {
    enum {
        FMA = 1 << 12,
        OSXSAVE = 1 << 27,
        F16C = 1 << 29,
        USUAL = FMA | OSXSAVE | F16C,
        AVX2 = 1 << 5,
        F = 1 << 16,
        DQ = 1 << 17,
        BW = 1 << 30,
        VNNI = 1 << 11,
        AVX_VNNI = 1 << 4,
        BF16 = 1 << 5,
        T = 1 << VIT_ISA_SCALAR | VIT__SSE2 << VIT_ISA_SSE2,
        T2 = T | 1 << VIT_ISA_AVX2,
        T512 = T2 | 1 << VIT_ISA_AVX512,
        TVNNI = T512 | 1 << VIT_ISA_AVX512_VNNI,
        TBF16 = TVNNI | 1 << VIT_ISA_AVX512_BF16,
        TAVXVNNI = 1 << VIT_ISA_AVX_VNNI,
    };
    static const unsigned VL = 1u << 31;
    const cpu cpus[] = {
        { "Pentium 4", 5, 0, 0, 0, 0, 0, T },
        { "Nehalem", 11, 0, 0, 0, 0, 0, T },
        { "Sandy Bridge", 13, OSXSAVE, 0, 0, 0, 0, T },
        { "Ivy Bridge", 13, OSXSAVE | F16C, 0, 0, 0, 0, T },
        { "Piledriver", 13, USUAL, 0, 0, 0, 0, T },
        { "Haswell", 13, USUAL, 0, AVX2, 0, 0, T2 },
        { "Haswell, its system saves nothing", 13, FMA | F16C, 0, AVX2, 0, 0, T },
        { "Alder Lake", 32, USUAL, 2, AVX2, 0, AVX_VNNI, T2 | TAVXVNNI },
        { "Knights Landing", 13, USUAL, 0, AVX2 | F, 0, 0, T2 },
        { "Skylake-X", 22, USUAL, 0, AVX2 | F | DQ | BW | VL, 0, 0, T512 },
        { "Cascade Lake", 22, USUAL, 0, AVX2 | F | DQ | BW | VL, VNNI, 0, TVNNI },
        { "Cooper Lake", 22, USUAL, 1, AVX2 | F | DQ | BW | VL, VNNI, BF16, TBF16 },
        { "Sapphire Rapids", 32, USUAL, 2, AVX2 | F | DQ | BW | VL, VNNI, AVX_VNNI | BF16,
          TBF16 | TAVXVNNI },
    };
    const unsigned here = vit_has_isa(VIT_ISA_AVX512) ? TBF16 | TAVXVNNI : T2 | TAVXVNNI;
    for (size_t i = 0; i < sizeof cpus / sizeof cpus[0] && vit_has_isa(VIT_ISA_AVX2); i++) {
        cpu_here = &cpus[i];
        const unsigned found = vit__detect_x86();
        cpu_here = NULL;
        CHECK_MSG(found == (cpus[i].tiers & here), "%s: %x", cpus[i].name, found);
    }
}
#endif

#if defined(OTHER_CPUS) || defined(OTHER_ARM_CPUS)
static bool detects_with_every_feature(vit_isa isa) {
#if defined(OTHER_CPUS)
    static const cpu all = { "every feature", 32, ~0u, 2, ~0u, ~0u, ~0u, 0 };
    cpu_here = &all;
    const bool found = vit_has_isa(isa);
    cpu_here = NULL;
#else
    has_everything = true;
    const bool found = vit_has_isa(isa);
    has_everything = false;
#endif
    return found;
}

/* A CPU with every feature must be able to use every instruction set of this build. The real system
 * decides which registers are saved. Without zmm registers, AVX-512 is not used. */
static void test_every_tier(void) {
    unsigned unsaved = 0;
#if defined(OTHER_CPUS)
    const unsigned avx512 = 1u << VIT_ISA_AVX512 | 1u << VIT_ISA_AVX512_VNNI |
                            1u << VIT_ISA_AVX512_BF16;
    if (!__builtin_cpu_supports("avx2")) {
        return;
    }
    unsaved = (vit__xgetbv() & 0xe6) == 0xe6 ? 0 : avx512;
#endif
    for (size_t i = 0; i < sizeof vit__tiers / sizeof vit__tiers[0]; i++) {
        const vit_isa isa = vit__tiers[i]->isa;
        CHECK_MSG(detects_with_every_feature(isa) || unsaved >> isa & 1u,
                  "%s: not detected on a CPU with every feature", vit_isa_name(isa));
    }
}
#endif

/* --- threads -------------------------------------------------------------- */

#if !defined(VIT_NO_THREADS)

typedef struct counters {
    int count[1000];
} counters;

static void count_task(void *arg, int index) { ((counters *)arg)->count[index]++; }

static void test_pool(void) {
    static const int counts[] = { 0, 1, 2, 3, 7, 16, 1000 };
    for (int n = 0; n <= 5; n++) {
        vit_threads *pool = NULL;
        vit_executor executor;
        memset(&executor, 0, sizeof executor);
        CHECK(vit_threads_create(n, &pool, &executor) == VIT_OK);
        CHECK(pool && executor.parallel_for && executor.num_threads >= 1);
        CHECK(n == 0 || executor.num_threads == n);
        for (int round = 0; round < 50; round++) {
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                counters c;
                int wrong = 0;
                memset(&c, 0, sizeof c);
                executor.parallel_for(executor.user, counts[i], count_task, &c);
                for (int k = 0; k < 1000; k++) {
                    wrong += c.count[k] != (k < counts[i]);
                }
                CHECK_MSG(wrong == 0, "%d threads, %d tasks: %d wrong", n, counts[i], wrong);
            }
        }
        vit_threads_destroy(pool);
    }
    CHECK(blocks_live == 0);
}

static void test_pool_arguments(void) {
    vit_threads *pool = NULL;
    vit_executor executor;
    CHECK(vit_threads_create(-1, &pool, &executor) == VIT_ERROR_ARGUMENT);
    CHECK(vit_threads_create(VIT_MAX_THREADS + 1, &pool, &executor) == VIT_ERROR_ARGUMENT);
    CHECK(vit_threads_create(2, NULL, &executor) == VIT_ERROR_ARGUMENT);
    CHECK(vit_threads_create(2, &pool, NULL) == VIT_ERROR_ARGUMENT);
    vit_threads_destroy(NULL);
    CHECK(blocks_live == 0);
}

#if defined(SYSTEM_FAILS)
/* Makes the creation of each mutex, condition variable and thread fail, one after the other. */
static void test_pool_failures(void) {
    for (long n = 0; n < 8; n++) {
        vit_threads *pool = NULL;
        vit_executor executor;
        system_calls_until_failure = n;
        vit_result result = vit_threads_create(5, &pool, &executor);
        system_calls_until_failure = -1;
        CHECK_MSG(result == VIT_ERROR_MEMORY, "call %ld: %s", n, vit_result_string(result));
        CHECK(pool == NULL && blocks_live == 0);
    }
}
#endif

/* Creates and destroys pools quickly. Some pools are used in between. */
static void test_pool_stress(void) {
    for (int i = 0; i < 100; i++) {
        vit_threads *pool = NULL;
        vit_executor executor;
        CHECK(vit_threads_create(1 + i % 4, &pool, &executor) == VIT_OK);
        if (i % 3) {
            counters c;
            memset(&c, 0, sizeof c);
            executor.parallel_for(executor.user, 20, count_task, &c);
            CHECK(c.count[0] == 1 && c.count[19] == 1 && c.count[20] == 0);
        }
        vit_threads_destroy(pool);
    }
    CHECK(blocks_live == 0);
}

typedef struct worker {
    pthread_t thread;
    const bench *b;
    vit_executor executor;
    bool has_pool;
    int isa;
    float logits[4 * 5];
    vit_result result;
} worker;

/* Does the work of one thread. It uses no CHECK, because only one thread may use CHECK. */
static void *worker_main(void *user) {
    worker *w = user;
    vit_params params = no_params();
    vit_session session;
    vit_outputs outputs = no_outputs();
    params.batch = 2;
    params.isa = (vit_isa)w->isa;
    if (w->has_pool) {
        params.executor = w->executor;
    }
    size_t size = vit_workspace_size(&w->b->model, &params);
    void *workspace = tiny_allocate(size);
    outputs.logits = w->logits;
    w->result = vit_session_init(&session, &w->b->model, &params, workspace, size);
    for (int i = 0; i < 20 && w->result == VIT_OK; i++) {
        w->result = vit_forward(&session, &(vit_input){ .pixels = w->b->input, .batch = 4 },
                                &outputs);
    }
    free(workspace);
    return NULL;
}

/* Shares a model among four threads. In the second round, the threads also share a pool. */
static void test_shared(void) {
    enum { WORKERS = 4 };
    bench b = bench_default();
    vit_threads *pool;
    vit_executor executor;
    worker alone, workers[WORKERS];
    CHECK(vit_threads_create(3, &pool, &executor) == VIT_OK);
    memset(&alone, 0, sizeof alone);
    alone.b = &b;
    worker_main(&alone);
    CHECK(alone.result == VIT_OK);
    for (int shared_pool = 0; shared_pool <= 1; shared_pool++) {
        memset(workers, 0, sizeof workers);
        for (int i = 0; i < WORKERS; i++) {
            workers[i].b = &b;
            workers[i].executor = executor;
            workers[i].has_pool = shared_pool != 0;
            FOR_EACH_ISA_LIKE(isa, vit_detect_isa()) {
                workers[i].isa = isa <= (int)VIT_ISA_SCALAR + i ? isa : (int)workers[i].isa;
            }
            CHECK(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0);
        }
        for (int i = 0; i < WORKERS; i++) {
            pthread_join(workers[i].thread, NULL);
            CHECK(workers[i].result == VIT_OK);
            CHECK(memcmp(workers[i].logits, alone.logits, sizeof alone.logits) == 0);
        }
    }
    vit_threads_destroy(pool);
    bench_close(&b);
}

#endif

int main(int argc, char **argv) {
    snprintf(model_path, sizeof model_path, "%s.vit", argc ? argv[0] : "test_api");
    /* With a second argument ("sizes"), only the tests of 32-bit sizes are run, for emulators. */
    if (argc > 2) {
        test_address_space();
        return test_summary();
    }
    test_strings();
    test_hash();
    test_config_null();
    test_config_ranges();
    test_config_derived();
    test_config_products();
    test_config_pairs();
    test_config_blocks();
    test_config_head();
    test_architecture();
    test_depth_limits();
    test_packing();
    test_packing_extremes();
    test_packing_nonfinite();
    test_unpack_plain();
    test_workspace();
    test_low_memory();
    test_workspace_threads();
    test_params();
    test_forward_arguments();
    test_headless();
    test_closed_model();
    test_address_space();
    test_depth_0();
    test_mask();
    test_output_sizes();
    test_blocks();
    test_nonfinite_input();
    test_nonfinite_weights();
    test_phases();
    test_needed_blocks();
    test_no_allocation();
    test_selftest();
    test_selftest_fails();
    test_selftest_nonfinite();
    test_selftest_absent();
    test_selftest_input();
    test_resize();
    test_resize_tables();
    test_fit_sizes();
    test_fit_nearest();
    test_fit();
    test_rope_angle();
    test_resize_refused();
    test_resize_sessions();
    test_resize_crop();
    test_resize_tiny_crop();
    test_top_k();
    test_top_k_random();
    test_softmax();
    test_softmax_extremes();
    test_sigmoid();
    test_normalize();
    test_classify();
    test_embed();
    test_run();
    test_allocation_failures();
#if defined(SYSTEM_FAILS)
    test_open_failures();
    test_cores();
#endif
#if defined(OTHER_CPUS)
    test_cpus();
#endif
#if defined(OTHER_CPUS) || defined(OTHER_ARM_CPUS)
    test_every_tier();
#endif
#if !defined(VIT_NO_THREADS)
    test_pool();
    test_pool_arguments();
#if defined(SYSTEM_FAILS)
    test_pool_failures();
#endif
    test_pool_stress();
    test_shared();
#endif
    return test_summary();
}
