/* unpack.h - turns a .vit file back into safetensors: timm's names and shapes, every weight with
 * the bits that the file holds; int8 and int4 as the f32 that they stand for. */
#ifndef UNPACK_H
#define UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

typedef struct unpack_result {
    size_t tensors;
    uint64_t parameters, bytes; /* of the file written */
} unpack_result;

bool unpack_to_safetensors(const char *input, const char *output, bool quiet, unpack_result *result,
                           report *r);

/* A .vit file as a C header with one constant array, for programs that have no files: it is used
 * in place, in flash. */

typedef struct c_array_result {
    char name[64];                  /* of the array: NAME_data */
    uint64_t bytes;                 /* of the model */
    uint64_t workspace, low_memory; /* of a session for one image on the plain C tier */
} c_array_result;

bool c_array_write(const char *input, const char *output, bool quiet, c_array_result *result,
                   report *r);

#endif
