/* container.h - the interface of the container readers to open.c and contents.c.
 *
 * A container reader turns one source into storages (ranges of bytes) and tensors (views of a
 * storage). read.c reads the elements, independently of containers.
 *
 * To add a container, write a source file that opens the container with the functions below.
 * Declare the opening function at the end of this header. Add a row with a probe to the table in
 * open.c, before any probe that also accepts such a file. Name the container in checkpoint.h and in
 * the help of vit-convert. Then add a fixture in tests/make_checkpoints.py, damaged copies of the
 * fixture in test_checkpoint.c, and a fuzzer.
 */
#ifndef CONTAINER_H
#define CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/zip.h"

/* A range of bytes in a source. `bytes` is an entry of a zip archive. Plain bytes of a file have
 * the form of an uncompressed entry without a CRC. */
typedef struct checkpoint_storage {
    size_t file; /* index of its source in the checkpoint's list */
    zip_entry bytes;
    const uint8_t *memory; /* the decoded bytes; NULL if the bytes are read from the source */
    /* True if bytes.crc is the CRC-32 of the bytes. */
    bool has_crc;
    bool big_endian;
} checkpoint_storage;

/* A cache for strided and deflated tensors: the bytes [start, start + size), inflated if necessary,
 * of the storage with index `storage`. A checkpoint has at most one cache. */
typedef struct checkpoint_cache {
    uint8_t *data;
    size_t storage;
    uint64_t start, size;
} checkpoint_cache;

typedef struct checkpoint_list {
    checkpoint_metadata_entry *entries;
    size_t count, capacity;
} checkpoint_list;

struct checkpoint {
    memory_arena memory; /* the memory of all names and texts */
    const char *kind;
    const char *wrapper;
    const char *wanted; /* the path of the state dict to open; NULL for the usual one */
    source *sources;    /* sources[i] reads the file files[i] */
    checkpoint_file_info *files;
    size_t file_count, source_capacity, file_capacity;
    checkpoint_storage *storages;
    size_t storage_count, storage_capacity;
    checkpoint_tensor_info *tensors;
    size_t tensor_count, tensor_capacity;
    /* Pointers to the tensors, sorted by name. */
    const checkpoint_tensor_info **by_name;
    checkpoint_list metadata, skipped;
    const char **choices;
    size_t choice_count, choice_capacity;
    checkpoint_attribute *attributes;
    size_t attribute_count, attribute_capacity, attribute_bytes;
    uint8_t **blocks; /* allocated memory for the decoded bytes of storages */
    size_t block_count, block_capacity;
    uint64_t block_bytes;
    const char **labels;
    size_t label_count, label_capacity;
    checkpoint_cache cache;
    uint8_t *buffer; /* a buffer of CHECKPOINT_BUFFER_SIZE bytes for conversion to float */
};

enum {
    CHECKPOINT_BUFFER_SIZE = 65536,
    CHECKPOINT_MAX_TENSORS = 32768,
    CHECKPOINT_MAX_METADATA = 1000,
    CHECKPOINT_MAX_CHOICES = 100,
    CHECKPOINT_MAX_ATTRIBUTES = 20000,
    CHECKPOINT_MAX_ATTRIBUTE_BYTES = 2 << 20,
};

/* === For the container readers === */

/* Adds a storage. *index receives its index. */
bool checkpoint_add_storage(checkpoint *c, const checkpoint_storage *storage, size_t *index,
                            report *r);

/* Adds a tensor. Checks its name, dimensions and strides, and that every element lies inside the
 * storage. The storage has `available` elements of the tensor's dtype. The function fills in
 * tensor->count. The caller must set the strides, and must check that ndim <=
 * CHECKPOINT_MAX_DIMS. */
bool checkpoint_add_tensor(checkpoint *c, const checkpoint_tensor_info *tensor, uint64_t available,
                           report *r);
/* Sets the strides of a tensor whose elements are stored in row-major order without gaps. */
void checkpoint_contiguous_strides(checkpoint_tensor_info *tensor);

