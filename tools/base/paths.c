#define _POSIX_C_SOURCE 200809L

#include "base/paths.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "FOLDER/BETWEEN/NAME" if such a file can be read, else NULL. */
static char *readable(const char *folder, size_t length, const char *between, const char *name) {
    size_t size = length + strlen(between) + strlen(name) + 3;
    char *path = malloc(size);
    if (!path) return NULL;
    snprintf(path, size, "%.*s/%s%s", (int)length, folder, between, name);
    if (access(path, R_OK) == 0) return path;
    free(path);
    return NULL;
}

char *paths_find_model(const char *name) {
    char executable[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    char *path = NULL;
    if (length > 0) {
        size_t folder;
        executable[length] = '\0';
        folder = (size_t)(strrchr(executable, '/') - executable);
        path = readable(executable, folder, "../models/", name);
        if (!path) path = readable(executable, folder, "../share/vit/", name);
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
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    return path + length;
}

size_t paths_folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}
