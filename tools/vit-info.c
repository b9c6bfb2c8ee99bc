/* vit-info.c - prints the contents of a .vit file, and the instruction set that this machine uses
 * for it. With --check, also reports whether the file is intact.
 *
 *     vit-info model.vit
 *     vit-info --check --json model.vit
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/json.h"
#include "base/report.h"
#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/card.h"
#include "model/settings.h"
#include "os/os.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct choices {
    bool check, json, tensors, labels;
    /* value of --sha256: a hash, or the path of a list of hashes; NULL if not given */
    const char *sha256;
    int num_threads;
    vit_isa isa;
} choices;

/* ------------------------------------------------------------------------- */
/* A detached checksum                                                       */
/* ------------------------------------------------------------------------- */

enum { HEX_DIGITS = 64, MAX_LIST = 1 << 20 };

static bool is_hash(const char *text, size_t size) {
    return size == HEX_DIGITS && strspn(text, "0123456789abcdefABCDEF") >= HEX_DIGITS;
}

/* Finds the hash of a file in a list that sha256sum has written. Each line of the list has a hash,
 * and then the name of a file. */
static bool find_hash(char *list, const char *path, char hash[HEX_DIGITS + 1]) {
    for (char *line = strtok(list, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        const size_t size = strcspn(line, " ");
        if (!is_hash(line, size) || !line[size] || !strchr(" *", line[size + 1])) continue;
        if (strcmp(paths_file_name(line + size + 2), paths_file_name(path)) != 0) continue;
        snprintf(hash, HEX_DIGITS + 1, "%.*s", HEX_DIGITS, line);
        return true;
    }
    return false;
}

static bool expected_hash(const char *path, const char *given, char hash[HEX_DIGITS + 1]) {
    report r = report_make();
    unsigned char *list;
    char *text;
    size_t size;
    bool found;
    if (is_hash(given, strlen(given))) {
        snprintf(hash, HEX_DIGITS + 1, "%s", given);
        return true;
    }
    if (!source_read_all(given, MAX_LIST, &list, &size, &r)) {
        report_print(&r, cli_name());
        return false;
    }
    text = size <= MAX_LIST ? calloc(size + 1, 1) : NULL;
    if (text) memcpy(text, list, size);
    found = text && find_hash(text, path, hash);
    if (!found)
        report_error(cli_name(), given, "the list has no SHA-256 of %s", paths_file_name(path));
    free(text);
    free(list);
    return found;
}

/* True if the file has the given hash. Must run before the file is opened as a model. */
static bool hash_matches(const char *path, const char *given) {
    char expected[HEX_DIGITS + 1], found[HEX_DIGITS + 1];
    if (!expected_hash(path, given, expected)) return false;
    if (!sha256_file(path, found, NULL, NULL)) {
        report_error(cli_name(), path, "cannot be %s: %s", errno == ENOENT ? "opened" : "read",
                     os_error(errno));
        return false;
    }
    for (char *c = expected; *c; c++) *c = *c >= 'A' && *c <= 'F' ? (char)(*c + 32) : *c;
    if (strcmp(expected, found) == 0) return true;
    report_error(cli_name(), path, "the file's SHA-256 is %s, expected %s", found, expected);
    return false;
}

/* ------------------------------------------------------------------------- */
/* The check                                                                 */
/* ------------------------------------------------------------------------- */

typedef struct check {
    char checksums[VIT_MAX_DETAIL]; /* "" if all checksums are right, otherwise the error */
    char nonfinite[64];             /* name of a tensor with NaN or infinity; "" if there is none */
    bool has_selftest;
    vit_result selftest;
    /* largest |difference| from an expected value, divided by the largest |expected value| */
    float error;
    vit_isa isa;
} check;

/* Runs the self-test. */
static vit_result run_selftest(const vit_model *model, const vit_params *params, check *result) {
    const vit_config *config = &model->config;
    vit_session session;
    vit_result status = VIT_ERROR_MEMORY;
    size_t pixels = (size_t)config->img_height * (size_t)config->img_width, size;
    int width = config->num_classes > 0 ? config->num_classes : vit_embedding_dim(model);
    void *workspace;
    float *input, *output;
    size = vit_workspace_size(model, params);
    workspace = malloc(size);
    input = malloc((size_t)config->in_chans * pixels * sizeof(float));
    output = malloc((size_t)width * sizeof(float));
    if (workspace && input && output) {
        status = vit_session_init(&session, model, params, workspace, size);
    }
    if (status == VIT_OK) {
        result->isa = session.isa;
        status = vit_selftest(&session, input, output, &result->error);
    }
    free(output);
    free(input);
    free(workspace);
    return status;
}

/* Puts into `name` the name of the first tensor with a weight that is not finite. Returns false if
 * memory is exhausted. */
static bool find_nonfinite(const vit_model *model, char name[64]) {
    vit_tensor tensor;
    bool good = true;
    for (int i = 0; good && !name[0] && vit_model_tensor(model, i, &tensor); i++) {
        const size_t depth = tensor_depth(&tensor);
        float *row = malloc(depth * sizeof *row);
        good = row != NULL;
        for (int k = 0; good && !name[0] && k < tensor.dims[0]; k++) {
            vit_unpack_row(&tensor, k, row);
            if (!tensor_values_are_finite(row, depth))
                memcpy(name, tensor.name, sizeof tensor.name);
        }
        free(row);
    }
    return good;
}

/* True if the file is intact and passes its self-test, if it has one, on this machine. */
static bool run_check(vit_model *model, const choices *chosen, check *result) {
    vit_threads *threads = NULL;
    vit_params params = { 0 };
    memset(result, 0, sizeof *result);
    if (vit_model_verify(model) != VIT_OK) {
        snprintf(result->checksums, sizeof result->checksums, "%s", model->detail);
    }
    result->has_selftest = model->config.selftest_tolerance > 0;
    result->selftest = find_nonfinite(model, result->nonfinite) ? VIT_OK : VIT_ERROR_MEMORY;
    if (!result->has_selftest)
        return !result->checksums[0] && !result->nonfinite[0] && result->selftest == VIT_OK;
    if (result->selftest == VIT_OK)
        result->selftest = vit_threads_create(chosen->num_threads, &threads, &params.executor);
    params.isa = chosen->isa;
    if (result->selftest == VIT_OK) result->selftest = run_selftest(model, &params, result);
    vit_threads_destroy(threads);
    return result->checksums[0] == '\0' && result->selftest == VIT_OK;
}

/* ------------------------------------------------------------------------- */
/* The text encoder                                                          */
/* ------------------------------------------------------------------------- */

/* The text encoder of a file, if it has one, and the result of its check. */
typedef struct text_part {
    vit_model model; /* config.vocab_size is 0 if there is no text encoder */
    vit_tokenizer tokenizer;
    bool has_tokenizer;
    check checked;
    /* number of texts that the file has with their ids; number of texts for which this machine
     * computes other ids */
    int examples, wrong;
} text_part;

static void open_text(const vit_model *model, text_part *text) {
    memset(text, 0, sizeof *text);
    if (vit_model_text(model, 0, &text->model) != VIT_OK) text->model.config.vocab_size = 0;
    else text->has_tokenizer = vit_model_tokenizer(&text->model, &text->tokenizer) == VIT_OK;
}

/* Tokenizes the texts in the file again, and counts the texts that have other ids now. Returns
 * false if memory is exhausted. */
static bool check_examples(text_part *text) {
    const vit_tokenizer *t = &text->tokenizer;
    const size_t room = (size_t)t->context * sizeof(int);
    vit_text_ids expected = { 0 }, found = { 0 };
    bool good;
    const char *example;
    size_t size;
    expected.ids = malloc(room);
    found.ids = malloc(room);
    good = expected.ids && found.ids;
    while (good && (example = vit_tokenizer_example(t, text->examples, &size, &expected)) != NULL) {
        const size_t bytes = vit_tokenize_size(t, size);
        void *scratch = malloc(bytes + 1);
        good = scratch != NULL;
        text->wrong += !good || vit_tokenize(t, example, size, scratch, bytes, &found) ||
                       found.num_ids != expected.num_ids ||
                       memcmp(found.ids, expected.ids, (size_t)found.num_ids * sizeof(int)) != 0;
        text->examples++;
        free(scratch);
    }
    free(expected.ids);
    free(found.ids);
    return good;
}

static bool check_text(text_part *text, const choices *chosen) {
    const bool sound = run_check(&text->model, chosen, &text->checked);
    return text->has_tokenizer && check_examples(text) && text->wrong == 0 && sound;
}

/* ------------------------------------------------------------------------- */
/* As text                                                                   */
/* ------------------------------------------------------------------------- */

/* Prints a size such as "22.9 MB", with decimal prefixes, like the sizes of disks. */
static void print_bytes(uint64_t bytes) {
    static const struct {
        double size;
        int digits;
        const char *name;
    } units[] = {
        { 1e9, 2, "GB" },
        { 1e6, 1, "MB" },
        { 1e3, 1, "KB" },
    };
    int i = 0;
    while (i < 2 && (double)bytes < units[i].size) i++;
    printf("%.*f %s", units[i].digits, (double)bytes / units[i].size, units[i].name);
}

static void print_architecture(const vit_config *c) {
    char options[512];
    printf("architecture\n");
    printf("  input           %d x %d x %d (channels, height, width)\n", c->in_chans, c->img_height,
           c->img_width);
    printf("  tokens          %d: %d x %d patches of %d x %d%s%s\n", c->num_tokens, c->grid_height,
           c->grid_width, c->patch_size, c->patch_size, c->has_cls_token ? ", cls_token" : "",
           c->has_dist_token ? ", dist_token" : "");
    printf("  blocks          %d of width %d: ", c->depth, c->embed_dim);
    if (c->attention != VIT_ATTENTION_SELF) printf("%d heads of %d, ", c->num_heads, c->head_dim);
    if (c->mlp_dim) printf("MLP of %d\n", c->mlp_dim);
    else printf("no MLP\n");
    if (c->num_classes) printf("  classes         %d\n", c->num_classes);
    else printf("  classes         none: gives embeddings\n");
    settings_describe(c, options, sizeof options);
    printf("  options         %s%s\n", *options ? options : "none: a plain ViT",
           c->has_dist_token && c->num_classes ? ", logits are the mean of two heads" : "");
    printf("  norm_eps        %g\n", (double)c->norm_eps);
    printf("  attn_scale      %.9g\n\n", (double)c->attn_scale);
}

static void print_constants(const char *name, const float *values, int count) {
    printf("  %-16s", name);
    for (int i = 0; i < count; i++) printf("%s%.6g", i ? ", " : "", (double)values[i]);
    printf("\n");
}

static const char *sides_resized(const vit_config *c) {
    switch ((vit_crop_mode)c->crop_mode) {
    case VIT_CROP_CENTER: return "the shorter side; the centre is then cut out";
    case VIT_CROP_BORDER: return "the longer side; the rest is filled with the mean";
    case VIT_CROP_ASPECT:
        return c->crop_rounding == VIT_ROUND_NEAREST
                   ? "each photo keeps its aspect ratio; one side gets this size, then both sides are "
                     "rounded to whole patches"
                   : "each photo keeps its aspect ratio; this size limits the number of patches";
    case VIT_CROP_SQUASH:
    case VIT_NUM_CROP_MODES: break;
    }
    return "both sides";
}

static void print_preprocessing(const vit_config *c) {
    char word[32];
    printf("preprocessing\n  resize          to %d x %d, %s: %s\n", c->resize_height,
           c->resize_width, setting_text(SETTING_INTERPOLATION, c->interpolation, word),
           sides_resized(c));
    printf("  crop            %s, %d x %d\n", setting_text(SETTING_CROP_MODE, c->crop_mode, word),
           c->img_height, c->img_width);
    print_constants("mean", c->mean, c->in_chans);
    print_constants("std", c->std, c->in_chans);
    printf("\n");
}

static void print_parameters(const part_list *parts) {
    char text[32];
    printf("parameters\n");
    for (int i = 0; i < parts->count; i++) {
        printf("  %-16s%14s\n", parts->items[i].name,
               text_grouped(parts->items[i].parameters, text));
    }
    printf("  %-16s%14s\n\n", "total", text_grouped(parts->total, text));
}

static void print_sizes(const vit_model *model, const card_totals *sum) {
    printf("sizes\n  file            ");
    print_bytes(model->size);
    for (int i = 0; i < VIT_NUM_DTYPES; i++) {
        if (!sum->bytes[i]) continue;
        printf("\n  tensors in %-5s", tensor_dtype_name((vit_dtype)i));
        print_bytes(sum->bytes[i]);
    }
    printf("\n  session         ");
    print_bytes(vit_workspace_size(model, NULL));
    printf(" for one image at a time\n\n");
    printf("runs on           %s\n", vit_isa_name(vit_detect_isa()));
}

static void print_label_summary(const vit_model *model) {
    int labels = card_count_labels(model), synsets = card_count_synsets(model);
    int last = model->config.num_classes - 1;
    printf("labels            ");
    if (!labels) printf("none");
    else printf("%d", labels);
    if (labels && vit_label(model, last)) {
        text_print(stdout, ": \"%s\" ... \"%s\"", vit_label(model, 0), vit_label(model, last));
    }
    printf("\nsynsets           ");
    if (synsets) printf("%d\n", synsets);
    else printf("none\n");
}

static void print_tensors(const vit_model *model) {
    char shape[SHAPE_TEXT_SIZE];
    vit_tensor t;
    printf("\ntensors\n  %-34s %-5s %-7s %12s  %s\n", "name", "type", "layout", "bytes", "shape");
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        text_print(stdout, "  %-34s %-5s %-7s %12llu  %s\n", t.name, tensor_dtype_name(t.dtype),
                   card_layout_name(t.layout), (unsigned long long)t.size, tensor_shape(&t, shape));
    }
}

