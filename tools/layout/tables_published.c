/* clang-format off */ /* the rows below form tables */
#include "layout/layout.h"

/* === torchvision === */

/* The models of torchvision.models.vision_transformer. */

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

/* The preprocessing of the weights for 224 pixels. The weights of vit_l_16 are an exception: their
 * photos are resized to 242 pixels. */
static const layout_default torchvision_defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu", NULL }, { "positions=all", NULL },
    { "crop_pct=0.875", NULL },
    { "interpolation=bilinear", NULL }, { "mean=0.485,0.456,0.406", NULL },
    { "std=0.229,0.224,0.225", NULL }, { "pos_resample=torchvision", NULL }, { NULL, NULL }
};

const layout layout_torchvision = {
    .name = "torchvision",
    .probe = "conv_proj.weight",
    .when = { "class_token" },
    .prefixes = layout_wrappers, .blocks = torchvision_blocks, .rules = torchvision_rules,
    .lacking = torchvision_lacking,
    .defaults = torchvision_defaults
};

/* === open_clip === */

/* The models of OpenAI's CLIP, open_clip and Perception Encoder. */

static const char *const open_clip_prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "visual.", NULL
};

static const char *const open_clip_blocks[] = { "transformer.resblocks.{i}.", NULL };

#define RESBLOCK                                                                                 \
    LAYOUT_FROM2("{b}norm1", "{b}ln_1"),                                                         \
    LAYOUT_FROM("{b}attn.qkv.weight", "{b}attn.in_proj_weight"),                                 \
    LAYOUT_FROM("{b}attn.qkv.bias", "{b}attn.in_proj_bias"),                                     \
    LAYOUT_FROM2("{b}attn.proj", "{b}attn.out_proj"),                                            \
    LAYOUT_FROM("{b}ls1.gamma", "{b}ls_1.gamma"),                                                \
    LAYOUT_FROM2("{b}norm2", "{b}ln_2"),                                                         \
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.c_fc"),                                                   \
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.c_proj"),                                                 \
    LAYOUT_FROM("{b}ls2.gamma", "{b}ls_2.gamma")

#define RESBLOCKS                                                                                \
    LAYOUT_FROM("cls_token", "class_embedding"),                                                 \
    LAYOUT_FROM("pos_embed", "positional_embedding"),                                            \
    LAYOUT_VIEW("patch_embed.proj.weight", "conv1.weight", "dcpq>dcpq"),                         \
    LAYOUT_FROM("patch_embed.proj.bias", "conv1.bias"),                                          \
    LAYOUT_FROM2("norm_pre", "ln_pre"),                                                          \
    RESBLOCK

/* CoCa's attention pooling has many queries, of which only the first is used. The queries are
 * mostly narrower than the tokens. If the queries are as wide as the tokens, q, k and v are one
 * tensor. CoCa's last norm comes after the pooling. */
#define COCA "attn_pool.query"
#define COCA_ATTN "attn_pool.attn."
#define COCA_RULE(tensor, axes, ...)                                                             \
    { tensor, LAYOUT_NARROW, axes, { __VA_ARGS__ }, { COCA, NULL } }

