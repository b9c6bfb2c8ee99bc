/* similar.c - compares two photos by the cosine of their embeddings: 1 for the same picture, less
 * for different pictures.
 *
 *     cc -O2 similar.c -o similar -lm -lpthread
 *     $ ./similar models/cifar10-vit.vit examples/cat.jpg examples/cat.ppm
 *     0.998
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>
#include <stdlib.h>

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}

/* Writes the embedding of a photo. Returns 0 on success. */
static int embed(const vit_model *model, const char *path, float *embedding) {
    vit_image photo = vit_image_load(path);
    if (!photo.pixels) return fail(1, path, stbi_failure_reason());
    vit_result result = vit_embed(model, &photo, embedding);
    vit_image_free(&photo);
    return result ? fail(1, path, vit_result_string(result)) : 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return fail(2, "usage", "similar MODEL.vit PHOTO PHOTO");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "similar", model.detail);

    const int width = vit_embedding_dim(&model);
    float *first = (float *)malloc((size_t)width * sizeof(float));
    float *second = (float *)malloc((size_t)width * sizeof(float));
    if (!first || !second) return fail(1, "similar", "out of memory");
    if (embed(&model, argv[2], first) || embed(&model, argv[3], second)) return 1;
    printf("%.3f\n", (double)vit_cosine(first, second, width));

    free(first);
    free(second);
    vit_model_close(&model);
    return 0;
}
