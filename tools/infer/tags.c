#include "infer/tags.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"
#include "base/text.h"
#include "infer/classes.h"

/* === Lists of tags === */

/* A tag of a photo. `name` points into the text of the file. */
typedef struct tag {
    const char *name;
    /* `photo` is the number of the photo. `index` is the number of the class, or negative if the
     * tag is not a class. */
    int photo, index;
} tag;

/* The state of reading a file of tags. */
typedef struct reader {
    const tag_lists_choice *choice;
    /* The text of the file. Reading the lines replaces separators by NULs. */
    char *text;
    tag_lists *lists;
    tag *tags;
    int count, capacity;
    /* The possible separators of tags within one field. The first one in this list that occurs in
     * the field separates its tags. */
    const char *separators;
    report *r;
} reader;

/* === Lines === */

static bool add_tag(reader *d, char *name) {
    size_t length;
    name += strspn(name, " \t");
    length = strlen(name);
    while (length && (name[length - 1] == ' ' || name[length - 1] == '\t')) name[--length] = '\0';
    if (!length) return true;
    if (d->count == d->capacity) {
        const int capacity = d->capacity < 1 << 29 ? d->capacity * 2 + 256 : 0;
        tag *larger = capacity ? realloc(d->tags, (size_t)capacity * sizeof *larger) : NULL;
        if (!larger) return report_no_memory(d->r);
        d->tags = larger;
        d->capacity = capacity;
    }
    d->tags[d->count++] = (tag){ name, d->lists->photos.count - 1, CLASS_NONE };
    return true;
}

/* Adds all tags in one field of a line. */
static bool add_field(reader *d, char *field) {
    const char *separator = d->separators;
    while (*separator && !strchr(field, *separator)) separator++;
    while (field) {
        char *end = *separator ? strchr(field, *separator) : NULL;
        if (end) *end++ = '\0';
        if (!add_tag(d, field)) return false;
        field = end;
    }
    return true;
}

static bool add_photo(reader *d, const char *name) {
    const char *folder = d->choice->folder;
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    bool good;
    if (!path) return report_no_memory(d->r);
    snprintf(path, size, "%s%s%s", folder, paths_slash(folder), name);
    good = photos_append(&d->lists->photos, name[0] == '/' ? name : path, d->r);
    free(path);
    return good;
}

static bool read_fields(reader *d, int number, char *line) {
    const char separator = strchr(line, '\t') ? '\t' : ',';
    const char *path = text_take_field(&line, separator);
    char *field;
    bool alone;
    if (!path || !*path || !line)
        return report_fail(d->r, "line %d: expected 'PATH,TAGS' or 'PATH<tab>TAGS'", number);
    if (number == 1 && (!strcmp(line, "tags") || !strcmp(line, "labels"))) return true;
    if (!add_photo(d, path)) return false;
    field = text_take_field(&line, separator);
    alone = !line;
    while (field) {
        if (!(alone ? add_field : add_tag)(d, field)) return false;
        if (!line) return true;
        field = text_take_field(&line, separator);
    }
    return report_fail(d->r, "line %d: a quote has no end", number);
}

static bool read_lines(reader *d, size_t size) {
    char *line = d->text;
    if (memchr(line, '\0', size)) return report_fail(d->r, "expected text, found a NUL byte");
    if (!strncmp(line, "\xEF\xBB\xBF", 3)) line += 3;
    for (int number = 1; line; number++) {
        char *next = strchr(line, '\n');
        size_t length;
        if (next) *next++ = '\0';
        length = strlen(line);
        if (length && line[length - 1] == '\r') line[length - 1] = '\0';
        if (line[0] && line[0] != '#' && !read_fields(d, number, line)) return false;
        line = next;
    }
    return d->lists->photos.count > 0 ||
           report_fail(d->r, "expected lines 'PATH,TAGS', found none");
}

/* === Photos === */

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool check_twice(const photo_list *photos, report *r) {
    const size_t count = (size_t)photos->count;
    char **sorted = malloc(count * sizeof *sorted);
    bool good = true;
    if (!sorted) return report_no_memory(r);
    memcpy(sorted, photos->paths, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_paths);
    for (size_t i = 1; good && i < count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            good = report_fail(
                r, "%.400s is named twice; expected one line with all tags of the photo",
                sorted[i]);
    free(sorted);
    return good;
}

/* Keeps `limit` photos with their tags, in the same order, and drops the others. The photos are
 * chosen as in labelled_find. */
static void thin_out(reader *d) {
    photo_list *photos = &d->lists->photos;
    const int all = photos->count, limit = d->choice->limit;
    int kept = 0, tags = 0, at = 0;
    if (limit <= 0 || limit >= all) return;
    for (int i = 0; i < all; i++) {
        const bool keeps = kept < limit && i == (int)((int64_t)kept * all / limit);
        for (; at < d->count && d->tags[at].photo == i; at++) {
            if (!keeps) continue;
            d->tags[tags] = d->tags[at];
            d->tags[tags++].photo = kept;
        }
        if (keeps) photos->paths[kept++] = photos->paths[i];
        else free(photos->paths[i]);
    }
    photos->count = kept;
    d->count = tags;
}

/* === Classes === */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const tag *)a)->name, ((const tag *)b)->name);
}

