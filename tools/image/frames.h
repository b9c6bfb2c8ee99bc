/* frames.h - reads a stream of frames from a file or a pipe. The frames are raw video of one size,
 * or consecutive images. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Chooses the kind of frames from the values of --frames (`size`) and --pixels. For raw video,
 * `size` is "640x480" (width, height), and `pixels` is the usual name of a pixel format (frames.c
 * has a list); NULL means rgb24. The pixels are tightly packed: no bytes lie between two rows or
 * between two frames. For a stream of images, `size` is "auto" and `pixels` is NULL; raw->width
 * then becomes 0. Each frame is then a JPEG (MJPEG), a PGM or a PPM image, recognised by its first
 * bytes. On failure, *r names the wrong option. */
bool frames_choose(const char *size, const char *pixels, vit_image *raw, report *r);

typedef struct frame {
    int64_t number; /* number of the frame in the stream, from 1 */
    double read_at; /* time at which the frame's last byte was read, by cli_now_ms */
    uint8_t *data;  /* bytes of the frame, malloc'ed; frame_free frees them */
    size_t size, capacity;
} frame;

void frame_free(frame *f);

typedef struct frame_stream {
    vit_image raw; /* size and format of the frames, from frames_choose */
    int64_t count; /* number of frames read so far */
    /* private, like the members below; -1 if all bytes of the stream are already at `next` */
    int descriptor;
    int stop;
    int error; /* errno of the failed read; 0 if no read failed */
    bool ended;
    const uint8_t *next; /* the `left` bytes that were read but do not yet belong to a frame */
    size_t left;
    uint8_t buffer[1 << 16];
} frame_stream;

/* Begins to read a stream from `descriptor`. `stop` is the reading end of a pipe: the stream also
 * ends when this end becomes readable, or when the pipe's other end is closed. If `stop` is -1,
 * only the end of the input ends the stream. The caller closes both descriptors. */
void frames_begin(frame_stream *s, const vit_image *raw, int descriptor, int stop);

/* Reads the whole next frame into the memory of f. Zero *f before the first call; later calls reuse
 * this memory. Returns false at the end of the stream. Returns false with a message in *r if
 * reading fails, if the next bytes are not a complete frame, or if the stream has no frame at all.
 * To find the end of a JPEG, the function skips each segment by the segment's length, because a
 * thumbnail in a segment has its own end marker. */
bool frames_read(frame_stream *s, frame *f, report *r);

/* True if an image in memory is followed by another JPEG, PGM or PPM image. Returns false if the
 * first image announces the other images by MPF (Multi-Picture Format), because the file is then
 * one photo. The other images are, for example, a preview or the gain map of an HDR photo. */
bool frames_follow(const void *data, size_t size);

#endif
