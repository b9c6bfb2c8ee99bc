/* timm.c - timm's names, which are those of a .vit file. DeiT, DeiT-3, DINO, MAE, I-JEPA, BEiT,
 * EVA, EVA-02, RoPE-ViT and the original DINOv2 and DINOv3 have them too, with the variants below.
 */
#include "layout/tables/tables.h"

static const char *const prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "encoder.", "base_encoder.", "vit.", "net.",
    "timm_model.", "visual.trunk.", "visual.", "vision_encoder.", "image_encoder.model.", NULL
};

/* The original DINOv2 can divide its blocks into chunks; they stay numbered from first to last. */
static const char *const blocks[] = { "blocks.{c}.{i}.", "blocks.{i}.", NULL };

/* Differential attention: its own layer, or inside a parallel block. */
#define DIFFERENCE(path)                                                                         \
    { "{b}attn.lambda", LAYOUT_LAMBDA, NULL,                                                     \
      { path "lambda_q1", path "lambda_k1", path "lambda_q2", path "lambda_k2" }, LAYOUT_ALWAYS }

/* The stems. A ResNet's weights are standardised in every forward pass, so here once. */
#define STEM "patch_embed.backbone."
#define UNIT STEM "stages.{s}.blocks.{u}."
#define STANDARD(name, key) { name, LAYOUT_STANDARD, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS }

static const layout_rule rules[] = {
    /* DINOv2 with registers: only the class token and the patches have a position */
    { "cls_token", LAYOUT_SUM, NULL, { "cls_token", "pos_embed@0", NULL },
      { "register_tokens", NULL } },
    LAYOUT_MUST_WHEN("cls_token", "cls_token", "rope_embed.periods"),
    LAYOUT_MUST_WHEN("cls_token", "cls_token", "{b}attn.relative_position_bias_table"),
    LAYOUT_MUST_WHEN("cls_token", "cls_token", "rel_pos_bias.relative_position_bias_table"),
    LAYOUT_SAME("cls_token"),
    LAYOUT_SAME("dist_token"),
    LAYOUT_SAME("reg_token"),
    LAYOUT_FROM("reg_token", "register_tokens"),
    LAYOUT_FROM("reg_token", "storage_tokens"),
    LAYOUT_WHEN("pos_embed", "pos_embed@1:", "register_tokens"),
    LAYOUT_SAME("pos_embed"),
    LAYOUT_SAME("rope.cos"),      /* from a .vit file turned back */
    LAYOUT_SAME("rope.sin"),
    LAYOUT_SAME("rope.rotations"),
    LAYOUT_ROPE("rope", "rope_embed.periods"),
    LAYOUT_ROPE("rope", NULL),
    STANDARD(STEM "stem.conv.weight", STEM "stem.conv.weight"),
    STANDARD(STEM "stem.conv.weight", STEM "conv.weight"),   /* without stages */
    LAYOUT_SAME2(STEM "stem.norm"),
    LAYOUT_FROM2(STEM "stem.norm", STEM "norm"),
    STANDARD(UNIT "downsample.conv.weight", UNIT "downsample.conv.weight"),
    LAYOUT_SAME2(UNIT "downsample.norm"),
    STANDARD(UNIT "conv1.weight", UNIT "conv1.weight"),
    LAYOUT_SAME2(UNIT "norm1"),
    STANDARD(UNIT "conv2.weight", UNIT "conv2.weight"),
    LAYOUT_SAME2(UNIT "norm2"),
    STANDARD(UNIT "conv3.weight", UNIT "conv3.weight"),
    LAYOUT_SAME2(UNIT "norm3"),
    LAYOUT_CONV_BN(STEM "0.conv", STEM "0.conv", STEM "0.bn"),
    LAYOUT_SAME2(STEM "0.conv"),   /* from a .vit file turned back */
    LAYOUT_CONV_BN(STEM "1.conv", STEM "1.conv", STEM "1.bn"),
    LAYOUT_SAME2(STEM "1.conv"),
    LAYOUT_VIEW("patch_embed.proj.weight", STEM "2.conv.weight", "dcpq>dcpq"),
    LAYOUT_FROM("patch_embed.proj.bias", STEM "2.conv.bias"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.proj.weight", "dcpq>dcpq"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.proj.weight", "d(cpq)>dcpq"),
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "patch_embed.proj.bias", "!norm_pre.weight"),
    LAYOUT_SAME("patch_embed.proj.bias"),
    LAYOUT_SAME2("patch_embed.pre_norm"),   /* from a .vit file turned back */
    LAYOUT_SAME2("patch_embed.norm"),
    LAYOUT_SAME2("norm_pre"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_FROM2("{b}norm1", "{b}in_norm"),
    LAYOUT_ROWS3("{b}attn.qkv.weight", NULL, "{b}attn.q_proj.weight", "{b}attn.k_proj.weight",
                 "{b}attn.v_proj.weight"),
    LAYOUT_QKV("{b}attn.q", "{b}attn.k", "{b}attn.v"),   /* for --rename: nobody publishes them */
    /* DINOv3 masks the bias of the keys */
    { "{b}attn.qkv.bias", LAYOUT_PRODUCT, NULL, { "{b}attn.qkv.bias", "{b}attn.qkv.bias_mask" },
      LAYOUT_ALWAYS },
    LAYOUT_SAME2("{b}attn.qkv"),
    LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, "{b}attn.q_bias", "0", "{b}attn.v_bias"),
    LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, "{b}attn.q_proj.bias", "0", "{b}attn.v_proj.bias"),
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}in_proj.weight@-3d:"),
    LAYOUT_FROM("{b}attn.qkv.bias", "{b}in_proj.bias@-3d:"),
    LAYOUT_SAME2("{b}attn.q_norm"),
    LAYOUT_SAME2("{b}attn.k_norm"),
    LAYOUT_FROM2("{b}attn.q_norm", "{b}q_norm"),
    LAYOUT_FROM2("{b}attn.k_norm", "{b}k_norm"),
    LAYOUT_SAME("{b}attn.rope.cos"),
    LAYOUT_SAME("{b}attn.rope.sin"),
    LAYOUT_SAME("{b}attn.rope.rotations"),
    LAYOUT_ROPE("{b}attn.rope", "rope.freqs"),
    LAYOUT_ROPE("{b}attn.rope", "freqs"),
    LAYOUT_SAME("{b}attn.rel_pos"),
    { "{b}attn.rel_pos", LAYOUT_REL_POS, "nh>hn", { "{b}attn.relative_position_bias_table" },
      LAYOUT_ALWAYS },
    { "{b}attn.rel_pos", LAYOUT_REL_POS, "nh>hn", { "rel_pos_bias.relative_position_bias_table" },
      LAYOUT_ALWAYS },
    LAYOUT_SAME("{b}attn.lambda"),
    DIFFERENCE("{b}attn."),
    DIFFERENCE("{b}"),
    LAYOUT_WHEN("{b}attn.sub_norm.weight", "{b}attn.sub_norm.weight", "{b}attn.lambda"),
    { "{b}attn.sub_norm.weight", LAYOUT_LESS_LAMBDA, NULL, { "{b}attn.sub_norm.weight" },
      LAYOUT_ALWAYS },
    { "{b}attn.sub_norm.weight", LAYOUT_LESS_LAMBDA, NULL, { "{b}sub_norm.weight" },
      LAYOUT_ALWAYS },
    LAYOUT_SAME2("{b}attn.norm"),
    LAYOUT_FROM2("{b}attn.norm", "{b}attn.inner_attn_ln"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_FROM2("{b}attn.proj", "{b}attn_out_proj"),
    LAYOUT_FROM("{b}attn.proj.weight", "{b}out_proj.weight@,:1d"),
    LAYOUT_FROM("{b}attn.proj.bias", "{b}out_proj.bias"),
    LAYOUT_SAME("{b}ls1.gamma"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}ls.gamma"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}gamma_1"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_SAME2("{b}mlp.fc1"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.fc1_g.weight", "{b}mlp.fc1_x.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.fc1_g.bias", "{b}mlp.fc1_x.bias"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.w1.weight", "{b}mlp.w2.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.w1.bias", "{b}mlp.w2.bias"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.w12"),
    LAYOUT_FROM("{b}mlp.fc1.weight", "{b}in_proj.weight@:-3d"),
    LAYOUT_FROM("{b}mlp.fc1.bias", "{b}in_proj.bias@:-3d"),
    LAYOUT_FROM("{b}mlp.fc1.bias", "{b}mlp_bias"),
    LAYOUT_SAME2("{b}mlp.norm"),
    LAYOUT_FROM2("{b}mlp.norm", "{b}mlp.ffn_ln"),
    LAYOUT_SAME2("{b}mlp.fc2"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.w3"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp_out_proj"),
    LAYOUT_FROM("{b}mlp.fc2.weight", "{b}out_proj.weight@,1d:"),
    LAYOUT_ZEROS("{b}mlp.fc2.bias", "{b}out_proj.bias"),
    LAYOUT_SAME("{b}ls2.gamma"),
    LAYOUT_FROM("{b}ls2.gamma", "{b}gamma_2"),
    LAYOUT_MUST_WHEN("norm.weight", "norm.weight", "!fc_norm.weight"),
    LAYOUT_SAME2("norm"),
    LAYOUT_SAME("attn_pool.q"),   /* from a .vit file turned back */
    { "attn_pool.q", LAYOUT_LINEAR, NULL,
      { "attn_pool.latent", "attn_pool.q.weight", "attn_pool.q.bias" }, LAYOUT_ALWAYS },
    { "attn_pool.q", LAYOUT_LINEAR, NULL, { "attn_pool.latent", "attn_pool.q.weight", NULL },
      { "!attn_pool.kv.bias", NULL } },
    LAYOUT_SAME2("attn_pool.kv"),
    LAYOUT_SAME2("attn_pool.proj"),
    LAYOUT_SAME2("attn_pool.norm"),
    LAYOUT_SAME2("attn_pool.mlp.fc1"),
    LAYOUT_SAME2("attn_pool.mlp.fc2"),
    LAYOUT_SAME2("fc_norm"),
    LAYOUT_SAME2("pre_logits.fc"),
    LAYOUT_SAME2("head"),
    /* open_clip around a model of timm: a projection beside it, without a bias */
    LAYOUT_FROM("head.weight", "../head.proj.weight"),
    LAYOUT_FROM("head.bias", "../head.proj.bias"),
    LAYOUT_ZEROS("head.bias", "../head.proj.weight"),
    LAYOUT_SAME2("head_dist"),
    LAYOUT_END
};

static const layout_extra harmless[] = {
    { "mask_token", "of pre-training" },
    { "decoder_embed.*", "of pre-training (MAE)" },
    { "decoder_pos_embed", "of pre-training (MAE)" },
    { "decoder_blocks.*", "of pre-training (MAE)" },
    { "decoder_norm.*", "of pre-training (MAE)" },
    { "decoder_pred.*", "of pre-training (MAE)" },
    { "*position_ids", "an index, not a weight" },
    { "patch_embed.backbone.*.num_batches_tracked", "of training" },
    { "head_dist.*", "of a distilled teacher; without a distillation token it is not run" },
    { "lm_head.*", "of pre-training" },
    { "text_*", "of a text tower" },
    { "logit_scale", "of contrastive training" },
    { "*relative_position_index", "an index, not a weight" },
    { "*rope.freqs_*", "tables that depend on the size" },
    { "freqs_t_[xy]", "tables that depend on the size" },
    { "local_cls_norm.*", "of training with crops (DINOv3)" },
    { "projectors.*", "of distillation (EUPE)" },
    { "../dino_head.*", "projection head of DINOv2" },
    { "../ibot_head.*", "projection head of DINOv2" },
    { "../text.*", "of a text tower" },
    { "../logit_bias", "of contrastive training" },
    { "../token_embedding.weight", "of a text tower" },
    { "../text_projection", "of a text tower" },
    { NULL, NULL }
};

static const layout_company company[] = {
    { "../head.mlp.*", "../head.last_layer.weight_g", "projection head of DINO" },
    { "../head.last_layer.*", "../head.last_layer.weight_g", "projection head of DINO" },
    { "../transformer.*", "../token_embedding.weight", "of a text tower" },
    { "../positional_embedding", "../token_embedding.weight", "of a text tower" },
    { "../ln_final.*", "../token_embedding.weight", "of a text tower" },
    { NULL, NULL, NULL }
};

static const layout_extra lacking[] = {
    { "blocks.*.attn.rel_pos_*", "decomposed relative positions (SAM)" },
    { "blocks.*.attn.rel_pos.*", "relative positions" },
    { "neck.*", "SAM's neck" },
    { "blocks.*.lambda_[ab]", "differential attention with dual_lambda" },
    { "blocks.*.attn.gate.*", "gated attention" },
    { "blocks.*.attns.*", "two attentions and two MLPs side by side (block_fn)" },
    { "cls_norm.*", "a norm of its own for the class token (DINOv3)" },
    { "patch_embed.backbone.layer[1-4].*", "this convolutional stem (a ResNet-D)" },
    { "patch_embed.proj.[0-9]*", "a convolutional stem" },
    { "../head.mlp.fc*", "an MLP as projection head" },
    { NULL, NULL }
};

/* Names that tell which half is the gate: timm and DINOv2 have SiLU there and nothing else. */
static const layout_default defaults[] = {
    { "activation=silu", "{b}mlp.fc1_g.weight" },
    { "activation=silu", "{b}mlp.w12.weight" },
    { "activation=silu", "{b}mlp.w1.weight" },
    { "positions=patches", "register_tokens" },
    { "block_type=parallel", "{b}in_proj.weight" },
    /* the original EVA-02, whose freqs_cos follows from these */
    { "rope_type=cat", "{b}attn.rope.freqs_cos" },
    { "ref_feat_shape=16", "{b}attn.rope.freqs_cos" },
    /* the original DINOv3 */
    { "rope_type=dinov3", "rope_embed.periods" },
    { "norm_eps=1e-5", "rope_embed.periods" },
    { "activation=gelu", "rope_embed.periods" },
    { "pool=token", "rope_embed.periods" },
    { "mean=0.485,0.456,0.406", "rope_embed.periods" },
    { "std=0.229,0.224,0.225", "rope_embed.periods" },
    /* RoPE-ViT */
    { "rope_type=mixed", "rope.freqs" },
    { "rope_type=mixed", "freqs" },
    { "rope_grid_indexing=xy", "rope.freqs" },
    { "rope_grid_indexing=xy", "freqs" },
    { "rope_type=none", "{b}attn.relative_position_bias_table" },
    { "rope_type=none", "rel_pos_bias.relative_position_bias_table" },
    { NULL, NULL }
};

/* Names that only EVA, EVA-02 and BEiT have; of these, EVA-02 has rotary positions. */
#define ROPE_TYPES                                                                               \
    "--set rope_type=none or --set rope_type=cat (EVA-02; and ref_feat_shape), --arch NAME or "  \
    "--config FILE"

static const layout_question questions[] = {
    { SETTING_ROPE_TYPE, ROPE_TYPES, "{b}attn.q_bias" },
    { SETTING_ROPE_TYPE, ROPE_TYPES, "{b}attn.q_proj.weight" },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_timm = {
    .name = "timm",
    .probe = "patch_embed.proj.weight",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .is_open = true,
    .harmless = harmless, .company = company, .lacking = lacking, .defaults = defaults,
    .questions = questions
};

/* MobileCLIP-B, whose patch embedding is the last convolution of its stem. */
const layout layout_timm_conv = {
    .name = "timm",
    .probe = "patch_embed.backbone.2.conv.weight",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .is_open = true,
    .harmless = harmless, .company = company, .lacking = lacking, .defaults = defaults
};
