/* match.h - settles what a checkpoint leaves open by running the model: until it gives the same
 * logits as the original for one input (--match-input), and by how well it tells the classes of
 * labelled pictures (--match-folder).
 */
#ifndef MATCH_H
#define MATCH_H

#include <stdio.h>

#include "base/json.h"
#include "convert/conversion.h"

typedef struct match match;

/* Reads the pair, and takes from it what the tensors may not show: the size of the input and its
 * channels. To be called before layout_inspect; *m stays NULL unless something is to be matched. */
bool match_prepare(const convert_options *o, facts *f, match **m, report *r);

/* Fills all[FROM_MATCH]. To be called after layout_inspect; what is settled is asked no more. labels
 * and the decoder are for labelled pictures. */
bool match_run(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
               findings *found, report *r);

void match_free(match *m);

/* What labelled pictures could not tell from the next value is an assumption. False: out of
 * memory. */
bool match_assume(const match *m, findings *f);

/* What was found; nothing for NULL. Labelled pictures that cannot tell two values apart leave an
 * assumption. */
void match_put_provenance(const match *m, FILE *file);
void match_report_text(const match *m);
void match_report_json(const match *m, json_writer *w);

#endif
