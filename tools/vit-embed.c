/* vit-embed.c - the embeddings of photos, as a NumPy array to search in.
 *
 *     embed photos/ -o photos.npy                     with the bundled model
 *     find / -name '*.jpg' -print0 | embed -m dino.vit --list - --null -o all.npy
 *
 * Beside photos.npy [n, dim] come photos.txt, with the path of each row, and photos.json, with what
 * made them; search reads all three.
 *
 *     embed --tar 'part-{00000..00999}.tar' -o OUT --part auto    shards, on many machines
 *     embed --collect OUT                                         whether all of it is there
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "infer/embedding.h"
#include "infer/infer.h"
#include "os/os.h"
#include "shards/embed_shards.h"
#include "vit.h"

#define PROGRAM cli_name()

/* The command line. */
typedef struct choices {
    const char *model, *output, *names, *pool;
    text_list lists;
    int img_size[2]; /* height and width; 0: the model's own */
    int block;       /* 0-based; -1: the model's output      */
    int batch, num_threads;
    vit_isa isa;
    bool normalize, null, json, half, quiet;
    bool tar; /* the operands are shards; the following are for these alone */
    const char *shard, *part, *collect;
    int parts, classes;
    photo_options photos;
} choices;

/* Everything that is kept until the end. Zeroed, then filled step by step. */
typedef struct job {
    const choices *chosen;
    vit_model model;
    char *path; /* of the model */
    photo_paths photos;
    embedding_choice choice;
    embedding_writer writer;
    infer_counts counts;
    shard_list shards;
    shard_totals totals;
} job;

/* infer_take: the next row. */
static bool take_row(void *user, infer_result *result, report *r) {
    job *j = user;
    if (result->error) return true;
    return embedding_add(&j->writer, result->name, embedding_of(&j->choice, &j->model, result), r);
}

static void put_summary(const job *j, json_writer *w) {
    char decoding[PHOTOS_DECODING_SIZE];
    json_put_begin(w, NULL, '{');
    embedding_put(w, &j->choice, &j->model, j->path);
    json_put_begin(w, "shape", '[');
    for (int i = 0; i < j->writer.ndim; i++) json_put_integer(w, NULL, j->writer.dims[i]);
    json_put_end(w, ']');
    json_put_integer(w, "images", (int64_t)j->counts.read);
    json_put_integer(w, "unreadable", (int64_t)j->counts.unreadable);
    json_put_text(w, "decoder", photos_decoding(&j->chosen->photos, decoding));
}

/* The same into the file beside the vectors, and on standard output with where they are and how
 * long it took. */
static void write_summary(job *j) {
    json_writer w = json_write_to(j->writer.json.file);
    put_summary(j, &w);
    json_put_end(&w, '}');
    putc('\n', j->writer.json.file);
}

static void print_summary(const job *j) {
    char images[32], unreadable[32];
    json_writer w = json_write_to(stdout);
    if (j->chosen->quiet && !j->chosen->json) return;
    if (!j->chosen->json) {
        fprintf(stderr, "%s: %s image%s in %.1f s, %.1f images/s; %s unreadable\n", PROGRAM,
                text_grouped(j->counts.read, images), j->counts.read == 1 ? "" : "s",
                j->counts.seconds, (double)j->counts.read / j->counts.seconds,
                text_grouped(j->counts.unreadable, unreadable));
        return;
    }
    put_summary(j, &w);
    json_put_text(&w, "output", j->chosen->output);
    json_put_text(&w, "names", j->writer.names_path);
    json_put_decimals(&w, "seconds", j->counts.seconds, 3);
    json_put_decimals(&w, "images_per_second", (double)j->counts.read / j->counts.seconds, 1);
    json_put_end(&w, '}');
    putchar('\n');
}

static bool infer_all(job *j, report *r) {
    photo_source source = photo_paths_source(&j->photos);
    infer_settings settings;
    photo_decoder *decoder = photo_decoder_open(&j->chosen->photos, PROGRAM, j->chosen->num_threads,
                                                r);
    bool good;
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
    settings.user = j;
    embedding_ask(&j->choice, &settings);
    good = infer_run(&settings, &source, &j->counts, r);
    photo_decoder_close(decoder);
    if (!good) return false;
    return j->counts.read > 0 || report_fail(r, "no image could be read; nothing was written");
}

static bool write_all(job *j, report *r) {
    j->writer.type = j->chosen->half ? NPY_F16 : NPY_F32;
    if (!embedding_begin(&j->writer, &j->choice, &j->model, r) || !infer_all(j, r)) {
        embedding_abandon(&j->writer);
        return false;
    }
    write_summary(j);
    if (!embedding_commit(&j->writer, r)) return false;
    print_summary(j);
    return true;
}

