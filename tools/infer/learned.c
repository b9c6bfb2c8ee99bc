#include "infer/learned.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "image/photo_source.h"
#include "infer/embedding.h"
#include "infer/tags.h"
#include "numbers/learn.h"
#include "os/os.h"

/* === Records === */

enum {
    RECORD_BACKBONE = 0,
    RECORD_DIM = 8,
    RECORD_SEVERAL = 12,
    RECORD_CLASSES = 16,
    RECORD_SIZE = 24
};

static void store32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* Returns the number of bytes that store the classes of one photo. If `several` is false, they
 * contain the number of the photo's class. Otherwise they contain one bit for each class. */
static size_t label_bytes(bool several, size_t num_classes) {
    return several ? (num_classes + 7) / 8 : 4;
}

static bool add_label(learned_set *set, int index, report *r) {
    int *larger = memory_grow(set->labels, sizeof *larger, set->num_labels, &set->labels_capacity);
    if (!larger) return report_no_memory(r);
    set->labels = larger;
    set->labels[set->num_labels++] = index;
    return true;
}

/* Adds a photo that has no classes yet. Its embedding gets memory, but no values. Returns NULL
 * after a failure. */
static learned_photo *add_photo(learned_set *set, const char *path, report *r) {
    learned_photo *larger = memory_grow(set->photos, sizeof *larger, (size_t)set->count,
                                        &set->capacity);
    if (larger) set->photos = larger;
    if (larger && set->rows == set->rows_capacity) {
        const size_t rows = set->rows_capacity * 2 + 64;
        uint16_t *halves = realloc(set->halves, rows * (size_t)set->dim * sizeof *halves);
        if (halves) {
            set->halves = halves;
            set->rows_capacity = rows;
        } else {
            larger = NULL;
        }
    }
    if (!larger || set->count == INT32_MAX || set->num_labels > INT32_MAX)
        return (void)report_no_memory(r), NULL;
    larger[set->count] = (learned_photo){ path, set->rows++, (int)set->num_labels, 0, 0 };
    return &set->photos[set->count++];
}

static uint16_t *halves_of(const learned_set *set, const learned_photo *p) {
    return set->halves + p->row * (size_t)set->dim;
}

/* Returns the number of the class with this name. If there is no such class, adds a new class.
 * Returns -1 if memory is exhausted. */
static int find_class(learned_set *set, const char *name, report *r) {
    for (int i = 0; i < set->classes.count; i++)
        if (!strcmp(set->classes.paths[i], name)) return i;
    return photos_append(&set->classes, name, r) ? set->classes.count - 1 : -1;
}

static bool set_dim(learned_set *set, int dim, report *r) {
    if (set->dim && set->dim != dim)
        return report_fail(r, "expected embeddings of %d numbers, found %d", set->dim, dim);
    set->dim = dim;
    return true;
}

static bool read_labels(learned_set *set, const unsigned char *at, const int *classes,
                        uint32_t num_classes, report *r) {
    learned_photo *p = &set->photos[set->count - 1];
    for (uint32_t c = 0; c < num_classes; c++) {
        if (set->several ? !(at[c / 8] >> c % 8 & 1) : bytes_load32(at) != c) continue;
        if (!add_label(set, classes[c], r)) return false;
        p->count++;
    }
    return set->several || p->count == 1 ||
           report_fail(r, "the learnt embeddings in the file are damaged");
}

static bool read_record(learned_set *set, const learned_record *record, const int *classes,
                        uint32_t num_classes, report *r) {
    const unsigned char *at = record->data + RECORD_SIZE;
    const unsigned char *labels = at + 2 * record->count * (size_t)set->dim;
    for (size_t i = 0; i < record->count; i++) {
        uint16_t *to;
        if (!add_photo(set, NULL, r)) return false;
        to = halves_of(set, &set->photos[set->count - 1]);
        for (int d = 0; d < set->dim; d++, at += 2) to[d] = bytes_load16(at);
        if (!read_labels(set, labels, classes, num_classes, r)) return false;
        labels += label_bytes(set->several, num_classes);
    }
    set->stored += (int)record->count;
    return true;
}

bool learned_add_stored(learned_set *set, const learned_record *record, report *r) {
    uint32_t num_classes, dim;
    bool several, good = true;
    int *classes;
    if (record->size < RECORD_SIZE)
        return report_fail(r, "the learnt embeddings in the file are truncated");
    if (bytes_load64(record->data + RECORD_BACKBONE) != record->backbone)
        return report_fail(r,
                           "the learnt embeddings are from backbone %016llx, but this model has "
                           "backbone %016llx: learn from the photos again",
                           (unsigned long long)bytes_load64(record->data + RECORD_BACKBONE),
                           (unsigned long long)record->backbone);
    dim = bytes_load32(record->data + RECORD_DIM);
    several = bytes_load32(record->data + RECORD_SEVERAL) != 0;
    num_classes = bytes_load32(record->data + RECORD_CLASSES);
    if (dim == 0 || dim > 1 << 20 || num_classes > (uint32_t)record->model->config.num_classes ||
        record->count > INT32_MAX - (size_t)set->count ||
        record->size !=
            RECORD_SIZE + record->count * (2 * (size_t)dim + label_bytes(several, num_classes)))
        return report_fail(r, "the learnt embeddings in the file are damaged");
    if (set->count && set->several != several)
        return report_fail(r, "this model has %s for each photo; the other models have %s",
                           several ? "any number of classes" : "one class",
                           several ? "one class" : "any number of classes");
    set->several = several;
    if (!set_dim(set, (int)dim, r)) return false;
    classes = malloc((num_classes + 1) * sizeof *classes);
    if (!classes) return report_no_memory(r);
    for (uint32_t c = 0; good && c < num_classes; c++) {
        const char *label = vit_label(record->model, (int)c);
        if (!label) good = report_fail(r, "the learnt embeddings in the file are damaged");
        good = good && (classes[c] = find_class(set, label, r)) >= 0;
    }
    good = good && read_record(set, record, classes, num_classes, r);
    free(classes);
    return good;
}

unsigned char *learned_store(const learned_set *set, uint64_t backbone, size_t *size) {
    const size_t classes = (size_t)set->classes.count, each = label_bytes(set->several, classes);
    unsigned char *data, *at;
    *size = RECORD_SIZE + (size_t)set->count * (2 * (size_t)set->dim + each);
    data = calloc(*size, 1);
    if (!data) return NULL;
    store32(data + RECORD_BACKBONE, (uint32_t)backbone);
    store32(data + RECORD_BACKBONE + 4, (uint32_t)(backbone >> 32));
    store32(data + RECORD_DIM, (uint32_t)set->dim);
    store32(data + RECORD_SEVERAL, set->several);
    store32(data + RECORD_CLASSES, (uint32_t)classes);
    at = data + RECORD_SIZE;
    for (int i = 0; i < set->count; i++) {
        const uint16_t *from = halves_of(set, &set->photos[i]);
        for (int d = 0; d < set->dim; d++, at += 2) {
            at[0] = (unsigned char)from[d];
            at[1] = (unsigned char)(from[d] >> 8);
        }
    }
    for (int i = 0; i < set->count; i++, at += each) {
        const learned_photo *p = &set->photos[i];
        for (int k = 0; k < p->count; k++) {
            const int c = set->labels[p->first + k];
            if (set->several) at[c / 8] |= (unsigned char)(1u << c % 8);
            else store32(at, (uint32_t)c);
        }
    }
    return data;
}

