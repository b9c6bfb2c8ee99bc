#include "checkpoint/onnx_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/container.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    ONNX_MOST_NODES = 50000,
    ONNX_MOST_TENSORS = CHECKPOINT_MAX_TENSORS,
    /* The largest number of users of one value that are followed. */
    ONNX_MOST_USERS = 64,
    /* The largest number of calls of onnx_numbers. A model with 48 blocks takes 3,507 calls. */
    ONNX_MOST_WORK = 1 << 20,
};

static const struct {
    const char *name;
    onnx_op op;
    /* True if the operator belongs to the domain com.microsoft. */
    bool is_microsofts;
} onnx_ops[] = {
    { "Add", OP_ADD, false },
    { "Cast", OP_CAST, false },
    { "Concat", OP_CONCAT, false },
    { "Constant", OP_CONSTANT, false },
    { "Conv", OP_CONV, false },
    { "ConvInteger", OP_CONV_INTEGER, false },
    { "DequantizeLinear", OP_DEQUANTIZE, false },
    { "Div", OP_DIV, false },
    { "Dropout", OP_DROPOUT, false },
    { "DynamicQuantizeLinear", OP_DYNAMIC_QUANTIZE, false },
    { "Erf", OP_ERF, false },
    { "Expand", OP_EXPAND, false },
    { "FastGelu", OP_FAST_GELU, true },
    { "Flatten", OP_FLATTEN, false },
    { "Gather", OP_GATHER, false },
    { "Gelu", OP_GELU, false },
    { "Gelu", OP_GELU, true },
    { "Gemm", OP_GEMM, false },
    { "Identity", OP_IDENTITY, false },
    { "LayerNormalization", OP_LAYER_NORM, false },
    { "LogSoftmax", OP_LOG_SOFTMAX, false },
    { "MatMul", OP_MATMUL, false },
    { "MatMulInteger", OP_MATMUL_INTEGER, false },
    { "MatMulNBits", OP_MATMUL_NBITS, true },
    { "Mul", OP_MUL, false },
    { "Pow", OP_POW, false },
    { "QuantizeLinear", OP_QUANTIZE, false },
    { "QuickGelu", OP_QUICK_GELU, true },
    { "Reciprocal", OP_RECIPROCAL, false },
    { "ReduceMean", OP_REDUCE_MEAN, false },
    { "Relu", OP_RELU, false },
    { "Reshape", OP_RESHAPE, false },
    { "Shape", OP_SHAPE, false },
    { "Sigmoid", OP_SIGMOID, false },
    { "Slice", OP_SLICE, false },
    { "Softmax", OP_SOFTMAX, false },
    { "Split", OP_SPLIT, false },
    { "Sqrt", OP_SQRT, false },
    { "Squeeze", OP_SQUEEZE, false },
    { "Sub", OP_SUB, false },
    { "Tanh", OP_TANH, false },
    { "Transpose", OP_TRANSPOSE, false },
    { "Unsqueeze", OP_UNSQUEEZE, false },
};

/* === Protobuf === */

typedef struct onnx_field {
    unsigned number, wire;
    /* The value of a varint or of a number with a fixed size. */
    uint64_t value;
    /* The offsets of the first byte and of the end of a field that consists of bytes. */
    uint64_t at, end;
} onnx_field;

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

static bool onnx_damaged(onnx_reader *o, uint64_t at) {
    return report_fail(o->report, "ONNX: damaged at byte %llu", (unsigned long long)at);
}

/* Reads bytes of the file. The caller must check that all of them are inside the file. */
static bool onnx_bytes(onnx_reader *o, uint64_t at, void *to, size_t size) {
    const source *s = &o->c->sources[o->file];
    if (at < o->window_at || at + size > o->window_at + o->window_size) {
        const uint64_t rest = s->size - at;
        if (size > sizeof o->window) return source_read(s, at, to, size, o->report);
        o->window_size = rest < sizeof o->window ? (size_t)rest : sizeof o->window;
        o->window_at = at;
        if (!source_read(s, at, o->window, o->window_size, o->report))
            return o->window_size = 0, false;
    }
    memcpy(to, o->window + (at - o->window_at), size);
    return true;
}

