#include "numbers/dot.h"

#include <string.h>

#include "vit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float lanes __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(32)));

enum { LANES = 8 };

#define INLINE static inline __attribute__((always_inline))

/* === Floats and halves === */

/* 8 numbers of a row from the i-th on; count: of those that are left, at least 1. */
typedef void load_lanes(lanes *to, const void *row, int i, int count);

INLINE void load_floats(lanes *to, const void *row, int i, int count)
{
    const float *from = (const float *)row + i;
    if (count >= LANES) {
        memcpy(to, from, sizeof *to);
    } else {
        memset(to, 0, sizeof *to);
        memcpy(to, from, (size_t)count * sizeof *from);
    }
}

INLINE void load_16_bits(uint16_t half[LANES], const void *row, int i, int count)
{
    const uint16_t *from = (const uint16_t *)row + i;
    memset(half, 0, LANES * sizeof *half);
    memcpy(half, from, (size_t)(count < LANES ? count : LANES) * sizeof *half);
}

/* The exponent is set right by a product, which makes subnormal halves normal as well. */
INLINE void load_halves(lanes *to, const void *row, int i, int count)
{
    const lanes scale = { 0x1p112f, 0x1p112f, 0x1p112f, 0x1p112f,
                          0x1p112f, 0x1p112f, 0x1p112f, 0x1p112f };
    uint16_t half[LANES];
    words bits, sign;
    lanes value;
    load_16_bits(half, row, i, count);
    for (int l = 0; l < LANES; l++) bits[l] = half[l];
    sign = (bits & 0x8000) << 16;
    bits &= 0x7fff;
    value = (lanes)(bits << 13) * scale;
    *to = (lanes)((words)value | ((words)(bits >= 0x7c00) & 0x7f800000) | sign);
}

INLINE void multiply_add(lanes *sum, const lanes *a, const lanes *b)
{
    const lanes product = *a * *b;   /* a statement of its own: no compiler fuses the two */
    *sum += product;
}

INLINE float add_up(const lanes *sum)
{
    const lanes s = *sum;
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

INLINE void multiply_tile(const float *const *q, const float *const *r, int dim, float *out)
{
    lanes s00 = { 0 }, s01 = { 0 }, s10 = { 0 }, s11 = { 0 };
    lanes s20 = { 0 }, s21 = { 0 }, s30 = { 0 }, s31 = { 0 };
    lanes a, b0, b1;
    for (int i = 0; i < dim; i += LANES) {
        load_floats(&b0, r[0], i, dim - i);
        load_floats(&b1, r[1], i, dim - i);
        load_floats(&a, q[0], i, dim - i);
        multiply_add(&s00, &a, &b0);
        multiply_add(&s01, &a, &b1);
        load_floats(&a, q[1], i, dim - i);
        multiply_add(&s10, &a, &b0);
        multiply_add(&s11, &a, &b1);
        load_floats(&a, q[2], i, dim - i);
        multiply_add(&s20, &a, &b0);
        multiply_add(&s21, &a, &b1);
        load_floats(&a, q[3], i, dim - i);
        multiply_add(&s30, &a, &b0);
        multiply_add(&s31, &a, &b1);
    }
    out[0] = add_up(&s00), out[1] = add_up(&s01), out[2] = add_up(&s10), out[3] = add_up(&s11);
    out[4] = add_up(&s20), out[5] = add_up(&s21), out[6] = add_up(&s30), out[7] = add_up(&s31);
}

/* Both in one reading. */
INLINE void multiply_rows(load_lanes *load, const float *q, const void *const *r, int dim,
                          float *dots, float *squares)
{
    lanes d0 = { 0 }, d1 = { 0 }, d2 = { 0 }, d3 = { 0 };
    lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    lanes a, b;
    for (int i = 0; i < dim; i += LANES) {
        load_floats(&a, q, i, dim - i);
        load(&b, r[0], i, dim - i);
        multiply_add(&d0, &a, &b);
        multiply_add(&s0, &b, &b);
        load(&b, r[1], i, dim - i);
        multiply_add(&d1, &a, &b);
        multiply_add(&s1, &b, &b);
        load(&b, r[2], i, dim - i);
        multiply_add(&d2, &a, &b);
        multiply_add(&s2, &b, &b);
        load(&b, r[3], i, dim - i);
        multiply_add(&d3, &a, &b);
        multiply_add(&s3, &b, &b);
    }
    dots[0] = add_up(&d0), dots[1] = add_up(&d1), dots[2] = add_up(&d2), dots[3] = add_up(&d3);
    squares[0] = add_up(&s0), squares[1] = add_up(&s1);
    squares[2] = add_up(&s2), squares[3] = add_up(&s3);
}

static void tile_plain(const float *const *q, const float *const *r, int dim, float *out)
{
    multiply_tile(q, r, dim, out);
}

static void floats_plain(const float *q, const void *const *r, int dim, float *dots,
                         float *squares)
{
    multiply_rows(load_floats, q, r, dim, dots, squares);
}

static void halves_plain(const float *q, const void *const *r, int dim, float *dots,
                         float *squares)
{
    multiply_rows(load_halves, q, r, dim, dots, squares);
}

/* === Bytes === */

enum { CHUNK = 64 };   /* products whose sum fits 32 bits, whatever they are */

static int64_t multiply_bytes(const int16_t *q, const int8_t *row, int from, int dim)
{
    int64_t sum = 0;
    int i = from;
    for (; i + CHUNK <= dim; i += CHUNK) {
        int32_t part = 0;
        for (int j = 0; j < CHUNK; j++) part += (int32_t)q[i + j] * row[i + j];
        sum += part;
    }
    for (; i < dim; i++) sum += (int32_t)q[i] * row[i];
    return sum;
}

static void bytes_plain(const int16_t *q, const int8_t *const *rows, int dim, int64_t *sums)
{
    for (int r = 0; r < DOT_ROWS; r++) sums[r] = multiply_bytes(q, rows[r], 0, dim);
}

/* The kernel for AVX2 adds dim / 8 products of bytes in each of 8 lanes. */
int dot_bytes_limit(int dim)
{
    const int most = INT32_MAX / 128 / (dim / 8 + 1);
    return most < INT16_MAX ? most : INT16_MAX;
}

/* === AVX2 === */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))

