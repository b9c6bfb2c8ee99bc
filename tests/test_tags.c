/* test_tags.c - compares precision.h with scikit-learn, on scores that make_precision.py also
 * generates, and tests lists of tags (tags.h): every form and every wrong input.
 *
 *     test_tags
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "infer/tags.h"
#include "numbers/precision.h"
#include "test.h"

#include "precision_vectors.h"

/* === Precision === */

/* Returns number i of a random sequence in [0, 1): the upper 24 bits of splitmix64 (Steele, Lea,
 * Flood 2014). */
static float uniform(uint64_t seed, int i) {
    uint64_t z = seed + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (float)(z >> 40) * (1.0f / 16777216);
}

/* Makes the scores of class c for all photos, as make_precision.py does. */
static void make_column(int c, precision_score *column) {
    for (int i = 0; i < PHOTOS; i++) {
        const int at = i * CLASSES + c;
        const bool right = c > 0 && uniform(2, at) < (float)(c + 1) / 16;
        const float drawn = 0.75f * uniform(1, at), more = right ? 0.25f : 0;
        const float score = drawn + more;
        column[i].right = right;
        column[i].score = c % 2 ? (float)((int)(score * 16)) / 16 : score;
    }
}

static void count(const precision_score *column, precision_counts *counts) {
    for (int i = 0; i < PHOTOS; i++) {
        const bool found = (double)column[i].score >= above;
        counts->found += found && column[i].right;
        counts->wrong += found && !column[i].right;
        counts->missed += !found && column[i].right;
    }
}

static bool near(double a, double b) { return fabs(a - b) < 1e-12; }

static void test_precision(void) {
    precision_counts all = { 0, 0, 0 };
    double mean = 0, mean_f1 = 0;
    for (int c = 0; c < CLASSES; c++) {
        precision_score column[PHOTOS];
        precision_counts counts = { 0, 0, 0 };
        double average;
        make_column(c, column);
        count(column, &counts);
        count(column, &all);
        average = precision_average(column, PHOTOS);
        if (c == 0) {
            CHECK(isnan(average) && counts.wrong > 0 && precision_f1(&counts) == 0);
            continue;
        }
        CHECK_MSG(near(average, average_precisions[c - 1]), "class %d: %.15g", c, average);
        CHECK_MSG(near(precision_f1(&counts), f1_scores[c - 1]), "class %d", c);
        mean += average / (CLASSES - 1);
        mean_f1 += precision_f1(&counts) / (CLASSES - 1);
    }
    CHECK(near(precision_of(&all), of_all[0]) && near(precision_recall(&all), of_all[1]));
    CHECK(near(precision_f1(&all), of_all[2]));
    CHECK(near(mean, of_all[3]) && near(mean_f1, of_all[4]));
}

static void test_odd_scores(void) {
    precision_score scores[4] = {
        { NAN, true }, { 0.5f, false }, { INFINITY, true }, { NAN, false }
    };
    const precision_counts none = { 0, 0, 0 };
    CHECK(near(precision_average(scores, 4), (1.0 + 2.0 / 4) / 2)); /* Scores of NaN come last. */
    CHECK(isnan(precision_average(scores, 0)));
    scores[0] = (precision_score){ 1, true };
    CHECK(precision_average(scores, 1) == 1);
    CHECK(precision_of(&none) == 0 && precision_recall(&none) == 0 && precision_f1(&none) == 0);
}

/* === Lists === */

static vit_model model;

/* Writes the text to a file, and reads lists of tags from it. *r receives the error. */
static bool read_text(const char *text, size_t size, int limit, tag_lists *lists, report *r) {
    char path[] = "/tmp/test_tags.XXXXXX";
    const int file = mkstemp(path);
    tag_lists_choice choice = { path, "dir", limit, "test_tags" };
    bool good;
    if (file < 0 || write(file, text, (unsigned)size) != (ssize_t)size) exit(2);
    close(file);
    *r = report_make();
    good = tag_lists_read(lists, &choice, &model, r);
    unlink(path);
    return good;
}

/* Writes the photos and their classes as a text such as "dir/a.jpg 3 5|dir/b.jpg|". */
static void describe(const tag_lists *lists, char *text, size_t size) {
    text[0] = '\0';
    for (int i = 0; i < lists->photos.count; i++) {
        text_append(text, size, "%s", lists->photos.paths[i]);
        for (int t = lists->first[i]; t < lists->first[i + 1]; t++)
            text_append(text, size, " %d", lists->classes[t]);
        text_append(text, size, "|");
    }
}

