#include "base/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

/* === Bytes === */

bool source_open_file(source *s, const char *path, report *r) {
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

source source_from_memory(const char *name, const void *data, size_t size) {
    source s;
    s.name = name;
    s.memory = data ? data : (const uint8_t *)"";
    s.descriptor = -1;
    s.start = 0;
    s.size = size;
    return s;
}

source source_part(const source *s, uint64_t offset, uint64_t size) {
    source part = *s;
    if (part.memory) part.memory += offset;
    else part.start += offset;
    part.size = size;
    return part;
}

void source_close(source *s) {
    if (s->descriptor >= 0) os_close(s->descriptor);
    s->descriptor = -1;
}

bool source_is_folder(const char *path) { return os_kind_of(path) == OS_FOLDER; }

bool source_exists(const char *path) { return os_kind_of(path) != OS_NONE; }

static bool source_read_file(const source *s, uint64_t offset, uint8_t *to, size_t size,
                             report *r) {
    while (size > 0) {
        size_t piece = size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
        const ptrdiff_t got = os_read_at(s->descriptor, to, piece, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return report_fail(r, "cannot be read at byte %llu: %s", (unsigned long long)offset,
                               os_error(errno));
        if (got == 0)
            return report_fail(r, "the file became shorter: byte %llu is missing",
                               (unsigned long long)offset);
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r) {
    bool good = true;
    if (offset > s->size || size > s->size - offset)
        good = report_fail(
            r, "truncated: %llu bytes expected at byte %llu, but the file ends at %llu",
            (unsigned long long)size, (unsigned long long)offset, (unsigned long long)s->size);
    else if (!s->memory) good = source_read_file(s, s->start + offset, destination, size, r);
    else if (size > 0) memcpy(destination, s->memory + offset, size);
    return good || report_file(r, s->name);
}

/* Reads a file whose size is unknown, such as a pipe. The memory doubles until it holds the whole
 * file or exceeds `limit`. The caller frees the result. *size becomes the number of bytes. */
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

/* Returns the path "FOLDER/BETWEEN/NAME" if this file can be read. Otherwise returns NULL. The
 * caller frees the path. */
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

const char *paths_file_name(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && os_is_slash(path[length - 1])) length--;
    while (length > 0 && !os_is_slash(path[length - 1])) length--;
    return path + length;
}

const char *paths_slash(const char *folder) {
    const size_t length = strlen(folder);
    return length == 0 || os_is_slash(folder[length - 1]) ? "" : "/";
}

size_t paths_folder_length(const char *path) {
    size_t length = strlen(path);
    while (length > 0 && !os_is_slash(path[length - 1])) length--;
    return length;
}

/* === Headers of tar archives === */

enum {
    SIZE_AT = 124,
    SIZE_END = 136,
    SUM_AT = 148,
    SUM_END = 156,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_SIZE = 155,
    NAME_SIZE = 100,
    EXTENDED_AT = 482
};

/* Reads an octal number. Spaces may come before the digits, and a space or a NUL may follow
 * them. */
static bool read_octal(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    while (at < end && *at == ' ') at++;
    for (; at < end && *at >= '0' && *at <= '7'; at++) *value = *value * 8 + (uint64_t)(*at - '0');
    return at == end || *at == ' ' || *at == 0;
}

/* Reads a number in the form that GNU tar uses for large numbers: a byte whose highest bit is set,
 * then big-endian bytes. */
static bool read_binary(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = *at++ & 0x7f;
    for (; at < end; at++) {
        if (*value >> 55) return false;
        *value = *value << 8 | *at;
    }
    return true;
}

/* True if the header's checksum is the sum of all bytes of the header. For this sum, spaces replace
 * the checksum itself. Old programs added the bytes as signed numbers, so both sums are
 * accepted. */
static bool checksum_fits(const uint8_t *block) {
    uint64_t stored;
    int64_t plain = 0, with_sign = 0;
    for (int i = 0; i < TAR_BLOCK; i++) {
        const uint8_t byte = i >= SUM_AT && i < SUM_END ? ' ' : block[i];
        plain += byte;
        with_sign += byte < 128 ? byte : byte - 256;
    }
    return read_octal(block + SUM_AT, block + SUM_END, &stored) &&
           ((int64_t)stored == plain || (int64_t)stored == with_sign);
}

/* Copies a text that fills its whole field or ends with a NUL. Returns the length of the text. */
static size_t take_text(char *to, const uint8_t *from, size_t most) {
    size_t length = 0;
    while (length < most && from[length]) length++;
    memcpy(to, from, length);
    to[length] = '\0';
    return length;
}

bool tar_header_read(tar_header *h, const uint8_t block[TAR_BLOCK]) {
    const uint8_t *size = block + SIZE_AT;
    size_t length = 0;
    memset(h, 0, sizeof *h);
    if (!checksum_fits(block)) return false;
    if (!(*size & 0x80 ? read_binary : read_octal)(size, block + SIZE_END, &h->size)) return false;
    /* GNU tar has no NUL after "ustar". */
    if (memcmp(block + MAGIC_AT, "ustar", 6) == 0 && block[PREFIX_AT]) {
        length = take_text(h->name, block + PREFIX_AT, PREFIX_SIZE);
        h->name[length++] = '/';
    }
    length += take_text(h->name + length, block, NAME_SIZE);
    h->type = block[TYPE_AT] ? (char)block[TYPE_AT] : '0';
    if (h->type == '0' && length > 0 && h->name[length - 1] == '/') h->type = '5';
    h->extended = block[EXTENDED_AT] != 0;
    return true;
}
