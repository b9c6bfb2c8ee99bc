/* clang-format off */ /* the rows below form tables */
#include "layout/layout.h"

#include <stddef.h>

/* === The list === */

const char *const layout_wrappers[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "net.", "vit.", NULL
};

const layout *const layout_all[] = {
#define X(name) &layout_##name,
    LAYOUT_LIST(X)
#undef X
    NULL
};

const layout *const layout_texts[] = { &layout_hf_text, &layout_open_clip_text,
                                             &layout_mobileclip_text, NULL };

/* === timm === */

/* A .vit file uses the names of timm. DeiT, DeiT-3, DINO, MAE, I-JEPA, BEiT, EVA, EVA-02, RoPE-ViT
 * and the original DINOv2 and DINOv3 use these names too. The rules below list the names that
 * differ. */

static const char *const prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "encoder.", "base_encoder.", "vit.", "net.",
    "timm_model.", "visual.trunk.", "visual.", "vision_encoder.", "image_encoder.model.",
    "vision_model.", "pretrained.", NULL
};

/* The original DINOv2 can divide its blocks into chunks. The numbers of the blocks continue from
 * one chunk to the next. */
static const char *const blocks[] = { "blocks.{c}.{i}.", "blocks.{i}.", NULL };

/* The vectors of differential attention. They are in a separate layer, or inside a parallel
 * block. */
#define DIFFERENCE(path)                                                                         \
    { "{b}attn.lambda", LAYOUT_LAMBDA, NULL,                                                     \
      { path "lambda_q1", path "lambda_k1", path "lambda_q2", path "lambda_k2" }, LAYOUT_ALWAYS }

/* The MLP that computes relative positions. vit_relpos has an MLP for each block, or one for all
 * blocks. */
#define REL_POS_MLP(path)                                                                          \
    { "{b}attn.rel_pos", LAYOUT_REL_POS_MLP, NULL,                                               \
      { path "fc1.weight", path "fc1.bias", path "fc2.weight", path "fc2.bias" }, LAYOUT_ALWAYS }

/* The stems. The ResNet of a hybrid standardises its weights in every forward pass. The converter
 * does this once. */
#define STEM "patch_embed.backbone."
#define UNIT STEM "stages.{s}.blocks.{u}."
#define STANDARD(name, key) { name, LAYOUT_STANDARD, NULL, { key, NULL, NULL }, LAYOUT_ALWAYS }

