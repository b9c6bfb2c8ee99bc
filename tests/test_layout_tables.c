/* test_layout_tables.c - checks the tables of the layouts. Every rule of every layout must be well
 * formed and make a tensor of vit.h. Every layout must have a checkpoint in tests/data/layouts.
 *
 *     test_layout_tables tests/data
 *
 * The messages list steps that an author of a new layout, rule or method easily forgets.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "layout/detect.h"
#include "layout/layout.h"
#include "layout/rules.h"
#include "layout/views.h"
#include "model/settings.h"
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

static const char *const table_names[] = {
#define X(name) #name,
    LAYOUT_LIST(X)
#undef X
        NULL
};

static const struct {
    const char *name;
    int least, most;
} methods[] = {
#define X(name, least, most) { #name, least, most },
    LAYOUT_METHODS(X)
#undef X
};

/* === Tensors === */

/* Sets the options of a model that has every tensor. This is possible because few options exclude
 * others. */
static void put_everything(vit_config *c) {
    memset(c, 0, sizeof *c);
    c->in_chans = 3;
    c->patch_size = 16;
    c->embed_dim = c->head_dim = c->mlp_dim = 8;
    c->depth = c->num_heads = 1;
    c->num_classes = c->representation_dim = 2;
    c->merge_size = c->merge_dim = c->merge_mlp_dim = c->merge_norm = 1;
    c->has_cls_token = c->has_dist_token = c->num_reg_tokens = 1;
    c->has_patch_bias = c->has_patch_pre_norm = c->has_patch_norm = c->has_pre_norm = 1;
    c->has_qkv_bias = c->has_qk_norm = c->has_rel_pos = c->has_diff_attn = c->has_attn_norm = 1;
    c->has_proj_bias = c->has_layer_scale = c->has_mlp_norm = c->has_final_norm = 1;
    c->has_fc_norm = c->dynamic_img_size = 1;
    c->rope = VIT_ROPE_PAIRS;
    c->pool = VIT_POOL_MAP;
    c->stem_width = 8;
    c->stem_stage1 = 1;
    c->selftest_tolerance = 1;
}

static bool has_tensor(const vit_config *config, const char *rule_tensor) {
    vit_tensor tensor;
    int i, block;
    for (i = 0; vit_architecture_tensor(config, VIT_F32, i, &tensor); i++)
        if (layout_names(rule_tensor, tensor.name, &block)) return true;
    return false;
}

static bool is_tensor(const char *rule_tensor) {
    static const vit_stem stems[] = { VIT_STEM_NONE, VIT_STEM_RESNET, VIT_STEM_CONV };
    vit_config config;
    size_t i;
    put_everything(&config);
    for (i = 0; i < 2 * sizeof stems / sizeof *stems; i++) {
        config.stem = (int)stems[i / 2];
        config.rope_per_block = i % 2;
        if (has_tensor(&config, rule_tensor)) return true;
    }
    return false;
}

/* === Rules === */

/* Skips a bound of a slice, such as "-3d" or "1". Returns the rest, or NULL without a bound. */
static const char *after_bound(const char *text) {
    const char *digits = text + (*text == '-');
    const char *end = digits + strspn(digits, "0123456789");
    return end == digits ? NULL : end + (*end == 'd');
}

/* Returns true if the text is empty, or is a slice such as "#0/3", "@0", "@1:", "@:1d" or "@,1d:"
 * (see layout.h). */
static bool is_slice(const char *text) {
    const bool before = *text && text[1 + (text[1] == ',')] == ':';
    const char *end;
    char *slash;
    long piece, pieces;
    if (!*text) return true;
    if (*text == '#') {
        piece = strtol(text + 1, &slash, 10);
        if (*slash != '/') return false;
        pieces = strtol(slash + 1, &slash, 10);
        return !*slash && piece >= 0 && piece < pieces;
    }
    end = after_bound(text + 1 + strspn(text + 1, ",") + before);
    return *text == '@' && end && (!*end || (*end == ':' && !end[1] && !before));
}

/* Returns true if the text describes axes, such as "io>oi". The left side must contain each letter
 * once, and every letter of the right side. The sizes of letters in brackets must be known. */
