#!/usr/bin/python3
"""Writes tests/data/fixtures: small random models with every intermediate tensor, by PyTorch.

For authoring only: its output is committed, and the tests need no Python. Run it from any folder:

    /usr/bin/python3 tests/make_fixtures.py [CASE...]

One folder for each case of CASES, or for those named:

    model.safetensors, model.pth (zip) or model_legacy.pth    the checkpoint, timm's names
    config.json              in the form of timm's pages on the Hugging Face hub
    options                  further arguments for vit-convert, one word a line (if any)
    size                     "HxW" of the images, if not the input size of the file
    expected.safetensors     logits and embedding of 5 images, every traced tensor of the first
                             2 (names as in vit.h), attention.1 .. attention.L

The input images are not stored. Pixel i of image b comes from a 32-bit LCG (see image());
fixture_image() in tests/test_parity.c does the same.

The same run writes the same bytes, except for the names of storages in legacy checkpoints, which
PyTorch makes from memory addresses.

Every tensor is computed in float32 and again in float64. The two must agree to 2e-6 of the
tensor's maximum, so that no numerically unstable fixture is committed.
"""
import json
import math
import os
import struct
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from make_resample import WAYS, other_channels, other_patch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "fixtures")
IMAGES = 5
FLEXIVIT = 3    # place in WAYS

BASE = dict(img=(12, 12), patch=4, chans=3, dim=24, depth=1, heads=2, mlp=4.0, classes=10,
            dist=False, rep=0, qkv_bias=True, qk_scale=None, patch_norm=False,
            patch_pre_norm=False, eps=1e-6, forms=("safetensors",), dtype=torch.float32,
            wrap=None, traced=2, only=None, patch_scale=1.0,
            cls=True, reg=0, pos="all", pre_norm=False, rms=False, block="pre", qk_norm=False,
            attn_norm=False, proj_bias=True, ls=False, act="gelu", gated=None, mlp_norm=False,
            final_norm=True, pool="token", pool_prefix=False, fc_norm=False, head_dim=None,
            run=None, pad=False, adapt=None, rep_act="tanh", attend="all", cut="squares", stride=0)

CASES = {
    "plain":          dict(depth=2, forms=("safetensors", "pth", "legacy")),
    "deep":           dict(depth=4, dim=16, heads=4, img=(8, 8), classes=7),
    "narrow":         dict(depth=2, dim=40, heads=2, patch=3, img=(9, 9), mlp=2.0, traced=1,
                           forms=("legacy",)),
    "headdim72":      dict(dim=72, heads=1, mlp=1.0, dtype=torch.float16, forms=("pth",),
                           traced=1),
    "headdim80":      dict(dim=80, heads=1, mlp=1.0, dtype=torch.bfloat16, traced=1),
    "patch14":        dict(img=(42, 28), patch=14, dim=16, forms=("pth",)),
    "patch7":         dict(img=(30, 30), patch=7),
    "nonsquare":      dict(img=(8, 20), depth=2, forms=("pth",)),
    "remainder":      dict(img=(13, 22), patch=5, dim=20, heads=5),
    "chans1":         dict(chans=1),
    "chans4":         dict(chans=4, forms=("pth",)),
    "chans5":         dict(chans=5, patch=3, img=(9, 12), forms=("legacy",)),
    "classes21":      dict(classes=21),
    "classes1003":    dict(classes=1003, dim=18, heads=3),
    "classes1":       dict(classes=1, dim=16, heads=1, forms=("legacy",)),
    "headless":       dict(classes=0, forms=("pth",)),
    "dist":           dict(dist=True, depth=2, classes=13, forms=("legacy",), wrap="model"),
    "dist_headless":  dict(dist=True, classes=0),
    "representation": dict(rep=37, classes=11, forms=("pth",)),
    "pre_logits_out": dict(rep=24, classes=0),
    "noqkvbias":      dict(qkv_bias=False, forms=("legacy",)),
    "qkscale":        dict(qk_scale=0.11),
    "patchnorm":      dict(patch_norm=True, forms=("pth",)),
    "mlp3":           dict(mlp=3.0),
    "mlp2667":        dict(mlp=2.6667, dim=20, forms=("pth",)),
    "mlp1":           dict(mlp=1.0),
    "eps5":           dict(eps=1e-5, patch_scale=0.002, forms=("legacy",)),
    "eps3":           dict(eps=1e-3, patch_scale=0.02),
    "tokens197":      dict(img=(224, 224), patch=16, dim=16, heads=2, mlp=2.0, traced=1,
                           only=("patch_embed", "blocks.0.attn.context", "blocks.0", "norm",
                                 "head", "logits", "embedding")),
}

