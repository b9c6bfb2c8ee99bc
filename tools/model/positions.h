/* positions.h - computes positions that checkpoints do not store: rotary positions, and sines and
 * cosines. */
#ifndef POSITIONS_H
#define POSITIONS_H

#include <stdbool.h>
#include <stdint.h>

#define VIT_TOOLS
#include "vit.h"

/* === Rotary positions === */

/* These functions compute rotary positions as timm and the models' own code compute them. Each pair
 * of elements of a head is rotated by an angle. The angle depends on the frequency of the pair and
 * on the two coordinates of the patch. */

/* timm's names for the kinds of rotary positions. */
typedef enum rope_type {
    ROPE_NONE,
    ROPE_CAT,   /* Half of the pairs belong to each axis. Neighbouring elements form a pair. */
    ROPE_MIXED, /* Each block and head has learned frequencies for both axes. */
    /* Coordinates lie in [-1, 1]. Element i of the first half and element i of the second half form
     * a pair. */
    ROPE_DINOV3,
    ROPE_QWEN, /* The same as ROPE_CAT, but with the pairs of ROPE_DINOV3. */
} rope_type;

typedef enum rope_indexing {
    ROPE_IJ, /* the row is the first coordinate */
    ROPE_XY, /* the column is the first coordinate */
} rope_indexing;

typedef struct rope_options {
    rope_type type;
    rope_indexing indexing;
    double temperature; /* the base of the powers that are the frequencies */
    double offset;      /* the coordinate of the first row and of the first column */
    /* The number of patches along a side in training, to which coordinates are scaled. 0 if they
     * are not scaled. */
    int reference;
} rope_options;

/* The numbers from which the rotations are computed. */
typedef struct rope_grid {
    rope_options options;
    int height, width; /* size of the grid in patches */
    int pairs;         /* number of pairs in a head */
} rope_grid;

/* Returns the rule by which the elements of a head form pairs. */
vit_rope rope_layout(rope_type type);

/* Returns the rotation of the pair with index `pair`, with a frequency from grid->options. */
vit_rotation rope_rotation(const rope_grid *grid, int64_t pair);

/* Returns the rotation of the pair with index `pair`, with a period from the checkpoint. `periods`
 * has one period for each pair of an axis. */
vit_rotation rope_rotation_of_period(const rope_grid *grid, int64_t pair, const float *periods);

/* Returns the rotation of a pair whose frequencies along the first and the second coordinate are
 * `first` and `second`. */
vit_rotation rope_rotation_mixed(const rope_grid *grid, float first, float second);

/* === Sines and cosines === */

/* These functions compute positions from sines and cosines. Checkpoints do not store such
 * positions. */

/* The values of the setting pos_sincos. From SINCOS_1D on, positions run along the sequence of
 * tokens. In SINCOS_1D even columns have sines, odd columns have cosines, and two columns share a
 * frequency. The kinds below differ from SINCOS_1D:
 *
 *     HALVES   all sines come before all cosines
 *     COLUMN   each column has its own frequency
 *     DOUBLE   as COLUMN, but column k has the frequency of column 2 k
 *     PLAIN    all columns have the frequency 1
 */
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

/* True if a model of this width can have positions of this kind. */
bool sincos_fits(int kind, int embed_dim);

/* Fills the table pos_embed [rows, embed_dim]. It has a row for each token if config->positions is
 * VIT_POS_ALL, and otherwise a row for each patch. */
void sincos_positions(int kind, const vit_config *config, float *to);

#endif
