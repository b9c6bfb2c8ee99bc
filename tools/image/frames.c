#include "image/frames.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/output.h"
#include "os/os.h"

/* ------------------------------------------------------------------------- */
/* Raw video                                                                 */
/* ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    vit_pixel format;
} pixel_names[] = {
    { "rgb24", VIT_PIXEL_RGB8 }, { "bgr24", VIT_PIXEL_BGR8 }, { "gray", VIT_PIXEL_GRAY8 },
    { "yuyv", VIT_PIXEL_YUYV },  { "nv12", VIT_PIXEL_NV12 },  { "rgb565", VIT_PIXEL_RGB565 },
    { "rgba", VIT_PIXEL_RGBA8 }, { "bgra", VIT_PIXEL_BGRA8 },
};
enum { MAX_RAW_SIDE = 16384 };

static bool find_pixels(const char *name, vit_pixel *format) {
    size_t i;
    for (i = 0; i < sizeof pixel_names / sizeof *pixel_names; i++) {
        *format = pixel_names[i].format;
        if (!name || !strcmp(name, pixel_names[i].name)) return true;
    }
    return false;
}

/* Returns the size in bytes of a raw frame whose rows and planes have no gaps between them. */
static size_t raw_size(const vit_image *raw) {
    const size_t pixels = (size_t)raw->width * (size_t)raw->height;
    switch (raw->format) {
    case VIT_PIXEL_GRAY8: return pixels;
    case VIT_PIXEL_NV12: return pixels + pixels / 2;
    case VIT_PIXEL_RGB565:
    case VIT_PIXEL_YUYV: return 2 * pixels;
    case VIT_PIXEL_RGBA8:
    case VIT_PIXEL_BGRA8: return 4 * pixels;
    case VIT_PIXEL_RGB8:
    case VIT_PIXEL_BGR8:
    case VIT_PIXEL_F32:
    case VIT_NUM_PIXELS: break;
    }
    return 3 * pixels;
}

/* Returns false if the format stores one colour for two neighbouring pixels along a side, and the
 * length of this side is odd. Programs pad such sides in different ways. */
static bool sides_fit(const vit_image *raw) {
    if (raw->format == VIT_PIXEL_NV12) return raw->width % 2 == 0 && raw->height % 2 == 0;
    return raw->format != VIT_PIXEL_YUYV || raw->width % 2 == 0;
}

bool frames_choose(const char *size, const char *pixels, vit_image *raw, report *r) {
    int sides[2];
    memset(raw, 0, sizeof *raw);
    if (strcmp(size, "auto") == 0)
        return !pixels || report_fail(r, "--pixels needs a size, as in --frames 640x480");
    if (!strchr(size, 'x') || !text_read_size(size, 1, MAX_RAW_SIDE, sides))
        return report_fail(r,
                           "--frames: expected auto, or WIDTHxHEIGHT with sides from 1 to %d, "
                           "found '%.80s'",
                           MAX_RAW_SIDE, size);
    raw->width = sides[0];
    raw->height = sides[1];
    if (!find_pixels(pixels, &raw->format))
        return report_fail(r,
                           "--pixels: expected rgb24, bgr24, gray, yuyv, nv12, rgb565, rgba or "
                           "bgra, found '%.80s'",
                           pixels);
    return sides_fit(raw) || report_fail(r, "--pixels %s needs even sides, found %s", pixels, size);
}

/* ------------------------------------------------------------------------- */
/* Reading a frame                                                           */
/* ------------------------------------------------------------------------- */

enum { PIECE = 1 << 16, MAX_SIDE = 1 << 20 };
/* The largest accepted size of a frame, in bytes. */
#define MAX_BYTES ((size_t)1 << 30)

/* The state of reading one frame. `f` receives the frame, and `r` receives the reason of a
 * failure. */
typedef struct reading {
    frame_stream *stream;
    frame *f;
    report *r;
} reading;

void frames_begin(frame_stream *s, const vit_image *raw, int descriptor, int stop) {
    s->raw = *raw;
    s->count = 0;
    s->descriptor = descriptor;
    s->stop = stop;
    s->error = 0;
    s->ended = false;
    s->left = 0;
}

