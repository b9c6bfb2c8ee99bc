/* card.h - what a .vit file says of itself, as JSON: vit-info --json, the card of a web page. */
#ifndef CARD_H
#define CARD_H

#include <stdbool.h>

#include "base/json.h"
#include "model/parts.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct card_totals {
    part_list parts;
    int num_tensors;
    uint64_t bytes[VIT_NUM_DTYPES];     /* of tensors, by type */
} card_totals;

void card_add_up(const vit_model *model, card_totals *sum);

/* How many classes have a name: the list may be shorter than num_classes. */
int card_count_labels(const vit_model *model);
int card_count_synsets(const vit_model *model);

/* "plain", "panels", "groups". */
const char *card_layout_name(vit_layout layout);

/* Takes a line off the provenance, "key: value", and says whether it is about an assumption: then
 * without its key. False at the end. */
bool card_next_line(const char **at, const char **line, int *length, bool *is_assumed);

/* What is listed as well, or-ed together. */
enum { CARD_LABELS = 1, CARD_TENSORS = 2 };

/* Members of an object: config to source. */
void card_put(json_writer *w, const vit_model *model, const card_totals *sum, unsigned lists);

#endif
