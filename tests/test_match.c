/* test_match.c - tests whether --match-input finds the settings of random models. Each model gets
 * some of the settings that the search covers. The test converts and runs the model. Then the test
 * converts the model again, with the output of this run instead of the settings. The test also
 * covers everything that --match-input and --match-folder refuse.
 *
 *     test_match [tests/data [MODELS [CHANGES [FIRST]]]]
 *
 * At most CHANGES settings of a model (by default 3) differ from the likeliest settings. After
 * every 20 tries without a valid model, one more may differ. The first model has number FIRST.
 */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/report.h"
#include "base/npy.h"
#include "convert/conversion.h"
#include "convert/match.h"
#include "convert/calibrate.h"
#include "image/photos.h"
#include "layout/detect.h"
#include "test.h"
#include "vit.h"

static char folder[64];
static photo_decoder *decoder;

static void path_of(char path[128], const char *name) {
    snprintf(path, 128, "%s/%s", folder, name);
}

/* === Random numbers === */

static uint64_t state = 1;

static uint32_t random_bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static int random_below(int n) { return (int)(random_bits() % (uint32_t)n); }

/* Returns a random number whose distribution is nearly normal, with deviation 1. */
static float random_normal(void) {
    double sum = 0;
    int i;
    for (i = 0; i < 12; i++) sum += random_bits() / 4294967296.0;
    return (float)(sum - 6);
}

/* === A checkpoint === */

typedef struct tensor_spec {
    char name[64];
    int dims[4], ndim;
    float mean, deviation;
} tensor_spec;

/* The facts about a random model that a conversion can read from its tensors. */
typedef struct shape {
    int dim, depth, mlp, patch, chans, side, classes, extra_rows, reg, repr;
    bool is_linear, is_split, has_cls, has_norm2, has_patch_rows, has_fc_norm, is_overlapping;
} shape;

static tensor_spec specs[128];
static int num_specs;

