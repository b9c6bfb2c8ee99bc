/* vit-convert - turns a checkpoint of PyTorch or safetensors into a .vit file, and back. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/report.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "convert/c_array.h"
#include "convert/convert.h"
#include "convert/unpack.h"
#include "model/describe.h"

#define PROGRAM "vit-convert"

typedef struct arguments {
    convert_options convert;
    const char *dtype, *to;
    bool json, quiet, list_archs, c_array;
} arguments;

/* === Numbers for people === */

/* 5717416 -> "5,717,416" */
static const char *grouped(uint64_t value, char text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value), i, at = 0;
    for (i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* === Parameters by part === */

/* "blocks.3.mlp.fc1.weight" belongs to "blocks", "cls_token" to itself. */
typedef struct part {
    char name[64];
    uint64_t parameters;
} part;

enum { MAX_PARTS = 16 };

static int list_parts(const conversion *c, part parts[MAX_PARTS])
{
    int count = 1, i;
    size_t t;
    memset(parts, 0, sizeof *parts);
    strcpy(parts[0].name, "patch_embed"); /* where the network begins */
    for (t = 0; t < c->plan.count; t++) {
        const vit_tensor *tensor = &c->plan.items[t].tensor;
        size_t length = strcspn(tensor->name, ".");
        if (!layout_is_stored(&c->plan.items[t])) continue;
        for (i = 0; i < count; i++)
            if (strlen(parts[i].name) == length && !memcmp(parts[i].name, tensor->name, length))
                break;
        if (i == count) {
            if (count == MAX_PARTS) continue;
            memset(&parts[count], 0, sizeof parts[count]);
            memcpy(parts[count++].name, tensor->name, length);
        }
        parts[i].parameters += tensor_count(tensor);
    }
    return count;
}

static void print_parts(const conversion *c)
{
    part parts[MAX_PARTS];
    char a[32], b[32];
    int count = list_parts(c, parts), i, depth = c->model.config.depth;
    for (i = 0; i < count; i++) {
        printf("%-15s %-14s %16s", i == 0 ? "parameters" : "", parts[i].name,
               grouped(parts[i].parameters, a));
        if (!strcmp(parts[i].name, "blocks"))
            printf("   %d x %s", depth, grouped(parts[i].parameters / (uint64_t)depth, b));
        putchar('\n');
    }
    printf("%-15s %-14s %16s\n", "", "total", grouped(c->parameters, a));
}

/* === The report === */

static const char *const crop_words[] = {
    "shorter side to %d, crop the centre", "both sides to %d", "longer side to %d, pad"
};

/* One number where all channels agree. */
static void print_vector(const char *name, const float *values, int n)
{
    bool equal = true;
    int i;
    for (i = 1; i < n; i++) equal = equal && values[i] == values[0];
    printf(", %s", name);
    for (i = 0; i < (equal ? 1 : n); i++) printf(" %.6g", (double)values[i]);
}

static void print_preprocessing(const vit_config *c)
{
    printf("%-15s ", "preprocessing");
    if (c->resize_height == c->resize_width)
        printf(crop_words[c->crop_mode], c->resize_height);
    else
        printf("%s, %dx%d", c->crop_mode == VIT_CROP_SQUASH ? "squash" : "resize",
               c->resize_height, c->resize_width);
    printf(" to %dx%d, %s", c->img_height, c->img_width,
           c->interpolation == VIT_BICUBIC ? "bicubic" : "bilinear");
    print_vector("mean", c->mean, c->in_chans);
    print_vector("std", c->std, c->in_chans);
    putchar('\n');
}

static void print_architecture(const conversion *c)
{
    const vit_config *k = &c->model.config;
    char name[256] = "not named", options[512];
    if (c->has_arch) arch_full_name(&c->arch, name, sizeof name);
    printf("%-15s %s", "architecture", name);
    if (c->has_arch) printf(" (%s)", c->arch_origin);
    printf("\n%-15s embed_dim %d, depth %d, heads %d x %d, mlp_dim %d, patch %d\n", "",
           k->embed_dim, k->depth, k->num_heads, k->head_dim, k->mlp_dim, k->patch_size);
    printf("%-15s input %d x %d x %d, %d tokens, %d classes", "", k->in_chans, k->img_height,
           k->img_width, k->num_tokens, k->num_classes);
    putchar('\n');
    if (*settings_describe(k, options, sizeof options)) printf("%-15s %s\n", "", options);
}

static void print_labels(const conversion *c)
{
    if (c->labels.count == 0)
        printf("%-15s none\n", "labels");
    else
        printf("%-15s %zu from %s, the first \"%s\"\n", "labels", c->labels.count,
               c->labels_origin, c->labels.labels[0]);
}

/* === Notes === */

typedef struct note_list {
    char text[10][512];
    int count;
} note_list;

static char *add_note(note_list *notes)
{
    return notes->text[notes->count++];
}

/* Does the file's name begin with that of an architecture? Only a hint: names lie. */
static const char *name_in_file(const char *path)
{
    const char *file = paths_file_name(path), *best = NULL;
    const arch *a;
    size_t i;
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        if (strstr(file, a->name) && (!best || strlen(a->name) > strlen(best))) best = a->name;
    return best;
}

static void note_ignored(const conversion *c, note_list *notes)
{
    const layout_plan *plan = &c->plan;
    char *text = add_note(notes);
    const size_t size = sizeof notes->text[0];
    size_t used, i;
    used = (size_t)snprintf(text, size, "dropped %zu tensor%s:", plan->ignored_count,
                            plan->ignored_count == 1 ? "" : "s");
    for (i = 0; i < plan->ignored_count && i < 8 && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, " %.80s", plan->ignored[i]);
    if (plan->ignored_count > 8 && used < size) snprintf(text + used, size - used, " ...");
}

static void note_assumptions(const conversion *c, note_list *notes)
{
    const char *hint = name_in_file(c->options->checkpoint);
    if (c->model.notes.heads_by_width)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "num_heads %d is what timm's models of width %d have; the tensors do not show it "
                 "(--set num_heads=N)", c->model.config.num_heads, c->model.config.embed_dim);
    if (c->model.notes.preprocess_assumed)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "nothing says how images were prepared, so mean and std are assumed to be 0.5; "
                 "give --arch %s or --config FILE", hint ? hint : "NAME");
    if (c->config_file.processor)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "no preprocessor_config.json beside %s: images are prepared as transformers does "
                 "for a %s by default", paths_file_name(c->config_path),
                 c->config_file.processor);
    if (c->arch_unknown)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "%.200s in %s is no architecture of timm: the rest of that file and the tensors "
                 "decide", c->arch_unknown, c->arch_origin);
    if (c->has_arch && !c->arch.tag_known)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "tag %s is not known: the preprocessing is that of %s", c->arch.tag,
                 c->arch.arch->name);
    if (c->model.notes.eps_assumed || c->model.notes.activation_assumed)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "%s%s%s: timm's usual, as nothing says otherwise; give --arch %s or --config FILE",
                 c->model.notes.eps_assumed ? "norm_eps 1e-6" : "",
                 c->model.notes.eps_assumed && c->model.notes.activation_assumed ? " and " : "",
                 c->model.notes.activation_assumed ? "activation gelu" : "", hint ? hint : "NAME");
}

