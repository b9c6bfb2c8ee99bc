#include "base/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const dtype_names[] = { "f32", "f16", "bf16", "int8", "int4" };
typedef char
    all_dtypes_have_names[sizeof dtype_names / sizeof *dtype_names == VIT_NUM_DTYPES ? 1 : -1];

bool tensor_values_are_finite(const float *values, size_t n) {
    size_t i;
    for (i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

const char *tensor_dtype_name(vit_dtype dtype) { return dtype_names[dtype]; }

int tensor_find_dtype(const char *name) {
    static const struct {
        const char *name;
        vit_dtype dtype;
    } others[] = {
        { "float32", VIT_F32 },   { "fp32", VIT_F32 }, { "float", VIT_F32 },
        { "float16", VIT_F16 },   { "fp16", VIT_F16 }, { "half", VIT_F16 },
        { "bfloat16", VIT_BF16 },
    };
    int i;
    size_t k;
    for (i = 0; i < VIT_NUM_DTYPES; i++)
        if (!strcmp(name, dtype_names[i])) return i;
    for (k = 0; k < sizeof others / sizeof *others; k++)
        if (!strcmp(name, others[k].name)) return (int)others[k].dtype;
    return -1;
}

bool tensor_is_quantised(vit_dtype dtype) {
    switch (dtype) {
    case VIT_I8:
    case VIT_I4: return true;
    case VIT_F32:
    case VIT_F16:
    case VIT_BF16:
    case VIT_NUM_DTYPES: break;
    }
    return false;
}

uint64_t tensor_count(const vit_tensor *tensor) {
    return (uint64_t)tensor->dims[0] * tensor_depth(tensor);
}

size_t tensor_depth(const vit_tensor *tensor) {
    size_t depth = 1;
    int i;
    for (i = 1; i < tensor->ndim; i++) depth *= (size_t)tensor->dims[i];
    return depth;
}

void tensor_split(int n, int factors[2]) {
    int low;
    for (low = 1, factors[0] = 1; low <= n / low; low++)
        if (n % low == 0) factors[0] = low;
    factors[1] = n / factors[0];
}

const char *shape_text(const int64_t *dims, int ndim, char *text, size_t size) {
    size_t used = 0;
    int i;
    for (i = 0; i < ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "[",
                                 (long long)dims[i]);
    if (used < size) snprintf(text + used, size - used, ndim ? "]" : "[]");
    return text;
}

const char *tensor_shape(const vit_tensor *tensor, char text[SHAPE_TEXT_SIZE]) {
    int64_t dims[4];
    int i;
    for (i = 0; i < tensor->ndim; i++) dims[i] = tensor->dims[i];
    return shape_text(dims, tensor->ndim, text, SHAPE_TEXT_SIZE);
}
