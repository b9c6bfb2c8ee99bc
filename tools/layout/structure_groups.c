/* Blocks are what repeats. A name with a number, "enc.layers.3.norm", is in the series
 * "enc.layers." at 3. Two numbers of a series are alike if the same names of the same shapes
 * follow them. A run of numbers that are all alike, or alike every second one, is a run of blocks
 * if it has what a block needs: a norm, a matrix that reads tokens and one that writes them.
 */
#include "layout/structure_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PERIOD = 6, MAX_NUMBERS = 8, MAX_PLACES = 1024 };

/* A number in the path of a part. */
typedef struct numbered {
    structure_part *part;
    size_t before;          /* letters before the number ... */
    size_t after;           /* ... and up to its end */
    int number;
} numbered;

/* Numbers one after the other that are alike, `period` of them to a block. */
typedef struct block_run {
    const numbered *first;  /* of the entries, which are sorted by series and number */
    size_t count;           /* entries */
    int blocks, period;
    int64_t elements;       /* of all its tensors */
    bool is_complete;
} block_run;

typedef struct group_search {
    numbered *entries;
    size_t count, capacity;
} group_search;

/* === All numbers === */

static bool add_entry(group_search *g, structure_part *part, size_t before, size_t after)
{
    numbered *entry;
    if (after - before > 4) return true;   /* no number of a block */
    if (g->count == g->capacity) {
        numbered *grown = realloc(g->entries, (2 * g->capacity + 64) * sizeof *grown);
        if (!grown) return false;
        g->entries = grown;
        g->capacity = 2 * g->capacity + 64;
    }
    entry = &g->entries[g->count++];
    entry->part = part;
    entry->before = before;
    entry->after = after;
    entry->number = atoi(part->path + before);
    return true;
}

static bool add_numbers(group_search *g, structure_part *part)
{
    const char *path = part->path;
    size_t at = 0;
    int found = 0;
    while (path[at] && found < MAX_NUMBERS) {
        const size_t start = at;
        while (isdigit((unsigned char)path[at])) at++;
        if (at == start) {
            at++;
            continue;
        }
        found++;
        if (!add_entry(g, part, start, at)) return false;
    }
    return true;
}

static int compare_texts(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static bool same_series(const numbered *a, const numbered *b)
{
    return !compare_texts(a->part->path, a->before, b->part->path, b->before);
}

/* By series, number, then in the order of the file. */
static int compare_entries(const void *x, const void *y)
{
    const numbered *a = x, *b = y;
    const int order = compare_texts(a->part->path, a->before, b->part->path, b->before);
    if (order) return order;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return (a->part > b->part) - (a->part < b->part);
}

/* === Alike === */

static bool same_shape(const checkpoint_tensor_info *a, const checkpoint_tensor_info *b)
{
    if (!a || !b) return a == b;
    return a->ndim == b->ndim && !memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims);
}

static const char *rest_of(const numbered *e)
{
    return e->part->path + e->after;
}

static bool are_alike(const numbered *a, const numbered *b)
{
    return !strcmp(rest_of(a), rest_of(b)) && same_shape(a->part->weight, b->part->weight) &&
           same_shape(a->part->bias, b->part->bias);
}

/* Entries of the number that begins here. */
static size_t number_length(const numbered *e, const numbered *end)
{
    const numbered *at = e;
    while (at < end && at->number == e->number) at++;
    return (size_t)(at - e);
}

/* Entries of `period` numbers; 0: there are not so many. */
static size_t period_length(const numbered *e, const numbered *end, int period)
{
    const numbered *at = e;
    for (; period > 0; period--) {
        if (at >= end) return 0;
        at += number_length(at, end);
    }
    return (size_t)(at - e);
}

static bool alike_at(const numbered *a, const numbered *b, size_t length)
{
    size_t i;
    for (i = 0; i < length; i++)
        if (!are_alike(&a[i], &b[i])) return false;
    return true;
}

/* === Runs === */

