/* findings.h - the assumptions and questions of a conversion, and the problems with its tensors.
 * All of these are collected, so that one message can list everything.
 */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/report.h"
#include "model/settings.h"

/* === Subjects === */

/* The subject of a question or an assumption, and the option that answers it: --set, or a separate
 * option. */

typedef struct subject {
    char name[64];
    const setting_row *row;            /* NULL for other kinds */
    const char *option, *type, *means; /* option NULL: no single option answers it */
    bool with_prefix;                  /* the option takes "name=" before the value */
} subject;

/* `name` points into a text such as "num_heads=3"; `length` is that of "num_heads". False for an
 * assumption without an option. */
bool subject_find(const char *name, size_t length, subject *s);

/* === Evidence of heads === */

/* Describes in words the evidence for the number of heads that layout/detect.h reads from trained
 * weights.
 */

enum { HEADS_MOST = 64, HEADS_TEXT = 320 };

typedef struct heads_candidate {
    int heads;
    double score; /* 0 or more; chance stays below 7 */
} heads_candidate;

typedef struct heads_evidence {
    heads_candidate ranked[HEADS_MOST]; /* the possible numbers, the likeliest first */
    int count;                          /* 0 if the weights were not inspected */
    bool is_clear;                      /* ranked[0] is certain */
} heads_evidence;

/* Returns the reason for taking ranked[0]: "read from the weights (154; next best 6: 95)". */
const char *heads_why(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* Returns the reason for a question, if the weights do not decide. */
const char *heads_doubt(const heads_evidence *evidence);

/* Returns the option to give if the number is uncertain: "--set num_heads=N (1, 2, 4 or 8; the
 * weights hint at 4: 6.2, then 8: 3.9)". */
const char *heads_option(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* === Findings === */

/* The assumptions and questions of a conversion, and the problems with the tensors. All are
 * collected, so that one message can list everything. */

typedef struct finding {
    char *what; /* "norm_eps=1e-05" for an assumption, "num_heads" for a question */
    char *why;  /* "nn.LayerNorm's own" */
    char *
        options; /* options that decide: "--set norm_eps=N", "--set pool=token or --set pool=avg" */
    char *otherwise; /* the likeliest other value, such as "relu"; NULL if not tried */
    double effect;   /* effect of `otherwise` on the output, relative to the output's length */
} finding;

typedef struct finding_list {
    finding *items;
    size_t count, more; /* more: number of entries beyond the limit */
} finding_list;

/* Zero it first. */
typedef struct findings {
    finding_list assumed;
    finding_list asked;
    finding_list wrong; /* missing, unknown or misshapen tensors; `why` is the advice, or "" */
} findings;

/* These functions copy their arguments. False if memory is exhausted. Repeated questions are
 * dropped. */
bool findings_assume(findings *f, const char *what, const char *why, const char *options);
bool findings_ask(findings *f, const char *what, const char *why, const char *options);
void findings_answer(findings *f, const char *what); /* removes the question */
bool findings_wrong(findings *f, const char *what, const char *advice);

/* Records how far the output of the model moves with another value. False if memory is
 * exhausted. */
bool findings_measure(findings *f, size_t assumed, const char *otherwise, double effect);

/* Orders the assumptions by harm: how often each assumption is wrong, times its effect. */
void findings_order(findings *f);

/* True for an assumption that is rarely wrong, or does little harm. */
bool findings_is_minor(const finding *item);

/* Records a failure as a problem, unless a problem begins with the same words. */
bool findings_take(findings *f, report *r);

bool findings_has_asked(const findings *f, const char *what);

/* True if a question or a problem remains. */
bool findings_are_open(const findings *f);

/* True if there are questions but no problems; then the assumptions are useful too. */
bool findings_only_ask(const findings *f);

/* Fails if there are open questions or problems or, if `strict`, assumptions; the message lists all
 * of them. Returns false. */
bool findings_refuse(const findings *f, bool strict, report *r);

void findings_free(findings *f);

/* === Findings as JSON === */

/* Findings as JSON, for programs that show the questions to their users themselves. */

/* "questions": [{"setting", "why", "means", "option", "prefix", "type", "choices", "suggested",
 * "text"}]. The answer takes two arguments, the option and the answer after the prefix: "--set" and
 * "pool=" + "avg". type: integer, number, flag (0 or 1), word (one of the choices), size (HxW) or
 * text. A choice has a "value", and a "note" that may be null. suggested: the default of the
 * library, the hint of the weights, or the only choice; otherwise null. text: the whole question in
 * words. */
void findings_put_questions(json_writer *w, const findings *f);

/* "assumed": the same members, with "value" in place of "suggested". In addition "otherwise" is
 * another value that was tried, and "effect" is how far that value moves the output, relative to
 * the output's length; both may be null. An entry that does not stand for a single setting has a
 * null option. */
void findings_put_assumed(json_writer *w, const findings *f);

/* "wrong": [{"what", "advice"}]. */
void findings_put_wrong(json_writer *w, const findings *f);

#endif
