/* test_base.c - tests tools/base: reports that do not fit, memory at its limits, overflowing sums,
 * edge cases of UTF-8, empty and missing inputs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/report.h"
#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "os/os.h"
#include "test.h"

static void test_reports(void) {
    char name[2 * REPORT_SIZE];
    report r = report_make();
    CHECK(r.text[0] == '\0' && !r.failed);
    CHECK(!report_file(&r, "no failure, no file") && !r.failed && r.text[0] == '\0');
    CHECK(!report_fail(&r, "a\nb\x7f%d", 5) && r.failed && strcmp(r.text, "a\\nb\\x7f5") == 0);
    CHECK(!report_fail(&r, "another") && strcmp(r.text, "a\\nb\\x7f5") == 0);
    CHECK(report_line(&r, 0, "c\nd") && strcmp(r.text, "a\\nb\\x7f5\nc\\nd") == 0);
    CHECK(!report_line(&r, REPORT_SIZE - 15, "e") && strcmp(r.text, "a\\nb\\x7f5\nc\\nd") == 0);
    CHECK(report_line(&r, REPORT_SIZE - 17, "f") && strcmp(r.text, "a\\nb\\x7f5\nc\\nd\nf") == 0);
    r.text[9] = '\0';
    CHECK(!report_file(&r, "f\tle") && strcmp(r.text, "f\\tle: a\\nb\\x7f5") == 0);
    CHECK(!report_file(&r, "another") && strcmp(r.text, "f\\tle: a\\nb\\x7f5") == 0);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    r = report_make();
    CHECK(!report_no_memory(&r) && strcmp(r.text, "out of memory") == 0);
    CHECK(!report_file(&r, name) && strlen(r.text) == REPORT_SIZE - 1);
    CHECK(!memcmp(r.text, "...nn", 5) && strstr(r.text, "nn: out of memory"));
    r = report_make();
    CHECK(!report_fail(&r, "%s", name) && strlen(r.text) == REPORT_SIZE - 1);
    CHECK(!report_file(&r, name) && strlen(r.text) == REPORT_SIZE - 1 && strstr(r.text, "n: nn"));
}

static void test_shown(void) {
    static const struct {
        const char *from, *shown;
        int columns;
    } texts[] = {
        { "", "", 0 },
        { "plain C:\\a.jpg", "plain C:\\a.jpg", 14 },
        { "gr\xC3\xBCn", "gr\xC3\xBCn", 4 },
        { "\xE4\xB8\xAD", "\xE4\xB8\xAD", 2 }, /* This character is East Asian. */
        { "e\xCC\x81", "e\xCC\x81", 1 },       /* The accent is a separate, combining character. */
        { "\n\r\t", "\\n\\r\\t", 6 },
        { "\x1b[31m\x7f", "\\x1b[31m\\x7f", 12 },
        { "\xC2\x80\xC2\x9F", "\\u0080\\u009f", 12 },
        { "\xC2\xA0", "\xC2\xA0", 1 },
        { "\x80\x9B\xA0\xFF", "\\x80\\x9b\\xa0\\xff", 16 }, /* These bytes are not UTF-8. */
        { "a\xE2\x80", "a\\xe2\\x80", 9 },
        { "\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F", "\\u061c\\u200e\\u200f", 18 },
        { "\xE2\x80\xA7\xE2\x80\xA8\xE2\x80\xAE\xE2\x80\xAF",
          "\xE2\x80\xA7\\u2028\\u202e\xE2\x80\xAF", 14 },
        { "\xE2\x81\xA5\xE2\x81\xA6\xE2\x81\xA9", "\xE2\x81\xA5\\u2066\\u2069", 13 },
    };
    char to[64];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHECK(text_show(to, sizeof to, 64, texts[i].from) == texts[i].columns);
        CHECK(strcmp(to, texts[i].shown) == 0);
    }
    CHECK(text_show(to, 6, 64,
                    "ab\x1b"
                    "c") == 2 &&
          strcmp(to, "ab") == 0); /* Only whole characters are copied. */
    CHECK(text_show(to, 7, 64,
                    "ab\x1b"
                    "c") == 6 &&
          strcmp(to, "ab\\x1b") == 0);
    CHECK(text_show(to, sizeof to, 3, "ab\xE4\xB8\xAD") == 2 && strcmp(to, "ab") == 0);
}

/* A newline at the start or end of the format begins a new line of the report. A newline in a
 * printed argument does not. */
static void test_print(void) {
    static char name[REPORT_SIZE + 9];
    char *text = NULL;
    size_t size;
    FILE *file = os_memory_open(&text, &size);
    memset(name, 'n', sizeof name - 1);
    text_print(file, "\n%s %d %5.1f %%\n\n", "\na\n", 7, 2.5);
    text_print(file, "\n");
    text_print(file, "%s", "");
    text_print(file, "%s\n", name);
    CHECK(os_memory_close(file, &text, &size));
    if (!text) return;
    CHECK(!strncmp(text, "\n\\na\\n 7   2.5 %\n\n\nnnn", 22));
    CHECK(size == 19 + REPORT_SIZE - 8 + 4 && !strcmp(text + size - 6, "nn...\n"));
    free(text);
}

