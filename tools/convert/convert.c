#define _POSIX_C_SOURCE 200809L

#include "convert/convert.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/paths.h"
#include "base/sha256.h"
#include "base/source.h"
#include "base/tensor.h"
#include "checkpoint/rename.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "convert/calibrate.h"
#include "convert/pages.h"
#include "convert/runner.h"
#include "convert/vit_writer.h"
#include "layout/adapt.h"
#include "layout/check.h"
#include "layout/detect.h"
#include "layout/inspect.h"
#include "layout/values.h"
#include "model/rel_pos.h"
#include "model/sincos.h"

/* === Configuration and name === */

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* config.json beside the checkpoint, or in it where that is a folder. malloc'ed. */
static char *config_beside(const char *checkpoint_path)
{
    static const char name[] = "config.json";
    size_t length = strlen(checkpoint_path);
    char *path = malloc(length + sizeof name + 1);
    if (!path) return NULL;
    if (source_is_folder(checkpoint_path))
        snprintf(path, length + sizeof name + 1, "%s/%s", checkpoint_path, name);
    else
        snprintf(path, length + sizeof name + 1, "%.*s%s",
                 (int)paths_folder_length(checkpoint_path), checkpoint_path, name);
    return path;
}

static bool read_config(conversion *c, report *r)
{
    const char *given = c->options->config;
    size_t size = given ? strlen(given) + 1 : 0;
    settings_start(&c->all[FROM_CONFIG], "config.json");
    c->config_path = given ? malloc(size) : config_beside(c->options->checkpoint);
    if (!c->config_path) return report_no_memory(r);
    if (given) memcpy(c->config_path, given, size);
    if (given || is_file(c->config_path)) {
        c->all[FROM_CONFIG].origin = paths_file_name(c->config_path);
        if (!config_read(&c->config_file, &c->all[FROM_CONFIG], c->config_path,
                         given ? NULL : &c->config_foreign, r))
            return false;
        if (!c->config_foreign) return true;
    }
    free(c->config_path);
    c->config_path = NULL;
    return true;
}

static void settings_from_arch(settings *s, const arch_choice *choice)
{
    vit_config config;
    rope_options rope;
    arch_config(choice, &config);
    settings_from_config(s, &config);
    arch_rope_options(choice, &rope);
    settings_from_rope(s, &rope);
    settings_put(s, SETTING_CROP_PCT, choice->crop_pct);
    arch_mean_std(choice->norm, s->mean, s->std);
    s->mean_count = s->std_count = 3;
}

/* --arch, or what the configuration says; a name given by hand wins. A configuration may name an
 * architecture of its author's own: then its other entries and the tensors must do. */
static bool find_arch(conversion *c, report *r)
{
    const bool given = c->options->arch != NULL;
    const char *name = given ? c->options->arch : c->config_file.architecture;
    arch_result result;
    settings_start(&c->all[FROM_NAME], "");
    if (!name) return true;
    c->arch_origin = given ? "--arch" : c->all[FROM_CONFIG].origin;
    result = arch_find(name, &c->arch, r);
    if (result == ARCH_UNKNOWN && !given) {
        *r = report_make();
        c->arch_unknown = name;
        return true;
    }
    if (result != ARCH_FOUND) return report_file(r, given ? "--arch" : c->config_path);
    c->has_arch = true;
    c->all[FROM_NAME].origin = c->arch.arch->name;
    settings_from_arch(&c->all[FROM_NAME], &c->arch);
    return true;
}

/* Those in the checkpoint, which a list that does not fit only leaves out. */
static bool read_own_labels(conversion *c, report *r)
{
    const size_t count = checkpoint_label_count(c->checkpoint);
    if (count == 0 || count != (size_t)c->model.config.num_classes) return true;
    c->labels_origin = paths_file_name(c->options->checkpoint);
    return labels_from_list(&c->labels, checkpoint_labels(c->checkpoint), count, r);
}