static void add(const char *name, float mean, float deviation, int ndim, int a, int b, int c,
                int d) {
    tensor_spec *t = &specs[num_specs++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->ndim = ndim;
    t->dims[0] = a, t->dims[1] = b, t->dims[2] = c, t->dims[3] = d;
    t->mean = mean;
    t->deviation = deviation;
}

static void add_linear(const char *stem, const char *name, int out, int in) {
    char full[64];
    snprintf(full, sizeof full, "%s%s.weight", stem, name);
    add(full, 0, 1.5f / sqrtf((float)in), 2, out, in, 1, 1);
    snprintf(full, sizeof full, "%s%s.bias", stem, name);
    add(full, 0, 0.3f, 1, out, 1, 1, 1);
}

static void add_norm(const char *stem, const char *name, int dim) {
    char full[64];
    snprintf(full, sizeof full, "%s%s.weight", stem, name);
    add(full, 1, 0.3f, 1, dim, 1, 1, 1);
    snprintf(full, sizeof full, "%s%s.bias", stem, name);
    add(full, 0, 0.3f, 1, dim, 1, 1, 1);
}

static void add_block(const shape *s, int i) {
    char stem[32];
    snprintf(stem, sizeof stem, "blocks.%d.", i);
    add_norm(stem, "norm1", s->dim);
    if (s->is_split) {
        add_linear(stem, "attn.q", s->dim, s->dim);
        add_linear(stem, "attn.k", s->dim, s->dim);
        add_linear(stem, "attn.v", s->dim, s->dim);
    } else {
        add_linear(stem, "attn.qkv", 3 * s->dim, s->dim);
    }
    add_linear(stem, "attn.proj", s->dim, s->dim);
    if (s->has_norm2) add_norm(stem, "norm2", s->dim);
    add_linear(stem, "mlp.fc1", s->mlp, s->dim);
    add_linear(stem, "mlp.fc2", s->dim, s->mlp);
}

static void list_tensors(const shape *s) {
    const int grid = s->is_overlapping ? 2 * s->side / s->patch - 1 : s->side / s->patch;
    const int pixels = s->chans * s->patch * s->patch;
    const int prefix = s->has_patch_rows ? 0 : s->has_cls + s->reg;
    const float d = 1 / sqrtf((float)pixels);
    int i;
    num_specs = 0;
    if (s->has_cls) add("cls_token", 0, 1, 3, 1, 1, s->dim, 1);
    if (s->reg) add("reg_token", 0, 1, 3, 1, s->reg, s->dim, 1);
    add("pos_embed", 0, 1, 3, 1, grid * grid + prefix + s->extra_rows, s->dim, 1);
    if (s->is_linear) add("patch_embed.proj.weight", 0, d, 2, s->dim, pixels, 1, 1);
    else add("patch_embed.proj.weight", 0, d, 4, s->dim, s->chans, s->patch, s->patch);
    add("patch_embed.proj.bias", 0, 0.3f, 1, s->dim, 1, 1, 1);
    for (i = 0; i < s->depth; i++) add_block(s, i);
    add_norm("", "norm", s->dim);
    if (s->has_fc_norm) add_norm("", "fc_norm", s->dim);
    if (s->repr) add_linear("", "pre_logits.fc", s->repr, s->dim);
    add_linear("", "head", s->classes, s->repr ? s->repr : s->dim);
}

static size_t count_of(const tensor_spec *t) {
    size_t count = 1;
    int i;
    for (i = 0; i < t->ndim; i++) count *= (size_t)t->dims[i];
    return count;
}

static void put_header(FILE *file) {
    static char text[128 * 160];
    size_t used = (size_t)sprintf(text, "{"), offset = 0;
    int i, d;
    for (i = 0; i < num_specs; i++) {
        const tensor_spec *t = &specs[i];
        const size_t size = 4 * count_of(t);
        used += (size_t)sprintf(text + used, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[",
                                i ? "," : "", t->name);
        for (d = 0; d < t->ndim; d++)
            used += (size_t)sprintf(text + used, "%s%d", d ? "," : "", t->dims[d]);
        used += (size_t)sprintf(text + used, "],\"data_offsets\":[%zu,%zu]}", offset,
                                offset + size);
        offset += size;
    }
    text[used++] = '}';
    while (used % 8) text[used++] = ' ';
    for (i = 0; i < 8; i++) fputc((int)((uint64_t)used >> 8 * i & 255), file);
    fwrite(text, 1, used, file);
}

/* Memory for the values of all tensors, one after the other. */
static float values[65536];

static void write_values(void) {
    char path[128];
    FILE *file;
    size_t total = 0, k;
    int i, b;
    path_of(path, "model.safetensors");
    file = fopen(path, "wb");
    if (!file) return;
    put_header(file);
    for (i = 0; i < num_specs; i++) total += count_of(&specs[i]);
    for (k = 0; k < total; k++) {
        uint32_t bits;
        memcpy(&bits, &values[k], sizeof bits);
        for (b = 0; b < 4; b++) fputc((int)(bits >> 8 * b & 255), file);
    }
    fclose(file);
}

static void write_checkpoint(const shape *s) {
    size_t at = 0, k;
    int i;
    list_tensors(s);
    for (i = 0; i < num_specs; i++)
        for (k = count_of(&specs[i]); k-- > 0;)
            values[at++] = specs[i].mean + specs[i].deviation * random_normal();
    CHECK(at <= sizeof values / sizeof values[0]);
    write_values();
}

static shape random_shape(void) {
    static const int dims[] = { 16, 24, 32 };
    shape s;
    memset(&s, 0, sizeof s);
    s.dim = dims[random_below(3)];
    s.depth = 1 + random_below(3);
    s.mlp = 2 * s.dim;
    s.patch = 4;
    s.chans = random_below(2) ? 3 : 1;
    s.side = 12;
    s.classes = 5 + random_below(6);
    s.is_linear = random_below(2);
    s.is_split = random_below(4) == 0;
    s.has_cls = random_below(4) > 0;
    s.has_norm2 = random_below(6) > 0;
    s.has_patch_rows = random_below(4) == 0;
    s.reg = s.has_cls && random_below(4) == 0 ? 2 : 0;
    s.extra_rows = random_below(6) == 0 ? 7 : 0;
    s.repr = random_below(4) == 0 ? 12 : 0;
    s.has_fc_norm = random_below(4) == 0;
    s.is_overlapping = !s.extra_rows && random_below(4) == 0;
    return s;
}

/* === Conversions === */

static bool parse_texts(const char *texts, settings *s, report *r) {
    char copy[4096], *word;
    snprintf(copy, sizeof copy, "%s", texts);
    settings_start(s, "--set");
    for (word = strtok(copy, " "); word; word = strtok(NULL, " "))
        if (!settings_parse(s, word, r)) return false;
    settings_put(s, SETTING_SELFTEST_TOLERANCE, 0);
    return true;
}

static convert_options plain_options(void) {
    static char input[128], output[128];
    convert_options o;
    memset(&o, 0, sizeof o);
    path_of(input, "model.safetensors");
    path_of(output, "model.vit");
    o.checkpoint = input;
    o.output = output;
    o.quiet = true;
    o.match_tolerance = 1e-4;
    o.match_seconds = 60;
    o.match_max = 200;
    return o;
}

/* Checks the JSON report. The report must list the values that were tried on pictures. Values that
 * give no valid model must not be listed. */
static void check_report(const match *m) {
    static const char key[] = "\"pictures\":";
    static char text[65536];
    FILE *file = tmpfile();
    json_writer w;
    const char *at = text;
    int listed = 0;
    CHECK(file);
    if (!file) return;
    w = json_write_to(file);
    match_report_json(m, &w);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (; (at = strstr(at, key)) != NULL; listed++) {
        at += strlen(key);
        CHECK_MSG(atoi(at) > 0, "a value with no pictures: %.300s", at);
    }
    CHECK_MSG(listed > 1, "no values tried: %s", text);
}

/* Converts the model. `provenance` receives at most 8192 characters, and may be NULL. */
static bool convert(const convert_options *o, const char *texts, char *provenance, report *r) {
    conversion *c = calloc(1, sizeof *c);
    convert_options with = *o;
    bool good;
    *r = report_make();
    if (!c) return false;
    good = parse_texts(texts, &with.given, r) && convert_run(&with, c, r);
    if (good && provenance) snprintf(provenance, 8192, "%s", c->written.provenance);
    if (good && o->match_folder) check_report(c->blueprint.match);
    convert_free(c);
    free(c);
    return good;
}

/* Returns the output of the converted model for this input. The caller frees the output. */
static float *run_model(const float *input, size_t *count) {
    char path[128];
    vit_model model;
    runner run;
    report r = report_make();
    float *output = NULL;
    path_of(path, "model.vit");
    if (vit_model_open(path, VIT_OPEN_COPY, &model)) return NULL;
    if (runner_open(&run, &model, NULL, NULL, &r)) {
        const vit_config *c = &model.config;
        memcpy(run.input, input,
               (size_t)c->in_chans * (size_t)c->img_height * (size_t)c->img_width * sizeof *input);
        *count = run.output_size;
        output = malloc(run.output_size * sizeof *output);
        if (output && runner_forward(&run, &r))
            memcpy(output, run.output, run.output_size * sizeof *output);
    }
    runner_close(&run);
    vit_model_close(&model);
    return output;
}

static void write_npy(const char *name, const float *data, int ndim, int64_t a, int64_t b,
                      int64_t c, int64_t d) {
    const int64_t dims[4] = { a, b, c, d };
    char path[128];
    FILE *file;
    path_of(path, name);
    file = fopen(path, "wb");
    if (!file) return;
    CHECK(npy_write(file, data, dims, ndim));
    fclose(file);
}

/* === The truth === */

/* Lists, in the same way as the search, the settings that the checkpoint does not determine. */
static bool list_open(match_table *table) {
    blueprint *b = calloc(1, sizeof *b);
    convert_options o = plain_options();
    report r = report_make();
    bool good;
    int from;
    if (!b) return false;
    o.match_folder = "any"; /* The folder is only needed so that the search has something to
                             * match. */
    for (from = 0; from < FROM_COUNT; from++) settings_start(&b->facts.all[from], "");
    good = checkpoint_open(o.checkpoint, &b->checkpoint, &r) &&
           layout_detect(b->checkpoint, &b->facts.map, &r) &&
           match_prepare(&o, &b->facts, &b->match, &r) &&
           layout_inspect(&b->facts.map, b->facts.all, &b->facts.seen, &r);
    CHECK_MSG(good, "%s", r.text);
    table->count = 0;
    if (good) match_list_architecture(table, &b->facts);
    match_free(b->match);
    layout_free_map(&b->facts.map);
    checkpoint_close(b->checkpoint);
    free(b);
    return good;
}

static match_table table;
/* The largest number of settings that differ from the likeliest settings. */
static int changes = 3;

/* Joins the texts of the chosen values, in the form that --set requires. */
static void join(const shape *s, const int of[MATCH_MAX_ROWS], char texts[2048]) {
    size_t used = (size_t)snprintf(texts, 2048, "img_size=%d in_chans=%d", s->side, s->chans);
    int row;
    for (row = 0; row < table.count; row++)
        used += (size_t)snprintf(texts + used, 2048 - used, " %s", table.rows[row].values[of[row]]);
}

/* Chooses random values for a few rows of the table, and the likeliest values for all others. Then
 * builds the model. Returns false if 200 tries give no valid model. */
static bool choose_truth(const shape *s, int of[MATCH_MAX_ROWS]) {
    convert_options o = plain_options();
    char texts[2048];
    report r;
    int tries, row, left;
    for (tries = 0; tries < 200; tries++) {
        memset(of, 0, MATCH_MAX_ROWS * sizeof *of);
        for (left = changes + tries / 20; left > 0; left--) {
            row = random_below(table.count);
            of[row] = random_below(table.rows[row].count);
        }
        join(s, of, texts);
        if (convert(&o, texts, NULL, &r)) return true;
    }
    CHECK_MSG(false, "no model: %s", r.text);
    return false;
}

static bool is_close(const float *a, const float *b, size_t n, double tolerance) {
    double largest = 0, far = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)a[i]));
        far = fmax(far, fabs((double)a[i] - (double)b[i]));
    }
    return far <= tolerance * largest;
}

