/* config.h - config.json, as it is stored beside the weights: timm's, Hugging Face transformers' or
 * open_clip's.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>

#include "model/config_values.h"

/* Fills s with what the file says. *foreign (may be NULL) is set, and nothing else done, where it
 * describes a model that vit.h does not run; with NULL that is a failure. */
bool config_read(config_file *config, settings *s, const char *path, bool *foreign, report *r);
/* The same of a text of timm's form, malloc'ed and taken over. */
bool config_read_json(config_file *config, settings *s, char *text, report *r);
void config_free(config_file *config);

#endif
