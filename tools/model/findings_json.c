#include "model/findings_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/settings.h"
#include "model/subject.h"

/* === Choices ===
 * Of "--set pool=token (its default) or --set pool=avg", of "--set num_heads=N (1, 2 or 4; the
 * weights hint at 2: 6.1, then 4: 1.2)", of "--set norm_eps=N (CLIP: 1e-5; most others: 1e-6)". */

enum { MAX_CHOICES = 32, MAX_NOTE = 160 };

typedef struct choice {
    char value[64], note[MAX_NOTE];
} choice;

typedef struct choice_list {
    choice items[MAX_CHOICES];
    int count;
    char suggested[64];
} choice_list;

static void copy_part(char *to, size_t size, const char *from, size_t length)
{
    snprintf(to, size, "%.*s", (int)length, from);
}

static choice *add_choice(choice_list *list, const char *value, size_t length)
{
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

/* Numbers, sizes: "12", "1e-5", "224x384". */
static bool is_value(const char *text, size_t length)
{
    return length > 0 && strspn(text, "0123456789.ex-") >= length;
}

static bool is_placeholder(const char *value, size_t length)
{
    static const char *const words[] = { "N", "M", "S", "HxW", "WORD", "NAME", "FILE" };
    size_t i;
    for (i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && !strncmp(words[i], value, length)) return true;
    return false;
}

static const char *next_separator(const char *at, const char *end)
{
    for (; at < end; at++)
        if (*at == ',' || *at == ';' || !strncmp(at, " or ", 4)) return at;
    return end;
}

/* "1, 2 or 4": the numbers up to the first that is none. */
static void add_numbers(choice_list *list, const char *text, const char *end)
{
    while (text < end) {
        const char *stop = next_separator(text, end);
        if (!is_value(text, (size_t)(stop - text))) return;
        add_choice(list, text, (size_t)(stop - text));
        if (stop < end && *stop == ';') return;
        text = stop + (stop < end && *stop == ' ' ? 4 : 2);
    }
}

/* "CLIP: 1e-5; most others: 1e-6". */
static void add_cases(choice_list *list, const char *text, const char *end)
{
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

/* What is in brackets after a value. */
static void read_note(choice_list *list, choice *c, const char *text, const char *end)
{
    copy_part(c->note, sizeof c->note, text, (size_t)(end - text));
    if (strstr(c->note, "default"))
        snprintf(list->suggested, sizeof list->suggested, "%s", c->value);
}

/* What is in brackets after a placeholder. */
static void read_numbers(choice_list *list, const char *text, const char *end)
{
    static const char hint[] = "the weights hint at ";
    const char *hinted = strstr(text, hint);
    add_numbers(list, text, end);
    if (list->count == 0) add_cases(list, text, end);
    if (hinted && hinted < end) {
        hinted += sizeof hint - 1;
        copy_part(list->suggested, sizeof list->suggested, hinted, strcspn(hinted, ":"));
    }
}

static const char *closing_bracket(const char *text)
{
    int depth = 1;
    for (; *text; text++) {
        if (*text == '(') depth++;
        if (*text == ')' && --depth == 0) break;
    }
    return text;
}

/* "N", "token", or "token|avg|max"; returns what follows it and what may be in brackets. */
static const char *read_values(choice_list *list, const char *text)
{
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

/* Of an option for this subject the text begins with: what follows it, up to the value; else
 * NULL. */
static const char *match_option(const subject *s, const char *text)
{
    const size_t option = strlen(s->option), name = strlen(s->name);
    if (strncmp(text, s->option, option) != 0 || text[option] != ' ') return NULL;
    text += option + 1;
    if (!s->with_prefix) return text;
    return !strncmp(text, s->name, name) && text[name] == '=' ? text + name + 1 : NULL;
}

static void read_choices(const subject *s, const char *text, choice_list *list)
{
    memset(list, 0, sizeof *list);
    while (s->option && *text) {
        const char *value = match_option(s, text);
        if (value) text = read_values(list, value);
        else if (*text++ == '(') text = closing_bracket(text);
    }
    if (list->count == 1) strcpy(list->suggested, list->items[0].value);
}

/* Where the text names none. */
static void add_usual(const setting_row *row, choice_list *list)
{
    const setting_word *word = row->words;
    if (list->count > 0) return;
    for (; word && word->word; word++) add_choice(list, word->word, strlen(word->word));
    if (row->kind != SETTING_FLAG) return;
    add_choice(list, "0", 1);
    add_choice(list, "1", 1);
}

static void put_choices(json_writer *w, const choice_list *list)
{
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

/* What a question and an assumption share. */
static void put_subject(json_writer *w, const subject *s, const finding *item, choice_list *list)
{
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

void findings_put_questions(json_writer *w, const findings *f)
{
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
                        const finding *item)
{
    choice_list list;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "setting", setting);
    json_put_text(w, "value", value);
    put_subject(w, s, item, &list);
    json_put_end(w, '}');
}

/* "mean=0.5 std=0.5": each of them. False where that is no list of settings. */
static bool put_each(json_writer *w, const finding *item)
{
    const char *at = item->what;
    char value[256];
    subject s, none;
    size_t length;
    memset(&none, 0, sizeof none);
    if (!subject_find(at, strcspn(at, "="), &s)) return false;
    if (!s.with_prefix) {   /* a name of somebody else's, which may have spaces */
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

void findings_put_assumed(json_writer *w, const findings *f)
{
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

void findings_put_wrong(json_writer *w, const findings *f)
{
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
