#include "layout/heads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/stacked.h"

enum {
    LEAST_ROWS = 4, WIDEST = 4096,
    LEAST_COLUMNS = 32, COLUMNS = 256      /* of a row: so many tell rows apart */
};

/* A second at most. Of wide rows it takes fewer columns, of deep models fewer blocks. */
static const double most_products = 4e9, most_of_block = 5e8;

/* A score is in standard deviations. Shuffled rows of trained models stay below 7. Halves and
 * doubles of the right number score up to 0.7 of it, rarely more. */
static const double least_score = 10, most_ambiguity = 0.85;

/* Parts of a head that are rather heads themselves: elsewhere their score is below 4, or below a
 * thirtieth of that of the heads. */
static const double least_of_parts = 5, share_of_parts = 0.1;

/* The sources of one block, and room for its values: `width` rows of `columns` each. */
typedef struct heads_reader {
    const layout_map *map;
    stacked qkv, proj;
    int64_t width, depth, columns;
    int64_t rows;         /* of the groups in which heads are looked for */
    float *values[4];     /* q, k, v, proj's columns */
    float *line;          /* a row of proj */
    double *row_sums;
    double z[2][HEADS_MOST];   /* q with k, v with proj: sums over the blocks */
} heads_reader;

/* === Reading === */

static bool find_sources(heads_reader *h, int block)
{
    const int64_t count = h->width * h->depth;
    return stacked_find(h->map, block, "attn.qkv.weight", h->width, h->depth, &h->qkv) &&
           stacked_find(h->map, block, "attn.proj.weight", h->width, h->width, &h->proj) &&
           h->qkv.count == 3 * count && h->proj.count == count;
}

/* The beginnings of `width` rows of qkv. */
static bool read_rows(heads_reader *h, int64_t first, float *to, report *r)
{
    int64_t i;
    for (i = 0; i < h->width; i++)
        if (!stacked_read(h->map, &h->qkv, (first + i) * h->depth, h->columns,
                          to + i * h->columns, r))
            return false;
    return true;
}

static bool read_columns(heads_reader *h, float *to, report *r)
{
    int64_t i, k;
    for (k = 0; k < h->columns; k++) {
        if (!stacked_read(h->map, &h->proj, k * h->width, h->width, h->line, r)) return false;
        for (i = 0; i < h->width; i++) to[i * h->columns + k] = h->line[i];
    }
    return true;
}

static void normalise(float *row, int64_t count)
{
    double squares = 0;
    int64_t k;
    for (k = 0; k < count; k++) squares += (double)row[k] * (double)row[k];
    for (k = 0; squares > 0 && k < count; k++) row[k] = (float)((double)row[k] / sqrt(squares));
}

static bool read_block(heads_reader *h, report *r)
{
    int64_t row;
    int i;
    for (i = 0; i < 3; i++)
        if (!read_rows(h, i * h->width, h->values[i], r)) return false;
    if (!read_columns(h, h->values[3], r)) return false;
    for (i = 0; i < 4; i++)
        for (row = 0; row < h->width; row++)
            normalise(h->values[i] + row * h->columns, h->columns);
    return true;
}

/* === Comparing === */

static double dot(const float *x, const float *y, int64_t count)
{
    float sums[8] = { 0 }, rest = 0;
    int64_t k;
    int i;
    for (k = 0; k + 8 <= count; k += 8)
        for (i = 0; i < 8; i++) sums[i] += x[k + i] * y[k + i];
    for (; k < count; k++) rest += x[k] * y[k];
    for (i = 0; i < 8; i++) rest += sums[i];
    return (double)rest;
}

/* What the heads of one number are compared by, added up over the groups of a block. */
typedef struct heads_sums {
    double excess[HEADS_MOST], spread[HEADS_MOST];
} heads_sums;

/* Adds up how much each row resembles those before it, and of these those in its own head. */
static double add_pairs(heads_reader *h, const float *x, const float *y,
                        const heads_evidence *evidence, double *inside, double *line)
{
    const int64_t n = h->rows, columns = h->columns;
    double squares = 0;
    int64_t i, j;
    int c;
    memset(h->row_sums, 0, (size_t)n * sizeof *h->row_sums);
    for (i = 0; i < n; i++) {
        for (j = 0; j < i; j++) {
            line[j] = dot(x + i * columns, x + j * columns, columns) *
                      dot(y + i * columns, y + j * columns, columns);
            h->row_sums[i] += line[j];
            h->row_sums[j] += line[j];
            squares += line[j] * line[j];
        }
        for (c = 0; c < evidence->count; c++) {
            const int64_t head_dim = n / evidence->ranked[c].heads;
            for (j = i / head_dim * head_dim; j < i; j++) inside[c] += line[j];
        }
    }
    return squares;
}

/* How much more rows of the same head resemble each other than shuffled rows would, and the
 * variance of that. Mantel's test of two matrices, with what is common to all pairs of one row
 * taken out: heads are of equal size, so that it adds nothing but noise. */
static void add_group(heads_reader *h, const float *x, const float *y,
                      const heads_evidence *evidence, heads_sums *sums)
{
    const double n = (double)h->rows;
    double inside[HEADS_MOST] = { 0 }, total = 0, variance, mean;
    int64_t i;
    int c;
    variance = 2 * add_pairs(h, x, y, evidence, inside, h->row_sums + h->rows);
    for (i = 0; i < h->rows; i++) total += h->row_sums[i];
    mean = total / (n * (n - 1));
    variance -= n * (n - 1) * mean * mean;
    for (i = 0; i < h->rows; i++)
        variance -= 2 * pow(h->row_sums[i] - (n - 1) * mean, 2) / (n - 2);
    for (c = 0; c < evidence->count; c++) {
        const double others = n / evidence->ranked[c].heads - 1, share = others / (n - 1);
        sums->spread[c] += 2 * variance * share * (1 - share) * (n - 1) / (n - 3);
        sums->excess[c] += 2 * inside[c] - n * others * mean;
    }
}

