/* photo_source.h - photos one after the other, wherever they come from: files, lists, a pipe. */
#ifndef PHOTO_SOURCE_H
#define PHOTO_SOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"
#include "base/text.h"
#include "image/frames.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

/* One of them. A source gives its name, and with it nothing more if that is the path of an image
 * file, or the file's bytes, or pixels. */
typedef struct photo {
    char *name;      /* malloc'ed: what results and messages call it                  */
    void *data;      /* malloc'ed: the bytes of an image file, or raw pixels; or NULL */
    size_t size;     /* of data                                                       */
    char *refused;   /* malloc'ed: why there is nothing to decode; NULL: there is     */
    vit_image image; /* raw pixels lie in data; without them, what photo_decode made  */
} photo;

/* Fills in image unless the source did. On failure there is nothing to free but the photo. */
bool photo_decode(photo *p, photo_decoder *decoder, report *r);
/* Its input for a model, as photos_input gives it; raw pixels are preprocessed here. */
bool photo_input(const photo *p, photo_decoder *decoder, const vit_model *model, float *input,
                 report *r);
void photo_free_pixels(photo *p); /* and data; the name stays */
void photo_free(photo *p);

/* To add a kind of source: these three members, and in *user what they work on. */
typedef struct photo_source {
    void *user;
    uint64_t count; /* of its photos; 0: not known before the end */
    /* Gives the next photo; *p is zeroed before. False after the last one, or with a message in *r.
     * One thread calls it at a time while others wait: decoding is left to photo_decode. */
    bool (*next)(void *user, photo *p, report *r);
} photo_source;

/* === Paths: those of a list, then those of files that hold lists === */

typedef struct photo_paths {
    photo_list list;     /* of files; freed by photo_paths_close               */
    text_list lists;     /* files with a path in each line; "-": standard input */
    char separator;      /* what ends a path in them: '\n' or '\0'             */
    int next, next_list; /* private, like the following                        */
    FILE *file;
    char *line;
    size_t line_size;
} photo_paths;

/* The rows of a program's options (cli/options.h) that name lists: a text_list, a bool. */
#define PHOTO_LIST_OPTIONS(lists, null)                                                            \
    { 0,        "list", "FILE", "a file with an IMAGE or FOLDER a line; '-': standard input",      \
      CLI_LIST, lists,  0,      0 },                                                               \
    {                                                                                              \
        '0', "null", NULL, "paths in lists end with NUL, as from find -print0", CLI_FLAG, null, 0, \
            0                                                                                      \
    }

/* Finds the images of the operands, as photos_find; lists are read as they are needed, and are not
 * held in memory. Their lists are borrowed. Zeroed if it fails. */
bool photo_paths_open(photo_paths *paths, const text_list *operands, const text_list *lists,
                      char separator, report *r);
void photo_paths_close(photo_paths *paths);
photo_source photo_paths_source(photo_paths *paths);

/* All images of operands and lists at once; a folder without any, or no image, is an error. */
bool photo_paths_all(photo_list *list, const text_list *operands, const text_list *lists,
                     char separator, report *r);

/* === Reading frames ahead === */

/* Frames as photos, one after the other, read ahead by a thread.
 *
 *     frame_reader reader = { 0 };
 *     reader.every = 1;
 *     if (frames_choose("640x480", "nv12", &reader.raw, &r) &&
 *         frame_reader_open(&reader, "-", &r)) {
 *         photo_source source = frame_reader_source(&reader);
 *         ...
 *         frame_reader_close(&reader);
 *     }
 */

/* What is known of a frame beyond its photo. */
typedef struct frame_facts {
    int64_t number;   /* the first of the stream is 1                              */
    double read_at;   /* when its last byte had come; of cli_now_ms                */
    double decode_ms; /* 0: it was not decoded ahead                               */
} frame_facts;

/* While a frame is worked on, the thread reads and decodes the next one. In real time it does not
 * wait until that is taken: it reads on and keeps only the latest frame, not decoded; what that
 * replaces is dropped. */
typedef struct frame_reader {
    vit_image raw;          /* of frames_choose                                          */
    photo_decoder *decoder; /* of images; raw pixels need none                           */
    int every;              /* frames 1, 1 + every, ... are given                        */
    bool realtime;
    frame_facts current; /* of the frame given last                                   */
    int64_t dropped;     /* of those that were to be given; valid when it is closed   */
    const char *path;    /* private, as what follows                                  */
    int descriptor;
    int stop[2]; /* a pipe: closing its second end stops the thread           */
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows                                       */
    pthread_cond_t changed;
    photo latest;
    frame_facts facts; /* of the latest                                             */
    bool full, ended, stopped;
    frame_stream stream; /* the thread's own, as what follows                         */
    frame incoming;
    report failure;
} frame_reader;

/* Opens the file or pipe, "-" for standard input, and begins to read. The caller has set what is
 * not private and zeroed the rest. If this fails there is nothing to close. */
bool frame_reader_open(frame_reader *reader, const char *path, report *r);
/* A photo for each frame, called "frame 7". It ends, or fails, as frames_read. */
photo_source frame_reader_source(frame_reader *reader);
/* Also before the end of the stream: a read that waits for a frame is given up. */
void frame_reader_close(frame_reader *reader);

/* === Photos with classes === */

/* Labelled photos: a folder with a folder for each class, DIR/CLASS/IMAGE. */

typedef struct labelled_photos {
    photo_list folders; /* the names of the folders, sorted; some may have no photos       */
    photo_list photos;  /* what is in and below them, folder by folder, sorted             */
    int *folder;        /* [photos.count]: which of the folders                            */
} labelled_photos;

/* Of more than `limit` photos (0: no limit), so many, evenly spaced. Photos beside the folders have
 * no class and are left out. No photo at all is an error. */
bool labelled_find(labelled_photos *set, const char *root, int limit, report *r);
void labelled_free(labelled_photos *set);

#endif
