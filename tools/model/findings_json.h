/* findings_json.h - findings as JSON, for programs that ask their users themselves. */
#ifndef FINDINGS_JSON_H
#define FINDINGS_JSON_H

#include "base/json.h"
#include "model/findings.h"

/* "questions": [{"setting", "why", "means", "option", "prefix", "type", "choices", "suggested",
 * "text"}]. An answer is given as two arguments, the option and the answer after the prefix:
 * "--set" and "pool=" + "avg". type: integer, number, flag (0 or 1), word (one of the choices),
 * size (HxW) or text. A choice has a "value" and a "note", or null. suggested: the default of the
 * library, what the weights hint at, or the only choice; else null. text: all of it in words. */
void findings_put_questions(json_writer *w, const findings *f);

/* "assumed": the same with "value" for "suggested". What is no single setting has a null option. */
void findings_put_assumed(json_writer *w, const findings *f);

/* "wrong": [{"what", "advice"}]. */
void findings_put_wrong(json_writer *w, const findings *f);

#endif
