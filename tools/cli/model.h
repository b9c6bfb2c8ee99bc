/* model.h - opens a model for a program, and says more than vit.h can where that fails. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include <stdbool.h>

#include "base/report.h"
#include "vit.h"

/* vit_model_open. Why a file cannot be opened is told, and that a checkpoint has to be converted. */
bool cli_model_open(const char *path, unsigned flags, vit_model *model, report *r);

#endif