static bool embed(job *j, const text_list *operands, report *r) {
    const choices *c = j->chosen;
    return embedding_name(&j->writer, c->output, c->names, r) &&
           cli_model_choose(c->model, c->img_size, &j->model, &j->path, r) &&
           embedding_choose(&j->choice, c->pool, c->block, &j->model, r) &&
           photo_paths_open(&j->photos, operands, &c->lists, c->null ? '\0' : '\n', r) &&
           embedding_create(&j->writer, r) && write_all(j, r);
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
    return report_fail(r, "--classify: the model names no classes") || report_file(r, j->path);
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
        !embedding_choose(&j->choice, c->pool, c->block, &j->model, r) ||
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
    "stands for all images in it and below it, sorted. Beside OUT.npy come OUT.txt, with the path\n"
    "of each row, and OUT.json, with the model and the options that made them.\n"
    "With --tar each SHARD is an archive in webdataset's form, a range such as\n"
    "part-{00000..00999}.tar, a folder of them, or '-'; of part-00017.tar the folder OUT receives\n"
    "img_emb/img_emb_00017.npy, metadata/metadata_00017.jsonl and stats/stats_00017.json.\n";

static const char notes[] =
    "--pool: head, what the model's head reads (default); logits, what it gives: of CLIP, the\n"
    "vectors to compare with texts; cls, the class token; avg, the mean of the patches; tokens,\n"
    "all of them: [n, tokens, dim]. Blocks count from 0, as in timm; of a --block, without the\n"
    "final norm, the default is cls, or avg if the model has no class token.\n"
    "A path with a newline, a carriage return or a backslash has a line in OUT.txt that begins\n"
    "with a backslash, with \\n, \\r and \\\\ for these, as in sha256sum's output.\n"
    "Shards: a line of metadata for each row, then one for each image that cannot be read. What\n"
    "is complete, by the checksums of its record, is passed over: start a task that was killed\n"
    "again, here or elsewhere. A shard that is cut short is named and leaves nothing; the next\n"
    "one follows. --part auto asks mpirun (OMPI_, PMI_), srun, and, with --parts N, an array of\n"
    "Slurm's (numbered from 0) or GNU parallel's. --collect takes the same shards, or looks for\n"
    "gaps.\n"
    "An image that cannot be read is named and has no row. The threads and the batch change no\n"
    "bit of the result. The files appear when all is done, or not at all.\n"
    "Exit status: 0, 1 if an image could not be read (with --tar, a shard) or something failed, 2\n"
    "for a wrong command line.\n";

/* What is wrong with them; NULL: nothing. */
static const char *check_choices(const choices *c, const text_list *operands) {
    const bool none = operands->count + c->lists.count == 0;
    const bool piped = operands->count == 1 && strcmp(operands->items[0], "-") == 0;
    if (c->collect)
        return c->output || c->part ? "--collect writes nothing: no -o, no --part" : NULL;
    if (!c->output) return c->tar ? "missing -o OUT" : "missing -o OUT.npy";
    if (strcmp(c->output, "-") == 0)
        return "-o names a file, beside which others are written; '-' is none";
    if (none) return c->tar ? "missing SHARD" : "missing IMAGE, FOLDER or --list FILE";
    if (c->null && (c->tar || c->lists.count == 0)) return "--null needs --list FILE of images";
    if (c->tar && c->names) return "--tar writes its names into the metadata, not into --names";
    if (!c->tar && (c->shard || c->part || c->parts || c->classes))
        return "--shard, --part, --parts and --classify need --tar";
    return c->shard && !piped ? "--shard is the name of '-', the only shard" : NULL;
}

static bool choose(int argc, char **argv, choices *c, text_list *operands, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        { 'o', "output", "OUT.npy", "the file to write", CLI_OUTPUT, &c->output, 0, 0 },
        { 0, "names", "FILE", "the names' file, instead of OUT.txt", CLI_OUTPUT, &c->names, 0, 0 },
        PHOTO_LIST_OPTIONS(&c->lists, &c->null),
        { 0, "pool", "NAME", "head, logits, cls, avg or tokens: see below", CLI_TEXT, &c->pool, 0,
          0 },
        { 0, "block", "B", "of the tokens that leave block B", CLI_INT, &c->block, 0, 1023 },
        { 0, "normalize", NULL, "scale each vector to length 1", CLI_FLAG, &c->normalize, 0, 0 },
        { 0, "f16", NULL, "write float16, rounded, instead of float32", CLI_FLAG, &c->half, 0, 0 },
        { 0, "tar", NULL, "the operands are shards, OUT is a folder", CLI_FLAG, &c->tar, 0, 0 },
        { 0, "shard", "NAME", "of --tar -: the shard's name", CLI_TEXT, &c->shard, 0, 0 },
        { 0, "part", "I/N|auto", "every N-th shard from the I-th on, counted from 0", CLI_TEXT,
          &c->part, 0, 0 },
        { 0, "parts", "N", "of --part auto: the jobs of an array", CLI_INT, &c->parts, 1,
          10000000 },
        { 0, "classify", "K", "of shards: the K best classes into the metadata", CLI_INT,
          &c->classes, 1, 1000 },
        { 0, "collect", "OUT", "verify all shards in OUT, list what is missing, add up", CLI_TEXT,
          &c->collect, 0, 0 },
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
                          : embed(&j, &operands, &r);
    if (r.failed) report_print(&r, PROGRAM);
    embedding_writer_free(&j.writer);
    photo_paths_close(&j.photos);
    shard_list_close(&j.shards);
    vit_model_close(&j.model);
    free(j.path);
    text_list_free(&operands);
    text_list_free(&chosen.lists);
    return cli_finish(PROGRAM, good && j.counts.unreadable == 0 ? CLI_OK : CLI_FAILED);
}
