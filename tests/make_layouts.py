#!/usr/bin/python3
"""Writes tests/data/layouts: one tiny model under the names of each library.

    /usr/bin/python3 tests/make_layouts.py        (Debian: python3-torch, python3-numpy)

For authoring only: its output is committed, and the test needs no Python. Each case is a
folder with a checkpoint as the library saves it, its configuration files, and a line in cases.txt:

    case | checkpoint | arguments of vit-convert | twin | arguments for the twin

A twin has the same numbers under the names of a .vit file; this script does every sum, product and
permutation in NumPy. tests/test_layouts.sh converts both and requires equal tensors and settings.
If the file must be refused, the line has the message in place of the twin. If a library
uses a module of PyTorch, that module writes the checkpoint; otherwise the keys are those of the
library's documented checkpoints.
"""
import json
import math
import os
import shutil
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import torch

import make_libraries as libraries

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "layouts")
D, HEADS, HEAD, DEPTH, PATCH, CHANS, GRID, MLP, CLASSES = 8, 2, 4, 2, 2, 3, 2, 12, 5
PATCHES = GRID * GRID
cases = []
twins = {}


# === The model in the names of a .vit file ===

class Numbers:
    """Random numbers whose lower half is zero, so that bfloat16 holds them too."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)

    def __call__(self, *shape):
        x = (self.random.standard_normal(shape) * 0.5).astype("<f4")
        return (x.view("<u4") & 0xFFFF0000).view("<f4")


def put2(t, name, weight, bias, n):
    t[name + ".weight"] = n(*weight)
    if bias:
        t[name + ".bias"] = n(weight[0])


def model(cls=True, dist=False, reg=0, pos="all", patch_bias=True, patch_norm=False, pre_norm=False,
          rms=False, qkv_bias=True, qk_norm=False, attn_norm=False, proj_bias=True, ls=False,
          gated=False, mlp_norm=False, final_norm=True, pool="token", fc_norm=False, rep=0,
          classes=CLASSES, head_dist=None, patch_pre_norm=False, seed=1):
    n, t, norm = Numbers(seed), OrderedDict(), not rms
    prefix = int(cls) + int(dist) + reg
    if cls: t["cls_token"] = n(1, 1, D)
    if dist: t["dist_token"] = n(1, 1, D)
    if reg: t["reg_token"] = n(1, reg, D)
    t["pos_embed"] = n(1, PATCHES + (prefix if pos == "all" else 0), D)
    if patch_pre_norm:
        for part in (".weight", ".bias"):
            t["patch_embed.pre_norm" + part] = n(CHANS, PATCH, PATCH)
    t["patch_embed.proj.weight"] = n(D, CHANS, PATCH, PATCH)
    if patch_bias: t["patch_embed.proj.bias"] = n(D)
    if patch_norm: put2(t, "patch_embed.norm", (D,), norm, n)
    if pre_norm: put2(t, "norm_pre", (D,), norm, n)
    for i in range(DEPTH):
        b = "blocks.%d." % i
        put2(t, b + "norm1", (D,), norm, n)
        put2(t, b + "attn.qkv", (3 * D, D), qkv_bias, n)
        if qk_norm:
            put2(t, b + "attn.q_norm", (HEAD,), norm, n)
            put2(t, b + "attn.k_norm", (HEAD,), norm, n)
        if attn_norm: put2(t, b + "attn.norm", (D,), norm, n)
        put2(t, b + "attn.proj", (D, D), proj_bias, n)
        if ls: t[b + "ls1.gamma"] = n(D)
        put2(t, b + "norm2", (D,), norm, n)
        put2(t, b + "mlp.fc1", (2 * MLP if gated else MLP, D), proj_bias, n)
        if mlp_norm: put2(t, b + "mlp.norm", (MLP,), norm, n)
        put2(t, b + "mlp.fc2", (D, MLP), proj_bias, n)
        if ls: t[b + "ls2.gamma"] = n(D)
    if final_norm: put2(t, "norm", (D,), norm, n)
    if pool == "map":
        t["attn_pool.q"] = None          # made by map_pool()
        t["_latent"], t["_q.weight"], t["_q.bias"] = n(1, 1, D), n(D, D), n(D)
        t["attn_pool.q"] = linear(t["_latent"].ravel(), t["_q.weight"], t["_q.bias"])
        put2(t, "attn_pool.kv", (2 * D, D), True, n)
        put2(t, "attn_pool.proj", (D, D), True, n)
        put2(t, "attn_pool.norm", (D,), norm, n)
        put2(t, "attn_pool.mlp.fc1", (MLP, D), True, n)
        put2(t, "attn_pool.mlp.fc2", (D, MLP), True, n)
    if fc_norm: put2(t, "fc_norm", (D,), norm, n)
    if rep: put2(t, "pre_logits.fc", (rep, D), True, n)
    width = rep or (2 * D if pool == "token_avg" else D)
    if classes: put2(t, "head", (classes, width), True, n)
    if classes and dist: put2(t, "head_dist", (classes, width), True, n)
    return t


def linear(x, weight, bias):
    """Adds one product after the other in double precision, and rounds once."""
    out = []
    for row, b in zip(weight, bias):
        total = 0.0
        for a, w in zip(x, row):
            total += float(a) * float(w)
        out.append(np.float32(total + float(b)))
    return np.array(out, "<f4")


# === Files ===

def safetensors(path, tensors):
    header, data = OrderedDict(), b""
    for name, x in tensors.items():
        x = np.array(x, "<f4", order="C")   # 0-dimensional arrays stay so
        header[name] = {"dtype": "F32", "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def npz(path, tensors, compressed=False):
    """As numpy.savez does, but with a fixed time, so that two runs write the same bytes."""
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, x in tensors.items():
            entry = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = kind
            with archive.open(entry, "w", force_zip64=True) as f:
                np.lib.format.write_array(f, x, allow_pickle=False)


def bfloat16(x):
    return np.ascontiguousarray((x.view("<u4") >> 16).astype("<u2")).view("V2")


def folder(case):
    path = os.path.join(OUT, case)
    os.makedirs(path, exist_ok=True)
    return path


def write_twin(name, tensors):
    kept = OrderedDict((k, v) for k, v in tensors.items() if not k.startswith("_"))
    if name in twins:
        assert all(np.array_equal(kept[k], twins[name][k]) for k in kept), name
        return
    twins[name] = kept
    safetensors(os.path.join(folder("twins"), name + ".safetensors"), kept)


COMMON = "norm_eps=%s activation=%s num_heads=2"


def case(name, source, tensors, twin, options="", eps="1e-6", act="gelu", twin_options="",
         config=None, preprocessor=None, write=safetensors, suffix="safetensors"):
    """tensors: the model as the .vit file has it, or the message of a refusal."""
    path = folder(name)
    file = "model." + suffix
    write(os.path.join(path, file), source)
    for content, json_file in ((config, "config.json"),
                               (preprocessor, "preprocessor_config.json")):
        if content:
            with open(os.path.join(path, json_file), "w") as f:
                json.dump(content, f, indent=1)
    if isinstance(tensors, str):
        cases.append("%s | %s | %s | | %s" % (name, file, options, tensors))
        return
    write_twin(twin, tensors)
    settings = [s for s in (COMMON % (eps, act) + " " + twin_options).split()]
    cases.append("%s | %s | %s | %s | %s" % (name, file, options, twin,
                                             " ".join("--set " + s for s in settings)))


def pth(path, state):
    torch.save(state, path)


def as_torch(tensors):
    return OrderedDict((k, torch.from_numpy(np.array(v))) for k, v in tensors.items())


# === Renaming ===

def third(x, i):
    n = len(x) // 3
    return x[i * n:(i + 1) * n]


def move(source, to, t, name):
    """Weight and bias, if any, of a layer."""
    for part in (".weight", ".bias"):
        if name + part in t:
            source[to + part] = t[name + part]


def split_qkv(source, to, t, name, names):
    for i, q in enumerate(names):
        for part in (".weight", ".bias"):
            if name + part in t:
                source[to + q + part] = third(t[name + part], i)


NAMES = ("query", "key", "value")
IMAGENET = "mean=0.485,0.456,0.406 std=0.229,0.224,0.225 "
LABELS = {str(i): "class %d" % i for i in (0, 1, 10, 2, 3, 4) if i < CLASSES}


# === Hugging Face transformers ===

def hf_vit(t, prefix, classifier="classifier", dist="dist_token"):
    s = OrderedDict()
    e = prefix + "embeddings."
    if "cls_token" in t: s[e + "cls_token"] = t["cls_token"]
    if dist in t: s[e + "distillation_token"] = t[dist]
    s[e + "position_embeddings"] = t["pos_embed"]
    move(s, e + "patch_embeddings.projection", t, "patch_embed.proj")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, prefix + "encoder.layer.%d." % i
        split_qkv(s, to + "attention.attention.", t, b + "attn.qkv", NAMES)
        move(s, to + "attention.output.dense", t, b + "attn.proj")
        move(s, to + "intermediate.dense", t, b + "mlp.fc1")
        move(s, to + "output.dense", t, b + "mlp.fc2")
        move(s, to + "layernorm_before", t, b + "norm1")
        move(s, to + "layernorm_after", t, b + "norm2")
    move(s, prefix + "layernorm", t, "norm")
    move(s, prefix + "pooler.dense", t, "pre_logits.fc")
    move(s, classifier, t, "head")
    move(s, "distillation_classifier", t, "head_dist")
    return s


def hf_config(kind, **more):
    config = {"model_type": kind, "hidden_size": D, "num_hidden_layers": DEPTH,
              "num_attention_heads": HEADS, "image_size": GRID * PATCH, "patch_size": PATCH,
              "num_channels": CHANS, "qkv_bias": True, "hidden_act": "gelu"}
    if kind != "dinov2" and kind != "dinov2_with_registers": config["intermediate_size"] = MLP
    config.update(more)
    return config


VIT_PROCESSOR = {"do_normalize": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5],
                 "image_std": [0.5, 0.5, 0.5], "resample": 2, "size": GRID * PATCH}
SQUASH = "crop_mode=squash crop_pct=1 "
DOWN = " crop_rounding=down"   # transformers' way to crop
CLIP_CROP = ("mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711 "
             "crop_pct=1")
OWN_SIZE = SQUASH + "interpolation=bilinear "
TUTORIAL = OWN_SIZE + "mean=0 std=1 "


def write_hf():
    t = model()
    case("hf_vit", hf_vit(t, "vit."), t, "plain", eps="1e-12",
         config=hf_config("vit", id2label=LABELS), preprocessor=VIT_PROCESSOR,
         twin_options=SQUASH + "interpolation=bilinear mean=0.5 std=0.5")
    s = hf_vit(model(rep=D, classes=0), "")
    case("hf_vit_pooler", s, model(rep=D, classes=0), "pooler", "--set num_heads=2", eps="1e-12")
    t = model(dist=True)
    case("hf_deit_distilled", hf_vit(t, "deit.", "cls_classifier"), t, "dist", "--img-size 4", eps="1e-12",
         config=hf_config("deit"),
         preprocessor={"size": {"height": 256, "width": 256}, "do_center_crop": True,
                       "crop_size": {"height": 224, "width": 224}, "resample": 3,
                       "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
         twin_options=IMAGENET + "crop_mode=squash crop_pct=0.875" + DOWN)
    t = model(reg=1)
    case("hf_deit_one_head", hf_vit(t, "deit.", dist="reg_token"), t, "one_register",
         "--set num_heads=2", eps="1e-12", twin_options="positions=all")
    t = model(cls=False, classes=0)
    case("hf_ijepa", hf_vit(t, ""), t, "ijepa", eps="1e-12", config=hf_config("ijepa"),
         twin_options="pool=avg " + SQUASH + "interpolation=bilinear")
    s = hf_vit(model(classes=0), "vit.")
    s["vit.embeddings.mask_token"] = s["decoder.mask_token"] = np.zeros((1, 1, D), "f4")
    s["decoder.decoder_layers.0.layernorm_before.weight"] = np.zeros(3, "f4")
    case("hf_mae", s, model(classes=0), "bare", "--set num_heads=2", eps="1e-12")
    lanczos = dict(VIT_PROCESSOR, resample=1)
    case("hf_lanczos", s, "resample 1 (lanczos): this version of vit.h resizes by bilinear", None,
         config=hf_config("vit"), preprocessor=lanczos)
    case("hf_no_resize", s, "do_resize false", None, config=hf_config("vit"),
         preprocessor=dict(VIT_PROCESSOR, do_resize=False))
    s = hf_vit(model(), "vit.")
    del s["vit.encoder.layer.1.attention.attention.key.weight"]
    case("hf_missing", s, "vit.encoder.layer.1.attention.attention.key.weight is missing: other "
         "blocks have it", None, "--set num_heads=2")
    s = hf_vit(model(), "vit.")
    s["vit.encoder.layer.1.attention.attention.key.weight"] = np.zeros((D, D + 1), "f4")
    case("hf_misshapen", s, "vit.encoder.layer.1.attention.attention.key.weight [8, 9] does not "
         "fit blocks.1.attn.qkv.weight [24, 8]", None, "--set num_heads=2")


def hf_dinov2(t, prefix, pos, cls):
    s = OrderedDict()
    e = prefix + "embeddings."
    s[e + "cls_token"] = cls
    s[e + "mask_token"] = np.zeros((1, D), "f4")
    if "reg_token" in t: s[e + "register_tokens"] = t["reg_token"]
    s[e + "position_embeddings"] = pos
    move(s, e + "patch_embeddings.projection", t, "patch_embed.proj")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, prefix + "encoder.layer.%d." % i
        move(s, to + "norm1", t, b + "norm1")
        split_qkv(s, to + "attention.attention.", t, b + "attn.qkv", NAMES)
        move(s, to + "attention.output.dense", t, b + "attn.proj")
        s[to + "layer_scale1.lambda1"] = t[b + "ls1.gamma"]
        move(s, to + "norm2", t, b + "norm2")
        gated = len(t[b + "mlp.fc1.weight"]) == 2 * MLP
        move(s, to + ("mlp.weights_in" if gated else "mlp.fc1"), t, b + "mlp.fc1")
        move(s, to + ("mlp.weights_out" if gated else "mlp.fc2"), t, b + "mlp.fc2")
        s[to + "layer_scale2.lambda1"] = t[b + "ls2.gamma"]
    move(s, prefix + "layernorm", t, "norm")
    move(s, "classifier", t, "head")
    return s


def with_registers():
    """The class token already contains its position; only the patches still have positions."""
    t = model(reg=4, pos="patches", ls=True, classes=0, seed=3)
    n = Numbers(4)
    cls, first = n(1, 1, D), n(1, 1, D)
    t["cls_token"] = (cls + first).astype("<f4")
    return t, cls, np.concatenate([first, t["pos_embed"]], 1)


def write_dinov2():
    t = model(ls=True, pool="token_avg", seed=2)
    processor = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224},
                 "do_center_crop": True, "do_resize": True, "do_rescale": True, "resample": 3,
                 "rescale_factor": 0.00392156862745098,
                 "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    case("hf_dinov2", hf_dinov2(t, "dinov2.", t["pos_embed"], t["cls_token"]), t, "dinov2", "--img-size 4",
         config=hf_config("dinov2", mlp_ratio=1.5, use_swiglu_ffn=False), preprocessor=processor,
         twin_options=IMAGENET + "crop_pct=0.875" + DOWN)
    t, cls, pos = with_registers()
    case("hf_dinov2_reg", hf_dinov2(t, "", pos, cls), t, "registers",
         config=hf_config("dinov2_with_registers", num_register_tokens=4),
         twin_options=IMAGENET + "crop_pct=0.875" + DOWN)
    # Depth Anything: the backbone; its decoder is dropped
    decoder = {"neck.reassemble_stage.layers.0.projection.weight": np.zeros((2, D, 1, 1), "f4"),
               "head.conv1.weight": np.zeros((1, 2, 3, 3), "f4")}
    s = OrderedDict(("backbone." + k, v) for k, v in hf_dinov2(t, "", pos, cls).items())
    s.update(decoder)
    case("hf_depth_anything", s, t, "registers",
         config={"model_type": "depth_anything",
                 "backbone_config": hf_config("dinov2", num_register_tokens=4)},
         twin_options=IMAGENET + "crop_pct=0.875" + DOWN)
    t = model(ls=True, classes=0, seed=2)
    s = OrderedDict(("pretrained." + k, v) for k, v in t.items())
    s["depth_head.projects.0.weight"] = np.zeros((2, D, 1, 1), "f4")
    s["depth_head.scratch.layer1_rn.weight"] = np.zeros((2, 2, 3, 3), "f4")
    told = "--set num_heads=2 --set activation=gelu --set pool=token"
    case("depth_anything", s, t, "depth_anything", told, twin_options="pool=token")
    t = model(ls=True, gated=True, classes=0, seed=5)
    case("hf_dinov2_giant", hf_dinov2(t, "", t["pos_embed"], t["cls_token"]), t, "swiglu",
         act="silu", config=hf_config("dinov2", use_swiglu_ffn=True),
         twin_options=IMAGENET + "crop_pct=0.875" + DOWN)


def hf_tower(t, prefix, map_pool=True):
    s = OrderedDict()
    e = prefix + "embeddings."
    if "cls_token" in t: s[e + "class_embedding"] = t["cls_token"].ravel()
    move(s, e + "patch_embedding", t, "patch_embed.proj")
    s[e + "position_embedding.weight"] = t["pos_embed"][0]
    move(s, prefix + "pre_layrnorm", t, "norm_pre")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, prefix + "encoder.layers.%d." % i
        split_qkv(s, to + "self_attn.", t, b + "attn.qkv", ("q_proj", "k_proj", "v_proj"))
        move(s, to + "self_attn.out_proj", t, b + "attn.proj")
        move(s, to + "layer_norm1", t, b + "norm1")
        move(s, to + "mlp.fc1", t, b + "mlp.fc1")
        move(s, to + "mlp.fc2", t, b + "mlp.fc2")
        move(s, to + "layer_norm2", t, b + "norm2")
    move(s, prefix + "post_layernorm", t, "norm")
    if "_latent" in t:
        h = prefix + "head."
        s[h + "probe"] = t["_latent"]
        s[h + "attention.in_proj_weight"] = np.concatenate([t["_q.weight"],
                                                            t["attn_pool.kv.weight"]])
        s[h + "attention.in_proj_bias"] = np.concatenate([t["_q.bias"], t["attn_pool.kv.bias"]])
        move(s, h + "attention.out_proj", t, "attn_pool.proj")
        move(s, h + "layernorm", t, "attn_pool.norm")
        move(s, h + "mlp.fc1", t, "attn_pool.mlp.fc1")
        move(s, h + "mlp.fc2", t, "attn_pool.mlp.fc2")
    return s


def clip_model(**more):
    return model(patch_bias=False, pre_norm=True, seed=6, **more)


def without_bias(t):
    t["head.bias"] = np.zeros_like(t["head.bias"])
    return t


def add_text(s, prefix=""):
    s[prefix + "text_model.embeddings.token_embedding.weight"] = np.zeros((3, D), "f4")
    s[prefix + "text_projection.weight"] = np.zeros((D, D), "f4")
    s[prefix + "logit_scale"] = np.array(2.0, "f4")


def write_towers():
    t = without_bias(clip_model())
    s = hf_tower(t, "vision_model.")
    s["vision_model.embeddings.position_ids"] = np.arange(PATCHES + 1).astype("f4")
    s["visual_projection.weight"] = t["head.weight"]
    add_text(s)
    vision = {"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS,
              "intermediate_size": MLP, "image_size": GRID * PATCH, "patch_size": PATCH}
    case("hf_clip", s, t, "clip", eps="1e-5", act="quick_gelu",
         config={"model_type": "clip", "vision_config": vision, "text_config": {}},
         preprocessor={"crop_size": 4, "do_center_crop": True, "do_resize": True, "resample": 3,
                       "size": 4, "image_mean": [0.48145466, 0.4578275, 0.40821073],
                       "image_std": [0.26862954, 0.26130258, 0.27577711]},
         twin_options=CLIP_CROP + DOWN)
    case("hf_clip_fast", s, t, "clip", eps="1e-5", act="quick_gelu",
         config={"model_type": "clip", "vision_config": vision, "text_config": {}},
         preprocessor={"image_processor_type": "CLIPImageProcessorFast",
                       "crop_size": {"height": 4, "width": 4}, "size": {"shortest_edge": 4}},
         twin_options=CLIP_CROP)
    case("hf_clip_no_config", s, "activation: not stored in a checkpoint of transformers "
         "CLIP; give --set activation=quick_gelu", None, "--set num_heads=2")
    t = clip_model(final_norm=False)
    s = hf_tower(t, "vision_model.")
    s["vision_model.post_layernorm.weight"] = s["vision_model.post_layernorm.bias"] = np.ones(D)
    move(s, "classifier", t, "head")
    case("hf_clip_classifier", s, t, "clip_mean", "--set num_heads=2 --set activation=gelu",
         eps="1e-5", twin_options="pool=avg has_final_norm=0")
    t = model(cls=False, pool="map", classes=0, seed=7)
    s = hf_tower(t, "vision_model.")
    add_text(s)
    s["logit_bias"] = np.array(1.0, "f4")
    case("hf_siglip", s, t, "map", act="gelu_tanh",
         config={"model_type": "siglip", "vision_config": vision},
         preprocessor={"size": {"height": 4, "width": 4}, "resample": 3, "do_rescale": True,
                       "rescale_factor": 1 / 127.5, "image_mean": [1, 1, 1],
                       "image_std": [1, 1, 1]}, twin_options=SQUASH + "mean=0.5 std=0.5")
    t = model(cls=False, seed=7)
    s = hf_tower(t, "vision_model.")
    move(s, "classifier", t, "head")
    case("hf_siglip_classifier", s, t, "gap", act="gelu_tanh", options="--set num_heads=2",
         twin_options="pool=avg")
    t = model(cls=False, pool="map", classes=0, seed=7)
    s = hf_tower(t, "vision_model.")
    s["vision_model.embeddings.patch_embedding.weight"] = (
        t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1))
    case("hf_siglip2_naflex", s, t, "map", act="gelu_tanh", options="--set num_heads=2")


# === torchvision, torch.nn, lucidrains ===

def torchvision(t, first, second, head):
    s = OrderedDict()
    s["class_token"] = t["cls_token"]
    move(s, "conv_proj", t, "patch_embed.proj")
    s["encoder.pos_embedding"] = t["pos_embed"]
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "encoder.layers.encoder_layer_%d." % i
        move(s, to + "ln_1", t, b + "norm1")
        attention = torch.nn.MultiheadAttention(D, HEADS, batch_first=True)
        with torch.no_grad():
            attention.in_proj_weight.copy_(torch.from_numpy(t[b + "attn.qkv.weight"]))
            attention.in_proj_bias.copy_(torch.from_numpy(t[b + "attn.qkv.bias"]))
            attention.out_proj.weight.copy_(torch.from_numpy(t[b + "attn.proj.weight"]))
            attention.out_proj.bias.copy_(torch.from_numpy(t[b + "attn.proj.bias"]))
        for k, v in attention.state_dict().items():
            s[to + "self_attention." + k] = v.numpy()
        move(s, to + "ln_2", t, b + "norm2")
        move(s, to + first, t, b + "mlp.fc1")
        move(s, to + second, t, b + "mlp.fc2")
    move(s, "encoder.ln", t, "norm")
    move(s, "heads.pre_logits", t, "pre_logits.fc")
    move(s, head, t, "head")
    return s


def write_torchvision():
    t = model()
    defaults = IMAGENET + "interpolation=bilinear crop_pct=0.875"
    case("torchvision", as_torch(torchvision(t, "mlp.0", "mlp.3", "heads.head")), t, "plain",
         "--set num_heads=2", twin_options=defaults, write=pth, suffix="pth")
    t = model(rep=6)
    case("torchvision_old", torchvision(t, "mlp.linear_1", "mlp.linear_2", "heads.head"), t,
         "rep", "--set num_heads=2", twin_options=defaults)


class EncoderViT(torch.nn.Module):
    """Models that people write around torch.nn.TransformerEncoder."""

    def __init__(self, norm_first, patch_bias):
        super().__init__()
        self.cls_token = torch.nn.Parameter(torch.zeros(1, 1, D))
        self.pos_embed = torch.nn.Parameter(torch.zeros(1, PATCHES + 1, D))
        self.patch_embed = torch.nn.Conv2d(CHANS, D, PATCH, PATCH, bias=patch_bias)
        layer = torch.nn.TransformerEncoderLayer(D, HEADS, MLP, norm_first=norm_first)
        norm = torch.nn.LayerNorm(D) if norm_first else None
        self.encoder = torch.nn.TransformerEncoder(layer, DEPTH, norm)
        self.head = torch.nn.Linear(D, CLASSES)


def encoder_names(t, layers, norm):
    s = OrderedDict((k, t[k]) for k in ("cls_token", "pos_embed"))
    move(s, "patch_embed", t, "patch_embed.proj")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, layers + "%d." % i
        s[to + "self_attn.in_proj_weight"] = t[b + "attn.qkv.weight"]
        s[to + "self_attn.in_proj_bias"] = t[b + "attn.qkv.bias"]
        move(s, to + "self_attn.out_proj", t, b + "attn.proj")
        move(s, to + "linear1", t, b + "mlp.fc1")
        move(s, to + "linear2", t, b + "mlp.fc2")
        move(s, to + "norm1", t, b + "norm1")
        move(s, to + "norm2", t, b + "norm2")
    move(s, norm, t, "norm")
    move(s, "head", t, "head")
    return s


def encoder_vit(t, norm_first, patch_bias=True):
    net = EncoderViT(norm_first, patch_bias)
    net.load_state_dict(as_torch(encoder_names(t, "encoder.layers.", "encoder.norm")))
    return net.state_dict()


def write_torch_nn():
    t = model(final_norm=False)
    s = encoder_vit(t, False)
    told = "--set num_heads=2 --set pool=token "
    case("torch_nn", s, t, "no_final_norm", told, eps="1e-5", act="relu", write=pth, suffix="pt",
         twin_options="block_type=post_norm pool=token has_final_norm=0 " + TUTORIAL)
    t = model()
    case("torch_nn_norm_first", encoder_vit(t, True), t, "plain", told + "--set "
         "block_type=pre_norm --set activation=gelu", eps="1e-5",
         twin_options="pool=token " + TUTORIAL, write=pth, suffix="pt")
    case("torch_nn_list", encoder_names(t, "body.", "norm"), t, "plain", told +
         "--set block_type=pre_norm --set activation=gelu", eps="1e-5",
         twin_options="pool=token " + TUTORIAL)
    write_own_stems()


def write_own_stems():
    """Patches times a bare matrix, a table longer than the sequence, names of one's own."""
    told = ("--set num_heads=2 --set pool=token --set block_type=post_norm --set activation=relu "
            "--img-size 4 --set pos_first_rows=1")
    t = model(final_norm=False, patch_bias=False, seed=14)
    net = libraries.EncoderViT("matrix", D, HEADS, MLP, DEPTH, CHANS, PATCH, GRID * PATCH, CLASSES,
                               rows=16)
    s = net.state_dict()
    for k, v in encoder_vit(t, False, False).items():
        if k.startswith("encoder."): s["transformer_" + k] = v
    s["cls_token"] = torch.from_numpy(t["cls_token"])
    s["patch_weight"] = torch.from_numpy(t["patch_embed.proj.weight"].reshape(D, -1).T.copy())
    s["position_embedding_table"][:PATCHES + 1] = torch.from_numpy(t["pos_embed"][0])
    for part in ("weight", "bias"):
        s["linear_layer." + part] = torch.from_numpy(t["head." + part])
    net.load_state_dict(s)
    case("torch_nn_matrix", s, t, "matrix", told, eps="1e-5", act="relu", write=pth, suffix="pt",
         twin_options="block_type=post_norm pool=token has_final_norm=0 has_patch_bias=0 "
         + TUTORIAL)
    for name, option, message in (
            ("rows", "--set pos_first_rows=1", "pos_embed has 16 rows; the 5 tokens of the "
             "input may use the first rows; give --set pos_first_rows=1"),
            ("size", "--img-size 4 ", "img_size: the input size decides how many rows of "
             "pos_embed the model uses; give --img-size HxW")):
        case("torch_nn_matrix_" + name, s, message, None, told.replace(option, ""), write=pth,
             suffix="pt")
    case("torch_nn_matrix_large", s, "pos_embed has 16 rows, but an input of 8x8 needs 17", None,
         told.replace("--img-size 4", "--img-size 8"), write=pth, suffix="pt")
    t = model()
    s = OrderedDict((k.replace("patch_embed.proj", "stem").replace("blocks.", "body.")
                     .replace("norm1", "first").replace("head", "answer"), v)
                    for k, v in t.items())
    names = ["stem.*=patch_embed.proj.*", "body.*.first.*=blocks.*.norm1.*", "body.*=blocks.*",
             "answer.*=head.*"]
    told = "--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu "
    case("renamed", s, t, "plain", told + " ".join("--rename " + n for n in names))
    separate = OrderedDict((k, v) for k, v in s.items() if "attn.qkv" not in k)
    separate["stem.weight"] = t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1)
    for i in range(DEPTH):
        split_qkv(separate, "body.%d.heads.w" % i, t, "blocks.%d.attn.qkv" % i, "qkv")
    case("renamed_separate", separate, t, "plain", told + "--set patch_order=hwc --rename "
         "body.*.heads.w*.*=blocks.*.attn.*.* " + " ".join("--rename " + n for n in names))
    for name, rename, message in (
            ("nothing", "stem*=patch*  --rename stim.*=patch.*", "--rename: no tensor, after the "
             "earlier rules, is called stim.* (the first tensor is cls_token)"),
            ("stars", "stem.*=patch_embed.proj", "--rename stem.*=patch_embed.proj: expected as "
             "many * on the right as on the left, and at most 8"),
            ("empty", "stem=", "--rename: expected THEIRS=OURS, found \"stem=\""),
            ("twice", "stem.bias=norm.bias", "duplicate tensor \"norm.bias\"")):
        case("renamed_" + name, s, message, None, told + "--rename " + rename)


