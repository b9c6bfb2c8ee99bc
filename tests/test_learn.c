/* test_learn.c - compares learn.h with scikit-learn, on embeddings that make_learn.py also
 * generates. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VIT_TOOLS
#include "numbers/learn.h"
#include "vit.h"
#include "test.h"

#include "learn_vectors.h"

enum { ROW = DIM + 1, SIZE = CLASSES * ROW };

static float values[TRAIN * DIM];
static int classes[TRAIN];
static unsigned char tags[TRAIN * CLASSES];

/* Returns number i of a random sequence in [0, 1): the upper 24 bits of splitmix64 (Steele, Lea,
 * Flood 2014). */
static float uniform(uint64_t seed, int i) {
    uint64_t z = seed + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (float)(z >> 40) * (1.0f / 16777216);
}

static void make_rows(void) {
    for (int i = 0; i < TRAIN; i++) {
        classes[i] = i < TRAIN * 4 / 5 ? i % CLASSES : 0;
        for (int d = 0; d < DIM; d++) {
            const float mean = uniform(1, classes[i] * DIM + d);
            const float noise = 2 * (uniform(2, i * DIM + d) - 0.5f);
            values[i * DIM + d] = mean + noise;
        }
        for (int c = 0; c < CLASSES; c++)
            tags[i * CLASSES + c] = c == classes[i] || uniform(3, i * CLASSES + c) < 0.25f;
    }
}

static double farthest(const double *found, const double *expected, int count) {
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs(found[i] - expected[i]));
    return most;
}

static int fit(const vit_learn_rows *rows, const vit_executor *executor, int warm,
               double weights[SIZE]) {
    const vit_learn_options options = { inverse_strength, warm,
                                        executor ? executor->parallel_for : NULL,
                                        executor ? executor->user : NULL };
    void *memory = malloc(vit_learn_size(DIM, CLASSES));
    const int steps = memory ? vit_learn_fit(rows, &options, memory, weights) : -1;
    free(memory);
    return steps;
}

static void test_fit(const vit_executor *executor) {
    const vit_learn_rows one = { values, classes, NULL, NULL, TRAIN, DIM, CLASSES };
    const vit_learn_rows each = { values, NULL, tags, NULL, TRAIN, DIM, CLASSES };
    double weights[SIZE], again[SIZE], scores[CLASSES];
    int steps = fit(&one, NULL, 0, weights);
    CHECK_MSG(steps > 5 && steps < 100, "%d steps", steps);
    CHECK_MSG(farthest(weights, one_class, SIZE) < 2e-3, "%g", farthest(weights, one_class, SIZE));
    CHECK(vit_learn_classify(weights, CLASSES, values, DIM, scores) == classes[0]);
    CHECK_MSG(farthest(scores, probabilities, CLASSES) < 1e-3, "%g",
              farthest(scores, probabilities, CLASSES));
    CHECK(fit(&one, executor, 0, again) == steps);
    /* The weights are the same for any number of threads. */
    CHECK(memcmp(weights, again, sizeof weights) == 0);
    steps = fit(&one, NULL, 1, again);
    CHECK_MSG(steps < 8, "%d steps from the end on", steps);
    CHECK(farthest(weights, again, SIZE) < 1e-3);
    CHECK(fit(&each, executor, 0, weights) > 5);
    CHECK_MSG(farthest(weights, each_class, SIZE) < 2e-3, "%g",
              farthest(weights, each_class, SIZE));
}

/* Tests rows that are chosen by their numbers. The result must be the same as for these rows alone,
 * in the same order. */
static void test_which(void) {
    enum { HALF = TRAIN / 2 };
    float *some = malloc(HALF * DIM * sizeof *some);
    int which[HALF], named[HALF];
    const vit_learn_rows numbered = { values, classes, NULL, which, HALF, DIM, CLASSES };
    const vit_learn_rows copied = { some, named, NULL, NULL, HALF, DIM, CLASSES };
    double a[SIZE], b[SIZE];
    for (int i = 0; i < HALF; i++) {
        which[i] = TRAIN - 1 - 2 * i;
        named[i] = classes[which[i]];
        memcpy(some + i * DIM, values + which[i] * DIM, DIM * sizeof *some);
    }
    CHECK(fit(&numbered, NULL, 0, a) == fit(&copied, NULL, 0, b));
    CHECK(memcmp(a, b, sizeof a) == 0);
    free(some);
}

/* Tests a single class, and equal rows. No class can be learnt from such rows, but this must not be
 * an error. */