/* Returns the index of the value that the provenance states for this row, or -1 if it states none.
 * *line receives the line of the provenance. */
static int found_value(const match_row *row, const char *provenance, char line[1024]) {
    const char *at;
    int value;
    for (at = strstr(provenance, "matched: "); at; at = strstr(at + 1, "matched: ")) {
        snprintf(line, 1024, "%.*s", (int)strcspn(at, "\n"), at);
        for (value = 0; value < row->count; value++) {
            const size_t length = strlen(row->values[value]);
            const char *end = line + 9 + length;
            if (!strncmp(line + 9, row->values[value], length) && (!*end || !strncmp(end, " (", 2)))
                return value;
        }
    }
    return -1;
}

/* Chooses a value for each setting. The chosen value is the true value if the provenance states no
 * value, or states that the true value fits equally well. In all other cases it is the value that
 * the search found. Returns true if the model with these values gives this output. */
static bool is_named(const shape *s, const int truth[MATCH_MAX_ROWS], const char *provenance,
                     const float *x, const float *y) {
    const convert_options o = plain_options();
    char line[1024], texts[2048];
    int of[MATCH_MAX_ROWS], row;
    size_t n = 0;
    float *other;
    bool good;
    report r;
    for (row = 0; row < table.count; row++) {
        of[row] = found_value(&table.rows[row], provenance, line);
        if (of[row] < 0 || strstr(line, table.rows[row].values[truth[row]])) of[row] = truth[row];
    }
    join(s, of, texts);
    other = convert(&o, texts, NULL, &r) ? run_model(x, &n) : NULL;
    good = other && is_close(y, other, n, 1e-4);
    free(other);
    return good;
}

/* Checks the settings that were found. Each found value must be the true value, or the provenance
 * must list the true value with it, or both values must give the same output. */
