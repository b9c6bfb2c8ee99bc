#define _POSIX_C_SOURCE 200809L
#include "numbers/nearest.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* === Dot products === */

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float lanes __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(32)));

enum { LANES = 8 };

#define INLINE static inline __attribute__((always_inline))

/* === Floats and halves === */

/* A function that loads 8 values of a row as floats. */
typedef void load_lanes(lanes *to, const void *from);

INLINE void load_floats(lanes *to, const void *from) { memcpy(to, from, sizeof *to); }

/* Widens 8 halves to floats. The multiplication corrects the exponent. It also gives the right
 * value to subnormal halves. */
INLINE void load_halves(lanes *to, const void *from) {
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

INLINE void multiply_add(lanes *sum, const lanes *a, const lanes *b) {
    /* The product is a separate statement, because with -std=c99 compilers do not fuse it with an
     * addition in another statement. */
    const lanes product = *a * *b;
    *sum += product;
}

/* Adds up the 8 lanes of each of TOTALS sums. Lanes that are 4 apart are added first, then lanes
 * that are 2 apart, then the last two. */
enum { TOTALS = 8 };
typedef void add_lanes(const lanes *sums, float *totals);

INLINE void add_up_plain(const lanes *sums, float *totals) {
    for (int k = 0; k < TOTALS; k++) {
        const lanes s = sums[k];
        totals[k] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    }
}

/* Adds the products of 8 elements, beginning with element i, to all sums of a tile. The sum of
 * query q and row r is sums[q * DOT_TILE_ROWS + r]. */
INLINE void tile_step(lanes *sums, const float *const *q, const float *const *r, int i) {
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
                          float *out) {
    enum { QUERIES = DOT_TILE_QUERIES, ROWS = DOT_TILE_ROWS };
    lanes sums[TOTALS] = { { 0 } };
    int i = 0;
    for (; i + LANES <= dim; i += LANES) tile_step(sums, q, r, i);
    if (i < dim) { /* The last elements are padded with zeros to 8. */
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

/* The number of rows whose lanes are added up together. Each row has two sums. */
enum { ROWS = TOTALS / 2 };

/* Adds 8 products of the query and a row to sums[0], and 8 squares of the row to sums[ROWS]. */
INLINE void row_step(load_lanes *load, lanes *sums, const lanes *a, const char *row) {
    lanes b;
    load(&b, row);
    multiply_add(&sums[0], a, &b);
    multiply_add(&sums[ROWS], &b, &b);
}

/* Computes the sums of one row of floats. Rows of floats are read in sequence, so CPUs prefetch
 * them. */
INLINE void sum_row(const float *q, const char *row, int dim, lanes *sums) {
    lanes a;
    int i = 0;
    for (; i + LANES <= dim; i += LANES) {
        load_floats(&a, q + i);
        row_step(load_floats, sums, &a, row + (size_t)i * sizeof(float));
    }
    if (i < dim) { /* The last elements are padded with zeros to 8. */
        float last_q[LANES] = { 0 }, last[LANES] = { 0 };
        memcpy(last_q, q + i, (size_t)(dim - i) * sizeof *q);
        memcpy(last, row + (size_t)i * sizeof *last, (size_t)(dim - i) * sizeof *last);
        load_floats(&a, last_q);
        row_step(load_floats, sums, &a, (const char *)last);
    }
}

INLINE void rows_step(load_lanes *load, lanes *sums, const float *q, const char *const *rows) {
    lanes a;
    load_floats(&a, q);
    row_step(load, &sums[0], &a, rows[0]);
    row_step(load, &sums[1], &a, rows[1]);
    row_step(load, &sums[2], &a, rows[2]);
    row_step(load, &sums[3], &a, rows[3]);
}

/* Computes the sums of four rows of halves side by side. One row alone would be slower, because
 * memory delivers halves faster than a CPU can add them to the sum of one row. CPUs do not prefetch
 * in this order, so the code itself prefetches the rows. */
INLINE void sum_halves(load_lanes *load, const float *q, const char *const *rows, int dim,
                       lanes *sums) {
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

INLINE void put_totals(add_lanes *add_up, const lanes *sums, const dot_scan *s, int i, int rows) {
    float totals[TOTALS];
    add_up(sums, totals);
    memcpy(s->dots + i, totals, (size_t)rows * sizeof *totals);
    memcpy(s->squares + i, totals + ROWS, (size_t)rows * sizeof *totals);
}

INLINE void scan_floats(add_lanes *add_up, const dot_scan *s) {
    const char *row = s->rows;
    for (int i = 0; i < s->count; i += ROWS) {
        const int rows = s->count - i < ROWS ? s->count - i : ROWS;
        lanes sums[TOTALS] = { { 0 } };
        for (int j = 0; j < rows; j++, row += (size_t)s->dim * sizeof(float))
            sum_row(s->query, row, s->dim, &sums[j]);
        put_totals(add_up, sums, s, i, rows);
    }
}

/* Computes the sums of all rows in groups of four. If the last group has fewer rows, its first row
 * replaces the missing rows. */
INLINE void scan_halves(load_lanes *load, add_lanes *add_up, const dot_scan *s) {
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

static void tile_plain(const float *const *q, const float *const *r, int dim, float *out) {
    multiply_tile(add_up_plain, q, r, dim, out);
}

static void floats_plain(const dot_scan *s) { scan_floats(add_up_plain, s); }

static void halves_plain(const dot_scan *s) { scan_halves(load_halves, add_up_plain, s); }

/* === Bytes === */

int dot_bytes_limit(int dim) {
    const int most = INT32_MAX / 128 / dim;
    return most < INT16_MAX ? most : INT16_MAX;
}

INLINE int32_t multiply_bytes(const int16_t *q, const int8_t *row, int from, int dim) {
    int32_t sum = 0;
    for (int i = from; i < dim; i++) sum += (int32_t)q[i] * row[i];
    return sum;
}

static void bytes_plain(const int16_t *q, const int8_t *rows, int dim, int count, int32_t *sums) {
    for (int i = 0; i < count; i++, rows += dim) sums[i] = multiply_bytes(q, rows, 0, dim);
}

/* === AVX2 === */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))

AVX2 INLINE void load_halves_avx2(lanes *to, const void *from) {
    *to = (lanes)_mm256_cvtph_ps(_mm_loadu_si128(from));
}

AVX2 INLINE __m256 add_halves(lanes a, lanes b) {
    return _mm256_add_ps(_mm256_permute2f128_ps((__m256)a, (__m256)b, 0x20),
                         _mm256_permute2f128_ps((__m256)a, (__m256)b, 0x31));
}

AVX2 INLINE __m256 add_pairs(__m256 a, __m256 b) {
    const __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}

/* Adds up the lanes of all sums at once, in the same order as add_up_plain. */
AVX2 INLINE void add_up_avx2(const lanes *s, float *totals) {
    const __m256 a = add_pairs(add_halves(s[0], s[4]), add_halves(s[1], s[5]));
    const __m256 b = add_pairs(add_halves(s[2], s[6]), add_halves(s[3], s[7]));
    _mm256_storeu_ps(totals,
                     _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)));
}

AVX2 static void tile_avx2(const float *const *q, const float *const *r, int dim, float *out) {
    multiply_tile(add_up_avx2, q, r, dim, out);
}

AVX2 static void floats_avx2(const dot_scan *s) { scan_floats(add_up_avx2, s); }

AVX2 static void halves_avx2(const dot_scan *s) { scan_halves(load_halves_avx2, add_up_avx2, s); }

AVX2 INLINE __m256i sum_bytes(const int16_t *q, const int8_t *row, int dim) {
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < dim; i += 16) {
        const __m256i a = _mm256_loadu_si256((const void *)(q + i));
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(row + i)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
    return sum;
}

AVX2 static void bytes_avx2(const int16_t *q, const int8_t *rows, int dim, int count,
                            int32_t *sums) {
    const int whole = dim / 16 * 16, last = count - count % ROWS;
    for (int i = 0; i < last; i += ROWS) {
        const int8_t *row = rows + (size_t)i * (size_t)dim;
        const __m256i a = sum_bytes(q, row, whole), b = sum_bytes(q, row += dim, whole);
        const __m256i c = sum_bytes(q, row += dim, whole), d = sum_bytes(q, row + dim, whole);
        const __m256i s = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        _mm_storeu_si128((void *)(sums + i),
                         _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
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

dot_rows_kernel *dot_rows(bool halves) {
    return halves ? FASTEST(halves_plain, halves_avx2) : FASTEST(floats_plain, floats_avx2);
}

dot_tile_kernel *dot_tile(void) { return FASTEST(tile_plain, tile_avx2); }

dot_bytes_kernel *dot_bytes(void) { return FASTEST(bytes_plain, bytes_avx2); }

/* === The nearest === */

/* The number of rows that are processed together. */
enum { BLOCK = 64 };

/* Returns 1 / the length of a vector, or 0 for a zero vector. `square` is the sum of the squares of
 * its elements. */
static double inverse(float square) {
    return square != 0 ? 1 / sqrt((double)square) : 0; /* The result is NaN if `square` is NaN. */
}

/* Returns the cosine of two vectors. If rounding makes it larger than 1 or smaller than -1, returns
 * 1 or -1. */
static float cosine(float dot, double inverse_a, double inverse_b) {
    const double x = (double)dot * inverse_a * inverse_b;
    return (float)(x > 1 ? 1 : x < -1 ? -1 : x);
}

static int64_t rows_of(const nearest_set *set) {
    int64_t rows = 0;
    for (int p = 0; p < set->count; p++) rows += set->parts[p].count;
    return rows;
}

/* Points at[i] to row first + i, as floats, for i from 0 to count - 1. Rows of halves are widened
 * into `room`, which has memory for [count, dim] floats. `room` may be NULL if the set has no
 * halves. */
static void rows_from(const nearest_set *set, int64_t first, int count, float *room,
                      const float **at) {
    const nearest_part *part = set->parts;
    for (int i = 0; i < count; i++, first++) {
        for (; first >= part->count; part++) first -= part->count;
        if (part->floats) {
            at[i] = part->floats + first * set->dim;
            continue;
        }
        for (int d = 0; d < set->dim; d++)
            room[(int64_t)i * set->dim + d] = bytes_half(part->halves[first * set->dim + d]);
        at[i] = room + (int64_t)i * set->dim;
    }
}

const float *nearest_row(const nearest_set *set, int64_t row, float *room) {
    const float *at;
    rows_from(set, row, 1, room, &at);
    return at;
}

/* === The best few === */

/* Returns true if hit `a` is worse than hit `b`. If the cosines are equal, the later row is
 * worse. */
static bool is_after(const nearest_hit *a, const nearest_hit *b) {
    return a->cosine < b->cosine || (a->cosine == b->cosine && a->row > b->row);
}

/* Adds a hit to a heap that keeps the best k hits. The worst of them is at the top, hits[0].
 * Returns the new number of hits. */
static int keep(nearest_hit *hits, int count, int k, nearest_hit hit) {
    int at = 0;
    if (!(hit.cosine >= -2)) return count; /* The cosine is NaN. */
    if (count < k) {
        for (at = count++; at > 0 && is_after(&hit, &hits[(at - 1) / 2]); at = (at - 1) / 2)
            hits[at] = hits[(at - 1) / 2];
    } else if (!is_after(&hits[0], &hit)) {
        return count;
    } else {
        for (int next = 1; next < k; next = 2 * at + 1) {
            if (next + 1 < k && is_after(&hits[next + 1], &hits[next])) next++;
            if (!is_after(&hits[next], &hit)) break;
            hits[at] = hits[next];
            at = next;
        }
    }
    hits[at] = hit;
    return count;
}

static int compare_hits(const void *a, const void *b) { return is_after(a, b) - is_after(b, a); }

static void sort_hits(nearest_hit *hits, int count) {
    qsort(hits, (size_t)count, sizeof *hits, compare_hits);
}

static void run_tasks(const vit_executor *executor, int count, vit_task *task, void *arg) {
    if (executor && executor->parallel_for) {
        executor->parallel_for(executor->user, count, task, arg);
        return;
    }
    for (int i = 0; i < count; i++) task(arg, i);
}

/* === One query === */

/* The query with integer elements, for the first pass over the int8 copies. The unit vector of the
 * query is steps[i] * step plus a vector whose length is at most `error`. */
typedef struct stepped {
    /* [dim], or NULL if there is no first pass. */
    int16_t *steps;
    double step, error;
} stepped;

/* A row that may be among the best, and an upper bound of its cosine. */
typedef struct candidate {
    int64_t row;
    float most;
} candidate;

typedef struct candidates {
    candidate *items;
    size_t count, capacity;
} candidates;

typedef struct one_search {
    const nearest_set *set;
    const float *query;
    /* 1 / the length of the query. */
    double inverse;
    int k, tasks;
    /* The number of rows of all parts together. */
    int64_t rows;
    /* The kernel for rows of floats, and the kernel for rows of halves. */
    dot_rows_kernel *kernels[2];
    dot_bytes_kernel *bytes_kernel;
    /* The best hits of each task: [tasks, k]. In the first pass, lower bounds replace the
     * cosines. */
    nearest_hit *hits;
    /* The number of hits of each task: [tasks]. */
    int *found;
    /* The query for the first pass. */
    stepped unit;
    /* The largest error of a cosine that is computed from floats. */
    double rounding;
    /* The candidates of each task: [tasks]. */
    candidates *maybe;
    /* True if memory was exhausted in the task: [tasks]. */
    bool *no_memory;
} one_search;

static const void *row_in(const nearest_part *part, int dim, int64_t i) {
    const int64_t at = i * dim;
    return part->halves ? (const void *)(part->halves + at) : (const void *)(part->floats + at);
}

static float row_cosine(const one_search *s, float dot, float square) {
    return cosine(dot, s->inverse, inverse(square));
}

/* Returns a factor f such that dot^2 >= f * square for each row whose cosine is higher than
 * `above`. Returns 0 if `above` is not positive, because a square hides the sign. */
static double squared_bound(const one_search *s, float above) {
    const double dot = above > 0 ? (double)above / s->inverse : 0;
    return dot * dot * (1 - 1e-12);
}

/* A function that searches the rows from i to end - 1 of a part. `first` is the number of the
 * part's first row among the rows of all parts. */
typedef void scan_part(one_search *s, int task, const nearest_part *part, int64_t first, int64_t i,
                       int64_t end);

static void scan_cosines(one_search *s, int task, const nearest_part *part, int64_t first,
                         int64_t i, int64_t end) {
    nearest_hit *hits = s->hits + (size_t)task * (size_t)s->k;
    float dots[BLOCK], squares[BLOCK];
    double bound = s->found[task] == s->k ? squared_bound(s, hits[0].cosine) : 0;
    for (; i < end; i += BLOCK) {
        const int count = (int)(end - i < BLOCK ? end - i : BLOCK);
        const dot_scan scan = { s->query, row_in(part, s->set->dim, i), s->set->dim, count, dots,
                                squares };
        s->kernels[part->halves != NULL](&scan);
        for (int j = 0; j < count; j++) {
            nearest_hit hit = { first + i + j, 0 };
            /* This test rejects most rows without a root and a division. */
            if ((double)dots[j] * (double)dots[j] < bound * (double)squares[j]) continue;
            hit.cosine = row_cosine(s, dots[j], squares[j]);
            s->found[task] = keep(hits, s->found[task], s->k, hit);
            if (s->found[task] == s->k) bound = squared_bound(s, hits[0].cosine);
        }
    }
}

/* Drops each candidate whose upper bound is below `least`. At least k other rows certainly have
 * higher cosines than such a candidate. */
static void prune(candidates *maybe, float least) {
    size_t left = 0;
    for (size_t i = 0; i < maybe->count; i++)
        if (maybe->items[i].most >= least) maybe->items[left++] = maybe->items[i];
    maybe->count = left;
}

static bool add_candidate(candidates *maybe, int64_t row, float most, float least) {
    if (maybe->count == maybe->capacity) {
        candidate *grown;
        prune(maybe, least);
        if (maybe->count >= maybe->capacity / 2) {
            grown = memory_grow(maybe->items, sizeof *grown, maybe->capacity, &maybe->capacity);
            if (!grown) return false;
            maybe->items = grown;
        }
    }
    maybe->items[maybe->count].row = row;
    maybe->items[maybe->count++].most = most;
    return true;
}

/* Computes bounds of the cosines of rows from their int8 copies. Rows that may be among the best k
 * become candidates. */
static void scan_bounds(one_search *s, int task, const nearest_part *part, int64_t first, int64_t i,
                        int64_t end) {
    nearest_hit *hits = s->hits + (size_t)task * (size_t)s->k;
    const double unit = s->unit.step, margin = 1 + s->unit.error;
    const double rest = s->unit.error + s->rounding;
    float least = s->found[task] == s->k ? hits[0].cosine : -INFINITY;
    int32_t sums[BLOCK];
    for (; i < end; i += BLOCK) {
        const int count = (int)(end - i < BLOCK ? end - i : BLOCK);
        s->bytes_kernel(s->unit.steps, part->bytes + i * s->set->dim, s->set->dim, count, sums);
        for (int j = 0; j < count; j++) {
            const double about = (double)part->scales[i + j].step * unit * (double)sums[j];
            const double error = (double)part->scales[i + j].error * margin + rest;
            const nearest_hit low = { first + i + j, (float)(about - error) };
            const float most = (float)(about + error);
            if (most < least) continue;
            s->found[task] = keep(hits, s->found[task], s->k, low);
            if (s->found[task] == s->k) least = hits[0].cosine;
            if (!add_candidate(&s->maybe[task], low.row, most, least)) s->no_memory[task] = true;
        }
    }
}

/* Searches one share of the rows. This function is a vit_task, and `index` is the number of the
 * share. */
static void search_part(void *arg, int index) {
    one_search *s = arg;
    const int64_t begin = s->rows * index / s->tasks, end = s->rows * (index + 1) / s->tasks;
    scan_part *scan = s->unit.steps ? scan_bounds : scan_cosines;
    int64_t first = 0;
    for (int p = 0; p < s->set->count && first < end; p++) {
        const nearest_part *part = &s->set->parts[p];
        const int64_t from = begin > first ? begin - first : 0;
        const int64_t to = end - first < part->count ? end - first : part->count;
        if (from < to) scan(s, index, part, first, from, to);
        first += part->count;
    }
}

/* Merges the best hits of all tasks into `hits`. Returns the number of hits. */
static int merge(const one_search *s, nearest_hit *hits) {
    int count = 0;
    for (int t = 0; t < s->tasks; t++) {
        const nearest_hit *part = s->hits + (size_t)t * (size_t)s->k;
        for (int i = 0; i < s->found[t]; i++) count = keep(hits, count, s->k, part[i]);
    }
    return count;
}

/* Computes the exact cosines of all candidates (the second pass), in the order of their rows.
 * Returns the number of hits. */
static int rescore(one_search *s, float least, nearest_hit *hits, int64_t *rescored) {
    int64_t first = 0;
    int count = 0, p = 0;
    for (int t = 0; t < s->tasks; t++) {
        prune(&s->maybe[t], least);
        *rescored += (int64_t)s->maybe[t].count;
        for (size_t i = 0; i < s->maybe[t].count; i++) {
            nearest_hit hit = { s->maybe[t].items[i].row, 0 };
            float dot, square;
            dot_scan scan = { s->query, NULL, s->set->dim, 1, &dot, &square };
            while (hit.row >= first + s->set->parts[p].count) first += s->set->parts[p++].count;
            scan.rows = row_in(&s->set->parts[p], s->set->dim, hit.row - first);
            s->kernels[s->set->parts[p].halves != NULL](&scan);
            hit.cosine = row_cosine(s, dot, square);
            count = keep(hits, count, s->k, hit);
        }
    }
    return count;
}

/* Returns true if the error bounds hold for a query with this sum of squares. For other sums,
 * products of floats may overflow or lose bits. */
static bool is_usual(float square) { return square >= 0x1p-40f && square <= 0x1p40f; }

/* Makes the query for the first pass, if all parts have int8 copies and the error bounds hold.
 * Returns false if memory is exhausted. */
static bool step_query(one_search *s, float square) {
    const int dim = s->set->dim, limit = dot_bytes_limit(dim);
    double length = 0, most = 0, error = 0;
    for (int p = 0; p < s->set->count; p++)
        if (!s->set->parts[p].bytes) return true;
    if (!is_usual(square)) return true;
    s->unit.steps = malloc((size_t)dim * sizeof *s->unit.steps);
    if (!s->unit.steps) return false;
    for (int i = 0; i < dim; i++) {
        length += (double)s->query[i] * (double)s->query[i];
        most = fmax(most, fabs((double)s->query[i]));
    }
    length = sqrt(length);
    s->unit.step = most / length / limit;
    for (int i = 0; i < dim; i++) {
        const double unit = (double)s->query[i] / length, steps = nearbyint(unit / s->unit.step);
        s->unit.steps[i] = (int16_t)fmax(-limit, fmin(limit, steps));
        error += pow(unit - s->unit.step * (double)s->unit.steps[i], 2);
    }
    s->unit.error = sqrt(error) * (1 + 1e-9) + 1e-12;
    return true;
}

static bool begin_search(one_search *s) {
    float dot, square;
    const dot_scan scan = { s->query, s->query, s->set->dim, 1, &dot, &square };
    const size_t tasks = (size_t)s->tasks;
    s->rows = rows_of(s->set);
    s->kernels[0] = dot_rows(false);
    s->kernels[1] = dot_rows(true);
    s->bytes_kernel = dot_bytes();
    s->kernels[0](&scan);
    s->inverse = inverse(square);
    /* This bound is twice the error of dot_rows. That error comes from three sums of dim / 8 + 3
     * successive additions each; two of the sums are under a root. */
    s->rounding = (s->set->dim / 4.0 + 16) * 0x1p-23 + 1e-6;
    s->hits = malloc(tasks * (size_t)s->k * sizeof *s->hits);
    s->found = calloc(tasks, sizeof *s->found);
    s->maybe = calloc(tasks, sizeof *s->maybe);
    s->no_memory = calloc(tasks, sizeof *s->no_memory);
    return s->hits && s->found && s->maybe && s->no_memory && step_query(s, square);
}

static void end_search(one_search *s) {
    for (int t = 0; s->maybe && t < s->tasks; t++) free(s->maybe[t].items);
    free(s->hits);
    free(s->found);
    free(s->maybe);
    free(s->no_memory);
    free(s->unit.steps);
}

int nearest_find_in(const nearest_set *set, const float *query, int k, const vit_executor *executor,
                    nearest_hit *hits, int64_t *rescored) {
    one_search s;
    bool good;
    int count = -1;
    memset(&s, 0, sizeof s);
    s.set = set;
    s.query = query;
    s.k = k;
    s.tasks = 64;
    *rescored = 0;
    good = begin_search(&s);
    if (good) run_tasks(executor, s.tasks, search_part, &s);
    for (int t = 0; good && t < s.tasks; t++) good = !s.no_memory[t];
    if (good) count = merge(&s, hits);
    if (good && s.unit.steps)
        count = rescore(&s, count == k ? hits[0].cosine : -INFINITY, hits, rescored);
    if (good) sort_hits(hits, count);
    end_search(&s);
    return count;
}

int nearest_find(const nearest_rows *rows, const float *query, int k, const vit_executor *executor,
                 nearest_hit *hits) {
    const nearest_part part = { rows->values, NULL, rows->count, NULL, NULL };
    const nearest_set set = { &part, 1, rows->dim };
    int64_t rescored;
    return nearest_find_in(&set, query, k, executor, hits, &rescored);
}

static double number_in(const nearest_part *part, int64_t at) {
    return part->halves ? (double)bytes_half(part->halves[at]) : (double)part->floats[at];
}

static nearest_scale row_bytes(const nearest_part *part, int dim, int64_t row, int8_t *bytes) {
    const nearest_scale unknown = { 0, INFINITY }, zero = { 0, 0 };
    double most = 0, square = 0, step, error = 0;
    nearest_scale scale;
    memset(bytes, 0, (size_t)dim);
    for (int i = 0; i < dim; i++) {
        const double x = number_in(part, row * dim + i);
        most = fmax(most, fabs(x));
        square += x * x;
    }
    if (most == 0 && square == 0) return zero;
    if (!is_usual((float)square)) return unknown;
    step = most / 127;
    for (int i = 0; i < dim; i++) {
        const double x = number_in(part, row * dim + i);
        bytes[i] = (int8_t)nearbyint(x / step);
        error += pow(x - step * bytes[i], 2);
    }
    scale.step = (float)(step / sqrt(square));
    scale.error = (float)(sqrt(error / square) * (1 + 1e-6));
    return scale;
}

typedef struct copy_job {
    const nearest_part *part;
    int dim, tasks;
    nearest_scale *scales;
    int8_t *bytes;
} copy_job;

/* Makes the int8 copies of one share of the rows. This function is a vit_task. */
static void copy_rows(void *arg, int index) {
    const copy_job *j = arg;
    const int64_t end = j->part->count * (index + 1) / j->tasks;
    for (int64_t i = j->part->count * index / j->tasks; i < end; i++)
        j->scales[i] = row_bytes(j->part, j->dim, i, j->bytes + i * j->dim);
}

void nearest_make_bytes(const nearest_part *part, int dim, const vit_executor *executor,
                        nearest_scale *scales, int8_t *bytes) {
    copy_job job = { part, dim, 64, scales, bytes };
    run_tasks(executor, job.tasks, copy_rows, &job);
}

/* === Many queries === */

typedef struct many_search {
    const nearest_set *rows, *queries;
    int64_t num_rows, num_queries;
    dot_tile_kernel *tile;
    dot_rows_kernel *each;
    double *row_inverses, *query_inverses;
    /* `k`, `hits` and `found` are for nearest_find_each. */
    int k;
    nearest_hit *hits;
    int *found;
    /* `least`, `lock` and `group` are for nearest_groups. */
    float least;
    pthread_mutex_t lock;
    int64_t *group;
    /* 1 if memory was exhausted in a task. */
    int no_memory;
} many_search;

/* A block of consecutive rows. At the end of the set, copies of the last row fill the block,
 * because a tile needs all its rows. */
typedef struct row_block {
    int64_t first;
    int count;
    const float *at[BLOCK];
    /* Memory for widened halves, or NULL if the set has no halves. */
    float *room;
} row_block;

/* Allocates the memory for widened halves of a block. Returns false if memory is exhausted. */
static bool block_room(row_block *block, const nearest_set *set) {
    bool halves = false;
    for (int p = 0; p < set->count; p++) halves = halves || set->parts[p].halves;
    block->room = halves ? malloc((size_t)BLOCK * (size_t)set->dim * sizeof *block->room) : NULL;
    return block->room || !halves;
}

static void take_block(row_block *block, const nearest_set *set, int64_t rows, int64_t first) {
    block->first = first;
    block->count = (int)(rows - first < BLOCK ? rows - first : BLOCK);
    rows_from(set, first, block->count, block->room, block->at);
    for (int i = block->count; i < BLOCK; i++) block->at[i] = block->at[block->count - 1];
}

static void invert_block(const row_block *block, int dim, dot_rows_kernel *each, double *inverses) {
    for (int i = 0; i < block->count; i++) {
        float dot, square;
        const dot_scan scan = { block->at[i], block->at[i], dim, 1, &dot, &square };
        each(&scan);
        inverses[block->first + i] = inverse(square);
    }
}

/* Computes 1 / the length of each row of one block. This function is a vit_task. */
static void invert_rows(void *arg, int index) {
    many_search *s = arg;
    row_block block;
    if (!block_room(&block, s->rows)) {
        __atomic_store_n(&s->no_memory, 1, __ATOMIC_RELAXED);
        return;
    }
    take_block(&block, s->rows, s->num_rows, (int64_t)index * BLOCK);
    invert_block(&block, s->rows->dim, s->each, s->row_inverses);
    free(block.room);
}

/* Computes the cosines of each query of a block with each row of another block: [BLOCK, BLOCK]. */
static void block_cosines(const many_search *s, const row_block *q, const row_block *r,
                          float *cosines) {
    for (int i = 0; i < q->count; i += DOT_TILE_QUERIES) {
        for (int j = 0; j < r->count; j += DOT_TILE_ROWS) {
            float dots[DOT_TILE_QUERIES * DOT_TILE_ROWS];
            s->tile(q->at + i, r->at + j, s->rows->dim, dots);
            for (int a = 0; a < DOT_TILE_QUERIES && i + a < q->count; a++) {
                for (int b = 0; b < DOT_TILE_ROWS && j + b < r->count; b++) {
                    cosines[(i + a) * BLOCK + j + b] = cosine(dots[a * DOT_TILE_ROWS + b],
                                                              s->query_inverses[q->first + i + a],
                                                              s->row_inverses[r->first + j + b]);
                }
            }
        }
    }
}

static int blocks_of(int64_t count) { return (int)((count + BLOCK - 1) / BLOCK); }

/* A function that receives the cosines of a block of queries with a block of rows. */
typedef void use_cosines(many_search *s, const row_block *q, const row_block *r,
                         const float *cosines);

/* Computes the cosines of one block of queries with all rows from `first` on, and passes them to
 * `use`. */
static void each_block(many_search *s, int64_t query, int64_t first, use_cosines *use) {
    float cosines[BLOCK * BLOCK];
    row_block q, r = { 0 };
    const bool good = block_room(&q, s->queries) && block_room(&r, s->rows);
    if (!good) __atomic_store_n(&s->no_memory, 1, __ATOMIC_RELAXED);
    if (good) take_block(&q, s->queries, s->num_queries, query);
    if (good && s->query_inverses != s->row_inverses)
        invert_block(&q, s->queries->dim, s->each, s->query_inverses);
    for (; good && first < s->num_rows; first += BLOCK) {
        take_block(&r, s->rows, s->num_rows, first);
        block_cosines(s, &q, &r, cosines);
        use(s, &q, &r, cosines);
    }
    free(q.room);
    free(r.room);
}

static void keep_best(many_search *s, const row_block *q, const row_block *r,
                      const float *cosines) {
    for (int i = 0; i < q->count; i++) {
        nearest_hit *hits = s->hits + (size_t)(q->first + i) * (size_t)s->k;
        for (int j = 0; j < r->count; j++) {
            const nearest_hit hit = { r->first + j, cosines[i * BLOCK + j] };
            s->found[q->first + i] = keep(hits, s->found[q->first + i], s->k, hit);
        }
    }
}

/* Finds the nearest rows for one block of queries. This function is a vit_task. */
static void search_block(void *arg, int index) {
    many_search *s = arg;
    const int64_t q = (int64_t)index * BLOCK;
    each_block(s, q, 0, keep_best);
    for (int64_t i = q; i < q + BLOCK && i < s->num_queries; i++)
        sort_hits(s->hits + (size_t)i * (size_t)s->k, s->found[i]);
}

bool nearest_find_each(const nearest_rows *rows, const nearest_rows *queries, int k,
                       const vit_executor *executor, nearest_hit *hits, int *found) {
    const nearest_part parts[2] = { { rows->values, NULL, rows->count, NULL, NULL },
                                    { queries->values, NULL, queries->count, NULL, NULL } };
    const nearest_set all = { &parts[0], 1, rows->dim }, asked = { &parts[1], 1, queries->dim };
    many_search s;
    bool good;
    memset(&s, 0, sizeof s);
    s.rows = &all;
    s.queries = &asked;
    s.num_rows = rows->count;
    s.num_queries = queries->count;
    s.tile = dot_tile();
    s.each = dot_rows(false);
    s.k = k;
    s.hits = hits;
    s.found = found;
    s.row_inverses = malloc((size_t)rows->count * sizeof(double) + 1);
    s.query_inverses = malloc((size_t)queries->count * sizeof(double) + 1);
    good = s.row_inverses && s.query_inverses;
    memset(found, 0, (size_t)queries->count * sizeof *found);
    if (good) run_tasks(executor, blocks_of(rows->count), invert_rows, &s);
    if (good) run_tasks(executor, blocks_of(queries->count), search_block, &s);
    free(s.row_inverses);
    free(s.query_inverses);
    return good && !s.no_memory;
}

/* === Groups === */

/* Returns the lowest row to which row i is connected. Also halves the path to this row, which makes
 * later calls faster. */
static int64_t root_of(int64_t *group, int64_t i) {
    while (group[i] != i) i = group[i] = group[group[i]];
    return i;
}

static void join(many_search *s, int64_t a, int64_t b) {
    pthread_mutex_lock(&s->lock);
    a = root_of(s->group, a);
    b = root_of(s->group, b);
    if (a < b) s->group[b] = a;
    else s->group[a] = b;
    pthread_mutex_unlock(&s->lock);
}

static void join_near(many_search *s, const row_block *q, const row_block *r,
                      const float *cosines) {
    for (int i = 0; i < q->count; i++) {
        for (int j = 0; j < r->count; j++) {
            if (r->first + j > q->first + i && cosines[i * BLOCK + j] >= s->least)
                join(s, q->first + i, r->first + j);
        }
    }
}

/* Connects each row of one block with the near rows of this block and of all later blocks. This
 * function is a vit_task. */
static void join_block(void *arg, int index) {
    many_search *s = arg;
    each_block(s, (int64_t)index * BLOCK, (int64_t)index * BLOCK, join_near);
}

bool nearest_groups(const nearest_set *set, float least, const vit_executor *executor,
                    int64_t *group) {
    const int64_t rows = rows_of(set);
    many_search s;
    memset(&s, 0, sizeof s);
    s.rows = s.queries = set;
    s.num_rows = s.num_queries = rows;
    s.tile = dot_tile();
    s.each = dot_rows(false);
    s.least = least;
    s.group = group;
    s.row_inverses = s.query_inverses = malloc((size_t)rows * sizeof(double) + 1);
    if (!s.row_inverses) return false;
    for (int64_t i = 0; i < rows; i++) group[i] = i;
    pthread_mutex_init(&s.lock, NULL);
    run_tasks(executor, blocks_of(rows), invert_rows, &s);
    run_tasks(executor, blocks_of(rows), join_block, &s);
    pthread_mutex_destroy(&s.lock);
    for (int64_t i = 0; i < rows; i++) group[i] = root_of(group, i);
    free(s.row_inverses);
    return !s.no_memory;
}

/* === Votes === */

int nearest_vote(const nearest_hit *hits, int count, const int *row_classes, double temperature,
                 double *votes, int num_classes) {
    int best = 0;
    for (int c = 0; c < num_classes; c++) votes[c] = 0;
    for (int i = 0; i < count; i++)
        votes[row_classes[hits[i].row]] += exp((double)hits[i].cosine / temperature);
    for (int c = 1; c < num_classes; c++)
        if (votes[c] > votes[best]) best = c;
    return best;
}
