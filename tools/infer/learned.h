/* learned.h - collects embeddings of photos with their classes, and learns a head from them.
 *
 *     learned_set set = { 0 };
 * learned_add_stored(&set, &record, &r) ... optional: the photos of an earlier run
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
    const char *path; /* NULL for a stored photo, which has no path */
    size_t row;       /* row of the embeddings */
    int first, count; /* the photo's classes in set->labels */
    uint64_t hash;    /* hash of its embedding, by which photos are sorted */
} learned_photo;

/* Zero the struct before use. Embeddings are rounded to f16, the stored type, because adding photos
 * later must give the same result as adding all photos at once. */
typedef struct learned_set {
    photo_list classes; /* names of the classes, sorted by learned_sort */
    bool several;       /* a photo may have any number of classes, or none */
    int dim, count;
    learned_photo *photos; /* [count] */
    uint16_t *halves;      /* [rows, dim], in any order */
    int *labels;
    int stored, twice; /* number of stored photos; number of copies that were left out */
    int added;         /* number of photos in learned_fit_sums; 0 after learned_fit */
    int least, most;   /* the smallest and the largest number of photos in a class */
    infer_counts counts;
    photo_list paths; /* private, like the members below */
    size_t rows, num_labels, capacity, rows_capacity, labels_capacity;
} learned_set;

/* The section "learned" of a .vit file (>>format in vit.h). */
typedef struct learned_record {
    const unsigned char *data;
    size_t size, count;
    const vit_model *model; /* the model whose labels name the classes */
    uint64_t backbone;      /* hash of the expected backbone */
} learned_record;

/* Adds the photos of a record. Refuses the record of another backbone. */
bool learned_add_stored(learned_set *set, const learned_record *record, report *r);

/* Embeds photos. They are in a folder with a folder for each class, or in a list with lines
 * "PATH,CLASS;CLASS". Paths in a list are relative to the folder of the list. Uses these settings:
 * model, program, num_threads, batch, isa, decoder and progress. Unreadable photos are reported and
 * counted. */
bool learned_add_photos(learned_set *set, const char *path, const infer_settings *settings,
                        report *r);

/* Adds the rows of OUT.npy, which vit-embed has written with this model. The class of a photo is
 * the name of its folder in OUT.txt. */
bool learned_add_rows(learned_set *set, const char *path, const vit_model *model, report *r);

/* Removes the class, and the photos that have no other class. */
bool learned_forget(learned_set *set, const char *name, report *r);

/* Sorts classes and photos, because the order in which they were added must have no effect. One of
 * several copies of a photo is kept. Fails if copies have different classes, or if a class has no
 * photos. */
bool learned_sort(learned_set *set, const char *program, report *r);

/* Returns the record, malloc'ed; NULL if memory is exhausted. */
unsigned char *learned_store(const learned_set *set, uint64_t backbone, size_t *size);
void learned_free(learned_set *set);

/* === The head === */

/* The name of the class for photos that belong to no other class. */
#define LEARNED_NONE "none of these"

/* The inverse strength of the regularisation, for embeddings whose mean squared distance to their
 * mean is 1. */
#define LEARNED_C 1.0

typedef struct learned_choice {
    double c;                     /* 0: LEARNED_C */
    double known;                 /* the share of photos held out that are not LEARNED_NONE; 1: */
                                  /* the head has no such class                             */
    int folds;                    /* 0: LEARNED_FOLDS, or 3 if so many would take long */
    const vit_executor *executor; /* NULL: one thread */
} learned_choice;

enum { LEARNED_FOLDS = 10 };

/* The head's answer for a photo from which it did not learn. */
typedef struct learned_answer {
    int best;           /* best class; -1 for the only photo of a class, never held out */
    float own, highest; /* probabilities of its own (first) class and the best class */
    float score;        /* score of the best class, before softmax */
} learned_answer;

typedef struct learned_head {
    int num_classes;          /* number of classes, including LEARNED_NONE if it exists */
    bool has_none, alone;     /* alone: there is a single class, recognised by its mean */
    double *weights;          /* [num_classes, dim + 1] */
    double share;             /* shrinkage of learned_fit_sums */
    double temperature, none; /* divisor of the scores; bias of LEARNED_NONE */
    int folds, steps;
    learned_answer *answers; /* [photos] */
    float *held;             /* [photos, classes]: probabilities of held-out photos */
    int held_out, right, refused,
        right_refused; /* numbers of photos; refused: LEARNED_NONE scores higher */
    double expected;   /* mean of the photos' highest probabilities */
} learned_head;

bool learned_fit(const learned_set *set, const learned_choice *choice, learned_head *head,
                 report *r);
void learned_head_free(learned_head *head);

/* Learns by vit_learn_ridge from the rows of files OUT.npy, like learned_add_rows. It reads the
 * rows once. Apart from 5 bytes and a name per row, the memory in use does not grow with the number
 * of rows. One row in ten of each class is held out, at most LEARNED_HELD in all. These held-out
 * rows decide the shrinkage and the temperature, and only they are put into `set`. */
enum { LEARNED_HELD = 5000 };
bool learned_fit_sums(learned_set *set, const vit_model *model, const text_list *paths,
                      const learned_choice *choice, learned_head *head, report *r);

/* Finds photos that seem to have a wrong class. For such a photo, the best class is another class,
 * which has a higher probability than it has on average for its own photos (Northcutt and others,
 * arXiv 1911.00068). list [count] receives the numbers of the photos, the most doubtful first.
 * Returns the count of these photos. */
int learned_doubts(const learned_set *set, const learned_head *head, int *list);

#endif
