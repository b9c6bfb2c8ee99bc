#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/output.h"
#include "convert/vit_writer.h"

/* === The peak of this machine === */

/* This part measures how many operations per second the CPU can do at most (see bench.h). */

/* ------------------------------------------------------------------------- */
/* The loops                                                                 */
/*                                                                           */
/* Each loop has twelve or more independent sums. With fewer sums, an        */
/* addition would wait for the previous addition to the same sum. A fused    */
/* multiply-add takes four or five cycles, and two of them may begin in each */
/* cycle. With AVX-512 the loops have 24 sums, because vdpbf16ps takes six   */
/* cycles, for which twelve sums are only just enough. The loops are written */
/* in assembly where the compiler supports it. From C, a compiler may keep   */
/* the sums in memory, or simplify integer arithmetic. Assembly needs no     */
/* target attribute, because the assembler knows every instruction, whatever */
/* the flags of the compiler are.                                            */
/* ------------------------------------------------------------------------- */

/* Values for the measurement. These bits are ordinary values, whether a loop reads them as f32, as
 * bf16 or as bytes. */
static const uint32_t numbers[2][16] = {
    { 0x3f353f12, 0x3f613f0b, 0x3f273f58, 0x3f193f73, 0x3f4e3f05, 0x3f7a3f31, 0x3f1d3f66,
      0x3f523f2b, 0x3f093f6f, 0x3f3c3f44, 0x3f763f17, 0x3f213f5d, 0x3f483f03, 0x3f6b3f39,
      0x3f0f3f7d, 0x3f543f25 },
    { 0xbf2e3f5b, 0x3f173f42, 0xbf693f0d, 0x3f363f74, 0xbf053f1f, 0x3f703f51, 0xbf4b3f28,
      0x3f133f62, 0xbf3f3f07, 0x3f5e3f33, 0xbf223f79, 0x3f083f47, 0xbf7c3f15, 0x3f313f6d,
      0xbf563f2a, 0x3f1b3f40 },
};

/* Expands to one(2) to one(13), for twelve sums in the registers 2 to 13. Registers 0 and 1 hold
 * the factors. Registers 14 and 15 hold products. */
#define PEAK_TWELVE(one)                                                                           \
    one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) one(13)

/* Expands to one(2) to one(13) and one(16) to one(27), for 24 sums. Registers 14 and 15 hold
 * products. */
#define PEAK_TWENTY_FOUR(one)                                                                      \
    PEAK_TWELVE(one)                                                                               \
    one(16) one(17) one(18) one(19) one(20) one(21) one(22) one(23) one(24) one(25) one(26) one(27)

#if defined(__GNUC__) && defined(__x86_64__)
#define PEAK_X86 1
#else
#define PEAK_X86 0
#endif

/* Assemblers since about 2020 support the AVX form of VNNI, and the prefix {vex}, which selects
 * this form. */
#if PEAK_X86 && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define PEAK_AVX_VNNI 1
#else
#define PEAK_AVX_VNNI 0
#endif

#if PEAK_X86

#define PEAK_CLEAR(n)     "vpxor %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n\t"
#define PEAK_CLEAR_512(n) "vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"

#define PEAK_CLOBBERED                                                                             \
    "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",        \
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#if defined(__AVX512F__) /* Without AVX-512, the compiler does not know these registers. */
#define PEAK_CLOBBERED_512                                                                         \
    PEAK_CLOBBERED, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",        \
        "xmm24", "xmm25", "xmm26", "xmm27"
#else
#define PEAK_CLOBBERED_512 PEAK_CLOBBERED
#endif

/* Defines a function void name(uint64_t rounds). The function repeats the instructions `one` for
 * each of its sums, in registers of one width, such as "ymm". */
#define PEAK_LOOP(name, one) PEAK_LOOP_OF(name, "ymm", PEAK_TWELVE, PEAK_CLEAR, one, PEAK_CLOBBERED)
#define PEAK_LOOP_512(name, one)                                                                   \
    PEAK_LOOP_OF(name, "zmm", PEAK_TWENTY_FOUR, PEAK_CLEAR_512, one, PEAK_CLOBBERED_512)