def lucidrains(t):
    s = OrderedDict()
    s["pos_embedding"], s["cls_token"] = t["pos_embed"], t["cls_token"]
    s["to_patch_embedding.1.weight"] = (
        t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1))
    s["to_patch_embedding.1.bias"] = t["patch_embed.proj.bias"]
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "transformer.layers.%d." % i
        move(s, to + "0.norm", t, b + "norm1")
        move(s, to + "0.fn.to_qkv", t, b + "attn.qkv")
        move(s, to + "0.fn.to_out.0", t, b + "attn.proj")
        move(s, to + "1.norm", t, b + "norm2")
        move(s, to + "1.fn.net.0", t, b + "mlp.fc1")
        move(s, to + "1.fn.net.3", t, b + "mlp.fc2")
    move(s, "mlp_head.0", t, "fc_norm")
    move(s, "mlp_head.1", t, "head")
    return s


def write_lucidrains():
    t = model(qkv_bias=False, final_norm=False, fc_norm=True, seed=8)
    s = lucidrains(t)
    case("lucidrains", s, t, "lucidrains", "--set num_heads=2 --set pool=token", eps="1e-5",
         twin_options=OWN_SIZE + "pool=token pool_prefix=1")
    case("lucidrains_mean", s, t, "lucidrains", "--set heads=2 --set pool=avg", eps="1e-5",
         twin_options=OWN_SIZE + "pool=avg pool_prefix=1")
    write_lucidrains_2020()
    write_lucidrains_eras()


