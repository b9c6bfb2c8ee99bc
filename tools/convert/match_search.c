#define _POSIX_C_SOURCE 200809L

#include "convert/match.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* ROUNDING is the error that rounding may cause. A descent tries fine rows only if the error is
 * below NEAR. CLEAR is a share of the old slope (match_error_slope); a step that lowers the slope
 * below this share is taken at once. MAX_TRIES limits the number of tries in memory. */
#define ROUNDING 2e-6
#define NEAR     0.05
#define CLEAR    0.5
enum { MAX_TRIES = 1 << 19, WANTED_RUNS = 1000 };

/* ENOUGH_RUNS and MANY_RUNS are numbers of model runs. In a test, searches of ENOUGH_RUNS runs
 * found nine in ten of 300 random models that differ from the likeliest model in two settings.
 * Searches of MANY_RUNS runs found 98 % of 200 models that differ from the likeliest model in three
 * settings. An output of fewer than ENOUGH_NUMBERS numbers could fit by chance. */
enum { ENOUGH_RUNS = 300, MANY_RUNS = 10000, ENOUGH_NUMBERS = 4 };

/* A descent tries at most LIKELY values of each row. BATCH is the number of pairs of changes that
 * are tried before the search continues with another method. */
enum { LIKELY = 7, BATCH = 40 };

/* === Time === */

static double elapsed(const match_search *s) { return (cli_now_ms() - s->started) / 1e3; }

static double usual_seconds(const match_search *s) {
    return s->patience > 0 ? s->patience : s->seconds;
}

static bool is_over(const match_search *s) {
    const bool has_tried = s->runs >= ENOUGH_RUNS || s->count >= (size_t)100 * ENOUGH_RUNS;
    if (s->is_out_of_memory || s->count >= MAX_TRIES || elapsed(s) > s->seconds) return true;
    return s->patience > 0 && (s->runs >= MANY_RUNS || (has_tried && elapsed(s) > s->patience));
}

/* === The list of tries === */

static uint64_t hash_choice(const match_choice *choice) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, choice, sizeof *choice);
    return vit_hash_final(&hash);
}

/* Returns the slot of this choice in the hash table. If the choice is new, returns a free slot for
 * it. */
static size_t *find_place(const match_search *s, const match_choice *choice) {
    size_t i = (size_t)hash_choice(choice) & (s->num_places - 1);
    while (s->places[i] && memcmp(&s->tries[s->places[i] - 1].choice, choice, sizeof *choice) != 0)
        i = (i + 1) & (s->num_places - 1);
    return &s->places[i];
}

/* Returns the slot of the model with this signature in the hash table. If the model is new, returns
 * a free slot for it. */
static size_t *find_model(const match_search *s, uint64_t signature) {
    size_t i = (size_t)signature & (s->num_places - 1);
    while (s->models[i] && s->tries[s->models[i] - 1].signature != signature)
        i = (i + 1) & (s->num_places - 1);
    return &s->models[i];
}

static bool grow_places(match_search *s) {
    const size_t wanted = s->num_places ? 2 * s->num_places : 1024;
    size_t *places = calloc(wanted, sizeof *places), *models = calloc(wanted, sizeof *models), i;
    if (!places || !models) {
        free(places);
        free(models);
        return false;
    }
    free(s->places);
    free(s->models);
    s->places = places;
    s->models = models;
    s->num_places = wanted;
    for (i = 0; i < s->count; i++) {
        *find_place(s, &s->tries[i].choice) = i + 1;
        if (s->tries[i].signature) *find_model(s, s->tries[i].signature) = i + 1;
    }
    return true;
}

/* Adds a try to the list. Returns NULL if memory is exhausted. */
static match_try *add_try(match_search *s, const match_choice *choice) {
    match_try *tries = memory_grow(s->tries, sizeof *tries, s->count, &s->capacity), *t;
    int row;
    if (tries) s->tries = tries;
    if (!tries || (2 * s->count >= s->num_places && !grow_places(s))) {
        s->is_out_of_memory = true;
        return NULL;
    }
    t = &s->tries[s->count];
    memset(t, 0, sizeof *t);
    t->choice = *choice;
    t->error = t->slope = HUGE_VAL;
    for (row = 0; row < s->table->count; row++)
        t->unlikely += choice->of[row] ? 100 + choice->of[row] : 0;
    *find_place(s, choice) = ++s->count;
    return t;
}

