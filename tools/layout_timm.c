/* layout_timm.c - timm's names, which are those of a .vit file: sources equal tensors. Also of
 * DeiT, DeiT-3, DINO, MAE, I-JEPA and the original DINOv2, whose own names are the variants below.
 */
#include "layout_tables.h"

static const char *const prefixes[] = {
    "module.", "_orig_mod.", "model.", "backbone.", "encoder.", "base_encoder.", "vit.", "net.",
    "timm_model.", "visual.trunk.", "visual.", "vision_encoder.", "image_encoder.model.", NULL
};

/* The original DINOv2 can divide its blocks into chunks; they stay numbered from first to last. */
static const char *const blocks[] = { "blocks.{c}.{i}.", "blocks.{i}.", NULL };

static const layout_rule rules[] = {
    /* DINOv2 with registers: only the class token and the patches have a position */
    { "cls_token", LAYOUT_SUM, NULL, { "cls_token", "pos_embed@0", NULL },
      { "register_tokens", NULL } },
    LAYOUT_SAME("cls_token"),
    LAYOUT_SAME("dist_token"),
    LAYOUT_SAME("reg_token"),
    LAYOUT_FROM("reg_token", "register_tokens"),
    LAYOUT_WHEN("pos_embed", "pos_embed@1:", "register_tokens"),
    LAYOUT_SAME("pos_embed"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.proj.weight", "dcpq>dcpq"),
    LAYOUT_VIEW("patch_embed.proj.weight", "patch_embed.proj.weight", "d(cpq)>dcpq"),
    LAYOUT_MUST_WHEN("patch_embed.proj.bias", "patch_embed.proj.bias", "!norm_pre.weight"),
    LAYOUT_SAME("patch_embed.proj.bias"),
    LAYOUT_SAME2("patch_embed.pre_norm"),   /* of a .vit file turned back */
    LAYOUT_SAME2("patch_embed.norm"),
    LAYOUT_SAME2("norm_pre"),
    LAYOUT_SAME2("{b}norm1"),
    LAYOUT_SAME2("{b}attn.qkv"),
    LAYOUT_ROWS3("{b}attn.qkv.bias", NULL, "{b}attn.q_bias", "0", "{b}attn.v_bias"),
    LAYOUT_SAME2("{b}attn.q_norm"),
    LAYOUT_SAME2("{b}attn.k_norm"),
    LAYOUT_SAME2("{b}attn.norm"),
    LAYOUT_SAME2("{b}attn.proj"),
    LAYOUT_SAME("{b}ls1.gamma"),
    LAYOUT_FROM("{b}ls1.gamma", "{b}gamma_1"),
    LAYOUT_SAME2("{b}norm2"),
    LAYOUT_SAME2("{b}mlp.fc1"),
    LAYOUT_ROWS2("{b}mlp.fc1.weight", NULL, "{b}mlp.fc1_g.weight", "{b}mlp.fc1_x.weight"),
    LAYOUT_ROWS2("{b}mlp.fc1.bias", NULL, "{b}mlp.fc1_g.bias", "{b}mlp.fc1_x.bias"),
    LAYOUT_FROM2("{b}mlp.fc1", "{b}mlp.w12"),
    LAYOUT_SAME2("{b}mlp.norm"),
    LAYOUT_SAME2("{b}mlp.fc2"),
    LAYOUT_FROM2("{b}mlp.fc2", "{b}mlp.w3"),
    LAYOUT_SAME("{b}ls2.gamma"),
    LAYOUT_FROM("{b}ls2.gamma", "{b}gamma_2"),
    LAYOUT_MUST_WHEN("norm.weight", "norm.weight", "!fc_norm.weight"),
    LAYOUT_SAME2("norm"),
    LAYOUT_SAME("attn_pool.q"),   /* of a .vit file turned back */
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
    { "decoder_*", "of pre-training (MAE)" },
    { "*position_ids", "an index, not a weight" },
    { "head_dist.*", "of a distilled teacher; without a distillation token it is not run" },
    { "lm_head.*", "of pre-training" },
    { "text_*", "of a text tower" },
    { "logit_scale", "of contrastive training" },
    { "../head.mlp.*", "projection head of DINO" },
    { "../head.last_layer.*", "projection head of DINO" },
    { "../dino_head.*", "projection head of DINOv2" },
    { "../ibot_head.*", "projection head of DINOv2" },
    { "../text.*", "of a text tower" },
    { "../logit_bias", "of contrastive training" },
    { "../transformer.*", "of a text tower" },
    { "../token_embedding.weight", "of a text tower" },
    { "../positional_embedding", "of a text tower" },
    { "../ln_final.*", "of a text tower" },
    { "../text_projection", "of a text tower" },
    { NULL, NULL }
};

static const layout_extra lacking[] = {
    { "blocks.*.attn.relative_position_*", "relative positions (BEiT)" },
    { "rel_pos_bias.*", "relative positions (BEiT)" },
    { "blocks.*.attn.rel_pos_*", "decomposed relative positions (SAM)" },
    { "blocks.*.attn.rel_pos.*", "relative positions" },
    { "neck.*", "SAM's neck" },
    { "rope.*", "rotary positions (EVA-02, DINOv3)" },
    { "blocks.*.attn.q_proj.*", "separate projections of queries, keys and values (EVA-02)" },
    { "blocks.*.attn.lambda_*", "differential attention (attn_layer=diff)" },
    { "blocks.*.attn.sub_norm.*", "differential attention (attn_layer=diff)" },
    { "blocks.*.in_proj.*", "parallel blocks (block_fn)" },
    { "blocks.*.attns.*", "parallel blocks (block_fn)" },
    { "patch_embed.backbone.*", "a convolutional stem (hybrid model)" },
    { "patch_embed.proj.[0-9]*", "a convolutional stem" },
    { "../head.mlp.fc*", "an MLP as projection head" },
    { NULL, NULL }
};

/* The names say which half is the gate, and timm and DINOv2 have no other gate there. */
static const layout_default defaults[] = {
    { "activation=silu", "{b}mlp.fc1_g.weight" },
    { "activation=silu", "{b}mlp.w12.weight" },
    { "positions=patches", "register_tokens" },
    { NULL, NULL }
};

const layout layout_timm = {
    "timm", "patch_embed.proj.weight", LAYOUT_ALWAYS, prefixes, blocks, rules, harmless, lacking,
    defaults, NULL
};
