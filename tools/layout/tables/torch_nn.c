/* torch_nn.c - models around a torch.nn.TransformerEncoder, or a list of its layers. Nothing but
 * the encoder has standard names: these are the usual ones, beside the encoder or beside the module
 * that holds it.
 */
#include "layout/tables/tables.h"

static const char *const prefixes[] = { "*.", NULL };

static const char *const blocks[] = { "layers.{i}.", NULL };
static const char *const list_blocks[] = { "{i}.", NULL };   /* an nn.ModuleList or the like */

#define BESIDE(tensor, name)                                                                     \
    LAYOUT_FROM(tensor, name), LAYOUT_FROM(tensor, "../" name), LAYOUT_FROM(tensor, "../../" name)
/* A convolution, a linear layer, or a bare matrix that patches are multiplied by. */
#define PATCH_AT(key)                                                                            \
    LAYOUT_VIEW("patch_embed.proj.weight", key ".weight", "dcpq>dcpq"),                          \
    LAYOUT_VIEW("patch_embed.proj.weight", key ".weight", "d(patch)>dcpq"),                      \
    LAYOUT_VIEW("patch_embed.proj.weight", key, "(patch)d>dcpq"),                                \
    LAYOUT_FROM("patch_embed.proj.bias", key ".bias")
#define PATCH(name) PATCH_AT(name), PATCH_AT("../" name), PATCH_AT("../../" name)
#define POSITIONS(name)                                                                          \
    BESIDE("pos_embed", name), BESIDE("pos_embed", name ".weight"), BESIDE("pos_embed", name ".pe")
/* A linear layer: alone, in an nn.Sequential, or after a norm in one. */
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

/* norm_first=False and activation="relu" are torch's own. */
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
