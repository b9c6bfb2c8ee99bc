/* test_infer.c - tests infer.h and photo_source.h: order, threads and batches, photos in memory and
 * as raw pixels, the events that stop a run, and the messages.
 *
 *     test_infer [tests/data]
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/resource.h>
#endif

#include "base/source.h"
#include "image/photo_source.h"
#include "infer/classes.h"
#include "infer/infer.h"
#include "test.h"

static vit_model model;
static photo_decoder *decoder;

/* A source of `count` photos. The photos are, in turn, raw pixels, the bytes of a file, a path, and
 * something that cannot be read. The source fails at photo `fails_at`. */
typedef struct generator {
    uint64_t count, next, fails_at;
} generator;

enum { SIDE = 20 };

static bool generate(void *user, photo *p, report *r) {
    generator *g = user;
    const uint64_t i = g->next;
    unsigned char *data = NULL;
    char name[32];
    if (i == g->fails_at) return report_fail(r, "broken pipe");
    if (i == g->count) return false;
    g->next++;
    snprintf(name, sizeof name, "%d", (int)i);
    if (i % 4 == 0) {
        data = malloc(SIDE * SIDE * 3);
        if (!data) return report_no_memory(r);
        for (size_t b = 0; b < SIDE * SIDE * 3; b++) data[b] = (unsigned char)(b * (i + 7) >> 3);
        p->size = SIDE * SIDE * 3;
        p->image = (vit_image){ data, SIDE, SIDE, 0, VIT_PIXEL_RGB8 };
    } else if (i % 4 == 1) {
        if (!source_read_all("examples/cat.ppm", 1 << 20, &data, &p->size, r)) return false;
    } else if (i % 4 == 2) {
        snprintf(name, sizeof name, "examples/cat.jpg");
    } else {
        data = malloc(3);
        if (!data) return report_no_memory(r);
        memcpy(data, "no?", 3);
        p->size = 3;
    }
    p->data = data;
    p->name = strdup(name);
    return p->name || report_no_memory(r);
}

/* The largest number of photos in a run. */
enum { MOST = 200 };

typedef struct results {
    uint64_t count, stop_at;
    bool error[MOST];
    int best[MOST];
    float embedding[MOST][192], token[MOST][192];
} results;

static bool collect(void *user, infer_result *result, report *r) {
    results *all = user;
    vit_prediction top;
    CHECK(result->index == all->count && result->name);
    if (all->count == all->stop_at) return report_fail(r, "enough");
    all->error[all->count] = result->error != NULL;
    if (!result->error) {
        if (result->logits) {
            vit_top_k(result->logits, model.config.num_classes, 1, &top);
            all->best[all->count] = top.index;
        }
        if (result->embedding) {
            memcpy(all->embedding[all->count], result->embedding, sizeof all->embedding[0]);
        }
        if (result->tokens) memcpy(all->token[all->count], result->tokens, sizeof all->token[0]);
        CHECK(result->load_ms >= 0 && result->forward_ms > 0);
    } else {
        CHECK(strstr(result->error, ": the file is not an image") != NULL);
    }
    all->count++;
    return true;
}

static infer_settings make_settings(results *all, unsigned outputs) {
    infer_settings settings;
    memset(&settings, 0, sizeof settings);
    memset(all, 0, sizeof *all);
    all->stop_at = MOST;
    settings.model = &model;
    settings.program = "test_infer";
    settings.decoder = decoder;
    settings.outputs = outputs;
    settings.take = collect;
    settings.user = all;
    return settings;
}

static bool run(infer_settings *settings, uint64_t count, bool tells, infer_counts *counts,
                report *r) {
    generator g = { count, 0, UINT64_MAX };
    photo_source photos = { &g, tells ? count : 0, generate };
    *r = report_make();
    return infer_run(settings, &photos, counts, r);
}

/* Tests 1 to 3 threads, and batches of up to 5 photos. The results must be the same and in order,
 * whether or not the number of photos is known. */
