/* describe.h - a vit_config in words. */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include <stddef.h>

#include "vit.h"

/* What differs from a plain ViT: "4 register tokens, SiLU, gated MLP". Text that does not fit is
 * cut off. */
const char *settings_describe(const vit_config *config, char *text, size_t size);

#endif
