#include "image/labelled.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"

static bool add_folder(labelled_photos *set, const char *root, int index, report *r)
{
    const char *name = set->folders.paths[index];
    const int before = set->photos.count;
    size_t size = strlen(root) + strlen(name) + 2;
    char *path = malloc(size);
    int *larger;
    bool good;
    if (!path) return report_no_memory(r);
    snprintf(path, size, "%s%s%s", root, paths_slash(root), name);
    good = photos_add(&set->photos, path, r);
    free(path);
    if (!good || set->photos.count == before) return good;
    larger = realloc(set->folder, (size_t)set->photos.count * sizeof *larger);
    if (!larger) return report_no_memory(r);
    set->folder = larger;
    for (int i = before; i < set->photos.count; i++) larger[i] = index;
    return true;
}

/* Keeps `limit` of them, as photos_find does. */
static void thin_out(labelled_photos *set, int limit)
{
    const int all = set->photos.count;
    int kept = 0;
    if (limit <= 0 || limit >= all) return;
    for (int i = 0; i < all; i++) {
        if (kept == limit || i != (int)((int64_t)kept * all / limit)) {
            free(set->photos.paths[i]);
            continue;
        }
        set->folder[kept] = set->folder[i];
        set->photos.paths[kept++] = set->photos.paths[i];
    }
    set->photos.count = kept;
}

bool labelled_find(labelled_photos *set, const char *root, int limit, report *r)
{
    bool good;
    memset(set, 0, sizeof *set);
    good = photos_subfolders(root, &set->folders, r);
    for (int i = 0; good && i < set->folders.count; i++) good = add_folder(set, root, i, r);
    if (good && set->photos.count == 0) {
        (void)report_fail(r, "has no images in subfolders; expected DIR/CLASS/IMAGE");
        good = report_file(r, root);
    }
    if (good) thin_out(set, limit);
    else labelled_free(set);
    return good;
}

void labelled_free(labelled_photos *set)
{
    photos_free(&set->folders);
    photos_free(&set->photos);
    free(set->folder);
    memset(set, 0, sizeof *set);
}
