/* test_defaults.c - tests the values that vit-convert assumes if a checkpoint does not state them.
 * The expected values come from the code or documentation of the library that wrote the checkpoint.
 * Each value has one check. test_arch.c tests the values that timm's names imply.
 *
 *     test_defaults tests/data
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/report.h"
#include "convert/conversion.h"
#include "test.h"
#define VIT_TOOLS
#include "vit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A conversion and its result. */
typedef struct row {
    /* The code or the documentation that the expected values come from. */
    const char *source;
    /* The name of a checkpoint under tests/data/layouts, or a list of tensors (see write_list). */
    const char *checkpoint;
    /* The settings for --set, with spaces between them. */
    const char *options;
    /* The text of config.json beside the checkpoint, or NULL if there is no such file. */
    const char *config;
    /* The text of preprocessor_config.json, or NULL. */
    const char *preprocessor;
    /* The expected settings, with spaces between them, or "!TEXT" for a refusal with this text. */
    const char *expected;
} row;

#define HEADS         "num_heads=2"
#define AT_224        "num_heads=2 img_size=224"
#define TYPE(type)    "{\"model_type\": \"" type "\"}"
#define TOWER(type)   "{\"model_type\": \"" type "\", \"vision_config\": {}}"
#define IMAGENET      "mean=0.485,0.456,0.406 std=0.229,0.224,0.225"
#define OPENAI        "mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711"
#define HALF          "mean=0.5 std=0.5"
#define RESIZE(n)     "resize_height=" #n " resize_width=" #n
#define VIT_IMAGES    "crop_mode=squash interpolation=bilinear " RESIZE(224) " " HALF
#define DEIT_IMAGES   "crop_mode=squash interpolation=bicubic " RESIZE(256) " " HALF
#define CLIP_IMAGES   "crop_mode=center interpolation=bicubic " RESIZE(224) " " OPENAI
#define SIGLIP_IMAGES "crop_mode=squash interpolation=bicubic " RESIZE(224) " " HALF
#define DINOV2_IMAGES "crop_mode=center interpolation=bicubic " RESIZE(256) " " IMAGENET
#define DPT_IMAGES                                                                                 \
    "crop_mode=aspect crop_rounding=nearest interpolation=bicubic dynamic_img_size=1 "             \
    "pos_resample=transformers "
#define DPT_FILE                                                                                   \
    "{\"image_processor_type\": \"DPTImageProcessor\", \"keep_aspect_ratio\": true, "              \
    "\"do_pad\": false, \"size_divisor\": null, \"do_resize\": true, "
#define DPT_SQUASH  "{\"image_processor_type\": \"DPTImageProcessorFast\", "
#define TIMM_IMAGES "crop_mode=center interpolation=bicubic " RESIZE(248) " " HALF

#define TEN "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "

#define HF_VIT    "hf_vit/model.safetensors"
#define HF_DEIT   "hf_deit_distilled/model.safetensors"
#define HF_CLIP   "hf_clip/model.safetensors"
#define HF_SIGLIP "hf_siglip/model.safetensors"
#define HF_DINOV2 "hf_dinov2/model.safetensors"
#define OPEN_CLIP "open_clip/model.safetensors"

static const row transformers[] = {
    { "ViTConfig", HF_VIT, HEADS, TYPE("vit"), NULL,
      "norm_eps=1e-12 activation=gelu pool=token "
      "positions=all norm_type=layer block_type=pre_norm has_final_norm=1 has_layer_scale=0" },
    { "ViTConfig", HF_VIT, "", TYPE("vit"), NULL, "!num_heads 12 does not divide" },
    { "ViTConfig, without a file", HF_VIT, HEADS, NULL, NULL, "norm_eps=1e-12 activation=gelu" },
    { "DeiTConfig", HF_DEIT, HEADS, TYPE("deit"), NULL,
      "norm_eps=1e-12 activation=gelu "
      "has_dist_token=1 positions=all" },
    { "DeiTConfig", HF_DEIT, "", TYPE("deit"), NULL, "!num_heads 12 does not divide" },
    { "ViTMAEConfig", "hf_mae/model.safetensors", HEADS, TYPE("vit_mae"), NULL,
      "norm_eps=1e-12 activation=gelu num_classes=0" },
    { "ViTMSNConfig", HF_VIT, HEADS, TYPE("vit_msn"), NULL, "norm_eps=1e-6 activation=gelu" },
    { "IJepaConfig", "hf_ijepa/model.safetensors", HEADS, TYPE("ijepa"), NULL,
      "norm_eps=1e-12 activation=gelu pool=avg has_cls_token=0" },
    { "Dinov2Config", HF_DINOV2, HEADS, TYPE("dinov2"), NULL,
      "norm_eps=1e-6 activation=gelu positions=all pool=token_avg has_layer_scale=1" },
    { "Dinov2Config", HF_DINOV2, "", TYPE("dinov2"), NULL, "!num_heads 12 does not divide" },
    { "Dinov2Config, without a file", HF_DINOV2, HEADS, NULL, NULL,
      "norm_eps=1e-6 activation=gelu" },
    { "Dinov2SwiGLUFFN", "hf_dinov2_giant/model.safetensors", HEADS, NULL, NULL,
      "norm_eps=1e-6 activation=silu has_gated_mlp=1" },
    { "Dinov2SwiGLUFFN", "hf_dinov2_giant/model.safetensors", HEADS,
      "{\"model_type\": \"dinov2\", \"use_swiglu_ffn\": true}", NULL, "activation=silu" },
    { "Dinov2WithRegistersConfig", "hf_dinov2_reg/model.safetensors", HEADS,
      TYPE("dinov2_with_registers"), NULL, "norm_eps=1e-6 activation=gelu positions=patches" },
    { "CLIPVisionConfig", HF_CLIP, HEADS, TOWER("clip"), NULL,
      "norm_eps=1e-5 activation=quick_gelu pool=token has_pre_norm=1 has_patch_bias=0" },
    { "CLIPVisionConfig", HF_CLIP, "", TOWER("clip"), NULL, "!num_heads 12 does not divide" },
    { "CLIPVisionConfig, alone", HF_CLIP, HEADS, TYPE("clip_vision_model"), NULL,
      "norm_eps=1e-5 activation=quick_gelu" },
    { "MetaClip2VisionConfig", HF_CLIP, HEADS, TOWER("metaclip_2"), NULL,
      "norm_eps=1e-5 activation=quick_gelu pool=token has_pre_norm=1" },
    { "MetaClip2VisionConfig, alone", HF_CLIP, "", TYPE("metaclip_2_vision_model"), NULL,
      "!num_heads 12 does not divide" },
    { "CLIP without a file", HF_CLIP, HEADS " activation=gelu", NULL, NULL, "norm_eps=1e-5" },
    { "CLIP without a file", HF_CLIP, HEADS, NULL, NULL, "!give --set activation=quick_gelu" },
    { "CLIPForImageClassification", "hf_clip_classifier/model.safetensors", HEADS, TOWER("clip"),
      NULL, "pool=avg has_final_norm=0 has_fc_norm=0" },
    { "SiglipVisionConfig", HF_SIGLIP, HEADS, TOWER("siglip"), NULL,
      "norm_eps=1e-6 activation=gelu_tanh pool=map has_cls_token=0" },
    { "SiglipVisionConfig", HF_SIGLIP, "", TOWER("siglip"), NULL, "!num_heads 12 does not divide" },
    { "SiglipVisionConfig, alone", HF_SIGLIP, HEADS, TYPE("siglip_vision_model"), NULL,
      "norm_eps=1e-6 activation=gelu_tanh" },
    { "SigLIP without a file", HF_SIGLIP, HEADS, NULL, NULL, "norm_eps=1e-6 activation=gelu_tanh" },
    { "SiglipForImageClassification", "hf_siglip_classifier/model.safetensors", HEADS, NULL, NULL,
      "pool=avg has_final_norm=1" },
    { "Siglip2VisionConfig", HF_SIGLIP, HEADS, TOWER("siglip2"), NULL,
      "norm_eps=1e-6 activation=gelu_tanh" },
    { "Siglip2VisionConfig, alone", HF_SIGLIP, HEADS, TYPE("siglip2_vision_model"), NULL,
      "norm_eps=1e-6 activation=gelu_tanh" },
    { "Aimv2VisionConfig", "hf_aimv2/model.safetensors", "", TOWER("aimv2"), NULL,
      "norm_eps=1e-5 activation=silu norm_type=rms pool=avg num_heads=8" },
    { "Aimv2VisionConfig, alone", "hf_aimv2/model.safetensors", HEADS, TYPE("aimv2_vision_model"),
      NULL, "norm_eps=1e-5 activation=silu norm_type=rms" },
    { "DINOv3ViTConfig", "hf_dinov3/model.safetensors", HEADS " img_size=4", TYPE("dinov3_vit"),
      NULL, "norm_eps=1e-5 rope=1 rope_per_block=0 pool=token" },
    { "DINOv3ViTConfig", "hf_dinov3/model.safetensors", "img_size=4", TYPE("dinov3_vit"), NULL,
      "!num_heads 6 does not divide" },
    { "DINOv3ViTGatedMLP, without a file", "hf_dinov3/model.safetensors", HEADS " img_size=4", NULL,
      NULL, "norm_eps=1e-5 activation=silu has_gated_mlp=1 rope=1" },
    { "BeitConfig", "hf_beit/model.safetensors", "", TYPE("beit"), NULL, "!num_heads 12" },
    { "BeitConfig", "hf_beit/model.safetensors", HEADS, TYPE("beit"), NULL,
      "norm_eps=1e-12 activation=gelu pool=avg has_rel_pos=1 rope=0" },
    { "Data2VecVisionConfig", "hf_beit/model.safetensors", HEADS, TYPE("data2vec-vision"), NULL,
      "norm_eps=1e-12 activation=gelu pool=avg" },
    { "BEiT without a file", "hf_beit/model.safetensors", "", NULL, NULL,
      "norm_eps=1e-12 activation=gelu pool=avg num_heads=2" },
    { "AIMv2 without a file", "hf_aimv2/model.safetensors", HEADS, NULL, NULL,
      "norm_eps=1e-5 activation=silu norm_type=rms pool=avg" },
};

