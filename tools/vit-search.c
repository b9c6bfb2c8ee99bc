/* vit-search.c - searches the photos that vit-embed has embedded for those that are most similar to
 * a photo.
 *
 *     vit-embed photos/ -o photos.npy
 *     vit-search photos.npy cat.jpg                 the ten nearest
 *     vit-search photos.npy --duplicates 0.97       groups of near-duplicates
 *     vit-search OUT cat.jpg                        the nearest in all indexes of a folder
 *     vit-search -m clip.vit --classes text.npy --class-names words.txt cat.jpg
 *
 * The search is exact, because the program compares every vector with the query.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/source.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "infer/classes.h"
#include "infer/embedding.h"
#include "infer/infer.h"
#include "infer/words.h"
#include "numbers/nearest.h"
#include "os/os.h"
#include "picture/picture.h"
#include "shards/shard_writer.h"
#include "vit.h"

#define PROGRAM cli_name()

/* The command line. */
typedef struct choices {
    embedding_request asked;
    const char *names, *index, *sheet;
    text_list vectors, lists, words, minus;
    bool null;
    zero_shot_options zero_shot;
    int k, num_threads, batch;
    vit_isa isa;
    double duplicates; /* least cosine of two duplicates; 2 if duplicates are not requested */
    bool json, csv, quiet, int8;
    photo_options photos;
} choices;

/* The state of one run of the program. The struct is zeroed, then filled in step by step. */
typedef struct job {
    const choices *chosen;
    text_list photos;
    embedding_index index; /* the index that is searched */
    shard_index folder;    /* the shards of a folder, which replace `index` */
    nearest_part part;     /* vectors of `index` */
    nearest_set set;       /* all rows of `index` or of `folder` */
    int64_t rescored;
    zero_shot zero_shot;    /* the classes of --classes, which replace `index` and `folder` */
    photo_decoder *decoder; /* decoder of the query's photos, and of found photos for --sheet */
    vit_model model;
    char *path; /* path of the model */
    embedding_choice choice;
    vit_threads *threads;
    vit_executor executor;
    double *query; /* [dim]: sum of the query's vectors, each scaled to length 1 */
    bool several;  /* true unless there is exactly one photo */
    int num_queries;
    int unreadable;
    double search_ms;
    float *scores; /* [number of classes] */
    json_writer json;
} job;

static void job_free(job *j) {
    photo_decoder_close(j->decoder);
    embedding_close(&j->index);
    shard_index_close(&j->folder);
    zero_shot_close(&j->zero_shot);
    vit_model_close(&j->model);
    vit_threads_destroy(j->threads);
    text_list_free(&j->photos);
    free(j->path);
    free(j->query);
    free(j->scores);
}

/* ------------------------------------------------------------------------- */
/* The photos and vectors of the query                                       */
/* ------------------------------------------------------------------------- */

/* Returns the vectors with which the query is compared: those of the texts of --classes, those of
 * all indexes in a folder, or those of one index. */
static const embedding_index *compared(const job *j) {
    if (j->chosen->zero_shot.classes) return &j->zero_shot.texts;
    return j->folder.set.count ? &j->folder.about : &j->index;
}

static bool has_photos(const job *j) { return j->photos.count + j->chosen->lists.count > 0; }

static bool open_model(job *j, report *r) {
    const choices *c = j->chosen;
    if (j->path) return true; /* --classes or --words has opened the model */
    if (!c->asked.model && !compared(j)->model_path) {
        return report_fail(r,
                           "the model that made %.200s is unknown, because there %s; give the "
                           "model with -m MODEL.vit",
                           c->index,
                           j->folder.set.count ? "are no .json files in it"
                                               : "is no .json file beside it");
    }
    return embedding_open_model(&c->asked, compared(j), &j->model, &j->path, &j->choice, r);
}

static void add_query(job *j, const float *unit) {
    for (int i = 0; i < j->set.dim; i++) j->query[i] += (double)unit[i];
    j->num_queries++;
}

/* An infer_take for a photo of the query. */
static bool take_query(void *user, infer_result *result, report *r) {
    job *j = user;
    (void)r;
    if (!result->error) add_query(j, embedding_of(&j->choice, &j->model, result));
    return true;
}