#define PEAK_LOOP_OF(name, width, SUMS, CLEAR, one, ...)                                           \
    static void name(uint64_t rounds) {                                                            \
        __asm__ volatile("vmovups (%1), %%" width "0\n\t"                                          \
                         "vmovups 64(%1), %%" width                                                \
                         "1\n\t" SUMS(CLEAR) "1:\n\t" SUMS(one) "dec %0\n\t"                       \
                                                                "jnz 1b\n\t"                       \
                                                                "vzeroupper"                       \
                         : "+r"(rounds)                                                            \
                         : "r"(numbers)                                                            \
                         : __VA_ARGS__);                                                           \
    }

#define PEAK_FMA_256(n)  "vfmadd231ps %%ymm0, %%ymm1, %%ymm" #n "\n\t"
#define PEAK_FMA_512(n)  "vfmadd231ps %%zmm0, %%zmm1, %%zmm" #n "\n\t"
#define PEAK_BF16_512(n) "vdpbf16ps %%zmm0, %%zmm1, %%zmm" #n "\n\t"
#define PEAK_VNNI_256(n) "%{vex%} vpdpbusd %%ymm0, %%ymm1, %%ymm" #n "\n\t"
#define PEAK_VNNI_512(n) "vpdpbusd %%zmm0, %%zmm1, %%zmm" #n "\n\t"
#define PEAK_ADD16_256(n)                                                                          \
    "vpmaddubsw %%ymm0, %%ymm1, %%ymm14\n\t"                                                       \
    "vpmaddubsw %%ymm1, %%ymm0, %%ymm15\n\t"                                                       \
    "vpaddw %%ymm14, %%ymm15, %%ymm14\n\t"                                                         \
    "vpmaddwd %%ymm0, %%ymm14, %%ymm14\n\t"                                                        \
    "vpaddd %%ymm14, %%ymm" #n ", %%ymm" #n "\n\t"
#define PEAK_ADD16_512(n)                                                                          \
    "vpmaddubsw %%zmm0, %%zmm1, %%zmm14\n\t"                                                       \
    "vpmaddubsw %%zmm1, %%zmm0, %%zmm15\n\t"                                                       \
    "vpaddw %%zmm14, %%zmm15, %%zmm14\n\t"                                                         \
    "vpmaddwd %%zmm0, %%zmm14, %%zmm14\n\t"                                                        \
    "vpaddd %%zmm14, %%zmm" #n ", %%zmm" #n "\n\t"

/* The loops for CPUs without AVX. SSE instructions overwrite one of their factors, so these loops
 * copy the factor first. */
#define PEAK_CLEAR_SSE(n) "pxor %%xmm" #n ", %%xmm" #n "\n\t"
#define PEAK_LOOP_SSE(name, one)                                                                   \
    static void name(uint64_t rounds) {                                                            \
        __asm__ volatile("movups (%1), %%xmm0\n\t"                                                 \
                         "movups 64(%1), %%xmm1\n\t" PEAK_TWELVE(                                  \
                             PEAK_CLEAR_SSE) "1:\n\t" PEAK_TWELVE(one) "dec %0\n\t"                \
                                                                       "jnz 1b"                    \
                         : "+r"(rounds)                                                            \
                         : "r"(numbers)                                                            \
                         : PEAK_CLOBBERED);                                                        \
    }
#define PEAK_MULADD_128(n)                                                                         \
    "movaps %%xmm0, %%xmm14\n\t"                                                                   \
    "mulps %%xmm1, %%xmm14\n\t"                                                                    \
    "addps %%xmm14, %%xmm" #n "\n\t"
#define PEAK_MADD_128(n)                                                                           \
    "movdqa %%xmm0, %%xmm14\n\t"                                                                   \
    "pmaddwd %%xmm1, %%xmm14\n\t"                                                                  \
    "paddd %%xmm14, %%xmm" #n "\n\t"

PEAK_LOOP_SSE(run_muladd_128, PEAK_MULADD_128)
PEAK_LOOP_SSE(run_madd_128, PEAK_MADD_128)
PEAK_LOOP(run_fma_256, PEAK_FMA_256)
PEAK_LOOP_512(run_fma_512, PEAK_FMA_512)
PEAK_LOOP_512(run_bf16_512, PEAK_BF16_512)
PEAK_LOOP_512(run_vnni_512, PEAK_VNNI_512)
PEAK_LOOP(run_add16_256, PEAK_ADD16_256)
/* This loop has only twelve sums. With more sums, the string of its instructions would be longer
 * than compilers must accept. */
