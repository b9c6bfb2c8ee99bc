#define _POSIX_C_SOURCE 200809L

#include "convert/match.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/source.h"
#include "base/text.h"
#include "convert/match_folder.h"
#include "convert/match_search.h"
#include "layout/inspect.h"

/* One row of a table, settled. */
typedef struct settled {
    char value[MATCH_TEXT];
    char next[MATCH_TEXT];   /* the nearest other value that was tried; "": none was */
    double next_score;       /* its error, or its cross-entropy */
    char equals[256];        /* values that fit as well */
    bool by_folder, is_open; /* open: the pictures do not decide */
    int row;                 /* of the table, if by a folder */
} settled;

struct match {
    match_pair pair;
    char hashes[2][65];                     /* of its files */
    match_table table;                      /* the one in use */
    match_verdict verdicts[MATCH_MAX_ROWS]; /* by a folder */
    settled settled_rows[1 + 2 * MATCH_MAX_ROWS];
    int count;
    bool takes_size; /* the input's size is the model's */
    double error, seconds, folder_seconds, loss;
    int runs, folder_runs, pictures, right;
    const char *folder; /* NULL: none was used */
};

/* === Before the tensors are inspected === */

static bool hash_files(match *m, report *r) {
    const char *const paths[] = { m->pair.input_path, m->pair.logits_path };
    int i;
    for (i = 0; i < 2; i++)
        if (!sha256_file(paths[i], m->hashes[i], NULL, NULL))
            return report_fail(r, "cannot be read: %s", strerror(errno)) ||
                   report_file(r, paths[i]);
    return true;
}

/* The input's size is what --img-size would say. */
static void take_size(conversion *c) {
    const match_pair *pair = &c->match->pair;
    if (settings_origin(c->all, SETTING_IMG_HEIGHT) >= 0) return;
    c->match->takes_size = true;
    settings_put(&c->all[FROM_OPTIONS], SETTING_IMG_HEIGHT, pair->height);
    settings_put(&c->all[FROM_OPTIONS], SETTING_IMG_WIDTH, pair->width);
}

/* The orders that the layout has itself. One that it does not know is read from the weights. */
static void take_orders(conversion *c) {
    settings *s = &c->all[FROM_MATCH];
    layout_part part;
    const char *axes;
    if (layout_peek(&c->map, "patch_embed.proj.weight", 0, &part, &axes) && axes &&
        strchr(axes, '(')) {
        if (!strstr(axes, "(patch)"))
            settings_put(s, SETTING_PATCH_ORDER,
                         strstr(axes, "(pqc)") ? PATCH_ORDER_HWC : PATCH_ORDER_CHW);
        if (c->match->pair.images > 0 && !c->options->in_chans)
            settings_put(s, SETTING_IN_CHANS, c->match->pair.chans);
    }
    if (layout_peek(&c->map, "blocks.0.attn.qkv.weight", 0, &part, &axes) && axes &&
        !strncmp(axes, "(hkz)", 5))
        settings_put(s, SETTING_QKV_INTERLEAVE, QKV_INTERLEAVE_PER_VALUE);
}

bool match_prepare(conversion *c, report *r) {
    const convert_options *o = c->options;
    settings_start(&c->all[FROM_MATCH], "--match-input");
    if (!o->match_input && !o->match_folder) return true;
    c->match = calloc(1, sizeof *c->match);
    if (!c->match) return report_no_memory(r);
    if (o->match_input) {
        if (!match_pair_read(&c->match->pair, o->match_input, o->match_logits, r) ||
            !hash_files(c->match, r))
            return false;
        take_size(c);
    }
    take_orders(c);
    return true;
}

void match_free(match *m) {
    if (!m) return;
    match_pair_free(&m->pair);
    free(m);
}

/* === What was found === */

static settled *add_settled(match *m, int row, int value) {
    settled *f = &m->settled_rows[m->count++];
    memset(f, 0, sizeof *f);
    f->next_score = HUGE_VAL;
    memcpy(f->value, m->table.rows[row].values[value], sizeof f->value);
    return f;
}

