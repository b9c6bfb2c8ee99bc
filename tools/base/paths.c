#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

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
