/* onnx.c - reads the weights and settings of a plain ViT from an ONNX graph.
 *
 * A .onnx file is a protobuf with a graph of nodes and the tensors that the nodes use. Exporters
 * keep the names of most parameters, but transpose and rename the weights of linear layers. The
 * reader follows the image through the graph, finds the layers by their operators, and gives the
 * weights the names that they had before the export. The number of heads, the epsilon, the
 * activation and the pooling occur only in the graph. They become attributes of the checkpoint.
 *
 * Each node whose result depends on the image must have a role in a plain ViT. A graph with a node
 * without a role is refused. Nodes that compute shapes are not checked. Below, a value is the
 * result of a node, an input of the graph or a constant. `v` is the index of a value, -1 for none.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/container.h"
#include "checkpoint/onnx_graph.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    /* The largest depth of nested operations from which a scalar is computed. */
    ONNX_DEPTH = 10,
    ONNX_MOST_NESTED = 3,
    ONNX_MEMORY = 64 << 20,
};

/* === Sizes and scalars that the graph computes === */

static bool onnx_scalar(onnx_reader *o, int v, int depth, double *out);

/* Returns the number as an integer. Returns 0 if the number cannot be a size. */
static int64_t onnx_size(float number) {
    return number >= 1 && number <= 1 << 20 ? (int64_t)number : 0;
}

/* Computes the elements of v, the shape to which a Reshape changes its input. An element that
 * cannot be computed here becomes -1. Returns the number of elements, or -1 if it is unknown. */
static int onnx_sizes(onnx_reader *o, int v, float to[ONNX_MOST_NUMBERS]) {
    const onnx_node *n = onnx_producer(o, v);
    int count = onnx_numbers(o, v, to, ONNX_MOST_NUMBERS), i;
    double size;
    if (count >= 0 || !n) return count;
    if (n->op == OP_CAST || n->op == OP_IDENTITY) n = onnx_producer(o, onnx_input(n, 0));
    if (!n || n->op != OP_CONCAT || n->input_count > ONNX_MOST_NUMBERS) return -1;
    if (o->nested >= ONNX_MOST_NESTED) return -1;
    o->nested++;
    for (i = 0; i < n->input_count; i++) {
        const int several = onnx_numbers(o, n->inputs[i], to + i, 1);
        if (several == 1) continue;
        to[i] = onnx_scalar(o, n->inputs[i], ONNX_DEPTH, &size) && size >= 0 && size < 1 << 20
                    ? (float)size
                    : -1;
    }
    o->nested--;
    return n->input_count;
}

static bool onnx_is_view(onnx_op op) {
    return op == OP_RESHAPE || op == OP_TRANSPOSE || op == OP_SQUEEZE || op == OP_UNSQUEEZE ||
           op == OP_FLATTEN || op == OP_CAST || op == OP_IDENTITY || op == OP_SPLIT ||
           op == OP_GATHER || op == OP_SLICE || op == OP_DROPOUT || op == OP_QUANTIZE ||
           op == OP_DEQUANTIZE || op == OP_DYNAMIC_QUANTIZE || op == OP_EXPAND;
}

static const checkpoint_tensor_info *onnx_tensor_of(const onnx_reader *o, int v);
static bool onnx_weight_dims(const onnx_reader *o, const onnx_node *n, int64_t *rows,
                             int64_t *columns);

/* Returns the size of the last dimension of a value that depends on the image. Returns 0 if the
 * size is unknown. */
static int64_t onnx_width(onnx_reader *o, int v) {
    bool is_transposed = false;
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        const onnx_attribute *perm;
        float sizes[ONNX_MOST_NUMBERS];
        int64_t rows, columns;
        int count;
        if (!n) return 0;
        if (n->part == PART_LINEAR) return onnx_weight_dims(o, n, &rows, &columns) ? rows : 0;
        if (n->part == PART_NORM && onnx_constant_tensor(o, n->weight) >= 0)
            return o->tensors[onnx_constant_tensor(o, n->weight)].count;
        if (n->part == PART_CONV) return onnx_tensor_of(o, n->weight)->dims[0];
        if (n->op == OP_CONCAT) {
            v = onnx_input(n, n->input_count - 1);
            continue;
        }
        if (n->op == OP_RESHAPE && !is_transposed) {
            count = onnx_sizes(o, onnx_input(n, 1), sizes);
            return count > 0 ? onnx_size(sizes[count - 1]) : 0;
        }
        if (!onnx_is_view(n->op) && n->op != OP_MUL && n->op != OP_ADD && n->op != OP_DIV) return 0;
        perm = n->op == OP_TRANSPOSE ? onnx_attribute_of(n, "perm") : NULL;
        if (perm && perm->count > 0 && perm->count <= ONNX_MOST_NUMBERS &&
            perm->integers[perm->count - 1] != perm->count - 1)
            is_transposed = true; /* Before it, the channels are not last. */
        v = onnx_is_image(o, onnx_input(n, 0)) ? n->inputs[0] : onnx_input(n, 1);
    }
    return 0;
}

/* Computes the last size of a shape. Fails if the node takes the size with index 0 or 1 instead. */
static bool onnx_shape_element(onnx_reader *o, const onnx_node *n, double *out) {
    const onnx_node *shape = onnx_producer(o, onnx_input(n, 0));
    float index[1];
    if (!shape || shape->op != OP_SHAPE || onnx_numbers(o, onnx_input(n, 1), index, 1) != 1)
        return false;
    if (index[0] > -1 && index[0] < 2) return false;
    *out = (double)onnx_width(o, onnx_input(shape, 0));
    return *out > 0;
}

static bool onnx_scalar(onnx_reader *o, int v, int depth, double *out) {
    const onnx_node *n = onnx_producer(o, v);
    float number[1];
    double a, b;
    if (onnx_numbers(o, v, number, 1) == 1) return *out = (double)number[0], true;
    if (!n || depth == 0 || o->report->failed) return false;
    if (n->op == OP_GATHER || n->op == OP_SLICE) return onnx_shape_element(o, n, out);
    if (!onnx_scalar(o, onnx_input(n, 0), depth - 1, &a)) return false;
    if (n->op == OP_SQRT) return *out = sqrt(a), true;
    if (n->op == OP_RECIPROCAL) return *out = 1 / a, true;
    if (n->op == OP_CAST || n->op == OP_IDENTITY || n->op == OP_UNSQUEEZE || n->op == OP_SQUEEZE ||
        n->op == OP_RESHAPE)
        return *out = a, true;
    if (!onnx_scalar(o, onnx_input(n, 1), depth - 1, &b)) return false;
    if (n->op == OP_MUL) *out = a * b;
    else if (n->op == OP_DIV) *out = a / b;
    else if (n->op == OP_POW) *out = pow(a, b);
    else return false;
    return true;
}

static bool onnx_is_number(onnx_reader *o, int v, double number) {
    double found;
    return onnx_scalar(o, v, 2, &found) && fabs(found - number) <= 2e-3 * fabs(number);
}

/* === Constants === */

/* Follows casts and views from a constant back to the stored tensor. Returns the value of this
 * tensor, or -1 if there is none. */
static int onnx_base(const onnx_reader *o, int v) {
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        if (v < 0 || o->values[v].from_image) return -1;
        if (onnx_constant_tensor(o, v) >= 0) return v;
        if (!n || n->op == OP_SHAPE || !onnx_is_view(n->op)) return -1;
        v = onnx_input(n, 0);
    }
    return -1;
}

/* True if the two dimensions of the stored tensor are exchanged before the constant is used. */
static bool onnx_is_transposed(const onnx_reader *o, int v) {
    bool transposed = false;
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        if (!n || onnx_constant_tensor(o, v) >= 0) break;
        if (n->op == OP_TRANSPOSE) transposed = !transposed;
        v = onnx_input(n, 0);
    }
    return transposed;
}

static const checkpoint_tensor_info *onnx_tensor_of(const onnx_reader *o, int v) {
    const int base = onnx_base(o, v);
    return base >= 0 ? &o->tensors[onnx_constant_tensor(o, base)] : NULL;
}

static bool onnx_weight_dims(const onnx_reader *o, const onnx_node *n, int64_t *rows,
                             int64_t *columns) {
    const checkpoint_tensor_info *t = onnx_tensor_of(o, n->weight);
    const onnx_node *by = n->scale_of >= 0 ? &o->nodes[n->scale_of] : n;
    bool is_rows_first;
    if (!t) return false;
    if (by->op == OP_MATMUL_NBITS) {
        *rows = onnx_integer(by, "N", 0);
        *columns = onnx_integer(by, "K", 0);
        return *rows > 0 && *columns > 0;
    }
    if (t->ndim != 2) return false;
    is_rows_first = onnx_is_transposed(o, n->weight) !=
                    (by->op == OP_GEMM && onnx_integer(by, "transB", 0) != 0);
    *rows = t->dims[!is_rows_first];
    *columns = t->dims[is_rows_first];
    return true;
}

/* === Layers === */

static int onnx_index(const onnx_reader *o, const onnx_node *n) { return (int)(n - o->nodes); }

static int onnx_output(const onnx_node *n) { return n->output_count > 0 ? n->outputs[0] : -1; }

/* Returns the Add node that adds the bias to v, a layer's result. Returns NULL if there is none. */
static onnx_node *onnx_add_of_bias(const onnx_reader *o, int v, int64_t rows) {
    onnx_node *add = onnx_user(o, v, OP_ADD, NULL);
    const checkpoint_tensor_info *t = add ? onnx_tensor_of(o, onnx_other(add, v)) : NULL;
    return t && t->count == rows && checkpoint_is_float(t->dtype) && rows > 1 ? add : NULL;
}

/* Finds the operations after an integer product: a cast and a multiplication by a factor. The
 * factor is the product of two scales, and *scale becomes the scale of the weights. Returns the
 * multiplication, or NULL if there is none. */