/* What the layout's library does by itself, which whoever trained the model may have changed. */
static void note_defaults(const conversion *c, note_list *notes)
{
    const size_t size = sizeof notes->text[0];
    char *text = notes->text[notes->count], value[32];
    size_t used, start;
    int key;
    used = start = (size_t)snprintf(text, size, "as %s has them:", c->map.layout->name);
    for (key = 0; key < SETTING_COUNT && used < size; key++)
        if (c->seen.by_default[key])
            used += (size_t)snprintf(text + used, size - used, " %s=%s",
                                     setting_rows[key].name,
                                     setting_text((setting_key)key,
                                                  c->all[FROM_TENSORS].value[key], value));
    if (c->seen.mean_by_default && used < size)
        used += (size_t)snprintf(text + used, size - used, " mean std");
    if (used == start) return;
    if (used < size) snprintf(text + used, size - used, "; --set changes them");
    notes->count++;
}

static void collect_notes(const conversion *c, note_list *notes)
{
    const vit_config *config = &c->model.config;
    const settings_stored *stored = &c->model.stored;
    char word[32];
    notes->count = 0;
    note_assumptions(c, notes);
    note_defaults(c, notes);
    if (stored->first_rows)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "pos_embed has %d rows, of which the first %d are used", c->seen.position_rows,
                 stored->position_rows);
    if (c->model.context_divisor > 0)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "attention is divided by %.9g behind the softmax: so is attn.proj.weight instead",
                 c->model.context_divisor);
    if (c->model.notes.patches_adapted && config->stem)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "first convolution of the stem adapted from %d to %d channels", stored->chans,
                 config->in_chans);
    else if (c->model.notes.patches_adapted)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "patch embedding adapted from %d x %d x %d to %d x %d x %d weights",
                 stored->chans, stored->patch, stored->patch, config->in_chans, config->patch_size,
                 config->patch_size);
    if (c->model.notes.positions_resampled)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "positions resampled from %dx%d to %dx%d patches, as %s does",
                 stored->grid_height, stored->grid_width, config->grid_height, config->grid_width,
                 setting_text(SETTING_POS_RESAMPLE, (int)c->model.notes.pos_resample, word));
    if (c->config_foreign)
        snprintf(add_note(notes), sizeof notes->text[0],
                 "config.json beside the checkpoint is not in timm's form and was not read");
    if (c->plan.ignored_count > 0) note_ignored(c, notes);
}

