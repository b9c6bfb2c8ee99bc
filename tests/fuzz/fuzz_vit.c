/* fuzz_vit.c - reads the input as a byte of switches and a .vit file. The switches decide if the
 * size and the checksum are corrected before the file is opened, and if an accepted model is run.
 */
#include "fuzz_model.h"

enum { VERIFY = 4, RUN = 8, LOW_MEMORY = 16, RESIZE = 32 };
enum { MAX_WORKSPACE = 1 << 18, MAX_PIXELS = 1 << 14, MAX_ROW = 1 << 12, MAX_PREPROCESS = 1 << 18 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return fuzz_mutate_model(data, size, max_size, seed, 1);
}

/* --- running an accepted model ----------------------------------------------- */

static void read_strings(const vit_model *model) {
    size_t length = strlen(vit_source(model));
    for (int i = -1; i < 16; i++) {
        const char *label = vit_label(model, i), *synset = vit_synset(model, i);
        length += (label ? strlen(label) : 0) + (synset ? strlen(synset) : 0);
    }
    fuzz_require(length < SIZE_MAX / 2, "strings end");
}

static void unpack(const vit_model *model) {
    float row[MAX_ROW];
    vit_tensor t;
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        const size_t count = tiny_count(&t) / (size_t)t.dims[0];
        if (count <= MAX_ROW) vit_unpack_row(&t, t.dims[0] - 1, row);
    }
}

static void forward(const vit_model *model, uint8_t switches) {
    const vit_config *c = &model->config;
    const size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    vit_params params;
    vit_session session;
    float error;
    memset(&params, 0, sizeof params);
    params.low_memory = (switches & LOW_MEMORY) != 0;
    const size_t size = vit_workspace_size(model, &params);
    if (size == 0 || size > MAX_WORKSPACE || pixels > MAX_PIXELS) return;
    void *workspace = malloc(size);
    float *input = malloc(pixels * sizeof *input);
    const int width = c->num_classes ? c->num_classes : vit_embedding_dim(model);
    float *output = malloc((size_t)width * sizeof *output);
    if (!workspace || !input || !output) exit(1);
    fuzz_require(vit_session_init(&session, model, &params, workspace, size - 1) ==
                     VIT_ERROR_MEMORY,
                 "a byte less is refused");
    fuzz_require(vit_session_init(&session, model, &params, workspace, size) == VIT_OK,
                 "the size that it asked for is enough");
    vit_selftest(&session, input, output, &error);
    free(output);
    free(input);
    free(workspace);
}

static void classify(const vit_model *model) {
    static const uint8_t pixels[5 * 7 * 3] = { 200, 100, 50 };
    const vit_image image = { pixels, 7, 5, 0, VIT_PIXEL_RGB8 };
    const vit_config *c = &model->config;
    const size_t count = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    vit_prediction top[3];
    if (count > MAX_PIXELS || vit_preprocess_size(model, &image) > MAX_PREPROCESS ||
        vit_workspace_size(model, NULL) > MAX_WORKSPACE)
        return;
    if (vit_classify(model, &image, 3, top) == VIT_OK)
        fuzz_require(top[0].index < c->num_classes, "the best class is one of its classes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tiny_file f;
    vit_model model;
    if (size < 1) return 0;
    f = fuzz_take_model(data + 1, size - 1, data[0]);
    const unsigned flags = data[0] & VERIFY ? VIT_OPEN_VERIFY : 0;
    if (vit_model_open_memory(f.data, f.size, flags, &model) == VIT_OK) {
        read_strings(&model);
        unpack(&model);
        if (data[0] & RESIZE) vit_model_resize(&model, 12, 16);
        if (data[0] & RUN) forward(&model, data[0]);
        if (data[0] & RUN) classify(&model);
        vit_model_close(&model);
    } else {
        fuzz_require(model.detail[0] && memchr(model.detail, 0, sizeof model.detail),
                     "a refusal says why");
    }
    tiny_free(&f);
    return 0;
}