/* Add an entry to a list of checkpoint.h, and copy the texts. Above a limit, they add nothing. */
bool checkpoint_add_metadata(checkpoint *c, const char *key, const char *value, report *r);
bool checkpoint_add_skipped(checkpoint *c, const char *name, const char *reason, report *r);
bool checkpoint_add_label(checkpoint *c, const char *text, report *r);
bool checkpoint_add_choice(checkpoint *c, const char *path, report *r);

/* Adds an attribute, and copies all three texts. An attribute is left out if it is too long or
 * unprintable, or if there are too many attributes. */
bool checkpoint_add_attribute(checkpoint *c, const char *module, const char *name,
                              const char *value, report *r);

/* Allocates memory for the decoded bytes of a storage. checkpoint_close frees the memory. All
 * blocks together have at most 32 times the size of the files, plus 16 MiB. Without this limit, a
 * hostile file could have one part decoded many times. */
uint8_t *checkpoint_add_block(checkpoint *c, uint64_t size, report *r);

/* Opens the file `name` in the folder of the source number `file`, unless it is open already.
 * *index receives the index of the file's source. The name must not lead out of the folder. */
bool checkpoint_open_beside(checkpoint *c, size_t file, const char *name, size_t *index, report *r);

/* === For open.c === */

/* Sorts the tensors by name. Refuses an empty list, two tensors with one name, and tensors that are
 * much larger than the stored bytes. Call this function after adding the last tensor. */
bool checkpoint_index_names(checkpoint *c, report *r);

/* === For rename_tensors === */

/* Renames a tensor. Afterwards call checkpoint_renamed, which refuses two tensors with one name;
 * until then checkpoint_find does not work. */
bool checkpoint_rename(checkpoint *c, size_t i, const char *name, report *r);
bool checkpoint_renamed(checkpoint *c, report *r);

/* === For checkpoints whose layout is found by structure (layout/structure.h) === */

/* Adds a storage of computed values, as little-endian f32. The values are copied. */
bool checkpoint_add_values(checkpoint *c, const char *name, const float *values, size_t count,
                           size_t *storage, report *r);

/* Replaces the list of tensors by views of the same storages with other names. Copies the texts;
 * pointers to the old tensors become invalid. On failure the list is unchanged. */
bool checkpoint_replace(checkpoint *c, const checkpoint_tensor_info *tensors, size_t count,
                        report *r);

/* === The readers: each reads source number `file` into c === */

/* Opens the source number `file`, which may be a container of any kind. Containers that hold
 * another container call this function. */
bool checkpoint_open_inside(checkpoint *c, size_t file, report *r);

bool safetensors_open(checkpoint *c, size_t file, report *r);
bool torch_zip_open(checkpoint *c, size_t file, report *r);
bool torch_legacy_open(checkpoint *c, size_t file, report *r);
bool torch_pickle_open(checkpoint *c, size_t file, report *r);
bool tar_open(checkpoint *c, size_t file, report *r);
bool npz_open(checkpoint *c, size_t file, report *r);
bool ggml_open(checkpoint *c, size_t file, report *r);
bool onnx_open(checkpoint *c, size_t file, report *r);
bool gguf_open(checkpoint *c, size_t file, report *r);

/* === For both of ggml's containers === */

/* Finds the dtype for one of ggml's type numbers. Returns false for an unsupported type. */
bool ggml_find_type(uint32_t type, checkpoint_dtype *dtype);

/* Computes the size of the tensor's data in bytes from the tensor's dims and dtype. The name is for
 * messages. */
bool ggml_data_size(const checkpoint_tensor_info *t, uint64_t *size, report *r);
/* Adds a tensor whose data are the `size` bytes at the offset `at` of the source number `file`. */
bool ggml_add_tensor(checkpoint *c, size_t file, uint64_t at, uint64_t size,
                     checkpoint_tensor_info *t, report *r);

/* Decodes a block of Q4_K, Q5_K or Q6_K to its 256 values. */
void gguf_unpack_block(checkpoint_dtype dtype, const uint8_t *raw, float *values);

#endif