/* === Running one try === */

/* Runs the images from `first` to `end` - 1. Adds the errors to errors[j], separately for each
 * possible last step j of the original. */
static bool run_images(match_search *s, int first, int end, match_error errors[2], report *r) {
    int i, j;
    for (i = first; i < end; i++) {
        if (!match_model_run(s->model, match_pair_input(s->pair, i), s->output, r)) return false;
        for (j = 0; j < s->pair->num_readings; j++)
            match_pair_compare(s->pair, j, i, s->output, &errors[j]);
    }
    return true;
}

/* Chooses the number of images that each run uses. WANTED_RUNS runs should fit into the time limit,
 * but each run compares at least ENOUGH_NUMBERS numbers. */
static bool choose_images(match_search *s, report *r) {
    match_error errors[2] = { { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } };
    const double before = cli_now_ms();
    const double least = ceil((double)ENOUGH_NUMBERS / (double)s->pair->outputs);
    double took, most;
    if (s->images > 0 || s->pair->images == 1) return s->images = s->images ? s->images : 1, true;
    if (!run_images(s, 0, 1, errors, r)) return false;
    took = cli_now_ms() - before + 1e-3;
    most = fmax(usual_seconds(s) * 1e3 / took / WANTED_RUNS, least);
    s->images = most >= s->pair->images ? s->pair->images : (int)most;
    return true;
}

static bool measure(match_search *s, match_try *t, report *r) {
    match_error errors[2] = { { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } };
    int j;
    if (!choose_images(s, r) || !run_images(s, 0, s->images, errors, r)) return false;
    s->runs++;
    for (j = 0; j < s->pair->num_readings; j++) {
        const double slope = match_error_slope(&errors[j]);
        if (j > 0 && !(slope < t->slope)) continue;
        t->error = errors[j].largest;
        t->slope = slope;
        t->reading = j;
    }
    return true;
}

static bool has_output(match_search *s, report *r) {
    if (!match_pair_fits(s->pair, &s->model->config, s->model->output_size, r)) return false;
    if (!s->output) s->output = malloc(s->pair->outputs * sizeof *s->output);
    return s->output || report_no_memory(r);
}

/* Checks whether the settings can fit the pair, before any weights are read. */
static bool may_fit(const match_search *s, report *r) {
    const vit_config *c = &s->model->config;
    const size_t outputs = c->num_classes && !s->model->gives_embedding ? (size_t)c->num_classes
                                                                        : s->pair->outputs;
    return match_pair_fits(s->pair, c, outputs, r);
}

/* Runs the model of a try, and records the error in the try. Fails if the choice cannot be
 * resolved, planned or run. If another choice already gave the same model, copies the error of that
 * try instead. */
static bool evaluate(match_search *s, match_try *t, report *r) {
    settings matched = *s->base;
    size_t *place;
    match_apply(s->table, &t->choice, &matched);
    if (!match_model_set(s->model, &matched, r)) return false;
    place = find_model(s, s->model->signature);
    if (*place) {
        const match_try *same = &s->tries[*place - 1];
        t->error = same->error;
        t->slope = same->slope;
        t->reading = same->reading;
        t->signature = same->signature;
        return true;
    }
    if (!may_fit(s, r) || !match_model_load(s->model, r) || !has_output(s, r) || !measure(s, t, r))
        return false;
    t->signature = s->model->signature;
    *place = (size_t)(t - s->tries) + 1;
    return true;
}

/* Returns the index of the try with this choice, or 0 if memory is exhausted. Evaluates the choice
 * unless it was tried before. */
