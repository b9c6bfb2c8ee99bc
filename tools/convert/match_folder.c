#define _POSIX_C_SOURCE 200809L

#include "convert/match.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"

/* All decoded pictures stay in memory. No further picture is read once they take this many
 * bytes. */
#define MAX_BYTES ((uint64_t)1 << 30)
enum { LEAST_PICTURES = 24, MAX_PASSES = 4 };

/* CHANCE is the accepted probability that any value replaces an assumption by mistake.
 * CHANCE_STRICT is the same probability for values that would drop or move a stored tensor. */
#define CHANCE        0.01
#define CHANCE_STRICT 1e-8

/* The difference between two cross-entropies that rounding may cause. */
#define ROUNDING 1e-6

/* === Classes === */

/* The name of a folder directly inside the folder of --match-folder. The text is a part of a
 * picture's path and is not NUL-terminated. */
typedef struct folder_name {
    const char *at;
    size_t length;
} folder_name;

static folder_name name_of(const char *path, const char *folder) {
    folder_name name;
    name.at = path + strlen(folder);
    name.at += strspn(name.at, "/");
    name.length = strcspn(name.at, "/");
    if (!name.at[name.length]) name.length = 0; /* The picture is not in a subfolder. */
    return name;
}

static int compare_names(const void *a, const void *b) {
    const folder_name *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* Sorts the names and removes duplicates. Returns the number of remaining names. */
static int sort_names(folder_name *names, int count) {
    int kept = 0, i;
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (i = 0; i < count; i++)
        if (i == 0 || compare_names(&names[kept - 1], &names[i]) != 0) names[kept++] = names[i];
    return kept;
}

/* True if the folder's name equals the label. Ignores case, and treats '_' as a space. */
static bool is_same(const folder_name *name, const char *label) {
    size_t i;
    if (!label || strlen(label) != name->length) return false;
    for (i = 0; i < name->length; i++) {
        const int a = tolower((unsigned char)name->at[i]), b = tolower((unsigned char)label[i]);
        if ((a == '_' ? ' ' : a) != (b == '_' ? ' ' : b)) return false;
    }
    return true;
}

/* Returns the index of the class with this label, synset or number. Returns -1 if there is no such
 * class. */
static int find_class(const folder_name *name, const label_list *labels, int num_classes) {
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

/* Finds the class of each folder by its name. If any name is not a class, the class of each folder
 * is instead its place in the sorted order. */
static bool find_classes(const folder_name *names, int count, const label_list *labels,
                         int num_classes, int *classes, report *r) {
    bool all = true;
    int i;
    for (i = 0; i < count; i++) {
        if (names[i].length == 0)
            return report_fail(r,
                               "expected only folders, one for each class, found the picture "
                               "%.100s beside the folders",
                               names[i].at);
        classes[i] = find_class(&names[i], labels, num_classes);
        all = all && classes[i] >= 0;
    }
    if (all) return true;
    if (count != num_classes)
        return report_fail(r,
                           "expected %d folders with pictures, one for each class, found %d "
                           "folders, and their names are not classes of the model",
                           num_classes, count);
    for (i = 0; i < count; i++) classes[i] = i;
    return true;
}

/* === Pictures === */

/* Returns a step that has no common factor with n. Going through a list of n items with this step
 * spreads the first few items over the whole list. */
static int spreading_step(int n) {
    int step = (int)(0.618 * n) + 1, a, b, rest;
    for (;; step++) {
        for (a = n, b = step; b; a = b, b = rest) rest = a % b;
        if (a == 1) return step;
    }
}

static bool decode_all(match_pictures *p, photo_decoder *decoder, const photo_list *list,
                       const int *classes, double seconds, report *r) {
    const double end = cli_now_ms() + seconds * 1e3;
    const int step = spreading_step(p->count);
    const int wanted = p->count;
    uint64_t bytes = 0;
    int i, at = 0;
    for (i = 0, p->count = 0; i < wanted && bytes < MAX_BYTES; i++, at = (at + step) % wanted) {
        if (i >= LEAST_PICTURES && cli_now_ms() > end) break;
        const int index = (int)((int64_t)at * list->count / wanted);
        match_picture *picture = &p->items[p->count];
        if (!photos_decode(list->paths[index], decoder, &picture->image, r)) return false;
        bytes += (uint64_t)picture->image.width * (uint64_t)picture->image.height * 3;
        picture->class_index = classes[index];
        p->count++;
    }
    return true;
}

static bool read_listed(match_pictures *p, photo_decoder *decoder, const photo_list *list,
                        const char *folder, double seconds, const label_list *labels,
                        int num_classes, report *r) {
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
                                                            sizeof *names, compare_names) -
                               names];
    }
    good = good && decode_all(p, decoder, list, classes, seconds, r);
    free(names);
    free(classes);
    return good;
}

