/* convert.h - a checkpoint into a .vit file, from opening the one to renaming the other.
 *
 * tools/convert owns the way from a checkpoint to a .vit file and back: quantising, comparing,
 * writing; it may include os base cli image checkpoint model layout.
 */
#ifndef CONVERT_H
#define CONVERT_H

#include "base/report.h"
#include "checkpoint/checkpoint.h"
#include "convert/conversion.h"
#include "model/config.h"

/* c must be zeroed except for options and all[FROM_OPTIONS]. Free it either way. */
bool convert_run(conversion *c, report *r);
void convert_free(conversion *c);

/* What --help prints of a topic: settings, match, types, names. False: there is no such topic. */
bool convert_help(const char *topic);

/* === What training left === */

/* What a training program saved beside the weights: the options that it was called with, as timm's
 * and DeiT's do ("arch", "args.model", "args.mean"), or Lightning's hyper_parameters. */

/* Where they name an architecture of timm's, fills *config and all[FROM_CONFIG] as its config.json
 * would. Otherwise all[FROM_TENSORS] gets how images were prepared, as far as that is said: the
 * rest is nobody's default. */
bool training_read(const checkpoint *c, config_file *config, settings all[FROM_COUNT], report *r);

/* === Writing the file === */

/* The finished .vit file: provenance and weights, quantised as a model in f32 shows where photos
 * are given, the outputs of its self-test, and how far they are from f32's. */

/* Writes c->options->output, or leaves nothing there. Fills c->provenance, c->output_size and
 * c->comparison. */
bool vit_file_write(conversion *c, report *r);

#endif
