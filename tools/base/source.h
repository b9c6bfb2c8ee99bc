/* source.h - read-only bytes at 64-bit offsets, of a file or of memory; and files read whole. */
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
    uint64_t size;
} source;

bool source_open_file(source *s, const char *path, report *r);
source source_from_memory(const char *name, const void *data, size_t size);
void source_close(source *s);

bool source_is_folder(const char *path);
bool source_exists(const char *path);

/* All of size bytes, or a failure that says where the file ends. */
bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r);

/* All of a file or pipe ("-": standard input), malloc'ed. Reading ends soon after `limit` bytes,
 * so *size above it shows that there is too much. On failure *data is NULL. */
bool source_read_all(const char *path, size_t limit, unsigned char **data, size_t *size, report *r);

#endif