static void test_same(void) {
    static results first, all;
    static const int counts_of[] = { 0, 1, 2, 3, 8, 21 };
    const unsigned every = INFER_LOGITS | INFER_EMBEDDING | INFER_TOKENS;
    infer_settings settings = make_settings(&first, every);
    infer_counts counts;
    report r;
    settings.num_threads = 1;
    settings.batch = 1;
    CHECK_MSG(run(&settings, 21, false, &counts, &r), "%s", r.text);
    CHECK(counts.read == 16 && counts.unreadable == 5 && counts.seconds > 0 && first.count == 21);
    for (int threads = 1; threads <= 3; threads++) {
        for (int batch = 0; batch <= 5; batch += batch == 1 ? 2 : 1) {
            settings = make_settings(&all, every);
            settings.num_threads = threads;
            settings.batch = batch;
            settings.together = batch == 5;
            CHECK(run(&settings, 21, batch & 1, &counts, &r));
            CHECK(counts.read == 16 && all.count == 21);
            CHECK(!memcmp(all.error, first.error, sizeof all.error));
            CHECK(!memcmp(all.best, first.best, sizeof all.best));
            CHECK(!memcmp(all.embedding, first.embedding, sizeof all.embedding));
            CHECK(!memcmp(all.token, first.token, sizeof all.token));
        }
    }
    for (size_t i = 0; i < sizeof counts_of / sizeof counts_of[0]; i++) {
        settings = make_settings(&all, INFER_LOGITS);
        settings.num_threads = 3;
        CHECK(run(&settings, (uint64_t)counts_of[i], true, &counts, &r));
        CHECK(all.count == (uint64_t)counts_of[i]);
    }
}

/* Tests the tokens of each block. They must differ from block to block, and those of the last block
 * must differ from the tokens after the final norm. */
static void test_blocks(void) {
    static results normed, last, before;
    infer_settings settings = make_settings(&normed, INFER_TOKENS);
    infer_counts counts;
    report r;
    CHECK(run(&settings, 6, false, &counts, &r));
    settings = make_settings(&last, INFER_TOKENS);
    settings.block = model.config.depth;
    CHECK(run(&settings, 6, false, &counts, &r));
    settings = make_settings(&before, INFER_TOKENS);
    settings.block = 1;
    CHECK(run(&settings, 6, false, &counts, &r));
    CHECK(memcmp(normed.token, last.token, sizeof last.token) != 0);
    CHECK(memcmp(before.token, last.token, sizeof last.token) != 0);
    settings.block = model.config.depth + 1;
    CHECK(!run(&settings, 6, false, &counts, &r) && strstr(r.text, "there is no block"));
}

/* Tests a source that fails, and a caller that stops the run. */
static void test_stops(void) {
    static results all;
    for (int threads = 1; threads <= 3; threads++) {
        generator g = { 100, 0, 17 };
        photo_source photos = { &g, 0, generate };
        infer_settings settings = make_settings(&all, INFER_EMBEDDING);
        infer_counts counts;
        report r = report_make();
        settings.num_threads = threads;
        CHECK(!infer_run(&settings, &photos, &counts, &r) && !strcmp(r.text, "broken pipe"));
        CHECK(all.count <= 17);
        settings = make_settings(&all, INFER_EMBEDDING);
        settings.num_threads = threads;
        all.stop_at = 9;
        CHECK(!run(&settings, 100, false, &counts, &r) && !strcmp(r.text, "enough"));
        CHECK(all.count == 9);
        settings.num_threads = -1;
        CHECK(!run(&settings, 1, false, &counts, &r) && r.failed);
    }
}

#ifndef _WIN32

/* A source whose photo 0 is a pipe. The pipe gets its data only before the last photo. */
typedef struct slow_source {
    const char *pipe;
    int next, count;
} slow_source;

static bool generate_slow(void *user, photo *p, report *r) {
    slow_source *s = user;
    if (s->next == s->count - 1) {
        unsigned char *data = NULL;
        size_t size = 0;
        const int end = open(s->pipe, O_WRONLY);
        CHECK(source_read_all("examples/cat.ppm", 1 << 20, &data, &size, r));
        CHECK(end >= 0 && write(end, data, size) == (ssize_t)size);
        close(end);
        free(data);
    }
    if (s->next == s->count) return false;
    p->name = strdup(s->next++ ? "examples/cat.ppm" : s->pipe);
    return p->name || report_no_memory(r);
}

/* Tests that no thread waits for another thread's slow photo, even if this photo takes as long as a
 * hundred other photos. */
static void test_waits_for_none(void) {
    static results all;
    char pipe[] = "/tmp/test_infer.XXXXXX";
    infer_settings settings = make_settings(&all, INFER_EMBEDDING);
    infer_counts counts;
    report r = report_make();
    slow_source slow = { pipe, 0, 101 };
    photo_source photos = { &slow, 0, generate_slow };
    settings.num_threads = 2;
    settings.batch = 2;
    CHECK(close(mkstemp(pipe)) == 0 && unlink(pipe) == 0 && mkfifo(pipe, 0600) == 0);
    alarm(300);
    CHECK_MSG(infer_run(&settings, &photos, &counts, &r), "%s", r.text);
    alarm(0);
    CHECK(counts.read == 101 && all.count == 101);
    for (int i = 1; i < 101; i++)
        CHECK(!memcmp(all.embedding[0], all.embedding[i], sizeof all.embedding[0]));
    unlink(pipe);
}

