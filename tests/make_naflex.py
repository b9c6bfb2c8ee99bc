#!/usr/bin/python3
"""Writes tests/data/naflex: a vision tower of SigLIP 2 NaFlex, photos, and their embeddings by PyTorch:
y.npy of at most 256 patches, y300.npy of 300, and the tokens
of 100 with their mean.

    /usr/bin/python3 tests/make_naflex.py [TIMM DINOV2 DINOV3]
                                                              (Debian: python3-torch, python3-pil)

Run it from the root of the repository. For authoring only. The forward pass is written after the
definition in transformers (Siglip2VisionModel, Siglip2ImageProcessor). With the trees of
timm, facebookresearch/dinov2 and facebookresearch/dinov3, it also writes tests/data/naflexvit and
tests/data/dense: small models that their code built and ran, with tokens and logits.
"""
import functools
import json
import math
import os
import struct
import sys
import unittest.mock

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

OUT = os.path.join("tests", "data", "naflex")
DIM, HEADS, DEPTH, MLP, PATCH, GRID = 16, 2, 2, 24, 4, 16
PHOTOS = (("wide", 97, 33), ("tall", 21, 80), ("square", 64, 64), ("thin", 200, 3))


def tensors():
    rng = np.random.default_rng(11)
    out = {}

    def add(name, *shape, scale=0.3, plus=0.0):
        out["vision_model." + name] = (scale * rng.standard_normal(shape) + plus).astype("f4")

    def layer(name, rows, columns):
        add(name + ".weight", rows, columns)
        add(name + ".bias", rows)

    def norm(name):
        add(name + ".weight", DIM, plus=1.0)
        add(name + ".bias", DIM)

    layer("embeddings.patch_embedding", DIM, 3 * PATCH * PATCH)
    add("embeddings.position_embedding.weight", GRID * GRID, DIM, scale=1.0)
    for i in range(DEPTH):
        block = "encoder.layers.%d." % i
        for part in "qkv":
            layer(block + "self_attn.%s_proj" % part, DIM, DIM)
        layer(block + "self_attn.out_proj", DIM, DIM)
        norm(block + "layer_norm1")
        norm(block + "layer_norm2")
        layer(block + "mlp.fc1", MLP, DIM)
        layer(block + "mlp.fc2", DIM, MLP)
    norm("post_layernorm")
    add("head.probe", 1, 1, DIM)
    add("head.attention.in_proj_weight", 3 * DIM, DIM)
    add("head.attention.in_proj_bias", 3 * DIM)
    layer("head.attention.out_proj", DIM, DIM)
    norm("head.layernorm")
    layer("head.mlp.fc1", MLP, DIM)
    layer("head.mlp.fc2", DIM, MLP)
    return out


def fitted(height, width, most):
    """Returns the sides in pixels at the largest scale, found by halving, with at most that many
    patches."""
    def side(x, scale):
        return max(PATCH, math.ceil(x * scale / PATCH) * PATCH)

    low, high = 1e-6, 100.0
    while high - low >= 1e-5:
        scale = (low + high) / 2
        if side(height, scale) * side(width, scale) <= most * PATCH ** 2:
            low = scale
        else:
            high = scale
    return side(height, low), side(width, low)


