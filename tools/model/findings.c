#include "model/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* === Subjects === */

/* The subjects of questions and assumptions that are not in SETTING_LIST. */
static const struct {
    const char *name, *option, *type, *means;
    bool with_prefix;
} others[] = {
    { "img_size", "--img-size", "size", "height and width of the input in pixels", false },
    { "mean", "--set", "text", "mean of the colours, one value or one for each channel", true },
    { "std", "--set", "text",
      "standard deviation of the colours, one value or one for each channel", true },
    { "weights", "--weights", "text", "name of one of the state dicts in the file", false },
    { "labels", "--labels", "text", "names of the classes: imagenet, none or a file", false },
    { "architecture", "--arch", "text", "timm's name of the architecture", false },
};

static const char *type_of(setting_kind kind) {
    switch (kind) {
    case SETTING_INTEGER: return "integer";
    case SETTING_NUMBER: return "number";
    case SETTING_FLAG: return "flag";
    case SETTING_WORD: break;
    }
    return "word";
}

bool subject_find(const char *name, size_t length, subject *s) {
    size_t i;
    memset(s, 0, sizeof *s);
    if (length >= sizeof s->name) return false;
    memcpy(s->name, name, length);
    for (i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i].name, s->name) != 0) continue;
        s->option = others[i].option;
        s->type = others[i].type;
        s->means = others[i].means;
        s->with_prefix = others[i].with_prefix;
        return true;
    }
    for (i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(setting_rows[i].name, s->name) != 0) continue;
        s->row = &setting_rows[i];
        s->option = "--set";
        s->type = type_of(s->row->kind);
        s->means = s->row->help;
        s->with_prefix = true;
        return true;
    }
    return false;
}

/* === Evidence of heads === */

#define FROM_WEIGHTS "read from the weights"

static const double least_hint = 3; /* one in ten models with a single head reaches this score */

const char *heads_why(const heads_evidence *evidence, char text[HEADS_TEXT]) {
    const heads_candidate *next = &evidence->ranked[1];
    snprintf(text, HEADS_TEXT, FROM_WEIGHTS " (score %.0f; next best %d: score %.0f)",
             evidence->ranked[0].score, next->heads, next->score);
    return text;
}

static bool has_hint(const heads_evidence *evidence) {
    return evidence->ranked[0].score >= least_hint;
}

const char *heads_doubt(const heads_evidence *evidence) {
    return has_hint(evidence) ? "the weights only hint at it"
                              : "the weights show no heads, perhaps because of a single head or "
                                "little training";
}

static int next_above(const heads_evidence *evidence, int heads) {
    int next = 0, i;
    for (i = 0; i < evidence->count; i++) {
        const int other = evidence->ranked[i].heads;
        if (other > heads && (next == 0 || other < next)) next = other;
    }
    return next;
}

/* Appends the possible numbers of heads in rising order. */
static void append_numbers(const heads_evidence *evidence, char text[HEADS_TEXT]) {
    int heads = next_above(evidence, 0), next;
    const char *between = "";
    for (; heads; heads = next) {
        next = next_above(evidence, heads);
        text_append(text, HEADS_TEXT, "%s%d", between, heads);
        between = next && next_above(evidence, next) ? ", " : " or ";
    }
}

const char *heads_option(const heads_evidence *evidence, char text[HEADS_TEXT]) {
    const heads_candidate *best = evidence->ranked;
    snprintf(text, HEADS_TEXT, "--set num_heads=N");
    if (evidence->count < 2) return text;
    text_append(text, HEADS_TEXT, " (");
    append_numbers(evidence, text);
    if (has_hint(evidence))
        text_append(text, HEADS_TEXT, "; the weights hint at %d: score %.1f, then %d: score %.1f",
                    best[0].heads, best[0].score, best[1].heads, best[1].score);
    text_append(text, HEADS_TEXT, ")");
    return text;
}

/* === Findings === */