static void test_nothing(void) {
    static const float same[6] = { 1, 2, 1, 2, 1, 2 };
    static const int zeros[3] = { 0, 0, 0 }, two[3] = { 0, 1, 1 };
    const vit_learn_rows alone = { same, zeros, NULL, NULL, 3, 2, 1 };
    const vit_learn_rows alike = { same, two, NULL, NULL, 3, 2, 2 };
    const vit_learn_options options = { 1, 0, NULL, NULL };
    double weights[6] = { 9, 9, 9, 9, 9, 9 }, scores[2];
    void *memory = malloc(vit_learn_size(2, 2));
    CHECK(vit_learn_fit(&alone, &options, memory, weights) == 0);
    CHECK(weights[0] == 0 && weights[1] == 0 && weights[2] == 0);
    CHECK(vit_learn_fit(&alike, &options, memory, weights) > 0);
    CHECK(vit_learn_classify(weights, 2, same, 2, scores) == 1);
    CHECK(fabs(scores[1] - 2.0 / 3) < 1e-3); /* A score is the class's share of the rows. */
    free(memory);
}

static double sums_memory[CLASSES + 1 + (CLASSES + 1) * DIM + DIM * (DIM + 1) / 2];

static void test_sums(void) {
    double weights[SIZE + ROW], scratch[DIM * (DIM + 1) / 2], scores[CLASSES + 1];
    vit_learn_sums s = vit_learn_sums_at(sums_memory, DIM, CLASSES, 1);
    int right = 0;
    CHECK(vit_learn_sums_size(DIM, CLASSES + 1, 1) == sizeof sums_memory);
    vit_learn_clear(&s);
    for (int i = 0; i < TRAIN; i++) vit_learn_add(&s, values + i * DIM, classes[i]);
    CHECK(vit_learn_ridge(&s, shrinkage, scratch, weights) == 1);
    CHECK_MSG(farthest(weights, gaussian, SIZE) < 1e-7, "%g", farthest(weights, gaussian, SIZE));
    CHECK(vit_learn_means(&s, weights) == 1);
    for (int i = 0; i < TRAIN; i++)
        right += vit_learn_classify(weights, CLASSES, values + i * DIM, DIM, scores) == classes[i];
    CHECK_MSG(right >= TRAIN * 6 / 10, "%d", right);
    s = vit_learn_sums_at(sums_memory, DIM, CLASSES + 1, 0);
    vit_learn_clear(&s);
    /* Ridge regression fails, because these sums do not include the squares. */
    CHECK(vit_learn_ridge(&s, shrinkage, scratch, weights) == 0);
    vit_learn_add(&s, values, 2);
    CHECK(vit_learn_means(&s, weights) == 0); /* A single photo has no variance. */
    CHECK(weights[2 * ROW] == (double)values[0]);
    for (int i = 1; i < TRAIN; i++) vit_learn_add(&s, values + i * DIM, classes[i]);
    CHECK(vit_learn_means(&s, weights) == 1);
    CHECK(vit_learn_classify(weights, CLASSES + 1, values, DIM, scores) < CLASSES);
    CHECK(scores[CLASSES] == 0); /* This class has no photos. */
    s = vit_learn_sums_at(sums_memory, DIM, CLASSES, 1);
    vit_learn_clear(&s);
    for (int i = 0; i < 4; i++) vit_learn_add(&s, values + i * DIM, i % 2);
    /* There are 4 photos, but 13 dimensions. */
    CHECK(vit_learn_ridge(&s, 0, scratch, weights) == 0);
    CHECK(vit_learn_ridge(&s, 0.5, scratch, weights) == 1);
    CHECK(vit_learn_classify(weights, CLASSES, values, DIM, scores) == 0);
}

/* Compares the functions with those of the C library, which are exact or nearly exact. */
static void test_functions(void) {
    double most = 0, scores[3] = { 1000, 1000, -1000 };
    for (double x = -700; x < 700; x += 0.0917) {
        const double e = exp(x);
        most = fmax(most, fabs(vit_learn_exp(x) / e - 1));
        most = fmax(most, fabs(vit_learn_log(e) - log(e)) / fmax(fabs(log(e)), 1e-3));
    }
    CHECK_MSG(most < 4e-16, "%g", most);
    CHECK(vit_learn_exp(-1e9) == 0 && vit_learn_exp(0) == 1 && vit_learn_log(1) == 0);
    CHECK(vit_learn_exp(1e9) > 1e307 && isnan(vit_learn_exp((double)NAN)));
    CHECK(fabs(vit_learn_softmax(scores, 3) - 1000 - log(2)) < 1e-12);
    CHECK(scores[0] == 0.5 && scores[1] == 0.5 && scores[2] == 0);
}

int main(void) {
    vit_threads *threads = NULL;
    vit_executor executor;
    CHECK(vit_threads_create(3, &threads, &executor) == VIT_OK);
    make_rows();
    test_fit(&executor);
    test_which();
    test_nothing();
    test_sums();
    test_functions();
    vit_threads_destroy(threads);
    return test_summary();
}
