/* int8_copy.h - rows of one .npy file in a byte a number, in a file beside it: NAME.i8.
 *
 * In the byte order of this machine: a header, a scale for each row, the rows (nearest.h).
 */
#ifndef INT8_COPY_H
#define INT8_COPY_H

#include <stddef.h>

#include "base/report.h"
#include "numbers/nearest.h"

typedef struct int8_copies {
    const char *program;
    int dim;
    const vit_executor *executor;
} int8_copies;

/* time: of NAME.npy when it was opened; if it has changed since, that is a failure.
 * Maps NAME.i8 and sets part->bytes and part->scales, which are in it; returns what os_unmap takes.
 * Makes it if it is not there, or not of NAME.npy as it is now by its shape, size and time; a line
 * on stderr says so. NULL: it cannot be made. */
void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r);

#endif
