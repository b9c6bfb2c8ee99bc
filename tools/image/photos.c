#define _POSIX_C_SOURCE 200809L

#include "image/photos.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/source.h"
#include "image/image_file.h"

enum { MAX_FOLDERS = 32 };   /* nested */

typedef struct finding {
    photo_list list;
    size_t capacity;
    report *r;
} finding;

static bool add_path(finding *f, char *path)
{
    char **paths = f->list.count < 0x7fffffff
                       ? memory_grow(f->list.paths, sizeof *paths, (size_t)f->list.count,
                                     &f->capacity)
                       : NULL;
    if (!paths) {
        free(path);
        return report_no_memory(f->r);
    }
    f->list.paths = paths;
    paths[f->list.count++] = path;
    return true;
}

/* "a/b", malloc'ed; "b" if a is NULL. */
static char *join(const char *a, const char *b)
{
    size_t size = (a ? strlen(a) + 1 : 0) + strlen(b) + 1;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s%s%s", a ? a : "", a ? "/" : "", b);
    return path;
}

/* Only kinds that can be read: a folder may contain other files. */
static bool is_image_name(const char *name)
{
    static const char *const suffixes[] = { "jpg", "jpeg", "png", "bmp", "gif",
                                            "tga", "pgm",  "ppm", "pnm" };
    const char *dot = strrchr(name, '.');
    size_t i;
    for (i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcasecmp(dot + 1, suffixes[i]) == 0) return true;
    return false;
}

static bool walk(finding *f, const char *folder, int depth);

/* Does not follow links to folders: they could lead back up. Takes ownership of the path. */
static bool visit(finding *f, char *path, const char *name, int depth)
{
    struct stat status;
    bool good = true;
    if (!path) return report_no_memory(f->r);
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
        good = depth == MAX_FOLDERS || walk(f, path, depth + 1);
    else if (is_image_name(name) && stat(path, &status) == 0 && S_ISREG(status.st_mode))
        return add_path(f, path);
    free(path);
    return good;
}

static bool walk(finding *f, const char *folder, int depth)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    bool good = true;
    if (!directory) {
        (void)report_fail(f->r, "cannot be opened: %s", strerror(errno));
        return report_file(f->r, folder);
    }
    while (good && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            good = visit(f, join(folder, entry->d_name), entry->d_name, depth);
    closedir(directory);
    return good || report_file(f->r, folder);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool search(finding *f, const char *operand)
{
    const int before = f->list.count;
    char *path;
    if (!source_is_folder(operand)) {
        if (!source_exists(operand)) return report_fail(f->r, "does not exist");
        path = join(NULL, operand);
        return path ? add_path(f, path) : report_no_memory(f->r);
    }
    if (!walk(f, operand, 0)) return false;
    if (f->list.count == before) return report_fail(f->r, "has no images in it");
    qsort(f->list.paths + before, (size_t)(f->list.count - before), sizeof *f->list.paths,
          compare_paths);
    return true;
}

/* Keeps `max` of them; the others are freed. */
static void thin_out(photo_list *list, int max)
{
    const int all = list->count;
    int kept = 0, i;
    if (all <= max) return;
    for (i = 0; i < all; i++) {
        const bool wanted = kept < max && i == (int)((int64_t)kept * all / max);
        if (wanted) list->paths[kept++] = list->paths[i];
        else free(list->paths[i]);
    }
    list->count = kept;
}

static bool find_operand(finding *f, const char *operand)
{
    return search(f, operand) || report_file(f->r, operand);
}

bool photos_find(photo_list *list, const text_list *operands, int max, report *r)
{
    finding f;
    bool good = true;
    int i;
    memset(&f, 0, sizeof f);
    f.r = r;
    for (i = 0; good && i < operands->count; i++) good = find_operand(&f, operands->items[i]);
    if (good) thin_out(&f.list, max);
    else photos_free(&f.list);
    *list = f.list;
    return good;
}

void photos_free(photo_list *list)
{
    int i;
    for (i = 0; i < list->count + list->skipped; i++) free(list->paths[i]);
    free(list->paths);
    memset(list, 0, sizeof *list);
}

bool photos_prepare(photo_reader *reader, const vit_image *image, float *input, report *r)
{
    size_t size = vit_preprocess_size(reader->model, image);
    vit_result result;
    if (size > reader->scratch_size) {
        void *larger = realloc(reader->scratch, size);
        if (!larger) return report_no_memory(r);
        reader->scratch = larger;
        reader->scratch_size = size;
    }
    result = vit_preprocess(reader->model, image, input, reader->scratch, reader->scratch_size);
    if (result == VIT_ERROR_UNSUPPORTED)
        return report_fail(r, "images can be given to models of 1 or 3 channels, found %d",
                           reader->model->config.in_chans);
    return !result || report_fail(r, "%s", vit_result_string(result));
}

/* False if nothing would be left, or if it is not the image's fault. */
static bool skip(photo_list *list, int i, report *r)
{
    char *path = list->paths[i];
    if (r->no_memory || list->count == 1) return false;
    memmove(&list->paths[i], &list->paths[i + 1],
            (size_t)(list->count + list->skipped - i - 1) * sizeof *list->paths);
    list->paths[--list->count + list->skipped++] = path;
    *r = report_make();
    return true;
}

/* As photos are shown to the model later. */
bool photos_decode(const char *path, vit_image *image, report *r)
{
    image_file file;
    if (!image_file_load(path, 0, &file, r)) return false;
    memset(image, 0, sizeof *image);
    image->pixels = file.pixels;
    image->width = file.width;
    image->height = file.height;
    image->format = VIT_PIXEL_RGB8;
    return true;
}

void photos_free_image(vit_image *image)
{
    image_file file;
    memset(&file, 0, sizeof file);
    file.pixels = (uint8_t *)(uintptr_t)image->pixels;   /* photos_decode's own */
    image_file_free(&file);
    memset(image, 0, sizeof *image);
}

bool photos_read(photo_reader *reader, photo_list *list, int i, float *input, report *r)
{
    vit_image image;
    bool good;
    while (i < list->count && !photos_decode(list->paths[i], &image, r))
        if (!skip(list, i, r)) return false;
    if (i == list->count) return false;
    good = photos_prepare(reader, &image, input, r);
    photos_free_image(&image);
    return good || report_file(r, list->paths[i]);
}

void photos_reader_free(photo_reader *reader)
{
    free(reader->scratch);
    memset(reader, 0, sizeof *reader);
}
