#define _POSIX_C_SOURCE 200809L

#include "convert/match.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/source.h"
#include "base/text.h"
#include "layout/detect.h"

/* The result of the search for one row of the table of open settings (match.h). In this file, the
 * pair is the input and the output of the original model that --match-input and --match-logits
 * name. The folder is the folder of labelled pictures that --match-folder names. */
typedef struct settled {
    char value[MATCH_TEXT];
    /* The value that fits best among the others, without those in `equals`; "" if none is left. */
    char next[MATCH_TEXT];
    /* The error of `next` for a pair, or its cross-entropy for labelled pictures. */
    double next_score;
    /* The other values that fit about as well as the chosen value. */
    char equals[256];
    /* by_folder: the search with labelled pictures gave this result. is_open: the pictures do not
     * decide the row, so the user must decide. */
    bool by_folder, is_open;
    /* The index of the row in the table, if by_folder is true. */
    int row;
} settled;

struct match {
    const convert_options *options;
    match_pair pair;
    /* The SHA-256 hashes of the pair's two files, as hexadecimal text. */
    char hashes[2][65];
    /* The table of open settings that is being searched. */
    match_table table;
    /* The verdict of the labelled pictures on each row. */
    match_verdict verdicts[MATCH_MAX_ROWS];
    settled settled_rows[1 + 2 * MATCH_MAX_ROWS];
    int count;
    /* True if the model's input size comes from the input of the pair. */
    bool takes_size;
    /* The last step of the original model, such as a softmax. The .vit file's outputs are those
     * before this step. */
    model_end end;
    /* True if the output in the pair is the embedding that the head reads. */
    bool by_embedding;
    double error, seconds, folder_seconds, loss;
    int runs, folder_runs, pictures, right;
    /* The path of the folder of labelled pictures; NULL if no folder was used. */
    const char *folder;
};

/* Without --match-seconds, every search ends after MOST_SECONDS seconds. The search with a pair
 * also ends after PATIENCE seconds, once it has run enough models. */
enum { PATIENCE = 5, MOST_SECONDS = 120 };

static double seconds_of(const convert_options *o) {
    return o->match_seconds > 0 ? o->match_seconds : MOST_SECONDS;
}

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

/* If no source gives the input size, uses that of the pair as if --img-size had given it. */
static void take_size(match *m, settings all[FROM_COUNT]) {
    if (settings_origin(all, SETTING_IMG_HEIGHT) >= 0) return;
    m->takes_size = true;
    settings_put(&all[FROM_OPTIONS], SETTING_IMG_HEIGHT, m->pair.height);
    settings_put(&all[FROM_OPTIONS], SETTING_IMG_WIDTH, m->pair.width);
}

/* Takes two orders from the layout: the order of a patch's pixels and the order of q, k and v.
 * Other orders are read from the weights. */
static void take_orders(const match *m, const layout_map *map, settings *s) {
    layout_part part;
    const char *axes;
    if (layout_peek(map, "patch_embed.proj.weight", 0, &part, &axes) && axes && strchr(axes, '(')) {
        if (!strstr(axes, "(patch)"))
            settings_put(s, SETTING_PATCH_ORDER,
                         strstr(axes, "(pqc)") ? PATCH_ORDER_HWC : PATCH_ORDER_CHW);
        if (m->pair.images > 0 && !m->options->in_chans)
            settings_put(s, SETTING_IN_CHANS, m->pair.chans);
    }
    if (layout_peek(map, "blocks.0.attn.qkv.weight", 0, &part, &axes) && axes &&
        !strncmp(axes, "(hkz)", 5))
        settings_put(s, SETTING_QKV_INTERLEAVE, QKV_INTERLEAVE_PER_VALUE);
}

