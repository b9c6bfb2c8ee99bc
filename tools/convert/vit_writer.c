#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64

#include "convert/vit_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/tensor.h"
#include "base/text.h"
#include "os/os.h"

/* === Little-endian bytes === */

static void store32(unsigned char *at, uint32_t value) {
    int i;
    for (i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static void store64(unsigned char *at, uint64_t value) {
    store32(at, (uint32_t)value);
    store32(at + 4, (uint32_t)(value >> 32));
}

static uint64_t align(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/* === Fields === */

static uint32_t int_bits(int value) { return (uint32_t)value; }

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

enum { FIELD_TYPE_int = 0, FIELD_TYPE_float = 1 };

static unsigned char *put_field(unsigned char *at, const char *name, unsigned char type,
                                int required, uint32_t bits) {
    memcpy(at, name, strlen(name));
    at[VIT_FIELD_TYPE] = type;
    at[VIT_FIELD_REQUIRED] = required != 0;
    store32(at + VIT_FIELD_VALUE, bits);
    return at + VIT_FIELD_SIZE;
}

/* Returns the number of fields to write. A field whose `required` is 2 in VIT_FIELD_LIST is left
 * out if its value is zero. */
static size_t count_fields(const vit_config *config) {
    size_t count = 0;
#define X(type, name, required, smallest, largest)                                                 \
    count += (required) != 2 || type##_bits(config->name);
    VIT_FIELD_LIST(X)
#undef X
    return count;
}

static void put_fields(unsigned char *at, const vit_config *config) {
#define X(type, name, required, smallest, largest)                                                 \
    if ((required) != 2 || type##_bits(config->name))                                              \
        at = put_field(at, #name, FIELD_TYPE_##type, required, type##_bits(config->name));
    VIT_FIELD_LIST(X)
#undef X
}

/* === Sections === */

typedef struct section_writer {
    unsigned char *meta, *entry;
    /* The offset in the file at which the next section begins. */
    uint64_t offset;
} section_writer;

/* Adds a section to the table of sections and advances the offset. If s->meta is NULL, only
 * advances the offset. */
static void put_section(section_writer *s, const char *tag, int required, size_t count,
                        uint64_t size) {
    s->offset = align(s->offset, 8);
    if (s->meta) {
        memcpy(s->entry, tag, strlen(tag));
        store32(s->entry + VIT_SECTION_REQUIRED, (uint32_t)required);
        store32(s->entry + VIT_SECTION_COUNT, (uint32_t)count);
        store64(s->entry + VIT_SECTION_OFFSET, s->offset);
        store64(s->entry + VIT_SECTION_BYTES, size);
        s->entry += VIT_SECTION_SIZE;
    }
    s->offset += size;
}

static uint64_t strings_size(const char *const *strings, size_t count) {
    uint64_t size = 4 * (uint64_t)count;
    size_t i;
    for (i = 0; i < count; i++) size += strlen(strings[i]) + 1;
    return size;
}

static void put_strings(unsigned char *section, const char *const *strings, size_t count) {
    uint64_t offset = 4 * (uint64_t)count;
    size_t i;
    for (i = 0; i < count; i++) {
        size_t size = strlen(strings[i]) + 1;
        store32(section + 4 * i, (uint32_t)offset);
        memcpy(section + offset, strings[i], size);
        offset += size;
    }
}

static void put_string_section(section_writer *s, const char *tag, const char *const *strings,
                               size_t count) {
    uint64_t size = strings_size(strings, count);
    put_section(s, tag, 0, count, size);
    if (s->meta) put_strings(s->meta + s->offset - size, strings, count);
}

static bool has_int8(const vit_writer *w) {
    size_t i;
    for (i = 0; i < w->count; i++)
        if (w->tensors[i].dtype == VIT_I8) return true;
    return false;
}

/* Adds all sections. make_meta calls this twice: without s->meta to measure them, then to write
 * them. Only the second call needs data_size. */
static void put_sections(vit_writer *w, section_writer *s, uint32_t num_sections,
                         const vit_writer_contents *contents, uint64_t data_size) {
    const size_t fields = count_fields(contents->config);
    s->offset = VIT_HEADER_SIZE + (uint64_t)num_sections * VIT_SECTION_SIZE;
    put_section(s, "fields", 1, fields, fields * VIT_FIELD_SIZE);
    if (s->meta) put_fields(s->meta + s->offset - fields * VIT_FIELD_SIZE, contents->config);
    put_section(s, "tensors", 1, w->count, w->count * VIT_TENSOR_SIZE);
    w->directory = (size_t)s->offset - w->count * VIT_TENSOR_SIZE;
    if (contents->num_labels)
        put_string_section(s, "labels", contents->labels, contents->num_labels);
    if (contents->num_labels && contents->synsets)
        put_string_section(s, "synsets", contents->synsets, contents->num_labels);
    if (contents->provenance) {
        size_t size = strlen(contents->provenance) + 1;
        put_section(s, "source", 0, 0, size);
        if (s->meta) memcpy(s->meta + s->offset - size, contents->provenance, size);
    }
    if (contents->learned) {
        put_section(s, "learned", 0, contents->num_learned, contents->learned_size);
        if (s->meta)
            memcpy(s->meta + s->offset - contents->learned_size, contents->learned,
                   contents->learned_size);
    }
    if (has_int8(w)) {
        put_section(s, "fits16", 0, w->count, w->count);
        w->fits16 = (size_t)s->offset - w->count;
    }
    if (contents->tokenizer) {
        s->offset = align(s->offset, VIT_ALIGN);
        put_section(s, "tokenize", 0, 0, contents->tokenizer_size);
        if (s->meta)
            memcpy(s->meta + s->offset - contents->tokenizer_size, contents->tokenizer,
                   contents->tokenizer_size);
    }
    s->offset = align(s->offset, VIT_ALIGN);
    if (!s->meta) return; /* meta_size does not include the sections after this line. */
    put_section(s, "data", 1, 0, data_size);
    s->offset = align(s->offset, VIT_ALIGN);
    if (contents->text) put_section(s, "text", 0, 0, contents->text_size);
}

/* === Layout === */

static void put_tensor(unsigned char *at, const vit_tensor *tensor) {
    int i;
    memcpy(at, tensor->name, strlen(tensor->name));
    store32(at + VIT_TENSOR_DTYPE, (uint32_t)tensor->dtype);
    store32(at + VIT_TENSOR_LAYOUT, (uint32_t)tensor->layout);
    store32(at + VIT_TENSOR_NDIM, (uint32_t)tensor->ndim);
    for (i = 0; i < tensor->ndim; i++)
        store32(at + VIT_TENSOR_DIMS + 4 * i, (uint32_t)tensor->dims[i]);
    store64(at + VIT_TENSOR_OFFSET, tensor->offset);
    store64(at + VIT_TENSOR_BYTES, tensor->size);
    store64(at + VIT_TENSOR_CHECKSUM, tensor->checksum);
}

/* Returns patterns for the names of the tensors that keep more bits than `dtype`. Narrow models
 * have such tensors because rounding errors average out less in narrow models, and because narrow
 * models are small anyway. In int8, the tensors are those of the first two blocks and of the head.
 * attn.proj still gets int8, because its 8-bit input keeps the workspace of low_memory small. */
vit_writer_keep vit_writer_kept(const vit_config *config, vit_dtype dtype) {
    static const char *const int8[] = { "blocks.[01].attn.qkv.*", "blocks.[01].mlp.*",
                                        "head.weight" };
    static const char *const int4[] = { "blocks.0.*", "blocks.*.attn.*" };
    vit_writer_keep keep = { NULL, 0 };
    if (config->embed_dim > 256) return keep;
    if (dtype == VIT_I8) keep = (vit_writer_keep){ int8, (int)(sizeof int8 / sizeof *int8) };
    if (dtype == VIT_I4) keep = (vit_writer_keep){ int4, (int)(sizeof int4 / sizeof *int4) };
    return keep;
}

static bool is_kept(const vit_writer_keep *keep, const char *name) {
    int i;
    for (i = 0; i < keep->count; i++)
        if (text_matches(keep->patterns[i], name)) return true;
    return false;
}

/* Returns the type of the patch embedding and of a stem before it. These layers are small and keep
 * more bits. In flat areas of a photo all pixels are alike, so the rounding errors of weights and
 * pixels would add up. */
static vit_dtype input_dtype(vit_dtype dtype) {
    switch (dtype) {
    case VIT_F32:
    case VIT_BF16: return VIT_F32;
    case VIT_F16:
    case VIT_I8:
    case VIT_I4:
    case VIT_NUM_DTYPES: break;
    }
    return VIT_F16;
}

/* Returns the type of the tensors that keep more bits than `dtype`: the next larger type. */
static vit_dtype kept_dtype(vit_dtype dtype) { return dtype == VIT_I4 ? VIT_I8 : VIT_BF16; }

/* Returns the type that the tensor has in the backbone. Returns f32 for tensors of a head, and for
 * tensors that the backbone does not have. */
static vit_dtype backbone_dtype(const vit_model *backbone, const char *name) {
    vit_tensor tensor;
    for (int i = 0; strncmp(name, "head", 4) != 0 && vit_model_tensor(backbone, i, &tensor); i++)
        if (!strcmp(tensor.name, name)) return tensor.dtype;
    return VIT_F32;
}

/* Describes tensor number `index`, as vit_architecture_tensor does. The type is that of the tensor
 * in this file, and may differ from contents->dtype. */
static bool describe(const vit_writer_contents *contents, int index, vit_tensor *tensor) {
    vit_dtype dtype = contents->dtype;
    if (!vit_architecture_tensor(contents->config, dtype, index, tensor)) return false;
    if (contents->backbone) dtype = backbone_dtype(contents->backbone, tensor->name);
    else if (!strncmp(tensor->name, "patch_embed.", 12)) dtype = input_dtype(dtype);
    else if (!strncmp(tensor->name, "token_embed.", 12) && dtype == VIT_I4) dtype = VIT_I8;
    else if (tensor_is_quantised(dtype) && is_kept(&contents->keep, tensor->name))
        dtype = kept_dtype(dtype);
    return vit_architecture_tensor(contents->config, dtype, index, tensor) != 0;
}

/* Lists the tensors of the file. Also allocates memory for the largest panel. */
static bool list_tensors(vit_writer *w, const vit_writer_contents *contents, report *r) {
    size_t largest = 1, i;
    vit_tensor tensor;
    int count = 0;
    while (describe(contents, count, &tensor)) count++;
    w->count = (size_t)count;
    w->tensors = calloc(w->count, sizeof *w->tensors);
    if (!w->tensors) return report_no_memory(r);
    for (i = 0; i < w->count; i++) {
        vit_tensor *t = &w->tensors[i];
        size_t panel;
        describe(contents, (int)i, t);
        if (t->layout == VIT_LAYOUT_PLAIN) continue;
        panel = vit_pack_panel(t->dtype, NULL, 0, (int)tensor_depth(t), NULL);
        if (panel > largest) largest = panel;
    }
    w->panel = malloc(largest);
    return w->panel ? true : report_no_memory(r);
}

static void place_tensors(vit_writer *w) {
    uint64_t offset = w->meta_size;
    size_t i;
    for (i = 0; i < w->count; i++) {
        w->tensors[i].offset = align(offset, VIT_ALIGN);
        offset = w->tensors[i].offset + w->tensors[i].size;
    }
    w->file_size = offset;
}

static bool make_meta(vit_writer *w, const vit_writer_contents *contents, report *r) {
    const bool has_labels = contents->num_labels > 0;
    const uint32_t sections = 3u + has_labels + (has_labels && contents->synsets) +
                              (contents->provenance != NULL) + (contents->learned != NULL) +
                              (contents->tokenizer != NULL) + (contents->text != NULL) +
                              has_int8(w);
    section_writer s;
    size_t i;
    memset(&s, 0, sizeof s);
    put_sections(w, &s, sections, contents, 0);
    if (s.offset > 0x7fffffff)
        return report_fail(
            r, "the labels, the tokenizer and the learned data together have 2 GiB or more");
    w->meta_size = (size_t)s.offset;
    w->meta = calloc(w->meta_size, 1);
    if (!w->meta) return report_no_memory(r);
    place_tensors(w);
    s.meta = w->meta;
    s.entry = w->meta + VIT_HEADER_SIZE;
    put_sections(w, &s, sections, contents, w->file_size - w->meta_size);
    w->text = contents->text;
    w->text_size = contents->text_size;
    if (w->text) w->file_size = align(w->file_size, VIT_ALIGN) + w->text_size;
    memcpy(w->meta, VIT_FILE_MAGIC, 8);
    store32(w->meta + VIT_HEADER_VERSION, VIT_FILE_VERSION);
    store32(w->meta + VIT_HEADER_NUM_SECTIONS, sections);
    /* The entry of an int8 tensor becomes 0 if vit_fits16 is false for one of its panels. */
    for (i = 0; i < w->count; i++)
        if (w->tensors[i].dtype == VIT_I8) w->meta[w->fits16 + i] = 1;
    store64(w->meta + VIT_HEADER_FILE_SIZE, w->file_size);
    store64(w->meta + VIT_HEADER_META_SIZE, w->meta_size);
    return true;
}

/* === Bytes to the file === */

/* Writes to the file in aligned pieces of os_write_size bytes, so that the system can cache each
 * piece as one large page. */
static bool write_pages(vit_writer *w, const unsigned char *bytes, size_t size) {
    const size_t page = os_write_size();
    uint64_t at = w->position;
    while (size > 0) {
        const size_t rest = page - (size_t)(at % page), n = size < rest ? size : rest;
        if (fwrite(bytes, 1, n, w->file) != n || (n == rest && fflush(w->file) != 0)) return false;
        bytes += n;
        size -= n;
        at += n;
    }
    return true;
}

static bool put_bytes(vit_writer *w, const void *bytes, size_t size, report *r) {
    if (w->memory) memcpy(w->memory + w->position, bytes, size);
    else if (!write_pages(w, bytes, size))
        return report_fail(r, "cannot be written: %s", strerror(errno));
    w->position += size;
    return true;
}

static bool put_zeros(vit_writer *w, uint64_t until, report *r) {
    static const unsigned char zeros[4096];
    while (w->position < until) {
        uint64_t rest = until - w->position;
        if (!put_bytes(w, zeros, rest < sizeof zeros ? (size_t)rest : sizeof zeros, r))
            return false;
    }
    return true;
}

static bool go_to(vit_writer *w, uint64_t offset, report *r) {
    if (offset >= w->position && offset - w->position < VIT_ALIGN) /* the gap is only padding */
        return put_zeros(w, offset, r);
    if (!w->memory && !os_seek(w->file, offset))
        return report_fail(r, "cannot be written: %s", strerror(errno));
    w->position = offset;
    return true;
}

/* Allocates memory for the file, aligned as vit.h prefers. */
static bool take_memory(vit_writer *w, report *r) {
    if (w->file_size <= SIZE_MAX) w->memory = os_allocate(VIT_ALIGN, (size_t)w->file_size);
    return w->memory || report_no_memory(r);
}

bool vit_writer_start(vit_writer *w, FILE *file, const vit_writer_contents *contents, report *r) {
    memset(w, 0, sizeof *w);
    w->file = file;
    vit_hash_init(&w->hash);
    if (list_tensors(w, contents, r) && make_meta(w, contents, r) && (file || take_memory(w, r)) &&
        put_zeros(w, w->meta_size, r))
        return true;
    vit_writer_free(w);
    return false;
}

/* === Tensors === */

static bool append(vit_writer *w, const void *bytes, size_t size, report *r) {
    vit_tensor *tensor = &w->tensors[w->current];
    if (!put_zeros(w, tensor->offset, r)) return false;
    if (size > tensor->offset + tensor->size - w->position)
        return report_fail(r, "%s has more data than its shape allows", tensor->name);
    vit_hash_update(&w->hash, bytes, size);
    if (!put_bytes(w, bytes, size, r)) return false;
    if (w->position < tensor->offset + tensor->size) return true;
    tensor->checksum = vit_hash_final(&w->hash);
    vit_hash_init(&w->hash);
    w->current++;
    return true;
}

bool vit_writer_go_to(vit_writer *w, size_t tensor, report *r) {
    w->current = tensor;
    vit_hash_init(&w->hash);
    return go_to(w, w->tensors[tensor].offset, r);
}

enum { BLOCK_NUMBERS = 1024 };

/* Copies values into the block in the byte order of the file. Copies n values, or fewer if the
 * block is too small. Returns the number of copied values. */
static size_t fill_block(unsigned char block[4 * BLOCK_NUMBERS], const float *values, size_t n) {
    if (n > BLOCK_NUMBERS) n = BLOCK_NUMBERS;
    bytes_store_floats(block, values, n);
    return n;
}

bool vit_writer_values(vit_writer *w, const float *values, size_t n, report *r) {
    unsigned char block[4 * BLOCK_NUMBERS];
    size_t done, count;
    for (done = 0; done < n; done += count) {
        count = fill_block(block, values + done, n - done);
        if (!append(w, block, 4 * count, r)) return false;
    }
    return true;
}

bool vit_writer_rows(vit_writer *w, const float *rows, int num_rows, report *r) {
    const vit_tensor *tensor = &w->tensors[w->current];
    int depth = (int)tensor_depth(tensor), done;
    if (tensor->layout == VIT_LAYOUT_PLAIN)
        return vit_writer_values(w, rows, (size_t)num_rows * (size_t)depth, r);
    for (done = 0; done < num_rows; done += 16) {
        int n = num_rows - done < 16 ? num_rows - done : 16;
        size_t size = vit_pack_panel(tensor->dtype, rows + (size_t)done * (size_t)depth, n, depth,
                                     w->panel);
        if (!append(w, w->panel, size, r)) return false;
        if (tensor->dtype == VIT_I8 && !vit_fits16(w->panel, depth))
            w->meta[w->fits16 + (size_t)(tensor - w->tensors)] = 0;
    }
    return true;
}

bool vit_writer_copy(vit_writer *w, const vit_tensor *from, report *r) {
    const vit_tensor *tensor = &w->tensors[w->current];
    const unsigned char *data = from->data;
    const int depth = (int)tensor_depth(tensor);
    const size_t index = w->current;
    if (from->dtype != tensor->dtype || from->size != tensor->size)
        return report_fail(r, "tensor %s has another type or size in the backbone", tensor->name);
    if (tensor->dtype == VIT_I8 && w->meta[w->fits16 + index]) {
        const size_t panel = vit_pack_panel(VIT_I8, NULL, 0, depth, NULL);
        for (size_t at = 0; at < from->size; at += panel)
            if (!vit_fits16(data + at, depth)) w->meta[w->fits16 + index] = 0;
    }
    return append(w, data, (size_t)from->size, r);
}

/* Copies the .vit file of the text encoder to the end of the file. */
static bool put_text(vit_writer *w, report *r) {
    if (!w->text) return true;
    if (!go_to(w, w->file_size - w->text_size, r) || !put_bytes(w, w->text, w->text_size, r))
        return false;
    w->text = NULL;
    return true;
}

bool vit_writer_finish(vit_writer *w, report *r) {
    vit_hash hash;
    size_t i;
    if (w->current != w->count)
        return report_fail(r, "%s was not written", w->tensors[w->current].name);
    if (!put_text(w, r)) return false;
    for (i = 0; i < w->count; i++)
        put_tensor(w->meta + w->directory + i * VIT_TENSOR_SIZE, &w->tensors[i]);
    store64(w->meta + VIT_HEADER_CHECKSUM, 0);
    vit_hash_init(&hash);
    vit_hash_update(&hash, w->meta, w->meta_size);
    store64(w->meta + VIT_HEADER_CHECKSUM, vit_hash_final(&hash));
    if (!go_to(w, 0, r) || !put_bytes(w, w->meta, w->meta_size, r)) return false;
    if (!w->memory && fflush(w->file) != 0)
        return report_fail(r, "cannot be written: %s", strerror(errno));
    return true;
}

bool vit_writer_replace(vit_writer *w, size_t tensor, const float *values, report *r) {
    vit_tensor *t = &w->tensors[tensor];
    unsigned char block[4 * BLOCK_NUMBERS];
    const size_t n = (size_t)t->size / 4;
    size_t done, count;
    vit_hash hash;
    if (!go_to(w, t->offset, r)) return false;
    vit_hash_init(&hash);
    for (done = 0; done < n; done += count) {
        count = fill_block(block, values + done, n - done);
        vit_hash_update(&hash, block, 4 * count);
        if (!put_bytes(w, block, 4 * count, r)) return false;
    }
    t->checksum = vit_hash_final(&hash);
    return true;
}

void vit_writer_free(vit_writer *w) {
    free(w->tensors);
    free(w->meta);
    free(w->panel);
    os_free(w->memory);
    memset(w, 0, sizeof *w);
}
