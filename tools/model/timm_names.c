#define _POSIX_C_SOURCE 200809L

#include "model/timm_names.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* === Tables === */

/* Each row gives embed_dim, depth, num_heads and mlp_dim. */
#define TEST_6           64, 6, 2, 192
#define TEST_8           64, 8, 2, 192
#define TEST_9           96, 9, 3, 192
#define TEST_9W          96, 9, 3, 288
#define TINY             192, 12, 3, 768
#define XSMALL           256, 10, 4, 1024
#define WEE              256, 14, 4, 1280
#define PWEE             256, 16, 4, 1280
#define LITTLE           320, 14, 5, 1792
#define SMALL            384, 12, 6, 1536
#define SMALL_36         384, 36, 6, 1536
#define MEDIUM           512, 12, 8, 2048
#define MEDIUMD          512, 20, 8, 2048
#define BETWIXT          640, 12, 10, 2560
#define BASE             768, 12, 12, 3072
#define BASE_16          768, 12, 16, 3072
#define SO150M2          832, 21, 13, 2176
#define PLUS             896, 12, 14, 3584
#define SO150M           896, 18, 14, 2304
#define AIM_LARGE        1024, 24, 8, 2816
#define LARGE            1024, 24, 16, 4096
#define SO400M           1152, 27, 16, 4304
#define HUGE_SIZE        1280, 32, 16, 5120
#define GIANT            1408, 40, 16, 6144
#define AIM_HUGE         1536, 24, 12, 4096
#define GIANTOPT         1536, 40, 16, 6144
#define GIANT_GLU        1536, 40, 24, 4096
#define GIGANTIC         1664, 48, 16, 8192
#define AIM_1B           2048, 24, 16, 5632
#define AIM_3B           3072, 24, 24, 8192
#define EVA02_TINY       192, 12, 3, 512
#define EVA02_SMALL      384, 12, 6, 1024
#define EVA02_BASE       768, 12, 12, 2048
#define EVA02_LARGE      1024, 24, 16, 2730
#define ENORMOUS         1792, 64, 16, 15360
#define PE_GIGANTIC      1536, 50, 16, 8960
#define PE_LANG_LARGE    1024, 23, 16, 4096
#define PE_LANG_GIGANTIC 1536, 47, 16, 8960
#define DINOV3_HUGE      1280, 32, 20, 5120
#define DINOV3_7B        4096, 40, 32, 8192

/* The options that all models of a family have in common. */
#define PLAIN      0
#define DISTILLED  ARCH_DIST
#define MIIL       (ARCH_NO_QKV_BIAS | ARCH_BILINEAR)
#define SCALED     ARCH_LAYER_SCALE
#define DEIT3      (ARCH_PATCH_POS | ARCH_LAYER_SCALE)
#define PATCH_POS  ARCH_PATCH_POS
#define FLEXIVIT   (ARCH_PATCH_POS | ARCH_FLEXIVIT)
#define DINOV2_GLU (ARCH_LAYER_SCALE | ARCH_GATED | ARCH_SILU)
#define REG4_DINO  (ARCH_REG4 | ARCH_PATCH_POS | ARCH_LAYER_SCALE)
#define REG4_GLU   (ARCH_REG4 | ARCH_PATCH_POS | ARCH_LAYER_SCALE | ARCH_GATED | ARCH_SILU)
#define TIPSV2     (ARCH_REG1 | ARCH_PATCH_POS | ARCH_LAYER_SCALE)
#define TIPSV2_GLU (ARCH_REG1 | ARCH_PATCH_POS | ARCH_LAYER_SCALE | ARCH_GATED | ARCH_SILU)
#define CLIP       (ARCH_PRE_NORM | ARCH_EPS5)
#define QUICK_CLIP (ARCH_PRE_NORM | ARCH_EPS5 | ARCH_QUICK_GELU)
#define EVA        (ARCH_AVG | ARCH_FC_NORM)
#define GAP        (ARCH_NO_CLS | ARCH_AVG)
#define GAP_TANH   (ARCH_NO_CLS | ARCH_AVG | ARCH_GELU_TANH)
#define MAP        (ARCH_NO_CLS | ARCH_MAP)
#define MAP_TANH   (ARCH_NO_CLS | ARCH_MAP | ARCH_GELU_TANH)
#define SW_GAP     (ARCH_NO_CLS | ARCH_LAYER_SCALE | ARCH_NO_QKV_BIAS | ARCH_AVG)
#define RPN        (ARCH_NO_CLS | ARCH_RES_POST | ARCH_NO_QKV_BIAS | ARCH_AVG | ARCH_FC_NORM)
#define SBB_REG1                                                                                   \
    (ARCH_NO_CLS | ARCH_REG1 | ARCH_PATCH_POS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_FC_NORM)
#define SBB_REG4                                                                                   \
    (ARCH_NO_CLS | ARCH_REG4 | ARCH_PATCH_POS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_FC_NORM)
#define REG4_GAP   (ARCH_NO_CLS | ARCH_REG4 | ARCH_PATCH_POS | ARCH_AVG | ARCH_FC_NORM)
#define SO150M_GAP (ARCH_NO_CLS | ARCH_REG4 | ARCH_AVG)
#define SO150M_MAP (ARCH_NO_CLS | ARCH_REG4 | ARCH_MAP)
#define SO150M2_GAP                                                                                \
    (ARCH_NO_CLS | ARCH_REG1 | ARCH_LAYER_SCALE | ARCH_NO_QKV_BIAS | ARCH_AVG | ARCH_FC_NORM)
#define INTERN (ARCH_LAYER_SCALE | ARCH_NO_FINAL_NORM | ARCH_DYNAMIC)
#define AIMV2                                                                                      \
    (ARCH_NO_CLS | ARCH_PATCH_NORM | ARCH_RMS | ARCH_EPS5 | ARCH_NO_QKV_BIAS | ARCH_NO_PROJ_BIAS | \
     ARCH_GATED | ARCH_SILU | ARCH_AVG)
#define BEIT3 (ARCH_EPS5 | ARCH_SCALE_NORMS | ARCH_AVG | ARCH_FC_NORM)
#define TEST1 ARCH_DYNAMIC
#define TEST2 (GAP | ARCH_REG1 | ARCH_LAYER_SCALE | ARCH_FC_NORM | ARCH_DYNAMIC)
#define TEST3 (ARCH_NO_CLS | ARCH_REG1 | ARCH_LAYER_SCALE | ARCH_MAP | ARCH_POOL_PREFIX)
#define TEST4 (GAP | ARCH_REG1 | ARCH_LAYER_SCALE | ARCH_RMS | ARCH_FC_NORM | ARCH_DYNAMIC)

#define EVA02 (ARCH_SILU | ARCH_GATED | ARCH_AVG | ARCH_FC_NORM | ARCH_ROPE(ARCH_ROPE_EVA02))
#define EVA02_NORM                                                                                 \
    (ARCH_SCALE_MLP | ARCH_SILU | ARCH_GATED | ARCH_AVG | ARCH_FC_NORM | ARCH_ROPE(ARCH_ROPE_EVA02))
#define EVA02_CLIP    (ARCH_SCALE_NORMS | ARCH_SILU | ARCH_GATED | ARCH_ROPE(ARCH_ROPE_EVA02))
#define ENORMOUS_CLIP ARCH_RES_POST
#define ROPE_REG1                                                                                  \
    (ARCH_NO_CLS | ARCH_REG1 | ARCH_NO_POS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_FC_NORM |          \
     ARCH_ROPE(ARCH_ROPE_EVA02))
#define ROPE_REG1_NB                                                                               \
    (ARCH_NO_CLS | ARCH_REG1 | ARCH_NO_POS | ARCH_NO_QKV_BIAS | ARCH_LAYER_SCALE | ARCH_AVG |      \
     ARCH_FC_NORM | ARCH_ROPE(ARCH_ROPE_EVA02))
#define ROPE_REG4                                                                                  \
    (ARCH_NO_CLS | ARCH_REG4 | ARCH_NO_POS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_FC_NORM |          \
     ARCH_ROPE(ARCH_ROPE_EVA02))
#define PE_CORE   (ARCH_PRE_NORM | ARCH_EPS5 | ARCH_MAP | ARCH_POOL_PREFIX | ARCH_POOL_8)
#define PE_CORE24 (PE_CORE | ARCH_ROPE(ARCH_ROPE_PE24))
#define PE_CORE14 (PE_CORE | ARCH_ROPE(ARCH_ROPE_PE14))
#define PE_CORE_G (PE_CORE | ARCH_NO_CLS | ARCH_ROPE(ARCH_ROPE_PE32_0))
#define PE_LANG                                                                                    \
    (ARCH_PRE_NORM | ARCH_EPS5 | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_NO_FINAL_NORM |                \
     ARCH_ROPE(ARCH_ROPE_PE32))