bool match_prepare(const convert_options *o, facts *f, match **m, report *r) {
    settings_start(&f->all[FROM_MATCH], "--match-input");
    if (!o->match_input && !o->match_folder) return true;
    *m = calloc(1, sizeof **m);
    if (!*m) return report_no_memory(r);
    (*m)->options = o;
    if (o->match_input) {
        if (!match_pair_read(&(*m)->pair, o->match_input, o->match_logits, r) || !hash_files(*m, r))
            return false;
        take_size(*m, f->all);
    }
    take_orders(*m, &f->map, &f->all[FROM_MATCH]);
    return true;
}

void match_free(match *m) {
    if (!m) return;
    match_pair_free(&m->pair);
    free(m);
}

/* === The results === */

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

/* Adds the chosen value of row `row` to the results if another value of this row gives a different
 * model that runs. */
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

/* Marks the settings in all[FROM_MATCH] as given by the user, so none of them becomes an assumption
 * or a question. */
static void take_settings(facts *f, findings *found) {
    const settings *s = &f->all[FROM_MATCH];
    int key;
    for (key = 0; key < SETTING_COUNT; key++) {
        if (!s->given[key]) continue;
        f->seen.by_default[key] = false;
        findings_answer(found, setting_rows[key].name);
    }
    if (s->given[SETTING_NUM_HEADS]) memset(&f->seen.heads, 0, sizeof f->seen.heads);
    if (s->given[SETTING_PATCH_ORDER]) f->seen.patch_order_read = false;
    if (s->mean_count > 0) f->seen.mean_by_default = false;
    layout_take_orders(&f->map, f->all);
}

/* === The search with a pair === */

/* Returns the number of state dicts among which the search may choose. Returns 0 if there is no
 * choice. The state dicts share the time limit. */
static size_t count_choices(const match *m, const facts *f) {
    return m->options->weights ? 0 : checkpoint_choice_count(f->map.checkpoint);
}

/* True if at least one model ran with this value. Some values never run: pool=token, for example,
 * requires a class token. */
static bool was_tried(const match_search *s, int row, int value) {
    size_t i = 0;
    while (i < s->count && !(s->tries[i].error < HUGE_VAL && s->tries[i].choice.of[row] == value))
        i++;
    return i < s->count;
}

/* Prints one row. The value whose model is nearest to the original comes first. The other values
 * follow, each with the error of its model. */
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

/* Prints the settings of the model whose output is nearest to the original's, and the
 * alternatives. */
static void print_nearest(const match_search *s, const char *weights) {
    int row;
    if (!(s->tries[s->chosen].error < HUGE_VAL)) return;
    text_print(
        stderr,
        "the nearest model%s%.60s has the error %.3g; the other attempts and their errors:\n",
        *weights ? " of weights=" : "", weights, s->tries[s->chosen].error);
    for (row = 0; row < s->table->count; row++) print_row(s, row);
}

/* Refuses, before the search, an input that no settings can accept. */
static bool check_pair(const match *m, const facts *f, report *r) {
    double classes = 0, chans = 0, embedding = 0;
    match_patches patches;
    settings_get(f->all, SETTING_NUM_CLASSES, &classes);
    if (settings_origin(f->all, SETTING_IN_CHANS) != FROM_MATCH)
        settings_get(f->all, SETTING_IN_CHANS, &chans);
    settings_get(f->all, SETTING_REPRESENTATION_DIM, &embedding);
    if (embedding < 1) settings_get(f->all, SETTING_EMBED_DIM, &embedding);
    if (!match_pair_check(&m->pair, (int)classes, (int)embedding, (int)chans, r)) return false;
    if (!m->takes_size || !match_count_patches(f, &patches) ||
        patches.height * patches.width <= patches.positions)
        return true;
    return report_fail(
               r,
               "the model has positions for at most %d patches, but an input of %d x %d pixels "
               "makes %d x %d patches of %d; --img-size %dx%d resamples the positions",
               patches.positions, m->pair.height, m->pair.width, patches.height, patches.width,
               patches.size, m->pair.height, m->pair.width) ||
           report_file(r, m->pair.input_path);
}

enum { REASON_SIZE = 200 };

/* If the input has fewer patches than the model has positions, writes a message into `text`.
 * Otherwise `text` becomes "". Returns `text`. */
