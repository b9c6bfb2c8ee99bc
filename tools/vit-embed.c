/* vit-embed.c - writes the embeddings of photos as a NumPy array for searching.
 *
 *     vit-embed photos/ -o photos.npy                 with the bundled model
 *     find / -name '*.jpg' -print0 | vit-embed -m dino.vit --list - --null -o all.npy
 *
 * In addition to photos.npy [n, dim], it writes photos.txt with the path of each row, and
 * photos.json with the model and the options. vit-search reads all three.
 *
 *     vit-embed --tar 'part-{00000..00999}.tar' -o OUT --part auto    shards, on many machines
 *     vit-embed --collect OUT                                         checks that OUT is complete
 */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "infer/embedding.h"
#include "infer/infer.h"
#include "infer/words.h"
#include "os/os.h"
#include "shards/embed_shards.h"
#include "vit.h"

#define PROGRAM cli_name()

/* The command line. */
typedef struct choices {
    const char *model, *output, *names, *pool, *texts;
    text_list lists;
    cli_size img_size;
    int block; /* number of the block, from 0; -1 means the model's output */
    int batch, num_threads;
    vit_isa isa;
    bool normalize, null, json, half, quiet, overwrite;
    bool tar; /* true if the operands are shards; the members below are for shards alone */
    const char *shard, *part, *collect;
    int parts, classes;
    photo_options photos;
} choices;

/* The state of one run of the program. The struct is zeroed, then filled in step by step. */
typedef struct job {
    const choices *chosen;
    vit_model model;
    char *path; /* path of the model */
    photo_list photos;
    /* [photos.count]: stamp (size and time) of each photo's file, before the photo is read */
    journal_stamp *stamps;
    /* [photos.count]: offset of each photo's record in the journal OUT.rows; -1 if it has none */
    int64_t *rows;
    /* [num_missing]: indices of the photos that have no record in the journal */
    int *missing;
    int num_missing, next; /* next: index in `missing` of the next photo */
    embedding_journal journal;
    embedding_choice choice;
    embedding_writer writer;
    /* [writer.dims[0]]: grid of each photo's tokens; NULL if has_grids is false */
    vit_grid *grids;
    infer_counts counts;
    shard_list shards;
    shard_totals totals;
} job;

/* Gives the next photo that has no record in the journal. Reads the stamp of the photo's file
 * again, because hours may have passed since the start. */
static bool next_photo(void *user, photo *p, report *r) {
    job *j = user;
    const int i = j->next < j->num_missing ? j->missing[j->next++] : -1;
    if (i < 0 || !cli_output_spares(j->photos.paths[i], r)) return false;
    j->stamps[i] = journal_stamp_of(j->photos.paths[i]);
    p->name = strdup(j->photos.paths[i]);
    return p->name || report_no_memory(r);
}

static bool is_stopped(const job *j, report *r) {
    char done[32], all[32];
    uint64_t rows = 0;
    if (!os_stopped()) return false;
    for (int i = 0; i < j->photos.count; i++) rows += j->rows[i] >= 0;
    (void)report_fail(r, "stopped after %s of %s images; the same command continues the run",
                      text_grouped(rows, done), text_grouped((uint64_t)j->photos.count, all));
    return true;
}

/* An infer_recall that looks up the content of a photo in the journal. */
static int64_t recall(void *user, uint64_t content, uint64_t size) {
    const job *j = user;
    return journal_find_content(&j->journal, content, size);
}

/* An infer_take that stores the next row in the journal. If a photo is damaged, or if its file
 * changed while it was read, its row is stored without a stamp. The next run then computes the
 * photo again, and prints the message about the damage again. */
static bool take_row(void *user, infer_result *result, report *r) {
    job *j = user;
    const int i = j->missing[result->index];
    const bool known = result->recalled >= 0;
    journal_stamp stamp = journal_stamp_of(result->name);
    if (result->error) return !is_stopped(j, r);
    if (result->note || stamp.size != j->stamps[i].size || stamp.time != j->stamps[i].time)
        stamp.size = UINT64_MAX;
    stamp.content = result->content;
    return journal_add(&j->journal, result->name, &stamp,
                       known ? NULL : embedding_of(&j->choice, &j->model, result), result->recalled,
                       &j->rows[i], r) &&
           !is_stopped(j, r);
}

