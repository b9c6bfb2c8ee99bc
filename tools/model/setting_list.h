/* setting_list.h - every setting of a model that --set, a config.json or a timm name can give, and
 * its place in vit_config. Include settings.h instead.
 *
 * To add a setting:
 *     1. If the setting is a field of vit_config, add the field (the recipe: >>extending in vit.h).
 *     2. Add a row to SETTING_LIST. The row determines how the setting is parsed, printed by --help
 *        and vit-info, copied into vit_config, and checked against the tensors.
 *     3. If shown_by names a tensor, add a rule for the tensor to the layouts that have it
 *        (layout/tables*.c). If timm's models take the setting as an argument, add the argument to
 *        config_timm.c.
 *     4. For WORKED_OUT, compute the field in resolve.c. For NO_FIELD, add the code that reads the
 *        setting.
 * settings.c does not compile if the kind does not fit the field's type. test_settings fails and
 * names the setting if a field has no row, if the presence of the tensor in shown_by contradicts
 * the field, if --set does not reach the field, or if vit-info does not mention the field.
 *
 * To add an activation, a pooling, a type of block or norm, or another value of an enum of vit.h:
 *     1. Add it to vit.h (the recipe: >>extending), then run make abi.
 *     2. Add its word to the list below, at the same place as in the enum. Until then settings.c
 *        does not compile, with the message "ACTIVATION_lacks_words".
 *     3. If libraries use other names, add these in lower case to word_aliases (settings.c), which
 *        serves --set, act_layer and hidden_act. For an activation, move the name of its class or
 *        function in layout/attributes.c from unknown_activations to activations, and add the
 *        function to torch_activations (checkpoint/torch_module.c). Names of pools and blocks go
 *        into config_timm.c.
 *     4. Add an activation also to WORDS_OF_REPRESENTATION_ACTIVATION. Add the word to the lists in
 *        test_convert_units, test_options and models/README.md.
 */
/* clang-format off */ /* SETTING_LIST is laid out as a table */
#ifndef SETTING_LIST_H
#define SETTING_LIST_H

/* The words of each WORD setting, as X(enumerator, word, phrase) in the order of the enum.
 * settings_describe adds the phrase to the description of a model with this value. The phrase is
 * "" if it adds nothing. */

#define WORDS_OF_STEM(X)                                                                         \
    X(VIT_STEM_NONE, "none", "")                                                                 \
    X(VIT_STEM_RESNET, "resnet", "ResNet stem")                                                  \
    X(VIT_STEM_CONV, "conv", "convolutional stem")

#define WORDS_OF_PATCH_ORDER(X)                                                                  \
    X(PATCH_ORDER_CHW, "chw", "")                                                                \
    X(PATCH_ORDER_HWC, "hwc", "")                                                                \
    X(PATCH_ORDER_CWH, "cwh", "")                                                                \
    X(PATCH_ORDER_WHC, "whc", "")

#define WORDS_OF_PATCH_CUT(X)                                                                    \
    X(VIT_CUT_SQUARES, "squares", "")                                                            \
    X(VIT_CUT_INTERLEAVED, "interleaved", "interleaved patches")                                 \
    X(VIT_CUT_RESHAPE, "reshape", "patches by reshape")                                          \
    X(VIT_CUT_UNFOLD, "unfold", "patches by unfold without permute")

#define WORDS_OF_POSITIONS(X)                                                                    \
    X(VIT_POS_ALL, "all", "")                                                                    \
    X(VIT_POS_PATCHES, "patches", "positions for the patches only")                              \
    X(VIT_POS_NONE, "none", "no positions")

#define WORDS_OF_POS_SINCOS(X)                                                                   \
    X(SINCOS_NONE, "none", "")                                                                   \
    X(SINCOS_SIMPLE_VIT, "simple_vit", "")                                                       \
    X(SINCOS_MAE, "mae", "")                                                                     \
    X(SINCOS_1D, "1d", "")                                                                       \
    X(SINCOS_1D_HALVES, "1d_halves", "")                                                         \
    X(SINCOS_1D_COLUMN, "1d_column", "")                                                         \
    X(SINCOS_1D_DOUBLE, "1d_double", "")                                                         \
    X(SINCOS_1D_PLAIN, "1d_plain", "")