# Models with a single option, or with the options of an existing model. Each model has two blocks,
# four patches and one traced image.
SMALL = dict(depth=2, img=(8, 8), dim=20, heads=2, mlp=1.35, classes=6, traced=1)
OPTIONS = {
    "clip":           dict(dim=80, heads=1, mlp=0.6, depth=1, pre_norm=True, act="quick_gelu",
                           eps=1e-5, dtype=torch.float16),
    "siglip":         dict(dim=72, heads=1, mlp=0.6, depth=1, cls=False, pool="map",
                           act="gelu_tanh", classes=0, dtype=torch.float16, forms=("pth",)),
    "siglip_gap":     dict(cls=False, pool="avg", act="gelu_tanh", classes=0),
    "siglip_heads":   dict(cls=False, pool="map", dim=24, heads=3),
    "dinov2":         dict(ls=True, pool="token_avg", forms=("legacy",)),
    "dinov2_reg":     dict(ls=True, reg=4, pos="patches", gated="packed", act="silu", dim=32,
                           heads=1, mlp=1.5, classes=0),
    "aimv2":          dict(cls=False, rms=True, eps=1e-5, gated="split", act="silu",
                           qkv_bias=False, proj_bias=False, patch_norm=True, pool="avg",
                           classes=0),
    "beit3":          dict(attn_norm=True, mlp_norm=True, pool="avg", fc_norm=True,
                           final_norm=False, eps=1e-5),
    "deit3":          dict(ls=True, pos="patches", forms=("pth",)),
    "eva":            dict(pool="avg", fc_norm=True, final_norm=False),
    "sbb":            dict(cls=False, reg=1, pos="patches", ls=True, pool="avg", fc_norm=True,
                           final_norm=False),
    "so150m":         dict(cls=False, reg=4, pool="avg", img=(12, 12)),
    "so150m2":        dict(cls=False, reg=1, ls=True, qkv_bias=False, pool="avg", fc_norm=True,
                           final_norm=False),
    "intern":         dict(ls=True, final_norm=False, classes=0),
    "rpn":            dict(cls=False, block="res", qkv_bias=False, pool="avg", fc_norm=True,
                           final_norm=False),
    "test_vit3":      dict(cls=False, reg=1, ls=True, pool="map", pool_prefix=True),
    "test_vit4":      dict(cls=False, reg=1, ls=True, rms=True, pool="avg", fc_norm=True,
                           final_norm=False),
    "xp":             dict(rms=True, pre_norm=True, pos="patches", qkv_bias=False, qk_norm=True),
    "torch_post":     dict(block="post", act="relu", eps=1e-5, final_norm=False,
                           forms=("legacy",)),
    "torch_post_norm": dict(block="post", pool="avg", ls=True, reg=2),
    "res_rms":        dict(block="res", rms=True, ls=True),
    "qknorm":         dict(qk_norm=True, heads=4),
    "map_reg":        dict(reg=2, pool="map"),
    "map_fc":         dict(cls=False, pool="map", rms=True, fc_norm=True, final_norm=False,
                           proj_bias=False),
    "nopos":          dict(pos="none", reg=2, img=(8, 12)),
    "nonsquare_reg":  dict(pos="patches", reg=1, img=(8, 20), pool="avg"),
    "pool_prefix":    dict(pool="avg", reg=2, pool_prefix=True),
    "pool_max":       dict(pool="max", fc_norm=True, final_norm=False),
    "pool_avgmax":    dict(pool="avgmax", cls=False),
    "silu":           dict(act="silu"),
    "relu":           dict(act="relu", proj_bias=False),
    "geglu_norm":     dict(gated="packed", act="gelu_tanh", mlp_norm=True, mlp=1.7),
    "reglu":          dict(gated="split", act="relu", attn_norm=True, rms=True),
    "dist_reg":       dict(dist=True, reg=3, ls=True),
    "rep_avg":        dict(rep=11, pool="avg"),
    "wide_heads":     dict(heads=3, head_dim=12, qk_norm=True, attn_norm=True),
    "raw_norm":       dict(patch_pre_norm=True, patch_norm=True, img=(9, 12)),
}
CASES.update((case, dict(SMALL, told=True, **changes)) for case, changes in OPTIONS.items())

