/* card.h - describes a model in words and as JSON. */
#ifndef CARD_H
#define CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#define VIT_TOOLS
#include "vit.h"

/* === Parts === */

/* The number of parameters in each part of a network: "patch_embed", "blocks", "head". */

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

/* True for a parameter. The numbers exclude the constants of preprocessing and the outputs of the
 * self-test, which a .vit file also stores as tensors. */
bool parts_is_parameter(const char *tensor_name);

/* Zero the list first. "blocks.3.mlp.fc1.weight" belongs to the part "blocks"; "cls_token" is a
 * part. */
void parts_add(part_list *list, const vit_tensor *tensor);

/* === A configuration in words === */

/* A vit_config in words and as JSON. */

/* Describes the differences from a plain ViT: "4 register tokens, SiLU, gated MLP". Text that does
 * not fit is cut off. */
const char *settings_describe(const vit_config *config, char *text, size_t size);

/* Writes every field that a .vit file stores, under its own name. */
void describe_put_fields(json_writer *w, const vit_config *c);

/* === The card === */

/* A .vit file's description as JSON: vit-info --json, the card of a web page. */

typedef struct card_totals {
    part_list parts;
    int num_tensors;
    uint64_t bytes[VIT_NUM_DTYPES]; /* bytes of tensors, by type */
} card_totals;

void card_add_up(const vit_model *model, card_totals *sum);

/* Returns the number of named classes, which may be lower than num_classes. */
int card_count_labels(const vit_model *model);
int card_count_synsets(const vit_model *model);

/* Returns "plain", "panels" or "groups". */
const char *card_layout_name(vit_layout layout);

/* Cuts a line "key: value" off the provenance. *is_assumed becomes true for an assumption, which is
 * returned without the key. False at the end. */
bool card_next_line(const char **at, const char **line, int *length, bool *is_assumed);

/* True for the tensors that change with the head: those of the head, and those of the self-test. */
bool card_is_of_head(const char *tensor_name);

/* Returns the XXH64 of everything that affects an embedding: the options and all other tensors. */
uint64_t card_backbone(const vit_model *model);

/* Bits for the lists that card_put adds. */
enum { CARD_LABELS = 1, CARD_TENSORS = 2 };

/* Writes the members of an object, from "config" to "source". */
void card_put(json_writer *w, const vit_model *model, const card_totals *sum, unsigned lists);

#endif