static const layout_rule rules[] = {
    /* in DINOv2 with registers, only the class token and the patches have positions */
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
    LAYOUT_FROM("cls_token", "embeds.cls_token"),   /* naflexvit */
    LAYOUT_FROM("reg_token", "embeds.reg_token"),
    LAYOUT_VIEW("pos_embed", "embeds.pos_embed", "aijd>ijd"),
    { "pos_embed", LAYOUT_OUTER, NULL, { "embeds.pos_embed_y", "embeds.pos_embed_x" },
      LAYOUT_ALWAYS },
    LAYOUT_SAME("rope.cos"),      /* written by --to safetensors */
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
    LAYOUT_SAME2(STEM "0.conv"),   /* written by --to safetensors */
    LAYOUT_CONV_BN(STEM "1.conv", STEM "1.conv", STEM "1.bn"),
    LAYOUT_SAME2(STEM "1.conv"),
    LAYOUT_VIEW("patch_embed.proj.weight", STEM "2.conv.weight", "dcpq>dcpq"),
    LAYOUT_FROM("patch_embed.proj.bias", STEM "2.conv.bias"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeds.proj.weight", "d(pqc)>dcpq"),
    LAYOUT_FROM("patch_embed.proj.bias", "embeds.proj.bias"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.proj.weight", "dcpq>dcpq"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.proj.weight", "d(cpq)>dcpq"),
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "patch_embed.proj.bias", "!norm_pre.weight"),
    LAYOUT_SAME("patch_embed.proj.bias"),
    LAYOUT_SAME2("patch_embed.pre_norm"),   /* written by --to safetensors */
    LAYOUT_SAME2("patch_embed.norm"),
    LAYOUT_SAME2("norm_pre"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_FROM2("{b}norm1", "{b}in_norm"),
    LAYOUT_ROWS3("{b}attn.qkv.weight", NULL, "{b}attn.q_proj.weight", "{b}attn.k_proj.weight",
                 "{b}attn.v_proj.weight"),
    /* --rename may give these names; no published model has them */
    LAYOUT_QKV("{b}attn.q", "{b}attn.k", "{b}attn.v"),
    /* DINOv3 multiplies the bias by a mask, which is zero for the keys */
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
    REL_POS_MLP("{b}attn.rel_pos.mlp."),
    REL_POS_MLP("shared_rel_pos.mlp."),
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
    LAYOUT_SAME("attn_pool.q"),   /* written by --to safetensors */
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
    /* open_clip puts a separate projection, without a bias, after timm's model */
    LAYOUT_FROM("head.weight", "../head.proj.weight"),
    LAYOUT_FROM("head.bias", "../head.proj.bias"),
    LAYOUT_ZEROS("head.bias", "../head.proj.weight"),
    LAYOUT_SAME2("head_dist"),
    LAYOUT_SAME2("merger.norm"),
    LAYOUT_SAME2("merger.fc1"),
    LAYOUT_SAME2("merger.fc2"),
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
    { "head_dist.*", "of the distillation head, which requires a distillation token" },
    { "lm_head.*", "of pre-training" },
    { "text_*", "of a text tower" },
    { "logit_scale", "of contrastive training" },
    { "*relative_position_index", "an index, not a weight" },
    { "*rope.freqs_*", "tables that depend on the input size" },
    { "freqs_t_[xy]", "tables that depend on the input size" },
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
    { "../depth_head.*", "../depth_head.projects.0.weight", "of a depth decoder (Depth Anything)" },
    { NULL, NULL, NULL }
};

static const layout_extra lacking[] = {
    { "blocks.*.attn.rel_pos_*", "decomposed relative positions (SAM)" },
    { "blocks.*.attn.rel_pos.rel*", "a table of relative positions (RelPosBias)" },
    { "blocks.*.attn.rope_reg.*", "rotary positions of register tokens (ViT-5)" },
    { "merger.mlp.*", "patches of two frames and their merger (Qwen-VL)" },
    { "neck.*", "SAM's neck" },
    { "blocks.*.lambda_[ab]", "differential attention with dual_lambda" },
    { "blocks.*.attn.gate.*", "gated attention" },
    { "blocks.*.attns.*", "two attentions and two MLPs side by side (block_fn)" },
    { "cls_norm.*", "a separate norm for the class token (DINOv3)" },
    { "patch_embed.backbone.layer[1-4].*", "this convolutional stem (a ResNet-D)" },
    { "patch_embed.proj.[0-9]*", "a convolutional stem" },
    { "../head.mlp.fc*", "an MLP as projection head" },
    { NULL, NULL }
};

/* Models with these names have a gated MLP. Their gate always has SiLU, in timm and in DINOv2. */
static const layout_default defaults[] = {
    { "activation=silu", "{b}mlp.fc1_g.weight" },
    { "activation=silu", "{b}mlp.w12.weight" },
    { "activation=silu", "{b}mlp.w1.weight" },
    { "positions=patches", "register_tokens" },
    { "block_type=parallel", "{b}in_proj.weight" },
    /* the original EVA-02, whose table freqs_cos can be computed from these two settings */
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

/* Only EVA, EVA-02 and BEiT have these names. Of these three, only EVA-02 has rotary positions. */
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

/* MobileCLIP-B. Its patch embedding is the last convolution of its stem. */
const layout layout_timm_conv = {
    .name = "timm",
    .probe = "patch_embed.backbone.2.conv.weight",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .is_open = true,
    .harmless = harmless, .company = company, .lacking = lacking, .defaults = defaults
};

/* NaFlexVit. Positions may be resampled to the grid, or to a square that is then cut ("par",
 * "parfac"). No tensor shows which of the two a model does. */
static const layout_default naflex_defaults[] = {
    { "crop_mode=aspect", NULL },
    { "dynamic_img_size=1", NULL },
    { "positions=patches", NULL },
    { "max_patches=576", NULL },
    { "pool=avg", "fc_norm.weight" },
    { "crop_pct=1", NULL },
    { "interpolation=bicubic", NULL },
    { "mean=0.5", NULL },
    { "std=0.5", NULL },
    { NULL, NULL }
};

#define RESAMPLES                                                                                \
    "--set pos_resample=timm, par (naflexvit_*_par_*) or parfac (naflexvit_*_parfac_*), "        \
    "--arch NAME or --config FILE"

static const layout_question naflex_questions[] = {
    { SETTING_POS_RESAMPLE, RESAMPLES, "embeds.proj.weight" },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_timm_naflex = {
    .name = "timm",
    .probe = "embeds.proj.weight",
    .prefixes = prefixes, .blocks = blocks, .rules = rules, .is_open = true,
    .harmless = harmless, .company = company, .lacking = lacking, .defaults = naflex_defaults,
    .questions = naflex_questions
};

/* === transformers === */

/* The names of Hugging Face transformers. If a model has a head, the names of all other tensors
 * begin with "vit." or a similar prefix. The classifier has no such prefix. */

static const char *const encoder_blocks[] = { "encoder.layer.{i}.", NULL };

#define ATTENTION(path)                                                                          \
    LAYOUT_QKV("{b}" path "query", "{b}" path "key", "{b}" path "value"),                        \
    /* in BEiT the keys have no bias */                                                          \
    LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, "{b}" path "query.bias", "0", "{b}" path "value.bias")

/* === ViT, DeiT, MAE, MSN, DINO, I-JEPA, BEiT, Data2Vec === */

static const char *const vit_prefixes[] = {
    "module.", "_orig_mod.", "model.", "vit.", "deit.", "ijepa.", "beit.", "data2vec_vision.",
    "base_model.", "encoder.", "backbone.", NULL
};

/* DeiT's distillation token has a head only in the model "with teacher", which has two heads. If a
 * model has only one head, its distillation token has no head of its own. The token is then
 * converted to a register that has a position. */
#define ONE_HEAD "../classifier.weight"
/* This bias exists in all models but BEiT. */
#define KEY_BIAS "{b}attention.attention.key.bias"

/* BEiT's table of relative positions. There is a table for each block, or one for all blocks. */
#define TABLE(path) path "relative_position_bias.relative_position_bias_table"
#define REL_POS(path)                                                                            \
    { "{b}attn.rel_pos", LAYOUT_REL_POS, "nh>hn", { TABLE(path) }, LAYOUT_ALWAYS }

static const layout_rule vit_rules[] = {
    LAYOUT_MUST_WHEN("cls_token", "embeddings.cls_token", TABLE("{b}attention.attention.")),
    LAYOUT_MUST_WHEN("cls_token", "embeddings.cls_token", TABLE("encoder.")),
    LAYOUT_FROM("cls_token", "embeddings.cls_token"),
    { "dist_token", LAYOUT_STACK, NULL, { "embeddings.distillation_token", NULL, NULL },
      { "!" ONE_HEAD, NULL } },
    LAYOUT_WHEN("reg_token", "embeddings.distillation_token", ONE_HEAD),
    LAYOUT_MUST_WHEN("pos_embed", "embeddings.position_embeddings", KEY_BIAS),
    LAYOUT_FROM("pos_embed", "embeddings.position_embeddings"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight",
                "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "embeddings.patch_embeddings.projection.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}layernorm_before"),
    ATTENTION("attention.attention."),
    REL_POS("{b}attention.attention."),
    REL_POS("encoder."),
    LAYOUT_FROM2("{b}attn.proj", "{b}attention.output.dense"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}lambda_1"),
    LAYOUT_FROM2("{b}norm2", "{b}layernorm_after"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}intermediate.dense"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}output.dense"),
    LAYOUT_FROM("{b}ls2.gamma", "{b}lambda_2"),
    LAYOUT_MUST_WHEN2("norm", "layernorm", "!pooler.layernorm.weight"),
    LAYOUT_FROM2("fc_norm", "pooler.layernorm"),
    /* the pooler of a model without a head, unless the model has DeiT's distillation token */
    { "pre_logits.fc.weight", LAYOUT_STACK, NULL, { "pooler.dense.weight", NULL, NULL },
      { "!" ONE_HEAD, "!embeddings.distillation_token" } },
    { "pre_logits.fc.bias", LAYOUT_STACK, NULL, { "pooler.dense.bias", NULL, NULL },
      { "!" ONE_HEAD, "!embeddings.distillation_token" } },
    LAYOUT_FROM2("head", "../classifier"),
    LAYOUT_FROM2("head", "../cls_classifier"),
    LAYOUT_FROM2("head_dist", "../distillation_classifier"),
    LAYOUT_END
};

static const layout_extra vit_harmless[] = {
    { "embeddings.mask_token", "of pre-training" },
    { "embeddings.position_ids", "an index, not a weight" },
    { "*relative_position_index", "an index, not a weight" },
    { "pooler.dense.*", "a pooler that the head does not read" },
    { "../lm_head.*", "of pre-training" },
    { NULL, NULL }
};

static const layout_company vit_company[] = {
    { "../decoder.*", "../decoder.mask_token", "of pre-training (MAE)" },
    { "../decoder.*", "embeddings.mask_token", "of pre-training" },
    { NULL, NULL, NULL }
};

static const layout_extra vit_lacking[] = {
    { "../decode_head.*", "the head of a dense prediction model" },
    { NULL, NULL }
};

static const layout_default vit_defaults[] = {
    { "norm_eps=1e-12", NULL }, { "activation=gelu", NULL },
    { "pool=avg", "!embeddings.cls_token" }, { "pool=avg", "pooler.layernorm.weight" },
    { "positions=all", "embeddings.position_embeddings" },
    { "pos_resample=transformers", "embeddings.position_embeddings" },
    { "pos_resample=transformers", TABLE("{b}attention.attention.") },
    { "pos_resample=transformers", TABLE("encoder.") }, { NULL, NULL }
};

const layout layout_hf_vit = {
    .name = "transformers ViT",
    .probe = "embeddings.patch_embeddings.projection.weight",
    .when = { "{b}layernorm_before.weight" },
    .prefixes = vit_prefixes, .blocks = encoder_blocks, .rules = vit_rules,
    .harmless = vit_harmless, .company = vit_company, .lacking = vit_lacking,
    .defaults = vit_defaults
};

/* === DINOv2, with or without registers, and the files of dinov2.cpp === */

static const char *const dinov2_prefixes[] = {
    "module.", "_orig_mod.", "model.", "dinov2.", "dinov2_with_registers.", "base_model.",
    "encoder.", "backbone.", NULL
};

#define REGISTERS "embeddings.register_tokens"

static const layout_rule dinov2_rules[] = {
    { "cls_token", LAYOUT_SUM, NULL,
      { "embeddings.cls_token", "embeddings.position_embeddings@0", NULL }, { REGISTERS, NULL } },
    LAYOUT_FROM("cls_token", "embeddings.cls_token"),
    LAYOUT_FROM("reg_token", REGISTERS),
    LAYOUT_WHEN("pos_embed", "embeddings.position_embeddings@1:", REGISTERS),
    LAYOUT_MUST("pos_embed", "embeddings.position_embeddings"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight",
                "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "embeddings.patch_embeddings.projection.bias"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_QKV("{b}attention.attention.query", "{b}attention.attention.key",
               "{b}attention.attention.value"),
    LAYOUT_FROM2("{b}attn.qkv", "{b}attention.attention.qkv"),
    LAYOUT_FROM2("{b}attn.proj", "{b}attention.output.dense"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}layer_scale1.lambda1"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_SAME2("{b}mlp.fc1"),
    LAYOUT_SAME2("{b}mlp.fc2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.weights_in"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.weights_out"),
    LAYOUT_FROM("{b}ls2.gamma", "{b}layer_scale2.lambda1"),
    LAYOUT_MUST2("norm", "layernorm"),
    LAYOUT_FROM2("head", "../classifier"),
    LAYOUT_FROM2("head", "classifier"),
    LAYOUT_END
};

static const layout_extra dinov2_harmless[] = {
    { "embeddings.mask_token", "of pre-training" }, { NULL, NULL }
};

#define NECK "../neck.reassemble_stage.layers.0.projection.weight"

static const layout_company dinov2_company[] = {
    { "../neck.*", NECK, "of a depth decoder (Depth Anything)" },
    { "../head.*", NECK, "of a depth decoder (Depth Anything)" },
    { NULL, NULL, NULL }
};

#define DINOV2_CPP "{b}attention.attention.qkv.weight"

/* If the model has registers, its positions are resampled as in timm. The files of dinov2.cpp do
 * not state how images are prepared, so the preparation of the original DINOv2 is assumed. */
static const layout_default dinov2_defaults[] = {
    { "mean=0.485,0.456,0.406", DINOV2_CPP }, { "std=0.229,0.224,0.225", DINOV2_CPP },
    { "crop_pct=0.875", DINOV2_CPP },
    { "norm_eps=1e-6", NULL },
    { "activation=silu", "{b}mlp.weights_in.weight" },
    { "activation=gelu", "!{b}mlp.weights_in.weight" },
    { "positions=patches", REGISTERS },
    { "positions=all", "!" REGISTERS },
    { "pos_resample=transformers", "!" REGISTERS },
    { NULL, NULL }
};

const layout layout_hf_dinov2 = {
    .name = "transformers DINOv2",
    .probe = "embeddings.patch_embeddings.projection.weight",
    .when = { "{b}norm1.weight", "{b}attention.output.dense.weight" },
    .prefixes = dinov2_prefixes, .blocks = encoder_blocks, .rules = dinov2_rules,
    .harmless = dinov2_harmless, .company = dinov2_company, .defaults = dinov2_defaults
};

/* === DINOv3 === */

static const char *const dinov3_prefixes[] = {
    "module.", "_orig_mod.", "model.", "dinov3_vit.", "base_model.", "backbone.", NULL
};

static const char *const dinov3_blocks[] = { "layer.{i}.", "model.layer.{i}.", NULL };

static const layout_rule dinov3_rules[] = {
    LAYOUT_FROM("cls_token", "embeddings.cls_token"),
    LAYOUT_FROM("reg_token", REGISTERS),
    LAYOUT_ROPE("rope", NULL),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embeddings.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "embeddings.patch_embeddings.bias"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_QKV("{b}attention.q_proj", "{b}attention.k_proj", "{b}attention.v_proj"),
    LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, "{b}attention.q_proj.bias", "0",
                 "{b}attention.v_proj.bias"),
    LAYOUT_FROM2("{b}attn.proj", "{b}attention.o_proj"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}layer_scale1.lambda1"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.gate_proj.weight", "{b}mlp.up_proj.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.gate_proj.bias", "{b}mlp.up_proj.bias"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.up_proj"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.down_proj"),
    LAYOUT_FROM("{b}ls2.gamma", "{b}layer_scale2.lambda1"),
    LAYOUT_SAME2("norm"),
    LAYOUT_FROM2("head", "../classifier"),
    LAYOUT_END
};

