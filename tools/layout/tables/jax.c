/* jax.c - Google's JAX code: vision_transformer (original, AugReg) and big_vision. */
#include "layout/tables/tables.h"

#define STEM "patch_embed.backbone."

static const char *const prefixes[] = { "opt/target/", "params/", "img/", NULL };

static const char *const blocks[] = {
    "Transformer/encoderblock_{i}/", "Transformer/encoderblock/", NULL
};

#define JAX_NORM(tensor, key)                                                                    \
    LAYOUT_FROM(tensor ".weight", key "/scale"), LAYOUT_FROM(tensor ".bias", key "/bias")
#define JAX_DENSE(tensor, key)                                                                   \
    LAYOUT_VIEW(tensor ".weight", key "/kernel", "io>oi"), LAYOUT_FROM(tensor ".bias", key "/bias")
/* Heads have an axis of their own, after the input or before the output. */
#define JAX_ATTENTION(key)                                                                       \
    LAYOUT_ROWS3("{b}attn.qkv.weight", "dhk>hkd", key "/query/kernel", key "/key/kernel",        \
                 key "/value/kernel"),                                                           \
    LAYOUT_ROWS3("{b}attn.qkv.bias", "hk>hk", key "/query/bias", key "/key/bias",                \
                 key "/value/bias"),                                                             \
    LAYOUT_VIEW("{b}attn.proj.weight", key "/out/kernel", "hkd>dhk"),                            \
    LAYOUT_MUST("{b}attn.proj.bias", key "/out/bias")

/* The stem of a hybrid. The norms of the original have the shape [1, 1, 1, C]. */
#define UNIT STEM "stages.{s}.blocks.{u}."
#define JAX_UNIT "block{S}/unit{U}/"
#define JAX_CONV(tensor, key)                                                                    \
    { tensor ".weight", LAYOUT_STANDARD, "yxio>oiyx", { key "/kernel", NULL, NULL }, LAYOUT_ALWAYS }
#define JAX_GROUP_NORM(tensor, key)                                                              \
    LAYOUT_VIEW(tensor ".weight", key "/scale", "yxio>o"),                                       \
    LAYOUT_VIEW(tensor ".bias", key "/bias", "yxio>o"), JAX_NORM(tensor, key)
#define MAP "MAPHead_0/MultiHeadDotProductAttention_0/"

static const layout_rule rules[] = {
    LAYOUT_FROM("cls_token", "cls"),
    LAYOUT_FROM("pos_embed", "Transformer/posembed_input/pos_embedding"),
    LAYOUT_FROM("pos_embed", "pos_embedding"),
    JAX_CONV(STEM "stem.conv", "conv_root"),
    JAX_GROUP_NORM(STEM "stem.norm", "gn_root"),
    JAX_CONV(UNIT "downsample.conv", JAX_UNIT "conv_proj"),
    JAX_GROUP_NORM(UNIT "downsample.norm", JAX_UNIT "gn_proj"),
    JAX_CONV(UNIT "conv1", JAX_UNIT "conv1"),
    JAX_GROUP_NORM(UNIT "norm1", JAX_UNIT "gn1"),
    JAX_CONV(UNIT "conv2", JAX_UNIT "conv2"),
    JAX_GROUP_NORM(UNIT "norm2", JAX_UNIT "gn2"),
    JAX_CONV(UNIT "conv3", JAX_UNIT "conv3"),
    JAX_GROUP_NORM(UNIT "norm3", JAX_UNIT "gn3"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embedding/kernel", "pqcd>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "embedding/bias"),
    JAX_NORM("{b}norm1", "{b}LayerNorm_0"),
    JAX_ATTENTION("{b}MultiHeadDotProductAttention_1"),
    JAX_ATTENTION("{b}MultiHeadDotProductAttention_0"),
    JAX_NORM("{b}norm2", "{b}LayerNorm_2"),
    JAX_NORM("{b}norm2", "{b}LayerNorm_1"),
    JAX_DENSE("{b}mlp.fc1", "{b}MlpBlock_3/Dense_0"),
    JAX_DENSE("{b}mlp.fc1", "{b}MlpBlock_0/Dense_0"),
    JAX_DENSE("{b}mlp.fc2", "{b}MlpBlock_3/Dense_1"),
    JAX_DENSE("{b}mlp.fc2", "{b}MlpBlock_0/Dense_1"),
    LAYOUT_MUST("norm.weight", "Transformer/encoder_norm/scale"),
    LAYOUT_MUST("norm.bias", "Transformer/encoder_norm/bias"),
    { "attn_pool.q", LAYOUT_LINEAR, "dhk>hkd",
      { "MAPHead_0/probe", MAP "query/kernel", MAP "query/bias" }, LAYOUT_ALWAYS },
    LAYOUT_ROWS2("attn_pool.kv.weight", "dhk>hkd", MAP "key/kernel", MAP "value/kernel"),
    LAYOUT_ROWS2("attn_pool.kv.bias", "hk>hk", MAP "key/bias", MAP "value/bias"),
    LAYOUT_VIEW("attn_pool.proj.weight", MAP "out/kernel", "hkd>dhk"),
    LAYOUT_FROM("attn_pool.proj.bias", MAP "out/bias"),
    JAX_NORM("attn_pool.norm", "MAPHead_0/LayerNorm_0"),
    JAX_DENSE("attn_pool.mlp.fc1", "MAPHead_0/MlpBlock_0/Dense_0"),
    JAX_DENSE("attn_pool.mlp.fc2", "MAPHead_0/MlpBlock_0/Dense_1"),
    JAX_DENSE("pre_logits.fc", "pre_logits"),
    JAX_DENSE("head", "head"),
    LAYOUT_END
};

static const layout_extra harmless[] = {
    { "../opt/[!t]*", "of the optimiser" },   /* not opt/target/ */
    { "../state/*", "of the optimiser" },
    { "../txt/*", "of a text tower" },
    { "../llm/*", "of a language model" },
    { "../t", "the temperature of contrastive training" },
    { "../b", "the bias of contrastive training" },
    { NULL, NULL }
};

/* As timm runs these weights; the JAX code itself computes --set activation=gelu_tanh. */
static const layout_default defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu", NULL }, { "pool=avg", "!cls" },
    { "pos_resample=flexivit", NULL }, { NULL, NULL }
};

const layout layout_jax = {
    .name = "JAX",
    .probe = "embedding/kernel",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .harmless = harmless,
    .defaults = defaults
};