void learned_free(learned_set *set) {
    photos_free(&set->classes);
    photos_free(&set->paths);
    free(set->photos);
    free(set->halves);
    free(set->labels);
    memset(set, 0, sizeof *set);
}

/* === Photos === */

/* The argument of take_photo. */
typedef struct taking {
    learned_set *set;
    const photo_list *paths;
    /* Photo i of the source has the classes classes[first[i]] to classes[first[i + 1] - 1]. */
    const int *first, *classes;
} taking;

/* Rounds the embedding to f16 values. */
static bool round_vector(const learned_set *set, const float *vector, uint16_t *to,
                         const char *path, report *r) {
    for (int d = 0; d < set->dim; d++) {
        to[d] = bytes_to_half(vector[d]);
        if (fabsf(bytes_half(to[d])) <= 65504) continue;
        (void)report_fail(
            r,
            "its embedding has the value %g at index %d; expected -65504 to 65504: no head can be "
            "learnt on this model",
            (double)vector[d], d);
        return report_file(r, path);
    }
    return true;
}

/* Adds a photo of one class. set->labels[first] is the number of the class. */
static bool add_row(learned_set *set, const float *vector, const char *path, size_t first,
                    report *r) {
    learned_photo *p;
    if (!photos_append(&set->paths, path, r) ||
        !add_photo(set, set->paths.paths[set->paths.count - 1], r))
        return false;
    p = &set->photos[set->count - 1];
    p->first = (int)first;
    p->count = 1;
    return round_vector(set, vector, halves_of(set, p), path, r);
}

/* Adds one photo of the source to the set. This function is an infer_take. */
static bool take_photo(void *user, infer_result *result, report *r) {
    taking *t = user;
    learned_set *set = t->set;
    const size_t i = (size_t)result->index;
    if (result->error) return true;
    if (!photos_append(&set->paths, t->paths->paths[i], r) ||
        !add_photo(set, set->paths.paths[set->paths.count - 1], r))
        return false;
    if (!round_vector(set, result->embedding, halves_of(set, &set->photos[set->count - 1]),
                      result->name, r))
        return false;
    for (int k = t->first[i]; k < t->first[i + 1]; k++) {
        if (!add_label(set, t->classes[k], r)) return false;
        set->photos[set->count - 1].count++;
    }
    return true;
}

static bool embed(taking *t, const infer_settings *given, report *r) {
    learned_set *set = t->set;
    infer_settings settings = *given;
    infer_counts counts;
    photo_paths paths;
    photo_source source;
    memset(&paths, 0, sizeof paths);
    paths.list = *t->paths;
    source = photo_paths_source(&paths);
    settings.outputs = INFER_EMBEDDING;
    settings.take = take_photo;
    settings.user = t;
    if (!set_dim(set, vit_embedding_dim(settings.model), r) ||
        !infer_run(&settings, &source, &counts, r))
        return false;
    set->counts.read += counts.read;
    set->counts.unreadable += counts.unreadable;
    set->counts.seconds += counts.seconds;
    return true;
}

static bool add_folder(learned_set *set, const char *path, const infer_settings *settings,
                       report *r) {
    labelled_photos found;
    taking t = { set, &found.photos, NULL, NULL };
    int *first, *classes, *number;
    bool good;
    if (!labelled_find(&found, path, 0, r)) return false;
    first = malloc(((size_t)found.photos.count + 1) * sizeof *first);
    classes = malloc(((size_t)found.photos.count + 1) * sizeof *classes);
    number = calloc((size_t)found.folders.count, sizeof *number);
    good = (first && classes && number) || report_no_memory(r);
    for (int i = 0; good && i < found.folders.count; i++) {
        good = (number[i] = find_class(set, found.folders.paths[i], r)) >= 0;
    }
    for (int i = 0; good && i <= found.photos.count; i++) {
        first[i] = i;
        classes[i] = i < found.photos.count ? number[found.folder[i]] : 0;
    }
    t.first = first;
    t.classes = classes;
    good = good && embed(&t, settings, r);
    free(first);
    free(classes);
    free(number);
    labelled_free(&found);
    return good;
}

/* Returns the path of the folder that contains a file. The caller frees the path. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    const size_t size = slash ? (size_t)(slash - path) + 1 : 1;
    char *folder = malloc(size + 1);
    if (!folder) return NULL;
    memcpy(folder, slash ? path : ".", size);
    folder[size] = '\0';
    return folder;
}

static bool has_several(const tag_lists *lists) {
    for (int i = 0; i < lists->photos.count; i++)
        if (lists->first[i + 1] - lists->first[i] != 1) return true;
    return false;
}

static bool add_lists(learned_set *set, const char *path, const infer_settings *settings,
                      report *r) {
    char *folder = folder_of(path);
    const tag_lists_choice choice = { path, folder, 0, settings->program };
    tag_lists lists;
    taking t = { set, &lists.photos, NULL, NULL };
    bool good;
    if (!folder) return report_no_memory(r);
    good = tag_lists_read(&lists, &choice, NULL, r);
    free(folder);
    if (!good) return false;
    if (has_several(&lists) && !set->several && set->count) {
        good = report_fail(r, "the list has photos of several classes or of no class; each photo "
                              "learnt before has one class: learn from all photos again");
    }
    set->several |= has_several(&lists);
    for (int i = 0; good && i < lists.first[lists.photos.count]; i++) {
        lists.classes[i] = find_class(set, lists.names.paths[lists.classes[i]], r);
        good = lists.classes[i] >= 0;
    }
    t.first = lists.first;
    t.classes = lists.classes;
    good = good && embed(&t, settings, r);
    tag_lists_free(&lists);
    return good;
}

bool learned_add_photos(learned_set *set, const char *path, const infer_settings *settings,
                        report *r) {
    const bool good = photos_is_folder(path) ? add_folder(set, path, settings, r)
                                             : add_lists(set, path, settings, r);
    return good || report_file(r, path);
}

/* === Rows that vit-embed has written === */

