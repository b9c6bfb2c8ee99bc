#define _POSIX_C_SOURCE 200809L

#include "infer/infer.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/output.h"

/* The state of one photo, from the time it is taken from the source until its result is passed to
 * the caller. */
typedef struct slot {
    photo photo;
    infer_result result;
    /* The memory of all outputs of the photo. */
    float *values;
    /* The reason why the photo has no result, or NULL. The slot owns this text. */
    char *error;
    /* A description of the damage that the decoder ignored, or NULL. The slot owns this text. */
    char *note;
    /* True if memory was exhausted, so that the photo is not at fault for the error. */
    bool no_memory;
    bool done;
} slot;

/* The state that all threads share. The photos have numbers, from 0. The photos from `first` to
 * `next` - 1 are in progress, and photo i is in slot i % capacity. */
typedef struct line {
    const infer_settings *settings;
    photo_source *source;
    infer_counts *counts;
    /* The thread pool of the session, if all threads compute one batch together. */
    vit_executor executor;
    int workers, batch;
    /* True if each photo has its own input size. `batch` is then 1. */
    bool fits;
    /* The number of floats that one photo needs for each kind of values. */
    size_t image_size, logits_size, embedding_size, tokens_size;
    slot *slots;
    size_t capacity;
    /* This lock protects the source, and all members below. */
    pthread_mutex_t lock;
    /* Signals that a slot is free, or that the run is over. */
    pthread_cond_t given;
    uint64_t first, next;
    /* True if no more photos are taken: none is left, or the run has failed or was stopped. */
    bool ended;
    /* True if the caller's function `take` has stopped the run. */
    bool stopped;
    cli_progress progress;
    report *r;
} line;

/* The state of one thread. `count` is the number of photos in its present batch. */
typedef struct worker {
    line *line;
    vit_session session;
    void *workspace;
    /* The inputs and the outputs of one batch. */
    float *input, *logits, *embedding, *tokens;
    /* The slots of the photos in the batch: [batch]. */
    slot **slots;
    int count;
} worker;

/* === The slots of the photos === */

static size_t outputs_size(const line *l) {
    return l->logits_size + l->embedding_size + l->tokens_size;
}

/* Returns the number of slots. With this number, no thread has to wait for a slot, even if another
 * thread's batch takes as long as thirty other batches. If the outputs are large, memory limits the
 * number, and threads may have to wait. */
static size_t line_capacity(const line *l) {
    enum { BATCHES = 32, MOST_BYTES = 64 << 20 };
    const size_t busy = (size_t)l->workers * (size_t)l->batch;
    const size_t room = MOST_BYTES / sizeof(float) / (outputs_size(l) + 1);
    return room < 2 * busy ? 2 * busy : room < BATCHES * busy ? room : BATCHES * busy;
}

static bool line_allocate(line *l) {
    const size_t size = outputs_size(l);
    size_t i;
    l->capacity = line_capacity(l);
    l->slots = calloc(l->capacity, sizeof *l->slots);
    if (!l->slots) return report_no_memory(l->r);
    for (i = 0; i < l->capacity; i++) {
        infer_result *result = &l->slots[i].result;
        float *values = l->slots[i].values = malloc(size * sizeof *values);
        if (!values) return report_no_memory(l->r);
        result->logits = l->logits_size ? values : NULL;
        result->embedding = l->embedding_size ? values + l->logits_size : NULL;
        result->tokens = l->tokens_size ? values + l->logits_size + l->embedding_size : NULL;
    }
    return true;
}

static void slot_clear(slot *s) {
    photo_free(&s->photo);
    free(s->error);
    free(s->note);
    s->error = s->note = NULL;
    s->no_memory = s->done = false;
}

static void line_free(line *l) {
    size_t i;
    for (i = 0; l->slots && i < l->capacity; i++) {
        slot_clear(&l->slots[i]);
        free(l->slots[i].values);
    }
    free(l->slots);
}

static void line_fail(line *l, const report *reason) {
    pthread_mutex_lock(&l->lock);
    if (!l->r->failed) *l->r = *reason;
    l->ended = true;
    pthread_cond_broadcast(&l->given);
    pthread_mutex_unlock(&l->lock);
}

/* Returns the number of photos for the next batch of a thread that has already taken `taken` photos
 * for this batch. Batches are smaller at the end, so that the threads share the last photos. */
static int batch_now(const line *l, int taken) {
    const uint64_t workers = (uint64_t)l->workers;
    uint64_t left;
    if (!l->source->count || l->source->count < l->next) return l->batch;
    left = (l->source->count - l->next + (uint64_t)taken + workers - 1) / workers;
    return left < (uint64_t)l->batch ? (left ? (int)left : 1) : l->batch;
}

