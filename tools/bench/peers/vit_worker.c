/* vit_worker.c - runs vit.h by the line protocol of workers.py.
 *
 *     vit_worker MODEL.vit INPUT THREADS BATCH [ISA]
 */
#define _POSIX_C_SOURCE 200809L
#define VIT_IMPLEMENTATION
#define VIT_TOOLS
#include "vit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct worker {
    vit_session session;
    vit_outputs outputs;
    FILE *images;
    float *input; /* `batch` images */
    size_t image_bytes;
    int batch;
} worker;

static int unavailable(const char *reason) {
    printf("unavailable %s\n", reason);
    return 1;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* Returns the tier with this name; VIT_NUM_ISAS if there is none. */
static vit_isa isa_of(const char *name) {
    int isa = 0;
    while (isa < VIT_NUM_ISAS && strcmp(vit_isa_name((vit_isa)isa), name) != 0) isa++;
    return (vit_isa)isa;
}

static int allocate(worker *w, const vit_model *model) {
    size_t batch = (size_t)w->batch;
    w->image_bytes = sizeof(float) * (size_t)model->config.in_chans *
                     (size_t)model->config.img_height * (size_t)model->config.img_width;
    w->input = malloc(batch * w->image_bytes);
    w->outputs.logits = malloc(batch * sizeof(float) * (size_t)model->config.num_classes);
    w->outputs.embedding = malloc(batch * sizeof(float) * (size_t)vit_embedding_dim(model));
    return w->input && w->outputs.logits && w->outputs.embedding;
}

static int read_images(worker *w) {
    return (int)fread(w->input, w->image_bytes, (size_t)w->batch, w->images);
}

/* Writes the outputs of every image of the file, `width` values each. Then reads the first batch
 * again, for the next run. */
static int write_outputs(worker *w, const char *path, const float *outputs, int width) {
    FILE *to = fopen(path, "wb");
    int good = to != NULL, n;
    rewind(w->images);
    while (good && (n = read_images(w)) > 0)
        good = vit_forward(&w->session, &(vit_input){ .pixels = w->input, .batch = n },
                           &w->outputs) == VIT_OK &&
               fwrite(outputs, sizeof *outputs * (size_t)width, (size_t)n, to) == (size_t)n;
    if (to && fclose(to)) good = 0;
    rewind(w->images);
    return good && read_images(w) == w->batch;
}

static void answer(worker *w, const char *line) {
    const vit_model *model = w->session.model;
    int good;
    if (strcmp(line, "run") == 0) {
        double start = now_ms();
        good = vit_forward(&w->session, &(vit_input){ .pixels = w->input, .batch = w->batch },
                           &w->outputs) == VIT_OK;
        if (good) printf("%.4f\n", now_ms() - start);
    } else {
        good = strncmp(line, "logits ", 7) == 0
                   ? write_outputs(w, line + 7, w->outputs.logits, model->config.num_classes)
                   : write_outputs(w, strchr(line, ' ') + 1, w->outputs.embedding,
                                   vit_embedding_dim(model));
        if (good) puts("ok");
    }
    if (!good) puts("failed");
    fflush(stdout);
}

int main(int argc, char **argv) {
    static char line[4096];
    vit_params params = { 0 };
    vit_threads *threads;
    vit_model model;
    worker w = { 0 };
    void *workspace;
    size_t size;

    if (argc < 5) return unavailable("usage: vit_worker MODEL.vit INPUT THREADS BATCH [ISA]");
    if (vit_model_open(argv[1], 0, &model)) return unavailable(model.detail);
    if (vit_threads_create(atoi(argv[3]), &threads, &params.executor))
        return unavailable("the threads cannot be started");
    w.batch = atoi(argv[4]);
    params.isa = argc > 5 ? isa_of(argv[5]) : VIT_ISA_AUTO;
    if (!vit_has_isa(params.isa)) return unavailable("this CPU lacks the instruction set");
    size = vit_workspace_size(&model, &params);
    workspace = malloc(size);
    if (!size || !workspace || !allocate(&w, &model)) return unavailable("out of memory");
    w.images = fopen(argv[2], "rb");
    if (!w.images || read_images(&w) != w.batch) return unavailable("the input cannot be read");
    if (vit_session_init(&w.session, &model, &params, workspace, size))
        return unavailable("the model cannot be run");

    printf("ready vit.h %d.%d.%d (%s)\n", VIT_VERSION_MAJOR, VIT_VERSION_MINOR, VIT_VERSION_PATCH,
           vit_isa_name(w.session.isa));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        answer(&w, line);
    }
    return 0;
}