static const layout_rule open_clip_rules[] = {
    RESBLOCKS,
    LAYOUT_MUST_WHEN2("norm", "attn_pool.ln_k", COCA),
    COCA_RULE("attn_pool.q", NULL, COCA "@0", "attn_pool.ln_q.weight", "attn_pool.ln_q.bias",
              COCA_ATTN "q_proj_weight", COCA_ATTN "in_proj_bias#0/3"),
    COCA_RULE("attn_pool.q", NULL, COCA "@0", "attn_pool.ln_q.weight", "attn_pool.ln_q.bias",
              COCA_ATTN "in_proj_weight#0/3", COCA_ATTN "in_proj_bias#0/3"),
    COCA_RULE("attn_pool.kv.weight", NULL, COCA_ATTN "in_proj_weight#1/3",
              COCA_ATTN "in_proj_weight#2/3"),
    COCA_RULE("attn_pool.kv.weight", NULL, COCA_ATTN "k_proj_weight", COCA_ATTN "v_proj_weight"),
    COCA_RULE("attn_pool.kv.bias", NULL, COCA_ATTN "in_proj_bias#1/3", COCA_ATTN "in_proj_bias#2/3"),
    COCA_RULE("attn_pool.proj.weight", NULL, COCA_ATTN "out_proj.weight"),
    COCA_RULE("attn_pool.proj.bias", NULL, COCA_ATTN "out_proj.bias"),
    LAYOUT_POOL_WITHOUT_MLP(COCA),
    LAYOUT_ZEROS("attn_pool.norm.bias", COCA),
    COCA_RULE("fc_norm.weight", NULL, "ln_post.weight"),
    COCA_RULE("fc_norm.bias", NULL, "ln_post.bias"),
    COCA_RULE("head.weight", "io>oi", "proj"),
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

static const layout_extra open_clip_harmless[] = {
    { "../text.*", "of a text tower" },
    { "../text_decoder.*", "of a text decoder" },
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

static const layout_extra open_clip_lacking[] = {
    { "attn_pool_contrastive.*", "CoCa's attentional pooling by two poolers" },
    { "attnpool.*", "attention pooling of a ResNet" },
    { "transformer.resblocks.*.ln_attn.*", "a norm after attention" },
    { "transformer.resblocks.*.attn.ln_*", "norms inside attention" },
    { "transformer.resblocks.*.attn.logit_scale", "cosine attention" },
    { NULL, NULL }
};

/* Only the archives that OpenAI itself published store this integer next to the weights. */
#define OPENAI "../input_resolution"

static const layout_default open_clip_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=quick_gelu", OPENAI }, { "positions=all", NULL },
    { "pool_num_heads=8", COCA }, { "pool_prefix=1", COCA }, { "pool_mlp_dim=1", COCA },
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
    .prefixes = open_clip_prefixes, .blocks = open_clip_blocks, .rules = open_clip_rules,
    .harmless = open_clip_harmless,
    .company = company, .lacking = open_clip_lacking, .defaults = open_clip_defaults,
    .questions = questions
};

/* A Perception Encoder usually has attention pooling. A model without attention pooling has neither
 * a norm nor a projection after the blocks. If there is a class token, rotary positions count from
 * 1. Rotary positions do not depend on the size of the grid. */
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
    .prefixes = open_clip_prefixes, .blocks = open_clip_blocks, .rules = pe_rules,
    .harmless = open_clip_harmless,
    .company = company, .lacking = open_clip_lacking, .defaults = pe_defaults
};

const layout layout_pe = {
    .name = "Perception Encoder",
    .probe = "conv1.weight",
    .when = { "!ln_post.weight", "!proj", "{b}ln_1.weight" },
    .prefixes = open_clip_prefixes, .blocks = open_clip_blocks, .rules = pe_rules,
    .harmless = open_clip_harmless,
    .company = company, .lacking = open_clip_lacking, .defaults = pe_defaults
};

/* The text encoder of OpenAI's CLIP and of open_clip. In SigLIP, the projection is a layer with a
 * bias. */

static const char *const text_prefixes[] = { "module.", "_orig_mod.", "model.", "text.", NULL };

static const layout_rule open_clip_text_rules[] = {
    LAYOUT_MUST("token_embed.weight", "token_embedding.weight"),
    LAYOUT_MUST("pos_embed", "positional_embedding"),
    RESBLOCK,
    LAYOUT_MUST2("norm", "ln_final"),
    { "pre_logits.fc.weight", LAYOUT_STACK, "io>oi", { "text_projection", NULL, NULL }, LAYOUT_ALWAYS },
    LAYOUT_FROM2("pre_logits.fc", "text_projection"),
    LAYOUT_ZEROS("pre_logits.fc.bias", "text_projection"),
    LAYOUT_ZEROS("pre_logits.fc.bias", "text_projection.weight"),
    LAYOUT_END
};

const layout layout_open_clip_text = {
    .name = "open_clip",
    .probe = "token_embedding.weight",
    .when = { "ln_final.weight", "{b}ln_1.weight" },
    .prefixes = text_prefixes, .blocks = open_clip_blocks, .rules = open_clip_text_rules
};

/* === MobileCLIP === */

/* MobileCLIP-B under the names of Apple's code. The names of timm are in tables.c. */

#define STEM "patch_embed.backbone."

static const char *const mobileclip_prefixes[] = {
    "module.", "image_encoder.", "model.", "visual.", "trunk.", NULL
};

static const char *const mobileclip_blocks[] = { "transformer.{i}.", NULL };

