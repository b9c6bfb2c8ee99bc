#include "shards/embed_shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/source.h"
#include "base/text.h"
#include "cli/output.h"
#include "image/photos.h"
#include "infer/infer.h"
#include "shards/shard_writer.h"
#define VIT_TOOLS
#include "vit.h"

/* === One task === */

/* The state of the work on one shard, from the first byte of the archive until the record of the
 * shard is written. */
typedef struct shard_job {
    const shard_task *task;
    const char *file, *number, *name;
    /* One decoder is used for all shards. */
    photo_decoder *decoder;
    shard_source source;
    shard_writer writer;
    infer_counts counts;
    double load_ms, forward_ms;
    /* The scores of one photo, [num_classes], with the option --classify; otherwise NULL. */
    float *scores;
    vit_prediction *top;
    /* True if the archive is the cause of a failure. */
    bool input_failed;
} shard_job;

/* === Results === */

static int best_classes(shard_job *j, const infer_result *result) {
    const vit_model *model = j->task->recipe.model;
    const int classes = model->config.num_classes;
    if (!j->scores) return 0;
    memcpy(j->scores, result->logits, (size_t)classes * sizeof *j->scores);
    vit_scores(model, j->scores);
    return vit_top_k(j->scores, classes, j->task->recipe.classes, j->top);
}

/* Returns the reason of the error without the name of the image, because the line in the metadata
 * already contains the name. */
static const char *reason_of(const infer_result *result) {
    const size_t length = strlen(result->name);
    const bool named = strncmp(result->error, result->name, length) == 0 &&
                       strncmp(result->error + length, ": ", 2) == 0;
    return result->error + (named ? length + 2 : 0);
}

static bool take_unreadable(shard_job *j, sample *s, const infer_result *result, report *r) {
    const char *reason = reason_of(result);
    s->error = malloc(strlen(reason) + 1);
    if (!s->error) return report_no_memory(r);
    strcpy(s->error, reason);
    return shard_writer_add_unreadable(&j->writer, s, result->name, r);
}

/* Writes the result of one photo. This function is an infer_take. */
static bool take_result(void *user, infer_result *result, report *r) {
    shard_job *j = user;
    const shard_recipe *recipe = &j->task->recipe;
    sample s = shard_source_take(&j->source);
    bool good;
    j->load_ms += result->load_ms;
    if (result->error) {
        good = take_unreadable(j, &s, result, r);
    } else {
        /* This call must come first. It reads the logits, which embedding_of may scale. */
        const int top = best_classes(j, result);
        const float *row = embedding_of(&recipe->choice, recipe->model, result);
        j->forward_ms += result->forward_ms;
        good = shard_writer_add(&j->writer, &s, result->name, row, j->top, top, r);
    }
    sample_free(&s);
    return good;
}

/* === The record === */

static void put_others(const shard_job *j, json_writer *w) {
    const samples *s = &j->source.samples;
    json_put_integer(w, "samples_without_image", (int64_t)s->without_image);
    json_put_integer(w, "other_files", (int64_t)s->others);
    if (s->others) json_put_text(w, "first_other_file", s->other);
}

static void put_times(const shard_job *j, json_writer *w) {
    const infer_counts *counts = &j->counts;
    json_put_decimals(w, "seconds", counts->seconds, 3);
    json_put_decimals(w, "images_per_second", (double)counts->read / counts->seconds, 1);
    json_put_decimals(w, "load_seconds", j->load_ms / 1e3, 3);
    json_put_decimals(w, "forward_seconds", j->forward_ms / 1e3, 3);
}

static void put_program(const shard_job *j, json_writer *w) {
    const shard_task *task = j->task;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", VIT_VERSION_MAJOR, VIT_VERSION_MINOR,
             VIT_VERSION_PATCH);
    json_put_text(w, "program", task->program);
    json_put_text(w, "version", version);
    json_put_text(w, "isa", vit_isa_name(task->isa ? task->isa : vit_detect_isa()));
}

