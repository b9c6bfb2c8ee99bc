/* findings.h - the assumptions and questions of a conversion, and the problems with its tensors.
 * All of these are collected, so that one message can list everything.
 *
 * An assumption is a value of a setting that nothing in the checkpoint proves. A question is a
 * setting that only the user can give. */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/report.h"
#include "model/settings.h"

/* === Subjects === */

/* A subject is the setting that a question or an assumption is about, with the option that gives
 * its value: --set, or a separate option. */

typedef struct subject {
    char name[64];
    const setting_row *row; /* NULL if the subject is not a setting of SETTING_LIST */
    /* The option that gives the value, the type of the value, and its meaning in words. `option` is
     * NULL if no single option gives the value. */
    const char *option, *type, *means;
    /* True if the value follows "name=" in the option's argument. */
    bool with_prefix;
} subject;

/* Finds the subject of a finding. `name` points to a text such as "num_heads=3", and `length` is
 * the length of "num_heads". Returns false if no single option gives the value. */
bool subject_find(const char *name, size_t length, subject *s);

/* === Evidence of heads === */

/* These functions describe in words the evidence for the number of heads. layout/detect.h reads
 * this evidence from trained weights. */

enum { HEADS_MOST = 64, HEADS_TEXT = 320 };

typedef struct heads_candidate {
    int heads;
    double score; /* 0 or more; below 7 if the weights are shuffled */
} heads_candidate;

typedef struct heads_evidence {
    heads_candidate ranked[HEADS_MOST]; /* the possible numbers of heads, the likeliest first */
    int count;                          /* 0 if the weights were not inspected */
    bool is_clear;                      /* true if the weights leave no doubt about ranked[0] */
} heads_evidence;

/* Returns the reason for using the number of heads in ranked[0]: "read from the weights (score
 * 154; next best 6: score 95)". */
const char *heads_why(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* Returns the reason for asking the user, if the weights do not show the number. */
const char *heads_doubt(const heads_evidence *evidence);

/* Returns the option to give if the number of heads is uncertain: "--set num_heads=N (1, 2, 4 or 8;
 * the weights hint at 4: score 6.2, then 8: score 3.9)". */
const char *heads_option(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* === Findings === */

/* An assumption, a question, or a problem with the tensors. */

typedef struct finding {
    /* An assumption such as "norm_eps=1e-05", or the setting to ask for, such as "num_heads". */
    char *what;
    char *why; /* the reason, such as "nn.LayerNorm's own" */
    /* Options that give the value: "--set norm_eps=N", "--set pool=token or --set pool=avg". */
    char *options;
    /* The likeliest other value, such as "relu". NULL if no other value was tried. */
    char *otherwise;
    /* The change of the model's output if `otherwise` is right: the Euclidean norm of the change,
     * divided by the Euclidean norm of the output. */
    double effect;
} finding;

typedef struct finding_list {
    finding *items;
    /* `more` is the number of findings that were left out because the list was full. */
    size_t count, more;
} finding_list;

/* The assumptions (assumed), the questions (asked), and the problems (wrong). Zero this struct
 * before the first use. */
typedef struct findings {
    finding_list assumed;
    finding_list asked;
    /* For missing, unknown or misshapen tensors. Here `why` is advice to the user, or "". */
    finding_list wrong;
} findings;

/* Add a finding, and copy the texts. Return false if memory is exhausted. A question that is in the
 * list already is not added again. */
bool findings_assume(findings *f, const char *what, const char *why, const char *options);
bool findings_ask(findings *f, const char *what, const char *why, const char *options);
void findings_answer(findings *f, const char *what); /* removes the question about `what` */
bool findings_wrong(findings *f, const char *what, const char *advice);

/* Records how far another value moves the output of the model. `assumed` is the index of the
 * assumption. Returns false if memory is exhausted. */
bool findings_measure(findings *f, size_t assumed, const char *otherwise, double effect);

/* Sorts the assumptions by harm, the greatest first. The harm is the probability that the
 * assumption is wrong, times its effect. */
void findings_order(findings *f);

/* True if the assumption is rarely wrong or does little harm. */
bool findings_is_minor(const finding *item);

/* Moves the failure in *r into the list of problems. If a listed problem begins with the text of
 * the failure, only empties *r. Returns false if memory is exhausted. */
bool findings_take(findings *f, report *r);

bool findings_has_asked(const findings *f, const char *what);

/* True if *f has any questions or problems. */
bool findings_are_open(const findings *f);

/* True if there are questions but no problems. A message should then also list the assumptions. */
bool findings_only_ask(const findings *f);

/* Fails with a message that lists the problems, the questions and, if `strict` is set, the
 * assumptions. At least one of these must exist. Always returns false. */
bool findings_refuse(const findings *f, bool strict, report *r);

void findings_free(findings *f);

/* === Findings as JSON === */

/* These functions write the findings as JSON, for programs that show the questions to their users
 * themselves. */

/* Writes "questions": [{"setting", "why", "means", "option", "prefix", "type", "choices",
 * "suggested", "text"}]. To answer a question, give vit-convert two arguments: the option, and the
 * prefix followed by the answer. For example, with the prefix "pool=", the arguments are "--set"
 * and "pool=avg".
 *
 *     type        integer, number, flag (0 or 1), word (one of the choices), size (HxW) or text
 *     choices     each has a "value", and a "note" that may be null
 *     suggested   the library's default, the weights' likeliest value, or the only choice; or null
 *     text        `options` of `finding`: the options to choose from, with notes
 */
void findings_put_questions(json_writer *w, const findings *f);

/* Writes "assumed", an array of objects with the members of a question, but with "value" in place
 * of "suggested". In addition, they have "otherwise" and "effect", as in `finding`. Both may be
 * null. An assumption that no single option can change has the option null. */
void findings_put_assumed(json_writer *w, const findings *f);

/* Writes "wrong": [{"what", "advice"}]. */
void findings_put_wrong(json_writer *w, const findings *f);

#endif