/* Has it a norm, a matrix that reads tokens, and one that writes them? */
static bool looks_complete(const numbered *e, size_t length)
{
    size_t i, j;
    bool norm = false, pair = false;
    for (i = 0; i < length; i++) {
        const structure_part *a = e[i].part;
        norm = norm || a->kind == PART_NORM || a->kind == PART_VECTOR;
        for (j = 0; j < length && !pair; j++) {
            const structure_part *b = e[j].part;
            pair = i != j && a->kind == PART_MATRIX && b->kind == PART_MATRIX &&
                   a->cols == b->rows;
        }
    }
    return norm && pair;
}

/* A single group could be the whole model, or more of it than a block. */
static bool is_one_block(const numbered *e, size_t length)
{
    structure_part part;
    size_t i;
    for (i = 0; i < length; i++) {
        part.kind = e[i].part->kind;
        structure_read_words(&part, rest_of(&e[i]));
        if (part.kind == PART_CONV || part.kind == PART_TABLE ||
            structure_says(&part,
                           "patch patches pos position positional cls class head classifier"))
            return false;
    }
    return true;
}

/* The run that begins here with this period. */
static block_run run_at(const numbered *e, const numbered *end, int period)
{
    block_run run = { NULL, 0, 0, 0, 0, false };
    const size_t length = period_length(e, end, period);
    size_t i;
    if (length == 0) return run;
    run.first = e;
    run.blocks = 1;
    run.period = period;
    run.count = length;
    while (period_length(e + run.count, end, period) == length &&
           alike_at(e, e + run.count, length)) {
        run.blocks++;
        run.count += length;
    }
    for (i = 0; i < run.count; i++) run.elements += e[i].part->weight->count;
    if (length <= MAX_PLACES && (run.blocks > 1 || period == 1))
        run.is_complete = looks_complete(e, length) && (run.blocks > 1 || is_one_block(e, length));
    return run;
}

/* Complete ones first; then two blocks or more; then those that explain most; then the shortest
 * series, which is the outermost. */
static bool is_better(const block_run *a, const block_run *b)
{
    if (!b->first) return a->first != NULL;
    if (a->is_complete != b->is_complete) return a->is_complete;
    if ((a->blocks > 1) != (b->blocks > 1)) return a->blocks > 1;
    if (a->elements != b->elements) return a->elements > b->elements;
    if (a->period != b->period) return a->period < b->period;
    return a->first->before < b->first->before;
}

/* The best run within one series. What begins within a run is a part of it. */
static void search_series(const numbered *first, const numbered *end, block_run *best)
{
    const numbered *e, *after[MAX_PERIOD + 1] = { NULL };
    int period;
    for (e = first; e < end; e += number_length(e, end))
        for (period = 1; period <= MAX_PERIOD; period++) {
            block_run run;
            if (after[period] && e < after[period]) continue;
            run = run_at(e, end, period);
            if (!run.first || (run.blocks == 1 && period > 1)) continue;
            after[period] = e + run.count - run.count / (size_t)run.blocks;
            if (is_better(&run, best)) *best = run;
        }
}

/* === Blocks === */

static void mark(const block_run *run, int first_place)
{
    const size_t length = run->count / (size_t)run->blocks;
    size_t i;
    for (i = 0; i < run->count; i++) {
        structure_part *part = run->first[i].part;
        part->block = (int)(i / length);
        part->place = first_place + (int)(i % length);
        part->inner = rest_of(&run->first[i]);
    }
}

static bool overlaps(const block_run *run)
{
    size_t i;
    for (i = 0; i < run->count; i++)
        if (run->first[i].part->block >= 0) return true;
    return false;
}

/* Is the number a component of the path, as in "norms.0.weight"? */
static bool is_component(const numbered *e)
{
    const char *path = e->part->path;
    return (e->before == 0 || path[e->before - 1] == '.') && (!path[e->after] ||
                                                              path[e->after] == '.');
}

static size_t series_end(const group_search *g, size_t first)
{
    size_t end = first + 1;
    while (end < g->count && same_series(&g->entries[first], &g->entries[end])) end++;
    return end;
}

/* Lists beside each other, "norms.0", "attns.0", "mlps.0", are one block together. Their series
 * tell what the parts are. */