static void check_read(const char *text, int limit, const char *expected, int dropped) {
    char found[512];
    tag_lists lists;
    report r;
    if (!read_text(text, strlen(text), limit, &lists, &r)) {
        CHECK_MSG(false, "'%s': %s", text, r.text);
        return;
    }
    describe(&lists, found, sizeof found);
    CHECK_MSG(strcmp(found, expected) == 0, "'%s': found '%s'", text, found);
    CHECK(lists.dropped == dropped);
    tag_lists_free(&lists);
}

/* Tests all forms of lists. The bundled model has the classes airplane, automobile, bird, cat,
 * deer, dog, frog, horse, ship and truck. */
static void test_forms(void) {
    check_read("a.jpg,cat dog\n", 0, "dir/a.jpg 3 5|", 0);
    check_read("path,tags\r\na.jpg,dog CAT dog\r\n\r\n/b.jpg,\r\n", 0, "dir/a.jpg 3 5|/b.jpg|", 0);
    check_read("\xEF\xBB\xBFpath\tlabels\nx y.jpg\t9\tbird", 0, "dir/x y.jpg 2 9|", 0);
    check_read("# comment\na.jpg,\"cat, dog\"\nb.jpg,\"ship\",truck,\n", 0,
               "dir/a.jpg 3 5|dir/b.jpg 8 9|", 0);
    check_read("a.jpg\tcat | dog\nb.jpg\tship;truck;ship\n\"c\"\"1.jpg\"\tcat,dog", 0,
               "dir/a.jpg 3 5|dir/b.jpg 8 9|dir/c\"1.jpg 3 5|", 0);
    check_read("a.jpg,cat zebra\nb.jpg,zebra yak\nc.jpg,dog\n", 0,
               "dir/a.jpg 3|dir/b.jpg|dir/c.jpg 5|", 3);
    check_read("a,cat\nb,dog\nc,ship\nd,frog\n", 2, "dir/a 3|dir/c 8|", 0);
    check_read("a,cat\nb,dog\n", 2, "dir/a 3|dir/b 5|", 0);
    check_read("a,cat 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22\n", 0,
               "dir/a 0 1 2 3 4 5 6 7 8 9|", 13);
}

static void test_wrong_lists(void) {
    static const struct {
        const char *text, *expected;
    } wrong[] = {
        { "", "expected lines 'PATH,TAGS', found none" },
        { "path,tags\n", "expected lines 'PATH,TAGS', found none" },
        { "a.jpg cat\n", "line 1: expected 'PATH,TAGS' or 'PATH<tab>TAGS'" },
        { "a.jpg,cat\n,dog\n", "line 2: expected 'PATH,TAGS'" },
        { "\"a.jpg,cat\n", "line 1: expected 'PATH,TAGS'" },
        { "a.jpg,\"cat\n", "line 1: a quote has no end" },
        { "a.jpg,cat\nb.jpg,cat\na.jpg,dog\n", "dir/a.jpg is named twice" },
        { "a.jpg,zebra\n", "no tag is a class of the model" },
        { "a.jpg,\n", "no tag is a class of the model" },
    };
    const tag_lists_choice missing = { "nosuch.csv", "dir", 0, "test_tags" };
    tag_lists lists;
    report r;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!read_text(wrong[i].text, strlen(wrong[i].text), 0, &lists, &r));
        CHECK_MSG(strstr(r.text, wrong[i].expected), "'%s': %s", wrong[i].text, r.text);
        CHECK(strstr(r.text, "test_tags."));
    }
    CHECK(!read_text("a,b\0c", 5, 0, &lists, &r) && strstr(r.text, "found a NUL byte"));
    r = report_make();
    CHECK(!tag_lists_read(&lists, &missing, &model, &r) && strstr(r.text, "nosuch.csv"));
}

int main(void) {
    if (vit_model_open("models/cifar10-vit.vit", 0, &model)) return 2;
    test_precision();
    test_odd_scores();
    test_forms();
    test_wrong_lists();
    vit_model_close(&model);
    return test_summary();
}
