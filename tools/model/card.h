/* card.h - describes a model in words and as JSON. */
#ifndef CARD_H
#define CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#define VIT_TOOLS
#include "vit.h"

/* === Parts === */

/* The parts of a network with the number of parameters in each. A part is named by the first
 * component of the tensors' names: "patch_embed", "blocks", "head". */

enum { PARTS_MAX = 64 }; /* far more than any architecture has */

typedef struct part {
    char name[64];
    uint64_t parameters;
} part;

typedef struct part_list {
    part items[PARTS_MAX]; /* in the order in which they were added */
    int count;
    uint64_t total;
} part_list;

/* True if the tensor is a parameter of the network. The constants of preprocessing and the outputs
 * of the self-test are tensors of a .vit file too, but no parameters. */
bool parts_is_parameter(const char *tensor_name);

/* Adds the tensor's parameters to the part of this tensor. Zero the list before the first call.
 * "blocks.3.mlp.fc1.weight" belongs to the part "blocks"; "cls_token" is a part by itself. */
void parts_add(part_list *list, const vit_tensor *tensor);

/* === A configuration === */

/* These functions describe a vit_config in words and as JSON. */

/* Describes in words how the model differs from a plain ViT: "4 register tokens, SiLU, gated MLP".
 * Text that does not fit into `size` bytes is cut off. */
const char *settings_describe(const vit_config *config, char *text, size_t size);

/* Writes every field that a .vit file stores, under the field's own name. */
void describe_put_fields(json_writer *w, const vit_config *c);

/* === The card === */

/* The card is the description of a .vit file as JSON. vit-info --json and the web page show it. */

typedef struct card_totals {
    part_list parts;
    int num_tensors;
    uint64_t bytes[VIT_NUM_DTYPES]; /* bytes of all tensors of each type */
} card_totals;

/* Computes the sums over all tensors of the model. */
void card_add_up(const vit_model *model, card_totals *sum);

/* Returns the number of classes that have a name. It may be lower than num_classes. */
int card_count_labels(const vit_model *model);
/* Returns the number of classes that have a WordNet id. */
int card_count_synsets(const vit_model *model);

/* Returns the name of the order in which the weights are stored: "plain", "panels" or "groups". */
const char *card_layout_name(vit_layout layout);

/* Takes the next line "key: value" from the provenance at *at: *line and *length receive the line,
 * and *at moves to the next line. For an assumption, *is_assumed becomes true, and *line begins
 * after the key. Returns false at the end of the text. */
bool card_next_line(const char **at, const char **line, int *length, bool *is_assumed);

/* True for the tensors that change if the head is replaced: those of the head, and those of the
 * self-test. */
bool card_is_of_head(const char *tensor_name);

/* Returns the XXH64 of everything that affects an embedding: all options and tensors but those of
 * the head and the self-test. */
uint64_t card_backbone(const vit_model *model);

/* Bits of `lists`: the lists that card_put adds. */
enum { CARD_LABELS = 1, CARD_TENSORS = 2 };

/* Writes the members of the card, from "config" to "source". The caller must have opened the
 * object. */
void card_put(json_writer *w, const vit_model *model, const card_totals *sum, unsigned lists);

#endif
