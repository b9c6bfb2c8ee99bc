/* module.c - vit.h and the computations of tools/vit-look as a WebAssembly module, for pages
 * and Node.
 *
 * `make wasm` builds it, with Debian's clang. The module imports only its memory and, if built with
 * threads, parallel_for. Any JavaScript can therefore instantiate the module.
 */

#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/crop.h"
#include "infer/attention.h"
#include "model/card.h"
#include "numbers/tokens.h"

struct web_model {
    vit_model own;       /* its weights are in data            */
    vit_model model;     /* `own`, resized for the latest photo */
    vit_session session; /* state of a forward pass            */
    int threads;
    void *data, *workspace;
    float *input;        /* [in_chans, img_height, img_width]  */
    float *logits;       /* [num_classes]                      */
    vit_prediction *top; /* [num_classes], the best first      */
    int sizes[WEB_SIZES];
};

/* --- failures --------------------------------------------------------------------------------- */

static vit_result last_result;
static char last_message[REPORT_SIZE];

static int fail(vit_result result, const char *message) {
    last_result = result;
    snprintf(last_message, sizeof last_message, "%s", message);
    return 0;
}

static int check(vit_result result) {
    return result == VIT_OK || fail(result, vit_result_string(result));
}

/* Fails with a report from tools/, which has a text but no error number. */
static int fail_report(const report *r) {
    return fail(r->no_memory ? VIT_ERROR_MEMORY : VIT_ERROR_UNSUPPORTED, r->text);
}

int web_result(void) { return last_result; }

const char *web_result_string(int result) { return vit_result_string((vit_result)result); }

const char *web_message(void) { return last_message; }

void *web_allocate(size_t size) { return malloc(size); }

void web_release(void *memory) { free(memory); }

/* --- threads ---------------------------------------------------------------------------------- */

#ifdef WEB_THREADS

/* Calls run(task, arg, i) for every i in [0, count), on this thread and on the workers of
 * pool.mjs. */
__attribute__((import_module("pool"), import_name("parallel_for"))) extern void pool_parallel_for(
    int count, vit_task *task, void *arg);

EXPORT(run) void web_run(vit_task *task, void *arg, int index);

void web_run(vit_task *task, void *arg, int index) { task(arg, index); }

static void parallel_for(void *user, int count, vit_task *task, void *arg) {
    (void)user;
    pool_parallel_for(count, task, arg);
}

static vit_executor executor_of(int threads) {
    const vit_executor none = { 0 }, pool = { parallel_for, NULL, threads };
    return threads > 1 ? pool : none;
}

#else

static vit_executor executor_of(int threads) {
    const vit_executor none = { 0 };
    (void)threads;
    return none;
}

#endif

/* --- opening ---------------------------------------------------------------------------------- */

static void find_sizes(web_model *m) {
    const vit_config *c = &m->model.config;
    const int sizes[WEB_SIZES] = {
        c->in_chans,     c->img_height,        c->img_width,   c->embed_dim,
        c->depth,        c->num_heads,         c->num_classes, vit_embedding_dim(&m->model),
        c->num_tokens,   c->num_prefix_tokens, c->grid_height, c->grid_width,
        c->has_cls_token
    };
    memcpy(m->sizes, sizes, sizeof sizes);
}

/* Replaces the session. If there is too little memory, keeps the previous session. */
static int start_session(web_model *m, const vit_model *model) {
    const vit_params params = { .executor = executor_of(m->threads) };
    const size_t size = vit_workspace_size(model, &params);
    void *workspace = size ? malloc(size) : NULL;
    float *input = calloc(vit_input_size(model), sizeof *input);
    if (!workspace || !input) {
        free(workspace);
        free(input);
        return check(VIT_ERROR_MEMORY);
    }
    free(m->workspace);
    free(m->input);
    m->workspace = workspace;
    m->input = input;
    m->model = *model;
    find_sizes(m);
    return check(vit_session_init(&m->session, &m->model, &params, workspace, size));
}

/* Allocates the memory whose size does not depend on the input size, and starts the session. */
static int start(web_model *m) {
    const size_t classes = (size_t)m->own.config.num_classes;
    m->logits = malloc((classes + 1) * sizeof *m->logits);
    m->top = malloc((classes + 1) * sizeof *m->top);
    if (!m->logits || !m->top) return check(VIT_ERROR_MEMORY);
    return start_session(m, &m->own);
}

web_model *web_open(void *data, size_t size, int threads, int verify) {
    web_model *m = calloc(1, sizeof *m);
    vit_result result;
    int good;
    if (!m) {
        free(data);
        check(VIT_ERROR_MEMORY);
        return NULL;
    }
    m->data = data;
    m->threads = threads;
    result = vit_model_open_memory(data, size, verify ? VIT_OPEN_VERIFY : 0, &m->own);
    good = result == VIT_OK ? start(m) : fail(result, m->own.detail);
    if (good) return m;
    web_close(m);
    return NULL;
}

