/* inflate.h - DEFLATE for zip entries. The decoder is stb_image's (package
 * libstb-dev); it works on whole buffers of less than 2 GiB. */
#ifndef INFLATE_H
#define INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The decoder looks ahead: it refuses a stream whose last code is in its last two bytes, which raw
 * DEFLATE allows. So the stream must be followed by this many readable zeros. */
enum { INFLATE_PADDING = 8 };

/* True if the raw DEFLATE stream decodes to exactly size bytes. Never writes beyond them. */
bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size);

/* The first `size` decoded bytes; zeros from where the stream ends or is damaged. */
void inflate_start(const void *stream, size_t stream_size, void *destination, size_t size);

#endif
