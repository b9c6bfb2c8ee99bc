/* failing_malloc.c - a library that tests preload into a program. If FAIL_AT is n, the library
 * makes the n-th allocation of the program fail; allocations by the C library count too. Without
 * FAIL_AT, the library writes the number of allocations to the file that COUNT_TO names.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* glibc's own allocators: a program that replaces malloc can still call them. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static long calls, fail_at;
static int over;

/* Writes the number of allocations to the file COUNT_TO, if it is set and FAIL_AT is not. */
static void end(void) {
    const char *path = getenv("COUNT_TO");
    struct rlimit limit;
    FILE *file;
    over = 1;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    file = path && !fail_at ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", calls);
    fclose(file);
}

static int refuses(void) {
    const long call = over ? 0 : __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (call == 1) atexit(end);
    if (call == 0 || call != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return refuses() ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return refuses() ? NULL : __libc_calloc(count, size); }

void *realloc(void *old, size_t size) { return refuses() ? NULL : __libc_realloc(old, size); }

__attribute__((constructor)) static void start(void) {
    const char *at = getenv("FAIL_AT");
    calls = 0;
    fail_at = at ? atol(at) : 0;
}
