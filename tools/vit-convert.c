/* vit-convert.c - turns a checkpoint into a .vit file, and a .vit file into a checkpoint.
 *
 *     vit-convert vit_base.safetensors -o vit_base.vit
 *     vit-convert vit_base.pth --dtype int8 --calibrate photos/ -o vit_base.vit
 *     vit-convert vit_base.vit --to safetensors -o vit_base.safetensors
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "convert/conversion.h"
#include "convert/quantise.h"
#include "convert/report.h"
#include "convert/unpack.h"
#include "os/os.h"

#define PROGRAM cli_name()

typedef struct arguments {
    convert_options convert;
    const char *to;
    bool json, quiet, list_archs, c_array;
} arguments;

/* === Commands === */

static void print_archs(void) {
    const arch *a;
    size_t i;
    printf("%-34s %6s %6s %6s %8s %6s %6s\n", "architecture", "width", "depth", "heads", "mlp_dim",
           "patch", "image");
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        printf("%-34s %6d %6d %6d %8d %6d %6d\n", a->name, a->embed_dim, a->depth, a->num_heads,
               a->mlp_dim, a->patch_size, a->img_size);
}

static int failed(const char *message, int status) {
    report_error(PROGRAM, NULL, "%s", message);
    return status;
}

/* Reads the settings on the command line. Failures are usage errors. */
static bool parse_settings(arguments *a, report *r) {
    settings *s = &a->convert.given;
    int i;
    settings_start(s, "--img-size");
    if (a->convert.img_size && !settings_parse_size(s, a->convert.img_size, r)) return false;
    if (a->convert.dynamic) settings_put(s, SETTING_DYNAMIC_IMG_SIZE, 1);
    s->origin = "--set";
    for (i = 0; i < a->convert.set.count; i++)
        if (!settings_parse(s, a->convert.set.items[i], r)) return false;
    return true;
}

static int convert(arguments *a) {
    report r = report_make();
    conversion *c = calloc(1, sizeof *c);
    int status = CLI_OK;
    if (!c) return failed("out of memory", CLI_FAILED);
    if (!parse_settings(a, &r)) {
        status = CLI_USAGE;
    } else if (!convert_run(&a->convert, c, &r)) {
        const bool planned = a->convert.plan && mapping_plan_names(&c->blueprint);
        status = CLI_FAILED;
        if (c->blueprint.facts.told.code[0])
            report_error(PROGRAM, NULL, "the code shows %s", c->blueprint.facts.told.code);
        if (a->json) convert_report_failure_json(c, planned, &r);
        else if (planned) mapping_print(&c->blueprint);
        if (findings_only_ask(&c->blueprint.found) && !a->convert.strict)
            convert_report_findings(c, PROGRAM);
    } else {
        convert_report_findings(c, PROGRAM);
        if (a->json) convert_report_json(c);
        else if (!a->quiet) convert_report_text(c);
    }
    convert_report_skipped(&c->photos.calibration, PROGRAM);
    convert_report_skipped(&c->photos.compared, PROGRAM);
    if (r.failed) report_print(&r, PROGRAM);
    convert_free(c);
    free(c);
    return status;
}

static int unpack(const arguments *a) {
    char n[32], b[32];
    report r = report_make();
    unpack_result result;
    if (!unpack_to_safetensors(a->convert.checkpoint, a->convert.output, a->quiet, &result, &r))
        return failed(r.text, CLI_FAILED);
    if (result.has_text)
        report_error(PROGRAM, a->convert.checkpoint,
                     "left out: the text encoder and its tokenizer");
    if (!strcmp(a->convert.output, "-")) return CLI_OK;
    if (a->json) {
        json_writer json = json_write_to(stdout);
        json_put_begin(&json, NULL, '{');
        json_put_text(&json, "output", a->convert.output);
        json_put_integer(&json, "tensors", (int64_t)result.tensors);
        json_put_integer(&json, "parameters", (int64_t)result.parameters);
        json_put_integer(&json, "bytes", (int64_t)result.bytes);
        json_put_end(&json, '}');
        putchar('\n');
    } else if (!a->quiet) {
        text_print(stdout, "%s: %zu tensors, %s parameters, %s bytes\n", a->convert.output,
                   result.tensors, text_grouped(result.parameters, n),
                   text_grouped(result.bytes, b));
    }
    return CLI_OK;
}

static int write_c_array(const arguments *a) {
    char b[32], w[32], l[32];
    report r = report_make();
    c_array_result result;
    if (!c_array_write(a->convert.checkpoint, a->convert.output, a->quiet, &result, &r))
        return failed(r.text, CLI_FAILED);
    if (!strcmp(a->convert.output, "-")) return CLI_OK;
    if (a->json) {
        json_writer json = json_write_to(stdout);
        json_put_begin(&json, NULL, '{');
        json_put_text(&json, "output", a->convert.output);
        json_put_text(&json, "name", result.name);
        json_put_integer(&json, "bytes", (int64_t)result.bytes);
        json_put_integer(&json, "workspace", (int64_t)result.workspace);
        json_put_integer(&json, "workspace_low", (int64_t)result.low_memory);
        json_put_end(&json, '}');
        putchar('\n');
    } else if (!a->quiet) {
        text_print(stdout, "%s: %s_data, %s bytes; workspace %s bytes, with low_memory %s\n",
                   a->convert.output, result.name, text_grouped(result.bytes, b),
                   text_grouped(result.workspace, w), text_grouped(result.low_memory, l));
    }
    return CLI_OK;
}

