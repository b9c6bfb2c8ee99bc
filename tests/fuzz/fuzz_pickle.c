/* fuzz_pickle.c - reads the input as the pickle of a checkpoint. The first byte of the input
 * chooses the container: a zip archive (also one of TorchScript), the older plain file, or the
 * pickle alone.
 */
#include "fuzz_zip.h"

static const uint8_t floats[64] = { 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64 };

static void as_zip(const uint8_t *pickle, size_t size, bool script) {
    fuzz_zip zip = { 0 };
    uint8_t *file;
    zip.bytes = malloc(size + 1024);
    if (!zip.bytes) exit(1);
    fuzz_zip_add(&zip, "a/data.pkl", pickle, size);
    fuzz_zip_add(&zip, "a/data/0", floats, sizeof floats);
    if (script) fuzz_zip_add(&zip, "a/constants.pkl", "\x80\x02).", 4);
    fuzz_zip_end(&zip);
    file = fuzz_copy(zip.bytes, zip.size);
    free(zip.bytes);
    fuzz_checkpoint(file, zip.size);
    free(file);
}

/* The file begins with three constant pickles; the input holds the other two pickles and the
 * storages. */
static void as_legacy(const uint8_t *pickle, size_t size) {
    static const char front[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                "\x80\x02M\xe9\x03.\x80\x02}.";
    const size_t before = sizeof front - 1;
    uint8_t *file = malloc(before + size);
    if (!file) exit(1);
    memcpy(file, front, before);
    memcpy(file + before, pickle, size);
    fuzz_checkpoint(file, before + size);
    free(file);
}

static void as_pickle(const uint8_t *pickle, size_t size) {
    uint8_t *file = fuzz_copy(pickle, size);
    fuzz_checkpoint(file, size);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    switch (data[0] & 3) {
    case 0: as_zip(data + 1, size - 1, false); break;
    case 1: as_legacy(data + 1, size - 1); break;
    case 2: as_zip(data + 1, size - 1, true); break;
    default: as_pickle(data + 1, size - 1);
    }
    return 0;
}
