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
    ONNX_MOST_NUMBERS = 16, /* numbers of a shape or a list */
    ONNX_MOST_STEPS = 64,   /* nodes from one layer back to the previous one */
};

typedef enum onnx_op {
    OP_OTHER, /* neither a layer nor a view of its result */
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

/* The layer that the node completes. */
typedef enum onnx_part {
    PART_NONE,
    PART_INSIDE, /* a step of a layer, but not its last */
    PART_CONV,
    PART_LINEAR,
    PART_NORM,
    PART_ACT,
    PART_SCORES, /* the nodes of q k^T, the scale, the softmax, and the product with v */
} onnx_part;

typedef struct onnx_attribute {
    const char *name, *text;
    int64_t integer, integers[ONNX_MOST_NUMBERS];
    int count; /* number of integers; those beyond ONNX_MOST_NUMBERS are left out */
    float number;
    int tensor; /* -1: none */
} onnx_attribute;

typedef struct onnx_node {
    const char *name, *op_name, *domain;
    onnx_op op;
    int *inputs, *next_use; /* values, -1 if left out; and the next user of each */
    int *outputs;
    int input_count, output_count, attribute_count;
    onnx_attribute *attributes;
    onnx_part part;
    int from, weight, bias;        /* values: the layer's input, and its parameters (-1: none) */
    int scale_of;                  /* node with a quantised weight's scales; -1: this one */
    const char *activation, *role; /* role: the module's name, if the order shows it */
    int k, v;                      /* for a softmax: the layers that give k and v; `last` gives q */
    double eps;
    int heads;
    bool is_unscaled; /* scores without a factor */
    int last;         /* the last node of the layer that this node begins */
} onnx_node;

typedef struct onnx_value {
    const char *name;
    int producer, tensor; /* -1: none */
    int user;             /* node * ONNX_MOST_INPUTS + input; -1: none */
    bool from_image, is_ready, is_published;
} onnx_value;

typedef struct onnx_reader {
    checkpoint *c;
    size_t file;
    report *report;
    memory_arena memory;
    checkpoint_tensor_info *tensors; /* count is 0 for a type that weights cannot have */
    size_t tensor_count, tensor_capacity;
    onnx_node *nodes;
    size_t node_count, node_capacity;
    onnx_value *values;
    size_t value_count, value_capacity;
    int *table; /* of names; -1: empty */
    size_t table_size;
    int image;        /* value */
    int work, nested; /* numbers of reads of constants; depth of nested shapes */
    bool has_graph, in_blocks, by_order, is_apart;
    uint8_t window[4096];
    uint64_t window_at;
    size_t window_size;
} onnx_reader;

/* Reads the graph, links its values with their users, and finds the values computed from the
 * image. */
bool onnx_read_model(onnx_reader *o);

/* Reports that a plain ViT has no such node. Returns false. */
bool onnx_refuse(const onnx_reader *o, const onnx_node *n, const char *why);

/* Returns the value of input i; -1 if the node has none. */
int onnx_input(const onnx_node *n, int i);

/* Returns the node that computes a value; NULL for -1, inputs of the graph and stored tensors. */
onnx_node *onnx_producer(const onnx_reader *o, int v);

/* True if the value is computed from the image. */
bool onnx_is_image(const onnx_reader *o, int v);

/* Returns the attribute with this name, or NULL. */
const onnx_attribute *onnx_attribute_of(const onnx_node *n, const char *name);

/* Returns an integer attribute, or `otherwise` if the node lacks it. */
int64_t onnx_integer(const onnx_node *n, const char *name, int64_t otherwise);

/* Returns the next node after `after` that has this operator and reads the value. Returns the
 * first such node if `after` is NULL. */
onnx_node *onnx_user(const onnx_reader *o, int v, onnx_op op, const onnx_node *after);

/* Returns the operand of a node with two operands that is not this value. */
int onnx_other(const onnx_node *n, int v);

/* Returns the stored tensor of a value, as an index of o->tensors; -1 if it has none. */
int onnx_constant_tensor(const onnx_reader *o, int v);

/* Reads up to `most` numbers of a constant; returns their count, or -1. */
int onnx_numbers(onnx_reader *o, int v, float *to, int most);

#endif