PEAK_LOOP_OF(run_add16_512, "zmm", PEAK_TWELVE, PEAK_CLEAR_512, PEAK_ADD16_512, PEAK_CLOBBERED)
#if PEAK_AVX_VNNI
PEAK_LOOP(run_vnni_256, PEAK_VNNI_256)
#endif

#elif defined(__GNUC__) && defined(__aarch64__)

/* The 20 sums are in v2 to v7 and v16 to v29. v8 to v15 are left out, because they belong to the
 * caller. */
#define PEAK_CLEAR(n) "movi v" #n ".4s, #0\n\t"
#define PEAK_FMLA(n)  "fmla v" #n ".4s, v0.4s, v1.4s\n\t"
#define PEAK_TWENTY(one)                                                                           \
    one(2) one(3) one(4) one(5) one(6) one(7) one(16) one(17) one(18) one(19) one(20) one(21)      \
        one(22) one(23) one(24) one(25) one(26) one(27) one(28) one(29)

static void run_fmla_128(uint64_t rounds) {
    __asm__ volatile("ldr q0, [%1]\n\t"
                     "ldr q1, [%1, #64]\n\t" PEAK_TWENTY(PEAK_CLEAR) "1:\n\t" PEAK_TWENTY(
                         PEAK_FMLA) "subs %0, %0, #1\n\t"
                                    "b.ne 1b"
                     : "+r"(rounds)
                     : "r"(numbers)
                     : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17",
                       "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
                       "v29");
}

#endif

/* The loop in plain C uses vectors of four floats if the compiler supports them, otherwise single
 * floats. */
#if defined(__GNUC__)
typedef float peak_vector __attribute__((vector_size(16)));
#else
typedef float peak_vector;
#endif
enum { PEAK_VECTOR = sizeof(peak_vector) / sizeof(float) };

/* Each step computes x = x a + b. A compiler can neither move such a step out of the loop nor merge
 * two steps. */
#define PEAK_DECLARE(n) peak_vector x##n = b * n##.0f;
#define PEAK_STEP(n)    x##n = x##n * a + b;
#define PEAK_SUM(n)     +x##n

static void run_plain(uint64_t rounds) {
    /* Writing the result here prevents the compiler from removing the loop. */
    static volatile uint32_t sink;
    peak_vector a, b, sum;
    uint32_t bits;
    memcpy(&a, numbers[0], sizeof a);
    memcpy(&b, numbers[1], sizeof b);
    PEAK_TWELVE(PEAK_DECLARE)
    for (; rounds; rounds--) {
        PEAK_TWELVE(PEAK_STEP)
    }
    sum = b PEAK_TWELVE(PEAK_SUM);
    memcpy(&bits, &sum, sizeof bits);
    sink = bits;
    (void)sink;
}

/* ------------------------------------------------------------------------- */
/* Which loop                                                                */
/* ------------------------------------------------------------------------- */

/* the number of sums of a loop without and with AVX-512; a NEON loop has 20 */
enum { SUMS = 12, SUMS_512 = 24 };

/* The loop for each instruction set and type of weights. The first matching row is used. `isa` is
 * the beginning of the instruction set's name. `dtype` is the beginning of the type's name, or NULL
 * for any type. An instruction set without its own row ("avx512-fp16") uses the row of its
 * family. */
