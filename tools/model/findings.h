/* findings.h - what a conversion assumes, what it must ask, and what is wrong with the tensors. All
 * of it is collected, so that one message can tell the user everything.
 */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/report.h"
#include "model/settings.h"

/* === Subjects === */

/* What a question or an assumption is about, and how a user answers it: by the list of settings,
 * or by an option of its own. */

typedef struct subject {
    char name[64];
    const setting_row *row;            /* NULL: of other kinds */
    const char *option, *type, *means; /* option NULL: nothing that one option gives */
    bool with_prefix;                  /* the option takes "name=" before the value */
} subject;

/* name: "num_heads" of "num_heads=3", with its length. False: an assumption that no option gives. */
bool subject_find(const char *name, size_t length, subject *s);

/* === Evidence of heads === */

/* What trained weights show of the number of heads, and how that is told. layout/evidence.h reads it.
 */

enum { HEADS_MOST = 64, HEADS_TEXT = 320 };

typedef struct heads_candidate {
    int heads;
    double score; /* 0 or more; chance alone stays below 7 */
} heads_candidate;

typedef struct heads_evidence {
    heads_candidate ranked[HEADS_MOST]; /* the possible numbers, the likeliest first */
    int count;                          /* 0: the weights were not looked at */
    bool is_clear;                      /* it is ranked[0] */
} heads_evidence;

/* Why it is ranked[0]: "read from the weights (154; next best 6: 95)". */
const char *heads_why(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* Reason of the question, where the tensors leave it open. */
const char *heads_doubt(const heads_evidence *evidence);

/* What to give where it is not clear: "--set num_heads=N (1, 2, 4 or 8; the weights hint at 4: 6.2,
 * then 8: 3.9)". */
const char *heads_option(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* === Findings === */

/* What a conversion assumes, what it must ask, and what is wrong with the tensors. All of it is
 * collected, so that one message can tell the user everything. */

typedef struct finding {
    char *what;    /* "norm_eps=1e-05" if assumed, "num_heads" if asked */
    char *why;     /* "nn.LayerNorm's own" */
    char *options; /* what decides: "--set norm_eps=N", "--set pool=token or --set pool=avg" */
} finding;

typedef struct finding_list {
    finding *items;
    size_t count, more; /* more: those beyond the limit, which are only counted */
} finding_list;

/* Zero it first. */
typedef struct findings {
    finding_list assumed;
    finding_list asked;
    finding_list wrong; /* tensors that are missing, unknown or misshapen: a sentence in `what`,
                             what to do about it in `why`, or "" */
} findings;

/* These copy what they are given. False: out of memory. What is asked once is not asked again. */
bool findings_assume(findings *f, const char *what, const char *why, const char *options);
bool findings_ask(findings *f, const char *what, const char *why, const char *options);
void findings_answer(findings *f, const char *what); /* asks it no more */
bool findings_wrong(findings *f, const char *what, const char *advice);

/* An assumption that is seldom wrong, or does little harm where it is. */
bool findings_is_minor(const char *what);

/* A failure becomes one of the things that are wrong, unless one begins with the same words. */
bool findings_take(findings *f, report *r);

bool findings_has_asked(const findings *f, const char *what);

/* Is there anything that must be told or put right first? */
bool findings_are_open(const findings *f);

/* Is nothing wrong, but something asked? Then it helps to know what is assumed besides. */
bool findings_only_ask(const findings *f);

/* One failure about everything that is open and, if strict, assumed. Returns false. */
bool findings_refuse(const findings *f, bool strict, report *r);

void findings_free(findings *f);

/* === Findings as JSON === */

/* Findings as JSON, for programs that ask their users themselves. */

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
