/* classify.c - says what is in a photo.
 *
 *     classify cat.jpg                    with the bundled model
 *     classify -m vit_base.vit -k 3 *.jpg
 *
 * Demonstrates the usual way to use vit.h: one model, one thread pool and one session, set up
 * once and used for every photo, so that after the set-up nothing but a photo's own pixels is
 * allocated. hello.c does the same in ten lines; evaluate.c for many photos at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/report.h"
#include "base/text.h"
#include "cli/model.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "image/image_file.h"
#include "vit.h"

#define PROGRAM "classify"

/* The command line. */
typedef struct choices {
    const char *model;
    int img_size[2]; /* height and width; 0: the model's own */
    int k;
    int num_threads;
    bool json, no_exif;
} choices;

/* ------------------------------------------------------------------------- */
/* What is set up once                                                       */
/* ------------------------------------------------------------------------- */

typedef struct classifier {
    vit_model model;        /* the weights; read-only                                     */
    vit_threads *threads;   /* the pool that the session computes on                      */
    vit_session session;    /* everything else a forward pass needs ...                   */
    void *workspace;        /* ... in this memory                                         */
    void *scratch;          /* memory for vit_preprocess: of the largest photo so far     */
    size_t scratch_size;
    float *input;           /* [in_chans, img_height, img_width]                          */
    float *logits;          /* [num_classes]                                              */
    float *probs;           /* [num_classes]                                              */
    vit_prediction *top;    /* the k best                                                 */
} classifier;

/* Everything zeroed may be closed, also what was opened only halfway. */
static void classifier_close(classifier *c) {
    free(c->top);
    free(c->probs);
    free(c->logits);
    free(c->input);
    free(c->scratch);
    free(c->workspace);
    vit_threads_destroy(c->threads);
    vit_model_close(&c->model);
}

/* The session and its buffers, for one photo at a time. */
static vit_result classifier_allocate(classifier *c, const vit_params *params, int k) {
    const vit_config *config = &c->model.config;
    size_t pixels = (size_t)config->img_height * (size_t)config->img_width;
    size_t classes = (size_t)config->num_classes;
    size_t size = vit_workspace_size(&c->model, params);

    c->workspace = malloc(size);
    c->input = malloc((size_t)config->in_chans * pixels * sizeof(float));
    c->logits = malloc(classes * sizeof(float));
    c->probs = malloc(classes * sizeof(float));
    c->top = malloc((size_t)k * sizeof(vit_prediction));
    if (!c->workspace || !c->input || !c->logits || !c->probs || !c->top) return VIT_ERROR_MEMORY;
    return vit_session_init(&c->session, &c->model, params, c->workspace, size);
}

