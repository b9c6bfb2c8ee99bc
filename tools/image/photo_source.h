/* photo_source.h - reads photos one after the other from any source: files, lists, a pipe. */
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

/* A photo of a source. The source sets the name. Unless the name is the path of an image file, the
 * source also sets the bytes of a file, or pixels. */
typedef struct photo {
    char *name;      /* malloc'ed: the photo's name in results and messages */
    void *data;      /* malloc'ed: the bytes of an image file, or raw pixels; or NULL */
    size_t size;     /* size of data in bytes */
    char *refused;   /* malloc'ed: reason why decoding fails; NULL: it can be decoded */
    vit_image image; /* raw pixels in `data`, or the result of photo_decode */
} photo;

/* Fills in `image`, unless the source has done so. Free only the photo, even after a failure. */
bool photo_decode(photo *p, photo_decoder *decoder, report *r);
/* Computes the photo's input for a model, like photos_input; also preprocesses raw pixels. */
bool photo_input(const photo *p, photo_decoder *decoder, const vit_model *model, float *input,
                 report *r);
void photo_free_pixels(photo *p); /* frees image and data, and keeps the name */
void photo_free(photo *p);

/* Each kind of source has its own function `next`; the state of this function is in *user. */
typedef struct photo_source {
    void *user;
    uint64_t count; /* number of photos; 0 if the number is known only at the end */
    /* Gives the next photo. *p is zeroed before the call. Returns false after the last photo, and
     * on failure with a message in *r. One thread at a time calls this function while others wait;
     * the function therefore leaves the decoding to photo_decode. */
    bool (*next)(void *user, photo *p, report *r);
} photo_source;

/* === Paths on the command line, then paths in list files === */

typedef struct photo_paths {
    photo_list list;     /* list of files; photo_paths_close frees it */
    text_list lists;     /* files with a path in each line; "-": standard input */
    char separator;      /* the separator of paths in lists: '\n' or '\0' */
    int next, next_list; /* private, like the members below */
    FILE *file;
    char *line;
    size_t line_size;
} photo_paths;

/* Rows of a program's options (cli/options.h): `lists` is a text_list, `null` is a bool. */
#define PHOTO_LIST_OPTIONS(lists, null)                                                              \
    {                                                                                                \
        0, "list", "FILE", "a file with one IMAGE or FOLDER per line, or '-'", CLI_LIST, lists, 0, 0 \
    },                                                                                               \
    {                                                                                                \
        '0', "null", NULL, "paths in lists end with NUL, as from find -print0", CLI_FLAG, null, 0,   \
            0                                                                                        \
    }

/* Finds the images of the operands, as photos_find does. Files of lists are read only when needed,
 * and never held in memory. The caller must keep both lists until *paths is closed. On failure
 * *paths is zeroed. */
bool photo_paths_open(photo_paths *paths, const text_list *operands, const text_list *lists,
                      char separator, report *r);
void photo_paths_close(photo_paths *paths);
photo_source photo_paths_source(photo_paths *paths);

/* Finds all images of operands and lists at once. A folder without images is an error, and so is an
 * empty result. */
bool photo_paths_all(photo_list *list, const text_list *operands, const text_list *lists,
                     char separator, report *r);

/* === Reading frames ahead === */

/* A thread reads frames ahead, and gives them as photos, one after the other.
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

/* The properties of a frame besides its photo. */
typedef struct frame_facts {
    int64_t number;   /* number of the frame in the stream, from 1 */
    double read_at;   /* time of the frame's last byte, by cli_now_ms */
    double decode_ms; /* time of decoding; 0 if it was not decoded ahead */
} frame_facts;

/* While the caller works on a frame, the thread reads and decodes the next one. In real time, the
 * thread does not wait for the caller: it keeps only the latest frame, which is not decoded, and
 * drops older frames. */
typedef struct frame_reader {
    vit_image raw;          /* from frames_choose */
    photo_decoder *decoder; /* decoder of images; raw pixels need no decoder */
    int every;              /* gives frames 1, 1 + every, ... */
    bool realtime;
    frame_facts current; /* properties of the frame that was given last */
    int64_t dropped;     /* number of dropped frames among 1, 1 + every, ...; valid once closed */
    const char *path;    /* private, like the members below */
    int descriptor;
    int stop[2]; /* a pipe: closing its second end stops the thread */
    pthread_t thread;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    photo latest;
    frame_facts facts; /* properties of the latest frame */
    bool full, ended, stopped;
    frame_stream stream; /* private to the thread, like the members below */
    frame incoming;
    report failure;
} frame_reader;

/* Opens the file or pipe, "-" for standard input, and begins to read. The caller sets the public
 * members and zeroes the rest. On failure there is nothing to close. */
bool frame_reader_open(frame_reader *reader, const char *path, report *r);
/* Returns a source with a photo for each frame, called "frame 7". The source ends, or fails, when
 * frames_read does. */
photo_source frame_reader_source(frame_reader *reader);
/* Closes the reader, even before the end of the stream. A read that is waiting for a frame is
 * abandoned. */
void frame_reader_close(frame_reader *reader);

/* === Photos with classes === */

/* Labelled photos are in a folder with a folder for each class, DIR/CLASS/IMAGE. */

typedef struct labelled_photos {
    photo_list folders; /* the names of the folders, sorted; some may have no photos */
    photo_list photos;  /* photos in and below the folders, folder by folder, sorted */
    int *folder;        /* [photos.count]: index of the folder */
} labelled_photos;

/* Finds `limit` photos (0: all), evenly spaced. Photos next to the folders have no class and are
 * left out. A set without photos is an error. */
bool labelled_find(labelled_photos *set, const char *root, int limit, report *r);
void labelled_free(labelled_photos *set);

#endif
