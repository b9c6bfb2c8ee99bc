#define _POSIX_C_SOURCE 200809L

#include "convert/match_model.h"

#include <stdlib.h>
#include <string.h>

#include "convert/weights.h"
#include "layout/inspect.h"

/* Threads cost more than they save below so many weights; images are few above so many bytes. */
enum { SMALL_MODEL = 1000000, LARGE_IMAGE = 1 << 29 };

/* === What tensors come from === */

static void hash_part(vit_hash *hash, const layout_part *part)
{
    const checkpoint_tensor_info *view = &part->view;
    const size_t size = (size_t)view->ndim * sizeof view->dims[0];
    vit_hash_update(hash, &part->info, sizeof part->info);
    vit_hash_update(hash, &view->count, sizeof view->count);
    if (!part->info) return;
    vit_hash_update(hash, view->dims, size);
    vit_hash_update(hash, view->strides, size);
    vit_hash_update(hash, &view->storage_offset, sizeof view->storage_offset);
}

/* What computed values depend on, apart from the settings that choose their kind. */
static void hash_computed(vit_hash *hash, const layout_item *item, const settings_resolved *model)
{
    const rope_options *rope = &item->rope.options;
    const int numbers[] = {
        item->rope.height, item->rope.width, item->rope.pairs, (int)rope->type,
        (int)rope->indexing, rope->reference, model->pos_sincos, (int)model->notes.pos_resample,
        model->stored.grid_height, model->stored.grid_width, model->stored.patch_rows,
        model->stored.chans, model->stored.patch, model->config.positions
    };
    const double factors[] = { rope->temperature, rope->offset, item->divisor };
    vit_hash_update(hash, numbers, sizeof numbers);
    vit_hash_update(hash, factors, sizeof factors);
}

static void hash_sources(vit_hash *hash, const layout_item *item)
{
    const int numbers[] = { (int)item->kind, (int)item->method, item->block, item->part_count };
    int i;
    vit_hash_update(hash, numbers, sizeof numbers);
    vit_hash_update(hash, &item->divisor, sizeof item->divisor);
    for (i = 0; i < item->part_count; i++) hash_part(hash, &item->parts[i]);
}

