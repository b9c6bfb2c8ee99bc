#include "layout/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === Views === */

/* A slice or a permutation has other dimensions, strides and offset than its tensor, but the same
 * storage. checkpoint_read accepts such a view, and copies values only when it reads them. */

/* === Views === */

static void count_elements(checkpoint_tensor_info *view) {
    int i;
    view->count = 1;
    for (i = 0; i < view->ndim; i++) view->count *= view->dims[i];
}

/* Reads the bounds of a slice "#a/n", which is the a-th of n equal pieces. */
static bool piece_bounds(const char *text, int64_t size, int64_t *first, int64_t *count) {
    char *end;
    const long number = strtol(text, &end, 10), pieces = strtol(end + 1, NULL, 10);
    *count = size / pieces;
    *first = number * *count;
    return size % pieces == 0;
}

/* Reads the bounds of a slice "@a", "@a:" or "@:a". */
static bool row_bounds(const char *text, int64_t size, int64_t embed_dim, int64_t *first,
                       int64_t *count) {
    const bool before = *text == ':';
    char *end;
    int64_t bound = strtol(text + before, &end, 10);
    if (*end == 'd') bound *= embed_dim;
    if (*end == 'd') end++;
    if (bound < 0) bound += size;
    *first = before ? 0 : bound;
    *count = before ? bound : *end == ':' ? size - bound : 1;
    return *first >= 0;
}

/* Skips dimensions of 1 at the start: a view [1, N, D] has N rows. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim) {
    int64_t first, count;
    int dim = 0;
    bool good;
    if (!*slice) return true;
    while (dim < view->ndim && view->dims[dim] == 1) dim++;
    for (slice++; *slice == ','; slice++) dim++;
    if (dim >= view->ndim) return false;
    if (slice[-1] == '#') good = piece_bounds(slice, view->dims[dim], &first, &count);
    else good = row_bounds(slice, view->dims[dim], embed_dim, &first, &count);
    if (!good || count < 1 || first + count > view->dims[dim]) return false;
    view->storage_offset += first * view->strides[dim];
    view->dims[dim] = count;
    count_elements(view);
    return true;
}

bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows) {
    int dim = 0;
    while (dim < view->ndim && view->dims[dim] == 1) dim++;
    if (dim == view->ndim || view->dims[dim] < rows) return false;
    view->dims[dim] = rows;
    count_elements(view);
    return true;
}

bool layout_take_block(checkpoint_tensor_info *view, int i) {
    if (view->ndim < 2 || i >= view->dims[0]) return false;
    view->storage_offset += i * view->strides[0];
    view->ndim--;
    memmove(view->dims, view->dims + 1, (size_t)view->ndim * sizeof *view->dims);
    memmove(view->strides, view->strides + 1, (size_t)view->ndim * sizeof *view->strides);
    count_elements(view);
    return true;
}

/* === Axes === */

/* Writes the letters of the next dimension in `axes`, without brackets, to `letters`. Returns the
 * text after this dimension; NULL if `axes` begins with the '>'. */
static const char *next_dim(const char *axes, char *letters, size_t size) {
    size_t length = 1;
    if (*axes == '>') return NULL;
    if (*axes == '(') {
        axes++;
        length = strcspn(axes, ")");
    }
    snprintf(letters, size, "%.*s", (int)length, axes);
    return axes + length + (axes[length] == ')');
}

int layout_axes_ndim(const char *axes) {
    char letters[8] = "";
    int ndim = 0;
    while ((axes = next_dim(axes, letters, sizeof letters)) != NULL) ndim++;
    return ndim;
}

const char *layout_file_order(const char *axes) { return axes + strcspn(axes, ">") + 1; }

int64_t layout_axis_size(const char *axes, const checkpoint_tensor_info *view, char letter) {
    char letters[8] = "";
    int dim;
    for (dim = 0; dim < view->ndim; dim++) {
        axes = next_dim(axes, letters, sizeof letters);
        if (!axes) return 0;
        if (letters[0] == letter && !letters[1]) return view->dims[dim];
    }
    return 0;
}

static int64_t known_size(const layout_sizes *sizes, char letter) {
    switch (letter) {
    case 'p':
    case 'q': return sizes->patch;
    case 'c': return sizes->chans;
    case 'h': return sizes->heads;
    case 'k': return sizes->head_dim;
    case 'z': return 3;
    default: return 0;
    }
}

/* The sizes and strides of the axes. The index is the ASCII code of the axis's letter. */
typedef struct letter_table {
    int64_t size[128], stride[128];
} letter_table;

/* Splits one dimension of the source into the axes that its letters name. A dimension has one
 * letter, or several merged letters. The last letter has the smallest stride. */