#define WORDS_OF_POS_RESAMPLE(X)                                                                 \
    X(VIT_RESAMPLE_TIMM, "timm", "")                                                             \
    X(VIT_RESAMPLE_TRANSFORMERS, "transformers", "")                                             \
    X(VIT_RESAMPLE_TORCHVISION, "torchvision", "")                                               \
    X(VIT_RESAMPLE_FLEXIVIT, "flexivit", "")                                                     \
    X(VIT_RESAMPLE_JAX, "jax", "")                                                               \
    X(VIT_RESAMPLE_DINO, "dino", "")                                                             \
    X(VIT_RESAMPLE_NAFLEX, "naflex", "")                                                         \
    X(VIT_RESAMPLE_PAR, "par", "")                                                               \
    X(VIT_RESAMPLE_PARFAC, "parfac", "")

#define WORDS_OF_NORM_TYPE(X)                                                                    \
    X(VIT_LAYER_NORM, "layer", "")                                                               \
    X(VIT_RMS_NORM, "rms", "RMS norms")

#define WORDS_OF_BLOCK_TYPE(X)                                                                   \
    X(VIT_BLOCK_PRE_NORM, "pre_norm", "")                                                        \
    X(VIT_BLOCK_POST_NORM, "post_norm", "post-norm blocks")                                      \
    X(VIT_BLOCK_RES_POST_NORM, "res_post_norm", "res-post-norm blocks")                          \
    X(VIT_BLOCK_PARALLEL, "parallel", "parallel blocks")

#define WORDS_OF_ATTENTION(X)                                                                    \
    X(VIT_ATTENTION_ALL, "all", "")                                                              \
    X(VIT_ATTENTION_SELF, "self", "each token attends only to itself")                           \
    X(VIT_ATTENTION_CAUSAL, "causal", "causal attention")

#define WORDS_OF_ROPE_TYPE(X)                                                                    \
    X(ROPE_NONE, "none", "")                                                                     \
    X(ROPE_CAT, "cat", "")                                                                       \
    X(ROPE_MIXED, "mixed", "")                                                                   \
    X(ROPE_DINOV3, "dinov3", "")                                                                 \
    X(ROPE_QWEN, "qwen", "")

#define WORDS_OF_ROPE_INDEXING(X)                                                                \
    X(ROPE_IJ, "ij", "")                                                                         \
    X(ROPE_XY, "xy", "")

#define WORDS_OF_QKV_ORDER(X)                                                                    \
    X(QKV_ORDER_QKV, "qkv", "")                                                                  \
    X(QKV_ORDER_QVK, "qvk", "")                                                                  \
    X(QKV_ORDER_KQV, "kqv", "")                                                                  \
    X(QKV_ORDER_KVQ, "kvq", "")                                                                  \
    X(QKV_ORDER_VQK, "vqk", "")                                                                  \
    X(QKV_ORDER_VKQ, "vkq", "")

#define WORDS_OF_QKV_INTERLEAVE(X)                                                               \
    X(QKV_INTERLEAVE_NONE, "none", "")                                                           \
    X(QKV_INTERLEAVE_PER_HEAD, "per_head", "")                                                   \
    X(QKV_INTERLEAVE_PER_VALUE, "per_value", "")

#define WORDS_OF_ATTN_ROOT(X)                                                                    \
    X(ATTN_ROOT_HEAD_DIM, "head_dim", "")                                                        \
    X(ATTN_ROOT_EMBED_DIM, "embed_dim", "")                                                      \
    X(ATTN_ROOT_EMBED_DIM_AFTER, "embed_dim_after", "")

#define WORDS_OF_ACTIVATION(X)                                                                   \
    X(VIT_GELU, "gelu", "")                                                                      \
    X(VIT_GELU_TANH, "gelu_tanh", "tanh GELU")                                                   \
    X(VIT_QUICK_GELU, "quick_gelu", "quick GELU")                                                \
    X(VIT_SILU, "silu", "SiLU")                                                                  \
    X(VIT_RELU, "relu", "ReLU")

#define WORDS_OF_MERGE_ACT(X)                                                                    \
    X(MERGE_GELU, "gelu", "")                                                                      \
    X(MERGE_GELU_TANH, "gelu_tanh", "tanh GELU in the merger")                                     \
    X(MERGE_QUICK_GELU, "quick_gelu", "quick GELU in the merger")                                  \
    X(MERGE_SILU, "silu", "SiLU in the merger")                                                    \
    X(MERGE_RELU, "relu", "ReLU in the merger")

