/* onnx_graph.h - reads the nodes, values and tensors of an ONNX graph. onnx.c finds the layers. */
#ifndef ONNX_GRAPH_H
#define ONNX_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"

enum {
    ONNX_MOST_INPUTS = 64,
    ONNX_MOST_NUMBERS = 16, /* largest number of dimensions of a shape, or of numbers in a list */
    ONNX_MOST_STEPS = 64,   /* largest number of nodes from one layer back to the previous one */
};

typedef enum onnx_op {
    /* Any operator that is not in the list below. */
    OP_OTHER,
    OP_ADD,
    OP_CAST,
    OP_CONCAT,
    OP_CONSTANT,
    OP_CONV,
    OP_CONV_INTEGER,
    OP_DEQUANTIZE,
    OP_DIV,
    OP_DROPOUT,
    OP_DYNAMIC_QUANTIZE,
    OP_ERF,
    OP_EXPAND,
    OP_FAST_GELU,
    OP_FLATTEN,
    OP_GATHER,
    OP_GELU,
    OP_GEMM,
    OP_IDENTITY,
    OP_LAYER_NORM,
    OP_LOG_SOFTMAX,
    OP_MATMUL,
    OP_MATMUL_INTEGER,
    OP_MATMUL_NBITS,
    OP_MUL,
    OP_POW,
    OP_QUANTIZE,
    OP_QUICK_GELU,
    OP_RECIPROCAL,
    OP_REDUCE_MEAN,
    OP_RELU,
    OP_RESHAPE,
    OP_SHAPE,
    OP_SIGMOID,
    OP_SLICE,
    OP_SOFTMAX,
    OP_SPLIT,
    OP_SQRT,
    OP_SQUEEZE,
    OP_SUB,
    OP_TANH,
    OP_TRANSPOSE,
    OP_UNSQUEEZE,
} onnx_op;

/* The kind of the layer that a node completes. */
typedef enum onnx_part {
    PART_NONE,
    PART_INSIDE, /* the node is a step of a layer, but not the last step */
    PART_CONV,
    PART_LINEAR,
    PART_NORM,
    PART_ACT,
    /* Attention, which counts as a layer: q k^T, the scale, the softmax, and the product with v. */
    PART_SCORES,
} onnx_part;

typedef struct onnx_attribute {
    const char *name, *text;
    int64_t integer, integers[ONNX_MOST_NUMBERS];
    int count; /* Number of integers. Integers beyond ONNX_MOST_NUMBERS are left out. */
    float number;
    int tensor; /* index of the tensor in o->tensors; -1 if the attribute is no tensor */
} onnx_attribute;

typedef struct onnx_node {
    const char *name, *op_name, *domain;
    onnx_op op;
    /* Indices of the input values, -1 for an input that is left out. next_use[i] is the next use of
     * the value of input i, in the form of onnx_value.user. */
    int *inputs, *next_use;
    int *outputs;
    int input_count, output_count, attribute_count;
    onnx_attribute *attributes;
    onnx_part part;
    /* Indices of values: the layer's input, and its parameters. -1 if the layer lacks a
     * parameter. */
    int from, weight, bias;
    /* Index of the layer's node that reads the weight and its scales; -1 if there is none. */
    int scale_of;
    /* `role` is the name of the module if the order of the layers shows this name, otherwise
     * NULL. */
    const char *activation, *role;
    /* For a softmax: the indices of the layers that compute k and v. `last` is that of q. */
    int k, v;
    double eps;
    int heads;
    bool is_unscaled; /* true if the scores of attention have no factor */
    int last;         /* index of the last node of the layer that this node begins */
} onnx_node;

typedef struct onnx_value {
    const char *name;
    /* Index of the node that computes the value, and index of the stored tensor that holds it; -1
     * if there is none. */
    int producer, tensor;
    /* The first user of the value, as node * ONNX_MOST_INPUTS + index of the input. -1 if nothing
     * uses it. */
    int user;
    bool from_image, is_ready, is_published;
} onnx_value;

typedef struct onnx_reader {
    checkpoint *c;
    size_t file;
    report *report;
    memory_arena memory;
    /* The stored tensors; `count` of a tensor is 0 if it is empty or has no type of weights. */
    checkpoint_tensor_info *tensors;
    size_t tensor_count, tensor_capacity;
    onnx_node *nodes;
    size_t node_count, node_capacity;
    onnx_value *values;
    size_t value_count, value_capacity;
    int *table; /* hash table of the values' names; -1 marks an empty slot */
    size_t table_size;
    int image; /* index of the value that is the image */
    /* `work` counts the calls of onnx_numbers; `nested` is how deep onnx_sizes is nested. */
    int work, nested;
    bool has_graph, in_blocks, by_order, is_apart;
    uint8_t window[4096];
    uint64_t window_at;
    size_t window_size;
} onnx_reader;

/* Reads the graph, links its values with the nodes that use them, and marks the values that are
 * computed from the image. */
bool onnx_read_model(onnx_reader *o);

/* Reports why the node is refused. Returns false. */
bool onnx_refuse(const onnx_reader *o, const onnx_node *n, const char *why);

/* Returns the index of the value of input i; -1 if the node has no such input. */
int onnx_input(const onnx_node *n, int i);

/* Returns the node that computes value v. Returns NULL if v is -1, an input of the graph or a
 * stored tensor. */
onnx_node *onnx_producer(const onnx_reader *o, int v);

/* True if value v is computed from the image. */
bool onnx_is_image(const onnx_reader *o, int v);

/* Returns the attribute with this name, or NULL. */
const onnx_attribute *onnx_attribute_of(const onnx_node *n, const char *name);

/* Returns the value of an integer attribute, or `otherwise` if the node lacks the attribute. */
int64_t onnx_integer(const onnx_node *n, const char *name, int64_t otherwise);

/* Returns the next node after `after` that has the operator `op` and reads value v. If `after` is
 * NULL, returns the first such node. Returns NULL if there is none. */
onnx_node *onnx_user(const onnx_reader *o, int v, onnx_op op, const onnx_node *after);

/* For a node with two operands, returns the operand that is not value v. */
int onnx_other(const onnx_node *n, int v);

/* Returns the stored tensor of value v, as an index in o->tensors; -1 if v has none. */
int onnx_constant_tensor(const onnx_reader *o, int v);

/* Reads all numbers of the constant v. Returns their count, or -1 if v is not a constant, has no
 * numbers or more than `most`, or cannot be read. */
int onnx_numbers(onnx_reader *o, int v, float *to, int most);

#endif
