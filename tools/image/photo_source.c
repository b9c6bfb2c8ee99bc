#define _POSIX_C_SOURCE 200809L

#include "image/photo_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "os/os.h"

/* === One photo === */

bool photo_decode(photo *p, photo_decoder *decoder, report *r)
{
    if (p->refused) return report_fail(r, "%s", p->refused) || report_file(r, p->name);
    if (p->image.pixels) return true;
    if (p->data) return photos_decode_bytes(p->name, p->data, p->size, decoder, &p->image, r);
    return photos_decode(p->name, decoder, &p->image, r);
}

static bool is_raw(const photo *p)
{
    const char *pixels = (const char *)p->image.pixels, *data = p->data;
    return data && pixels >= data && pixels < data + p->size;
}

void photo_free_pixels(photo *p)
{
    if (p->image.pixels && !is_raw(p)) photos_free_image(&p->image);
    free(p->data);
    memset(&p->image, 0, sizeof p->image);
    p->data = NULL;
    p->size = 0;
}

void photo_free(photo *p)
{
    photo_free_pixels(p);
    free(p->name);
    free(p->refused);
    memset(p, 0, sizeof *p);
}

/* === Paths === */

bool photo_paths_open(photo_paths *paths, const text_list *operands, const text_list *lists,
                      char separator, report *r)
{
    memset(paths, 0, sizeof *paths);
    paths->lists = *lists;
    paths->separator = separator;
    return photos_find(&paths->list, operands, 0x7fffffff, r);
}

static void close_list(photo_paths *paths)
{
    if (paths->file && paths->file != stdin) fclose(paths->file);
    paths->file = NULL;
}

void photo_paths_close(photo_paths *paths)
{
    close_list(paths);
    free(paths->line);
    photos_free(&paths->list);
    memset(paths, 0, sizeof *paths);
}

/* False: all lists are read, or one cannot be opened. */
static bool open_list(photo_paths *paths, report *r)
{
    const char *name;
    if (paths->next_list == paths->lists.count) return false;
    name = paths->lists.items[paths->next_list++];
    paths->file = strcmp(name, "-") == 0 ? stdin : os_fopen(name, "rb");
    if (paths->file) return true;
    (void)report_fail(r, "cannot be opened: %s", os_error(errno));
    return report_file(r, name);
}

/* A path may hold anything but a NUL: one before the end of the line is of a list made by find
 * -print0. */
static bool check_line(const photo_paths *paths, size_t length, report *r)
{
    if (strlen(paths->line) == length) return true;
    (void)report_fail(r, "has a NUL byte in a path: a list whose paths end with one needs --null");
    return report_file(r, paths->lists.items[paths->next_list - 1]);
}

/* Up to the separator, which is not kept, or to the end of the file. False: there is no more. */
static bool take_line(photo_paths *paths, size_t *length, report *r)
{
    size_t count = 0;
    int c;
    do {
        c = getc(paths->file);
        if (count + 1 >= paths->line_size) {
            char *larger = realloc(paths->line, 2 * count + 256);
            if (!larger) return report_no_memory(r);
            paths->line = larger;
            paths->line_size = 2 * count + 256;
        }
        if (c != EOF && c != paths->separator) paths->line[count++] = (char)c;
    } while (c != EOF && c != paths->separator);
    paths->line[count] = '\0';
    *length = count;
    return (c != EOF || count > 0) && !ferror(paths->file);
}

/* The next path of the open list that is not empty, in line. False: it has no more, or failed. */
static bool read_line(photo_paths *paths, report *r)
{
    size_t length;
    errno = 0;
    while (take_line(paths, &length, r)) {
        if (paths->separator == '\n' && length > 0 && paths->line[length - 1] == '\r')
            paths->line[--length] = '\0';
        if (!check_line(paths, length, r)) return false;
        if (length > 0) return true;
    }
    if (r->failed || !ferror(paths->file)) return false;
    (void)report_fail(r, "cannot be read: %s", strerror(errno));
    return report_file(r, paths->lists.items[paths->next_list - 1]);
}

/* The next path of all lists; NULL: there is none, or a failure. */
static const char *next_listed(photo_paths *paths, report *r)
{
    while (paths->file || open_list(paths, r)) {
        if (read_line(paths, r)) return paths->line;
        close_list(paths);
        if (r->failed) return NULL;
    }
    return NULL;
}

/* The images of a folder join the operands' and come at once. */
static const char *next_of(photo_paths *paths, report *r)
{
    const char *path = NULL;
    while (paths->next == paths->list.count) {
        path = next_listed(paths, r);
        if (!path || os_kind_of(path) != OS_FOLDER) return path;
        if (!photos_add_some(&paths->list, path, r)) return NULL;
    }
    return paths->list.paths[paths->next++];
}

static bool next_path(void *user, photo *p, report *r)
{
    const char *path = next_of(user, r);
    if (!path || !cli_output_spares(path, r)) return false;
    p->name = strdup(path);
    return p->name || report_no_memory(r);
}

photo_source photo_paths_source(photo_paths *paths)
{
    photo_source source;
    source.user = paths;
    source.count = paths->lists.count ? 0 : (uint64_t)paths->list.count;
    source.next = next_path;
    return source;
}