static void check_found(int number, const shape *s, const int truth[MATCH_MAX_ROWS],
                        const char *provenance, const float *x, const float *y) {
    const convert_options o = plain_options();
    int of[MATCH_MAX_ROWS], row;
    char line[1024], texts[2048];
    float *other;
    size_t n = 0;
    report r;
    for (row = 0; row < table.count; row++) {
        memcpy(of, truth, sizeof of);
        of[row] = found_value(&table.rows[row], provenance, line);
        if (of[row] < 0 || strstr(line, table.rows[row].values[truth[row]])) continue;
        join(s, of, texts);
        other = convert(&o, texts, NULL, &r) ? run_model(x, &n) : NULL;
        CHECK_MSG(other && !memcmp(other, y, n * sizeof *y), "model %d: %s is not in %s", number,
                  table.rows[row].values[truth[row]], line);
        free(other);
    }
}

static void check_model(int number) {
    const shape s = random_shape();
    convert_options o = plain_options();
    char input[128], logits[128], texts[2048], provenance[8192] = "";
    float x[2][3 * 12 * 12], *y[2] = { NULL, NULL }, *found = NULL;
    int of[MATCH_MAX_ROWS], i;
    size_t n = 0;
    report r;
    write_checkpoint(&s);
    for (i = 0; i < 2 * 3 * 12 * 12; i++) x[i / (3 * 12 * 12)][i % (3 * 12 * 12)] = random_normal();
    if (!list_open(&table) || !choose_truth(&s, of)) return;
    for (i = 0; i < 2; i++) y[i] = run_model(x[i], &n);
    CHECK_MSG(y[0] && y[1], "model %d cannot be run", number);
    if (y[0] && y[1]) {
        write_npy("x.npy", x[0], number % 2 ? 3 : 4, number % 2 ? s.chans : 1,
                  number % 2 ? s.side : s.chans, s.side, s.side);
        write_npy("y.npy", y[0], number % 2 ? 1 : 2, number % 2 ? (int64_t)n : 1, (int64_t)n, 1, 1);
        path_of(input, "x.npy");
        path_of(logits, "y.npy");
        o.match_input = input;
        o.match_logits = logits;
        join(&s, of, texts);
        CHECK_MSG(convert(&o, "", provenance, &r), "model %d: %s\n%s", number, r.text, texts);
        found = r.failed ? NULL : run_model(x[1], &n);
        CHECK_MSG(r.failed || (found && (is_close(y[1], found, n, 1e-4) ||
                                         is_named(&s, of, provenance, x[1], y[1]))),
                  "model %d gives something else:\n%s%s", number, provenance, texts);
        if (found) check_found(number, &s, of, provenance, x[1], y[1]);
    }
    free(y[0]);
    free(y[1]);
    free(found);
}

/* === Orders === */

/* Returns the position of a row in a joint weight with this order and interleaving. i is the
 * position of the same row in the usual order. */
static int stored_row(const char *order, const char *interleave, int heads, int width, int i) {
    const int k = i % width, h = i / width % heads;
    const int z = (int)(strchr(order, "qkv"[i / width / heads]) - order);
    if (!strcmp(interleave, "none")) return (z * heads + h) * width + k;
    if (!strcmp(interleave, "per_head")) return (h * 3 + z) * width + k;
    return (h * width + k) * 3 + z;
}

static void permute(const char *order, const char *interleave, int heads, int width) {
    static float copy[65536];
    const int rows = 3 * heads * width;
    size_t at = 0, depth;
    int i, row;
    memcpy(copy, values, sizeof copy);
    for (i = 0; i < num_specs; at += count_of(&specs[i++])) {
        if (!strstr(specs[i].name, ".qkv.")) continue;
        depth = count_of(&specs[i]) / (size_t)rows;
        for (row = 0; row < rows; row++)
            memcpy(values + at + (size_t)stored_row(order, interleave, heads, width, row) * depth,
                   copy + at + (size_t)row * depth, depth * sizeof *copy);
    }
}

/* Tests options that state the order of a weight's rows. A weight in this order must give the
 * original model. */
static void check_orders(void) {
    static const char *const orders[] = { "qkv", "qvk", "kqv", "kvq", "vqk", "vkq" };
    static const char *const interleaves[] = { "none", "per_head", "per_value" };
    static float plain[65536];
    const convert_options o = plain_options();
    float x[3 * 12 * 12], *y, *found;
    char texts[256];
    size_t n = 0;
    shape s;
    report r;
    int i, k;
    state = 7;
    do s = random_shape();
    while (s.is_split || s.extra_rows || !s.has_norm2 || !s.has_cls || s.dim != 16);
    for (i = 0; i < 3 * 12 * 12; i++) x[i] = random_normal();
    write_checkpoint(&s);
    memcpy(plain, values, sizeof plain);
    snprintf(texts, sizeof texts, "num_heads=4 in_chans=%d", s.chans);
    CHECK_MSG(convert(&o, texts, NULL, &r), "%s", r.text);
    y = run_model(x, &n);
    for (i = 0; i < 18; i++) {
        memcpy(values, plain, sizeof plain);
        permute(orders[i / 3], interleaves[i % 3], 4, 4);
        write_values();
        snprintf(texts, sizeof texts, "num_heads=4 in_chans=%d qkv_order=%s qkv_interleave=%s",
                 s.chans, orders[i / 3], interleaves[i % 3]);
        CHECK_MSG(convert(&o, texts, NULL, &r), "%s: %s", texts, r.text);
        found = run_model(x, &n);
        k = y && found ? memcmp(y, found, n * sizeof *y) : 1;
        CHECK_MSG(k == 0, "%s is another model", texts);
        free(found);
    }
    free(y);
}

