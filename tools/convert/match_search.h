/* match_search.h - finds the values of a table for which a model gives the logits of a pair. */
#ifndef MATCH_SEARCH_H
#define MATCH_SEARCH_H

#include "cli/progress.h"
#include "convert/match_model.h"
#include "convert/match_options.h"

/* One assignment that was tried. */
typedef struct match_try {
    match_choice choice;
    uint64_t signature; /* of the model; 0: there is none */
    double error;       /* the largest difference / max|logit|; infinite: there is no model */
    double slope;       /* what the search follows down */
    int unlikely;       /* how far from the likeliest values */
    bool is_expanded, is_expanded_finely;
} match_try;

/* Changes of two rows of a try, up to which they were tried. */
typedef struct match_pairs {
    size_t from;
    int number;
} match_pairs;

typedef struct match_search {
    const match_table *table;
    match_model *model;
    const match_pair *pair;
    const settings *base; /* what is put before the values of the table */
    double tolerance, seconds;
    bool quiet;

    match_try *tries;
    size_t count, capacity;
    size_t *places; /* of tries, by the hash of their choice; 0: none, else 1 + index */
    size_t *models; /* the same by the signature, once for each */
    size_t num_places;
    int runs;             /* of different models */
    size_t chosen;        /* of tries: what was found */
    double started, took; /* ms, seconds */
    report first;         /* why the first assignment is no model, if it is none */

    /* Private. */
    cli_progress progress;
    char note[160];
    uint64_t random;
    match_pairs pairs[2];
    int images; /* of the pair, used for the search */
    float *output;
    bool is_astray; /* in a descent from a place at random */
    bool is_out_of_memory;
} match_search;

/* Fills in the first group and calls this. True: tries[chosen] fits within the tolerance; every
 * other single value was tried too. False with nothing in r: none fits. Free it either way. */
bool match_search_run(match_search *s, report *r);
void match_search_free(match_search *s);

/* The try that differs from the chosen one by this value alone; NULL: there was no time. */
const match_try *match_search_other(const match_search *s, int row, int value);

/* Does it fit as well as the chosen one, and is it another model? */
bool match_search_is_equal(const match_search *s, const match_try *other);

#endif
