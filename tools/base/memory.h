/* memory.h - bounded memory. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* An arena hands out zeroed pieces of at most `limit` bytes altogether and frees them at once. */
typedef struct memory_block memory_block;

typedef struct memory_arena {
    memory_block *blocks;
    size_t used;
    size_t limit;
} memory_arena;

memory_arena memory_make(size_t limit);
void memory_free(memory_arena *arena);
void *memory_take(memory_arena *arena, size_t size);                    /* NULL: no more */
char *memory_copy_text(memory_arena *arena, const char *text, size_t size); /* adds a NUL */

/* Room for one more item in a malloc'ed array: doubles it when full. NULL: the old one stays. */
void *memory_grow(void *items, size_t item_size, size_t count, size_t *capacity);

#endif
