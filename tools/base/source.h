/* source.h - read-only bytes at 64-bit offsets, in a file or in memory; files read whole. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

typedef struct source {
    const char *name;
    const uint8_t *memory;   /* NULL: a file */
    int descriptor;
    uint64_t start;          /* of a part of a file: where it begins there */
    uint64_t size;
} source;

bool source_open_file(source *s, const char *path, report *r);
source source_from_memory(const char *name, const void *data, size_t size);
source source_part(const source *s, uint64_t offset, uint64_t size);   /* which must be within it */
void source_close(source *s);

bool source_is_folder(const char *path);
bool source_exists(const char *path);

/* Reads all `size` bytes; the failure says where the file ends. */
bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r);

/* A whole file or pipe ("-": standard input), malloc'ed, with a NUL after its last byte. Reading
 * stops soon after `limit` bytes, so *size > limit means that there is more than that. On failure
 * *data is NULL. */
bool source_read_all(const char *path, size_t limit, unsigned char **data, size_t *size, report *r);

#endif