static size_t try_choice(match_search *s, const match_choice *choice) {
    const size_t known = s->num_places ? *find_place(s, choice) : 0;
    report r = report_make();
    match_try *t;
    if (known) return known - 1;
    t = add_try(s, choice);
    if (!t) return 0;
    if (!evaluate(s, t, &r) && s->count == 1) s->first = r;
    cli_progress_update(&s->progress, (uint64_t)(elapsed(s) * 1e3));
    return s->count - 1;
}

/* === The search === */

static bool is_better(const match_search *s, size_t a, size_t b) {
    const match_try *x = &s->tries[a], *y = &s->tries[b];
    return x->slope < y->slope || (x->slope == y->slope && x->unlikely < y->unlikely);
}

static bool fits(const match_search *s, size_t i) { return s->tries[i].error <= s->tolerance; }

/* Returns the share of the old slope (match_error_slope) below which a new slope counts as a gain.
 * A smaller improvement could be chance, so the likelier value stays. With more logits, chance
 * matters less. In a descent from a random choice, every improvement counts, because no value is
 * likelier. */
static double worthwhile(const match_search *s) {
    if (s->is_astray) return 1;
    return 1 - fmin(0.15, 1 / sqrt((double)s->pair->outputs * (s->images ? s->images : 1)));
}

/* Finds the best value of one row while the values of all other rows stay. Unless `finely` is true,
 * tries only the likeliest values. */
static size_t settle_row(match_search *s, size_t from, int row, bool finely) {
    match_choice choice = s->tries[from].choice;
    const int count = s->table->rows[row].count;
    size_t best = from, i;
    int value;
    for (value = 0; value < (finely || count < LIKELY ? count : LIKELY) && !is_over(s); value++) {
        choice.of[row] = (unsigned char)value;
        i = try_choice(s, &choice);
        if (is_better(s, i, best) && s->tries[i].slope < worthwhile(s) * s->tries[from].slope)
            best = i;
    }
    return best;
}

/* Improves the choice row by row. Takes a change at once if the slope falls below the share `clear`
 * of the old slope. After a round without such a change, takes the best change of the round. Ends
 * when a try fits, or when no change is a gain. */
static size_t descend(match_search *s, size_t from, double clear) {
    const int rows = s->table->count;
    size_t best = from, i;
    int row, since = 0;
    for (row = 0; since < rows && !fits(s, best) && !is_over(s); row = (row + 1) % rows) {
        const bool is_near = s->tries[from].error < NEAR;
        if (!s->table->rows[row].is_fine || is_near) {
            i = settle_row(s, from, row, is_near);
            if (is_better(s, i, best)) best = i;
        }
        since++;
        if (s->tries[best].slope < clear * s->tries[from].slope || since == rows) {
            if (best != from) since = 0;
            from = best;
        }
    }
    return best;
}

/* Tries the choices that differ from try `from` in a single row. Unless `finely` is true, leaves
 * out fine rows, and stops when a choice fits. Returns the best try, which may be `from`. */
static size_t expand(match_search *s, size_t from, bool finely) {
    size_t best = from, i;
    int row;
    s->tries[from].is_expanded = true;
    if (finely) s->tries[from].is_expanded_finely = true;
    for (row = 0; row < s->table->count && !is_over(s); row++) {
        if (s->table->rows[row].is_fine && !finely) continue;
        i = settle_row(s, from, row, true);
        if (is_better(s, i, best)) best = i;
        if (fits(s, best) && !finely) break;
    }
    return best;
}

/* Finds a try that was not expanded yet (see `expand`). Chooses the try that fits best or, if
 * by_likelihood is true, the likeliest. Returns false if all tries were expanded. */
static bool find_next(const match_search *s, bool by_likelihood, size_t *next) {
    bool found = false;
    size_t i;
    for (i = 0; i < s->count; i++) {
        const match_try *t = &s->tries[i];
        if (t->is_expanded) continue;
        if (!found ||
            (by_likelihood ? t->unlikely < s->tries[*next].unlikely : is_better(s, i, *next)))
            *next = i;
        found = true;
    }
    return found;
}

