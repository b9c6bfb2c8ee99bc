/* image_file.h - decodes the bytes of an image file to RGB bytes, ready for vit_preprocess.
 *
 *     image_file photo;
 *     report r = report_make();
 *     if (!image_file_decode(bytes, size, 0, NULL, NULL, &photo, &r)) { puts(r.text); return 1; }
 *     vit_image image = { photo.pixels, photo.width, photo.height, 0, VIT_PIXEL_RGB8 };
 *     ...
 *     image_file_free(&photo);
 *
 * libjpeg-turbo decodes JPEGs if the program was built with it (jpeg.h). Otherwise stb_image 2.27
 * (Sean Barrett and others, public domain; Debian: libstb-dev) decodes them. stb_image always
 * decodes PNG, BMP, GIF (the first frame) and TGA. The code below decodes PGM and PPM. A JPEG
 * without Huffman tables, as many webcams send it, gets the standard tables. As in Pillow's
 * convert("RGB"), grey, palette, 16-bit and CMYK images become RGB, and alpha is dropped. Only
 * 16-bit grey differs (IMAGE_FILE_GREY16).
 *
 * stb_image was not written for hostile files. The code below limits the size of a file, the number
 * of pixels (from the header of the file) and each block of memory. Every failure frees all memory.
 * Checks before and after decoding refuse truncated files, and damaged ones that a decoder accepts.
 * Bugs in stb_image remain: decode untrusted files only in a sandbox (sandbox.h). All programs
 * decode files through photos.c, the only file that includes this header.
 *
 * Include this header in one file of a program. Several threads may use its functions at once.
 *
 * tools/image owns image files as pixels, lists of photos, photos sorted into folders, streams of
 * frames; it may include os base cli.
 */
#ifndef IMAGE_FILE_H
#define IMAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_FILE_MAX_BYTES ((size_t)256 << 20) /* limit of a file's size in bytes */
#ifndef IMAGE_FILE_MAX_PIXELS
#define IMAGE_FILE_MAX_PIXELS ((int64_t)1 << 27) /* 134 million */
#endif
#define IMAGE_FILE_MAX_BLOCK (((size_t)4 << 27) + 65536) /* the decoder uses 4 bytes per pixel */
#define IMAGE_FILE_NO_EXIF   1u /* keep the stored orientation, as Pillow and timm do */
#define IMAGE_FILE_STB       2u /* decode even JPEGs by stb_image */
/* Limits an image to n million pixels, 1 to 500, and allows files of up to 2047 MiB. */
#define IMAGE_FILE_MEGAPIXELS(n) ((unsigned)(n) << 8)

typedef struct image_file {
    /* RGB pixels, [height, width, 3] bytes without gaps between rows; image_file_free frees them */
    uint8_t *pixels;
    int width, height;
    /* text about damage that the decoder ignored, or IMAGE_FILE_GREY16; "" if there is none */
    char note[200];
} image_file;

/* The note on 16-bit grey: Pillow's convert("RGB") clips at 255, so most pixels become white. */
#define IMAGE_FILE_GREY16                                                                          \
    "the image is grey with 16 bits a pixel: the upper 8 bits are used; Pillow shows all values "  \
    "above 255 as white"

/* Returns the scale, in eighths (8, 4, 2 or 1), at which an upright photo of width x height may be
 * decoded. Only libjpeg-turbo decodes below full size. */
typedef int image_file_fraction(const void *user, int width, int height);

/* ------------------------------------------------------------------------- */
/* stb_image, without its warnings and with bounded memory                   */
/* ------------------------------------------------------------------------- */

static void *image_file__malloc(size_t size);
static void *image_file__realloc(void *old, size_t size);
static void image_file__release(void *old);

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wcast-align"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_ONLY_TGA
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS     (1 << 20) /* the same as in vit_preprocess */
#define STBI_MALLOC(size)       image_file__malloc(size)
#define STBI_REALLOC(old, size) image_file__realloc(old, size)
#define STBI_FREE(old)          image_file__release(old)
#include <stb/stb_image.h>

#include "base/checksum.h"
#include "base/report.h"
#include "image/jpeg.h"

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* ------------------------------------------------------------------------- */
/* Memory                                                                    */
/* ------------------------------------------------------------------------- */

