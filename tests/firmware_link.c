/* firmware_link.c - the whole forward path in an image without an operating system, a C library or
 * malloc. tests/compile.sh compiles and links it for a Cortex-M4F; nothing runs it yet.
 */
#define VIT_BARE_METAL
#define VIT_IMPLEMENTATION
#include "../vit.h"

/* What a C compiler calls by itself; firmware has them, or brings them as here. volatile keeps
   the compiler from turning the loops into calls of themselves. */
void *memcpy(void *to, const void *from, size_t size) {
    volatile unsigned char *t = (unsigned char *)to;
    const volatile unsigned char *f = (const unsigned char *)from;
    while (size--) {
        *t++ = *f++;
    }
    return to;
}

void *memset(void *to, int value, size_t size) {
    volatile unsigned char *t = (unsigned char *)to;
    while (size--) {
        *t++ = (unsigned char)value;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    for (; size; size--, x++, y++) {
        if (*x != *y) {
            return *x < *y ? -1 : 1;
        }
    }
    return 0;
}

void *memmove(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size) {
    volatile unsigned char *t = (unsigned char *)to;
    const volatile unsigned char *f = (const unsigned char *)from;
    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, size);
    }
    while (size--) {
        t[size] = f[size];
    }
    return to;
}

/* In firmware: a model as a const array in flash, and one static arena. */
extern const unsigned char firmware_model[4096];
const unsigned char firmware_model[4096] = {0x89, 'V', 'I', 'T', '\r', '\n', 0x1a, '\n'};
static union {
    float align;
    unsigned char bytes[64 * 1024];
} arena, scratch;
static const uint8_t camera[8 * 8];
static float input[16 * 16], logits[16];

int main(void) {
    vit_model model;
    vit_session session;
    vit_outputs outputs;
    vit_prediction top;
    vit_image image;
    image.pixels = camera;
    image.width = image.height = 8;
    image.stride = 0;
    image.format = VIT_PIXEL_GRAY8;
    outputs.logits = logits;
    outputs.embedding = outputs.tokens = outputs.attention = NULL;
    outputs.attention_block = 0;
    if (vit_model_open_memory(firmware_model, sizeof firmware_model, 0, &model) ||
        model.config.img_height * model.config.img_width * model.config.in_chans > 16 * 16 ||
        model.config.num_classes > 16 || vit_workspace_size(&model, NULL) > sizeof arena ||
        vit_session_init(&session, &model, NULL, arena.bytes, sizeof arena) ||
        vit_preprocess(&model, &image, input, scratch.bytes, sizeof scratch) ||
        vit_forward(&session, input, 1, &outputs)) {
        return -1;
    }
    vit_softmax(logits, model.config.num_classes);
    vit_top_k(logits, model.config.num_classes, 1, &top);
    vit_model_close(&model);
    return top.index;
}
