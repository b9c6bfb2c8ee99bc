/* aimv2.c - AIMv2 under Apple's own names; those of transformers are in transformers.c. */
#include "layout/tables/tables.h"

static const char *const prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "visual.", NULL
};

static const char *const blocks[] = { "trunk.blocks.{i}.", NULL };

static const layout_rule rules[] = {
    LAYOUT_FROM("cls_token", "preprocessor.cls_token"),
    LAYOUT_MUST("pos_embed", "preprocessor.pos_embed"),
    LAYOUT_VIEW("patch_embed.proj.weight", "preprocessor.patchifier.proj.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "preprocessor.patchifier.proj.bias"),
    LAYOUT_MUST("patch_embed.norm.weight", "preprocessor.patchifier.norm.weight"),
    LAYOUT_FROM("patch_embed.norm.bias", "preprocessor.patchifier.norm.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}norm_1"),
    LAYOUT_SAME2("{b}attn.qkv"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_FROM2("{b}norm2", "{b}norm_2"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.fc1.weight", "{b}mlp.fc3.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.fc1.bias", "{b}mlp.fc3.bias"),
    LAYOUT_SAME2("{b}mlp.fc2"),
    LAYOUT_MUST("norm.weight", "trunk.post_trunk_norm.weight"),
    LAYOUT_FROM("norm.bias", "trunk.post_trunk_norm.bias"),
    LAYOUT_FROM2("head", "head"),
    LAYOUT_END
};

static const layout_extra lacking[] = {
    { "head.cls_token", "AIMv2's attention pooling" },
    { "head.*.*", "AIMv2's attention pooling" },
    { "text_encoder.*", "text" },
    { NULL, NULL }
};

/* Its heads are 128 wide in models of every size. */
static const layout_default defaults[] = {
    { "norm_type=rms", NULL }, { "norm_eps=1e-5", NULL }, { "activation=silu", NULL },
    { "pool=avg", NULL }, { "head_dim=128", NULL },
    { "mean=0.48145466,0.4578275,0.40821073", NULL },
    { "std=0.26862954,0.26130258,0.27577711", NULL }, { "crop_pct=1", NULL }, { NULL, NULL }
};

const layout layout_aimv2 = {
    .name = "AIMv2",
    .probe = "preprocessor.patchifier.proj.weight",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .lacking = lacking,
    .defaults = defaults
};
