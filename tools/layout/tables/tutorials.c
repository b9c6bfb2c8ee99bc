/* tutorials.c - ViTs that people write by a tutorial and train themselves. */
#include "layout/tables/tables.h"

/* ToTensor is all that follows. */
#define SQUASHED LAYOUT_SQUASHED, { "mean=0", NULL }, { "std=1", NULL }

/* === einops and nn.Sequential ===
 * Modules within modules: 0 the stem, 1 the blocks, 2 the head; 1.{i}.0 and 1.{i}.1 are the two
 * residual branches. The tutorial's attention divides by the root of embed_dim after the softmax;
 * many who use its code divide before the softmax, which the tensors do not show. */

static const char *const einops_blocks[] = { "1.{i}.", NULL };

#define MULTIHEAD(name)                                                                          \
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}0.fn.1." name "in_proj_weight"),                       \
    LAYOUT_FROM("{b}attn.qkv.bias", "{b}0.fn.1." name "in_proj_bias"),                           \
    LAYOUT_FROM2("{b}attn.proj", "{b}0.fn.1." name "out_proj")

static const layout_rule einops_rules[] = {
    LAYOUT_FROM("cls_token", "0.cls_token"),
    LAYOUT_FROM("pos_embed", "0.positions"),
    LAYOUT_VIEW("patch_embed.proj.weight", "0.projection.0.weight", "dcpq>dcpq"),
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "0.projection.0.bias", "0.projection.0.weight"),
    LAYOUT_VIEW("patch_embed.proj.weight", "0.projection.1.weight", "d(pqc)>dcpq"),
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "0.projection.1.bias", "0.projection.1.weight"),
    LAYOUT_FROM2("{b}norm1", "{b}0.fn.0"),
    LAYOUT_VIEW("{b}attn.qkv.weight", "{b}0.fn.1.qkv.weight", "(hkz)d>zhkd"),
    LAYOUT_VIEW("{b}attn.qkv.bias", "{b}0.fn.1.qkv.bias", "(hkz)>zhk"),
    LAYOUT_QKV("{b}0.fn.1.queries", "{b}0.fn.1.keys", "{b}0.fn.1.values"),
    LAYOUT_FROM2("{b}attn.proj", "{b}0.fn.1.projection"),
    MULTIHEAD(""),
    MULTIHEAD("att."),
    MULTIHEAD("attn."),
    MULTIHEAD("attention."),
    MULTIHEAD("mha."),
    LAYOUT_FROM2("{b}norm2", "{b}1.fn.0"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}1.fn.1.0"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}1.fn.1.3"),
    /* after a layer without weights that pools, or where pooling is no layer */
    LAYOUT_WHEN2("fc_norm", "2.1", "2.2.weight"),
    LAYOUT_FROM2("head", "2.2"),
    LAYOUT_FROM2("fc_norm", "2.0"),
    LAYOUT_FROM2("head", "2.1"),
    LAYOUT_END
};

static const layout_default einops_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "num_heads=8", NULL },
    { "attn_root=embed_dim_after", "{b}0.fn.1.projection.weight" }, { "pool=avg", NULL },
    { "pool_prefix=1", NULL }, { "positions=all", NULL }, SQUASHED, { NULL, NULL }
};

const layout layout_einops = {
    .name = "the einops tutorial",
    .probe = "0.cls_token",
    .when = { "{b}0.fn.0.weight", "{b}1.fn.1.0.weight" },
    .prefixes = layout_wrappers, .blocks = einops_blocks, .rules = einops_rules,
    .is_open = true, .defaults = einops_defaults
};

/* === nn.MultiheadAttention in hand-written blocks ===
 * Two courses that many learned from. Both feed a norm, attention, a norm and an nn.Sequential; the
 * first cuts patches with a convolution, the second with a reshape, channel by channel. */

#define ATTENTION(key)                                                                           \
    LAYOUT_FROM("{b}attn.qkv.weight", key ".in_proj_weight"),                                    \
    LAYOUT_FROM("{b}attn.qkv.bias", key ".in_proj_bias"),                                        \
    LAYOUT_FROM2("{b}attn.proj", key ".out_proj")

static const char *const replica_blocks[] = { "transformer_encoder.{i}.", NULL };

static const layout_rule replica_rules[] = {
    LAYOUT_FROM("cls_token", "class_embedding"),
    LAYOUT_MUST("pos_embed", "position_embedding"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embedding.patcher.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "patch_embedding.patcher.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}msa_block.layer_norm"),
    ATTENTION("{b}msa_block.multihead_attn"),
    LAYOUT_FROM2("{b}norm2", "{b}mlp_block.layer_norm"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp_block.mlp.0"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp_block.mlp.3"),
    LAYOUT_MUST2("fc_norm", "classifier.0"),
    LAYOUT_FROM2("head", "classifier.1"),
    LAYOUT_END
};

static const layout_default replica_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=token", NULL },
    { "positions=all", NULL }, SQUASHED, { NULL, NULL }
};

const layout layout_replica = {
    .name = "the paper-replicating tutorial",
    .probe = "patch_embedding.patcher.weight",
    .when = { "{b}msa_block.layer_norm.weight" },
    .prefixes = layout_wrappers, .blocks = replica_blocks, .rules = replica_rules,
    .is_open = true, .defaults = replica_defaults
};

static const char *const notebook_blocks[] = { "transformer.{i}.", NULL };

static const layout_rule notebook_rules[] = {
    LAYOUT_SAME("cls_token"),
    LAYOUT_MUST("pos_embed", "pos_embedding"),
    LAYOUT_VIEW("patch_embed.proj.weight", "input_layer.weight", "d(cpq)>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "input_layer.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}layer_norm_1"),
    ATTENTION("{b}attn"),
    LAYOUT_FROM2("{b}norm2", "{b}layer_norm_2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}linear.0"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}linear.3"),
    LAYOUT_MUST2("fc_norm", "mlp_head.0"),
    LAYOUT_FROM2("head", "mlp_head.1"),
    LAYOUT_END
};

/* Its images are CIFAR-10's, normalised by their own mean and deviation. */
static const layout_default notebook_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=token", NULL },
    { "positions=all", NULL }, LAYOUT_SQUASHED,
    { "mean=0.49139968,0.48215841,0.44653091", NULL },
    { "std=0.24703223,0.24348513,0.26158784", NULL }, { NULL, NULL }
};

const layout layout_notebook = {
    .name = "the UvA deep learning notebooks",
    .probe = "input_layer.weight",
    .when = { "{b}layer_norm_1.weight", "{b}attn.in_proj_weight" },
    .prefixes = layout_wrappers, .blocks = notebook_blocks, .rules = notebook_rules,
    .is_open = true, .defaults = notebook_defaults
};
