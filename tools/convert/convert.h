/* convert.h - turns a checkpoint into a .vit file, from opening to renaming.
 *
 * tools/convert owns the way from a checkpoint to a .vit file and back: quantising, comparing,
 * writing; it may include os base cli image checkpoint text model layout.
 */
#ifndef CONVERT_H
#define CONVERT_H

#include "convert/conversion.h"

/* c must be zeroed. Free it in any case. */
bool convert_run(const convert_options *o, conversion *c, report *r);
void convert_free(conversion *c);

/* Prints --help for a topic: settings, match, types, names. False if there is no such topic. */
bool convert_help(const char *topic);

#endif
