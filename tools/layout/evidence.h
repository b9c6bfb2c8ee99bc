/* evidence.h - reads from trained weights what no name shows: the number of heads; the order of
 * query, key and value, of the norms, and of a patch's elements.
 */
#ifndef EVIDENCE_H
#define EVIDENCE_H

#include "layout/rules.h"
#include "model/resolve.h"

/* === Stacked matrices === */

/* The parts of a matrix of the .vit file, one below the other, for functions that inspect the
 * weights before a plan exists. */

typedef struct stacked {
    layout_part parts[LAYOUT_MAX_PARTS];
    int part_count;
    int64_t count; /* of all values */
} stacked;

/* `width` is that of attention, taken as a single head, so that rows come in the order of the file.
 * False if there is no such tensor, or its rows of `columns` values depend on unknown settings. */
bool stacked_find(const layout_map *map, int block, const char *name, int64_t width,
                  int64_t columns, stacked *out);

/* Reads values of one row, which lies within a single part. */
bool stacked_read(const layout_map *map, const stacked *matrix, int64_t first, int64_t count,
                  float *to, report *r);

/* === The number of heads === */

/* The number of heads, read from trained weights. No tensor's shape shows it, and a model with a
 * wrong number runs without an error.
 *
 * Row i of q and row i of k affect a model only by the product q_i k_i^T, which is summed over the
 * rows of a head. The same holds for row i of v and column i of proj. Training pulls all products
 * of one head the same way, so they resemble each other, and those of two heads do not. Rows of one
 * head are interchangeable, so a wrong division into heads shows no more than chance.
 */

/* Fills *out for attention of this width, after embed_dim is known: the possible numbers, the best
 * supported first. out->count is 0 if there are no blocks, if attention is wider than 4096, or if
 * the layout's q, k and v can be read only once the number is known. False if the weights cannot be
 * read. */
bool heads_read(const layout_map *map, int64_t width, heads_evidence *out, report *r);

/* === The order of queries, keys and values === */

/* Reads from trained biases whether query, key and value are stored head by head, or all queries
 * first, if no name shows it.
 *
 * A key's bias adds the same to all scores of a query, which softmax removes again, so training
 * does not change it. It stays as small as its initial value, or shrinks, while those of queries
 * and values grow.
 */

/* Reads blocks.N.attn.stacked.bias. False if it cannot be read. */
bool key_bias_read(const layout_map *map, int heads, key_bias_evidence *out, report *r);

/* === The order of normalisations === */

/* Reads from trained weights whether a block's norms come before attention and the MLP or after the
 * sums with their outputs.
 *
 * Scaling a norm's output and dividing the columns of the matrix that reads it changes nothing, so
 * training moves both the same way. A norm's weights therefore correlate with the lengths of the
 * columns of the matrix that reads it, and hardly with those of other matrices.
 */

/* Call it after embed_dim is known; width is that of attention. False if the weights cannot be
   read. */
bool norm_order_read(const layout_map *map, int64_t width, norm_order_evidence *out, report *r);

/* === The order of a patch === */

/* Reads from trained weights the order in which a patch's values are flattened.
 *
 * The filters of a trained patch embedding are smooth: weights of neighbouring pixels resemble each
 * other. Only the right order keeps neighbours next to each other.
 */

typedef struct patch_order_evidence {
    bool found;
    int order;         /* PATCH_ORDER_... */
    double best, next; /* mean correlation of neighbours, in this order and the other */
} patch_order_evidence;

/* Reads the matrix of patch_embed.proj.weight, whose axes have "(patch)". chans 0 means unknown: 3
 * if that leaves a square, else 1. With one channel the orders are the same. */
bool patch_order_read(const layout_map *map, int64_t chans, patch_order_evidence *evidence,
                      report *r);

#endif