static onnx_node *onnx_rescale(const onnx_reader *o, onnx_node *n, int *scale) {
    onnx_node *cast = onnx_user(o, onnx_output(n), OP_CAST, NULL), *mul, *factor;
    mul = cast ? onnx_user(o, onnx_output(cast), OP_MUL, NULL) : NULL;
    if (!mul) return NULL;
    factor = onnx_producer(o, onnx_other(mul, onnx_output(cast)));
    if (!factor || factor->op != OP_MUL) return NULL;
    *scale = onnx_base(o, onnx_input(factor, 1)) >= 0 ? onnx_input(factor, 1)
                                                      : onnx_input(factor, 0);
    factor->part = cast->part = PART_INSIDE;
    return onnx_base(o, *scale) >= 0 ? mul : NULL;
}

/* Returns the value from which v was quantised or cast. Returns v if v was neither quantised nor
 * cast. */
static int onnx_before_quantised(const onnx_reader *o, int v) {
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        if (!n || (n->op != OP_CAST && n->op != OP_IDENTITY && n->op != OP_QUANTIZE &&
                   n->op != OP_DEQUANTIZE && n->op != OP_DYNAMIC_QUANTIZE))
            break;
        v = onnx_input(n, 0);
    }
    return v;
}

static bool onnx_find_linear(onnx_reader *o, onnx_node *n) {
    const onnx_node layer = *n;
    onnx_node *last = n, *add;
    int64_t rows, columns;
    int weight = onnx_input(n, 1), bias = -1, scale = -1;
    const bool is_conv = n->op == OP_CONV || n->op == OP_CONV_INTEGER;
    if (!onnx_is_image(o, onnx_input(n, 0)) || onnx_base(o, weight) < 0) return true;
    if (n->op == OP_GEMM || n->op == OP_CONV) bias = onnx_input(n, 2);
    if (n->op == OP_MATMUL_NBITS) bias = onnx_input(n, 5);
    if (n->op == OP_GEMM) {
        const onnx_attribute *alpha = onnx_attribute_of(n, "alpha");
        const onnx_attribute *beta = onnx_attribute_of(n, "beta");
        if ((alpha && fabsf(alpha->number - 1) > 0) || (beta && fabsf(beta->number - 1) > 0) ||
            onnx_integer(n, "transA", 0) != 0)
            return onnx_refuse(
                o, n, "not a linear layer: alpha and beta must be 1, and transA must be 0");
    }
    if (n->op == OP_MATMUL_INTEGER || n->op == OP_CONV_INTEGER) {
        last = onnx_rescale(o, n, &scale);
        if (!last) return onnx_refuse(o, n, "an integer product without the scale of its weights");
        n->bias = scale; /* keeps the scale for onnx_publish_weight */
    }
    n->scale_of = onnx_index(o, n);
    n->weight = weight;
    if (!onnx_weight_dims(o, n, &rows, &columns)) {
        const checkpoint_tensor_info *t = onnx_tensor_of(o, weight);
        if (!is_conv || !t || t->ndim != 4)
            return onnx_refuse(
                o, n,
                "expected a weight of two dimensions, or of four dimensions for a convolution");
        rows = t->dims[0];
    }
    n->part = PART_INSIDE;
    add = bias < 0 ? onnx_add_of_bias(o, onnx_output(last), rows) : NULL;
    if (add) {
        bias = onnx_other(add, onnx_output(last));
        last->part = PART_INSIDE;
        last = add;
    }
    last->part = is_conv ? PART_CONV : PART_LINEAR;
    last->from = onnx_before_quantised(o, onnx_input(&layer, 0));
    last->weight = weight;
    last->bias = bias;
    last->scale_of = onnx_index(o, n);
    n->last = onnx_index(o, last);
    return true;
}

/* If v = x - mean(x), returns x. Otherwise returns -1. */
static int onnx_centred(const onnx_reader *o, int v) {
    const onnx_node *sub = onnx_producer(o, v), *mean;
    if (sub && sub->op == OP_CAST) sub = onnx_producer(o, onnx_input(sub, 0));
    mean = sub && sub->op == OP_SUB ? onnx_producer(o, onnx_input(sub, 1)) : NULL;
    return mean && mean->op == OP_REDUCE_MEAN && onnx_input(mean, 0) == onnx_input(sub, 0)
               ? onnx_input(sub, 0)
               : -1;
}

static void onnx_inside(const onnx_reader *o, int v) {
    onnx_node *n = onnx_producer(o, v);
    if (n && n->part == PART_NONE) n->part = PART_INSIDE;
}

/* Recognises a LayerNorm that is written out as (x - mean) / sqrt(mean((x - mean)^2) + eps) w + b.
 * `root` is the node of the square root. */
static bool onnx_find_norm(onnx_reader *o, onnx_node *root) {
    onnx_node *sum = onnx_producer(o, onnx_input(root, 0)), *mean, *square, *div, *mul, *add, *sub;
    int x, centred, i;
    double eps;
    if (!sum || sum->op != OP_ADD || !onnx_is_image(o, onnx_output(root))) return true;
    i = onnx_is_image(o, onnx_input(sum, 0)) ? 0 : 1;
    mean = onnx_producer(o, onnx_input(sum, i));
    if (!mean || mean->op != OP_REDUCE_MEAN || !onnx_scalar(o, onnx_input(sum, 1 - i), 2, &eps))
        return true;
    square = onnx_producer(o, onnx_input(mean, 0));
    if (!square || (square->op != OP_POW && square->op != OP_MUL)) return true;
    centred = onnx_input(square, 0);
    if (square->op == OP_POW ? !onnx_is_number(o, onnx_input(square, 1), 2)
                             : onnx_input(square, 1) != centred)
        return true;
    x = onnx_centred(o, centred);
    div = onnx_user(o, onnx_output(root), OP_DIV, NULL);
    if (x < 0 || !div || onnx_input(div, 1) != onnx_output(root) ||
        onnx_centred(o, onnx_input(div, 0)) != x)
        return true;
    mul = onnx_user(o, onnx_output(div), OP_MUL, NULL);
    add = mul ? onnx_user(o, onnx_output(mul), OP_ADD, NULL) : NULL;
    if (!add || onnx_base(o, onnx_other(mul, onnx_output(div))) < 0 ||
        onnx_base(o, onnx_other(add, onnx_output(mul))) < 0)
        return onnx_refuse(o, root, "expected a norm with a weight and a bias");
    sum->part = mean->part = square->part = div->part = mul->part = root->part = PART_INSIDE;
    for (i = 0; i < 2; i++) {
        sub = onnx_producer(o, i ? centred : onnx_input(div, 0));
        onnx_inside(o, i ? centred : onnx_input(div, 0));
        if (sub->op == OP_CAST) sub = onnx_producer(o, onnx_input(sub, 0));
        onnx_inside(o, onnx_output(sub));
        onnx_inside(o, onnx_input(sub, 1));
    }
    add->part = PART_NORM;
    add->from = x;
    add->weight = onnx_other(mul, onnx_output(div));
    add->bias = onnx_other(add, onnx_output(mul));
    add->eps = eps;
    return (eps >= 0 && eps < 1) || onnx_refuse(o, sum, "expected an epsilon between 0 and 1");
}

static bool onnx_take_norm(onnx_reader *o, onnx_node *n) {
    const onnx_attribute *eps = onnx_attribute_of(n, "epsilon");
    if (onnx_base(o, onnx_input(n, 1)) < 0) return onnx_refuse(o, n, "a norm without weight");
    n->part = PART_NORM;
    n->from = onnx_input(n, 0);
    n->weight = onnx_input(n, 1);
    n->bias = onnx_input(n, 2);
    n->eps = eps ? (double)eps->number : 1e-5;
    return (n->eps >= 0 && n->eps < 1) || onnx_refuse(o, n, "expected an epsilon between 0 and 1");
}

/* Marks all nodes of an activation as parts of the activation. Follows the nodes from the last one
 * back to the input x. */
static void onnx_mark_between(onnx_reader *o, const onnx_node *last, int x, int depth) {
    int i;
    for (i = 0; i < last->input_count && depth > 0; i++) {
        onnx_node *n = onnx_producer(o, last->inputs[i]);
        if (!n || last->inputs[i] == x || !onnx_is_image(o, last->inputs[i])) continue;
        if (n->part != PART_NONE) continue;
        n->part = PART_INSIDE;
        onnx_mark_between(o, n, x, depth - 1);
    }
}

static void onnx_end_act(onnx_reader *o, onnx_node *last, int x, const char *name) {
    onnx_mark_between(o, last, x, 9);
    last->part = PART_ACT;
    last->from = x;
    last->activation = name;
}

/* Recognises x (1 + f) / 2 in the three forms that exporters write. `f` is the node of Erf or Tanh.
 * Returns the last node of the form, or NULL. */
static onnx_node *onnx_gelu_end(onnx_reader *o, const onnx_node *f, int x) {
    onnx_node *add = onnx_user(o, onnx_output(f), OP_ADD, NULL), *mul, *half;
    int other;
    if (!add || !onnx_is_number(o, onnx_other(add, onnx_output(f)), 1)) return NULL;
    mul = onnx_user(o, onnx_output(add), OP_MUL, NULL);
    if (!mul) return NULL;
    other = onnx_other(mul, onnx_output(add));
    if (other == x) { /* The factor 1/2 comes last. */
        half = onnx_user(o, onnx_output(mul), OP_MUL, NULL);
        return half && onnx_is_number(o, onnx_other(half, onnx_output(mul)), 0.5) ? half : NULL;
    }
    half = onnx_producer(o, other);
    if (half && half->op == OP_MUL && (onnx_input(half, 0) == x || onnx_input(half, 1) == x) &&
        onnx_is_number(o, onnx_other(half, x), 0.5))
        return mul;
    if (!onnx_is_number(o, other, 0.5)) return NULL;
    half = onnx_user(o, onnx_output(mul), OP_MUL, NULL);
    return half && onnx_other(half, onnx_output(mul)) == x ? half : NULL;
}

