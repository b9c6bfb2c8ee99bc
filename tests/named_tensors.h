/* named_tensors.h - makes safetensors checkpoints in memory, for tests that recognise models by the
 * structure of their tensors. A checkpoint has tensors with given names and small shapes, or is a
 * whole model in which the names of the tensors depend on random bytes.
 */
#ifndef NAMED_TENSORS_H
#define NAMED_TENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct named_tensors {
    char *header;
    /* used: bytes of the header so far; capacity: bytes of its memory; data: bytes of all
     * tensors */
    size_t used, capacity, data;
    int count;
} named_tensors;

/* Adds a tensor with one to four dimensions. If it has fewer than four, a 0 ends the list of
 * dimensions. */
static inline void named_add(named_tensors *t, const char *name, const int dims[4]) {
    size_t count = 4;
    int i;
    if (t->used + strlen(name) + 200 > t->capacity) {
        t->capacity = 2 * t->capacity + strlen(name) + 4096;
        t->header = realloc(t->header, t->capacity);
        if (!t->header) exit(1);
    }
    t->used += (size_t)sprintf(t->header + t->used, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[",
                               t->count++ ? ',' : '{', name);
    for (i = 0; i < 4 && dims[i] > 0; i++) {
        t->used += (size_t)sprintf(t->header + t->used, "%s%d", i ? "," : "", dims[i]);
        count *= (size_t)dims[i];
    }
    t->used += (size_t)sprintf(t->header + t->used, "],\"data_offsets\":[%lu,%lu]}",
                               (unsigned long)t->data, (unsigned long)(t->data + count));
    t->data += count;
}

/* Returns the whole file, malloc'ed, and empties the list. */
static inline uint8_t *named_file(named_tensors *t, size_t *size) {
    const size_t header = (t->used + 8) / 8 * 8;
    uint8_t *file = calloc(1, 8 + header + t->data);
    int i;
    if (!file) exit(1);
    for (i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)header >> 8 * i);
    memset(file + 8, ' ', header);
    if (t->used > 0) memcpy(file + 8, t->header, t->used);
    else file[8] = '{';
    file[8 + (t->used ? t->used : 1)] = '}';
    *size = 8 + header + t->data;
    free(t->header);
    memset(t, 0, sizeof *t);
    return file;
}

/* === Names chosen by bytes === */

typedef struct named_bytes {
    const uint8_t *data;
    size_t size;
} named_bytes;

static inline unsigned named_next(named_bytes *b, unsigned below) {
    unsigned byte;
    if (b->size == 0) return 0;
    byte = *b->data++;
    b->size--;
    return byte % below;
}

/* Adds layers whose names are only numbers. Most layers have a bias. There are a few layers, then
 * blocks of layers, then a few more layers. */
static inline void named_unnamed(named_bytes *b, named_tensors *t) {
    static const int layers[][2][4] = {
        { { 8, 0 }, { 8, 0 } },      { { 8, 8, 0 }, { 8, 0 } },  { { 24, 8, 0 }, { 24, 0 } },
        { { 12, 8, 0 }, { 12, 0 } }, { { 8, 12, 0 }, { 8, 0 } }, { { 4, 8, 0 }, { 1, 4, 0 } },
        { { 1, 1, 8, 0 }, { 0 } },   { { 1, 10, 8, 0 }, { 0 } }, { { 8, 3, 2, 2 }, { 8, 0 } },
        { { 8, 12, 0 }, { 0 } },     { { 5, 8, 0 }, { 5, 0 } },  { { 1, 0 }, { 0 } },
    };
    unsigned places[3][8], counts[3], part, i, k;
    const unsigned repeats = 1 + named_next(b, 6);
    int number = 0;
    char name[32];
    for (part = 0; part < 3; part++) {
        counts[part] = named_next(b, part == 1 ? 8 : 4);
        for (i = 0; i < counts[part]; i++) places[part][i] = named_next(b, part == 1 ? 7 : 12);
    }
    for (part = 0; part < 3; part++)
        for (k = 0; k < (part == 1 ? repeats : 1) * counts[part]; k++) {
            const int(*layer)[4] = layers[places[part][k % counts[part]]];
            for (i = 0; i < (layer[0][0] == 4 ? 12 : layer[1][0] ? 2 : 1); i++) {
                sprintf(name, "arr_%d", number++);
                named_add(t, name, layer[i % 2]);
            }
        }
}

