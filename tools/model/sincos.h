/* sincos.h - positions that are computed from sines and cosines and not kept in checkpoints. */
#ifndef SINCOS_H
#define SINCOS_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

/* Places of pos_sincos' words. From SINCOS_1D on they are along the sequence: sines in even
 * columns, cosines in odd ones, two columns of one frequency. Known departures: all sines before
 * all cosines; a frequency for each column; one for each, which falls twice as fast; 1 for all. */
enum {
    SINCOS_NONE, SINCOS_SIMPLE_VIT, SINCOS_MAE,
    SINCOS_1D, SINCOS_1D_HALVES, SINCOS_1D_COLUMN, SINCOS_1D_DOUBLE, SINCOS_1D_PLAIN
};

/* Is there such a table of this width? */
bool sincos_fits(int kind, int embed_dim);

/* Fills pos_embed [rows, embed_dim]: rows are those of all tokens or of the patches, as
 * config->positions says. */
void sincos_positions(int kind, const vit_config *config, float *to);

#endif
