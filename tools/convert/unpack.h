/* unpack.h - turns a .vit file back into safetensors with timm's names and shapes. The bits of
 * weights do not change, except that int8 and int4 become f32 with the same values. This header
 * also declares the writers of a C array and of a new head. */
#ifndef UNPACK_H
#define UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct unpack_result {
    size_t tensors;
    /* Number of parameters in the tensors, and size of the written file in bytes. */
    uint64_t parameters, bytes;
    /* True if the model has a text encoder. The text encoder is not written. */
    bool has_text;
} unpack_result;

bool unpack_to_safetensors(const char *input, const char *output, bool quiet, unpack_result *result,
                           report *r);

/* c_array_write writes a .vit file as a C header with one constant array, for programs without
 * files. Programs use the array in place, in flash. */

typedef struct c_array_result {
    char name[64];  /* name of the model in C; the array is called NAME_data */
    uint64_t bytes; /* bytes of the model */
    /* Memory in bytes that one image needs on the plain C tier, in the normal mode and in the
     * low-memory mode. */
    uint64_t workspace, low_memory;
} c_array_result;

bool c_array_write(const char *input, const char *output, bool quiet, c_array_result *result,
                   report *r);

/* head_write writes a .vit file with the backbone of another file, bit for bit, and a new head in
 * f32. The backbone is everything but the head. */

typedef struct head_contents {
    int num_classes;
    /* The weights [num_classes, vit_embedding_dim + 1]. The last value of a row is the bias of the
     * class. */
    const double *weights;
    bool several; /* true if any number of classes may be right for one photo (sigmoid) */
    const char *const *labels;
    const char *provenance;
    /* The section "learned", which stores the photos that the head has learned; its size in bytes,
     * and the number of photos. */
    const void *learned;
    size_t learned_size, num_learned;
} head_contents;

/* Writes the file `output`. *bytes receives its size. */
bool head_write(const vit_model *backbone, const head_contents *head, const char *output,
                uint64_t *bytes, report *r);

/* Returns the section "learned" of an open model; NULL if the model has none. *size receives the
 * size of the section in bytes, and *num_learned the number of its photos. */
const unsigned char *head_learned(const vit_model *model, size_t *size, size_t *num_learned);

#endif
