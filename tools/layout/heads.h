/* heads.h - how many heads attention has, read from trained weights. No tensor's shape shows it,
 * and another number is silently wrong.
 *
 * Row i of q and row i of k enter a model only as the product q_i k_i^T, which is summed over the
 * rows of a head; row i of v and column i of proj likewise. Training pulls all products of one head
 * the same way, so that they resemble each other, and those of two heads do not. Rows that belong
 * to one head can be exchanged for each other, and with them any other division into heads would
 * show no more than chance does.
 */
#ifndef HEADS_H
#define HEADS_H

#include "layout/rules.h"
#include "model/resolve.h"

/* Fills *out for attention of this width, after embed_dim is known: the possible numbers, those for
 * which the weights speak most first. Without blocks, for attention that is wider than 4096 and for
 * a layout that keeps q, k and v in a way that cannot be read before the number is known,
 * out->count is 0. False: the weights cannot be read. */
bool heads_read(const layout_map *map, int64_t width, heads_evidence *out, report *r);

#endif