#define PE_LANG_G                                                                                  \
    (ARCH_NO_CLS | ARCH_PRE_NORM | ARCH_EPS5 | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_NO_FINAL_NORM |  \
     ARCH_ROPE(ARCH_ROPE_PE32_0))
#define PE_SPATIAL                                                                                 \
    (ARCH_PRE_NORM | ARCH_EPS5 | ARCH_AVG | ARCH_NO_FINAL_NORM | ARCH_ROPE(ARCH_ROPE_PE32))
#define AXIAL     (ARCH_NO_POS | ARCH_LAYER_SCALE | ARCH_ROPE(ARCH_ROPE_AXIAL))
#define MIXED     (ARCH_NO_POS | ARCH_LAYER_SCALE | ARCH_ROPE(ARCH_ROPE_MIXED))
#define AXIAL_APE (ARCH_PATCH_POS | ARCH_LAYER_SCALE | ARCH_ROPE(ARCH_ROPE_AXIAL))
#define MIXED_APE (ARCH_PATCH_POS | ARCH_LAYER_SCALE | ARCH_ROPE(ARCH_ROPE_MIXED))
#define DINOV3_BIAS                                                                                \
    (ARCH_REG4 | ARCH_NO_POS | ARCH_EPS5 | ARCH_LAYER_SCALE | ARCH_AVG |                           \
     ARCH_ROPE(ARCH_ROPE_DINOV3))
#define DINOV3                                                                                     \
    (ARCH_REG4 | ARCH_NO_POS | ARCH_EPS5 | ARCH_NO_QKV_BIAS | ARCH_LAYER_SCALE | ARCH_AVG |        \
     ARCH_ROPE(ARCH_ROPE_DINOV3))
#define DINOV3_GLU                                                                                 \
    (ARCH_REG4 | ARCH_NO_POS | ARCH_EPS5 | ARCH_NO_QKV_BIAS | ARCH_LAYER_SCALE | ARCH_SILU |       \
     ARCH_GATED | ARCH_AVG | ARCH_ROPE(ARCH_ROPE_DINOV3))
#define DINOV3_GLU_BIAS                                                                            \
    (ARCH_REG4 | ARCH_NO_POS | ARCH_EPS5 | ARCH_LAYER_SCALE | ARCH_SILU | ARCH_GATED | ARCH_AVG |  \
     ARCH_ROPE(ARCH_ROPE_DINOV3))
#define LINGBOT_BIAS (DINOV3_BIAS | ARCH_SQUASH | ARCH_BILINEAR)
#define LINGBOT_GLU  (DINOV3_GLU | ARCH_SQUASH | ARCH_BILINEAR)
#define BEIT         (ARCH_NO_POS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_FC_NORM | ARCH_REL_POS)
#define RELPOS                                                                                     \
    (ARCH_NO_POS | ARCH_NO_CLS | ARCH_NO_QKV_BIAS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_REL_POS)
#define RELPOS_FC   (RELPOS | ARCH_FC_NORM)
#define RELPOS_CLS  (ARCH_NO_POS | ARCH_NO_QKV_BIAS | ARCH_LAYER_SCALE | ARCH_REL_POS)
#define RELPOS_GAP  (RELPOS_CLS | ARCH_AVG | ARCH_FC_NORM)
#define RELPOS_PLUS (ARCH_NO_POS | ARCH_NO_CLS | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_REL_POS)
#define RELPOS_POST (ARCH_NO_POS | ARCH_NO_CLS | ARCH_RES_POST | ARCH_AVG | ARCH_REL_POS)
#define XP                                                                                         \
    (ARCH_PATCH_POS | ARCH_PRE_NORM | ARCH_RMS | ARCH_NO_QKV_BIAS | ARCH_QK_NORM | ARCH_PARALLEL)
#define SBB_DIFF          (SBB_REG1 | ARCH_DIFF)
#define SBB_PARALLEL      (SBB_REG1 | ARCH_PARALLEL)
#define SBB_DIFF_PARALLEL (SBB_REG1 | ARCH_DIFF | ARCH_PARALLEL)

#define NAFLEX     (ARCH_NAFLEX | ARCH_NO_CLS | ARCH_PATCH_POS)
#define NAFLEX_GAP (NAFLEX | ARCH_REG4 | ARCH_LAYER_SCALE | ARCH_AVG | ARCH_FC_NORM)
#define NAFLEX_MAP (NAFLEX | ARCH_REG1 | ARCH_LAYER_SCALE | ARCH_MAP)
#define NAFLEX_SO_GAP                                                                              \
    (NAFLEX | ARCH_REG1 | ARCH_LAYER_SCALE | ARCH_NO_QKV_BIAS | ARCH_AVG | ARCH_FC_NORM)
#define NAFLEX_SO_MAP (NAFLEX_MAP | ARCH_NO_QKV_BIAS)
#define NAFLEX_PAR    (NAFLEX_GAP | ARCH_PAR)
#define NAFLEX_FAC    (NAFLEX_PAR | ARCH_FACTORS)
#define NAFLEX_TANH   (NAFLEX | ARCH_MAP | ARCH_GELU_TANH)

#define HALF     ARCH_HALF
#define IMAGENET ARCH_IMAGENET
#define OPENAI   ARCH_OPENAI
#define UNIT     ARCH_UNIT
#define SQUASH   ARCH_SQUASH

