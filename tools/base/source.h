/* source.h - reads bytes at 64-bit offsets in a file or in memory, and whole files; finds paths. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

typedef struct source {
    const char *name;
    const uint8_t *memory; /* NULL: a file */
    int descriptor;
    uint64_t start; /* start of the part in its file */
    uint64_t size;
} source;

bool source_open_file(source *s, const char *path, report *r);
source source_from_memory(const char *name, const void *data, size_t size);
source source_part(const source *s, uint64_t offset, uint64_t size); /* the part must be within s */
void source_close(source *s);

bool source_is_folder(const char *path);
bool source_exists(const char *path);

/* Reads all `size` bytes. The message about a failure reports the size of the file. */
bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r);

/* Reads a whole file or pipe ("-": standard input) into malloc'ed memory, with a NUL after the last
 * byte. Reading stops soon after `limit` bytes, so *size > limit means that the file is longer than
 * the limit. On failure *data is NULL. */
bool source_read_all(const char *path, size_t limit, unsigned char **data, size_t *size, report *r);

/* === Paths === */

/* Returns the path of the bundled model, from any working directory. Looks next to the executable
 * (../models, or ../share/vit once installed), in ./models, and in VIT_MODEL_DIR if that was
 * defined at compile time. The path is malloc'ed; NULL if there is no model or memory is
 * exhausted. */
char *paths_find_model(const char *name);

/* Returns the part after the last slash, without counting a slash at the end: "b" for "a/b", "b/"
 * for "a/b/". */
const char *paths_file_name(const char *path);
/* Returns the separator between a folder and a name in it: "/", or "" if the folder ends with a
 * slash. */
const char *paths_slash(const char *folder);
/* Returns the length of the folder with its slash, 0 if the path has no folder. */
size_t paths_folder_length(const char *path);

/* === Headers of tar archives === */

/* The header of a member of a tar archive: V7, ustar, PAX and GNU's. */

enum { TAR_BLOCK = 512, TAR_HEADER_NAME = 155 + 1 + 100 };

typedef struct tar_header {
    char type;     /* '0' is a file, for old archives too */
    uint64_t size; /* size of the data that follow, up to 2^63 - 1 */
    char name[TAR_HEADER_NAME + 1];
    bool extended; /* a sparse file of GNU tar, whose header continues */
} tar_header;

/* Returns false if the checksum or the size is damaged. */
bool tar_header_read(tar_header *h, const uint8_t block[TAR_BLOCK]);

#endif
