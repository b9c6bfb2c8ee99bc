/* inflate.h - DEFLATE and CRC-32 for zip entries. The decoder is stb_image's (package
 * libstb-dev); it works on whole buffers of less than 2 GiB. */
#ifndef INFLATE_H
#define INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32 as in zip; start with 0 and feed pieces in order. */
uint32_t inflate_crc32(uint32_t crc, const void *data, size_t size);

/* The decoder looks ahead: it refuses a stream whose last code is in its last two bytes, which raw
 * DEFLATE allows. So the stream must be followed by this many readable zeros. */
enum { INFLATE_PADDING = 8 };

/* True if the raw DEFLATE stream decodes to exactly size bytes. Never writes beyond them. */
bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size);

/* The first `size` decoded bytes; zeros from where the stream ends or is damaged. */
void inflate_start(const void *stream, size_t stream_size, void *destination, size_t size);

#endif
