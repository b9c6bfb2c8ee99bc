/* report.h - what a conversion found, on standard output. */
#ifndef CONVERT_REPORT_H
#define CONVERT_REPORT_H

#include "convert/conversion.h"

void convert_report_text(const conversion *c);
void convert_report_json(const conversion *c);   /* one object on one line */

#endif
