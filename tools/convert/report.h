/* report.h - prints what a conversion found: a report on standard output, and on stderr what
 * must not be missed. */
#ifndef CONVERT_REPORT_H
#define CONVERT_REPORT_H

#include "base/json.h"
#include "convert/conversion.h"

/* What was assumed and what was dropped, a line each. */
void convert_report_findings(const conversion *c, const char *program);

/* The photos that could not be read. */
void convert_report_skipped(const photo_list *photos, const char *program);

/* On standard output. */
void convert_report_text(const conversion *c);
void convert_report_json(const conversion *c); /* one object on one line */

/* The same of a conversion that failed: what is wrong, what is asked, what would be assumed; and
 * the plan, where there is one. */
void convert_report_failure_json(const conversion *c, bool planned, const report *r);

/* === The mapping === */

/* Which tensors of the checkpoint become which of the .vit file, and why. */

/* One line for each tensor of the file, or of all blocks, then the tensors that are dropped. */
void mapping_print(const blueprint *b);

/* The tensors as an array "mapping" of objects, one for each. */
void mapping_put(json_writer *w, const blueprint *b);

/* For a conversion that failed: a plan of the names that structure found, good for printing alone,
 * as open questions must not keep anybody from seeing the mapping. False: it found none. */
bool mapping_plan_names(blueprint *b);

/* === Provenance === */

/* Where a .vit file comes from, as the text that is stored in it: "key: value" lines with the
 * hashes of its sources, the options and what was assumed. */

/* calibrated: on so many images. The text is malloc'ed. */
bool provenance_make(const convert_options *o, const blueprint *b, int calibrated, char **text,
                     report *r);

#endif
