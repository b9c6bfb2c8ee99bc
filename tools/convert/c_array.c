#include "convert/unpack.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#define VIT_TOOLS
#include "vit.h"

/* Makes a C identifier from the output's file name, without the folder and the suffix. */
static void make_name(const char *path, char *name, size_t size) {
    const char *start = paths_file_name(path);
    size_t i;
    snprintf(name, size, "%s%.*s", isdigit((unsigned char)*start) ? "_" : "",
             (int)strcspn(start, "."), start);
    if (!*name || !strcmp(path, "-")) snprintf(name, size, "model");
    for (i = 0; name[i]; i++)
        if (!isalnum((unsigned char)name[i])) name[i] = '_';
}

static uint64_t workspace_of(const vit_model *model, int low_memory) {
    vit_params params;
    memset(&params, 0, sizeof params);
    params.isa = VIT_ISA_SCALAR;
    params.low_memory = low_memory;
    return vit_workspace_size(model, &params);
}

static void put_head(FILE *file, const c_array_result *c, const char *upper) {
    fprintf(file,
            "/* A model as a constant array, written by vit-convert. vit.h uses it in place:\n"
            " *\n"
            " *     vit_model_open_memory(%s_data, %s_SIZE, 0, &model);\n"
            " *\n"
            " * %s_WORKSPACE bytes hold a session for one image on the plain C tier;\n"
            " * %s_WORKSPACE_LOW bytes are enough with vit_params.low_memory. An input has\n"
            " * %s_INPUT floats, an embedding %s_EMBEDDING floats, and an output\n"
            " * %s_OUTPUT floats: the logits or, without a head, the embedding. A float of\n"
            " * the input is (byte / 255 - %s_MEAN[channel]) / %s_STD[channel]. The other macros\n"
            " * are for #define VIT_FIXED %s. */\n"
            "#ifndef %s_H\n#define %s_H\n\n",
            c->name, upper, upper, upper, upper, upper, upper, upper, upper, upper, upper, upper);
    fprintf(file,
            "#define %s_SIZE %llu\n#define %s_WORKSPACE %llu\n"
            "#define %s_WORKSPACE_LOW %llu\n",
            upper, (unsigned long long)c->bytes, upper, (unsigned long long)c->workspace, upper,
            (unsigned long long)c->low_memory);
}

static void put_array(FILE *file, const c_array_result *c, const char *upper) {
    fprintf(file,
            "#if defined(_MSC_VER)\n#    define %s_ALIGN __declspec(align(%d))\n"
            "#elif defined(__GNUC__)\n#    define %s_ALIGN __attribute__((aligned(%d)))\n"
            "#else\n#    define %s_ALIGN /* place the array at a 16-byte-aligned address */\n"
            "#endif\n\n%s_ALIGN static const unsigned char %s_data[%s_SIZE] = {",
            upper, VIT_ALIGN, upper, VIT_ALIGN, upper, upper, c->name, upper);
}

/* Returns the types of all layers whose names contain `name`. Bit number d of the result is set if
 * a layer has the vit_dtype d. */
static unsigned dtypes_of(const vit_model *model, const char *name) {
    vit_tensor tensor;
    unsigned types = 0;
    int i;
    for (i = 0; vit_model_tensor(model, i, &tensor); i++)
        if (tensor.layout != VIT_LAYOUT_PLAIN && strstr(tensor.name, name))
            types |= 1u << tensor.dtype;
    return types;
}

/* Writes a macro whose value is a list of numbers, such as "#define MINE_MEAN { ... }". */
static void put_floats(FILE *file, const char *upper, const char *name, const float *x, int n) {
    int i;
    fprintf(file, "#define %s_%s { ", upper, name);
    for (i = 0; i < n; i++) fprintf(file, "%s%.8ef", i ? ", " : "", (double)x[i]);
    fprintf(file, " }\n");
}

/* Writes one member of the initialiser. The member's name becomes a comment, because C++ before
 * C++20 has no designated initialisers. */
