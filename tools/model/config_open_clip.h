/* config_open_clip.h - open_clip_config.json: what the tensors of open_clip's models do not show,
 * above all the activation.
 *
 *     {"model_cfg": {"quick_gelu": true, "vision_cfg": {"width": 768, "head_width": 64, ...}},
 *      "preprocess_cfg": {"mean": [...], "std": [...], "interpolation": "bicubic", ...}}
 */
#ifndef CONFIG_OPEN_CLIP_H
#define CONFIG_OPEN_CLIP_H

#include <stdbool.h>

#include "model/config_values.h"

bool config_open_clip_is(const json_value *root);

/* A "timm_model_name" becomes the architecture. */
bool config_open_clip_apply(config_file *config, settings *s, report *r);

#endif
