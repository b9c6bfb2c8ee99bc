/* test_look.c - tests the numbers and pictures of tools/vit-look. It compares principal components,
 * foreground and attention rollout with scikit-learn and NumPy (make_look.py), compares crops with
 * vit_preprocess, and tests the canvas and the contact sheet.
 *
 *     test_look tests/data
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/crop.h"
#include "numbers/tokens.h"
#include "picture/picture.h"
#include "test.h"

#include "look_numbers.h"

/* Returns `count` random numbers in [-1, 1): the upper 24 bits of splitmix64 (Steele, Lea, Flood
 * 2014). */
static float *uniform(uint64_t seed, int count) {
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) exit(2);
    for (int i = 0; i < count; i++) {
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        values[i] = (float)(z >> 40) * (1.0f / 8388608) - 1.0f;
    }
    return values;
}

/* Returns random rows. The spread of each column is `factor` times the spread of the previous
 * column. */
static float *shrinking(uint64_t seed, int rows, int dim, float factor) {
    float *values = uniform(seed, rows * dim), scale = 1;
    for (int d = 0; d < dim; d++, scale *= factor)
        for (int i = 0; i < rows; i++) values[i * dim + d] *= scale;
    return values;
}

static bool close_to(double a, double b, double tolerance) { return fabs(a - b) <= tolerance; }

/* --- principal components ------------------------------------------------------------------- */

static void test_fit(int i, int rows, int dim, int count, float factor, const double *variance,
                     const double *ratio, const double *components) {
    float *values = shrinking((uint64_t)(10 + i), rows, dim, factor);
    report r = report_make();
    pca p;
    CHECK_MSG(pca_fit(&p, values, rows, dim, count, &r), "%s", r.text);
    CHECK(p.count == (count < rows - 1 ? count : rows - 1) && p.dim == dim);
    for (int k = 0; k < p.count; k++) {
        CHECK_MSG(close_to(p.variance[k] / variance[k], 1, 1e-9), "fit %d: %.17g %.17g", i,
                  p.variance[k], variance[k]);
        CHECK(close_to(p.variance[k] / p.total, ratio[k], 1e-9));
    }
    for (int d = 0; d < 2 * dim; d++) CHECK(close_to(p.components[d], components[d], 1e-6));
    free(values);
    pca_free(&p);
}

/* Tests a matrix of realistic size. Each component must have its stated variance, and the variances
 * must decrease. */
static void test_large(void) {
    const int rows = 300, dim = 200, count = 28;
    float *values = shrinking(40, rows, dim, 0.99f), along[28];
    double sums[28] = { 0 };
    report r = report_make();
    pca p;
    CHECK(pca_fit(&p, values, rows, dim, count, &r));
    for (int i = 0; i < rows; i++) {
        pca_project(&p, values + i * dim, along);
        for (int k = 0; k < count; k++) sums[k] += (double)along[k] * (double)along[k];
    }
    for (int k = 0; k < count; k++) {
        CHECK(close_to(sums[k] / (rows - 1) / p.variance[k], 1, 1e-5));
        CHECK(k == 0 || p.variance[k] <= p.variance[k - 1]);
    }
    free(values);
    pca_free(&p);
}

/* Tests equal rows, equal variances, too few rows, and NaN. */
static void test_odd_fits(void) {
    float equal[12] = { 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3 }, bad[4] = { 1, 2, 3, NAN };
    float axes[8][4] = { { 0 } };
    report r = report_make();
    pca p;
    CHECK(pca_fit(&p, equal, 4, 3, 3, &r) && p.count == 3 && p.variance[0] == 0 && p.total == 0);
    pca_free(&p);
    for (int i = 0; i < 8; i++) axes[i][i / 2] = i % 2 ? 1.0f : -1.0f;
    CHECK(pca_fit(&p, axes[0], 8, 4, 9, &r) && p.count == 4);
    for (int k = 0; k < 4; k++) CHECK(close_to(p.variance[k], 2.0 / 7, 1e-12));
    pca_free(&p);
    CHECK(!pca_fit(&p, equal, 1, 3, 1, &r) && strstr(r.text, "two rows") && !p.components);
    r = report_make();
    CHECK(!pca_fit(&p, bad, 2, 2, 1, &r) && strstr(r.text, "not finite") && !p.components);
}