#define WORDS_OF_REPRESENTATION_ACTIVATION(X)                                                    \
    X(VIT_REPRESENTATION_TANH, "tanh", "")                                                       \
    X(VIT_REPRESENTATION_NONE, "none", "no activation of pre_logits")                            \
    X(VIT_REPRESENTATION_GELU, "gelu", "GELU in pre_logits")                                     \
    X(VIT_REPRESENTATION_GELU_TANH, "gelu_tanh", "tanh GELU in pre_logits")                      \
    X(VIT_REPRESENTATION_QUICK_GELU, "quick_gelu", "quick GELU in pre_logits")                   \
    X(VIT_REPRESENTATION_SILU, "silu", "SiLU in pre_logits")                                     \
    X(VIT_REPRESENTATION_RELU, "relu", "ReLU in pre_logits")

#define WORDS_OF_POOL(X)                                                                         \
    X(VIT_POOL_TOKEN, "token", "")                                                               \
    X(VIT_POOL_AVG, "avg", "mean of the patches")                                                \
    X(VIT_POOL_MAX, "max", "maximum of the patches")                                             \
    X(VIT_POOL_AVGMAX, "avgmax", "mean and maximum of the patches")                              \
    X(VIT_POOL_MAP, "map", "attention pooling")                                                  \
    X(VIT_POOL_TOKEN_AVG, "token_avg", "class token joined to the mean of the patches")          \
    X(VIT_POOL_LAST, "last", "last token")                                                       \
    X(VIT_POOL_ARGMAX, "argmax", "token with the largest id")

#define WORDS_OF_HEAD_ACTIVATION(X)                                                              \
    X(VIT_HEAD_SOFTMAX, "softmax", "")                                                           \
    X(VIT_HEAD_SIGMOID, "sigmoid", "any number of classes at once (sigmoid)")

#define WORDS_OF_CROP_MODE(X)                                                                    \
    X(VIT_CROP_CENTER, "center", "")                                                             \
    X(VIT_CROP_SQUASH, "squash", "")                                                             \
    X(VIT_CROP_BORDER, "border", "")                                                             \
    X(VIT_CROP_ASPECT, "aspect", "each photo's own aspect ratio")

#define WORDS_OF_CROP_ROUNDING(X)                                                                \
    X(VIT_ROUND_EVEN, "even", "")                                                                \
    X(VIT_ROUND_DOWN, "down", "")                                                                \
    X(VIT_ROUND_NEAREST, "nearest", "")

#define WORDS_OF_INTERPOLATION(X)                                                                \
    X(VIT_BILINEAR, "bilinear", "")                                                              \
    X(VIT_BICUBIC, "bicubic", "")

/* X(KEY, name, KIND, field, plain, sources, help), in the order of --help and vit-info:
 *
 *     name       the name for --set; also the field's name in vit_config
 *     KIND       INTEGER: a whole number. NUMBER: any number. WORD: one of WORDS_OF_KEY.
 *                FLAG(shown_by, phrase): 0 or 1.
 *                    shown_by   the tensor whose presence shows that the flag is 1; NULL if no
 *                               tensor shows this
 *                    phrase     settings_describe adds this phrase if the value is not `plain`;
 *                               NULL if it adds nothing
 *     field      COPIED: the value is copied into vit_config's field of this name. WORKED_OUT:
 *                resolve.c computes the field. NO_FIELD: vit_config has no such field.
 *     plain      the value in a plain ViT, which is used if no source gives the setting
 *     sources    NAMED: timm's name of the architecture implies the value. CHECKED: if the tensors
 *                show the value, a name or configuration that contradicts them is an error. BOTH:
 *                NAMED and CHECKED. NEITHER: neither of the two.
 *     help       the description of the setting in --help
 */
