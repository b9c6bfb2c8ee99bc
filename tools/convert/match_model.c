#define _POSIX_C_SOURCE 200809L
#include "convert/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "layout/detect.h"

/* === An input and its output === */

static const char *shape_of(const npy_array *array, char text[SHAPE_TEXT_SIZE]) {
    return shape_text(array->dims, array->ndim, text, SHAPE_TEXT_SIZE);
}

static bool check_finite(const npy_array *array, const char *path, report *r) {
    size_t i;
    for (i = 0; i < array->count; i++)
        if (!isfinite(array->data[i]))
            return report_fail(r, "value %zu is NaN or infinite", i) || report_file(r, path);
    return true;
}

static bool take_input(match_pair *p, report *r) {
    const npy_array *x = &p->input;
    const int64_t *dims = x->dims + (x->ndim == 4);
    char found[SHAPE_TEXT_SIZE];
    bool good = (x->ndim == 3 || x->ndim == 4) && x->count > 0;
    int i;
    for (i = 0; good && i < x->ndim; i++) good = x->dims[i] <= 1 << 20;
    if (!good)
        return report_fail(r, "expected an input [C, H, W] or [B, C, H, W], found %s",
                           shape_of(x, found)) ||
               report_file(r, p->input_path);
    if (dims[0] > 4 && dims[2] <= 4)
        return report_fail(r,
                           "expected an input [C, H, W] or [B, C, H, W], found %s, which looks "
                           "like channels last",
                           shape_of(x, found)) ||
               report_file(r, p->input_path);
    p->images = x->ndim == 4 ? (int)x->dims[0] : 1;
    p->chans = (int)dims[0];
    p->height = (int)dims[1];
    p->width = (int)dims[2];
    return true;
}

static bool take_logits(match_pair *p, report *r) {
    const npy_array *y = &p->logits;
    char found[SHAPE_TEXT_SIZE], input[SHAPE_TEXT_SIZE];
    const bool has_batch = y->ndim == 2 && y->dims[0] == p->images;
    if (y->count == 0 || !(has_batch || (y->ndim == 1 && p->images == 1)))
        return report_fail(r, "expected logits [%d, classes] for an input %s, found %s", p->images,
                           shape_of(&p->input, input), shape_of(y, found)) ||
               report_file(r, p->logits_path);
    p->outputs = y->count / (size_t)p->images;
    return y->count > 1 ||
           report_fail(r,
                       "one number is not enough: some of many settings give the same number "
                       "by chance; save several inputs, [8, C, H, W], and their logits [8, %zu]",
                       p->outputs) ||
           report_file(r, p->logits_path);
}

/* === The original's last step, which computes its output from logits === */

/* The bounds of a logit. Beyond these bounds, a float cannot hold the probability, or 1 minus the
 * probability, with enough digits. */
static const double least_log = -85, most_logit = 8;

/* Returns the logarithm of the sum of exp(row[k]). */
static double log_sum(const float *row, size_t n) {
    double most = (double)row[0], sum = 0;
    size_t k;
    for (k = 1; k < n; k++) most = fmax(most, (double)row[k]);
    for (k = 0; k < n; k++) sum += exp((double)row[k] - most);
    return most + log(sum);
}

static double length_of(const float *row, size_t n) {
    double sum = 0;
    size_t k;
    for (k = 0; k < n; k++) sum += (double)row[k] * (double)row[k];
    return sqrt(sum);
}

/* Limits the logits to the bounds (for a softmax, only to the lower one). For a softmax, also
 * subtracts the mean, which probabilities do not show. Does nothing without probabilities. */
static void cut(model_end reading, double *row, size_t n) {
    const bool is_softmax = reading == MODEL_END_SOFTMAX || reading == MODEL_END_LOG_SOFTMAX;
    double mean = 0;
    size_t k;
    if (reading == MODEL_END_NONE || reading == MODEL_END_UNIT) return;
    for (k = 0; k < n; k++) {
        if (row[k] < least_log) row[k] = least_log;
        if (!is_softmax && row[k] > most_logit) row[k] = most_logit;
        mean += row[k] / (double)n;
    }
    for (k = 0; is_softmax && k < n; k++) row[k] -= mean;
}

