/* frames.h - a stream of frames: raw video of one size, or consecutive images. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Chooses the kind of frames from a command line. For raw video, `size` is "640x480" (width,
 * height). `pixels` is the usual name of a pixel format, NULL for rgb24; frames.c lists the names.
 * The pixels are tightly packed. For images, `size` is "auto", `pixels` is NULL, and raw->width
 * becomes 0. Each frame is then a JPEG (MJPEG), a PGM or a PPM image, recognised by its first
 * bytes. The message about a failure lists the expected values. */
bool frames_choose(const char *size, const char *pixels, vit_image *raw, report *r);

typedef struct frame {
    int64_t number; /* number of the frame in the stream, from 1 */
    double read_at; /* time of its last byte, by cli_now_ms */
    uint8_t *data;  /* malloc'ed; free it with frame_free */
    size_t size, capacity;
} frame;

void frame_free(frame *f);

typedef struct frame_stream {
    vit_image raw;  /* from frames_choose */
    int64_t count;  /* frames read so far */
    int descriptor; /* private from here on; -1: all bytes are at `next` */
    int stop;
    int error; /* value of errno */
    bool ended;
    const uint8_t *next; /* bytes that were read but not taken yet */
    size_t left;
    uint8_t buffer[1 << 16];
} frame_stream;

/* Begins a stream. The stream also ends if the descriptor `stop` becomes readable or the other end
 * of `stop` is closed. If `stop` is -1, only the end of the input ends the stream. The caller
 * closes both descriptors. */
void frames_begin(frame_stream *s, const vit_image *raw, int descriptor, int stop);

/* Reads the whole next frame into the memory of f. Zero *f before the first call; later calls reuse
 * this memory. Returns false at the end of the stream. If the frame is truncated or not a frame, or
 * if the stream is empty, returns false with a message in *r that gives the frame's number. The
 * search for the end of a JPEG goes from marker to marker. It skips each segment, such as a
 * thumbnail, by the segment's length. */
bool frames_read(frame_stream *s, frame *f, report *r);

/* True if an image in memory is followed by another image of the kinds above. A file is one photo
 * if its first image announces the others (MPF: the gain map of an HDR photo, a preview). */
bool frames_follow(const void *data, size_t size);

#endif
