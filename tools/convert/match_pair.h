/* match_pair.h - an input and what the original made of it: two .npy files. */
#ifndef MATCH_PAIR_H
#define MATCH_PAIR_H

#include "base/report.h"
#include "base/npy.h"
#define VIT_TOOLS
#include "vit.h"

typedef struct match_pair {
    const char *input_path, *logits_path;
    npy_array input, logits;
    int images;                    /* in both */
    int chans, height, width;      /* of an image */
    size_t outputs;                /* for an image */
    double largest;                /* absolute value of the logits */
} match_pair;

/* [C, H, W] or [B, C, H, W], and [classes] or [B, classes]. Free it either way. */
bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r);
void match_pair_free(match_pair *pair);

const float *match_pair_input(const match_pair *pair, int image);

/* The same of what is known of every model; 0: it is not. */
bool match_pair_check(const match_pair *pair, int classes, int chans, report *r);

/* Does this model read such inputs and give so many outputs? */
bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r);

/* How far an output is from that of the original, relative to all of its logits. */
typedef struct match_error {
    double largest;                /* of the differences */
    double square;                 /* sum of their squares */
    double ab, aa, bb;             /* sums of products of the output and the logits */
} match_error;

/* Counts the output of an image in. */
void match_pair_compare(const match_pair *pair, int image, const float *output,
                        match_error *error);

/* What the search makes smaller: above all the angle between the two. The squares alone would draw
 * it to models that give next to nothing. */
double match_error_slope(const match_error *error);

#endif