static uint64_t hash_item(const layout_item *item, const settings_resolved *model)
{
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

/* Without what changes nothing in a plan. Every member of a configuration is 4 bytes wide. */
static uint64_t plan_key(const match_model *m)
{
    const settings_resolved *model = &m->c.model;
    const int numbers[] = { model->pos_sincos, (int)model->notes.pos_resample,
                            model->notes.positions_resampled, model->notes.patches_adapted };
    vit_config config = m->config;
    vit_hash hash;
    config.activation = 0;
    config.norm_eps = config.attn_scale = 0;
    config.pool_prefix = 0;
    vit_hash_init(&hash);
    vit_hash_update(&hash, &config, sizeof config);
    vit_hash_update(&hash, &m->c.map, sizeof m->c.map);
    vit_hash_update(&hash, &model->stored, sizeof model->stored);
    vit_hash_update(&hash, &model->context_divisor, sizeof model->context_divisor);
    vit_hash_update(&hash, &model->rope, sizeof model->rope);
    vit_hash_update(&hash, numbers, sizeof numbers);
    return vit_hash_final(&hash);
}

static void free_plan(match_plan *p)
{
    layout_free_plan(&p->plan);
    free(p->sources);
    memset(p, 0, sizeof *p);
}

static bool make_plan(match_model *m, match_plan *p, report *r)
{
    findings open = { 0 };
    const bool good = layout_make_plan(&m->c.map, &m->c.model, &m->c.options->ignore, &p->plan,
                                       &open, r);
    size_t i;
    findings_free(&open);
    if (!good) return false;
    p->sources = malloc((p->plan.count + 1) * sizeof *p->sources);
    if (!p->sources) return report_no_memory(r);
    for (i = 0; i < p->plan.count; i++)
        p->sources[i] = hash_item(&p->plan.items[i], &m->c.model);
    return true;
}

/* The plan of the model that was set; NULL: there is none. */
static const match_plan *find_plan(match_model *m, report *r)
{
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

/* Without prefix tokens, all tokens are the patches; a single patch has no next one. */
static uint64_t sign(const match_model *m, vit_config config)
{
    vit_hash hash;
    if (config.num_prefix_tokens == 0) config.pool_prefix = config.positions = 0;
    if (config.num_patches == 1) config.patch_stride = 0;
    vit_hash_init(&hash);
    vit_hash_update(&hash, &config, sizeof config);
    vit_hash_update(&hash, m->plan->sources, m->plan->plan.count * sizeof *m->plan->sources);
    return vit_hash_final(&hash);
}

static uint64_t sign_network(const match_model *m)
{
    vit_config config = m->config;
    config.resize_height = config.resize_width = 0;
    config.crop_mode = config.crop_rounding = config.interpolation = 0;
    config.crop_pct = 0;
    memset(config.mean, 0, sizeof config.mean);
    memset(config.std, 0, sizeof config.std);
    return sign(m, config);
}

bool match_model_set(match_model *m, const settings *matched, report *r)
{
    conversion *c = &m->c;
    const patch_request wanted = { c->options->in_chans, c->options->patch_size };
    c->all[FROM_MATCH] = *matched;
    layout_take_orders(&c->map, c->all);
    if (!settings_resolve_all(c->all, &c->seen, &wanted, &c->model, r)) return false;
    c->model.config.selftest_tolerance = 0;   /* there is none in memory */
    m->config = c->model.config;
    m->plan = find_plan(m, r);
    if (!m->plan) return false;
    c->plan = m->plan->plan;
    m->signature = sign(m, m->config);
    m->network = sign_network(m);
    return true;
}

/* === Images === */

static bool has_same_tensors(const match_image *image, const layout_plan *plan)
{
    size_t i;
    if (image->writer.count != plan->count) return false;
    for (i = 0; i < plan->count; i++)
        if (strcmp(image->writer.tensors[i].name, plan->items[i].tensor.name) != 0 ||
            memcmp(image->writer.tensors[i].dims, plan->items[i].tensor.dims,
                   sizeof plan->items[i].tensor.dims) != 0)
            return false;
    return true;
}

static match_image *find_image(match_model *m)
{
    int i;
    for (i = 0; i < m->num_images; i++)
        if (has_same_tensors(&m->images[i], &m->c.plan)) return &m->images[i];
    return NULL;
}

static void free_image(match_image *image)
{
    vit_writer_free(&image->writer);
    free(image->sources);
    memset(image, 0, sizeof *image);
}

/* Values that another image has need not be read again. */
static bool copy_tensor(const match_model *m, const match_image *to, size_t tensor)
{
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

/* Brings the image's tensors to what the plan says. The last one is written in any case where the
 * file is new, which tells the writer that it has all. */
static bool update_image(match_model *m, match_image *image, bool is_new, report *r)
{
    const size_t count = m->c.plan.count;
    bool *wanted = calloc(count + 1, sizeof *wanted), good;
    size_t i;
    if (!wanted) return report_no_memory(r);
    for (i = 0; i < count; i++)
        wanted[i] = is_new ? i + 1 == count || !copy_tensor(m, image, i)
                           : image->sources[i] != m->plan->sources[i];
    memset(image->sources, 0, count * sizeof *image->sources);   /* until all are written */
    good = weights_rewrite(&m->c, wanted, &image->writer, r);
    if (good) memcpy(image->sources, m->plan->sources, count * sizeof *image->sources);
    free(wanted);
    return good;
}

static bool open_image(match_image *image, report *r)
{
    const vit_writer *w = &image->writer;
    const vit_result result = vit_model_open_memory(w->memory, (size_t)w->file_size, 0,
                                                    &image->model);
    return !result || report_fail(r, "%s", image->model.detail);
}

/* Large models have room for two: the one in use and the next. */
static match_image *next_place(match_model *m)
{
    const bool is_large = m->num_images > 0 && m->images[0].writer.file_size > LARGE_IMAGE;
    const int most = is_large ? 2 : MATCH_MAX_IMAGES;
    if (m->num_images < most) return &m->images[m->num_images++];
    m->next = (m->next + 1) % most;
    free_image(&m->images[m->next]);
    return &m->images[m->next];
}

static match_image *make_image(match_model *m, report *r)
{
    vit_writer_contents contents;
    match_image *image = next_place(m);
    memset(&contents, 0, sizeof contents);
    contents.config = &m->config;
    contents.dtype = VIT_F32;
    image->sources = calloc(m->c.plan.count + 1, sizeof *image->sources);
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

/* Room for the session: the last one's, if it is enough. */
static bool take_workspace(match_model *m, const vit_params *params, report *r)
{
    const size_t size = vit_workspace_size(&m->image->model, params);
    if (!size) return report_fail(r, "the model cannot be run");
    if (size <= m->workspace_size) return true;
    free(m->workspace);
    m->workspace = malloc(size);
    m->workspace_size = m->workspace ? size : 0;
    return m->workspace || report_no_memory(r);
}

static bool start_session(match_model *m, report *r)
{
    vit_params params;
    memset(&params, 0, sizeof params);
    params.isa = m->isa;
    if (m->image->writer.file_size > SMALL_MODEL * sizeof(float)) params.executor = m->executor;
    return take_workspace(m, &params, r) &&
           (vit_session_init(&m->session, &m->image->model, &params, m->workspace,
                             m->workspace_size) == VIT_OK ||
            report_fail(r, "the model cannot be run"));
}

bool match_model_load(match_model *m, report *r)
{
    match_image *image = find_image(m);
    if (image ? !update_image(m, image, false, r) : (image = make_image(m, r)) == NULL)
        return false;
    m->image = image;
    image->model.config = m->config;
    m->output_size = (size_t)(m->config.num_classes ? m->config.num_classes
                                                    : vit_embedding_dim(&image->model));
    return start_session(m, r);
}

const vit_model *match_model_get(const match_model *m)
{
    return &m->image->model;
}

bool match_model_run(match_model *m, const float *input, float *output, report *r)
{
    vit_outputs outputs;
    vit_result result;
    memset(&outputs, 0, sizeof outputs);
    *(m->config.num_classes ? &outputs.logits : &outputs.embedding) = output;
    result = vit_forward(&m->session, &(vit_input){ .pixels = input }, &outputs);
    return !result || report_fail(r, "%s", vit_result_string(result));
}

bool match_model_open(match_model *m, const conversion *c, report *r)
{
    memset(m, 0, sizeof *m);
    m->c = *c;
    m->options = *c->options;
    m->options.quiet = true;   /* the search has a progress of its own */
    m->options.dtype = VIT_F32;
    m->c.options = &m->options;
    m->isa = vit_detect_isa();
    memset(&m->c.plan, 0, sizeof m->c.plan);
    return !vit_threads_create(0, &m->threads, &m->executor) || report_no_memory(r);
}

void match_model_close(match_model *m)
{
    int i;
    for (i = 0; i < m->num_images; i++) free_image(&m->images[i]);
    for (i = 0; i < MATCH_MAX_PLANS; i++) free_plan(&m->plans[i]);
    vit_threads_destroy(m->threads);
    free(m->workspace);
    memset(m, 0, sizeof *m);
}
