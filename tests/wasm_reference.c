/* wasm_reference.c - computes the reference for WebAssembly in a native build.
 *
 *     wasm_reference FOLDER MODEL.vit IMAGE...
 *
 * Writes each image as FOLDER/N.ppm, and sixteen crops of each large image. Prints a line for each
 * file: its name, then the bits of its logits in hexadecimal.
 */
#define VIT_IMPLEMENTATION
#include "../vit.h"

#include "base/source.h"
#include "image/image_file.h"

static const char *folder;
static int num_files;
static vit_model model;
static vit_session session;
static float *input, *logits;

static void *allocate(size_t size) {
    void *block = malloc(size);
    if (!block) {
        printf("out of memory\n");
        exit(2);
    }
    return block;
}

static void open_model(const char *path) {
    if (vit_model_open(path, 0, &model) != VIT_OK) {
        printf("%s: %s\n", path, model.detail);
        exit(2);
    }
    const vit_config *c = &model.config;
    size_t size = vit_workspace_size(&model, NULL);
    input = allocate((size_t)(c->in_chans * c->img_height * c->img_width) * sizeof(float));
    logits = allocate((size_t)c->num_classes * sizeof(float));
    vit_session_init(&session, &model, NULL, allocate(size), size);
}

static void write_ppm(const char *path, const vit_image *image) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        printf("%s: cannot be written\n", path);
        exit(2);
    }
    fprintf(file, "P6\n%d %d\n255\n", image->width, image->height);
    for (int y = 0; y < image->height; y++) {
        fwrite(image->pixels + (size_t)y * (size_t)image->stride, 3, (size_t)image->width, file);
    }
    fclose(file);
}

static void look_at(const vit_image *image) {
    char path[512];
    vit_outputs outputs = { 0 };
    snprintf(path, sizeof path, "%s/%d.ppm", folder, num_files++);
    write_ppm(path, image);
    outputs.logits = logits;
    if (vit_preprocess(&model, image, input, NULL, 0) != VIT_OK ||
        vit_forward(&session, &(vit_input){ .pixels = input }, &outputs) != VIT_OK) {
        printf("%s: cannot be computed\n", path);
        exit(2);
    }
    printf("%s", path);
    for (int i = 0; i < model.config.num_classes; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], 4);
        printf(" %08x", (unsigned)bits);
    }
    printf("\n");
}

/* Classifies one of sixteen crops. Its sides are half of the image's sides, plus up to 15 pixels.
 * All crops have different sizes. */
static void look_at_crop(const vit_image *image, int number) {
    vit_image crop = *image;
    int x = number % 4 * (image->width / 8), y = number / 4 * (image->height / 8);
    crop.pixels += y * image->stride + 3 * x;
    crop.width = image->width / 2 + number;
    crop.height = image->height / 2 + 3 * number % 16;
    look_at(&crop);
}

int main(int argc, char **argv) {
    (void)image_file_is_known;
    if (argc < 4) {
        return 2;
    }
    folder = argv[1];
    open_model(argv[2]);
    for (int i = 3; i < argc; i++) {
        image_file file;
        report r = report_make();
        unsigned char *bytes;
        size_t size;
        if (!source_read_all(argv[i], IMAGE_FILE_MAX_BYTES, &bytes, &size, &r) ||
            !image_file_decode(bytes, size, 0, NULL, NULL, &file, &r)) {
            puts(r.text);
            return 2;
        }
        free(bytes);
        vit_image image = { file.pixels, file.width, file.height, 3 * file.width, VIT_PIXEL_RGB8 };
        look_at(&image);
        for (int crop = 0; crop < 16 && image.width >= 128 && image.height >= 128; crop++) {
            look_at_crop(&image, crop);
        }
        image_file_free(&file);
    }
    return 0;
}
