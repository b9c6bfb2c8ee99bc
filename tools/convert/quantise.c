#include "convert/quantise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t round16(int n) { return ((size_t)n + 15) / 16 * 16; }

/* Computes y += factor * x for n values. n is a multiple of 16, so compilers can use vector
 * instructions. */
static void add_scaled(float *restrict y, const float *restrict x, float factor, size_t n) {
    size_t i, l;
    for (i = 0; i < n; i += 16)
        for (l = 0; l < 16; l++) y[i + l] += factor * x[i + l];
}

static void parallel_for(const vit_executor *executor, int count, vit_task *task, void *arg) {
    int i;
    if (executor) executor->parallel_for(executor->user, count, task, arg);
    else
        for (i = 0; i < count; i++) task(arg, i);
}

bool quantise_knows(vit_dtype dtype) {
    return dtype == VIT_BF16 || dtype == VIT_I8 || dtype == VIT_I4;
}

/* === The values of each type === */

/* Rounds a value to the nearest bf16 value. Ties go to the value with an even last bit. */
static float to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isfinite(x)) bits += 0x7fffu + (bits >> 16 & 1u);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float to_f16(float x) {
    unsigned char panel[32];
    vit_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.dtype = VIT_F16;
    tensor.layout = VIT_LAYOUT_PANELS;
    tensor.ndim = 1;
    tensor.dims[0] = 1;
    tensor.data = panel;
    vit_pack_panel(VIT_F16, &x, 1, 1, panel);
    vit_unpack_row(&tensor, 0, &x);
    return x;
}

/* Rounds the values of one token in place, as a layer rounds its 8-bit input. The 255 steps cover
 * all values and zero. */
static void input_u8(float *row, int n) {
    float low = 0, high = 0, step, zero;
    int i;
    for (i = 0; i < n; i++) {
        low = row[i] < low ? row[i] : low;
        high = row[i] > high ? row[i] : high;
    }
    step = (high - low) / 255.0f;
    if (!(high - low > 1e-30f)) step = 1;
    zero = rintf(-low / step);
    for (i = 0; i < n; i++) {
        float q = rintf(row[i] / step) + zero;
        row[i] = ((q > 255 ? 255 : q) - zero) * step; /* q is never below 0 */
    }
}

void quantise_input(vit_dtype dtype, float *row, int n) {
    int i;
    if (dtype == VIT_I8 || dtype == VIT_I4) input_u8(row, n);
    for (i = 0; i < n && dtype == VIT_BF16; i++) row[i] = to_bf16(row[i]);
}

/* === Steps === */

/* The quantisation grid of one row of weights. A step is the distance between two neighbouring
 * values. A row in int8 has a single step. A row in int4 has a step for each group. */
typedef struct row_grid {
    vit_dtype dtype;
    /* The number of weights that share a step; 0 for a type without steps. */
    int group;
    /* The lowest and the highest value of weight / step. */
    float low, high;
} row_grid;

/* In int8, a lane is a set of four weights whose products are added in 16 bits. LANE_MAX is the
 * largest allowed sum of the positive weights of a lane, and also of its negative weights. See
 * section "fits16" in vit.h. */
enum { LANE = 4, LANE_MAX = 127 };

/* Returns the index that weight `i` of a lane has in its row. */
static int lane_weight(int lane, int i) { return lane / 2 * 8 + lane % 2 * 2 + i / 2 * 4 + i % 2; }

static int lane_of(int k) { return k / 8 * 2 + k / 2 % 2; }

/* Adds up those weights of a lane that have the given sign (1 or -1). Returns the absolute value of
 * the sum. The lane may extend past the n weights. */
static float lane_sum(const float *w, int n, int lane, float sign) {
    float sum = 0;
    int i;
    for (i = 0; i < LANE; i++) {
        const int k = lane_weight(lane, i);
        if (k < n && w[k] * sign > 0) sum += w[k] * sign;
    }
    return sum;
}

static row_grid grid_of(vit_dtype dtype, int depth) {
    row_grid grid = { VIT_BF16, 0, 0, 0 };
    grid.dtype = dtype;
    if (dtype == VIT_I8) {
        grid.group = depth;
        grid.low = -LANE_MAX;
        grid.high = LANE_MAX;
    } else if (dtype == VIT_I4) {
        grid.group = 32;
        grid.low = -8;
        grid.high = 7;
    }
    return grid;
}

