#!/usr/bin/python3
"""Writes tests/data/fixtures: small random models with every intermediate tensor, by PyTorch.

Authoring only: the tests read what is committed and need no Python. Run it from anywhere:

    /usr/bin/python3 tests/make_fixtures.py

One folder for each case of CASES:

    model.safetensors, model.pth (zip) or model_legacy.pth    the checkpoint, timm's names
    config.json              in the form of timm's pages on the Hugging Face hub
    options                  further arguments for vit-convert, one word a line (if any)
    expected.safetensors     logits and embedding of 5 images, every traced tensor of the first
                             2 (names as in vit.h), attention.1 .. attention.L

The input images are not stored. Pixel i of image b comes from a 32-bit LCG (see image());
fixture_image() in tests/test_parity.c does the same.

The same run writes the same bytes, but for the names of storages in legacy checkpoints: those
are memory addresses, so PyTorch's own doing.

Every tensor is computed in float32 and again in float64; the two must agree to 2e-6 of the
tensor's maximum, so a fixture that is numerically touchy never gets committed.
"""
import json
import os
import struct
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "fixtures")
IMAGES = 5

BASE = dict(img=(12, 12), patch=4, chans=3, dim=24, depth=1, heads=2, mlp=4.0, classes=10,
            dist=False, rep=0, qkv_bias=True, qk_scale=None, patch_norm=False, eps=1e-6,
            forms=("safetensors",), dtype=torch.float32, wrap=None, traced=2, only=None,
            patch_scale=1.0)

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


# --- the model, with timm's names in the state dict ----------------------------------------------

class PatchEmbed(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj = nn.Conv2d(c["chans"], c["dim"], c["patch"], stride=c["patch"])
        self.norm = nn.LayerNorm(c["dim"], eps=c["eps"]) if c["patch_norm"] else nn.Identity()

    def forward(self, x):
        return self.norm(self.proj(x).flatten(2).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.dim = c["heads"], c["dim"] // c["heads"]
        self.scale = c["qk_scale"] or self.dim ** -0.5
        self.qkv = nn.Linear(c["dim"], 3 * c["dim"], bias=c["qkv_bias"])
        self.proj = nn.Linear(c["dim"], c["dim"])

    def forward(self, x, put):
        b, n, d = x.shape
        qkv = put("qkv", self.qkv(x))
        q, k, v = qkv.reshape(b, n, 3, self.heads, self.dim).permute(2, 0, 3, 1, 4)
        weights = put("softmax", ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1))
        context = put("context", (weights @ v).transpose(1, 2).reshape(b, n, d))
        return put("proj", self.proj(context))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = int(c["dim"] * c["mlp"])
        self.fc1, self.fc2 = nn.Linear(c["dim"], hidden), nn.Linear(hidden, c["dim"])

    def forward(self, x, put):
        return put("fc2", self.fc2(put("act", F.gelu(put("fc1", self.fc1(x))))))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(c["dim"], eps=c["eps"]) for _ in range(2))
        self.attn, self.mlp = Attention(c), Mlp(c)

    def forward(self, x, put):
        def below(part):
            return lambda name, t: put(f".{part}.{name}", t)
        x = put(".attn", x + self.attn(put(".norm1", self.norm1(x)), below("attn")))
        return put("", x + self.mlp(put(".norm2", self.norm2(x)), below("mlp")))


