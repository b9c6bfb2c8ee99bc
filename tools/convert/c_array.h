/* c_array.h - a .vit file as a C header with one constant array, for programs that have no files:
 * it is used in place, in flash. */
#ifndef C_ARRAY_H
#define C_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"

typedef struct c_array_result {
    char name[64];                  /* of the array: NAME_data */
    uint64_t bytes;                 /* of the model */
    uint64_t workspace, low_memory; /* of a session for one image on the plain C tier */
} c_array_result;

bool c_array_write(const char *input, const char *output, bool quiet, c_array_result *result,
                   report *r);

#endif