/* Computes the logits from the numbers of the original. `reading` is the original's last step. */
static void read_original(model_end reading, const float *from, double *to, size_t n) {
    size_t k;
    for (k = 0; k < n; k++) {
        const double y = (double)from[k];
        to[k] = reading == MODEL_END_SOFTMAX   ? log(y)
                : reading == MODEL_END_SIGMOID ? log(y) - log(1 - y)
                                               : y;
    }
    cut(reading, to, n);
}

/* Makes the output of a .vit file, logits, comparable with the logits of read_original: removes
 * everything that the original's last step hides. */
static void read_output(model_end reading, const float *from, double *to, size_t n) {
    const bool is_softmax = reading == MODEL_END_SOFTMAX || reading == MODEL_END_LOG_SOFTMAX;
    const double less = is_softmax ? log_sum(from, n) : 0;
    const double by = reading == MODEL_END_UNIT ? length_of(from, n) : 1;
    size_t k;
    for (k = 0; k < n; k++) to[k] = ((double)from[k] - less) / by;
    cut(reading, to, n);
}

/* True if the last step `reading` could have given these numbers, up to rounding errors. */
static bool may_be(model_end reading, const float *row, size_t n) {
    double sum = 0;
    size_t k;
    if (reading == MODEL_END_NONE) return true;
    if (reading == MODEL_END_UNIT) return n > 1 && fabs(length_of(row, n) - 1) < 1e-4;
    if (reading == MODEL_END_LOG_SOFTMAX) return n > 1 && fabs(log_sum(row, n)) < 1e-4;
    for (k = 0; k < n; k++) {
        if (!(row[k] >= 0 && row[k] <= 1)) return false;
        sum += (double)row[k];
    }
    return reading == MODEL_END_SIGMOID || (n > 1 && fabs(sum - 1) < 1e-3);
}

/* Lists at most two last steps that could have given the pair's numbers. A sigmoid or a scaling to
 * length 1 is never certain: logits may also be all between 0 and 1, or have the length 1. */
static void list_readings(match_pair *p) {
    static const model_end forms[] = { MODEL_END_SOFTMAX, MODEL_END_LOG_SOFTMAX, MODEL_END_SIGMOID,
                                       MODEL_END_UNIT, MODEL_END_NONE };
    size_t form;
    int i;
    for (form = 0; p->num_readings < 2; form++) {
        for (i = 0; i < p->images; i++)
            if (!may_be(forms[form], p->logits.data + (size_t)i * p->outputs, p->outputs)) break;
        if (i < p->images) continue;
        p->readings[p->num_readings++] = forms[form];
        if (forms[form] != MODEL_END_SIGMOID && forms[form] != MODEL_END_UNIT) return;
    }
}

static bool are_equal(const match_pair *p) {
    size_t i = 1;
    while (i < p->logits.count && !(fabsf(p->logits.data[0] - p->logits.data[i]) > 0)) i++;
    return i > 1 && i == p->logits.count;
}

static bool read_expected(match_pair *p, report *r) {
    const size_t n = p->outputs;
    size_t k;
    int i, j;
    list_readings(p);
    p->scratch = malloc(n * sizeof *p->scratch);
    for (j = 0; p->scratch && j < p->num_readings; j++) {
        p->expected[j] = malloc(p->logits.count * sizeof *p->expected[j]);
        if (!p->expected[j]) break;
        for (i = 0; i < p->images; i++)
            read_original(p->readings[j], p->logits.data + (size_t)i * n,
                          p->expected[j] + (size_t)i * n, n);
        for (k = 0; k < p->logits.count; k++)
            p->largest[j] = fmax(p->largest[j], fabs(p->expected[j][k]));
    }
    return (p->scratch && j == p->num_readings) || report_no_memory(r);
}

static bool check_logits(match_pair *p, report *r) {
    if (!check_finite(&p->input, p->input_path, r) || !check_finite(&p->logits, p->logits_path, r))
        return false;
    if (!are_equal(p)) return read_expected(p, r);
    if (fabsf(p->logits.data[0]) > 0)
        (void)report_fail(r, "expected logits, found the same value everywhere");
    else (void)report_fail(r, "expected logits, found zeros");
    return report_file(r, p->logits_path);
}

