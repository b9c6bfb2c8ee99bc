/* conversion.h - functions that several tests of the converter use. */
#ifndef CONVERSION_H
#define CONVERSION_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VIT_TOOLS
#include "vit.h"

/* True if a message that refuses a checkpoint has the right form. It is one line, or a heading that
 * ends in ':' and then a line for each reason and for each remedy. */
static inline bool is_refusal(const char *text) {
    const char *line = strchr(text, '\n');
    if (!line) return *text != '\0';
    if (line == text || line[-1] != ':') return false;
    for (; line; line = strchr(line + 1, '\n'))
        if (strncmp(line + 1, "  ", 2) && strncmp(line + 1, "--", 2) &&
            strncmp(line + 1, "give your", 9))
            return false;
    return true;
}

/* Returns the vit_hash of the file's bytes; 0 if the file cannot be opened. */
static inline uint64_t hash_file(const char *path) {
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
