/* memory.h - memory with a limit: arenas, arrays that grow. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

/* An arena hands out zeroed pieces, `limit` bytes in total, and frees them all at once. */
typedef struct memory_block memory_block;

typedef struct memory_arena {
    memory_block *blocks;
    size_t used;
    size_t limit;
} memory_arena;

memory_arena memory_make(size_t limit);
void memory_free(memory_arena *arena);
void *memory_take(memory_arena *arena, size_t size);                    /* NULL: none left */
char *memory_copy_text(memory_arena *arena, const char *text, size_t size); /* adds a NUL */

/* Makes room for one more item in a malloc'ed array, doubling it when full. NULL: out of memory,
 * and the old array stays valid. */
void *memory_grow(void *items, size_t item_size, size_t count, size_t *capacity);

#endif
