/* memory.c - the functions that C compilers call implicitly. A C library has faster functions.
 * Without volatile, the compiler would turn the loop of memcpy, for example, into a call of memcpy.
 * clang calls the __aeabi names, which libgcc lacks.
 */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);
void __aeabi_memset(void *to, size_t size, int value);
void __aeabi_memclr(void *to, size_t size);

void *memcpy(void *to, const void *from, size_t size) {
    volatile unsigned char *t = to;
    const unsigned char *f = from;
    while (size--) *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    volatile unsigned char *t = to;
    const unsigned char *f = from;
    if ((uintptr_t)to <= (uintptr_t)from) return memcpy(to, from, size);
    while (size--) t[size] = f[size];
    return to;
}

void *memset(void *to, int value, size_t size) {
    volatile unsigned char *t = to;
    while (size--) *t++ = (unsigned char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t size) {
    const volatile unsigned char *x = a, *y = b;
    for (; size; size--, x++, y++)
        if (*x != *y) return *x < *y ? -1 : 1;
    return 0;
}

void __aeabi_memset(void *to, size_t size, int value) { memset(to, value, size); }

void __aeabi_memclr(void *to, size_t size) { memset(to, 0, size); }

/* Aliases for addresses that the compiler knows to be multiples of 4 or 8. */
#define SAME_AS(old)    __attribute__((alias(#old)))
#define COPY(name, old) void *name(void *to, const void *from, size_t size) SAME_AS(old)
#define SET(name)       void name(void *to, size_t size, int value) SAME_AS(__aeabi_memset)
#define CLEAR(name)     void name(void *to, size_t size) SAME_AS(__aeabi_memclr)
COPY(__aeabi_memcpy, memcpy);
COPY(__aeabi_memcpy4, memcpy);
COPY(__aeabi_memcpy8, memcpy);
COPY(__aeabi_memmove, memmove);
COPY(__aeabi_memmove4, memmove);
COPY(__aeabi_memmove8, memmove);
SET(__aeabi_memset4);
SET(__aeabi_memset8);
CLEAR(__aeabi_memclr4);
CLEAR(__aeabi_memclr8);
