/* tar_writer.h - writes valid and invalid tar archives in memory, for tests and for the first
 * inputs of a fuzzer. */
#ifndef TAR_WRITER_H
#define TAR_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tar_writer {
    uint8_t *bytes;
    size_t size, capacity;
} tar_writer;

/* Appends `size` zeroed bytes. Returns a pointer to them, which is valid until the next call. */
static inline uint8_t *tar_writer_grow(tar_writer *t, size_t size) {
    if (t->size + size > t->capacity) {
        t->capacity = 2 * (t->size + size);
        t->bytes = realloc(t->bytes, t->capacity);
        if (!t->bytes) exit(2);
    }
    memset(t->bytes + t->size, 0, size);
    t->size += size;
    return t->bytes + t->size - size;
}

/* Corrects the checksum of a header. Call it after a change to the header. */
static inline void tar_writer_sum(uint8_t *header) {
    unsigned sum = 0;
    char digits[8];
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += header[i];
    snprintf(digits, sizeof digits, "%06o", sum);
    memcpy(header + 148, digits, 7);
}

/* Appends the header of a member. Returns the offset of the header. */
static inline size_t tar_writer_header(tar_writer *t, char type, const char *name, uint64_t size) {
    const size_t at = t->size;
    uint8_t *header = tar_writer_grow(t, 512);
    char digits[16];
    memcpy(header, name, strlen(name) < 100 ? strlen(name) : 100);
    memcpy(header + 100,
           "0000644\0"
           "0000000\0"
           "0000000",
           24);
    snprintf(digits, sizeof digits, "%011llo", (unsigned long long)(size & 0x1ffffffff));
    memcpy(header + 124, digits, 12);
    memcpy(header + 136, "00000000000", 12);
    header[156] = (uint8_t)type;
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    tar_writer_sum(header);
    return at;
}

static inline void tar_writer_data(tar_writer *t, const void *data, size_t size) {
    if (size > 0) memcpy(tar_writer_grow(t, (size + 511) / 512 * 512), data, size);
}

static inline void tar_writer_file(tar_writer *t, const char *name, const void *data, size_t size) {
    (void)tar_writer_header(t, '0', name, size);
    tar_writer_data(t, data, size);
}

static inline void tar_writer_text(tar_writer *t, const char *name, const char *text) {
    tar_writer_file(t, name, text, strlen(text));
}

/* Writes an extended header, which describes the next member. Type 'L' has a long name, and type
 * 'x' has PAX records. */
static inline void tar_writer_before(tar_writer *t, char type, const void *text, size_t size) {
    (void)tar_writer_header(t, type, "././@LongLink", size);
    tar_writer_data(t, text, size);
}

/* Writes an extended header with one PAX record, such as "path=photos/1.jpg". A length precedes
 * the record. It counts its own digits, the space after them, the record and a newline. */
static inline void tar_writer_pax(tar_writer *t, const char *record) {
    char text[8192];
    size_t length = strlen(record) + 3, digits;
    for (int i = 0; i < 3; i++) {
        digits = (size_t)snprintf(NULL, 0, "%zu", length);
        length = strlen(record) + 2 + digits;
    }
    snprintf(text, sizeof text, "%zu %s\n", length, record);
    tar_writer_before(t, 'x', text, strlen(text));
}

static inline void tar_writer_end(tar_writer *t) { (void)tar_writer_grow(t, 1024); }

static inline void tar_writer_free(tar_writer *t) {
    free(t->bytes);
    memset(t, 0, sizeof *t);
}

#endif
