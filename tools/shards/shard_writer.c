#define _POSIX_C_SOURCE 200809L /* makes the headers declare strdup and fseeko */
#include "shards/shard_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/npy.h"
#include "base/source.h"
#include "base/text.h"
#include "infer/classes.h"
#include "os/os.h"

/* === Names === */

/* Returns a path such as "OUT/img_emb/img_emb_00017.npy". The caller frees the path. */
static char *file_path(const char *folder, const char *kind, const char *number,
                       const char *suffix) {
    const size_t size = strlen(folder) + 2 * strlen(kind) + strlen(number) + strlen(suffix) + 4;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s%s/%s_%s%s", folder, paths_slash(folder), kind, kind, number,
                 suffix);
    return path;
}

bool shard_paths_make(shard_paths *paths, const char *folder, const char *number, report *r) {
    paths->vectors = file_path(folder, "img_emb", number, ".npy");
    paths->metadata = file_path(folder, "metadata", number, ".jsonl");
    paths->stats = file_path(folder, "stats", number, ".json");
    if (paths->vectors && paths->metadata && paths->stats) return true;
    shard_paths_free(paths);
    return report_no_memory(r);
}

void shard_paths_free(shard_paths *paths) {
    free(paths->vectors);
    free(paths->metadata);
    free(paths->stats);
    memset(paths, 0, sizeof *paths);
}

long shard_gap(const char *before, const char *number, char first[24], char last[24]) {
    const size_t digits = strspn(number, "0123456789");
    long long from, to;
    if (!before || number[digits] || strspn(before, "0123456789") != digits || before[digits] ||
        digits > 9)
        return 0;
    from = strtoll(before, NULL, 10) + 1;
    to = strtoll(number, NULL, 10);
    if (from >= to) return 0;
    snprintf(first, 24, "%0*lld", (int)digits, from);
    snprintf(last, 24, "%0*lld", (int)digits, to - 1);
    return (long)(to - from);
}

void shard_recipe_text(const shard_recipe *recipe, char text[SHARD_RECIPE_SIZE]) {
    const vit_config *config = &recipe->model->config;
    char layer[24] = "", classes[32] = "", pixels[40] = "", decoding[PHOTOS_DECODING_SIZE];
    char size[40];
    snprintf(size, sizeof size, "%dx%d", config->img_height, config->img_width);
    if (config->crop_mode == VIT_CROP_ASPECT && config->crop_rounding == VIT_ROUND_NEAREST)
        snprintf(size, sizeof size, "nearest to %dx%d", config->resize_height,
                 config->resize_width);
    else if (config->crop_mode == VIT_CROP_ASPECT)
        snprintf(size, sizeof size, "max-patches %d",
                 infer_num_tokens(config) - config->num_prefix_tokens);
    if (recipe->choice.block)
        snprintf(layer, sizeof layer, " of layer %d", recipe->choice.block - 1);
    if (recipe->classes) snprintf(classes, sizeof classes, ", classify %d", recipe->classes);
    if (recipe->photos.max_megapixels)
        snprintf(pixels, sizeof pixels, ", max-pixels %d", recipe->photos.max_megapixels);
    snprintf(text, SHARD_RECIPE_SIZE, "model %016" PRIx64 ", %s, pool %s%s%s, %s%s%s%s, %s",
             embedding_model_hash(recipe->model), size, embedding_pool_name(recipe->choice.pool),
             layer, recipe->choice.normalize ? ", normalized" : "",
             recipe->type == NPY_F16 ? "f16" : "f32", classes,
             recipe->photos.no_exif ? ", no-exif" : "", pixels,
             photos_decoding(&recipe->photos, decoding));
}

/* === Checksums === */

