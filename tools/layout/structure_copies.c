/* A module that is an attribute of two others is stored under two names: "embedding.3.weight" and
 * "encoder.1.3.weight" are one tensor. The later name is left out. Layers that share their weights
 * are another matter: blocks that do differ in a number alone, and of two layers of one block it is
 * not all parts of a module that are the same.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "layout/structure_parts.h"

/* Of which earlier part this one is a copy, and how long the names of their modules are. */
typedef struct part_copy {
    const structure_part *original;   /* NULL: of none */
    size_t from, to;
    size_t storage;                   /* of the weight */
} part_copy;

enum { MOST_NAMES = 8 };              /* of one tensor that are looked at */

static bool same_view(const checkpoint_tensor_info *a, const checkpoint_tensor_info *b)
{
    const size_t size = a ? (size_t)a->ndim * sizeof a->dims[0] : 0;
    if (!a || !b) return a == b;
    return a->storage == b->storage && a->storage_offset == b->storage_offset &&
           a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->dims, b->dims, size) &&
           !memcmp(a->strides, b->strides, size);
}

/* The modules are what is in front of the components that both paths end in. */
static void split_paths(const structure_part *copy, part_copy *c)
{
    const structure_part *original = c->original;
    size_t i = original->path_size, j = copy->path_size;
    c->from = i;
    c->to = j;
    while (i > 0 && j > 0 && original->path[i - 1] == copy->path[j - 1]) {
        i--;
        j--;
        if (copy->path[j] != '.') continue;
        c->from = i;
        c->to = j;
    }
}

static bool differ_in_numbers(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t i = 0, j = 0;
    for (;;) {
        while (i < a_size && isdigit((unsigned char)a[i])) i++;
        while (j < b_size && isdigit((unsigned char)b[j])) j++;
        if (i == a_size || j == b_size) return i == a_size && j == b_size;
        if (a[i++] != b[j++]) return false;
    }
}

static void find_original(const structure_parts *p, part_copy *copies, int copy)
{
    const structure_part *part = &p->parts[copy];
    part_copy *c = &copies[copy];
    int names = 0, i;
    for (i = 0; i < copy && names < MOST_NAMES && !c->original; i++) {
        const structure_part *other = &p->parts[i];
        if (copies[i].storage != c->storage || !same_view(other->weight, part->weight) ||
            !same_view(other->bias, part->bias))
            continue;
        names++;
        c->original = other;
        split_paths(part, c);
        if (c->from == other->path_size || c->to == part->path_size ||
            differ_in_numbers(other->path, c->from, part->path, c->to))
            c->original = NULL;
    }
}

static bool is_under(const structure_part *part, const char *module, size_t size)
{
    return part->path_size > size && part->path[size] == '.' && !memcmp(part->path, module, size);
}

static int count_under(const structure_parts *p, const char *module, size_t size)
{
    int count = 0, i;
    for (i = 0; i < p->count; i++) count += is_under(&p->parts[i], module, size);
    return count;
}

/* Parts from here on that are copies out of one module in another. */
static int count_copies(const structure_parts *p, const part_copy *copies, int first)
{
    const part_copy *a = &copies[first];
    int i;
    for (i = first; i < p->count; i++) {
        const part_copy *b = &copies[i];
        if (!b->original || b->from != a->from || b->to != a->to ||
            !is_under(b->original, a->original->path, a->from) ||
            !is_under(&p->parts[i], p->parts[first].path, a->to))
            break;
    }
    return i - first;
}

static void drop_copies(structure_parts *p, const part_copy *copies)
{
    int i, k, count;
    for (i = 0; i < p->count; i += count) {
        const part_copy *c = &copies[i];
        count = 1;
        if (!c->original) continue;
        count = count_copies(p, copies, i);
        if (count < 2 || count_under(p, p->parts[i].path, c->to) != count ||
            count_under(p, c->original->path, c->from) != count)
            continue;
        for (k = i; k < i + count; k++) {
            p->parts[k].is_dropped = true;
            p->parts[k].reason = "stored under another name too";
        }
    }
}

bool structure_drop_copies(structure_parts *p, report *r)
{
    part_copy *copies = calloc((size_t)p->count, sizeof *copies);
    int i;
    if (!copies) return report_no_memory(r);
    for (i = 0; i < p->count; i++) {
        copies[i].storage = p->parts[i].weight->storage;
        find_original(p, copies, i);
    }
    drop_copies(p, copies);
    free(copies);
    return true;
}
