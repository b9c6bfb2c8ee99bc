#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* === Arenas and arrays === */

struct memory_block {
    memory_block *next;
    /* The number of used bytes and the number of all bytes after this header. */
    size_t used, size;
};

enum {
    MEMORY_ALIGNMENT = 8,
    MEMORY_FIRST_BLOCK = 8 * 1024,
    MEMORY_LARGEST_BLOCK = 1024 * 1024,
};

static size_t memory_header_size(void) {
    return (sizeof(memory_block) + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

memory_arena memory_make(size_t limit) {
    memory_arena arena;
    arena.blocks = NULL;
    arena.used = 0;
    /* the limit becomes a multiple of the alignment, like the sizes of all pieces */
    arena.limit = limit / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    return arena;
}

void memory_free(memory_arena *arena) {
    while (arena->blocks) {
        memory_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}

/* Adds a block to the arena. A block is twice as large as the block before it, but at most
 * MEMORY_LARGEST_BLOCK, unless one piece needs more. Thus a small file needs little memory, and a
 * large file needs few blocks. */
static bool memory_add_block(memory_arena *arena, size_t at_least) {
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

void *memory_take(memory_arena *arena, size_t size) {
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

char *memory_copy_text(memory_arena *arena, const char *text, size_t size) {
    char *copy = memory_take(arena, size + 1);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void *memory_grow(void *items, size_t item_size, size_t count, size_t *capacity) {
    size_t larger = *capacity ? *capacity * 2 : 16;
    void *moved;
    if (count < *capacity) return items;
    if (larger > SIZE_MAX / 2 / item_size) return NULL;
    moved = realloc(items, larger * item_size);
    if (moved) *capacity = larger;
    return moved;
}

/* === Sizes and bytes === */

bool bytes_add(uint64_t a, uint64_t b, uint64_t *sum) {
    *sum = a + b;
    return *sum >= a;
}

bool bytes_multiply(uint64_t a, uint64_t b, uint64_t *product) {
    *product = a * b;
    return a == 0 || b <= UINT64_MAX / a;
}

uint16_t bytes_load16(const void *bytes) {
    const uint8_t *p = bytes;
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t bytes_load32(const void *bytes) {
    const uint8_t *p = bytes;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t bytes_load64(const void *bytes) {
    const uint8_t *p = bytes;
    return (uint64_t)bytes_load32(p) | (uint64_t)bytes_load32(p + 4) << 32;
}

void bytes_store_floats(void *bytes, const float *values, size_t count) {
    uint8_t *p = bytes;
    size_t i;
    for (i = 0; i < count; i++, p += 4) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        p[0] = (uint8_t)bits;
        p[1] = (uint8_t)(bits >> 8);
        p[2] = (uint8_t)(bits >> 16);
        p[3] = (uint8_t)(bits >> 24);
    }
}

void bytes_store_halves(void *bytes, const float *values, size_t count) {
    uint8_t *p = bytes;
    size_t i;
    for (i = 0; i < count; i++, p += 2) {
        const uint16_t half = bytes_to_half(values[i]);
        p[0] = (uint8_t)half;
        p[1] = (uint8_t)(half >> 8);
    }
}

float bytes_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Converts the bits of a half to a float. Subnormal halves are multiples of 2^-24, so a float holds
 * them exactly. A NaN keeps its payload, in the high bits. */
float bytes_half(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    float subnormal;
    if (exponent == 31) return bytes_float(sign | 0x7F800000 | fraction << 13);
    if (exponent > 0) return bytes_float(sign | (exponent + 112) << 23 | fraction << 13);
    subnormal = (float)fraction * (1.0f / 16777216.0f);
    return sign ? -subnormal : subnormal;
}

/* Converts a float to the bits of the nearest half. Values beyond the largest half become infinity.
 * A NaN stays a NaN. */
uint16_t bytes_to_half(float value) {
    uint32_t bits, sign, rest;
    float magnitude;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    rest = bits & 0x7FFFFFFF;
    if (rest > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (rest >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
    if (rest >= 0x38800000) {
        rest -= 0x38000000;
        return (uint16_t)(sign | (rest + 0x0FFF + (rest >> 13 & 1)) >> 13);
    }
    /* With 0.5 added, the last bit of a float is 2^-24, so the sum is rounded like a subnormal
     * half. */
    magnitude = bytes_float(rest) + 0.5f;
    memcpy(&rest, &magnitude, sizeof rest);
    return (uint16_t)(sign | (rest - 0x3F000000));
}

float bytes_bfloat(uint16_t bits) { return bytes_float((uint32_t)bits << 16); }

/* Converts the bits of a double to a float. Values beyond the range of float become infinity, as in
 * NumPy. A C cast of such values would be undefined. */
float bytes_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    if (value >= 3.4028235677973366e38) return bytes_float(0x7F800000);
    if (value <= -3.4028235677973366e38) return bytes_float(0xFF800000);
    return (float)value;
}

/* Converts an unsigned number of `size` bytes to a signed number. Avoids casts whose results depend
 * on the compiler. */
int64_t bytes_signed(uint64_t bits, unsigned size) {
    const uint64_t sign = (uint64_t)1 << (8 * size - 1);
    if (!(bits & sign)) return (int64_t)bits;
    return -(int64_t)((sign - 1) - (bits & (sign - 1))) - 1;
}
