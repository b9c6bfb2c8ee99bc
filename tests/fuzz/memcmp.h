/* memcmp.h - replaces memcmp in the fuzzers, which include this header before vit.h. libFuzzer
 * traces the C library's memcmp, which takes half of the fuzzing time. The memcmp of this header
 * therefore calls it only if the first bytes are equal. If the sixth bytes differ, it passes six
 * bytes.
 */
#ifndef FUZZ_MEMCMP_H
#define FUZZ_MEMCMP_H

#include <stdint.h>
#include <string.h>

static inline int fuzz_memcmp(const void *a, const void *b, size_t size) {
    const uint8_t *x = a, *y = b;
    if (size > 0 && x[0] != y[0]) return x[0] - y[0];
    if (size < 6) return memcmp(a, b, size);
    return x[5] != y[5] ? memcmp(a, b, 6) : memcmp(a, b, size);
}
#define memcmp fuzz_memcmp

#endif
