#define _POSIX_C_SOURCE 200809L /* makes the headers declare strdup */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "cli/output.h"
#include "image/photos.h"
#include "os/os.h"
#include "shards/shard_writer.h"

/* === Rows with one byte per value === */

/* The header of a file of int8 copies, in the byte order of the machine that wrote the file. On a
 * machine with another byte order, `magic` does not match. */
typedef struct copy_header {
    uint64_t magic, source_size;
    int64_t source_time, count, dim;
    uint64_t zeros[3];
} copy_header;

static const uint64_t magic = 0x76697420693831u;

/* The number of rows whose copies are made at a time. */
enum { BLOCK = 4096 };

/* Writes into *h the header that a valid file of copies has. `time` is the modification time that
 * the file of vectors had when it was mapped. Fails if the file of vectors has been rewritten since
 * then. */
static bool expected_header(const char *vectors, int64_t time, const nearest_part *part, int dim,
                            copy_header *h, report *r) {
    const int file = os_open(vectors);
    bool good;
    memset(h, 0, sizeof *h);
    h->magic = magic;
    h->count = part->count;
    h->dim = dim;
    if (file < 0) return report_fail(r, "cannot be opened: %s", os_error(errno));
    good = os_file_size(file, &h->source_size) || report_fail(r, "not a regular file");
    h->source_time = os_file_time(file);
    os_close(file);
    if (h->source_time == time) return good;
    return report_fail(r, "the file was rewritten after the search began");
}

/* Makes the copies in blocks of rows, and writes them. In the file, the scales come before the
 * rows, but they are known only at the end. So zeros are written first, and replaced at the end. */
static bool write_rows(const int8_copies *c, FILE *file, const nearest_part *part,
                       nearest_scale *scales, int8_t *bytes) {
    const size_t dim = (size_t)c->dim, count = (size_t)part->count;
    const long start = ftell(file);
    if (fwrite(scales, sizeof *scales, count, file) != count) return false;
    for (int64_t i = 0; i < part->count; i += BLOCK) {
        const int64_t rows = part->count - i < BLOCK ? part->count - i : BLOCK;
        const nearest_part block = { part->floats ? part->floats + i * c->dim : NULL,
                                     part->halves ? part->halves + i * c->dim : NULL, rows, NULL,
                                     NULL };
        nearest_make_bytes(&block, c->dim, c->executor, scales + i, bytes);
        if (fwrite(bytes, dim, (size_t)rows, file) != (size_t)rows) return false;
    }
    return fseek(file, start, SEEK_SET) == 0 &&
           fwrite(scales, sizeof *scales, count, file) == count;
}

static bool write_copy(const int8_copies *c, const char *path, const char *vectors,
                       const copy_header *h, const nearest_part *part, report *r) {
    const size_t block = part->count < BLOCK ? (size_t)part->count : BLOCK;
    nearest_scale *scales = calloc((size_t)part->count, sizeof *scales);
    int8_t *bytes = malloc(block * (size_t)c->dim);
    cli_output output;
    if (!scales || !bytes) {
        (void)report_no_memory(r);
    } else if (cli_output_open(&output, path, r)) {
        errno = 0;
        if (!cli_output_spares(vectors, r)) {
            cli_output_abandon(&output);
        } else if (fwrite(h, sizeof *h, 1, output.file) != 1 ||
                   !write_rows(c, output.file, part, scales, bytes)) {
            (void)report_fail(r, "cannot be written: %s", os_error(errno ? errno : EIO));
            (void)report_file(r, path);
            cli_output_abandon(&output);
        } else {
            (void)cli_output_commit(&output, r);
        }
    }
    free(scales);
    free(bytes);
    return !r->failed;
}

/* Maps the file of copies into memory. Returns NULL if there is no valid file; the file must then
 * be made. */
static void *map_copy(const char *path, const copy_header *h, size_t *size) {
    void *data = os_map(path, size);
    const uint64_t each = sizeof(nearest_scale) + (uint64_t)h->dim;
    if (data && *size == sizeof *h + (uint64_t)h->count * each && memcmp(data, h, sizeof *h) == 0)
        return data;
    if (data) os_unmap(data, *size);
    return NULL;
}