class PreLogits(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc = nn.Linear(c["dim"], c["rep"])

    def forward(self, x):
        return torch.tanh(self.fc(x))


class VisionTransformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        dim, prefix = c["dim"], 1 + c["dist"]
        patches = (c["img"][0] // c["patch"]) * (c["img"][1] // c["patch"])
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.dist_token = nn.Parameter(torch.zeros(1, 1, dim)) if c["dist"] else None
        self.pos_embed = nn.Parameter(torch.zeros(1, prefix + patches, dim))
        self.patch_embed = PatchEmbed(c)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["depth"]))
        self.norm = nn.LayerNorm(dim, eps=c["eps"])
        if c["rep"]:
            self.pre_logits = PreLogits(c)
        if c["classes"]:
            self.head = nn.Linear(c["rep"] or dim, c["classes"])
            if c["dist"]:
                self.head_dist = nn.Linear(dim, c["classes"])

    def forward(self, images):
        """All tensors by name, every one [batch, ...]."""
        out = {}

        def put(name, t):
            out[name] = t
            return t

        x = put("patch_embed", self.patch_embed(images))
        prefix = [self.cls_token] + ([self.dist_token] if self.dist_token is not None else [])
        x = torch.cat([t.expand(len(x), -1, -1) for t in prefix] + [x], dim=1)
        x = put("pos_embed", x + self.pos_embed)
        for i, block in enumerate(self.blocks):
            x = block(x, lambda name, t: put(f"blocks.{i}{name}", t))
            out[f"attention.{i + 1}"] = out.pop(f"blocks.{i}.attn.softmax")
        x = put("norm", self.norm(x))
        embedding = x[:, 0] if self.dist_token is None else (x[:, 0] + x[:, 1]) / 2
        if hasattr(self, "pre_logits"):
            embedding = put("pre_logits", self.pre_logits(embedding))
        put("embedding", embedding)
        if hasattr(self, "head_dist"):
            logits = put("head", self.head(x[:, 0])), put("head_dist", self.head_dist(x[:, 1]))
            put("logits", (logits[0] + logits[1]) / 2)
        elif hasattr(self, "head"):
            put("logits", put("head", self.head(embedding)))
        return out


def randomize(model, c):
    """Lively weights: peaked softmax rows, GELU inputs on both sides, LayerNorms that matter."""
    for name, p in model.named_parameters():
        if ".norm" in name or name.startswith("norm"):
            base, std = (1.0, 0.3) if name.endswith("weight") else (0.0, 0.3)
        elif p.dim() == 1:
            base, std = 0.0, 0.2
        elif name in ("cls_token", "dist_token", "pos_embed"):
            base, std = 0.0, 0.7
        else:
            base, std = 0.0, 1.3 / np.sqrt(p[0].numel())
        if name.startswith("patch_embed.proj") or name in ("cls_token", "dist_token", "pos_embed"):
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
    shape = (c["chans"],) + c["img"]
    return torch.from_numpy(np.stack([image(i, int(np.prod(shape))).reshape(shape)
                                      for i in range(IMAGES)]))


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

SAFETENSORS_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def save_safetensors(tensors, path):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in sorted(tensors.items()):
        raw = t.contiguous()
        raw = (raw.view(torch.int16) if raw.dtype != torch.float32 else raw).numpy().tobytes()
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


def save_config(case, c, folder):
    """timm's hub form. What timm's own hub form cannot say goes to options."""
    args = dict(img_size=list(c["img"]), patch_size=c["patch"], in_chans=c["chans"],
                embed_dim=c["dim"], depth=c["depth"], num_heads=c["heads"], mlp_ratio=c["mlp"])
    if not c["qkv_bias"]:
        args["qkv_bias"] = False
    stats = [round(0.5 - 0.01 * i, 3) for i in range(c["chans"])]
    config = {
        "architecture": "vit_fixture_" + case,
        "num_classes": c["classes"],
        "num_features": c["rep"] or c["dim"],
        "global_pool": "token",
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
    if c["eps"] != 1e-6:
        options += ["--set", f"norm_eps={c['eps']:g}"]
    if c["qk_scale"]:
        options += ["--set", f"attn_scale={c['qk_scale']:g}"]
    if options:
        with open(os.path.join(folder, "options"), "w") as f:
            f.write("\n".join(options) + "\n")


def save_npy(path, tensor):
    np.save(path, tensor.numpy())


def main():
    torch.set_num_threads(1)
    total = 0
    for number, (case, changes) in enumerate(CASES.items()):
        c = dict(BASE, **changes)
        folder = os.path.join(ROOT, case)
        os.makedirs(folder, exist_ok=True)
        for old in os.listdir(folder):
            os.remove(os.path.join(folder, old))
        torch.manual_seed(20260 + number)
        model = VisionTransformer(c).eval()
        randomize(model, c)
        expected, worst = run(model, c)
        save_checkpoint(model, c, folder)
        save_config(case, c, folder)
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