/* The header before each block of memory. stb_image leaks blocks when an allocation fails. Each
 * thread therefore keeps a list of its blocks, and frees the remaining blocks after each image. */
typedef struct image_file__block {
    struct image_file__block *before, *after;
    size_t size, padding; /* padding is for alignment */
} image_file__block;

static
#ifdef STBI_THREAD_LOCAL
    STBI_THREAD_LOCAL
#endif
        image_file__block *image_file__blocks; /* the latest block */

/* True if an allocation failed. stb_image does not always report such a failure as lack of
 * memory. */
static
#ifdef STBI_THREAD_LOCAL
    STBI_THREAD_LOCAL
#endif
    bool image_file__no_memory;

/* The limit of an image's pixels that IMAGE_FILE_MEGAPIXELS sets; 0 means IMAGE_FILE_MAX_PIXELS. */
static
#ifdef STBI_THREAD_LOCAL
    STBI_THREAD_LOCAL
#endif
        int64_t image_file__max_pixels;

static int64_t image_file__pixel_limit(void) {
    return image_file__max_pixels ? image_file__max_pixels : IMAGE_FILE_MAX_PIXELS;
}

static void image_file__unlink(image_file__block *block) {
    if (block->before) block->before->after = block->after;
    if (block->after) block->after->before = block->before;
    if (image_file__blocks == block) image_file__blocks = block->after;
    block->before = block->after = NULL;
}

/* Allocates a zeroed block, because some decoders read tables that a damaged file never defined. */
static void *image_file__malloc(size_t size) {
    image_file__block *block;
    if (size > IMAGE_FILE_MAX_BLOCK && (size - 65536 + 3) / 4 > (size_t)image_file__pixel_limit()) {
        return NULL;
    }
    block = calloc(1, sizeof *block + size);
    if (!block) {
        image_file__no_memory = true;
        return NULL;
    }
    block->size = size;
    block->after = image_file__blocks;
    if (block->after) block->after->before = block;
    image_file__blocks = block;
    return block + 1;
}

static void image_file__release(void *old) {
    image_file__block *block = old;
    if (!block) return;
    image_file__unlink(--block);
    free(block);
}

static void *image_file__realloc(void *old, size_t size) {
    const image_file__block *block = old;
    void *grown = image_file__malloc(size);
    if (!grown || !block) return grown;
    memcpy(grown, old, block[-1].size < size ? block[-1].size : size);
    image_file__release(old);
    return grown;
}

/* Frees all blocks of this thread except the pixels, which then belong to the caller. */
static void image_file__release_rest(uint8_t *pixels) {
    void *kept = pixels;
    if (kept) image_file__unlink((image_file__block *)kept - 1);
    while (image_file__blocks) image_file__release(image_file__blocks + 1);
}

/* ------------------------------------------------------------------------- */
/* Messages                                                                  */
/* ------------------------------------------------------------------------- */

/* The arguments of all steps below: the file in memory, and the report. */
typedef struct image_file__job {
    const uint8_t *data;
    size_t size;
    report *r;
} image_file__job;

static bool image_file__check_size(const image_file__job *job, int64_t width, int64_t height) {
    if (width < 1 || height < 1) {
        return report_fail(job->r, "the image has no pixels: found %lld x %lld", (long long)width,
                           (long long)height);
    }
    if (width > STBI_MAX_DIMENSIONS || height > STBI_MAX_DIMENSIONS ||
        width * height > image_file__pixel_limit()) {
        return report_fail(job->r,
                           "the image is too large: found %lld x %lld, limit %lld pixels in all "
                           "and %d along each side",
                           (long long)width, (long long)height,
                           (long long)image_file__pixel_limit(), STBI_MAX_DIMENSIONS);
    }
    /* At most, a file has 8 * 1032 pixels per byte: a PNG of one colour, with one bit a pixel. The
     * limit of 10000 keeps a short file from filling the memory. */
    if (width * height / 10000 > (int64_t)job->size) {
        return report_fail(job->r,
                           "the image is damaged or truncated: %lld x %lld pixels in %zu bytes",
                           (long long)width, (long long)height, job->size);
    }
    return true;
}

static bool image_file__begins(const image_file__job *job, const char *magic, size_t size) {
    return job->size >= size && memcmp(job->data, magic, size) == 0;
}

