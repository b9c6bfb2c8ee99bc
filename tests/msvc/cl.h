/* cl.h - makes clang look like Microsoft's compiler. It is included right after shim.h and before
 * everything else. It removes the macros by which vit.h recognises clang. vit.h then uses its code
 * for Microsoft's compiler. That compiler accepts any intrinsic in any function; clang accepts only
 * those of the command line's instruction sets.
 */
#include <immintrin.h>
#include <intrin.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#undef __clang__
#undef __clang_major__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wbuiltin-macro-redefined"
#undef __has_include
#undef __x86_64__
#undef __SSE2__
#undef __AVX2__
#undef __FMA__
#undef __OPTIMIZE__
#undef __FLT_EVAL_METHOD__
#pragma clang diagnostic pop
#undef __BYTE_ORDER__
