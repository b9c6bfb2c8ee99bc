/* norm_order.h - reads from trained weights whether a block's norms come before attention and the
 * MLP or after the sums with what these give.
 *
 * Scaling what a norm gives and dividing the columns of the matrix that reads it changes nothing,
 * so that training moves both the same way: a norm's weights correlate with the lengths of its
 * reader's columns, and hardly with those of other matrices.
 */
#ifndef NORM_ORDER_H
#define NORM_ORDER_H

#include "layout/rules.h"
#include "model/resolve.h"

/* After embed_dim is known; width is that of attention. False: the weights cannot be read. */
bool norm_order_read(const layout_map *map, int64_t width, norm_order_evidence *out, report *r);

#endif
