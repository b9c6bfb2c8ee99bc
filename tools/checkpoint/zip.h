/* zip.h - checks the directory of a zip archive, and reads its entries (STORED and DEFLATE).
 *
 * It refuses encryption, several disks, overlapping entries, two entries of one name, local headers
 * that differ from the directory, bytes before the first or after the last record, more than 100000
 * entries, and entries that inflate to 64 MiB more than their stored size. Names are only compared,
 * never used as paths.
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

/* The source must outlive the archive. On failure there is nothing to free. */
bool zip_open(zip_archive *zip, const source *s, report *r);
void zip_close(zip_archive *zip);

const zip_entry *zip_find(const zip_archive *zip, const char *name); /* NULL: none */

/* Reads a whole entry (entry->size bytes) and checks its CRC. A deflated entry is held in memory in
 * both forms. */
bool zip_read(const source *s, const zip_entry *entry, void *destination, report *r);

/* Reads the first `size` bytes of an entry, without checking the CRC; bytes that a damaged entry
 * lacks are zero. */
bool zip_read_start(const source *s, const zip_entry *entry, void *destination, size_t size,
                    report *r);

/* Checks the CRC; reads a stored entry in small pieces, a deflated one whole. */
bool zip_verify(const source *s, const zip_entry *entry, report *r);

/* === DEFLATE === */

/* DEFLATE for zip entries. The decoder is stb_image's (package libstb-dev); it works on whole
 * buffers of less than 2 GiB. */

/* The decoder looks ahead: it refuses a stream whose last code is in its last two bytes, which raw
 * DEFLATE allows. So this many readable zeros must follow the stream. */
enum { INFLATE_PADDING = 8 };

/* True if the raw DEFLATE stream decodes to exactly `size` bytes. Never writes beyond them. */
bool inflate_whole(const void *stream, size_t stream_size, void *destination, size_t size);

/* Writes the first `size` decoded bytes; zeros follow the end of the stream or of its undamaged
 * part. */
void inflate_start(const void *stream, size_t stream_size, void *destination, size_t size);

#endif
