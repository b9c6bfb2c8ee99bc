/* tiny_model.h - builds small .vit files in memory, for tests without files on disk.
 *
 *     tiny_options o = tiny_defaults();      8x8 image, patch 4, 2 blocks, width 16, 5 classes
 *     o.config.depth = 1;                    change the tested setting
 *     tiny_file f = tiny_build(&o);          weights from o.seed
 *     vit_model_open_memory(f.data, f.size, VIT_OPEN_VERIFY, &model);
 *     tiny_free(&f);
 *
 * It uses only the public functions and the description under >>format in vit.h, so it also tests
 * that description. Include vit.h before this header.
 */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tiny_options {
    vit_config config;
    vit_dtype dtype;
    int mixed; /* 1: the tensors have all types in turn; the first tensor has the type `dtype` */
    uint32_t seed;
    /* 1: the file has num_classes labels like "class 0", or synset ids like "n00000000" */
    int labels, synsets;
    int unchecked;          /* 1: build a file even if vit_config_check refuses the config */
    const char *source;     /* content of section "source"; NULL for no such section */
    const char *skip_field; /* name of a field to leave out; NULL for none */
    /* name of a field to add, with the value 1 and the type extra_type; NULL for none */
    const char *extra_field;
    int extra_required, extra_type;
    const char *extra_section; /* tag of a section to add, with 8 bytes; NULL for none */
    int extra_section_required;
    int fits16; /* 1: weights in int8 obey the rule of section "fits16" */
    /* output to store in section "selftest"; NULL for the model's own output */
    const float *selftest;
} tiny_options;

typedef struct tiny_file {
    /* the bytes of the file, aligned to 64 bytes, in a block of exactly `size` bytes */
    unsigned char *data;
    size_t size;
} tiny_file;

/* --- bytes ---------------------------------------------------------------- */

static inline void tiny_put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i) & 255);
    }
}

static inline uint64_t tiny_get(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        value = value << 8 | at[i];
    }
    return value;
}

static inline size_t tiny_round_up(size_t x, size_t to) { return (x + to - 1) / to * to; }

static inline void *tiny_allocate(size_t size) {
    void *p = calloc(size ? size : 1, 1);
    if (!p) {
        printf("out of memory\n");
        exit(2);
    }
    return p;
}

/* Allocates a block of exactly `size` bytes, at a multiple of 64 except on Windows. Sanitizers can
 * then detect an access beyond the block. posix_memalign is declared here, because strict -std=c99
 * hides it, and because tests must not define a feature macro that vit.h does not require. */
#if defined(_WIN32)
static inline int tiny_memalign(void **block, size_t size) {
    *block = malloc(size); /* the block begins at a multiple of 16, which is enough */
    return *block == NULL;
}
#else
extern int posix_memalign(void **block, size_t alignment, size_t size);
static inline int tiny_memalign(void **block, size_t size) {
    return posix_memalign(block, 64, size);
}
#endif

static inline unsigned char *tiny_aligned(size_t size) {
    void *p = NULL;
    if (tiny_memalign(&p, size ? size : 1) != 0) {
        printf("out of memory\n");
        exit(2);
    }
    memset(p, 0, size);
    return p;
}

static inline uint64_t tiny_hash(const void *data, size_t size) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, data, size);
    return vit_hash_final(&hash);
}

/* Corrects the checksum of the metadata after an edit. */
static inline void tiny_rehash(tiny_file *f) {
    size_t meta = (size_t)tiny_get(f->data + VIT_HEADER_META_SIZE, 8);
    tiny_put(f->data + VIT_HEADER_CHECKSUM, 0, 8);
    if (meta <= f->size) {
        tiny_put(f->data + VIT_HEADER_CHECKSUM, tiny_hash(f->data, meta), 8);
    }
}

static inline tiny_file tiny_copy(const tiny_file *f) {
    tiny_file copy;
    copy.size = f->size;
    copy.data = tiny_aligned(f->size);
    memcpy(copy.data, f->data, f->size);
    return copy;
}

static inline void tiny_free(tiny_file *f) {
    free(f->data);
    f->data = NULL;
    f->size = 0;
}

/* --- the model ------------------------------------------------------------ */

