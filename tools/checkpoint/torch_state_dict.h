/* torch_state_dict.h - reads the tensors of PyTorch's zip and legacy files. A pickle describes the
 * tensors, and storages hold their elements.
 */
#ifndef TORCH_STATE_DICT_H
#define TORCH_STATE_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/container.h"
#include "checkpoint/pickle.h"

#define TORCH_MAX_NAME 1024
#define TORCH_SHOWN    320 /* largest length of an attribute or an option as text, in bytes */

typedef struct torch_class {
    const char *name; /* name of the storage class, such as "FloatStorage" */
    const char *dtype_name;
    uint8_t size;
    bool supported;
    checkpoint_dtype dtype;
} torch_class;

/* A storage as a tensor uses it: its class, its key, and the range of elements that the tensor
 * sees. */
typedef struct torch_storage {
    const torch_class *class;
    const char *key;
    /* Index of the first element in the whole storage, and number of elements. In a legacy file,
     * `base` is above 0 if this storage is a view of the whole storage. */
    uint64_t base, count;
    uint64_t root_count; /* number of elements of the whole storage */
    /* The bytes of the storage if the pickle contains them; otherwise NULL. */
    const checkpoint_storage *found;
} torch_storage;

typedef struct torch_reader torch_reader;

/* Adds a storage to the checkpoint, unless the checkpoint has it already. *index receives the index
 * of the storage. */
typedef bool torch_place(torch_reader *t, const char *name, const torch_storage *storage,
                         size_t *index);

struct torch_reader {
    checkpoint *c;
    size_t file;
    report *report;
    torch_place *place;
    void *form; /* the argument of `place`: a torch_zip or a torch_legacy */
    pickle_document pickle;
    const source *source; /* the source of the pickle and of its long texts */
    bool torchscript;
    /* Adds the facts that the code of a TorchScript class states about a module. NULL outside
     * TorchScript. */
    bool (*describe)(torch_reader *t, const char *module, const char *class);

    bool arrays;  /* private: true if NumPy's arrays count as tensors */
    size_t steps; /* private: number of visited values */
};

/* Finds the state dict in t->pickle and adds its tensors. */
bool torch_read_state_dict(torch_reader *t);

/* Reads a persistent id ('storage', class, key, device, elements). `name` is the name of the tensor
 * for messages. */
bool torch_read_storage(torch_reader *t, const char *name, const pickle_value *value,
                        torch_storage *storage);

/* === Shared functions of torch_*.c === */

/* Counts a visited value. Returns false if there were too many. */
bool torch_step(torch_reader *t);

/* Returns item i of a tuple or list; NULL if there is none. */
const pickle_value *torch_item(const pickle_value *sequence, size_t i);
/* Returns a part of a PICKLE_CALL, such as PICKLE_CALLABLE; NULL if the value is no call or lacks
 * this part. */
const pickle_value *torch_part(const pickle_value *call, size_t part);

bool torch_is_tensor(const torch_reader *t, const pickle_value *value);
/* Returns the dict to search: the value itself, the contents of a dict subclass, or the attributes
 * of a TorchScript module; NULL for everything else. */
const pickle_value *torch_as_dict(const pickle_value *value);
/* If the value is an object that was built from a dict of attributes, returns this dict. Returns
 * NULL for other values. */
const pickle_value *torch_as_object(const pickle_value *value);
/* Does the same as torch_as_object, but returns NULL for anything except an nn.Module. */
const pickle_value *torch_as_module(const pickle_value *value);

/* Appends a key to `name`, a buffer of TORCH_MAX_NAME bytes. name_size bytes of the buffer are in
 * use. *size receives the new number of bytes in use. */
bool torch_append_name(torch_reader *t, char *name, size_t name_size, const pickle_value *key,
                       size_t *size);
/* Adds all tensors in a value and in the values that it contains. `name` is the name of the
 * value. */
bool torch_flatten(torch_reader *t, char *name, size_t name_size, const pickle_value *value,
                   int depth);

/* Adds the tensor that a call such as torch._utils._rebuild_tensor_v2 makes. */
bool torch_add_call(torch_reader *t, const char *name, const pickle_value *value);
/* Reads the dimensions and the strides of a tensor into *info. */
bool torch_read_sizes(torch_reader *t, checkpoint_tensor_info *info, const pickle_value *sizes,
                      const pickle_value *strides);

/* Returns the state dict of a pickle; NULL on failure. */
const pickle_value *torch_choose(torch_reader *t);

/* Adds the names of the classes, if this entry of a dict contains them and no earlier entry did. */
bool torch_add_labels(torch_reader *t, const pickle_value *key, const pickle_value *value);

/* torch_module.c: reads a module that was pickled whole, and its attributes. */
bool torch_flatten_module(torch_reader *t, char *name, size_t name_size, const pickle_value *module,
                          int depth);
bool torch_add_attributes(torch_reader *t, const char *module, const pickle_value *value);
/* Writes a number as text. */
void torch_show_number(double number, char *text, size_t size);
/* Writes a list of numbers such as "(16, 16)". Returns false if the value is not a short list of
 * numbers. */
bool torch_show_numbers(const pickle_value *value, char text[TORCH_SHOWN]);

/* torch_module.c: adds the facts that the code of a TorchScript class states about a module of this
 * class. */
bool torch_describe_code(torch_reader *t, const char *module, const char *class, const char *code);
/* Adds the constants in t->pickle as tensors. The operator that uses a constant gives the tensor
 * its name. */
bool torch_add_constants(torch_reader *t, const char *code);

/* torch_module.c: recognises and reads an array of NumPy. */
bool torch_is_array(const pickle_value *value);
bool torch_add_array(torch_reader *t, const char *name, const pickle_value *value);

/* Bytes that a pickle contains. */
typedef struct torch_bytes {
    /* A decoded copy of the bytes; NULL if the bytes lie in the source at `offset`. */
    uint8_t *memory;
    uint64_t offset, size;
} torch_bytes;

bool torch_read_bytes(torch_reader *t, const char *name, const pickle_value *value,
                      torch_bytes *bytes);

/* torch_files.c: recognises and reads a storage that was pickled as the bytes of a separate
 * file. */
bool torch_is_nested(const pickle_value *value);
bool torch_read_nested(torch_reader *t, const char *name, const pickle_value *value,
                       torch_storage *storage, checkpoint_storage *found);

#endif