enum {
    MAX_FINDINGS = 128,
    ITEM_SIZE = 4096, /* the most bytes in a line; names have up to 1024 letters */
    GIVE_SIZE = 1024, /* the most bytes in the advice at the end of a line */
};

/* === Collecting === */

static char *copy_text(const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static void free_finding(finding *item) {
    free(item->what);
    free(item->why);
    free(item->options);
    free(item->otherwise);
}

static bool add(finding_list *list, const char *what, const char *why, const char *options) {
    finding *item;
    if (list->count == MAX_FINDINGS) {
        list->more++;
        return true;
    }
    if (!list->items) list->items = calloc(MAX_FINDINGS, sizeof *list->items);
    if (!list->items) return false;
    item = &list->items[list->count];
    item->what = copy_text(what);
    item->why = copy_text(why);
    item->options = copy_text(options);
    item->otherwise = NULL;
    item->effect = 0;
    if (item->what && item->why && item->options) {
        list->count++;
        return true;
    }
    free_finding(item);
    return false;
}

/* The harm of an assumption is `wrong` times `effect`. `wrong` estimates how often an assumed value
 * is wrong. `effect` is how far another value moves the output, if this was not measured. Among 21
 * hand-written models, the activation was wrong for eight, and every other setting of the network
 * for at most one. mean and std are wrong for half of all models. The harm falls row by row. */
static const struct {
    const char *name;
    double wrong, effect;
} harms[] = {
    { "num_heads", 0.4, 1 },
    { "head_dim", 0.35, 1 },
    { "mean", 0.5, 0.6 },
    { "preprocessing of", 0.5, 0.55 },
    { "std", 0.5, 0.5 },
    { "weights", 0.2, 1 },
    { "activation", 0.4, 0.15 },
    { "representation_act", 0.4, 0.14 },
    { "attention", 0.05, 1.05 },
    { "block_type", 0.05, 1.04 },
    { "pool", 0.05, 1.03 },
    { "qkv_order", 0.05, 1.02 },
    { "qkv_interleave", 0.05, 1.01 },
    { "patch_order", 0.05, 1 },
    { "patch_cut", 0.05, 0.95 },
    { "in_chans", 0.05, 0.9 },
    { "img_size", 0.05, 0.85 },
    { "patch_stride", 0.05, 0.8 },
    { "", 0.05, 0.75 }, /* all other settings */
    { "labels", 0.05, 0.7 },
    { "has_final_norm", 0.05, 0.65 },
    { "attn_root", 0.05, 0.6 },
    { "positions", 0.05, 0.5 },
    { "pool_prefix", 0.05, 0.4 },
    { "crop_pct", 0.5, 0.03 },
    { "crop_mode", 0.5, 0.02 },
    { "interpolation", 0.5, 0.01 },
    { "norm_eps", 0.4, 0.01 },
    { "blocks as usual", 0.003, 1 },
    { "architecture", 0.002, 1 },
    { "no configuration", 0.001, 1 },
};

static size_t harm_rank(const char *what) {
    const size_t count = sizeof harms / sizeof *harms;
    size_t i, unlisted = 0;
    for (i = 0; i < count; i++) {
        const size_t length = strlen(harms[i].name);
        if (length == 0) unlisted = i;
        else if (!strncmp(what, harms[i].name, length) && strchr("= ", what[length])) return i;
    }
    return unlisted;
}

/* Returns the harm of an assumption. A value that was read from trained weights is almost certain,
 * so its harm is at most the one of std. */
static double harm_of(const finding *item) {
    const size_t rank = harm_rank(item->what), last = harm_rank("std=");
    const bool is_shown = !strncmp(item->why, FROM_WEIGHTS, strlen(FROM_WEIGHTS));
    const double effect = item->otherwise ? fmin(item->effect, 1) : harms[rank].effect;
    if (is_shown && rank < last) return harms[last].wrong * harms[last].effect;
    return harms[rank].wrong * effect;
}

/* If an effect was not measured, the row in `harms` decides. The rows from attn_root to norm_eps
 * are settings that nearly all models share, or that change the output little. */
bool findings_is_minor(const finding *item) {
    const double no_effect = 1e-4;
    const size_t rank = harm_rank(item->what);
    if (item->otherwise) return item->effect < no_effect;
    return rank >= harm_rank("attn_root=") && rank <= harm_rank("norm_eps=");
}

/* Moves the item at `at` up, past all items that do less harm. */
static void move_up(finding *items, size_t at) {
    const finding moved = items[at];
    for (; at > 0 && harm_of(&items[at - 1]) < harm_of(&moved); at--) items[at] = items[at - 1];
    items[at] = moved;
}

bool findings_assume(findings *f, const char *what, const char *why, const char *options) {
    finding_list *list = &f->assumed;
    const size_t before = list->count;
    if (!add(list, what, why, options)) return false;
    if (list->count > before) move_up(list->items, before);
    return true;
}

bool findings_measure(findings *f, size_t assumed, const char *otherwise, double effect) {
    finding *item = &f->assumed.items[assumed];
    free(item->otherwise);
    item->otherwise = copy_text(otherwise);
    item->effect = effect;
    return item->otherwise != NULL;
}

void findings_order(findings *f) {
    size_t i;
    for (i = 1; i < f->assumed.count; i++) move_up(f->assumed.items, i);
}

bool findings_has_asked(const findings *f, const char *what) {
    size_t i;
    for (i = 0; i < f->asked.count; i++)
        if (!strcmp(f->asked.items[i].what, what)) return true;
    return false;
}

bool findings_ask(findings *f, const char *what, const char *why, const char *options) {
    return findings_has_asked(f, what) || add(&f->asked, what, why, options);
}

void findings_answer(findings *f, const char *what) {
    finding_list *list = &f->asked;
    size_t i = 0;
    while (i < list->count && strcmp(list->items[i].what, what) != 0) i++;
    if (i == list->count) return;
    free_finding(&list->items[i]);
    list->count--;
    memmove(list->items + i, list->items + i + 1, (list->count - i) * sizeof *list->items);
}

bool findings_wrong(findings *f, const char *what, const char *advice) {
    return add(&f->wrong, what, advice, "");
}

bool findings_take(findings *f, report *r) {
    const size_t length = strlen(r->text);
    bool good = false;
    size_t i;
    if (r->no_memory) return false;
    for (i = 0; i < f->wrong.count && !good; i++)
        good = !strncmp(f->wrong.items[i].what, r->text, length);
    good = good || findings_wrong(f, r->text, "");
    if (good) *r = report_make();
    return good;
}

bool findings_only_ask(const findings *f) { return f->asked.count > 0 && f->wrong.count == 0; }

bool findings_are_open(const findings *f) { return f->asked.count > 0 || f->wrong.count > 0; }

static void free_list(finding_list *list) {
    size_t i;
    for (i = 0; i < list->count; i++) free_finding(&list->items[i]);
    free(list->items);
}

void findings_free(findings *f) {
    free_list(&f->assumed);
    free_list(&f->asked);
    free_list(&f->wrong);
    memset(f, 0, sizeof *f);
}

/* === An example of the options to give ===
 * The example contains the first answer to each question: for "--set pool=token (its default) or
 * --set pool=avg", it contains "--set pool=token". With --strict it also contains the assumed
 * values, so it leads to the assumed model. */

/* Copies the next word that is not in brackets. False at the end of the text. */
static bool next_word(const char **at, char *word, size_t size) {
    int depth = 0;
    size_t length = 0;
    for (; **at && (depth > 0 || length == 0 || **at != ' '); ++*at) {
        if (**at == '(') depth++;
        if (depth == 0 && **at != ' ' && length + 1 < size) word[length++] = **at;
        if (**at == ')' && depth > 0) depth--;
    }
    word[length] = '\0';
    return length > 0;
}

/* Adds the first answer from the text `options`: all options up to a comma, a semicolon or a word
 * such as "or", after which other answers may follow. Writes WORD in place of several values with
 * bars: none of the values is likelier, and a shell would take a bar for a pipe. */
static void add_options(char *give, size_t size, const char *options) {
    char word[128], value[128];
    while (next_word(&options, word, sizeof word) && !strncmp(word, "--", 2) &&
           next_word(&options, value, sizeof value)) {
        const size_t end = strcspn(value, ",;");
        const bool is_last = value[end] != '\0';
        value[end] = '\0';
        if (strchr(value, '|')) strcpy(value + strcspn(value, "="), "=WORD");
        text_append(give, size, " %s %s", word, value);
        if (is_last) break;
    }
}

/* Appends an option with its value if both fit and the value has no single quote. Puts the value in
 * quotes if it has characters that a shell may change. */
static void add_option(char *give, size_t size, const char *option, const char *name,
                       const char *value, size_t length) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,=:/+-";
    const char *quote = strspn(value, plain) >= length ? "" : "'";
    char text[GIVE_SIZE];
    snprintf(text, sizeof text, " %s %s%s%s%.*s%s", option, quote, name, *name ? "=" : "",
             (int)length, value, quote);
    if (strlen(give) + strlen(text) < size && !memchr(value, '\'', length))
        text_append(give, size, "%s", text);
}

