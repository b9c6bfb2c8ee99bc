/* match.h - settles open settings of a checkpoint by running the model: until it gives the
 * original's logits for one input (--match-input), or by how well it classifies labelled pictures
 * (--match-folder).
 */
#ifndef MATCH_H
#define MATCH_H

#include <stdio.h>

#include "base/json.h"
#include "convert/conversion.h"

typedef struct match match;

/* Reads the pair, and takes from it the size of the input and its channels, which the tensors may
 * not show. To be called before layout_inspect; *m stays NULL unless something is to be matched. */
bool match_prepare(const convert_options *o, facts *f, match **m, report *r);

/* Fills all[FROM_MATCH]. To be called after layout_inspect; what is settled is asked no more. labels
 * and the decoder are for labelled pictures. */
bool match_run(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
               findings *found, report *r);

void match_free(match *m);

/* Records an assumption where labelled pictures do not separate a value from the next. False if
 * memory is exhausted. */
bool match_assume(const match *m, findings *f);

/* Writes the results; nothing for NULL. Labelled pictures that cannot tell two values apart leave
 * an assumption. */
void match_put_provenance(const match *m, FILE *file);
void match_report_text(const match *m);
void match_report_json(const match *m, json_writer *w);

#endif