static bool open_rows(embedding_index *index, const char *path, const vit_model *model, report *r) {
    const embedding_choice *choice = &index->choice;
    if (!embedding_open(index, path, NULL, r)) return false;
    if (!index->described)
        (void)report_fail(
            r, "the file needs a .json file beside it, in which vit-embed names the model");
    else if (index->model_hash != embedding_model_hash(model))
        (void)report_fail(r,
                          "the file has embeddings of another model, %.200s: embed the photos "
                          "with the model of -m",
                          index->model_path ? index->model_path : "which has no name");
    else if (choice->pool != EMBEDDING_HEAD || choice->block || choice->normalize)
        (void)report_fail(r,
                          "the vectors in the file are not inputs of the model's head: embed the "
                          "photos without --pool, --block and --normalize");
    else if (index->vectors.dims[1] != vit_embedding_dim(model))
        (void)report_fail(r, "expected vectors of %d numbers, found %lld", vit_embedding_dim(model),
                          (long long)index->vectors.dims[1]);
    if (!r->failed) return true;
    embedding_close(index);
    return report_file(r, path);
}

/* Returns the number of the class with the name of the photo's folder, or -1 after a failure. Tries
 * class `before` first, because neighbouring rows often have the same class. */
static int class_of_row(learned_set *set, const char *path, int before, report *r) {
    const char *end = strrchr(path, '/'), *folder = end;
    size_t length;
    char *name;
    int found;
    while (folder && folder > path && folder[-1] != '/') folder--;
    length = folder ? (size_t)(end - folder) : 0;
    if (length == 0 || (length <= 2 && !strncmp(folder, "..", length)))
        return (void)report_fail(r,
                                 "'%.200s' is in no folder; expected CLASS/PHOTO in each line of "
                                 "the .txt file",
                                 path),
               -1;
    if (before >= 0 && !strncmp(set->classes.paths[before], folder, length) &&
        !set->classes.paths[before][length])
        return before;
    name = malloc(length + 1);
    if (!name) return (void)report_no_memory(r), -1;
    memcpy(name, folder, length);
    name[length] = '\0';
    found = find_class(set, name, r);
    free(name);
    return found;
}

/* Adds a label for each row of the index. The label is the number of the row's class. */
static bool add_row_labels(learned_set *set, const embedding_index *index, report *r) {
    int found = -1;
    for (int64_t i = 0; i < index->vectors.dims[0]; i++) {
        found = class_of_row(set, index->names[i], found, r);
        if (found < 0) return report_file(r, index->path);
        if (!add_label(set, found, r)) return false;
    }
    return true;
}

bool learned_add_rows(learned_set *set, const char *path, const vit_model *model, report *r) {
    const size_t first = set->num_labels;
    embedding_index index;
    bool good;
    if (!open_rows(&index, path, model, r)) return false;
    good = set_dim(set, vit_embedding_dim(model), r) && add_row_labels(set, &index, r);
    for (size_t i = 0; good && i < (size_t)index.vectors.dims[0]; i++)
        good = add_row(set, index.vectors.data + i * (size_t)set->dim, index.names[i], first + i,
                       r);
    embedding_close(&index);
    return good;
}

bool learned_forget(learned_set *set, const char *name, report *r) {
    int index = set->classes.count - 1, kept = 0;
    while (index >= 0 && strcmp(set->classes.paths[index], name) != 0) index--;
    if (index < 0) return report_fail(r, "'%.200s' is not a learnt class", name);
    for (int i = 0; i < set->count; i++) {
        learned_photo *p = &set->photos[i];
        const int before = p->count;
        int labels = 0;
        for (int k = 0; k < before; k++) {
            const int c = set->labels[p->first + k];
            if (c != index) set->labels[p->first + labels++] = c - (c > index);
        }
        p->count = labels;
        if (labels || before == 0) set->photos[kept++] = *p;
    }
    set->stored -= set->count - kept;
    set->count = kept;
    free(set->classes.paths[index]);
    set->classes.count--;
    memmove(set->classes.paths + index, set->classes.paths + index + 1,
            (size_t)(set->classes.count - index) * sizeof *set->classes.paths);
    return true;
}

/* === Sorting the photos === */

typedef struct sorted_class {
    const char *name;
    int index;
} sorted_class;

static int compare_classes(const void *a, const void *b) {
    return strcmp(((const sorted_class *)a)->name, ((const sorted_class *)b)->name);
}

/* Returns true if class_find would treat the two names as equal. */
static bool are_twins(const char *a, const char *b) {
    for (;; a++, b++) {
        const int x = *a == '_' ? ' ' : tolower((unsigned char)*a);
        const int y = *b == '_' ? ' ' : tolower((unsigned char)*b);
        if (x != y) return false;
        if (!x) return true;
    }
}

static bool check_twins(const photo_list *classes, report *r) {
    for (int i = 0; i < classes->count; i++)
        for (int k = 0; k < i; k++)
            if (are_twins(classes->paths[i], classes->paths[k]))
                return report_fail(r,
                                   "the classes '%.200s' and '%.200s' differ only in case, or "
                                   "in '_' for ' ': rename one, or put their photos together",
                                   classes->paths[k], classes->paths[i]);
    return true;
}

static bool sort_classes(learned_set *set, report *r) {
    const size_t count = (size_t)set->classes.count;
    sorted_class *list = malloc((count + 1) * sizeof *list);
    int *place = malloc((count + 1) * sizeof *place);
    if (!list || !place) {
        free(list);
        free(place);
        return report_no_memory(r);
    }
    for (size_t i = 0; i < count; i++) list[i] = (sorted_class){ set->classes.paths[i], (int)i };
    qsort(list, count, sizeof *list, compare_classes);
    for (size_t i = 0; i < count; i++) place[list[i].index] = (int)i;
    for (size_t i = 0; i < count; i++) {
        const size_t at = (size_t)place[i];
        set->classes.paths[at] = (char *)(uintptr_t)list[at].name;
    }
    for (size_t i = 0; i < set->num_labels; i++)
        if (set->labels[i] < (int)count) set->labels[i] = place[set->labels[i]];
    free(list);
    free(place);
    return true;
}

