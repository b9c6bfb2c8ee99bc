/* intrin.h - declares the functions that vit.h uses from Microsoft's header intrin.h. This file
 * replaces clang's own intrin.h, which conflicts with MinGW-w64's declaration of setjmp. */
#ifndef STUB_INTRIN_H
#define STUB_INTRIN_H

unsigned __int64 __cdecl _xgetbv(unsigned int);
__int64 _InterlockedExchangeAdd64(__int64 volatile *, __int64);
__int64 _InterlockedExchange64(__int64 volatile *, __int64);
__int64 _InterlockedCompareExchange64(__int64 volatile *, __int64, __int64);

#if defined(_M_ARM64)
void __cdecl __prefetch(const void *);
#endif

#if defined(_M_X64) && __has_builtin(__cpuidex)
void __cpuidex(int[4], int, int);
#elif defined(_M_X64)
static __inline void __cpuidex(int to[4], int leaf, int subleaf) {
    __asm__("cpuid" : "=a"(to[0]), "=b"(to[1]), "=c"(to[2]), "=d"(to[3]) : "0"(leaf), "2"(subleaf));
}
#endif

#endif