static bool read_labels(conversion *c, report *r)
{
    const char *path = c->options->labels;
    bool good;
    if (path)
        good = labels_read_file(&c->labels, path, r);
    else
        good = c->model.config.num_classes == 0 ||   /* they name the classes of a head left out */
               labels_from_json(&c->labels, c->config_file.label_names,
                                c->config_file.label_descriptions, r);
    if (good && c->labels.count > 0 && c->labels.count != (size_t)c->model.config.num_classes)
        good = report_fail(r, "%zu labels for %d classes", c->labels.count,
                           c->model.config.num_classes);
    if (!good) return report_file(r, path ? path : c->config_path);
    c->labels_origin = path ? paths_file_name(path) : c->all[FROM_CONFIG].origin;
    return c->labels.count > 0 || read_own_labels(c, r);
}

/* === Provenance === */

/* A line of its own: control characters become '?'. */
static void put_line(FILE *file, const char *key, const char *value)
{
    fprintf(file, "%s%s", key, strncmp(key, "option", 6) ? ": " : " ");
    for (; *value; value++) fputc((unsigned char)*value < 0x20 ? '?' : *value, file);
    fputc('\n', file);
}

typedef struct hashing {
    cli_progress progress;
    uint64_t done;
} hashing;

static void show_hashing(void *user, size_t bytes)
{
    hashing *h = user;
    cli_progress_update(&h->progress, h->done += bytes);
}

static bool put_sources(conversion *c, FILE *file, report *r)
{
    uint64_t total = 0;
    hashing h;
    size_t count = checkpoint_file_count(c->checkpoint), i;
    bool good = true;
    for (i = 0; i < count; i++) total += checkpoint_file(c->checkpoint, i)->size;
    h.done = 0;
    cli_progress_start(&h.progress, "hashing", total);
    if (c->options->quiet) h.progress.active = false;
    for (i = 0; i < count; i++) {
        const char *path = checkpoint_file(c->checkpoint, i)->path;
        char hex[65];
        good = sha256_file(path, hex, show_hashing, &h) ||
               report_fail(r, "cannot be read: %s", strerror(errno)) || report_file(r, path);
        if (!good) break;
        put_line(file, "source", paths_file_name(path));
        put_line(file, "sha256", hex);
    }
    cli_progress_clear(&h.progress);
    return good;
}

/* Tensors that stay in 16 bits. Narrow models have little to average rounding errors over, and
 * theirs are small: unless told otherwise, int8 spares their first two blocks and the head, but
 * for attn.proj, whose input in 8 bits is what keeps the workspace of low_memory small. */
static void choose_kept(const conversion *c, vit_writer_keep *keep)
{
    static const char *const narrow[] = { "blocks.[01].attn.qkv.*", "blocks.[01].mlp.*",
                                          "head.weight" };
    const convert_options *o = c->options;
    const bool by_default = o->keep.count == 0 && o->dtype == VIT_I8 &&
                            c->model.config.embed_dim <= 256;
    keep->patterns = o->keep.items;
    if (by_default) keep->patterns = narrow;
    keep->count = by_default ? (int)(sizeof narrow / sizeof *narrow) : o->keep.count;
}

/* What was told by hand, as one could type it again. */
static void put_overrides(const conversion *c, FILE *file)
{
    const convert_options *o = c->options;
    vit_writer_keep keep;
    int i;
    if (o->arch) put_line(file, "option: --arch", o->arch);
    if (o->img_size) put_line(file, "option: --img-size", o->img_size);
    if (o->patch_size) fprintf(file, "option: --patch-size %d\n", o->patch_size);
    if (o->in_chans) fprintf(file, "option: --in-chans %d\n", o->in_chans);
    if (o->dynamic) put_line(file, "option:", "--dynamic");
    for (i = 0; i < o->set.count; i++) put_line(file, "option: --set", o->set.items[i]);
    for (i = 0; i < o->rename.count; i++) put_line(file, "option: --rename", o->rename.items[i]);
    for (i = 0; i < o->ignore.count; i++) put_line(file, "option: --ignore", o->ignore.items[i]);
    choose_kept(c, &keep);
    for (i = 0; i < keep.count; i++) put_line(file, "option: --keep", keep.patterns[i]);
}