/* Tests the defaults of the image processor classes. They apply if the file of the processor omits
 * a value, or if there is no such file. */
static const row image_processors[] = {
    { "ViTImageProcessor", HF_VIT, AT_224, TYPE("vit"), NULL, VIT_IMAGES },
    { "ViTImageProcessor", HF_VIT, AT_224, TYPE("vit"), "{}", VIT_IMAGES },
    { "DeiTImageProcessor", HF_DEIT, AT_224, TYPE("deit"), NULL, DEIT_IMAGES },
    { "DeiTImageProcessor", HF_DEIT, AT_224, TYPE("deit"), "{}", DEIT_IMAGES },
    { "ViTMAE has ViT's", "hf_mae/model.safetensors", AT_224, TYPE("vit_mae"), NULL, VIT_IMAGES },
    { "ViTMSN has ViT's", HF_VIT, AT_224, TYPE("vit_msn"), NULL, VIT_IMAGES },
    { "IJepa has ViT's", "hf_ijepa/model.safetensors", AT_224, TYPE("ijepa"), NULL, VIT_IMAGES },
    { "convert_dinov2_to_hf.py", HF_DINOV2, AT_224, TYPE("dinov2"), NULL, DINOV2_IMAGES },
    { "the same with registers", "hf_dinov2_reg/model.safetensors", AT_224,
      TYPE("dinov2_with_registers"), NULL, DINOV2_IMAGES },
    { "CLIPImageProcessor", HF_CLIP, AT_224, TOWER("clip"), NULL, CLIP_IMAGES },
    { "CLIPImageProcessor", HF_CLIP, AT_224, TOWER("clip"), "{}", CLIP_IMAGES },
    { "MetaCLIP 2 has CLIP's", HF_CLIP, AT_224, TOWER("metaclip_2"), NULL, CLIP_IMAGES },
    { "SiglipImageProcessor", HF_SIGLIP, AT_224, TOWER("siglip"), NULL, SIGLIP_IMAGES },
    { "Siglip2ImageProcessor", HF_SIGLIP, "num_heads=2", TOWER("siglip2"), NULL,
      "crop_mode=aspect interpolation=bilinear dynamic_img_size=1 pos_resample=naflex " HALF },
    { "Siglip2ImageProcessor", HF_SIGLIP, "num_heads=2", TOWER("siglip2"),
      "{\"image_processor_type\": \"Siglip2ImageProcessorFast\", \"max_num_patches\": 1024}",
      "crop_mode=aspect resize_height=64 resize_width=64 " HALF },
    { "Siglip2ImageProcessor", HF_SIGLIP, "num_heads=2", TOWER("siglip2"),
      "{\"image_processor_type\": \"Siglip2ImageProcessor\", \"max_num_patches\": 0.5}",
      "!max_patches 0.5: expected 1 to" },
    { "DPTImageProcessor of Depth Anything", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_FILE "\"ensure_multiple_of\": 2, \"image_mean\": [0.485, 0.456, 0.406], "
               "\"image_std\": [0.229, 0.224, 0.225], \"size\": {\"height\": 6, \"width\": 8}}",
      DPT_IMAGES "resize_height=6 resize_width=8 img_height=4 img_width=4 " IMAGENET },
    { "DPTImageProcessor without values", HF_DINOV2, HEADS, TYPE("dinov2"),
      DPT_FILE "\"ensure_multiple_of\": 2}", DPT_IMAGES RESIZE(384) " " HALF },
    { "--img-size before DPT's size", HF_DINOV2, HEADS " img_size=6", TYPE("depth_anything"),
      DPT_FILE "\"ensure_multiple_of\": 2, \"size\": 8}", DPT_IMAGES RESIZE(6) },
    { "DPT's patches have a limit if told", HF_DINOV2, HEADS " crop_rounding=even max_patches=12",
      TYPE("depth_anything"), DPT_FILE "\"ensure_multiple_of\": 2, \"size\": 8}",
      "resize_height=6 resize_width=8" },
    { "DPT's patches have no limit", HF_DINOV2, HEADS " max_patches=12", TYPE("depth_anything"),
      DPT_FILE "\"ensure_multiple_of\": 2}", "!max_patches 12: crop_rounding=nearest does not" },
    { "DPT's sides of other lengths", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_FILE "\"ensure_multiple_of\": 4}", "!ensure_multiple_of 4: expected the patch size, 2" },
    { "DPT's sides of any length", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_FILE "\"size\": 8}", "!ensure_multiple_of 1: expected the patch size, 2" },
    { "DPT's sides squashed", HF_DINOV2, HEADS " crop_mode=squash", TYPE("depth_anything"),
      DPT_FILE "\"size\": 8}", "crop_mode=squash " RESIZE(8) },
    { "DPTImageProcessor squashes", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_SQUASH "\"size\": {\"height\": 11, \"width\": 13}, \"ensure_multiple_of\": 8, "
                 "\"do_pad\": true, \"size_divisor\": 4, \"resample\": 2}",
      "crop_mode=squash resize_height=8 resize_width=16 img_height=8 img_width=16 "
      "interpolation=bilinear " HALF },
    { "DPT's size between two", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_SQUASH "\"size\": 12, \"ensure_multiple_of\": 8}", "!size 12x12: expected sides whose" },
    { "DPT's size of nothing", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_SQUASH "\"size\": 3, \"ensure_multiple_of\": 8}", "!size 3x3: expected sides whose" },
    { "DPT pads", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_SQUASH "\"size\": 8, \"do_pad\": true, \"size_divisor\": 14}",
      "!do_pad true: this version of vit.h does not pad" },
    { "DPT's shorter side", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_SQUASH "\"size\": {\"shortest_edge\": 8}}", "!size: expected n or {height, width}" },
    { "DPT's multiple of nothing", HF_DINOV2, HEADS, TYPE("depth_anything"),
      DPT_SQUASH "\"ensure_multiple_of\": 0}", "!ensure_multiple_of: expected a number" },
    { "DPT as it is", HF_DINOV2, HEADS, TYPE("depth_anything"), DPT_SQUASH "\"do_resize\": false}",
      "!do_resize false" },
    { "DPT's unknown field", HF_DINOV2, HEADS, TYPE("depth_anything"), DPT_SQUASH "\"do_x\": true}",
      "!do_x: this field is unknown" },
    { "ensure_multiple_of of ViT", HF_VIT, AT_224, TYPE("vit"), "{\"ensure_multiple_of\": 14}",
      "!ensure_multiple_of: this field is unknown" },
    { "Siglip2 of one size", HF_SIGLIP, AT_224, TOWER("siglip2"),
      "{\"image_processor_type\": \"SiglipImageProcessor\"}", SIGLIP_IMAGES },
    { "AIMv2 has CLIP's", "hf_aimv2/model.safetensors", AT_224, TYPE("aimv2_vision_model"), NULL,
      CLIP_IMAGES },
    { "DINOv3ViTImageProcessorFast", "hf_dinov3/model.safetensors", AT_224, TYPE("dinov3_vit"),
      NULL, "crop_mode=squash interpolation=bilinear " RESIZE(224) " " IMAGENET },
    { "BeitImageProcessor", HF_VIT, AT_224, TYPE("vit"),
      "{\"image_processor_type\": \"BeitImageProcessor\"}", DEIT_IMAGES },
    { "Data2Vec has BEiT's", "hf_beit/model.safetensors", HEADS " img_size=4",
      TYPE("data2vec-vision"), NULL, "crop_mode=squash interpolation=bicubic " RESIZE(4) " " HALF },
    { "a class named by the file", HF_VIT, AT_224, TYPE("vit"),
      "{\"image_processor_type\": \"CLIPImageProcessorFast\"}", CLIP_IMAGES },
    { "a class named by the file", HF_CLIP, AT_224, TYPE("clip"),
      "{\"image_processor_type\": \"ViTImageProcessor\"}", VIT_IMAGES },
    { "a class named the old way", HF_VIT, AT_224, TYPE("vit"),
      "{\"feature_extractor_type\": \"DeiTFeatureExtractor\"}", DEIT_IMAGES },
    { "a class named the old way", HF_VIT, AT_224, TYPE("vit"),
      "{\"feature_extractor_type\": \"CLIPFeatureExtractor\"}", CLIP_IMAGES },
    { "BitImageProcessor", HF_DINOV2, AT_224, TYPE("dinov2"),
      "{\"image_processor_type\": \"BitImageProcessor\"}", CLIP_IMAGES },
    { "SiglipImageProcessor", HF_VIT, AT_224, TYPE("vit"),
      "{\"image_processor_type\": \"SiglipImageProcessor\"}", SIGLIP_IMAGES },
    { "size 256 of CLIP: the shorter side", HF_CLIP, AT_224, TYPE("clip"), "{\"size\": 256}",
      "crop_mode=center " RESIZE(256) },
    { "size 256 of ViT: both sides", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": 256, \"do_center_crop\": true, \"crop_size\": 224}",
      "crop_mode=squash " RESIZE(256) },
    { "do_center_crop false", HF_DEIT, AT_224, TYPE("deit"), "{\"do_center_crop\": false}",
      "crop_mode=squash " RESIZE(224) },
    { "do_normalize false", HF_VIT, AT_224, TYPE("vit"), "{\"do_normalize\": false}",
      "mean=0 std=1" },
    { "do_rescale false", HF_VIT, AT_224, TYPE("vit"),
      "{\"do_rescale\": false, \"image_mean\": [127.5], \"image_std\": [51]}", "mean=0.5 std=0.2" },
    { "rescale_factor 1/255", HF_VIT, AT_224, TYPE("vit"),
      "{\"image_mean\": [0.25], \"image_std\": [0.2]}", "mean=0.25 std=0.2" },
    { "one number for all channels", HF_VIT, AT_224, TYPE("vit"),
      "{\"image_mean\": 0.25, \"image_std\": null}", "mean=0.25 std=0.5" },
    { "size {height, width}", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": {\"height\": 256, \"width\": 256}, \"crop_size\": {\"height\": 224, "
      "\"width\": 224}, \"do_center_crop\": true}",
      "crop_mode=squash " RESIZE(256) },
    { "size {shortest_edge}", HF_CLIP, AT_224, TYPE("clip"), "{\"size\": {\"shortest_edge\": 256}}",
      "crop_mode=center " RESIZE(256) },
    { "a crop beyond the image", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": 224, \"crop_size\": 256, \"do_center_crop\": true}", RESIZE(196) },
    { "CLIP without a crop", HF_CLIP, AT_224, TYPE("clip"), "{\"do_center_crop\": false}",
      "!do_center_crop false: a size for the shorter side alone" },
    { "a crop to ViT's size", HF_VIT, AT_224, TYPE("vit"), "{\"do_center_crop\": true}",
      "crop_mode=squash " RESIZE(224) },
    { "resample 3", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": 3}", "interpolation=bicubic" },
    { "a class of that name, no processor", HF_VIT, AT_224, TYPE("vit"),
      "{\"image_processor_type\": \"CLIPX\"}", "!CLIPX: the steps of this image processor" },
    { "no object", HF_VIT, AT_224, TYPE("vit"), "[]", "!config.json: expected a JSON object" },
    { "no JSON", HF_VIT, AT_224, TYPE("vit"), "{", "!processor_config.json: JSON, byte 1" },
    { "resample 0", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": 0}", "!resample 0 (nearest)" },
    { "resample 6", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": 6}", "!resample 6 (unknown)" },
    { "resample -1", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": -1}", "!resample -1 (unknown)" },
    { "size \"a\"", HF_VIT, AT_224, TYPE("vit"), "{\"size\": \"a\"}",
      "!size: expected n, {height" },
    { "size \"a\"", HF_CLIP, AT_224, TYPE("clip"), "{\"size\": \"a\"}", "!size: expected n, {he" },
    { "size {height}", HF_VIT, AT_224, TYPE("vit"), "{\"size\": {\"height\": 1}}",
      "!size: expected n, {height, width} or {shortest_edge}" },
    { "size {width}", HF_VIT, AT_224, TYPE("vit"), "{\"size\": {\"width\": 1}}",
      "!size: expected" },
    { "shortest_edge 1.5", HF_VIT, AT_224, TYPE("vit"), "{\"size\": {\"shortest_edge\": 1.5}}",
      "!size: expected n, {height, width} or {shortest_edge}" },
    { "crop_size \"a\"", HF_CLIP, AT_224, TYPE("clip"), "{\"crop_size\": \"a\"}",
      "!crop_size: expected n or {height, width}" },
    { "crop_size {shortest_edge}", HF_CLIP, AT_224, TYPE("clip"),
      "{\"crop_size\": {\"shortest_edge\": 224}}", "!crop_size: expected n or {height, width}" },
    { "do_resize false", HF_VIT, AT_224, TYPE("vit"), "{\"do_resize\": false}",
      "!do_resize false: this version of vit.h always resizes" },
    { "image_mean \"a\"", HF_VIT, AT_224, TYPE("vit"), "{\"image_mean\": [0.5, \"a\"]}",
      "!image_mean: expected a list of numbers" },
    { "image_mean []", HF_VIT, AT_224, TYPE("vit"), "{\"image_mean\": []}",
      "!image_mean: expected a number for each channel" },
    { "image_std of 40", HF_VIT, AT_224, TYPE("vit"), "{\"image_std\": [" TEN TEN TEN TEN "1]}",
      "!image_std: expected a number for each channel" },
};

