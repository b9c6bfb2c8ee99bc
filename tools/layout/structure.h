/* structure.h - finds a vision transformer in a checkpoint whose names fit no layout. It uses
 * repeated numbered groups, shapes, words in the names and, last, the order in the file.
 *
 * A part is a weight and its bias. A block is one of several groups of parts whose names differ
 * only in a number. The place of a part is its index within the block. Every part gets a role: its
 * name in layout_own, such as "blocks.0.attn.q". Some parts are folded first: one part is computed
 * from several parts, for example from the separate linear layers of the heads. Every tensor must
 * get a role, or be known to have no effect. If any other tensor remains, the checkpoint stays
 * unchanged, and the report names all tensors without a role.
 *
 *     structure_parts.c    makes parts from tensors, and blocks from parts
 *     structure_block.c    finds roles within a block, and parts stored twice
 *     structure_rest.c     finds roles before and after the blocks; names unnamed arrays
 *     structure_tensors.c  gives the tensors their roles' names, and folds parts
 */
#ifndef STRUCTURE_H
#define STRUCTURE_H

#include <stdbool.h>

#include "base/report.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "layout/layout.h"

enum { STRUCTURE_MAX_NOTES = 24, STRUCTURE_NOTE_SIZE = 400 };

/* An assumption that the file does not prove: its content, its reason, and the option that changes
 * it. */
typedef struct structure_note {
    char what[STRUCTURE_NOTE_SIZE], why[STRUCTURE_NOTE_SIZE], option[STRUCTURE_NOTE_SIZE];
} structure_note;

typedef struct structure_dropped {
    char *name;      /* name of a tensor, as in the file */
    const char *why; /* reason for dropping the tensor, such as "of whole numbers" */
} structure_dropped;

typedef struct structure {
    bool found;
    structure_note notes[STRUCTURE_MAX_NOTES];
    int note_count;
    structure_dropped *dropped; /* tensors that have no effect */
    size_t dropped_count;
    /* The reason for the role of each tensor of the resulting checkpoint. */
    const char **reasons;
    size_t reason_count;
    const layout *layout; /* layout_own or a related layout */
    /* The number of heads if each head has a linear layer of its own. 0 if this number is
     * unknown. */
    int heads;
    /* A setting and its value, such as "qkv_order=kqv", if the names of the tensors show one;
     * otherwise NULL. */
    const char *assignment;
    /* The reason why no activation lies between the two layers of the classification head; "" if no
     * such reason is known. */
    char head_why[STRUCTURE_NOTE_SIZE];
} structure;

/* Renames and folds the checkpoint's tensors for layout_own, except those that `ignore` names. On
 * failure the checkpoint is unchanged and the report names the unexplained tensors. `is_matched`
 * means that the model must later give known logits. Free *s in any case. */
bool structure_find(checkpoint *c, const text_list *ignore, bool is_matched, structure *s,
                    report *r);
void structure_free(structure *s);

/* === The parts of a checkpoint, shared by structure_*.c === */

typedef enum part_kind {
    /* Weight [rows, cols] of a linear layer, or of a convolution with a kernel of one pixel. */
    PART_MATRIX,
    PART_CONV,   /* weight [rows, channels, P, P] of a convolution */
    PART_NORM,   /* a weight and a bias, both [rows] */
    PART_VECTOR, /* a single tensor [rows]: a norm without bias, a token, LayerScale */
    /* A parameter of two or more dimensions that belongs to no layer: positions, tokens, a
     * matrix. */
    PART_TABLE,
    PART_BATCH, /* weight and bias of a batch norm */
    PART_OTHER, /* whole numbers, norms over several dimensions, and all other tensors */
} part_kind;

/* A name is split into words at dots, underscores, capitals and digits. The words are in lower
 * case. */
enum { PART_MAX_WORDS = 24, PART_WORD_SIZE = 24, STRUCTURE_MAX_TENSORS = 8192 };

