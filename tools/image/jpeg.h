/* jpeg.h - decodes JPEGs by libjpeg-turbo, at full, half, quarter or eighth size.
 *
 * libjpeg-turbo is optional: the build defines JPEG_TURBO if a program with it links; otherwise
 * stb_image decodes JPEGs. The pixels of libjpeg-turbo equal Pillow's, bit for bit, if Pillow is
 * built with the same version.
 */
#ifndef JPEG_H
#define JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

/* Returns a name such as "libjpeg-turbo 2.1.5", from the headers; NULL if stb_image decodes
 * JPEGs. */
const char *jpeg_library(void);

typedef struct jpeg_request {
    const uint8_t *data; /* bytes of the file */
    size_t size;
    /* jpeg_decode calls it once, with the size in the header. It returns the size to decode in
     * eighths, 8, 4, 2 or 1. It refuses the image by 0, with the reason in the report. */
    int (*eighths)(void *user, int width, int height, report *r);
    void *(*allocate)(size_t size); /* allocates the memory of the pixels */
    void *user;                     /* argument of `eighths` */
} jpeg_request;

typedef struct jpeg_image {
    uint8_t *pixels;    /* memory of `allocate`: RGB, rows tightly packed */
    int width, height;  /* size of the decoded image; fractions are rounded up */
    char repaired[200]; /* the first warning of libjpeg; "" if there was none */
} jpeg_image;

/* Decodes a JPEG. On failure, returns false with the reason in the report; the caller must free the
 * pixels, if any. Damage that libjpeg repairs and Pillow accepts is a warning; a truncated file is
 * refused. */
bool jpeg_decode(const jpeg_request *request, jpeg_image *image, report *r);

#endif