static const char *doubt_size(const match *m, const facts *f, char text[REASON_SIZE]) {
    match_patches patches;
    text[0] = '\0';
    if (!m->takes_size || !match_count_patches(f, &patches)) return text;
    if (patches.height * patches.width + patches.prefix < patches.positions)
        snprintf(text, REASON_SIZE,
                 "the input makes %d x %d patches, but the model has positions for %d patches",
                 patches.height, patches.width, patches.positions - patches.prefix);
    return text;
}

/* Returns the largest absolute value of the input. The result shows whether the input holds 8-bit
 * pixels, which reach 255. */
static double most_of_input(const match_pair *p) {
    double most = 0;
    size_t i;
    for (i = 0; i < p->input.count; i++) most = fmax(most, fabs((double)p->input.data[i]));
    return most;
}

/* Returns the likeliest reason why no settings give the original's output. Errors below by_rounding
 * usually come from rounding to 16 bits. Errors below by_dropout usually come from dropout. */
static const char *reason_of(const match *m, const facts *f, const match_search *s,
                             char text[REASON_SIZE]) {
    const double by_rounding = 0.01, by_dropout = 0.3, no_pixel = 20;
    const double most = most_of_input(&m->pair), error = s->tries[s->chosen].error;
    if (doubt_size(m, f, text)[0]) return text;
    if (most > no_pixel) {
        snprintf(text, REASON_SIZE,
                 "the input has values up to %.3g, so the program probably normalises it: save the "
                 "tensor that the transformer receives",
                 most);
        return text;
    }
    if (error < by_rounding) {
        snprintf(text, REASON_SIZE,
                 "the original probably computes in 16 bits: save the output of model.float(), or "
                 "accept the difference with --match-tolerance %.1g",
                 2 * error);
        return text;
    }
    return s->tries[0].error < by_dropout
               ? "the weights are probably right, but the model was in training mode or received "
                 "another input: call model.eval(), and save input and output in one run"
               : "the output is probably not of these weights and this input: load the "
                 "checkpoint, call model.eval(), and save input and output in one run";
}

static bool refuse_pair(const match *m, const facts *f, const match_search *s, report *r) {
    char reason[REASON_SIZE];
    const bool is_long = m->options->match_seconds > 0;
    if (s->runs == 0 && s->first.failed) {
        *r = s->first;
        return false;
    }
    if (!s->quiet && is_long)
        print_nearest(s, count_choices(m, f) ? checkpoint_wrapper(f->map.checkpoint) : "");
    return report_fail(
               r,
               "%s; none of the %d models tried in %.0f s gives the output in this file; the "
               "nearest model's output differs by %.3g of the file's largest number, but at most "
               "%g is accepted%s",
               reason_of(m, f, s, reason), s->runs, s->took, s->tries[s->chosen].error,
               s->tolerance,
               is_long ? "" : "; --match-seconds S searches longer and lists the attempts") ||
           report_file(r, s->pair->logits_path);
}

/* Records which state dict was chosen. The other state dicts were not tried or do not fit. */
static void settle_weights(match *m, const facts *f) {
    settled *row = &m->settled_rows[m->count++];
    memset(row, 0, sizeof *row);
    snprintf(row->value, sizeof row->value, "weights=%.60s, the first of %zu state dicts that fits",
             checkpoint_wrapper(f->map.checkpoint), count_choices(m, f));
}