/* Adds the options for all assumptions in a list such as "mean=0.5 std=0.5". Stops at an assumption
 * that has no option or the option --arch. */
static void add_assumed(char *give, size_t size, const char *what) {
    subject s;
    while (*what && subject_find(what, strcspn(what, "="), &s) && strcmp(s.option, "--arch")) {
        const char *value = what + strlen(s.name) + 1;
        const size_t length = s.with_prefix ? strcspn(value, " ") : strlen(value);
        add_option(give, size, s.option, s.with_prefix ? s.name : "", value, length);
        what = value + length;
        what += strspn(what, " ");
    }
}

/* === The message with all findings === */

/* A message with one line for each finding, and the number of lines that did not fit. */
typedef struct message {
    report *r;
    size_t left_out;
} message;

static void put_line(message *m, const char *text) {
    if (!report_line(m->r, GIVE_SIZE + ITEM_SIZE / 4, text)) m->left_out++;
}

static void put_wrong(message *m, const finding_list *list) {
    char text[ITEM_SIZE];
    size_t i;
    for (i = 0; i < list->count; i++) {
        snprintf(text, sizeof text, "  %s", list->items[i].what);
        put_line(m, text);
    }
    m->left_out += list->more;
}

static void put_questions(message *m, const finding_list *list) {
    char text[ITEM_SIZE];
    size_t i;
    for (i = 0; i < list->count; i++) {
        const finding *item = &list->items[i];
        snprintf(text, sizeof text, "  %s: %s; give %s", item->what, item->why, item->options);
        put_line(m, text);
    }
    m->left_out += list->more;
}

