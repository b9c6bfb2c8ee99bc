/* parts.h - how many parameters each part of a network has: "patch_embed", "blocks", "head". */
#ifndef PARTS_H
#define PARTS_H

#include <stdbool.h>

#define VIT_TOOLS
#include "vit.h"

enum { PARTS_MAX = 64 };     /* far more than any architecture has */

typedef struct part {
    char name[64];
    uint64_t parameters;
} part;

typedef struct part_list {
    part items[PARTS_MAX];   /* in the order in which they were added */
    int count;
    uint64_t total;
} part_list;

/* Not the constants of preprocessing and the outputs of the self-test, which a .vit file stores as
 * tensors too. */
bool parts_is_parameter(const char *tensor_name);

/* Zero the list first. "blocks.3.mlp.fc1.weight" belongs to "blocks", "cls_token" to itself. */
void parts_add(part_list *list, const vit_tensor *tensor);

#endif