/* clang-format off */
static const arch archs[] = {
    /* name                                 size   patch image options        norm      crop */
    /* ViT */
    { "vit_base_patch16_224",                BASE,      16, 224, PLAIN,         HALF,     0.9   },
    { "vit_base_patch8_224",                 BASE,       8, 224, PLAIN,         HALF,     0.9   },
    { "vit_tiny_patch16_224",                TINY,      16, 224, PLAIN,         HALF,     0.9   },
    { "vit_tiny_patch16_384",                TINY,      16, 384, PLAIN,         HALF,     1.0   },
    { "vit_small_patch32_224",               SMALL,     32, 224, PLAIN,         HALF,     0.9   },
    { "vit_small_patch32_384",               SMALL,     32, 384, PLAIN,         HALF,     1.0   },
    { "vit_small_patch16_224",               SMALL,     16, 224, PLAIN,         HALF,     0.9   },
    { "vit_small_patch16_384",               SMALL,     16, 384, PLAIN,         HALF,     1.0   },
    { "vit_base_patch32_224",                BASE,      32, 224, PLAIN,         HALF,     0.9   },
    { "vit_base_patch32_384",                BASE,      32, 384, PLAIN,         HALF,     1.0   },
    { "vit_base_patch16_384",                BASE,      16, 384, PLAIN,         HALF,     1.0   },
    { "vit_large_patch16_224",               LARGE,     16, 224, PLAIN,         HALF,     0.9   },
    { "vit_large_patch16_384",               LARGE,     16, 384, PLAIN,         HALF,     1.0   },
    { "vit_large_patch32_384",               LARGE,     32, 384, PLAIN,         HALF,     1.0   },
    { "vit_large_patch14_224",               LARGE,     14, 224, PLAIN,         HALF,     0.9   },
    { "vit_huge_patch14_224",                HUGE_SIZE, 14, 224, PLAIN,         HALF,     0.9   },
    { "vit_giant_patch14_224",               GIANT,     14, 224, PLAIN,         HALF,     0.9   },
    { "vit_gigantic_patch14_224",            GIGANTIC,  14, 224, PLAIN,         HALF,     0.9   },
    { "vit_large_patch32_224",               LARGE,     32, 224, PLAIN,         HALF,     0.9   },
    { "vit_small_patch8_224",                SMALL,      8, 224, PLAIN,         IMAGENET, 0.9   },
    { "vit_base_patch16_224_miil",           BASE,      16, 224, MIIL,          UNIT,     0.875 },
    { "vit_base_patch32_plus_256",           PLUS,      32, 256, SCALED,        HALF,     0.95  },
    { "vit_base_patch16_plus_240",           PLUS,      16, 240, SCALED,        HALF,     0.95  },
    { "vit_small_patch16_36x1_224",          SMALL_36,  16, 224, SCALED,        HALF,     0.9   },
    /* DeiT */
    { "deit_tiny_patch16_224",               TINY,      16, 224, PLAIN,         IMAGENET, 0.9   },
    { "deit_small_patch16_224",              SMALL,     16, 224, PLAIN,         IMAGENET, 0.9   },
    { "deit_base_patch16_224",               BASE,      16, 224, PLAIN,         IMAGENET, 0.9   },
    { "deit_base_patch16_384",               BASE,      16, 384, PLAIN,         IMAGENET, 1.0   },
    { "deit_tiny_distilled_patch16_224",     TINY,      16, 224, DISTILLED,     IMAGENET, 0.9   },
    { "deit_small_distilled_patch16_224",    SMALL,     16, 224, DISTILLED,     IMAGENET, 0.9   },
    { "deit_base_distilled_patch16_224",     BASE,      16, 224, DISTILLED,     IMAGENET, 0.9   },
    { "deit_base_distilled_patch16_384",     BASE,      16, 384, DISTILLED,     IMAGENET, 1.0   },
    /* DeiT-3 */
    { "deit3_small_patch16_224",             SMALL,     16, 224, DEIT3,         IMAGENET, 0.9   },
    { "deit3_small_patch16_384",             SMALL,     16, 384, DEIT3,         IMAGENET, 1.0   },
    { "deit3_medium_patch16_224",            MEDIUM,    16, 224, DEIT3,         IMAGENET, 0.9   },
    { "deit3_base_patch16_224",              BASE,      16, 224, DEIT3,         IMAGENET, 0.9   },
    { "deit3_base_patch16_384",              BASE,      16, 384, DEIT3,         IMAGENET, 1.0   },
    { "deit3_large_patch16_224",             LARGE,     16, 224, DEIT3,         IMAGENET, 0.9   },
    { "deit3_large_patch16_384",             LARGE,     16, 384, DEIT3,         IMAGENET, 1.0   },
    { "deit3_huge_patch14_224",              HUGE_SIZE, 14, 224, DEIT3,         IMAGENET, 0.9   },
    /* DINOv2, TIPSv2 */
    { "vit_small_patch14_dinov2",            SMALL,     14, 518, SCALED,        IMAGENET, 1.0   },
    { "vit_base_patch14_dinov2",             BASE,      14, 518, SCALED,        IMAGENET, 1.0   },
    { "vit_large_patch14_dinov2",            LARGE,     14, 518, SCALED,        IMAGENET, 1.0   },
    { "vit_giant_patch14_dinov2",            GIANT_GLU, 14, 518, DINOV2_GLU,    IMAGENET, 1.0   },
    { "vit_small_patch14_reg4_dinov2",       SMALL,     14, 518, REG4_DINO,     IMAGENET, 1.0   },
    { "vit_base_patch14_reg4_dinov2",        BASE,      14, 518, REG4_DINO,     IMAGENET, 1.0   },
    { "vit_large_patch14_reg4_dinov2",       LARGE,     14, 518, REG4_DINO,     IMAGENET, 1.0   },
    { "vit_giant_patch14_reg4_dinov2",       GIANT_GLU, 14, 518, REG4_GLU,      IMAGENET, 1.0   },
    { "vit_base_patch14_reg1_tipsv2",        BASE,      14, 448, TIPSV2,        UNIT,     1.0   },
    { "vit_large_patch14_reg1_tipsv2",       LARGE,     14, 448, TIPSV2,        UNIT,     1.0   },
    { "vit_so400m_patch14_reg1_tipsv2",      SO400M,    14, 448, TIPSV2,        UNIT,     1.0   },
    { "vit_giant_patch14_reg1_tipsv2",       GIANT_GLU, 14, 448, TIPSV2_GLU,    UNIT,     1.0   },
    /* CLIP */
    { "vit_base_patch32_clip_224",           BASE,      32, 224, CLIP,          OPENAI,   0.9   },
    { "vit_base_patch32_clip_384",           BASE,      32, 384, CLIP,          OPENAI,   1.0   },
    { "vit_base_patch32_clip_448",           BASE,      32, 448, CLIP,          OPENAI,   1.0   },
    { "vit_base_patch16_clip_224",           BASE,      16, 224, CLIP,          OPENAI,   0.95  },
    { "vit_base_patch16_clip_384",           BASE,      16, 384, CLIP | SQUASH, OPENAI,   1.0   },
    { "vit_large_patch14_clip_224",          LARGE,     14, 224, CLIP,          HALF,     1.0   },
    { "vit_large_patch14_clip_336",          LARGE,     14, 336, CLIP | SQUASH, HALF,     1.0   },
    { "vit_huge_patch14_clip_224",           HUGE_SIZE, 14, 224, CLIP,          OPENAI,   1.0   },
    { "vit_huge_patch14_clip_336",           HUGE_SIZE, 14, 336, CLIP | SQUASH, OPENAI,   1.0   },
    { "vit_giant_patch14_clip_224",          GIANT,     14, 224, CLIP,          OPENAI,   1.0   },
    { "vit_gigantic_patch14_clip_224",       GIGANTIC,  14, 224, CLIP,          OPENAI,   1.0   },
    { "vit_base_patch16_plus_clip_240",      PLUS,      16, 240, CLIP,          OPENAI,   1.0   },
    { "vit_base_patch32_clip_256",           BASE,      32, 256, CLIP,          OPENAI,   1.0   },
    { "vit_huge_patch14_clip_378",           HUGE_SIZE, 14, 378, CLIP,          OPENAI,   1.0   },
    { "vit_gigantic_patch14_clip_378",       GIGANTIC,  14, 378, CLIP | SQUASH, OPENAI,   1.0   },
    { "vit_xsmall_patch16_clip_224",         XSMALL,    16, 224, CLIP,          OPENAI,   0.9   },
    { "vit_medium_patch32_clip_224",         MEDIUM,    32, 224, CLIP,          OPENAI,   0.9   },
    { "vit_medium_patch16_clip_224",         MEDIUM,    16, 224, CLIP,          OPENAI,   0.9   },
    { "vit_betwixt_patch32_clip_224",        BETWIXT,   32, 224, CLIP,          OPENAI,   0.9   },
    /* CLIP with OpenAI's activation */
    { "vit_base_patch32_clip_quickgelu_224", BASE,      32, 224, QUICK_CLIP,    OPENAI,   0.9   },
    { "vit_large_patch14_clip_quickgelu_224", LARGE,     14, 224, QUICK_CLIP,    OPENAI,   1.0   },
    { "vit_huge_patch14_clip_quickgelu_224", HUGE_SIZE, 14, 224, QUICK_CLIP,    OPENAI,   1.0   },
    { "vit_huge_patch14_clip_quickgelu_378", HUGE_SIZE, 14, 378, QUICK_CLIP,    OPENAI,   1.0   },
    { "vit_base_patch16_clip_quickgelu_224", BASE,      16, 224, QUICK_CLIP,    OPENAI,   1.0   },
    { "vit_gigantic_patch14_clip_quickgelu_224", GIGANTIC, 14, 224, QUICK_CLIP, OPENAI, 1.0 },
    { "vit_large_patch14_clip_quickgelu_336", LARGE,     14, 336, QUICK_CLIP,    OPENAI,   1.0   },
    /* SigLIP, which uses attention pooling */
    { "vit_base_patch32_siglip_256",         BASE,      32, 256, MAP_TANH,      HALF,     0.9   },
    { "vit_base_patch16_siglip_224",         BASE,      16, 224, MAP,           HALF,     0.9   },
    { "vit_base_patch16_siglip_256",         BASE,      16, 256, MAP,           HALF,     0.9   },
    { "vit_base_patch16_siglip_384",         BASE,      16, 384, MAP,           HALF,     0.9   },
    { "vit_base_patch16_siglip_512",         BASE,      16, 512, MAP,           HALF,     0.9   },
    { "vit_large_patch16_siglip_256",        LARGE,     16, 256, MAP,           HALF,     0.9   },
    { "vit_large_patch16_siglip_384",        LARGE,     16, 384, MAP,           HALF,     0.9   },
    { "vit_large_patch16_siglip_512",        LARGE,     16, 512, MAP_TANH,      HALF,     0.9   },
    { "vit_so400m_patch14_siglip_224",       SO400M,    14, 224, MAP,           HALF,     0.9   },
    { "vit_so400m_patch14_siglip_378",       SO400M,    14, 378, MAP,           HALF,     0.9   },
    { "vit_so400m_patch14_siglip_384",       SO400M,    14, 384, MAP,           HALF,     0.9   },
    { "vit_so400m_patch16_siglip_256",       SO400M,    16, 256, MAP_TANH,      HALF,     0.9   },
    { "vit_so400m_patch16_siglip_384",       SO400M,    16, 384, MAP_TANH,      HALF,     0.9   },
    { "vit_so400m_patch16_siglip_512",       SO400M,    16, 512, MAP_TANH,      HALF,     0.9   },
    { "vit_giantopt_patch16_siglip_256",     GIANTOPT,  16, 256, MAP_TANH,      HALF,     0.9   },
    { "vit_giantopt_patch16_siglip_384",     GIANTOPT,  16, 384, MAP_TANH,      HALF,     0.9   },
    /* SigLIP and PaliGemma, whose head reads the mean of the patch tokens */
    { "vit_base_patch32_siglip_gap_256",     BASE,      32, 256, GAP_TANH,      HALF,     0.9   },
    { "vit_base_patch16_siglip_gap_224",     BASE,      16, 224, GAP,           HALF,     0.9   },
    { "vit_base_patch16_siglip_gap_256",     BASE,      16, 256, GAP,           HALF,     0.9   },
    { "vit_base_patch16_siglip_gap_384",     BASE,      16, 384, GAP,           HALF,     0.9   },
    { "vit_base_patch16_siglip_gap_512",     BASE,      16, 512, GAP,           HALF,     0.9   },
    { "vit_large_patch16_siglip_gap_256",    LARGE,     16, 256, GAP,           HALF,     0.9   },
    { "vit_large_patch16_siglip_gap_384",    LARGE,     16, 384, GAP,           HALF,     0.9   },
    { "vit_large_patch16_siglip_gap_512",    LARGE,     16, 512, GAP_TANH,      HALF,     0.9   },
    { "vit_so400m_patch14_siglip_gap_224",   SO400M,    14, 224, GAP,           HALF,     0.9   },
    { "vit_so400m_patch14_siglip_gap_378",   SO400M,    14, 378, GAP,           HALF,     0.9   },
    { "vit_so400m_patch14_siglip_gap_384",   SO400M,    14, 384, GAP,           HALF,     1.0   },
    { "vit_so400m_patch14_siglip_gap_448",   SO400M,    14, 448, GAP,           HALF,     1.0   },
    { "vit_so400m_patch14_siglip_gap_896",   SO400M,    14, 896, GAP,           HALF,     1.0   },
    { "vit_so400m_patch16_siglip_gap_256",   SO400M,    16, 256, GAP_TANH,      HALF,     0.9   },
    { "vit_so400m_patch16_siglip_gap_384",   SO400M,    16, 384, GAP_TANH,      HALF,     0.9   },
    { "vit_so400m_patch16_siglip_gap_512",   SO400M,    16, 512, GAP_TANH,      HALF,     0.9   },
    { "vit_giantopt_patch16_siglip_gap_256", GIANTOPT,  16, 256, GAP_TANH,      HALF,     0.9   },
    { "vit_giantopt_patch16_siglip_gap_384", GIANTOPT,  16, 384, GAP_TANH,      HALF,     0.9   },
    /* other models */
    { "eva_large_patch14_196",               LARGE,     14, 196, EVA,           OPENAI,   1.0   },
    { "eva_large_patch14_336",               LARGE,     14, 336, EVA | SQUASH,  OPENAI,   1.0   },
    { "flexivit_small",                      SMALL,     16, 240, FLEXIVIT,      HALF,     0.95  },
    { "flexivit_base",                       BASE,      16, 240, FLEXIVIT,      HALF,     0.95  },
    { "flexivit_large",                      LARGE,     16, 240, FLEXIVIT,      HALF,     0.95  },
    { "vit_intern300m_patch14_448",          LARGE,     14, 448, INTERN,        IMAGENET, 1.0   },
    { "beit3_base_patch16_224",              BASE,      16, 224, BEIT3,         IMAGENET, 1.0   },
    { "beit3_large_patch16_224",             LARGE,     16, 224, BEIT3,         IMAGENET, 1.0   },
    { "beit3_giant_patch14_224",             GIANT,     14, 224, BEIT3,         IMAGENET, 1.0   },
    { "beit3_giant_patch14_336",             GIANT,     14, 336, BEIT3,         IMAGENET, 1.0   },
    /* AIMv2 */
    { "aimv2_large_patch14_224",             AIM_LARGE, 14, 224, AIMV2,         OPENAI,   1.0   },
    { "aimv2_huge_patch14_224",              AIM_HUGE,  14, 224, AIMV2,         OPENAI,   1.0   },
    { "aimv2_1b_patch14_224",                AIM_1B,    14, 224, AIMV2,         OPENAI,   1.0   },
    { "aimv2_3b_patch14_224",                AIM_3B,    14, 224, AIMV2,         OPENAI,   1.0   },
    { "aimv2_large_patch14_336",             AIM_LARGE, 14, 336, AIMV2,         OPENAI,   1.0   },
    { "aimv2_huge_patch14_336",              AIM_HUGE,  14, 336, AIMV2,         OPENAI,   1.0   },
    { "aimv2_1b_patch14_336",                AIM_1B,    14, 336, AIMV2,         OPENAI,   1.0   },
    { "aimv2_3b_patch14_336",                AIM_3B,    14, 336, AIMV2,         OPENAI,   1.0   },
    { "aimv2_large_patch14_448",             AIM_LARGE, 14, 448, AIMV2,         OPENAI,   1.0   },
    { "aimv2_huge_patch14_448",              AIM_HUGE,  14, 448, AIMV2,         OPENAI,   1.0   },
    { "aimv2_1b_patch14_448",                AIM_1B,    14, 448, AIMV2,         OPENAI,   1.0   },
    { "aimv2_3b_patch14_448",                AIM_3B,    14, 448, AIMV2,         OPENAI,   1.0   },
    /* models without a class token */
    { "vit_base_patch16_rpn_224",            BASE,      16, 224, RPN,           HALF,     0.9   },
    { "vit_medium_patch16_gap_240",          MEDIUM,    16, 240, SW_GAP,        HALF,     0.95  },
    { "vit_medium_patch16_gap_256",          MEDIUM,    16, 256, SW_GAP,        HALF,     0.95  },
    { "vit_medium_patch16_gap_384", MEDIUM, 16, 384, SW_GAP | SQUASH, HALF, 0.95 },
    { "vit_betwixt_patch16_gap_256",         BETWIXT,   16, 256, SW_GAP,        HALF,     0.95  },
    { "vit_base_patch16_gap_224",            BASE_16,   16, 224, GAP,           HALF,     0.9   },
    { "vit_huge_patch14_gap_224",            HUGE_SIZE, 14, 224, GAP,           IMAGENET, 0.9   },
    { "vit_huge_patch16_gap_448",            HUGE_SIZE, 16, 448, GAP,           IMAGENET, 1.0   },
    { "vit_giant_patch16_gap_224",           GIANT,     16, 224, GAP,           IMAGENET, 0.9   },
    /* models with registers */
    { "vit_wee_patch16_reg1_gap_256",        WEE,       16, 256, SBB_REG1,      HALF,     0.95  },
    { "vit_little_patch16_reg1_gap_256",     LITTLE,    16, 256, SBB_REG1,      HALF,     0.95  },
    { "vit_little_patch16_reg4_gap_256",     LITTLE,    16, 256, SBB_REG4,      HALF,     0.95  },
    { "vit_medium_patch16_reg1_gap_256",     MEDIUM,    16, 256, SBB_REG1,      HALF,     0.95  },
    { "vit_medium_patch16_reg4_gap_256",     MEDIUM,    16, 256, SBB_REG4,      HALF,     0.95  },
    { "vit_mediumd_patch16_reg4_gap_256",    MEDIUMD,   16, 256, SBB_REG4,      HALF,     0.95  },
    { "vit_mediumd_patch16_reg4_gap_384",    MEDIUMD,   16, 384, SBB_REG4,      HALF,     1.0   },
    { "vit_betwixt_patch16_reg1_gap_256",    BETWIXT,   16, 256, SBB_REG1,      HALF,     0.95  },
    { "vit_betwixt_patch16_reg4_gap_256",    BETWIXT,   16, 256, SBB_REG4,      HALF,     0.95  },
    { "vit_betwixt_patch16_reg4_gap_384",    BETWIXT,   16, 384, SBB_REG4,      HALF,     1.0   },
    { "vit_base_patch16_reg4_gap_256",       BASE,      16, 256, REG4_GAP,      HALF,     0.9   },
    { "vit_so150m_patch16_reg4_gap_256",     SO150M,    16, 256, SO150M_GAP,    HALF,     0.95  },
    { "vit_so150m_patch16_reg4_gap_384",     SO150M,    16, 384, SO150M_GAP,    HALF,     1.0   },
    { "vit_so150m_patch16_reg4_map_256",     SO150M,    16, 256, SO150M_MAP,    HALF,     0.9   },
    { "vit_so150m2_patch16_reg1_gap_256",    SO150M2,   16, 256, SO150M2_GAP,   HALF,     1.0   },
    { "vit_so150m2_patch16_reg1_gap_384",    SO150M2,   16, 384, SO150M2_GAP,   HALF,     1.0   },
    { "vit_so150m2_patch16_reg1_gap_448", SO150M2, 16, 448, SO150M2_GAP | SQUASH, HALF, 1.0 },
    /* models with differential attention or parallel blocks */
    { "vit_base_patch16_xp_224",             BASE,       16, 224, XP,            HALF,     0.9   },
    { "vit_large_patch14_xp_224",            LARGE,      14, 224, XP,            HALF,     0.9   },
    { "vit_huge_patch14_xp_224",             HUGE_SIZE,  14, 224, XP,            HALF,     0.9   },
    { "vit_dwee_patch16_reg1_gap_256",       WEE,        16, 256, SBB_DIFF,      HALF,     0.95  },
    { "vit_pwee_patch16_reg1_gap_256",       PWEE,       16, 256, SBB_PARALLEL,  HALF,     0.95  },
    { "vit_dpwee_patch16_reg1_gap_256", PWEE, 16, 256, SBB_DIFF_PARALLEL, HALF, 0.95 },
    { "vit_dlittle_patch16_reg1_gap_256",    LITTLE,     16, 256, SBB_DIFF,      HALF,     0.95  },
    /* BEiT */
    { "beit_base_patch16_224",               BASE,       16, 224, BEIT,          HALF,     0.9   },
    { "beit_base_patch16_384",               BASE,       16, 384, BEIT,          HALF,     1.0   },
    { "beit_large_patch16_224",              LARGE,      16, 224, BEIT,          HALF,     0.9   },
    { "beit_large_patch16_384",              LARGE,      16, 384, BEIT,          HALF,     1.0   },
    { "beit_large_patch16_512",              LARGE,      16, 512, BEIT,          HALF,     1.0   },
    { "beitv2_base_patch16_224",             BASE,       16, 224, BEIT,          IMAGENET, 0.9   },
    { "beitv2_large_patch16_224",            LARGE,      16, 224, BEIT,          IMAGENET, 0.95  },
    /* EVA and EVA-02 */
    { "eva_giant_patch14_224",               GIANT,      14, 224, EVA,           OPENAI,   0.9   },
    { "eva_giant_patch14_336",               GIANT,      14, 336, EVA | SQUASH,  OPENAI,   1.0   },
    { "eva_giant_patch14_560",               GIANT,      14, 560, EVA | SQUASH,  IMAGENET, 1.0   },
    { "eva02_tiny_patch14_224",              EVA02_TINY,  14, 224, EVA02,         OPENAI,   0.9   },
    { "eva02_small_patch14_224", EVA02_SMALL, 14, 224, EVA02, OPENAI, 0.9 },
    { "eva02_base_patch14_224",              EVA02_BASE,  14, 224, EVA02_NORM,    OPENAI,   0.9   },
    { "eva02_large_patch14_224", EVA02_LARGE, 14, 224, EVA02_NORM, OPENAI, 0.9 },
    { "eva02_tiny_patch14_336",              EVA02_TINY,  14, 336, EVA02,         OPENAI,   1.0   },
    { "eva02_small_patch14_336", EVA02_SMALL, 14, 336, EVA02, OPENAI, 1.0 },
    { "eva02_base_patch14_448", EVA02_BASE, 14, 448, EVA02_NORM | SQUASH, OPENAI, 1.0 },
    { "eva02_large_patch14_448", EVA02_LARGE, 14, 448, EVA02_NORM | SQUASH, OPENAI, 1.0 },
    { "eva_giant_patch14_clip_224",          GIANT,      14, 224, PLAIN,         OPENAI,   0.9   },
    { "eva02_base_patch16_clip_224",         EVA02_BASE,  16, 224, EVA02_CLIP,    OPENAI,   0.9   },
    { "eva02_large_patch14_clip_224", EVA02_LARGE, 14, 224, EVA02_CLIP, OPENAI, 0.9 },
    { "eva02_large_patch14_clip_336", EVA02_LARGE, 14, 336, EVA02_CLIP, OPENAI, 1.0 },
    { "eva02_enormous_patch14_clip_224",     ENORMOUS,   14, 224, ENORMOUS_CLIP, OPENAI,   0.9   },
    /* models with rotary positions */
    { "vit_medium_patch16_rope_reg1_gap_256", MEDIUM,     16, 256, ROPE_REG1,     HALF,     0.95  },
    { "vit_mediumd_patch16_rope_reg1_gap_256", MEDIUMD, 16, 256, ROPE_REG1_NB, HALF, 0.95 },
    { "vit_betwixt_patch16_rope_reg4_gap_256", BETWIXT, 16, 256, ROPE_REG4, OPENAI, 0.95 },
    { "vit_base_patch16_rope_reg1_gap_256",  BASE,       16, 256, ROPE_REG1,     HALF,     0.95  },
    { "vit_small_patch16_rope_224",          SMALL,      16, 224, AXIAL,         IMAGENET, 0.9   },
    { "vit_base_patch16_rope_224",           BASE,       16, 224, AXIAL,         IMAGENET, 0.9   },
    { "vit_large_patch16_rope_224",          LARGE,      16, 224, AXIAL,         IMAGENET, 0.9   },
    { "vit_small_patch16_rope_mixed_224",    SMALL,      16, 224, MIXED,         IMAGENET, 0.9   },
    { "vit_base_patch16_rope_mixed_224",     BASE,       16, 224, MIXED,         IMAGENET, 0.9   },
    { "vit_large_patch16_rope_mixed_224",    LARGE,      16, 224, MIXED,         IMAGENET, 0.9   },
    { "vit_small_patch16_rope_ape_224",      SMALL,      16, 224, AXIAL_APE,     IMAGENET, 0.9   },
    { "vit_base_patch16_rope_ape_224",       BASE,       16, 224, AXIAL_APE,     IMAGENET, 0.9   },
    { "vit_large_patch16_rope_ape_224",      LARGE,      16, 224, AXIAL_APE,     IMAGENET, 0.9   },
    { "vit_small_patch16_rope_mixed_ape_224", SMALL,      16, 224, MIXED_APE,     IMAGENET, 0.9   },
    { "vit_base_patch16_rope_mixed_ape_224", BASE,       16, 224, MIXED_APE,     IMAGENET, 0.9   },
    { "vit_large_patch16_rope_mixed_ape_224", LARGE,      16, 224, MIXED_APE,     IMAGENET, 0.9   },
    /* Perception Encoder */
    { "vit_pe_core_tiny_patch16_384",        TINY,       16, 384, PE_CORE24,     HALF,     1.0   },
    { "vit_pe_core_small_patch16_384",       SMALL,      16, 384, PE_CORE24,     HALF,     1.0   },
    { "vit_pe_core_base_patch16_224",        BASE,       16, 224, PE_CORE14,     HALF,     1.0   },
    { "vit_pe_core_large_patch14_336",       LARGE,      14, 336, PE_CORE24,     HALF,     1.0   },
    { "vit_pe_core_gigantic_patch14_448", PE_GIGANTIC, 14, 448, PE_CORE_G, HALF, 1.0 },
    { "vit_pe_lang_large_patch14_448", PE_LANG_LARGE, 14, 448, PE_LANG, HALF, 1.0 },
    { "vit_pe_lang_gigantic_patch14_448", PE_LANG_GIGANTIC, 14, 448, PE_LANG_G, HALF, 1.0 },
    { "vit_pe_spatial_tiny_patch16_512",     TINY,       16, 512, PE_SPATIAL,    HALF,     1.0   },
    { "vit_pe_spatial_small_patch16_512",    SMALL,      16, 512, PE_SPATIAL,    HALF,     1.0   },
    { "vit_pe_spatial_base_patch16_512",     BASE,       16, 512, PE_SPATIAL,    HALF,     1.0   },
    { "vit_pe_spatial_large_patch14_448",    LARGE,      14, 448, PE_SPATIAL,    HALF,     1.0   },
    { "vit_pe_spatial_gigantic_patch14_448", PE_GIGANTIC, 14, 448, PE_LANG_G, HALF, 1.0 },
    /* DINOv3, EUPE */
    { "vit_tiny_patch16_dinov3_qkvb",        TINY,       16, 256, DINOV3_BIAS,   IMAGENET, 1.0   },
    { "vit_small_patch16_dinov3",            SMALL,      16, 256, DINOV3,        IMAGENET, 1.0   },
    { "vit_small_patch16_dinov3_qkvb",       SMALL,      16, 256, DINOV3_BIAS,   IMAGENET, 1.0   },
    { "vit_small_plus_patch16_dinov3",       SMALL,      16, 256, DINOV3_GLU,    IMAGENET, 1.0   },
    { "vit_small_plus_patch16_dinov3_qkvb", SMALL, 16, 256, DINOV3_GLU_BIAS, IMAGENET, 1.0 },
    { "vit_base_patch16_dinov3",             BASE,       16, 256, DINOV3,        IMAGENET, 1.0   },
    { "vit_base_patch16_dinov3_qkvb",        BASE,       16, 256, DINOV3_BIAS,   IMAGENET, 1.0   },
    { "vit_large_patch16_dinov3",            LARGE,      16, 256, DINOV3,        IMAGENET, 1.0   },
    { "vit_large_patch16_dinov3_qkvb",       LARGE,      16, 256, DINOV3_BIAS,   IMAGENET, 1.0   },
    { "vit_huge_plus_patch16_dinov3", DINOV3_HUGE, 16, 256, DINOV3_GLU, IMAGENET, 1.0 },
    { "vit_huge_plus_patch16_dinov3_qkvb", DINOV3_HUGE, 16, 256, DINOV3_GLU_BIAS, IMAGENET, 1.0 },
    { "vit_7b_patch16_dinov3",               DINOV3_7B,  16, 256, DINOV3_GLU,    IMAGENET, 1.0   },
    { "vit_relpos_base_patch32_plus_rpn_256", PLUS, 32, 256, RELPOS_POST, HALF, 0.9 },
    { "vit_relpos_base_patch16_plus_240", PLUS, 16, 240, RELPOS_PLUS, HALF, 0.9 },
    { "vit_relpos_small_patch16_224", SMALL, 16, 224, RELPOS_FC, HALF, 0.9 },
    { "vit_relpos_medium_patch16_224", MEDIUM, 16, 224, RELPOS_FC, HALF, 0.9 },
    { "vit_relpos_base_patch16_224", BASE, 16, 224, RELPOS_FC, HALF, 0.9 },
    { "vit_srelpos_small_patch16_224", SMALL, 16, 224, RELPOS, HALF, 0.9 },
    { "vit_srelpos_medium_patch16_224", MEDIUM, 16, 224, RELPOS, HALF, 0.9 },
    { "vit_relpos_medium_patch16_cls_224", MEDIUM, 16, 224, RELPOS_CLS, HALF, 0.9 },
    { "vit_relpos_base_patch16_cls_224", BASE, 16, 224, RELPOS_CLS, HALF, 0.9 },
    { "vit_relpos_base_patch16_clsgap_224", BASE, 16, 224, RELPOS_GAP, HALF, 0.9 },
    { "vit_relpos_small_patch16_rpn_224", SMALL, 16, 224, RELPOS_POST | ARCH_NO_QKV_BIAS, HALF, 0.9 },
    { "vit_relpos_medium_patch16_rpn_224", MEDIUM, 16, 224, RELPOS_POST | ARCH_NO_QKV_BIAS, HALF, 0.9 },
    { "vit_relpos_base_patch16_rpn_224", BASE, 16, 224, RELPOS_POST | ARCH_NO_QKV_BIAS, HALF, 0.9 },
    { "vit_small_patch16_lingbot",           SMALL,      16, 512, LINGBOT_BIAS,  IMAGENET, 1.0   },
    { "vit_base_patch16_lingbot",            BASE,       16, 512, LINGBOT_BIAS,  IMAGENET, 1.0   },
    { "vit_large_patch16_lingbot",           LARGE,      16, 512, LINGBOT_BIAS,  IMAGENET, 1.0   },
    { "vit_giant_patch16_lingbot",           GIANT_GLU,  16, 512, LINGBOT_GLU,   IMAGENET, 1.0   },
    /* models with a stem; here the patch size is in pixels of the input */
    { "vit_tiny_r_s16_p8_224",               TINY,       32, 224, PLAIN,         HALF,     0.9   },
    { "vit_tiny_r_s16_p8_384",               TINY,       32, 384, PLAIN,         HALF,     1.0   },
    { "vit_small_r26_s32_224",               SMALL,      32, 224, PLAIN,         HALF,     0.9   },
    { "vit_small_r26_s32_384",               SMALL,      32, 384, PLAIN,         HALF,     1.0   },
    { "vit_base_r26_s32_224",                BASE,       32, 224, PLAIN,         HALF,     0.9   },
    { "vit_base_r50_s16_224",                BASE,       16, 224, PLAIN,         HALF,     0.9   },
    { "vit_base_r50_s16_384",                BASE,       16, 384, PLAIN,         HALF,     1.0   },
    { "vit_large_r50_s32_224",               LARGE,      32, 224, PLAIN,         HALF,     0.9   },
    { "vit_large_r50_s32_384",               LARGE,      32, 384, PLAIN,         HALF,     1.0   },
    { "vit_base_mci_224",                    BASE,       16, 224, PATCH_POS,     UNIT,     0.9   },
    /* models for any aspect ratio; here the image size is that of the stored positions */
    { "naflexvit_base_patch16_gap",          BASE,      16, 256, NAFLEX_GAP,    HALF,     1.0   },
    { "naflexvit_base_patch16_par_gap",      BASE,      16, 256, NAFLEX_PAR,    HALF,     1.0   },
    { "naflexvit_base_patch16_parfac_gap",   BASE,      16, 256, NAFLEX_FAC,    HALF,     1.0   },
    { "naflexvit_base_patch16_map",          BASE,      16, 256, NAFLEX_MAP,    HALF,     1.0   },
    { "naflexvit_so150m2_patch16_reg1_gap",  SO150M2,   16, 256, NAFLEX_SO_GAP, HALF,     1.0   },
    { "naflexvit_so150m2_patch16_reg1_map",  SO150M2,   16, 256, NAFLEX_SO_MAP, HALF,     1.0   },
    { "naflexvit_base_patch16_siglip",       BASE,      16, 256, NAFLEX_TANH,   HALF,     1.0   },
    { "naflexvit_so400m_patch16_siglip",     SO400M,    16, 256, NAFLEX_TANH,   HALF,     1.0   },
    /* models for tests */
    { "test_vit",                            TEST_6,    16, 160, TEST1,         HALF,     0.95  },
    { "test_vit2",                           TEST_8,    16, 160, TEST2,         HALF,     0.95  },
    { "test_vit3",                           TEST_9,    16, 160, TEST3,         HALF,     0.95  },
    { "test_vit4",                           TEST_9W,   16, 160, TEST4,         HALF,     0.95  },
};
/* clang-format on */

