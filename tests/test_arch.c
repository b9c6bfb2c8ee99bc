/* test_arch.c - tests the settings that timm's names imply: a tag of every architecture, and every
 * tag whose preprocessing differs from the first tag's.
 * tests/test_convert_units.c has the tags of all plain models.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "model/timm_names.h"
#include "test.h"

/* The columns are as in timm 1.0.29.dev0: tag, embed_dim, depth, num_heads, mlp_dim, patch_size,
 * input size, options, mean and std, crop_pct. */
static const char *const tags[] = {
    "aimv2_1b_patch14_224.apple_pt 2048 24 16 5632 14 224 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_1b_patch14_448.apple_pt 2048 24 16 5632 14 448 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_3b_patch14_224.apple_pt 3072 24 24 8192 14 224 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_3b_patch14_336.apple_pt 3072 24 24 8192 14 336 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_3b_patch14_448.apple_pt 3072 24 24 8192 14 448 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_huge_patch14_224.apple_pt 1536 24 12 4096 14 224 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_huge_patch14_336.apple_pt 1536 24 12 4096 14 336 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_huge_patch14_448.apple_pt 1536 24 12 4096 14 448 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_large_patch14_224.apple_pt 1024 24 8 2816 14 224 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_large_patch14_336.apple_pt 1024 24 8 2816 14 336 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "aimv2_large_patch14_448.apple_pt 1024 24 8 2816 14 448 no_cls,patch_norm,rms,eps5,"
    "no_qkv_bias,no_proj_bias,silu,gated,avg openai 1",
    "beit3_base_patch16_224.in22k_ft_in1k 768 12 12 3072 16 224 eps5,scale_norms,avg,"
    "fc_norm imagenet 1",
    "beit3_giant_patch14_224.untrained 1408 40 16 6144 14 224 eps5,scale_norms,avg,"
    "fc_norm imagenet 1",
    "beit3_giant_patch14_336.untrained 1408 40 16 6144 14 336 eps5,scale_norms,avg,"
    "fc_norm imagenet 1",
    "beit3_large_patch16_224.in22k_ft_in1k 1024 24 16 4096 16 224 eps5,scale_norms,avg,"
    "fc_norm imagenet 1",
    "deit3_base_patch16_224.fb_in1k 768 12 12 3072 16 224 patch_pos,layer_scale imagenet 0.9",
    "deit3_base_patch16_224.fb_in22k_ft_in1k 768 12 12 3072 16 224 patch_pos,"
    "layer_scale imagenet 1",
    "deit3_base_patch16_384.fb_in1k 768 12 12 3072 16 384 patch_pos,layer_scale imagenet 1",
    "deit3_huge_patch14_224.fb_in22k_ft_in1k 1280 32 16 5120 14 224 patch_pos,"
    "layer_scale imagenet 1",
    "deit3_large_patch16_224.fb_in22k_ft_in1k 1024 24 16 4096 16 224 patch_pos,"
    "layer_scale imagenet 1",
    "deit3_large_patch16_384.fb_in1k 1024 24 16 4096 16 384 patch_pos,layer_scale imagenet 1",
    "deit3_medium_patch16_224.fb_in22k_ft_in1k 512 12 8 2048 16 224 patch_pos,"
    "layer_scale imagenet 1",
    "deit3_small_patch16_224.fb_in22k_ft_in1k 384 12 6 1536 16 224 patch_pos,"
    "layer_scale imagenet 1",
    "deit3_small_patch16_384.fb_in1k 384 12 6 1536 16 384 patch_pos,layer_scale imagenet 1",
    "deit_base_distilled_patch16_224.fb_in1k 768 12 12 3072 16 224 dist imagenet 0.9",
    "deit_base_patch16_224.fb_in1k 768 12 12 3072 16 224 plain imagenet 0.9",
    "deit_tiny_distilled_patch16_224.fb_in1k 192 12 3 768 16 224 dist imagenet 0.9",
    "eva_large_patch14_196.in22k_ft_in1k 1024 24 16 4096 14 196 avg,fc_norm openai 1",
    "eva_large_patch14_336.in22k_ft_in1k 1024 24 16 4096 14 336 avg,fc_norm,squash openai 1",
    "flexivit_base.1000ep_in21k 768 12 12 3072 16 240 patch_pos,flexivit half 0.95",
    "flexivit_large.1200ep_in1k 1024 24 16 4096 16 240 patch_pos,flexivit half 0.95",
    "flexivit_small.1200ep_in1k 384 12 6 1536 16 240 patch_pos,flexivit half 0.95",
    "test_vit.r160_in1k 64 6 2 192 16 160 dynamic half 0.95",
    "test_vit2.r160_in1k 64 8 2 192 16 160 no_cls,reg1,layer_scale,avg,fc_norm,dynamic half 0.95",
    "test_vit3.r160_in1k 96 9 3 192 16 160 no_cls,reg1,layer_scale,map,pool_prefix half 0.95",
    "test_vit4.r160_in1k 96 9 3 288 16 160 no_cls,reg1,rms,layer_scale,avg,fc_norm,dynamic "
    "half 0.95",
    "vit_base_patch14_dinov2.lvd142m 768 12 12 3072 14 518 layer_scale imagenet 1",
    "vit_base_patch14_reg1_tipsv2.webli 768 12 12 3072 14 448 reg1,patch_pos,layer_scale unit 1",
    "vit_base_patch14_reg4_dinov2.lvd142m 768 12 12 3072 14 518 reg4,patch_pos,"
    "layer_scale imagenet 1",
    "vit_base_patch16_224.dino 768 12 12 3072 16 224 plain imagenet 0.9",
    "vit_base_patch16_224.mae 768 12 12 3072 16 224 plain imagenet 0.9",
    "vit_base_patch16_224_miil.in21k 768 12 12 3072 16 224 no_qkv_bias,bilinear unit 0.875",
    "vit_base_patch16_clip_224.datacompxl 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.dfn2b 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.laion2b 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.laion2b_ft_in12k 768 12 12 3072 16 224 pre_norm,eps5 openai 0.9",
    "vit_base_patch16_clip_224.laion2b_ft_in1k 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.laion400m_e32 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.metaclip_2pt5b 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.metaclip_400m 768 12 12 3072 16 224 pre_norm,eps5 openai 1",
    "vit_base_patch16_clip_224.openai 768 12 12 3072 16 224 pre_norm,eps5 openai 0.9",
    "vit_base_patch16_clip_224.openai_ft_in12k 768 12 12 3072 16 224 pre_norm,eps5 openai 0.9",
    "vit_base_patch16_clip_224.openai_ft_in1k 768 12 12 3072 16 224 pre_norm,eps5 openai 0.9",
    "vit_base_patch16_clip_384.laion2b_ft_in12k_in1k 768 12 12 3072 16 384 pre_norm,eps5,"
    "squash openai 1",
    "vit_base_patch16_clip_384.openai_ft_in12k_in1k 768 12 12 3072 16 384 pre_norm,eps5,"
    "squash openai 0.95",
    "vit_base_patch16_clip_quickgelu_224.metaclip_2pt5b 768 12 12 3072 16 224 pre_norm,"
    "eps5,quick_gelu openai 1",
    "vit_base_patch16_clip_quickgelu_224.openai 768 12 12 3072 16 224 pre_norm,eps5,"
    "quick_gelu openai 0.9",
    "vit_base_patch16_gap_224.untrained 768 12 16 3072 16 224 no_cls,avg half 0.9",
    "vit_base_patch16_plus_240.untrained 896 12 14 3584 16 240 layer_scale half 0.95",
    "vit_base_patch16_plus_clip_240.laion400m_e32 896 12 14 3584 16 240 pre_norm,eps5 openai 1",
    "vit_base_patch16_reg4_gap_256.untrained 768 12 12 3072 16 256 no_cls,reg4,patch_pos,avg,"
    "fc_norm half 0.9",
    "vit_base_patch16_rpn_224.sw_in1k 768 12 12 3072 16 224 no_cls,res_post,no_qkv_bias,"
    "avg,fc_norm half 0.9",
    "vit_base_patch16_siglip_224.v2_webli 768 12 12 3072 16 224 no_cls,map half 0.9",
    "vit_base_patch16_siglip_256.v2_webli 768 12 12 3072 16 256 no_cls,map half 0.9",
    "vit_base_patch16_siglip_384.v2_webli 768 12 12 3072 16 384 no_cls,map half 0.9",
    "vit_base_patch16_siglip_512.v2_webli 768 12 12 3072 16 512 no_cls,map half 0.9",
    "vit_base_patch16_siglip_gap_224.v2_webli 768 12 12 3072 16 224 no_cls,avg half 0.9",
    "vit_base_patch16_siglip_gap_256.v2_webli 768 12 12 3072 16 256 no_cls,avg half 0.9",
    "vit_base_patch16_siglip_gap_384.v2_webli 768 12 12 3072 16 384 no_cls,avg half 0.9",
    "vit_base_patch16_siglip_gap_512.v2_webli 768 12 12 3072 16 512 no_cls,avg half 0.9",
    "vit_base_patch32_clip_224.datacompxl 768 12 12 3072 32 224 pre_norm,eps5 openai 1",
    "vit_base_patch32_clip_224.metaclip_2pt5b 768 12 12 3072 32 224 pre_norm,eps5 openai 1",
    "vit_base_patch32_clip_224.metaclip_400m 768 12 12 3072 32 224 pre_norm,eps5 openai 1",
    "vit_base_patch32_clip_256.datacompxl 768 12 12 3072 32 256 pre_norm,eps5 openai 1",
    "vit_base_patch32_clip_384.openai_ft_in12k_in1k 768 12 12 3072 32 384 pre_norm,eps5,"
    "squash openai 0.95",
    "vit_base_patch32_clip_448.laion2b_ft_in12k_in1k 768 12 12 3072 32 448 pre_norm,eps5 openai 1",
    "vit_base_patch32_clip_quickgelu_224.metaclip_2pt5b 768 12 12 3072 32 224 pre_norm,"
    "eps5,quick_gelu openai 1",
    "vit_base_patch32_clip_quickgelu_224.metaclip_400m 768 12 12 3072 32 224 pre_norm,"
    "eps5,quick_gelu openai 1",
    "vit_base_patch32_plus_256.untrained 896 12 14 3584 32 256 layer_scale half 0.95",
    "vit_base_patch32_siglip_256.v2_webli 768 12 12 3072 32 256 no_cls,gelu_tanh,map half 0.9",
    "vit_base_patch32_siglip_gap_256.v2_webli 768 12 12 3072 32 256 no_cls,gelu_tanh,avg half 0.9",
    "vit_base_patch8_224.dino 768 12 12 3072 8 224 plain imagenet 0.9",
    "vit_betwixt_patch16_gap_256.untrained 640 12 10 2560 16 256 no_cls,no_qkv_bias,"
    "layer_scale,avg half 0.95",
    "vit_betwixt_patch16_reg1_gap_256.sbb_in1k 640 12 10 2560 16 256 no_cls,reg1,"
    "patch_pos,layer_scale,avg,fc_norm half 0.95",
    "vit_betwixt_patch16_reg4_gap_256.sbb2_e200_in12k 640 12 10 2560 16 256 no_cls,reg4,"
    "patch_pos,layer_scale,avg,fc_norm half 0.95",
    "vit_betwixt_patch16_reg4_gap_384.sbb2_e200_in12k_ft_in1k 640 12 10 2560 16 384 no_cls,"
    "reg4,patch_pos,layer_scale,avg,fc_norm half 1",
    "vit_betwixt_patch32_clip_224.tinyclip_laion400m 640 12 10 2560 32 224 pre_norm,"
    "eps5 openai 0.9",
    "vit_giant_patch14_clip_224.laion2b 1408 40 16 6144 14 224 pre_norm,eps5 openai 1",
    "vit_giant_patch14_dinov2.lvd142m 1536 40 24 4096 14 518 layer_scale,silu,gated imagenet 1",
    "vit_giant_patch14_reg1_tipsv2.webli 1536 40 24 4096 14 448 reg1,patch_pos,"
    "layer_scale,silu,gated unit 1",
    "vit_giant_patch14_reg4_dinov2.lvd142m 1536 40 24 4096 14 518 reg4,patch_pos,"
    "layer_scale,silu,gated imagenet 1",
    "vit_giant_patch16_gap_224.in22k_ijepa 1408 40 16 6144 16 224 no_cls,avg imagenet 0.9",
    "vit_giantopt_patch16_siglip_256.v2_webli 1536 40 16 6144 16 256 no_cls,gelu_tanh,"
    "map half 0.9",
    "vit_giantopt_patch16_siglip_384.v2_webli 1536 40 16 6144 16 384 no_cls,gelu_tanh,map half 0.9",
    "vit_giantopt_patch16_siglip_gap_256.v2_webli 1536 40 16 6144 16 256 no_cls,gelu_tanh,"
    "avg half 0.9",
    "vit_giantopt_patch16_siglip_gap_384.v2_webli 1536 40 16 6144 16 384 no_cls,gelu_tanh,"
    "avg half 0.9",
    "vit_gigantic_patch14_clip_224.laion2b 1664 48 16 8192 14 224 pre_norm,eps5 openai 1",
    "vit_gigantic_patch14_clip_378.metaclip2_worldwide 1664 48 16 8192 14 378 pre_norm,eps5,"
    "squash openai 1",
    "vit_gigantic_patch14_clip_quickgelu_224.metaclip_2pt5b 1664 48 16 8192 14 224 pre_norm,"
    "eps5,quick_gelu openai 1",
    "vit_huge_patch14_224.mae 1280 32 16 5120 14 224 plain imagenet 0.9",
    "vit_huge_patch14_clip_224.laion2b_ft_in12k_in1k 1280 32 16 5120 14 224 pre_norm,eps5 openai 1",
    "vit_huge_patch14_clip_336.laion2b_ft_in12k_in1k 1280 32 16 5120 14 336 pre_norm,eps5,"
    "squash openai 1",
    "vit_huge_patch14_clip_378.metaclip2_worldwide 1280 32 16 5120 14 378 pre_norm,eps5,"
    "squash openai 1",
    "vit_huge_patch14_clip_quickgelu_224.dfn5b 1280 32 16 5120 14 224 pre_norm,eps5,"
    "quick_gelu openai 1",
    "vit_huge_patch14_clip_quickgelu_378.dfn5b 1280 32 16 5120 14 378 pre_norm,eps5,"
    "quick_gelu openai 1",
    "vit_huge_patch14_gap_224.in1k_ijepa 1280 32 16 5120 14 224 no_cls,avg imagenet 0.9",
    "vit_huge_patch16_gap_448.in1k_ijepa 1280 32 16 5120 16 448 no_cls,avg imagenet 1",
    "vit_intern300m_patch14_448.ogvl_2pt5 1024 24 16 4096 14 448 layer_scale,"
    "no_final_norm,dynamic imagenet 1",
    "vit_large_patch14_clip_224.apple_mclip2_dfndr2b 1024 24 16 4096 14 224 pre_norm,"
    "eps5 openai 1",
    "vit_large_patch14_clip_224.datacompxl 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.dfn2b 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.dfn2b_s39b 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.laion400m_e32 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.metaclip_2pt5b 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.metaclip_400m 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.openai 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.openai_ft_in12k 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_224.openai_ft_in12k_in1k 1024 24 16 4096 14 224 pre_norm,"
    "eps5 openai 1",
    "vit_large_patch14_clip_224.openai_ft_in1k 1024 24 16 4096 14 224 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_336.openai 1024 24 16 4096 14 336 pre_norm,eps5 openai 1",
    "vit_large_patch14_clip_336.openai_ft_in12k_in1k 1024 24 16 4096 14 336 pre_norm,eps5,"
    "squash openai 1",
    "vit_large_patch14_clip_quickgelu_224.dfn2b 1024 24 16 4096 14 224 pre_norm,eps5,"
    "quick_gelu openai 1",
    "vit_large_patch14_clip_quickgelu_336.openai 1024 24 16 4096 14 336 pre_norm,eps5,"
    "quick_gelu openai 1",
    "vit_large_patch14_dinov2.lvd142m 1024 24 16 4096 14 518 layer_scale imagenet 1",
    "vit_large_patch14_reg1_tipsv2.webli 1024 24 16 4096 14 448 reg1,patch_pos,layer_scale unit 1",
    "vit_large_patch14_reg4_dinov2.lvd142m 1024 24 16 4096 14 518 reg4,patch_pos,"
    "layer_scale imagenet 1",
    "vit_large_patch16_224.mae 1024 24 16 4096 16 224 plain imagenet 0.9",
    "vit_large_patch16_siglip_256.v2_webli 1024 24 16 4096 16 256 no_cls,map half 0.9",
    "vit_large_patch16_siglip_384.v2_webli 1024 24 16 4096 16 384 no_cls,map half 0.9",
    "vit_large_patch16_siglip_512.v2_webli 1024 24 16 4096 16 512 no_cls,gelu_tanh,map half 0.9",
    "vit_large_patch16_siglip_gap_256.v2_webli 1024 24 16 4096 16 256 no_cls,avg half 0.9",
    "vit_large_patch16_siglip_gap_384.v2_webli 1024 24 16 4096 16 384 no_cls,avg half 0.9",
    "vit_large_patch16_siglip_gap_512.v2_webli 1024 24 16 4096 16 512 no_cls,gelu_tanh,"
    "avg half 0.9",
    "vit_little_patch16_reg1_gap_256.sbb_in12k 320 14 5 1792 16 256 no_cls,reg1,patch_pos,"
    "layer_scale,avg,fc_norm half 0.95",
    "vit_little_patch16_reg4_gap_256.sbb_in1k 320 14 5 1792 16 256 no_cls,reg4,patch_pos,"
    "layer_scale,avg,fc_norm half 0.95",
    "vit_medium_patch16_clip_224.tinyclip_yfcc15m 512 12 8 2048 16 224 pre_norm,eps5 openai 0.9",
    "vit_medium_patch16_gap_240.sw_in12k 512 12 8 2048 16 240 no_cls,no_qkv_bias,"
    "layer_scale,avg half 0.95",
    "vit_medium_patch16_gap_256.sw_in12k_ft_in1k 512 12 8 2048 16 256 no_cls,no_qkv_bias,"
    "layer_scale,avg half 0.95",
    "vit_medium_patch16_gap_384.sw_in12k_ft_in1k 512 12 8 2048 16 384 no_cls,no_qkv_bias,"
    "layer_scale,avg,squash half 0.95",
    "vit_medium_patch16_reg1_gap_256.sbb_in1k 512 12 8 2048 16 256 no_cls,reg1,patch_pos,"
    "layer_scale,avg,fc_norm half 0.95",
    "vit_medium_patch16_reg4_gap_256.sbb_in12k_ft_in1k 512 12 8 2048 16 256 no_cls,reg4,"
    "patch_pos,layer_scale,avg,fc_norm half 0.95",
    "vit_medium_patch32_clip_224.tinyclip_laion400m 512 12 8 2048 32 224 pre_norm,eps5 openai 0.9",
    "vit_mediumd_patch16_reg4_gap_256.sbb2_e200_in12k 512 20 8 2048 16 256 no_cls,reg4,"
    "patch_pos,layer_scale,avg,fc_norm half 0.95",
    "vit_mediumd_patch16_reg4_gap_384.sbb2_e200_in12k_ft_in1k 512 20 8 2048 16 384 no_cls,reg4,"
    "patch_pos,layer_scale,avg,fc_norm half 1",
    "vit_small_patch14_dinov2.lvd142m 384 12 6 1536 14 518 layer_scale imagenet 1",
    "vit_small_patch14_reg4_dinov2.lvd142m 384 12 6 1536 14 518 reg4,patch_pos,"
    "layer_scale imagenet 1",
    "vit_small_patch16_224.dino 384 12 6 1536 16 224 plain imagenet 0.9",
    "vit_small_patch16_36x1_224.untrained 384 36 6 1536 16 224 layer_scale half 0.9",
    "vit_so150m2_patch16_reg1_gap_256.sbb_e200_in12k 832 21 13 2176 16 256 no_cls,reg1,"
    "no_qkv_bias,layer_scale,avg,fc_norm half 1",
    "vit_so150m2_patch16_reg1_gap_384.sbb_e200_in12k_ft_in1k 832 21 13 2176 16 384 no_cls,reg1,"
    "no_qkv_bias,layer_scale,avg,fc_norm half 1",
    "vit_so150m2_patch16_reg1_gap_448.sbb_e200_in12k_ft_in1k 832 21 13 2176 16 448 no_cls,"
    "reg1,no_qkv_bias,layer_scale,avg,fc_norm,squash half 1",
    "vit_so150m_patch16_reg4_gap_256.sbb_e250_in12k 896 18 14 2304 16 256 no_cls,reg4,"
    "avg half 0.95",
    "vit_so150m_patch16_reg4_gap_384.sbb_e250_in12k_ft_in1k 896 18 14 2304 16 384 no_cls,reg4,"
    "avg half 1",
    "vit_so150m_patch16_reg4_map_256.untrained 896 18 14 2304 16 256 no_cls,reg4,map half 0.9",
    "vit_so400m_patch14_reg1_tipsv2.webli 1152 27 16 4304 14 448 reg1,patch_pos,layer_scale unit 1",
    "vit_so400m_patch14_siglip_224.v2_webli 1152 27 16 4304 14 224 no_cls,map half 0.9",
    "vit_so400m_patch14_siglip_378.webli_ft_in1k 1152 27 16 4304 14 378 no_cls,map,squash half 1",
    "vit_so400m_patch14_siglip_384.webli 1152 27 16 4304 14 384 no_cls,map half 0.9",
    "vit_so400m_patch14_siglip_gap_224.v2_webli 1152 27 16 4304 14 224 no_cls,avg half 0.9",
    "vit_so400m_patch14_siglip_gap_378.webli 1152 27 16 4304 14 378 no_cls,avg half 1",
    "vit_so400m_patch14_siglip_gap_378.webli_ft_in1k 1152 27 16 4304 14 378 no_cls,avg,"
    "squash half 1",
    "vit_so400m_patch14_siglip_gap_384.webli 1152 27 16 4304 14 384 no_cls,avg half 1",
    "vit_so400m_patch14_siglip_gap_448.pali_mix 1152 27 16 4304 14 448 no_cls,avg half 1",
    "vit_so400m_patch14_siglip_gap_896.pali_pt 1152 27 16 4304 14 896 no_cls,avg half 1",
    "vit_so400m_patch16_siglip_256.v2_webli 1152 27 16 4304 16 256 no_cls,gelu_tanh,map half 0.9",
    "vit_so400m_patch16_siglip_384.v2_webli 1152 27 16 4304 16 384 no_cls,gelu_tanh,map half 0.9",
    "vit_so400m_patch16_siglip_512.v2_webli 1152 27 16 4304 16 512 no_cls,gelu_tanh,map half 0.9",
    "vit_so400m_patch16_siglip_gap_256.v2_webli 1152 27 16 4304 16 256 no_cls,gelu_tanh,"
    "avg half 0.9",
    "vit_so400m_patch16_siglip_gap_384.v2_webli 1152 27 16 4304 16 384 no_cls,gelu_tanh,"
    "avg half 0.9",
    "vit_so400m_patch16_siglip_gap_512.v2_webli 1152 27 16 4304 16 512 no_cls,gelu_tanh,"
    "avg half 0.9",
    "vit_base_mci_224.apple_mclip 768 12 12 3072 16 224 patch_pos unit 0.9",
    "vit_base_mci_224.apple_mclip2_dfndr2b 768 12 12 3072 16 224 patch_pos unit 0.9",
    "vit_base_mci_224.apple_mclip_lt 768 12 12 3072 16 224 patch_pos unit 0.9",
    "vit_base_r26_s32_224.untrained 768 12 12 3072 32 224 plain half 0.9",
    "vit_base_r50_s16_224.orig_in21k 768 12 12 3072 16 224 plain half 0.9",
    "vit_base_r50_s16_384.orig_in21k_ft_in1k 768 12 12 3072 16 384 plain half 1",
    "vit_base_resnet50_224_in21k 768 12 12 3072 16 224 plain half 0.9",
    "vit_base_resnet50_384 768 12 12 3072 16 384 plain half 1",
    "vit_large_r50_s32_224.augreg_in21k 1024 24 16 4096 32 224 plain half 0.9",
    "vit_large_r50_s32_384.augreg_in21k_ft_in1k 1024 24 16 4096 32 384 plain half 1",
    "vit_small_r26_s32_224.augreg_in21k 384 12 6 1536 32 224 plain half 0.9",
    "vit_small_r26_s32_384.augreg_in21k_ft_in1k 384 12 6 1536 32 384 plain half 1",
    "vit_tiny_r_s16_p8_224.augreg_in21k 192 12 3 768 32 224 plain half 0.9",
    "vit_tiny_r_s16_p8_384.augreg_in21k_ft_in1k 192 12 3 768 32 384 plain half 1",
    "vit_wee_patch16_reg1_gap_256.sbb_in1k 256 14 4 1280 16 256 no_cls,reg1,patch_pos,"
    "layer_scale,avg,fc_norm half 0.95",
    "vit_xsmall_patch16_clip_224.tinyclip_yfcc15m 256 10 4 1024 16 224 pre_norm,eps5 openai 0.9",
    "eva_giant_patch14_224.clip_ft_in1k 1408 40 16 6144 14 224 avg,fc_norm openai 0.9",
    "eva_giant_patch14_336.clip_ft_in1k 1408 40 16 6144 14 336 avg,fc_norm,squash openai 1",
    "eva_giant_patch14_336.m30m_ft_in22k_in1k 1408 40 16 6144 14 336 avg,fc_norm,squash "
    "imagenet 1",
    "eva_giant_patch14_560.m30m_ft_in22k_in1k 1408 40 16 6144 14 560 avg,fc_norm,squash "
    "imagenet 1",
    "eva02_tiny_patch14_224.mim_in22k 192 12 3 512 14 224 silu,gated,avg,fc_norm,rope_eva02 "
    "openai 0.9",
    "eva02_small_patch14_224.mim_in22k 384 12 6 1024 14 224 silu,gated,avg,fc_norm,rope_eva02 "
    "openai 0.9",
    "eva02_base_patch14_224.mim_in22k 768 12 12 2048 14 224 scale_mlp,silu,gated,avg,fc_norm,"
    "rope_eva02 openai 0.9",
    "eva02_large_patch14_224.mim_in22k 1024 24 16 2730 14 224 scale_mlp,silu,gated,avg,fc_norm,"
    "rope_eva02 openai 0.9",
    "eva02_tiny_patch14_336.mim_in22k_ft_in1k 192 12 3 512 14 336 silu,gated,avg,fc_norm,"
    "rope_eva02 openai 1",
    "eva02_small_patch14_336.mim_in22k_ft_in1k 384 12 6 1024 14 336 silu,gated,avg,fc_norm,"
    "rope_eva02 openai 1",
    "eva02_base_patch14_448.mim_in22k_ft_in22k_in1k 768 12 12 2048 14 448 scale_mlp,silu,gated,"
    "avg,fc_norm,rope_eva02,squash openai 1",
    "eva02_base_patch14_448.mim_in22k_ft_in1k 768 12 12 2048 14 448 scale_mlp,silu,gated,avg,"
    "fc_norm,rope_eva02 openai 1",
    "eva02_large_patch14_448.mim_in22k_ft_in22k_in1k 1024 24 16 2730 14 448 scale_mlp,silu,"
    "gated,avg,fc_norm,rope_eva02,squash openai 1",
    "eva02_large_patch14_448.mim_in22k_ft_in1k 1024 24 16 2730 14 448 scale_mlp,silu,gated,avg,"
    "fc_norm,rope_eva02 openai 1",
    "eva_giant_patch14_clip_224.laion400m 1408 40 16 6144 14 224 plain openai 0.9",
    "eva02_base_patch16_clip_224.merged2b 768 12 12 2048 16 224 scale_norms,silu,gated,"
    "rope_eva02 openai 0.9",
    "eva02_large_patch14_clip_224.merged2b 1024 24 16 2730 14 224 scale_norms,silu,gated,"
    "rope_eva02 openai 0.9",
    "eva02_large_patch14_clip_336.merged2b 1024 24 16 2730 14 336 scale_norms,silu,gated,"
    "rope_eva02 openai 1",
    "eva02_enormous_patch14_clip_224.laion2b 1792 64 16 15360 14 224 res_post openai 0.9",
    "vit_medium_patch16_rope_reg1_gap_256.sbb_in1k 512 12 8 2048 16 256 no_cls,reg1,no_pos,"
    "layer_scale,avg,fc_norm,rope_eva02 half 0.95",
    "vit_mediumd_patch16_rope_reg1_gap_256.sbb_in1k 512 20 8 2048 16 256 no_cls,reg1,no_pos,"
    "no_qkv_bias,layer_scale,avg,fc_norm,rope_eva02 half 0.95",
    "vit_betwixt_patch16_rope_reg4_gap_256.sbb_in1k 640 12 10 2560 16 256 no_cls,reg4,no_pos,"
    "layer_scale,avg,fc_norm,rope_eva02 openai 0.95",
    "vit_base_patch16_rope_reg1_gap_256.sbb_in1k 768 12 12 3072 16 256 no_cls,reg1,no_pos,"
    "layer_scale,avg,fc_norm,rope_eva02 half 0.95",
    "vit_pe_core_tiny_patch16_384.fb 192 12 3 768 16 384 pre_norm,eps5,map,pool_8,rope_pe24,"
    "pool_prefix half 1",
    "vit_pe_core_small_patch16_384.fb 384 12 6 1536 16 384 pre_norm,eps5,map,pool_8,rope_pe24,"
    "pool_prefix half 1",
    "vit_pe_core_base_patch16_224.fb 768 12 12 3072 16 224 pre_norm,eps5,map,pool_8,rope_pe14,"
    "pool_prefix half 1",
    "vit_pe_core_large_patch14_336.fb 1024 24 16 4096 14 336 pre_norm,eps5,map,pool_8,"
    "rope_pe24,pool_prefix half 1",
    "vit_pe_core_gigantic_patch14_448.fb 1536 50 16 8960 14 448 no_cls,pre_norm,eps5,map,"
    "pool_8,rope_pe32_0,pool_prefix half 1",
    "vit_pe_lang_large_patch14_448.fb 1024 23 16 4096 14 448 pre_norm,eps5,layer_scale,avg,"
    "no_final_norm,rope_pe32 half 1",
    "vit_pe_lang_gigantic_patch14_448.fb 1536 47 16 8960 14 448 no_cls,pre_norm,eps5,"
    "layer_scale,avg,no_final_norm,rope_pe32_0 half 1",
    "vit_pe_spatial_tiny_patch16_512.fb 192 12 3 768 16 512 pre_norm,eps5,avg,no_final_norm,"
    "rope_pe32 half 1",
    "vit_pe_spatial_small_patch16_512.fb 384 12 6 1536 16 512 pre_norm,eps5,avg,no_final_norm,"
    "rope_pe32 half 1",
    "vit_pe_spatial_base_patch16_512.fb 768 12 12 3072 16 512 pre_norm,eps5,avg,no_final_norm,"
    "rope_pe32 half 1",
    "vit_pe_spatial_large_patch14_448.fb 1024 24 16 4096 14 448 pre_norm,eps5,avg,"
    "no_final_norm,rope_pe32 half 1",
    "vit_pe_spatial_gigantic_patch14_448.fb 1536 50 16 8960 14 448 no_cls,pre_norm,eps5,"
    "layer_scale,avg,no_final_norm,rope_pe32_0 half 1",
    "vit_small_patch16_rope_224.naver_in1k 384 12 6 1536 16 224 no_pos,layer_scale,rope_axial "
    "imagenet 0.9",
    "vit_base_patch16_rope_224.naver_in1k 768 12 12 3072 16 224 no_pos,layer_scale,rope_axial "
    "imagenet 0.9",
    "vit_large_patch16_rope_224.naver_in1k 1024 24 16 4096 16 224 no_pos,layer_scale,"
    "rope_axial imagenet 0.9",
    "vit_small_patch16_rope_mixed_224.naver_in1k 384 12 6 1536 16 224 no_pos,layer_scale,"
    "rope_mixed imagenet 0.9",
    "vit_base_patch16_rope_mixed_224.naver_in1k 768 12 12 3072 16 224 no_pos,layer_scale,"
    "rope_mixed imagenet 0.9",
    "vit_large_patch16_rope_mixed_224.naver_in1k 1024 24 16 4096 16 224 no_pos,layer_scale,"
    "rope_mixed imagenet 0.9",
    "vit_small_patch16_rope_ape_224.naver_in1k 384 12 6 1536 16 224 patch_pos,layer_scale,"
    "rope_axial imagenet 0.9",
    "vit_base_patch16_rope_ape_224.naver_in1k 768 12 12 3072 16 224 patch_pos,layer_scale,"
    "rope_axial imagenet 0.9",
    "vit_large_patch16_rope_ape_224.naver_in1k 1024 24 16 4096 16 224 patch_pos,layer_scale,"
    "rope_axial imagenet 0.9",
    "vit_small_patch16_rope_mixed_ape_224.naver_in1k 384 12 6 1536 16 224 patch_pos,"
    "layer_scale,rope_mixed imagenet 0.9",
    "vit_base_patch16_rope_mixed_ape_224.naver_in1k 768 12 12 3072 16 224 patch_pos,"
    "layer_scale,rope_mixed imagenet 0.9",
    "vit_large_patch16_rope_mixed_ape_224.naver_in1k 1024 24 16 4096 16 224 patch_pos,"
    "layer_scale,rope_mixed imagenet 0.9",
    "vit_tiny_patch16_dinov3_qkvb.eupe_lvd1689m 192 12 3 768 16 256 reg4,no_pos,eps5,"
    "layer_scale,avg,rope_dinov3 imagenet 1",
    "vit_small_patch16_dinov3.lvd1689m 384 12 6 1536 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,avg,rope_dinov3 imagenet 1",
    "vit_small_patch16_dinov3_qkvb.lvd1689m 384 12 6 1536 16 256 reg4,no_pos,eps5,layer_scale,"
    "avg,rope_dinov3 imagenet 1",
    "vit_small_plus_patch16_dinov3.lvd1689m 384 12 6 1536 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,silu,gated,avg,rope_dinov3 imagenet 1",
    "vit_small_plus_patch16_dinov3_qkvb.lvd1689m 384 12 6 1536 16 256 reg4,no_pos,eps5,"
    "layer_scale,silu,gated,avg,rope_dinov3 imagenet 1",
    "vit_base_patch16_dinov3.lvd1689m 768 12 12 3072 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,avg,rope_dinov3 imagenet 1",
    "vit_base_patch16_dinov3_qkvb.lvd1689m 768 12 12 3072 16 256 reg4,no_pos,eps5,layer_scale,"
    "avg,rope_dinov3 imagenet 1",
    "vit_large_patch16_dinov3.lvd1689m 1024 24 16 4096 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,avg,rope_dinov3 imagenet 1",
    "vit_large_patch16_dinov3.sat493m 1024 24 16 4096 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,avg,rope_dinov3 satellite 1",
    "vit_large_patch16_dinov3_qkvb.lvd1689m 1024 24 16 4096 16 256 reg4,no_pos,eps5,"
    "layer_scale,avg,rope_dinov3 imagenet 1",
    "vit_large_patch16_dinov3_qkvb.sat493m 1024 24 16 4096 16 256 reg4,no_pos,eps5,layer_scale,"
    "avg,rope_dinov3 satellite 1",
    "vit_huge_plus_patch16_dinov3.lvd1689m 1280 32 20 5120 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,silu,gated,avg,rope_dinov3 imagenet 1",
    "vit_huge_plus_patch16_dinov3_qkvb.lvd1689m 1280 32 20 5120 16 256 reg4,no_pos,eps5,"
    "layer_scale,silu,gated,avg,rope_dinov3 imagenet 1",
    "vit_7b_patch16_dinov3.lvd1689m 4096 40 32 8192 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,silu,gated,avg,rope_dinov3 imagenet 1",
    "vit_7b_patch16_dinov3.sat493m 4096 40 32 8192 16 256 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,silu,gated,avg,rope_dinov3 satellite 1",
    "vit_relpos_base_patch32_plus_rpn_256.sw_in1k 896 12 14 3584 32 256 res_post,no_pos,no_cls,avg,"
    "rel_pos half 0.9",
    "vit_relpos_base_patch16_plus_240.untrained 896 12 14 3584 16 240 no_pos,no_cls,layer_scale,"
    "avg,rel_pos half 0.9",
    "vit_relpos_small_patch16_224.sw_in1k 384 12 6 1536 16 224 no_pos,no_cls,no_qkv_bias,"
    "layer_scale,avg,fc_norm,rel_pos half 0.9",
    "vit_relpos_medium_patch16_224.sw_in1k 512 12 8 2048 16 224 no_pos,no_cls,no_qkv_bias,"
    "layer_scale,avg,fc_norm,rel_pos half 0.9",
    "vit_relpos_base_patch16_224.sw_in1k 768 12 12 3072 16 224 no_pos,no_cls,no_qkv_bias,"
    "layer_scale,avg,fc_norm,rel_pos half 0.9",
    "vit_srelpos_small_patch16_224.sw_in1k 384 12 6 1536 16 224 no_pos,no_cls,no_qkv_bias,"
    "layer_scale,avg,rel_pos half 0.9",
    "vit_srelpos_medium_patch16_224.sw_in1k 512 12 8 2048 16 224 no_pos,no_cls,no_qkv_bias,"
    "layer_scale,avg,rel_pos half 0.9",
    "vit_relpos_medium_patch16_cls_224.sw_in1k 512 12 8 2048 16 224 no_pos,no_qkv_bias,"
    "layer_scale,rel_pos half 0.9",
    "vit_relpos_base_patch16_cls_224.untrained 768 12 12 3072 16 224 no_pos,no_qkv_bias,"
    "layer_scale,rel_pos half 0.9",
    "vit_relpos_base_patch16_clsgap_224.sw_in1k 768 12 12 3072 16 224 no_pos,no_qkv_bias,"
    "layer_scale,avg,fc_norm,rel_pos half 0.9",
    "vit_relpos_small_patch16_rpn_224.untrained 384 12 6 1536 16 224 res_post,no_pos,no_cls,"
    "no_qkv_bias,avg,rel_pos half 0.9",
    "vit_relpos_medium_patch16_rpn_224.sw_in1k 512 12 8 2048 16 224 res_post,no_pos,no_cls,"
    "no_qkv_bias,avg,rel_pos half 0.9",
    "vit_relpos_base_patch16_rpn_224.untrained 768 12 12 3072 16 224 res_post,no_pos,no_cls,"
    "no_qkv_bias,avg,rel_pos half 0.9",
    "vit_small_patch16_lingbot.robbyant 384 12 6 1536 16 512 reg4,no_pos,eps5,layer_scale,avg,"
    "squash,bilinear,rope_dinov3 imagenet 1",
    "vit_base_patch16_lingbot.robbyant 768 12 12 3072 16 512 reg4,no_pos,eps5,layer_scale,avg,"
    "squash,bilinear,rope_dinov3 imagenet 1",
    "vit_large_patch16_lingbot.robbyant 1024 24 16 4096 16 512 reg4,no_pos,eps5,layer_scale,avg,"
    "squash,bilinear,rope_dinov3 imagenet 1",
    "vit_giant_patch16_lingbot.robbyant 1536 40 24 4096 16 512 reg4,no_pos,eps5,no_qkv_bias,"
    "layer_scale,silu,gated,avg,squash,bilinear,rope_dinov3 imagenet 1",
    "beit_base_patch16_224.in22k_ft_in22k_in1k 768 12 12 3072 16 224 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos half 0.9",
    "beit_base_patch16_384.in22k_ft_in22k_in1k 768 12 12 3072 16 384 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos half 1",
    "beit_large_patch16_224.in22k_ft_in22k_in1k 1024 24 16 4096 16 224 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos half 0.9",
    "beit_large_patch16_384.in22k_ft_in22k_in1k 1024 24 16 4096 16 384 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos half 1",
    "beit_large_patch16_512.in22k_ft_in22k_in1k 1024 24 16 4096 16 512 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos half 1",
    "beitv2_base_patch16_224.in1k_ft_in22k_in1k 768 12 12 3072 16 224 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos imagenet 0.9",
    "beitv2_large_patch16_224.in1k_ft_in22k_in1k 1024 24 16 4096 16 224 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos imagenet 0.95",
    "beitv2_large_patch16_224.in1k_ft_in22k 1024 24 16 4096 16 224 no_pos,layer_scale,avg,"
    "fc_norm,rel_pos imagenet 0.9",
    "vit_base_patch16_xp_224.untrained 768 12 12 3072 16 224 patch_pos,pre_norm,rms,"
    "no_qkv_bias,qk_norm,parallel half 0.9",
    "vit_dwee_patch16_reg1_gap_256.sbb_nadamuon_in1k 256 14 4 1280 16 256 no_cls,reg1,"
    "patch_pos,layer_scale,avg,fc_norm,diff half 0.95",
    "vit_pwee_patch16_reg1_gap_256.sbb_in1k 256 16 4 1280 16 256 no_cls,reg1,patch_pos,"
    "layer_scale,avg,fc_norm,parallel half 0.95",
    "vit_dpwee_patch16_reg1_gap_256.sbb_nadamuon_in1k 256 16 4 1280 16 256 no_cls,reg1,"
    "patch_pos,layer_scale,avg,fc_norm,diff,parallel half 0.95",
    "vit_dlittle_patch16_reg1_gap_256.sbb_nadamuon_in1k 320 14 5 1792 16 256 no_cls,reg1,"
    "patch_pos,layer_scale,avg,fc_norm,diff half 0.95",
};

