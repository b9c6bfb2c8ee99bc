/* fuzz_model.h - .vit files for fuzzers. The functions change the numbers in the metadata of a
 * file, and correct the file's size and checksum. In the input of a fuzzer, a few bytes for the
 * fuzzer itself precede the file.
 */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include "fuzz.h"

#define VIT_TOOLS
#include "vit.h"

#include "../tiny_model.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static inline uint64_t fuzz_interesting(uint32_t choice, size_t size) {
    /* clang-format off */
    static const uint64_t numbers[] = { 0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 64, 127, 255, 256,
                                        1023, 1024, 65535, 65536, 0x7fffffff, 0x80000000u,
                                        0xffffffffu, 0x3f800000, 0x7f800000, 0x7fc00000,
                                        (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX,
                                        UINT64_MAX - 63 };
    /* clang-format on */
    const uint32_t count = sizeof numbers / sizeof numbers[0];
    if (choice % 4 == 0) return size + choice / 4 % 3 - 1; /* the right size, or one less or more */
    return numbers[choice / 4 % count];
}

/* Calls LLVMFuzzerMutate, or changes one to three numbers in the metadata: in the header, in a
 * section's entry, in a field or in a tensor's record. `before` is the number of bytes before the
 * file. */
static inline size_t fuzz_mutate_model(uint8_t *data, size_t size, size_t max_size, unsigned seed,
                                       size_t before) {
    uint32_t state = seed * 2654435761u + 1;
    const size_t room = size > before ? size - before : 0;
    const uint64_t meta = room > 64 ? tiny_get(data + before + VIT_HEADER_META_SIZE, 8) : 0;
    if (seed % 2 || meta < 64 || meta > room) return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t i = 0; i <= seed / 2 % 3; i++) {
        state = state * 1664525u + 1013904223u;
        const size_t at = before + (size_t)(state >> 8) % (size_t)(meta / 4) * 4;
        state = state * 1664525u + 1013904223u;
        const int bytes = state >> 30 && at + 8 <= size ? 4 : 8;
        if (at + 8 <= size) tiny_put(data + at, fuzz_interesting(state >> 8, room), bytes);
    }
    return size;
}

/* Bits of the argument `switches` of fuzz_take_model. */
enum { FUZZ_LEAVE_CHECKSUM = 1, FUZZ_LEAVE_SIZE = 2 };

/* Returns the file in a block of exactly its size, and corrects the size and the checksum in its
 * header. A bit of `switches` prevents each correction. Free the file with tiny_free. */
static inline tiny_file fuzz_take_model(const uint8_t *data, size_t size, uint8_t switches) {
    tiny_file f;
    f.size = size;
    f.data = tiny_aligned(f.size);
    if (size > 0) memcpy(f.data, data, size);
    if (size >= VIT_HEADER_SIZE && !(switches & FUZZ_LEAVE_SIZE))
        tiny_put(f.data + VIT_HEADER_FILE_SIZE, size, 8);
    if (size >= VIT_HEADER_SIZE && !(switches & FUZZ_LEAVE_CHECKSUM)) tiny_rehash(&f);
    return f;
}

#endif