static const struct {
    const char *isa, *dtype;
    peak_loop loop;
} loops[] = {
#if PEAK_X86
    { "avx512-bf16", "bf16", { "vdpbf16ps zmm", SUMS_512 * 32 * 2.0, run_bf16_512 } },
    { "avx512-bf16", "int", { "vpdpbusd zmm", SUMS_512 * 64 * 2.0, run_vnni_512 } },
    { "avx512-vnni", "int", { "vpdpbusd zmm", SUMS_512 * 64 * 2.0, run_vnni_512 } },
#if PEAK_AVX_VNNI
    { "avx-vnni", "int", { "vpdpbusd ymm", SUMS * 32 * 2.0, run_vnni_256 } },
#endif
    { "avx512", "int", { "vpmaddubsw zmm", SUMS * 128 * 2.0, run_add16_512 } },
    { "avx512", NULL, { "vfmadd231ps zmm", SUMS_512 * 16 * 2.0, run_fma_512 } },
    { "avx", "int", { "vpmaddubsw ymm", SUMS * 64 * 2.0, run_add16_256 } },
    { "avx", NULL, { "vfmadd231ps ymm", SUMS * 8 * 2.0, run_fma_256 } },
    { "sse2", "int", { "pmaddwd xmm", SUMS * 8 * 2.0, run_madd_128 } },
    { "sse2", NULL, { "mulps, addps xmm", SUMS * 4 * 2.0, run_muladd_128 } },
#elif defined(__GNUC__) && defined(__aarch64__)
    { "neon", NULL, { "fmla 4s", 20 * 4 * 2.0, run_fmla_128 } },
#endif
    { "", NULL, { "plain C", SUMS *PEAK_VECTOR * 2.0, run_plain } }
};

const peak_loop *peak_find(const char *isa, const char *dtype) {
    size_t i = 0;
    while (strncmp(isa, loops[i].isa, strlen(loops[i].isa)) != 0 ||
           (loops[i].dtype && strncmp(dtype, loops[i].dtype, strlen(loops[i].dtype)) != 0)) {
        i++;
    }
    return &loops[i].loop;
}

/* ------------------------------------------------------------------------- */
/* The measurement                                                           */
/* ------------------------------------------------------------------------- */

enum { MAX_THREADS = 256 };

typedef struct peak_job {
    const peak_loop *loop;
    double ms;
    /* The rate of each task, in GFLOP/s. */
    double rates[MAX_THREADS];
} peak_job;

/* Measures on one thread. Each thread runs this task once, for the same time. */
static void peak_task(void *arg, int index) {
    enum { CHUNK = 10000 }; /* takes some 20 microseconds, far longer than reading the clock */
    peak_job *job = arg;
    double start = cli_now_ms(), passed, operations = 0;
    do {
        job->loop->run(CHUNK);
        operations += CHUNK * job->loop->operations;
        passed = cli_now_ms() - start;
    } while (passed < job->ms);
    job->rates[index] = operations / passed * 1e-6;
}

double peak_measure(const peak_loop *loop, const vit_executor *executor, double ms) {
    int count = executor->num_threads < MAX_THREADS ? executor->num_threads : MAX_THREADS;
    peak_job job;
    double sum = 0;
    job.loop = loop;
    job.ms = ms;
    executor->parallel_for(executor->user, count, peak_task, &job);
    for (int i = 0; i < count; i++) sum += job.rates[i];
    return sum;
}

/* === The operations of a model === */

/* Returns the number of multiply-adds of a block. The block computes keys and values for all
 * tokens, and everything else only for the first `queries` tokens. */
static double block_products(const vit_config *c, double queries) {
    double tokens = c->num_tokens, dim = c->embed_dim;
    double width = (double)c->num_heads * c->head_dim;
    if (c->attention == VIT_ATTENTION_SELF) return queries * dim * (dim + 2 * c->mlp_dim);
    double kv = tokens * dim * 2 * width, attention = queries * tokens * 2 * width;
    return kv + attention + queries * (2 * dim * width + 2 * dim * c->mlp_dim);
}

/* Returns the number of pixels in the output of one convolution of the stem. `name` is the name of
 * its weights. */
static double map_pixels(const vit_config *c, const char *name) {
    int stage = 0, block = 0, stride = 4;
    char layer[64] = "";
    if (sscanf(name, "stages.%d.blocks.%d.%63s", &stage, &block, layer) == 3) {
        stride = 4 << stage;
        if (stage > 0 && block == 0 && strcmp(layer, "conv1.weight") == 0) stride /= 2;
    } else if (strncmp(name, "stem.", 5) == 0) {
        stride = 2;
    } else if (name[0] == '1') {
        stride = 8;
    }
    return ceil((double)c->img_height / stride) * ceil((double)c->img_width / stride);
}