static float nearest(const row_grid *grid, float x, float step) {
    float q;
    if (!grid->group) return to_bf16(x);
    if (!(step < 0 || step > 0)) return 0;
    q = rintf(x / step);
    return (q < grid->low ? grid->low : q > grid->high ? grid->high : q) * step;
}

/* Returns the step that just holds the weights. In int8, `extreme` is the sum of a lane, and the
 * step puts this sum at the limit of a lane. In int4, `extreme` is a weight, and the step puts this
 * weight at the low end of the grid or, if `high` is true, at the high end. */
static float step_for(const row_grid *grid, float extreme, bool high) {
    if (grid->dtype == VIT_I8) return fabsf(extreme) / (float)LANE_MAX;
    return to_f16(extreme / (high ? grid->high : grid->low));
}

/* Changes the rounded weights of one sign in a lane, one step at a time, until the absolute value
 * of their sum is at most LANE_MAX steps or, if `largest` is true, exactly LANE_MAX steps. */
static void fit_lane(const float *w, int n, float step, int lane, float sign, bool largest,
                     float *q) {
    float sum = rintf(lane_sum(q, n, lane, sign) / step);
    while (sum > LANE_MAX || (largest && sum < LANE_MAX)) {
        const float up = sum > LANE_MAX ? -1.0f : 1.0f;
        float least = HUGE_VALF;
        int i, best = -1;
        for (i = 0; i < LANE; i++) {
            const int k = lane_weight(lane, i);
            if (k >= n || !(w[k] * sign > 0) || (up < 0 && !(q[k] * sign > 0))) continue;
            if (best >= 0 && !((q[k] - w[k]) * sign * up < least)) continue;
            least = (q[k] - w[k]) * sign * up;
            best = k;
        }
        if (best < 0) return;
        q[best] = (rintf(q[best] / step) + up * sign) * step;
        sum += up;
    }
}

/* Rounds all weights of a group to the nearest values that the grid and the lanes allow. */
static void round_group(const row_grid *grid, const float *w, int n, float step, float *q) {
    int k, lane;
    for (k = 0; k < n; k++) q[k] = nearest(grid, w[k], step);
    if (grid->dtype != VIT_I8 || !(step > 0)) return;
    for (lane = 0; lane_weight(lane, 0) < n; lane++) {
        fit_lane(w, n, step, lane, 1, false, q);
        fit_lane(w, n, step, lane, -1, false, q);
    }
}

/* Finds the weight that determines the step; *extreme receives its index. In int4, it is the weight
 * with the largest absolute value, which is returned. In int8, it is a weight of the lane with the
 * largest sum, and this sum is returned. */
static float find_extreme(const row_grid *grid, const float *w, int n, int *extreme) {
    float largest = 0;
    int k;
    *extreme = 0;
    for (k = 0; k < n; k++) {
        const float sign = w[k] < 0 ? -1.0f : 1.0f;
        const float size = grid->dtype == VIT_I8 ? lane_sum(w, n, lane_of(k), sign) : fabsf(w[k]);
        if (!(size > fabsf(largest))) continue;
        largest = size * sign;
        *extreme = k;
    }
    return largest;
}

static bool pack_nearest(vit_dtype dtype, float *rows, int num_rows, int depth) {
    vit_tensor tensor;
    void *panel = malloc(vit_pack_panel(dtype, NULL, 0, depth, NULL));
    int row, i;
    memset(&tensor, 0, sizeof tensor);
    tensor.dtype = dtype;
    tensor.layout = VIT_LAYOUT_PANELS;
    tensor.ndim = 2;
    tensor.dims[0] = 16;
    tensor.dims[1] = depth;
    tensor.data = panel;
    for (row = 0; panel && row < num_rows; row += 16) {
        int n = num_rows - row < 16 ? num_rows - row : 16;
        float *first = rows + (size_t)row * (size_t)depth;
        vit_pack_panel(dtype, first, n, depth, panel);
        for (i = 0; i < n; i++) vit_unpack_row(&tensor, i, first + (size_t)i * (size_t)depth);
    }
    free(panel);
    return panel != NULL;
}

