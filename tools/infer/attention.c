#include "infer/attention.h"

#include <stdint.h>
#include <stdlib.h>

#include "numbers/tokens.h"

/* The memory in bytes for the attention maps of several blocks. A rollout computes the maps of
 * as many blocks as fit into this memory, and runs the model again for each further group of
 * blocks. */
#ifndef ATTENTION_BYTES
#define ATTENTION_BYTES ((size_t)512 << 20)
#endif
/* The largest number of blocks whose maps are computed in one run of the model. */
enum { MAX_BLOCKS = 64 };

bool attention_check(const vit_config *config, report *r) {
    if (config->depth == 0) return report_fail(r, "the model has no blocks, so no attention");
    if (config->attention == VIT_ATTENTION_SELF)
        return report_fail(r, "there is no attention to show: each token of this model attends "
                              "only to itself");
    return true;
}

static size_t map_floats(const vit_config *c) {
    return (size_t)c->num_heads * (size_t)c->num_tokens * (size_t)c->num_tokens;
}

/* Computes the attention maps of `count` blocks, beginning with block `first`. `maps` receives
 * [count, num_heads, num_tokens, num_tokens] values. */
static bool read_maps(vit_session *session, const float *input, int first, int count, float *maps,
                      report *r) {
    vit_block_output blocks[MAX_BLOCKS];
    vit_outputs outputs = { 0 };
    vit_result result;
    for (int i = 0; i < count; i++) {
        blocks[i] = (vit_block_output){ NULL, NULL, first + i, 0 };
        blocks[i].attention = maps + (size_t)i * map_floats(&session->model->config);
    }
    outputs.blocks = blocks;
    outputs.num_blocks = count;
    result = vit_forward(session, &(vit_input){ .pixels = input }, &outputs);
    return result == VIT_OK || report_fail(r, "%s", vit_result_string(result));
}

/* The memory that attention_read uses, for one block or for a rollout. */
typedef struct work {
    float *maps;
    double *shares, *scratch;
    /* The number of blocks whose maps fit into `maps`. */
    int blocks;
} work;

static bool work_take(work *w, const vit_config *c, bool rollout, report *r) {
    const size_t tokens = (size_t)c->num_tokens;
    const uint64_t each = (uint64_t)c->num_heads * tokens * tokens *
                          sizeof(float); /* `each` is at most 2^44. */
    if (each > SIZE_MAX) return report_no_memory(r);
    w->blocks = 1;
    while (rollout && w->blocks < c->depth && w->blocks < MAX_BLOCKS &&
           (uint64_t)(w->blocks + 1) * each <= ATTENTION_BYTES)
        w->blocks++;
    w->maps = malloc((size_t)w->blocks * (size_t)each);
    w->shares = malloc(3 * tokens * sizeof *w->shares);
    w->scratch = w->shares ? w->shares + tokens : NULL;
    return (w->maps && w->shares) || report_no_memory(r);
}

static void put(const double *shares, int num_tokens, float *to) {
    for (int i = 0; i < num_tokens; i++) to[i] = (float)shares[i];
}

static bool read_heads(vit_session *session, const float *input, const attention_choice *choice,
                       const work *w, float *shares, report *r) {
    const vit_config *c = &session->model->config;
    const size_t tokens = (size_t)c->num_tokens;
    if (!read_maps(session, input, choice->block, 1, w->maps, r)) return false;
    for (int h = 0; h < c->num_heads; h++) {
        rollout_begin(w->shares, c->num_tokens, choice->from);
        rollout_head(w->shares, w->maps + (size_t)h * tokens * tokens, c->num_tokens, w->scratch);
        put(w->shares, c->num_tokens, shares + (size_t)h * tokens);
    }
    return true;
}

static bool read_rollout(vit_session *session, const float *input, const attention_choice *choice,
                         const work *w, float *shares, report *r) {
    const vit_config *c = &session->model->config;
    int end = c->depth;
    rollout_begin(w->shares, c->num_tokens, choice->from);
    while (end > 0) {
        const int first = end > w->blocks ? end - w->blocks : 0;
        if (!read_maps(session, input, first, end - first, w->maps, r)) return false;
        while (end > first) {
            end--;
            rollout_block(w->shares, w->maps + (size_t)(end - first) * map_floats(c), c->num_heads,
                          c->num_tokens, w->scratch);
        }
    }
    put(w->shares, c->num_tokens, shares);
    return true;
}

bool attention_read(vit_session *session, const float *input, const attention_choice *choice,
                    float *shares, report *r) {
    work w = { NULL, NULL, NULL, 0 };
    const bool good = work_take(&w, &session->model->config, choice->rollout, r) &&
                      (choice->rollout ? read_rollout : read_heads)(session, input, choice, &w,
                                                                    shares, r);
    free(w.maps);
    free(w.shares);
    return good;
}

void attention_map(const vit_config *config, const float *shares, int rows, int only, float *map) {
    const size_t tokens = (size_t)config->num_tokens;
    for (int i = 0; i < config->num_patches; i++) {
        const float *column = shares + config->num_prefix_tokens + i;
        double sum = 0;
        for (int row = 0; row < rows; row++)
            if (only < 0 || row == only) sum += (double)column[(size_t)row * tokens];
        map[i] = (float)(only < 0 ? sum / rows : sum);
    }
}
