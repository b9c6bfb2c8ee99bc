/* open_clip.c - OpenAI's CLIP, open_clip and Perception Encoder. */
#include "layout/tables/tables.h"

static const char *const prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "visual.", NULL
};

static const char *const blocks[] = { "transformer.resblocks.{i}.", NULL };

#define RESBLOCKS                                                                                \
    LAYOUT_FROM("cls_token", "class_embedding"),                                                 \
    LAYOUT_FROM("pos_embed", "positional_embedding"),                                            \
    LAYOUT_VIEW("patch_embed.proj.weight", "conv1.weight", "dcpq>dcpq"),                         \
    LAYOUT_FROM("patch_embed.proj.bias", "conv1.bias"),                                          \
    LAYOUT_FROM2("norm_pre", "ln_pre"),                                                          \
    LAYOUT_FROM2("{b}norm1", "{b}ln_1"),                                                         \
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}attn.in_proj_weight"),                                 \
    LAYOUT_FROM("{b}attn.qkv.bias", "{b}attn.in_proj_bias"),                                     \
    LAYOUT_FROM2("{b}attn.proj", "{b}attn.out_proj"),                                            \
    LAYOUT_FROM("{b}ls1.gamma", "{b}ls_1.gamma"),                                                \
    LAYOUT_FROM2("{b}norm2", "{b}ln_2"),                                                         \
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.c_fc"),                                                   \
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.c_proj"),                                                 \
    LAYOUT_FROM("{b}ls2.gamma", "{b}ls_2.gamma")

static const layout_rule rules[] = {
    RESBLOCKS,
    LAYOUT_MUST2("norm", "ln_post"),
    { "head.weight", LAYOUT_STACK, "io>oi", { "proj", NULL, NULL }, { LAYOUT_REQUIRED, NULL } },
    LAYOUT_ZEROS("head.bias", "proj"),
    LAYOUT_END
};

#define POOL_IN "attn_pool.attn.in_proj_"

static const layout_rule pe_rules[] = {
    RESBLOCKS,
    LAYOUT_ROPE("rope", NULL),
    LAYOUT_MUST_WHEN2("norm", "ln_post", "attn_pool.probe"),
    LAYOUT_FROM2("norm", "ln_post"),
    { "attn_pool.q", LAYOUT_LINEAR, NULL,
      { "attn_pool.probe", POOL_IN "weight#0/3", POOL_IN "bias#0/3" }, LAYOUT_ALWAYS },
    LAYOUT_FROM("attn_pool.kv.weight", POOL_IN "weight@1d:"),
    LAYOUT_FROM("attn_pool.kv.bias", POOL_IN "bias@1d:"),
    LAYOUT_FROM2("attn_pool.proj", "attn_pool.attn.out_proj"),
    LAYOUT_FROM2("attn_pool.norm", "attn_pool.layernorm"),
    LAYOUT_FROM2("attn_pool.mlp.fc1", "attn_pool.mlp.c_fc"),
    LAYOUT_FROM2("attn_pool.mlp.fc2", "attn_pool.mlp.c_proj"),
    { "head.weight", LAYOUT_STACK, "io>oi", { "proj", NULL, NULL },
      { LAYOUT_REQUIRED, "attn_pool.probe" } },
    LAYOUT_ZEROS("head.bias", "proj"),
    LAYOUT_END
};

static const layout_extra harmless[] = {
    { "../text.*", "of a text tower" },
    { "../token_embedding.weight", "of a text tower" },
    { "../text_projection", "of a text tower" },
    { "../logit_scale", "of contrastive training" },
    { "../logit_bias", "of contrastive training" },
    { "../input_resolution", "a number, not a weight" },
    { "../context_length", "a number, not a weight" },
    { "../vocab_size", "a number, not a weight" },
    { NULL, NULL }
};

static const layout_company company[] = {
    { "../transformer.*", "../token_embedding.weight", "of a text tower" },
    { "../positional_embedding", "../token_embedding.weight", "of a text tower" },
    { "../ln_final.*", "../token_embedding.weight", "of a text tower" },
    { NULL, NULL, NULL }
};

static const layout_extra lacking[] = {
    { "attn_pool.query", "CoCa's attentional pooling" },
    { "attnpool.*", "attention pooling of a ResNet" },
    { "transformer.resblocks.*.ln_attn.*", "a norm after attention" },
    { "transformer.resblocks.*.attn.ln_*", "norms inside attention" },
    { "transformer.resblocks.*.attn.logit_scale", "cosine attention" },
    { NULL, NULL }
};

/* Only OpenAI's own archives have these integers beside the weights. */
#define OPENAI "../input_resolution"

static const layout_default defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=quick_gelu", OPENAI }, { "positions=all", NULL },
    { "mean=0.48145466,0.4578275,0.40821073", NULL },
    { "std=0.26862954,0.26130258,0.27577711", NULL }, { "crop_pct=1", NULL }, { NULL, NULL }
};

static const layout_question questions[] = {
    { SETTING_ACTIVATION, "--set activation=quick_gelu (OpenAI's weights and -quickgelu models) "
      "or --set activation=gelu, or --config open_clip_config.json", NULL },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_open_clip = {
    .name = "open_clip",
    .probe = "conv1.weight",
    .when = { "class_embedding", "positional_embedding", "ln_post.weight", "!attn_pool.probe" },
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .harmless = harmless,
    .company = company, .lacking = lacking, .defaults = defaults, .questions = questions
};

/* Perception Encoder has attention pooling, or neither norm nor projection after the blocks. Its
 * rotary positions count from 1 beside a class token, and do not depend on the size of the grid. */
static const layout_default pe_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "positions=all", NULL },
    { "rope_type=cat", NULL },
    { "rope_grid_indexing=xy", NULL }, { "rope_grid_offset=1", "class_embedding" },
    { "pool_num_heads=8", "attn_pool.probe" }, { "pool_prefix=1", "attn_pool.probe" },
    { "mean=0.5", NULL }, { "std=0.5", NULL }, LAYOUT_SQUASHED, { NULL, NULL }
};

const layout layout_pe_core = {
    .name = "Perception Encoder",
    .probe = "attn_pool.probe",
    .when = { "conv1.weight" },
    .prefixes = prefixes, .blocks = blocks, .rules = pe_rules, .harmless = harmless,
    .company = company, .lacking = lacking, .defaults = pe_defaults
};

const layout layout_pe = {
    .name = "Perception Encoder",
    .probe = "conv1.weight",
    .when = { "!ln_post.weight", "!proj", "{b}ln_1.weight" },
    .prefixes = prefixes, .blocks = blocks, .rules = pe_rules, .harmless = harmless,
    .company = company, .lacking = lacking, .defaults = pe_defaults
};
