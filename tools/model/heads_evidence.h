/* heads_evidence.h - what trained weights show of the number of heads, and how that is told.
 * layout/heads.h reads it.
 */
#ifndef HEADS_EVIDENCE_H
#define HEADS_EVIDENCE_H

#include <stdbool.h>

enum { HEADS_MOST = 64, HEADS_TEXT = 320 };

typedef struct heads_candidate {
    int heads;
    double score;   /* 0 or more; chance alone stays below 7 */
} heads_candidate;

typedef struct heads_evidence {
    heads_candidate ranked[HEADS_MOST];   /* the possible numbers, the likeliest first */
    int count;                            /* 0: the weights were not looked at */
    bool is_clear;                        /* it is ranked[0] */
} heads_evidence;

/* Why it is ranked[0]: "read from the weights (154; next best 6: 95)". */
const char *heads_why(const heads_evidence *evidence, char text[HEADS_TEXT]);

/* Reason of the question, where the tensors leave it open. */
const char *heads_doubt(const heads_evidence *evidence);

/* What to give where it is not clear: "--set num_heads=N (1, 2, 4 or 8; the weights hint at 4: 6.2,
 * then 8: 3.9)". */
const char *heads_option(const heads_evidence *evidence, char text[HEADS_TEXT]);

#endif