bool match_pictures_read(match_pictures *pictures, photo_decoder *decoder, const char *folder,
                         int max, double seconds, const label_list *labels, int num_classes,
                         report *r) {
    text_list operands = { &folder, 1 };
    photo_list list;
    bool good;
    memset(pictures, 0, sizeof *pictures);
    if (source_exists(folder) && !source_is_folder(folder))
        return report_fail(r, "expected a folder with a folder of pictures for each class, found "
                              "a file") ||
               report_file(r, folder);
    if (!photos_find(&list, &operands, 0x7fffffff, r)) return false;
    pictures->count = list.count < max ? list.count : max;
    pictures->items = calloc((size_t)pictures->count, sizeof *pictures->items);
    good = pictures->items ? true : report_no_memory(r);
    if (!good) pictures->count = 0;
    good = good && read_listed(pictures, decoder, &list, folder, seconds, labels, num_classes, r);
    photos_free(&list);
    return good || report_file(r, folder);
}

void match_pictures_free(match_pictures *pictures) {
    int i;
    for (i = 0; pictures->items && i < pictures->count; i++)
        if (pictures->items[i].image.pixels) photos_free_image(&pictures->items[i].image);
    free(pictures->items);
    memset(pictures, 0, sizeof *pictures);
}

/* === Losses of pictures === */

/* Returns -log(p), where p is the probability of the class after all logits are multiplied by
 * `factor`. */
static double cross_entropy(const float *logits, int n, int class_index, double factor) {
    double largest = (double)logits[0], sum = 0, loss;
    int i;
    for (i = 1; i < n; i++) largest = fmax(largest, (double)logits[i]);
    for (i = 0; i < n; i++) sum += exp(factor * ((double)logits[i] - largest));
    loss = log(sum) + factor * (largest - (double)logits[class_index]);
    return loss < 1e6 ? loss : 1e6; /* also replaces NaN */
}

/* Computes the losses of the first n pictures into s->losses, with logits that are multiplied by
 * `factor`. Returns the mean loss. */
static double scale_losses(match_sorting *s, int n, double factor) {
    const int classes = s->model->config.num_classes;
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) {
        const float *logits = s->logits + (size_t)i * (size_t)classes;
        s->losses[i] = cross_entropy(logits, classes, s->pictures->items[i].class_index, factor);
        sum += s->losses[i];
    }
    return sum / n;
}

/* Computes the losses of the first n pictures, with the factor that gives the smallest mean loss.
 * The factor is needed because many wrong settings change only the confidence, and confidence must
 * not decide between models. */
static void find_losses(match_sorting *s, int n) {
    double low = log(1 / 32.0), high = log(32.0);
    int i;
    for (i = 0; i < 16; i++) {
        const double third = (high - low) / 3;
        if (scale_losses(s, n, exp(low + third)) < scale_losses(s, n, exp(high - third)))
            high -= third;
        else low += third;
    }
    (void)scale_losses(s, n, exp((low + high) / 2));
}

/* === Measuring one choice === */

static size_t count_pixels(const vit_config *c) {
    return (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
}

/* Returns a hash of the model and of its input. Two runs with equal hashes have equal logits. */
static uint64_t hash_input(const match_sorting *s) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, &s->model->network, sizeof s->model->network);
    vit_hash_update(&hash, s->input, count_pixels(&s->model->config) * sizeof *s->input);
    return vit_hash_final(&hash);
}

