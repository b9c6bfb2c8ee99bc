/* native MODEL PHOTO.ppm N - classifies a photo N times on one thread, for python.sh. Prints the
   milliseconds of CPU time of the fastest run, and the class. With COMPILED_LIBRARY, the program
   uses the compiled library. */
#define _POSIX_C_SOURCE 200809L
#define VIT_TEXT_ENCODER
#ifndef COMPILED_LIBRARY
#define VIT_IMPLEMENTATION
#endif
#include "vit.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    vit_image photo = { NULL, 0, 0, 0, VIT_PIXEL_RGB8 };
    double best = 1e30;
    vit_model model;
    vit_session session;
    vit_answer answer;
    if (argc != 4 || vit_model_open(argv[1], 0, &model)) return puts("no model"), 1;
    FILE *file = fopen(argv[2], "rb");
    if (!file || fscanf(file, "P6 %d %d 255", &photo.width, &photo.height) != 2)
        return puts("no photo"), 1;
    fgetc(file);
    const size_t size = (size_t)photo.width * (size_t)photo.height * 3;
    uint8_t *pixels = malloc(size);
    if (!pixels || fread(pixels, 1, size, file) != size) return puts("no pixels"), 1;
    fclose(file);
    photo.pixels = pixels;
    if (vit_session_init(&session, &model, NULL, NULL, 0)) return puts("no session"), 1;
    for (int i = atoi(argv[3]); i > 0; i--) {
        const double start = now();
        if (vit_run(&session, &photo, 1, &answer)) return puts("no answer"), 1;
        const double took = now() - start;
        if (took < best) best = took;
    }
    vit_prediction top;
    vit_top_k(answer.scores, model.config.num_classes, 1, &top);
    printf("%.6f %s\n", best, vit_label(&model, top.index));
    vit_session_close(&session);
    vit_model_close(&model);
    free(pixels);
    return 0;
}