static bool onnx_find_erf(onnx_reader *o, onnx_node *erf) {
    const onnx_node *div = onnx_producer(o, onnx_input(erf, 0));
    onnx_node *last;
    int x;
    if (!div || (div->op != OP_DIV && div->op != OP_MUL)) return true;
    x = onnx_is_image(o, onnx_input(div, 0)) ? onnx_input(div, 0) : onnx_input(div, 1);
    if (!onnx_is_number(o, onnx_other(div, x), div->op == OP_DIV ? sqrt(2) : sqrt(0.5)))
        return true;
    last = onnx_gelu_end(o, erf, x);
    if (last) onnx_end_act(o, last, x, "gelu");
    return true;
}

/* Recognises a plain tanh, and the GELU that contains tanh(sqrt(2 / pi) (x + 0.044715 x^3)). */
static bool onnx_find_tanh(onnx_reader *o, onnx_node *tanh_node) {
    const onnx_node *mul = onnx_producer(o, onnx_input(tanh_node, 0)), *sum, *cube;
    onnx_node *last;
    int i, x;
    if (!mul || mul->op != OP_MUL) { /* This is a plain tanh between the layers of a head. */
        onnx_end_act(o, tanh_node, onnx_input(tanh_node, 0), "tanh");
        return true;
    }
    i = onnx_is_image(o, onnx_input(mul, 0)) ? 0 : 1;
    sum = onnx_producer(o, onnx_input(mul, i));
    if (!onnx_is_number(o, onnx_input(mul, 1 - i), 0.7978845608) || !sum || sum->op != OP_ADD)
        return true;
    for (i = 0; i < 2; i++) {
        x = onnx_input(sum, i);
        cube = onnx_producer(o, onnx_input(sum, 1 - i));
        if (!cube || cube->op != OP_MUL ||
            (!onnx_is_number(o, onnx_input(cube, 0), 0.044715) &&
             !onnx_is_number(o, onnx_input(cube, 1), 0.044715)))
            continue;
        last = onnx_gelu_end(o, tanh_node, x);
        if (last) onnx_end_act(o, last, x, "gelu_tanh");
        return true;
    }
    return true;
}

/* Recognises x sigmoid(x), which is SiLU, and x sigmoid(1.702 x), which is quick GELU. */
static bool onnx_find_sigmoid(onnx_reader *o, onnx_node *sigmoid) {
    const int in = onnx_input(sigmoid, 0), out = onnx_output(sigmoid);
    const onnx_node *mul = onnx_producer(o, in);
    onnx_node *end = onnx_user(o, out, OP_MUL, NULL);
    int x;
    if (!end) return true;
    x = onnx_other(end, out);
    if (x == in) onnx_end_act(o, end, x, "silu");
    else if (mul && mul->op == OP_MUL && (onnx_input(mul, 0) == x || onnx_input(mul, 1) == x) &&
             onnx_is_number(o, onnx_other(mul, x), 1.702))
        onnx_end_act(o, end, x, "quick_gelu");
    return true;
}

static bool onnx_find_act(onnx_reader *o, onnx_node *n) {
    const onnx_attribute *a = onnx_attribute_of(n, n->op == OP_GELU ? "approximate" : "alpha");
    const char *name = n->op == OP_RELU                ? "relu"
                       : n->op == OP_FAST_GELU         ? "gelu_tanh"
                       : n->op == OP_QUICK_GELU        ? "quick_gelu"
                       : a && !strcmp(a->text, "tanh") ? "gelu_tanh"
                                                       : "gelu";
    if (n->op == OP_QUICK_GELU && a && fabs((double)a->number - 1.702) > 1e-3) {
        if (fabsf(a->number - 1) > 0)
            return onnx_refuse(o, n, "the factor alpha is neither 1.702 nor 1");
        name = "silu";
    }
    if (n->op == OP_FAST_GELU && onnx_input(n, 1) >= 0)
        return onnx_refuse(o, n, "a bias inside the activation; export without fusions");
    onnx_end_act(o, n, onnx_input(n, 0), name);
    return true;
}

static bool onnx_find_layer(onnx_reader *o, onnx_node *n) {
    switch (n->op) {
    case OP_CONV:
    case OP_CONV_INTEGER:
    case OP_GEMM:
    case OP_MATMUL:
    case OP_MATMUL_INTEGER:
    case OP_MATMUL_NBITS: return onnx_find_linear(o, n);
    case OP_LAYER_NORM: return onnx_take_norm(o, n);
    case OP_SQRT: return onnx_find_norm(o, n);
    case OP_ERF: return onnx_find_erf(o, n);
    case OP_TANH: return onnx_find_tanh(o, n);
    case OP_SIGMOID: return onnx_find_sigmoid(o, n);
    case OP_GELU:
    case OP_FAST_GELU:
    case OP_QUICK_GELU:
    case OP_RELU: return onnx_find_act(o, n);
    default: return true;
    }
}

/* === Attention === */

/* The facts that are found between a linear layer and the scores of attention. */
typedef struct onnx_path {
    double factor;
    /* The width of a head and the number of heads; 0 if unknown. */
    int64_t head_dim, heads;
    /* If one layer computes q, k and v: 0 for q, 1 for k, 2 for v. Otherwise -1. */
    int third;
    /* True if q, k and v of each head follow each other in the result of the layer. */
    bool is_by_head;
} onnx_path;

static void onnx_see_sizes(onnx_reader *o, const onnx_node *reshape, onnx_path *path) {
    float sizes[ONNX_MOST_NUMBERS];
    const int count = onnx_sizes(o, onnx_input(reshape, 1), sizes);
    const bool is_of_three = count >= 3 && path->head_dim > 0 && path->heads == 0 &&
                             fabsf(sizes[count - 2] - 3) < 0.5f;
    if (is_of_three) return; /* The value holds q, k and v. It is divided into heads later. */
    if (count >= 5 && fabsf(sizes[count - 3] - 3) > 0.5f) path->is_by_head = true;
    if (count >= 4) {
        if (onnx_size(sizes[count - 1])) path->head_dim = onnx_size(sizes[count - 1]);
        if (onnx_size(sizes[count - 2])) path->heads = onnx_size(sizes[count - 2]);
    } else if (count == 3 && path->head_dim == 0) {
        path->head_dim = onnx_size(sizes[2]);
    }
}

/* If the node multiplies or divides by a scalar, includes the scalar in path->factor and moves *v
 * to the input of the node. Otherwise returns false. */
static bool onnx_take_factor(onnx_reader *o, onnx_node *n, int *v, onnx_path *path) {
    const int i = onnx_is_image(o, onnx_input(n, 0)) ? 0 : 1;
    double factor;
    if ((n->op != OP_MUL && n->op != OP_DIV) || !onnx_is_image(o, onnx_input(n, i)) ||
        (n->op == OP_DIV && i == 1) || !onnx_scalar(o, onnx_input(n, 1 - i), ONNX_DEPTH, &factor))
        return false;
    path->factor *= n->op == OP_MUL ? factor : 1 / factor;
    n->part = PART_SCORES;
    *v = onnx_input(n, i);
    return true;
}

/* Node n takes v out of the result of a layer that computes q, k and v. Returns 0 if v is the
 * query, 1 for the key, 2 for the value, and -1 if this is unknown. */
static int onnx_third(onnx_reader *o, const onnx_node *n, int v) {
    float first[1], last[1];
    int i;
    for (i = 0; n->op == OP_SPLIT && i < n->output_count; i++)
        if (n->outputs[i] == v) return n->output_count == 3 ? i : -1;
    if (n->op == OP_GATHER && onnx_numbers(o, onnx_input(n, 1), first, 1) == 1 && first[0] >= 0 &&
        first[0] < 3)
        return (int)first[0];
    if (n->op == OP_SLICE && onnx_numbers(o, onnx_input(n, 1), first, 1) == 1 &&
        onnx_numbers(o, onnx_input(n, 2), last, 1) == 1 && last[0] > first[0] && first[0] >= 0) {
        const float size = last[0] > 1e6f ? first[0] / 2 : last[0] - first[0];
        return size > 0 && first[0] / size < 2.5f ? (int)(first[0] / size + 0.5f) : -1;
    }
    return -1;
}

/* Follows value v back to the linear layer of a query, key or value. Collects the facts on the way
 * in *path. */
static onnx_node *onnx_trace(onnx_reader *o, int v, onnx_path *path) {
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        onnx_node *n = onnx_producer(o, v);
        if (!n) break;
        if (n->part == PART_LINEAR) return n;
        if (n->part == PART_NORM) {
            v = n->from;
            continue;
        }
        if (onnx_take_factor(o, n, &v, path)) continue;
        if (!onnx_is_view(n->op)) {
            (void)onnx_refuse(
                o, n,
                "between a linear layer and attention, only reshapes and other views, a norm and a "
                "factor are supported");
            return NULL;
        }
        if (n->op == OP_RESHAPE) onnx_see_sizes(o, n, path);
        if (n->op == OP_SPLIT || n->op == OP_GATHER || n->op == OP_SLICE)
            path->third = onnx_third(o, n, v);
        v = onnx_input(n, 0);
    }
    (void)report_fail(o->report, "ONNX: an input of attention does not come from a linear layer");
    return NULL;
}

