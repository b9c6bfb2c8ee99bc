/* training.h - what a training program saved beside the weights: the options that it was called
 * with, as timm's and DeiT's do ("arch", "args.model", "args.mean"), or Lightning's
 * hyper_parameters.
 */
#ifndef CONVERT_TRAINING_H
#define CONVERT_TRAINING_H

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"

/* Where they name an architecture of timm's, fills *config and all[FROM_CONFIG] as its config.json
 * would. Otherwise all[FROM_TENSORS] gets how images were prepared, as far as that is said: the
 * rest is nobody's default. */
bool training_read(const checkpoint *c, config_file *config, settings all[FROM_COUNT], report *r);

#endif
