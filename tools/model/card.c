#include "model/card.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "model/settings.h"

/* === Parts === */

bool parts_is_parameter(const char *tensor_name) {
    return strncmp(tensor_name, "preprocess.", 11) != 0 &&
           strncmp(tensor_name, "selftest.", 9) != 0;
}

void parts_add(part_list *list, const vit_tensor *tensor) {
    const int length = (int)strcspn(tensor->name, ".");
    char name[sizeof list->items[0].name];
    int i;
    snprintf(name, sizeof name, "%.*s", length, tensor->name);
    for (i = 0; i < list->count && strcmp(list->items[i].name, name) != 0;) i++;
    if (i == PARTS_MAX) return;
    if (i == list->count) strcpy(list->items[list->count++].name, name);
    list->items[i].parameters += tensor_count(tensor);
    list->total += tensor_count(tensor);
}

/* === A configuration in words === */

enum { PHRASE_SIZE = 80 };

/* Writes the phrase that describes a setting, if this phrase contains a number or depends on
 * several fields. Otherwise writes "". */
static const char *phrase_by_hand(setting_key key, const vit_config *c, char text[PHRASE_SIZE]) {
    const int blocks = c->stem_stage1 + c->stem_stage2 + c->stem_stage3 + c->stem_stage4;
    text[0] = '\0';
    if (key == SETTING_STEM && c->stem == VIT_STEM_RESNET)
        snprintf(text, PHRASE_SIZE, "ResNet stem of %d block%s", blocks, blocks == 1 ? "" : "s");
    if (key == SETTING_PATCH_STRIDE && c->patch_stride > 0)
        snprintf(text, PHRASE_SIZE, "patches %d pixel%s apart", c->patch_stride,
                 c->patch_stride == 1 ? "" : "s");
    if (key == SETTING_REG_TOKENS && c->num_reg_tokens > 0)
        snprintf(text, PHRASE_SIZE, "%d register token%s", c->num_reg_tokens,
                 c->num_reg_tokens == 1 ? "" : "s");
    if (key == SETTING_ROPE_TYPE && c->rope != VIT_ROPE_NONE)
        snprintf(text, PHRASE_SIZE, "rotary positions");
    if (key == SETTING_MLP_DIM && c->mlp_dim == 0) snprintf(text, PHRASE_SIZE, "no MLP");
    if (key == SETTING_REPRESENTATION_DIM && c->representation_dim > 0)
        snprintf(text, PHRASE_SIZE, "pre_logits %d", c->representation_dim);
    if (key == SETTING_MERGE_SIZE && c->merge_size > 0)
        snprintf(text, PHRASE_SIZE, "merger of %d x %d patches into a token of width %d",
                 c->merge_size, c->merge_size, c->merge_dim);
    return text;
}

/* Returns the phrase that describes a setting; "" if there is nothing to describe. */
static const char *phrase_of(setting_key key, const vit_config *c, char text[PHRASE_SIZE]) {
    const setting_row *row = &setting_rows[key];
    if (*phrase_by_hand(key, c, text)) return text;
    /* the phrase of has_fc_norm replaces this one */
    if (key == SETTING_FINAL_NORM && c->has_fc_norm) return "";
    if (key == SETTING_QKV_BIAS && c->attention == VIT_ATTENTION_SELF) return "";
    if (key == SETTING_POOL_PREFIX && c->pool == VIT_POOL_TOKEN) return "";
    if (row->field == SETTING_NO_FIELD) return "";
    if (row->words) return row->words[(int)setting_get_field(key, c)].phrase;
    return row->phrase && setting_get_field(key, c) != row->plain ? row->phrase : "";
}

const char *settings_describe(const vit_config *config, char *text, size_t size) {
    char buffer[PHRASE_SIZE];
    size_t used = 0;
    int key;
    text[0] = '\0';
    for (key = 0; key < SETTING_COUNT && used < size; key++) {
        const char *phrase = phrase_of((setting_key)key, config, buffer);
        if (*phrase)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", phrase);
    }
    return text;
}

void describe_put_fields(json_writer *w, const vit_config *c) {
#define PUT_int(name)                                json_put_integer(w, #name, (int64_t)c->name);
#define PUT_float(name)                              json_put_float(w, #name, c->name);
#define PUT(type, name, required, smallest, largest) PUT_##type(name)
    VIT_FIELD_LIST(PUT)
#undef PUT
#undef PUT_float
#undef PUT_int
}