bool shard_record_put_file(json_writer *w, const char *key, const char *place, report *r) {
    char digest[65];
    source s;
    if (!source_open_file(&s, place, r)) return false;
    source_close(&s);
    if (!sha256_file(place, digest, NULL, NULL)) {
        (void)report_fail(r, "cannot be read again: %s", strerror(errno));
        return report_file(r, place);
    }
    json_put_begin(w, key, '{');
    json_put_integer(w, "bytes", (int64_t)s.size);
    json_put_text(w, "sha256", digest);
    json_put_end(w, '}');
    return true;
}

static bool check_file(const json_value *root, const char *key, const char *path, bool bytes,
                       report *r) {
    const json_value *file = json_get(root, key);
    const int64_t expected = json_integer(json_get(file, "bytes"), -1);
    char digest[65];
    source s;
    if (!source_open_file(&s, path, r)) return false;
    source_close(&s);
    if ((int64_t)s.size != expected) {
        (void)report_fail(r, "has %lld bytes, expected %lld", (long long)s.size,
                          (long long)expected);
    } else if (!bytes) {
        return true;
    } else if (!sha256_file(path, digest, NULL, NULL)) {
        (void)report_fail(r, "cannot be read: %s", strerror(errno));
    } else if (strcmp(digest, json_string(json_get(file, "sha256"), "")) != 0) {
        (void)report_fail(r, "the file does not match the checksum in its record");
    }
    return !r->failed || report_file(r, path);
}

/* === Reading === */

static bool has_checksums(const json_value *root) {
    return json_integer(json_get(json_get(root, "vectors"), "bytes"), -1) >= 0 &&
           json_integer(json_get(json_get(root, "metadata"), "bytes"), -1) >= 0;
}

static bool read_record(shard_record *record, const char *path, report *r) {
    const json_value *root;
    unsigned char *data;
    size_t size;
    if (!source_read_all(path, 1 << 20, &data, &size, r)) return false;
    record->text = (char *)data;
    if (!json_parse(&record->document, record->text, size, false, 0, r))
        return report_file(r, path);
    root = record->document.root;
    if (!has_checksums(root)) {
        (void)report_fail(r,
                          "the file is not a shard's record: expected numbers in vectors.bytes and "
                          "metadata.bytes");
        return report_file(r, path);
    }
    record->shard = json_string(json_get(root, "shard"), "");
    record->recipe = json_string(json_get(root, "recipe"), "");
    record->images = json_integer(json_get(root, "images"), 0);
    record->unreadable = json_integer(json_get(root, "unreadable"), 0);
    record->bytes = json_integer(json_get(root, "bytes"), -1);
    record->seconds = json_number(json_get(root, "seconds"), 0);
    return true;
}

shard_state shard_record_open(shard_record *record, const shard_paths *paths, bool bytes,
                              report *r) {
    memset(record, 0, sizeof *record);
    if (!source_exists(paths->stats)) return SHARD_MISSING;
    return read_record(record, paths->stats, r) &&
                   check_file(record->document.root, "vectors", paths->vectors, bytes, r) &&
                   check_file(record->document.root, "metadata", paths->metadata, bytes, r)
               ? SHARD_COMPLETE
               : SHARD_DAMAGED;
}

void shard_record_close(shard_record *record) {
    if (record->document.root) json_free(&record->document);
    free(record->text);
    memset(record, 0, sizeof *record);
}

/* === Opening === */

static bool make_folders(const char *folder, report *r) {
    static const char *const kinds[] = { "img_emb", "metadata", "stats" };
    const size_t size = strlen(folder) + 16;
    char *path = malloc(size);
    bool good = path ? cli_output_folder(folder, r) : report_no_memory(r);
    for (int i = 0; good && i < 3; i++) {
        snprintf(path, size, "%s%s%s", folder, paths_slash(folder), kinds[i]);
        good = cli_output_folder(path, r);
    }
    free(path);
    return good;
}

