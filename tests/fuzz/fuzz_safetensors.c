/* fuzz_safetensors.c - reads the input as a safetensors file. The fuzzer corrects the length of the
 * header in the first 8 bytes, unless the input's first byte is odd.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 10) return 0;
    const size_t length = size - 1;
    uint8_t *file = fuzz_copy(data + 1, length);
    uint8_t *end = length > 8 ? memchr(file + 8, '\n', length - 8) : NULL;
    if (data[0] % 2 == 0 && end) { /* the header ends at the first newline */
        uint64_t header = (uint64_t)(end - file) - 7;
        for (int i = 0; i < 8; i++) file[i] = (uint8_t)(header >> 8 * i);
        *end = ' ';
    }
    fuzz_checkpoint(file, length);
    free(file);
    return 0;
}
