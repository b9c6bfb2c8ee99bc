/* memory.c - memory for classify.c, and what else it wants of a C library.
 *
 * The module is linked without one: Debian's has no version for shared memory. Only the thread that
 * opens and classifies allocates; the workers compute in what it gave them.
 */
#include "memory.h"

enum { PAGE = 65536 };

/* In front of what allocate() returns, which is as aligned as the header is large. */
typedef struct block {
    size_t size;        /* header included */
    struct block *next; /* of the free ones, in order of their addresses */
    unsigned char padding[ALIGNMENT - sizeof(size_t) - sizeof(struct block *)];
} block;

extern unsigned char __heap_base; /* where the linker's data end */

static block *first_free;
static size_t heap_end; /* 0: nothing was taken yet */

static size_t round_up(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* Puts a block among the free ones, and joins it with neighbours that it touches. */
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

/* One more free block of `size`, or with a smaller free one before it. */
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

/* Takes the first free block that is large enough, and gives back what is left of it. */
static block *take(size_t size) {
    block **link = &first_free, *b, *rest;
    while (*link && (*link)->size < size) link = &(*link)->next;
    b = *link;
    if (!b) return NULL;
    *link = b->next;
    if (b->size > size) {
        rest = (block *)((size_t)b + size);
        rest->size = b->size - size;
        b->size = size;
        insert(rest);
    }
    return b;
}

void *allocate(size_t size) {
    const size_t whole = sizeof(block) + round_up(size, ALIGNMENT);
    block *b;
    if (whole < size) return NULL;
    b = take(whole);
    if (!b && grow(whole)) b = take(whole);
    return b ? b + 1 : NULL;
}

void release(void *memory) {
    if (memory) insert((block *)memory - 1);
}

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *p = a, *q = b;
    size_t i;
    for (i = 0; i < size; i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}
