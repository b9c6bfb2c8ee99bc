#include "numbers/tensor_values.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"

static bool find(const vit_model *model, const char *name, vit_tensor *tensor)
{
    for (int i = 0; vit_model_tensor(model, i, tensor); i++)
        if (strcmp(tensor->name, name) == 0) return true;
    return false;
}

float *tensor_values(const vit_model *model, const char *name, vit_tensor *tensor, report *r)
{
    size_t width = 1;
    float *values;
    if (!find(model, name, tensor)) {
        (void)report_fail(r, "the model has no tensor %s", name);
        return NULL;
    }
    for (int i = 1; i < tensor->ndim; i++) width *= (size_t)tensor->dims[i];
    values = malloc((size_t)tensor->dims[0] * width * sizeof *values);
    if (!values) (void)report_no_memory(r);
    for (int i = 0; values && i < tensor->dims[0]; i++)
        vit_unpack_row(tensor, i, values + (size_t)i * width);
    if (!values || tensor_values_are_finite(values, (size_t)tensor->dims[0] * width)) return values;
    free(values);
    (void)report_fail(r, "some values of %s are NaN or infinite", name);
    return NULL;
}