static void put_summary(const job *j, json_writer *w) {
    char decoding[PHOTOS_DECODING_SIZE];
    json_put_begin(w, NULL, '{');
    embedding_put(w, &j->choice, &j->model, j->path);
    json_put_begin(w, "shape", '[');
    for (int i = 0; i < j->writer.ndim; i++) json_put_integer(w, NULL, j->writer.dims[i]);
    json_put_end(w, ']');
    json_put_integer(w, "images", j->writer.dims[0]);
    json_put_integer(w, "unreadable", (int64_t)j->counts.unreadable);
    json_put_text(w, "decoder", photos_decoding(&j->chosen->photos, decoding));
    if (!j->grids) return;
    json_put_begin(w, "grids", '[');
    for (int64_t i = 0; i < j->writer.dims[0]; i++) {
        json_put_begin(w, NULL, '[');
        json_put_integer(w, NULL, j->grids[i].height);
        json_put_integer(w, NULL, j->grids[i].width);
        json_put_end(w, ']');
    }
    json_put_end(w, ']');
}

/* Writes the summary into the .json file next to the vectors. print_summary writes it to standard
 * output, with the path of the output and the time of the run. */
static void write_summary(job *j) {
    json_writer w = json_write_to(j->writer.json.file);
    put_summary(j, &w);
    json_put_end(&w, '}');
    putc('\n', j->writer.json.file);
}

static void print_summary(const job *j) {
    const infer_counts *c = &j->counts;
    const uint64_t computed = c->read - c->recalled;
    char images[32], unreadable[32], all[32], known[64] = "";
    json_writer w = json_write_to(stdout);
    if (j->chosen->quiet && !j->chosen->json) return;
    if (!j->chosen->json) {
        if ((int64_t)computed < j->writer.dims[0])
            snprintf(known, sizeof known, "%s image%s; ",
                     text_grouped((uint64_t)j->writer.dims[0], all),
                     j->writer.dims[0] == 1 ? "" : "s");
        fprintf(stderr, "%s: %s%s %s%s in %.1f s, %.1f images/s; %s unreadable\n", PROGRAM, known,
                text_grouped(computed, images), known[0] ? "new or changed" : "image",
                known[0] || computed == 1 ? "" : "s", c->seconds, (double)computed / c->seconds,
                text_grouped(c->unreadable, unreadable));
        return;
    }
    put_summary(j, &w);
    json_put_text(&w, "output", j->chosen->output);
    json_put_text(&w, "names", j->writer.names_path);
    json_put_integer(&w, "computed", (int64_t)computed);
    json_put_decimals(&w, "seconds", c->seconds, 3);
    json_put_decimals(&w, "images_per_second", (double)computed / c->seconds, 1);
    json_put_end(&w, '}');
    putchar('\n');
}

/* === Which rows are missing === */

static bool find_photos(job *j, const text_list *operands, report *r) {
    const choices *c = j->chosen;
    size_t count;
    if (!photo_paths_all(&j->photos, operands, &c->lists, c->null ? '\0' : '\n', r)) return false;
    count = (size_t)j->photos.count;
    j->stamps = malloc(count * sizeof *j->stamps);
    j->rows = malloc(count * sizeof *j->rows);
    j->missing = malloc(count * sizeof *j->missing);
    if (!j->stamps || !j->rows || !j->missing) return report_no_memory(r);
    for (size_t i = 0; i < count; i++) j->stamps[i] = journal_stamp_of(j->photos.paths[i]);
    return true;
}

/* True if photos may have different grids of patches, and thus different numbers of tokens. Each
 * row of the journal then ends with the grid of the photo. */
static bool has_grids(const job *j) {
    return j->choice.pool == EMBEDDING_TOKENS && j->model.config.crop_mode == VIT_CROP_ASPECT;
}

/* Opens the journal with a recipe, which lists everything that affects the vectors. The journal has
 * f32 values, which are rounded to f16 only in the index. */
static bool open_journal(job *j, report *r) {
    const choices *c = j->chosen;
    const vit_isa isa = c->isa ? c->isa : vit_detect_isa();
    shard_recipe recipe;
    char text[SHARD_RECIPE_SIZE], full[JOURNAL_RECIPE_SIZE];
    int64_t dims[2];
    memset(&recipe, 0, sizeof recipe);
    recipe.model = &j->model;
    recipe.choice = j->choice;
    recipe.photos = c->photos;
    shard_recipe_text(&recipe, text);
    snprintf(full, sizeof full, "%s%s", text, isa == VIT_ISA_SSE2 ? ", without FMA" : "");
    if (embedding_shape(&j->choice, &j->model, dims) == 1) dims[1] = 1;
    if (!journal_open(&j->journal, PROGRAM, j->writer.journal_path, full,
                      (size_t)(dims[0] * dims[1]) + (has_grids(j) ? 2 : 0), c->overwrite, r))
        return false;
    for (int i = 0; i < j->photos.count; i++) {
        j->rows[i] = journal_find(&j->journal, j->photos.paths[i], &j->stamps[i]);
        if (j->rows[i] < 0) j->missing[j->num_missing++] = i;
    }
    return true;
}