static const layout_default dinov3_defaults[] = {
    { "rope_type=dinov3", NULL }, { "norm_eps=1e-5", NULL },
    { "activation=silu", "{b}mlp.gate_proj.weight" },
    { "activation=gelu", "!{b}mlp.gate_proj.weight" }, { NULL, NULL }
};

const layout layout_hf_dinov3 = {
    .name = "transformers DINOv3",
    .probe = "embeddings.patch_embeddings.weight",
    .when = { "embeddings.cls_token" },
    .prefixes = dinov3_prefixes, .blocks = dinov3_blocks, .rules = dinov3_rules,
    .harmless = dinov2_harmless, .company = dinov2_company, .defaults = dinov3_defaults
};

/* === CLIP's and SigLIP's vision towers === */

static const char *const tower_prefixes[] = {
    "module.", "_orig_mod.", "model.", "vision_model.", "vision_tower.", "clip.", "siglip.", NULL
};

static const char *const tower_blocks[] = { "encoder.layers.{i}.", NULL };

#define TOWER_BLOCK                                                                              \
    LAYOUT_FROM2("{b}norm1", "{b}layer_norm1"),                                                  \
    LAYOUT_QKV("{b}self_attn.q_proj", "{b}self_attn.k_proj", "{b}self_attn.v_proj"),             \
    LAYOUT_FROM2("{b}attn.proj", "{b}self_attn.out_proj"),                                       \
    LAYOUT_FROM2("{b}norm2", "{b}layer_norm2"),                                                  \
    LAYOUT_SAME2("{b}mlp.fc1"),                                                                  \
    LAYOUT_SAME2("{b}mlp.fc2")

