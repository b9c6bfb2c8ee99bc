/* attention.h - computes the attention of a model: how strongly its tokens attend to each other. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* Chooses the attention that attention_read computes for one image. The attention map of a head is
 * a matrix [num_tokens, num_tokens]; row i has the shares of attention that token i gives to
 * each token. */
typedef struct attention_choice {
    int block; /* number of the block, from 0 as in timm */
    /* index of the attending token, whose row is read; -1 for the mean over the rows of all
     * tokens */
    int from;
    bool rollout; /* true: compute a rollout over all blocks (tokens.h), and ignore `block` */
} attention_choice;

/* Returns false if the model has no attention maps, because it has no blocks, or because each token
 * attends only to itself. */
bool attention_check(const vit_config *config, report *r);

/* Computes the share of attention that each token receives, including the prefix tokens. For a
 * block, `shares` is [num_heads, num_tokens], with a row for each head. For a rollout, `shares` is
 * [num_tokens]. `input` is [in_chans, img_height, img_width]. */
bool attention_read(vit_session *session, const float *input, const attention_choice *choice,
                    float *shares, report *r);

/* Copies the shares of the patches, without the prefix tokens, from shares [rows, num_tokens] to
 * map [num_patches]. Uses row `only`, or the mean of all rows if `only` is -1. */
void attention_map(const vit_config *config, const float *shares, int rows, int only, float *map);

#endif