static int run(arguments *a, const text_list *operands) {
    const vit_dtype dtype = a->convert.dtype;
    if (a->list_archs) return print_archs(), CLI_OK;
    if (operands->count > 1) {
        /* the usual cause is a space within a value or before it */
        return cli_wrong(PROGRAM, "expected one CHECKPOINT, found '%.150s' and '%.150s'",
                         operands->items[0], operands->items[1]);
    }
    if (operands->count < 1) return cli_wrong(PROGRAM, "expected one CHECKPOINT");
    if (!a->convert.output && !a->convert.plan) return cli_wrong(PROGRAM, "expected -o FILE");
    if (a->convert.keep.count > 0 && !tensor_is_quantised(dtype))
        return cli_wrong(PROGRAM, "--keep: expected --dtype int8 or int4");
    if (a->convert.calibrate.count > 0 && !quantise_knows(dtype))
        return cli_wrong(PROGRAM, "--calibrate: expected --dtype int8, int4 or bf16");
    if (a->convert.compare.count > 0 && dtype == VIT_F32)
        return cli_wrong(PROGRAM, "--report compares with f32: expected another --dtype");
    if (!a->convert.match_input != !a->convert.match_logits)
        return cli_wrong(PROGRAM, "--match-input and --match-logits need each other");
    a->convert.checkpoint = operands->items[0];
    a->convert.quiet = a->quiet;
    if (a->c_array && a->to) return cli_wrong(PROGRAM, "--c-array and --to exclude each other");
    if (a->c_array) return write_c_array(a);
    if (a->to && !strcmp(a->to, "safetensors")) return unpack(a);
    if (a->to && strcmp(a->to, "vit") != 0)
        return cli_wrong(PROGRAM, "--to: expected vit or safetensors");
    return convert(a);
}

/* === Help === */

static const char notes[] =
    "CHECKPOINT: safetensors (also sharded), PyTorch (.pth, .pt, .bin: a state dict, a whole\n"
    "model, TorchScript), a pickle of arrays, .npz, .onnx, GGUF, a file of vit.cpp; or a tar or\n"
    "folder with one of them.\n"
    "The names of the tensors identify the library: timm, transformers, torchvision, open_clip,\n"
    "JAX, torch.nn, vit-pytorch, llama.cpp or none of these. @ also reads config.json in\n"
    "the checkpoint's folder, and the author's Python as text.\n"
    "\n"
    "More help: @ --help settings | match | types | names\n"
    "Exit status: 0 on success, 1 if something failed or a setting is missing, 2 for a wrong command.\n";