/* Runs all photos through the model. */
static bool infer_photos(job *j, infer_take *take, report *r) {
    const choices *c = j->chosen;
    infer_settings settings;
    infer_counts counts;
    photo_paths paths;
    photo_source from;
    bool good;
    memset(&settings, 0, sizeof settings);
    if (!open_model(j, r) ||
        !photo_paths_open(&paths, &j->photos, &c->lists, c->null ? '\0' : '\n', r))
        return false;
    from = photo_paths_source(&paths);
    j->several = from.count != 1;
    settings.model = &j->model;
    settings.program = PROGRAM;
    settings.num_threads = c->num_threads;
    settings.batch = c->batch;
    settings.isa = c->isa;
    settings.progress = !c->quiet;
    settings.decoder = j->decoder;
    settings.take = take;
    settings.user = j;
    embedding_ask(&j->choice, &settings);
    good = infer_run(&settings, &from, &counts, r);
    j->unreadable = (int)counts.unreadable;
    photo_paths_close(&paths);
    return good;
}

/* Reads vectors [dim] or [n, dim] from a file of vit-embed or a text model. */
static bool add_vectors(job *j, const char *path, report *r) {
    npy_array array;
    if (!npy_read(path, &array, r)) return false;
    if (array.ndim < 1 || array.ndim > 2 || array.dims[array.ndim - 1] != j->set.dim ||
        array.count == 0) {
        (void)report_fail(r,
                          "expected an array [%d] or [n, %d], found %d dimensions, the last of "
                          "%lld numbers, and %zu numbers in all",
                          j->set.dim, j->set.dim, array.ndim,
                          (long long)(array.ndim ? array.dims[array.ndim - 1] : 0), array.count);
        npy_free(&array);
        return report_file(r, path);
    }
    for (size_t i = 0; i < array.count; i += (size_t)j->set.dim) {
        vit_normalize(array.data + i, j->set.dim);
        add_query(j, array.data + i);
    }
    npy_free(&array);
    return true;
}

/* Adds the vectors of --words and subtracts those of --minus. */
static bool add_words(job *j, report *r) {
    const choices *c = j->chosen;
    const int count = c->words.count;
    float *unit = malloc((size_t)j->set.dim * sizeof *unit);
    words w = { 0 };
    bool good = unit || report_no_memory(r);
    good = good && open_model(j, r) &&
           (words_open(&w, &j->model, c->isa, PROGRAM, r) || report_file(r, j->path)) &&
           (w.dim == j->set.dim ||
            report_fail(r, "the model's texts have vectors of %d values; those of %.200s have %d",
                        w.dim, c->index, j->set.dim));
    for (int i = 0; good && i < count + c->minus.count; i++) {
        const char *text = i < count ? c->words.items[i] : c->minus.items[i - count];
        good = words_embed(&w, text, unit, r);
        for (int d = 0; good && i >= count && d < w.dim; d++) unit[d] = -unit[d];
        if (good) add_query(j, unit);
    }
    words_close(&w);
    free(unit);
    return good;
}

/* ------------------------------------------------------------------------- */
/* The nearest                                                               */
/* ------------------------------------------------------------------------- */

typedef struct found_photo {
    nearest_hit hit;
    const indexed_row *row; /* metadata of the row if a folder is searched; otherwise NULL */
    const char *name;
} found_photo;

/* Finds the names of the hits. If a folder is searched, rows [count] receives the metadata of the
 * hits. Otherwise, `rows` is NULL. */
static bool name_hits(const job *j, const nearest_hit *hits, int count, indexed_row *rows,
                      found_photo *found, report *r) {
    for (int i = 0; rows && i < count; i++) rows[i].row = hits[i].row;
    if (rows && !shard_index_rows(&j->folder, rows, count, r)) return false;
    for (int i = 0; i < count; i++) {
        found[i].hit = hits[i];
        found[i].row = rows ? &rows[i] : NULL;
        found[i].name = rows ? rows[i].name : j->index.names[hits[i].row];
    }
    return true;
}