#define MOBILECLIP_BLOCK                                                                         \
    LAYOUT_FROM2("{b}norm1", "{b}pre_norm_mha.0"),                                               \
    LAYOUT_FROM2("{b}attn.qkv", "{b}pre_norm_mha.1.qkv_proj"),                                   \
    LAYOUT_FROM2("{b}attn.proj", "{b}pre_norm_mha.1.out_proj"),                                  \
    LAYOUT_FROM2("{b}norm2", "{b}pre_norm_ffn.0"),                                               \
    LAYOUT_FROM2("{b}mlp.fc1", "{b}pre_norm_ffn.1"),                                             \
    LAYOUT_FROM2("{b}mlp.fc2", "{b}pre_norm_ffn.4")

static const layout_rule mobileclip_rules[] = {
    LAYOUT_SAME("cls_token"),
    LAYOUT_VIEW("pos_embed", "pos_embed.pos_embed.pos_embed", "abnd>nd"),
    LAYOUT_CONV_BN(STEM "0.conv", "patch_emb.0.block.conv", "patch_emb.0.block.norm"),
    LAYOUT_CONV_BN(STEM "1.conv", "patch_emb.1.block.conv", "patch_emb.1.block.norm"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_emb.2.block.conv.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "patch_emb.2.block.conv.bias"),
    MOBILECLIP_BLOCK,
    LAYOUT_FROM2("norm", "post_transformer_norm"),
    LAYOUT_VIEW("head.weight", "classifier.proj", "io>oi"),
    LAYOUT_ZEROS("head.bias", "classifier.proj"),
    LAYOUT_FROM2("head", "classifier"),
    LAYOUT_END
};

static const layout_extra mobileclip_harmless[] = {
    { "patch_emb.*.num_batches_tracked", "of training" },
    { "../text_encoder.*", "of a text tower" },
    { "../logit_scale", "of contrastive training" },
    { NULL, NULL }
};

/* These are the values of Apple's code. timm's model with the same weights has a different epsilon
 * and resizes photos differently. A model without a class token averages its tokens. */
static const layout_default mobileclip_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", "!cls_token" },
    { "mean=0", NULL }, { "std=1", NULL }, { "crop_pct=1", NULL },
    { "interpolation=bilinear", NULL }, { NULL, NULL }
};

const layout layout_mobileclip = {
    .name = "MobileCLIP",
    .probe = "patch_emb.0.block.conv.weight",
    .prefixes = mobileclip_prefixes, .blocks = mobileclip_blocks, .rules = mobileclip_rules,
    .harmless = mobileclip_harmless,
    .defaults = mobileclip_defaults
};

/* The text encoder of the larger models. The text encoder of the smallest model also has
 * convolutions at its beginning and its end. */

static const char *const mobileclip_text_prefixes[] = { "module.", "text_encoder.", NULL };

static const layout_rule mobileclip_text_rules[] = {
    LAYOUT_MUST("token_embed.weight", "embedding_layer.weight"),
    LAYOUT_VIEW("pos_embed", "positional_embedding.pos_embed.pos_embed", "abnd>nd"),
    MOBILECLIP_BLOCK,
    LAYOUT_MUST2("norm", "final_layer_norm"),
    LAYOUT_VIEW("pre_logits.fc.weight", "projection_layer", "io>oi"),
    LAYOUT_ZEROS("pre_logits.fc.bias", "projection_layer"),
    LAYOUT_END
};

const layout layout_mobileclip_text = {
    .name = "MobileCLIP",
    .probe = "embedding_layer.weight",
    .when = { "final_layer_norm.weight", "{b}pre_norm_mha.0.weight" },
    .prefixes = mobileclip_text_prefixes, .blocks = mobileclip_blocks,
    .rules = mobileclip_text_rules
};

/* === Qwen3-VL and Qwen3.5 === */

/* The image encoder of transformers' models. A photo is read as two equal frames, so the kernels of
 * both frames are added. */

static const char *const qwen_prefixes[] = {
    "module.", "model.", "visual.", "vision_tower.", "thinker.", NULL
};

/* guess_layout tries only the first of these paths, which no Qwen model has. So this layout is
 * never guessed: only its probe identifies a checkpoint. */
static const char *const qwen_blocks[] = { "blocks.{c}.{i}.", "blocks.{i}.", NULL };

