/* test_random.c - random architectures against a forward pass in double precision.
 *
 * The reference below is written from the architecture's definition, without a look at vit.h's
 * layers, and reads its weights by name through the public functions. Every shape is fair game:
 * one channel or six, patches of one pixel, widths of any remainder modulo 16, head_dim times
 * num_heads unequal embed_dim, no blocks, no head. Each model runs on every tier with one and
 * with three threads; all must give the same bits.
 */
#define VIT_IMPLEMENTATION
#include "../vit.h"

#include "test.h"
#include "tiny_model.h"

#include <stdbool.h>

enum { MODELS = 150, BATCH = 2 };

static uint32_t seed = 2026;

static int pick(int low, int high) {
    seed = seed * 1664525u + 1013904223u;
    return low + (int)((seed >> 8) % (uint32_t)(high - low + 1));
}

/* --- the reference -------------------------------------------------------- */

typedef struct reference {
    const vit_model *model;
    size_t tokens, dim;
    double *x;                                /* [N, D] */
    double *tokens_out, *attention, *embedding, *logits;
} reference;

static double *doubles(size_t count) {
    return tiny_allocate(count * sizeof(double));
}

/* A tensor by name as [rows, the rest], widened to double; NULL if the model has none. */
static double *weights(const vit_model *model, const char *name) {
    vit_tensor t;
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        if (strcmp(t.name, name) == 0) {
            size_t count = tiny_count(&t), width = count / (size_t)t.dims[0];
            float *row = tiny_allocate(width * sizeof(float));
            double *all = doubles(count);
            for (int r = 0; r < t.dims[0]; r++) {
                vit_unpack_row(&t, r, row);
                for (size_t k = 0; k < width; k++) {
                    all[(size_t)r * width + k] = (double)row[k];
                }
            }
            free(row);
            return all;
        }
    }
    return NULL;
}

static double *block_weights(const vit_model *model, int block, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    return weights(model, full);
}

/* y[rows, n] = x[rows, k] w^T + b; takes w and b with it. */
static double *linear(const double *x, size_t rows, size_t k, size_t n, double *w, double *b) {
    double *y = doubles(rows * n);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < n; i++) {
            double sum = b ? b[i] : 0;
            for (size_t j = 0; j < k; j++) {
                sum += x[r * k + j] * w[i * k + j];
            }
            y[r * n + i] = sum;
        }
    }
    free(w);
    free(b);
    return y;
}

static double *layernorm(const double *x, size_t rows, size_t dim, double *w, double *b,
                         double eps) {
    double *y = doubles(rows * dim);
    for (size_t r = 0; r < rows; r++) {
        double mean = 0, var = 0;
        for (size_t i = 0; i < dim; i++) {
            mean += x[r * dim + i] / (double)dim;
        }
        for (size_t i = 0; i < dim; i++) {
            var += (x[r * dim + i] - mean) * (x[r * dim + i] - mean) / (double)dim;
        }
        for (size_t i = 0; i < dim; i++) {
            y[r * dim + i] = (x[r * dim + i] - mean) / sqrt(var + eps) * w[i] + b[i];
        }
    }
    free(w);
    free(b);
    return y;
}

static void softmax(double *x, size_t n) {
    double top = x[0], sum = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmax(top, x[i]);
    }
    for (size_t i = 0; i < n; i++) {
        sum += x[i] = exp(x[i] - top);
    }
    for (size_t i = 0; i < n; i++) {
        x[i] /= sum;
    }
}

/* conv2d with stride P, straight from its definition. */
static double *patch_embed(const reference *f, const float *input) {
    const vit_config *c = &f->model->config;
    size_t p = (size_t)c->patch_size, width = (size_t)c->img_width, grid = (size_t)c->grid_width;
    size_t chans = (size_t)c->in_chans, patches = (size_t)c->num_patches;
    double *rows = doubles(patches * chans * p * p), *to = rows;
    for (size_t patch = 0; patch < patches; patch++) {
        for (size_t channel = 0; channel < chans; channel++) {
            for (size_t i = 0; i < p * p; i++) {
                size_t y = patch / grid * p + i / p, x = patch % grid * p + i % p;
                *to++ = (double)input[(channel * (size_t)c->img_height + y) * width + x];
            }
        }
    }
    double *out = linear(rows, patches, chans * p * p, f->dim,
                         weights(f->model, "patch_embed.proj.weight"),
                         weights(f->model, "patch_embed.proj.bias"));
    free(rows);
    if (c->has_patch_norm) {
        double *normed = layernorm(out, patches, f->dim,
                                   weights(f->model, "patch_embed.norm.weight"),
                                   weights(f->model, "patch_embed.norm.bias"),
                                   (double)c->norm_eps);
        free(out);
        out = normed;
    }
    return out;
}

