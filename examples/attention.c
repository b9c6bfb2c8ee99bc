/* attention.c - draws the class token's attention in the last block, averaged over the heads. The
 * picture (PGM) has a pixel for each patch.
 *
 *     cc -O2 attention.c -o attention -lm -lpthread
 *     $ ./attention models/cifar10-vit.vit examples/cat.jpg | tail -n +4 | head -n 2
 *      17  48  40  46  90  62  27   5
 *      50  86 245  37 139 255  21   8
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

int main(int argc, char **argv) {
    if (argc != 3) return fail(2, "usage", "attention MODEL.vit PHOTO >PICTURE.pgm");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "attention", model.detail);
    const vit_config *config = &model.config;
    if (!config->has_cls_token) return fail(1, argv[1], "the model has no class token");
    vit_image photo = vit_image_load(argv[2]);
    if (!photo.pixels) return fail(1, argv[2], stbi_failure_reason());
    const size_t map_size = (size_t)config->num_tokens * (size_t)config->num_tokens;
    const size_t maps_size = (size_t)config->num_heads * map_size;
    float *maps = (float *)malloc((maps_size + vit_input_size(&model)) * sizeof(float));
    if (!maps) return fail(1, "attention", "out of memory");
    const vit_block_output last_block = { NULL, maps, -1, 0 };
    vit_input input = { 0 };
    vit_outputs outputs = { 0 };
    input.pixels = maps + maps_size;
    outputs.blocks = &last_block;
    outputs.num_blocks = 1;
    vit_session session;
    vit_result result = vit_session_init(&session, &model, NULL, NULL, 0);
    if (!result) result = vit_preprocess(&model, &photo, maps + maps_size, NULL, 0);
    if (!result) result = vit_forward(&session, &input, &outputs);
    if (result) return fail(1, argv[2], vit_result_string(result));

    /* Row 0 of each head's map is the class token's. The loop sums these rows over the heads. */
    float *patches = maps + config->num_prefix_tokens, largest = 1e-30f;
    const size_t num_patches = (size_t)config->num_patches, width = (size_t)config->grid_width;
    for (size_t p = 0; p < num_patches; p++) {
        for (size_t h = map_size; h < maps_size; h += map_size) patches[p] += patches[h + p];
        if (patches[p] > largest) largest = patches[p];
    }
    printf("P2\n%d %d\n255\n", config->grid_width, config->grid_height);
    for (size_t p = 0; p < num_patches; p++)
        printf("%3.0f%c", 255.0 * (double)(patches[p] / largest), (p + 1) % width ? ' ' : '\n');
    vit_session_close(&session);
    free(maps);
    vit_image_free(&photo);
    vit_model_close(&model);
    return 0;
}
