/* pages.h - keeps a mapped model from piling up in memory. */
#ifndef PAGES_H
#define PAGES_H

#define VIT_TOOLS
#include "vit.h"

/* Gives the pages of all tensors back to the system, which reads them again when they are next
 * needed. Only for a model that is mapped from a file: memory of another kind would be zeroed. */
void pages_drop(const vit_model *model);

#endif