static void put_row(json_writer *w, const indexed_row *row) {
    json_put_text(w, "shard", row->shard);
    if (row->key) json_put_text(w, "key", row->key);
    if (row->caption) json_put_text(w, "caption", row->caption);
    if (row->label) json_put_text(w, "label", row->label);
    if (row->url) json_put_text(w, "url", row->url);
}

static void print_hits_csv(const found_photo *found, int count) {
    const bool shards = count > 0 && found[0].row;
    printf("cosine,row,name%s\n", shards ? ",shard" : "");
    for (int i = 0; i < count; i++) {
        const indexed_row *row = found[i].row;
        printf("%.9g,%lld,", (double)found[i].hit.cosine,
               (long long)(row ? row->row : found[i].hit.row));
        cli_put_field(stdout, found[i].name);
        if (row) putchar(',');
        if (row) cli_put_field(stdout, row->shard);
        putchar('\n');
    }
}

static void print_hits(job *j, const found_photo *found, int count) {
    json_writer *w = &j->json;
    if (j->chosen->csv) {
        print_hits_csv(found, count);
        return;
    }
    for (int i = 0; !j->chosen->json && i < count; i++) {
        text_print(stdout, "%.4f  %s\n", (double)found[i].hit.cosine, found[i].name);
    }
    if (!j->chosen->json) return;
    json_put_begin(w, "nearest", '[');
    for (int i = 0; i < count; i++) {
        const indexed_row *row = found[i].row;
        json_put_begin(w, NULL, '{');
        json_put_integer(w, "row", row ? row->row : found[i].hit.row);
        json_put_text(w, "name", found[i].name);
        if (row) put_row(w, row);
        json_put_number(w, "cosine", (double)found[i].hit.cosine, 9);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

enum { SHEET_SIDE = 160 };

/* Adds the photos of the query to the sheet, and then the hits with their cosines. */
static bool add_cells(const job *j, const found_photo *found, int count, sheet *s, report *r) {
    char caption[256];
    bool good = true;
    for (int i = 0; good && i < j->photos.count; i++) {
        const char *name = j->photos.items[i];
        if (source_is_folder(name)) continue;
        snprintf(caption, sizeof caption, "asked\n%s", paths_file_name(name));
        good = sheet_add_photo(s, name, j->decoder, SHEET_SIDE, caption, r);
    }
    for (int i = 0; good && i < count; i++) {
        snprintf(caption, sizeof caption, "%.4f\n%s", (double)found[i].hit.cosine,
                 paths_file_name(found[i].name));
        good = sheet_add_photo(s, found[i].name, j->decoder, SHEET_SIDE, caption, r);
    }
    return good;
}

static bool draw_sheet(const job *j, const found_photo *found, int count, report *r) {
    sheet s = { NULL, 0, 0 };
    picture drawn = { NULL, 0, 0 };
    bool good = add_cells(j, found, count, &s, r) && sheet_draw(&s, 0, &drawn, r) &&
                picture_save(&drawn, j->chosen->sheet, r);
    picture_free(&drawn);
    sheet_free(&s);
    return good;
}

/* Reports photos that no longer exist. Reports nothing if no name is an existing file, because the
 * names may be relative to another folder, or may not be paths. */
static void report_gone(const job *j, const found_photo *found, int count) {
    const char *first = NULL;
    int gone = 0;
    for (int i = 0; i < count; i++) {
        if (source_exists(found[i].name)) continue;
        if (!gone++) first = found[i].name;
    }
    if (j->chosen->quiet || gone == 0 || gone == count) return;
    text_print(stderr,
               "%s: %d of the %d photos found no longer exist, such as %s; run vit-embed again to "
               "update the index\n",
               PROGRAM, gone, count, first);
}

static bool print_found(job *j, const nearest_hit *hits, int count, report *r) {
    const size_t size = (size_t)count + 1;
    const bool shards = j->folder.set.count > 0;
    found_photo *found = calloc(size, sizeof *found);
    indexed_row *rows = shards ? calloc(size, sizeof *rows) : NULL;
    bool good = found && (rows || !shards) ? name_hits(j, hits, count, rows, found, r)
                                           : report_no_memory(r);
    if (good) print_hits(j, found, count);
    if (good) report_gone(j, found, count);
    good = good && (!j->chosen->sheet || draw_sheet(j, found, count, r));
    for (int i = 0; rows && i < count; i++) indexed_row_free(&rows[i]);
    free(rows);
    free(found);
    return good;
}

static bool find_nearest(job *j, report *r) {
    const int64_t rows = compared(j)->vectors.dims[0];
    const int k = rows < j->chosen->k ? (int)rows : j->chosen->k;
    nearest_hit *hits = malloc((size_t)k * sizeof *hits + 1);
    float *query = malloc((size_t)j->set.dim * sizeof *query);
    const double start = cli_now_ms();
    int count = -1;
    bool good;
    if (hits && query) {
        for (int i = 0; i < j->set.dim; i++) query[i] = (float)(j->query[i] / j->num_queries);
        count = nearest_find_in(&j->set, query, k, &j->executor, hits, &j->rescored);
    }
    j->search_ms = cli_now_ms() - start;
    good = count >= 0 ? print_found(j, hits, count, r) : report_no_memory(r);
    free(hits);
    free(query);
    return good;
}

static bool search(job *j, report *r) {
    const choices *c = j->chosen;
    j->query = calloc((size_t)j->set.dim, sizeof *j->query);
    if (!j->query) return report_no_memory(r);
    for (int i = 0; i < c->vectors.count; i++) {
        if (!add_vectors(j, c->vectors.items[i], r)) return false;
    }
    if (c->words.count + c->minus.count && !add_words(j, r)) return false;
    if (has_photos(j) && !infer_photos(j, take_query, r)) return false;
    if (!j->num_queries) return report_fail(r, "none of the photos to search for could be read");
    return find_nearest(j, r);
}

/* ------------------------------------------------------------------------- */
/* Near-duplicates                                                           */
/* ------------------------------------------------------------------------- */

static void print_member(job *j, int64_t group, const found_photo *found) {
    const indexed_row *row = found->row;
    const int64_t number = row ? row->row : found->hit.row;
    const double cosine = (double)found->hit.cosine;
    json_writer *w = &j->json;
    if (j->chosen->csv) {
        printf("%lld,%.9g,%lld,", (long long)group, cosine, (long long)number);
        cli_put_field(stdout, found->name);
        if (row) putchar(',');
        if (row) cli_put_field(stdout, row->shard);
        putchar('\n');
        return;
    }
    if (!j->chosen->json) {
        text_print(stdout, "%.4f  %s\n", cosine, found->name);
        return;
    }
    json_put_begin(w, NULL, '{');
    json_put_integer(w, "row", number);
    json_put_text(w, "name", found->name);
    if (row) put_row(w, row);
    json_put_number(w, "cosine", cosine, 9);
    json_put_end(w, '}');
}

/* Makes a chain of the rows in each group. group[i] receives the number of the row after row i in
 * its chain, or 0 at the end. `last` must be zeroed. If row i is the first row of a chain, last[i]
 * receives the last row of this chain. */
static void chain(int64_t *group, int64_t *last, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = group[i];
        group[i] = 0;
        if (first != i) group[last[first]] = i;
        last[first] = i;
    }
}

/* Lists the members of all groups of several rows, one group after the other. Each group begins
 * with its first row. If `hits` is NULL, only counts the members. */
static int list_members(const int64_t *group, const int64_t *last, int64_t rows,
                        nearest_hit *hits) {
    int64_t row;
    int count = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (last[i] <= i) continue; /* the row is alone, or is not the first of its group */
        row = i;
        do {
            if (hits) hits[count].row = row;
            count++;
            row = group[row];
        } while (row);
    }
    return count;
}

