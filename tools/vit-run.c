/* vit-run.c - runs a model on images or on a tensor and writes its outputs as .npy files.
 *
 *     vit-run -m deit.vit cat.jpg                                  prints the five best classes
 *     vit-run -m deit.vit --input x.npy --logits y.npy             [B, C, H, W] -> [B, classes]
 *     vit-run -m deit.vit cat.jpg --trace steps                    every intermediate tensor
 *
 * numpy.load() reads the outputs. Any tensor can therefore be compared with PyTorch's tensor.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/npy.h"
#include "base/report.h"
#include "base/source.h"
#include "base/tensor.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/output.h"
#include "image/photo_source.h"
#include "os/os.h"
#include "vit.h"

#define PROGRAM cli_name()

/* ------------------------------------------------------------------------- */
/* The command                                                               */
/* ------------------------------------------------------------------------- */

enum { LOGITS, EMBEDDING, TOKENS, MERGED, BLOCK_TOKENS, ATTENTION, NUM_OUTPUTS };

static const char *const output_names[NUM_OUTPUTS] = { "logits", "embedding",    "tokens",
                                                       "merged", "block_tokens", "attention" };

typedef struct choices {
    const char *model, *input, *dump, *trace;
    vit_isa isa;
    /* paths of the output files; NULL for outputs that are not requested */
    const char *outputs[NUM_OUTPUTS];
    text_list operands, lists; /* paths of images, and of files with lists of images */
    bool null;
    /* numbers of blocks, from 0: "5", "0,5" or "all"; NULL for the last block */
    const char *blocks;
    cli_size img_size;
    int num_threads, batch, k;
    photo_options photos;
    bool json;
    bool wants_file, wants_forward; /* derived from the other members */
} choices;

/* The state of one run of the program. The struct is zeroed, then filled in step by step. run_free
 * accepts it in any state. */
typedef struct run {
    const choices *chosen;
    photo_decoder *decoder; /* for images, like the next member */
    photo_list images;
    char *path; /* path of the model */
    vit_model model;
    vit_threads *threads;
    vit_executor executor;
    vit_session session;
    void *workspace;
    float *input;      /* [batch, in_chans, img_height, img_width] */
    size_t image_size; /* number of floats of one image in the tensor */
    int batch;
    float *outputs[NUM_OUTPUTS];
    vit_block_output *blocks; /* [num_blocks] */
    int num_blocks;
    const char **sources; /* [num_sources]: paths of the input files, which are never overwritten */
    int num_sources;
    bool trace_failed;
    char trace_first[64]; /* name of the stem's first tensor, by which `trace` counts images */
    int trace_image;      /* index of the image that the stem is computing */
    double open_ms, input_ms, forward_ms;
    json_writer json;
} run;

static void run_free(run *r) {
    photo_decoder_close(r->decoder);
    photos_free(&r->images);
    free(r->path);
    for (int i = 0; i < NUM_OUTPUTS; i++) free(r->outputs[i]);
    free(r->blocks);
    free(r->input);
    free(r->workspace);
    free(r->sources);
    vit_threads_destroy(r->threads);
    vit_model_close(&r->model);
}

static bool out_of_memory(void) {
    report_error(PROGRAM, NULL, "out of memory");
    return false;
}

/* Allocates count * each floats. `count` must be at least 1. Returns NULL if there is no memory. */
static float *allocate(size_t count, size_t each) {
    if (each > SIZE_MAX / sizeof(float) / count) return NULL;
    return malloc(count * each * sizeof(float));
}

/* ------------------------------------------------------------------------- */
/* Input                                                                     */
/* ------------------------------------------------------------------------- */

/* With crop_mode=aspect, sets the input size of the model to the size for image i of the batch.
 * Fails if the first image has another grid of patches. */