def lucidrains_2020(t, attn, mlp, out, fc2, head):
    """attn and mlp: paths of the branches of block i; head: places of its layers, but the last
    may be alone."""
    s = OrderedDict()
    s["pos_embedding"], s["cls_token"] = t["pos_embed"], t["cls_token"]
    s["patch_to_embedding.weight"] = (
        t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1))
    s["patch_to_embedding.bias"] = t["patch_embed.proj.bias"]
    for i in range(DEPTH):
        b = "blocks.%d." % i
        move(s, attn(i) + "norm", t, b + "norm1")
        move(s, attn(i) + "fn.to_qkv", t, b + "attn.qkv")
        move(s, attn(i) + "fn." + out, t, b + "attn.proj")
        move(s, mlp(i) + "norm", t, b + "norm2")
        move(s, mlp(i) + "fn.net.0", t, b + "mlp.fc1")
        move(s, mlp(i) + "fn." + fc2, t, b + "mlp.fc2")
    for place, name in zip(reversed(head), ("head", "pre_logits.fc", "fc_norm")):
        move(s, "mlp_head.%d" % place, t, name)
    return s


def write_lucidrains_2020():
    """Head and attention's scale of the library's version at the time."""
    def pair(i):
        return "transformer.layers.%d." % i

    def layers(t, out, fc2, head):
        return lucidrains_2020(t, lambda i: pair(i) + "0.fn.", lambda i: pair(i) + "1.fn.", out,
                               fc2, head)
    told = "--set num_heads=2"
    twin = "pool=token pool_prefix=1 attn_root=embed_dim representation_act=gelu"
    t = model(qkv_bias=False, final_norm=False, rep=5, seed=22)
    s = lucidrains_2020(t, lambda i: "transformer.net.%d.fn." % (2 * i),
                        lambda i: "transformer.net.%d.fn." % (2 * i + 1), "to_out", "net.2", (0, 2))
    case("lucidrains_first", s, t, "lucidrains_first", told, eps="1e-5",
         twin_options=OWN_SIZE + "pool=token attn_root=embed_dim representation_act=gelu "
         "has_final_norm=0")
    case("lucidrains_interleaved", s, t, "lucidrains_first", told + " --set patch_cut=interleaved",
         eps="1e-5", twin_options=OWN_SIZE + "pool=token attn_root=embed_dim representation_act=gelu "
         "has_final_norm=0 patch_cut=interleaved")
    s = layers(t, "to_out", "net.2", (0, 2))
    case("lucidrains_2020-10-07", s, t, "lucidrains_first", told, eps="1e-5",
         twin_options=OWN_SIZE + twin + " has_final_norm=0")
    t = model(qkv_bias=False, final_norm=False, fc_norm=True, rep=5, seed=23)
    s = layers(t, "to_out", "net.2", (0, 1, 3))
    case("lucidrains_2020-10-10", s, t, "lucidrains_2020", told, eps="1e-5", twin_options=OWN_SIZE + twin)
    s = layers(t, "to_out.0", "net.3", (0, 1, 4))
    case("lucidrains_2020-10-14", s, t, "lucidrains_2020", told, eps="1e-5", twin_options=OWN_SIZE + twin)
    t = model(qkv_bias=False, final_norm=False, fc_norm=True, seed=24)
    s = layers(t, "to_out.0", "net.3", (1,))
    move(s, "mlp_head.0", t, "fc_norm")
    case("lucidrains_2020-12-07", s, t, "lucidrains_2020-12", told +
         " --set pool=token --set attn_root=embed_dim", eps="1e-5",
         twin_options=OWN_SIZE + "pool=token pool_prefix=1 attn_root=embed_dim")
    case("lucidrains_2021-01-21", s, t, "lucidrains_2020-12", told +
         " --set pool=avg --set attn_root=head_dim", eps="1e-5",
         twin_options=OWN_SIZE + "pool=avg pool_prefix=1")
    case("lucidrains_2020_untold", s, "pool: not stored in a checkpoint of "
         "lucidrains/vit-pytorch of 2020; give --set pool=token ... num_heads: not stored ... "
         "--set attn_root=embed_dim (until 2021-01-21) or --set attn_root=head_dim ... "
         "for example: --set pool=token --set num_heads=N --set attn_root=embed_dim", None)


def lucidrains_stem(t):
    """Since 1.0: norm of the raw patch, linear layer, norm of the token."""
    s = OrderedDict()
    for part in (".weight", ".bias"):
        s["to_patch_embedding.1" + part] = (
            t["patch_embed.pre_norm" + part].transpose(1, 2, 0).reshape(-1))
    s["to_patch_embedding.2.weight"] = (
        t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1))
    s["to_patch_embedding.2.bias"] = t["patch_embed.proj.bias"]
    move(s, "to_patch_embedding.3", t, "patch_embed.norm")
    return s


def lucidrains_blocks(s, t, out, fc2):
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "transformer.layers.%d." % i
        move(s, to + "0.norm", t, b + "norm1")
        move(s, to + "0.to_qkv", t, b + "attn.qkv")
        if out: move(s, to + out, t, b + "attn.proj")
        move(s, to + "1.net.0", t, b + "norm2")
        move(s, to + "1.net.1", t, b + "mlp.fc1")
        move(s, to + fc2, t, b + "mlp.fc2")
    move(s, "transformer.norm", t, "norm")


def write_lucidrains_eras():
    stem = dict(qkv_bias=False, patch_norm=True, patch_pre_norm=True, seed=15)
    told = "--set num_heads=2"
    t = model(final_norm=False, fc_norm=True, **stem)
    s = lucidrains(t)
    del s["to_patch_embedding.1.weight"], s["to_patch_embedding.1.bias"]
    s.update(lucidrains_stem(t))
    case("lucidrains_1.0", s, t, "lucidrains_1.0", told + " --set pool=token", eps="1e-5",
         twin_options=OWN_SIZE + "pool=token pool_prefix=1")
    t = model(**stem)
    s = lucidrains_stem(t)
    s["pos_embedding"], s["cls_token"] = t["pos_embed"], t["cls_token"]
    lucidrains_blocks(s, t, "0.to_out.0", "1.net.4")
    move(s, "mlp_head", t, "head")
    case("lucidrains_2023", s, t, "lucidrains_2023", told + " --set pool=token", eps="1e-5",
         twin_options=OWN_SIZE + "pool=token pool_prefix=1")
    s["pos_embedding"], s["cls_token"] = s["pos_embedding"][0], s["cls_token"][0]
    case("lucidrains_2025", as_torch(s), t, "lucidrains_2023", told + " --set pool=avg",
         eps="1e-5", twin_options=OWN_SIZE + "pool=avg pool_prefix=1", write=pth, suffix="pt")
    for i in range(DEPTH):
        for part in (".weight", ".bias"):
            del s["transformer.layers.%d.0.to_out.0%s" % (i, part)]
            t["blocks.%d.attn.proj%s" % (i, part)] = (
                np.eye(D, dtype="<f4") if part == ".weight" else np.zeros(D, "<f4"))
    case("lucidrains_heads", s, "blocks.{0..1}.attn.proj.weight [8, 8] is missing: attention "
         "works without it only if a single head is as wide as a token", None,
         told + " --set pool=avg")
    case("lucidrains_identity", s, t, "lucidrains_identity", "--set num_heads=1 --set pool=avg",
         eps="1e-5", twin_options=OWN_SIZE + "pool=avg pool_prefix=1 num_heads=1")
    t = model(cls=False, **stem)
    s = lucidrains_stem(t)
    s["pos_embedding"], s["cls_token"] = t["pos_embed"][0], np.zeros((0, D), "f4")
    lucidrains_blocks(s, t, "0.to_out.0", "1.net.4")
    move(s, "mlp_head", t, "head")
    case("lucidrains_2025_mean", as_torch(s), t, "lucidrains_no_cls", told, eps="1e-5",
         twin_options=OWN_SIZE + "pool=avg", write=pth, suffix="pt")
    t = model(cls=False, reg=2, pos="patches", **stem)
    for i in range(DEPTH):
        t["blocks.%d.attn.proj.bias" % i][:] = 0
    s = lucidrains_stem(t)
    s["register_tokens"] = t["reg_token"][0]
    lucidrains_blocks(s, t, "0.to_out", "1.net.3")
    for i in range(DEPTH):
        del s["transformer.layers.%d.0.to_out.bias" % i]
    move(s, "linear_head", t, "head")
    t["pos_embed"] = libraries.sincos_2d(GRID, GRID, D, D // 4 - 1, torch.float64).float().numpy()[
        None]
    case("simple_vit", s, t, "simple_vit", told + " --img-size 4", eps="1e-5",
         twin_options=OWN_SIZE + "pool=avg positions=patches")
    case("simple_vit_size", s, "there is no pos_embed to show the input size; give --img-size HxW",
         None, told)


# === Tutorials ===

def interleaved(x):
    """Rows (z h k) -> (h k z): query, key and value of one number beside each other."""
    x = x.reshape(3, HEADS, HEAD, -1).transpose(1, 2, 0, 3)
    return np.ascontiguousarray(x).reshape(3 * D, -1).squeeze()


def einops(t, attention, linear, reduce=True):
    net = libraries.EinopsViT(attention, D, MLP, DEPTH, CHANS, PATCH, GRID * PATCH, CLASSES,
                              linear, reduce)
    s = OrderedDict()
    s["0.cls_token"], s["0.positions"] = t["cls_token"], t["pos_embed"][0]
    move(s, "0.projection.%d" % linear, t, "patch_embed.proj")
    if linear:
        s["0.projection.1.weight"] = (
            t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1))
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "1.%d." % i
        move(s, to + "0.fn.0", t, b + "norm1")
        module = net[1][i][0].fn[1]
        if isinstance(module, torch.nn.MultiheadAttention):
            s[to + "0.fn.1.in_proj_weight"] = t[b + "attn.qkv.weight"]
            s[to + "0.fn.1.in_proj_bias"] = t[b + "attn.qkv.bias"]
            move(s, to + "0.fn.1.out_proj", t, b + "attn.proj")
        elif hasattr(module, "qkv"):
            for part in (".weight", ".bias"):
                s[to + "0.fn.1.qkv" + part] = interleaved(t[b + "attn.qkv" + part])
            move(s, to + "0.fn.1.projection", t, b + "attn.proj")
        else:
            split_qkv(s, to + "0.fn.1.", t, b + "attn.qkv", ("queries", "keys", "values"))
            move(s, to + "0.fn.1.projection", t, b + "attn.proj")
        move(s, to + "1.fn.0", t, b + "norm2")
        move(s, to + "1.fn.1.0", t, b + "mlp.fc1")
        move(s, to + "1.fn.1.3", t, b + "mlp.fc2")
    move(s, "2.%d" % reduce, t, "fc_norm")
    move(s, "2.%d" % (reduce + 1), t, "head")
    net.load_state_dict(as_torch(s))
    return net.state_dict()


def divided(t):
    """attn.proj.weight includes the division that follows the softmax."""
    t = OrderedDict(t)
    for i in range(DEPTH):
        name = "blocks.%d.attn.proj.weight" % i
        t[name] = (t[name].astype("f8") / np.sqrt(D)).astype("<f4")
    return t


def write_einops():
    t = model(final_norm=False, fc_norm=True, seed=13)
    told = "pool=avg pool_prefix=1 " + TUTORIAL
    saved = dict(eps="1e-5", write=pth, suffix="pth")
    s = einops(t, lambda dim: libraries.EinopsAttention(dim, HEADS, True), True)
    case("einops", s, divided(t), "einops_divided", "--set num_heads=2",
         twin_options=told + "attn_scale=1", **saved)
    case("einops_before", s, t, "einops", "--set num_heads=2 --set attn_root=head_dim",
         twin_options=told, **saved)
    case("einops_by_width", s, t, "einops", "--set num_heads=2 --set attn_root=embed_dim",
         twin_options=told + "attn_scale=%.9g" % D ** -0.5, **saved)
    s = einops(t, lambda dim: libraries.EinopsAttention(dim, HEADS, False), False)
    case("einops_separate", s, divided(t), "einops_divided", "--set num_heads=2",
         twin_options=told + "attn_scale=1", **saved)
    s = einops(t, lambda dim: libraries.SelfAttention(dim, HEADS), True, False)
    case("einops_mha", s, t, "einops", "--set num_heads=2", twin_options=told, **saved)
    s = OrderedDict((k, v) for k, v in s.items() if "projection" not in k)
    case("einops_no_patch", s, "0.projection.0.weight is missing", None, "--set num_heads=2",
         write=pth, suffix="pth")


