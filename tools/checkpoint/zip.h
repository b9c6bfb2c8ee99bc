/* zip.h - checks the directory of a zip archive, and reads its entries (STORED and DEFLATE).
 *
 * It refuses encryption, several disks, overlapping entries, and two entries with one name. It
 * refuses local headers that differ from the directory, and bytes before the first or after the
 * last record. It also refuses more than 100000 entries, and entries that inflate to 64 MiB more
 * than their stored size. Names are only compared, never used as paths.
 */
#ifndef ZIP_H
#define ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"

typedef struct zip_entry {
    const char *name;
    uint64_t header_offset; /* of the local header */
    uint64_t offset;        /* of the data */
    uint64_t stored_size;   /* bytes in the file */
    uint64_t size;          /* bytes once inflated */
    uint32_t crc;
    bool deflated;
} zip_entry;

typedef struct zip_archive {
    const source *source;
    memory_arena memory;
    zip_entry *entries; /* sorted by name */
    size_t count;
} zip_archive;

/* Opens an archive. The source must outlive the archive. On failure there is nothing to free. */
bool zip_open(zip_archive *zip, const source *s, report *r);
void zip_close(zip_archive *zip);

const zip_entry *zip_find(const zip_archive *zip, const char *name); /* NULL: none */

/* Reads a whole entry (entry->size bytes) and checks its CRC. Memory then holds both forms of a
 * deflated entry. */
bool zip_read(const source *s, const zip_entry *entry, void *destination, report *r);

/* Reads the first `size` bytes of an entry, without checking the CRC. Bytes that a damaged entry
 * lacks become zero. */
bool zip_read_start(const source *s, const zip_entry *entry, void *destination, size_t size,
                    report *r);

/* Checks the CRC. Reads a stored entry in small pieces, but a deflated entry whole. */
bool zip_verify(const source *s, const zip_entry *entry, report *r);

/* === DEFLATE === */

/* These functions decode DEFLATE. The decoder is stb_image's (package libstb-dev), and requires
 * whole buffers of less than 2 GiB. */

/* The decoder looks ahead: it refuses a stream with the last code in the last two bytes, which raw
 * DEFLATE allows. So this many readable zeros must follow the stream. */
enum { INFLATE_PADDING = 8 };

/* Decodes a raw DEFLATE stream. True if the result has exactly `size` bytes. Never writes beyond
 * them. */
bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size);

/* Writes the first `size` decoded bytes. Zeros follow the end of the stream, or the end of its
 * undamaged part. */
void inflate_start(const void *stream, size_t stream_size, void *destination, size_t size);

#endif