/* Returns the memory that this process uses now, in KB, or 0 if it is unknown. */
static long resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (file && fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) >> 10);
}

enum { PHOTOS = 240 };

static bool watch(void *user, infer_result *result, report *r) {
    long *most = (long *)user + (result->index >= PHOTOS / 2), now = resident();
    (void)r;
    CHECK(!result->error);
    if (now > *most) *most = now;
    return true;
}

static bool generate_cats(void *user, photo *p, report *r) {
    int *left = user;
    if ((*left)-- == 0) return false;
    p->name = strdup("examples/cat.jpg");
    return p->name || report_no_memory(r);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { KEEPS_FREED = 1 }; /* Sanitizers keep freed memory for a while. */
#else
enum { KEEPS_FREED = 0 };
#endif

/* Tests the peak of the memory, which must not grow with the number of photos. Each photo has 400
 * KB. The test compares the peaks in both halves of a long run, and the peaks of the decoders in a
 * short run and in a long run. */
static void test_memory(void) {
    /* The accepted growth in KB, which allows for stacks and for freed memory that malloc keeps. */
    enum { SLACK = 4096 };
    long decoders[2] = { 0, 0 };
    for (int i = 0; i < 2; i++) {
        const photo_options options = { 0 };
        long most[2] = { 0, 0 };
        int left = i ? PHOTOS : 8;
        photo_source photos = { &left, 0, generate_cats };
        infer_settings settings = { 0 };
        infer_counts counts;
        report r = report_make();
        struct rusage used;
        settings.model = &model;
        settings.program = "test_infer";
        settings.num_threads = 2;
        settings.outputs = INFER_EMBEDDING;
        settings.take = watch;
        settings.user = most;
        settings.decoder = photo_decoder_open(&options, "test", 2, &r);
        CHECK(infer_run(&settings, &photos, &counts, &r));
        photo_decoder_close(settings.decoder);
        CHECK(getrusage(RUSAGE_CHILDREN, &used) == 0);
        decoders[i] = used.ru_maxrss;
        if (i) CHECK_MSG(most[1] <= most[0] + SLACK, "%ld KB, then %ld", most[0], most[1]);
    }
    CHECK_MSG(decoders[1] <= decoders[0] + SLACK, "%ld KB, then %ld", decoders[0], decoders[1]);
}

#endif

static void test_classes(void) {
    char text[32];
    CHECK(class_find(&model, "CAT") == 3 && class_find(&model, "3") == 3);
    CHECK(class_find(&model, "horse_") == CLASS_NONE);
    CHECK(!strcmp(class_name(&model, 3, text, sizeof text), "cat"));
    CHECK(!strcmp(class_name(&model, 1000, text, sizeof text), "class 1000"));
}

/* Tests folders of tests/data that contain images, and folders that contain other files. */
static void test_labelled(const char *data) {
    labelled_photos all, some;
    report r = report_make();
    CHECK_MSG(labelled_find(&all, data, 0, &r), "%s", r.text);
    for (int i = 1; i < all.folders.count; i++) {
        CHECK(strcmp(all.folders.paths[i - 1], all.folders.paths[i]) < 0);
    }
    CHECK(all.photos.count > 20);
    for (int i = 0; i < all.photos.count; i++) {
        const char *folder = all.folders.paths[all.folder[i]];
        const char *path = all.photos.paths[i] + strlen(data) + 1;
        CHECK(!strncmp(path, folder, strlen(folder)) && path[strlen(folder)] == '/');
    }
    CHECK(labelled_find(&some, data, 7, &r) && some.photos.count == 7);
    for (int i = 0; i < 7; i++) {
        const int at = i * all.photos.count / 7;
        CHECK(!strcmp(some.photos.paths[i], all.photos.paths[at]));
        CHECK(some.folder[i] == all.folder[at]);
    }
    labelled_free(&all);
    labelled_free(&some);
    CHECK(!labelled_find(&all, "no/such", 0, &r) && strstr(r.text, "no/such: cannot be opened"));
}

int main(int argc, char **argv) {
    const photo_options confined = { 0 };
    report r = report_make();
    if (vit_model_open("models/cifar10-vit.vit", 0, &model) != VIT_OK) return puts(model.detail), 1;
    /* Standard error is discarded, because it contains the names of the photos that cannot be
     * read. */
    if (!freopen("/dev/null", "w", stderr)) return 1;
    decoder = photo_decoder_open(&confined, "test", 3, &r);
    test_same();
    test_blocks();
    test_stops();
#ifndef _WIN32
    test_waits_for_none();
    if (!KEEPS_FREED) test_memory();
#endif
    test_classes();
    test_labelled(argc > 1 ? argv[1] : "tests/data");
    photo_decoder_close(decoder);
    vit_model_close(&model);
    return test_summary();
}
