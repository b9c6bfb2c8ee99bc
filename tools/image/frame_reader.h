/* frame_reader.h - frames as photos, one after the other, read ahead by a thread.
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
#ifndef FRAME_READER_H
#define FRAME_READER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/report.h"
#include "image/frames.h"
#include "image/photo_source.h"
#define VIT_TOOLS
#include "vit.h"

/* What is known of a frame beyond its photo. */
typedef struct frame_facts {
    int64_t number;          /* the first of the stream is 1                              */
    double read_at;          /* when its last byte had come; of cli_now_ms                */
    double decode_ms;        /* 0: it was not decoded ahead                               */
} frame_facts;

/* While a frame is worked on, the thread reads and decodes the next one. In real time it does not
 * wait until that is taken: it reads on and keeps only the latest frame, not decoded; what that
 * replaces is dropped. */
typedef struct frame_reader {
    vit_image raw;           /* of frames_choose                                          */
    photo_decoder *decoder;  /* of images; raw pixels need none                           */
    int every;               /* frames 1, 1 + every, ... are given                        */
    bool realtime;
    frame_facts current;     /* of the frame given last                                   */
    int64_t dropped;         /* of those that were to be given; valid when it is closed   */
    const char *path;        /* private, as what follows                                  */
    int descriptor;
    int stop[2];             /* a pipe: closing its second end stops the thread           */
    pthread_t thread;
    pthread_mutex_t lock;    /* of all that follows                                       */
    pthread_cond_t changed;
    photo latest;
    frame_facts facts;       /* of the latest                                             */
    bool full, ended, stopped;
    frame_stream stream;     /* the thread's own, as what follows                         */
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

#endif
