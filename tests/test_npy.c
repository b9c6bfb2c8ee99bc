/* test_npy.c - tests npy.h with every element type, both orders, and damaged files.
 *
 *     test_npy
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "test.h"

/* ------------------------------------------------------------------------- */
/* Files made by hand                                                        */
/* ------------------------------------------------------------------------- */

typedef struct file {
    unsigned char bytes[70000];
    size_t size;
} npy_file;

/* The file on which a test works. */
static npy_file made;

/* Makes an .npy file: a header of this version with the dictionary, and then the bytes of the
 * numbers. */
static void make(int version, const char *dictionary, const void *numbers, size_t size) {
    size_t length = strlen(dictionary), prefix = version == 1 ? 10 : 12;
    memcpy(made.bytes, "\x93NUMPY", 6);
    made.bytes[6] = (unsigned char)version;
    memset(made.bytes + 7, 0, 5);
    made.bytes[8] = (unsigned char)(length & 255);
    made.bytes[9] = (unsigned char)(length >> 8);
    memcpy(made.bytes + prefix, dictionary, length);
    if (size) memcpy(made.bytes + prefix + length, numbers, size);
    made.size = prefix + length + size;
}

/* Parses a copy of the file in a block of exactly its size, so that sanitizers detect reads beyond
 * the end. */
static bool parse(npy_array *array, report *r) {
    unsigned char *exact = malloc(made.size ? made.size : 1);
    bool good;
    if (!exact) return false;
    memcpy(exact, made.bytes, made.size);
    good = npy_parse(exact, made.size, array, r);
    free(exact);
    return good;
}

/* Returns true if the file contains these numbers, in these dimensions. */
static bool holds(int ndim, int d0, int d1, const float *expected, size_t count) {
    report r = report_make();
    npy_array a;
    bool good = parse(&a, &r);
    if (!good) printf("    %s\n", r.text);
    good = good && a.ndim == ndim && (ndim < 1 || a.dims[0] == d0) &&
           (ndim < 2 || a.dims[1] == d1) && a.count == count &&
           memcmp(a.data, expected, count * sizeof(float)) == 0;
    npy_free(&a);
    return good;
}

static bool refused(const char *text) {
    report r = report_make();
    npy_array a;
    bool good = parse(&a, &r);
    bool right = !good && strstr(r.text, text) && !a.data;
    if (!right) printf("    expected '%s', found '%s'\n", text, good ? "accepted" : r.text);
    npy_free(&a);
    return right;
}

/* ------------------------------------------------------------------------- */
/* Reading                                                                   */
/* ------------------------------------------------------------------------- */

/* Returns true if three numbers of this type, given as bytes, are read as a, b and c. */
static bool reads(const char *type, const char *bytes, size_t size, float a, float b, float c) {
    const float expected[3] = { a, b, c };
    char dictionary[128];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }\n", type);
    make(1, dictionary, bytes, size);
    return holds(1, 3, 0, expected, 3);
}

#define READS(type, bytes, a, b, c) CHECK(reads(type, bytes, sizeof bytes - 1, a, b, c))

