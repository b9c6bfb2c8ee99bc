#include "convert/mapping.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"

/* What was found by structure has a reason for each tensor, a table one for all. */
static const char *reason_of(const conversion *c, const layout_item *item)
{
    const checkpoint_tensor_info *info = item->part_count ? item->parts[0].info : NULL;
    const size_t index = info ? (size_t)(info - checkpoint_tensor(c->checkpoint, 0)) : 0;
    if (!info) return "computed";
    return c->structure.found && index < c->structure.reason_count ? c->structure.reasons[index]
                                                                   : c->map.layout->name;
}

static const char *part_name(const layout_part *part)
{
    return part->info ? part->info->stored_name : "zeros";
}

static void print_item(const conversion *c, const layout_item *item)
{
    char shape[SHAPE_TEXT_SIZE];
    int i;
    printf("%-30s %-20s <- ", item->tensor.name,
           shape_text(item->dims, item->tensor.ndim, shape, sizeof shape));
    for (i = 0; i < item->part_count; i++)
        printf("%s%s", i ? " + " : "", part_name(&item->parts[i]));
    printf("%s(%s)\n", item->part_count ? "   " : "", reason_of(c, item));
}

void mapping_print(const conversion *c)
{
    size_t i;
    for (i = 0; i < c->plan.count; i++)
        if (layout_is_stored(&c->plan.items[i])) print_item(c, &c->plan.items[i]);
    for (i = 0; i < c->structure.dropped_count; i++)
        printf("%-51s <- %s\n", "(dropped)", c->structure.dropped[i]);
    for (i = 0; i < c->plan.dropped_count; i++)
        printf("%-51s <- %s\n", "(dropped)", c->plan.dropped[i].name);
}

static void put_item(json_writer *w, const conversion *c, const layout_item *item)
{
    int i;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "tensor", item->tensor.name);
    json_put_begin(w, "from", '[');
    for (i = 0; i < item->part_count; i++) json_put_text(w, NULL, part_name(&item->parts[i]));
    json_put_end(w, ']');
    json_put_text(w, "reason", reason_of(c, item));
    json_put_end(w, '}');
}

void mapping_put(json_writer *w, const conversion *c)
{
    size_t i;
    json_put_begin(w, "mapping", '[');
    for (i = 0; i < c->plan.count; i++)
        if (layout_is_stored(&c->plan.items[i])) put_item(w, c, &c->plan.items[i]);
    json_put_end(w, ']');
}
