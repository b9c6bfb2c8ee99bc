/* jpeg.h - decodes JPEGs by libjpeg-turbo, at full, half, quarter or eighth size.
 *
 * libjpeg-turbo is optional. The build defines JPEG_TURBO if a test program that uses libjpeg-turbo
 * can be linked. Otherwise, stb_image decodes JPEGs (image_file.h). The pixels of libjpeg-turbo
 * equal Pillow's, bit for bit, if Pillow is built with the same version.
 */
#ifndef JPEG_H
#define JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"

/* Returns the name and version of the library, such as "libjpeg-turbo 2.1.5"; NULL if stb_image
 * decodes JPEGs. */
const char *jpeg_library(void);

typedef struct jpeg_request {
    const uint8_t *data; /* bytes of the file */
    size_t size;
    /* Chooses the size at which the image is decoded. jpeg_decode calls this function once, with
     * the width and height in the file's header. The function returns the size in eighths of the
     * full size: 8, 4, 2 or 1. To refuse the image, it returns 0 and puts the reason into the
     * report. */
    int (*eighths)(void *user, int width, int height, report *r);
    void *(*allocate)(size_t size); /* allocates the memory of jpeg_image.pixels */
    void *user;                     /* argument of `eighths` */
} jpeg_request;

typedef struct jpeg_image {
    /* RGB pixels, [height, width, 3] bytes, which request.allocate has allocated; the caller frees
     * them */
    uint8_t *pixels;
    /* size of the decoded image in pixels; a size that is no whole number is rounded up */
    int width, height;
    char repaired[200]; /* the first warning of libjpeg about damage; "" if there was no warning */
} jpeg_image;

/* Decodes a JPEG. On failure, returns false with the reason in the report; the caller must free
 * image->pixels even then, unless it is NULL. Damage that libjpeg repairs and Pillow accepts causes
 * only a warning. A file that ends before its last row is refused. */
bool jpeg_decode(const jpeg_request *request, jpeg_image *image, report *r);

#endif
