/* test_nearest.c - compares nearest.h and learn.h with NumPy, SciPy and scikit-learn, on vectors
 * that make_nearest.py also generates, and checks that any number of threads gives the same bits.
 *
 *     test_nearest
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "numbers/learn.h"
#include "numbers/nearest.h"
#include "os/os.h"
#include "test.h"

#include "nearest_vectors.h"

/* Returns `count` random numbers in [-1, 1): the upper 24 bits of splitmix64 (Steele, Lea, Flood
 * 2014). */
static float *uniform(uint64_t seed, size_t count) {
    float *values = malloc(count * sizeof *values);
    if (!values) exit(2);
    for (size_t i = 0; i < count; i++) {
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        values[i] = (float)(z >> 40) * (1.0f / 8388608) - 1.0f;
    }
    return values;
}

/* Returns random rows. Row i is the centre of class i % classes plus noise. */
static float *clusters(uint64_t seed, uint64_t centre_seed, int count, int classes, float noise) {
    float *values = uniform(seed, (size_t)count * DIM);
    float *centres = uniform(centre_seed, (size_t)classes * DIM);
    for (int i = 0; i < count * DIM; i++) {
        const float scaled = noise * values[i];
        values[i] = centres[i / DIM % classes * DIM + i % DIM] + scaled;
    }
    free(centres);
    return values;
}

static void test_find(const vit_executor *executor) {
    float *values = uniform(1, (size_t)ROWS * DIM), *asked = uniform(2, QUERIES * DIM);
    const nearest_rows rows = { values, ROWS, DIM }, queries = { asked, QUERIES, DIM };
    static nearest_hit one[TOP], hits[QUERIES * TOP];
    int found[QUERIES];
    CHECK(nearest_find_each(&rows, &queries, TOP, executor, hits, found));
    for (int q = 0; q < QUERIES; q++) {
        CHECK(found[q] == TOP);
        CHECK(nearest_find(&rows, asked + q * DIM, TOP, executor, one) == TOP);
        for (int i = 0; i < TOP; i++) {
            const int at = q * TOP + i;
            const float again = vit_cosine(asked + q * DIM, values + one[i].row * DIM, DIM);
            CHECK_MSG(one[i].row == best_rows[at], "query %d, rank %d: row %d, expected %d", q, i,
                      (int)one[i].row, best_rows[at]);
            CHECK(fabsf(one[i].cosine - best_cosines[at]) < 1e-6f);
            CHECK(hits[at].row == one[i].row && hits[at].cosine == one[i].cosine);
            CHECK(fabsf(again - one[i].cosine) < 1e-6f);
        }
    }
    free(values);
    free(asked);
}

static void test_groups(const vit_executor *executor) {
    float *values = clusters(3, 4, GROUP_ROWS, 400, 0.35f);
    const nearest_part part = { values, NULL, GROUP_ROWS, NULL, NULL };
    const nearest_set set = { &part, 1, DIM };
    static int64_t group[GROUP_ROWS];
    CHECK(nearest_groups(&set, 0.9f, executor, group));
    for (int i = 0; i < GROUP_ROWS; i++) CHECK(group[i] == first_of_group[i]);
    free(values);
}

static void test_votes(const vit_executor *executor) {
    float *train = clusters(5, 6, TRAIN, CLASSES, 2.2f),
          *test = clusters(7, 6, TEST, CLASSES, 2.2f);
    const nearest_rows rows = { train, TRAIN, DIM }, queries = { test, TEST, DIM };
    static nearest_hit hits[TEST * NEIGHBORS];
    static int found[TEST], classes[TRAIN];
    double votes[CLASSES];
    for (int i = 0; i < TRAIN; i++) classes[i] = i % CLASSES;
    CHECK(nearest_find_each(&rows, &queries, NEIGHBORS, executor, hits, found));
    for (int i = 0; i < TEST; i++) {
        CHECK(nearest_vote(hits + i * NEIGHBORS, found[i], classes, 0.07, votes, CLASSES) ==
              predicted[i]);
    }
    CHECK(nearest_vote(hits, 0, classes, 0.07, votes, CLASSES) == 0 && votes[0] == 0);
    free(train);
    free(test);
}

