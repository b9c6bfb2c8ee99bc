/* npy.h - read and write NumPy's .npy files as float32.
 *
 * Reads versions 1 to 3, C and Fortran order, up to NPY_MAX_DIMS dimensions, of
 *     <f4 >f4   taken as they are         <f2 >f2   widened exactly
 *     <f8 >f8 <i4 >i4 <i8 >i8             rounded to nearest
 *     |u1 |i1 |b1 <u2 <i2 ...             exact
 * Nothing else (no strings, no records, no pickled objects). The file must have exactly the size
 * that its header announces. Writes version 1, <f4, C order, as numpy.save does.
 */
#ifndef NPY_H
#define NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NPY_MAX_DIMS 8
#define NPY_MAX_BYTES ((uint64_t)1 << 40)   /* largest array; a file above it is refused */

typedef struct npy_array {
    int ndim;                     /* 0: a scalar                                      */
    int64_t dims[NPY_MAX_DIMS];
    size_t count;                 /* product of dims                                  */
    float *data;                  /* C order; free with npy_free                      */
} npy_array;

/* On failure error says what was found and array is empty. */
bool npy_read(const char *path, npy_array *array, char *error, size_t error_size);

/* The same for a file already in memory; data need not be aligned and may be freed afterwards. */
bool npy_parse(const void *data, size_t size, npy_array *array, char *error, size_t error_size);

void npy_free(npy_array *array);

/* False where a write failed (errno says why) or ndim is not 0 .. NPY_MAX_DIMS. */
bool npy_write(FILE *file, const float *data, const int64_t *dims, int ndim);

#endif