static bool commit(shard_job *j, report *r) {
    const shard_recipe *recipe = &j->task->recipe;
    char text[SHARD_RECIPE_SIZE];
    json_writer w = shard_writer_record(&j->writer);
    shard_recipe_text(recipe, text);
    json_put_text(&w, "shard", j->name);
    json_put_text(&w, "recipe", text);
    embedding_put(&w, &recipe->choice, recipe->model, recipe->model_path);
    json_put_text(&w, "dtype", recipe->type == NPY_F16 ? "f16" : "f32");
    json_put_integer(&w, "images", (int64_t)j->counts.read);
    json_put_integer(&w, "unreadable", (int64_t)j->counts.unreadable);
    json_put_integer(&w, "bytes", (int64_t)j->source.samples.tar.offset);
    put_others(j, &w);
    put_times(j, &w);
    put_program(j, &w);
    return shard_writer_commit(&j->writer, &w, r);
}

/* Fails if the file of the model was overwritten while it was mapped into memory, because the
 * vectors are then wrong. */
static bool check_model(const shard_job *j, report *r) {
    /* The check works on a copy, because it changes the `detail` of the model. */
    vit_model model = *j->task->recipe.model;
    if (vit_model_verify(&model) == VIT_OK) return true;
    (void)report_fail(r, "the model file changed while it was in use (%s); run the command again",
                      model.detail);
    return report_file(r, j->task->recipe.model_path);
}

/* === One shard === */

static bool infer_all(shard_job *j, report *r) {
    const shard_task *task = j->task;
    photo_source photos = shard_source_photos(&j->source);
    infer_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.model = task->recipe.model;
    settings.program = task->program;
    settings.num_threads = task->num_threads;
    settings.batch = task->batch;
    settings.isa = task->isa;
    settings.decoder = j->decoder;
    settings.take = take_result;
    settings.user = j;
    embedding_ask(&task->recipe.choice, &settings);
    if (task->recipe.classes) settings.outputs |= INFER_LOGITS;
    return infer_run(&settings, &photos, &j->counts, r);
}

static bool prepare_classes(shard_job *j, report *r) {
    const int classes = j->task->recipe.model->config.num_classes, k = j->task->recipe.classes;
    if (!k) return true;
    j->scores = malloc((size_t)classes * sizeof *j->scores);
    j->top = malloc((size_t)k * sizeof *j->top);
    return (j->scores && j->top) || report_no_memory(r);
}

static void print_done(const shard_job *j) {
    const samples *s = &j->source.samples;
    const infer_counts *counts = &j->counts;
    char images[32], unreadable[32], others[32];
    text_print(
        stderr, "%s: %s: %s image%s in %.1f s, %.1f images/s; %s unreadable\n", j->task->program,
        j->name, text_grouped(counts->read, images), counts->read == 1 ? "" : "s", counts->seconds,
        (double)counts->read / counts->seconds, text_grouped(counts->unreadable, unreadable));
    if (s->others == 1)
        text_print(stderr, "%s: %s: another file was skipped: %s\n", j->task->program, j->name,
                   s->other);
    else if (s->others)
        text_print(stderr, "%s: %s: %s other files were skipped; the first is %s\n",
                   j->task->program, j->name, text_grouped(s->others, others), s->other);
    if (s->without_image)
        text_print(stderr,
                   "%s: %s: %s sample%s without an image; the files of a sample must follow each "
                   "other, as with tar --sort=name\n",
                   j->task->program, j->name, text_grouped(s->without_image, others),
                   s->without_image == 1 ? "" : "s");
}

static bool run_open(shard_job *j, report *r) {
    const shard_task *task = j->task;
    if (!shard_writer_open(&j->writer, &task->recipe, task->folder, j->number, j->file, r))
        return false;
    if (!prepare_classes(j, r) || !infer_all(j, r) || !check_model(j, r)) {
        shard_writer_abandon(&j->writer);
        return false;
    }
    if (!commit(j, r)) return false;
    print_done(j);
    return true;
}

static bool run_shard(shard_job *j, report *r) {
    const size_t max_bytes = photos_max_bytes(&j->task->recipe.photos);
    bool good = shard_source_open(&j->source, j->file, j->name, max_bytes, r);
    good = good && run_open(j, r);
    j->input_failed = j->source.failed;
    shard_source_close(&j->source);
    free(j->scores);
    free(j->top);
    j->scores = NULL;
    j->top = NULL;
    return good || report_file(r, strcmp(j->file, "-") == 0 ? j->name : j->file);
}

/* === All of the part === */

/* Returns true if the archive has the size that is in its record. Standard input and an archive
 * that cannot be opened count as unchanged. */
static bool same_archive(const char *file, int64_t bytes) {
    report unread = report_make();
    source s;
    if (strcmp(file, "-") == 0 || !source_open_file(&s, file, &unread)) return true;
    source_close(&s);
    return (int64_t)s.size == bytes;
}

