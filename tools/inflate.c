#include "inflate.h"

#include <limits.h>

/* Only the zlib part of stb_image, private to this file. (gcc reports its unused declarations at
 * the end of the file, so the pragma is not popped.) */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_SIMD
#define STBI_NO_THREAD_LOCALS
#define STBI_NO_FAILURE_STRINGS
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_NO_JPEG
#define STBI_NO_PNG
#define STBI_NO_BMP
#define STBI_NO_PSD
#define STBI_NO_TGA
#define STBI_NO_GIF
#define STBI_NO_PIC
#define STBI_NO_PNM
#define STBI_SUPPORT_ZLIB
#include <stb/stb_image.h>

/* CRC of the 16 half-bytes for the reflected polynomial 0xEDB88320. */
uint32_t inflate_crc32(uint32_t crc, const void *data, size_t size)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158,
        0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4,
        0xa00ae278, 0xbdbdf21c
    };
    const uint8_t *p = data;
    size_t i;
    crc = ~crc;
    for (i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size)
{
    if (stream_size > INT_MAX - INFLATE_PADDING || size > INT_MAX) return false;
    return stbi_zlib_decode_noheader_buffer(destination, (int)size, stream,
                                            (int)stream_size + INFLATE_PADDING) == (int)size;
}