static bool onnx_varint(onnx_reader *o, uint64_t *at, uint64_t end, uint64_t *value) {
    unsigned shift;
    uint8_t byte;
    *value = 0;
    for (shift = 0; shift < 70 && *at < end; shift += 7) {
        if (!onnx_bytes(o, (*at)++, &byte, 1)) return false;
        if (shift < 64) *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return onnx_damaged(o, *at);
}

/* Reads the next field of a message, and moves *at to the end of the field. Returns false at the
 * end of the message, or if the message is damaged. */
static bool onnx_next(onnx_reader *o, uint64_t *at, uint64_t end, onnx_field *f) {
    uint8_t bytes[8];
    uint64_t tag;
    if (*at >= end || o->report->failed || !onnx_varint(o, at, end, &tag)) return false;
    f->number = (unsigned)(tag >> 3 & 0x1fffffff);
    f->wire = tag & 7;
    if (f->wire == WIRE_VARINT) return onnx_varint(o, at, end, &f->value);
    if (f->wire == WIRE_BYTES) {
        if (!onnx_varint(o, at, end, &f->value)) return false;
        if (f->value > end - *at) return onnx_damaged(o, *at);
        f->at = *at;
        f->end = *at += f->value;
        return true;
    }
    if (f->wire != WIRE_64 && f->wire != WIRE_32) return onnx_damaged(o, *at);
    tag = f->wire == WIRE_64 ? 8 : 4;
    if (tag > end - *at) return onnx_damaged(o, *at);
    if (!onnx_bytes(o, *at, bytes, (size_t)tag)) return false;
    f->value = tag == 8 ? bytes_load64(bytes) : bytes_load32(bytes);
    *at += tag;
    return true;
}

/* Returns the text of a field. Returns "" on failure, or if the field does not consist of bytes. */
static const char *onnx_text(onnx_reader *o, const onnx_field *f) {
    const size_t size = f->wire == WIRE_BYTES ? (size_t)(f->end - f->at) : 0;
    char text[1025];
    char *copy;
    if (f->wire == WIRE_BYTES && f->end - f->at > 1024)
        return (void)report_fail(o->report, "ONNX: a name of more than 1024 bytes"), "";
    if (size > 0 && !onnx_bytes(o, f->at, text, size)) return "";
    if (size > 0 && !text_is_name(text, size))
        return (void)report_fail(o->report, "ONNX: a name is not printable UTF-8"), "";
    copy = memory_copy_text(&o->memory, text, size);
    if (!copy) return (void)report_no_memory(o->report), "";
    return copy;
}

/* Appends the integers of a field to the array. The field may be packed, or may hold a single
 * integer. Integers that no longer fit into the array are dropped and not counted. */
static bool onnx_integers(onnx_reader *o, const onnx_field *f, int64_t *to, int most, int *count) {
    uint64_t at = f->at, value = f->value;
    if (f->wire != WIRE_BYTES) {
        if (*count < most) to[*count] = (int64_t)value;
        *count += *count < most;
        return true;
    }
    while (at < f->end) {
        if (!onnx_varint(o, &at, f->end, &value)) return false;
        if (*count < most) to[*count] = (int64_t)value;
        *count += *count < most;
    }
    return true;
}

/* === Tensors === */

static const struct {
    int type;
    checkpoint_dtype dtype;
} onnx_types[] = {
    { 1, CHECKPOINT_F32 },  { 2, CHECKPOINT_U8 },    { 3, CHECKPOINT_I8 },   { 5, CHECKPOINT_I16 },
    { 6, CHECKPOINT_I32 },  { 7, CHECKPOINT_I64 },   { 9, CHECKPOINT_BOOL }, { 10, CHECKPOINT_F16 },
    { 11, CHECKPOINT_F64 }, { 16, CHECKPOINT_BF16 },
};

/* The place of a tensor's data: one of several fields of the tensor's message, or another file
 * (is_external). A field of numbers may be stored in several parts. */
typedef struct onnx_data {
    /* The offset and the size of the raw bytes. */
    uint64_t at, size;
    bool is_raw, is_external;
    /* The offsets of the first byte and of the end of the tensor's message. */
    uint64_t first, end;
    unsigned field;
    const char *location;
    uint64_t offset, length;
    bool has_length;
} onnx_data;

static bool onnx_external(onnx_reader *o, uint64_t at, uint64_t end, onnx_data *d) {
    const char *key = "", *value = "";
    onnx_field f;
    char *rest;
    while (onnx_next(o, &at, end, &f)) {
        if (f.number == 1) key = onnx_text(o, &f);
        if (f.number == 2) value = onnx_text(o, &f);
    }
    if (!strcmp(key, "location")) d->location = value;
    if (strcmp(key, "offset") != 0 && strcmp(key, "length") != 0) return !o->report->failed;
    if (value[0] < '0' || value[0] > '9' || strlen(value) > 18)
        return report_fail(o->report, "ONNX: external data: %s: expected a number, found \"%.50s\"",
                           key, value);
    if (key[0] == 'o') d->offset = strtoull(value, &rest, 10);
    else d->length = strtoull(value, &rest, 10), d->has_length = true;
    return !o->report->failed;
}

/* Reads the numbers in int32_data, int64_data, float_data or double_data, and writes them as raw
 * little-endian bytes. */
static bool onnx_gather_numbers(onnx_reader *o, const onnx_data *d, size_t size, uint64_t bytes,
                                uint8_t *to) {
    const unsigned wire = d->field == 4 ? WIRE_32 : d->field == 10 ? WIRE_64 : WIRE_VARINT;
    uint64_t at = d->first, used = 0, value;
    onnx_field f;
    while (onnx_next(o, &at, d->end, &f)) {
        uint64_t i = f.at;
        if (f.number != d->field) continue;
        if (f.wire != WIRE_BYTES && f.wire != wire) return onnx_damaged(o, at);
        do {
            uint8_t number[8];
            unsigned k;
            value = f.value;
            if (f.wire == WIRE_BYTES && i >= f.end) break;
            if (f.wire == WIRE_BYTES && wire == WIRE_VARINT) {
                if (!onnx_varint(o, &i, f.end, &value)) return false;
            } else if (f.wire == WIRE_BYTES) {
                if (size > f.end - i) return onnx_damaged(o, i);
                if (!onnx_bytes(o, i, number, size)) return false;
                value = size == 8 ? bytes_load64(number) : bytes_load32(number);
                i += size;
            }
            if (size > bytes - used) return onnx_damaged(o, i);
            for (k = 0; k < size; k++) to[used++] = (uint8_t)(value >> 8 * k);
        } while (f.wire == WIRE_BYTES);
    }
    return !o->report->failed && (used == bytes || onnx_damaged(o, d->end));
}

static bool onnx_store(onnx_reader *o, checkpoint_tensor_info *t, const onnx_data *d) {
    const size_t size = checkpoint_dtype_size(t->dtype);
    checkpoint_storage s = { 0 };
    uint64_t bytes = size;
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] < 0 || !bytes_multiply(bytes, (uint64_t)t->dims[i], &bytes))
            return report_fail(o->report, "%.200s: the shape is negative or too large", t->name);
    t->count = (int64_t)(bytes / size);
    if (t->count == 0) return true; /* stands for an operand that the graph leaves out */
    s.file = o->file;
    s.bytes.offset = d->at;
    if (d->is_external) {
        if (d->has_length && d->length != bytes)
            return report_fail(o->report,
                               "%.200s: found %llu bytes of external data, expected %llu", t->name,
                               (unsigned long long)d->length, (unsigned long long)bytes);
        if (!checkpoint_open_beside(o->c, o->file, d->location, &s.file, o->report)) return false;
        if (d->offset > o->c->sources[s.file].size ||
            bytes > o->c->sources[s.file].size - d->offset)
            return report_fail(o->report, "%.200s: the file %.200s ends before this tensor ends",
                               t->name, d->location);
        s.bytes.offset = d->offset;
    } else if (d->is_raw) {
        if (d->size != bytes)
            return report_fail(o->report, "%.200s: %llu bytes, but type and shape require %llu",
                               t->name, (unsigned long long)d->size, (unsigned long long)bytes);
    } else {
        uint8_t *block;
        if (bytes / 16 > d->end - d->first) return onnx_damaged(o, d->first);
        block = checkpoint_add_block(o->c, bytes, o->report);
        if (!block || !onnx_gather_numbers(o, d, size, bytes, block)) return false;
        s.memory = block;
        s.bytes.offset = 0;
    }
    s.bytes.size = s.bytes.stored_size = bytes;
    s.bytes.name = paths_file_name(o->c->files[s.file].path);
    t->container_name = s.bytes.name;
    checkpoint_contiguous_strides(t);
    return checkpoint_add_storage(o->c, &s, &t->storage, o->report);
}