/* Computes the logits and the hash of picture i. */
static bool run_picture(match_sorting *s, int i, report *r) {
    const size_t classes = (size_t)s->model->config.num_classes, at = (size_t)i * classes;
    cli_progress_update(&s->progress, (uint64_t)(cli_now_ms() - s->started));
    if (!photos_prepare(match_model_get(s->model), &s->pictures->items[i].image, s->input, r))
        return false;
    s->hashes[i] = hash_input(s);
    if (s->hashes[i] != s->best_hashes[i])
        return match_model_run(s->model, s->input, s->logits + at, r);
    memcpy(s->logits + at, s->best_logits + at, classes * sizeof *s->logits);
    return true;
}

static bool take_buffers(match_sorting *s, report *r) {
    const size_t count = (size_t)s->pictures->count;
    const size_t logits = count * s->model->output_size;
    float *input = realloc(s->input, count_pixels(&s->model->config) * sizeof *input);
    if (!input) return report_no_memory(r);
    s->input = input; /* the input size may differ between models */
    if (s->logits) return true;
    s->logits = calloc(logits, sizeof *s->logits);
    s->best_logits = calloc(logits, sizeof *s->best_logits);
    s->losses = calloc(count, sizeof *s->losses);
    s->best = calloc(count, sizeof *s->best);
    s->hashes = calloc(count, sizeof *s->hashes);
    s->best_hashes = calloc(count, sizeof *s->best_hashes);
    return (s->logits && s->best_logits && s->losses && s->best && s->hashes && s->best_hashes) ||
           report_no_memory(r);
}

static bool set_model(match_sorting *s, const match_choice *choice, report *r) {
    settings matched = *s->base;
    match_apply(s->table, choice, &matched);
    if (!match_model_set(s->model, &matched, r) || !match_model_load(s->model, r) ||
        !take_buffers(s, r))
        return false;
    s->runs++;
    return true;
}

/* Chooses the number of pictures in use, so that about 4 values of each row can be run within the
 * time limit. Uses at least LEAST_PICTURES, or all pictures if there are fewer. */
static void choose_count(match_sorting *s, double picture_ms) {
    const double most = s->seconds * 1e3 / (picture_ms + 1e-3) / (4 * s->table->count + 1);
    s->used = s->pictures->count;
    if (s->used > most) s->used = most > LEAST_PICTURES ? (int)most : LEAST_PICTURES;
    if (s->used > s->pictures->count) s->used = s->pictures->count;
}

/* === Comparing two losses === */

/* Computes the first n losses. Returns their mean increase over s->best, and its standard error. */
static match_difference compare(match_sorting *s, int n) {
    match_difference d = { n, 0, 0 };
    double square = 0;
    int i;
    find_losses(s, n);
    for (i = 0; i < n; i++) d.more += (s->losses[i] - s->best[i]) / n;
    for (i = 0; i < n; i++) square += pow(s->losses[i] - s->best[i] - d.more, 2);
    d.error = n > 1 ? sqrt(square / n / (n - 1)) : HUGE_VAL;
    return d;
}

/* Returns a bound for the mean of n differences, in standard errors. If all differences are random,
 * `chance` is the probability that any value of the table exceeds the bound. The bound follows from
 * the normal distribution or, for small n, from Student's distribution. */
static double clear_errors(const match_sorting *s, int n, double chance) {
    double values = 0, tail, square;
    int row;
    for (row = 0; row < s->table->count; row++) values += s->table->rows[row].count;
    tail = 2 * log(values / chance);
    square = tail - log(tail) - log(6.2831853);
    return sqrt((n - 1) * (exp(square / (n - 1)) - 1));
}

/* Returns the mean difference above which d is clear. This limit is higher if d speaks against the
 * row's first value and only that value uses a tensor as it is stored. */
static double limit_of(const match_sorting *s, int row, bool against_first,
                       const match_difference *d) {
    const bool strict = against_first && s->table->rows[row].is_stored;
    return d->error * clear_errors(s, d->pictures, strict ? CHANCE_STRICT : CHANCE);
}

/* True if the value is clearly worse than the chosen value. */
static bool is_worse(const match_sorting *s, int row, int value, const match_difference *d) {
    return d->pictures > 1 && d->more > limit_of(s, row, value == 0, d);
}

/* True if the value should replace the chosen value. If the row is an open question, the best value
 * wins. If the row is an assumption, the first value wins unless another value is clearly
 * better. */