/* Rounds int8 rows for quantise_nearest. The lanes of the result are within their limit. */
static bool nearest_lanes(float *rows, int num_rows, int depth) {
    const row_grid grid = grid_of(VIT_I8, depth);
    float *q = malloc((size_t)depth * sizeof *q);
    int row, extreme;
    for (row = 0; q && row < num_rows; row++, rows += depth) {
        const float largest = find_extreme(&grid, rows, depth, &extreme);
        round_group(&grid, rows, depth, step_for(&grid, largest, false), q);
        memcpy(rows, q, (size_t)depth * sizeof *q);
    }
    free(q);
    return q != NULL;
}

bool quantise_nearest(vit_dtype dtype, float *rows, int num_rows, int depth) {
    return dtype == VIT_I8 ? nearest_lanes(rows, num_rows, depth)
                           : pack_nearest(dtype, rows, num_rows, depth);
}

/* === Smoothing === */

enum { SMOOTH_SAMPLES = 256, SMOOTH_ROWS = 256 }; /* enough to compare the values of alpha */

typedef struct smoothing {
    vit_dtype dtype;
    int count, num_rows, depth;
    /* The chosen samples and the chosen weights, [count][depth] and [num_rows][depth]. */
    float *x, *w;
    /* The exact output, which the quantised layer should reproduce, [count][round16(num_rows)]. */
    float *y;
    /* x, w and y after scaling and quantisation. */
    float *x2, *w2, *y2;
    /* w or w2, transposed, [depth][round16(num_rows)]. */
    float *columns;
} smoothing;

/* Computes y = x w^T, the output of the layer. */
static void multiply(smoothing *s, const float *x, const float *w, float *y) {
    const size_t width = round16(s->num_rows), depth = (size_t)s->depth;
    size_t i, k;
    memset(s->columns, 0, depth * width * sizeof *s->columns);
    for (i = 0; i < (size_t)s->num_rows; i++)
        for (k = 0; k < depth; k++) s->columns[k * width + i] = w[i * depth + k];
    memset(y, 0, (size_t)s->count * width * sizeof *y);
    for (i = 0; i < (size_t)s->count; i++)
        for (k = 0; k < depth; k++)
            add_scaled(y + i * width, s->columns + k * width, x[i * depth + k], width);
}

/* Returns the squared error of the layer's output if its input is divided, and its weights are
 * multiplied, by these factors. Returns a negative number if memory is exhausted. */
static double error_with(smoothing *s, const float *factors) {
    const size_t depth = (size_t)s->depth, width = round16(s->num_rows);
    double sum = 0;
    size_t i, k;
    for (i = 0; i < (size_t)s->count; i++) {
        for (k = 0; k < depth; k++) s->x2[i * depth + k] = s->x[i * depth + k] / factors[k];
        quantise_input(s->dtype, s->x2 + i * depth, s->depth);
    }
    for (i = 0; i < (size_t)s->num_rows; i++)
        for (k = 0; k < depth; k++) s->w2[i * depth + k] = s->w[i * depth + k] * factors[k];
    if (!quantise_nearest(s->dtype, s->w2, s->num_rows, s->depth)) return -1;
    multiply(s, s->x2, s->w2, s->y2);
    for (i = 0; i < (size_t)s->count * width; i++) {
        double e = (double)s->y2[i] - (double)s->y[i];
        sum += e * e;
    }
    return sum;
}

/* Returns a malloc'ed copy of n evenly spaced rows. The memory is large enough for a second copy of
 * these rows. */
static float *take_rows(const quantise_matrix *from, int n) {
    const size_t depth = (size_t)from->depth;
    float *taken = malloc(2 * (size_t)n * depth * sizeof *taken);
    int i;
    for (i = 0; taken && i < n; i++)
        memcpy(taken + (size_t)i * depth,
               from->values + (size_t)((int64_t)i * from->count / n) * depth,
               depth * sizeof *taken);
    return taken;
}

static bool smoothing_start(smoothing *s, vit_dtype dtype, const quantise_matrix *x,
                            const quantise_matrix *w) {
    const size_t depth = (size_t)x->depth;
    size_t width;
    s->dtype = dtype;
    s->count = x->count < SMOOTH_SAMPLES ? x->count : SMOOTH_SAMPLES;
    s->num_rows = w->count < SMOOTH_ROWS ? w->count : SMOOTH_ROWS;
    s->depth = x->depth;
    width = round16(s->num_rows);
    s->x = take_rows(x, s->count);
    s->w = take_rows(w, s->num_rows);
    s->y = malloc(2 * (size_t)s->count * width * sizeof *s->y);
    s->columns = malloc(depth * width * sizeof *s->columns);
    if (!s->x || !s->w || !s->y || !s->columns) return false;
    s->x2 = s->x + (size_t)s->count * depth;
    s->w2 = s->w + (size_t)s->num_rows * depth;
    s->y2 = s->y + (size_t)s->count * width;
    multiply(s, s->x, s->w, s->y);
    return true;
}

