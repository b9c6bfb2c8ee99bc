/* settings.h - what is known about a model, and from where: the options of its architecture and
 * its preprocessing, gathered from the tensors, timm's name, config.json and the command line,
 * then put together into a vit_config.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>

#include "base/report.h"
#include "model/rope.h"
#include "vit.h"

typedef enum setting_kind {
    SETTING_INTEGER,
    SETTING_NUMBER,
    SETTING_FLAG,     /* 0 or 1, also true and false */
    SETTING_WORD      /* one of the words that `words` lists; the value is its place */
} setting_kind;

/* X(key, name, kind, words, "what it is") */
#define SETTING_LIST(X)                                                                          \
    X(IN_CHANS, "in_chans", INTEGER, NULL, "channels of the input")                              \
    X(IMG_HEIGHT, "img_height", INTEGER, NULL, "input height in pixels")                         \
    X(IMG_WIDTH, "img_width", INTEGER, NULL, "input width in pixels")                            \
    X(PATCH_SIZE, "patch_size", INTEGER, NULL, "side of a patch in pixels")                      \
    X(PATCH_ORDER, "patch_order", WORD, "chw hwc", "of a patch's pixels in a linear layer")      \
    X(EMBED_DIM, "embed_dim", INTEGER, NULL, "width of a token")                                 \
    X(DEPTH, "depth", INTEGER, NULL, "number of blocks")                                         \
    X(NUM_HEADS, "num_heads", INTEGER, NULL, "attention heads")                                  \
    X(HEAD_DIM, "head_dim", INTEGER, NULL, "width of one head")                                  \
    X(MLP_DIM, "mlp_dim", INTEGER, NULL, "width of the hidden MLP layer")                        \
    X(MLP_RATIO, "mlp_ratio", NUMBER, NULL, "mlp_dim / embed_dim")                               \
    X(NUM_CLASSES, "num_classes", INTEGER, NULL, "classes; 0 drops the head")                    \
    X(REPRESENTATION_DIM, "representation_dim", INTEGER, NULL, "width of pre_logits; 0 drops it") \
    X(CLS_TOKEN, "has_cls_token", FLAG, NULL, "class token")                                     \
    X(DIST_TOKEN, "has_dist_token", FLAG, NULL, "distillation token and second head")            \
    X(REG_TOKENS, "num_reg_tokens", INTEGER, NULL, "register tokens")                            \
    X(POSITIONS, "positions", WORD, "all patches none", "tokens that have a position")           \
    X(POS_SINCOS, "pos_sincos", WORD, "none simple_vit mae 1d", "computed where none are stored") \
    X(POS_FIRST_ROWS, "pos_first_rows", FLAG, NULL, "use the first rows of a longer pos_embed")  \
    X(PATCH_BIAS, "has_patch_bias", FLAG, NULL, "bias of the patch embedding")                   \
    X(STEM, "stem", WORD, "none resnet conv", "what makes a feature map of the input")           \
    X(STEM_WIDTH, "stem_width", INTEGER, NULL, "channels of its first convolution")              \
    X(STEM_STAGE1, "stem_stage1", INTEGER, NULL, "blocks of its first stage")                    \
    X(STEM_STAGE2, "stem_stage2", INTEGER, NULL, "of its second")                                \
    X(STEM_STAGE3, "stem_stage3", INTEGER, NULL, "of its third")                                 \
    X(STEM_STAGE4, "stem_stage4", INTEGER, NULL, "of its fourth")                                \
    X(PATCH_PRE_NORM, "has_patch_pre_norm", FLAG, NULL, "norm of the raw patches")               \
    X(PATCH_NORM, "has_patch_norm", FLAG, NULL, "norm after the patch embedding")                \
    X(PRE_NORM, "has_pre_norm", FLAG, NULL, "norm before the first block")                       \
    X(NORM_TYPE, "norm_type", WORD, "layer rms", "kind of every norm")                           \
    X(NORM_EPS, "norm_eps", NUMBER, NULL, "epsilon of the norms")                                \
    X(BLOCK_TYPE, "block_type", WORD, "pre_norm post_norm res_post_norm parallel",             \
      "order in a block")                                                                        \
    X(QKV_BIAS, "has_qkv_bias", FLAG, NULL, "bias of the qkv projection")                        \
    X(QK_NORM, "has_qk_norm", FLAG, NULL, "norm of queries and keys")                            \
    X(ROPE_TYPE, "rope_type", WORD, "none cat mixed dinov3", "rotary positions")                 \
    X(ROPE_TEMPERATURE, "rope_temperature", NUMBER, NULL, "base of their frequencies")           \
    X(ROPE_INDEXING, "rope_grid_indexing", WORD, "ij xy", "rows or columns come first in them")  \
    X(ROPE_OFFSET, "rope_grid_offset", NUMBER, NULL, "number of their first row and column")     \
    X(ROPE_REFERENCE, "ref_feat_shape", INTEGER, NULL, "side of the grid they were trained on")  \
    X(REL_POS, "has_rel_pos", FLAG, NULL, "bias of attention by relative position")              \
    X(DIFF_ATTN, "has_diff_attn", FLAG, NULL, "differential attention")                          \
    X(ATTN_NORM, "has_attn_norm", FLAG, NULL, "norm before attn.proj")                           \
    X(PROJ_BIAS, "has_proj_bias", FLAG, NULL, "bias of attn.proj, mlp.fc1 and mlp.fc2")          \
    X(LAYER_SCALE, "has_layer_scale", FLAG, NULL, "LayerScale")                                  \
    X(ACTIVATION, "activation", WORD, "gelu gelu_tanh quick_gelu silu relu", "of every MLP")     \
    X(GATED_MLP, "has_gated_mlp", FLAG, NULL, "gated MLP such as SwiGLU")                        \
    X(MLP_NORM, "has_mlp_norm", FLAG, NULL, "norm before mlp.fc2")                               \
    X(FINAL_NORM, "has_final_norm", FLAG, NULL, "norm behind the last block")                    \
    X(POOL, "pool", WORD, "token avg max avgmax map token_avg", "what the head reads")           \
    X(POOL_PREFIX, "pool_prefix", FLAG, NULL, "pooling takes the prefix tokens too")             \
    X(POOL_NUM_HEADS, "pool_num_heads", INTEGER, NULL, "heads of pool=map; 0: num_heads")        \
    X(POOL_MLP_DIM, "pool_mlp_dim", INTEGER, NULL, "hidden width of pool=map; 0: mlp_dim")       \
    X(FC_NORM, "has_fc_norm", FLAG, NULL, "norm after pooling")                                  \
    X(ATTN_SCALE, "attn_scale", NUMBER, NULL, "factor on q k^T")                                 \
    X(ATTN_ROOT, "attn_root", WORD, "head_dim embed_dim embed_dim_after",                        \
      "whose root divides q k^T, or what comes after the softmax")                               \
    X(CROP_PCT, "crop_pct", NUMBER, NULL, "input size / size before the crop")                   \
    X(CROP_MODE, "crop_mode", WORD, "center squash border", "how the input is cut")               \
    X(CROP_ROUNDING, "crop_rounding", WORD, "even down", "of the margins of a centre crop")      \
    X(INTERPOLATION, "interpolation", WORD, "bilinear bicubic", "of the resize")                 \
    X(RESIZE_HEIGHT, "resize_height", INTEGER, NULL, "height before the crop")                   \
    X(RESIZE_WIDTH, "resize_width", INTEGER, NULL, "width before the crop")                      \
    X(DYNAMIC_IMG_SIZE, "dynamic_img_size", FLAG, NULL, "other input sizes at run time")         \
    X(DYNAMIC_IMG_PAD, "dynamic_img_pad", FLAG, NULL, "pads the input to whole patches")         \
    X(POS_RESAMPLE, "pos_resample", WORD, "timm transformers torchvision flexivit jax dino",     \
      "whose way of resampling positions")                                                       \
    X(SELFTEST_SEED, "selftest_seed", INTEGER, NULL, "seed of the self-test input")              \
    X(SELFTEST_TOLERANCE, "selftest_tolerance", NUMBER, NULL, "accepted self-test error")        \
    X(ALLOW_NONFINITE, "allow_nonfinite", FLAG, NULL, "1 accepts weights that are NaN or inf")