/* Computes the cosine of each member with the first row of its group. */
static bool compare_members(const job *j, const int64_t *last, nearest_hit *hits, int count) {
    const size_t dim = (size_t)j->set.dim;
    float *room = malloc(2 * dim * sizeof *room);
    const float *first = NULL;
    for (int i = 0; room && i < count; i++) {
        const bool begins = last[hits[i].row] > hits[i].row;
        if (begins) first = nearest_row(&j->set, hits[i].row, room);
        hits[i].cosine = vit_cosine(first, nearest_row(&j->set, hits[i].row, room + dim), (int)dim);
    }
    free(room);
    return room != NULL;
}

static void print_groups(job *j, const int64_t *last, const found_photo *found, int count) {
    json_writer *w = &j->json;
    int64_t groups = 0;
    if (j->chosen->json) json_put_begin(w, "groups", '[');
    if (j->chosen->csv) printf("group,cosine,row,name%s\n", j->folder.set.count ? ",shard" : "");
    for (int i = 0; i < count; i++) {
        const int64_t row = found[i].hit.row;
        if (last[row] > row) {
            if (groups && j->chosen->json) json_put_end(w, ']');
            if (j->chosen->json) json_put_begin(w, NULL, '[');
            else if (groups && !j->chosen->csv) printf("\n");
            groups++;
        }
        print_member(j, groups - 1, &found[i]);
    }
    if (groups && j->chosen->json) json_put_end(w, ']');
    if (j->chosen->json) json_put_end(w, ']');
    else if (!groups && !j->chosen->csv)
        printf("no pair has a cosine of %g or more\n", j->chosen->duplicates);
}