def course(t, cls, pos, stem, blocks, names, head):
    """names: of both norms, attention and both linear layers, within a block."""
    s = OrderedDict()
    s[cls], s[pos] = t["cls_token"], t["pos_embed"]
    move(s, stem, t, "patch_embed.proj")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "%s.%d." % (blocks, i)
        move(s, to + names[0], t, b + "norm1")
        s[to + names[2] + ".in_proj_weight"] = t[b + "attn.qkv.weight"]
        s[to + names[2] + ".in_proj_bias"] = t[b + "attn.qkv.bias"]
        move(s, to + names[2] + ".out_proj", t, b + "attn.proj")
        move(s, to + names[1], t, b + "norm2")
        move(s, to + names[3], t, b + "mlp.fc1")
        move(s, to + names[4], t, b + "mlp.fc2")
    move(s, head + ".0", t, "fc_norm")
    move(s, head + ".1", t, "head")
    return s


def write_courses():
    t = model(final_norm=False, fc_norm=True, seed=13)
    sizes = dict(dim=D, heads=HEADS, hidden=MLP, depth=DEPTH, chans=CHANS, p=PATCH,
                 size=GRID * PATCH, classes=CLASSES)
    s = course(t, "class_embedding", "position_embedding", "patch_embedding.patcher",
               "transformer_encoder",
               ("msa_block.layer_norm", "mlp_block.layer_norm", "msa_block.multihead_attn",
                "mlp_block.mlp.0", "mlp_block.mlp.3"), "classifier")
    net = libraries.ReplicaViT(**sizes)
    net.load_state_dict(as_torch(s))
    case("replica", net.state_dict(), t, "einops", "--set num_heads=2", eps="1e-5", write=pth,
         suffix="pth", twin_options="pool=token " + TUTORIAL)
    s = course(t, "cls_token", "pos_embedding", "input_layer", "transformer",
               ("layer_norm_1", "layer_norm_2", "attn", "linear.0", "linear.3"), "mlp_head")
    s["input_layer.weight"] = s["input_layer.weight"].reshape(D, -1)
    net = libraries.NotebookViT(**sizes)
    net.load_state_dict(as_torch(s))
    state = OrderedDict(("model." + k, v) for k, v in net.state_dict().items())
    case("notebook", {"state_dict": state}, t, "einops", "--set num_heads=2", eps="1e-5",
         write=pth, suffix="ckpt", twin_options="pool=token " + SQUASH + "interpolation=bilinear "
         "mean=0.49139968,0.48215841,0.44653091 std=0.24703223,0.24348513,0.26158784")


# === OpenAI, open_clip ===

def open_clip(t, prefix):
    s = OrderedDict()
    s[prefix + "class_embedding"] = t["cls_token"].ravel()
    s[prefix + "positional_embedding"] = t["pos_embed"][0]
    s[prefix + "proj"] = np.ascontiguousarray(t["head.weight"].T)
    s[prefix + "conv1.weight"] = t["patch_embed.proj.weight"]
    move(s, prefix + "ln_pre", t, "norm_pre")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, prefix + "transformer.resblocks.%d." % i
        s[to + "attn.in_proj_weight"] = t[b + "attn.qkv.weight"]
        s[to + "attn.in_proj_bias"] = t[b + "attn.qkv.bias"]
        move(s, to + "attn.out_proj", t, b + "attn.proj")
        move(s, to + "ln_1", t, b + "norm1")
        move(s, to + "mlp.c_fc", t, b + "mlp.fc1")
        move(s, to + "mlp.c_proj", t, b + "mlp.fc2")
        move(s, to + "ln_2", t, b + "norm2")
    move(s, prefix + "ln_post", t, "norm")
    s["positional_embedding"] = np.zeros((3, D), "f4")
    s["text_projection"] = np.zeros((D, D), "f4")
    s["transformer.resblocks.0.attn.in_proj_weight"] = np.zeros((3, D), "f4")
    s["token_embedding.weight"] = np.zeros((3, D), "f4")
    s["ln_final.weight"] = np.zeros(D, "f4")
    return s


def write_open_clip():
    t = without_bias(clip_model())
    s = open_clip(t, "visual.")
    case("open_clip", s, t, "clip", "--set num_heads=2 --set activation=gelu", eps="1e-5",
         twin_options=CLIP_CROP)
    told = {"model_cfg": {"embed_dim": 5, "quick_gelu": True,
                          "vision_cfg": {"image_size": 4, "layers": DEPTH, "width": D,
                                         "head_width": HEAD, "patch_size": PATCH,
                                         "mlp_ratio": 1.5}, "text_cfg": {}},
            "preprocess_cfg": {"mean": [0.48145466, 0.4578275, 0.40821073],
                               "std": [0.26862954, 0.26130258, 0.27577711],
                               "interpolation": "bicubic", "resize_mode": "shortest"}}
    case("open_clip_config", s, t, "clip", eps="1e-5", act="quick_gelu", config=told,
         twin_options=CLIP_CROP)
    case("open_clip_untold", s, "activation: not stored in a checkpoint of open_clip; give "
         "--set activation=quick_gelu", None, "--set num_heads=2")
    s = as_torch(s)
    s["input_resolution"] = torch.tensor(4)
    s["context_length"], s["vocab_size"] = torch.tensor(77), torch.tensor(3)
    case("openai", s, t, "clip", "--set num_heads=2", eps="1e-5", act="quick_gelu", write=pth,
         suffix="pt", twin_options=CLIP_CROP)
    s = OrderedDict(("visual.trunk." + k, v) for k, v in t.items() if not k.startswith("head"))
    s["visual.head.proj.weight"] = t["head.weight"]
    s["text.ln_final.weight"] = np.zeros(D, "f4")
    s["logit_scale"] = np.array(2.0, "f4")
    case("open_clip_timm", s, t, "clip", "--set num_heads=2 --set norm_eps=1e-5 --set "
         "activation=gelu", eps="1e-5")
    s = open_clip(t, "")
    s["attn_pool.query"] = s["attn_pool_contrastive.query"] = np.zeros((1, D), "f4")
    case("coca", s, "lacks CoCa's attentional pooling by two poolers", None)


# === JAX ===

def heads_in(w):
    return np.ascontiguousarray(w.T.reshape(D, HEADS, HEAD))


def jax_attention(s, to, qkv, biases, proj, proj_bias):
    for i, name in enumerate(NAMES):
        if qkv[i] is None: continue
        s[to + name + "/kernel"] = heads_in(qkv[i])
        s[to + name + "/bias"] = biases[i].reshape(HEADS, HEAD)
    s[to + "out/kernel"] = np.ascontiguousarray(proj.T.reshape(HEADS, HEAD, D))
    s[to + "out/bias"] = proj_bias


def jax_norm(s, to, t, name):
    s[to + "/scale"], s[to + "/bias"] = t[name + ".weight"], t[name + ".bias"]


def jax_dense(s, to, t, name):
    s[to + "/kernel"] = t[name + ".weight"].T     # in Fortran's order
    s[to + "/bias"] = t[name + ".bias"]


def jax_block(t, i, attention, norm2, mlp):
    s, b = OrderedDict(), "blocks.%d." % i
    jax_norm(s, "LayerNorm_0", t, b + "norm1")
    jax_attention(s, attention + "/", [third(t[b + "attn.qkv.weight"], k) for k in range(3)],
                  [third(t[b + "attn.qkv.bias"], k) for k in range(3)],
                  t[b + "attn.proj.weight"], t[b + "attn.proj.bias"])
    jax_norm(s, norm2, t, b + "norm2")
    jax_dense(s, mlp + "/Dense_0", t, b + "mlp.fc1")
    jax_dense(s, mlp + "/Dense_1", t, b + "mlp.fc2")
    return s


def jax_stem(t, prefix, position):
    s = OrderedDict()
    if "cls_token" in t: s[prefix + "cls"] = t["cls_token"]
    s[prefix + "embedding/kernel"] = np.ascontiguousarray(
        t["patch_embed.proj.weight"].transpose(2, 3, 1, 0))
    s[prefix + "embedding/bias"] = t["patch_embed.proj.bias"]
    s[prefix + position] = t["pos_embed"]
    return s


def jax_original(t, prefix):
    s = jax_stem(t, prefix, "Transformer/posembed_input/pos_embedding")
    for i in range(DEPTH):
        for k, v in jax_block(t, i, "MultiHeadDotProductAttention_1", "LayerNorm_2",
                              "MlpBlock_3").items():
            s[prefix + "Transformer/encoderblock_%d/%s" % (i, k)] = v
    jax_norm(s, prefix + "Transformer/encoder_norm", t, "norm")
    if "pre_logits.fc.weight" in t: jax_dense(s, prefix + "pre_logits", t, "pre_logits.fc")
    if "head.weight" in t: jax_dense(s, prefix + "head", t, "head")
    return s


def jax_big_vision(t, prefix):
    s = jax_stem(t, prefix, "pos_embedding")
    blocks = [jax_block(t, i, "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0")
              for i in range(DEPTH)]
    for k in blocks[0]:
        s[prefix + "Transformer/encoderblock/" + k] = np.stack([b[k] for b in blocks])
    jax_norm(s, prefix + "Transformer/encoder_norm", t, "norm")
    if "_latent" in t:
        h = prefix + "MAPHead_0/"
        kv, bias = t["attn_pool.kv.weight"], t["attn_pool.kv.bias"]
        s[h + "probe"] = t["_latent"]
        jax_attention(s, h + "MultiHeadDotProductAttention_0/", [t["_q.weight"], kv[:D], kv[D:]],
                      [t["_q.bias"], bias[:D], bias[D:]], t["attn_pool.proj.weight"],
                      t["attn_pool.proj.bias"])
        jax_norm(s, h + "LayerNorm_0", t, "attn_pool.norm")
        jax_dense(s, h + "MlpBlock_0/Dense_0", t, "attn_pool.mlp.fc1")
        jax_dense(s, h + "MlpBlock_0/Dense_1", t, "attn_pool.mlp.fc2")
    if "head.weight" in t: jax_dense(s, prefix + "head", t, "head")
    return s


def npz_deflated(path, tensors):
    npz(path, tensors, True)


def write_jax():
    t = model()
    s = jax_original(t, "")
    s["cls"] = bfloat16(s["cls"])
    s["embedding/bias"] = s["embedding/bias"].astype(">f4")
    case("jax", s, t, "plain", write=npz, suffix="npz")
    t = model(rep=6)
    case("jax_pre_logits", jax_original(t, "opt/target/"), t, "rep", write=npz_deflated,
         suffix="npz")
    t = model(cls=False, pool="map", classes=0, seed=7)
    s = jax_big_vision(t, "params/img/")
    s["params/t"] = np.zeros(1, "f4")
    s["params/txt/head/kernel"] = np.zeros((2, 2), "f4")
    case("jax_map", s, t, "map", "--set activation=gelu_tanh", act="gelu_tanh", write=npz,
         suffix="npz")
    t = model(cls=False, seed=7)
    case("jax_gap", jax_big_vision(t, "params/"), t, "gap", twin_options="pool=avg",
         write=npz_deflated, suffix="npz")
    t, raw = resnet_model()
    s = jax_original(t, "")
    for k, v in raw.items():
        k = k.replace(STEM, "").replace("stem.conv", "conv_root").replace("stem.norm", "gn_root")
        k = k.replace("stages.0.blocks.0.", "block1/unit1/").replace("downsample.conv", "conv_proj")
        k = k.replace("downsample.norm", "gn_proj").replace("norm", "gn")
        k = k.replace(".weight", "/kernel" if v.ndim == 4 else "/scale").replace(".bias", "/bias")
        s[k] = v.transpose(2, 3, 1, 0) if v.ndim == 4 else v.reshape(1, 1, 1, -1)
    s["gn_root/bias"] = s["gn_root/bias"].ravel()   # newer files have plain vectors
    case("jax_hybrid", s, t, "resnet", write=npz_deflated, suffix="npz")


# === C-RADIO, AIMv2, BEiT-3 ===

def write_radio():
    t = model(reg=7, pos="patches", patch_bias=False, final_norm=False, classes=0, seed=31)
    s = OrderedDict((k, x) for k, x in t.items() if k.startswith("blocks."))
    s["patch_generator.cls_token.token"] = np.concatenate([t["cls_token"], t["reg_token"]], 1)[0]
    s["patch_generator.pos_embed"] = t["pos_embed"]
    s["patch_generator.embedder.weight"] = t["patch_embed.proj.weight"].reshape(D, -1)
    s = OrderedDict(("radio_model.model." + k, x) for k, x in s.items())
    case("radio", s, t, "radio", "--set num_heads=2",
         twin_options="has_patch_bias=0 has_final_norm=0 positions=patches pos_resample=jax "
                      "crop_mode=squash crop_pct=1 interpolation=bilinear "
                      "mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711")


QWEN = ("rope_type=qwen pool=avg has_final_norm=0 pos_resample=jax crop_mode=squash crop_pct=1")


def write_qwen():
    t = model(cls=False, final_norm=False, classes=0, seed=34)
    w = t["patch_embed.proj.weight"]
    first = (w.view(np.uint32) & 0xffff0000).view(np.float32)  # w - first is exact
    s = OrderedDict()
    s["patch_embed.proj.weight"] = np.stack([first, w - first], 2)
    s["patch_embed.proj.bias"] = t["patch_embed.proj.bias"]
    s["pos_embed.weight"] = t["pos_embed"][0]
    for i in range(DEPTH):
        b = "blocks.%d." % i
        for name in ("norm1", "attn.qkv", "attn.proj", "norm2"): move(s, b + name, t, b + name)
        for name in ("fc1", "fc2"): move(s, b + "mlp.linear_" + name, t, b + "mlp." + name)
    n = Numbers(35)
    for name, shape in (("norm", (D,)), ("linear_fc1", (4 * D, 4 * D)), ("linear_fc2", (5, 4 * D))):
        put2(s, "merger." + name, shape, True, n)
    t = rope(t, np.array([[row, column] for row in range(2) for column in range(2)], "f8"))
    visual = OrderedDict(("model.visual." + k, x) for k, x in s.items())
    case("qwen3_vl", visual, t, "qwen3_vl",
         "--set num_heads=2 --set pool=avg", act="gelu_tanh",
         twin_options=QWEN)
    # llama.cpp's file of the same tower
    g = OrderedDict()
    for name, x in s.items():
        for old, new in (("pos_embed", "position_embd"), ("patch_embed.proj", "patch_embd"),
                         ("blocks", "blk"), ("norm", "ln"), ("attn.qkv", "attn_qkv"),
                         ("attn.proj", "attn_out"), ("mlp.linear_fc1", "ffn_up"),
                         ("mlp.linear_fc2", "ffn_down"), ("merger.ln", "post_ln"),
                         ("merger.linear_fc1", "mm.0"), ("merger.linear_fc2", "mm.2")):
            name = name.replace(old, new)
        g[name if name.startswith("mm.") else "v." + name] = x
    w = g.pop("v.patch_embd.weight")
    g["v.patch_embd.weight"], g["v.patch_embd.weight.1"] = w[:, :, 0], w[:, :, 1]
    g["v.deepstack.1.norm.weight"] = Numbers(37)(4 * D)
    half = [0.5] * 3
    pairs = clip_pairs("qwen3vl_merger", eps=1e-6, on=True, **{
        "clip.vision.image_mean": half, "clip.vision.image_std": half,
        "clip.vision.spatial_merge_size": 2, "clip.vision.is_deepstack_layers": [False, True]})
    file = {"write": gguf, "suffix": "gguf"}
    whole = OrderedDict(g, pairs=pairs)
    case("gguf_qwen3vl", OrderedDict(whole), t, "qwen3_vl", "--set pool=avg",
         act="gelu_tanh", twin_options=QWEN, **file)
    u = OrderedDict(t)
    for name in ("norm", "fc1", "fc2"):
        move(u, "merger." + name, s, "merger." + name.replace("fc", "linear_fc"))
    for name, source, more in (("qwen3_vl_merger", visual, {}), ("gguf_qwen3vl_merger", whole, file)):
        case(name, OrderedDict(source), u, "qwen3_vl_merger",
             "--set num_heads=2 --set pool=avg --set merge_size=2", act="gelu_tanh", twin_options=QWEN, **more)
    second = g.pop("v.patch_embd.weight.1")
    case("gguf_qwen3vl_one", OrderedDict(g, pairs=pairs), "v.patch_embd.weight.1 is missing: every "
         "image encoder with clip.projector_type qwen3vl_merger has this tensor", None, "--set pool=avg", **file)
    g["v.patch_embd.weight.1"] = second
    pairs["clip.projector_type"] = "mlp"
    case("gguf_qwen3vl_mlp", OrderedDict(g, pairs=pairs), "v.patch_embd.weight.1: expected "
         "clip.projector_type qwen3vl_merger beside this tensor", None, "--set pool=avg", **file)


