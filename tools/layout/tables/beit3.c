/* beit3.c - BEiT-3: branch A of each pair is the image's. */
#include "layout/tables/tables.h"

static const char *const prefixes[] = { "module.", "_orig_mod.", "model.", "beit3.", NULL };

static const char *const blocks[] = { "encoder.layers.{i}.", NULL };

/* Rows 0 and 1 of the positions are padding, which the embedding skips. */
static const layout_rule rules[] = {
    LAYOUT_FROM("cls_token", "vision_embed.cls_token"),
    LAYOUT_FROM("pos_embed", "encoder.embed_positions.A.weight@2:"),
    LAYOUT_VIEW("patch_embed.proj.weight", "vision_embed.proj.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "vision_embed.proj.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}self_attn_layer_norm.A"),
    LAYOUT_QKV("{b}self_attn.q_proj.A", "{b}self_attn.k_proj.A", "{b}self_attn.v_proj.A"),
    LAYOUT_FROM2("{b}attn.norm", "{b}self_attn.inner_attn_ln.A"),
    LAYOUT_FROM2("{b}attn.proj", "{b}self_attn.out_proj.A"),
    LAYOUT_FROM2("{b}norm2", "{b}final_layer_norm.A"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}ffn.A.fc1"),
    LAYOUT_FROM2("{b}mlp.norm", "{b}ffn.A.ffn_layernorm"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}ffn.A.fc2"),
    LAYOUT_MUST_WHEN2("norm", "encoder.layer_norm.A", "!../fc_norm.weight"),
    LAYOUT_FROM2("norm", "encoder.layer_norm.A"),
    LAYOUT_FROM2("fc_norm", "../fc_norm"),
    LAYOUT_FROM2("head", "../head"),
    LAYOUT_END
};

static const layout_extra harmless[] = {
    { "text_embed.weight", "of text" },
    { "vision_embed.mask_token", "of pre-training" },
    { "*.B.*", "the branch for text" },
    { "../mlm_head.*", "of pre-training" },
    { "../mim_head.*", "of pre-training" },
    { NULL, NULL }
};

static const layout_extra lacking[] = {
    { "encoder.relative_position.*", "relative positions" },
    { NULL, NULL }
};

static const layout_default defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", "../fc_norm.weight" },
    { "positions=all", NULL },
    { "mean=0.485,0.456,0.406", NULL }, { "std=0.229,0.224,0.225", NULL },
    { "crop_pct=1", NULL }, { NULL, NULL }
};

const layout layout_beit3 = {
    .name = "BEiT-3",
    .probe = "vision_embed.proj.weight",
    .when = { "encoder.embed_positions.A.weight" },
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .harmless = harmless,
    .lacking = lacking, .defaults = defaults
};
