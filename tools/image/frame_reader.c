#define _POSIX_C_SOURCE 200809L

#include "image/frame_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"
#include "os/os.h"

/* === The thread === */

static bool read_wanted(frame_reader *reader)
{
    frame *f = &reader->incoming;
    while (frames_read(&reader->stream, f, &reader->failure))
        if ((f->number - 1) % reader->every == 0) return true;
    return false;
}

/* The frame that was read becomes a photo, which takes over its memory. */
static bool make_photo(frame_reader *reader, photo *p, frame_facts *facts)
{
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

/* What cannot be decoded stays as it is: whoever takes it finds out why. */
static void decode_ahead(const frame_reader *reader, photo *p, frame_facts *facts)
{
    const double start = cli_now_ms();
    report r = report_make();
    (void)photo_decode(p, reader->decoder, &r);
    facts->decode_ms = cli_now_ms() - start;
}

/* Until the latest photo has been taken. False: stopped. */
static bool wait_for_room(frame_reader *reader)
{
    bool room;
    pthread_mutex_lock(&reader->lock);
    while (reader->full && !reader->realtime && !reader->stopped)
        pthread_cond_wait(&reader->changed, &reader->lock);
    room = !reader->stopped;
    pthread_mutex_unlock(&reader->lock);
    return room;
}

static void hand_over(frame_reader *reader, const photo *p, const frame_facts *facts)
{
    pthread_mutex_lock(&reader->lock);
    photo_free(&reader->latest);
    reader->latest = *p;
    reader->facts = *facts;
    reader->dropped += reader->full;
    reader->full = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}

static void *read_ahead(void *argument)
{
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

/* === Who takes them === */

static bool next_frame(void *user, photo *p, report *r)
{
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

photo_source frame_reader_source(frame_reader *reader)
{
    photo_source source;
    source.user = reader;
    source.count = 0;
    source.next = next_frame;
    return source;
}

/* === From its opening to its end === */

enum { STANDARD_INPUT = 0 };   /* its descriptor */

static void close_file(frame_reader *reader)
{
    if (reader->descriptor != STANDARD_INPUT) os_close(reader->descriptor);
    os_close(reader->stop[0]);
}

static bool start(frame_reader *reader)
{
    pthread_mutex_init(&reader->lock, NULL);   /* neither fails where there is memory */
    pthread_cond_init(&reader->changed, NULL);
    reader->failure = report_make();
    frames_begin(&reader->stream, &reader->raw, reader->descriptor, reader->stop[0]);
    if (pthread_create(&reader->thread, NULL, read_ahead, reader) == 0) return true;
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    return false;
}

bool frame_reader_open(frame_reader *reader, const char *path, report *r)
{
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
    return report_fail(r, "a thread to read with cannot be started: %s", strerror(errno));
}

/* The thread may wait for room, or for a frame that never comes. */
void frame_reader_close(frame_reader *reader)
{
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