bool match_pair_read(match_pair *pair, const char *input, const char *logits, report *r) {
    memset(pair, 0, sizeof *pair);
    pair->input_path = input;
    pair->logits_path = logits;
    if (!npy_read(input, &pair->input, r)) return report_file(r, input);
    if (!npy_read(logits, &pair->logits, r)) return report_file(r, logits);
    return take_input(pair, r) && take_logits(pair, r) && check_logits(pair, r);
}

void match_pair_free(match_pair *pair) {
    npy_free(&pair->input);
    npy_free(&pair->logits);
    free(pair->expected[0]);
    free(pair->expected[1]);
    free(pair->scratch);
}

const float *match_pair_input(const match_pair *pair, int image) {
    return pair->input.data + (size_t)image * (pair->input.count / (size_t)pair->images);
}

bool match_pair_check(const match_pair *pair, int classes, int embedding, int chans, report *r) {
    if (chans > 0 && chans != pair->chans)
        return report_fail(r, "expected an input of %d channel%s, [%d, H, W], found [%d, %d, %d]",
                           chans, chans == 1 ? "" : "s", chans, pair->chans, pair->height,
                           pair->width) ||
               report_file(r, pair->input_path);
    if (classes == 0 || (size_t)classes == pair->outputs || (size_t)embedding == pair->outputs)
        return true;
    return report_fail(r, "expected %d logits for each input, found %zu", classes, pair->outputs) ||
           report_file(r, pair->logits_path);
}

bool match_pair_fits(const match_pair *pair, const vit_config *config, size_t outputs, report *r) {
    if (config->in_chans != pair->chans || config->img_height != pair->height ||
        config->img_width != pair->width)
        return report_fail(r, "expected [%d, %d, %d], the model's input, found [%d, %d, %d]",
                           config->in_chans, config->img_height, config->img_width, pair->chans,
                           pair->height, pair->width) ||
               report_file(r, pair->input_path);
    return outputs == pair->outputs ||
           report_fail(r, "expected %zu %s for each input, found %zu", outputs,
                       outputs == (size_t)config->num_classes ? "logits"
                                                              : "values of the embedding",
                       pair->outputs) ||
           report_file(r, pair->logits_path);
}

void match_pair_compare(const match_pair *pair, int reading, int image, const float *output,
                        match_error *error) {
    const double *expected = pair->expected[reading] + (size_t)image * pair->outputs;
    const double size = pair->largest[reading];
    size_t k;
    read_output(pair->readings[reading], output, pair->scratch, pair->outputs);
    for (k = 0; k < pair->outputs; k++) {
        const double a = pair->scratch[k] / size, b = expected[k] / size, e = a - b;
        const double far = e == e ? fabs(e) : HUGE_VAL; /* NaN counts as the largest error */
        error->largest = far > error->largest ? far : error->largest;
        error->square += far * far;
        error->ab += a * b;
        error->aa += a * a;
        error->bb += b * b;
    }
}

double match_error_slope(const match_error *error) {
    const double size = sqrt(error->aa) * sqrt(error->bb);
    if (!(error->square < HUGE_VAL)) return HUGE_VAL;
    return (size > 0 ? 1 - error->ab / size : 1) + 0.03 * error->square / error->bb;
}

/* === Models to try === */

/* In models with at most SMALL_MODEL weights, threads cost more time than they save. A model image
 * is the .vit file of a model in memory. If it has more bytes than LARGE_IMAGE, memory holds only
 * two images. */
enum { SMALL_MODEL = 1000000, LARGE_IMAGE = 1 << 29 };

/* === The sources of tensors === */

static void hash_part(vit_hash *hash, const layout_part *part) {
    const checkpoint_tensor_info *view = &part->view;
    const size_t size = (size_t)view->ndim * sizeof view->dims[0];
    vit_hash_update(hash, &part->info, sizeof part->info);
    vit_hash_update(hash, &view->count, sizeof view->count);
    if (!part->info) return;
    vit_hash_update(hash, view->dims, size);
    vit_hash_update(hash, view->strides, size);
    vit_hash_update(hash, &view->storage_offset, sizeof view->storage_offset);
}

/* Adds to the hash all settings on which computed tensors depend. hash_sources adds the method of
 * computation. */
