/* attention.h - reads attention from a model. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Chooses the part of one image's maps that attention_read computes. */
typedef struct attention_choice {
    int block;    /* number of the block, from 0 as in timm */
    int from;     /* the token that attends; -1 for the mean of all tokens */
    bool rollout; /* compute a rollout over all blocks instead; see tokens.h */
} attention_choice;

/* False if the model has no maps, because it has no blocks or each token attends only to itself. */
bool attention_check(const vit_config *config, report *r);

/* Computes the shares of all tokens, including prefix tokens. For a block, they are [num_heads,
 * num_tokens], a row for each head. For a rollout, they are [num_tokens]. `input` is [in_chans,
 * img_height, img_width]. */
bool attention_read(vit_session *session, const float *input, const attention_choice *choice,
                    float *shares, report *r);

/* Computes the map of the patches, [num_patches], from shares [rows, num_tokens]. Uses row `only`,
 * or the mean of all rows if `only` is -1. */
void attention_map(const vit_config *config, const float *shares, int rows, int only, float *map);

#endif
