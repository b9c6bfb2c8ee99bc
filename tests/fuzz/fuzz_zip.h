/* fuzz_zip.h - zip archives for fuzzers. An archive is made from the input, or is the input itself
 * with corrected checksums. Without the correction, almost every input would have a wrong checksum.
 */
#ifndef FUZZ_ZIP_H
#define FUZZ_ZIP_H

#include "base/checksum.h"
#include "base/memory.h"
#include "fuzz.h"

static inline void fuzz_put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* Corrects the checksum of the stored entry that the directory's record describes, if the entry
 * lies within the file. */
static inline void fuzz_mend_entry(uint8_t *file, size_t size, uint8_t *record) {
    const size_t at = bytes_load32(record + 42), bytes = bytes_load32(record + 20);
    if (bytes_load16(record + 10) != 0 || at > size || size - at < 30) return;
    const size_t start = at + 30 + bytes_load16(file + at + 26) + bytes_load16(file + at + 28);
    if (start > size || bytes > size - start) return;
    const uint32_t crc = crc32_add(0, file + start, bytes);
    fuzz_put(record + 16, crc, 4);
    fuzz_put(file + at + 14, crc, 4);
}

static inline void fuzz_mend_zip(uint8_t *file, size_t size) {
    for (size_t at = 0; at + 46 <= size; at++)
        if (file[at] == 'P' && bytes_load32(file + at) == 0x02014b50)
            fuzz_mend_entry(file, size, file + at);
}

typedef struct fuzz_zip {
    uint8_t *bytes;
    size_t size;
    uint8_t directory[512]; /* enough for a few entries with short names */
    size_t directory_size;
    unsigned count;
} fuzz_zip;

/* Writes the fields of a stored entry that are the same in the local header and in the
 * directory. */
static inline void fuzz_zip_fields(uint8_t *at, const char *name, const void *data, size_t size) {
    fuzz_put(at, 20, 2);
    fuzz_put(at + 10, crc32_add(0, data, size), 4);
    fuzz_put(at + 14, size, 4);
    fuzz_put(at + 18, size, 4);
    fuzz_put(at + 22, strlen(name), 2);
}

static inline void fuzz_zip_add(fuzz_zip *zip, const char *name, const void *data, size_t size) {
    uint8_t *local = zip->bytes + zip->size, *record = zip->directory + zip->directory_size;
    const size_t length = strlen(name);
    memset(local, 0, 30);
    memset(record, 0, 46);
    memcpy(local, "PK\3\4", 4);
    memcpy(record, "PK\1\2", 4);
    fuzz_zip_fields(local + 4, name, data, size);
    fuzz_zip_fields(record + 6, name, data, size);
    fuzz_put(record + 42, zip->size, 4);
    memcpy(local + 30, name, length);
    memcpy(record + 46, name, length);
    if (size > 0) memcpy(local + 30 + length, data, size);
    zip->size += 30 + length + size;
    zip->directory_size += 46 + length;
    zip->count++;
}

static inline void fuzz_zip_end(fuzz_zip *zip) {
    uint8_t *end = zip->bytes + zip->size + zip->directory_size;
    memcpy(zip->bytes + zip->size, zip->directory, zip->directory_size);
    memset(end, 0, 22);
    memcpy(end, "PK\5\6", 4);
    fuzz_put(end + 8, zip->count, 2);
    fuzz_put(end + 10, zip->count, 2);
    fuzz_put(end + 12, zip->directory_size, 4);
    fuzz_put(end + 16, zip->size, 4);
    zip->size += zip->directory_size + 22;
}

#endif