/* Computes the missing rows and adds them to the journal. */
static bool infer_all(job *j, report *r) {
    photo_source source = { j, (uint64_t)j->num_missing, next_photo };
    infer_settings settings;
    photo_decoder *decoder;
    bool good;
    j->counts.seconds = 1e-9;
    if (!j->num_missing) return true;
    decoder = photo_decoder_open(&j->chosen->photos, PROGRAM, j->chosen->num_threads, r);
    if (!decoder) return false;
    memset(&settings, 0, sizeof settings);
    settings.model = &j->model;
    settings.program = PROGRAM;
    settings.num_threads = j->chosen->num_threads;
    settings.batch = j->chosen->batch;
    settings.isa = j->chosen->isa;
    settings.decoder = decoder;
    settings.progress = !j->chosen->quiet;
    settings.take = take_row;
    settings.recall = recall;
    settings.user = j;
    embedding_ask(&j->choice, &settings);
    os_stop_softly();
    good = infer_run(&settings, &source, &j->counts, r);
    photo_decoder_close(decoder);
    return good;
}

/* === Writing the index: rows of the journal, in the order of the photos === */

static bool write_rows(job *j, report *r) {
    if (has_grids(j)) {
        j->grids = calloc((size_t)j->photos.count, sizeof *j->grids);
        if (!j->grids) return report_no_memory(r);
    }
    for (int i = 0; i < j->photos.count; i++) {
        const float *row;
        if (j->rows[i] < 0) continue; /* the photo is unreadable */
        row = journal_read(&j->journal, j->rows[i], r);
        if (row && j->grids)
            j->grids[j->writer.dims[0]] = (vit_grid){ (int)row[j->writer.each],
                                                      (int)row[j->writer.each + 1] };
        if (!row || is_stopped(j, r) || !embedding_add(&j->writer, j->photos.paths[i], row, r))
            return false;
    }
    return j->writer.dims[0] > 0 || report_fail(r, "no image could be read; nothing was written");
}

static bool write_index(job *j, report *r) {
    j->writer.type = j->chosen->half ? NPY_F16 : NPY_F32;
    if (!embedding_create(&j->writer, r)) return false;
    if (!embedding_begin(&j->writer, &j->choice, &j->model, r) || !write_rows(j, r)) {
        embedding_abandon(&j->writer);
        return false;
    }
    write_summary(j);
    return embedding_commit(&j->writer, r);
}

/* Checks at the start that the index can be written, because a failure after hours of work would be
 * worse. */
static bool try_index(job *j, report *r) {
    bool good;
    if (!embedding_create(&j->writer, r)) return false;
    good = embedding_begin(&j->writer, &j->choice, &j->model, r);
    embedding_abandon(&j->writer);
    return good;
}

static bool embed(job *j, const text_list *operands, report *r) {
    const choices *c = j->chosen;
    bool good;
    if (!embedding_name(&j->writer, c->output, c->names, r) ||
        !cli_model_choose(c->model, c->img_size, &j->model, &j->path, r) ||
        !embedding_choose(&j->choice, c->pool, c->block, &j->model, r) ||
        !find_photos(j, operands, r) || !try_index(j, r) || !open_journal(j, r))
        return false;
    good = infer_all(j, r) && write_index(j, r);
    if (good) print_summary(j);
    return journal_close(&j->journal, good ? j->rows : NULL, (size_t)j->photos.count, r) && good;
}

/* ------------------------------------------------------------------------- */
/* Texts                                                                     */
/* ------------------------------------------------------------------------- */

/* Computes the vector of each text, and adds it as a row. */
static bool add_texts(job *j, words *w, const char *const *texts, int count, report *r) {
    float *row = malloc((size_t)w->dim * sizeof *row);
    bool good = row || report_no_memory(r);
    for (int i = 0; good && i < count; i++)
        good = words_embed(w, texts[i], row, r) && embedding_add(&j->writer, texts[i], row, r);
    free(row);
    return good;
}