static void put_provenance(conversion *c, FILE *file)
{
    char name[256], word[32];
    put_line(file, "container", checkpoint_kind(c->checkpoint));
    put_line(file, "layout", c->map.layout->name);
    if (*checkpoint_wrapper(c->checkpoint))
        put_line(file, "wrapper", checkpoint_wrapper(c->checkpoint));
    if (*c->map.prefix) put_line(file, "prefix", c->map.prefix);
    if (c->has_arch) {
        arch_full_name(&c->arch, name, sizeof name);
        put_line(file, "architecture", name);
    } else if (c->arch_unknown) {
        put_line(file, "architecture", c->arch_unknown);
    }
    if (c->config_path) put_line(file, "config", c->all[FROM_CONFIG].origin);
    if (c->labels.count > 0) put_line(file, "labels", c->labels_origin);
    put_line(file, "dtype", tensor_dtype_name(c->options->dtype));
    if (c->calibration.count > 0)
        fprintf(file, "calibrated: on %d images\n", c->calibration.count);
    put_overrides(c, file);
    if (c->model.notes.heads_by_width) put_line(file, "assumed", "num_heads, from embed_dim");
    if (c->model.notes.preprocess_assumed) put_line(file, "assumed", "mean and std");
    if (c->config_file.processor) put_line(file, "assumed", "transformers' default preprocessing");
    if (c->model.context_divisor > 0)
        fprintf(file, "folded: attn.proj.weight, divided by the root of embed_dim\n");
    if (c->model.notes.patches_adapted && c->model.config.stem)
        fprintf(file, "adapted: the stem, from %d channels\n", c->model.stored.chans);
    else if (c->model.notes.patches_adapted)
        fprintf(file, "adapted: patch_embed.proj.weight, from %d x %d x %d\n",
                c->model.stored.chans, c->model.stored.patch, c->model.stored.patch);
    if (c->model.notes.positions_resampled)
        fprintf(file, "resampled: %s, from a grid of %dx%d, as %s does\n",
                c->seen.position_rows > 0 ? "pos_embed" : "attn.rel_pos",
                c->model.stored.grid_height, c->model.stored.grid_width,
                setting_text(SETTING_POS_RESAMPLE, (int)c->model.notes.pos_resample, word));
    fprintf(file, "converter: vit-convert %d.%d.%d\n", VIT_VERSION_MAJOR, VIT_VERSION_MINOR,
            VIT_VERSION_PATCH);
}

static bool make_provenance(conversion *c, report *r)
{
    size_t size;
    FILE *file = open_memstream(&c->provenance, &size);
    bool good, failed;
    if (!file) return report_no_memory(r);
    good = put_sources(c, file, r);
    if (good) put_provenance(c, file);
    failed = ferror(file) != 0;
    if ((fclose(file) != 0 || failed) && good) return report_no_memory(r);
    return good;
}

/* === Weights === */

typedef struct conversion_stream {
    conversion *c;
    vit_writer writer;
    cli_output output;
    cli_progress progress;
    const vit_tensor *target;  /* of the writer: the one being written */
    calibration *calibration;  /* where weights come from if not from the checkpoint */
    float *buffer;          /* rows on their way */
    size_t nonfinite, overflows;
    bool allow_nonfinite;
} conversion_stream;

/* Above this a number would round to infinity. f32 overflows nowhere. */
static float largest_of(vit_dtype dtype)
{
    if (dtype == VIT_F16) return 65504.0f;
    if (dtype == VIT_I4) return 8 * 65504.0f;
    return dtype == VIT_BF16 ? 3.3895313892515355e38f : HUGE_VALF;
}

static void count_bad(conversion_stream *s, const float *values, size_t n, float largest)
{
    size_t i;
    for (i = 0; i < n; i++) {
        if (!isfinite(values[i])) s->nonfinite++;
        else if (fabsf(values[i]) > largest) s->overflows++;
    }
}

/* Once allowed: a type with steps has no place for them, and a calibration would spread them. */
static bool may_be_nonfinite(const conversion_stream *s)
{
    return s->target->dtype < VIT_I8 && s->c->calibration.count == 0;
}