static void hash_computed(vit_hash *hash, const layout_item *item, const settings_resolved *model) {
    const rope_options *rope = &item->rope.options;
    const int numbers[] = {
        item->rope.height,         item->rope.width,
        item->rope.pairs,          (int)rope->type,
        (int)rope->indexing,       rope->reference,
        model->pos_sincos,         (int)model->notes.pos_resample,
        model->stored.grid_height, model->stored.grid_width,
        model->stored.patch_rows,  model->stored.chans,
        model->stored.patch,       model->config.positions,
    };
    const double factors[] = { rope->temperature, rope->offset, item->divisor };
    vit_hash_update(hash, numbers, sizeof numbers);
    vit_hash_update(hash, factors, sizeof factors);
}

static void hash_sources(vit_hash *hash, const layout_item *item) {
    const int numbers[] = { (int)item->kind, (int)item->method, item->block, item->part_count };
    int i;
    vit_hash_update(hash, numbers, sizeof numbers);
    vit_hash_update(hash, &item->divisor, sizeof item->divisor);
    for (i = 0; i < item->part_count; i++) hash_part(hash, &item->parts[i]);
}

static uint64_t hash_item(const layout_item *item, const settings_resolved *model) {
    const bool is_copied = item->kind == SOURCE_CHECKPOINT && item->method != LAYOUT_COS &&
                           item->method != LAYOUT_SIN && item->method != LAYOUT_ROTATIONS;
    vit_hash hash;
    int i;
    vit_hash_init(&hash);
    vit_hash_update(&hash, item->tensor.name, strlen(item->tensor.name) + 1);
    vit_hash_update(&hash, item->tensor.dims, sizeof item->tensor.dims);
    if (!is_copied) hash_computed(&hash, item, model);
    hash_sources(&hash, item);
    for (i = 0; item->folded && i < FOLDED_COUNT; i++) hash_sources(&hash, &item->folded[i]);
    return vit_hash_final(&hash);
}

/* Returns a hash of the settings that may affect a plan. vit_config has no padding, because each of
 * its members has 4 bytes. */
static uint64_t plan_key(const match_model *m) {
    const settings_resolved *model = &m->model;
    const int numbers[] = { model->pos_sincos, (int)model->notes.pos_resample,
                            model->notes.positions_resampled, model->notes.patches_adapted };
    vit_config config = m->config;
    vit_hash hash;
    config.activation = 0;
    config.norm_eps = config.attn_scale = 0;
    config.pool_prefix = 0;
    vit_hash_init(&hash);
    vit_hash_update(&hash, &config, sizeof config);
    vit_hash_update(&hash, &m->facts.map, sizeof m->facts.map);
    vit_hash_update(&hash, &model->stored, sizeof model->stored);
    vit_hash_update(&hash, &model->context_divisor, sizeof model->context_divisor);
    vit_hash_update(&hash, &model->rope, sizeof model->rope);
    vit_hash_update(&hash, numbers, sizeof numbers);
    return vit_hash_final(&hash);
}

static void free_plan(match_plan *p) {
    layout_free_plan(&p->plan);
    free(p->sources);
    memset(p, 0, sizeof *p);
}

static bool make_plan(match_model *m, match_plan *p, report *r) {
    findings open = { 0 };
    const bool good = layout_make_plan(&m->facts.map, &m->model, &m->options->ignore, &p->plan,
                                       &open, r);
    size_t i;
    findings_free(&open);
    if (!good) return false;
    p->sources = malloc((p->plan.count + 1) * sizeof *p->sources);
    if (!p->sources) return report_no_memory(r);
    for (i = 0; i < p->plan.count; i++) p->sources[i] = hash_item(&p->plan.items[i], &m->model);
    return true;
}

/* Returns the plan of the current model. Makes the plan if it is not in memory yet. Returns NULL if
 * there is no plan for this model. */
static const match_plan *find_plan(match_model *m, report *r) {
    const uint64_t key = plan_key(m);
    match_plan *p;
    int i;
    for (i = 0; i < m->num_plans; i++)
        if (m->plans[i].key == key && m->plans[i].sources) return &m->plans[i];
    if (m->num_plans < MATCH_MAX_PLANS) m->num_plans++;
    m->next_plan = (m->next_plan + 1) % MATCH_MAX_PLANS;
    p = &m->plans[m->next_plan];
    free_plan(p);
    p->key = key;
    if (make_plan(m, p, r)) return p;
    free_plan(p);
    return NULL;
}