static void print_labels(const vit_model *model) {
    printf("\n");
    for (int i = 0; i < model->config.num_classes; i++) {
        const char *label = vit_label(model, i), *synset = vit_synset(model, i);
        text_print(stdout, "  %5d  %s%s%s\n", i, synset ? synset : "", synset ? "  " : "",
                   label ? label : "");
    }
}

static void print_lines(const char *heading, const char *at, bool assumed) {
    const char *line;
    int length;
    bool is_assumed, any = false;
    while (card_next_line(&at, &line, &length, &is_assumed)) {
        if (is_assumed != assumed) continue;
        if (!any) printf("\n%s\n", heading);
        text_print(stdout, "  %.*s\n", length, line);
        any = true;
    }
}

static void print_check(const vit_model *model, const card_totals *sum, const check *result) {
    printf("\ncheck\n  checksums       ");
    if (result->checksums[0]) text_print(stdout, "WRONG: %s\n", result->checksums);
    else printf("ok, %d tensors\n", sum->num_tensors);
    if (result->nonfinite[0])
        printf("  weights         NaN or infinity in %s\n", result->nonfinite);
    printf("  self-test       ");
    if (!result->has_selftest) {
        printf("none in this file\n");
    } else if (result->isa != VIT_ISA_AUTO) {
        printf("%s on %s: error %.2g, tolerance %.2g\n",
               result->selftest == VIT_OK ? "ok" : "FAILED", vit_isa_name(result->isa),
               (double)result->error, (double)model->config.selftest_tolerance);
    } else {
        printf("not possible: %s\n", vit_result_string(result->selftest));
    }
}

