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

/* All of a file, malloc'ed, with room for json_parse. *text is to be freed either way. */
bool config_read_text(const char *path, char **text, size_t *size, report *r);

#endif
