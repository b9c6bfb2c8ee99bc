/* classify.c - says what is in a photo.
 *
 *     classify cat.jpg                    with the bundled model
 *     classify -m vit_base.vit -k 3 *.jpg
 *
 * The forward pass is in infer.h, one photo after the other on all cores. hello.c does the same in
 * ten lines, README.md's frames.c with a session of its own.
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
#include "infer/infer.h"
#include "vit.h"

#define PROGRAM "classify"

/* The command line. */
typedef struct choices {
    const char *model;
    int img_size[2]; /* height and width; 0: the model's own */
    int k;           /* 0: not given */
    double above;    /* print all that are at least so likely; below 0: not given */
    int num_threads;
    bool sigmoid, json, no_exif;
} choices;

typedef struct classifier {
    const choices *chosen;
    int num_images;
    vit_model model;
    char *path;             /* of the model */
    float *probs;           /* [num_classes] */
    vit_prediction *top;    /* the most likely first: k, or all for --above */
} classifier;

/* Everything zeroed may be closed, also what was opened only halfway. */
static void classifier_close(classifier *c) {
    free(c->top);
    free(c->probs);
    free(c->path);
    vit_model_close(&c->model);
}

/* On failure the reason is on stderr. Close it either way. */
static bool classifier_open(classifier *c) {
    report r = report_make();
    size_t classes, listed;
    if (!cli_model_choose(c->chosen->model, c->chosen->img_size, &c->model, &c->path, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    classes = (size_t)c->model.config.num_classes;
    if (classes == 0) {
        report_error(PROGRAM, c->path, "names no classes; for its embeddings use embed");
        return false;
    }
    if (c->chosen->sigmoid) c->model.config.head_activation = VIT_HEAD_SIGMOID;
    listed = c->chosen->above >= 0 ? classes : (size_t)c->chosen->k;
    c->probs = malloc(classes * sizeof *c->probs);
    c->top = malloc(listed * sizeof *c->top);
    if (c->probs && c->top) return true;
    report_error(PROGRAM, c->path, "out of memory");
    return false;
}

/* ------------------------------------------------------------------------- */
/* Its answer                                                                */
/* ------------------------------------------------------------------------- */

/* Ranks the classes in c->top; returns how many to print. */
static int rank(const classifier *c, const float *logits) {
    int classes = c->model.config.num_classes, count = 0;
    if (c->chosen->above < 0) return vit_top_k(logits, classes, c->chosen->k, c->top);
    vit_top_k(logits, classes, classes, c->top);
    while (count < classes && (double)c->probs[c->top[count].index] >= c->chosen->above) count++;
    return count;
}

static void print_text(const classifier *c, int count) {
    if (count == 0) puts("        no class is that likely"); /* --above */
    for (int i = 0; i < count; i++) {
        int index = c->top[i].index;
        const char *label = vit_label(&c->model, index);
        printf("%5.1f %%  ", 100.0 * (double)c->probs[index]);
        if (label) puts(label);
        else printf("class %d\n", index);
    }
}

static void print_json(const classifier *c, const infer_result *result, int count) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "image", result->name);
    json_put_begin(&w, "top", '[');
    for (int i = 0; i < count; i++) {
        int index = c->top[i].index;
        json_put_begin(&w, NULL, '{');
        json_put_integer(&w, "index", index);
        json_put_text(&w, "label", vit_label(&c->model, index));
        json_put_number(&w, "prob", (double)c->probs[index], 9);
        json_put_number(&w, "logit", (double)result->logits[index], 9);
        json_put_end(&w, '}');
    }
    json_put_end(&w, ']');
    json_put_text(&w, "isa", vit_isa_name(vit_detect_isa()));
    json_put_begin(&w, "ms", '{');
    json_put_decimals(&w, "load", result->decode_ms, 3);
    json_put_decimals(&w, "preprocess", result->preprocess_ms, 3);
    json_put_decimals(&w, "forward", result->forward_ms, 3);
    json_put_end(&w, '}');
    json_put_end(&w, '}');
    putchar('\n');
}

/* infer_take */
static bool print_result(void *user, infer_result *result, report *r) {
    classifier *c = user;
    const int classes = c->model.config.num_classes;
    int count;
    (void)r;
    if (result->error) return true;
    memcpy(c->probs, result->logits, (size_t)classes * sizeof *c->probs);
    vit_scores(&c->model, c->probs);
    count = rank(c, result->logits);
    if (c->chosen->json) {
        print_json(c, result, count);
    } else {
        if (c->num_images > 1) printf("%s\n", result->name);
        print_text(c, count);
    }
    return cli_flush(PROGRAM);
}