# timm's dynamic_img_size: the images (run) have another size than the positions (img).
SIZES = {
    "dynamic":        dict(img=(16, 16), run=(24, 12), forms=("pth",)),
    "dynamic_shrink": dict(img=(24, 24), run=(8, 16), cls=False, reg=1, pos="patches", pool="avg"),
    "dynamic_same":   dict(img=(8, 20), run=(8, 23)),
    "dynamic_pad":    dict(img=(12, 12), run=(18, 11), pad=True, reg=1),
    "dynamic_nopos":  dict(img=(12, 12), run=(8, 12), pos="none"),
}
# The new patch size and channels to which the weights are adapted, as timm adapts FlexiViT's:
# (patch, channels).
SIZES.update({
    "flexivit":       dict(img=(12, 12), adapt=(6, 3), pos="patches"),
    "flexivit_small": dict(img=(16, 24), adapt=(3, 1)),
})
CASES.update((case, dict(SMALL, told=True, depth=1, seed=30260 + i, **SIZES[case]))
             for i, case in enumerate(SIZES))

# Options of ViTs that people write themselves.
OWN = {
    "no_mlp":         dict(mlp=0, ls=True),
    "no_mlp_post":    dict(mlp=0, block="post", eps=1e-5),
    "no_mlp_res":     dict(mlp=0, block="res", reg=1, pool="avg", rms=True),
    "self":           dict(attend="self"),
    "self_wide":      dict(attend="self", heads=3, head_dim=12, qkv_bias=False, ls=True, reg=1),
    "self_post":      dict(attend="self", block="post", act="relu", eps=1e-5, pool="avg"),
    "self_res":       dict(attend="self", block="res", mlp=0),
    "rep_none":       dict(rep=11, rep_act="none"),
    "rep_gelu":       dict(rep=13, rep_act="gelu", act="relu", pool="avg"),
    "rep_gelu_tanh":  dict(rep=16, rep_act="gelu_tanh"),
    "rep_quick_gelu": dict(rep=17, rep_act="quick_gelu", classes=0),
    "rep_silu":       dict(rep=9, rep_act="silu", fc_norm=True, final_norm=False),
    "rep_relu":       dict(rep=30, rep_act="relu", mlp=0),
    "interleaved":    dict(img=(8, 12), cut="interleaved"),
    "interleaved_raw": dict(img=(12, 8), cut="interleaved", patch_pre_norm=True),
    "cut_reshape":    dict(img=(8, 12), cut="reshape", chans=2),
    "cut_unfold":     dict(img=(12, 8), cut="unfold"),
    "overlap":        dict(img=(8, 10), stride=2),
    "overlap_odd":    dict(img=(8, 11), stride=3, pos="patches", pool="avg", reg=1),
    "overlap_raw":    dict(img=(5, 6), stride=1, patch_pre_norm=True),
    "overlap_resize": dict(img=(6, 8), stride=2, run=(8, 9)),
    "patch_gaps":     dict(img=(13, 14), stride=5, chans=1),
}
CASES.update((case, dict(SMALL, told=True, seed=40260 + i, **changes))
             for i, (case, changes) in enumerate(OWN.items()))


# --- the model, with timm's names in the state dict ----------------------------------------------

class RmsNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.weight


def norm(c, dim, there=True):
    if not there:
        return nn.Identity()
    return (RmsNorm if c["rms"] else nn.LayerNorm)(dim, eps=c["eps"])


ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "none": lambda x: x,
}


