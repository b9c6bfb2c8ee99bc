#include "base/crc32.h"

#include "base/bytes.h"

/* tables[k][n]: CRC of the byte n followed by k zero bytes. Built for each call that is
 * long enough: it takes less time than checking 8 KB. */
static void crc32_tables(uint32_t tables[8][256])
{
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

/* Eight bytes a step; crc is the register, not its complement. size is a multiple of 8. */
static uint32_t crc32_large(uint32_t crc, const uint8_t *p, size_t size)
{
    uint32_t t[8][256];
    size_t i;
    crc32_tables(t);
    for (i = 0; i < size; i += 8) {
        uint32_t a = bytes_load32(p + i) ^ crc, b = bytes_load32(p + i + 4);
        crc = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24]
            ^ t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
    }
    return crc;
}

static uint32_t crc32_small(uint32_t crc, const uint8_t *p, size_t size)
{
    static const uint32_t half_byte[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158,
        0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4,
        0xa00ae278, 0xbdbdf21c
    };
    size_t i;
    for (i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ half_byte[crc & 15];
        crc = crc >> 4 ^ half_byte[crc & 15];
    }
    return crc;
}

uint32_t crc32_add(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t large = size < 8192 ? 0 : size / 8 * 8;
    crc = ~crc;
    if (large > 0) crc = crc32_large(crc, p, large);
    return ~crc32_small(crc, p + large, size - large);
}
