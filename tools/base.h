/* base.h - what every reader here needs: one-line error reports, bounded memory, checked
 * arithmetic, little-endian loads and stores, and random access to a file or a block of memory.
 */
#ifndef BASE_H
#define BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* === Reports ===
 * A report is where a failing function leaves its one line. The first failure wins: callers on
 * the way out add nothing. */
typedef struct report {
    char *text;
    size_t size;        /* of text, not 0 */
    const char *file;   /* prefix of the line; may be NULL */
    bool failed;
} report;

#if defined(__GNUC__)
#define BASE_PRINTF(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define BASE_PRINTF(format_index, first_argument)
#endif

report report_make(char *text, size_t size, const char *file);

/* Always false, so that a function can end with `return report_fail(...)`. The macros tell that to
 * a compiler or analyser which sees one file at a time; a statement begins with (void). */
bool report_fail(report *r, const char *format, ...) BASE_PRINTF(2, 3);
bool report_no_memory(report *r);
#define report_fail(...) (report_fail(__VA_ARGS__), false)
#define report_no_memory(r) (report_no_memory(r), false)

/* === Memory ===
 * An arena hands out zeroed pieces of at most `limit` bytes altogether and frees them at once. */
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

/* === Arithmetic, loads and stores === */
bool base_add(uint64_t a, uint64_t b, uint64_t *sum);       /* false: overflow */
bool base_multiply(uint64_t a, uint64_t b, uint64_t *product);
uint16_t base_load16(const void *bytes);
uint32_t base_load32(const void *bytes);
uint64_t base_load64(const void *bytes);
void base_store_floats(void *bytes, const float *values, size_t count);   /* as f32 */

/* Length of the valid UTF-8 sequence at text, 0 if there is none. */
size_t base_utf8_length(const char *text, size_t size);
/* True for 1 to 1024 bytes of UTF-8 without control characters: fit to be a tensor's name. */
bool base_is_name(const char *text, size_t size);

/* === Source: read-only bytes at 64-bit offsets === */
typedef struct source {
    const char *name;
    const uint8_t *memory;   /* NULL: a file */
    int descriptor;
    uint64_t size;
} source;

bool source_open_file(source *s, const char *path, report *r);
source source_from_memory(const char *name, const void *data, size_t size);
void source_close(source *s);

bool source_is_folder(const char *path);
bool source_exists(const char *path);

/* All of size bytes, or a failure that says where the file ends. */
bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r);

#endif