static const row others[] = {
    { "timm: LayerNorm, nn.GELU, global_pool", "timm_map/model.safetensors", HEADS, NULL, NULL,
      "!activation: cannot be seen in the tensors; give --set activation=" },
    { "nn.LayerNorm: timm has no such size", "mae/model.pth", AT_224, NULL, NULL, "norm_eps=1e-5" },
    { "timm: nn.GELU, global_pool", "mae/model.pth", AT_224, NULL, NULL,
      "activation=gelu pool=token block_type=pre_norm pool_prefix=0" },
    { "timm: _cfg of vision_transformer.py", "mae/model.pth", AT_224, NULL, NULL, TIMM_IMAGES },
    { "timm: SwiGLU", "swiglu_split/model.safetensors", HEADS, NULL, NULL, "activation=silu" },
    { "DINOv2: SwiGLUFFN", "swiglu_w12/model.safetensors", HEADS, NULL, NULL, "activation=silu" },
    { "DINOv2: registers have no position", "dinov2_original/model.pth", HEADS, NULL, NULL,
      "positions=patches norm_eps=1e-6 activation=gelu" },
    { "DINO: vision_transformer.py", "dino/model.pth", HEADS, NULL, NULL,
      "activation=gelu pool=token" },
    { "I-JEPA: nothing says how to pool", "ijepa/model.pth.tar", HEADS, NULL, NULL,
      "!give --set pool=avg" },
    { "DeiT-3: rows that may be either", "deit3/model.pth", HEADS " positions=patches", NULL, NULL,
      "norm_eps=1e-6 activation=gelu" },
    { "open_clip around timm", "open_clip_timm/model.safetensors", HEADS, NULL, NULL,
      "!norm_eps: cannot be seen in the tensors; give --set norm_eps=N" },
    { "vit.cpp: its header", "vit_cpp/model.gguf", "", NULL, NULL,
      "num_heads=2 norm_eps=1e-6 activation=gelu pool=token" },
    { "llama.cpp: metadata", "gguf_clip/model.gguf", "", NULL, NULL,
      "num_heads=2 norm_eps=1e-5 activation=quick_gelu pool=token positions=all" },
    { "llama.cpp: SigLIP", "gguf_gemma3/model.gguf", "", NULL, NULL,
      "num_heads=2 norm_eps=1e-6 activation=gelu_tanh pool=avg crop_mode=squash" },
    { "torchvision: VisionTransformer", "torchvision/model.pth", HEADS, NULL, NULL,
      "norm_eps=1e-6 activation=gelu pool=token" },
    { "torchvision: ImageClassification", "torchvision/model.pth", AT_224, NULL, NULL,
      "crop_mode=center interpolation=bilinear " RESIZE(256) " " IMAGENET },
    { "torch.nn: LayerNorm", "torch_nn/model.pt",
      HEADS " pool=token activation=relu block_type=post_norm", NULL, NULL, "norm_eps=1e-5" },
    { "torch.nn: norm_first", "torch_nn/model.pt", HEADS " pool=token activation=relu", NULL, NULL,
      "block_type=post_norm" },
    { "torch.nn: activation", "torch_nn/model.pt", HEADS " pool=token block_type=post_norm", NULL,
      NULL, "activation=relu" },
    { "torch.nn: the module around it", "torch_nn/model.pt",
      HEADS " activation=relu block_type=post_norm", NULL, NULL, "pool=token" },
    { "torch.nn: nhead", "torch_nn/model.pt", "pool=token activation=relu block_type=post_norm",
      /* Random weights do not show the heads. */
      NULL, NULL, "!num_heads: the weights show no heads" },
    { "vit-pytorch: LayerNorm, nn.GELU", "lucidrains/model.safetensors", HEADS " pool=avg", NULL,
      NULL, "norm_eps=1e-5 activation=gelu pool_prefix=1 has_qkv_bias=0 has_fc_norm=1" },
    { "vit-pytorch 2025: a mean without a class token", "lucidrains_2025_mean/model.pt", HEADS,
      NULL, NULL, "norm_eps=1e-5 activation=gelu pool=avg pool_prefix=0" },
    { "SimpleViT", "simple_vit/model.safetensors", HEADS " img_size=4", NULL, NULL,
      "norm_eps=1e-5 activation=gelu pool=avg positions=patches has_cls_token=0" },
    { "SimpleViT: its size", "simple_vit/model.safetensors", HEADS, NULL, NULL, "!--img-size HxW" },
    { "the einops tutorial: 8 heads", "einops/model.pth", "", NULL, NULL,
      "num_heads=8 norm_eps=1e-5 activation=gelu pool=avg pool_prefix=1 positions=all" },
    { "the einops tutorial: its scale", "einops/model.pth", HEADS, NULL, NULL, "attn_scale=1" },
    { "the einops tutorial: Resize, ToTensor", "einops/model.pth", AT_224, NULL, NULL,
      "crop_mode=squash interpolation=bilinear " RESIZE(224) " mean=0 std=1" },
    { "torch.nn: Resize, ToTensor", "torch_nn/model.pt",
      AT_224 " pool=token activation=relu block_type=post_norm", NULL, NULL,
      "crop_mode=squash interpolation=bilinear " RESIZE(224) " mean=0 std=1" },
    { "EVA-02: SwiGLU", "eva02_original/model.pth", HEADS " norm_eps=1e-6", NULL, NULL,
      "activation=silu rope=2" },
    { "EVA-02: norm_layer", "eva02_original/model.pth", HEADS, NULL, NULL,
      "!give --set norm_eps=N" },
    { "EVA-02 in timm's names: rotary or not", "eva02_untold/model.safetensors", HEADS, NULL, NULL,
      "!give --set rope_type=none or --set rope_type=cat (EVA-02" },
    { "DINOv3: vision_transformer.py", "dinov3_original/model.pth", HEADS " img_size=4", NULL, NULL,
      "norm_eps=1e-5 activation=gelu pool=token rope=1 " IMAGENET },
    { "Perception Encoder: pe.py", "pe_core/model.pt", HEADS, NULL, NULL,
      "norm_eps=1e-5 activation=gelu pool=map pool_num_heads=8 pool_prefix=1 rope=2 " HALF },
    { "BEiT: nothing says how to pool", "beit_original/model.pth", "norm_eps=1e-6 activation=gelu",
      NULL, NULL, "!give --set pool=avg" },
    { "BEiT: heads of its table", "beit_original/model.pth", "pool=avg", NULL, NULL,
      "num_heads=2 norm_eps=1e-6 activation=gelu has_rel_pos=1" },
    { "vit-pytorch: pool='cls'", "lucidrains/model.safetensors", HEADS, NULL, NULL,
      "norm_eps=1e-5 activation=gelu pool=token" },
    { "vit-pytorch: heads", "lucidrains/model.safetensors", "pool=token", NULL, NULL,
      "!num_heads: the weights show no heads" },
    { "open_clip: LayerNorm", OPEN_CLIP, HEADS " activation=gelu", NULL, NULL, "norm_eps=1e-5" },
    { "open_clip: quick_gelu", OPEN_CLIP, HEADS, NULL, NULL, "!give --set activation=quick_gelu" },
    { "open_clip: PreprocessCfg", OPEN_CLIP, AT_224 " activation=gelu", NULL, NULL, CLIP_IMAGES },
    { "CLIP: model.py", "openai/model.pt", HEADS, NULL, NULL,
      "norm_eps=1e-5 activation=quick_gelu" },
    { "CLIP: _transform", "openai/model.pt", AT_224, NULL, NULL, CLIP_IMAGES },
    { "open_clip: CLIPVisionCfg", OPEN_CLIP, HEADS, "{\"model_cfg\": {\"vision_cfg\": {}}}", NULL,
      "norm_eps=1e-5 activation=gelu pool=token" },
    { "open_clip: quick_gelu", OPEN_CLIP, HEADS,
      "{\"model_cfg\": {\"quick_gelu\": true, \"vision_cfg\": {}}}", NULL,
      "activation=quick_gelu" },
    { "open_clip: act_kwargs", OPEN_CLIP, HEADS,
      "{\"model_cfg\": {\"vision_cfg\": {\"act_kwargs\": {\"approximate\": \"tanh\"}}}}", NULL,
      "activation=gelu_tanh" },
    { "open_clip: PreprocessCfg", OPEN_CLIP, AT_224, "{\"model_cfg\": {\"vision_cfg\": {}}}", NULL,
      CLIP_IMAGES },
    { "JAX, as timm runs it", "jax/model.npz", "", NULL, NULL,
      "norm_eps=1e-6 activation=gelu pool=token num_heads=2" },
    { "JAX: ViT without a class token", "jax_gap/model.npz", "", NULL, NULL,
      "norm_eps=1e-6 activation=gelu pool=avg" },
    { "big_vision: MAPHead", "jax_map/model.npz", "", NULL, NULL,
      "norm_eps=1e-6 activation=gelu pool=map" },
    { "AIMv2: RMSNorm, SwiGLU", "aimv2/model.safetensors", HEADS, NULL, NULL,
      "norm_eps=1e-5 activation=silu norm_type=rms pool=avg has_gated_mlp=1" },
    { "AIMv2: its images", "aimv2/model.safetensors", AT_224, NULL, NULL, CLIP_IMAGES },
    { "BEiT-3: LayerNorm, gelu, mean", "beit3_classifier/model.safetensors", HEADS, NULL, NULL,
      "norm_eps=1e-5 activation=gelu pool=avg has_fc_norm=1" },
    { "BEiT-3: its images", "beit3_classifier/model.safetensors", AT_224, NULL, NULL,
      "crop_mode=center interpolation=bicubic " RESIZE(224) " " IMAGENET },
};