static onnx_node *onnx_proj_behind(const onnx_reader *o, const onnx_node *mix) {
    static const onnx_op views[] = { OP_TRANSPOSE,       OP_RESHAPE,  OP_CAST,
                                     OP_IDENTITY,        OP_QUANTIZE, OP_DEQUANTIZE,
                                     OP_DYNAMIC_QUANTIZE };
    static const onnx_op layers[] = { OP_MATMUL, OP_GEMM, OP_MATMUL_NBITS, OP_MATMUL_INTEGER };
    int step, v = onnx_output(mix);
    for (step = 0; step < ONNX_MOST_STEPS && v >= 0; step++) {
        const onnx_node *next = NULL;
        size_t i;
        for (i = 0; i < COUNT(layers); i++) {
            next = onnx_user(o, v, layers[i], NULL);
            if (next && next->last >= 0) return &o->nodes[next->last];
        }
        for (i = 0, next = NULL; !next && i < COUNT(views); i++)
            next = onnx_user(o, v, views[i], NULL);
        v = next ? onnx_output(next) : -1;
    }
    return NULL;
}

static bool onnx_check_factor(onnx_reader *o, onnx_node *softmax, double factor, int64_t head_dim,
                              int64_t width) {
    char text[128];
    softmax->activation = "head_dim";
    if (fabs(factor * sqrt((double)head_dim) - 1) < 5e-3) return true;
    softmax->activation = NULL;
    if (fabs(factor - 1) < 1e-6) return softmax->is_unscaled = true;
    if (fabs(factor * sqrt((double)width) - 1) < 5e-3)
        return softmax->activation = "embed_dim", true;
    snprintf(text, sizeof text, "q k^T has the factor %g, expected 1 / sqrt(%lld)", factor,
             (long long)head_dim);
    return onnx_refuse(o, softmax, text);
}

static bool onnx_is_last_axis(const onnx_node *n) {
    const int64_t axis = onnx_integer(n, "axis", -1);
    return axis == -1 || axis == 2 || axis == 3;
}

static bool onnx_finish_scores(onnx_reader *o, onnx_node *softmax, const onnx_node *product,
                               onnx_path *path) {
    onnx_path of_k = { 1, 0, 0, -1, false }, of_v = of_k;
    onnx_node *q = onnx_trace(o, onnx_input(product, 0), path), *mix, *proj;
    onnx_node *k = q ? onnx_trace(o, onnx_input(product, 1), &of_k) : NULL, *v;
    int64_t rows, columns, width;
    if (!k) return false;
    mix = onnx_user(o, onnx_output(softmax), OP_MATMUL, NULL);
    if (!mix) {
        const onnx_node *cast = onnx_user(o, onnx_output(softmax), OP_CAST, NULL);
        mix = cast ? onnx_user(o, onnx_output(cast), OP_MATMUL, NULL) : NULL;
    }
    v = mix && onnx_is_image(o, onnx_input(mix, 1)) ? onnx_trace(o, onnx_input(mix, 1), &of_v)
                                                    : NULL;
    if (o->report->failed) return false;
    proj = mix ? onnx_proj_behind(o, mix) : NULL;
    if (!v || !proj || q->from != k->from || q->from != v->from)
        return onnx_refuse(
            o, softmax,
            "not self-attention: expected q, k and v computed from one input, and a linear "
            "layer after attention");
    if (q == k &&
        (k != v || path->third != 0 || of_k.third != 1 || of_v.third != 2 || path->is_by_head))
        return onnx_refuse(o, softmax, "one layer computes q, k and v, but not in timm's order");
    if (!onnx_weight_dims(o, proj, &rows, &columns))
        return onnx_refuse(o, proj, "expected a linear layer after attention");
    width = columns;
    if (!path->head_dim && path->heads) path->head_dim = width / path->heads;
    if (path->head_dim < 1 || width % path->head_dim != 0 ||
        (path->heads > 0 && path->heads * path->head_dim != width))
        return onnx_refuse(o, softmax, "the shapes of q do not show the number of heads");
    mix->part = PART_SCORES;
    mix->from = q->from;
    mix->last = onnx_index(o, softmax);
    softmax->k = onnx_index(o, k);
    softmax->v = onnx_index(o, v);
    softmax->heads = (int)(width / path->head_dim);
    softmax->last = onnx_index(o, q);
    return onnx_check_factor(o, softmax, path->factor * of_k.factor * of_v.factor, path->head_dim,
                             width);
}

static bool onnx_find_scores(onnx_reader *o, onnx_node *softmax) {
    onnx_path path = { 1, 0, 0, -1, false };
    int v = onnx_input(softmax, 0), step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        onnx_node *n = onnx_producer(o, v);
        if (!n || n->part == PART_LINEAR) return true; /* the softmax follows the head */
        if (n->op == OP_MATMUL && onnx_is_image(o, onnx_input(n, 0)) &&
            onnx_is_image(o, onnx_input(n, 1))) {
            if (!onnx_is_last_axis(softmax))
                return onnx_refuse(o, softmax, "the axis of the softmax is not the last one");
            n->part = softmax->part = PART_SCORES;
            return onnx_finish_scores(o, softmax, n, &path);
        }
        if (onnx_take_factor(o, n, &v, &path)) continue;
        if (n->op == OP_ADD)
            return onnx_refuse(
                o, n, "a mask or positions are added to the scores, which is not supported");
        if (n->op != OP_CAST && n->op != OP_IDENTITY) return true;
        v = onnx_input(n, 0);
    }
    return true;
}

/* === Weights === */

/* Reads the scales or the zero points of a quantised tensor. There is a single number, or a
 * number for each of the `count` rows along an axis. *found receives the number of values read.
 * If v is -1, the result is the single number `none`. The caller frees the result. Returns NULL
 * on failure. */
static float *onnx_read_factors(onnx_reader *o, int v, int64_t count, int64_t *found, float none) {
    const checkpoint_tensor_info *t = v >= 0 ? onnx_tensor_of(o, v) : NULL;
    float *values;
    *found = t ? t->count : 1;
    if (v >= 0 && (!t || (t->count != 1 && t->count != count))) {
        (void)report_fail(o->report, "%.200s: found %lld scales or zero points, expected 1 or %lld",
                          v >= 0 ? o->values[v].name : "", t ? (long long)t->count : 0,
                          (long long)count);
        return NULL;
    }
    values = malloc((size_t)*found * sizeof *values);
    if (!values) return (void)report_no_memory(o->report), NULL;
    values[0] = none;
    if (t && !checkpoint_read(o->c, t, 0, t->count, values, o->report)) return free(values), NULL;
    return values;
}

/* Adds a storage for a tensor that this reader computes. The storage has `count` f32 values.
 * Returns its memory, which belongs to the checkpoint, or NULL on failure. */
static uint8_t *onnx_add_computed(onnx_reader *o, checkpoint_tensor_info *t, int64_t count) {
    checkpoint_storage s = { 0 };
    uint8_t *block;
    s.bytes.size = s.bytes.stored_size = (uint64_t)count * sizeof(float);
    s.bytes.name = paths_file_name(o->c->files[o->file].path);
    s.file = o->file;
    block = checkpoint_add_block(o->c, s.bytes.size, o->report);
    s.memory = block;
    if (!block || !checkpoint_add_storage(o->c, &s, &t->storage, o->report)) return NULL;
    t->dtype = CHECKPOINT_F32;
    t->count = count;
    t->storage_offset = 0;
    t->container_name = s.bytes.name;
    checkpoint_contiguous_strides(t);
    return block;
}

/* Replaces a quantised tensor by (q - zero point) * scale in f32. There is one scale and one zero
 * point for the tensor, or for each index along `axis`. */
static bool onnx_dequantise(onnx_reader *o, checkpoint_tensor_info *t, int scale, int zero,
                            int64_t axis) {
    const checkpoint_tensor_info q = *t;
    int64_t inner = 1, outer, scales, zeros, i, k;
    float *by, *off, chunk[1024];
    uint8_t *to;
    bool good;
    int d;
    if (axis < 0) axis += q.ndim;
    if (axis < 0 || axis >= q.ndim) axis = 0;
    outer = q.ndim > 0 ? q.dims[axis] : 1;
    for (d = (int)axis + 1; d < q.ndim; d++) inner *= q.dims[d];
    by = onnx_read_factors(o, scale, outer, &scales, 1);
    off = by ? onnx_read_factors(o, zero, outer, &zeros, 0) : NULL;
    to = off ? onnx_add_computed(o, t, q.count) : NULL;
    good = to != NULL;
    for (i = 0; good && i < q.count; i += (int64_t)COUNT(chunk)) {
        const int64_t count = q.count - i < (int64_t)COUNT(chunk) ? q.count - i
                                                                  : (int64_t)COUNT(chunk);
        good = checkpoint_read(o->c, &q, i, count, chunk, o->report);
        for (k = 0; k < count; k++) {
            const int64_t row = (i + k) / inner % outer;
            chunk[k] = (chunk[k] - off[zeros > 1 ? row : 0]) * by[scales > 1 ? row : 0];
        }
        bytes_store_floats(to + (size_t)i * sizeof(float), chunk, (size_t)count);
    }
    free(by);
    free(off);
    return good;
}

/* The weights of a MatMulNBits node. A row consists of blocks of values of 4 or 8 bits. Each block
 * has a scale and perhaps a zero point. */
typedef struct onnx_blocks {
    /* `size` is the number of values in a block, and `count` is the number of blocks in a row. */
    int64_t rows, columns, size, count;
    unsigned bits;
    /* The bytes, scales and zero points of one row. `zeros` is NULL if there are no zero points. If
     * are_packed is true, `zeros` holds packed bytes; otherwise it holds a number per block. */
    float *bytes, *scales, *zeros;
    bool are_packed;
} onnx_blocks;

static float onnx_bits(const float *bytes, int64_t i, unsigned bits) {
    const unsigned byte = (unsigned)bytes[bits == 4 ? i / 2 : i];
    return (float)(bits == 8 ? byte : i % 2 ? byte >> 4 : byte & 15);
}