static bool onnx_read_tensor(onnx_reader *o, uint64_t at, uint64_t end, int *index) {
    checkpoint_tensor_info t = { 0 }, *tensors;
    onnx_data d = { 0 };
    onnx_field f;
    int64_t type = 0;
    size_t i;
    t.name = "";
    d.first = at;
    d.end = end;
    while (onnx_next(o, &at, end, &f)) {
        if (f.number == 1 && !onnx_integers(o, &f, t.dims, CHECKPOINT_MAX_DIMS, &t.ndim)) break;
        if (f.number == 2) type = (int64_t)f.value;
        if (f.number == 8) t.name = onnx_text(o, &f);
        if (f.number == 4 || f.number == 5 || f.number == 7 || f.number == 10) d.field = f.number;
        if (f.number == 13 && f.wire == WIRE_BYTES && !onnx_external(o, f.at, f.end, &d)) break;
        if (f.number == 14) d.is_external = f.value == 1;
        if (f.number != 9 || f.wire != WIRE_BYTES) continue;
        d.is_raw = true;
        d.at = f.at;
        d.size = f.end - f.at;
    }
    if (o->report->failed) return false;
    if (o->tensor_count >= ONNX_MOST_TENSORS)
        return report_fail(o->report, "ONNX: more than %d tensors", ONNX_MOST_TENSORS);
    for (i = 0; i < COUNT(onnx_types) && onnx_types[i].type != type; i++) continue;
    if (i < COUNT(onnx_types)) {
        t.dtype = onnx_types[i].dtype;
        if (!onnx_store(o, &t, &d)) return false;
    }
    tensors = memory_grow(o->tensors, sizeof t, o->tensor_count, &o->tensor_capacity);
    if (!tensors) return report_no_memory(o->report);
    o->tensors = tensors;
    tensors[o->tensor_count] = t;
    *index = (int)o->tensor_count++;
    return true;
}