static inline tiny_options tiny_defaults(void) {
    tiny_options o;
    memset(&o, 0, sizeof o);
    vit_config *c = &o.config;
    c->in_chans = 3;
    c->img_height = c->img_width = 8;
    c->patch_size = 4;
    c->embed_dim = 16;
    c->depth = 2;
    c->num_heads = 2;
    c->head_dim = 8;
    c->mlp_dim = 24;
    c->num_classes = 5;
    c->has_cls_token = 1;
    c->has_patch_bias = c->has_qkv_bias = c->has_proj_bias = c->has_final_norm = 1;
    c->norm_eps = 1e-6f;
    c->attn_scale = 0.35355339f;
    c->resize_height = c->resize_width = 9;
    c->crop_mode = VIT_CROP_CENTER;
    c->interpolation = VIT_BICUBIC;
    for (int i = 0; i < VIT_MAX_CHANS; i++) {
        c->mean[i] = 0.5f;
        c->std[i] = 0.25f;
    }
    c->selftest_seed = 7;
    c->selftest_tolerance = 1e-4f;
    o.seed = 1;
    o.source = "made by: tests/tiny_model.h\n";
    return o;
}

/* Returns a number in [-1, 1), uniformly distributed. */
static inline float tiny_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* Describes tensor number `index` of the model in *t. Returns 0 if there is no such tensor. */
static inline int tiny_tensor(const tiny_options *o, int index, vit_tensor *t) {
    int dtype = o->mixed ? ((int)o->dtype + index) % VIT_NUM_DTYPES : (int)o->dtype;
    return vit_architecture_tensor(&o->config, (vit_dtype)dtype, index, t);
}

/* Fills in the values of a tensor. The mean and std of the preprocessing are those of the config.
 * The weights of norms are within 0.3 of 1. Those of layers are scaled by the number of inputs. All
 * other values are within 0.3 of 0. */
static inline void tiny_weights(const tiny_options *o, const vit_tensor *t, uint32_t *state,
                                float *out, size_t count) {
    size_t fan_in = t->dims[0] > 0 && t->ndim > 1 ? count / (size_t)t->dims[0] : 1;
    float base = 0, scale = 0.3f;
    if (strstr(t->name, "norm") && strstr(t->name, "weight")) {
        base = 1.0f;
    } else if (t->ndim > 1 && !strstr(t->name, "token") && !strstr(t->name, "pos_embed")) {
        scale = 2.0f / (float)sqrt((double)fan_in);
    }
    for (size_t i = 0; i < count; i++) {
        /* the product is exact, so the value is the same on a CPU that fuses it with the
         * addition */
        float value = (float)((double)scale * (double)tiny_random(state) + (double)base);
        if (strcmp(t->name, "preprocess.mean") == 0) {
            value = o->config.mean[i];
        } else if (strcmp(t->name, "preprocess.std") == 0) {
            value = o->config.std[i];
        } else if (strncmp(t->name, "selftest", 8) == 0) {
            value = o->selftest ? o->selftest[i] : 1.0f + (float)i;
        }
        out[i] = value;
    }
}

static inline size_t tiny_count(const vit_tensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->ndim; i++) {
        count *= (size_t)t->dims[i];
    }
    return count;
}

/* Writes the values in the tensor's type to `data`, unless data is NULL. Returns the number of
 * bytes. Plain tensors (vit.h) are always f32. */
static inline size_t tiny_store(const vit_tensor *t, const float *values, unsigned char *data) {
    size_t count = tiny_count(t), bytes = 0;
    if (t->layout == VIT_LAYOUT_PLAIN) {
        for (size_t i = 0; data && i < count; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, 4);
            tiny_put(data + 4 * i, bits, 4);
        }
        return 4 * count;
    }
    int rows = t->dims[0], depth = (int)(count / (size_t)rows);
    for (int row = 0; row < rows; row += 16) {
        int n = rows - row < 16 ? rows - row : 16;
        const float *from = values ? values + (size_t)row * (size_t)depth : NULL;
        bytes += vit_pack_panel(t->dtype, from, n, depth, data ? data + bytes : NULL);
    }
    return bytes;
}

/* --- the file ------------------------------------------------------------- */

static inline void tiny_field(unsigned char *at, const char *name, int type, int required,
                              uint32_t bits) {
    memset(at, 0, VIT_FIELD_SIZE);
    memcpy(at, name, strlen(name));
    at[VIT_FIELD_TYPE] = (unsigned char)type;
    at[VIT_FIELD_REQUIRED] = required != 0;
    tiny_put(at + VIT_FIELD_VALUE, bits, 4);
}

