/* classify.c - classifies photos on all cores. One session reuses its memory for all photos.
 *
 *     cc -O2 classify.c -o classify -lm -lpthread
 *     $ ./classify -m models/cifar10-vit.vit examples/cat.jpg
 *      82.4 %  cat
 *       5.5 %  frog
 *       5.4 %  dog
 *       1.6 %  deer
 *       1.2 %  bird
 *
 * tools/vit-classify adds folders, video, texts, JSON, rotated photos and a sandbox.
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>
#include <string.h>

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}

static int classify(vit_session *session, const char *path) {
    const vit_model *model = session->model;
    vit_image photo = vit_image_load(path);
    if (!photo.pixels) return fail(1, path, stbi_failure_reason());
    vit_answer answer;
    vit_result result = vit_run(session, &photo, 1, &answer);
    vit_image_free(&photo);
    if (result) return fail(1, path, vit_result_string(result));
    if (!answer.scores) return fail(1, path, "the model has no classes, only embeddings");

    vit_prediction top[5];
    const int count = vit_top_k(answer.scores, model->config.num_classes, 5, top);
    for (int i = 0; i < count; i++) {
        const char *label = vit_label(model, top[i].index);
        printf("%5.1f %%  ", 100.0 * (double)top[i].score);
        if (label) printf("%s\n", label);
        else printf("class %d\n", top[i].index);
    }
    if (!(top[0].score >= 0.0f))
        return fail(1, path, "the scores are not numbers: the model is damaged");
    return 0;
}

int main(int argc, char **argv) {
    const char *path = "models/cifar10-vit.vit";
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "-m")) {
        path = argv[2];
        first = 3;
    }
    if (first >= argc) return fail(2, "usage", "classify [-m MODEL.vit] PHOTO...");
    vit_model model;
    if (vit_model_open(path, 0, &model)) return fail(1, "classify", model.detail);

    vit_threads *threads;
    vit_params params;
    vit_session session;
    memset(&params, 0, sizeof params);                                     /* zero: the defaults */
    vit_result result = vit_threads_create(0, &threads, &params.executor); /* one per core */
    if (!result) result = vit_session_init(&session, &model, &params, NULL, 0);
    if (result) return fail(1, "classify", vit_result_string(result));

    int status = 0;
    for (int i = first; i < argc; i++) {
        if (argc - first > 1) printf("%s\n", argv[i]);
        status |= classify(&session, argv[i]);
    }
    vit_session_close(&session);
    vit_threads_destroy(threads);
    vit_model_close(&model);
    return status;
}