/* === Values === */

static bool onnx_grow_table(onnx_reader *o) {
    const size_t size = o->table_size ? 2 * o->table_size : 1024;
    int *table = malloc(size * sizeof *table);
    size_t i, at;
    if (!table) return report_no_memory(o->report);
    for (i = 0; i < size; i++) table[i] = -1;
    for (i = 0; i < o->value_count; i++) {
        const char *p = o->values[i].name;
        uint32_t hash = 2166136261u;
        for (; *p; p++) hash = (hash ^ (uint8_t)*p) * 16777619u;
        for (at = hash & (size - 1); table[at] >= 0; at = (at + 1) & (size - 1)) continue;
        table[at] = (int)i;
    }
    free(o->table);
    o->table = table;
    o->table_size = size;
    return true;
}

/* Returns the index of the value with this name. Adds the value if the name is new. Returns -1 if
 * memory is exhausted. */
static int onnx_value_of(onnx_reader *o, const char *name) {
    onnx_value *values, v = { 0 };
    uint32_t hash = 2166136261u;
    const char *p;
    size_t at;
    if (2 * o->value_count >= o->table_size && !onnx_grow_table(o)) return -1;
    for (p = name; *p; p++) hash = (hash ^ (uint8_t)*p) * 16777619u;
    for (at = hash & (o->table_size - 1); o->table[at] >= 0; at = (at + 1) & (o->table_size - 1))
        if (!strcmp(o->values[o->table[at]].name, name)) return o->table[at];
    values = memory_grow(o->values, sizeof v, o->value_count, &o->value_capacity);
    if (!values) return (void)report_no_memory(o->report), -1;
    o->values = values;
    v.name = name;
    v.producer = v.tensor = v.user = -1;
    values[o->value_count] = v;
    return o->table[at] = (int)o->value_count++;
}

/* === Nodes === */