static void add_equal(settled *f, const char *value) {
    static const char others[] = ", and others";
    const size_t used = strlen(f->equals), size = used + strlen(value) + sizeof others + 2;
    if (used > 0 && strstr(f->equals, others)) return;
    text_append(f->equals, sizeof f->equals, "%s%s", used ? ", " : "",
                size < sizeof f->equals ? value : others + 2);
}

static void add_other(settled *f, const char *value, double score) {
    if (f->next[0] && !(score < f->next_score)) return;
    memcpy(f->next, value, sizeof f->next);
    f->next_score = score;
}

/* A row that left nothing to choose is not worth a word. */
static void list_row(match *m, const match_search *s, int row) {
    const match_row *values = &m->table.rows[row];
    const match_try *chosen = &s->tries[s->chosen];
    settled *f = add_settled(m, row, chosen->choice.of[row]);
    int value;
    for (value = 0; value < values->count; value++) {
        const match_try *other = match_search_other(s, row, value);
        if (!other || other->signature == chosen->signature || !(other->error < HUGE_VAL)) continue;
        if (match_search_is_equal(s, other)) add_equal(f, values->values[value]);
        else add_other(f, values->values[value], other->error);
    }
    if (!f->next[0] && !f->equals[0]) m->count--;
}

/* What all[FROM_MATCH] has is told from here on: nothing of it is assumed or asked. */
static void take_settings(conversion *c) {
    const settings *s = &c->all[FROM_MATCH];
    int key;
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!s->given[key]) continue;
        c->seen.by_default[key] = false;
        findings_answer(&c->found, setting_rows[key].name);
    }
    if (s->given[SETTING_NUM_HEADS]) memset(&c->seen.heads, 0, sizeof c->seen.heads);
    if (s->given[SETTING_PATCH_ORDER]) c->seen.patch_order_read = false;
    if (s->mean_count > 0) c->seen.mean_by_default = false;
    layout_take_orders(&c->map, c->all);
}

/* === By a pair === */

/* State dicts to choose from; 0: there is no choice. They share the time. */
static size_t count_choices(const conversion *c) {
    return c->options->weights ? 0 : checkpoint_choice_count(c->checkpoint);
}

/* Was it part of any model? pool=token is none without a class token. */
static bool was_tried(const match_search *s, int row, int value) {
    size_t i = 0;
    while (i < s->count && !(s->tries[i].error < HUGE_VAL && s->tries[i].choice.of[row] == value))
        i++;
    return i < s->count;
}

/* A row: the nearest model's value, then the others that were tried and make another model, with
 * their errors in its place. */
static void print_row(const match_search *s, int row) {
    const match_row *values = &s->table->rows[row];
    const match_try *best = &s->tries[s->chosen];
    const char *between = "";
    int value;
    text_print(stderr, "  %-40s", values->values[best->choice.of[row]]);
    for (value = 0; value < values->count; value++) {
        const match_try *other = match_search_other(s, row, value);
        if (value == best->choice.of[row] || !was_tried(s, row, value) ||
            (other && other->signature == best->signature))
            continue;
        text_print(stderr, "%s%s", between, values->values[value]);
        if (other && other->error < HUGE_VAL) fprintf(stderr, " (%.2g)", other->error);
        between = ", ";
    }
    fputc('\n', stderr);
}

/* The nearest model, and what else was tried in its place. */
static void print_nearest(const conversion *c, const match_search *s) {
    int row;
    if (!(s->tries[s->chosen].error < HUGE_VAL)) return;
    text_print(stderr,
               "the nearest model%s%.60s is off by %.3g; what else was tried, and how far "
               "off it is in its place:\n",
               count_choices(c) ? " of weights=" : "",
               count_choices(c) ? checkpoint_wrapper(c->checkpoint) : "",
               s->tries[s->chosen].error);
    for (row = 0; row < s->table->count; row++) print_row(s, row);
}