static bool open_outputs(shard_writer *w, const char *shard, report *r) {
    cli_output *const outputs[3] = { &w->metadata, &w->vectors, &w->stats };
    const char *const paths[3] = { w->paths.metadata, w->paths.vectors, w->paths.stats };
    for (; w->opened < 3; w->opened++)
        if (!cli_output_open(outputs[w->opened], paths[w->opened], r)) return false;
    return cli_output_spares(shard, r) && cli_output_spares(w->recipe->model_path, r);
}

static bool write_failed(const cli_output *output, report *r) {
    (void)report_fail(r, "cannot be written: %s", strerror(errno ? errno : EIO));
    return report_file(r, output->name);
}

bool shard_writer_open(shard_writer *w, const shard_recipe *recipe, const char *folder,
                       const char *number, const char *shard, report *r) {
    memset(w, 0, sizeof *w);
    w->recipe = recipe;
    w->ndim = 1 + embedding_shape(&recipe->choice, recipe->model, w->dims + 1);
    w->each = (size_t)w->dims[1] * (size_t)(w->ndim == 3 ? w->dims[2] : 1);
    errno = 0;
    if (make_folders(folder, r) && shard_paths_make(&w->paths, folder, number, r) &&
        open_outputs(w, shard, r) &&
        (npy_write_header(w->vectors.file, recipe->type, w->dims, w->ndim) ||
         write_failed(&w->vectors, r)))
        return true;
    shard_writer_abandon(w);
    return false;
}

/* === Lines and rows === */

/* Writes the label from a .cls file. A text that is an integer becomes a number, and any other text
 * becomes a string. */
static void put_label(json_writer *w, const char *label) {
    char text[64];
    long number;
    const size_t length = strcspn(label, " \t\r\n");
    const bool alone = !label[length + strspn(label + length, " \t\r\n")];
    if (alone && length < sizeof text) {
        memcpy(text, label, length);
        text[length] = '\0';
        if (text_read_int(text, -2147483647, 2147483647, &number)) {
            json_put_integer(w, "label", number);
            return;
        }
    }
    json_put_text(w, "label", label);
}

