/* photo_source.h - photos one after the other, wherever they come from: files, lists, a pipe. */
#ifndef PHOTO_SOURCE_H
#define PHOTO_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/report.h"
#include "base/text.h"
#include "image/photos.h"
#define VIT_TOOLS
#include "vit.h"

/* One of them. A source gives its name, and with it nothing more if that is the path of an image
 * file, or the file's bytes, or pixels. */
typedef struct photo {
    char *name;        /* malloc'ed: what results and messages call it                  */
    void *data;        /* malloc'ed: the bytes of an image file, or raw pixels; or NULL */
    size_t size;       /* of data                                                       */
    char *refused;     /* malloc'ed: why there is nothing to decode; NULL: there is     */
    vit_image image;   /* raw pixels lie in data; without them, what photo_decode made  */
} photo;

/* Fills in image unless the source did. On failure there is nothing to free but the photo. */
bool photo_decode(photo *p, photo_decoder *decoder, report *r);
void photo_free_pixels(photo *p);   /* and data; the name stays */
void photo_free(photo *p);

/* To add a kind of source: these three members, and in *user what they work on. */
typedef struct photo_source {
    void *user;
    uint64_t count;    /* of its photos; 0: not known before the end */
    /* The next photo, zeroed before. False after the last one, or with a message in *r. It is
     * called by one thread at a time, and others wait: decoding is left to photo_decode. */
    bool (*next)(void *user, photo *p, report *r);
} photo_source;

/* === Paths: those of a list, then those of files that hold lists === */

typedef struct photo_paths {
    photo_list list;      /* of files; freed by photo_paths_close               */
    text_list lists;      /* files with a path in each line; "-": standard input */
    char separator;       /* what ends a path in them: '\n' or '\0'             */
    int next, next_list;  /* private, like the following                        */
    FILE *file;
    char *line;
    size_t line_size;
} photo_paths;

/* Finds the images of the operands, as photos_find; lists are read as they are needed, and are not
 * held in memory. Their lists are borrowed. Zeroed if it fails. */
bool photo_paths_open(photo_paths *paths, const text_list *operands, const text_list *lists,
                      char separator, report *r);
void photo_paths_close(photo_paths *paths);
photo_source photo_paths_source(photo_paths *paths);

#endif
