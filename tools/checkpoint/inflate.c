#include "checkpoint/zip.h"

#include <string.h>

/* This file compiles only the zlib part of stb_image, as private functions. gcc reports unused
 * declarations at the end of the file, so the pragma stays in force to the end. */
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

/* === DEFLATE === */

bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size) {
    return stbi_zlib_decode_noheader_buffer(destination, (int)size, stream,
                                            (int)stream_size + INFLATE_PADDING) == (int)size;
}

/* Inflates as many bytes as `destination` can hold. stb_image does not distinguish a full buffer
 * from damaged data, so its error is ignored here. The bytes decoded so far stay in the buffer. */
void inflate_start(const void *stream, size_t stream_size, void *destination, size_t size) {
    memset(destination, 0, size);
    stbi_zlib_decode_noheader_buffer(destination, (int)size, stream,
                                     (int)stream_size + INFLATE_PADDING);
}