/* What no setting can mend is refused before the search. */
static bool check_pair(const conversion *c, report *r) {
    const match *m = c->match;
    double classes = 0, chans = 0;
    match_patches patches;
    settings_get(c->all, SETTING_NUM_CLASSES, &classes);
    if (settings_origin(c->all, SETTING_IN_CHANS) != FROM_MATCH)
        settings_get(c->all, SETTING_IN_CHANS, &chans);
    if (!match_pair_check(&m->pair, (int)classes, (int)chans, r)) return false;
    if (!m->takes_size || !match_count_patches(c, &patches) ||
        patches.height * patches.width <= patches.positions)
        return true;
    return report_fail(r,
                       "expected an input of at most %d patches, as there are positions, found "
                       "%d x %d pixels, which make %d x %d patches of %d; --img-size %dx%d "
                       "resamples the positions",
                       patches.positions, m->pair.height, m->pair.width, patches.height,
                       patches.width, patches.size, m->pair.height, m->pair.width) ||
           report_file(r, m->pair.input_path);
}

/* "; ..." where the input has fewer patches than there are positions; or "". */
static const char *doubt_size(const conversion *c, char text[160]) {
    match_patches patches;
    text[0] = '\0';
    if (!c->match->takes_size || !match_count_patches(c, &patches)) return text;
    if (patches.height * patches.width + patches.prefix < patches.positions)
        snprintf(text, 160, "; its input makes %d x %d patches, there are positions for %d",
                 patches.height, patches.width, patches.positions - patches.prefix);
    return text;
}

static bool refuse_pair(const conversion *c, match_search *s, report *r) {
    char doubt[160];
    const double error = s->tries[s->chosen].error;
    if (s->runs == 0 && s->first.failed) {
        *r = s->first;
        return false;
    }
    if (!c->options->quiet) print_nearest(c, s);
    return report_fail(r,
                       "none of %d models that were tried in %.0f s gives these logits: the "
                       "nearest is off by %.3g of the largest, %g is accepted%s",
                       s->runs, s->took, error, s->tolerance, doubt_size(c, doubt)) ||
           report_file(r, s->pair->logits_path);
}

/* The others were not tried, or do not fit. */
static void settle_weights(const conversion *c) {
    settled *f = &c->match->settled_rows[c->match->count++];
    memset(f, 0, sizeof *f);
    snprintf(f->value, sizeof f->value, "weights=%.60s, the first of %zu that fits",
             checkpoint_wrapper(c->checkpoint), count_choices(c));
}

static bool run_pair(conversion *c, match_model *model, report *r) {
    match *m = c->match;
    match_search s;
    bool good;
    int row;
    if (!check_pair(c, r)) return false;
    memset(&s, 0, sizeof s);
    m->table.count = 0;
    match_list_architecture(&m->table, c);
    s.table = &m->table;
    s.model = model;
    s.pair = &m->pair;
    s.base = &c->all[FROM_MATCH];
    s.tolerance = c->options->match_tolerance;
    s.seconds = c->options->match_seconds / (double)(count_choices(c) ? count_choices(c) : 1);
    s.quiet = c->options->quiet;
    good = match_search_run(&s, r) || (!r->failed && refuse_pair(c, &s, r));
    if (good) {
        if (count_choices(c)) settle_weights(c);
        for (row = 0; row < m->table.count; row++) list_row(m, &s, row);
        m->error = s.tries[s.chosen].error;
        m->runs = s.runs;
        m->seconds = s.took;
        match_apply(&m->table, &s.tries[s.chosen].choice, &c->all[FROM_MATCH]);
        take_settings(c);
    }
    match_search_free(&s);
    return good;
}

/* === By a folder === */

/* A row whose values make no difference to these pictures is left as it was. */
static void list_verdict(conversion *c, const match_sorting *s, int row) {
    match *m = c->match;
    const match_verdict *verdict = &s->verdicts[row];
    settled *f;
    if (verdict->next < 0) return;
    f = add_settled(m, row, s->chosen.of[row]);
    f->by_folder = true;
    f->is_open = verdict->is_open;
    f->row = row;
    m->verdicts[row] = *verdict;
    add_other(f, m->table.rows[row].values[verdict->next],
              s->loss + verdict->values[verdict->next].more);
    match_apply_row(&m->table.rows[row], s->chosen.of[row], &c->all[FROM_MATCH]);
}

/* Preprocessing first. Pictures cannot tell what makes little difference: that stays as it would be
 * without them. */