/* === Outputs of the original === */

/* Computes softmax or log_softmax of n logits in float32, as PyTorch does. */
static void take_softmax(float *y, size_t n, bool is_log) {
    float most = y[0], sum = 0;
    size_t k;
    for (k = 1; k < n; k++) most = fmaxf(most, y[k]);
    for (k = 0; k < n; k++) sum += expf(y[k] - most);
    for (k = 0; k < n; k++) y[k] = is_log ? y[k] - most - logf(sum) : expf(y[k] - most) / sum;
}

static void take_sigmoid(float *y, size_t n) {
    size_t k;
    for (k = 0; k < n; k++) y[k] = 1 / (1 + expf(-y[k]));
}

static void take_unit(float *y, size_t n) {
    float sum = 0;
    size_t k;
    for (k = 0; k < n; k++) sum += y[k] * y[k];
    for (k = 0; k < n; k++) y[k] /= sqrtf(sum);
}

static void take_end(model_end end, float *y, size_t n) {
    switch (end) {
    case MODEL_END_SOFTMAX: take_softmax(y, n, false); break;
    case MODEL_END_LOG_SOFTMAX: take_softmax(y, n, true); break;
    case MODEL_END_SIGMOID: take_sigmoid(y, n); break;
    case MODEL_END_UNIT: take_unit(y, n); break;
    case MODEL_END_NONE: break;
    }
}

/* A model with known settings, and the output that its author's program would print. */
typedef struct ending {
    /* The settings of the model, in the form of --set. */
    const char *truth;
    /* The settings that are given to the second conversion, which must find the others. */
    const char *known;
    model_end end;
    int images;
    /* The factor by which the head is multiplied. A large factor gives probabilities of 0 and 1. */
    float scale;
    /* A text that the provenance must contain, or NULL if it must not contain "original: ". */
    const char *expected;
} ending;

static const ending endings[] = {
    { "activation=relu", "", MODEL_END_SOFTMAX, 1, 1,
      "original: gives probabilities (softmax); this file gives the values before this last "
      "step\n" },
    { "block_type=post_norm", "", MODEL_END_SOFTMAX, 3, 60,
      "original: gives probabilities (softmax); " },
    { "activation=silu", "", MODEL_END_LOG_SOFTMAX, 1, 1,
      "original: gives log-probabilities (log_softmax); " },
    { "activation=gelu", "", MODEL_END_LOG_SOFTMAX, 2, 60,
      "original: gives log-probabilities (log_softmax); " },
    { "activation=relu pool=avg", "", MODEL_END_SIGMOID, 1, 1,
      "original: gives a probability for each class (sigmoid); " },
    { "activation=relu", "", MODEL_END_SIGMOID, 4, 20,
      "original: gives a probability for each class (sigmoid); " },
    { "activation=relu", "", MODEL_END_NONE, 1, 0.01f, NULL },
    { "activation=relu num_classes=0", "num_classes=0", MODEL_END_NONE, 1, 1, NULL },
    { "activation=relu num_classes=0", "num_classes=0", MODEL_END_UNIT, 2, 1,
      "original: gives an embedding scaled to length 1; " },
    { "activation=relu num_classes=0", "", MODEL_END_NONE, 1, 1, NULL },
};

/* Scales the head. A scale below 1 gives logits of about 0.5, which look like probabilities. */
static void scale_head(float scale) {
    size_t at = 0, k;
    int i;
    for (i = 0; i < num_specs; at += count_of(&specs[i++]))
        for (k = 0; !strncmp(specs[i].name, "head.", 5) && k < count_of(&specs[i]); k++)
            values[at + k] = values[at + k] * scale + (scale < 1 && specs[i].ndim == 1 ? 0.5f : 0);
    write_values();
}

/* Returns the activation of the head in the file, which vit-classify applies. Returns -1 if the
 * file cannot be opened. */
static int stored_activation(void) {
    char path[128];
    vit_model model;
    int activation;
    path_of(path, "model.vit");
    if (vit_model_open(path, VIT_OPEN_COPY, &model)) return -1;
    activation = model.config.head_activation;
    vit_model_close(&model);
    return activation;
}

static void check_ending(int number, const ending *t) {
    enum { PIXELS = 3 * 12 * 12 };
    static float x[4 * PIXELS], y[4 * 32];
    convert_options o = plain_options();
    char input[128], logits[128], texts[256], provenance[8192] = "";
    const bool is_embedding = strstr(t->truth, "num_classes=0") != NULL;
    float *found;
    size_t n = 0, unused;
    report r;
    int i;
    for (i = 0; i < t->images * PIXELS; i++) x[i] = random_normal();
    snprintf(texts, sizeof texts, "num_heads=4 %s", t->truth);
    CHECK_MSG(convert(&o, texts, NULL, &r), "%s", r.text);
    for (i = 0; i < t->images; i++) {
        found = run_model(x + i * PIXELS, &n);
        CHECK(found && n <= 32);
        if (!found || n > 32) return;
        memcpy(y + (size_t)i * n, found, n * sizeof *y);
        take_end(t->end, y + (size_t)i * n, n);
        free(found);
    }
    write_npy("x.npy", x, 4, t->images, 3, 12, 12);
    write_npy("y.npy", y, 2, t->images, (int64_t)n, 1, 1);
    path_of(input, "x.npy");
    path_of(logits, "y.npy");
    o.match_input = input;
    o.match_logits = logits;
    snprintf(texts, sizeof texts, "num_heads=4 %s", t->known);
    CHECK_MSG(convert(&o, texts, provenance, &r), "ending %d: %s", number, r.text);
    CHECK_MSG(t->expected ? strstr(provenance, t->expected) != NULL
                          : !strstr(provenance, "original: "),
              "ending %d: %s", number, provenance);
    CHECK(stored_activation() ==
          (t->end == MODEL_END_SIGMOID ? VIT_HEAD_SIGMOID : VIT_HEAD_SOFTMAX));
    if (is_embedding) {
        CHECK_MSG(strstr(provenance, "matched: activation=relu"), "%s", provenance);
        return;
    }
    found = run_model(x, &unused);
    if (found) take_end(t->end, found, n);
    CHECK_MSG(found && is_close(y, found, n, 1e-4), "ending %d is another model", number);
    free(found);
}