static void print_text_encoder(const text_part *text, bool checked) {
    const vit_config *c = &text->model.config;
    card_totals sum;
    char number[32];
    card_add_up(&text->model, &sum);
    printf("\ntext encoder\n  input           %d tokens from a vocabulary of %d, %s\n",
           c->img_width, c->vocab_size,
           c->attention == VIT_ATTENTION_CAUSAL ? "causal attention" : "padded");
    printf("  blocks          %d of width %d: %d heads of %d, MLP of %d\n", c->depth, c->embed_dim,
           c->num_heads, c->head_dim, c->mlp_dim);
    printf("  embedding       %d, %s\n", vit_embedding_dim(&text->model),
           c->pool == VIT_POOL_LAST ? "of the last token" : "of the token with the largest id");
    printf("  probabilities   %s(%.6g x cosine%+.6g)\n",
           c->head_activation == VIT_HEAD_SIGMOID ? "sigmoid" : "softmax", (double)c->logit_scale,
           (double)c->logit_bias);
    printf("  parameters      %s\n", text_grouped(sum.parts.total, number));
    if (!text->has_tokenizer) printf("  tokenizer       none, or damaged\n");
    if (checked) print_check(&text->model, &sum, &text->checked);
    if (checked)
        printf("  tokenizer       %s: %d of %d stored texts give their stored ids\n",
               text->wrong || !text->examples ? "WRONG" : "ok", text->examples - text->wrong,
               text->examples);
}

