#define _POSIX_C_SOURCE 200809L

#include "numbers/nearest.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* === Dot products ===
 * One chain of additions for each of 8 lanes, the last lanes filled up with zeros, then a tree. A
 * product is a statement of its own, so that no compiler fuses it with the addition. */

typedef float lanes __attribute__((vector_size(32)));

enum { LANES = 8, QUERIES = 4, ROWS = 2, ONE_ROWS = 4 };   /* of a tile */

#define INLINE static inline __attribute__((always_inline))

/* count: of the floats that are left, at least 1. */
INLINE void load(lanes *to, const float *from, int count)
{
    if (count >= LANES) {
        memcpy(to, from, sizeof *to);
    } else {
        memset(to, 0, sizeof *to);
        memcpy(to, from, (size_t)count * sizeof *from);
    }
}

INLINE void multiply_add(lanes *sum, const lanes *a, const lanes *b)
{
    const lanes product = *a * *b;
    *sum += product;
}

INLINE float add_up(const lanes *sum)
{
    const lanes s = *sum;
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* out[q * ROWS + r] = query q . row r */
INLINE void tile(const float *const *q, const float *const *r, int dim, float *out)
{
    lanes s00 = { 0 }, s01 = { 0 }, s10 = { 0 }, s11 = { 0 };
    lanes s20 = { 0 }, s21 = { 0 }, s30 = { 0 }, s31 = { 0 };
    lanes a, b0, b1;
    for (int i = 0; i < dim; i += LANES) {
        load(&b0, r[0] + i, dim - i);
        load(&b1, r[1] + i, dim - i);
        load(&a, q[0] + i, dim - i);
        multiply_add(&s00, &a, &b0);
        multiply_add(&s01, &a, &b1);
        load(&a, q[1] + i, dim - i);
        multiply_add(&s10, &a, &b0);
        multiply_add(&s11, &a, &b1);
        load(&a, q[2] + i, dim - i);
        multiply_add(&s20, &a, &b0);
        multiply_add(&s21, &a, &b1);
        load(&a, q[3] + i, dim - i);
        multiply_add(&s30, &a, &b0);
        multiply_add(&s31, &a, &b1);
    }
    out[0] = add_up(&s00), out[1] = add_up(&s01), out[2] = add_up(&s10), out[3] = add_up(&s11);
    out[4] = add_up(&s20), out[5] = add_up(&s21), out[6] = add_up(&s30), out[7] = add_up(&s31);
}

/* dots[r] = q . row r, squares[r] = row r . row r: what one query needs in one reading */
INLINE void one_tile(const float *q, const float *const *r, int dim, float *dots, float *squares)
{
    lanes d0 = { 0 }, d1 = { 0 }, d2 = { 0 }, d3 = { 0 };
    lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    lanes a, b;
    for (int i = 0; i < dim; i += LANES) {
        load(&a, q + i, dim - i);
        load(&b, r[0] + i, dim - i);
        multiply_add(&d0, &a, &b);
        multiply_add(&s0, &b, &b);
        load(&b, r[1] + i, dim - i);
        multiply_add(&d1, &a, &b);
        multiply_add(&s1, &b, &b);
        load(&b, r[2] + i, dim - i);
        multiply_add(&d2, &a, &b);
        multiply_add(&s2, &b, &b);
        load(&b, r[3] + i, dim - i);
        multiply_add(&d3, &a, &b);
        multiply_add(&s3, &b, &b);
    }
    dots[0] = add_up(&d0), dots[1] = add_up(&d1), dots[2] = add_up(&d2), dots[3] = add_up(&d3);
    squares[0] = add_up(&s0), squares[1] = add_up(&s1);
    squares[2] = add_up(&s2), squares[3] = add_up(&s3);
}

typedef void tile_kernel(const float *const *q, const float *const *r, int dim, float *out);
typedef void one_kernel(const float *q, const float *const *r, int dim, float *dots,
                        float *squares);

static void tile_plain(const float *const *q, const float *const *r, int dim, float *out)
{
    tile(q, r, dim, out);
}

static void one_plain(const float *q, const float *const *r, int dim, float *dots, float *squares)
{
    one_tile(q, r, dim, dots, squares);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void tile_avx2(const float *const *q,
                                                      const float *const *r, int dim, float *out)
{
    tile(q, r, dim, out);
}

__attribute__((target("avx2"))) static void one_avx2(const float *q, const float *const *r,
                                                     int dim, float *dots, float *squares)
{
    one_tile(q, r, dim, dots, squares);
}
#define FASTEST(plain, avx2) (vit_has_isa(VIT_ISA_AVX2) ? (avx2) : (plain))
#else
#define FASTEST(plain, avx2) (plain)
#endif

/* Of a vector's sum of squares: 1 / length, 0 for a zero vector. */
static double inverse(float square)
{
    return square != 0 ? 1 / sqrt((double)square) : 0;   /* of NaN, NaN */
}

static float cosine(float dot, double inverse_a, double inverse_b)
{
    return (float)((double)dot * inverse_a * inverse_b);
}

/* Row i of some, or the last one: tiles are whole. */
static const float *row_at(const nearest_rows *rows, int64_t i)
{
    return rows->values + (i < rows->count ? i : rows->count - 1) * rows->dim;
}

/* === The best few === */

/* Keeps hits sorted; rows come in rising order, so that of equal ones the earlier stays before. */
static int keep(nearest_hit *hits, int count, int k, nearest_hit hit)
{
    int at;
    if (!(hit.cosine >= -2)) return count;   /* NaN */
    if (count == k && !(hit.cosine > hits[k - 1].cosine)) return count;
    at = count < k ? count++ : k - 1;
    for (; at > 0 && hits[at - 1].cosine < hit.cosine; at--) hits[at] = hits[at - 1];
    hits[at] = hit;
    return count;
}

static void run_tasks(const vit_executor *executor, int count, vit_task *task, void *arg)
{
    if (executor && executor->parallel_for) {
        executor->parallel_for(executor->user, count, task, arg);
        return;
    }
    for (int i = 0; i < count; i++) task(arg, i);
}

/* === One query === */

typedef struct one_search {
    const nearest_rows *rows;
    const float *query;
    double inverse;          /* of the query */
    one_kernel *kernel;
    int k, tasks;
    nearest_hit *hits;       /* [tasks, k] */
    int *found;              /* [tasks]    */
} one_search;

/* vit_task: a part of the rows. */
static void search_part(void *arg, int index)
{
    one_search *s = arg;
    const nearest_rows *rows = s->rows;
    const int64_t end = rows->count * (index + 1) / s->tasks;
    nearest_hit *hits = s->hits + (size_t)index * (size_t)s->k;
    int found = 0;
    for (int64_t i = rows->count * index / s->tasks; i < end; i += ONE_ROWS) {
        const float *r[ONE_ROWS];
        float dots[ONE_ROWS], squares[ONE_ROWS];
        for (int j = 0; j < ONE_ROWS; j++) r[j] = row_at(rows, i + j);
        s->kernel(s->query, r, rows->dim, dots, squares);
        for (int j = 0; j < ONE_ROWS && i + j < end; j++) {
            const nearest_hit hit = { i + j, cosine(dots[j], s->inverse, inverse(squares[j])) };
            found = keep(hits, found, s->k, hit);
        }
    }
    s->found[index] = found;
}

int nearest_find(const nearest_rows *rows, const float *query, int k, const vit_executor *executor,
                 nearest_hit *hits)
{
    one_search s = { rows, query, 0, FASTEST(one_plain, one_avx2), k, 64, NULL, NULL };
    const float *self[ONE_ROWS] = { query, query, query, query };
    float dots[ONE_ROWS], squares[ONE_ROWS];
    int count = 0;
    if (rows->count == 0) return 0;
    s.kernel(query, self, rows->dim, dots, squares);
    s.inverse = inverse(squares[0]);
    s.hits = malloc((size_t)s.tasks * (size_t)k * sizeof *s.hits);
    s.found = calloc((size_t)s.tasks, sizeof *s.found);
    if (s.hits && s.found) run_tasks(executor, s.tasks, search_part, &s);
    for (int t = 0; s.hits && s.found && t < s.tasks; t++) {
        const nearest_hit *part = s.hits + (size_t)t * (size_t)k;
        for (int i = 0; i < s.found[t]; i++) count = keep(hits, count, k, part[i]);
    }
    if (!s.hits || !s.found) count = -1;
    free(s.hits);
    free(s.found);
    return count;
}

/* === Many queries === */

enum { BLOCK = 64 };   /* rows that stay in the cache while many queries look at them */

typedef struct many_search {
    const nearest_rows *rows, *queries;
    tile_kernel *kernel;
    one_kernel *one;
    double *row_inverses, *query_inverses;
    int k;                   /* of nearest_find_each, like the following */
    nearest_hit *hits;
    int *found;
    float least;             /* of nearest_groups, like the following */
    pthread_mutex_t lock;
    int64_t *group;
} many_search;

static void invert_block(const nearest_rows *rows, one_kernel *one, double *inverses, int64_t first)
{
    for (int64_t i = first; i < first + BLOCK && i < rows->count; i += ONE_ROWS) {
        const float *r[ONE_ROWS];
        float dots[ONE_ROWS], all[ONE_ROWS];
        for (int j = 0; j < ONE_ROWS; j++) r[j] = row_at(rows, i + j);
        one(r[0], r, rows->dim, dots, all);
        for (int j = 0; j < ONE_ROWS && i + j < rows->count; j++) inverses[i + j] = inverse(all[j]);
    }
}

/* vit_task: one block of rows. */
static void invert_rows(void *arg, int index)
{
    const many_search *s = arg;
    invert_block(s->rows, s->one, s->row_inverses, (int64_t)index * BLOCK);
}

/* Cosines of the queries from q on with the rows from r on: [BLOCK, BLOCK]. */
static void block_cosines(const many_search *s, int64_t q, int64_t r, float *cosines)
{
    for (int i = 0; i < BLOCK && q + i < s->queries->count; i += QUERIES) {
        const float *qs[QUERIES], *rs[ROWS];
        for (int a = 0; a < QUERIES; a++) qs[a] = row_at(s->queries, q + i + a);
        for (int j = 0; j < BLOCK && r + j < s->rows->count; j += ROWS) {
            float dots[QUERIES * ROWS];
            for (int b = 0; b < ROWS; b++) rs[b] = row_at(s->rows, r + j + b);
            s->kernel(qs, rs, s->rows->dim, dots);
            for (int a = 0; a < QUERIES && q + i + a < s->queries->count; a++) {
                for (int b = 0; b < ROWS && r + j + b < s->rows->count; b++) {
                    cosines[(i + a) * BLOCK + j + b] =
                        cosine(dots[a * ROWS + b], s->query_inverses[q + i + a],
                               s->row_inverses[r + j + b]);
                }
            }
        }
    }
}

static int blocks_of(int64_t count) { return (int)((count + BLOCK - 1) / BLOCK); }

/* vit_task: one block of queries with all rows. */
static void search_block(void *arg, int index)
{
    const many_search *s = arg;
    const int64_t q = (int64_t)index * BLOCK;
    float cosines[BLOCK * BLOCK];
    invert_block(s->queries, s->one, s->query_inverses, q);
    for (int64_t r = 0; r < s->rows->count; r += BLOCK) {
        block_cosines(s, q, r, cosines);
        for (int i = 0; i < BLOCK && q + i < s->queries->count; i++) {
            nearest_hit *hits = s->hits + (size_t)(q + i) * (size_t)s->k;
            for (int j = 0; j < BLOCK && r + j < s->rows->count; j++) {
                const nearest_hit hit = { r + j, cosines[i * BLOCK + j] };
                s->found[q + i] = keep(hits, s->found[q + i], s->k, hit);
            }
        }
    }
}

bool nearest_find_each(const nearest_rows *rows, const nearest_rows *queries, int k,
                       const vit_executor *executor, nearest_hit *hits, int *found)
{
    many_search s;
    bool good;
    memset(&s, 0, sizeof s);
    s.rows = rows;
    s.queries = queries;
    s.kernel = FASTEST(tile_plain, tile_avx2);
    s.one = FASTEST(one_plain, one_avx2);
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
    return good;
}

/* === Groups === */

/* The lowest row that i hangs together with; paths to it are halved on the way. */
static int64_t root_of(int64_t *group, int64_t i)
{
    while (group[i] != i) i = group[i] = group[group[i]];
    return i;
}

static void join(many_search *s, int64_t a, int64_t b)
{
    pthread_mutex_lock(&s->lock);
    a = root_of(s->group, a);
    b = root_of(s->group, b);
    if (a < b) s->group[b] = a;
    else s->group[a] = b;
    pthread_mutex_unlock(&s->lock);
}

/* vit_task: one block of rows with itself and all after it. */
static void join_block(void *arg, int index)
{
    many_search *s = arg;
    const int64_t q = (int64_t)index * BLOCK;
    float cosines[BLOCK * BLOCK];
    for (int64_t r = q; r < s->rows->count; r += BLOCK) {
        block_cosines(s, q, r, cosines);
        for (int i = 0; i < BLOCK && q + i < s->rows->count; i++) {
            for (int j = 0; j < BLOCK && r + j < s->rows->count; j++) {
                if (r + j > q + i && cosines[i * BLOCK + j] >= s->least) join(s, q + i, r + j);
            }
        }
    }
}

bool nearest_groups(const nearest_rows *rows, float least, const vit_executor *executor,
                    int64_t *group)
{
    many_search s;
    memset(&s, 0, sizeof s);
    s.rows = s.queries = rows;
    s.kernel = FASTEST(tile_plain, tile_avx2);
    s.one = FASTEST(one_plain, one_avx2);
    s.least = least;
    s.group = group;
    s.row_inverses = s.query_inverses = malloc((size_t)rows->count * sizeof(double) + 1);
    if (!s.row_inverses) return false;
    for (int64_t i = 0; i < rows->count; i++) group[i] = i;
    pthread_mutex_init(&s.lock, NULL);
    run_tasks(executor, blocks_of(rows->count), invert_rows, &s);
    run_tasks(executor, blocks_of(rows->count), join_block, &s);
    pthread_mutex_destroy(&s.lock);
    for (int64_t i = 0; i < rows->count; i++) group[i] = root_of(group, i);
    free(s.row_inverses);
    return true;
}

/* === Votes === */

int nearest_vote(const nearest_hit *hits, int count, const int *row_classes, double temperature,
                 double *votes, int num_classes)
{
    int best = 0;
    for (int c = 0; c < num_classes; c++) votes[c] = 0;
    for (int i = 0; i < count; i++)
        votes[row_classes[hits[i].row]] += exp((double)hits[i].cosine / temperature);
    for (int c = 1; c < num_classes; c++)
        if (votes[c] > votes[best]) best = c;
    return best;
}
