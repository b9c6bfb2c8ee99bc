/* A program that test_abi.sh compiles with one vit.h and runs with the library of another vit.h:
 * program MODEL PHOTO. The program prints the result of opening the model and, on success, the
 * class. */
#include "vit.h"
#include <stdio.h>
#include <string.h>

static unsigned char pixels[128 * 128 * 3];
static float input[3 * 32 * 32], logits[10];
static unsigned char workspace[4 << 20];

/* Bytes after the struct: a library with a larger struct would overwrite them. */
static struct guarded {
    vit_model model;
    unsigned char guard[8192];
} g;

static int is_whole(void) {
    for (size_t i = 0; i < sizeof g.guard; i++)
        if (g.guard[i] != 0xa5) return 0;
    return 1;
}

static vit_result open_model(const char *path) {
#if defined(BY_POINTER) /* as callers without the header do */
    return vit_model_open_as(BY_POINTER, path, 0, &g.model);
#else
    return vit_model_open(path, VIT_OPEN_VERIFY, &g.model);
#endif
}

static int run(const char *path) {
    vit_image image = { pixels, 128, 128, 0, VIT_PIXEL_RGB8 };
    vit_params params = { 0 };
    vit_outputs outputs = { 0 };
    vit_session session;
    vit_prediction best;
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, -(long)sizeof pixels, SEEK_END) ||
        fread(pixels, sizeof pixels, 1, file) != 1)
        return puts("no photo"), 1;
    fclose(file);
    outputs.logits = logits;
    if (vit_preprocess(&g.model, &image, input, NULL, 0) ||
        vit_workspace_size(&g.model, &params) > sizeof workspace ||
        vit_session_init(&session, &g.model, &params, workspace, sizeof workspace) ||
        vit_forward(&session, &(vit_input){ .pixels = input }, &outputs))
        return puts("it does not run"), 1;
    vit_scores(&g.model, logits);
    vit_top_k(logits, 10, 1, &best);
    printf("%s %.6f\n", vit_label(&g.model, best.index), (double)best.score);
    return 0;
}

int main(int argc, char **argv) {
    vit_params params = { 0 };
    vit_result result;
    int status = 0;
    if (argc != 3) return 2;
    memset(&g, 0xa5, sizeof g);
    result = open_model(argv[1]);
    if (result) printf("%d: %s: %s\n", (int)result, vit_result_string(result), g.model.detail);
    else status = run(argv[2]);
    if (result && vit_workspace_size(&g.model, &params)) puts("a refused model has a workspace");
    vit_model_close(&g.model);
    puts(is_whole() ? "whole" : "written over");
    return status;
}
