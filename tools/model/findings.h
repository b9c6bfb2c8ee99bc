/* findings.h - what a conversion assumes, what it must ask, and what is wrong with the tensors. All
 * of it is collected, so that one message can tell the user everything.
 */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/report.h"

typedef struct finding {
    char *what;       /* "norm_eps=1e-05" if assumed, "num_heads" if asked */
    char *why;        /* "nn.LayerNorm's own" */
    char *options;    /* what decides: "--set norm_eps=N", "--set pool=token or --set pool=avg" */
} finding;

typedef struct finding_list {
    finding *items;
    size_t count, more;   /* more: those beyond the limit, which are only counted */
} finding_list;

/* Zero it first. */
typedef struct findings {
    finding_list assumed;
    finding_list asked;
    finding_list wrong;   /* tensors that are missing, unknown or misshapen: a sentence in `what`,
                             what to do about it in `why`, or "" */
} findings;

/* These copy what they are given. False: out of memory. What is asked once is not asked again. */
bool findings_assume(findings *f, const char *what, const char *why, const char *options);
bool findings_ask(findings *f, const char *what, const char *why, const char *options);
void findings_answer(findings *f, const char *what);   /* asks it no more */
bool findings_wrong(findings *f, const char *what, const char *advice);

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

#endif
