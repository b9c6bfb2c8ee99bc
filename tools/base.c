#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* === Reports === */

report report_make(char *text, size_t size, const char *file)
{
    report r;
    r.text = text;
    r.size = size;
    r.file = file;
    r.failed = false;
    text[0] = '\0';
    return r;
}

/* Names from a file may hold anything; a terminal must not see it. */
static void report_hide_controls(char *text)
{
    for (; *text; text++)
        if ((uint8_t)*text < 0x20 || *text == 0x7F) *text = '?';
}

bool (report_fail)(report *r, const char *format, ...)
{
    int used = 0;
    va_list arguments;
    if (r->failed) return false;
    r->failed = true;
    if (r->file) used = snprintf(r->text, r->size, "%s: ", r->file);
    if ((size_t)used < r->size) {
        va_start(arguments, format);
        vsnprintf(r->text + used, r->size - (size_t)used, format, arguments);
        va_end(arguments);
    }
    report_hide_controls(r->text);
    return false;
}

bool (report_no_memory)(report *r)
{
    return report_fail(r, "out of memory");
}

/* === Memory === */

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
    arena.limit = limit / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;   /* so are all pieces */
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

/* === Arithmetic and loads === */

bool base_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    *sum = a + b;
    return *sum >= a;
}

bool base_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    *product = a * b;
    return a == 0 || b <= UINT64_MAX / a;
}

uint16_t base_load16(const void *bytes)
{
    const uint8_t *p = bytes;
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t base_load32(const void *bytes)
{
    const uint8_t *p = bytes;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t base_load64(const void *bytes)
{
    const uint8_t *p = bytes;
    return (uint64_t)base_load32(p) | (uint64_t)base_load32(p + 4) << 32;
}

void base_store_floats(void *bytes, const float *values, size_t count)
{
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

/* The second byte decides over-long forms, surrogates and the end of Unicode. */
static bool base_utf8_second_fits(uint8_t lead, uint8_t second)
{
    switch (lead) {
    case 0xE0: return second >= 0xA0 && second <= 0xBF;
    case 0xED: return second >= 0x80 && second <= 0x9F;
    case 0xF0: return second >= 0x90 && second <= 0xBF;
    case 0xF4: return second >= 0x80 && second <= 0x8F;
    default:   return second >= 0x80 && second <= 0xBF;
    }
}

size_t base_utf8_length(const char *text, size_t size)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t length, i;
    if (size == 0) return 0;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (length > size || !base_utf8_second_fits(p[0], p[1])) return 0;
    for (i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

bool base_is_name(const char *text, size_t size)
{
    size_t at = 0;
    if (size == 0 || size > 1024) return false;
    while (at < size) {
        size_t length = base_utf8_length(text + at, size - at);
        if (length == 0 || (uint8_t)text[at] < 0x20 || text[at] == 0x7F) return false;
        at += length;
    }
    return true;
}

/* === Source === */

bool source_open_file(source *s, const char *path, report *r)
{
    struct stat status;
    s->name = path;
    s->memory = NULL;
    s->size = 0;
    s->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (s->descriptor < 0) return report_fail(r, "cannot open: %s", strerror(errno));
    if (fstat(s->descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
        s->size = (uint64_t)status.st_size;
        return true;
    }
    source_close(s);
    return report_fail(r, "not a regular file");
}

source source_from_memory(const char *name, const void *data, size_t size)
{
    source s;
    s.name = name;
    s.memory = data ? data : (const uint8_t *)"";
    s.descriptor = -1;
    s.size = size;
    return s;
}

void source_close(source *s)
{
    if (s->descriptor >= 0) close(s->descriptor);
    s->descriptor = -1;
}

bool source_is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool source_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

static bool source_read_file(const source *s, uint64_t offset, uint8_t *to, size_t size, report *r)
{
    while (size > 0) {
        size_t piece = size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
        ssize_t got = pread(s->descriptor, to, piece, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return report_fail(r, "cannot read at byte %llu: %s", (unsigned long long)offset,
                               strerror(errno));
        if (got == 0)
            return report_fail(r, "file became shorter: nothing at byte %llu",
                               (unsigned long long)offset);
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

bool source_read(const source *s, uint64_t offset, void *destination, size_t size, report *r)
{
    if (offset > s->size || size > s->size - offset)
        return report_fail(r, "truncated: %llu bytes expected at byte %llu, the file ends at %llu",
                           (unsigned long long)size, (unsigned long long)offset,
                           (unsigned long long)s->size);
    if (!s->memory) return source_read_file(s, offset, destination, size, r);
    if (size > 0) memcpy(destination, s->memory + offset, size);
    return true;
}
