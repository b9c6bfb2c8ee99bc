#include "layout/stacked.h"

#include <stdio.h>

#include "layout/views.h"

bool stacked_find(const layout_map *map, int block, const char *name, int64_t width,
                  int64_t columns, stacked *out)
{
    const layout_sizes one_head = { 0, 0, 1, width };
    layout_match match;
    layout_part *part = out->parts;
    const char *axes;
    char tensor[64];
    snprintf(tensor, sizeof tensor, "blocks.%d.%s", block, name);
    match = layout_find(map, tensor);
    out->part_count = 0;
    out->count = 0;
    if (!match.found || match.rule->method != LAYOUT_STACK) return false;
    for (; layout_peek(map, tensor, out->part_count, part, &axes); part++) {
        if (!part->info || !checkpoint_is_float(part->view.dtype)) return false;
        if (axes && !layout_apply_axes(&part->view, axes, &one_head)) return false;
        if (part->view.count % columns != 0) return false;
        out->part_count++;
        out->count += part->view.count;
    }
    return out->part_count == layout_part_count(match.rule);
}

bool stacked_read(const layout_map *map, const stacked *matrix, int64_t first, int64_t count,
                  float *to, report *r)
{
    const layout_part *part = matrix->parts;
    for (; first >= part->view.count; part++) first -= part->view.count;
    return checkpoint_read(map->checkpoint, &part->view, first, count, to, r);
}
