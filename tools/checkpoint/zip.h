/* zip.h - checks the directory of a zip archive, and reads its entries (STORED and DEFLATE).
 *
 * It refuses encryption, several disks, overlapping entries, and two entries with one name. It
 * refuses local headers that differ from the directory, bytes after the last record, and offsets
 * that do not count from the start of the file. It also refuses more than 100000 entries, and
 * entries that inflate to over 64 MiB more than their stored size. Names are never used as paths.
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
    uint64_t header_offset; /* offset of the local header in the source */
    uint64_t offset;        /* offset of the data in the source */
    uint64_t stored_size;   /* number of bytes in the file */
    uint64_t size;          /* number of bytes after inflating */
    uint32_t crc;           /* CRC-32 of the inflated bytes */
    bool deflated;          /* true for DEFLATE, false for STORED */
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

/* Returns the entry with this name; NULL if there is none. */
const zip_entry *zip_find(const zip_archive *zip, const char *name);

/* Reads a whole entry (entry->size bytes) and checks its CRC. While a deflated entry is read,
 * memory holds both its deflated and its inflated bytes. */
bool zip_read(const source *s, const zip_entry *entry, void *destination, report *r);

/* Reads the first `size` bytes of an entry, without checking the CRC. If the entry is damaged,
 * zeros replace the bytes that cannot be decoded. */
bool zip_read_start(const source *s, const zip_entry *entry, void *destination, size_t size,
                    report *r);

/* Checks the CRC of an entry. Reads a stored entry in small pieces, but a deflated entry as a
 * whole. */
bool zip_verify(const source *s, const zip_entry *entry, report *r);

/* === DEFLATE === */

/* These functions decode DEFLATE. The decoder is that of stb_image (package libstb-dev). It
 * requires whole buffers of less than 2 GiB. */

/* The number of zero bytes that must follow the stream in memory. The decoder looks ahead, so it
 * would refuse a stream whose last code is in the last two bytes. Raw DEFLATE allows such a
 * stream. */
enum { INFLATE_PADDING = 8 };

/* Decodes a raw DEFLATE stream. Returns true if the result has exactly `size` bytes. Never writes
 * more than `size` bytes. */
bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size);

/* Writes the first `size` decoded bytes. If the stream ends or is damaged before that, zeros fill
 * the rest. */
void inflate_start(const void *stream, size_t stream_size, void *destination, size_t size);

#endif
