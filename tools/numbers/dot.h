/* dot.h - dot products of a query with many rows, in a fixed order of additions: the same bits on
 * every CPU. What nearest.h is made of.
 *
 * Plain C in vectors of 8 floats, compiled for AVX2 as well: one chain of additions for each of 8
 * lanes, the last lanes filled up with zeros, then a tree.
 */
#ifndef DOT_H
#define DOT_H

#include <stdbool.h>
#include <stdint.h>

enum { DOT_ROWS = 4, DOT_TILE_QUERIES = 4, DOT_TILE_ROWS = 2 };

/* dots[r] = q . row r, squares[r] = row r . row r, for DOT_ROWS rows of floats, or of halves, which
 * are widened exactly. */
typedef void dot_rows_kernel(const float *q, const void *const *rows, int dim, float *dots,
                             float *squares);
dot_rows_kernel *dot_rows(bool halves);

/* out[q * DOT_TILE_ROWS + r] = query q . row r */
typedef void dot_tile_kernel(const float *const *queries, const float *const *rows, int dim,
                             float *out);
dot_tile_kernel *dot_tile(void);

/* sums[r] = q . row r, exactly, for DOT_ROWS rows. |q[i]| is at most dot_bytes_limit(dim), so that
 * no sum of 32 bits overflows on the way. */
typedef void dot_bytes_kernel(const int16_t *q, const int8_t *const *rows, int dim, int64_t *sums);
dot_bytes_kernel *dot_bytes(void);
int dot_bytes_limit(int dim);

#endif
