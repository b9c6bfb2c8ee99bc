/* fuzz_preprocess.c - passes any small photo with any settings to vit_preprocess. The input is a
 * list of numbers, then the pixels; each block of memory has exactly the needed size.
 */
#include "fuzz.h"

#include "vit.h"

enum { MAX_BYTES = 1 << 14 };

typedef struct input {
    const uint8_t *data;
    size_t left;
} input;

static int take(input *in, int low, int high) {
    int value = 0;
    for (int i = 0; i < 2 && in->left > 0; i++, in->left--) value = value << 8 | *in->data++;
    return low + value % (high - low + 1);
}

static vit_config take_config(input *in) {
    vit_config c;
    memset(&c, 0, sizeof c);
    c.in_chans = take(in, 1, 4);
    c.img_height = take(in, 1, 24);
    c.img_width = take(in, 1, 24);
    c.resize_height = take(in, 1, 40);
    c.resize_width = take(in, 0, 1) ? c.resize_height : take(in, 1, 40);
    c.crop_mode = take(in, VIT_CROP_CENTER, VIT_CROP_BORDER);
    c.crop_rounding = take(in, VIT_ROUND_EVEN, VIT_ROUND_NEAREST);
    c.interpolation = take(in, VIT_BILINEAR, VIT_BICUBIC);
    for (int i = 0; i < 4; i++) {
        c.mean[i] = (float)take(in, -300, 300) / 100.0f;
        c.std[i] = (float)take(in, 1, 300) / 100.0f;
    }
    return c;
}

static int row_size(vit_pixel format, int width) {
    static const int sizes[VIT_NUM_PIXELS] = { 3, 4, 1, 3, 4, 2, 2, 1, 4 };
    const bool pairs = format == VIT_PIXEL_YUYV || format == VIT_PIXEL_NV12;
    return (pairs ? (width + 1) / 2 * 2 : width) * sizes[format];
}

static int num_rows(const vit_image *image) {
    if (image->format == VIT_PIXEL_F32) return 3 * image->height;
    return image->height + (image->format == VIT_PIXEL_NV12 ? (image->height + 1) / 2 : 0);
}

/* The pixels end where their block ends; missing pixels are zero. */
static uint8_t *take_pixels(input *in, vit_image *image, size_t size) {
    uint8_t *pixels = calloc(size, 1);
    if (!pixels) exit(1);
    if (in->left > 0) memcpy(pixels, in->data, in->left < size ? in->left : size);
    image->pixels = pixels;
    return pixels;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = { data, size };
    vit_model model;
    vit_image image;
    memset(&model, 0, sizeof model);
    memset(&image, 0, sizeof image);
    model.abi = VIT_ABI_OF_PROGRAM; /* a model with tensors counts as open; the tensors are not
                                     * read */
    model.tensors = data;
    model.config = take_config(&in);
    image.width = take(&in, 0, 7) ? take(&in, 1, 40) : take(&in, 1, 5000);
    image.height = take(&in, 0, 7) ? take(&in, 1, 40) : take(&in, 1, 5000);
    image.format = (vit_pixel)take(&in, 0, VIT_NUM_PIXELS - 1);
    const int row = row_size(image.format, image.width);
    image.stride = take(&in, 0, 1) ? row + take(&in, 0, 9) : 0;
    const size_t stride = (size_t)(image.stride ? image.stride : row);
    const size_t bytes = stride * (size_t)(num_rows(&image) - 1) + (size_t)row;
    if (bytes > MAX_BYTES || in.left == 0) return 0;
    uint8_t *pixels = take_pixels(&in, &image, bytes);
    const vit_config *c = &model.config;
    const size_t scratch_size = vit_preprocess_size(&model, &image);
    const size_t count = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    float *output = malloc(count * sizeof *output);
    void *scratch = malloc(scratch_size ? scratch_size : 1);
    if (!output || !scratch) exit(1);
    const vit_result result = vit_preprocess(&model, &image, output, scratch, scratch_size);
    fuzz_require((result == VIT_OK) == (c->in_chans == 1 || c->in_chans == 3), "1 or 3 channels");
    fuzz_require((result == VIT_OK) == (scratch_size > 0), "its size says the same");
    for (size_t i = 0; result == VIT_OK && i < count; i++)
        fuzz_require(output[i] >= -400.0f && output[i] <= 400.0f, "every value was written");
    free(scratch);
    free(output);
    free(pixels);
    return 0;
}