static bool split_dim(letter_table *table, const char *letters, int64_t size, int64_t stride,
                      const layout_sizes *sizes) {
    size_t i = strlen(letters);
    int64_t product = 1;
    while (i-- > 0) {
        const unsigned char letter = (unsigned char)letters[i];
        int64_t known = known_size(sizes, letters[i]);
        if (!known && letters[1]) return false; /* the size of this axis cannot be found */
        table->size[letter] = known ? known : size;
        table->stride[letter] = stride * product;
        product *= table->size[letter];
        if (product > size) return false; /* this limit also keeps the product from overflowing */
    }
    return product == size;
}

bool layout_apply_axes(checkpoint_tensor_info *view, const char *axes, const layout_sizes *sizes) {
    const char *order = layout_file_order(axes);
    letter_table table = { { 0 }, { 0 } };
    char letters[8] = "";
    int i;
    if (layout_axes_ndim(axes) != view->ndim) return false;
    for (i = 0; (axes = next_dim(axes, letters, sizeof letters)) != NULL; i++)
        if (!split_dim(&table, letters, view->dims[i], view->strides[i], sizes)) return false;
    view->ndim = (int)strlen(order);
    for (i = 0; i < view->ndim; i++) {
        view->dims[i] = table.size[(unsigned char)order[i]];
        view->strides[i] = table.stride[(unsigned char)order[i]];
    }
    return true;
}

/* Goes from the last dimension to the first. Each of dims[ndim - 1], ..., dims[1] must be the
 * product of the next few dimensions of the view. The remaining dimensions of the view are the
 * rows. If the view has too few dimensions, dimensions of 1 are assumed at its start. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows) {
    int at = view->ndim, i;
    for (i = ndim - 1; i > 0; i--) {
        int64_t product = 1;
        if (at > 0) product = view->dims[--at];
        while (at > 0 && product > 0 && product < dims[i]) product *= view->dims[--at];
        if (product != dims[i]) return false;
    }
    *rows = 1;
    while (at > 0) *rows *= view->dims[--at];
    return true;
}

/* === Folds === */

/* Allocates rows * cols floats; both sizes come from the checkpoint. Fails and returns NULL if the
 * floats do not fit into memory. */
static float *make_floats(int64_t rows, int64_t cols, report *r) {
    float *values = NULL;
    if (rows > 0 && cols > 0 && rows <= INT64_MAX / 4 / cols &&
        (uint64_t)rows * (uint64_t)cols <= SIZE_MAX / sizeof *values)
        values = calloc((size_t)rows * (size_t)cols, sizeof *values);
    if (!values) (void)report_no_memory(r);
    return values;
}

static void transpose(const float *from, int64_t rows, int64_t cols, float *to) {
    int64_t i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) to[j * rows + i] = from[i * cols + j];
}

/* Reads a weight that is stored as [cols, rows] into a layer [rows, cols]. */
static bool read_transposed(checkpoint *c, const checkpoint_tensor_info *weight, fold_layer *layer,
                            report *r) {
    float *stored = make_floats(layer->rows, layer->cols, r);
    const bool good = stored && checkpoint_read(c, weight, 0, weight->count, stored, r);
    if (good) transpose(stored, layer->cols, layer->rows, layer->weight);
    free(stored);
    return good;
}

bool fold_read(checkpoint *c, const checkpoint_tensor_info *weight,
               const checkpoint_tensor_info *bias, bool is_transposed, fold_layer *layer,
               report *r) {
    const int64_t first = weight->ndim ? weight->dims[0] : 1;
    memset(layer, 0, sizeof *layer);
    if (first < 1) return report_fail(r, "%.200s is empty", weight->name);
    layer->rows = is_transposed ? weight->count / first : first;
    layer->cols = is_transposed ? first : weight->count / first;
    if (bias && bias->count != layer->rows)
        return report_fail(r, "%.200s: expected %lld values, found %lld", bias->name,
                           (long long)layer->rows, (long long)bias->count);
    layer->weight = make_floats(layer->rows, layer->cols, r);
    if (bias) layer->bias = make_floats(layer->rows, 1, r);
    if (layer->weight && (layer->bias || !bias) &&
        (is_transposed ? read_transposed(c, weight, layer, r)
                       : checkpoint_read(c, weight, 0, weight->count, layer->weight, r)) &&
        (!bias || checkpoint_read(c, bias, 0, bias->count, layer->bias, r)))
        return true;
    fold_free(layer);
    return false;
}

void fold_free(fold_layer *layer) {
    free(layer->weight);
    free(layer->bias);
    memset(layer, 0, sizeof *layer);
}

fold_layer fold_rows(const fold_layer *layer, int64_t first, int64_t rows) {
    fold_layer part = *layer;
    part.weight += first * layer->cols;
    if (part.bias) part.bias += first;
    part.rows = rows;
    return part;
}

