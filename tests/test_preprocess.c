/* test_preprocess.c - compares vit_preprocess with Pillow and NumPy, bit for bit, and checks the
 * sums that the kernels of each tier compute.
 *
 * The expected CRC-32s come from tests/make_preprocess.py (preprocess_vectors.h).
 */
#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "../vit.h"

#include "test.h"
#include "tiny_model.h"

#include <math.h>
#include <stdbool.h>

typedef struct golden_vector {
    int width, height, out_width, out_height, interpolation;
    uint32_t crc;
} golden_vector;

typedef struct photo_vector {
    int format, width, height, stride_padding, in_chans;
    int img_width, img_height, resize_width, resize_height, crop_mode, interpolation, stats;
    int crop_rounding;
    uint32_t crc;
} photo_vector;

#include "preprocess_vectors.h"

/* --- helpers -------------------------------------------------------------- */

static uint32_t crc32(const void *data, size_t size) {
    const unsigned char *p = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

/* row_bytes returns the number of bytes in a row. num_rows returns the number of rows in all
 * planes. */
static size_t row_bytes(int format, size_t width) {
    static const size_t sizes[VIT_NUM_PIXELS] = { 3, 4, 1, 3, 4, 2, 2, 1, 4 };
    bool pairs = format == VIT_PIXEL_YUYV || format == VIT_PIXEL_NV12;
    return (pairs ? (width + 1) / 2 * 2 : width) * sizes[format];
}

static size_t num_rows(int format, size_t height) {
    return format == VIT_PIXEL_F32    ? 3 * height
           : format == VIT_PIXEL_NV12 ? height + (height + 1) / 2
                                      : height;
}

static uint32_t next_random(uint32_t *r) { return *r = *r * 1664525u + 1013904223u; }

static void fill_row(int format, uint8_t *row, size_t size, uint32_t *r) {
    for (size_t i = 0; i < size; i += format == VIT_PIXEL_F32 ? 4 : 1) {
        float value = (float)((int)(next_random(r) >> 16) * 5 - 32768) / 262144.0f;
        if (format == VIT_PIXEL_F32) memcpy(row + i, &value, 4);
        else row[i] = (uint8_t)(*r >> 24);
    }
}

/* Makes a photo whose bytes come from the generator of make_preprocess.py. Between two rows there
 * are `padding` other bytes. The block ends with the last pixel, so that ASan detects reads beyond
 * the end. */
static vit_image make_photo(int format, int width, int height, int padding) {
    vit_image image;
    size_t row = row_bytes(format, (size_t)width), stride = row + (size_t)padding;
    size_t rows = num_rows(format, (size_t)height);
    size_t size = stride * (rows - 1) + row;
    uint8_t *pixels = tiny_allocate(size);
    uint32_t r = 12345;
    memset(pixels, 0xee, size);
    for (size_t y = 0; y < rows; y++) fill_row(format, pixels + y * stride, row, &r);
    if (format == VIT_PIXEL_F32) {
        size_t middle = rows * (size_t)width / 2;
        float nan = NAN;
        memcpy(pixels + middle / (size_t)width * stride + middle % (size_t)width * 4, &nan, 4);
    }
    image.pixels = pixels;
    image.width = width;
    image.height = height;
    image.stride = padding ? (int)stride : 0;
    image.format = (vit_pixel)format;
    return image;
}

static void free_photo(vit_image *image) {
    void *pixels;
    memcpy(&pixels, &image->pixels, sizeof pixels); /* free does not accept a pointer to const. */
    free(pixels);
}

/* Returns the options of a model without blocks that has such an input and a width of 1. */
static tiny_options input_options(int chans, int width, int height) {
    tiny_options o = tiny_defaults();
    vit_config *c = &o.config;
    int side = width < height ? width : height;
    c->in_chans = chans;
    c->img_width = width;
    c->img_height = height;
    c->patch_size = side < 16 ? side : 16;
    c->embed_dim = c->mlp_dim = 1;
    c->num_heads = c->head_dim = 1;
    c->depth = 0;
    c->num_classes = 1;
    c->selftest_tolerance = 0;
    return o;
}

static vit_model open_model(const tiny_options *o, tiny_file *file) {
    vit_model model;
    *file = tiny_build(o);
    vit_result result = vit_model_open_memory(file->data, file->size, 0, &model);
    if (result != VIT_OK) {
        printf("open_model: %s\n", model.detail);
        exit(2);
    }
    return model;
}

static size_t input_count(const vit_config *c) {
    return (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
}

/* --- resize: golden values ------------------------------------------------ */

/* Checks one expected result. The photo is squashed to the input size with mean 0 and std 1, so
 * that x * 255 gives the bytes. */
static void test_golden(const golden_vector *v) {
    tiny_options o = input_options(3, v->out_width, v->out_height);
    tiny_file file;
    vit_config *c = &o.config;
    c->resize_width = v->out_width;
    c->resize_height = v->out_height;
    c->crop_mode = VIT_CROP_SQUASH;
    c->interpolation = v->interpolation;
    for (int i = 0; i < 3; i++) {
        c->mean[i] = 0;
        c->std[i] = 1;
    }
    vit_model model = open_model(&o, &file);
    vit_image image = make_photo(VIT_PIXEL_RGB8, v->width, v->height, 0);
    size_t count = input_count(&model.config), plane = count / 3;
    float *input = tiny_allocate(count * sizeof(float));
    uint8_t *bytes = tiny_allocate(count);
    CHECK(vit_preprocess(&model, &image, input, NULL, 0) == VIT_OK);
    for (size_t i = 0; i < plane; i++) {
        for (size_t channel = 0; channel < 3; channel++) {
            bytes[3 * i + channel] = (uint8_t)(input[channel * plane + i] * 255.0f + 0.5f);
        }
    }
    CHECK_MSG(crc32(bytes, count) == v->crc, "%dx%d to %dx%d", v->width, v->height, v->out_width,
              v->out_height);
    free(bytes);
    free(input);
    free_photo(&image);
    vit_model_close(&model);
    tiny_free(&file);
}

/* --- the whole transform -------------------------------------------------- */

static tiny_options vector_options(const photo_vector *v) {
    tiny_options o = input_options(v->in_chans, v->img_width, v->img_height);
    o.config.resize_width = v->resize_width;
    o.config.resize_height = v->resize_height;
    o.config.crop_mode = v->crop_mode;
    o.config.interpolation = v->interpolation;
    o.config.crop_rounding = v->crop_rounding;
    for (int i = 0; i < v->in_chans; i++) {
        o.config.mean[i] = vector_stats[v->stats][0][i];
        o.config.std[i] = vector_stats[v->stats][1][i];
    }
    return o;
}

enum { GUARD = 32 };

/* Checks vit_preprocess with scratch memory of exactly the requested size. The memory has an odd
 * address and lies between guards. */
static void test_scratch(const vit_model *model, const vit_image *image, const float *wanted,
                         size_t count) {
    size_t size = vit_preprocess_size(model, image);
    unsigned char *block = tiny_allocate(size + 2 * GUARD + 1);
    unsigned char *scratch = block + GUARD + 1;
    float *input = tiny_allocate(count * sizeof(float));
    memset(block, 0xc5, size + 2 * GUARD + 1);
    CHECK(size > 0);
    CHECK(vit_preprocess(model, image, input, scratch, size - 1) == VIT_ERROR_MEMORY);
    CHECK(vit_preprocess(model, image, input, scratch, 0) == VIT_ERROR_MEMORY);
    CHECK(vit_preprocess(model, image, input, scratch, size) == VIT_OK);
    CHECK(memcmp(input, wanted, count * sizeof(float)) == 0);
    int touched = 0;
    for (size_t i = 0; i < GUARD; i++) {
        touched += block[i] != 0xc5;
        touched += scratch[size + i] != 0xc5;
    }
    CHECK_MSG(touched == 0, "%d guard bytes", touched);
    free(input);
    free(block);
}

/* Returns the CRC of the floats in little-endian order. */
static uint32_t crc_of_floats(const float *x, size_t count) {
    unsigned char *bytes = tiny_allocate(4 * count);
    for (size_t i = 0; i < count; i++) {
        tiny_put(bytes + 4 * i, tiny_bits_float((double)x[i]), 4);
    }
    uint32_t crc = crc32(bytes, 4 * count);
    free(bytes);
    return crc;
}

static void test_vector(const photo_vector *v) {
    tiny_file file;
    tiny_options o = vector_options(v);
    vit_model model = open_model(&o, &file);
    vit_image image = make_photo(v->format, v->width, v->height, v->stride_padding);
    size_t count = input_count(&model.config);
    float *input = tiny_allocate(count * sizeof(float));
    vit_result result = vit_preprocess(&model, &image, input, NULL, 0);
    CHECK_MSG(result == VIT_OK, "%s", vit_result_string(result));
    CHECK_MSG(crc_of_floats(input, count) == v->crc,
              "format %d, %dx%d to %dx%d by %dx%d, mode %d, filter %d, %d channels", v->format,
              v->width, v->height, v->img_width, v->img_height, v->resize_width, v->resize_height,
              v->crop_mode, v->interpolation, v->in_chans);
    test_scratch(&model, &image, input, count);
    free(input);
    free_photo(&image);
    vit_model_close(&model);
    tiny_free(&file);
}

/* --- refusals ------------------------------------------------------------- */

static void image_refused(const vit_model *model, vit_image image, vit_result expected,
                          const char *what) {
    float input[4 * 16 * 16];
    vit_result result = vit_preprocess(model, &image, input, NULL, 0);
    CHECK_MSG(result == expected, "%s: %s", what, vit_result_string(result));
    CHECK_MSG(vit_preprocess_size(model, &image) == 0, "%s has a size", what);
}

static void test_refused(void) {
    tiny_file file;
    tiny_options o = input_options(3, 16, 16);
    vit_model model = open_model(&o, &file);
    vit_image good = make_photo(VIT_PIXEL_RGB8, 4, 4, 0), bad = good;
    float input[3 * 16 * 16];
    bad.width = 0;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "width 0");
    bad.height = 0;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "0x0");
    bad = good;
    bad.height = 0;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "height 0");
    bad.height = -1;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "height -1");
    bad = good;
    bad.width = 1048577;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "width 1048577");
    bad.width = 0x7fffffff;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "width 2^31 - 1");
    bad = good;
    bad.height = 1048577;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "height 1048577");
    bad = good;
    bad.pixels = NULL;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "no pixels");
    bad = good;
    bad.stride = 11;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "rows that overlap");
    bad.stride = -12;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "negative stride");
    bad = good;
    bad.format = VIT_NUM_PIXELS;
    image_refused(&model, bad, VIT_ERROR_ARGUMENT, "unknown format");
    for (int format = 0; format < VIT_NUM_PIXELS; format++) {
        bad = good;
        bad.format = (vit_pixel)format;
        bad.width = 3;
        bad.stride = (int)row_bytes(format, 3) - 1;
        image_refused(&model, bad, VIT_ERROR_ARGUMENT, "rows of any format that overlap");
    }
    CHECK(vit_preprocess(NULL, &good, input, NULL, 0) == VIT_ERROR_ARGUMENT);
    CHECK(vit_preprocess(&model, NULL, input, NULL, 0) == VIT_ERROR_ARGUMENT);
    CHECK(vit_preprocess(&model, &good, NULL, NULL, 0) == VIT_ERROR_ARGUMENT);
    CHECK(vit_preprocess_size(NULL, &good) == 0 && vit_preprocess_size(&model, NULL) == 0);
    CHECK(vit_preprocess(&model, &good, input, NULL, 0) == VIT_OK);
    free_photo(&good);
    vit_model_close(&model);
    tiny_free(&file);
}