static void embed(reference *f, const float *input) {
    const vit_config *c = &f->model->config;
    double *patches = patch_embed(f, input), *pos = weights(f->model, "pos_embed");
    double *cls = weights(f->model, "cls_token"), *dist = weights(f->model, "dist_token");
    size_t prefix = (size_t)c->num_prefix_tokens * f->dim;
    for (size_t i = 0; i < f->tokens * f->dim; i++) {
        const double *row = i < f->dim ? cls : dist;
        f->x[i] = pos[i] + (i < prefix ? row[i % f->dim] : patches[i - prefix]);
    }
    free(patches);
    free(pos);
    free(cls);
    free(dist);
}

/* Adds attention of one block to x; its map stays in f->attention. */
static void attention(reference *f, int block) {
    const vit_config *c = &f->model->config;
    size_t heads = (size_t)c->num_heads, hd = (size_t)c->head_dim, width = heads * hd;
    size_t n = f->tokens;
    double *y = layernorm(f->x, n, f->dim, block_weights(f->model, block, "norm1.weight"),
                          block_weights(f->model, block, "norm1.bias"), (double)c->norm_eps);
    double *qkv = linear(y, n, f->dim, 3 * width,
                         block_weights(f->model, block, "attn.qkv.weight"),
                         block_weights(f->model, block, "attn.qkv.bias"));
    double *context = doubles(n * width);
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < n; i++) {
            double *row = f->attention + (h * n + i) * n;
            for (size_t j = 0; j < n; j++) {
                double dot = 0;
                for (size_t d = h * hd; d < (h + 1) * hd; d++) {
                    dot += qkv[i * 3 * width + d] * qkv[(j * 3 + 1) * width + d];
                }
                row[j] = dot * (double)c->attn_scale;
            }
            softmax(row, n);
            for (size_t j = 0; j < n; j++) {
                for (size_t d = 0; d < hd; d++) {
                    context[i * width + h * hd + d] +=
                        row[j] * qkv[j * 3 * width + 2 * width + h * hd + d];
                }
            }
        }
    }
    double *out = linear(context, n, width, f->dim,
                         block_weights(f->model, block, "attn.proj.weight"),
                         block_weights(f->model, block, "attn.proj.bias"));
    for (size_t i = 0; i < n * f->dim; i++) {
        f->x[i] += out[i];
    }
    free(y);
    free(qkv);
    free(context);
    free(out);
}

static void mlp(reference *f, int block) {
    const vit_config *c = &f->model->config;
    size_t n = f->tokens, hidden = (size_t)c->mlp_dim;
    double *y = layernorm(f->x, n, f->dim, block_weights(f->model, block, "norm2.weight"),
                          block_weights(f->model, block, "norm2.bias"), (double)c->norm_eps);
    double *h = linear(y, n, f->dim, hidden, block_weights(f->model, block, "mlp.fc1.weight"),
                       block_weights(f->model, block, "mlp.fc1.bias"));
    for (size_t i = 0; i < n * hidden; i++) {
        h[i] *= 0.5 * (1 + erf(h[i] / 1.4142135623730951));
    }
    double *out = linear(h, n, hidden, f->dim, block_weights(f->model, block, "mlp.fc2.weight"),
                         block_weights(f->model, block, "mlp.fc2.bias"));
    for (size_t i = 0; i < n * f->dim; i++) {
        f->x[i] += out[i];
    }
    free(y);
    free(h);
    free(out);
}

