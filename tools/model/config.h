/* config.h - reads config.json from the folder of the weights: timm's, Hugging Face transformers'
 * or open_clip's.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/report.h"
#include "model/settings.h"

/* === Values === */

/* These types and functions are shared by the readers of all kinds of config.json. */

typedef struct config_file {
    const char *architecture; /* timm's name, with its tag if the file has one; NULL if unknown */
    const json_value *label_names, *label_descriptions;
    /* The class of transformers whose default preprocessing was used. NULL if no defaults were
     * used. */
    const char *processor;
    /* The input size in preprocessor_config.json, if it differs from the size in config.json.
     * Otherwise 0. */
    int input_height, input_width;
    /* Both sides of a prepared photo are multiples of this number; 0 if any size is allowed. */
    int multiple;
    char *text;             /* private */
    char full_name[256];    /* private */
    json_document document; /* private */
} config_file;

/* True if the member is absent or null. */
bool config_is_null(const json_value *value);

/* True for a whole number from 1 to 2^20, the range of widths, depths and counts. */
bool config_is_size(const json_value *value);

/* Takes the setting from the member `key` of the object, if it exists. Fails if the value of the
 * member is invalid. */
bool config_put_size(settings *s, setting_key setting, const json_value *object, const char *key,
                     report *r);

/* Reads a whole file into malloc'ed memory that is large enough for json_parse. The caller frees
 * *text in any case. */
bool config_read_text(const char *path, char **text, size_t *size, report *r);

/* === timm's config.json === */

/* timm's config.json, as stored with model.safetensors on the Hugging Face hub:
 *
 *     {"architecture": "vit_base_patch16_224", "num_classes": 10, "global_pool": "token",
 *      "model_args": {"img_size": 384}, "label_names": ["cat", "dog"],
 *      "pretrained_cfg": {"tag": "augreg_in1k", "input_size": [3, 224, 224], "crop_pct": 0.9,
 *                         "interpolation": "bicubic", "mean": [0.5, 0.5, 0.5], ...}}
 *
 * The keys of pretrained_cfg may also be at the top level. Unknown keys are skipped. The file is
 * refused if a value has a wrong type, or if this version of vit.h cannot run an option; the
 * message names the key.
 */

/* Fills *s and the names of the classes in *config from the parsed file. */
bool config_timm_apply(config_file *config, settings *s, report *r);

/* === open_clip's config.json === */

/* open_clip_config.json has settings that the tensors of open_clip's models do not show, above all
 * the activation.
 *
 *     {"model_cfg": {"quick_gelu": true, "vision_cfg": {"width": 768, "head_width": 64, ...}},
 *      "preprocess_cfg": {"mean": [...], "std": [...], "interpolation": "bicubic", ...}}
 */

/* True if this is the root of an open_clip_config.json. */
bool config_open_clip_is(const json_value *root);

/* Fills *s from the parsed file. A "timm_model_name" in the file becomes the architecture. */
bool config_open_clip_apply(config_file *config, settings *s, report *r);

/* === transformers' config.json === */

/* These functions read config.json of Hugging Face transformers ("model_type": "vit"), and its
 * preprocessor_config.json. Both files contain settings that the tensors do not show. */

/* True for a configuration of any transformers model. */
bool config_hf_is(const json_value *root);

/* True if a layout supports the model that the configuration describes. */
bool config_hf_knows(const json_value *root);

/* Fills *s and the names of the classes from the parsed file, whose path is `path`. Also reads a
 * preprocessor_config.json in the same folder. For keys that the files lack, the defaults of
 * transformers are used. */
bool config_hf_apply(config_file *config, settings *s, const char *path, report *r);

/* === A configuration in an author's own form === */

/* Reads a text in JSON, or in the part of YAML that people use for settings: lines "key: value" at
 * any depth, words with or without quotes, lists of numbers. Calls `take` for each number, word and
 * list. `key` is the last part of the setting's name, and `value` is the value as text: "12",
 * "true", "(0.5, 0.5, 0.5)". Skips the sections of other parts, such as a decoder or an optimizer,
 * and lines that it cannot parse. The text is changed. The function fails if `take` returns false
 * or memory is exhausted. */
typedef bool config_take(void *user, const char *key, const char *value);
bool config_read_own(char *text, size_t size, config_take *take, void *user);

/* === Any configuration === */

/* These functions read a config.json of any of the kinds above, as it is stored beside the
 * weights. */

/* Fills *config and *s from the file. Only sets *foreign, and succeeds, for a file of no kind above
 * or of a transformers type without a layout. If `foreign` is NULL, fails for such a type, and
 * reads a file of no kind above like timm's. */
bool config_read(config_file *config, settings *s, const char *path, bool *foreign, report *r);
/* Reads a text in the form of timm's config.json. The text must be malloc'ed and then belongs to
 * *config: config_free frees it, or this function does so on failure. */
bool config_read_json(config_file *config, settings *s, char *text, report *r);
void config_free(config_file *config);

#endif
