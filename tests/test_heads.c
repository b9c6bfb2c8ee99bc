/* test_heads.c - reads the number of heads from small models trained with 1, 2, 4 and 8 heads
 * (make_trained.py), and checks that uninformative weights give no number.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "layout/detect.h"
#include "test.h"

enum { WIDTH = 32, MOST_BYTES = 65536 };

/* The highest score of weights that do not show their number of heads. */
static const double chance = 7;

typedef struct fixture {
    unsigned char bytes[MOST_BYTES];
    size_t size;
} fixture;

static fixture load(const char *folder, int heads) {
    fixture f;
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s/trained/heads%d.safetensors", folder, heads);
    file = fopen(path, "rb");
    f.size = file ? fread(f.bytes, 1, sizeof f.bytes, file) : 0;
    CHECK_MSG(f.size > 0 && f.size < sizeof f.bytes, "%s", path);
    if (file) fclose(file);
    return f;
}

/* Returns the f16 values of a tensor. */
static uint16_t *values_of(fixture *f, const char *tensor) {
    char text[128];
    const char *entry, *offsets;
    uint64_t header;
    memcpy(&header, f->bytes, sizeof header);
    snprintf(text, sizeof text, "\"%s\"", tensor);
    entry = strstr((const char *)f->bytes + 8, text);
    offsets = entry ? strstr(entry, "\"data_offsets\": [") : NULL;
    CHECK_MSG(offsets != NULL, "%s", tensor);
    return offsets ? (uint16_t *)(void *)(f->bytes + 8 + header + atoi(offsets + 17)) : NULL;
}

/* Returns the facts that a conversion learns from the tensors. */
static settings_seen inspect(const fixture *f, settings all[FROM_COUNT]) {
    report r = report_make();
    checkpoint *c = NULL;
    layout_map map;
    settings_seen seen;
    findings found = { 0 };
    bool good;
    memset(&map, 0, sizeof map);
    memset(&seen, 0, sizeof seen);
    good = checkpoint_open_memory("trained", f->bytes, f->size, &c, &r) &&
           layout_detect(c, &map, &r) && layout_inspect(&map, all, &seen, &r);
    CHECK_MSG(good, "%s", r.text);
    findings_free(&found);
    layout_free_map(&map);
    checkpoint_close(c);
    return seen;
}

static void start(settings all[FROM_COUNT]) {
    int from;
    for (from = 0; from < FROM_COUNT; from++) settings_start(&all[from], "test");
}

static heads_evidence read_heads(const fixture *f) {
    settings all[FROM_COUNT];
    start(all);
    return inspect(f, all).heads;
}

static void test_trained(const char *folder) {
    int heads;
    for (heads = 1; heads <= 8; heads *= 2) {
        const fixture f = load(folder, heads);
        const heads_evidence e = read_heads(&f);
        CHECK_MSG(e.count == 5, "%d heads: %d candidates", heads, e.count);
        CHECK_MSG(e.is_clear == (heads > 1), "%d heads: %d scores %g, %d %g", heads,
                  e.ranked[0].heads, e.ranked[0].score, e.ranked[1].heads, e.ranked[1].score);
        CHECK_MSG(heads > 1 ? e.ranked[0].heads == heads : e.ranked[0].score < chance,
                  "%d heads: %d scores %g", heads, e.ranked[0].heads, e.ranked[0].score);
    }
}

/* Tests a model whose number of heads is given. Its weights must not be inspected. */
static void test_told(const char *folder) {
    const fixture f = load(folder, 4);
    settings all[FROM_COUNT];
    settings_seen seen;
    double heads = 0;
    start(all);
    settings_put(&all[FROM_OPTIONS], SETTING_NUM_HEADS, 2);
    seen = inspect(&f, all);
    CHECK(seen.heads.count == 0 && !seen.heads.is_clear);
    CHECK(settings_get(all, SETTING_NUM_HEADS, &heads) && (int)heads == 2);
    start(all);
    (void)inspect(&f, all);
    CHECK(settings_get(all, SETTING_NUM_HEADS, &heads) && (int)heads == 4);
}