static int best_of(const double *scores) {
    int best = 0;
    for (int c = 1; c < CLASSES; c++) best = scores[c] > scores[best] ? c : best;
    return best;
}

static void test_logistic(const vit_executor *executor) {
    static double first[CLASSES * (DIM + 1)];
    double weights[CLASSES * (DIM + 1)], scores[CLASSES];
    float *train = clusters(5, 6, TRAIN, CLASSES, 2.2f);
    float *test = clusters(7, 6, TEST, CLASSES, 2.2f);
    int classes[TRAIN], steps;
    const vit_learn_rows rows = { train, classes, NULL, NULL, TRAIN, DIM, CLASSES };
    const vit_learn_options options = { 10, 0, executor->parallel_for, executor->user };
    void *memory = malloc(vit_learn_size(DIM, CLASSES));
    for (int i = 0; i < TRAIN; i++) {
        classes[i] = i % CLASSES;
        vit_normalize(train + i * DIM, DIM);
    }
    steps = vit_learn_fit(&rows, &options, memory, weights);
    CHECK_MSG(steps > 5 && steps < 200, "%d steps", steps);
    for (int i = 0; i <= DIM; i++)
        CHECK_MSG(fabs(weights[i] - class_weights[i]) < 0.01, "weight %d: %.9g, expected %.9g", i,
                  weights[i], class_weights[i]);
    for (int i = 0; i < TEST; i++) {
        vit_normalize(test + i * DIM, DIM);
        vit_learn_scores(weights, CLASSES, test + i * DIM, DIM, scores);
        CHECK(best_of(scores) == named[i]);
    }
    if (!executor->parallel_for) memcpy(first, weights, sizeof first);
    /* The weights are the same for any number of threads. */
    CHECK(memcmp(first, weights, sizeof first) == 0);
    free(memory);
    free(train);
    free(test);
}

/* Tests every number of rows up to 10 and of dimensions up to 20, and some larger numbers. */
static void test_sizes(void) {
    float *values = uniform(8, 70 * 33);
    nearest_hit each[70 * 3], one[3];
    int found[70];
    for (int dim = 1; dim <= 33; dim += dim < 20 ? 1 : 13) {
        for (int count = 1; count <= 70; count += count < 10 ? 1 : 20) {
            const nearest_rows rows = { values, count, dim };
            CHECK(nearest_find_each(&rows, &rows, 3, NULL, each, found));
            for (int q = 0; q < count; q++) {
                const int n = nearest_find(&rows, values + q * dim, 3, NULL, one);
                bool same = n == found[q] && n == (count < 3 ? count : 3);
                for (int i = 0; i < n; i++) {
                    const nearest_hit *hit = &each[q * 3 + i];
                    double dot = 0, a = 0, b = 0;
                    for (int d = 0; d < dim; d++) {
                        const double x = (double)values[q * dim + d];
                        const double y = (double)values[hit->row * dim + d];
                        dot += x * y, a += x * x, b += y * y;
                    }
                    same = same && one[i].row == hit->row && one[i].cosine == hit->cosine &&
                           fabs((double)hit->cosine - dot / sqrt(a * b)) < 1e-6;
                }
                CHECK_MSG(same, "%d rows of %d, query %d", count, dim, q);
            }
        }
    }
    free(values);
}