static int compare_ints(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

typedef struct sorted_photo {
    const learned_set *set;
    learned_photo photo;
} sorted_photo;

static int compare_rows(const sorted_photo *x, const sorted_photo *y) {
    if (x->photo.hash != y->photo.hash) return x->photo.hash < y->photo.hash ? -1 : 1;
    return memcmp(halves_of(x->set, &x->photo), halves_of(y->set, &y->photo),
                  (size_t)x->set->dim * sizeof(uint16_t));
}

static int compare_labels(const sorted_photo *x, const sorted_photo *y) {
    const learned_photo *a = &x->photo, *b = &y->photo;
    for (int k = 0; k < a->count && k < b->count; k++) {
        const int c = x->set->labels[a->first + k], d = y->set->labels[b->first + k];
        if (c != d) return c < d ? -1 : 1;
    }
    return (a->count > b->count) - (a->count < b->count);
}

static int compare_photos(const void *a, const void *b) {
    const int rows = compare_rows(a, b);
    return rows ? rows : compare_labels(a, b);
}

static uint64_t hash_row(const learned_set *set, const learned_photo *p) {
    const uint16_t *from = halves_of(set, p);
    vit_hash hash;
    vit_hash_init(&hash);
    for (int d = 0; d < set->dim; d++) {
        const unsigned char bytes[2] = { (unsigned char)from[d], (unsigned char)(from[d] >> 8) };
        vit_hash_update(&hash, bytes, 2);
    }
    return vit_hash_final(&hash);
}

static const char *class_of(const learned_set *set, const learned_photo *p) {
    return p->count ? set->classes.paths[set->labels[p->first]] : "none";
}

static const char *path_of(const learned_photo *p) {
    return p->path ? p->path : "a photo learnt before";
}

/* Keeps one copy of each photo, without changing the order of the photos. Fails if two copies of a
 * photo have different classes. */
static bool drop_twins(learned_set *set, sorted_photo *list, const char *program, report *r) {
    enum { SHOWN = 10 };
    int kept = 0, others = 0;
    for (int i = 0; i < set->count; i++) {
        const sorted_photo *before = kept ? &list[kept - 1] : NULL;
        if (!before || compare_rows(before, &list[i])) {
            list[kept++] = list[i];
        } else if (compare_labels(before, &list[i]) == 0) {
            set->twice++;
        } else if (++others <= SHOWN) {
            report_error(program, NULL, "%s (%s) and %s (%s) are the same photo",
                         path_of(&before->photo), class_of(set, &before->photo),
                         path_of(&list[i].photo), class_of(set, &list[i].photo));
        }
    }
    if (others)
        return report_fail(r,
                           "%d %s in different classes: leave out one copy of each, or list the "
                           "photo once with all its classes",
                           others, others == 1 ? "photo occurs twice," : "photos occur twice,");
    for (int i = 0; i < kept; i++) set->photos[i] = list[i].photo;
    set->count = kept;
    return true;
}

static bool sort_photos(learned_set *set, const char *program, report *r) {
    sorted_photo *list = malloc(((size_t)set->count + 1) * sizeof *list);
    bool good;
    if (!list) return report_no_memory(r);
    for (int i = 0; i < set->count; i++) {
        learned_photo *p = &set->photos[i];
        if (p->count)
            qsort(set->labels + p->first, (size_t)p->count, sizeof *set->labels, compare_ints);
        p->hash = hash_row(set, p);
        list[i] = (sorted_photo){ set, *p };
    }
    qsort(list, (size_t)set->count, sizeof *list, compare_photos);
    good = drop_twins(set, list, program, r);
    free(list);
    return good;
}

static void note_range(learned_set *set, const int *photos) {
    set->least = set->most = photos[0];
    for (int c = 0; c < set->classes.count; c++) {
        set->least = photos[c] < set->least ? photos[c] : set->least;
        set->most = photos[c] > set->most ? photos[c] : set->most;
    }
}

static bool check_classes(learned_set *set, report *r) {
    int *photos = calloc((size_t)set->classes.count + 1, sizeof *photos);
    bool good = true;
    if (!photos) return report_no_memory(r);
    for (int i = 0; i < set->count; i++)
        for (int k = 0; k < set->photos[i].count; k++)
            photos[set->labels[set->photos[i].first + k]]++;
    note_range(set, photos);
    for (int c = 0; good && c < set->classes.count; c++)
        if (!photos[c])
            good = report_fail(r,
                               "class '%.200s' has no photo that can be read: add some, or "
                               "remove its folder",
                               set->classes.paths[c]);
    free(photos);
    if (good && set->count < 2)
        good = report_fail(
            r, "one photo is too few to learn from: give at least two photos of each class");
    return good;
}

bool learned_sort(learned_set *set, const char *program, report *r) {
    if (set->classes.count == 0) return report_fail(r, "there is no class left to learn");
    return check_twins(&set->classes, r) && sort_classes(set, r) && sort_photos(set, program, r) &&
           check_classes(set, r);
}

/* === Learning === */

/* The state of learned_fit and learned_fit_sums. */
typedef struct learning {
    const learned_set *set;
    const learned_choice *choice;
    learned_head *head;
    /* `classes` is the number of classes, and `row` is the number of weights of one class. */
    size_t classes, row;
    /* The embeddings of all photos: [count, dim]. */
    float *values;
    int *class_of, *fold, *which;
    /* [count, classes]: 1 if the photo has the class. NULL unless photos may have several
     * classes. */
    unsigned char *tags;
    double c;
    void *memory;
    /* `weights` are the weights that were fitted without one fold. `scores` has memory for the
     * scores of one photo: [classes]. */
    double *weights, *scores;
    /* Scores of one photo for each part of the work in learned_fit_sums: [BLOCK_PARTS, classes]. */
    double *part_scores;
} learning;

static void learning_free(learning *l) {
    free(l->values);
    free(l->class_of);
    free(l->fold);
    free(l->which);
    free(l->tags);
    free(l->memory);
    free(l->weights);
    free(l->scores);
}

static void fill_values(learning *l) {
    const learned_set *set = l->set;
    const size_t dim = (size_t)set->dim;
    for (int i = 0; i < set->count; i++) {
        const learned_photo *p = &set->photos[i];
        const uint16_t *from = halves_of(set, p);
        for (size_t d = 0; d < dim; d++) l->values[(size_t)i * dim + d] = bytes_half(from[d]);
        l->class_of[i] = p->count ? set->labels[p->first] : set->classes.count;
        for (int k = 0; set->several && k < p->count; k++)
            l->tags[(size_t)i * l->classes + (size_t)set->labels[p->first + k]] = 1;
    }
}

/* Assigns the photos of each class to the folds in turn. If a class has only one photo, this photo
 * gets the fold -1, so it is never held out. */
static void choose_folds(learning *l, int folds) {
    const int count = l->set->count;
    /* `which` has memory for classes + 1 numbers. */
    int *seen = l->which;
    memset(seen, 0, (l->classes + 1) * sizeof *seen);
    for (int i = 0; i < count; i++) l->fold[i] = seen[l->class_of[i]]++ % folds;
    for (int i = 0; i < count; i++)
        if (seen[l->class_of[i]] == 1) l->fold[i] = -1;
}

/* Returns the factor that scales the option c: 1 / the mean squared distance of the embeddings from
 * their mean. */
static double inverse_variance(const learning *l) {
    const size_t dim = (size_t)l->set->dim, count = (size_t)l->set->count;
    double all = 0;
    for (size_t d = 0; d < dim; d++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; i++) sum += (double)l->values[i * dim + d];
        sum /= (double)count;
        for (size_t i = 0; i < count; i++) {
            const double x = (double)l->values[i * dim + d] - sum;
            squares += x * x;
        }
        all += squares / (double)count;
    }
    return all > 0 ? 1 / all : 1;
}