static const struct {
    const char *word;
    uint64_t option;
} words[] = {
    { "no_cls", ARCH_NO_CLS },
    { "dist", ARCH_DIST },
    { "reg1", ARCH_REG1 },
    { "reg4", ARCH_REG4 },
    { "patch_pos", ARCH_PATCH_POS },
    { "patch_norm", ARCH_PATCH_NORM },
    { "pre_norm", ARCH_PRE_NORM },
    { "rms", ARCH_RMS },
    { "eps5", ARCH_EPS5 },
    { "res_post", ARCH_RES_POST },
    { "no_qkv_bias", ARCH_NO_QKV_BIAS },
    { "no_proj_bias", ARCH_NO_PROJ_BIAS },
    { "scale_norms", ARCH_SCALE_NORMS },
    { "layer_scale", ARCH_LAYER_SCALE },
    { "gelu_tanh", ARCH_GELU_TANH },
    { "quick_gelu", ARCH_QUICK_GELU },
    { "silu", ARCH_SILU },
    { "gated", ARCH_GATED },
    { "avg", ARCH_AVG },
    { "map", ARCH_MAP },
    { "pool_prefix", ARCH_POOL_PREFIX },
    { "fc_norm", ARCH_FC_NORM },
    { "no_final_norm", ARCH_NO_FINAL_NORM },
    { "bilinear", ARCH_BILINEAR },
    { "squash", ARCH_SQUASH },
    { "dynamic", ARCH_DYNAMIC },
    { "flexivit", ARCH_FLEXIVIT },
    { "no_pos", ARCH_NO_POS },
    { "rel_pos", ARCH_REL_POS },
    { "scale_mlp", ARCH_SCALE_MLP },
    { "pool_8", ARCH_POOL_8 },
    { "diff", ARCH_DIFF },
    { "parallel", ARCH_PARALLEL },
    { "qk_norm", ARCH_QK_NORM },
    { "rope_eva02", ARCH_ROPE(ARCH_ROPE_EVA02) },
    { "rope_pe14", ARCH_ROPE(ARCH_ROPE_PE14) },
    { "rope_pe24", ARCH_ROPE(ARCH_ROPE_PE24) },
    { "rope_pe32", ARCH_ROPE(ARCH_ROPE_PE32) },
    { "rope_pe32_0", ARCH_ROPE(ARCH_ROPE_PE32_0) },
    { "rope_axial", ARCH_ROPE(ARCH_ROPE_AXIAL) },
    { "rope_mixed", ARCH_ROPE(ARCH_ROPE_MIXED) },
    { "rope_dinov3", ARCH_ROPE(ARCH_ROPE_DINOV3) },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Returns the options that are named in a list of words, separated by commas. If a word is unknown,
 * returns all options. */
static uint64_t options_of(const char *text) {
    uint64_t options = 0;
    if (!strcmp(text, "plain")) return 0;
    while (*text) {
        size_t length = strcspn(text, ","), i;
        for (i = 0; i < COUNT(words); i++)
            if (strlen(words[i].word) == length && !memcmp(words[i].word, text, length)) break;
        if (i == COUNT(words)) return UINT64_MAX;
        options |= words[i].option;
        text += length + (text[length] == ',');
    }
    return options;
}

static arch_norm norm_of(const char *word) {
    if (!strcmp(word, "half")) return ARCH_HALF;
    if (!strcmp(word, "imagenet")) return ARCH_IMAGENET;
    if (!strcmp(word, "satellite")) return ARCH_SATELLITE;
    return strcmp(word, "openai") ? ARCH_UNIT : ARCH_OPENAI;
}

static void check_found(const char *tag, const char *rest) {
    char options[160], norm[16], detail[VIT_MAX_DETAIL];
    report r = report_make();
    arch_choice choice;
    arch a;
    vit_config config;
    memset(&a, 0, sizeof a);
    CHECK_MSG(arch_find(tag, &choice, &r) == ARCH_FOUND, "%s: %s", tag, r.text);
    if (r.failed) return;
    CHECK_MSG(sscanf(rest, "%d %d %d %d %d %d %159s %15s %lf", &a.embed_dim, &a.depth, &a.num_heads,
                     &a.mlp_dim, &a.patch_size, &a.img_size, options, norm, &a.crop_pct) == 9,
              "%s: %s", tag, rest);
    CHECK_MSG(choice.arch->embed_dim == a.embed_dim && choice.arch->depth == a.depth &&
                  choice.arch->num_heads == a.num_heads && choice.arch->mlp_dim == a.mlp_dim &&
                  choice.arch->patch_size == a.patch_size && choice.arch->img_size == a.img_size,
              "%s", tag);
    a.options = options_of(options);
    CHECK_MSG((choice.arch->options & ~ARCH_SQUASH) == (a.options & ~ARCH_SQUASH), "%s: %s", tag,
              options);
    CHECK_MSG(choice.squash == ((a.options & ARCH_SQUASH) != 0), "%s", tag);
    CHECK_MSG(choice.tag_known && choice.norm == norm_of(norm), "%s: %s", tag, norm);
    CHECK_MSG(choice.crop_pct == a.crop_pct, "%s: %g", tag, choice.crop_pct);
    arch_config(&choice, &config);
    CHECK_MSG(vit_config_check(&config, detail) == VIT_OK, "%s: %s", tag, detail);
}

static void test_tags(void) {
    size_t i;
    for (i = 0; i < COUNT(tags); i++) {
        char tag[128];
        size_t length = strcspn(tags[i], " ");
        memcpy(tag, tags[i], length);
        tag[length] = '\0';
        check_found(tag, tags[i] + length);
    }
}

/* Checks that an option in a name has reached the configuration. */
static void check_config(const char *name, const char *field, int got, int expected) {
    CHECK_MSG(got == expected, "%s: %s %d", name, field, got);
}

static void test_config(void) {
    report r = report_make();
    arch_choice choice;
    vit_config c;
    CHECK(arch_find("vit_so150m_patch16_reg4_gap_256.sbb_e250_in12k", &choice, &r) == ARCH_FOUND);
    arch_config(&choice, &c);
    check_config("so150m", "num_reg_tokens", c.num_reg_tokens, 4);
    check_config("so150m", "positions", c.positions, VIT_POS_ALL);
    check_config("so150m", "has_final_norm", c.has_final_norm, 1);
    check_config("so150m", "resize_height", c.resize_height, 269);
    CHECK(arch_find("aimv2_1b_patch14_336.apple_pt", &choice, &r) == ARCH_FOUND);
    arch_config(&choice, &c);
    check_config("aimv2", "norm_type", c.norm_type, VIT_RMS_NORM);
    check_config("aimv2", "activation", c.activation, VIT_SILU);
    check_config("aimv2", "has_gated_mlp", c.has_gated_mlp, 1);
    check_config("aimv2", "has_proj_bias", c.has_proj_bias, 0);
    check_config("aimv2", "has_patch_bias", c.has_patch_bias, 1);
    CHECK(c.norm_eps == 1e-5f && c.mean[0] == 0.48145466f && c.std[2] == 0.27577711f);
    CHECK(arch_find("vit_base_patch16_rpn_224", &choice, &r) == ARCH_FOUND);
    arch_config(&choice, &c);
    check_config("rpn", "block_type", c.block_type, VIT_BLOCK_RES_POST_NORM);
    check_config("rpn", "has_fc_norm", c.has_fc_norm, 1);
    check_config("rpn", "has_final_norm", c.has_final_norm, 0);
    check_config("rpn", "has_layer_scale", c.has_layer_scale, 0);
    CHECK(c.norm_eps == 1e-6f);
}

static void check_rope(const char *name, rope_options expected, vit_rope layout) {
    report r = report_make();
    arch_choice choice;
    rope_options rope;
    vit_config c;
    CHECK(arch_find(name, &choice, &r) == ARCH_FOUND);
    arch_rope_options(&choice, &rope);
    arch_config(&choice, &c);
    CHECK_MSG(rope.type == expected.type && rope.indexing == expected.indexing &&
                  rope.temperature == expected.temperature && rope.offset == expected.offset &&
                  rope.reference == expected.reference,
              "%s", name);
    check_config(name, "rope", c.rope, (int)layout);
    check_config(name, "rope_per_block", c.rope_per_block, expected.type == ROPE_MIXED);
}

static void test_rope(void) {
    static const rope_options eva02 = { ROPE_CAT, ROPE_IJ, 10000, 0, 16 };
    static const rope_options pe14 = { ROPE_CAT, ROPE_XY, 10000, 1, 14 };
    static const rope_options pe24 = { ROPE_CAT, ROPE_XY, 10000, 1, 24 };
    static const rope_options pe32 = { ROPE_CAT, ROPE_XY, 10000, 1, 32 };
    static const rope_options pe_giant = { ROPE_CAT, ROPE_XY, 10000, 0, 32 };
    static const rope_options axial = { ROPE_CAT, ROPE_XY, 100, 0, 0 };
    static const rope_options mixed = { ROPE_MIXED, ROPE_XY, 10, 0, 0 };
    static const rope_options dinov3 = { ROPE_DINOV3, ROPE_IJ, 100, 0, 0 };
    static const rope_options none = { ROPE_NONE, ROPE_IJ, 0, 0, 0 };
    check_rope("eva02_base_patch14_448", eva02, VIT_ROPE_PAIRS);
    check_rope("vit_betwixt_patch16_rope_reg4_gap_256", eva02, VIT_ROPE_PAIRS);
    check_rope("vit_pe_core_base_patch16_224", pe14, VIT_ROPE_PAIRS);
    check_rope("vit_pe_core_large_patch14_336", pe24, VIT_ROPE_PAIRS);
    check_rope("vit_pe_lang_large_patch14_448", pe32, VIT_ROPE_PAIRS);
    check_rope("vit_pe_core_gigantic_patch14_448", pe_giant, VIT_ROPE_PAIRS);
    check_rope("vit_small_patch16_rope_ape_224", axial, VIT_ROPE_PAIRS);
    check_rope("vit_large_patch16_rope_mixed_224", mixed, VIT_ROPE_PAIRS);
    check_rope("vit_7b_patch16_dinov3", dinov3, VIT_ROPE_HALVES);
    check_rope("eva_giant_patch14_224", none, VIT_ROPE_NONE);
}

/* Tests the numbers of blocks of the ResNets, and the channels of each stem. */
static void test_stems(void) {
    static const struct {
        const char *name;
        int stem, width, stages[4];
    } cases[] = {
        { "vit_tiny_r_s16_p8_224", VIT_STEM_RESNET, 64, { 0, 0, 0, 0 } },
        { "vit_base_r26_s32_224", VIT_STEM_RESNET, 64, { 2, 2, 2, 2 } },
        { "vit_base_r50_s16_384", VIT_STEM_RESNET, 64, { 3, 4, 9, 0 } },
        { "vit_large_r50_s32_224", VIT_STEM_RESNET, 64, { 3, 4, 6, 3 } },
        { "vit_base_mci_224", VIT_STEM_CONV, 192, { 0, 0, 0, 0 } },
        { "vit_base_patch16_224", VIT_STEM_NONE, 0, { 0, 0, 0, 0 } },
    };
    report r = report_make();
    arch_choice choice;
    vit_config c;
    size_t i;
    for (i = 0; i < COUNT(cases); i++) {
        const int *stages = cases[i].stages;
        CHECK(arch_find(cases[i].name, &choice, &r) == ARCH_FOUND);
        arch_config(&choice, &c);
        check_config(cases[i].name, "stem", c.stem, cases[i].stem);
        check_config(cases[i].name, "stem_width", c.stem_width, cases[i].width);
        check_config(cases[i].name, "stem_stage1", c.stem_stage1, stages[0]);
        check_config(cases[i].name, "stem_stage2", c.stem_stage2, stages[1]);
        check_config(cases[i].name, "stem_stage3", c.stem_stage3, stages[2]);
        check_config(cases[i].name, "stem_stage4", c.stem_stage4, stages[3]);
    }
}

int main(void) {
    test_tags();
    test_stems();
    test_config();
    test_rope();
    return test_summary();
}