/* Takes the next photo for a thread that has already taken `taken` photos for its batch. Returns
 * NULL if the batch is full, or if no photo is left. Also returns NULL if the thread holds photos
 * and no slot is free, because the thread must not wait for its own slots. */
static slot *line_take(line *l, int taken) {
    slot *s = NULL;
    pthread_mutex_lock(&l->lock);
    while (!taken && !l->ended && l->next - l->first == l->capacity)
        pthread_cond_wait(&l->given, &l->lock);
    if (!l->ended && l->next - l->first < l->capacity && taken < batch_now(l, taken)) {
        s = &l->slots[l->next % l->capacity];
        if (l->source->next(l->source->user, &s->photo, l->r)) {
            s->result.index = l->next++;
            s->result.name = s->photo.name;
        } else {
            photo_free(&s->photo);
            s = NULL;
            l->ended = true;
            pthread_cond_broadcast(&l->given);
        }
    }
    pthread_mutex_unlock(&l->lock);
    return s;
}

static void give_first(line *l, slot *s) {
    s->result.error = s->error;
    s->result.note = s->note;
    if (s->no_memory) {
        (void)report_fail(l->r, "%s", s->error);
        l->ended = true;
        return;
    }
    if (s->error) {
        l->counts->unreadable++;
        cli_progress_clear(&l->progress);
        fprintf(stderr, "%s: %s\n", l->settings->program, s->error);
    } else {
        l->counts->read++;
        l->counts->recalled += s->result.recalled >= 0;
        if (s->note) {
            cli_progress_clear(&l->progress);
            fprintf(stderr, "%s: %s\n", l->settings->program, s->note);
        }
    }
    if (!l->settings->take(l->settings->user, &s->result, l->r)) l->ended = l->stopped = true;
}

/* Marks the photo as done. Then passes to the caller all finished results that are next in the
 * order of the photos. */
static void line_give(line *l, slot *s) {
    pthread_mutex_lock(&l->lock);
    s->done = true;
    for (; l->first < l->next && (s = &l->slots[l->first % l->capacity])->done; l->first++) {
        if (!l->stopped && !l->r->failed) give_first(l, s);
        slot_clear(s);
    }
    if (l->settings->progress) cli_progress_update(&l->progress, l->first);
    pthread_cond_broadcast(&l->given);
    pthread_mutex_unlock(&l->lock);
}

/* === The work of one thread === */

static void worker_free(worker *w) {
    free(w->workspace);
    free(w->input);
    free(w->logits);
    free(w->embedding);
    free(w->tokens);
    free(w->slots);
}

/* Allocates count * size floats. If `size` is 0, *values becomes NULL. Returns false if memory is
 * exhausted. */
static bool allocate(float **values, int count, size_t size) {
    if (size > SIZE_MAX / sizeof **values / (size_t)count) return false;
    *values = size ? malloc((size_t)count * size * sizeof **values) : NULL;
    return *values || !size;
}

static bool worker_buffers(worker *w) {
    const line *l = w->line;
    w->slots = malloc((size_t)l->batch * sizeof *w->slots);
    return w->slots && allocate(&w->input, l->batch, l->image_size) &&
           allocate(&w->logits, l->batch, l->logits_size) &&
           allocate(&w->embedding, l->batch, l->embedding_size) &&
           allocate(&w->tokens, l->batch, l->tokens_size);
}

static bool worker_init(worker *w, line *l, report *r) {
    const infer_settings *settings = l->settings;
    vit_params params = { 0 };
    vit_result result;
    size_t size;
    memset(w, 0, sizeof *w);
    w->line = l;
    params.isa = settings->isa;
    params.executor = l->executor;
    size = vit_workspace_size(settings->model, &params);
    if (!size)
        return report_fail(
            r, "this machine cannot run the model with --isa %s; the machine's best is %s",
            vit_isa_name(params.isa), vit_isa_name(vit_detect_isa()));
    if (!worker_buffers(w)) return report_no_memory(r);
    /* Each photo gets its own session in forward_fitted. */
    if (l->fits) return true;
    w->workspace = malloc(size);
    if (!w->workspace) return report_no_memory(r);
    result = vit_session_init(&w->session, settings->model, &params, w->workspace, size);
    return result == VIT_OK || report_fail(r, "%s", vit_result_string(result));
}

static bool keep_text(line *l, char **copy, report *r) {
    *copy = strdup(r->text);
    if (*copy) return true;
    (void)report_no_memory(r);
    line_fail(l, r);
    return false;
}

/* Reads the file of the photo, computes its hash, and looks for a known result with this hash. Does
 * nothing if the source has already given the pixels or the bytes of the photo. */
