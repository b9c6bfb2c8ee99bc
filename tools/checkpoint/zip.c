#include "checkpoint/zip.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/text.h"

/* === The archive === */

enum {
    /* The size of the record that ends the central directory. */
    ZIP_END_SIZE = 22,
    ZIP_END64_SIZE = 56,
    ZIP_LOCATOR_SIZE = 20,
    ZIP_CENTRAL_SIZE = 46,
    ZIP_LOCAL_SIZE = 30,
    ZIP_MAX_COMMENT = 65535,
    ZIP_MAX_ENTRIES = 100000,
    ZIP_MAX_DIRECTORY = 16 << 20, /* in bytes */
    /* The largest factor by which DEFLATE can expand data: two bits can stand for 258 bytes. */
    ZIP_MAX_RATIO = 1032,
    /* The most bytes by which an entry may grow when it is inflated. */
    ZIP_MAX_GROWTH = 64 << 20,
};

#define ZIP_LOCAL_SIGNATURE   0x04034b50u
#define ZIP_CENTRAL_SIGNATURE 0x02014b50u
#define ZIP_END_SIGNATURE     0x06054b50u
#define ZIP_END64_SIGNATURE   0x06064b50u
#define ZIP_LOCATOR_SIGNATURE 0x07064b50u

#define ZIP_FLAG_ENCRYPTED  0x0001u
#define ZIP_FLAG_DESCRIPTOR 0x0008u /* The sizes follow the data; the local header has zeros. */
#define ZIP_FLAGS_SECRET    0x2041u /* encrypted, strongly encrypted, or with masked headers */

#define ZIP_UNKNOWN32 0xFFFFFFFFu /* The true value is in the zip64 record. */

/* The central directory: its position, its size, its number of entries and its required end. */
typedef struct zip_directory {
    uint64_t offset, size, count, end;
} zip_directory;

/* === End of central directory === */

/* Finds the record that ends the central directory. The comment of the record must reach exactly to
 * the end of the file. */
static bool zip_find_end(const source *s, uint8_t record[ZIP_END_SIZE], uint64_t *at, report *r) {
    size_t size = s->size < ZIP_END_SIZE + ZIP_MAX_COMMENT ? (size_t)s->size
                                                           : ZIP_END_SIZE + ZIP_MAX_COMMENT;
    uint8_t *tail = malloc(size + 1);
    size_t i = size < ZIP_END_SIZE ? 0 : size - ZIP_END_SIZE + 1;
    bool found = false;
    if (!tail) return report_no_memory(r);
    if (source_read(s, s->size - size, tail, size, r)) {
        while (!found && i-- > 0)
            found = bytes_load32(tail + i) == ZIP_END_SIGNATURE &&
                    bytes_load16(tail + i + 20) == size - ZIP_END_SIZE - i;
        if (!found) (void)report_fail(r, "zip: no end of central directory; the file is truncated");
    }
    if (found) {
        memcpy(record, tail + i, ZIP_END_SIZE);
        *at = s->size - size + i;
    }
    free(tail);
    return found;
}

/* True if the 32-bit field equals the 64-bit field. Also true if the 32-bit field has the value
 * `unknown`, which refers to the zip64 record. */
static bool zip_agrees(uint64_t narrow, uint64_t unknown, uint64_t wide) {
    return narrow == unknown || narrow == wide;
}

