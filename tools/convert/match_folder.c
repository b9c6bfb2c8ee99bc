#define _POSIX_C_SOURCE 200809L

#include "convert/match_folder.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"

/* Decoded pictures stay in memory, up to so many bytes. */
#define MAX_BYTES ((uint64_t)1 << 30)
enum { LEAST_PICTURES = 24, MAX_PASSES = 4 };

/* === Classes === */

/* The names of the folders right below, sorted; they point into the paths. */
typedef struct folder_name {
    const char *at;
    size_t length;
} folder_name;

static folder_name name_of(const char *path, const char *folder)
{
    folder_name name;
    name.at = path + strlen(folder);
    name.at += strspn(name.at, "/");
    name.length = strcspn(name.at, "/");
    if (!name.at[name.length]) name.length = 0;   /* a picture that is in no folder */
    return name;
}

static int compare_names(const void *a, const void *b)
{
    const folder_name *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Sorts and keeps each once; returns how many. */
static int sort_names(folder_name *names, int count)
{
    int kept = 0, i;
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (i = 0; i < count; i++)
        if (i == 0 || compare_names(&names[kept - 1], &names[i]) != 0) names[kept++] = names[i];
    return kept;
}

/* In either case, '_' as good as ' '. */
static bool is_same(const folder_name *name, const char *label)
{
    size_t i;
    if (!label || strlen(label) != name->length) return false;
    for (i = 0; i < name->length; i++) {
        const int a = tolower((unsigned char)name->at[i]), b = tolower((unsigned char)label[i]);
        if ((a == '_' ? ' ' : a) != (b == '_' ? ' ' : b)) return false;
    }
    return true;
}

/* The class that a label, a synset or the number itself says; -1: none. */
static int find_class(const folder_name *name, const label_list *labels, int num_classes)
{
    int i, number = 0;
    size_t k;
    for (i = 0; i < (int)labels->count; i++)
        if (is_same(name, labels->labels[i]) ||
            (labels->synsets && is_same(name, labels->synsets[i])))
            return i;
    for (k = 0; k < name->length && k < 6; k++) {
        if (name->at[k] < '0' || name->at[k] > '9') return -1;
        number = 10 * number + (name->at[k] - '0');
    }
    return name->length > 0 && name->length <= 6 && number < num_classes ? number : -1;
}

/* The class of each folder: by its name if all have one, else by their order. */
static bool find_classes(const folder_name *names, int count, const label_list *labels,
                         int num_classes, int *classes, report *r)
{
    bool all = true;
    int i;
    for (i = 0; i < count; i++) {
        if (names[i].length == 0)
            return report_fail(r, "expected a folder for each class, found the picture %.100s "
                               "beside them", names[i].at);
        classes[i] = find_class(&names[i], labels, num_classes);
        all = all && classes[i] >= 0;
    }
    if (all) return true;
    if (count != num_classes)
        return report_fail(r, "expected %d folders with pictures, one for each class, found %d, "
                           "whose names are no classes of the model", num_classes, count);
    for (i = 0; i < count; i++) classes[i] = i;
    return true;
}

/* === Pictures === */

/* A step through n that has no factor in common with it, so that the first few of a list are spread
 * over all of it. */
static int spreading_step(int n)
{
    int step = (int)(0.618 * n) + 1, a, b, rest;
    for (;; step++) {
        for (a = n, b = step; b; a = b, b = rest) rest = a % b;
        if (a == 1) return step;
    }
}

static bool decode_all(match_pictures *p, const photo_list *list, const int *classes, report *r)
{
    const int step = spreading_step(p->count);
    const int wanted = p->count;
    uint64_t bytes = 0;
    int i, at = 0;
    for (i = 0, p->count = 0; i < wanted && bytes < MAX_BYTES; i++, at = (at + step) % wanted) {
        const int index = (int)((int64_t)at * list->count / wanted);
        match_picture *picture = &p->items[p->count];
        if (!photos_decode(list->paths[index], &picture->image, r)) return false;
        bytes += (uint64_t)picture->image.width * (uint64_t)picture->image.height * 3;
        picture->class_index = classes[index];
        p->count++;
    }
    return true;
}

static bool read_listed(match_pictures *p, const photo_list *list, const char *folder,
                        const label_list *labels, int num_classes, report *r)
{
    const size_t count = (size_t)list->count;
    folder_name *names = calloc(count, sizeof *names), own;
    int *classes = calloc(2 * count, sizeof *classes);
    int *of_folder = classes ? classes + count : NULL;
    bool good = names && classes;
    size_t i;
    if (!good) (void)report_no_memory(r);
    for (i = 0; good && i < count; i++) names[i] = name_of(list->paths[i], folder);
    if (good) p->classes = sort_names(names, (int)count);
    good = good && find_classes(names, p->classes, labels, num_classes, of_folder, r);
    for (i = 0; good && i < count; i++) {
        own = name_of(list->paths[i], folder);
        classes[i] = of_folder[(const folder_name *)bsearch(&own, names, (size_t)p->classes,
                                                            sizeof *names, compare_names) - names];
    }
    good = good && decode_all(p, list, classes, r);
    free(names);
    free(classes);
    return good;
}

bool match_pictures_read(match_pictures *pictures, const char *folder, int max,
                         const label_list *labels, int num_classes, report *r)
{
    text_list operands = { &folder, 1 };
    photo_list list;
    bool good;
    memset(pictures, 0, sizeof *pictures);
    if (!photos_find(&list, &operands, 0x7fffffff, r)) return false;
    pictures->count = list.count < max ? list.count : max;
    pictures->items = calloc((size_t)pictures->count, sizeof *pictures->items);
    good = pictures->items ? true : report_no_memory(r);
    if (!good) pictures->count = 0;
    good = good && read_listed(pictures, &list, folder, labels, num_classes, r);
    photos_free(&list);
    return good || report_file(r, folder);
}

void match_pictures_free(match_pictures *pictures)
{
    int i;
    for (i = 0; pictures->items && i < pictures->count; i++)
        if (pictures->items[i].image.pixels) photos_free_image(&pictures->items[i].image);
    free(pictures->items);
    memset(pictures, 0, sizeof *pictures);
}

/* === One assignment === */

/* -log of the probability of the class. */
static double cross_entropy(const float *logits, int n, int class_index)
{
    double largest = (double)logits[0], sum = 0;
    int i;
    for (i = 1; i < n; i++) largest = fmax(largest, (double)logits[i]);
    for (i = 0; i < n; i++) sum += exp((double)logits[i] - largest);
    return log(sum) + largest - (double)logits[class_index];
}

static double mean_of(const double *values, int n)
{
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) sum += values[i];
    return sum / n;
}

