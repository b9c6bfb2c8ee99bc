/* config_timm.h - timm's config.json, as it is stored beside model.safetensors on the Hugging Face
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
#ifndef CONFIG_TIMM_H
#define CONFIG_TIMM_H

#include <stdbool.h>

#include "model/config_values.h"

/* Fills s and the labels from the parsed file. */
bool config_timm_apply(config_file *config, settings *s, report *r);

#endif
