/* handles.c - implements handles.h. */
#define VIT_STATIC
#define VIT_TOOLS
#define VIT_TEXT_ENCODER
#define VIT_IMPLEMENTATION
#include "vit.h"
#include "handles.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct vith_model {
    vit_model c;
    int is_copy; /* the model uses the bytes of another model */
};

struct vith_pool {
    vit_threads *threads;
    vit_executor executor;
};

struct vith_session {
    vit_session c;
    const int32_t *stop;
    jmp_buf leave;
};

const char *vith_result_string(int result) {
    return result == VITH_STOPPED ? "stopped" : vit_result_string((vit_result)result);
}

#define VITH_TEXT(x)   #x
#define VITH_NUMBER(x) VITH_TEXT(x)

const char *vith_version(void) {
    return VITH_NUMBER(VIT_VERSION_MAJOR) "." VITH_NUMBER(VIT_VERSION_MINOR) "." VITH_NUMBER(
        VIT_VERSION_PATCH);
}

static void say(char *message, const char *text) {
    size_t n = strlen(text);
    if (n > VITH_MESSAGE - 1) n = VITH_MESSAGE - 1;
    memcpy(message, text, n);
    message[n] = 0;
}

int vith_model_open(const char *path, const void *data, size_t size, unsigned flags,
                    vith_model **model, char *message) {
    vith_model *m = (vith_model *)calloc(1, sizeof *m);
    vit_result result = VIT_ERROR_MEMORY;
    *model = m;
    say(message, vit_result_string(result));
    if (!m) return result;
    if (path) result = vit_model_open(path, flags, &m->c);
    else result = vit_model_open_memory(data, size, flags, &m->c);
    if (!result) return result;
    say(message, m->c.detail);
    free(m);
    *model = NULL;
    return result;
}

int vith_model_resized(const vith_model *model, int height, int width, vith_model **resized,
                       char *message) {
    vith_model *m = (vith_model *)malloc(sizeof *m);
    vit_result result = VIT_ERROR_MEMORY;
    *resized = m;
    say(message, vit_result_string(result));
    if (!m) return result;
    m->c = model->c;
    m->is_copy = 1;
    result = vit_model_resize(&m->c, height, width);
    if (!result) return result;
    say(message, m->c.detail);
    free(m);
    *resized = NULL;
    return result;
}

void vith_model_close(vith_model *model) {
    if (model && !model->is_copy) vit_model_close(&model->c);
    free(model);
}

const char *vith_label(const vith_model *model, int index) { return vit_label(&model->c, index); }

int vith_number(const vith_model *model, int which) {
    const vit_config *c = &model->c.config;
    switch (which) {
    case VITH_NUM_CLASSES: return c->num_classes;
    case VITH_EMBEDDING_DIM: return vit_embedding_dim(&model->c);
    case VITH_IN_CHANS: return c->in_chans;
    case VITH_IMG_HEIGHT: return c->img_height;
    case VITH_IMG_WIDTH: return c->img_width;
    case VITH_PATCH_SIZE: return c->patch_size;
    case VITH_EMBED_DIM: return c->embed_dim;
    case VITH_DEPTH: return c->depth;
    case VITH_NUM_HEADS: return c->num_heads;
    case VITH_GRID_HEIGHT: return c->grid_height;
    case VITH_GRID_WIDTH: return c->grid_width;
    case VITH_NUM_PREFIX_TOKENS: return c->num_prefix_tokens;
    case VITH_NUM_TOKENS: return c->num_tokens;
    default: return -1;
    }
}

int vith_pool_open(int num_threads, vith_pool **pool) {
    vith_pool *p = (vith_pool *)calloc(1, sizeof *p);
    vit_result result;
    *pool = NULL;
    if (!p) return VIT_ERROR_MEMORY;
    result = vit_threads_create(num_threads, &p->threads, &p->executor);
    if (result) free(p);
    else *pool = p;
    return result;
}

int vith_pool_threads(const vith_pool *pool) { return pool->executor.num_threads; }

void vith_pool_close(vith_pool *pool) {
    if (pool) vit_threads_destroy(pool->threads);
    free(pool);
}

static int is_stopped(const vith_session *s) {
#if defined(__GNUC__)
    return s->stop && __atomic_load_n(s->stop, __ATOMIC_RELAXED);
#else
    return s->stop && *(const volatile int32_t *)s->stop;
#endif
}

/* Ends a pass by a jump if *stop is not zero. vit.h allows a jump from on_phase, because no other
 * thread works then, and nothing is locked or allocated. */
static void on_phase(void *user, vit_phase phase) {
    vith_session *s = (vith_session *)user;
    (void)phase;
    if (is_stopped(s)) longjmp(s->leave, 1);
}

