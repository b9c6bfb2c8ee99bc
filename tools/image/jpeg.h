/* jpeg.h - JPEGs by libjpeg-turbo, at their whole size or a half, a quarter, an eighth of it.
 *
 * It is optional: the build defines JPEG_TURBO where a program with it links; elsewhere stb_image
 * decodes JPEGs. Its pixels are Pillow's, bit for bit, where Pillow is built with the same version.
 */
#ifndef JPEG_H
#define JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

/* "libjpeg-turbo 2.1.5", of the headers; NULL: stb_image decodes JPEGs. */
const char *jpeg_library(void);

typedef struct jpeg_request {
    const uint8_t *data; /* the file                                                    */
    size_t size;
    /* Called once, with the size that the file claims: how many eighths of it each side shall
     * have, 8, 4, 2 or 1; 0: the image is refused, and the report says why. */
    int (*eighths)(void *user, int width, int height, report *r);
    void *(*allocate)(size_t size); /* the memory of the pixels                         */
    void *user;                     /* of eighths                                       */
} jpeg_request;

typedef struct jpeg_image {
    uint8_t *pixels;    /* RGB, rows tightly packed, as allocate returned it           */
    int width, height;  /* of these: rounded up where the size is a fraction           */
    char repaired[200]; /* the first of libjpeg's warnings; "": there was none         */
} jpeg_image;

/* False: the report says why, and the pixels, if there are any, are the caller's to free. Damage
 * that libjpeg repairs, as Pillow lets it, is a warning; a file that ends early is refused. */
bool jpeg_decode(const jpeg_request *request, jpeg_image *image, report *r);

#endif