/* Appends the advice for each problem. The same advice is appended only once. */
static void put_advice(message *m, const finding_list *list) {
    size_t i, before;
    for (i = 0; i < list->count; i++) {
        const char *advice = list->items[i].why;
        for (before = 0; before < i && strcmp(list->items[before].why, advice) != 0;) before++;
        if (*advice && before == i) (void)report_line(m->r, GIVE_SIZE, advice);
    }
}

static void put_give(report *r, const findings *f, bool strict) {
    char give[GIVE_SIZE] = "give your model's values, for example:";
    const size_t empty = strlen(give);
    size_t i;
    for (i = 0; i < f->asked.count; i++) add_options(give, sizeof give, f->asked.items[i].options);
    for (i = 0; strict && i < f->assumed.count; i++)
        add_assumed(give, sizeof give, f->assumed.items[i].what);
    if (strlen(give) > empty) (void)report_line(r, 0, give);
}

static bool refuse_one(const findings *f, report *r) {
    const finding *item;
    if (f->wrong.count > 0) {
        item = &f->wrong.items[0];
        return report_fail(r, "%s%s%s", item->what, *item->why ? "; " : "", item->why);
    }
    item = f->asked.count > 0 ? &f->asked.items[0] : &f->assumed.items[0];
    return report_fail(r, "%s%s: %s; give %s",
                       f->asked.count > 0 ? "" : "--strict refuses to assume ", item->what,
                       item->why, item->options);
}