static bool name_groups(job *j, int64_t *group, int64_t *last, report *r) {
    const int64_t all = compared(j)->vectors.dims[0];
    nearest_hit *hits;
    found_photo *found;
    indexed_row *rows = NULL;
    int count;
    bool good;
    chain(group, last, all);
    count = list_members(group, last, all, NULL);
    hits = malloc(((size_t)count + 1) * sizeof *hits);
    found = calloc((size_t)count + 1, sizeof *found);
    if (j->folder.set.count) rows = calloc((size_t)count + 1, sizeof *rows);
    good = hits && found && (rows || !j->folder.set.count);
    if (good) (void)list_members(group, last, all, hits);
    good = (good && compare_members(j, last, hits, count)) || report_no_memory(r);
    good = good && name_hits(j, hits, count, rows, found, r);
    if (good) print_groups(j, last, found, count);
    for (int i = 0; rows && i < count; i++) indexed_row_free(&rows[i]);
    free(rows);
    free(found);
    free(hits);
    return good;
}

static bool find_duplicates(job *j, report *r) {
    const size_t size = ((size_t)compared(j)->vectors.dims[0] + 1) * sizeof(int64_t);
    int64_t *group = malloc(size), *last = malloc(size);
    const double start = cli_now_ms();
    bool good = group && last;
    if (good) memset(last, 0, size);
    good = (good && nearest_groups(&j->set, (float)j->chosen->duplicates, &j->executor, group)) ||
           report_no_memory(r);
    j->search_ms = cli_now_ms() - start;
    good = good && name_groups(j, group, last, r);
    free(group);
    free(last);
    return good;
}

/* ------------------------------------------------------------------------- */
/* Classes from texts                                                        */
/* ------------------------------------------------------------------------- */

