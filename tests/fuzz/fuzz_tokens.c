/* fuzz_tokens.c - reads the input as a tokenizer and a text, or as a tokenizer's file. The lowest
 * two bits of the first byte choose a tokenizer or one of three kinds of files. The other bits give
 * the size of the text, which is at the end of the input. */
#define _GNU_SOURCE
#include "fuzz_path.h"
#include "text/token_plan.h"

static void tokenize(const uint8_t *data, size_t size, const char *text, size_t text_size) {
    vit_tokenizer t;
    vit_text_ids ids;
    size_t scratch_size;
    uint8_t *scratch;
    if (vit_tokenizer_open(data, size, &t)) return;
    scratch_size = vit_tokenize_size(&t, text_size);
    ids.ids = malloc((size_t)t.context * sizeof *ids.ids);
    scratch = malloc(scratch_size);
    if (!ids.ids || !scratch) exit(1);
    if (!vit_tokenize(&t, text, text_size, scratch, scratch_size, &ids)) {
        const int n = ids.num_ids;
        fuzz_require(n >= 0 && n <= t.context, "ids within the context");
        for (int i = 0; i < (t.pad >= 0 ? t.context : n); i++)
            fuzz_require(ids.ids[i] >= 0 && ids.ids[i] < t.num_ids, "an id of the vocabulary");
        fuzz_require(ids.num_cut == 0 || n == t.context, "only beyond the context");
    }
    for (int i = 0; i < 100; i++) {
        size_t example_size;
        const char *example = vit_tokenizer_example(&t, i, &example_size, &ids);
        if (!example) break;
        fuzz_require(example_size <= size && ids.num_ids <= t.context,
                     "an example is within the file");
    }
    free(ids.ids);
    free(scratch);
}

static void read_file(int kind, const uint8_t *data, size_t size, const char *text,
                      size_t text_size) {
    const char *path = fuzz_path(data, size);
    report r = report_make();
    tokenizer_blob blob = { 0 };
    text_facts facts = { 0 };
    tplan p;
    bool precompiled, good;
    tplan_start(&p);
    if (kind == 1) good = spiece_read(&p, path, text_size & 1, &r);
    else if (kind == 2) good = json_tokenizer_read(&p, path, &facts, &precompiled, &r);
    else good = clip_read_bpe(&p, path, &r);
    if (good) {
        if (p.context < 2 || p.context > 65536) p.context = 16;
        if (kind == 3) p.split = TPLAN_SPLIT_CLASSES;
        good = tplan_write(&p, &blob, &r);
    }
    fuzz_require(good || r.text[0], "a refusal says why");
    if (good) tokenize(blob.data, blob.size, text, text_size);
    free(blob.data);
    tplan_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t text_size;
    uint8_t *copy;
    if (size < 1) return 0;
    text_size = data[0] >> 2;
    if (text_size > size - 1) text_size = size - 1;
    copy = fuzz_copy(data + 1, size - 1 - text_size);
    if (data[0] & 3)
        read_file(data[0] & 3, copy, size - 1 - text_size, (const char *)data + size - text_size,
                  text_size);
    else tokenize(copy, size - 1 - text_size, (const char *)data + size - text_size, text_size);
    free(copy);
    return 0;
}
