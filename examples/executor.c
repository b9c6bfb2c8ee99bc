/* executor.c - runs one photo's forward pass on existing threads of the program, here OpenMP's. A
 * task pool, GCD or a job system can replace OpenMP.
 *
 *     cc -O2 -fopenmp executor.c -o executor -lm -lpthread
 *     $ ./executor models/cifar10-vit.vit examples/cat.jpg
 *     cat, 82.4 %
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <omp.h>
#include <stdio.h>
#include <string.h>

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}

/* Calls task(arg, i) for each i below count, in any order, and returns after the last call has
   returned. */
static void parallel_for(void *user, int count, vit_task *task, void *arg) {
    (void)user;
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < count; i++) task(arg, i);
}

int main(int argc, char **argv) {
    if (argc != 3) return fail(2, "usage", "executor MODEL.vit PHOTO");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "executor", model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");
    vit_image photo = vit_image_load(argv[2]);
    if (!photo.pixels) return fail(1, argv[2], stbi_failure_reason());

    vit_params params;
    memset(&params, 0, sizeof params); /* zero: the defaults */
    params.executor.parallel_for = parallel_for;
    params.executor.num_threads = omp_get_max_threads();
    vit_session session;
    vit_answer answer;
    vit_result result = vit_session_init(&session, &model, &params, NULL, 0);
    if (!result) result = vit_run(&session, &photo, 1, &answer);
    if (result) return fail(1, argv[2], vit_result_string(result));
    vit_prediction best;
    vit_top_k(answer.scores, model.config.num_classes, 1, &best);
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);

    vit_session_close(&session);
    vit_image_free(&photo);
    vit_model_close(&model);
    return 0;
}
