/* classify.c - names what is in photos, on all cores: one session, which keeps its memory.
 *
 *     cc -O2 -I. examples/classify.c -o classify -pthread -lm && ./classify examples/cat.jpg
 *      82.4 %  cat
 *       5.5 %  frog
 *       5.4 %  dog
 *       1.6 %  deer
 *       1.2 %  bird
 *
 * For folders, video, texts, JSON, rotated photos and a sandbox: tools/vit-classify.
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"

static int failed(const char *what, const char *reason) {
    fprintf(stderr, "classify: %s: %s\n", what, reason);
    return 1;
}

static int classify(vit_session *session, const char *path) {
    const vit_model *model = session->model;
    vit_image photo = vit_image_load(path);
    vit_prediction top[5];
    vit_answer answer;
    vit_result result;
    int i, count;
    if (!photo.pixels) return failed(path, stbi_failure_reason());
    result = vit_run(session, &photo, 1, &answer);
    vit_image_free(&photo);
    if (result) return failed(path, vit_result_string(result));
    if (!answer.scores) return failed(path, "this model has no classes, only embeddings");
    count = vit_top_k(answer.scores, model->config.num_classes, 5, top);
    for (i = 0; i < count; i++) {
        const char *label = vit_label(model, top[i].index);
        printf("%5.1f %%  ", 100.0 * (double)top[i].score);
        if (label) puts(label);
        else printf("class %d\n", top[i].index);
    }
    return !(top[0].score >= 0.0f); /* NaN: a broken model */
}

int main(int argc, char **argv) {
    const char *path = "models/cifar10-vit.vit";
    vit_params params = { 0 };
    vit_threads *threads;
    vit_session session;
    vit_model model;
    vit_result result;
    int i = 1, status = 0, many;
    if (argc > 2 && !strcmp(argv[1], "-m")) path = argv[2], i = 3;
    if (i >= argc) return fputs("usage: classify [-m MODEL.vit] PHOTO...\n", stderr), 2;
    if (vit_model_open(path, 0, &model)) return fprintf(stderr, "classify: %s\n", model.detail), 1;
    result = vit_threads_create(0, &threads, &params.executor); /* one a core */
    if (result) return failed("threads", vit_result_string(result));
    result = vit_session_init(&session, &model, &params, NULL, 0);
    if (result) return failed(path, vit_result_string(result));
    for (many = argc - i > 1; i < argc; i++) {
        if (many) puts(argv[i]);
        status |= classify(&session, argv[i]);
    }
    vit_session_close(&session);
    vit_threads_destroy(threads);
    vit_model_close(&model);
    return status;
}