static bool learning_open(learning *l, const learned_set *set, const learned_choice *choice,
                          learned_head *head, report *r) {
    const size_t count = (size_t)set->count, room = count + (size_t)set->classes.count + 1;
    memset(l, 0, sizeof *l);
    l->set = set;
    l->choice = choice;
    l->head = head;
    l->classes = (size_t)set->classes.count;
    l->row = (size_t)set->dim + 1;
    l->values = malloc(count * (size_t)set->dim * sizeof *l->values);
    l->class_of = malloc(room * sizeof *l->class_of);
    l->fold = malloc(room * sizeof *l->fold);
    l->which = malloc(room * sizeof *l->which);
    l->tags = set->several ? calloc(count, l->classes) : NULL;
    l->weights = malloc(l->classes * l->row * sizeof *l->weights);
    l->scores = malloc((l->classes + 1) * sizeof *l->scores);
    head->weights = calloc((l->classes + 1) * l->row, sizeof *head->weights);
    head->answers = calloc(count, sizeof *head->answers);
    head->held = calloc(count * l->classes, sizeof *head->held);
    if (!l->values || !l->class_of || !l->fold || !l->which || (set->several && !l->tags) ||
        !l->weights || !l->scores || !head->weights || !head->answers || !head->held)
        return report_no_memory(r);
    fill_values(l);
    l->c = (choice->c > 0 ? choice->c : LEARNED_C) * inverse_variance(l);
    head->num_classes = (int)l->classes;
    return true;
}

static float *held_row(const learning *l, int i) { return l->head->held + (size_t)i * l->classes; }

static const float *value_row(const learning *l, int i) {
    return l->values + (size_t)i * (size_t)l->set->dim;
}

/* Fits weights to the photos outside the fold (-1: all photos). Returns the number of steps. */
static int fit(learning *l, int fold, double *weights) {
    const learned_set *set = l->set;
    const vit_executor *executor = l->choice->executor;
    const vit_learn_options options = { l->c, 0, executor ? executor->parallel_for : NULL,
                                        executor ? executor->user : NULL };
    vit_learn_rows rows = {
        l->values,         set->several ? NULL : l->class_of, l->tags, l->which, 0, set->dim,
        set->classes.count
    };
    for (int i = 0; i < set->count; i++)
        if (fold < 0 || l->fold[i] != fold) l->which[rows.count++] = i;
    return vit_learn_fit(&rows, &options, l->memory, weights);
}

/* Computes the scores of all photos that are in a fold. The scores of a photo come from weights
 * that were fitted without its fold. */
static void hold_out(learning *l) {
    const learned_set *set = l->set;
    for (int fold = 0; fold < l->head->folds; fold++) {
        bool any = false;
        for (int i = 0; i < set->count; i++) any |= l->fold[i] == fold;
        if (!any) continue;
        (void)fit(l, fold, l->weights);
        for (int i = 0; i < set->count; i++) {
            if (l->fold[i] != fold) continue;
            vit_learn_scores(l->weights, set->classes.count, value_row(l, i), set->dim, l->scores);
            for (size_t c = 0; c < l->classes; c++) held_row(l, i)[c] = (float)l->scores[c];
        }
    }
}

/* Returns the cross-entropy of the held-out photos after their scores have been divided by the
 * temperature. The sum includes one imaginary photo of unknown class: its term is the mean over all
 * photos and classes. Without it, a few correct answers would seem to prove certainty. */
static double cross_entropy(learning *l, double temperature) {
    const learned_set *set = l->set;
    const bool several = l->tags != NULL;
    double sum = 0, any = 0;
    int count = 0;
    for (int i = 0; i < set->count; i++) {
        const float *held = held_row(l, i);
        double mean = 0, all;
        if (l->fold[i] < 0) continue;
        count++;
        for (size_t c = 0; c < l->classes; c++) {
            const double z = (double)held[c] / temperature;
            l->scores[c] = z;
            mean += z / (double)l->classes;
            if (!several) continue;
            all = vit_learn_log(1 + vit_learn_exp(z < 0 ? z : -z)) + (z > 0 ? z : 0);
            sum += all - (l->tags[(size_t)i * l->classes + c] ? z : 0);
            any += (all - z / 2) / (double)l->classes;
        }
        if (several) continue;
        all = vit_learn_softmax(l->scores, set->classes.count);
        sum += all - (double)held[l->class_of[i]] / temperature;
        any += all - mean;
    }
    return count ? sum + any / count : 0;
}

/* Returns the temperature between 1/64 and 64 that gives the lowest cross-entropy. Golden-section
 * search finds it, because the function has only one minimum. */
static double find_temperature(learning *l) {
    const double golden = 0.6180339887498949, ln2 = 0.6931471805599453;
    double low = -6 * ln2, high = 6 * ln2;
    double a = high - golden * (high - low), b = low + golden * (high - low);
    double at_a = cross_entropy(l, vit_learn_exp(a)), at_b = cross_entropy(l, vit_learn_exp(b));
    for (int i = 0; i < 24; i++) {
        if (at_a <= at_b) {
            high = b, b = a, at_b = at_a;
            a = high - golden * (high - low);
            at_a = cross_entropy(l, vit_learn_exp(a));
        } else {
            low = a, a = b, at_a = at_b;
            b = low + golden * (high - low);
            at_b = cross_entropy(l, vit_learn_exp(b));
        }
    }
    return vit_learn_exp((low + high) / 2);
}

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. Returns the threshold that the given share of the values reaches or exceeds. */
static double value_below(float *values, int count, double share) {
    const int below = (int)((1 - share) * count);
    qsort(values, (size_t)count, sizeof *values, compare_floats);
    return (double)values[below < count ? below : count - 1];
}

/* Divides the scores of the held-out photos by the temperature, turns them into probabilities, and
 * fills in the answer for each photo. */
static void rate_held(learning *l) {
    learned_head *head = l->head;
    for (int i = 0; i < l->set->count; i++) {
        learned_answer *answer = &head->answers[i];
        float *held = held_row(l, i);
        int best = 0;
        answer->best = -1;
        if (l->fold[i] < 0) continue;
        for (size_t c = 0; c < l->classes; c++) {
            if (held[c] > held[best]) best = (int)c;
            l->scores[c] = (double)held[c] / head->temperature;
        }
        answer->score = (float)l->scores[best];
        if (!l->set->several) (void)vit_learn_softmax(l->scores, (int)l->classes);
        for (size_t c = 0; c < l->classes; c++)
            held[c] = (float)(l->set->several ? 1 / (1 + vit_learn_exp(-l->scores[c]))
                                              : l->scores[c]);
        answer->best = best;
        answer->highest = held[best];
        answer->own = l->class_of[i] < (int)l->classes ? held[l->class_of[i]] : 0;
        head->expected += (double)answer->highest;
        head->held_out++;
        head->right += best == l->class_of[i];
    }
    if (head->held_out) head->expected /= head->held_out;
}