typedef enum setting_key {
#define X(key, name, kind, words, what) SETTING_##key,
    SETTING_LIST(X)
#undef X
    SETTING_COUNT
} setting_key;

/* One source's word on the model. Integers and places of words are exact in a double. */
typedef struct settings {
    const char *origin;            /* for messages: "config.json", "--set" */
    bool given[SETTING_COUNT];
    double value[SETTING_COUNT];
    int mean_count, std_count;     /* 0: not given; 1: for every channel */
    double mean[VIT_MAX_CHANS], std[VIT_MAX_CHANS];
} settings;

/* Places of attn_root's words. The last one is what a well-known tutorial computes. */
enum { ATTN_ROOT_HEAD_DIM, ATTN_ROOT_EMBED_DIM, ATTN_ROOT_EMBED_DIM_AFTER };

/* In rising order of precedence. */
enum { FROM_TENSORS, FROM_NAME, FROM_CONFIG, FROM_OPTIONS, FROM_COUNT };

const char *setting_name(setting_key key);
setting_kind setting_kind_of(setting_key key);
const char *setting_words(setting_key key);
const char *setting_help(setting_key key);

void settings_start(settings *s, const char *origin);
void settings_put(settings *s, setting_key key, double value);

/* All of its options, but for channels, classes, normalisation, the size before the crop, and the
 * sizes of a stem, which the tensors show. */
void settings_from_config(settings *s, const vit_config *config);

/* Rotary positions, or that there are none. */
void settings_from_rope(settings *s, const rope_options *rope);

/* "num_heads=3", "img_size=384x256", "mean=0.5,0.5,0.5" */
bool settings_parse(settings *s, const char *assignment, report *r);
/* "384" or "384x256": height, then width. */
bool settings_parse_size(settings *s, const char *text, report *r);
/* The place of a word in setting_words, or -1. */
int setting_find_word(setting_key key, const char *word);

/* True with the value of the highest origin that gives one. */
bool settings_get(const settings all[FROM_COUNT], setting_key key, double *value);
/* That origin, or -1. */
int settings_origin(const settings all[FROM_COUNT], setting_key key);

/* The value as --set takes it: "7", or the word that it stands for. */
const char *setting_text(setting_key key, double value, char text[32]);

#endif
