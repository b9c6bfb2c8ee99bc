/* evidence.h - what the values of trained weights show of a model where no name tells: the number
 * of heads, the order of queries, keys and values, of normalisations, and of a patch's elements.
 */
#ifndef EVIDENCE_H
#define EVIDENCE_H

#include "layout/rules.h"
#include "model/resolve.h"

/* === Stacked matrices === */

/* A matrix of the .vit file as its parts, one below the other, before a plan is made: for what
 * looks at the weights to find out what the model is. */

typedef struct stacked {
    layout_part parts[LAYOUT_MAX_PARTS];
    int part_count;
    int64_t count; /* of all values */
} stacked;

/* `width` is that of attention: as one head, rows come in the order of the file. False: there is no
 * such tensor, or its rows of `columns` values cannot be told before the settings are known. */
bool stacked_find(const layout_map *map, int block, const char *name, int64_t width,
                  int64_t columns, stacked *out);

/* Values of one row, which no two parts share. */
bool stacked_read(const layout_map *map, const stacked *matrix, int64_t first, int64_t count,
                  float *to, report *r);

/* === The number of heads === */

/* How many heads attention has, read from trained weights. No tensor's shape shows it,
 * and another number is silently wrong.
 *
 * Row i of q and row i of k enter a model only as the product q_i k_i^T, which is summed over the
 * rows of a head; row i of v and column i of proj likewise. Training pulls all products of one head
 * the same way, so that they resemble each other, and those of two heads do not. Rows that belong
 * to one head can be exchanged for each other, and with them any other division into heads would
 * show no more than chance does.
 */

/* Fills *out for attention of this width, after embed_dim is known: the possible numbers, those for
 * which the weights speak most first. Without blocks, for attention that is wider than 4096 and for
 * a layout that keeps q, k and v in a way that cannot be read before the number is known,
 * out->count is 0. False: the weights cannot be read. */
bool heads_read(const layout_map *map, int64_t width, heads_evidence *out, report *r);

/* === The order of queries, keys and values === */

/* Reads from trained biases whether query, key and value stand together head by head,
 * or all queries first, where no name tells.
 *
 * A key's bias adds the same to all scores of a query, which softmax takes away again: nothing
 * trains it. It stays as small as it began, or shrinks, while those of queries and values grow.
 */

/* Of blocks.N.attn.stacked.bias. False: it cannot be read. */
bool key_bias_read(const layout_map *map, int heads, key_bias_evidence *out, report *r);

/* === The order of normalisations === */

/* Reads from trained weights whether a block's norms come before attention and the
 * MLP or after the sums with what these give.
 *
 * Scaling what a norm gives and dividing the columns of the matrix that reads it changes nothing,
 * so that training moves both the same way: a norm's weights correlate with the lengths of its
 * reader's columns, and hardly with those of other matrices.
 */

/* After embed_dim is known; width is that of attention. False: the weights cannot be read. */
bool norm_order_read(const layout_map *map, int64_t width, norm_order_evidence *out, report *r);

/* === The order of a patch === */

/* Reads from trained weights in which order a patch's values are flattened.
 *
 * The filters of a trained patch embedding are smooth: weights of neighbouring pixels resemble each
 * other. In the right order, and in no other, neighbours are neighbours.
 */

typedef struct patch_order_evidence {
    bool found;
    int order;         /* PATCH_ORDER_... */
    double best, next; /* mean correlation of neighbours, in this order and the other */
} patch_order_evidence;

/* Of the matrix behind patch_embed.proj.weight, whose axes have "(patch)". chans: 0 where nothing
 * says it; then 3 if that leaves a square, else 1. With one channel the orders are the same. */
bool patch_order_read(const layout_map *map, int64_t chans, patch_order_evidence *evidence,
                      report *r);

#endif