/* True if stb_image recognises the start of a JPEG: one or more bytes 0xff, then 0xd8. */
static bool image_file__is_jpeg(const image_file__job *job) {
    size_t at = 0;
    while (at < job->size && job->data[at] == 0xff) at++;
    return at > 0 && at < job->size && job->data[at] == 0xd8;
}

/* A format that only an external command decodes (photo_options.command). The first bytes of a file
 * identify the format. */
typedef struct image_file_kind {
    size_t at;
    const char *magic, *name, *suffix, *package, *command; /* `package` is Debian's */
} image_file_kind;

/* Returns the format of a file; NULL if it is none of the formats in the table. */
static const image_file_kind *image_file_kind_of(const void *data, size_t size) {
    static const image_file_kind kinds[] = {
        { 8, "WEBP", "a WebP image", ".webp", "webp", "dwebp %i -o %o" },
        { 0, "II*\0", "a TIFF image", ".tif", "netpbm", "tifftopnm %i" },
        { 0, "MM\0*", "a TIFF image", ".tif", "netpbm", "tifftopnm %i" },
        { 4, "ftypavi", "an AVIF image", ".avif", "libavif-bin", "avifdec %i %o" },
        { 4, "ftyphei", "a HEIC image", ".heic", "libheif-examples", "heif-convert %i %o" },
        { 4, "ftyphev", "a HEIC image", ".heic", "libheif-examples", "heif-convert %i %o" },
        { 4, "ftypmif1", "a HEIF image", ".heic", "libheif-examples", "heif-convert %i %o" },
        { 4, "ftypmsf1", "a HEIF image", ".heic", "libheif-examples", "heif-convert %i %o" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t at = kinds[i].at, length = at ? strlen(kinds[i].magic) : 4;
        if (size >= at + length && memcmp((const char *)data + at, kinds[i].magic, length) == 0)
            return &kinds[i];
    }
    return NULL;
}

static bool image_file__unknown(const image_file__job *job) {
    const image_file_kind *kind = image_file_kind_of(job->data, job->size);
    if (image_file__begins(job, "\x89VIT", 4)) {
        return report_fail(job->r, "the file is a model, not an image; give a model with -m");
    }
    if (kind) {
        return report_fail(
            job->r,
            "the file is %s, which needs a command to decode it: apt install %s, then "
            "--decoder '%s', or set VIT_DECODER to this command",
            kind->name, kind->package, kind->command);
    }
    return report_fail(job->r,
                       "the file is not an image of a supported format (JPEG, PNG, BMP, GIF, TGA, "
                       "PGM, PPM)");
}

/* Reports a failure of stb_image. The reasons of stb_image are for programmers; common reasons are
 * therefore translated. For a damaged header, the reason is "unknown image type", because stb_image
 * recognises no format. */
static bool image_file__stb_failed(const image_file__job *job) {
    const char *reason = stbi_failure_reason();
    if (!reason) reason = "unknown reason";
    if (image_file__no_memory) return report_no_memory(job->r);
    if (strcmp(reason, "outofmem") == 0) {
        return report_fail(
            job->r,
            "the image is damaged: decoding needs too much memory for this number of pixels");
    }
    if (strcmp(reason, "unknown image type") == 0) {
        if (image_file__is_jpeg(job) || image_file__begins(job, "GIF8", 4) ||
            image_file__begins(job, "BM", 2)) {
            return report_fail(job->r, "the image is damaged, or of an unsupported kind");
        }
        return image_file__unknown(job);
    }
    return report_fail(job->r, "the image is damaged, or of an unsupported kind: %s", reason);
}

/* ------------------------------------------------------------------------- */
/* PGM and PPM: a header in text, then bytes                                 */
/* ------------------------------------------------------------------------- */

static bool image_file__is_pnm(const image_file__job *job) {
    return job->size >= 2 && job->data[0] == 'P' && (job->data[1] == '5' || job->data[1] == '6');
}

/* Reads a whole number after white space and '#' comments. Returns -1 if the number is missing or
 * too large. */
static int image_file__pnm_number(const image_file__job *job, size_t *at) {
    int value = -1;
    for (; *at < job->size; ++*at) {
        if (job->data[*at] == '#') {
            while (*at < job->size && job->data[*at] != '\n' && job->data[*at] != '\r') ++*at;
        } else if (job->data[*at] != ' ' && (job->data[*at] < '\t' || job->data[*at] > '\r')) {
            break;
        }
    }
    while (*at < job->size && job->data[*at] >= '0' && job->data[*at] <= '9') {
        if (value > 99999999) return -1;
        value = (value < 0 ? 0 : value * 10) + (job->data[*at] - '0');
        ++*at;
    }
    return value;
}

/* Reads sample i, which has one byte, or two bytes if max is above 255. Returns the sample scaled
 * from 0 .. max to 0 .. 255 and rounded. */
static uint8_t image_file__pnm_sample(const uint8_t *samples, size_t i, int max) {
    int value = max < 256 ? samples[i] : samples[2 * i] << 8 | samples[2 * i + 1];
    if (value > max) value = max;
    return (uint8_t)((value * 255 + max / 2) / max);
}

static bool image_file__pnm(const image_file__job *job, image_file *image) {
    size_t at = 2, channels = job->data[1] == '6' ? 3 : 1, count, wanted;
    int width = image_file__pnm_number(job, &at);
    int height = image_file__pnm_number(job, &at);
    int max = image_file__pnm_number(job, &at);
    if (width < 0 || height < 0 || max < 1 || max > 65535 || at >= job->size) {
        return report_fail(job->r, "the image is damaged: not a valid PGM or PPM header");
    }
    if (!image_file__check_size(job, width, height)) return false;
    at++; /* skips one white-space character */
    count = (size_t)width * (size_t)height;
    wanted = count * channels * (max < 256 ? 1 : 2);
    if (job->size - at < wanted) return report_fail(job->r, "the image is truncated");

    image->pixels = image_file__malloc(count * 3);
    if (!image->pixels) return report_no_memory(job->r);
    if (channels == 1 && max > 255) strcpy(image->note, IMAGE_FILE_GREY16);
    image->width = width;
    image->height = height;
    for (size_t i = 0; i < count * 3; i++) {
        size_t sample = channels == 3 ? i : i / 3;
        image->pixels[i] = image_file__pnm_sample(job->data + at, sample, max);
    }
    return true;
}

/* ------------------------------------------------------------------------- */
/* PNG: checks that stb_image lacks, or makes in a way unsafe for threads    */
/* ------------------------------------------------------------------------- */

static uint32_t image_file__big32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool image_file__is_png(const image_file__job *job) {
    return image_file__begins(job, "\x89PNG\r\n\x1a\n", 8);
}

/* Checks the chunks up to IEND. A chunk consists of length, type, data and CRC. A chunk whose type
 * begins with a capital is critical, and is refused if the type is unknown. The first chunk is
 * IHDR, which begins with width, height, bits and colours. */
static bool image_file__check_png(const image_file__job *job) {
    static const char used[] = "IHDRPLTEIDATIENDeXIf";
    if (job->size < 33) return report_fail(job->r, "the image is truncated");
    if (memcmp(job->data + 8, "\0\0\0\x0dIHDR", 8) != 0) {
        return report_fail(job->r, "the image is damaged: no PNG header");
    }
    if (!image_file__check_size(job, image_file__big32(job->data + 16),
                                image_file__big32(job->data + 20))) {
        return false;
    }
    for (size_t at = 8;;) {
        const uint8_t *chunk = job->data + at;
        uint32_t length;
        bool known = false;
        if (job->size - at < 12) return report_fail(job->r, "the image is truncated");
        length = image_file__big32(chunk);
        if (length > job->size - at - 12) return report_fail(job->r, "the image is truncated");
        for (int i = 0; i < 20; i += 4) known = known || memcmp(chunk + 4, used + i, 4) == 0;
        if (!known && !(chunk[4] & 32)) {
            return report_fail(job->r, "the image is damaged: unknown PNG chunk");
        }
        if (known && crc32_add(0, chunk + 4, 4 + length) != image_file__big32(chunk + 8 + length)) {
            return report_fail(job->r, "the image is damaged: PNG checksum differs");
        }
        if (memcmp(chunk + 4, "IEND", 4) == 0) return true;
        at += 12 + (size_t)length;
    }
}

/* ------------------------------------------------------------------------- */
/* JPEG: what stb_image 2.27 does not check                                  */
/* ------------------------------------------------------------------------- */

typedef struct image_file__segment {
    uint8_t marker;
    const uint8_t *data; /* the contents of the segment, after the two bytes of length */
    size_t size;
    bool cut; /* the file ends within the segment */
} image_file__segment;

/* Finds the next segment at or after *at. A segment consists of 0xff, a marker, a length (which
 * counts its own two bytes) and data. Skips the start marker 0xd8 and compressed pixels, in which
 * 0xff is followed by 0 or a restart marker. Returns false after the last segment. */
static bool image_file__next_segment(const image_file__job *job, size_t *at,
                                     image_file__segment *segment) {
    size_t length;
    for (;; ++*at) {
        while (*at < job->size && job->data[*at] != 0xff) ++*at;
        while (*at < job->size && job->data[*at] == 0xff) ++*at;
        if (*at >= job->size) return false;
        segment->marker = job->data[*at];
        if (segment->marker != 0 && (segment->marker < 0xd0 || segment->marker > 0xd8)) break;
    }
    ++*at;
    if (segment->marker == 0xd9 || job->size - *at < 2) return false;
    length = (size_t)job->data[*at] << 8 | job->data[*at + 1];
    if (length < 2) return false;
    segment->cut = length > job->size - *at;
    if (segment->cut) length = job->size - *at;
    segment->data = job->data + *at + 2;
    segment->size = length - 2;
    *at += length;
    return true;
}

/* Checks the Huffman tables in a segment. A table consists of a byte, 16 counts of codes, and the
 * codes. stb_image would write a 257th code beyond the end of its array. */
static bool image_file__huffman_ok(const image_file__segment *segment) {
    for (size_t at = 0; at < segment->size;) {
        size_t codes = 0;
        if (segment->size - at < 17) return false;
        for (size_t i = 1; i <= 16; i++) codes += segment->data[at + i];
        at += 17;
        if (codes > 256 || codes > segment->size - at) return false;
        at += codes;
    }
    return true;
}

static bool image_file__check_jpeg(const image_file__job *job) {
    image_file__segment segment;
    bool quantized = false;
    size_t at = 0;
    while (image_file__next_segment(job, &at, &segment)) {
        if (segment.cut) return report_fail(job->r, "the image is truncated");
        if (segment.marker == 0xc4 && !image_file__huffman_ok(&segment)) {
            return report_fail(job->r, "the image is damaged: not a valid Huffman table");
        }
        quantized = quantized || segment.marker == 0xdb;
        if (segment.marker == 0xda && !quantized)
            return report_fail(job->r, "the image is damaged: no quantization table");
    }
    return true;
}

/* A segment with the Huffman tables that Motion JPEG may omit (ITU-T T.81, Annex K.3). A table has
 * its class and number, the counts of codes with 1 .. 16 bits, and the codes' values. */
/* clang-format off */
static const uint8_t image_file__tables[] = {
    0xff, 0xc4, 0x01, 0xa2,
    /* Table K.3: DC, luminance */
    0x00, 0x00, 0x01, 0x05, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    /* Table K.4: DC, chrominance */
    0x01, 0x00, 0x03, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    /* Table K.5: AC, luminance */
    0x10, 0x00, 0x02, 0x01, 0x03, 0x03, 0x02, 0x04, 0x03, 0x05, 0x05, 0x04, 0x04, 0x00, 0x00,
    0x01, 0x7d,
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61,
    0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52,
    0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25,
    0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45,
    0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
    0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
    0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
    0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
    0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3,
    0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8,
    0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    /* Table K.6: AC, chrominance */
    0x11, 0x00, 0x02, 0x01, 0x02, 0x04, 0x04, 0x03, 0x04, 0x07, 0x05, 0x04, 0x04, 0x00, 0x01,
    0x02, 0x77,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61,
    0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33,
    0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18,
    0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44,
    0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63,
    0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
    0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97,
    0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4,
    0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca,
    0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7,
    0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa
};
/* clang-format on */

/* True if the pixels begin before any Huffman table. */
static bool image_file__lacks_tables(const image_file__job *job) {
    image_file__segment segment;
    size_t at = 0;
    while (image_file__next_segment(job, &at, &segment)) {
        if (segment.marker == 0xc4) return false;
        if (segment.marker == 0xda) return true;
    }
    return false;
}

/* Inserts the standard tables after the start marker, in a copy that image_file__release_rest
 * frees. */
static bool image_file__add_tables(image_file__job *job) {
    uint8_t *data = image_file__malloc(job->size + sizeof image_file__tables);
    size_t start = 0;
    if (!data) return report_no_memory(job->r);
    while (job->data[start] == 0xff) start++;
    start++;
    memcpy(data, job->data, start);
    memcpy(data + start, image_file__tables, sizeof image_file__tables);
    memcpy(data + start + sizeof image_file__tables, job->data + start, job->size - start);
    job->data = data;
    job->size += sizeof image_file__tables;
    return true;
}

/* ------------------------------------------------------------------------- */
/* stb_image for all other formats, with checks for reads past the end       */
/* ------------------------------------------------------------------------- */

/* stb_image reads zeros past the end of a file, and therefore accepts many truncated files. These
 * callbacks detect such reads. If stb_image refills its own buffer, it may get fewer bytes than
 * requested, but not 0. If it reads into any other memory, all requested bytes must be left. */
typedef struct image_file__stream {
    const uint8_t *data;
    size_t size, at;
    char *buffer;
    bool starved;
} image_file__stream;

static int image_file__read(void *user, char *destination, int size) {
    image_file__stream *stream = user;
    size_t left = stream->size - stream->at;
    size_t count = size < 0 ? 0 : (size_t)size < left ? (size_t)size : left;
    if (!stream->buffer) stream->buffer = destination;
    if (count == 0 || (destination != stream->buffer && count < (size_t)size)) {
        stream->starved = true;
    }
    memcpy(destination, stream->data + stream->at, count);
    stream->at += count;
    return (int)count;
}

/* Skips bytes. Refuses the negative count of a damaged header, with which stb_image would step back
 * forever. */
static void image_file__skip(void *user, int count) {
    image_file__stream *stream = user;
    size_t left = stream->size - stream->at;
    if (count < 0 || (size_t)count > left) {
        stream->starved = true;
        stream->at = stream->size;
    } else {
        stream->at += (size_t)count;
    }
}

static int image_file__eof(void *user) {
    const image_file__stream *stream = user;
    return stream->at == stream->size;
}

static bool image_file__stb(const image_file__job *job, image_file *image) {
    const stbi_io_callbacks callbacks = { image_file__read, image_file__skip, image_file__eof };
    image_file__stream stream = { job->data, job->size, 0, NULL, false };
    int width = 0, height = 0, channels = 0;
    if (image_file__is_png(job) && !image_file__check_png(job)) return false;
    if (image_file__is_jpeg(job) && !image_file__check_jpeg(job)) return false;
    if (!stbi_info_from_memory(job->data, (int)job->size, &width, &height, &channels)) {
        return image_file__stb_failed(job);
    }
    /* A negative height of a BMP means that its rows run from top to bottom. */
    if (!image_file__check_size(job, width, height < 0 ? -(int64_t)height : height)) return false;

    image->pixels = stbi_load_from_callbacks(&callbacks, &stream, &image->width, &image->height,
                                             &channels, 3);
    if (image_file__is_png(job) && job->data[24] == 16 && job->data[25] == 0)
        strcpy(image->note, IMAGE_FILE_GREY16);
    if (image->pixels && !stream.starved) return true;
    image_file__release(image->pixels);
    image->pixels = NULL;
    if (stream.starved) return report_fail(job->r, "the image is truncated");
    return image_file__stb_failed(job);
}

/* ------------------------------------------------------------------------- */
/* EXIF orientation                                                          */
/* ------------------------------------------------------------------------- */

/* A TIFF structure, little- or big-endian. */
typedef struct image_file__tiff {
    const uint8_t *data;
    size_t size;
    bool big_endian;
} image_file__tiff;

/* Reads an unsigned number of 2 or 4 bytes; returns 0 outside the data. */
static uint32_t image_file__tiff_number(const image_file__tiff *tiff, size_t at, size_t bytes) {
    uint32_t value = 0;
    if (at > tiff->size || tiff->size - at < bytes) return 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | tiff->data[at + (tiff->big_endian ? i : bytes - 1 - i)];
    }
    return value;
}