static inline uint32_t tiny_bits_int(double value) { return (uint32_t)(int32_t)value; }

static inline uint32_t tiny_bits_float(double value) {
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* Writes the config's fields to `at`, without skip_field and with extra_field, unless `at` is NULL.
 * Returns the number of these fields. */
static inline uint32_t tiny_fields(const tiny_options *o, unsigned char *at) {
    enum { tiny_type_int = 0, tiny_type_float = 1 };
    uint32_t n = 0;
    const vit_config *c = &o->config;
#define TINY_FIELD(type, name, required, smallest, largest)                                        \
    if (!o->skip_field || strcmp(o->skip_field, #name) != 0) {                                     \
        if (at) {                                                                                  \
            tiny_field(at + n * VIT_FIELD_SIZE, #name, tiny_type_##type, required,                 \
                       tiny_bits_##type((double)c->name));                                         \
        }                                                                                          \
        n++;                                                                                       \
    }
    VIT_FIELD_LIST(TINY_FIELD)
#undef TINY_FIELD
    if (o->extra_field) {
        if (at) {
            tiny_field(at + n * VIT_FIELD_SIZE, o->extra_field, o->extra_type, o->extra_required,
                       1);
        }
        n++;
    }
    return n;
}

static inline size_t tiny_strings(unsigned char *at, int count, const char *format) {
    size_t offset = 4 * (size_t)count;
    for (int i = 0; i < count; i++) {
        char text[32];
        size_t length;
        if (format[0] == 'n') {
            snprintf(text, sizeof text, "n%08d", i);
        } else {
            snprintf(text, sizeof text, "class %d", i);
        }
        length = strlen(text) + 1;
        if (at) {
            tiny_put(at + 4 * i, offset, 4);
            memcpy(at + offset, text, length);
        }
        offset += length;
    }
    return offset;
}

typedef struct tiny_writer {
    unsigned char *data; /* the memory of the file; NULL while only its size is computed */
    size_t at;
    uint32_t sections;
} tiny_writer;

/* Writes the table entry of a section that begins at w->at. Advances w->at by `size`. */
static inline void tiny_section(tiny_writer *w, const char *tag, int required, uint32_t count,
                                size_t size) {
    if (w->data) {
        unsigned char *entry = w->data + VIT_HEADER_SIZE + w->sections * VIT_SECTION_SIZE;
        memcpy(entry, tag, strlen(tag));
        tiny_put(entry + VIT_SECTION_REQUIRED, (uint64_t)required, 4);
        tiny_put(entry + VIT_SECTION_COUNT, count, 4);
        tiny_put(entry + VIT_SECTION_OFFSET, w->at, 8);
        tiny_put(entry + VIT_SECTION_BYTES, size, 8);
    }
    w->sections++;
    w->at = tiny_round_up(w->at + size, 8);
}

static inline uint32_t tiny_num_tensors(const tiny_options *o) {
    vit_tensor t;
    int n = 0;
    while (tiny_tensor(o, n, &t)) {
        n++;
    }
    return (uint32_t)n;
}

static inline void tiny_record(unsigned char *at, const vit_tensor *t, uint64_t offset,
                               uint64_t size, uint64_t checksum) {
    memcpy(at, t->name, strlen(t->name));
    tiny_put(at + VIT_TENSOR_DTYPE, (uint64_t)t->dtype, 4);
    tiny_put(at + VIT_TENSOR_LAYOUT, (uint64_t)t->layout, 4);
    tiny_put(at + VIT_TENSOR_NDIM, (uint64_t)t->ndim, 4);
    for (int i = 0; i < t->ndim; i++) {
        tiny_put(at + VIT_TENSOR_DIMS + 4 * i, (uint64_t)t->dims[i], 4);
    }
    tiny_put(at + VIT_TENSOR_OFFSET, offset, 8);
    tiny_put(at + VIT_TENSOR_BYTES, size, 8);
    tiny_put(at + VIT_TENSOR_CHECKSUM, checksum, 8);
}

/* Makes weights whose int8 values could come from a calibration. The first weight of a row is the
 * largest, 127 steps, and the other weights of its lane are 0. The weights of all other lanes have
 * at most 31 steps. */
static inline void tiny_fit16(const vit_tensor *t, float *values) {
    size_t depth = tiny_count(t) / (size_t)t->dims[0];
    for (size_t i = 0; i < tiny_count(t); i++) {
        size_t k = i % depth;
        float x = values[i] < -1 ? -1 : values[i] > 1 ? 1 : values[i];
        values[i] = k == 0 ? 127.0f : k == 1 || k == 4 || k == 5 ? 0 : (float)(int)(x * 31.0f);
        values[i] /= 128.0f;
    }
}

/* Writes section "fits16". If w->data is NULL, only its size is computed. */
static inline void tiny_fits16(const tiny_options *o, tiny_writer *w, uint32_t tensors) {
    vit_tensor t;
    for (int i = 0; w->data && tiny_tensor(o, i, &t); i++) {
        w->data[w->at + (size_t)i] = t.dtype == VIT_I8;
    }
    tiny_section(w, "fits16", 0, tensors, tensors);
}

/* Writes the records of the tensors, and their values. If data is NULL, only sizes are computed.
 * Returns the end of the data section. */
static inline size_t tiny_data(const tiny_options *o, unsigned char *data, size_t directory,
                               size_t offset) {
    vit_tensor t;
    uint32_t state = o->seed;
    size_t end = offset;
    for (int i = 0; tiny_tensor(o, i, &t); i++) {
        size_t count = tiny_count(&t), size = tiny_store(&t, NULL, NULL);
        offset = tiny_round_up(end, VIT_ALIGN);
        end = offset + size;
        if (data) {
            float *values = tiny_allocate(count * sizeof(float));
            tiny_weights(o, &t, &state, values, count);
            if (o->fits16 && t.dtype == VIT_I8) {
                tiny_fit16(&t, values);
            }
            tiny_store(&t, values, data + offset);
            tiny_record(data + directory + (size_t)i * VIT_TENSOR_SIZE, &t, offset, size,
                        tiny_hash(data + offset, size));
            free(values);
        }
    }
    return end;
}

/* Lays out the file, and writes it if w->data is not NULL. Returns its size. */
static inline size_t tiny_layout(const tiny_options *o, tiny_writer *w, uint32_t num_sections) {
    uint32_t fields = tiny_fields(o, NULL), tensors = tiny_num_tensors(o);
    int classes = o->config.num_classes;
    size_t directory, meta, end;
    w->sections = 0;
    w->at = VIT_HEADER_SIZE + num_sections * VIT_SECTION_SIZE;
    if (w->data) {
        tiny_fields(o, w->data + w->at);
    }
    tiny_section(w, "fields", 1, fields, fields * VIT_FIELD_SIZE);
    directory = w->at;
    tiny_section(w, "tensors", 1, tensors, tensors * (size_t)VIT_TENSOR_SIZE);
    if (o->labels) {
        size_t size = tiny_strings(w->data ? w->data + w->at : NULL, classes, "class");
        tiny_section(w, "labels", 0, (uint32_t)classes, size);
    }
    if (o->synsets) {
        size_t size = tiny_strings(w->data ? w->data + w->at : NULL, classes, "n");
        tiny_section(w, "synsets", 0, (uint32_t)classes, size);
    }
    if (o->source) {
        size_t size = strlen(o->source) + 1;
        if (w->data) {
            memcpy(w->data + w->at, o->source, size);
        }
        tiny_section(w, "source", 0, 0, size);
    }
    if (o->extra_section) {
        tiny_section(w, o->extra_section, o->extra_section_required, 0, 8);
    }
    if (o->fits16) {
        tiny_fits16(o, w, tensors);
    }
    meta = w->at = tiny_round_up(w->at, VIT_ALIGN);
    end = tiny_data(o, w->data, directory, meta);
    tiny_section(w, "data", 1, 0, end - meta);
    if (w->data) {
        memcpy(w->data, VIT_FILE_MAGIC, 8);
        tiny_put(w->data + VIT_HEADER_VERSION, VIT_FILE_VERSION, 4);
        tiny_put(w->data + VIT_HEADER_NUM_SECTIONS, w->sections, 4);
        tiny_put(w->data + VIT_HEADER_FILE_SIZE, end, 8);
        tiny_put(w->data + VIT_HEADER_META_SIZE, meta, 8);
    }
    return end;
}

static inline tiny_file tiny_build_once(tiny_options *o) {
    tiny_file f;
    tiny_writer w;
    memset(&w, 0, sizeof w);
    tiny_layout(o, &w, 0);
    uint32_t sections = w.sections;
    f.size = tiny_layout(o, &w, sections);
    f.data = w.data = tiny_aligned(f.size);
    tiny_layout(o, &w, sections);
    tiny_rehash(&f);
    return f;
}

/* Returns the output for the input of the self-test, malloc'ed, computed with VIT_ISA_SCALAR; NULL
 * if the file cannot be opened or the model cannot run. */
static inline float *tiny_selftest_output(const tiny_file *f) {
    vit_model model;
    vit_session session;
    vit_params params;
    vit_outputs outputs;
    memset(&params, 0, sizeof params);
    memset(&outputs, 0, sizeof outputs);
    if (vit_model_open_memory(f->data, f->size, 0, &model) != VIT_OK) {
        return NULL;
    }
    const vit_config *c = &model.config;
    int width = c->num_classes ? c->num_classes : vit_embedding_dim(&model);
    size_t pixels = (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width;
    size_t size = vit_workspace_size(&model, &params);
    float *input = tiny_allocate(pixels * sizeof(float));
    float *output = tiny_allocate((size_t)width * sizeof(float));
    void *workspace = tiny_allocate(size);
    *(c->num_classes ? &outputs.logits : &outputs.embedding) = output;
    vit_selftest_input(c, input);
    if (vit_session_init(&session, &model, &params, workspace, size) != VIT_OK ||
        vit_forward(&session, &(vit_input){ .pixels = input }, &outputs) != VIT_OK) {
        free(output);
        output = NULL;
    }
    free(workspace);
    free(input);
    vit_model_close(&model);
    return output;
}

/* Builds a file. vit_config_check fills in the derived fields of a copy of options->config. If it
 * refuses the config, the test ends at once, unless options->unchecked is set. */
static inline tiny_file tiny_build(const tiny_options *options) {
    tiny_options o = *options;
    char detail[VIT_MAX_DETAIL];
    if (vit_config_check(&o.config, detail) != VIT_OK && !o.unchecked) {
        printf("tiny_build: %s\n", detail);
        exit(2);
    }
    tiny_file f = tiny_build_once(&o);
    if (!o.selftest && o.config.selftest_tolerance > 0) {
        float *output = tiny_selftest_output(&f);
        if (output) {
            tiny_free(&f);
            o.selftest = output;
            f = tiny_build_once(&o);
            free(output);
        }
    }
    return f;
}

/* --- finding parts to damage ---------------------------------------------- */

/* Returns the entry of a section in the table, or NULL. */
static inline unsigned char *tiny_find_section(const tiny_file *f, const char *tag) {
    uint64_t n = tiny_get(f->data + VIT_HEADER_NUM_SECTIONS, 4);
    for (uint64_t i = 0; i < n; i++) {
        unsigned char *entry = f->data + VIT_HEADER_SIZE + i * VIT_SECTION_SIZE;
        if (strncmp((const char *)entry, tag, 8) == 0) {
            return entry;
        }
    }
    return NULL;
}

static inline unsigned char *tiny_section_data(const tiny_file *f, const char *tag) {
    unsigned char *entry = tiny_find_section(f, tag);
    return entry ? f->data + tiny_get(entry + VIT_SECTION_OFFSET, 8) : NULL;
}

/* Returns a record by its name from section "fields" or "tensors", whose tag is `tag`. `record` is
 * the size of a record. Returns NULL if there is no such record. */
static inline unsigned char *tiny_find(const tiny_file *f, const char *tag, size_t record,
                                       const char *name) {
    unsigned char *entry = tiny_find_section(f, tag);
    unsigned char *at = tiny_section_data(f, tag);
    uint64_t n = entry ? tiny_get(entry + VIT_SECTION_COUNT, 4) : 0;
    for (uint64_t i = 0; i < n; i++) {
        if (strcmp((const char *)at + i * record, name) == 0) {
            return at + i * record;
        }
    }
    return NULL;
}

static inline void tiny_set_field(tiny_file *f, const char *name, uint32_t bits) {
    unsigned char *at = tiny_find(f, "fields", VIT_FIELD_SIZE, name);
    if (at) {
        tiny_put(at + VIT_FIELD_VALUE, bits, 4);
    }
    tiny_rehash(f);
}

#endif
