/* peak.c - see peak.h. */
#include "bench/peak.h"

#include <string.h>

#include "cli/progress.h"

/* ------------------------------------------------------------------------- */
/* The loops                                                                 */
/*                                                                           */
/* Twelve or more sums, so that none waits for its own last addition: fused  */
/* multiply-adds take four or five cycles, and two may begin in each; with   */
/* AVX-512 24, because vdpbf16ps takes six cycles, and twelve sums only just */
/* do. Where there is assembly it is written out, because a compiler may     */
/* spill the sums or see through integer arithmetic. That needs no target    */
/* attribute: the assembler knows every instruction whatever the compiler's  */
/* flags.                                                                    */
/* ------------------------------------------------------------------------- */

/* 16-bit patterns that are ordinary values whether read as f32, as bf16 or as bytes. */
static const uint32_t numbers[2][16] = {
    { 0x3f353f12, 0x3f613f0b, 0x3f273f58, 0x3f193f73, 0x3f4e3f05, 0x3f7a3f31, 0x3f1d3f66,
      0x3f523f2b, 0x3f093f6f, 0x3f3c3f44, 0x3f763f17, 0x3f213f5d, 0x3f483f03, 0x3f6b3f39,
      0x3f0f3f7d, 0x3f543f25 },
    { 0xbf2e3f5b, 0x3f173f42, 0xbf693f0d, 0x3f363f74, 0xbf053f1f, 0x3f703f51, 0xbf4b3f28,
      0x3f133f62, 0xbf3f3f07, 0x3f5e3f33, 0xbf223f79, 0x3f083f47, 0xbf7c3f15, 0x3f313f6d,
      0xbf563f2a, 0x3f1b3f40 }
};

/* one(2) to one(13), which leaves 0 and 1 for the factors, 14 and 15 for products. */
#define PEAK_TWELVE(one)                                                                          \
    one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) one(13)

/* Two registers for products, 14 and 15, lie between these and one(16) to one(27). */
#define PEAK_TWENTY_FOUR(one)                                                                     \
    PEAK_TWELVE(one)                                                                              \
    one(16) one(17) one(18) one(19) one(20) one(21) one(22) one(23) one(24) one(25) one(26)       \
    one(27)

#if defined(__GNUC__) && defined(__x86_64__)
#    define PEAK_X86 1
#else
#    define PEAK_X86 0
#endif

/* Assemblers know VNNI in its AVX form, and the {vex} that selects it, since about 2020. */
#if PEAK_X86 && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#    define PEAK_AVX_VNNI 1
#else
#    define PEAK_AVX_VNNI 0
#endif

#if PEAK_X86

#    define PEAK_CLEAR(n) "vpxor %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n\t"
#    define PEAK_CLEAR_512(n) "vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"

#    define PEAK_CLOBBERED                                                                        \
        "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",   \
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#    if defined(__AVX512F__) /* else the compiler does not know them */
#        define PEAK_CLOBBERED_512                                                                \
            PEAK_CLOBBERED, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22",        \
            "xmm23", "xmm24", "xmm25", "xmm26", "xmm27"
#    else
#        define PEAK_CLOBBERED_512 PEAK_CLOBBERED
#    endif

/* void name(uint64_t rounds), with registers of one width ("ymm") and as many times `one` as there
   are SUMS. */
#    define PEAK_LOOP(name, one)                                                                  \
        PEAK_LOOP_OF(name, "ymm", PEAK_TWELVE, PEAK_CLEAR, one, PEAK_CLOBBERED)
#    define PEAK_LOOP_512(name, one)                                                              \
        PEAK_LOOP_OF(name, "zmm", PEAK_TWENTY_FOUR, PEAK_CLEAR_512, one, PEAK_CLOBBERED_512)
#    define PEAK_LOOP_OF(name, width, SUMS, CLEAR, one, ...)                                      \
        static void name(uint64_t rounds) {                                                       \
            __asm__ volatile("vmovups (%1), %%" width "0\n\t"                                     \
                             "vmovups 64(%1), %%" width "1\n\t"                                   \
                             SUMS(CLEAR)                                                          \
                             "1:\n\t"                                                             \
                             SUMS(one)                                                            \
                             "dec %0\n\t"                                                         \
                             "jnz 1b\n\t"                                                         \
                             "vzeroupper"                                                         \
                             : "+r"(rounds)                                                       \
                             : "r"(numbers)                                                       \
                             : __VA_ARGS__);                                                      \
        }