typedef struct structure_part {
    char *path; /* the name of the weight without ".weight" */
    size_t path_size;
    const checkpoint_tensor_info *weight, *bias; /* NULL if the checkpoint has no such tensor */
    part_kind kind;
    int64_t rows, cols;
    /* The index of the block, and the index of the part within the block. Both are -1 for a part
     * outside the blocks. */
    int block, place;
    const char *inner; /* path after the block's number, or after the path that all tensors share */
    /* If each head has a part of its own and this is the part of the first head: the number of
     * heads. Otherwise 0. */
    int heads;
    int next; /* place of the part for the next head; 0 if this is the last head */
    /* True for the parts of all heads but the first, if each head has a part of its own. */
    bool is_next;
    const char *role, *reason; /* both are NULL until the role is found */
    bool is_bare;              /* true for a parameter that is not the weight of a module */
    bool is_dropped;
    bool is_outside; /* true if the name shows that the part is outside the only block */
    /* The words of `inner`. */
    char words[PART_MAX_WORDS][PART_WORD_SIZE];
    int word_count;
} structure_part;

typedef struct structure_parts {
    checkpoint *checkpoint;
    structure_part *parts;
    int count;
    int depth, places;                 /* number of blocks, and number of parts in each block */
    structure_part **in_blocks;        /* the parts of all blocks, as an array [depth, places] */
    int64_t width;                     /* width of a token */
    const structure_part *shared_norm; /* the only norm, if all blocks share it; otherwise NULL */
    /* Number of rows of the table of positions; 0 if the table was not found. */
    int64_t rows;
    bool is_sorted; /* true if the file is sorted by name, so its order carries no information */
    /* All tensors, with names made from their order in the file. NULL if their own names are
     * useful. */
    checkpoint_tensor_info *ordered;
    char *ordered_names;
    char unsure[2048]; /* message about parts whose roles are undecided; "" if there are none */
    bool is_matched;   /* see `is_matched` of structure_find */
    structure *result;
} structure_parts;

/* Fills p->parts with the parts of the checkpoint. Drops the tensors that `ignore` names. */
bool structure_make_parts(checkpoint *c, const text_list *ignore, structure_parts *p, report *r);
void structure_free_parts(structure_parts *p);

/* Fills p->ordered if the names in the checkpoint carry no information; see structure_rest.c. */
bool structure_read_order(checkpoint *c, const text_list *ignore, structure_parts *p, report *r);

/* Drops modules that are stored under two names; see structure_block.c. */
bool structure_drop_copies(structure_parts *p, report *r);

/* Replaces the words of the part by the words of `text`. */
void structure_read_words(structure_part *part, const char *text);

/* True if the part's name has one of these words. The list `words` has the form "q query queries";
 * "in+proj" stands for two consecutive words. */
bool structure_says(const structure_part *part, const char *words);

/* Returns the name of a part for messages. If the names were made from the order (p->ordered),
 * returns the name in the file. */
const char *structure_shown(const structure_parts *p, const structure_part *part);

structure_part *structure_at(const structure_parts *p, int block, int place);

/* Returns the first part with this role in block `block`, or outside the blocks if `block` is -1.
 * Returns NULL if there is none. */
structure_part *structure_with_role(const structure_parts *p, int block, const char *role);

/* Finds the blocks, their number (p->depth) and the width of a token (p->width). */
bool structure_find_blocks(structure_parts *p, report *r);

bool structure_name_block(structure_parts *p, report *r);
bool structure_name_rest(structure_parts *p, report *r);

/* Gives a role to a part that has none. */
void structure_name(structure_part *part, const char *role, const char *reason);

/* True if the order in the file, or the last number in each name, distinguishes these parts.
 * Otherwise records that their `roles` are undecided. */
bool structure_order_tells(structure_parts *p, structure_part *const *parts, int count,
                           const char *roles);

/* Returns the last number in a name; -1 for none. */
int structure_last_number(const structure_part *part);

/* Appends the roles that no part has yet and that fit this part outside the blocks, such as
 * "norm_pre, norm". */
enum { STRUCTURE_NAMES_SIZE = 200 };
void structure_list_names(const structure_parts *p, const structure_part *part,
                          char names[STRUCTURE_NAMES_SIZE]);

void structure_note_add(structure *s, const char *what, const char *why, const char *option);

/* Texts for the reason of a role, used inside and outside the blocks. */
extern const char structure_by_name[], structure_by_shape[];

#endif
