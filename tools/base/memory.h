/* memory.h - memory with a limit: arenas, and arrays that grow. Also loads and stores bytes. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An arena is a pool of memory. It hands out zeroed pieces, which have at most `limit` bytes in
 * total, and frees all pieces at once. */
typedef struct memory_block memory_block;

typedef struct memory_arena {
    memory_block *blocks;
    size_t used;
    size_t limit;
} memory_arena;

memory_arena memory_make(size_t limit);
void memory_free(memory_arena *arena);
void *memory_take(memory_arena *arena, size_t size); /* NULL at the limit, or if malloc fails */
/* Copies `size` bytes and adds a NUL. */
char *memory_copy_text(memory_arena *arena, const char *text, size_t size);

/* Makes space for one more item in a malloc'ed array of `count` items. If the array is full,
 * doubles its capacity. Returns the array, which may have moved. Returns NULL if memory is
 * exhausted; the old array then stays valid. */
void *memory_grow(void *items, size_t item_size, size_t count, size_t *capacity);

/* === Sizes and bytes === */

/* These functions add and multiply sizes with a check for overflow, and load and store
 * little-endian values. */

bool bytes_add(uint64_t a, uint64_t b, uint64_t *sum); /* returns false if the sum overflows */
/* Returns false if the product overflows. */
bool bytes_multiply(uint64_t a, uint64_t b, uint64_t *product);
uint16_t bytes_load16(const void *bytes);
uint32_t bytes_load32(const void *bytes);
uint64_t bytes_load64(const void *bytes);
void bytes_store_floats(void *bytes, const float *values, size_t count); /* stores f32 */
void bytes_store_halves(void *bytes, const float *values, size_t count); /* stores f16 */

/* These functions convert between floats and the bits of number formats. */
float bytes_float(uint32_t bits);    /* from IEEE binary32 */
float bytes_half(uint16_t bits);     /* from binary16, exactly */
uint16_t bytes_to_half(float value); /* to binary16, rounded to nearest, ties to even */
float bytes_bfloat(uint16_t bits);   /* from bfloat16, exactly */
float bytes_double(uint64_t bits);   /* from binary64, rounded to the nearest float */
int64_t bytes_signed(uint64_t bits, unsigned size); /* from the two's complement of `size` bytes */

#endif
