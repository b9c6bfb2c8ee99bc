#include "model/describe.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct phrase_list {
    char *text;
    size_t size, used;
} phrase_list;

static void add_phrase(phrase_list *list, bool holds, const char *phrase)
{
    if (!holds || list->used >= list->size) return;
    list->used += (size_t)snprintf(list->text + list->used, list->size - list->used, "%s%s",
                                   list->used ? ", " : "", phrase);
}

static void describe_stem(const vit_config *c, phrase_list *list)
{
    char registers[48], stages[64];
    const int blocks = c->stem_stage1 + c->stem_stage2 + c->stem_stage3 + c->stem_stage4;
    snprintf(registers, sizeof registers, "%d register token%s", c->num_reg_tokens,
             c->num_reg_tokens == 1 ? "" : "s");
    snprintf(stages, sizeof stages, "ResNet stem of %d block%s", blocks, blocks == 1 ? "" : "s");
    add_phrase(list, c->stem == VIT_STEM_RESNET, stages);
    add_phrase(list, c->stem == VIT_STEM_CONV, "convolutional stem");
    add_phrase(list, !c->has_cls_token, "no class token");
    add_phrase(list, c->has_dist_token, "distillation token");
    add_phrase(list, c->num_reg_tokens > 0, registers);
    add_phrase(list, c->positions == VIT_POS_PATCHES, "positions of the patches alone");
    add_phrase(list, c->positions == VIT_POS_NONE, "no positions");
    add_phrase(list, c->dynamic_img_size, "any input size");
    add_phrase(list, c->dynamic_img_pad, "input padded to whole patches");
    add_phrase(list, !c->has_patch_bias, "no patch bias");
    add_phrase(list, c->has_patch_pre_norm, "norm of the raw patches");
    add_phrase(list, c->has_patch_norm, "patch norm");
    add_phrase(list, c->has_pre_norm, "norm before the blocks");
}

static void describe_blocks(const vit_config *c, phrase_list *list)
{
    static const char *const activations[] = { "GELU", "tanh GELU", "quick GELU", "SiLU", "ReLU" };
    add_phrase(list, c->norm_type == VIT_RMS_NORM, "RMS norms");
    add_phrase(list, c->block_type == VIT_POST_NORM, "post-norm blocks");
    add_phrase(list, c->block_type == VIT_RES_POST_NORM, "res-post-norm blocks");
    add_phrase(list, c->block_type == VIT_PARALLEL, "parallel blocks");
    add_phrase(list, !c->has_qkv_bias, "no qkv bias");
    add_phrase(list, c->has_qk_norm, "norm of q and k");
    add_phrase(list, c->rope != VIT_ROPE_NONE, "rotary positions");
    add_phrase(list, c->has_rel_pos, "relative positions");
    add_phrase(list, c->has_diff_attn, "differential attention");
    add_phrase(list, c->has_attn_norm, "norm before attn.proj");
    add_phrase(list, !c->has_proj_bias, "no bias of attn.proj and mlp");
    add_phrase(list, c->has_layer_scale, "LayerScale");
    add_phrase(list, c->activation != VIT_GELU, activations[c->activation]);
    add_phrase(list, c->has_gated_mlp, "gated MLP");
    add_phrase(list, c->has_mlp_norm, "norm before mlp.fc2");
}

static void describe_tail(const vit_config *c, phrase_list *list)
{
    static const char *const pools[] = {
        "", "mean of the patches", "maximum of the patches", "mean and maximum of the patches",
        "attention pooling", "class token beside the mean of the patches"
    };
    char width[48];
    snprintf(width, sizeof width, "pre_logits %d", c->representation_dim);
    add_phrase(list, !c->has_final_norm && !c->has_fc_norm, "no final norm");
    add_phrase(list, c->pool != VIT_POOL_TOKEN, pools[c->pool]);
    add_phrase(list, c->pool_prefix, "prefix tokens pooled too");
    add_phrase(list, c->has_fc_norm, "norm after pooling");
    add_phrase(list, c->representation_dim > 0, width);
}

const char *settings_describe(const vit_config *config, char *text, size_t size)
{
    phrase_list list;
    list.text = text;
    list.size = size;
    list.used = 0;
    text[0] = '\0';
    describe_stem(config, &list);
    describe_blocks(config, &list);
    describe_tail(config, &list);
    return text;
}