/* After a failed web_open, members that were not allocated are NULL. */
void web_close(web_model *m) {
    if (!m) return;
    vit_model_close(&m->own);
    free(m->top);
    free(m->logits);
    free(m->input);
    free(m->workspace);
    free(m->data);
    free(m);
}

const int *web_sizes(const web_model *m) { return m->sizes; }

static void put_info(json_writer *w, const vit_model *model, card_totals *sum) {
    card_add_up(model, sum);
    json_put_begin(w, NULL, '{');
    card_put(w, model, sum, CARD_LABELS);
    json_put_end(w, '}');
}

char *web_info(const web_model *m) {
    card_totals *sum = malloc(sizeof *sum);
    char *text = NULL;
    size_t size;
    FILE *file = sum ? open_memstream(&text, &size) : NULL;
    if (file) {
        json_writer w = json_write_to(file);
        put_info(&w, &m->own, sum);
        if (ferror(file) | (fclose(file) != 0)) {
            free(text);
            text = NULL;
        }
    }
    free(sum);
    if (!text) check(VIT_ERROR_MEMORY);
    return text;
}

/* --- a photo ---------------------------------------------------------------------------------- */

/* Makes a copy of the model with the input size for a photo of this size. */
static int find_size(const web_model *m, int width, int height, vit_model *fitted) {
    const vit_image image = { (const uint8_t *)m, width, height, 0, VIT_PIXEL_GRAY8 };
    vit_result result;
    *fitted = m->own;
    if (m->own.config.crop_mode != VIT_CROP_ASPECT) return 1;
    result = vit_model_fit(&m->own, &image, fitted);
    return result == VIT_OK ||
           fail(result, *fitted->detail ? fitted->detail : vit_result_string(result));
}

int web_fit(web_model *m, int width, int height) {
    vit_model fitted;
    if (!find_size(m, width, height, &fitted)) return 0;
    if (fitted.config.crop_mode == m->model.config.crop_mode &&
        fitted.config.img_height == m->model.config.img_height &&
        fitted.config.img_width == m->model.config.img_width)
        return 1;
    return start_session(m, &fitted);
}

float *web_input(const web_model *m) { return m->input; }

int web_preprocess(web_model *m, const uint8_t *pixels, int width, int height, int stride,
                   int format) {
    const vit_image image = { pixels, width, height, stride, (vit_pixel)format };
    if (format < VIT_PIXEL_RGB8 || format > VIT_PIXEL_BGRA8) return check(VIT_ERROR_ARGUMENT);
    return check(vit_preprocess(&m->model, &image, m->input, NULL, 0));
}

int web_forward(web_model *m, float *const outputs[3], const vit_block_output *blocks,
                int num_blocks) {
    vit_outputs all = { 0 };
    all.logits = outputs[0];
    all.embedding = outputs[1];
    all.tokens = outputs[2];
    all.blocks = blocks;
    all.num_blocks = num_blocks;
    return check(vit_forward(&m->session, &(vit_input){ .pixels = m->input }, &all));
}

int web_classify(web_model *m, int most) {
    const int classes = m->model.config.num_classes;
    float *const outputs[3] = { m->logits, NULL, NULL };
    int count;
    if (classes == 0) return fail(VIT_ERROR_UNSUPPORTED, "the model has no classes");
    if (!web_forward(m, outputs, NULL, 0)) return 0;
    count = vit_top_k(m->logits, classes, most < classes ? most : classes, m->top);
    vit_scores(&m->model, m->logits);
    for (int i = 0; i < count; i++) m->top[i].score = m->logits[m->top[i].index];
    return count > 0 || check(VIT_ERROR_ARGUMENT) ? count : 0;
}

const vit_prediction *web_top(const web_model *m) { return m->top; }

void web_scores(const web_model *m, float *logits) { vit_scores(&m->model, logits); }

/* --- attention and tokens --------------------------------------------------------------------- */

static bool check_attention(const web_model *m, int block, int patch, int head, report *r) {
    const vit_config *c = &m->model.config;
    if (!attention_check(c, r)) return false;
    if (block < -1 || block >= c->depth)
        return report_fail(r, "the model has blocks 0 to %d", c->depth - 1);
    if (patch < -1 || patch >= c->num_patches)
        return report_fail(r, "the model has patches 0 to %d", c->num_patches - 1);
    return (head >= -1 && head < c->num_heads) ||
           report_fail(r, "the model has heads 0 to %d", c->num_heads - 1);
}

