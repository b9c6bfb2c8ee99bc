/* mobileclip.c - MobileCLIP-B under Apple's own names; timm's are in timm.c. */
#include "layout/tables/tables.h"

#define STEM "patch_embed.backbone."

static const char *const prefixes[] = {
    "module.", "image_encoder.", "model.", "visual.", "trunk.", NULL
};

static const char *const blocks[] = { "transformer.{i}.", NULL };

static const layout_rule rules[] = {
    LAYOUT_SAME("cls_token"),
    LAYOUT_VIEW("pos_embed", "pos_embed.pos_embed.pos_embed", "abnd>nd"),
    LAYOUT_CONV_BN(STEM "0.conv", "patch_emb.0.block.conv", "patch_emb.0.block.norm"),
    LAYOUT_CONV_BN(STEM "1.conv", "patch_emb.1.block.conv", "patch_emb.1.block.norm"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_emb.2.block.conv.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "patch_emb.2.block.conv.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}pre_norm_mha.0"),
    LAYOUT_FROM2("{b}attn.qkv", "{b}pre_norm_mha.1.qkv_proj"),
    LAYOUT_FROM2("{b}attn.proj", "{b}pre_norm_mha.1.out_proj"),
    LAYOUT_FROM2("{b}norm2", "{b}pre_norm_ffn.0"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}pre_norm_ffn.1"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}pre_norm_ffn.4"),
    LAYOUT_FROM2("norm", "post_transformer_norm"),
    LAYOUT_VIEW("head.weight", "classifier.proj", "io>oi"),
    LAYOUT_ZEROS("head.bias", "classifier.proj"),
    LAYOUT_FROM2("head", "classifier"),
    LAYOUT_END
};

static const layout_extra harmless[] = {
    { "patch_emb.*.num_batches_tracked", "of training" },
    { "../text_encoder.*", "of a text tower" },
    { "../logit_scale", "of contrastive training" },
    { NULL, NULL }
};

/* By its own code; timm's model of the same weights differs in eps and resizing. Without a
 * class token it takes the mean. */
static const layout_default defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", "!cls_token" },
    { "mean=0", NULL }, { "std=1", NULL }, { "crop_pct=1", NULL },
    { "interpolation=bilinear", NULL }, { NULL, NULL }
};

const layout layout_mobileclip = {
    .name = "MobileCLIP",
    .probe = "patch_emb.0.block.conv.weight",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .harmless = harmless,
    .defaults = defaults
};
