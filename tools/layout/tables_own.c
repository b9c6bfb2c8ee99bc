/* clang-format off */ /* the rows below form tables */
#include "layout/layout.h"

/* === torch.nn === */

/* Models that contain a torch.nn.TransformerEncoder or a list of its layers. Only the names inside
 * the encoder are standard. The other names are ones that people often choose for tensors beside
 * the encoder or beside the module that holds it. */

static const char *const prefixes[] = { "*.", NULL };

static const char *const blocks[] = { "layers.{i}.", NULL };
/* the blocks of an nn.ModuleList or similar */
static const char *const list_blocks[] = { "{i}.", NULL };

#define BESIDE(tensor, name)                                                                     \
    LAYOUT_FROM(tensor, name), LAYOUT_FROM(tensor, "../" name), LAYOUT_FROM(tensor, "../../" name)
/* The rules for the layer that reads a patch: a convolution, a linear layer, or a bare matrix by
 * which patches are multiplied. */
#define PATCH_AT(key)                                                                            \
    LAYOUT_VIEW("patch_embed.proj.weight", key ".weight", "dcpq>dcpq"),                          \
    LAYOUT_VIEW("patch_embed.proj.weight", key ".weight", "d(patch)>dcpq"),                      \
    LAYOUT_VIEW("patch_embed.proj.weight", key, "(patch)d>dcpq"),                                \
    LAYOUT_FROM("patch_embed.proj.bias", key ".bias")
#define PATCH(name) PATCH_AT(name), PATCH_AT("../" name), PATCH_AT("../../" name)
#define POSITIONS(name)                                                                          \
    BESIDE("pos_embed", name), BESIDE("pos_embed", name ".weight"), BESIDE("pos_embed", name ".pe")
/* The rules for a head. The head is a linear layer alone, a linear layer in an nn.Sequential, or a
 * norm and a linear layer in an nn.Sequential. */
#define HEAD_AT(key)                                                                             \
    LAYOUT_FROM2("head", key),                                                                   \
    LAYOUT_FROM2("head", key ".1"),                                                              \
    LAYOUT_WHEN2("fc_norm", key ".0", key ".1.weight"),                                          \
    LAYOUT_FROM2("head", key ".0")
#define HEAD(name) HEAD_AT(name), HEAD_AT("../" name), HEAD_AT("../../" name)

static const layout_rule rules[] = {
    BESIDE("cls_token", "cls_token"),
    BESIDE("cls_token", "class_token"),
    BESIDE("cls_token", "cls_embedding"),
    BESIDE("cls_token", "class_embedding"),
    BESIDE("cls_token", "cls_token_embedding"),
    BESIDE("cls_token", "cls"),
    POSITIONS("pos_embed"),
    POSITIONS("pos_embedding"),
    POSITIONS("pos_embeddings"),
    POSITIONS("position_embed"),
    POSITIONS("position_embedding"),
    POSITIONS("position_embeddings"),
    POSITIONS("position_embedding_table"),
    POSITIONS("positional_embedding"),
    POSITIONS("positional_encoding"),
    POSITIONS("pos_encoding"),
    POSITIONS("pos_encoder"),
    POSITIONS("pos_emb"),
    POSITIONS("pos"),
    POSITIONS("positions"),
    PATCH("patch_embed.proj"),
    PATCH("patch_embed"),
    PATCH("patch_embedding.proj"),
    PATCH("patch_embedding"),
    PATCH("patch_embeddings"),
    PATCH("patch_emb"),
    PATCH("patch_proj"),
    PATCH("patch_projection"),
    PATCH("patch_weight"),
    PATCH("patch_to_embedding"),
    PATCH("to_patch_embedding"),
    PATCH("linear_projection"),
    PATCH("projection"),
    PATCH("proj"),
    PATCH("conv_proj"),
    PATCH("conv"),
    PATCH("embedding"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}self_attn.in_proj_weight"),
    LAYOUT_FROM("{b}attn.qkv.bias", "{b}self_attn.in_proj_bias"),
    LAYOUT_FROM2("{b}attn.proj", "{b}self_attn.out_proj"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}linear1"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}linear2"),
    BESIDE("norm.weight", "norm.weight"),
    BESIDE("norm.bias", "norm.bias"),
    /* of two norms, the one inside the encoder follows the blocks, and ../norm is the head's */
    LAYOUT_WHEN2("fc_norm", "../norm", "norm.weight"),
    HEAD("head"),
    HEAD("classifier"),
    HEAD("classification_head"),
    HEAD("mlp_head"),
    HEAD("fc"),
    HEAD("fc_out"),
    HEAD("linear"),
    HEAD("linear_layer"),
    LAYOUT_END
};

