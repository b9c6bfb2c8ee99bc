/* key_bias.h - reads from trained biases whether query, key and value stand together head by head,
 * or all queries first, where no name tells.
 *
 * A key's bias adds the same to all scores of a query, which softmax takes away again: nothing
 * trains it. It stays as small as it began, or shrinks, while those of queries and values grow.
 */
#ifndef KEY_BIAS_H
#define KEY_BIAS_H

#include "layout/rules.h"
#include "model/resolve.h"

/* Of blocks.N.attn.stacked.bias. False: it cannot be read. */
bool key_bias_read(const layout_map *map, int heads, key_bias_evidence *out, report *r);

#endif
