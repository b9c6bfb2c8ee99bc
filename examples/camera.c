/* camera.c - classifies a camera's raw frames. It skips the frames that arrive during a pass.
 *
 *     cc -O2 camera.c -o camera -lm -lpthread
 *     $ tail -c 49152 examples/cat.ppm | ./camera models/cifar10-vit.vit rgb24 128 128 30
 *     frame 0: cat 0.788
 *
 * Live: ffmpeg -i /dev/video0 -f rawvideo -pix_fmt nv12 - | ./camera MODEL.vit nv12 640 480 30
 */
#define _POSIX_C_SOURCE 199309L /* for clock_gettime */
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return status;
}
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 6) return fail(2, "usage", "camera MODEL.vit rgb24|nv12 WIDTH HEIGHT FPS <FRAMES");
    const int width = atoi(argv[3]), height = atoi(argv[4]), nv12 = !strcmp(argv[2], "nv12");
    if ((!nv12 && strcmp(argv[2], "rgb24")) || width < 2 || width > 16384 || width % 2 ||
        height < 2 || height > 16384 || height % 2)
        return fail(2, "camera", "expected rgb24 or nv12, then even numbers from 2 to 16384");
    vit_model model;
    if (vit_model_open(argv[1], 0, &model)) return fail(1, "camera", model.detail);
    if (!vit_label(&model, 0)) return fail(1, argv[1], "the model names no classes");
    vit_session session;
    vit_result result = vit_session_init(&session, &model, NULL, NULL, 0);
    const size_t size = (size_t)width * (size_t)height * 3 / (nv12 ? 2 : 1);
    uint8_t *pixels = (uint8_t *)malloc(size);
    if (result || !pixels) return fail(1, "camera", "out of memory");
    const vit_image frame = { pixels, width, height, 0, nv12 ? VIT_PIXEL_NV12 : VIT_PIXEL_RGB8 };
    size_t length;
    for (long number = 0, skip = 0; (length = fread(pixels, 1, size, stdin)) == size; number++) {
        if (skip-- > 0) continue;
        const double start = seconds();
        vit_answer answer;
        result = vit_run(&session, &frame, 1, &answer);
        if (result) return fail(1, "camera", vit_result_string(result));
        vit_prediction best;
        vit_top_k(answer.scores, model.config.num_classes, 1, &best);
        printf("frame %ld: %s %.3f\n", number, vit_label(&model, best.index), (double)best.score);
        skip = (long)((seconds() - start) * atof(argv[5]));
    }
    if (length) return fail(1, "camera", "the input ends within a frame");
    free(pixels);
    vit_session_close(&session);
    vit_model_close(&model);
    return 0;
}