static bool has_none_already(const learned_set *set) {
    for (int c = 0; c < set->classes.count; c++)
        if (are_twins(set->classes.paths[c], LEARNED_NONE)) return true;
    return false;
}

/* Returns the likeness of photo i to all classes: the dot product of its embedding with the mean of
 * the classes' means. If `within` is true, the sums `s` include photo i, and its part is removed
 * from the mean. */
static double likeness(const learning *l, const vit_learn_sums *s, bool within, const double *mean,
                       int i) {
    const float *x = value_row(l, i);
    const size_t dim = (size_t)l->set->dim, c = (size_t)l->class_of[i];
    double all = 0, own = 0;
    for (size_t d = 0; d < dim; d++) {
        const double value = (double)x[d];
        all += value * mean[d];
        own += value * (value - s->sums[c * dim + d] / s->counts[c]);
    }
    return within ? all - own / ((s->counts[c] - 1) * (double)l->classes) : all;
}

static double deviation(const double *values, int count) {
    double mean = 0, squares = 0;
    for (int i = 0; i < count; i++) mean += values[i] / count;
    for (int i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean) / count;
    return sqrt(squares);
}

/* Adds the likeness of each held-out photo to its score. The likeness is first scaled so that its
 * standard deviation is half that of the scores. The head instead subtracts the likeness from the
 * score of LEARNED_NONE. The effect is the same, and the weights of the other classes stay
 * unchanged. Of the factors tried, one half is mostly far better than no likeness, and never much
 * worse (tools/bench/README.md). */
static void add_likeness(learning *l, const vit_learn_sums *s, bool within, double *values) {
    const size_t dim = (size_t)l->set->dim;
    double *mean = l->head->weights + l->classes * l->row, *scores = values + l->head->held_out;
    double vary, factor;
    int count = 0;
    for (size_t c = 0; c < l->classes; c++)
        for (size_t d = 0; d < dim; d++)
            mean[d] += s->sums[c * dim + d] / s->counts[c] / (double)l->classes;
    for (int i = 0; i < l->set->count; i++) {
        if (l->head->answers[i].best < 0) continue;
        scores[count] = (double)l->head->answers[i].score;
        values[count++] = likeness(l, s, within, mean, i);
    }
    vary = deviation(values, count);
    factor = vary > 0 ? 0.5 * deviation(scores, count) / vary : 0;
    for (int i = 0, k = 0; i < l->set->count; i++)
        if (l->head->answers[i].best >= 0)
            l->head->answers[i].score += (float)(factor * values[k++]);
    for (size_t d = 0; d < dim; d++) mean[d] *= -factor;
}

/* Adds the class LEARNED_NONE, for photos that are like none of the other classes. `s` contains the
 * sums of the embeddings of each class. If `within` is true, these sums include the held-out
 * photos. */
static bool add_none(learning *l, const vit_learn_sums *s, bool within, report *r) {
    learned_head *head = l->head;
    float *best = malloc(((size_t)head->held_out + 1) * sizeof *best);
    double *values = calloc(2 * (size_t)head->held_out + 1, sizeof *values);
    int count = 0;
    if (!best || !values) {
        free(best);
        free(values);
        return report_no_memory(r);
    }
    add_likeness(l, s, within, values);
    for (int i = 0; i < l->set->count; i++)
        if (head->answers[i].best >= 0) best[count++] = head->answers[i].score;
    head->none = value_below(best, count, l->choice->known);
    free(best);
    free(values);
    for (int i = 0; i < l->set->count; i++) {
        const learned_answer *answer = &head->answers[i];
        const bool refused = answer->best >= 0 && (double)answer->score < head->none;
        head->refused += refused;
        head->right_refused += refused && answer->best == l->class_of[i];
    }
    head->has_none = true;
    head->num_classes++;
    head->weights[l->classes * l->row + l->row - 1] = head->none;
    return true;
}

static bool add_none_to_all(learning *l, report *r) {
    const int dim = l->set->dim, classes = l->set->classes.count;
    void *memory = malloc(vit_learn_sums_size(dim, classes, 0));
    vit_learn_sums s = vit_learn_sums_at(memory, dim, classes, 0);
    bool good;
    if (!memory) return report_no_memory(r);
    vit_learn_clear(&s);
    for (int i = 0; i < l->set->count; i++) vit_learn_add(&s, value_row(l, i), l->class_of[i]);
    good = add_none(l, &s, true, r);
    free(memory);
    return good;
}

/* Learns a single class. The score of a photo is the dot product of its embedding with the mean of
 * the class, relative to the product of the mean with itself. For a held-out photo, the mean is
 * that of the other photos. The threshold accepts the share choice->known of the held-out
 * photos. */
static bool fit_alone(learning *l, report *r) {
    const size_t dim = (size_t)l->set->dim;
    const int count = l->set->count;
    learned_head *head = l->head;
    double *mean = l->weights, square = 0, least, middle, factor;
    float *passes = malloc((size_t)count * sizeof *passes);
    if (!passes) return report_no_memory(r);
    memset(mean, 0, dim * sizeof *mean);
    for (int i = 0; i < count; i++)
        for (size_t d = 0; d < dim; d++) mean[d] += (double)value_row(l, i)[d] / count;
    for (size_t d = 0; d < dim; d++) square += mean[d] * mean[d];
    for (int i = 0; i < count; i++) {
        const float *x = value_row(l, i);
        double own = 0, all = 0;
        for (size_t d = 0; d < dim; d++) {
            own += (double)x[d] * (double)x[d];
            all += (double)x[d] * mean[d];
        }
        passes[i] = (float)((all * count - own) / (count - 1) / square);
        head->answers[i] = (learned_answer){ 0, 1, 1, passes[i] };
    }
    least = value_below(passes, count, l->choice->known);
    middle = (double)passes[count / 2];
    factor = 4 / (middle - least > 1e-3 ? middle - least : 1e-3);
    for (size_t d = 0; d < dim; d++) head->weights[d] = factor * mean[d] / square;
    head->weights[dim] = -factor * least;
    for (int i = 0; i < count; i++) head->refused += (double)head->answers[i].score < least;
    head->alone = head->has_none = true;
    head->held_out = head->right = count;
    head->num_classes = 2;
    free(passes);
    return true;
}

