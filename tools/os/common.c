/* common.c - contains the functions that posix.c and examples/web/vit/wasi.c share. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#endif

#include "os/os.h"

#if !defined(_WIN32)

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

const char *os_error(int number) { return strerror(number); }

/* === Files === */

os_kind os_kind_of(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) return OS_NONE;
    return S_ISREG(status.st_mode) ? OS_FILE : S_ISDIR(status.st_mode) ? OS_FOLDER : OS_OTHER;
}

bool os_is_slash(char c) { return c == '/'; }

bool os_identify(const char *path, os_identity *to) {
    struct stat status;
    if ((strcmp(path, "-") ? stat(path, &status) : fstat(STDIN_FILENO, &status)) != 0) return false;
    to->volume = (uint64_t)status.st_dev;
    to->number = (uint64_t)status.st_ino;
    return true;
}

bool os_same_name(const char *a, const char *b) {
#if defined(__APPLE__)
    return strcasecmp(a, b) == 0;
#else
    return strcmp(a, b) == 0;
#endif
}

static void (*on_read)(const char *path);

void os_on_read(void (*seen)(const char *path)) { on_read = seen; }

int os_open(const char *path) {
    if (on_read) on_read(path);
#if defined(O_CLOEXEC)
    return open(path, O_RDONLY | O_CLOEXEC);
#else
    return open(path, O_RDONLY);
#endif
}

FILE *os_fopen(const char *path, const char *mode) {
    if (on_read && mode[0] == 'r') on_read(path);
    return fopen(path, mode);
}

bool os_seek(FILE *file, uint64_t offset) { return fseeko(file, (off_t)offset, SEEK_SET) == 0; }

bool os_sync(FILE *file) { return fsync(fileno(file)) == 0; }

bool os_replace(const char *from, const char *to) { return rename(from, to) == 0; }

/* Renames a file to a name that no file has yet. An empty file reserves the new name until the
 * renamed file replaces it. */
bool os_rename_new(const char *from, const char *to) {
    const int descriptor = open(to, O_WRONLY | O_CREAT | O_EXCL, 0666);
    int why;
    if (descriptor < 0) return false;
    close(descriptor);
    if (rename(from, to) == 0) return true;
    why = errno;
    unlink(to);
    errno = why;
    return false;
}

void os_remove(const char *path) { unlink(path); }

bool os_file_size(int descriptor, uint64_t *size) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    *size = (uint64_t)status.st_size;
    return true;
}

ptrdiff_t os_read_at(int descriptor, void *to, size_t size, uint64_t offset) {
    return pread(descriptor, to, size, (off_t)offset);
}

void os_close(int descriptor) { close(descriptor); }

FILE *os_memory_open(char **text, size_t *size) { return open_memstream(text, size); }

bool os_memory_close(FILE *file, char **text, size_t *size) {
    const bool failed = ferror(file) != 0;
    (void)size;
    if (fclose(file) == 0 && !failed && *text) return true;
    free(*text);
    *text = NULL;
    return false;
}

/* === Memory and time === */

void *os_allocate(size_t alignment, size_t size) {
    void *memory;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

void os_free(void *memory) { free(memory); }

double os_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

#endif