static bool run_pair(match *m, facts *f, match_model *model, report *r) {
    const size_t choices = count_choices(m, f);
    double classes = 0;
    match_search s;
    bool good;
    int row;
    if (!check_pair(m, f, r)) return false;
    settings_get(f->all, SETTING_NUM_CLASSES, &classes);
    m->by_embedding = classes > 0 && (size_t)classes != m->pair.outputs;
    model->gives_embedding = m->by_embedding;
    memset(&s, 0, sizeof s);
    m->table.count = 0;
    match_list_architecture(&m->table, f);
    s.table = &m->table;
    s.model = model;
    s.pair = &m->pair;
    s.base = &f->all[FROM_MATCH];
    s.tolerance = m->options->match_tolerance;
    s.seconds = seconds_of(m->options) / (double)(choices ? choices : 1);
    s.patience = m->options->match_seconds > 0 ? 0 : PATIENCE / (double)(choices ? choices : 1);
    s.quiet = m->options->quiet;
    good = match_search_run(&s, r) || (!r->failed && refuse_pair(m, f, &s, r));
    if (good) {
        if (choices) settle_weights(m, f);
        for (row = 0; row < m->table.count; row++) list_row(m, &s, row);
        m->error = s.tries[s.chosen].error;
        m->end = m->pair.readings[s.tries[s.chosen].reading];
        if (m->end == MODEL_END_SIGMOID && (size_t)classes == m->pair.outputs)
            settings_put(&f->all[FROM_MATCH], SETTING_HEAD_ACTIVATION, VIT_HEAD_SIGMOID);
        m->runs = s.runs;
        m->seconds = s.took;
        match_apply(&m->table, &s.tries[s.chosen].choice, &f->all[FROM_MATCH]);
    }
    match_search_free(&s);
    return good;
}

/* === The search with labelled pictures === */

/* Adds the verdict on a row to the results. Leaves the verdict out if all values of the row give
 * the same results on these pictures. */
static void list_verdict(match *m, const match_sorting *s, int row, settings *to) {
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
    match_apply_row(&m->table.rows[row], s->chosen.of[row], to);
}

/* Fills the table with the rows that pictures can decide, preprocessing first. Settings with little
 * effect are left out and keep their defaults, because pictures cannot decide them. */
static void list_rows(match *m, const facts *f) {
    match_table *table = &m->table;
    table->count = 0;
    match_list_preprocessing(table, f);
    if (m->pair.images == 0) match_list_architecture(table, f);
    while (table->count > 0 && table->rows[table->count - 1].is_fine) table->count--;
}

static void count_pictures(match *m, const match_sorting *s) {
    m->folder = m->options->match_folder;
    m->loss = s->loss;
    m->pictures = s->used;
    m->right = s->right;
    m->folder_runs = s->runs;
    m->folder_seconds = s->took;
}

static bool sort_pictures(match *m, facts *f, match_model *model, const match_pictures *pictures,
                          report *r) {
    /* the settings that would become assumptions or questions without the pictures */
    findings asked = { 0 };
    settings_resolved ignored;
    match_sorting s;
    bool good;
    int row;
    memset(&s, 0, sizeof s);
    list_rows(m, f);
    s.table = &m->table;
    s.asked = &asked;
    s.model = model;
    s.pictures = pictures;
    s.base = &f->all[FROM_MATCH];
    s.seconds = seconds_of(m->options);
    s.quiet = m->options->quiet;
    good = settings_resolve(f->all, &f->seen, &f->wanted, &ignored, &asked, r) &&
           match_sorting_run(&s, r);
    if (good) count_pictures(m, &s);
    for (row = 0; good && row < s.table->count; row++)
        list_verdict(m, &s, row, &f->all[FROM_MATCH]);
    match_sorting_free(&s);
    findings_free(&asked);
    return good;
}

static bool run_folder(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
                       match_model *model, report *r) {
    const convert_options *o = m->options;
    double classes = 0;
    match_pictures pictures;
    bool good;
    settings_get(f->all, SETTING_NUM_CLASSES, &classes);
    if (classes < 2)
        return report_fail(r, "--match-folder: expected a model with classes, found one without a "
                              "head");
    good = match_pictures_read(&pictures, decoder, o->match_folder, o->match_max, seconds_of(o) / 4,
                               labels, (int)classes, r) &&
           sort_pictures(m, f, model, &pictures, r);
    match_pictures_free(&pictures);
    return good;
}

bool match_run(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
               findings *found, report *r) {
    match_model model;
    bool good = match_model_open(&model, m->options, f, r);
    if (good && m->options->match_input) {
        good = run_pair(m, f, &model, r);
        if (good) take_settings(f, found);
    }
    if (good && m->options->match_folder) {
        good = run_folder(m, f, decoder, labels, &model, r);
        if (good) take_settings(f, found);
    }
    match_model_close(&model);
    return good;
}