/* The stems in front of the patches, by the names of the models. */
static const struct {
    const char *pattern;
    int stem, width, stages[4];
} stems[] = {
    { "vit_*_r_s16_p8_*", VIT_STEM_RESNET, 64, { 0, 0, 0, 0 } },
    { "vit_*_r26_s32_*", VIT_STEM_RESNET, 64, { 2, 2, 2, 2 } },
    { "vit_*_r50_s16_*", VIT_STEM_RESNET, 64, { 3, 4, 9, 0 } },
    { "vit_*_r50_s32_*", VIT_STEM_RESNET, 64, { 3, 4, 6, 3 } },
    { "vit_*_mci_*", VIT_STEM_CONV, 192, { 0, 0, 0, 0 } },
};

/* The table of architectures has the preprocessing of each name's default tag. The tags below have
 * a different preprocessing. The first pattern that matches the whole name decides. */
static const struct {
    const char *pattern;
    arch_norm norm;
    double crop_pct;
    bool squash;
} exceptions[] = {
    { "*.dino", IMAGENET, 0.9, false },
    { "*.mae", IMAGENET, 0.9, false },
    { "deit3_*.fb_in22k_ft_in1k", IMAGENET, 1.0, false },
    { "vit_base_patch32_clip_224.datacompxl", OPENAI, 1.0, false },
    { "vit_base_patch32_clip_*224.metaclip*", OPENAI, 1.0, false },
    { "vit_base_patch32_clip_384.openai*", OPENAI, 0.95, true },
    { "vit_base_patch16_clip_224.*_ft_in12k_in1k", OPENAI, 0.95, false },
    { "vit_base_patch16_clip_224.*_ft_in12k", OPENAI, 0.9, false },
    { "vit_base_patch16_clip_224.openai*", OPENAI, 0.9, false },
    { "vit_base_patch16_clip_224.*", OPENAI, 1.0, false },
    { "vit_base_patch16_clip_384.openai_ft_in12k*", OPENAI, 0.95, true },
    { "vit_base_patch16_clip_quickgelu_224.openai", OPENAI, 0.9, false },
    { "vit_large_patch14_clip_224.laion2b*", HALF, 1.0, false },
    { "vit_large_patch14_clip_224.*", OPENAI, 1.0, false },
    { "vit_large_patch14_clip_336.openai", OPENAI, 1.0, false },
    { "vit_large_patch14_clip_336.openai_ft*", OPENAI, 1.0, true },
    { "vit_huge_patch14_clip_378.metaclip2*", OPENAI, 1.0, true },
    { "eva_giant_patch14_336.m30m_*", IMAGENET, 1.0, true },
    { "eva02_*_patch14_448.mim_*_ft_in1k", OPENAI, 1.0, false },
    { "vit_*_dinov3*.sat493m", ARCH_SATELLITE, 1.0, false },
    { "beitv2_large_patch16_224.in1k_ft_in22k", IMAGENET, 0.9, false },
    { "vit_so400m_patch14_siglip_*378.webli_ft*", HALF, 1.0, true },
    { "vit_so400m_patch14_siglip_gap_378.webli", HALF, 1.0, false },
};

