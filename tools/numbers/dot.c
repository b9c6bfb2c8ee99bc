#include "numbers/dot.h"

#include <string.h>

#define VIT_TOOLS
#include "vit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float lanes __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(32)));

enum { LANES = 8 };

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

/* The lanes of each sum, added up: those that are 4, then 2, then 1 apart. */
enum { TOTALS = 8 };
typedef void add_lanes(const lanes *sums, float *totals);

INLINE void add_up_plain(const lanes *sums, float *totals)
{
    for (int k = 0; k < TOTALS; k++) {
        const lanes s = sums[k];
        totals[k] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    }
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

INLINE void multiply_tile(add_lanes *add_up, const float *const *q, const float *const *r, int dim,
                          float *out)
{
    enum { QUERIES = DOT_TILE_QUERIES, ROWS = DOT_TILE_ROWS };
    lanes sums[TOTALS] = { { 0 } };
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
    add_up(sums, out);
}

enum { ROWS = TOTALS / 2 };   /* whose sums are added up together */

/* One step of the products of a row, sums[0], and of its squares, sums[ROWS]. */
INLINE void row_step(load_lanes *load, lanes *sums, const lanes *a, const char *row)
{
    lanes b;
    load(&b, row);
    multiply_add(&sums[0], a, &b);
    multiply_add(&sums[ROWS], &b, &b);
}

/* Rows of floats are read one after another: in such a stream, CPUs fetch ahead by themselves. */
INLINE void sum_row(const float *q, const char *row, int dim, lanes *sums)
{
    lanes a;
    int i = 0;
    for (; i + LANES <= dim; i += LANES) {
        load_floats(&a, q + i);
        row_step(load_floats, sums, &a, row + (size_t)i * sizeof(float));
    }
    if (i < dim) {   /* the last ones, filled up */
        float last_q[LANES] = { 0 }, last[LANES] = { 0 };
        memcpy(last_q, q + i, (size_t)(dim - i) * sizeof *q);
        memcpy(last, row + (size_t)i * sizeof *last, (size_t)(dim - i) * sizeof *last);
        load_floats(&a, last_q);
        row_step(load_floats, sums, &a, (const char *)last);
    }
}

INLINE void rows_step(load_lanes *load, lanes *sums, const float *q, const char *const *rows)
{
    lanes a;
    load_floats(&a, q);
    row_step(load, &sums[0], &a, rows[0]);
    row_step(load, &sums[1], &a, rows[1]);
    row_step(load, &sums[2], &a, rows[2]);
    row_step(load, &sums[3], &a, rows[3]);
}

/* Halves come faster than the additions to one row's sums follow each other: rows are summed side by
 * side, and what a CPU fetches ahead by itself of rows one after another is asked for. */
INLINE void sum_halves(load_lanes *load, const float *q, const char *const *rows, int dim,
                       lanes *sums)
{
    enum { SIZE = sizeof(uint16_t), AHEAD = 4096 };
    int i = 0;
    for (; i + LANES <= dim; i += LANES) {
        const size_t at = (size_t)i * SIZE;
        const char *const now[ROWS] = { rows[0] + at, rows[1] + at, rows[2] + at, rows[3] + at };
        __builtin_prefetch((const void *)((uintptr_t)rows[0] + at * ROWS + AHEAD));
        rows_step(load, sums, q + i, now);
    }
    if (i < dim) {
        float last_q[LANES] = { 0 };
        uint16_t last[ROWS][LANES] = { { 0 } };
        const char *const now[ROWS] = { (const char *)last[0], (const char *)last[1],
                                        (const char *)last[2], (const char *)last[3] };
        memcpy(last_q, q + i, (size_t)(dim - i) * sizeof *q);
        for (int j = 0; j < ROWS; j++)
            memcpy(last[j], rows[j] + (size_t)i * SIZE, (size_t)(dim - i) * SIZE);
        rows_step(load, sums, last_q, now);
    }
}

INLINE void put_totals(add_lanes *add_up, const lanes *sums, const dot_scan *s, int i, int rows)
{
    float totals[TOTALS];
    add_up(sums, totals);
    memcpy(s->dots + i, totals, (size_t)rows * sizeof *totals);
    memcpy(s->squares + i, totals + ROWS, (size_t)rows * sizeof *totals);
}

INLINE void scan_floats(add_lanes *add_up, const dot_scan *s)
{
    const char *row = s->rows;
    for (int i = 0; i < s->count; i += ROWS) {
        const int rows = s->count - i < ROWS ? s->count - i : ROWS;
        lanes sums[TOTALS] = { { 0 } };
        for (int j = 0; j < rows; j++, row += (size_t)s->dim * sizeof(float))
            sum_row(s->query, row, s->dim, &sums[j]);
        put_totals(add_up, sums, s, i, rows);
    }
}

/* Beyond the last row the first of its four stands in. */
INLINE void scan_halves(load_lanes *load, add_lanes *add_up, const dot_scan *s)
{
    const size_t size = (size_t)s->dim * sizeof(uint16_t);
    const char *first = s->rows;
    for (int i = 0; i < s->count; i += ROWS, first += ROWS * size) {
        const int rows = s->count - i < ROWS ? s->count - i : ROWS;
        const char *at[ROWS];
        lanes sums[TOTALS] = { { 0 } };
        for (int j = 0; j < ROWS; j++) at[j] = first + (j < rows ? (size_t)j * size : 0);
        sum_halves(load, s->query, at, s->dim, sums);
        put_totals(add_up, sums, s, i, rows);
    }
}

static void tile_plain(const float *const *q, const float *const *r, int dim, float *out)
{
    multiply_tile(add_up_plain, q, r, dim, out);
}

static void floats_plain(const dot_scan *s)
{
    scan_floats(add_up_plain, s);
}

static void halves_plain(const dot_scan *s)
{
    scan_halves(load_halves, add_up_plain, s);
}

/* === Bytes === */

int dot_bytes_limit(int dim)
{
    const int most = INT32_MAX / 128 / dim;
    return most < INT16_MAX ? most : INT16_MAX;
}

INLINE int32_t multiply_bytes(const int16_t *q, const int8_t *row, int from, int dim)
{
    int32_t sum = 0;
    for (int i = from; i < dim; i++) sum += (int32_t)q[i] * row[i];
    return sum;
}

static void bytes_plain(const int16_t *q, const int8_t *rows, int dim, int count, int32_t *sums)
{
    for (int i = 0; i < count; i++, rows += dim) sums[i] = multiply_bytes(q, rows, 0, dim);
}

/* === AVX2 === */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))

