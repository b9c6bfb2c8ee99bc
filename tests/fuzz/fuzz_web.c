/* fuzz_web.c - calls the exports of the WebAssembly module in a native build. The input is eight
 * numbers, and then a .vit file as in fuzz_vit. If the file is accepted, the fuzzer makes most
 * calls that a page makes. The numbers choose the photo, block, patch and head.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "fuzz_model.h"

#include "../../examples/web/vit/module.c"

enum { NUMBERS = 8, VERIFY = 4 };
enum { MAX_WORKSPACE = 1 << 18, MAX_INPUT = 1 << 14, MAX_PREPROCESS = 1 << 18, MAX_MAP = 1 << 16 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return fuzz_mutate_model(data, size, max_size, seed, NUMBERS);
}

/* Returns false for models that need much memory or time. */
static bool is_small(const vit_model *model) {
    const vit_config *c = &model->config;
    const size_t input = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    const size_t workspace = vit_workspace_size(model, NULL);
    const size_t tokens = (size_t)c->num_tokens;
    return workspace <= MAX_WORKSPACE && input <= MAX_INPUT && c->num_classes <= MAX_MAP &&
           tokens * tokens * (size_t)c->num_heads <= MAX_MAP &&
           tokens * (size_t)c->embed_dim <= MAX_MAP;
}

static bool opens_small(const tiny_file *f) {
    vit_model model;
    bool small = true; /* or refused */
    if (vit_model_open_memory(f->data, f->size, 0, &model) == VIT_OK) {
        small = is_small(&model);
        vit_model_close(&model);
    }
    return small;
}

static float *take_floats(size_t count) {
    float *values = malloc(count * sizeof *values);
    if (!values) exit(1);
    return values;
}

static void require_reason(int good) {
    fuzz_require(good || (web_result() < 0 && *web_message() && *web_result_string(web_result())),
                 "a refusal says why");
}

/* Preprocesses a photo. Its pixels lie in a block of exactly the needed size. */
static void see(web_model *m, const uint8_t *n) {
    static const int sizes[] = { 3, 4, 1, 3, 4 };
    const int width = n[1] % 40, height = n[2] % 40, format = n[3] % 7 - 1;
    const int row = width * (format >= 0 && format < 5 ? sizes[format] : 4);
    const int stride = n[3] & 128 ? row + n[3] % 5 : 0;
    const vit_image image = { NULL, width, height, stride, VIT_PIXEL_RGB8 };
    const size_t size = (size_t)(stride ? stride : row) * (size_t)height;
    uint8_t *pixels = calloc(size + 1, 1);
    if (!pixels) exit(1);
    if (vit_preprocess_size(&m->model, &image) <= MAX_PREPROCESS)
        require_reason(web_preprocess(m, pixels, width, height, stride, format));
    free(pixels);
}

static void compute(web_model *m, const uint8_t *n) {
    const int *s = web_sizes(m);
    const size_t dims = (size_t)s[WEB_TOKENS] * (size_t)s[WEB_DIM];
    const size_t maps = (size_t)s[WEB_HEADS] * (size_t)s[WEB_TOKENS] * (size_t)s[WEB_TOKENS];
    float *tokens = take_floats(dims), *map = take_floats(maps), *more = take_floats(dims);
    float *embedding = take_floats((size_t)s[WEB_EMBEDDING]);
    const vit_block_output block = { more, map, (int)(int8_t)n[4], 0 };
    float *const outputs[3] = { NULL, embedding, tokens };
    const int best = web_classify(m, n[5] % 20);
    require_reason(best);
    for (int i = 0; i < best; i++)
        fuzz_require(web_top(m)[i].index < s[WEB_CLASSES], "the best class is one of its classes");
    if (s[WEB_CLASSES]) web_scores(m, m->logits);
    require_reason(web_forward(m, outputs, &block, n[0] & 64 ? 1 : 0));
    free(embedding);
    free(more);
    free(map);
    free(tokens);
}

static void look(web_model *m, const uint8_t *n) {
    const int *s = web_sizes(m), patches = s[WEB_ROWS] * s[WEB_COLUMNS];
    const size_t all = (size_t)patches * (size_t)s[WEB_DIM];
    float *values = take_floats(all), *to = take_floats(3 * (size_t)patches);
    float *cosines = take_floats((size_t)patches * (size_t)patches);
    const vit_grid grid = { s[WEB_ROWS], s[WEB_COLUMNS] };
    double numbers[14]; /* web_crop writes 14 numbers; other functions write fewer */
    int found[3];
    memset(numbers, 0, sizeof numbers);
    for (size_t i = 0; i < all; i++) values[i] = (float)(i * n[6] % 251);
    require_reason(web_attention(m, n[4] % 5 - 2, (int)(int8_t)n[5], n[6] % 5 - 2, to));
    require_reason(web_components(m, values, &grid, 1, n[0] & 32, to, numbers));
    require_reason(web_positions(m, n[4] % 5 - 2, (int)(int8_t)n[7], cosines, found));
    require_reason(web_crop(m, n[1] * 5000, n[2], numbers));
    const int patch = web_patch_at(m, n[1], n[2], numbers[0] + n[5], numbers[1] + n[6]);
    fuzz_require(patch >= -1 && patch < patches, "a patch is one of its patches");
    web_similarity(values, values, patches, s[WEB_DIM], to);
    free(cosines);
    free(to);
    free(values);
}

static void inform(const web_model *m) {
    report r = report_make();
    json_document document;
    char *text = web_info(m);
    if (!text) exit(1);
    const bool good = json_parse(&document, text, strlen(text), true, 0, &r);
    fuzz_require(good, "the card is JSON");
    json_free(&document);
    web_release(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < NUMBERS) return 0;
    tiny_file f = fuzz_take_model(data + NUMBERS, size - NUMBERS, data[0]);
    if (opens_small(&f)) {
        uint8_t *bytes = web_allocate(f.size);
        if (!bytes) exit(1);
        if (f.size > 0) memcpy(bytes, f.data, f.size);
        web_model *m = web_open(bytes, f.size, 1, data[0] & VERIFY);
        require_reason(m != NULL);
        if (m) {
            inform(m);
            see(m, data);
            compute(m, data);
            look(m, data);
        }
        web_close(m);
    }
    tiny_free(&f);
    return 0;
}
