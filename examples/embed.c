/* embed.c - the embeddings of photos, as a NumPy array to search in.
 *
 *     embed photos/ -o photos.npy                     with the bundled model
 *     find / -name '*.jpg' -print0 | embed -m dino.vit --list - --null -o all.npy
 *
 * Beside photos.npy [n, dim] come photos.txt, with the path of each row, and photos.json, with what
 * made them; search reads all three.
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
#include "vit.h"

#define PROGRAM "embed"

/* The command line. */
typedef struct choices {
    const char *model, *output, *names, *pool;
    text_list lists;
    int img_size[2];    /* height and width; 0: the model's own */
    int layer;          /* 0-based; -1: the model's output      */
    int batch, num_threads;
    bool normalize, null, json;
    photo_options photos;
} choices;

/* Everything that is kept until the end. Zeroed, then filled step by step. */
typedef struct job {
    const choices *chosen;
    vit_model model;
    char *path;         /* of the model */
    photo_paths photos;
    embedding_choice choice;
    embedding_writer writer;
    infer_counts counts;
} job;

/* infer_take: the next row. */
static bool take_row(void *user, infer_result *result, report *r) {
    job *j = user;
    if (result->error) return true;
    return embedding_add(&j->writer, result->name, embedding_of(&j->choice, &j->model, result), r);
}