/* Torch's own defaults are norm_first=False (post_norm) and activation="relu". */
static const layout_default defaults[] = {
    { "norm_eps=1e-5", NULL }, { "block_type=post_norm", NULL }, { "activation=relu", NULL },
    { "positions=all", ":pos_embed" }, { "pool=token", ":cls_token" },
    LAYOUT_SQUASHED, { "mean=0", NULL }, { "std=1", NULL }, { NULL, NULL }
};

#define ENCODER_ALONE "!{b}multihead_attn.in_proj_weight"

const layout layout_torch_nn = {
    .name = "torch.nn.TransformerEncoder",
    .probe = "layers.0.self_attn.in_proj_weight",
    .when = { "{b}linear1.weight", ENCODER_ALONE },
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .is_open = true,
    .defaults = defaults
};

const layout layout_torch_nn_list = {
    .name = "torch.nn.TransformerEncoderLayer",
    .probe = "0.self_attn.in_proj_weight",
    .when = { "{b}linear1.weight", ENCODER_ALONE },
    .prefixes = prefixes, .blocks = list_blocks, .rules = rules, .is_open = true,
    .defaults = defaults
};

/* === vit-pytorch === */

/* The models of lucidrains/vit-pytorch. */

/* === ViT, since 2021-03 ===
 * The values of a patch are ordered (p1 p2 c). Until 2023-02 the stem is only a linear layer. Since
 * then (1.0) a norm of the raw patch precedes this layer, and a norm of the token follows it. Until
 * 2023-08 there is a norm after the pooling and none after the blocks. With mean pooling, the mean
 * covers all tokens; since 2025-11 such a model has a tensor cls_token without values. If a model
 * has a single head as wide as a token, attention has no layer to_out. */

static const char *const lucidrains_blocks[] = { "transformer.layers.{i}.", NULL };

#define OLD_STEM "!to_patch_embedding.2.weight"
#define NEW_STEM "to_patch_embedding.2.weight"
#define RAW_NORM(part)                                                                           \
    { "patch_embed.pre_norm." part, LAYOUT_STACK, "(pqc)>cpq",                                   \
      { "to_patch_embedding.1." part, NULL, NULL }, { LAYOUT_REQUIRED, NEW_STEM } }
#define STEM                                                                                     \
    RAW_NORM("weight"), RAW_NORM("bias"),                                                        \
    LAYOUT_VIEW("patch_embed.proj.weight", "to_patch_embedding.2.weight", "d(pqc)>dcpq"),        \
    LAYOUT_VIEW("patch_embed.proj.weight", "to_patch_embedding.1.weight", "d(pqc)>dcpq"),        \
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "to_patch_embedding.2.bias", NEW_STEM),            \
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "to_patch_embedding.1.bias", OLD_STEM),            \
    LAYOUT_MUST_WHEN2("patch_embed.norm", "to_patch_embedding.3", NEW_STEM)
/* The rules for attention without a projection. */
#define NO_PROJECTION(qkv, out)                                                                  \
    { "{b}attn.proj.weight", LAYOUT_IDENTITY, NULL, { LAYOUT_NONE }, { qkv, "!" out } },         \
    { "{b}attn.proj.bias", LAYOUT_ZERO, NULL, { LAYOUT_NONE }, { qkv, "!" out } }

