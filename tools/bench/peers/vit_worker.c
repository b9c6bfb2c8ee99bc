/* vit_worker.c - vit.h behind the line protocol of bench_peers.py.
 *
 *     vit_worker MODEL.vit INPUT THREADS BATCH
 *
 * Prints "ready NAME", then answers each line of standard input: "run" with the milliseconds of one
 * forward pass, "logits FILE" with "ok" once FILE holds them as f32. Why not, if it cannot run at
 * all: "unavailable REASON".
 */
#define _POSIX_C_SOURCE 200809L
#define VIT_IMPLEMENTATION
#include "vit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int unavailable(const char *reason) {
    printf("unavailable %s\n", reason);
    return 1;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int file_floats(const char *path, float *data, size_t count, int write) {
    FILE *file = fopen(path, write ? "wb" : "rb");
    size_t done;
    if (!file) return 0;
    done = write ? fwrite(data, sizeof *data, count, file) : fread(data, sizeof *data, count, file);
    return (fclose(file) == 0) & (done == count);
}

int main(int argc, char **argv) {
    static char line[4096];
    vit_model model;
    vit_threads *threads;
    vit_params params = { 0 };
    vit_session session;
    vit_outputs outputs = { 0 };
    size_t size, input_size, output_size;
    void *workspace;
    float *input;
    int batch;

    if (argc != 5) return unavailable("usage: vit_worker MODEL.vit INPUT THREADS BATCH");
    if (vit_model_open(argv[1], 0, &model)) return unavailable(model.detail);
    if (vit_threads_create(atoi(argv[3]), &threads, &params.executor)) return unavailable("pool");
    params.max_batch = batch = atoi(argv[4]);
    size = vit_workspace_size(&model, &params);
    input_size = (size_t)batch * (size_t)model.config.in_chans * (size_t)model.config.img_height *
                 (size_t)model.config.img_width;
    output_size = (size_t)batch * (size_t)model.config.num_classes;
    workspace = malloc(size);
    input = malloc(input_size * sizeof *input);
    outputs.logits = malloc(output_size * sizeof *outputs.logits);
    if (!size || !workspace || !input || !outputs.logits) return unavailable("out of memory");
    if (!file_floats(argv[2], input, input_size, 0)) return unavailable("input");
    if (vit_session_init(&session, &model, &params, workspace, size)) return unavailable("session");

    printf("ready vit.h %d.%d.%d (%s)\n", VIT_VERSION_MAJOR, VIT_VERSION_MINOR, VIT_VERSION_PATCH,
           vit_isa_name(session.isa));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        double start = now_ms();
        vit_result result = vit_forward(&session, input, batch, &outputs);
        double ms = now_ms() - start;
        line[strcspn(line, "\n")] = '\0';
        if (result != VIT_OK) puts(vit_result_string(result));
        else if (strcmp(line, "run") == 0) printf("%.4f\n", ms);
        else puts(file_floats(line + 7, outputs.logits, output_size, 1) ? "ok" : "cannot write");
        fflush(stdout);
    }
    return 0;
}