static void test_types(void) {
    READS("<f4", "\0\0\x80\x3f\0\0\0\xc0\x01\0\0\0", 1.0f, -2.0f, 1.40129846e-45f);
    READS(">f4", "\x3f\x80\0\0\xc0\0\0\0\0\0\0\x01", 1.0f, -2.0f, 1.40129846e-45f);
    READS("=f4", "\0\0\x80\x3f\0\0\0\xc0\0\0\x80\x7f", 1.0f, -2.0f, INFINITY);
    READS("<f2", "\x00\x3c\x01\x80\xff\x7b", 1.0f, -5.96046448e-08f, 65504.0f);
    READS(">f2", "\x3c\x00\x03\xff\x7c\x00", 1.0f, 6.09755516e-05f, INFINITY);
    READS("<f8", "\0\0\0\0\0\0\xf0\x3f\x9a\x99\x99\x99\x99\x99\xb9\x3f\0\0\0\0\0\0\xf0\x7f", 1.0f,
          0.1f, INFINITY);
    READS(">f8",
          "\x3f\xf0\0\0\0\0\0\0\xff\xef\xff\xff\xff\xff\xff\xff\x3f\xb9\x99\x99\x99\x99"
          "\x99\x9a",
          1.0f, -INFINITY, 0.1f);
    READS("|u1", "\0\x7f\xff", 0.0f, 127.0f, 255.0f);
    READS("|i1", "\0\x7f\xff", 0.0f, 127.0f, -1.0f);
    READS("|b1", "\0\x01\x02", 0.0f, 1.0f, 1.0f);
    /* This is bfloat16 in the form of ml_dtypes. */
    READS("|V2", "\x80\x3f\0\xc0\0\0", 1.0f, -2.0f, 0.0f);
    READS("<u2", "\x01\0\0\x80\xff\xff", 1.0f, 32768.0f, 65535.0f);
    READS("<i2", "\x01\0\0\x80\xff\xff", 1.0f, -32768.0f, -1.0f);
    READS("<i4", "\x01\0\0\0\0\0\0\x80\xff\xff\xff\xff", 1.0f, -2147483648.0f, -1.0f);
    READS(">i4", "\0\0\0\x01\x80\0\0\0\xff\xff\xff\xff", 1.0f, -2147483648.0f, -1.0f);
    READS("<u4", "\x01\0\0\0\0\0\0\x80\xff\xff\xff\xff", 1.0f, 2147483648.0f, 4294967296.0f);
    READS("<i8", "\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\xff\xff\xff\xff\xff\xff\xff\xff", 1.0f,
          -9223372036854775808.0f, -1.0f);
    READS("<u8", "\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\xff\xff\xff\xff\xff\xff\xff\xff", 1.0f,
          9223372036854775808.0f, 18446744073709551616.0f);
}

static void test_shapes(void) {
    static const unsigned char numbers[6] = { 1, 2, 3, 4, 5, 6 };
    static const float rows[6] = { 1, 2, 3, 4, 5, 6 }, columns[6] = { 1, 3, 5, 2, 4, 6 };
    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", numbers, 6);
    CHECK(holds(2, 2, 3, rows, 6));
    make(2, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", numbers, 6);
    CHECK(holds(2, 2, 3, columns, 6));
    make(3, "{\"shape\":(6L,),\"fortran_order\":True,\"descr\":\"|u1\"}   \n", numbers, 6);
    CHECK(holds(1, 6, 0, rows, 6));
    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", numbers, 1);
    CHECK(holds(0, 0, 0, rows, 1));
    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }", numbers, 0);
    CHECK(holds(1, 0, 0, rows, 0));
    make(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 0), }", numbers, 0);
    CHECK(holds(2, 3, 0, rows, 0));
    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 2, 3)}", numbers,
         6);
    CHECK(holds(8, 1, 1, rows, 6));
}

/* Tests three dimensions in Fortran order. Element [i][j][k] is at position i + 2 j + 6 k. */
static void test_fortran(void) {
    unsigned char numbers[24];
    float expected[24];
    for (int i = 0; i < 24; i++) numbers[i] = (unsigned char)i;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 3; j++) {
            for (int k = 0; k < 4; k++) expected[(i * 3 + j) * 4 + k] = (float)(i + 2 * j + 6 * k);
        }
    }
    make(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", numbers, 24);
    CHECK(holds(3, 2, 3, expected, 24));
}

/* ------------------------------------------------------------------------- */
/* Refusals                                                                  */
/* ------------------------------------------------------------------------- */

#define REFUSED(dictionary, bytes, message)                                                        \
    make(1, dictionary, bytes, sizeof bytes - 1);                                                  \
    CHECK(refused(message))

