/* structure_parts.h - the parts of a checkpoint, which is what structure_*.c share. */
#ifndef STRUCTURE_PARTS_H
#define STRUCTURE_PARTS_H

#include "layout/structure.h"

typedef enum part_kind {
    PART_MATRIX, /* [rows, cols]: a linear layer, or a convolution of one pixel */
    PART_CONV,   /* [rows, channels, P, P] */
    PART_NORM,   /* a weight and a bias, both [rows] */
    PART_VECTOR, /* [rows] by itself: a norm without bias, a token, LayerScale */
    PART_TABLE,  /* a bare parameter of more dimensions: positions, tokens, a matrix */
    PART_BATCH,  /* of a batch norm */
    PART_OTHER,  /* whole numbers, norms over more than one dimension, what else there may be */
} part_kind;

/* The words that a name is made of: lower case, split at dots, underscores, capitals and digits. */
enum { PART_MAX_WORDS = 24, PART_WORD_SIZE = 24, STRUCTURE_MAX_TENSORS = 8192 };

typedef struct structure_part {
    char *path; /* the name without ".weight" */
    size_t path_size;
    const checkpoint_tensor_info *weight, *bias; /* NULL: there is none */
    part_kind kind;
    int64_t rows, cols;
    int block, place;          /* -1: not in a block */
    const char *inner;         /* the path after the block's number */
    int heads;                 /* > 0: first of so many, one for each head */
    int next;                  /* place of the next of them; 0: none */
    bool is_next;              /* one of them that is not the first */
    const char *role, *reason; /* NULL: not found yet */
    bool is_bare;              /* a parameter, not the weight of a module */
    bool is_dropped;
    bool is_outside;                            /* of a block, by its words */
    char words[PART_MAX_WORDS][PART_WORD_SIZE]; /* of `inner`, or of the path */
    int word_count;
} structure_part;

typedef struct structure_parts {
    checkpoint *checkpoint;
    structure_part *parts;
    int count;
    int depth, places;          /* blocks, and parts of each */
    structure_part **in_blocks; /* [depth, places] */
    int64_t width;              /* of a token */
    int64_t rows;               /* of the table of positions; 0: not found */
    bool is_sorted;             /* the file has them by name, so that their order tells nothing */
    checkpoint_tensor_info *ordered; /* all, with names by their order; NULL: theirs tell */
    char *ordered_names;
    char unsure[2048]; /* what neither names nor shapes nor order decide; "": nothing */
    bool is_matched;   /* as in structure_find */
    structure *result;
} structure_parts;

/* Tensors that `ignore` names are dropped. */
bool structure_make_parts(checkpoint *c, const text_list *ignore, structure_parts *p, report *r);
void structure_free_parts(structure_parts *p);

/* Gives p->ordered to checkpoints whose names tell nothing; see structure_rest.c. */
bool structure_read_order(checkpoint *c, const text_list *ignore, structure_parts *p, report *r);

/* Drops modules that are stored under two names; see structure_block.c. */
bool structure_drop_copies(structure_parts *p, report *r);

/* Splits what the words are taken from anew. */
void structure_read_words(structure_part *part, const char *text);

/* Does it have one of these words? A list as "q query queries"; "in+proj": one after the other. */
bool structure_says(const structure_part *part, const char *words);

/* What messages call a part: names of our own are no use there. */
const char *structure_shown(const structure_parts *p, const structure_part *part);

structure_part *structure_at(const structure_parts *p, int block, int place);

/* The first part of a block, or outside of all (-1), with this role; NULL: none. */
structure_part *structure_with_role(const structure_parts *p, int block, const char *role);

/* Finds blocks, depth and width. */
bool structure_find_blocks(structure_parts *p, report *r);

bool structure_name_block(structure_parts *p, report *r);
bool structure_name_rest(structure_parts *p, report *r);

/* Gives a part its role, unless it has one. */
void structure_name(structure_part *part, const char *role, const char *reason);

/* Does their order in the file, or the last number in their names, tell parts of a block apart?
 * If not, the parts are unsure: `roles` says what of. */
bool structure_order_tells(structure_parts *p, structure_part *const *parts, int count,
                           const char *roles);

/* The last number in a name; -1: none. */
int structure_last_number(const structure_part *part);

void structure_note_add(structure *s, const char *what, const char *why, const char *option);

/* Reasons for a role that blocks and the rest share. */
extern const char structure_by_name[], structure_by_shape[];

#endif
