/* test.h - the framework of the tests in C. It counts assertions, reports failures, and prints the
 * numbers of passed and failed assertions at the end.
 *
 *     CHECK(x == 3);                              names the expression when it is false
 *     CHECK_MSG(x == 3, "case %s: x = %d", s, x)  and prints more
 *     test_skip("a full disk", "no tmpfs");       counts a part that cannot run here, and names it
 *     return test_summary();                      last line "N passed, N failed"; 0 if none failed
 *
 * Each line of source with a check counts as one assertion, even if it runs often. The assertion
 * has passed if it never failed. Only one thread at a time may use these macros.
 */
#ifndef TEST_H
#define TEST_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition) ((void)test_check((condition) != 0, __FILE__, __LINE__, #condition))
#define CHECK_MSG(condition, ...)                                                                  \
    (test_check((condition) != 0, __FILE__, __LINE__, #condition) ? (void)0 : test_say(__VA_ARGS__))

enum { TEST_MAX_SITES = 4096 }; /* size of test_sites; a test has a few hundred assertions */

static struct {
    const char *file; /* NULL if the entry is unused */
    int line, failed;
} test_sites[TEST_MAX_SITES];

static long test_failures, test_skipped;

/* Returns the index of FILE:LINE in test_sites. Adds FILE:LINE if it is not in the table. */
static inline int test_site(const char *file, int line) {
    int at = line % TEST_MAX_SITES, tries;
    for (tries = 0; tries < TEST_MAX_SITES; tries++, at = (at + 1) % TEST_MAX_SITES) {
        if (!test_sites[at].file) {
            test_sites[at].file = file;
            test_sites[at].line = line;
        }
        if (test_sites[at].line == line &&
            (test_sites[at].file == file || strcmp(test_sites[at].file, file) == 0)) {
            return at;
        }
    }
    return 0;
}

static inline int test_check(int ok, const char *file, int line, const char *condition) {
    const int site = test_site(file, line);
    if (!ok) {
        test_sites[site].failed = 1;
        if (test_failures++ < 200) {
            printf("%s:%d: FAILED %s\n", file, line, condition);
        }
    }
    return ok;
}

#if defined(__MINGW32__) /* MinGW's printf has the formats of GNU's */
__attribute__((format(gnu_printf, 1, 2)))
#elif defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static inline void
test_say(const char *format, ...) {
    va_list list;
    if (test_failures > 200) {
        return;
    }
    va_start(list, format);
    printf("    ");
    vprintf(format, list);
    printf("\n");
    va_end(list);
}

static inline void test_skip(const char *what, const char *why) {
    printf("SKIPPED %s: %s\n", what, why);
    test_skipped++;
}

static inline int test_summary(void) {
    int passed = 0, failed = 0, i;
    for (i = 0; i < TEST_MAX_SITES; i++) {
        failed += test_sites[i].failed;
        passed += test_sites[i].file && !test_sites[i].failed;
    }
    printf("%d passed, %d failed", passed, failed);
    if (test_skipped) {
        printf(", %ld skipped", test_skipped);
    }
    printf("\n");
    return failed ? 1 : 0;
}

/* FOR_EACH_ISA loops over all instruction sets of this machine. FOR_EACH_ISA_LIKE loops over those
 * that give the same bits as `like`. These macros and the function below require vit.h. */
#define FOR_EACH_ISA(isa)                                                                          \
    for (int isa = VIT_ISA_SCALAR; isa < VIT_NUM_ISAS; isa++)                                      \
        if (vit_has_isa((vit_isa)isa))
#define FOR_EACH_ISA_LIKE(isa, like)                                                               \
    FOR_EACH_ISA(isa)                                                                              \
    if (TEST_ROUNDS_TWICE(isa) == TEST_ROUNDS_TWICE(like))

/* True if an instruction set rounds products before it adds them. */
#if defined(VIT_NO_FMA)
#define TEST_ROUNDS_TWICE(isa)                                                                     \
    ((isa) == VIT_ISA_SCALAR || (isa) == VIT_ISA_SSE2 || (isa) == VIT_ISA_WASM_SIMD)
#else
#define TEST_ROUNDS_TWICE(isa) ((isa) == VIT_ISA_SSE2)
#endif

/* Returns the product x * inverse that a kernel rounds to int8. If `rounds_twice` is true, the
 * product is a float; otherwise it is exact, as in a fused multiply-add. The variable `wide`
 * prevents clang from using the instruction mdebr of s390x, which multiplies two floats and which
 * QEMU 7.2 computes incorrectly: 3 times 0.5 is 16 there. */
static inline double test_scaled(float x, float inverse, int rounds_twice) {
    const volatile double wide = (double)x;
    return rounds_twice ? (double)(x * inverse) : wide * (double)inverse;
}

#endif
