/* text.h - converts the text encoder that CLIP, SigLIP and similar checkpoints contain beside the
 * image encoder. The text encoder becomes a separate .vit file. This file is stored as section
 * "text" in the file of the image encoder. */
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
    layout_map map; /* map.layout is NULL if the checkpoint has no text encoder */
    settings_resolved model;
    layout_plan plan;
    tokenizer_blob tokenizer;
} text_encoder;

/* Finds the text encoder and its settings. The settings come from the tensors and from `root`, the
 * parsed config.json, which may be NULL. If neither shows the activation, the activation of the
 * image encoder is assumed. Assumptions are added to *f. Zero *text before the call, and call
 * text_free even after a failure. */
bool text_find(checkpoint *c, const json_value *root, const vit_config *image, text_encoder *text,
               findings *f, report *r);

/* Reads the tokenizer at `path`, which is a file or a folder. Refuses a tokenizer whose ids do not
 * fit the text encoder. */
bool text_read_tokenizer(text_encoder *text, const char *path, const json_value *root, report *r);

/* True if the text encoder's file holds this tensor of the checkpoint. */
bool text_holds(const text_encoder *text, const char *name);

void text_free(text_encoder *text);

#endif
