/* patch_order.h - reads from trained weights in which order a patch's values are flattened.
 *
 * The filters of a trained patch embedding are smooth: weights of neighbouring pixels resemble each
 * other. In the right order, and in no other, neighbours are neighbours.
 */
#ifndef PATCH_ORDER_H
#define PATCH_ORDER_H

#include "layout/rules.h"

typedef struct patch_order_evidence {
    bool found;
    int order;           /* PATCH_ORDER_... */
    double best, next;   /* mean correlation of neighbours, in this order and the other */
} patch_order_evidence;

/* Of the matrix behind patch_embed.proj.weight, whose axes have "(patch)". chans: 0 where nothing
 * says it; then 3 if that leaves a square, else 1. With one channel the orders are the same. */
bool patch_order_read(const layout_map *map, int64_t chans, patch_order_evidence *evidence,
                      report *r);

#endif
