/* fuzz_image.c - decodes the input as an image file. */
#define _GNU_SOURCE
#include "fuzz_path.h"

#define IMAGE_FILE_MAX_PIXELS ((int64_t)1 << 16) /* large images only take time */
#include "image/image_file.h"

/* Corrects the checksums of a PNG's chunks. */
static void mend_png(uint8_t *data, size_t size) {
    for (size_t at = 8; at + 12 <= size;) {
        const size_t length = image_file__big32(data + at);
        if (length > size - at - 12) return;
        const uint32_t crc = crc32_add(0, data + at + 4, 4 + length);
        for (size_t i = 0; i < 4; i++) data[at + 8 + length + i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + length;
    }
}

static int fraction(const void *user, int width, int height) {
    fuzz_require(width > 0 && height > 0, "a fraction is of something");
    return *(const int *)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    report r = report_make();
    image_file image;
    uint8_t *file = fuzz_copy(data, size);
    if (size > 8 && memcmp(file, "\x89PNG", 4) == 0) mend_png(file, size);
    const unsigned flags = (size % 2 ? 0 : IMAGE_FILE_NO_EXIF) |
                           (size % 8 < 4 ? IMAGE_FILE_STB : 0);
    const int eighths = 1 << size % 16 / 4;
    const bool good = image_file_decode(file, size, flags, fraction, &eighths, &image, &r);
    if (good) {
        const size_t last = (size_t)image.width * (size_t)image.height * 3 - 1;
        fuzz_require(image.pixels[last] <= 255, "the last pixel is there");
        fuzz_require(image_file_is_known(file, size) || image_file_kind_of(file, size),
                     "what is decoded begins like an image, though a command may come first");
        fuzz_require(memchr(image.note, 0, sizeof image.note) != NULL, "the note ends");
    } else {
        fuzz_require(r.text[0] && !image.pixels, "a refusal says why and leaves nothing");
    }
    image_file_free(&image);
    free(file);
    return 0;
}