class Tower:
    def __init__(self, values):
        self.values = {k[len("vision_model."):]: torch.tensor(v) for k, v in values.items()}

    def linear(self, x, name):
        return x @ self.values[name + ".weight"].T + self.values[name + ".bias"]

    def norm(self, x, name):
        return F.layer_norm(x, (DIM,), self.values[name + ".weight"], self.values[name + ".bias"], 1e-6)

    def mlp(self, x, name):
        return self.linear(F.gelu(self.linear(x, name + ".fc1"), approximate="tanh"), name + ".fc2")

    @staticmethod
    def attention(q, k, v):
        q, k, v = (t.reshape(len(t), HEADS, -1).transpose(0, 1) for t in (q, k, v))
        weights = (q @ k.transpose(1, 2) * (DIM // HEADS) ** -0.5).softmax(-1)
        return (weights @ v).transpose(0, 1).reshape(q.shape[1], DIM)

    def positions(self, rows, columns):
        table = self.values["embeddings.position_embedding.weight"].reshape(GRID, GRID, DIM)
        out = F.interpolate(table.permute(2, 0, 1)[None], size=(rows, columns), mode="bilinear",
                            align_corners=False, antialias=True)
        return out[0].reshape(DIM, -1).T

    def embed(self, photo, most):
        """The tokens after the last norm, and the embedding."""
        height, width = fitted(photo.height, photo.width, most)
        x = np.asarray(photo.resize((width, height), Image.BILINEAR)).astype("f4") / 255
        rows, columns = height // PATCH, width // PATCH
        x = ((x - 0.5) / 0.5).reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 1, 3, 4)
        x = self.linear(torch.tensor(x.reshape(rows * columns, -1)), "embeddings.patch_embedding")
        x = x + self.positions(rows, columns)
        for i in range(DEPTH):
            block = "encoder.layers.%d." % i
            y = self.norm(x, block + "layer_norm1")
            y = self.attention(*(self.linear(y, block + "self_attn.%s_proj" % p) for p in "qkv"))
            x = x + self.linear(y, block + "self_attn.out_proj")
            x = x + self.mlp(self.norm(x, block + "layer_norm2"), block + "mlp")
        x = self.norm(x, "post_layernorm")
        w, b = self.values["head.attention.in_proj_weight"], self.values["head.attention.in_proj_bias"]
        parts = [t @ w[i * DIM:(i + 1) * DIM].T + b[i * DIM:(i + 1) * DIM]
                 for i, t in enumerate((self.values["head.probe"][0], x, x))]
        y = self.linear(self.attention(*parts), "head.attention.out_proj")
        return x, (y + self.mlp(self.norm(y, "head.layernorm"), "head.mlp"))[0]


def main():
    os.makedirs(OUT, exist_ok=True)
    values = tensors()
    header, at = {}, 0
    for name, v in values.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(OUT, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in values.values()))
    with open(os.path.join(OUT, "config.json"), "w") as f:
        json.dump({"model_type": "siglip2", "vision_config": {"num_attention_heads": HEADS}}, f)
    with open(os.path.join(OUT, "preprocessor_config.json"), "w") as f:
        json.dump({"image_processor_type": "Siglip2ImageProcessor", "max_num_patches": GRID * GRID,
                   "patch_size": PATCH, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, f)
    rng = np.random.default_rng(12)
    rows, rows300, tokens, means = [], [], [], []
    for name, width, height in PHOTOS:
        photo = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        photo.save(os.path.join(OUT, name + ".ppm"))
        tower = Tower(values)
        rows.append(tower.embed(photo, GRID * GRID)[1].numpy())
        rows300.append(tower.embed(photo, 300)[1].numpy())
        few = tower.embed(photo, 100)[0].numpy()
        means.append(few.mean(0))
        tokens.append(np.pad(few, ((0, 100 - len(few)), (0, 0))))
    np.save(os.path.join(OUT, "y.npy"), np.array(rows, "f4"))
    np.save(os.path.join(OUT, "y300.npy"), np.array(rows300, "f4"))
    np.save(os.path.join(OUT, "tokens100.npy"), np.array(tokens, "f4"))
    np.save(os.path.join(OUT, "mean100.npy"), np.array(means, "f4"))


# Everything small, for the code of each kind of naflexvit.
SMALL = dict(embed_dim=16, depth=2, num_heads=2, patch_size=4, pos_embed_grid_size=(5, 5), init_values=0.1)
GAP = dict(SMALL, global_pool="avg", reg_tokens=4, fc_norm=True)
VARIANTS = {
    "naflexvit_base_patch16_gap": GAP,
    "naflexvit_base_patch16_par_gap": dict(GAP, pos_embed_ar_preserving=True),
    "naflexvit_base_patch16_parfac_gap": dict(GAP, pos_embed_ar_preserving=True, pos_embed="factorized"),
    "naflexvit_so150m2_patch16_reg1_map": dict(SMALL, mlp_ratio=34 / 13, qkv_bias=False, reg_tokens=1,
                                               global_pool="map"),
    "naflexvit_base_patch16_siglip": dict(SMALL, init_values=None, act_layer="gelu_tanh",
                                          global_pool="map"),
}
MOST = 40


def naflexvit(path):
    from make_coverage import import_timm
    from make_layouts import safetensors

    import_timm(path)
    from timm.data.naflex_transforms import get_image_size_for_seq
    from timm.models.naflexvit import NaFlexVit, NaFlexVitCfg

    photos = [Image.open(os.path.join(OUT, name + ".ppm")) for name, _, _ in PHOTOS]
    for name, options in VARIANTS.items():
        torch.manual_seed(7)
        classes = 0 if "siglip" in name else 5
        net = NaFlexVit(NaFlexVitCfg(**options), num_classes=classes).eval()
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(p + 0.3 * torch.randn(p.shape))
        folder = os.path.join("tests", "data", "naflexvit", name)
        os.makedirs(folder, exist_ok=True)
        safetensors(os.path.join(folder, "model.safetensors"), {k: v.numpy() for k, v in net.state_dict().items()})
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"architecture": name, "num_classes": classes, "pretrained_cfg": {
                "tag": "untrained", "input_size": [3, 5 * PATCH, MOST // 5 * PATCH], "crop_pct": 1.0, "interpolation": "bicubic",
                "mean": [0.5] * 3, "std": [0.5] * 3}, "model_args": {
                    k: options[k] for k in ("embed_dim", "depth", "num_heads", "patch_size", "mlp_ratio")
                    if k in options}}, f)
        tokens, outputs = [], []
        for photo in photos:
            _, (height, width) = get_image_size_for_seq((photo.height, photo.width), PATCH, MOST)
            x = np.asarray(photo.resize((width, height), Image.BICUBIC)).astype("f4") / 255
            rows, columns = height // PATCH, width // PATCH
            x = (x - 0.5) / 0.5
            x = x.reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 1, 3, 4).reshape(1, rows * columns, -1)
            y, x_at = np.mgrid[:rows, :columns]
            coord = torch.tensor(np.stack([y.ravel(), x_at.ravel()], -1))[None]
            with torch.no_grad():
                features = net.forward_features(torch.tensor(x), patch_coord=coord,
                                                patch_valid=torch.ones(1, rows * columns, dtype=torch.bool))
                if isinstance(features, dict): features = features["patches"]
                outputs.append(net.forward_head(features)[0].numpy())
            t = features[0].numpy()
            tokens.append(np.pad(t, ((0, MOST + net.num_prefix_tokens - len(t)), (0, 0))))
        np.save(os.path.join(folder, "tokens.npy"), np.array(tokens, "f4"))
        np.save(os.path.join(folder, "y.npy"), np.array(outputs, "f4"))


