#include "layout/detect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/views.h"
#include "model/settings.h"

/* === Stacked matrices === */

bool stacked_find(const layout_map *map, int block, const char *name, int64_t width,
                  int64_t columns, stacked *out) {
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
                  float *to, report *r) {
    const layout_part *part = matrix->parts;
    for (; first >= part->view.count; part++) first -= part->view.count;
    return checkpoint_read(map->checkpoint, &part->view, first, count, to, r);
}

/* === The number of heads === */

enum {
    LEAST_ROWS = 4,
    WIDEST = 4096,
    LEAST_COLUMNS = 32,
    COLUMNS = 256, /* number of columns that are read from each row; enough to distinguish rows */
};

/* These limits on the multiplications keep the work below about a second. If rows are wide, only
 * some of their columns are read. If a model is deep, only some of its blocks are read. */
static const double most_products = 4e9, most_of_block = 5e8;

/* The score of a number of heads is a number of standard deviations. If the rows of trained models
 * are shuffled, all scores stay below 7. Half or double the right number of heads rarely scores
 * more than 0.7 times as much as the right number. */
static const double least_score = 10, most_ambiguity = 0.85;

/* If the parts of a supposed head reach the score least_of_parts, and share_of_parts times the
 * score of the heads, each part is a head of its own. Parts of a real head score below 4, or below
 * a thirtieth of the score of the heads. */
static const double least_of_parts = 5, share_of_parts = 0.1;

/* The matrices of one block, and the memory for their values. The memory of each matrix has `width`
 * rows of `columns` values. */
typedef struct heads_reader {
    const layout_map *map;
    stacked qkv, proj;
    int64_t width, depth, columns;
    int64_t rows;     /* rows in each group within which heads are searched */
    float *values[4]; /* the values of q, k, v and of the columns of proj */
    float *line;      /* memory for one row of proj */
    double *row_sums;
    /* the scores of each number of heads, summed over the blocks: [0] of q with k, [1] of v with
     * proj */
    double z[2][HEADS_MOST];
} heads_reader;

/* === Reading === */

static bool find_sources(heads_reader *h, int block) {
    const int64_t count = h->width * h->depth;
    return stacked_find(h->map, block, "attn.qkv.weight", h->width, h->depth, &h->qkv) &&
           stacked_find(h->map, block, "attn.proj.weight", h->width, h->width, &h->proj) &&
           h->qkv.count == 3 * count && h->proj.count == count;
}

/* Reads the first `columns` values of each of `width` rows of qkv. */
static bool read_rows(heads_reader *h, int64_t first, float *to, report *r) {
    int64_t i;
    for (i = 0; i < h->width; i++)
        if (!stacked_read(h->map, &h->qkv, (first + i) * h->depth, h->columns, to + i * h->columns,
                          r))
            return false;
    return true;
}

static bool read_columns(heads_reader *h, float *to, report *r) {
    int64_t i, k;
    for (k = 0; k < h->columns; k++) {
        if (!stacked_read(h->map, &h->proj, k * h->width, h->width, h->line, r)) return false;
        for (i = 0; i < h->width; i++) to[i * h->columns + k] = h->line[i];
    }
    return true;
}

static void normalise(float *row, int64_t count) {
    double squares = 0;
    int64_t k;
    for (k = 0; k < count; k++) squares += (double)row[k] * (double)row[k];
    for (k = 0; squares > 0 && k < count; k++) row[k] = (float)((double)row[k] / sqrt(squares));
}

static bool read_block(heads_reader *h, report *r) {
    int64_t row;
    int i;
    for (i = 0; i < 3; i++)
        if (!read_rows(h, i * h->width, h->values[i], r)) return false;
    if (!read_columns(h, h->values[3], r)) return false;
    for (i = 0; i < 4; i++)
        for (row = 0; row < h->width; row++) normalise(h->values[i] + row * h->columns, h->columns);
    return true;
}

/* === Comparing === */

