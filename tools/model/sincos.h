/* sincos.h - positions that are computed from sines and cosines and not kept in checkpoints. */
#ifndef SINCOS_H
#define SINCOS_H

#include "vit.h"

/* Places of pos_sincos' words. */
enum { SINCOS_NONE, SINCOS_SIMPLE_VIT, SINCOS_MAE, SINCOS_1D };

/* Fills pos_embed [rows, embed_dim]: rows are those of all tokens or of the patches, as
 * config->positions says. */
void sincos_positions(int kind, const vit_config *config, float *to);

#endif
