#include "convert/compare.h"

#include <math.h>
#include <string.h>

#include "cli/progress.h"
#include "convert/runner.h"

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (aa == 0 && bb == 0) return 1; /* the same */
    ab /= sqrt(aa) * sqrt(bb);
    return ab >= -1 ? ab : 0; /* NaN: unrelated */
}

/* The logits become probabilities. */
static void count_classes(comparison *result, const runner *a, const runner *b)
{
    vit_prediction first[2] = { { 0, 0 }, { 0, 0 } }, second = { 0, 0 };
    const int n = (int)a->output_size;
    bool agree, sure;
    vit_softmax(a->output, n);
    vit_top_k(a->output, n, 2, first);
    vit_top_k(b->output, n, 1, &second);
    agree = first[0].index == second.index;
    sure = first[0].score - first[1].score >= 0.1f;
    result->agree += agree;
    result->sure += sure;
    result->sure_agree += sure && agree;
}

static void count_image(comparison *result, const char *path, const runner *a, const runner *b)
{
    const double similar = cosine(a->embedding, b->embedding, a->embedding_size);
    if (result->images == 0 || similar < result->min_cosine) {
        result->min_cosine = similar;
        result->worst = path;
    }
    result->mean_cosine += similar;
    if (result->has_classes) count_classes(result, a, b);
    result->images++;
}

/* Both models expect the same input, which the first has. */
static bool run_both(runner *a, runner *b, report *r)
{
    const vit_config *c = &a->model->config;
    memcpy(b->input, a->input, (size_t)c->in_chans * (size_t)c->img_height *
                                   (size_t)c->img_width * sizeof *a->input);
    return runner_forward(a, r) && runner_forward(b, r);
}

static bool compare_all(runner *a, runner *b, photo_decoder *decoder, photo_list *photos,
                        bool quiet, comparison *result, report *r)
{
    photo_reader reader = { a->model, NULL, 0 };
    cli_progress progress;
    int i;
    cli_progress_start(&progress, "comparing", (uint64_t)photos->count);
    if (quiet) progress.active = false;
    for (i = 0; photos_read(&reader, decoder, photos, i, a->input, r) && run_both(a, b, r); i++) {
        count_image(result, photos->paths[i], a, b);
        cli_progress_update(&progress, (uint64_t)i + 1);
    }
    cli_progress_clear(&progress);
    photos_reader_free(&reader);
    return !r->failed;
}

bool compare_models(const vit_model *reference, const vit_model *model, photo_decoder *decoder,
                    photo_list *photos, bool quiet, comparison *result, report *r)
{
    runner a, b;
    bool good;
    memset(result, 0, sizeof *result);
    memset(&b, 0, sizeof b);
    result->has_classes = model->config.num_classes > 0;
    good = runner_open(&a, reference, NULL, NULL, r) && runner_open(&b, model, NULL, NULL, r) &&
           compare_all(&a, &b, decoder, photos, quiet, result, r);
    runner_close(&a);
    runner_close(&b);
    if (result->images) result->mean_cosine /= result->images;
    return good;
}
