/* hostile_model.c MODEL - writes the model to standard output, with hostile labels and provenance.
 * In them, each long run of '@' becomes a forged line and control sequences for terminals. The
 * converter writes no such labels, so the program changes the bytes of a converted file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIT_IMPLEMENTATION
#include "../vit.h"

static const char hostile[] =
    "\x1b]0;title\x07\x1b[31m\n9.9999  forged\n\x80\x9b\x7f\xc2\x9b\xc2\x85"
    "\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8\xff\r\b";

static void put(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 8; i++) at[i] = (unsigned char)(value >> (8 * i));
}

int main(int argc, char **argv) {
    vit_model model;
    vit_hash hash;
    unsigned char *bytes;
    size_t meta_size, next = 0;
    if (argc != 2 || vit_model_open(argv[1], 0, &model) != VIT_OK) return 1;
    bytes = (unsigned char *)malloc(model.size);
    if (!bytes) return 1;
    memcpy(bytes, model.data, model.size);
    meta_size = (size_t)bytes[VIT_HEADER_META_SIZE] | (size_t)bytes[VIT_HEADER_META_SIZE + 1] << 8 |
                (size_t)bytes[VIT_HEADER_META_SIZE + 2] << 16;
    for (size_t i = 0; i < meta_size; i++) {
        /* Each run of '@', except its last nine, gets the bytes of `hostile` from the first on. */
        if (memcmp(bytes + i, "@@@@@@@@@@", 10) != 0) next = 0;
        else if (next < sizeof hostile - 1) bytes[i] = (unsigned char)hostile[next++];
    }
    put(bytes + VIT_HEADER_CHECKSUM, 0);
    vit_hash_init(&hash);
    vit_hash_update(&hash, bytes, meta_size);
    put(bytes + VIT_HEADER_CHECKSUM, vit_hash_final(&hash));
    if (fwrite(bytes, 1, model.size, stdout) != model.size) return 1;
    free(bytes);
    vit_model_close(&model);
    return fclose(stdout) != 0;
}