/* On failure the reason is on stderr. Close it either way. */
static bool classifier_open(classifier *c, const choices *chosen) {
    const char *path = chosen->model;
    const int *size = chosen->img_size;
    vit_params params = { 0 };
    vit_result result;
    report r = report_make();

    if (!cli_model_open(path, 0, &c->model, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    if (size[0] && vit_model_resize(&c->model, size[0], size[1]) != VIT_OK) {
        report_error(PROGRAM, path, "%s", c->model.detail);
        return false;
    }
    if (c->model.config.num_classes == 0) {
        report_error(PROGRAM, path, "names no classes; for its embeddings use vit-run");
        return false;
    }
    result = vit_threads_create(chosen->num_threads, &c->threads, &params.executor);
    if (result == VIT_OK) result = classifier_allocate(c, &params, chosen->k);
    if (result != VIT_OK) report_error(PROGRAM, path, "%s", vit_result_string(result));
    return result == VIT_OK;
}

/* ------------------------------------------------------------------------- */
/* One photo                                                                 */
/* ------------------------------------------------------------------------- */

typedef struct timings {
    double load, preprocess, forward; /* ms */
} timings;

/* Decoded pixels to the network's input. Photos differ in size, and so does the memory that
 * preprocessing wants; it is kept for the next one. */
static vit_result preprocess(classifier *c, const image_file *file) {
    vit_image image = { file->pixels, file->width, file->height, 0, VIT_PIXEL_RGB8 };
    size_t size = vit_preprocess_size(&c->model, &image);
    if (size > c->scratch_size) {
        void *larger = realloc(c->scratch, size);
        if (!larger) return VIT_ERROR_MEMORY;
        c->scratch = larger;
        c->scratch_size = size;
    }
    return vit_preprocess(&c->model, &image, c->input, c->scratch, c->scratch_size);
}

/* The network's input to logits and probabilities. */
static vit_result forward(classifier *c) {
    vit_outputs outputs = { 0 };
    vit_result result;
    size_t classes = (size_t)c->model.config.num_classes;
    outputs.logits = c->logits;
    result = vit_forward(&c->session, c->input, 1, &outputs);
    if (result != VIT_OK) return result;
    memcpy(c->probs, c->logits, classes * sizeof(float));
    vit_softmax(c->probs, c->model.config.num_classes);
    return VIT_OK;
}

/* On failure the reason is on stderr. */
static bool look_at(classifier *c, const char *path, unsigned flags, timings *ms) {
    image_file file;
    report r = report_make();
    vit_result result;
    double start = cli_now_ms(), loaded, prepared;

    if (!image_file_load(path, flags, &file, &r)) {
        report_print(&r, PROGRAM);
        return false;
    }
    loaded = cli_now_ms();
    result = preprocess(c, &file);
    image_file_free(&file);
    prepared = cli_now_ms();
    if (result == VIT_OK) result = forward(c);

    ms->load = loaded - start;
    ms->preprocess = prepared - loaded;
    ms->forward = cli_now_ms() - prepared;
    if (result != VIT_OK) report_error(PROGRAM, path, "%s", vit_result_string(result));
    return result == VIT_OK;
}

/* ------------------------------------------------------------------------- */
/* Its answer                                                                */
/* ------------------------------------------------------------------------- */

static void print_text(const classifier *c, int count) {
    for (int i = 0; i < count; i++) {
        int index = c->top[i].index;
        const char *label = vit_label(&c->model, index);
        printf("%5.1f %%  ", 100.0 * (double)c->probs[index]);
        if (label) puts(label);
        else printf("class %d\n", index);
    }
}

static void print_json(const classifier *c, const char *path, int count, const timings *ms) {
    json_writer w = json_write_to(stdout);
    json_put_begin(&w, NULL, '{');
    json_put_text(&w, "image", path);
    json_put_begin(&w, "top", '[');
    for (int i = 0; i < count; i++) {
        int index = c->top[i].index;
        json_put_begin(&w, NULL, '{');
        json_put_integer(&w, "index", index);
        json_put_text(&w, "label", vit_label(&c->model, index));
        json_put_number(&w, "prob", (double)c->probs[index], 9);
        json_put_number(&w, "logit", (double)c->logits[index], 9);
        json_put_end(&w, '}');
    }
    json_put_end(&w, ']');
    json_put_text(&w, "isa", vit_isa_name(vit_detect_isa()));
    json_put_begin(&w, "ms", '{');
    json_put_decimals(&w, "load", ms->load, 3);
    json_put_decimals(&w, "preprocess", ms->preprocess, 3);
    json_put_decimals(&w, "forward", ms->forward, 3);
    json_put_end(&w, '}');
    json_put_end(&w, '}');
    putchar('\n');
}

/* ------------------------------------------------------------------------- */
/* All of them                                                               */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Prints the most likely classes of each IMAGE: a JPEG, PNG, BMP, GIF (its first frame), TGA,\n"
    "PGM or PPM file, or '-' for standard input. Grey, palette and alpha images are converted to\n"
    "RGB. JPEGs are rotated as their EXIF orientation says.\n";

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
        { 't', "threads", "N", "threads to compute with (default 0: one per core)", CLI_INT,
          &c->num_threads, 0, 256 },
        { 0, "json", NULL, "print one JSON object per image and line", CLI_FLAG, &c->json, 0, 0 },
        { 0, "no-exif", NULL, "ignore the EXIF orientation", CLI_FLAG, &c->no_exif, 0, 0 },
        CLI_END
    };
    const cli_program program = { PROGRAM, "[options] IMAGE...", description, options, notes, 1,
                                  CLI_MANY, "IMAGE" };
    return cli_parse(&program, argc, argv, images, status);
}

/* Every image is tried; one that fails is reported and counts for the exit status. */
static int classify_all(classifier *c, const choices *chosen, const text_list *images) {
    unsigned flags = chosen->no_exif ? IMAGE_FILE_NO_EXIF : 0;
    int status = CLI_OK;
    for (int i = 0; i < images->count; i++) {
        const char *path = images->items[i];
        timings ms;
        int count;
        if (!look_at(c, path, flags, &ms)) {
            status = CLI_FAILED;
            continue;
        }
        count = vit_top_k(c->logits, c->model.config.num_classes, chosen->k, c->top);
        if (chosen->json) {
            print_json(c, path, count, &ms);
        } else {
            if (images->count > 1) printf("%s\n", path);
            print_text(c, count);
        }
        if (!cli_flush(PROGRAM)) return CLI_FAILED;
    }
    return status;
}

int main(int argc, char **argv) {
    choices chosen = { NULL, { 0, 0 }, 5, 0, false, false };
    classifier c;
    text_list images;
    char *bundled = NULL;
    int status;

    if (!choose(argc, argv, &chosen, &images, &status)) return status;
    memset(&c, 0, sizeof c);
    if (!chosen.model) bundled = paths_find_model("cifar10-vit.vit");
    if (!chosen.model) chosen.model = bundled;

    status = CLI_FAILED;
    if (!chosen.model) {
        report_error(PROGRAM, NULL, "the bundled model was not found; give one with -m MODEL.vit");
    } else if (classifier_open(&c, &chosen)) {
        status = classify_all(&c, &chosen, &images);
    }
    classifier_close(&c);
    text_list_free(&images);
    free(bundled);
    return cli_finish(PROGRAM, status);
}