/* Returns a hash that is equal for settings that give the same model. For example, pool_prefix has
 * no effect without prefix tokens, and patch_stride has no effect on a single patch. */
static uint64_t sign(const match_model *m, vit_config config) {
    vit_hash hash;
    if (config.num_prefix_tokens == 0) config.pool_prefix = config.positions = 0;
    if (config.num_patches == 1) config.patch_stride = 0;
    vit_hash_init(&hash);
    vit_hash_update(&hash, &config, sizeof config);
    vit_hash_update(&hash, m->plan->sources, m->plan->plan.count * sizeof *m->plan->sources);
    return vit_hash_final(&hash);
}

static uint64_t sign_network(const match_model *m) {
    vit_config config = m->config;
    config.resize_height = config.resize_width = 0;
    config.crop_mode = config.crop_rounding = config.interpolation = 0;
    config.crop_pct = 0;
    memset(config.mean, 0, sizeof config.mean);
    memset(config.std, 0, sizeof config.std);
    return sign(m, config);
}

bool match_model_set(match_model *m, const settings *matched, report *r) {
    facts *f = &m->facts;
    f->all[FROM_MATCH] = *matched;
    layout_take_orders(&f->map, f->all);
    if (!settings_resolve_all(f->all, &f->seen, &f->wanted, &m->model, r)) return false;
    m->model.config.selftest_tolerance = 0; /* a model in memory has no self-test */
    m->config = m->model.config;
    m->plan = find_plan(m, r);
    if (!m->plan) return false;
    m->signature = sign(m, m->config);
    m->network = sign_network(m);
    return true;
}

/* === Images === */

static bool has_same_tensors(const match_image *image, const layout_plan *plan) {
    size_t i;
    if (image->writer.count != plan->count) return false;
    for (i = 0; i < plan->count; i++)
        if (strcmp(image->writer.tensors[i].name, plan->items[i].tensor.name) != 0 ||
            memcmp(image->writer.tensors[i].dims, plan->items[i].tensor.dims,
                   sizeof plan->items[i].tensor.dims) != 0)
            return false;
    return true;
}

static match_image *find_image(match_model *m) {
    int i;
    for (i = 0; i < m->num_images; i++)
        if (has_same_tensors(&m->images[i], &m->plan->plan)) return &m->images[i];
    return NULL;
}

static void free_image(match_image *image) {
    vit_writer_free(&image->writer);
    free(image->sources);
    memset(image, 0, sizeof *image);
}

/* Copies the values of a tensor from another image that has a tensor made from the same sources.
 * Returns false if no other image has such a tensor. */
static bool copy_tensor(const match_model *m, const match_image *to, size_t tensor) {
    const vit_tensor *target = &to->writer.tensors[tensor];
    size_t t;
    int i;
    for (i = 0; i < m->num_images; i++) {
        const match_image *from = &m->images[i];
        if (from == to) continue;
        for (t = 0; t < from->writer.count; t++) {
            if (from->sources[t] != m->plan->sources[tensor]) continue;
            memcpy(to->writer.memory + target->offset,
                   from->writer.memory + from->writer.tensors[t].offset, (size_t)target->size);
            return true;
        }
    }
    return false;
}

/* Replaces those tensors of the image that differ from the current plan. In a new image, the last
 * tensor is always written, because vit_writer_finish requires that. */
static bool update_image(match_model *m, match_image *image, bool is_new, report *r) {
    weights_source from = { .path = m->options->checkpoint, .checkpoint = m->facts.map.checkpoint };
    const size_t count = m->plan->plan.count;
    bool *wanted = calloc(count + 1, sizeof *wanted), good;
    size_t i;
    if (!wanted) return report_no_memory(r);
    from.plan = &m->plan->plan;
    from.model = &m->model;
    from.allows_nonfinite = m->options->given.value[SETTING_ALLOW_NONFINITE] != 0;
    from.quiet = true; /* The search shows its own progress bar. */
    for (i = 0; i < count; i++)
        wanted[i] = is_new ? i + 1 == count || !copy_tensor(m, image, i)
                           : image->sources[i] != m->plan->sources[i];
    /* The sources are unknown until all tensors are written. */
    memset(image->sources, 0, count * sizeof *image->sources);
    good = weights_rewrite(&from, wanted, &image->writer, r);
    if (good) memcpy(image->sources, m->plan->sources, count * sizeof *image->sources);
    free(wanted);
    return good;
}