static void check_endings(void) {
    shape s;
    size_t i;
    memset(&s, 0, sizeof s);
    s.dim = 16, s.depth = 2, s.mlp = 32, s.patch = 4, s.chans = 3, s.side = 12, s.classes = 5;
    s.has_cls = s.has_norm2 = true;
    for (i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        state = 2 * i + 11;
        write_checkpoint(&s);
        scale_head(endings[i].scale);
        check_ending((int)i, &endings[i]);
    }
}

/* === Refusals === */

typedef struct refusal {
    const char *message;
    int input[4], input_ndim, logits[2], logits_ndim;
    /* The value that replaces the first logit. 0 means that no logit is replaced. */
    float value;
} refusal;

static void write_pair(const refusal *t) {
    static float x[4096], y[64];
    size_t i;
    for (i = 0; i < 4096; i++) x[i] = random_normal();
    for (i = 0; i < 64; i++) y[i] = random_normal();
    if (t->value != 0) y[0] = t->value;
    write_npy("x.npy", x, t->input_ndim, t->input[0], t->input[1], t->input[2], t->input[3]);
    write_npy("y.npy", y, t->logits_ndim, t->logits[0], t->logits[1], 1, 1);
}

static const refusal refusals[] = {
    { "expected an input [C, H, W] or [B, C, H, W], found [12, 12]", { 12, 12 }, 2, { 5 }, 1, 0 },
    { "expected an input [C, H, W] or [B, C, H, W], found [0, 3, 12, 12]",
      { 0, 3, 12, 12 },
      4,
      { 5 },
      1,
      0 },
    { "expected logits [2, classes] for an input [2, 3, 12, 12], found [1, 5]",
      { 2, 3, 12, 12 },
      4,
      { 1, 5 },
      2,
      0 },
    { "expected 5 logits for each input, found 6", { 3, 12, 12 }, 3, { 6 }, 1, 0 },
    { "expected an input of 3 channels, [3, H, W], found [1, 12, 12]",
      { 1, 12, 12 },
      3,
      { 5 },
      1,
      0 },
    { "found [12, 12, 3], which looks like channels last", { 12, 12, 3 }, 3, { 5 }, 1, 0 },
    { "the model has positions for at most 10 patches, but an input of 16 x 16 pixels makes",
      { 3, 16, 16 },
      3,
      { 5 },
      1,
      0 },
    { "the input makes 2 x 2 patches, but the model has positions for 9 patches",
      { 3, 8, 8 },
      3,
      { 5 },
      1,
      0 },
    { "value 0 is NaN or infinite", { 3, 12, 12 }, 3, { 5 }, 1, HUGE_VALF },
    { "found zeros", { 3, 12, 12 }, 3, { 1 }, 1, 1e-42f * 0 },
    { "found the same value everywhere", { 3, 12, 12 }, 3, { 5 }, 1, 0 },
    { "models tried in", { 3, 12, 12 }, 3, { 5 }, 1, 0 },
};

static void check_refusals(void) {
    convert_options o = plain_options();
    char input[128], logits[128];
    shape s;
    report r;
    size_t i;
    state = 3;
    memset(&s, 0, sizeof s);
    s.dim = 16, s.depth = 1, s.mlp = 32, s.patch = 4, s.chans = 3, s.side = 12, s.classes = 5;
    s.has_cls = s.has_norm2 = true;
    write_checkpoint(&s);
    path_of(input, "x.npy");
    path_of(logits, "y.npy");
    o.match_input = input;
    o.match_logits = logits;
    o.match_seconds = 1;
    for (i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *t = &refusals[i];
        write_pair(t);
        if (strstr(t->message, "zeros")) {
            const float zeros[5] = { 0 };
            write_npy("y.npy", zeros, 1, 5, 1, 1, 1);
        }
        if (strstr(t->message, "same value")) {
            const float same[5] = { 2, 2, 2, 2, 2 };
            write_npy("y.npy", same, 1, 5, 1, 1, 1);
        }
        CHECK_MSG(!convert(&o, "", NULL, &r) && strstr(r.text, t->message),
                  "expected \"%s\", found \"%s\"", t->message, r.text);
    }
}

/* An input and an output that fit no settings because of an author's mistake. The message must give
 * the reason. */
typedef struct mistake {
    const char *message;
    /* The settings of the conversion. */
    const char *known;
    void (*make)(float *x, float *y, int n);
} mistake;

static void take_other_picture(float *x, float *y, int n) {
    int i;
    (void)y, (void)n;
    for (i = 0; i < 3 * 12 * 12; i++) x[i] = random_normal();
}

