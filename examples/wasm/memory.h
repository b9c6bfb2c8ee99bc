/* memory.h - memory for classify.c, and what else it wants of a C library. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

#define EXPORT(name) __attribute__((export_name(#name))) extern
#define ALIGNMENT 64 /* as vit.h likes it */

/* NULL if there is none; release() takes NULL as well. */
EXPORT(allocate) void *allocate(size_t size);
EXPORT(release) void release(void *memory);

int memcmp(const void *a, const void *b, size_t size);

#endif
