/* words.c - the text encoder of a .vit file, as a separate WebAssembly module. Only models with a
 * text encoder need this module. words.mjs calls it.
 *
 * Pointers are offsets in the module's memory, which may grow. A function that fails returns 0.
 * web_result() and web_message() then give the reason.
 */
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "vit.h"

typedef struct web_words {
    vit_model text;
    vit_tokenizer tokenizer;
    vit_session session;
    vit_text_ids ids;
    double numbers[5];
} web_words;

/* Opens a text encoder from the bytes of its .vit file. The bytes must come from malloc(), and the
 * module owns them from then on. */
EXPORT(open) web_words *web_open(void *data, size_t size, int verify);

/* Returns five numbers: context, dim, logit_scale, logit_bias, and 1 for a sigmoid or 0 for a
 * softmax. */
EXPORT(numbers) const double *web_numbers(const web_words *w);

/* Computes the embedding [dim] of a text of `size` bytes. numbers [2] receives the number of ids,
 * and the number of ids that were dropped because the context was full. */
EXPORT(embed)
int web_embed(web_words *w, const char *text, size_t size, float *embedding, double numbers[2]);

EXPORT(result) int web_result(void);
EXPORT(result_string) const char *web_result_string(int result);
EXPORT(message) const char *web_message(void);

static vit_result last_result;
static const char *last_message = "";

static int check(vit_result result, const char *message) {
    last_result = result;
    last_message = message;
    return result == VIT_OK;
}

int web_result(void) { return last_result; }

const char *web_result_string(int result) { return vit_result_string((vit_result)result); }

const char *web_message(void) { return last_message; }

void *web_allocate(size_t size) { return malloc(size); }

void web_release(void *memory) { free(memory); }

static int start(web_words *w) {
    const vit_config *c = &w->text.config;
    const size_t size = vit_workspace_size(&w->text, NULL);
    void *workspace = malloc(size);
    if (!check(vit_model_tokenizer(&w->text, &w->tokenizer), "the tokenizer")) return 0;
    w->ids.ids = malloc((size_t)w->tokenizer.context * sizeof(int));
    if (!workspace || !w->ids.ids) return check(VIT_ERROR_MEMORY, "");
    w->numbers[0] = w->tokenizer.context;
    w->numbers[1] = vit_embedding_dim(&w->text);
    w->numbers[2] = (double)c->logit_scale;
    w->numbers[3] = (double)c->logit_bias;
    w->numbers[4] = c->head_activation == VIT_HEAD_SIGMOID;
    return check(vit_session_init(&w->session, &w->text, NULL, workspace, size), "");
}

/* A module serves only one file, so nothing is freed after a failure. */
web_words *web_open(void *data, size_t size, int verify) {
    web_words *w = calloc(1, sizeof *w);
    vit_result result;
    if (!w) {
        (void)check(VIT_ERROR_MEMORY, "");
        return NULL;
    }
    result = vit_model_open_memory(data, size, verify ? VIT_OPEN_VERIFY : 0, &w->text);
    return check(result, w->text.detail) && start(w) ? w : NULL;
}

const double *web_numbers(const web_words *w) { return w->numbers; }

int web_embed(web_words *w, const char *text, size_t size, float *embedding, double numbers[2]) {
    const size_t room = vit_tokenize_size(&w->tokenizer, size);
    const vit_input in = { .ids = w->ids.ids };
    const vit_outputs out = { .embedding = embedding };
    void *scratch = room ? malloc(room) : NULL;
    vit_result result = VIT_ERROR_MEMORY;
    if (scratch) result = vit_tokenize(&w->tokenizer, text, size, scratch, room, &w->ids);
    free(scratch);
    numbers[0] = w->ids.num_ids;
    numbers[1] = (double)w->ids.num_cut;
    return check(result ? result : vit_forward(&w->session, &in, &out), "");
}
