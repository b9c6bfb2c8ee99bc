/* conversion.h - what tests of the converter share. */
#ifndef CONVERSION_H
#define CONVERSION_H

#include <stdio.h>

#include "vit.h"

/* Of the file's bytes; 0: there is none. */
static inline uint64_t hash_file(const char *path)
{
    char bytes[4096];
    size_t size;
    vit_hash hash;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    vit_hash_init(&hash);
    while ((size = fread(bytes, 1, sizeof bytes, file)) > 0) vit_hash_update(&hash, bytes, size);
    fclose(file);
    return vit_hash_final(&hash);
}

#endif