AVX2 INLINE void load_halves_avx2(lanes *to, const void *from)
{
    *to = (lanes)_mm256_cvtph_ps(_mm_loadu_si128(from));
}

AVX2 INLINE __m256 add_halves(lanes a, lanes b)
{
    return _mm256_add_ps(_mm256_permute2f128_ps((__m256)a, (__m256)b, 0x20),
                         _mm256_permute2f128_ps((__m256)a, (__m256)b, 0x31));
}

AVX2 INLINE __m256 add_pairs(__m256 a, __m256 b)
{
    const __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}

/* add_up_plain's tree, in all sums at once. */
AVX2 INLINE void add_up_avx2(const lanes *s, float *totals)
{
    const __m256 a = add_pairs(add_halves(s[0], s[4]), add_halves(s[1], s[5]));
    const __m256 b = add_pairs(add_halves(s[2], s[6]), add_halves(s[3], s[7]));
    _mm256_storeu_ps(totals, _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88),
                                           _mm256_shuffle_ps(a, b, 0xdd)));
}

AVX2 static void tile_avx2(const float *const *q, const float *const *r, int dim, float *out)
{
    multiply_tile(add_up_avx2, q, r, dim, out);
}

AVX2 static void floats_avx2(const dot_scan *s)
{
    scan_floats(add_up_avx2, s);
}

AVX2 static void halves_avx2(const dot_scan *s)
{
    scan_halves(load_halves_avx2, add_up_avx2, s);
}

AVX2 INLINE __m256i sum_bytes(const int16_t *q, const int8_t *row, int dim)
{
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < dim; i += 16) {
        const __m256i a = _mm256_loadu_si256((const void *)(q + i));
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(row + i)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
    return sum;
}

AVX2 static void bytes_avx2(const int16_t *q, const int8_t *rows, int dim, int count,
                            int32_t *sums)
{
    const int whole = dim / 16 * 16, last = count - count % ROWS;
    for (int i = 0; i < last; i += ROWS) {
        const int8_t *row = rows + (size_t)i * (size_t)dim;
        const __m256i a = sum_bytes(q, row, whole), b = sum_bytes(q, row += dim, whole);
        const __m256i c = sum_bytes(q, row += dim, whole), d = sum_bytes(q, row + dim, whole);
        const __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        _mm_storeu_si128((void *)(sums + i), _mm_add_epi32(_mm256_castsi256_si128(s),
                                                           _mm256_extracti128_si256(s, 1)));
    }
    for (int i = 0; i < count; i++) {
        const int8_t *row = rows + (size_t)i * (size_t)dim;
        if (i >= last) sums[i] = multiply_bytes(q, row, 0, whole);
        if (whole < dim) sums[i] += multiply_bytes(q, row, whole, dim);
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
