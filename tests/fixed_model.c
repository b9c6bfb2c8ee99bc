/* fixed_model.c MODEL [OTHER] - prints the bits of what a model makes of a fixed input.
 * test_fixed.sh builds it for any model, and with VIT_FIXED for the one whose header it includes;
 * OTHER is a model that such a build must refuse.
 */
#include <stdio.h>
#include <stdlib.h>

#define VIT_IMPLEMENTATION
#include "../vit.h"

static unsigned char *read_file(const char *path, size_t *size)
{
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

static int run(vit_model *model)
{
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
        vit_forward(&session, input, 1, &outputs))
        return 1;
    for (i = 0; i < OUTPUT; i++) {
        uint32_t bits;
        memcpy(&bits, &output[i], 4);
        printf("%08lx\n", (unsigned long)bits);
    }
    free(workspace);
    return 0;
}

int main(int argc, char **argv)
{
    size_t size = 0, other_size = 0;
    unsigned char *bytes = argc > 1 ? read_file(argv[1], &size) : NULL;
    unsigned char *other = argc > 2 ? read_file(argv[2], &other_size) : NULL;
    vit_model model;
    int status = 0;
    if (!bytes || vit_model_open_memory(bytes, size, 0, &model) != VIT_OK) return 2;
    status = run(&model);
    vit_model_close(&model);
    if (argc > 2 && (!other || vit_model_open_memory(other, other_size, 0, &model) !=
                                   VIT_ERROR_UNSUPPORTED))
        status = 3;
    free(bytes);
    free(other);
    return status;
}