static bool recall(worker *w, slot *s, report *r) {
    const infer_settings *settings = w->line->settings;
    photo *p = &s->photo;
    vit_hash hash;
    s->result.content = 0;
    s->result.recalled = -1;
    if (!settings->recall || p->data || p->image.pixels || p->refused) return true;
    if (!photos_bytes(p->name, settings->decoder, &p->data, &p->size, r)) return false;
    vit_hash_init(&hash);
    vit_hash_update(&hash, p->data, p->size);
    s->result.content = vit_hash_final(&hash);
    s->result.recalled = settings->recall(settings->user, s->result.content, p->size);
    return true;
}

/* Reads the photo, and puts the model's input for it into the batch. If each photo has its own
 * input size, only decodes the photo. Returns false if the photo cannot be read; the slot then has
 * the reason. Also returns false if the result of the photo is already known. */
static bool read_photo(worker *w, slot *s) {
    line *l = w->line;
    const infer_settings *settings = l->settings;
    const double start = cli_now_ms();
    report r = report_make();
    const bool good = recall(w, s, &r) &&
                      (s->result.recalled >= 0 ||
                       (l->fits ? photo_decode(&s->photo, settings->decoder, &r)
                                : photo_input(&s->photo, settings->decoder, settings->model,
                                              w->input + (size_t)w->count * l->image_size, &r)));
    s->result.load_ms = cli_now_ms() - start;
    if (!l->fits || !good) photo_free_pixels(&s->photo);
    if (good && s->result.recalled >= 0) return false;
    if (good) return !r.text[0] || keep_text(l, &s->note, &r);
    s->no_memory = r.no_memory;
    (void)keep_text(l, &s->error, &r);
    return false;
}

/* Takes and reads the photos of a batch. Returns false if the batch is empty: no photo is left. */
static bool fill(worker *w) {
    slot *s;
    w->count = 0;
    while ((s = line_take(w->line, w->count)) != NULL) {
        if (read_photo(w, s)) w->slots[w->count++] = s;
        else line_give(w->line, s);
    }
    return w->count > 0;
}

/* Copies the output of photo i of the batch. Returns false if a value is not finite. A single bad
 * weight or an overflow can cause such values. */
static bool copy(float *to, const float *from, int i, size_t size) {
    if (size) memcpy(to, from + (size_t)i * size, size * sizeof *to);
    return tensor_values_are_finite(to, size);
}

/* Zeroes the rows of unused tokens. Writes the height and width of the grid after them. */
static void put_grid(const line *l, const vit_config *c, float *tokens) {
    const size_t used = (size_t)c->num_tokens * (size_t)c->embed_dim;
    float *const grid = tokens + l->tokens_size - 2;
    memset(tokens + used, 0, (l->tokens_size - 2 - used) * sizeof *tokens);
    grid[0] = (float)c->grid_height;
    grid[1] = (float)c->grid_width;
}

/* Runs the model on the only photo of a batch, at the photo's own input size. */
static vit_result forward_fitted(worker *w, const vit_outputs *outputs) {
    const line *l = w->line;
    vit_image *image = &w->slots[0]->photo.image;
    const vit_params params = { .isa = l->settings->isa, .executor = l->executor };
    const vit_config *c;
    vit_session session = { 0 };
    vit_model fitted;
    vit_result result = vit_model_fit(l->settings->model, image, &fitted);
    c = &fitted.config;
    if (!result) result = vit_session_init(&session, &fitted, &params, NULL, 0);
    free(w->input);
    w->input = NULL;
    if (!result && !allocate(&w->input, c->in_chans, (size_t)c->img_height * (size_t)c->img_width))
        result = VIT_ERROR_MEMORY;
    if (!result) result = vit_preprocess(&fitted, image, w->input, NULL, 0);
    if (!result) result = vit_forward(&session, &(vit_input){ .pixels = w->input }, outputs);
    if (!result && w->tokens) put_grid(l, c, w->tokens);
    w->slots[0]->result.grid = (vit_grid){ c->grid_height, c->grid_width };
    vit_session_close(&session);
    photo_free_pixels(&w->slots[0]->photo);
    return result;
}

