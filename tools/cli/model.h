/* model.h - opens a model for a program, and says more than vit.h can where that fails. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* vit_model_open, whose message says why a file cannot be opened, or that it is a checkpoint, which
 * must be converted first. */
bool cli_model_open(const char *path, unsigned flags, vit_model *model, report *r);

/* The file that -m gives, or NULL for the bundled model, malloc'ed. NULL: it was not found. */
char *cli_model_path(const char *given, report *r);

/* Opens the model that -m gives, or the bundled one for NULL, at --img-size, height and width, or
 * at the model's own size for zeros. *path, malloc'ed, names the file; it is NULL on failure. */
bool cli_model_choose(const char *given, const int img_size[2], vit_model *model, char **path,
                      report *r);

#endif
