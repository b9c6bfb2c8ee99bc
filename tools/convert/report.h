/* report.h - prints what a conversion found: a report on standard output, and on stderr what
 * must not be missed. */
#ifndef CONVERT_REPORT_H
#define CONVERT_REPORT_H

#include "convert/conversion.h"

/* What was assumed and what was dropped, a line each. */
void convert_report_findings(const conversion *c, const char *program);

/* The photos that could not be read. */
void convert_report_skipped(const photo_list *photos, const char *program);

/* On standard output. */
void convert_report_text(const conversion *c);
void convert_report_json(const conversion *c);   /* one object on one line */

/* The same of a conversion that failed: what is wrong, what is asked, what would be assumed; and
 * the plan, where there is one. */
void convert_report_failure_json(const conversion *c, bool planned, const report *r);

#endif
