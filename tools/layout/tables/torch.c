/* torch.c - models built of PyTorch's own modules: torchvision's, those around a
 * torch.nn.TransformerEncoder, and lucidrains/vit-pytorch.
 */
#include "layout/tables/tables.h"

static const char *const wrappers[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "net.", "vit.", NULL
};

static const layout_extra none[] = { { NULL, NULL } };

/* === torchvision === */

static const char *const torchvision_blocks[] = { "encoder.layers.encoder_layer_{i}.", NULL };

static const layout_rule torchvision_rules[] = {
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

static const layout_extra torchvision_lacking[] = {
    { "conv_proj.*.*", "a convolutional stem" }, { NULL, NULL }
};

/* The transforms of its weights for 224 pixels; those of vit_l_16 resize to 242. */
static const layout_default torchvision_defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu", NULL }, { "positions=all", NULL },
    { "crop_pct=0.875", NULL },
    { "interpolation=bilinear", NULL }, { "mean=0.485,0.456,0.406", NULL },
    { "std=0.229,0.224,0.225", NULL }, { "pos_resample=torchvision", NULL }, { NULL, NULL }
};

const layout layout_torchvision = {
    "torchvision", "conv_proj.weight", { "class_token", NULL }, wrappers, torchvision_blocks,
    torchvision_rules, none, torchvision_lacking, torchvision_defaults, NULL
};

/* === torch.nn.TransformerEncoder ===
 * What stands around it has no standard names; these are the usual ones, beside the encoder or
 * the module that holds it. */

static const char *const nn_prefixes[] = { "*.", NULL };

static const char *const nn_blocks[] = { "layers.{i}.", NULL };
static const char *const nn_list_blocks[] = { "{i}.", NULL };   /* an nn.ModuleList or the like */

#define BESIDE(tensor, name)                                                                     \
    LAYOUT_FROM(tensor, name), LAYOUT_FROM(tensor, "../" name), LAYOUT_FROM(tensor, "../../" name)
/* A convolution, a linear layer, or a bare matrix that patches are multiplied with. */
#define PATCH_AT(key)                                                                            \
    LAYOUT_VIEW("patch_embed.proj.weight", key ".weight", "dcpq>dcpq"),                          \
    LAYOUT_VIEW("patch_embed.proj.weight", key ".weight", "d(patch)>dcpq"),                      \
    LAYOUT_VIEW("patch_embed.proj.weight", key, "(patch)d>dcpq"),                                \
    LAYOUT_FROM("patch_embed.proj.bias", key ".bias")
#define PATCH(name) PATCH_AT(name), PATCH_AT("../" name), PATCH_AT("../../" name)
#define POSITIONS(name)                                                                          \
    BESIDE("pos_embed", name), BESIDE("pos_embed", name ".weight"), BESIDE("pos_embed", name ".pe")
/* A linear layer, alone, in an nn.Sequential, or behind a norm in one. */
#define HEAD_AT(key)                                                                             \
    LAYOUT_FROM2("head", key),                                                                   \
    LAYOUT_FROM2("head", key ".1"),                                                              \
    LAYOUT_WHEN2("fc_norm", key ".0", key ".1.weight"),                                          \
    LAYOUT_FROM2("head", key ".0")
#define HEAD(name) HEAD_AT(name), HEAD_AT("../" name), HEAD_AT("../../" name)

static const layout_rule nn_rules[] = {
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

static const layout_default nn_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "positions=all", ":pos_embed" }, { "crop_mode=squash", NULL },
    { "crop_pct=1", NULL }, { "interpolation=bilinear", NULL }, { "mean=0", NULL },
    { "std=1", NULL }, { NULL, NULL }
};

static const layout_question nn_questions[] = {
    { SETTING_BLOCK_TYPE, "--set block_type=post_norm (its default) or --set block_type=pre_norm "
      "(norm_first=True)", NULL },
    { SETTING_ACTIVATION, "--set activation=relu (its default) or --set activation=gelu", NULL },
    { SETTING_POOL, "--set pool=token or --set pool=avg", NULL },
    { SETTING_NUM_HEADS, "--set num_heads=N", NULL },
    { SETTING_COUNT, NULL, NULL }
};

#define ENCODER_ALONE "!{b}multihead_attn.in_proj_weight"

const layout layout_torch_nn = {
    "torch.nn.TransformerEncoder", "layers.0.self_attn.in_proj_weight",
    { "{b}linear1.weight", ENCODER_ALONE }, nn_prefixes, nn_blocks, nn_rules, none, none,
    nn_defaults, nn_questions
};

const layout layout_torch_nn_list = {
    "torch.nn.TransformerEncoderLayer", "0.self_attn.in_proj_weight",
    { "{b}linear1.weight", ENCODER_ALONE }, nn_prefixes, nn_list_blocks, nn_rules, none, none,
    nn_defaults, nn_questions
};

/* === lucidrains/vit-pytorch, since 2021-03 ===
 * A patch's numbers are (p1 p2 c). Until 2023-02 the stem is a linear layer; since 1.0 norms of the
 * raw patch and of the token stand before and behind it. Until 2023-08 a norm comes behind the pool
 * and none behind the blocks. The mean is that of all tokens; since 2025-11 a model that takes it
 * has no class token, but one of no numbers. One head that is as wide as a token has no to_out. */

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
/* For want of a projection. */
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

static const layout_default lucidrains_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", "!cls_token" },
    { "pool_prefix=1", "cls_token" }, { "positions=all", NULL }, { NULL, NULL }
};

static const layout_question lucidrains_questions[] = {
    { SETTING_POOL, "--set pool=token (its default, pool = 'cls') or --set pool=avg (pool = "
      "'mean')", NULL },
    { SETTING_NUM_HEADS, "--set num_heads=N", NULL },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_lucidrains = {
    "lucidrains/vit-pytorch", "to_patch_embedding.1.weight",
    { "pos_embedding", NULL }, wrappers, lucidrains_blocks, lucidrains_rules,
    none, none, lucidrains_defaults, lucidrains_questions
};

/* Its SimpleViT: computed positions, the mean of the patches, no bias in attention. Registers stand
 * behind the patches there, which makes no difference. Until 2023-08 as above. */

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
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", NULL },
    { "positions=patches", NULL }, { "pos_sincos=simple_vit", NULL }, { NULL, NULL }
};

static const layout_question simple_vit_questions[] = {
    { SETTING_NUM_HEADS, "--set num_heads=N", NULL }, { SETTING_COUNT, NULL, NULL }
};

const layout layout_simple_vit = {
    "SimpleViT of vit-pytorch", "to_patch_embedding.1.weight", LAYOUT_ALWAYS, wrappers,
    lucidrains_blocks, simple_vit_rules, none, none, simple_vit_defaults, simple_vit_questions
};

/* The first versions cut patches out of every p-th pixel. */
static const layout_rule refused_rules[] = { LAYOUT_END };

static const layout_extra first_lacking[] = {
    { "patch_to_embedding.*", "the interleaved patches of vit-pytorch before 2021-03" },
    { NULL, NULL }
};

const layout layout_lucidrains_first = {
    "lucidrains/vit-pytorch of 2020", "patch_to_embedding.weight", LAYOUT_ALWAYS, wrappers,
    lucidrains_blocks, refused_rules, none, first_lacking, NULL, NULL
};