static const layout_rule qwen_rules[] = {
    { "patch_embed.proj.weight", LAYOUT_SUM, "dctpq>dcpq",
      { "patch_embed.proj.weight@,,0", "patch_embed.proj.weight@,,1" }, LAYOUT_ALWAYS },
    LAYOUT_MUST("patch_embed.proj.bias", "patch_embed.proj.bias"),
    LAYOUT_MUST("pos_embed", "pos_embed.weight"),
    LAYOUT_ROPE("rope", NULL),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_SAME2("{b}attn.qkv"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.linear_fc1"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.linear_fc2"),
    LAYOUT_SAME2("merger.norm"),
    LAYOUT_FROM2("merger.fc1", "merger.linear_fc1"),
    LAYOUT_FROM2("merger.fc2", "merger.linear_fc2"),
    LAYOUT_END
};

#define DEEPSTACK "of the mergers of earlier blocks (DeepStack)"

static const layout_extra qwen_harmless[] = {
    { "deepstack_merger_list.*", DEEPSTACK },
    { "../language_model.*", "of a language model" },
    { "../lm_head.*", "of a language model" },
    { NULL, NULL }
};

static const layout_default qwen_defaults[] = {
    { "rope_type=qwen", NULL }, { "pos_resample=jax", NULL }, { "norm_eps=1e-6", NULL },
    { "activation=gelu_tanh", NULL }, { "mean=0.5", NULL }, { "std=0.5", NULL },
    { "crop_mode=squash", NULL }, { "crop_pct=1", NULL }, { "own_sizes=1", NULL },
    { "merge_size=0", NULL }, { "merge_act=gelu", NULL }, { NULL, NULL }
};

const layout layout_qwen_vl = {
    .name = "Qwen3-VL",
    .probe = "merger.linear_fc1.weight",
    .prefixes = qwen_prefixes, .blocks = qwen_blocks, .rules = qwen_rules,
    .harmless = qwen_harmless, .defaults = qwen_defaults
};

/* The names of llama.cpp. The norm of the merger is called post_ln. The encoder itself has no norm
 * at its end. */

static const char *const qwen_gguf_prefixes[] = { "v.", NULL };
static const char *const qwen_gguf_blocks[] = { "blk.{i}.", NULL };

static const layout_rule qwen_gguf_rules[] = {
    { "patch_embed.proj.weight", LAYOUT_SUM, "dcpq>dcpq",
      { "patch_embd.weight", "patch_embd.weight.1" }, LAYOUT_ALWAYS },
    LAYOUT_MUST("patch_embed.proj.bias", "patch_embd.bias"),
    LAYOUT_MUST("pos_embed", "position_embd.weight"),
    LAYOUT_ROPE("rope", NULL),
    LAYOUT_FROM2("{b}norm1", "{b}ln1"),
    LAYOUT_FROM2("{b}attn.qkv", "{b}attn_qkv"),
    LAYOUT_FROM2("{b}attn.proj", "{b}attn_out"),
    LAYOUT_FROM2("{b}norm2", "{b}ln2"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}ffn_up"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}ffn_down"),
    LAYOUT_FROM2("merger.norm", "post_ln"),
    LAYOUT_FROM2("merger.fc1", "../mm.0"),
    LAYOUT_FROM2("merger.fc2", "../mm.2"),
    LAYOUT_END
};

static const layout_extra qwen_gguf_harmless[] = {
    { "deepstack.*", DEEPSTACK },
    { "../a.*", "of an audio encoder" },
    { NULL, NULL }
};

const layout layout_qwen_gguf = {
    .name = "llama.cpp's Qwen3-VL",
    .probe = "patch_embd.weight.1",
    .prefixes = qwen_gguf_prefixes, .blocks = qwen_gguf_blocks, .rules = qwen_gguf_rules,
    .harmless = qwen_gguf_harmless, .defaults = qwen_defaults
};

/* === C-RADIO === */

/* The names of NVIDIA's code. One tensor holds a class token for each teacher, and after them the
 * registers. In the .vit file, the tensor's first token is the class token, and all its other
 * tokens are registers, including the class tokens of the other teachers. The positions belong to a
 * large square, and are resampled to the grid of the input. */

static const char *const radio_prefixes[] = {
    "module.", "radio_model.model.", "base_model.", "model.", NULL
};

