/* test_layout_units.c - tests forms, slices and row counts of views.c, by the positions of elements
 * in the storage.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layout/plan.h"
#include "layout/views.h"
#include "test.h"

static const layout_sizes sizes = { 2, 3, 2, 4 }; /* patch, chans, heads, head_dim */

static checkpoint_tensor_info tensor(int ndim, int64_t a, int64_t b, int64_t c, int64_t d) {
    checkpoint_tensor_info t;
    int64_t stride = 1;
    int i;
    memset(&t, 0, sizeof t);
    t.ndim = ndim;
    t.dims[0] = a;
    t.dims[1] = b;
    t.dims[2] = c;
    t.dims[3] = d;
    t.count = 1;
    for (i = ndim - 1; i >= 0; i--) {
        t.strides[i] = stride;
        stride *= t.dims[i];
        t.count *= t.dims[i];
    }
    return t;
}

/* Returns the position in the storage of element `index` of the view. Elements are counted row by
 * row. */
static int64_t place(const checkpoint_tensor_info *view, int64_t index) {
    int64_t at = view->storage_offset;
    int i;
    for (i = view->ndim - 1; i >= 0; i--) {
        at += index % view->dims[i] * view->strides[i];
        index /= view->dims[i];
    }
    return at;
}

static void check_form(const char *form, checkpoint_tensor_info t, int64_t index,
                       int64_t expected) {
    const bool good = layout_apply_axes(&t, form, &sizes);
    CHECK_MSG(good, "%s", form);
    if (good)
        CHECK_MSG(place(&t, index) == expected, "%s: element %d lies at %d, expected %d", form,
                  (int)index, (int)place(&t, index), (int)expected);
}

static void refuse_form(const char *form, checkpoint_tensor_info t) {
    CHECK_MSG(!layout_apply_axes(&t, form, &sizes), "%s", form);
}

static void test_forms(void) {
    /* A weight [in 5, out 7] becomes [out, in]; the tested element is in row 2, column 3. */
    check_form("io>oi", tensor(2, 5, 7, 0, 0), 2 * 5 + 3, 3 * 7 + 2);
    /* A kernel [P 2, P 2, C 3, D 8] becomes [D, C, P, P]. The tested element is d 5, c 1, p 1,
     * q 0. */
    check_form("pqcd>dcpq", tensor(4, 2, 2, 3, 8), 5 * 12 + 1 * 4 + 1 * 2 + 0,
               1 * 48 + 0 * 24 + 1 * 8 + 5);
    /* The same kernel is stored as the weight of a linear layer over (p q c) or over (c p q). */
    check_form("d(pqc)>dcpq", tensor(2, 8, 12, 0, 0), 5 * 12 + 1 * 4 + 1 * 2 + 0,
               5 * 12 + (1 * 2 + 0) * 3 + 1);
    check_form("d(cpq)>dcpq", tensor(2, 8, 12, 0, 0), 5 * 12 + 7, 5 * 12 + 7);
    /* A weight [D 8, H 2, hd 4] becomes rows (H, hd); the element is in row (h 1, k 2), column
     * 6. */
    check_form("dhk>hkd", tensor(3, 8, 2, 4, 0), (1 * 4 + 2) * 8 + 6, 6 * 8 + 1 * 4 + 2);
    check_form("hkd>dhk", tensor(3, 2, 4, 8, 0), 6 * 8 + 1 * 4 + 2, (1 * 4 + 2) * 8 + 6);
    /* The rows are interleaved as (h k z); the element is z 2, h 1, k 3, d 4. */
    check_form("(hkz)d>zhkd", tensor(2, 24, 8, 0, 0), ((2 * 2 + 1) * 4 + 3) * 8 + 4,
               ((1 * 4 + 3) * 3 + 2) * 8 + 4);
    refuse_form("io>oi", tensor(3, 5, 7, 1, 0));
    refuse_form("pqcd>dcpq", tensor(4, 2, 3, 3, 8)); /* The patch has another size. */
    refuse_form("d(pqc)>dcpq", tensor(2, 8, 13, 0, 0));
    refuse_form("d(pqc)>dcpq", tensor(2, 8, 24, 0, 0));
    /* The number of heads and their width are swapped. */
    refuse_form("dhk>hkd", tensor(3, 8, 4, 2, 0));
    refuse_form("d(xy)>dxy", tensor(2, 8, 12, 0, 0)); /* The size of x is unknown. */
    CHECK(layout_axes_ndim("d(pqc)>dcpq") == 2 && layout_axes_ndim("pqcd>dcpq") == 4);
}

static void test_letters(void) {
    checkpoint_tensor_info t = tensor(3, 8, 2, 4, 0), flat = tensor(2, 8, 12, 0, 0);
    CHECK(layout_axis_size("dhk>hkd", &t, 'h') == 2 && layout_axis_size("dhk>hkd", &t, 'k') == 4);
    CHECK(layout_axis_size("dhk>hkd", &t, 'x') == 0);
    CHECK(layout_axis_size("d(pqc)>dcpq", &flat, 'd') == 8);
    CHECK(layout_axis_size("d(pqc)>dcpq", &flat, 'p') == 0);
    CHECK(layout_axis_size("d>d", &t, 'k') == 0);
}

