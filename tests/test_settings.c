/* test_settings.c - checks every row of tools/model/setting_list.h. Each setting can be set,
 * reaches its field of vit_config, agrees with the tensors of vit.h, and has a description.
 */
#include <stddef.h>
#include <string.h>

#include "base/report.h"
#include "model/card.h"
#include "model/resolve.h"
#include "model/settings.h"
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

static const patch_request as_stored = { 0, 0 };

/* Sets the facts that the tensors of a plain ViT show: two blocks, and a grid of 14 x 14. */
static void plain_model(settings all[FROM_COUNT], settings_seen *seen) {
    settings *tensors = &all[FROM_TENSORS];
    int from;
    for (from = 0; from < FROM_COUNT; from++) settings_start(&all[from], "here");
    memset(seen, 0, sizeof *seen);
    seen->position_rows = 197;
    seen->qkv_rows = 576;
    settings_put(tensors, SETTING_IN_CHANS, 3);
    settings_put(tensors, SETTING_PATCH_SIZE, 16);
    settings_put(tensors, SETTING_EMBED_DIM, 192);
    settings_put(tensors, SETTING_DEPTH, 2);
    settings_put(tensors, SETTING_NUM_CLASSES, 10);
    settings_put(tensors, SETTING_NORM_TYPE, VIT_LAYER_NORM);
}

static vit_config plain_config(void) {
    settings all[FROM_COUNT];
    settings_seen seen;
    settings_resolved model;
    report r = report_make();
    plain_model(all, &seen);
    CHECK_MSG(settings_resolve_all(all, &seen, &as_stored, &model, &r), "%s", r.text);
    return model.config;
}

/* === Rows === */

static bool find_row(const char *name, setting_key *key) {
    int i;
    for (i = 0; i < SETTING_COUNT; i++) {
        *key = (setting_key)i;
        if (!strcmp(setting_rows[i].name, name)) return true;
    }
    return false;
}

/* Checks one field of vit_config. Each field that a file stores must be a setting, or must follow
 * from another setting. */
static void check_field(const char *name, size_t offset) {
    setting_key key;
    /* These fields follow from rope_type. */
    if (!strcmp(name, "rope") || !strcmp(name, "rope_per_block")) return;
    if (!find_row(name, &key)) {
        CHECK_MSG(false, "vit_config has %s, setting_list.h has no row for it", name);
        return;
    }
    CHECK_MSG(setting_rows[key].field != SETTING_NO_FIELD, "%s: vit_config has this field", name);
    CHECK_MSG(setting_rows[key].offset == offset, "%s: another field", name);
}

static void test_fields(void) {
#define X(type, name, required, smallest, largest) check_field(#name, offsetof(vit_config, name));
    VIT_FIELD_LIST(X)
#undef X
}

static void check_given(setting_key key, const char *text, double value) {
    settings s;
    report r = report_make();
    char assignment[96], back[32];
    settings_start(&s, "--set");
    snprintf(assignment, sizeof assignment, "%s=%s", setting_rows[key].name, text);
    CHECK_MSG(settings_parse(&s, assignment, &r) && s.given[key] && s.value[key] == value, "%s: %s",
              assignment, r.text);
    CHECK_MSG(!strcmp(setting_text(key, value, back), text), "%s: back as %s", assignment, back);
}

/* Checks that the tools accept vit.h's name for each activation. */
static void test_activation_names(void) {
#define X(enumerator, value, text)                                                                 \
    CHECK_MSG(setting_find_word(SETTING_ACTIVATION, text) == value, "%s: vit.h's name", text);
    VIT_ACTIVATION_LIST(X)
#undef X
}

static void test_given(void) {
    int key, place;
    for (key = 0; key < SETTING_COUNT; key++) {
        const setting_row *row = &setting_rows[key];
        CHECK_MSG(*row->help != '\0', "%s: --help says nothing", row->name);
        if (row->kind != SETTING_WORD) check_given((setting_key)key, "1", 1);
        for (place = 0; row->words && row->words[place].word; place++) {
            check_given((setting_key)key, row->words[place].word, place);
            CHECK_MSG(strstr(row->choices, row->words[place].word) != NULL, "%s: not listed",
                      row->words[place].word);
        }
    }
}

/* === Tensors === */

static bool has_tensor(const vit_config *config, const char *name) {
    vit_tensor tensor;
    int i;
    for (i = 0; vit_architecture_tensor(config, VIT_F32, i, &tensor); i++)
        if (!strcmp(tensor.name, name)) return true;
    return false;
}

static void test_shown(void) {
    int key, value;
    for (key = 0; key < SETTING_COUNT; key++) {
        const setting_row *row = &setting_rows[key];
        vit_config config = plain_config();
        if (!row->shown_by) continue;
        for (value = 0; value <= 1; value++) {
            setting_put_field((setting_key)key, value, &config);
            CHECK_MSG(has_tensor(&config, row->shown_by) == (value == 1), "%s=%d: %s", row->name,
                      value, row->shown_by);
        }
    }
}

/* === Words === */

static bool is_preprocessing(int key) {
    return key == SETTING_CROP_MODE || key == SETTING_CROP_ROUNDING ||
           key == SETTING_INTERPOLATION || key == SETTING_POS_RESAMPLE;
}