/* The tags that timm's names have, as patterns. A tag describes how the weights were trained. */
static const char *const tags[] = {
    "augreg*",   "orig_in21k*", "sam_in1k",   "dino",      "mae",         "untrained",
    "r160_in1k", "fb_in1k",     "fb_in22k_*", "in21k",     "in21k_ft_*",  "in22k_ft_*",
    "in*_ijepa", "indomain_*",  "pt",         "*ep_in1k",  "*ep_in21k",   "patch??_in21k",
    "apple_*",   "datacomp*",   "dfn[25]b*",  "laion2b*",  "laion400m_*", "metaclip*",
    "openai*",   "tinyclip_*",  "webli*",     "v2_webli",  "pali*",       "lvd142m",
    "ogvl_*",    "sbb*",        "sw_in*",     "clip_ft_*", "m30m_ft_*",   "mim_*",
    "laion400m", "merged2b",    "in1k_ft_*",  "fb",        "fb_tiling",   "naver_in1k",
    "lvd1689m",  "sat493m",     "eupe_*",     "robbyant",  "e300_s*",
};

/* Names that timm has retired, and how to change them: `prefix` is removed, `suffix` is replaced by
 * `added`, and the name gets `tag`. '*' in a pattern stands for any part, which is kept. */
static const struct {
    const char *pattern, *prefix, *suffix, *added, *tag;
} retired[] = {
    { "vit_large_patch32_224_in21k", "", "_in21k", "", "orig_in21k" },
    { "vit_huge_patch14_224_in21k", "", "_in21k", "", "orig_in21k" },
    { "vit_base_patch16_224_miil_in21k", "", "_in21k", "", "in21k" },
    { "vit_base_r50_s16_224_in21k", "", "_in21k", "", "orig_in21k" },
    { "vit_base_resnet50_224_in21k", "", "_resnet50_224_in21k", "_r50_s16_224", "orig_in21k" },
    { "vit_base_resnet50_384", "", "_resnet50_384", "_r50_s16_384", "orig_in21k_ft_in1k" },
    { "vit_*_224_in21k", "", "_in21k", "", "augreg_in21k" },
    { "vit_*_224_sam", "", "_sam", "", "sam_in1k" },
    { "deit3_*_in21ft1k", "", "_in21ft1k", "", "fb_in22k_ft_in1k" },
    { "vit_*_224_dino", "", "_dino", "", "dino" },
    { "vit_*_224_clip_laion2b", "", "_224_clip_laion2b", "_clip_224", "laion2b" },
    { "vit_deit_*", "vit_", "", "", "" },
};

