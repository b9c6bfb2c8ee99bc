#include "checkpoint/rename.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/container.h"

enum { RENAME_MAX_STARS = 8, RENAME_MAX_NAME = 1024 };

/* What a '*' stands for. */
typedef struct rename_piece {
    const char *text;
    size_t size;
} rename_piece;

typedef struct rename_rule {
    char theirs[RENAME_MAX_NAME];
    const char *ours;
    bool is_layer;     /* the name of a layer, which stands for its tensors: ".*" was added */
    bool used;
} rename_rule;

static int count_stars(const char *text)
{
    int count = 0;
    for (; *text; text++) count += *text == '*';
    return count;
}

static bool parse_rule(const char *text, rename_rule *rule, report *r)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : 0;
    if (length == 0 || !equals[1] || length >= sizeof rule->theirs)
        return report_fail(r, "--rename: expected THEIRS=OURS, found \"%.200s\"", text);
    snprintf(rule->theirs, sizeof rule->theirs, "%.*s", (int)length, text);
    rule->ours = equals + 1;
    if (count_stars(rule->theirs) != count_stars(rule->ours) ||
        count_stars(rule->ours) > RENAME_MAX_STARS)
        return report_fail(r, "--rename %.200s: expected as many * on the right as on the left, "
                           "%d at most", text, RENAME_MAX_STARS);
    return true;
}

/* Each '*' matches as little as possible. */
static bool matches(const char *pattern, const char *text, rename_piece *piece)
{
    for (; *pattern != '*'; pattern++, text++) {
        if (*pattern != *text) return false;
        if (!*pattern) return true;
    }
    piece->text = text;
    for (piece->size = 0;; piece->size++) {
        if (matches(pattern + 1, text + piece->size, piece + 1)) return true;
        if (!text[piece->size]) return false;
    }
}

static bool put_pieces(const char *ours, const rename_piece *piece, char *name, size_t size)
{
    size_t used = 0;
    for (; *ours && used < size; ours++) {
        const rename_piece letter = { ours, 1 }, *next = *ours == '*' ? piece++ : &letter;
        if (next->size < size - used) memcpy(name + used, next->text, next->size);
        used += next->size;
    }
    if (used >= size) return false;
    name[used] = '\0';
    return true;
}

static bool put_end(const rename_piece *piece, char *name, size_t size)
{
    const size_t used = strlen(name);
    if (used + 1 + piece->size >= size) return false;
    name[used] = '.';
    memcpy(name + used + 1, piece->text, piece->size + 1);
    return true;
}

/* "fc1=mlp.fc1" is "fc1.*=mlp.fc1.*" where no tensor is called fc1. */
static void spread_layer(const checkpoint *c, rename_rule *rule)
{
    const size_t length = strlen(rule->theirs);
    bool is_layer = false;
    size_t i;
    if (strchr(rule->theirs, '*') || length + 3 > sizeof rule->theirs) return;
    for (i = 0; i < checkpoint_count(c); i++) {
        const char *name = checkpoint_tensor(c, i)->name;
        if (!strcmp(name, rule->theirs)) return;
        is_layer = is_layer || (!strncmp(name, rule->theirs, length) && name[length] == '.');
    }
    rule->is_layer = is_layer;
    if (is_layer) memcpy(rule->theirs + length, ".*", 3);
}

/* By the first rule that matches, if any. */
static bool rename_one(checkpoint *c, size_t i, rename_rule *rules, int count, report *r)
{
    const char *old = checkpoint_tensor(c, i)->name;
    rename_piece pieces[RENAME_MAX_STARS];
    char name[RENAME_MAX_NAME];
    int rule = 0;
    while (rule < count && !matches(rules[rule].theirs, old, pieces)) rule++;
    if (rule == count) return true;
    rules[rule].used = true;
    if (!put_pieces(rules[rule].ours, pieces, name, sizeof name) ||
        (rules[rule].is_layer && !put_end(pieces, name, sizeof name)))
        return report_fail(r, "%.200s: its new name is longer than %d letters", old,
                           RENAME_MAX_NAME - 1);
    return checkpoint_rename(c, i, name, r);
}

static bool check_used(const checkpoint *c, const rename_rule *rules, int count, report *r)
{
    int rule;
    for (rule = 0; rule < count; rule++)
        if (!rules[rule].used)
            return report_fail(r, "--rename: no tensor%s is called %.200s (the first is %.200s)",
                               rule ? " that is left" : "", rules[rule].theirs,
                               checkpoint_tensor(c, 0)->name);
    return true;
}

bool rename_tensors(checkpoint *c, const text_list *list, report *r)
{
    rename_rule *rules = calloc((size_t)list->count + 1, sizeof *rules);
    bool good = rules ? true : report_no_memory(r);
    size_t i;
    int rule;
    for (rule = 0; good && rule < list->count; rule++)
        if ((good = parse_rule(list->items[rule], &rules[rule], r))) spread_layer(c, &rules[rule]);
    for (i = 0; good && i < checkpoint_count(c); i++)
        good = rename_one(c, i, rules, list->count, r);
    good = good && check_used(c, rules, list->count, r) && checkpoint_renamed(c, r);
    free(rules);
    return good;
}
