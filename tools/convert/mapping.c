#define _POSIX_C_SOURCE 200809L

#include "convert/mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "base/text.h"
#include "layout/groups.h"

/* A line of the table; what differs in the block's number alone is one line. */
typedef struct mapping_row {
    name_groups *ours;
    name_groups *theirs[LAYOUT_MAX_PARTS];
    char shape[SHAPE_TEXT_SIZE];
    const char *why;
} mapping_row;

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

/* === As text === */

static void free_row(mapping_row *row)
{
    int i;
    if (row->ours) groups_free(row->ours);
    free(row->ours);
    for (i = 0; i < LAYOUT_MAX_PARTS; i++) {
        if (row->theirs[i]) groups_free(row->theirs[i]);
        free(row->theirs[i]);
    }
    memset(row, 0, sizeof *row);
}

static bool add_name(name_groups **groups, const char *name)
{
    if (!*groups) *groups = calloc(1, sizeof **groups);
    return *groups && groups_add(*groups, name, "");
}

static bool add_item(mapping_row *row, const conversion *c, const layout_item *item)
{
    int i;
    shape_text(item->dims, item->tensor.ndim, row->shape, sizeof row->shape);
    row->why = reason_of(c, item);
    for (i = 0; i < item->part_count; i++)
        if (!add_name(&row->theirs[i], part_name(&item->parts[i]))) return false;
    return add_name(&row->ours, item->tensor.name);
}

/* Is it that item in another block? */
static bool is_same_item(const layout_item *a, const layout_item *b)
{
    const char *x = strchr(a->tensor.name + strlen("blocks."), '.');
    const char *y = strchr(b->tensor.name + strlen("blocks."), '.');
    return a->block >= 0 && b->block >= 0 && x && y && !strcmp(x, y) &&
           a->part_count == b->part_count && layout_is_stored(b);
}

static void print_row(const mapping_row *row)
{
    char name[GROUP_TEXT_SIZE];
    int i;
    text_print(stdout, "  %-32s %-16s ", group_text(&row->ours->items[0], name), row->shape);
    for (i = 0; i < LAYOUT_MAX_PARTS && row->theirs[i]; i++)
        text_print(stdout, "%s%s", i ? " + " : "", group_text(&row->theirs[i]->items[0], name));
    text_print(stdout, "%s(%s)\n", i ? "  " : "", row->why);
}

/* All blocks at once where their names are alike. */
static bool print_blocks(const conversion *c, const layout_item *first)
{
    mapping_row row = { 0 };
    const layout_item *item = first, *end = c->plan.items + c->plan.count;
    bool good = true;
    int i, differ = 0;
    for (; good && item < end; item++)
        if (is_same_item(first, item)) good = add_item(&row, c, item);
    for (i = 0; i < LAYOUT_MAX_PARTS && row.theirs[i]; i++)
        differ += row.theirs[i]->count > 1 || row.theirs[i]->more > 0;
    if (good && differ == 0) print_row(&row);
    for (item = first; good && differ > 0 && item < end; item++) {
        if (!is_same_item(first, item)) continue;
        free_row(&row);
        good = add_item(&row, c, item);
        if (good) print_row(&row);
    }
    free_row(&row);
    return good;
}

/* One that another block has too is printed with the first of them. */
static bool is_printed(const conversion *c, const layout_item *item)
{
    const layout_item *other;
    for (other = c->plan.items; item->block > 0 && other < item; other++)
        if (is_same_item(item, other)) return true;
    return false;
}

static bool print_item(const conversion *c, const layout_item *item)
{
    mapping_row row = { 0 };
    bool good;
    if (is_printed(c, item)) return true;
    if (item->block >= 0) return print_blocks(c, item);
    good = add_item(&row, c, item);
    if (good) print_row(&row);
    free_row(&row);
    return good;
}

/* A tensor that structure has named, as a plan would have it. */
static layout_item name_item(const checkpoint_tensor_info *info)
{
    layout_item item;
    memset(&item, 0, sizeof item);
    snprintf(item.tensor.name, sizeof item.tensor.name, "%s", info->name);
    item.tensor.ndim = info->ndim;
    memcpy(item.dims, info->dims, sizeof item.dims);
    item.kind = SOURCE_CHECKPOINT;
    item.block = -1;
    (void)sscanf(info->name, "blocks.%d.", &item.block);
    item.part_count = 1;
    item.parts[0].info = info;
    return item;
}

bool mapping_plan_names(conversion *c)
{
    const size_t count = c->structure.found ? c->structure.reason_count : 0;
    size_t i;
    if (c->plan.count > 0 || count == 0) return c->plan.count > 0;
    c->plan.items = calloc(count, sizeof *c->plan.items);
    for (i = 0; c->plan.items && i < count; i++) {
        const checkpoint_tensor_info *info = checkpoint_tensor(c->checkpoint, i);
        if (info->ndim <= 4) c->plan.items[c->plan.count++] = name_item(info);
    }
    return c->plan.items != NULL;
}

void mapping_print(const conversion *c)
{
    bool good = true;
    size_t i;
    puts("mapping");
    for (i = 0; good && i < c->plan.count; i++)
        if (layout_is_stored(&c->plan.items[i])) good = print_item(c, &c->plan.items[i]);
    if (!good) puts("  ...: out of memory");
    if (c->plan.dropped_count > 0) puts("dropped");
    for (i = 0; i < c->plan.dropped_count; i++)
        text_print(stdout, "  %s  (%s)\n", c->plan.dropped[i].name, c->plan.dropped[i].why);
}

/* === As JSON === */

static void put_item(json_writer *w, const conversion *c, const layout_item *item)
{
    int i;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "tensor", item->tensor.name);
    json_put_begin(w, "shape", '[');
    for (i = 0; i < item->tensor.ndim; i++) json_put_integer(w, NULL, item->dims[i]);
    json_put_end(w, ']');
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
