#define _POSIX_C_SOURCE 200809L

#include "convert/match.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "base/sha256.h"
#include "base/text.h"
#include "convert/match_folder.h"
#include "convert/match_search.h"
#include "layout/inspect.h"

/* One row of a table, settled. */
typedef struct settled {
    char value[MATCH_TEXT];
    char next[MATCH_TEXT];     /* the nearest other value that was tried; "": none was */
    double next_score;         /* its error, or its cross-entropy */
    char equals[256];          /* values that fit as well */
    bool by_folder;
} settled;

struct match {
    match_pair pair;
    char hashes[2][65];        /* of its files */
    match_table table;         /* the one in use */
    settled settled_rows[1 + 2 * MATCH_MAX_ROWS];
    int count;
    double error, seconds, folder_seconds, loss;
    int runs, folder_runs, pictures, right;
    const char *folder;        /* NULL: none was used */
};

/* === Before the tensors are inspected === */

static bool hash_files(match *m, report *r)
{
    const char *const paths[] = { m->pair.input_path, m->pair.logits_path };
    int i;
    for (i = 0; i < 2; i++)
        if (!sha256_file(paths[i], m->hashes[i], NULL, NULL))
            return report_fail(r, "cannot be read: %s", strerror(errno)) ||
                   report_file(r, paths[i]);
    return true;
}

/* The input's size is what --img-size would say. */
static void take_size(conversion *c)
{
    const match_pair *pair = &c->match->pair;
    if (settings_origin(c->all, SETTING_IMG_HEIGHT) >= 0) return;
    settings_put(&c->all[FROM_OPTIONS], SETTING_IMG_HEIGHT, pair->height);
    settings_put(&c->all[FROM_OPTIONS], SETTING_IMG_WIDTH, pair->width);
}

