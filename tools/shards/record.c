#include "shards/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "base/sha256.h"
#include "base/source.h"

/* === Names === */

/* "OUT/img_emb/img_emb_00017.npy" */
static char *file_path(const char *folder, const char *kind, const char *number, const char *suffix)
{
    const size_t size = strlen(folder) + 2 * strlen(kind) + strlen(number) + strlen(suffix) + 4;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s%s%s/%s_%s%s", folder, paths_slash(folder), kind, kind, number,
                       suffix);
    return path;
}

bool shard_paths_make(shard_paths *paths, const char *folder, const char *number, report *r)
{
    paths->vectors = file_path(folder, "img_emb", number, ".npy");
    paths->metadata = file_path(folder, "metadata", number, ".jsonl");
    paths->stats = file_path(folder, "stats", number, ".json");
    if (paths->vectors && paths->metadata && paths->stats) return true;
    shard_paths_free(paths);
    return report_no_memory(r);
}

void shard_paths_free(shard_paths *paths)
{
    free(paths->vectors);
    free(paths->metadata);
    free(paths->stats);
    memset(paths, 0, sizeof *paths);
}

long shard_gap(const char *before, const char *number, char first[24], char last[24])
{
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

void shard_recipe_text(const shard_recipe *recipe, char text[SHARD_RECIPE_SIZE])
{
    const vit_config *config = &recipe->model->config;
    char layer[24] = "", classes[32] = "", pixels[40] = "";
    if (recipe->choice.block)
        snprintf(layer, sizeof layer, " of layer %d", recipe->choice.block - 1);
    if (recipe->classes) snprintf(classes, sizeof classes, ", classify %d", recipe->classes);
    if (recipe->photos.max_megapixels)
        snprintf(pixels, sizeof pixels, ", max-pixels %d", recipe->photos.max_megapixels);
    snprintf(text, SHARD_RECIPE_SIZE, "model %016" PRIx64 ", %dx%d, pool %s%s%s, %s%s%s%s",
             embedding_model_hash(recipe->model), config->img_height, config->img_width,
             embedding_pool_name(recipe->choice.pool), layer,
             recipe->choice.normalize ? ", normalized" : "",
             recipe->type == NPY_F16 ? "f16" : "f32", classes,
             recipe->photos.no_exif ? ", no-exif" : "", pixels);
}

/* === Checksums === */

bool shard_record_put_file(json_writer *w, const char *key, const char *place, report *r)
{
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
                       report *r)
{
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
        (void)report_fail(r, "has not the bytes that its record says");
    }
    return !r->failed || report_file(r, path);
}

/* === Reading === */

static bool has_checksums(const json_value *root)
{
    return json_integer(json_get(json_get(root, "vectors"), "bytes"), -1) >= 0 &&
           json_integer(json_get(json_get(root, "metadata"), "bytes"), -1) >= 0;
}

static bool read_record(shard_record *record, const char *path, report *r)
{
    const json_value *root;
    unsigned char *data;
    size_t size;
    if (!source_read_all(path, 1 << 20, &data, &size, r)) return false;
    record->text = (char *)data;
    if (!json_parse(&record->document, record->text, size, false, 0, r))
        return report_file(r, path);
    root = record->document.root;
    if (!has_checksums(root)) {
        (void)report_fail(r, "is no record of a shard: expected the bytes of its vectors and "
                          "metadata");
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
                              report *r)
{
    memset(record, 0, sizeof *record);
    if (!source_exists(paths->stats)) return SHARD_MISSING;
    return read_record(record, paths->stats, r) &&
                   check_file(record->document.root, "vectors", paths->vectors, bytes, r) &&
                   check_file(record->document.root, "metadata", paths->metadata, bytes, r)
               ? SHARD_COMPLETE
               : SHARD_DAMAGED;
}

void shard_record_close(shard_record *record)
{
    if (record->document.root) json_free(&record->document);
    free(record->text);
    memset(record, 0, sizeof *record);
}