static void print_comparison(const conversion *c)
{
    const comparison *k = &c->comparison;
    const photo_list *photos = conversion_photos(c);
    if (k->images == 0) return;
    printf("%-15s against f32 on %d images%s\n", "error", k->images,
           c->photos.count > 0 ? "" : ", those of the calibration");
    printf("%-15s cosine of the %s %.6f on average, %.6f at worst (%s)\n", "",
           k->has_classes ? "logits" : "embeddings", k->mean_cosine, k->min_cosine,
           photos->paths[k->worst]);
    if (k->has_classes)
        printf("%-15s same best class for %d of %d, %.2f %%\n", "", k->agree, k->images,
               100.0 * k->agree / k->images);
}

static void print_report(const conversion *c)
{
    char a[32];
    note_list notes;
    int i;
    printf("%-15s %s: %s, %s layout", "checkpoint", paths_file_name(c->options->checkpoint),
           checkpoint_kind(c->checkpoint), c->map.layout->name);
    if (*checkpoint_wrapper(c->checkpoint)) printf(", in %s", checkpoint_wrapper(c->checkpoint));
    if (*c->map.prefix) printf(", under %s", c->map.prefix);
    putchar('\n');
    print_architecture(c);
    print_parts(c);
    print_preprocessing(&c->model.config);
    print_labels(c);
    printf("%-15s %s, %s, %s bytes\n", "output", c->options->output,
           tensor_dtype_name(c->options->dtype), grouped(c->output_size, a));
    if (c->calibration.count > 0)
        printf("%-15s on %d images\n", "calibrated", c->calibration.count);
    print_comparison(c);
    collect_notes(c, &notes);
    for (i = 0; i < notes.count; i++) printf("%-15s %s\n", "note", notes.text[i]);
}

/* === The report for programs === */

static void json_text(const char *key, const char *value)
{
    printf(", \"%s\": ", key);
    if (value) json_write_string(stdout, value);
    else fputs("null", stdout);
}