static bool zip_read_end64(const source *s, uint64_t locator_at, zip_directory *d, report *r) {
    uint8_t locator[ZIP_LOCATOR_SIZE], record[ZIP_END64_SIZE];
    uint64_t at;
    if (!source_read(s, locator_at, locator, sizeof locator, r)) return false;
    at = bytes_load64(locator + 8);
    if (bytes_load32(locator + 4) != 0 || at > locator_at || locator_at - at < ZIP_END64_SIZE)
        return report_fail(r, "zip64: bad locator at byte %llu", (unsigned long long)locator_at);
    if (!source_read(s, at, record, sizeof record, r)) return false;
    if (bytes_load32(record) != ZIP_END64_SIGNATURE ||
        bytes_load64(record + 4) != locator_at - at - 12 || bytes_load32(record + 16) != 0 ||
        bytes_load32(record + 20) != 0 || bytes_load64(record + 24) != bytes_load64(record + 32))
        return report_fail(r, "zip64: bad end record at byte %llu", (unsigned long long)at);
    if (!zip_agrees(d->count, 0xFFFF, bytes_load64(record + 32)) ||
        !zip_agrees(d->size, ZIP_UNKNOWN32, bytes_load64(record + 40)) ||
        !zip_agrees(d->offset, ZIP_UNKNOWN32, bytes_load64(record + 48)))
        return report_fail(r, "zip64: the two end records disagree");
    d->count = bytes_load64(record + 32);
    d->size = bytes_load64(record + 40);
    d->offset = bytes_load64(record + 48);
    d->end = at;
    return true;
}

static bool zip_has_locator(const source *s, uint64_t end_at, report *r) {
    uint8_t signature[4];
    return end_at >= ZIP_LOCATOR_SIZE &&
           source_read(s, end_at - ZIP_LOCATOR_SIZE, signature, sizeof signature, r) &&
           bytes_load32(signature) == ZIP_LOCATOR_SIGNATURE;
}

static bool zip_find_directory(const source *s, zip_directory *d, report *r) {
    uint8_t end[ZIP_END_SIZE] = { 0 };
    if (!zip_find_end(s, end, &d->end, r)) return false;
    if (bytes_load16(end + 4) != 0 || bytes_load16(end + 6) != 0 ||
        bytes_load16(end + 8) != bytes_load16(end + 10))
        return report_fail(r, "zip: archives of several disks are not supported");
    d->count = bytes_load16(end + 10);
    d->size = bytes_load32(end + 12);
    d->offset = bytes_load32(end + 16);
    if (zip_has_locator(s, d->end, r) && !zip_read_end64(s, d->end - ZIP_LOCATOR_SIZE, d, r))
        return false;
    if (d->size > d->end || d->offset != d->end - d->size)
        return report_fail(r, "zip: the directory of %llu bytes at byte %llu must end at byte %llu",
                           (unsigned long long)d->size, (unsigned long long)d->offset,
                           (unsigned long long)d->end);
    if (d->count > ZIP_MAX_ENTRIES || d->size > ZIP_MAX_DIRECTORY)
        return report_fail(r, "zip: more than %d entries or %d bytes of directory", ZIP_MAX_ENTRIES,
                           ZIP_MAX_DIRECTORY);
    if (d->count > d->size / ZIP_CENTRAL_SIZE)
        return report_fail(r, "zip: %llu entries cannot fit a directory of %llu bytes",
                           (unsigned long long)d->count, (unsigned long long)d->size);
    return !r->failed;
}

/* === Central directory === */

/* Returns the contents of the zip64 extra field. Returns NULL if there is no such field. *size
 * becomes the length of the contents. */
static const uint8_t *zip_find_zip64(const uint8_t *extra, size_t *size) {
    size_t left = *size;
    *size = 0;
    while (left >= 4) {
        size_t length = bytes_load16(extra + 2);
        if (length > left - 4) return NULL;
        if (bytes_load16(extra) == 1) {
            *size = length;
            return extra + 4;
        }
        extra += 4 + length;
        left -= 4 + length;
    }
    return NULL;
}

/* Puts the values of the zip64 extra field into the fields that are marked as unknown. The order of
 * the values is fixed: size, stored size, offset. Returns false if a value is missing. */
static bool zip_apply_extra(zip_entry *e, const uint8_t *extra, size_t size) {
    const uint8_t *wide = zip_find_zip64(extra, &size);
    uint64_t *fields[3];
    size_t i, used = 0;
    fields[0] = &e->size;
    fields[1] = &e->stored_size;
    fields[2] = &e->header_offset;
    for (i = 0; i < 3; i++) {
        if (*fields[i] != ZIP_UNKNOWN32) continue;
        if (size - used < 8) return false;
        *fields[i] = bytes_load64(wide + used);
        used += 8;
    }
    return true;
}