static void print_text(const vit_model *model, const char *path, const choices *chosen,
                       const card_totals *sum, const check *result, const text_part *text) {
    text_print(stdout, "%s\n\n", path);
    print_architecture(&model->config);
    print_preprocessing(&model->config);
    print_parameters(&sum->parts);
    print_sizes(model, sum);
    print_label_summary(model);
    if (chosen->labels) print_labels(model);
    if (chosen->tensors) print_tensors(model);
    print_lines("assumed", vit_source(model), true);
    print_lines("provenance", vit_source(model), false);
    if (result) print_check(model, sum, result);
    if (text->model.config.vocab_size) print_text_encoder(text, result != NULL);
}

/* ------------------------------------------------------------------------- */
/* As JSON                                                                   */
/* ------------------------------------------------------------------------- */

static void put_check(json_writer *w, const check *result) {
    json_put_begin(w, "check", '{');
    json_put_text(w, "checksums", result->checksums[0] ? result->checksums : "ok");
    if (result->nonfinite[0]) json_put_text(w, "nonfinite", result->nonfinite);
    json_put_text(w, "selftest", result->has_selftest ? vit_result_string(result->selftest) : NULL);
    if (result->isa != VIT_ISA_AUTO) json_put_number(w, "error", (double)result->error, 9);
    else json_put_text(w, "error", NULL);
    json_put_text(w, "isa", vit_isa_name(result->isa));
    json_put_end(w, '}');
}

