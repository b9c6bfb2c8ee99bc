/* immintrin.h - runs the AVX-512 and AVX-VNNI kernels of vit.h on CPUs that have only AVX2.
 *
 * The include path finds this file before the compiler's own header. This file includes that
 * header. SIMDe computes an operation on 512 bits in two halves. With this file, the compiler makes
 * AVX2 code of every function, and vit.h uses every instruction set as if the CPU supported it.
 * This file also emulates the instructions that vit.h writes in assembly. Such a build tests the
 * arithmetic of the kernels, but not the encoding of their instructions or their speed.
 *
 * SIMDe 0.7 lacks five conversions and a shuffle. Its vdpbf16ps adds in another order than a CPU,
 * does not fuse multiplications with additions, and keeps denormals. This file defines these seven
 * operations. The vdpbf16ps of this file may return another NaN than a CPU. If a result rounds up
 * to 2^-126, it may also return 2^-126 where a CPU returns zero.
 */
#ifndef EMULATED_IMMINTRIN_H
#define EMULATED_IMMINTRIN_H

#pragma GCC system_header /* this file then gets no warnings, like the original header */
#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <math.h>
#include <simde/x86/avx512.h>

#define VIT__TARGET_BEGIN(isa)
#define VIT__TARGET_END
#define VIT__ADD(instruction, intrinsic, c, sum)                                                   \
    c = strstr(instruction, "vpaddw") != NULL ? _Generic(c, __m256i                                \
                                                         : _mm256_add_epi16, __m512i               \
                                                         : simde_mm512_add_epi16)(c, sum)          \
                                              : _Generic(c, __m256i                                \
                                                         : _mm256_add_epi32, __m512i               \
                                                         : simde_mm512_add_epi32)(c, sum);
#define VIT__DOT(registers, instruction, intrinsic, c, x, w)                                       \
    c = EMULATED_IS_DPWSSD(instruction) ? _Generic(c, __m256i                                      \
                                                   : simde_mm256_dpwssd_epi32, __m512i             \
                                                   : simde_mm512_dpwssd_epi32, __m512              \
                                                   : emulated_dpbf16)(c, x, w)                     \
                                        : _Generic(c, __m256i                                      \
                                                   : simde_mm256_dpbusd_epi32, __m512i             \
                                                   : simde_mm512_dpbusd_epi32, __m512              \
                                                   : emulated_dpbf16)(c, x, w);
#define EMULATED_IS_DPWSSD(instruction) (strstr(instruction, "vpdpwssd") != NULL)

/* Calls of vit__detect_x86() become ~0u, which means all instruction sets. The macro's other case
 * renames the function's definition, vit__detect_x86(void). */
#define vit__detect_x86(parameters) EMULATED_DETECT_##parameters
#define EMULATED_DETECT_            ~0u
#define EMULATED_DETECT_void        __attribute__((unused)) vit__detect_real(void)

#undef _mm512_madd_epi16 /* SIMDe makes this name an alias of a wrong function */
#define _mm512_madd_epi16 simde_mm512_madd_epi16

#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emulated_cvtepi32
static inline __m512 emulated_cvtepi32(__m512i x) {
    const __m256i *half = (const __m256i *)&x;
    __m512 y;
    ((__m256 *)&y)[0] = _mm256_cvtepi32_ps(half[0]);
    ((__m256 *)&y)[1] = _mm256_cvtepi32_ps(half[1]);
    return y;
}

#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emulated_cvtph
static inline __m512 emulated_cvtph(__m256i x) {
    const __m128i *half = (const __m128i *)&x;
    __m512 y;
    ((__m256 *)&y)[0] = _mm256_cvtph_ps(half[0]);
    ((__m256 *)&y)[1] = _mm256_cvtph_ps(half[1]);
    return y;
}

#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16 emulated_cvtepu8
static inline __m512i emulated_cvtepu8(__m256i x) {
    const __m128i *half = (const __m128i *)&x;
    __m512i y;
    ((__m256i *)&y)[0] = _mm256_cvtepu8_epi16(half[0]);
    ((__m256i *)&y)[1] = _mm256_cvtepu8_epi16(half[1]);
    return y;
}

#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 emulated_shuffle
static inline __m512 emulated_shuffle(__m512 a, __m512 b, int order) {
    const __m128 *x = (const __m128 *)&a, *y = (const __m128 *)&b;
    __m512 z;
    ((__m128 *)&z)[0] = x[order & 3];
    ((__m128 *)&z)[1] = x[order >> 2 & 3];
    ((__m128 *)&z)[2] = y[order >> 4 & 3];
    ((__m128 *)&z)[3] = y[order >> 6 & 3];
    return z;
}

#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 emulated_narrow16
static inline __m256i emulated_narrow16(__m512i x) {
    uint16_t lower[16];
    uint32_t all[16];
    __m256i y;
    memcpy(all, &x, sizeof all);
    for (int i = 0; i < 16; i++) lower[i] = (uint16_t)all[i];
    memcpy(&y, lower, sizeof y);
    return y;
}

#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 emulated_narrow8
static inline __m128i emulated_narrow8(__m512i x) {
    uint8_t lower[16];
    uint32_t all[16];
    __m128i y;
    memcpy(all, &x, sizeof all);
    for (int i = 0; i < 16; i++) lower[i] = (uint8_t)all[i];
    memcpy(&y, lower, sizeof y);
    return y;
}

static inline float emulated_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static inline float emulated_bf16(uint32_t upper) {
    float x;
    memcpy(&x, &upper, sizeof x);
    return emulated_flush(x);
}

/* Emulates vdpbf16ps: adds the products of pairs of bf16 to c. The second product of each pair is
 * added first. */
static inline __m512 emulated_dpbf16(__m512 c, __m512 x, __m512 w) {
    const uint32_t upper = 0xffff0000u;
    uint32_t a[16], b[16];
    float sum[16];
    memcpy(a, &x, sizeof a);
    memcpy(b, &w, sizeof b);
    memcpy(sum, &c, sizeof sum);
    for (int i = 0; i < 16; i++) {
        float s = emulated_flush(sum[i]);
        s = emulated_flush(fmaf(emulated_bf16(a[i] & upper), emulated_bf16(b[i] & upper), s));
        sum[i] = emulated_flush(fmaf(emulated_bf16(a[i] << 16), emulated_bf16(b[i] << 16), s));
    }
    memcpy(&c, sum, sizeof sum);
    return c;
}

#endif
