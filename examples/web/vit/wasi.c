/* wasi.c - tools/os and a pool of threads, where there is one process with one folder, without
 * links, permissions, signals and mapped files.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

void os_start(int *argc, char ***argv)
{
    (void)argc, (void)argv;
}

const char *os_error(int number)
{
    return strerror(number);
}

/* === Files === */

os_kind os_kind_of(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return OS_NONE;
    return S_ISREG(status.st_mode) ? OS_FILE : S_ISDIR(status.st_mode) ? OS_FOLDER : OS_OTHER;
}

bool os_is_slash(char c)
{
    return c == '/';
}

bool os_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *os_real_path(const char *path)
{
    return copy_text(path);
}

FILE *os_fopen(const char *path, const char *mode)
{
    return fopen(path, mode);
}

FILE *os_create(const char *path, const char *like)
{
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    (void)like;
    return descriptor < 0 ? NULL : fdopen(descriptor, "wb");
}

bool os_seek(FILE *file, uint64_t offset)
{
    return fseeko(file, (off_t)offset, SEEK_SET) == 0;
}

bool os_sync(FILE *file)
{
    return fsync(fileno(file)) == 0;
}

bool os_close_copy(FILE *file)
{
    (void)file;
    return true;
}

bool os_replace(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

void os_remove(const char *path)
{
    unlink(path);
}

void os_before_end(void (*clean)(void))
{
    (void)clean;
}

int os_open(const char *path)
{
    return open(path, O_RDONLY);
}

bool os_file_size(int descriptor, uint64_t *size)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    *size = (uint64_t)status.st_size;
    return true;
}

ptrdiff_t os_read_at(int descriptor, void *to, size_t size, uint64_t offset)
{
    return pread(descriptor, to, size, (off_t)offset);
}

void os_close(int descriptor)
{
    close(descriptor);
}

FILE *os_memory_open(char **text, size_t *size)
{
    return open_memstream(text, size);
}

bool os_memory_close(FILE *file, char **text, size_t *size)
{
    const bool failed = ferror(file) != 0;
    (void)size;
    if (fclose(file) == 0 && !failed && *text) return true;
    free(*text);
    *text = NULL;
    return false;
}

/* === Memory === */

/* Who maps reads instead. */
void *os_map(const char *path, size_t *size)
{
    (void)path, (void)size;
    return NULL;
}

void os_unmap(void *data, size_t size)
{
    (void)data, (void)size;
}

void os_drop_pages(const void *data, size_t size)
{
    (void)data, (void)size;
}

void *os_allocate(size_t alignment, size_t size)
{
    void *memory;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

void os_free(void *memory)
{
    free(memory);
}

/* === This process === */

double os_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* The page takes lines that are drawn over each other, as progress is. */
bool os_is_terminal(FILE *file)
{
    return isatty(fileno(file)) != 0;
}

char *os_executable(void)
{
    return NULL;
}

long os_process(void)
{
    return 1;
}

/* === Threads === */

vit_result vit_threads_create(int num_threads, vit_threads **threads, vit_executor *executor)
{
    (void)num_threads;
    *threads = NULL;
    memset(executor, 0, sizeof *executor);
    return VIT_OK;
}

void vit_threads_destroy(vit_threads *threads)
{
    (void)threads;
}
