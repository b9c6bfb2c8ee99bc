/* fuzz_structure.c - recognises models by the structure of their tensors. The input chooses the
 * tensors' names and shapes. A recognised model must be readable, and a refusal must have a reason.
 */
#include "fuzz.h"

#include "../named_tensors.h"
#include "layout/structure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    named_bytes bytes = { data, size };
    named_tensors tensors = { 0 };
    const text_list none = { 0 };
    report r = report_make();
    structure found;
    checkpoint *c;
    if (size > 400) return 0;
    if (named_next(&bytes, 4) == 0) named_unnamed(&bytes, &tensors);
    else named_model(&bytes, &tensors);
    uint8_t *file = named_file(&tensors, &size);
    if (checkpoint_open_memory("input", file, size, &c, &r)) {
        const bool good = structure_find(c, &none, false, &found, &r);
        fuzz_require(good != r.failed, "a refusal has a message");
        for (size_t i = 0; good && i < checkpoint_count(c); i++)
            fuzz_require(fuzz_read_tensor(c, checkpoint_tensor(c, i), &r), "what is found is read");
        structure_free(&found);
    }
    checkpoint_close(c);
    free(file);
    return 0;
}