static void print_classes(job *j, const char *name, const vit_prediction *top, int count) {
    const char *const *names = j->zero_shot.texts.names;
    json_writer *w = &j->json;
    for (int i = 0; j->chosen->csv && i < count; i++) {
        cli_put_field(stdout, name);
        printf(",%d,", top[i].index);
        cli_put_field(stdout, names[top[i].index]);
        printf(",%.9g\n", (double)top[i].score);
    }
    if (j->chosen->csv) return;
    if (!j->chosen->json) {
        if (j->several) text_print(stdout, "%s\n", name);
        for (int i = 0; i < count; i++) {
            text_print(stdout, "%5.1f %%  %s\n", 100 * (double)top[i].score, names[top[i].index]);
        }
        return;
    }
    json_put_begin(w, NULL, '{');
    json_put_text(w, "image", name);
    json_put_begin(w, "top", '[');
    for (int i = 0; i < count; i++) {
        json_put_begin(w, NULL, '{');
        json_put_integer(w, "index", top[i].index);
        json_put_text(w, "label", names[top[i].index]);
        json_put_number(w, "prob", (double)top[i].score, 9);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
    json_put_end(w, '}');
}

/* An infer_take for a photo to classify. */
static bool take_class(void *user, infer_result *result, report *r) {
    job *j = user;
    const int k = j->chosen->k;
    vit_prediction *top;
    if (result->error) return true;
    top = malloc((size_t)k * sizeof *top);
    if (!top) return report_no_memory(r);
    zero_shot_logits(&j->zero_shot, embedding_of(&j->choice, &j->model, result), j->scores);
    zero_shot_scores(&j->zero_shot, j->scores);
    print_classes(j, result->name, top, vit_top_k(j->scores, j->zero_shot.count, k, top));
    free(top);
    return true;
}

static bool classify(job *j, report *r) {
    bool good;
    j->scores = malloc((size_t)j->zero_shot.count * sizeof *j->scores);
    if (!j->scores) return report_no_memory(r);
    if (j->chosen->json) json_put_begin(&j->json, "images", '[');
    if (j->chosen->csv) printf("image,index,label,prob\n");
    good = infer_photos(j, take_class, r);
    if (j->chosen->json) json_put_end(&j->json, ']');
    return good;
}

/* ------------------------------------------------------------------------- */
/* From end to end                                                           */
/* ------------------------------------------------------------------------- */

static bool open_file(job *j, report *r) {
    const choices *c = j->chosen;
    if (!embedding_open(&j->index, c->index, c->names, r)) return false;
    j->part.floats = j->index.vectors.data;
    j->part.count = j->index.vectors.dims[0];
    j->set.parts = &j->part;
    j->set.count = 1;
    j->set.dim = (int)j->index.vectors.dims[1];
    if (j->part.count > 0 && j->set.dim > 0) return true;
    (void)report_fail(r, "the index is empty: it has %lld vectors of %d values",
                      (long long)j->part.count, j->set.dim);
    return report_file(r, c->index);
}

static bool open_folder(job *j, report *r) {
    const choices *c = j->chosen;
    if (c->names || c->sheet)
        return report_fail(r, "%s is for one INDEX.npy; %.200s is a folder",
                           c->names ? "--names" : "--sheet", c->index);
    if (!shard_index_open(&j->folder, PROGRAM, c->index, r)) return false;
    j->set = j->folder.set;
    return true;
}

static bool open_index(job *j, report *r) {
    const choices *c = j->chosen;
    const bool folder = source_is_folder(c->index);
    vit_result result;
    if (!folder && c->int8)
        return report_fail(r, "--int8 is for a folder of shards; %.200s is not a folder", c->index);
    if (folder ? !open_folder(j, r) : !open_file(j, r)) return false;
    result = vit_threads_create(c->num_threads, &j->threads, &j->executor);
    if (result != VIT_OK) return report_fail(r, "%s", vit_result_string(result));
    return !c->int8 || shard_index_copies(&j->folder, PROGRAM, &j->executor, r);
}

/* Opens the decoder. Must run before threads are started. The photos of a sheet are decoded one
 * after the other. */
static bool open_decoder(job *j, report *r) {
    const choices *c = j->chosen;
    if (!has_photos(j) && !c->sheet) return true;
    j->decoder = photo_decoder_open(&c->photos, PROGRAM, has_photos(j) ? c->num_threads : 1, r);
    return j->decoder != NULL;
}

static bool run(job *j, report *r) {
    const choices *c = j->chosen;
    const bool classes = c->zero_shot.classes != NULL;
    bool good = open_decoder(j, r) &&
                (classes ? zero_shot_open(&j->zero_shot, &c->zero_shot, &c->asked, &j->model,
                                          &j->path, &j->choice, r)
                         : open_index(j, r));
    if (!good) return false;
    if (c->json) {
        const embedding_index *index = compared(j);
        j->json = json_write_to(stdout);
        json_put_begin(&j->json, NULL, '{');
        json_put_text(&j->json, "index", index->path);
        json_put_integer(&j->json, "vectors", index->vectors.dims[0]);
        json_put_integer(&j->json, "dim", index->vectors.dims[1]);
    }
    good = classes ? classify(j, r) : c->duplicates <= 1 ? find_duplicates(j, r) : search(j, r);
    if (c->json) {
        if (!classes) json_put_decimals(&j->json, "search_ms", j->search_ms, 3);
        if (j->folder.set.count) {
            json_put_integer(&j->json, "shards", j->folder.set.count);
            json_put_integer(&j->json, "left_out", j->folder.left_out);
        }
        if (c->int8) json_put_integer(&j->json, "rescored", j->rescored);
        json_put_integer(&j->json, "unreadable", j->unreadable);
        json_put_end(&j->json, '}');
        putchar('\n');
    }
    return good && j->unreadable == 0 && j->folder.left_out == 0;
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Finds the photos whose embeddings have the highest cosine with the embedding of PHOTO, or with\n"
    "the mean of the embeddings of several PHOTOs. @ compares all vectors of INDEX.npy,\n"
    "which vit-embed wrote with INDEX.txt and INDEX.json, or of all indexes and shards in a FOLDER.\n"
    "--words finds photos by a text, alone or with photos, if the model has a text encoder.\n"
    "--duplicates and --classes replace this search: see below.\n";

static const char notes[] =
    "The model and its settings are those of INDEX.json, unless -m, --pool or --block override\n"
    "them.\n"
    "--duplicates C prints groups of photos that are linked by pairs with a cosine of at least C.\n"
    "The printed values are cosines with the first photo of the group. Time grows with the square\n"
    "of the number of photos.\n"
    "With --classes, there is no INDEX.npy: all operands are photos.\n"
    "In names, characters that control a terminal and invalid UTF-8 are printed as \\n, \\x1b or\n"
    "\\u202e, also if the output is a pipe. INDEX.txt has the exact names; row 0 of --json is line 1\n"
    "of INDEX.txt.\n"
    "A FOLDER has img_emb/img_emb_N.npy (f32 or f16), metadata/ and stats/, or files STEM.npy, each\n"
    "with its photos' names in STEM.txt. Shards that are missing or damaged are reported and left out.\n"
    "--int8 first reads copies with one byte per value, img_emb_N.i8. It makes the copies that are\n"
    "missing or out of date. The error of each copy is known. --int8 then reads from the\n"
    "shards all rows that may be among the best, so the result is the same as without --int8.\n" ZERO_SHOT_NOTES
    "Exit status: 0 on success, 1 if an image or a shard could not be read or something failed,\n"
    "2 for a wrong command.\n";

/* Returns a message if the command line breaks a rule that the table of options cannot express;
 * otherwise NULL. */
static const char *check(const choices *c, int operands) {
    const bool duplicates = c->duplicates <= 1, classes = c->zero_shot.classes != NULL;
    const char *wrong = zero_shot_wrong(&c->zero_shot);
    if (wrong) return wrong;
    if (classes && duplicates) return "either --classes or --duplicates, not both";
    if (classes && c->names) return "--names is for INDEX.npy; --classes has --class-names";
    if ((classes || duplicates) && c->words.count + c->minus.count)
        return "--words and --minus are for a search, not for --classes or --duplicates";
    if (classes && c->vectors.count) return "--vector is for a search, not for --classes";
    if (!classes && c->zero_shot.sigmoid) return "--sigmoid needs --classes TEXT.npy";
    if (duplicates && c->int8) return "--int8 is for a search, not for --duplicates";
    if (classes && c->int8)
        return "--int8 is for a search in a folder of shards, not for --classes";
    if (c->sheet && (duplicates || classes)) return "--sheet is for a search in INDEX.npy";
    if (c->json && c->csv) return "either --json or --csv, not both";
    if (c->null && !c->lists.count) return "--null needs --list FILE";
    if (operands == 0 && !(classes && c->lists.count))
        return classes ? "missing PHOTO" : "missing INDEX.npy";
    if (duplicates && (operands > 1 || c->vectors.count + c->lists.count))
        return "--duplicates takes INDEX.npy or FOLDER alone";
    if (!duplicates && !classes &&
        operands + c->vectors.count + c->lists.count + c->words.count + c->minus.count < 2)
        return "missing PHOTO, --words TEXT, --list FILE or --vector FILE.npy";
    return NULL;
}

static bool choose(int argc, char **argv, choices *c, text_list *photos, int *status) {
    const cli_option options[] = {
        { 'm', "model", "MODEL.vit", "the model (default: the one that made INDEX.npy)", CLI_TEXT,
          &c->asked.model, 0, 0 },
        CLI_OPTION_TOP(&c->k, "how many results to print (default 10)", 100000),
        PHOTO_LIST_OPTIONS(&c->lists, &c->null),
        { 0, "words", "TEXT", "find photos that match a text; may be repeated", CLI_LIST, &c->words,
          0, 0 },
        { 0, "minus", "TEXT", "avoid photos that match a text; may be repeated", CLI_LIST,
          &c->minus, 0, 0 },
        { 0, "vector", "FILE.npy", "search for these vectors too, [dim] or [n, dim]", CLI_LIST,
          &c->vectors, 0, 0 },
        { 0, "names", "FILE", "file with the names of the photos, instead of INDEX.txt", CLI_TEXT,
          &c->names, 0, 0 },
        { 0, "sheet", "OUT.png", "draw the photos found, with their cosines", CLI_OUTPUT, &c->sheet,
          0, 0 },
        { 0, "duplicates", "C",
          "print groups of near-duplicates; C, such as 0.97, is the lowest cosine", CLI_NUMBER,
          &c->duplicates, -1, 1 },
        ZERO_SHOT_OPTIONS(&c->zero_shot),
        { 0, "sigmoid", NULL, "give each class an independent probability", CLI_FLAG,
          &c->zero_shot.sigmoid, 0, 0 },
        { 0, "pool", "NAME", "head, logits, cls or avg, as in vit-embed", CLI_TEXT, &c->asked.pool,
          0, 0 },
        { 0, "block", "B", "use the output tokens of block B, as in vit-embed", CLI_INT,
          &c->asked.block, 0, 1023 },
        CLI_OPTION_IMG_SIZE(c->asked.img_size),
        CLI_OPTION_BATCH(&c->batch, "4 on each thread"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        { 0, "int8", NULL, "in a FOLDER: search int8 copies first; the result is the same",
          CLI_FLAG, &c->int8, 0, 0 },
        CLI_OPTION_JSON(&c->json, "print one JSON object"),
        CLI_OPTION_CSV(&c->csv, "print comma-separated values, with a header line"),
        CLI_OPTION_QUIET(&c->quiet),
        PHOTO_EXACT_OPTION(&c->photos),
        PHOTO_OPTIONS(&c->photos),
        CLI_END,
    };
    const cli_program program = { PROGRAM,         "[options] INDEX.npy|FOLDER PHOTO|FOLDER...",
                                  description,     options,
                                  notes,           0,
                                  CLI_MANY,        "INDEX.npy",
                                  photos_library() };
    const char *wrong;
    if (!cli_parse(&program, argc, argv, photos, status)) return false;
    wrong = check(c, photos->count);
    if (wrong) {
        *status = cli_wrong(PROGRAM, "%s", wrong);
        text_list_free(photos);
        return false;
    }
    if (!c->zero_shot.classes) { /* the operands after the index are photos */
        c->index = photos->items[0];
        photos->count--;
        memmove(photos->items, photos->items + 1, (size_t)photos->count * sizeof *photos->items);
    }
    return true;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-search");
    const zero_shot_options none = ZERO_SHOT_NONE;
    choices chosen;
    report r = report_make();
    job j;
    bool good;
    int status;
    memset(&chosen, 0, sizeof chosen);
    memset(&j, 0, sizeof j);
    chosen.zero_shot = none;
    chosen.asked.program = PROGRAM;
    chosen.asked.block = -1;
    chosen.k = 10;
    chosen.duplicates = 2;
    j.chosen = &chosen;
    if (!choose(argc, argv, &chosen, &j.photos, &status)) {
        text_list_free(&chosen.vectors);
        text_list_free(&chosen.lists);
        text_list_free(&chosen.words);
        text_list_free(&chosen.minus);
        text_list_free(&chosen.zero_shot.templates);
        return status;
    }
    good = run(&j, &r);
    if (r.failed) report_print(&r, PROGRAM);
    job_free(&j);
    text_list_free(&chosen.vectors);
    text_list_free(&chosen.lists);
    text_list_free(&chosen.words);
    text_list_free(&chosen.minus);
    text_list_free(&chosen.zero_shot.templates);
    return cli_finish(PROGRAM, good ? CLI_OK : CLI_FAILED);
}
