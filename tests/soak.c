/* soak.c - runs ten thousand classifications in one process, with changing photos and models. After
 * the first two thousand, memory and the number of open files must not grow, and the same photo and
 * model must always give the same result.
 *
 *     soak models/cifar10-vit.vit [COUNT]
 */
#define _POSIX_C_SOURCE 200809L

#define VIT_TOOLS
#include "../vit.h"

#include "test.h"
#include "tiny_model.h"

#include <dirent.h>
#include <unistd.h>

enum { COUNT = 10000, WARM_UP = 2000, PHOTOS = 12, KINDS = VIT_NUM_DTYPES + 2 };

/* The accepted growth of the memory in KB, which allows for the stacks of threads. A block of 32
 * bytes (48 with malloc's header) that each classification leaks would exceed the limit. */
enum { SLACK = 256 };

typedef struct photo {
    vit_image image;
    uint8_t *pixels;
} photo;

static uint32_t seed = 1;

static int pick(int low, int high) {
    seed = seed * 1664525u + 1013904223u;
    return low + (int)((seed >> 8) % (uint32_t)(high - low + 1));
}

static photo make_photo(int format) {
    static const int pixel_sizes[] = { 3, 4, 1 };
    photo p;
    memset(&p, 0, sizeof p);
    p.image.format = (vit_pixel)format;
    p.image.width = pick(1, 300);
    p.image.height = pick(1, 300);
    const size_t size = (size_t)(p.image.width * p.image.height * pixel_sizes[format]);
    p.image.pixels = p.pixels = tiny_allocate(size);
    for (size_t i = 0; i < size; i++) {
        p.pixels[i] = (uint8_t)pick(0, 255);
    }
    return p;
}

/* Returns the memory that this process uses, in KB. */
static long resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1) {
        printf("no /proc/self/statm\n");
        exit(2);
    }
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int open_files(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (directory && readdir(directory)) {
        count++;
    }
    if (directory) {
        closedir(directory);
    }
    return count;
}

/* Writes one model of each type and one model with all types. The last path is that of the file on
 * the command line. */
static void write_models(char paths[KINDS][256], const char *given, const char *program) {
    for (int kind = 0; kind < KINDS - 1; kind++) {
        tiny_options o = tiny_defaults();
        o.mixed = kind == VIT_NUM_DTYPES;
        o.dtype = o.mixed ? VIT_F32 : (vit_dtype)kind;
        tiny_file f = tiny_build(&o);
        snprintf(paths[kind], 256, "%s.%d.vit", program, kind);
        FILE *file = fopen(paths[kind], "wb");
        CHECK(file && fwrite(f.data, 1, f.size, file) == f.size && fclose(file) == 0);
        tiny_free(&f);
    }
    snprintf(paths[KINDS - 1], 256, "%s", given);
}

/* Opens a model, runs it and closes it. Some calls also create and destroy a thread pool. */
static void classify(const char *path, const photo *p, float *first) {
    vit_model model;
    vit_prediction top[2];
    vit_result result = vit_model_open(path, pick(0, 1) ? VIT_OPEN_COPY : 0, &model);
    CHECK_MSG(result == VIT_OK, "%s: %s", path, model.detail);
    if (result) {
        return;
    }
    CHECK(vit_classify(&model, &p->image, 2, top) == VIT_OK);
    if (*first < 0) {
        *first = top[0].score;
    }
    CHECK_MSG(memcmp(first, &top[0].score, sizeof *first) == 0, "%s: %g, not %g", path,
              (double)top[0].score, (double)*first);
    if (pick(0, 15) == 0) {
        vit_threads *pool;
        vit_executor executor;
        CHECK(vit_threads_create(pick(1, 4), &pool, &executor) == VIT_OK);
        vit_threads_destroy(pool);
    }
    vit_model_close(&model);
}

int main(int argc, char **argv) {
    static char paths[KINDS][256];
    static float first[KINDS][PHOTOS];
    photo photos[PHOTOS];
    long memory = 0;
    int files = 0, count = argc > 2 ? atoi(argv[2]) : COUNT;
    if (argc < 2) {
        printf("usage: soak MODEL.vit [COUNT]\n");
        return 2;
    }
    write_models(paths, argv[1], argv[0]);
    for (int i = 0; i < PHOTOS; i++) {
        photos[i] = make_photo(i % 3);
    }
    for (int i = 0; i < KINDS * PHOTOS; i++) {
        first[i / PHOTOS][i % PHOTOS] = -1;
    }
    for (int i = 0; i < count; i++) {
        const int kind = pick(0, KINDS - 1), which = pick(0, PHOTOS - 1);
        classify(paths[kind], &photos[which], &first[kind][which]);
        if (i == WARM_UP) {
            memory = resident();
            files = open_files();
        }
    }
    printf("%d classifications: %ld KB, after the first %d %ld KB\n", count, resident(), WARM_UP,
           memory);
    CHECK(count <= WARM_UP || (resident() - memory <= SLACK && open_files() == files));
    for (int i = 0; i < PHOTOS; i++) {
        free(photos[i].pixels);
    }
    for (int kind = 0; kind < KINDS - 1; kind++) {
        unlink(paths[kind]);
    }
    return test_summary();
}
