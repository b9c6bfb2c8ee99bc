#include "convert/conversion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/output.h"
#include "layout/plan.h"
#include "model/positions.h"

vit_writer_keep convert_kept(const convert_options *o, const vit_config *config) {
    const vit_writer_keep asked = { o->keep.items, o->keep.count };
    return asked.count ? asked : vit_writer_kept(config, o->dtype);
}

typedef struct stream {
    const weights_source *from;
    vit_writer *writer;
    cli_progress progress;
    /* The tensor that the writer is writing. */
    const vit_tensor *target;
    /* Memory for the rows that are being written. */
    float *buffer;
    size_t nonfinite, overflows;
} stream;

/* Returns the largest absolute value that the type can hold. Larger ones would become infinity.
 * int4 has f16 scales, and its values are at most 8 times the scale. int8 has f32 scales. */
static float largest_of(vit_dtype dtype) {
    switch (dtype) {
    case VIT_F16: return 65504.0f;
    case VIT_BF16: return 3.3895313892515355e38f;
    case VIT_I4: return 8 * 65504.0f;
    case VIT_F32:
    case VIT_I8:
    case VIT_NUM_DTYPES: break;
    }
    return HUGE_VALF;
}

static void count_bad(stream *s, const float *values, size_t n, float largest) {
    size_t i;
    for (i = 0; i < n; i++) {
        if (!isfinite(values[i])) s->nonfinite++;
        else if (fabsf(values[i]) > largest) s->overflows++;
    }
}

/* True if the tensor may contain NaN or infinity. Quantised types cannot store such values, and a
 * calibration would spread them. */
static bool may_be_nonfinite(const stream *s) {
    return !tensor_is_quantised(s->target->dtype) && !s->from->is_calibrated;
}

static bool check_values(stream *s, const layout_item *item, report *r) {
    const vit_dtype dtype = s->target->dtype;
    if (s->nonfinite > 0 && !s->from->allows_nonfinite)
        return report_fail(r,
                           "%s: %zu weights are NaN or infinite (--set allow_nonfinite=1 "
                           "accepts them)",
                           layout_item_name(item), s->nonfinite);
    if (s->nonfinite > 0 && !may_be_nonfinite(s))
        return report_fail(r, "%s: %zu weights are NaN or infinite, which cannot be quantised",
                           layout_item_name(item), s->nonfinite);
    if (s->overflows > 0)
        return report_fail(r, "%s: %zu weights are too large for %s (above %g); use --dtype %s",
                           layout_item_name(item), s->overflows, tensor_dtype_name(dtype),
                           (double)largest_of(dtype),
                           s->from->dtype == VIT_F16 ? "bf16 or f32" : "f32");
    return true;
}

static bool refuse_bad(stream *s, const layout_item *item, report *r) {
    return check_values(s, item, r) || report_file(r, s->from->path);
}

static bool read_values(stream *s, const layout_item *item, int64_t first, int64_t n, float *to,
                        report *r) {
    if (!layout_read(s->from->checkpoint, item, first, n, to, r))
        return report_file(r, s->from->path);
    count_bad(s, to, (size_t)n, largest_of(s->target->dtype));
    return true;
}

/* Writes a tensor whose shape does not change. Panels are copied 16 rows at a time, and other
 * tensors in pieces of any size. */
static bool stream_copy(stream *s, const layout_item *item, report *r) {
    const bool panels = item->tensor.layout != VIT_LAYOUT_PLAIN;
    const int64_t count = (int64_t)tensor_count(&item->tensor);
    const int64_t depth = (int64_t)tensor_depth(&item->tensor);
    const int64_t piece = panels ? 16 * depth : 65536;
    int64_t first;
    for (first = 0; first < count; first += piece) {
        int64_t n = count - first < piece ? count - first : piece;
        bool good = read_values(s, item, first, n, s->buffer, r);
        if (!good || !(panels ? vit_writer_rows(s->writer, s->buffer, (int)(n / depth), r)
                              : vit_writer_values(s->writer, s->buffer, (size_t)n, r)))
            return false;
        cli_progress_update(&s->progress, s->writer->position);
    }
    return true;
}

