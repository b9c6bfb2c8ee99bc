/* text.h - converts the text encoder that CLIP, SigLIP and similar checkpoints have beside the
 * image encoder. It becomes a separate .vit file, which is section "text" of the image encoder's
 * file.
 */
#ifndef CONVERT_TEXT_H
#define CONVERT_TEXT_H

#include <stdbool.h>

#include "base/json.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "layout/plan.h"
#include "model/resolve.h"
#include "text/tokenizer.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct text_encoder {
    layout_map map; /* map.layout NULL: the checkpoint has none */
    settings_resolved model;
    layout_plan plan;
    tokenizer_blob tokenizer;
} text_encoder;

/* Finds the text encoder and its settings. The settings come from the tensors and from `root`, the
 * parsed config.json (NULL: none). If neither shows the activation, the image encoder's activation
 * is assumed. Assumptions become findings. Zero *text before the call, and free it in any case. */
bool text_find(checkpoint *c, const json_value *root, const vit_config *image, text_encoder *text,
               findings *f, report *r);

/* Reads the tokenizer at `path`, a file or folder. Refuses a tokenizer with ids that do not fit the
 * encoder.
 */
bool text_read_tokenizer(text_encoder *text, const char *path, const json_value *root, report *r);

/* True if the text encoder's file holds this tensor of the checkpoint. */
bool text_holds(const text_encoder *text, const char *name);

void text_free(text_encoder *text);

#endif
