/* model.h - opens a model for a program, with better messages than vit.h's. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* vit_model_open. Its message has the reason why a file cannot be opened, or states that it is a
 * checkpoint, which must be converted first. */
bool cli_model_open(const char *path, unsigned flags, vit_model *model, report *r);

/* The file of -m, or the bundled model for NULL, malloc'ed. NULL if it was not found. */
char *cli_model_path(const char *given, report *r);

/* Opens the model of -m, or the bundled one for NULL, at --img-size, height and width, or at the
 * model's own size for zeros. *path, malloc'ed, names the file; it is NULL on failure. */
bool cli_model_choose(const char *given, const int img_size[2], vit_model *model, char **path,
                      report *r);

#endif
