/* pages.h - keeps a mapped model from piling up in memory. */
#ifndef PAGES_H
#define PAGES_H

#include "../vit.h"

/* Gives the pages of all tensors back to the system, which reads them again when they are next
 * needed. Has no effect where the model is not mapped from a file or the system cannot. */
void pages_drop(const vit_model *model);

#endif
