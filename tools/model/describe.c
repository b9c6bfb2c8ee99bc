#include "model/describe.h"

#include <stdbool.h>
#include <stdio.h>

#include "model/settings.h"

enum { PHRASE_SIZE = 64 };

/* A setting whose phrase has a number, or depends on more than its own field. */
static const char *phrase_by_hand(setting_key key, const vit_config *c, char text[PHRASE_SIZE])
{
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
    return text;
}

/* "" where there is nothing to say. */
static const char *phrase_of(setting_key key, const vit_config *c, char text[PHRASE_SIZE])
{
    const setting_row *row = &setting_rows[key];
    if (*phrase_by_hand(key, c, text)) return text;
    if (key == SETTING_FINAL_NORM && c->has_fc_norm) return "";   /* that one is the final norm */
    if (key == SETTING_QKV_BIAS && c->attention == VIT_ATTENTION_SELF) return "";
    if (key == SETTING_POOL_PREFIX && c->pool == VIT_POOL_TOKEN) return "";
    if (row->field == SETTING_NO_FIELD) return "";
    if (row->words) return row->words[(int)setting_get_field(key, c)].phrase;
    return row->phrase && setting_get_field(key, c) != row->plain ? row->phrase : "";
}

const char *settings_describe(const vit_config *config, char *text, size_t size)
{
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

void describe_put_fields(json_writer *w, const vit_config *c)
{
#define PUT_int(name) json_put_integer(w, #name, (int64_t)c->name);
#define PUT_float(name) json_put_float(w, #name, c->name);
#define PUT(type, name, required, smallest, largest) PUT_##type(name)
    VIT_FIELD_LIST(PUT)
#undef PUT
#undef PUT_float
#undef PUT_int
}
