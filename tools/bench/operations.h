/* operations.h - how much arithmetic a forward pass is. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "vit.h"

/* Multiplications and additions for one image, when nothing but logits (or the embedding) is
 * asked for. */
double bench_operations(const vit_config *config);

#endif