static bool is_better(const match_sorting *s, int row, int value, const match_difference *d) {
    if (match_row_is_asked(&s->table->rows[row], s->asked)) return d->more < 0;
    if (value == 0) return !is_worse(s, row, value, d);
    if (s->chosen.of[row] != 0) return d->more < 0;
    return d->pictures > 1 && d->more < -limit_of(s, row, true, d);
}

/* Runs the chosen settings with another value of one row, and puts the losses into s->losses. Stops
 * after a few pictures if the value is clearly worse than the chosen value. Returns false if these
 * settings give no model. */
static bool measure(match_sorting *s, int row, int value, match_difference *d) {
    match_choice choice = s->chosen;
    report ignored = report_make();
    int i, next = LEAST_PICTURES;
    choice.of[row] = (unsigned char)value;
    if (!set_model(s, &choice, &ignored)) return false;
    for (i = 0; i < s->used; i++) {
        if (i == next) {
            *d = compare(s, i);
            if (is_worse(s, row, value, d)) return true;
            next *= 2;
        }
        if (!run_picture(s, i, &ignored)) return false;
    }
    *d = compare(s, i);
    return true;
}

/* Keeps the latest losses, logits and hashes as those of the chosen settings. */
static void keep_best(match_sorting *s) {
    double *losses = s->losses;
    float *logits = s->logits;
    uint64_t *hashes = s->hashes;
    int i;
    s->losses = s->best;
    s->best = losses;
    s->logits = s->best_logits;
    s->best_logits = logits;
    s->hashes = s->best_hashes;
    s->best_hashes = hashes;
    for (i = 0, s->loss = 0; i < s->used; i++) s->loss += s->best[i] / s->used;
}

/* Runs the chosen settings on all pictures in use. */
static bool measure_chosen(match_sorting *s, report *r) {
    int i;
    if (!set_model(s, &s->chosen, r)) return false;
    for (i = 0; i < s->used; i++)
        if (!run_picture(s, i, r)) return false;
    find_losses(s, s->used);
    keep_best(s);
    return true;
}

/* Runs the first choice of settings. First measures with a few pictures how many the time
 * allows. */
static bool measure_first(match_sorting *s, report *r) {
    const int few = s->pictures->count < 4 ? s->pictures->count : 4;
    double before;
    int i;
    if (!set_model(s, &s->chosen, r)) return false;
    before = cli_now_ms();
    for (i = 0; i < few; i++)
        if (!run_picture(s, i, r)) return false;
    choose_count(s, (cli_now_ms() - before) / few);
    return measure_chosen(s, r);
}

/* === The descent === */

static bool is_over(const match_sorting *s) { return cli_now_ms() - s->started > s->seconds * 1e3; }

/* Chooses another value of a row. Also updates the recorded differences, which are relative to the
 * losses of the chosen value. */
static void change_choice(match_sorting *s, int row, int value, const match_difference *gain) {
    match_difference *values = s->verdicts[row].values;
    int i;
    for (i = 0; i < s->table->rows[row].count; i++) values[i].more -= gain->more;
    values[s->chosen.of[row]].pictures = gain->pictures;
    values[s->chosen.of[row]].error = gain->error;
    memset(&values[value], 0, sizeof values[value]);
    s->chosen.of[row] = (unsigned char)value;
    keep_best(s);
}

/* True if judge_row uses the difference between this value and the chosen value. It ignores
 * differences that rounding may cause. For an open question, it uses even zero: a question whose
 * values make no difference to these pictures thus stays open. */
static bool counts(const match_sorting *s, int row, const match_difference *d) {
    return d->pictures > 0 && (fabs(d->more) > ROUNDING || d->error > ROUNDING ||
                               match_row_is_asked(&s->table->rows[row], s->asked));
}

static void judge_row(match_sorting *s, int row) {
    match_verdict *verdict = &s->verdicts[row];
    int value;
    verdict->next = -1;
    verdict->is_open = false;
    for (value = 0; value < s->table->rows[row].count; value++) {
        const match_difference *d = &verdict->values[value];
        if (!counts(s, row, d)) continue;
        verdict->is_open |= !is_worse(s, row, value, d);
        if (verdict->next < 0 || d->more < verdict->values[verdict->next].more)
            verdict->next = value;
    }
}

/* Measures the other values of one row and chooses the best value. Returns true if the choice
 * changed. */
