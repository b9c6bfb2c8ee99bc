/* checkpoint.h - reads the tensors of a checkpoint file as float32, from any supported container.
 *
 *     checkpoint *c;
 *     report r = report_make();
 *     if (!checkpoint_open(path, &c, &r)) { puts(r.text); return 1; }
 *     const checkpoint_tensor_info *t = checkpoint_find(c, "cls_token");
 *     if (t && !checkpoint_read(c, t, 0, t->count, destination, &r)) { ... }
 *     checkpoint_close(c);
 *
 * Containers, recognised by their content, never by their suffix:
 *     safetensors         one file, or shards listed by a *.safetensors.index.json
 *     PyTorch zip         torch.save since 1.6, TorchScript archives
 *     PyTorch legacy      torch.save before 1.6
 *     pickle              a dict or list of tensors or of NumPy arrays, by Python's pickle.dump
 *     npz                 numpy.savez, savez_compressed
 *     ONNX                the graph of a plain ViT, with data in the file or beside it
 *     vit.cpp, GGUF       f32, f16, bf16, q4_0 to q8_0, q4_K to q6_K
 *     tar                 an archive of one file, which is one of the above
 *     a folder            a folder with model.safetensors.index.json, model.safetensors or
 *                         pytorch_model.bin
 *
 * PyTorch's files may hold a state dict or a whole module (torch.save(model)). The tensors of a
 * module get the names that its state_dict() would give them.
 *
 * Nothing in a file is ever executed. Every function that can fail returns false; its report names
 * the file, what was expected and what was found. A checkpoint has its own buffers: use it from one
 * thread at a time. Different checkpoints are independent.
 *
 * tools/checkpoint owns the containers: PyTorch, safetensors, npz, ONNX, vit.cpp, GGUF; their
 * tensors as float; it may include base.
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "base/text.h"

#define CHECKPOINT_MAX_DIMS 8

typedef struct checkpoint checkpoint;

typedef enum checkpoint_dtype {
    CHECKPOINT_F32,
    CHECKPOINT_F16,
    CHECKPOINT_BF16,
    CHECKPOINT_F64,
    CHECKPOINT_I64,
    CHECKPOINT_I32,
    CHECKPOINT_I16,
    CHECKPOINT_I8,
    CHECKPOINT_U8,
    CHECKPOINT_BOOL,
    CHECKPOINT_Q4_0, /* Q4_0 .. Q8_0 are ggml's types with 32 elements in a block. */
    CHECKPOINT_Q4_1,
    CHECKPOINT_Q5_0,
    CHECKPOINT_Q5_1,
    CHECKPOINT_Q8_0,
    CHECKPOINT_Q4_K, /* Q4_K .. Q6_K are ggml's types with 256 elements in a block. */
    CHECKPOINT_Q5_K,
    CHECKPOINT_Q6_K,
    CHECKPOINT_DTYPE_COUNT,
} checkpoint_dtype;

typedef struct checkpoint_tensor_info {
    const char *name;        /* the key in the state dict; '.' joins the keys of nested dicts */
    const char *stored_name; /* the name before rename_tensors was called */
    /* The place of the tensor in the file, as the container names it: a shard, a zip entry or a
     * storage key. */
    const char *container_name;
    checkpoint_dtype dtype; /* stored type; checkpoint_read always converts to float */
    int ndim;               /* 0 (one element) .. CHECKPOINT_MAX_DIMS */
    int64_t dims[CHECKPOINT_MAX_DIMS];
    /* The distance in the storage between neighbours along each dimension, in elements. It is 0
     * along a dimension whose elements are all the same stored element. */
    int64_t strides[CHECKPOINT_MAX_DIMS];
    int64_t count;          /* product of dims */
    size_t storage;         /* private to the reader */
    int64_t storage_offset; /* in elements; private to the reader */
} checkpoint_tensor_info;

typedef struct checkpoint_file_info {
    const char *path;
    uint64_t size;
} checkpoint_file_info;

typedef struct checkpoint_metadata_entry {
    const char *key;   /* a name such as "format", "epoch" or "args.model" */
    const char *value; /* the value as text */
} checkpoint_metadata_entry;

/* An attribute of a module, from a file that holds a whole model with its modules. */
typedef struct checkpoint_attribute {
    /* Path of the module, as in the names of its tensors; "" for the whole model. */
    const char *module;
    /* Name such as "num_heads" or "config.num_heads"; "class" for the class of the module. */
    const char *name;
    const char *value; /* the value as text: "12", "1e-05", "true", "(16, 16)" */
    /* The line of an author's code that gives the value, such as "model.py:41: nn.ReLU()". NULL if
     * the value is not from code. */
    const char *where;
} checkpoint_attribute;

/* === Open and close === */

/* Opens a file or folder and checks its whole structure. On failure *out is NULL. */
bool checkpoint_open(const char *path, checkpoint **out, report *r);

/* Does the same as checkpoint_open, but chooses the state dict at the path `weights` if a file has
 * several. If `weights` is NULL, opens the usual state dict. */