/* Tests the number of heads, which must follow from the width. These models are also wider than
 * those of the layouts. */
#define TIMM_TENSORS(width, wide3)                                                                 \
    "patch_embed.proj.weight " width ",3,1,1;patch_embed.proj.bias " width ";cls_token 1,1," width \
    ";pos_embed 1,2," width ";norm.weight " width ";norm.bias " width                              \
    ";blocks.0.norm1.weight " width ";blocks.0.norm1.bias " width ";blocks.0.norm2.weight " width  \
    ";blocks.0.norm2.bias " width ";blocks.0.attn.qkv.weight " wide3 "," width                     \
    ";blocks.0.attn.qkv.bias " wide3 ";blocks.0.attn.proj.weight " width "," width                 \
    ";blocks.0.attn.proj.bias " width ";blocks.0.mlp.fc1.weight 1," width                          \
    ";blocks.0.mlp.fc1.bias 1;blocks.0.mlp.fc2.weight " width ",1;blocks.0.mlp.fc2.bias " width
#define CLIP_TENSORS(width, wide3)                                                                 \
    "conv1.weight " width ",3,1,1;class_embedding " width ";positional_embedding 2," width         \
    ";proj " width ",1"                                                                            \
    ";ln_pre.weight " width ";ln_pre.bias " width ";ln_post.weight " width ";ln_post.bias " width  \
    ";transformer.resblocks.0.attn.in_proj_weight " wide3 "," width                                \
    ";transformer.resblocks.0.attn.in_proj_bias " wide3                                            \
    ";transformer.resblocks.0.attn.out_proj.weight " width "," width                               \
    ";transformer.resblocks.0.attn.out_proj.bias " width                                           \
    ";transformer.resblocks.0.ln_1.weight " width ";transformer.resblocks.0.ln_1.bias " width      \
    ";transformer.resblocks.0.ln_2.weight " width ";transformer.resblocks.0.ln_2.bias " width      \
    ";transformer.resblocks.0.mlp.c_fc.weight 1," width ";transformer.resblocks.0.mlp.c_fc.bias 1" \
    ";transformer.resblocks.0.mlp.c_proj.weight " width ",1"                                       \
    ";transformer.resblocks.0.mlp.c_proj.bias " width