static void test_refused(void) {
    made.size = 0;
    CHECK(refused("is empty"));
    make(4, "{}", "", 0);
    CHECK(refused("version 4.0"));
    REFUSED("{}", "", "is missing");
    REFUSED("", "", "'{' expected");
    REFUSED("{'descr': '<f4', 'fortran_order': False}", "", "is missing");
    REFUSED("{'descr': '<f4', 'descr': '<f4', 'shape': ()}", "", "'descr' twice");
    REFUSED("{'descr': '<f4', 'order': 1}", "", "unknown key 'order'");
    REFUSED("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", "12345678", "'<c8' are not");
    REFUSED("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "", "'|O' are not");
    REFUSED("{'descr': '|f4', 'fortran_order': False, 'shape': ()}", "1234", "'|f4' are not");
    REFUSED("{'descr': '', 'fortran_order': False, 'shape': ()}", "1234", "'' are not");
    REFUSED("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "", "record");
    REFUSED("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "1234", "True or False");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "1234", "',' expected");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "1234", "whole number");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "1234", "'}' expected");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1", "1234", "after '}'");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "123",
            "4 bytes of elements "
            "expected, 3 found");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "12345", "5 found");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "1234",
            "more than 8");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "1234",
            "too large");
    REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "",
            "too large");
    REFUSED("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "",
            "too large");
}

/* Tests damaged files. Every prefix must be refused, and no changed byte may cause an invalid
 * access. */
static void test_damage(void) {
    static const char numbers[] = "abcdefghijklmnopqrstuvwx";
    static const char dictionary[] =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
    size_t whole;
    npy_array a;
    report r = report_make();
    make(1, dictionary, numbers, 24);
    whole = made.size;
    CHECK(parse(&a, &r));
    npy_free(&a);
    for (made.size = 0; made.size < whole; made.size++) {
        CHECK(!parse(&a, &r) && r.text[0]);
    }
    made.size = whole + 1;
    CHECK(!parse(&a, &r));
    made.size = whole;
    for (size_t at = 0; at < whole; at++) {
        unsigned char kept = made.bytes[at];
        for (int value = 0; value < 256; value++) {
            made.bytes[at] = (unsigned char)value;
            if (parse(&a, &r)) CHECK(a.count * 4 <= whole);
            npy_free(&a);
        }
        made.bytes[at] = kept;
    }
}

/* ------------------------------------------------------------------------- */
/* Writing                                                                   */
/* ------------------------------------------------------------------------- */

/* Writes an array, compares the header with that of numpy.save, and reads the array back. */
static void test_written(int ndim, const int64_t *dims, size_t count, const char *shape) {
    static float numbers[10000];
    FILE *file = tmpfile();
    char expected[128];
    npy_array a;
    report r = report_make();
    CHECK(file != NULL);
    if (!file) return;
    for (size_t i = 0; i < count; i++) numbers[i] = (float)i * 0.37f - 5.0f;
    CHECK(npy_write(file, numbers, dims, ndim));
    rewind(file);
    made.size = fread(made.bytes, 1, sizeof made.bytes, file);
    fclose(file);
    CHECK(made.size == 128 + 4 * count);
    snprintf(expected, sizeof expected, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
             shape);
    CHECK_MSG(memcmp(made.bytes, "\x93NUMPY\x01\x00\x76\x00", 10) == 0, "%s", shape);
    CHECK_MSG(memcmp(made.bytes + 10, expected, strlen(expected)) == 0, "%.118s",
              (const char *)made.bytes + 10);
    CHECK(made.bytes[127] == '\n' && made.bytes[126] == ' ');
    CHECK(parse(&a, &r));
    CHECK(a.ndim == ndim && a.count == count);
    CHECK(a.data && memcmp(a.data, numbers, count * sizeof(float)) == 0);
    for (int i = 0; i < ndim; i++) CHECK(a.dims[i] == dims[i]);
    npy_free(&a);
}

static void test_write(void) {
    const int64_t dims[4] = { 2, 3, 5, 300 }, none[2] = { 4, 0 };
    test_written(0, dims, 1, "()");
    test_written(1, dims, 2, "(2,)");
    test_written(2, dims, 6, "(2, 3)");
    test_written(4, dims, 9000, "(2, 3, 5, 300)");
    test_written(2, none, 0, "(4, 0)");
    CHECK(!npy_write(stdout, NULL, dims, 9));
    CHECK(!npy_write(stdout, NULL, dims, -1));
}

/* Tests a full disk. The error must be detected when the header is written, when the numbers are
 * written, or when the stream is flushed. */
static void test_full(void) {
    static const float numbers[10000];
    const int64_t one[1] = { 1 }, many[1] = { 10000 };
    FILE *full = fopen("/dev/full", "wb");
    if (!full) return; /* This system has no /dev/full. */
    CHECK(npy_write(full, numbers, one, 1) && fflush(full) != 0);
    clearerr(full);
    CHECK(!npy_write(full, numbers, many, 1));
    setvbuf(full, NULL, _IONBF, 0);
    CHECK(!npy_write(full, numbers, one, 1));
    fclose(full);
}

