#define _POSIX_C_SOURCE 200809L /* makes the headers declare strdup */

#include "image/sort.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/source.h"
#include "cli/output.h"
#include "os/os.h"

enum { LONGEST_LABEL = 120, MOST_ALIKE = 100000 };

bool sort_can_link(void) { return os_has_links(); }

/* === The folders' names === */

/* Returns true if the name is the name of a Windows device, such as "con" or "nul.txt". Windows
 * reserves these names with any suffix. */
static bool is_reserved(const char *name) {
    static const char *const devices[] = { "con", "prn", "aux", "nul" };
    const size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (length == 3 && strncasecmp(name, devices[i], 3) == 0) return true;
    return length == 4 && name[3] >= '1' && name[3] <= '9' &&
           (strncasecmp(name, "com", 3) == 0 || strncasecmp(name, "lpt", 3) == 0);
}

/* Returns the length in bytes to which a label is shortened. A UTF-8 character is never cut. */
static size_t cut_length(const char *label) {
    size_t length = strlen(label);
    if (length <= LONGEST_LABEL) return length;
    length = LONGEST_LABEL;
    while (length > LONGEST_LABEL - 4 && ((unsigned char)label[length] & 0xc0) == 0x80) length--;
    return length;
}

/* Makes the name of a class's folder from its label and a number. A negative number is not written.
 * The caller frees the name. */
static char *name_of_folder(const char *label, int number) {
    const size_t length = label ? cut_length(label) : 0;
    char *name = malloc(length + 32);
    char *to = name;
    if (!name) return NULL;
    if (length == 0) {
        snprintf(name, 32, "class %d", number);
        return name;
    }
    if (is_reserved(label)) *to++ = '_';
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)label[i];
        const bool hidden = i == 0 && c == '.', lost = i + 1 == length && (c == '.' || c == ' ');
        *to++ = c < ' ' || c == 0x7f || strchr("/\\:*?\"<>|", c) || hidden || lost ? '_' : (char)c;
    }
    if (number >= 0) snprintf(to, 24, " (%d)", number);
    else *to = '\0';
    return name;
}

/* The name of a class's folder, and the number of the class. */
typedef struct named {
    const char *name;
    int class;
} named;

