/* test_text.c - compares text encoders with PyTorch. It converts the models of tests/make_text.py
 * to every type, and runs them on every instruction set, with one text and with several, both short
 * texts and texts padded to the full context.
 *
 *     test_text tests/data
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/npy.h"
#include "convert/conversion.h"
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

static const char *data;
static char folder[] = "/tmp/test_text.XXXXXX", output[64];

static bool convert(const char *name, vit_dtype dtype) {
    convert_options o = { .output = output, .quiet = true, .dtype = dtype };
    conversion *c = calloc(1, sizeof *c);
    report r = report_make();
    char path[512], tokenizer[512], config[512];
    bool good;
    snprintf(path, sizeof path, "%s/text/%s/model.safetensors", data, name);
    snprintf(tokenizer, sizeof tokenizer, "%s/text/tokenizer", data);
    snprintf(config, sizeof config, "%s/text/%s/config.json", data, name);
    o.checkpoint = path;
    o.config = config;
    o.tokenizer = tokenizer;
    settings_start(&o.given, "--set");
    /* The files do not contain the number of heads of MobileCLIP's image encoder. */
    settings_put(&o.given, SETTING_NUM_HEADS, 2);
    good = c && convert_run(&o, c, &r);
    CHECK_MSG(good, "%s: %s", name, r.text);
    if (c) convert_free(c);
    free(c);
    return good;
}

/* Returns the largest difference, relative to the largest expected value. */
static double distance(const float *found, const npy_array *expected) {
    double most = 0, largest = 0;
    for (size_t i = 0; i < expected->count; i++) {
        most = fmax(most, fabs((double)found[i] - (double)expected->data[i]));
        largest = fmax(largest, fabs((double)expected->data[i]));
    }
    return most / largest;
}

/* Runs all texts in one call of vit_forward. `numbers` contains the ids as integers. If `numbers`
 * is NULL, the ids are passed as floats. */
static void run(vit_session *session, const npy_array *ids, const int *numbers, float *found) {
    vit_input in = { 0 };
    vit_outputs out = { 0 };
    in.batch = (int)ids->dims[0];
    if (numbers) in.ids = numbers;
    else in.pixels = ids->data;
    out.embedding = found;
    CHECK(vit_forward(session, &in, &out) == VIT_OK);
}

static void drop(void *user, const char *name, const float *values, const int shape[4]) {
    (void)user, (void)name, (void)values, (void)shape;
}

/* Compares with PyTorch's result. The batch, a trace and the type of the ids must change no bit. */
static void test_session(const vit_model *text, vit_isa isa, const npy_array *ids,
                         const int *numbers, const npy_array *expected, double tolerance) {
    const size_t bytes = expected->count * sizeof(float);
    float *found = calloc(expected->count, sizeof *found), *again = malloc(bytes);
    vit_params params = { 0 };
    for (int kind = 0; found && again && kind < 4; kind++) {
        vit_session session;
        params.isa = isa;
        params.low_memory = kind == 1;
        params.trace = kind == 2 ? drop : NULL;
        params.batch = kind == 3 ? 3 : 0;
        CHECK(vit_session_init(&session, text, &params, NULL, 0) == VIT_OK);
        run(&session, ids, kind == 1 ? NULL : numbers, kind ? again : found);
        if (kind == 0)
            CHECK_MSG(distance(found, expected) <= tolerance, "%s: %g, at most %g",
                      vit_isa_name(isa), distance(found, expected), tolerance);
        else CHECK_MSG(!memcmp(found, again, bytes), "%s, way %d", vit_isa_name(isa), kind);
        vit_session_close(&session);
    }
    free(found);
    free(again);
}

static void test_refusals(vit_session *session, const int *numbers) {
    const int context = session->model->config.img_width;
    float logits[64];
    vit_input in = { 0 };
    vit_outputs out = { 0 };
    int *wrong = malloc((size_t)context * sizeof *wrong);
    out.embedding = logits;
    if (!wrong) return;
    memcpy(wrong, numbers, (size_t)context * sizeof *wrong);
    in.ids = wrong;
    CHECK(vit_forward(session, &in, &out) == VIT_OK);
    wrong[context - 1] = session->model->config.vocab_size;
    CHECK(vit_forward(session, &in, &out) == VIT_ERROR_ARGUMENT);
    wrong[context - 1] = -1;
    CHECK(vit_forward(session, &in, &out) == VIT_ERROR_ARGUMENT);
    free(wrong);
}

/* Tests "The  cat". In the tokenizer of make_text.py, its ids are begin, "the", "cat" and end,
 * followed by padding. */