def attn_dim(c):
    return c["heads"] * c["head_dim"] if c["head_dim"] else c["dim"]


def grid_of(c, size):
    step, more = c["stride"] or c["patch"], c["patch"] - 1 if c["pad"] else 0
    return [(side - c["patch"] + more) // step + 1 for side in size]


def cut(x, p, how, stride):
    """[b, N, C P P]: the input of the patch embedding."""
    b, c, height, width = x.shape
    n = (height // p) * (width // p)
    if how == "interleaved":  # b c (p1 h) (p2 w) -> b (h w) (c p1 p2)
        return x.reshape(b, c, p, height // p, p, width // p).permute(0, 3, 5, 1, 2, 4).reshape(
            b, n, -1)
    if how == "reshape":
        return x.reshape(b, n, -1)
    if how == "unfold":
        return x.unfold(2, p, p).unfold(3, p, p).reshape(b, n, -1)
    return F.unfold(x, p, stride=stride).transpose(1, 2)


class PatchEmbed(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.cut = c["cut"]
        self.proj = nn.Conv2d(c["chans"], c["dim"], c["patch"], stride=c["stride"] or c["patch"],
                              bias=not c["pre_norm"])
        self.norm = norm(c, c["dim"], c["patch_norm"])
        self.pad = c["patch"] if c["pad"] else 0
        if c["patch_pre_norm"]:
            self.pre_norm = norm(c, (c["chans"], c["patch"], c["patch"]))

    def forward(self, x, put):
        if self.pad:
            x = F.pad(x, (0, -x.shape[3] % self.pad, 0, -x.shape[2] % self.pad))
        if not hasattr(self, "pre_norm") and self.cut == "squares":
            return self.norm(self.proj(x).flatten(2).transpose(1, 2))
        rows = cut(x, self.proj.kernel_size[0], self.cut, self.proj.stride)
        if hasattr(self, "pre_norm"):
            rows = self.pre_norm(rows.unflatten(-1, self.pre_norm.normalized_shape)).flatten(2)
            put("patch_embed.pre_norm", rows)
        return self.norm(F.linear(rows, self.proj.weight.flatten(1), self.proj.bias))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, width = c["heads"], attn_dim(c)
        self.dim = width // c["heads"]
        self.scale = c["qk_scale"] or self.dim ** -0.5
        self.qkv = nn.Linear(c["dim"], 3 * width, bias=c["qkv_bias"])
        if c["qk_norm"]:
            self.q_norm, self.k_norm = norm(c, self.dim), norm(c, self.dim)
        if c["attn_norm"]:
            self.norm = norm(c, width)
        self.proj = nn.Linear(width, c["dim"], bias=c["proj_bias"])

    def forward(self, x, put):
        b, n, _ = x.shape
        qkv = put("qkv", self.qkv(x))
        q, k, v = qkv.reshape(b, n, 3, self.heads, self.dim).permute(2, 0, 3, 1, 4)
        if hasattr(self, "q_norm"):
            q, k = self.q_norm(q), self.k_norm(k)
            put("qk_norm", torch.stack([q, k, v]).permute(1, 3, 0, 2, 4).reshape(b, n, -1))
        weights = put("softmax", ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1))
        context = put("context", (weights @ v).transpose(1, 2).reshape(b, n, -1))
        if hasattr(self, "norm"):
            context = put("norm", self.norm(context))
        return put("proj", self.proj(context))


class SelfAttention(Attention):
    """Attends over sequences of one token each, like an encoder that takes the batch of one image
    for the sequence."""

    def forward(self, x, put):
        b, n, d = x.shape
        out = super().forward(x.reshape(b * n, 1, d), lambda name, t: t)
        put("softmax", torch.eye(n, dtype=x.dtype).expand(b, self.heads, n, n))
        return put("proj", out.reshape(b, n, d))


class Mlp(nn.Module):
    """Plain; packed: fc1 makes gate and value; split: fc1_g makes the gate, fc1_x the value."""

    def __init__(self, c, gated=None, mlp_norm=False, bias=True):
        super().__init__()
        hidden = int(c["dim"] * c["mlp"])
        self.act, self.gated = ACTIVATIONS[c["act"]], gated
        if gated == "split":
            self.fc1_g = nn.Linear(c["dim"], hidden, bias=bias)
            self.fc1_x = nn.Linear(c["dim"], hidden, bias=bias)
        else:
            self.fc1 = nn.Linear(c["dim"], 2 * hidden if gated else hidden, bias=bias)
        self.fc2 = nn.Linear(hidden, c["dim"], bias=bias)
        if mlp_norm:
            self.norm = norm(c, hidden)

    def forward(self, x, put=lambda name, t: t):
        if self.gated == "split":
            hidden = put("fc1", torch.cat([self.fc1_g(x), self.fc1_x(x)], dim=-1))
        else:
            hidden = put("fc1", self.fc1(x))
        if self.gated:
            gate, value = hidden.chunk(2, dim=-1)
            hidden = put("act", self.act(gate) * value)
        else:
            hidden = put("act", self.act(hidden))
        if hasattr(self, "norm"):
            hidden = put("norm", self.norm(hidden))
        return put("fc2", self.fc2(hidden))


class LayerScale(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(c["dim"]))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.kind = c["block"]
        self.norm1, self.norm2 = (norm(c, c["dim"], there) for there in (True, c["mlp"] > 0))
        self.attn = (SelfAttention if c["attend"] == "self" else Attention)(c)
        self.mlp = Mlp(c, c["gated"], c["mlp_norm"], c["proj_bias"]) if c["mlp"] else None
        self.ls1, self.ls2 = (LayerScale(c) if c["ls"] and there else nn.Identity()
                              for there in (True, c["mlp"] > 0))

    def forward(self, x, put):
        def below(part):
            return lambda name, t: put(f".{part}.{name}", t)

        def add(x, norm, name, branch, scale, part):
            if self.kind == "pre":
                return x + scale(branch(put(name, norm(x)), below(part)))
            if self.kind == "res":
                return x + scale(norm(branch(x, below(part))))
            return norm(x + scale(branch(x, below(part))))
        x = put(".attn", add(x, self.norm1, ".norm1", self.attn, self.ls1, "attn"))
        if self.mlp is None:
            return put("", x)
        return put("", add(x, self.norm2, ".norm2", self.mlp, self.ls2, "mlp"))


class AttentionPool(nn.Module):
    """timm's AttentionPoolLatent with one latent token."""

    def __init__(self, c):
        super().__init__()
        dim = c["dim"]
        self.heads = c["heads"]
        self.latent = nn.Parameter(torch.zeros(1, 1, dim))
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm, self.mlp = norm(c, dim), Mlp(c)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(self.latent).reshape(1, 1, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).reshape(b, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = ((q * (d // self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        x = self.proj((weights @ v).transpose(1, 2).reshape(b, d))
        return x + self.mlp(self.norm(x))


class PreLogits(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc, self.act = nn.Linear(c["dim"], c["rep"]), ACTIVATIONS[c["rep_act"]]

    def forward(self, x):
        return self.act(self.fc(x))


class VisionTransformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, dim = c, c["dim"]
        self.prefix = c["cls"] + c["dist"] + c["reg"]
        patches = math.prod(grid_of(c, c["img"]))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim)) if c["cls"] else None
        self.dist_token = nn.Parameter(torch.zeros(1, 1, dim)) if c["dist"] else None
        self.reg_token = nn.Parameter(torch.zeros(1, c["reg"], dim)) if c["reg"] else None
        if c["pos"] != "none":
            rows = patches if c["pos"] == "patches" else self.prefix + patches
            self.pos_embed = nn.Parameter(torch.zeros(1, rows, dim))
        self.patch_embed = PatchEmbed(c)
        self.norm_pre = norm(c, dim, c["pre_norm"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["depth"]))
        self.norm = norm(c, dim, c["final_norm"])
        if c["pool"] == "map":
            self.attn_pool = AttentionPool(c)
        self.fc_norm = norm(c, dim, c["fc_norm"])
        if c["rep"]:
            self.pre_logits = PreLogits(c)
        if c["classes"]:
            width = 2 * dim if c["pool"] == "token_avg" else dim
            self.head = nn.Linear(c["rep"] or width, c["classes"])
            if c["dist"]:
                self.head_dist = nn.Linear(dim, c["classes"])

    def add_prefix(self, x):
        tokens = [t for t in (self.cls_token, self.dist_token, self.reg_token) if t is not None]
        return torch.cat([t.expand(len(x), -1, -1) for t in tokens] + [x], dim=1)

    def positions(self, grid):
        """Positions for this grid; a class token and other prefix tokens keep theirs."""
        old = grid_of(self.c, self.c["img"])
        prefix = self.prefix if self.c["pos"] == "all" else 0
        patches = self.pos_embed[:, prefix:].reshape(1, *old, -1).permute(0, 3, 1, 2)
        if list(grid) != old:
            patches = F.interpolate(patches, size=grid, mode="bicubic", antialias=True)
        return torch.cat([self.pos_embed[:, :prefix], patches.flatten(2).transpose(1, 2)], dim=1)

    def add_positions(self, x, grid):
        if self.c["pos"] == "none":
            return self.add_prefix(x)
        if self.c["pos"] == "patches":
            return self.add_prefix(x + self.positions(grid))
        return self.add_prefix(x) + self.positions(grid)

    def pool(self, x):
        patches = x if self.c["pool_prefix"] else x[:, self.prefix:]
        mean, largest = patches.mean(dim=1), patches.amax(dim=1)
        return {"token": lambda: x[:, 0], "avg": lambda: mean, "max": lambda: largest,
                "avgmax": lambda: (mean + largest) / 2, "map": lambda: self.attn_pool(patches),
                "token_avg": lambda: torch.cat([x[:, 0], mean], dim=-1)}[self.c["pool"]]()

    def forward(self, images):
        """All tensors by name, every one [batch, ...]."""
        out = {}

        def put(name, t):
            out[name] = t
            return t

        x = put("patch_embed", self.patch_embed(images, put))
        x = put("pos_embed", self.add_positions(x, grid_of(self.c, images.shape[2:])))
        if self.c["pre_norm"]:
            x = put("norm_pre", self.norm_pre(x))
        for i, block in enumerate(self.blocks):
            x = block(x, lambda name, t: put(f"blocks.{i}{name}", t))
            out[f"attention.{i + 1}"] = out.pop(f"blocks.{i}.attn.softmax")
        x = put("norm", self.norm(x))
        embedding = self.pool(x) if self.dist_token is None else (x[:, 0] + x[:, 1]) / 2
        if self.c.get("told"):
            put("pool", x[:, 0] if self.dist_token is not None else embedding)
        if self.c["fc_norm"]:
            embedding = put("fc_norm", self.fc_norm(embedding))
        if hasattr(self, "pre_logits"):
            embedding = put("pre_logits", self.pre_logits(embedding))
        put("embedding", embedding)
        if hasattr(self, "head_dist"):
            logits = put("head", self.head(x[:, 0])), put("head_dist", self.head_dist(x[:, 1]))
            put("logits", (logits[0] + logits[1]) / 2)
        elif hasattr(self, "head"):
            put("logits", put("head", self.head(embedding)))
        return out


TOKENS = ("cls_token", "dist_token", "reg_token", "pos_embed")


def randomize(model, c):
    """Lively weights: peaked softmax rows, GELU inputs on both sides, LayerNorms that matter."""
    for name, p in model.named_parameters():
        if ".norm" in name or "_norm." in name or name.startswith("norm"):
            base, std = (1.0, 0.3) if name.endswith("weight") else (0.0, 0.3)
        elif name.endswith(".gamma"):
            base, std = 0.6, 0.3
        elif p.dim() == 1:
            base, std = 0.0, 0.2
        elif name in TOKENS or name == "attn_pool.latent":
            base, std = 0.0, 0.7
        else:
            base, std = 0.0, 1.3 / np.sqrt(p[0].numel())
        if name.startswith("patch_embed.proj") or name in TOKENS:
            std *= c["patch_scale"]
        p.data = (base + std * torch.randn(p.shape)).to(c["dtype"]).float()


def image(index, count):
    """The same numbers as fixture_image() in tests/test_parity.c: exact in float32, in [-1, 1)."""
    r, values = (index + 1) * 2654435761 % 2**32, np.empty(count, np.float32)
    for i in range(count):
        r = (r * 1664525 + 1013904223) % 2**32
        values[i] = (r >> 8) / 8388608.0 - 1.0
    return values


def batch(c):
    shape = (c["chans"],) + (c["run"] or c["img"])
    return torch.from_numpy(np.stack([image(i, int(np.prod(shape))).reshape(shape)
                                      for i in range(IMAGES)]))


def adapt(model, c):
    """Adapts the weights as timm does if the patches, the channels and so the grid differ."""
    if not c["adapt"]:
        return model, c
    new = dict(c, patch=c["adapt"][0], chans=c["adapt"][1])
    state, other = model.state_dict(), VisionTransformer(new).eval()
    state["patch_embed.proj.weight"] = torch.stack(
        [other_channels(other_patch(w, new["patch"], FLEXIVIT), new["chans"])
         for w in state["patch_embed.proj.weight"]])
    prefix = model.prefix if c["pos"] == "all" else 0
    old_grid, new_grid = (grid_of(k, c["img"]) for k in (c, new))
    pos = state["pos_embed"][:, prefix:].unflatten(1, old_grid).permute(0, 3, 1, 2)
    pos = WAYS[FLEXIVIT](pos, new_grid).flatten(2).transpose(1, 2)
    state["pos_embed"] = torch.cat([state["pos_embed"][:, :prefix], pos], dim=1)
    other.load_state_dict(state)
    return other, new


def run(model, c):
    """Expected tensors in float32, checked against float64."""
    images = batch(c)
    with torch.no_grad():
        single = model.float()(images)
        double = model.double()(images.double())
        model.float()
    worst = 0.0
    for name, t in single.items():
        error = float((t.double() - double[name]).abs().max() / double[name].abs().max())
        worst = max(worst, error)
        assert error < 2e-6, (name, error)
    keep = {}
    for name, t in single.items():
        if c["only"] is None or name in c["only"]:
            whole = name in ("logits", "embedding")
            keep[name] = (t if whole else t[:c["traced"]]).contiguous()
    return keep, worst


# --- files ---------------------------------------------------------------------------------------

SAFETENSORS_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
                      torch.int64: "I64"}


def save_safetensors(tensors, path):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in sorted(tensors.items()):
        raw = t.contiguous()
        raw = (raw.view(torch.int16) if raw.dtype == torch.bfloat16 else raw).numpy().tobytes()
        header[name] = {"dtype": SAFETENSORS_DTYPES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def save_checkpoint(model, c, folder):
    state = {k: v.detach().to(c["dtype"]) for k, v in model.state_dict().items()}
    wrapped = {c["wrap"]: state} if c["wrap"] else state
    if "safetensors" in c["forms"]:
        save_safetensors(state, os.path.join(folder, "model.safetensors"))
    if "pth" in c["forms"]:
        torch.save(wrapped, os.path.join(folder, "model.pth"))
    if "legacy" in c["forms"]:
        torch.save(wrapped, os.path.join(folder, "model_legacy.pth"),
                   _use_new_zipfile_serialization=False)


def told_args(c):
    """Arguments of timm's VisionTransformer that differ from its defaults."""
    args = dict(
        class_token=(c["cls"], True), reg_tokens=(c["reg"], 0),
        no_embed_class=(c["pos"] == "patches", False),
        pos_embed=("none" if c["pos"] == "none" else "learn", "learn"),
        pre_norm=(c["pre_norm"], False), qk_norm=(c["qk_norm"], False),
        proj_bias=(c["proj_bias"], True), scale_attn_norm=(c["attn_norm"], False),
        scale_mlp_norm=(c["mlp_norm"], False), init_values=(1e-5 if c["ls"] else None, None),
        norm_layer=("rmsnorm" if c["rms"] else None, None), act_layer=(c["act"], None),
        embed_norm_layer=("layernorm" if c["patch_norm"] else None, None),
        mlp_layer=({"packed": "SwiGLUPacked", "split": "SwiGLU", None: None}[c["gated"]], None),
        block_fn=("ResPostBlock" if c["block"] == "res" else None, None),
        pool_include_prefix=(c["pool_prefix"], False),
        final_norm=(c["final_norm"] or c["fc_norm"], True),
        dynamic_img_size=(c["run"] is not None, False), dynamic_img_pad=(c["pad"], False),
        mlp_ratio=(2 * int(c["dim"] * c["mlp"]) / c["dim"] if c["gated"] == "packed" else c["mlp"],
                   None))
    return {key: value for key, (value, default) in args.items() if value != default}


def save_config(case, c, folder):
    """Writes timm's hub form. Settings that this form cannot express go to `options`."""
    args = dict(img_size=list(c["img"]), patch_size=c["patch"], in_chans=c["chans"],
                embed_dim=c["dim"], depth=c["depth"], num_heads=c["heads"], mlp_ratio=c["mlp"])
    if not c["qkv_bias"]:
        args["qkv_bias"] = False
    args.update(told_args(c) if c.get("told") else {})
    stats = [round(0.5 - 0.01 * i, 3) for i in range(c["chans"])]
    config = {
        "architecture": "vit_fixture_" + case,
        "num_classes": c["classes"],
        "num_features": c["rep"] or c["dim"],
        "global_pool": c["pool"],
        "model_args": args,
        "pretrained_cfg": {
            "tag": "fixture", "custom_load": False,
            "input_size": [c["chans"]] + list(c["img"]), "fixed_input_size": True,
            "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center",
            "mean": stats, "std": [round(0.25 + s / 8, 4) for s in stats],
            "num_classes": c["classes"], "pool_size": None,
            "first_conv": "patch_embed.proj",
            "classifier": ["head", "head_dist"] if c["dist"] else "head"}}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    options = []
    if c["block"] == "post":
        options += ["--set", "block_type=post_norm"]
    if c["eps"] != 1e-6 or c.get("told"):
        options += ["--set", f"norm_eps={c['eps']:g}"]
    for key, name in (("rep_act", "representation_act"), ("attend", "attention"),
                      ("cut", "patch_cut"), ("stride", "patch_stride")):
        if c[key] != BASE[key]:
            options += ["--set", f"{name}={c[key]}"]
    if c["qk_scale"]:
        options += ["--set", f"attn_scale={c['qk_scale']:g}"]
    if c["adapt"]:
        options += ["--patch-size", str(c["adapt"][0]), "--in-chans", str(c["adapt"][1]),
                    "--set", "pos_resample=flexivit"]
    if options:
        with open(os.path.join(folder, "options"), "w") as f:
            f.write("\n".join(options) + "\n")


def save_size(c, folder):
    if c["run"]:
        with open(os.path.join(folder, "size"), "w") as f:
            f.write("%dx%d\n" % c["run"])


def save_npy(path, tensor):
    np.save(path, tensor.numpy())


def main():
    wanted = sys.argv[1:] or CASES
    torch.set_num_threads(1)
    total = 0
    for number, (case, changes) in enumerate(CASES.items()):
        if case not in wanted:
            continue
        c = dict(BASE, **changes)
        folder = os.path.join(ROOT, case)
        os.makedirs(folder, exist_ok=True)
        for old in os.listdir(folder):
            os.remove(os.path.join(folder, old))
        torch.manual_seed(c.get("seed", 20260 + number))
        model = VisionTransformer(c).eval()
        randomize(model, c)
        expected, worst = run(*adapt(model, c))
        save_checkpoint(model, c, folder)
        save_config(case, c, folder)
        save_size(c, folder)
        save_safetensors(expected, os.path.join(folder, "expected.safetensors"))
        if case == "plain":  # for vit-run, which reads and writes NumPy files
            save_npy(os.path.join(folder, "input.npy"), batch(c))
            save_npy(os.path.join(folder, "logits.npy"), expected["logits"])
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        total += size
        spread = expected.get("attention.1", torch.zeros(1)).max()
        print(f"{case:15} {size / 1024:7.1f} KiB  f32 against f64 {worst:.1e}  "
              f"largest attention {float(spread):.2f}")
    print(f"{total / 1024:.1f} KiB in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