static void test_tokens(void) {
    enum { ROWS = 5, COLUMNS = 7, DIM = 12, COUNT = 2 * ROWS * COLUMNS };
    float *values = shrinking(20, COUNT, DIM, 0.7f), found[COUNT][TOKENS_COMPONENTS];
    const vit_grid grids[2] = { { ROWS, COLUMNS }, { ROWS, COLUMNS } };
    const tokens_patches t = { values, COUNT, DIM, grids };
    report r = report_make();
    pca p;
    CHECK(tokens_components(&t, true, &p, found[0], &r));
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < TOKENS_COMPONENTS; k++) {
            const double expected = coordinates[i * TOKENS_COMPONENTS + k];
            CHECK(isnan(found[i][k]) == (foreground[i] == 0));
            CHECK(isnan(found[i][k]) || close_to((double)found[i][k], expected, 1e-5));
        }
    }
    pca_free(&p);
    CHECK(tokens_components(&t, false, &p, found[0], &r) && !isnan(found[0][0]));
    pca_free(&p);
    free(values);
}

/* --- rollout -------------------------------------------------------------------------------- */

static void test_rollout(void) {
    enum { BLOCKS = 4, HEADS = 3, N = 7 };
    float *maps = uniform(30, BLOCKS * HEADS * N * N);
    for (int i = 0; i < BLOCKS * HEADS * N * N; i++) maps[i] = fabsf(maps[i]);
    for (int from = -1; from < N; from++) {
        double shares[N], scratch[2 * N];
        rollout_begin(shares, N, from);
        for (int b = BLOCKS - 1; b >= 0; b--)
            rollout_block(shares, maps + b * HEADS * N * N, HEADS, N, scratch);
        for (int i = 0; i < N; i++) {
            double expected = 0;
            for (int q = 0; q < N; q++)
                if (from < 0 || q == from) expected += rollout[q * N + i] / (from < 0 ? N : 1);
            CHECK(close_to(shares[i], expected, 1e-12));
        }
        rollout_begin(shares, N, from);
        rollout_head(shares, maps, N, scratch);
        CHECK(from < 0 || shares[3] == (double)maps[from * N + 3]);
    }
    free(maps);
}

/* --- what the model sees -------------------------------------------------------------------- */

/* Returns a photo whose red grows from left to right and whose green grows from top to bottom. */
static uint8_t *gradient(int width, int height) {
    uint8_t *pixels = malloc((size_t)(width * height) * 3);
    if (!pixels) exit(2);
    for (int i = 0; i < width * height; i++) {
        pixels[3 * i] = (uint8_t)((i % width * 255 + width / 2) / (width - 1));
        pixels[3 * i + 1] = (uint8_t)((i / width * 255 + height / 2) / (height - 1));
        pixels[3 * i + 2] = 255;
    }
    return pixels;
}

/* Compares crop_find with the part of the photo that vit_preprocess cuts out. The colour of each
 * input pixel shows its position in the photo. */
static void check_crop(const vit_model *model, int width, int height) {
    const vit_config *c = &model->config;
    uint8_t *pixels = gradient(width, height);
    const vit_image photo = { pixels, width, height, 0, VIT_PIXEL_RGB8 };
    const int area = c->img_height * c->img_width;
    float *input = malloc((size_t)(3 * area) * sizeof *input);
    report r = report_make();
    double seen[4], worst = 0, sum_x = 0, sum_y = 0;
    int counted = 0;
    crop place;
    CHECK(input && vit_preprocess(model, &photo, input, NULL, 0) == VIT_OK);
    CHECK(crop_find(&place, c, width, height, &r));
    crop_seen(&place, seen);
    for (int i = 0; i < area; i++) {
        const double x = (i % c->img_width + 0.5 + place.left) / place.across;
        const double y = (i / c->img_width + 0.5 + place.top) / place.down;
        const double red = (double)input[i], green = (double)input[area + i];
        if (x < seen[0] + 2 / place.across || x > seen[2] - 2 / place.across ||
            y < seen[1] + 2 / place.down || y > seen[3] - 2 / place.down)
            continue;
        const double off_x = (red * (width - 1) - (x - 0.5)) * place.across;
        const double off_y = (green * (height - 1) - (y - 0.5)) * place.down;
        /* Colours are rounded to bytes, so only the mean of the positions is exact. */
        worst = fmax(worst, fmax(fabs(off_x), fabs(off_y)));
        sum_x += off_x, sum_y += off_y;
        counted++;
    }
    CHECK_MSG(worst < 0.7 && fabs(sum_x) < 0.05 * counted && fabs(sum_y) < 0.05 * counted,
              "mode %d, %d x %d: %.2f pixels off, %.2f and %.2f in the mean", c->crop_mode, width,
              height, worst, sum_x / counted, sum_y / counted);
    free(pixels);
    free(input);
}

