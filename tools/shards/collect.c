#include "shards/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/source.h"
#include "base/text.h"
#include "shards/record.h"

/* === Names in a folder === */

/* A folder that no task has made yet has none. */
static bool names_in(const char *folder, const char *kind, photo_list *names, report *r)
{
    const size_t size = strlen(folder) + strlen(kind) + 2;
    char *path = malloc(size);
    bool good;
    if (!path) return report_no_memory(r);
    snprintf(path, size, "%s%s%s", folder, paths_slash(folder), kind);
    memset(names, 0, sizeof *names);
    good = !source_exists(path) || photos_names(path, names, r);
    free(path);
    return good;
}

/* "00017" of "stats_00017.json", in place; NULL: not such a name. */
static char *number_in(char *name, const char *kind, const char *suffix)
{
    const size_t before = strlen(kind) + 1, after = strlen(suffix), length = strlen(name);
    if (length <= before + after || memcmp(name, kind, before - 1) != 0 ||
        name[before - 1] != '_' || strcmp(name + length - after, suffix) != 0)
        return NULL;
    name[length - after] = '\0';
    return name + before;
}

/* === One shard === */

static void add(shard_collected *all, const shard_record *record)
{
    all->complete++;
    all->images += record->images;
    all->unreadable += record->unreadable;
    all->bytes += record->bytes;
    all->seconds += record->seconds;
}

static bool check_shard(const char *program, const char *folder, const char *number,
                        shard_collected *all, report *r)
{
    shard_paths paths;
    shard_record record;
    report damage = report_make();
    shard_state state;
    if (!shard_paths_make(&paths, folder, number, r)) return false;
    state = shard_record_open(&record, &paths, true, &damage);
    if (state == SHARD_COMPLETE && !all->recipe[0])
        snprintf(all->recipe, sizeof all->recipe, "%s", record.recipe);
    if (state == SHARD_MISSING) {
        all->missing++;
        report_error(program, paths.stats, "is missing");
    } else if (state == SHARD_DAMAGED) {
        all->damaged++;
        report_error(program, NULL, "%s", damage.text);
    } else if (strcmp(record.recipe, all->recipe) != 0) {
        all->damaged++;
        report_error(program, paths.stats, "is of another recipe: found '%.250s', expected "
                     "'%.250s'", record.recipe, all->recipe);
    } else {
        add(all, &record);
    }
    shard_record_close(&record);
    shard_paths_free(&paths);
    return true;
}

/* === All of them === */

static void name_gap(const char *program, const char *before, const char *number,
                     shard_collected *all)
{
    char first[24], last[24];
    const long missing = shard_gap(before, number, first, last);
    if (missing == 0) return;
    all->missing += (uint64_t)missing;
    if (missing == 1) report_error(program, NULL, "%s is missing", first);
    else report_error(program, NULL, "%s to %s are missing", first, last);
}

static bool check_found(const char *program, const char *folder, shard_collected *all, report *r)
{
    photo_list names;
    const char *before = NULL;
    bool good = true;
    if (!names_in(folder, "stats", &names, r)) return false;
    for (int i = 0; good && i < names.count; i++) {
        const char *number = number_in(names.paths[i], "stats", ".json");
        if (!number) continue;
        name_gap(program, before, number, all);
        before = number;
        good = check_shard(program, folder, number, all, r);
    }
    if (good && !before) {
        (void)report_fail(r, "has no records of shards");
        good = report_file(r, folder);
    }
    photos_free(&names);
    return good;
}

/* Vectors without a record would be taken for some by what reads the folder. */
static bool check_unrecorded(const char *program, const char *folder, shard_collected *all,
                             report *r)
{
    photo_list names;
    bool good = true;
    if (!names_in(folder, "img_emb", &names, r)) return false;
    for (int i = 0; good && i < names.count; i++) {
        const char *number = number_in(names.paths[i], "img_emb", ".npy");
        shard_paths paths;
        if (!number) continue;
        good = shard_paths_make(&paths, folder, number, r);
        if (good && !source_exists(paths.stats)) {
            all->unrecorded++;
            report_error(program, paths.vectors, "has no record: make its shard again, or remove "
                         "it");
        }
        if (good) shard_paths_free(&paths);
    }
    photos_free(&names);
    return good;
}

static bool count_unfinished(const char *folder, shard_collected *all, report *r)
{
    static const char *const kinds[] = { "img_emb", "metadata", "stats" };
    photo_list names;
    for (int k = 0; k < 3; k++) {
        if (!names_in(folder, kinds[k], &names, r)) return false;
        for (int i = 0; i < names.count; i++)
            all->unfinished += strstr(names.paths[i], ".tmp-") != NULL;
        photos_free(&names);
    }
    return true;
}

bool shard_collect(const char *program, const char *folder, const shard_list *shards,
                   shard_collected *all, report *r)
{
    bool good = true;
    memset(all, 0, sizeof *all);
    if (shards->files.count == 0) good = check_found(program, folder, all, r);
    for (int i = 0; good && i < shards->files.count; i++)
        good = check_shard(program, folder, shards->numbers[i], all, r);
    return good && check_unrecorded(program, folder, all, r) && count_unfinished(folder, all, r);
}

bool shard_all_there(const shard_collected *all)
{
    return all->missing + all->damaged + all->unrecorded == 0;
}

/* === Printing === */

static void print_object(const shard_collected *all)
{
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_integer(&w, "complete", (int64_t)all->complete);
    json_put_integer(&w, "missing", (int64_t)all->missing);
    json_put_integer(&w, "damaged", (int64_t)all->damaged);
    json_put_integer(&w, "unrecorded", (int64_t)all->unrecorded);
    json_put_integer(&w, "unfinished_files", (int64_t)all->unfinished);
    json_put_integer(&w, "images", all->images);
    json_put_integer(&w, "unreadable", all->unreadable);
    json_put_integer(&w, "bytes", all->bytes);
    json_put_decimals(&w, "seconds", all->seconds, 3);
    json_put_text(&w, "recipe", all->recipe);
    json_put_end(&w, '}');
    putchar('\n');
}

void shard_collected_print(const char *program, const char *folder, const shard_collected *all,
                           bool json)
{
    char texts[5][32];
    if (all->unfinished)
        report_error(program, folder, "%s temporary file%s of tasks that were killed or still run; "
                     "when none does, find %s -name '*.tmp-*' -delete",
                     text_grouped(all->unfinished, texts[0]), all->unfinished == 1 ? "" : "s",
                     folder);
    if (json) {
        print_object(all);
        return;
    }
    printf("%s shard%s complete, %s missing, %s damaged; %s image%s, %s unreadable; %.1f hours\n",
           text_grouped(all->complete, texts[0]), all->complete == 1 ? "" : "s",
           text_grouped(all->missing, texts[1]), text_grouped(all->damaged, texts[2]),
           text_grouped((uint64_t)all->images, texts[3]), all->images == 1 ? "" : "s",
           text_grouped((uint64_t)all->unreadable, texts[4]), all->seconds / 3600);
}