static void test_paths(void) {
    report r = report_make();
    npy_array a;
    CHECK(!npy_read("no/such/file.npy", &a, &r));
    CHECK(strstr(r.text, "cannot be opened: ") && !a.data);
    r = report_make();
    CHECK(!npy_read(".", &a, &r)); /* On Windows, a folder cannot be opened. */
    CHECK((strstr(r.text, "cannot be read: ") || strstr(r.text, "cannot be opened: ")) && !a.data);
    r = report_make();
    CHECK(!npy_read("/dev/null", &a, &r));
    CHECK(strcmp(r.text, "/dev/null: is empty") == 0);
}

/* Writes first a header for no rows, and at the end a header for all rows. */
static void test_pieces(void) {
    static const float row[3] = { 1, 2, 3 };
    int64_t dims[2] = { 0, 3 };
    const int64_t most = INT64_MAX;
    npy_array a;
    report r = report_make();
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (!file) return;
    CHECK(npy_write_header(file, NPY_F32, dims, 2));
    for (; dims[0] < 1000; dims[0]++) CHECK(npy_write_values(file, NPY_F32, row, 3));
    rewind(file);
    CHECK(npy_write_header(file, NPY_F32, dims, 2));
    rewind(file);
    made.size = fread(made.bytes, 1, sizeof made.bytes, file);
    CHECK(parse(&a, &r) && a.dims[0] == 1000 && a.count == 3000 && a.data[2999] == 3.0f);
    npy_free(&a);
    rewind(file);
    CHECK(npy_write_header(file, NPY_F32, &most, 1) && ftell(file) == 128);
    rewind(file);
    dims[0] = 1;
    CHECK(npy_write_header(file, NPY_F16, dims, 2) && npy_write_values(file, NPY_F16, row, 3));
    CHECK(ftell(file) == 128 + 6);
    rewind(file);
    made.size = fread(made.bytes, 1, 128 + 6, file);
    CHECK(parse(&a, &r) && a.count == 3 && a.data[2] == 3.0f);
    npy_free(&a);
    fclose(file);
}

/* Tests that mapping a file gives the same numbers as reading it. */
static void test_map(void) {
    static const char path[] = "build/test_npy.npy";
    static const char *const kinds[] = { "<f4", ">f4", "<f8" };
    const uint16_t one = 1;
    const bool is_little = *(const unsigned char *)&one == 1;
    const unsigned char eight[8] = { 0, 0, 128, 63 }; /* As "<f4", these are 1 and 0. */
    char dictionary[128];
    npy_array mapped, read;
    report r = report_make();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL);
        if (!file) return;
        /* The dictionary has 118 bytes, and 10 bytes come before it. */
        snprintf(dictionary, sizeof dictionary,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }%60s\n", kinds[i],
                 i < 2 ? 2 : 1, "");
        make(1, dictionary, eight, 8);
        fwrite(made.bytes, 1, made.size, file);
        fclose(file);
        CHECK_MSG(npy_map(path, &mapped, &r) && npy_read(path, &read, &r), "%s", r.text);
        CHECK((mapped.mapped != NULL) == (i == 0 && is_little));
        CHECK(mapped.count == read.count && mapped.ndim == 1 && mapped.dims[0] == read.dims[0]);
        CHECK(!memcmp(mapped.data, read.data, read.count * sizeof(float)));
        mapped.data[0] = 5; /* The assignment changes only this process's copy of the page. */
        npy_free(&mapped);
        npy_free(&read);
    }
    remove(path);
    CHECK(!npy_map(path, &mapped, &r) && strstr(r.text, "cannot be opened"));
    r = report_make();
    CHECK(!npy_map("README.md", &mapped, &r) && strstr(r.text, "not a .npy file"));
}

int main(void) {
    test_types();
    test_shapes();
    test_fortran();
    test_refused();
    test_damage();
    test_write();
    test_full();
    test_paths();
    test_pieces();
    test_map();
    return test_summary();
}