#define AIMV2_TENSORS(width, wide3)                                                                \
    "preprocessor.patchifier.proj.weight " width ",3,1,1;preprocessor.patchifier.proj.bias " width \
    ";preprocessor.patchifier.norm.weight " width ";preprocessor.pos_embed 1,1," width             \
    ";trunk.blocks.0.norm_1.weight " width ";trunk.blocks.0.norm_2.weight " width                  \
    ";trunk.blocks.0.attn.qkv.weight " wide3 "," width ";trunk.blocks.0.attn.proj.weight " width   \
    "," width ";trunk.blocks.0.mlp.fc1.weight 2," width ";trunk.blocks.0.mlp.fc3.weight 2," width  \
    ";trunk.blocks.0.mlp.fc2.weight " width ",2;trunk.post_trunk_norm.weight " width

static const row heads[] = {
    { "timm: tiny", TIMM_TENSORS("192", "576"), "", NULL, NULL, "num_heads=3 head_dim=64" },
    { "timm: small", TIMM_TENSORS("384", "1152"), "", NULL, NULL, "num_heads=6" },
    { "timm: a layer before the head",
      TIMM_TENSORS("192", "576") ";pre_logits.fc.weight 384,192"
                                 ";pre_logits.fc.bias 384;head.weight 2,384;head.bias 2",
      "norm_eps=1e-6 activation=gelu pool=token", NULL, NULL, "representation_dim=384 pool=token" },
    { "a stage too many",
      TIMM_TENSORS("192", "576") ";patch_embed.backbone.stages.1000.blocks.0.conv1.weight 1", "",
      NULL, NULL, "!1 unknown tensor" },
    { "timm: no model so wide", TIMM_TENSORS("80", "240"), "", NULL, NULL,
      "!num_heads: the weights show no heads" },
    { "open_clip: head_width", CLIP_TENSORS("320", "960"), "",
      "{\"model_cfg\": {\"vision_cfg\": {}}}", NULL, "num_heads=5 head_dim=64" },
    { "AIMv2: 128 wide", AIMV2_TENSORS("384", "1152"), "", NULL, NULL, "num_heads=3 head_dim=128" },
};

