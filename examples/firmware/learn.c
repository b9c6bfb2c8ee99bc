/* learn.c - learns classes from single pictures on a microcontroller, and keeps them in flash. A
 * picture gets the class whose mean embedding is nearest. There is no malloc and no C library.
 *
 * Each record of the camera is a byte and a picture. The byte is the number of the held button: 1
 * to 4 teach the class with this number, and 0 prints the picture's class. models/fashion-vit.vit
 * computes the embeddings. The model's own ten classes are not used.
 */
#include "fashion_vit.h"

#define VIT_STATIC
#define VIT_BARE_METAL
#define VIT_NO_PREPROCESS
#define VIT_FIXED     FASHION_VIT
#define VIT_MAX_CHANS 1
#define VIT_LOW_MEMORY
#define VIT_LOGITS_ONLY
#define VIT_NO_EXECUTOR
#define VIT_NO_TRACE
#define VIT_IMPLEMENTATION
#include "../../vit.h"

#define VIT_LEARN_IMPLEMENTATION
#include "learn.h" /* in tools/numbers */

#include "board.h"

enum { CLASSES = 4, DIM = FASHION_VIT_EMBEDDING };

static const float mean[] = FASHION_VIT_MEAN, deviation[] = FASHION_VIT_STD;
static vit_model model;
static vit_session session;
static unsigned char arena[FASHION_VIT_WORKSPACE_LOW];
static struct { uint8_t button, frame[FASHION_VIT_INPUT]; } record;
static float input[FASHION_VIT_INPUT], embedding[DIM];
static double memory[CLASSES * (DIM + 1) + 1]; /* vit_learn_sums_size(DIM, CLASSES, 0) bytes */
static double weights[CLASSES * (DIM + 1)], probabilities[CLASSES];

static vit_result embed(void) {
    vit_outputs outputs;
    int i;
    memset(&outputs, 0, sizeof outputs);
    outputs.embedding = embedding;
    for (i = 0; i < FASHION_VIT_INPUT; i++)
        input[i] = ((float)record.frame[i] / 255.0f - mean[0]) / deviation[0];
    return vit_forward(&session, &(vit_input){ .pixels = input }, &outputs);
}

/* Prints "class 3" or "taught 3". */
static void print_class(const char *what, int number) {
    char text[] = " 0\n";
    text[1] = (char)('0' + number);
    board_print(what);
    board_print(text);
}

int main(void) {
    vit_learn_sums sums = vit_learn_sums_at(memory, DIM, CLASSES, 0);
    vit_result result = vit_model_open_memory(fashion_vit_data, FASHION_VIT_SIZE, VIT_OPEN_VERIFY,
                                              &model);
    if (!result) result = vit_session_init(&session, &model, NULL, arena, sizeof arena);
    if (!board_recall(memory, sizeof memory)) vit_learn_clear(&sums);
    while (!result && board_read(&record, sizeof record)) {
        result = embed();
        if (result) break;
        if (record.button > 0 && record.button <= CLASSES) {
            vit_learn_add(&sums, embedding, record.button - 1);
            if (!board_keep(memory, sizeof memory)) board_print("not saved to flash\n");
            print_class("taught", record.button);
        } else {
            (void)vit_learn_means(&sums, weights);
            print_class("class",
                        1 + vit_learn_classify(weights, CLASSES, embedding, DIM, probabilities));
        }
    }
    if (result) {
        board_print(vit_result_string(result));
        board_print("\n");
    }
    return result != VIT_OK;
}