/* === Nothing to see === */

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void swap_values(uint16_t *a, uint16_t *b) {
    const uint16_t kept = *a;
    *a = *b;
    *b = kept;
}

static void swap_rows(uint16_t *values, int a, int b) {
    int k;
    for (k = 0; k < WIDTH; k++) swap_values(&values[a * WIDTH + k], &values[b * WIDTH + k]);
}

/* Permutes the rows of q together with those of k, and the rows of v together with the columns of
 * proj. This does not change the results of a model with one head. */
static void shuffle(fixture *f, unsigned *state) {
    int block, i, k;
    for (block = 0; block < 2; block++) {
        char name[64];
        uint16_t *qkv, *proj;
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.weight", block);
        qkv = values_of(f, name);
        snprintf(name, sizeof name, "blocks.%d.attn.proj.weight", block);
        proj = values_of(f, name);
        for (i = WIDTH - 1; qkv && proj && i > 0; i--) {
            const int first = (int)(next_random(state) % (unsigned)(i + 1));
            const int second = (int)(next_random(state) % (unsigned)(i + 1));
            swap_rows(qkv, i, first);
            swap_rows(qkv + WIDTH * WIDTH, i, first);
            swap_rows(qkv + 2 * WIDTH * WIDTH, i, second);
            for (k = 0; k < WIDTH; k++)
                swap_values(&proj[k * WIDTH + i], &proj[k * WIDTH + second]);
        }
    }
}

/* Tests shuffled weights. Neighbouring rows are then random, however the model was trained. */
static void test_shuffled(const char *folder) {
    const int heads[] = { 1, 4, 8 };
    unsigned state = 1;
    int i;
    for (i = 0; i < 300; i++) {
        fixture f = load(folder, heads[i % 3]);
        heads_evidence e;
        shuffle(&f, &state);
        e = read_heads(&f);
        CHECK_MSG(!e.is_clear && e.ranked[0].score < chance, "%d scores %g", e.ranked[0].heads,
                  e.ranked[0].score);
    }
}

/* Converts x to f16, without the bits that do not fit. x must be a normal number in f16. */
static uint16_t half_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 |
                      (bits >> 13 & 1023));
}

/* Returns a random number from about -1 to 1 that is not too close to 0. */
static float noise(unsigned *state) {
    const float x = (float)(next_random(state) % 1000 + 10) / 1000;
    return next_random(state) % 2 ? x : -x;
}

/* Writes the rows of four heads. Each head has its own direction, and each pair of heads shares
 * another direction. */
static void write_alike(uint16_t *q, uint16_t *k, float shared, unsigned *state) {
    float own[4][2][WIDTH], common[2][2][WIDTH];
    int row, side, i;
    for (i = 0; i < 4 * 2 * WIDTH; i++) (&own[0][0][0])[i] = noise(state);
    for (i = 0; i < 2 * 2 * WIDTH; i++) (&common[0][0][0])[i] = noise(state) * shared;
    for (row = 0; row < WIDTH; row++) {
        const float sign = next_random(state) % 2 ? 1.0f : -1.0f;
        for (side = 0; side < 2; side++)
            for (i = 0; i < WIDTH; i++) {
                const float x = own[row / 8][side][i] + common[row / 16][side][i];
                (side ? k : q)[row * WIDTH + i] = half_of(sign * x + 2 * noise(state));
            }
    }
}