/* Hand-written code also has blocks with these names. guess_layout tries only the first of these
 * paths, which no RADIO model has. So this layout is never guessed for hand-written code, which
 * lacks the probe. */
static const char *const radio_blocks[] = { "blocks.{c}.{i}.", "blocks.{i}.", NULL };

#define RADIO_TOKENS "patch_generator.cls_token.token"

static const layout_rule radio_rules[] = {
    LAYOUT_FROM("cls_token", RADIO_TOKENS "@:1"),
    LAYOUT_FROM("reg_token", RADIO_TOKENS "@1:"),
    LAYOUT_MUST("pos_embed", "patch_generator.pos_embed"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_generator.embedder.weight", "d(cpq)>dcpq"),
    LAYOUT_FROM("patch_embed.proj.bias", "patch_generator.embedder.bias"),
    LAYOUT_FROM2("patch_embed.norm", "patch_generator.patch_normalizer"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_SAME2("{b}attn.qkv"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_SAME("{b}ls1.gamma"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_SAME2("{b}mlp.fc1"),
    LAYOUT_SAME2("{b}mlp.fc2"),
    LAYOUT_SAME("{b}ls2.gamma"),
    LAYOUT_SAME2("norm"),
    LAYOUT_END
};

static const layout_extra radio_harmless[] = {
    { "../input_conditioner.*", "CLIP's mean and deviation of the colours" },
    { "input_conditioner.*", "CLIP's mean and deviation of the colours" },
    { "../summary_idxs", "indices of the class tokens that are joined" },
    { "summary_idxs", "indices of the class tokens that are joined" },
    { "../adaptors.*", "of the teachers' heads" },
    { "_heads.*", "of the teachers' heads" },
    { NULL, NULL }
};

static const layout_extra radio_lacking[] = {
    { "patch_generator.video_embedder.*", "patches of several frames" },
    { "blocks.*.attn.q_norm.*", "norms of queries" },
    { NULL, NULL }
};

static const layout_default radio_defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu", NULL }, { "positions=patches", NULL },
    { "pos_resample=jax", NULL }, { "mean=0.48145466,0.4578275,0.40821073", NULL },
    { "std=0.26862954,0.26130258,0.27577711", NULL }, LAYOUT_SQUASHED, { NULL, NULL }
};

const layout layout_radio = {
    .name = "C-RADIO",
    .probe = "patch_generator.embedder.weight",
    .prefixes = radio_prefixes, .blocks = radio_blocks, .rules = radio_rules,
    .harmless = radio_harmless, .lacking = radio_lacking, .defaults = radio_defaults
};

/* === Sapiens 2 === */

/* The middle blocks have two heads of queries for each head of keys and values. Only attention has
 * a LayerScale. */

static const char *const sapiens2_prefixes[] = { "module.", "backbone.", "model.", NULL };

static const char *const sapiens2_blocks[] = { "blocks.{i}.", NULL };

static const layout_rule sapiens2_rules[] = {
    LAYOUT_MUST("cls_token", "cls_token"),
    LAYOUT_FROM("reg_token", "storage_tokens"),
    LAYOUT_ROPE("rope", "rope_embed.periods"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.projection.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "patch_embed.projection.bias"),
    LAYOUT_FROM("{b}norm1.weight", "{b}ln1.weight"),
    { "{b}attn.qkv.weight", LAYOUT_GROUPED, NULL,
      { "{b}attn.wq.weight", "{b}attn.wk.weight", "{b}attn.wv.weight" }, LAYOUT_ALWAYS },
    { "{b}attn.qkv.bias", LAYOUT_GROUPED, NULL,
      { "{b}attn.wq.bias", "{b}attn.wk.bias", "{b}attn.wv.bias" }, LAYOUT_ALWAYS },
    LAYOUT_SAME("{b}attn.q_norm.weight"),
    LAYOUT_SAME("{b}attn.k_norm.weight"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}attn.gamma.weight"),
    LAYOUT_FROM("{b}norm2.weight", "{b}ln2.weight"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}ffn.w12"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}ffn.w3"),
    { "{b}ls2.gamma", LAYOUT_IDENTITY, NULL, { LAYOUT_NONE }, { "{b}attn.gamma.weight", NULL } },
    LAYOUT_MUST("norm.weight", "ln1.weight"),
    LAYOUT_END
};

static const layout_extra sapiens2_lacking[] = {
    { "tokenizer.*", "blocks with windowed attention before the other blocks (Sapiens 2 at 4K)" },
    { NULL, NULL }
};

static const layout_default sapiens2_defaults[] = {
    { "norm_type=rms", NULL }, { "norm_eps=1e-6", NULL }, { "activation=silu", NULL },
    { "rope_type=dinov3", NULL }, { "pool=token", NULL }, { "mean=0.485,0.456,0.406", NULL },
    { "std=0.229,0.224,0.225", NULL }, LAYOUT_SQUASHED, { NULL, NULL }
};

const layout layout_sapiens2 = {
    .name = "Sapiens 2",
    .probe = "patch_embed.projection.weight",
    .when = { "rope_embed.periods", "{b}attn.wq.weight" },
    .prefixes = sapiens2_prefixes, .blocks = sapiens2_blocks, .rules = sapiens2_rules,
    .lacking = sapiens2_lacking, .defaults = sapiens2_defaults
};

/* === nomic-embed-vision ===
 * vit.h cannot run this model. The layout exists only so that the error message contains the
 * model's name. */

static const char *const nomic_prefixes[] = { "module.", "model.", NULL };

static const char *const nomic_blocks[] = { "layers.{i}.", NULL };

static const layout_rule nomic_rules[] = {
    LAYOUT_FROM("cls_token", "embeddings.cls_token"),
    LAYOUT_END
};

static const layout_extra nomic_lacking[] = {
    { "selector.*", "an attention pooling that is added to the class token (nomic)" },
    { NULL, NULL }
};

const layout layout_nomic = {
    .name = "nomic",
    .probe = "selector.attn.latent",
    .prefixes = nomic_prefixes, .blocks = nomic_blocks, .rules = nomic_rules,
    .lacking = nomic_lacking
};

/* === V-JEPA 2 ===
 * vit.h cannot run this model. The layout exists only so that the error message contains the
 * model's name. The published code turns the two values of a pair by different angles, which is no
 * rotation. */

static const char *const vjepa2_prefixes[] = {
    "module.", "model.", "vjepa2.", "encoder.", NULL
};

static const char *const vjepa2_blocks[] = { "layer.{i}.", NULL };

static const layout_rule vjepa2_rules[] = {
    LAYOUT_FROM2("norm", "layernorm"),
    LAYOUT_END
};

static const layout_extra vjepa2_lacking[] = {
    { "embeddings.*", "patches of two frames, and rotary positions with two angles for each pair "
                      "of values (V-JEPA 2)" },
    { NULL, NULL }
};

const layout layout_vjepa2 = {
    .name = "V-JEPA 2",
    .probe = "embeddings.patch_embeddings.proj.weight",
    .prefixes = vjepa2_prefixes, .blocks = vjepa2_blocks, .rules = vjepa2_rules,
    .lacking = vjepa2_lacking
};

/* === AIMv2 === */

/* AIMv2 under the names of Apple's code. The names of transformers are in tables.c. */

static const char *const aimv2_prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "visual.", "image_encoder.", NULL
};

static const char *const aimv2_blocks[] = { "trunk.blocks.{i}.", NULL };

static const layout_rule aimv2_rules[] = {
    LAYOUT_FROM("cls_token", "preprocessor.cls_token"),
    LAYOUT_MUST("pos_embed", "preprocessor.pos_embed"),
    LAYOUT_VIEW("patch_embed.proj.weight", "preprocessor.patchifier.proj.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "preprocessor.patchifier.proj.bias"),
    LAYOUT_MUST("patch_embed.norm.weight", "preprocessor.patchifier.norm.weight"),
    LAYOUT_FROM("patch_embed.norm.bias", "preprocessor.patchifier.norm.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}norm_1"),
    LAYOUT_SAME2("{b}attn.qkv"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_FROM2("{b}norm2", "{b}norm_2"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.fc1.weight", "{b}mlp.fc3.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.fc1.bias", "{b}mlp.fc3.bias"),
    LAYOUT_SAME2("{b}mlp.fc2"),
    LAYOUT_MUST("norm.weight", "trunk.post_trunk_norm.weight"),
    LAYOUT_FROM("norm.bias", "trunk.post_trunk_norm.bias"),
    LAYOUT_FROM2("head", "head"),
    { "attn_pool.q", LAYOUT_SUM, NULL, { "head.cls_token", NULL, NULL },
      { LAYOUT_REQUIRED, "head.k.weight" } },
    LAYOUT_ROWS2("attn_pool.kv.weight", NULL, "head.k.weight", "head.v.weight"),
    LAYOUT_ZEROS("attn_pool.kv.bias", "head.cls_token"),
    LAYOUT_FROM2("attn_pool.proj", "head.linear"),
    LAYOUT_POOL_WITHOUT_MLP("head.cls_token"),
    LAYOUT_FROM("head.weight", "../image_projector.weight"),
    LAYOUT_ZEROS("head.bias", "../image_projector.weight"),
    LAYOUT_END
};

static const layout_extra aimv2_harmless[] = {
    { "../text_encoder.*", "of a text tower" },
    { "../text_projector.*", "of a text tower" },
    { "../log_logit_scale", "of contrastive training" },
    { NULL, NULL }
};

/* The classifier of AIM's evaluation first normalises each value over the batch, which vit.h cannot
 * do. */
static const layout_extra aimv2_lacking[] = {
    { "head.bn.*", "a batch norm before the pooling" },
    { NULL, NULL }
};

/* The heads of AIMv2 are 128 wide in models of every size. */
static const layout_default aimv2_defaults[] = {
    { "norm_type=rms", NULL }, { "norm_eps=1e-5", NULL }, { "activation=silu", NULL },
    { "pool=avg", NULL }, { "head_dim=128", NULL }, { "pool_mlp_dim=1", "head.cls_token" },
    { "mean=0.48145466,0.4578275,0.40821073", NULL },
    { "std=0.26862954,0.26130258,0.27577711", NULL }, { "crop_pct=1", NULL }, { NULL, NULL }
};

const layout layout_aimv2 = {
    .name = "AIMv2",
    .probe = "preprocessor.patchifier.proj.weight",
    .prefixes = aimv2_prefixes, .blocks = aimv2_blocks, .rules = aimv2_rules,
    .harmless = aimv2_harmless, .lacking = aimv2_lacking,
    .defaults = aimv2_defaults
};

/* === BEiT-3 === */

/* BEiT-3. In each pair of branches, A is the branch of the image. */

static const char *const beit3_prefixes[] = { "module.", "_orig_mod.", "model.", "beit3.", NULL };

static const char *const beit3_blocks[] = { "encoder.layers.{i}.", NULL };

/* The first two rows of the positions, 0 and 1, are padding. The embedding does not use them. */
static const layout_rule beit3_rules[] = {
    LAYOUT_FROM("cls_token", "vision_embed.cls_token"),
    LAYOUT_FROM("pos_embed", "encoder.embed_positions.A.weight@2:"),
    LAYOUT_VIEW("patch_embed.proj.weight", "vision_embed.proj.weight", "dcpq>dcpq"),
    LAYOUT_MUST("patch_embed.proj.bias", "vision_embed.proj.bias"),
    LAYOUT_FROM2("{b}norm1", "{b}self_attn_layer_norm.A"),
    LAYOUT_QKV("{b}self_attn.q_proj.A", "{b}self_attn.k_proj.A", "{b}self_attn.v_proj.A"),
    LAYOUT_FROM2("{b}attn.norm", "{b}self_attn.inner_attn_ln.A"),
    LAYOUT_FROM2("{b}attn.proj", "{b}self_attn.out_proj.A"),
    LAYOUT_FROM2("{b}norm2", "{b}final_layer_norm.A"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}ffn.A.fc1"),
    LAYOUT_FROM2("{b}mlp.norm", "{b}ffn.A.ffn_layernorm"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}ffn.A.fc2"),
    LAYOUT_MUST_WHEN2("norm", "encoder.layer_norm.A", "!../fc_norm.weight"),
    LAYOUT_FROM2("norm", "encoder.layer_norm.A"),
    LAYOUT_FROM2("fc_norm", "../fc_norm"),
    LAYOUT_FROM2("head", "../head"),
    LAYOUT_END
};

static const layout_extra beit3_harmless[] = {
    { "text_embed.weight", "of text" },
    { "vision_embed.mask_token", "of pre-training" },
    { "*.B.*", "the branch for text" },
    { "../mlm_head.*", "of pre-training" },
    { "../mim_head.*", "of pre-training" },
    { NULL, NULL }
};

static const layout_extra beit3_lacking[] = {
    { "encoder.relative_position.*", "relative positions" },
    { NULL, NULL }
};

static const layout_default beit3_defaults[] = {
    { "norm_eps=1e-5", NULL }, { "activation=gelu", NULL }, { "pool=avg", "../fc_norm.weight" },
    { "positions=all", NULL },
    { "mean=0.485,0.456,0.406", NULL }, { "std=0.229,0.224,0.225", NULL },
    { "crop_pct=1", NULL }, { NULL, NULL }
};

const layout layout_beit3 = {
    .name = "BEiT-3",
    .probe = "vision_embed.proj.weight",
    .when = { "encoder.embed_positions.A.weight" },
    .prefixes = beit3_prefixes, .blocks = beit3_blocks, .rules = beit3_rules,
    .harmless = beit3_harmless,
    .lacking = beit3_lacking, .defaults = beit3_defaults
};

/* === JAX === */

/* The models of Google's JAX code: vision_transformer (the original and AugReg) and big_vision. */

static const char *const jax_prefixes[] = { "opt/target/", "params/", "img/", NULL };

static const char *const jax_blocks[] = {
    "Transformer/encoderblock_{i}/", "Transformer/encoderblock/", NULL
};

#define JAX_NORM(tensor, key)                                                                    \
    LAYOUT_FROM(tensor ".weight", key "/scale"), LAYOUT_FROM(tensor ".bias", key "/bias")
#define JAX_DENSE(tensor, key)                                                                   \
    LAYOUT_VIEW(tensor ".weight", key "/kernel", "io>oi"), LAYOUT_FROM(tensor ".bias", key "/bias")
/* Kernels have an axis for the heads: after the input axis, but in `out` before the output axis. */
#define JAX_ATTENTION(key)                                                                       \
    LAYOUT_ROWS3("{b}attn.qkv.weight", "dhk>hkd", key "/query/kernel", key "/key/kernel",        \
                 key "/value/kernel"),                                                           \
    LAYOUT_ROWS3("{b}attn.qkv.bias", "hk>hk", key "/query/bias", key "/key/bias",                \
                 key "/value/bias"),                                                             \
    LAYOUT_VIEW("{b}attn.proj.weight", key "/out/kernel", "hkd>dhk"),                            \
    LAYOUT_MUST("{b}attn.proj.bias", key "/out/bias")

/* The stem of a hybrid. In the original code, the stem's norms have the shape [1, 1, 1, C]. */
#define UNIT STEM "stages.{s}.blocks.{u}."
#define JAX_UNIT "block{S}/unit{U}/"
#define JAX_CONV(tensor, key)                                                                    \
    { tensor ".weight", LAYOUT_STANDARD, "yxio>oiyx", { key "/kernel", NULL, NULL }, LAYOUT_ALWAYS }
#define JAX_GROUP_NORM(tensor, key)                                                              \
    LAYOUT_VIEW(tensor ".weight", key "/scale", "yxio>o"),                                       \
    LAYOUT_VIEW(tensor ".bias", key "/bias", "yxio>o"), JAX_NORM(tensor, key)
#define MAP "MAPHead_0/MultiHeadDotProductAttention_0/"

static const layout_rule jax_rules[] = {
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

static const layout_extra jax_harmless[] = {
    /* this pattern excludes opt/target/, which holds the model */
    { "../opt/[!t]*", "of the optimiser" },
    { "../state/*", "of the optimiser" },
    { "../txt/*", "of a text tower" },
    { "../llm/*", "of a language model" },
    { "../t", "the temperature of contrastive training" },
    { "../b", "the bias of contrastive training" },
    { NULL, NULL }
};

/* The activation is that of timm's conversions. The JAX code itself computes gelu_tanh. */
static const layout_default jax_defaults[] = {
    { "norm_eps=1e-6", NULL }, { "activation=gelu", NULL }, { "pool=avg", "!cls" },
    { "pos_resample=flexivit", NULL }, { NULL, NULL }
};

const layout layout_jax = {
    .name = "JAX",
    .probe = "embedding/kernel",
    .prefixes = jax_prefixes, .blocks = jax_blocks, .rules = jax_rules, .harmless = jax_harmless,
    .defaults = jax_defaults
};