/* Computes the largest absolute value of each column. Raises values below a thousandth of the
 * overall maximum to that thousandth. */
static void column_maxima(const quantise_matrix *of, float *largest) {
    const int depth = of->depth;
    const float *rows = of->values;
    float most = 0;
    int i, k;
    for (k = 0; k < depth; k++) largest[k] = 0;
    for (i = 0; i < of->count; i++, rows += depth)
        for (k = 0; k < depth; k++) {
            const float size = fabsf(rows[k]);
            largest[k] = size > largest[k] ? size : largest[k];
            most = size > most ? size : most;
        }
    for (k = 0; k < depth; k++)
        if (!(largest[k] > most * 1e-3f)) largest[k] = most > 0 ? most * 1e-3f : 1;
}

/* Computes the factors for one alpha. Their geometric mean is 1, so inputs and weights keep their
 * overall size. */
static void make_factors(const float *x, const float *w, int depth, double alpha, float *factors) {
    double mean = 0;
    int k;
    for (k = 0; k < depth; k++) mean += alpha * log((double)x[k]) - (1 - alpha) * log((double)w[k]);
    mean /= depth;
    for (k = 0; k < depth; k++)
        factors[k] = (float)exp(alpha * log((double)x[k]) - (1 - alpha) * log((double)w[k]) - mean);
}

/* Finds the factors of the best alpha. `candidate` is scratch memory of `depth` floats. */
static bool try_alphas(smoothing *s, const float *x_max, const float *w_max, float *candidate,
                       float *factors, float *alpha) {
    static const double alphas[] = { 0.25, 0.4, 0.5, 0.6, 0.7, 0.8 };
    double best, error;
    size_t i;
    int k;
    for (k = 0; k < s->depth; k++) factors[k] = 1;
    *alpha = 0;
    best = error_with(s, factors);
    for (i = 0; best >= 0 && i < sizeof alphas / sizeof alphas[0]; i++) {
        make_factors(x_max, w_max, s->depth, alphas[i], candidate);
        error = error_with(s, candidate);
        if (error < 0) return false;
        if (!(error < best)) continue;
        best = error;
        *alpha = (float)alphas[i];
        memcpy(factors, candidate, (size_t)s->depth * sizeof *factors);
    }
    return best >= 0;
}

bool quantise_smooth(vit_dtype dtype, const quantise_matrix *x, const quantise_matrix *w,
                     float *factors, float *alpha) {
    const size_t depth = (size_t)x->depth;
    smoothing s;
    float *maxima = malloc(3 * depth * sizeof *maxima);
    bool good;
    memset(&s, 0, sizeof s);
    good = maxima && smoothing_start(&s, dtype, x, w);
    if (good) {
        column_maxima(x, maxima);
        column_maxima(w, maxima + depth);
        good = try_alphas(&s, maxima, maxima + depth, maxima + 2 * depth, factors, alpha);
    }
    free(maxima);
    free(s.x);
    free(s.w);
    free(s.y);
    free(s.columns);
    return good;
}

/* === The inputs of a layer === */

/* The product of two sets of samples is a matrix. Each task computes one tile of the matrix, with
 * TILE x TILE_COLS elements. */
enum { TILE = 16, TILE_COLS = 64 };

typedef struct gram_job {
    /* The two sets of samples, [count][stride]. `count` is a multiple of 4. */
    const float *a, *b;
    int count;
    size_t stride;
    /* The result, [stride][stride]. */
    float *product;
} gram_job;

