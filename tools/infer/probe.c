#include "infer/infer.h"

#include <stdlib.h>
#include <string.h>

#include "image/photo_source.h"
#include "numbers/learn.h"
#include "numbers/nearest.h"

/* The embeddings and the classes of the readable photos of one set. Classes are numbered like the
 * folders of the training set. */
typedef struct embedded {
    labelled_photos photos;
    /* The class of each folder of this set. */
    int *folder_class;
    infer_counts counts;
    int dim, count;
    /* The embeddings: [count, dim]. */
    float *vectors;
    /* The classes of the photos: [count]. */
    int *classes;
} embedded;

static void embedded_free(embedded *e) {
    labelled_free(&e->photos);
    free(e->folder_class);
    free(e->vectors);
    free(e->classes);
}

/* Finds the photos of a set. Each folder of the set must have the name of a folder in `train`.
 * `train` may be the set itself. */
static bool find_photos(embedded *e, const embedded *train, const char *path, int limit,
                        report *r) {
    const photo_list *own = &e->photos.folders, *known = &train->photos.folders;
    if (!labelled_find(&e->photos, path, limit, r)) return false;
    e->folder_class = malloc((size_t)own->count * sizeof *e->folder_class);
    if (!e->folder_class) return report_no_memory(r);
    for (int i = 0; i < own->count; i++) {
        int c = known->count - 1;
        while (c >= 0 && strcmp(known->paths[c], own->paths[i]) != 0) c--;
        if (c < 0) {
            (void)report_fail(r, "folder %.200s is not in the training set", own->paths[i]);
            return report_file(r, path);
        }
        e->folder_class[i] = c;
    }
    return true;
}

/* Stores the embedding and the class of one photo. This function is an infer_take. */
static bool take_vector(void *user, infer_result *result, report *r) {
    embedded *e = user;
    (void)r;
    if (result->error) return true;
    memcpy(e->vectors + (size_t)e->count * (size_t)e->dim, result->embedding,
           (size_t)e->dim * sizeof *e->vectors);
    e->classes[e->count++] = e->folder_class[e->photos.folder[result->index]];
    return true;
}

static bool embed(embedded *e, const infer_settings *given, report *r) {
    const size_t count = (size_t)e->photos.photos.count;
    infer_settings settings = *given;
    photo_paths paths;
    photo_source source;
    memset(&paths, 0, sizeof paths);
    paths.list = e->photos.photos;
    source = photo_paths_source(&paths);
    settings.outputs = INFER_EMBEDDING;
    settings.take = take_vector;
    settings.user = e;
    e->dim = vit_embedding_dim(settings.model);
    e->vectors = malloc(count * (size_t)e->dim * sizeof *e->vectors);
    e->classes = malloc(count * sizeof *e->classes);
    if (!e->vectors || !e->classes) return report_no_memory(r);
    return infer_run(&settings, &source, &e->counts, r);
}

/* Returns the rank of the true class, from 0: the number of classes that come before it. Such a
 * class has more votes than the true class, or as many votes and a lower number. */
static int rank_of(const double *votes, int num_classes, int true_class) {
    int rank = 0;
    for (int c = 0; c < num_classes; c++) {
        const bool before = c < true_class;
        rank += votes[c] > votes[true_class] || (before && votes[c] == votes[true_class]);
    }
    return rank;
}

static void count(const double *votes, int num_classes, int true_class, probe_counts *counts) {
    enum { TOP = 5 };
    const int rank = rank_of(votes, num_classes, true_class);
    counts->right += rank == 0;
    counts->top5 += rank < TOP;
}

static bool ask_neighbors(const embedded *train, const embedded *test, int k,
                          const vit_executor *executor, probe_counts *counts) {
    const nearest_rows rows = { train->vectors, train->count, train->dim };
    const nearest_rows queries = { test->vectors, test->count, test->dim };
    const int num_classes = train->photos.folders.count;
    nearest_hit *hits = malloc((size_t)test->count * (size_t)k * sizeof *hits + 1);
    int *found = malloc((size_t)test->count * sizeof *found + 1);
    double *votes = malloc((size_t)num_classes * sizeof *votes);
    bool good = hits && found && votes &&
                nearest_find_each(&rows, &queries, k, executor, hits, found);
    for (int i = 0; good && i < test->count; i++) {
        nearest_vote(hits + (size_t)i * (size_t)k, found[i], train->classes, PROBE_TEMPERATURE,
                     votes, num_classes);
        count(votes, num_classes, test->classes[i], counts);
    }
    free(hits);
    free(found);
    free(votes);
    return good;
}

static void normalize(const embedded *e) {
    for (int i = 0; i < e->count; i++)
        vit_normalize(e->vectors + (size_t)i * (size_t)e->dim, e->dim);
}

static bool ask_classifier(const embedded *train, const embedded *test,
                           const vit_executor *executor, probe_counts *counts) {
    const int num_classes = train->photos.folders.count, dim = train->dim;
    const vit_learn_rows rows = { train->vectors, train->classes, NULL, NULL, train->count, dim,
                                  num_classes };
    const vit_learn_options options = { PROBE_C, 0, executor->parallel_for, executor->user };
    const size_t size = (size_t)num_classes * ((size_t)dim + 1);
    double *weights = malloc((size + (size_t)num_classes) * sizeof *weights);
    void *memory = malloc(vit_learn_size(dim, num_classes));
    const bool good = weights && memory;
    normalize(train);
    normalize(test);
    counts->steps = good ? vit_learn_fit(&rows, &options, memory, weights) : -1;
    free(memory);
    for (int i = 0; good && i < test->count; i++) {
        vit_learn_scores(weights, num_classes, test->vectors + (size_t)i * (size_t)dim, dim,
                         weights + size);
        count(weights + size, num_classes, test->classes[i], counts);
    }
    free(weights);
    return good;
}

static bool ask(const embedded *train, const embedded *test, const infer_settings *settings,
                int neighbors, probe_counts *counts, report *r) {
    vit_threads *threads = NULL;
    vit_executor executor;
    vit_result result = vit_threads_create(settings->num_threads, &threads, &executor);
    bool good = result == VIT_OK || report_fail(r, "%s", vit_result_string(result));
    if (good && !(neighbors ? ask_neighbors(train, test, neighbors, &executor, counts)
                            : ask_classifier(train, test, &executor, counts)))
        good = report_no_memory(r);
    vit_threads_destroy(threads);
    counts->train = train->count;
    counts->test = test->count;
    counts->unreadable = (int)(train->counts.unreadable + test->counts.unreadable);
    return good;
}

bool probe_evaluate(const infer_settings *settings, const probe_choice *choice,
                    probe_counts *counts, report *r) {
    embedded known, asked;
    bool good;
    memset(counts, 0, sizeof *counts);
    memset(&known, 0, sizeof known);
    memset(&asked, 0, sizeof asked);
    good = find_photos(&known, &known, choice->train, choice->limit, r) &&
           find_photos(&asked, &known, choice->test, choice->limit, r) &&
           embed(&known, settings, r) && embed(&asked, settings, r) &&
           ask(&known, &asked, settings, choice->neighbors, counts, r);
    embedded_free(&known);
    embedded_free(&asked);
    return good;
}