def write_nomic():
    n = Numbers(33)
    s = OrderedDict((k, n(*shape)) for k, shape in (
        ("embeddings.cls_token", (1, 1, D)), ("embeddings.pos_embed", (1, PATCHES + 1, D)),
        ("embeddings.proj.weight", (D, CHANS, PATCH, PATCH)), ("layers.0.norm1.weight", (D,)),
        ("layers.0.attn.Wqkv.weight", (3 * D, D)), ("layers.0.mlp.fc11.weight", (MLP, D)),
        ("selector.attn.latent", (1, 1, D)), ("selector.attn.Wq.weight", (D, D))))
    case("nomic", s, "lacks an attention pooling that is added to the class token (nomic)", None)


def write_vjepa2():
    """A convolution over two frames; no table of positions."""
    t = model(cls=False, classes=0, seed=41)
    video = np.stack([t["patch_embed.proj.weight"]] * 2, 2)
    s = OrderedDict()
    s["vjepa2.encoder.embeddings.patch_embeddings.proj.weight"] = video
    s["vjepa2.encoder.embeddings.patch_embeddings.proj.bias"] = t["patch_embed.proj.bias"]
    meta = OrderedDict([("module.backbone.patch_embed.proj.weight", video),
                        ("module.backbone.patch_embed.proj.bias", t["patch_embed.proj.bias"])])
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "vjepa2.encoder.layer.%d." % i
        split_qkv(s, to + "attention.", t, b + "attn.qkv", NAMES)
        for ours, theirs in (("attn.proj", "attention.proj"), ("norm1", "norm1"),
                             ("norm2", "norm2"), ("mlp.fc1", "mlp.fc1"), ("mlp.fc2", "mlp.fc2")):
            move(s, to + theirs, t, b + ours)
            move(meta, "module.backbone." + b + ours, t, b + ours)
        move(meta, "module.backbone." + b + "attn.qkv", t, b + "attn.qkv")
    move(s, "vjepa2.encoder.layernorm", t, "norm")
    move(meta, "module.backbone.norm", t, "norm")
    s["pooler.query_tokens"] = np.zeros((1, 1, D), "f4")
    case("hf_vjepa2", s, "lacks patches of two frames, and rotary positions with two angles for "
         "each pair of values (V-JEPA 2)", None)
    predictor = as_torch({"norm.weight": t["norm.weight"]})
    case("vjepa2", {"encoder": as_torch(meta), "predictor": predictor},
         "lacks patches of several frames (V-JEPA 2, whose rotary positions have two angles for "
         "each pair of values)", None, "--weights encoder --set num_heads=2", write=pth, suffix="pth")


def write_aimv2():
    t = model(cls=False, patch_norm=True, rms=True, qkv_bias=False, proj_bias=False, gated=True,
              classes=0, seed=9)
    s = OrderedDict()
    move(s, "preprocessor.patchifier.proj", t, "patch_embed.proj")
    move(s, "preprocessor.patchifier.norm", t, "patch_embed.norm")
    s["preprocessor.pos_embed"] = t["pos_embed"]
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "trunk.blocks.%d." % i
        move(s, to + "norm_1", t, b + "norm1")
        move(s, to + "attn.qkv", t, b + "attn.qkv")
        move(s, to + "attn.proj", t, b + "attn.proj")
        move(s, to + "norm_2", t, b + "norm2")
        s[to + "mlp.fc1.weight"] = t[b + "mlp.fc1.weight"][:MLP]
        s[to + "mlp.fc3.weight"] = t[b + "mlp.fc1.weight"][MLP:]
        move(s, to + "mlp.fc2", t, b + "mlp.fc2")
    move(s, "trunk.post_trunk_norm", t, "norm")
    case("aimv2", s, t, "aimv2", eps="1e-5", act="silu",
         config={"model_type": "aimv2", "hidden_size": D, "num_attention_heads": HEADS,
                 "rms_norm_eps": 1e-5, "qkv_bias": False, "num_hidden_layers": DEPTH},
         twin_options="norm_type=rms pool=avg " + CLIP_CROP + DOWN)


def write_hf_aimv2():
    t = model(cls=False, patch_norm=True, rms=True, qkv_bias=False, proj_bias=False, gated=True,
              classes=0, seed=9)
    s = OrderedDict()
    move(s, "embeddings.patch_embed", t, "patch_embed.proj")
    move(s, "embeddings.rms_norm", t, "patch_embed.norm")
    s["embeddings.position_embedding.weight"] = t["pos_embed"][0]
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "encoder.layers.%d." % i
        move(s, to + "rms_norm1", t, b + "norm1")
        split_qkv(s, to + "attention.", t, b + "attn.qkv", ("q_proj", "k_proj", "v_proj"))
        move(s, to + "attention.out_proj", t, b + "attn.proj")
        move(s, to + "rms_norm2", t, b + "norm2")
        s[to + "ffn.gate_proj.weight"] = t[b + "mlp.fc1.weight"][:MLP]
        s[to + "ffn.up_proj.weight"] = t[b + "mlp.fc1.weight"][MLP:]
        move(s, to + "ffn.down_proj", t, b + "mlp.fc2")
    move(s, "rms_norm", t, "norm")
    case("hf_aimv2", s, t, "aimv2", eps="1e-5", act="silu",
         config=hf_config("aimv2_vision_model", qkv_bias=False, hidden_act="silu",
                          rms_norm_eps=1e-5),
         twin_options="norm_type=rms pool=avg " + CLIP_CROP + DOWN)
    n, t = Numbers(40), OrderedDict(t)
    t["attn_pool.q"] = n(D)
    put2(t, "attn_pool.kv", (2 * D, D), True, n)
    t["attn_pool.kv.bias"][:] = 0
    put2(t, "attn_pool.proj", (D, D), True, n)
    t["attn_pool.norm.weight"] = np.ones(D, "<f4")
    for name, shape in (("fc1", (1, D)), ("fc2", (D, 1))):   # a unit that adds nothing
        t["attn_pool.mlp.%s.weight" % name] = np.zeros(shape, "<f4")
        t["attn_pool.mlp.%s.bias" % name] = np.zeros(shape[0], "<f4")
    t["head.weight"], t["head.bias"] = n(CLASSES, D), np.zeros(CLASSES, "<f4")
    s = OrderedDict(("vision_model." + k, x) for k, x in s.items())
    to = "vision_model.head."
    s[to + "cls_token"] = t["attn_pool.q"].reshape(1, 1, D)
    s[to + "k_proj.weight"] = t["attn_pool.kv.weight"][:D]
    s[to + "v_proj.weight"] = t["attn_pool.kv.weight"][D:]
    move(s, to + "output_proj", t, "attn_pool.proj")
    s["visual_projection.weight"] = t["head.weight"]
    case("hf_aimv2_lit", s, t, "aimv2_lit", eps="1e-5", act="silu",
         config={"model_type": "aimv2", "vision_config": hf_config(
             "aimv2_vision_model", qkv_bias=False, hidden_act="silu", rms_norm_eps=1e-5)},
         twin_options="norm_type=rms " + CLIP_CROP + DOWN)
    s[to + "cls_token"] = np.zeros((1, 2, D), "f4")
    case("hf_aimv2_queries", s, "vision_model.head.cls_token: expected [8], found [1, 2, 8]", None,
         "--set num_heads=2")


def beit3(t):
    s = OrderedDict()
    s["beit3.text_embed.weight"] = np.zeros((3, D), "f4")
    s["beit3.vision_embed.mask_token"] = np.zeros((1, 1, D), "f4")
    s["beit3.vision_embed.cls_token"] = t["cls_token"]
    move(s, "beit3.vision_embed.proj", t, "patch_embed.proj")
    s["beit3.encoder.embed_positions.A.weight"] = np.concatenate(
        [np.full((2, D), 7, "<f4"), t["pos_embed"][0]])
    s["beit3.encoder.embed_positions.B.weight"] = np.zeros((3, D), "f4")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "beit3.encoder.layers.%d." % i
        for k, name in enumerate(("q_proj", "k_proj", "v_proj")):
            s[to + "self_attn.%s.A.weight" % name] = third(t[b + "attn.qkv.weight"], k)
            s[to + "self_attn.%s.A.bias" % name] = third(t[b + "attn.qkv.bias"], k)
            s[to + "self_attn.%s.B.bias" % name] = np.zeros(D, "f4")
        move(s, to + "self_attn.out_proj.A", t, b + "attn.proj")
        move(s, to + "self_attn.inner_attn_ln.A", t, b + "attn.norm")
        move(s, to + "self_attn_layer_norm.A", t, b + "norm1")
        move(s, to + "ffn.A.fc1", t, b + "mlp.fc1")
        move(s, to + "ffn.A.fc2", t, b + "mlp.fc2")
        move(s, to + "ffn.A.ffn_layernorm", t, b + "mlp.norm")
        move(s, to + "final_layer_norm.A", t, b + "norm2")
    move(s, "beit3.encoder.layer_norm.A", t, "norm")
    move(s, "fc_norm", t, "fc_norm")
    move(s, "head", t, "head")
    return s


def write_beit3():
    defaults = IMAGENET + "crop_pct=1"
    t = model(attn_norm=True, mlp_norm=True, final_norm=False, fc_norm=True, seed=10)
    case("beit3_classifier", beit3(t), t, "beit3_classifier", "--set num_heads=2", eps="1e-5",
         twin_options="pool=avg " + defaults)
    t = model(attn_norm=True, mlp_norm=True, classes=0, seed=10)
    case("beit3", as_torch(beit3(t)), t, "beit3", "--set num_heads=2", eps="1e-5",
         twin_options=defaults, write=lambda path, s: pth(path, {"model": s}), suffix="pth")


# === Variants of timm's own names ===

def vit_names(t):
    return OrderedDict((k, v) for k, v in t.items() if not k.startswith("_"))


def write_timm():
    told = "--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu"
    t = model(pos="patches", ls=True, seed=11)
    s = OrderedDict((k.replace("ls1.gamma", "gamma_1").replace("ls2.gamma", "gamma_2"), v)
                    for k, v in vit_names(t).items())
    case("deit3", {"model": as_torch(s)}, t, "deit3", told, twin_options="positions=patches",
         write=pth, suffix="pth")
    t = model()
    for i in range(DEPTH):
        t["blocks.%d.attn.qkv.bias" % i][D:2 * D] = 0
    s = vit_names(t)
    for i in range(DEPTH):
        bias = s.pop("blocks.%d.attn.qkv.bias" % i)
        s["blocks.%d.attn.q_bias" % i] = bias[:D]
        s["blocks.%d.attn.v_bias" % i] = bias[2 * D:]
    case("q_bias_v_bias", s, t, "no_k_bias", told + " --set rope_type=none")
    t = model(ls=True, gated=True, classes=0, seed=5)
    s = vit_names(t)
    for i in range(DEPTH):
        for part in (".weight", ".bias"):
            x = s.pop("blocks.%d.mlp.fc1" % i + part)
            s["blocks.%d.mlp.fc1_g" % i + part] = x[:MLP]
            s["blocks.%d.mlp.fc1_x" % i + part] = x[MLP:]
    told_eps = "--set num_heads=2 --set norm_eps=1e-6"
    case("swiglu_split", s, t, "swiglu", told_eps, act="silu")
    s = vit_names(t)
    for i in range(DEPTH):
        for part in (".weight", ".bias"):
            s["blocks.%d.mlp.w12" % i + part] = s.pop("blocks.%d.mlp.fc1" % i + part)
            s["blocks.%d.mlp.w3" % i + part] = s.pop("blocks.%d.mlp.fc2" % i + part)
    case("swiglu_w12", s, t, "swiglu", told_eps, act="silu")
    t, cls, pos = with_registers()
    s = vit_names(t)
    s["cls_token"], s["pos_embed"], s["register_tokens"] = cls, pos, s.pop("reg_token")
    s["mask_token"] = np.zeros((1, D), "f4")
    case("dinov2_original", as_torch(s), t, "registers", told, write=pth, suffix="pth")
    s = OrderedDict((k.replace("blocks.", "backbone.blocks.0.") if k.startswith("blocks.0") else
                     k.replace("blocks.", "backbone.blocks.1.") if k.startswith("blocks.") else
                     "backbone." + k, v) for k, v in s.items())
    s["dino_head.last_layer.weight_g"] = np.zeros(3, "f4")
    case("dinov2_chunked", {"teacher": as_torch(s)}, t, "registers", told, write=pth,
         suffix="pth")
    t = model(classes=0)
    s = OrderedDict(("module.backbone." + k, v) for k, v in vit_names(t).items())
    s["module.head.mlp.0.weight"] = np.zeros((2, D), "f4")
    s["module.head.last_layer.weight_g"] = np.zeros((2, 1), "f4")
    state = as_torch(s)
    case("dino", {"student": state, "teacher": OrderedDict(
        (k.replace("module.", ""), v) for k, v in state.items()), "epoch": 3}, t, "bare", told,
        write=pth, suffix="pth")
    s = vit_names(t)
    s["decoder_pos_embed"] = np.zeros((1, 3, D), "f4")
    s["decoder_blocks.0.norm1.weight"] = np.zeros(D, "f4")
    s["mask_token"] = np.zeros((1, 1, D), "f4")
    case("mae", {"model": as_torch(s)}, t, "bare", told, write=pth, suffix="pth")
    t = model(cls=False, classes=0)
    state = as_torch(OrderedDict(("module." + k, v) for k, v in vit_names(t).items()))
    case("ijepa", {"encoder": state, "predictor": {"module.x": torch.zeros(2)},
                   "target_encoder": state, "epoch": 1}, t, "ijepa", told + " --set pool=avg",
         eps="1e-6", twin_options="pool=avg", write=pth, suffix="pth.tar")
    t = model(cls=False, pool="map", classes=0, seed=7)
    s = vit_names(t)
    del s["attn_pool.q"]
    s["attn_pool.latent"] = t["_latent"]
    s["attn_pool.q.weight"], s["attn_pool.q.bias"] = t["_q.weight"], t["_q.bias"]
    case("timm_map", s, t, "map", told)
    t = model()
    s = vit_names(t)
    s["patch_embed.proj.weight"] = s["patch_embed.proj.weight"].reshape(D, -1)
    case("flat_patch", s, t, "plain", told)
    t, raw = resnet_model()
    case("timm_hybrid", dict(vit_names(t), **raw), t, "resnet", told)
    t, raw = resnet_model(stages=False)
    s = dict(without(t, STEM), **{k.replace(STEM + "stem.", STEM): v for k, v in raw.items()})
    case("timm_hybrid_stem", s, t, "resnet_stem", told)
    s = dict(vit_names(model()))
    s[STEM + "layer1.0.conv1.weight"] = np.zeros((4, 3, 1, 1), "f4")
    case("timm_resnetd", s, "lacks this convolutional stem (a ResNet-D)", None)


