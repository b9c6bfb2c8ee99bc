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

/* A photo that a source gives. The source always sets `name`. If the name is the path of an image
 * file, `data` is NULL, and the file is read later. Otherwise, the source sets `data`, and, for raw
 * pixels, also `image`. */
typedef struct photo {
    char *name; /* the photo's name in results and messages, malloc'ed */
    /* bytes of an image file, or raw pixels, malloc'ed; NULL if `name` is the path of a file */
    void *data;
    size_t size; /* size of data in bytes */
    /* reason why the photo cannot be decoded, malloc'ed; NULL if it can be decoded */
    char *refused;
    /* description of the raw pixels in `data`, or the pixels that photo_decode has decoded */
    vit_image image;
} photo;

/* Decodes the photo and fills in p->image, unless the source has filled it in. p->image belongs to
 * the photo: free the photo by photo_free, even after a failure. */
bool photo_decode(photo *p, photo_decoder *decoder, report *r);
/* Computes the model's input for the photo. Unlike photos_input, also accepts raw pixels. */
bool photo_input(const photo *p, photo_decoder *decoder, const vit_model *model, float *input,
                 report *r);
void photo_free_pixels(photo *p); /* frees p->image and p->data, and keeps p->name */
void photo_free(photo *p);

/* A source of photos. Each kind of source has its own function `next`, which keeps its state in
 * *user. */
typedef struct photo_source {
    void *user;
    uint64_t count; /* number of photos; 0 if it is known only after the last photo */
    /* Gives the next photo. *p is zeroed before the call. Returns false after the last photo, and
     * on failure with a message in *r. Only one thread at a time calls this function, and other
     * threads wait until the call returns. `next` therefore does not decode photos; threads call
     * photo_decode later, in parallel. */
    bool (*next)(void *user, photo *p, report *r);
} photo_source;

/* === Paths on the command line, then paths in list files === */

typedef struct photo_paths {
    photo_list list;     /* images of operands and listed folders; photo_paths_close frees them */
    text_list lists;     /* paths of files that list images; "-" is standard input */
    char separator;      /* the character at the end of each path in a list file: '\n' or '\0' */
    int next, next_list; /* private, like the members below */
    FILE *file;
    char *line;
    size_t line_size;
} photo_paths;

/* Rows of a program's options (cli/options.h): `lists` points to a text_list, and `null` points to
 * a bool. */
#define PHOTO_LIST_OPTIONS(lists, null)                                                              \
    {                                                                                                \
        0, "list", "FILE", "a file with one IMAGE or FOLDER per line, or '-'", CLI_LIST, lists, 0, 0 \
    },                                                                                               \
    {                                                                                                \
        '0', "null", NULL, "paths in lists end with NUL, as from find -print0", CLI_FLAG, null, 0,   \
            0                                                                                        \
    }

/* Finds the images of the operands, as photos_find does. List files are read line by line when the
 * paths are needed, and are never held in memory as a whole. The caller must keep `operands` and
 * `lists` until *paths is closed. On failure *paths is zeroed. */
bool photo_paths_open(photo_paths *paths, const text_list *operands, const text_list *lists,
                      char separator, report *r);
void photo_paths_close(photo_paths *paths);
photo_source photo_paths_source(photo_paths *paths);

/* Puts the paths of all images that the operands and list files name into *list. The call fails if
 * a folder has no images, or if no image is found. */
bool photo_paths_all(photo_list *list, const text_list *operands, const text_list *lists,
                     char separator, report *r);

/* === Reading frames ahead === */

/* A thread reads the frames of a stream ahead of the caller. The caller receives the frames as
 * photos, one after the other, from a photo_source.
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

/* Facts about a frame that its photo does not contain. */
typedef struct frame_facts {
    int64_t number; /* number of the frame in the stream, from 1 */
    double read_at; /* time at which the frame's last byte was read, by cli_now_ms */
    /* time that the thread took to decode the frame, in ms; 0 if the thread did not decode it */
    double decode_ms;
} frame_facts;

/* While the caller works on a frame, the thread reads and decodes the next frame. If `realtime` is
 * true, the thread does not wait for the caller. It then keeps only the latest frame, without
 * decoding it, and drops older frames. */
typedef struct frame_reader {
    vit_image raw;          /* size and format of the frames, from frames_choose */
    photo_decoder *decoder; /* decoder of images, memory of the caller; NULL for raw pixels */
    int every;              /* the caller receives only frames 1, 1 + every, 1 + 2 every, ... */
    bool realtime;
    frame_facts current; /* facts about the last frame that the caller received */
    /* number of dropped frames among frames 1, 1 + every, ...; valid after frame_reader_close */
    int64_t dropped;
    const char *path; /* private, like the members below */
    int descriptor;
    int stop[2]; /* a pipe; the thread stops when stop[1] is closed */
    pthread_t thread;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    photo latest;
    frame_facts facts; /* facts about `latest` */
    bool full, ended, stopped;
    frame_stream stream; /* private to the thread, like the members below */
    frame incoming;
    report failure;
} frame_reader;

/* Opens the file or pipe `path` ("-": standard input), and starts the thread. Before the call, the
 * caller sets the public members and zeroes the others. On failure there is nothing to close. */
bool frame_reader_open(frame_reader *reader, const char *path, report *r);
/* Returns a source that gives a photo for each frame. The name of a photo is "frame 7", for
 * example. The source ends with the stream, and fails if frames_read fails. */
photo_source frame_reader_source(frame_reader *reader);
/* Closes the reader, even before the end of the stream. If the thread is waiting for a frame, the
 * thread stops waiting. */
void frame_reader_close(frame_reader *reader);

/* === Photos with classes === */

/* Labelled photos have the paths DIR/CLASS/IMAGE: the folder DIR has a subfolder for each class. */

typedef struct labelled_photos {
    /* the names of the subfolders, sorted; some subfolders may have no photos */
    photo_list folders;
    /* paths of the photos in and below the subfolders, sorted within each subfolder */
    photo_list photos;
    int *folder; /* [photos.count]: index in `folders` of each photo's subfolder */
} labelled_photos;

/* Finds the photos of the folder `root`. If there are more than `limit`, keeps `limit` of them,
 * evenly spaced; 0 means no limit. Photos that are directly in `root` have no class and are left
 * out. If there are no photos, the call fails. */
bool labelled_find(labelled_photos *set, const char *root, int limit, report *r);
void labelled_free(labelled_photos *set);

#endif
