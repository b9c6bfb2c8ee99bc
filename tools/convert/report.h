/* report.h - prints the results of a conversion: a report on standard output, and important lines
 * on stderr. */
#ifndef CONVERT_REPORT_H
#define CONVERT_REPORT_H

#include "base/json.h"
#include "convert/conversion.h"

/* Prints the assumptions and the dropped tensors, a line each. */
void convert_report_findings(const conversion *c, const char *program);

/* Prints the unreadable photos. */
void convert_report_skipped(const photo_list *photos, const char *program);

/* On standard output. */
void convert_report_text(const conversion *c);
void convert_report_json(const conversion *c); /* one object on one line */

/* Prints a failed conversion: the error, the questions, the possible assumptions; and the plan, if
 * there is one. */
void convert_report_failure_json(const conversion *c, bool planned, const report *r);

/* === The mapping === */

/* Prints which tensors of the checkpoint become which of the .vit file, and why. */

/* One line for each tensor of the file, or of all blocks, then the dropped tensors. */
void mapping_print(const blueprint *b);

/* The tensors as an array "mapping" of objects, one for each. */
void mapping_put(json_writer *w, const blueprint *b);

/* For a failed conversion: a plan of the names that structure found, only for printing, so that
 * open questions do not hide the mapping. False if it found none. */
bool mapping_plan_names(blueprint *b);

/* === Provenance === */

/* The origin of a .vit file, as the text that is stored in it: "key: value" lines with the hashes
 * of its sources, the options and the assumptions. */

/* calibrated: the number of images. The text is malloc'ed. */
bool provenance_make(const convert_options *o, const blueprint *b, int calibrated, char **text,
                     report *r);

#endif
