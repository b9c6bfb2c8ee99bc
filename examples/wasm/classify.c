/* classify.c - vit.h as a WebAssembly module, for Node and web pages.
 *
 * `make wasm` builds it, with SIMD128 and Debian's clang. It imports nothing, so that any
 * JavaScript can instantiate it; what it exports is declared below. Pointers are numbers into
 * its memory. vit.mjs is the JavaScript around it, run.mjs a program that uses both.
 */
#include <string.h>

#include "memory.h"

#define VIT_NO_STDIO
#define VIT_MALLOC(size) allocate(size)
#define VIT_FREE(memory) release(memory)
#define VIT_IMPLEMENTATION
#include "../../vit.h"

typedef struct classifier {
    vit_model model;     /* its weights are in data                                    */
    vit_session session; /* what a forward pass needs, in workspace                    */
    void *data, *workspace;
    float *input;        /* [in_chans, img_height, img_width]                          */
    float *logits;       /* [num_classes]                                              */
    float *probs;        /* [num_classes]                                              */
    vit_prediction *top; /* [num_classes], the best first                              */
    const char *error;   /* of the last call, "" if it went well                       */
} classifier;

/* A classifier out of a .vit file; data comes from allocate() and is released by close(). NULL if
 * there is no memory for it; otherwise error() says whether it is of use, and close() is due. */
EXPORT(open) classifier *classifier_open(void *data, size_t size, int threads);
EXPORT(close) void classifier_close(classifier *c);
EXPORT(error) const char *classifier_error(const classifier *c);

/* Looks at rows of r, g, b, a bytes; alpha is ignored. How many classes there now are, the best
 * first, or 0 with an error(). */
EXPORT(classify) int classifier_classify(classifier *c, const uint8_t *rgba, int width, int height);

/* The same for what is in input(), [in_chans, img_height, img_width], normalised already. */
EXPORT(input) float *classifier_input(const classifier *c);
EXPORT(forward) int classifier_forward(classifier *c);

/* Number `place` of them: its class, probability and name ("" if the file has none). */
EXPORT(index) int classifier_index(const classifier *c, int place);
EXPORT(prob) float classifier_prob(const classifier *c, int place);
EXPORT(label) const char *classifier_label(const classifier *c, int place);

/* [num_classes], in the order of the classes. */
EXPORT(logits) const float *classifier_logits(const classifier *c);

/* The tier of kernels: "wasm-simd", or "scalar" where it was built without -msimd128, for engines
 * that refuse such a module. */
EXPORT(tier) const char *tier(void);

/* --- threads ---------------------------------------------------------------------------------- */

#ifdef __wasm_atomics__

/* Has run(task, arg, i) called for every i in [0, count), here and by the workers of pool.mjs. */
__attribute__((import_module("pool"), import_name("parallel_for"))) extern
void pool_parallel_for(int count, vit_task *task, void *arg);

EXPORT(run) void run(vit_task *task, void *arg, int index);

void run(vit_task *task, void *arg, int index) {
    task(arg, index);
}

static void parallel_for(void *user, int count, vit_task *task, void *arg) {
    (void)user;
    pool_parallel_for(count, task, arg);
}

static vit_executor executor_of(int threads) {
    const vit_executor none = { 0 }, pool = { parallel_for, NULL, threads };
    return threads > 1 ? pool : none;
}

#else

static vit_executor executor_of(int threads) {
    const vit_executor none = { 0 };
    (void)threads;
    return none;
}

#endif

/* --- opening ---------------------------------------------------------------------------------- */

static vit_result allocate_buffers(classifier *c, int threads) {
    vit_params params = { 0 };
    const vit_config *config = &c->model.config;
    size_t pixels = (size_t)config->img_height * (size_t)config->img_width;
    size_t classes = (size_t)config->num_classes;
    size_t size;

    params.executor = executor_of(threads);
    size = vit_workspace_size(&c->model, &params);
    c->workspace = allocate(size);
    c->input = allocate((size_t)config->in_chans * pixels * sizeof(float));
    c->logits = allocate(classes * sizeof(float));
    c->probs = allocate(classes * sizeof(float));
    c->top = allocate(classes * sizeof(vit_prediction));
    if (!size || !c->workspace || !c->input || !c->logits || !c->probs || !c->top)
        return VIT_ERROR_MEMORY;
    return vit_session_init(&c->session, &c->model, &params, c->workspace, size);
}

classifier *classifier_open(void *data, size_t size, int threads) {
    classifier *c = allocate(sizeof *c);
    vit_result result;
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    c->data = data;
    c->error = "";
    if (vit_model_open_memory(data, size, VIT_OPEN_VERIFY, &c->model) != VIT_OK) {
        c->error = c->model.detail;
    } else if (c->model.config.num_classes == 0) {
        c->error = "names no classes";
    } else {
        result = allocate_buffers(c, threads);
        if (result != VIT_OK) c->error = vit_result_string(result);
    }
    return c;
}

/* Everything is NULL that was not allocated. */
void classifier_close(classifier *c) {
    if (!c) return;
    vit_model_close(&c->model);
    release(c->top);
    release(c->probs);
    release(c->logits);
    release(c->input);
    release(c->workspace);
    release(c->data);
    release(c);
}

const char *classifier_error(const classifier *c) {
    return c->error;
}

/* --- a photo ---------------------------------------------------------------------------------- */

static int fail(classifier *c, vit_result result) {
    c->error = vit_result_string(result);
    return 0;
}

int classifier_classify(classifier *c, const uint8_t *rgba, int width, int height) {
    const vit_image image = { rgba, width, height, 0, VIT_PIXEL_RGBA8 };
    const vit_result result = vit_preprocess(&c->model, &image, c->input, NULL, 0);
    return result == VIT_OK ? classifier_forward(c) : fail(c, result);
}

float *classifier_input(const classifier *c) {
    return c->input;
}

int classifier_forward(classifier *c) {
    const int classes = c->model.config.num_classes;
    vit_outputs outputs = { 0 };
    vit_result result;
    outputs.logits = c->logits;
    result = vit_forward(&c->session, c->input, 1, &outputs);
    if (result != VIT_OK) return fail(c, result);
    c->error = "";
    memcpy(c->probs, c->logits, (size_t)classes * sizeof(float));
    vit_scores(&c->model, c->probs);
    return vit_top_k(c->logits, classes, classes, c->top);
}

int classifier_index(const classifier *c, int place) {
    return c->top[place].index;
}

float classifier_prob(const classifier *c, int place) {
    return c->probs[c->top[place].index];
}

const char *classifier_label(const classifier *c, int place) {
    const char *label = vit_label(&c->model, c->top[place].index);
    return label ? label : "";
}

const float *classifier_logits(const classifier *c) {
    return c->logits;
}

const char *tier(void) {
    return vit_isa_name(vit_detect_isa());
}
