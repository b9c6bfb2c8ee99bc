/* learned.h - collects embeddings of photos with their classes, and learns a head from them.
 *
 *     learned_set set = { 0 };
 *     learned_add_stored(&set, &record, &r) ... optional: the photos of an earlier run
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
    size_t row;       /* index of the photo's embedding in learned_set.halves */
    /* the photo's classes are labels[first] to labels[first + count - 1] of the set */
    int first, count;
    uint64_t hash; /* hash of the photo's embedding; learned_sort sorts photos by this hash */
} learned_photo;

/* Zero the struct before use. Embeddings are rounded to f16, the type in which a .vit file stores
 * them. Adding photos in a later run thus gives the same result as adding all photos in one run. */
typedef struct learned_set {
    photo_list classes; /* names of the classes, sorted by learned_sort */
    bool several;       /* true if a photo may have any number of classes, including none */
    int dim, count;
    learned_photo *photos; /* [count] */
    uint16_t *halves;      /* [rows, dim]: the embeddings in f16, in any order */
    int *labels;
    /* stored: number of photos from a record; twice: number of copies of photos that learned_sort
     * left out */
    int stored, twice;
    int added;       /* number of photos that learned_fit_sums has read; 0 if it was not called */
    int least, most; /* the smallest and the largest number of photos in a class */
    infer_counts counts;
    photo_list paths; /* private, like the members below */
    size_t rows, num_labels, capacity, rows_capacity, labels_capacity;
} learned_set;

/* The section "learned" of a .vit file (>>format in vit.h). */
typedef struct learned_record {
    const unsigned char *data;
    size_t size, count;
    const vit_model *model; /* the labels of this model are the names of the classes */
    /* hash of the model's backbone (the model without its head), which the record must match */
    uint64_t backbone;
} learned_record;

/* Adds the photos of a record. Fails if the record was made with another backbone. */
bool learned_add_stored(learned_set *set, const learned_record *record, report *r);

/* Computes the embeddings of photos and adds the photos. `path` is a folder that has a subfolder
 * for each class, or a list file with lines "PATH,CLASS;CLASS". Paths in a list are relative to the
 * folder of the list. Set only these settings: model, program, num_threads, batch, isa, decoder
 * and progress. Unreadable photos are reported on stderr and counted. */
bool learned_add_photos(learned_set *set, const char *path, const infer_settings *settings,
                        report *r);

/* Adds the rows of OUT.npy, which vit-embed has written with this model. The class of a photo is
 * the name of its folder in OUT.txt. */
bool learned_add_rows(learned_set *set, const char *path, const vit_model *model, report *r);

/* Removes the class with this name, and the photos that have only this class. */
bool learned_forget(learned_set *set, const char *name, report *r);

/* Sorts classes and photos, so the order in which they were added has no effect. Keeps one of the
 * photos that have the same embedding. Fails if such photos have different classes, if a class has
 * no photos, or if the names of two classes are equal for class_find. */
bool learned_sort(learned_set *set, const char *program, report *r);

/* Returns the record of the set, malloc'ed, and sets *size to its number of bytes. Returns NULL if
 * memory is exhausted. `backbone` is the hash of the model's backbone. */
unsigned char *learned_store(const learned_set *set, uint64_t backbone, size_t *size);
void learned_free(learned_set *set);

/* === Learning a head === */

/* The name of the class for photos that belong to no other class. */
#define LEARNED_NONE "none of these"

/* The default of the member `c` of learned_choice. learned_fit divides `c` by the mean squared
 * distance of the embeddings to their mean. */
#define LEARNED_C 1.0

typedef struct learned_choice {
    double c; /* inverse strength of the regularisation; 0: LEARNED_C */
    /* the share of the held-out photos for which the head must not choose LEARNED_NONE; 1 means
     * that the head has no class LEARNED_NONE */
    double known;
    /* number of folds of the cross-validation; 0 means LEARNED_FOLDS, or 3 if LEARNED_FOLDS would
     * take long */
    int folds;
    const vit_executor *executor; /* NULL means that one thread computes */
} learned_choice;

enum { LEARNED_FOLDS = 10 };

/* The answer for a held-out photo. It comes from a head that has not learned from this photo. */
typedef struct learned_answer {
    /* index of the best class; -1 for the only photo of a class, which is never held out */
    int best;
    /* probability of the photo's own (first) class; probability of the best class */
    float own, highest;
    float score; /* score of the best class before the softmax, on the scale of learned_head.none */
} learned_answer;

typedef struct learned_head {
    int num_classes; /* number of classes, including LEARNED_NONE if it exists */
    /* has_none: the class LEARNED_NONE exists; alone: only one other class exists, and the scores
     * compare a photo with the mean of this class */
    bool has_none, alone;
    double *weights; /* [num_classes, dim + 1] */
    double share;    /* shrinkage of the covariance, which learned_fit_sums chooses */
    /* divisor of the scores before the softmax; bias of the class LEARNED_NONE */
    double temperature, none;
    int folds, steps;
    learned_answer *answers; /* [number of photos] */
    /* [number of photos, classes of the set]: probabilities of held-out photos */
    float *held;
    /* Numbers of photos. `held_out` counts the photos that were held out. `right` counts those
     * whose best class is right, and `refused` counts those for which LEARNED_NONE has the best
     * score. `right_refused` counts those that are in `right` and in `refused`. */
    int held_out, right, refused, right_refused;
    double expected; /* mean over the held-out photos of their highest probability */
} learned_head;

bool learned_fit(const learned_set *set, const learned_choice *choice, learned_head *head,
                 report *r);
void learned_head_free(learned_head *head);

/* Learns by vit_learn_ridge from the rows of the files OUT.npy in `paths`, which vit-embed has
 * written (see learned_add_rows). The function reads each row once. Apart from 5 bytes and a name
 * per row, the memory in use does not grow with the number of rows. One row in ten of each class is
 * held out, at most LEARNED_HELD rows in all. These held-out rows decide the shrinkage and the
 * temperature, and only they are put into `set`. */
enum { LEARNED_HELD = 5000 };
bool learned_fit_sums(learned_set *set, const vit_model *model, const text_list *paths,
                      const learned_choice *choice, learned_head *head, report *r);

/* Finds photos that seem to have a wrong class (Northcutt and others, arXiv 1911.00068). Such a
 * photo has a best class that is not its own. Its probability of that class is at least the mean
 * over the photos that belong to that class. list [set->count] receives the indices of these
 * photos, the most doubtful first. Returns the number of these photos. */
int learned_doubts(const learned_set *set, const learned_head *head, int *list);

#endif