static void take_other_logits(float *x, float *y, int n) {
    int i;
    (void)x;
    for (i = 0; i < n; i++) y[i] = random_normal();
}

static void take_pixels(float *x, float *y, int n) {
    int i;
    take_other_logits(x, y, n);
    for (i = 0; i < 3 * 12 * 12; i++) x[i] = (float)random_below(256);
}

/* Changes the values by about the error of rounding to bfloat16. */
static void take_16_bits(float *x, float *y, int n) {
    int i;
    (void)x;
    for (i = 0; i < n; i++) y[i] *= i % 2 ? 1.004f : 0.996f;
}

static void take_dropout(float *x, float *y, int n) {
    int i;
    (void)x;
    for (i = 0; i < n; i++) y[i] *= i % 2 ? 1.1f : 0.9f;
}

#define ALL_BUT_ACTIVATION                                                                         \
    "num_heads=4 pool=token block_type=pre_norm attn_root=head_dim has_final_norm=1 "              \
    "attention=all qkv_order=qkv qkv_interleave=none positions=all norm_eps=1e-6 norm_type=layer"

static const mistake mistakes[] = {
    { "y.npy: the output is probably not of these weights and this input: ", ALL_BUT_ACTIVATION,
      take_other_picture },
    { "y.npy: the output is probably not of these weights and this input: ", ALL_BUT_ACTIVATION,
      take_other_logits },
    { "y.npy: the input has values up to 255, so the program probably normalises it: ",
      ALL_BUT_ACTIVATION, take_pixels },
    { "y.npy: the original probably computes in 16 bits: save the output of model.float(), or "
      "accept the difference with --match-tolerance 0.00",
      ALL_BUT_ACTIVATION, take_16_bits },
    { "y.npy: the weights are probably right, but the model was in training mode or received ",
      ALL_BUT_ACTIVATION, take_dropout },
    { "y.npy: the output is probably not of these weights and this input: ", "num_heads=4",
      take_other_logits },
};

/* Checks the search on the output of such a mistake. Without --match-seconds, the search must give
 * up after fewer than 10,300 settings. */
static void check_mistake(const mistake *t) {
    static float x[3 * 12 * 12];
    convert_options o = plain_options();
    char input[128], logits[128];
    const char *tried;
    float *y;
    size_t n = 0, i;
    report r;
    for (i = 0; i < sizeof x / sizeof *x; i++) x[i] = random_normal();
    CHECK_MSG(convert(&o, "num_heads=4", NULL, &r), "%s", r.text);
    y = run_model(x, &n);
    CHECK(y);
    if (!y) return;
    t->make(x, y, (int)n);
    write_npy("x.npy", x, 3, 3, 12, 12, 1);
    write_npy("y.npy", y, 1, (int64_t)n, 1, 1, 1);
    free(y);
    path_of(input, "x.npy");
    path_of(logits, "y.npy");
    o.match_input = input;
    o.match_logits = logits;
    o.match_seconds = 0;
    CHECK_MSG(!convert(&o, t->known, NULL, &r) && strstr(r.text, t->message),
              "expected \"%s\", found \"%s\"", t->message, r.text);
    tried = strstr(r.text, "none of ");
    CHECK_MSG(tried && atoi(tried + 8) < 10300, "tries too many: %s", r.text);
}

static void check_mistakes(void) {
    shape s;
    size_t i;
    memset(&s, 0, sizeof s);
    s.dim = 16, s.depth = 1, s.mlp = 32, s.patch = 4, s.chans = 3, s.side = 12, s.classes = 10;
    s.has_cls = s.has_norm2 = true;
    for (i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        state = 2 * i + 41;
        write_checkpoint(&s);
        check_mistake(&mistakes[i]);
    }
}

/* === Labelled pictures === */

static void write_picture(const char *path, uint32_t seed) {
    FILE *file = fopen(path, "wb");
    const uint64_t before = state;
    int i, level, range;
    if (!file) return;
    state = seed * 2 + 1;
    level = random_below(160);
    range = 20 + random_below(76);
    fprintf(file, "P6\n18 16\n255\n");
    for (i = 0; i < 18 * 16 * 3; i++) fputc(level + random_below(range), file);
    fclose(file);
    state = before;
}

/* Returns the class that the converted model gives to a picture. */
static int class_of(const vit_model *model, runner *run, char *path) {
    photo_list one = { &path, 1, 0, 1 };
    vit_prediction top = { 0, 0 };
    report r = report_make();
    CHECK_MSG(photos_read(model, decoder, &one, 0, run->input, NULL, &r) && runner_forward(run, &r),
              "%s", r.text);
    vit_top_k(run->output, (int)run->output_size, 1, &top);
    return top.index;
}

enum { PICTURES = 120 };

static char picture_paths[PICTURES][160];

/* Sorts pictures into folders by the class that the model gives them. One of every `odd` pictures
 * goes into an arbitrary folder. 0 means none. */
static void sort_pictures(int odd) {
    char path[128], folder_path[128];
    vit_model model;
    runner run;
    report r = report_make();
    int i, class_index;
    path_of(path, "model.vit");
    if (vit_model_open(path, VIT_OPEN_COPY, &model)) return;
    CHECK(runner_open(&run, &model, NULL, NULL, &r));
    path_of(path, "pictures");
    mkdir(path, 0777);
    path_of(path, "picture.ppm");
    for (i = 0; i < PICTURES; i++) {
        write_picture(path, (uint32_t)i);
        class_index = odd && i % odd == 0 ? i / odd % 5 : class_of(&model, &run, path);
        snprintf(folder_path, sizeof folder_path, "%s/pictures/%d", folder, class_index);
        mkdir(folder_path, 0777);
        snprintf(picture_paths[i], sizeof picture_paths[i], "%s/%d.ppm", folder_path, i);
        CHECK(rename(path, picture_paths[i]) == 0);
    }
    runner_close(&run);
    vit_model_close(&model);
}

