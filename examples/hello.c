#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>

int main(void) {
    static uint8_t pixels[1024 * 1024 * 3];
    vit_image photo = { pixels, 0, 0, 0, VIT_PIXEL_RGB8 };
    vit_prediction best;
    vit_model model;
    if (vit_model_open("models/cifar10-vit.vit", 0, &model)) return puts(model.detail), 1;
    if (scanf("P6 %d %d 255%*c", &photo.width, &photo.height) != 2) return 1; /* a PPM file */
    if ((unsigned)photo.width > 1024 || (unsigned)photo.height > 1024) return 1;
    if (!fread(pixels, (size_t)photo.width * 3, (size_t)photo.height, stdin)) return 1;
    if (vit_classify(&model, &photo, 1, &best)) return 1;
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);
}