void *int8_copy_open(const int8_copies *c, const char *vectors, int64_t time, nearest_part *part,
                     size_t *size, report *r) {
    const size_t stem = strlen(vectors) - strlen(".npy");
    char *path = malloc(stem + sizeof ".i8");
    copy_header h;
    void *data = NULL;
    if (!path) {
        (void)report_no_memory(r);
        return NULL;
    }
    memcpy(path, vectors, stem);
    memcpy(path + stem, ".i8", sizeof ".i8");
    if (!expected_header(vectors, time, part, c->dim, &h, r)) {
        (void)report_file(r, vectors);
    } else {
        data = map_copy(path, &h, size);
        if (!data) {
            if (os_kind_of(path) != OS_NONE)
                report_error(c->program, path,
                             "the file does not match the .npy file; it is made again");
            if (write_copy(c, path, vectors, &h, part, r) && !(data = map_copy(path, &h, size)))
                (void)report_fail(r, "%.200s cannot be mapped", path);
        }
    }
    if (data) {
        part->scales = (const nearest_scale *)(const void *)((const char *)data + sizeof h);
        part->bytes = (const int8_t *)(const void *)(part->scales + part->count);
    }
    free(path);
    return data;
}

/* === One shard === */

static void close_shard(indexed_shard *shard) {
    if (shard->copy) os_unmap(shard->copy, shard->copy_size);
    npy_free(&shard->array);
    free(shard->vectors);
    free(shard->names);
}

/* Returns the modification time of a file, or -1 if there is no such file. */
static int64_t time_of(const char *path) {
    const int file = path ? os_open(path) : -1;
    const int64_t time = file < 0 ? -1 : os_file_time(file);
    if (file >= 0) os_close(file);
    return time;
}

static shard_times times_of(const char *vectors, const char *names, const char *json) {
    const shard_times times = { time_of(vectors), time_of(names), time_of(json) };
    return times;
}

/* Returns the path "FOLDER/" BEFORE MIDDLE AFTER, which the caller frees. */
static char *join(const char *folder, const char *before, const char *middle, const char *after) {
    const size_t size = strlen(folder) + strlen(before) + strlen(middle) + strlen(after) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s%s%s%s", folder, paths_slash(folder), before, middle, after);
    return path;
}

/* Checks that a shard was made with the same model and options as the first shard. `other`
 * describes the shard, and the index takes over the memory of `other`. */
static bool check_same(shard_index *index, const indexed_shard *shard, embedding_index *other,
                       report *r) {
    embedding_index *first = &index->about;
    bool good;
    if (index->set.count == 0) {
        const char *path = first->path;
        *first = *other;
        first->path = path;
        first->vectors.ndim = 2;
        first->vectors.dims[1] = shard->array.dims[1];
        return true;
    }
    good = true;
    if (shard->array.dims[1] != first->vectors.dims[1])
        good = report_fail(r, "the file has vectors of %lld values; those of %.200s have %lld",
                           (long long)shard->array.dims[1], index->shards[0].vectors,
                           (long long)first->vectors.dims[1]);
    else if (other->described != first->described || other->model_hash != first->model_hash ||
             other->choice.pool != first->choice.pool || other->choice.block != first->choice.block)
        good = report_fail(r, "the file was made with another model, pooling or block than %.200s",
                           index->shards[0].vectors);
    free(other->model_path);
    return good || report_file(r, shard->vectors);
}

/* Adds a shard to the index. The index takes over the memory of `shard` and `made_by`. */
static bool add_shard(shard_index *index, indexed_shard *shard, embedding_index *made_by,
                      report *r) {
    indexed_shard *grown;
    if (!check_same(index, shard, made_by, r)) {
        close_shard(shard);
        return false;
    }
    grown = memory_grow(index->shards, sizeof *grown, (size_t)index->set.count, &index->capacity);
    if (!grown) {
        close_shard(shard);
        return report_no_memory(r);
    }
    index->shards = grown;
    index->shards[index->set.count++] = *shard;
    index->about.vectors.dims[0] += shard->array.dims[0];
    return true;
}

