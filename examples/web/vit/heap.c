/* heap.c - replaces the C library's malloc in the module. Debian's build of the C library does not
 * work with shared memory.
 *
 * Only the thread that calls the module allocates memory and uses the rest of the C library. The
 * workers compute in memory that this thread passes to them.
 */
#include "heap.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 65536, ALIGNMENT = 64 }; /* 64: vit.h's preferred alignment */

/* Precedes each block. The size of this struct keeps the block aligned. */
typedef struct block {
    size_t size;        /* header included */
    struct block *next; /* the next free block, by address */
    unsigned char padding[ALIGNMENT - sizeof(size_t) - sizeof(struct block *)];
} block;

extern unsigned char __heap_base; /* end of the linker's data */

/* The value of `next` in blocks in use. free() traps if a block has another value. */
#define TAKEN ((block *)&first_free)

static block *first_free;
static size_t heap_end; /* 0 before the first allocation */

static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* Adds a block to the free blocks, and joins it with adjacent free blocks. */
static void insert(block *b) {
    block **link = &first_free, *before = NULL;
    while (*link && *link < b) before = *link, link = &before->next;
    b->next = *link;
    *link = b;
    if (b->next && (size_t)b + b->size == (size_t)b->next) {
        b->size += b->next->size;
        b->next = b->next->next;
    }
    if (before && (size_t)before + before->size == (size_t)b) {
        before->size += b->size;
        before->next = b->next;
    }
}

/* Adds at least `size` free bytes at the end of the heap: a new block, which joins a free block
   before it. Returns 0 if the memory cannot grow. */
static int grow(size_t size) {
    const size_t start = heap_end ? heap_end : round_up((size_t)&__heap_base, ALIGNMENT);
    const size_t present = __builtin_wasm_memory_size(0);
    const size_t room = present * PAGE - start, pages = round_up(size, PAGE) / PAGE;
    block *b = (block *)start;
    if (room < size && __builtin_wasm_memory_grow(0, pages) == (size_t)-1) return 0;
    b->size = room < size ? room + pages * PAGE : room;
    heap_end = start + b->size;
    insert(b);
    return 1;
}

/* Takes the first free block that is large enough. Its unused rest stays free. */
static block *take(size_t size) {
    block **link = &first_free, *b, *rest;
    while (*link && (*link)->size < size) link = &(*link)->next;
    b = *link;
    if (!b) return NULL;
    *link = b->next;
    b->next = TAKEN;
    if (b->size > size) {
        rest = (block *)((size_t)b + size);
        rest->size = b->size - size;
        b->size = size;
        insert(rest);
    }
    return b;
}

void *malloc(size_t size) {
    const size_t whole = sizeof(block) + round_up(size, ALIGNMENT);
    block *b;
    if (whole < size) return NULL;
    b = take(whole);
    if (!b && grow(whole)) b = take(whole);
    return b ? b + 1 : NULL;
}

void *calloc(size_t count, size_t size) {
    void *memory = size && count > SIZE_MAX / size ? NULL : malloc(count * size);
    return memory ? memset(memory, 0, count * size) : NULL;
}

void *realloc(void *old, size_t size) {
    const size_t held = old ? ((block *)old)[-1].size - sizeof(block) : 0;
    void *memory;
    if (old && size <= held) return old;
    memory = malloc(size);
    if (memory && old) {
        memcpy(memory, old, held);
        free(old);
    }
    return memory;
}

void free(void *memory) {
    block *b = (block *)memory - 1;
    if (!memory) return;
    if (b->next != TAKEN) __builtin_trap();
    insert(b);
}

/* --- files ------------------------------------------------------------------------------------ */

/* The C library's streams call these functions, which the module would otherwise import from
 * JavaScript. The module uses only streams in memory, so here these functions only fail. */

#define IMPORTED(name) __imported_wasi_snapshot_preview1_##name

int32_t IMPORTED(fd_close)(int32_t file);
int32_t IMPORTED(fd_seek)(int32_t file, int64_t offset, int32_t whence, int32_t at);
int32_t IMPORTED(fd_write)(int32_t file, int32_t parts, int32_t count, int32_t written);

int32_t IMPORTED(fd_close)(int32_t file) {
    (void)file;
    return EBADF;
}

int32_t IMPORTED(fd_seek)(int32_t file, int64_t offset, int32_t whence, int32_t at) {
    (void)file, (void)offset, (void)whence, (void)at;
    return EBADF;
}

int32_t IMPORTED(fd_write)(int32_t file, int32_t parts, int32_t count, int32_t written) {
    (void)file, (void)parts, (void)count, (void)written;
    return EBADF;
}
