/* nearest.h - finds the nearest of many vectors by their cosine. It is exact, because it compares
 * every vector.
 *
 * The results have the same bits on every CPU and for any number of threads (see dot_rows). A
 * single query is as fast as memory delivers the vectors.
 *
 * tools/numbers owns arithmetic on embeddings: PCA, attention rollout, nearest neighbours, learning
 * classes, average precision, running means; it may include base.
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
 * The code is plain C with vectors of 8 floats, and is also compiled for AVX2. Each of 8 lanes has
 * a chain of additions, padded with zeros at the end; then a tree adds up the lanes.
 */

/* Asks for dots[r] = query . row r and squares[r] = row r . row r, for `count` rows of floats or
 * halves. Halves are widened exactly. The rows are consecutive. */
typedef struct dot_scan {
    const float *query;
    const void *rows;
    int dim, count;
    float *dots, *squares;
} dot_scan;

typedef void dot_rows_kernel(const dot_scan *scan);
dot_rows_kernel *dot_rows(bool halves);

/* A dot_tile_kernel computes out[q * DOT_TILE_ROWS + r] = query q . row r. */
enum { DOT_TILE_QUERIES = 4, DOT_TILE_ROWS = 2 };
typedef void dot_tile_kernel(const float *const *queries, const float *const *rows, int dim,
                             float *out);
dot_tile_kernel *dot_tile(void);

/* Computes sums[r] = q . row r, exactly, for count consecutive rows. No 32-bit sum overflows,
 * because |q[i]| must be at most dot_bytes_limit(dim). */
typedef void dot_bytes_kernel(const int16_t *q, const int8_t *rows, int dim, int count,
                              int32_t *sums);
dot_bytes_kernel *dot_bytes(void);
int dot_bytes_limit(int dim);

/* === The nearest === */

/* Vectors [count, dim]. The lengths do not change the cosine. The cosine of a zero vector is 0; a
 * vector with NaN matches nothing. */
typedef struct nearest_rows {
    const float *values;
    int64_t count;
    int dim;
} nearest_rows;

typedef struct nearest_hit {
    int64_t row;
    float cosine;
} nearest_hit;

/* Finds the k rows with the highest cosine to one vector [dim], best first; if cosines are equal,
 * the lower row comes first. Returns the number of hits: min(k, count), or fewer if there are NaNs;
 * -1 if memory is exhausted. */
int nearest_find(const nearest_rows *rows, const float *query, int k, const vit_executor *executor,
                 nearest_hit *hits);

/* The scale of the int8 copy of a row. The difference between the row and (its length * step *
 * bytes) is a vector whose length is at most `error` times that of the row. */
typedef struct nearest_scale {
    float step, error;
} nearest_scale;

/* Consecutive rows [count, dim], as floats or as halves. The int8 copies of the rows may be
 * NULL. */
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

/* Finds rows like nearest_find, but in all parts. Row numbers continue from part to part. If every
 * part has int8 copies, the copies are read first. The error of each copy is known; only rows whose
 * cosine may be among the best are read in full. *rescored is the number of these rows. The result
 * does not change. */
int nearest_find_in(const nearest_set *set, const float *query, int k, const vit_executor *executor,
                    nearest_hit *hits, int64_t *rescored);

/* Makes the copies of all rows of a part: scales [count], bytes [count, dim]. A row has an infinite
 * error, and is always read, if it has a NaN or if its square overflows a float. */
void nearest_make_bytes(const nearest_part *part, int dim, const vit_executor *executor,
                        nearest_scale *scales, int8_t *bytes);

/* Finds the nearest rows for each of many queries: hits [queries->count, k], found
 * [queries->count]. Returns false if memory is exhausted. */
bool nearest_find_each(const nearest_rows *rows, const nearest_rows *queries, int k,
                       const vit_executor *executor, nearest_hit *hits, int *found);

/* Returns a row as floats; halves are widened into room [dim]. */
const float *nearest_row(const nearest_set *set, int64_t row, float *room);

/* Groups rows that are connected by pairs with at least this cosine. group[i] is the lowest row of
 * row i's group, or i if the row is alone. Row numbers continue from part to part. Time grows with
 * the square of the number of rows. Returns false if memory is exhausted. */
bool nearest_groups(const nearest_set *set, float least, const vit_executor *executor,
                    int64_t *group);

/* Returns the class with the most votes of a query's neighbours, as in DINO (arXiv 2104.14294,
 * eval_knn.py). Each of `count` hits adds exp(cosine / temperature) to the class of its row; if
 * sums are equal, the lower class wins. votes [num_classes] receives the sums. */
int nearest_vote(const nearest_hit *hits, int count, const int *row_classes, double temperature,
                 double *votes, int num_classes);

#endif
