/* structure_result.h - what the matching by structure found out. */
#ifndef STRUCTURE_RESULT_H
#define STRUCTURE_RESULT_H

#include <stdbool.h>
#include <stddef.h>

enum { STRUCTURE_MAX_NOTES = 16 };

/* What was taken to be so although nothing in the file proves it. */
typedef struct structure_note {
    char what[160], why[160], option[160];
} structure_note;

typedef struct structure_dropped {
    char *name;                 /* as the file has it */
    const char *why;            /* "of whole numbers" */
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
    bool is_torch;              /* the blocks are torch.nn.TransformerEncoderLayer */
    int heads;                  /* 0: nothing shows them; else there is a layer for each */
    const char *assignment;     /* of a setting, which the names show; NULL: none */
    bool has_no_blocks;         /* the failure is that nothing looks like the blocks of one */
} structure;

#endif
