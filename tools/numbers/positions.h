/* positions.h - a vector for each position of a model's grid, whatever kind of positions it has. */
#ifndef POSITIONS_H
#define POSITIONS_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* What a model tells its patches' positions by. It may have more than one kind.
 *
 *     embedding   the vector that is added to a patch: learned, or sines and cosines in one
 *                 dimension or two. [embed_dim]
 *     rotary      the cosines and sines of a block's angles: the cosine of two positions is the
 *                 mean of cos(angle - angle'), what rotation makes of two equal vectors whose
 *                 pairs are equally long. [head_dim], of all heads if each has its own angles
 *     relative    what a block adds to the scores of a patch with every patch, in all heads.
 *                 [num_heads * num_patches]
 *
 * To add a kind: a row here, its name, its case in has_kind and read_kind. */
typedef enum position_kind {
    POSITIONS_EMBEDDING, POSITIONS_ROTARY, POSITIONS_RELATIVE, POSITIONS_KINDS
} position_kind;

/* "embedding" */
const char *positions_name(position_kind kind);
/* POSITIONS_KINDS: no kind is called so. */
position_kind positions_by_name(const char *name);
bool positions_has(const vit_config *config, position_kind kind);
/* Whether each block has its own. */
bool positions_of_block(const vit_config *config, position_kind kind);
/* The kind of that name or, if it is NULL, the first that the model has. False: it has none. */
bool positions_choose(const vit_config *config, const char *name, position_kind *kind, report *r);

/* Vectors [rows * columns, dim], row by row. */
typedef struct positions {
    float *vectors;
    int rows, columns;
    int dim;
} positions;

/* The model must have the kind. block, from 0 on, is that of relative positions, and of rotary ones
 * where each block has its own. Empty if it fails. */
bool positions_read(const vit_model *model, position_kind kind, int block, positions *p, report *r);
void positions_free(positions *p);

/* The cosine of each position to each: [n, n] for n = rows * columns. */
void positions_cosines(const positions *p, float *cosines);

#endif