static bool fit(run *r, const vit_config *own, const vit_image *image, int i, report *failure) {
    vit_model fitted = r->model;
    vit_result result;
    if (own->crop_mode != VIT_CROP_ASPECT) return true;
    fitted.config = *own;
    result = vit_model_fit(&fitted, image, &fitted);
    if (result != VIT_OK) return report_fail(failure, "%s", vit_result_string(result));
    if (i > 0 && (fitted.config.grid_height != r->model.config.grid_height ||
                  fitted.config.grid_width != r->model.config.grid_width))
        return report_fail(
            failure,
            "expected %d x %d patches as in the first image, found %d x %d: "
            "all images of a run need equal grids of patches; run the images one by one",
            r->model.config.grid_height, r->model.config.grid_width, fitted.config.grid_height,
            fitted.config.grid_width);
    r->model.config = fitted.config;
    return true;
}

static size_t image_floats(const vit_config *c) {
    return (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
}

static bool allocate_images(run *r) {
    r->image_size = image_floats(&r->model.config);
    r->input = allocate((size_t)r->batch, r->image_size);
    return r->input || out_of_memory();
}

/* Reads and preprocesses image i of the batch. Reports a failure. `own` is the model's
 * configuration before an image changed it. */
static bool read_image(run *r, const vit_config *own, int i) {
    const char *path = r->images.paths[i];
    report failure = report_make();
    vit_image image;
    bool good = photos_decode(path, r->decoder, &image, &failure) &&
                (fit(r, own, &image, i, &failure) || report_file(&failure, path));
    if (good && i == 0 && !allocate_images(r)) {
        photos_free_image(&image);
        return false;
    }
    good = good &&
           (photos_prepare(&r->model, &image, r->input + (size_t)i * r->image_size, &failure) ||
            report_file(&failure, path));
    photos_free_image(&image);
    if (!good) report_print(&failure, PROGRAM);
    return good;
}

static bool read_images(run *r) {
    const vit_config own = r->model.config;
    r->batch = r->images.count;
    for (int i = 0; i < r->batch; i++) {
        if (!read_image(r, &own, i)) return false;
    }
    return true;
}

/* With crop_mode=aspect, sets the input size of the model to the size of the tensor. */
static bool fit_tensor(run *r, const npy_array *array, report *failure) {
    const int64_t *const size = array->dims + array->ndim - 2;
    if (r->model.config.crop_mode != VIT_CROP_ASPECT || array->ndim < 3) return true;
    if (size[0] > 16384 || size[1] > 16384 || size[0] % r->model.config.patch_size ||
        size[1] % r->model.config.patch_size ||
        vit_model_resize(&r->model, (int)size[0], (int)size[1]) != VIT_OK)
        return report_fail(failure,
                           "expected height and width to be multiples of the patch size, %d; found "
                           "%lld and %lld",
                           r->model.config.patch_size, (long long)size[0], (long long)size[1]);
    return true;
}

/* True if the array is [B, C, H, W] or [C, H, W], with the model's values of C, H and W. *batch
 * becomes B, or 1. */
static bool input_fits(const vit_config *config, const npy_array *array, int *batch) {
    const int64_t *dims = array->dims;
    int64_t count = 1;
    if (array->ndim == 4) count = *dims++;
    else if (array->ndim != 3) return false;
    if (count < 1 || count > 1000000) return false;
    *batch = (int)count;
    return dims[0] == config->in_chans && dims[1] == config->img_height &&
           dims[2] == config->img_width;
}

static bool read_tensor(run *r) {
    const vit_config *config = &r->model.config;
    const char *path = r->chosen->input;
    report failure = report_make();
    char found[SHAPE_TEXT_SIZE];
    npy_array array;
    if (!npy_read(path, &array, &failure)) {
        report_print(&failure, PROGRAM);
        return false;
    }
    if (!fit_tensor(r, &array, &failure)) {
        (void)report_file(&failure, path);
        report_print(&failure, PROGRAM);
        npy_free(&array);
        return false;
    }
    if (!input_fits(config, &array, &r->batch)) {
        report_error(PROGRAM, path, "expected shape [B, %d, %d, %d] or [%d, %d, %d], found %s",
                     config->in_chans, config->img_height, config->img_width, config->in_chans,
                     config->img_height, config->img_width,
                     shape_text(array.dims, array.ndim, found, sizeof found));
        npy_free(&array);
        return false;
    }
    r->input = array.data;
    return true;
}

static bool read_input(run *r) {
    const double start = cli_now_ms();
    const bool good = r->chosen->input ? read_tensor(r) : read_images(r);
    r->input_ms = cli_now_ms() - start;
    return good;
}

/* ------------------------------------------------------------------------- */
/* Output                                                                    */
/* ------------------------------------------------------------------------- */

/* Writes one entry of the JSON array "written". */
static void put_written(run *r, const char *tensor, const char *path, const int64_t *dims,
                        int ndim) {
    json_writer *w = &r->json;
    if (!r->chosen->json) return;
    json_put_begin(w, NULL, '{');
    json_put_text(w, "tensor", tensor);
    json_put_text(w, "file", path);
    json_put_begin(w, "shape", '[');
    for (int i = 0; i < ndim; i++) json_put_integer(w, NULL, dims[i]);
    json_put_end(w, ']');
    json_put_end(w, '}');
}

/* Writes an array, and reports a failure. */
static bool write_npy(run *r, const char *tensor, const char *path, const float *data,
                      const int64_t *dims, int ndim) {
    report failure = report_make();
    cli_output output;
    bool good = cli_output_open(&output, path, &failure);
    for (int i = 0; good && i < r->num_sources; i++) {
        if (cli_output_spares(r->sources[i], &failure)) continue;
        cli_output_abandon(&output);
        good = false;
    }
    if (good) {
        npy_write(output.file, data, dims, ndim); /* cli_output_commit reports a failure */
        good = cli_output_commit(&output, &failure);
    }
    if (!good) {
        report_print(&failure, PROGRAM);
        return false;
    }
    put_written(r, tensor, path, dims, ndim);
    return true;
}

/* Returns the suffix of a tensor's name. A convolutional stem computes one image after the other,
 * and traces its tensors for each image. The suffix of these tensors is ".0" for the first image of
 * a batch. All other tensors, and those of a batch of one image, have the suffix "". */
static const char *image_suffix(run *r, const char *name, char text[16]) {
    text[0] = '\0';
    if (r->batch == 1 || strncmp(name, "patch_embed.backbone.", 21) != 0) return text;
    if (!r->trace_first[0]) snprintf(r->trace_first, sizeof r->trace_first, "%s", name);
    else if (strcmp(r->trace_first, name) == 0) r->trace_image++;
    snprintf(text, 16, ".%d", r->trace_image);
    return text;
}

/* A vit_trace that writes DIR/NAME.npy. After a failure, it does nothing. */
static void trace(void *user, const char *name, const float *data, const int shape[4]) {
    run *r = user;
    size_t size = strlen(r->chosen->trace) + strlen(name) + 24;
    char *path, suffix[16];
    int64_t dims[4];
    int ndim = 0;
    if (r->trace_failed) return;
    for (; ndim < 4 && shape[ndim] > 0; ndim++) dims[ndim] = shape[ndim];
    path = malloc(size);
    if (path) {
        snprintf(path, size, "%s%s%s%s.npy", r->chosen->trace, paths_slash(r->chosen->trace), name,
                 image_suffix(r, name, suffix));
        r->trace_failed = !write_npy(r, name, path, data, dims, ndim);
    } else {
        r->trace_failed = !out_of_memory();
    }
    free(path);
}

/* True if an output depends on --block, which may name several blocks. */
static bool has_blocks(int which) { return which == BLOCK_TOKENS || which == ATTENTION; }
static bool is_set(const choices *c) {
    return c->blocks && (strchr(c->blocks, ',') || strcmp(c->blocks, "all") == 0);
}

/* Writes the shape of output `which` to dims. Returns the number of dimensions. */
static int output_shape(const run *r, int which, int64_t dims[5]) {
    const vit_config *config = &r->model.config;
    const bool tokens = which == TOKENS || which == BLOCK_TOKENS;
    int ndim = 0;
    if (has_blocks(which) && is_set(r->chosen)) dims[ndim++] = r->num_blocks;
    dims[ndim++] = r->batch;
    if (which == LOGITS) dims[ndim++] = config->num_classes;
    if (which == EMBEDDING) dims[ndim++] = vit_embedding_dim(&r->model);
    if (which == ATTENTION) dims[ndim++] = config->num_heads;
    if (which == ATTENTION || tokens) dims[ndim++] = config->num_tokens;
    if (which == ATTENTION) dims[ndim++] = config->num_tokens;
    if (tokens) dims[ndim++] = config->embed_dim;
    if (which == MERGED && config->merge_size > 0) { /* check_choices refuses 0 */
        dims[ndim++] = config->num_patches / (config->merge_size * config->merge_size);
        dims[ndim++] = config->merge_dim;
    }
    return ndim;
}

/* Sets the pointer of each block to its part of output `which`. A part begins `step` floats after
 * the part of the previous block. */
static void place_blocks(run *r, int which, size_t step) {
    for (int i = 0; i < r->num_blocks; i++) {
        float *part = r->outputs[which] + (size_t)i * step;
        if (which == ATTENTION) r->blocks[i].attention = part;
        else r->blocks[i].tokens = part;
    }
}

/* Allocates the outputs that are written and, if the best classes are printed, the logits. */
static bool allocate_outputs(run *r) {
    for (int i = 0; i < NUM_OUTPUTS; i++) {
        int64_t dims[5];
        int ndim = output_shape(r, i, dims);
        size_t each = 1;
        if (!r->chosen->outputs[i] && (i != LOGITS || r->chosen->wants_file)) continue;
        for (int d = 1; d < ndim; d++) each *= (size_t)dims[d];
        r->outputs[i] = allocate((size_t)dims[0], each);
        if (!r->outputs[i]) return out_of_memory();
        if (has_blocks(i)) place_blocks(r, i, each);
    }
    return true;
}

static bool write_outputs(run *r) {
    for (int i = 0; i < NUM_OUTPUTS; i++) {
        int64_t dims[5];
        int ndim = output_shape(r, i, dims);
        if (r->chosen->outputs[i] &&
            !write_npy(r, output_names[i], r->chosen->outputs[i], r->outputs[i], dims, ndim)) {
            return false;
        }
    }
    return true;
}

static bool write_input(run *r) {
    const vit_config *config = &r->model.config;
    const int64_t dims[4] = { r->batch, config->in_chans, config->img_height, config->img_width };
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): run_free frees the input */
    return !r->chosen->dump || write_npy(r, "input", r->chosen->dump, r->input, dims, 4);
}

