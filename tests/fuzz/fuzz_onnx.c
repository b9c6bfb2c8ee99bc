/* fuzz_onnx.c - reads the input as an ONNX graph. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = fuzz_copy(data, size);
    if (size >= 3) {
        file[0] = 8; /* field 1: version 7 of the format */
        file[1] = 7;
        if (file[2] != 0x12 && file[2] != 0x42) file[2] = 0x3a; /* the graph */
    }
    fuzz_checkpoint(file, size);
    free(file);
    return 0;
}