static void test_arena(void) {
    memory_arena arena = memory_make(4000003);
    char *first = memory_take(&arena, 1), *large = memory_take(&arena, 3000000);
    size_t i, set = 0;
    CHECK(first && large && arena.used == 3000008);
    for (i = 0; large && i < 3000000; i++) set += large[i] != 0;
    CHECK(set == 0);
    CHECK(!memory_take(&arena, SIZE_MAX) && !memory_take(&arena, 999993));
    CHECK(memory_take(&arena, 999992) && !memory_take(&arena, 1) && arena.used == 4000000);
    memory_free(&arena);
    CHECK(arena.used == 0 && memory_take(&arena, 8) && memory_take(&arena, 0));
    first = memory_copy_text(&arena, "text", 3);
    CHECK(first && strcmp(first, "tex") == 0);
    memory_free(&arena);
}

static void test_growing(void) {
    size_t capacity = 0, largest = SIZE_MAX / 8;
    int *items = memory_grow(NULL, sizeof *items, 0, &capacity);
    CHECK(items && capacity == 16 && memory_grow(items, sizeof *items, 15, &capacity) == items);
    items = memory_grow(items, sizeof *items, 16, &capacity);
    CHECK(items && capacity == 32);
    CHECK(!memory_grow(items, sizeof *items, largest, &largest) && largest == SIZE_MAX / 8);
    free(items);
}

static void test_arithmetic(void) {
    uint64_t result;
    CHECK(bytes_add(UINT64_MAX - 1, 1, &result) && result == UINT64_MAX);
    CHECK(!bytes_add(UINT64_MAX, 1, &result));
    CHECK(bytes_multiply(0, UINT64_MAX, &result) && result == 0);
    CHECK(bytes_multiply((uint64_t)1 << 32, UINT32_MAX, &result) && result >> 32 == UINT32_MAX);
    CHECK(!bytes_multiply((uint64_t)1 << 32, (uint64_t)1 << 32, &result));
}

/* Tests the length of the UTF-8 sequence at the start of a text. The expected values follow the
 * table in chapter 3 of the Unicode standard. The length is 0 for over-long forms, surrogates,
 * values above the last code point, and incomplete sequences. */
static void test_utf8(void) {
    static const struct {
        const char *text;
        size_t size, length;
    } rows[] = {
        { "", 0, 0 },
        { "a", 1, 1 },
        { "\x7f", 1, 1 },
        { "\x80", 1, 0 },
        { "\xC1\xBF", 2, 0 },
        { "\xC2\x80", 2, 2 },
        { "\xC2\x7F", 2, 0 },
        { "\xC2\xC0", 2, 0 },
        { "\xDF\xBF", 2, 2 },
        { "\xC2\x80", 1, 0 },
        { "\xE0\x9F\xBF", 3, 0 },
        { "\xE0\xA0\x80", 3, 3 },
        { "\xE0\xBF\xBF", 3, 3 },
        { "\xE0\xC0\x80", 3, 0 },
        { "\xE1\x80\x80", 3, 3 },
        { "\xE1\x80\x7F", 3, 0 },
        { "\xED\x7F\x80", 3, 0 },
        { "\xED\x9F\xBF", 3, 3 },
        { "\xED\xA0\x80", 3, 0 },
        { "\xEF\xBF\xBF", 3, 3 },
        { "\xEF\xBF\xBF", 2, 0 },
        { "\xF0\x8F\xBF\xBF", 4, 0 },
        { "\xF0\x90\x80\x80", 4, 4 },
        { "\xF0\xC0\x80\x80", 4, 0 },
        { "\xF1\x80\x80\x80", 4, 4 },
        { "\xF1\x80\x80\xC0", 4, 0 },
        { "\xF4\x7F\x80\x80", 4, 0 },
        { "\xF4\x8F\xBF\xBF", 4, 4 },
        { "\xF4\x90\x80\x80", 4, 0 },
        { "\xF5\x80\x80\x80", 4, 0 },
    };
    char name[1026];
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t length = text_utf8_length(rows[i].text, rows[i].size);
        CHECK_MSG(length == rows[i].length, "row %lu: %lu", (unsigned long)i,
                  (unsigned long)length);
    }
    memset(name, 'n', sizeof name);
    CHECK(text_is_name(name, 1024) && !text_is_name(name, 1025) && !text_is_name(name, 0));
    CHECK(!text_is_name("a\x1f", 2) && !text_is_name("a\x7f", 2) && !text_is_name("a\xff", 2));
}

