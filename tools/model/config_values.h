/* config_values.h - what the readers of all kinds of config.json share. */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/report.h"
#include "model/settings.h"

typedef struct config_file {
    const char *architecture;   /* NULL if it does not say; with the tag if there is one */
    const json_value *label_names, *label_descriptions;
    const char *processor;      /* of transformers, whose defaults were taken; NULL: none */
    char *text;                 /* private */
    char full_name[256];        /* private */
    json_document document;     /* private */
} config_file;

/* Absent, or null. */
bool config_is_null(const json_value *value);

/* A whole number from 1 to 2^20, as widths, depths and counts are. */
bool config_is_size(const json_value *value);

/* The setting from such a member of the object, if there is one; fails for another value. */
bool config_put_size(settings *s, setting_key setting, const json_value *object, const char *key,
                     report *r);

/* All of a file, malloc'ed, with room for json_parse. *text is to be freed either way. */
bool config_read_text(const char *path, char **text, size_t *size, report *r);

#endif