/* Tests two pairs of similar heads. They must not count as two heads. */
static void test_alike(const char *folder) {
    unsigned state = 1;
    int i, block;
    for (i = 0; i <= 8; i++) {
        fixture f = load(folder, 4);
        heads_evidence e;
        for (block = 0; block < 2; block++) {
            char name[64];
            uint16_t *qkv;
            snprintf(name, sizeof name, "blocks.%d.attn.qkv.weight", block);
            qkv = values_of(&f, name);
            if (qkv) write_alike(qkv, qkv + WIDTH * WIDTH, (float)i * 0.25f, &state);
        }
        e = read_heads(&f);
        CHECK_MSG(e.ranked[0].heads == 4, "%d scores %g, %d %g", e.ranked[0].heads,
                  e.ranked[0].score, e.ranked[1].heads, e.ranked[1].score);
        CHECK(e.is_clear == (i <= 4)); /* For larger i, 2 and 4 heads score alike. */
    }
}

static void test_broken(const char *folder) {
    /* the f16 values 0, 1, NaN and minus infinity */
    static const uint16_t fillers[] = { 0, 0x3C00, 0x7E00, 0xFC00 };
    int i, k;
    for (i = 0; i < 4; i++) {
        fixture f = load(folder, 4);
        uint16_t *qkv = values_of(&f, "blocks.1.attn.qkv.weight");
        heads_evidence e;
        for (k = 0; qkv && k < 3 * WIDTH * WIDTH; k++) qkv[k] = fillers[i];
        e = read_heads(&f);
        CHECK_MSG(e.count == 5 && isfinite(e.ranked[0].score), "filled with %x", fillers[i]);
    }
}

/* Tests widths at which the weights must not be inspected, because the width is too small or too
 * large, or is not that of the tensors. */
static void test_widths(const char *folder) {
    static const int64_t widths[] = { 0, 3, 16, 64, 4097, INT64_MAX / 2 };
    const fixture f = load(folder, 4);
    report r = report_make();
    checkpoint *c = NULL;
    layout_map map;
    heads_evidence e;
    size_t i;
    memset(&map, 0, sizeof map);
    CHECK(checkpoint_open_memory("trained", f.bytes, f.size, &c, &r) && layout_detect(c, &map, &r));
    map.embed_dim = WIDTH;
    for (i = 0; i < sizeof widths / sizeof *widths; i++)
        CHECK(heads_read(&map, widths[i], &e, &r) && e.count == 0 && !e.is_clear);
    CHECK(heads_read(&map, WIDTH, &e, &r) && e.is_clear);
    layout_free_map(&map);
    checkpoint_close(c);
}

/* === Telling === */

static void test_texts(void) {
    const heads_evidence clear = { { { 3, 154.4 }, { 6, 94.7 }, { 2, 79.7 } }, 3, true };
    const heads_evidence hint = { { { 4, 6.24 }, { 8, 3.9 }, { 1, 0 }, { 2, 0 } }, 4, false };
    const heads_evidence none = { { { 2, 1 }, { 1, 0 } }, 2, false };
    const heads_evidence unread = { { { 0, 0 } }, 0, false };
    heads_evidence many = { { { 0, 0 } }, HEADS_MOST, false };
    char text[HEADS_TEXT];
    int i;
    CHECK(!strcmp(heads_why(&clear, text),
                  "read from the weights (score 154; next best 6: score 95)"));
    CHECK(!strcmp(heads_option(&hint, text), "--set num_heads=N (1, 2, 4 or 8; the weights hint at "
                                             "4: score 6.2, then 8: score 3.9)"));
    CHECK(!strcmp(heads_doubt(&hint), "the weights only hint at it"));
    CHECK(strstr(heads_doubt(&none), "the weights show no heads") != NULL);
    CHECK(!strcmp(heads_option(&none, text), "--set num_heads=N (1 or 2)"));
    CHECK(!strcmp(heads_option(&unread, text), "--set num_heads=N"));
    for (i = 0; i < HEADS_MOST; i++) {
        many.ranked[i].heads = i + 1;
        many.ranked[i].score = 9.5;
    }
    CHECK(strstr(heads_option(&many, text), "63 or 64; the weights hint at 1: score 9.5") != NULL);
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "tests/data";
    test_trained(folder);
    test_told(folder);
    test_shuffled(folder);
    test_alike(folder);
    test_broken(folder);
    test_widths(folder);
    test_texts();
    return test_summary();
}
