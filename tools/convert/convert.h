/* convert.h - a checkpoint into a .vit file, from opening the one to renaming the other. */
#ifndef CONVERT_H
#define CONVERT_H

#include "convert/conversion.h"

/* c must be zeroed but for options and all[FROM_OPTIONS]. Free it either way. */
bool convert_run(conversion *c, report *r);
void convert_free(conversion *c);

#endif