static void put_text_encoder(json_writer *w, const text_part *text, bool checked) {
    const vit_config *c = &text->model.config;
    json_put_begin(w, "text_encoder", '{');
    json_put_integer(w, "vocab_size", c->vocab_size);
    json_put_integer(w, "context", c->img_width);
    json_put_integer(w, "depth", c->depth);
    json_put_integer(w, "embed_dim", c->embed_dim);
    json_put_integer(w, "num_heads", c->num_heads);
    json_put_integer(w, "dim", vit_embedding_dim(&text->model));
    json_put_number(w, "logit_scale", (double)c->logit_scale, 9);
    json_put_number(w, "logit_bias", (double)c->logit_bias, 9);
    json_put_bool(w, "sigmoid", c->head_activation == VIT_HEAD_SIGMOID);
    if (checked) put_check(w, &text->checked);
    if (checked) json_put_integer(w, "texts", text->examples);
    if (checked) json_put_integer(w, "wrong_texts", text->wrong);
    json_put_end(w, '}');
}

static void print_json(const vit_model *model, const char *path, const choices *chosen,
                       const card_totals *sum, const check *result, const text_part *text) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "file", path);
    card_put(&w, model, sum,
             (chosen->labels ? CARD_LABELS : 0) | (chosen->tensors ? CARD_TENSORS : 0));
    if (result) put_check(&w, result);
    if (text->model.config.vocab_size) put_text_encoder(&w, text, result != NULL);
    json_put_end(&w, '}');
    putchar('\n');
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Prints the contents of MODEL.vit: architecture, preprocessing, parameters, sizes, labels and\n"
    "origin; and the instruction set that this machine would use.\n";

