/* match_search.h - finds the values of a table for which a model gives the output of a pair. */
#ifndef MATCH_SEARCH_H
#define MATCH_SEARCH_H

#include "cli/progress.h"
#include "convert/match_model.h"
#include "convert/match_options.h"

/* One tried assignment. */
typedef struct match_try {
    match_choice choice;
    uint64_t signature; /* signature of the model; 0 if there is none */
    double error;       /* the largest difference / max|logit|; infinite if there is no model */
    double slope;       /* the quantity that a descent reduces */
    int reading;        /* of the pair: the nearer one */
    int unlikely;       /* distance from the likeliest values */
    bool is_expanded, is_expanded_finely;
} match_try;

/* The progress through the changes of two rows of a try. */
typedef struct match_pairs {
    size_t from;
    int number;
} match_pairs;

typedef struct match_search {
    const match_table *table;
    match_model *model;
    const match_pair *pair;
    const settings *base; /* settings that the values of the table override */
    double tolerance, seconds;
    double patience; /* seconds after which it ends if it has run enough models; 0: none */
    bool quiet;

    match_try *tries;
    size_t count, capacity;
    size_t *places; /* hash table of tries by their choice: 1 + index; 0 for none */
    size_t *models; /* of models, by signature */
    size_t num_places;
    int runs;             /* of different models */
    size_t chosen;        /* index of the resulting try */
    double started, took; /* ms, seconds */
    report first;         /* why the first assignment gives no model, if so */

    /* Private. */
    cli_progress progress;
    char note[160];
    uint64_t random;
    match_pairs pairs[2];
    int images; /* images of the pair in use for the search */
    float *output;
    bool is_astray; /* the descent began at a random place */
    bool is_out_of_memory;
} match_search;

/* Fill in the first group before this call. Returns true if tries[chosen] fits within the
 * tolerance; every other single value was then tried too. Returns false without an error in r if
 * none fits. Free it in any case. */
bool match_search_run(match_search *s, report *r);
void match_search_free(match_search *s);

/* The try that differs from the chosen one only in this value; NULL if time ran out before it. */
const match_try *match_search_other(const match_search *s, int row, int value);

/* True if it fits as well as the chosen one and is another model. */
bool match_search_is_equal(const match_search *s, const match_try *other);

#endif
