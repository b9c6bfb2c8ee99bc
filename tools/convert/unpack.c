#define _POSIX_C_SOURCE 200809L

#include "convert/unpack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/tensor.h"
#include "cli/options.h"
#include "cli/output.h"
#include "convert/calibrate.h"
#include "convert/vit_writer.h"
#include "model/card.h"
#include "os/os.h"

typedef struct unpacking {
    vit_model model;
    cli_output output;
    cli_progress progress;
    unpack_result *result;
} unpacking;

/* Returns the name of the tensor's type in safetensors. Quantised weights become F32, because
 * safetensors has no type for them. */
static const char *stored_type(const vit_tensor *t) {
    switch (t->dtype) {
    case VIT_F16: return "F16";
    case VIT_BF16: return "BF16";
    case VIT_F32:
    case VIT_I8:
    case VIT_I4:
    case VIT_NUM_DTYPES: break;
    }
    return "F32";
}

static bool is_half(const vit_tensor *t) { return t->dtype == VIT_F16 || t->dtype == VIT_BF16; }

static size_t element_size(const vit_tensor *t) { return is_half(t) ? 2 : 4; }

static uint64_t plain_size(const vit_tensor *t) { return tensor_count(t) * element_size(t); }

/* Finds a section of the .vit file. Returns NULL if there is none. vit_model_open has verified the
 * table of sections and its checksum, but not the sections themselves. */
static const unsigned char *find_section(const vit_model *model, const char name[8], size_t *size,
                                         size_t *count) {
    const unsigned char *entry = model->data + VIT_HEADER_SIZE;
    for (uint32_t i = bytes_load32(model->data + VIT_HEADER_NUM_SECTIONS); i; i--) {
        const uint64_t offset = bytes_load64(entry + VIT_SECTION_OFFSET);
        const uint64_t bytes = bytes_load64(entry + VIT_SECTION_BYTES);
        if (!memcmp(entry, name, 8) && offset <= model->size && bytes <= model->size - offset) {
            *size = (size_t)bytes;
            *count = bytes_load32(entry + VIT_SECTION_COUNT);
            return model->data + offset;
        }
        entry += VIT_SECTION_SIZE;
    }
    return NULL;
}

/* === Header === */

static void put_entry(FILE *file, const vit_tensor *t, uint64_t *offset) {
    uint64_t end = *offset + plain_size(t);
    int i;
    fprintf(file, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, stored_type(t));
    for (i = 0; i < t->ndim; i++) fprintf(file, "%s%d", i ? "," : "", t->dims[i]);
    fprintf(file, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*offset,
            (unsigned long long)end);
    *offset = end;
}

/* Makes the header of the safetensors file. It consists of 8 zero bytes, where the caller stores
 * the length, and the JSON text, padded with spaces to a multiple of 8 bytes. *size excludes the
 * final NUL. The caller frees the result. */
static char *make_header(unpacking *u, size_t *size) {
    char *text = NULL;
    FILE *memory = os_memory_open(&text, size);
    uint64_t offset = 0;
    vit_tensor t;
    int i;
    if (!memory) return NULL;
    fwrite("\0\0\0\0\0\0\0", 1, 8, memory);
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", memory);
    for (i = 0; vit_model_tensor(&u->model, i, &t); i++) {
        if (!parts_is_parameter(t.name)) continue;
        put_entry(memory, &t, &offset);
        u->result->tensors++;
        u->result->parameters += plain_size(&t) / element_size(&t);
    }
    fputc('}', memory);
    while (ftell(memory) % 8 != 0) fputc(' ', memory);
    if (!os_memory_close(memory, &text, size)) return NULL;
    u->result->bytes = *size + offset;
    return text;
}

static bool put_bytes(unpacking *u, const void *bytes, size_t size, report *r) {
    if (fwrite(bytes, 1, size, u->output.file) == size) return true;
    return report_fail(r, "cannot be written: %s", strerror(errno));
}

static bool put_header(unpacking *u, report *r) {
    size_t size;
    char *text = make_header(u, &size);
    bool good;
    int i;
    if (!text) return report_no_memory(r);
    for (i = 0; i < 8; i++) text[i] = (char)((uint64_t)(size - 8) >> 8 * i);
    good = put_bytes(u, text, size, r);
    free(text);
    return good;
}

/* === Data === */