#    define PEAK_FMA_256(n) "vfmadd231ps %%ymm0, %%ymm1, %%ymm" #n "\n\t"
#    define PEAK_FMA_512(n) "vfmadd231ps %%zmm0, %%zmm1, %%zmm" #n "\n\t"
#    define PEAK_BF16_512(n) "vdpbf16ps %%zmm0, %%zmm1, %%zmm" #n "\n\t"
#    define PEAK_VNNI_256(n) "%{vex%} vpdpbusd %%ymm0, %%ymm1, %%ymm" #n "\n\t"
#    define PEAK_VNNI_512(n) "vpdpbusd %%zmm0, %%zmm1, %%zmm" #n "\n\t"
#    define PEAK_ADD16_256(n)                                                                     \
        "vpmaddubsw %%ymm0, %%ymm1, %%ymm14\n\t"                                                  \
        "vpmaddubsw %%ymm1, %%ymm0, %%ymm15\n\t"                                                  \
        "vpaddw %%ymm14, %%ymm15, %%ymm14\n\t"                                                    \
        "vpmaddwd %%ymm0, %%ymm14, %%ymm14\n\t"                                                   \
        "vpaddd %%ymm14, %%ymm" #n ", %%ymm" #n "\n\t"
#    define PEAK_ADD16_512(n)                                                                     \
        "vpmaddubsw %%zmm0, %%zmm1, %%zmm14\n\t"                                                  \
        "vpmaddubsw %%zmm1, %%zmm0, %%zmm15\n\t"                                                  \
        "vpaddw %%zmm14, %%zmm15, %%zmm14\n\t"                                                    \
        "vpmaddwd %%zmm0, %%zmm14, %%zmm14\n\t"                                                   \
        "vpaddd %%zmm14, %%zmm" #n ", %%zmm" #n "\n\t"

/* The same for CPUs without AVX, whose instructions overwrite a factor: hence the copies. */
#    define PEAK_CLEAR_SSE(n) "pxor %%xmm" #n ", %%xmm" #n "\n\t"
#    define PEAK_LOOP_SSE(name, one)                                                              \
        static void name(uint64_t rounds) {                                                       \
            __asm__ volatile("movups (%1), %%xmm0\n\t"                                            \
                             "movups 64(%1), %%xmm1\n\t"                                          \
                             PEAK_TWELVE(PEAK_CLEAR_SSE)                                          \
                             "1:\n\t"                                                             \
                             PEAK_TWELVE(one)                                                     \
                             "dec %0\n\t"                                                         \
                             "jnz 1b"                                                             \
                             : "+r"(rounds)                                                       \
                             : "r"(numbers)                                                       \
                             : PEAK_CLOBBERED);                                                   \
        }
#    define PEAK_MULADD_128(n)                                                                    \
        "movaps %%xmm0, %%xmm14\n\t"                                                              \
        "mulps %%xmm1, %%xmm14\n\t"                                                               \
        "addps %%xmm14, %%xmm" #n "\n\t"
#    define PEAK_MADD_128(n)                                                                      \
        "movdqa %%xmm0, %%xmm14\n\t"                                                              \
        "pmaddwd %%xmm1, %%xmm14\n\t"                                                             \
        "paddd %%xmm14, %%xmm" #n "\n\t"

PEAK_LOOP_SSE(run_muladd_128, PEAK_MULADD_128)
PEAK_LOOP_SSE(run_madd_128, PEAK_MADD_128)
PEAK_LOOP(run_fma_256, PEAK_FMA_256)
PEAK_LOOP_512(run_fma_512, PEAK_FMA_512)
PEAK_LOOP_512(run_bf16_512, PEAK_BF16_512)
PEAK_LOOP_512(run_vnni_512, PEAK_VNNI_512)
PEAK_LOOP(run_add16_256, PEAK_ADD16_256)
/* More sums would be more text than a compiler need take in one. */
PEAK_LOOP_OF(run_add16_512, "zmm", PEAK_TWELVE, PEAK_CLEAR_512, PEAK_ADD16_512, PEAK_CLOBBERED)
#    if PEAK_AVX_VNNI
PEAK_LOOP(run_vnni_256, PEAK_VNNI_256)
#    endif

#elif defined(__GNUC__) && defined(__aarch64__)

