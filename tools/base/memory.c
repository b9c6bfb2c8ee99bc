#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct memory_block {
    memory_block *next;
    size_t used, size;       /* of the bytes that follow */
};

enum {
    MEMORY_ALIGNMENT = 8,
    MEMORY_FIRST_BLOCK = 8 * 1024,
    MEMORY_LARGEST_BLOCK = 1024 * 1024
};

static size_t memory_header_size(void)
{
    return (sizeof(memory_block) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

memory_arena memory_make(size_t limit)
{
    memory_arena arena;
    arena.blocks = NULL;
    arena.used = 0;
    arena.limit = limit / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;   /* as all pieces are */
    return arena;
}

void memory_free(memory_arena *arena)
{
    while (arena->blocks) {
        memory_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}

/* Blocks double in size, so that a small file costs little and a large one few calls. */
static bool memory_add_block(memory_arena *arena, size_t at_least)
{
    size_t size = arena->blocks ? arena->blocks->size * 2 : MEMORY_FIRST_BLOCK;
    memory_block *block;
    if (size > MEMORY_LARGEST_BLOCK) size = MEMORY_LARGEST_BLOCK;
    if (size < at_least) size = at_least;
    block = malloc(memory_header_size() + size);
    if (!block) return false;
    block->next = arena->blocks;
    block->used = 0;
    block->size = size;
    arena->blocks = block;
    return true;
}

void *memory_take(memory_arena *arena, size_t size)
{
    void *piece;
    if (size > arena->limit - arena->used) return NULL;
    size = (size + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    if (!arena->blocks || size > arena->blocks->size - arena->blocks->used)
        if (!memory_add_block(arena, size)) return NULL;
    piece = (char *)arena->blocks + memory_header_size() + arena->blocks->used;
    arena->blocks->used += size;
    arena->used += size;
    return memset(piece, 0, size);
}

char *memory_copy_text(memory_arena *arena, const char *text, size_t size)
{
    char *copy = memory_take(arena, size + 1);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void *memory_grow(void *items, size_t item_size, size_t count, size_t *capacity)
{
    size_t larger = *capacity ? *capacity * 2 : 16;
    void *moved;
    if (count < *capacity) return items;
    if (larger > SIZE_MAX / 2 / item_size) return NULL;
    moved = realloc(items, larger * item_size);
    if (moved) *capacity = larger;
    return moved;
}