static const layout_rule lucidrains_rules[] = {
    STEM,
    LAYOUT_SAME("cls_token"),
    LAYOUT_MUST("pos_embed", "pos_embedding"),
    LAYOUT_FROM2("{b}norm1", "{b}0.norm"),
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}0.fn.to_qkv.weight"),
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}0.to_qkv.weight"),
    LAYOUT_FROM2("{b}attn.proj", "{b}0.fn.to_out.0"),
    LAYOUT_FROM2("{b}attn.proj", "{b}0.to_out.0"),
    NO_PROJECTION("{b}0.fn.to_qkv.weight", "{b}0.fn.to_out.0.weight"),
    NO_PROJECTION("{b}0.to_qkv.weight", "{b}0.to_out.0.weight"),
    LAYOUT_FROM2("{b}norm2", "{b}1.norm"),
    LAYOUT_FROM2("{b}norm2", "{b}1.net.0"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}1.fn.net.0"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}1.net.1"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}1.fn.net.3"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}1.net.4"),
    LAYOUT_MUST_WHEN2("norm", "transformer.norm", "{b}0.to_qkv.weight"),
    LAYOUT_FROM2("fc_norm", "mlp_head.0"),
    LAYOUT_FROM2("head", "mlp_head.1"),
    LAYOUT_FROM2("head", "mlp_head"),
    LAYOUT_END
};

/* The examples of this library use images of the model's size, or a plain Resize. */
static const layout_default lucidrains_defaults[] = {
    LAYOUT_SQUASHED,
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", "!cls_token" },
    { "pool=token", "cls_token" }, { "pool_prefix=1", "cls_token" }, { "positions=all", NULL },
    { NULL, NULL }
};

const layout layout_lucidrains = {
    .name = "lucidrains/vit-pytorch",
    .probe = "to_patch_embedding.1.weight",
    .when = { "pos_embedding" },
    .prefixes = layout_wrappers, .blocks = lucidrains_blocks, .rules = lucidrains_rules,
    .is_open = true,
    .defaults = lucidrains_defaults
};

/* === SimpleViT ===
 * This model has computed positions, and its head reads the mean of the patch tokens. Its attention
 * has no bias. Its registers come after the patches, which makes no difference. Until 2023-08 it
 * has the norms of the ViT above. */

static const layout_rule simple_vit_rules[] = {
    STEM,
    LAYOUT_FROM("reg_token", "register_tokens"),
    LAYOUT_FROM2("{b}norm1", "{b}0.norm"),
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}0.to_qkv.weight"),
    LAYOUT_FROM("{b}attn.proj.weight", "{b}0.to_out.weight"),
    LAYOUT_ZEROS("{b}attn.proj.bias", "{b}0.to_out.weight"),
    LAYOUT_FROM2("{b}norm2", "{b}1.net.0"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}1.net.1"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}1.net.3"),
    LAYOUT_MUST_WHEN2("norm", "transformer.norm", "!linear_head.1.weight"),
    LAYOUT_FROM2("fc_norm", "linear_head.0"),
    LAYOUT_FROM2("head", "linear_head.1"),
    LAYOUT_FROM2("head", "linear_head"),
    LAYOUT_END
};

static const layout_default simple_vit_defaults[] = {
    LAYOUT_SQUASHED,
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", NULL },
    { "positions=patches", NULL }, { "pos_sincos=simple_vit", NULL }, { NULL, NULL }
};

const layout layout_simple_vit = {
    .name = "SimpleViT of vit-pytorch",
    .probe = "to_patch_embedding.1.weight",
    .prefixes = layout_wrappers, .blocks = lucidrains_blocks, .rules = simple_vit_rules,
    .is_open = true,
    .defaults = simple_vit_defaults
};

/* === ViT until 2021-03 ===
 * This model has a linear layer over patches (p1 p2 c), and each branch of a block is in a
 * Residual. Until 2020-12 the head is two linear layers with GELU between them. Until 2021-01 q k^T
 * is divided by the root of embed_dim. Since 2020-12 the head may read the mean of all tokens. */