/* Adds the tensors of a module. The form decides, for example, if the module has a bias or is split
 * into a list of heads. */
static inline void named_part(named_tensors *t, const char *before, int number, const char *name,
                              unsigned shape, unsigned form) {
    static const int shapes[][4] = {
        { 8, 0 },     { 8, 8, 0 },    { 24, 8, 0 }, { 8, 12, 0 },    { 12, 8, 0 }, { 4, 8, 0 },
        { 4, 4, 0 },  { 8, 3, 2, 2 }, { 5, 8, 0 },  { 1, 10, 8, 0 }, { 10, 8, 0 }, { 1, 1, 8, 0 },
        { 16, 8, 0 }, { 4, 0 },       { 1, 0 },     { 8, 1, 1, 0 },
    };
    const int *dims = shapes[shape % 16];
    const int bias[4] = { dims[0], 0, 0, 0 };
    char path[256];
    int head;
    for (head = 0; head < (form % 8 == 7 ? 2 : 1); head++) {
        const char *inner = form % 8 == 7 ? (head ? ".1" : ".0") : "";
        if (number >= 0) snprintf(path, sizeof path, "%s%d.%s%s", before, number, name, inner);
        else snprintf(path, sizeof path, "%s%s%s", before, name, inner);
        if (form % 8 != 6) strcat(path, ".weight");
        named_add(t, path, dims);
        if (form % 8 < 4) {
            memcpy(path + strlen(path) - 6, "bias", 5);
            named_add(t, path, bias);
        }
    }
}

/* Makes a usual model. The random bytes decide which parts of the model are missing, which are
 * added, and which have other names, shapes and forms. */
static inline void named_model(named_bytes *b, named_tensors *t) {
    static const struct {
        const char *name;
        unsigned shape, form;
    } usual[] = {
        { "norm1", 0, 0 },      { "attn.qkv", 2, 0 },
        { "attn.proj", 1, 0 },  { "norm2", 0, 0 },
        { "mlp.0", 4, 0 },      { "mlp.2", 3, 0 },
        { "x", 0, 8 },          { "patch_embed.proj", 7, 0 },
        { "cls_token", 11, 6 }, { "pos_embed", 9, 6 },
        { "norm", 0, 0 },       { "head", 8, 0 },
        { "y", 0, 8 },
    };
    static const char *const words[] = {
        "norm1",  "norm2",     "attn.qkv",  "attn.q",
        "attn.k", "attn.v",    "attn.proj", "mlp.0",
        "mlp.2",  "fc1",       "fc2",       "a",
        "b",      "c",         "gate",      "ls1.gamma",
        "q_norm", "kv",        "heads",     "attn.in_proj",
        "w1",     "w2",        "w3",        "0",
        "1",      "cls_token", "pos_embed", "patch_embed.proj",
        "head",   "norm",      "register",  "mask_token",
        "embed",  "head.0",    "head.2",    "decoder.0.x",
        "scale",
    };
    static const char *const paths[] = { "blocks.", "layers.", "layer", "enc.0.", "lists.attn." };
    const char *path = paths[named_next(b, 5)];
    const int depth = 1 + (int)named_next(b, 3);
    const unsigned damage = named_next(b, 4); /* how often, in eighths */
    int part, i;
    for (part = 0; part < 13; part++) {
        const bool in_block = part < 7;
        const char *name = usual[part].name;
        unsigned shape = usual[part].shape, form = usual[part].form;
        if (named_next(b, 8) < damage) {
            const unsigned what = named_next(b, 8);
            if (what == 0) continue;
            if (what % 2) name = words[named_next(b, 37)];
            if (what / 2 % 2) shape = named_next(b, 16);
            if (what / 4 % 2 || form == 8) form = named_next(b, 8);
        }
        if (form == 8) continue; /* "x" and "y" exist only if damage gives them a form */
        for (i = 0; i < (in_block ? depth : 1); i++)
            named_part(t, in_block ? path : "", in_block ? i : -1, name, shape, form);
    }
}

#endif