bool findings_refuse(const findings *f, bool strict, report *r) {
    const size_t open = f->wrong.count + f->asked.count;
    const size_t count = open + (strict ? f->assumed.count : 0);
    message m = { r, 0 };
    char more[64];
    if (count == 1) return refuse_one(f, r);
    (void)report_fail(r, "%zu things are %s:", count + f->wrong.more,
                      open == 0             ? "assumed, which --strict refuses"
                      : f->wrong.count == 0 ? "not known"
                                            : "missing or not known");
    put_wrong(&m, &f->wrong);
    put_questions(&m, &f->asked);
    if (strict) put_questions(&m, &f->assumed);
    snprintf(more, sizeof more, "  and %zu more", m.left_out);
    if (m.left_out > 0) (void)report_line(r, GIVE_SIZE, more);
    put_advice(&m, &f->wrong);
    put_give(r, f, strict);
    return false;
}

/* === Choices ===
 * These functions read the choices in texts of three forms: "--set pool=token (the code's default)
 * or --set pool=avg", "--set num_heads=N (1, 2 or 4; the weights hint at 2: score 6.1, then 4:
 * score 1.2)" and "--set norm_eps=N (CLIP: 1e-5; most others: 1e-6)". */

enum { MAX_CHOICES = 32, MAX_NOTE = 160 };

/* One possible answer to a question. `note` is a note about it, or "". */
typedef struct choice {
    char value[64], note[MAX_NOTE];
} choice;

typedef struct choice_list {
    choice items[MAX_CHOICES];
    int count;
    char suggested[64];
} choice_list;

static void copy_part(char *to, size_t size, const char *from, size_t length) {
    snprintf(to, size, "%.*s", (int)length, from);
}

static choice *add_choice(choice_list *list, const char *value, size_t length) {
    choice *c;
    int i;
    for (i = 0; i < list->count; i++)
        if (strlen(list->items[i].value) == length && !strncmp(list->items[i].value, value, length))
            return &list->items[i];
    if (list->count == MAX_CHOICES || length == 0 || length >= sizeof list->items->value)
        return NULL;
    c = &list->items[list->count++];
    memset(c, 0, sizeof *c);
    memcpy(c->value, value, length);
    return c;
}

/* True if the text looks like a number or a size, such as "12", "1e-5" or "224x384". */
static bool is_value(const char *text, size_t length) {
    return length > 0 && strspn(text, "0123456789.ex-") >= length;
}

static bool is_placeholder(const char *value, size_t length) {
    static const char *const words[] = { "N", "M", "S", "HxW", "WORD", "NAME", "FILE" };
    size_t i;
    for (i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && !strncmp(words[i], value, length)) return true;
    return false;
}

static const char *next_separator(const char *at, const char *end) {
    for (; at < end; at++)
        if (*at == ',' || *at == ';' || !strncmp(at, " or ", 4)) return at;
    return end;
}

/* Reads the numbers in a text such as "1, 2 or 4". Stops at a semicolon, or at a word that is no
 * number. */
static void add_numbers(choice_list *list, const char *text, const char *end) {
    while (text < end) {
        const char *stop = next_separator(text, end);
        if (!is_value(text, (size_t)(stop - text))) return;
        add_choice(list, text, (size_t)(stop - text));
        if (stop < end && *stop == ';') return;
        text = stop + (stop < end && *stop == ' ' ? 4 : 2);
    }
}