static void test_easy(const vit_model *model, const vit_model *text) {
    static const int begin = 520, end = 521, the = 517, cat = 513;
    vit_tokenizer tokenizer;
    vit_session session;
    vit_input in = { 0 };
    vit_outputs out = { 0 };
    float easy[64], found[64];
    int ids[16];
    const size_t bytes = (size_t)vit_embedding_dim(text) * sizeof(float);
    vit_model wider = *model, other;
    wider.config.representation_dim = vit_embedding_dim(model) + 1;
    CHECK(vit_model_text(&wider, 0, &other) == VIT_ERROR_CORRUPT);
    CHECK(strstr(other.detail, "another width") != NULL);
    CHECK(vit_model_tokenizer(text, &tokenizer) == VIT_OK);
    for (int i = 0; i < 16; i++) ids[i] = tokenizer.pad < 0 ? 0 : tokenizer.pad;
    ids[0] = begin, ids[1] = the, ids[2] = cat, ids[3] = end;
    in.ids = ids;
    out.embedding = found;
    CHECK(vit_session_init(&session, text, NULL, NULL, 0) == VIT_OK);
    CHECK(vit_forward(&session, &in, &out) == VIT_OK);
    vit_session_close(&session);
    CHECK(vit_text_embed(model, " The\tcat\n", easy) == VIT_OK);
    CHECK(memcmp(easy, found, bytes) == 0);
    CHECK(vit_text_embed(text, "the cat", easy) == VIT_OK);
    CHECK(memcmp(easy, found, bytes) == 0);
    found[0] = 0.25f, found[1] = -0.5f;
    vit_text_scores(text, found, 2);
    if (text->config.head_activation == VIT_HEAD_SIGMOID)
        CHECK(fabsf(found[0] - 1 / (1 + expf(-(text->config.logit_scale * 0.25f +
                                               text->config.logit_bias)))) < 1e-6f);
    else CHECK(fabsf(found[0] - 1 / (1 + expf(-0.75f * text->config.logit_scale))) < 1e-6f);
    vit_text_scores(text, found, 0);
    vit_text_scores(NULL, found, 2);
    CHECK(vit_text_embed(model, "the dog", easy) == VIT_OK);
    CHECK(memcmp(easy, found, bytes) != 0);
    CHECK(vit_text_embed(model, "\xff", easy) == VIT_ERROR_ARGUMENT);
    CHECK(vit_text_embed(model, NULL, easy) == VIT_ERROR_ARGUMENT);
    CHECK(vit_model_tokenizer(model, &tokenizer) == VIT_ERROR_UNSUPPORTED);
}

static void test_model(const char *name, vit_dtype dtype, double tolerance) {
    char path[512];
    npy_array ids, expected;
    vit_model model, text;
    report r = report_make();
    int *numbers;
    if (!convert(name, dtype)) return;
    snprintf(path, sizeof path, "%s/text/%s/ids.npy", data, name);
    CHECK_MSG(npy_read(path, &ids, &r), "%s", r.text);
    snprintf(path, sizeof path, "%s/text/%s/expected.npy", data, name);
    CHECK_MSG(npy_read(path, &expected, &r), "%s", r.text);
    CHECK_MSG(vit_model_open(output, VIT_OPEN_VERIFY, &model) == VIT_OK, "%s", model.detail);
    CHECK_MSG(vit_model_text(&model, VIT_OPEN_VERIFY, &text) == VIT_OK, "%s", text.detail);
    numbers = calloc(ids.count, sizeof *numbers);
    for (size_t i = 0; numbers && i < ids.count; i++) numbers[i] = (int)ids.data[i];
    for (int isa = 1; numbers && isa < VIT_NUM_ISAS; isa++)
        if (vit_has_isa((vit_isa)isa))
            test_session(&text, (vit_isa)isa, &ids, numbers, &expected, tolerance);
    if (numbers) {
        vit_session session;
        float *input = malloc(vit_input_size(&text) * sizeof *input), result[64], error;
        CHECK(vit_session_init(&session, &text, NULL, NULL, 0) == VIT_OK);
        test_refusals(&session, numbers);
        test_easy(&model, &text);
        CHECK(input && vit_selftest(&session, input, result, &error) == VIT_OK);
        free(input);
        vit_session_close(&session);
    }
    vit_model_close(&text);
    vit_model_close(&model);
    free(numbers);
    npy_free(&ids);
    npy_free(&expected);
}

/* Tests an image encoder alone. It must have no text encoder, and must refuse ids. */
static void test_image(void) {
    vit_model model, text;
    vit_session session;
    vit_input in = { 0 };
    vit_outputs out = { 0 };
    const int ids[1] = { 0 };
    float logits[16];
    char path[512];
    snprintf(path, sizeof path, "%s/../../models/fashion-vit.vit", data);
    CHECK(vit_model_open(path, 0, &model) == VIT_OK);
    CHECK(vit_model_text(&model, 0, &text) == VIT_ERROR_UNSUPPORTED);
    CHECK(strstr(text.detail, "no text encoder") != NULL);
    CHECK(vit_session_init(&session, &model, NULL, NULL, 0) == VIT_OK);
    in.ids = ids;
    out.logits = logits;
    CHECK(vit_forward(&session, &in, &out) == VIT_ERROR_ARGUMENT);
    vit_session_close(&session);
    vit_model_close(&model);
}

int main(int argc, char **argv) {
    static const char *const names[] = { "hf_clip", "open_clip", "hf_siglip", "open_clip_siglip",
                                         "mobileclip" };
    static const struct {
        vit_dtype dtype;
        double tolerance;
    } types[] = {
        { VIT_F32, 1e-6 }, { VIT_F16, 1e-6 }, { VIT_BF16, 2e-2 }, { VIT_I8, 2e-2 }, { VIT_I4, 0.25 }
    };
    data = argc > 1 ? argv[1] : "tests/data";
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(output, sizeof output, "%s/model.vit", folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            test_model(names[i], types[k].dtype, types[k].tolerance);
    test_image();
    remove(output);
    rmdir(folder);
    return test_summary();
}
