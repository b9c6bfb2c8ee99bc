#include "numbers/dot.h"

#include <string.h>

#include "vit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float lanes __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(32)));

enum { LANES = 8, AHEAD = 16384 };

#define INLINE static inline __attribute__((always_inline))

/* === Floats and halves === */

/* 8 numbers of a row. */
typedef void load_lanes(lanes *to, const void *from);

INLINE void load_floats(lanes *to, const void *from) { memcpy(to, from, sizeof *to); }

/* The exponent is set right by a product, which makes subnormal halves normal as well. */
INLINE void load_halves(lanes *to, const void *from)
{
    const lanes scale = { 0x1p112f, 0x1p112f, 0x1p112f, 0x1p112f,
                          0x1p112f, 0x1p112f, 0x1p112f, 0x1p112f };
    uint16_t half[LANES];
    words bits, sign;
    lanes value;
    memcpy(half, from, sizeof half);
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

/* One step of all products of a tile: sums[q * DOT_TILE_ROWS + r]. */
INLINE void tile_step(lanes *sums, const float *const *q, const float *const *r, int i)
{
    lanes a, b0, b1;
    load_floats(&b0, r[0] + i);
    load_floats(&b1, r[1] + i);
    load_floats(&a, q[0] + i);
    multiply_add(&sums[0], &a, &b0);
    multiply_add(&sums[1], &a, &b1);
    load_floats(&a, q[1] + i);
    multiply_add(&sums[2], &a, &b0);
    multiply_add(&sums[3], &a, &b1);
    load_floats(&a, q[2] + i);
    multiply_add(&sums[4], &a, &b0);
    multiply_add(&sums[5], &a, &b1);
    load_floats(&a, q[3] + i);
    multiply_add(&sums[6], &a, &b0);
    multiply_add(&sums[7], &a, &b1);
}

INLINE void multiply_tile(const float *const *q, const float *const *r, int dim, float *out)
{
    enum { QUERIES = DOT_TILE_QUERIES, ROWS = DOT_TILE_ROWS };
    lanes sums[QUERIES * ROWS] = { { 0 } };
    int i = 0;
    for (; i + LANES <= dim; i += LANES) tile_step(sums, q, r, i);
    if (i < dim) {   /* the last ones, filled up */
        float last[QUERIES + ROWS][LANES] = { { 0 } };
        const float *const last_q[QUERIES] = { last[0], last[1], last[2], last[3] };
        const float *const last_r[ROWS] = { last[4], last[5] };
        const size_t size = (size_t)(dim - i) * sizeof(float);
        for (int k = 0; k < QUERIES; k++) memcpy(last[k], q[k] + i, size);
        for (int k = 0; k < ROWS; k++) memcpy(last[QUERIES + k], r[k] + i, size);
        tile_step(sums, last_q, last_r, 0);
    }
    out[0] = add_up(&sums[0]), out[1] = add_up(&sums[1]);
    out[2] = add_up(&sums[2]), out[3] = add_up(&sums[3]);
    out[4] = add_up(&sums[4]), out[5] = add_up(&sums[5]);
    out[6] = add_up(&sums[6]), out[7] = add_up(&sums[7]);
}

/* One step of the products of DOT_ROWS rows, their squares after them. */
INLINE void rows_step(load_lanes *load, lanes *sums, const float *q, const char *const *r,
                      size_t at)
{
    lanes a, b;
    load_floats(&a, q);
    load(&b, r[0] + at);
    multiply_add(&sums[0], &a, &b);
    multiply_add(&sums[4], &b, &b);
    load(&b, r[1] + at);
    multiply_add(&sums[1], &a, &b);
    multiply_add(&sums[5], &b, &b);
    load(&b, r[2] + at);
    multiply_add(&sums[2], &a, &b);
    multiply_add(&sums[6], &b, &b);
    load(&b, r[3] + at);
    multiply_add(&sums[3], &a, &b);
    multiply_add(&sums[7], &b, &b);
}

/* Rows of a scan follow each other in memory, and are read four at a time: CPUs, which see four
 * short streams, fetch too late by themselves. Without this, half the speed. What is not there is
 * not fetched. */
INLINE void fetch_ahead(const void *rows, size_t at)
{
    const uintptr_t next = (uintptr_t)rows + DOT_ROWS * at + AHEAD;
    for (uintptr_t j = 0; j < DOT_ROWS; j++)
        __builtin_prefetch((const void *)(next + 64 * j), 0, 2);
}

INLINE void multiply_rows(load_lanes *load, size_t size, const float *q, const void *const *rows,
                          int dim, float *dots, float *squares)
{
    const char *const r[DOT_ROWS] = { rows[0], rows[1], rows[2], rows[3] };
    lanes sums[2 * DOT_ROWS] = { { 0 } };
    int i = 0;
    for (; i + LANES <= dim; i += LANES) {
        const size_t at = (size_t)i * size;
        if (at % 64 == 0) fetch_ahead(r[0], at);
        rows_step(load, sums, q + i, r, at);
    }
    if (i < dim) {   /* the last ones, filled up */
        float last_q[LANES] = { 0 };
        char last[DOT_ROWS][sizeof(lanes)] = { { 0 } };
        const char *const last_r[DOT_ROWS] = { last[0], last[1], last[2], last[3] };
        memcpy(last_q, q + i, (size_t)(dim - i) * sizeof *q);
        for (int j = 0; j < DOT_ROWS; j++)
            memcpy(last[j], r[j] + (size_t)i * size, (size_t)(dim - i) * size);
        rows_step(load, sums, last_q, last_r, 0);
    }
    dots[0] = add_up(&sums[0]), dots[1] = add_up(&sums[1]);
    dots[2] = add_up(&sums[2]), dots[3] = add_up(&sums[3]);
    squares[0] = add_up(&sums[4]), squares[1] = add_up(&sums[5]);
    squares[2] = add_up(&sums[6]), squares[3] = add_up(&sums[7]);
}

static void tile_plain(const float *const *q, const float *const *r, int dim, float *out)
{
    multiply_tile(q, r, dim, out);
}

static void floats_plain(const float *q, const void *const *r, int dim, float *dots,
                         float *squares)
{
    multiply_rows(load_floats, sizeof(float), q, r, dim, dots, squares);
}

static void halves_plain(const float *q, const void *const *r, int dim, float *dots,
                         float *squares)
{
    multiply_rows(load_halves, sizeof(uint16_t), q, r, dim, dots, squares);
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

AVX2 INLINE void load_halves_avx2(lanes *to, const void *from)
{
    *to = (lanes)_mm256_cvtph_ps(_mm_loadu_si128(from));
}

AVX2 static void tile_avx2(const float *const *q, const float *const *r, int dim, float *out)
{
    multiply_tile(q, r, dim, out);
}

AVX2 static void floats_avx2(const float *q, const void *const *r, int dim, float *dots,
                             float *squares)
{
    multiply_rows(load_floats, sizeof(float), q, r, dim, dots, squares);
}

AVX2 static void halves_avx2(const float *q, const void *const *r, int dim, float *dots,
                             float *squares)
{
    multiply_rows(load_halves_avx2, sizeof(uint16_t), q, r, dim, dots, squares);
}

/* [4]: sums of two lanes of 64 bits. */
AVX2 INLINE __m256i wide_pairs(__m256i s)
{
    return _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(s)),
                            _mm256_cvtepi32_epi64(_mm256_extracti128_si256(s, 1)));
}

