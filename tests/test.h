/* test.h - the whole test framework: count checks, say which failed, print the sum at the end.
 *
 *     CHECK(x == 3);                              names the expression when it is false
 *     CHECK_MSG(x == 3, "case %s: x = %d", s, x)  and says more
 *     return test_summary();                      last line "N passed, N failed"; 0 if none failed
 *
 * One thread at a time.
 */
#ifndef TEST_H
#define TEST_H

#include <stdarg.h>
#include <stdio.h>

#define CHECK(condition) ((void)test_check((condition) != 0, __FILE__, __LINE__, #condition))
#define CHECK_MSG(condition, ...) \
    (test_check((condition) != 0, __FILE__, __LINE__, #condition) ? (void)0 \
                                                                  : test_say(__VA_ARGS__))

static long test_passed, test_failed;

static inline int test_check(int ok, const char *file, int line, const char *condition) {
    if (ok) {
        test_passed++;
    } else if (test_failed++ < 200) {
        printf("%s:%d: FAILED %s\n", file, line, condition);
    }
    return ok;
}

#if defined(__MINGW32__) /* whose printf is GNU's */
__attribute__((format(gnu_printf, 1, 2)))
#elif defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static inline void
test_say(const char *format, ...) {
    va_list list;
    if (test_failed > 200) {
        return;
    }
    va_start(list, format);
    printf("    ");
    vprintf(format, list);
    printf("\n");
    va_end(list);
}

static inline int test_summary(void) {
    printf("%ld passed, %ld failed\n", test_passed, test_failed);
    return test_failed ? 1 : 0;
}

/* Every tier of kernels that this machine has; those whose results have the bits of tier `like`.
   Both need vit.h. */
#define FOR_EACH_ISA(isa)                                                                          \
    for (int isa = VIT_ISA_SCALAR; isa < VIT_NUM_ISAS; isa++)                                      \
        if (vit_has_isa((vit_isa)isa))
#define FOR_EACH_ISA_LIKE(isa, like)                                                               \
    FOR_EACH_ISA(isa)                                                                              \
        if (TEST_ROUNDS_TWICE(isa) == TEST_ROUNDS_TWICE(like))

/* Whether a tier's products are rounded before they are added to anything. */
#if defined(VIT_NO_FMA)
#    define TEST_ROUNDS_TWICE(isa)                                                                 \
        ((isa) == VIT_ISA_SCALAR || (isa) == VIT_ISA_SSE2 || (isa) == VIT_ISA_WASM_SIMD)
#else
#    define TEST_ROUNDS_TWICE(isa) ((isa) == VIT_ISA_SSE2)
#endif

/* What a kernel rounds to int8, x times inverse: exact where it is fused with an addition. `wide`
   keeps clang from the instruction of s390x for two floats (mdebr), which QEMU 7.2 computes wrong:
   3 times 0.5 is 16. */
static inline double test_scaled(float x, float inverse, int rounds_twice) {
    const volatile double wide = (double)x;
    return rounds_twice ? (double)(x * inverse) : wide * (double)inverse;
}

#endif
