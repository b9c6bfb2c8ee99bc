/* fuzz_code.c - reads the input as an author's Python, or as a notebook, beside a small checkpoint.
 * The first byte of the input chooses one of these two forms. Each finding must be a single line of
 * text with its place in the file.
 */
#include "fuzz.h"

#include "../named_tensors.h"
#include "convert/conversion.h"

static checkpoint *open_model(void) {
    static const char *const names[] = {
        "cls_token",
        "positions",
        "embed.weight",
        "embed.bias",
        "blocks.0.norm1.weight",
        "blocks.0.attn.qkv.weight",
        "blocks.0.attn.proj.weight",
        "blocks.0.mlp.0.weight",
        "blocks.0.mlp.2.weight",
        "last.weight",
        "head.weight",
        "head.bias",
    };
    static checkpoint *c;
    static const int dims[4] = { 24, 24 };
    named_tensors tensors = { 0 };
    report r = report_make();
    size_t size;
    if (c) return c;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) named_add(&tensors, names[i], dims);
    if (!checkpoint_open_memory("input", named_file(&tensors, &size), size, &c, &r)) exit(1);
    return c;
}

static void check(const code_found *found) {
    for (size_t i = 0; i < found->count; i++) {
        const checkpoint_attribute *a = &found->items[i];
        fuzz_require(!strpbrk(a->name, "\n\r") && !strpbrk(a->value, "\n\r"), "one line");
        fuzz_require(!strncmp(a->where, "model.py:", 9), "a place in the file");
        fuzz_require(!strchr(a->where, '\n'), "the place is one line");
    }
    fuzz_require(!found->count || found->model, "the class that fits has a name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static settings all[FROM_COUNT];
    report r = report_make();
    static attributes_told told;
    checkpoint *c = open_model();
    code_file file = { "model.py", NULL, 0 };
    code_found found;
    char *text;
    if (size < 1) return 0;
    text = (char *)fuzz_copy(data + 1, size - 1);
    file.size = size - 1;
    if (data[0] & 1) {
        text = realloc(text, size); /* with room for a NUL */
        if (!text) exit(1);
        if (!code_from_notebook(text, &file.size)) file.size = 0;
        fuzz_require(file.size < size, "the cells are in the notebook");
    }
    file.text = text;
    if (code_read(c, &file, 1, &found, &r)) {
        check(&found);
        memset(all, 0, sizeof all);
        memset(&told, 0, sizeof told);
        if (found.model) code_put(c, "embed.weight", &found, all, &told);
    } else {
        fuzz_require(r.text[0] != '\0', "a refusal says why");
    }
    code_free(&found);
    free(text);
    return 0;
}