/* CLIPForImageClassification averages the patches directly after the blocks, without a norm. */
static const layout_rule clip_rules[] = {
    LAYOUT_FROM("cls_token", "embeddings.class_embedding"),
    LAYOUT_MUST("pos_embed", "embeddings.position_embedding.weight"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embedding.weight", "dcpq>dcpq"),
    LAYOUT_FROM("patch_embed.proj.bias", "embeddings.patch_embedding.bias"),
    LAYOUT_FROM2("norm_pre", "pre_layrnorm"),
    LAYOUT_FROM2("norm_pre", "pre_layernorm"),
    TOWER_BLOCK,
    LAYOUT_MUST_WHEN2("norm", "post_layernorm", "!" ONE_HEAD),
    LAYOUT_FROM2("head", "../classifier"),
    LAYOUT_MUST_WHEN("head.weight", "../visual_projection.weight", "../logit_scale"),
    LAYOUT_FROM("head.weight", "../visual_projection.weight"),
    LAYOUT_ZEROS("head.bias", "../visual_projection.weight"),
    LAYOUT_END
};

static const layout_extra tower_harmless[] = {
    { "embeddings.position_ids", "an index, not a weight" },
    { "post_layernorm.*", "a norm that the head does not read" },
    { "../text_model.*", "of a text tower" },
    { "../text_projection.*", "of a text tower" },
    { "../logit_scale", "of contrastive training" },
    { "../logit_bias", "of contrastive training" },
    { NULL, NULL }
};

static const layout_company tower_company[] = {
    { "head.*", "head.probe", "a pooling that the head does not read" }, { NULL, NULL, NULL }
};

static const layout_default clip_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "pool=avg", ONE_HEAD }, { "positions=all", NULL },
    { "pos_resample=transformers", NULL },
    { NULL, NULL }
};

