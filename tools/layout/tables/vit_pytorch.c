/* vit_pytorch.c - lucidrains/vit-pytorch. */
#include "layout/tables/tables.h"

/* === ViT, since 2021-03 ===
 * A patch's values are ordered (p1 p2 c). Until 2023-02 the stem is a linear layer; since 1.0 it
 * has a norm of the raw patch before it and one of the token after it. Until 2023-08 there is a
 * norm after the pool and none after the blocks. The mean is that of all tokens; since 2025-11 a
 * model that takes it has an empty class token. A single head as wide as a token has no to_out. */

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
/* Without a projection. */
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

/* Its examples give it images of its own size; at most a Resize comes before. */
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
 * Computed positions, the mean of the patches, no bias in attention. Its registers come after the
 * patches, which makes no difference. Until 2023-08 as above. */

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
 * A linear layer over patches (p1 p2 c), each branch in a Residual. Until 2020-12 the head is two
 * linear layers with GELU between them, until 2021-01 q k^T is divided by the root of embed_dim;
 * since 2020-12 the mean of all tokens may go into the head. */

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
    { SETTING_POOL, "--set pool=token (its default, pool = 'cls') or --set pool=avg (pool = "
      "'mean')", NULL },
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

/* === Its first three days ===
 * Both branches of all blocks are one nn.Sequential, and there is no norm after them. The very
 * first version made a patch of every grid_height-th row and grid_width-th column; nothing in the
 * tensors shows it, and it was replaced within minutes. */

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
