#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define VIT_IMPLEMENTATION
#include "vit.h"

int main(int argc, char **argv) {
    vit_image photo = vit_image_load(argc > 1 ? argv[1] : "examples/cat.jpg");
    vit_prediction best;
    vit_model model;
    if (!photo.pixels) return puts(stbi_failure_reason()), 1;
    if (vit_model_open("models/cifar10-vit.vit", 0, &model)) return puts(model.detail), 1;
    if (vit_classify(&model, &photo, 1, &best)) return puts("it cannot be classified"), 1;
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);
}
