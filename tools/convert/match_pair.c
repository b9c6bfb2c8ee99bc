#include "convert/match_pair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"

static const char *shape_of(const npy_array *array, char text[SHAPE_TEXT_SIZE])
{
    return shape_text(array->dims, array->ndim, text, SHAPE_TEXT_SIZE);
}

static bool check_finite(const npy_array *array, const char *path, report *r)
{
    size_t i;
    for (i = 0; i < array->count; i++)
        if (!isfinite(array->data[i]))
            return report_fail(r, "value %zu is NaN or infinite", i) || report_file(r, path);
    return true;
}

static bool take_input(match_pair *p, report *r)
{
    const npy_array *x = &p->input;
    const int64_t *dims = x->dims + (x->ndim == 4);
    char found[SHAPE_TEXT_SIZE];
    bool good = (x->ndim == 3 || x->ndim == 4) && x->count > 0;
    int i;
    for (i = 0; good && i < x->ndim; i++) good = x->dims[i] <= 1 << 20;
    if (!good)
        return report_fail(r, "expected an input [C, H, W] or [B, C, H, W], found %s",
                           shape_of(x, found)) || report_file(r, p->input_path);
    if (dims[0] > 4 && dims[2] <= 4)
        return report_fail(r, "expected an input [C, H, W] or [B, C, H, W], found %s, which looks "
                           "like channels last", shape_of(x, found)) ||
               report_file(r, p->input_path);
    p->images = x->ndim == 4 ? (int)x->dims[0] : 1;
    p->chans = (int)dims[0];
    p->height = (int)dims[1];
    p->width = (int)dims[2];
    return true;
}

static bool take_logits(match_pair *p, report *r)
{
    const npy_array *y = &p->logits;
    char found[SHAPE_TEXT_SIZE], input[SHAPE_TEXT_SIZE];
    const bool has_batch = y->ndim == 2 && y->dims[0] == p->images;
    if (y->count == 0 || !(has_batch || (y->ndim == 1 && p->images == 1)))
        return report_fail(r, "expected logits [%d, classes] for an input %s, found %s", p->images,
                           shape_of(&p->input, input), shape_of(y, found)) ||
               report_file(r, p->logits_path);
    p->outputs = y->count / (size_t)p->images;
    return y->count > 1 ||
           report_fail(r, "one number is not enough: among thousands of models some give it by "
                       "chance; save several inputs, [8, C, H, W], and their logits [8, %zu]",
                       p->outputs) || report_file(r, p->logits_path);
}

/* A softmax at the end of the model is not part of a .vit file. */
static bool are_probabilities(const match_pair *p)
{
    size_t i, k;
    if (p->outputs < 2) return false;
    for (i = 0; i < (size_t)p->images; i++) {
        const float *row = p->logits.data + i * p->outputs;
        double sum = 0;
        for (k = 0; k < p->outputs; k++) {
            if (row[k] < 0) return false;
            sum += (double)row[k];
        }
        if (fabs(sum - 1) > 1e-3) return false;
    }
    return true;
}

static bool are_equal(const match_pair *p)
{
    size_t i = 1;
    while (i < p->logits.count && !(fabsf(p->logits.data[0] - p->logits.data[i]) > 0)) i++;
    return i > 1 && i == p->logits.count;
}

static bool check_logits(match_pair *p, report *r)
{
    size_t i;
    if (!check_finite(&p->input, p->input_path, r) || !check_finite(&p->logits, p->logits_path, r))
        return false;
    if (are_probabilities(p))
        return report_fail(r, "expected logits, found probabilities: they add up to 1; leave the "
                           "softmax out") || report_file(r, p->logits_path);
    for (i = 0; i < p->logits.count; i++)
        p->largest = fmax(p->largest, fabs((double)p->logits.data[i]));
    if (!(p->largest > 0))
        return report_fail(r, "expected logits, found zeros") || report_file(r, p->logits_path);
    return !are_equal(p) ||
           report_fail(r, "expected logits, found the same value everywhere") ||
           report_file(r, p->logits_path);
}

bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r)
{
    memset(pair, 0, sizeof *pair);
    pair->input_path = input;
    pair->logits_path = logits;
    if (!npy_read(input, &pair->input, r)) return report_file(r, input);
    if (!npy_read(logits, &pair->logits, r)) return report_file(r, logits);
    return take_input(pair, r) && take_logits(pair, r) && check_logits(pair, r);
}

void match_pair_free(match_pair *pair)
{
    npy_free(&pair->input);
    npy_free(&pair->logits);
}

const float *match_pair_input(const match_pair *pair, int image)
{
    return pair->input.data + (size_t)image * (pair->input.count / (size_t)pair->images);
}

bool match_pair_check(const match_pair *pair, int classes, int chans, report *r)
{
    if (chans > 0 && chans != pair->chans)
        return report_fail(r, "expected an input of %d channel%s, [%d, H, W], found [%d, %d, %d]",
                           chans, chans == 1 ? "" : "s", chans, pair->chans, pair->height,
                           pair->width) || report_file(r, pair->input_path);
    return classes == 0 || (size_t)classes == pair->outputs ||
           report_fail(r, "expected %d logits for each input, found %zu", classes,
                       pair->outputs) || report_file(r, pair->logits_path);
}

bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r)
{
    if (config->in_chans != pair->chans || config->img_height != pair->height ||
        config->img_width != pair->width)
        return report_fail(r, "expected [%d, %d, %d], as the model reads it, found [%d, %d, %d]",
                           config->in_chans, config->img_height, config->img_width, pair->chans,
                           pair->height, pair->width) || report_file(r, pair->input_path);
    return outputs == pair->outputs ||
           report_fail(r, "expected %zu %s for each input, found %zu", outputs,
                       config->num_classes ? "logits" : "values of the embedding",
                       pair->outputs) || report_file(r, pair->logits_path);
}

void match_pair_compare(const match_pair *pair, int image, const float *output,
                        match_error *error)
{
    const float *expected = pair->logits.data + (size_t)image * pair->outputs;
    size_t k;
    for (k = 0; k < pair->outputs; k++) {
        const double a = (double)output[k] / pair->largest;
        const double b = (double)expected[k] / pair->largest, e = a - b;
        const double far = e == e ? fabs(e) : HUGE_VAL;   /* NaN is as far as can be */
        error->largest = far > error->largest ? far : error->largest;
        error->square += far * far;
        error->ab += a * b;
        error->aa += a * a;
        error->bb += b * b;
    }
}

double match_error_slope(const match_error *error)
{
    const double size = sqrt(error->aa) * sqrt(error->bb);
    if (!(error->square < HUGE_VAL)) return HUGE_VAL;
    return (size > 0 ? 1 - error->ab / size : 1) + 0.03 * error->square / error->bb;
}