/* === Effects of assumptions === */

/* MEASURED_VALUES is the number of values that are tried for each assumption besides the assumed
 * value. most_work is the largest number of multiplications that all runs together may take. This
 * many multiplications take about a tenth of a second, or a second in a web page. */
enum { MEASURED_VALUES = 3 };
static const double most_work = 3e9;

typedef struct effects {
    match_model model;
    match_table table;
    settings base;
    /* The signature of the model with the settings of the conversion. */
    uint64_t usual;
    size_t inputs, outputs;
    /* The input, and a copy of the same picture that is normalised with another mean and std. */
    float *noise, *input;
    /* The outputs with the settings of the conversion and with other settings. */
    float *before, *after;
    /* Failed if memory is exhausted or the weights cannot be read. */
    report failure;
} effects;

static double work_of(const vit_config *c) {
    const double stem = c->stem ? most_work : 0; /* A model with a stem is too large. */
    const double width = c->embed_dim, tokens = c->num_tokens, depth = c->depth;
    const double attention = 4.0 * c->num_heads * c->head_dim * (width + tokens / 2);
    const double pixels = (double)c->in_chans * c->patch_size * c->patch_size;
    return stem + tokens * (depth * (attention + (c->has_gated_mlp ? 3 : 2) * width * c->mlp_dim) +
                            width * pixels);
}

/* Returns the distance between the two outputs, relative to the length of e->before. Returns a
 * negative number if the distance is not finite. */
static double distance(const effects *e) {
    double far = 0, size = 0;
    size_t i;
    for (i = 0; i < e->outputs; i++) {
        const double d = (double)e->after[i] - (double)e->before[i];
        far += d * d;
        size += (double)e->before[i] * (double)e->before[i];
    }
    return size > 0 && isfinite(far / size) ? sqrt(far / size) : -1;
}

/* True if the failure concerns memory or the checkpoint itself. False if the only failure is that a
 * combination of settings gives no model. */
static bool is_of_file(const convert_options *o, const report *r) {
    return r->no_memory || !strncmp(r->text, o->checkpoint, strlen(o->checkpoint));
}

/* Returns the effect of other settings on the output. Returns a negative number if these settings
 * give no model that takes the same input and gives as many outputs. */
static double effect_of(effects *e, const settings *other) {
    report r = report_make();
    const bool is_model = match_model_set(&e->model, other, &r);
    if (is_model && e->model.signature == e->usual) return 0;
    if (is_model && match_model_load(&e->model, &r) && e->model.output_size == e->outputs &&
        match_model_run(&e->model, e->noise, e->after, &r))
        return distance(e);
    if (is_of_file(e->model.options, &r)) e->failure = r;
    return -1;
}

/* Returns the row whose keys include this setting. Returns NULL if there is none. */
static const match_row *find_row(const match_table *table, const char *key, size_t length) {
    const char *at;
    int i;
    for (i = 0; i < table->count; i++)
        for (at = table->rows[i].keys; *at; at += strcspn(at, " "), at += strspn(at, " "))
            if (strcspn(at, " ") == length && !strncmp(at, key, length)) return &table->rows[i];
    return NULL;
}

/* True if this value of the row changes the assumed setting. `what` is the assumption, such as
 * "attn_root=head_dim", and `key` is the length of its key. A value that does not mention the
 * setting changes it only if the setting is the row's first key. Thus "attn_scale=1" replaces
 * attn_root, but "pool=token" leaves pool_prefix unchanged. */
static bool is_other(const match_row *row, const char *value, const char *what, size_t key) {
    bool is_changed = strcspn(row->keys, " ") == key && !strncmp(row->keys, what, key);
    for (; *value; value += strcspn(value, " "), value += strspn(value, " ")) {
        if (strncmp(value, what, key + 1) != 0) continue;
        if (strcspn(value, " ") == strlen(what) && !strncmp(value, what, strlen(what)))
            return false;
        is_changed = true;
    }
    return is_changed;
}