/* Copies a row of 16-bit values out of its panel, without a conversion. Section ">>format" of vit.h
 * describes panels. */
static void unpack_half(const vit_tensor *t, int row, size_t depth, unsigned char *out) {
    const size_t panel = t->dtype == VIT_BF16 ? (depth + 1) / 2 * 64 : depth * 32;
    const unsigned char *data = (const unsigned char *)t->data + (size_t)(row / 16) * panel;
    const size_t column = (size_t)(row % 16);
    size_t k;
    for (k = 0; k < depth; k++) {
        size_t from = t->dtype == VIT_BF16 ? k / 2 * 32 + column * 2 + k % 2 : k * 16 + column;
        memcpy(out + 2 * k, data + 2 * from, 2);
    }
}

static bool put_panels(unpacking *u, const vit_tensor *t, report *r) {
    const size_t depth = tensor_depth(t);
    float *out = malloc(depth * sizeof *out);
    bool good = out ? true : report_no_memory(r);
    int row;
    for (row = 0; good && row < t->dims[0]; row++) {
        if (is_half(t)) unpack_half(t, row, depth, (unsigned char *)out);
        else vit_unpack_row(t, row, out), bytes_store_floats(out, out, depth);
        good = put_bytes(u, out, depth * element_size(t), r);
    }
    free(out);
    return good;
}

/* Verifies the checksum of one tensor. Each tensor is verified just before its use instead of when
 * the file is opened, so that its pages can be dropped after its use. */
static bool check_tensor(const vit_tensor *t, report *r) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, t->data, (size_t)t->size);
    if (vit_hash_final(&hash) == t->checksum) return true;
    return report_fail(r, "tensor %s is damaged: its checksum differs", t->name);
}

static bool put_tensors(unpacking *u, report *r) {
    vit_tensor t;
    uint64_t done = 0;
    int i;
    for (i = 0; vit_model_tensor(&u->model, i, &t); i++) {
        if (!parts_is_parameter(t.name)) continue;
        if (!check_tensor(&t, r)) return false;
        if (t.layout != VIT_LAYOUT_PLAIN ? !put_panels(u, &t, r)
                                         : !put_bytes(u, t.data, (size_t)t.size, r))
            return false;
        pages_drop(&u->model);
        done += plain_size(&t);
        cli_progress_update(&u->progress, done);
    }
    return true;
}

/* === The whole safetensors file === */

static bool write_output(unpacking *u, bool quiet, report *r) {
    bool good;
    cli_progress_start(&u->progress, "writing", u->result->bytes);
    if (quiet || u->output.file == stdout) u->progress.active = false;
    good = put_header(u, r);
    u->progress.total = u->result->bytes;
    good = good && put_tensors(u, r);
    cli_progress_clear(&u->progress);
    if (!good) {
        cli_output_abandon(&u->output);
        return false;
    }
    return cli_output_commit(&u->output, r);
}

bool unpack_to_safetensors(const char *input, const char *output, bool quiet, unpack_result *result,
                           report *r) {
    unpacking u;
    size_t size, count;
    bool good;
    memset(&u, 0, sizeof u);
    memset(result, 0, sizeof *result);
    u.result = result;
    if (!cli_model_open(input, 0, &u.model, r)) return false;
    result->has_text = find_section(&u.model, "text\0\0\0", &size, &count) != NULL;
    good = cli_output_open(&u.output, output, r) && write_output(&u, quiet, r);
    vit_model_close(&u.model);
    return good || report_file(r, output);
}

/* === Replacing the head === */

static bool find_tensor(const vit_model *model, const char *name, vit_tensor *t) {
    for (int i = 0; vit_model_tensor(model, i, t); i++)
        if (!strcmp(t->name, name)) return true;
    return false;
}

/* Writes a matrix of weights or a vector of biases of a head. The logits of a distilled model are
 * the mean of two heads. The head of the class token therefore gets doubled values, and the head of
 * the distillation token gets zeros. */