static int compare_names(const void *a, const void *b) {
    return strcasecmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Copies all classes to `sorted`, and sorts them by name. */
static void sort_names(const photo_sorter *s, named *sorted) {
    for (int i = 0; i < s->num_names; i++) sorted[i] = (named){ s->names[i], i };
    qsort(sorted, (size_t)s->num_names, sizeof *sorted, compare_names);
}

/* Adds the class's number to each name that differs from another name at most in case. */
static bool tell_apart(photo_sorter *s, const char *const *labels, report *r) {
    const int count = s->num_names;
    named *sorted = malloc((size_t)count * sizeof *sorted);
    bool *alike = calloc((size_t)count, sizeof *alike);
    bool good = sorted && alike;
    if (good) sort_names(s, sorted);
    for (int i = 1; good && i < count; i++)
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            alike[sorted[i - 1].class] = alike[sorted[i].class] = true;
    for (int i = 0; good && i < count; i++) {
        if (!alike[i]) continue;
        free(s->names[i]);
        s->names[i] = name_of_folder(labels[i], i);
        good = s->names[i] != NULL;
    }
    if (!good) (void)report_no_memory(r);
    if (good) sort_names(s, sorted);
    for (int i = 1; good && i < count; i++)
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            good = report_fail(r, "classes %d and %d would share the folder '%.100s'",
                               sorted[i - 1].class, sorted[i].class, sorted[i].name);
    free(alike);
    free(sorted);
    return good;
}

bool sort_open(photo_sorter *s, const char *const *labels, int count, report *r) {
    bool good = true;
    s->names = calloc((size_t)count, sizeof *s->names);
    if (!s->names) return report_no_memory(r);
    s->num_names = count;
    for (int i = 0; good && i < count; i++) {
        s->names[i] = name_of_folder(labels[i], labels[i] && *labels[i] ? -1 : i);
        good = s->names[i] || report_no_memory(r);
    }
    if (good && tell_apart(s, labels, r)) return true;
    sort_close(s);
    return false;
}

void sort_close(photo_sorter *s) {
    for (int i = 0; i < s->num_names; i++) free(s->names[i]);
    free(s->names);
    s->names = NULL;
    s->num_names = 0;
}

/* === One photo === */

/* Returns true if both files can be read and contain the same bytes. */
static bool same_bytes(const char *a, const char *b) {
    FILE *files[2] = { os_fopen(a, "rb"), os_fopen(b, "rb") };
    char blocks[2][1 << 14];
    bool same = files[0] && files[1];
    size_t size = 1;
    while (same && size > 0) {
        size = fread(blocks[0], 1, sizeof blocks[0], files[0]);
        same = fread(blocks[1], 1, sizeof blocks[1], files[1]) == size &&
               memcmp(blocks[0], blocks[1], size) == 0;
    }
    for (int i = 0; i < 2; i++) {
        same = same && !ferror(files[i]);
        if (files[i]) fclose(files[i]);
    }
    return same;
}

/* Returns true if the path `target` already leads to the photo or, if photos are copied, to a file
 * with the same bytes. */
static bool is_there(const photo_sorter *s, const char *photo, const char *target) {
    os_identity a, b;
    if (!os_identify(photo, &a) || !os_identify(target, &b)) return false;
    if (a.volume == b.volume && a.number == b.number) return true;
    return s->way == SORT_COPY && same_bytes(photo, target);
}

static bool copy_bytes(FILE *from, FILE *to) {
    char block[1 << 14];
    size_t size;
    while ((size = fread(block, 1, sizeof block, from)) > 0)
        if (fwrite(block, 1, size, to) != size) break;
    return !ferror(from);
}

/* Copies a photo. If a file with the name `target` exists, returns false, sets errno to EEXIST and
 * reports nothing. */
static bool copy_photo(const char *photo, const char *target, report *r) {
    FILE *from = os_fopen(photo, "rb");
    cli_output output;
    bool good = from || report_fail(r, "cannot be opened: %s", os_error(errno)) ||
                report_file(r, photo);
    good = good && cli_output_open(&output, target, r);
    if (good && !copy_bytes(from, output.file)) {
        (void)report_fail(r, "cannot be read: %s", os_error(errno));
        good = report_file(r, photo);
        cli_output_abandon(&output);
    } else if (good) {
        output.is_new = true;
        good = cli_output_commit(&output, r);
        if (good) os_copy_time(photo, target);
    }
    if (from) fclose(from);
    return good;
}

/* Moves a photo. If `target` is on another disk, copies the photo and then removes the original. */
static bool move_photo(const char *photo, const char *target, report *r) {
    if (os_rename_new(photo, target)) {
        if (os_kind_of(target) != OS_NONE) return true;
        (void)os_rename_new(target, photo);
        (void)report_fail(r, "the photo is a link to a relative path and cannot be moved");
        return report_file(r, photo);
    }
    if (errno == EEXIST) return false;
    if (errno == EXDEV) {
        if (!copy_photo(photo, target, r)) return false;
        os_remove(photo);
        if (os_kind_of(photo) == OS_NONE) return true;
        (void)report_fail(r, "the photo was copied to %.200s, but cannot be removed", target);
        return report_file(r, photo);
    }
    (void)report_fail(r, "cannot be moved to %.200s: %s", target, os_error(errno));
    return report_file(r, photo);
}

/* Makes a link to a photo. The link contains an absolute path, because a relative path would break
 * if the link were moved. */
static bool link_photo(const char *photo, const char *target, report *r) {
    char *path = os_real_path(photo);
    bool good = path || report_fail(r, "%s", os_error(errno)) || report_file(r, photo);
    if (good && !os_link(path, target)) {
        good = false;
        if (errno != EEXIST) {
            (void)report_fail(r, "cannot be made: %s", os_error(errno));
            (void)report_file(r, target);
        } else {
            free(path);
            errno = EEXIST;
            return false;
        }
    }
    free(path);
    return good;
}

static bool place_at(const photo_sorter *s, const char *photo, const char *target, report *r) {
    switch (s->way) {
    case SORT_COPY:
        if (os_kind_of(target) == OS_NONE) return copy_photo(photo, target, r);
        errno = EEXIST;
        return false;
    case SORT_MOVE: return move_photo(photo, target, r);
    case SORT_LINK: break;
    }
    return link_photo(photo, target, r);
}

/* Writes the i-th possible path for a photo in the folder: FOLDER/NAME.jpg, FOLDER/NAME-2.jpg and
 * so on. */
static void name_target(char *target, size_t size, const char *folder, const char *photo, int i) {
    const char *name = paths_file_name(photo), *dot = strrchr(name, '.');
    const int stem = (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
    char number[16] = "";
    if (i > 1) snprintf(number, sizeof number, "-%d", i);
    snprintf(target, size, "%s%s%.*s%s%s", folder, paths_slash(folder), stem, name, number,
             name + stem);
}

static sort_result place_in(const photo_sorter *s, const char *folder, const char *photo,
                            char **target, report *r) {
    const size_t size = strlen(folder) + strlen(photo) + 24;
    char *path = *target = malloc(size);
    if (!path) return (void)report_no_memory(r), SORT_FAILED;
    for (int i = 1; i <= MOST_ALIKE; i++) {
        name_target(path, size, folder, photo, i);
        if (is_there(s, photo, path)) return SORT_THERE;
        if (place_at(s, photo, path, r)) return SORT_PLACED;
        if (r->failed || errno != EEXIST) break;
    }
    if (!r->failed) {
        (void)report_fail(r, "the folder of the class already has %d photos of this name",
                          MOST_ALIKE);
        (void)report_file(r, photo);
    }
    free(path);
    *target = NULL;
    return SORT_FAILED;
}

sort_result sort_place(photo_sorter *s, const char *photo, int class, char **target, report *r) {
    const size_t size = strlen(s->folder) + strlen(s->names[class]) + 3;
    char *folder = malloc(size);
    sort_result result = SORT_FAILED;
    *target = NULL;
    if (!folder) return (void)report_no_memory(r), SORT_FAILED;
    snprintf(folder, size, "%s%s%s", s->folder, paths_slash(s->folder), s->names[class]);
    if (s->dry) {
        *target = folder;
        return SORT_PLACED;
    }
    if (os_kind_of(photo) == OS_NONE) result = SORT_GONE;
    else if (cli_output_folder(s->folder, r) && cli_output_folder(folder, r))
        result = place_in(s, folder, photo, target, r);
    free(folder);
    return result;
}
