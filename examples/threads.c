/* threads.c - classifies photos on the program's own threads, here OpenMP's. All threads
 * share the model, and each has a session.
 *
 *     cc -O2 -fopenmp threads.c -o threads -lm -lpthread
 *     $ ./threads models/cifar10-vit.vit examples/cat.jpg examples/cat.ppm
 *     0.824 cat examples/cat.jpg
 *     0.788 cat examples/cat.ppm
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}

static int classify(vit_session *session, const char *path) {
    vit_image photo = vit_image_load(path);
    if (!photo.pixels) return fail(1, path, stbi_failure_reason());
    vit_answer answer;
    vit_result result = vit_run(session, &photo, 1, &answer);
    vit_image_free(&photo);
    if (result) return fail(1, path, vit_result_string(result));
    vit_prediction best;
    vit_top_k(answer.scores, session->model->config.num_classes, 1, &best);
    printf("%.3f %s %s\n", (double)best.score, vit_label(session->model, best.index), path);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return fail(2, "usage", "threads MODEL.vit PHOTO...");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "threads", model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");

    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        vit_session session;
        vit_result result = vit_session_init(&session, &model, NULL, NULL, 0);
        if (result) failed = fail(1, "threads", vit_result_string(result));
#pragma omp for schedule(dynamic)
        for (int i = 2; i < argc; i++)
            if (!result) failed |= classify(&session, argv[i]);
        if (!result) vit_session_close(&session);
    }

    vit_model_close(&model);
    return failed;
}