static void put_summary(const job *j, json_writer *w) {
    json_put_begin(w, NULL, '{');
    embedding_put(w, &j->choice, &j->model, j->path);
    json_put_begin(w, "shape", '[');
    for (int i = 0; i < j->writer.ndim; i++) json_put_integer(w, NULL, j->writer.dims[i]);
    json_put_end(w, ']');
    json_put_integer(w, "images", (int64_t)j->counts.read);
    json_put_integer(w, "unreadable", (int64_t)j->counts.unreadable);
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
    if (!j->chosen->json) {
        fprintf(stderr, PROGRAM ": %s images in %.1f s, %.1f images/s; %s unreadable\n",
                text_grouped(j->counts.read, images), j->counts.seconds,
                (double)j->counts.read / j->counts.seconds,
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
    memset(&settings, 0, sizeof settings);
    settings.model = &j->model;
    settings.program = PROGRAM;
    settings.num_threads = j->chosen->num_threads;
    settings.batch = j->chosen->batch;
    settings.photos = j->chosen->photos;
    settings.progress = true;
    settings.take = take_row;
    settings.user = j;
    embedding_ask(&j->choice, &settings);
    if (!infer_run(&settings, &source, &j->counts, r)) return false;
    return j->counts.read > 0 || report_fail(r, "no image could be read; nothing was written");
}

/* The files that are read, which must not be written. */
static bool create_output(job *j, const text_list *operands, report *r) {
    const choices *c = j->chosen;
    const text_list *lists[2] = { operands, &c->lists };
    text_list inputs = { NULL, 0 };
    bool good = text_list_append(&inputs, j->path);
    for (int l = 0; l < 2; l++) {
        for (int i = 0; good && i < lists[l]->count; i++) {
            good = text_list_append(&inputs, lists[l]->items[i]);
        }
    }
    if (!good) (void)report_no_memory(r);
    good = good && embedding_create(&j->writer, c->output, c->names, inputs.items, inputs.count, r);
    text_list_free(&inputs);
    return good;
}

static bool write_all(job *j, report *r) {
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
    return cli_model_choose(c->model, c->img_size, &j->model, &j->path, r) &&
           embedding_choose(&j->choice, c->pool, c->layer, &j->model, r) &&
           photo_paths_open(&j->photos, operands, &c->lists, c->null ? '\0' : '\n', r) &&
           create_output(j, operands, r) && write_all(j, r);
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Writes the embedding of each IMAGE as a row of a NumPy array [n, dim] of float32. A folder\n"
    "stands for all images in it and below it, sorted. Beside OUT.npy come OUT.txt, with the path\n"
    "of each row, and OUT.json, with the model and the options that made them.\n";

static const char notes[] =
    "--pool: head, what the model's head reads (default); logits, what it gives: of CLIP, the\n"
    "vectors to compare with texts; cls, the class token; avg, the mean of the patches; tokens,\n"
    "all of them: [n, tokens, dim]. Blocks count from 0, as in timm; of a --layer, without the\n"
    "final norm, the default is cls, or avg if the model has no class token.\n"
    "A path with a newline, a carriage return or a backslash has a line in OUT.txt that begins\n"
    "with a backslash, with \\n, \\r and \\\\ for these, as in sha256sum's output.\n"
    "An image that cannot be read is named and has no row. The threads and the batch change no\n"
    "bit of the result. The files appear when all is done, or not at all.\n"
    "Exit status: 0, 1 if an image could not be read or something failed, 2 for a wrong command\n"
    "line.\n";

static bool choose(int argc, char **argv, choices *c, text_list *operands, int *status) {
    const cli_option options[] = {
        { 'm', "model", "MODEL.vit", "the model (default: the bundled cifar10-vit.vit)", CLI_TEXT,
          &c->model, 0, 0 },
        { 'o', "output", "OUT.npy", "the file to write", CLI_TEXT, &c->output, 0, 0 },
        { 0, "names", "FILE", "the names' file, instead of OUT.txt", CLI_TEXT, &c->names, 0, 0 },
        { 0, "list", "FILE", "a file with a path in each line; '-': standard input", CLI_LIST,
          &c->lists, 0, 0 },
        { '0', "null", NULL, "paths in lists end with a NUL, as of find -print0", CLI_FLAG,
          &c->null, 0, 0 },
        { 0, "pool", "NAME", "head, logits, cls, avg or tokens: see below", CLI_TEXT, &c->pool, 0,
          0 },
        { 0, "layer", "N", "of the tokens that leave block N", CLI_INT, &c->layer, 0, 1023 },
        { 0, "normalize", NULL, "scale each vector to length 1", CLI_FLAG, &c->normalize, 0, 0 },
        { 0, "img-size", "N|HxW", "input size, for models converted with --dynamic", CLI_SIZE,
          c->img_size, 1, 16384 },
        { 'b', "batch", "N", "images that a thread computes together (default 4)", CLI_INT,
          &c->batch, 1, 1024 },
        { 't', "threads", "N", "threads (default 0: one per core)", CLI_INT, &c->num_threads, 0,
          256 },
        { 0, "json", NULL, "print one JSON object at the end", CLI_FLAG, &c->json, 0, 0 },
        PHOTO_OPTIONS(&c->photos),
        CLI_END
    };
    const cli_program program = { PROGRAM, "[options] IMAGE|FOLDER... -o OUT.npy", description,
                                  options, notes, 0, CLI_MANY, "IMAGE" };
    const char *wrong = NULL;
    if (!cli_parse(&program, argc, argv, operands, status)) return false;
    if (!c->output) wrong = "missing -o OUT.npy";
    else if (operands->count + c->lists.count == 0) wrong = "missing IMAGE, FOLDER or --list FILE";
    else if (c->null && c->lists.count == 0) wrong = "--null needs --list FILE";
    if (!wrong) return true;
    report_error(PROGRAM, NULL, "%s (try '" PROGRAM " --help')", wrong);
    text_list_free(operands);
    *status = CLI_USAGE;
    return false;
}

int main(int argc, char **argv) {
    os_start(&argc, &argv);
    choices chosen;
    text_list operands;
    report r = report_make();
    job j;
    bool good;
    int status;
    memset(&chosen, 0, sizeof chosen);
    memset(&j, 0, sizeof j);
    chosen.layer = -1;
    j.chosen = &chosen;
    if (!choose(argc, argv, &chosen, &operands, &status)) {
        text_list_free(&chosen.lists);
        return status;
    }
    j.choice.normalize = chosen.normalize;
    good = embed(&j, &operands, &r);
    if (r.failed) report_print(&r, PROGRAM);
    embedding_writer_free(&j.writer);
    photo_paths_close(&j.photos);
    vit_model_close(&j.model);
    free(j.path);
    text_list_free(&operands);
    text_list_free(&chosen.lists);
    return cli_finish(PROGRAM, good && j.counts.unreadable == 0 ? CLI_OK : CLI_FAILED);
}