static double dot(const float *x, const float *y, int64_t count) {
    float sums[8] = { 0 }, rest = 0;
    int64_t k;
    int i;
    for (k = 0; k + 8 <= count; k += 8)
        for (i = 0; i < 8; i++) sums[i] += x[k + i] * y[k + i];
    for (; k < count; k++) rest += x[k] * y[k];
    for (i = 0; i < 8; i++) rest += sums[i];
    return (double)rest;
}

/* Two sums over the groups of a block, for each number of heads. The function `compare` computes
 * the scores from these sums. */
typedef struct heads_sums {
    double excess[HEADS_MOST], spread[HEADS_MOST];
} heads_sums;

/* Sums the similarities of all pairs of rows. h->row_sums receives the sum for each row. For the
 * c-th number of heads, inside[c] grows by the sum over the pairs within one head. Returns the sum
 * of the squares over all pairs. The similarity of two rows is the product of two scalar products:
 * of the two rows in x, and of the two rows in y. */
static double add_pairs(heads_reader *h, const float *x, const float *y,
                        const heads_evidence *evidence, double *inside, double *line) {
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

/* For each number of heads, computes the difference between two similarities: that of rows of one
 * head, and that of shuffled rows. Also computes the variance of this difference. This is Mantel's
 * test of two matrices. First, each row's mean similarity to all other rows is subtracted: it says
 * nothing about the number of heads, which all have one size, and would only add noise. */
static void add_group(heads_reader *h, const float *x, const float *y,
                      const heads_evidence *evidence, heads_sums *sums) {
    const double n = (double)h->rows;
    double inside[HEADS_MOST] = { 0 }, total = 0, variance, mean;
    int64_t i;
    int c;
    variance = 2 * add_pairs(h, x, y, evidence, inside, h->row_sums + h->rows);
    for (i = 0; i < h->rows; i++) total += h->row_sums[i];
    mean = total / (n * (n - 1));
    variance -= n * (n - 1) * mean * mean;
    for (i = 0; i < h->rows; i++) variance -= 2 * pow(h->row_sums[i] - (n - 1) * mean, 2) / (n - 2);
    for (c = 0; c < evidence->count; c++) {
        const double others = n / evidence->ranked[c].heads - 1, share = others / (n - 1);
        sums->spread[c] += 2 * variance * share * (1 - share) * (n - 1) / (n - 3);
        sums->excess[c] += 2 * inside[c] - n * others * mean;
    }
}

/* Adds the score of this block, in standard deviations, to z[c] for the c-th possible number of
 * heads. */
static void compare(heads_reader *h, const float *x, const float *y, const heads_evidence *evidence,
                    double *z) {
    heads_sums sums = { { 0 }, { 0 } };
    int64_t first;
    int c;
    for (first = 0; first < h->width; first += h->rows)
        add_group(h, x + first * h->columns, y + first * h->columns, evidence, &sums);
    for (c = 0; c < evidence->count; c++)
        if (sums.spread[c] > 0) z[c] += sums.excess[c] / sqrt(sums.spread[c]);
}

/* === All blocks === */

/* Lists the possible numbers of heads: the divisors, up to 64, of the number of rows. A head has at
 * least two rows, unless the matrix has fewer than 8 rows. */
static void list_candidates(int64_t width, heads_evidence *out) {
    const int64_t most = width < 8 ? width : width / 2;
    int heads;
    memset(out, 0, sizeof *out);
    for (heads = 1; heads <= 64 && heads <= most && out->count < HEADS_MOST; heads++) {
        if (width % heads != 0) continue;
        out->ranked[out->count].heads = heads;
        out->ranked[out->count++].score = 0;
    }
}

static int compare_scores(const void *a, const void *b) {
    const heads_candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->heads - y->heads;
}

static void rank(const heads_reader *h, int blocks, heads_evidence *out) {
    heads_candidate *ranked = out->ranked;
    int c;
    for (c = 0; c < out->count; c++) {
        ranked[c].score = (fmax(h->z[0][c], 0) + fmax(h->z[1][c], 0)) / sqrt(blocks);
        if (!isfinite(ranked[c].score)) ranked[c].score = 0; /* some weights are not finite */
    }
    qsort(ranked, (size_t)out->count, sizeof *ranked, compare_scores);
    out->is_clear = out->count > 1 && ranked[0].score >= least_score &&
                    ranked[1].score <= most_ambiguity * ranked[0].score;
}

static int64_t count_columns(const heads_reader *h) {
    const int64_t most = (int64_t)(most_of_block / (double)(2 * h->width * h->width));
    const int64_t columns = most < LEAST_COLUMNS ? LEAST_COLUMNS : most < COLUMNS ? most : COLUMNS;
    return columns < h->depth ? columns : h->depth;
}

static int count_blocks(const heads_reader *h, int depth) {
    const double most = ceil(most_products / (double)(2 * h->width * h->width * h->columns));
    return most < depth ? (int)most : depth;
}

/* Searches for heads within groups of `rows` rows, in as many blocks as most_products allows. */
static bool read_all(heads_reader *h, int64_t rows, heads_evidence *out, report *r) {
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

static void move_to_front(heads_evidence *evidence, int heads) {
    heads_candidate *ranked = evidence->ranked, moved;
    int c = 0;
    while (c < evidence->count && ranked[c].heads != heads) c++;
    if (c == evidence->count) return;
    moved = ranked[c];
    memmove(ranked + 1, ranked, (size_t)c * sizeof *ranked);
    ranked[0] = moved;
}

/* Several heads that resemble each other may look like one, but its rows form smaller groups. If
 * so, moves the larger number of heads to the front of *out. */
static bool check_parts(heads_reader *h, heads_evidence *out, report *r) {
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

bool heads_read(const layout_map *map, int64_t width, heads_evidence *out, report *r) {
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

/* === The order of query, key and value === */

enum { MOST_HEADS = 64, KEY_BIAS_WIDEST = 8192, MOST_BLOCKS = 64 };

static const double least_errors = 4,
                    smallest = 1e-6; /* relative to the largest bias of its block */

/* Statistics of the logarithms of the sizes of biases. A size is the root mean square of the biases
 * of one head. Index 1 is for the biases that are supposed to belong to keys, index 0 for all other
 * biases. */
typedef struct sizes {
    double sum[2], squares[2];
    int count[2];
} sizes;

static void add_size(sizes *s, bool is_key, double log_size) {
    s->sum[is_key] += log_size;
    s->squares[is_key] += log_size * log_size;
    s->count[is_key]++;
}

static double mean(const sizes *s, bool is_key) { return s->sum[is_key] / s->count[is_key]; }

/* Returns the square of the standard error of the mean logarithm. */
static double error2(const sizes *s, bool is_key) {
    const double m = mean(s, is_key), variance = s->squares[is_key] / s->count[is_key] - m * m;
    return fmax(variance, 0) / (s->count[is_key] - 1);
}

/* Returns by how many standard errors the mean size of the keys' biases is below that of the other
 * biases. */
static double errors_below(const sizes *s) {
    const double error = sqrt(error2(s, false) + error2(s, true));
    return error > 0 ? (mean(s, false) - mean(s, true)) / error : 0;
}

static double root_mean_square(const float *values, int64_t count) {
    double sum = 0;
    int64_t i;
    for (i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
    return sqrt(sum / (double)count);
}

/* Adds the biases of a block to both statistics. `values` holds the biases of 3 * heads heads: of
 * the queries, keys and values. Ignores a block whose largest size is 0 or infinite. */
static void add_block(const float *values, int64_t count, int heads, sizes *by_head,
                      sizes *by_kind) {
    const int64_t width = count / (3 * heads);
    double size[3 * MOST_HEADS], largest = 0;
    int i;
    for (i = 0; i < 3 * heads; i++) {
        size[i] = root_mean_square(values + i * width, width);
        largest = fmax(largest, size[i]);
    }
    if (!(largest > 0) || !isfinite(largest)) return;
    for (i = 0; i < 3 * heads; i++) {
        const double log_size = log(fmax(size[i] / largest, smallest));
        add_size(by_head, i % 3 == 1, log_size);
        add_size(by_kind, i / heads == 1, log_size);
    }
}

static void decide(const sizes *by_head, const sizes *by_kind, key_bias_evidence *out) {
    const double head = errors_below(by_head), kind = errors_below(by_kind);
    const sizes *best = head > kind ? by_head : by_kind, *next = head > kind ? by_kind : by_head;
    out->is_by_head = head > kind;
    out->is_clear = fmax(head, kind) > least_errors && fmin(head, kind) < least_errors / 2;
    out->best = exp(mean(best, true) - mean(best, false));
    out->next = exp(mean(next, true) - mean(next, false));
}

bool key_bias_read(const layout_map *map, int heads, key_bias_evidence *out, report *r) {
    sizes by_head = { { 0 }, { 0 }, { 0 } }, by_kind = by_head;
    float *values;
    bool good = true;
    int block;
    memset(out, 0, sizeof *out);
    if (heads < 2 || heads > MOST_HEADS || map->embed_dim > KEY_BIAS_WIDEST) return true;
    values = malloc((size_t)(3 * KEY_BIAS_WIDEST) * sizeof *values);
    if (!values) return report_no_memory(r);
    for (block = 0; good && block < map->depth && block < MOST_BLOCKS; block++) {
        const checkpoint_tensor_info *t;
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.stacked.bias", block);
        t = checkpoint_find(map->checkpoint, name);
        if (!t || t->count > 3 * KEY_BIAS_WIDEST || t->count % (3 * heads) != 0) continue;
        good = checkpoint_read(map->checkpoint, t, 0, t->count, values, r);
        if (good) add_block(values, t->count, heads, &by_head, &by_kind);
    }
    free(values);
    if (good && by_head.count[0] > 1) decide(&by_head, &by_kind, out);
    return good;
}

/* === The order of normalisations === */

enum { LEAST_WIDTH = 4, NORM_ORDER_WIDEST = 8192, NORM_ORDER_MOST_BLOCKS = 8 };

/* If the norms are untrained, the difference between both orders is less than one standard
 * error. */
static const double norm_order_least_errors = 2.5;

/* The values that are read from a block: the weights of both norms, and the lengths of the columns
 * of the matrices that may read the norms' outputs. */
typedef struct norm_order_reader {
    const layout_map *map;
    int64_t width, columns;
    /* `before` has the weights of norm2 of the previous block */
    double *norm1, *norm2, *before, *qkv, *fc1;
    float *row;
} norm_order_reader;

typedef struct correlations {
    double sum;
    int count;
} correlations;

static bool read_norm(const norm_order_reader *n, int block, const char *name, double *to,
                      bool *found, report *r) {
    stacked norm;
    int64_t i;
    *found = *found && stacked_find(n->map, block, name, n->width, n->columns, &norm) &&
             norm.count == n->columns;
    if (!*found) return true;
    if (!stacked_read(n->map, &norm, 0, n->columns, n->row, r)) return false;
    for (i = 0; i < n->columns; i++) to[i] = fabs((double)n->row[i]);
    return true;
}

static bool norm_order_read_columns(const norm_order_reader *n, int block, const char *name,
                                    double *to, bool *found, report *r) {
    stacked matrix;
    int64_t first, i;
    *found = *found && stacked_find(n->map, block, name, n->width, n->columns, &matrix);
    if (!*found) return true;
    for (i = 0; i < n->columns; i++) to[i] = 0;
    for (first = 0; first < matrix.count; first += n->columns) {
        if (!stacked_read(n->map, &matrix, first, n->columns, n->row, r)) return false;
        for (i = 0; i < n->columns; i++) to[i] += (double)n->row[i] * (double)n->row[i];
    }
    for (i = 0; i < n->columns; i++) to[i] = sqrt(to[i]);
    return true;
}

static void correlate(const double *x, const double *y, int64_t count, correlations *c) {
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    int64_t i;
    for (i = 0; i < count; i++) {
        mean_x += x[i] / (double)count;
        mean_y += y[i] / (double)count;
    }
    for (i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    if (!(xx > 0) || !(yy > 0) || !isfinite(xx) || !isfinite(yy)) return;
    c->sum += xy / sqrt(xx * yy);
    c->count++;
}

static bool norm_order_read_block(norm_order_reader *n, int block, bool *found, report *r) {
    return read_norm(n, block, "norm1.weight", n->norm1, found, r) &&
           read_norm(n, block, "norm2.weight", n->norm2, found, r) &&
           (block == 0 || read_norm(n, block - 1, "norm2.weight", n->before, found, r)) &&
           norm_order_read_columns(n, block, "attn.qkv.weight", n->qkv, found, r) &&
           norm_order_read_columns(n, block, "mlp.fc1.weight", n->fc1, found, r);
}

static void norm_order_decide(const correlations *pre, const correlations *post, int64_t columns,
                              norm_order_evidence *out) {
    double error;
    if (pre->count == 0 || post->count == 0) return;
    error = sqrt((1.0 / pre->count + 1.0 / post->count) / (double)columns);
    out->pre = pre->sum / pre->count;
    out->post = post->sum / post->count;
    out->is_clear = fabs(out->pre - out->post) > norm_order_least_errors * error;
}

static bool norm_order_read_all(norm_order_reader *n, norm_order_evidence *out, report *r) {
    const int depth = n->map->depth;
    const int blocks = depth < NORM_ORDER_MOST_BLOCKS ? depth : NORM_ORDER_MOST_BLOCKS;
    correlations pre = { 0, 0 }, post = { 0, 0 };
    int i;
    for (i = 0; i < blocks; i++) {
        const int block = (int)((int64_t)i * depth / blocks);
        bool found = true;
        if (!norm_order_read_block(n, block, &found, r)) return false;
        if (!found) return true;
        correlate(n->norm1, n->qkv, n->columns, &pre);
        correlate(n->norm2, n->fc1, n->columns, &pre);
        correlate(n->norm1, n->fc1, n->columns, &post);
        if (block > 0) correlate(n->before, n->qkv, n->columns, &post);
    }
    norm_order_decide(&pre, &post, n->columns, out);
    return true;
}

bool norm_order_read(const layout_map *map, int64_t width, norm_order_evidence *out, report *r) {
    norm_order_reader n = { 0 };
    const size_t size = (size_t)map->embed_dim;
    bool good;
    memset(out, 0, sizeof *out);
    if (map->depth < 1) return true;
    if (map->embed_dim < LEAST_WIDTH || map->embed_dim > NORM_ORDER_WIDEST) return true;
    n.map = map;
    n.width = width;
    n.columns = map->embed_dim;
    n.norm1 = malloc(5 * size * sizeof *n.norm1);
    n.row = malloc(size * sizeof *n.row);
    if (n.norm1) {
        n.norm2 = n.norm1 + size;
        n.before = n.norm2 + size;
        n.qkv = n.before + size;
        n.fc1 = n.qkv + size;
    }
    good = n.norm1 && n.row ? norm_order_read_all(&n, out, r) : report_no_memory(r);
    free(n.norm1);
    free(n.row);
    return good;
}

/* === The order of a patch === */

enum { MIN_STANDARD_ERRORS = 6, MAX_ROWS = 4096, MAX_DEPTH = 1 << 20 };

/* The layout of a flattened patch in memory. A step is a distance between neighbours, in values. */
typedef struct flat_patch {
    int64_t chans, side;
    /* the steps to the next column, to the next row and to the next channel */
    int64_t across, down, plane;
} flat_patch;

static flat_patch flatten(int order, int64_t chans, int64_t side) {
    flat_patch patch = { chans, side, 1, side, side * side };
    if (order == PATCH_ORDER_HWC) {
        patch.across = chans;
        patch.down = side * chans;
        patch.plane = 1;
    }
    return patch;
}

/* Returns the sum of the products of all neighbours in one direction. `step` is the distance
 * between two neighbours, and `other` is that in the other direction. *count grows by the number of
 * the products. */
static double sum_neighbours(const float *row, const flat_patch *patch, int64_t step, int64_t other,
                             int64_t *count) {
    double sum = 0;
    int64_t c, i, j;
    for (c = 0; c < patch->chans; c++)
        for (i = 0; i < patch->side; i++)
            for (j = 0; j + 1 < patch->side; j++) {
                const float *at = row + c * patch->plane + i * other + j * step;
                sum += (double)at[0] * (double)at[step];
            }
    *count += patch->chans * patch->side * (patch->side - 1);
    return sum;
}

/* Sums over all rows: the products of neighbours, and the squares of the values. */
typedef struct smoothness {
    int64_t chans, side; /* channels and side of the patches */
    /* the sum of the products in each of the two orders; the sum of the squares */
    double products[2], squares;
    int64_t count;
} smoothness;

static void add_row(smoothness *s, const float *row) {
    const int64_t count = s->chans * s->side * s->side;
    int64_t i, pairs = 0;
    int order;
    for (order = 0; order < 2; order++) {
        const flat_patch patch = flatten(order, s->chans, s->side);
        s->products[order] += sum_neighbours(row, &patch, patch.across, patch.down, &pairs) +
                              sum_neighbours(row, &patch, patch.down, patch.across, &pairs);
    }
    s->count += pairs / 2;
    for (i = 0; i < count; i++) s->squares += (double)row[i] * (double)row[i];
}

/* Reads the rows of the weight one after the other; each row is a filter. The weight may be stored
 * in any order of dimensions. */
static bool add_rows(const layout_map *map, const checkpoint_tensor_info *view, bool rows_last,
                     smoothness *s, report *r) {
    checkpoint_tensor_info row = *view;
    const int64_t rows = view->dims[rows_last], depth = view->dims[!rows_last];
    float *values = malloc((size_t)depth * sizeof *values);
    bool good = values ? true : report_no_memory(r);
    int64_t i;
    row.ndim = 1;
    row.dims[0] = row.count = depth;
    row.strides[0] = view->strides[!rows_last];
    for (i = 0; good && i < rows && i < MAX_ROWS; i++) {
        row.storage_offset = view->storage_offset + i * view->strides[rows_last];
        good = checkpoint_read(map->checkpoint, &row, 0, depth, values, r);
        if (good) add_row(s, values);
    }
    free(values);
    return good;
}

/* Chooses the order with the larger mean product of neighbours. The difference of the two means is
 * compared with the difference that is expected by chance: sqrt(2 / pairs). */
static void patch_order_decide(const smoothness *s, int64_t values,
                               patch_order_evidence *evidence) {
    const double variance = s->squares / (double)values;
    double mean[2], difference;
    if (!(variance > 0) || s->count == 0) return;
    mean[0] = s->products[0] / (double)s->count / variance;
    mean[1] = s->products[1] / (double)s->count / variance;
    evidence->order = mean[1] > mean[0] ? PATCH_ORDER_HWC : PATCH_ORDER_CHW;
    evidence->best = mean[evidence->order];
    evidence->next = mean[1 - evidence->order];
    difference = (evidence->best - evidence->next) * sqrt((double)s->count / 2);
    evidence->found = evidence->best > 0 && difference > MIN_STANDARD_ERRORS;
}

bool patch_order_read(const layout_map *map, int64_t chans, patch_order_evidence *evidence,
                      report *r) {
    smoothness s = { 0, 0, { 0, 0 }, 0, 0 };
    layout_part part;
    const char *axes;
    int64_t depth, rows;
    bool rows_last;
    int side;
    memset(evidence, 0, sizeof *evidence);
    if (!layout_peek(map, "patch_embed.proj.weight", 0, &part, &axes)) return true;
    if (part.view.ndim != 2 || !checkpoint_is_float(part.view.dtype)) return true;
    rows_last = axes[0] == '(';
    depth = part.view.dims[!rows_last];
    rows = part.view.dims[rows_last];
    if (chans == 0) chans = depth % 3 == 0 && choices_is_square(depth / 3, &side) ? 3 : 1;
    if (chans < 1 || depth % chans || !choices_is_square(depth / chans, &side)) return true;
    if (depth > MAX_DEPTH) return true;
    if (chans == 1 || side == 1) {
        evidence->found = true;
        return true;
    }
    s.chans = chans;
    s.side = side;
    if (!add_rows(map, &part.view, rows_last, &s, r)) return false;
    patch_order_decide(&s, (rows < MAX_ROWS ? rows : MAX_ROWS) * depth, evidence);
    return true;
}
