/* learned.h - the embeddings of photos with their classes, and the head that is learnt from them.
 *
 *     learned_set set = { 0 };
 *     learned_add_stored(&set, &record, &r) ...      perhaps: what a file has learnt before
 *     learned_add_photos(&set, "photos/", &settings, &r) ...
 *     learned_sort(&set, "vit-learn", &r) ...
 *     learned_fit(&set, &choice, &head, &r) ...
 */
#ifndef LEARNED_H
#define LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/report.h"
#include "image/photos.h"
#include "infer/infer.h"

/* === Photos === */

typedef struct learned_photo {
    const char *path; /* NULL: the file has it from before           */
    size_t row;       /* of the embeddings                           */
    int first, count; /* of its classes, in set->labels              */
    uint64_t hash;    /* of its embedding: the order of the photos   */
} learned_photo;

/* Zero it. Embeddings are rounded to f16, as they are stored, so that photos that come later give
 * what all at once would have given. */
typedef struct learned_set {
    photo_list classes; /* their names, sorted by learned_sort         */
    bool several;       /* any number of classes may be right, or none */
    int dim, count;
    learned_photo *photos; /* [count]                                     */
    uint16_t *halves;      /* [rows, dim], in any order                   */
    int *labels;
    int stored, twice; /* photos from before; left out, as they were there */
    infer_counts counts;
    photo_list paths; /* private, like the following */
    size_t rows, num_labels, capacity, rows_capacity, labels_capacity;
} learned_set;

/* The section "learned" of a .vit file (>>format in vit.h). */
typedef struct learned_record {
    const unsigned char *data;
    size_t size, count;
    const vit_model *model; /* its labels name the classes        */
    uint64_t backbone;      /* what it should have been made with */
} learned_record;

/* Another backbone is refused. */
bool learned_add_stored(learned_set *set, const learned_record *record, report *r);

/* Embeds the photos of a folder with a folder for each class, or of a file with lines
 * "PATH,CLASS;CLASS", paths beginning at its folder. settings: model, program, num_threads, batch,
 * isa, decoder and progress. Those that cannot be read are named and counted. */
bool learned_add_photos(learned_set *set, const char *path, const infer_settings *settings,
                        report *r);

/* Leaves the class out, and the photos that have no other. */
bool learned_forget(learned_set *set, const char *name, report *r);

/* Sorts classes and photos, so that their order does not depend on that in which they came. A photo
 * that is there twice is kept once; twice with different classes, it is a failure, as is a class
 * without photos. */
bool learned_sort(learned_set *set, const char *program, report *r);

/* The record, malloc'ed. NULL: out of memory. */
unsigned char *learned_store(const learned_set *set, uint64_t backbone, size_t *size);
void learned_free(learned_set *set);

/* === The head === */

/* The name of the class that stands for none of the others. */
#define LEARNED_NONE "none of these"

/* The inverse strength of the regularisation, for embeddings whose squared distance to their mean is
 * 1 in the mean. */
#define LEARNED_C 1.0

typedef struct learned_choice {
    double c;                     /* 0: LEARNED_C                                           */
    double known;                 /* the share of photos held out that are not LEARNED_NONE; 1: */
                                  /* the head has no such class                             */
    int folds;                    /* 0: as many as LEARNED_FOLDS, or 3 where that takes long */
    const vit_executor *executor; /* NULL: one thread                                       */
} learned_choice;

enum { LEARNED_FOLDS = 10 };

/* What the head says of a photo that it was not learnt from. */
typedef struct learned_answer {
    int best; /* of the classes; -1: it was not held out, being the only one of its class */
    float own,
        highest; /* probabilities of its own class (the first) and of the best              */
    float score; /* of the best, before softmax                                             */
} learned_answer;

typedef struct learned_head {
    int num_classes;          /* with LEARNED_NONE, if it is there               */
    bool has_none, alone;     /* alone: one class, told by its mean              */
    double *weights;          /* [num_classes, dim + 1]                           */
    double temperature, none; /* by which scores were divided; the score of LEARNED_NONE */
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

/* Photos that seem to have a wrong class: the best is another, and more probable than it is in the
 * mean for photos that have it (Northcutt and others, arXiv 1911.00068). list [count] receives their
 * numbers, the most doubtful first. Returns how many. */
int learned_doubts(const learned_set *set, const learned_head *head, int *list);

#endif