/* Reads the values and their notes in a text such as "CLIP: 1e-5; most others: 1e-6". */
static void add_cases(choice_list *list, const char *text, const char *end) {
    while (text < end) {
        const char *stop = memchr(text, ';', (size_t)(end - text)), *colon;
        choice *c;
        if (!stop) stop = end;
        colon = memchr(text, ':', (size_t)(stop - text));
        if (colon && stop - colon > 2 && is_value(colon + 2, (size_t)(stop - colon) - 2)) {
            c = add_choice(list, colon + 2, (size_t)(stop - colon) - 2);
            if (c) copy_part(c->note, sizeof c->note, text, (size_t)(colon - text));
        }
        text = stop + 2;
    }
}

/* Reads the text in brackets after a value as a note about this value. */
static void read_note(choice_list *list, choice *c, const char *text, const char *end) {
    copy_part(c->note, sizeof c->note, text, (size_t)(end - text));
    if (strstr(c->note, "default"))
        snprintf(list->suggested, sizeof list->suggested, "%s", c->value);
}

/* Reads the text in brackets after a placeholder. This text contains the possible numbers. */
static void read_numbers(choice_list *list, const char *text, const char *end) {
    static const char hint[] = "the weights hint at ";
    const char *hinted = strstr(text, hint);
    add_numbers(list, text, end);
    if (list->count == 0) add_cases(list, text, end);
    if (hinted && hinted < end) {
        hinted += sizeof hint - 1;
        copy_part(list->suggested, sizeof list->suggested, hinted, strcspn(hinted, ":"));
    }
}

static const char *closing_bracket(const char *text) {
    int depth = 1;
    for (; *text; text++) {
        if (*text == '(') depth++;
        if (*text == ')' && --depth == 0) break;
    }
    return text;
}

/* Reads "N", "token" or "token|avg|max", and the text in brackets after it. Returns the rest of the
 * text. */
static const char *read_values(choice_list *list, const char *text) {
    const size_t all = strcspn(text, " ,;");
    const char *end = text + all, *brackets = strncmp(end, " (", 2) ? NULL : end + 2;
    const char *after = brackets ? closing_bracket(brackets) : end;
    choice *c = NULL;
    size_t length;
    if (is_placeholder(text, all)) {
        if (brackets) read_numbers(list, brackets, after);
        return after;
    }
    length = strcspn(text, "| ,;");
    if (length == all) c = add_choice(list, text, length);
    if (c && brackets) read_note(list, c, brackets, after);
    for (; !c && text < end; text += length + 1) {
        length = strcspn(text, "| ,;");
        add_choice(list, text, length);
    }
    return after;
}

/* If the text begins with the option for this subject, returns the rest of the text, which begins
 * with the value. Otherwise returns NULL. */
static const char *match_option(const subject *s, const char *text) {
    const size_t option = strlen(s->option), name = strlen(s->name);
    if (strncmp(text, s->option, option) != 0 || text[option] != ' ') return NULL;
    text += option + 1;
    if (!s->with_prefix) return text;
    return !strncmp(text, s->name, name) && text[name] == '=' ? text + name + 1 : NULL;
}

static void read_choices(const subject *s, const char *text, choice_list *list) {
    memset(list, 0, sizeof *list);
    while (s->option && *text) {
        const char *value = match_option(s, text);
        if (value) text = read_values(list, value);
        else if (*text++ == '(') text = closing_bracket(text);
    }
    if (list->count == 1) strcpy(list->suggested, list->items[0].value);
}

/* If the list has no choices yet, adds all words of a WORD setting, or 0 and 1 of a FLAG. */
static void add_usual(const setting_row *row, choice_list *list) {
    const setting_word *word = row->words;
    if (list->count > 0) return;
    for (; word && word->word; word++) add_choice(list, word->word, strlen(word->word));
    if (row->kind != SETTING_FLAG) return;
    add_choice(list, "0", 1);
    add_choice(list, "1", 1);
}