/* ------------------------------------------------------------------------- */
/* The best classes                                                          */
/* ------------------------------------------------------------------------- */

static void print_best_text(const run *r, const float *probs, const vit_prediction *top,
                            int count) {
    for (int i = 0; i < count; i++) {
        const char *label = vit_label(&r->model, top[i].index);
        printf("%5.1f %%  ", 100.0 * (double)probs[top[i].index]);
        if (label) text_print(stdout, "%s\n", label);
        else printf("class %d\n", top[i].index);
    }
}

static void put_best(run *r, const float *probs, const vit_prediction *top, int count) {
    json_writer *w = &r->json;
    json_put_begin(w, NULL, '[');
    for (int i = 0; i < count; i++) {
        json_put_begin(w, NULL, '{');
        json_put_integer(w, "index", top[i].index);
        json_put_text(w, "label", vit_label(&r->model, top[i].index));
        json_put_number(w, "prob", (double)probs[top[i].index], 9);
        json_put_number(w, "logit", (double)top[i].score, 9);
        json_put_end(w, '}');
    }
    json_put_end(w, ']');
}

/* Prints the best classes of each image in the batch. `probs` [num_classes] and `top` [k] are
 * scratch. */
static void print_all_best(run *r, float *probs, vit_prediction *top) {
    int classes = r->model.config.num_classes;
    if (r->chosen->json) json_put_begin(&r->json, "top", '[');
    for (int b = 0; b < r->batch; b++) {
        const float *logits = r->outputs[LOGITS] + (size_t)b * (size_t)classes;
        int count = vit_top_k(logits, classes, r->chosen->k, top);
        memcpy(probs, logits, (size_t)classes * sizeof *probs);
        vit_scores(&r->model, probs);
        if (r->chosen->json) {
            put_best(r, probs, top, count);
        } else {
            if (r->batch > 1 && r->chosen->input)
                text_print(stdout, "%s [%d]\n", r->chosen->input, b);
            else if (r->batch > 1) text_print(stdout, "%s\n", r->images.paths[b]);
            print_best_text(r, probs, top, count);
        }
    }
    if (r->chosen->json) json_put_end(&r->json, ']');
}