static void test_sources(void) {
    char byte = 'x';
    report r = report_make();
    source s = source_from_memory("none", NULL, 0);
    CHECK(s.memory && source_read(&s, 0, &byte, 0, &r) && byte == 'x');
    CHECK(!source_read(&s, 1, &byte, 0, &r) && strstr(r.text, "none: truncated: 0 bytes expected"));
    source_close(&s);
    r = report_make();
    CHECK(!source_open_file(&s, "/dev/null", &r) && strstr(r.text, "/dev/null: not a regular"));
    CHECK(source_is_folder("/") && !source_is_folder("/dev/null") && !source_is_folder("/none"));
    CHECK(source_exists("/dev/null") && !source_exists("/none"));
}

static void test_numbers(void) {
    CHECK(bytes_float(0x3FC00000) == 1.5f && bytes_bfloat(0xC000) == -2.0f);
    CHECK(bytes_half(0x3E00) == 1.5f && bytes_half(0x8001) == -1.0f / 16777216.0f);
    /* The loop covers all half floats, and the midpoints of neighbouring half floats. */
    for (uint32_t half = 0; half < 65536; half++) {
        const float value = bytes_half((uint16_t)half), next = bytes_half((uint16_t)(half + 1));
        const bool nan = (half & 0x7FFF) > 0x7C00;
        if (nan) CHECK((bytes_to_half(value) & 0x7FFF) > 0x7C00);
        else CHECK(bytes_to_half(value) == half);
        if ((half & 0x7FFF) < 0x7BFF)
            CHECK(bytes_to_half((value + next) / 2) == ((half + 1) & 0xFFFE));
    }
    CHECK(bytes_to_half(65519.9f) == 0x7BFF && bytes_to_half(-65520.0f) == 0xFC00);
    CHECK(bytes_to_half(2.9e-8f) == 0 && bytes_to_half(3e-8f) == 1 && bytes_to_half(1e-40f) == 0);
    CHECK(bytes_half(0x7BFF) == 65504.0f && bytes_half(0xFC00) < -3e38f);
    CHECK(bytes_double(0x3FF8000000000000) == 1.5f && bytes_double(0xFFEFFFFFFFFFFFFF) < -3e38f);
    CHECK(bytes_signed(0x80, 1) == -128 && bytes_signed(0x7FFF, 2) == 32767);
    CHECK(bytes_signed(0xFFFFFFFF, 4) == -1 && bytes_signed((uint64_t)1 << 63, 8) == INT64_MIN);
}

static void test_tensors(void) {
    const int64_t dims[8] = { 192, 3, INT64_MAX, 1, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    vit_tensor t = { 0 };
    char text[SHAPE_TEXT_SIZE];
    int i;
    for (i = 0; i < VIT_NUM_DTYPES; i++)
        CHECK(tensor_find_dtype(tensor_dtype_name((vit_dtype)i)) == i);
    CHECK(tensor_find_dtype("F32") == -1 && tensor_find_dtype("float64") == -1);
    CHECK(tensor_find_dtype("fp32") == VIT_F32 && tensor_find_dtype("float32") == VIT_F32);
    CHECK(tensor_find_dtype("fp16") == VIT_F16 && tensor_find_dtype("float16") == VIT_F16);
    CHECK(tensor_find_dtype("half") == VIT_F16 && tensor_find_dtype("bfloat16") == VIT_BF16);
    CHECK(!strcmp(shape_text(dims, 2, text, sizeof text), "[192, 3]"));
    CHECK(!strcmp(shape_text(dims, 0, text, sizeof text), "[]"));
    CHECK(strlen(shape_text(dims, 8, text, sizeof text)) < SHAPE_TEXT_SIZE && strchr(text, ']'));
    t.ndim = 3;
    t.dims[0] = 4;
    t.dims[1] = 3;
    t.dims[2] = 2;
    CHECK(tensor_count(&t) == 24 && tensor_depth(&t) == 6);
    CHECK(!strcmp(tensor_shape(&t, text), "[4, 3, 2]"));
    CHECK(!strcmp(text_grouped(5717416, text), "5,717,416"));
    CHECK(!strcmp(text_grouped(0, text), "0") && strlen(text_grouped(UINT64_MAX, text)) == 26);
    CHECK(!strcmp(paths_file_name("a/b.c"), "b.c") && !strcmp(paths_file_name("b"), "b"));
    CHECK(!strcmp(paths_file_name("a/b/"), "b/") && paths_folder_length("a/b") == 2);
    CHECK(paths_folder_length("b") == 0 && paths_folder_length("/b") == 1);
}

int main(void) {
    test_reports();
    test_shown();
    test_print();
    test_arena();
    test_growing();
    test_arithmetic();
    test_utf8();
    test_sources();
    test_numbers();
    test_tensors();
    return test_summary();
}