static void list_rows(conversion *c) {
    match_table *table = &c->match->table;
    table->count = 0;
    match_list_preprocessing(table, c);
    if (c->match->pair.images == 0) match_list_architecture(table, c);
    while (table->count > 0 && table->rows[table->count - 1].is_fine) table->count--;
}

static void count_pictures(conversion *c, const match_sorting *s) {
    match *m = c->match;
    m->folder = c->options->match_folder;
    m->loss = s->loss;
    m->pictures = s->used;
    m->right = s->right;
    m->folder_runs = s->runs;
    m->folder_seconds = s->took;
}

/* What would be asked without the pictures. */
static bool find_asked(const conversion *c, findings *asked, report *r) {
    const patch_request wanted = { c->options->in_chans, c->options->patch_size };
    settings_resolved model;
    return settings_resolve(c->all, &c->seen, &wanted, &model, asked, r);
}

static bool sort_pictures(conversion *c, match_model *model, const match_pictures *pictures,
                          report *r) {
    findings asked = { 0 };
    match_sorting s;
    bool good;
    int row;
    memset(&s, 0, sizeof s);
    list_rows(c);
    s.table = &c->match->table;
    s.asked = &asked;
    s.model = model;
    s.pictures = pictures;
    s.base = &c->all[FROM_MATCH];
    s.seconds = c->options->match_seconds;
    s.quiet = c->options->quiet;
    good = find_asked(c, &asked, r) && match_sorting_run(&s, r);
    if (good) count_pictures(c, &s);
    for (row = 0; good && row < s.table->count; row++) list_verdict(c, &s, row);
    if (good) take_settings(c);
    match_sorting_free(&s);
    findings_free(&asked);
    return good;
}

static bool run_folder(conversion *c, match_model *model, report *r) {
    double classes = 0;
    match_pictures pictures;
    bool good;
    settings_get(c->all, SETTING_NUM_CLASSES, &classes);
    if (classes < 2)
        return report_fail(r, "--match-folder: expected a model with classes, found one without a "
                              "head");
    good = match_pictures_read(&pictures, c->decoder, c->options->match_folder,
                               c->options->match_max, c->options->match_seconds / 4, &c->labels,
                               (int)classes, r) &&
           sort_pictures(c, model, &pictures, r);
    match_pictures_free(&pictures);
    return good;
}

bool match_run(conversion *c, report *r) {
    const convert_options *o = c->options;
    match_model model;
    bool good;
    if (!c->match) return true;
    good = match_model_open(&model, c, r) && (!o->match_input || run_pair(c, &model, r)) &&
           (!o->match_folder || run_folder(c, &model, r));
    match_model_close(&model);
    return good;
}

/* === Reports === */

/* "a=1 b=2" as options: "--set a=1 --set b=2". */
static void write_options(const char *value, char text[2 * MATCH_TEXT]) {
    size_t length;
    for (*text = '\0'; *value; value += strspn(value, " ")) {
        length = strcspn(value, " ");
        text_append(text, 2 * MATCH_TEXT, "%s--set %.*s", *text ? " " : "", (int)length, value);
        value += length;
    }
}

bool match_assume(const match *m, findings *f) {
    char why[2 * MATCH_TEXT], option[2 * MATCH_TEXT];
    int i;
    for (i = 0; m && i < m->count; i++) {
        const settled *s = &m->settled_rows[i];
        if (!s->is_open) continue;
        snprintf(why, sizeof why,
                 "the labelled pictures do not decide: cross-entropy %.4g, with "
                 "%s %.4g",
                 m->loss, s->next, s->next_score);
        write_options(s->next, option);
        if (!findings_assume(f, s->value, why, option)) return false;
    }
    return true;
}

void match_put_provenance(const match *m, FILE *file) {
    int i;
    if (!m) return;
    if (m->pair.images > 0)
        text_print(file, "match: %s sha256 %s %s sha256 %s error %.2g\n",
                   paths_file_name(m->pair.input_path), m->hashes[0],
                   paths_file_name(m->pair.logits_path), m->hashes[1], m->error);
    if (m->folder)
        text_print(file, "match: %s %d pictures, %d right, cross-entropy %.4g\n",
                   paths_file_name(m->folder), m->pictures, m->right, m->loss);
    for (i = 0; i < m->count; i++) {
        const settled *f = &m->settled_rows[i];
        if (f->is_open) continue; /* and in the file as such */
        text_print(file, "matched: %s", f->value);
        if (f->equals[0]) text_print(file, " (%s fits equally)", f->equals);
        fputc('\n', file);
    }
}