static bool print_best(run *r) {
    float *probs = allocate((size_t)r->model.config.num_classes, 1);
    vit_prediction *top = malloc((size_t)r->chosen->k * sizeof *top);
    bool good = probs && top;
    if (good) print_all_best(r, probs, top);
    free(probs);
    free(top);
    return good || out_of_memory();
}

/* ------------------------------------------------------------------------- */
/* The forward pass                                                          */
/* ------------------------------------------------------------------------- */

static bool start_session(run *r) {
    vit_params params = { 0 };
    vit_result result;
    size_t size;
    /* with a trace, one batch has all images, so each tensor is written once */
    params.batch = r->chosen->trace ? r->batch : r->chosen->batch;
    params.isa = r->chosen->isa;
    params.executor = r->executor;
    params.trace = r->chosen->trace ? trace : NULL;
    params.trace_user = r;
    size = vit_workspace_size(&r->model, &params);
    if (size == 0) {
        report_error(
            PROGRAM, NULL,
            "this machine cannot run the model with --isa %s (the machine's best is %s) and a "
            "batch of %d",
            vit_isa_name(params.isa), vit_isa_name(vit_detect_isa()), params.batch);
        return false;
    }
    r->workspace = malloc(size);
    if (!r->workspace) return out_of_memory();
    result = vit_session_init(&r->session, &r->model, &params, r->workspace, size);
    if (result != VIT_OK) report_error(PROGRAM, NULL, "%s", vit_result_string(result));
    return result == VIT_OK;
}