static int join_lists(const group_search *g, int blocks, bool components, int places)
{
    size_t i, next;
    for (i = 0; i < g->count; i = next) {
        block_run run;
        next = series_end(g, i);
        run = run_at(&g->entries[i], &g->entries[next], 1);
        if (run.blocks != blocks || run.count != next - i || overlaps(&run) ||
            is_component(&g->entries[i]) != components || run.count > (size_t)MAX_PLACES)
            continue;
        mark(&run, places);
        places += (int)(run.count / (size_t)run.blocks);
        for (; i < next; i++) g->entries[i].part->inner = g->entries[i].part->path;
    }
    return places;
}

/* Has the first block of joined lists what a block needs? If not, they are none. */
static bool keep_lists(structure_parts *p)
{
    int norms = 0, matrices = 0, i;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].block != 0) continue;
        norms += p->parts[i].kind == PART_NORM;
        matrices += p->parts[i].kind == PART_MATRIX;
    }
    if (norms > 0 && matrices > 1) return true;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].block < 0) continue;
        p->parts[i].block = p->parts[i].place = -1;
        p->parts[i].inner = p->parts[i].path;
    }
    return false;
}

/* Numbers that are components of a path first, then those in the middle of a word. */
static bool join_all_lists(structure_parts *p, const group_search *g, int blocks)
{
    const int places = join_lists(g, blocks, true, 0);
    return join_lists(g, blocks, false, places) > 0 && keep_lists(p);
}

static void count_places(structure_parts *p)
{
    int i;
    p->depth = p->places = 0;
    for (i = 0; i < p->count; i++) {
        if (p->parts[i].block >= p->depth) p->depth = p->parts[i].block + 1;
        if (p->parts[i].place >= p->places) p->places = p->parts[i].place + 1;
    }
}

/* Words of what follows the block's number. Blocks that are numbered within their name, as
 * "block3_attn", begin with the rest of it. */
static bool index_blocks(structure_parts *p, report *r)
{
    int i;
    p->in_blocks = calloc((size_t)p->depth * (size_t)p->places + 1, sizeof *p->in_blocks);
    if (!p->in_blocks) return report_no_memory(r);
    for (i = 0; i < p->count; i++) {
        structure_part *part = &p->parts[i];
        if (part->block < 0) continue;
        p->in_blocks[part->block * p->places + part->place] = part;
        structure_read_words(part, part->inner);
    }
    return true;
}

/* The most common length of the norms in a block; a norm of heads is shorter. */
static int64_t find_width(const structure_parts *p)
{
    int64_t width = 0;
    int most = 0, i, j;
    for (i = 0; i < p->places; i++) {
        const structure_part *a = structure_at(p, 0, i);
        int count = 0;
        if (a->kind != PART_NORM && a->kind != PART_VECTOR) continue;
        for (j = 0; j < p->places; j++) {
            const structure_part *b = structure_at(p, 0, j);
            count += b->rows == a->rows && (b->kind == PART_NORM || b->kind == PART_VECTOR);
        }
        if (count < most || (count == most && a->rows <= width)) continue;
        most = count;
        width = a->rows;
    }
    return width;
}

/* === A single block whose parts have no number === */

/* The most common length of all norms. */
static int64_t common_norm(const structure_parts *p)
{
    int64_t length = 0;
    int most = 1, i, j;
    for (i = 0; i < p->count; i++) {
        int count = 0;
        for (j = 0; p->parts[i].kind == PART_NORM && j < p->count; j++)
            count += p->parts[j].kind == PART_NORM && p->parts[j].rows == p->parts[i].rows;
        if (count <= most) continue;
        most = count;
        length = p->parts[i].rows;
    }
    return length;
}

static bool is_outside(const structure_part *part)
{
    return part->is_dropped ||
           structure_says(part, "patch patches pos position positional cls class head classifier "
                          "embed embedding final last");
}

/* Does another matrix read what this one gives, or its third? */
static bool is_read(const structure_parts *p, const structure_part *part)
{
    int i;
    for (i = 0; i < p->count; i++) {
        const structure_part *other = &p->parts[i];
        if (other == part || other->kind != PART_MATRIX || other->is_outside) continue;
        if (other->cols == part->rows || (part->rows % 3 == 0 && other->cols == part->rows / 3))
            return true;
    }
    return false;
}

