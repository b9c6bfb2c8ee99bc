/* operations.h - the number of arithmetic operations in a forward pass. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#define VIT_TOOLS
#include "vit.h"

/* Multiplications and additions for one image, if only the logits (or the embedding) are
 * computed. */
double bench_operations(const vit_config *config);

#endif
