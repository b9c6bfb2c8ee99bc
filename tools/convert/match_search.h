/* match_search.h - finds the values of a table for which a model gives the logits of a pair. */
#ifndef MATCH_SEARCH_H
#define MATCH_SEARCH_H

#include "cli/progress.h"
#include "convert/match_model.h"
#include "convert/match_options.h"

/* One tried assignment. */
typedef struct match_try {
    match_choice choice;
    uint64_t signature; /* of the model; 0 if it makes none */
    double error;       /* the largest difference / max|logit|; infinite if it makes no model */
    double slope;       /* the quantity that a descent reduces */
    int unlikely;       /* distance from the likeliest values */
    bool is_expanded, is_expanded_finely;
} match_try;

/* The changes of two rows of a try, as far as they were tried. */
typedef struct match_pairs {
    size_t from;
    int number;
} match_pairs;

typedef struct match_search {
    const match_table *table;
    match_model *model;
    const match_pair *pair;
    const settings *base; /* settings under the values of the table */
    double tolerance, seconds;
    bool quiet;

    match_try *tries;
    size_t count, capacity;
    size_t *places; /* of tries, by the hash of their choice; 0 for none, else 1 + index */
    size_t *models; /* of models, by signature */
    size_t num_places;
    int runs;             /* of different models */
    size_t chosen;        /* index of the resulting try */
    double started, took; /* ms, seconds */
    report first;         /* why the first assignment makes no model, if so */

    /* Private. */
    cli_progress progress;
    char note[160];
    uint64_t random;
    match_pairs pairs[2];
    int images; /* images of the pair in use for the search */
    float *output;
    bool is_astray; /* in a descent from a random place */
    bool is_out_of_memory;
} match_search;

/* Fill in the first group before this call. True: tries[chosen] fits within the tolerance, and
 * every other single value was tried too. False with nothing in r: none fits. Free it in any
 * case. */
bool match_search_run(match_search *s, report *r);
void match_search_free(match_search *s);

/* The try that differs from the chosen one only in this value; NULL if there was no time for it. */
const match_try *match_search_other(const match_search *s, int row, int value);

/* True if it fits as well as the chosen one and is another model. */
bool match_search_is_equal(const match_search *s, const match_try *other);

#endif
