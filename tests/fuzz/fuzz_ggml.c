/* fuzz_ggml.c - reads the input as a file of vit.cpp or, if it begins with a G, as GGUF. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = fuzz_copy(data, size);
    if (size >= 4) memcpy(file, *file == 'G' ? "GGUF" : "lmgg", 4);
    fuzz_checkpoint(file, size);
    free(file);
    return 0;
}
