/* speed.c - prints the shortest ms of RUNS forward passes, for each SIMD tier and each model:
 *
 *     speed RUNS MODEL.vit...
 */
#define _POSIX_C_SOURCE 200809L

#define VIT_TOOLS
#include "vit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#else
#include <time.h>
#endif

static double now_ms(void) {
#if defined(_WIN32)
    LARGE_INTEGER count, per_second;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&per_second);
    return 1e3 * (double)count.QuadPart / (double)per_second.QuadPart;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
#endif
}

static int measure(const char *path, vit_isa isa, int runs) {
    double shortest = 1e30;
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    vit_model model;
    void *workspace;
    float *input;
    size_t size, count, i;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.isa = isa;
    if (vit_model_open(path, 0, &model)) return 1;
    size = vit_workspace_size(&model, &params);
    count = (size_t)model.config.in_chans * (size_t)model.config.img_height *
            (size_t)model.config.img_width;
    workspace = malloc(size);
    input = (float *)malloc(count * sizeof *input);
    outputs.logits = (float *)malloc((size_t)model.config.num_classes * sizeof *outputs.logits);
    if (!workspace || !input || !outputs.logits) return 1;
    for (i = 0; i < count; i++) input[i] = (float)(i * 7919 % 1000) * 2e-3f - 1;
    if (vit_session_init(&session, &model, &params, workspace, size)) return 1;
    while (runs--) {
        const double start = now_ms();
        double ms;
        if (vit_forward(&session, &(vit_input){ .pixels = input }, &outputs)) return 1;
        ms = now_ms() - start;
        if (ms < shortest) shortest = ms;
    }
    printf("%s %s %.3f\n", vit_isa_name(isa), path, shortest);
    free(outputs.logits);
    free(input);
    free(workspace);
    vit_model_close(&model);
    return 0;
}

int main(int argc, char **argv) {
    int isa, i;
    for (isa = 1; argc > 1 && isa < VIT_NUM_ISAS; isa++)
        for (i = 2; vit_has_isa((vit_isa)isa) && i < argc; i++)
            if (isa != VIT_ISA_SCALAR && measure(argv[i], (vit_isa)isa, atoi(argv[1]))) return 1;
    return 0;
}