/* Tests equal rows, a row of zeros, a row with NaN, and a set without rows. */
static void test_odd(void) {
    float values[5][3] = { { 0, 0, 0 }, { 1, 2, 3 }, { 2, 4, 6 }, { NAN, 1, 1 }, { -1, -2, -3 } };
    const nearest_rows rows = { values[0], 5, 3 }, none = { values[0], 0, 3 };
    const nearest_part part = { values[0], NULL, 5, NULL, NULL };
    const nearest_set set = { &part, 1, 3 };
    nearest_hit hits[5];
    int64_t group[5];
    CHECK(nearest_find(&rows, values[1], 5, NULL, hits) == 4);
    CHECK(hits[0].row == 1 && hits[1].row == 2 && hits[1].cosine == hits[0].cosine);
    CHECK(hits[2].row == 0 && hits[2].cosine == 0 && hits[3].row == 4 && hits[3].cosine < -0.99f);
    CHECK(nearest_find(&rows, values[3], 5, NULL, hits) == 0);
    CHECK(nearest_find(&none, values[1], 5, NULL, hits) == 0);
    CHECK(nearest_groups(&set, 0.99f, NULL, group));
    CHECK(group[0] == 0 && group[1] == 1 && group[2] == 1 && group[3] == 3 && group[4] == 4);
}

/* Tests a set of many parts, which are floats or half floats, with copies in int8. It must give the
 * same bits as one array. */
static void test_parts(const vit_executor *executor) {
    enum { N = 3000, WIDTH = 83, K = 20 };
    float *values = clusters(8, 9, N * WIDTH / DIM + 1, 50, 0.02f);
    uint16_t *halves = malloc(N * WIDTH * sizeof *halves);
    int8_t *bytes = malloc(N * WIDTH);
    nearest_scale *scales = malloc(N * sizeof *scales);
    const int ends[] = { 1, 1, 6, 1000, 2999, N };
    nearest_part parts[2][6];
    static int64_t group[N], expected_group[N];
    memset(values + 7 * WIDTH, 0, WIDTH * sizeof *values);
    values[8 * WIDTH] = NAN;
    for (int i = 0; i < WIDTH; i++) values[9 * WIDTH + i] = values[10 * WIDTH + i] * 1e-30f;
    for (int half = 0; half < 2; half++) {
        for (int i = 0; half && i < N * WIDTH; i++) {
            halves[i] = bytes_to_half(values[i]);
            values[i] = bytes_half(halves[i]);
        }
        for (int p = 0, at = 0; p < 6; at = ends[p++]) {
            const nearest_part part = { half ? NULL : values + at * WIDTH,
                                        half ? halves + at * WIDTH : NULL, ends[p] - at, NULL,
                                        NULL };
            parts[0][p] = parts[1][p] = part;
            parts[1][p].bytes = bytes + at * WIDTH;
            parts[1][p].scales = scales + at;
            nearest_make_bytes(&part, WIDTH, executor, scales + at, bytes + at * WIDTH);
        }
        {
            const nearest_part one = { values, NULL, N, NULL, NULL };
            const nearest_set whole = { &one, 1, WIDTH }, set = { parts[0], 6, WIDTH };
            float row[WIDTH];
            int joined = 0;
            CHECK(nearest_groups(&whole, 0.5f, NULL, expected_group));
            CHECK(nearest_groups(&set, 0.5f, executor, group));
            CHECK(memcmp(group, expected_group, sizeof group) == 0);
            for (int i = 0; i < N; i++) joined += group[i] != i;
            CHECK(joined > 10 && joined < N - 10);
            CHECK(memcmp(nearest_row(&set, 1700, row), values + 1700 * WIDTH, sizeof row) == 0);
        }
        for (int q = 0; q < N; q += 37) {
            const nearest_rows rows = { values, N, WIDTH };
            nearest_hit expected[K], found[K];
            const int count = nearest_find(&rows, values + q * WIDTH, K, executor, expected);
            for (int copies = 0; copies < 2; copies++) {
                const nearest_set set = { parts[copies], 6, WIDTH };
                int64_t rescored = -1;
                bool same = nearest_find_in(&set, values + q * WIDTH, K, executor, found,
                                            &rescored) == count;
                for (int i = 0; same && i < count; i++)
                    same = found[i].row == expected[i].row && found[i].cosine == expected[i].cosine;
                CHECK_MSG(same, "query %d, halves %d, copies %d", q, half, copies);
                CHECK(copies ? rescored >= count && rescored < N / 4 : rescored == 0);
            }
        }
    }
    free(values);
    free(halves);
    free(bytes);
    free(scales);
}

