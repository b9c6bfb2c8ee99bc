/* sha256.h - streaming SHA-256 (FIPS 180-4), for the provenance of converted files. */
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t size;         /* bytes so far */
    uint8_t block[64];     /* the last size % 64 of them */
} sha256;

void sha256_init(sha256 *s);
void sha256_update(sha256 *s, const void *data, size_t size);
void sha256_final(sha256 *s, uint8_t digest[32]);
void sha256_hex(const uint8_t digest[32], char text[65]);

#endif