static bool check_values(conversion_stream *s, const layout_item *item, report *r)
{
    const vit_dtype dtype = s->target->dtype;
    if (s->nonfinite > 0 && !s->allow_nonfinite)
        return report_fail(r, "%s: %zu weights are NaN or infinite (--set allow_nonfinite=1 "
                           "accepts them)", layout_item_name(item), s->nonfinite);
    if (s->nonfinite > 0 && !may_be_nonfinite(s))
        return report_fail(r, "%s: %zu weights are NaN or infinite, which cannot be quantised",
                           layout_item_name(item), s->nonfinite);
    if (s->overflows > 0)
        return report_fail(r, "%s: %zu weights are too large for %s (above %g); use --dtype %s",
                           layout_item_name(item), s->overflows, tensor_dtype_name(dtype),
                           (double)largest_of(dtype),
                           s->c->options->dtype == VIT_F16 ? "bf16 or f32" : "f32");
    return true;
}

static bool refuse_bad(conversion_stream *s, const layout_item *item, report *r)
{
    return check_values(s, item, r) || report_file(r, s->c->options->checkpoint);
}

static bool read_values(conversion_stream *s, const layout_item *item, int64_t first, int64_t n,
                        float *to, report *r)
{
    if (!layout_read(s->c->checkpoint, item, first, n, to, r))
        return report_file(r, s->c->options->checkpoint);
    count_bad(s, to, (size_t)n, largest_of(s->target->dtype));
    return true;
}

/* A tensor as it is: 16 rows at a time for panels, else in pieces of any size. */
static bool stream_copy(conversion_stream *s, const layout_item *item, report *r)
{
    const bool panels = item->tensor.layout == VIT_LAYOUT_PANELS;
    const int64_t count = (int64_t)tensor_count(&item->tensor);
    const int64_t depth = (int64_t)tensor_depth(&item->tensor);
    const int64_t piece = panels ? 16 * depth : 65536;
    int64_t first;
    for (first = 0; first < count; first += piece) {
        int64_t n = count - first < piece ? count - first : piece;
        bool good = read_values(s, item, first, n, s->buffer, r);
        if (!good || !(panels ? vit_writer_rows(&s->writer, s->buffer, (int)(n / depth), r)
                              : vit_writer_values(&s->writer, s->buffer, (size_t)n, r)))
            return false;
        cli_progress_update(&s->progress, s->writer.position);
    }
    return true;
}

/* The patch embedding, or the first convolution of a stem, for other channels or another patch
 * size, 16 rows at a time; standardised is what comes out. */
static bool stream_adapted(conversion_stream *s, const layout_item *item, const adaptation *a,
                           float *from, report *r)
{
    const int64_t old = (int64_t)a->from.chans * a->from.side * a->from.side;
    const int64_t new = (int64_t)a->to.chans * a->to.side * a->to.side;
    const bool is_standard = item->method == LAYOUT_STANDARD;
    layout_item raw = *item;
    int row, i;
    if (is_standard) raw.method = LAYOUT_STACK;
    for (row = 0; row < item->tensor.dims[0]; row += 16) {
        const int rest = item->tensor.dims[0] - row, n = rest < 16 ? rest : 16;
        if (!read_values(s, &raw, row * old, n * old, from, r)) return false;
        for (i = 0; i < n; i++) {
            adapt_row(a, from + i * old, s->buffer + i * new);
            if (is_standard) layout_standardise(s->buffer + i * new, new);
        }
        if (s->nonfinite == 0)
            count_bad(s, s->buffer, (size_t)(n * new), largest_of(s->target->dtype));
        if (!vit_writer_rows(&s->writer, s->buffer, n, r)) return false;
    }
    return true;
}

static bool stream_patches(conversion_stream *s, const layout_item *item, report *r)
{
    const patch_shape wanted = { item->tensor.dims[1], item->tensor.dims[2] };
    const patch_shape stored = { (int)item->dims[1], (int)item->dims[2] };
    const size_t old = (size_t)stored.chans * (size_t)stored.side * (size_t)stored.side;
    adaptation a;
    float *from;
    bool good = adapt_start(&a, &stored, &wanted, s->c->model.notes.pos_resample, r);
    from = good ? malloc(16 * old * sizeof *from) : NULL;
    if (good && !from) good = report_no_memory(r);
    good = good && stream_adapted(s, item, &a, from, r);
    free(from);
    adapt_free(&a);
    return good;
}