static int compare_places(const void *a, const void *b) {
    const tag *x = a, *y = b;
    if (x->photo != y->photo) return x->photo < y->photo ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Makes a class for each different name. */
static bool make_classes(reader *d) {
    photo_list *names = &d->lists->names;
    if (d->count) qsort(d->tags, (size_t)d->count, sizeof *d->tags, compare_names);
    for (int i = 0; i < d->count; i++) {
        const bool again = i > 0 && strcmp(d->tags[i - 1].name, d->tags[i].name) == 0;
        if (!again && !photos_append(names, d->tags[i].name, d->r)) return false;
        d->tags[i].index = names->count - 1;
    }
    return names->count > 0 ||
           report_fail(d->r, "the list names no class: expected lines 'PATH,CLASS'");
}

/* Finds the class of each tag. Each name is looked up only once, because a model may have ten
 * thousand classes. */
static bool find_classes(reader *d, const vit_model *model) {
    enum { SHOWN = 10 };
    tag_lists *lists = d->lists;
    if (d->count) qsort(d->tags, (size_t)d->count, sizeof *d->tags, compare_names);
    for (int i = 0; i < d->count; i++) {
        tag *t = &d->tags[i];
        const bool again = i > 0 && strcmp(t[-1].name, t->name) == 0;
        t->index = again ? t[-1].index : class_find(model, t->name);
        lists->dropped += t->index < 0;
        if (again || t->index >= 0 || ++lists->unknown > SHOWN) continue;
        report_error(d->choice->program, d->choice->path, "'%.200s' %s and is left out", t->name,
                     t->index == CLASS_AMBIGUOUS ? "matches several of the model's classes"
                                                 : "is not a class of the model");
    }
    if (lists->unknown > SHOWN)
        report_error(d->choice->program, NULL, "and %d more tags like these",
                     lists->unknown - SHOWN);
    return lists->dropped < d->count || report_fail(d->r, "no tag is a class of the model");
}

static bool sort_classes(reader *d) {
    tag_lists *lists = d->lists;
    const int photos = lists->photos.count;
    int count = 0, at = 0;
    lists->first = malloc(((size_t)photos + 1) * sizeof *lists->first);
    lists->classes = malloc(((size_t)d->count + 1) * sizeof *lists->classes);
    if (!lists->first || !lists->classes) return report_no_memory(d->r);
    if (d->count) qsort(d->tags, (size_t)d->count, sizeof *d->tags, compare_places);
    for (int i = 0; i < photos; i++) {
        lists->first[i] = count;
        for (; at < d->count && d->tags[at].photo == i; at++) {
            const int index = d->tags[at].index;
            const bool again = count > lists->first[i] && lists->classes[count - 1] == index;
            if (index >= 0 && !again) lists->classes[count++] = index;
        }
    }
    lists->first[photos] = count;
    return true;
}

/* === Reading a whole list === */

static bool read_text(reader *d, size_t *size) {
    unsigned char *data;
    const bool good = source_read_all(d->choice->path, SIZE_MAX / 4, &data, size, d->r);
    d->text = (char *)data;
    return good;
}

bool tag_lists_read(tag_lists *lists, const tag_lists_choice *choice, const vit_model *model,
                    report *r) {
    reader d;
    size_t size;
    bool good;
    memset(&d, 0, sizeof d);
    memset(lists, 0, sizeof *lists);
    d.choice = choice;
    d.lists = lists;
    d.r = r;
    d.separators = model ? ";|, " : ";|,";
    good = read_text(&d, &size) && read_lines(&d, size) && check_twice(&lists->photos, r);
    if (good) thin_out(&d);
    good = good && (model ? find_classes(&d, model) : make_classes(&d)) && sort_classes(&d);
    free(d.tags);
    free(d.text);
    if (good) return true;
    tag_lists_free(lists);
    return report_file(r, choice->path);
}

void tag_lists_free(tag_lists *lists) {
    photos_free(&lists->photos);
    photos_free(&lists->names);
    free(lists->first);
    free(lists->classes);
    memset(lists, 0, sizeof *lists);
}

/* === Photos and their tags === */

float *tagged_scores(const tagged_results *t, int index) {
    return t->scores + (size_t)index * (size_t)t->num_classes;
}

/* The argument of take_scores. */
typedef struct run {
    tagged_results *results;
    const vit_model *model;
} run;

/* Stores the scores of one photo. This function is an infer_take. */
static bool take_scores(void *user, infer_result *result, report *r) {
    const run *u = user;
    tagged_results *t = u->results;
    (void)r;
    t->read[result->index] = !result->error;
    if (result->error) return true;
    vit_scores(u->model, result->logits);
    memcpy(tagged_scores(t, (int)result->index), result->logits,
           (size_t)t->num_classes * sizeof *t->scores);
    return true;
}

static bool score_all(const infer_settings *given, const tag_lists *lists, tagged_results *t,
                      report *r) {
    infer_settings settings = *given;
    run u = { t, given->model };
    photo_paths paths;
    photo_source from;
    memset(&paths, 0, sizeof paths);
    paths.list = lists->photos;
    from = photo_paths_source(&paths);
    settings.outputs = INFER_LOGITS;
    settings.take = take_scores;
    settings.user = &u;
    return infer_run(&settings, &from, &t->photos, r);
}

/* Collects the scores of class c for all photos that could be read, and returns their number. Call
 * it for every class, from 0 on, with at[i] = lists->first[i] at first: each call moves at[i] past
 * class c in the sorted classes of photo i. */
static int take_column(const tagged_results *t, const tag_lists *lists, int c, int *at,
                       precision_score *column) {
    int count = 0;
    for (int i = 0; i < lists->photos.count; i++) {
        const float score = tagged_scores(t, i)[c];
        const bool right = at[i] < lists->first[i + 1] && lists->classes[at[i]] == c;
        at[i] += right;
        if (t->read[i]) column[count++] = (precision_score){ score, right };
    }
    return count;
}

static void rate_class(tagged_class *class, precision_score *column, int count, double above) {
    precision_counts *counts = &class->counts;
    for (int i = 0; i < count; i++) {
        const bool taken = (double)column[i].score >= above;
        class->photos += column[i].right;
        counts->found += taken && column[i].right;
        counts->wrong += taken && !column[i].right;
        counts->missed += !taken && column[i].right;
    }
    class->average_precision = precision_average(column, count);
    class->f1 = class->photos ? precision_f1(counts) : (double)NAN;
}

static void add_class(tagged_results *t, const tagged_class *class) {
    t->all.found += class->counts.found;
    t->all.wrong += class->counts.wrong;
    t->all.missed += class->counts.missed;
    if (!class->photos) return;
    t->occurring++;
    t->mean_average_precision += class->average_precision;
    t->mean_f1 += class->f1;
}

static bool rate_all(tagged_results *t, const tag_lists *lists, double above, report *r) {
    const size_t photos = (size_t)lists->photos.count;
    precision_score *column = malloc(photos * sizeof *column);
    int *at = malloc(photos * sizeof *at);
    const bool good = column && at;
    if (good) memcpy(at, lists->first, photos * sizeof *at);
    for (int c = 0; good && c < t->num_classes; c++) {
        const int count = take_column(t, lists, c, at, column);
        rate_class(&t->classes[c], column, count, above);
        add_class(t, &t->classes[c]);
    }
    if (t->occurring) t->mean_average_precision /= t->occurring;
    if (t->occurring) t->mean_f1 /= t->occurring;
    free(column);
    free(at);
    return good || report_no_memory(r);
}

bool tagged_evaluate(const infer_settings *settings, const tag_lists *lists, double above,
                     tagged_results *t, report *r) {
    const size_t classes = (size_t)settings->model->config.num_classes;
    const size_t photos = (size_t)lists->photos.count;
    memset(t, 0, sizeof *t);
    t->num_classes = (int)classes;
    t->classes = calloc(classes, sizeof *t->classes);
    t->read = calloc(photos, sizeof *t->read);
    t->scores = malloc(photos * classes * sizeof *t->scores);
    if (!t->classes || !t->read || !t->scores) return report_no_memory(r);
    return score_all(settings, lists, t, r) && rate_all(t, lists, above, r);
}

void tagged_free(tagged_results *t) {
    free(t->classes);
    free(t->read);
    free(t->scores);
    memset(t, 0, sizeof *t);
}