AVX2 INLINE void load_halves_avx2(lanes *to, const void *row, int i, int count)
{
    uint16_t half[LANES];
    const void *from = (const uint16_t *)row + i;
    if (count < LANES) {
        load_16_bits(half, row, i, count);
        from = half;
    }
    *to = (lanes)_mm256_cvtph_ps(_mm_loadu_si128(from));
}

AVX2 static void tile_avx2(const float *const *q, const float *const *r, int dim, float *out)
{
    multiply_tile(q, r, dim, out);
}

AVX2 static void floats_avx2(const float *q, const void *const *r, int dim, float *dots,
                             float *squares)
{
    multiply_rows(load_floats, q, r, dim, dots, squares);
}

AVX2 static void halves_avx2(const float *q, const void *const *r, int dim, float *dots,
                             float *squares)
{
    multiply_rows(load_halves_avx2, q, r, dim, dots, squares);
}

AVX2 static void bytes_avx2(const int16_t *q, const int8_t *const *rows, int dim, int64_t *sums)
{
    const int whole = dim / 16 * 16;
    __m256i s[DOT_ROWS];
    int32_t part[LANES];
    for (int r = 0; r < DOT_ROWS; r++) s[r] = _mm256_setzero_si256();
    for (int i = 0; i < whole; i += 16) {
        const __m256i a = _mm256_loadu_si256((const void *)(q + i));
        for (int r = 0; r < DOT_ROWS; r++) {
            const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(rows[r] + i)));
            s[r] = _mm256_add_epi32(s[r], _mm256_madd_epi16(a, b));
        }
    }
    for (int r = 0; r < DOT_ROWS; r++) {
        _mm256_storeu_si256((void *)part, s[r]);
        sums[r] = multiply_bytes(q, rows[r], whole, dim);
        for (int l = 0; l < LANES; l++) sums[r] += part[l];
    }
}
#define FASTEST(plain, avx2) (vit_has_isa(VIT_ISA_AVX2) ? (avx2) : (plain))
#else
#define FASTEST(plain, avx2) (plain)
#endif

dot_rows_kernel *dot_rows(bool halves)
{
    return halves ? FASTEST(halves_plain, halves_avx2) : FASTEST(floats_plain, floats_avx2);
}

dot_tile_kernel *dot_tile(void) { return FASTEST(tile_plain, tile_avx2); }

dot_bytes_kernel *dot_bytes(void) { return FASTEST(bytes_plain, bytes_avx2); }