static bool zip_check_entry(const zip_entry *e, unsigned flags, unsigned method, report *r) {
    if (flags & ZIP_FLAGS_SECRET) return report_fail(r, "zip: \"%.200s\" is encrypted", e->name);
    if (method != 0 && method != 8)
        return report_fail(r,
                           "zip: \"%.200s\" has compression method %u; 0 (stored) and 8 "
                           "(deflate) are supported",
                           e->name, method);
    if (method == 0 && e->size != e->stored_size)
        return report_fail(r, "zip: the stored entry \"%.200s\" has two sizes, %llu and %llu",
                           e->name, (unsigned long long)e->stored_size,
                           (unsigned long long)e->size);
    if (method == 8 && e->size / ZIP_MAX_RATIO > e->stored_size)
        return report_fail(r,
                           "zip: \"%.200s\" claims to inflate from %llu to %llu bytes, more "
                           "than deflate can",
                           e->name, (unsigned long long)e->stored_size,
                           (unsigned long long)e->size);
    if (method == 8 && e->size > ZIP_MAX_GROWTH && e->size - ZIP_MAX_GROWTH > e->stored_size)
        return report_fail(r,
                           "zip: \"%.200s\" inflates from %llu to %llu bytes, expected at most "
                           "%d bytes more than stored",
                           e->name, (unsigned long long)e->stored_size, (unsigned long long)e->size,
                           ZIP_MAX_GROWTH);
    if (method == 8 && (e->stored_size > INT_MAX - INFLATE_PADDING || e->size > INT_MAX))
        return report_fail(
            r, "zip: the deflated entry \"%.200s\" has 2 GiB or more, which is not supported",
            e->name);
    return true;
}

/* Reads one record of the central directory. *used becomes the length of the record. */
static bool zip_parse_entry(zip_archive *zip, const uint8_t *record, size_t left, size_t *used,
                            report *r) {
    zip_entry *e = &zip->entries[zip->count];
    size_t name_size, extra_size;
    if (left < ZIP_CENTRAL_SIZE || bytes_load32(record) != ZIP_CENTRAL_SIGNATURE)
        return report_fail(r, "zip: directory entry %llu is damaged",
                           (unsigned long long)zip->count);
    name_size = bytes_load16(record + 28);
    extra_size = bytes_load16(record + 30);
    *used = ZIP_CENTRAL_SIZE + name_size + extra_size + bytes_load16(record + 32);
    if (*used > left || !text_is_name((const char *)record + ZIP_CENTRAL_SIZE, name_size))
        return report_fail(r, "zip: directory entry %llu has a bad name or size",
                           (unsigned long long)zip->count);
    e->name = memory_copy_text(&zip->memory, (const char *)record + ZIP_CENTRAL_SIZE, name_size);
    if (!e->name) return report_no_memory(r);
    e->deflated = bytes_load16(record + 10) == 8;
    e->crc = bytes_load32(record + 16);
    e->stored_size = bytes_load32(record + 20);
    e->size = bytes_load32(record + 24);
    e->header_offset = bytes_load32(record + 42);
    if (!zip_apply_extra(e, record + ZIP_CENTRAL_SIZE + name_size, extra_size))
        return report_fail(r, "zip64: the sizes of \"%.200s\" are missing", e->name);
    if (bytes_load16(record + 34) != 0)
        return report_fail(r, "zip: archives of several disks are not supported");
    return zip_check_entry(e, bytes_load16(record + 8), bytes_load16(record + 10), r);
}

static bool zip_parse_directory(zip_archive *zip, const uint8_t *bytes, const zip_directory *d,
                                report *r) {
    size_t at = 0, used = 0;
    while (zip->count < d->count) {
        if (!zip_parse_entry(zip, bytes + at, (size_t)d->size - at, &used, r)) return false;
        at += used;
        zip->count++;
    }
    if (at != d->size) return report_fail(r, "zip: the directory has bytes after its last entry");
    return true;
}