static bool fit_classes(learning *l, report *r) {
    learned_head *head = l->head;
    const double work = (double)l->set->count * (double)l->set->dim * (double)l->classes;
    l->memory = malloc(vit_learn_size(l->set->dim, l->set->classes.count));
    if (!l->memory) return report_no_memory(r);
    head->folds = l->choice->folds ? l->choice->folds : work <= 2e8 ? LEARNED_FOLDS : 3;
    choose_folds(l, head->folds);
    head->steps = fit(l, -1, head->weights);
    hold_out(l);
    head->temperature = 1;
    for (int i = 0; i < l->set->count && head->temperature == 1; i++)
        if (l->fold[i] >= 0) head->temperature = find_temperature(l);
    for (size_t i = 0; i < l->classes * l->row; i++) head->weights[i] /= head->temperature;
    rate_held(l);
    return l->set->several || has_none_already(l->set) || l->choice->known >= 1 ||
           !head->held_out || add_none_to_all(l, r);
}

bool learned_fit(const learned_set *set, const learned_choice *choice, learned_head *head,
                 report *r) {
    learning l;
    bool good;
    memset(head, 0, sizeof *head);
    good = learning_open(&l, set, choice, head, r) &&
           (set->several || set->classes.count > 1 ? fit_classes(&l, r) : fit_alone(&l, r));
    learning_free(&l);
    return good;
}

/* === Learning in one pass over the rows === */

enum { BLOCK_ROWS = 32, BLOCK_PARTS = 16, SMALLEST_CLASS = 10 };

/* The state of learned_fit_sums. A pass over the rows of all files adds them to sums, from which
 * --ridge computes the weights. */
typedef struct adding {
    learned_set *set;
    const learned_choice *choice;
    embedding_index *files;
    int num_files;
    /* [rows]: 1 if the row is held out, otherwise 0. */
    unsigned char *held;
    vit_learn_sums sums;
    /* `block` has the rows that are added next: [BLOCK_ROWS, dim]. Its unused rows are zero. */
    double *block, *scratch;
    int filled;
} adding;

/* Adds x x^T of each row x of the block to the triangle of sums, but only to every BLOCK_PARTSth
 * row of the triangle, beginning with row `part`. Each number is the same sum, in the same order,
 * as in vit_learn_add. The number of threads and the size of the block therefore change no bit of
 * the result. */
static void add_part(void *arg, int part) {
    const adding *a = arg;
    const size_t dim = (size_t)a->sums.dim;
    for (size_t i = (size_t)part; i < dim; i += BLOCK_PARTS) {
        double *to = a->sums.squares + i * (i + 1) / 2;
        for (const double *x = a->block, *end = x + BLOCK_ROWS * dim; x < end; x += 4 * dim) {
            const double *x1 = x + dim, *x2 = x1 + dim, *x3 = x2 + dim;
            const double f = x[i], f1 = x1[i], f2 = x2[i], f3 = x3[i];
            size_t k = 0;
            for (; k + 4 <= i + 1; k += 4)
                for (size_t n = k; n < k + 4; n++)
                    to[n] = to[n] + f * x[n] + f1 * x1[n] + f2 * x2[n] + f3 * x3[n];
            for (; k <= i; k++) to[k] = to[k] + f * x[k] + f1 * x1[k] + f2 * x2[k] + f3 * x3[k];
        }
    }
}

static void run_parts(const learned_choice *choice, int count, void (*task)(void *arg, int index),
                      void *arg) {
    const vit_executor *executor = choice->executor;
    if (executor) executor->parallel_for(executor->user, count, task, arg);
    else
        for (int i = 0; i < count; i++) task(arg, i);
}

static void add_block(adding *a) {
    if (a->filled) run_parts(a->choice, BLOCK_PARTS, add_part, a);
    memset(a->block, 0, BLOCK_ROWS * (size_t)a->sums.dim * sizeof *a->block);
    a->filled = 0;
}

static bool add_to_sums(adding *a, const float *vector, int class_index, const char *path,
                        report *r) {
    const size_t dim = (size_t)a->sums.dim;
    double *to = a->block + (size_t)a->filled * dim;
    double *sum = a->sums.sums + (size_t)class_index * dim;
    for (size_t d = 0; d < dim; d++) {
        to[d] = (double)vector[d];
        sum[d] += to[d];
        if (fabs(to[d]) <= 65504) continue;
        (void)report_fail(
            r, "its embedding has the value %g at index %zu; expected -65504 to 65504", to[d], d);
        return report_file(r, path);
    }
    a->sums.counts[class_index]++;
    if (++a->filled == BLOCK_ROWS) add_block(a);
    return true;
}

/* Adds the held-out rows to the set of photos, and all other rows to the sums. */
static bool add_rows(adding *a, report *r) {
    size_t row = 0;
    for (int f = 0; f < a->num_files; f++) {
        const embedding_index *index = &a->files[f];
        const float *x = index->vectors.data;
        for (int64_t i = 0; i < index->vectors.dims[0]; i++, row++, x += a->set->dim) {
            const char *path = index->names[i];
            if (!(a->held[row] ? add_row(a->set, x, path, row, r)
                               : add_to_sums(a, x, a->set->labels[row], path, r)))
                return false;
        }
    }
    add_block(a);
    return true;
}

/* Chooses the rows to hold out: one in ten of each class, but at most LEARNED_HELD in all. */
static bool choose_held(adding *a, report *r) {
    learned_set *set = a->set;
    const size_t rows = set->num_labels;
    const size_t step = rows / LEARNED_HELD < SMALLEST_CLASS ? SMALLEST_CLASS
                                                             : rows / LEARNED_HELD + 1;
    int *seen = calloc((size_t)set->classes.count, sizeof *seen);
    bool any = false;
    a->held = calloc(rows, 1);
    if (!seen || !a->held) {
        free(seen);
        return report_no_memory(r);
    }
    for (size_t i = 0; i < rows; i++) {
        a->held[i] = (size_t)++seen[set->labels[i]] % step == 0;
        any |= a->held[i];
    }
    note_range(set, seen);
    set->added = (int)rows;
    free(seen);
    return any || report_fail(r,
                              "--ridge holds out photos of classes with at least %d photos, but no "
                              "class has so many: omit --ridge",
                              SMALLEST_CLASS);
}

static bool open_files(adding *a, const text_list *paths, const vit_model *model, report *r) {
    for (; a->num_files < paths->count; a->num_files++) {
        embedding_index *index = &a->files[a->num_files];
        if (!open_rows(index, paths->items[a->num_files], model, r)) return false;
        if (index->vectors.dims[0] > INT32_MAX - (int64_t)a->set->num_labels) {
            a->num_files++;
            return report_fail(r, "expected at most %d photos in all", INT32_MAX);
        }
        if (!add_row_labels(a->set, index, r)) {
            a->num_files++;
            return false;
        }
    }
    return true;
}