static void leave_out(shard_index *index, const char *program, const report *why) {
    index->left_out++;
    report_error(program, NULL, "%s; the shard is left out", why->text);
}

/* Opens a shard and adds it to the index. The index takes over `vectors` and `names`, and `names`
 * may be NULL. `json` is the path of the description of the shard, or NULL. `seen` contains the
 * modification times that the files had before the shard was read. The shard is left out if the
 * times have changed, because a task is then making the shard again. */
static bool open_shard(shard_index *index, const char *program, char *vectors, char *names,
                       int64_t unreadable, const char *json, const shard_times *seen, report *r) {
    indexed_shard shard;
    embedding_index made_by;
    report damage = report_make();
    memset(&shard, 0, sizeof shard);
    memset(&made_by, 0, sizeof made_by);
    shard.vectors = vectors;
    shard.names = names;
    shard.unreadable = unreadable;
    if (npy_map_rows(vectors, &shard.array, &damage) &&
        (shard.array.ndim != 2 || shard.array.dims[1] < 1 || shard.array.dims[1] > 1 << 20)) {
        (void)report_fail(&damage, "expected vectors [n, dim], found %d dimensions",
                          shard.array.ndim);
        (void)report_file(&damage, vectors);
    }
    if (!damage.failed && json) (void)embedding_describe(&made_by, json, &damage);
    shard.times = times_of(vectors, names, json);
    if (!damage.failed && memcmp(&shard.times, seen, sizeof *seen) != 0) {
        (void)report_fail(&damage, "is being written");
        (void)report_file(&damage, vectors);
    }
    if (!damage.failed) return add_shard(index, &shard, &made_by, r);
    if (!damage.no_memory) leave_out(index, program, &damage);
    free(made_by.model_path);
    close_shard(&shard);
    return !damage.no_memory || report_no_memory(r);
}

/* === Output of vit-embed --tar or clip-retrieval === */

static bool open_recorded(shard_index *index, const char *program, const char *number, report *r) {
    shard_paths paths;
    shard_record record;
    report damage = report_make();
    bool good = true;
    shard_times seen;
    shard_state state;
    if (!shard_paths_make(&paths, index->about.path, number, r)) return false;
    seen = times_of(paths.vectors, paths.metadata, paths.stats);
    state = shard_record_open(&record, &paths, false, &damage);
    if (state == SHARD_COMPLETE) {
        good = open_shard(index, program, paths.vectors, paths.metadata, record.unreadable,
                          paths.stats, &seen, r);
        paths.vectors = paths.metadata = NULL;
    } else {
        if (state == SHARD_MISSING) (void)report_fail(&damage, "%s: is being written", paths.stats);
        leave_out(index, program, &damage);
    }
    shard_record_close(&record);
    shard_paths_free(&paths);
    return good;
}

static bool is_between(const char *name, const char *before, const char *after) {
    const size_t head = strlen(before), tail = strlen(after), length = strlen(name);
    return length > head + tail && memcmp(name, before, head) == 0 &&
           strcmp(name + length - tail, after) == 0;
}

/* Returns the part of a name between the texts `before` and `after`, such as "00017" in
 * "img_emb_00017.npy". The caller frees it. Returns NULL if memory is exhausted. */
static char *between(const char *name, const char *before, const char *after) {
    char *text = strdup(name + strlen(before));
    if (text) text[strlen(text) - strlen(after)] = '\0';
    return text;
}

static void name_gap(shard_index *index, const char *program, const char *before,
                     const char *number) {
    char first[24], last[24];
    const long missing = shard_gap(before, number, first, last);
    if (!missing) return;
    index->left_out += (int)missing;
    if (missing == 1) report_error(program, index->about.path, "%s is missing", first);
    else report_error(program, index->about.path, "%s to %s are missing", first, last);
}

static bool open_records(shard_index *index, const char *program, const photo_list *names,
                         report *r) {
    char *before = NULL;
    bool good = true;
    for (int i = 0; good && i < names->count; i++) {
        char *number;
        if (!is_between(names->paths[i], "stats_", ".json")) continue;
        number = between(names->paths[i], "stats_", ".json");
        if (number) {
            name_gap(index, program, before, number);
            good = open_recorded(index, program, number, r);
        } else {
            good = report_no_memory(r);
        }
        free(before);
        before = number;
    }
    free(before);
    return good;
}