static bool zip_read_directory(zip_archive *zip, const zip_directory *d, report *r) {
    uint8_t *bytes = malloc((size_t)d->size + 1);
    bool ok;
    zip->entries = memory_take(&zip->memory, ((size_t)d->count + 1) * sizeof *zip->entries);
    ok = bytes && zip->entries;
    if (!ok) (void)report_no_memory(r);
    ok = ok && source_read(zip->source, d->offset, bytes, (size_t)d->size, r) &&
         zip_parse_directory(zip, bytes, d, r);
    free(bytes);
    return ok;
}

/* === Local headers === */

/* True if the local header has the same values as the directory. If the sizes follow the data, the
 * local header may have zeros instead. If a size is in a zip64 field, the local header may have
 * 0xFFFFFFFF in its place. */
static bool zip_local_agrees(const uint8_t *header, const zip_entry *e) {
    bool later = (bytes_load16(header + 6) & ZIP_FLAG_DESCRIPTOR) != 0;
    uint32_t crc = bytes_load32(header + 14), stored = bytes_load32(header + 18);
    uint32_t size = bytes_load32(header + 22);
    if (later && crc == 0 && stored == 0 && size == 0) return true;
    return crc == e->crc && zip_agrees(stored, ZIP_UNKNOWN32, e->stored_size) &&
           zip_agrees(size, ZIP_UNKNOWN32, e->size);
}

static bool zip_check_local(const source *s, zip_entry *e, report *r) {
    uint8_t header[ZIP_LOCAL_SIZE];
    char name[1024];
    size_t name_size = strlen(e->name);
    if (!source_read(s, e->header_offset, header, sizeof header, r)) return false;
    if (bytes_load32(header) != ZIP_LOCAL_SIGNATURE || bytes_load16(header + 26) != name_size ||
        (bytes_load16(header + 6) & ZIP_FLAGS_SECRET) != 0 ||
        (bytes_load16(header + 8) == 8) != e->deflated || !zip_local_agrees(header, e))
        return report_fail(r,
                           "zip: the local header of \"%.200s\" at byte %llu differs from the "
                           "directory",
                           e->name, (unsigned long long)e->header_offset);
    if (!source_read(s, e->header_offset + ZIP_LOCAL_SIZE, name, name_size, r)) return false;
    if (memcmp(name, e->name, name_size) != 0)
        return report_fail(
            r, "zip: the local header gives \"%.200s\" another name than the directory", e->name);
    e->offset = e->header_offset + ZIP_LOCAL_SIZE + name_size + bytes_load16(header + 28);
    return true;
}

static int zip_compare_offsets(const void *a, const void *b) {
    const zip_entry *x = a, *y = b;
    return (x->header_offset > y->header_offset) - (x->header_offset < y->header_offset);
}

