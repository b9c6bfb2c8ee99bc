/* stacked.h - a matrix of the .vit file as its parts, one below the other, before a plan is made:
 * for what looks at the weights to find out what the model is.
 */
#ifndef STACKED_H
#define STACKED_H

#include "layout/rules.h"

typedef struct stacked {
    layout_part parts[LAYOUT_MAX_PARTS];
    int part_count;
    int64_t count;       /* of all values */
} stacked;

/* `width` is that of attention: as one head, rows come in the order of the file. False: there is no
 * such tensor, or its rows of `columns` values cannot be told before the settings are known. */
bool stacked_find(const layout_map *map, int block, const char *name, int64_t width,
                  int64_t columns, stacked *out);

/* Values of one row, which no two parts share. */
bool stacked_read(const layout_map *map, const stacked *matrix, int64_t first, int64_t count,
                  float *to, report *r);

#endif
