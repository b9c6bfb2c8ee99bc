/* describe.h - a vit_config in words, and as JSON. */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include <stddef.h>

#include "base/json.h"
#define VIT_TOOLS
#include "vit.h"

/* What differs from a plain ViT: "4 register tokens, SiLU, gated MLP". Text that does not fit is
 * cut off. */
const char *settings_describe(const vit_config *config, char *text, size_t size);

/* Every field that a .vit file stores, under its own name. */
void describe_put_fields(json_writer *w, const vit_config *c);

#endif