static char *exists_or_null(char *path) {
    if (path && source_exists(path)) return path;
    free(path);
    return NULL;
}

/* Sets *path to the joined path, which the caller frees, or to NULL if no such file exists. */
static bool find_beside(char **path, const char *folder, const char *before, const char *middle,
                        const char *after, report *r) {
    char *joined = join(folder, before, middle, after);
    *path = exists_or_null(joined);
    return joined || report_no_memory(r);
}

/* Handles the shards that have no record. If the folder has no records at all, as from
 * clip-retrieval, these shards are opened. Otherwise they are reported and left out, because a task
 * of vit-embed has not finished them. */
static bool open_unrecorded(shard_index *index, const char *program, const photo_list *names,
                            bool records, report *r) {
    bool good = true;
    for (int i = 0; good && i < names->count; i++) {
        char *number;
        shard_paths paths;
        if (!is_between(names->paths[i], "img_emb_", ".npy")) continue;
        number = between(names->paths[i], "img_emb_", ".npy");
        good = number ? shard_paths_make(&paths, index->about.path, number, r)
                      : report_no_memory(r);
        if (good && !records) {
            shard_times seen;
            paths.metadata = exists_or_null(paths.metadata);
            seen = times_of(paths.vectors, paths.metadata, NULL);
            good = open_shard(index, program, paths.vectors, paths.metadata, -1, NULL, &seen, r);
            paths.vectors = paths.metadata = NULL;
        } else if (good && !source_exists(paths.stats)) {
            index->left_out++;
            report_error(program, paths.vectors,
                         "the file has no record: make its shard again, or remove "
                         "the file; the shard is left out");
        }
        if (good) shard_paths_free(&paths);
        free(number);
    }
    return good;
}

static bool open_embedded(shard_index *index, const char *program, const char *vectors, report *r) {
    char *stats = join(index->about.path, "stats", "", "");
    const bool records = stats && source_is_folder(stats);
    photo_list names, recorded = { NULL, 0, 0, 0 };
    bool good = stats ? true : report_no_memory(r);
    good = good && (!records || photos_names(stats, &recorded, r));
    free(stats);
    if (!good || !photos_names(vectors, &names, r)) {
        photos_free(&recorded);
        return false;
    }
    good = open_records(index, program, &recorded, r) &&
           open_unrecorded(index, program, &names, records, r);
    photos_free(&recorded);
    photos_free(&names);
    return good;
}

/* === A folder of .npy files === */

/* Opens STEM.npy together with the text file that has a line for each row. This file is
 * metadata_N.jsonl for img_emb_N.npy, if it exists; otherwise it is STEM.txt. */
static bool open_file(shard_index *index, const char *program, const char *stem, report *r) {
    const char *folder = index->about.path, *number = "img_emb_";
    char *vectors = join(folder, stem, ".npy", ""), *json = NULL, *lines = NULL;
    bool good = vectors ? find_beside(&json, folder, stem, ".json", "", r) : report_no_memory(r);
    if (good && is_between(stem, number, ""))
        good = find_beside(&lines, folder, "metadata_", stem + strlen(number), ".jsonl", r);
    if (good && !lines) good = find_beside(&lines, folder, stem, ".txt", "", r);
    if (good) {
        const shard_times seen = times_of(vectors, lines, json);
        good = open_shard(index, program, vectors, lines, -1, json, &seen, r);
    } else {
        free(vectors);
        free(lines);
    }
    free(json);
    return good;
}

static bool open_files(shard_index *index, const char *program, report *r) {
    const char *folder = index->about.path;
    photo_list names;
    bool good = true;
    if (!photos_names(folder, &names, r)) return false;
    for (int i = 0; good && i < names.count; i++) {
        char *stem;
        if (!is_between(names.paths[i], "", ".npy")) continue;
        stem = between(names.paths[i], "", ".npy");
        good = stem ? open_file(index, program, stem, r) : report_no_memory(r);
        free(stem);
    }
    photos_free(&names);
    return good;
}

/* === All of them === */

