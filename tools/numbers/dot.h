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

/* dots[r] = query . row r, squares[r] = row r . row r, for count rows of floats, or of halves,
 * which are widened exactly. The rows follow each other. */
typedef struct dot_scan {
    const float *query;
    const void *rows;
    int dim, count;
    float *dots, *squares;
} dot_scan;

typedef void dot_rows_kernel(const dot_scan *scan);
dot_rows_kernel *dot_rows(bool halves);

/* out[q * DOT_TILE_ROWS + r] = query q . row r */
enum { DOT_TILE_QUERIES = 4, DOT_TILE_ROWS = 2 };
typedef void dot_tile_kernel(const float *const *queries, const float *const *rows, int dim,
                             float *out);
dot_tile_kernel *dot_tile(void);

/* sums[r] = q . row r, exactly, for count rows that follow each other. |q[i]| is at most
 * dot_bytes_limit(dim), so that no sum of 32 bits overflows on the way. */
typedef void dot_bytes_kernel(const int16_t *q, const int8_t *rows, int dim, int count,
                              int32_t *sums);
dot_bytes_kernel *dot_bytes(void);
int dot_bytes_limit(int dim);

#endif