static bool run_forward(run *r) {
    vit_outputs outputs = { 0 };
    vit_result result;
    double start = cli_now_ms();
    outputs.logits = r->outputs[LOGITS];
    outputs.embedding = r->outputs[EMBEDDING];
    outputs.tokens = r->outputs[TOKENS];
    outputs.merged = r->outputs[MERGED];
    outputs.blocks = r->blocks;
    outputs.num_blocks = r->num_blocks;
    result = vit_forward(&r->session, &(vit_input){ .pixels = r->input, .batch = r->batch },
                         &outputs);
    r->forward_ms = cli_now_ms() - start;
    if (result != VIT_OK) report_error(PROGRAM, NULL, "%s", vit_result_string(result));
    return result == VIT_OK && !r->trace_failed;
}

/* For a trace, allocates the logits or the embedding even if they are not requested, because the
 * whole network runs only if one of them is computed. */
static bool allocate_for_trace(run *r) {
    int which = r->model.config.num_classes > 0 ? LOGITS : EMBEDDING;
    int64_t dims[5];
    if (!r->chosen->trace || r->outputs[which]) return true;
    output_shape(r, which, dims); /* the shape has two dimensions */
    r->outputs[which] = allocate((size_t)r->batch, (size_t)dims[1]);
    return r->outputs[which] || out_of_memory();
}

/* ------------------------------------------------------------------------- */
/* From end to end                                                           */
/* ------------------------------------------------------------------------- */

/* Reads the first number of a list such as "0,5,11", and moves *at to the next number. *at becomes
 * NULL after the last number. */
static bool take_block(const char **at, long *index) {
    const size_t length = strcspn(*at, ",");
    char word[8] = "";
    if (length < sizeof word) memcpy(word, *at, length);
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return text_read_int(word, 0, 1023, index);
}

static bool are_blocks(const char *text) {
    long index;
    if (strcmp(text, "all") == 0) return true;
    while (text) {
        if (!take_block(&text, &index)) return false;
    }
    return true;
}