#define SETTING_LIST(X)                                                                          \
    X(IN_CHANS, in_chans, INTEGER, COPIED, 0, CHECKED, "channels of the input")                  \
    X(IMG_HEIGHT, img_height, INTEGER, WORKED_OUT, 0, NAMED, "input height in pixels")           \
    X(IMG_WIDTH, img_width, INTEGER, WORKED_OUT, 0, NAMED, "input width in pixels")              \
    X(STEM, stem, WORD, COPIED, VIT_STEM_NONE, BOTH,                                             \
      "layers that make a feature map of the input")                                             \
    X(STEM_WIDTH, stem_width, INTEGER, COPIED, 0, NEITHER,                                       \
      "channels of the stem's first convolution")                                                \
    X(STEM_STAGE1, stem_stage1, INTEGER, COPIED, 0, NEITHER, "blocks of the stem's first stage") \
    X(STEM_STAGE2, stem_stage2, INTEGER, COPIED, 0, NEITHER,                                     \
      "blocks of the stem's second stage")                                                       \
    X(STEM_STAGE3, stem_stage3, INTEGER, COPIED, 0, NEITHER,                                     \
      "blocks of the stem's third stage")                                                        \
    X(STEM_STAGE4, stem_stage4, INTEGER, COPIED, 0, NEITHER,                                     \
      "blocks of the stem's fourth stage")                                                       \
    X(PATCH_SIZE, patch_size, INTEGER, COPIED, 0, BOTH, "side of a patch in pixels")             \
    X(PATCH_STRIDE, patch_stride, INTEGER, COPIED, 0, NEITHER,                                   \
      "pixels from one patch to the next; 0: patch_size")                                        \
    X(PATCH_ORDER, patch_order, WORD, NO_FIELD, 0, NEITHER,                                      \
      "order of a patch's pixels in a linear layer")                                             \
    X(PATCH_CUT, patch_cut, WORD, COPIED, VIT_CUT_SQUARES, NEITHER,                              \
      "how patches are cut out of the input")                                                    \
    X(EMBED_DIM, embed_dim, INTEGER, COPIED, 0, BOTH, "width of a token")                        \
    X(DEPTH, depth, INTEGER, COPIED, 0, BOTH, "number of blocks")                                \
    X(NUM_HEADS, num_heads, INTEGER, COPIED, 0, NAMED, "attention heads")                        \
    X(HEAD_DIM, head_dim, INTEGER, COPIED, 0, NEITHER, "width of one attention head")            \
    X(MLP_DIM, mlp_dim, INTEGER, COPIED, 0, BOTH, "width of the hidden MLP layer; 0: no MLP")    \
    X(MLP_RATIO, mlp_ratio, NUMBER, NO_FIELD, 4, NEITHER, "mlp_dim / embed_dim")                 \
    X(CLS_TOKEN, has_cls_token, FLAG("cls_token", "no class token"), COPIED, 1, BOTH,            \
      "class token")                                                                             \
    X(DIST_TOKEN, has_dist_token, FLAG("dist_token", "distillation token"), COPIED, 0, BOTH,     \
      "distillation token and second head")                                                      \
    X(REG_TOKENS, num_reg_tokens, INTEGER, COPIED, 0, BOTH, "register tokens")                   \
    X(POSITIONS, positions, WORD, WORKED_OUT, VIT_POS_ALL, NAMED, "tokens that have a position") \
    X(POS_SINCOS, pos_sincos, WORD, NO_FIELD, 0, NEITHER,                                        \
      "how positions are computed, if the file stores none")                                     \
    X(POS_FIRST_ROWS, pos_first_rows, FLAG(NULL, NULL), NO_FIELD, 0, NEITHER,                    \
      "1: the model uses only the first rows of pos_embed")                                      \
    X(POS_RESAMPLE, pos_resample, WORD, WORKED_OUT, VIT_RESAMPLE_TIMM, NEITHER,                  \
      "library or model whose resampling of positions is used")                                  \
    X(DYNAMIC_IMG_SIZE, dynamic_img_size, FLAG(NULL, "any input size"), COPIED, 0, NAMED,        \
      "1 allows other input sizes at run time")                                                  \
    X(DYNAMIC_IMG_PAD, dynamic_img_pad, FLAG(NULL, "input padded to whole patches"), COPIED, 0,  \
      NEITHER, "1 pads the input to whole patches")                                              \
    X(PATCH_BIAS, has_patch_bias, FLAG("patch_embed.proj.bias", "no patch bias"), COPIED, 1,     \
      BOTH, "bias of the patch embedding")                                                       \
    X(PATCH_PRE_NORM, has_patch_pre_norm,                                                        \
      FLAG("patch_embed.pre_norm.weight", "norm of the raw patches"), COPIED, 0, BOTH,           \
      "norm of the raw patches")                                                                 \
    X(PATCH_NORM, has_patch_norm, FLAG("patch_embed.norm.weight", "patch norm"), COPIED, 0,      \
      BOTH, "norm after the patch embedding")                                                    \
    X(PRE_NORM, has_pre_norm, FLAG("norm_pre.weight", "norm before the blocks"), COPIED, 0,      \
      BOTH, "norm before the first block")                                                       \
    X(NORM_TYPE, norm_type, WORD, COPIED, VIT_LAYER_NORM, BOTH, "kind of every norm")            \
    X(NORM_EPS, norm_eps, NUMBER, COPIED, 1e-6, NAMED, "epsilon of the norms")                   \
    X(BLOCK_TYPE, block_type, WORD, COPIED, VIT_BLOCK_PRE_NORM, BOTH,                            \
      "order of norms and layers in a block")                                                    \
    X(ATTENTION, attention, WORD, COPIED, VIT_ATTENTION_ALL, NEITHER,                            \
      "tokens that a token attends to")                                                          \
    X(QKV_BIAS, has_qkv_bias, FLAG("blocks.0.attn.qkv.bias", "no qkv bias"), COPIED, 1, BOTH,    \
      "bias of the qkv projection")                                                              \
    X(QKV_ORDER, qkv_order, WORD, NO_FIELD, 0, NEITHER,                                          \
      "order of query, key and value in a weight")                                               \
    X(QKV_INTERLEAVE, qkv_interleave, WORD, NO_FIELD, 0, NEITHER,                                \
      "how the rows of q, k and v alternate in one weight")                                      \
    X(QK_NORM, has_qk_norm, FLAG("blocks.0.attn.q_norm.weight", "norm of q and k"), COPIED, 0,   \
      BOTH, "norm of queries and keys")                                                          \
    X(ROPE_TYPE, rope_type, WORD, NO_FIELD, ROPE_NONE, NEITHER, "rotary positions")              \
    X(ROPE_TEMPERATURE, rope_temperature, NUMBER, NO_FIELD, 100, NEITHER,                        \
      "base of the rotary frequencies")                                                          \
    X(ROPE_INDEXING, rope_grid_indexing, WORD, NO_FIELD, ROPE_IJ, NEITHER,                       \
      "order of rows and columns in rotary angles")                                              \
    X(ROPE_OFFSET, rope_grid_offset, NUMBER, NO_FIELD, 0, NEITHER,                               \
      "rotary coordinate of the first row and column")                                           \
    X(ROPE_REFERENCE, ref_feat_shape, INTEGER, NO_FIELD, 0, NEITHER,                             \
      "side of the grid of patches in training, for rotary positions")                           \
    X(REL_POS, has_rel_pos, FLAG("blocks.0.attn.rel_pos", "relative positions"), COPIED, 0,      \
      BOTH, "a bias of the attention scores for each relative position")                         \
    X(DIFF_ATTN, has_diff_attn, FLAG("blocks.0.attn.lambda", "differential attention"), COPIED,  \
      0, BOTH, "differential attention")                                                         \
    X(ATTN_NORM, has_attn_norm, FLAG("blocks.0.attn.norm.weight", "norm before attn.proj"),      \
      COPIED, 0, BOTH, "norm before attn.proj")                                                  \
    X(PROJ_BIAS, has_proj_bias, FLAG("blocks.0.attn.proj.bias", "no bias of attn.proj and mlp"), \
      COPIED, 1, BOTH, "bias of attn.proj, mlp.fc1 and mlp.fc2")                                 \
    X(LAYER_SCALE, has_layer_scale, FLAG("blocks.0.ls1.gamma", "LayerScale"), COPIED, 0, BOTH,   \
      "LayerScale")                                                                              \
    X(ACTIVATION, activation, WORD, COPIED, VIT_GELU, BOTH, "activation of every MLP")           \
    X(GATED_MLP, has_gated_mlp, FLAG(NULL, "gated MLP"), COPIED, 0, BOTH,                        \
      "gated MLP such as SwiGLU")                                                                \
    X(MLP_NORM, has_mlp_norm, FLAG("blocks.0.mlp.norm.weight", "norm before mlp.fc2"), COPIED,   \
      0, BOTH, "norm before mlp.fc2")                                                            \
    X(FINAL_NORM, has_final_norm, FLAG("norm.weight", "no final norm"), WORKED_OUT, 1, NAMED,    \
      "norm after the last block")                                                               \
    X(POOL, pool, WORD, COPIED, VIT_POOL_TOKEN, BOTH, "input of the head")                       \
    X(POOL_PREFIX, pool_prefix, FLAG(NULL, "prefix tokens pooled too"), COPIED, 0, NAMED,        \
      "pooling includes the prefix tokens")                                                      \
    X(POOL_NUM_HEADS, pool_num_heads, INTEGER, COPIED, 0, NAMED,                                 \
      "heads of pool=map; 0: num_heads")                                                         \
    X(POOL_MLP_DIM, pool_mlp_dim, INTEGER, COPIED, 0, NEITHER,                                   \
      "hidden width of pool=map; 0: mlp_dim")                                                    \
    X(FC_NORM, has_fc_norm, FLAG("fc_norm.weight", "norm after pooling"), WORKED_OUT, 0, NAMED,  \
      "norm after pooling")                                                                      \
    X(REPRESENTATION_DIM, representation_dim, INTEGER, COPIED, 0, CHECKED,                       \
      "width of the layer pre_logits; 0 drops the layer")                                        \
    X(REPRESENTATION_ACTIVATION, representation_act, WORD, COPIED, VIT_REPRESENTATION_TANH,      \
      NEITHER, "activation after the layer pre_logits")                                          \
    X(MERGE_SIZE, merge_size, INTEGER, COPIED, 0, NEITHER,                                       \
      "side of the square of patches that the merger joins; 0 drops the merger")                 \
    X(MERGE_DIM, merge_dim, INTEGER, COPIED, 0, NEITHER, "width of a merged token")              \
    X(MERGE_MLP_DIM, merge_mlp_dim, INTEGER, COPIED, 0, NEITHER, "hidden width of the merger")   \
    X(MERGE_NORM, merge_norm, INTEGER, COPIED, 0, NEITHER,                                       \
      "norm of the merger: 1 for each patch, 2 for the joined patches")                          \
    X(MERGE_ACT, merge_act, WORD, COPIED, MERGE_GELU, NEITHER, "activation of the merger")         \
    X(NUM_CLASSES, num_classes, INTEGER, COPIED, 0, CHECKED, "classes; 0 drops the head")        \
    X(HEAD_ACTIVATION, head_activation, WORD, COPIED, VIT_HEAD_SOFTMAX, NEITHER,                 \
      "function that turns logits into probabilities; sigmoid for taggers")                      \
    X(VOCAB_SIZE, vocab_size, INTEGER, COPIED, 0, NEITHER, "tokens of a text encoder's vocabulary") \
    X(LOGIT_SCALE, logit_scale, NUMBER, COPIED, 0, NEITHER,                                      \
      "factor on the cosine of a photo and a text")                                              \
    X(LOGIT_BIAS, logit_bias, NUMBER, COPIED, 0, NEITHER, "number added to the scaled cosine")   \
    X(ATTN_SCALE, attn_scale, NUMBER, WORKED_OUT, 0, NEITHER, "factor on q k^T")                 \
    X(ATTN_ROOT, attn_root, WORD, NO_FIELD, ATTN_ROOT_HEAD_DIM, NEITHER,                         \
      "width whose root divides q k^T, or with embed_dim_after the result of the softmax")       \
    X(CROP_PCT, crop_pct, NUMBER, WORKED_OUT, 0.9, NEITHER, "input size / size before the crop") \
    X(CROP_MODE, crop_mode, WORD, COPIED, VIT_CROP_CENTER, NAMED,                                \
      "how the input is cut out of a photo")                                                     \
    X(CROP_ROUNDING, crop_rounding, WORD, COPIED, VIT_ROUND_EVEN, NEITHER,                       \
      "rounding of a crop's margins; with crop_mode=aspect, nearest gives DPT's sizes")          \
    X(INTERPOLATION, interpolation, WORD, COPIED, VIT_BICUBIC, NAMED, "filter of the resize")    \
    X(RESIZE_HEIGHT, resize_height, INTEGER, WORKED_OUT, 0, NEITHER, "height before the crop")   \
    X(RESIZE_WIDTH, resize_width, INTEGER, WORKED_OUT, 0, NEITHER, "width before the crop")      \
    X(MAX_PATCHES, max_patches, INTEGER, NO_FIELD, 0, NEITHER,                                   \
      "limit of patches per photo for crop_mode=aspect; 0: as many as the input size has")       \
    X(OWN_SIZES, own_sizes, FLAG(NULL, NULL), NO_FIELD, 0, NEITHER,                              \
      "1: the original keeps the size of each photo; vit.h squashes all to one size")            \
    X(SELFTEST_SEED, selftest_seed, INTEGER, COPIED, 1, NEITHER, "seed of the self-test input")  \
    X(SELFTEST_TOLERANCE, selftest_tolerance, NUMBER, COPIED, 2e-5, NEITHER,                     \
      "largest accepted error of the self-test")                                                 \
    X(ALLOW_NONFINITE, allow_nonfinite, FLAG(NULL, NULL), NO_FIELD, 0, NEITHER,                  \
      "1 accepts weights that are NaN or inf")

#endif
