/* fuzz_zip.c - reads the input as a zip archive of torch.save or numpy.savez. */
#include "fuzz_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = fuzz_copy(data, size);
    fuzz_mend_zip(file, size);
    fuzz_checkpoint(file, size);
    free(file);
    return 0;
}