static void put_classes(json_writer *w, const vit_model *model, const vit_prediction *top,
                        int count) {
    char text[32];
    json_put_begin(w, "classes", '[');
    for (int i = 0; i < count; i++) {
        json_put_begin(w, NULL, '{');
        json_put_integer(w, "index", top[i].index);
        json_put_text(w, "label", class_name(model, top[i].index, text, sizeof text));
        json_put_number(w, "prob", (double)top[i].score, 9);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

static json_writer begin_line(const shard_writer *w, const sample *s, const char *path) {
    json_writer line = json_write_to(w->metadata.file);
    json_put_begin(&line, NULL, '{');
    json_put_text(&line, "key", s->key);
    json_put_text(&line, "image_path", path);
    if (s->caption) json_put_text(&line, "caption", s->caption);
    if (s->label) put_label(&line, s->label);
    if (s->url) json_put_text(&line, "url", s->url);
    if (s->note) json_put_text(&line, "note", s->note);
    return line;
}

static bool end_line(shard_writer *w, json_writer *line, report *r) {
    json_put_end(line, '}');
    putc('\n', w->metadata.file);
    return !ferror(w->metadata.file) || write_failed(&w->metadata, r);
}

/* Returns true if the output's type can hold all values of the row. An f16 value is at most 65504;
 * larger values below 65520 are rounded to it. */
static bool fits(shard_writer *w, const float *row) {
    if (w->recipe->type != NPY_F16) return true;
    for (size_t i = 0; i < w->each; i++)
        if (fabs((double)row[i]) >= 65520) return false;
    return true;
}

bool shard_writer_add(shard_writer *w, const sample *s, const char *path, const float *row,
                      const vit_prediction *top, int num_top, report *r) {
    json_writer line;
    errno = 0;
    if (!fits(w, row))
        return report_fail(r,
                           "%.200s has a vector with values beyond 65504, which f16 cannot hold; "
                           "use f32, or --normalize",
                           path);
    line = begin_line(w, s, path);
    if (w->recipe->classes) put_classes(&line, w->recipe->model, top, num_top);
    if (!end_line(w, &line, r)) return false;
    if (!npy_write_values(w->vectors.file, w->recipe->type, row, w->each))
        return write_failed(&w->vectors, r);
    w->dims[0]++;
    return true;
}

bool shard_writer_add_unreadable(shard_writer *w, sample *s, const char *path, report *r) {
    sample *grown = memory_grow(w->unreadable, sizeof *grown, w->num_unreadable, &w->capacity);
    char *name = strdup(path);
    if (grown) w->unreadable = grown;
    if (!grown || !name) {
        free(name);
        return report_no_memory(r);
    }
    free(s->name);
    s->name = name;
    w->unreadable[w->num_unreadable++] = *s;
    memset(s, 0, sizeof *s);
    return true;
}

/* === The end === */

static void clear(shard_writer *w) {
    for (size_t i = 0; i < w->num_unreadable; i++) sample_free(&w->unreadable[i]);
    free(w->unreadable);
    shard_paths_free(&w->paths);
    memset(w, 0, sizeof *w);
}

void shard_writer_abandon(shard_writer *w) {
    if (w->opened > 0) cli_output_abandon(&w->metadata);
    if (w->opened > 1) cli_output_abandon(&w->vectors);
    if (w->opened > 2) cli_output_abandon(&w->stats);
    clear(w);
}

json_writer shard_writer_record(shard_writer *w) {
    json_writer record = json_write_to(w->stats.file);
    json_put_begin(&record, NULL, '{');
    return record;
}

static bool put_unreadable(shard_writer *w, report *r) {
    for (size_t i = 0; i < w->num_unreadable; i++) {
        const sample *s = &w->unreadable[i];
        json_writer line = begin_line(w, s, s->name);
        json_put_text(&line, "error", s->error);
        if (!end_line(w, &line, r)) return false;
    }
    return fflush(w->metadata.file) == 0 || write_failed(&w->metadata, r);
}

static bool put_header(shard_writer *w, report *r) {
    return (fseeko(w->vectors.file, 0, SEEK_SET) == 0 &&
            npy_write_header(w->vectors.file, w->recipe->type, w->dims, w->ndim) &&
            fflush(w->vectors.file) == 0) ||
           write_failed(&w->vectors, r);
}

/* Adds the size and the checksum of both files to the record. The files are read back from the
 * system, which may not have written them to the disk yet. */
static bool put_files(shard_writer *w, json_writer *record, report *r) {
    json_put_begin(record, "shape", '[');
    for (int i = 0; i < w->ndim; i++) json_put_integer(record, NULL, w->dims[i]);
    json_put_end(record, ']');
    if (!cli_output_written(&w->vectors) || !cli_output_written(&w->metadata))
        return report_fail(r, "%s and %s must be files", w->paths.vectors, w->paths.metadata);
    if (!shard_record_put_file(record, "vectors", cli_output_written(&w->vectors), r) ||
        !shard_record_put_file(record, "metadata", cli_output_written(&w->metadata), r))
        return false;
    json_put_end(record, '}');
    putc('\n', w->stats.file);
    return fflush(w->stats.file) == 0 || write_failed(&w->stats, r);
}

/* Writes the record last, because a record promises that the other files are complete. An older
 * record is removed first, because it would not match the new files if the archive has changed. */
bool shard_writer_commit(shard_writer *w, json_writer *record, report *r) {
    cli_output *const outputs[3] = { &w->metadata, &w->vectors, &w->stats };
    bool good;
    errno = 0;
    if (!put_unreadable(w, r) || !put_header(w, r) || !put_files(w, record, r)) {
        shard_writer_abandon(w);
        return false;
    }
    os_remove(w->paths.stats);
    good = cli_outputs_commit(outputs, 3, r);
    clear(w);
    return good;
}