# === Rotary and relative positions, differential attention, parallel blocks ===

def insert(t, behind, **pairs):
    """The same with tensors behind one of them; "__" stands for a dot in their names."""
    out = OrderedDict()
    for key, value in t.items():
        out[key] = value
        if key == behind:
            out.update((name.replace("__", "."), x) for name, x in pairs.items())
    return out


def grid(first, size=GRID, reference=0):
    """Rows and columns of the patches."""
    numbers = (np.arange(size) + float(first)) / size * (reference or size)
    return np.repeat(numbers, size), np.tile(numbers, size)


def rope(t, angles):
    return insert(t, "pos_embed" if "pos_embed" in t else "reg_token" if "reg_token" in t else
                  "cls_token", rope__cos=np.cos(angles).astype("f4"),
                  rope__sin=np.sin(angles).astype("f4"))


def no_positions(t):
    del t["pos_embed"]
    return t


def no_key_bias(t):
    for i in range(DEPTH):
        t["blocks.%d.attn.qkv.bias" % i][D:2 * D] = 0
    return t


def rename(t, *pairs):
    out = OrderedDict()
    for key, x in vit_names(t).items():
        for old, new in pairs:
            key = key.replace(old, new)
        out[key] = x
    return out


def eva02(t):
    """The names of the original EVA-02, with its tables, which depend on the size."""
    s = rename(t, ("mlp.fc2", "mlp.w3"), ("mlp.norm", "mlp.ffn_ln"),
               ("attn.norm", "attn.inner_attn_ln"))
    for i in range(DEPTH):
        b = "blocks.%d." % i
        split_qkv(s, b + "attn.", t, b + "attn.qkv", ("q_proj", "k_proj", "v_proj"))
        s[b + "attn.q_bias"], s[b + "attn.v_bias"] = (s.pop(b + "attn.%s_proj.bias" % x)
                                                      for x in "qv")
        del s[b + "attn.k_proj.bias"], s[b + "attn.qkv.weight"], s[b + "attn.qkv.bias"]
        for part in (".weight", ".bias"):
            x = s.pop(b + "mlp.fc1" + part)
            s[b + "mlp.w1" + part], s[b + "mlp.w2" + part] = x[:MLP], x[MLP:]
        s[b + "attn.rope.freqs_cos"] = np.zeros((PATCHES, HEAD), "f4")
        s[b + "attn.rope.freqs_sin"] = np.zeros((PATCHES, HEAD), "f4")
    del s["rope.cos"], s["rope.sin"]
    s["rope.freqs_cos"] = s["rope.freqs_sin"] = np.zeros((PATCHES, HEAD), "f4")
    return s


def dinov3(t, periods):
    """The names of the original DINOv3, whose keys' bias is masked."""
    s = rename(t, ("reg_token", "storage_tokens"))
    for i in range(DEPTH):
        s["blocks.%d.attn.qkv.bias" % i] = s["blocks.%d.attn.qkv.bias" % i] + \
            np.repeat(np.array([0, 3, 0], "f4"), D)
        s["blocks.%d.attn.qkv.bias_mask" % i] = np.repeat(np.array([1, 0, 1], "f4"), D)
    del s["rope.cos"], s["rope.sin"]
    s["rope_embed.periods"] = periods
    s["mask_token"] = s["local_cls_norm.weight"] = s["local_cls_norm.bias"] = np.zeros(D, "f4")
    return s


def hf_dinov3(t):
    s = OrderedDict()
    s["embeddings.cls_token"] = t["cls_token"]
    s["embeddings.mask_token"] = np.zeros((1, 1, D), "f4")
    s["embeddings.register_tokens"] = t["reg_token"]
    move(s, "embeddings.patch_embeddings", t, "patch_embed.proj")
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, "layer.%d." % i
        move(s, to + "norm1", t, b + "norm1")
        split_qkv(s, to + "attention.", t, b + "attn.qkv", ("q_proj", "k_proj", "v_proj"))
        del s[to + "attention.k_proj.bias"]
        move(s, to + "attention.o_proj", t, b + "attn.proj")
        s[to + "layer_scale1.lambda1"] = t[b + "ls1.gamma"]
        move(s, to + "norm2", t, b + "norm2")
        if len(t[b + "mlp.fc1.bias"]) == MLP:
            move(s, to + "mlp.up_proj", t, b + "mlp.fc1")
        else:
            for part in (".weight", ".bias"):
                s[to + "mlp.gate_proj" + part] = t[b + "mlp.fc1" + part][:MLP]
                s[to + "mlp.up_proj" + part] = t[b + "mlp.fc1" + part][MLP:]
        move(s, to + "mlp.down_proj", t, b + "mlp.fc2")
        s[to + "layer_scale2.lambda1"] = t[b + "ls2.gamma"]
    move(s, "norm", t, "norm")
    return s


def dinov3_angles(period):
    rows, columns = grid(0.5)
    return 2 * np.pi / float(period) * np.stack([2 * rows / GRID - 1, 2 * columns / GRID - 1], 1)


def write_sapiens2():
    """The second block's heads share keys and values."""
    t = rope(no_positions(model(reg=3, ls=True, rms=True, qk_norm=True, gated=True, classes=0,
                                seed=32)), dinov3_angles(1.25))
    s = OrderedDict((k, t[k]) for k in ("cls_token",))
    s["storage_tokens"] = t["reg_token"]
    s["rope_embed.periods"] = np.array([1.25], "f4")
    move(s, "patch_embed.projection", t, "patch_embed.proj")
    move(s, "ln1", t, "norm")
    for i in range(DEPTH):
        b = "blocks.%d." % i
        for part in (".weight", ".bias"):
            rows = t[b + "attn.qkv" + part]
            for n, name in enumerate("qkv"):
                end = n * D + (HEAD if i == 1 and n > 0 else D)
                s[b + "attn.w" + name + part] = rows[n * D:end]
                if end < (n + 1) * D: rows[end:end + HEAD] = rows[n * D:end]
        for name in ("attn.q_norm", "attn.k_norm", "attn.proj"): move(s, b + name, t, b + name)
        move(s, b + "ln1", t, b + "norm1")
        move(s, b + "ln2", t, b + "norm2")
        move(s, b + "ffn.w12", t, b + "mlp.fc1")
        move(s, b + "ffn.w3", t, b + "mlp.fc2")
        s[b + "attn.gamma.weight"] = t[b + "ls1.gamma"]
        t[b + "ls2.gamma"][:] = 1
    case("sapiens2", s, t, "sapiens2", "--img-size 4", act="silu",
         twin_options="norm_type=rms num_heads=2 rope_type=dinov3 pool=token img_size=4 "
                      "crop_mode=squash crop_pct=1 interpolation=bilinear " + IMAGENET)