/* Handles "--help TOPIC" alone. Returns false for any other command line. */
static bool print_topic(int argc, char **argv) {
    return argc == 3 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) &&
           convert_help(argv[2]);
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-convert");
    static arguments a;
    const cli_option options[] = {
        { 'o', "output", "FILE", "the file to write", CLI_OUTPUT, &a.convert.output, 0, 0 },
        { 0, "arch", "NAME", "timm's name of the architecture, with or without its tag", CLI_TEXT,
          &a.convert.arch, 0, 0 },
        { 0, "config", "FILE", "timm's config.json", CLI_TEXT, &a.convert.config, 0, 0 },
        { 0, "labels", "FILE", "names of the classes, one a line; or imagenet, or none", CLI_TEXT,
          &a.convert.labels, 0, 0 },
        { 0, "set", "KEY=VALUE", "override one setting (--help settings); may be repeated",
          CLI_LIST, &a.convert.set, 0, 0 },
        { 0, "plan", NULL, "print how tensors are matched and why; write no file", CLI_FLAG,
          &a.convert.plan, 0, 0 },
        { 0, "strict", NULL, "assume nothing: list a question for each setting that is not known",
          CLI_FLAG, &a.convert.strict, 0, 0 },
        { 0, "dtype", "TYPE", "type of the matrices: f32 (default), f16, bf16, int8 or int4",
          CLI_DTYPE, &a.convert.dtype, 0, 0 },
        { 0, "calibrate", "IMAGES",
          "calibrate on these photos: a few dozen of the kind that the model will\n"
          "see, without labels; may be repeated",
          CLI_LIST, &a.convert.calibrate, 0, 0 },
        { 0, "calibrate-max", "N",
          "use at most N photos for --calibrate, evenly spaced (default 256)", CLI_INT,
          &a.convert.calibrate_max, 1, 65536 },
        { 0, "report", "IMAGES",
          "report the error against f32 on these photos\n"
          "(default: the photos of --calibrate); may be repeated",
          CLI_LIST, &a.convert.compare, 0, 0 },
        { 0, "report-max", "N", "use at most N photos for --report, evenly spaced (default 1000)",
          CLI_INT, &a.convert.compare_max, 1, 1048576 },
        PHOTO_DECODING_OPTIONS(&a.convert.decoding),
        { 0, "keep", "PATTERN", "keep tensors whose names match in a wider type; may be repeated",
          CLI_LIST, &a.convert.keep, 0, 0 },
        { 0, "img-size", "N|HxW", "resample the positions for this input size", CLI_TEXT,
          &a.convert.img_size, 0, 0 },
        { 0, "dynamic", NULL, "let programs choose the input size (vit_model_resize)", CLI_FLAG,
          &a.convert.dynamic, 0, 0 },
        { 0, "patch-size", "N", "resize the patches to N x N pixels, for FlexiViT's weights",
          CLI_INT, &a.convert.patch_size, 1, 1024 },
        { 0, "in-chans", "N",
          "input channels: 1 sums the weights of all channels, 2 or more repeat them", CLI_INT,
          &a.convert.in_chans, 1, VIT_MAX_CHANS },
        { 0, "rename", "A=B", "rename layers or tensors, as in fc=head; may be repeated", CLI_LIST,
          &a.convert.rename, 0, 0 },
        { 0, "ignore", "PATTERN", "drop unknown tensors whose names match; may be repeated",
          CLI_LIST, &a.convert.ignore, 0, 0 },
        { 0, "code", "FILE",
          "the author's Python, read as text: a file (.py, .ipynb), a folder, or none\n"
          "(default: the files beside the checkpoint and in the folder above it)",
          CLI_TEXT, &a.convert.code, 0, 0 },
        { 0, "tokenizer", "FILE", "tokenizer, a file or folder; none leaves out the text encoder",
          CLI_TEXT, &a.convert.tokenizer, 0, 0 },
        { 0, "weights", "NAME",
          "use this one of several state dicts in the file: model, model_ema ...", CLI_TEXT,
          &a.convert.weights, 0, 0 },
        { 0, "match-input", "X",
          "an input (.npy): find the settings that the checkpoint leaves open", CLI_TEXT,
          &a.convert.match_input, 0, 0 },
        { 0, "match-logits", "Y", "the original model's logits for that input (.npy)", CLI_TEXT,
          &a.convert.match_logits, 0, 0 },
        { 0, "match-tolerance", "T", "the largest accepted relative difference (default 1e-4)",
          CLI_NUMBER, &a.convert.match_tolerance, 1e-9, 1 },
        { 0, "match-seconds", "S",
          "search for at most S seconds (default: about 5 with --match-input,\n"
          "120 with --match-folder)",
          CLI_NUMBER, &a.convert.match_seconds, 1, 1e6 },
        { 0, "match-folder", "DIR", "labelled pictures: find the best preprocessing", CLI_TEXT,
          &a.convert.match_folder, 0, 0 },
        { 0, "match-max", "N", "use at most N pictures of DIR, evenly spaced (default 1000)",
          CLI_INT, &a.convert.match_max, 1, 65536 },
        { 0, "to", "FORMAT", "vit (default); safetensors turns a .vit file into a checkpoint",
          CLI_TEXT, &a.to, 0, 0 },
        { 0, "c-array", NULL, "turn a .vit file into a C header with a constant array", CLI_FLAG,
          &a.c_array, 0, 0 },
        { 0, "list-archs", NULL, "print the architectures and end", CLI_FLAG, &a.list_archs, 0, 0 },
        { 0, "json", NULL, "report as JSON", CLI_FLAG, &a.json, 0, 0 },
        { 'q', "quiet", NULL,
          "print no report and no progress, but still assumptions and dropped tensors", CLI_FLAG,
          &a.quiet, 0, 0 },
        CLI_END,
    };
    const cli_program program = { PROGRAM,
                                  "[options] CHECKPOINT -o MODEL.vit",
                                  "Turns a checkpoint of a Vision Transformer into a .vit file.\n",
                                  options,
                                  notes,
                                  0,
                                  CLI_MANY,
                                  "CHECKPOINT",
                                  photos_library() };
    text_list operands;
    int status;
    if (print_topic(argc, argv)) return cli_finish(PROGRAM, CLI_OK);
    a.convert.dtype = VIT_F32;
    a.convert.calibrate_max = 256;
    a.convert.compare_max = 1000;
    a.convert.match_tolerance = 1e-4;
    a.convert.match_max = 1000;
    if (cli_parse(&program, argc, argv, &operands, &status)) {
        status = cli_finish(PROGRAM, run(&a, &operands));
        text_list_free(&operands);
        text_list_free(&a.convert.set);
        text_list_free(&a.convert.rename);
        text_list_free(&a.convert.ignore);
        text_list_free(&a.convert.keep);
        text_list_free(&a.convert.calibrate);
        text_list_free(&a.convert.compare);
    }
    return status;
}