/* Returns the number of multiply-adds of the stem and the patch embedding. */
static double patch_products(const vit_config *c) {
    static const char stem[] = "patch_embed.backbone.";
    vit_tensor t;
    double products = 0;
    for (int i = 0; vit_architecture_tensor(c, VIT_F32, i, &t); i++) {
        double weights = (double)t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3];
        if (t.layout == VIT_LAYOUT_PLAIN || t.ndim != 4) continue;
        products += weights * (strncmp(t.name, stem, sizeof stem - 1) == 0
                                   ? map_pixels(c, t.name + sizeof stem - 1)
                                   : c->num_patches);
    }
    return products;
}

double bench_operations(const vit_config *c) {
    double read = c->num_prefix_tokens ? c->num_prefix_tokens : c->num_tokens;
    double embedding = c->representation_dim ? c->representation_dim : c->embed_dim;
    double products = patch_products(c);
    for (int i = 0; i < c->depth; i++)
        products += block_products(c, i < c->depth - 1 ? c->num_tokens : read);
    if (c->representation_dim) products += (double)c->embed_dim * embedding;
    products += embedding * c->num_classes * (1 + c->has_dist_token);
    return 2 * products;
}

/* === A model of random weights === */

/* Fills an array with n values around `base`. Their standard deviation is 0.02, as for timm's
 * initial weights. There are 256 different values, none of which is denormal in f16. Each step of
 * xorshift gives eight values. */
static void fill_random(float *to, size_t n, float base, uint64_t *state) {
    float values[256];
    for (int i = 0; i < 256; i++) values[i] = base + ((float)i - 127.5f) * (0.0346f / 127.5f);
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0) {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
        }
        to[i] = values[*state >> 8 * (i % 8) & 255];
    }
}

/* Returns the mean of the random values for a tensor. */
static float base_of(const vit_tensor *tensor) {
    if (strncmp(tensor->name, "preprocess.", 11) == 0) return 0.5f;
    return strstr(tensor->name, "norm") && strstr(tensor->name, "weight") ? 1.0f : 0.0f;
}

/* Changes a row of weights as a calibration for int8 would, because the fastest kernels need such
 * rows (see section "fits16" in vit.h). The first weight becomes the largest, 127 steps. The other
 * weights of its lane become 0. The weights of all other lanes have at most 31 steps. */
static void fit_row(float *row, size_t size) {
    const float step = 0.0346f / 31;
    for (size_t k = 0; k < size; k++) row[k] = (float)(int)(row[k] / step) * step;
    row[0] = 127 * step;
    for (size_t k = 1; k < 6 && k < size; k += k == 1 ? 3 : 1) row[k] = 0;
}

/* Writes tensor i of the model, 16 rows at a time. */
static bool write_tensor(vit_writer *w, size_t i, uint64_t *state, report *r) {
    const vit_tensor *tensor = &w->tensors[i];
    size_t size = tensor_depth(tensor);
    float *rows = malloc(16 * size * sizeof *rows);
    bool good = rows != NULL || report_no_memory(r);
    for (int row = 0; good && row < tensor->dims[0]; row += 16) {
        int n = tensor->dims[0] - row < 16 ? tensor->dims[0] - row : 16;
        fill_random(rows, (size_t)n * size, base_of(tensor), state);
        for (int k = 0; tensor->dtype == VIT_I8 && k < n; k++)
            fit_row(rows + (size_t)k * size, size);
        good = vit_writer_rows(w, rows, n, r);
    }
    free(rows);
    return good;
}

bool bench_write_random(FILE *file, const vit_config *config, vit_dtype dtype, report *r) {
    const vit_writer_contents contents = { .config = config,
                                           .dtype = dtype,
                                           .keep = vit_writer_kept(config, dtype),
                                           .provenance = "source: random, by vit-bench\n" };
    uint64_t state = 0x9e3779b97f4a7c15u;
    cli_progress progress;
    vit_writer w;
    bool good = true;
    if (!vit_writer_start(&w, file, &contents, r)) return false;
    cli_progress_start(&progress, "random weights", w.file_size);
    for (size_t i = 0; good && i < w.count; i++) {
        good = write_tensor(&w, i, &state, r);
        cli_progress_update(&progress, w.tensors[i].offset);
    }
    cli_progress_clear(&progress);
    good = good && vit_writer_finish(&w, r);
    vit_writer_free(&w);
    return good;
}