static void check_slice(const char *slice, checkpoint_tensor_info t, int64_t first, int64_t count) {
    const bool good = layout_slice(&t, slice, 2); /* "d" is 2 in these slices. */
    CHECK_MSG(good == (count > 0), "%s", slice);
    if (good) CHECK_MSG(place(&t, 0) == first && t.count == count, "%s", slice);
}

static void test_slices(void) {
    check_slice("", tensor(2, 9, 4, 0, 0), 0, 36);
    check_slice("#0/3", tensor(2, 9, 4, 0, 0), 0, 12);
    check_slice("#2/3", tensor(2, 9, 4, 0, 0), 24, 12);
    check_slice("#1/3", tensor(2, 10, 4, 0, 0), 0, 0);
    check_slice("@0", tensor(3, 1, 5, 4, 0), 0, 4);
    check_slice("@1:", tensor(3, 1, 5, 4, 0), 4, 16);
    check_slice("@2:", tensor(2, 5, 4, 0, 0), 8, 12);
    check_slice("@5:", tensor(2, 5, 4, 0, 0), 0, 0);
    check_slice("@5", tensor(2, 5, 4, 0, 0), 0, 0);
    check_slice("@0", tensor(3, 1, 1, 1, 0), 0, 0);
    check_slice("@:2", tensor(2, 5, 4, 0, 0), 0, 8);
    check_slice("@:1d", tensor(2, 5, 4, 0, 0), 0, 8);
    check_slice("@-1d:", tensor(2, 5, 4, 0, 0), 12, 8);
    check_slice("@:-2d", tensor(2, 5, 4, 0, 0), 0, 4);
    check_slice("@:-3d", tensor(2, 5, 4, 0, 0), 0, 0);
    check_slice("@-3d:", tensor(2, 5, 4, 0, 0), 0, 0);
    check_slice("@,1d:", tensor(2, 5, 6, 0, 0), 2, 20);
    check_slice("@,:1d", tensor(2, 5, 6, 0, 0), 0, 10);
    check_slice("@,1d:", tensor(1, 5, 0, 0, 0), 0, 0);
}

static void test_blocks(void) {
    checkpoint_tensor_info t = tensor(3, 2, 3, 4, 0), vector = tensor(1, 4, 0, 0, 0);
    CHECK(layout_take_block(&t, 1) && t.ndim == 2 && t.dims[0] == 3 && place(&t, 5) == 12 + 5);
    t = tensor(3, 2, 3, 4, 0);
    CHECK(!layout_take_block(&t, 2) && !layout_take_block(&vector, 0));
}

static void test_rows(void) {
    const int64_t matrix[2] = { 0, 12 }, patch[4] = { 0, 3, 2, 2 }, tokens[3] = { 0, 5, 8 };
    checkpoint_tensor_info t = tensor(3, 7, 3, 4, 0);
    int64_t rows;
    CHECK(layout_rows(&t, matrix, 2, &rows) && rows == 7);
    t = tensor(4, 7, 3, 2, 2);
    CHECK(layout_rows(&t, patch, 4, &rows) && rows == 7);
    t = tensor(2, 7, 12, 0, 0);
    CHECK(!layout_rows(&t, patch, 4, &rows)); /* These rows need a form. */
    t = tensor(2, 5, 8, 0, 0);
    CHECK(layout_rows(&t, tokens, 3, &rows) && rows == 1);
    t = tensor(3, 2, 5, 8, 0);
    CHECK(layout_rows(&t, tokens, 3, &rows) && rows == 2);
    t = tensor(2, 8, 5, 0, 0);
    CHECK(!layout_rows(&t, tokens, 3, &rows));
    t = tensor(1, 12, 0, 0, 0);
    CHECK(layout_rows(&t, matrix, 2, &rows) && rows == 1);
    t = tensor(3, 7, 0, 4, 0);
    CHECK(!layout_rows(&t, matrix, 2, &rows));
}

static void test_first_rows(void) {
    checkpoint_tensor_info t = tensor(3, 1, 5, 4, 0), one = tensor(2, 1, 1, 0, 0);
    CHECK(layout_first_rows(&t, 2) && t.dims[1] == 2 && t.count == 8);
    CHECK(!layout_first_rows(&t, 3) && !layout_first_rows(&one, 1));
}

static void test_standardise(void) {
    float row[2] = { -2, 2 }; /* The deviation is 2 instead of 1. */
    layout_standardise(row, 2);
    CHECK(fabsf(row[0] + 1) < 1e-6f && fabsf(row[1] - 1) < 1e-6f);
}

int main(void) {
    test_forms();
    test_letters();
    test_slices();
    test_blocks();
    test_rows();
    test_first_rows();
    test_standardise();
    return test_summary();
}