/* Returns the orientation from the first directory of TIFF data; 1 if it has none. An entry has 12
 * bytes: tag, type (3: 16 bits), count, value. */
static int image_file__tiff_orientation(const uint8_t *data, size_t size) {
    image_file__tiff tiff = { data, size, size > 0 && data[0] == 'M' };
    size_t directory, count;
    if (size < 8 || data[0] != data[1] || (data[0] != 'I' && data[0] != 'M')) return 1;
    if (image_file__tiff_number(&tiff, 2, 2) != 42) return 1;
    directory = image_file__tiff_number(&tiff, 4, 4);
    count = image_file__tiff_number(&tiff, directory, 2);
    for (size_t i = 0; i < count && i * 12 < size; i++) {
        size_t entry = directory + 2 + i * 12;
        if (image_file__tiff_number(&tiff, entry, 2) != 0x0112) continue;
        if (image_file__tiff_number(&tiff, entry + 2, 2) != 3) return 1;
        uint32_t value = image_file__tiff_number(&tiff, entry + 8, 2);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Returns the orientation from a PNG's first eXIf chunk, which may follow the pixels. */
static int image_file__png_orientation(const image_file__job *job) {
    size_t length;
    for (size_t at = 8; job->size - at >= 12; at += 12 + length) {
        const uint8_t *chunk = job->data + at;
        length = image_file__big32(chunk);
        if (length > job->size - at - 12) break;
        if (memcmp(chunk + 4, "eXIf", 4) == 0)
            return image_file__tiff_orientation(chunk + 8, length);
    }
    return 1;
}

/* Returns the orientation, 1 .. 8, of a PNG or JPEG; 1 if the Exif data are missing or invalid. In
 * a JPEG, only the first Exif segment before the pixels counts. */
static int image_file__orientation(const image_file__job *job) {
    image_file__segment segment;
    size_t at = 0;
    if (image_file__is_png(job)) return image_file__png_orientation(job);
    if (!image_file__is_jpeg(job)) return 1;
    while (image_file__next_segment(job, &at, &segment) && segment.marker != 0xda) {
        if (segment.marker == 0xe1 && segment.size >= 6 &&
            memcmp(segment.data, "Exif\0\0", 6) == 0) {
            return image_file__tiff_orientation(segment.data + 6, segment.size - 6);
        }
    }
    return 1;
}

/* Turns the pixels upright; orientations 5 .. 8 swap width and height. `start` is the index of the
 * stored pixel that becomes the top left corner. A step to the right or down in the upright image
 * adds `right` or `down` to the index. */
static bool image_file__turn(const image_file__job *job, int orientation, image_file *image) {
    const ptrdiff_t w = image->width, h = image->height;
    const bool lies = orientation > 4;
    const bool from_right = orientation == 2 || orientation == 3 || orientation >= 7;
    const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 ||
                            orientation == 7;
    const ptrdiff_t across = from_right ? -1 : 1, along = from_below ? -w : w;
    const ptrdiff_t right = lies ? along : across, down = lies ? across : along;
    const ptrdiff_t start = (from_right ? w - 1 : 0) + (from_below ? (h - 1) * w : 0);
    const ptrdiff_t width = lies ? h : w, height = lies ? w : h;
    uint8_t *upright = image_file__malloc((size_t)(width * height * 3)), *to = upright;
    if (!upright) return report_no_memory(job->r);
    for (ptrdiff_t y = 0; y < height; y++) {
        const uint8_t *from = image->pixels + 3 * (start + y * down);
        for (ptrdiff_t x = 0; x < width; x++, from += 3 * right, to += 3) {
            to[0] = from[0];
            to[1] = from[1];
            to[2] = from[2];
        }
    }
    image_file__release(image->pixels);
    image->pixels = upright;
    image->width = (int)width;
    image->height = (int)height;
    return true;
}

/* ------------------------------------------------------------------------- */
/* JPEG: libjpeg-turbo                                                       */
/* ------------------------------------------------------------------------- */

typedef struct image_file__size {
    const image_file__job *job;
    image_file_fraction *fraction; /* NULL for the full size */
    const void *user;
    bool lies; /* the image is stored on its side; width and height will be swapped */
} image_file__size;

static int image_file__eighths(void *user, int width, int height, report *r) {
    const image_file__size *size = user;
    (void)r; /* the job has the same report */
    if (!image_file__check_size(size->job, width, height)) return 0;
    if (!size->fraction) return 8;
    return size->lies ? size->fraction(size->user, height, width)
                      : size->fraction(size->user, width, height);
}

static bool image_file__turbo(image_file__size *size, image_file *image) {
    const image_file__job *job = size->job;
    const jpeg_request request = { job->data, job->size, image_file__eighths, image_file__malloc,
                                   size };
    jpeg_image decoded;
    const bool good = jpeg_decode(&request, &decoded, job->r);
    image->pixels = decoded.pixels;
    image->width = decoded.width;
    image->height = decoded.height;
    if (decoded.repaired[0])
        snprintf(image->note, sizeof image->note,
                 "the image is damaged, and decoded nevertheless: %.150s", decoded.repaired);
    return good;
}

/* ------------------------------------------------------------------------- */
/* Public                                                                    */
/* ------------------------------------------------------------------------- */

static void image_file_free(image_file *image) {
    image_file__release(image->pixels);
    memset(image, 0, sizeof *image);
}

/* True if the bytes begin like a file of a format that image_file_decode reads. A TGA file has no
 * magic number. It is therefore recognised by valid values of its colour map, image type, width,
 * height and depth. */
static bool image_file_is_known(const void *data, size_t size) {
    const uint8_t *head = data;
    const image_file__job job = { data, size, NULL };
    if (image_file__is_pnm(&job) || image_file__is_jpeg(&job) || image_file__is_png(&job) ||
        image_file__begins(&job, "GIF8", 4) || image_file__begins(&job, "BM", 2) ||
        image_file__begins(&job, "\x89VIT", 4)) /* image_file_decode reports a model */
        return true;
    return size >= 18 && !image_file_kind_of(data, size) && head[1] <= 1 && head[2] &&
           (head[2] & ~8) <= 3 && (head[12] || head[13]) && (head[14] || head[15]) && head[16] &&
           head[16] <= 32 && (head[16] % 8 == 0 || head[16] == 15);
}

static size_t image_file_max_bytes(unsigned flags) {
    return flags / IMAGE_FILE_MEGAPIXELS(1) ? (size_t)2047 << 20 : IMAGE_FILE_MAX_BYTES;
}

/* Decodes a file in memory. flags is 0, or combines IMAGE_FILE_NO_EXIF, IMAGE_FILE_STB and
 * IMAGE_FILE_MEGAPIXELS(n). fraction(user, ...) chooses the size of the decoded image; if fraction
 * is NULL, the image has its full size. On failure, *image is empty. */
static bool image_file_decode(const void *data, size_t size, unsigned flags,
                              image_file_fraction *fraction, const void *user, image_file *image,
                              report *r) {
    image_file__job job = { data, size, r };
    image_file__size scale = { &job, fraction, user, false };
    int orientation = 1;
    bool good;
    memset(image, 0, sizeof *image);
    image_file__no_memory = false;
    if (size == 0) return report_fail(r, "is empty");
    if (size > image_file_max_bytes(flags)) {
        return report_fail(r, "the file is too large: above %zu MiB",
                           image_file_max_bytes(flags) >> 20);
    }
    image_file__max_pixels = (int64_t)(flags / IMAGE_FILE_MEGAPIXELS(1)) * 1000000;
    if (!(flags & IMAGE_FILE_NO_EXIF)) orientation = image_file__orientation(&job);
    scale.lies = orientation > 4;
    if (image_file__is_jpeg(&job) && image_file__lacks_tables(&job) &&
        !image_file__add_tables(&job)) {
        return false;
    }
    if (image_file__is_pnm(&job)) good = image_file__pnm(&job, image);
    else if (jpeg_library() && image_file__is_jpeg(&job) && !(flags & IMAGE_FILE_STB))
        good = image_file__turbo(&scale, image);
    else good = image_file__stb(&job, image);
    if (good && orientation > 1) good = image_file__turn(&job, orientation, image);
    if (!good) image_file_free(image);
    image_file__release_rest(image->pixels);
    return good;
}

#endif