static void put_number(FILE *file, const char *name, double value, bool is_float) {
    if (is_float) fprintf(file, "    /* %s */ %.8ef, \\\n", name, value);
    else fprintf(file, "    /* %s */ %.0f, \\\n", name, value);
}

/* Writes the macros that VIT_FIXED requires. The last one is the vit_config as an initialiser, with
 * its members in the order of their declaration. */
static void put_fixed(FILE *file, const vit_model *model, const char *upper) {
    const vit_config *c = &model->config;
    fprintf(file, "#define %s_INPUT %lld\n#define %s_OUTPUT %d\n#define %s_EMBEDDING %d\n\n", upper,
            (long long)c->in_chans * c->img_height * c->img_width, upper,
            c->num_classes ? c->num_classes : vit_embedding_dim(model), upper,
            vit_embedding_dim(model));
    fprintf(file, "#define %s_VERSION %d\n#define %s_SIGNATURE 0x%016llxull\n", upper, VIT_VERSION,
            upper, (unsigned long long)vit_model_signature(model));
    fprintf(file, "#define %s_DTYPES %uu\n#define %s_ATTENTION %uu\n", upper, dtypes_of(model, ""),
            upper, dtypes_of(model, ".attn.qkv.") | dtypes_of(model, "attn_pool.kv."));
    put_floats(file, upper, "MEAN", c->mean, c->in_chans);
    put_floats(file, upper, "STD", c->std, c->in_chans);
    fprintf(file, "#define %s_CONFIG { \\\n", upper);
#define IS_FLOAT_int   false
#define IS_FLOAT_float true
#define PUT(type, name, required, smallest, largest)                                               \
    put_number(file, #name, (double)c->name, IS_FLOAT_##type);
    VIT_FIELD_LIST(PUT)
#undef PUT
    fprintf(file, "    %s_MEAN, %s_STD, \\\n", upper, upper);
    put_number(file, "grid_height", c->grid_height, false);
    put_number(file, "grid_width", c->grid_width, false);
    put_number(file, "num_patches", c->num_patches, false);
    put_number(file, "num_prefix_tokens", c->num_prefix_tokens, false);
    put_number(file, "num_tokens", c->num_tokens, false);
    fprintf(file, "}\n\n");
}

static void put_data(FILE *file, const vit_model *model, cli_progress *progress) {
    size_t i;
    for (i = 0; i < model->size; i++) {
        fprintf(file, "%s%d,", i % 24 ? "" : "\n    ", model->data[i]);
        if (i % 65536 == 0) cli_progress_update(progress, i);
    }
    fprintf(file, "\n};\n\n#endif\n");
}

static bool write_header(const vit_model *model, cli_output *output, bool quiet,
                         const c_array_result *c, report *r) {
    char upper[sizeof c->name];
    cli_progress progress;
    size_t i;
    for (i = 0; i < sizeof upper; i++) upper[i] = (char)toupper((unsigned char)c->name[i]);
    cli_progress_start(&progress, "writing", c->bytes);
    if (quiet || output->file == stdout) progress.active = false;
    put_head(output->file, c, upper);
    put_fixed(output->file, model, upper);
    put_array(output->file, c, upper);
    put_data(output->file, model, &progress);
    cli_progress_clear(&progress);
    if (ferror(output->file)) {
        (void)report_fail(r, "cannot be written: %s", strerror(errno));
        cli_output_abandon(output);
        return false;
    }
    return cli_output_commit(output, r);
}

bool c_array_write(const char *input, const char *output, bool quiet, c_array_result *result,
                   report *r) {
    cli_output file;
    vit_model model;
    bool good;
    memset(result, 0, sizeof *result);
    if (!cli_model_open(input, VIT_OPEN_VERIFY, &model, r)) return false;
    make_name(output, result->name, sizeof result->name);
    result->bytes = model.size;
    result->workspace = workspace_of(&model, 0);
    result->low_memory = workspace_of(&model, 1);
    good = cli_output_open(&file, output, r) && write_header(&model, &file, quiet, result, r);
    vit_model_close(&model);
    return good || report_file(r, output);
}
