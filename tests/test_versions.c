/* test_versions - checks files that all versions of vit-convert wrote. A file must open, verify,
 * pass its self-test and give the recorded logits, or be refused with the recorded message.
 * tests/make_versions.sh writes the files, and tests/data/versions/list.txt lists them.
 */
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

#include <stdlib.h>
#include <string.h>

enum { INPUT = 3 * 8 * 8, CLASSES = 5 };

static unsigned char workspace[1 << 20];
static float input[INPUT], scratch[INPUT];

/* Reads the numbers of an .npy file of version 1 whose header has 128 bytes. */
static int read_input(const char *folder) {
    char path[512];
    FILE *file;
    int whole;
    snprintf(path, sizeof path, "%s/versions/x.npy", folder);
    file = fopen(path, "rb");
    if (!file) return 0;
    whole = fseek(file, 128, SEEK_SET) == 0 && fread(input, sizeof input, 1, file) == 1;
    fclose(file);
    return whole;
}

/* Compares the logits with the recorded ones, whose bits are in `hex`. The bits must be the same if
 * `exact` is set. Otherwise, logits may differ by less than 1e-3. */
static void compare(const char *name, int exact, const char *hex, const float *logits) {
    for (int i = 0; i < CLASSES; i++) {
        char *end;
        const uint32_t bits = (uint32_t)strtoul(hex, &end, 16);
        float expected;
        memcpy(&expected, &bits, 4);
        CHECK_MSG(end != hex, "%s: %d numbers", name, i);
        if (exact)
            CHECK_MSG(memcmp(&expected, &logits[i], 4) == 0, "%s: logit %d: %.9g, not %.9g", name,
                      i, (double)logits[i], (double)expected);
        else
            CHECK_MSG(logits[i] - expected < 1e-3f && expected - logits[i] < 1e-3f,
                      "%s: logit %d: %.9g, not %.9g", name, i, (double)logits[i], (double)expected);
        hex = end;
    }
}

static void run(const char *name, vit_model *model, int isa, const char *kind, const char *hex) {
    vit_params params = { 0 };
    vit_outputs outputs = { 0 };
    vit_session session;
    float logits[CLASSES], error = -1;
    params.isa = (vit_isa)isa;
    CHECK(vit_workspace_size(model, &params) <= sizeof workspace);
    CHECK(vit_session_init(&session, model, &params, workspace, sizeof workspace) == VIT_OK);
    /* This file stores a tolerance that is too small for types that round their inputs, so its
     * self-test fails. */
    if (strcmp(kind, "narrow") == 0)
        CHECK(vit_selftest(&session, scratch, logits, &error) == VIT_ERROR_SELFTEST &&
              error < 1e-3f);
    else
        CHECK_MSG(vit_selftest(&session, scratch, logits, &error) == VIT_OK, "%s: self-test %g",
                  name, (double)error);
    outputs.logits = logits;
    CHECK(vit_forward(&session, &(vit_input){ .pixels = input }, &outputs) == VIT_OK);
    compare(name, strcmp(kind, "bits") == 0 && !TEST_ROUNDS_TWICE(isa), hex, logits);
}

static void test_file(const char *folder, const char *name, const char *kind, const char *rest) {
    char path[512];
    vit_model model;
    vit_result result;
    snprintf(path, sizeof path, "%s/versions/%s", folder, name);
    result = vit_model_open(path, VIT_OPEN_VERIFY, &model);
    if (strcmp(kind, "refused") == 0) {
        CHECK_MSG(result == VIT_ERROR_UNSUPPORTED && strstr(model.detail, rest), "%s: %d: %s", name,
                  (int)result, model.detail);
        return;
    }
    CHECK_MSG(strstr("bits near narrow", kind) != NULL, "%s: what is %s?", name, kind);
    CHECK_MSG(result == VIT_OK, "%s: %s", name, model.detail);
    if (result) return;
    CHECK(model.config.num_classes == CLASSES && model.config.in_chans == 3);
    CHECK(model.config.img_height == 8 && model.config.img_width == 8);
    CHECK(strstr(vit_source(&model), "converter: vit-convert ") != NULL);
    FOR_EACH_ISA(isa) run(name, &model, isa, kind, rest);
    vit_model_close(&model);
}

int main(int argc, char **argv) {
    char line[512], name[64], kind[16];
    int files = 0, at;
    FILE *list;
    if (argc < 2) return 2;
    CHECK(read_input(argv[1]));
    snprintf(line, sizeof line, "%s/versions/list.txt", argv[1]);
    list = fopen(line, "r");
    CHECK(list != NULL);
    while (list && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = 0;
        CHECK_MSG(sscanf(line, "%63s %15s %n", name, kind, &at) == 2, "%s", line);
        test_file(argv[1], name, kind, line + at);
        files++;
    }
    if (list) fclose(list);
    CHECK_MSG(files >= 8, "%d files", files);
    return test_summary();
}
