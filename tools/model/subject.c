#include "model/subject.h"

#include <string.h>

/* Subjects that have no row in the list of settings. */
static const struct {
    const char *name, *option, *type, *means;
    bool with_prefix;
} others[] = {
    { "img_size", "--img-size", "size", "height and width of the input in pixels", false },
    { "mean", "--set", "text", "mean of the colours, one value or one for each channel", true },
    { "std", "--set", "text", "standard deviation of the colours, as mean", true },
    { "weights", "--weights", "text", "which of several state dicts in the file", false },
    { "architecture", "--arch", "text", "timm's name of the architecture", false }
};

static const char *type_of(setting_kind kind)
{
    switch (kind) {
    case SETTING_INTEGER: return "integer";
    case SETTING_NUMBER: return "number";
    case SETTING_FLAG: return "flag";
    case SETTING_WORD: break;
    }
    return "word";
}

bool subject_find(const char *name, size_t length, subject *s)
{
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