static void test_crops(const char *path) {
    static const int sizes[][2] = { { 90, 60 }, { 60, 90 }, { 64, 64 }, { 200, 61 }, { 57, 231 } };
    vit_model model;
    CHECK(vit_model_open(path, 0, &model) == VIT_OK);
    for (int mode = 0; mode <= VIT_CROP_BORDER; mode++) { /* These modes have one input size. */
        for (int s = 0; s < 5 * 2 * 2; s++) {
            vit_config *c = &model.config;
            c->crop_mode = mode;
            c->crop_rounding = s / 5 % 2;
            c->resize_height = s / 10 ? 41 : 38;
            c->resize_width = 38;
            for (int i = 0; i < 3; i++) c->mean[i] = 0, c->std[i] = 1;
            check_crop(&model, sizes[s % 5][0], sizes[s % 5][1]);
        }
    }
    vit_model_close(&model);
}

/* Tests the positions of patches that lie side by side, patches that overlap, patches that do not
 * cover the last pixels, and patches behind a stem. */
static void test_patches(void) {
    vit_config c;
    report r = report_make();
    crop place;
    memset(&c, 0, sizeof c);
    c.img_height = c.resize_height = 30;
    c.img_width = c.resize_width = 40;
    c.crop_mode = VIT_CROP_SQUASH;
    c.patch_size = 8;
    c.grid_height = 3, c.grid_width = 5;
    /* The photo is twice as wide and high as the input. */
    CHECK(crop_find(&place, &c, 80, 60, &r));
    CHECK(crop_patch(&place, 0, 0) == 0 && crop_patch(&place, 15.9, 15.9) == 0);
    CHECK(crop_patch(&place, 16, 0) == 1 && crop_patch(&place, 79.9, 47.9) == 14);
    CHECK(crop_patch(&place, 10, 48) == -1 && crop_patch(&place, 80, 10) == -1);
    CHECK(crop_patch(&place, -1, 10) == -1);
    c.patch_stride = 4;
    c.grid_height = 6, c.grid_width = 9;
    CHECK(crop_find(&place, &c, 80, 60, &r));
    CHECK(crop_patch(&place, 0, 0) == 0 && crop_patch(&place, 11.9, 0) == 0);
    CHECK(crop_patch(&place, 12.1, 0) == 1 && crop_patch(&place, 79, 0) == 8);
    c.patch_stride = 0;
    c.patch_size = 1;
    c.stem = VIT_STEM_RESNET;
    c.stem_stage1 = c.stem_stage2 = 1;
    c.grid_height = 4, c.grid_width = 5;
    CHECK(crop_find(&place, &c, 80, 60, &r));
    CHECK(place.step == 8 && crop_patch(&place, 79, 59) == 19 && place.covered_y == 30);
    c.stem_stage2 = 0;
    CHECK(crop_find(&place, &c, 80, 60, &r) && place.step == 4);
    c.stem = VIT_STEM_CONV;
    CHECK(crop_find(&place, &c, 80, 60, &r) && place.step == 8);
    c.patch_cut = VIT_CUT_RESHAPE;
    CHECK(!crop_find(&place, &c, 80, 60, &r) && strstr(r.text, "not squares"));
}

/* --- pictures ------------------------------------------------------------------------------- */

static const picture_colour RED = { 255, 0, 0 };

static bool is_colour(const picture *p, int x, int y, picture_colour colour) {
    const uint8_t *pixel = p->pixels + 3 * (y * p->width + x);
    return pixel[0] == colour.red && pixel[1] == colour.green && pixel[2] == colour.blue;
}

static int count_colour(const picture *p, picture_colour colour) {
    int count = 0;
    for (int i = 0; i < p->width * p->height; i++)
        count += is_colour(p, i % p->width, i / p->width, colour);
    return count;
}

static void test_canvas(void) {
    report r = report_make();
    picture p, small;
    CHECK(picture_make(&p, 20, 10, PICTURE_WHITE, &r) && picture_make(&small, 4, 4, RED, &r));
    picture_fill(&p, (picture_box){ -5, -5, 7, 7 }, PICTURE_BLACK);
    CHECK(count_colour(&p, PICTURE_BLACK) == 4 && is_colour(&p, 1, 1, PICTURE_BLACK));
    picture_fill(&p, (picture_box){ 18, 8, 100, 100 }, PICTURE_BLACK);
    CHECK(count_colour(&p, PICTURE_BLACK) == 8);
    picture_outline(&p, (picture_box){ 3, 3, 5, 5 }, 1, RED);
    CHECK(count_colour(&p, RED) == 16 && is_colour(&p, 5, 5, PICTURE_WHITE));
    picture_paste(&p, 18, -2, &small);
    CHECK(count_colour(&p, RED) == 20);
    picture_paste(&p, 100, 100, &small);
    picture_paste(&p, -100, -100, &small);
    CHECK(count_colour(&p, RED) == 20);
    picture_text(&p, 15, 5, RED, "\xc3\xa9 outside the picture");
    CHECK(picture_text_width("\xc3\xa9") == picture_text_width("?"));
    picture_free(&p);
    picture_free(&small);
    CHECK(!picture_make(&p, 1 << 20, 1 << 20, RED, &r) && !p.pixels);
    CHECK(strstr(r.text, "1048576 x 1048576 pixels") != NULL);
}

