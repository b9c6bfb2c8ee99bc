/* structure.h - finds a vision transformer in a checkpoint whose names fit no layout. It uses
 * repeated numbered groups, shapes, words in the names and, last, the order in the file.
 *
 * The tensors become parts: a weight and its bias. Parts at the same place in each group are the
 * blocks. Every part then gets a role, its name in the layout that layout_own reads:
 * "blocks.0.attn.q". Some are folded first, such as one linear layer for each head. Every tensor
 * must get a role or be known to need none. Otherwise nothing is changed, and the report names all
 * tensors that are left.
 *
 *     structure_parts.c    tensors into parts, parts into blocks
 *     structure_block.c    roles within a block; parts stored twice
 *     structure_rest.c     roles before and after the blocks; names for arrays without any
 *     structure_tensors.c  puts the roles' names on the tensors, folded where needed
 */
#ifndef STRUCTURE_H
#define STRUCTURE_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "layout/layout.h"

enum { STRUCTURE_MAX_NOTES = 24, STRUCTURE_NOTE_SIZE = 400 };

/* An assumption that nothing in the file proves. */
typedef struct structure_note {
    char what[STRUCTURE_NOTE_SIZE], why[STRUCTURE_NOTE_SIZE], option[STRUCTURE_NOTE_SIZE];
} structure_note;

typedef struct structure_dropped {
    char *name;      /* as in the file */
    const char *why; /* "of whole numbers" */
} structure_dropped;

typedef struct structure {
    bool found;
    structure_note notes[STRUCTURE_MAX_NOTES];
    int note_count;
    structure_dropped *dropped; /* tensors without effect */
    size_t dropped_count;
    /* For each tensor of the resulting checkpoint: the reason for its role. */
    const char **reasons;
    size_t reason_count;
    const layout *layout;               /* layout_own or a related layout */
    int heads;                          /* 0 if unknown; otherwise each head has its own layer */
    const char *assignment;             /* value of a setting that the names show; or NULL */
    char head_why[STRUCTURE_NOTE_SIZE]; /* why nothing is between the head's two layers; or "" */
} structure;

/* Renames and folds the checkpoint's tensors for layout_own, except those that `ignore` names. On
 * failure the checkpoint is unchanged and the report names the unexplained tensors. is_matched: the
 * model must later give known logits. Free it in any case. */
bool structure_find(checkpoint *c, const text_list *ignore, bool is_matched, structure *s,
                    report *r);
void structure_free(structure *s);

#endif