static const layout_question clip_questions[] = {
    { SETTING_ACTIVATION, "--set activation=quick_gelu (OpenAI's weights), --set activation=gelu "
      "or --config config.json", NULL },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_hf_clip = {
    .name = "transformers CLIP",
    .probe = "embeddings.patch_embedding.weight",
    .when = { "embeddings.class_embedding" },
    .prefixes = tower_prefixes, .blocks = tower_blocks, .rules = clip_rules,
    .harmless = tower_harmless, .defaults = clip_defaults, .questions = clip_questions
};

#define PROBE "head.probe"

static const layout_rule siglip_rules[] = {
    LAYOUT_MUST("pos_embed", "embeddings.position_embedding.weight"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embedding.weight", "dcpq>dcpq"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embedding.weight", "d(pqc)>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "embeddings.patch_embedding.bias"),
    TOWER_BLOCK,
    LAYOUT_MUST2("norm", "post_layernorm"),
    { "attn_pool.q", LAYOUT_LINEAR, NULL,
      { PROBE, "head.attention.in_proj_weight#0/3", "head.attention.in_proj_bias#0/3" },
      { "!" ONE_HEAD, NULL } },
    LAYOUT_ROWS2("attn_pool.kv.weight", NULL, "head.attention.in_proj_weight#1/3",
                 "head.attention.in_proj_weight#2/3"),
    LAYOUT_ROWS2("attn_pool.kv.bias", NULL, "head.attention.in_proj_bias#1/3",
                 "head.attention.in_proj_bias#2/3"),
    LAYOUT_FROM2("attn_pool.proj", "head.attention.out_proj"),
    LAYOUT_FROM2("attn_pool.norm", "head.layernorm"),
    LAYOUT_FROM2("attn_pool.mlp.fc1", "head.mlp.fc1"),
    LAYOUT_FROM2("attn_pool.mlp.fc2", "head.mlp.fc2"),
    LAYOUT_FROM2("head", "../classifier"),
    LAYOUT_END
};

static const layout_default siglip_defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu_tanh", NULL }, { "pool=avg", ONE_HEAD },
    { "pos_resample=transformers", NULL }, { NULL, NULL }
};

const layout layout_hf_siglip = {
    .name = "transformers SigLIP",
    .probe = "embeddings.patch_embedding.weight",
    .when = { "!embeddings.class_embedding", "!pre_layrnorm.weight" },
    .prefixes = tower_prefixes, .blocks = tower_blocks, .rules = siglip_rules,
    .harmless = tower_harmless, .company = tower_company, .defaults = siglip_defaults
};

#ifndef __wasi__

/* === The image encoders of llama.cpp and clip.cpp === */

/* The towers of CLIP, SigLIP and InternVL. Some programs that write such files drop the last block
 * and the norm after it, because language models read the output of the block before. */

static const char *const llama_cpp_prefixes[] = { "v.", NULL };
static const char *const llama_cpp_blocks[] = { "blk.{i}.", NULL };

#define CLIP_HEAD "../visual_projection.weight"

static const layout_rule llama_cpp_rules[] = {
    LAYOUT_FROM("cls_token", "class_embd"),
    LAYOUT_MUST("pos_embed", "position_embd.weight"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embd.weight", "dcpq>dcpq"),
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "patch_embd.bias", "!pre_ln.weight"),
    LAYOUT_FROM("patch_embed.proj.bias", "patch_embd.bias"),
    LAYOUT_FROM2("norm_pre", "pre_ln"),
    LAYOUT_FROM2("{b}norm1", "{b}ln1"),
    LAYOUT_QKV("{b}attn_q", "{b}attn_k", "{b}attn_v"),
    LAYOUT_FROM2("{b}attn.qkv", "{b}attn_qkv"),
    LAYOUT_FROM2("{b}attn.proj", "{b}attn_out"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}ls1.weight"),
    LAYOUT_FROM2("{b}norm2", "{b}ln2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}ffn_up"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}ffn_down"),
    LAYOUT_FROM("{b}ls2.gamma", "{b}ls2.weight"),
    LAYOUT_MUST_WHEN2("norm", "post_ln", CLIP_HEAD),
    LAYOUT_FROM2("norm", "post_ln"),
    { "attn_pool.q", LAYOUT_LINEAR, NULL,
      { PROBE, "head.attention.in_weight#0/3", "head.attention.in_bias#0/3" },
      { "post_ln.weight", NULL } },
    LAYOUT_WHEN("attn_pool.kv.weight", "head.attention.in_weight@1d:", "post_ln.weight"),
    LAYOUT_WHEN("attn_pool.kv.bias", "head.attention.in_bias@1d:", "post_ln.weight"),
    LAYOUT_WHEN2("attn_pool.proj", "head.attention.out", "post_ln.weight"),
    LAYOUT_WHEN2("attn_pool.norm", "head.ln", "post_ln.weight"),
    LAYOUT_WHEN2("attn_pool.mlp.fc1", "head.ffn_up", "post_ln.weight"),
    LAYOUT_WHEN2("attn_pool.mlp.fc2", "head.ffn_down", "post_ln.weight"),
    LAYOUT_MUST_WHEN("head.weight", CLIP_HEAD, "../text_projection.weight"),
    LAYOUT_FROM("head.weight", CLIP_HEAD),
    LAYOUT_ZEROS("head.bias", CLIP_HEAD),
    LAYOUT_END
};

static const layout_extra llama_cpp_harmless[] = {
    { "../later.*", "of later blocks, whose outputs the language model does not use" },
    { "../model.image_newline", "of a language model" },
    { "image_newline", "of a language model" },
    { "../t.*", "of a text tower" },
    { "../text_projection.weight", "of a text tower" },
    { "../a.*", "of an audio encoder" },
    { "../logit_*", "of contrastive training" },
    { NULL, NULL }
};

#define READER "of the projector to a language model; the projector reads the tokens "
#define AFTER_ALL READER "after the last norm"
#define BEFORE_NORM READER "after these blocks, without a norm; the original tower may have more blocks"

static const layout_company llama_cpp_company[] = {
    { "../mm.*", "post_ln.weight", AFTER_ALL }, { "../mm.*", "patch_embd.weight", BEFORE_NORM },
    { "../adapter.*", "post_ln.weight", AFTER_ALL },
    { "../adapter.*", "patch_embd.weight", BEFORE_NORM },
    { "head.*", PROBE, "a pooling whose norm is not in the file" }, { NULL, NULL, NULL }
};

static const layout_default llama_cpp_defaults[] = {
    { "positions=all", NULL }, { "pos_resample=transformers", NULL }, { "pool=avg", "!class_embd" },
    { "crop_pct=1", NULL }, { "crop_mode=squash", "!class_embd" }, { NULL, NULL }
};

static const layout_question llama_cpp_questions[] = {
    { SETTING_ACTIVATION, "--set activation=gelu_tanh (SigLIP), quick_gelu (CLIP) or gelu", NULL },
    { SETTING_NORM_EPS, "--set norm_eps=1e-5 (CLIP) or 1e-6 (SigLIP)", NULL },
    { SETTING_COUNT, NULL, NULL }
};

const layout layout_llama_cpp = {
    .name = "llama.cpp",
    .probe = "patch_embd.weight",
    .when = { "{b}ln1.weight" },
    .prefixes = llama_cpp_prefixes, .blocks = llama_cpp_blocks, .rules = llama_cpp_rules,
    .harmless = llama_cpp_harmless, .company = llama_cpp_company,
    .defaults = llama_cpp_defaults, .questions = llama_cpp_questions
};

#endif

/* The text encoders of CLIP and SigLIP. SigLIP's text encoder has its projection inside, under the
 * name `head`. */

static const char *const text_prefixes[] = {
    "module.", "_orig_mod.", "model.", "text_model.", "clip.", "siglip.", NULL
};

static const layout_rule text_rules[] = {
    LAYOUT_MUST("token_embed.weight", "embeddings.token_embedding.weight"),
    LAYOUT_MUST("pos_embed", "embeddings.position_embedding.weight"),
    TOWER_BLOCK,
    LAYOUT_MUST2("norm", "final_layer_norm"),
    LAYOUT_FROM2("pre_logits.fc", "head"),
    LAYOUT_FROM("pre_logits.fc.weight", "../text_projection.weight"),
    LAYOUT_ZEROS("pre_logits.fc.bias", "../text_projection.weight"),
    LAYOUT_END
};

const layout layout_hf_text = {
    .name = "transformers",
    .probe = "embeddings.token_embedding.weight",
    .when = { "final_layer_norm.weight" },
    .prefixes = text_prefixes, .blocks = tower_blocks, .rules = text_rules
};

/* === AIMv2; Apple's own names are in tables_published.c === */

static const layout_rule aimv2_rules[] = {
    LAYOUT_MUST("pos_embed", "embeddings.position_embedding.weight"),
    LAYOUT_VIEW("patch_embed.proj.weight", "embeddings.patch_embed.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "embeddings.patch_embed.bias"),
    LAYOUT_MUST("patch_embed.norm.weight", "embeddings.rms_norm.weight"),
    LAYOUT_FROM("{b}norm1.weight", "{b}rms_norm1.weight"),
    LAYOUT_QKV("{b}attention.q_proj", "{b}attention.k_proj", "{b}attention.v_proj"),
    LAYOUT_FROM2("{b}attn.proj", "{b}attention.out_proj"),
    LAYOUT_FROM("{b}norm2.weight", "{b}rms_norm2.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}ffn.gate_proj.weight", "{b}ffn.up_proj.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}ffn.gate_proj.bias", "{b}ffn.up_proj.bias"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}ffn.down_proj"),
    LAYOUT_MUST("norm.weight", "rms_norm.weight"),
    { "attn_pool.q", LAYOUT_SUM, NULL, { "head.cls_token", NULL, NULL },
      { LAYOUT_REQUIRED, "head.k_proj.weight" } },
    LAYOUT_ROWS2("attn_pool.kv.weight", NULL, "head.k_proj.weight", "head.v_proj.weight"),
    LAYOUT_ROWS2("attn_pool.kv.bias", NULL, "head.k_proj.bias", "head.v_proj.bias"),
    LAYOUT_ZEROS("attn_pool.kv.bias", "head.cls_token"),
    LAYOUT_FROM2("attn_pool.proj", "head.output_proj"),
    LAYOUT_POOL_WITHOUT_MLP("head.cls_token"),
    LAYOUT_FROM("head.weight", "../visual_projection.weight"),
    LAYOUT_ZEROS("head.bias", "../visual_projection.weight"),
    LAYOUT_END
};

/* The heads of AIMv2 are 128 wide in models of every size. */
static const layout_default aimv2_defaults[] = {
    { "norm_type=rms", NULL }, { "norm_eps=1e-5", NULL }, { "activation=silu", NULL },
    { "pool=avg", NULL }, { "head_dim=128", NULL }, { "pool_mlp_dim=1", "head.cls_token" },
    { NULL, NULL }
};

const layout layout_hf_aimv2 = {
    .name = "transformers AIMv2",
    .probe = "embeddings.patch_embed.weight",
    .when = { "{b}ffn.gate_proj.weight" },
    .prefixes = tower_prefixes, .blocks = tower_blocks, .rules = aimv2_rules,
    .harmless = tower_harmless, .defaults = aimv2_defaults
};