static void head(reference *f) {
    const vit_config *c = &f->model->config;
    size_t classes = (size_t)c->num_classes, width = (size_t)vit_embedding_dim(f->model);
    const double *cls = f->tokens_out, *dist = f->tokens_out + f->dim;
    for (size_t i = 0; i < f->dim && !c->representation_dim; i++) {
        f->embedding[i] = c->has_dist_token ? (cls[i] + dist[i]) / 2 : cls[i];
    }
    if (c->representation_dim) {
        double *y = linear(cls, 1, f->dim, width, weights(f->model, "pre_logits.fc.weight"),
                           weights(f->model, "pre_logits.fc.bias"));
        for (size_t i = 0; i < width; i++) {
            f->embedding[i] = tanh(y[i]);
        }
        free(y);
        cls = f->embedding;
    }
    if (classes == 0) {
        return;
    }
    double *a = linear(cls, 1, width, classes, weights(f->model, "head.weight"),
                       weights(f->model, "head.bias"));
    double *b = c->has_dist_token
                    ? linear(dist, 1, width, classes, weights(f->model, "head_dist.weight"),
                             weights(f->model, "head_dist.bias"))
                    : NULL;
    for (size_t i = 0; i < classes; i++) {
        f->logits[i] = b ? (a[i] + b[i]) / 2 : a[i];
    }
    free(a);
    free(b);
}

static reference reference_run(const vit_model *model, const float *input) {
    const vit_config *c = &model->config;
    reference f;
    f.model = model;
    f.tokens = (size_t)c->num_tokens;
    f.dim = (size_t)c->embed_dim;
    f.x = doubles(f.tokens * f.dim);
    f.attention = doubles((size_t)c->num_heads * f.tokens * f.tokens);
    f.embedding = doubles((size_t)vit_embedding_dim(model));
    f.logits = doubles((size_t)c->num_classes);
    embed(&f, input);
    for (int block = 0; block < c->depth; block++) {
        attention(&f, block);
        mlp(&f, block);
    }
    f.tokens_out = layernorm(f.x, f.tokens, f.dim, weights(model, "norm.weight"),
                             weights(model, "norm.bias"), (double)c->norm_eps);
    head(&f);
    return f;
}

static void reference_free(reference *f) {
    free(f->x);
    free(f->tokens_out);
    free(f->attention);
    free(f->embedding);
    free(f->logits);
}

/* --- vit.h on the same model ---------------------------------------------- */

/* One block of floats: logits, embedding, tokens and attention of BATCH images. */
typedef struct produced {
    size_t sizes[4], total;
    float *data;
} produced;

static produced produced_make(const vit_model *model) {
    const vit_config *c = &model->config;
    produced p;
    size_t n = (size_t)c->num_tokens;
    p.sizes[0] = BATCH * (size_t)c->num_classes;
    p.sizes[1] = BATCH * (size_t)vit_embedding_dim(model);
    p.sizes[2] = BATCH * n * (size_t)c->embed_dim;
    p.sizes[3] = c->depth ? BATCH * n * n * (size_t)c->num_heads : 0;
    p.total = p.sizes[0] + p.sizes[1] + p.sizes[2] + p.sizes[3];
    p.data = tiny_allocate(p.total * sizeof(float));
    return p;
}

static void run(const vit_model *model, vit_isa isa, const vit_executor *executor, int max_batch,
                const float *input, produced *p) {
    vit_params params;
    vit_session session;
    vit_outputs outputs;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    params.isa = isa;
    params.max_batch = max_batch;
    if (executor) {
        params.executor = *executor;
    }
    outputs.logits = p->sizes[0] ? p->data : NULL;
    outputs.embedding = p->data + p->sizes[0];
    outputs.tokens = outputs.embedding + p->sizes[1];
    outputs.attention = p->sizes[3] ? outputs.tokens + p->sizes[2] : NULL;
    size_t size = vit_workspace_size(model, &params);
    void *workspace = tiny_allocate(size);
    CHECK(vit_session_init(&session, model, &params, workspace, size) == VIT_OK);
    CHECK(vit_forward(&session, input, BATCH, &outputs) == VIT_OK);
    free(workspace);
}

static double relative_error(const float *got, const double *wanted, size_t n) {
    double worst = 0, top = 1e-30;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - wanted[i]);
        if (!(difference < 1e30)) {
            return 1e30; /* a NaN is as wrong as can be */
        }
        worst = fmax(worst, difference);
        top = fmax(top, fabs(wanted[i]));
    }
    return worst / top;
}

static double compare(const char *what, const vit_model *model, const float *input,
                      const produced *p) {
    static const char *const names[] = {"logits", "embedding", "tokens", "attention"};
    const vit_config *c = &model->config;
    size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    double worst = 0;
    for (size_t image = 0; image < BATCH; image++) {
        reference f = reference_run(model, input + image * pixels);
        const double *wanted[4] = {f.logits, f.embedding, f.tokens_out, f.attention};
        const float *got = p->data;
        for (int i = 0; i < 4; i++) {
            size_t n = p->sizes[i] / BATCH;
            double error = n ? relative_error(got + image * n, wanted[i], n) : 0;
            CHECK_MSG(error < 2e-5, "%s: %s: %.1e", what, names[i], error);
            worst = fmax(worst, error);
            got += p->sizes[i];
        }
        reference_free(&f);
    }
    return worst;
}

