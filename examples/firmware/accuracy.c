/* accuracy.c - classifies images on the desktop, as the firmware does on its boards.
 *
 *     accuracy MODEL.vit IMAGES            a line for each image, as main.c prints it
 *     accuracy MODEL.vit IMAGES LABELS     the number of correct classes
 *
 * IMAGES and LABELS are uncompressed files of MNIST's format, or pipes: <(zcat FILE.gz).
 */
#define VIT_IMPLEMENTATION
#include "../../vit.h"

#include <stdio.h>

enum { IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801 };

typedef struct classifier {
    vit_model model;
    vit_session session;
    void *workspace;
    float *input, *logits;
} classifier;

static int fail(const char *path, const char *reason) {
    fprintf(stderr, "accuracy: %s: %s\n", path, reason);
    return 0;
}

static int classifier_open(classifier *c, const char *path) {
    const vit_config *config = &c->model.config;
    size_t size;
    if (vit_model_open(path, 0, &c->model))
        return fprintf(stderr, "accuracy: %s\n", c->model.detail), 0;
    if (config->in_chans != 1 || !config->num_classes)
        return fail(path, "is not a model that classifies grey images");
    size = vit_workspace_size(&c->model, NULL);
    c->workspace = malloc(size);
    c->input = malloc((size_t)(config->img_height * config->img_width) * sizeof(float));
    c->logits = malloc((size_t)config->num_classes * sizeof(float));
    if (!c->workspace || !c->input || !c->logits ||
        vit_session_init(&c->session, &c->model, NULL, c->workspace, size))
        return fail(path, "out of memory");
    return 1;
}

static void classifier_close(classifier *c) {
    free(c->workspace);
    free(c->input);
    free(c->logits);
    vit_model_close(&c->model);
}

static vit_result classify(classifier *c, const vit_image *image, vit_prediction *best) {
    vit_outputs outputs = { 0 };
    vit_result result = vit_preprocess(&c->model, image, c->input, NULL, 0);
    outputs.logits = c->logits;
    if (!result) result = vit_forward(&c->session, &(vit_input){ .pixels = c->input }, &outputs);
    if (!result) vit_top_k(c->logits, c->model.config.num_classes, 1, best);
    return result;
}

static void print_prediction(const classifier *c, const vit_prediction *best) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, c->logits, (size_t)c->model.config.num_classes * sizeof(float));
    printf("image: %s, logits %016llx\n", vit_label(&c->model, best->index),
           (unsigned long long)vit_hash_final(&hash));
}

/* --- Files of MNIST: big-endian numbers, then bytes ------------------------------------------- */

static int read_number(FILE *file, int *number) {
    unsigned char b[4];
    if (fread(b, 1, 4, file) != 4 || b[0] > 127) return 0;
    *number = b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    return 1;
}

static FILE *open_file(const char *path, int magic, int *count) {
    FILE *file = fopen(path, "rb");
    int found;
    if (file && read_number(file, &found) && found == magic && read_number(file, count))
        return file;
    fail(path, file ? "is not the expected kind of MNIST file" : "cannot be opened");
    if (file) fclose(file);
    return NULL;
}

/* --- the program ------------------------------------------------------------------------------ */

/* Classifies all images. Prints each prediction or, with labels, how many are right. */
static int run(classifier *c, FILE *images, int count, FILE *labels, const char *path) {
    static uint8_t pixels[256 * 256];
    vit_image image = { pixels, 0, 0, 0, VIT_PIXEL_GRAY8 };
    vit_prediction best;
    size_t size;
    int i, right = 0;
    if (!read_number(images, &image.height) || !read_number(images, &image.width) ||
        image.height > 256 || image.width > 256)
        return fail(path, "must have images of at most 256 x 256 pixels");
    size = (size_t)(image.height * image.width);
    for (i = 0; i < count; i++) {
        if (fread(pixels, 1, size, images) != size) return fail(path, "is cut short");
        if (classify(c, &image, &best)) return fail(path, "has an image that cannot be classified");
        if (labels) right += fgetc(labels) == best.index;
        else print_prediction(c, &best);
    }
    if (labels) printf("%d of %d right, %.2f %%\n", right, count, 100.0 * right / count);
    return 1;
}

int main(int argc, char **argv) {
    static classifier c;
    FILE *images = NULL, *labels = NULL;
    int count = 0, num_labels = 0, good;
    if (argc != 3 && argc != 4) {
        fputs("usage: accuracy MODEL.vit IMAGES [LABELS]\n", stderr);
        return 2;
    }
    good = classifier_open(&c, argv[1]) && (images = open_file(argv[2], IMAGES_MAGIC, &count)) &&
           (argc == 3 || (labels = open_file(argv[3], LABELS_MAGIC, &num_labels)));
    if (good && labels && count != num_labels)
        good = fail(argv[3], "does not have a label for each image");
    good = good && run(&c, images, count, labels, argv[2]);
    if (images) fclose(images);
    if (labels) fclose(labels);
    classifier_close(&c);
    return !good;
}