/* Finds which of the likely other values of an assumed setting changes the output most. Records
 * this value and its effect. */
static bool measure_setting(effects *e, findings *found, size_t assumed) {
    const char *what = found->assumed.items[assumed].what, *other = NULL;
    const size_t key = strcspn(what, "=");
    const match_row *row = find_row(&e->table, what, key);
    double most = -1;
    int value, tried = 0;
    for (value = 0; row && value < row->count && tried < MEASURED_VALUES; value++) {
        settings s = e->base;
        double effect;
        if (!is_other(row, row->values[value], what, key)) continue;
        match_apply_row(row, value, &s);
        effect = effect_of(e, &s);
        tried += effect >= 0;
        if (!(effect > most)) continue;
        most = effect;
        other = row->values[value];
    }
    if (!other) return true;
    if (!strncmp(other, what, key + 1) && !strchr(other, ' ')) other += key + 1;
    return findings_measure(found, assumed, other, most);
}

/* Returns the mean or the deviation of channel i. If there is only one value, it is used for all
 * channels. */
static double colour(const double *values, int count, int i) { return values[count > 1 ? i : 0]; }

/* Normalises the picture of e->noise with another mean and std. Returns false if one of them has
 * several values, but fewer than the model has channels. */
static bool recolour(effects *e, const vit_config *c, const settings *s) {
    const size_t plane = e->inputs / (size_t)c->in_chans;
    size_t k;
    int i;
    for (i = 0; i < c->in_chans; i++) {
        const size_t at = (size_t)i * plane;
        if ((s->mean_count > 1 && s->mean_count <= i) || (s->std_count > 1 && s->std_count <= i))
            return false;
        for (k = at; k < at + plane; k++)
            e->input[k] = (float)(((double)e->noise[k] * (double)c->std[i] + (double)c->mean[i] -
                                   colour(s->mean, s->mean_count, i)) /
                                  colour(s->std, s->std_count, i));
    }
    return true;
}

static double effect_of_colours(effects *e, const vit_config *c, const settings *s) {
    report r = report_make();
    if (s->mean_count < 1 || s->std_count < 1 || !recolour(e, c, s) ||
        !match_model_run(&e->model, e->input, e->after, &r))
        return -1;
    return distance(e);
}

/* Measures the effect of other values of mean and std. The model must be loaded with the settings
 * of the conversion. */
static bool measure_colours(effects *e, const facts *f, const vit_config *c, findings *found,
                            size_t assumed) {
    const char *other = NULL;
    const match_row *row;
    double most = -1;
    int value, tried = 0;
    e->table.count = 0;
    match_list_preprocessing(&e->table, f);
    row = e->table.count > 0 && !strcmp(e->table.rows[0].name, "mean") ? &e->table.rows[0] : NULL;
    for (value = 0; row && value < row->count && tried < MEASURED_VALUES; value++) {
        settings s;
        double effect;
        settings_start(&s, "");
        match_apply_row(row, value, &s);
        effect = effect_of_colours(e, c, &s);
        tried += effect > 0;
        if (!(effect > most)) continue;
        most = effect;
        other = row->values[value];
    }
    return !other || findings_measure(found, assumed, other, most);
}

/* Copies the orders that the weights showed from the map into the settings. Otherwise
 * match_model_set would replace these orders by those of the settings. */
static void keep_orders(const layout_map *map, settings *s) {
    if (map->patch_order) settings_put(s, SETTING_PATCH_ORDER, map->patch_order - 1);
    if (map->qkv_interleave) settings_put(s, SETTING_QKV_INTERLEAVE, map->qkv_interleave - 1);
    settings_put(s, SETTING_QKV_ORDER, map->qkv_order);
}

