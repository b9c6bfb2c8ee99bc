#include "infer/tagged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float *tagged_scores(const tagged_results *t, int index)
{
    return t->scores + (size_t)index * (size_t)t->num_classes;
}

/* What infer_take works on. */
typedef struct run {
    tagged_results *results;
    const vit_model *model;
} run;

/* infer_take */
static bool take_scores(void *user, infer_result *result, report *r)
{
    const run *u = user;
    tagged_results *t = u->results;
    (void)r;
    t->read[result->index] = !result->error;
    if (result->error) return true;
    vit_scores(u->model, result->logits);
    memcpy(tagged_scores(t, (int)result->index), result->logits,
           (size_t)t->num_classes * sizeof *t->scores);
    return true;
}

static bool score_all(const infer_settings *given, const tag_lists *lists, tagged_results *t,
                      report *r)
{
    infer_settings settings = *given;
    run u = { t, given->model };
    photo_paths paths;
    photo_source source;
    memset(&paths, 0, sizeof paths);
    paths.list = lists->photos;
    source = photo_paths_source(&paths);
    settings.outputs = INFER_LOGITS;
    settings.take = take_scores;
    settings.user = &u;
    return infer_run(&settings, &source, &t->photos, r);
}

/* One class: what each photo that was read scores for it. at[i] goes through the classes of photo
 * i, which rise as c does. Returns the number of photos. */
static int take_column(const tagged_results *t, const tag_lists *lists, int c, int *at,
                       precision_score *column)
{
    int count = 0;
    for (int i = 0; i < lists->photos.count; i++) {
        const float score = tagged_scores(t, i)[c];
        const bool right = at[i] < lists->first[i + 1] && lists->classes[at[i]] == c;
        at[i] += right;
        if (t->read[i]) column[count++] = (precision_score){ score, right };
    }
    return count;
}

static void rate_class(tagged_class *class, precision_score *column, int count, double above)
{
    precision_counts *counts = &class->counts;
    for (int i = 0; i < count; i++) {
        const bool taken = (double)column[i].score >= above;
        class->photos += column[i].right;
        counts->found += taken && column[i].right;
        counts->wrong += taken && !column[i].right;
        counts->missed += !taken && column[i].right;
    }
    class->average_precision = precision_average(column, count);
    class->f1 = class->photos ? precision_f1(counts) : (double)NAN;
}

static void add_class(tagged_results *t, const tagged_class *class)
{
    t->all.found += class->counts.found;
    t->all.wrong += class->counts.wrong;
    t->all.missed += class->counts.missed;
    if (!class->photos) return;
    t->occurring++;
    t->mean_average_precision += class->average_precision;
    t->mean_f1 += class->f1;
}

static bool rate_all(tagged_results *t, const tag_lists *lists, double above, report *r)
{
    const size_t photos = (size_t)lists->photos.count;
    precision_score *column = malloc(photos * sizeof *column);
    int *at = malloc(photos * sizeof *at);
    const bool good = column && at;
    if (good) memcpy(at, lists->first, photos * sizeof *at);
    for (int c = 0; good && c < t->num_classes; c++) {
        const int count = take_column(t, lists, c, at, column);
        rate_class(&t->classes[c], column, count, above);
        add_class(t, &t->classes[c]);
    }
    if (t->occurring) t->mean_average_precision /= t->occurring;
    if (t->occurring) t->mean_f1 /= t->occurring;
    free(column);
    free(at);
    return good || report_no_memory(r);
}

bool tagged_evaluate(const infer_settings *settings, const tag_lists *lists, double above,
                     tagged_results *t, report *r)
{
    const size_t classes = (size_t)settings->model->config.num_classes;
    const size_t photos = (size_t)lists->photos.count;
    memset(t, 0, sizeof *t);
    t->num_classes = (int)classes;
    t->classes = calloc(classes, sizeof *t->classes);
    t->read = calloc(photos, sizeof *t->read);
    t->scores = malloc(photos * classes * sizeof *t->scores);
    if (!t->classes || !t->read || !t->scores) return report_no_memory(r);
    return score_all(settings, lists, t, r) && rate_all(t, lists, above, r);
}

void tagged_free(tagged_results *t)
{
    free(t->classes);
    free(t->read);
    free(t->scores);
    memset(t, 0, sizeof *t);
}
