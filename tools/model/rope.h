/* rope.h - how rotary positions rotate, as timm and the models' own code compute them: each
 * pair of elements of a head has a frequency, and each patch two coordinates.
 */
#ifndef ROPE_H
#define ROPE_H

#include <stdint.h>

#define VIT_TOOLS
#include "vit.h"

/* timm's names for its kinds. */
typedef enum rope_type {
    ROPE_NONE,
    ROPE_CAT,      /* one half of the pairs for each axis; neighbours pair up          */
    ROPE_MIXED,    /* learned frequencies for both axes, of each block and head        */
    ROPE_DINOV3    /* coordinates in [-1, 1]; elements of the two halves pair up       */
} rope_type;

typedef enum rope_indexing {
    ROPE_IJ,       /* the row is the first coordinate                                  */
    ROPE_XY        /* the column is                                                    */
} rope_indexing;

typedef struct rope_options {
    rope_type type;
    rope_indexing indexing;
    double temperature;   /* base of the frequencies                                   */
    double offset;        /* coordinate of the first row and column                    */
    int reference;        /* side of the grid that coordinates are scaled to; 0: none  */
} rope_options;

/* What a table of cosines or sines depends on. */
typedef struct rope_grid {
    rope_options options;
    int height, width;    /* in patches */
    int pairs;            /* of a head */
} rope_grid;

/* Which elements of a head pair up. */
vit_rope rope_layout(rope_type type);

/* How a pair rotates, by frequencies from the options ... */
vit_rotation rope_rotation(const rope_grid *grid, int64_t pair);

/* ... or, where the checkpoint gives them, from the periods, one for each pair of an axis ... */
vit_rotation rope_rotation_of_period(const rope_grid *grid, int64_t pair, const float *periods);

/* ... or from the pair's frequencies along each coordinate. */
vit_rotation rope_rotation_mixed(const rope_grid *grid, float first, float second);

#endif
