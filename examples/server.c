/* server.c - answers requests until the input ends. Each input line is a photo's path. Its output
 * line has the photo's three best classes or an error. One session serves all requests.
 *
 *     cc -O2 server.c -o server -lm -lpthread
 *     $ printf 'examples/cat.jpg\nno.jpg\nexamples/cat.ppm\n' | ./server models/cifar10-vit.vit
 *     cat 0.824, frog 0.055, dog 0.054
 *     error: can't fopen
 *     cat 0.788, frog 0.068, dog 0.068
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

/* Prints the classes of a photo and returns NULL, or returns the error. */
static const char *classify(vit_session *session, const char *path) {
    const vit_model *model = session->model;
    vit_image photo = vit_image_load(path);
    if (!photo.pixels) return stbi_failure_reason();
    vit_answer answer;
    vit_result result = vit_run(session, &photo, 1, &answer);
    vit_image_free(&photo);
    if (result) return vit_result_string(result);
    vit_prediction top[3];
    const int count = vit_top_k(answer.scores, model->config.num_classes, 3, top);
    for (int i = 0; i < count; i++)
        printf("%s%s %.3f", i ? ", " : "", vit_label(model, top[i].index), (double)top[i].score);
    printf("\n");
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return fail(2, "usage", "server MODEL.vit <PATHS >ANSWERS");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "server", model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");
    vit_session session;
    vit_result result = vit_session_init(&session, &model, NULL, NULL, 0);
    if (result) return fail(1, "server", vit_result_string(result));

    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        if (!strchr(path, '\n')) /* skips the rest of a line that is longer than any path */
            for (int c = getchar(); c != '\n' && c != EOF;) c = getchar();
        path[strcspn(path, "\r\n")] = '\0';
        const char *error = classify(&session, path);
        if (error) printf("error: %s\n", error);
        if (fflush(stdout)) return fail(1, "server", "the answers cannot be written");
    }
    vit_session_close(&session);
    vit_model_close(&model);
    return 0;
}