def write_rotary():
    told = "--set num_heads=2 --set norm_eps=1e-6"
    rows, columns = grid(0, reference=16)
    t = rope(no_key_bias(model(gated=True, mlp_norm=True, attn_norm=True, seed=21)),
             np.stack([rows, columns], 1))
    s = eva02(t)
    case("eva02_original", {"model": as_torch(s)}, t, "eva02", told, act="silu",
         twin_options="rope_type=cat", write=pth, suffix="pth")
    case("eva02_open_clip", OrderedDict(("visual." + k, x) for k, x in s.items()), t, "eva02",
         told, act="silu", twin_options="rope_type=cat")
    case("jina_clip", OrderedDict(("vision_model." + k, x) for k, x in s.items()), t, "eva02", told,
         act="silu", twin_options="rope_type=cat")
    s = OrderedDict((k, x) for k, x in s.items() if "freqs" not in k)
    case("eva02_untold", s, "rope_type: not stored in a checkpoint of timm; give --set "
         "rope_type=none or --set rope_type=cat (EVA-02", None, told)
    t = rope(no_positions(no_key_bias(model(reg=4, ls=True, classes=0, seed=22))),
             dinov3_angles(1.25))
    write_sapiens2()
    size = "--set num_heads=2 --img-size 4"
    case("dinov3_original", as_torch(dinov3(t, np.array([1.25], "f4"))), t, "dinov3_bf16", size,
         eps="1e-5", twin_options="rope_type=dinov3 pool=token img_size=4 " + IMAGENET,
         write=pth, suffix="pth")
    s = rename(t)
    del s["rope.cos"], s["rope.sin"]
    case("dinov3_untold", s, "there is no pos_embed, and the tensors show neither rotary", None,
         size + " --set norm_eps=1e-5 --set activation=gelu")
    t = rope(no_positions(no_key_bias(model(reg=4, ls=True, gated=True, classes=0, seed=23))),
             dinov3_angles(1))
    config = hf_config("dinov3_vit", use_gated_mlp=True, hidden_act="silu", rope_theta=100.0)
    case("hf_dinov3", hf_dinov3(t), t, "dinov3", eps="1e-5", act="silu", config=config,
         twin_options="rope_type=dinov3 img_size=4 interpolation=bilinear " + SQUASH + IMAGENET)
    n = Numbers(24)
    freqs = n(2, DEPTH, D // 2)
    t = no_positions(model(ls=True, seed=24))
    rows, columns = grid(0)
    for i in range(DEPTH):
        x, y = (freqs[a, i].reshape(HEADS, 1, HEAD // 2).astype("f8") for a in (0, 1))
        angles = columns[:, None] * x + rows[:, None] * y
        t = insert(t, "blocks.%d.attn.qkv.bias" % i,
                   **{"blocks__%d__attn__rope__cos" % i: np.cos(angles).astype("f4"),
                      "blocks__%d__attn__rope__sin" % i: np.sin(angles).astype("f4")})
    s = rename(t, ("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2"))
    s = OrderedDict((k, x) for k, x in s.items() if "rope" not in k)
    s["freqs"] = freqs
    s["freqs_t_x"] = s["freqs_t_y"] = np.zeros(PATCHES, "f4")
    case("rope_vit_mixed", {"model": as_torch(s)}, t, "rope_mixed", told + " --set "
         "activation=gelu --img-size 4", twin_options="rope_type=mixed img_size=4", write=pth,
         suffix="pth")


# --- Perception Encoder ---

def write_perception():
    rows, columns = grid(1)
    t = model(patch_bias=False, pre_norm=True, pool="map", seed=25)
    t = rope(t, np.stack([columns, rows], 1))
    t["head.bias"] = np.zeros(CLASSES, "f4")
    s = OrderedDict((k, x) for k, x in open_clip(t, "visual.").items() if k[:7] == "visual.")
    a = "visual.attn_pool."
    s[a + "probe"] = t["_latent"]
    s[a + "attn.in_proj_weight"] = np.concatenate([t["_q.weight"], t["attn_pool.kv.weight"]])
    s[a + "attn.in_proj_bias"] = np.concatenate([t["_q.bias"], t["attn_pool.kv.bias"]])
    move(s, a + "attn.out_proj", t, "attn_pool.proj")
    move(s, a + "layernorm", t, "attn_pool.norm")
    move(s, a + "mlp.c_fc", t, "attn_pool.mlp.fc1")
    move(s, a + "mlp.c_proj", t, "attn_pool.mlp.fc2")
    options = "mean=0.5 std=0.5 interpolation=bilinear " + SQUASH + "rope_type=cat "
    case("pe_core", as_torch(s), t, "pe_core", "--set num_heads=2", eps="1e-5",
         twin_options=options + "pool_prefix=1 pool_num_heads=8", write=pth, suffix="pt")
    t = model(cls=False, patch_bias=False, pre_norm=True, final_norm=False, ls=True, classes=0,
              seed=26)
    rows, columns = grid(0)
    t["cls_token"], t["norm.weight"], t["norm.bias"] = (np.zeros(D, "f4"),) * 3
    t["head.weight"] = np.zeros((CLASSES, D), "f4")
    s = OrderedDict((k, x) for k, x in open_clip(t, "visual.").items() if k[:7] == "visual.")
    for key in ("class_embedding", "proj", "ln_post.weight", "ln_post.bias"):
        del s["visual." + key]
    for i in range(DEPTH):
        for k in "12":
            s["visual.transformer.resblocks.%d.ls_%s.gamma" % (i, k)] = \
                t["blocks.%d.ls%s.gamma" % (i, k)]
    for key in ("cls_token", "norm.weight", "norm.bias", "head.weight"):
        del t[key]
    case("pe_spatial", as_torch(s), rope(t, np.stack([columns, rows], 1)), "pe_spatial",
         "--set num_heads=2 --set pool=avg", eps="1e-5",
         twin_options=options + "pool=avg has_final_norm=0",
         write=pth, suffix="pt")


# --- BEiT ---

def beit_model(shared, seed):
    n, t = Numbers(seed), no_positions(no_key_bias(model(ls=True, fc_norm=True, final_norm=False,
                                                         seed=seed)))
    tables = [n((2 * GRID - 1) ** 2 + 3, HEADS) for i in range(DEPTH)]
    for i in range(DEPTH):
        table = tables[0 if shared else i]
        turned = np.concatenate([table[:-3][::-1], table[-3:]]).T
        t = insert(t, "blocks.%d.attn.qkv.bias" % i,
                   **{"blocks__%d__attn__rel_pos" % i: np.ascontiguousarray(turned)})
    return t, tables


def beit(t):
    s = rename(t, ("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2"))
    for i in range(DEPTH):
        a = "blocks.%d.attn." % i
        bias = s.pop(a + "qkv.bias")
        s[a + "q_bias"], s[a + "v_bias"] = bias[:D], bias[2 * D:]
        del s[a + "rel_pos"]
    return s


def write_beit():
    told = "--set norm_eps=1e-6 --set activation=gelu --set pool=avg"
    t, tables = beit_model(False, 27)
    s = beit(t)
    for i in range(DEPTH):
        a = "blocks.%d.attn." % i
        s[a + "relative_position_bias_table"] = tables[i]
        s[a + "relative_position_index"] = np.zeros((PATCHES + 1, PATCHES + 1), "f4")
    case("beit_original", {"model": as_torch(s)}, t, "beit", told,
         twin_options="pool=avg rope_type=none img_size=4", write=pth, suffix="pth")
    case("beit_named_size", s, "has img_size 224x224, but the 12 relative positions are for 4x4; "
         "--img-size HxW sets the size", None, told + " --arch beit_base_patch16_224 --set embed_dim=%d "
         "--set depth=%d --set num_heads=%d --set patch_size=2" % (D, DEPTH, HEADS))
    oblong = {k: np.zeros((18, HEADS), "f4") if k.endswith("table") else x for k, x in s.items()}
    case("beit_oblong", oblong, "the 18 relative positions are not those of a square; give "
         "--img-size HxW", None, told)
    case("beit_other_way", s, "pos_resample=dino: relative positions can be resampled only as in "
         "timm or transformers", None, told + " --img-size 6 --set pos_resample=dino")
    t, tables = beit_model(True, 28)
    s = beit(t)
    s["rel_pos_bias.relative_position_bias_table"] = tables[0]
    case("beit_shared", s, t, "beit_shared", told,
         twin_options="pool=avg rope_type=none img_size=4")
    t, tables = beit_model(False, 27)
    e = dict(t, pos_embed=np.zeros(1, "f4"), **{"norm.weight": t["fc_norm.weight"],
                                                "norm.bias": t["fc_norm.bias"]})
    s = hf_vit(e, "beit.")
    del s["beit.embeddings.position_embeddings"]
    move(s, "beit.pooler.layernorm", t, "fc_norm")
    for part in (".weight", ".bias"):
        del s["beit.layernorm" + part]
    for i in range(DEPTH):
        b = "beit.encoder.layer.%d." % i
        del s[b + "attention.attention.key.bias"]
        s[b + "lambda_1"], s[b + "lambda_2"] = (t["blocks.%d.ls%d.gamma" % (i, k)]
                                                for k in (1, 2))
        s[b + "attention.attention.relative_position_bias.relative_position_bias_table"] = \
            tables[i]
    case("hf_beit", s, t, "beit", eps="1e-12", config=hf_config("beit"),
         twin_options="pool=avg rope_type=none img_size=4 crop_mode=squash crop_pct=0.875" + DOWN)


# --- timm's differential attention and parallel blocks ---

def write_parallel():
    told = "--set num_heads=2 --set norm_eps=1e-6 --set activation=gelu"
    n, t = Numbers(29), model(seed=29)
    lambdas = [[n(HEAD // 2) for _ in range(4)] for _ in range(DEPTH)]
    norms = [n(HEAD) for _ in range(DEPTH)]
    for i in range(DEPTH):
        first = 0.8 - 0.6 * np.exp(-0.3 * i)
        q1, k1, q2, k2 = (x.astype("f8") for x in lambdas[i])
        t = insert(t, "blocks.%d.attn.qkv.bias" % i, **{
            "blocks__%d__attn__lambda" % i:
                np.array([np.exp(q1 @ k1) - np.exp(q2 @ k2) + first], "f4"),
            "blocks__%d__attn__sub_norm__weight" % i:
                (norms[i].astype("f8") * (1 - first)).astype("f4")})
    s = vit_names(t)
    for i in range(DEPTH):
        a = "blocks.%d.attn." % i
        del s[a + "lambda"]
        s[a + "sub_norm.weight"] = norms[i]
        for name, x in zip(("q1", "k1", "q2", "k2"), lambdas[i]):
            s[a + "lambda_" + name] = x
    case("timm_diff", s, t, "diff", told)
    for i in range(DEPTH):
        for name in ("norm2.weight", "norm2.bias"):
            del t["blocks.%d." % i + name]
        t["blocks.%d.mlp.fc2.bias" % i] = np.zeros(D, "f4")
    s = OrderedDict((k, x) for k, x in vit_names(t).items() if k[:7] != "blocks.")
    for i in range(DEPTH):
        b = "blocks.%d." % i
        move(s, b + "in_norm", t, b + "norm1")
        for part in ("weight", "bias"):
            s[b + "in_proj." + part] = np.concatenate([t[b + "mlp.fc1." + part],
                                                       t[b + "attn.qkv." + part]])
        for name, x in zip(("q1", "k1", "q2", "k2"), lambdas[i]):
            s[b + "lambda_" + name] = x
        s[b + "sub_norm.weight"] = norms[i]
        s[b + "out_proj.weight"] = np.concatenate([t[b + "attn.proj.weight"],
                                                   t[b + "mlp.fc2.weight"]], 1)
        s[b + "out_proj.bias"] = t[b + "attn.proj.bias"]
    case("timm_diff_parallel", s, t, "diff_parallel", told, twin_options="block_type=parallel")
    t = model(qkv_bias=False, ls=True, seed=30)
    for i in range(DEPTH):
        for name in ("norm2.weight", "norm2.bias", "ls2.gamma"):
            del t["blocks.%d." % i + name]
    s = OrderedDict((k, x) for k, x in vit_names(t).items() if k[:7] != "blocks.")
    for i in range(DEPTH):
        b = "blocks.%d." % i
        move(s, b + "in_norm", t, b + "norm1")
        s[b + "in_proj.weight"] = np.concatenate([t[b + "mlp.fc1.weight"],
                                                  t[b + "attn.qkv.weight"]])
        s[b + "mlp_bias"] = t[b + "mlp.fc1.bias"]
        move(s, b + "attn_out_proj", t, b + "attn.proj")
        move(s, b + "mlp_out_proj", t, b + "mlp.fc2")
        s[b + "ls.gamma"] = t[b + "ls1.gamma"]
    case("timm_parallel", s, t, "parallel", told, twin_options="block_type=parallel")


# === Stems ===

STEM = "patch_embed.backbone."


def standardised(w):
    rows = w.reshape(len(w), -1).astype("f8")
    rows = rows - rows.mean(1, keepdims=True)
    return (rows / np.sqrt(rows.var(1, keepdims=True) + 1e-8)).astype("<f4").reshape(w.shape)


def in_order(t):
    """As the file has them: the stem's stages come behind the patch embedding."""
    places = ("cls_token", "pos_embed", STEM + "stem.", STEM + "0.", STEM + "1.",
              "patch_embed.proj.", STEM + "stages.", "")
    return OrderedDict(sorted(t.items(), key=lambda item: [item[0].startswith(p)
                                                           for p in places].index(True)))


def resnet_model(stages=True, width=32):
    """A hybrid's .vit tensors, and the library's tensors that replace those of its stem."""
    n, t, raw = Numbers(31), model(), OrderedDict()

    def conv_norm(conv, norm, out, chans, kernel):
        raw[STEM + conv + ".weight"] = n(out, chans, kernel, kernel)
        put2(raw, STEM + norm, (out,), True, n)

    conv_norm("stem.conv", "stem.norm", width, CHANS, 7)
    if stages:
        unit = "stages.0.blocks.0."
        conv_norm(unit + "downsample.conv", unit + "downsample.norm", 4 * width, width, 1)
        conv_norm(unit + "conv1", unit + "norm1", width, width, 1)
        conv_norm(unit + "conv2", unit + "norm2", width, width, 3)
        conv_norm(unit + "conv3", unit + "norm3", 4 * width, width, 1)
    t["patch_embed.proj.weight"] = n(D, 4 * width if stages else width, 1, 1)
    t.update((k, standardised(v) if v.ndim == 4 else v) for k, v in raw.items())
    return in_order(t), raw


def conv_model(width=D // 4):
    """MobileCLIP-B's .vit tensors, and its convolutions and norms by number."""
    n, t, raw = Numbers(32), model(pos="patches"), []
    t["patch_embed.proj.weight"] = n(D, width, 2, 2)
    t["head.bias"][:] = 0
    for i, (chans, kernel) in enumerate(((CHANS, 4), (width, 2))):
        w, gamma, beta, mean = n(width, chans, kernel, kernel), n(width), n(width), n(width)
        var = np.abs(n(width)) + np.float32(0.5)
        factor = gamma.astype("f8") / np.sqrt(var.astype("f8") + 1e-5)
        t[STEM + "%d.conv.weight" % i] = (w * factor.reshape(-1, 1, 1, 1)).astype("<f4")
        t[STEM + "%d.conv.bias" % i] = (beta - mean * factor).astype("<f4")
        raw.append(OrderedDict((("conv.weight", w), ("norm.weight", gamma), ("norm.bias", beta),
                                ("norm.running_mean", mean), ("norm.running_var", var),
                                ("norm.num_batches_tracked", np.array(7, "<f4")))))
    return in_order(t), raw


def without(t, start):
    return OrderedDict((k, v) for k, v in t.items() if not k.startswith(start))


def write_mobileclip():
    t, raw = conv_model()
    s = without(t, "patch_embed.")
    for i, tensors in enumerate(raw):
        for k, v in tensors.items(): s[STEM + "%d.%s" % (i, k.replace("norm.", "bn."))] = v
    s[STEM + "2.conv.weight"], s[STEM + "2.conv.bias"] = (t["patch_embed.proj.weight"],
                                                          t["patch_embed.proj.bias"])
    case("timm_mci", s, t, "mobileclip", "--set num_heads=2 --set norm_eps=1e-6 "
         "--set activation=gelu", twin_options="positions=patches")
    s, prefix = OrderedDict(), "image_encoder.model."
    for i, tensors in enumerate(raw):
        for k, v in tensors.items(): s[prefix + "patch_emb.%d.block.%s" % (i, k)] = v
    for k, v in without(t, "patch_embed.").items():
        for old, new in (("blocks.", "transformer."), ("norm1", "pre_norm_mha.0"),
                         ("attn.qkv", "pre_norm_mha.1.qkv_proj"),
                         ("attn.proj", "pre_norm_mha.1.out_proj"), ("norm2", "pre_norm_ffn.0"),
                         ("mlp.fc1", "pre_norm_ffn.1"), ("mlp.fc2", "pre_norm_ffn.4")):
            k = k.replace(old, new)
        if k.startswith("norm."): k = "post_transformer_" + k
        if k == "pos_embed": k, v = "pos_embed.pos_embed.pos_embed", v[None]
        if k == "head.weight": k, v = "classifier.proj", v.T
        if k != "head.bias": s[prefix + k] = v
    s[prefix + "patch_emb.2.block.conv.weight"] = t["patch_embed.proj.weight"]
    s[prefix + "patch_emb.2.block.conv.bias"] = t["patch_embed.proj.bias"]
    s["text_encoder.embedding_layer.weight"], s["logit_scale"] = np.zeros((2, 2)), np.array(1.0)
    case("mobileclip", s, t, "mobileclip", "--set num_heads=2", eps="1e-5",
         twin_options="positions=patches mean=0 std=1 crop_pct=1 interpolation=bilinear")
    s = OrderedDict(s)
    del s[prefix + "patch_emb.1.block.norm.running_var"]
    case("mobileclip_incomplete", s, "patch_emb.1.block.norm.running_var is missing", None,
         "--set num_heads=2")


# === vit.cpp ===

def quantise(x, kind):
    """Returns the bytes of ggml's blocks of 32, and the numbers that they represent."""
    data, back = b"", []
    for block in x.reshape(-1, 32).astype("f8"):
        low, high = block.min(), block.max()
        bits = int(kind[1])
        has_minimum = kind[3] == "1"
        scale = (high - low) / (2 ** bits - 1) if has_minimum else \
            np.abs(block).max() / (2 ** (bits - 1) - 1)
        scale, low = np.float16(scale), np.float16(low)
        zero = 0 if has_minimum or bits == 8 else 2 ** (bits - 1)
        shift = float(low) if has_minimum else 0.0
        q = np.round((block - shift) / float(scale)).astype(int) + zero
        q = q.clip(-128 if bits == 8 else 0, 127 if bits == 8 else 2 ** bits - 1)
        data += scale.tobytes() + (low.tobytes() if has_minimum else b"")
        if bits == 8:
            data += q.astype("i1").tobytes()
        else:
            if bits == 5:
                data += struct.pack("<I", sum(int(v >> 4) << i for i, v in enumerate(q)))
            data += bytes(int(a & 15) | int(b & 15) << 4 for a, b in zip(q[:16], q[16:]))
        values = (q - zero).astype("f4") * np.float32(scale)
        back.append(values + np.float32(low) if has_minimum else values)
    return data, np.array(back, "<f4").reshape(x.shape)


GGML = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}


def vit_cpp(path, tensors):
    types = tensors.pop("types")
    with open(path, "wb") as f:
        f.write(struct.pack("<8i", 0x67676d6c, len(tensors["norm.weight"]), DEPTH, HEADS, CLASSES, PATCH, GRID * PATCH, 1))
        f.write(struct.pack("<i", CLASSES))
        for i in range(CLASSES):
            text = b"class %d" % i
            f.write(struct.pack("<2i", i, len(text)) + text)
        for name, x in tensors.items():
            if name.endswith(".data"): continue
            kind = types.get(name, "f32")
            shape = (1, len(x), 1, 1) if name == "patch_embed.proj.bias" else x.shape
            f.write(struct.pack("<3i", len(shape), len(name), GGML[kind]))
            f.write(struct.pack("<%di" % len(shape), *reversed(shape)) + name.encode())
            if kind[0] == "q": f.write(tensors[name + ".data"])
            else: f.write(x.astype("<f2" if kind == "f16" else "<f4").tobytes())


def quantised_model():
    """Returns tensors with the bytes of their blocks, the types, and the values of the blocks."""
    global D, HEAD, MLP
    before = D, HEAD, MLP
    D, HEAD, MLP = 32, 16, 32
    t = model(seed=12)
    D, HEAD, MLP = before
    types = {"patch_embed.proj.weight": "f16", "blocks.0.attn.qkv.weight": "q4_0",
             "blocks.0.attn.proj.weight": "q4_1", "blocks.0.mlp.fc1.weight": "q5_0",
             "blocks.0.mlp.fc2.weight": "q5_1", "blocks.1.attn.qkv.weight": "q8_0",
             "blocks.1.attn.proj.weight": "f16", "head.weight": "q8_0"}
    s = OrderedDict()
    for name in t:
        kind = types.get(name, "f32")
        if kind[0] == "q":
            data, t[name] = quantise(t[name], kind)
            s[name + ".data"] = data
        elif kind == "f16":
            t[name] = t[name].astype("f2").astype("<f4")
        s[name] = t[name]
    return s, types, t


def write_vit_cpp():
    s, s["types"], t = quantised_model()
    case("vit_cpp", s, t, "quantised", "--set norm_eps=1e-6", write=vit_cpp, suffix="gguf")


# === GGUF ===

def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(x):
    """The number of its type, and its bytes."""
    if isinstance(x, bool): return 7, struct.pack("<?", x)
    if isinstance(x, int): return 4, struct.pack("<I", x)
    if isinstance(x, float): return 6, struct.pack("<f", x)
    if isinstance(x, str): return 8, gguf_text(x)
    items = [gguf_value(item) for item in x]
    return 9, struct.pack("<IQ", items[0][0], len(items)) + b"".join(data for _, data in items)


def gguf(path, tensors):
    """The tensors; "pairs": the metadata; "types": of those that are not f32, with .data."""
    pairs, types = tensors.pop("pairs"), tensors.pop("types", {})
    infos, blob, count = b"", b"", 0
    for name, x in tensors.items():
        if name.endswith(".data"): continue
        x = np.asarray(x, "<f4")
        kind = types.get(name, "f32")
        blob += b"\0" * (-len(blob) % 32)
        infos += gguf_text(name) + struct.pack("<I%dQ" % x.ndim, x.ndim, *reversed(x.shape))
        infos += struct.pack("<IQ", GGML[kind], len(blob))
        blob += (tensors[name + ".data"] if kind[0] == "q" else bfloat16(x).tobytes()
                 if kind == "bf16" else x.astype("<f2" if kind == "f16" else "<f4").tobytes())
        count += 1
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(pairs))
    for key, x in pairs.items():
        kind, data = gguf_value(x)
        head += gguf_text(key) + struct.pack("<I", kind) + data
    head += infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + blob)


# clip.cpp calls the first layer of an MLP "down". Since 2025 llama.cpp calls it "up".
OLD_MLP = (("mlp.fc1", "ffn_down"), ("mlp.fc2", "ffn_up"))
NEW_MLP = (("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"))


def gguf_tower(t, mlp):
    """The names that clip.cpp makes from those of transformers, without dimensions of 1."""
    s = OrderedDict()
    for name, x in hf_tower(t, "vision_model.").items():
        for old, new in (("vision_model", "v"), ("encoder.layers", "blk"), ("embeddings.", ""),
                         ("_proj", ""), ("self_attn.", "attn_"), ("layer_norm", "ln"),
                         ("layernorm", "ln"), ("embedding", "embd"), ("layrnorm", "ln")) + mlp:
            name = name.replace(old, new)
        s[name] = x.squeeze()
    return s


def clip_pairs(projector=None, depth=DEPTH, eps=1e-5, act="clip.use_gelu", on=False, **more):
    v = "clip.vision."
    pairs = OrderedDict([
        ("general.architecture", "clip"), ("clip.has_vision_encoder", True),
        ("general.name", "a model"), ("tokenizer.ggml.tokens", ["a", "b</w>", ""]),
        (v + "image_size", GRID * PATCH), (v + "patch_size", PATCH), (v + "embedding_length", D),
        (v + "feed_forward_length", MLP), (v + "projection_dim", CLASSES),
        (v + "attention.head_count", HEADS), (v + "attention.layer_norm_epsilon", eps),
        (v + "block_count", depth), (v + "image_mean", [0.48145466, 0.4578275, 0.40821073]),
        (v + "image_std", [0.26862954, 0.26130258, 0.27577711]), (act, on)])
    if projector: pairs["clip.projector_type"] = projector
    pairs.update(more)
    return pairs


def gguf_norm(x, s, name, eps):
    x = x - x.mean(-1, keepdims=True)
    x /= np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * s[name + ".weight"] + s[name + ".bias"]


def gguf_block(x, s, b, eps, act):
    """As transformers and InternVL have it: pre-norm, perhaps with LayerScale."""
    def layer(x, name): return x @ s[b + name + ".weight"].T + s[b + name + ".bias"]
    def scale(x, name): return x * s.get(b + name + ".weight", 1)
    y = gguf_norm(x, s, b + "ln1", eps)
    q, k, v = (layer(y, "attn_" + c).reshape(-1, HEADS, HEAD).swapaxes(0, 1) for c in "qkv")
    a = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(HEAD))
    a = (a / a.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(-1, D)
    x = x + scale(layer(a, "attn_out"), "ls1")
    up, down = ("ffn_up", "ffn_down") if s[b + "ffn_up.weight"].shape[1] == D else (
        "ffn_down", "ffn_up")
    return x + scale(layer(act(layer(gguf_norm(x, s, b + "ln2", eps), up)), down), "ls2")


def write_pair(name, s, pool, activation, eps):
    """Writes an input, and the tower's output in double precision: x.npy and y.npy."""
    s = {k: np.asarray(x, "f8") for k, x in s.items() if k != "pairs"}
    act = {"quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
           "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
           "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) *
                                                       (x + 0.044715 * x ** 3)))}[activation]
    image = Numbers(34)(1, CHANS, GRID * PATCH, GRID * PATCH)
    cut = image[0].reshape(CHANS, GRID, PATCH, GRID, PATCH).transpose(1, 3, 0, 2, 4)
    x = cut.reshape(PATCHES, -1) @ s["v.patch_embd.weight"].reshape(D, -1).T
    x = x + s.get("v.patch_embd.bias", 0)
    if "v.class_embd" in s: x = np.concatenate([s["v.class_embd"][None], x])
    x = x + s["v.position_embd.weight"]
    if "v.pre_ln.weight" in s: x = gguf_norm(x, s, "v.pre_ln", eps)
    for i in range(DEPTH): x = gguf_block(x, s, "v.blk.%d." % i, eps, act)
    if "v.post_ln.weight" in s: x = gguf_norm(x, s, "v.post_ln", eps)
    y = x[:1] if pool == "token" else x.mean(0, keepdims=True)
    if "visual_projection.weight" in s: y = y @ s["visual_projection.weight"].T
    np.save(os.path.join(folder(name), "x.npy"), image)
    np.save(os.path.join(folder(name), "y.npy"), y.astype("<f4"))


def write_gguf():
    plain = "crop_pct=1 mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711 "
    file = {"write": gguf, "suffix": "gguf"}
    projector = {"mm.0.weight": np.ones((3, D), "f4"), "mm.0.bias": np.ones(3, "f4"),
                 "mm.2.weight": np.ones((3, 3), "f4"), "mm.2.bias": np.ones(3, "f4")}
    # these GGUF files need the same twins as the safetensors files of their models
    t = without_bias(clip_model())
    s = gguf_tower(t, OLD_MLP)
    s["visual_projection.weight"] = t["head.weight"]
    s["t.token_embd.weight"], s["text_projection.weight"] = np.zeros((3, D)), np.zeros((D, D))
    s["pairs"] = clip_pairs()
    write_pair("gguf_clip", s, "token", "quick_gelu", 1e-5)
    case("gguf_clip", s, t, "clip", eps="1e-5", act="quick_gelu", twin_options=plain, **file)
    t = model(cls=False, pool="map", classes=0, seed=7)
    s = gguf_tower(t, OLD_MLP)
    s["pairs"] = clip_pairs(eps=1e-6)
    case("gguf_siglip", s, t, "map", "--set activation=gelu_tanh", act="gelu_tanh",
         twin_options=plain + "crop_mode=squash", **file)
    s["pairs"] = clip_pairs(eps=1e-6)
    case("gguf_siglip_untold", s, "activation: not stored in a checkpoint of llama.cpp; give "
         "--set activation=gelu_tanh (SigLIP), quick_gelu (CLIP) or gelu", None, **file)
    t = model(cls=False, classes=0, seed=32)
    s = gguf_tower(t, NEW_MLP)
    s.update(projector)
    s["pairs"] = clip_pairs("gemma3", eps=1e-6, on=True)
    write_pair("gguf_gemma3", s, "avg", "gelu_tanh", 1e-6)
    case("gguf_gemma3", s, t, "siglip", act="gelu_tanh",
         twin_options=plain + "crop_mode=squash pool=avg", **file)
    # LLaVA drops the last block and the last norm; some files keep the block
    t = clip_model(final_norm=False, classes=0)
    s = gguf_tower(t, OLD_MLP)
    s.update(projector)
    s["model.image_newline"] = np.ones(D)
    for name in list(s):
        if name.startswith("v.blk.0."): s[name.replace("blk.0", "blk.2")] = s[name]
    s["pairs"] = clip_pairs("mlp", **{"clip.has_llava_projector": True})
    write_pair("gguf_llava", s, "token", "quick_gelu", 1e-5)
    case("gguf_llava", s, t, "llava", eps="1e-5", act="quick_gelu",
         twin_options=plain + "has_final_norm=0", **file)
    t = model(ls=True, final_norm=False, classes=0, seed=33)
    s = gguf_tower(t, NEW_MLP)
    for i in range(DEPTH):
        for part in ("ls1", "ls2"):
            s["v.blk.%d.%s.weight" % (i, part)] = t["blocks.%d.%s.gamma" % (i, part)]
    s.update(projector)
    s["pairs"] = clip_pairs("internvl", eps=1e-6, on=True)
    write_pair("gguf_internvl", s, "token", "gelu", 1e-6)
    case("gguf_internvl", s, t, "internvl", twin_options=plain + "has_final_norm=0", **file)
    t = model(ls=True, pool="token_avg", seed=2)
    s = hf_dinov2(t, "dinov2.", t["pos_embed"], t["cls_token"])
    s = OrderedDict((k[7:] if k.startswith("dinov2.") else k, x) for k, x in s.items()
                    if ".attention.attention." not in k and "mask_token" not in k)
    for i in range(DEPTH):
        move(s, "encoder.layer.%d.attention.attention.qkv" % i, t, "blocks.%d.attn.qkv" % i)
    bias = "embeddings.patch_embeddings.projection.bias"
    s[bias] = s[bias].reshape(1, D, 1, 1)
    s["pairs"] = OrderedDict([("general.architecture", "dinov2")] +
                             [(str(i), "class %d" % i) for i in range(CLASSES)])
    s["pairs"].update({"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS,
                       "num_classes": CLASSES, "patch_size": PATCH, "img_size": GRID * PATCH,
                       "ftype": 1, "num_register_tokens": 0})
    case("gguf_dinov2", s, t, "dinov2",
         twin_options=IMAGENET + "crop_pct=0.875 pos_resample=transformers", **file)
    quantised, types, t = quantised_model()
    types.update({"norm.weight": "bf16"})
    quantised["types"], quantised["pairs"] = types, {"general.architecture": "vit"}
    case("gguf_quantised", quantised, t, "quantised", "--set num_heads=2 --set norm_eps=1e-6",
         **file)
    write_gguf_refusals(file, projector)


def write_gguf_refusals(file, projector):
    for name, kind, why in (
            ("qwen", "qwen2.5vl_merger", "clip.projector_type qwen2.5vl_merger: expected the image "
             "encoder of a plain ViT, found attention in windows"),
            ("minicpm", "resampler", "found positions that depend on the photo's aspect ratio"),
            ("unknown", "new_one", "clip.projector_type new_one: expected the image encoder of a "
             "plain ViT, found a type that this version does not support")):
        s = gguf_tower(clip_model(), NEW_MLP)
        s["pairs"] = clip_pairs(kind)
        case("gguf_" + name, s, why, None, **file)
    s = gguf_tower(clip_model(), NEW_MLP)
    s["pairs"] = clip_pairs("mlp", depth=3)
    case("gguf_depth", s, "the header has depth 3, but the tensors have 2", None,
         "--set norm_eps=1e-5 --set activation=quick_gelu", **file)
    s["pairs"] = clip_pairs("mlp", on=True, **{"clip.use_silu": True})
    case("gguf_two", s, "clip.use_gelu and clip.use_silu exclude each other", None, **file)
    s["pairs"] = clip_pairs("mlp", **{"clip.has_vision_encoder": False})
    case("gguf_sound", s, "clip.has_vision_encoder is false: expected an image encoder", None,
         **file)
    s = OrderedDict([("token_embd.weight", np.ones((2, D))), ("blk.0.attn_q.weight", np.eye(D))])
    s["pairs"] = {"general.architecture": "llama"}
    case("gguf_language", s, "a language model (llama): expected the file of its image encoder", None, **file)
    s = gguf_tower(clip_model(), NEW_MLP)
    for i in range(DEPTH):
        for part in ("up", "down"):
            s["v.blk.%d.ffn_%s.weight" % (i, part)] = np.eye(D, dtype="f4")
            s["v.blk.%d.ffn_%s.bias" % (i, part)] = np.ones(D)
    s["pairs"] = clip_pairs("mlp")
    case("gguf_square", s, "v.blk.0.ffn_up.weight: the matrix is square, so its shape does not tell the "
         "first layer of the MLP from the second", None, **file)


def naflex(t, factors=None):
    """timm's NaFlexVit: a linear layer over channels-last patches; positions as a grid."""
    s = OrderedDict()
    s["embeds.reg_token"] = t["reg_token"]
    if factors: s["embeds.pos_embed_y"], s["embeds.pos_embed_x"] = factors
    else: s["embeds.pos_embed"] = t["pos_embed"].reshape(1, GRID, GRID, D)
    s["embeds.proj.weight"] = t["patch_embed.proj.weight"].transpose(0, 2, 3, 1).reshape(D, -1)
    s["embeds.proj.bias"] = t["patch_embed.proj.bias"]
    s.update((k, v) for k, v in t.items() if k.startswith(("blocks.", "norm.", "fc_norm.", "head.")))
    return s


def write_naflex():
    t = model(cls=False, reg=4, pos="patches", ls=True, final_norm=False, fc_norm=True, seed=61)
    told = "--set num_heads=2 --set activation=gelu --set pos_resample="
    twin = ("pool=avg dynamic_img_size=1 crop_mode=aspect crop_pct=1 max_patches=576 mean=0.5 std=0.5 "
            "positions=patches pos_resample=")
    case("timm_naflex", naflex(t), t, "naflex", told + "par", twin_options=twin + "par")
    case("timm_naflex_untold", naflex(t), "pos_resample", "", "--set num_heads=2 --set activation=gelu")
    n = Numbers(62)
    y, x = n(1, GRID, D), n(1, GRID, D)
    u = OrderedDict(t)
    u["pos_embed"] = (y[0][:, None] + x[0][None]).reshape(1, PATCHES, D)
    case("timm_naflex_parfac", naflex(u, (y, x)), u, "naflex_parfac", told + "parfac",
         twin_options=twin + "parfac")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    torch.manual_seed(0)
    for write in (write_hf, write_dinov2, write_towers, write_torchvision, write_torch_nn,
                  write_lucidrains, write_einops, write_courses, write_open_clip, write_jax,
                  write_radio, write_qwen, write_nomic, write_vjepa2, write_aimv2, write_hf_aimv2,
                  write_beit3, write_timm, write_mobileclip, write_rotary, write_perception, write_beit,
                  write_parallel, write_vit_cpp, write_gguf, write_naflex):
        write()
    with open(os.path.join(OUT, "cases.txt"), "w") as f:
        f.write("\n".join(cases) + "\n")


if __name__ == "__main__":
    main()
