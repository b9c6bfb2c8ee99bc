/* heap.h - defines EXPORT, and declares the module's functions for memory. */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name))) extern
#else
#define EXPORT(name) extern /* a native build, for tests */
#endif

/* These are malloc and free for JavaScript. */
EXPORT(allocate) void *web_allocate(size_t size);
EXPORT(release) void web_release(void *memory);

#endif
