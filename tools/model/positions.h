/* positions.h - computed positions: rotary ones, sines and cosines. */
#ifndef POSITIONS_H
#define POSITIONS_H

#include <stdbool.h>
#include <stdint.h>

#define VIT_TOOLS
#include "vit.h"

/* === Rotary positions === */

/* Rotary positions, as timm and the models' own code compute them. Each pair of elements of a head
 * has a frequency, and each patch has two coordinates. */

/* timm's names for the kinds of rotary positions. */
typedef enum rope_type {
    ROPE_NONE,
    ROPE_CAT,    /* half of the pairs belong to each axis; neighbours form pairs */
    ROPE_MIXED,  /* learned frequencies for both axes, of each block and head */
    ROPE_DINOV3, /* coordinates in [-1, 1]; elements of the two halves form pairs */
    ROPE_QWEN,   /* like ROPE_CAT, but elements of the two halves form pairs */
} rope_type;

typedef enum rope_indexing {
    ROPE_IJ, /* the row is the first coordinate */
    ROPE_XY, /* the column is the first coordinate */
} rope_indexing;

typedef struct rope_options {
    rope_type type;
    rope_indexing indexing;
    double temperature; /* base of the frequencies */
    double offset;      /* coordinate of the first row and column */
    int reference;      /* side of the grid to which coordinates are scaled; 0: none */
} rope_options;

/* The numbers from which a table of cosines or sines is computed. */
typedef struct rope_grid {
    rope_options options;
    int height, width; /* in patches */
    int pairs;         /* of a head */
} rope_grid;

/* Returns which elements of a head form pairs. */
vit_rope rope_layout(rope_type type);

/* Returns the rotation of a pair by frequencies from the options. */
vit_rotation rope_rotation(const rope_grid *grid, int64_t pair);

/* Returns the rotation by the checkpoint's periods, one for each pair of an axis. */
vit_rotation rope_rotation_of_period(const rope_grid *grid, int64_t pair, const float *periods);

/* Returns the rotation of a pair that has a frequency along each coordinate. */
vit_rotation rope_rotation_mixed(const rope_grid *grid, float first, float second);

/* === Sines and cosines === */

/* Positions that are computed from sines and cosines and not stored in checkpoints. */

/* Indices of pos_sincos' words. From SINCOS_1D on, positions run along the sequence. Even columns
 * have sines, odd columns cosines, and two columns share a frequency. The variants: all sines come
 * before all cosines; each column has its own frequency; each column has its own frequency, and
 * frequencies fall twice as fast; all columns have the frequency 1. */
enum {
    SINCOS_NONE,
    SINCOS_SIMPLE_VIT,
    SINCOS_MAE,
    SINCOS_1D,
    SINCOS_1D_HALVES,
    SINCOS_1D_COLUMN,
    SINCOS_1D_DOUBLE,
    SINCOS_1D_PLAIN,
};

/* True if this kind of positions exists for this width. */
bool sincos_fits(int kind, int embed_dim);

/* Fills pos_embed [rows, embed_dim]. The rows are for all tokens or for the patches, depending on
 * config->positions. */
void sincos_positions(int kind, const vit_config *config, float *to);

#endif