static bool onnx_read_attribute(onnx_reader *o, uint64_t at, uint64_t end, onnx_attribute *a) {
    onnx_field f;
    memset(a, 0, sizeof *a);
    a->name = a->text = "";
    a->tensor = -1;
    while (onnx_next(o, &at, end, &f)) {
        if (f.number == 1) a->name = onnx_text(o, &f);
        if (f.number == 2) a->number = bytes_float((uint32_t)f.value);
        if (f.number == 3) a->integer = (int64_t)f.value;
        if (f.number == 4 && f.wire == WIRE_BYTES && f.end - f.at <= 64) a->text = onnx_text(o, &f);
        if (f.number == 5 && f.wire == WIRE_BYTES && !onnx_read_tensor(o, f.at, f.end, &a->tensor))
            return false;
        if (f.number == 8 && !onnx_integers(o, &f, a->integers, ONNX_MOST_NUMBERS, &a->count))
            return false;
    }
    return !o->report->failed;
}

static onnx_op onnx_find_op(const char *name, const char *domain) {
    const bool is_microsofts = !strcmp(domain, "com.microsoft");
    size_t i;
    if (domain[0] && strcmp(domain, "ai.onnx") != 0 && !is_microsofts) return OP_OTHER;
    for (i = 0; i < COUNT(onnx_ops); i++)
        if (!strcmp(onnx_ops[i].name, name) && onnx_ops[i].is_microsofts == is_microsofts)
            return onnx_ops[i].op;
    return OP_OTHER;
}

/* Counts the fields of a node by their numbers. The counts are the sizes of the node's arrays. */
static bool onnx_count_node(onnx_reader *o, uint64_t at, uint64_t end, size_t counts[6]) {
    onnx_field f;
    memset(counts, 0, 6 * sizeof *counts);
    while (onnx_next(o, &at, end, &f))
        if (f.number < 6) counts[f.number]++;
    if (o->report->failed) return false;
    return (counts[1] <= ONNX_MOST_INPUTS && counts[2] <= ONNX_MOST_INPUTS && counts[5] <= 32) ||
           report_fail(
               o->report,
               "ONNX: a node has more than %d inputs or outputs, or more than 32 attributes",
               ONNX_MOST_INPUTS);
}

static bool onnx_add_output(onnx_reader *o, onnx_node *n, const onnx_field *f) {
    const char *name = onnx_text(o, f);
    int v = -1;
    if (name[0]) {
        v = onnx_value_of(o, name);
        if (v < 0 || o->report->failed) return false;
        if (o->values[v].producer >= 0)
            return report_fail(o->report, "ONNX: two nodes give \"%.200s\"", name);
        o->values[v].producer = (int)o->node_count;
    }
    n->outputs[n->output_count++] = v;
    return !o->report->failed;
}

static bool onnx_read_node(onnx_reader *o, uint64_t at, uint64_t end) {
    size_t counts[6];
    onnx_node n = { 0 }, *nodes;
    onnx_field f;
    if (o->node_count >= ONNX_MOST_NODES)
        return report_fail(o->report, "ONNX: more than %d nodes", ONNX_MOST_NODES);
    if (!onnx_count_node(o, at, end, counts)) return false;
    n.name = n.op_name = n.domain = "";
    n.inputs = memory_take(&o->memory, (2 * counts[1] + counts[2] + 1) * sizeof *n.inputs);
    n.attributes = memory_take(&o->memory, (counts[5] + 1) * sizeof *n.attributes);
    if (!n.inputs || !n.attributes) return report_no_memory(o->report);
    n.next_use = n.inputs + counts[1];
    n.outputs = n.next_use + counts[1];
    n.from = n.weight = n.bias = n.scale_of = n.last = -1;
    while (onnx_next(o, &at, end, &f)) {
        if (f.number == 1) {
            const char *name = onnx_text(o, &f);
            n.inputs[n.input_count++] = name[0] ? onnx_value_of(o, name) : -1;
        }
        if (f.number == 2 && !onnx_add_output(o, &n, &f)) return false;
        if (f.number == 3) n.name = onnx_text(o, &f);
        if (f.number == 4) n.op_name = onnx_text(o, &f);
        if (f.number == 5 && f.wire == WIRE_BYTES &&
            !onnx_read_attribute(o, f.at, f.end, &n.attributes[n.attribute_count++]))
            return false;
        if (f.number == 7) n.domain = onnx_text(o, &f);
    }
    if (o->report->failed) return false;
    n.op = onnx_find_op(n.op_name, n.domain);
    nodes = memory_grow(o->nodes, sizeof n, o->node_count, &o->node_capacity);
    if (!nodes) return report_no_memory(o->report);
    o->nodes = nodes;
    nodes[o->node_count++] = n;
    return true;
}