int web_attention(web_model *m, int block, int patch, int head, float *map) {
    const vit_config *c = &m->model.config;
    const bool rollout = block < 0;
    const int rows = rollout ? 1 : c->num_heads;
    const int from = patch >= 0 ? c->num_prefix_tokens + patch : c->has_cls_token ? 0 : -1;
    const attention_choice choice = { rollout ? 0 : block, from, rollout };
    report r = report_make();
    float *shares = NULL;
    bool good = check_attention(m, block, patch, head, &r);
    if (good) {
        shares = malloc((size_t)rows * (size_t)c->num_tokens * sizeof *shares);
        good = shares || report_no_memory(&r);
    }
    good = good && attention_read(&m->session, m->input, &choice, shares, &r);
    if (good) attention_map(c, shares, rows, rollout ? -1 : head, map);
    free(shares);
    return good || fail_report(&r);
}

int web_components(const web_model *m, const float *patches, const vit_grid *grids, int photos,
                   int foreground, float *coordinates, double numbers[6]) {
    enum { LARGEST = 1 << 15 };
    tokens_patches t = { patches, 0, m->own.config.embed_dim, grids };
    report r = report_make();
    pca p;
    int count;
    if (photos < 1) return check(VIT_ERROR_ARGUMENT);
    for (int i = 0; i < photos; i++) {
        const int height = grids[i].height, width = grids[i].width;
        if (height < 1 || width < 1 || height > LARGEST || width > LARGEST ||
            height * width > (1 << 30) - t.count)
            return check(VIT_ERROR_ARGUMENT);
        t.count += height * width;
    }
    if (!tokens_components(&t, foreground != 0, &p, coordinates, &r)) return fail_report(&r);
    memset(numbers, 0, 6 * sizeof *numbers);
    for (int i = 0; i < p.count; i++) {
        numbers[i] = p.variance[i];
        numbers[3 + i] = p.total > 0 ? p.variance[i] / p.total : 0;
    }
    count = p.count;
    pca_free(&p);
    return count;
}

void web_similarity(const float *vector, const float *others, int count, int dim, float *cosines) {
    for (int i = 0; i < count; i++)
        cosines[i] = vit_cosine(vector, others + (size_t)i * (size_t)dim, dim);
}

static bool find_positions(const web_model *m, int asked, int block, positions *p, int numbers[3],
                           report *r) {
    const vit_config *c = &m->own.config;
    const char *name = asked >= 0 && asked < POSITIONS_KINDS ? positions_name((position_kind)asked)
                                                             : NULL;
    position_kind kind;
    if (asked >= POSITIONS_KINDS)
        return report_fail(r, "the kind of positions must be embedding, rotary or relative");
    if (!positions_choose(c, name, &kind, r)) return false;
    numbers[0] = (int)kind;
    numbers[1] = positions_of_block(c, kind) ? block : -1;
    if (numbers[1] >= c->depth || block < 0)
        return report_fail(r, "the model has blocks 0 to %d", c->depth - 1);
    return positions_read(&m->own, kind, block, p, r);
}

int web_positions(const web_model *m, int kind, int block, float *cosines, int numbers[3]) {
    report r = report_make();
    positions p;
    if (!find_positions(m, kind, block, &p, numbers, &r)) return fail_report(&r);
    numbers[2] = p.dim;
    positions_cosines(&p, cosines);
    positions_free(&p);
    return 1;
}

/* --- places ----------------------------------------------------------------------------------- */

static bool find_crop(const web_model *m, int width, int height, vit_model *fitted, crop *c,
                      report *r) {
    enum { LARGEST = 1 << 20 };
    if (width < 1 || height < 1 || width > LARGEST || height > LARGEST)
        return report_fail(r, "expected 1 to %d pixels a side, found %d x %d", LARGEST, width,
                           height);
    if (!find_size(m, width, height, fitted)) return report_fail(r, "%s", last_message);
    return crop_find(c, &fitted->config, width, height, r);
}

int web_crop(const web_model *m, int width, int height, double numbers[14]) {
    report r = report_make();
    vit_model fitted;
    vit_crop found;
    crop c;
    if (!find_crop(m, width, height, &fitted, &c, &r)) return fail_report(&r);
    vit_find_crop(&fitted.config, width, height, &found);
    numbers[0] = numbers[4] = c.left / c.across;
    numbers[1] = numbers[5] = c.top / c.down;
    numbers[2] = c.width / c.across;
    numbers[3] = c.height / c.down;
    numbers[6] = c.covered_x / c.across;
    numbers[7] = c.covered_y / c.down;
    numbers[8] = (double)found.width;
    numbers[9] = (double)found.height;
    numbers[10] = (double)found.left;
    numbers[11] = (double)found.top;
    numbers[12] = fitted.config.grid_height;
    numbers[13] = fitted.config.grid_width;
    return 1;
}

int web_patch_at(const web_model *m, int width, int height, double x, double y) {
    report r = report_make();
    vit_model fitted;
    crop c;
    return find_crop(m, width, height, &fitted, &c, &r) ? crop_patch(&c, x, y) : -1;
}