static void test_scale(void) {
    static const uint8_t pixels[4 * 2 * 3] = { 0,  0,  0,  10, 20, 30, 90, 90, 90, 90, 90, 90,
                                               20, 40, 60, 30, 60, 90, 90, 90, 90, 90, 90, 90 };
    const vit_image photo = { pixels, 4, 2, 0, VIT_PIXEL_RGB8 };
    report r = report_make();
    picture p;
    CHECK(picture_of_photo(&p, &photo, 2, &r) && p.height == 1);
    CHECK(is_colour(&p, 0, 0, (picture_colour){ 15, 30, 45 }));
    CHECK(is_colour(&p, 1, 0, (picture_colour){ 90, 90, 90 }));
    picture_free(&p);
    CHECK(picture_of_photo(&p, &photo, 8, &r) && p.height == 4);
    CHECK(is_colour(&p, 3, 1, (picture_colour){ 10, 20, 30 }));
    picture_free(&p);
}

/* Returns a checksum of ten colours of a colour map. */
static uint32_t sum_colours(colour_map map) {
    uint32_t sum = 0;
    for (int i = 0; i < 10; i++) {
        const picture_colour c = colour_of(map, i / 9.0);
        sum = 31 * (31 * (31 * sum + c.red) + c.green) + c.blue;
    }
    return sum;
}

static void test_colours(void) {
    static const double range[2] = { 2, 4 }, point[2] = { 3, 3 };
    const float values[] = { NAN, 3, -1, 2 }, none[] = { NAN };
    double found[2];
    CHECK(colour_of(COLOUR_VIRIDIS, -1).red == 68 && colour_of(COLOUR_VIRIDIS, 2).red == 253);
    CHECK(colour_of(COLOUR_INFERNO, 0).blue == 4 &&
          colour_of(COLOUR_INFERNO, (double)NAN).green == 128);
    CHECK(sum_colours(COLOUR_VIRIDIS) == 0xeb12e3ecu && sum_colours(COLOUR_INFERNO) == 0x88c9365fu);
    CHECK(grids_share(2.5, range) == 0.25 && grids_share(3, point) == 0.5);
    CHECK(grids_range(values, 4, found) && found[0] == -1 && found[1] == 3);
    CHECK(!grids_range(none, 1, found) && found[0] == 0 && found[1] == 0);
}

static void test_grids(void) {
    static const double range[2] = { -1, 1 };
    float cosines[6 * 6];
    report r = report_make();
    picture p;
    for (int i = 0; i < 36; i++) cosines[i] = i % 7 ? -1.0f : 1.0f;
    CHECK(grids_draw(&p, cosines, (vit_grid){ 2, 3 }, range, 33, &r));
    /* Each value is 3 pixels wide and high, and 2 pixels lie between the grids. */
    CHECK(p.width == 3 * 11 - 2 && p.height == 2 * 8 - 2);
    CHECK(is_colour(&p, 0, 0, colour_of(COLOUR_VIRIDIS, 1)));
    CHECK(is_colour(&p, 3, 0, colour_of(COLOUR_VIRIDIS, 0)));
    CHECK(is_colour(&p, 11 + 3, 0, colour_of(COLOUR_VIRIDIS, 1)));
    CHECK(is_colour(&p, 9, 0, PICTURE_WHITE));
    CHECK(is_colour(&p, 30, 13, colour_of(COLOUR_VIRIDIS, 1)));
    picture_free(&p);
    CHECK(grids_draw_filter(&p, cosines, 1, 6, 20, &r) && p.width == 18);
    CHECK(is_colour(&p, 0, 0, PICTURE_WHITE) && is_colour(&p, 3, 0, PICTURE_BLACK));
    picture_free(&p);
    CHECK(grids_draw_filter(&p, cosines, 3, 2, 1, &r) && p.width == 2);
    picture_free(&p);
}

