/* own.c - ViTs that people wrote themselves, whose tensors structure_*.c found and named. They are
 * not in LAYOUT_LIST: no key tells these checkpoints from others.
 */
#include "layout/tables/tables.h"

static const char *const prefixes[] = { NULL };
static const char *const blocks[] = { "blocks.{i}.", NULL };

#define PATCH(weight, axes) LAYOUT_VIEW("patch_embed.proj.weight", weight, axes)
#define SAME2(name) LAYOUT_SAME2("{b}" name)

static const layout_rule rules[] = {
    { "cls_token", LAYOUT_SUM, NULL, { "cls_token", "pos_embed.class", NULL }, LAYOUT_ALWAYS },
    LAYOUT_SAME("cls_token"),
    LAYOUT_SAME("dist_token"),
    LAYOUT_SAME("reg_token"),
    LAYOUT_SAME("pos_embed"),
    { "patch_embed.proj.weight", LAYOUT_SUM, "d(patch)>dcpq",
      { "patch_embed.proj.weight", "patch_embed.added.weight", NULL }, LAYOUT_ALWAYS },
    { "patch_embed.proj.bias", LAYOUT_SUM, NULL,
      { "patch_embed.proj.bias", "patch_embed.added.bias", NULL }, LAYOUT_ALWAYS },
    PATCH("patch_embed.proj.weight", "dcpq>dcpq"),
    PATCH("patch_embed.proj.weight", "d(patch)>dcpq"),
    PATCH("patch_embed.matrix.weight", "(patch)d>dcpq"),
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

/* What a head of two layers has between them: the original's tanh, or what these blocks have. */
#define BETWEEN(activation) { "representation_act=" activation, ":pre_logits.fc.weight" }

static const layout_default own_defaults[] = {
    USUAL, { "activation=gelu", NULL }, { "block_type=pre_norm", NULL }, BETWEEN("tanh"),
    { NULL, NULL }
};
/* norm_first=False and activation="relu" are torch's own. */
static const layout_default torch_defaults[] = {
    USUAL, { "activation=relu", NULL }, { "block_type=post_norm", NULL }, BETWEEN("relu"),
    { NULL, NULL }
};

/* Written after transformers' code, with its first GELU; or with NumPy, which has no erf. */
static const layout_default tanh_defaults[] = {
    USUAL, { "activation=gelu_tanh", NULL }, { "block_type=pre_norm", NULL }, BETWEEN("tanh"),
    { NULL, NULL }
};
/* Written after a lecture on language models, in which all heads divide by the root of the width of
 * a token. */
static const layout_default lecture_defaults[] = {
    USUAL, { "activation=gelu", NULL }, { "block_type=pre_norm", NULL }, BETWEEN("tanh"),
    { "attn_root=embed_dim", NULL }, { NULL, NULL }
};

static const layout_question own_questions[] = {
    { SETTING_QKV_INTERLEAVE, "--set qkv_interleave=per_head (query, key and value of one head "
      "after the other) or --set qkv_interleave=none (all queries first)",
      "{b}attn.stacked.weight" },
    { SETTING_COUNT, NULL, NULL }
};

#define FOUND .probe = "blocks.0.attn.proj.weight", .prefixes = prefixes, .blocks = blocks,      \
              .rules = rules, .questions = own_questions, .is_open = true

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
