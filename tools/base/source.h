/* source.h - reads bytes at 64-bit offsets in a file or in memory. Also reads whole files, and
 * finds paths. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

/* A source: a file, a range of memory, or a part of either. */
typedef struct source {
    const char *name;
    const uint8_t *memory; /* NULL if the source is a file */
    int descriptor;
    uint64_t start; /* offset of the part in its file */
    uint64_t size;
} source;

bool source_open_file(source *s, const char *path, report *r);
source source_from_memory(const char *name, const void *data, size_t size);
/* Returns a part of s as a source. The part must lie within s. */
source source_part(const source *s, uint64_t offset, uint64_t size);
void source_close(source *s);

bool source_is_folder(const char *path);
bool source_exists(const char *path);

/* Reads `size` bytes at `offset`. If the source is too short, the function fails, and the message
 * contains the size of the source. */
bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r);

/* Reads a whole file into malloc'ed memory, with a NUL after the last byte. The file may be a pipe;
 * "-" stands for standard input. Reading stops soon after `limit` bytes, so *size > limit means
 * that the file is longer than the limit. On failure *data is NULL. */
bool source_read_all(const char *path, size_t limit, unsigned char **data, size_t *size, report *r);

/* === Paths === */

/* Returns the path of the bundled model `name`, malloc'ed. Searches in ../models and ../share/vit,
 * as seen from the executable's folder, then in ./models, and then in VIT_MODEL_DIR if that was
 * defined at compile time. Returns NULL if there is no such model or memory is exhausted. */
char *paths_find_model(const char *name);

/* Returns the part of the path after the last slash. A slash at the end does not count: returns
 * "b/" for "a/b/". */
const char *paths_file_name(const char *path);
/* Returns the separator to put between the path of a folder and a name in the folder: "/", or "" if
 * the path is empty or ends with a slash. */
const char *paths_slash(const char *folder);
/* Returns the length of the path's folder, with its slash. Returns 0 if the path has no folder. */
size_t paths_folder_length(const char *path);

/* === Headers of tar archives === */

/* This function reads the header of a member of a tar archive in the formats V7, ustar, PAX and
 * GNU. */

enum { TAR_BLOCK = 512, TAR_HEADER_NAME = 155 + 1 + 100 };

typedef struct tar_header {
    char type;     /* '0' for a file, also if an old archive has a zero byte */
    uint64_t size; /* number of bytes of the data that follow, up to 2^63 - 1 */
    char name[TAR_HEADER_NAME + 1];
    bool extended; /* of a sparse file of GNU tar: true if more header blocks follow */
} tar_header;

/* Reads a header. Returns false if the checksum or the size is damaged. */
bool tar_header_read(tar_header *h, const uint8_t block[TAR_BLOCK]);

#endif