static void gram_tile(const gram_job *job, size_t row, size_t column) {
    float tile[TILE][TILE_COLS];
    const size_t stride = job->stride;
    size_t i, l;
    int s;
    memset(tile, 0, sizeof tile);
    for (s = 0; s < job->count; s += 4) {
        const float *a = job->a + (size_t)s * stride + row;
        const float *b = job->b + (size_t)s * stride + column;
        for (i = 0; i < TILE; i++) {
            const float a0 = a[i], a1 = a[stride + i], a2 = a[2 * stride + i];
            const float a3 = a[3 * stride + i];
            for (l = 0; l < TILE_COLS; l++)
                tile[i][l] += a0 * b[l] + a1 * b[stride + l] + a2 * b[2 * stride + l] +
                              a3 * b[3 * stride + l];
        }
    }
    for (i = 0; i < TILE; i++)
        memcpy(job->product + (row + i) * stride + column, tile[i], sizeof tile[i]);
}

static void gram_task(void *arg, int index) {
    const gram_job *job = arg;
    const size_t tiles = job->stride / TILE;
    gram_tile(job, (size_t)index % tiles * TILE, (size_t)index / tiles * TILE_COLS);
}

static void run_gram(gram_job *job, const vit_executor *executor) {
    parallel_for(executor, (int)(job->stride / TILE * (job->stride / TILE_COLS)), gram_task, job);
}

/* Copies of the samples with padding, for the products. `x` has the exact samples, and `seen` has
 * the samples as the quantised layer reads them. */
typedef struct sample_copies {
    /* The number of samples, rounded up to a multiple of 4. */
    int count;
    size_t stride;
    float *x, *seen;
} sample_copies;

static bool copy_samples(sample_copies *copies, vit_dtype dtype, const quantise_matrix *x) {
    const size_t depth = (size_t)x->depth;
    int i;
    copies->count = (x->count + 3) / 4 * 4;
    copies->x = calloc((size_t)copies->count * copies->stride, sizeof *copies->x);
    copies->seen = calloc((size_t)copies->count * copies->stride, sizeof *copies->seen);
    if (!copies->x || !copies->seen) return false;
    for (i = 0; i < x->count; i++) {
        const size_t at = (size_t)i * copies->stride;
        memcpy(copies->x + at, x->values + (size_t)i * depth, depth * sizeof *copies->x);
        memcpy(copies->seen + at, copies->x + at, depth * sizeof *copies->seen);
        quantise_input(dtype, copies->seen + at, x->depth);
    }
    return true;
}

/* The damping is DAMPING times the mean of the diagonal of gram. */
#define DAMPING 0.4

/* Adds the damping, which pulls the rounded weights towards their original values. The damping is
 * strong for two reasons. Other photos differ from the samples. Earlier layers lost precision in
 * directions that the samples do not show. */
static void dampen(quantise_layer *layer) {
    const size_t stride = (size_t)layer->stride + 1;
    double mean = 0;
    int k;
    for (k = 0; k < layer->depth; k++) mean += (double)layer->gram[(size_t)k * stride];
    mean = mean / layer->depth * DAMPING + 1e-30;
    for (k = 0; k < layer->depth; k++) {
        layer->gram[(size_t)k * stride] += (float)mean;
        layer->cross[(size_t)k * stride] += (float)mean;
    }
}

static bool learn(quantise_layer *layer, const quantise_matrix *x, sample_copies *copies,
                  const vit_executor *executor) {
    gram_job job;
    if (!copy_samples(copies, layer->dtype, x)) return false;
    job.a = copies->seen;
    job.b = copies->seen;
    job.count = copies->count;
    job.stride = copies->stride;
    job.product = layer->gram;
    run_gram(&job, executor);
    job.a = copies->x;
    job.product = layer->cross;
    run_gram(&job, executor);
    dampen(layer);
    return true;
}

bool quantise_start(quantise_layer *layer, vit_dtype dtype, const quantise_matrix *x,
                    const vit_executor *executor) {
    const size_t stride = ((size_t)x->depth + TILE_COLS - 1) / TILE_COLS * TILE_COLS;
    sample_copies copies;
    bool good;
    memset(&copies, 0, sizeof copies);
    memset(layer, 0, sizeof *layer);
    layer->dtype = dtype;
    layer->depth = x->depth;
    layer->stride = (int)stride;
    copies.stride = stride;
    layer->gram = malloc(stride * stride * sizeof *layer->gram);
    layer->cross = malloc(stride * stride * sizeof *layer->cross);
    good = layer->gram && layer->cross && learn(layer, x, &copies, executor);
    free(copies.x);
    free(copies.seen);
    return good;
}