/* === Files === */

static char folder[64];

static void path_of(char path[128], const char *name) {
    snprintf(path, 128, "%s/%s", folder, name);
}

static void write_text(const char *name, const char *text) {
    char path[128];
    FILE *file;
    path_of(path, name);
    unlink(path);
    if (!text) return;
    file = fopen(path, "wb");
    CHECK_MSG(file && fputs(text, file) >= 0, "%s", path);
    if (file) fclose(file);
}

/* Writes the tensors of a list such as "a 2,3;b 4" as a safetensors file. All values are zeros. */
static void write_list(const char *list, const char *path) {
    static const unsigned char zeros[65536];
    char header[8192], size[8];
    size_t used = 1, offset = 0;
    FILE *file = fopen(path, "wb");
    int i;
    strcpy(header, "{");
    for (; *list; list += *list == ';') {
        const size_t name = strcspn(list, " "), shape = strcspn(list, ";");
        size_t count = 4;
        const char *at;
        for (at = list + name; at < list + shape; at++)
            if (*at == ' ' || *at == ',') count *= strtoul(at + 1, NULL, 10);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"%.*s\":{\"dtype\":\"F32\",\"shape\":[%.*s],"
                                 "\"data_offsets\":[%zu,%zu]}",
                                 offset ? "," : "", (int)name, list, (int)(shape - name - 1),
                                 list + name + 1, offset, offset + count);
        offset += count;
        list += shape;
    }
    header[used++] = '}';
    for (i = 0; i < 8; i++) size[i] = (char)((uint64_t)used >> 8 * i);
    CHECK(file && fwrite(size, 1, 8, file) == 8 && fwrite(header, 1, used, file) == used);
    for (; file && offset > 0; offset -= offset < sizeof zeros ? offset : sizeof zeros)
        fwrite(zeros, 1, offset < sizeof zeros ? offset : sizeof zeros, file);
    if (file) fclose(file);
}

/* Writes a list of tensors to the folder, or makes a link to a checkpoint there. The name is always
 * the same, whatever the format of the file is. */
static void place_checkpoint(const char *data, const char *which) {
    char path[128], from[1024], absolute[1024];
    path_of(path, "model.ckpt");
    unlink(path);
    if (strchr(which, ';')) {
        write_list(which, path);
        return;
    }
    snprintf(from, sizeof from, "%s/layouts/%s", data, which);
    if (*from != '/' && getcwd(absolute, sizeof absolute)) {
        strncat(absolute, "/", sizeof absolute - strlen(absolute) - 1);
        strncat(absolute, from, sizeof absolute - strlen(absolute) - 1);
    } else {
        strcpy(absolute, from);
    }
    CHECK_MSG(symlink(absolute, path) == 0, "%s", absolute);
}

/* === Checks === */