static void test_unsupported_channels(void) {
    for (int chans = 2; chans <= 4; chans += 2) {
        tiny_file file;
        tiny_options o = input_options(chans, 16, 16);
        vit_model model = open_model(&o, &file);
        vit_image image = make_photo(VIT_PIXEL_RGB8, 4, 4, 0);
        image_refused(&model, image, VIT_ERROR_UNSUPPORTED, "channels");
        free_photo(&image);
        vit_model_close(&model);
        tiny_free(&file);
    }
}

/* Tests photos of all sizes from 1 x 1 to 9 x 9, with models whose input size is 1 x 6, 2 x 5, ...
 * or 6 x 1, in every crop mode with a fixed input size. The results must be in [0, 1], and no
 * sanitizer may report an error. */
static void test_all_small(void) {
    for (int size = 1; size <= 6; size++) {
        for (int mode = 0; mode <= 2; mode++) {
            tiny_file file;
            tiny_options o = input_options(3, size, 7 - size);
            o.config.resize_width = 1 + (size * 5 + mode) % 7;
            o.config.resize_height = mode == 0 ? o.config.resize_width : size;
            o.config.crop_mode = mode;
            o.config.interpolation = size % 2;
            memset(o.config.mean, 0, sizeof o.config.mean);
            for (int i = 0; i < 3; i++) {
                o.config.std[i] = 1;
            }
            vit_model model = open_model(&o, &file);
            for (int width = 1; width <= 9; width++) {
                for (int height = 1; height <= 9; height++) {
                    float input[3 * 6 * 6];
                    int outside = 0;
                    vit_image image = make_photo(VIT_PIXEL_RGB8, width, height, 0);
                    CHECK(vit_preprocess(&model, &image, input, NULL, 0) == VIT_OK);
                    for (size_t i = 0; i < input_count(&model.config); i++) {
                        outside += !(input[i] >= 0 && input[i] <= 1);
                    }
                    CHECK(outside == 0);
                    free_photo(&image);
                }
            }
            vit_model_close(&model);
            tiny_free(&file);
        }
    }
}

