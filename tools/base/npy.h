/* npy.h - reads and writes NumPy's .npy files as float32.
 *
 * Reads versions 1 to 3, C and Fortran order, and up to NPY_MAX_DIMS dimensions. The types are:
 *     <f4 >f4   unchanged                 <f2 >f2   widened exactly
 *     <f8 >f8 <i4 <u4 <i8 <u8 ...         rounded to nearest
 *     |u1 |i1 |b1 <u2 <i2 ...             exact
 *     |V2                                 bfloat16, as JAX saves it: exact
 * All other types are refused (strings, records, pickled objects). The file must have exactly the
 * size that its header implies. Writes version 1, <f4 or <f2, C order, as numpy.save does.
 */
#ifndef NPY_H
#define NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"

#define NPY_MAX_DIMS 8
/* Size of the largest array in bytes; a larger array is refused. */
#define NPY_MAX_BYTES ((uint64_t)1 << 40)

/* An array of floats or, after npy_map_rows, of halves. */
typedef struct npy_array {
    int ndim; /* 0 for a scalar */
    int64_t dims[NPY_MAX_DIMS];
    size_t count; /* product of dims */
    float *data;  /* the elements in C order */
    /* The elements of an <f2 file that npy_map_rows has mapped, in place of `data`; or NULL. */
    const uint16_t *halves;
    void *mapped; /* private: the file that npy_map mapped, and its size */
    size_t mapped_size;
} npy_array;

/* Reads a file. On failure the array is empty. */
bool npy_read(const char *path, npy_array *array, report *r);

/* Reads the contents of a file from memory. `data` need not be aligned, and may be freed
 * afterwards. */
bool npy_parse(const void *data, size_t size, npy_array *array, report *r);

/* Does the same as npy_read, but maps a regular file of <f4 in C order, such as a file of
 * npy_write, instead of copying its elements. Opening a file of gigabytes then takes almost no
 * time, and processes that map the same file share its memory. A process that writes to array->data
 * changes only its own copy. */
bool npy_map(const char *path, npy_array *array, report *r);

/* Does the same as npy_map, but also maps a regular file of <f2 in C order. If it has mapped such a
 * file, it sets array->halves in place of array->data. */
bool npy_map_rows(const char *path, npy_array *array, report *r);

/* Frees an array that was read or mapped. */
void npy_free(npy_array *array);

/* The header of a file, for callers that read the elements piece by piece. */
typedef struct npy_header {
    char kind;     /* 'f', 'i', 'u' or 'b' as in NumPy; 'V' for bfloat16 */
    unsigned size; /* number of bytes of one element */
    bool big_endian;
    bool fortran_order;
    int ndim;
    int64_t dims[NPY_MAX_DIMS];
    size_t offset; /* offset of the first element in the file */
    /* Number of elements. */
    uint64_t count;
} npy_header;

enum { NPY_MAX_HEADER = 12 + 65536 };

/* Reads the header of a file of `size` bytes. `data` holds the first `available` bytes of the file:
 * at least NPY_MAX_HEADER bytes, or the whole file. */
bool npy_read_header(const void *data, size_t available, uint64_t size, npy_header *out, report *r);

/* The type of the written values: <f4, or <f2, for which floats are rounded. */
typedef enum npy_type { NPY_F32, NPY_F16 } npy_type;

/* Writes an array as <f4. Returns false if a write failed (errno then has the reason), or if ndim
 * is not in 0 .. NPY_MAX_DIMS. */
bool npy_write(FILE *file, const float *data, const int64_t *dims, int ndim);

/* Writes only the header. npy_write_values then writes the elements in any number of pieces. The
 * size of a header does not depend on dims[0], so the header can be written again when dims[0] is
 * known. */
bool npy_write_header(FILE *file, npy_type type, const int64_t *dims, int ndim);
bool npy_write_values(FILE *file, npy_type type, const float *values, size_t count);

#endif
