/* main.c - classifies a camera's pictures of clothes on a microcontroller: a Vision Transformer for
 * Fashion-MNIST without malloc, C library, libm or double.
 *
 * The model is a constant array in flash, used in place. vit-convert --c-array writes fashion_vit.h
 * from models/fashion-vit.vit. The header gives the bytes of RAM that a forward pass needs, and the
 * arena is a static array of this size. The header also gives the architecture: VIT_FIXED omits the
 * code for all other architectures.
 */
#include "fashion_vit.h"

#define VIT_STATIC
#define VIT_BARE_METAL
#define VIT_NO_PREPROCESS /* frames have the model's size */
#define VIT_FIXED         FASHION_VIT
#define VIT_MAX_CHANS     1
#define VIT_LOW_MEMORY
#define VIT_LOGITS_ONLY
#define VIT_NO_EXECUTOR
#define VIT_NO_TRACE
#define VIT_IMPLEMENTATION
#include "../../vit.h"

#include "board.h"

static const float mean[] = FASHION_VIT_MEAN, deviation[] = FASHION_VIT_STD;
static vit_model model;
static vit_session session;
static unsigned char arena[FASHION_VIT_WORKSPACE_LOW];
static uint8_t frame[FASHION_VIT_INPUT];
static float input[FASHION_VIT_INPUT], logits[FASHION_VIT_OUTPUT];

/* --- text, without printf ------------------------------------------------------------------ */

static void print_number(uint32_t number) {
    char text[11], *p = text + sizeof text;
    *--p = '\0';
    do *--p = (char)('0' + number % 10);
    while (number /= 10);
    board_print(p);
}

static void print_hex(uint64_t bits) {
    char text[17], *p = text + sizeof text;
    *--p = '\0';
    for (; p > text; bits >>= 4) *--p = "0123456789abcdef"[bits & 15];
    board_print(text);
}

/* --- the model ------------------------------------------------------------------------------ */

/* Opens the model. Verifies every bit of the array, because the flash may be damaged. */
static vit_result open_model(void) {
    vit_result result = vit_model_open_memory(fashion_vit_data, FASHION_VIT_SIZE, VIT_OPEN_VERIFY,
                                              &model);
    return result ? result : vit_session_init(&session, &model, NULL, arena, sizeof arena);
}

/* Normalises grey bytes as in training, like vit_preprocess. */
static void normalise(void) {
    int i;
    for (i = 0; i < FASHION_VIT_INPUT; i++)
        input[i] = ((float)frame[i] / 255.0f - mean[0]) / deviation[0];
}

static vit_result classify(vit_prediction *best) {
    vit_outputs outputs;
    vit_result result;
    memset(&outputs, 0, sizeof outputs);
    outputs.logits = logits;
    normalise();
    result = vit_forward(&session, &(vit_input){ .pixels = input }, &outputs);
    if (!result) vit_top_k(logits, FASHION_VIT_OUTPUT, 1, best);
    return result;
}

/* Prints "image: ankle boot, logits 2f9c6de1a0b34475". The hash of the logits' bits serves to
   compare machines. */
static void print_prediction(const vit_prediction *best) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, logits, sizeof logits);
    board_print("image: ");
    board_print(vit_label(&model, best->index));
    board_print(", logits ");
    print_hex(vit_hash_final(&hash));
    board_print("\n");
}

/* --- the program ---------------------------------------------------------------------------- */

int main(void) {
    uint32_t images = 0, ticks = 0;
    vit_prediction best;
    vit_result result = open_model();

    board_clock_start();
    while (!result && board_read(frame, sizeof frame)) {
        const uint32_t start = board_clock();
        result = classify(&best);
        ticks += board_clock() - start;
        images++;
        if (!result) print_prediction(&best);
    }
    if (result) {
        board_print(vit_result_string(result));
        board_print("\n");
        return 1;
    }
    board_print("ticks ");
    print_number(ticks);
    board_print(" ");
    print_number(images);
    board_print("\nstack ");
    print_number((uint32_t)board_stack_used());
    board_print("\n");
    return images == 0;
}
