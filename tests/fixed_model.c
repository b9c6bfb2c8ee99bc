/* fixed_model.c MODEL [OTHER] - prints the bits of a model's outputs for a fixed input.
 * test_fixed.sh builds this program twice: for any model, and with VIT_FIXED for the one model
 * whose header is included. The second build must refuse the model OTHER, a MODEL with a moved
 * tensor, and outputs that the build omits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(VIT_FIXED)
#define VIT_IMPLEMENTATION
#endif
#define VIT_TOOLS
#include "../vit.h"

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long end;
    if (!file) return NULL;
    if (!fseek(file, 0, SEEK_END) && (end = ftell(file)) > 0 && !fseek(file, 0, SEEK_SET)) {
        *size = (size_t)end;
        bytes = (unsigned char *)malloc(*size);
        if (bytes && fread(bytes, 1, *size, file) != *size) *size = 0;
    }
    fclose(file);
    return bytes;
}

static void put(unsigned char *at, uint64_t value) {
    int i;
    for (i = 0; i < 8; i++) at[i] = (unsigned char)(value >> (8 * i));
}

/* Changes the place that the metadata gives for the first tensor, and corrects the checksum of the
 * metadata. */
static void displace(unsigned char *bytes, const vit_model *model) {
    const size_t meta_size = (size_t)(model->data[VIT_HEADER_META_SIZE]) |
                             (size_t)(model->data[VIT_HEADER_META_SIZE + 1]) << 8 |
                             (size_t)(model->data[VIT_HEADER_META_SIZE + 2]) << 16;
    vit_hash hash;
    put(bytes + (model->tensors - model->data) + VIT_TENSOR_OFFSET, 1);
    put(bytes + VIT_HEADER_CHECKSUM, 0);
    vit_hash_init(&hash);
    vit_hash_update(&hash, bytes, meta_size);
    put(bytes + VIT_HEADER_CHECKSUM, vit_hash_final(&hash));
}

#if defined(VIT_LOGITS_ONLY)
static int accepts_more(vit_session *session, const float *input, float *output) {
    static const unsigned char mask[65536];
    vit_block_output block;
    vit_outputs none, tokens, blocks;
    memset(&none, 0, sizeof none);
    memset(&block, 0, sizeof block);
    tokens = blocks = none;
    tokens.tokens = block.attention = output;
    blocks.blocks = &block;
    blocks.num_blocks = 1;
    return vit_forward(session, &(vit_input){ .pixels = input }, &tokens) != VIT_ERROR_ARGUMENT ||
           vit_forward(session, &(vit_input){ .pixels = input }, &blocks) != VIT_ERROR_ARGUMENT ||
           vit_forward(session, &(vit_input){ .pixels = input, .mask = mask }, &none) !=
               VIT_ERROR_ARGUMENT;
}
#endif

static int run(vit_model *model) {
    static float input[INPUT], output[OUTPUT];
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    uint32_t state = 1;
    void *workspace;
    int i;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.low_memory = 1;
    if (HAS_HEAD) outputs.logits = output;
    else outputs.embedding = output;
    for (i = 0; i < INPUT; i++) {
        state = state * 1664525u + 1013904223u;
        input[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    if (vit_workspace_size(model, &params) != WORKSPACE) return 4;
    workspace = malloc(WORKSPACE);
    if (vit_session_init(&session, model, &params, workspace, WORKSPACE) ||
        vit_forward(&session, &(vit_input){ .pixels = input }, &outputs))
        return 1;
#if defined(VIT_LOGITS_ONLY)
    if (accepts_more(&session, input, output)) return 5;
#endif
    for (i = 0; i < OUTPUT; i++) {
        uint32_t bits;
        memcpy(&bits, &output[i], 4);
        printf("%08lx\n", (unsigned long)bits);
    }
    free(workspace);
    return 0;
}

int main(int argc, char **argv) {
    size_t size = 0, other_size = 0;
    unsigned char *bytes = argc > 1 ? read_file(argv[1], &size) : NULL;
    unsigned char *other = argc > 2 ? read_file(argv[2], &other_size) : NULL;
    vit_model model;
    int status = 0;
    if (!bytes || vit_model_open_memory(bytes, size, 0, &model) != VIT_OK) return 2;
    status = run(&model);
    displace(bytes, &model);
    vit_model_close(&model);
    if (vit_model_open_memory(bytes, size, 0, &model) != VIT_ERROR_CORRUPT) status = 6;
    if (argc > 2 &&
        (!other || vit_model_open_memory(other, other_size, 0, &model) != VIT_ERROR_UNSUPPORTED))
        status = 3;
    free(bytes);
    free(other);
    return status;
}
