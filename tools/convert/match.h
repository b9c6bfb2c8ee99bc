/* match.h - settles open settings of a checkpoint by running the model with many values. The right
 * values give the original's logits for one input (--match-input), or classify labelled pictures
 * best (--match-folder). The original may give logits, their softmax, log_softmax or sigmoid, or an
 * embedding.
 */
#ifndef MATCH_H
#define MATCH_H

#include <stdio.h>

#include "base/json.h"
#include "convert/conversion.h"

typedef struct match match;

/* Reads the pair, which also gives the size and the channels of the input; the tensors may not show
 * them. Call it before layout_inspect. *m stays NULL if nothing is to be matched. */
bool match_prepare(const convert_options *o, facts *f, match **m, report *r);

/* Fills all[FROM_MATCH]. Call it after layout_inspect. Settled settings raise no more questions.
 * labels and the decoder are for labelled pictures. */
bool match_run(match *m, facts *f, photo_decoder *decoder, const label_list *labels,
               findings *found, report *r);

void match_free(match *m);

/* Runs a small model on noise with other values of what was assumed, and orders the assumptions by
 * how far its output moves. `model` has the resolved settings. False if memory is exhausted. */
bool match_measure(const convert_options *o, const facts *f, const settings_resolved *model,
                   findings *found, bool *is_too_large, report *r);

/* The last step of the original by the pair; without a pair, or if it holds the input of the head,
 * `told`. */
model_end match_end(const match *m, model_end told);
bool match_is_by_embedding(const match *m);

/* Records an assumption for each value that labelled pictures do not separate from the next best.
 * False if memory is exhausted. */
bool match_assume(const match *m, findings *f);

/* Writes the results; nothing for NULL. Two values that labelled pictures cannot distinguish leave
 * an assumption. */
void match_put_provenance(const match *m, FILE *file);
void match_report_text(const match *m);
void match_report_json(const match *m, json_writer *w);

#endif
