#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>

int main(void) {
    static uint8_t pixels[1024 * 1024 * 3];
    vit_image photo = { pixels, 0, 0, 0, VIT_PIXEL_RGB8 };
    vit_prediction best;
    vit_model model;
    char word[2];
    int max = 0;
    if (vit_model_open("models/cifar10-vit.vit", 0, &model)) return puts(model.detail), 1;
    if (getchar() != 'P' || getchar() != '6') return puts("standard input is not a PPM file"), 1;
    while (scanf(" #%1[^\n]%*[^\n]", word) == 1) continue; /* comments */
    if (scanf("%d %d %d%*c", &photo.width, &photo.height, &max) != 3 || max != 255 ||
        (unsigned)photo.width > 1024 || (unsigned)photo.height > 1024 ||
        fread(pixels, (size_t)photo.width * 3, (size_t)photo.height, stdin) < (size_t)photo.height)
        return puts("not a whole photo of 8 bits a colour and up to 1024 x 1024"), 1;
    if (vit_classify(&model, &photo, 1, &best)) return puts("it cannot be classified"), 1;
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);
}