static bool onnx_read_blocks(onnx_reader *o, const onnx_node *n, const checkpoint_tensor_info *t,
                             onnx_blocks *b) {
    const int zero = onnx_input(n, 3);
    const checkpoint_tensor_info *zeros = zero >= 0 ? onnx_tensor_of(o, zero) : NULL;
    const checkpoint_tensor_info *scales = onnx_tensor_of(o, onnx_input(n, 2));
    int64_t row, all;
    b->rows = onnx_integer(n, "N", 0);
    b->columns = onnx_integer(n, "K", 0);
    b->size = onnx_integer(n, "block_size", 32);
    b->bits = (unsigned)onnx_integer(n, "bits", 4);
    if (b->rows < 1 || b->columns < 1 || b->rows > 1 << 24 || b->columns > 1 << 24 ||
        b->size < 16 || b->size > 1 << 16 || (b->bits != 4 && b->bits != 8) ||
        onnx_input(n, 4) >= 0)
        return onnx_refuse(o, n,
                           "expected 4 or 8 bits, blocks of 16 or more elements, and no g_idx");
    b->count = (b->columns + b->size - 1) / b->size;
    row = b->count * b->size * b->bits / 8;
    all = b->rows * b->count;
    if (t->dtype != CHECKPOINT_U8 || t->count != b->rows * row || !scales || scales->count != all ||
        (zero >= 0 && !zeros))
        return onnx_refuse(o, n, "the sizes of the weight and the scales do not fit each other");
    b->are_packed = zeros && zeros->dtype == CHECKPOINT_U8;
    row = b->are_packed ? (b->count * b->bits + 7) / 8 : b->count;
    if (zeros && zeros->count != b->rows * row)
        return onnx_refuse(o, n, "the size of the zero points does not fit the weight");
    b->bytes = malloc((size_t)(b->count * b->size * b->bits / 8) * sizeof(float));
    b->scales = malloc((size_t)b->count * sizeof(float));
    b->zeros = zeros ? malloc((size_t)row * sizeof(float)) : NULL;
    return (b->bytes && b->scales && (b->zeros || !zeros)) || report_no_memory(o->report);
}

static bool onnx_unpack_blocks(onnx_reader *o, const onnx_node *n, checkpoint_tensor_info *t) {
    const checkpoint_tensor_info packed = *t, *zeros = onnx_input(n, 3) >= 0
                                                           ? onnx_tensor_of(o, onnx_input(n, 3))
                                                           : NULL;
    const checkpoint_tensor_info *scales = onnx_tensor_of(o, onnx_input(n, 2));
    onnx_blocks b = { 0 };
    bool good = onnx_read_blocks(o, n, t, &b);
    uint8_t *to = NULL;
    int64_t i, k;
    if (good) {
        t->ndim = 2;
        t->dims[0] = b.rows;
        t->dims[1] = b.columns;
        to = onnx_add_computed(o, t, b.rows * b.columns);
        good = to != NULL;
    }
    for (i = 0; good && i < b.rows; i++) {
        const int64_t row = packed.count / b.rows;
        good = checkpoint_read(o->c, &packed, i * row, row, b.bytes, o->report) &&
               checkpoint_read(o->c, scales, i * b.count, b.count, b.scales, o->report) &&
               (!zeros || checkpoint_read(o->c, zeros, i * (zeros->count / b.rows),
                                          zeros->count / b.rows, b.zeros, o->report));
        for (k = 0; good && k < b.columns; k++) {
            const int64_t block = k / b.size;
            const float zero = !zeros         ? (float)(1u << (b.bits - 1))
                               : b.are_packed ? onnx_bits(b.zeros, block, b.bits)
                                              : b.zeros[block];
            const float value = (onnx_bits(b.bytes, k, b.bits) - zero) * b.scales[block];
            bytes_store_floats(to + (size_t)(i * b.columns + k) * sizeof(float), &value, 1);
        }
    }
    free(b.bytes);
    free(b.scales);
    free(b.zeros);
    return good;
}

/* Returns the DequantizeLinear node between a stored tensor and the constant v. Returns NULL if
 * there is none. */
static const onnx_node *onnx_dequantise_before(const onnx_reader *o, int v) {
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        if (!n || onnx_constant_tensor(o, v) >= 0) return NULL;
        if (n->op == OP_DEQUANTIZE) return n;
        v = onnx_input(n, 0);
    }
    return NULL;
}

/* === Names === */

enum { ONNX_NAME = 1100 };

/* True if the model's author gave this name, and false if an exporter invented it. `clean` becomes
 * the name without the suffixes that quantisers add. */
static bool onnx_is_given(const char *name, char clean[ONNX_NAME]) {
    static const char *const starts[] = { "onnx::", "val_", "/", "graph_", "_val" };
    static const char *const ends[] = { "_quantized", "_quant", "_Q4", "_Q8" };
    size_t i, length = strlen(name);
    snprintf(clean, ONNX_NAME, "%s", name);
    for (i = 0; i < COUNT(starts); i++)
        if (!strncmp(name, starts[i], strlen(starts[i]))) return false;
    if (strstr(name, "_output_") || strstr(name, "Constant") || strstr(name, "onnx::"))
        return false;
    for (i = 0; i < COUNT(ends); i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && !strcmp(name + length - end, ends[i])) clean[length - end] = '\0';
    }
    return clean[strspn(clean, "0123456789")] != '\0';
}

static bool onnx_ends(const char *name, const char *end) {
    const size_t length = strlen(name), size = strlen(end);
    return length >= size && !strcmp(name + length - size, end);
}

/* Turns the name of a node into the name of its module: "/vit/encoder/layer.0/attention/MatMul"
 * becomes "vit.encoder.layer.0.attention". PyTorch repeats the name of a list, as in
 * "/blocks/blocks.0". */
static bool onnx_scope(const char *name, char scope[ONNX_NAME]) {
    size_t used = 0, last = 0, length;
    scope[0] = '\0';
    if (*name != '/') return false;
    for (name++; strchr(name, '/'); name += length + 1) {
        length = strcspn(name, "/");
        if (used + length + 2 > ONNX_NAME) return false;
        if (used > last && used - last < length && !strncmp(scope + last, name, used - last) &&
            name[used - last] == '.')
            used = last; /* this part begins with the previous part */
        else if (used > 0) scope[used++] = '.';
        last = used;
        memcpy(scope + used, name, length);
        scope[used += length] = '\0';
    }
    return used > 0;
}

/* Finds the name of a parameter. If o->by_order is set, the name follows from the node's role.
 * Otherwise it is the parameter's own name, or follows from that of the layer's other parameter or
 * of the node's module. */
static bool onnx_find_name(const onnx_reader *o, const onnx_node *n, int v, const char *what,
                           int sibling, const char *whats, char name[ONNX_NAME]) {
    const int base = onnx_base(o, v), other = sibling >= 0 ? onnx_base(o, sibling) : -1;
    if (o->by_order) return n->role && snprintf(name, ONNX_NAME, "%s.%s", n->role, what) > 0;
    if (base >= 0 && onnx_is_given(o->values[base].name, name)) return true;
    if (other >= 0 && onnx_is_given(o->values[other].name, name) && onnx_ends(name, whats)) {
        snprintf(name + strlen(name) - strlen(whats), strlen(what) + 1, "%s", what);
        return true;
    }
    if (!onnx_scope(n->name, name) || strlen(name) + strlen(what) + 2 > ONNX_NAME) return false;
    strcat(strcat(name, "."), what);
    return true;
}

static bool onnx_name(onnx_reader *o, const onnx_node *n, int v, const char *what, int sibling,
                      const char *whats, char name[ONNX_NAME]) {
    return onnx_find_name(o, n, v, what, sibling, whats, name) ||
           onnx_refuse(
               o, n,
               "neither the names nor the order of the layers shows which layer this is; export "
               "the parameters with their names");
}

/* === Tensors of the checkpoint === */

static bool onnx_add(onnx_reader *o, checkpoint_tensor_info *t, const char *name) {
    t->name = name;
    return checkpoint_add_tensor(
        o->c, t, o->c->storages[t->storage].bytes.size / checkpoint_dtype_size(t->dtype),
        o->report);
}

/* Adds a parameter to the checkpoint in its stored shape. A quantised parameter becomes f32. Does
 * nothing if the parameter was already added. */
static bool onnx_publish(onnx_reader *o, const onnx_node *n, int v, const char *name) {
    const onnx_node *dequantise = onnx_dequantise_before(o, v);
    const int base = onnx_base(o, v);
    checkpoint_tensor_info t;
    if (base < 0)
        return onnx_refuse(o, n,
                           "expected a parameter from the file, found one that the graph computes");
    if (o->values[base].is_published) return true;
    o->values[base].is_published = true;
    t = o->tensors[onnx_constant_tensor(o, base)];
    if (t.count < 1) return onnx_refuse(o, n, "a parameter of a type that cannot be read");
    if (dequantise) {
        if (onnx_integer(dequantise, "block_size", 0) != 0)
            return onnx_refuse(o, dequantise,
                               "a separate scale for each block of weights is not supported");
        if (!onnx_dequantise(o, &t, onnx_input(dequantise, 1), onnx_input(dequantise, 2),
                             onnx_integer(dequantise, "axis", 1)))
            return false;
    } else if (!checkpoint_is_float(t.dtype)) {
        return onnx_refuse(o, n, "a parameter of integers without a scale");
    }
    return onnx_add(o, &t, name);
}

static void onnx_exchange(checkpoint_tensor_info *t) {
    const int64_t dim = t->dims[0], stride = t->strides[0];
    t->dims[0] = t->dims[1];
    t->dims[1] = dim;
    t->strides[0] = t->strides[1];
    t->strides[1] = stride;
}

/* Adds the weight of a layer to the checkpoint. The weight of a linear layer gets one row for each
 * output, as in PyTorch. */