/* *done becomes true if the output of a shard with a name is complete. Damaged output is reported.
 * Fails if the output belongs to another shard or to other settings. */
static bool is_done(const shard_job *j, const shard_paths *paths, bool *done, report *r) {
    const shard_task *task = j->task;
    char recipe[SHARD_RECIPE_SIZE];
    shard_record record;
    report damage = report_make();
    const shard_state state = shard_record_open(&record, paths, true, &damage);
    bool good = true;
    shard_recipe_text(&task->recipe, recipe);
    if (state == SHARD_DAMAGED) {
        report_error(task->program, NULL, "%s; the shard is embedded again", damage.text);
    } else if (state == SHARD_COMPLETE && strcmp(record.recipe, recipe) != 0) {
        (void)report_fail(
            r,
            "the shard was made with other settings: found '%.250s', expected '%.250s'; give "
            "another output",
            record.recipe, recipe);
        good = report_file(r, paths->stats);
    } else if (state == SHARD_COMPLETE && strcmp(record.shard, j->name) != 0) {
        (void)report_fail(
            r, "the record belongs to the shard %.200s, not to %.200s; give another output",
            record.shard, j->name);
        good = report_file(r, paths->stats);
    } else if (state == SHARD_COMPLETE && !same_archive(j->file, record.bytes)) {
        report_error(task->program, j->file,
                     "the archive no longer has the %lld bytes that its record names; the shard is "
                     "embedded again",
                     (long long)record.bytes);
    } else {
        *done = state == SHARD_COMPLETE && strcmp(j->name, "-") != 0;
    }
    shard_record_close(&record);
    return good;
}

static bool check_done(const shard_job *j, bool *done, report *r) {
    shard_paths paths;
    bool good;
    *done = false;
    if (!shard_paths_make(&paths, j->task->folder, j->number, r)) return false;
    good = is_done(j, &paths, done, r);
    shard_paths_free(&paths);
    return good;
}

static void add_counts(shard_totals *totals, const infer_counts *counts) {
    totals->images += counts->read;
    totals->unreadable += counts->unreadable;
    totals->seconds += counts->seconds;
}

/* Works on the next shard. Returns false after a failure that would stop all later shards too. */
static bool run_next(shard_job *j, shard_totals *totals, report *r) {
    report failure = report_make();
    bool done;
    totals->shards++;
    if (!check_done(j, &done, r)) return false;
    if (done) {
        totals->complete++;
        return true;
    }
    if (run_shard(j, &failure)) {
        add_counts(totals, &j->counts);
        return true;
    }
    totals->failed++;
    if (!j->input_failed) {
        *r = failure;
        return false;
    }
    report_print(&failure, j->task->program);
    return true;
}

bool shard_task_run(const shard_task *task, shard_totals *totals, report *r) {
    const shard_list *shards = task->shards;
    shard_job *j = malloc(sizeof *j);
    photo_decoder *decoder;
    bool good;
    memset(totals, 0, sizeof *totals);
    if (!j) return report_no_memory(r);
    decoder = photo_decoder_open(&task->recipe.photos, task->program, task->num_threads, r);
    good = decoder != NULL;
    for (long i = task->part.index; good && i < shards->files.count; i += task->part.count) {
        memset(j, 0, sizeof *j);
        j->task = task;
        j->decoder = decoder;
        j->file = shards->files.paths[i];
        j->number = shards->numbers[i];
        j->name = shard_name(j->file, task->name);
        good = run_next(j, totals, r);
    }
    photo_decoder_close(decoder);
    free(j);
    return good;
}

void shard_totals_print(const shard_task *task, const shard_totals *totals, bool json) {
    char texts[5][32];
    json_writer w = json_write_to(stdout);
    if (!json) {
        fprintf(stderr,
                "%s: %s shard%s, %s complete before, %s failed; %s image%s, %s "
                "unreadable\n",
                task->program, text_grouped(totals->shards, texts[0]),
                totals->shards == 1 ? "" : "s", text_grouped(totals->complete, texts[1]),
                text_grouped(totals->failed, texts[2]), text_grouped(totals->images, texts[3]),
                totals->images == 1 ? "" : "s", text_grouped(totals->unreadable, texts[4]));
        return;
    }
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "output", task->folder);
    json_put_integer(&w, "shards", (int64_t)totals->shards);
    json_put_integer(&w, "complete_before", (int64_t)totals->complete);
    json_put_integer(&w, "failed", (int64_t)totals->failed);
    json_put_integer(&w, "images", (int64_t)totals->images);
    json_put_integer(&w, "unreadable", (int64_t)totals->unreadable);
    json_put_decimals(&w, "seconds", totals->seconds, 3);
    json_put_end(&w, '}');
    putchar('\n');
}