static bool open_effects(effects *e, const convert_options *o, const facts *f, const vit_config *c,
                         report *r) {
    if (!match_model_open(&e->model, o, f, r)) return false;
    e->base = f->all[FROM_MATCH];
    keep_orders(&f->map, &e->base);
    if (!match_model_set(&e->model, &e->base, r) || !match_model_load(&e->model, r)) return false;
    e->usual = e->model.signature;
    e->inputs = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    e->outputs = e->model.output_size;
    e->noise = malloc(2 * e->inputs * sizeof *e->noise);
    e->before = malloc(2 * e->outputs * sizeof *e->before);
    if (!e->noise || !e->before) return report_no_memory(r);
    e->input = e->noise + e->inputs;
    e->after = e->before + e->outputs;
    vit_selftest_input(c, e->noise);
    return match_model_run(&e->model, e->noise, e->before, r);
}

static bool measure_all(effects *e, const facts *f, const vit_config *c, findings *found,
                        report *r) {
    bool good = true;
    size_t i;
    for (i = 0; good && i < found->assumed.count; i++)
        if (!strncmp(found->assumed.items[i].what, "mean=", 5))
            good = measure_colours(e, f, c, found, i);
    e->table.count = 0;
    match_list_architecture(&e->table, f);
    for (i = 0; good && i < found->assumed.count; i++) good = measure_setting(e, found, i);
    findings_order(found);
    if (e->failure.failed) *r = e->failure;
    return (good || report_no_memory(r)) && !r->failed;
}

bool match_measure(const convert_options *o, const facts *f, const settings_resolved *model,
                   findings *found, bool *is_too_large, report *r) {
    const double runs = 1 + MEASURED_VALUES * (double)found->assumed.count;
    effects *e;
    bool good;
    *is_too_large = found->assumed.count > 1 && runs * work_of(&model->config) > most_work;
    if (found->assumed.count < 2 || *is_too_large) return true;
    e = calloc(1, sizeof *e);
    if (!e) return report_no_memory(r);
    e->failure = report_make();
    good = open_effects(e, o, f, &model->config, r) && measure_all(e, f, &model->config, found, r);
    if (!good && !r->no_memory && (o->plan || !is_of_file(o, r))) {
        *r = report_make(); /* --plan reads no weights, so it needs no measurement */
        good = true;
    }
    match_model_close(&e->model);
    free(e->noise);
    free(e->before);
    free(e);
    return good;
}

/* === Reports === */

/* Writes settings as options: "a=1 b=2" becomes "--set a=1 --set b=2". */
static void write_options(const char *value, char text[2 * MATCH_TEXT]) {
    size_t length;
    for (*text = '\0'; *value; value += strspn(value, " ")) {
        length = strcspn(value, " ");
        text_append(text, 2 * MATCH_TEXT, "%s--set %.*s", *text ? " " : "", (int)length, value);
        value += length;
    }
}

model_end match_end(const match *m, model_end told) {
    return m && m->pair.images > 0 && !m->by_embedding ? m->end : told;
}

bool match_is_by_embedding(const match *m) { return m && m->by_embedding; }

bool match_assume(const match *m, findings *f) {
    char why[2 * MATCH_TEXT], option[2 * MATCH_TEXT];
    int i;
    for (i = 0; m && i < m->count; i++) {
        const settled *s = &m->settled_rows[i];
        if (!s->is_open) continue;
        snprintf(why, sizeof why,
                 "the labelled pictures do not decide: their cross-entropy is %.4g, and with "
                 "%s it is %.4g",
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
        if (f->is_open) continue; /* match_assume adds an assumption for this row */
        text_print(file, "matched: %s", f->value);
        if (f->equals[0]) text_print(file, " (%s fits equally)", f->equals);
        fputc('\n', file);
    }
}

static void print_settled(const settled *f) {
    text_print(stdout, "%-15s %s", "", f->value);
    if (f->next[0]) text_print(stdout, "; second best: %s, error %.2g", f->next, f->next_score);
    if (f->equals[0]) text_print(stdout, "; fits equally: %s", f->equals);
    putchar('\n');
}

/* Prints the chosen value of a row, and the other values that were tried. */
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
