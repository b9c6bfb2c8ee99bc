#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>

int main(int argc, char **argv) {
    static uint8_t pixels[1024 * 1024 * 3];
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    vit_image photo = { pixels, 0, 0, 0, VIT_PIXEL_RGB8 };
    vit_prediction best;
    vit_model model;
    char word[2];
    if (vit_model_open("models/cifar10-vit.vit", 0, &model)) return puts(model.detail), 1;
    if (!file || getc(file) != 'P' || getc(file) != '6') return puts("usage: hello PHOTO.ppm"), 1;
    while (fscanf(file, " #%1[^\n]%*[^\n]", word) == 1) continue; /* comments */
    if (fscanf(file, "%d %d 255%1[ \t\r\n]", &photo.width, &photo.height, word) != 3 ||
        (unsigned)photo.width > 1024 || (unsigned)photo.height > 1024 ||
        fread(pixels, (size_t)photo.width * 3, (size_t)photo.height, file) < (size_t)photo.height)
        return puts("not a whole photo of 8 bits a colour and up to 1024 x 1024"), 1;
    if (vit_classify(&model, &photo, 1, &best)) return puts("it cannot be classified"), 1;
    printf("%s, %.1f %%\n", vit_label(&model, best.index), 100.0 * (double)best.score);
}