/* Positions for another grid: prefix tokens as they are, the patches resampled. */
static bool stream_positions(conversion_stream *s, const layout_item *item, report *r)
{
    const vit_config *config = &s->c->model.config;
    const settings_stored *stored = &s->c->model.stored;
    const size_t depth = (size_t)config->embed_dim;
    const size_t old = (size_t)stored->position_rows * depth;
    const size_t prefix = old - (size_t)stored->patch_rows * depth;
    const size_t total = prefix + (size_t)config->num_patches * depth;
    float *from = malloc((old + total) * sizeof *from), *to = from ? from + old : NULL;
    bool good = from ? true : report_no_memory(r);
    good = good && read_values(s, item, 0, (int64_t)old, from, r);
    if (good) {
        memcpy(to, from, prefix * sizeof *to);
        vit_resample_positions(s->c->model.notes.pos_resample, from + prefix, stored->grid_height,
                               stored->grid_width, to + prefix, config->grid_height,
                               config->grid_width, config->embed_dim);
    }
    good = good && vit_writer_values(&s->writer, to, total, r);
    free(from);
    return good;
}

/* Relative positions for another grid: each head has a row, and the class token its end. */
static bool stream_relative(conversion_stream *s, const layout_item *item, report *r)
{
    const vit_config *config = &s->c->model.config;
    const settings_stored *stored = &s->c->model.stored;
    const size_t heads = (size_t)item->tensor.dims[0], new = (size_t)item->tensor.dims[1];
    const size_t old = (size_t)s->c->seen.relative_positions;
    float *from = malloc((old + new) * sizeof *from);
    bool good = from ? true : report_no_memory(r);
    size_t i;
    for (i = 0; good && i < heads; i++) {
        float *to = from + old;
        good = read_values(s, item, (int64_t)(i * old), (int64_t)old, from, r) &&
               (rel_pos_resample(s->c->model.notes.pos_resample, from, stored->grid_height,
                                 stored->grid_width, to, config->grid_height, config->grid_width) ||
                report_no_memory(r));
        if (good) memcpy(to + new - 3, from + old - 3, 3 * sizeof *to);
        good = good && vit_writer_values(&s->writer, to, new, r);
    }
    free(from);
    return good;
}

static bool stream_sincos(conversion_stream *s, const layout_item *item, report *r)
{
    const size_t count = (size_t)tensor_count(&item->tensor);
    float *values = malloc(count * sizeof *values);
    bool good = values ? true : report_no_memory(r);
    if (good) sincos_positions(s->c->model.pos_sincos, &s->c->model.config, values);
    good = good && vit_writer_values(&s->writer, values, count, r);
    free(values);
    return good;
}

/* Room for the self-test, whose outputs the finished file has yet to give. */
static bool stream_zeros(conversion_stream *s, const layout_item *item, report *r)
{
    const size_t count = (size_t)tensor_count(&item->tensor);
    float *zeros = calloc(count, sizeof *zeros);
    const bool good = zeros ? vit_writer_values(&s->writer, zeros, count, r) : report_no_memory(r);
    free(zeros);
    return good;
}

/* A tensor that the calibration has changed, or passed on. */
static bool stream_calibrated(conversion_stream *s, const layout_item *item, report *r)
{
    const int64_t depth = (int64_t)tensor_depth(&item->tensor);
    const int index = (int)(s->target - s->writer.tensors);
    const float *values = calibrate_tensor(s->calibration, index, s->target->dtype, r);
    int row;
    for (row = 0; values && row < item->tensor.dims[0]; row += 16) {
        const int rest = item->tensor.dims[0] - row, n = rest < 16 ? rest : 16;
        const float *rows = values + (size_t)row * (size_t)depth;
        count_bad(s, rows, (size_t)n * (size_t)depth, largest_of(s->target->dtype));
        if (!vit_writer_rows(&s->writer, rows, n, r)) return false;
        cli_progress_update(&s->progress, s->writer.position);
    }
    return values != NULL;
}

