/* config.h - timm's config.json, as it lies beside model.safetensors on the Hugging Face hub:
 *
 *     {"architecture": "vit_base_patch16_224", "num_classes": 10, "global_pool": "token",
 *      "model_args": {"img_size": 384}, "label_names": ["cat", "dog"],
 *      "pretrained_cfg": {"tag": "augreg_in1k", "input_size": [3, 224, 224], "crop_pct": 0.9,
 *                         "interpolation": "bicubic", "mean": [0.5, 0.5, 0.5], ...}}
 *
 * The keys of pretrained_cfg may also stand at the top. Unknown keys are skipped; a wrong type,
 * or an option that this version of vit.h cannot run, is refused by its name.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "json.h"
#include "settings.h"

typedef struct config_file {
    const char *architecture;   /* NULL if it does not say; with the tag if there is one */
    const json_value *label_names, *label_descriptions;
    const char *processor;      /* of transformers, whose defaults were taken; NULL: none */
    char *text;                 /* private */
    char full_name[256];        /* private */
    json_document document;     /* private */
} config_file;

/* Fills s with what the file says; one of Hugging Face transformers is config_hf.c's business.
 * *foreign (may be NULL) is set, and nothing else done, where it describes a model that is none
 * of vit.h's; with NULL that is a failure. */
bool config_read(config_file *config, settings *s, const char *path, bool *foreign, report *r);
void config_free(config_file *config);

/* All of a file, malloc'ed, with room for json_parse. *text is to be freed either way. */
bool config_read_text(const char *path, char **text, size_t *size, report *r);

#endif