/* === Names in a folder === */

/* Lists the names in the folder FOLDER/KIND. If this folder does not exist yet, the list is
 * empty. */
static bool names_in(const char *folder, const char *kind, photo_list *names, report *r) {
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

/* Returns the number of a shard, such as "00017" in "stats_00017.json". Cuts the suffix off `name`.
 * Returns NULL for any other name. */
static char *number_in(char *name, const char *kind, const char *suffix) {
    const size_t before = strlen(kind) + 1, after = strlen(suffix), length = strlen(name);
    if (length <= before + after || memcmp(name, kind, before - 1) != 0 ||
        name[before - 1] != '_' || strcmp(name + length - after, suffix) != 0)
        return NULL;
    name[length - after] = '\0';
    return name + before;
}

/* === One shard === */

static void add(shard_collected *all, const shard_record *record) {
    all->complete++;
    all->images += record->images;
    all->unreadable += record->unreadable;
    all->bytes += record->bytes;
    all->seconds += record->seconds;
}

static bool check_shard(const char *program, const char *folder, const char *number,
                        shard_collected *all, report *r) {
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
        report_error(program, paths.stats,
                     "the shard was made with other settings: found '%.250s', expected '%.250s'",
                     record.recipe, all->recipe);
    } else {
        add(all, &record);
    }
    shard_record_close(&record);
    shard_paths_free(&paths);
    return true;
}

/* === All of them === */

static void name_gap(const char *program, const char *before, const char *number,
                     shard_collected *all) {
    char first[24], last[24];
    const long missing = shard_gap(before, number, first, last);
    if (missing == 0) return;
    all->missing += (uint64_t)missing;
    if (missing == 1) report_error(program, NULL, "%s is missing", first);
    else report_error(program, NULL, "%s to %s are missing", first, last);
}

static bool check_found(const char *program, const char *folder, shard_collected *all, report *r) {
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
        (void)report_fail(r, "the folder has no records of shards");
        good = report_file(r, folder);
    }
    photos_free(&names);
    return good;
}

/* Reports vectors that have no record, because programs that read the folder would use such
 * vectors. */
static bool check_unrecorded(const char *program, const char *folder, shard_collected *all,
                             report *r) {
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
            report_error(program, paths.vectors,
                         "the file has no record: make its shard again, or remove "
                         "this file");
        }
        if (good) shard_paths_free(&paths);
    }
    photos_free(&names);
    return good;
}

static bool count_unfinished(const char *folder, shard_collected *all, report *r) {
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
                   shard_collected *all, report *r) {
    bool good = true;
    memset(all, 0, sizeof *all);
    if (shards->files.count == 0) good = check_found(program, folder, all, r);
    for (int i = 0; good && i < shards->files.count; i++)
        good = check_shard(program, folder, shards->numbers[i], all, r);
    return good && check_unrecorded(program, folder, all, r) && count_unfinished(folder, all, r);
}

bool shard_all_there(const shard_collected *all) {
    return all->missing + all->damaged + all->unrecorded == 0;
}

/* === Printing === */

static void print_object(const shard_collected *all) {
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
                           bool json) {
    char texts[5][32];
    if (all->unfinished)
        report_error(program, folder,
                     "%s temporary file%s of tasks that were killed or still run; "
                     "when no task runs any more, delete with: find %s -name '*.tmp-*' -delete",
                     text_grouped(all->unfinished, texts[0]), all->unfinished == 1 ? "" : "s",
                     folder);
    if (json) {
        print_object(all);
        return;
    }
    printf("%s shard%s complete, %s missing, %s damaged; %s image%s, %s unreadable; "
           "%.1f hours of computing\n",
           text_grouped(all->complete, texts[0]), all->complete == 1 ? "" : "s",
           text_grouped(all->missing, texts[1]), text_grouped(all->damaged, texts[2]),
           text_grouped((uint64_t)all->images, texts[3]), all->images == 1 ? "" : "s",
           text_grouped((uint64_t)all->unreadable, texts[4]), all->seconds / 3600);
}