/* === The graph === */

static bool onnx_read_initialiser(onnx_reader *o, uint64_t at, uint64_t end) {
    int tensor = -1, v;
    if (!onnx_read_tensor(o, at, end, &tensor)) return false;
    v = onnx_value_of(o, o->tensors[tensor].name);
    if (v < 0) return false;
    if (o->values[v].tensor >= 0)
        return report_fail(o->report, "duplicate tensor \"%.200s\"", o->values[v].name);
    o->values[v].tensor = tensor;
    return true;
}

static bool onnx_read_input(onnx_reader *o, uint64_t at, uint64_t end) {
    onnx_field f;
    while (onnx_next(o, &at, end, &f)) {
        int v;
        if (f.number != 1) continue;
        v = onnx_value_of(o, onnx_text(o, &f));
        if (v < 0) return false;
        o->values[v].is_ready = true;
    }
    return !o->report->failed;
}

static bool onnx_read_graph(onnx_reader *o, uint64_t at, uint64_t end) {
    onnx_field f;
    while (onnx_next(o, &at, end, &f)) {
        if (f.wire != WIRE_BYTES) continue;
        if (f.number == 1 && !onnx_read_node(o, f.at, f.end)) return false;
        if (f.number == 5 && !onnx_read_initialiser(o, f.at, f.end)) return false;
        if (f.number == 11 && !onnx_read_input(o, f.at, f.end)) return false;
        if (f.number == 15)
            return report_fail(o->report, "ONNX: sparse initialisers cannot be read");
    }
    return !o->report->failed;
}

static bool onnx_read_file(onnx_reader *o) {
    const uint64_t end = o->c->sources[o->file].size;
    uint64_t at = 0;
    onnx_field f = { 0 };
    while (onnx_next(o, &at, end, &f)) {
        if (f.number != 7 || f.wire != WIRE_BYTES) continue;
        if (o->has_graph) return report_fail(o->report, "ONNX: two graphs in one file");
        o->has_graph = true;
        if (!onnx_read_graph(o, f.at, f.end)) return false;
    }
    if (o->report->failed) return false;
    return o->has_graph || report_fail(o->report, "ONNX: no graph inside");
}

/* === Access === */

bool onnx_refuse(const onnx_reader *o, const onnx_node *n, const char *why) {
    return report_fail(
        o->report, "node \"%.200s\" (%.60s, input \"%.200s\"): %s", n->name, n->op_name,
        n->input_count > 0 && n->inputs[0] >= 0 ? o->values[n->inputs[0]].name : "", why);
}

int onnx_input(const onnx_node *n, int i) { return i < n->input_count ? n->inputs[i] : -1; }

onnx_node *onnx_producer(const onnx_reader *o, int v) {
    return v >= 0 && o->values[v].producer >= 0 ? &o->nodes[o->values[v].producer] : NULL;
}

bool onnx_is_image(const onnx_reader *o, int v) { return v >= 0 && o->values[v].from_image; }

const onnx_attribute *onnx_attribute_of(const onnx_node *n, const char *name) {
    int i;
    for (i = 0; i < n->attribute_count; i++)
        if (!strcmp(n->attributes[i].name, name)) return &n->attributes[i];
    return NULL;
}

int64_t onnx_integer(const onnx_node *n, const char *name, int64_t otherwise) {
    const onnx_attribute *a = onnx_attribute_of(n, name);
    return a ? a->integer : otherwise;
}

/* Follows at most ONNX_MOST_USERS uses of value v. */
onnx_node *onnx_user(const onnx_reader *o, int v, onnx_op op, const onnx_node *after) {
    int use = v >= 0 ? o->values[v].user : -1, steps = 0;
    bool is_after = !after;
    for (; use >= 0 && steps < ONNX_MOST_USERS; steps++) {
        onnx_node *n = &o->nodes[use / ONNX_MOST_INPUTS];
        use = n->next_use[use % ONNX_MOST_INPUTS];
        /* A node without a first output belongs to no layer. */
        if (is_after && n->op == op && n->output_count > 0 && n->outputs[0] >= 0) return n;
        is_after = is_after || n == after;
    }
    return NULL;
}

int onnx_other(const onnx_node *n, int v) {
    return onnx_input(n, n->input_count > 0 && n->inputs[0] == v ? 1 : 0);
}

