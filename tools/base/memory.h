/* memory.h - memory with a limit: arenas, arrays that grow. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An arena hands out zeroed pieces, `limit` bytes in total, and frees them all at once. */
typedef struct memory_block memory_block;

typedef struct memory_arena {
    memory_block *blocks;
    size_t used;
    size_t limit;
} memory_arena;

memory_arena memory_make(size_t limit);
void memory_free(memory_arena *arena);
void *memory_take(memory_arena *arena, size_t size); /* NULL if none is left */
char *memory_copy_text(memory_arena *arena, const char *text, size_t size); /* adds a NUL */

/* Makes room for one more item in a malloc'ed array, and doubles the array when it is full. Returns
 * NULL if memory is exhausted; the old array then stays valid. */
void *memory_grow(void *items, size_t item_size, size_t count, size_t *capacity);

/* === Sizes and bytes === */

/* These functions do checked arithmetic of sizes, and little-endian loads and stores. */

bool bytes_add(uint64_t a, uint64_t b, uint64_t *sum); /* false: overflow */
bool bytes_multiply(uint64_t a, uint64_t b, uint64_t *product);
uint16_t bytes_load16(const void *bytes);
uint32_t bytes_load32(const void *bytes);
uint64_t bytes_load64(const void *bytes);
void bytes_store_floats(void *bytes, const float *values, size_t count); /* as f32 */
void bytes_store_halves(void *bytes, const float *values, size_t count); /* as f16 */

/* Values from their bits. */
float bytes_float(uint32_t bits);                   /* IEEE binary32 */
float bytes_half(uint16_t bits);                    /* binary16, exactly */
uint16_t bytes_to_half(float value);                /* to nearest, ties to even */
float bytes_bfloat(uint16_t bits);                  /* bfloat16, exactly */
float bytes_double(uint64_t bits);                  /* binary64, rounded to nearest */
int64_t bytes_signed(uint64_t bits, unsigned size); /* two's complement of `size` bytes */

#endif
