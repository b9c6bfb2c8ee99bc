#define _POSIX_C_SOURCE 200809L
#include "image/photo_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "cli/output.h"
#include "os/os.h"

/* === One photo === */

bool photo_decode(photo *p, photo_decoder *decoder, report *r) {
    if (p->refused) return report_fail(r, "%s", p->refused) || report_file(r, p->name);
    if (p->image.pixels) return true;
    if (p->data) return photos_decode_bytes(p->name, p->data, p->size, decoder, &p->image, r);
    return photos_decode(p->name, decoder, &p->image, r);
}

bool photo_input(const photo *p, photo_decoder *decoder, const vit_model *model, float *input,
                 report *r) {
    if (p->refused) return report_fail(r, "%s", p->refused) || report_file(r, p->name);
    if (p->image.pixels)
        return photos_prepare(model, &p->image, input, r) || report_file(r, p->name);
    return photos_input(p->name, p->data, p->size, decoder, model, input, r);
}

static bool is_raw(const photo *p) {
    const char *pixels = (const char *)p->image.pixels, *data = p->data;
    return data && pixels >= data && pixels < data + p->size;
}

void photo_free_pixels(photo *p) {
    if (p->image.pixels && !is_raw(p)) photos_free_image(&p->image);
    free(p->data);
    memset(&p->image, 0, sizeof p->image);
    p->data = NULL;
    p->size = 0;
}

void photo_free(photo *p) {
    photo_free_pixels(p);
    free(p->name);
    free(p->refused);
    memset(p, 0, sizeof *p);
}

/* === Paths === */

bool photo_paths_open(photo_paths *paths, const text_list *operands, const text_list *lists,
                      char separator, report *r) {
    memset(paths, 0, sizeof *paths);
    paths->lists = *lists;
    paths->separator = separator;
    return photos_find(&paths->list, operands, 0x7fffffff, r);
}

static void close_list(photo_paths *paths) {
    if (paths->file && paths->file != stdin) fclose(paths->file);
    paths->file = NULL;
}

void photo_paths_close(photo_paths *paths) {
    close_list(paths);
    free(paths->line);
    photos_free(&paths->list);
    memset(paths, 0, sizeof *paths);
}

/* Opens the next list of paths. Returns false if all lists have been read, or if the list cannot be
 * opened. */
static bool open_list(photo_paths *paths, report *r) {
    const char *name;
    if (paths->next_list == paths->lists.count) return false;
    name = paths->lists.items[paths->next_list++];
    paths->file = strcmp(name, "-") == 0 ? stdin : os_fopen(name, "rb");
    if (paths->file) return true;
    (void)report_fail(r, "cannot be opened: %s", os_error(errno));
    return report_file(r, name);
}

/* Refuses a line that contains a NUL. No path contains a NUL, so the list was probably written by
 * find -print0. */
static bool check_line(const photo_paths *paths, size_t length, report *r) {
    if (strlen(paths->line) == length) return true;
    (void)report_fail(
        r, "the list has a NUL byte in a path: a list whose paths end with NUL needs --null");
    return report_file(r, paths->lists.items[paths->next_list - 1]);
}

/* Reads the next line of the open list into paths->line, without its separator. The last line needs
 * no separator. Returns false at the end of the list or after a failure. */