static void print_settled(const settled *f) {
    text_print(stdout, "%-15s %s", "", f->value);
    if (f->next[0]) text_print(stdout, "; next: %s, error %.2g", f->next, f->next_score);
    if (f->equals[0]) text_print(stdout, "; fits equally: %s", f->equals);
    putchar('\n');
}

/* The values of a row that were tried, beside the chosen one. */
static void print_tried(const match *m, const settled *f) {
    const match_row *row = &m->table.rows[f->row];
    int value;
    text_print(stdout, "%-15s %s%s\n", "", f->value,
               f->is_open ? ", assumed: the pictures do not decide" : "");
    for (value = 0; value < row->count; value++) {
        const match_difference *d = &m->verdicts[f->row].values[value];
        if (d->pictures > 0)
            text_print(stdout, "%-15s   %+.3f +- %.3f on %d pictures: %s\n", "", d->more, d->error,
                       d->pictures, row->values[value]);
    }
}

void match_report_text(const match *m) {
    int i;
    if (!m) return;
    if (m->pair.images > 0)
        printf("%-15s error %.2g, the best of %d models in %.1f s\n", "match", m->error, m->runs,
               m->seconds);
    for (i = 0; i < m->count; i++)
        if (!m->settled_rows[i].by_folder) print_settled(&m->settled_rows[i]);
    if (m->folder)
        printf("%-15s cross-entropy %.4g, %d of %d pictures right, the best of %d in %.1f s\n",
               "match", m->loss, m->right, m->pictures, m->folder_runs, m->folder_seconds);
    for (i = 0; i < m->count; i++)
        if (m->settled_rows[i].by_folder) print_tried(m, &m->settled_rows[i]);
}

static void put_tried(json_writer *w, const match *m, const settled *f) {
    const match_row *row = &m->table.rows[f->row];
    int value;
    json_put_begin(w, "tried", '[');
    for (value = 0; value < row->count; value++) {
        const match_difference *d = &m->verdicts[f->row].values[value];
        if (d->pictures == 0) continue;
        json_put_begin(w, NULL, '{');
        json_put_text(w, "value", row->values[value]);
        json_put_number(w, "more_cross_entropy", d->more, 4);
        json_put_number(w, "standard_error", d->error, 4);
        json_put_integer(w, "pictures", d->pictures);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

static void put_settled(json_writer *w, const match *m, const settled *f) {
    json_put_begin(w, NULL, '{');
    json_put_text(w, "value", f->value);
    json_put_text(w, "by", f->by_folder ? "folder" : "pair");
    json_put_text(w, "next", f->next[0] ? f->next : NULL);
    json_put_number(w, f->by_folder ? "next_cross_entropy" : "next_error", f->next_score, 4);
    if (f->by_folder) put_tried(w, m, f);
    else json_put_text(w, "fits_equally", f->equals[0] ? f->equals : NULL);
    json_put_end(w, '}');
}

void match_report_json(const match *m, json_writer *w) {
    int i;
    if (!m) return;
    json_put_begin(w, "match", '{');
    if (m->pair.images > 0) {
        json_put_number(w, "error", m->error, 4);
        json_put_integer(w, "tried", m->runs);
        json_put_number(w, "seconds", m->seconds, 4);
    }
    if (m->folder) {
        json_put_number(w, "cross_entropy", m->loss, 6);
        json_put_integer(w, "pictures", m->pictures);
        json_put_integer(w, "right", m->right);
        json_put_integer(w, "folder_tried", m->folder_runs);
        json_put_number(w, "folder_seconds", m->folder_seconds, 4);
    }
    json_put_begin(w, "settled", '[');
    for (i = 0; i < m->count; i++) put_settled(w, m, &m->settled_rows[i]);
    json_put_end(w, ']');
    json_put_end(w, '}');
}