static bool stream_source(conversion_stream *s, const layout_item *item, report *r)
{
    const vit_config *config = &s->c->model.config;
    const size_t count = (size_t)tensor_count(&item->tensor);
    switch (item->kind) {
    case SOURCE_CHECKPOINT: return stream_copy(s, item, r);
    case SOURCE_RESAMPLED: return stream_positions(s, item, r);
    case SOURCE_RESAMPLED_RELATIVE: return stream_relative(s, item, r);
    case SOURCE_ADAPTED: return stream_patches(s, item, r);
    case SOURCE_SINCOS: return stream_sincos(s, item, r);
    case SOURCE_MEAN: return vit_writer_values(&s->writer, config->mean, count, r);
    case SOURCE_STD: return vit_writer_values(&s->writer, config->std, count, r);
    case SOURCE_SELFTEST: break;
    }
    return stream_zeros(s, item, r);
}

static bool stream_item(conversion_stream *s, const layout_item *item, report *r)
{
    const bool is_calibrated = s->calibration && layout_is_stored(item);
    s->nonfinite = s->overflows = 0;
    s->target = &s->writer.tensors[s->writer.current];
    return (is_calibrated ? stream_calibrated(s, item, r) : stream_source(s, item, r)) &&
           refuse_bad(s, item, r);
}

static size_t buffer_size(const layout_plan *plan)
{
    int64_t largest = 65536;
    size_t i;
    for (i = 0; i < plan->count; i++) {
        const vit_tensor *tensor = &plan->items[i].tensor;
        int64_t rows = tensor->dims[0] < 16 ? tensor->dims[0] : 16;
        int64_t size = rows * (int64_t)tensor_depth(tensor);
        if (tensor->layout == VIT_LAYOUT_PANELS && size > largest) largest = size;
    }
    return (size_t)largest;
}

static bool stream_all(conversion_stream *s, report *r)
{
    conversion *c = s->c;
    size_t i;
    s->buffer = malloc(buffer_size(&c->plan) * sizeof *s->buffer);
    if (!s->buffer) return report_no_memory(r);
    cli_progress_start(&s->progress, "converting", s->writer.file_size);
    if (c->options->quiet) s->progress.active = false;
    for (i = 0; i < c->plan.count; i++)
        if (!stream_item(s, &c->plan.items[i], r)) return false;
    return vit_writer_finish(&s->writer, r);
}

/* === Self-test === */

static void drop_pages(void *user, const char *name, const float *data, const int shape[4])
{
    (void)name, (void)data, (void)shape;
    pages_drop(user);
}