static bool add_block(run *r, long index) {
    const int depth = r->model.config.depth;
    if (index < depth) {
        r->blocks[r->num_blocks++].index = (int)index;
        return true;
    }
    report_error(PROGRAM, r->path, "the model has blocks 0 to %d; there is no --block %ld",
                 depth - 1, index);
    return false;
}

/* Finds the requested blocks of a model that has blocks. */
static bool find_blocks(run *r) {
    const choices *c = r->chosen;
    const int depth = r->model.config.depth;
    long index;
    bool good = true;
    if (!c->outputs[ATTENTION] && !c->outputs[BLOCK_TOKENS]) return true;
    r->blocks = calloc((c->blocks ? strlen(c->blocks) : 0) + (size_t)depth, sizeof *r->blocks);
    if (!r->blocks) return out_of_memory();
    if (!c->blocks) return add_block(r, depth - 1);
    if (strcmp(c->blocks, "all") == 0) {
        for (int i = 0; good && i < depth; i++) good = add_block(r, i);
    } else {
        const char *at = c->blocks;
        while (good && at) good = take_block(&at, &index) && add_block(r, index);
    }
    return good;
}

/* Checks that the model has all outputs that the command line requests. */
static bool check_choices(const run *r) {
    const vit_config *config = &r->model.config;
    bool needs_head = r->chosen->outputs[LOGITS] || !r->chosen->wants_file;
    if (needs_head && config->num_classes == 0) {
        report_error(PROGRAM, r->path, "the model has no classes; use --embedding or --tokens");
        return false;
    }
    if (r->chosen->outputs[MERGED] && config->merge_size == 0) {
        report_error(PROGRAM, r->path,
                     "the model has no merger for --merged; vit-convert --set merge_size=2 keeps "
                     "the merger of a checkpoint");
        return false;
    }
    if ((r->chosen->outputs[ATTENTION] || r->chosen->outputs[BLOCK_TOKENS]) && config->depth == 0) {
        report_error(PROGRAM, r->path, "the model has no blocks, and thus no attention");
        return false;
    }
    return true;
}

/* Opens the decoder. Must run before threads are started. */
static bool open_decoder(run *r) {
    report failure = report_make();
    if (r->chosen->input) return true;
    r->decoder = photo_decoder_open(&r->chosen->photos, PROGRAM, 1, &failure);
    if (!r->decoder) report_print(&failure, PROGRAM);
    return r->decoder != NULL;
}

static bool open_all(run *r) {
    double start = cli_now_ms();
    report failure = report_make();
    vit_result result;
    if (!cli_model_choose(r->chosen->model, r->chosen->img_size, &r->model, &r->path, &failure)) {
        report_print(&failure, PROGRAM);
        return false;
    }
    r->open_ms = cli_now_ms() - start;
    if (!check_choices(r) || !find_blocks(r) || !open_decoder(r)) return false;
    result = vit_threads_create(r->chosen->num_threads, &r->threads, &r->executor);
    if (result != VIT_OK) report_error(PROGRAM, NULL, "%s", vit_result_string(result));
    return result == VIT_OK;
}

static bool find_images(run *r) {
    const choices *c = r->chosen;
    report failure = report_make();
    if (c->input ||
        photo_paths_all(&r->images, &c->operands, &c->lists, c->null ? '\0' : '\n', &failure))
        return true;
    report_print(&failure, PROGRAM);
    return false;
}

/* Lists the input files, which no output may replace. */
static bool list_sources(run *r) {
    const choices *c = r->chosen;
    r->sources = malloc(((size_t)r->images.count + 2) * sizeof *r->sources);
    if (!r->sources) return out_of_memory();
    r->sources[r->num_sources++] = r->path;
    if (c->input) r->sources[r->num_sources++] = c->input;
    for (int i = 0; i < r->images.count; i++) r->sources[r->num_sources++] = r->images.paths[i];
    return true;
}

