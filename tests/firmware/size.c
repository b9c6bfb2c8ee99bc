/* size.c - the smallest firmware: opens a model, prepares a session and runs it. The program is
 * never run. Only its size is measured. The build makes least.h from a model, without the model's
 * data.
 */
#include "least.h"

#define VIT_STATIC
#define VIT_BARE_METAL
#define VIT_NO_PREPROCESS
#define VIT_FIXED     LEAST
#define VIT_MAX_CHANS 3
#define VIT_LOW_MEMORY
#define VIT_LOGITS_ONLY
#define VIT_NO_EXECUTOR
#define VIT_NO_TEXT
#define VIT_NO_TRACE
#define VIT_IMPLEMENTATION
#include "../../vit.h"

extern const unsigned char model_data[];
extern unsigned char arena[];
extern float input[], logits[];
extern const size_t model_size, arena_size;

int main(void) {
    static vit_model model;
    static vit_session session;
    static vit_outputs outputs;
    static const vit_input image = { .pixels = input };
    outputs.logits = logits;
    return vit_model_open_memory(model_data, model_size, 0, &model) ||
           vit_session_init(&session, &model, NULL, arena, arena_size) ||
           vit_forward(&session, &image, &outputs);
}
