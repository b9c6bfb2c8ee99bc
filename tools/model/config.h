/* config.h - config.json, as it is stored beside the weights: timm's, Hugging Face transformers' or
 * open_clip's.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/report.h"
#include "model/settings.h"

/* === Values === */

/* What the readers of all kinds of config.json share. */

typedef struct config_file {
    const char *architecture; /* NULL if it does not say; with the tag if there is one */
    const json_value *label_names, *label_descriptions;
    const char *processor;  /* of transformers, whose defaults were taken; NULL: none */
    char *text;             /* private */
    char full_name[256];    /* private */
    json_document document; /* private */
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

/* === timm's === */

/* Timm's config.json, as it is stored beside model.safetensors on the Hugging Face
 * hub:
 *
 *     {"architecture": "vit_base_patch16_224", "num_classes": 10, "global_pool": "token",
 *      "model_args": {"img_size": 384}, "label_names": ["cat", "dog"],
 *      "pretrained_cfg": {"tag": "augreg_in1k", "input_size": [3, 224, 224], "crop_pct": 0.9,
 *                         "interpolation": "bicubic", "mean": [0.5, 0.5, 0.5], ...}}
 *
 * The keys of pretrained_cfg may also stand at the top. Unknown keys are skipped; a wrong type,
 * or an option that this version of vit.h cannot run, is refused by its name.
 */

/* Fills s and the labels from the parsed file. */
bool config_timm_apply(config_file *config, settings *s, report *r);

/* === open_clip's === */

/* Open_clip_config.json: what the tensors of open_clip's models do not show,
 * above all the activation.
 *
 *     {"model_cfg": {"quick_gelu": true, "vision_cfg": {"width": 768, "head_width": 64, ...}},
 *      "preprocess_cfg": {"mean": [...], "std": [...], "interpolation": "bicubic", ...}}
 */

bool config_open_clip_is(const json_value *root);

/* A "timm_model_name" becomes the architecture. */
bool config_open_clip_apply(config_file *config, settings *s, report *r);

/* === transformers' === */

/* Config.json of Hugging Face transformers ("model_type": "vit"), and its
 * preprocessor_config.json: what the tensors do not show. */

/* A configuration of transformers, of whatever model? */
bool config_hf_is(const json_value *root);

/* Does it describe a model that some layout serves? */
bool config_hf_knows(const json_value *root);

/* Fills s and the labels from the parsed file at path; a preprocessor_config.json in the same
 * folder is read too. Keys that are missing mean what transformers takes them to mean. */
bool config_hf_apply(config_file *config, settings *s, const char *path, report *r);

/* === Any configuration === */

/* Config.json, as it is stored beside the weights: timm's, Hugging Face transformers' or
 * open_clip's. */

/* Fills s with what the file says. *foreign (may be NULL) is set, and nothing else done, where it
 * describes a model that vit.h does not run; with NULL that is a failure. */
bool config_read(config_file *config, settings *s, const char *path, bool *foreign, report *r);
/* The same of a text of timm's form, malloc'ed and taken over. */
bool config_read_json(config_file *config, settings *s, char *text, report *r);
void config_free(config_file *config);

#endif
