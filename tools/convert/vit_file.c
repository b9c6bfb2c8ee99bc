#define _POSIX_C_SOURCE 200809L

#include "convert/vit_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/output.h"
#include "convert/calibrate.h"
#include "convert/pages.h"
#include "convert/provenance.h"
#include "convert/runner.h"
#include "convert/vit_writer.h"
#include "convert/weights.h"

/* === The output === */

/* Every input file: none of them may be overwritten. malloc'ed. */
static const char **list_inputs(const conversion *c, int *count)
{
    size_t files = checkpoint_file_count(c->checkpoint), i;
    size_t photos = (size_t)c->calibration.count + (size_t)c->photos.count;
    const char **inputs = calloc(files + photos + 5, sizeof *inputs);
    int p;
    *count = 0;
    if (!inputs) return NULL;
    inputs[(*count)++] = c->options->checkpoint;
    for (i = 0; i < files; i++) inputs[(*count)++] = checkpoint_file(c->checkpoint, i)->path;
    if (c->config_path) inputs[(*count)++] = c->config_path;
    if (c->options->labels) inputs[(*count)++] = c->options->labels;
    if (c->options->match_input) {
        inputs[(*count)++] = c->options->match_input;
        inputs[(*count)++] = c->options->match_logits;
    }
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

/* A file that was just written, under its temporary name. */
static bool open_written(const cli_output *output, vit_model *model, report *r)
{
    return vit_model_open(output->temporary, 0, model) == VIT_OK ||
           report_detail(r, model->detail);
}

/* === Self-test === */

static void drop_pages(void *user, const char *name, const float *data, const int shape[4])
{
    (void)name, (void)data, (void)shape;
    pages_drop(user);
}

static bool check_outputs(const conversion *c, const runner *run, report *r)
{
    if (conversion_allows_nonfinite(c) || tensor_values_are_finite(run->output, run->output_size)) return true;
    (void)report_fail(r, "the outputs of the self-test are not finite: the weights overflow");
    return report_file(r, c->options->checkpoint);
}

/* The file has its tensors in the order of the plan. */
static size_t selftest_index(const layout_plan *plan)
{
    return (size_t)(layout_selftest(plan) - plan->items);
}

/* Runs the file just written, and writes what came out into it. */
static bool add_selftest(const conversion *c, const cli_output *output, vit_writer *writer,
                         report *r)
{
    vit_model model;
    runner run;
    bool good;
    if (!open_written(output, &model, r)) return false;
    good = runner_open(&run, &model, drop_pages, &model, r);
    if (good) vit_selftest_input(&model.config, run.input);
    good = good && runner_forward(&run, r) && check_outputs(c, &run, r) &&
           vit_writer_replace(writer, selftest_index(&c->plan), run.output, r) &&
           vit_writer_finish(writer, r);
    runner_close(&run);
    vit_model_close(&model);
    return good;
}

/* === One file === */

/* What is written is opened: for the self-test, to compare with, to calibrate on. */
static bool can_be_opened(const vit_writer *writer, report *r)
{
    return writer->file_size <= SIZE_MAX ||
           report_fail(r, "the model has %llu bytes, this program can open %llu",
                       (unsigned long long)writer->file_size, (unsigned long long)SIZE_MAX);
}

/* The checkpoint, or what the calibration makes of it, in the given type. */
static bool write_model(conversion *c, vit_dtype dtype, calibration *calibrated,
                        const cli_output *output, report *r)
{
    vit_writer writer;
    vit_writer_contents contents;
    bool good;
    contents.config = &c->model.config;
    contents.dtype = dtype;
    contents.keep = conversion_kept(c);
    contents.num_labels = c->labels.count;
    contents.labels = c->labels.labels;
    contents.synsets = c->labels.synsets;
    contents.provenance = c->provenance;
    if (!vit_writer_start(&writer, output->file, &contents, r)) return false;
    good = can_be_opened(&writer, r) && weights_write(c, calibrated, &writer, r) &&
           (!layout_selftest(&c->plan) || add_selftest(c, output, &writer, r));
    c->output_size = writer.file_size;
    vit_writer_free(&writer);
    return good;
}

/* === With the model in f32, to calibrate on and to compare with === */

static bool wants_reference(const conversion *c)
{
    return c->calibration.count > 0 || c->photos.count > 0;
}

/* The model as f32 in a temporary file beside the output, which is removed once it is mapped. */
static bool open_reference(conversion *c, vit_model *model, report *r)
{
    cli_output output;
    bool good;
    if (!open_output(c, &output, r)) return false;
    good = write_model(c, VIT_F32, NULL, &output, r) && open_written(&output, model, r);
    cli_output_abandon(&output);
    return good;
}

static bool compare(conversion *c, const vit_model *reference, const cli_output *output, report *r)
{
    vit_model model;
    bool good;
    if (!open_written(output, &model, r)) return false;
    good = compare_models(reference, &model, conversion_photos(c), c->options->quiet,
                          &c->comparison, r);
    vit_model_close(&model);
    return good;
}

static bool write_with_reference(conversion *c, const cli_output *output, report *r)
{
    const vit_dtype dtype = c->options->dtype;
    const bool wanted = c->calibration.count > 0;
    calibration *calibrated = NULL;
    vit_model reference;
    bool good;
    if (!open_reference(c, &reference, r)) return false;
    if (wanted)
        calibrated = calibrate_start(&reference, dtype, &c->calibration, c->options->quiet, r);
    good = (calibrated || !wanted) && provenance_make(c, r) &&
           write_model(c, dtype, calibrated, output, r);
    calibrate_free(calibrated);
    good = good && compare(c, &reference, output, r);
    vit_model_close(&reference);
    return good;
}

static bool write_plainly(conversion *c, const cli_output *output, report *r)
{
    return provenance_make(c, r) && write_model(c, c->options->dtype, NULL, output, r);
}

bool vit_file_write(conversion *c, report *r)
{
    cli_output output;
    if (!open_output(c, &output, r)) return false;
    /* a zip's checksums: a damaged weight must not become a model that looks healthy */
    if (!checkpoint_verify(c->checkpoint, r) ||
        !(wants_reference(c) ? write_with_reference(c, &output, r)
                             : write_plainly(c, &output, r))) {
        cli_output_abandon(&output);
        return false;
    }
    return cli_output_commit(&output, r);
}
