/* photo.c - decodes photo files for engines without a decoder: Node, Deno, Bun and Cloudflare's
 * Workers. The package for npm (tools/packaging/npm) uses it.
 *
 * Native programs with stb_image have the same decoder, so they compute the same pixels, bit for
 * bit. Each photo has its own instance of the module, so a damaged file cannot affect other photos.
 */
#define STBI_NO_THREAD_LOCALS /* without shared memory the linker has no thread locals */
#include "heap.h"
#include "image/image_file.h"

/* There is no libjpeg-turbo in WebAssembly. */
const char *jpeg_library(void) { return NULL; }

bool jpeg_decode(const jpeg_request *request, jpeg_image *image, report *r) {
    (void)request;
    memset(image, 0, sizeof *image);
    return report_fail(r, "has no decoder");
}

static struct {
    int width, height;
    uint8_t *pixels;  /* RGB, rows tightly packed */
    const char *text; /* why there are no pixels, or a note about them; "": nothing to report */
} answer;

void *web_allocate(size_t size) { return malloc(size); }

EXPORT(decode) const void *photo_decode(const void *file, size_t size);

const void *photo_decode(const void *file, size_t size) {
    static report r;
    static image_file photo;
    (void)image_file_is_known; /* only lists of files use this function */
    r = report_make();
    answer.pixels = NULL;
    answer.text = r.text;
    if (image_file_decode(file, size, 0, NULL, NULL, &photo, &r)) {
        answer.width = photo.width;
        answer.height = photo.height;
        answer.pixels = photo.pixels;
        answer.text = photo.note;
    }
    return &answer;
}
