/* words.c - classifies a photo by class names of your own. The model needs a text encoder. CLIP,
 * SigLIP and the bundled model have one.
 *
 *     cc -O2 words.c -o words -lm -lpthread
 *     $ ./words models/cifar10-vit.vit examples/cat.jpg "a kitten" "a puppy" "an empty street"
 *      95.2 %  a kitten
 *       4.6 %  a puppy
 *       0.1 %  an empty street
 */
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_TEXT_ENCODER
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>
#include <stdlib.h>

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 4) return fail(2, "usage", "words MODEL.vit PHOTO TEXT...");
    vit_model model, text;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "words", model.detail);
    if (vit_model_text(&model, 0, &text)) return fail(1, argv[1], text.detail);

    const int width = vit_embedding_dim(&model), count = argc - 3;
    float *image = (float *)malloc((size_t)width * sizeof(float));
    float *words = (float *)malloc((size_t)width * sizeof(float));
    float *scores = (float *)malloc((size_t)count * sizeof(float));
    if (!image || !words || !scores) return fail(1, "words", "out of memory");

    vit_image photo = vit_image_load(argv[2]);
    if (!photo.pixels) return fail(1, argv[2], stbi_failure_reason());
    vit_result result = vit_embed(&model, &photo, image);
    vit_image_free(&photo);
    if (result) return fail(1, argv[2], vit_result_string(result));

    for (int i = 0; i < count; i++) {
        result = vit_text_embed(&model, argv[3 + i], words);
        if (result) return fail(1, argv[3 + i], vit_result_string(result));
        scores[i] = vit_cosine(image, words, width);
    }
    vit_text_scores(&text, scores, count);
    for (int i = 0; i < count; i++)
        printf("%5.1f %%  %s\n", 100.0 * (double)scores[i], argv[3 + i]);

    free(image);
    free(words);
    free(scores);
    vit_model_close(&model);
    return 0;
}
