/* fuzz_npz.c - reads the input as a .npy file: alone, and as the only array of an .npz archive. */
#include "base/npy.h"
#include "fuzz_zip.h"

static void alone(const uint8_t *data, size_t size) {
    report r = report_make();
    npy_array array;
    const bool good = npy_parse(data, size, &array, &r);
    fuzz_require(good ? array.data != NULL : r.text[0] && !array.data,
                 "numbers, or a refusal that says why");
    npy_free(&array);
}

static void archived(const uint8_t *data, size_t size) {
    fuzz_zip zip = { 0 };
    zip.bytes = malloc(size + 256);
    if (!zip.bytes) exit(1);
    fuzz_zip_add(&zip, "t.npy", data, size);
    fuzz_zip_end(&zip);
    fuzz_checkpoint(zip.bytes, zip.size);
    free(zip.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = fuzz_copy(data, size);
    alone(file, size);
    archived(file, size);
    free(file);
    return 0;
}