static double field_of(const vit_config *c, const char *name) {
#define X(type, field, kind, smallest, largest)                                                    \
    if (!strcmp(name, #field)) return (double)c->field;
    VIT_FIELD_LIST(X)
#undef X
    return -1;
}

/* Tests each field of config.json and preprocessor_config.json that can change a result. The field
 * gets an unusual value, which must change a setting or lead to a refusal that names the field. */
#define FIELD(text) "{\"model_type\": \"vit\", " text "}"
#define PLAIN       "activation=gelu norm_eps=1e-12 head_activation=softmax has_qkv_bias=1 " VIT_IMAGES

static const row fields[] = {
    { "layer_norm_eps", HF_VIT, HEADS, FIELD("\"layer_norm_eps\": 1e-7"), NULL, "norm_eps=1e-7" },
    { "layer_norm_eps", HF_VIT, HEADS, FIELD("\"layer_norm_eps\": 0"), NULL, "!layer_norm_eps" },
    { "layer_norm_eps", HF_VIT, HEADS, FIELD("\"layer_norm_eps\": \"1e-12\""), NULL,
      "!layer_norm_eps: expected a number above 0" },
    { "rms_norm_eps", "hf_aimv2/model.safetensors", HEADS,
      "{\"model_type\": \"aimv2\", \"vision_config\": {\"rms_norm_eps\": 1e-7}}", NULL,
      "norm_eps=1e-7" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"gelu_new\""), NULL,
      "activation=gelu_tanh" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"gelu_pytorch_tanh\""), NULL,
      "activation=gelu_tanh" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"gelu_fast\""), NULL,
      "activation=gelu_tanh" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"gelu_python\""), NULL,
      "activation=gelu" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"quick_gelu\""), NULL,
      "activation=quick_gelu" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"relu\""), NULL, "activation=relu" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"swish\""), NULL, "activation=silu" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"selu\""), NULL, "!hidden_act selu" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": \"gelu_10\""), NULL,
      "!hidden_act gelu_10" },
    { "hidden_act", HF_VIT, HEADS, FIELD("\"hidden_act\": 1"), NULL, "!hidden_act: expected" },
    { "use_swiglu_ffn", HF_VIT, HEADS, FIELD("\"use_swiglu_ffn\": 1"), NULL, "!use_swiglu_ffn" },
    { "pooler_act", "hf_vit_pooler/model.safetensors", HEADS, FIELD("\"pooler_act\": \"relu\""),
      NULL, "representation_act=relu" },
    { "pooler_act", "hf_vit_pooler/model.safetensors", HEADS, FIELD("\"pooler_act\": \"selu\""),
      NULL, "!pooler_act selu" },
    { "pooler_act", "hf_vit_pooler/model.safetensors", HEADS, FIELD("\"pooler_act\": 1"), NULL,
      "!pooler_act ?" },
    { "pooler_act without a pooler", HF_VIT, AT_224, FIELD("\"pooler_act\": \"relu\""), NULL,
      PLAIN },
    { "qkv_bias", HF_VIT, HEADS, FIELD("\"qkv_bias\": false"), NULL, "!qkv_bias" },
    { "qkv_bias", HF_VIT, HEADS, FIELD("\"qkv_bias\": 0"), NULL, "!qkv_bias: expected true or" },
    { "hidden_size", HF_VIT, HEADS, FIELD("\"hidden_size\": 16"), NULL, "!embed_dim" },
    { "num_hidden_layers", HF_VIT, HEADS, FIELD("\"num_hidden_layers\": 3"), NULL, "!depth" },
    { "num_attention_heads", HF_VIT, "", FIELD("\"num_attention_heads\": 4"), NULL,
      "num_heads=4 head_dim=2" },
    { "intermediate_size", HF_VIT, HEADS, FIELD("\"intermediate_size\": 16"), NULL, "!mlp_dim" },
    { "num_channels", HF_VIT, HEADS, FIELD("\"num_channels\": 1"), NULL, "!in_chans" },
    { "num_channels", HF_VIT, HEADS, FIELD("\"num_channels\": \"3\""), NULL, "!num_channels" },
    { "image_size", HF_VIT, HEADS, FIELD("\"image_size\": 6"), NULL, "!img_size 6x6" },
    { "image_size", HF_VIT, HEADS, FIELD("\"image_size\": [2, 8]"), NULL,
      "img_height=2 img_width=8" },
    { "image_size", HF_VIT, HEADS, FIELD("\"image_size\": [4]"), NULL, "!image_size: expected" },
    { "patch_size", HF_VIT, HEADS, FIELD("\"patch_size\": 4"), NULL, "!patch_size" },
    { "patch_size", HF_VIT, HEADS, FIELD("\"patch_size\": [2, 4]"), NULL, "!patch_size: expected" },
    { "problem_type", HF_VIT, HEADS, FIELD("\"problem_type\": \"multi_label_classification\""),
      NULL, "head_activation=sigmoid" },
    { "problem_type", HF_VIT, HEADS, FIELD("\"problem_type\": \"single_label_classification\""),
      NULL, "head_activation=softmax" },
    { "problem_type", HF_VIT, HEADS, FIELD("\"problem_type\": \"ranking\""), NULL,
      "!problem_type ranking: expected single_label_classification, regression or multi_label" },
    { "problem_type", HF_VIT, HEADS, FIELD("\"problem_type\": 1"), NULL, "!problem_type ?" },
    { "problem_type without a head", "hf_vit_pooler/model.safetensors", HEADS,
      FIELD("\"problem_type\": \"multi_label_classification\""), NULL,
      "head_activation=softmax num_classes=0" },
    { "problem_type, head dropped", HF_VIT, HEADS " num_classes=0",
      FIELD("\"problem_type\": \"multi_label_classification\""), NULL, "num_classes=0" },
    { "num_labels 1", HF_VIT, HEADS, FIELD("\"num_labels\": 1"), NULL, "head_activation=sigmoid" },
    { "id2label", HF_VIT, HEADS, FIELD("\"id2label\": {\"0\": \"a\"}"), NULL,
      "!1 labels for 5 classes" },
    { "id2label", HF_VIT, HEADS, FIELD("\"id2label\": [\"a\", \"b\"]"), NULL,
      "!id2label: expected an object" },
    { "id2label", HF_VIT, HEADS, FIELD("\"id2label\": {\"1\": \"a\"}"), NULL,
      "!id2label: expected the classes 0 to 0" },
    { "quantization_config", HF_VIT, HEADS,
      FIELD("\"quantization_config\": {\"load_in_8bit\": true}"), NULL, "!quantization_config" },
    { "pruned_heads", HF_VIT, HEADS, FIELD("\"pruned_heads\": {\"0\": [1]}"), NULL,
      "!pruned_heads" },
    { "rope_theta", "hf_dinov3/model.safetensors", HEADS " img_size=4",
      "{\"model_type\": \"dinov3_vit\", \"rope_theta\": \"100\"}", NULL, "!rope_theta" },
    { "fields without an effect", HF_VIT, AT_224,
      FIELD("\"architectures\": [\"ViTForImageClassification\"], \"encoder_stride\": 8, "
            "\"hidden_dropout_prob\": 0.5, \"attention_probs_dropout_prob\": 0.5, "
            "\"initializer_range\": 1, \"pooler_output_size\": 4, \"pruned_heads\": {}, "
            "\"label2id\": {\"a\": 3}, \"torch_dtype\": \"float32\", \"qkv_bias\": null, "
            "\"transformers_version\": \"4.36.2\""),
      "{\"do_convert_rgb\": false, \"data_format\": \"channels_last\", \"do_pad\": false, "
      "\"model_input_names\": [\"pixel_values\"], \"size_divisor\": null}",
      PLAIN },
    { "do_resize", HF_VIT, AT_224, TYPE("vit"), "{\"do_resize\": 1}", "!do_resize: expected" },
    { "do_rescale", HF_VIT, AT_224, TYPE("vit"), "{\"do_rescale\": 0}", "!do_rescale: expected" },
    { "do_normalize", HF_VIT, AT_224, TYPE("vit"), "{\"do_normalize\": \"no\"}",
      "!do_normalize: expected true or false" },
    { "do_center_crop", HF_VIT, AT_224, TYPE("vit"), "{\"do_center_crop\": 0}",
      "!do_center_crop: expected true or false" },
    { "rescale_factor 1/127.5", HF_VIT, AT_224, TYPE("vit"),
      "{\"rescale_factor\": 0.00784313725490196, \"image_mean\": 1, \"image_std\": 0.5}",
      "mean=0.5 std=0.25" },
    { "rescale_factor 0", HF_VIT, AT_224, TYPE("vit"), "{\"rescale_factor\": 0}",
      "!rescale_factor: expected a number above 0" },
    { "rescale_factor \"1\"", HF_VIT, AT_224, TYPE("vit"), "{\"rescale_factor\": \"1\"}",
      "!rescale_factor: expected a number above 0" },
    { "offset", HF_VIT, AT_224, TYPE("vit"), "{\"offset\": true}",
      "!offset: this field is unknown" },
    { "resample 1", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": 1}", "!resample 1 (lanczos)" },
    { "resample 4", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": 4}", "!resample 4 (box)" },
    { "resample 5", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": 5}", "!resample 5 (hamming)" },
    { "resample \"bicubic\"", HF_VIT, AT_224, TYPE("vit"), "{\"resample\": \"bicubic\"}",
      "!resample -1 (unknown)" },
    { "size {longest_edge}", HF_CLIP, AT_224, TYPE("clip"),
      "{\"size\": {\"shortest_edge\": 224, \"longest_edge\": 300}}", "!size: expected n, {he" },
    { "size {max_height}", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": {\"max_height\": 224, \"max_width\": 224}}", "!size: expected n, {height" },
    { "size {shortest_edge, height}", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": {\"shortest_edge\": 224, \"height\": 224}}", "!size: expected n, {height" },
    { "size {shortest_edge} without a crop", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": {\"shortest_edge\": 224}}", "!do_center_crop false: a size for the shorter" },
    { "default_to_square", HF_VIT, AT_224, TYPE("vit"),
      "{\"size\": 256, \"default_to_square\": false, \"do_center_crop\": true, \"crop_size\": 224}",
      "crop_mode=center " RESIZE(256) },
    { "default_to_square", HF_VIT, AT_224, TYPE("vit"), "{\"default_to_square\": 0}",
      "!default_to_square: expected true or false" },
    { "crop_size of another shape", HF_VIT, AT_224, TYPE("vit"),
      "{\"do_center_crop\": true, \"crop_size\": {\"height\": 224, \"width\": 192}}",
      "!crop_size 224x192, size 224x224: this version" },
    { "an oblong size", HF_VIT, HEADS, TYPE("vit"), "{\"size\": {\"height\": 2, \"width\": 6}}",
      "img_height=2 img_width=6 crop_mode=squash" },
    { "a size other than image_size", HF_DINOV2, HEADS, TYPE("dinov2"),
      "{\"image_processor_type\": \"BitImageProcessor\", \"size\": {\"shortest_edge\": 8}, "
      "\"crop_size\": {\"height\": 6, \"width\": 6}}",
      "img_height=6 img_width=6 " RESIZE(8) },
    { "--img-size before a size", HF_VIT, HEADS " img_size=4", TYPE("vit"), "{\"size\": 6}",
      "img_height=4 img_width=4" },
    { "crop_pct", HF_VIT, AT_224, TYPE("vit"), "{\"crop_pct\": 0.9}", "!crop_pct: this field" },
    { "do_pad", HF_VIT, AT_224, TYPE("vit"), "{\"do_pad\": true}", "!do_pad: this field is un" },
    { "size_divisor", HF_VIT, AT_224, TYPE("vit"), "{\"size_divisor\": 32}",
      "!size_divisor: this" },
    { "do_flip_channel_order", HF_VIT, AT_224, TYPE("vit"), "{\"do_flip_channel_order\": true}",
      "!do_flip_channel_order: this field is unknown, and may change the input" },
    { "image_mean of another number", HF_VIT, AT_224, TYPE("vit"), "{\"image_mean\": [0.5, 0.4]}",
      "!mean" },
    { "image_processor_type", HF_VIT, AT_224, TYPE("vit"), "{\"image_processor_type\": 1}",
      "!?: the steps of this image processor are unknown" },
    { "feature_extractor_type", HF_VIT, AT_224, TYPE("vit"),
      "{\"feature_extractor_type\": \"ConvNextFeatureExtractor\"}",
      "!ConvNextFeatureExtractor: the steps of this image processor are unknown" },
    { "Siglip2's keeps the aspect", HF_SIGLIP, AT_224, TOWER("siglip2"),
      "{\"image_processor_type\": \"Siglip2ImageProcessor\", \"max_num_patches\": 256}",
      "crop_mode=aspect interpolation=bilinear pos_resample=naflex " HALF },
};

