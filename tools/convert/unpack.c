#define _POSIX_C_SOURCE 200809L

#include "convert/unpack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/tensor.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "convert/runner.h"
#include "model/card.h"
#include "os/os.h"

typedef struct unpacking {
    vit_model model;
    cli_output output;
    cli_progress progress;
    unpack_result *result;
} unpacking;

/* safetensors has no type for quantised weights: those become f32. */
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

/* Room for the length, then JSON padded with spaces to 8 bytes; *size without the NUL. */
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

/* A row of 16-bit values, bits unchanged; panels as >>format in vit.h says. */
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

/* Tensor by tensor instead of all at once when opening, so that the pages can be dropped. */
static bool check_tensor(const vit_tensor *t, report *r) {
    vit_hash hash;
    vit_hash_init(&hash);
    vit_hash_update(&hash, t->data, (size_t)t->size);
    if (vit_hash_final(&hash) == t->checksum) return true;
    return report_fail(r, "%s: its checksum differs", t->name);
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

/* === Everything === */

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
    bool good;
    memset(&u, 0, sizeof u);
    memset(result, 0, sizeof *result);
    u.result = result;
    if (!cli_model_open(input, 0, &u.model, r)) return false;
    good = cli_output_open(&u.output, output, r) && write_output(&u, quiet, r);
    vit_model_close(&u.model);
    return good || report_file(r, output);
}
