/* memcmp.h - included before vit.h where that is compiled for the fuzzers: memcmp calls the
 * library's, which a fuzzer follows at the cost of half the time, only where the first and the
 * sixth byte are equal. All that vit.h compares is longer.
 */
#ifndef FUZZ_MEMCMP_H
#define FUZZ_MEMCMP_H

#include <stdint.h>
#include <string.h>

static inline int fuzz_memcmp(const void *a, const void *b, size_t size) {
    const uint8_t *x = a, *y = b;
    if (x[0] != y[0]) return x[0] - y[0];
    if (x[5] != y[5]) return x[5] - y[5];
    return memcmp(a, b, size);
}
#define memcmp fuzz_memcmp

#endif