int vith_session_open(const vith_model *model, const vith_pool *pool, int low_memory, int batch,
                      const int32_t *stop, vith_session **session) {
    vith_session *s = (vith_session *)calloc(1, sizeof *s);
    vit_params params;
    vit_result result;
    *session = NULL;
    if (!s) return VIT_ERROR_MEMORY;
    s->stop = stop;
    memset(&params, 0, sizeof params);
    if (pool) params.executor = pool->executor;
    params.low_memory = low_memory;
    params.batch = batch;
    /* For VIT_CROP_ASPECT, vit_run opens its own sessions, whose memory a jump would leak. */
    if (stop && model->c.config.crop_mode != VIT_CROP_ASPECT) {
        params.on_phase = on_phase;
        params.phase_user = s;
    }
    result = vit_session_init(&s->c, &model->c, &params, NULL, 0);
    if (result) free(s);
    else *session = s;
    return result;
}

void vith_session_close(vith_session *session) {
    if (session) vit_session_close(&session->c);
    free(session);
}

uint64_t vith_photo_size(const int32_t *shape) {
    static const uint8_t pixel[VIT_NUM_PIXELS] = { 3, 4, 1, 3, 4, 2, 2, 1, 4 };
    const int32_t width = shape[0], height = shape[1], format = shape[3];
    uint64_t row, rows, stride;
    if (width < 1 || width > 1 << 20 || height < 1 || height > 1 << 20 || format < 0 ||
        format >= VIT_NUM_PIXELS || shape[2] < 0)
        return 0;
    row = (uint64_t)width;
    if (format == VIT_PIXEL_YUYV || format == VIT_PIXEL_NV12) row = (row + 1) & ~(uint64_t)1;
    row *= pixel[format];
    stride = shape[2] ? (uint64_t)shape[2] : row;
    if (stride < row) return 0;
    rows = (uint64_t)height;
    if (format == VIT_PIXEL_NV12) rows += (rows + 1) / 2;
    if (format == VIT_PIXEL_F32) rows *= 3;
    return (rows - 1) * stride + row;
}

static vit_image photo_of(const uint8_t *pixels, const int32_t *shape) {
    vit_image image;
    image.pixels = pixels;
    image.width = shape[0];
    image.height = shape[1];
    image.stride = shape[2];
    image.format = (vit_pixel)shape[3];
    return image;
}

int vith_run(vith_session *session, int count, const uint8_t *const *pixels, const int32_t *shapes,
             const float **scores, const float **embedding) {
    vit_answer answer = { NULL, NULL };
    vit_image one, *volatile photos = &one;
    volatile int result = VITH_STOPPED;
    int i;
    *scores = *embedding = NULL;
    if (count < 1) return VIT_ERROR_ARGUMENT;
    if (count > 1) photos = (vit_image *)malloc((size_t)count * sizeof one);
    if (!photos) return VIT_ERROR_MEMORY;
    for (i = 0; i < count; i++) photos[i] = photo_of(pixels[i], shapes + 4 * (size_t)i);
    if (!is_stopped(session) && !setjmp(session->leave)) {
        result = vit_run(&session->c, photos, count, &answer);
        *scores = answer.scores;
        *embedding = answer.embedding;
    }
    if (photos != &one) free(photos);
    return result;
}

int vith_look(vith_session *session, const uint8_t *pixels, const int32_t *shape, float *tokens,
              int block, float *attention) {
    const vit_model *model = session->c.model;
    const vit_image photo = photo_of(pixels, shape);
    float *input = (float *)malloc(vit_input_size(model) * sizeof(float));
    vit_input in;
    vit_outputs out;
    vit_block_output of_block;
    volatile int result = VITH_STOPPED;
    if (!input) return VIT_ERROR_MEMORY;
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    memset(&of_block, 0, sizeof of_block);
    in.pixels = input;
    out.tokens = tokens;
    of_block.attention = attention;
    of_block.index = block;
    out.blocks = &of_block;
    out.num_blocks = attention != NULL;
    if (!is_stopped(session) && !setjmp(session->leave)) {
        result = vit_preprocess(model, &photo, input, NULL, 0);
        if (!result) result = vit_forward(&session->c, &in, &out);
    }
    free(input);
    return result;
}

int vith_top_k(const float *scores, int n, int k, int32_t *index, float *value) {
    vit_prediction *top;
    int i;
    if (k > n) k = n;
    if (k < 1) return 0;
    top = (vit_prediction *)malloc((size_t)k * sizeof *top);
    if (!top) return 0;
    k = vit_top_k(scores, n, k, top);
    for (i = 0; i < k; i++) {
        index[i] = top[i].index;
        value[i] = top[i].score;
    }
    free(top);
    return k;
}

float vith_cosine(const float *a, const float *b, int n) { return vit_cosine(a, b, n); }

int vith_text_embed(const vith_model *model, const char *text, float *embedding) {
    return vit_text_embed(&model->c, text, embedding);
}

int vith_text_scores(const vith_model *model, float *cosines, int n) {
    vit_model text;
    const vit_result result = vit_model_text(&model->c, 0, &text);
    if (!result) vit_text_scores(&text, cosines, n);
    return result;
}