static void write_text_summary(job *j, FILE *file) {
    json_writer w = json_write_to(file);
    json_put_begin(&w, NULL, '{');
    embedding_put(&w, &j->choice, &j->model, j->path);
    json_put_integer(&w, "texts", j->writer.dims[0]);
    json_put_integer(&w, "dim", j->writer.dims[1]);
    json_put_end(&w, '}');
    putc('\n', file);
}

static bool write_texts(job *j, words *w, const char *const *texts, int count, report *r) {
    j->writer.type = j->chosen->half ? NPY_F16 : NPY_F32;
    if (!embedding_create(&j->writer, r)) return false;
    if (!embedding_begin(&j->writer, &j->choice, &j->model, r) ||
        !add_texts(j, w, texts, count, r)) {
        embedding_abandon(&j->writer);
        return false;
    }
    write_text_summary(j, j->writer.json.file);
    if (!embedding_commit(&j->writer, r)) return false;
    if (j->chosen->json) write_text_summary(j, stdout);
    else if (!j->chosen->quiet)
        text_print(stdout, "%s: %d texts, %d values each\n", j->chosen->output, count, w->dim);
    return true;
}

static bool embed_texts(job *j, report *r) {
    const choices *c = j->chosen;
    const embedding_request asked = { PROGRAM, c->model, NULL, -1, { 0, 0, 0 } };
    words w = { 0 };
    char *list = NULL;
    const char **texts = NULL;
    int count;
    bool good = embedding_name(&j->writer, c->output, c->names, r) &&
                words_read(c->texts, &list, &texts, &count, r) &&
                cli_model_choose(c->model, c->img_size, &j->model, &j->path, r);
    if (good)
        good = (words_open(&w, &j->model, c->isa, PROGRAM, r) &&
                embedding_choose_joint(&j->choice, &asked, w.dim, &j->model, r)) ||
               report_file(r, j->path);
    good = good && write_texts(j, &w, texts, count, r);
    words_close(&w);
    free(texts);
    free(list);
    return good;
}

/* ------------------------------------------------------------------------- */
/* Shards                                                                    */
/* ------------------------------------------------------------------------- */

static bool choose_recipe(job *j, shard_recipe *recipe, report *r) {
    const choices *c = j->chosen;
    recipe->model = &j->model;
    recipe->model_path = j->path;
    recipe->choice = j->choice;
    recipe->type = c->half ? NPY_F16 : NPY_F32;
    recipe->classes = c->classes;
    recipe->photos = c->photos;
    if (!c->classes || j->model.config.num_classes) return true;
    return report_fail(r, "--classify needs a model that names classes") || report_file(r, j->path);
}

/* Fails if photos may have different grids, because the files of a shard do not contain the grid of
 * each photo. */
static bool check_tokens(const job *j, report *r) {
    return !has_grids(j) ||
           report_fail(r, "--pool tokens with --tar needs photos with equal numbers of tokens, but "
                          "the model has crop_mode=aspect; give another --pool") ||
           report_file(r, j->path);
}

static bool embed_shards(job *j, const text_list *operands, report *r) {
    const choices *c = j->chosen;
    shard_task task;
    bool good;
    memset(&task, 0, sizeof task);
    task.program = PROGRAM;
    task.folder = c->output;
    task.name = c->shard;
    task.shards = &j->shards;
    task.num_threads = c->num_threads;
    task.batch = c->batch;
    task.isa = c->isa;
    if (!cli_model_choose(c->model, c->img_size, &j->model, &j->path, r) ||
        !embedding_choose(&j->choice, c->pool, c->block, &j->model, r) || !check_tokens(j, r) ||
        !choose_recipe(j, &task.recipe, r) ||
        !shard_part_choose(&task.part, c->part, c->parts, r) ||
        !shard_list_open(&j->shards, operands, &c->lists, c->shard, r))
        return false;
    good = shard_task_run(&task, &j->totals, r);
    if (c->json || !c->quiet) shard_totals_print(&task, &j->totals, c->json);
    return good && j->totals.failed == 0;
}