static bool onnx_publish_weight(onnx_reader *o, onnx_node *n, const char *name) {
    const onnx_node *by = &o->nodes[n->scale_of];
    const int base = onnx_base(o, n->weight);
    checkpoint_tensor_info t = o->tensors[onnx_constant_tensor(o, base)];
    const bool is_integer = by->op == OP_MATMUL_INTEGER || by->op == OP_CONV_INTEGER;
    bool is_rows_first = n->part == PART_CONV || by->op == OP_MATMUL_NBITS;
    if (!is_rows_first)
        is_rows_first = onnx_is_transposed(o, n->weight) !=
                        (by->op == OP_GEMM && onnx_integer(by, "transB", 0) != 0);
    if (!is_integer && by->op != OP_MATMUL_NBITS && (is_rows_first || !onnx_ends(name, "weight")))
        return onnx_publish(o, n, n->weight, name);
    if (o->values[base].is_published) return true;
    o->values[base].is_published = true;
    if (t.count < 1) return onnx_refuse(o, n, "a weight of a type that cannot be read");
    if (by->op == OP_MATMUL_NBITS) {
        if (!onnx_unpack_blocks(o, by, &t)) return false;
    } else if (is_integer) {
        const int64_t axis = n->part == PART_CONV ? 0 : 1;
        if (!onnx_dequantise(o, &t, by->bias, onnx_input(by, 3), axis)) return false;
    } else if (onnx_dequantise_before(o, n->weight)) {
        const onnx_node *d = onnx_dequantise_before(o, n->weight);
        if (onnx_integer(d, "block_size", 0) != 0)
            return onnx_refuse(o, d, "a separate scale for each block of weights is not supported");
        if (!onnx_dequantise(o, &t, onnx_input(d, 1), onnx_input(d, 2), onnx_integer(d, "axis", 1)))
            return false;
    } else if (!checkpoint_is_float(t.dtype)) {
        return onnx_refuse(o, n, "a weight of integers without a scale");
    }
    if (!is_rows_first && onnx_ends(name, "weight")) onnx_exchange(&t);
    return onnx_add(o, &t, name);
}

static bool onnx_say(onnx_reader *o, const char *module, const char *name, const char *value) {
    return checkpoint_add_attribute(o->c, module, name, value, o->report);
}

/* Adds a number, such as 1e-06, as an attribute of a module. Writes the fewest digits that give the
 * same f32 or, for a number in f16, the same f16. */
static bool onnx_say_number(onnx_reader *o, const char *module, const char *name, double number) {
    char text[32];
    int digits;
    double read = 0;
    for (digits = 1; digits < 10; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (!text_read_number(text, -1e30, 1e30, &read)) break;
        if (bytes_to_half((float)read) == bytes_to_half((float)number) &&
            bytes_half(bytes_to_half((float)number)) == (float)number)
            break;
        if ((float)read == (float)number) break;
    }
    return onnx_say(o, module, name, text);
}

static void onnx_module(const char *weight, char module[ONNX_NAME]) {
    char *dot;
    snprintf(module, ONNX_NAME, "%s", weight);
    dot = strrchr(module, '.');
    if (dot) *dot = '\0';
}

/* === The roles of nodes === */

static bool onnx_take_conv(onnx_reader *o, onnx_node *n) {
    static const char *const lists[] = { "kernel_shape", "strides", "pads", "dilations" };
    static const char *const says[] = { "kernel_size", "stride", "padding" };
    const onnx_node *by = &o->nodes[n->scale_of];
    const onnx_attribute *pad = onnx_attribute_of(by, "auto_pad");
    char name[ONNX_NAME], module[ONNX_NAME], text[64];
    int i, k;
    if (onnx_before_quantised(o, n->from) != o->image)
        return onnx_refuse(o, n, "a convolution after the patch embedding");
    if (onnx_integer(by, "group", 1) != 1) return onnx_refuse(o, n, "a convolution in groups");
    if (pad && strcmp(pad->text, "NOTSET") != 0 && strcmp(pad->text, "VALID") != 0)
        return onnx_refuse(o, n, "a convolution with automatic padding");
    if (!onnx_name(o, n, n->weight, "weight", n->bias, "bias", name)) return false;
    onnx_module(name, module);
    if (!onnx_publish_weight(o, n, name) || !onnx_say(o, module, "class", "Conv2d")) return false;
    for (i = 0; i < 4; i++) {
        const onnx_attribute *a = onnx_attribute_of(by, lists[i]);
        for (k = 0; a && i == 3 && k < a->count; k++)
            if (a->integers[k] != 1) return onnx_refuse(o, n, "a convolution with dilations");
        if (!a || i == 3 || a->count < 2 || (a->integers[0] == 0 && a->integers[1] == 0)) continue;
        snprintf(text, sizeof text, "(%lld, %lld)", (long long)a->integers[0],
                 (long long)a->integers[1]);
        if (!onnx_say(o, module, says[i], text)) return false;
    }
    return n->bias < 0 || (onnx_name(o, n, n->bias, "bias", n->weight, "weight", name) &&
                           onnx_publish(o, n, n->bias, name));
}

static bool onnx_take_linear(onnx_reader *o, onnx_node *n) {
    char name[ONNX_NAME];
    if (!onnx_name(o, n, n->weight, "weight", n->bias, "bias", name)) return false;
    if (!onnx_publish_weight(o, n, name)) return false;
    if (n->bias < 0) return true;
    return onnx_name(o, n, n->bias, "bias", n->weight, "weight", name) &&
           onnx_publish(o, n, n->bias, name);
}

/* Finds the module that owns the weight of a layer. */
static bool onnx_module_of(onnx_reader *o, const onnx_node *n, char module[ONNX_NAME]) {
    char name[ONNX_NAME];
    if (!onnx_name(o, n, n->weight, "weight", n->bias, "bias", name)) return false;
    onnx_module(name, module);
    return true;
}

static bool onnx_take_norm_weights(onnx_reader *o, onnx_node *n) {
    /* f16 cannot hold an epsilon below this value exactly. In an f16 graph, such an epsilon is not
     * that of the model, so it is not reported. */
    const double least = 1.2e-7;
    char name[ONNX_NAME], module[ONNX_NAME];
    const checkpoint_tensor_info *t = onnx_tensor_of(o, n->weight);
    if (!onnx_name(o, n, n->weight, "weight", n->bias, "bias", name) ||
        !onnx_publish(o, n, n->weight, name))
        return false;
    onnx_module(name, module);
    if (n->bias >= 0 && (!onnx_name(o, n, n->bias, "bias", n->weight, "weight", name) ||
                         !onnx_publish(o, n, n->bias, name)))
        return false;
    return (t && t->dtype == CHECKPOINT_F16 && n->eps < least) ||
           onnx_say_number(o, module, "code.layer_norm_eps", n->eps);
}

/* Skips nodes that change neither the tokens nor their order. Returns the value before these
 * nodes. */
static int onnx_plain(onnx_reader *o, int v) {
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        const onnx_attribute *perm;
        float sizes[ONNX_MOST_NUMBERS];
        if (!n || n->part != PART_NONE || !onnx_is_view(n->op)) break;
        if (n->op == OP_GATHER || n->op == OP_SLICE || n->op == OP_SPLIT || n->op == OP_EXPAND)
            break;
        perm = onnx_attribute_of(n, "perm");
        if (n->op == OP_TRANSPOSE && (!perm || perm->count != 3 || perm->integers[2] != 2)) break;
        if (n->op == OP_RESHAPE && onnx_sizes(o, onnx_input(n, 1), sizes) > 3) break;
        v = onnx_input(n, 0);
    }
    return v;
}

/* A branch is the path through attention or an MLP. Returns the input of the first layer of the
 * branch that ends with v. Returns -1 if no branch ends there. */
static int onnx_branch(onnx_reader *o, int v, onnx_node **last, onnx_node **first) {
    onnx_node *n = onnx_producer(o, onnx_plain(o, v));
    int step;
    if (n && n->part == PART_NONE && n->op == OP_MUL) { /* A LayerScale ends the branch. */
        const int i = onnx_is_image(o, onnx_input(n, 0)) ? 0 : 1;
        if (onnx_base(o, onnx_input(n, 1 - i)) < 0) return -1;
        n = onnx_producer(o, onnx_plain(o, onnx_input(n, i)));
    }
    if (!n || n->part != PART_LINEAR) return -1;
    *last = n;
    for (step = 0, v = n->from; step < ONNX_MOST_STEPS; step++) {
        n = onnx_producer(o, v);
        if (!n) return -1;
        *first = n;
        if (n->part == PART_SCORES) return n->from;
        if (n->part == PART_LINEAR) return step > 0 ? n->from : -1;
        if (n->part == PART_ACT || n->part == PART_NORM) v = n->from;
        else if (n->part == PART_INSIDE) return -1;
        else if (n->op == OP_MUL) { /* The MLP is gated. */
            const onnx_node *a = onnx_producer(o, onnx_input(n, 0));
            if (!onnx_is_image(o, onnx_input(n, 0)) || !onnx_is_image(o, onnx_input(n, 1)))
                return -1;
            v = onnx_input(n, a && a->part == PART_ACT ? 0 : 1);
            a = onnx_producer(o, v);
            if (!a || a->part != PART_ACT) return -1;
            n->part = PART_INSIDE;
            v = a->from;
        } else if (onnx_is_view(n->op)) v = onnx_input(n, 0);
        else return -1;
    }
    return -1;
}

static bool onnx_take_residual(onnx_reader *o, onnx_node *n) {
    char module[ONNX_NAME];
    int i;
    for (i = 0; i < 2; i++) {
        onnx_node *last = NULL, *first = NULL;
        const onnx_node *norm;
        const int skip = onnx_plain(o, onnx_input(n, 1 - i));
        int from = onnx_branch(o, onnx_input(n, i), &last, &first);
        if (from < 0) continue;
        from = onnx_plain(o, from);
        norm = onnx_producer(o, from);
        if (from != skip && (!norm || norm->part != PART_NORM || onnx_plain(o, norm->from) != skip))
            continue;
        o->in_blocks = true;
        return onnx_module_of(o, last, module) &&
               onnx_say(o, module, "code.norm_first", from == skip ? "false" : "true");
    }
    return onnx_refuse(
        o, n,
        "not a residual connection: expected x plus attention or an MLP that reads x or norm(x)");
}

