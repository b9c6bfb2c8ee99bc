#include "base/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

bool source_open_file(source *s, const char *path, report *r)
{
    s->name = path;
    s->memory = NULL;
    s->start = s->size = 0;
    s->descriptor = os_open(path);
    if (s->descriptor < 0) {
        (void)report_fail(r, "cannot be opened: %s", os_error(errno));
        return report_file(r, path);
    }
    if (os_file_size(s->descriptor, &s->size)) return true;
    source_close(s);
    (void)report_fail(r, "not a regular file");
    return report_file(r, path);
}

source source_from_memory(const char *name, const void *data, size_t size)
{
    source s;
    s.name = name;
    s.memory = data ? data : (const uint8_t *)"";
    s.descriptor = -1;
    s.start = 0;
    s.size = size;
    return s;
}

source source_part(const source *s, uint64_t offset, uint64_t size)
{
    source part = *s;
    if (part.memory) part.memory += offset;
    else part.start += offset;
    part.size = size;
    return part;
}

void source_close(source *s)
{
    if (s->descriptor >= 0) os_close(s->descriptor);
    s->descriptor = -1;
}

bool source_is_folder(const char *path)
{
    return os_kind_of(path) == OS_FOLDER;
}

bool source_exists(const char *path)
{
    return os_kind_of(path) != OS_NONE;
}

static bool source_read_file(const source *s, uint64_t offset, uint8_t *to, size_t size, report *r)
{
    while (size > 0) {
        size_t piece = size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
        const ptrdiff_t got = os_read_at(s->descriptor, to, piece, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return report_fail(r, "cannot read at byte %llu: %s", (unsigned long long)offset,
                               os_error(errno));
        if (got == 0)
            return report_fail(r, "file became shorter: nothing at byte %llu",
                               (unsigned long long)offset);
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r)
{
    bool good = true;
    if (offset > s->size || size > s->size - offset)
        good = report_fail(r, "truncated: %llu bytes expected at byte %llu, the file ends at %llu",
                           (unsigned long long)size, (unsigned long long)offset,
                           (unsigned long long)s->size);
    else if (!s->memory)
        good = source_read_file(s, s->start + offset, destination, size, r);
    else if (size > 0)
        memcpy(destination, s->memory + offset, size);
    return good || report_file(r, s->name);
}

/* The size of a pipe is unknown, so the block doubles until it holds everything. */
static unsigned char *read_stream(FILE *file, size_t limit, size_t *size) {
    size_t capacity = 1 << 16;
    unsigned char *data = malloc(capacity);
    *size = 0;
    while (data) {
        *size += fread(data + *size, 1, capacity - 1 - *size, file);
        data[*size] = '\0';
        if (*size < capacity - 1 || capacity - 1 > limit) break;
        unsigned char *larger = capacity <= SIZE_MAX / 2 ? realloc(data, capacity * 2) : NULL;
        if (!larger) free(data);
        data = larger;
        capacity *= 2;
    }
    return data;
}

bool source_read_all(const char *path, size_t limit, unsigned char **data, size_t *size,
                     report *r) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : os_fopen(path, "rb");
    *data = NULL;
    if (!file) {
        (void)report_fail(r, "cannot be opened: %s", os_error(errno));
        return report_file(r, path);
    }
    *data = read_stream(file, limit, size);
    if (!*data) {
        (void)report_no_memory(r);
    } else if (ferror(file)) {
        (void)report_fail(r, "cannot be read: %s", os_error(errno));
        free(*data);
        *data = NULL;
    }
    if (file != stdin) fclose(file);
    return *data || report_file(r, path);
}

/* === Paths === */

/* "FOLDER/BETWEEN/NAME" if such a file can be read, else NULL. */
static char *readable(const char *folder, size_t length, const char *between, const char *name) {
    size_t size = length + strlen(between) + strlen(name) + 3;
    char *path = malloc(size);
    FILE *file;
    if (!path) return NULL;
    snprintf(path, size, "%.*s/%s%s", (int)length, folder, between, name);
    file = os_fopen(path, "rb");
    if (file) {
        fclose(file);
        return path;
    }
    free(path);
    return NULL;
}

char *paths_find_model(const char *name) {
    char *executable = os_executable(), *path = NULL;
    if (executable) {
        const size_t folder = paths_folder_length(executable);
        path = readable(executable, folder, "../models/", name);
        if (!path) path = readable(executable, folder, "../share/vit/", name);
        free(executable);
    }
    if (!path) path = readable(".", 1, "models/", name);
#ifdef VIT_MODEL_DIR
    if (!path) path = readable(VIT_MODEL_DIR, strlen(VIT_MODEL_DIR), "", name);
#endif
    return path;
}

const char *paths_file_name(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && os_is_slash(path[length - 1])) length--;
    while (length > 0 && !os_is_slash(path[length - 1])) length--;
    return path + length;
}

const char *paths_slash(const char *folder)
{
    const size_t length = strlen(folder);
    return length == 0 || os_is_slash(folder[length - 1]) ? "" : "/";
}

size_t paths_folder_length(const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && !os_is_slash(path[length - 1])) length--;
    return length;
}
