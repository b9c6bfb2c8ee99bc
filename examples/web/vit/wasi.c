#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* === Signals === */

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    (void)number, (void)action;
    if (old) memset(old, 0, sizeof *old);
    return 0;
}

int sigemptyset(sigset_t *set)
{
    set->none = 0;
    return 0;
}

int raise(int number)
{
    (void)number;
    return 0;
}

/* === Files === */

pid_t getpid(void)
{
    return 1;
}

int dup(int descriptor)
{
    (void)descriptor;
    errno = EBADF;
    return -1;
}

int fchmod(int descriptor, mode_t mode)
{
    (void)descriptor, (void)mode;
    return 0;
}

char *realpath(const char *restrict path, char *restrict resolved)
{
    const size_t size = strlen(path) + 1;
    char *copy = resolved ? resolved : malloc(size);
    return copy ? memcpy(copy, path, size) : NULL;
}

/* === Memory === */

void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset)
{
    (void)address, (void)size, (void)protection, (void)flags, (void)descriptor, (void)offset;
    errno = ENODEV;   /* who maps reads instead */
    return MAP_FAILED;
}

int munmap(void *address, size_t size)
{
    (void)address, (void)size;
    return 0;
}

int madvise(void *address, size_t size, int advice)
{
    (void)address, (void)size, (void)advice;
    return 0;
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

/* === Patterns ===
 * For bytes: wasi-libc's has tables of all of Unicode. */

/* "[a-z]", after its first bracket; *end is what follows it, or NULL where it does not end. */
static bool is_in_set(const char *set, char letter, const char **end)
{
    const bool negated = *set == '!' || *set == '^';
    const char *first = set += negated;
    bool found = false;
    for (; *set && (*set != ']' || set == first); set++) {
        const unsigned char low = (unsigned char)*set;
        unsigned char high = low;
        if (set[1] == '-' && set[2] && set[2] != ']') high = (unsigned char)*(set += 2);
        found = found || (low <= (unsigned char)letter && (unsigned char)letter <= high);
    }
    *end = *set ? set + 1 : NULL;
    return found != negated;
}

/* Whether one letter fits the beginning of the pattern, which goes to what follows. */
static bool fits_one(const char **pattern, char letter)
{
    const char *at = *pattern, *end;
    bool fits;
    *pattern = at + 1;
    if (*at == '?') return true;
    if (*at == '[') {
        fits = is_in_set(at + 1, letter, &end);
        if (!end) return letter == '[';
        *pattern = end;
        return fits;
    }
    if (*at == '\\' && at[1]) at = (*pattern)++;
    return *at == letter;
}

/* After a star that failed, it takes one letter more. */
int fnmatch(const char *pattern, const char *text, int flags)
{
    const char *star = NULL, *taken = NULL;
    (void)flags;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            taken = text;
        } else if (*pattern && fits_one(&pattern, *text)) {
            text++;
        } else if (star) {
            pattern = star;
            text = ++taken;
        } else {
            return FNM_NOMATCH;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern ? FNM_NOMATCH : 0;
}
