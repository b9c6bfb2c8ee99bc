/* batch.c - classifies the given photos, eight at a time on all cores.
 *
 *     cc -O2 batch.c -o batch -lm -lpthread
 *     $ ./batch models/cifar10-vit.vit examples/cat.jpg examples/cat.ppm
 *     0.824 cat examples/cat.jpg
 *     0.788 cat examples/cat.ppm
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>
#include <string.h>

enum { BATCH = 8 };

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}

static int classify(vit_session *session, char **paths, int count) {
    const int classes = session->model->config.num_classes;
    vit_image photos[BATCH];
    for (int i = 0; i < count; i++) {
        photos[i] = vit_image_load(paths[i]);
        if (!photos[i].pixels) return fail(1, paths[i], stbi_failure_reason());
    }
    vit_answer answer;
    vit_result result = vit_run(session, photos, count, &answer);
    if (result) return fail(1, "batch", vit_result_string(result));
    for (int i = 0; i < count; i++) {
        vit_prediction best;
        vit_top_k(answer.scores + i * classes, classes, 1, &best);
        printf("%.3f %s %s\n", (double)best.score, vit_label(session->model, best.index), paths[i]);
        vit_image_free(&photos[i]);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return fail(2, "usage", "batch MODEL.vit PHOTO...");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "batch", model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");
    vit_threads *threads;
    vit_params params;
    vit_session session;
    memset(&params, 0, sizeof params); /* zero: the defaults */
    if (vit_threads_create(0, &threads, &params.executor) ||
        vit_session_init(&session, &model, &params, NULL, 0))
        return fail(1, "batch", "out of memory");
    for (int i = 2; i < argc; i += BATCH)
        if (classify(&session, argv + i, argc - i < BATCH ? argc - i : BATCH)) return 1;
    vit_session_close(&session);
    vit_threads_destroy(threads);
    vit_model_close(&model);
    return 0;
}