static bool run_picture(match_sorting *s, int i, double *loss, report *r)
{
    const match_picture *picture = &s->pictures->items[i];
    if (!photos_prepare(&s->reader, &picture->image, s->input, r) ||
        !match_model_run(s->model, s->input, s->output, r))
        return false;
    *loss = cross_entropy(s->output, s->model->config.num_classes, picture->class_index);
    if (!(*loss < HUGE_VAL)) *loss = 1e6;   /* NaN */
    return true;
}

static bool take_buffers(match_sorting *s, report *r)
{
    const vit_config *c = &s->model->config;
    const size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    const size_t count = (size_t)s->pictures->count;
    float *input = realloc(s->input, pixels * sizeof *input);   /* sizes may differ */
    if (!input) return report_no_memory(r);
    s->input = input;
    if (s->output) return true;
    s->output = malloc(s->model->output_size * sizeof *s->output);
    s->losses = malloc(count * sizeof *s->losses);
    s->best = malloc(count * sizeof *s->best);
    return (s->input && s->output && s->losses && s->best) || report_no_memory(r);
}

/* As many pictures as leave time for two passes over all values. */
static void choose_count(match_sorting *s, double picture_ms)
{
    int values = 0, row;
    double most;
    for (row = 0; row < s->table->count; row++) values += s->table->rows[row].count;
    most = s->seconds * 1e3 / (picture_ms + 1e-3) / (2 * values + 1);
    s->used = s->pictures->count;
    if (s->used > most) s->used = most > LEAST_PICTURES ? (int)most : LEAST_PICTURES;
    if (s->used > s->pictures->count) s->used = s->pictures->count;
}

/* The losses of an assignment in s->losses; false: it is no model. */
static bool measure(match_sorting *s, const match_choice *choice, report *r)
{
    settings matched = *s->base;
    double before;
    int i;
    match_apply(s->table, choice, &matched);
    if (!match_model_set(s->model, &matched, r) || !match_model_load(s->model, r) ||
        !take_buffers(s, r))
        return false;
    s->reader.model = match_model_get(s->model);
    before = cli_now_ms();
    for (i = 0; i < (s->used ? s->used : 1); i++) {
        if (!run_picture(s, i, &s->losses[i], r)) return false;
        if (s->used == 0) choose_count(s, cli_now_ms() - before);
        cli_progress_update(&s->progress, (uint64_t)(cli_now_ms() - s->started));
    }
    s->runs++;
    return true;
}