/* The fewest digits that give the same float back. */
static void json_float(float value)
{
    char text[32];
    int digits;
    for (digits = 6; digits < 10; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    fputs(text, stdout);
}

static void json_config(const vit_config *c)
{
    int i;
    fputs(", \"config\": {", stdout);
#define TEXT_int(name) printf("\"" #name "\": %d, ", c->name);
#define TEXT_float(name) printf("\"" #name "\": "), json_float(c->name), printf(", ");
#define X(type, name, required, smallest, largest) TEXT_##type(name)
    VIT_FIELD_LIST(X)
#undef X
    for (i = 0; i < c->in_chans; i++) {
        fputs(i ? ", " : "\"mean\": [", stdout);
        json_float(c->mean[i]);
    }
    for (i = 0; i < c->in_chans; i++) {
        fputs(i ? ", " : "], \"std\": [", stdout);
        json_float(c->std[i]);
    }
    fputs("]}", stdout);
}

static void json_parameters(const conversion *c)
{
    part parts[MAX_PARTS];
    int count = list_parts(c, parts), i;
    fputs(", \"parameters\": {", stdout);
    for (i = 0; i < count; i++) printf("\"%s\": %" PRIu64 ", ", parts[i].name, parts[i].parameters);
    printf("\"total\": %" PRIu64 "}", c->parameters);
}

static void json_notes(const conversion *c)
{
    note_list notes;
    size_t t;
    int i;
    collect_notes(c, &notes);
    fputs(", \"dropped\": [", stdout);
    for (t = 0; t < c->plan.ignored_count; t++) {
        if (t) fputs(", ", stdout);
        json_write_string(stdout, c->plan.ignored[t]);
    }
    fputs("], \"notes\": [", stdout);
    for (i = 0; i < notes.count; i++) {
        if (i) fputs(", ", stdout);
        json_write_string(stdout, notes.text[i]);
    }
    fputs("]", stdout);
}

static void json_comparison(const conversion *c)
{
    const comparison *k = &c->comparison;
    printf(", \"calibrated\": %d, \"error\": ", c->calibration.count);
    if (k->images == 0) {
        fputs("null", stdout);
        return;
    }
    printf("{\"images\": %d, \"mean_cosine\": ", k->images);
    json_write_number(stdout, k->mean_cosine, 9);
    fputs(", \"min_cosine\": ", stdout);
    json_write_number(stdout, k->min_cosine, 9);
    json_text("worst_image", conversion_photos(c)->paths[k->worst]);
    if (k->has_classes)
        printf(", \"agree\": %d, \"top1_agreement\": %.6f}", k->agree,
               (double)k->agree / k->images);
    else
        fputs(", \"agree\": null, \"top1_agreement\": null}", stdout);
}

static void print_json(const conversion *c)
{
    char name[256];
    fputs("{\"checkpoint\": ", stdout);
    json_write_string(stdout, c->options->checkpoint);
    json_text("container", checkpoint_kind(c->checkpoint));
    json_text("layout", c->map.layout->name);
    json_text("wrapper", checkpoint_wrapper(c->checkpoint));
    json_text("prefix", c->map.prefix);
    if (c->has_arch) arch_full_name(&c->arch, name, sizeof name);
    json_text("architecture", c->has_arch ? name : NULL);
    json_config(&c->model.config);
    json_parameters(c);
    printf(", \"labels\": %zu", c->labels.count);
    json_text("dtype", tensor_dtype_name(c->options->dtype));
    json_text("output", c->options->output);
    printf(", \"bytes\": %" PRIu64, c->output_size);
    json_comparison(c);
    json_notes(c);
    fputs("}\n", stdout);
}

/* === Commands === */

static void print_archs(void)
{
    const arch *a;
    size_t i;
    printf("%-34s %6s %6s %6s %8s %6s %6s\n", "architecture", "width", "depth", "heads", "mlp_dim",
           "patch", "image");
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        printf("%-34s %6d %6d %6d %8d %6d %6d\n", a->name, a->embed_dim, a->depth, a->num_heads,
               a->mlp_dim, a->patch_size, a->img_size);
}

static int failed(const char *message, int status)
{
    report_error(PROGRAM, NULL, "%s", message);
    return status;
}

/* The settings of the command line; a usage error if one does not parse. */
static bool parse_settings(const arguments *a, settings *s, report *r)
{
    int i;
    settings_start(s, "--img-size");
    if (a->convert.img_size && !settings_parse_size(s, a->convert.img_size, r)) return false;
    if (a->convert.dynamic) settings_put(s, SETTING_DYNAMIC_IMG_SIZE, 1);
    s->origin = "--set";
    for (i = 0; i < a->convert.set.count; i++)
        if (!settings_parse(s, a->convert.set.items[i], r)) return false;
    return true;
}

static int convert(const arguments *a)
{
    report r = report_make();
    conversion *c = calloc(1, sizeof *c);
    int status = CLI_OK;
    if (!c) return failed("out of memory", CLI_FAILED);
    c->options = &a->convert;
    if (!parse_settings(a, &c->all[FROM_OPTIONS], &r)) {
        status = CLI_USAGE;
    } else if (!convert_run(c, &r)) {
        status = CLI_FAILED;
    } else if (a->json) {
        print_json(c);
    } else if (!a->quiet) {
        print_report(c);
    }
    if (r.failed) failed(r.text, status);
    convert_free(c);
    free(c);
    return status;
}

static int unpack(const arguments *a)
{
    char n[32], b[32];
    report r = report_make();
    unpack_result result;
    if (!unpack_to_safetensors(a->convert.checkpoint, a->convert.output, a->quiet, &result, &r))
        return failed(r.text, CLI_FAILED);
    if (!strcmp(a->convert.output, "-")) return CLI_OK;
    if (a->json) {
        fputs("{\"output\": ", stdout);
        json_write_string(stdout, a->convert.output);
        printf(", \"tensors\": %zu, \"parameters\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n",
               result.tensors, result.parameters, result.bytes);
    } else if (!a->quiet) {
        printf("%s: %zu tensors, %s parameters, %s bytes\n", a->convert.output, result.tensors,
               grouped(result.parameters, n), grouped(result.bytes, b));
    }
    return CLI_OK;
}

static int write_c_array(const arguments *a)
{
    char b[32], w[32], l[32];
    report r = report_make();
    c_array_result result;
    if (!c_array_write(a->convert.checkpoint, a->convert.output, a->quiet, &result, &r))
        return failed(r.text, CLI_FAILED);
    if (!strcmp(a->convert.output, "-")) return CLI_OK;
    if (a->json) {
        fputs("{\"output\": ", stdout);
        json_write_string(stdout, a->convert.output);
        printf(", \"name\": \"%s\", \"bytes\": %" PRIu64 ", \"workspace\": %" PRIu64
               ", \"workspace_low\": %" PRIu64 "}\n",
               result.name, result.bytes, result.workspace, result.low_memory);
    } else if (!a->quiet) {
        printf("%s: %s_data, %s bytes; workspace %s bytes, with low_memory %s\n",
               a->convert.output, result.name, grouped(result.bytes, b),
               grouped(result.workspace, w), grouped(result.low_memory, l));
    }
    return CLI_OK;
}

static int usage_error(const char *message)
{
    report_error(PROGRAM, NULL, "%s (--help tells more)", message);
    return CLI_USAGE;
}

static int run(arguments *a, const text_list *operands)
{
    int dtype = tensor_find_dtype(a->dtype);
    if (a->list_archs) return print_archs(), CLI_OK;
    if (operands->count != 1) return usage_error("expected one CHECKPOINT");
    if (!a->convert.output) return usage_error("expected -o FILE");
    if (dtype < 0) return usage_error("--dtype: expected f32, f16, bf16, int8 or int4");
    if (a->convert.keep.count > 0 && dtype < VIT_I8)
        return usage_error("--keep: expected --dtype int8 or int4");
    if (a->convert.calibrate.count > 0 && dtype < VIT_BF16)
        return usage_error("--calibrate: expected --dtype int8, int4 or bf16");
    if (a->convert.compare.count > 0 && dtype == VIT_F32)
        return usage_error("--report compares with f32: expected another --dtype");
    a->convert.checkpoint = operands->items[0];
    a->convert.dtype = (vit_dtype)dtype;
    a->convert.quiet = a->quiet;
    if (a->c_array && a->to) return usage_error("--c-array and --to exclude each other");
    if (a->c_array) return write_c_array(a);
    if (a->to && !strcmp(a->to, "safetensors")) return unpack(a);
    if (a->to && strcmp(a->to, "vit") != 0)
        return usage_error("--to: expected vit or safetensors");
    return convert(a);
}

/* --help lists what --set takes, straight from the table. malloc'ed; NULL: no memory. */
static char *make_notes(void)
{
    static const char intro[] =
        "CHECKPOINT is safetensors (also sharded), a PyTorch .pth, .pt or .bin of any age, a JAX\n"
        ".npz, a file of vit.cpp (no other GGUF), or a folder with one of them. config.json\n"
        "beside it is read unless --config is given. The tensors' names tell whose it is: timm's,\n"
        "transformers', torchvision's, open_clip's, JAX's, torch.nn's, vit-pytorch's.\n"
        "\nWhat --set takes, and where it differs from what is found out otherwise, decides:\n"
        "  img_size=N or HxW, mean=M[,M...], std=S[,S...]\n";
    char *text = malloc(sizeof intro + SETTING_COUNT * 128);
    size_t used = sizeof intro - 1;
    int key;
    if (!text) return NULL;
    memcpy(text, intro, sizeof intro);
    for (key = 0; key < SETTING_COUNT; key++)
        used += (size_t)snprintf(text + used, 128, "  %-20s %s%s%s\n",
                                 setting_rows[key].name, setting_rows[key].help,
                                 setting_rows[key].choices ? ": " : "",
                                 setting_rows[key].choices ? setting_rows[key].choices
                                                                 : "");
    return text;
}

int main(int argc, char **argv)
{
    static arguments a;
    char *notes = make_notes();
    const cli_option options[] = {
        { 'o', "output", "FILE", "the file to write", CLI_TEXT, &a.convert.output, 0, 0 },
        { 0, "config", "FILE", "timm's config.json", CLI_TEXT, &a.convert.config, 0, 0 },
        { 0, "arch", "NAME", "timm's name of the architecture, with or without a .tag", CLI_TEXT,
          &a.convert.arch, 0, 0 },
        { 0, "labels", "FILE", "names of the classes: one a line, or \"n01440764 tench\"",
          CLI_TEXT, &a.convert.labels, 0, 0 },
        { 0, "dtype", "TYPE", "of the matrices: f32 (default), f16, bf16, int8 or int4", CLI_TEXT,
          &a.dtype, 0, 0 },
        { 0, "keep", "PATTERN", "keep tensors whose name matches in bf16 where --dtype is int8\n"
          "or int4: 'blocks.0.*'; may be repeated. int8 of a model at most\n"
          "256 wide keeps blocks.[01].attn.qkv.*, blocks.[01].mlp.* and\n"
          "head.weight; --keep none does not", CLI_LIST, &a.convert.keep, 0, 0 },
        { 0, "calibrate", "IMAGES", "an image or a folder of images, a few dozen or hundred like\n"
          "those that the model is for: int8, int4 and bf16 lose less;\nmay be repeated", CLI_LIST,
          &a.convert.calibrate, 0, 0 },
        { 0, "calibrate-max", "N", "use at most N of them, evenly spaced (default 256)", CLI_INT,
          &a.convert.calibrate_max, 1, 65536 },
        { 0, "report", "IMAGES", "report the error against f32 on these, not on those of\n"
          "--calibrate; may be repeated", CLI_LIST, &a.convert.compare, 0, 0 },
        { 0, "report-max", "N", "use at most N of them, evenly spaced (default 1000)", CLI_INT,
          &a.convert.compare_max, 1, 1048576 },
        { 0, "img-size", "N|HxW", "resample the positions for this input size", CLI_TEXT,
          &a.convert.img_size, 0, 0 },
        { 0, "patch-size", "N", "other patches, as FlexiViT's weights allow: resizes the patch\n"
          "embedding; the input keeps its size, the positions are resampled", CLI_INT,
          &a.convert.patch_size, 1, 1024 },
        { 0, "in-chans", "N", "another number of channels, made from the first three: 1 is their\n"
          "sum, with the mean of their mean and std; more repeat them", CLI_INT,
          &a.convert.in_chans, 1, VIT_MAX_CHANS },
        { 0, "dynamic", NULL, "let programs choose the input size (vit_model_resize)", CLI_FLAG,
          &a.convert.dynamic, 0, 0 },
        { 0, "set", "KEY=VALUE", "override one setting; may be repeated", CLI_LIST,
          &a.convert.set, 0, 0 },
        { 0, "rename", "THEIRS=OURS", "call a tensor by the name that a known layout has for it;\n"
          "a * stands for any text: 'stem.*=patch_embed.proj.*'; may be\nrepeated, the first that "
          "matches is used", CLI_LIST, &a.convert.rename, 0, 0 },
        { 0, "ignore", "PATTERN", "drop unknown tensors whose name matches, as a shell matches;\n"
          "may be repeated", CLI_LIST, &a.convert.ignore, 0, 0 },
        { 0, "to", "FORMAT", "vit (default), or safetensors to turn a .vit file back; int8 and\n"
          "int4 become f32", CLI_TEXT, &a.to, 0, 0 },
        { 0, "c-array", NULL, "turn a .vit file into a C header with a constant array, for flash",
          CLI_FLAG, &a.c_array, 0, 0 },
        { 0, "list-archs", NULL, "print the architectures and end", CLI_FLAG, &a.list_archs, 0,
          0 },
        { 0, "json", NULL, "report as JSON", CLI_FLAG, &a.json, 0, 0 },
        { 'q', "quiet", NULL, "no report, no progress", CLI_FLAG, &a.quiet, 0, 0 },
        CLI_END
    };
    const cli_program program = { PROGRAM, "[options] CHECKPOINT -o MODEL.vit",
                                  "Turns a checkpoint of a Vision Transformer into a .vit file.\n",
                                  options, notes, 0, CLI_MANY, "CHECKPOINT" };
    text_list operands;
    int status;
    a.dtype = "f32";
    a.convert.calibrate_max = 256;
    a.convert.compare_max = 1000;
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
    free(notes);
    return status;
}