/* Checks that a model with this value is described in other words than a plain ViT, which has
 * another value. */
static void check_described(setting_key key, double value, const vit_config *plain) {
    char before[512], after[512];
    vit_config config = *plain;
    setting_put_field(key, value, &config);
    settings_describe(plain, before, sizeof before);
    settings_describe(&config, after, sizeof after);
    CHECK_MSG(strcmp(before, after) != 0, "vit-info does not say %s=%g", setting_rows[key].name,
              value);
}

static void test_described(void) {
    const vit_config usual = plain_config();
    char text[512];
    int key, place;
    settings_describe(&usual, text, sizeof text);
    CHECK_MSG(*text == '\0', "a plain ViT: %s", text);
    for (key = 0; key < SETTING_COUNT; key++) {
        const setting_row *row = &setting_rows[key];
        vit_config plain = plain_config();
        if (row->field == SETTING_NO_FIELD || is_preprocessing(key)) continue;
        /* The description has pool_prefix only for a pooling of several tokens. */
        if (key == SETTING_POOL_PREFIX) plain.pool = VIT_POOL_AVG;
        if (row->kind == SETTING_FLAG) check_described((setting_key)key, row->plain == 0, &plain);
        for (place = 0; row->words && row->words[place].word; place++)
            if (place != (int)row->plain) check_described((setting_key)key, place, &plain);
    }
}

/* === From --set to vit_config === */

/* Returns the other settings that must be given together with this setting. */
static const char *company_of(setting_key key) {
    switch (key) {
    case SETTING_STEM: return "stem_width=32 stem_stage1=1";
    case SETTING_STEM_WIDTH: return "stem=conv";
    case SETTING_STEM_STAGE1: return "stem=resnet stem_width=32";
    case SETTING_STEM_STAGE2: return "stem=resnet stem_width=32 stem_stage1=1";
    case SETTING_STEM_STAGE3: return "stem=resnet stem_width=32 stem_stage1=1 stem_stage2=1";
    case SETTING_STEM_STAGE4:
        return "stem=resnet stem_width=32 stem_stage1=1 stem_stage2=1 stem_stage3=1 patch_size=32";
    case SETTING_EMBED_DIM: return "num_heads=3";
    case SETTING_CLS_TOKEN: return "pool=avg";
    case SETTING_REPRESENTATION_ACTIVATION: return "representation_dim=8";
    case SETTING_POOL_NUM_HEADS:
    case SETTING_POOL_MLP_DIM: return "pool=map";
    case SETTING_MERGE_SIZE:
    case SETTING_MERGE_DIM:
    case SETTING_MERGE_MLP_DIM:
    case SETTING_MERGE_NORM:
    case SETTING_MERGE_ACT: return "merge_size=2 merge_dim=4 merge_mlp_dim=4";
    case SETTING_VOCAB_SIZE:
    case SETTING_LOGIT_SCALE:
        return "vocab_size=2 patch_size=1 in_chans=1 img_size=1x196 "
               "has_patch_bias=0 has_cls_token=0 pool=last";
    default: return "";
    }
}

static double other_value(const setting_row *row) {
    if (row->kind == SETTING_FLAG || row->kind == SETTING_WORD) return row->plain == 0;
    return row->kind == SETTING_NUMBER ? 0.5 : 2;
}

static void put_words(settings *s, const char *words) {
    char word[32];
    report r = report_make();
    for (; *words; words += strcspn(words, " "), words += *words == ' ') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
        CHECK_MSG(settings_parse(s, word, &r), "%s", r.text);
    }
}

/* Checks that a setting is copied to the model. In this model only patches have positions, so that
 * other tokens can be added and removed. */
static void check_copied(setting_key key) {
    const double value = other_value(&setting_rows[key]);
    settings all[FROM_COUNT];
    settings_seen seen;
    settings_resolved model;
    report r = report_make();
    plain_model(all, &seen);
    seen.position_rows = 196;
    put_words(&all[FROM_CONFIG], "norm_eps=1e-5 activation=gelu positions=patches img_size=224");
    put_words(&all[FROM_OPTIONS], company_of(key));
    if (key == SETTING_PATCH_SIZE || key == SETTING_PATCH_STRIDE || key == SETTING_STEM_STAGE4)
        seen.position_rows = 0;
    if (seen.position_rows == 0) put_words(&all[FROM_OPTIONS], "positions=none");
    settings_put(&all[FROM_OPTIONS], key, value);
    CHECK_MSG(settings_resolve_all(all, &seen, &as_stored, &model, &r), "%s=%g: %s",
              setting_rows[key].name, value, r.text);
    CHECK_MSG(setting_get_field(key, &model.config) == value, "%s: %g", setting_rows[key].name,
              setting_get_field(key, &model.config));
}

static void test_copied(void) {
    int key;
    for (key = 0; key < SETTING_COUNT; key++)
        if (setting_rows[key].field == SETTING_COPIED) check_copied((setting_key)key);
}

int main(void) {
    test_fields();
    test_given();
    test_activation_names();
    test_shown();
    test_described();
    test_copied();
    return test_summary();
}