/* Returns a dot product whose terms are added in the order that nearest.h describes. */
static float ordered_dot(const float *a, const float *b, int dim) {
    float l[8] = { 0 };
    for (int i = 0; i < dim; i++) {
        const float product = a[i] * b[i];
        l[i % 8] += product;
    }
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

/* Tests 1 to 9 rows of 1 to 40 dimensions, and of some more up to 100. The kernels must give the
 * same bits as the reference. The memory after the results must not change. */
static void test_kernels(void) {
    enum { MOST = 9, WIDEST = 100 };
    float *query = uniform(10, WIDEST), *rows = uniform(11, MOST * WIDEST);
    for (int dim = 1; dim <= WIDEST; dim += dim < 40 ? 1 : 15) {
        const int limit = dot_bytes_limit(dim);
        uint16_t halves[MOST * WIDEST];
        int16_t steps[WIDEST];
        int8_t bytes[MOST * WIDEST];
        float widened[MOST * WIDEST];
        for (int i = 0; i < dim; i++) steps[i] = (int16_t)(i % 3 ? limit : limit / 2);
        for (int i = 0; i < MOST * dim; i++) {
            halves[i] = bytes_to_half(rows[i]);
            widened[i] = bytes_half(halves[i]);
            bytes[i] = (int8_t)(i % 5 ? -128 : rows[i] * 128);
        }
        for (int count = 1; count <= MOST; count++) {
            float dots[2][MOST + 1] = { { 0 } }, squares[2][MOST + 1] = { { 0 } };
            const dot_scan floats = { query, rows, dim, count, dots[0], squares[0] };
            const dot_scan of_halves = { query, halves, dim, count, dots[1], squares[1] };
            int32_t sums[MOST + 1] = { 0 };
            bool same = true;
            dot_rows(false)(&floats);
            dot_rows(true)(&of_halves);
            dot_bytes()(steps, bytes, dim, count, sums);
            for (int r = 0; r < count; r++) {
                const float *row[] = { rows + r * dim, widened + r * dim };
                int64_t sum = 0;
                for (int h = 0; h < 2; h++)
                    same = same && dots[h][r] == ordered_dot(query, row[h], dim) &&
                           squares[h][r] == ordered_dot(row[h], row[h], dim);
                for (int i = 0; i < dim; i++) sum += (int32_t)steps[i] * bytes[r * dim + i];
                same = same && sums[r] == sum;
            }
            CHECK_MSG(same, "%d rows of %d", count, dim);
            CHECK(dots[0][count] == 0 && squares[1][count] == 0 && sums[count] == 0);
        }
    }
    free(query);
    free(rows);
}

/* Tests that the kernel for half floats widens each half float as bytes_half does. */
static void test_halves(void) {
    static uint16_t halves[65536 + 3];
    const float one[8] = { 1 };
    for (int i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    for (int i = 0; i < 65536; i++) {
        float dot, square;
        const dot_scan scan = { one, halves + i, 1, 1, &dot, &square };
        const float expected = bytes_half((uint16_t)i);
        dot_rows(true)(&scan);
        CHECK((isnan(expected) && isnan(dot)) || dot == expected);
    }
}

int main(int argc, char **argv) {
    os_start(&argc, &argv);
    for (int threads = 0; threads <= 3; threads++) {
        vit_threads *pool = NULL;
        vit_executor executor = { NULL, NULL, 0 };
        if (threads) CHECK(vit_threads_create(threads, &pool, &executor) == VIT_OK);
        test_find(&executor);
        test_groups(&executor);
        test_votes(&executor);
        test_parts(&executor);
        test_logistic(&executor);
        vit_threads_destroy(pool);
    }
    test_sizes();
    test_odd();
    test_kernels();
    test_halves();
    return test_summary();
}