/* Reads more bytes of the stream into its buffer. Returns false at the end or on failure. */
static bool refill(frame_stream *s) {
    const ptrdiff_t got = s->ended || s->descriptor < 0
                              ? 0
                              : os_read_until(s->descriptor, s->stop, s->buffer, sizeof s->buffer);
    if (got < 0) s->error = errno;
    s->ended = got <= 0;
    s->next = s->buffer;
    s->left = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* Returns the next byte of the stream, or -1 at the end or on failure. */
static int next_byte(frame_stream *s) {
    if (!s->left && !refill(s)) return -1;
    s->left--;
    return *s->next++;
}

static bool truncated(const reading *in, const char *of) {
    if (in->stream->error)
        return report_fail(in->r, "frame %lld cannot be read: %s", (long long)in->f->number,
                           strerror(in->stream->error));
    return report_fail(in->r, "frame %lld is truncated: the stream ends after %zu bytes of %s",
                       (long long)in->f->number, in->f->size, of);
}

static bool make_room(const reading *in, size_t more) {
    frame *f = in->f;
    size_t capacity = f->capacity ? f->capacity : PIECE;
    uint8_t *larger;
    if (more <= f->capacity - f->size) return true;
    while (capacity - f->size < more) capacity *= 2;
    larger = capacity <= 2 * MAX_BYTES ? realloc(f->data, capacity) : NULL;
    if (!larger) return report_no_memory(in->r);
    f->data = larger;
    f->capacity = capacity;
    return true;
}

/* Appends the next `count` bytes of the stream to the frame. The memory grows as the bytes arrive,
 * because a damaged header may announce far more bytes than follow. */
static bool take_bytes(const reading *in, size_t count, const char *of) {
    frame_stream *s = in->stream;
    frame *f = in->f;
    while (count > 0) {
        size_t piece;
        if (!s->left && !refill(s)) return truncated(in, of);
        piece = count < s->left ? count : s->left;
        if (!make_room(in, piece)) return false;
        memcpy(f->data + f->size, s->next, piece);
        f->size += piece;
        s->next += piece;
        s->left -= piece;
        count -= piece;
    }
    return true;
}

/* Appends the next byte of the stream to the frame. Returns the byte, or -1 at the end of the
 * stream or on failure. */
static int take_byte(const reading *in) {
    const int byte = make_room(in, 1) ? next_byte(in->stream) : -1;
    if (byte >= 0) in->f->data[in->f->size++] = (uint8_t)byte;
    return byte;
}

/* ------------------------------------------------------------------------- */
/* JPEG                                                                      */
/* ------------------------------------------------------------------------- */

static const char jpeg[] = "a JPEG without an end (FF D9)";

/* Reads up to the next marker. Returns the code of the marker, 0 if the next bytes are no marker,
 * or -1 at the end of the stream. If in_pixels is true, skips the compressed pixels, in which FF is
 * followed by 0 or by a restart marker, D0 to D7. Any number of FF may precede a marker. */
static int next_marker(const reading *in, bool in_pixels) {
    int byte;
    do {
        byte = take_byte(in);
        while (in_pixels && byte >= 0 && byte != 0xff) byte = take_byte(in);
        if (byte >= 0 && byte != 0xff) return 0;
        while (byte == 0xff) byte = take_byte(in);
    } while (in_pixels && (byte == 0 || (byte >= 0xd0 && byte <= 0xd7)));
    return byte;
}

static bool damaged(const reading *in, const char *what) {
    return report_fail(in->r, "frame %lld is damaged: %s after %zu bytes", (long long)in->f->number,
                       what, in->f->size);
}

static bool take_segment(const reading *in) {
    const int high = take_byte(in), low = high < 0 ? -1 : take_byte(in);
    if (low < 0) return truncated(in, jpeg);
    if (high * 256 + low < 2) return damaged(in, "a JPEG segment without a length");
    return take_bytes(in, (size_t)(high * 256 + low - 2), jpeg);
}

/* Reads a JPEG, beginning with its third byte. The caller has already read the first two bytes, FF
 * D8. */
static bool take_jpeg(const reading *in) {
    int marker = next_marker(in, false);
    while (marker != 0xd9) {
        if (marker < 0) return truncated(in, jpeg);
        if (marker == 0 || (marker >= 0xd0 && marker <= 0xd8))
            return damaged(in, "no JPEG segment");
        if (!take_segment(in)) return false;
        marker = next_marker(in, marker == 0xda);
    }
    return true;
}

/* ------------------------------------------------------------------------- */
/* PGM and PPM                                                               */
/* ------------------------------------------------------------------------- */

static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Skips white space and comments, then reads a number and the one character that follows it.
 * Returns the number, or -1 if there is no number with white space after it. */
static int take_number(const reading *in) {
    int value = -1, c = take_byte(in);
    while (c == '#' || is_space(c)) {
        const bool comment = c == '#';
        do c = take_byte(in);
        while (comment && c >= 0 && c != '\n' && c != '\r');
    }
    for (; c >= '0' && c <= '9' && value <= MAX_SIDE; c = take_byte(in))
        value = (value < 0 ? 0 : value * 10) + (c - '0');
    return is_space(c) ? value : -1;
}

/* Reads a PGM or PPM, beginning with its third byte. The caller has already read the first two. */
static bool take_pnm(const reading *in, size_t channels) {
    const int width = take_number(in), height = take_number(in), max = take_number(in);
    char of[64];
    size_t bytes;
    if (in->stream->ended) return truncated(in, "a PGM or PPM header");
    if (width < 1 || height < 1 || max < 1 || width > MAX_SIDE || height > MAX_SIDE || max > 65535)
        return damaged(in, "not a valid PGM or PPM header");
    bytes = channels * (max < 256 ? 1 : 2) * (size_t)width;
    if (bytes > MAX_BYTES / (size_t)height)
        return report_fail(in->r, "frame %lld is too large: %d x %d", (long long)in->f->number,
                           width, height);
    bytes *= (size_t)height;
    snprintf(of, sizeof of, "%zu", in->f->size + bytes);
    return take_bytes(in, bytes, of);
}

/* ------------------------------------------------------------------------- */
/* Any frame                                                                 */
/* ------------------------------------------------------------------------- */

static bool take_image(const reading *in) {
    const int first = take_byte(in), second = take_byte(in);
    if (second < 0) return truncated(in, "an image");
    if (first == 0xff && second == 0xd8) return take_jpeg(in);
    if (first == 'P' && second == '5') return take_pnm(in, 1);
    if (first == 'P' && second == '6') return take_pnm(in, 3);
    return report_fail(in->r,
                       "frame %lld begins with the bytes %02X %02X: expected a JPEG, PGM or "
                       "PPM image (raw video needs its size, as in --frames 640x480)",
                       (long long)in->f->number, (unsigned)first, (unsigned)second);
}

static bool take_raw(const reading *in, const vit_image *raw) {
    char of[64];
    snprintf(of, sizeof of, "%zu", raw_size(raw));
    return take_bytes(in, raw_size(raw), of);
}

/* Returns true if the stream has another frame. Skips zeros before a JPEG, PGM or PPM, because some
 * cameras pad their JPEGs with zeros. */
static bool find_frame(frame_stream *s) {
    while (s->left || refill(s)) {
        if (s->raw.width || *s->next != 0) return true;
        s->next++;
        s->left--;
    }
    return false;
}

bool frames_read(frame_stream *s, frame *f, report *r) {
    const reading in = { s, f, r };
    f->size = 0;
    f->number = s->count + 1;
    if (!find_frame(s)) {
        if (s->error) return truncated(&in, "it");
        return s->count > 0 ? false : report_fail(r, "has no frames");
    }
    if (s->raw.width ? !take_raw(&in, &s->raw) : !take_image(&in)) return false;
    s->count++;
    f->read_at = cli_now_ms();
    return true;
}

void frame_free(frame *f) {
    free(f->data);
    memset(f, 0, sizeof *f);
}

static bool holds(const frame *f, const char *text, size_t length) {
    size_t i;
    for (i = 0; i + length <= f->size; i++)
        if (memcmp(f->data + i, text, length) == 0) return true;
    return false;
}

bool frames_follow(const void *data, size_t size) {
    const vit_image images = { NULL, 0, 0, 0, VIT_PIXEL_RGB8 };
    frame_stream s;
    frame first;
    report r = report_make();
    int a = -1, b = -1;
    memset(&first, 0, sizeof first);
    frames_begin(&s, &images, -1, -1);
    s.next = data;
    s.left = size;
    if (frames_read(&s, &first, &r) && !holds(&first, "MPF", sizeof "MPF") && find_frame(&s)) {
        a = next_byte(&s);
        b = next_byte(&s);
    }
    frame_free(&first);
    return (a == 0xff && b == 0xd8) || (a == 'P' && (b == '5' || b == '6'));
}