static void test_view(void) {
    uint8_t *pixels = gradient(80, 40);
    const vit_image photo = { pixels, 80, 40, 0, VIT_PIXEL_RGB8 };
    const picture_colour patches[4] = { { 1, 1, 1 }, { 2, 2, 2 }, { 3, 3, 3 }, { 4, 4, 4 } };
    report r = report_make();
    vit_config c;
    picture p;
    view v;
    memset(&c, 0, sizeof c);
    c.img_height = c.img_width = c.resize_height = c.resize_width = 8;
    c.patch_size = 4;
    c.grid_height = c.grid_width = 2;
    CHECK(view_make(&v, &photo, &c, 40, &r) && v.photo.width == 40 && v.photo.height == 20);
    /* The model receives the middle of the photo, x from 10 to 30. */
    CHECK(view_paint(&v, patches, 1, &p, &r));
    CHECK(is_colour(&p, 12, 2, patches[0]) && is_colour(&p, 27, 2, patches[1]));
    CHECK(is_colour(&p, 12, 17, patches[2]) && is_colour(&p, 21, 11, patches[3]));
    CHECK(is_colour(&p, 10, 5, PICTURE_WHITE) && is_colour(&p, 29, 5, PICTURE_WHITE));
    CHECK(p.pixels[3 * 5] > 100 && p.pixels[3 * 35] > 100); /* pale outside the crop */
    view_mark(&v, &p, 3);
    CHECK(is_colour(&p, 20, 15, RED) && is_colour(&p, 19, 15, RED) && !is_colour(&p, 21, 15, RED));
    picture_free(&p);
    CHECK(view_paint(&v, NULL, 1, &p, &r) && p.pixels[3 * (5 * 40 + 20)] > 120);
    picture_free(&p);
    view_free(&v);
    free(pixels);
}

static void test_sheet(const char *photo) {
    const photo_options confined = { 0 };
    report r = report_make();
    photo_decoder *decoder = photo_decoder_open(&confined, "test", 1, &r);
    sheet s = { NULL, 0, 0 };
    picture p;
    CHECK(sheet_draw(&s, 0, &p, &r) && p.width > 0); /* The sheet is empty. */
    picture_free(&p);
    CHECK(picture_make(&p, 30, 20, RED, &r));
    CHECK(sheet_add(&s, &p, "", &r) && !p.pixels);
    CHECK(sheet_add_photo(&s, photo, decoder, 100, "0.93\na long name that does not fit at all.jpg",
                          &r));
    CHECK(sheet_add_photo(&s, "no such photo", decoder, 40, "0.9", &r) && s.count == 3);
    CHECK(s.cells[1].shown.width == 100 || s.cells[1].shown.height == 100);
    CHECK(s.cells[2].shown.width == 40 && s.cells[2].shown.height == 40);
    CHECK(sheet_draw(&s, 0, &p, &r) && count_colour(&p, RED) == 600);
    CHECK(is_colour(&p, 8, 8, RED) && is_colour(&p, 7, 8, PICTURE_WHITE));
    CHECK(count_colour(&p, PICTURE_BLACK) > 50); /* These pixels belong to the captions. */
    picture_free(&p);
    CHECK(sheet_draw(&s, 9, &p, &r) && p.width == 4 * 8 + 64 + 100 + 64);
    picture_free(&p);
    CHECK(picture_make(&p, 1, 1, RED, &r) && !picture_save(&p, "/nonexistent/x.png", &r));
    CHECK(strstr(r.text, "/nonexistent/x.png: cannot be created") != NULL);
    picture_free(&p);
    sheet_free(&s);
    photo_decoder_close(decoder);
}

int main(int argc, char **argv) {
    char path[1024];
    if (argc < 2) return 2;
    test_fit(0, 60, 20, 4, 0.8f, variance0, ratio0, components0);
    test_fit(1, 15, 40, 5, 0.9f, variance1, ratio1, components1);
    test_fit(2, 30, 8, 3, 1.0f, variance2, ratio2, components2);
    test_fit(3, 9, 30, 8, 1.0f, variance3, ratio3, components3);
    test_large();
    test_odd_fits();
    test_tokens();
    test_rollout();
    test_patches();
    snprintf(path, sizeof path, "%s/../../models/cifar10-vit.vit", argv[1]);
    test_crops(path);
    test_canvas();
    test_scale();
    test_colours();
    test_grids();
    test_view();
    snprintf(path, sizeof path, "%s/images/baseline.jpg", argv[1]);
    test_sheet(path);
    return test_summary();
}