/* --- random architectures ------------------------------------------------- */

static tiny_options random_options(void) {
    tiny_options o = tiny_defaults();
    vit_config *c = &o.config;
    c->in_chans = pick(1, 6);
    c->patch_size = pick(1, 7);
    c->img_height = c->patch_size * pick(1, 5) + pick(0, c->patch_size - 1);
    c->img_width = c->patch_size * pick(1, 5) + pick(0, c->patch_size - 1);
    c->embed_dim = pick(6, 70);
    c->depth = pick(0, 2);
    c->num_heads = pick(1, 4);
    c->head_dim = pick(1, 24);
    c->mlp_dim = pick(1, 100);
    c->num_classes = pick(0, 4) ? pick(1, 70) : 0;
    c->has_dist_token = pick(0, 2) == 0;
    c->representation_dim = !c->has_dist_token && pick(0, 2) == 0 ? pick(1, 50) : 0;
    c->has_patch_norm = pick(0, 2) == 0;
    c->has_qkv_bias = pick(0, 2) != 0;
    c->norm_eps = (float)pick(1, 100) * 1e-5f;
    c->attn_scale = (float)pick(-20, 40) / 40.0f;
    c->selftest_tolerance = 0;
    o.dtype = (vit_dtype)pick(0, 2);
    o.seed = (uint32_t)pick(0, 1 << 20);
    return o;
}

static void describe(char *what, size_t size, int index, const tiny_options *o) {
    const vit_config *c = &o->config;
    snprintf(what, size,
             "model %d: %dx%dx%d by %d, D %d, L %d, H %d x %d, mlp %d, classes %d, rep %d, "
             "dist %d, norm %d, bias %d, dtype %d",
             index, c->in_chans, c->img_height, c->img_width, c->patch_size, c->embed_dim, c->depth,
             c->num_heads, c->head_dim, c->mlp_dim, c->num_classes, c->representation_dim,
             c->has_dist_token, c->has_patch_norm, c->has_qkv_bias, (int)o->dtype);
}

static double test_one(int index, const vit_executor *executor) {
    char what[256];
    tiny_options o = random_options();
    tiny_file file = tiny_build(&o);
    vit_model model;
    describe(what, sizeof what, index, &o);
    vit_result result = vit_model_open_memory(file.data, file.size, VIT_OPEN_VERIFY, &model);
    CHECK_MSG(result == VIT_OK, "%s: %s", what, model.detail);
    if (result != VIT_OK) {
        tiny_free(&file);
        return 0;
    }
    const vit_config *c = &model.config;
    size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    float *input = tiny_allocate(BATCH * pixels * sizeof(float));
    for (size_t i = 0; i < BATCH * pixels; i++) {
        input[i] = 2 * tiny_random(&seed);
    }
    produced base = produced_make(&model), other = produced_make(&model);
    run(&model, VIT_ISA_SCALAR, NULL, 1, input, &base);
    double worst = compare(what, &model, input, &base);
    FOR_EACH_ISA(isa) {
        for (int threads = 0; threads <= 1; threads++) {
            memset(other.data, 0xff, other.total * sizeof(float));
            run(&model, (vit_isa)isa, threads ? executor : NULL, 2, input, &other);
            CHECK_MSG(memcmp(base.data, other.data, base.total * sizeof(float)) == 0,
                      "%s: %s, %s", what, vit_isa_name((vit_isa)isa),
                      threads ? "three threads" : "one thread");
        }
    }
    free(base.data);
    free(other.data);
    free(input);
    vit_model_close(&model);
    tiny_free(&file);
    return worst;
}

int main(void) {
    vit_threads *pool;
    vit_executor executor;
    double worst = 0;
    CHECK(vit_threads_create(3, &pool, &executor) == VIT_OK);
    for (int i = 0; i < MODELS; i++) {
        worst = fmax(worst, test_one(i, &executor));
    }
    vit_threads_destroy(pool);
    printf("%d random models, largest relative error %.1e\n", MODELS, worst);
    return test_summary();
}