void quantise_end(quantise_layer *layer) {
    free(layer->cross);
    free(layer->gram);
    memset(layer, 0, sizeof *layer);
}

/* === Rounding ===
 * This part rounds each row w of weights to a row q of values that the type can hold. x is a sample
 * of the layer's input, and x^ is the same sample as the quantised layer reads it. The part makes
 *
 *     sum over the samples of (w x - q x^)^2  +  damping * |w - q|^2
 *
 * small. It sets one weight after the other to its best value while all other weights stay, and
 * repeats this a few times. The method is cyclic coordinate descent, as in QuantEase (Behdin and
 * others, 2023). */

enum { SWEEPS = 4, ROWS = 16 };

static double group_error(const float *w, const float *q, int n, const float *gram,
                          size_t gram_stride) {
    double sum = 0;
    int k;
    for (k = 0; k < n; k++) {
        const double e = (double)w[k] - (double)q[k];
        sum += e * e * (double)gram[(size_t)k * gram_stride];
    }
    return sum;
}

/* Chooses how far the weights of a group are clipped, and returns the step. In int8, the lane of
 * weight *extreme has the largest sum even after rounding, so packing finds the same step. `q` is
 * scratch memory of n floats. */
static float choose_step(const row_grid *grid, const float *w, int n, const float *gram,
                         size_t gram_stride, float *q, int *extreme) {
    const float largest = find_extreme(grid, w, n, extreme);
    const int ends = grid->dtype == VIT_I4 ? 2 : 1;
    double best = HUGE_VAL;
    float step = 0;
    int i;
    for (i = 0; i < 11 * ends; i++) {
        const float clip = 1 - 0.05f * (float)(i / ends);
        const float tried = step_for(grid, largest * clip, i % ends != 0);
        double error;
        round_group(grid, w, n, tried, q);
        error = group_error(w, q, n, gram, gram_stride);
        if (!(error < best)) continue;
        best = error;
        step = tried;
    }
    return step;
}

/* The rounding of all rows. Each task rounds up to ROWS rows together, because they read the same
 * columns of gram. */
typedef struct rounding {
    const quantise_layer *layer;
    row_grid grid;
    /* The rows of weights, [num_rows][depth]. */
    float *weights;
    int num_rows;
    /* Scratch memory of [3][ROWS][stride] floats for each task: weights, steps and slopes. */
    float *scratch;
} rounding;

/* Fixes those int8 weights from which packing computes the step. Their entries in `steps` become
 * zero, so the weights are not changed again. */
static void keep_extreme(const row_grid *grid, const float *w, int n, float step, int extreme,
                         float *q, float *steps) {
    int i;
    if (grid->dtype != VIT_I8) return;
    steps[extreme] = 0;
    if (!(step > 0)) return;
    fit_lane(w, n, step, lane_of(extreme), w[extreme] < 0 ? -1.0f : 1.0f, true, q);
    for (i = 0; i < LANE; i++)
        if (lane_weight(lane_of(extreme), i) < n) steps[lane_weight(lane_of(extreme), i)] = 0;
}

/* Rounds all weights of a row to the nearest values, and stores the step of each weight. Also
 * computes slope = cross w - gram q, which is -1/2 times the gradient of the error. */
static void start_row(const rounding *job, const float *w, float *q, float *steps, float *slope) {
    const quantise_layer *layer = job->layer;
    const row_grid *grid = &job->grid;
    const size_t stride = (size_t)layer->stride;
    const int group = grid->group ? grid->group : layer->depth;
    int first, k, extreme = 0;
    memset(q, 0, stride * sizeof *q);
    for (first = 0; first < layer->depth; first += group) {
        const int n = layer->depth - first < group ? layer->depth - first : group;
        const float step = grid->group ? choose_step(grid, w + first, n,
                                                     layer->gram + (size_t)first * (stride + 1),
                                                     stride + 1, q + first, &extreme)
                                       : 1;
        for (k = first; k < first + n; k++) steps[k] = step;
        round_group(grid, w + first, n, step, q + first);
        if (grid->group) keep_extreme(grid, w + first, n, step, extreme, q + first, steps + first);
    }
    memset(slope, 0, stride * sizeof *slope);
    for (k = 0; k < layer->depth; k++) {
        add_scaled(slope, layer->cross + (size_t)k * stride, w[k], stride);
        add_scaled(slope, layer->gram + (size_t)k * stride, -q[k], stride);
    }
}

