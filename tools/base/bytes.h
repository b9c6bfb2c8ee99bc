/* bytes.h - checked arithmetic of sizes, little-endian loads and stores. */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool bytes_add(uint64_t a, uint64_t b, uint64_t *sum);       /* false: overflow */
bool bytes_multiply(uint64_t a, uint64_t b, uint64_t *product);
uint16_t bytes_load16(const void *bytes);
uint32_t bytes_load32(const void *bytes);
uint64_t bytes_load64(const void *bytes);
void bytes_store_floats(void *bytes, const float *values, size_t count);   /* as f32 */
void bytes_store_halves(void *bytes, const float *values, size_t count);   /* as f16 */

/* Values from their bits. */
float bytes_float(uint32_t bits);                       /* IEEE binary32 */
float bytes_half(uint16_t bits);                        /* binary16, exactly */
uint16_t bytes_to_half(float value);                    /* to nearest, ties to even */
float bytes_bfloat(uint16_t bits);                      /* bfloat16, exactly */
float bytes_double(uint64_t bits);                      /* binary64, rounded to nearest */
int64_t bytes_signed(uint64_t bits, unsigned size);     /* two's complement of `size` bytes */

#endif
