/* windows.h - POSIX functions for Windows, which tests need to prepare their files. Tests for
 * Windows include this header first.
 */
#ifndef TESTS_WINDOWS_H
#define TESTS_WINDOWS_H

#include <direct.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define mkdir(path, mode)    _mkdir(path)
#define pipe(ends)           _pipe(ends, 1 << 16, _O_BINARY)
#define truncate(path, size) truncate64(path, size) /* size has 64 bits here, like off_t */
#define realpath(path, to)   _fullpath(to, path, 4096)

static inline char *mkdtemp(char *pattern) {
    return _mktemp(pattern) && _mkdir(pattern) == 0 ? pattern : NULL;
}

/* Copies the file, because not every user of Windows may make links. */
static inline int symlink(const char *target, const char *path) {
    const char *end = strrchr(path, '/');
    const int folder = target[0] == '/' || target[1] == ':' || !end ? 0 : (int)(end - path) + 1;
    char name[4096], bytes[4096];
    size_t size;
    FILE *from, *to;
    snprintf(name, sizeof name, "%.*s%s", folder, path, target);
    from = fopen(name, "rb");
    to = from ? fopen(path, "wb") : NULL;
    while (to && (size = fread(bytes, 1, sizeof bytes, from)) > 0) fwrite(bytes, 1, size, to);
    if (from) fclose(from);
    return to && fclose(to) == 0 ? 0 : -1;
}

static inline int alphasort(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static inline int scandir(const char *path, struct dirent ***list,
                          int (*wanted)(const struct dirent *),
                          int (*order)(const struct dirent **, const struct dirent **)) {
    enum { MOST = 4096 };
    struct dirent **found = calloc(MOST, sizeof *found), *entry;
    DIR *folder = found ? opendir(path) : NULL;
    int count = 0, i;
    while (folder && count < MOST && (entry = readdir(folder)) != NULL)
        if (wanted(entry)) {
            struct dirent *copy = malloc(sizeof *copy);
            if (!copy) break;
            memcpy(copy, entry, sizeof *copy);
            for (i = count++; i > 0; i--) {
                const struct dirent *before = found[i - 1], *after = copy;
                if (order(&before, &after) <= 0) break;
                found[i] = found[i - 1];
            }
            found[i] = copy;
        }
    if (folder) closedir(folder);
    *list = found;
    return folder ? count : -1;
}

#endif