static bool make_parts(shard_index *index, report *r) {
    index->parts = calloc((size_t)index->set.count + 1, sizeof *index->parts);
    if (!index->parts) return report_no_memory(r);
    for (int i = 0; i < index->set.count; i++) {
        index->parts[i].floats = index->shards[i].array.data;
        index->parts[i].halves = index->shards[i].array.halves;
        index->parts[i].count = index->shards[i].array.dims[0];
    }
    index->set.parts = index->parts;
    index->set.dim = (int)index->about.vectors.dims[1];
    return true;
}

bool shard_index_open(shard_index *index, const char *program, const char *folder, report *r) {
    char *vectors = join(folder, "img_emb", "", "");
    bool good;
    memset(index, 0, sizeof *index);
    index->about.path = folder;
    if (!vectors) return report_no_memory(r);
    good = source_is_folder(vectors) ? open_embedded(index, program, vectors, r)
                                     : open_files(index, program, r);
    free(vectors);
    if (good && index->about.vectors.dims[0] == 0) {
        (void)(index->set.count
                   ? report_fail(r, "the folder has no vectors: all its shards are empty")
                   : report_fail(
                         r, "the folder has no vectors: expected img_emb/img_emb_N.npy, or .npy "
                            "files that vit-embed wrote from photos"));
        return report_file(r, folder);
    }
    return good && make_parts(index, r);
}

void shard_index_close(shard_index *index) {
    for (int i = 0; i < index->set.count; i++) close_shard(&index->shards[i]);
    free(index->shards);
    free(index->parts);
    free(index->about.model_path);
    memset(index, 0, sizeof *index);
}

bool shard_index_copies(shard_index *index, const char *program, const vit_executor *executor,
                        report *r) {
    const int8_copies copies = { program, index->set.dim, executor };
    for (int i = 0; i < index->set.count; i++) {
        indexed_shard *shard = &index->shards[i];
        nearest_part *part = &index->parts[i];
        if (part->count == 0) continue;
        shard->copy = int8_copy_open(&copies, shard->vectors, shard->times.vectors, part,
                                     &shard->copy_size, r);
        if (!shard->copy) return false;
    }
    return true;
}

/* === The metadata of a row === */

static bool is_json(const indexed_shard *shard) {
    const size_t length = strlen(shard->names);
    return length > 6 && strcmp(shard->names + length - 6, ".jsonl") == 0;
}

static bool holds(const char *line, size_t length, const char *what) {
    const size_t size = strlen(what);
    for (size_t i = 0; i + size <= length; i++)
        if (memcmp(line + i, what, size) == 0) return true;
    return false;
}

static bool copy_text(char **copy, const char *text, report *r) {
    *copy = text ? strdup(text) : NULL;
    return *copy || !text || report_no_memory(r);
}

static bool text_of(char **text, const json_value *root, const char *key, report *r) {
    const json_value *value = json_get(root, key);
    char number[32];
    if (!value || value->kind != JSON_NUMBER || !value->integral)
        return copy_text(text, json_string(value, NULL), r);
    snprintf(number, sizeof number, "%lld", (long long)value->u.integer);
    return copy_text(text, number, r);
}

/* Makes a name for a row that has no name: the path of the vectors, '#' and the number of the
 * row. */
static bool make_name(const indexed_shard *shard, indexed_row *found, report *r) {
    const size_t size = strlen(shard->vectors) + 24;
    found->name = malloc(size);
    if (!found->name) return report_no_memory(r);
    snprintf(found->name, size, "%s#%lld", shard->vectors, (long long)found->row);
    return true;
}

static bool read_json(indexed_row *found, char *line, size_t length, report *r) {
    json_document document;
    report unread = report_make();
    bool good;
    if (!json_parse(&document, line, length, false, 0, &unread)) {
        if (unread.no_memory) return report_no_memory(r);
        return report_fail(r, "line %lld: %.400s", (long long)found->row + 1, unread.text);
    }
    good = text_of(&found->name, document.root, "image_path", r) &&
           text_of(&found->key, document.root, "key", r) &&
           text_of(&found->caption, document.root, "caption", r) &&
           text_of(&found->label, document.root, "label", r) &&
           text_of(&found->url, document.root, "url", r) &&
           (found->name || copy_text(&found->name, found->key, r));
    if (good && json_get(document.root, "error"))
        good = report_fail(r, "row %lld belongs to an image that could not be read",
                           (long long)found->row);
    json_free(&document);
    return good;
}