static bool are_axes(const char *axes) {
    const char *order = strchr(axes, '>'), *at;
    const bool is_open = strstr(axes, "(patch)") != NULL;
    bool merged = false;
    if (!order || order == axes || !order[1] || strlen(order + 1) > 4) return false;
    if (is_open) return !strcmp(axes, "d(patch)>dcpq") || !strcmp(axes, "(patch)d>dcpq");
    for (at = axes; at < order; at++) {
        if (*at == '(' || *at == ')') {
            if (merged == (*at == '(')) return false;
            merged = *at == '(';
        } else if (memchr(axes, *at, (size_t)(at - axes)) || *at < 'a' || *at > 'z' ||
                   (merged && !strchr("pqchkz", *at))) {
            return false;
        }
    }
    for (at = order + 1; *at; at++)
        if (!memchr(axes, *at, (size_t)(order - axes))) return false;
    return !merged;
}

static bool is_key(const char *key) {
    while (!strncmp(key, "../", 3)) key += 3;
    return *key && *key != '!' && *key != ':' && !strchr(key, ' ');
}

/* Returns true if the text is a valid condition. ":tensor" is valid only in defaults and questions,
 * because all other conditions are evaluated too early. */
static bool is_condition(const char *condition, bool may_name_tensor) {
    if (!condition) return true;
    if (*condition == ':') return may_name_tensor && is_tensor(condition + 1);
    return is_key(condition + (*condition == '!'));
}

static void check_parts(const char *name, const layout_rule *rule) {
    const int count = layout_part_count(rule);
    int i;
    CHECK_MSG(count >= methods[rule->method].least && count <= methods[rule->method].most,
              "%s, %s: %d parts, method %s takes %d to %d", name, rule->tensor, count,
              methods[rule->method].name, methods[rule->method].least, methods[rule->method].most);
    for (i = 0; i < LAYOUT_MAX_PARTS; i++) {
        const char *part = rule->parts[i];
        CHECK_MSG(i < count || !part, "%s, %s: a part after NULL", name, rule->tensor);
        if (!part) continue;
        CHECK_MSG(!layout_is_zeros(part) || (i > 0 && i < count - 1),
                  "%s, %s: zeros are the first or the last part", name, rule->tensor);
        CHECK_MSG(is_key(part) && is_slice(part + strcspn(part, "#@")), "%s, %s: part %s", name,
                  rule->tensor, part);
    }
}

static void check_rule(const char *name, const layout_rule *rule) {
    int i;
    CHECK_MSG(is_tensor(rule->tensor), "%s: vit.h has no tensor %s", name, rule->tensor);
    CHECK_MSG(!rule->axes || are_axes(rule->axes), "%s, %s: axes %s", name, rule->tensor,
              rule->axes);
    CHECK_MSG(rule->axes || strcmp(rule->tensor, "patch_embed.proj.weight"),
              "%s, %s: patches must have axes", name, rule->tensor);
    check_parts(name, rule);
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++) {
        const char *condition = rule->when[i];
        const bool is_required = condition && !strcmp(condition, LAYOUT_REQUIRED);
        CHECK_MSG(is_required ? i == 0 : is_condition(condition, false), "%s, %s: condition %s",
                  name, rule->tensor, condition);
    }
}

/* === The other parts of a layout === */

static void check_extras(const char *name, const layout_extra *extra) {
    for (; extra && extra->pattern; extra++)
        CHECK_MSG(is_key(extra->pattern) && extra->meaning, "%s: %s", name, extra->pattern);
}

static void check_defaults(const char *name, const layout *l) {
    const layout_default *d = l->defaults;
    settings told;
    settings_start(&told, name);
    for (; d && d->assignment; d++) {
        report r = report_make();
        CHECK_MSG(settings_parse(&told, d->assignment, &r), "%s: %s", name, r.text);
        CHECK_MSG(is_condition(d->when, true), "%s, %s: condition %s", name, d->assignment,
                  d->when);
    }
}

static void check_questions(const char *name, const layout *l) {
    const layout_question *q = l->questions;
    for (; q && q->options; q++) {
        const char *setting = q->setting < SETTING_COUNT ? setting_rows[q->setting].name : "none";
        CHECK_MSG(strstr(q->options, setting) && strstr(q->options, "--set "), "%s: \"%s\" for %s",
                  name, q->options, setting);
        CHECK_MSG(is_condition(q->when, true), "%s, %s: condition %s", name, setting, q->when);
    }
}