#define OLD_BRANCHES(attn, mlp)                                                                  \
    LAYOUT_SAME("cls_token"),                                                                    \
    LAYOUT_MUST("pos_embed", "pos_embedding"),                                                   \
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_to_embedding.weight", "d(pqc)>dcpq"),          \
    LAYOUT_MUST("patch_embed.proj.bias", "patch_to_embedding.bias"),                             \
    LAYOUT_FROM2("{b}norm1", attn "norm"),                                                       \
    LAYOUT_FROM("{b}attn.qkv.weight", attn "fn.to_qkv.weight"),                                  \
    LAYOUT_FROM2("{b}attn.proj", attn "fn.to_out.0"),                                            \
    LAYOUT_FROM2("{b}attn.proj", attn "fn.to_out"),                                              \
    LAYOUT_FROM2("{b}norm2", mlp "norm"),                                                        \
    LAYOUT_FROM2("{b}mlp.fc1", mlp "fn.net.0"),                                                  \
    LAYOUT_FROM2("{b}mlp.fc2", mlp "fn.net.3"),                                                  \
    LAYOUT_FROM2("{b}mlp.fc2", mlp "fn.net.2")

#define ONE_LAYER(part)                                                                          \
    { "head." part, LAYOUT_STACK, NULL, { "mlp_head.1." part, NULL, NULL },                      \
      { "!mlp_head.3.weight", "!mlp_head.4.weight" } }

static const layout_rule lucidrains_2020_rules[] = {
    OLD_BRANCHES("{b}0.fn.", "{b}1.fn."),
    LAYOUT_WHEN2("fc_norm", "mlp_head.0", "mlp_head.1.weight"),
    LAYOUT_WHEN2("pre_logits.fc", "mlp_head.0", "mlp_head.2.weight"),
    LAYOUT_WHEN2("pre_logits.fc", "mlp_head.1", "mlp_head.3.weight"),
    LAYOUT_WHEN2("pre_logits.fc", "mlp_head.1", "mlp_head.4.weight"),
    LAYOUT_FROM2("head", "mlp_head.4"),
    LAYOUT_FROM2("head", "mlp_head.3"),
    LAYOUT_FROM2("head", "mlp_head.2"),
    ONE_LAYER("weight"), ONE_LAYER("bias"),
    LAYOUT_END
};

#define OLD_DEFAULTS                                                                             \
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "positions=all", NULL },           \
    { "representation_act=gelu", ":pre_logits.fc.weight" },                                      \
    { "attn_root=embed_dim", ":pre_logits.fc.weight" },                                          \
    { "pool=token", ":pre_logits.fc.weight" }

static const layout_default lucidrains_2020_defaults[] = {
    LAYOUT_SQUASHED, OLD_DEFAULTS, { "pool_prefix=1", NULL }, { NULL, NULL }
};

