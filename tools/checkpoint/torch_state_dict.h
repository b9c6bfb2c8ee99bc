/* torch_state_dict.h - what both forms of PyTorch's files share: a pickle that describes the
 * tensors, and storages that hold their elements.
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

typedef struct torch_class {
    const char *name;                /* of the storage class and of the dtype */
    const char *dtype_name;
    uint8_t size;
    bool supported;
    checkpoint_dtype dtype;
} torch_class;

/* A storage as a tensor sees it: which bytes, and where its element 0 is in them. */
typedef struct torch_storage {
    const torch_class *class;
    const char *key;
    uint64_t base, count;            /* in elements of the class; base > 0 for a legacy view */
    uint64_t root_count;             /* elements of the whole */
} torch_storage;

typedef struct torch_reader torch_reader;

/* Adds a storage to the checkpoint unless it is there already; *index becomes its place. */
typedef bool torch_place(torch_reader *t, const char *name, const torch_storage *storage,
                         size_t *index);

struct torch_reader {
    checkpoint *c;
    size_t file;
    report *report;
    torch_place *place;
    void *form;                      /* for place: the torch_zip or torch_legacy */
    pickle_document pickle;
    bool torchscript;

    size_t steps;                    /* private */
    const pickle_value *module;      /* private: an nn.Module was met on the way */
};

/* Finds the state dict in t->pickle and adds its tensors. */
bool torch_read_state_dict(torch_reader *t);

/* A ('storage', class, key, device, elements) id. name is the tensor's, for messages. */
bool torch_read_storage(torch_reader *t, const char *name, const pickle_value *value,
                        torch_storage *storage);

/* Item i of a tuple or list; NULL: there is none. */
const pickle_value *torch_item(const pickle_value *sequence, size_t i);

#endif