static const char notes[] =
    "--check verifies the checksum of every tensor and runs the file's self-test, to which\n"
    "--threads and --isa apply. The check shows that the file is complete and that this machine\n"
    "computes correctly with the file. Only --sha256, with a checksum from another source, detects\n"
    "a forged file.\n"
    "Exit status: 0 on success, 1 if a file cannot be read or fails the check, 2 for a wrong\n"
    "command.\n";

/* Opens and prints one file, and checks it with --check. Failures are printed on stderr. */
static bool inform(const char *path, const choices *chosen) {
    vit_model model;
    card_totals *sum = malloc(sizeof *sum);
    check result;
    text_part text;
    report r = report_make();
    bool sound = true;
    if (chosen->sha256 && !hash_matches(path, chosen->sha256)) {
        free(sum);
        return false;
    }
    if (!sum) {
        report_error(cli_name(), path, "out of memory");
        return false;
    }
    if (!cli_model_open(path, 0, &model, &r)) {
        report_print(&r, cli_name());
        free(sum);
        return false;
    }
    card_add_up(&model, sum);
    open_text(&model, &text);
    if (chosen->check) sound = run_check(&model, chosen, &result);
    if (chosen->check && text.model.config.vocab_size && !check_text(&text, chosen)) sound = false;
    if (chosen->json) print_json(&model, path, chosen, sum, chosen->check ? &result : NULL, &text);
    else print_text(&model, path, chosen, sum, chosen->check ? &result : NULL, &text);
    if (!sound) report_error(cli_name(), path, "the check failed");
    vit_model_close(&model);
    free(sum);
    return sound;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-info");
    choices chosen = { false, false, false, false, NULL, 0, VIT_ISA_AUTO };
    const cli_option options[] = {
        { 0, "check", NULL, "verify all checksums and run the self-test", CLI_FLAG, &chosen.check,
          0, 0 },
        { 0, "sha256", "SUM",
          "refuse a file whose SHA-256 is not SUM; SUM has 64 hexadecimal\n"
          "digits, or is the path of a list from sha256sum",
          CLI_TEXT, &chosen.sha256, 0, 0 },
        { 0, "tensors", NULL, "list all tensors", CLI_FLAG, &chosen.tensors, 0, 0 },
        { 0, "labels", NULL, "list all labels", CLI_FLAG, &chosen.labels, 0, 0 },
        CLI_OPTION_JSON(&chosen.json, "for each file, print a line with one JSON object"),
        CLI_OPTION_THREADS(&chosen.num_threads),
        CLI_OPTION_ISA(&chosen.isa),
        CLI_END,
    };
    const cli_program program = {
        cli_name(), "[options] MODEL.vit...", description, options, notes, 1, CLI_MANY, "MODEL.vit",
        NULL
    };
    text_list files;
    int status;
    if (!cli_parse(&program, argc, argv, &files, &status)) return status;
    if (!vit_has_isa(chosen.isa)) {
        report_error(cli_name(), NULL,
                     "this machine cannot run the model with --isa %s; the machine's best is %s",
                     vit_isa_name(chosen.isa), vit_isa_name(vit_detect_isa()));
        text_list_free(&files);
        return CLI_FAILED;
    }
    for (int i = 0; i < files.count; i++) {
        if (i > 0 && !chosen.json) printf("\n");
        if (!inform(files.items[i], &chosen)) status = CLI_FAILED;
    }
    text_list_free(&files);
    return cli_finish(cli_name(), status);
}