/* [4]: of a in the first and third, of b in the second and fourth. */
AVX2 INLINE __m256i add_neighbours(__m256i a, __m256i b)
{
    a = wide_pairs(a), b = wide_pairs(b);
    return _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

AVX2 static void bytes_avx2(const int16_t *q, const int8_t *const *rows, int dim, int64_t *sums)
{
    const int whole = dim / 16 * 16;
    __m256i s[DOT_ROWS];
    for (int r = 0; r < DOT_ROWS; r++) s[r] = _mm256_setzero_si256();
    for (int i = 0; i < whole; i += 16) {
        if (i % 64 == 0) fetch_ahead(rows[0], (size_t)i);
        const __m256i a = _mm256_loadu_si256((const void *)(q + i));
        for (int r = 0; r < DOT_ROWS; r++) {
            const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(rows[r] + i)));
            s[r] = _mm256_add_epi32(s[r], _mm256_madd_epi16(a, b));
        }
    }
    s[0] = add_neighbours(s[0], s[1]), s[2] = add_neighbours(s[2], s[3]);
    s[1] = _mm256_permute2x128_si256(s[0], s[2], 0x20);
    s[3] = _mm256_permute2x128_si256(s[0], s[2], 0x31);
    _mm256_storeu_si256((void *)sums, _mm256_add_epi64(s[1], s[3]));
    for (int r = 0; r < DOT_ROWS && whole < dim; r++)
        sums[r] += multiply_bytes(q, rows[r], whole, dim);
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