static bool make_trace_folder(const char *path) {
    if (!path || os_make_folder(path)) return true;
    if (errno == EEXIST && os_kind_of(path) == OS_FOLDER) return true;
    report_error(PROGRAM, path, "cannot be created: %s", os_error(errno));
    return false;
}

static void put_head(run *r) {
    json_writer *w = &r->json;
    *w = json_write_to(stdout);
    json_put_begin(w, NULL, '{');
    json_put_text(w, "model", r->path);
    json_put_integer(w, "batch", r->batch);
    json_put_integer(w, "threads", r->executor.num_threads);
    json_put_begin(w, "written", '[');
}

static void put_tail(run *r) {
    json_writer *w = &r->json;
    if (r->chosen->wants_forward) json_put_text(w, "isa", vit_isa_name(r->session.isa));
    json_put_begin(w, "ms", '{');
    json_put_decimals(w, "open", r->open_ms, 3);
    json_put_decimals(w, "input", r->input_ms, 3);
    json_put_decimals(w, "forward", r->forward_ms, 3);
    json_put_end(w, '}');
    json_put_end(w, '}');
    putchar('\n');
}

static bool forward_and_write(run *r) {
    return make_trace_folder(r->chosen->trace) && start_session(r) && allocate_outputs(r) &&
           allocate_for_trace(r) && run_forward(r) && write_outputs(r);
}

/* Reports the first output with NaN or infinity. Runs after the outputs are written or printed,
 * because the outputs help to find the cause. */
static bool outputs_are_finite(run *r) {
    for (int i = 0; i < NUM_OUTPUTS; i++) {
        int64_t dims[5];
        const int ndim = output_shape(r, i, dims);
        size_t count = 1;
        for (int d = 0; d < ndim; d++) count *= (size_t)dims[d];
        if (r->outputs[i] && !tensor_values_are_finite(r->outputs[i], count)) {
            report_error(PROGRAM, r->path,
                         "%s: the outputs are NaN or infinite; vit-info --check names "
                         "the weights with NaN or infinity",
                         output_names[i]);
            return false;
        }
    }
    return true;
}

/* Runs all steps, and reports failures. Once the JSON object is begun, completes it even after a
 * failure, with the files written so far. */
static bool run_all(run *r) {
    bool good;
    if (!find_images(r) || !open_all(r) || !list_sources(r) || !read_input(r)) return false;
    if (r->chosen->json) put_head(r);
    good = write_input(r) && (!r->chosen->wants_forward || forward_and_write(r));
    if (r->chosen->json) json_put_end(&r->json, ']');
    if (good && !r->chosen->wants_file) good = print_best(r);
    if (r->chosen->json) put_tail(r);
    return good && outputs_are_finite(r);
}

/* ------------------------------------------------------------------------- */
/* The command line                                                          */
/* ------------------------------------------------------------------------- */

static const char description[] =
    "Runs a model on images, or on a preprocessed tensor, and writes the outputs as .npy files of\n"
    "float32. A folder stands for all images in it and below it, sorted.\n"
    "Without an option that names an output, the best classes are printed.\n";

static const char notes[] =
    "Shapes for B images: logits [B, classes], embedding [B, dim], tokens [B, N, dim] (after the\n"
    "final norm), merged tokens [B, patches / merge_size^2, merge_dim] (row by row), block tokens\n"
    "[B, N, dim] (before the final norm), attention [B, heads, N, N]. The outputs of several blocks\n"
    "have the shape [blocks, B, ...]. Blocks count from 0, as in timm: blocks.0.\n"
    "timm and Pillow ignore the EXIF orientation. --no-exif gives the same results as they do.\n"
    "Exit status: 0 on success, 1 if something failed, 2 for a wrong command.\n";

static bool complain(const char *text) { return cli_wrong(PROGRAM, "%s", text), false; }

