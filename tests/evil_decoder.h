/* evil_decoder.h - replaces image_file_decode by a decoder that tries to create the file $EVIDENCE,
 * which a sandbox must prevent. The programs of test_confined.sh include this header before
 * photos.c.
 */
#ifndef EVIL_DECODER_H
#define EVIL_DECODER_H

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "image/image_file.h"

static bool evil_decode(const void *data, size_t size, unsigned flags,
                        image_file_fraction *fraction, const void *user, image_file *image,
                        report *r) {
    const char *evidence = getenv("EVIDENCE");
    if (evidence) close(open(evidence, O_WRONLY | O_CREAT, 0666));
    return image_file_decode(data, size, flags, fraction, user, image, r);
}

#define image_file_decode evil_decode

#endif