static int zip_compare_names(const void *a, const void *b) {
    const zip_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Checks that every entry ends before the next entry starts, and that the last entry ends before
 * the directory starts. */
static bool zip_check_layout(zip_archive *zip, const zip_directory *d, report *r) {
    size_t i;
    qsort(zip->entries, zip->count, sizeof *zip->entries, zip_compare_offsets);
    for (i = 0; i < zip->count; i++) {
        zip_entry *e = &zip->entries[i];
        uint64_t limit = i + 1 < zip->count ? e[1].header_offset : d->offset;
        if (e->header_offset > d->offset)
            return report_fail(r, "zip: \"%.200s\" is after the directory", e->name);
        if (!zip_check_local(zip->source, e, r)) return false;
        if (e->offset > limit || e->stored_size > limit - e->offset)
            return report_fail(
                r, "zip: \"%.200s\" of %llu bytes at byte %llu overlaps the data at byte %llu",
                e->name, (unsigned long long)e->stored_size, (unsigned long long)e->offset,
                (unsigned long long)limit);
    }
    return true;
}

static bool zip_check_names(zip_archive *zip, report *r) {
    size_t i;
    qsort(zip->entries, zip->count, sizeof *zip->entries, zip_compare_names);
    for (i = 1; i < zip->count; i++)
        if (strcmp(zip->entries[i - 1].name, zip->entries[i].name) == 0)
            return report_fail(r, "zip: duplicate entry \"%.200s\"", zip->entries[i].name);
    return true;
}

bool zip_open(zip_archive *zip, const source *s, report *r) {
    zip_directory directory = { 0 };
    zip->source = s;
    zip->memory = memory_make((size_t)48 << 20);
    zip->entries = NULL;
    zip->count = 0;
    if (zip_find_directory(s, &directory, r) && zip_read_directory(zip, &directory, r) &&
        zip_check_layout(zip, &directory, r) && zip_check_names(zip, r))
        return true;
    zip_close(zip);
    return false;
}

void zip_close(zip_archive *zip) {
    memory_free(&zip->memory);
    zip->entries = NULL;
    zip->count = 0;
}

/* === Entries === */

const zip_entry *zip_find(const zip_archive *zip, const char *name) {
    zip_entry key = { 0 };
    key.name = name;
    return bsearch(&key, zip->entries, zip->count, sizeof key, zip_compare_names);
}

static bool zip_check_crc(const zip_entry *e, uint32_t crc, report *r) {
    if (crc == e->crc) return true;
    return report_fail(r, "zip: CRC-32 of \"%.200s\" is %08lx, expected %08lx: the file is damaged",
                       e->name, (unsigned long)crc, (unsigned long)e->crc);
}

static bool zip_inflate(const source *s, const zip_entry *e, void *destination, report *r) {
    uint8_t *stored;
    bool ok;
    stored = calloc((size_t)e->stored_size + INFLATE_PADDING, 1);
    if (!stored) return report_no_memory(r);
    ok = source_read(s, e->offset, stored, (size_t)e->stored_size, r);
    if (ok && !inflate_whole(stored, (size_t)e->stored_size, destination, (size_t)e->size))
        ok = report_fail(r, "zip: \"%.200s\" does not inflate to %llu bytes: the file is damaged",
                         e->name, (unsigned long long)e->size);
    free(stored);
    return ok;
}

bool zip_read(const source *s, const zip_entry *e, void *destination, report *r) {
    if (e->size > SIZE_MAX)
        return report_fail(r, "zip: \"%.200s\" does not fit into memory", e->name);
    if (e->deflated ? !zip_inflate(s, e, destination, r)
                    : !source_read(s, e->offset, destination, (size_t)e->size, r))
        return false;
    return zip_check_crc(e, crc32_add(0, destination, (size_t)e->size), r);
}

/* Reads the first `size` bytes of an entry, which may be stored or deflated. If the entry is
 * deflated, only its first 2 * size + 1024 stored bytes are inflated. */
bool zip_read_start(const source *s, const zip_entry *e, void *destination, size_t size,
                    report *r) {
    const size_t most = 2 * size + 1024;
    const size_t stored = e->stored_size < most ? (size_t)e->stored_size : most;
    uint8_t *stream;
    bool ok;
    if (!e->deflated) return source_read(s, e->offset, destination, size, r);
    stream = calloc(stored + INFLATE_PADDING, 1);
    if (!stream) return report_no_memory(r);
    ok = source_read(s, e->offset, stream, stored, r);
    if (ok) inflate_start(stream, stored, destination, size);
    free(stream);
    return ok;
}

static bool zip_verify_stored(const source *s, const zip_entry *e, report *r) {
    uint8_t buffer[65536];
    uint64_t at = 0;
    uint32_t crc = 0;
    while (at < e->size) {
        size_t piece = e->size - at < sizeof buffer ? (size_t)(e->size - at) : sizeof buffer;
        if (!source_read(s, e->offset + at, buffer, piece, r)) return false;
        crc = crc32_add(crc, buffer, piece);
        at += piece;
    }
    return zip_check_crc(e, crc, r);
}

bool zip_verify(const source *s, const zip_entry *e, report *r) {
    uint8_t *whole;
    bool ok;
    if (!e->deflated) return zip_verify_stored(s, e, r);
    whole = malloc((size_t)e->size + 1);
    if (!whole) return report_no_memory(r);
    ok = zip_read(s, e, whole, r);
    free(whole);
    return ok;
}