bool checkpoint_open_weights(const char *path, const char *weights, checkpoint **out, report *r);

/* Opens a file that is in memory. The memory must outlive the checkpoint. `name` is used only in
 * messages. Sharded checkpoints cannot be opened in this way. */
bool checkpoint_open_memory(const char *name, const void *data, size_t size, checkpoint **out,
                            report *r);

/* Closes the checkpoint and frees its memory. c may be NULL. */
void checkpoint_close(checkpoint *c);

/* === What is inside === */

/* Returns "safetensors", "PyTorch zip", "PyTorch legacy", "TorchScript", "pickle", "npz", "ONNX",
 * "vit.cpp" or "GGUF". */
const char *checkpoint_kind(const checkpoint *c);

/* Returns the path of the chosen state dict within the checkpoint, such as "model_ema" or
 * "state_dict.module"; "" for the whole file. */
const char *checkpoint_wrapper(const checkpoint *c);

/* Return the paths of the state dicts in a file with several, such as "model" and "model_ema".
 * checkpoint_wrapper returns the chosen path. The count is 0 if the file has only one. */
size_t checkpoint_choice_count(const checkpoint *c);
const char *checkpoint_choice(const checkpoint *c, size_t i);

/* Return tensors in the order of the file. checkpoint_find is a binary search, and returns NULL if
 * no tensor has the name. */
size_t checkpoint_count(const checkpoint *c);
const checkpoint_tensor_info *checkpoint_tensor(const checkpoint *c, size_t i);
const checkpoint_tensor_info *checkpoint_find(const checkpoint *c, const char *name);

/* Return the files that were read. An index of shards precedes the shards. A converted file records
 * their hashes. */
size_t checkpoint_file_count(const checkpoint *c);
const checkpoint_file_info *checkpoint_file(const checkpoint *c, size_t i);

/* Return the tensors that cannot be converted (quantised, complex, float8), as entries of name and
 * reason: `key` is the name of the tensor, and `value` is the reason. */
size_t checkpoint_skipped_count(const checkpoint *c);
const checkpoint_metadata_entry *checkpoint_skipped(const checkpoint *c, size_t i);

/* Return the __metadata__ of safetensors, or the strings and numbers next to a PyTorch state
 * dict. */
size_t checkpoint_metadata_count(const checkpoint *c);
const checkpoint_metadata_entry *checkpoint_metadata(const checkpoint *c, size_t i);

/* Return the attributes of a whole module or a TorchScript archive, module by module. The first
 * attribute of a module is "class". The code of TorchScript, or an ONNX graph, adds further
 * attributes: "code.activation" (gelu, gelu_tanh, quick_gelu, squared_relu, or PyTorch's name of a
 * function, such as silu or mish), "code.layer_norm_eps", "code.num_heads", "code.attn_scale",
 * "code.norm_first" and "code.softmax" (softmax or log_softmax). If an attribute is a function, its
 * value is the function's name, such as "torch._C._nn.gelu". */
size_t checkpoint_attribute_count(const checkpoint *c);
const checkpoint_attribute *checkpoint_attribute_at(const checkpoint *c, size_t i);

const char *checkpoint_dtype_name(checkpoint_dtype dtype); /* returns a name such as "F32" */
/* Returns the number of bytes of an element or of a block. */
size_t checkpoint_dtype_size(checkpoint_dtype dtype);
/* Returns the number of elements in a block; 1 for a type without blocks. */
size_t checkpoint_block(checkpoint_dtype dtype);
/* True for the types of weights: floating-point types and ggml's types. */
bool checkpoint_is_float(checkpoint_dtype dtype);

/* Return the names of the classes, if the container has any. */
size_t checkpoint_label_count(const checkpoint *c);
const char *const *checkpoint_labels(const checkpoint *c);

/* === Read === */

/* Reads elements `first` .. `first` + `count` - 1 of the tensor in row-major order, for any
 * strides, as float. f16 and bf16 are converted exactly, f64 and integers are rounded to nearest,
 * and bool becomes 0 or 1. Contiguous tensors are streamed through a small buffer. A strided tensor
 * needs a part of its storage in memory, and a deflated zip entry must be in memory whole. This
 * part or entry stays in memory until another part or entry is needed. */
bool checkpoint_read(checkpoint *c, const checkpoint_tensor_info *tensor, int64_t first,
                     int64_t count, float *destination, report *r);

/* Checks the CRC-32 of each zip entry that holds weights; returns true at once for other
 * containers. Only this function finds damage in weights that are stored without compression. */
bool checkpoint_verify(checkpoint *c, report *r);

/* Renames tensors, so that a model whose author chose other names matches a known layout. Each rule
 * is "theirs=ours". A '*' in `theirs` matches any text. The text that the n-th '*' matches replaces
 * the n-th '*' in `ours`. The first rule that matches a name applies; a rule without a match is an
 * error. */
bool rename_tensors(checkpoint *c, const text_list *rules, report *r);

#endif