/* Adapts the patch embedding, or the first convolution of a stem, to another number of channels or
 * another patch size. Handles 16 rows at a time. The rows are then standardised, if the model
 * requires that. */
static bool stream_adapted(stream *s, const layout_item *item, const adaptation *a, float *from,
                           report *r) {
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
        if (!vit_writer_rows(s->writer, s->buffer, n, r)) return false;
    }
    return true;
}

static bool stream_patches(stream *s, const layout_item *item, report *r) {
    const patch_shape wanted = { item->tensor.dims[1], item->tensor.dims[2] };
    const patch_shape stored = { (int)item->dims[1], (int)item->dims[2] };
    const size_t old = (size_t)stored.chans * (size_t)stored.side * (size_t)stored.side;
    adaptation a;
    float *from;
    bool good = adapt_start(&a, &stored, &wanted, s->from->model->notes.pos_resample, r);
    from = good ? malloc(16 * old * sizeof *from) : NULL;
    if (good && !from) good = report_no_memory(r);
    good = good && stream_adapted(s, item, &a, from, r);
    free(from);
    adapt_free(&a);
    return good;
}

/* Resamples the positions of the patches for another grid. The positions of prefix tokens stay
 * unchanged. */
static bool stream_positions(stream *s, const layout_item *item, report *r) {
    const vit_config *config = &s->from->model->config;
    const settings_stored *stored = &s->from->model->stored;
    const size_t depth = (size_t)config->embed_dim;
    const size_t old = (size_t)stored->position_rows * depth;
    const size_t prefix = old - (size_t)stored->patch_rows * depth;
    const size_t total = prefix + (size_t)config->num_patches * depth;
    float *from = malloc((old + total) * sizeof *from), *to = from ? from + old : NULL;
    bool good = from ? true : report_no_memory(r);
    good = good && read_values(s, item, 0, (int64_t)old, from, r);
    if (good) {
        memcpy(to, from, prefix * sizeof *to);
        vit_resample_positions(s->from->model->notes.pos_resample, config->embed_dim, from + prefix,
                               (vit_grid){ stored->grid_height, stored->grid_width }, to + prefix,
                               (vit_grid){ config->grid_height, config->grid_width });
    }
    good = good && vit_writer_values(s->writer, to, total, r);
    free(from);
    return good;
}

/* Resamples relative positions for another grid. The table has a row for each head. The last 3
 * values of a row belong to the class token. */
static bool stream_relative(stream *s, const layout_item *item, report *r) {
    const vit_config *config = &s->from->model->config;
    const settings_stored *stored = &s->from->model->stored;
    const vit_grid old_grid = { stored->grid_height, stored->grid_width };
    const vit_grid new_grid = { config->grid_height, config->grid_width };
    const size_t heads = (size_t)item->tensor.dims[0], new = (size_t)item->tensor.dims[1];
    const size_t old = (size_t)item->dims[1];
    float *from = malloc((old + new) * sizeof *from);
    bool good = from ? true : report_no_memory(r);
    size_t i;
    for (i = 0; good && i < heads; i++) {
        float *to = from + old;
        good = read_values(s, item, (int64_t)(i * old), (int64_t)old, from, r);
        if (!good) break;
        vit_resample_relative(s->from->model->notes.pos_resample, from, old_grid, to, new_grid);
        memcpy(to + new - 3, from + old - 3, 3 * sizeof *to);
        good = good && vit_writer_values(s->writer, to, new, r);
    }
    free(from);
    return good;
}

static bool stream_sincos(stream *s, const layout_item *item, report *r) {
    const size_t count = (size_t)tensor_count(&item->tensor);
    float *values = malloc(count * sizeof *values);
    bool good = values ? true : report_no_memory(r);
    if (good) sincos_positions(s->from->model->pos_sincos, &s->from->model->config, values);
    good = good && vit_writer_values(s->writer, values, count, r);
    free(values);
    return good;
}

/* Writes zeros in the place of the self-test's outputs. When the file is complete, the outputs of
 * the model in it replace the zeros. */
static bool stream_zeros(stream *s, const layout_item *item, report *r) {
    const size_t count = (size_t)tensor_count(&item->tensor);
    float *zeros = calloc(count, sizeof *zeros);
    const bool good = zeros ? vit_writer_values(s->writer, zeros, count, r) : report_no_memory(r);
    free(zeros);
    return good;
}

