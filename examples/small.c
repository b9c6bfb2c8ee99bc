/* small.c - classifies frames of 28 x 28 grey bytes in little memory. The model is a constant
 * array, and nothing is allocated. examples/firmware does the same on a microcontroller.
 *
 *     vit-convert --c-array models/fashion-vit.vit -o model.h
 *     cc -O2 small.c -o small -lm
 *     $ tail -c +17 examples/firmware/sample-images.idx3 | head -c 2352 | ./small
 *     ankle boot
 *     pullover
 *     trouser
 */
#include "model.h"
#define VIT_BARE_METAL    /* no files, no malloc, no threads */
#define VIT_NO_PREPROCESS /* frames have the model's size */
#define VIT_NO_SIMD       /* SIMD may need more than MODEL_WORKSPACE_LOW */
#define VIT_LOW_MEMORY
#define VIT_IMPLEMENTATION
#include "vit.h"
#include <string.h>
#include <unistd.h>

static const float mean[] = MODEL_MEAN, deviation[] = MODEL_STD; /* of each channel */
enum { PLANE = MODEL_INPUT * sizeof mean[0] / sizeof mean };

static vit_model model;
static vit_session session;
static unsigned char workspace[MODEL_WORKSPACE_LOW], frame[MODEL_INPUT];
static float pixels[MODEL_INPUT], logits[MODEL_OUTPUT];

static int print(int stream, const char *text) {
    return write(stream, text, strlen(text)) < 0 || write(stream, "\n", 1) < 0;
}

/* Returns 1 if a whole frame was read. A pipe may deliver it in several pieces. */
static int read_frame(void) {
    for (size_t have = 0; have < sizeof frame;) {
        const long got = read(0, frame + have, sizeof frame - have);
        if (got <= 0) return 0;
        have += (size_t)got;
    }
    return 1;
}

int main(void) {
    vit_input input = { 0 };
    vit_outputs outputs = { 0 };
    vit_prediction best;
    input.pixels = pixels;
    outputs.logits = logits;
    vit_result result = vit_model_open_memory(model_data, MODEL_SIZE, VIT_OPEN_VERIFY, &model);
    if (!result) result = vit_session_init(&session, &model, NULL, workspace, sizeof workspace);
    while (!result && read_frame()) {
        for (int i = 0; i < MODEL_INPUT; i++)
            pixels[i] = ((float)frame[i] / 255.0f - mean[i / PLANE]) / deviation[i / PLANE];
        result = vit_forward(&session, &input, &outputs);
        vit_top_k(logits, MODEL_OUTPUT, 1, &best);
        if (!result) print(1, vit_label(&model, best.index));
    }
    if (result) print(2, vit_result_string(result));
    return result != VIT_OK;
}