static bool all_finite(const float *values, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

/* The file has its tensors in the order of the plan. */
static size_t selftest_index(const layout_plan *plan)
{
    return (size_t)(layout_selftest(plan) - plan->items);
}

/* Runs the file just written and keeps what came out in it. */
static bool selftest_run(conversion_stream *s, runner *run, const vit_config *config, report *r)
{
    vit_selftest_input(config, run->input);
    if (!runner_forward(run, r)) return false;
    if (!s->allow_nonfinite && !all_finite(run->output, run->output_size)) {
        (void)report_fail(r, "the outputs of the self-test are not finite: the weights overflow");
        return report_file(r, s->c->options->checkpoint);
    }
    return vit_writer_replace(&s->writer, selftest_index(&s->c->plan), run->output, r) &&
           vit_writer_finish(&s->writer, r);
}

/* A file that was just written, under its temporary name. */
static bool open_written(const cli_output *output, vit_model *model, report *r)
{
    vit_result result = vit_model_open(output->temporary, 0, model);
    return !result || report_fail(r, "%s: %s", vit_result_string(result), model->detail);
}

static bool add_selftest(conversion_stream *s, report *r)
{
    vit_model model;
    runner run;
    bool good;
    if (!open_written(&s->output, &model, r)) return false;
    good = runner_open(&run, &model, drop_pages, &model, r) &&
           selftest_run(s, &run, &model.config, r);
    runner_close(&run);
    vit_model_close(&model);
    return good;
}

/* === Output === */

/* The checkpoint, or what the calibration makes of it, as a file of type dtype. */
static bool write_stream(conversion_stream *s, vit_dtype dtype, report *r)
{
    conversion *c = s->c;
    vit_writer_strings strings;
    vit_writer_keep keep;
    bool good;
    strings.count = c->labels.count;
    strings.labels = c->labels.labels;
    strings.synsets = c->labels.synsets;
    strings.provenance = c->provenance;
    choose_kept(c, &keep);
    if (!vit_writer_start_mixed(&s->writer, s->output.file, &c->model.config, dtype, &keep,
                                &strings, r))
        return false;
    good = stream_all(s, r);
    cli_progress_clear(&s->progress);
    good = good && (!layout_selftest(&c->plan) || add_selftest(s, r));
    c->output_size = s->writer.file_size;
    free(s->buffer);
    s->buffer = NULL;
    vit_writer_free(&s->writer);
    return good;
}

/* Every file that is read: none of them may be overwritten. malloc'ed. */
static const char **list_inputs(const conversion *c, int *count)
{
    size_t files = checkpoint_file_count(c->checkpoint), i;
    size_t photos = (size_t)c->calibration.count + (size_t)c->photos.count;
    const char **inputs = calloc(files + photos + 3, sizeof *inputs);
    int p;
    *count = 0;
    if (!inputs) return NULL;
    inputs[(*count)++] = c->options->checkpoint;
    for (i = 0; i < files; i++) inputs[(*count)++] = checkpoint_file(c->checkpoint, i)->path;
    if (c->config_path) inputs[(*count)++] = c->config_path;
    if (c->options->labels) inputs[(*count)++] = c->options->labels;
    for (p = 0; p < c->calibration.count; p++) inputs[(*count)++] = c->calibration.paths[p];
    for (p = 0; p < c->photos.count; p++) inputs[(*count)++] = c->photos.paths[p];
    return inputs;
}

static bool open_output(conversion *c, cli_output *output, report *r)
{
    int count;
    const char **inputs = list_inputs(c, &count);
    bool good;
    if (!inputs) return report_no_memory(r);
    good = cli_output_open(output, c->options->output, inputs, count, r);
    free(inputs);
    if (!good || output->temporary) return good;
    cli_output_abandon(output);
    return report_fail(r, "expected the name of a file, found a pipe or a device");
}

/* === The model in f32, to calibrate and to compare with === */

static bool wants_reference(const conversion *c)
{
    return c->calibration.count > 0 || c->photos.count > 0;
}

/* A file without a name: it lies where the output will, and is gone when it is closed. */
static bool open_reference(conversion *c, vit_model *model, report *r)
{
    conversion_stream s;
    bool good;
    memset(&s, 0, sizeof s);
    s.c = c;
    s.allow_nonfinite = c->all[FROM_OPTIONS].value[SETTING_ALLOW_NONFINITE] != 0;
    if (!open_output(c, &s.output, r)) return false;
    good = write_stream(&s, VIT_F32, r) && open_written(&s.output, model, r);
    cli_output_abandon(&s.output);
    return good;
}

static bool compare(conversion_stream *s, const vit_model *reference, report *r)
{
    conversion *c = s->c;
    vit_model model;
    bool good;
    if (!open_written(&s->output, &model, r)) return false;
    good = compare_models(reference, &model, convert_photos(c), c->options->quiet,
                          &c->comparison, r);
    vit_model_close(&model);
    return good;
}

static bool write_with_reference(conversion_stream *s, report *r)
{
    conversion *c = s->c;
    vit_model reference;
    bool good;
    if (!open_reference(c, &reference, r)) return false;
    if (c->calibration.count > 0)
        s->calibration = calibrate_start(&reference, c->options->dtype, &c->calibration,
                                         c->options->quiet, r);
    good = (s->calibration || c->calibration.count == 0) && write_stream(s, c->options->dtype, r);
    calibrate_free(s->calibration);
    good = good && compare(s, &reference, r);
    vit_model_close(&reference);
    return good;
}

static bool write_output(conversion *c, report *r)
{
    conversion_stream s;
    memset(&s, 0, sizeof s);
    s.c = c;
    s.allow_nonfinite = c->all[FROM_OPTIONS].value[SETTING_ALLOW_NONFINITE] != 0;
    if (!open_output(c, &s.output, r)) return false;
    /* A zip's checksums: a damaged weight must not become a model that looks healthy. */
    if (!checkpoint_verify(c->checkpoint, r) || !make_provenance(c, r) ||
        !(wants_reference(c) ? write_with_reference(&s, r)
                             : write_stream(&s, c->options->dtype, r))) {
        cli_output_abandon(&s.output);
        return false;
    }
    return cli_output_commit(&s.output, r);
}

/* === Everything === */

static bool open_checkpoint(conversion *c, report *r)
{
    unsigned char magic[8];
    FILE *file = is_file(c->options->checkpoint) ? fopen(c->options->checkpoint, "rb") : NULL;
    bool packed = file && fread(magic, 1, 8, file) == 8 && !memcmp(magic, VIT_FILE_MAGIC, 8);
    if (file) fclose(file);
    if (packed)
        return report_fail(r, "expected a checkpoint, found a .vit file (--to safetensors turns "
                           "it back)");
    return checkpoint_open(c->options->checkpoint, &c->checkpoint, r) &&
           (c->options->rename.count == 0 ||
            rename_tensors(c->checkpoint, &c->options->rename, r));
}

/* Which error of the self-test is still no bug, where nobody says otherwise. Builds with fused
 * multiply-add compute the same bits; those without (VIT_NO_FMA) differ by a few roundings, and
 * where inputs are rounded to 8 or 16 bits, each of them can move a number by a whole step. */
static void choose_tolerance(conversion *c)
{
    double given;
    if (settings_get(c->all, SETTING_SELFTEST_TOLERANCE, &given)) return;
    if (c->options->dtype == VIT_BF16) c->model.config.selftest_tolerance = 0.02f;
    if (c->options->dtype == VIT_I8) c->model.config.selftest_tolerance = 0.1f;
}

/* Everything but the weights themselves. */
static bool resolve(conversion *c, report *r)
{
    const patch_request wanted = { c->options->in_chans, c->options->patch_size };
    settings_start(&c->all[FROM_TENSORS], "the tensors");
    if (!layout_detect(c->checkpoint, &c->map, r)) return false;
    if (!layout_check_features(&c->map, &c->options->ignore, r)) return false;
    if (!read_config(c, r) || !find_arch(c, r)) return false;
    if (!layout_inspect(&c->map, c->all, &c->seen, r)) return false;
    if (!layout_check_names(&c->map, c->all, &c->options->ignore, r)) return false;
    if (!layout_check_told(&c->map, c->all, r)) return false;
    if (!settings_resolve(c->all, &c->seen, &wanted, &c->model, r)) return false;
    choose_tolerance(c);
    return layout_make_plan(&c->map, &c->model, c->options->dtype, &c->options->ignore,
                            &c->plan, r);
}

const photo_list *convert_photos(const conversion *c)
{
    return c->photos.count > 0 ? &c->photos : &c->calibration;
}

static bool find_photos(conversion *c, report *r)
{
    const convert_options *o = c->options;
    return photos_find(&c->calibration, &o->calibrate, o->calibrate_max, r) &&
           photos_find(&c->photos, &o->compare, o->compare_max, r);
}

bool convert_run(conversion *c, report *r)
{
    size_t i;
    if (!open_checkpoint(c, r) || !resolve(c, r)) return report_file(r, c->options->checkpoint);
    if (!read_labels(c, r) || !find_photos(c, r)) return false;
    for (i = 0; i < c->plan.count; i++)
        if (layout_is_stored(&c->plan.items[i]))
            c->parameters += tensor_count(&c->plan.items[i].tensor);
    return write_output(c, r) || report_file(r, c->options->output);
}

void convert_free(conversion *c)
{
    layout_free_plan(&c->plan);
    layout_free_map(&c->map);
    config_free(&c->config_file);
    labels_free(&c->labels);
    photos_free(&c->calibration);
    photos_free(&c->photos);
    checkpoint_close(c->checkpoint);
    free(c->config_path);
    free(c->provenance);
}