static bool open_image(match_image *image, report *r) {
    const vit_writer *w = &image->writer;
    const vit_result result = vit_model_open_memory(w->memory, (size_t)w->file_size, 0,
                                                    &image->model);
    return !result || report_fail(r, "%s", image->model.detail);
}

/* Returns the slot for the next image. For large models, memory holds only the current image and
 * the next image. */
static match_image *next_place(match_model *m) {
    const bool is_large = m->num_images > 0 && m->images[0].writer.file_size > LARGE_IMAGE;
    const int most = is_large ? 2 : MATCH_MAX_IMAGES;
    if (m->num_images < most) return &m->images[m->num_images++];
    m->next = (m->next + 1) % most;
    free_image(&m->images[m->next]);
    return &m->images[m->next];
}

static match_image *make_image(match_model *m, report *r) {
    vit_writer_contents contents;
    match_image *image = next_place(m);
    memset(&contents, 0, sizeof contents);
    contents.config = &m->config;
    contents.dtype = VIT_F32;
    image->sources = calloc(m->plan->plan.count + 1, sizeof *image->sources);
    if (image->sources) {
        if (vit_writer_start(&image->writer, NULL, &contents, r) &&
            update_image(m, image, true, r) && vit_writer_finish(&image->writer, r) &&
            open_image(image, r))
            return image;
    } else {
        (void)report_no_memory(r);
    }
    free_image(image);
    return NULL;
}

/* === Running === */

/* Provides memory for the session. Uses the memory of the previous session again if it is large
 * enough. */
static bool take_workspace(match_model *m, const vit_params *params, report *r) {
    const size_t size = vit_workspace_size(&m->image->model, params);
    if (!size) return report_fail(r, "the model cannot be run");
    if (size <= m->workspace_size) return true;
    free(m->workspace);
    m->workspace = malloc(size);
    m->workspace_size = m->workspace ? size : 0;
    return m->workspace || report_no_memory(r);
}

static bool start_session(match_model *m, report *r) {
    vit_params params;
    memset(&params, 0, sizeof params);
    params.isa = m->isa;
    if (m->image->writer.file_size > SMALL_MODEL * sizeof(float)) params.executor = m->executor;
    return take_workspace(m, &params, r) &&
           (vit_session_init(&m->session, &m->image->model, &params, m->workspace,
                             m->workspace_size) == VIT_OK ||
            report_fail(r, "the model cannot be run"));
}

static bool gives_logits(const match_model *m) {
    return m->config.num_classes && !m->gives_embedding;
}

bool match_model_load(match_model *m, report *r) {
    match_image *image = find_image(m);
    if (image ? !update_image(m, image, false, r) : (image = make_image(m, r)) == NULL)
        return false;
    m->image = image;
    image->model.config = m->config;
    m->output_size = (size_t)(gives_logits(m) ? m->config.num_classes
                                              : vit_embedding_dim(&image->model));
    return start_session(m, r);
}

const vit_model *match_model_get(const match_model *m) { return &m->image->model; }

bool match_model_run(match_model *m, const float *input, float *output, report *r) {
    vit_outputs outputs;
    vit_result result;
    memset(&outputs, 0, sizeof outputs);
    *(gives_logits(m) ? &outputs.logits : &outputs.embedding) = output;
    result = vit_forward(&m->session, &(vit_input){ .pixels = input }, &outputs);
    return !result || report_fail(r, "%s", vit_result_string(result));
}

bool match_model_open(match_model *m, const convert_options *o, const facts *f, report *r) {
    memset(m, 0, sizeof *m);
    m->options = o;
    m->facts = *f;
    m->isa = vit_detect_isa();
    return !vit_threads_create(0, &m->threads, &m->executor) || report_no_memory(r);
}

void match_model_close(match_model *m) {
    int i;
    for (i = 0; i < m->num_images; i++) free_image(&m->images[i]);
    for (i = 0; i < MATCH_MAX_PLANS; i++) free_plan(&m->plans[i]);
    vit_threads_destroy(m->threads);
    free(m->workspace);
    memset(m, 0, sizeof *m);
}