/* Checks rules that the table of options cannot express. Sets the derived members. */
static bool check_command(choices *c) {
    const bool images = c->operands.count + c->lists.count > 0;
    bool tensor = false;
    for (int i = 0; i < NUM_OUTPUTS; i++) tensor = tensor || c->outputs[i];
    c->wants_file = tensor || c->trace || c->dump;
    c->wants_forward = tensor || c->trace || !c->dump;
    if (!c->input && !images) return complain("missing IMAGE or --input X.npy");
    if (c->input && images) return complain("either images or --input, not both");
    if (c->null && !c->lists.count) return complain("--null needs --list FILE");
    if (c->blocks && !c->outputs[ATTENTION] && !c->outputs[BLOCK_TOKENS])
        return complain("--block needs --attention A.npy or --block-tokens T.npy");
    if (c->blocks && !are_blocks(c->blocks))
        return complain("--block: expected a number from 0 on, several such as 0,5,11, or all");
    return true;
}

static bool choose(int argc, char **argv, choices *c, int *status) {
    const cli_option options[] = {
        CLI_OPTION_MODEL(&c->model),
        PHOTO_LIST_OPTIONS(&c->lists, &c->null),
        { 0, "input", "X.npy", "a preprocessed batch [B, C, H, W], or one image [C, H, W]",
          CLI_TEXT, &c->input, 0, 0 },
        CLI_OPTION_IMG_SIZE(c->img_size),
        { 0, "logits", "L.npy", "write the scores of the classes", CLI_OUTPUT, &c->outputs[LOGITS],
          0, 0 },
        { 0, "embedding", "E.npy", "write the input of the head", CLI_OUTPUT,
          &c->outputs[EMBEDDING], 0, 0 },
        { 0, "tokens", "T.npy", "write all tokens after the final norm", CLI_OUTPUT,
          &c->outputs[TOKENS], 0, 0 },
        { 0, "merged", "M.npy", "write the tokens for a language model, after the merger",
          CLI_OUTPUT, &c->outputs[MERGED], 0, 0 },
        { 0, "attention", "A.npy", "write the attention weights of a block", CLI_OUTPUT,
          &c->outputs[ATTENTION], 0, 0 },
        { 0, "block-tokens", "T.npy", "write all tokens that a block outputs", CLI_OUTPUT,
          &c->outputs[BLOCK_TOKENS], 0, 0 },
        { 0, "block", "B",
          "which block, from 0 (default: the last); or several, such as 0,5,11;\n"
          "or all",
          CLI_TEXT, &c->blocks, 0, 0 },
        { 0, "trace", "DIR",
          "run all images as one batch, and write every intermediate\n"
          "tensor as DIR/NAME.npy; a stem's tensors as DIR/NAME.IMAGE.npy",
          CLI_TEXT, &c->trace, 0, 0 },
        { 0, "dump-input", "X.npy", "write the preprocessed input", CLI_OUTPUT, &c->dump, 0, 0 },
        CLI_OPTION_TOP(&c->k, "how many classes to print (default 5)", 1000),
        CLI_OPTION_BATCH(&c->batch, "as many as the caches hold"),
        CLI_OPTION_THREADS(&c->num_threads),
        CLI_OPTION_ISA(&c->isa),
        PHOTO_OPTIONS(&c->photos),
        CLI_OPTION_JSON(&c->json, "print the written files, the best classes and timings as JSON"),
        CLI_END,
    };
    const cli_program program = { PROGRAM,         "[options] (IMAGE|FOLDER... | --input X.npy)",
                                  description,     options,
                                  notes,           0,
                                  CLI_MANY,        NULL,
                                  photos_library() };
    if (!cli_parse(&program, argc, argv, &c->operands, status)) return false;
    if (check_command(c)) return true;
    *status = CLI_USAGE;
    return false;
}

int main(int argc, char **argv) {
    cli_start(&argc, &argv, "vit-run");
    choices chosen;
    run r;
    int status;
    memset(&chosen, 0, sizeof chosen);
    chosen.k = 5;
    chosen.isa = VIT_ISA_AUTO;
    memset(&r, 0, sizeof r);
    r.chosen = &chosen;
    if (choose(argc, argv, &chosen, &status)) status = run_all(&r) ? CLI_OK : CLI_FAILED;
    run_free(&r);
    text_list_free(&chosen.operands);
    text_list_free(&chosen.lists);
    return cli_finish(PROGRAM, status);
}
