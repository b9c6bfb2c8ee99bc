#include "model/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/subject.h"

enum {
    MAX_FINDINGS = 128,
    ITEM_SIZE = 4096,      /* of a line: names have up to 1024 letters */
    GIVE_SIZE = 1024       /* of what to give, which comes last */
};

/* === Collecting === */

static char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static void free_finding(finding *item)
{
    free(item->what);
    free(item->why);
    free(item->options);
}

static bool add(finding_list *list, const char *what, const char *why, const char *options)
{
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
    if (item->what && item->why && item->options) {
        list->count++;
        return true;
    }
    free_finding(item);
    return false;
}

/* In falling order of the harm that a wrong one usually does: another order or number of heads, of
 * norms or of pixels gives other logits altogether, an epsilon moves their fourth digit. */
static const char *const by_harm[] = {
    "num_heads", "head_dim", "weights", "attention", "block_type", "pool", "qkv_order",
    "qkv_interleave", "patch_order", "patch_cut", "in_chans", "img_size", "patch_stride",
    "",   /* all that is not listed */
    "mean", "preprocessing of", "std", "has_final_norm", "activation", "representation_act",
    "attn_root", "positions", "pool_prefix", "crop_pct", "crop_mode", "interpolation", "norm_eps",
    "blocks as usual", "architecture", "no configuration"
};

static size_t harm_rank(const char *what)
{
    const size_t count = sizeof by_harm / sizeof *by_harm;
    size_t i, unlisted = 0;
    for (i = 0; i < count; i++) {
        const size_t length = strlen(by_harm[i]);
        if (length == 0) unlisted = i;
        else if (!strncmp(what, by_harm[i], length) && strchr("= ", what[length])) return i;
    }
    return unlisted;
}

bool findings_assume(findings *f, const char *what, const char *why, const char *options)
{
    finding_list *list = &f->assumed;
    const size_t before = list->count;
    finding *items, added;
    size_t i;
    if (!add(list, what, why, options)) return false;
    if (list->count == before) return true;
    items = list->items;
    added = items[before];
    for (i = before; i > 0 && harm_rank(items[i - 1].what) > harm_rank(what); i--)
        items[i] = items[i - 1];
    items[i] = added;
    return true;
}

bool findings_has_asked(const findings *f, const char *what)
{
    size_t i;
    for (i = 0; i < f->asked.count; i++)
        if (!strcmp(f->asked.items[i].what, what)) return true;
    return false;
}

bool findings_ask(findings *f, const char *what, const char *why, const char *options)
{
    return findings_has_asked(f, what) || add(&f->asked, what, why, options);
}

void findings_answer(findings *f, const char *what)
{
    finding_list *list = &f->asked;
    size_t i = 0;
    while (i < list->count && strcmp(list->items[i].what, what) != 0) i++;
    if (i == list->count) return;
    free_finding(&list->items[i]);
    list->count--;
    memmove(list->items + i, list->items + i + 1, (list->count - i) * sizeof *list->items);
}

bool findings_wrong(findings *f, const char *what, const char *advice)
{
    return add(&f->wrong, what, advice, "");
}