/* === The card === */

const char *card_layout_name(vit_layout layout) {
    static const char *const names[VIT_NUM_LAYOUTS] = { "plain", "panels", "groups" };
    return names[layout];
}

void card_add_up(const vit_model *model, card_totals *sum) {
    vit_tensor tensor;
    memset(sum, 0, sizeof *sum);
    for (int i = 0; vit_model_tensor(model, i, &tensor); i++) {
        sum->num_tensors++;
        sum->bytes[tensor.dtype] += tensor.size;
        if (parts_is_parameter(tensor.name)) parts_add(&sum->parts, &tensor);
    }
}

int card_count_labels(const vit_model *model) {
    int count = 0;
    for (int i = 0; i < model->config.num_classes; i++) count += vit_label(model, i) != NULL;
    return count;
}

int card_count_synsets(const vit_model *model) {
    int count = 0;
    for (int i = 0; i < model->config.num_classes; i++) count += vit_synset(model, i) != NULL;
    return count;
}

/* Every line of the provenance has the form "key: value". This is the key of the lines that are
 * assumptions. */
static const char assumed_key[] = "assumed: ";

bool card_next_line(const char **at, const char **line, int *length, bool *is_assumed) {
    const size_t key = sizeof assumed_key - 1;
    if (!**at) return false;
    *line = *at;
    *length = (int)strcspn(*at, "\n");
    *at += *length;
    if (**at) ++*at;
    *is_assumed = !strncmp(*line, assumed_key, key);
    if (*is_assumed) {
        *line += key;
        *length -= (int)key;
    }
    return true;
}

static void put_pair(json_writer *w, const char *key, int first, int second) {
    json_put_begin(w, key, '[');
    json_put_integer(w, NULL, first);
    json_put_integer(w, NULL, second);
    json_put_end(w, ']');
}

/* Writes the fields of the configuration that the file stores, and the numbers that follow from
 * them. */
static void put_config(json_writer *w, const vit_config *c) {
    json_put_begin(w, "config", '{');
    describe_put_fields(w, c);
    json_put_integer(w, "num_patches", c->num_patches);
    json_put_integer(w, "num_tokens", c->num_tokens);
    json_put_end(w, '}');
}

static void put_preprocessing(json_writer *w, const vit_config *c) {
    char word[32];
    json_put_begin(w, "preprocessing", '{');
    put_pair(w, "resize", c->resize_height, c->resize_width);
    put_pair(w, "crop", c->img_height, c->img_width);
    json_put_text(w, "crop_mode", setting_text(SETTING_CROP_MODE, c->crop_mode, word));
    json_put_text(w, "interpolation", setting_text(SETTING_INTERPOLATION, c->interpolation, word));
    json_put_floats(w, "mean", c->mean, c->in_chans);
    json_put_floats(w, "std", c->std, c->in_chans);
    json_put_end(w, '}');
}

static void put_totals(json_writer *w, const vit_model *model, const card_totals *sum) {
    json_put_begin(w, "parameters", '{');
    json_put_integer(w, "total", (int64_t)sum->parts.total);
    json_put_begin(w, "parts", '{');
    for (int i = 0; i < sum->parts.count; i++) {
        json_put_integer(w, sum->parts.items[i].name, (int64_t)sum->parts.items[i].parameters);
    }
    json_put_end(w, '}');
    json_put_end(w, '}');
    json_put_begin(w, "bytes", '{');
    json_put_integer(w, "file", (int64_t)model->size);
    for (int i = 0; i < VIT_NUM_DTYPES; i++) {
        if (!sum->bytes[i]) continue;
        json_put_integer(w, tensor_dtype_name((vit_dtype)i), (int64_t)sum->bytes[i]);
    }
    json_put_integer(w, "session", (int64_t)vit_workspace_size(model, NULL));
    json_put_end(w, '}');
}

