#include "convert/pages.h"

#include "os/os.h"

void pages_drop(const vit_model *model)
{
    vit_tensor first, tensor;
    uint64_t end = 0;
    int i;
    if (!vit_model_tensor(model, 0, &first)) return;
    for (i = 0; vit_model_tensor(model, i, &tensor); i++) end = tensor.offset + tensor.size;
    os_drop_pages(first.data, (size_t)(end - first.offset));
}
