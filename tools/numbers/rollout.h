/* rollout.h - where attention leads: from one token, or from all, through one block or many. */
#ifndef ROLLOUT_H
#define ROLLOUT_H

/* A share of each token, [num_tokens]: all of it at token `from`, or, if that is -1, the same of
 * all tokens, which makes what follows the mean over the queries. */
void rollout_begin(double *shares, int num_tokens, int from);

/* Attention rollout (Abnar and Zuidema, arXiv 2005.00928) through one more block, from the last to
 * the first: shares = shares A, where A is the mean of the block's maps [num_heads, num_tokens,
 * num_tokens], plus the identity for the residual, its rows scaled to the sum 1. So shares is the
 * row of the product of all A that belongs to the token, at N^2 operations a block instead of N^3.
 * scratch is [2, num_tokens]. */
void rollout_block(double *shares, const float *maps, int num_heads, int num_tokens,
                   double *scratch);

/* shares = shares map, of one head [num_tokens, num_tokens], without residual. scratch is
 * [num_tokens]. */
void rollout_head(double *shares, const float *map, int num_tokens, double *scratch);

#endif