/* Runs the model on the batch, and copies the results into the slots of the photos. */
static bool forward(worker *w, report *r) {
    const line *l = w->line;
    const double start = cli_now_ms();
    const vit_block_output block = { w->tokens, NULL, l->settings->block - 1, 0 };
    vit_outputs outputs = { 0 };
    vit_result result;
    double each;
    int i;
    outputs.logits = w->logits;
    outputs.embedding = w->embedding;
    if (block.index >= 0) outputs.blocks = &block;
    else outputs.tokens = w->tokens;
    outputs.num_blocks = block.index >= 0;
    result = l->fits ? forward_fitted(w, &outputs)
                     : vit_forward(&w->session,
                                   &(vit_input){ .pixels = w->input, .batch = w->count }, &outputs);
    if (result != VIT_OK) return report_fail(r, "%s", vit_result_string(result));
    each = (cli_now_ms() - start) / w->count;
    for (i = 0; i < w->count; i++) {
        infer_result *to = &w->slots[i]->result;
        if (!l->fits)
            to->grid = (vit_grid){ l->settings->model->config.grid_height,
                                   l->settings->model->config.grid_width };
        if (!copy(to->logits, w->logits, i, l->logits_size) ||
            !copy(to->embedding, w->embedding, i, l->embedding_size) ||
            !copy(to->tokens, w->tokens, i, l->tokens_size))
            return report_fail(r,
                               "the model's outputs for %s are NaN or infinite; vit-info --check "
                               "names the weights with NaN or infinity",
                               w->slots[i]->photo.name);
        to->forward_ms = each;
    }
    return true;
}

/* Works until no photo is left. This function is a vit_task. One call can do all the work; calls on
 * several threads share it. */
static void work(void *arg, int index) {
    line *l = arg;
    report r = report_make();
    worker w;
    bool good = worker_init(&w, l, &r);
    (void)index;
    while (good && fill(&w)) {
        good = forward(&w, &r);
        for (int i = 0; good && i < w.count; i++) line_give(l, w.slots[i]);
    }
    if (!good) line_fail(l, &r);
    worker_free(&w);
}

/* === A whole run === */

int infer_num_tokens(const vit_config *c) {
    if (c->crop_mode != VIT_CROP_ASPECT) return c->num_tokens;
    return c->num_prefix_tokens +
           (c->resize_height / c->patch_size) * (c->resize_width / c->patch_size);
}

static bool check_model(const infer_settings *settings, report *r) {
    const vit_config *config = &settings->model->config;
    if (config->in_chans != 1 && config->in_chans != 3)
        return report_fail(r, "only models of 1 or 3 channels take images, found %d",
                           config->in_chans);
    if (settings->outputs & INFER_LOGITS && config->num_classes == 0)
        return report_fail(r, "the model has no classes");
    if (settings->block > config->depth)
        return report_fail(r, "the model has %d blocks; there is no block %d", config->depth,
                           settings->block - 1);
    return true;
}

static void set_sizes(line *l) {
    const infer_settings *settings = l->settings;
    const vit_config *config = &settings->model->config;
    l->fits = config->crop_mode == VIT_CROP_ASPECT;
    l->batch = settings->together || l->fits ? 1 : INFER_BATCH;
    if (settings->batch && !l->fits) l->batch = settings->batch;
    if (!l->fits)
        l->image_size = (size_t)config->in_chans * (size_t)config->img_height *
                        (size_t)config->img_width;
    if (settings->outputs & INFER_LOGITS) l->logits_size = (size_t)config->num_classes;
    if (settings->outputs & INFER_EMBEDDING)
        l->embedding_size = (size_t)vit_embedding_dim(settings->model);
    if (settings->outputs & INFER_TOKENS)
        l->tokens_size = (size_t)infer_num_tokens(config) * (size_t)config->embed_dim +
                         (l->fits ? 2 : 0);
}

static void run_line(line *l, const vit_executor *executor) {
    const double start = cli_now_ms();
    cli_progress_start(&l->progress, l->settings->program, l->source->count);
    l->progress.unit = "images";
    if (l->settings->together) {
        l->executor = *executor;
        work(l, 0);
    } else {
        executor->parallel_for(executor->user, l->workers, work, l);
    }
    cli_progress_clear(&l->progress);
    l->counts->seconds = (cli_now_ms() - start) / 1e3 + 1e-9;
}

bool infer_run(const infer_settings *settings, photo_source *source, infer_counts *counts,
               report *r) {
    line l;
    vit_threads *threads = NULL;
    vit_executor executor;
    vit_result result;
    memset(counts, 0, sizeof *counts);
    memset(&l, 0, sizeof l);
    l.settings = settings;
    l.source = source;
    l.counts = counts;
    l.r = r;
    if (!check_model(settings, r)) return false;
    set_sizes(&l);
    result = vit_threads_create(settings->num_threads, &threads, &executor);
    if (result != VIT_OK) return report_fail(r, "%s", vit_result_string(result));
    l.workers = settings->together ? 1 : executor.num_threads;
    pthread_mutex_init(&l.lock, NULL); /* This call and the next call cannot fail on Linux. */
    pthread_cond_init(&l.given, NULL);
    if (line_allocate(&l)) run_line(&l, &executor);
    pthread_cond_destroy(&l.given);
    pthread_mutex_destroy(&l.lock);
    line_free(&l);
    vit_threads_destroy(threads);
    return !l.stopped && !r->failed;
}