/* Sets weight k of a row to its best value while the other weights stay. `q` is the row, with zeros
 * after its end. In int8, the bound of the weight is the limit of its lane minus the lane's other
 * weights of the same sign. */
static void improve(const rounding *job, int k, float *q, float step, float *slope) {
    const size_t stride = (size_t)job->layer->stride;
    const float *gram = job->layer->gram + (size_t)k * stride;
    const float before = q[k];
    row_grid grid = job->grid;
    float better;
    if (grid.dtype == VIT_I8) {
        q[k] = 0;
        grid.high -= rintf(lane_sum(q, job->layer->stride, lane_of(k), 1) / step);
        grid.low += rintf(lane_sum(q, job->layer->stride, lane_of(k), -1) / step);
    }
    better = nearest(&grid, before + slope[k] / gram[k], step);
    q[k] = better;
    if (better < before || better > before) add_scaled(slope, gram, before - better, stride);
}

/* Finds the best int4 step for the rounded weights of a group, and applies it. */
static void refit_group(const quantise_layer *layer, int first, int n, float *q, float *steps,
                        float *slope) {
    const size_t stride = (size_t)layer->stride;
    double along = 0, square = 0;
    float step;
    int i, k;
    for (i = first; i < first + n; i++) {
        double sum = 0;
        for (k = first; k < first + n; k++)
            sum += (double)layer->gram[(size_t)i * stride + (size_t)k] * (double)q[k];
        along += (double)q[i] * (double)slope[i];
        square += (double)q[i] * sum;
    }
    step = square > 0 ? to_f16(steps[first] * (float)(1 + along / square)) : 0;
    for (k = first; k < first + n && (step < 0 || step > 0); k++) {
        const float before = q[k];
        q[k] = rintf(before / steps[k]) * step;
        steps[k] = step;
        add_scaled(slope, layer->gram + (size_t)k * stride, before - q[k], stride);
    }
}

static void refit(const rounding *job, float *q, float *steps, float *slope) {
    const int depth = job->layer->depth, group = job->grid.group;
    int first;
    for (first = 0; first < depth; first += group)
        refit_group(job->layer, first, depth - first < group ? depth - first : group, q, steps,
                    slope);
}

static void round_task(void *arg, int index) {
    const rounding *job = arg;
    const size_t stride = (size_t)job->layer->stride;
    const size_t depth = (size_t)job->layer->depth;
    float *w = job->weights + (size_t)index * ROWS * depth;
    float *q = job->scratch + (size_t)index * 3 * ROWS * stride;
    float *steps = q + ROWS * stride, *slopes = steps + ROWS * stride;
    const int rows = job->num_rows - index * ROWS < ROWS ? job->num_rows - index * ROWS : ROWS;
    int sweep, row;
    size_t k;
    for (row = 0; row < rows; row++)
        start_row(job, w + (size_t)row * depth, q + (size_t)row * stride,
                  steps + (size_t)row * stride, slopes + (size_t)row * stride);
    for (sweep = 0; sweep < SWEEPS; sweep++) {
        for (row = 0; row < rows && sweep > 0 && job->grid.dtype == VIT_I4; row++)
            refit(job, q + (size_t)row * stride, steps + (size_t)row * stride,
                  slopes + (size_t)row * stride);
        for (k = 0; k < depth; k++)
            for (row = 0; row < rows; row++) {
                const size_t at = (size_t)row * stride;
                if (steps[at + k] < 0 || steps[at + k] > 0)
                    improve(job, (int)k, q + at, steps[at + k], slopes + at);
            }
    }
    for (row = 0; row < rows; row++)
        memcpy(w + (size_t)row * depth, q + (size_t)row * stride, depth * sizeof *w);
}

bool quantise_rows(const quantise_layer *layer, float *weights, int num_rows,
                   const vit_executor *executor) {
    const int tasks = (num_rows + ROWS - 1) / ROWS;
    rounding job;
    job.layer = layer;
    job.grid = grid_of(layer->dtype, layer->depth);
    job.weights = weights;
    job.num_rows = num_rows;
    job.scratch = malloc((size_t)tasks * 3 * ROWS * (size_t)layer->stride * sizeof(float));
    if (!job.scratch) return false;
    parallel_for(executor, tasks, round_task, &job);
    free(job.scratch);
    return true;
}