def attention(q, k, v, **options):
    """PyTorch has it from 2.0 on."""
    return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v


def dense(dinov2, dinov3):
    from make_layouts import safetensors

    sys.path[:0] = [dinov2, dinov3]
    if not hasattr(torch, "_dynamo"):   # before PyTorch 2
        torch._dynamo = torch.compiler = unittest.mock.MagicMock()
        torch.compile = lambda f=None, **options: f or (lambda g: g)
        F.scaled_dot_product_attention = attention
    from dinov2.models import vision_transformer as two
    from dinov3.models import vision_transformer as three

    size = dict(img_size=20, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS)
    block = functools.partial(two.Block, attn_class=two.MemEffAttention)
    nets = {
        "dinov2": two.DinoVisionTransformer(**size, init_values=0.1, block_chunks=0, block_fn=block,
                                            interpolate_antialias=False, interpolate_offset=0.1),
        "dinov2_reg": two.DinoVisionTransformer(**size, init_values=0.1, block_chunks=0, block_fn=block,
                                                num_register_tokens=4, interpolate_antialias=True,
                                                interpolate_offset=0.0),
        "dinov3": three.DinoVisionTransformer(**size, layerscale_init=0.1, n_storage_tokens=4,
                                              mask_k_bias=True, norm_layer="layernormbf16",
                                              pos_embed_rope_dtype="fp32"),
    }
    photos = [Image.open(os.path.join(OUT, name + ".ppm")) for name, _, _ in PHOTOS]
    nets["dinov3"].init_weights()
    for name, net in nets.items():
        torch.manual_seed(8)
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(p + 0.3 * torch.randn(p.shape))
        net.eval()
        folder = os.path.join("tests", "data", "dense", name)
        os.makedirs(folder, exist_ok=True)
        safetensors(os.path.join(folder, "model.safetensors"), {k: v.numpy() for k, v in net.state_dict().items()})
        tokens = []
        for photo in photos:
            height, width = fitted(photo.height, photo.width, MOST)
            x = np.asarray(photo.resize((width, height), Image.BICUBIC)).astype("f4") / 255
            x = (x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
            with torch.no_grad():
                y = net.forward_features(torch.tensor(x.transpose(2, 0, 1)[None].astype("f4")))
            registers = y.get("x_norm_regtokens", y.get("x_storage_tokens"))
            t = torch.cat([y["x_norm_clstoken"][:, None], registers, y["x_norm_patchtokens"]], 1)[0].numpy()
            tokens.append(np.pad(t, ((0, MOST + 1 + registers.shape[1] - len(t)), (0, 0))))
        np.save(os.path.join(folder, "tokens.npy"), np.array(tokens, "f4"))


main()
if len(sys.argv) > 3:
    naflexvit(sys.argv[1])
    dense(*sys.argv[2:])