/* Takes the name, and the other texts, of a row from its line. The line has `length` bytes, without
 * the newline. */
static bool read_line(const indexed_shard *shard, indexed_row *found, const char *line,
                      size_t length, report *r) {
    char *copy = malloc(length + 1);
    bool good;
    if (!copy) return report_no_memory(r);
    memcpy(copy, line, length);
    copy[length] = '\0';
    if (!is_json(shard)) {
        embedding_read_name(copy);
        found->name = copy;
        return true;
    }
    good = read_json(found, copy, length, r);
    free(copy);
    return good && (found->name || make_name(shard, found, r));
}

/* Reads the lines of the requested rows, and counts all lines. Lines after the last row belong to
 * images that could not be read. */
static bool read_lines(const indexed_shard *shard, const char *text, size_t size,
                       indexed_row *const *wanted, int count, report *r) {
    const int64_t rows = shard->array.dims[0];
    int64_t lines = 0;
    bool good = true;
    int next = 0;
    for (size_t at = 0; at < size; lines++) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        const size_t length = end ? (size_t)(end - line) : size - at;
        if (next < count && wanted[next]->row == lines &&
            !read_line(shard, wanted[next++], line, length, r))
            return false;
        if (lines == rows) good = is_json(shard) && holds(line, length, "\"error\"");
        at += length + 1;
    }
    if (!good || lines < rows || (shard->unreadable >= 0 && lines != rows + shard->unreadable))
        return report_fail(r, "has %lld line%s for %lld vector%s", (long long)lines,
                           lines == 1 ? "" : "s", (long long)rows, rows == 1 ? "" : "s");
    return true;
}

/* Reads the names of `count` rows of one shard. `wanted` contains these rows in rising order. */
static bool read_names(const indexed_shard *shard, indexed_row *const *wanted, int count,
                       report *r) {
    size_t size = 0;
    char *text = os_map(shard->names, &size);
    const bool good = time_of(shard->names) == shard->times.names
                          ? read_lines(shard, text, size, wanted, count, r)
                          : report_fail(r, "the file was rewritten after the search began");
    if (text) os_unmap(text, size);
    return good || report_file(r, shard->names);
}

static bool make_names(const indexed_shard *shard, indexed_row *const *wanted, int count,
                       report *r) {
    bool good = true;
    for (int i = 0; good && i < count; i++) good = make_name(shard, wanted[i], r);
    return good;
}

static int compare_rows(const void *a, const void *b) {
    const indexed_row *x = *(indexed_row *const *)a, *y = *(indexed_row *const *)b;
    return (x->row > y->row) - (x->row < y->row);
}

/* Finds the shards and the names of the rows. `sorted` contains the rows in rising order, because
 * each file must be read only once. */
static bool find_rows(const shard_index *index, indexed_row **sorted, int count, report *r) {
    const indexed_shard *shard = index->shards;
    int64_t first = 0;
    bool good = true;
    for (int begin = 0, end = 0; good && begin < count; begin = end, shard++) {
        for (; end < count && sorted[end]->row < first + shard->array.dims[0]; end++) {
            sorted[end]->row -= first;
            sorted[end]->shard = shard->vectors;
        }
        first += shard->array.dims[0];
        if (begin < end)
            good = (shard->names ? read_names : make_names)(shard, sorted + begin, end - begin, r);
    }
    return good;
}

bool shard_index_rows(const shard_index *index, indexed_row *rows, int count, report *r) {
    indexed_row **sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    bool good;
    if (!sorted) return report_no_memory(r);
    for (int i = 0; i < count; i++) sorted[i] = &rows[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_rows);
    good = find_rows(index, sorted, count, r);
    free(sorted);
    return good;
}

void indexed_row_free(indexed_row *row) {
    free(row->name);
    free(row->key);
    free(row->caption);
    free(row->label);
    free(row->url);
    memset(row, 0, sizeof *row);
}