static bool collect(job *j, const text_list *operands, report *r) {
    const choices *c = j->chosen;
    shard_collected all;
    if (!shard_list_open(&j->shards, operands, &c->lists, c->shard, r) ||
        !shard_collect(PROGRAM, c->collect, &j->shards, &all, r))
        return false;
    shard_collected_print(PROGRAM, c->collect, &all, c->json);
    return shard_all_there(&all);
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Writes the embedding of each IMAGE as a row of a NumPy array [n, dim] of float32. A folder\n"
    "stands for all images in it and below it, sorted. OUT.txt receives the path of each row, and\n"
    "OUT.json the model and the options. OUT.rows keeps each row as soon as it is computed, so the\n"
    "same command continues an interrupted run. Later, the same command updates OUT.npy: it\n"
    "computes new and changed images and drops deleted ones.\n"
    "With --texts, the model's text encoder computes a row from each text. These rows are scaled to\n"
    "length 1.\n"
    "With --tar, each SHARD is an archive in webdataset's form, a range such as\n"
    "part-{00000..00999}.tar, a folder of archives, or '-'. For part-00017.tar the folder OUT\n"
    "receives img_emb/img_emb_00017.npy, metadata/metadata_00017.jsonl and\n"
    "stats/stats_00017.json.\n";

static const char notes[] =
    "--pool head (default) writes the input of the model's head. --pool logits writes the head's\n"
    "output; for CLIP, these vectors can be compared with texts. --pool cls writes the class token,\n"
    "--pool avg the mean of the patches, and --pool tokens all tokens, [n, tokens, dim]. With\n"
    "--max-patches or crop_mode=aspect, photos have different numbers of tokens: zeros fill the rest\n"
    "of each row, and \"grids\" of OUT.json has the height and width of each photo's grid. Blocks\n"
    "count from 0, as in timm. --block omits the final norm. With --block, the default pool is cls\n"
    "if the model has a class token, and avg if it has none.\n"
    "If a path has a newline, a carriage return or a backslash, its line in OUT.txt begins with\n"
    "a backslash, and these characters are written \\n, \\r and \\\\, as by sha256sum.\n"
    "A shard's metadata have a line for each row, then a line for each unreadable image. A run skips\n"
    "a shard if the checksums in its record show that its output is complete. A killed task can\n"
    "therefore be started again, on any machine. A truncated shard is reported and leaves no\n"
    "output; the run continues. --part auto reads the part from the environment variables of mpirun\n"
    "(OMPI_, PMI_) or srun. With --parts N, it also reads those of a Slurm array (numbered from 0)\n"
    "or of GNU parallel. With SHARDs, --collect reports which of them are missing. Without SHARDs,\n"
    "it reports gaps between the numbers of the shards.\n"
    "An unreadable image is reported and has no row; the next run tries it again. The number of\n"
    "threads, the batch and earlier runs do not change a bit of the result. All files but\n"
    "OUT.rows appear when everything is done, or not at all. OUT.rows identifies an image by its\n"
    "path, size and modification time. If one of these has changed, a hash of the bytes identifies\n"
    "the image. If another model or other options would change the vectors, give another OUT or\n"
    "--overwrite.\n"
    "Exit status: 0 on success, 1 if an image could not be read (with --tar, a shard) or\n"
    "something failed, 2 for a wrong command.\n";

/* Returns the error in the options; NULL if there is none. */
static const char *check_choices(const choices *c, const text_list *operands) {
    const bool none = operands->count + c->lists.count == 0;
    const bool piped = operands->count == 1 && strcmp(operands->items[0], "-") == 0;
    if (c->collect)
        return c->output || c->part ? "--collect writes no files and excludes -o and --part" : NULL;
    if (!c->output) return c->tar ? "missing -o OUT" : "missing -o OUT.npy";
    if (strcmp(c->output, "-") == 0)
        return "-o cannot be '-', because other files are written beside it";
    if (c->texts)
        return !none || c->tar || c->pool || c->block >= 0 || c->null || c->shard || c->part ||
                       c->parts || c->classes || c->overwrite
                   ? "--texts excludes images and the options for images"
                   : NULL;
    if (none) return c->tar ? "missing SHARD" : "missing IMAGE, FOLDER or --list FILE";
    if (c->null && (c->tar || c->lists.count == 0)) return "--null needs --list FILE of images";
    if (c->tar && c->names)
        return "--tar writes the names of the images into the metadata: leave out --names";
    if (c->tar && c->overwrite)
        return "--overwrite is for OUT.npy; with --tar, remove the folder OUT";
    if (!c->tar && (c->shard || c->part || c->parts || c->classes))
        return "--shard, --part, --parts and --classify need --tar";
    return c->shard && !piped
               ? "--shard names the shard on standard input: expected '-' as the only operand"
               : NULL;
}

static bool choose(int argc, char **argv, choices *c, text_list *operands, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        { 'o', "output", "OUT.npy", "the file to write", CLI_OUTPUT, &c->output, 0, 0 },
        { 0, "names", "FILE", "file for the paths of the images, instead of OUT.txt", CLI_OUTPUT,
          &c->names, 0, 0 },
        PHOTO_LIST_OPTIONS(&c->lists, &c->null),
        { 0, "pool", "NAME", "head, logits, cls, avg or tokens: see below", CLI_TEXT, &c->pool, 0,
          0 },
        { 0, "block", "B", "use the output tokens of block B", CLI_INT, &c->block, 0, 1023 },
        { 0, "normalize", NULL, "scale each vector to length 1", CLI_FLAG, &c->normalize, 0, 0 },
        { 0, "overwrite", NULL, "discard OUT.rows and compute everything again", CLI_FLAG,
          &c->overwrite, 0, 0 },
        { 0, "f16", NULL, "write float16, rounded, instead of float32", CLI_FLAG, &c->half, 0, 0 },
        { 0, "texts", "FILE", "embed each line of FILE with the text encoder, instead of images",
          CLI_TEXT, &c->texts, 0, 0 },
        { 0, "tar", NULL, "the operands are shards, OUT is a folder", CLI_FLAG, &c->tar, 0, 0 },
        { 0, "shard", "NAME", "with --tar -: the shard's name", CLI_TEXT, &c->shard, 0, 0 },
        { 0, "part", "I/N|auto", "embed every N-th shard, from shard I on; shards count from 0",
          CLI_TEXT, &c->part, 0, 0 },
        { 0, "parts", "N", "with --part auto: the number of jobs in the array", CLI_INT, &c->parts,
          1, 10000000 },
        { 0, "classify", "K", "write the K best classes into the metadata of shards", CLI_INT,
          &c->classes, 1, 1000 },
        { 0, "collect", "OUT", "verify all shards in OUT, list missing ones, print totals",
          CLI_TEXT, &c->collect, 0, 0 },
        CLI_OPTION_IMG_SIZE(c->img_size),
        CLI_OPTION_BATCH(&c->batch, "4 on each thread"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        CLI_OPTION_JSON(&c->json, "print one JSON object at the end"),
        CLI_OPTION_QUIET(&c->quiet),
        PHOTO_EXACT_OPTION(&c->photos),
        PHOTO_OPTIONS(&c->photos),
        CLI_END,
    };
    const cli_program program = { PROGRAM,
                                  "[options] IMAGE|FOLDER... -o OUT.npy\n"
                                  "       @ [options] --texts FILE -o OUT.npy\n"
                                  "       @ [options] --tar SHARD... -o OUT\n"
                                  "       @ --collect OUT [SHARD...]",
                                  description,
                                  options,
                                  notes,
                                  0,
                                  CLI_MANY,
                                  "IMAGE",
                                  photos_library() };
    const char *wrong;
    if (!cli_parse(&program, argc, argv, operands, status)) return false;
    wrong = check_choices(c, operands);
    if (!wrong) return true;
    *status = cli_wrong(PROGRAM, "%s", wrong);
    text_list_free(operands);
    return false;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-embed");
    choices chosen;
    text_list operands;
    report r = report_make();
    job j;
    bool good;
    int status;
    memset(&chosen, 0, sizeof chosen);
    memset(&j, 0, sizeof j);
    chosen.block = -1;
    j.chosen = &chosen;
    if (!choose(argc, argv, &chosen, &operands, &status)) {
        text_list_free(&chosen.lists);
        return status;
    }
    j.choice.normalize = chosen.normalize;
    good = chosen.collect ? collect(&j, &operands, &r)
           : chosen.tar   ? embed_shards(&j, &operands, &r)
           : chosen.texts ? embed_texts(&j, &r)
                          : embed(&j, &operands, &r);
    if (r.failed) report_print(&r, PROGRAM);
    embedding_writer_free(&j.writer);
    photos_free(&j.photos);
    free(j.stamps);
    free(j.rows);
    free(j.missing);
    free(j.grids);
    shard_list_close(&j.shards);
    vit_model_close(&j.model);
    free(j.path);
    text_list_free(&operands);
    text_list_free(&chosen.lists);
    status = cli_finish(PROGRAM, good && j.counts.unreadable == 0 ? CLI_OK : CLI_FAILED);
    if (!good) os_end_stopped();
    return status;
}