bool findings_take(findings *f, report *r)
{
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

bool findings_only_ask(const findings *f)
{
    return f->asked.count > 0 && f->wrong.count == 0;
}

bool findings_are_open(const findings *f)
{
    return f->asked.count > 0 || f->wrong.count > 0;
}

static void free_list(finding_list *list)
{
    size_t i;
    for (i = 0; i < list->count; i++) free_finding(&list->items[i]);
    free(list->items);
}

void findings_free(findings *f)
{
    free_list(&f->assumed);
    free_list(&f->asked);
    free_list(&f->wrong);
    memset(f, 0, sizeof *f);
}

/* === An example of what to give ===
 * To a question the first answer: of "--set pool=token (its default) or --set pool=avg" the first.
 * For an assumption its own value, so that the example gives the model that would be assumed. */

/* The next word outside brackets; false at the end. */
static bool next_word(const char **at, char *word, size_t size)
{
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

/* Options that follow each other are all needed; of those with a word or a comma between them one
 * is. Of values between bars the first is taken: a shell would read a bar as a pipe. */
static void add_options(char *give, size_t size, const char *options)
{
    char word[128], value[128];
    while (next_word(&options, word, sizeof word) && !strncmp(word, "--", 2) &&
           next_word(&options, value, sizeof value)) {
        const size_t end = strcspn(value, ",;");
        const bool is_last = value[end] != '\0';
        value[end] = '\0';
        value[strcspn(value, "|")] = '\0';
        text_append(give, size, " %s %s", word, value);
        if (is_last) break;
    }
}

/* Quoted where a shell would take it apart. Whole or not at all. */
static void add_option(char *give, size_t size, const char *option, const char *name,
                       const char *value, size_t length)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,=:/+-";
    const char *quote = strspn(value, plain) >= length ? "" : "'";
    char text[GIVE_SIZE];
    snprintf(text, sizeof text, " %s %s%s%s%.*s%s", option, quote, name, *name ? "=" : "",
             (int)length, value, quote);
    if (strlen(give) + strlen(text) < size && !memchr(value, '\'', length))
        text_append(give, size, "%s", text);
}

/* "mean=0.5 std=0.5": each of them. What no option gives is left out, as is a name that is assumed
 * to be of no use. */
static void add_assumed(char *give, size_t size, const char *what)
{
    subject s;
    while (*what && subject_find(what, strcspn(what, "="), &s) && strcmp(s.option, "--arch")) {
        const char *value = what + strlen(s.name) + 1;
        const size_t length = s.with_prefix ? strcspn(value, " ") : strlen(value);
        add_option(give, size, s.option, s.with_prefix ? s.name : "", value, length);
        what = value + length;
        what += strspn(what, " ");
    }
}

/* === One message === */

typedef struct message {
    report *r;
    size_t left_out;
} message;

static void put_line(message *m, const char *text)
{
    if (!report_line(m->r, GIVE_SIZE + ITEM_SIZE / 4, text)) m->left_out++;
}

static void put_wrong(message *m, const finding_list *list)
{
    char text[ITEM_SIZE];
    size_t i;
    for (i = 0; i < list->count; i++) {
        snprintf(text, sizeof text, "  %s", list->items[i].what);
        put_line(m, text);
    }
    m->left_out += list->more;
}

static void put_questions(message *m, const finding_list *list)
{
    char text[ITEM_SIZE];
    size_t i;
    for (i = 0; i < list->count; i++) {
        const finding *item = &list->items[i];
        snprintf(text, sizeof text, "  %s: %s; give %s", item->what, item->why, item->options);
        put_line(m, text);
    }
    m->left_out += list->more;
}

/* What to do about what is wrong, each once. */
static void put_advice(message *m, const finding_list *list)
{
    size_t i, before;
    for (i = 0; i < list->count; i++) {
        const char *advice = list->items[i].why;
        for (before = 0; before < i && strcmp(list->items[before].why, advice) != 0;) before++;
        if (*advice && before == i) (void)report_line(m->r, GIVE_SIZE, advice);
    }
}

static void put_give(report *r, const findings *f, bool strict)
{
    char give[GIVE_SIZE] = "give your model's values, for example:";
    const size_t empty = strlen(give);
    size_t i;
    for (i = 0; i < f->asked.count; i++)
        add_options(give, sizeof give, f->asked.items[i].options);
    for (i = 0; strict && i < f->assumed.count; i++)
        add_assumed(give, sizeof give, f->assumed.items[i].what);
    if (strlen(give) > empty) (void)report_line(r, 0, give);
}

static bool refuse_one(const findings *f, report *r)
{
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

bool findings_refuse(const findings *f, bool strict, report *r)
{
    const size_t open = f->wrong.count + f->asked.count;
    const size_t count = open + (strict ? f->assumed.count : 0);
    message m = { r, 0 };
    char more[64];
    if (count == 1) return refuse_one(f, r);
    (void)report_fail(r, "%zu things are %s:", count + f->wrong.more,
                      open == 0 ? "assumed, which --strict refuses"
                      : f->wrong.count == 0 ? "not known" : "missing or not known");
    put_wrong(&m, &f->wrong);
    put_questions(&m, &f->asked);
    if (strict) put_questions(&m, &f->assumed);
    snprintf(more, sizeof more, "  and %zu more", m.left_out);
    if (m.left_out > 0) (void)report_line(r, GIVE_SIZE, more);
    put_advice(&m, &f->wrong);
    put_give(r, f, strict);
    return false;
}