static size_t find_best(const match_search *s) {
    size_t best = 0, i;
    for (i = 1; i < s->count; i++)
        if (is_better(s, i, best)) best = i;
    return best;
}

/* Changes two rows of *choice to the next pair of values. Pairs with the likeliest new values come
 * first. *number counts the pairs, and must start at 0. Returns false after the last pair. */
static bool next_pair(const match_search *s, int *number, match_choice *choice) {
    const match_row *rows = s->table->rows;
    const int count = s->table->count, ranks = MATCH_MAX_VALUES;
    for (; *number < count * count * ranks * 2 * ranks; ++*number) {
        const int a = *number / count % count, b = *number % count;
        const int first = *number / (count * count) % ranks;
        /* the ranks of the two values add up to number / (count * count * ranks) */
        const int second = *number / (count * count * ranks) - first;
        if (a >= b || rows[a].is_fine || rows[b].is_fine || first >= rows[a].count || second < 0 ||
            second >= rows[b].count || first == choice->of[a] || second == choice->of[b])
            continue;
        choice->of[a] = (unsigned char)first;
        choice->of[b] = (unsigned char)second;
        ++*number;
        return true;
    }
    return false;
}

/* Tries further pairs of changes of try `from`, until BATCH new choices are tried or one fits.
 * Returns the best try, which may be `best`. */
static size_t try_pairs(match_search *s, match_pairs *pairs, size_t from, size_t best) {
    const size_t enough = s->count + BATCH;
    size_t i;
    if (pairs->from != from) pairs->number = 0;
    pairs->from = from;
    while (s->count < enough && !is_over(s) && !fits(s, best)) {
        match_choice choice = s->tries[from].choice;
        if (!next_pair(s, &pairs->number, &choice)) break;
        i = try_choice(s, &choice);
        if (is_better(s, i, best)) best = i;
    }
    return best;
}

/* Returns a pseudorandom number from 0 to n - 1. The sequence is the same in every run. */
static int random_below(match_search *s, int n) {
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((s->random >> 33) % (uint64_t)n);
}

/* Tries the best choice with a few random changes or, if `far` is true, with many. */
static size_t jump(match_search *s, size_t best, bool far) {
    match_choice choice = s->tries[best].choice;
    int row;
    for (row = 0; row < s->table->count; row++)
        if (random_below(s, far ? 2 : 4) == 0)
            choice.of[row] = (unsigned char)random_below(s, s->table->rows[row].count);
    return try_choice(s, &choice);
}

/* Makes one more attempt after a descent failed. The round decides which: expand the best-fitting
 * try that was not expanded, expand the likeliest one, or descend from a random choice. Given
 * enough time, the expansions of the likeliest tries reach every choice. Returns false if there is
 * no try to expand. */
static bool attempt(match_search *s, int round, size_t best, size_t *found) {
    const bool by_likelihood = round % 4 == 1;
    size_t next = 0;
    if (round % 4 >= 2) {
        s->is_astray = true;
        *found = descend(s, jump(s, best, round % 4 == 2), 1);
        s->is_astray = false;
        return true;
    }
    if (!find_next(s, by_likelihood, &next)) return false;
    *found = expand(s, next, s->tries[next].error < NEAR || by_likelihood);
    return true;
}

/* Finds the best values of the rows with little effect. Such a row can still matter: the norm's
 * epsilon, for example, matters if the inputs of the norm are as small as the epsilon. */
static size_t settle_fine_rows(match_search *s, size_t from) {
    size_t best = from, i;
    int row;
    for (row = 0; row < s->table->count; row++) {
        if (!s->table->rows[row].is_fine) continue;
        i = settle_row(s, best, row, true);
        if (is_better(s, i, best)) best = i;
    }
    return best;
}

/* Searches on after the first descent. First changes single rows of the likeliest choice, because
 * the descent may have left it too early. Then changes two rows at a time, alternately of the best
 * and of the likeliest choice, and calls `attempt` when no pair is left. Gives up if no choice gave
 * a model. */
