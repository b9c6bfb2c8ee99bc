/* hello.c - classifies a photo.
 *
 *     cc -O2 hello.c -o hello -lm -lpthread
 *     $ ./hello models/cifar10-vit.vit examples/cat.jpg
 *     cat, 82.4 %
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

int main(int argc, char **argv) {
    if (argc != 3) return fail(2, "usage", "hello MODEL.vit PHOTO");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "hello", model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");

    vit_image photo = vit_image_load(argv[2]);
    if (!photo.pixels) return fail(1, argv[2], stbi_failure_reason());

    vit_prediction best;
    vit_result result = vit_classify(&model, &photo, 1, &best);
    if (result) return fail(1, argv[2], vit_result_string(result));
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);

    vit_image_free(&photo);
    vit_model_close(&model);
    return 0;
}