static void put_choices(json_writer *w, const choice_list *list) {
    int i;
    json_put_begin(w, "choices", '[');
    for (i = 0; i < list->count; i++) {
        const choice *c = &list->items[i];
        json_put_begin(w, NULL, '{');
        json_put_text(w, "value", c->value);
        json_put_text(w, "note", *c->note ? c->note : NULL);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

/* === Questions === */

/* Writes the members that a question and an assumption have in common. */
static void put_subject(json_writer *w, const subject *s, const finding *item, choice_list *list) {
    char prefix[sizeof s->name + 1] = "";
    read_choices(s, item->options, list);
    if (s->row) add_usual(s->row, list);
    if (s->with_prefix) snprintf(prefix, sizeof prefix, "%s=", s->name);
    json_put_text(w, "why", item->why);
    json_put_text(w, "means", s->means);
    json_put_text(w, "option", s->option);
    json_put_text(w, "prefix", s->option ? prefix : NULL);
    json_put_text(w, "type", s->type);
    put_choices(w, list);
    json_put_text(w, "text", item->options);
}

void findings_put_questions(json_writer *w, const findings *f) {
    choice_list list;
    subject s;
    size_t i;
    json_put_begin(w, "questions", '[');
    for (i = 0; i < f->asked.count; i++) {
        const finding *item = &f->asked.items[i];
        (void)subject_find(item->what, strlen(item->what), &s);
        json_put_begin(w, NULL, '{');
        json_put_text(w, "setting", item->what);
        put_subject(w, &s, item, &list);
        json_put_text(w, "suggested", *list.suggested ? list.suggested : NULL);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

/* === Assumptions === */

static void put_assumed(json_writer *w, const char *setting, const char *value, const subject *s,
                        const finding *item) {
    choice_list list;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "setting", setting);
    json_put_text(w, "value", value);
    put_subject(w, s, item, &list);
    json_put_text(w, "otherwise", item->otherwise);
    if (item->otherwise) json_put_number(w, "effect", item->effect, 3);
    else json_put_text(w, "effect", NULL);
    json_put_end(w, '}');
}

/* Writes each setting of a list such as "mean=0.5 std=0.5". False if the item is not a list of
 * settings. */
static bool put_each(json_writer *w, const finding *item) {
    const char *at = item->what;
    char value[256];
    subject s, none;
    size_t length;
    memset(&none, 0, sizeof none);
    if (!subject_find(at, strcspn(at, "="), &s)) return false;
    if (!s.with_prefix) { /* the whole rest is the value, which may contain spaces */
        put_assumed(w, s.name, at + strlen(s.name) + 1, &s, item);
        return true;
    }
    for (; *at && subject_find(at, strcspn(at, "="), &s); at += strspn(at, " ")) {
        at += strlen(s.name) + 1;
        length = strcspn(at, " ");
        copy_part(value, sizeof value, at, length);
        at += length;
        put_assumed(w, s.name, value, &s, item);
    }
    if (*at) put_assumed(w, at, NULL, &none, item);
    return true;
}

void findings_put_assumed(json_writer *w, const findings *f) {
    subject none;
    size_t i;
    memset(&none, 0, sizeof none);
    json_put_begin(w, "assumed", '[');
    for (i = 0; i < f->assumed.count; i++) {
        const finding *item = &f->assumed.items[i];
        if (!put_each(w, item)) put_assumed(w, item->what, NULL, &none, item);
    }
    json_put_end(w, ']');
}

void findings_put_wrong(json_writer *w, const findings *f) {
    size_t i;
    json_put_begin(w, "wrong", '[');
    for (i = 0; i < f->wrong.count; i++) {
        json_put_begin(w, NULL, '{');
        json_put_text(w, "what", f->wrong.items[i].what);
        json_put_text(w, "advice", *f->wrong.items[i].why ? f->wrong.items[i].why : NULL);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}