static size_t look_around(match_search *s, size_t best) {
    size_t found, before;
    int round;
    if (fits(s, best) || is_over(s)) return best;
    found = expand(s, 0, false);
    if (is_better(s, found, best)) best = descend(s, found, CLEAR);
    for (round = 0; !fits(s, best) && !is_over(s); round++) {
        best = settle_fine_rows(s, best);
        before = s->count;
        found = try_pairs(s, &s->pairs[round % 2], round % 2 ? 0 : best, best);
        if (s->count == before && (s->runs == 0 || !attempt(s, round / 2, best, &found))) break;
        if (is_better(s, found, best)) best = descend(s, found, CLEAR);
    }
    return best;
}

/* === The fit of a try === */

bool match_search_is_equal(const match_search *s, const match_try *other) {
    const match_try *t = &s->tries[s->chosen];
    return other->signature != t->signature &&
           other->error <= fmin(s->tolerance, fmax(ROUNDING, 4 * t->error));
}

const match_try *match_search_other(const match_search *s, int row, int value) {
    match_choice choice = s->tries[s->chosen].choice;
    size_t place;
    choice.of[row] = (unsigned char)value;
    place = *find_place(s, &choice);
    return place ? &s->tries[place - 1] : NULL;
}

/* Tries all choices that differ from the chosen try's choice in a single row. Repeats this until no
 * such choice is better. */
static void polish(match_search *s) {
    size_t better;
    while (!s->tries[s->chosen].is_expanded_finely && !is_over(s)) {
        better = expand(s, s->chosen, true);
        if (fits(s, better)) s->chosen = better;
    }
}

/* Replaces values of the chosen try by likelier values that fit equally well. */
static void prefer_likely(match_search *s) {
    const double enough = fmin(s->tolerance, fmax(ROUNDING, 4 * s->tries[s->chosen].error));
    int row, value;
    for (row = 0; row < s->table->count; row++)
        for (value = 0; value < s->tries[s->chosen].choice.of[row]; value++) {
            const match_try *other = match_search_other(s, row, value);
            if (!other || other->error > enough) continue;
            s->chosen = (size_t)(other - s->tries);
            expand(s, s->chosen, true);
        }
}

/* Includes the images that the search left out in the error of the chosen try. */
static bool check_rest(match_search *s, report *r) {
    match_try *t = &s->tries[s->chosen];
    match_error errors[2] = { { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } };
    settings matched = *s->base;
    match_apply(s->table, &t->choice, &matched);
    if (!match_model_set(s->model, &matched, r) || !match_model_load(s->model, r) ||
        !run_images(s, s->images, s->pair->images, errors, r))
        return false;
    t->error = fmax(t->error, errors[t->reading].largest);
    return true;
}

bool match_search_run(match_search *s, report *r) {
    const match_choice likeliest = { { 0 } };
    bool good = false;
    s->started = cli_now_ms();
    s->first = report_make();
    cli_progress_start(&s->progress, "matching", (uint64_t)(usual_seconds(s) * 1e3));
    snprintf(
        s->note, sizeof s->note,
        "the likeliest settings do not give this output: searching other settings for %s %.0f s "
        "(--match-seconds)",
        s->patience > 0 ? "about" : "at most", usual_seconds(s));
    if (s->quiet) s->progress.active = false;
    else s->progress.note = s->note;
    try_choice(s, &likeliest);
    if (s->count > 0) s->chosen = look_around(s, descend(s, 0, CLEAR));
    if (s->count > 0 && fits(s, s->chosen)) {
        s->patience = 0;
        polish(s);
        prefer_likely(s);
        good = check_rest(s, r) && fits(s, s->chosen);
    } else if (s->count > 0) {
        s->chosen = find_best(s);
    }
    cli_progress_clear(&s->progress);
    s->took = elapsed(s);
    if (s->is_out_of_memory) return report_no_memory(r);
    return good;
}

void match_search_free(match_search *s) {
    free(s->tries);
    free(s->places);
    free(s->models);
    free(s->output);
    memset(s, 0, sizeof *s);
}
