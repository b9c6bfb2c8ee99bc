/* unpack.h - turns a .vit file back into safetensors with timm's names and shapes. Weights keep
 * their bits. Weights of int8 and int4 become f32 with the same values. */
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
    uint64_t parameters, bytes; /* of the written file */
    bool has_text;              /* the model has a text encoder, which is left out */
} unpack_result;

bool unpack_to_safetensors(const char *input, const char *output, bool quiet, unpack_result *result,
                           report *r);

/* Writes a .vit file as a C header with one constant array, for programs without files. The array
 * is used in place, in flash. */

typedef struct c_array_result {
    char name[64];                  /* of the array: NAME_data */
    uint64_t bytes;                 /* bytes of the model */
    uint64_t workspace, low_memory; /* bytes for one image on the plain C tier */
} c_array_result;

bool c_array_write(const char *input, const char *output, bool quiet, c_array_result *result,
                   report *r);

/* Writes a .vit file with the backbone of another file, bit for bit, and a new head in f32. */

typedef struct head_contents {
    int num_classes;
    const double *weights; /* [num_classes, vit_embedding_dim + 1], a bias last */
    bool several;          /* any number of classes may be right: sigmoid       */
    const char *const *labels;
    const char *provenance;
    const void *learned; /* section "learned", its size in bytes, and the number of its photos */
    size_t learned_size, num_learned;
} head_contents;

/* Writes the file. *bytes becomes the size of the file. */
bool head_write(const vit_model *backbone, const head_contents *head, const char *output,
                uint64_t *bytes, report *r);

/* Returns the section "learned" of an open model, and its size in *size; NULL if the model has
 * none. */
const unsigned char *head_learned(const vit_model *model, size_t *size, size_t *num_learned);

#endif
