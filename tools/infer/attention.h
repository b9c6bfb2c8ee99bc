/* attention.h - what tokens attend to, through a model. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "base/report.h"
#define VIT_TOOLS
#include "vit.h"

/* What is read of the maps of one image. */
typedef struct attention_choice {
    int block;    /* from 0 on, as in timm                                      */
    int from;     /* the token that attends; -1: the mean of all                */
    bool rollout; /* attention rollout over all blocks, see tokens.h, instead   */
} attention_choice;

/* False: the model has no maps, since it has no blocks or each token attends to itself alone. */
bool attention_check(const vit_config *config, report *r);

/* Shares of all tokens, prefix tokens included: [num_heads, num_tokens], one row for each head of
 * the block; [num_tokens] of rollout. input is [in_chans, img_height, img_width]. */
bool attention_read(vit_session *session, const float *input, const attention_choice *choice,
                    float *shares, report *r);

/* The map of the patches, [num_patches], out of shares [rows, num_tokens]: row `only`, or, if that
 * is -1, the mean of all. */
void attention_map(const vit_config *config, const float *shares, int rows, int only, float *map);

#endif