/* Patterns for the names of timm's models that vit.h cannot run, and the option that vit.h lacks.
 * The first pattern that matches decides. */
static const struct {
    const char *pattern, *option;
} lacking[] = {
    { "*_18x2_*", "two attentions and two MLPs side by side (block_fn)" },
    { "vit_*_resnet*", "this convolutional stem (a ResNet-D)" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* === Names === */

const arch *arch_at(size_t i) { return i < COUNT(archs) ? &archs[i] : NULL; }

static const arch *arch_by_name(const char *name) {
    size_t i;
    for (i = 0; i < COUNT(archs); i++)
        if (!strcmp(archs[i].name, name)) return &archs[i];
    return NULL;
}

static size_t arch_min3(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

enum { ARCH_MAX_NAME = 128 };

static bool arch_same_letter(char a, char b) {
    return tolower((unsigned char)a) == b || (a == '-' && b == '_');
}

/* Returns Levenshtein's edit distance of two names, computed row by row. Users shorten names more
 * often than they misspell them. So a letter that is missing in `name` costs little, and an
 * additional or a wrong letter costs much. If only the end is missing, the distance is 0. */
static size_t arch_distance(const char *name, const char *full) {
    enum { LACKS = 1, OTHER = 5 };
    size_t row[ARCH_MAX_NAME + 1], length = strlen(full), i, j;
    for (j = 0; j <= length; j++) row[j] = j * LACKS;
    for (i = 0; name[i]; i++) {
        size_t diagonal = row[0];
        row[0] += OTHER;
        for (j = 1; j <= length; j++) {
            const size_t above = row[j];
            row[j] = arch_min3(above + OTHER, row[j - 1] + LACKS,
                               diagonal + (arch_same_letter(name[i], full[j - 1]) ? 0 : OTHER));
            diagonal = above;
        }
    }
    for (j = 0; name[j] && arch_same_letter(name[j], full[j]);) j++;
    return name[j] ? row[length] : 0;
}

static const arch *arch_nearest(const char *name, const arch *except1, const arch *except2) {
    const arch *best = archs;
    size_t best_distance = SIZE_MAX, i;
    for (i = 0; i < COUNT(archs); i++) {
        size_t distance = arch_distance(name, archs[i].name);
        if (&archs[i] == except1 || &archs[i] == except2) continue;
        if (distance < best_distance) {
            best = &archs[i];
            best_distance = distance;
        }
    }
    return best;
}

static arch_result arch_unknown(const char *name, report *r) {
    const arch *first, *second, *third;
    size_t i;
    for (i = 0; i < COUNT(lacking); i++)
        if (text_matches(lacking[i].pattern, name)) {
            (void)report_fail(r, "architecture %s: this version of vit.h lacks %s", name,
                              lacking[i].option);
            return ARCH_LACKING;
        }
    first = arch_nearest(name, NULL, NULL);
    second = arch_nearest(name, first, NULL);
    third = arch_nearest(name, first, second);
    (void)report_fail(r, "unknown architecture %s; nearest: %s, %s, %s (--list-archs lists all)",
                      name, first->name, second->name, third->name);
    return ARCH_UNKNOWN;
}

/* Replaces a retired name by its new name. An empty `tag` receives the tag of the retired name. */
static void arch_modernise(char name[ARCH_MAX_NAME], char *tag, size_t tag_size) {
    size_t i;
    for (i = 0; i < COUNT(retired); i++) {
        size_t prefix = strlen(retired[i].prefix), kept;
        if (!text_matches(retired[i].pattern, name)) continue;
        kept = strlen(name) - strlen(retired[i].suffix);
        snprintf(name + kept, ARCH_MAX_NAME - kept, "%s", retired[i].added);
        memmove(name, name + prefix, strlen(name) - prefix + 1);
        if (!tag[0]) snprintf(tag, tag_size, "%s", retired[i].tag);
        return;
    }
}

static bool arch_knows_tag(const char *tag) {
    size_t i;
    for (i = 0; i < COUNT(tags); i++)
        if (text_matches(tags[i], tag)) return true;
    return !tag[0];
}

static void arch_apply_tag(arch_choice *choice) {
    char name[ARCH_MAX_NAME + sizeof choice->tag];
    size_t i;
    choice->norm = choice->arch->norm;
    choice->crop_pct = choice->arch->crop_pct;
    choice->squash = (choice->arch->options & ARCH_SQUASH) != 0;
    choice->tag_known = arch_knows_tag(choice->tag);
    if (!choice->tag_known || !choice->tag[0]) return;
    arch_full_name(choice, name, sizeof name);
    for (i = 0; i < COUNT(exceptions); i++) {
        if (!text_matches(exceptions[i].pattern, name)) continue;
        choice->norm = exceptions[i].norm;
        choice->crop_pct = exceptions[i].crop_pct;
        choice->squash = exceptions[i].squash;
        return;
    }
}

arch_result arch_find(const char *name, arch_choice *choice, report *r) {
    char base[ARCH_MAX_NAME];
    const char *slash = strrchr(name, '/'), *dot;
    memset(choice, 0, sizeof *choice);
    if (slash) name = slash + 1;
    dot = strchr(name, '.');
    if (!dot) dot = name + strlen(name);
    if (dot == name || (size_t)(dot - name) >= sizeof base || strlen(dot) >= sizeof choice->tag) {
        (void)report_fail(r, "unknown architecture \"%.200s\" (--list-archs lists all)", name);
        return ARCH_UNKNOWN;
    }
    memcpy(base, name, (size_t)(dot - name));
    base[dot - name] = '\0';
    if (*dot) snprintf(choice->tag, sizeof choice->tag, "%s", dot + 1);
    arch_modernise(base, choice->tag, sizeof choice->tag);
    choice->arch = arch_by_name(base);
    if (!choice->arch) return arch_unknown(base, r);
    arch_apply_tag(choice);
    return ARCH_FOUND;
}

void arch_full_name(const arch_choice *choice, char *text, size_t size) {
    snprintf(text, size, "%s%s%s", choice->arch->name, choice->tag[0] ? "." : "", choice->tag);
}

/* --- what a name means ---------------------------------------------------- */

static int arch_positions(uint64_t options) {
    if (options & ARCH_NO_POS) return VIT_POS_NONE;
    return options & ARCH_PATCH_POS ? VIT_POS_PATCHES : VIT_POS_ALL;
}

static int arch_block_type(uint64_t options) {
    if (options & ARCH_PARALLEL) return VIT_BLOCK_PARALLEL;
    return options & ARCH_RES_POST ? VIT_BLOCK_RES_POST_NORM : VIT_BLOCK_PRE_NORM;
}

static void arch_options(uint64_t options, vit_config *c) {
    c->has_cls_token = !(options & ARCH_NO_CLS);
    c->has_dist_token = (options & ARCH_DIST) != 0;
    c->num_reg_tokens = options & ARCH_REG4 ? 4 : (options & ARCH_REG1) != 0;
    c->positions = arch_positions(options);
    c->has_patch_bias = !(options & ARCH_PRE_NORM);
    c->has_patch_norm = (options & ARCH_PATCH_NORM) != 0;
    c->has_pre_norm = (options & ARCH_PRE_NORM) != 0;
    c->norm_type = options & ARCH_RMS ? VIT_RMS_NORM : VIT_LAYER_NORM;
    c->norm_eps = options & ARCH_EPS5 ? 1e-5f : 1e-6f;
    c->block_type = arch_block_type(options);
    c->has_qkv_bias = !(options & ARCH_NO_QKV_BIAS);
    c->has_proj_bias = !(options & ARCH_NO_PROJ_BIAS);
    c->has_qk_norm = (options & ARCH_QK_NORM) != 0;
    c->has_rel_pos = (options & ARCH_REL_POS) != 0;
    c->has_diff_attn = (options & ARCH_DIFF) != 0;
    c->has_attn_norm = (options & ARCH_SCALE_NORMS) != 0;
    c->has_mlp_norm = (options & (ARCH_SCALE_NORMS | ARCH_SCALE_MLP)) != 0;
    c->has_layer_scale = (options & ARCH_LAYER_SCALE) != 0;
    c->has_gated_mlp = (options & ARCH_GATED) != 0;
    c->has_fc_norm = (options & ARCH_FC_NORM) != 0;
    c->has_final_norm = !(options & (ARCH_FC_NORM | ARCH_NO_FINAL_NORM));
    c->pool_prefix = (options & ARCH_POOL_PREFIX) != 0;
    c->pool_num_heads = options & ARCH_POOL_8 ? 8 : 0;
    c->dynamic_img_size = (options & ARCH_DYNAMIC) != 0;
    c->pos_resample = options & ARCH_FACTORS    ? VIT_RESAMPLE_PARFAC
                      : options & ARCH_PAR      ? VIT_RESAMPLE_PAR
                      : options & ARCH_FLEXIVIT ? VIT_RESAMPLE_FLEXIVIT
                                                : VIT_RESAMPLE_TIMM;
    if (options & ARCH_NAFLEX) c->dynamic_img_size = 1;
}

static int arch_activation(uint64_t options) {
    if (options & ARCH_GELU_TANH) return VIT_GELU_TANH;
    if (options & ARCH_QUICK_GELU) return VIT_QUICK_GELU;
    return options & ARCH_SILU ? VIT_SILU : VIT_GELU;
}

static int arch_pool(uint64_t options) {
    if (options & ARCH_AVG) return VIT_POOL_AVG;
    return options & ARCH_MAP ? VIT_POOL_MAP : VIT_POOL_TOKEN;
}

static void arch_stem(const char *name, vit_config *c) {
    size_t i;
    for (i = 0; i < COUNT(stems); i++) {
        if (!text_matches(stems[i].pattern, name)) continue;
        c->stem = stems[i].stem;
        c->stem_width = stems[i].width;
        c->stem_stage1 = stems[i].stages[0];
        c->stem_stage2 = stems[i].stages[1];
        c->stem_stage3 = stems[i].stages[2];
        c->stem_stage4 = stems[i].stages[3];
    }
}

void arch_config(const arch_choice *choice, vit_config *c) {
    const arch *a = choice->arch;
    rope_options rope;
    double mean[3], std[3];
    int i;
    memset(c, 0, sizeof *c);
    c->in_chans = 3;
    c->img_height = c->img_width = a->img_size;
    c->patch_size = a->patch_size;
    c->embed_dim = a->embed_dim;
    c->depth = a->depth;
    c->num_heads = a->num_heads;
    c->head_dim = a->embed_dim / a->num_heads;
    c->mlp_dim = a->mlp_dim;
    arch_stem(a->name, c);
    arch_options(a->options, c);
    c->attn_scale = (float)pow(c->has_diff_attn ? c->head_dim / 2 : c->head_dim, -0.5);
    arch_rope_options(choice, &rope);
    c->rope = (int)rope_layout(rope.type);
    c->rope_per_block = rope.type == ROPE_MIXED;
    c->activation = arch_activation(a->options);
    c->pool = arch_pool(a->options);
    c->resize_height = c->resize_width = (int)floor(a->img_size / choice->crop_pct);
    c->crop_mode = a->options & ARCH_NAFLEX ? VIT_CROP_ASPECT
                   : choice->squash         ? VIT_CROP_SQUASH
                                            : VIT_CROP_CENTER;
    c->interpolation = a->options & ARCH_BILINEAR ? VIT_BILINEAR : VIT_BICUBIC;
    arch_mean_std(choice->norm, mean, std);
    for (i = 0; i < c->in_chans; i++) {
        c->mean[i] = (float)mean[i];
        c->std[i] = (float)std[i];
    }
}

void arch_rope_options(const arch_choice *choice, rope_options *rope) {
    static const rope_options kinds[] = {
        [ARCH_ROPE_EVA02] = { ROPE_CAT, ROPE_IJ, 10000, 0, 16 },
        [ARCH_ROPE_PE14] = { ROPE_CAT, ROPE_XY, 10000, 1, 14 },
        [ARCH_ROPE_PE24] = { ROPE_CAT, ROPE_XY, 10000, 1, 24 },
        [ARCH_ROPE_PE32] = { ROPE_CAT, ROPE_XY, 10000, 1, 32 },
        [ARCH_ROPE_PE32_0] = { ROPE_CAT, ROPE_XY, 10000, 0, 32 },
        [ARCH_ROPE_AXIAL] = { ROPE_CAT, ROPE_XY, 100, 0, 0 },
        [ARCH_ROPE_MIXED] = { ROPE_MIXED, ROPE_XY, 10, 0, 0 },
        [ARCH_ROPE_DINOV3] = { ROPE_DINOV3, ROPE_IJ, 100, 0, 0 },
    };
    *rope = kinds[choice->arch->options >> ARCH_ROPE_SHIFT];
}

void arch_mean_std(arch_norm norm, double mean[3], double std[3]) {
    static const double values[][2][3] = {
        [ARCH_HALF] = { { 0.5, 0.5, 0.5 }, { 0.5, 0.5, 0.5 } },
        [ARCH_IMAGENET] = { { 0.485, 0.456, 0.406 }, { 0.229, 0.224, 0.225 } },
        [ARCH_OPENAI] = { { 0.48145466, 0.4578275, 0.40821073 },
                          { 0.26862954, 0.26130258, 0.27577711 } },
        [ARCH_UNIT] = { { 0, 0, 0 }, { 1, 1, 1 } },
        [ARCH_SATELLITE] = { { 0.43, 0.411, 0.296 }, { 0.213, 0.156, 0.143 } },
    };
    memcpy(mean, values[norm][0], sizeof values[norm][0]);
    memcpy(std, values[norm][1], sizeof values[norm][1]);
}

const arch *arch_of_size(const vit_config *c, int patch_size) {
    const arch *a;
    size_t i;
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        if (a->embed_dim == c->embed_dim && a->depth == c->depth && a->num_heads == c->num_heads &&
            a->mlp_dim == c->mlp_dim && a->patch_size == patch_size)
            break;
    return a;
}

int arch_heads_of_width(int embed_dim) {
    switch (embed_dim) {
    case 192: return 3;
    case 384: return 6;
    case 768: return 12;
    case 1024:
    case 1280: return 16;
    default: return 0;
    }
}

bool arch_has_size(int embed_dim, int depth) {
    const arch *a;
    size_t i;
    for (i = 0; (a = arch_at(i)) != NULL; i++)
        if (a->embed_dim == embed_dim && a->depth == depth) return true;
    return false;
}