static bool vector_is(const float *values, const double *expected, int count) {
    int i;
    for (i = 0; i < 3; i++)
        if (values[i] != (float)expected[count == 1 ? 0 : i]) return false;
    return true;
}

/* Compares one setting, such as "norm_eps=1e-6", with the configuration. */
static void check_setting(const row *t, const vit_config *c, const char *assignment) {
    char name[64];
    report r = report_make();
    settings expected;
    int key;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(assignment, "="), assignment);
    /* This field follows from settings, but is not itself a setting. */
    if (!strncmp(name, "rope", 4)) {
        CHECK_MSG(field_of(c, name) == strtod(strchr(assignment, '=') + 1, NULL),
                  "%s: expected %s, found %g", t->source, assignment, field_of(c, name));
        return;
    }
    settings_start(&expected, "the table");
    CHECK_MSG(settings_parse(&expected, assignment, &r), "%s: %s", t->source, r.text);
    if (expected.mean_count > 0)
        CHECK_MSG(vector_is(c->mean, expected.mean, expected.mean_count), "%s: %s", t->source,
                  assignment);
    if (expected.std_count > 0)
        CHECK_MSG(vector_is(c->std, expected.std, expected.std_count), "%s: %s", t->source,
                  assignment);
    for (key = 0; key < SETTING_COUNT; key++)
        if (expected.given[key])
            CHECK_MSG((float)field_of(c, name) == (float)expected.value[key],
                      "%s: expected %s, found %g", t->source, assignment, field_of(c, name));
}

static void check_settings(const row *t, const vit_config *c) {
    const char *at;
    for (at = t->expected; *at; at += strcspn(at, " "), at += *at == ' ') {
        char assignment[128];
        snprintf(assignment, sizeof assignment, "%.*s", (int)strcspn(at, " "), at);
        check_setting(t, c, assignment);
    }
}

static bool parse_options(const char *options, settings *s, report *r) {
    char text[256], *word;
    snprintf(text, sizeof text, "%s", options);
    settings_start(s, "--set");
    for (word = strtok(text, " "); word; word = strtok(NULL, " "))
        if (!settings_parse(s, word, r)) return false;
    settings_put(s, SETTING_SELFTEST_TOLERANCE, 0);
    return true;
}

static void check_row(const char *data, const row *t) {
    char input[128], output[128];
    report r = report_make();
    convert_options options;
    conversion *c = calloc(1, sizeof *c);
    bool good;
    if (!c) return;
    memset(&options, 0, sizeof options);
    path_of(input, "model.ckpt");
    path_of(output, "model.vit");
    options.checkpoint = input;
    options.output = output;
    options.quiet = true;
    place_checkpoint(data, t->checkpoint);
    write_text("config.json", t->config);
    write_text("preprocessor_config.json", t->preprocessor);
    good = parse_options(t->options, &options.given, &r) && convert_run(&options, c, &r);
    if (*t->expected == '!')
        CHECK_MSG(!good && strstr(r.text, t->expected + 1), "%s: expected \"%s\", found %s",
                  t->source, t->expected + 1, good ? "a model" : r.text);
    else CHECK_MSG(good, "%s: %s", t->source, r.text);
    if (good) check_settings(t, &c->blueprint.model.config);
    convert_free(c);
    free(c);
}

static void check_rows(const char *data, const row *rows, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) check_row(data, &rows[i]);
}

static void remove_folder(void) {
    static const char *const names[] = {
        "model.ckpt",
        "model.vit",
        "config.json",
        "preprocessor_config.json",
    };
    char path[128];
    size_t i;
    for (i = 0; i < COUNT(names); i++) {
        path_of(path, names[i]);
        unlink(path);
    }
    CHECK(rmdir(folder) == 0);
}

int main(int argc, char **argv) {
    const char *data = argc > 1 ? argv[1] : "tests/data";
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vitXXXXXX" : "/tmp/vitXXXXXX");
    if (!mkdtemp(folder)) {
        CHECK_MSG(false, "no folder to write in");
        return test_summary();
    }
    check_rows(data, transformers, COUNT(transformers));
    check_rows(data, image_processors, COUNT(image_processors));
    check_rows(data, fields, COUNT(fields));
    check_rows(data, others, COUNT(others));
    check_rows(data, heads, COUNT(heads));
    remove_folder();
    return test_summary();
}
