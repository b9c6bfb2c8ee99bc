#define _DEFAULT_SOURCE   /* madvise */

#include "convert/pages.h"

#include <sys/mman.h>
#include <unistd.h>

void pages_drop(const vit_model *model)
{
    vit_tensor first, tensor;
    uintptr_t begin, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t end = 0;
    int i;
    if (!vit_model_tensor(model, 0, &first)) return;
    for (i = 0; vit_model_tensor(model, i, &tensor); i++) end = tensor.offset + tensor.size;
    begin = ((uintptr_t)first.data + page - 1) / page * page;
    end -= first.offset;
    if (end > page) {
        /* the address as an integer: the bytes themselves are never written */
        madvise((void *)begin, (size_t)end - page, MADV_DONTNEED);
    }
}