/* Tests extreme ratios of the sizes. Intermediate results would overflow 32 bits. */
static void test_extremes(void) {
    static const int sides[][2] = { { 1048576, 1 }, { 1, 1048576 }, { 70000, 3 }, { 2, 65536 } };
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        for (int mode = 0; mode <= 2; mode++) {
            tiny_file file;
            tiny_options o = input_options(3, 16, 16);
            o.config.crop_mode = mode;
            o.config.resize_width = o.config.resize_height = mode == 0 ? 32768 : 17;
            vit_model model = open_model(&o, &file);
            vit_image image = make_photo(VIT_PIXEL_RGB8, sides[i][0], sides[i][1], 0);
            float input[3 * 16 * 16];
            vit_result result = vit_preprocess(&model, &image, input, NULL, 0);
            CHECK_MSG(result == VIT_OK, "%dx%d, mode %d: %s", sides[i][0], sides[i][1], mode,
                      vit_result_string(result));
            free_photo(&image);
            vit_model_close(&model);
            tiny_free(&file);
        }
    }
}

/* Compares one call of a kernel with the same sums in 64 bits. The sum of the weights is between
 * -0.5 and 1.5 times 2^22, so some results are below 0 and some are above 255. */
static void resample_one(const vit__kernels *kernels, int count, int lanes, size_t stride) {
    enum { MAX_COUNT = 300, MAX_BYTES = 64 * (MAX_COUNT + 1) };
    static uint8_t lines[MAX_BYTES];
    static int16_t weights[2 * MAX_COUNT + 2];
    static uint32_t r = 1;
    vit__taps taps = { 0, count, weights };
    int64_t sums[64] = { 0 };
    uint8_t result[64] = { 0 };
    int wrong = 0;
    memset(weights, 0, sizeof weights);
    for (int i = 0; i < MAX_BYTES; i++) {
        lines[i] = (uint8_t)((r = r * 1664525u + 1013904223u) >> 24);
    }
    for (int i = 0; i < count; i++) {
        r = r * 1664525u + 1013904223u;
        int32_t weight = (int32_t)((r >> 9) - (1 << 21)) / count;
        vit__put_tap(&taps, i, weight);
        for (int l = 0; l < lanes; l++) {
            sums[l] += (int64_t)weight * lines[(size_t)i * stride + (size_t)l];
        }
    }
    kernels->resample(result, lines, stride, &taps, lanes);
    for (int l = 0; l < lanes; l++) {
        int64_t sum = (sums[l] + (1 << 21)) >> 22;
        wrong += result[l] != (sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
    CHECK_MSG(wrong == 0, "%d taps, %d lanes, %s: %d wrong", count, lanes,
              vit_isa_name(kernels->isa), wrong);
}

static void test_resample(const vit__kernels *kernels) {
    for (int count = 1; count <= 300; count = count < 20 ? count + 1 : count + 41) {
        resample_one(kernels, count, 16, 16);
        resample_one(kernels, count, 48, 52);
        resample_one(kernels, count, 64, 64);
    }
}

int main(void) {
    FOR_EACH_ISA(isa) test_resample(vit__choose_kernels((vit_isa)isa));
    for (size_t i = 0; i < sizeof golden_vectors / sizeof golden_vectors[0]; i++) {
        test_golden(&golden_vectors[i]);
    }
    for (size_t i = 0; i < sizeof photo_vectors / sizeof photo_vectors[0]; i++) {
        test_vector(&photo_vectors[i]);
    }
    test_refused();
    test_unsupported_channels();
    test_all_small();
    test_extremes();
    return test_summary();
}