/* Makes a name for the class token or the positions if the exporter renamed them. The name follows
 * from the name of the patch embedding. */
static bool onnx_name_stem(onnx_reader *o, const onnx_node *n, int v, bool is_position,
                           char name[ONNX_NAME]) {
    static const char *const families[][3] = {
        { "patch_embed.proj.weight", "cls_token", "pos_embed" },
        { "patch_embeddings.projection.weight", "cls_token", "position_embeddings" },
        { "patch_embedding.weight", "class_embedding", "position_embedding.weight" },
    };
    const char *conv = o->c->tensor_count > 0 ? o->c->tensors[0].name : "";
    size_t i;
    if (!o->by_order && onnx_is_given(o->values[v].name, name)) return true;
    for (i = 0; i < COUNT(families); i++) {
        if (!onnx_ends(conv, families[i][0])) continue;
        snprintf(name, ONNX_NAME, "%.*s%s", (int)(strlen(conv) - strlen(families[i][0])), conv,
                 families[i][is_position ? 2 : 1]);
        return true;
    }
    return onnx_refuse(
        o, n,
        "the exporter did not keep the name of this constant; export the parameters with their "
        "names");
}

/* Finds the only parameter from which a constant is computed. The graph may slice or resample the
 * positions, for example. Returns false if there are several, or if the computation is too long. */
static bool onnx_only_leaf(const onnx_reader *o, int v, int depth, int *budget, int *leaf) {
    const onnx_node *n = onnx_producer(o, v);
    const int tensor = onnx_constant_tensor(o, v);
    int i;
    if (v < 0 || o->values[v].from_image) return v < 0;
    if (tensor >= 0) {
        const checkpoint_tensor_info *t = &o->tensors[tensor];
        if (t->count <= 16 || !checkpoint_is_float(t->dtype)) return true;
        if (*leaf >= 0 && *leaf != v) return false;
        return *leaf = v, true;
    }
    if (!n || depth == 0 || --*budget < 0) return n && n->op == OP_CONSTANT;
    if (n->op == OP_SHAPE) return true;
    for (i = 0; i < n->input_count; i++)
        if (!onnx_only_leaf(o, n->inputs[i], depth - 1, budget, leaf)) return false;
    return true;
}

static bool onnx_take_stem(onnx_reader *o, onnx_node *n, int v, bool is_position) {
    char name[ONNX_NAME];
    int leaf = onnx_base(o, v), budget = 200;
    if (o->in_blocks) return onnx_refuse(o, n, "a constant that no plain ViT has there");
    if (leaf < 0 && !onnx_only_leaf(o, v, 20, &budget, &leaf)) leaf = -1;
    if (leaf < 0)
        return onnx_refuse(
            o, n, "expected tokens or positions from the file, found some that the graph computes");
    return onnx_name_stem(o, n, leaf, is_position, name) && onnx_publish(o, n, leaf, name);
}

static bool onnx_take_add(onnx_reader *o, onnx_node *n) {
    const int image = onnx_is_image(o, onnx_input(n, 0)) ? 0 : 1;
    if (onnx_is_image(o, onnx_input(n, 0)) && onnx_is_image(o, onnx_input(n, 1)))
        return onnx_take_residual(o, n);
    return onnx_take_stem(o, n, onnx_input(n, 1 - image), true);
}

/* Adds the factors of a LayerScale, which ends a branch, to the checkpoint. */
static bool onnx_take_scale(onnx_reader *o, onnx_node *n) {
    const int image = onnx_is_image(o, onnx_input(n, 0)) ? 0 : 1, v = onnx_input(n, 1 - image);
    const onnx_node *layer = onnx_producer(o, onnx_plain(o, onnx_input(n, image)));
    const checkpoint_tensor_info *t = onnx_tensor_of(o, v);
    char name[ONNX_NAME];
    if (!t || t->count < 2 || !layer || layer->part != PART_LINEAR)
        return onnx_refuse(o, n, "a factor that no plain ViT has there");
    return onnx_name(o, n, v, "gamma", -1, "", name) && onnx_publish(o, n, v, name);
}

static bool onnx_take_concat(onnx_reader *o, onnx_node *n) {
    int i, images = 0;
    for (i = 0; i < n->input_count; i++) images += onnx_is_image(o, n->inputs[i]);
    if (images != 1 || onnx_integer(n, "axis", 0) != 1 ||
        !onnx_is_image(o, n->inputs[n->input_count - 1]))
        return onnx_refuse(o, n, "only class tokens and registers can be put before the patches");
    for (i = 0; i + 1 < n->input_count; i++)
        if (!onnx_take_stem(o, n, n->inputs[i], false)) return false;
    return true;
}

/* True if only views lie between the last norm and this value. *is_sliced becomes true if one of
 * the views is a slice. */
static bool onnx_is_normed(onnx_reader *o, int v, bool *is_sliced) {
    int step;
    for (step = 0; step < ONNX_MOST_STEPS; step++) {
        const onnx_node *n = onnx_producer(o, v);
        if (n && n->part == PART_NORM) return true;
        if (!n || n->part != PART_NONE || !onnx_is_view(n->op)) return false;
        if (n->op == OP_SLICE) *is_sliced = true;
        v = onnx_input(n, 0);
    }
    return false;
}

static bool onnx_say_pool(onnx_reader *o, const onnx_node *n, const char *word) {
    bool is_sliced = false;
    const bool is_normed = onnx_is_normed(o, onnx_input(n, 0), &is_sliced);
    /* A token can be taken before or after the norm: the result is the same. */
    const bool is_token = !strcmp(word, "token");
    return onnx_say(o, "", "code.pool", word) &&
           onnx_say(o, "", "code.norm_after_pool", is_normed || is_token ? "false" : "true") &&
           (is_token || onnx_say(o, "", "code.pool_prefix", is_sliced ? "false" : "true"));
}

/* Handles a mean over the tokens, which is the pooling of the model. */
static bool onnx_take_mean(onnx_reader *o, onnx_node *n) {
    const onnx_attribute *axes = onnx_attribute_of(n, "axes");
    float axis[1];
    const bool is_tokens = axes ? axes->count == 1 && axes->integers[0] == 1
                                : onnx_numbers(o, onnx_input(n, 1), axis, 1) == 1 && axis[0] > 0 &&
                                      axis[0] < 2;
    if (!is_tokens || !o->in_blocks)
        return onnx_refuse(o, n, "expected a mean over the tokens after the blocks");
    return onnx_say_pool(o, n, "avg");
}

/* Handles a node that takes one token, or all tokens but the first. Does nothing within attention,
 * where such a node takes q, k or v. */
static bool onnx_take_part(onnx_reader *o, onnx_node *n) {
    const onnx_node *from = onnx_producer(o, onnx_plain(o, onnx_input(n, 0)));
    float first[1], last[1], axis[1];
    bool is_stream;
    if (!onnx_is_image(o, onnx_input(n, 0)))
        return onnx_refuse(o, n, "the data that this node reads are not computed from the image");
    is_stream = from &&
                (from->part == PART_NORM || (from->part == PART_NONE && from->op == OP_ADD));
    if (n->op == OP_GATHER) {
        if (!is_stream || onnx_integer(n, "axis", 0) != 1) return true;
        if (onnx_numbers(o, onnx_input(n, 1), first, 1) != 1 || first[0] < 0 || first[0] > 0)
            return onnx_refuse(o, n, "takes a token other than the first one");
        return onnx_say_pool(o, n, "token");
    }
    if (!is_stream) return true;
    if (onnx_numbers(o, onnx_input(n, 1), first, 1) != 1 ||
        onnx_numbers(o, onnx_input(n, 2), last, 1) != 1 ||
        onnx_numbers(o, onnx_input(n, 3), axis, 1) != 1)
        return onnx_refuse(
            o, n, "expected a slice with constant limits, found limits that the graph computes");
    if (axis[0] < 1) return true; /* The slice is along the batch. */
    if (axis[0] > 1 || first[0] < 0)
        return last[0] > 1e6f || onnx_refuse(o, n, "a slice that takes a part of each token");
    if (last[0] > 1e6f) return true; /* The slice reaches to the last token. */
    if (first[0] > 0 || last[0] < 1 || last[0] > 1)
        return onnx_refuse(o, n, "a slice that takes tokens other than the first one");
    return onnx_say_pool(o, n, "token");
}

static bool onnx_take_scores(onnx_reader *o, onnx_node *n) {
    char module[ONNX_NAME], text[16];
    if (n->op != OP_SOFTMAX) return true;
    snprintf(text, sizeof text, "%d", n->heads);
    return onnx_module_of(o, &o->nodes[n->last], module) &&
           onnx_say(o, module, "code.num_heads", text) &&
           (!n->is_unscaled || onnx_say(o, module, "code.attn_scale", "1")) &&
           (!n->activation || onnx_say(o, module, "code.attn_root", n->activation));
}

static bool onnx_take_act(onnx_reader *o, onnx_node *n) {
    const onnx_node *layer = onnx_producer(o, onnx_plain(o, n->from));
    char module[ONNX_NAME];
    if (!layer || layer->part != PART_LINEAR) {
        const onnx_node *view = layer;
        if (view && view->part == PART_NONE && (view->op == OP_SPLIT || view->op == OP_SLICE))
            layer = onnx_producer(o, onnx_plain(o, onnx_input(view, 0)));
    }
    if (!layer || layer->part != PART_LINEAR)
        return onnx_refuse(o, n, "an activation that does not follow a linear layer");
    return onnx_module_of(o, layer, module) &&
           onnx_say(o, module, "code.activation", n->activation);
}