static const layout_question lucidrains_2020_questions[] = {
    { SETTING_POOL, "--set pool=token (the code's default, pool = 'cls') or --set pool=avg "
      "(pool = 'mean')", NULL },
    { SETTING_NUM_HEADS, "--set num_heads=N", NULL },
    { SETTING_ATTN_ROOT, "--set attn_root=embed_dim (until 2021-01-21) or --set "
      "attn_root=head_dim", NULL },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_lucidrains_2020 = {
    .name = "lucidrains/vit-pytorch of 2020",
    .probe = "patch_to_embedding.weight",
    .when = { "pos_embedding", "{b}0.fn.fn.to_qkv.weight" },
    .prefixes = layout_wrappers, .blocks = lucidrains_blocks, .rules = lucidrains_2020_rules,
    .defaults = lucidrains_2020_defaults, .questions = lucidrains_2020_questions
};

/* === The first three days ===
 * Both branches of all blocks are in one nn.Sequential, and no norm follows them. In the very first
 * version, a patch consisted of every grid_height-th row and grid_width-th column. The tensors do
 * not show this, and this version was replaced within minutes. */

static const char *const first_blocks[] = { "transformer.net.{e}.", NULL };

static const layout_rule lucidrains_first_rules[] = {
    OLD_BRANCHES("{b}fn.", "transformer.net.{o}.fn."),
    LAYOUT_FROM2("pre_logits.fc", "mlp_head.0"),
    LAYOUT_FROM2("head", "mlp_head.2"),
    LAYOUT_END
};

static const layout_default lucidrains_first_defaults[] = {
    LAYOUT_SQUASHED, OLD_DEFAULTS, { "patch_cut=squares", NULL }, { NULL, NULL }
};

static const layout_question lucidrains_first_questions[] = {
    { SETTING_NUM_HEADS, "--set num_heads=N", NULL }, { SETTING_COUNT, NULL, NULL }
};

const layout layout_lucidrains_first = {
    .name = "lucidrains/vit-pytorch of October 2020",
    .probe = "patch_to_embedding.weight",
    .when = { "pos_embedding", "{b}fn.fn.to_qkv.weight" },
    .prefixes = layout_wrappers, .blocks = first_blocks, .rules = lucidrains_first_rules,
    .defaults = lucidrains_first_defaults, .questions = lucidrains_first_questions
};

/* === Tutorials === */

/* ViTs that people write by following a tutorial, and train themselves. */

/* The preprocessing of these models: photos are squashed, and only ToTensor follows. */
#define SQUASHED LAYOUT_SQUASHED, { "mean=0", NULL }, { "std=1", NULL }

/* === einops and nn.Sequential ===
 * The model is an nn.Sequential of the stem (0), the blocks (1) and the head (2). The two residual
 * branches of block i are 1.{i}.0 and 1.{i}.1. The tutorial divides the probabilities by the root
 * of embed_dim, after the softmax. Many copies divide the scores instead, before the softmax; the
 * tensors do not show this. */

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
    /* the head may begin with a pooling layer, which has no weights */
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
 * The blocks of two popular courses. Each block has a norm, attention, a norm and an nn.Sequential.
 * The first course cuts patches with a convolution. The second course cuts patches with a reshape,
 * channel by channel. */

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

/* This notebook uses the images of CIFAR-10, normalised by their mean and deviation. */
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

/* === Found by structure === */

/* Hand-written ViTs whose tensors were found and named by structure_*.c. These layouts are not in
 * LAYOUT_LIST, because no key identifies such checkpoints. */

static const char *const own_prefixes[] = { NULL };
static const char *const own_blocks[] = { "blocks.{i}.", NULL };

#define OWN_PATCH(weight, axes) LAYOUT_VIEW("patch_embed.proj.weight", weight, axes)
#define SAME2(name) LAYOUT_SAME2("{b}" name)

static const layout_rule own_rules[] = {
    { "cls_token", LAYOUT_SUM, NULL, { "cls_token", "pos_embed.class", NULL }, LAYOUT_ALWAYS },
    LAYOUT_SAME("cls_token"),
    LAYOUT_SAME("dist_token"),
    LAYOUT_SAME("reg_token"),
    LAYOUT_SAME("pos_embed"),
    { "patch_embed.proj.weight", LAYOUT_SUM, "d(patch)>dcpq",
      { "patch_embed.proj.weight", "patch_embed.added.weight", NULL }, LAYOUT_ALWAYS },
    { "patch_embed.proj.bias", LAYOUT_SUM, NULL,
      { "patch_embed.proj.bias", "patch_embed.added.bias", NULL }, LAYOUT_ALWAYS },
    OWN_PATCH("patch_embed.proj.weight", "dcpq>dcpq"),
    OWN_PATCH("patch_embed.proj.weight", "d(patch)>dcpq"),
    OWN_PATCH("patch_embed.matrix.weight", "(patch)d>dcpq"),
    LAYOUT_SAME("patch_embed.proj.bias"),
    LAYOUT_FROM("patch_embed.proj.bias", "patch_embed.matrix.bias"),
    LAYOUT_VIEW("patch_embed.pre_norm.weight", "patch_embed.pre_norm.weight", "(patch)>cpq"),
    LAYOUT_VIEW("patch_embed.pre_norm.bias", "patch_embed.pre_norm.bias", "(patch)>cpq"),
    LAYOUT_SAME2("patch_embed.norm"),
    LAYOUT_SAME2("norm_pre"),
    SAME2("norm1"),
    SAME2("attn.qkv"),
    LAYOUT_FROM2("{b}attn.qkv", "{b}attn.stacked"),
    LAYOUT_QKV("{b}attn.q", "{b}attn.k", "{b}attn.v"),
    LAYOUT_ROWS2("{b}attn.qkv.weight", NULL, "{b}attn.q.weight", "{b}attn.kv.weight"),
    LAYOUT_ROWS2("{b}attn.qkv.bias", NULL, "{b}attn.q.bias", "{b}attn.kv.bias"),
    SAME2("attn.q_norm"),
    SAME2("attn.k_norm"),
    SAME2("attn.proj"),
    LAYOUT_SAME("{b}ls1.gamma"),
    SAME2("norm2"),
    SAME2("mlp.fc1"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.gate.weight", "{b}mlp.up.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.gate.bias", "{b}mlp.up.bias"),
    SAME2("mlp.norm"),
    SAME2("mlp.fc2"),
    LAYOUT_SAME("{b}ls2.gamma"),
    LAYOUT_SAME2("norm"),
    LAYOUT_SAME2("fc_norm"),
    LAYOUT_SAME2("pre_logits.fc"),
    LAYOUT_SAME2("head"),
    LAYOUT_SAME2("head_dist"),
    LAYOUT_END
};

#define USUAL                                                                                    \
    { "norm_eps=1e-5", NULL }, { "pool=token", "cls_token" }, { "pool=avg", "!cls_token" },      \
    LAYOUT_SQUASHED

static const layout_default own_defaults[] = {
    USUAL, { "activation=gelu", NULL }, { "block_type=pre_norm", NULL },
    { NULL, NULL }
};
/* Torch's own defaults are norm_first=False (post_norm) and activation="relu". */
static const layout_default torch_defaults[] = {
    USUAL, { "activation=relu", NULL }, { "block_type=post_norm", NULL },
    { NULL, NULL }
};

/* The defaults of two kinds of models. Models that follow transformers' code use gelu_tanh, the
 * GELU that this code defines first. Models written with NumPy are assumed to have the same GELU,
 * because NumPy lacks erf. */
static const layout_default tanh_defaults[] = {
    USUAL, { "activation=gelu_tanh", NULL }, { "block_type=pre_norm", NULL },
    { NULL, NULL }
};
/* The defaults of models that follow a lecture on language models. In these models, q k^T is
 * divided by the root of the width of a token. */
static const layout_default lecture_defaults[] = {
    USUAL, { "activation=gelu", NULL }, { "block_type=pre_norm", NULL },
    { "attn_root=embed_dim", NULL }, { NULL, NULL }
};

static const layout_question own_questions[] = {
    { SETTING_QKV_INTERLEAVE, "--set qkv_interleave=per_head (query, key and value of the first "
      "head, then of the next) or --set qkv_interleave=none (the queries of all heads first)",
      "{b}attn.stacked.weight" },
    { SETTING_REPRESENTATION_ACTIVATION, "--set representation_act=relu|none|gelu|tanh|gelu_tanh|"
      "quick_gelu|silu (between the two layers of the head)", ":pre_logits.fc.weight" },
    { SETTING_COUNT, NULL, NULL }
};

#define FOUND                                                                                    \
    .probe = "blocks.0.attn.proj.weight", .prefixes = own_prefixes, .blocks = own_blocks,        \
    .rules = own_rules, .questions = own_questions, .is_open = true

const layout layout_own = {
    .name = "a hand-written ViT", FOUND, .defaults = own_defaults
};

const layout layout_own_torch = {
    .name = "hand-written code around torch.nn.TransformerEncoderLayer", FOUND,
    .defaults = torch_defaults
};

const layout layout_own_dense = {
    .name = "the tutorial with dense_1 and dense_2", FOUND, .defaults = tanh_defaults
};

const layout layout_own_numpy = {
    .name = "a NumPy program", FOUND, .defaults = tanh_defaults
};

const layout layout_own_lecture = {
    .name = "code after the GPT lecture", FOUND, .defaults = lecture_defaults
};
