/* vit_file.h - the finished .vit file: provenance and weights, quantised as a model in f32 shows
 * where photos are given, the outputs of its self-test, and how far they are from f32's.
 */
#ifndef VIT_FILE_H
#define VIT_FILE_H

#include "convert/conversion.h"

/* Writes c->options->output, or leaves nothing there. Fills c->provenance, c->output_size and
 * c->comparison. */
bool vit_file_write(conversion *c, report *r);

#endif
