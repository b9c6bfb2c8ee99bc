/* nearest.h - finds the vectors that are nearest to a query, which is also a vector. The nearest
 * vectors have the highest cosine with the query. The search is exact, because it compares every
 * vector.
 *
 * The results have the same bits on every CPU and for any number of threads (see dot_rows). A
 * single query takes about as long as reading the vectors from memory.
 *
 * tools/numbers owns arithmetic on outputs of models: PCA, attention rollout, nearest neighbours,
 * learning classes, average precision, running means; it may include base.
 */
#ifndef NEAREST_H
#define NEAREST_H

#include <stdbool.h>
#include <stdint.h>

#define VIT_TOOLS
#include "vit.h"

/* === Dot products === */

/* These kernels compute dot products of a query with many rows. The order of additions is fixed,
 * which gives the same bits on every CPU. The search below uses these products.
 *
 * The code is plain C with vectors of 8 floats, and is also compiled for AVX2. The product of two
 * elements i is added to sum i % 8. If the number of elements is not a multiple of 8, the missing
 * ones count as zeros. At the end, a tree of additions combines the 8 sums.
 */

/* The arguments of a dot_rows_kernel. The kernel computes dots[r] = query . row r and squares[r] =
 * row r . row r for `count` consecutive rows. The elements of the rows are floats, or halves (f16),
 * which are converted to floats exactly. */
typedef struct dot_scan {
    const float *query;
    const void *rows;
    int dim, count;
    float *dots, *squares;
} dot_scan;

typedef void dot_rows_kernel(const dot_scan *scan);
dot_rows_kernel *dot_rows(bool halves);

/* A dot_tile_kernel computes out[q * DOT_TILE_ROWS + r] = query q . row r, for DOT_TILE_QUERIES
 * queries and DOT_TILE_ROWS rows of floats. */
enum { DOT_TILE_QUERIES = 4, DOT_TILE_ROWS = 2 };
typedef void dot_tile_kernel(const float *const *queries, const float *const *rows, int dim,
                             float *out);
dot_tile_kernel *dot_tile(void);

/* A dot_bytes_kernel computes sums[r] = q . row r exactly, for `count` consecutive rows. |q[i]|
 * must be at most dot_bytes_limit(dim), so that no 32-bit sum overflows. */
typedef void dot_bytes_kernel(const int16_t *q, const int8_t *rows, int dim, int count,
                              int32_t *sums);
dot_bytes_kernel *dot_bytes(void);
int dot_bytes_limit(int dim);

/* === The nearest vectors === */

/* The vectors to search, [count, dim]; each vector is a row. They may have any length, because the
 * length of a vector does not change its cosine. The cosine of a zero vector is 0. A vector with
 * NaN is never found. */
typedef struct nearest_rows {
    const float *values;
    int64_t count;
    int dim;
} nearest_rows;

typedef struct nearest_hit {
    int64_t row;
    float cosine;
} nearest_hit;

/* Finds the k rows that have the highest cosine with query [dim]. hits [k] receives the rows and
 * their cosines, the highest cosine first. If rows have equal cosines, the row with the lower
 * number comes first. Returns the number of hits, which is min(k, count), or less if rows have
 * NaNs. Returns -1 if memory is exhausted. */
int nearest_find(const nearest_rows *rows, const float *query, int k, const vit_executor *executor,
                 nearest_hit *hits);

/* The scale of a row's int8 copy. The row is approximately length * step * bytes, where length is
 * the row's length and bytes are the elements of the copy. The row minus this approximation is a
 * vector whose length is at most `error` times `length`. */
typedef struct nearest_scale {
    float step, error;
} nearest_scale;

/* One part of a set: consecutive rows [count, dim], either as floats or as halves (f16). One of
 * `floats` and `halves` is NULL. The rows may also have int8 copies; otherwise `bytes` and `scales`
 * are NULL. */
typedef struct nearest_part {
    const float *floats;
    const uint16_t *halves;
    int64_t count;
    const int8_t *bytes;         /* [count, dim] */
    const nearest_scale *scales; /* [count] */
} nearest_part;

typedef struct nearest_set {
    const nearest_part *parts;
    int count, dim;
} nearest_set;

/* Finds rows as nearest_find does, but in all parts of a set. Row numbers continue from part to
 * part. If every part has int8 copies, the copies are read first. Because the error of each copy is
 * known, only rows whose cosine may be among the best are then read in full. *rescored receives the
 * number of these rows. The copies do not change the result. */
int nearest_find_in(const nearest_set *set, const float *query, int k, const vit_executor *executor,
                    nearest_hit *hits, int64_t *rescored);

/* Makes the int8 copies of all rows of a part. scales [part->count] and bytes [part->count, dim]
 * receive the copies. If a row has a NaN, or if its squared length is neither 0 nor from 2^-40 to
 * 2^40, the error of its copy is infinite. Every search reads such a row in full. */
void nearest_make_bytes(const nearest_part *part, int dim, const vit_executor *executor,
                        nearest_scale *scales, int8_t *bytes);

/* Finds the nearest rows for each of many queries, as nearest_find does for one query. hits
 * [queries->count, k] receives the hits, and found [queries->count] receives the number of hits for
 * each query. Returns false if memory is exhausted. */
bool nearest_find_each(const nearest_rows *rows, const nearest_rows *queries, int k,
                       const vit_executor *executor, nearest_hit *hits, int *found);

/* Returns a row as floats. Halves are converted to floats in room [dim], memory of the caller, and
 * the function then returns `room`. */
const float *nearest_row(const nearest_set *set, int64_t row, float *room);

/* Groups similar rows. Two rows belong to the same group if their cosine is at least `least`, or if
 * a chain of such pairs connects them. group[i] receives the lowest row number in the group of row
 * i, which is i if no other row belongs to the group. Row numbers continue from part to part. Time
 * grows with the square of the number of rows. Returns false if memory is exhausted. */
bool nearest_groups(const nearest_set *set, float least, const vit_executor *executor,
                    int64_t *group);

/* Returns the class with the most votes of a query's neighbours, as in DINO (arXiv 2104.14294,
 * eval_knn.py). Each of the `count` hits adds exp(cosine / temperature) to the sum of its row's
 * class. row_classes has the class of each row. If several classes have the highest sum, returns
 * the lowest of them. votes [num_classes] receives the sums. */
int nearest_vote(const nearest_hit *hits, int count, const int *row_classes, double temperature,
                 double *votes, int num_classes);

#endif