/* ------------------------------------------------------------------------- */
/* All of them                                                               */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Prints the most likely classes of each IMAGE: a JPEG, PNG, BMP, GIF (its first frame), TGA,\n"
    "PGM or PPM file, or '-' for standard input. Grey, palette and alpha images are converted to\n"
    "RGB. JPEGs are rotated as their EXIF orientation says. Of a tagger, --above 0.35 prints all\n"
    "labels of an image.\n";

static const char notes[] =
    "timm and Pillow ignore the EXIF orientation; use --no-exif for the same results.\n"
    "Exit status: 0, 1 if an image could not be read, 2 for a wrong command line.\n";

/* Sets the choices from the command line; false as cli_parse. */
static bool choose(int argc, char **argv, choices *c, text_list *images, int *status) {
    const cli_option options[] = {
        { 'm', "model", "MODEL.vit", "the model (default: the bundled cifar10-vit.vit)", CLI_TEXT,
          &c->model, 0, 0 },
        { 0, "img-size", "N|HxW", "input size, for models converted with --dynamic", CLI_SIZE,
          c->img_size, 1, 16384 },
        { 'k', "top", "N", "how many classes to print (default 5)", CLI_INT, &c->k, 1, 1000 },
        { 0, "above", "P", "print all classes with a probability of at least P instead",
          CLI_NUMBER, &c->above, 0, 1 },
        { 0, "sigmoid", NULL, "any number of classes may be right: for taggers whose file does\n"
          "not say so", CLI_FLAG, &c->sigmoid, 0, 0 },
        { 't', "threads", "N", "threads to compute with (default 0: one per core)", CLI_INT,
          &c->num_threads, 0, 256 },
        { 0, "json", NULL, "print one JSON object per image and line", CLI_FLAG, &c->json, 0, 0 },
        { 0, "no-exif", NULL, "ignore the EXIF orientation", CLI_FLAG, &c->no_exif, 0, 0 },
        CLI_END
    };
    const cli_program program = { PROGRAM, "[options] IMAGE...", description, options, notes, 1,
                                  CLI_MANY, "IMAGE" };
    if (!cli_parse(&program, argc, argv, images, status)) return false;
    if (c->above >= 0 && c->k > 0) {
        report_error(PROGRAM, NULL, "either --top or --above, not both (try '" PROGRAM " --help')");
        text_list_free(images);
        *status = CLI_USAGE;
        return false;
    }
    if (c->k == 0) c->k = 5;
    return true;
}

/* Every image is tried; one that fails is reported and counts for the exit status. */
static bool classify_all(classifier *c, const text_list *images) {
    infer_settings settings;
    infer_counts counts;
    photo_paths paths;
    photo_source source;
    report r = report_make();
    bool good = true;
    memset(&settings, 0, sizeof settings);
    memset(&paths, 0, sizeof paths);
    for (int i = 0; good && i < images->count; i++) {
        good = photos_append(&paths.list, images->items[i], &r);
    }
    source = photo_paths_source(&paths);
    settings.model = &c->model;
    settings.program = PROGRAM;
    settings.num_threads = c->chosen->num_threads;
    settings.together = true;
    settings.no_exif = c->chosen->no_exif;
    settings.outputs = INFER_LOGITS;
    settings.take = print_result;
    settings.user = c;
    good = good && infer_run(&settings, &source, &counts, &r);
    if (r.failed) report_print(&r, PROGRAM);
    photo_paths_close(&paths);
    return good && counts.unreadable == 0;
}

int main(int argc, char **argv) {
    choices chosen = { NULL, { 0, 0 }, 0, -1.0, 0, false, false, false };
    classifier c;
    text_list images;
    bool good;
    int status;

    if (!choose(argc, argv, &chosen, &images, &status)) return status;
    memset(&c, 0, sizeof c);
    c.chosen = &chosen;
    c.num_images = images.count;
    good = classifier_open(&c) && classify_all(&c, &images);
    classifier_close(&c);
    text_list_free(&images);
    return cli_finish(PROGRAM, good ? CLI_OK : CLI_FAILED);
}
