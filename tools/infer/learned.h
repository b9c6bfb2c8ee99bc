/* learned.h - collects embeddings of photos with their classes, and learns a head from them.
 *
 *     learned_set set = { 0 };
 *     learned_add_stored(&set, &record, &r) ...      perhaps: what a file has learnt before
 *     learned_add_photos(&set, "photos/", &settings, &r) ...
 *     learned_sort(&set, "vit-learn", &r) ...
 *     learned_fit(&set, &choice, &head, &r) ...
 *
 * or, for more photos than memory holds:
 *
 *     learned_fit_sums(&set, &model, &paths, &choice, &head, &r) ...
 */
#ifndef LEARNED_H
#define LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "base/text.h"
#include "image/photos.h"
#include "infer/infer.h"

/* === Photos === */

typedef struct learned_photo {
    const char *path; /* path; NULL: a stored photo, without a path */
    size_t row;       /* of the embeddings */
    int first, count; /* of its classes, in set->labels */
    uint64_t hash;    /* hash of its embedding, by which photos are sorted */
} learned_photo;

/* Zero it. Embeddings are rounded to f16, the stored type, so that adding photos later gives the
 * same result as all at once. */
typedef struct learned_set {
    photo_list classes; /* their names, sorted by learned_sort */
    bool several;       /* any number of classes may be right, or none */
    int dim, count;
    learned_photo *photos; /* [count] */
    uint16_t *halves;      /* [rows, dim], in any order */
    int *labels;
    int stored, twice; /* stored photos; photos left out as copies */
    int added;         /* photos of learned_fit_sums; 0 after learned_fit */
    int least, most;   /* the fewest and the most photos of a class */
    infer_counts counts;
    photo_list paths; /* private, like the following */
    size_t rows, num_labels, capacity, rows_capacity, labels_capacity;
} learned_set;

/* The section "learned" of a .vit file (>>format in vit.h). */
typedef struct learned_record {
    const unsigned char *data;
    size_t size, count;
    const vit_model *model; /* the model whose labels name the classes */
    uint64_t backbone;      /* hash of the backbone that is expected */
} learned_record;

/* Another backbone is refused. */
bool learned_add_stored(learned_set *set, const learned_record *record, report *r);

/* Embeds the photos of a folder with a folder for each class, or of a file with lines
 * "PATH,CLASS;CLASS", whose paths are relative to the file's folder. settings: model, program,
 * num_threads, batch, isa, decoder and progress. Unreadable photos are named and counted. */
bool learned_add_photos(learned_set *set, const char *path, const infer_settings *settings,
                        report *r);

/* Adds the rows of OUT.npy, which vit-embed has written with this model. The class of a photo is the
 * name of its folder in OUT.txt. */
bool learned_add_rows(learned_set *set, const char *path, const vit_model *model, report *r);

/* Leaves out the class, and photos that have no other class. */
bool learned_forget(learned_set *set, const char *name, report *r);

/* Sorts classes and photos, so that the order in which they were added has no effect. One of two
 * copies of a photo is kept. Copies with different classes are a failure; so is a class without
 * photos. */
bool learned_sort(learned_set *set, const char *program, report *r);

/* The record, malloc'ed. NULL: out of memory. */
unsigned char *learned_store(const learned_set *set, uint64_t backbone, size_t *size);
void learned_free(learned_set *set);

/* === The head === */

/* The name of the class for photos of none of the others. */
#define LEARNED_NONE "none of these"

/* The inverse strength of the regularisation, for embeddings whose mean squared distance to their
 * mean is 1. */
#define LEARNED_C 1.0

typedef struct learned_choice {
    double c;                     /* 0: LEARNED_C */
    double known;                 /* the share of photos held out that are not LEARNED_NONE; 1: */
                                  /* the head has no such class                             */
    int folds;                    /* 0: LEARNED_FOLDS, or 3 if that takes long */
    const vit_executor *executor; /* NULL: one thread */
} learned_choice;

enum { LEARNED_FOLDS = 10 };

/* The head's answer for a photo from which it did not learn. */
typedef struct learned_answer {
    int best;           /* best class; -1: not held out, because it is the only one of its class */
    float own, highest; /* probabilities of its own class (the first) and of the best */
    float score;        /* score of the best class, before softmax */
} learned_answer;

typedef struct learned_head {
    int num_classes;          /* number of classes, with LEARNED_NONE if it exists */
    bool has_none, alone;     /* alone: a single class, recognised by its mean */
    double *weights;          /* [num_classes, dim + 1] */
    double share;             /* shrinkage of learned_fit_sums */
    double temperature, none; /* divisor of the scores; bias of LEARNED_NONE */
    int folds, steps;
    learned_answer *answers; /* [photos] */
    float *held;             /* [photos, classes]: probabilities of photos held out */
    int held_out, right, refused,
        right_refused; /* photos; refused: LEARNED_NONE's score is higher */
    double expected;   /* mean of the highest probability */
} learned_head;

bool learned_fit(const learned_set *set, const learned_choice *choice, learned_head *head,
                 report *r);
void learned_head_free(learned_head *head);

/* Learns from the rows of files OUT.npy, as learned_add_rows does, by vit_learn_ridge. It reads them
 * once. Its memory does not grow with their number, except for 5 bytes and the name of each row. One
 * row in ten of each class, at most LEARNED_HELD in all, is not learnt from: these rows choose the
 * shrinkage and the temperature, and set receives only them. */
enum { LEARNED_HELD = 5000 };
bool learned_fit_sums(learned_set *set, const vit_model *model, const text_list *paths,
                      const learned_choice *choice, learned_head *head, report *r);

/* Finds photos that seem to have a wrong class: another class is the best, and its probability is
 * above its mean over the photos of that class (Northcutt and others, arXiv 1911.00068). list
 * [count] receives their numbers, the most doubtful first. Returns how many. */
int learned_doubts(const learned_set *set, const learned_head *head, int *list);

#endif