static void score_part(void *arg, int part) {
    learning *l = arg;
    double *scores = l->part_scores + (size_t)part * l->classes;
    for (int i = part; i < l->set->count; i += BLOCK_PARTS) {
        vit_learn_scores(l->weights, (int)l->classes, value_row(l, i), l->set->dim, scores);
        for (size_t c = 0; c < l->classes; c++) held_row(l, i)[c] = (float)scores[c];
    }
}

static int count_right(const learning *l) {
    int right = 0;
    for (int i = 0; i < l->set->count; i++) {
        const float *held = held_row(l, i);
        size_t best = 0;
        for (size_t c = 1; c < l->classes; c++)
            if (held[c] > held[best]) best = c;
        right += (int)best == l->class_of[i];
    }
    return right;
}

/* Computes the weights with the shrinkage `share`. Then subtracts their mean over all classes, like
 * vit_learn_fit. */
static bool fit_ridge(learning *l, const adding *a, double share) {
    if (!vit_learn_ridge(&a->sums, share, a->scratch, l->weights)) return false;
    for (size_t d = 0; d < l->row; d++) {
        double mean = 0;
        for (size_t c = 0; c < l->classes; c++) mean += l->weights[c * l->row + d];
        mean /= (double)l->classes;
        for (size_t c = 0; c < l->classes; c++) l->weights[c * l->row + d] -= mean;
    }
    return true;
}

/* Chooses the shrinkage that gives the right class to the largest number of held-out photos; the
 * first one, if several give the same number. */
static bool choose_share(learning *l, const adding *a, report *r) {
    static const double shares[] = { 0.1, 0.01, 0.001, 0.0001, 0.5 };
    double chosen = 0;
    int most = -1;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        int right;
        if (!fit_ridge(l, a, shares[i])) continue;
        run_parts(a->choice, BLOCK_PARTS, score_part, l);
        right = count_right(l);
        if (right <= most) continue;
        most = right;
        chosen = shares[i];
    }
    l->head->share = chosen;
    if (most < 0 || !fit_ridge(l, a, chosen))
        return report_fail(r, "the embeddings do not differ enough to learn from");
    run_parts(a->choice, BLOCK_PARTS, score_part, l);
    return true;
}

static bool fit_sums(adding *a, learned_head *head, report *r) {
    learning l;
    bool good = learning_open(&l, a->set, a->choice, head, r);
    l.part_scores = malloc(BLOCK_PARTS * l.classes * sizeof *l.part_scores);
    good = good && (l.part_scores || report_no_memory(r)) && choose_share(&l, a, r);
    if (good) {
        memset(l.fold, 0, (size_t)a->set->count * sizeof *l.fold);
        head->folds = 1;
        head->temperature = find_temperature(&l);
        rate_held(&l);
        good = has_none_already(a->set) || a->choice->known >= 1 ||
               add_none(&l, &a->sums, false, r);
    }
    for (size_t i = 0; good && i < l.classes * l.row; i++)
        head->weights[i] = l.weights[i] / head->temperature;
    free(l.part_scores);
    learning_free(&l);
    return good;
}

static bool adding_start(adding *a, const text_list *paths, const vit_model *model, report *r) {
    learned_set *set = a->set;
    const int dim = vit_embedding_dim(model);
    void *memory;
    a->files = calloc((size_t)paths->count, sizeof *a->files);
    if (!a->files) return report_no_memory(r);
    if (!set_dim(set, dim, r) || !open_files(a, paths, model, r) ||
        !check_twins(&set->classes, r) || !sort_classes(set, r) || !choose_held(a, r))
        return false;
    if (set->classes.count < 2)
        return report_fail(
            r, "--ridge needs photos of at least two classes; a single class can be learnt "
               "without --ridge");
    memory = malloc(vit_learn_sums_size(dim, set->classes.count, 1));
    a->scratch = malloc((size_t)dim * ((size_t)dim + 1) / 2 * sizeof *a->scratch);
    a->block = calloc(BLOCK_ROWS * (size_t)dim, sizeof *a->block);
    a->sums = vit_learn_sums_at(memory, dim, set->classes.count, 1);
    if (!memory || !a->scratch || !a->block) return report_no_memory(r);
    vit_learn_clear(&a->sums);
    return true;
}

bool learned_fit_sums(learned_set *set, const vit_model *model, const text_list *paths,
                      const learned_choice *choice, learned_head *head, report *r) {
    adding a;
    bool good;
    memset(&a, 0, sizeof a);
    memset(head, 0, sizeof *head);
    a.set = set;
    a.choice = choice;
    good = adding_start(&a, paths, model, r) && add_rows(&a, r) && fit_sums(&a, head, r);
    for (int f = 0; f < a.num_files; f++) embedding_close(&a.files[f]);
    free(a.files);
    free(a.held);
    free(a.sums.counts);
    free(a.scratch);
    free(a.block);
    return good;
}

void learned_head_free(learned_head *head) {
    free(head->weights);
    free(head->answers);
    free(head->held);
    memset(head, 0, sizeof *head);
}

/* === Photos with doubtful classes === */

typedef struct doubt {
    float ratio;
    int photo;
} doubt;

static int compare_doubts(const void *a, const void *b) {
    const doubt *x = a, *y = b;
    if (x->ratio != y->ratio) return x->ratio < y->ratio ? -1 : 1;
    return (x->photo > y->photo) - (x->photo < y->photo);
}

static int own_class(const learned_set *set, int i) {
    const learned_photo *p = &set->photos[i];
    return p->count == 1 ? set->labels[p->first] : -1;
}

int learned_doubts(const learned_set *set, const learned_head *head, int *list) {
    const size_t classes = (size_t)set->classes.count;
    double *sums = calloc(2 * classes + 1, sizeof *sums);
    doubt *doubts = malloc(((size_t)set->count + 1) * sizeof *doubts);
    int found = 0;
    for (int i = 0; sums && doubts && !head->alone && i < set->count; i++) {
        const int c = own_class(set, i);
        if (c < 0 || head->answers[i].best < 0) continue;
        sums[c] += (double)head->answers[i].own;
        sums[classes + (size_t)c]++;
    }
    for (int i = 0; sums && doubts && !head->alone && i < set->count; i++) {
        const learned_answer *a = &head->answers[i];
        const int c = own_class(set, i);
        if (c < 0 || a->best < 0 || a->best == c) continue;
        if ((double)a->highest * sums[classes + (size_t)a->best] < sums[a->best]) continue;
        doubts[found++] = (doubt){ a->own / a->highest, i };
    }
    if (found) qsort(doubts, (size_t)found, sizeof *doubts, compare_doubts);
    for (int i = 0; i < found; i++) list[i] = doubts[i].photo;
    free(sums);
    free(doubts);
    return found;
}
