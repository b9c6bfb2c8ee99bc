/* config_transformers.h - config.json of Hugging Face transformers ("model_type": "vit"), and its
 * preprocessor_config.json: what the tensors do not show.
 */
#ifndef CONFIG_TRANSFORMERS_H
#define CONFIG_TRANSFORMERS_H

#include <stdbool.h>

#include "model/config_values.h"

/* A configuration of transformers, of whatever model? */
bool config_hf_is(const json_value *root);

/* Does it describe a model that some layout serves? */
bool config_hf_knows(const json_value *root);

/* Fills s and the labels from the parsed file at path; a preprocessor_config.json in the same
 * folder is read too. Keys that are missing mean what transformers takes them to mean. */
bool config_hf_apply(config_file *config, settings *s, const char *path, report *r);

#endif