static void put_tensor(json_writer *w, const vit_tensor *t) {
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)t->checksum);
    json_put_begin(w, NULL, '{');
    json_put_text(w, "name", t->name);
    json_put_text(w, "dtype", tensor_dtype_name(t->dtype));
    json_put_text(w, "layout", card_layout_name(t->layout));
    json_put_begin(w, "shape", '[');
    for (int d = 0; d < t->ndim; d++) json_put_integer(w, NULL, t->dims[d]);
    json_put_end(w, ']');
    json_put_integer(w, "offset", (int64_t)t->offset);
    json_put_integer(w, "bytes", (int64_t)t->size);
    json_put_text(w, "checksum", checksum);
    json_put_end(w, '}');
}

static void put_tensors(json_writer *w, const vit_model *model) {
    vit_tensor t;
    json_put_begin(w, "tensors", '[');
    for (int i = 0; vit_model_tensor(model, i, &t); i++) put_tensor(w, &t);
    json_put_end(w, ']');
}

static void put_labels(json_writer *w, const vit_model *model) {
    json_put_begin(w, "labels", '[');
    for (int i = 0; i < model->config.num_classes; i++) {
        json_put_text(w, NULL, vit_label(model, i));
    }
    json_put_end(w, ']');
    json_put_begin(w, "synsets", '[');
    for (int i = 0; i < model->config.num_classes; i++) {
        json_put_text(w, NULL, vit_synset(model, i));
    }
    json_put_end(w, ']');
}

static void put_assumed(json_writer *w, const char *at) {
    char text[1024];
    const char *line;
    int length;
    bool is_assumed;
    json_put_begin(w, "assumed", '[');
    while (card_next_line(&at, &line, &length, &is_assumed)) {
        if (!is_assumed) continue;
        snprintf(text, sizeof text, "%.*s", length, line);
        json_put_text(w, NULL, text);
    }
    json_put_end(w, ']');
}

bool card_is_of_head(const char *name) {
    return !strncmp(name, "head.", 5) || !strncmp(name, "head_dist.", 10) ||
           !strncmp(name, "selftest.", 9);
}

static void hash_text(vit_hash *hash, const char *text) {
    vit_hash_update(hash, text, strlen(text) + 1);
}

static void hash_number(vit_hash *hash, uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(value >> 8 * i);
    vit_hash_update(hash, bytes, sizeof bytes);
}

static uint32_t bits_of_int(int value) { return (uint32_t)value; }

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void hash_option(vit_hash *hash, const char *name, uint32_t bits) {
    static const char *const of_head[] = { "num_classes", "head_activation", "selftest_seed",
                                           "selftest_tolerance" };
    for (size_t i = 0; i < sizeof of_head / sizeof of_head[0]; i++)
        if (!strcmp(name, of_head[i])) return;
    /* 0 is skipped: an option that vit.h gains later must not change the hashes of older files */
    if (!bits) return;
    hash_text(hash, name);
    hash_number(hash, bits);
}

uint64_t card_backbone(const vit_model *model) {
    const vit_config *config = &model->config;
    vit_hash hash;
    vit_tensor t;
    vit_hash_init(&hash);
#define X(type, name, required, smallest, largest)                                                 \
    hash_option(&hash, #name, bits_of_##type(config->name));
    VIT_FIELD_LIST(X)
#undef X
    for (int i = 0; vit_model_tensor(model, i, &t); i++) {
        if (card_is_of_head(t.name)) continue;
        hash_text(&hash, t.name);
        hash_number(&hash, (uint64_t)t.dtype);
        hash_number(&hash, t.checksum);
    }
    return vit_hash_final(&hash);
}

void card_put(json_writer *w, const vit_model *model, const card_totals *sum, unsigned lists) {
    char options[512], backbone[17];
    snprintf(backbone, sizeof backbone, "%016llx", (unsigned long long)card_backbone(model));
    put_config(w, &model->config);
    json_put_text(w, "options", settings_describe(&model->config, options, sizeof options));
    json_put_text(w, "backbone", backbone);
    put_preprocessing(w, &model->config);
    put_totals(w, model, sum);
    json_put_text(w, "isa", vit_isa_name(vit_detect_isa()));
    json_put_integer(w, "num_tensors", sum->num_tensors);
    json_put_integer(w, "num_labels", card_count_labels(model));
    json_put_integer(w, "num_synsets", card_count_synsets(model));
    if (lists & CARD_LABELS) put_labels(w, model);
    if (lists & CARD_TENSORS) put_tensors(w, model);
    put_assumed(w, vit_source(model));
    json_put_text(w, "source", vit_source(model));
}