int onnx_constant_tensor(const onnx_reader *o, int v) {
    const onnx_node *n = onnx_producer(o, v);
    const onnx_attribute *a = n && n->op == OP_CONSTANT ? onnx_attribute_of(n, "value") : NULL;
    return v < 0 ? -1 : a ? a->tensor : o->values[v].tensor;
}

int onnx_numbers(onnx_reader *o, int v, float *to, int most) {
    const int tensor = onnx_constant_tensor(o, v);
    const onnx_node *n = onnx_producer(o, v);
    const checkpoint_tensor_info *t = tensor >= 0 ? &o->tensors[tensor] : NULL;
    const onnx_attribute *a;
    int i;
    if (o->report->failed) return -1;
    if (++o->work > ONNX_MOST_WORK)
        return (void)report_fail(o->report, "ONNX: the shapes take too long to compute"), -1;
    if (t && t->count > 0 && t->count <= most)
        return checkpoint_read(o->c, t, 0, t->count, to, o->report) ? (int)t->count : -1;
    if (t || !n || n->op != OP_CONSTANT || n->attribute_count != 1) return -1;
    a = &n->attributes[0];
    if (!strcmp(a->name, "value_float")) return to[0] = a->number, 1;
    if (!strcmp(a->name, "value_int")) return to[0] = (float)a->integer, 1;
    if (strcmp(a->name, "value_ints") != 0 || a->count > most) return -1;
    for (i = 0; i < a->count; i++) to[i] = (float)a->integers[i];
    return a->count;
}

/* === The whole graph === */

/* Links each value to its users. Checks that each node comes after the nodes whose values it
 * uses. */
static bool onnx_link(onnx_reader *o) {
    size_t i;
    int k;
    for (i = o->node_count; i-- > 0;)
        for (k = 0; k < o->nodes[i].input_count; k++) {
            const int v = o->nodes[i].inputs[k];
            if (v < 0) continue;
            o->nodes[i].next_use[k] = o->values[v].user;
            o->values[v].user = (int)i * ONNX_MOST_INPUTS + k;
        }
    for (i = 0; i < o->node_count; i++) {
        const onnx_node *n = &o->nodes[i];
        for (k = 0; k < n->input_count; k++) {
            const onnx_value *v = n->inputs[k] >= 0 ? &o->values[n->inputs[k]] : NULL;
            if (v && v->tensor < 0 && !v->is_ready)
                return report_fail(o->report,
                                   "node \"%.200s\" (%.60s): no earlier node gives "
                                   "\"%.200s\"",
                                   n->name, n->op_name, v->name);
        }
        for (k = 0; k < n->output_count; k++)
            if (n->outputs[k] >= 0) o->values[n->outputs[k]].is_ready = true;
    }
    return true;
}

/* Finds the graph's input that the first convolution reads. Marks all values that are computed from
 * this input, except shapes. */
static bool onnx_follow_image(onnx_reader *o) {
    size_t i;
    int k;
    o->image = -1;
    for (i = 0; i < o->node_count && o->image < 0; i++) {
        const onnx_node *n = &o->nodes[i];
        int step;
        if (n->op != OP_CONV && n->op != OP_CONV_INTEGER) continue;
        o->image = onnx_input(n, 0);
        for (step = 0; step < ONNX_MOST_STEPS; step++) {
            const onnx_node *before = onnx_producer(o, o->image);
            if (!before) break;
            o->image = onnx_input(before, 0);
        }
    }
    if (o->image < 0 || o->values[o->image].tensor >= 0)
        return report_fail(o->report,
                           "ONNX: no convolution reads the image, so this is no plain ViT");
    o->values[o->image].from_image = true;
    for (i = 0; i < o->node_count; i++) {
        const onnx_node *n = &o->nodes[i];
        bool from_image = false;
        if (n->op == OP_SHAPE) continue;
        for (k = 0; k < n->input_count; k++)
            from_image = from_image || onnx_is_image(o, n->inputs[k]);
        for (k = 0; from_image && k < n->output_count; k++)
            if (n->outputs[k] >= 0) o->values[n->outputs[k]].from_image = true;
    }
    return true;
}

bool onnx_read_model(onnx_reader *o) {
    return onnx_read_file(o) && onnx_link(o) && onnx_follow_image(o);
}