static void check_layout(const char *name, const layout *l) {
    const layout_rule *rule;
    int i;
    CHECK_MSG(l->name && l->probe && is_key(l->probe), "%s: no name or no probe", name);
    CHECK_MSG(l->prefixes && l->blocks && l->blocks[0] && l->rules,
              "%s: no prefixes, blocks or rules", name);
    for (i = 0; i < LAYOUT_MAX_CONDITIONS; i++)
        CHECK_MSG(is_condition(l->when[i], false), "%s: condition %s", name, l->when[i]);
    for (i = 0; l->prefixes[i]; i++)
        CHECK_MSG(strchr("./", l->prefixes[i][strlen(l->prefixes[i]) - 1]), "%s: prefix %s", name,
                  l->prefixes[i]);
    for (rule = l->rules; rule->tensor; rule++) check_rule(name, rule);
    check_extras(name, l->harmless);
    check_extras(name, l->lacking);
    check_defaults(name, l);
    check_questions(name, l);
}

/* === Checkpoints === */

enum { MAX_LAYOUTS = 64, MAX_CASES = 256 };

static bool has_checkpoint[MAX_LAYOUTS];
static char case_names[MAX_CASES][64];
static int case_count;

/* Records the layout of a file. If the file must be refused, opening it may already fail. */
static void note_layout(const char *path, bool is_refused) {
    report r = report_make();
    checkpoint *c;
    layout_map map;
    size_t i;
    CHECK_MSG(checkpoint_open(path, &c, &r) || is_refused, "%s", r.text);
    /* Files that require --rename have no layout here. */
    if (c && layout_detect(c, &map, &r)) {
        for (i = 0; layout_all[i]; i++)
            if (layout_all[i] == map.layout) has_checkpoint[i] = true;
        layout_free_map(&map);
    }
    checkpoint_close(c);
}

/* Reads the lines of cases.txt, such as "hf_vit | model.safetensors | ...". */
static void read_cases(const char *data) {
    char path[512], line[1024], file_name[64];
    FILE *file;
    snprintf(path, sizeof path, "%.300s/layouts/cases.txt", data);
    file = fopen(path, "r");
    CHECK_MSG(file, "%s", path);
    while (file && fgets(line, sizeof line, file) && case_count < MAX_CASES) {
        if (sscanf(line, "%63s | %63s |", case_names[case_count], file_name) != 2) continue;
        snprintf(path, sizeof path, "%.300s/layouts/%s/%s", data, case_names[case_count],
                 file_name);
        note_layout(path, strstr(line, " | | ") != NULL);
        case_count++;
    }
    if (file) fclose(file);
}

static bool is_case(const char *name) {
    int i;
    for (i = 0; i < case_count; i++)
        if (!strcmp(case_names[i], name)) return true;
    return false;
}

/* Checks that every folder of tests/data/layouts, except twins, has a line in cases.txt. */
static void check_folders(const char *data) {
    char path[512];
    const struct dirent *entry;
    DIR *folder;
    snprintf(path, sizeof path, "%.300s/layouts", data);
    folder = opendir(path);
    CHECK_MSG(folder, "%s", path);
    while (folder && (entry = readdir(folder)) != NULL)
        CHECK_MSG(entry->d_name[0] == '.' || !strcmp(entry->d_name, "cases.txt") ||
                      !strcmp(entry->d_name, "twins") || is_case(entry->d_name),
                  "tests/data/layouts/%s is not in cases.txt", entry->d_name);
    if (folder) closedir(folder);
}

int main(int argc, char **argv) {
    const char *data = argc > 1 ? argv[1] : "tests/data";
    size_t i;
    read_cases(data);
    check_folders(data);
    for (i = 0; layout_all[i]; i++) {
        check_layout(table_names[i], layout_all[i]);
        CHECK_MSG(has_checkpoint[i], "layout_%s: no checkpoint of tests/make_layouts.py has it",
                  table_names[i]);
    }
    /* inspect.c relies on consecutive numbers. */
    CHECK(SETTING_STEM_STAGE4 == SETTING_STEM_STAGE1 + LAYOUT_STAGES - 1);
    CHECK(i < MAX_LAYOUTS && case_count > 0 && case_count < MAX_CASES);
    return test_summary();
}