/* The orders that the layout has itself. One that it does not know is read from the weights. */
static void take_orders(conversion *c)
{
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

bool match_prepare(conversion *c, report *r)
{
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

void match_free(match *m)
{
    if (!m) return;
    match_pair_free(&m->pair);
    free(m);
}

/* === What was found === */

static settled *add_settled(match *m, int row, int value)
{
    settled *f = &m->settled_rows[m->count++];
    memset(f, 0, sizeof *f);
    f->next_score = HUGE_VAL;
    memcpy(f->value, m->table.rows[row].values[value], sizeof f->value);
    return f;
}

static void add_equal(settled *f, const char *value)
{
    static const char others[] = ", and others";
    const size_t used = strlen(f->equals), size = used + strlen(value) + sizeof others + 2;
    if (used > 0 && strstr(f->equals, others)) return;
    text_append(f->equals, sizeof f->equals, "%s%s", used ? ", " : "",
                size < sizeof f->equals ? value : others + 2);
}

static void add_other(settled *f, const char *value, double score)
{
    if (f->next[0] && !(score < f->next_score)) return;
    memcpy(f->next, value, sizeof f->next);
    f->next_score = score;
}

/* A row that left nothing to choose is not worth a word. */
static void list_row(match *m, const match_search *s, int row)
{
    const match_row *values = &m->table.rows[row];
    const match_try *chosen = &s->tries[s->chosen];
    settled *f = add_settled(m, row, chosen->choice.of[row]);
    int value;
    for (value = 0; value < values->count; value++) {
        const match_try *other = match_search_other(s, row, value);
        if (!other || other->signature == chosen->signature || !(other->error < HUGE_VAL))
            continue;
        if (match_search_is_equal(s, other)) add_equal(f, values->values[value]);
        else add_other(f, values->values[value], other->error);
    }
    if (!f->next[0] && !f->equals[0]) m->count--;
}

/* From here on they are told: nothing of them is assumed or asked. */
static void take_settings(conversion *c, const match_choice *choice)
{
    settings *s = &c->all[FROM_MATCH];
    int key;
    match_apply(&c->match->table, choice, s);
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
static size_t count_choices(const conversion *c)
{
    return c->options->weights ? 0 : checkpoint_choice_count(c->checkpoint);
}

/* All values that were open, as one could try them again. */
static void print_values(const match_table *table)
{
    int row, value;
    for (row = 0; row < table->count; row++) {
        fprintf(stderr, "  %-16s", table->rows[row].name);
        for (value = 0; value < table->rows[row].count; value++)
            fprintf(stderr, "%s %s", value ? "," : "", table->rows[row].values[value]);
        fputc('\n', stderr);
    }
}

static int compare_tries(const void *a, const void *b)
{
    const match_try *x = a, *y = b;
    if (x->error != y->error) return x->error < y->error ? -1 : 1;
    return (x->unlikely > y->unlikely) - (x->unlikely < y->unlikely);
}

/* What was open, and what came nearest. */
static void print_nearest(const conversion *c, const match_table *table, match_search *s)
{
    size_t i;
    int row;
    if (count_choices(c)) fprintf(stderr, "weights=%.60s, ", checkpoint_wrapper(c->checkpoint));
    fprintf(stderr, "tried:\n");
    print_values(table);
    qsort(s->tries, s->count, sizeof *s->tries, compare_tries);
    fprintf(stderr, "nearest:\n");
    for (i = 0; i < s->count && i < 5 && s->tries[i].error < HUGE_VAL; i++) {
        fprintf(stderr, "  %-9.3g", s->tries[i].error);
        for (row = 0; row < table->count; row++)
            fprintf(stderr, " %s", table->rows[row].values[s->tries[i].choice.of[row]]);
        fputc('\n', stderr);
    }
}

static bool refuse_pair(const conversion *c, match_search *s, report *r)
{
    const double error = s->tries[s->chosen].error;
    if (s->runs == 0 && s->first.failed) {
        *r = s->first;
        return false;
    }
    if (!c->options->quiet) print_nearest(c, s->table, s);
    return report_fail(r, "none of %d models that were tried in %.0f s gives these logits: the "
                       "nearest is off by %.3g of the largest, %g is accepted", s->runs, s->took,
                       error, s->tolerance) ||
           report_file(r, s->pair->logits_path);
}

/* The others were not tried, or do not fit. */
static void settle_weights(const conversion *c)
{
    settled *f = &c->match->settled_rows[c->match->count++];
    memset(f, 0, sizeof *f);
    snprintf(f->value, sizeof f->value, "weights=%.60s, the first of %zu that fits",
             checkpoint_wrapper(c->checkpoint), count_choices(c));
}

static bool run_pair(conversion *c, match_model *model, report *r)
{
    match *m = c->match;
    match_search s;
    bool good;
    int row;
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
        take_settings(c, &s.tries[s.chosen].choice);
    }
    match_search_free(&s);
    return good;
}

/* === By a folder === */

static void list_verdict(match *m, const match_sorting *s, int row)
{
    const match_verdict *verdict = &s->verdicts[row];
    const char *next;
    settled *f;
    if (verdict->next < 0) return;
    next = m->table.rows[row].values[verdict->next];
    f = add_settled(m, row, s->chosen.of[row]);
    f->by_folder = true;
    add_other(f, next, verdict->next_loss);
    if (verdict->is_open) memcpy(f->equals, f->next, sizeof f->next);
}

/* Pictures cannot tell what makes little difference: that stays as it would be without them. */
static bool sort_pictures(conversion *c, match_model *model, const match_pictures *pictures,
                          report *r)
{
    match *m = c->match;
    match_sorting s;
    bool good;
    int row;
    memset(&s, 0, sizeof s);
    m->table.count = 0;
    if (m->pair.images == 0) match_list_architecture(&m->table, c);
    while (m->table.count > 0 && m->table.rows[m->table.count - 1].is_fine) m->table.count--;
    match_list_preprocessing(&m->table, c);
    s.table = &m->table;
    s.model = model;
    s.pictures = pictures;
    s.base = &c->all[FROM_MATCH];
    s.seconds = c->options->match_seconds;
    s.quiet = c->options->quiet;
    good = match_sorting_run(&s, r);
    for (row = 0; good && row < m->table.count; row++) list_verdict(m, &s, row);
    m->folder = c->options->match_folder;
    m->loss = s.loss;
    m->pictures = s.used;
    m->right = s.right;
    m->folder_runs = s.runs;
    m->folder_seconds = s.took;
    if (good) take_settings(c, &s.chosen);
    match_sorting_free(&s);
    return good;
}

static bool run_folder(conversion *c, match_model *model, report *r)
{
    double classes = 0;
    match_pictures pictures;
    bool good;
    settings_get(c->all, SETTING_NUM_CLASSES, &classes);
    if (classes < 2)
        return report_fail(r, "--match-folder: expected a model with classes, found one without a "
                           "head");
    good = match_pictures_read(&pictures, c->options->match_folder, c->options->match_max,
                               &c->labels, (int)classes, r) &&
           sort_pictures(c, model, &pictures, r);
    match_pictures_free(&pictures);
    return good;
}

bool match_run(conversion *c, report *r)
{
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

static bool is_assumed(const settled *f)
{
    return f->by_folder && f->equals[0];
}

bool match_assume(const match *m, findings *f)
{
    char why[2 * MATCH_TEXT], option[MATCH_TEXT + 16];
    int i;
    for (i = 0; m && i < m->count; i++) {
        const settled *s = &m->settled_rows[i];
        if (!is_assumed(s)) continue;
        snprintf(why, sizeof why, "on the labelled pictures %s is not clearly worse", s->next);
        snprintf(option, sizeof option, "--set %s", s->next);
        if (!findings_assume(f, s->value, why, option)) return false;
    }
    return true;
}

void match_put_provenance(const match *m, FILE *file)
{
    int i;
    if (!m) return;
    if (m->pair.images > 0)
        fprintf(file, "match: %s sha256 %s %s sha256 %s error %.2g\n",
                paths_file_name(m->pair.input_path), m->hashes[0],
                paths_file_name(m->pair.logits_path), m->hashes[1], m->error);
    if (m->folder)
        fprintf(file, "match: %s %d pictures, %d right, cross-entropy %.4g\n",
                paths_file_name(m->folder), m->pictures, m->right, m->loss);
    for (i = 0; i < m->count; i++) {
        const settled *f = &m->settled_rows[i];
        if (is_assumed(f)) continue;   /* and in the file as such */
        fprintf(file, "matched: %s", f->value);
        if (f->equals[0]) fprintf(file, " (%s fits equally)", f->equals);
        fputc('\n', file);
    }
}

static void print_settled(const settled *f)
{
    printf("%-15s %s", "", f->value);
    if (f->next[0] && !is_assumed(f))
        printf("; next: %s, %s %.2g", f->next, f->by_folder ? "cross-entropy" : "error",
               f->next_score);
    if (is_assumed(f))
        printf(", assumed: %s, cross-entropy %.4g, is not clearly worse", f->next, f->next_score);
    else if (f->equals[0])
        printf("; fits equally: %s", f->equals);
    putchar('\n');
}

void match_report_text(const match *m)
{
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
        if (m->settled_rows[i].by_folder) print_settled(&m->settled_rows[i]);
}

static void put_settled(json_writer *w, const settled *f)
{
    json_put_begin(w, NULL, '{');
    json_put_text(w, "value", f->value);
    json_put_text(w, "by", f->by_folder ? "folder" : "pair");
    json_put_text(w, "next", f->next[0] ? f->next : NULL);
    json_put_number(w, f->by_folder ? "next_cross_entropy" : "next_error", f->next_score, 4);
    json_put_text(w, "fits_equally", f->equals[0] ? f->equals : NULL);
    json_put_end(w, '}');
}

void match_report_json(const match *m, json_writer *w)
{
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
    for (i = 0; i < m->count; i++) put_settled(w, &m->settled_rows[i]);
    json_put_end(w, ']');
    json_put_end(w, '}');
}