static bool take_line(photo_paths *paths, size_t *length, report *r) {
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

/* Reads the next nonempty line of the open list into paths->line. Returns false at the end of the
 * list, or after a failure. */
static bool read_line(photo_paths *paths, report *r) {
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

/* Returns the next path from the lists, or NULL after the last list or after a failure. */
static const char *next_listed(photo_paths *paths, report *r) {
    while (paths->file || open_list(paths, r)) {
        if (read_line(paths, r)) return paths->line;
        close_list(paths);
        if (r->failed) return NULL;
    }
    return NULL;
}

/* Returns the next path. If a list contains the path of a folder, the images in the folder come
 * next. */
static const char *next_of(photo_paths *paths, report *r) {
    const char *path = NULL;
    while (paths->next == paths->list.count) {
        path = next_listed(paths, r);
        if (!path || !photos_is_folder(path)) return path;
        if (!photos_add_some(&paths->list, path, r)) return NULL;
    }
    return paths->list.paths[paths->next++];
}

static bool next_path(void *user, photo *p, report *r) {
    const char *path = next_of(user, r);
    if (!path || !cli_output_spares(path, r)) return false;
    p->name = strdup(path);
    return p->name || report_no_memory(r);
}

photo_source photo_paths_source(photo_paths *paths) {
    photo_source from;
    from.user = paths;
    from.count = paths->lists.count ? 0 : (uint64_t)paths->list.count;
    from.next = next_path;
    return from;
}

bool photo_paths_all(photo_list *list, const text_list *operands, const text_list *lists,
                     char separator, report *r) {
    photo_paths paths;
    const char *path;
    bool good = photo_paths_open(&paths, operands, lists, separator, r);
    memset(list, 0, sizeof *list);
    while (good && (path = next_of(&paths, r)) != NULL) good = photos_append(list, path, r);
    photo_paths_close(&paths);
    if (good && !r->failed && list->count == 0) (void)report_fail(r, "the lists name no images");
    if (good && !r->failed) return true;
    photos_free(list);
    return false;
}

/* === The thread === */

static bool read_wanted(frame_reader *reader) {
    frame *f = &reader->incoming;
    while (frames_read(&reader->stream, f, &reader->failure))
        if ((f->number - 1) % reader->every == 0) return true;
    return false;
}

/* Makes a photo of the frame that was just read. The photo takes over the memory of the frame. */
static bool make_photo(frame_reader *reader, photo *p, frame_facts *facts) {
    frame *f = &reader->incoming;
    char name[32];
    memset(p, 0, sizeof *p);
    memset(facts, 0, sizeof *facts);
    snprintf(name, sizeof name, "frame %lld", (long long)f->number);
    p->name = strdup(name);
    if (!p->name) return report_no_memory(&reader->failure);
    p->data = f->data;
    p->size = f->size;
    if (reader->raw.width) {
        p->image = reader->raw;
        p->image.pixels = f->data;
    }
    facts->number = f->number;
    facts->read_at = f->read_at;
    f->data = NULL;
    f->capacity = 0;
    return true;
}

/* Decodes a photo before the caller takes it. A failure is not reported here, because the caller
 * then decodes the photo again and reports the reason. */
static void decode_ahead(const frame_reader *reader, photo *p, frame_facts *facts) {
    const double start = cli_now_ms();
    report r = report_make();
    (void)photo_decode(p, reader->decoder, &r);
    facts->decode_ms = cli_now_ms() - start;
}

/* Unless `realtime` is true, waits until the caller has taken the previous photo, so that the slot
 * `latest` is free. Returns false if the reader has been stopped. */
static bool wait_for_room(frame_reader *reader) {
    bool room;
    pthread_mutex_lock(&reader->lock);
    while (reader->full && !reader->realtime && !reader->stopped)
        pthread_cond_wait(&reader->changed, &reader->lock);
    room = !reader->stopped;
    pthread_mutex_unlock(&reader->lock);
    return room;
}

static void hand_over(frame_reader *reader, const photo *p, const frame_facts *facts) {
    pthread_mutex_lock(&reader->lock);
    photo_free(&reader->latest);
    reader->latest = *p;
    reader->facts = *facts;
    reader->dropped += reader->full;
    reader->full = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}

static void *read_ahead(void *argument) {
    frame_reader *reader = argument;
    photo p;
    frame_facts facts;
    while (wait_for_room(reader) && read_wanted(reader) && make_photo(reader, &p, &facts)) {
        if (!reader->realtime) decode_ahead(reader, &p, &facts);
        hand_over(reader, &p, &facts);
    }
    pthread_mutex_lock(&reader->lock);
    reader->ended = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

/* === The thread that takes the frames === */

static bool next_frame(void *user, photo *p, report *r) {
    frame_reader *reader = user;
    bool got;
    pthread_mutex_lock(&reader->lock);
    while (!reader->full && !reader->ended) pthread_cond_wait(&reader->changed, &reader->lock);
    got = reader->full;
    if (got) {
        *p = reader->latest;
        memset(&reader->latest, 0, sizeof reader->latest);
        reader->current = reader->facts;
    } else {
        *r = reader->failure;
    }
    reader->full = false;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    if (r->failed) (void)report_file(r, reader->path);
    return got;
}

photo_source frame_reader_source(frame_reader *reader) {
    photo_source from;
    from.user = reader;
    from.count = 0;
    from.next = next_frame;
    return from;
}

/* === Opening and closing the stream === */

/* The file descriptor of standard input. */
enum { STANDARD_INPUT = 0 };

static void close_file(frame_reader *reader) {
    if (reader->descriptor != STANDARD_INPUT) os_close(reader->descriptor);
    os_close(reader->stop[0]);
}

static bool start(frame_reader *reader) {
    pthread_mutex_init(&reader->lock, NULL); /* This call fails only if memory is exhausted. */
    pthread_cond_init(&reader->changed, NULL);
    reader->failure = report_make();
    frames_begin(&reader->stream, &reader->raw, reader->descriptor, reader->stop[0]);
    if (pthread_create(&reader->thread, NULL, read_ahead, reader) == 0) return true;
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    return false;
}

bool frame_reader_open(frame_reader *reader, const char *path, report *r) {
    reader->path = path;
    reader->descriptor = strcmp(path, "-") ? os_open(path) : STANDARD_INPUT;
    if (reader->descriptor < 0) {
        (void)report_fail(r, "cannot be opened: %s", os_error(errno));
        return report_file(r, path);
    }
    if (os_pipe(reader->stop)) {
        if (start(reader)) return true;
        os_close(reader->stop[1]);
        close_file(reader);
    }
    return report_fail(r, "the thread that reads the stream cannot be started: %s",
                       strerror(errno));
}

/* Stops the reading thread and waits for its end. The thread may be waiting for the slot `latest`,
 * or for a frame that never comes. */
void frame_reader_close(frame_reader *reader) {
    pthread_mutex_lock(&reader->lock);
    reader->stopped = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    os_close(reader->stop[1]);
    pthread_join(reader->thread, NULL);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    close_file(reader);
    photo_free(&reader->latest);
    frame_free(&reader->incoming);
}

/* === Photos with classes === */

static bool add_folder(labelled_photos *set, const char *root, int index, report *r) {
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

/* Keeps `limit` photos, evenly spaced as in photos_find, and frees the others. 0 keeps all. */
static void thin_out(labelled_photos *set, int limit) {
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

bool labelled_find(labelled_photos *set, const char *root, int limit, report *r) {
    bool good;
    memset(set, 0, sizeof *set);
    good = photos_subfolders(root, &set->folders, r);
    for (int i = 0; good && i < set->folders.count; i++) good = add_folder(set, root, i, r);
    if (good && set->photos.count == 0) {
        (void)report_fail(r, "the folder has no images in subfolders; expected DIR/CLASS/IMAGE");
        good = report_file(r, root);
    }
    if (good) thin_out(set, limit);
    else labelled_free(set);
    return good;
}

void labelled_free(labelled_photos *set) {
    photos_free(&set->folders);
    photos_free(&set->photos);
    free(set->folder);
    memset(set, 0, sizeof *set);
}
