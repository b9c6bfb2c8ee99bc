/* torchvision.c - torchvision.models.vision_transformer. */
#include "layout/tables/tables.h"

static const char *const blocks[] = { "encoder.layers.encoder_layer_{i}.", NULL };

static const layout_rule rules[] = {
    LAYOUT_FROM("cls_token", "class_token"),
    LAYOUT_MUST("pos_embed", "encoder.pos_embedding"),
    LAYOUT_VIEW("patch_embed.proj.weight", "conv_proj.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "conv_proj.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}ln_1"),
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}self_attention.in_proj_weight"),
    LAYOUT_FROM("{b}attn.qkv.bias", "{b}self_attention.in_proj_bias"),
    LAYOUT_FROM2("{b}attn.proj", "{b}self_attention.out_proj"),
    LAYOUT_FROM2("{b}norm2", "{b}ln_2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.0"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.linear_1"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.3"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.linear_2"),
    LAYOUT_MUST2("norm", "encoder.ln"),
    LAYOUT_FROM2("pre_logits.fc", "heads.pre_logits"),
    LAYOUT_FROM2("head", "heads.head"),
    LAYOUT_FROM2("head", "heads"),
    LAYOUT_END
};

static const layout_extra lacking[] = {
    { "conv_proj.*.*", "a convolutional stem" }, { NULL, NULL }
};

/* The transforms of its weights for 224 pixels; those of vit_l_16 resize to 242. */
static const layout_default defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu", NULL }, { "positions=all", NULL },
    { "crop_pct=0.875", NULL },
    { "interpolation=bilinear", NULL }, { "mean=0.485,0.456,0.406", NULL },
    { "std=0.229,0.224,0.225", NULL }, { "pos_resample=torchvision", NULL }, { NULL, NULL }
};

const layout layout_torchvision = {
    .name = "torchvision",
    .probe = "conv_proj.weight",
    .when = { "class_token" },
    .prefixes = layout_wrappers, .blocks = blocks, .rules = rules, .lacking = lacking,
    .defaults = defaults
};
