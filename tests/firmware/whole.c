/* whole.c - runs a large model on a board with much memory and prints the bits of the logits. The
 * emulator puts the model at WEIGHTS, like flash; the preprocessed photo comes from the camera.
 *
 * WEIGHTS, WEIGHTS_SIZE and WORKSPACE, the bytes of the arena, come from the command line.
 */
#define VIT_BARE_METAL
#define VIT_NO_PREPROCESS
#define VIT_IMPLEMENTATION
#include "../../vit.h"

#include "board.h"

static unsigned char arena[WORKSPACE];

static void print_bits(float number) {
    uint32_t bits;
    char text[10];
    int i;
    memcpy(&bits, &number, sizeof bits);
    for (i = 8; i--; bits >>= 4) text[i] = "0123456789abcdef"[bits & 15];
    text[8] = '\n';
    text[9] = '\0';
    board_print(text);
}

int main(void) {
    /* the photo and the logits are too large for the RAM, so they follow the weights */
    float *input = (float *)(uintptr_t)(WEIGHTS + (WEIGHTS_SIZE + 63) / 64 * 64), *logits;
    static vit_model model;
    static vit_session session;
    vit_params params;
    vit_outputs outputs;
    size_t numbers;
    int i;

    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.low_memory = 1;
    if (vit_model_open_memory((const void *)(uintptr_t)WEIGHTS, WEIGHTS_SIZE, 0, &model) ||
        vit_session_init(&session, &model, &params, arena, sizeof arena))
        return 1;
    numbers = (size_t)(model.config.in_chans * model.config.img_height * model.config.img_width);
    outputs.logits = logits = input + numbers;
    if (!board_read(input, numbers * sizeof(float)) ||
        vit_forward(&session, &(vit_input){ .pixels = input }, &outputs))
        return 1;
    for (i = 0; i < model.config.num_classes; i++) print_bits(logits[i]);
    return 0;
}