/* In standard deviations. */
static void compare(heads_reader *h, const float *x, const float *y,
                    const heads_evidence *evidence, double *z)
{
    heads_sums sums = { { 0 }, { 0 } };
    int64_t first;
    int c;
    for (first = 0; first < h->width; first += h->rows)
        add_group(h, x + first * h->columns, y + first * h->columns, evidence, &sums);
    for (c = 0; c < evidence->count; c++)
        if (sums.spread[c] > 0) z[c] += sums.excess[c] / sqrt(sums.spread[c]);
}

/* === All blocks === */

/* The numbers that divide the rows, with heads of two at least unless there are few rows. */
static void list_candidates(int64_t width, heads_evidence *out)
{
    const int64_t most = width < 8 ? width : width / 2;
    int heads;
    memset(out, 0, sizeof *out);
    for (heads = 1; heads <= 64 && heads <= most && out->count < HEADS_MOST; heads++) {
        if (width % heads != 0) continue;
        out->ranked[out->count].heads = heads;
        out->ranked[out->count++].score = 0;
    }
}

static int compare_scores(const void *a, const void *b)
{
    const heads_candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->heads - y->heads;
}

static void rank(const heads_reader *h, int blocks, heads_evidence *out)
{
    heads_candidate *ranked = out->ranked;
    int c;
    for (c = 0; c < out->count; c++) {
        ranked[c].score = (fmax(h->z[0][c], 0) + fmax(h->z[1][c], 0)) / sqrt(blocks);
        if (!isfinite(ranked[c].score)) ranked[c].score = 0;   /* as weights that are not */
    }
    qsort(ranked, (size_t)out->count, sizeof *ranked, compare_scores);
    out->is_clear = out->count > 1 && ranked[0].score >= least_score &&
                    ranked[1].score <= most_ambiguity * ranked[0].score;
}

static int64_t count_columns(const heads_reader *h)
{
    const int64_t most = (int64_t)(most_of_block / (double)(2 * h->width * h->width));
    const int64_t columns = most < LEAST_COLUMNS ? LEAST_COLUMNS : most < COLUMNS ? most : COLUMNS;
    return columns < h->depth ? columns : h->depth;
}

static int count_blocks(const heads_reader *h, int depth)
{
    const double most = ceil(most_products / (double)(2 * h->width * h->width * h->columns));
    return most < depth ? (int)most : depth;
}

/* Looks for heads within groups of so many rows. */
static bool read_all(heads_reader *h, int64_t rows, heads_evidence *out, report *r)
{
    const int blocks = count_blocks(h, h->map->depth);
    int i;
    h->rows = rows;
    memset(h->z, 0, sizeof h->z);
    list_candidates(rows, out);
    for (i = 0; i < blocks; i++) {
        const int block = (int)((int64_t)i * h->map->depth / blocks);
        if (!find_sources(h, block)) return out->count = 0, true;
        if (!read_block(h, r)) return false;
        compare(h, h->values[0], h->values[1], out, h->z[0]);
        compare(h, h->values[2], h->values[3], out, h->z[1]);
    }
    rank(h, blocks, out);
    return true;
}

static void move_to_front(heads_evidence *evidence, int heads)
{
    heads_candidate *ranked = evidence->ranked, moved;
    int c = 0;
    while (c < evidence->count && ranked[c].heads != heads) c++;
    if (c == evidence->count) return;
    moved = ranked[c];
    memmove(ranked + 1, ranked, (size_t)c * sizeof *ranked);
    ranked[0] = moved;
}

/* Heads can resemble each other, too: two pairs of them then look like two heads. But rows within
 * one head show no parts. */
static bool check_parts(heads_reader *h, heads_evidence *out, report *r)
{
    const heads_candidate best = out->ranked[0];
    const int64_t rows = h->width / (best.heads > 0 ? best.heads : 1);
    heads_evidence parts;
    if (best.score < least_score || rows < LEAST_ROWS) return true;
    if (!read_all(h, rows, &parts, r)) return false;
    if (parts.ranked[0].score < least_of_parts ||
        parts.ranked[0].score < share_of_parts * best.score)
        return true;
    move_to_front(out, best.heads * parts.ranked[0].heads);
    out->is_clear = false;
    return true;
}

bool heads_read(const layout_map *map, int64_t width, heads_evidence *out, report *r)
{
    heads_reader h;
    size_t size;
    bool good;
    int i;
    memset(out, 0, sizeof *out);
    memset(&h, 0, sizeof h);
    h.map = map;
    h.width = width;
    h.depth = map->embed_dim;
    if (width < LEAST_ROWS || width > WIDEST || h.depth < 1) return true;
    if (!find_sources(&h, 0)) return true;
    h.columns = count_columns(&h);
    size = (size_t)width * (size_t)h.columns;
    h.row_sums = malloc(2 * (size_t)width * sizeof *h.row_sums);
    h.line = malloc((4 * size + (size_t)width) * sizeof *h.line);
    for (i = 0; h.line && i < 4; i++) h.values[i] = h.line + width + (size_t)i * size;
    good = h.line && h.row_sums ? read_all(&h, width, out, r) && check_parts(&h, out, r)
                                : report_no_memory(r);
    free(h.row_sums);
    free(h.line);
    return good;
}
