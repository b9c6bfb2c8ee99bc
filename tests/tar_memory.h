/* tar_memory.h - a function for tar_begin that reads an archive in memory. Its argument `user` is a
 * memory *. */
#ifndef TAR_MEMORY_H
#define TAR_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct memory {
    const uint8_t *bytes;
    size_t size, at;
} memory;

static inline size_t read_memory(void *user, void *to, size_t size) {
    memory *m = user;
    const size_t got = size < m->size - m->at ? size : m->size - m->at;
    if (got > 0) memcpy(to, m->bytes + m->at, got);
    m->at += got;
    return got;
}

#endif
