/* A slice or a permutation is only another set of dimensions, strides and offset over the same
 * storage, which checkpoint_read takes: values are copied when they are read.
 */
#include "layout/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === Views === */

static void count_elements(checkpoint_tensor_info *view)
{
    int i;
    view->count = 1;
    for (i = 0; i < view->ndim; i++) view->count *= view->dims[i];
}

/* "#a/n" */
static bool piece_bounds(const char *text, int64_t size, int64_t *first, int64_t *count)
{
    char *end;
    const long number = strtol(text, &end, 10), pieces = strtol(end + 1, NULL, 10);
    *count = size / pieces;
    *first = number * *count;
    return size % pieces == 0;
}

/* "@a", "@a:" or "@:a" */
static bool row_bounds(const char *text, int64_t size, int64_t embed_dim, int64_t *first,
                       int64_t *count)
{
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

/* Dimensions of 1 in front do not count: [1, N, D] has N rows. */
bool layout_slice(checkpoint_tensor_info *view, const char *slice, int64_t embed_dim)
{
    int64_t first, count;
    int dim = 0;
    bool good;
    if (!*slice) return true;
    while (dim < view->ndim && view->dims[dim] == 1) dim++;
    if (slice[1] == ',') dim++;
    if (dim >= view->ndim) return false;
    if (*slice == '#') good = piece_bounds(slice + 1, view->dims[dim], &first, &count);
    else good = row_bounds(slice + 1 + (slice[1] == ','), view->dims[dim], embed_dim, &first,
                           &count);
    if (!good || count < 1 || first + count > view->dims[dim]) return false;
    view->storage_offset += first * view->strides[dim];
    view->dims[dim] = count;
    count_elements(view);
    return true;
}

bool layout_first_rows(checkpoint_tensor_info *view, int64_t rows)
{
    int dim = 0;
    while (dim < view->ndim && view->dims[dim] == 1) dim++;
    if (dim == view->ndim || view->dims[dim] < rows) return false;
    view->dims[dim] = rows;
    count_elements(view);
    return true;
}

bool layout_take_block(checkpoint_tensor_info *view, int i)
{
    if (view->ndim < 2 || i >= view->dims[0]) return false;
    view->storage_offset += i * view->strides[0];
    view->ndim--;
    memmove(view->dims, view->dims + 1, (size_t)view->ndim * sizeof *view->dims);
    memmove(view->strides, view->strides + 1, (size_t)view->ndim * sizeof *view->strides);
    count_elements(view);
    return true;
}

/* === Axes === */

/* Letters of the source's next dimension, without brackets; NULL after the last. */
static const char *next_dim(const char *axes, char *letters, size_t size)
{
    size_t length = 1;
    if (*axes == '>') return NULL;
    if (*axes == '(') {
        axes++;
        length = strcspn(axes, ")");
    }
    snprintf(letters, size, "%.*s", (int)length, axes);
    return axes + length + (axes[length] == ')');
}

int layout_axes_ndim(const char *axes)
{
    char letters[8] = "";
    int ndim = 0;
    while ((axes = next_dim(axes, letters, sizeof letters)) != NULL) ndim++;
    return ndim;
}

const char *layout_file_order(const char *axes)
{
    return axes + strcspn(axes, ">") + 1;
}

int64_t layout_axis_size(const char *axes, const checkpoint_tensor_info *view, char letter)
{
    char letters[8] = "";
    int dim;
    for (dim = 0; dim < view->ndim; dim++) {
        axes = next_dim(axes, letters, sizeof letters);
        if (!axes) return 0;
        if (letters[0] == letter && !letters[1]) return view->dims[dim];
    }
    return 0;
}

static int64_t known_size(const layout_sizes *sizes, char letter)
{
    switch (letter) {
    case 'p': case 'q': return sizes->patch;
    case 'c': return sizes->chans;
    case 'h': return sizes->heads;
    case 'k': return sizes->head_dim;
    case 'z': return 3;
    default: return 0;
    }
}

/* Indexed by the letter, which is ASCII. */
typedef struct letter_table {
    int64_t size[128], stride[128];
} letter_table;

/* One dimension of the source: a letter, or several merged ones, of which the last has the smallest
 * stride. */
static bool split_dim(letter_table *table, const char *letters, int64_t size, int64_t stride,
                      const layout_sizes *sizes)
{
    size_t i = strlen(letters);
    int64_t product = 1;
    while (i-- > 0) {
        const unsigned char letter = (unsigned char)letters[i];
        int64_t known = known_size(sizes, letters[i]);
        if (!known && letters[1]) return false;   /* cannot be told apart */
        table->size[letter] = known ? known : size;
        table->stride[letter] = stride * product;
        product *= table->size[letter];
        if (product > size) return false;   /* also keeps the product from overflowing */
    }
    return product == size;
}

bool layout_apply_axes(checkpoint_tensor_info *view, const char *axes, const layout_sizes *sizes)
{
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

/* From the last dimension to the first: each of dims[ndim - 1], ..., dims[1] must be the product of
 * the next few of the view's, and what the view has left are rows. A view that ends early has
 * dimensions of 1 in front. */
bool layout_rows(const checkpoint_tensor_info *view, const int64_t *dims, int ndim, int64_t *rows)
{
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
