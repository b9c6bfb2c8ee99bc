/* memory.c - opens a model in memory, for example in the program or in an archive. Here the bytes
 * come from a file. The library uses the weights in place.
 *
 *     cc -O2 memory.c -o memory -lm -lpthread
 *     $ ./memory models/cifar10-vit.vit examples/cat.jpg
 *     cat, 82.4 %
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

/* Returns a file's bytes, or NULL. The caller frees the bytes. malloc aligns to 16, as required. */
static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long length = ftell(file);
    rewind(file);
    void *data = length > 0 ? malloc((size_t)length) : NULL;
    *size = data ? fread(data, 1, (size_t)length, file) : 0;
    fclose(file);
    return data;
}

int main(int argc, char **argv) {
    if (argc != 3) return fail(2, "usage", "memory MODEL.vit PHOTO");
    size_t size;
    void *data = read_file(argv[1], &size);
    if (!data) return fail(1, argv[1], "cannot be read");
    vit_model model;
    if (vit_model_open_memory(data, size, 0, &model)) return fail(1, argv[1], model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");

    vit_image photo = vit_image_load(argv[2]);
    if (!photo.pixels) return fail(1, argv[2], stbi_failure_reason());
    vit_prediction best;
    vit_result result = vit_classify(&model, &photo, 1, &best);
    if (result) return fail(1, argv[2], vit_result_string(result));
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);

    vit_image_free(&photo);
    vit_model_close(&model);
    free(data);
    return 0;
}
