/* report.h - prints the results of a conversion: the report to standard output, and important lines
 * to stderr. */
#ifndef CONVERT_REPORT_H
#define CONVERT_REPORT_H

#include "base/json.h"
#include "convert/conversion.h"

/* Prints the assumptions, the original's last step and the dropped tensors on stderr. */
void convert_report_findings(const conversion *c, const char *program);

/* Prints the names of the unreadable photos on stderr. */
void convert_report_skipped(const photo_list *photos, const char *program);

/* Prints the report on standard output, as text or as JSON. */
void convert_report_text(const conversion *c);
/* The JSON is a single object on a single line. */
void convert_report_json(const conversion *c);

/* Prints a failed conversion as JSON: the error, the problems, the questions and the assumptions.
 * Adds the mapping if `planned` is true. */
void convert_report_failure_json(const conversion *c, bool planned, const report *r);

/* === The mapping === */

/* For each tensor of the .vit file, the mapping lists the checkpoint's tensors that provide its
 * values, and the reason. */

/* Prints the mapping. A line stands for one tensor, or for the same tensor of all blocks. The
 * dropped tensors follow. */
void mapping_print(const blueprint *b);

/* Writes the mapping as the array "mapping", with an object for each tensor of the .vit file. */
void mapping_put(json_writer *w, const blueprint *b);

/* Makes a plan, if there is none yet, from the names that the search by structure gave to the
 * tensors. Call this function after a failed conversion, to print the mapping in spite of open
 * questions. Returns false if there is still no plan. */
bool mapping_plan_names(blueprint *b);

/* === Provenance === */

/* The provenance is a text stored in the .vit file. Its "key: value" lines hold the hashes of the
 * sources, the options and the assumptions. */

/* Writes the provenance to *text, in malloc'ed memory. `calibrated` is the number of images that
 * calibrated the weights. */
bool provenance_make(const convert_options *o, const blueprint *b, int calibrated, char **text,
                     report *r);

#endif