/* Registers v8 to v15 belong to the caller, so 20 sums take v2 to v7 and v16 to v29. */
#    define PEAK_CLEAR(n) "movi v" #n ".4s, #0\n\t"
#    define PEAK_FMLA(n) "fmla v" #n ".4s, v0.4s, v1.4s\n\t"
#    define PEAK_TWENTY(one)                                                                      \
        one(2) one(3) one(4) one(5) one(6) one(7) one(16) one(17) one(18) one(19) one(20)         \
        one(21) one(22) one(23) one(24) one(25) one(26) one(27) one(28) one(29)

static void run_fmla_128(uint64_t rounds) {
    __asm__ volatile("ldr q0, [%1]\n\t"
                     "ldr q1, [%1, #64]\n\t"
                     PEAK_TWENTY(PEAK_CLEAR)
                     "1:\n\t"
                     PEAK_TWENTY(PEAK_FMLA)
                     "subs %0, %0, #1\n\t"
                     "b.ne 1b"
                     : "+r"(rounds)
                     : "r"(numbers)
                     : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16",
                       "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                       "v28", "v29");
}

#endif

/* Plain C: the compiler's own vectors of four where it has them, else single floats. */
#if defined(__GNUC__)
typedef float peak_vector __attribute__((vector_size(16)));
#else
typedef float peak_vector;
#endif
enum { PEAK_VECTOR = sizeof(peak_vector) / sizeof(float) };

/* x = x a + b, of which no part can be moved out of the loop, and no two of which are equal. */
#define PEAK_DECLARE(n) peak_vector x##n = b * n##.0f;
#define PEAK_STEP(n) x##n = x##n * a + b;
#define PEAK_SUM(n) + x##n

static void run_plain(uint64_t rounds) {
    static volatile uint32_t sink;   /* keeps the loop from being dropped */
    peak_vector a, b, sum;
    uint32_t bits;
    memcpy(&a, numbers[0], sizeof a);
    memcpy(&b, numbers[1], sizeof b);
    PEAK_TWELVE(PEAK_DECLARE)
    for (; rounds; rounds--) { PEAK_TWELVE(PEAK_STEP) }
    sum = b PEAK_TWELVE(PEAK_SUM);
    memcpy(&bits, &sum, sizeof bits);
    sink = bits;
    (void)sink;
}

/* ------------------------------------------------------------------------- */
/* Which loop                                                                */
/* ------------------------------------------------------------------------- */

enum { SUMS = 12, SUMS_512 = 24 }; /* instructions of a round, except in NEON's loops */

/* The first row whose isa is how the tier's name begins, and whose dtype is how the type's begins,
 * or NULL, for any. A tier that is not in this table ("avx512-fp16") gets what all tiers of its
 * family have. */
static const struct {
    const char *isa, *dtype;
    peak_loop loop;
} loops[] = {
#if PEAK_X86
    { "avx512-bf16", "bf16", { "vdpbf16ps zmm", SUMS_512 * 32 * 2.0, run_bf16_512 } },
    { "avx512-bf16", "int", { "vpdpbusd zmm", SUMS_512 * 64 * 2.0, run_vnni_512 } },
    { "avx512-vnni", "int", { "vpdpbusd zmm", SUMS_512 * 64 * 2.0, run_vnni_512 } },
#    if PEAK_AVX_VNNI
    { "avx-vnni", "int", { "vpdpbusd ymm", SUMS * 32 * 2.0, run_vnni_256 } },
#    endif
    { "avx512", "int", { "vpmaddubsw zmm", SUMS * 128 * 2.0, run_add16_512 } },
    { "avx512", NULL, { "vfmadd231ps zmm", SUMS_512 * 16 * 2.0, run_fma_512 } },
    { "avx", "int", { "vpmaddubsw ymm", SUMS * 64 * 2.0, run_add16_256 } },
    { "avx", NULL, { "vfmadd231ps ymm", SUMS * 8 * 2.0, run_fma_256 } },
    { "sse2", "int", { "pmaddwd xmm", SUMS * 8 * 2.0, run_madd_128 } },
    { "sse2", NULL, { "mulps, addps xmm", SUMS * 4 * 2.0, run_muladd_128 } },
#elif defined(__GNUC__) && defined(__aarch64__)
    { "neon", NULL, { "fmla 4s", 20 * 4 * 2.0, run_fmla_128 } },
#endif
    { "", NULL, { "plain C", SUMS * PEAK_VECTOR * 2.0, run_plain } }
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
    double rates[MAX_THREADS];   /* GFLOP/s of each task */
} peak_job;

/* All tasks take equally long, so each gets a thread of its own. */
static void peak_task(void *arg, int index) {
    enum { CHUNK = 10000 };      /* some 20 microseconds: reading the clock does not count */
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