static void remove_pictures(void) {
    char path[128];
    int i;
    for (i = 0; i < PICTURES; i++) unlink(picture_paths[i]);
    for (i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/pictures/%d", folder, i);
        rmdir(path);
    }
    path_of(path, "pictures");
    CHECK(rmdir(path) == 0);
}

static void check_folder(void) {
    static const char known[] = "num_heads=4 activation=relu pool=token";
    static const char prepared[] = "num_heads=4 activation=relu pool=token crop_mode=squash "
                                   "crop_pct=1 mean=0 std=1";
    convert_options o = plain_options();
    char pictures[128], provenance[8192] = "";
    shape s;
    report r;
    state = 5;
    memset(&s, 0, sizeof s);
    s.dim = 32, s.depth = 2, s.mlp = 64, s.patch = 4, s.chans = 3, s.side = 12, s.classes = 5;
    s.has_cls = s.has_norm2 = true;
    write_checkpoint(&s);
    CHECK_MSG(convert(&o, prepared, NULL, &r), "%s", r.text);
    sort_pictures(0);
    path_of(pictures, "pictures");
    o.match_folder = pictures;
    CHECK_MSG(convert(&o, known, provenance, &r), "%s", r.text);
    CHECK_MSG(strstr(provenance, "matched: mean=0 std=1"), "%s", provenance);
    CHECK_MSG(!convert(&o, "num_heads=4 num_classes=0", NULL, &r) &&
                  strstr(r.text, "without a head"),
              "%s", r.text);
    o.match_folder = "none";
    CHECK(!convert(&o, known, NULL, &r) && strstr(r.text, "none: "));
    /* The pictures lie one level deeper, in a folder that is not a class. */
    o.match_folder = folder;
    CHECK_MSG(!convert(&o, known, NULL, &r) && strstr(r.text, "expected 5 folders with pictures"),
              "%s", r.text);
    path_of(pictures, "model.safetensors");
    o.match_folder = pictures;
    CHECK_MSG(!convert(&o, known, NULL, &r) &&
                  strstr(r.text, "expected a folder with a folder of pictures"),
              "%s", r.text);
    remove_pictures();
    path_of(pictures, "pictures");
    mkdir(pictures, 0777);
    CHECK_MSG(!convert(&o, known, NULL, &r) && strstr(r.text, "has no images in it"), "%s", r.text);
    CHECK(rmdir(pictures) == 0);
}

/* Tests a small number of pictures, some of them in a wrong folder. Wrong settings may then fit
 * better than the true settings, so the converter must keep its assumptions. */
static void check_few(uint64_t seed) {
    static const char *const kept[] = {
        ": activation=gelu", ": block_type=pre_norm", ": has_final_norm=1",
        ": pool=token",      ": attn_root=head_dim",
    };
    convert_options o = plain_options();
    char pictures[128], provenance[8192] = "";
    shape s;
    report r;
    size_t i;
    state = seed;
    memset(&s, 0, sizeof s);
    s.dim = 32, s.depth = 2, s.mlp = 64, s.patch = 4, s.chans = 3, s.side = 12, s.classes = 5;
    s.has_cls = s.has_norm2 = true;
    write_checkpoint(&s);
    CHECK_MSG(convert(&o, "num_heads=4", NULL, &r), "%s", r.text);
    sort_pictures(8);
    path_of(pictures, "pictures");
    o.match_folder = pictures;
    o.match_max = 60;
    CHECK_MSG(convert(&o, "num_heads=4", provenance, &r), "%s", r.text);
    for (i = 0; i < sizeof kept / sizeof kept[0]; i++)
        CHECK_MSG(strstr(provenance, kept[i]), "expected \"%s\", found %s", kept[i], provenance);
    remove_pictures();
}

/* === main === */

static void remove_folder(void) {
    static const char *const names[] = { "model.safetensors", "model.vit", "x.npy", "y.npy" };
    char path[128];
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        path_of(path, names[i]);
        unlink(path);
    }
    CHECK(rmdir(folder) == 0);
}

int main(int argc, char **argv) {
    const int models = argc > 2 ? atoi(argv[2]) : 60, first = argc > 4 ? atoi(argv[4]) : 0;
    const photo_options confined = { 0 };
    report r = report_make();
    int i;
    if (argc > 3) changes = atoi(argv[3]);
    decoder = photo_decoder_open(&confined, "test", 1, &r);
    CHECK_MSG(decoder, "%s", r.text);
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vitXXXXXX" : "/tmp/vitXXXXXX");
    if (!mkdtemp(folder)) {
        CHECK_MSG(false, "no folder to write in");
        return test_summary();
    }
    for (i = first; i < first + models; i++) {
        state = (uint64_t)i * 2 + 1;
        check_model(i);
    }
    check_orders();
    check_endings();
    check_refusals();
    check_mistakes();
    check_folder();
    for (i = 0; i < 8; i++) check_few((uint64_t)i * 2 + 7);
    remove_folder();
    photo_decoder_close(decoder);
    return test_summary();
}
