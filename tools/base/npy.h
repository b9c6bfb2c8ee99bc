/* npy.h - reads and writes NumPy's .npy files as float32.
 *
 * Reads versions 1 to 3, C and Fortran order, up to NPY_MAX_DIMS dimensions, of
 *     <f4 >f4   unchanged                 <f2 >f2   widened exactly
 *     <f8 >f8 <i4 >i4 <i8 >i8             rounded to nearest
 *     |u1 |i1 |b1 <u2 <i2 ...             exact
 *     |V2                                 bfloat16, as JAX saves it: exact
 * Nothing else (no strings, no records, no pickled objects). The file must have exactly the size
 * that its header announces. Writes version 1, <f4 or <f2, C order, as numpy.save does.
 */
#ifndef NPY_H
#define NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"

#define NPY_MAX_DIMS  8
#define NPY_MAX_BYTES ((uint64_t)1 << 40) /* largest array; a file above it is refused */

typedef struct npy_array {
    int ndim; /* 0: a scalar                                      */
    int64_t dims[NPY_MAX_DIMS];
    size_t count;           /* product of dims                                  */
    float *data;            /* C order                                          */
    const uint16_t *halves; /* of npy_map_rows: instead of data                 */
    void *mapped;           /* private, with its size: the file, of npy_map     */
    size_t mapped_size;
} npy_array;

/* On failure array is empty. */
bool npy_read(const char *path, npy_array *array, report *r);

/* The same for a file already in memory; data need not be aligned and may be freed afterwards. */
bool npy_parse(const void *data, size_t size, npy_array *array, report *r);

/* The same as npy_read, but a regular file of <f4 in C order, as npy_write writes it, is mapped
 * instead of copied: opening a file of gigabytes costs nothing, and its pages are shared. Writing
 * to data changes the copy of this process alone. */
bool npy_map(const char *path, npy_array *array, report *r);

/* The same, but a regular file of <f2 is mapped as well: then halves are set instead of data. */
bool npy_map_rows(const char *path, npy_array *array, report *r);

/* Whatever it was read or mapped by. */
void npy_free(npy_array *array);

/* What precedes the elements, for readers that stream them. */
typedef struct npy_header {
    char kind;     /* 'f', 'i', 'u', 'b', or 'V' for bfloat16          */
    unsigned size; /* bytes of one element                             */
    bool big_endian;
    bool fortran_order;
    int ndim;
    int64_t dims[NPY_MAX_DIMS];
    size_t offset; /* of the first element                             */
    uint64_t count;
} npy_header;

enum { NPY_MAX_HEADER = 12 + 65536 };

/* data holds the first `available` bytes of a file of `size` bytes: at least NPY_MAX_HEADER, unless
 * the file is shorter. */
bool npy_read_header(const void *data, size_t available, uint64_t size, npy_header *out, report *r);

/* How values are written: as <f4, or rounded to <f2. */
typedef enum npy_type { NPY_F32, NPY_F16 } npy_type;

/* In <f4. False: a write failed (errno says why), or ndim is not 0 .. NPY_MAX_DIMS. */
bool npy_write(FILE *file, const float *data, const int64_t *dims, int ndim);

/* The same in pieces: what precedes the elements, then any number of them at a time. A header has
 * the same size whatever dims[0] is, so that it can be written again once that is known. */
bool npy_write_header(FILE *file, npy_type type, const int64_t *dims, int ndim);
bool npy_write_values(FILE *file, npy_type type, const float *values, size_t count);

#endif