/* === The descent === */

static bool is_over(const match_sorting *s)
{
    return cli_now_ms() - s->started > s->seconds * 1e3;
}

/* A value is clearly worse if the mean of its differences, picture by picture, is above twice the
 * standard error of that mean. */
static bool is_clear(const double *best, const double *other, int n)
{
    double mean = 0, variance = 0;
    int i;
    for (i = 0; i < n; i++) mean += (other[i] - best[i]) / n;
    for (i = 0; i < n; i++) variance += pow(other[i] - best[i] - mean, 2) / n;
    return n > 1 && mean > 0 && mean > 2 * sqrt(variance / (n - 1));
}

static void keep_best(match_sorting *s, const match_choice *choice)
{
    double *losses = s->losses;
    s->losses = s->best;
    s->best = losses;
    s->chosen = *choice;
    s->loss = mean_of(s->best, s->used);
}

/* All values of one row: the likeliest stays unless another is clearly better. The second is what
 * the first was better than, or what came nearest. */
static bool settle_row(match_sorting *s, int row)
{
    const match_choice before = s->chosen;
    match_verdict *verdict = &s->verdicts[row];
    bool changed = false;
    int value;
    verdict->next = -1;
    verdict->next_loss = HUGE_VAL;
    verdict->is_open = false;
    for (value = 0; value < s->table->rows[row].count && !is_over(s); value++) {
        match_choice choice = before;
        report ignored = report_make();
        double loss;
        choice.of[row] = (unsigned char)value;
        if (value == before.of[row] || !measure(s, &choice, &ignored)) continue;
        loss = mean_of(s->losses, s->used);
        if (is_clear(s->losses, s->best, s->used)) {
            verdict->next = s->chosen.of[row];
            verdict->next_loss = s->loss;
            keep_best(s, &choice);
            changed = true;
            continue;
        }
        verdict->is_open |= !is_clear(s->best, s->losses, s->used);
        if (loss < verdict->next_loss) {
            verdict->next = value;
            verdict->next_loss = loss;
        }
    }
    return changed;
}

/* Row after row until nothing changes: the last pass compares every value with the chosen one. */
static void descend(match_sorting *s)
{
    bool changed = true;
    int pass, row;
    for (pass = 0; changed && pass < MAX_PASSES && !is_over(s); pass++) {
        changed = false;
        for (row = 0; row < s->table->count && !is_over(s); row++)
            changed |= settle_row(s, row);
    }
    for (row = 0; changed && row < s->table->count; row++) s->verdicts[row].is_open = true;
}

static bool count_right(match_sorting *s, report *r)
{
    vit_prediction top;
    int i;
    if (!measure(s, &s->chosen, r)) return false;
    for (i = 0; i < s->used; i++) {
        double loss;
        if (!run_picture(s, i, &loss, r)) return false;
        vit_top_k(s->output, s->model->config.num_classes, 1, &top);
        s->right += top.index == s->pictures->items[i].class_index;
    }
    return true;
}

/* Guessing would do as well: then the pictures cannot tell anything. */
static bool check_use(const match_sorting *s, report *r)
{
    const double guessing = log(s->model->config.num_classes);
    return s->loss < guessing ||
           report_fail(r, "nothing that was tried does better than guessing (cross-entropy %.3g, "
                       "guessing %.3g): are the folders the model's classes, in their order?",
                       s->loss, guessing);
}

bool match_sorting_run(match_sorting *s, report *r)
{
    const match_choice likeliest = { { 0 } };
    bool good;
    s->started = cli_now_ms();
    cli_progress_start(&s->progress, "matching", (uint64_t)(s->seconds * 1e3));
    if (s->quiet) s->progress.active = false;
    good = measure(s, &likeliest, r);
    if (good) keep_best(s, &likeliest);
    if (good) descend(s);
    good = good && check_use(s, r) && count_right(s, r);
    cli_progress_clear(&s->progress);
    s->took = (cli_now_ms() - s->started) / 1e3;
    return good;
}

void match_sorting_free(match_sorting *s)
{
    free(s->losses);
    free(s->best);
    free(s->input);
    free(s->output);
    photos_reader_free(&s->reader);
    memset(s, 0, sizeof *s);
}
