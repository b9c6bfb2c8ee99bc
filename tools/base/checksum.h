/* checksum.h - CRC-32 and SHA-256. */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === CRC-32 === */

/* This function computes the CRC-32 that zip and PNG use. Its reflected polynomial is
 * 0xEDB88320. */

/* Returns the CRC of all previous pieces and the piece `data`. `crc` is the CRC of the previous
 * pieces, or 0 for the first piece. */
uint32_t crc32_add(uint32_t crc, const void *data, size_t size);

/* === SHA-256 === */

/* These functions compute the SHA-256 (FIPS 180-4) of data that come in pieces. A converted file
 * contains the digest of its checkpoint. sha256sum prints the same digests. */

typedef struct sha256 {
    uint32_t state[8];
    uint64_t size;     /* number of bytes added so far */
    uint8_t block[64]; /* the last size % 64 of these bytes */
} sha256;

void sha256_init(sha256 *s);
void sha256_update(sha256 *s, const void *data, size_t size);
void sha256_final(sha256 *s, uint8_t digest[32]);
/* Writes the digest as 64 hexadecimal digits and a NUL. */
void sha256_hex(const uint8_t digest[32], char text[65]);

/* Computes the SHA-256 of a whole file, as 64 hexadecimal digits and a NUL. If `progress` is not
 * NULL, it is called after each piece with the size of the piece. Returns false if the file cannot
 * be read; errno then has the reason. */
typedef void sha256_progress(void *user, size_t bytes);
bool sha256_file(const char *path, char text[65], sha256_progress *progress, void *user);

#endif
