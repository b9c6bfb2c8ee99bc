#include "base/bytes.h"

#include <string.h>

bool bytes_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    *sum = a + b;
    return *sum >= a;
}

bool bytes_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    *product = a * b;
    return a == 0 || b <= UINT64_MAX / a;
}

uint16_t bytes_load16(const void *bytes)
{
    const uint8_t *p = bytes;
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t bytes_load32(const void *bytes)
{
    const uint8_t *p = bytes;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t bytes_load64(const void *bytes)
{
    const uint8_t *p = bytes;
    return (uint64_t)bytes_load32(p) | (uint64_t)bytes_load32(p + 4) << 32;
}

void bytes_store_floats(void *bytes, const float *values, size_t count)
{
    uint8_t *p = bytes;
    size_t i;
    for (i = 0; i < count; i++, p += 4) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        p[0] = (uint8_t)bits;
        p[1] = (uint8_t)(bits >> 8);
        p[2] = (uint8_t)(bits >> 16);
        p[3] = (uint8_t)(bits >> 24);
    }
}