static bool put_head_row(vit_writer *w, const vit_config *config, const head_contents *head,
                         const vit_tensor *t, int dim, float *rows, report *r) {
    const double factor = !strncmp(t->name, "head_dist.", 10) ? 0 : config->has_dist_token ? 2 : 1;
    const bool is_bias = t->ndim == 1;
    for (int first = 0; first < head->num_classes; first += 16) {
        const int n = head->num_classes - first < 16 ? head->num_classes - first : 16;
        for (int i = 0; i < n; i++) {
            const double *from = head->weights + (size_t)(first + i) * ((size_t)dim + 1);
            if (is_bias) rows[i] = (float)(factor * from[dim]);
            for (int d = 0; !is_bias && d < dim; d++)
                rows[(size_t)i * (size_t)dim + (size_t)d] = (float)(factor * from[d]);
        }
        if (!(is_bias ? vit_writer_values(w, rows, (size_t)n, r) : vit_writer_rows(w, rows, n, r)))
            return false;
    }
    return true;
}

static bool put_zero_logits(vit_writer *w, int count, report *r) {
    const float zero = 0;
    for (int i = 0; i < count; i++)
        if (!vit_writer_values(w, &zero, 1, r)) return false;
    return true;
}

static bool put_all(vit_writer *w, const vit_model *backbone, const vit_config *config,
                    const head_contents *head, report *r) {
    const int dim = vit_embedding_dim(backbone);
    float *rows = malloc(16 * ((size_t)dim + 1) * sizeof *rows);
    bool good = rows || report_no_memory(r);
    vit_tensor from;
    for (size_t i = 0; good && i < w->count; i++) {
        const vit_tensor *t = &w->tensors[i];
        if (!strncmp(t->name, "selftest.", 9)) good = put_zero_logits(w, head->num_classes, r);
        else if (card_is_of_head(t->name)) good = put_head_row(w, config, head, t, dim, rows, r);
        else if (find_tensor(backbone, t->name, &from))
            good = check_tensor(&from, r) && vit_writer_copy(w, &from, r);
        else good = report_fail(r, "%s is not in the backbone", t->name);
    }
    free(rows);
    return good;
}

/* Runs the model in the written file, and stores its logits in the file as the self-test. */
static bool renew_selftest(vit_writer *w, const char *path, report *r) {
    vit_model model;
    runner run;
    bool good;
    if (strncmp(w->tensors[w->count - 1].name, "selftest.", 9) != 0) return true;
    if (vit_model_open(path, 0, &model)) return report_detail(r, model.detail);
    good = runner_open(&run, &model, NULL, NULL, r);
    if (good) vit_selftest_input(&model.config, run.input);
    good = good && runner_forward(&run, r) && vit_writer_replace(w, w->count - 1, run.output, r) &&
           vit_writer_finish(w, r);
    runner_close(&run);
    vit_model_close(&model);
    return good;
}

static bool write_head(const vit_model *backbone, const head_contents *head, cli_output *output,
                       uint64_t *bytes, report *r) {
    vit_config config = backbone->config;
    vit_writer_contents contents;
    vit_writer w;
    size_t unused;
    bool good;
    memset(&contents, 0, sizeof contents);
    config.num_classes = head->num_classes;
    config.head_activation = head->several ? VIT_HEAD_SIGMOID : VIT_HEAD_SOFTMAX;
    contents.config = &config;
    contents.dtype = VIT_F32;
    contents.backbone = backbone;
    contents.num_labels = (size_t)head->num_classes;
    contents.labels = head->labels;
    contents.provenance = head->provenance;
    contents.learned = head->learned;
    contents.learned_size = head->learned_size;
    contents.num_learned = head->num_learned;
    contents.text = find_section(backbone, "text\0\0\0", &contents.text_size, &unused);
    if (!vit_writer_start(&w, output->file, &contents, r)) return false;
    good = put_all(&w, backbone, &config, head, r) && vit_writer_finish(&w, r) &&
           renew_selftest(&w, output->temporary, r);
    *bytes = w.file_size;
    vit_writer_free(&w);
    return good;
}

bool head_write(const vit_model *backbone, const head_contents *head, const char *path,
                uint64_t *bytes, report *r) {
    cli_output output;
    if (!cli_output_open(&output, path, r)) return false;
    if (!output.temporary) {
        (void)report_fail(r, "expected the name of a file, found a pipe or a device");
    } else if (write_head(backbone, head, &output, bytes, r)) {
        return cli_output_commit(&output, r);
    }
    cli_output_abandon(&output);
    return report_file(r, path);
}

const unsigned char *head_learned(const vit_model *model, size_t *size, size_t *num_learned) {
    return find_section(model, "learned", size, num_learned);
}
