/* structure.h - finds a vision transformer in a checkpoint whose names no layout knows: by repeated
 * numbered groups, shapes, words in the names and, last, the order in the file.
 *
 * The tensors become parts: a weight and its bias. Parts of the same place in each group are the
 * blocks. Every part then gets a role, which is its name in the layout that layout_own reads:
 * "blocks.0.attn.q". Some are folded first, such as one linear layer for each head. Every tensor
 * must get a role or be known to play none; otherwise nothing is changed and the report names all
 * that is left.
 *
 *     structure_parts.c    tensors into parts, parts into blocks
 *     structure_block.c    roles within a block; what is there twice
 *     structure_rest.c     roles before and after the blocks; names where there are none
 *     structure_tensors.c  puts the roles' names on the tensors, folded where needed
 */
#ifndef STRUCTURE_H
#define STRUCTURE_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "layout/layout.h"

enum { STRUCTURE_MAX_NOTES = 16 };

/* An assumption: nothing in the file proves it. */
typedef struct structure_note {
    char what[160], why[160], option[160];
} structure_note;

typedef struct structure_dropped {
    char *name;      /* as the file has it */
    const char *why; /* "of whole numbers" */
} structure_dropped;

typedef struct structure {
    bool found;
    structure_note notes[STRUCTURE_MAX_NOTES];
    int note_count;
    structure_dropped *dropped; /* tensors that play no part */
    size_t dropped_count;
    /* For each tensor of the checkpoint as it is afterwards: why it has this role. */
    const char **reasons;
    size_t reason_count;
    const layout *layout;   /* of which it is: layout_own or one of those beside it */
    int heads;              /* 0: nothing shows them; else there is a layer for each */
    const char *assignment; /* of a setting, which the names show; NULL: none */
} structure;

/* Renames and folds the checkpoint's tensors for layout_own, but for those that `ignore` names. On
 * failure the checkpoint is as it was and the report says what could not be explained. is_matched:
 * the model will have to give known logits. Free it either way. */
bool structure_find(checkpoint *c, const text_list *ignore, bool is_matched, structure *s,
                    report *r);
void structure_free(structure *s);

#endif