/* Writes a tensor with the values of the calibration, which may differ from the checkpoint's. */
static bool stream_calibrated(stream *s, const layout_item *item, report *r) {
    const int64_t depth = (int64_t)tensor_depth(&item->tensor);
    const int index = (int)(s->target - s->writer->tensors);
    const float *values = calibrate_tensor(s->from->calibration, index, s->target->dtype, r);
    int row;
    for (row = 0; values && row < item->tensor.dims[0]; row += 16) {
        const int rest = item->tensor.dims[0] - row, n = rest < 16 ? rest : 16;
        const float *rows = values + (size_t)row * (size_t)depth;
        count_bad(s, rows, (size_t)n * (size_t)depth, largest_of(s->target->dtype));
        if (!vit_writer_rows(s->writer, rows, n, r)) return false;
        cli_progress_update(&s->progress, s->writer->position);
    }
    return values != NULL;
}

static bool stream_source(stream *s, const layout_item *item, report *r) {
    const vit_config *config = &s->from->model->config;
    const size_t count = (size_t)tensor_count(&item->tensor);
    switch (item->kind) {
    case SOURCE_CHECKPOINT:
    case SOURCE_FOLDED: return stream_copy(s, item, r);
    case SOURCE_RESAMPLED: return stream_positions(s, item, r);
    case SOURCE_RESAMPLED_RELATIVE: return stream_relative(s, item, r);
    case SOURCE_ADAPTED: return stream_patches(s, item, r);
    case SOURCE_SINCOS: return stream_sincos(s, item, r);
    case SOURCE_MEAN: return vit_writer_values(s->writer, config->mean, count, r);
    case SOURCE_STD: return vit_writer_values(s->writer, config->std, count, r);
    case SOURCE_SELFTEST: break;
    }
    return stream_zeros(s, item, r);
}

static bool stream_item(stream *s, const layout_item *item, report *r) {
    const bool is_calibrated = s->from->calibration && layout_is_stored(item);
    s->nonfinite = s->overflows = 0;
    s->target = &s->writer->tensors[s->writer->current];
    return (is_calibrated ? stream_calibrated(s, item, r) : stream_source(s, item, r)) &&
           refuse_bad(s, item, r);
}

static size_t buffer_size(const layout_plan *plan) {
    int64_t largest = 65536;
    size_t i;
    for (i = 0; i < plan->count; i++) {
        const vit_tensor *tensor = &plan->items[i].tensor;
        int64_t rows = tensor->dims[0] < 16 ? tensor->dims[0] : 16;
        int64_t size = rows * (int64_t)tensor_depth(tensor);
        if (tensor->layout != VIT_LAYOUT_PLAIN && size > largest) largest = size;
    }
    return (size_t)largest;
}

/* Writes each tensor i of the plan for which wanted[i] is true, or all if `wanted` is NULL. */
static bool write_items(stream *s, const bool *wanted, report *r) {
    const layout_plan *plan = s->from->plan;
    bool good = true;
    size_t i;
    for (i = 0; good && i < plan->count; i++) {
        if (wanted && !wanted[i]) continue;
        good = (!wanted || vit_writer_go_to(s->writer, i, r)) && stream_item(s, &plan->items[i], r);
    }
    return good;
}

static bool write_some(const weights_source *from, const bool *wanted, vit_writer *writer,
                       report *r) {
    stream s;
    bool good;
    memset(&s, 0, sizeof s);
    s.from = from;
    s.writer = writer;
    s.buffer = malloc(buffer_size(from->plan) * sizeof *s.buffer);
    if (!s.buffer) return report_no_memory(r);
    cli_progress_start(&s.progress, "converting", writer->file_size);
    if (from->quiet) s.progress.active = false;
    good = write_items(&s, wanted, r);
    cli_progress_clear(&s.progress);
    free(s.buffer);
    return good;
}

bool weights_write(const weights_source *from, vit_writer *writer, report *r) {
    return write_some(from, NULL, writer, r) && vit_writer_finish(writer, r);
}

bool weights_rewrite(const weights_source *from, const bool *wanted, vit_writer *writer,
                     report *r) {
    return write_some(from, wanted, writer, r);
}
