/* random_model.h - a model of random weights, to measure without a checkpoint. Its tensors have the
 * types that vit-convert gives them. */
#ifndef RANDOM_MODEL_H
#define RANDOM_MODEL_H

#include <stdbool.h>
#include <stdio.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

bool bench_write_random(FILE *file, const vit_config *config, vit_dtype dtype, report *r);

#endif