static bool settle_row(match_sorting *s, int row) {
    match_difference d;
    bool changed = false;
    int value;
    for (value = 0; value < s->table->rows[row].count && !is_over(s); value++) {
        if (value == s->chosen.of[row]) continue;
        memset(&d, 0, sizeof d);
        if (!measure(s, row, value, &d)) d.pictures = 0;
        if (d.pictures == s->used && is_better(s, row, value, &d)) {
            change_choice(s, row, value, &d);
            changed = true;
        } else {
            s->verdicts[row].values[value] = d;
        }
    }
    judge_row(s, row);
    return changed;
}

static bool settle_rows(match_sorting *s, bool asked) {
    bool changed = false;
    int row;
    for (row = 0; row < s->table->count && !is_over(s); row++)
        if (match_row_is_asked(&s->table->rows[row], s->asked) == asked)
            changed |= settle_row(s, row);
    return changed;
}

/* Decides all rows. Open questions come first, because other rows depend on them. Repeats this
 * until a pass changes nothing: every value was then compared with the final choice. If the passes
 * or the time run out before that, all rows stay open. */
static void descend(match_sorting *s) {
    bool changed = true;
    int pass, row;
    for (pass = 0; changed && pass < MAX_PASSES && !is_over(s); pass++) {
        changed = settle_rows(s, true);
        changed |= settle_rows(s, false);
    }
    for (row = 0; (changed || is_over(s)) && row < s->table->count; row++)
        s->verdicts[row].is_open = true;
}

/* If unused pictures and three quarters of the time are left, uses more pictures and returns true.
 * The caller then decides the rows again. Otherwise, or on failure, returns false. */
static bool add_pictures(match_sorting *s, report *r) {
    const int used = s->used, all = s->pictures->count;
    if (used == all || cli_now_ms() - s->started > s->seconds * 1e3 / 4) return false;
    s->used = used < all / 2 ? 2 * used : all;
    if (measure_chosen(s, r)) return true;
    s->used = used;
    return false;
}

static void count_right(match_sorting *s) {
    const int classes = s->model->config.num_classes;
    vit_prediction top;
    int i;
    for (i = 0; i < s->used; i++) {
        vit_top_k(s->best_logits + (size_t)i * (size_t)classes, classes, 1, &top);
        s->right += top.index == s->pictures->items[i].class_index;
    }
}

/* Fails if the best settings classify the pictures hardly better than guessing, because the
 * pictures then decide nothing. The settings pass if they make all correct classes together more
 * than 1/CHANCE_STRICT times as likely as guessing does. Chance rarely gives such a ratio. */
static bool check_use(const match_sorting *s, report *r) {
    const double guessing = log(s->model->config.num_classes);
    if ((guessing - s->loss) * s->used > -log(CHANCE_STRICT)) return true;
    return report_fail(
        r,
        "no setting does clearly better than guessing (cross-entropy %.3g on %d of %d pictures, "
        "guessing %.3g): are the folders the model's classes, in the model's order?%s",
        s->loss, s->used, s->pictures->count, guessing,
        s->used < s->pictures->count ? " If they are, give more time: --match-seconds" : "");
}

bool match_sorting_run(match_sorting *s, report *r) {
    bool good;
    int row;
    for (row = 0; row < s->table->count; row++) s->verdicts[row].next = -1;
    s->started = cli_now_ms();
    cli_progress_start(&s->progress, "matching", (uint64_t)(s->seconds * 1e3));
    snprintf(s->note, sizeof s->note,
             "trying settings on the pictures for at most %.0f s "
             "(--match-seconds)",
             s->seconds);
    if (s->quiet) s->progress.active = false;
    else s->progress.note = s->note;
    good = measure_first(s, r);
    while (good) {
        descend(s);
        if (!add_pictures(s, r)) break;
    }
    good = good && !r->failed && check_use(s, r);
    if (good) count_right(s);
    cli_progress_clear(&s->progress);
    s->took = (cli_now_ms() - s->started) / 1e3;
    return good;
}

void match_sorting_free(match_sorting *s) {
    free(s->losses);
    free(s->best);
    free(s->hashes);
    free(s->best_hashes);
    free(s->logits);
    free(s->best_logits);
    free(s->input);
    memset(s, 0, sizeof *s);
}
