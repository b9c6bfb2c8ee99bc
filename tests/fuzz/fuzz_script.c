/* fuzz_script.c - reads the input as the code of a TorchScript archive. The first byte of the input
 * chooses between a module with tensors and a frozen module, which has only constants.
 */
#include "fuzz_zip.h"

#define TENSOR                                                                                     \
    "ctorch._utils\n_rebuild_tensor_v2\n("                                                         \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                         \
    "0U\3cpuK\4NtQ"                                                                                \
    "K\0K\2K\2\x86K\2K\1\x86\x89NtR"
#define MODULE "\x80\2c__torch__\nM\n)\x81}"

static const uint8_t floats[16] = { 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64 };

static void add_pickles(fuzz_zip *zip, bool frozen) {
    static const char whole[] = MODULE "(U\1t" TENSOR "U\6blocks}(U\1"
                                       "0c__torch__\nM\n)\x81}U\1w" TENSOR "sbuub.";
    static const char empty[] = MODULE "b.", constants[] = "\x80\2" TENSOR TENSOR "\x86.";
    fuzz_zip_add(zip, "a/data/0", floats, sizeof floats);
    fuzz_zip_add(zip, "a/constants/0", floats, sizeof floats);
    fuzz_zip_add(zip, "a/constants.pkl", constants, sizeof constants - 1);
    if (frozen) fuzz_zip_add(zip, "a/data.pkl", empty, sizeof empty - 1);
    else fuzz_zip_add(zip, "a/data.pkl", whole, sizeof whole - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_zip zip = { 0 };
    uint8_t *file;
    if (size < 1) return 0;
    zip.bytes = malloc(size + 4096);
    if (!zip.bytes) exit(1);
    add_pickles(&zip, data[0] & 1);
    fuzz_zip_add(&zip, "a/code/__torch__.py", data + 1, size - 1);
    fuzz_zip_end(&zip);
    file = fuzz_copy(zip.bytes, zip.size);
    free(zip.bytes);
    fuzz_checkpoint(file, zip.size);
    free(file);
    return 0;
}