static bool make_layer(int64_t rows, int64_t cols, bool has_bias, fold_layer *layer, report *r) {
    layer->rows = rows;
    layer->cols = cols;
    layer->weight = make_floats(rows, cols, r);
    layer->bias = has_bias ? make_floats(rows, 1, r) : NULL;
    if (layer->weight && (layer->bias || !has_bias)) return true;
    fold_free(layer);
    return false;
}

/* Multiplies each of `count` rows by its factor, and adds the results to the sums, in order. */
static void add_rows(const double *factors, const double *rows, int64_t count, int64_t cols,
                     double *sums) {
    int64_t j, k;
    for (k = 0; k + 4 <= count;
         k += 4, rows += 4 * cols, factors += 4) /* four rows at a time keep sums in registers */
        for (j = 0; j < cols; j++) {
            double sum = sums[j];
            sum += factors[0] * rows[j];
            sum += factors[1] * rows[cols + j];
            sum += factors[2] * rows[2 * cols + j];
            sum += factors[3] * rows[3 * cols + j];
            sums[j] = sum;
        }
    for (; k < count; k++, rows += cols, factors++)
        for (j = 0; j < cols; j++) sums[j] += factors[0] * rows[j];
}

static void widen(const float *from, int64_t count, double *to) {
    int64_t i;
    for (i = 0; i < count; i++) to[i] = (double)from[i];
}

/* Computes the weight of a layer that replaces two layers. Each row of the product is a weighted
 * sum of the rows of the first layer. */
static bool chain_weights(const fold_layer *first, const fold_layer *second, float *result,
                          report *r) {
    const int64_t inner = first->rows, cols = first->cols;
    double *all = malloc((size_t)(inner * cols + inner + cols) * sizeof *all);
    int64_t i, j;
    if (!all) return report_no_memory(r);
    widen(first->weight, inner * cols, all);
    for (i = 0; i < second->rows; i++) {
        double *factors = all + inner * cols, *sums = factors + inner;
        widen(second->weight + i * inner, inner, factors);
        memset(sums, 0, (size_t)cols * sizeof *sums);
        add_rows(factors, all, inner, cols, sums);
        for (j = 0; j < cols; j++) result[i * cols + j] = (float)sums[j];
    }
    free(all);
    return true;
}

static void chain_bias(const fold_layer *first, const fold_layer *second, float *bias) {
    int64_t i, k;
    for (i = 0; i < second->rows; i++) {
        double sum = second->bias ? (double)second->bias[i] : 0;
        for (k = 0; first->bias && k < first->rows; k++)
            sum += (double)second->weight[i * second->cols + k] * (double)first->bias[k];
        bias[i] = (float)sum;
    }
}

bool fold_chain(const fold_layer *first, const fold_layer *second, fold_layer *result, report *r) {
    const int64_t rows = second->rows, cols = first->cols;
    memset(result, 0, sizeof *result);
    if (second->cols != first->rows)
        return report_fail(r,
                           "a layer that reads %lld values cannot follow a layer that gives %lld "
                           "values",
                           (long long)second->cols, (long long)first->rows);
    if (!make_layer(rows, cols, first->bias || second->bias, result, r)) return false;
    if (!chain_weights(first, second, result->weight, r)) {
        fold_free(result);
        return false;
    }
    if (result->bias) chain_bias(first, second, result->bias);
    return true;
}

bool fold_heads(const fold_layer *heads, int count, bool is_diagonal, int groups,
                fold_layer *result, report *r) {
    const int64_t rows = heads[0].rows, cols = heads[0].cols, each = rows / groups;
    const int64_t width = is_diagonal ? cols * count : cols;
    int64_t i;
    int head;
    memset(result, 0, sizeof *result);
    if (!make_layer(rows * count, width, heads[0].bias != NULL, result, r)) return false;
    for (head = 0; head < count; head++)
        for (i = 0; i < rows; i++) {
            const int64_t to = i / each * each * count + head * each + i % each;
            memcpy(result->weight + to * width + (is_diagonal ? head * cols : 0),
                   heads[head].weight + i * cols, (size_t)cols * sizeof(float));
            if (result->bias) result->bias[to] = heads[head].bias[i];
        }
    return true;
}

bool fold_positions(const fold_layer *layer, float **table, report *r) {
    int64_t i, j;
    *table = make_floats(layer->cols, layer->rows, r);
    if (!*table) return false;
    transpose(layer->weight, layer->rows, layer->cols, *table);
    for (i = 0; layer->bias && i < layer->cols; i++)
        for (j = 0; j < layer->rows; j++) (*table)[i * layer->rows + j] += layer->bias[j];
    return true;
}
