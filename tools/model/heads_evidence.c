#include "model/heads_evidence.h"

#include <stdio.h>
#include "base/text.h"

static const double least_hint = 3;   /* one model in ten without any heads scores so much */

const char *heads_why(const heads_evidence *evidence, char text[HEADS_TEXT])
{
    const heads_candidate *next = &evidence->ranked[1];
    snprintf(text, HEADS_TEXT, "read from the weights (%.0f; next best %d: %.0f)",
             evidence->ranked[0].score, next->heads, next->score);
    return text;
}

static bool has_hint(const heads_evidence *evidence)
{
    return evidence->ranked[0].score >= least_hint;
}

const char *heads_doubt(const heads_evidence *evidence)
{
    return has_hint(evidence) ? "the weights hint at it, no more"
                              : "the weights show no heads, as those of one head or of little "
                                "training do";
}

static int next_above(const heads_evidence *evidence, int heads)
{
    int next = 0, i;
    for (i = 0; i < evidence->count; i++) {
        const int other = evidence->ranked[i].heads;
        if (other > heads && (next == 0 || other < next)) next = other;
    }
    return next;
}

/* In rising order. */
static void append_numbers(const heads_evidence *evidence, char text[HEADS_TEXT])
{
    int heads = next_above(evidence, 0), next;
    const char *between = "";
    for (; heads; heads = next) {
        next = next_above(evidence, heads);
        text_append(text, HEADS_TEXT, "%s%d", between, heads);
        between = next && next_above(evidence, next) ? ", " : " or ";
    }
}

const char *heads_option(const heads_evidence *evidence, char text[HEADS_TEXT])
{
    const heads_candidate *best = evidence->ranked;
    snprintf(text, HEADS_TEXT, "--set num_heads=N");
    if (evidence->count < 2) return text;
    text_append(text, HEADS_TEXT, " (");
    append_numbers(evidence, text);
    if (has_hint(evidence))
        text_append(text, HEADS_TEXT, "; the weights hint at %d: %.1f, then %d: %.1f",
                    best[0].heads, best[0].score, best[1].heads, best[1].score);
    text_append(text, HEADS_TEXT, ")");
    return text;
}
