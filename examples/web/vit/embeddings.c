/* embeddings.c - in a page, gives vit-learn embeddings instead of photos: each path in a list names
 * a file with the floats of one embedding. Folders and files of vit-embed are refused.
 */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "image/photo_source.h"
#include "infer/embedding.h"
#include "infer/infer.h"
#include "os/os.h"

/* === Embeddings === */

static bool read_embedding(const char *path, float *values, size_t dim, report *r) {
    FILE *file = os_fopen(path, "rb");
    size_t count;
    bool ended;
    if (!file) return report_fail(r, "cannot be opened: %s", os_error(errno));
    count = fread(values, sizeof *values, dim, file);
    ended = count == dim && fgetc(file) == EOF;
    fclose(file);
    return ended || report_fail(r, "expected an embedding of %zu floats, found %s", dim,
                                count < dim ? "fewer" : "more");
}

bool infer_run(const infer_settings *settings, photo_source *source, infer_counts *counts,
               report *r) {
    const photo_list *paths = source->user;
    const size_t dim = (size_t)vit_embedding_dim(settings->model);
    float *values = malloc(dim * sizeof *values);
    bool good = values || report_no_memory(r);
    memset(counts, 0, sizeof *counts);
    for (int i = 0; good && i < paths->count; i++) {
        infer_result result;
        memset(&result, 0, sizeof result);
        result.index = counts->read++;
        result.name = paths->paths[i];
        result.embedding = values;
        good = (read_embedding(result.name, values, dim, r) || report_file(r, result.name)) &&
               settings->take(settings->user, &result, r);
    }
    free(values);
    return good;
}

photo_source photo_paths_source(photo_paths *paths) {
    const photo_source source = { &paths->list, (uint64_t)paths->list.count, NULL };
    return source;
}

/* === Photos === */

bool photos_append(photo_list *list, const char *name, report *r) {
    char **larger = memory_grow(list->paths, sizeof *larger, (size_t)list->count, &list->capacity);
    char *copy = strdup(name);
    if (larger) list->paths = larger;
    if (larger && copy) {
        list->paths[list->count++] = copy;
        return true;
    }
    free(copy);
    return report_no_memory(r);
}

void photos_free(photo_list *list) {
    for (int i = 0; i < list->count; i++) free(list->paths[i]);
    free(list->paths);
    memset(list, 0, sizeof *list);
}

bool photos_is_folder(const char *path) { return source_is_folder(path); }

bool labelled_find(labelled_photos *set, const char *root, int limit, report *r) {
    (void)limit;
    memset(set, 0, sizeof *set);
    (void)report_fail(r, "the path is a folder; this build reads only lists of embeddings");
    return report_file(r, root);
}

void labelled_free(labelled_photos *set) { (void)set; }

/* === Files of vit-embed === */

bool embedding_open(embedding_index *index, const char *path, const char *names, report *r) {
    (void)names;
    memset(index, 0, sizeof *index);
    (void)report_fail(r, "the file is from vit-embed; this build reads only lists of embeddings");
    return report_file(r, path);
}

void embedding_close(embedding_index *index) { (void)index; }

uint64_t embedding_model_hash(const vit_model *model) {
    (void)model;
    return 0;
}

/* === Decoders === */

photo_decoder *photo_decoder_open(const photo_options *options, const char *program,
                                  int num_threads, report *r) {
    static char none;
    (void)options, (void)program, (void)num_threads, (void)r;
    return (photo_decoder *)&none;
}

void photo_decoder_close(photo_decoder *decoder) { (void)decoder; }

const char *photos_library(void) { return NULL; }
