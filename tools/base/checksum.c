#include "base/checksum.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "os/os.h"

/* === CRC-32 === */

/* Computes the tables for crc32_large. tables[k][n] is the CRC of the byte n followed by k zero
 * bytes. Each call of crc32_large computes the tables again, which takes less time than the CRC of
 * 8 KB. */
static void crc32_tables(uint32_t tables[8][256]) {
    uint32_t n, k;
    for (n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        tables[0][n] = crc;
    }
    for (k = 1; k < 8; k++)
        for (n = 0; n < 256; n++)
            tables[k][n] = tables[k - 1][n] >> 8 ^ tables[0][tables[k - 1][n] & 255];
}

/* Adds `size` bytes to a CRC, eight bytes at a time. `crc` is the content of the CRC register, not
 * its complement. `size` is a multiple of 8. */
static uint32_t crc32_large(uint32_t crc, const uint8_t *p, size_t size) {
    uint32_t t[8][256];
    size_t i;
    crc32_tables(t);
    for (i = 0; i < size; i += 8) {
        uint32_t a = bytes_load32(p + i) ^ crc, b = bytes_load32(p + i + 4);
        crc = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^
              t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
    }
    return crc;
}

static uint32_t crc32_small(uint32_t crc, const uint8_t *p, size_t size) {
    static const uint32_t half_byte[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    size_t i;
    for (i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ half_byte[crc & 15];
        crc = crc >> 4 ^ half_byte[crc & 15];
    }
    return crc;
}

uint32_t crc32_add(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;
    size_t large = size < 8192 ? 0 : size / 8 * 8;
    crc = ~crc;
    if (large > 0) crc = crc32_large(crc, p, large);
    return ~crc32_small(crc, p + large, size - large);
}

/* === SHA-256 === */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t sha256_rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t sha256_load(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void sha256_expand(uint32_t w[64], const uint8_t *block) {
    int i;
    for (i = 0; i < 16; i++) w[i] = sha256_load(block + 4 * i);
    for (i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = sha256_rotate(a, 7) ^ sha256_rotate(a, 18) ^ a >> 3;
        uint32_t s1 = sha256_rotate(b, 17) ^ sha256_rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* Runs round i of a group of eight rounds. In the standard, each round moves all eight words of the
 * state by one place. Here, the words stay and the indices move: in round i, the word a is
 * s[(8 - i) % 8], the word b is the next word, and so on. Thus a round changes only two words. */
static inline void sha256_round(uint32_t s[8], int i, uint32_t key) {
    const uint32_t a = s[(8 - i) & 7], b = s[(9 - i) & 7], c = s[(10 - i) & 7];
    const uint32_t e = s[(12 - i) & 7], f = s[(13 - i) & 7], g = s[(14 - i) & 7];
    const uint32_t s1 = sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25);
    const uint32_t s0 = sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22);
    const uint32_t t = s[(15 - i) & 7] + s1 + (g ^ (e & (f ^ g))) + key;
    s[(11 - i) & 7] += t;
    s[(15 - i) & 7] = t + s0 + ((a & b) | (c & (a | b)));
}

static void sha256_block(sha256 *s, const uint8_t *block) {
    uint32_t w[64] = { 0 }, state[8];
    int i;
    sha256_expand(w, block);
    memcpy(state, s->state, sizeof state);
    for (i = 0; i < 64; i++) w[i] += sha256_constants[i];
    for (i = 0; i < 64; i += 8) { /* The rounds are unrolled, so their indices are constants. */
        sha256_round(state, 0, w[i]);
        sha256_round(state, 1, w[i + 1]);
        sha256_round(state, 2, w[i + 2]);
        sha256_round(state, 3, w[i + 3]);
        sha256_round(state, 4, w[i + 4]);
        sha256_round(state, 5, w[i + 5]);
        sha256_round(state, 6, w[i + 6]);
        sha256_round(state, 7, w[i + 7]);
    }
    for (i = 0; i < 8; i++) s->state[i] += state[i];
}

void sha256_init(sha256 *s) {
    static const uint32_t start[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    memcpy(s->state, start, sizeof start);
    s->size = 0;
}

void sha256_update(sha256 *s, const void *data, size_t size) {
    const uint8_t *p = data;
    while (size > 0) {
        size_t used = (size_t)(s->size % 64);
        size_t piece = size < 64 - used ? size : 64 - used;
        if (piece == 64) {
            sha256_block(s, p);
        } else {
            memcpy(s->block + used, p, piece);
            if (used + piece == 64) sha256_block(s, s->block);
        }
        s->size += piece;
        p += piece;
        size -= piece;
    }
}

/* Adds the padding and computes the digest. The padding is a one bit, zeros up to 8 bytes before
 * the end of a block, and the length in bits (big-endian). */
void sha256_final(sha256 *s, uint8_t digest[32]) {
    uint64_t bits = s->size * 8;
    uint8_t tail[72] = { 0x80 };
    size_t zeros = (size_t)((119 - s->size % 64) % 64);
    int i;
    for (i = 0; i < 8; i++) tail[1 + zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_update(s, tail, 1 + zeros + 8);
    for (i = 0; i < 32; i++) digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_hex(const uint8_t digest[32], char text[65]) {
    int i;
    for (i = 0; i < 64; i++) text[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[64] = '\0';
}

bool sha256_file(const char *path, char text[65], sha256_progress *progress, void *user) {
    unsigned char buffer[1 << 14], digest[32];
    FILE *file = os_fopen(path, "rb");
    sha256 hash;
    size_t size;
    bool failed;
    if (!file) return false;
    sha256_init(&hash);
    while ((size = fread(buffer, 1, sizeof buffer, file)) > 0) {
        sha256_update(&hash, buffer, size);
        if (progress) progress(user, size);
    }
    failed = ferror(file) != 0;
    fclose(file);
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
    return !failed;
}