static bool onnx_take_end(onnx_reader *o, onnx_node *n) {
    const char *name = n->op == OP_SIGMOID   ? "sigmoid"
                       : n->op == OP_SOFTMAX ? "softmax"
                                             : "log_softmax";
    if (o->values[onnx_output(n)].user >= 0)
        return onnx_refuse(
            o, n, "outside attention, this operator is supported only at the end of the model");
    return onnx_say(o, "end", n->op == OP_SIGMOID ? "code.activation" : "code.softmax", name);
}

static bool onnx_take_node(onnx_reader *o, onnx_node *n) {
    switch (n->part) {
    case PART_INSIDE: return true;
    case PART_CONV: return onnx_take_conv(o, n);
    case PART_LINEAR: return onnx_take_linear(o, n);
    case PART_NORM: return onnx_take_norm_weights(o, n);
    case PART_ACT: return onnx_take_act(o, n);
    case PART_SCORES: return onnx_take_scores(o, n);
    case PART_NONE: break;
    }
    switch (n->op) {
    case OP_ADD: return onnx_take_add(o, n);
    case OP_MUL: return onnx_take_scale(o, n);
    case OP_CONCAT: return onnx_take_concat(o, n);
    case OP_REDUCE_MEAN: return onnx_take_mean(o, n);
    case OP_GATHER:
    case OP_SLICE: return onnx_take_part(o, n);
    case OP_SIGMOID:
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX: return onnx_take_end(o, n);
    case OP_SHAPE: return true;
    default:
        return onnx_is_view(n->op) || onnx_refuse(o, n, "no plain ViT has this operator there");
    }
}

/* === Graphs without names === */

/* The roles of the modules in a block and around the blocks. If one layer computes q, k and v, the
 * modules get timm's names. Otherwise they get the names of Hugging Face transformers. */
typedef enum onnx_role {
    ROLE_PATCHES,
    ROLE_NORM1,
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_PROJ,
    ROLE_SCALE1,
    ROLE_NORM2,
    ROLE_FC1,
    ROLE_FC2,
    ROLE_SCALE2,
    ROLE_NORM,
    ROLE_POOLED_NORM,
    ROLE_HEAD,
    ROLE_COUNT,
} onnx_role;

static const char *const onnx_roles[2][ROLE_COUNT] = {
    { "patch_embed.proj", "blocks.%d.norm1", "blocks.%d.attn.qkv", NULL, NULL,
      "blocks.%d.attn.proj", "blocks.%d.ls1", "blocks.%d.norm2", "blocks.%d.mlp.fc1",
      "blocks.%d.mlp.fc2", "blocks.%d.ls2", "norm", "fc_norm", "head" },
    { "vit.embeddings.patch_embeddings.projection", "vit.encoder.layer.%d.layernorm_before",
      "vit.encoder.layer.%d.attention.attention.query",
      "vit.encoder.layer.%d.attention.attention.key",
      "vit.encoder.layer.%d.attention.attention.value",
      "vit.encoder.layer.%d.attention.output.dense", NULL, "vit.encoder.layer.%d.layernorm_after",
      "vit.encoder.layer.%d.intermediate.dense", "vit.encoder.layer.%d.output.dense", NULL,
      "vit.layernorm", NULL, "classifier" },
};

/* Gives a node the name of a role, in one of the two families of names above. `is_apart` selects
 * the names of transformers. A node keeps its first role. A node without a role is refused
 * later. */
static bool onnx_set_role(onnx_reader *o, onnx_node *n, bool is_apart, onnx_role role, int block) {
    const char *format = onnx_roles[is_apart][role], *number = format ? strstr(format, "%d") : NULL;
    char text[96];
    if (!n || n->role || !format) return true;
    if (number)
        snprintf(text, sizeof text, "%.*s%d%s", (int)(number - format), format, block, number + 2);
    else snprintf(text, sizeof text, "%s", format);
    n->role = memory_copy_text(&o->memory, text, strlen(text));
    return n->role || report_no_memory(o->report);
}

/* Gives roles to the layers of the branch that ends at this Add. *block is the index of the block.
 * It increases after each MLP. */
static bool onnx_order_branch(onnx_reader *o, const onnx_node *add, int *block) {
    int i;
    for (i = 0; i < 2; i++) {
        onnx_node *last = NULL, *first = NULL, *scale, *softmax;
        const int from = onnx_branch(o, onnx_input(add, i), &last, &first);
        const bool is_attention = first && first->part == PART_SCORES;
        bool is_apart;
        if (from < 0) continue;
        if (!is_attention && !onnx_set_role(o, first, o->is_apart, ROLE_FC1, *block)) return false;
        if (is_attention) {
            softmax = &o->nodes[first->last];
            is_apart = o->is_apart = softmax->k != softmax->last;
            if (!onnx_set_role(o, &o->nodes[softmax->last], is_apart, ROLE_Q, *block) ||
                !onnx_set_role(o, &o->nodes[softmax->k], is_apart, ROLE_K, *block) ||
                !onnx_set_role(o, &o->nodes[softmax->v], is_apart, ROLE_V, *block))
                return false;
        }
        scale = onnx_producer(o, onnx_plain(o, onnx_input(add, i)));
        if (scale == last) scale = NULL;
        first = onnx_producer(o, onnx_plain(o, from));
        if (first && first->part != PART_NORM)
            /* The norm comes after the branch. Such a model is refused later. */
            first = NULL;
        if (!onnx_set_role(o, last, o->is_apart, is_attention ? ROLE_PROJ : ROLE_FC2, *block) ||
            !onnx_set_role(o, scale, o->is_apart, is_attention ? ROLE_SCALE1 : ROLE_SCALE2,
                           *block) ||
            !onnx_set_role(o, first, o->is_apart, is_attention ? ROLE_NORM1 : ROLE_NORM2, *block))
            return false;
        *block += !is_attention;
        return true;
    }
    return true;
}

/* True if the node gives the tokens after a residual connection, or some of these tokens. */
static bool onnx_residual_before(const onnx_reader *o, const onnx_node *n) {
    int step;
    for (step = 0; n && step < ONNX_MOST_STEPS; step++) {
        if (n->part != PART_NONE) return false;
        if (n->op == OP_ADD)
            return onnx_is_image(o, onnx_input(n, 0)) && onnx_is_image(o, onnx_input(n, 1));
        if (!onnx_is_view(n->op)) return false;
        n = onnx_producer(o, onnx_input(n, 0));
    }
    return false;
}

/* If some layers have lost their names, names all layers by their order. */
static bool onnx_name_by_order(onnx_reader *o) {
    int block = 0;
    bool is_named = true;
    char name[ONNX_NAME];
    size_t i;
    for (i = 0; i < o->node_count; i++) {
        const onnx_node *n = &o->nodes[i];
        if (n->part == PART_CONV || n->part == PART_LINEAR || n->part == PART_NORM)
            is_named = is_named && onnx_find_name(o, n, n->weight, "weight", n->bias, "bias", name);
    }
    if (is_named) return true;
    o->by_order = true;
    for (i = 0; i < o->node_count; i++) {
        const onnx_node *n = &o->nodes[i];
        if (n->part == PART_NONE && n->op == OP_ADD && onnx_is_image(o, onnx_input(n, 0)) &&
            onnx_is_image(o, onnx_input(n, 1)) && !onnx_order_branch(o, n, &block))
            return false;
    }
    for (i = 0; i < o->node_count; i++) {
        onnx_node *n = &o->nodes[i];
        const onnx_node *before = onnx_producer(o, onnx_plain(o, n->from));
        const bool is_pooled = before && before->op == OP_REDUCE_MEAN;
        const bool is_behind = n->part == PART_NORM &&
                               (is_pooled || (before && before->op != OP_CONCAT &&
                                              onnx_residual_before(o, before)));
        if (n->part == PART_CONV && !onnx_set_role(o, n, o->is_apart, ROLE_PATCHES, 0))
            return false;
        if (is_behind &&
            !onnx_set_role(o, n, o->is_apart, is_pooled ? ROLE_POOLED_NORM : ROLE_NORM, 0))
            return false;
        if (n->part == PART_LINEAR && o->values[onnx_output(n)].user < 0 &&
            !onnx_set_role(o, n, o->is_apart, ROLE_HEAD, 0))
            return false;
    }
    return true;
}

static bool onnx_read_layers(onnx_reader *o) {
    size_t i;
    for (i = 0; i < o->node_count; i++)
        if (onnx_is_image(o, onnx_output(&o->nodes[i])) && !onnx_find_layer(o, &o->nodes[i]))
            return false;
    for (i = 0; i < o->node_count; i++)
        if (o->nodes[i].op == OP_SOFTMAX && onnx_is_image(o, onnx_output(&o->nodes[i])) &&
            !onnx_find_scores(o, &o->nodes[i]))
            return false;
    if (!onnx_name_by_order(o)) return false;
    for (i = 0; i < o->node_count; i++)
        if (onnx_is_image(o, onnx_output(&o->nodes[i])) && !onnx_take_node(o, &o->nodes[i]))
            return false;
    return o->in_blocks ||
           report_fail(o->report, "ONNX: no attention blocks, so this is no plain ViT");
}

bool onnx_open(checkpoint *c, size_t file, report *r) {
    onnx_reader *o = calloc(1, sizeof *o);
    bool good;
    if (!o) return report_no_memory(r);
    o->c = c;
    o->file = file;
    o->report = r;
    o->memory = memory_make(ONNX_MEMORY);
    if (!c->buffer) c->buffer = malloc(CHECKPOINT_BUFFER_SIZE);
    good = c->buffer ? onnx_read_model(o) && onnx_read_layers(o) && !r->failed
                     : report_no_memory(r);
    free(o->tensors);
    free(o->nodes);
    free(o->values);
    free(o->table);
    memory_free(&o->memory);
    free(o);
    return good;
}
