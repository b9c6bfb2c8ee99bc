/* report.h - prints the results of a conversion: the report to standard output, and important lines
 * to stderr. */
#ifndef CONVERT_REPORT_H
#define CONVERT_REPORT_H

#include "base/json.h"
#include "convert/conversion.h"

/* Prints the assumptions and the dropped tensors, a line each. */
void convert_report_findings(const conversion *c, const char *program);

/* Prints the unreadable photos. */
void convert_report_skipped(const photo_list *photos, const char *program);

/* Prints the report on standard output. */
void convert_report_text(const conversion *c);
void convert_report_json(const conversion *c); /* one object on one line */

/* Prints a failed conversion: the error, the questions, the possible assumptions; and the plan, if
 * there is one. */
void convert_report_failure_json(const conversion *c, bool planned, const report *r);

/* === The mapping === */

/* The mapping shows which tensors of the checkpoint become a tensor of the .vit file, and why. */

/* Prints a line for each tensor of the file, or of all blocks, then the dropped tensors. */
void mapping_print(const blueprint *b);

/* Writes the array "mapping", with an object for each tensor. */
void mapping_put(json_writer *w, const blueprint *b);

/* Makes a plan of the names found by structure, after a failed conversion. The mapping can then be
 * printed in spite of open questions. Returns false if no names were found. */
bool mapping_plan_names(blueprint *b);

/* === Provenance === */

/* The provenance is a text stored in the .vit file. Its "key: value" lines hold the hashes of the
 * sources, the options and the assumptions. */

/* Returns the text, malloc'ed. `calibrated` is the number of images for the calibration. */
bool provenance_make(const convert_options *o, const blueprint *b, int calibrated, char **text,
                     report *r);

#endif