static bool may_be_in_block(const structure_parts *p, const structure_part *part, int64_t width)
{
    if (part->is_outside) return false;
    if (part->kind == PART_NORM) return part->rows == width;
    if (part->kind != PART_MATRIX) return false;
    return (part->cols == width && is_read(p, part)) ||
           (part->rows == width && part->cols != width && is_read(p, part));
}

/* Of three norms the last is that after the block. */
static void take_single_block(structure_parts *p)
{
    const int64_t width = common_norm(p);
    int norms = 0, i;
    if (width == 0) return;
    for (i = 0; i < p->count; i++) p->parts[i].is_outside = is_outside(&p->parts[i]);
    for (i = 0; i < p->count && p->places < MAX_PLACES; i++) {
        structure_part *part = &p->parts[i];
        if (!may_be_in_block(p, part, width)) continue;
        if (part->kind == PART_NORM && ++norms > 2) continue;
        part->block = 0;
        part->place = p->places++;
    }
}

/* The best of all runs; with `beside`, of those that share nothing with the blocks. */
static block_run find_best(const group_search *g, bool beside)
{
    block_run best = { NULL, 0, 0, 0, 0, false };
    size_t i;
    for (i = 0; i < g->count; i = series_end(g, i)) {
        const numbered *first = &g->entries[i], *end = g->entries + series_end(g, i);
        block_run run = { NULL, 0, 0, 0, 0, false };
        search_series(first, end, &run);
        if (run.first && (!beside || !overlaps(&run)) && is_better(&run, &best)) best = run;
    }
    return best;
}

static int64_t norm_length(const block_run *run)
{
    size_t i;
    for (i = 0; i < run->count; i++)
        if (run->first[i].part->kind == PART_NORM) return run->first[i].part->rows;
    return run->first->part->rows;
}

/* "encoder.layers.*" */
static void put_series(const block_run *run, char *text, size_t size)
{
    snprintf(text, size, "%.*s*", (int)run->first->before, run->first->part->path);
}

/* An encoder with a decoder, or stages: neither may be left out without a word. */
static bool check_alone(const group_search *g, const block_run *best, report *r)
{
    const block_run other = find_best(g, true);
    char a[300], b[300];
    if (best->blocks < 2 || !other.is_complete || other.blocks < 2) return true;
    put_series(best, a, sizeof a);
    put_series(&other, b, sizeof b);
    return report_fail(r, "two groups of tensors look like the blocks of a transformer: %d of %s, "
                       "%lld wide, and %d of %s, %lld wide. A model in stages, such as Swin, is "
                       "none that vit.h can run; of an encoder and a decoder, --ignore '%s' drops "
                       "one", best->blocks, a, (long long)norm_length(best), other.blocks, b,
                       (long long)norm_length(&other), strstr(a, "dec") ? a : b);
}

static bool find_groups(structure_parts *p, group_search *g, report *r)
{
    block_run best;
    int k;
    for (k = 0; k < p->count; k++)
        if (!p->parts[k].is_dropped && !add_numbers(g, &p->parts[k])) return report_no_memory(r);
    if (g->count > 0) qsort(g->entries, g->count, sizeof *g->entries, compare_entries);
    best = find_best(g, false);
    if (best.is_complete) {
        mark(&best, 0);
        if (!check_alone(g, &best, r)) return false;
    } else if (best.blocks < 2 || !join_all_lists(p, g, best.blocks)) {
        take_single_block(p);
    }
    count_places(p);
    if (p->places == 0)
        return report_fail(r, "no group of tensors looks like a block of a transformer: a norm as "
                           "wide as a token, and matrices that read and write as many values");
    return index_blocks(p, r);
}

bool structure_find_blocks(structure_parts *p, report *r)
{
    group_search g = { NULL, 0, 0 };
    const bool good = find_groups(p, &g, r);
    free(g.entries);
    if (!good) return false;
    p->width = find_width(p);
    return p->width > 0 || report_fail(r, "no norm in a block shows the width of a token");
}
