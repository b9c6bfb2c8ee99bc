/* checksum.h - CRC-32 and SHA-256. */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === CRC-32 === */

/* This is the CRC-32 of zip and PNG, with the reflected polynomial 0xEDB88320. */

/* Starts from the crc of the previous pieces; start with 0 and add the pieces in order. */
uint32_t crc32_add(uint32_t crc, const void *data, size_t size);

/* === SHA-256 === */

/* Streaming SHA-256 (FIPS 180-4), for the provenance of converted files and for lists of
 * checksums. */

typedef struct sha256 {
    uint32_t state[8];
    uint64_t size;     /* bytes so far */
    uint8_t block[64]; /* the last size % 64 bytes */
} sha256;

void sha256_init(sha256 *s);
void sha256_update(sha256 *s, const void *data, size_t size);
void sha256_final(sha256 *s, uint8_t digest[32]);
void sha256_hex(const uint8_t digest[32], char text[65]);

/* Hashes a whole file. Calls progress, if not NULL, with the size of each piece. Returns false if
 * the file cannot be read; errno then has the reason. */
typedef void sha256_progress(void *user, size_t bytes);
bool sha256_file(const char *path, char text[65], sha256_progress *progress, void *user);

#endif
