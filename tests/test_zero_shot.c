/* test_zero_shot.c - tests classes.h: compares logits and probabilities with NumPy's in double, and
 * checks refused files and options that exclude each other.
 *
 *     test_zero_shot
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "infer/classes.h"
#include "test.h"

enum { TEXTS = 4, DIM = 3 };

static const float vectors[TEXTS * DIM] = { 3, 4, 0, 0, 2, 0, -1, 0, 0, 1, 2, 2 };
static const float seen[DIM] = { 4.2f, 5.6f, 0 };

/* The expected results: cosines[i] = text . seen / |text| / |seen|, softmax(5 cosines), and
 * 1 / (1 + exp(4 - 10 cosines[i])). */
static const double cosines[TEXTS] = { 1, 0.8, -0.6, 0.73333333 };
static const double softmax[TEXTS] = { 0.612815676, 0.225442289, 0.000205577, 0.161536458 };
static const double sigmoid[TEXTS] = { 0.997527377, 0.98201379, 0.000045398, 0.965554804 };

static char folder[] = "/tmp/test_zero_shot.XXXXXX";
static char npy[64], names[64];

static void write_text(const char *text) {
    FILE *file = fopen(names, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file)) exit(2);
}

static void write_vectors(const float *values, int64_t count, int64_t dim) {
    const int64_t dims[2] = { count, dim };
    FILE *file = fopen(npy, "wb");
    if (!file || !npy_write(file, values, dims, 2) || fclose(file)) exit(2);
}

static zero_shot_options options_of(double scale, double bias, bool sigmoids) {
    const zero_shot_options options = {
        .classes = npy, .names = names, .scale = scale, .bias = bias, .sigmoid = sigmoids
    };
    return options;
}

static void test_numbers(double scale, double bias, const double *expected, bool sigmoids) {
    const zero_shot_options options = options_of(scale, bias, sigmoids);
    report r = report_make();
    zero_shot z;
    float x[TEXTS];
    const double shift = sigmoids ? bias : 0;
    CHECK_MSG(zero_shot_open_vectors(&z, &options, &r), "%s", r.text);
    CHECK(z.count == TEXTS);
    zero_shot_logits(&z, seen, x);
    for (int i = 0; i < TEXTS; i++) CHECK(fabs((double)x[i] - (scale * cosines[i] + shift)) < 1e-5);
    zero_shot_scores(&z, x);
    for (int i = 0; i < TEXTS; i++)
        CHECK_MSG(fabs((double)x[i] - expected[i]) < 1e-6, "%d: %.9f", i, (double)x[i]);
    zero_shot_close(&z);
    zero_shot_close(&z);
}

/* Tests names with the line ends of Windows, an empty name, escapes, and the default options. */
static void test_open(void) {
    const zero_shot_options options = options_of((double)NAN, (double)NAN, false);
    report r = report_make();
    zero_shot z;
    write_text("a cat\r\na dog\r\n\r\n\\back\\\\slash\r\n");
    CHECK_MSG(zero_shot_open_vectors(&z, &options, &r), "%s", r.text);
    CHECK(strcmp(z.texts.names[0], "a cat") == 0 && strcmp(z.texts.names[2], "") == 0);
    CHECK(strcmp(z.texts.names[3], "back\\slash") == 0);
    CHECK(z.scale == 100 && z.bias == 0 && !z.sigmoid);
    zero_shot_close(&z);
}

static void refused(const char *message) {
    const zero_shot_options options = options_of(1, 0, true);
    report r = report_make();
    zero_shot z;
    CHECK(!zero_shot_open_vectors(&z, &options, &r));
    CHECK_MSG(strstr(r.text, message), "'%s' lacks '%s'", r.text, message);
}

static void test_refused(void) {
    float bad[TEXTS * DIM];
    write_text("one\ntwo\nthree\n");
    refused("names: has 3 names for 4 vectors");
    write_text("one\ntwo\nthree\nfour\n");
    memcpy(bad, vectors, sizeof bad);
    bad[5] = NAN;
    write_vectors(bad, TEXTS, DIM);
    refused("text.npy: the vector of 'two', in row 1, is all zeros or not finite");
    bad[5] = INFINITY;
    write_vectors(bad, TEXTS, DIM);
    refused("row 1, is all zeros or not finite");
    memset(bad + 9, 0, 3 * sizeof *bad);
    bad[5] = 0;
    write_vectors(bad, TEXTS, DIM);
    refused("the vector of 'four', in row 3, is all zeros or not finite");
    write_vectors(bad, TEXTS, 0);
    refused("text.npy: expected 1 to 1048576 vectors, found 4 (each of 0 numbers)");
    write_text("");
    write_vectors(bad, 0, DIM);
    refused("text.npy: expected 1 to 1048576 vectors, found 0 (each of 3 numbers)");
    write_vectors(vectors, TEXTS, DIM);
}

static void test_options(void) {
    static const struct {
        const char *classes, *names;
        double scale, bias;
        bool sigmoid;
        /* The text of the expected message, or NULL if the options may be given together. */
        const char *expected;
    } cases[] = {
        { NULL, NULL, (double)NAN, (double)NAN, false, NULL },
        { NULL, NULL, (double)NAN, (double)NAN, true, NULL },
        { "t.npy", "n", (double)NAN, (double)NAN, false, NULL },
        { "t.npy", "n", 5, (double)NAN, false, NULL },
        { "t.npy", "n", 5, (double)NAN, true, NULL },
        { "t.npy", "n", 5, -3, true, NULL },
        { "t.npy", NULL, 5, -3, true, "--classes TEXT.npy needs --class-names" },
        { NULL, "n", 5, -3, true, "--class-names needs --classes" },
        { NULL, NULL, 5, (double)NAN, true, "--scale and --bias need --classes" },
        { NULL, NULL, (double)NAN, 0, true, "--scale and --bias need --classes" },
        { "t.npy", "n", 5, -3, false, "--bias needs --sigmoid" },
        { "t.npy", "n", (double)NAN, -3, true, "--sigmoid needs the model's --scale" },
        { "a cat", NULL, (double)NAN, (double)NAN, false, NULL },
        { "a cat", NULL, (double)NAN, 0, true, NULL },
        { "a cat", "n", (double)NAN, (double)NAN, false,
          "--class-names is only for the vectors of" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zero_shot_options options = { .classes = cases[i].classes,
                                            .names = cases[i].names,
                                            .scale = cases[i].scale,
                                            .bias = cases[i].bias,
                                            .sigmoid = cases[i].sigmoid };
        const char *found = zero_shot_wrong(&options), *expected = cases[i].expected;
        CHECK_MSG(expected ? found && strstr(found, expected) == found : !found, "case %d: %s",
                  (int)i, found ? found : "none");
    }
}

int main(void) {
    if (!mkdtemp(folder)) return 2;
    snprintf(npy, sizeof npy, "%s/text.npy", folder);
    snprintf(names, sizeof names, "%s/names", folder);
    write_text("one\ntwo\nthree\nfour\n");
    write_vectors(vectors, TEXTS, DIM);
    test_numbers(5, (double)NAN, softmax, false);
    test_numbers(10, -4, sigmoid, true);
    test_open();
    test_refused();
    test_options();
    unlink(npy);
    unlink(names);
    rmdir(folder);
    return test_summary();
}
